"""The convolution kernels of the vector engine, asked directly: every kind of sum, window and tile, memory, threads."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kernels_as_python import run_as_python
from scipy import signal
from support import random_array
from vector_filters import poison_scratch

from spectralops._cpu.vector import convolution, prepared, sum_fields, window_jobs
from spectralops._cpu.vector.convolution import Extent, filter_channels, filter_windows, sum_channels, sum_windows
from spectralops._cpu.vector.sum_jobs import Geometry, sum_job
from spectralops._cpu.vector.window_jobs import LineWindows, Windows, axis_table

EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}


def close(result, expected, factor=8.0):
    """Relative L2 error in units of eps."""
    assert result.shape == expected.shape
    assert np.isfinite(result).all()
    error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
    assert error <= factor * EPS[result.dtype.name], error


def dense(x, weight, start, stride, dilation, results):
    """The correlation as a sum over taps, in 64 bit: zeros beyond the image, `start` where the first tap begins."""
    wide = np.complex128 if "c" in (x.dtype.kind, weight.dtype.kind) else np.float64
    reach = [abs(s) + t * n + d * k for s, t, n, d, k in zip(start, stride, results, dilation, weight.shape[-2:],
             strict=True)]  # fmt: skip
    padded = np.pad(x.astype(wide), [(0, 0)] * 3 + [(r, r) for r in reach])
    out = np.zeros((*x.shape[:2], weight.shape[1], *results), wide)
    for i in range(weight.shape[-2]):
        for j in range(weight.shape[-1]):
            rows, columns = (
                reach[a] + start[a] + dilation[a] * k + stride[a] * np.arange(results[a]) for a, k in ((0, i), (1, j))
            )
            part = padded[..., rows[:, None], columns]
            out += np.einsum("ngcyx,goc->ngoyx", part, weight[..., i, j].astype(wide))
    return out


# Images, groups, inputs, outputs; image, kernel; stride, dilation, first element; lengths of transforms.
LAYERS = [
    ((2, 1, 3, 6), (9, 10), (3, 3), (1, 1), (1, 1), (-1, -1), (16, 16)),
    ((2, 2, 16, 12), (37, 41), (5, 4), (1, 1), (1, 1), (0, -3), (20, 24)),
    ((2, 1, 3, 5), (37, 41), (3, 4), (2, 3), (1, 1), (-1, -2), (16, 16)),
    ((1, 1, 5, 3), (37, 41), (3, 4), (1, 2), (3, 2), (-6, -8), (16, 32)),
    ((1, 1, 5, 3), (37, 41), (3, 4), (1, 2), (3, 2), (-6, -8), (60, 64)),
    ((2, 4, 1, 1), (30, 31), (5, 5), (1, 1), (1, 1), (-2, -2), (16, 16)),
    ((2, 4, 1, 2), (30, 31), (5, 5), (2, 1), (1, 1), (-2, -2), (16, 16)),
    ((2, 4, 1, 1), (30, 31), (5, 5), (2, 3), (2, 2), (-2, -2), (24, 24)),
    ((2, 4, 1, 1), (30, 31), (5, 5), (1, 1), (3, 1), (-6, -2), (32, 24)),
    ((2, 3, 2, 1), (30, 31), (5, 5), (1, 1), (1, 1), (-2, -2), (40, 40)),
    ((1, 1, 20, 33), (30, 31), (5, 5), (1, 1), (1, 1), (-2, -2), (16, 16)),
    ((1, 2, 1, 5), (30, 31), (5, 5), (1, 1), (1, 2), (-2, -9), (16, 24)),
    ((3, 1, 4, 6), (20, 20), (3, 3), (1, 1), (1, 1), (2, 3), (16, 16)),
    ((1, 1, 2, 3), (20, 25), (2, 2), (1, 1), (1, 1), (-3, -4), (32, 40)),
    ((1, 1, 2, 3), (3, 70), (1, 7), (1, 1), (1, 1), (0, -3), (4, 24)),
    ((1, 2, 1, 1), (70, 30), (3, 3), (1, 1), (15, 4), (-15, -4), (64, 24)),
    ((1, 1, 40, 3), (20, 300), (3, 7), (1, 2), (1, 1), (-1, -3), (16, 64)),
]
DTYPES = [("float32", "float32"), ("float64", "float64"), ("complex64", "complex64"), ("float64", "complex128"),
          ("complex128", "float64")]  # fmt: skip


def results_of(image, kernel, stride, dilation, start):
    """As many as a symmetric padding (or cropping) gives."""
    sizes = zip(image, kernel, stride, dilation, start, strict=True)
    return tuple((n - 2 * first - d * (k - 1) - 1) // s + 1 for n, k, s, d, first in sizes)


@pytest.mark.parametrize(("x_dtype", "weight_dtype"), DTYPES)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_layers(rng, layer, x_dtype, weight_dtype):
    (images, groups, inputs, outputs), image, kernel, stride, dilation, start, lengths = layer
    x = random_array(rng, (images, groups, inputs, *image), x_dtype)
    weight = random_array(rng, (groups, outputs, inputs, *kernel), weight_dtype)
    results = results_of(image, kernel, stride, dilation, start)
    expected = dense(x, weight, start, stride, dilation, results)
    out = np.full(expected.shape, np.nan, np.result_type(x, weight))
    sum_channels(x, weight, out, start, stride, dilation, 1)
    close(out, expected)
    extents = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    taps = np.zeros((*weight.shape[:3], *extents), weight.dtype)
    taps[..., :: dilation[0], :: dilation[1]] = weight
    first = tuple(k - 1 + s for k, s in zip(taps.shape[-2:], start, strict=True))
    long = all(n >= m + k + abs(s) for n, m, k, s in zip(lengths, image, taps.shape[-2:], start, strict=True))
    out[...] = np.nan
    extent = Extent(image, taps.shape[-2:], first, stride, results, lengths, long)
    filter_channels(x, taps[..., ::-1, ::-1], out, extent, 2)
    close(out, expected)


ARRAYS = [
    ((37,), (5,), (40,)),
    ((500,), (31,), (64,)),
    ((9000,), (100,), (512,)),
    ((9001,), (100,), (125,)),
    ((20000,), (300,), (10000,)),
    ((13, 11), (3, 5), (16, 16)),
    ((61, 47), (5, 4), (16, 20)),
    ((61, 47), (5, 4), (66, 56)),
    ((61, 47), (5, 4), (65, 51)),
    ((20, 19, 40), (3, 2, 4), (8, 10, 16)),
    ((6, 7, 8), (2, 3, 2), (8, 9, 16)),
    ((6, 7, 8), (2, 3, 2), (9, 9, 16)),
    ((5, 6, 7, 8), (2, 2, 3, 2), None),
    ((1, 300), (1, 7), (1, 32)),
    ((4, 6000), (3, 2), (8, 1024)),
    ((4, 30), (3, 3), (16, 32)),
    ((61, 47), (3, 3), (16, 16)),
    ((50, 16), (5, 5), (64, 32)),
    ((13, 100), (7, 7), (24, 112)),
    ((9, 5), (7, 7), (16, 16)),
]


@pytest.mark.parametrize(("x_dtype", "kernel_dtype"), DTYPES)
@pytest.mark.parametrize(("n", "k", "lengths"), ARRAYS, ids=str)
@pytest.mark.parametrize("mode", ["full", "same"])
def test_windows(rng, n, k, lengths, mode, x_dtype, kernel_dtype):
    """One array with three kernels."""
    x, kernels = random_array(rng, (1, *n), x_dtype), random_array(rng, (3, *k), kernel_dtype)
    wide = x.astype(np.result_type(x, np.float64))
    expected = np.stack([signal.convolve(wide[0], one, mode=mode) for one in kernels])
    start = (0,) * len(n) if mode == "full" else tuple((size - 1) // 2 for size in k)
    out = np.full(expected.shape, np.nan, np.result_type(x, kernels))
    sum_windows(x, kernels, out, start, 1)
    close(out, expected)
    if lengths:
        out[...] = np.nan
        whole = all(length >= size for length, size in zip(lengths, expected.shape[1:], strict=True))
        filter_windows(x, kernels, out, Extent(n, k, start, (1,) * len(n), expected.shape[1:], lengths, whole), 2)
        close(out, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [3, 5, 7])
def test_neighbouring_taps_are_summed_as_any_others(rng, monkeypatch, k, dtype):
    """Bit for bit, whether blocks read the image itself or a copy."""
    x, taps = random_array(rng, (2, 3, 55, 70), dtype)[..., :65], random_array(rng, (1, 3, k, k), dtype)
    results = []
    for squares in ((3, 5, 7), ()):
        monkeypatch.setattr(sum_fields, "SQUARES", squares)
        sum_job.cache_clear()
        convolution._sum_of_windows.cache_clear()
        for start in ((0, 0), (k // 2, k // 2), (k + 2, k - 1)):
            out = np.full((2, 3, 55 + k - 1 - start[0], 65 + k - 1 - start[1]), np.nan, x.dtype)
            sum_windows(x, taps, out, start, 1)
            results.append(out)
    sum_job.cache_clear()
    convolution._sum_of_windows.cache_clear()
    for own, copied in zip(results[:3], results[3:], strict=True):
        assert np.array_equal(own, copied)


@pytest.fixture
def poisoned(monkeypatch):
    """All memory that kernels get holds NaN."""
    poison_scratch(monkeypatch)
    prepared.clear()


@pytest.mark.parametrize("layer", [0, 1, 2, 5, 9, 10], ids=str)
def test_what_was_in_memory_before_does_not_matter(rng, poisoned, layer):
    test_layers(rng, LAYERS[layer], "float32", "float32")


@pytest.mark.parametrize("number", [0, 1, 4, 6, 8, 9, 12, 16, 18], ids=str)
def test_what_was_in_memory_before_does_not_matter_to_windows(rng, poisoned, number):
    test_windows(rng, *ARRAYS[number], "same", "float64", "float64")


def layer_results(x, weight, workers):
    start, extent = (-2, -2), Extent((50, 61), (5, 5), (2, 2), (1, 1), (50, 61), (16, 24), False)
    summed, filtered = (np.empty((3, 1, weight.shape[1], 50, 61), x.dtype) for _ in range(2))
    sum_channels(x, weight, summed, start, (1, 1), (1, 1), workers)
    filter_channels(x, weight[..., ::-1, ::-1], filtered, extent, workers)
    return summed, filtered


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("workers", [2, 3, 7])
def test_any_number_of_workers_gives_the_same_bits(rng, inputs, outputs, workers):
    x = random_array(rng, (3, 1, inputs, 50, 61), "float32")
    weight = random_array(rng, (1, outputs, inputs, 5, 5), "float32")
    for alone, together in zip(layer_results(x, weight, 1), layer_results(x, weight, workers), strict=True):
        assert np.array_equal(alone, together)


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("kernels", [1, 6])
def test_rows_by_any_number_of_workers(rng, kernels, workers):
    x, taps = random_array(rng, (6, 3000), "float64"), random_array(rng, (kernels, 50), "float64")
    outs = [np.empty((6, 3000)) for _ in range(2)]
    extent = Extent((3000,), (50,), (20,), (1,), (3000,), (256,), False)
    for out, count in zip(outs, (1, workers), strict=True):
        filter_windows(x, taps, out, extent, count)
    assert np.array_equal(*outs)


def test_many_calls_at_once(rng):
    """Python threads share jobs and kept filters, never memory."""
    layers = [
        (random_array(rng, (3, 1, inputs, 50, 61), "float32"), random_array(rng, (1, outputs, inputs, 5, 5), "float32"))
        for inputs, outputs in ((1, 1), (3, 5), (1, 1), (3, 5)) * 3
    ]
    expected = [layer_results(x, weight, 1) for x, weight in layers]
    prepared.clear()
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda layer: layer_results(*layer, 2), layers))
    for alone, together in zip(expected, found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("bytes_", [1, 3000])
def test_filters_in_shares(rng, monkeypatch, bytes_):
    monkeypatch.setattr(convolution, "FILTERS_BYTES", bytes_)
    test_windows(rng, (13, 11), (3, 5), (16, 16), "same", "float64", "float64")


def test_output_channels_in_shares(rng, monkeypatch):
    monkeypatch.setattr(convolution, "CHANNELS_BYTES", 1)
    test_layers(rng, LAYERS[10], "float32", "float32")


def test_a_share_is_at_least_one_vector():
    assert convolution.outputs_together(16, 32, (64, 64), 4, 8) == 32
    assert convolution.outputs_together(2**20, 32, (64, 64), 4, 8) == 8


@pytest.mark.parametrize("view", [np.s_[..., ::-1], np.s_[:, ::-1, ::-1], np.s_[:, ::2, ::3], np.s_[::-1]], ids=str)
def test_views(rng, view):
    x, kernel = random_array(rng, (3, 40, 60), "float64")[view], random_array(rng, (1, 4, 5), "float64")
    expected = np.stack([signal.convolve(image, kernel[0], mode="same") for image in x])
    start, sizes = (1, 2), x.shape[1:]
    out = np.empty(expected.shape)
    sum_windows(x, kernel, out, start, 1)
    close(out, expected)
    filter_windows(x, kernel, out, Extent(sizes, (4, 5), start, (1, 1), sizes, (16, 24), False), 1)
    close(out, expected)


def test_unaligned_input_is_copied(rng):
    raw = np.zeros(8 * 50 + 1, np.uint8)
    x = raw[1:].view(np.float64)
    x[:] = rng.standard_normal(50)
    out = np.empty(50)
    sum_windows(x, np.ones(3), out, (1,), 1)
    close(out, np.convolve(x, np.ones(3), "same"))


@pytest.mark.parametrize("step", [2, 3])
def test_results_apart_in_memory(rng, step):
    x, kernel = random_array(rng, (30, 40), "float32"), random_array(rng, (3, 3), "float32")
    wide = np.full((30, 40 * step), 7.0, np.float32)
    out = wide[:, ::step]
    expected = signal.convolve(x.astype(float), kernel, mode="same")
    sum_windows(x, kernel, out, (1, 1), 1)
    close(out, expected)
    filter_windows(x, kernel, out, Extent((30, 40), (3, 3), (1, 1), (1, 1), (30, 40), (16, 16), False), 1)
    close(out, expected)
    untouched = np.ones(40 * step, bool)
    untouched[::step] = False
    assert (wide[:, untouched] == 7).all()


class TestJobs:
    def kind(self, results=(20, 20), taps=(3, 3), stride=(1, 1), dilation=(1, 1), outputs=1):
        places = tuple(range(outputs))
        geometry = Geometry((99, 99), taps, (0, 0), stride, dilation, results, (99, 1), (99, 1), (0,), places)
        return sum_job(geometry, 1, "float32").kind

    def test_kinds_of_sums(self):
        assert [self.kind(taps=(k, k)) for k in (2, 3, 4, 5, 7, 9)] == [
            "sum_rows", "sum_square_3", "sum_rows", "sum_square_5", "sum_square_7", "sum_rows",
        ]  # fmt: skip
        assert self.kind(taps=(3, 5)) == "sum_rows"
        assert self.kind(taps=(1, 3)) == "sum_taps"
        assert self.kind(results=(3, 20)) == "sum_taps"
        assert self.kind(results=(4, 20)) == "sum_square_3"
        assert self.kind(stride=(2, 1)) == "sum_rows"
        assert self.kind(dilation=(5, 1)) == "sum_rows"
        assert self.kind(dilation=(6, 1)) == "sum_taps"
        assert self.kind(stride=(2, 1), dilation=(3, 1)) == "sum_taps"
        assert self.kind(outputs=2) == "sum_channels"

    def test_a_strip_is_what_the_cache_holds(self):
        geometry = Geometry((500, 500), (3, 5), (0, 0), (1, 1), (1, 1), (498, 496), (500, 1), (496, 1), (0,), (0,))
        job = sum_job(geometry, 1, "float32")
        assert job.units == job.strips > 1
        assert job.memory < 2**16

    def test_neighbouring_taps_need_no_copy(self):
        """Of squares along two axes, on numbers side by side; strips of 48 rows."""
        geometry = Geometry((500, 500), (3, 3), (0, 0), (1, 1), (1, 1), (498, 498), (500, 1), (498, 1), (0,), (0,))
        job = sum_job(geometry, 1, "float32")
        assert (job.kind, job.units) == ("sum_square_3", 11)
        assert job.memory < 2**10
        for change in (
            {"source_strides": (1000, 2)}, {"target_strides": (1000, 2)}, {"channels": (0, 250_000)},
            {"channels": (5,)}, {"stride": (1, 2)}, {"dilation": (1, 2)},
        ):  # fmt: skip
            assert sum_job(geometry._replace(**change), 1, "float32").kind == "sum_rows"
        volume = Geometry(*[(3, *sizes) for sizes in geometry[:3]], (1,) * 3, (1,) * 3, (1, 498, 498), (0, 500, 1),
                          (0, 498, 1), (0,), (0,))  # fmt: skip
        assert sum_job(volume, 1, "float32").kind == "sum_rows"

    def test_many_planes_are_copied_for_fewer_columns(self):
        channels, outputs = tuple(range(512)), tuple(range(8))
        geometry = Geometry(
            (9, 4000), (7, 7), (0, 0), (1, 1), (1, 1), (3, 3994), (4000, 1), (3994, 1), channels, outputs
        )
        assert sum_job(geometry, 1, "float32").memory < 2**22

    def test_far_taps_are_copied_for_many_rows(self):
        geometry = Geometry((999, 50), (3, 3), (0, 0), (1, 1), (90, 1), (819, 48), (50, 1), (48, 1), (0,), (0,))
        job = sum_job(geometry, 1, "float32")
        assert job.kind == "sum_rows"
        assert job.units <= 9

    def test_windows_along_an_axis(self):
        """100 results of 3 taps by windows of 20: at most 18 each, so 6 of 17; the first begins before the image."""
        extent = Extent((100,), (3,), (1,), (1,), (100,), (20,), False)
        table = axis_table(extent, 0)
        assert table.tolist() == [
            [-1, 1, 20, 0, 17, 2], [16, 0, 20, 17, 17, 2], [33, 0, 20, 34, 17, 2], [50, 0, 20, 51, 17, 2],
            [67, 0, 20, 68, 17, 2], [84, 0, 16, 85, 15, 2],
        ]  # fmt: skip

    def test_one_window_for_all(self):
        extent = Extent((100,), (3,), (-4,), (2,), (50,), (128,), True)
        assert axis_table(extent, 0).tolist() == [[-4, 4, 104, 0, 50, 0]]

    def test_long_rows_become_images(self):
        for length, kind in ((4096, LineWindows), (4200, Windows), (4099, LineWindows)):
            extent = Extent((9000,), (3,), (1,), (1,), (9000,), (length,), False)
            assert type(window_jobs.windows(extent, (1,), (1,), "float32", False)) is kind


PROBE = """
import sys
sys.path[:0] = {path!r}
import numpy as np
import test_vector_convolution as t
rng = np.random.default_rng(0)
for layer in (0, 8):
    t.test_layers(rng, t.LAYERS[layer], "{dtype}", "{dtype}")
for number in (0, 6):
    t.test_windows(rng, *t.ARRAYS[number], "same", "{dtype}", "{dtype}")
print("right")
"""


def test_wider_vectors_are_right(tmp_path):
    """Those of AVX-512 run on every CPU, split where registers are narrower."""
    dtype = "float32"
    environment = {"SPECTRALOPS_VECTOR_BYTES": "64", "SPECTRALOPS_CACHE_DIR": str(tmp_path)}
    here = os.path.dirname(__file__)  # noqa: PTH120
    result = subprocess.run(
        [sys.executable, "-c", PROBE.format(dtype=dtype, path=[here])],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "right\n", result.stderr


class TestAsPython:
    """The loops of the kernels, run by Python."""

    @pytest.fixture
    def called(self, monkeypatch):
        prepared.clear()
        cached = (sum_job, window_jobs.windows, window_jobs.tiles, convolution._sum_of_windows)
        cached += (convolution._filter_of_windows, convolution._sum_of_channels)
        for function in cached:
            function.cache_clear()
        yield run_as_python(monkeypatch, "direct", "windows", "tiles")
        for function in cached:
            function.cache_clear()
        prepared.clear()

    @pytest.mark.parametrize(("layer", "names"), [
        (0, {"sum_channels", "copy_strip", "filter_tiles", "tile_in", "tile_out", "tile_weights"}),
        (2, {"sum_channels", "filter_tiles"}),
        (6, {"sum_rows", "copy_strip", "filter_windows", "cut_window", "keep_window", "filter_spectra"}),
        (7, {"sum_taps", "copy_strip", "filter_windows"}),
    ])  # fmt: skip
    def test_layers(self, rng, called, layer, names):
        test_layers(rng, LAYERS[layer], "float64", "float64")
        assert names <= set(called)

    @pytest.mark.parametrize(("number", "names"), [
        (0, {"sum_taps", "filter_lines"}),
        (4, {"filter_spectra", "filter_windows"}),
    ])  # fmt: skip
    def test_windows(self, rng, called, number, names):
        n, k, lengths = ARRAYS[number]
        if number == 4:
            n, k, lengths = (4500,), (20,), (4200,)
        test_windows(rng, n, k, lengths, "same", "float32", "float32")
        assert names <= set(called)
