"""The time loop, the diagnostics and debug() on arrays that live on a GPU."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from libraries import library

import spectralops as so

pytestmark = pytest.mark.gpu

WAVE = np.sin(2 * np.pi * np.arange(32) / 32)
diffuse = functools.partial(so.diffusion_step, dx=0.5, dt=0.1, nu=0.25)


@pytest.fixture(params=["cupy", "torch"])
def cuda(request):
    return library(request.param, "cuda")


def test_run_stays_on_the_device(cuda):
    u0 = cuda.make(WAVE)
    solution = so.solve(diffuse, u0, steps=100, save_every=25, callback=lambda n, t, u: None, callback_every=10)
    expected = so.solve(diffuse, WAVE, steps=100, save_every=25)
    assert isinstance(solution.u, cuda.type)
    assert solution.u.device == u0.device
    assert isinstance(solution.snapshots, cuda.type)
    assert np.allclose(cuda.read(solution.snapshots), expected.snapshots, rtol=1e-13)
    assert np.array_equal(cuda.read(u0), WAVE)


def test_first_bad_step_is_exact(cuda):
    step = functools.partial(so.diffusion_step, dx=0.5, dt=8.0, nu=0.25, on_unstable="ignore")
    u0 = np.random.default_rng(0).standard_normal(32)
    steps = []
    for start in (cuda.make(u0), u0):
        with np.errstate(all="ignore"), pytest.raises(so.DivergedError) as caught:
            so.solve(step, start, steps=1000)
        steps.append(caught.value.step)
    assert abs(steps[0] - steps[1]) <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_resume_is_bitwise(tmp_path, cuda, dtype):
    u0 = cuda.make(WAVE.astype(dtype))
    run = functools.partial(so.solve, diffuse, u0, checkpoint=tmp_path / "c")
    run(steps=13)
    resumed = run(steps=40, resume=True)
    assert resumed.u.device == u0.device
    assert np.array_equal(cuda.read(resumed.u), cuda.read(so.solve(diffuse, u0, steps=40).u))


def test_stable_dt_is_picked(cuda):
    step = functools.partial(so.diffuse_convect_step, dx=0.5, nu=0.25)
    assert so.solve(step, cuda.make(WAVE), steps=1).dt == pytest.approx(so.solve(step, WAVE, steps=1).dt, rel=1e-12)


def test_numbers(cuda):
    u, v = cuda.make(WAVE), cuda.make(2 * WAVE)
    assert so.cfl_number((u, v), 0.5, 0.25) == pytest.approx(1.5, rel=1e-12)
    assert so.fourier_number(cuda.make(WAVE**2), 0.5, 0.25) == pytest.approx(1.0, rel=1e-12)
    assert so.stable_dt(0.5, velocity=v, scheme="upwind") == pytest.approx(0.25, rel=1e-12)
    assert so.total(u, 0.5) == pytest.approx(0.0, abs=1e-12)
    assert so.energy(u, 0.5) == pytest.approx(4.0, rel=1e-12)
    assert so.total(u, mask=u > 0) == pytest.approx(float(WAVE[WAVE > 0].sum()), rel=1e-12)
    states = cuda.make(np.stack([WAVE, 3 * WAVE]))
    assert so.residuals(states, norm="linf").tolist() == pytest.approx([2.0])


@pytest.mark.parametrize("isotropic", [False, True], ids=["bins", "rings"])
def test_power_spectrum(cuda, isotropic):
    u = np.random.default_rng(1).standard_normal((2, 12, 15))
    options = {"spacing": (0.5, 0.25), "window": "hann", "detrend": "linear", "isotropic": isotropic}
    s, expected = so.power_spectrum(cuda.make(u), **options), so.power_spectrum(u, **options)
    assert isinstance(s.power, cuda.type)
    assert np.allclose(cuda.read(s.power), expected.power, rtol=1e-10, atol=1e-16)
    assert np.array_equal(cuda.read(s.frequencies[-1]), expected.frequencies[-1])


def test_debug_compares_on_the_host(cuda):
    u = cuda.make(WAVE)
    wind = cuda.make(2 * WAVE)
    with so.debug() as report:
        so.spectral_filter(diffuse(u), so.transfer.gaussian(2.0))
        so.convection_step(u, wind, 0.5, 0.2)
    assert report.compared == 3
    with pytest.raises(so.StabilityError), so.debug():
        so.convection_step(u, wind, 0.5, 0.3)


def test_debug_finds_what_is_not_finite(cuda):
    u = cuda.make((3e38 * (-1.0) ** np.arange(8)).astype(np.float32))
    with pytest.raises(FloatingPointError), so.debug():
        so.diffusion_step(u, 1.0, 10.0, 1.0, on_unstable="ignore")


def test_explain_names_the_backend(cuda):
    assert explain_backends(cuda.make(WAVE)) == ["cuda"]


def explain_backends(u):
    return [call.plan.backend for call in so.explain(diffuse, u).calls]
