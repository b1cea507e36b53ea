"""The three step operators: formulas, exact modes, fixed points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from step_engines import engine  # noqa: F401

import spectralops as so
from spectralops import Dirichlet, Hold, Neumann, Outflow, Periodic, Reflect, Robin
from spectralops._plans.stability import symbol

pytestmark = pytest.mark.usefixtures("engine")

SCHEMES = ["upwind", "central", "upwind3", "weno5"]
LINEAR = SCHEMES[:3]
FORMS = ["advective", "flux"]


def mode(shape: tuple[int, ...], counts: tuple[int, ...]) -> np.ndarray:
    """exp(i theta . j), the phase theta a whole number of waves along each axis."""
    phases = [2 * math.pi / n * (m * np.arange(n) % n) for m, n in zip(counts, shape, strict=True)]
    return np.exp(1j * sum(np.meshgrid(*phases, indexing="ij")))


@pytest.mark.parametrize("dx", [0.5, 1.0, 3.0])
def test_the_textbook_burgers_step(dx: float, rng: np.random.Generator) -> None:
    """u_i + dt (nu (u_{i-1} - 2 u_i + u_{i+1}) / dx**2 - u_i (u_{i+1} - u_{i-1}) / (2 dx)), ends held."""
    u, dt, nu = rng.standard_normal(50), 0.02, 0.3
    expected = u.copy()
    expected[1:-1] += dt * (nu * (u[:-2] - 2 * u[1:-1] + u[2:]) / dx**2 - u[1:-1] * (u[2:] - u[:-2]) / (2 * dx))
    result = so.diffuse_convect_step(u, dx, dt, nu, bc=Hold())
    np.testing.assert_allclose(result, expected, rtol=0, atol=4e-16 * np.abs(u).max())
    assert result[0] == u[0]
    assert result[-1] == u[-1]


@pytest.mark.parametrize("shape", [(9,), (6, 7), (4, 5, 6)], ids=["1d", "2d", "3d"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_diffusion_is_the_promised_formula_bit_for_bit(shape, dtype: str, rng: np.random.Generator) -> None:
    """p0 u + sum p_a (u_a- + u_a+), last axis first, coefficients formed in float64 and rounded once."""
    dx, dt, nu = (0.5, 0.7, 0.9)[: len(shape)], 0.03, 0.8
    u = rng.standard_normal(shape).astype(dtype)
    axes = tuple(range(len(shape)))
    rates = [nu * (dt / (h * h)) for h in dx]
    center = 0.0
    for a in reversed(axes):
        center += -2.0 * (dt / (dx[a] * dx[a])) * nu
    expected = u.dtype.type(1.0 + center) * u
    for a in reversed(axes):
        expected = expected + u.dtype.type(rates[a]) * (np.roll(u, 1, a) + np.roll(u, -1, a))
    np.testing.assert_array_equal(so.diffusion_step(u, dx, dt, nu, axes=axes), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_burgers_is_the_promised_formula_bit_for_bit(dtype: str, rng: np.random.Generator) -> None:
    """The slope of the textbook, u_{i+1} - u_{i-1}, times u, times dt / (2 dx), taken off last axis first."""
    dx, dt = (0.5, 0.7), 0.03
    u = rng.standard_normal((6, 7)).astype(dtype)
    expected = so.diffusion_step(u, dx, dt, 0.8)
    for a in (1, 0):
        slope = np.roll(u, -1, a) - np.roll(u, 1, a)
        expected = expected - (slope * u) * u.dtype.type(dt / dx[a] * 0.5)
    np.testing.assert_array_equal(so.diffuse_convect_step(u, dx, dt, 0.8), expected)


def test_a_varying_wind_is_the_promised_formula_bit_for_bit(rng: np.random.Generator) -> None:
    u, v, dt, dx = rng.standard_normal((6, 5)), rng.standard_normal((2, 6, 5)), 0.05, (0.5, 0.7)
    expected = u
    for a in (1, 0):
        slope = np.roll(u, -1, a) - np.roll(u, 1, a)
        expected = expected - (slope * v[a]) * (dt / dx[a] * 0.5)
    found = so.convection_step(u, tuple(v), dx, dt, scheme="central", on_unstable="ignore")
    np.testing.assert_array_equal(found, expected)


def test_a_varying_diffusivity_is_flux_differences_bit_for_bit(rng: np.random.Generator) -> None:
    u, nu, dt, dx = rng.standard_normal((6, 5)), rng.random((6, 5)), 0.05, (0.5, 0.7)
    expected = u
    for a in (1, 0):
        flux = (nu + np.roll(nu, -1, a)) * (0.5 * (dt / (dx[a] * dx[a]))) * (np.roll(u, -1, a) - u)
        expected = expected + (flux - np.roll(flux, 1, a))
    np.testing.assert_array_equal(so.diffusion_step(u, dx, dt, nu), expected)


@pytest.mark.parametrize("form", FORMS)
def test_upwind_by_hand(form: str) -> None:
    """Velocity (1, 1, -1, -1): both forms differ where it changes sign."""
    u, v = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 1.0, -1.0, -1.0])
    if form == "advective":
        slope = np.array([1 - 8, 2 - 1, 8 - 4, 1 - 8], float)
        expected = u - 0.25 * v * slope
    else:
        flux = np.array([1.0 * 1, 0.0, -1.0 * 8, 0.0])  # at the face above each cell: means (1, 0, -1, 0)
        expected = u - 0.25 * (flux - np.roll(flux, 1))
    np.testing.assert_array_equal(so.convection_step(u, v, 1.0, 0.25, form=form), expected)


def test_godunov_flux_of_a_shock_and_a_rarefaction() -> None:
    """Engquist–Osher: max(uL, 0)**2 / 2 + min(uR, 0)**2 / 2 at each face."""
    u = np.array([1.0, -1.0, 2.0, 3.0])
    flux = np.array([0.5 + 0.5, 0.0, 2.0, 4.5])
    expected = u - 0.1 * (flux - np.roll(flux, 1))
    result = so.diffuse_convect_step(u, 1.0, 0.1, 0.0, scheme="upwind", form="flux")
    np.testing.assert_allclose(result, expected, rtol=1e-15)


@pytest.mark.parametrize("counts", [(1, 0), (2, 3), (6, 4), (5, -2)], ids=str)
def test_diffusion_of_a_mode_is_exact(counts) -> None:
    """g = 1 - 4 sum r_a sin(theta_a / 2)**2."""
    shape, dx, dt, nu = (12, 9), (0.5, 0.8), 0.04, 0.7
    u = mode(shape, counts)
    s = [math.sin(math.pi * m / n) ** 2 for m, n in zip(counts, shape, strict=True)]
    g = 1 - 4 * nu * dt * sum(x / h**2 for x, h in zip(s, dx, strict=True))
    for part in (u.real, u.imag):
        np.testing.assert_allclose(so.diffusion_step(part, dx, dt, nu), g * part, rtol=0, atol=2e-15)


@pytest.mark.parametrize("scheme", LINEAR)
@pytest.mark.parametrize("velocity", [(0.6, -0.9), (-0.6, 0.9), (0.0, 1.0)], ids=str)
@pytest.mark.parametrize("kind", ["numbers", "advective-arrays", "flux-arrays"])
def test_advection_of_a_mode_is_exact(scheme: str, velocity, kind: str) -> None:
    """g = 1 + dt sum lambda_a(theta_a), whichever of the three code paths computes it."""
    shape, dx, dt, counts = (12, 9), (0.5, 0.8), 0.1, (2, -3)
    u = mode(shape, counts)
    given = velocity if kind == "numbers" else tuple(np.full(shape, v) for v in velocity)
    form = "flux" if kind == "flux-arrays" else "advective"
    g = 1 + dt * sum(
        complex(symbol(2 * math.pi * m / n, h, 0.0, ((v, scheme),)))
        for m, n, h, v in zip(counts, shape, dx, velocity, strict=True)
    )
    options = {"scheme": scheme, "form": form, "on_unstable": "ignore"}
    parts = [so.convection_step(part, given, dx, dt, **options) for part in (u.real, u.imag)]
    np.testing.assert_allclose(parts[0] + 1j * parts[1], g * u, rtol=0, atol=3e-15)


def test_symbols_of_the_textbook() -> None:
    """FTCS 1 - 4 r s**2 - i C sin(theta); upwind 1 - C (1 - exp(-i theta))."""
    theta, r, c = 0.7, 0.3, 0.4
    central = 1 + complex(symbol(theta, 1.0, r, ((c, "central"),)))
    assert central == pytest.approx(1 - 4 * r * math.sin(theta / 2) ** 2 - 1j * c * math.sin(theta), abs=1e-15)
    upwind = 1 + complex(symbol(theta, 1.0, 0.0, ((c, "upwind"),)))
    assert upwind == pytest.approx(1 - c * (1 - np.exp(-1j * theta)), abs=1e-15)


@pytest.mark.parametrize("velocity", [1.0, -1.0])
def test_upwind_with_courant_number_one_is_a_shift(velocity: float, rng: np.random.Generator) -> None:
    u = rng.standard_normal(17)
    np.testing.assert_array_equal(so.convection_step(u, velocity, 0.5, 0.5), np.roll(u, int(velocity)))


@pytest.mark.parametrize("j", [1, 2, 7, 11])
def test_sine_modes_of_dirichlet_walls(j: int) -> None:
    """Values vanish at the faces: sin(j pi (i + 1/2) / N) decays by 1 - 4 r sin(j pi / 2N)**2."""
    n, r = 12, 0.3
    u = np.sin(j * math.pi * (np.arange(n) + 0.5) / n)
    g = 1 - 4 * r * math.sin(j * math.pi / (2 * n)) ** 2
    np.testing.assert_allclose(so.diffusion_step(u, 1.0, r, 1.0, bc=Dirichlet(0)), g * u, rtol=0, atol=1e-15)


@pytest.mark.parametrize("j", [0, 1, 5, 11])
@pytest.mark.parametrize("bc", [Neumann(0), Reflect(), Robin(0, 0)], ids=str)
def test_cosine_modes_of_closed_walls(j: int, bc) -> None:
    """cos(j pi (i + 1/2) / N) decays by 1 - 4 r sin(j pi / 2N)**2."""
    n, r = 12, 0.3
    u = np.cos(j * math.pi * (np.arange(n) + 0.5) / n)
    g = 1 - 4 * r * math.sin(j * math.pi / (2 * n)) ** 2
    np.testing.assert_allclose(so.diffusion_step(u, 1.0, r, 1.0, bc=bc), g * u, rtol=0, atol=1e-15)


@pytest.mark.parametrize("j", [1, 4, 10])
def test_sine_modes_between_held_nodes(j: int) -> None:
    """Hold: the ends are nodes; sin(j pi i / (N - 1))."""
    n, r = 12, 0.3
    u = np.sin(j * math.pi * np.arange(n) / (n - 1))
    g = 1 - 4 * r * math.sin(j * math.pi / (2 * (n - 1))) ** 2
    expected = g * u
    expected[[0, -1]] = u[[0, -1]]
    np.testing.assert_allclose(so.diffusion_step(u, 1.0, r, 1.0, bc=Hold()), expected, rtol=0, atol=1e-15)


def test_a_robin_mode() -> None:
    """cos(k x) about the middle satisfies du/dn + gamma u = 0 at both faces for gamma = k-dependent discrete ratio."""
    n, h, r, k = 10, 0.5, 0.2, 0.4
    x = (np.arange(n) - (n - 1) / 2) * h
    u = np.cos(k * x)
    edge = n / 2 * h
    gamma = (2 / h) * math.tan(k * edge) * math.tan(k * h / 2)
    g = 1 - 4 * r * math.sin(k * h / 2) ** 2
    result = so.diffusion_step(u, h, r * h * h, 1.0, bc=Robin(gamma, 0.0))
    np.testing.assert_allclose(result, g * u, rtol=0, atol=1e-15)


def cells(n: int, h: float) -> np.ndarray:
    return (np.arange(n) + 0.5) * h


@pytest.mark.parametrize(
    "bc",
    [(Dirichlet(1.0), Dirichlet(6.0)), (Neumann(-1.0), Dirichlet(6.0)), (Robin(2.0, 1.0), Robin(0.5, 4.0))],
    ids=["dirichlet", "mixed", "robin"],
)
def test_a_linear_profile_is_a_fixed_point(bc) -> None:
    """u = 1 + x on [0, 5]: values 1 and 6, outward derivatives -1 and 1."""
    u = 1 + cells(10, 0.5)
    np.testing.assert_allclose(so.diffusion_step(u, 0.5, 0.1, 1.0, bc=(bc,), steps=50), u, rtol=1e-14)


def test_a_quadratic_profile_rises_by_its_curvature() -> None:
    """Neumann data are exact for quadratics: u = x**2 on [0, 5] gains 2 nu dt everywhere."""
    u = cells(10, 0.5) ** 2
    result = so.diffusion_step(u, 0.5, 0.1, 0.7, bc=((Neumann(0.0), Neumann(10.0)),))
    np.testing.assert_allclose(result, u + 2 * 0.7 * 0.1, rtol=1e-14)


def test_a_source_balances_curvature() -> None:
    u = cells(10, 0.5) ** 2
    bc = ((Neumann(0.0), Neumann(10.0)),)
    np.testing.assert_allclose(so.diffusion_step(u, 0.5, 0.1, 0.7, bc=bc, source=-1.4), u, rtol=1e-14)
    np.testing.assert_allclose(so.diffusion_step(u, 0.5, 0.1, 0.7, bc=bc, source=np.full(10, -1.4)), u, rtol=1e-14)


@pytest.mark.parametrize("bc", [Periodic(), Reflect(), Outflow(), Hold(), Dirichlet(3.0), Robin(2.0, 6.0)], ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_uniform_field_is_a_fixed_point(bc, scheme: str) -> None:
    u, v = np.full((7, 8), 3.0), (np.linspace(-1, 1, 56).reshape(7, 8), -0.5)
    result = so.diffuse_convect_step(u, 1.0, 0.1, 0.5, velocity=v, scheme=scheme, bc=bc, steps=3)
    np.testing.assert_allclose(result, u, rtol=1e-15)


def test_outflow_repeats_the_end() -> None:
    u = np.array([1.0, 2.0, 5.0, 3.0])
    bc = ((Outflow(), Outflow()),)
    np.testing.assert_array_equal(so.convection_step(u, -1.0, 1.0, 0.5, bc=bc), [1.5, 3.5, 4.0, 3.0])
    np.testing.assert_array_equal(so.convection_step(u, 1.0, 1.0, 0.5, bc=bc), [1.0, 1.5, 3.5, 4.0])


@pytest.mark.parametrize(("low", "high"), [(True, False), (False, True), (True, True)])
def test_only_held_ends_are_held(low: bool, high: bool, rng: np.random.Generator) -> None:
    u = rng.standard_normal((5, 6))
    pair = (Hold() if low else Outflow(), Hold() if high else Outflow())
    free = so.diffusion_step(u, 1.0, 0.2, 1.0, bc=(Reflect(), Outflow()))
    result = so.diffusion_step(u, 1.0, 0.2, 1.0, bc=(Reflect(), pair))
    expected = free.copy()
    if low:
        expected[:, 0] = u[:, 0]
    if high:
        expected[:, -1] = u[:, -1]
    np.testing.assert_array_equal(result, expected)


def test_wide_stencils_mirror_the_second_layer() -> None:
    """upwind3 at the first cell reads two ghosts: (u_-2 - 6 u_-1 + 3 u_0 + 2 u_1) / 6 with u_-m = 2 g - u_(m-1)."""
    u, g = np.array([1.0, 4.0, 2.0, 7.0, 3.0]), 0.5
    ghosts = (2 * g - u[1], 2 * g - u[0])
    slope = (ghosts[0] - 6 * ghosts[1] + 3 * u[0] + 2 * u[1]) / 6
    result = so.convection_step(
        u, 1.0, 1.0, 0.1, scheme="upwind3", bc=((Dirichlet(g), Outflow()),), on_unstable="ignore"
    )
    assert result[0] == pytest.approx(u[0] - 0.1 * slope, rel=1e-15)
