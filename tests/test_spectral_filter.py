"""spectral_filter: what it computes, padding, layouts, threads and NaN."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.fft as sf
from support import complex_normal

from spectralops import plan_spectral_filter, spectral_filter, transfer
from spectralops._cpu.blocks import blocks, cuts, run

BACKENDS = ["cpu", "numpy", "reference"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [1, 2, 3, 15, 101, 255])
def test_shp04_convolution_with_a_delta_returns_x(n, backend, rng):
    x = rng.standard_normal((2, n))
    delta = np.zeros(n)
    delta[0] = 1
    result = spectral_filter(x, np.fft.rfft(delta), axes=-1, backend=backend)
    assert np.allclose(result, x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(39, 17), (13, 31), (42, 19)])
def test_shp04_circular_convolution_of_odd_planes(shape, backend, rng):
    x, kernel = rng.standard_normal(shape), np.zeros(shape)
    taps = {(0, 0): 0.7, (2, 5): -1.3, (shape[0] - 1, 3): 0.4}
    for place, value in taps.items():
        kernel[place] = value
    direct = sum(value * np.roll(x, place, (0, 1)) for place, value in taps.items())
    assert np.allclose(spectral_filter(x, np.fft.rfft2(kernel), backend=backend), direct, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(6, 8), (5, 8), (6, 7), (8, 2), (3, 1)])
def test_real_inverse_is_numpys_for_any_transfer(shape, backend, rng):
    x = rng.standard_normal((3, *shape))
    h = complex_normal(rng, shape[0], shape[1] // 2 + 1)
    expected = np.fft.irfftn(np.fft.rfftn(x, axes=(1, 2)) * h, s=shape, axes=(1, 2))
    assert np.allclose(spectral_filter(x, h, backend=backend), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_input_has_a_full_spectrum(backend, rng):
    x, h = complex_normal(rng, 2, 5, 6), complex_normal(rng, 5, 6)
    assert np.allclose(spectral_filter(x, h, backend=backend), np.fft.ifft2(np.fft.fft2(x) * h), rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_last_listed_axis_is_halved(backend, rng):
    x, h = rng.standard_normal((6, 4, 5)), complex_normal(rng, 4, 4, 1).reshape(4, 4, 1)
    h = complex_normal(rng, 4, 1, 5)
    expected = np.fft.irfftn(np.fft.rfftn(x, axes=(2, 0)) * h, s=(5, 6), axes=(2, 0))
    assert np.allclose(spectral_filter(x, h, axes=(2, 0), backend=backend), expected, rtol=0, atol=1e-13)


def test_factors_multiply_like_their_product(rng):
    x, rows, columns = rng.standard_normal((3, 6, 8)), complex_normal(rng, 6, 1), rng.standard_normal(5)
    whole = spectral_filter(x, rows * columns)
    assert np.allclose(spectral_filter(x, (rows, columns)), whole, rtol=0, atol=1e-14)
    assert np.allclose(spectral_filter(x, lambda k, m: (rows, columns)), whole, rtol=0, atol=1e-14)


def test_points_are_one_apart_by_default(rng):
    x = rng.standard_normal(8)
    expected = spectral_filter(x, transfer.derivative(), spacing=1.0)
    assert np.array_equal(spectral_filter(x, transfer.derivative()), expected)
    assert np.array_equal(plan_spectral_filter((8,), "float64", transfer.derivative())(x), expected)


def test_a_callable_may_return_a_number(rng):
    x = rng.standard_normal(6)
    assert np.allclose(spectral_filter(x, lambda k: 3), 3 * x, rtol=0, atol=1e-14)
    assert np.allclose(spectral_filter(x, lambda k: np.float32(0.5)), x / 2, rtol=0, atol=1e-14)


def test_a_callable_is_evaluated_at_every_call(rng):
    x, gain = rng.standard_normal(6), [1.0]

    def symbol(k):
        return gain[0] + 0 * k

    plan = plan_spectral_filter(x.shape, x.dtype, symbol)
    first = plan(x)
    gain[0] = 2.0
    assert np.allclose(plan(x), 2 * first, rtol=0, atol=1e-14)


def test_callables_see_float64_wavenumbers_in_axes_order(rng):
    seen = []

    def symbol(*k):
        seen.extend(k)
        return np.ones(())

    spectral_filter(np.zeros((3, 8, 6), np.float32), symbol, axes=(2, 1), spacing=(0.5, 2.0))
    assert [k.shape for k in seen] == [(1, 6), (5, 1)]
    assert {k.dtype for k in seen} == {np.dtype(np.float64)}
    assert np.allclose(seen[0].ravel(), 2 * np.pi * np.fft.fftfreq(6, 0.5))
    assert np.allclose(seen[1].ravel(), 2 * np.pi * np.fft.rfftfreq(8, 2.0))


def test_torch_fields_take_numpy_callables():
    torch = pytest.importorskip("torch")
    x = torch.arange(8.0)
    result = spectral_filter(x, lambda k: np.exp(-(k**2)))
    assert result.dtype == torch.float32
    expected = np.fft.irfft(np.fft.rfft(np.arange(8.0)) * np.exp(-((2 * np.pi * np.fft.rfftfreq(8)) ** 2)), 8)
    assert np.allclose(result.numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int16", "float64"), ("bool", "float64"), ("float32", "float32"), ("complex64", "complex64")],
)
def test_result_dtype_follows_x(dtype, expected):
    x = np.ones((4, 4)).astype(dtype)
    assert spectral_filter(x, np.ones((4, 1))).dtype == expected
    assert spectral_filter(x, np.full((4, 1), 1j)).dtype == expected


def test_np_int32_sizes_do_not_overflow():
    """BIG03: 2^14 by 2^14 complex numbers are 4 GiB, also when the sizes came as int32."""
    n = np.int32(2**14)
    plan = plan_spectral_filter((n, n), np.complex128, transfer.gaussian(1.0))
    assert plan.bytes_moved == 2 * 16 * 2**28
    assert plan.index_bits == 32
    assert plan_spectral_filter((4, n, n), np.complex128, transfer.gaussian(1.0)).index_bits == 64
    assert spectral_filter(np.ones((4, 4)), np.ones(3), pad_width=np.int32(0)).shape == (4, 4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("mode", "numpy_mode"), [("zero", "constant"), ("reflect", "reflect"), ("edge", "edge")])
@pytest.mark.parametrize("width", [1, 3, 7])
def test_padding_is_numpys(mode, numpy_mode, width, backend, rng):
    x = rng.standard_normal((2, 5, 4))
    smooth = transfer.gaussian(0.8)
    padded = np.pad(x, ((0, 0), (width, width), (2, 2)), mode=numpy_mode)
    expected = spectral_filter(padded, smooth)[:, width:-width, 2:-2]
    result = spectral_filter(x, smooth, pad_width=(width, 2), pad_mode=mode, backend=backend)
    assert np.allclose(result, expected, rtol=0, atol=1e-13)


def test_auto_padding_reaches_the_next_fast_size(rng):
    plan = plan_spectral_filter((11, 13, 16), "float64", transfer.gaussian(1.0), axes=(0, 1, 2), pad_width="auto")
    assert plan.sizes == (12, 14, 16)
    assert plan.pad == ((0, 1), (0, 1), (0, 0))
    plan = plan_spectral_filter((61, 4), "float64", transfer.gaussian(1.0), pad_width=("auto", 1))
    assert (plan.sizes, plan.pad) == ((63, 6), ((1, 1), (1, 1)))
    x = rng.standard_normal(11)
    wrapped = spectral_filter(np.pad(x, (0, 1), mode="edge"), transfer.gaussian(1.0))[:11]
    assert np.allclose(
        spectral_filter(x, transfer.gaussian(1.0), pad_width="auto", pad_mode="edge"), wrapped, atol=1e-14
    )


@pytest.mark.parametrize(
    ("n", "fast"), [(1, 1), (7, 7), (11, 12), (13, 14), (17, 18), (97, 98), (121, 125), (1025, 1029), (4001, 4032)]
)
def test_fast_sizes_have_no_prime_factor_above_seven(n, fast):
    assert plan_spectral_filter((n,), "float32", transfer.gaussian(1.0), pad_width="auto").sizes == (fast,)


def test_zero_padding_keeps_the_ends_apart():
    x = np.zeros(16)
    x[0] = 1.0
    smooth = transfer.gaussian(1.0)
    assert spectral_filter(x, smooth)[-1] > 0.2
    assert abs(spectral_filter(x, smooth, pad_width=8)[-1]) < 1e-3


@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (1, 3), (3, 0), (2,), (3, 1, 2)])
@pytest.mark.parametrize("workers", [1, 2, 5, -1])
def test_blocks_and_threads_change_nothing(axes, workers, rng, monkeypatch):
    """Also with blocks so small that every batch axis is cut, and a transfer of its own for each batch entry."""
    monkeypatch.setattr("spectralops._plans.spectral.BLOCK_BYTES", 2500)
    monkeypatch.setattr("spectralops._plans.spectral.BLOCK_BYTES_1D", 500)
    x = rng.standard_normal((5, 4, 7, 6))
    plan = plan_spectral_filter(x.shape, x.dtype, transfer.gaussian(1.0), axes=axes)
    h = complex_normal(rng, *plan.spectrum_shape)
    sizes = [x.shape[axis] for axis in axes]
    expected = sf.irfftn(sf.rfftn(x, axes=axes) * h, s=sizes, axes=axes)
    assert np.allclose(spectral_filter(x, h, axes=axes, workers=workers), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["float", "complex"])
def test_more_workers_than_images(kind, rng):
    x = rng.standard_normal((1, 64, 64)).astype(kind)
    expected = spectral_filter(x, transfer.shift((0.5, 0.2)), backend="numpy")
    assert np.allclose(spectral_filter(x, transfer.shift((0.5, 0.2)), workers=2), expected, rtol=0, atol=1e-13)


def test_thr01_many_threads_share_a_plan(rng):
    data, kernel = rng.standard_normal((64, 64, 64)), np.fft.rfft2(rng.standard_normal((64, 64)))
    expected = np.fft.irfft2(kernel * np.fft.rfft2(data), s=(64, 64))
    plan = plan_spectral_filter((64, 64), data.dtype, kernel)
    bound = 1e-12 * np.abs(expected).max()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            results = list(pool.map(lambda image: plan(image, kernel), data))
            assert np.abs(np.stack(results) - expected).max() <= bound
        sampled = list(pool.map(lambda image: spectral_filter(image, transfer.gaussian(1.0), workers=2), data))
    assert np.abs(np.stack(sampled) - spectral_filter(data, transfer.gaussian(1.0), backend="numpy")).max() <= bound


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [16, 13, 17])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_stays_in_its_batch_entry(backend, bad, n, rng):
    x = rng.standard_normal((6, n)).astype(np.float32)
    clean = spectral_filter(x, transfer.gaussian(1.0), axes=-1, backend=backend)
    x[2, 3] = bad
    result = spectral_filter(x, transfer.gaussian(1.0), axes=-1, backend=backend)
    others = [0, 1, 3, 4, 5]
    assert not np.isfinite(result[2]).any()
    assert np.array_equal(result[others], clean[others])


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_element(backend):
    out = np.full(1, 7.0)
    assert spectral_filter(np.array([3.0]), np.array([2.0 + 1j]), backend=backend, out=out) is out
    assert out == 6.0


def test_lay04_empty_batch():
    for shape in ((0, 2, 16), (2, 0, 4, 4)):
        for backend in BACKENDS:
            result = spectral_filter(np.zeros(shape, np.float32), transfer.gaussian(1.0), axes=-1, backend=backend)
            assert (result.shape, result.dtype) == (shape, np.float32)


def test_blocks_cover_everything_once():
    for shape, axes, size in [
        ((5, 3, 4), (1,), 2),
        ((5, 3, 4), (1,), 7),
        ((2, 3), (), 1),
        ((7,), (0,), 3),
        ((0, 3), (1,), 2),
    ]:
        count = np.zeros(shape, int)
        for index in blocks(shape, axes, size):
            count[index] += 1
            batch = np.prod([n for axis, n in enumerate(count[index].shape) if axis not in axes])
            assert batch <= size
        assert (count == 1).all()
    assert len(blocks((5, 3, 4), (1,), 8)) == 3  # rows of 4 first, two of them at a time
    assert [cut.stop - cut.start for cut in cuts(10, 4, 1)] == [4, 4, 4]
    assert [cut.start for cut in cuts(10, 100, 3)] == [0, 4, 8]
    assert cuts(3, 0, 1) == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_a_failing_block_is_reported():
    def task(item):
        if item == 3:
            raise ArithmeticError("block 3")

    for workers in (1, 2):
        with pytest.raises(ArithmeticError, match="block 3"):
            run(task, range(5), workers)
