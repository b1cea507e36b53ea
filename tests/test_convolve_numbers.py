"""convolve: dtypes, and what is not finite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal
from support import random_array

import spectralops as so
from spectralops._cpu import conv_fft

METHODS = ("direct", "fft", "tiles")


def close(result, expected, rtol=1e-12):
    assert result.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(result, expected, rtol=0, atol=rtol * scale)


class TestNumbers:
    @pytest.mark.parametrize("order", [">f8", ">f4", ">c16", ">i2", ">u4"])
    def test_dty01_big_endian(self, order):
        """DTY01: byte order is not a value."""
        native = np.arange(1, 21).astype(np.dtype(order).newbyteorder("="))
        kernel = np.array([1, 2, 3], native.dtype)
        result = so.convolve(native.astype(order), kernel.astype(order))
        assert result.dtype.isnative
        assert np.array_equal(result, so.convolve(native, kernel))

    def test_dty04_double_stays_double(self):
        """DTY04: 1e7 + 0.01 i keeps its hundredths."""
        x = 1e7 + 0.01 * np.arange(400).reshape(20, 20)
        plus = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0.0]])
        for method in METHODS:
            result = so.convolve(x, plus, mode="same", method=method)
            assert result.dtype == np.float64
            np.testing.assert_allclose(result, signal.convolve2d(x, plus, "same"), rtol=1e-14)

    def test_dty04_impulse(self):
        x = np.zeros((5, 5))
        x[2, 2] = 1
        kernel = np.array([[0, 0.1, 0], [0.1, 0.6, 0.1], [0, 0.1, 0]])
        assert np.abs(so.convolve(x, kernel, mode="same")[1:4, 1:4] - kernel).max() < 1e-15

    @pytest.mark.parametrize(
        ("x", "kernel", "expected"),
        [
            ("int32", "int8", "float64"),
            ("bool", "float32", "float64"),
            ("float32", "uint8", "float64"),
            ("int16", "complex64", "complex128"),
            ("float32", "float32", "float32"),
            ("float32", "float64", "float64"),
            ("float64", "complex64", "complex128"),
            ("complex64", "float32", "complex64"),
            ("float16", "float16", "float16"),
            ("float16", "float32", "float32"),
            ("float16", "complex64", "complex64"),
        ],
    )
    def test_result_dtype(self, x, kernel, expected):
        result = so.convolve(np.ones(5, x), np.ones(3, kernel))
        assert result.dtype == expected
        assert np.allclose(result, [1, 2, 3, 3, 3, 2, 1])

    def test_bfloat16(self):
        import ml_dtypes

        result = so.convolve(np.ones(5, ml_dtypes.bfloat16), np.ones(3, ml_dtypes.bfloat16))
        assert result.dtype == ml_dtypes.bfloat16
        mixed = so.convolve(np.ones(5, ml_dtypes.bfloat16), np.ones(3, np.float16))
        assert mixed.dtype == np.float32

    def test_integers_in_torch_are_its_default(self):
        torch = pytest.importorskip("torch")
        result = so.convolve(torch.arange(5), torch.ones(3, dtype=torch.int64))
        assert result.dtype == torch.float32

    def test_float32_is_accurate(self, rng):
        x, kernel = rng.standard_normal(5000), rng.standard_normal(60)
        expected = np.convolve(x, kernel)
        for method in METHODS:
            result = so.convolve(x.astype("f4"), kernel.astype("f4"), method=method)
            assert np.linalg.norm(result - expected) < 4e-7 * np.linalg.norm(expected)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("view", [np.s_[::-1], np.s_[::2], np.s_[::-3]], ids=str)
    def test_lay01_negative_and_wide_strides(self, rng, view, method):
        """LAY01: either argument, or both, as a view."""
        base, kernel = rng.standard_normal(600), rng.standard_normal(50)
        for a, b in [(base[view], kernel), (base, kernel[view]), (base[view], kernel[view])]:
            close(so.convolve(a, b, method=method), np.convolve(a.copy(), b.copy()))

    def test_inputs_are_left_alone(self, rng):
        x, kernel = rng.standard_normal((9, 300)), rng.standard_normal((3, 5))
        before = x.copy(), kernel.copy()
        for method in METHODS:
            so.convolve(x, kernel, method=method, boundary="wrap")
        assert np.array_equal(x, before[0])
        assert np.array_equal(kernel, before[1])


class TestNonFinite:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("backend", ["cpu", "numpy", "reference"])
    def test_nan01_direct_is_local(self, rng, bad, backend):
        """NAN01: one bad sample of 1000 spoils exactly the 200 outputs that a 200-tap kernel takes it to."""
        x, taps = rng.standard_normal(1000), signal.firwin(200, 0.2)
        x[100] = bad
        result = so.convolve(x, taps, mode="same", method="direct", backend=backend)
        assert np.array_equal(np.flatnonzero(~np.isfinite(result)), np.arange(1, 201))

    @pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("backend", ["cpu", "numpy"])
    @pytest.mark.parametrize("method", ["auto", "fft", "tiles"])
    def test_nan01_no_finite_number_where_there_is_none(self, rng, method, bad, backend):
        x, taps = rng.standard_normal(1000), signal.firwin(200, 0.2)
        x[100] = bad
        true = signal.convolve(x, taps, "same", method="direct")
        result = so.convolve(x, taps, mode="same", method=method, backend=backend)
        lost = ~np.isfinite(true)
        assert not np.isfinite(result[lost]).any()
        kept = np.isfinite(result)
        np.testing.assert_allclose(result[kept], true[kept], atol=1e-12)

    @pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
    @pytest.mark.parametrize("place", [0, 30, 31, 500, 999])
    @pytest.mark.parametrize("dtype", ["float64", "complex128"])
    def test_nan01_tiles_poison_what_they_must(self, rng, place, dtype, monkeypatch):
        """And leave far tiles alone: the NaN stays within its own tiles."""
        monkeypatch.setattr(conv_fft, "BLOCK", 64)
        x, taps = random_array(rng, (1000,), dtype), rng.standard_normal(10)
        x[place] = np.nan
        plan = so.plan_convolve(1000, dtype, taps, mode="same", method="tiles")
        result = plan(x, taps)
        reached = np.flatnonzero(~np.isfinite(np.convolve(x, taps, "same")))
        spoilt = np.flatnonzero(~np.isfinite(result))
        assert set(reached) <= set(spoilt)
        assert spoilt.size <= 2 * plan.lengths[0]

    @pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
    @pytest.mark.parametrize("place", [(0, 0), (25, 17), (49, 59)])
    def test_nan01_tiles_in_two_dimensions(self, rng, place):
        x, kernel = rng.standard_normal((50, 60)), rng.standard_normal((5, 4))
        x[place] = np.nan
        result = so.convolve(x, kernel, method="tiles")
        true = signal.convolve2d(x, kernel)
        assert not np.isfinite(result[~np.isfinite(true)]).any()

    @pytest.mark.parametrize("method", METHODS)
    def test_other_members_of_the_batch_stay_finite(self, rng, method):
        x = rng.standard_normal((4, 60, 8))
        x[2] = np.nan
        result = so.convolve(x, rng.standard_normal((3, 3)), method=method)
        assert np.isfinite(result[[0, 1, 3]]).all()
        assert np.isnan(result[2]).all()

    def test_a_wrapped_nan_reaches_the_other_end(self, rng):
        x = rng.standard_normal(20)
        x[19] = np.nan
        result = so.convolve(x, np.ones(3), mode="same", boundary="wrap", method="direct")
        assert np.array_equal(np.flatnonzero(np.isnan(result)), [0, 18, 19])
