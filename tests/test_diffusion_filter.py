"""diffusion_filter: its symbol, conservation, masks, metrics and adjoint."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden_gcm_filters import GCM_FILTERS, metric_of, waves

import spectralops as so
from spectralops._arrays import ArraySpec
from spectralops.boundary import Neumann, Periodic, Reflect

BACKENDS = ["cpu", "numpy", "reference"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize(("shape", "grid"), GCM_FILTERS, ids=str)
def test_numbers_of_gcm_filters(backend: str, shape: str, grid: str) -> None:
    w = waves()
    expected = np.array(GCM_FILTERS[shape, grid].split(), float).reshape(5, 6)
    options = {}
    if grid != "REGULAR":
        options["mask"] = w["sea"]
    if grid == "IRREGULAR_WITH_LAND":
        options["metric"] = metric_of(w)
    result = so.diffusion_filter(w["u"], 3.0, 1.0, filter_shape=shape, backend=backend, **options)
    np.testing.assert_allclose(result, expected, rtol=0, atol=5e-14)


# Published by gcm-filters 0.5.1 as the default number of steps for dx = 1.
DEFAULT_STEPS = [
    ("gaussian", 1, math.pi, {1.5: 3, 4: 4, 5: 4, 10: 8, 33: 27}),
    ("gaussian", 2, math.pi, {1.5: 3, 4: 5, 10: 11, 20: 22, 50: 56}),
    ("taper", 1, math.pi, {1.5: 5, 4: 12, 10: 29, 20: 57, 50: 140}),
    ("taper", 2, math.pi, {1.5: 6, 4: 16, 10: 39, 20: 78, 50: 196}),
    ("taper", 2, 1.5, {4: 34, 10: 84, 20: 168}),
    ("taper", 1, 1.5, {4: 25, 10: 61, 20: 121}),
    ("taper", 2, 5.0, {4: 14, 10: 34, 20: 68}),
    ("taper", 1, 10.0, {4: 9, 10: 23, 20: 45}),
]


@pytest.mark.parametrize(("shape", "ndim", "width", "expected"), DEFAULT_STEPS)
def test_default_steps_are_those_of_gcm_filters(shape: str, ndim: int, width: float, expected: dict) -> None:
    found = {
        scale: so.plan_diffusion_filter(
            (8,) * ndim, "float64", scale, 1.0, filter_shape=shape, transition_width=width
        ).n_steps
        for scale in expected
    }
    assert found == expected


def test_default_steps_follow_the_scale_in_cells() -> None:
    def steps(scale: float, dx: tuple[float, ...] | float, ndim: int = 2) -> int:
        return so.plan_diffusion_filter((4,) * ndim, "float64", scale, dx).n_steps

    assert steps(20.0, 0.5) == steps(40.0, 1.0) == 44
    assert steps(20.0, (1.0, 2.0)) == math.ceil(1.1 * 20 * math.sqrt(1.25 / 2)) == 18
    assert steps(20.0, (1.0, 1.0, 1.0), 3) == math.ceil(1.1 * 20 * math.sqrt(1.5)) == 27
    assert steps(0.1, 1.0) == 3


@pytest.mark.parametrize("n_steps", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("shape", ["gaussian", "taper"])
def test_polynomial_is_exact_at_both_ends(shape: str, n_steps: int) -> None:
    plan = so.plan_diffusion_filter((8, 8), "float64", 3.0, 1.0, filter_shape=shape, n_steps=n_steps)
    assert (plan.n_steps, plan.s_max) == (n_steps, 8.0)
    assert plan.response(0.0) == pytest.approx(1.0, abs=1e-14)
    assert plan.response(plan.s_max) == pytest.approx(float(plan.target(plan.s_max)), abs=1e-14)


@pytest.mark.parametrize("n_steps", [2, 3, 6, 9])
def test_polynomial_is_the_constrained_least_squares_fit(n_steps: int) -> None:
    """The same minimum, from the normal equations with Lagrange multipliers in the monomials' place of T_k."""
    plan = so.plan_diffusion_filter((8, 8), "float64", 3.0, 1.0, filter_shape="taper", n_steps=n_steps)
    count = n_steps + 1
    t, _ = np.polynomial.chebyshev.chebgauss(count)
    basis = np.polynomial.chebyshev.chebvander(t, n_steps)
    ends = np.polynomial.chebyshev.chebvander(np.array([-1.0, 1.0]), n_steps)
    target = plan.target(0.5 * plan.s_max * (t + 1))
    system = np.block([[basis.T @ basis, ends.T], [ends, np.zeros((2, 2))]])
    right = np.concatenate([basis.T @ target, [1.0, float(plan.target(plan.s_max))]])
    np.testing.assert_allclose(plan.coefficients, np.linalg.solve(system, right)[:count], atol=1e-13)


@pytest.mark.parametrize(
    ("shape", "width", "scale"), [("gaussian", math.pi, 4), ("taper", math.pi, 4), ("taper", 2.0, 8)]
)
def test_polynomial_is_within_a_percent_by_default(shape: str, width: float, scale: float) -> None:
    plan = so.plan_diffusion_filter((8, 8), "float64", scale, 1.0, filter_shape=shape, transition_width=width)
    s = np.linspace(0, plan.s_max, 400)
    assert np.abs(plan.response(s) - plan.target(s)).max() < 0.012


def test_polynomial_converges() -> None:
    plan = so.plan_diffusion_filter((8, 8), "float64", 3.0, 1.0, n_steps=30)
    s = np.linspace(0, plan.s_max, 400)
    np.testing.assert_allclose(plan.response(s), plan.target(s), atol=1e-13)


def test_targets() -> None:
    gaussian = so.plan_diffusion_filter((8, 8), "float64", 4.0, 1.0)
    assert gaussian.target(1.5) == pytest.approx(math.exp(-1.0))
    taper = so.plan_diffusion_filter((8, 8), "float64", 4.0, 1.0, filter_shape="taper", transition_width=2.0)
    edge = 2 * math.pi / 4
    k = np.array([0.0, edge / 2, 0.625 * edge, 0.75 * edge, edge, 1.5 * edge])
    np.testing.assert_allclose(taper.target(k**2), [1, 1, 27 / 32, 0.5, 0, 0], atol=1e-14)


@pytest.mark.parametrize("modes", [(1, 0), (0, 2), (2, 3)])
def test_waves_are_multiplied_by_the_response(backend: str, modes: tuple[int, int]) -> None:
    shape, h = (8, 6), (1.0, 0.5)
    theta = [2 * np.pi * m / n for m, n in zip(modes, shape, strict=True)]
    y, x = np.mgrid[:8, :6]
    wave = np.cos(theta[0] * y + theta[1] * x)
    s = sum(4 / d**2 * np.sin(t / 2) ** 2 for t, d in zip(theta, h, strict=True))
    plan = so.plan_diffusion_filter(shape, "float64", 3.0, h, filter_shape="taper")
    result = so.diffusion_filter(wave, 3.0, h, filter_shape="taper", backend=backend)
    np.testing.assert_allclose(result, plan.response(s) * wave, atol=1e-13)


@pytest.mark.parametrize("condition", [Reflect(), Neumann(0.0)], ids=str)
@pytest.mark.parametrize("j", [1, 2])
def test_walls_have_cosines_for_eigenfunctions(backend: str, condition, j: int) -> None:
    n, h = 9, 0.5
    mode = np.cos(j * np.pi * (np.arange(n) + 0.5) / n)
    plan = so.plan_diffusion_filter((n,), "float64", 2.0, h, bc=condition)
    factor = plan.response(4 / h**2 * np.sin(j * np.pi / (2 * n)) ** 2)
    result = so.diffusion_filter(mode, 2.0, h, bc=condition, backend=backend)
    np.testing.assert_allclose(result, factor * mode, atol=1e-14)


def test_equals_the_matrix_function(backend: str) -> None:
    """p(-L) through the eigenvectors of the symmetrised flux-form Laplacian on a curvilinear grid with land."""
    w = waves(6, 7)
    sea, area = w["sea"], w["area"]
    index = {tuple(cell): n for n, cell in enumerate(np.argwhere(sea))}
    matrix = np.zeros((len(index),) * 2)
    for (j, i), a in index.items():
        for lower, g in (
            ((j, (i - 1) % 7), w["kappa_w"][j, i] * w["dyw"][j, i] / w["dxw"][j, i]),
            (((j - 1) % 6, i), w["kappa_s"][j, i] * w["dxs"][j, i] / w["dys"][j, i]),
        ):
            if lower in index:
                b = index[lower]
                matrix[[a, b], [a, b]] += g
                matrix[[a, b], [b, a]] -= g
    root = np.sqrt(area[sea])
    values, vectors = np.linalg.eigh(matrix / np.outer(root, root))
    plan = so.plan_diffusion_filter((6, 7), "float64", 3.0, 1.0, filter_shape="taper")
    expected = vectors @ (plan.response(values) * (vectors.T @ (root * w["u"][sea]))) / root
    result = so.diffusion_filter(w["u"], 3.0, 1.0, filter_shape="taper", mask=sea, metric=metric_of(w), backend=backend)
    np.testing.assert_allclose(result[sea], expected, atol=1e-12)


@pytest.mark.parametrize("bc", [Periodic(), Reflect(), (Periodic(), Reflect())], ids=str)
def test_conserves_and_keeps_constants(backend: str, bc) -> None:
    w = waves()
    options = {"mask": w["sea"], "metric": metric_of(w), "bc": bc, "backend": backend}
    smooth = so.diffusion_filter(w["u"], 4.0, 1.0, **options)
    area = w["area"] * w["sea"]
    assert (smooth * area).sum() == pytest.approx((w["u"] * area).sum(), abs=1e-12)
    np.testing.assert_allclose(so.diffusion_filter(np.full((5, 6), 3.0), 4.0, 1.0, **options), 3.0, atol=1e-13)
    assert np.var(smooth[w["sea"]]) < np.var(w["u"][w["sea"]])


def test_a_uniform_metric_is_none(backend: str) -> None:
    u = waves()["u"]
    plain = so.diffusion_filter(u, 3.0, (0.5, 2.0), backend=backend)
    metric = so.Metric(area=1.0, widths=(2.0, 0.5), lengths=(0.5, 2.0))
    result = so.diffusion_filter(u, 3.0, (0.5, 2.0), metric=metric, backend=backend)
    np.testing.assert_allclose(result, plain, atol=1e-14)


def test_kappa_shrinks_the_scale(backend: str) -> None:
    """A constant kappa is a factor of the squared scale; zero means no smoothing."""
    u = waves()["u"]
    metric = so.Metric(1.0, (1.0, 1.0), (1.0, 1.0), kappa=0.25)
    result = so.diffusion_filter(u, 4.0, 1.0, n_steps=30, metric=metric, backend=backend)
    np.testing.assert_allclose(result, so.diffusion_filter(u, 2.0, 1.0, n_steps=30), atol=1e-12)
    still = so.diffusion_filter(u, 4.0, 1.0, metric=so.Metric(1.0, (1.0, 1.0), (1.0, 1.0), (0.0, 0.0)))
    np.testing.assert_allclose(still, u, atol=1e-14)


def test_metric_entries_belong_to_axes_in_order(backend: str) -> None:
    w = waves()
    swapped = so.Metric(w["area"], (w["dyw"], w["dxs"]), (w["dxw"], w["dys"]), (w["kappa_w"], w["kappa_s"]))
    result = so.diffusion_filter(w["u"], 3.0, 1.0, metric=swapped, axes=(1, 0), backend=backend)
    np.testing.assert_allclose(result, so.diffusion_filter(w["u"], 3.0, 1.0, metric=metric_of(w)), atol=1e-14)


def test_land_keeps_its_values_and_never_reaches_the_sea(backend: str) -> None:
    w = waves()
    filled, holes = w["u"].copy(), w["u"].copy()
    filled[~w["sea"]], holes[~w["sea"]] = 1e6, np.nan
    metric = metric_of({name: np.where(w["sea"], x, np.nan) for name, x in w.items()})
    options = {"mask": w["sea"], "backend": backend}
    result = so.diffusion_filter(holes, 4.0, 1.0, metric=metric, **options)
    expected = so.diffusion_filter(filled, 4.0, 1.0, metric=metric_of(w), **options)
    np.testing.assert_array_equal(result[w["sea"]], expected[w["sea"]])
    assert np.isnan(result[~w["sea"]]).all()
    assert (expected[~w["sea"]] == 1e6).all()


def test_nan_in_the_sea_spreads_n_steps_cells_and_no_further(backend: str) -> None:
    u = np.zeros(13)
    u[6] = np.nan
    result = so.diffusion_filter(u, 2.0, 1.0, n_steps=3, backend=backend)
    assert np.flatnonzero(np.isnan(result)).tolist() == list(range(3, 10))


def test_nan_in_the_sea_does_not_cross_land(backend: str) -> None:
    u = np.array([np.nan, 1.0, 2.0, 3.0, 4.0, 5.0])
    sea = np.array([True, False, True, True, True, False])
    result = so.diffusion_filter(u, 2.0, 1.0, mask=sea, backend=backend)
    assert np.isnan(result).tolist() == [True] + [False] * 5


@pytest.mark.parametrize("with_area", [False, True], ids=["one-area", "areas"])
@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
def test_adjoint_by_dot_product(rng: np.random.Generator, with_area: bool, masked: bool) -> None:
    w = waves()
    metric = metric_of(w) if with_area else None
    mask = w["sea"] if masked else None
    plan = so.plan_diffusion_filter((5, 6), "float64", 3.0, 1.0, metric=metric, mask=mask)
    operands = [mask] * masked
    if with_area:
        operands += [w[name] for name in ("area", "dxs", "dyw", "dys", "dxw", "kappa_s", "kappa_w")]
    x, y = rng.standard_normal((2, 5, 6))
    for backend in BACKENDS:
        adjoint = so.plan_diffusion_filter(
            (5, 6), "float64", 3.0, 1.0, metric=metric, mask=mask, backend=backend
        ).adjoint()
        assert np.vdot(plan(x, *operands), y) == pytest.approx(np.vdot(x, adjoint(y, *operands)), rel=1e-12)
    assert plan.adjoint().adjoint() == plan
    assert (plan.adjoint() == plan) is not with_area
    assert ("adjoint" in plan.adjoint().explain()) is with_area


def test_float32_is_close_to_float64(rng: np.random.Generator) -> None:
    u = rng.standard_normal((16, 16))
    result = so.diffusion_filter(u.astype("float32"), 10.0, 1.0, filter_shape="taper")
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, so.diffusion_filter(u, 10.0, 1.0, filter_shape="taper"), atol=2e-5)


def test_integers_become_the_default_float() -> None:
    result = so.diffusion_filter(np.array([0, 4, 0, 0]), 2.0, 1.0)
    assert result.dtype == np.float64
    assert result.sum() == pytest.approx(4.0)


def test_operator_equals_its_plan() -> None:
    w = waves()
    metric = so.Metric(w["area"], (w["dxs"], 1.5), (1.0, w["dxw"]), w["kappa_s"])
    specs = so.Metric(
        *(ArraySpec((5, 6), "float64") if isinstance(x, np.ndarray) else x for x in (w["area"],)),
        (ArraySpec((5, 6), "float64"), 1.5),
        (1.0, ArraySpec((5, 6), "float64")),
        ArraySpec((5, 6), "float64"),
    )
    plan = so.plan_diffusion_filter((5, 6), "float64", 3.0, 1.0, mask=w["sea"], metric=metric)
    assert plan is so.plan_diffusion_filter((5, 6), np.float64, 3, 1.0, mask=ArraySpec((5, 6), "bool"), metric=specs)
    assert [operand.name for operand in plan.operands] == [
        "u",
        "mask",
        "metric.area",
        "metric.widths[0]",
        "metric.lengths[1]",
        "metric.kappa",
    ]
    np.testing.assert_array_equal(
        plan(w["u"], w["sea"], w["area"], w["dxs"], w["dxw"], w["kappa_s"]),
        so.diffusion_filter(w["u"], 3.0, 1.0, mask=w["sea"], metric=metric),
    )
