"""Stability numbers and stable time steps against closed forms."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from libraries import library

import spectralops as so
from spectralops import cfl_number, fourier_number, stable_dt

LIBRARIES = ("numpy", "torch", "jax", "array_api_strict")


def test_cfl_number_adds_up_the_axes():
    assert cfl_number((3.0, -1.0), (0.5, 0.25), 0.05) == pytest.approx(0.05 * (3 / 0.5 + 1 / 0.25), rel=1e-15)


def test_cfl_number_of_one_axis():
    assert cfl_number(-2.0, 0.5, 0.25) == 1.0
    assert cfl_number((2.0,), (0.5,), 0.25) == 1.0


def test_one_spacing_serves_all_axes():
    assert cfl_number((1.0, 2.0), 0.5, 0.25) == 1.5


def test_cfl_number_is_the_largest_of_all_points():
    v, w = np.array([[1.0, -3.0], [2.0, 0.5]]), np.array([[0.0, 1.0], [-2.5, 0.0]])
    assert cfl_number((v, w), (1.0, 0.5), 0.1) == pytest.approx(0.1 * (2 + 2.5 / 0.5), rel=1e-15)


def test_cfl_number_mixes_numbers_and_broadcasting_fields():
    v, w = np.array([[1.0], [-2.0]]), np.array([3.0, -4.0, 0.0])
    assert cfl_number((v, w, 5.0), 1.0, 0.5) == 0.5 * (2 + 4 + 5)


def test_fourier_number_adds_up_the_axes():
    assert fourier_number(0.5, (0.5, 0.25), 0.05) == pytest.approx(0.05 * 0.5 * (4 + 16), rel=1e-15)
    assert fourier_number(0.5, 0.5, 0.25) == 0.5


def test_fourier_number_is_the_largest_of_all_points():
    assert fourier_number(np.array([0.5, 2.0, 0.0]), 0.5, 0.25) == 2.0


@pytest.mark.parametrize("name", LIBRARIES)
def test_numbers_take_every_library(name):
    make = library(name).make
    v = make(np.array([1.0, -3.0], np.float32))
    for value, expected in ((cfl_number((v, v), 0.5, 0.25), 3.0), (fourier_number(make(np.ones(3)), 0.5, 0.25), 1.0)):
        assert type(value) is float
        assert value == expected


def test_integers_and_empty_fields_are_velocities():
    assert cfl_number(np.array([1, -3]), 0.5, 0.25) == 1.5
    assert cfl_number(np.zeros((0, 4)), 0.5, 0.25) == 0.0
    assert fourier_number(np.zeros(0), 0.5, 0.25) == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cfl_number(1.0, 0.0, 0.1), ValueError, r"cfl_number: dx is 0\.0, but must be positive"),
        (lambda: cfl_number(1.0, 1.0, -0.1), ValueError, r"cfl_number: dt is -0\.1, but must be positive"),
        (lambda: cfl_number(1.0, (1.0, 2.0), 0.1), ValueError,
         r"cfl_number: velocity is one value, but must have 2 entries, one per entry of dx"),
        (lambda: cfl_number((1.0, 1.0), (1.0,), 0.1), ValueError, r"cfl_number: dx has 1 entries, but must have 2"),
        (lambda: cfl_number(math.nan, 1.0, 0.1), ValueError, r"cfl_number: velocity is nan, but must be finite"),
        (lambda: cfl_number(np.array([1.0, np.inf]), 1.0, 0.1), ValueError,
         r"cfl_number: velocity has NaN or infinite values, but must be finite"),
        (lambda: cfl_number(np.array([1j]), 1.0, 0.1), TypeError,
         r"cfl_number: velocity has dtype complex128, but must be real"),
        (lambda: cfl_number("fast", 1.0, 0.1), TypeError, r"cfl_number: velocity is a str, but must be a real number"),
        (lambda: fourier_number(-1.0, 1.0, 0.1), ValueError, r"fourier_number: nu has -1\.0, but must not be negative"),
        (lambda: fourier_number(np.array([1.0, -2.0]), 1.0, 0.1), ValueError,
         r"fourier_number: nu has -2\.0, but must not be negative"),
        (lambda: fourier_number(np.array([1.0, np.nan]), 1.0, 0.1), ValueError,
         r"fourier_number: nu has NaN or infinite values, but must be finite"),
        (lambda: fourier_number(1.0, (1.0, -1.0), 0.1), ValueError, r"fourier_number: dx is -1\.0, but must"),
        (lambda: stable_dt(1.0, nu=-1.0), ValueError, r"stable_dt: nu has -1\.0, but must not be negative"),
        (lambda: stable_dt(1.0, velocity=1.0), ValueError,
         r"stable_dt: scheme is None, but must name the differences of the advection; pass scheme"),
        (lambda: stable_dt(1.0, velocity=1.0, scheme="best"), ValueError, r"stable_dt: scheme is 'best', but must be"),
        (lambda: stable_dt(1.0, nu=1.0, scheme="best"), ValueError, r"stable_dt: scheme is 'best', but must be"),
        (lambda: stable_dt(1.0, nu=1.0, integrator="ab2"), ValueError, r"stable_dt: integrator is 'ab2', but must be"),
        (lambda: stable_dt(1.0, velocity=np.array([np.nan]), scheme="upwind"), ValueError,
         r"stable_dt: velocity has NaN or infinite values, but must be finite"),
        (lambda: stable_dt((1.0, 1.0), velocity=1.0, scheme="upwind"), ValueError,
         r"stable_dt: velocity is one value, but must have 2 entries"),
        (lambda: stable_dt(0.0, nu=1.0), ValueError, r"stable_dt: dx is 0\.0, but must be positive"),
    ],
)  # fmt: skip
def test_wrong_numbers(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_mixed_libraries_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(
        TypeError, match=r"^cfl_number: velocity\[1\] is a torch array on cpu, but must be a numpy array"
    ):
        cfl_number((np.ones(2), torch.ones(2)), 1.0, 0.1)
    with pytest.raises(TypeError, match=r"^stable_dt: velocity is a torch array on cpu, but must be a numpy array"):
        stable_dt(1.0, nu=np.ones(2), velocity=torch.ones(2), scheme="upwind")


def test_stable_dt_of_diffusion_is_the_textbook_bound():
    assert stable_dt(0.5, nu=0.25) == 0.5
    assert stable_dt((0.5, 0.25), nu=0.1) == pytest.approx(0.5 / (0.1 * (4 + 16)), rel=1e-14)


def test_stable_dt_of_upwind_is_courant_number_one():
    dt = stable_dt((0.5, 0.25), velocity=(2.0, -1.0), scheme="upwind")
    assert cfl_number((2.0, -1.0), (0.5, 0.25), dt) == pytest.approx(1.0, rel=1e-14)


def test_stable_dt_of_central_euler_needs_diffusion():
    assert stable_dt(1.0, velocity=1.0, scheme="central") == 0.0
    assert stable_dt(1.0, nu=0.1, velocity=1.0, scheme="central") == pytest.approx(0.2, rel=1e-14)


def test_stable_dt_without_terms_is_infinite():
    assert stable_dt(1.0) == math.inf
    assert stable_dt(1.0, nu=np.zeros((0, 3))) == math.inf


def test_stable_dt_of_runge_kutta():
    assert stable_dt(0.5, velocity=2.0, scheme="central", integrator="rk4") == pytest.approx(
        math.sqrt(8) / 4, rel=1e-12
    )


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("integrator", ["euler", "rk4"])
@pytest.mark.parametrize("scheme", ["central", "upwind"])
def test_stable_dt_of_fields_is_the_smallest_of_all_cells(name, scheme, integrator):
    rng = np.random.default_rng(7)
    nu, v, w = (rng.uniform(*limits, (3, 4)) for limits in ((0.05, 0.5), (-2, 2), (-1, 1)))
    spacing = (0.5, 0.25)
    cells = [
        stable_dt(spacing, nu=nu[i], velocity=(v[i], w[i]), scheme=scheme, integrator=integrator)
        for i in np.ndindex(nu.shape)
    ]
    make = library(name).make
    dt = stable_dt(spacing, nu=make(nu), velocity=(make(v), make(w)), scheme=scheme, integrator=integrator)
    assert type(dt) is float
    assert dt == pytest.approx(min(cells), rel=1e-12 if integrator == "euler" else 0.02)
    assert dt >= min(cells) * (1 - 1e-12)


@pytest.mark.parametrize("scheme", ["central", "upwind"])
@pytest.mark.parametrize("seed", range(20))
def test_worst_cell_of_euler_is_found(scheme, seed):
    """Cells where one of the four limits rules at a time."""
    rng = np.random.default_rng(seed)
    nu, v = 10.0 ** rng.uniform(-3, 1, 40), 10.0 ** rng.uniform(-2, 1, 40) * rng.choice([-1, 1], 40)
    expected = min(stable_dt(0.3, nu=a, velocity=b, scheme=scheme) for a, b in zip(nu, v, strict=True))
    assert stable_dt(0.3, nu=nu, velocity=v, scheme=scheme) == pytest.approx(expected, rel=1e-12)


def test_fields_and_numbers_broadcast():
    v = np.array([[1.0], [-4.0]])
    assert stable_dt((1.0, 0.5), nu=0.25, velocity=(v, 2.0), scheme="upwind") == pytest.approx(
        1 / (4 + 4 + 2 * 0.25 * 5), rel=1e-14
    )


def test_still_cells_without_diffusion_do_not_matter():
    nu, v = np.array([0.0, 0.5]), np.array([0.0, 1.0])
    assert stable_dt(1.0, nu=nu, velocity=v, scheme="central") == 1.0


def partial_of(function, **keywords):
    return functools.partial(function, **keywords)


WAVE = np.sin(2 * np.pi * np.arange(32) / 32)


@pytest.mark.parametrize(
    ("step", "bound"),
    [
        (partial_of(so.diffusion_step, dx=0.5, nu=0.25), lambda: stable_dt(0.5, nu=0.25)),
        (partial_of(so.diffusion_step, dx=0.5, nu=np.linspace(0.1, 0.3, 32)), lambda: stable_dt(0.5, nu=0.3)),
        (
            partial_of(so.diffusion_step, dx=0.5, nu=np.linspace(0.1, 0.3, 32), mask=np.arange(32) < 20),
            lambda: stable_dt(0.5, nu=np.linspace(0.1, 0.3, 32)[19]),
        ),
        (
            partial_of(so.convection_step, velocity=-2.0, dx=0.5, scheme="upwind"),
            lambda: stable_dt(0.5, velocity=-2.0, scheme="upwind"),
        ),
        (
            partial_of(so.convection_step, velocity=3 * WAVE, dx=0.5),
            lambda: stable_dt(0.5, velocity=3.0, scheme="upwind"),
        ),
        (
            partial_of(so.diffuse_convect_step, dx=0.5, nu=0.1),
            lambda: stable_dt(0.5, nu=0.1, velocity=WAVE, scheme="central"),
        ),
        (
            partial_of(so.pde_step, dx=0.5, terms=(so.Diffusion(0.1), so.SelfAdvection("upwind")), integrator="rk4"),
            lambda: stable_dt(0.5, nu=0.1, velocity=1.0, scheme="upwind", integrator="rk4"),
        ),
        (
            lambda u, dt: so.diffusion_step(so.diffusion_step(u, 0.5, dt / 2, 0.25), 0.5, dt / 2, 0.125),
            lambda: 2 * stable_dt(0.5, nu=0.25),
        ),
    ],
    ids=["diffusion", "nu field", "mask", "upwind", "wind field", "burgers", "rk4 terms", "split"],
)
def test_solve_picks_a_stable_dt_of_our_steps(step, bound):
    solution = so.solve(step, WAVE, steps=1)
    assert solution.dt == pytest.approx(0.9 * bound(), rel=1e-6)


def test_solve_finds_no_stable_dt_where_a_coefficient_is_nan():
    step = partial_of(so.convection_step, velocity=np.where(np.arange(32) == 3, np.nan, 1.0), dx=0.5)
    with pytest.raises(ValueError, match=r"^solve: the step's stable_dt is nan, but must be positive; pass dt$"):
        so.solve(step, WAVE, steps=1)


def test_trial_step_leaves_the_start_alone():
    u0 = WAVE.copy()
    calls = []

    def step(u, t, dt):
        calls.append((t, dt))
        u[:] = so.diffusion_step(u, 0.5, dt, 0.25)
        return u

    so.solve(step, u0, t0=2.0, t_end=2.45)
    assert np.array_equal(u0, WAVE)
    assert calls == [(2.0, 2.0**-100), (2.0, pytest.approx(0.45))]


def test_own_steps_are_fused_and_bitwise_the_same():
    step = partial_of(so.diffuse_convect_step, dx=0.5, dt=0.1, nu=0.25)
    fused = so.explain(so.solve, step, WAVE, steps=100)
    assert [(call.plan.steps, call.count) for call in fused.calls] == [(64, 1), (36, 1)]
    single = so.explain(so.solve, step, WAVE, steps=100, fuse=False)
    assert [(call.plan.steps, call.count) for call in single.calls] == [(1, 100)]
    assert np.array_equal(so.solve(step, WAVE, steps=100).u, so.solve(step, WAVE, steps=100, fuse=False).u)


def test_plans_are_steps_too():
    plan = so.plan_diffusion_step((32,), "float64", 0.5, 0.1, 0.25)
    step = partial_of(so.diffusion_step, dx=0.5, dt=0.1, nu=0.25)
    assert np.array_equal(so.solve(plan, WAVE, steps=10).u, so.solve(step, WAVE, steps=10).u)


def test_divergence_of_a_fused_unstable_step_is_exact():
    step = partial_of(so.diffusion_step, dx=0.5, dt=8.0, nu=0.25, on_unstable="ignore")
    u0 = np.random.default_rng(0).standard_normal(32)
    u, n = u0, 0
    with np.errstate(all="ignore"):
        while np.isfinite(u).all():
            u, n = step(u), n + 1
        with pytest.raises(so.DivergedError) as caught:
            so.solve(step, u0, steps=1000)
    assert n > 64
    assert caught.value.step == n


def test_velocities_have_a_component():
    with pytest.raises(ValueError, match=r"^cfl_number: velocity is empty, but must have one component per axis$"):
        cfl_number((), 1.0, 0.1)
    with pytest.raises(ValueError, match=r"^stable_dt: velocity is empty, but must have one component per axis$"):
        stable_dt(1.0, velocity=(), scheme="upwind")
