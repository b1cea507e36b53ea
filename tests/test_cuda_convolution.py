"""Convolutions of the CUDA backend: geometry, choice of the algorithm, and the kernels on the host and on a device."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from conformance import CASES, Variant
from cuda_on_host import BACKEND, HostRunner, Recorder, backend
from support import EPS, assert_close
from test_conformance import poison, run  # noqa: F401, the fixture poisons what the cases allocate

import spectralops as so
from spectralops import UnsupportedError, _support
from spectralops._arrays import ArraySpec
from spectralops._cuda import convolution, convolution_direct, convolution_problem, convolution_tiles, launch
from spectralops._cuda.convolution_direct import family
from spectralops._cuda.convolution_problem import mapping, problem
from spectralops._cuda.convolution_tiles import geometry, radices, table
from spectralops._cuda.geometry import MULTIPROCESSOR_BYTES, SYSTEM_BYTES
from spectralops._plans import device_convolution_cost as model
from spectralops._plans.device_convolution_cost import LINE_LENGTHS, TILE_LENGTHS, DeviceSums

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")


def layer_plan(x: tuple[int, ...], weight: tuple[int, ...], dtype: str = "float32", **options: Any):
    return so.plan_fft_conv2d(x, dtype, ArraySpec(weight, dtype), device="cuda", **options)


def signal_plan(x: tuple[int, ...], kernel: tuple[int, ...], dtype: str = "float32", **options: Any):
    return so.plan_convolve(x, dtype, ArraySpec(kernel, dtype), device="cuda", **options)


# ------------------------------------------------------------------ geometry


@pytest.mark.parametrize("lengths", [TILE_LENGTHS, LINE_LENGTHS], ids=["tiles", "lines"])
def test_every_length_of_the_cost_model_has_radices(lengths) -> None:
    fewest = 2 if lengths is LINE_LENGTHS else 1
    for n in lengths:
        order = radices(n, fewest)
        assert math.prod(order) == n
        assert list(order) == sorted(order)
        assert fewest <= len(order) <= (4 if lengths is LINE_LENGTHS else 2)


def test_the_cost_model_knows_the_kernels() -> None:
    assert model.MOST_AXES == convolution.MOST_AXES
    assert model.RADICES == convolution_tiles.RADICES
    assert model.SPACE_BYTES == convolution_problem.SPACE_BYTES
    assert (model.RESERVED_BYTES, model.MULTIPROCESSOR_BYTES) == (SYSTEM_BYTES, MULTIPROCESSOR_BYTES)
    limits = convolution_direct.LONGEST, convolution_direct.MOST_TAPS, convolution_direct.MOST_CHANNEL_TAPS
    assert limits == (model.LONGEST, model.MOST_TAPS, model.MOST_CHANNEL_TAPS)


def test_radices_differ_as_little_as_possible() -> None:
    assert [radices(n) for n in (7, 64, 144, 126)] == [(7,), (8, 8), (12, 12), (9, 14)]
    assert radices(16, 2) == (4, 4)
    assert radices(17) == ()


@pytest.mark.parametrize("order", [(5,), (2, 3), (2, 3, 4)])
def test_twiddle_factors_follow_the_passes(order: tuple[int, ...]) -> None:
    """Decimation in frequency with these factors is the transform in the order of reversed digits."""
    n = math.prod(order)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    factors, v, m, at = table(order), x.copy(), n, 0
    for radix in order:
        parts = m // radix
        blocks = v.reshape(-1, radix, parts)
        blocks[...] = np.fft.fft(blocks, axis=1)
        if parts > 1:
            count = (radix - 1) * parts
            blocks[:, 1:] *= factors[at : at + count].reshape(radix - 1, parts)
            at += count
        m = parts
    assert at == len(factors)
    expected = np.fft.fft(x).reshape(order[::-1]).transpose().ravel()
    assert np.allclose(v, expected, rtol=0, atol=1e-12)


def test_tiles_fill_a_multiprocessor() -> None:
    large, small = geometry((144, 144), 4), geometry((32, 32), 4)
    assert (large.orders, large.threads, large.resident, large.lines) == (((12, 12), (12, 12)), 864, 1, 1)
    assert large.shared == (144 * 145 + 2 * 132) * 8
    assert (small.threads, small.resident) == (64, 16)
    assert large.points == 144 * 144
    assert large.template == "864, 1, Radices<12, 12>, Radices<12, 12>"
    assert geometry((96, 144), 8).resident == 1


def test_short_lines_share_a_block() -> None:
    each = geometry((256,), 4)
    assert (each.lines, each.orders) == (8, ((16, 16),))
    assert each.shared == 8 * (256 + 16 + 1) * 8
    assert each.template == f"8, {each.threads}, Radices<16, 16>"
    assert geometry((4096,), 4).lines == 1


@pytest.mark.parametrize(
    ("shape", "batch", "found"),
    [
        ((), (4, 5), (1, 1)),
        ((1, 1), (4, 5), (1, 1)),
        ((4, 5), (4, 5), (1, 20)),
        ((5,), (4, 5), (1, 5)),
        ((4, 1), (4, 5), (5, 4)),
        ((3, 1), (2, 3, 4), (4, 3)),
        ((2, 1, 4), (2, 3, 4), None),
    ],
)
def test_a_batch_finds_its_planes(shape, batch, found) -> None:
    assert mapping(shape, batch) == found
    if found is not None:
        numbers = np.arange(math.prod(shape)).reshape(shape)
        expected = np.broadcast_to(numbers, batch).ravel()
        assert np.array_equal(np.arange(math.prod(batch)) // found[0] % found[1], expected)


# ------------------------------------------------------------------ plans

LARGE = (16, 64, 224, 224)


@pytest.mark.parametrize(
    ("kernel", "groups", "method"),
    [(3, 64, "direct"), (7, 64, "direct"), (15, 64, "tiles"), (31, 64, "fft"), (7, 1, "tiles")],
)
def test_the_cost_model_chooses(kernel: int, groups: int, method: str) -> None:
    plan = layer_plan(LARGE, (64, 64 // groups, kernel, kernel), padding="same", groups=groups)
    assert (plan.backend, plan.method) == ("cuda", method)
    assert plan.cost.seconds == min(seconds for _, seconds in plan.seconds)
    assert f"method: {method}" in plan.explain()


def test_explain_says_how_kernels_run() -> None:
    tiles = layer_plan(LARGE, (64, 1, 15, 15), padding="same", groups=64).explain()
    assert "lengths 128x128, chosen by 'auto': overlap-save; a NaN reaches the tiles that contain it\n" in tiles
    how = (
        "spectra of the kernels; tiles forward, product and inverse in one, neighbouring columns as one complex column"
    )
    assert f"runs: 2 kernels: {how}; radices 8*16 x 8*16\n" in tiles
    strided = layer_plan(LARGE, (64, 1, 15, 15), padding=7, groups=64, stride=2, method="tiles").explain()
    assert "asked for: overlap-save; a NaN reaches the two tiles of its image that share a transform\n" in strided
    assert "tiles forward, product and inverse in one, two tiles of an image as one complex one; radices" in strided
    dense = layer_plan((2, 8, 64, 64), (8, 8, 9, 9), method="tiles").explain()
    assert (
        "runs: 4 kernels: spectra of the weights, tiles forward, sums over channels, tiles back, neighbouring" in dense
    )
    assert "one result a thread" in layer_plan((1, 1, 9, 9), (1, 1, 3, 3), stride=2).explain()
    assert "32 results a thread" in layer_plan((1, 1, 9, 9), (1, 1, 3, 3)).explain()
    assert "8 results of a plane a thread, plane after plane" in signal_plan((9, 9, 9), (3, 3, 3)).explain()
    assert "8 results for each of several channels a thread" in layer_plan((1, 2, 9, 9), (1, 2, 3, 3)).explain()
    long = signal_plan((4, 8192), (8192,), mode="same", boundary="wrap", axes=-1, method="fft").explain()
    assert "product and inverse in one, neighbours as one complex number; radices 16*4*8*8\n" in long
    complex_lines = signal_plan((4, 4000), (50,), "complex64", method="tiles").explain()
    assert "two tiles of" not in complex_lines.split("runs: ")[1]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (lambda **o: signal_plan((2, 3, 4, 5), (2, 2, 2, 2), **o), "kernels take 1 to 3 axes, not 4"),
        (
            lambda **o: signal_plan((4096, 4096), (255, 255), "complex64", mode="same", **o),
            "no tile of the kernel's size fits a block, and direct sums would take longer than cuFFT",
        ),
        (
            lambda **o: signal_plan((400, 400), (3, 3), "complex64", method="fft", **o),
            "one tile for everything does not fit a block",
        ),
        (
            lambda **o: signal_plan((400, 400), (200, 200), "complex64", method="tiles", **o),
            "a tile of the kernel's size does not fit a block",
        ),
        (
            lambda **o: signal_plan((2, 2, 20000), (3, 3, 3), method="fft", **o),
            "one tile for everything does not fit a block",
        ),
        (
            lambda **o: signal_plan((5, 8, 9), (3, 3, 3), method="tiles", **o),
            "tiles along three axes must fit a block, and be shorter than one transform of everything",
        ),
        (
            lambda **o: layer_plan((1, 2, 400, 400), (1, 2, 3, 3), method="fft", **o),
            "one tile for everything does not fit",
        ),
    ],
    ids=["4d", "large-kernel", "whole", "tile", "long-volume", "small-volume", "layer"],
)
def test_what_kernels_do_not_cover_runs_on_cupy(plan, reason: str) -> None:
    found = plan()
    assert found.backend == "cupy"
    assert f"(no kernels: {reason}" in found.explain()
    with pytest.raises(UnsupportedError, match=rf"backend is 'cuda', but must be 'cupy' .*: {re.escape(reason)}"):
        plan(backend="cuda")
    with pytest.raises(UnsupportedError, match="but must be one without kernels: "):
        convolution.algorithm(replace(found, backend="cuda"))


def test_plans_that_name_cupy_are_passed_over_for_no_reason() -> None:
    plan = signal_plan((40,), (3,), backend="cupy")
    assert plan.cost.engine == "scipy"
    assert "no kernels" in plan.explain()
    assert "no kernels" not in signal_plan((40,), (3,)).explain()


def test_a_device_of_less_shared_memory_gets_smaller_tiles() -> None:
    def sums(shared: int) -> DeviceSums:
        return DeviceSums(
            (31, 31), (31, 31), (224, 224), (1, 1), 1024, 64, 1024, 1, 1, (True, False), 1, (0, 0), (224, 224),
            (239, 239), True, shared,
        )  # fmt: skip

    large = {cost.method: cost for cost in sums(227 * 1024).costs()}["tiles"]
    small = {cost.method: cost for cost in sums(99 * 1024).costs()}["tiles"]
    assert large.lengths == (105, 256)
    assert math.prod(small.lengths) * 8 < 99 * 1024
    assert large.seconds < small.seconds


def test_a_tile_that_does_not_fit_the_device_is_refused() -> None:
    plan = so.plan_fft_conv2d(
        LARGE, "complex64", ArraySpec((64, 1, 31, 31), "float32"), padding="same", groups=64, device="cuda"
    )
    message = (
        r"^fft_conv2d: a tile of 105 x 256 takes 218520 bytes of shared memory, but must take at most 1024; plan on"
    )
    with pytest.raises(UnsupportedError, match=message):
        convolution.Prepared(plan, launch.Device(0, 4, 1024), np)


def test_a_circular_convolution_of_a_good_length_needs_no_overlap() -> None:
    plan = signal_plan((8, 1024), (1024,), mode="same", boundary="wrap", axes=-1, method="fft")
    assert plan.lengths == (1024,)
    assert signal_plan((8, 1024), (1024,), mode="same", axes=-1, method="fft").lengths == (1536,)
    assert signal_plan((8, 1024), (1024,), mode="full", boundary="wrap", axes=-1, method="fft").lengths != (1024,)


@pytest.mark.parametrize(
    ("plan", "kernel"),
    [
        (lambda: layer_plan((1, 2, 9, 9), (2, 1, 3, 3), groups=2), "direct_planes"),
        (lambda: layer_plan((1, 2, 9, 9), (2, 1, 3, 3), groups=2, dilation=2), "direct_any"),
        (lambda: layer_plan((1, 2, 9, 9), (2, 1, 3, 3), groups=2, stride=(1, 2)), "direct_any"),
        (lambda: layer_plan((1, 2, 9, 9), (2, 2, 3, 3)), "direct_channels"),
        (lambda: layer_plan((1, 2, 19, 19), (2, 2, 7, 7), method="direct"), "direct_any"),
        (lambda: layer_plan((1, 1, 39, 39), (1, 1, 12, 2), method="direct"), "direct_any"),
        (lambda: signal_plan((9, 9), (3, 3)), "direct_planes"),
        (lambda: signal_plan((9, 9), (3, 3), "complex64"), "direct_any"),
        (lambda: signal_plan((9,), (3,)), "direct_any"),
        (lambda: signal_plan((9, 9, 9), (3, 3, 3)), "direct_volumes"),
        (lambda: signal_plan((9, 9, 9), (3, 3, 3), "complex64"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (9, 6, 6), method="direct"), "direct_volumes"),
        (lambda: signal_plan((29, 29, 29), (9, 6, 7), method="direct"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (10, 1, 1), method="direct"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (1, 1, 12), method="direct"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (5, 1, 1), "float64", method="direct"), "direct_volumes"),
        (lambda: signal_plan((29, 29, 29), (6, 1, 1), "float64", method="direct"), "direct_any"),
    ],
)
def test_direct_sums_have_four_kernels(plan, kernel: str) -> None:
    assert family(problem(plan())) == kernel


def test_flops_and_bytes_are_exact() -> None:
    direct = layer_plan((2, 3, 9, 8), (4, 3, 3, 3), method="direct")
    assert direct.flops == 2 * (2 * 4 * 7 * 6) * 3 * 9
    assert direct.bytes_moved == 4 * (2 * 3 * 9 * 8 + 4 * 3 * 9 + 2 * 4 * 7 * 6)


# ------------------------------------------------------------------ kernels on the host

SELECTED = [
    ("1d-tiles", "float32"),
    ("1d-kernel-longer-tiles", "float64"),
    ("complex-times-real-tiles", "complex64"),
    ("2d-valid-tiles", "float32"),
    ("axes-outer-tiles", "float64"),
    ("2d-fill", "complex64"),
    ("2d-symm", "float32"),
    ("2d-wrap-full", "float32"),
    ("3d-direct", "float32"),
    ("batch-both-broadcast", "float32"),
    ("batch-empty", "float32"),
    ("circular", "float32"),
    ("stride-dilation-groups-tiles", "float32"),
    ("depthwise-direct", "float64"),
    ("complex-times-real-direct", "complex64"),
    ("reflect", "float32"),
    ("silu-tiles", "float32"),
    *((f"{activation}-direct", "float32") for activation in ("relu", "gelu", "gelu_tanh", "tanh")),
]
VARIANTS = [
    Variant(case, BACKEND, dtype)
    for name, dtype in SELECTED
    for case in CASES
    if case.name == name and case.op in _support.CONVOLUTION
]


@on_host
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_kernels_match_the_reference(variant: Variant) -> None:
    with backend():
        run(variant)


@pytest.fixture
def host():
    """The backend on the host, for a test."""
    with backend(HostRunner()) as runner:
        yield runner


def reference(function: Any, *arrays: np.ndarray, **options: Any) -> np.ndarray:
    return function(*arrays, backend="reference", **options)


@on_host
def test_nan_stays_in_its_image(host, rng) -> None:
    x = rng.standard_normal((2, 2, 20, 20)).astype(np.float32)
    x[0, 1, 3, 4] = np.nan
    weight = rng.standard_normal((2, 1, 4, 3)).astype(np.float32)
    y = so.fft_conv2d(x, weight, groups=2, method="tiles", backend=BACKEND)
    assert np.isnan(y[0, 1, 0:4, 2:5]).all()
    assert np.isfinite(y[1]).all()
    assert np.isfinite(y[0, 0]).all()


@on_host
def test_adjoints_of_a_strided_layer(host, rng) -> None:
    plan = so.plan_fft_conv2d(
        (1, 2, 8, 9), "f8", ArraySpec((4, 1, 3, 2), "float64"), stride=(2, 1), padding=1, groups=2, method="direct",
        backend=BACKEND,
    )  # fmt: skip
    x, w = rng.standard_normal((1, 2, 8, 9)), rng.standard_normal((4, 1, 3, 2))
    y = rng.standard_normal(plan.out_shape)
    assert np.vdot(plan(x, w), y) == pytest.approx(np.vdot(x, plan.adjoint()(y, w)), rel=1e-12)


@on_host
@pytest.mark.parametrize(("n", "k"), [(9, 4), (4, 9)], ids=["kernel-shorter", "kernel-longer"])
def test_adjoints_of_a_complex_convolution(host, rng, n: int, k: int) -> None:
    x, y = (rng.standard_normal(m) + 1j * rng.standard_normal(m) for m in (n, n + k - 1))
    w = rng.standard_normal(k) + 1j * rng.standard_normal(k)
    plan = so.plan_convolve(n, "c16", ArraySpec((k,), "complex128"), method="direct", backend=BACKEND)
    assert np.vdot(plan(x, w), y) == pytest.approx(np.vdot(x, plan.adjoint()(y, w)), rel=1e-12)


@on_host
def test_batches_that_follow_no_rule_are_laid_out(host, rng) -> None:
    x, kernel = rng.standard_normal((2, 3, 2, 9)), rng.standard_normal((2, 1, 2, 3))
    expected = reference(so.convolve, x, kernel, axes=-1)
    assert_close(so.convolve(x, kernel, axes=-1, backend=BACKEND), expected, 4 * EPS["float64"])


@on_host
def test_sums_over_channels_slice_by_slice(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 4, 20, 12), (2, 2, 3, 3)))
    options = {"groups": 2, "method": "tiles", "backend": BACKEND}
    bias = rng.standard_normal(2).astype(np.float32)
    whole = so.fft_conv2d(x, weight, bias, **options)
    count = len(host.launched)
    monkeypatch.setattr(convolution_tiles, "SPACE_BYTES", 1)
    convolution._prepared.clear()
    sliced = so.fft_conv2d(x, weight, bias, **options)
    assert len(host.launched) > 2 * count
    assert np.array_equal(whole, sliced)
    assert_close(sliced, reference(so.fft_conv2d, x, weight, bias, groups=2), 12 * EPS["float32"])


@on_host
def test_a_layer_of_small_images(host, rng) -> None:
    x, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 10, 11), (3, 1, 3, 4), (3,)))
    options = {"groups": 3, "padding": "same", "epilogue": so.Epilogue(0.5, (1, 2, 3), "tanh")}
    found = so.fft_conv2d(x, weight, bias, method="fft", backend=BACKEND, **options)
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == ["pair_spectra", "pair_filter"]
    assert_close(found, reference(so.fft_conv2d, x, weight, bias, **options), 12 * EPS["float32"])


@on_host
def test_a_complex_bias(host, rng) -> None:
    x, weight = rng.standard_normal((1, 1, 5, 5)), rng.standard_normal((2, 1, 2, 2))
    bias = rng.standard_normal(2) + 1j * rng.standard_normal(2)
    found = so.fft_conv2d(x, weight, bias, backend=BACKEND, epilogue=so.Epilogue(2.0, -1.0))
    expected = reference(so.fft_conv2d, x, weight, bias, epilogue=so.Epilogue(2.0, -1.0))
    assert_close(found, expected, 4 * EPS["float64"])


@on_host
@pytest.mark.parametrize("width", [12, 13], ids=["whole-quads", "odd"])
def test_planes_that_do_and_do_not_begin_at_whole_quads(host, rng, width: int) -> None:
    buffer = rng.standard_normal(2 * 9 * width + 1).astype(np.float32)
    x, weight = buffer[1:].reshape(1, 2, 9, width), rng.standard_normal((2, 1, 3, 3)).astype(np.float32)
    out = np.empty(2 * 9 * width + 1, np.float32)[1:].reshape(x.shape)
    found = so.fft_conv2d(x, weight, groups=2, padding=1, method="direct", backend=BACKEND, out=out)
    assert_close(found, reference(so.fft_conv2d, x, weight, groups=2, padding=1), 4 * EPS["float32"])


@on_host
@pytest.mark.parametrize("method", ["direct", "tiles"])
def test_results_whose_complex_numbers_straddle_words(host, rng, method: str) -> None:
    """A view of floats: kernels store whole complex numbers, so they get memory that begins at one."""
    x = (rng.standard_normal((2, 20)) + 1j * rng.standard_normal((2, 20))).astype(np.complex64)
    numbers = np.zeros(2 * 40 + 1, np.float32)
    first = 1 if numbers.ctypes.data % 8 == 0 else 0
    out = numbers[first : first + 80].view(np.complex64).reshape(2, 20)
    assert out.ctypes.data % 8 == 4
    kernel = np.ones((1, 3), np.complex64)
    assert so.convolve(x, kernel, mode="same", method=method, backend=BACKEND, out=out) is out
    assert_close(out, reference(so.convolve, x, kernel, mode="same"), 8 * EPS["float32"])


def test_programs_are_made_once() -> None:
    with backend(Recorder()) as runner:
        plan = so.plan_convolve((40, 40), "f4", ArraySpec((3, 3), "float32"), method="tiles", backend=BACKEND)
        x, kernel = np.ones((40, 40), np.float32), np.ones((3, 3), np.float32)
        plan(x, kernel)
        first = convolution.prepared(plan, runner, np)
        plan(x, kernel)
        assert convolution.prepared(plan, runner, np) is first
        names = [kernel.name.partition("<")[0] for kernel in runner.launched]
        assert names == ["tile_spectra", "tile_filter"] * 2


def test_few_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution._prepared, "most", 1)
    with backend(Recorder()):
        for n in (5, 6):
            so.convolve(np.ones(n), np.ones(2), backend=BACKEND)
        assert len(convolution._prepared) == 1


def test_shared_memory_of_a_device_that_is_not_there() -> None:
    assert convolution.shared_bytes() in (227 * 1024, launch.cuda_runner.device().shared_bytes if _device() else 0)


def _device() -> bool:
    from conftest import cuda_device_count

    return cuda_device_count() > 0


# ------------------------------------------------------------------ kernels on a device

LAYERS = [
    ((2, 4, 60, 52), (4, 1, 31, 31), {"groups": 4, "padding": "same"}),
    ((2, 4, 60, 52), (4, 1, 7, 7), {"groups": 4, "padding": "same", "method": "direct"}),
    ((2, 3, 61, 50), (5, 3, 9, 9), {"padding": 4, "method": "tiles"}),
    ((2, 3, 33, 35), (5, 3, 3, 3), {"padding": 1, "method": "direct"}),
    ((1, 2, 300, 310), (4, 1, 51, 49), {"groups": 2, "padding": 25, "stride": 2, "method": "tiles"}),
]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("x", "weight", "options"), LAYERS, ids=str)
def test_layers_match_torch_on_gpu(x, weight, options, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a, w = (torch.randn(shape, dtype=torch.float64, device="cuda") for shape in (x, weight))
    others = {name: value for name, value in options.items() if name != "method"}
    expected = torch.nn.functional.conv2d(a, w, **others)
    kind = getattr(torch, dtype)
    plan = so.plan_fft_conv2d(x, dtype, ArraySpec(weight, dtype), device="cuda", **options)
    assert plan.backend == "cuda"
    found = plan(a.to(kind), w.to(kind))
    assert_close(found.double().cpu(), expected.cpu(), 16 * EPS[dtype])


@pytest.mark.gpu
def test_calls_are_captured_in_a_graph() -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.randn(2, 4, 60, 52, device="cuda"), torch.randn(4, 1, 15, 15, device="cuda")
    plan = so.plan_fft_conv2d(tuple(x.shape), "float32", ArraySpec(tuple(w.shape), "float32"), groups=4, method="tiles",
                              device="cuda")  # fmt: skip
    out = plan(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(x, w, out=out)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, plan(x, w))
