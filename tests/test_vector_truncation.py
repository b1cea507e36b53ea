"""The vector engine's truncated transforms and products over channels, each way forced, against dense sums."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from spectralops import plan_spectral_conv, spectral_conv, spectral_conv_weight_gradient
from spectralops._cpu.vector import channels, fourier_matrices, host, tables, truncation, workspace
from spectralops._cpu.vector import truncation_fields as f
from spectralops._cpu.vector import truncation_steps as steps
from spectralops._cpu.vector.truncation import Grid

EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}


def forget() -> None:
    truncation.stage.cache_clear()
    channels._convolution.cache_clear()
    channels._gradient.cache_clear()


@pytest.fixture
def garbage(monkeypatch: pytest.MonkeyPatch):
    """Fresh memory full of NaN."""

    def poisoned(size: int) -> workspace.Buffer:
        owner = np.full(size + 64, 0xFF, np.uint8)  # NaN in every precision
        return workspace.Buffer(workspace.padded(owner.ctypes.data), size, owner)

    monkeypatch.setattr(workspace, "take", poisoned)
    monkeypatch.setattr(workspace, "give_back", lambda buffer: None)
    forget()
    yield
    forget()


@pytest.fixture(params=["product", "fft"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, garbage: None) -> str:
    """All axes transformed in one way, whatever the cost model says."""
    monkeypatch.setattr(truncation, "ways", lambda of: (request.param,) * len(of.sizes))
    return request.param


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else real).astype(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(complex if np.iscomplexobj(x) else float)


def close(result: np.ndarray, expected: np.ndarray, dtype: str) -> bool:
    return bool(np.linalg.norm(result - expected) <= 8 * EPS[dtype] * np.linalg.norm(expected))


SHAPES = [
    ((1,), (1,), (1,)),
    ((2,), (2,), (2,)),
    ((3,), (3,), (2,)),
    ((15,), (15,), (8,)),
    ((16,), (16,), (9,)),
    ((33,), (33,), (17,)),
    ((34,), (34,), (18,)),
    ((38,), (38,), (7,)),
    ((64,), (48,), (25,)),
    ((129,), (130,), (3,)),
    ((144,), (144,), (73,)),
    # the last stage left out, of every radix: each block with a mode, with two, with none
    ((16,), (48,), (1,)),
    ((64,), (80,), (4,)),
    ((200,), (100,), (8,)),
    ((24,), (40,), (3,)),
    ((2, 64), (2, 72), (2, 3)),
    ((2, 6), (2, 6), (2, 4)),
    ((1, 9), (4, 7), (1, 4)),
    ((3, 34), (4, 40), (3, 18)),
    ((5, 25), (5, 25), (5, 13)),
    ((6, 12), (10, 12), (6, 7)),
    ((7, 17), (7, 17), (4, 9)),
    ((8, 40), (6, 56), (5, 21)),
    ((22, 9), (22, 9), (22, 5)),
    ((36, 70), (36, 70), (9, 11)),
    ((4, 6, 10), (4, 6, 10), (4, 5, 6)),
    ((5, 3, 18), (7, 3, 18), (4, 3, 10)),
    ((6, 9, 7), (6, 9, 7), (6, 9, 4)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("sizes", "targets", "modes"), SHAPES, ids=str)
def test_every_way_agrees_with_dense_sums(sizes, targets, modes, dtype, way, rng):
    """Forward and adjoint, on memory full of NaN: nothing that was not written is ever read into a result."""
    x = values(rng, (2, 3, *sizes), dtype)
    weight = values(rng, (3, 2, *modes), "complex128").astype("complex64" if dtype[-2:] in ("32", "64") else complex)
    if dtype == "float64":
        weight = weight.astype(complex)
    plan = plan_spectral_conv(x.shape, dtype, weight, out_shape=targets)
    exact = plan_spectral_conv(x.shape, wide(x).dtype, weight.astype(complex), out_shape=targets, backend="reference")
    assert close(plan(x, weight), exact(wide(x), weight.astype(complex)), dtype)
    y = values(rng, plan.out_shape, dtype)
    assert close(plan.adjoint()(y, weight), exact.adjoint()(wide(y), weight.astype(complex)), dtype)


@pytest.mark.parametrize(
    ("n", "modes", "radix"),
    [(500, 16, 5), (500, 100, 5), (500, 101, 4), (500, 126, 0), (8, 1, 8), (8, 2, 0), (63, 2, 0)],
)
def test_a_last_stage_is_left_out_where_its_blocks_are_enough(n, modes, radix):
    """At least as many as modes, and of a radix that is worth it."""
    assert tables.last_radix(n, modes) == radix


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.parametrize(("sizes", "targets", "modes"), [((15,), (12,), (5,)), ((9, 12), (8, 14), (3, 5))], ids=str)
@pytest.mark.parametrize("first", ["product", "fft"])
def test_grids_may_be_transformed_in_different_ways(first, sizes, targets, modes, dtype, rng, monkeypatch, garbage):
    """What one way leaves unwritten, the other one must not read."""
    second = {"product": "fft", "fft": "product"}[first]
    monkeypatch.setattr(truncation, "ways", lambda of: (first if of.sizes == sizes else second,) * len(of.sizes))
    x, weight = values(rng, (2, 3, *sizes), dtype), values(rng, (3, 2, *modes), "complex128")
    result = spectral_conv(x, weight, out_shape=targets)
    assert close(result, spectral_conv(wide(x), weight, out_shape=targets, backend="reference"), dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("shape", [(1, 5), (3, 7), (5, 13), (2, 14), (0, 3)], ids=str)
def test_weight_gradient_of_any_number_of_channels(shape, depthwise, dtype, way, rng):
    batch, count = shape
    x = values(rng, (batch, count, 10, 12), dtype)
    gradient = values(rng, (batch, count if depthwise else count + 4, 10, 14), dtype)
    result = spectral_conv_weight_gradient(x, gradient, (5, 6), depthwise=depthwise)
    expected = spectral_conv_weight_gradient(wide(x), wide(gradient), (5, 6), depthwise=depthwise, backend="reference")
    assert close(result, expected, dtype)


@pytest.mark.parametrize("counts", [(1, 1), (2, 6), (3, 7), (1, 13), (17, 5)], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_mixing_of_any_number_of_channels(counts, batch, rng):
    """Tiles of all sizes, and more modes than one group of blocks holds."""
    read, written = counts
    x, weight = values(rng, (batch, read, 300), "float64"), values(rng, (read, written, 141), "complex128")
    expected = spectral_conv(x, weight, backend="numpy")
    assert close(spectral_conv(x, weight), expected, "float64")
    plan = plan_spectral_conv(x.shape, "float64", weight)
    exact = plan_spectral_conv(x.shape, "float64", weight, backend="numpy")
    y = values(rng, plan.out_shape, "float64")
    assert close(plan.adjoint()(y, weight), exact.adjoint()(y, weight), "float64")


def test_many_terms_need_several_groups_of_blocks(rng):
    x, weight = values(rng, (2, 90, 200), "float64"), values(rng, (90, 2, 101), "complex128")
    layer_group = channels._shared(
        channels.Layer((200,), (200,), (101,), (0,), True, "float64", 2, (90, 2), False, (1.0,)), 90
    )[0]
    assert 1 <= layer_group[channels.f.GROUP] < -(-101 // host.lanes("float64"))
    assert close(spectral_conv(x, weight), spectral_conv(x, weight, backend="numpy"), "float64")


def weights_of_any_layout(rng: np.random.Generator) -> list[np.ndarray]:
    weight = values(rng, (3, 4, 5, 6), "complex128")
    swapped = np.ascontiguousarray(weight.swapaxes(0, 1)).swapaxes(0, 1)
    wide_ = np.zeros((3, 4, 5, 12), complex)
    wide_[..., ::2] = weight
    shifted = np.zeros(weight.nbytes + 4, np.uint8)[4:].view(complex).reshape(weight.shape)
    shifted[...] = weight
    return [weight, swapped, np.asfortranarray(weight), wide_[..., ::2], weight[::-1, ::-1].copy()[::-1, ::-1], shifted]


@pytest.mark.parametrize("layout", range(6))
def test_weights_of_any_layout(layout, rng):
    weights = weights_of_any_layout(rng)
    x = values(rng, (2, 3, 10, 12), "float64")
    expected = spectral_conv(x, weights[0], backend="numpy")
    assert close(spectral_conv(x, weights[layout]), expected, "float64")
    pairs = np.stack([weights[layout].real, weights[layout].imag], axis=-1)
    for view in (pairs, np.asfortranarray(pairs), np.stack([pairs, pairs], axis=-2)[..., 0, :]):
        assert close(spectral_conv(x, view), expected, "float64")


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_threads_change_no_bit(dtype, depthwise, rng):
    x = values(rng, (3, 7, 12, 20), dtype)
    weight = values(rng, (7, 5, 9) if depthwise else (7, 6, 5, 9), "complex128")
    plan = plan_spectral_conv(x.shape, dtype, weight, depthwise=depthwise)
    y = values(rng, plan.out_shape, dtype)
    one = [plan(x, weight), plan.adjoint()(y, weight), spectral_conv_weight_gradient(x, y, (5, 9), depthwise=depthwise)]
    for workers in (2, 3, 8, -1):
        several = [
            plan(x, weight, workers=workers),
            plan.adjoint()(y, weight, workers=workers),
            spectral_conv_weight_gradient(x, y, (5, 9), depthwise=depthwise, workers=workers),
        ]
        assert all(np.array_equal(a, b) for a, b in zip(one, several, strict=True))


def test_nan_of_one_entry_spoils_no_bit_of_the_others(way, rng):
    x, weight = values(rng, (40, 1, 18), "float32"), values(rng, (1, 2, 4), "complex64")
    clean = spectral_conv(x, weight)
    x[17, 0, 3] = np.inf
    x[18, 0, 3] = np.nan
    result = spectral_conv(x, weight)
    others = [i for i in range(40) if i not in (17, 18)]
    assert np.array_equal(result[others], clean[others])
    assert np.isnan(result[18]).all()
    assert not np.isfinite(result[17]).any()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14])
def test_folded_rows_are_as_many_as_points(n):
    """Folding exchanges numbers for as many others."""
    assert sum(fourier_matrices.folded_rows(n)) == n


@pytest.mark.parametrize("n", [6, 8, 9])
def test_waves_are_exact_where_they_can_be(n):
    k = np.arange(n)
    cosine, sine = fourier_matrices.waves(k, k, n)
    exact = np.exp(2j * np.pi * np.outer(k, k) / n)
    assert np.allclose(cosine, exact.real, rtol=0, atol=1e-15 * n)
    assert np.allclose(sine, exact.imag, rtol=0, atol=1e-15 * n)
    turns = np.outer(k, k) % n
    assert not sine[2 * turns % n == 0].any()
    assert not cosine[4 * turns == n].any()


@pytest.mark.parametrize(
    ("sizes", "modes", "halved", "expected"),
    [
        ((64,), (4,), True, ("product",)),
        ((1024,), (64,), True, ("fft",)),
        ((1021,), (64,), True, ("product",)),
        ((1021,), (511,), True, ("fft",)),
        ((5003,), (500,), True, ("product",)),
        ((1024, 1024), (8, 8), True, ("product", "product")),
        ((1024, 1024), (256, 8), True, ("fft", "product")),
        ((225, 64), (113, 4), True, ("fft", "product")),
        ((64,), (2,), False, ("product",)),
        ((64,), (32,), False, ("fft",)),
        ((1, 1), (1, 1), True, ("product", "product")),
    ],
    ids=str,
)
def test_cost_model(sizes, modes, halved, expected):
    lowest = tuple(-(m // 2) for m in modes)
    of = Grid(sizes, modes, (*lowest[:-1], 0) if halved else lowest, halved, "float32")
    assert truncation.ways(of) == expected


def test_blocks_lie_an_odd_number_of_images_apart():
    of = Grid((64,), (20,), (0,), True, "float64")
    lanes = host.lanes("float64")
    assert of.imag == -(-20 // lanes) * lanes
    assert of.blocks == of.imag // lanes
    assert [of.block_step(images) for images in (1, 2, 5, 64)] == [2 * lanes * odd for odd in (1, 3, 5, 65)]


def test_large_images_are_fetched_strip_by_strip_and_small_ones_whole():
    small, large = (Grid((n, n), (4, 4), (-2, 0), True, "float32") for n in (128, 512))
    assert steps._ahead(small, 0, 32) == 128 * 128
    assert steps._ahead(large, 0, 32) == 32
    assert steps._ahead(large, 1, 32) == 0


def test_workspaces_are_given_back(rng):
    workspace.clear()
    x, weight = values(rng, (4, 8, 16, 16), "float32"), values(rng, (8, 8, 5, 5), "complex64")
    for _ in range(3):
        spectral_conv(x, weight, workers=2)
    assert 0 < sum(buffer.size for buffer in workspace._kept) < 2**20
    workspace.clear()


def test_a_second_process_compiles_nothing():
    """Kernels come from the cache on disk; the modules that write them stay unloaded."""
    code = (
        "import sys, numpy as np, spectralops as so; x = np.ones((2, 3, 8, 8), 'float32'); "
        "w = np.ones((3, 2, 3, 3), 'complex64'); y = so.spectral_conv(x, w); "
        "so.spectral_conv_weight_gradient(x, y, (3, 3)); print('spectralops._cpu.vector.loops' in sys.modules)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[1].stdout.strip() == "False"


@pytest.mark.parametrize(
    ("shape", "modes"),
    [((2, 3, 8192), (4,)), ((1, 3, 8192, 8), (8, 4)), ((2, 3, 2047), (3,)), ((1, 2, 4098, 5), (4, 2))],
)
def test_rounding_does_not_grow_with_long_sums(rng, shape, modes, garbage):
    """Sums over thousands of points are done in parts; in one go, the error of the first is 1.2e-6."""
    axes = tuple(range(-len(modes), 0))
    x, weight = values(rng, shape, "float32"), values(rng, (shape[1], 2, *modes), "complex64")
    result = spectral_conv(x, weight, axes=axes)
    expected = spectral_conv(x.astype(float), weight.astype(complex), axes=axes, backend="numpy")
    assert np.linalg.norm(result - expected) < 7e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize(("n", "beside"), [(1000, 0), (8192, 1)])
def test_only_long_sums_take_more_scratch(n, beside):
    grid = Grid((n,), (4,), (0,), True, "float32")
    at = steps.Rows(1, n, 16, 8)
    kept, spread = (steps.product_rows(grid, at, inverse) for inverse in (False, True))
    chunk, width = int(kept.record[f.CHUNK]), fourier_matrices.padded(4, host.lanes("float32"))
    assert kept.scratch == chunk * int(kept.record[f.PITCH]) + beside * chunk * width
    assert spread.scratch == chunk * int(kept.record[f.PITCH]) == int(kept.record[f.BESIDE])
