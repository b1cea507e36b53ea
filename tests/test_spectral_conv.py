"""spectral_conv: meaning, modes, layers of others, gradients, plans, threads, NaN, errors."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from spectral_conv_cases import GRIDS, METHODS, use

from spectralops import plan_spectral_conv, spectral_conv
from spectralops._arrays import ArraySpec
from spectralops._cpu import spectral_conv_scipy as by_scipy

BACKENDS = ["cpu", "numpy", "reference"]


def crand(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.fixture(params=METHODS)
def method(request, monkeypatch):
    use(request.param, monkeypatch)
    return request.param


def points(*sizes: int) -> list[np.ndarray]:
    """Coordinates of a 2 pi periodic grid, broadcastable."""
    return np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in sizes), indexing="ij", sparse=True)


# ------------------------------------------------------------------ meaning


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_mode_has_its_own_matrix(backend, method):
    """cos(k.x) in, amplitude and phase of W(k) out, for a positive, a negative and the zero wavenumber."""
    (x, y) = points(9, 8)
    modes = {(0, 0): 3.0, (2, 1): 1j, (-2, 1): 2.0, (1, 3): -1.0 + 1j, (0, 2): 0.5}
    weight = np.zeros((1, 1, 5, 4), complex)
    for (k, m), value in modes.items():
        weight[0, 0, k + 2, m] = value
    field = sum(np.cos(k * x + m * y) for k, m in modes)
    expected = sum((w * np.exp(1j * (k * x + m * y))).real for (k, m), w in modes.items())
    result = spectral_conv(field[None], weight, backend=backend)
    assert np.allclose(result[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_input_keeps_centred_modes_on_every_axis(backend, method):
    (x, y) = points(6, 7)
    weight = np.zeros((1, 1, 4, 3), complex)
    weight[0, 0, 0, 2], weight[0, 0, 3, 0] = 2j, 3.0  # (-2, 1) and (1, -1)
    field = np.exp(1j * (-2 * x + y)) + np.exp(1j * (x - y)) + np.exp(1j * (2 * x + y))
    expected = 2j * np.exp(1j * (-2 * x + y)) + 3 * np.exp(1j * (x - y))
    assert np.allclose(spectral_conv(field[None], weight, backend=backend)[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(15,), (16,), (15, 12), (15, 11, 9), (1,), (2, 2)])
def test_num06_all_modes_and_weight_one_return_x(shape, backend, method, rng):
    if backend == "reference" and len(shape) == 3:
        shape = (5, 4, 3)
    x = rng.standard_normal((2, 1, *shape))
    weight = np.ones((1, 1, *shape[:-1], shape[-1] // 2 + 1), complex)
    assert np.allclose(spectral_conv(x, weight, backend=backend), x, rtol=0, atol=1e-13)
    z = crand(rng, 2, 1, *shape)
    assert np.allclose(spectral_conv(z, np.ones((1, 1, *shape), complex), backend=backend), z, rtol=0, atol=1e-13)


def corner_layer(x: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """The first-generation 2-d FNO layer: one weight on rows 0 ... m-1, one on rows -m ... -1 of rfft2."""
    m, columns = positive.shape[2:]
    spectrum = np.fft.rfft2(x)
    result = np.zeros((x.shape[0], positive.shape[1], *spectrum.shape[2:]), complex)
    for rows, weight in ((slice(0, m), positive), (slice(-m, None), negative)):
        kept = spectrum[:, :, rows, :columns]
        result[:, :, rows, :columns] = np.einsum("bikl,iokl->bokl", kept, weight)
    return np.fft.irfft2(result, s=x.shape[2:])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [(16, 12, 5, 4), (15, 11, 4, 3), (12, 12, 6, 7), (8, 9, 1, 1)])
def test_num06_first_generation_layer(sizes, backend, method, rng):
    height, width, m1, m2 = sizes
    x = rng.standard_normal((2, 3, height, width))
    positive, negative = crand(rng, 3, 4, m1, m2), crand(rng, 3, 4, m1, m2)
    result = spectral_conv(x, np.concatenate([negative, positive], axis=2), backend=backend)
    assert np.allclose(result, corner_layer(x, positive, negative), rtol=0, atol=1e-12)


def test_dty02_half_precision_layer_of_any_size(rng):
    x = rng.standard_normal((2, 3, 20, 15)).astype(np.float16)
    positive, negative = 0.1 * crand(rng, 3, 3, 4, 4), 0.1 * crand(rng, 3, 3, 4, 4)
    result = spectral_conv(x, np.concatenate([negative, positive], axis=2))
    expected = corner_layer(x.astype(float), positive, negative)
    assert result.dtype == np.float16
    assert np.abs(result - expected).max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("coarse", "fine"), [((9, 8), (12, 15)), ((8, 9), (16, 9)), ((7,), (20,))])
def test_amplitudes_survive_another_resolution(coarse, fine, backend, method):
    waves = [1, 2][: len(coarse)]

    def field(sizes):
        return 0.5 + np.cos(sum(k * x for k, x in zip(waves, points(*sizes), strict=True)) + 0.3)

    weight = np.ones((1, 1, *(5,) * (len(coarse) - 1), 3), complex)
    up = spectral_conv(field(coarse)[None], weight, out_shape=fine, backend=backend)
    assert np.allclose(up[0], field(fine), rtol=0, atol=1e-13)
    down = spectral_conv(field(fine)[None], weight, out_shape=coarse, backend=backend)
    assert np.allclose(down[0], field(coarse), rtol=0, atol=1e-13)


def test_num06_top_mode_of_an_odd_cube():
    n, top = 15, 7
    x = np.broadcast_to(np.cos(top * points(n)[0])[:, None, None], (n, n, n))
    weight = np.ones((1, 1, 15, 15, 8), complex)
    fine = np.broadcast_to(np.cos(top * points(2 * n)[0])[:, None, None], (2 * n,) * 3)
    assert np.allclose(spectral_conv(x[None], weight, out_shape=(30,) * 3)[0], fine, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kept_nyquist_is_copied_as_it_is(backend, method):
    """Of 8 points, mode 4 is Nyquist and counts once; on 12 points it is interior and counts twice."""
    x = np.cos(np.pi * np.arange(8))[None]
    weight = np.ones((1, 1, 5), complex)
    fine = spectral_conv(x, weight, out_shape=12, backend=backend)
    assert np.allclose(fine[0], 2 * np.cos(4 * points(12)[0]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_imaginary_parts_that_a_real_field_lacks_are_ignored(backend, method, rng):
    x = rng.standard_normal((2, 1, 8))
    weight = np.ones((1, 1, 5), complex)
    weight[..., 0] += 7j
    weight[..., 4] -= 3j
    assert np.allclose(spectral_conv(x, weight, backend=backend), x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depthwise", [False, True])
def test_a_real_weight_is_pairs(backend, depthwise, rng):
    x, weight = rng.standard_normal((2, 3, 8)), crand(rng, *((3, 4) if depthwise else (3, 2, 4)))
    pairs = np.stack([weight.real, weight.imag], axis=-1)
    for layout in (pairs, np.asfortranarray(pairs), pairs[..., ::-1].copy()[..., ::-1]):
        result = spectral_conv(x, layout, depthwise=depthwise, backend=backend)
        expected = spectral_conv(x, weight, depthwise=depthwise, backend="reference")
        assert np.allclose(result, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_depthwise_is_a_diagonal_weight(backend, method, rng):
    x, own = rng.standard_normal((2, 3, 6, 8)), crand(rng, 3, 4, 3)
    full = np.zeros((3, 3, 4, 3), complex)
    full[range(3), range(3)] = own
    result = spectral_conv(x, own, depthwise=True, backend=backend)
    assert np.allclose(result, spectral_conv(x, full, backend=backend), rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_axes_order_is_the_order_of_the_modes(backend, method, rng):
    x, weight = rng.standard_normal((2, 5, 3, 6, 8)), crand(rng, 3, 2, 4, 3)
    result = spectral_conv(x, weight, axes=(-1, -2), out_shape=(10, 7), backend=backend)
    swapped = spectral_conv(np.swapaxes(x, -1, -2).copy(), weight, out_shape=(10, 7), backend=backend)
    assert result.shape == (2, 5, 2, 7, 10)
    assert np.allclose(result, np.swapaxes(swapped, -1, -2), rtol=0, atol=1e-13)


def test_channels_without_batch_and_several_batch_axes(rng):
    x, weight = rng.standard_normal((2, 3, 4, 8)), crand(rng, 4, 5, 3)
    whole = spectral_conv(x, weight)
    assert whole.shape == (2, 3, 5, 8)
    assert np.allclose(whole[1, 2], spectral_conv(x[1, 2], weight), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("int32", "float64"), ("float32", "float32"), ("complex64", "complex64")]
)
def test_result_dtype_follows_x(dtype, expected, rng):
    x = np.ones((1, 2, 8), dtype)
    assert spectral_conv(x, crand(rng, 2, 2, 3)).dtype == expected
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


# ------------------------------------------------------------------ methods, blocks, threads, NaN


@pytest.mark.parametrize(
    ("n", "modes", "half", "expected"),
    [
        (128, 28, True, "gemm"),
        (128, 29, True, "fft"),
        (128, 56, False, "gemm"),
        (128, 57, False, "fft"),
        (1, 1, True, "gemm"),
        (2, 2, True, "gemm"),
    ],
)
def test_cost_model_of_scipy(n, modes, half, expected):
    """A product with the Fourier matrix up to 4 log2(n) modes of a half axis and 8 log2(n) of a full one."""
    assert by_scipy.methods((n,), (modes,), half) == (expected,)
    if not half:
        assert by_scipy.methods((n, 4), (modes, 3), True) == (expected, "gemm")


@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_long_matrix_products_keep_single_precision(kind, method, rng):
    """The angle is reduced in integers: 1e-6 at 4096 points, where cos(2 pi k n) itself would lose three digits."""
    x, weight = rng.standard_normal((1, 1, 4096)).astype(kind), crand(rng, 1, 1, 47)
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
    x, weight = rng.standard_normal((3, 4, 6, 8)), crand(rng, *((4, 4, 3) if depthwise else (4, 5, 4, 3)))
    expected = spectral_conv(x, weight, depthwise=depthwise, backend="numpy")
    result = spectral_conv(x, weight, depthwise=depthwise, workers=workers)
    assert np.allclose(result, expected, rtol=0, atol=1e-13)


def test_thr01_many_threads_share_a_plan(method, rng):
    x, weight = rng.standard_normal((16, 3, 12, 10)), crand(rng, 3, 3, 4, 4)
    plan = plan_spectral_conv(x.shape[1:], x.dtype, weight)
    by_scipy.clear_matrices()
    with ThreadPoolExecutor(8) as pool:
        results = np.stack(list(pool.map(lambda entry: plan(entry, weight), x)))
    assert np.allclose(results, spectral_conv(x, weight, backend="numpy"), rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_stays_in_its_batch_entry(backend, method, rng):
    x, weight = rng.standard_normal((5, 3, 8, 6)).astype(np.float32), crand(rng, 3, 4, 3, 2)
    clean = spectral_conv(x, weight, backend=backend)
    x[3, 1, 2, 2] = np.nan
    result = spectral_conv(x, weight, backend=backend)
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


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("sizes", "targets", "modes"), GRIDS)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_adjoint(backend, depthwise, sizes, targets, modes, kind, method, rng):
    """<A x, y> = <x, A* y>, also where one grid's Nyquist is an interior mode of the other."""
    make = crand if kind == "complex128" else lambda rng, *shape: rng.standard_normal(shape)
    channels = (3,) if depthwise else (3, 2)
    weight = crand(rng, *channels, *modes)
    plan = plan_spectral_conv((2, 3, *sizes), kind, weight, depthwise=depthwise, out_shape=targets, backend=backend)
    x, y = make(rng, *plan.in_shape), make(rng, *plan.out_shape)
    adjoint = plan.adjoint()
    left, right = np.vdot(plan(x, weight), y), np.vdot(x, adjoint(y, weight))
    assert abs(left - right) < 1e-12 * np.linalg.norm(x) * np.linalg.norm(y)
    assert adjoint.adjoint() == plan


def test_adjoint_swaps_what_belongs_to_the_grids():
    weight = ArraySpec((3, 2, 4, 60), "complex64")
    plan = plan_spectral_conv((5, 3, 8, 1024), "float16", weight, out_shape=(6, 128))
    adjoint = plan.adjoint()
    assert (adjoint.in_shape, adjoint.out_shape) == ((5, 2, 6, 128), (5, 3, 8, 1024))
    assert adjoint.operands[0].spec == ArraySpec((5, 2, 6, 128), "float16")
    assert adjoint.operands[0].compute == "float32"
    assert (adjoint.channels, adjoint.batch) == ((2, 3), 5)
    assert adjoint.scale == plan.scale == 1 / (8 * 1024)


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [(8, 8, None), (8, 10, [1, 1, 1, 1, 2]), (10, 8, [1, 1, 1, 1, 0.5]), (9, 11, None)],
)
def test_adjoint_reweighs_a_nyquist_that_is_interior_elsewhere(n, m, expected):
    """The adjoint of n -> m points reads from m and writes to n."""
    plan = plan_spectral_conv((1, n), "float64", ArraySpec((1, 1, 5), "complex128"), out_shape=m)
    assert plan.bin_weights() is None
    bins = plan.adjoint().bin_weights()
    assert (bins if bins is None else bins.tolist()) == expected


def test_complex_adjoint_reweighs_nothing():
    plan = plan_spectral_conv((1, 8), "complex128", ArraySpec((1, 1, 5), "complex128"), out_shape=10)
    assert plan.adjoint().bin_weights() is None


# ------------------------------------------------------------------ plans


def test_plan():
    plan = plan_spectral_conv((5, 3, 8, 6), "float32", ArraySpec((3, 4, 4, 3), "complex128"), out_shape=(9, 5))
    assert plan.op == "spectral_conv"
    assert plan.backend == "cpu"
    assert (plan.in_shape, plan.out_shape) == ((5, 3, 8, 6), (5, 4, 9, 5))
    assert (plan.out_dtype, plan.compute_dtype) == ("float32", "float32")
    assert [(o.name, o.compute) for o in plan.operands] == [("x", "float32"), ("weight", "complex64")]
    assert (plan.axes, plan.modes, plan.lowest) == ((2, 3), (4, 3), (-2, 0))
    assert (plan.in_sizes, plan.out_sizes, plan.channels, plan.batch) == ((8, 6), (9, 5), (3, 4), 5)
    assert (plan.halved, plan.depthwise, plan.transposed) == (True, False, False)
    assert plan.halo == ()
    assert plan.in_place is False
    assert plan.scale == 1 / 48
    assert plan.bytes_moved == 4 * (5 * 3 * 48 + 5 * 4 * 45) + 16 * 144
    forward, inverse = round(2.5 * 48 * np.log2(48)), round(2.5 * 45 * np.log2(45))
    assert plan.flops == 5 * (3 * forward + 4 * inverse + 8 * 12 * 12)
    assert plan.index_bits == 32
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan is plan_spectral_conv((5, 3, 8, 6), "float32", ArraySpec((3, 4, 4, 3), "complex128"), out_shape=(9, 5))


def test_plan_of_a_depthwise_complex_convolution():
    plan = plan_spectral_conv((2, 3, 8), "complex64", ArraySpec((3, 5, 2), "int8"), depthwise=True)
    assert (plan.modes, plan.lowest, plan.halved, plan.depthwise) == ((5,), (-2,), False, True)
    assert plan.operands[1].compute == "float32"
    assert plan.flops == 2 * (3 * 120 + 3 * 120 + 8 * 3 * 5)
    assert plan.bytes_moved == 2 * 8 * 48 + 30


def test_offsets():
    n = np.int32(2**15)
    small = ArraySpec((1, 1, 2, 2), "complex64")
    assert plan_spectral_conv((1, n, n), "float32", small).index_bits == 32
    assert plan_spectral_conv((2, 1, n, n), "float32", small).index_bits == 64
    wide = ArraySpec((2**14, 2**14, 4), "complex64")
    assert plan_spectral_conv((2**14, 8), "float32", wide).index_bits == 64
    assert plan_spectral_conv((1, 8, 8), "float32", small, out_shape=(n, n)).index_bits == 32
    assert plan_spectral_conv((2, 1, 8, 8), "float32", small, out_shape=(n, n)).index_bits == 64


SOME = ArraySpec((3, 4, 16, 100), "complex128")


def test_explain_says_what_runs():
    plan = plan_spectral_conv((5, 3, 64, 256), "float32", SOME, out_shape=(32, 200))
    assert plan.explain().splitlines() == [
        "spectral_conv: float32 (5, 3, 64, 256) -> (5, 4, 32, 200) on backend 'cpu', arithmetic in float32",
        "  transforms: real, size 64 x 256 to 32 x 200, along axes (2, 3), keeping 16 x 100 wavenumbers from (-8, 0)",
        "  mixing: 3 channels to 4; weight complex128 (3, 4, 16, 100), cast to complex64 at each call",
        "  runs: vector engine, compiled by numba on first use: transforms of kept modes only, forward by product, fft "
        "and inverse by product, fft along the axes (product: folded Fourier matrix, where few modes are kept; fft: "
        "all, of which the kept ones are written), image by image in cache, one product per mode over the channels "
        "with modes in the lanes; images and tiles of channels shared among workers",
        f"  moves at least {plan.bytes_moved} bytes, {plan.flops} operations, 32-bit offsets",
    ]


def test_explain_says_why_the_engine_does_not_run(monkeypatch):
    four = plan_spectral_conv((1, 3, 3, 3, 3), "float32", ArraySpec((1, 1, 2, 2, 2, 2), "complex64"))
    assert "runs: SciPy and BLAS (the vector engine takes 1 to 3 axes, not 4): transforms" in four.explain()
    rough = plan_spectral_conv((1, 16, 4099), "float32", ArraySpec((1, 1, 4, 65), "complex64"), out_shape=(16, 128))
    for plan in (rough, rough.adjoint()):
        assert "(length 4099 has prime factors above 7 and is too long for the vector engine to tr" in plan.explain()
    few = plan_spectral_conv((1, 16, 4099), "float32", ArraySpec((1, 1, 4, 64), "complex64"))
    assert "runs: vector engine" in few.explain()
    assert (
        "runs: vector engine" in plan_spectral_conv((4, 5000), "float64", ArraySpec((4, 1, 65), "complex64")).explain()
    )
    for shape, out_shape, runs in [
        ((3, 1, 4096), None, False),
        ((1, 1, 64), 4096, False),
        ((4, 1, 4096), None, True),
        ((3, 1, 4095), None, True),
    ]:
        plan = plan_spectral_conv(shape, "float32", ArraySpec((1, 1, 9), "complex64"), out_shape=out_shape)
        assert ("long rows would leave most lanes of the vector engine idle" not in plan.explain()) is runs
    pair = plan_spectral_conv((1, 4096), "float32", ArraySpec((1, 3, 9), "complex64"))
    assert "(3 long rows would leave most lanes" in pair.explain()
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    plan = plan_spectral_conv((5, 3, 64, 256), "float32", SOME, out_shape=(32, 200))
    assert (
        "  runs: SciPy and BLAS (SPECTRALOPS_NUMBA=0 switches compiled kernels off): transforms of kept modes only, "
        "forward by gemm, fft and inverse by gemm, fft along the axes (gemm: matrix product, where few modes are kept; "
        "fft: scipy.fft), one product per mode over the channels; BLAS uses threads of its own"
    ) in plan.explain()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "numpy"}, "runs: scipy.fft over the whole array: forward, cut, einsum, pad, inverse"),
        ({"backend": "reference"}, "runs: dense matrices"),
        ({"device": "cuda", "backend": "cupy"}, "runs: cupyx.scipy.fft over the whole array"),
        ({}, "transforms: complex, size 8 to 8, along axes (1,), keeping 4 wavenumbers from (-2,)"),
        ({}, "mixing: 3 channels, one weight each; weight complex64 (3, 4)\n"),
    ],
)
def test_explain_names_the_choices(options, words):
    plan = plan_spectral_conv((3, 8), "complex64", ArraySpec((3, 4), "complex64"), depthwise=True, **options)
    assert words in plan.explain()
    assert plan.adjoint().explain().startswith("spectral_conv (adjoint): complex64")


# ------------------------------------------------------------------ errors


def convolved(shape=(2, 3, 8, 8), weight=(3, 4, 4, 4), dtype="float64", kind=complex, **options):
    return spectral_conv(np.ones(shape, dtype), np.ones(weight, kind), **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: spectral_conv("x", np.ones((1, 1, 1), complex)),
            TypeError,
            "spectral_conv: x is a str, but must be an a",
        ),
        (
            lambda: spectral_conv(np.ones((1, 4)), 2j),
            TypeError,
            "weight is a complex, but must be an array with at least",
        ),
        (lambda: convolved(weight=(3, 4, 4, 4), kind="O"), TypeError, "weight has dtype object, but must be"),
        (
            lambda: convolved(weight=(4, 5, 4, 4)),
            ValueError,
            r"x of shape \(2, 3, 8, 8\) has 3 channels on axis 1, but must have 4 as weight of shape \(4, 5, 4, 4\)",
        ),
        (
            lambda: convolved((2, 6, 32), (1, 7, 17), depthwise=True, axes=-1),
            ValueError,
            "weight's modes has 2 entries, but must have 1, one per axis",
        ),
        (
            lambda: convolved((2, 6, 32), (7, 17), depthwise=True),
            ValueError,
            "has 6 channels on axis 1, but must have 7 as weight",
        ),
        (
            lambda: convolved(weight=(3, 4, 4, 4), kind=float),
            ValueError,
            r"weight has dtype float64 and shape \(3, 4, 4, 4\), but a real weight must end with an axis of length 2",
        ),
        (
            lambda: convolved(weight=(3, 4)),
            ValueError,
            r"weight has shape \(3, 4\), but must have the layout \(channels in, channels out, modes...\)",
        ),
        (
            lambda: convolved(weight=(3, 2), kind=float, depthwise=True),
            ValueError,
            r"weight has shape \(3, 2\), but must have the layout \(channels, modes...\)",
        ),
        (
            lambda: convolved(weight=(3, 4, 0, 4)),
            ValueError,
            r"weight has shape \(3, 4, 0, 4\), but must keep 1 wavenumber",
        ),
        (
            lambda: convolved(weight=(3, 4, 9, 4)),
            ValueError,
            r"weight keeps 9 wavenumbers along axis 2, but must keep at most 8 \(8 points in, 8 out\); crop the weight",
        ),
        (
            lambda: convolved(weight=(3, 4, 4, 6)),
            ValueError,
            r"keeps 6 wavenumbers along axis 3, but must keep at most 5 \(half of 8 points in, 8 out\)",
        ),
        (lambda: convolved(out_shape=(3, 8)), ValueError, r"keep at most 3 \(8 points in, 3 out\)"),
        (lambda: convolved(out_shape=(8, 4)), ValueError, r"keep at most 3 \(half of 8 points in, 4 out\)"),
        (lambda: convolved(weight=(3, 4, 4, 9), dtype=complex), ValueError, r"keep at most 8 \(8 points in, 8 out\)"),
        (
            lambda: convolved(out_shape=(8, 0)),
            ValueError,
            r"out_shape is \(8, 0\), but must be 1 or more along each axis",
        ),
        (lambda: convolved(out_shape=(8, -1)), ValueError, r"out_shape is \(8, -1\), but must not be negative"),
        (lambda: convolved(out_shape=(8, 8.5)), TypeError, r"out_shape is \(8, 8.5\), but must be integers"),
        (
            lambda: convolved(out_shape=(8, 8, 8)),
            ValueError,
            "weight's modes has 2 entries and out_shape has 3, but both",
        ),
        (
            lambda: convolved(axes=(1, 2)),
            ValueError,
            r"axes is \(1, 2\), but must name the last 2 of x, with the channel",
        ),
        (
            lambda: convolved((8, 8)),
            ValueError,
            r"x has shape \(8, 8\), but must have a channel axis before its 2 transformed axes; add one",
        ),
        (lambda: convolved((8,)), ValueError, "x has 1 dimensions, but must have at least 2 to match weight's modes"),
        (lambda: convolved((2, 3, 0, 8)), ValueError, "with length 0 along axis 2, but must have length 1 or more"),
        (lambda: convolved(depthwise="yes"), TypeError, "depthwise is 'yes', but must be True or False"),
        (lambda: convolved(backend="cupy"), TypeError, "backend is 'cupy', which runs on cuda arrays"),
        (lambda: convolved(out=np.ones((2, 3, 8, 8))), ValueError, r"out has shape \(2, 3, 8, 8\)"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_out_shape_forms(rng):
    x, weight = rng.standard_normal((1, 8, 8)), crand(rng, 1, 1, 3, 3)
    expected = spectral_conv(x, weight, out_shape=(6, 6))
    for sizes in (6, np.int32(6), [6, 6], np.array([6, 6])):
        assert np.array_equal(spectral_conv(x, weight, out_shape=sizes), expected)


@pytest.mark.parametrize(
    ("grid", "target", "modes"),
    [((63,), (7,), (3,)), ((61,), (1,), (1,)), ((64,), (16,), (4,)), ((12, 20), (6, 7), (4, 3))],
    ids=str,
)
def test_nothing_is_left_of_an_earlier_call(grid, target, modes, rng) -> None:
    """A NaN of one call must not come back in the next one's result by way of memory that both use."""
    x = rng.standard_normal((4, 5, *grid)).astype(np.float32)
    weight = (rng.standard_normal((5, 2, *modes)) + 1j).astype(np.complex64)
    spectral_conv(np.full((8, 8, 2048), np.nan, np.float32), np.full((8, 8, 200), np.nan, np.complex64))
    y = spectral_conv(x, weight, out_shape=target)
    expected = spectral_conv(x, weight, out_shape=target, backend="reference")
    np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
