"""method="spectral" and "auto" of the steps: the same numbers as stepping, by one multiplication of coefficients."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from support import EPS, assert_close, random_array

import spectralops as so
from spectralops import _compiler
from spectralops._arrays import ArraySpec
from spectralops._plans import grid, transform
from spectralops.boundary import Dirichlet, Hold, Neumann, Outflow, Periodic, Reflect, Robin

P, R, D = Periodic(), Reflect(), Dirichlet(0.0)
SHAPES = {
    "1d": ((9,), P, None),
    "1d-one-cell": ((1,), P, None),
    "1d-closed": ((8,), R, None),
    "1d-closed-one-cell": ((1,), R, None),
    "1d-zero": ((7,), D, None),
    "1d-zero-one-cell": ((1,), D, None),
    "1d-zero-two-cells": ((2,), D, None),
    "1d-outflow": ((6,), ((Neumann(0.0), Outflow()),), None),
    "2d": ((6, 7), P, None),
    "2d-batch": ((2, 4, 5), P, None),
    "2d-empty-batch": ((0, 4, 5), P, None),
    "closed-periodic": ((6, 8), (R, P), None),
    "periodic-closed": ((6, 7), (P, R), None),
    "periodic-zero": ((6, 8), (P, D), None),
    "zero-closed": ((5, 4), (D, R), None),
    "axes-swapped": ((5, 3, 4), (P, D), (2, 0)),
    "leading-axis": ((7, 3), (D,), (0,)),
    "3d": ((3, 4, 5), (P, D, R), None),
    "3d-periodic-around-a-wall": ((3, 4, 6), (P, R, P), None),
}
SPACING = (0.5, 0.75, 1.0)


def bound(dtype: str, steps: int) -> float:
    """Rounding errors of stepping add up over the steps; those of the transforms are the constant."""
    return (8 + 4 * steps) * EPS[dtype]


def diffuse(u: np.ndarray, name: str, steps: int, method: str, **options) -> np.ndarray:
    _, bc, axes = SHAPES[name]
    count = len(bc) if isinstance(bc, tuple) else min(2, len(u.shape))
    return so.diffusion_step(u, SPACING[:count], 0.02, 1.5, bc=bc, axes=axes, steps=steps, method=method, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("steps", [1, 2, 3, 6, 37, 64])
@pytest.mark.parametrize("name", SHAPES)
def test_diffusion_agrees_with_stepping(rng: np.random.Generator, name: str, steps: int, dtype: str) -> None:
    u = random_array(rng, SHAPES[name][0], dtype)
    result = diffuse(u, name, steps, "spectral")
    assert result.dtype == dtype
    assert_close(result, diffuse(u.astype(float), name, steps, "stencil"), bound(dtype, steps))


@pytest.mark.parametrize("kind", ["number", "field", "row", "both"])
@pytest.mark.parametrize("steps", [1, 5, 40])
@pytest.mark.parametrize("name", ["1d", "2d-batch", "1d-zero", "1d-closed", "periodic-zero", "zero-closed", "3d"])
def test_constant_sources_are_exact(rng: np.random.Generator, name: str, steps: int, kind: str) -> None:
    shape, bc, _ = SHAPES[name]
    u, field = rng.standard_normal(shape), rng.standard_normal(shape)
    sources = {"number": [0.7], "field": [field], "row": [field[..., :1, :]] if len(shape) > 1 else [field[:1]]}
    given = sources.get(kind, [0.7, field, -0.2])
    count = len(bc) if isinstance(bc, tuple) else min(2, len(shape))
    terms = [so.Diffusion(1.5), *(so.Source(s) for s in given)]
    run = {
        method: so.pde_step(u, SPACING[:count], 0.02, terms, bc=bc, steps=steps, method=method)
        for method in ("spectral", "stencil")
    }
    assert_close(run["spectral"], run["stencil"], bound("float64", steps))


@pytest.mark.parametrize("steps", [1, 50, 1000])
def test_a_source_on_the_uniform_mode_grows_linearly(steps: int) -> None:
    result = so.diffusion_step(np.ones(8), 1.0, 0.25, 1.0, source=2.0, bc=R, steps=steps, method="spectral")
    np.testing.assert_allclose(result, 1 + 0.5 * steps, rtol=1e-14)


def test_a_source_reaches_the_steady_state() -> None:
    """u'' = -2 with u = 0 at the faces of [0, 1]: the discrete solution is x (1 - x) + h^2 / 4."""
    n = 16
    x = (np.arange(n) + 0.5) / n
    result = so.diffusion_step(np.zeros(n), 1 / n, 0.4 / n**2, 1.0, source=2.0, bc=D, steps=10**7, method="spectral")
    np.testing.assert_allclose(result, x * (1 - x) + 1 / (4 * n**2), rtol=1e-12)


@pytest.mark.parametrize("source", [False, True], ids=["", "source"])
@pytest.mark.parametrize("integrator", ["euler", "rk2", "ssprk3", "rk4"])
@pytest.mark.parametrize("scheme", ["upwind", "central", "upwind3"])
def test_advection_agrees_with_stepping(rng: np.random.Generator, scheme: str, integrator: str, source: bool) -> None:
    u, s = rng.standard_normal((2, 6, 7)), rng.standard_normal((6, 7))
    terms = [so.Diffusion(0.3), so.Advection((0.5, -0.7), scheme, "flux")] + [so.Source(s)] * source
    run = {
        method: so.pde_step(u, (0.5, 1.0), 0.02, terms, integrator=integrator, steps=21, method=method)
        for method in ("spectral", "stencil")
    }
    assert_close(run["spectral"], run["stencil"], bound("float64", 21))


@pytest.mark.parametrize("integrator", ["euler", "rk2", "ssprk3", "rk4"])
def test_integrators_on_walls(rng: np.random.Generator, integrator: str) -> None:
    u = rng.standard_normal((5, 6))
    run = {
        method: so.pde_step(
            u, 0.5, 0.02, [so.Diffusion(1.0), so.Source(0.4)], integrator=integrator, bc=(D, R), steps=11, method=method
        )
        for method in ("spectral", "stencil")
    }
    assert_close(run["spectral"], run["stencil"], bound("float64", 11))


def test_advection_along_a_channel(rng: np.random.Generator) -> None:
    """Walls on the other axis do not mind."""
    u = rng.standard_normal((5, 8))
    run = {
        method: so.diffuse_convect_step(
            u, (0.5, 1.0), 0.05, 0.3, velocity=(0.0, 0.8), scheme="upwind", bc=(R, P), steps=30, method=method
        )
        for method in ("spectral", "stencil")
    }
    assert_close(run["spectral"], run["stencil"], bound("float64", 30))


def test_two_winds_and_two_diffusivities_add_up(rng: np.random.Generator) -> None:
    u = rng.standard_normal(9)
    terms = [so.Diffusion(0.1), so.Diffusion(0.2), so.Advection(0.4, "upwind"), so.Advection(-0.3, "central")]
    run = {m: so.pde_step(u, 0.5, 0.05, terms, steps=9, method=m) for m in ("spectral", "stencil")}
    assert_close(run["spectral"], run["stencil"], bound("float64", 9))


def test_courant_number_one_is_a_shift(rng: np.random.Generator) -> None:
    u = rng.standard_normal((3, 8))
    result = so.convection_step(u, 2.0, 0.5, 0.25, axes=1, steps=1003, method="spectral")
    np.testing.assert_allclose(result, np.roll(u, 1003, 1), atol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scheme", [None, "upwind"])
def test_a_diffusivity_for_each_instance(rng: np.random.Generator, dtype: str, scheme: str | None) -> None:
    u = random_array(rng, (3, 6, 5), dtype)
    nu = np.array([0.1, 0.5, 0.9]).reshape(3, 1, 1)
    terms = [so.Diffusion(0.05), so.Diffusion(nu), so.Source(0.3)]
    if scheme:
        terms.append(so.Advection((0.2, 0.3), scheme))
    run = {
        method: so.pde_step(u.astype(kind), 1.0, 0.1, terms, bc=P if scheme else (D, P), steps=20, method=method)
        for method, kind in (("spectral", dtype), ("stencil", "float64"))
    }
    assert run["spectral"].dtype == dtype
    assert_close(run["spectral"], run["stencil"], bound(dtype, 20))


def test_a_diffusivity_for_each_column(rng: np.random.Generator) -> None:
    u, nu = rng.standard_normal((7, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    run = {m: so.diffusion_step(u, 1.0, 0.5, nu, axes=0, steps=12, method=m) for m in ("spectral", "stencil")}
    assert_close(run["spectral"], run["stencil"], bound("float64", 12))


def test_the_reference_steps(rng: np.random.Generator) -> None:
    u = rng.standard_normal((4, 5))
    result = so.diffusion_step(u, 0.5, 0.02, 1.0, bc=(D, P), steps=8, method="spectral", backend="reference")
    expected = so.diffusion_step(u, 0.5, 0.02, 1.0, bc=(D, P), steps=8, backend="reference")
    np.testing.assert_array_equal(result, expected)


def test_a_mode_decays_by_the_power(rng: np.random.Generator) -> None:
    n, j, steps = 16, 1, 500
    mode = np.sin(j * np.pi * (np.arange(n) + 0.5) / n)
    factor = (1 - 4 * 0.25 * np.sin(j * np.pi / (2 * n)) ** 2) ** steps
    result = so.diffusion_step(mode, 1.0, 0.25, 1.0, bc=D, steps=steps, method="spectral")
    np.testing.assert_allclose(result, factor * mode, rtol=1e-11)


@pytest.mark.parametrize("layout", ["F", "reversed", "strided"])
def test_any_layout_and_out(rng: np.random.Generator, layout: str) -> None:
    base = rng.standard_normal((8, 12))
    u = {"F": np.asfortranarray(base), "reversed": base[::-1, ::-1], "strided": base[:, ::2]}[layout]
    before = u.copy()
    out = np.full(u.shape, np.nan)
    result = so.diffusion_step(u, 1.0, 0.2, 1.0, bc=(D, P), source=u, steps=9, method="spectral", out=out)
    assert result is out
    np.testing.assert_array_equal(u, before)
    expected = so.diffusion_step(before, 1.0, 0.2, 1.0, bc=(D, P), source=before, steps=9)
    assert_close(out, expected, bound("float64", 9))


def test_half_precision_and_torch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    u = torch.as_tensor(rng.standard_normal((4, 5))).to(torch.bfloat16)
    result = so.diffusion_step(u, 1.0, 0.2, 1.0, steps=60, method="spectral")
    assert result.dtype == torch.bfloat16
    expected = so.diffusion_step(u.double(), 1.0, 0.2, 1.0, steps=60)
    assert_close(result.double().numpy(), expected.numpy(), 8e-3)


def test_workers_change_nothing(rng: np.random.Generator) -> None:
    u = rng.standard_normal((4, 16, 16))
    one, two = (so.diffusion_step(u, 1.0, 0.2, 1.0, bc=(R, P), steps=9, method="spectral", workers=w) for w in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_an_unstable_step_overflows_without_a_word() -> None:
    u = np.array([1.0, -1.0, 1.0, -1.0])
    result = so.diffusion_step(u, 1.0, 1.0, 1.0, steps=10**6, method="spectral", on_unstable="ignore")
    assert not np.isfinite(result).any()
    with pytest.raises(so.StabilityError):
        so.diffusion_step(u, 1.0, 1.0, 1.0, steps=2, method="spectral")


def test_nan_spreads_over_its_instance() -> None:
    u = np.zeros((2, 8))
    u[1, 3] = np.nan
    result = so.diffusion_step(u, 1.0, 0.2, 1.0, axes=1, steps=2, method="spectral")
    assert np.isnan(result).tolist() == [[False] * 8, [True] * 8]


# method="auto"


@pytest.mark.parametrize(
    ("integrator", "steps", "expected"),
    [
        ("euler", 29, "stencil"),
        ("euler", 30, "spectral"),
        ("rk2", 14, "stencil"),
        ("rk2", 15, "spectral"),
        ("ssprk3", 9, "stencil"),
        ("ssprk3", 10, "spectral"),
        ("rk4", 7, "stencil"),
        ("rk4", 8, "spectral"),
    ],
)
def test_auto_counts_right_hand_sides(integrator: str, steps: int, expected: str) -> None:
    plan = so.plan_pde_step(
        (8, 8), "float64", 1.0, 0.1, so.Diffusion(1.0), integrator=integrator, steps=steps, method="auto"
    )
    assert plan.method == expected


@pytest.mark.parametrize(
    ("shape", "options", "least"),
    [
        ((64,), {}, 40),
        ((8, 8), {}, 30),
        ((4, 4, 4), {}, 10),
        ((64,), {"bc": R}, 50),
        ((8, 8), {"bc": (D, P)}, 50),
        ((4, 4, 4), {"bc": (P, P, R)}, 25),
        ((8, 8), {"nu": ArraySpec((8, 1), "float64"), "axes": 1}, 50),
        ((8, 8), {"backend": "numpy"}, 4),
        ((8, 8), {"device": "cuda"}, 50),
    ],
    ids=str,
)
def test_auto_weighs_who_computes(shape: tuple[int, ...], options: dict, least: int) -> None:
    """Transforms against the stencils of the same backend."""
    options = {"nu": 1.0, "axes": tuple(range(len(shape)))} | options
    few, many = (
        so.plan_diffusion_step(shape, "float64", 1.0, 0.1, steps=steps, method="auto", **options)
        for steps in (least - 1, least)
    )
    assert (few.method, many.method) == ("stencil", "spectral")
    assert f"'spectral' pays from {least} right-hand sides on, here {least - 1}" in few.explain()


def test_auto_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_compiler.SWITCH, "0")
    plan = so.plan_diffusion_step((9, 77), "float64", 1.0, 0.11, 1.0, steps=4, method="auto")
    assert (plan.method, plan.backend) == ("spectral", "numpy")


REFUSALS = [
    (
        {"bc": Dirichlet(1.0)},
        [],
        r"the ends of axis 0 are Dirichlet\(value=1\.0\) and Dirichlet\(value=1\.0\), not Periodic\(\), nor both",
    ),
    ({"bc": ((D, R), P)}, [], r"the ends of axis 0 are Dirichlet\(value=0\.0\) and Reflect\(\), not"),
    ({"bc": (P, (R, D))}, [], r"the ends of axis 1 are Reflect\(\) and Dirichlet\(value=0\.0\), not"),
    ({"bc": Neumann(1.0)}, [], r"the ends of axis 0 are Neumann\(derivative=1\.0\)"),
    ({"bc": Robin(1.0, 0.0)}, [], r"the ends of axis 0 are Robin"),
    ({"bc": Hold()}, [], r"the ends of axis 0 are Hold\(\) and Hold\(\)"),
    ({"mask": np.ones((4, 5), bool)}, [], r"a mask closes faces"),
    ({}, [so.Diffusion(np.ones(5))], r"nu varies along the stepped axes"),
    ({}, [so.Advection((1.0, 0.0), "weno5")], r"the scheme 'weno5' is not linear"),
    ({}, [so.Advection((np.ones((4, 5)), 0.0), "upwind")], r"the velocity is an array"),
    ({"bc": (R, P)}, [so.Advection((1.0, 0.0))], r"the velocity crosses the ends of an axis that is not periodic"),
    ({"bc": (P, D)}, [so.Advection((0.0, -1.0))], r"the velocity crosses the ends of an axis that is not periodic"),
    ({}, [so.SelfAdvection("upwind")], r"u carries itself, which is not linear"),
    ({}, [so.Pointwise(np.sin)], r"a pointwise term need not be linear"),
]


@pytest.mark.parametrize(("options", "terms", "reason"), REFUSALS)
def test_what_has_no_modes_is_refused_and_stepped_by_auto(options: dict, terms: list, reason: str) -> None:
    def plan(method: str):
        return so.plan_pde_step(
            (4, 5),
            "float64",
            1.0,
            0.01,
            [so.Diffusion(0.1), *terms],
            steps=100,
            method=method,
            on_unstable="ignore",
            **options,
        )

    message = rf"^pde_step: method is 'spectral', but must be 'stencil' or 'auto', since {reason}"
    with pytest.raises(so.UnsupportedError, match=message):
        plan("spectral")
    assert plan("auto").method == "stencil"
    assert plan("auto") == plan("stencil")
    assert "'spectral' cannot be taken, since " in plan("auto").explain()


def test_an_empty_axis_is_stepped_by_auto() -> None:
    assert so.diffusion_step(np.zeros((3, 0)), 1.0, 0.1, 1.0, steps=60, method="auto").shape == (3, 0)
    with pytest.raises(so.UnsupportedError, match=r"since a stepped axis is empty$"):
        so.diffusion_step(np.zeros((3, 0)), 1.0, 0.1, 1.0, steps=60, method="spectral")


def test_methods_are_three_words() -> None:
    message = r"^diffusion_step: method is 'fft', but must be 'stencil', 'spectral' or 'auto'$"
    with pytest.raises(ValueError, match=message):
        so.diffusion_step(np.zeros(4), 1.0, 0.1, 1.0, method="fft")


# Plans


def plan_of(**options):
    return so.plan_diffusion_step(
        (3, 8, 10), "float32", (0.5, 1.0), 0.01, 1.5, bc=(D, P), steps=100, method="spectral", **options
    )


def test_plan_attributes() -> None:
    plan = plan_of()
    assert plan.method == "spectral"
    assert plan.halo == ()
    assert plan.bytes_moved == 2 * 960
    assert plan.flops == 3 * 2 * transform.fft_flops((8, 10), True) + 6 * 240
    assert so.plan_diffusion_step((0, 4), "float32", 1.0, 0.1, 1.0, axes=1, method="spectral").flops == 0
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan == so.plan_diffusion_step(
        (3, 8, 10), "float32", (0.5, 1.0), 0.01, 1.5, bc=(D, P), steps=100, method="auto"
    )
    assert plan.backend in ("numpy", "reference")


def test_advance_attributes() -> None:
    spectral = plan_of().spectral
    assert spectral.walls == ((1, "zero"),)
    assert spectral.periodic == (2,)
    assert spectral.axes == (1, 2)
    assert spectral.sizes == (8, 10)
    assert spectral.spacing == (0.5, 1.0)
    assert (spectral.nu, spectral.rate, spectral.instances, spectral.sources) == (1.5, 0.0, (), ())
    assert not spectral.keeps_constants
    assert not spectral.has_source_field
    swapped = so.plan_diffusion_step((8, 10), "float32", (0.5, 1.0), 0.01, 1.5, bc=(P, R), method="spectral").spectral
    assert (swapped.walls, swapped.periodic, swapped.spacing) == (((1, "closed"),), (0,), (1.0, 0.5))
    assert swapped.keeps_constants


def test_explain() -> None:
    text = plan_of().explain()
    assert (
        "method 'spectral': DST-II along axis 1, FFT along axis 2; each mode times the scheme's amplification factor "
        "to the power 100; agrees with the steps to rounding errors"
    ) in text
    assert "source" not in text
    assert "source: transformed too, times the sum of the powers" in plan_of(source=0.5).explain()
    closed = so.plan_diffusion_step((8, 9), "float32", 1.0, 0.1, 1.0, bc=R, source=0.5, method="spectral").explain()
    assert "method 'spectral': DCT-II along axis 0, DCT-II along axis 1;" in closed
    assert "source: transformed" not in closed
    few = so.plan_pde_step(
        (8, 9), "f4", 1.0, 0.1, so.Diffusion(1.0), integrator="rk4", steps=7, method="auto"
    ).explain()
    assert "method 'stencil': the same bits as single steps in NumPy; 'spectral' pays from 30 right-hand" in few
    assert "here 28" in few


@pytest.mark.parametrize("wind", [False, True], ids=["diffusion", "advection"])
def test_adjoint_by_dot_product(rng: np.random.Generator, wind: bool) -> None:
    terms = [so.Diffusion(0.3), so.Source(2.0)] + [so.Advection((0.4, -0.2), "upwind3")] * wind
    plan = so.plan_pde_step(
        (5, 6), "float64", 1.0, 0.1, terms, integrator="ssprk3", bc=P if wind else (D, R), steps=20, method="spectral"
    )
    adjoint = plan.adjoint()
    assert adjoint.method == "spectral"
    x, y = rng.standard_normal((2, 5, 6))
    assert np.vdot(plan(x) - plan(np.zeros((5, 6))), y) == pytest.approx(np.vdot(x, adjoint(y)), rel=1e-11)


def test_multipliers_are_computed_once(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    grid.clear_symbols()
    u = rng.standard_normal((4, 6))
    first = so.diffusion_step(u, 1.0, 0.1, 1.0, steps=60, method="spectral")
    plan = so.plan_diffusion_step((4, 6), "float64", 1.0, 0.1, 1.0, steps=60, method="spectral")
    monkeypatch.setattr(type(plan.spectral), "sample", lambda self, grid: pytest.fail("sampled again"))
    np.testing.assert_array_equal(so.diffusion_step(u, 1.0, 0.1, 1.0, steps=60, method="spectral"), first)


def test_plans_for_a_device_run_on_cupy() -> None:
    plan = so.plan_diffusion_step((8, 8), "float32", 1.0, 0.1, 1.0, steps=60, method="auto", device="cuda")
    assert (plan.method, plan.backend) == ("spectral", "cupy")


def test_arrays_may_be_specifications() -> None:
    plan = so.plan_diffusion_step(
        (3, 8), "float32", 1.0, 0.1, ArraySpec((3, 1), "float64"), axes=1, steps=60, method="auto"
    )
    assert plan.method == "spectral"
    assert plan.spectral.instances == (1,)


def test_the_compiled_backend_takes_periodic_axes() -> None:
    def plan(method: str, backend: str | None, **options):
        return so.plan_diffusion_step(
            (8, 6), "float64", 1.0, 0.1, steps=60, method=method, backend=backend, **({"nu": 1.0} | options)
        )

    def chosen(*arguments, **options) -> tuple[str, str]:
        made = plan(*arguments, **options)
        return made.method, made.backend

    assert chosen("spectral", None) == chosen("auto", None) == chosen("auto", "cpu") == ("spectral", "cpu")
    assert "runs: the vector engine: transform, product and inverse fused" in plan("auto", None).explain()
    instances = {"nu": ArraySpec((8, 1), "float64"), "axes": 1}
    assert chosen("auto", None, bc=R) == chosen("auto", None, **instances) == ("spectral", "numpy")
    assert chosen("auto", "cpu", bc=R) == ("stencil", "cpu")
    with pytest.raises(so.UnsupportedError, match=r"must be 'numpy' for this step: the vector engine has Fourier tr"):
        plan("spectral", "cpu", bc=R)
    with pytest.raises(so.UnsupportedError, match=r"filters a batch with the same factors, and nu differs between ins"):
        plan("spectral", "cpu", **instances)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", ["diffusion", "advection", "number", "field", "both", "last axis", "first axis"])
def test_the_vector_engine_agrees_with_scipy(case: str, dtype: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((3, 12, 10)).astype(dtype)
    source = rng.standard_normal((12, 10)).astype(dtype)
    sources = {"number": [so.Source(0.3)], "field": [so.Source(source)], "both": [so.Source(source), so.Source(0.3)]}
    terms = [so.Diffusion(1.0), *sources.get(case, [])]
    axes = {"last axis": (2,), "first axis": (0,)}.get(case, (1, 2))
    if case == "advection":
        terms.append(so.Advection((0.2, -0.3), "upwind"))
    step = {
        backend: so.pde_step(u, 1.0, 0.1, terms, axes=axes, steps=25, method="spectral", backend=backend)
        for backend in ("cpu", "numpy", "reference")
    }
    assert_close(step["cpu"], step["numpy"], bound(dtype, 25))
    assert_close(step["cpu"], step["reference"], bound(dtype, 25))
    assert step["cpu"].dtype == dtype


def test_the_vector_engine_with_workers_and_an_empty_batch() -> None:
    u = np.arange(96.0).reshape(2, 6, 8) % 7
    one, two = (so.diffusion_step(u, 1.0, 0.1, 1.0, steps=60, method="spectral", workers=w) for w in (1, 2))
    np.testing.assert_array_equal(one, two)
    options = {"axes": 1, "steps": 60, "method": "spectral", "backend": "cpu"}
    assert so.diffusion_step(np.zeros((0, 8)), 1.0, 0.1, 1.0, **options).shape == (0, 8)
