"""Convolutions of real arrays on a device whose neighbours, columns or rows are packed as one complex number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from cuda_on_host import BACKEND, HostRunner, backend
from support import EPS, assert_close

import spectralops as so
from spectralops import UnsupportedError
from spectralops._arrays import ArraySpec
from spectralops._cuda import convolution, convolution_packed, launch
from spectralops._cuda.convolution_packed import layout_of
from spectralops._cuda.convolution_pairs import pair_geometry
from spectralops._plans.device_convolution_cost import LINE_LENGTHS, PACKED_LENGTHS, PAIR_LENGTHS, ring
from spectralops._plans.transform import fft_flops

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
SHARED = 227 * 1024


def signal_plan(x: tuple[int, ...], kernel: tuple[int, ...], dtype: str = "float32", **options: Any):
    return so.plan_convolve(x, dtype, ArraySpec(kernel, dtype), **{"device": "cuda"} | options)


def forced(plan: Any, lengths: tuple[int, ...], method: str = "fft", kind: str = "columns") -> Any:
    """The plan with packed transforms of these lengths."""
    kind = "lines" if len(lengths) == 1 else kind
    return replace(plan, cost=replace(plan.cost, method=method, lengths=lengths, engine="cuda", packed=kind))


# ------------------------------------------------------------------ lengths


def in_ring(length: int, cells: int, before: int, results: int, kernel: int) -> bool:
    """Whether sums around a ring of so many cells are those over an image between zeros."""
    x, w = np.arange(1.0, cells + 1), 100.0 ** np.arange(kernel)
    circle = np.zeros(length)
    for place in range(length):
        if 0 <= place - before < cells:
            circle[place] = x[place - before]
    if results > length:
        return False
    for i in range(results):
        inside = [k for k in range(kernel) if 0 <= i + k - before < cells]
        if sum(w[k] * x[i + k - before] for k in inside) != sum(w[k] * circle[(i + k) % length] for k in range(kernel)):
            return False
    return True


@pytest.mark.parametrize("cells", [1, 4, 7])
@pytest.mark.parametrize("kernel", [1, 2, 5])
def test_a_ring_is_the_shortest_that_is_right(cells: int, kernel: int) -> None:
    for before in range(-2, kernel):
        for results in range(1, cells + kernel - max(before, 0)):
            if cells + before <= 0:
                continue
            found = ring(cells, before, results, kernel)
            assert in_ring(found, cells, before, results, kernel), (before, results)
            assert all(in_ring(found + more, cells, before, results, kernel) for more in (1, 2)), (before, results)
            assert before < 0 or not in_ring(found - 1, cells, before, results, kernel), (before, results)


def test_every_length_of_the_cost_model_has_a_layout() -> None:
    for n in PACKED_LENGTHS:
        assert layout_of((n, n), 4, SHARED) is not None, n
    for n in PAIR_LENGTHS:
        assert pair_geometry((n, 4), 4, SHARED) is not None, n
        assert pair_geometry((4, n), 8, SHARED) is not None, n
    for n in LINE_LENGTHS:
        assert layout_of((n,), 4, SHARED) is not None, n


def test_blocks_hold_pairs_of_columns_of_images_of_up_to_240() -> None:
    large = pair_geometry((240, 240), 4, SHARED)
    assert large is not None
    assert (large.orders, large.resident, large.shared) == (((15, 16), (15, 16)), 1, 240 * 121 * 8)
    assert pair_geometry((252, 252), 4, SHARED) is None
    assert [pair_geometry((n, n), 4, SHARED).threads for n in (192, 216, 240)] == [512, 512, 480]  # type: ignore[union-attr]
    assert pair_geometry((11, 16), 4, SHARED) is None
    assert pair_geometry((16,), 4, SHARED) is None
    small = pair_geometry((24, 24), 4, SHARED)
    assert small is not None
    assert small.resident > 8


@pytest.mark.parametrize(
    ("plan", "lengths", "kind"),
    [
        (lambda: signal_plan((8, 384, 128, 128), (384, 128, 128), mode="same", axes=(-2, -1)), 192, "columns"),
        (lambda: signal_plan((2, 64, 512, 512), (64, 512, 512), mode="same", axes=(-2, -1)), 768, "rows"),
        (lambda: signal_plan((64, 768, 1024), (768, 1024), mode="same", axes=-1), 1536, "lines"),
        (lambda: signal_plan((4, 768, 1024), (768, 1024), mode="same", axes=-1, boundary="wrap"), 1024, "lines"),
    ],
    ids=["plane", "large-plane", "line", "circle"],
)
def test_signals_as_long_as_their_kernels_are_packed_in_the_shortest_ring(plan: Any, lengths: int, kind: str) -> None:
    found = plan()
    assert (found.backend, found.method, found.cost.packed) == ("cuda", "fft", kind)
    assert set(found.lengths) == {lengths}


def test_tiles_of_one_large_image_leave_few_multiprocessors_idle() -> None:
    """With 63 x 63 taps 768 tiles on 132 multiprocessors, not 676 larger ones, which take as many turns."""
    for taps, lengths in ((15, (128, 128)), (63, (192, 240))):
        plan = signal_plan((4096, 4096), (taps, taps), mode="same")
        assert (plan.method, plan.cost.packed, plan.lengths) == ("tiles", "columns", lengths)


def test_explain_says_how_packed_transforms_run() -> None:
    line = signal_plan((4, 1024), (4, 1024), mode="same", axes=-1, method="fft").explain()
    assert (
        "runs: 2 kernels: spectra of the kernels; lines forward, product and inverse in one, neighbours as one" in line
    )
    small = signal_plan((4, 64, 64), (4, 64, 64), mode="same", axes=(-2, -1), method="fft").explain()
    assert (
        "tiles forward, product and inverse in one, neighbouring columns as one complex column; radices 8*12 x 8*12"
        in small
    )
    large = signal_plan((4, 512, 512), (4, 512, 512), mode="same", axes=(-2, -1), method="fft").explain()
    assert (
        "runs: 5 kernels: rows and columns of the kernels; rows forward, columns forward, product and inverse" in large
    )


def test_lines_that_no_block_holds_are_refused() -> None:
    plan = signal_plan((4, 32768), (4, 32768), mode="same", boundary="wrap", axes=-1, method="fft")
    with pytest.raises(
        UnsupportedError, match=r"^convolve: lines of 32768 take more shared memory than a block's 1024 b"
    ):
        convolution.Prepared(plan, launch.Device(0, 4, 1024), np)


@pytest.mark.parametrize(("channels", "index"), [(1023, "int"), (1024, "long long")])
def test_offsets_reach_all_spectra_of_weights(channels: int, index: str) -> None:
    """Of 1024 by 1024 kernels, 2050 numbers each: just more than 2^31."""
    weight = ArraySpec((channels, channels, 15, 15), "float32")
    plan = so.plan_fft_conv2d((1, channels, 48, 48), "float32", weight, method="tiles", device="cuda")
    made = convolution.Prepared(forced(plan, (64, 64), "tiles"), launch.Device(0, 132, SHARED), np)
    options = {step.kernel.options for step in made.program.steps if step.kernel.name.startswith("mix")}
    assert options == {(f"-DINDEX_T={index}",)}


# ------------------------------------------------------------------ kernels on the host


@pytest.fixture
def host():
    """The backend on the host, for a test."""
    with backend(HostRunner()) as runner:
        yield runner


def check(
    rng: Any, x: Any, w: Any, lengths: tuple[int, ...], method: str = "fft", kind: str = "columns",
    dtype: str = "float64", **options: Any,
) -> None:  # fmt: skip
    """Compare packed transforms of these lengths with the reference."""
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in (x, w))
    options = {"mode": "same", "axes": tuple(range(-len(lengths), 0))} | options
    plan = forced(so.plan_convolve(x, dtype, ArraySpec(w, dtype), backend=BACKEND, **options), lengths, method, kind)
    found = plan(a, b)
    assert_close(found, so.convolve(a, b, backend="reference", **options), 20 * EPS[dtype])


BEYOND = [
    {}, {"boundary": "wrap"}, {"boundary": "symm"}, {"fillvalue": 1.5}, {"mode": "full"}, {"mode": "valid"},
]  # fmt: skip
IDS = ["zeros", "wrap", "symm", "fill", "full", "valid"]


@on_host
@pytest.mark.parametrize("options", BEYOND, ids=IDS)
@pytest.mark.parametrize(("n", "k", "length"), [(30, 8, 48), (21, 6, 32)], ids=["even", "odd"])
def test_lines(host, rng, n: int, k: int, length: int, options: dict[str, Any]) -> None:
    check(rng, (2, 3, n), (3, k), (length,), **options)
    assert [kernel.name.partition("<")[0] for kernel in host.launched[-2:]] == ["packed_taps", "packed_lines"]


@on_host
def test_a_periodic_line_as_long_as_its_transform(host, rng) -> None:
    check(rng, (2, 16), (2, 16), (16,), boundary="wrap", dtype="float32")
    check(rng, (2, 16), (2, 3), (16,), boundary="wrap")


@on_host
@pytest.mark.parametrize("options", BEYOND, ids=IDS)
@pytest.mark.parametrize("lengths", [(16, 24), (20, 20), (12, 24)], ids=lambda each: "x".join(map(str, each)))
def test_tiles_of_paired_columns(host, rng, lengths: tuple[int, int], options: dict[str, Any]) -> None:
    check(rng, (2, 3, 10, 13), (3, 3, 4), lengths, **options)
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == ["pair_spectra", "pair_filter"]


@on_host
@pytest.mark.parametrize("n", [(40, 30), (41, 31)], ids=["even", "odd"])
def test_overlapping_tiles_of_paired_columns(host, rng, n: tuple[int, int]) -> None:
    check(rng, n, (5, 4), (50, 12), "tiles", dtype="float32")
    assert host.launched[0].grid == (3,), "the kernel's lines in three parts of nine, nine and seven"
    check(rng, n, (4, 5), (16, 12), "tiles", boundary="symm")


@on_host
@pytest.mark.parametrize("options", BEYOND, ids=IDS)
def test_rows_and_columns_through_memory(host, rng, options: dict[str, Any]) -> None:
    check(rng, (2, 3, 11, 18), (3, 4, 5), (16, 24), kind="rows", **options)
    names = [kernel.name.partition("<")[0] for kernel in host.launched]
    assert names == ["packed_rows", "packed_spectra", "packed_rows", "packed_columns", "packed_rows_back"]


@on_host
def test_rows_of_kernels_with_holes_and_of_results_apart(host, rng) -> None:
    x, w = rng.standard_normal((2, 3, 12, 18)), rng.standard_normal((3, 1, 3, 4))
    options = {"groups": 3, "stride": (2, 3), "dilation": (3, 2), "padding": 1, "padding_mode": "circular"}
    plan = so.plan_fft_conv2d(x.shape, "f8", ArraySpec(w.shape, "float64"), backend=BACKEND, **options)
    found = forced(plan, (16, 24), kind="rows")(x, w)
    assert_close(found, so.fft_conv2d(x, w, backend="reference", **options), 20 * EPS["float64"])


def test_kernels_with_holes_that_no_tile_holds_go_through_memory() -> None:
    weight = ArraySpec((64, 1, 101, 101), "float32")
    for options in ({"stride": 2}, {"dilation": 3}):
        plan = so.plan_fft_conv2d((4, 64, 512, 512), "f4", weight, padding=50, groups=64, device="cuda", **options)
        assert (plan.backend, plan.cost.packed) == ("cuda", "rows"), options


@on_host
def test_slices_of_kernels_and_of_their_planes(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (20_000, 9_000):
        monkeypatch.setattr(convolution_packed, "SPACE_BYTES", room)
        count = len(host.launched)
        check(rng, (5, 3, 10, 12), (3, 4, 5), (16, 16), kind="rows")
        assert len(host.launched) - count > 5
        check(rng, (1, 10, 12), (3, 4, 5), (16, 16), kind="rows")
        check(rng, (3, 11, 9), (6, 3), (16, 16), kind="rows")


@on_host
@pytest.mark.parametrize(("room", "launches"), [(10**6, 5), (1000, 15)], ids=["once", "for-each-plane"])
def test_an_image_of_several_kernels_is_transformed_once_if_there_is_room(
    host, rng, monkeypatch: pytest.MonkeyPatch, room: int, launches: int
) -> None:
    monkeypatch.setattr(convolution_packed, "SPACE_BYTES", room)
    check(rng, (1, 10, 12), (3, 4, 5), (16, 16), kind="rows")
    assert len(host.launched) == launches


@on_host
@pytest.mark.parametrize(
    ("x", "w", "mode"),
    [((2, 20), (2, 20), "same"), ((2, 12, 13), (2, 5, 6), "same"), ((2, 14, 9), (2, 4, 3), "valid")],
    ids=["line", "odd", "valid"],
)
def test_adjoints(host, rng, x, w, mode: str) -> None:
    axes = tuple(range(1 - len(x), 0))
    plan = so.plan_convolve(x, "f8", ArraySpec(w, "float64"), mode=mode, axes=axes, method="fft", backend=BACKEND)
    kind = "lines" if len(axes) == 1 else "columns"
    assert (plan.cost.packed, plan.adjoint().cost.packed) == (kind, kind)
    a, k, y = (rng.standard_normal(shape) for shape in (x, w, plan.out_shape))
    assert np.vdot(plan(a, k), y) == pytest.approx(np.vdot(a, plan.adjoint()(y, k)), rel=1e-11)


def test_operations_of_packed_transforms_are_exact() -> None:
    """Two transforms a plane and one a kernel, 2.5 N log2 N each, and three operations a real number for products."""
    line = signal_plan((2, 4, 16), (2, 1, 16), mode="same", boundary="wrap", axes=-1, method="fft")
    assert line.lengths == (16,)
    assert line.flops == (2 * 8 + 2) * fft_flops((16,), True) + 6 * 8 * 8
    image = signal_plan((3, 16, 16), (3, 16, 16), mode="same", boundary="wrap", axes=(-2, -1), method="fft")
    assert image.lengths == (16, 16)
    assert image.flops == 9 * fft_flops((16, 16), True) + 6 * 3 * 128


def test_an_odd_number_of_cells_before_an_image_takes_another_pair_of_columns() -> None:
    """Rings of 15 and 16 cells, where pairs of columns begin with a cell and where they do not."""
    even, odd = (
        signal_plan((2, 12, 13), (2, 5, taps), "float64", mode="same", axes=(-2, -1), method="fft") for taps in (5, 6)
    )
    assert (even.cost.packed, even.lengths[1]) == ("columns", 16)
    assert (odd.cost.packed, odd.lengths[1]) == ("columns", 18)


@on_host
@pytest.mark.parametrize("n", [(50, 14), (51, 15)], ids=["even", "odd"])
def test_tiles_of_columns_through_memory(host, rng, n: tuple[int, int]) -> None:
    check(rng, (2, *n), (2, 5, 6), (16, 24), "tiles", kind="rows", dtype="float32")
    check(rng, (2, *n), (2, 4, 5), (24, 24), "tiles", kind="rows", boundary="wrap")


@on_host
@pytest.mark.parametrize("kind", ["columns", "rows"])
def test_a_finished_layer(host, rng, kind: str) -> None:
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 9, 11), (6, 1, 4, 3), (6,)))
    options = {"groups": 3, "padding": (1, 2), "epilogue": so.Epilogue(0.5, (1, 2, 3, 4, 5, 6), "tanh")}
    plan = so.plan_fft_conv2d(
        x.shape, "f4", ArraySpec(w.shape, "float32"), ArraySpec(bias.shape, "float32"), backend=BACKEND, **options
    )
    found = forced(plan, (16, 16), kind=kind)(x, w, bias)
    assert_close(found, so.fft_conv2d(x, w, bias, backend="reference", **options), 20 * EPS["float32"])


@on_host
def test_pairs_that_begin_at_single_numbers(host, rng) -> None:
    x, out = np.zeros(3 * 16 + 1, np.float32), np.zeros(3 * 16 + 1, np.float32)
    x[...] = rng.standard_normal(x.size)
    w = rng.standard_normal((3, 16)).astype(np.float32)
    for begin in (0, 1):
        a, y = x[begin : begin + 48].reshape(3, 16), out[1 - begin : 49 - begin].reshape(3, 16)
        plan = signal_plan((3, 16), (3, 16), mode="same", axes=-1, backend=BACKEND, device="cpu")
        assert forced(plan, (32,))(a, w, out=y) is y
        assert_close(y, so.convolve(a, w, mode="same", axes=-1, backend="reference"), 20 * EPS["float32"])


@on_host
@pytest.mark.parametrize(
    ("method", "lengths", "dtype"),
    [("fft", (16, 16), "float64"), ("tiles", (12, 16), "float32")],
    ids=["whole", "tiles"],
)
def test_sums_over_channels_of_paired_columns(host, rng, method: str, lengths: tuple[int, int], dtype: str) -> None:
    x, w, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 4, 13, 12), (6, 2, 3, 4), (6,)))
    options = {"groups": 2, "padding": 1}
    plan = so.plan_fft_conv2d(
        x.shape, dtype, ArraySpec(w.shape, dtype), ArraySpec(bias.shape, dtype), backend=BACKEND, **options
    )
    found = forced(plan, lengths, method)(x, w, bias)
    assert_close(found, so.fft_conv2d(x, w, bias, backend="reference", **options), 20 * EPS[dtype])
    names = [kernel.name.partition("<")[0] for kernel in host.launched]
    assert names == ["pair_spectra", "pair_forward", "mix", "mix", "pair_inverse"]


# ------------------------------------------------------------------ kernels on a device

SIGNALS = [
    ((2, 3, 224, 224), (3, 31, 31), (240, 240), "fft"),
    ((2, 3, 200, 210), (3, 15, 16), (72, 64), "tiles"),
    ((3, 2, 64, 64), (2, 64, 64), (96, 96), "fft"),
    ((2, 3, 256, 256), (3, 256, 256), (384, 384), "fft"),
    ((600, 500), (101, 90), (336, 560), "tiles"),
    ((4, 3, 1024), (3, 1024), (1536,), "fft"),
]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("x", "w", "lengths", "method"), SIGNALS, ids=str)
def test_signals_match_transforms_on_gpu(x, w, lengths, method: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(shape, dtype=torch.float64, device="cuda") for shape in (x, w))
    axes = tuple(range(-len(lengths), 0))
    sizes = tuple(n + k - 1 for n, k in zip(x[-len(axes) :], w[-len(axes) :], strict=True))
    y = torch.fft.irfftn(
        torch.fft.rfftn(a, s=sizes, dim=axes) * torch.fft.rfftn(b, s=sizes, dim=axes), s=sizes, dim=axes
    )
    begin = tuple((k - 1) // 2 for k in w[-len(axes) :])
    expected = y[(..., *(slice(s, s + n) for s, n in zip(begin, x[-len(axes) :], strict=True)))]
    fits = pair_geometry(lengths, 4 if dtype == "float32" else 8, SHARED) is not None
    plan = so.plan_convolve(x, dtype, ArraySpec(w, dtype), mode="same", axes=axes, device="cuda")
    plan = forced(plan, lengths, method, "columns" if fits else "rows")
    kind = getattr(torch, dtype)
    assert_close(plan(a.to(kind), b.to(kind)).double().cpu(), expected.cpu(), 20 * EPS[dtype])
