"""Convolutions along three axes on a device: volumes through memory between the axes, and direct sums of theirs."""

from __future__ import annotations

import math
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from cuda_on_host import BACKEND, HostRunner, Recorder, backend
from support import EPS, assert_close
from test_cuda_convolution_packed import forced, signal_plan

import spectralops as so
from spectralops import UnsupportedError
from spectralops._arrays import ArraySpec
from spectralops._cuda import convolution, convolution_direct, convolution_volume_layout, convolution_volumes, launch
from spectralops._cuda.convolution_packed import layout_of
from spectralops._cuda.convolution_problem import problem
from spectralops._cuda.convolution_volume_layout import plane_lines, volume_layout
from spectralops._plans.device_convolution_cost import (
    MOST_PLANES,
    MOST_VOLUME_TAPS,
    PACKED_LENGTHS,
    UNHELD,
    VOLUME_LENGTHS,
    DeviceSums,
)
from spectralops._plans.transform import fft_flops

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
SHARED = 227 * 1024
AXES = (-3, -2, -1)


def volume_plan(x: tuple[int, ...], kernel: tuple[int, ...], dtype: str = "float32", **options: Any) -> Any:
    return signal_plan(x, kernel, dtype, **{"mode": "same", "axes": AXES} | options)


def prepared(plan: Any, shared: int = SHARED) -> convolution.Prepared:
    return convolution.Prepared(plan, launch.Device(0, 132, shared), np)


def names(kernels: list[Any]) -> list[str]:
    return [kernel.name.partition("<")[0] for kernel in kernels]


# ------------------------------------------------------------------ plans


@pytest.mark.parametrize(
    ("x", "kernel", "method"),
    [((256,) * 3, (3,) * 3, "direct"), ((256,) * 3, (5,) * 3, "direct"), ((4, 64, 64, 64), (64, 64, 64), "fft"),
     ((256,) * 3, (15,) * 3, "tiles")],
)  # fmt: skip
def test_the_cost_model_chooses(x, kernel, method: str) -> None:
    plan = volume_plan(x, kernel)
    assert (plan.backend, plan.method) == ("cuda", method)
    assert [name for name, _ in plan.seconds[:2]] == ["direct", "fft"]


def test_explain_says_how_volumes_run() -> None:
    held = volume_plan((4, 64, 64, 64), (64, 64, 64)).explain()
    assert "4 kernels: planes of the kernels; planes forward, first axis of both forward, product and inverse" in held
    assert "in one, planes back, two rows as one complex row; radices 12*8 x 6*16 x 8*12\n" in held
    rows = volume_plan((256,) * 3, (31,) * 3, "complex64", method="fft").explain()
    assert "7 kernels: rows and columns of the kernels; rows and columns forward, first axis" in rows
    assert "one complex row" not in rows
    assert "8 results of a plane a thread, plane after plane" in volume_plan((9, 9, 9), (3, 3, 3)).explain()


def test_costs_are_those_of_the_kernels_there_are() -> None:
    assert convolution_direct.MOST_VOLUME_TAPS == MOST_VOLUME_TAPS
    assert {1: convolution_direct.MOST_PLANES[4], 2: convolution_direct.MOST_PLANES[8]} == MOST_PLANES
    task = problem(volume_plan((9, 9, 9), (3, 3, 3)))
    for n in VOLUME_LENGTHS:
        if n <= 256:
            assert volume_layout((n, n, n), task, SHARED) is not None, n


@pytest.mark.parametrize("shared", [96, 227])
def test_long_lines_in_double_precision_are_offered_where_blocks_hold_them(shared: int) -> None:
    """Periodic volumes take their own length, whatever it costs; so do images, whose rows pair up too."""
    for n in (m for m in VOLUME_LENGTHS if m > 4096):
        for axis in range(3) if n in UNHELD else (1,):
            size = tuple(n if k == axis else 4 for k in range(3))
            sums = DeviceSums(
                (3, 3, 3), (3, 3, 3), size, (1, 1, 1), 1, 1, 1, 1, 1, (False, False), 2, size, size, size, False,
                shared * 1024,
            )  # fmt: skip
            task = problem(volume_plan(size, (3, 3, 3), "float64", method="direct"))
            for cost in sums.costs():
                if cost.packed == "volumes":
                    assert volume_layout(cost.lengths, task, shared * 1024) is not None, cost.lengths
    for n in UNHELD.keys() & set(PACKED_LENGTHS):
        for lengths in ((n, 64), (64, n)):
            sums = DeviceSums(
                (3, 3), (3, 3), lengths, (1, 1), 1, 1, 1, 1, 1, (False, False), 2, lengths, lengths, lengths, False,
                shared * 1024,
            )  # fmt: skip
            for cost in sums.costs():
                if cost.packed == "rows":
                    assert layout_of(cost.lengths, 8, shared * 1024) is not None, cost.lengths


def test_a_periodic_volume_of_a_length_without_kernels_runs_on_cupy() -> None:
    plan = volume_plan((4, 6250, 4), (3, 3, 3), "float64", boundary="wrap", method="fft")
    assert plan.backend == "cupy"
    assert "(no kernels: one tile for everything does not fit a block" in plan.explain()
    assert volume_plan((4, 6250, 4), (3, 3, 3), boundary="wrap", method="fft").backend == "cuda"


def test_operations_are_exact() -> None:
    """Two transforms of each tile of a volume, one of the kernel, and three operations a real number for products."""
    plan = volume_plan((2, 16, 16, 16), (16, 16, 16), boundary="wrap", method="fft")
    assert plan.lengths == (16, 16, 16)
    assert plan.flops == 5 * fft_flops((16,) * 3, True) + 6 * 2 * 2048
    tiles = volume_plan((100, 6, 6), (3, 3, 3), "complex64", method="tiles")
    count = -(-100 // (tiles.lengths[0] - 2))
    transforms = (2 * count + 1) * fft_flops(tiles.lengths, False)
    assert tiles.flops == transforms + 6 * count * math.prod(tiles.lengths)


def test_blocks_hold_planes_of_which_few_rows_are_there() -> None:
    small, large = plane_lines((96, 96), 4, SHARED, 32), plane_lines((216, 216), 4, SHARED, 91)
    assert small is not None
    assert large is not None
    assert small.threads <= 256
    assert (small.rows, small.columns, small.pitch % 16) == (16, 25, small.row.threads)
    assert small.numbers(32) == 32 * small.pitch + 25 * 96
    assert large.numbers(91) * 8 <= SHARED
    assert plane_lines((280, 280), 4, SHARED, 128) is None
    assert plane_lines((17, 17), 4, SHARED, 8) is None


def test_columns_are_as_wide_as_few_threads_allow() -> None:
    task = problem(volume_plan((9, 9, 9), (3, 3, 3)))
    for n, width in ((96, 16), (140, 8), (280, 8)):
        found = volume_layout((n, 280, 280), task, SHARED)
        assert found is not None
        assert (found.first.lines, found.middle.lines) == (width, 16)


def test_a_volume_that_no_block_holds_lines_of_is_refused() -> None:
    plan = volume_plan((2, 2, 8000), (3, 3, 3), "float64", method="fft")
    with pytest.raises(
        UnsupportedError, match=r"^convolve: lines of 8 x 8 x 8192 take more shared memory than a block's"
    ):
        prepared(plan, 96 * 1024)


def test_scratch_memory_is_that_of_a_volume_or_bounded() -> None:
    """Of 200 volumes of 144 x 144 x 76 numbers in 128 planes as many at a time as fit."""
    made = prepared(forced(volume_plan((200, 128, 128, 128), (9, 9, 9)), (144,) * 3, kind="volumes"))
    assert names([step.kernel for step in made.program.steps]) == (
        ["volume_planes", "volume_planes", "volume_product", "volume_planes_back"]
        + ["volume_planes", "volume_product", "volume_planes_back"] * 3
    )
    assert 50 * 128 * 144 * 76 * 8 < made.space_bytes < 768 * 2**20
    one = prepared(forced(volume_plan((512,) * 3, (31,) * 3), (540,) * 3, kind="volumes"))
    assert one.space_bytes < 1.7 * 512 * 540 * 272 * 8


def test_results_of_one_kernel_share_its_transform() -> None:
    """A block has all four volumes of a kernel, which lie 32 apart, or two of four neighbours."""
    for x, kernel, expected in (
        ((4, 32, 64, 64, 64), (32, 64, 64, 64), (4, 32)),
        ((32, 4, 64, 64, 64), (32, 1, 64, 64, 64), (4, 1)),
        ((4, 64, 64, 64), (9, 9, 9), (1, 1)),
    ):
        made = prepared(forced(volume_plan(x, kernel), (96,) * 3, kind="volumes"))
        (step,) = (step for step in made.program.steps if step.kernel.name.startswith("volume_product"))
        values = step.words[4].view(convolution_volumes.PRODUCT)
        assert (values["together"][0], values["apart"][0]) == expected


# ------------------------------------------------------------------ kernels on the host


@pytest.fixture
def host():
    """The backend on the host, for a test."""
    with backend(HostRunner()) as runner:
        yield runner


def check(
    rng: Any, x: tuple[int, ...], w: tuple[int, ...], dtypes: tuple[str, str] = ("float64", "float64"),
    lengths: tuple[int, ...] = (8, 12, 16), method: str = "fft", **options: Any,
) -> None:  # fmt: skip
    """Compare volumes with the reference."""
    a, b = (rng.standard_normal(shape) for shape in (x, w))
    a, b = (v + 1j * v[::-1] if d.startswith("c") else v.astype(d) for v, d in zip((a, b), dtypes, strict=True))
    options = {"mode": "same", "axes": AXES} | options
    plan = so.plan_convolve(x, dtypes[0], ArraySpec(w, dtypes[1]), backend=BACKEND, **options)
    found = forced(plan, lengths, method, "volumes")(a, b)
    assert_close(found, so.convolve(a, b, backend="reference", **options), 20 * EPS[dtypes[0]])


BEYOND = [{}, {"boundary": "symm"}, {"fillvalue": 1.5, "mode": "full"}]
IDS = ["zeros", "symm", "fill"]
PLANES = ["volume_planes", "volume_planes", "volume_product", "volume_planes_back"]
ROWS = ["packed_rows", "volume_columns", "packed_rows", "volume_columns", "volume_product", "volume_columns_back",
        "packed_rows_back"]  # fmt: skip


@on_host
@pytest.mark.parametrize("options", BEYOND, ids=IDS)
def test_planes_that_a_block_holds(host, rng, options: dict[str, Any]) -> None:
    check(rng, (2, 5, 7, 6), (2, 3, 4, 2), **options)
    assert names(host.launched) == PLANES


@on_host
@pytest.mark.parametrize("options", BEYOND, ids=IDS)
def test_rows_and_columns_through_memory(host, rng, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setattr(convolution_volume_layout, "plane_lines", lambda *arguments: None)
    check(rng, (2, 5, 7, 6), (2, 3, 4, 2), **options)
    assert names(host.launched) == ROWS
    if not options:
        count = len(host.launched)
        monkeypatch.setattr(convolution_volumes, "ROWS_BYTES", 2000)
        check(rng, (2, 5, 7, 6), (2, 3, 4, 2), **options)
        assert len(host.launched) - count > 20


@on_host
@pytest.mark.parametrize(
    ("dtypes", "options"),
    [(("complex128", "float64"), {"mode": "valid"}), (("float64", "complex128"), {"boundary": "wrap"}),
     (("complex128", "complex128"), {"fillvalue": 1 - 2j})],
    ids=["complex-x", "complex-kernel", "both"],
)  # fmt: skip
def test_complex_volumes(host, rng, dtypes: tuple[str, str], options: dict[str, Any]) -> None:
    check(rng, (2, 5, 7, 6), (2, 3, 4, 2), dtypes, **options)
    assert names(host.launched) == [f"volume_{name.partition('_')[2]}" for name in ROWS]


@on_host
@pytest.mark.parametrize(("enough", "several"), [(1, True), (10**6, False)], ids=["one-block", "each-tile"])
def test_tiles_of_planes(host, rng, monkeypatch: pytest.MonkeyPatch, enough: int, several: bool) -> None:
    monkeypatch.setattr(convolution_volumes, "ENOUGH", enough)
    check(rng, (2, 3, 20, 7, 6), (3, 3, 4, 2), method="tiles")
    (kernel,) = (kernel for kernel in host.launched if kernel.name.startswith("volume_product"))
    assert (", true, " in kernel.name) == several
    check(rng, (6, 5, 7, 6), (6, 3, 4, 2))


@on_host
def test_slices_of_results_find_their_volumes_and_kernels(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_volumes, "SPACE_BYTES", 130_000)
    monkeypatch.setattr(convolution_volumes, "ENOUGH", 1)
    for x, w, products in (
        ((5, 3, 5, 7, 6), (3, 3, 4, 2), 2),
        ((1, 7, 5, 7, 6), (3, 1, 3, 4, 2), 7),
        ((5, 1, 5, 7, 6), (1, 3, 3, 4, 2), 4),
        ((3, 5, 7, 6), (3, 3, 4, 2), 1),
    ):
        count = len(host.launched)
        check(rng, x, w)
        assert names(host.launched[count:]).count("volume_product") == products, (x, w)


@on_host
def test_volumes_in_16_bits(host, rng) -> None:
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((2, 5, 7, 6), (3, 4, 2)))
    plan = so.plan_convolve(x.shape, "float16", ArraySpec(w.shape, "float16"), mode="same", backend=BACKEND)
    found = forced(plan, (8, 12, 16), kind="volumes")(x, w)
    assert host.launched[0].name.startswith("volume_planes<float16_t, float, ")
    assert_close(found, so.convolve(x, w, mode="same", backend="reference"), 1e-3)


@on_host
@pytest.mark.parametrize("options", BEYOND, ids=IDS)
def test_direct_sums(host, rng, options: dict[str, Any]) -> None:
    """Of several blocks along each axis, with whole quads and without."""
    for x, w in (((19, 34, 68), (3, 2, 4)), ((2, 9, 5, 7), (2, 3, 2, 4))):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in (x, w))
        found = so.convolve(a, b, **{"mode": "same"} | options, axes=AXES, method="direct", backend=BACKEND)
        expected = so.convolve(a, b, **{"mode": "same"} | options, axes=AXES, backend="numpy", method="direct")
        assert_close(found, expected, 8 * EPS["float32"])
    assert set(names(host.launched)) == {"direct_volumes"}


def test_blocks_of_direct_sums_share_out_planes() -> None:
    """32 planes of 256 for each of 256 blocks, of which 264 run at once; all planes where volumes are many."""
    for x, w, dtype, grid, slab in (
        ((256, 256, 256), (5, 5, 5), "float32", 256, 32),
        ((64, 64, 64, 64), (3, 3, 3), "float32", 256, 32),
        ((4, 6, 6), (3, 3, 3), "float32", 1, 4),
    ):
        (step,) = prepared(volume_plan(x, w, dtype, method="direct")).program.steps
        assert (step.kernel.grid, int(step.words[-1][0])) == ((grid,), slab), (x, w)


def test_axes_that_are_not_the_last_are_moved() -> None:
    with backend(Recorder()) as recorder:
        so.convolve(np.zeros((6, 7, 8, 2)), np.zeros((3, 3, 3)), axes=(0, 1, 2), method="fft", backend=BACKEND)
    assert "volume_product" in names(recorder.launched)


# ------------------------------------------------------------------ kernels on a device

VOLUMES = [
    ((2, 3, 64, 64, 64), (3, 64, 64, 64), (96, 96, 96), "fft", {}),
    ((150, 100, 280), (31, 20, 11), (180, 120, 300), "fft", {}),
    ((150, 100, 280), (11, 20, 11), (48, 120, 300), "tiles", {"boundary": "symm"}),
    ((3, 40, 50, 60), (1, 5, 6, 7), (), "direct", {"boundary": "wrap"}),
    ((40, 50, 60), (5, 5, 5), (), "direct", {"fillvalue": 1.5}),
]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
@pytest.mark.parametrize(("x", "w", "lengths", "method", "options"), VOLUMES, ids=str)
def test_volumes_match_cufft_on_gpu(x, w, lengths, method: str, options: dict[str, Any], dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    wide = "complex128" if dtype == "complex64" else "float64"
    a, b = (cupy.random.standard_normal(shape) for shape in (x, w))
    a, b = (v + 1j * v[::-1] if dtype == "complex64" else v for v in (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    options = options | {"mode": "same", "axes": AXES}
    expected = so.convolve(a.astype(wide), b.astype(wide), backend="cupy", **options).get()
    plan = so.plan_convolve(x, dtype, ArraySpec(w, dtype), device="cuda", method=method, **options)
    found = (forced(plan, lengths, method, "volumes") if lengths else plan)(a, b).get()
    bound = 1e-3 if dtype == "float16" else 20 * EPS[dtype]
    assert plan.backend == "cuda"
    assert_close(found, expected, bound)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["direct", "fft", "tiles"])
def test_volumes_are_captured_in_a_graph(method: str) -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.randn(2, 40, 40, 40, device="cuda"), torch.randn(5, 5, 5, device="cuda")
    plan = volume_plan(tuple(x.shape), tuple(w.shape), method=method)
    out = plan(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(x, w, out=out)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, plan(x, w))
