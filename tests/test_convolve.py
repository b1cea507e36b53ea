"""convolve against SciPy, closed forms and itself; batches, long and short."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal
from support import random_array

import spectralops as so
from spectralops._cpu import conv_direct, conv_fft

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
