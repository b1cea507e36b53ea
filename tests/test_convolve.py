"""convolve against SciPy, NumPy and closed forms; its shapes, axes, boundaries, NaN and errors."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy import signal
from support import random_array

import spectralops as so
from spectralops._cpu import conv_direct, conv_fft
from spectralops._plans import convolve as plans

METHODS = ("direct", "fft", "tiles")
BACKENDS = ("cpu", "numpy", "reference")
SIZES = [
    ((40,), (7,)),
    ((7,), (40,)),
    ((300,), (5,)),
    ((1,), (1,)),
    ((30, 23), (4, 5)),
    ((3, 2), (6, 9)),
    ((50, 1), (1, 40)),
    ((9, 8, 7), (3, 2, 4)),
]


def close(result, expected, rtol=1e-12):
    assert result.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(result, expected, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("n", "k"), SIZES, ids=str)
def test_equals_scipy(rng, n, k, mode, method, backend):
    if mode == "valid" and n == (50, 1):
        n = (50, 40)  # else neither contains the other
    x, kernel = rng.standard_normal(n), rng.standard_normal(k)
    expected = signal.convolve(x, kernel, mode, method="direct")
    close(so.convolve(x, kernel, mode=mode, method=method, backend=backend), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtypes", [("complex128", "float64"), ("float64", "complex128"), ("complex128",) * 2], ids=str)
@pytest.mark.parametrize(("n", "k"), [((300,), (6,)), ((21, 18), (4, 3))], ids=str)
def test_complex_equals_scipy(rng, n, k, dtypes, method, backend):
    x, kernel = random_array(rng, n, dtypes[0]), random_array(rng, k, dtypes[1])
    result = so.convolve(x, kernel, mode="same", method=method, backend=backend)
    assert result.dtype == np.complex128
    close(result, signal.convolve(x, kernel, "same", method="direct"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("n", "k"), [((12, 9), (3, 4)), ((2, 3), (7, 6)), ((5, 4), (5, 4))], ids=str)
def test_boundaries_equal_convolve2d(rng, n, k, mode, boundary, method, backend):
    """Also for kernels larger than the array, where SciPy goes on wrapping and mirroring."""
    x, kernel = rng.standard_normal(n), rng.standard_normal(k)
    fillvalue = 2.5 if boundary == "fill" else 0
    expected = signal.convolve2d(x, kernel, mode, boundary, fillvalue)
    result = so.convolve(x, kernel, mode=mode, boundary=boundary, fillvalue=fillvalue, method=method, backend=backend)
    close(result, expected)


@pytest.mark.parametrize(("word", "same_as"), [("circular", "wrap"), ("symmetric", "symm")])
def test_other_words_for_boundaries(rng, word, same_as):
    x, kernel = rng.standard_normal(9), rng.standard_normal(4)
    a = so.convolve(x, kernel, mode="same", boundary=word)
    assert np.array_equal(a, so.convolve(x, kernel, mode="same", boundary=same_as))


@pytest.mark.parametrize("boundary", ["wrap", "symm"])
def test_boundary_in_one_dimension_equals_ndimage(rng, boundary):
    from scipy import ndimage

    x, kernel = rng.standard_normal(20), rng.standard_normal(5)
    expected = ndimage.convolve1d(x, kernel, mode={"wrap": "wrap", "symm": "reflect"}[boundary])
    close(so.convolve(x, kernel, mode="same", boundary=boundary), expected)


@pytest.mark.parametrize("method", METHODS)
def test_wrap_is_the_circulant_matrix(rng, method):
    from scipy.linalg import circulant

    x, kernel = rng.standard_normal(15), rng.standard_normal(5)
    column = np.roll(np.pad(kernel, (0, 10)), -2)
    close(so.convolve(x, kernel, mode="same", boundary="wrap", method=method), circulant(column) @ x)


def test_complex_fillvalue(rng):
    x, kernel = rng.standard_normal(6), random_array(rng, (3,), "complex128")
    expected = np.convolve(np.pad(x + 0j, 2, constant_values=1 - 2j), kernel, "valid")
    for backend in BACKENDS:
        close(so.convolve(x, kernel, fillvalue=1 - 2j, backend=backend), expected)


def test_complex_fillvalue_without_imaginary_part_is_real(rng):
    x, kernel = rng.standard_normal(6), rng.standard_normal(3)
    assert np.array_equal(so.convolve(x, kernel, fillvalue=2 + 0j), so.convolve(x, kernel, fillvalue=2))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
def test_delta_returns_the_array(rng, method, backend):
    x = rng.standard_normal((17, 300))
    delta = np.zeros((3, 5))
    delta[1, 2] = 1
    close(so.convolve(x, delta, mode="same", method=method, backend=backend), x)


@pytest.mark.parametrize("method", METHODS)
def test_shifted_delta_moves_the_array(rng, method):
    x = rng.standard_normal(300)
    delta = np.zeros(9)
    delta[6] = 1
    close(so.convolve(x, delta, method=method)[6:306], x)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [40, 1000])
def test_box_twice_is_the_triangle(n, method):
    box = np.ones(n)
    triangle = np.minimum(np.arange(1, 2 * n), np.arange(2 * n - 1, 0, -1)).astype(float)
    close(so.convolve(box, box, method=method), triangle)


@pytest.mark.parametrize("method", METHODS)
def test_polynomials_multiply(method):
    """(1 + t)^3 (1 - t)^2."""
    result = so.convolve([1.0, 3.0, 3.0, 1.0], np.array([1.0, -2.0, 1.0]), method=method)
    close(result, np.array([1.0, 1.0, -2.0, -2.0, 1.0, 1.0]))


def test_transpose_gives_correlation(rng):
    """Reversed and conjugated, the kernel correlates."""
    x, kernel = random_array(rng, (20, 15), "complex128"), random_array(rng, (4, 3), "complex128")
    result = so.convolve(x, kernel[::-1, ::-1].conj(), mode="valid")
    close(result, signal.correlate(x, kernel, "valid", method="direct"))


class TestBatches:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("method", METHODS)
    def test_shp01_same_keeps_the_broadcast_batch(self, rng, method, backend):
        """SHP01: (1, 100) with (7, 10) is (7, 100), where SciPy cuts it to the first input's batch."""
        a, b = rng.standard_normal((1, 100)), rng.standard_normal((7, 10))
        result = so.convolve(a, b, mode="same", axes=1, method=method, backend=backend)
        close(result, np.stack([np.convolve(a[0], row, "same") for row in b]))

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("n", [30, 300])
    def test_shp01_both_broadcast(self, rng, n, method, backend):
        a, b = rng.standard_normal((4, 1, n)), rng.standard_normal((1, 5, 4))
        result = so.convolve(a, b, mode="same", axes=-1, method=method, backend=backend)
        close(result, np.stack([[np.convolve(p, q, "same") for q in b[0]] for p in a[:, 0]]))

    @pytest.mark.parametrize("method", METHODS)
    def test_one_kernel_for_all(self, rng, method):
        x, kernel = rng.standard_normal((2, 3, 20)), rng.standard_normal(5)
        result = so.convolve(x, kernel, method=method)
        close(result, np.stack([[np.convolve(row, kernel) for row in block] for block in x]))

    def test_default_axes_are_the_kernels_last(self, rng):
        x, kernel = rng.standard_normal((3, 12, 10)), rng.standard_normal((3, 2))
        close(so.convolve(x, kernel), np.stack([signal.convolve(image, kernel) for image in x]))

    def test_kernel_of_few_axes_runs_along_the_given_ones(self, rng):
        x, kernel = rng.standard_normal((20, 3)), rng.standard_normal(4)
        close(so.convolve(x, kernel, axes=0), np.stack([np.convolve(column, kernel) for column in x.T], 1))

    def test_kernel_follows_the_order_of_axes(self, rng):
        x, kernel = rng.standard_normal((2, 9, 8)), rng.standard_normal((3, 4))
        result = so.convolve(x, kernel, axes=(2, 1))
        close(result, np.stack([signal.convolve(image, kernel.T) for image in x]))

    def test_kernel_of_full_dimension_stays_in_place(self, rng):
        """With the dimensions of x the kernel is aligned with it, whatever the order of axes, as in SciPy."""
        x, kernel = rng.standard_normal((9, 8)), rng.standard_normal((3, 4))
        close(so.convolve(x, kernel, axes=(1, 0)), signal.fftconvolve(x, kernel, axes=(1, 0)))

    def test_kernel_between_is_aligned_at_the_right(self, rng):
        x, kernel = rng.standard_normal((2, 5, 30)), rng.standard_normal((5, 4))
        result = so.convolve(x, kernel, axes=-1)
        close(result, np.stack([[np.convolve(p, q) for p, q in zip(block, kernel, strict=True)] for block in x]))

    @pytest.mark.parametrize("method", METHODS)
    def test_many_small_ones(self, rng, method, monkeypatch):
        """Several blocks, the last one smaller."""
        for module in (conv_direct, conv_fft):
            monkeypatch.setattr(module, "BLOCK", 100)
        x, kernel = rng.standard_normal((7, 5, 11)), rng.standard_normal((7, 1, 3))
        result = so.convolve(x, kernel, axes=-1, mode="same", method=method)
        expected = [[np.convolve(row, k[0], "same") for row in block] for block, k in zip(x, kernel, strict=True)]
        close(result, np.array(expected))

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("kernel", [(3, 4), (5, 3, 4)], ids=str)
    def test_threads_change_nothing(self, rng, kernel, method, monkeypatch):
        for module in (conv_direct, conv_fft):
            monkeypatch.setattr(module, "BLOCK", 500)
        x, k = rng.standard_normal((5, 40, 30)), rng.standard_normal(kernel)
        options = {"axes": (-2, -1), "mode": "same", "method": method}
        one = so.convolve(x, k, **options)
        assert np.array_equal(so.convolve(x, k, workers=3, **options), one)

    @pytest.mark.parametrize("method", METHODS)
    def test_threads_within_one_array(self, rng, method):
        x, k = rng.standard_normal((60, 50)), rng.standard_normal((4, 3))
        close(so.convolve(x, k, method=method, workers=2), signal.convolve2d(x, k))

    def test_threads_on_long_rows(self, rng):
        x, k = rng.standard_normal((5, 400)), rng.standard_normal(9)
        one = so.convolve(x, k, method="direct")
        assert np.array_equal(so.convolve(x, k, method="direct", workers=2), one)

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("method", METHODS)
    def test_lay04_empty_batch(self, method, backend):
        """LAY04: no arrays in, no arrays out, of the right shape."""
        result = so.convolve(np.ones((0, 16), "float32"), np.ones(4, "float32"), method=method, backend=backend)
        assert result.shape == (0, 19)
        assert result.dtype == np.float32


class TestLongAndShort:
    @pytest.mark.parametrize("mode", ["full", "valid"])
    def test_prf04_order_of_arguments(self, rng, mode):
        """PRF04: a long signal and a short filter, either way round."""
        x, kernel = rng.standard_normal(100_000), rng.standard_normal(100)
        expected = signal.oaconvolve(x, kernel, mode)
        close(so.convolve(x, kernel, mode=mode), expected)
        close(so.convolve(kernel, x, mode=mode), expected)
        shapes = so.plan_convolve(100_000, "f8", kernel), so.plan_convolve(100, "f8", x)
        assert [plan.method for plan in shapes] == ["tiles", "tiles"]
        assert shapes[0].cost == shapes[1].cost

    @pytest.mark.parametrize("method", ["auto", *METHODS])
    def test_prf04_outer_product(self, rng, method):
        v, w = rng.standard_normal((1000, 1)), rng.standard_normal((1, 1000))
        close(so.convolve(v, w, method=method), v * w)
        close(so.convolve(w, v, method=method), v * w)

    def test_prf04_memory_stays_bounded(self, rng):
        """Tiles need little besides the result."""
        import tracemalloc

        x, kernel = rng.standard_normal(1_000_000), rng.standard_normal(100)
        plan = so.plan_convolve(x.shape, x.dtype, kernel)
        plan(x, kernel)
        tracemalloc.start()
        plan(x, kernel)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * x.nbytes

    def test_prf01_prime_lengths_are_padded(self):
        """PRF01: zeros are free, so no transform has a length with a large prime factor."""
        plan = so.plan_convolve(1_030_703, "f8", np.ones(30_011), mode="same", method="fft")
        assert plan.lengths == (1_048_576,)


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


class TestMechanics:
    def test_out(self, rng):
        x, kernel = rng.standard_normal((6, 7)), rng.standard_normal((2, 3))
        out = np.empty((7, 9))
        assert so.convolve(x, kernel, out=out) is out
        close(out, signal.convolve2d(x, kernel))

    def test_out_of_other_axes_order(self, rng):
        x, kernel = rng.standard_normal((20, 3)), rng.standard_normal(4)
        out = np.empty((3, 23)).T
        so.convolve(x, kernel, axes=0, out=out)
        close(out, so.convolve(x, kernel, axes=0))

    @pytest.mark.parametrize("method", ["direct", "fft", "tiles"])
    def test_auto_runs_the_cheapest(self, method, monkeypatch):
        monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
        shapes = {
            "direct": ((50, 50), (1, 3)),
            "fft": ((256, 256), (40, 40)),
            "tiles": ((4000, 4000), (30, 30)),
        }
        x, kernel = shapes[method]
        assert so.plan_convolve(x, "f4", np.ones(kernel)).method == method

    def test_auto_equals_the_method_it_names(self, rng):
        x, kernel = rng.standard_normal((30, 200)), rng.standard_normal((2, 9))
        plan = so.plan_convolve(x.shape, x.dtype, kernel)
        assert np.array_equal(plan(x, kernel), so.convolve(x, kernel, method=plan.method))

    def test_kernel_by_its_spec(self, rng):
        from spectralops._arrays import ArraySpec

        by_array = so.plan_convolve(20, "f8", np.ones(3))
        assert by_array == so.plan_convolve(20, "f8", ArraySpec((3,), "float64"))


def raises(kind: type[Exception], text: str, *args, **options) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        so.convolve(*args, **options)


class TestErrors:
    def test_kernel_of_more_dimensions(self):
        """ERR03: both numbers are named."""
        raises(
            ValueError,
            "convolve: kernel has 3 dimensions, but must have at most the 2 of x",
            np.ones((8, 8)),
            np.ones((3, 3, 3)),
        )

    def test_kernel_of_too_few_dimensions(self):
        """ERR03."""
        raises(
            ValueError,
            "convolve: kernel has 1 dimensions, but must have 2, one per axis of axes=(1, 2), or 3, as many as x",
            np.ones((4, 8, 8)),
            np.ones(3),
            axes=(1, 2),
        )

    def test_kernel_that_lacks_an_axis_between(self):
        raises(
            ValueError,
            "kernel has 2 dimensions, but must have 1, one per axis of axes=(0,), or 3",
            np.ones((4, 8, 8)),
            np.ones((3, 3)),
            axes=0,
        )

    def test_batches_that_do_not_broadcast(self):
        """ERR03: 6 against 7."""
        raises(
            ValueError,
            "convolve: x has batch axes (2, 6) and kernel (1, 7), but they must broadcast against each other",
            np.ones((2, 6, 32)),
            np.ones((1, 7, 32)),
            axes=-1,
        )

    def test_valid_needs_one_to_contain_the_other(self):
        raises(
            ValueError,
            "convolve: x has lengths (5, 3) and kernel (3, 5) along axes, but one must be at least as long as the "
            "other along every axis for mode 'valid'",
            np.ones((5, 3)),
            np.ones((3, 5)),
            mode="valid",
        )

    @pytest.mark.parametrize("name", ["x", "kernel"])
    def test_empty_axis(self, name):
        arrays = {"x": np.ones(4), "kernel": np.ones(3)} | {name: np.ones(0)}
        raises(
            ValueError,
            f"convolve: {name} has shape (0,) with length 0 along axis 0, but must have length 1 or more there",
            arrays["x"],
            arrays["kernel"],
        )

    @pytest.mark.parametrize(
        ("option", "value", "words"),
        [
            ("mode", "sam", "'full', 'same' or 'valid'"),
            ("boundary", "reflect", "'fill', 'wrap', 'circular', 'symm' or 'symmetric'"),
            ("method", "oa", "'auto', 'direct', 'fft' or 'tiles'"),
        ],
    )
    def test_unknown_word(self, option, value, words):
        text = f"convolve: {option} is {value!r}, but must be {words}"
        raises(ValueError, text, np.ones(4), np.ones(3), **{option: value})

    @pytest.mark.parametrize("boundary", ["wrap", "symm"])
    def test_fillvalue_without_effect(self, boundary):
        raises(
            ValueError,
            f"convolve: fillvalue is 1.0, but must be 0 for boundary '{boundary}', where it has no effect",
            np.ones(4),
            np.ones(3),
            boundary=boundary,
            fillvalue=1.0,
        )

    def test_complex_fillvalue_for_a_real_result(self):
        raises(
            TypeError,
            "convolve: fillvalue is 1j, but must be real for a result of dtype float64",
            np.ones(4),
            np.ones(3),
            fillvalue=1j,
        )

    @pytest.mark.parametrize("value", [np.nan, np.inf, complex(0, np.nan)])
    def test_fillvalue_must_be_finite(self, value):
        raises(ValueError, "but must be finite", np.ones(4), np.ones(3), fillvalue=value)

    def test_fillvalue_must_be_a_number(self):
        raises(
            TypeError, "convolve: fillvalue is a str, but must be a real number", np.ones(4), np.ones(3), fillvalue=""
        )

    def test_kernel_must_be_an_array(self):
        raises(TypeError, "convolve: kernel is a float, but must be an array with at least one axis", np.ones(4), 2.0)

    def test_scalar_x(self):
        raises(ValueError, "kernel has 1 dimensions, but must have at most the 0 of x", 3.0, np.ones(3))

    def test_axis_out_of_range(self):
        raises(ValueError, "convolve: axes has 2, but must lie in [-2, 2)", np.ones((4, 4)), np.ones(3), axes=2)

    @pytest.mark.parametrize("name", ["x", "kernel"])
    def test_dtype(self, name):
        arrays = {"x": np.ones(4), "kernel": np.ones(3)} | {name: np.ones(3, np.longdouble)}
        raises(TypeError, f"convolve: {name} has dtype", arrays["x"], arrays["kernel"])

    def test_libraries_do_not_mix(self):
        torch = pytest.importorskip("torch")
        raises(
            TypeError,
            "convolve: kernel is a numpy array on cpu, but must be a torch array on cpu like x",
            torch.ones(4),
            np.ones(3),
        )

    def test_out_of_wrong_shape(self):
        raises(ValueError, "convolve: out has shape (4,)", np.ones(4), np.ones(3), out=np.ones(4))

    def test_backend_of_another_device(self):
        raises(TypeError, "convolve: backend is 'cupy'", np.ones(4), np.ones(3), backend="cupy")

    def test_device_of_a_plan(self):
        with pytest.raises(ValueError, match="convolve: device is 'tpu', but must be 'cpu' or 'cuda'"):
            so.plan_convolve(4, "f8", np.ones(3), device="tpu")
        assert so.plan_convolve(4, "f8", np.ones(3), device="cuda:1").backend == "cupy"


def test_no_warning_about_finite_data(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in METHODS:
            so.convolve(rng.standard_normal((40, 50)), rng.standard_normal((3, 3)), method=method)


def test_builder_is_cached():
    first = so.plan_convolve((123, 45), "f8", np.ones((3, 3)))
    assert so.plan_convolve((123, 45), "f8", np.ones((3, 3))) is first
    assert plans._build.cache_info().maxsize == 512


@pytest.mark.parametrize("real", ["neither", "x", "kernel"])
def test_complex_taps_in_any_order_of_memory(real: str, rng: np.random.Generator) -> None:
    """The shorter array gives the taps: here x, whose axes lie in memory the other way round."""
    x = np.asfortranarray(rng.standard_normal((9, 4)) + 1j * rng.standard_normal((9, 4)))
    kernel = rng.standard_normal(6) + 1j * rng.standard_normal(6)
    x, kernel = (x.real if real == "x" else x), (kernel.real if real == "kernel" else kernel)
    own = np.moveaxis(rng.standard_normal((9, 3, 2)) + 1j, 1, 2)  # a kernel for each row, apart in memory
    for k, axes in ((kernel, 1), (own[:, 0], 1)):
        expected = np.stack([np.convolve(a, b) for a, b in zip(x, np.broadcast_to(k, (9, k.shape[-1])), strict=True)])
        np.testing.assert_allclose(so.convolve(x, k, axes=axes, method="direct"), expected, rtol=0, atol=1e-13)
