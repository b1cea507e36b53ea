"""The three step operators: formulas, exact modes, fixed points, symmetries, masks, the acceptance cases."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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


def laplacian(u: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return sum(np.roll(u, 1, a) - 2 * u + np.roll(u, -1, a) for a in axes)


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


STEPS = {
    "diffusion": lambda u, **k: so.diffusion_step(u, (0.5, 0.7), 0.03, 0.8, **k),
    "diffusion-field": lambda u, **k: so.diffusion_step(u, (0.5, 0.7), 0.03, np.full((6, 8), 0.8), **k),
    "burgers": lambda u, **k: so.diffuse_convect_step(u, (0.5, 0.7), 0.03, 0.8, **k),
    **{
        f"{s}-{f}": lambda u, s=s, f=f, **k: so.diffuse_convect_step(
            u, (0.5, 0.7), 0.03, 0.4, velocity=(0.5, np.array(-1.0)), scheme=s, form=f, **k
        )
        for s in SCHEMES
        for f in FORMS
    },
    **{
        f"burgers-{s}-{f}": lambda u, s=s, f=f, **k: so.diffuse_convect_step(
            u, (0.5, 0.7), 0.03, 0.4, scheme=s, form=f, **k
        )
        for s in SCHEMES
        for f in FORMS
    },
}


@pytest.mark.parametrize("step", STEPS)
def test_roll_equivariance_is_exact(step: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8))
    for shift in ((1, 0), (-2, 3)):
        rolled = STEPS[step](np.roll(u, shift, (0, 1)))
        np.testing.assert_array_equal(rolled, np.roll(STEPS[step](u), shift, (0, 1)))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_steps_are_single_steps_bit_for_bit(step: str, dtype: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8)).astype(dtype)
    single = u
    for _ in range(5):
        single = STEPS[step](single)
    np.testing.assert_array_equal(STEPS[step](u, steps=5), single)


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_of_one_is_the_instance(step: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8))
    np.testing.assert_array_equal(STEPS[step](u[None])[0], STEPS[step](u))


@pytest.mark.parametrize("step", STEPS)
def test_reflection_is_exact(step: str, rng: np.random.Generator) -> None:
    """Mirrored field and wind give the mirrored result; only the order of sums along an axis may differ."""
    if "burgers" in step:
        mirrored = lambda u: -STEPS[step](-u[::-1, ::-1])[::-1, ::-1]  # noqa: E731
    elif step.startswith("diffusion"):
        mirrored = lambda u: STEPS[step](u[::-1, ::-1])[::-1, ::-1]  # noqa: E731
    else:
        scheme, form = step.split("-")
        mirrored = lambda u: so.diffuse_convect_step(  # noqa: E731
            u[::-1, ::-1], (0.5, 0.7), 0.03, 0.4, velocity=(-0.5, 1.0), scheme=scheme, form=form
        )[::-1, ::-1]
    u = rng.standard_normal((6, 8))
    np.testing.assert_allclose(mirrored(u), STEPS[step](u), rtol=0, atol=2e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reflection_of_winds_given_as_arrays_is_exact_to_the_bit(scheme: str, rng: np.random.Generator) -> None:
    u, v = rng.standard_normal(16), rng.standard_normal(16)
    for form in FORMS:
        options = {"scheme": scheme, "form": form}
        mirrored = so.convection_step(u[::-1], -v[::-1], 0.5, 0.1, **options)[::-1]
        np.testing.assert_array_equal(mirrored, so.convection_step(u, v, 0.5, 0.1, **options))


def test_transposition(rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8))
    options = {"velocity": (0.5, -1.0), "scheme": "upwind3"}
    swapped = {"velocity": (-1.0, 0.5), "scheme": "upwind3"}
    result = so.diffuse_convect_step(u.T, (0.7, 0.5), 0.03, 0.4, **swapped).T
    np.testing.assert_allclose(result, so.diffuse_convect_step(u, (0.5, 0.7), 0.03, 0.4, **options), atol=1e-15)


def test_the_order_of_axes_does_not_matter_to_the_bit(rng: np.random.Generator) -> None:
    u, v = rng.standard_normal((6, 8)), rng.standard_normal((2, 6, 8))
    bc = {0: (Dirichlet(1.0), Outflow()), 1: Hold()}
    one = so.diffuse_convect_step(u, (0.5, 0.7), 0.03, 0.4, velocity=(v[0], v[1]), bc=bc, axes=(0, 1))
    two = so.diffuse_convect_step(u, (0.7, 0.5), 0.03, 0.4, velocity=[v[1], v[0]], bc=bc, axes=(1, 0))
    three = so.diffuse_convect_step(
        u, (0.7, 0.5), 0.03, 0.4, velocity=[v[1], v[0]], bc=(Hold(), (Dirichlet(1.0), Outflow())), axes=(-1, -2)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weno_and_its_peers_do_not_know_units(scheme: str, rng: np.random.Generator) -> None:
    """Scaling u by a power of two scales the result exactly: no tolerance has a unit."""
    u = rng.standard_normal(32)
    one = so.convection_step(u, np.ones(32), 1.0, 0.1, scheme=scheme)
    for scale in (2.0**-60, 2.0**60):
        np.testing.assert_array_equal(so.convection_step(u * scale, np.ones(32), 1.0, 0.1, scheme=scheme), one * scale)


def test_instances_have_their_own_diffusivity(rng: np.random.Generator) -> None:
    u, nu = rng.standard_normal((3, 5, 6)), np.array([0.1, 0.5, 0.9])
    result = so.diffusion_step(u, 0.5, 0.05, nu[:, None, None])
    for one, x, k in zip(result, u, nu, strict=True):
        np.testing.assert_array_equal(one, so.diffusion_step(x, 0.5, 0.05, k))


def test_float32_instances_keep_their_diffusivity(rng: np.random.Generator) -> None:
    u, nu = rng.standard_normal((2, 9)).astype("f4"), np.array([[0.1], [0.7]], "f4")
    result = so.diffusion_step(u, 0.5, 0.1, nu, axes=1)
    for one, x, k in zip(result, u, nu[:, 0], strict=True):
        np.testing.assert_array_equal(one, so.diffusion_step(x, 0.5, 0.1, float(k)))


def test_a_constant_field_of_diffusivity_is_the_number(rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 7))
    field = so.diffusion_step(u, 0.5, 0.05, np.full((6, 7), 0.8), bc=Robin(0.5, 1.0))
    np.testing.assert_allclose(field, so.diffusion_step(u, 0.5, 0.05, 0.8, bc=Robin(0.5, 1.0)), rtol=0, atol=2e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("bc", [Periodic(), (Dirichlet(1.0), Outflow())], ids=["periodic", "walls"])
def test_both_forms_agree_for_a_constant_wind(scheme: str, bc, rng: np.random.Generator) -> None:
    u, v = rng.standard_normal(12), np.full(12, -0.7)
    bc = bc if isinstance(bc, Periodic) else (bc,)
    results = [so.convection_step(u, v, 1.0, 0.2, scheme=scheme, form=form, bc=bc) for form in FORMS]
    number = so.convection_step(u, -0.7, 1.0, 0.2, scheme=scheme, bc=bc, on_unstable="ignore")
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(results[0], number, rtol=0, atol=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_flux_form_conserves(scheme: str, rng: np.random.Generator) -> None:
    u, v = rng.standard_normal((8, 9)), tuple(rng.standard_normal((2, 8, 9)))
    mask = rng.random((8, 9)) < 0.7
    for m in (None, mask):
        result = so.convection_step(u, v, 1.0, 0.1, scheme=scheme, form="flux", mask=m, steps=5)
        assert result.sum() == pytest.approx(u.sum(), abs=1e-13)
        burgers = so.diffuse_convect_step(u, 1.0, 0.1, 0.2, scheme=scheme, form="flux", mask=m, steps=5)
        assert burgers.sum() == pytest.approx(u.sum(), abs=1e-13)


def test_upwind_keeps_positive_and_bounded(rng: np.random.Generator) -> None:
    u = (rng.random((20, 20)) < 0.1).astype(float)
    result = so.convection_step(u, (0.5, -0.25), 1.0, 1.0, steps=40)
    assert result.min() >= 0
    assert result.max() <= 1


def test_the_maximum_principle(rng: np.random.Generator) -> None:
    u, nu = rng.random((20, 20)), rng.random((20, 20))
    for k in (1.0, nu):
        result = so.diffusion_step(u, 1.0, 0.25, k, bc=Reflect(), steps=30)
        assert u.min() <= result.min() <= result.max() <= u.max()


def test_weno5_does_not_overshoot_a_step_much() -> None:
    """Essentially non-oscillatory: a square wave stays within a percent; the linear third-order scheme does not."""
    u = np.where(np.abs(np.arange(100) - 50) < 20, 1.0, 0.0)
    overshoot = {}
    for scheme in ("upwind3", "weno5"):
        terms = so.Advection(1.0, scheme, "flux")
        result = so.pde_step(u, 1.0, 0.4, terms, integrator="ssprk3", steps=100)
        overshoot[scheme] = max(result.max() - 1, -result.min())
    assert overshoot["weno5"] < 0.01 < 0.05 < overshoot["upwind3"]


MASKED = {
    "diffusion": lambda u, mask: so.diffusion_step(u, 1.0, 0.1, 0.8, mask=mask, steps=3),
    "diffusion-field": lambda u, mask: so.diffusion_step(u, 1.0, 0.1, np.where(mask, 0.8, np.nan), mask=mask, steps=3),
    **{
        f"{s}-{f}": lambda u, mask, s=s, f=f: so.convection_step(
            u, (np.where(mask, 0.5, np.nan), -1.0), 1.0, 0.1, scheme=s, form=f, mask=mask, steps=3,
            source=np.where(mask, 1.0, np.nan),
        )
        for s in SCHEMES
        for f in FORMS
    },
    **{
        f"burgers-{s}-{f}": lambda u, mask, s=s, f=f: so.diffuse_convect_step(
            u, 1.0, 0.1, 0.2, scheme=s, form=f, mask=mask, steps=3
        )
        for s in SCHEMES
        for f in FORMS
    },
}  # fmt: skip


@pytest.mark.parametrize("step", MASKED)
def test_values_outside_the_mask_never_matter(step: str, rng: np.random.Generator) -> None:
    """NaN, infinity and numbers on land give the same sea bit for bit, and stay as they were."""
    u, mask = rng.standard_normal((9, 10)), rng.random((9, 10)) < 0.7
    plain = MASKED[step](np.where(mask, u, 0.0), mask)
    assert np.isfinite(plain[mask]).all()
    for land in (np.nan, np.inf, 1e6):
        given = np.where(mask, u, land)
        result = MASKED[step](given, mask)
        np.testing.assert_array_equal(result[mask], plain[mask])
        np.testing.assert_array_equal(result[~mask], given[~mask])


@pytest.mark.parametrize("step", MASKED)
def test_a_mask_of_everything_is_no_mask(step: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((9, 10))
    everywhere = np.ones((9, 10), bool)
    result = MASKED[step](u, everywhere)
    if step.startswith("diffusion"):
        expected = so.diffusion_step(u, 1.0, 0.1, 0.8, steps=3)
    elif step.startswith("burgers"):
        _, scheme, form = step.split("-")
        expected = so.diffuse_convect_step(u, 1.0, 0.1, 0.2, scheme=scheme, form=form, steps=3)
    else:
        scheme, form = step.split("-")
        expected = so.convection_step(
            u, (0.5, -1.0), 1.0, 0.1, scheme=scheme, form=form, steps=3, source=1.0, on_unstable="ignore"
        )
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


def test_a_closed_face_carries_no_diffusion() -> None:
    """Two basins keep their own mean."""
    u = np.array([1.0, 3.0, 100.0, 5.0, 9.0, -100.0])
    mask = np.array([True, True, False, True, True, False])
    result = so.diffusion_step(u, 1.0, 0.25, 1.0, mask=mask)
    np.testing.assert_array_equal(result, [1.5, 2.5, 100.0, 6.0, 8.0, -100.0])


def test_a_closed_face_in_the_advective_form_has_no_gradient() -> None:
    u, mask = np.array([7.0, 1.0, 3.0, 7.0]), np.array([False, True, True, False])
    result = so.convection_step(u, 1.0, 1.0, 0.5, mask=mask)
    np.testing.assert_array_equal(result, [7.0, 1.0, 2.0, 7.0])
    back = so.convection_step(u, -1.0, 1.0, 0.5, mask=mask)
    np.testing.assert_array_equal(back, [7.0, 2.0, 3.0, 7.0])


def test_a_mask_broadcasts(rng: np.random.Generator) -> None:
    u, mask = rng.standard_normal((3, 4, 5)), rng.random((4, 5)) < 0.6
    batched = so.diffusion_step(u, 1.0, 0.1, 1.0, mask=mask)
    full = so.diffusion_step(u, 1.0, 0.1, 1.0, mask=np.broadcast_to(mask, u.shape))
    np.testing.assert_array_equal(batched, full)


def test_an_infinite_cell_at_a_closed_face_stays_infinite() -> None:
    result = so.diffusion_step([np.inf, 0.0, 1.0], 1.0, 0.1, 1.0, mask=np.array([True, False, False]))
    np.testing.assert_array_equal(result, [np.inf, 0.0, 1.0])


def test_num09_closed_walls_conserve_with_a_varying_diffusivity() -> None:
    i, j = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
    nu = 1 + 0.9 * np.sin(i / 3) * np.cos(j / 5)
    u = np.where((i > 8) & (i < 20) & (j < 10), 4.0, 1.0)
    result = so.diffusion_step(u, 1.0, 0.1, nu, bc=Reflect(), steps=200)
    assert abs(result.sum() - u.sum()) <= 1e-12 * 200 * u.sum()
    assert u.min() - 1e-12 <= result.min() <= result.max() <= u.max() + 1e-12
    expected = u
    for _ in range(200):
        padded, k = np.pad(expected, 1, "edge"), np.pad(nu, 1, "edge")
        new = expected.copy()
        for axis in (0, 1):
            x, c = (np.moveaxis(p, axis, 0)[:, 1:-1] for p in (padded, k))
            flux = (c[1:] + c[:-1]) / 2 * np.diff(x, axis=0)
            new += 0.1 * np.moveaxis(np.diff(flux, axis=0), 0, axis)
        expected = new
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    constant = so.diffusion_step(np.full((32, 32), 7.0), 1.0, 0.1, nu, bc=Reflect())
    np.testing.assert_array_equal(constant, np.full((32, 32), 7.0))


def test_dty04_a_coefficient_is_a_double() -> None:
    """A coefficient 0.1 held in float32 would show as 1.5e-9."""
    u = np.zeros((8, 8))
    u[4, 4] = 1.0
    expected = np.zeros((8, 8))
    expected[4, 4] = 0.6
    expected[[3, 5, 4, 4], [4, 4, 3, 5]] = 0.1
    result = so.diffusion_step(u, 1.0, 1.0, 0.1)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, expected, rtol=1e-15, atol=1e-17)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("nu", "dt"),
    [(0.25, 0.5), (np.float64(0.25), 0.5), (np.float32(0.25), 0.5), (np.array(0.25), 0.5), (1, 0.125)],
    ids=["float", "float64", "float32", "0-d", "int"],
)
def test_dty08_scalars_of_any_kind_reach_the_step(dtype: str, nu, dt: float) -> None:
    u = np.zeros((16, 16), dtype)
    u[5, 7] = 1
    result = so.diffusion_step(u, 1, dt, nu)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, u + np.asarray(0.125, dtype) * laplacian(u, (0, 1)))


def test_lay01_negative_strides(rng: np.random.Generator) -> None:
    view = rng.standard_normal((9, 14))[::-1, ::-2]
    result = so.diffusion_step(view, 1.0, 1.0, 0.2)
    np.testing.assert_array_equal(result, so.diffusion_step(view.copy(), 1.0, 1.0, 0.2))
    np.testing.assert_allclose(result, view + 0.2 * laplacian(view, (0, 1)), rtol=0, atol=2e-15)


def test_lay05_the_state_is_left_alone(rng: np.random.Generator) -> None:
    u = rng.standard_normal((8, 8))
    before = u.copy()
    result = so.diffusion_step(u, 1.0, 1.0, 0.2, steps=3)
    np.testing.assert_array_equal(u, before)
    assert not np.shares_memory(result, u)


def test_nan02_neither_nan_nor_infinity_is_lost_or_spreads(rng: np.random.Generator) -> None:
    u = rng.standard_normal((12, 12))
    u[3, 4], u[8, 8] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = u + 0.2 * laplacian(u, (0, 1))
    result = so.diffusion_step(u, 1.0, 1.0, 0.2)
    bad = ~np.isfinite(result)
    assert bad.sum() == 10
    np.testing.assert_array_equal(bad, ~np.isfinite(expected))
    np.testing.assert_allclose(result[~bad], expected[~bad], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("velocity", "hit"), [(1.0, [5, 6]), (-1.0, [4, 5])])
def test_nan_moves_with_the_wind_only(velocity: float, hit: list[int]) -> None:
    u = np.zeros(10)
    u[5] = np.nan
    for v in (velocity, np.full(10, velocity)):
        result = so.convection_step(u, v, 1.0, 0.5)
        assert np.flatnonzero(np.isnan(result)).tolist() == hit


def test_thr04_many_threads(rng: np.random.Generator) -> None:
    us = rng.standard_normal((8, 64, 64))
    expected = [so.diffusion_step(u, 1.0, 1.0, 0.2, steps=3) for u in us]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            results = list(pool.map(lambda u: so.diffusion_step(u, 1.0, 1.0, 0.2, steps=3), us))
            for result, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, right)


def test_thr04_threads_do_not_end_the_process() -> None:
    code = (
        "import numpy as np, spectralops as so; from concurrent.futures import ThreadPoolExecutor as P\n"
        "u = np.random.default_rng(14).standard_normal((8, 256, 256))\n"
        "e = [x + 0.2*(np.roll(x,1,0)+np.roll(x,-1,0)+np.roll(x,1,1)+np.roll(x,-1,1)-4*x) for x in u]\n"
        "with P(8) as p:\n"
        "    for _ in range(10):\n"
        "        r = list(p.map(lambda x: so.diffusion_step(x, 1.0, 1.0, 0.2), u))\n"
        "assert np.allclose(r, e, rtol=0, atol=1e-13)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 4)], ids=str)
def test_nothing_to_do(shape) -> None:
    assert so.diffusion_step(np.ones(shape), 1.0, 0.1, 1.0, bc=Dirichlet(1.0)).shape == shape


def test_integers_are_stepped_as_doubles() -> None:
    result = so.diffusion_step(np.array([0, 0, 4, 0]), 1, 0.25, 1)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, [0, 1, 2, 1])


def test_integer_coefficients_are_numbers() -> None:
    u = np.array([0.0, 0.0, 4.0, 0.0])
    np.testing.assert_array_equal(so.convection_step(u, np.ones(4, int), 1, 0.5), [0, 0, 2, 2])


def test_float16_rounds_once_per_call() -> None:
    """A change below half a unit in the last place is lost in single steps, but not in one call of many."""
    u = np.ones(64, "float16")
    u[32] = 1.001
    single = u
    for _ in range(64):
        single = so.diffusion_step(single, 1.0, 0.1, 1.0)
    fused = so.diffusion_step(u, 1.0, 0.1, 1.0, steps=64)
    exact = so.diffusion_step(u.astype("f8"), 1.0, 0.1, 1.0, steps=64).astype("float16")
    assert single[32] == u[32]
    np.testing.assert_array_equal(fused, exact)


def test_out_receives_the_result(rng: np.random.Generator) -> None:
    u, out = rng.standard_normal((6, 7)), np.full((6, 7), np.nan)
    assert so.diffusion_step(u, 1.0, 0.1, 1.0, steps=2, out=out) is out
    np.testing.assert_array_equal(out, so.diffusion_step(u, 1.0, 0.1, 1.0, steps=2))


def test_out_must_not_be_the_field() -> None:
    u = np.ones(6)
    with pytest.raises(ValueError, match=r"^diffusion_step: out overlaps an input in memory, but must not"):
        so.diffusion_step(u, 1.0, 0.1, 1.0, out=u)
