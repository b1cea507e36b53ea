"""Budgets and residuals against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from libraries import library

import spectralops as so
from spectralops import energy, residuals, total

LIBRARIES = ("numpy", "torch", "jax", "array_api_strict")


@pytest.mark.parametrize("name", LIBRARIES)
def test_total_is_the_sum_times_the_cell(name):
    value = total(library(name).make(np.arange(6.0, dtype=np.float32).reshape(2, 3)), dx=(0.5, 2.0))
    assert type(value) is float
    assert value == 15.0


def test_one_spacing_is_taken_for_every_axis():
    assert total(np.ones((2, 3)), 0.5) == 6 * 0.25
    assert total(np.ones(3), 0.5) == 1.5


def test_total_of_batches_is_an_array():
    u = np.arange(12.0).reshape(2, 2, 3)
    assert total(u, 0.5).tolist() == [15 * 0.25, 51 * 0.25]
    assert total(u, 0.5, axes=(0, 2)).tolist() == [24 * 0.25, 42 * 0.25]
    assert total(u, (0.5,)).shape == (2, 2)


def test_total_takes_weights_and_mask():
    u = np.array([[1.0, 2.0], [np.nan, 4.0]])
    mask = np.array([[True, True], [False, True]])
    assert total(u, mask=mask) == 7.0
    assert total(u, 0.5, mask=mask, weights=np.array([[3.0], [1.0]])) == (3 + 6 + 4) * 0.25
    assert total(u, mask=mask, weights=np.array([1, 2])) == 1 + 4 + 8


@pytest.mark.parametrize("name", LIBRARIES)
def test_masks_and_weights_of_every_library(name):
    make = library(name).make
    mask = make(np.array([True, False, True]))
    weights = make(np.array([2.0, 2.0, 3.0]))
    u = make(np.array([1.0, np.nan, 2.0]))
    assert total(u, mask=mask, weights=weights) == 8.0
    assert energy(u, mask=mask, weights=weights) == 0.5 * (2 + 12)


def test_total_of_complex_fields():
    value = total(np.array([1 + 2j, 3.0]), 0.5)
    assert type(value) is complex
    assert value == 2 + 1j


def test_totals_are_summed_in_64_bits():
    u = np.full(2**20, 0.1, np.float32)
    assert total(u) == pytest.approx(2**20 * float(np.float32(0.1)), rel=1e-14)
    assert energy(u) == pytest.approx(2**19 * float(np.float32(0.1)) ** 2, rel=1e-12)
    assert total(np.full(3, 60000, np.float16)) == pytest.approx(3 * float(np.float16(60000)))
    assert total(np.array([200, 200], np.uint8)) == 400.0
    assert energy(np.array([200], np.uint8)) == 20000.0


def test_total_of_bfloat16():
    torch = pytest.importorskip("torch")
    assert total(torch.ones(1000, dtype=torch.bfloat16)) == 1000.0


@pytest.mark.parametrize(("x64", "dtype"), [(True, "complex128"), (False, "complex64")])
def test_sums_follow_the_precision_of_jax(x64, dtype):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(x64):
        u = jax.numpy.ones((2, 3), "complex64")
        assert total(u, axes=1).dtype == dtype
        assert energy(u, axes=1).dtype == ("float64" if x64 else "float32")


def test_energy_is_half_the_square():
    assert energy(np.array([3.0, -4.0]), 0.5) == 6.25
    assert energy(np.array([3 + 4j, 0]), 2.0) == 25.0
    assert type(energy(np.array([1j]))) is float


def test_energy_of_a_sine_is_a_quarter_of_its_length():
    x = np.arange(64) / 64
    assert energy(np.sin(2 * np.pi * x), 1 / 64) == pytest.approx(0.25, rel=1e-14)


def test_energy_of_batches_is_an_array():
    assert energy(np.array([[1.0, 2.0], [3.0, 4.0]]), axes=1).tolist() == [2.5, 12.5]


def test_diffusion_keeps_the_total_and_loses_energy():
    u = np.sin(2 * np.pi * np.arange(32) / 32) + 1
    after = so.diffusion_step(u, 0.5, 0.1, 0.25, steps=10)
    assert total(after, 0.5) == pytest.approx(total(u, 0.5), rel=1e-14)
    assert energy(after, 0.5) < energy(u, 0.5)


@pytest.mark.parametrize("function", [total, energy])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dx": -1.0}, ValueError, r"dx is -1\.0, but must be positive"),
        ({"dx": (1.0, 1.0, 1.0)}, ValueError, r"u has 2 dimensions, but must have at least 3 to match dx"),
        ({"axes": 3}, ValueError, r"axes has 3, but must lie in \[-2, 2\)"),
        ({"weights": np.ones(4)}, ValueError, r"weights has shape \(4,\), but must broadcast to u's shape \(2, 3\)"),
        ({"weights": np.ones((1, 2, 3))}, ValueError, r"weights has shape \(1, 2, 3\), but must broadcast"),
        ({"mask": np.ones(3)}, TypeError, r"mask has dtype float64, but must be bool"),
        ({"mask": np.ones(2, bool)}, ValueError, r"mask has shape \(2,\), but must broadcast"),
    ],
)
def test_wrong_budgets(function, arguments, error, message):
    with pytest.raises(error, match=f"^{function.__name__}: {message}"):
        function(np.ones((2, 3)), **arguments)


def test_budgets_of_mixed_libraries_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(
        TypeError, match=r"^total: weights is a torch array on cpu, but must be a numpy array on cpu like u"
    ):
        total(np.ones(3), weights=torch.ones(3))


STATES = np.array([[0.0, 0.0], [3.0, -4.0], [3.0, -4.0], [4.0, -4.0]])


def test_residuals_are_root_mean_squares():
    assert residuals(STATES).tolist() == pytest.approx([5 / math.sqrt(2), 0.0, 1 / math.sqrt(2)], rel=1e-15)


def test_residuals_of_the_largest_change():
    assert residuals(STATES, norm="linf").tolist() == [4.0, 0.0, 1.0]


def test_residuals_per_time():
    assert residuals(STATES, times=[0.0, 0.5, 1.0, 3.0], norm="linf").tolist() == [8.0, 0.0, 0.5]


@pytest.mark.parametrize("name", LIBRARIES)
def test_residuals_of_every_library(name):
    lib = library(name)
    result = residuals(lib.make(STATES.astype(np.float32)), norm="linf")
    assert type(result) is np.ndarray
    assert result.dtype == np.float64
    assert result.tolist() == [4.0, 0.0, 1.0]
    states = iter([lib.make(state) for state in STATES])
    assert residuals(states).tolist() == residuals(STATES).tolist()


def test_residuals_of_a_run():
    solution = so.solve(lambda u: u * 0.5, np.array([4.0]), steps=3, dt=0.5, save_every=1)
    assert residuals(solution.snapshots, times=solution.times).tolist() == [4.0, 2.0, 1.0]


def test_residuals_of_unsigned_and_complex_states():
    assert residuals(np.array([[3], [1]], np.uint8), norm="linf").tolist() == [2.0]
    assert residuals(np.array([[0], [3 + 4j]])).tolist() == [5.0]


def test_residuals_of_few_or_empty_states():
    assert residuals(STATES[:1]).shape == (0,)
    assert residuals([]).shape == (0,)
    assert residuals(np.zeros((3, 0))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("states", "arguments", "error", "message"),
    [
        (STATES, {"norm": "l1"}, ValueError, r"norm is 'l1', but must be 'l2' or 'linf'"),
        (3, {}, TypeError, r"states is a int, but must be an array or an iterable of arrays"),
        (["a", "b"], {}, TypeError, r"states\[0\] is a str, but must be an array"),
        ([np.ones(2), np.ones(3)], {}, ValueError, r"states\[1\] has shape \(3,\), but must have \(2,\) like"),
        (STATES, {"times": [0.0, 1.0]}, ValueError, r"times has 2 entries, but must have 4, one per state"),
        (STATES, {"times": [0.0, 1.0, 1.0, 2.0]}, ValueError, r"times has an interval of 0\.0, but must increase"),
    ],
)  # fmt: skip
def test_wrong_residuals(states, arguments, error, message):
    with pytest.raises(error, match=f"^residuals: {message}"):
        residuals(states, **arguments)


@pytest.mark.parametrize(("weights", "error"), [(1j, "must be real"), (np.datetime64("2020"), "has dtype datetime64")])
def test_weights_must_be_real_numbers(weights, error):
    with pytest.raises(TypeError, match=f"^total: weights .*{error}"):
        total(np.ones(3), weights=np.full(3, weights))


def test_residuals_take_numbers_only():
    with pytest.raises(TypeError, match=r"^residuals: times\[1\] is a str, but must be a real number$"):
        residuals(np.ones((2, 3)), times=[0.0, "a"])
    with pytest.raises(TypeError, match=r"^residuals: states\[0\] has dtype str32, but must be float16, "):
        residuals(np.array([["a"], ["b"]]))
    with pytest.raises(TypeError, match=r"^residuals: states is a ndarray, but must be an array or an iterable"):
        residuals(np.array(1.0))
    with pytest.raises(ValueError, match=r"^residuals: times has 1 entries, but must have 2, one per state$"):
        residuals(np.ones((2, 3)), times=0.0)
