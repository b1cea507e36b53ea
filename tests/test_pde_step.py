"""pde_step: integrators against exact exponentials and known solutions, measured orders, composition of terms."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from step_engines import engine  # noqa: F401

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
    SelfAdvection,
    Source,
)
from spectralops._plans.stability import amplification, symbol

pytestmark = pytest.mark.usefixtures("engine")

INTEGRATORS = ["euler", "rk2", "ssprk3", "rk4"]
ORDER = {"euler": 1, "rk2": 2, "ssprk3": 3, "rk4": 4}
SCHEMES = ["upwind", "central", "upwind3", "weno5"]


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("scheme", SCHEMES[:3])
def test_a_mode_is_multiplied_by_the_stability_polynomial(integrator: str, scheme: str) -> None:
    """u' = R(z) u, z = dt lambda(theta): R of degree 1 to 4 in the exact discrete symbol."""
    n, m, dx, dt, nu, v = 16, 3, 0.5, 0.1, 0.3, -0.7
    u = np.exp(2j * math.pi / n * (m * np.arange(n) % n))
    g = amplification(dt * symbol(2 * math.pi * m / n, dx, nu, ((v, scheme),)), integrator)
    terms = [Diffusion(nu), Advection(v, scheme)]
    parts = [so.pde_step(p, dx, dt, terms, integrator=integrator, on_unstable="ignore") for p in (u.real, u.imag)]
    np.testing.assert_allclose(parts[0] + 1j * parts[1], g * u, rtol=0, atol=4e-15)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_order_in_time(integrator: str) -> None:
    """Logistic growth in every cell: u = 1 / (1 + (1/u0 - 1) exp(-t))."""
    u0 = np.array([0.1, 0.4, 0.9])
    exact = 1 / (1 + (1 / u0 - 1) * math.exp(-1.0))
    errors = [
        np.abs(
            so.pde_step(u0, 1.0, 1 / n, Pointwise(lambda u: u * (1 - u)), integrator=integrator, steps=n) - exact
        ).max()
        for n in (16, 32)
    ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(ORDER[integrator], abs=0.2)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_order_in_time_of_burgers(integrator: str) -> None:
    """Against very small steps on the same grid, so that only the error in time is left."""
    x = np.arange(32) / 32
    u0 = 1 + 0.5 * np.sin(2 * math.pi * x)
    terms = [Diffusion(0.02), SelfAdvection("central")]

    def solve(n: int, name: str) -> np.ndarray:
        return so.pde_step(u0, 1 / 32, 0.25 / n, terms, integrator=name, steps=n)

    exact = solve(512, "rk4")
    errors = [np.abs(solve(n, integrator) - exact).max() for n in (64, 128)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(ORDER[integrator], abs=0.25)


@pytest.mark.parametrize("form", ["advective", "flux"])
@pytest.mark.parametrize(("scheme", "order"), [("upwind", 1), ("central", 2), ("upwind3", 3), ("weno5", 5)])
def test_order_in_space(scheme: str, order: int, form: str) -> None:
    """A smooth wave with critical points carried a tenth of a period; the error in time is below that in space."""

    def error(n: int) -> float:
        x = (np.arange(n) + 0.5) / n
        u = np.sin(2 * math.pi * x)
        u = so.pde_step(u, 1 / n, 0.1 / n, Advection(1.0, scheme, form), integrator="rk4", steps=n)
        return float(np.abs(u - np.sin(2 * math.pi * (x - 0.1))).mean())

    assert math.log2(error(64) / error(128)) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("form", ["advective", "flux"])
@pytest.mark.parametrize(("scheme", "order"), [("upwind", 1), ("central", 2), ("upwind3", 3), ("weno5", 5)])
def test_order_of_self_advection(scheme: str, order: int, form: str) -> None:
    """-u u_x of a smooth positive wave by one very short step."""

    def error(n: int) -> float:
        x = (np.arange(n) + 0.5) / n
        u = 2 + np.sin(2 * math.pi * x)
        exact = -u * 2 * math.pi * np.cos(2 * math.pi * x)
        rate = (so.pde_step(u, 1 / n, 1e-3, SelfAdvection(scheme, form)) - u) / 1e-3
        return float(np.abs(rate - exact).mean())

    assert math.log2(error(128) / error(256)) == pytest.approx(order, abs=0.25)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_heat_kernel(integrator: str) -> None:
    """A Gaussian spreads: sigma**2 -> sigma**2 + 2 nu t, in 2-D."""
    n, h, nu, sigma, steps = 64, 0.25, 0.5, 1.5, 100
    x = (np.arange(n) - (n - 1) / 2) * h
    square = x[:, None] ** 2 + x**2
    dt = 0.02
    wide = sigma**2 + 2 * nu * dt * steps
    u = np.exp(-square / (2 * sigma**2))
    result = so.pde_step(u, h, dt, Diffusion(nu), integrator=integrator, steps=steps)
    np.testing.assert_allclose(result, sigma**2 / wide * np.exp(-square / (2 * wide)), atol=2e-3)


def test_euler_equals_the_other_operators_to_the_bit(rng: np.random.Generator) -> None:
    u, v = rng.standard_normal((6, 7)), tuple(rng.standard_normal((2, 6, 7)))
    pairs = [
        (so.diffusion_step(u, 0.5, 0.05, 0.8, steps=3), [Diffusion(0.8)]),
        (so.convection_step(u, v, 0.5, 0.05, steps=3, form="flux"), Advection(v, "upwind", "flux")),
        (so.diffuse_convect_step(u, 0.5, 0.05, 0.8, steps=3), (Diffusion(0.8), SelfAdvection("central"))),
        (so.diffusion_step(u, 0.5, 0.05, 0.8, source=v[0], steps=3), [Diffusion(0.8), Source(v[0])]),
    ]
    for expected, terms in pairs:
        np.testing.assert_array_equal(so.pde_step(u, 0.5, 0.05, terms, steps=3), expected)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_many_steps_are_single_steps_bit_for_bit(integrator: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 7))
    mask = rng.random((6, 7)) < 0.8
    terms = [Diffusion(0.3), SelfAdvection("weno5", "flux"), Pointwise(np.sin), Source(0.5)]
    options = {"integrator": integrator, "bc": (Hold(), (Dirichlet(1.0), Reflect())), "mask": mask}
    single = u
    for _ in range(4):
        single = so.pde_step(single, 0.5, 0.05, terms, **options)
    np.testing.assert_array_equal(so.pde_step(u, 0.5, 0.05, terms, steps=4, **options), single)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_roll_equivariance_is_exact(integrator: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 7))
    terms = [Diffusion(0.3), Advection((0.5, -1.0), "upwind3"), SelfAdvection("weno5")]
    rolled = so.pde_step(np.roll(u, (2, 3), (0, 1)), 0.5, 0.05, terms, integrator=integrator)
    plain = so.pde_step(u, 0.5, 0.05, terms, integrator=integrator)
    np.testing.assert_array_equal(rolled, np.roll(plain, (2, 3), (0, 1)))


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_held_and_masked_cells_keep_their_bits(integrator: str, rng: np.random.Generator) -> None:
    u, mask = rng.standard_normal(12), np.ones(12, bool)
    mask[5] = False
    u[5] = np.nan
    result = so.pde_step(
        u, 1.0, 0.2, [Diffusion(1.0), Source(3.0)], integrator=integrator, bc=Hold(), mask=mask, steps=7
    )
    np.testing.assert_array_equal(result[[0, 5, -1]], u[[0, 5, -1]])
    assert (np.delete(result, [0, 5, 11]) != np.delete(u, [0, 5, 11])).all()


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_linear_profile_is_a_fixed_point(integrator: str) -> None:
    u = 1 + (np.arange(8) + 0.5) / 2
    bc = ((Dirichlet(1.0), Neumann(1.0)),)
    np.testing.assert_allclose(
        so.pde_step(u, 0.5, 0.05, Diffusion(1.0), integrator=integrator, bc=bc, steps=20), u, rtol=1e-14
    )


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_constant_rate_adds_up(integrator: str) -> None:
    u = np.array([0.0, 1.0, 2.0])
    result = so.pde_step(
        u, 1.0, 0.125, [Source(2.0), Source(np.array([0.0, 1.0, 2.0]))], integrator=integrator, steps=8
    )
    np.testing.assert_allclose(result, u + 2 + np.array([0.0, 1.0, 2.0]), rtol=1e-15)


def test_the_shock_moves_at_the_right_speed_in_flux_form() -> None:
    """u = 1 left, 0 right: the shock runs with speed 1/2; the advective form leaves it behind."""
    u = np.where(np.arange(80) < 20, 1.0, 0.0)
    bc = ((Dirichlet(1.0), Outflow()),)
    place = {
        form: so.pde_step(u, 1.0, 0.5, SelfAdvection("upwind", form), bc=bc, steps=60).sum()
        for form in ("flux", "advective")
    }
    assert place["flux"] == pytest.approx(20 + 0.5 * 30, abs=1e-9)
    assert place["advective"] == pytest.approx(20.0, abs=1e-9)


def test_fisher_waves_run_with_their_speed() -> None:
    """u_t = u_xx + u (1 - u) has the front (1 + exp((x - 5 t / sqrt(6)) / sqrt(6)))**-2."""
    h, dt, steps = 0.1, 0.002, 1000
    x = (np.arange(400) + 0.5) * h - 15

    def front(t: float) -> np.ndarray:
        return (1 + np.exp((x - 5 * t / math.sqrt(6)) / math.sqrt(6))) ** -2

    terms = [Diffusion(1.0), Pointwise(lambda u: u * (1 - u))]
    result = so.pde_step(front(0.0), h, dt, terms, integrator="rk2", bc=Reflect(), steps=steps)
    inside = slice(20, -20)
    np.testing.assert_allclose(result[inside], front(dt * steps)[inside], atol=2e-3)


# Cole–Hopf values of u(x, t) for nu = 0.01 / pi, u(x, 0) = -sin(pi x) on [-1, 1].
TABLE_X = [0.05, 0.10, 0.25, 0.50, 0.75, 0.90]
TABLE = {
    0.5: [-0.978982178395, -0.958159553419, -0.847354524451, -0.592769534402, -0.302842708347, -0.121789426903],
    1.0: [-0.700027080879, -0.665481567664, -0.559196293103, -0.376181395748, -0.188998095308, -0.075695944486],
}


def cole_hopf(x: np.ndarray, t: float, nu: float) -> np.ndarray:
    """Solution of Burgers' equation from -sin(pi x), by the trapezoidal rule on the Cole–Hopf integral."""
    eta = np.linspace(-1.5, 1.5, 6001)
    y = x[:, None] - eta
    weight = np.exp(-(np.cos(math.pi * y) + 1) / (2 * math.pi * nu) - eta**2 / (4 * nu * t))
    return -(np.sin(math.pi * y) * weight).sum(1) / weight.sum(1)


@pytest.mark.parametrize("t", TABLE)
def test_cole_hopf_agrees_with_the_table(t: float) -> None:
    np.testing.assert_allclose(cole_hopf(np.array(TABLE_X), t, 0.01 / math.pi), TABLE[t], atol=1e-11)


@pytest.mark.parametrize(
    ("scheme", "form", "bound"), [("weno5", "advective", 2e-4), ("central", "flux", 2e-3), ("upwind3", "flux", 2e-3)]
)
def test_burgers_against_cole_hopf(scheme: str, form: str, bound: float) -> None:
    """512 cells, ssprk3, t = 0.5: the mean error over the domain, shock included."""
    n, nu, steps = 512, 0.01 / math.pi, 320
    x = (np.arange(n) + 0.5) * 2 / n - 1
    terms = [Diffusion(nu), SelfAdvection(scheme, form)]
    u = so.pde_step(-np.sin(math.pi * x), 2 / n, 0.5 / steps, terms, integrator="ssprk3", steps=steps)
    assert np.abs(u - cole_hopf(x, 0.5, nu)).mean() < bound


def test_burgers_has_the_published_slope_at_its_steepest() -> None:
    """Basdevant et al. 1986: max |u_x(0, t)| = 152.00516 at pi t = 1.6037, within 0.5 %.

    Grid: 1536 uniform cells on [0, 1], the half of [-1, 1], with the faces x = 0 and x = 1 held at 0, which continues
    u oddly; the shock is some 20 cells wide. Central flux form, ssprk3, dt = 0.9 of the diffusive bound.
    """
    n, nu, end = 1536, 0.01 / math.pi, 1.6036880 / math.pi
    h = 1 / n
    steps = math.ceil(end / (0.9 * so.plan_pde_step((n,), "f8", h, 1e-9, Diffusion(nu), integrator="ssprk3").stable_dt))
    u = -np.sin(math.pi * (np.arange(n) + 0.5) * h)
    terms = [Diffusion(nu), SelfAdvection("central", "flux")]
    u = so.pde_step(u, h, end / steps, terms, integrator="ssprk3", bc=Dirichlet(0.0), steps=steps)
    # u is odd about the face: a x + b x**3 through the first two cells.
    slope = (9 * u[0] / (0.5 * h) - u[1] / (1.5 * h)) / 8
    assert abs(slope) == pytest.approx(152.0051615980, rel=5e-3)


def test_taylor_green_vortices_decay(rng: np.random.Generator) -> None:
    """Both components of the vortex, carried by it and diffused, against cos x sin y exp(-2 nu t): pressure balances.

    The advection of the vortex by itself is a gradient, (sin 2x, sin 2y) / 2: its exact value goes in as a source.
    """
    n, nu, dt, steps = 64, 0.1, 0.002, 50
    h = 2 * math.pi / n
    x, y = np.meshgrid((np.arange(n) + 0.5) * h, (np.arange(n) + 0.5) * h, indexing="ij")
    u, v = np.cos(x) * np.sin(y), -np.sin(x) * np.cos(y)
    for k in range(steps):
        decay = math.exp(-4 * nu * k * dt)
        pressure = (-decay * np.sin(2 * x) / 2, -decay * np.sin(2 * y) / 2)
        u, v = (
            so.pde_step(w, h, dt, [Diffusion(nu), Advection((u, v), "weno5"), Source(p)])
            for w, p in zip((u, v), pressure, strict=True)
        )
    exact = np.cos(x) * np.sin(y) * math.exp(-2 * nu * dt * steps)
    np.testing.assert_allclose(u, exact, atol=2e-3)
    assert (u**2 + v**2).mean() == pytest.approx(0.5 * math.exp(-4 * nu * dt * steps), rel=2e-3)


def test_a_function_sees_read_only_numbers_of_the_right_type() -> None:
    seen = []

    def look(u: np.ndarray) -> np.ndarray:
        seen.append((u.dtype.name, u.shape, u.flags.writeable))
        return np.zeros_like(u)

    so.pde_step(np.ones((2, 5), "float16"), 1.0, 0.1, [Pointwise(look), Diffusion(1.0)], axes=1)
    assert seen == [("float32", (2, 5), False)]


def test_a_function_may_return_a_number() -> None:
    np.testing.assert_array_equal(so.pde_step(np.zeros(3), 1.0, 0.5, Pointwise(lambda u: 2.0)), [1, 1, 1])


def test_a_function_must_keep_the_shape() -> None:
    with pytest.raises(
        ValueError, match=r"^pde_step: Pointwise function returned shape \(2,\), but must return \(3,\)"
    ):
        so.pde_step(np.zeros(3), 1.0, 0.5, Pointwise(lambda u: u[:2]))


def test_functions_are_not_kept_alive() -> None:
    import gc
    import weakref

    class Big:
        def __call__(self, u: np.ndarray) -> np.ndarray:
            return u

    big = Big()
    watch = weakref.ref(big)
    so.pde_step(np.zeros(3), 1.0, 0.5, Pointwise(big))
    del big
    gc.collect()
    assert watch() is None


def test_terms_are_values() -> None:
    for term in (Diffusion(0.5), Advection((1.0, 2.0), "weno5"), SelfAdvection(), Source(1.0), Pointwise(np.sin)):
        assert pickle.loads(pickle.dumps(term)) == term
    assert Advection(1.0) == Advection(1.0, "upwind", "advective")
    assert SelfAdvection() == SelfAdvection("upwind", "advective")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Advection(1.0, "weno"), ValueError, "^Advection: scheme is 'weno', but must be 'central', 'upwind', "),
        (
            lambda: Advection(1.0, "upwind", "strong"),
            ValueError,
            "^Advection: form is 'strong', but must be 'advective'",
        ),
        (lambda: Advection(1.0, 3), TypeError, "^Advection: scheme is a int, but must be "),
        (lambda: SelfAdvection("weno"), ValueError, "^SelfAdvection: scheme is 'weno', but must be "),
        (lambda: SelfAdvection("upwind", "strong"), ValueError, "^SelfAdvection: form is 'strong', but must be "),
        (lambda: Pointwise(3.0), TypeError, "^Pointwise: function is a float, but must be callable"),
    ],
)
def test_bad_terms(make, error, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ([], ValueError, "^pde_step: terms is empty, but must have at least one term"),
        ("diffusion", TypeError, "^pde_step: terms is a str, but must be a term or a sequence of terms"),
        ([Diffusion(1.0), 2.0], TypeError, r"^pde_step: terms\[1\] is a float, but must be Diffusion, Advection"),
        (Diffusion, TypeError, "^pde_step: terms is a type, but must be a term"),
        (Diffusion(-1.0), ValueError, r"^pde_step: nu is -1\.0, but must not be negative"),
        ([Source(0.0), Diffusion("x")], TypeError, r"^pde_step: terms\[1\]\.nu is a str, but must be a real number"),
        ([Advection("fast")], TypeError, r"^pde_step: terms\[0\]\.velocity is a str, but must be a real number"),
        (Source(float("nan")), ValueError, "^pde_step: rate is nan, but must be finite"),
        (
            [Source(np.ones(4))],
            ValueError,
            r"^pde_step: terms\[0\]\.rate has shape \(4,\), but must broadcast to \(3,\)",
        ),
        ([Advection([1.0, 2.0])], ValueError, r"^pde_step: u has 1 dimensions, but must .* terms\[0\]\.velocity"),
    ],
)
def test_bad_lists_of_terms(terms, error, message: str) -> None:
    with pytest.raises(error, match=message):
        so.pde_step(np.ones(3), 1.0, 0.1, terms)


def test_unknown_integrator() -> None:
    with pytest.raises(
        ValueError, match=r"^pde_step: integrator is 'rk3', but must be 'euler', 'rk2', 'ssprk3' or 'rk4'"
    ):
        so.pde_step(np.ones(3), 1.0, 0.1, Diffusion(1.0), integrator="rk3")
