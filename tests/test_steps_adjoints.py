"""Adjoints of steps are their transposes; steps without one say why."""

from __future__ import annotations

import numpy as np
import pytest

import spectralops as so
from spectralops import (
    Advection,
    Diffusion,
    Dirichlet,
    Hold,
    Neumann,
    Outflow,
    Pointwise,
    Reflect,
    Robin,
)
from spectralops._arrays import ArraySpec


def matrix(plan, shape: tuple[int, ...], *operands) -> np.ndarray:
    """The linear part of a step as a dense matrix: columns are the responses to unit cells."""
    count = int(np.prod(shape))
    zero = plan(np.zeros(shape), *operands).ravel()
    return np.stack([plan(e.reshape(shape), *operands).ravel() - zero for e in np.eye(count)], axis=1)


ADJOINTS = {
    "diffusion": lambda: (so.plan_diffusion_step((3, 4), "float64", (0.5, 0.7), 0.05, 1.0, steps=3), ()),
    "walls": lambda: (
        so.plan_diffusion_step(
            (4, 3),
            "float64",
            0.5,
            0.05,
            1.0,
            source=2.0,
            bc=((Dirichlet(1.0), Neumann(2.0)), (Robin(0.5, 3.0), Outflow())),
        ),
        (),
    ),
    "reflect": lambda: (so.plan_diffusion_step((5,), "float64", 0.5, 0.05, 1.0, bc=Reflect()), ()),
    "wind": lambda: (
        so.plan_diffuse_convect_step((3, 5), "float64", 0.5, 0.05, 0.5, velocity=(1.0, -0.5), scheme="upwind3"),
        (),
    ),
    "rk4": lambda: (
        so.plan_pde_step((6,), "float64", 0.5, 0.05, [Diffusion(0.5), Advection(1.0, "upwind")], integrator="rk4"),
        (),
    ),
    "nu-mask-source": lambda: (
        so.plan_diffusion_step(
            (6,),
            "float64",
            0.5,
            0.05,
            ArraySpec((6,), "float64"),
            source=ArraySpec((6,), "float64"),
            mask=ArraySpec((6,), "bool"),
        ),
        (np.linspace(0.1, 1, 6), np.ones(6), np.array([1, 1, 0, 1, 1, 1], bool)),
    ),
    "instances": lambda: (
        so.plan_pde_step(
            (2, 3),
            "float64",
            0.5,
            0.05,
            [so.Source(ArraySpec((2, 3), "float64")), Diffusion(ArraySpec((2, 1), "float64"))],
            axes=1,
        ),
        (np.ones((2, 3)), np.array([[0.5], [1.0]])),
    ),
}


@pytest.mark.parametrize("name", ADJOINTS)
def test_adjoint_is_the_transpose(name: str) -> None:
    plan, operands = ADJOINTS[name]()
    adjoint = plan.adjoint()
    kept = [
        x
        for x, operand in zip(operands, plan.operands[1:], strict=True)
        if operand.name in ("nu", "mask", "terms[1].nu")
    ]
    np.testing.assert_allclose(
        matrix(adjoint, plan.in_shape, *kept), matrix(plan, plan.in_shape, *operands).T, rtol=0, atol=1e-15
    )
    assert (adjoint.op, adjoint.backend, adjoint.steps) == (plan.op, plan.backend, plan.steps)
    assert adjoint.stable_dt == plan.stable_dt
    np.testing.assert_array_equal(adjoint(np.zeros(plan.in_shape), *kept), np.zeros(plan.in_shape))


def test_adjoint_of_an_adjoint() -> None:
    plan = so.plan_diffuse_convect_step((3, 5), "float64", 0.5, 0.05, 0.5, velocity=(1.0, -0.5))
    assert plan.adjoint().adjoint() == plan


def test_adjoint_takes_gradients_of_the_result() -> None:
    """Integer fields give float results, whose cotangents are floats."""
    plan = so.plan_diffusion_step((5,), "int64", 1.0, 0.1, 1.0)
    assert plan.adjoint().operands[0].spec == ArraySpec((5,), "float64")


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (lambda: so.plan_diffuse_convect_step((5,), "float64", 1.0, 0.1, 1.0), "the nonlinear term SelfAdvection"),
        (lambda: so.plan_pde_step((5,), "float64", 1.0, 0.1, Pointwise(np.sin)), "the nonlinear term Pointwise"),
        (
            lambda: so.plan_convection_step((5,), "float64", ArraySpec((5,), "float64"), 1.0, 0.1),
            "a velocity given as an",
        ),
        (
            lambda: so.plan_convection_step((5,), "float64", 1.0, 1.0, 0.1, scheme="weno5", on_unstable="ignore"),
            "the nonlinear scheme 'weno5'",
        ),
        (lambda: so.plan_convection_step((5,), "float64", 1.0, 1.0, 0.1, bc=Outflow()), "advection across boundaries"),
        (
            lambda: so.plan_convection_step((5,), "float64", 1.0, 1.0, 0.1, mask=ArraySpec((5,), "bool")),
            "advection across boundaries",
        ),
        (lambda: so.plan_diffusion_step((5,), "float64", 1.0, 0.1, 1.0, bc=((Outflow(), Hold()),)), "held ends"),
    ],
)
def test_steps_without_an_adjoint(plan, reason: str) -> None:
    with pytest.raises(so.UnsupportedError, match=f"_step: the step has {reason}.*, but must not, to have an adjoint"):
        plan().adjoint()
