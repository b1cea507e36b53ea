"""spectral_conv: what it computes, methods, blocks, threads and NaN."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from spectral_conv_cases import BACKENDS, every_method, every_way, points  # noqa: F401, fixtures
from support import complex_normal

from spectralops import plan_spectral_conv, spectral_conv
from spectralops._cpu import spectral_conv_scipy as by_scipy


def test_each_mode_has_its_own_matrix(way):
    """cos(k.x) in, amplitude and phase of W(k) out, for a positive, a negative and the zero wavenumber."""
    (x, y) = points(9, 8)
    modes = {(0, 0): 3.0, (2, 1): 1j, (-2, 1): 2.0, (1, 3): -1.0 + 1j, (0, 2): 0.5}
    weight = np.zeros((1, 1, 5, 4), complex)
    for (k, m), value in modes.items():
        weight[0, 0, k + 2, m] = value
    field = sum(np.cos(k * x + m * y) for k, m in modes)
    expected = sum((w * np.exp(1j * (k * x + m * y))).real for (k, m), w in modes.items())
    result = spectral_conv(field[None], weight, backend=way)
    assert np.allclose(result[0], expected, rtol=0, atol=1e-13)


def test_complex_input_keeps_centred_modes_on_every_axis(way):
    (x, y) = points(6, 7)
    weight = np.zeros((1, 1, 4, 3), complex)
    weight[0, 0, 0, 2], weight[0, 0, 3, 0] = 2j, 3.0  # (-2, 1) and (1, -1)
    field = np.exp(1j * (-2 * x + y)) + np.exp(1j * (x - y)) + np.exp(1j * (2 * x + y))
    expected = 2j * np.exp(1j * (-2 * x + y)) + 3 * np.exp(1j * (x - y))
    assert np.allclose(spectral_conv(field[None], weight, backend=way)[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(15,), (16,), (15, 12), (15, 11, 9), (1,), (2, 2)])
def test_num06_all_modes_and_weight_one_return_x(shape, way, rng):
    if way == "reference" and len(shape) == 3:
        shape = (5, 4, 3)
    x = rng.standard_normal((2, 1, *shape))
    weight = np.ones((1, 1, *shape[:-1], shape[-1] // 2 + 1), complex)
    assert np.allclose(spectral_conv(x, weight, backend=way), x, rtol=0, atol=1e-13)
    z = complex_normal(rng, 2, 1, *shape)
    assert np.allclose(spectral_conv(z, np.ones((1, 1, *shape), complex), backend=way), z, rtol=0, atol=1e-13)


def corner_layer(x: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """The first-generation 2-d FNO layer: one weight on rows 0 ... m-1, one on rows -m ... -1 of rfft2."""
    m, columns = positive.shape[2:]
    spectrum = np.fft.rfft2(x)
    result = np.zeros((x.shape[0], positive.shape[1], *spectrum.shape[2:]), complex)
    for rows, weight in ((slice(0, m), positive), (slice(-m, None), negative)):
        kept = spectrum[:, :, rows, :columns]
        result[:, :, rows, :columns] = np.einsum("bikl,iokl->bokl", kept, weight)
    return np.fft.irfft2(result, s=x.shape[2:])


@pytest.mark.parametrize("sizes", [(16, 12, 5, 4), (15, 11, 4, 3), (12, 12, 6, 7), (8, 9, 1, 1)])
def test_num06_first_generation_layer(sizes, way, rng):
    height, width, m1, m2 = sizes
    x = rng.standard_normal((2, 3, height, width))
    positive, negative = complex_normal(rng, 3, 4, m1, m2), complex_normal(rng, 3, 4, m1, m2)
    result = spectral_conv(x, np.concatenate([negative, positive], axis=2), backend=way)
    assert np.allclose(result, corner_layer(x, positive, negative), rtol=0, atol=1e-12)


def test_dty02_half_precision_layer_of_any_size(rng):
    x = rng.standard_normal((2, 3, 20, 15)).astype(np.float16)
    positive, negative = 0.1 * complex_normal(rng, 3, 3, 4, 4), 0.1 * complex_normal(rng, 3, 3, 4, 4)
    result = spectral_conv(x, np.concatenate([negative, positive], axis=2))
    expected = corner_layer(x.astype(float), positive, negative)
    assert result.dtype == np.float16
    assert np.abs(result - expected).max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize(("coarse", "fine"), [((9, 8), (12, 15)), ((8, 9), (16, 9)), ((7,), (20,))])
def test_amplitudes_survive_another_resolution(coarse, fine, way):
    waves = [1, 2][: len(coarse)]

    def field(sizes):
        return 0.5 + np.cos(sum(k * x for k, x in zip(waves, points(*sizes), strict=True)) + 0.3)

    weight = np.ones((1, 1, *(5,) * (len(coarse) - 1), 3), complex)
    up = spectral_conv(field(coarse)[None], weight, out_shape=fine, backend=way)
    assert np.allclose(up[0], field(fine), rtol=0, atol=1e-13)
    down = spectral_conv(field(fine)[None], weight, out_shape=coarse, backend=way)
    assert np.allclose(down[0], field(coarse), rtol=0, atol=1e-13)


def test_num06_top_mode_of_an_odd_cube():
    n, top = 15, 7
    x = np.broadcast_to(np.cos(top * points(n)[0])[:, None, None], (n, n, n))
    weight = np.ones((1, 1, 15, 15, 8), complex)
    fine = np.broadcast_to(np.cos(top * points(2 * n)[0])[:, None, None], (2 * n,) * 3)
    assert np.allclose(spectral_conv(x[None], weight, out_shape=(30,) * 3)[0], fine, rtol=0, atol=1e-12)


def test_a_kept_nyquist_is_copied_as_it_is(way):
    """Of 8 points, mode 4 is Nyquist and counts once; on 12 points it is interior and counts twice."""
    x = np.cos(np.pi * np.arange(8))[None]
    weight = np.ones((1, 1, 5), complex)
    fine = spectral_conv(x, weight, out_shape=12, backend=way)
    assert np.allclose(fine[0], 2 * np.cos(4 * points(12)[0]), rtol=0, atol=1e-13)


def test_imaginary_parts_that_a_real_field_lacks_are_ignored(way, rng):
    x = rng.standard_normal((2, 1, 8))
    weight = np.ones((1, 1, 5), complex)
    weight[..., 0] += 7j
    weight[..., 4] -= 3j
    assert np.allclose(spectral_conv(x, weight, backend=way), x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depthwise", [False, True])
def test_a_real_weight_is_pairs(backend, depthwise, rng):
    x, weight = rng.standard_normal((2, 3, 8)), complex_normal(rng, *((3, 4) if depthwise else (3, 2, 4)))
    pairs = np.stack([weight.real, weight.imag], axis=-1)
    for layout in (pairs, np.asfortranarray(pairs), pairs[..., ::-1].copy()[..., ::-1]):
        result = spectral_conv(x, layout, depthwise=depthwise, backend=backend)
        expected = spectral_conv(x, weight, depthwise=depthwise, backend="reference")
        assert np.allclose(result, expected, rtol=0, atol=1e-14)


def test_depthwise_is_a_diagonal_weight(way, rng):
    x, own = rng.standard_normal((2, 3, 6, 8)), complex_normal(rng, 3, 4, 3)
    full = np.zeros((3, 3, 4, 3), complex)
    full[range(3), range(3)] = own
    result = spectral_conv(x, own, depthwise=True, backend=way)
    assert np.allclose(result, spectral_conv(x, full, backend=way), rtol=0, atol=1e-13)


def test_axes_order_is_the_order_of_the_modes(way, rng):
    x, weight = rng.standard_normal((2, 5, 3, 6, 8)), complex_normal(rng, 3, 2, 4, 3)
    result = spectral_conv(x, weight, axes=(-1, -2), out_shape=(10, 7), backend=way)
    swapped = spectral_conv(np.swapaxes(x, -1, -2).copy(), weight, out_shape=(10, 7), backend=way)
    assert result.shape == (2, 5, 2, 7, 10)
    assert np.allclose(result, np.swapaxes(swapped, -1, -2), rtol=0, atol=1e-13)


def test_channels_without_batch_and_several_batch_axes(rng):
    x, weight = rng.standard_normal((2, 3, 4, 8)), complex_normal(rng, 4, 5, 3)
    whole = spectral_conv(x, weight)
    assert whole.shape == (2, 3, 5, 8)
    assert np.allclose(whole[1, 2], spectral_conv(x[1, 2], weight), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("int32", "float64"), ("float32", "float32"), ("complex64", "complex64")]
)
def test_result_dtype_follows_x(dtype, expected, rng):
    x = np.ones((1, 2, 8), dtype)
    assert spectral_conv(x, complex_normal(rng, 2, 2, 3)).dtype == expected
    assert spectral_conv(x, rng.integers(0, 3, (2, 2, 3, 2))).dtype == expected


def test_no_input_channels_sum_to_zero():
    result = spectral_conv(np.ones((2, 0, 8)), np.ones((0, 3, 4), complex))
    assert (result.shape, result.any()) == ((2, 3, 8), False)
    assert spectral_conv(np.ones((2, 3, 8)), np.ones((3, 0, 4), complex)).shape == (2, 0, 8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_element(backend):
    out = np.full((1, 1), 7.0)
    spectral_conv(np.full((1, 1), 3.0), np.full((1, 1, 1), 2.0 + 1j), backend=backend, out=out)
    assert out == 6.0


def test_lay04_empty_batch():
    for backend in BACKENDS:
        assert spectral_conv(np.zeros((0, 1, 8)), np.ones((1, 1, 5), complex), backend=backend).shape == (0, 1, 8)


@pytest.mark.parametrize(
    ("n", "modes", "half", "expected"),
    [
        (128, 28, True, "gemm"),
        (128, 29, True, "fft"),
        (128, 56, False, "gemm"),
        (128, 57, False, "fft"),
        (1, 1, True, "gemm"),
        (2, 2, True, "gemm"),
        (16384, 32, True, "gemm"),
        (16384, 33, False, "fft"),
    ],
)
def test_cost_model_of_scipy(n, modes, half, expected):
    """Products with a Fourier matrix of 4 MiB, up to 4 log2(n) modes of a half axis and 8 log2(n) of a full one."""
    assert by_scipy.methods((n,), (modes,), half) == (expected,)
    if not half:
        assert by_scipy.methods((n, 4), (modes, 3), True) == (expected, "gemm")


@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_long_matrix_products_keep_single_precision(kind, method, rng):
    """The angle is reduced in integers: 1e-6 at 4096 points, where cos(2 pi k n) itself would lose three digits."""
    x, weight = rng.standard_normal((1, 1, 4096)).astype(kind), complex_normal(rng, 1, 1, 47)
    plan = plan_spectral_conv(x.shape, kind, weight)
    kept = np.fft.fft(x[0, 0].astype(complex)) / 4096
    spectrum = np.zeros(4096, complex)
    place = np.arange(47) if kind == "float32" else np.arange(-23, 24)
    spectrum[place] = kept[place] * weight[0, 0]
    exact = np.fft.ifft(spectrum) * 4096
    if kind == "float32":
        exact = 2 * exact.real - spectrum[0].real
    assert np.linalg.norm(plan(x, weight)[0, 0] - exact) < 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("workers", [1, 2, 3, -1])
@pytest.mark.parametrize("depthwise", [False, True])
def test_blocks_and_threads_change_nothing(workers, depthwise, method, rng, monkeypatch):
    monkeypatch.setattr(by_scipy, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(by_scipy, "MIX_MODES", 5)
    x, weight = rng.standard_normal((3, 4, 6, 8)), complex_normal(rng, *((4, 4, 3) if depthwise else (4, 5, 4, 3)))
    expected = spectral_conv(x, weight, depthwise=depthwise, backend="numpy")
    result = spectral_conv(x, weight, depthwise=depthwise, workers=workers)
    assert np.allclose(result, expected, rtol=0, atol=1e-13)


def test_thr01_many_threads_share_a_plan(method, rng):
    x, weight = rng.standard_normal((16, 3, 12, 10)), complex_normal(rng, 3, 3, 4, 4)
    plan = plan_spectral_conv(x.shape[1:], x.dtype, weight)
    by_scipy.clear_matrices()
    with ThreadPoolExecutor(8) as pool:
        results = np.stack(list(pool.map(lambda entry: plan(entry, weight), x)))
    assert np.allclose(results, spectral_conv(x, weight, backend="numpy"), rtol=0, atol=1e-13)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_stays_in_its_batch_entry(way, rng):
    x, weight = rng.standard_normal((5, 3, 8, 6)).astype(np.float32), complex_normal(rng, 3, 4, 3, 2)
    clean = spectral_conv(x, weight, backend=way)
    x[3, 1, 2, 2] = np.nan
    result = spectral_conv(x, weight, backend=way)
    others = [0, 1, 2, 4]
    assert np.isnan(result[3]).all()
    assert np.allclose(result[others], clean[others], rtol=0, atol=1e-6)


def test_matrices_are_cached_and_bounded(monkeypatch):
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    by_scipy.clear_matrices()
    for n in range(2, 80):
        spectral_conv(np.ones((1, n)), np.ones((1, 1, 2), complex))
    for cache in (by_scipy._complex_waves, by_scipy._real_forward, by_scipy._real_inverse):
        assert cache.cache_info().currsize == cache.cache_info().maxsize == 64
    assert not by_scipy._real_forward(8, 2, "float32").flags.writeable
    by_scipy.clear_matrices()
    assert by_scipy._real_forward.cache_info().currsize == 0
