"""Stability bounds: closed forms, published numbers, brute force over modes, and what the steps do with them."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

import spectralops as so
from spectralops import StabilityError, StabilityWarning
from spectralops._arrays import ArraySpec
from spectralops._plans.field_stability import depends_on_data
from spectralops._plans.stability import (
    IMAGINARY_AXIS,
    POLYNOMIAL,
    REAL_AXIS,
    amplification,
    judge,
    largest_stable_dt,
    symbol,
)

INTEGRATORS = list(POLYNOMIAL)
SCHEMES = ["upwind", "central", "upwind3", "weno5"]


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_polynomial_is_the_exponential_series(integrator: str) -> None:
    order = {"euler": 1, "rk2": 2, "ssprk3": 3, "rk4": 4}[integrator]
    assert POLYNOMIAL[integrator] == tuple(1 / math.factorial(k) for k in range(order + 1))


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_amplification_is_the_polynomial(integrator: str) -> None:
    z = np.array([0.5 - 0.25j, -1.5 + 2j])
    expected = sum(z**k / math.factorial(k) for k in range(len(POLYNOMIAL[integrator])))
    np.testing.assert_allclose(amplification(z, integrator), expected, rtol=1e-14)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_real_interval_ends_where_the_factor_leaves_one(integrator: str) -> None:
    end = REAL_AXIS[integrator]
    assert abs(abs(amplification(-end, integrator)) - 1) < 1e-12
    assert abs(amplification(-0.999 * end, integrator)) < 1 < abs(amplification(-1.001 * end, integrator))


@pytest.mark.parametrize("integrator", ["ssprk3", "rk4"])
def test_imaginary_interval_ends_where_the_factor_leaves_one(integrator: str) -> None:
    end = IMAGINARY_AXIS[integrator]
    assert abs(abs(amplification(1j * end, integrator)) - 1) < 1e-12
    assert abs(amplification(0.999j * end, integrator)) < 1 < abs(amplification(1.001j * end, integrator))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("velocity", [1.5, -1.5])
def test_symbol_is_consistent_with_the_derivative(scheme: str, velocity: float) -> None:
    """lambda -> -i v k for long waves, to the scheme's order."""
    order = {"upwind": 1, "central": 2, "upwind3": 3, "weno5": 5}[scheme]
    errors = [abs(symbol(t, 0.5, 0.0, ((velocity, scheme),)) + 1j * velocity * t / 0.5) / t for t in (0.2, 0.1)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_symbol_never_grows(scheme: str) -> None:
    theta = np.linspace(-math.pi, math.pi, 101)
    for velocity in (1.0, -1.0):
        assert symbol(theta, 1.0, 0.0, ((velocity, scheme),)).real.max() < 1e-14


def test_symbol_of_diffusion() -> None:
    theta = np.array([0.0, 1.0, math.pi])
    np.testing.assert_allclose(symbol(theta, 0.5, 0.3, ()), -4 * 0.3 / 0.25 * np.sin(theta / 2) ** 2, rtol=1e-15)


@pytest.mark.parametrize(
    ("spacing", "nu", "expected"),
    [
        ((1.0, 1.0), 1.0, 0.25),
        ((1.0, 1.0), 4.0, 0.0625),
        ((1.0, 0.5), 1.0, 0.1),
        ((1.0, 1.0, 1.0), 1.0, 1 / 6),
        ((0.5,), 0.5, 0.25),
    ],
)
def test_euler_diffusion(spacing, nu: float, expected: float) -> None:
    assert largest_stable_dt(spacing, nu) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_diffusion_ends_on_the_real_axis(integrator: str) -> None:
    bound = largest_stable_dt((0.5, 0.25), 2.0, (), integrator)
    assert bound * 4 * 2.0 * (4 + 16) == pytest.approx(REAL_AXIS[integrator], rel=1e-15)


def test_nothing_limits_nothing() -> None:
    assert largest_stable_dt((1.0,)) == math.inf
    assert largest_stable_dt((1.0,), 0.0, (((0.0,), "central"),), "rk4") == math.inf


def test_upwind_is_the_courant_number() -> None:
    bound = largest_stable_dt((0.5, 0.25), 0.0, (((1.0, -2.0), "upwind"),))
    assert bound == pytest.approx(1 / (1 / 0.5 + 2 / 0.25), rel=1e-15)


def test_upwind_with_diffusion() -> None:
    """sum|C| + 2 sum r = 1."""
    bound = largest_stable_dt((0.5,), 0.1, (((1.0,), "upwind"),))
    assert bound * (1 / 0.5 + 2 * 0.1 / 0.25) == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize(("nu", "expected"), [(0.1, 0.1), (10.0, 0.00625)])
def test_euler_central_is_the_smaller_of_two_bounds(nu: float, expected: float) -> None:
    """Hindmarsh, Gresho and Griffiths: sum r <= 1/2 and sum C**2 / (2 r) <= 1."""
    bound = largest_stable_dt((0.5, 0.5), nu, (((1.0, -1.0), "central"),))
    assert bound == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("scheme", ["central", "upwind3", "weno5"])
def test_euler_without_diffusion_is_never_stable(scheme: str) -> None:
    assert largest_stable_dt((1.0,), 0.0, (((1.0,), scheme),)) == 0.0


@pytest.mark.parametrize("scheme", ["central", "weno5"])
def test_heun_without_diffusion_is_never_stable(scheme: str) -> None:
    """Long waves grow, like |z|**4 / 8 a step."""
    assert largest_stable_dt((1.0,), 0.0, (((1.0,), scheme),), "rk2") == 0.0


@pytest.mark.parametrize("integrator", ["ssprk3", "rk4"])
def test_central_ends_on_the_imaginary_axis(integrator: str) -> None:
    bound = largest_stable_dt((0.5, 0.25), 0.0, (((1.0, -2.0), "central"),), integrator)
    assert bound * (1 / 0.5 + 2 / 0.25) == pytest.approx(IMAGINARY_AXIS[integrator], rel=1e-15)


@pytest.mark.parametrize(
    ("scheme", "integrator", "courant"),
    [
        ("upwind3", "rk2", 0.87),
        ("upwind3", "ssprk3", 1.62),
        ("upwind3", "rk4", 1.74),
        ("weno5", "ssprk3", 1.43),
        ("weno5", "rk4", 1.73),
        ("upwind", "rk2", 1.0),
        ("upwind", "ssprk3", 1.25),
        ("upwind", "rk4", 1.39),
    ],
)
def test_known_courant_numbers(scheme: str, integrator: str, courant: float) -> None:
    """Limits of advection with Runge–Kutta schemes as the literature quotes them (cf. Baldauf, JCP 227 (2008) 6638)."""
    assert largest_stable_dt((0.5,), 0.0, (((-2.0,), scheme),), integrator) * 4 == pytest.approx(courant, abs=0.01)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("spacing", [(0.7,), (0.7, 0.4), (0.7, 0.4, 1.1)], ids=["1d", "2d", "3d"])
def test_bound_is_sharp(integrator: str, scheme: str, spacing: tuple[float, ...]) -> None:
    """No mode of a fine grid grows at the bound; some mode does 0.2 % above it."""
    velocity, nu = (0.8, -1.3, 0.5)[: len(spacing)], 0.3
    bound = largest_stable_dt(spacing, nu, ((velocity, scheme),), integrator)
    count = {1: 4001, 2: 201, 3: 37}[len(spacing)]
    theta = np.concatenate([np.linspace(-math.pi, math.pi, count), np.array([-1e-3, 1e-3])])
    values = np.zeros((1,) * len(spacing), complex)
    for a, (h, v) in enumerate(zip(spacing, velocity, strict=True)):
        shape = [-1 if b == a else 1 for b in range(len(spacing))]
        values = values + symbol(theta, h, nu, ((v, scheme),)).reshape(shape)
    assert np.abs(amplification(bound * values, integrator)).max() <= 1 + 1e-6
    assert np.abs(amplification(1.002 * bound * values, integrator)).max() > 1 + 1e-9


def test_several_winds_add_up() -> None:
    one = largest_stable_dt((1.0,), 0.5, (((0.75,), "central"),))
    assert largest_stable_dt((1.0,), 0.5, (((0.5,), "central"), ((0.25,), "central"))) == one
    assert largest_stable_dt((1.0,), 0.0, (((2.0,), "central"), ((-2.0,), "central")), "rk4") == math.inf


def test_upwind_damping_stabilises_a_central_wind() -> None:
    """Long waves: dt (v + w)**2 <= 2 nu with the numerical nu = |v| h / 2; here 4 dt <= 1."""
    bound = largest_stable_dt((1.0,), 0.0, (((1.0,), "upwind"), ((1.0,), "central")))
    assert 0 < bound <= 0.25
    theta = np.linspace(0, math.pi, 2001)
    values = symbol(theta, 1.0, 0.0, ((1.0, "upwind"), (1.0, "central")))
    assert np.abs(amplification(bound * values, "euler")).max() <= 1 + 1e-9


def test_a_small_viscosity_limits_long_waves() -> None:
    """upwind3 with Euler: dt <= 2 nu / v**2, since the damping of the scheme vanishes for long waves."""
    assert largest_stable_dt((1.0,), 1e-3, (((1.0,), "upwind3"),)) == pytest.approx(2e-3, rel=1e-12)


class TestOperators:
    """What the step operators do with the bound."""

    u = np.ones((6, 6))

    @pytest.mark.parametrize(
        ("u", "dx", "dt", "nu", "bound", "mention"),
        [
            ((50, 50), 1.0, 10.0, 1.0, 0.25, "0.25"),
            ((6, 6), (1.0, 0.5), 0.15, 1.0, 0.1, "0.1"),
            ((6, 6, 6), (1.0, 1.0, 1.0), 0.2, 1.0, 1 / 6, "0.166667"),
        ],
        ids=["2d", "anisotropic", "3d"],
    )
    def test_err01_too_large_a_step_names_the_bound(self, u, dx, dt, nu, bound, mention) -> None:
        with pytest.raises(StabilityError) as caught:
            so.diffusion_step(np.ones(u), dx, dt, nu)
        assert caught.value.stable_dt == pytest.approx(bound, rel=1e-15)
        assert f"but must be at most {mention};" in str(caught.value)
        assert isinstance(caught.value, ValueError)

    def test_err01_the_bound_itself_is_accepted(self) -> None:
        np.testing.assert_array_equal(so.diffusion_step(self.u, 1.0, 0.25, 1.0), self.u)

    def test_a_rounded_bound_is_accepted(self) -> None:
        dx = 0.1
        assert so.diffusion_step(self.u, dx, 0.25 * dx**2 / 0.7 * (1 + 1e-15), 0.7).shape == (6, 6)

    def test_err01_the_largest_of_a_varying_diffusivity(self) -> None:
        nu = np.ones((50, 50))
        nu[10, 10] = 4.0
        with pytest.raises(StabilityError, match=r"but must be at most 0\.0625;"):
            so.diffusion_step(np.ones((50, 50)), 1.0, 0.2, nu)

    @pytest.mark.parametrize("dt", [math.nan, 0.0, -0.1, math.inf])
    def test_err01_dt_must_be_a_positive_number(self, dt: float) -> None:
        with pytest.raises(
            ValueError, match=r"^diffusion_step: dt is (nan|0\.0|-0\.1|inf), but must be (finite|positive)"
        ):
            so.diffusion_step(self.u, 1.0, dt, 1.0)

    def test_the_message(self) -> None:
        message = (
            "^diffuse_convect_step: dt is 0.5, 2 times the stability bound of integrator 'euler' with diffusion and "
            r"scheme 'central', but must be at most 0\.25; reduce dt, or pass on_unstable='warn' or 'ignore'$"
        )
        with pytest.raises(StabilityError, match=message):
            so.diffuse_convect_step(self.u, 1.0, 0.5, 1.0, velocity=(0.5, 0.5))

    def test_no_step_is_stable(self) -> None:
        message = r"^convection_step: dt is 0\.1, but must be 0, since integrator 'euler' with scheme 'central' amplif"
        with pytest.raises(StabilityError, match=message) as caught:
            so.convection_step(np.ones(8), 1.0, 1.0, 0.1, scheme="central")
        assert caught.value.stable_dt is None

    def test_the_error_pickles(self) -> None:
        with pytest.raises(StabilityError) as caught:
            so.diffusion_step(self.u, 1.0, 1.0, 1.0)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.stable_dt) == (str(caught.value), 0.25)

    def test_warn_points_at_the_caller(self) -> None:
        with pytest.warns(StabilityWarning, match=r"at most 0\.25") as record:
            so.diffusion_step(self.u, 1.0, 1.0, 1.0, on_unstable="warn")
        assert record[0].filename == __file__

    def test_warn_points_at_the_planner(self) -> None:
        with pytest.warns(StabilityWarning, match=r"at most 0\.25") as record:
            plan = so.plan_diffusion_step((6, 6), "float64", 1.0, 1.0, 1.0, on_unstable="warn")
        assert record[0].filename == __file__
        assert plan.stable_dt == 0.25

    def test_warn_every_time(self) -> None:
        for _ in range(2):
            with pytest.warns(StabilityWarning):
                so.diffusion_step(self.u, 1.0, 1.0, 1.0, on_unstable="warn")

    def test_ignore(self) -> None:
        spike = np.zeros(8)
        spike[3] = 1.0
        result = so.diffusion_step(spike, 1.0, 1.0, 1.0, on_unstable="ignore")
        np.testing.assert_array_equal(result, [0, 0, 1, -1, 1, 0, 0, 0])

    def test_integrator_counts(self) -> None:
        term = so.Advection(1.0, "central")
        assert so.plan_pde_step((8,), "float64", 0.5, 0.5, term, integrator="rk4").stable_dt == 0.5 * math.sqrt(8)
        with pytest.raises(StabilityError, match="integrator 'rk2' with scheme 'central' amplifies long waves"):
            so.pde_step(np.ones(8), 0.5, 0.5, term, integrator="rk2")

    def test_diffusions_add_up(self) -> None:
        terms = [so.Diffusion(0.25), so.Diffusion(np.full(8, 0.75))]
        with pytest.raises(StabilityError, match=r"at most 0\.5;"):
            so.pde_step(np.ones(8), 1.0, 0.6, terms)

    def test_winds_given_as_arrays_are_not_judged(self) -> None:
        assert so.convection_step(np.ones(8), np.full(8, 100.0), 1.0, 1.0).shape == (8,)
        plan = so.plan_diffuse_convect_step((8,), "float64", 1.0, 0.4, 1.0, velocity=ArraySpec((8,), "float64"))
        assert plan.stable_dt == 0.5

    def test_winds_beside_a_diffusivity_field_are_not_judged(self) -> None:
        plan = so.plan_diffuse_convect_step((8,), "float64", 1.0, 0.4, np.ones(8), velocity=100.0)
        assert plan.stable_dt == 0.5

    def test_burgers_is_judged_by_its_diffusion(self) -> None:
        with pytest.raises(StabilityError, match=r"at most 0\.5;"):
            so.diffuse_convect_step(np.ones(8), 1.0, 0.6, 1.0)

    def test_one_wind_of_two_known_is_not_judged(self) -> None:
        assert so.convection_step(self.u, (100.0, np.ones((6, 6))), 1.0, 1.0).shape == (6, 6)

    def test_a_described_diffusivity_is_not_judged(self) -> None:
        assert so.plan_diffusion_step((8,), "float64", 1.0, 100.0, ArraySpec((8,), "float64")).stable_dt == math.inf

    def test_values_outside_the_mask_do_not_count(self) -> None:
        nu = np.array([1.0, 1.0, np.nan, 1e9, 1.0, -1.0])
        mask = np.array([True, True, False, False, True, False])
        plan = so.plan_diffusion_step((6,), "float64", 1.0, 0.5, nu, mask=mask)
        assert plan.stable_dt == 0.5

    def test_an_empty_diffusivity(self) -> None:
        assert so.diffusion_step(np.ones((0, 6)), 1.0, 0.5, np.ones((0, 6)), axes=1).shape == (0, 6)
        assert (
            so.plan_diffusion_step((6,), "float64", 1.0, 9.0, np.ones(6), mask=np.zeros(6, bool)).stable_dt == math.inf
        )

    @pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (-0.5, r"-0\.5"), (np.inf, "inf")])
    def test_bad_values_in_a_diffusivity(self, value: float, shown: str) -> None:
        nu = np.ones(6)
        nu[2] = value
        with pytest.raises(
            ValueError, match=f"^diffusion_step: nu has the value {shown}, but must be finite and not neg"
        ):
            so.diffusion_step(np.ones(6), 1.0, 0.1, nu)

    @pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
    def test_diffusivities_of_other_libraries_are_judged_too(self, library: str) -> None:
        from libraries import library as find

        lib = find(library)
        with pytest.raises(StabilityError, match=r"at most 0\.125;"):
            so.diffusion_step(
                lib.make(np.ones(6)), 1.0, 0.2, lib.make(np.full(6, 4.0)), mask=lib.make(np.ones(6, bool))
            )


@pytest.mark.parametrize("scheme", ["upwind", "central", "upwind3"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_obey_their_bound(scheme: str, integrator: str, rng: np.random.Generator) -> None:
    """At the bound noise does not grow in 300 real steps, above it does: slowly where long waves are the limit."""
    terms = [so.Diffusion(0.05), so.Advection(1.0, scheme)]
    bound = largest_stable_dt((1.0,), 0.05, (((1.0,), scheme),), integrator)
    excess = 3.0 if (integrator, scheme) in (("euler", "central"), ("euler", "upwind3")) else 1.1
    u = rng.standard_normal(64)
    options = {"integrator": integrator, "steps": 300, "on_unstable": "ignore"}
    size = [np.linalg.norm(so.pde_step(u, 1.0, factor * bound, terms, **options)) for factor in (1.0, excess)]
    assert size[0] <= np.linalg.norm(u) * (1 + 1e-6)
    assert size[1] > 2 * size[0]


def test_judge_uses_the_bound_with_slack() -> None:
    judge("f", 0.25 * (1 + 1e-13), 0.25, "s", "raise", 2)
    with pytest.raises(StabilityError):
        judge("f", 0.25 * (1 + 1e-11), 0.25, "s", "raise", 2)


def test_bounds_are_cached_by_value() -> None:
    before = largest_stable_dt.cache_info().hits
    for _ in itertools.repeat(None, 2):
        largest_stable_dt((0.123,), 0.5)
    assert largest_stable_dt.cache_info().hits > before


@pytest.mark.parametrize(
    ("velocity", "depends"),
    [((1.0, 1.0), False), ((np.ones((8, 8)), 1.0), True), ((1.0, np.ones((8, 8))), True)],
    ids=["numbers", "first a field", "last a field"],
)
def test_bound_depends_on_data_where_any_component_is_a_field(velocity: tuple[object, ...], depends: bool) -> None:
    plan = so.plan_convection_step((8, 8), "float64", velocity, 1.0, 0.1)
    assert depends_on_data(plan) is depends
