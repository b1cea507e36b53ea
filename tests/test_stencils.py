"""Gradient, divergence and Laplacian: closed forms, orders, adjoints, conservation, masks."""

from __future__ import annotations

import numpy as np
import pytest
from support import random_array

import spectralops as so
from spectralops._arrays import ArraySpec, Operand
from spectralops.boundary import Dirichlet, GhostRule, Neumann, Outflow, Periodic, Reflect, Robin

LINEAR = [Periodic(), Dirichlet(0.0), Neumann(0.0), Robin(0.75, 0.0), Reflect(), Outflow()]
BACKENDS = ["numpy", "reference"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def test_gradient_of_a_wave_has_the_central_symbol(backend: str) -> None:
    """A discrete wave is an eigenfunction: i sin(k h) / h."""
    n, m, h = 16, 3, 0.5
    wave = np.exp(2j * np.pi * m * np.arange(n) / n)
    expected = 1j * np.sin(2 * np.pi * m / n) / h * wave
    np.testing.assert_allclose(so.gradient(wave, h, backend=backend)[0], expected, atol=1e-14)


def test_laplacian_of_a_wave_has_the_three_point_symbol(backend: str) -> None:
    """-(4/h^2) sin^2(k h / 2) for each axis, h different."""
    shape, modes, h = (12, 10), (2, 3), (0.5, 2.0)
    theta = [2 * np.pi * m / n for m, n in zip(modes, shape, strict=True)]
    wave = np.exp(1j * (theta[0] * np.arange(12)[:, None] + theta[1] * np.arange(10)))
    symbol = sum(-4 / d**2 * np.sin(t / 2) ** 2 for t, d in zip(theta, h, strict=True))
    np.testing.assert_allclose(so.laplacian(wave, h, backend=backend), symbol * wave, atol=1e-13)


@pytest.mark.parametrize("j", [1, 4])
def test_closed_walls_have_cosines_for_eigenfunctions(backend: str, j: int) -> None:
    n, h = 9, 0.25
    mode = np.cos(j * np.pi * (np.arange(n) + 0.5) / n)
    expected = -4 / h**2 * np.sin(j * np.pi / (2 * n)) ** 2 * mode
    np.testing.assert_allclose(so.laplacian(mode, h, bc=Reflect(), backend=backend), expected, atol=1e-12)


@pytest.mark.parametrize("j", [1, 9])
def test_zero_values_at_the_faces_have_sines_for_eigenfunctions(backend: str, j: int) -> None:
    n, h = 9, 0.25
    mode = np.sin(j * np.pi * (np.arange(n) + 0.5) / n)
    expected = -4 / h**2 * np.sin(j * np.pi / (2 * n)) ** 2 * mode
    np.testing.assert_allclose(so.laplacian(mode, h, bc=Dirichlet(0.0), backend=backend), expected, atol=1e-12)


def test_laplacian_is_exact_on_cubics_inside(backend: str) -> None:
    x = 0.5 * np.arange(8)
    result = so.laplacian(x**3 - 2 * x**2, 0.5, bc=Outflow(), backend=backend)
    np.testing.assert_allclose(result[1:-1], 6 * x[1:-1] - 4, atol=1e-12)


def test_gradient_is_exact_on_quadratics_with_their_slopes(backend: str) -> None:
    """Neumann's ghosts are exact for quadratics, so the gradient is, up to the last cell."""
    h, n = 0.25, 8
    x = h * (np.arange(n) + 0.5)
    length = n * h
    u = 3 * x**2 + x
    bc = ((Neumann(-1.0), Neumann(6 * length + 1)),)
    np.testing.assert_allclose(so.gradient(u, h, bc=bc, backend=backend)[0], 6 * x + 1, atol=1e-12)


def test_gradient_is_exact_on_lines_with_their_end_values(backend: str) -> None:
    h, n = 0.5, 6
    x = h * (np.arange(n) + 0.5)
    bc = ((Dirichlet(2.0), Dirichlet(2.0 - 3 * n * h)),)
    np.testing.assert_allclose(so.gradient(2 - 3 * x, h, bc=bc, backend=backend)[0], -3, atol=1e-12)


def test_robin_is_exact_on_lines(backend: str) -> None:
    """u = 1 + 2x: du/dn + gamma u is -2 + gamma at x = 0 and 2 + gamma (1 + 2 L) at x = L."""
    h, n, gamma = 0.5, 6, 0.75
    x = h * (np.arange(n) + 0.5)
    bc = ((Robin(gamma, -2 + gamma), Robin(gamma, 2 + gamma * (1 + 2 * n * h))),)
    np.testing.assert_allclose(so.laplacian(1 + 2 * x, h, bc=bc, backend=backend), 0, atol=1e-12)
    np.testing.assert_allclose(so.gradient(1 + 2 * x, h, bc=bc, backend=backend)[0], 2, atol=1e-12)


def test_divergence_of_a_linear_field(backend: str) -> None:
    y, x = np.mgrid[:5, :6] * 0.5
    v = np.stack([2 * y + x, 7 * x - y])
    result = so.divergence(v, 0.5, bc=Outflow(), backend=backend)
    np.testing.assert_allclose(result[1:-1, 1:-1], 9, atol=1e-12)


def test_each_component_has_its_own_axis(backend: str) -> None:
    u = np.arange(12.0).reshape(3, 4)
    result = so.gradient(u, (1.0, 2.0), bc=Outflow(), backend=backend)
    assert result.shape == (2, 3, 4)
    assert np.all(result[0][1] == 4)
    assert np.all(result[1][:, 1:-1] == 0.5)


def test_components_follow_the_order_of_axes(backend: str) -> None:
    u = np.arange(12.0).reshape(3, 4) ** 2
    straight = so.gradient(u, (1.0, 2.0), axes=(0, 1), backend=backend)
    swapped = so.gradient(u, (2.0, 1.0), axes=(1, 0), backend=backend)
    np.testing.assert_array_equal(swapped, straight[::-1])
    np.testing.assert_allclose(
        so.divergence(swapped, (2.0, 1.0), axes=(1, 0), backend=backend),
        so.divergence(straight, (1.0, 2.0), backend=backend),
        rtol=1e-14,
    )


def test_laplacian_with_a_coefficient_by_hand(backend: str) -> None:
    """Faces hold (1+3)/2 and (3+7)/2; the closed ends carry nothing."""
    result = so.laplacian([1.0, 2.0, 5.0], 0.5, nu=np.array([1.0, 3.0, 7.0]), bc=Reflect(), backend=backend)
    np.testing.assert_allclose(result, [8.0, 52.0, -60.0], rtol=1e-15)


def test_coefficient_at_the_boundary_is_the_end_cells(backend: str) -> None:
    """One cell: nu (ghost - u) on both sides, ghost = -u."""
    result = so.laplacian([2.0], 1.0, nu=np.array([3.0]), bc=Dirichlet(0.0), backend=backend)
    np.testing.assert_allclose(result, [-24.0])


def test_coefficient_wraps_around(backend: str) -> None:
    result = so.laplacian([0.0, 0.0, 1.0], 1.0, nu=np.array([1.0, 3.0, 7.0]), backend=backend)
    np.testing.assert_allclose(result, [4.0, 5.0, -9.0])


def test_coefficient_varies_along_one_axis_only(backend: str, rng: np.random.Generator) -> None:
    u, nu = rng.standard_normal((4, 5)), 1 + rng.random(5)
    result = so.laplacian(u, (1.0, 0.5), nu=nu, backend=backend)
    along_0 = nu * (np.roll(u, 1, 0) - 2 * u + np.roll(u, -1, 0))
    after = 0.5 * (nu + np.roll(nu, -1)) * (np.roll(u, -1, 1) - u)
    np.testing.assert_allclose(result, along_0 + 4 * (after - np.roll(after, 1, 1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nu", [2.5, np.full((1, 1), 2.5), np.float32(2.5), np.array(2.5)], ids=repr)
def test_a_constant_coefficient_is_a_factor(backend: str, rng: np.random.Generator, nu) -> None:
    u = rng.standard_normal((4, 5))
    expected = 2.5 * so.laplacian(u, 0.5, bc=Dirichlet(1.0), backend=backend)
    np.testing.assert_allclose(so.laplacian(u, 0.5, nu=nu, bc=Dirichlet(1.0), backend=backend), expected, rtol=1e-14)


@pytest.mark.parametrize("op", ["gradient", "laplacian"])
def test_second_order(op: str) -> None:
    errors = []
    for n in (32, 64):
        x = 2 * np.pi * np.arange(n) / n
        exact = np.cos(x) if op == "gradient" else -np.sin(x)
        errors.append(np.abs(getattr(so, op)(np.sin(x), x[1]) - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.01)


def test_gradient_agrees_with_numpy_inside(rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 7))
    expected = np.stack(np.gradient(u, 0.5, 2.0))[:, 1:-1, 1:-1]
    np.testing.assert_allclose(so.gradient(u, (0.5, 2.0))[:, 1:-1, 1:-1], expected, rtol=1e-13)


@pytest.mark.parametrize(("condition", "mode"), [(Reflect(), "reflect"), (Periodic(), "wrap")], ids=str)
def test_laplacian_agrees_with_scipy(rng: np.random.Generator, condition, mode: str) -> None:
    from scipy import ndimage

    u = rng.standard_normal((6, 7))
    np.testing.assert_allclose(so.laplacian(u, 1.0, bc=condition), ndimage.laplace(u, mode=mode), atol=1e-13)


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@pytest.mark.parametrize("condition", LINEAR, ids=str)
@pytest.mark.parametrize("op", ["gradient", "divergence", "laplacian"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_adjoint_by_dot_product(rng: np.random.Generator, op: str, condition, masked: bool, dtype: str) -> None:
    shape = (2, 5, 6)
    options = {"bc": condition, "mask": rng.random((5, 6)) > 0.3 if masked else None}
    if op == "laplacian":
        options["nu"] = 1 + rng.random((5, 6))
    plan = getattr(so, f"plan_{op}")(shape, dtype, (0.5, 2.0), **options)
    operands = [x for x in (options.get("nu"), options["mask"]) if x is not None]
    x, w = random_array(rng, plan.in_shape, dtype), random_array(rng, plan.out_shape, dtype)
    adjoint = plan.adjoint()
    assert (adjoint.in_shape, adjoint.out_shape) == (plan.out_shape, plan.in_shape)
    forward, backward = np.vdot(plan(x, *operands), w), np.vdot(x, adjoint(w, *operands))
    assert abs(forward - backward) < 1e-12 * abs(forward) + 1e-11
    again = adjoint.adjoint()
    np.testing.assert_allclose(again(x, *operands), plan(x, *operands), rtol=1e-14)


def test_adjoint_drops_boundary_data(rng: np.random.Generator) -> None:
    plan = so.plan_laplacian((7,), "float64", 0.5, nu=3.0, bc=((Dirichlet(4.0), Neumann(-2.0)),))
    zero = plan(np.zeros(7))
    x, w = rng.standard_normal(7), rng.standard_normal(7)
    assert np.any(zero != 0)
    assert np.vdot(plan(x) - zero, w) == pytest.approx(np.vdot(x, plan.adjoint()(w)), rel=1e-12)
    assert plan.adjoint().ghosts == ((GhostRule("mirror", -1.0, 0.0), GhostRule("mirror", 1.0, 0.0)),)


def test_adjoint_of_separate_components(rng: np.random.Generator) -> None:
    plan = so.plan_divergence(((4, 5), (4, 5)), "float64", 0.5, bc=Reflect())
    a, b, w = rng.standard_normal((3, 4, 5))
    adjoint = plan.adjoint()(w)
    assert np.vdot(plan(a, b), w) == pytest.approx(np.vdot(np.stack([a, b]), adjoint), rel=1e-12)


def test_gradient_and_divergence_swap_walls() -> None:
    plan = so.plan_gradient((4,), "float32", 1.0, bc=((Reflect(), Dirichlet(3.0)),), mask=np.ones(4, bool))
    adjoint = plan.adjoint()
    assert adjoint.op == "divergence"
    assert adjoint.factor == -1.0
    assert adjoint.ghosts == ((GhostRule("mirror", -1.0), GhostRule("mirror", 1.0)),)
    assert adjoint.operands == (
        Operand("v", ArraySpec((1, 4), "float32"), "float32"),
        Operand("mask", ArraySpec((4,), "bool"), "bool"),
    )
    assert adjoint.adjoint().operands[0] == Operand("u", ArraySpec((4,), "float32"), "float32")


@pytest.mark.parametrize("bc", [Periodic(), Reflect()], ids=str)
def test_laplacian_conserves(backend: str, rng: np.random.Generator, bc) -> None:
    u, nu, mask = rng.standard_normal((6, 7)), 1 + rng.random((6, 7)), rng.random((6, 7)) > 0.3
    result = so.laplacian(u, (0.5, 2.0), nu=nu, mask=mask, bc=bc, backend=backend)
    assert abs(result.sum()) < 1e-13 * np.abs(result).sum()


@pytest.mark.parametrize("bc", [Periodic(), Dirichlet(0.0)], ids=str)
def test_divergence_conserves(backend: str, rng: np.random.Generator, bc) -> None:
    v, mask = rng.standard_normal((2, 6, 7)), rng.random((6, 7)) > 0.3
    result = so.divergence(v, (0.5, 2.0), mask=mask, bc=bc, backend=backend)
    assert abs(result.sum()) < 1e-13 * np.abs(result).sum()


def test_divergence_of_the_gradient_is_the_wide_laplacian(rng: np.random.Generator) -> None:
    u = rng.standard_normal(10)
    wide = (np.roll(u, 2) - 2 * u + np.roll(u, -2)) / (2 * 0.5) ** 2
    np.testing.assert_allclose(so.divergence(so.gradient(u, 0.5), 0.5), wide, atol=1e-13)


def test_gradient_at_a_coast(backend: str) -> None:
    """Half the slope towards the open side, zero on land."""
    mask = np.array([True, True, False, True, True, True])
    u = np.array([1.0, 3.0, np.nan, 7.0, 8.0, 10.0])
    result = so.gradient(u, 1.0, bc=Outflow(), mask=mask, backend=backend)
    np.testing.assert_array_equal(result, [[1.0, 1.0, 0.0, 0.5, 1.5, 1.0]])


def test_divergence_at_a_coast(backend: str) -> None:
    """Nothing flows through the faces of the third cell: (2+4)/2 leaves cell 0 and stays in cell 1."""
    mask = np.array([True, True, False, True, True])
    v = np.array([[2.0, 4.0, np.nan, 6.0, 8.0]])
    result = so.divergence(v, 1.0, bc=Dirichlet(0.0), mask=mask, backend=backend)
    np.testing.assert_array_equal(result, [3.0, -3.0, 0.0, 7.0, -7.0])


def test_laplacian_at_a_coast(backend: str) -> None:
    mask = np.array([True, True, False, True])
    u, nu = np.array([1.0, 3.0, np.nan, 7.0]), np.array([1.0, 3.0, np.nan, 2.0])
    result = so.laplacian(u, 1.0, nu=nu, mask=mask, backend=backend)
    np.testing.assert_array_equal(result, [2 * 2 + 1.5 * 6, -4.0, 0.0, -9.0])


def test_a_wall_of_the_grid_stays_a_wall_next_to_land(backend: str) -> None:
    """Land at the far end closes no face across a boundary that is not periodic."""
    mask = np.array([True, True, False])
    result = so.laplacian(np.array([1.0, 1.0, 9.0]), 1.0, mask=mask, bc=Dirichlet(0.0), backend=backend)
    np.testing.assert_array_equal(result, [-2.0, 0.0, 0.0])


def test_a_mask_that_is_all_true_changes_nothing(rng: np.random.Generator) -> None:
    u = rng.standard_normal((5, 6))
    for op in (so.gradient, so.laplacian):
        np.testing.assert_array_equal(
            op(u, 0.5, bc=Robin(1.0, 2.0), mask=np.ones(6, bool)), op(u, 0.5, bc=Robin(1.0, 2.0))
        )


def test_a_single_component_in_a_list() -> None:
    np.testing.assert_array_equal(so.divergence([np.array([0.0, 1.0, 4.0, 1.0])], 0.5), [0.0, 4.0, 0.0, -4.0])


def test_a_mask_broadcasts(rng: np.random.Generator) -> None:
    u, row = rng.standard_normal((3, 4, 5)), np.array([True, False, True, True, True])
    whole = np.broadcast_to(row, (4, 5))
    np.testing.assert_array_equal(so.laplacian(u, 0.5, mask=row), so.laplacian(u, 0.5, mask=whole))
    assert np.all(so.laplacian(u, 0.5, mask=row)[..., 1] == 0)


@pytest.mark.parametrize("op", ["gradient", "laplacian"])
def test_nan_stays_within_reach(backend: str, op: str) -> None:
    u = np.zeros((7, 7))
    u[3, 3] = np.nan
    seen = np.isnan(getattr(so, op)(u, 1.0, backend=backend)).reshape(-1, 7, 7).any(0)
    cross = {(3, 2), (3, 4), (2, 3), (4, 3)} | ({(3, 3)} if op == "laplacian" else set())
    assert {tuple(map(int, cell)) for cell in np.argwhere(seen)} == cross
