"""Convolutions of the CUDA backend: the kernels on the host and on a device."""

from __future__ import annotations

from typing import Any

import cuda_on_host
import numpy as np
import pytest
from conformance import CASES, Variant
from cuda_on_host import BACKEND, HostRunner, Recorder, backend
from support import EPS, assert_close
from test_conformance import poison, run  # noqa: F401, the fixture poisons what the cases allocate

import spectralops as so
from spectralops import _support
from spectralops._arrays import ArraySpec
from spectralops._cuda import convolution, convolution_tiles, launch

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")


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
