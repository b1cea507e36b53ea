"""debug() finds planted faults and raises no false alarm."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest
from libraries import library

import spectralops as so
from spectralops import MismatchError, StabilityError, _support, debug, debugging

WAVE = np.sin(2 * np.pi * np.arange(32) / 32)
diffuse = functools.partial(so.diffusion_step, dx=0.5, dt=0.1, nu=0.25)
burgers = functools.partial(so.diffuse_convect_step, dx=0.5, nu=0.25)


@pytest.fixture
def plant(monkeypatch):
    """Replaces the executors of all backends but the reference by ones whose result is spoilt."""
    original = _support.executor

    def install(spoil, op=None):
        def executor(name, backend):
            right = original(name, backend)
            if backend == "reference" or op not in (None, name):
                return right

            def wrong(plan, *arrays, out, workers):
                right(plan, *arrays, out=out, workers=workers)
                spoil(out)

            return wrong

        monkeypatch.setattr(_support, "executor", executor)

    return install


def one_element(out):
    out.flat[5] *= 1 + 1e-3


def sign(out):
    out *= -1


def scale(out):
    out *= 1 + 1e-9 if out.dtype.itemsize == 8 else 1 + 1e-4


def shifted(out):
    out[...] = np.roll(out, 1, axis=-1)


def nan(out):
    out.flat[3] = np.nan


def infinite(out):
    out.flat[3] = np.inf


CALLS = {
    "filter": lambda u: so.spectral_filter(u, so.transfer.gaussian(2.0)),
    "step": diffuse,
    "steps": functools.partial(diffuse, steps=5),
    "gradient": lambda u: so.laplacian(u, 0.5),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_right_results_pass(rng, call, dtype):
    u = rng.standard_normal(32).astype(dtype)
    with debug() as report:
        call(u)
    assert (report.calls, report.compared, report.skipped) == (1, 1, [])
    assert 0 <= report.worst <= 1


def test_worst_error_is_a_share_of_what_is_allowed(rng, plant):
    u = rng.standard_normal(32)
    result = CALLS["step"](u)

    def spoil(out):
        out += 1e-16 * np.linalg.norm(result)

    plant(spoil)
    with debug() as report:
        CALLS["step"](u)
    assert report.worst == pytest.approx(1e-16 * np.sqrt(32) / (4 * 2.0**-52), rel=0.3)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spoil", [one_element, sign, scale, shifted, nan, infinite])
def test_wrong_results_are_found(rng, plant, call, dtype, spoil):
    plant(spoil)
    with pytest.raises(MismatchError), debug():
        call(rng.standard_normal(32).astype(dtype))


def test_first_wrong_operator_is_named(plant):
    plant(sign, op="diffusion_step")
    message = r"^debug: call 2, diffusion_step on backend '\w+': the L2 norm of the error"
    with pytest.raises(MismatchError, match=message), debug():
        diffuse(diffuse(so.spectral_filter(WAVE, so.transfer.gaussian(2.0))))


def test_message_names_size_bound_and_element(plant):
    def spoil(out):
        out[7] += 0.5

    plant(spoil)
    message = (
        r"the L2 norm of the error against the reference is 0\.5, but must be at most [\d.]+e-1[45]; "
        r"the worst element, \(7,\), is 1\.4\d+ instead of 0\.9\d+$"
    )
    with pytest.raises(MismatchError, match=message), debug():
        diffuse(WAVE)


def test_non_finite_pattern_is_counted(plant):
    plant(nan)
    message = r"1 values are finite in only one of result and reference, but must be so in both$"
    with pytest.raises(MismatchError, match=message), debug():
        diffuse(WAVE)


def test_nan_of_the_input_is_no_fault():
    u = WAVE.copy()
    u[3] = np.nan
    with debug() as report:
        result = diffuse(u)
    assert np.isnan(result).sum() == 3
    assert report.compared == 1


def test_wrong_values_beside_nan_are_found(plant):
    plant(one_element)
    u = WAVE.copy()
    u[20] = np.nan
    with pytest.raises(MismatchError), debug():
        diffuse(u)


def test_overflow_is_not_finite():
    u = np.full(8, 3e38, np.float32)
    u[::2] *= -1
    message = (
        r"^debug: call 1, diffusion_step on backend '\w+': the result has 8 NaN or infinite values, but must be "
        r"finite, as its inputs are$"
    )
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=message), debug():
        so.diffusion_step(u, 1.0, 10.0, 1.0, on_unstable="ignore")


def test_cancellation_is_no_fault():
    """The derivative of a nearly constant field: large relative error, as the rounding of the field explains."""
    u = (300 + 1e-4 * WAVE).astype(np.float32)
    with debug() as report:
        so.spectral_filter(u, so.transfer.derivative(0))
        so.laplacian(u, 0.1)
    assert report.compared == 2


def test_rounding_of_the_input_excuses_what_it_explains(rng, monkeypatch):
    """A weak band of a strong field: the error is large beside the result, but not beside the field's rounding."""
    x = np.arange(256)
    u = (300 * np.sin(2 * np.pi * x / 256) + 1e-3 * rng.standard_normal(256)).astype(np.float32)

    def weak_band():
        with debug() as report:
            so.spectral_filter(u, lambda k: np.abs(k) > 1.0)
        return report

    assert 0 < weak_band().worst < 1
    monkeypatch.setattr(debugging, "_perturbed", lambda inputs, eps: inputs)
    with pytest.raises(MismatchError):
        weak_band()


def test_cancellation_does_not_hide_faults(plant):
    plant(sign)
    u = (300 + 1e-2 * WAVE).astype(np.float32)
    with pytest.raises(MismatchError), debug():
        so.spectral_filter(u, so.transfer.derivative(0))


def test_faults_beside_a_mask_are_found(plant):
    plant(sign)
    with pytest.raises(MismatchError), debug():
        diffuse(WAVE, mask=np.arange(32) < 20)


def test_zero_results_are_compared():
    with debug() as report:
        diffuse(np.zeros(8))
    assert report.worst == 0.0


def test_wrong_zero_results_are_found(plant):
    def spoil(out):
        out[0] = 1e-300

    plant(spoil)
    with pytest.raises(MismatchError), debug():
        diffuse(np.zeros(8))


@pytest.mark.parametrize("name", ["torch", "jax", "array_api_strict"])
def test_every_library_is_checked(name, plant):
    u = library(name).make(WAVE)
    with debug() as report:
        diffuse(u)
    assert report.compared == 1
    plant(sign)
    with pytest.raises(MismatchError), debug():
        diffuse(u)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_storage_is_compared_before_rounding(dtype):
    torch = pytest.importorskip("torch")
    with debug() as report:
        diffuse(torch.tensor(WAVE).to(getattr(torch, dtype)))
    assert report.compared == 1


def test_reference_calls_are_not_compared_with_themselves():
    with debug() as report:
        diffuse(WAVE, backend="reference")
    assert (report.calls, report.compared, report.skipped) == (1, 0, [])


def test_large_calls_are_skipped_with_a_warning():
    message = (
        r"^debug: 2 of 3 calls were not compared with the reference: "
        r"call 1, diffusion_step: 64 points times steps > max_size=63, …$"
    )
    with pytest.warns(UserWarning, match=message), debug(max_size=63) as report:
        [diffuse(WAVE, steps=steps) for steps in (2, 1, 3)]
    assert (report.calls, report.compared) == (3, 1)
    assert report.skipped[1] == "call 3, diffusion_step: 96 points times steps > max_size=63"


def test_one_skipped_call_has_no_ellipsis():
    with pytest.warns(UserWarning, match=r"max_size=31$"), debug(max_size=31):
        diffuse(WAVE)


def test_calls_as_large_as_allowed_are_compared():
    with debug(max_size=32) as report:
        diffuse(WAVE)
    assert report.compared == 1


def test_large_calls_are_still_checked_for_finiteness(plant):
    plant(nan)
    with pytest.raises(FloatingPointError, match="the result has 1 NaN"), debug(max_size=1):
        diffuse(WAVE)


def test_no_warning_hides_an_error(plant):
    plant(nan)
    with pytest.raises(FloatingPointError), debug(max_size=1):
        diffuse(WAVE)


def test_data_dependent_stability():
    message = (
        r"^debug: call 2, diffuse_convect_step on backend '\w+': dt is 0\.25, but must be at most 0\.125 to be stable "
        r"for the values of its arrays$"
    )
    with pytest.raises(StabilityError, match=message) as caught, debug():
        [burgers(factor * WAVE, dt=dt) for factor, dt in ((1, 0.125), (2, 0.25))]
    assert caught.value.stable_dt == pytest.approx(0.125)


def test_data_dependent_stability_without_any_dt():
    u = np.ones(8)
    with pytest.raises(StabilityError, match="but must be at most 0 ") as caught, debug():
        so.pde_step(u, 0.5, 0.1, so.SelfAdvection("central"))
    assert caught.value.stable_dt is None


@pytest.mark.parametrize(
    "call",
    [
        lambda dt: so.convection_step(WAVE, 2 * WAVE, 0.5, dt, on_unstable="ignore"),
        lambda dt: so.convection_step(WAVE.astype(np.float32), (2 * WAVE).astype(np.float32), 0.5, dt),
        lambda dt: so.diffusion_step(WAVE, 0.5, dt, 0.5 + 0 * WAVE, on_unstable="ignore"),
    ],
    ids=["wind", "float32 wind", "nu"],
)
def test_stability_of_fields(call):
    with debug():
        call(0.25)
    with pytest.raises(StabilityError), debug():
        call(0.2501)


def test_numbers_are_left_to_the_planner():
    with debug():
        diffuse(WAVE, dt=0.7, on_unstable="ignore")


def test_nan_coefficients_are_not_judged():
    wind = WAVE.copy()
    wind[0] = np.nan
    with debug() as report:
        so.convection_step(WAVE, wind, 0.5, 100.0, on_unstable="ignore")
    assert report.calls == 1


def test_stability_comes_before_everything(plant):
    plant(nan)
    with pytest.raises(StabilityError), debug():
        burgers(WAVE, dt=0.25 * 2.001)


def test_stability_is_not_judged_on_request():
    with debug(stability=False) as report:
        burgers(2 * WAVE, dt=0.25)
    assert report.compared == 1


def test_contexts_nest():
    with debug() as outer:
        diffuse(WAVE)
        with debug() as inner:
            diffuse(WAVE)
    assert (outer.calls, inner.calls) == (2, 1)


def test_nothing_is_checked_outside(plant):
    plant(sign)
    with debug() as report:
        pass
    diffuse(WAVE)
    assert report.calls == 0


def test_other_threads_are_not_seen():
    with debug() as report:
        thread = threading.Thread(target=diffuse, args=(WAVE,))
        thread.start()
        thread.join()
    assert report.calls == 0


def test_overwritten_inputs_are_skipped():
    """What an operator that allows out=u would report."""
    from types import SimpleNamespace

    from spectralops.debugging import DebugReport, _inspect

    u = np.ones(4)
    plan = SimpleNamespace(op="scale", backend="numpy", in_place=True, out_shape=(4,))
    report = DebugReport(calls=1)
    _inspect(report, plan, (u,), u, 100)
    assert report.skipped == ["call 1, scale: out overwrote its input"]
    with pytest.raises(FloatingPointError):  # other memory: skipped for its size, and not finite
        _inspect(report, plan, (u,), np.full(4, np.nan), 1)
    assert report.skipped[1:] == ["call 1, scale: 4 points times steps > max_size=1"]


@pytest.mark.parametrize(
    ("plan", "size", "factor"),
    [
        (so.plan_spectral_filter((64,), "float64", so.transfer.gaussian(2.0)), 64, 6.0),
        (so.plan_spectral_filter((2,), "float64", so.transfer.gaussian(2.0)), 2, 4.0),
        (so.plan_diffusion_step((64,), "float64", 0.5, 0.1, 0.25, steps=3), 64, 12.0),
        (so.plan_laplacian((64,), "float64", 0.5), 64, 4.0),
    ],
    ids=["transform", "small transform", "steps", "stencil"],
)
def test_tolerances_follow_the_size_or_the_steps(plan, size, factor):
    assert debugging._tolerance(plan, (np.ones(size),), 2.0**-10) == factor * 2.0**-10


def test_perturbations_are_rounding_errors():
    field = np.where(np.arange(4000) % 2, 6.0, 0.0)
    field[0] = np.nan
    weights = np.where(np.arange(4000) % 2, 1.0, 100.0)
    mask = np.ones(3, bool)
    moved = debugging._perturbed((field, weights, mask), 1e-6)
    rms = 6.0 * np.sqrt(2000 / 3999)
    assert np.std((moved[0] - field)[1:]) == pytest.approx(1e-6 * rms, rel=0.1)
    assert np.std(moved[1] / weights - 1) == pytest.approx(1e-6, rel=0.1)
    assert moved[2] is mask
