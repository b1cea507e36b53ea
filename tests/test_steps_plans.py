"""Plans of steps: attributes, coefficients, adjoints, caching; every bad argument with its message."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import pickle
import weakref

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
    SelfAdvection,
)
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import step_arguments, step_setup
from spectralops._plans.schemes import FluxDiffusion, Linear, Tap, Transport, Weight
from spectralops._plans.terms import Field

U64 = ((6, 7), "float64")


def test_attributes_of_a_plan() -> None:
    plan = so.plan_diffusion_step((3, 6, 7), "float16", (0.5, 0.25), 0.01, ArraySpec((3, 1, 1), "float32"), steps=4)
    assert (plan.op, plan.backend) == ("diffusion_step", so.plan_diffusion_step((3,), "float16", 1, 0.1, 1).backend)
    assert plan.operands == (
        Operand("u", ArraySpec((3, 6, 7), "float16"), "float32"),
        Operand("nu", ArraySpec((3, 1, 1), "float32"), "float64"),
    )
    assert plan.in_shape == plan.out_shape == (3, 6, 7)
    assert (plan.out_dtype, plan.compute) == ("float16", "float32")
    assert plan.halo == (0, 4, 4)
    assert plan.index_bits == 32
    assert plan.in_place is False
    assert plan.bytes_moved == 2 * 126 * 2 + 3 * 4
    assert plan.flops == 126 * 4 * 7
    assert (plan.dt, plan.steps, plan.method, plan.integrator) == (0.01, 4, "stencil", "euler")


def test_geometry() -> None:
    low, high = Dirichlet(1.0), Hold()
    plan = so.plan_diffuse_convect_step(
        (6, 7),
        "float32",
        (0.5, 0.25),
        0.01,
        1.0,
        velocity=(1.0, 0.0),
        scheme="weno5",
        bc={1: (low, high), 0: Reflect()},
        axes=(1, 0),
        mask=ArraySpec((7,), "bool"),
        on_unstable="ignore",
    )
    g = plan.geometry
    assert (g.axes, g.spacing, g.widths) == ((0, 1), (0.25, 0.5), (1, 3))
    assert g.conditions == ((Reflect(), Reflect()), (low, high))
    assert g.held == ((False, False), (False, True))
    assert [[len(side) for side in axis] for axis in g.ghosts] == [[1, 1], [3, 3]]
    assert g.mask == 1
    assert g.constant == frozenset()
    assert plan.halo == (1, 3)


def test_operands_in_the_order_of_the_arguments() -> None:
    names = {name: ArraySpec((6, 7), "float32") for name in ("nu", "v0", "v1", "source")}
    plan = so.plan_diffuse_convect_step(
        *U64, 1.0, 0.1, names["nu"], velocity=(names["v0"], 2.0), source=names["source"], mask=ArraySpec((6, 7), "bool")
    )
    assert [operand.name for operand in plan.operands] == ["u", "nu", "velocity[0]", "source", "mask"]
    assert [operand.compute for operand in plan.operands] == ["float64"] * 4 + ["bool"]


@pytest.mark.parametrize("integrator", ["euler", "rk2", "ssprk3", "rk4"])
def test_stages_widen_the_halo_and_count_operations(integrator: str) -> None:
    stages, extra = {"euler": (1, 0), "rk2": (2, 2), "ssprk3": (3, 6), "rk4": (4, 14)}[integrator]
    plan = so.plan_pde_step(
        (8,), "float64", 1.0, 0.1, [Diffusion(0.1), Advection(0.2, "upwind3")], integrator=integrator, steps=3
    )
    assert plan.halo == (2 * stages * 3,)
    # 5 points: p0 u (1), two far apart weights and two near ones (2 each), one of them absent for the wind from below.
    assert plan.flops == 8 * 3 * (stages * plan.update.flops + extra)
    assert plan.update.flops == 1 + 2 * 3


@pytest.mark.parametrize(
    ("terms", "mask", "flops"),
    [
        ([Diffusion(0.1)], None, 1 + 3),
        ([Diffusion(ArraySpec((8,), "float64"))], None, 6),
        ([Diffusion(0.1)], ArraySpec((8,), "bool"), 4),
        ([Advection(1.0, "central")], None, 1 + 4),
        ([Advection(1.0, "central")], ArraySpec((8,), "bool"), 2 + 2),
        ([Advection(1.0, "weno5")], None, 1 + 65 + 2 + 2),
        ([Advection(ArraySpec((8,), "float64"), "weno5")], None, 1 + 2 * (65 + 2) + 3),
        ([Advection(1.0, "weno5", "flux")], None, 1 + 65 + 1 + 3),
        ([Advection(ArraySpec((8,), "float64"), "upwind3", "flux")], None, 1 + 2 * (3 + 1) + 5),
        ([Advection(ArraySpec((8,), "float64"), "central", "flux")], None, 1 + 5),
        ([Advection(ArraySpec((8,), "float64"), "upwind", "flux")], None, 5),
        ([SelfAdvection("upwind")], None, 1 + 3),
        ([SelfAdvection("central")], None, 2 + 3),
        ([SelfAdvection("central", "flux")], None, 3 + 3),
        ([SelfAdvection("upwind", "flux")], None, 5 + 3),
        ([SelfAdvection("upwind3", "flux")], None, 1 + 2 * (3 + 1) + 5 + 3),
        ([so.Source(1.0), Pointwise(np.sin)], None, 2 + 3),
    ],
    ids=str,
)
def test_operations_of_a_stage(terms, mask, flops: int) -> None:
    plan = so.plan_pde_step((8,), "float64", 1.0, 0.1, terms, mask=mask, on_unstable="ignore")
    assert plan.update.flops == flops


def test_coefficients_of_diffusion() -> None:
    linear = so.plan_diffusion_step(*U64, (0.5, 0.25), 0.01, 0.5).update.linear
    assert linear == Linear(
        Weight(-2 * 0.16 * 0.5 - 2 * 0.04 * 0.5),
        (Tap(1, (-1, 1), Weight(0.08)), Tap(0, (-1, 1), Weight(0.02))),
    )


def test_coefficients_of_a_wind_beside_diffusion() -> None:
    linear = so.plan_diffuse_convect_step((8,), "float64", 0.5, 0.1, 0.5, velocity=0.25).update.linear
    r, c = 0.5 * (0.1 / 0.25), 0.25 * 0.1 / 0.5
    assert [(tap.offsets, tap.weight.constant) for tap in linear.taps] == [
        ((-1,), pytest.approx(r + c / 2, rel=1e-15)),
        ((1,), pytest.approx(r - c / 2, rel=1e-15)),
    ]
    assert linear.center.constant == pytest.approx(-2 * r, rel=1e-15)


@pytest.mark.parametrize(
    ("scheme", "velocity", "weights"),
    [
        ("upwind", 1.0, {-1: 1.0, 0: -1.0}),
        ("upwind", -1.0, {1: 1.0, 0: -1.0}),
        ("central", 1.0, {-1: 0.5, 1: -0.5}),
        ("central", -1.0, {-1: -0.5, 1: 0.5}),
        ("upwind3", 1.0, {-2: -1 / 6, -1: 1.0, 0: -0.5, 1: -1 / 3}),
        ("upwind3", -1.0, {2: -1 / 6, 1: 1.0, 0: -0.5, -1: -1 / 3}),
    ],
)
def test_coefficients_of_winds(scheme: str, velocity: float, weights: dict[int, float]) -> None:
    """dt / h = 1: minus v times the derivative's weights; no weight for cells that do not count."""
    linear = so.plan_convection_step(
        (8,), "float64", velocity, 1.0, 1.0, scheme=scheme, on_unstable="ignore"
    ).update.linear
    assert {k: tap.weight.constant for tap in linear.taps for k in tap.offsets} == {
        k: w for k, w in weights.items() if k
    }
    assert linear.center.constant == weights.get(0, 0.0)
    assert [k for tap in linear.taps for k in tap.offsets] == sorted(set(weights) - {0}, key=lambda k: (abs(k), k))


def test_coefficients_of_instances() -> None:
    spec = ArraySpec((3, 1, 1), "float64")
    plan = so.plan_diffuse_convect_step((3, 6, 7), "float64", 1.0, 0.1, spec, velocity=(0.0, 0.5), scheme="upwind")
    assert plan.geometry.constant == frozenset({1})
    assert plan.update.linear == Linear(
        Weight(-0.05, ((1, -0.2), (1, -0.2))),
        (
            Tap(2, (-1,), Weight(0.05, ((1, 0.1),))),
            Tap(2, (1,), Weight(0.0, ((1, 0.1),))),
            Tap(1, (-1, 1), Weight(0.0, ((1, 0.1),))),
        ),
    )


def test_an_array_that_varies_along_a_batch_axis_alone_is_constant() -> None:
    plan = so.plan_diffusion_step((3, 8), "float64", 1.0, 0.1, ArraySpec((3, 1), "float64"), axes=1)
    assert plan.update.linear is not None
    plan = so.plan_diffusion_step((3, 8), "float64", 1.0, 0.1, ArraySpec((3, 1), "float64"), axes=0)
    assert plan.update.linear is None
    plan = so.plan_diffusion_step((3, 8), "float64", 1.0, 0.1, ArraySpec((8,), "float64"), axes=0)
    assert plan.update.linear is not None


def test_flux_diffusion() -> None:
    field = so.plan_diffusion_step(*U64, (0.5, 0.25), 0.01, ArraySpec((7,), "float64")).update
    assert field.linear is None
    assert field.diffusion == (FluxDiffusion(1, Field(1), 0.08), FluxDiffusion(0, Field(1), 0.02))
    masked = so.plan_diffusion_step(*U64, (0.5, 0.25), 0.01, 0.5, mask=ArraySpec((6, 7), "bool")).update
    assert masked.linear is None
    assert masked.diffusion == (FluxDiffusion(1, None, 0.08), FluxDiffusion(0, None, 0.02))


@pytest.mark.parametrize(
    ("scheme", "form", "velocity", "factor", "wind"),
    [
        ("weno5", "advective", 2.0, 0.4, 1),
        ("weno5", "flux", -2.0, -0.4, -1),
        ("weno5", "advective", Field(1), 0.2, 0),
        ("weno5", "flux", Field(1), 0.1, 0),
        ("central", "advective", Field(1), 0.1, 0),
        ("central", "flux", Field(1), 0.05, 0),
        ("upwind", "advective", None, 0.2, 0),
        ("upwind", "flux", None, 0.1, 0),
        ("central", "advective", None, 0.1, 0),
        ("central", "flux", None, 0.05, 0),
    ],
)
def test_factors_of_transport(scheme: str, form: str, velocity, factor: float, wind: int) -> None:
    given = ArraySpec((8,), "float64") if isinstance(velocity, Field) else velocity
    term = SelfAdvection(scheme, form) if velocity is None else Advection(given, scheme, form)
    plan = so.plan_pde_step((8,), "float64", 0.5, 0.1, term, on_unstable="ignore")
    assert plan.update.transport == (Transport(0, scheme, form, velocity, pytest.approx(factor, rel=1e-15), wind),)
    assert plan.update.linear is None


def test_masked_winds_are_transport() -> None:
    mask = ArraySpec((8,), "bool")
    plan = so.plan_convection_step((8,), "float64", -2.0, 0.5, 0.1, scheme="central", mask=mask, on_unstable="ignore")
    assert plan.update.transport == (Transport(0, "central", "advective", -2.0, -0.2, 0),)


def test_index_bits_count_the_ghosts() -> None:
    edge = 2**31 - 1
    assert so.plan_diffusion_step((edge,), "float32", 1.0, 0.1, 1.0).index_bits == 64
    assert so.plan_diffusion_step((edge - 2,), "float32", 1.0, 0.1, 1.0).index_bits == 32
    assert so.plan_diffusion_step((2, edge), "float32", 1.0, 0.1, 1.0).flops == 2 * edge * 7
    for size, bits in ((edge - 6, 32), (edge - 5, 64)):
        plan = so.plan_convection_step((size,), "float32", 1.0, 1.0, 0.1, scheme="weno5", on_unstable="ignore")
        assert plan.index_bits == bits


def test_cells_alone_need_no_ghosts() -> None:
    plan = so.plan_pde_step((8,), "float64", 1.0, 0.1, [so.Source(1.0), Pointwise(np.sin), Advection(0.0)], steps=3)
    assert plan.geometry.widths == (0,)
    assert plan.halo == (0,)


def test_held_sides() -> None:
    for bc, held in (((Hold(), Outflow()), (True, False)), ((Outflow(), Hold()), (False, True))):
        assert so.plan_diffusion_step((8,), "float64", 1.0, 0.1, 1.0, bc=(bc,)).geometry.held == (held,)


def test_plans_are_cached_values() -> None:
    def make(dt: float):
        return so.plan_diffusion_step(*U64, 1.0, dt, 1.0)

    assert make(0.1) is make(0.1)
    assert make(0.1) != make(0.2)
    assert make(0.1).geometry is make(0.2).geometry
    assert pickle.loads(pickle.dumps(make(0.1))) == make(0.1)
    assert hash(pickle.loads(pickle.dumps(make(0.1)))) == hash(make(0.1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        make(0.1).dt = 1.0


@pytest.mark.parametrize("op", ["diffusion_step", "convection_step", "diffuse_convect_step", "pde_step"])
def test_planner_and_operator_share_their_arguments(op: str) -> None:
    call = inspect.signature(getattr(so, op)).parameters
    plan = inspect.signature(getattr(so, f"plan_{op}")).parameters
    shared = [name for name in list(call)[1:] if name not in ("out", "workers")]
    assert [name for name in plan if name not in ("shape", "dtype", "device")] == shared
    assert {name: plan[name].default for name in shared} == {name: call[name].default for name in shared}


def test_plan_and_operator_agree(rng: np.random.Generator) -> None:
    u, nu, v, s = rng.standard_normal((4, 6, 7))
    mask, nu = rng.random((6, 7)) < 0.8, np.abs(nu)
    calls = [
        (so.plan_diffusion_step(*U64, 1.0, 0.01, nu, source=s, mask=mask)(u, nu, s, mask),
         so.diffusion_step(u, 1.0, 0.01, nu, source=s, mask=mask)),
        (so.plan_convection_step(*U64, (v, 1.0), 1.0, 0.1, scheme="central", form="flux", bc=Reflect())(u, v),
         so.convection_step(u, (v, 1.0), 1.0, 0.1, scheme="central", form="flux", bc=Reflect())),
        (so.plan_diffuse_convect_step(*U64, 1.0, 0.1, 0.5, scheme="weno5", form="flux", steps=2)(u),
         so.diffuse_convect_step(u, 1.0, 0.1, 0.5, scheme="weno5", form="flux", steps=2)),
        (so.plan_pde_step(*U64, 1.0, 0.1, Diffusion(0.5), integrator="rk4", axes=0)(u),
         so.pde_step(u, 1.0, 0.1, Diffusion(0.5), integrator="rk4", axes=0)),
    ]  # fmt: skip
    for planned, called in calls:
        np.testing.assert_array_equal(planned, called)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            lambda: so.plan_diffusion_step((6, 7), "float32", 1.0, 0.1, 1.0, steps=4, bc=Hold()),
            [
                "diffusion_step on backend",
                "4 step(s) of euler, dt = 0.1",
                "float32 (6, 7), stepped along axes (0, 1)",
                "term: Diffusion(nu=1.0)",
                "combined into one stencil of 5 points",
                "axis 0: Hold() below, Hold() above, 1 ghost",
                "largest stable dt known while planning: 0.25",
                "method 'stencil'",
                "at least 336 bytes moved, 1176 operations",
            ],
        ),
        (lambda: so.plan_diffusion_step((6, 7), "float64", 1.0, 0.1, ArraySpec((6, 7), "float64")), ["face fluxes"]),
        (lambda: so.plan_diffuse_convect_step((6, 7), "float64", 1.0, 0.1, 1.0), ["cell by cell", "SelfAdvection"]),
    ],
    ids=["diffusion", "field", "burgers"],
)
def test_explain(plan, words: list[str]) -> None:
    text = plan().explain()
    for word in words:
        assert word in text
    assert ("cell by cell" in text) == ("cell by cell" in words)
    assert ("face fluxes" in text) == ("face fluxes" in words)


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


F = "^diffusion_step: "
BAD_DIFFUSION = {
    "dx-zero": ({"dx": 0.0}, ValueError, F + r"dx is 0\.0, but must be positive"),
    "dx-negative": ({"dx": (1.0, -1.0)}, ValueError, F + r"dx is -1\.0, but must be positive"),
    "dx-nan": ({"dx": np.nan}, ValueError, F + "dx is nan, but must be finite"),
    "dx-string": ({"dx": "1"}, TypeError, F + "dx is a str, but must be a real number"),
    "dx-array": ({"dx": np.ones(2)}, TypeError, F + "dx is a ndarray, but must be a real number"),
    "dx-too-many": ({"dx": (1.0,) * 3}, ValueError, F + "u has 2 dimensions, but must have at least 3 to match dx"),
    "dx-axes": ({"dx": (1.0, 1.0), "axes": 0}, ValueError, F + "dx has 2 entries, but must have 1, one per axis"),
    "dt-string": ({"dt": "a"}, TypeError, F + "dt is a str, but must be a real number"),
    "dt-array": ({"dt": np.ones(2)}, TypeError, F + "dt is a ndarray, but must be a real number"),
    "nu-negative": ({"nu": -0.5}, ValueError, F + r"nu is -0\.5, but must not be negative"),
    "nu-nan": ({"nu": np.nan}, ValueError, F + "nu is nan, but must be finite"),
    "nu-list": ({"nu": [1.0]}, TypeError, F + "nu is .*, but must be a real number"),
    "nu-complex": ({"nu": np.ones((6, 7), complex)}, TypeError, F + "nu has dtype complex128, but must be real"),
    "nu-shape": ({"nu": np.ones((6, 8))}, ValueError, F + r"nu has shape \(6, 8\), but must broadcast to \(6, 7\)"),
    "nu-more-axes": (
        {"nu": np.ones((1, 6, 7))},
        ValueError,
        F + r"nu has shape \(1, 6, 7\), but must broadcast to \(6, 7\)",
    ),
    "source-shape": (
        {"source": np.ones(6)},
        ValueError,
        F + r"source has shape \(6,\), but must broadcast to \(6, 7\)",
    ),
    "source-nan": ({"source": np.nan}, ValueError, F + "source is nan, but must be finite"),
    "mask-dtype": ({"mask": np.ones((6, 7))}, TypeError, F + "mask has dtype float64, but must be bool, True where"),
    "mask-scalar": ({"mask": True}, TypeError, F + "mask is a bool, but must be a boolean array"),
    "mask-shape": (
        {"mask": np.ones(6, bool)},
        ValueError,
        F + r"mask has shape \(6,\), but must broadcast to \(6, 7\)",
    ),
    "steps-zero": ({"steps": 0}, ValueError, F + "steps is 0, but must be at least 1"),
    "steps-float": ({"steps": 1.5}, TypeError, F + r"steps is 1\.5, but must be an integer"),
    "axes-out": ({"axes": 2}, ValueError, F + r"axes has 2, but must lie in \[-2, 2\) for u with 2 dimensions"),
    "axes-twice": ({"axes": (0, -2)}, ValueError, F + r"axes is \(0, -2\), but must not name an axis twice"),
    "method-unknown": (
        {"method": "fft"},
        ValueError,
        F + "method is 'fft', but must be 'stencil', 'spectral' or 'auto'",
    ),
    "on-unstable": (
        {"on_unstable": "no"},
        ValueError,
        F + "on_unstable is 'no', but must be 'raise', 'warn' or 'ignore'",
    ),
    "bc-string": ({"bc": "periodic"}, TypeError, F + r"bc is 'periodic', but must be Periodic\(\)"),
    "bc-count": ({"bc": (Reflect(),)}, ValueError, F + "bc has 1 entries, but must have 2"),
    "backend": ({"backend": "gpu"}, ValueError, F + "backend is 'gpu', but must be "),
    "robin": ({"bc": Robin(-2.0, 0.0)}, ValueError, r"^Robin: gamma is -2\.0, but must differ from -2\.0"),
}


@pytest.mark.parametrize("name", BAD_DIFFUSION)
def test_bad_arguments(name: str) -> None:
    options, error, message = BAD_DIFFUSION[name]
    u = np.ones((6, 7))
    with pytest.raises(error, match=message):
        so.diffusion_step(u, **({"dx": 1.0, "dt": 0.1, "nu": 1.0} | options))
    np.testing.assert_array_equal(u, np.ones((6, 7)))


C = "^convection_step: "


@pytest.mark.parametrize(
    ("velocity", "options", "error", "message"),
    [
        (None, {}, TypeError, C + "velocity is None, but must be a number, an array or a sequence"),
        (1.0, {}, ValueError, C + "velocity is a single float, but must be a sequence of 2, one component per stepped"),
        (np.ones((2, 8, 8)), {}, ValueError, C + "velocity is a single array, but must be a sequence of 2"),
        ((1.0, np.inf), {}, ValueError, C + r"velocity\[1\] is inf, but must be finite"),
        (
            (np.ones((8, 9)), 0.0),
            {},
            ValueError,
            C + r"velocity\[0\] has shape \(8, 9\), but must broadcast to \(8, 8\)",
        ),
        (
            (1.0,),
            {"dx": (1.0, 1.0)},
            ValueError,
            C + "dx has 2 entries and velocity has 1, but both must have one per axis",
        ),
        (
            (1.0, 1.0),
            {"scheme": "weno"},
            ValueError,
            C + "scheme is 'weno', but must be 'central', 'upwind', 'upwind3' or",
        ),
        ((1.0, 1.0), {"form": "weak"}, ValueError, C + "form is 'weak', but must be 'advective' or 'flux'"),
        ((1.0, "x"), {}, TypeError, C + r"velocity\[1\] is a str, but must be a real number"),
    ],
    ids=["none", "bare", "one-array", "inf", "err03-shape", "counts", "scheme", "form", "string"],
)
def test_bad_velocities(velocity, options, error, message: str) -> None:
    with pytest.raises(error, match=message):
        so.convection_step(np.ones((8, 8)), velocity, **({"dx": 1.0, "dt": 0.1} | options))


@pytest.mark.parametrize("option", ["scheme", "form"])
def test_words_of_diffuse_convect_step(option: str) -> None:
    with pytest.raises(ValueError, match=f"^diffuse_convect_step: {option} is 'x', but must be "):
        so.diffuse_convect_step(np.ones(4), 1.0, 0.1, 1.0, **{option: "x"})


def test_fields_must_be_real_arrays() -> None:
    with pytest.raises(so.UnsupportedError, match=r"^diffusion_step: dtype is complex128, but must be one"):
        so.diffusion_step(np.ones(4, complex), 1.0, 0.1, 1.0)
    with pytest.raises(TypeError, match=r"^diffusion_step: u is a str, but must be an array"):
        so.diffusion_step("u", 1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match=r"^diffusion_step: u has 0 dimensions, but must have at least 1"):
        so.diffusion_step(np.array(1.0), 1.0, 0.1, 1.0)


def test_at_most_three_axes() -> None:
    with pytest.raises(ValueError, match=r"^diffusion_step: axes has 4 entries, but must have 1 to 3"):
        so.diffusion_step(np.ones((2,) * 4), 1.0, 0.1, 1.0, axes=(0, 1, 2, 3))


def test_too_few_cells_for_a_mirror() -> None:
    with pytest.raises(
        ValueError, match=r"^convection_step: an axis has 2 cells, but must have at least 3 for the ghosts"
    ):
        so.convection_step(np.ones(2), 1.0, 1.0, 0.1, scheme="weno5", bc=Reflect(), on_unstable="ignore")


def test_three_axes_by_the_number_of_spacings(rng: np.random.Generator) -> None:
    u = rng.standard_normal((2, 3, 4, 5))
    by_dx = so.diffusion_step(u, (1.0, 1.0, 1.0), 0.1, 1.0)
    by_velocity = so.diffuse_convect_step(u, 1.0, 0.1, 1.0, velocity=(0.0, 0.0, 0.0))
    np.testing.assert_array_equal(by_dx, so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(1, 2, 3)))
    np.testing.assert_array_equal(by_dx, by_velocity)


def test_mixed_libraries() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        TypeError, match=r"^diffusion_step: nu is a numpy array on cpu, but must be a torch array on cpu like u"
    ):
        so.diffusion_step(torch.ones(4), 1.0, 0.1, np.ones(4))


class TestRecentPlans:
    """Plans are found again by their arguments; what must not be found that way is not."""

    u = np.ones(6)

    @staticmethod
    def plan(**options):
        return so.plan_diffusion_step((6,), "float64", **({"dx": 1.0, "dt": 0.1, "nu": 0.1} | options))

    @pytest.mark.parametrize(
        "options",
        [
            {"dx": (1.0,), "dt": 0.123, "bc": ((Reflect(), Outflow()),), "source": 1, "steps": 3},
            {"nu": np.full(6, 0.1)},
            {"source": np.ones(6), "mask": np.ones(6, bool)},
            {"nu": np.array(0.1)},
            {"on_unstable": "warn"},
        ],
        ids=["numbers", "nu", "fields", "0-d", "warn"],
    )
    def test_equal_arguments_find_the_plan(self, options) -> None:
        assert self.plan(**options) is self.plan(**options)

    @pytest.mark.parametrize("options", [{"bc": {0: Reflect()}}, {"axes": [0]}, {"dx": [1.0]}], ids=str)
    def test_arguments_without_a_hash_make_equal_plans(self, options) -> None:
        assert self.plan(**options) == self.plan(**options)

    def test_a_new_dt_looks_at_no_argument_again(self) -> None:
        plan = self.plan(dt=0.2)
        before = step_arguments._setup.cache_info()
        other = self.plan(dt=0.3)
        after = step_arguments._setup.cache_info()
        assert (after.misses, after.hits) == (before.misses, before.hits + 1)
        assert other.geometry is plan.geometry
        assert (other.dt, other.update.linear.taps[0].weight.constant) == (0.3, 0.3 * 0.1)

    def test_only_the_last_plans_are_kept(self) -> None:
        step_arguments._setup.cache_clear()
        first = self.plan(dt=0.4)
        for k in range(step_setup.KEPT - 1):
            self.plan(dt=0.41 + 0.001 * k)
        assert self.plan(dt=0.4) is first
        self.plan(dt=0.45)
        assert self.plan(dt=0.4) is not first

    def test_the_bound_follows_the_values_of_nu(self) -> None:
        nu = np.full(6, 0.1)
        assert self.plan(nu=nu).stable_dt == 5.0
        nu[2] = 1.0
        assert self.plan(nu=nu).stable_dt == 0.5
        with pytest.raises(so.StabilityError):
            self.plan(nu=nu, dt=0.6)

    def test_functions_are_not_kept(self) -> None:
        function = lambda u: -u  # noqa: E731
        alive = weakref.ref(function)
        so.pde_step(self.u, 1.0, 0.1, so.Pointwise(function))
        del function
        gc.collect()
        assert alive() is None

    def test_zero_dimensional_tensors_are_read_anew(self) -> None:
        torch = pytest.importorskip("torch")
        nu, spike = torch.tensor(0.1, dtype=torch.float64), np.array([0.0, 1.0, 0.0])
        assert so.diffusion_step(spike, 1.0, 1.0, nu)[1] == pytest.approx(0.8, rel=1e-15)
        nu.fill_(0.2)
        assert so.diffusion_step(spike, 1.0, 1.0, nu)[1] == pytest.approx(0.6, rel=1e-15)

    def test_a_wrong_type_is_seen_after_a_right_one(self) -> None:
        so.diffusion_step(self.u, 1.0, 0.1, 0.1, steps=1)
        with pytest.raises(TypeError, match=r"^diffusion_step: steps is 1\.0, but must be an integer"):
            so.diffusion_step(self.u, 1.0, 0.1, 0.1, steps=1.0)


def test_remembered_plans_are_told_apart_by_type():
    """Equal numbers of other types are refused also after the plan of the right ones was made."""
    u = np.ones((4, 4))
    so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(0, 1))
    with pytest.raises(TypeError, match=r"^diffusion_step: axes is \(0\.0, 1\.0\), but must be integers$"):
        so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(0.0, 1.0))
    with pytest.raises(TypeError, match=r"^diffusion_step: nu is .*1\+0j.*, but must be a real number$"):
        so.diffusion_step(u, 1.0, 0.1, np.complex128(1.0), axes=(0, 1))


def test_on_unstable_must_be_a_word():
    with pytest.raises(TypeError, match=r"^diffusion_step: on_unstable is a ndarray, but must be 'raise', 'warn' or"):
        so.diffusion_step(np.ones(4), 1.0, 0.1, 1.0, on_unstable=np.array(["warn", "raise"]))


def test_device_must_be_one():
    with pytest.raises(ValueError, match=r"^diffusion_step: device is 'tpu', but must be 'cpu' or 'cuda'$"):
        so.plan_diffusion_step((4,), "float64", 1.0, 0.1, 1.0, device="tpu")
    assert so.plan_diffusion_step((4,), "float64", 1.0, 0.1, 1.0, device="cuda:1").backend == "cuda"


# The largest diffusivity of the computed cells.


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("part", [1, 7, 1 << 15])
def test_largest_diffusivity_in_parts(layout, part, monkeypatch, rng):
    monkeypatch.setattr(step_arguments, "PART", part)
    nu, mask = 0.1 + 0.1 * rng.random((9, 11)), rng.random((9, 11)) > 0.3
    nu[~mask] = rng.choice([np.nan, -1.0, 9.0, np.inf], (~mask).sum())
    nu[8, 5], mask[8, 5] = 0.25, True
    plan = so.plan_diffusion_step((9, 11), "float64", 1.0, 0.1, layout(nu), mask=layout(mask))
    assert plan.stable_dt == 1.0


@pytest.mark.parametrize("land", [0.1, 9.0])
def test_land_counts_only_where_it_is_no_land(land):
    nu, mask = np.array([0.25, 0.2, land, 0.1]), np.array([True, True, False, True])
    assert so.plan_diffusion_step((4,), "float64", 1.0, 0.1, nu, mask=mask).stable_dt == 2.0
    assert so.plan_diffusion_step((4,), "float64", 1.0, 0.1, nu, mask=mask | True, on_unstable="ignore").stable_dt == (
        2.0 if land < 1 else 1 / 18
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_bad_diffusivity_at_sea_is_refused(bad):
    nu, mask = np.array([0.1, 0.2, bad, np.nan]), np.array([True, True, True, False])
    with pytest.raises(ValueError, match=f"nu has the value {bad}, but must be finite and not negative"):
        so.plan_diffusion_step((4,), "float64", 1.0, 0.1, nu, mask=mask)


def test_diffusivities_on_land_alone_limit_nothing():
    plan = so.plan_diffusion_step((2,), "float64", 1.0, 0.1, np.array([9.0, 9.0]), mask=np.array([False, False]))
    assert plan.stable_dt == np.inf
