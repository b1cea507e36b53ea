"""Arrays that the CUDA kernels read and write in 16 bits: one rounding, of the result, and nothing besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda_on_host
import numpy as np
import nvrtc
import pytest
from conformance import CASES, Variant
from cuda_on_host import BACKEND, HostRunner, Recorder, backend
from support import random_array

import spectralops as so
from spectralops import UnsupportedError, _dispatch, _support
from spectralops._arrays import ArraySpec
from spectralops._cuda import geometry, module, spectral_filter_layout, spectral_filter_program, stages
from spectralops._cuda.launch import Kernel

pytest.importorskip("ml_dtypes")
on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")

# Half a unit in the last place, relative to the value.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
KINDS = {"float16": "float16_t", "bfloat16": "bfloat16_t"}
GAUSSIAN, SHIFT = so.transfer.gaussian(1.0), so.transfer.shift(0.3)
WEIGHT = np.random.default_rng(1)


def complex_weight(*shape: int) -> np.ndarray:
    return WEIGHT.standard_normal(shape) + 1j * WEIGHT.standard_normal(shape)


def layer(*modes: int, channels: tuple[int, ...] = (2, 4)) -> Callable[..., Any]:
    weight = complex_weight(*channels, *modes)
    return lambda x, **tail: so.spectral_conv(x, beside(x, weight), axes=tuple(range(-len(modes), 0)), **tail)


def beside(x: Any, array: np.ndarray) -> Any:
    """The array in the library and on the device of x."""
    if type(x).__module__ == "torch":
        import torch

        return torch.from_numpy(array).to(x.device)
    return array if isinstance(x, np.ndarray) else __import__("cupy").asarray(array)


def line(transfer: Any = GAUSSIAN, **options: Any) -> Callable[..., Any]:
    return lambda x, **tail: so.spectral_filter(x, transfer, axes=-1, **options, **tail)


def taps(**options: Any) -> Callable[..., Any]:
    return lambda x, k, **tail: so.convolve(x, k, mode="same", **options, **tail)


def channels(**options: Any) -> Callable[..., Any]:
    return lambda x, k, *b, **tail: so.fft_conv2d(x, k, *b, padding="same", **options, **tail)


# name -> shapes of the arrays, the call, kernels that it launches
CALLS: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[..., Any], set[str]]] = {
    "packed line": (((3, 24),), line(), {"rows_filter"}),
    "odd line": (((3, 15),), line(), {"rows_filter"}),
    "padded line": (((2, 10),), line(SHIFT, pad_width=3, pad_mode="reflect"), {"rows_filter"}),
    "image": (((2, 6, 8),), lambda x, **tail: so.spectral_filter(x, GAUSSIAN, **tail), {"rows_forward", "columns"}),
    "odd image": (((2, 5, 8),), lambda x, **tail: so.spectral_filter(x, GAUSSIAN, **tail), {"rows_inverse", "columns"}),
    "image in a block": (((1, 32, 16),), lambda x, **tail: so.spectral_filter(x, GAUSSIAN, **tail), {"planes_filter"}),
    "volume": (
        ((1, 4, 32, 16),),
        lambda x, **tail: so.spectral_filter(x, GAUSSIAN, axes=(1, 2, 3), **tail),
        {"planes_forward", "planes_inverse"},
    ),
    "layer of lines": (((2, 2, 16),), layer(5), {"rows_forward", "rows_inverse"}),
    "layer of images": (((1, 2, 6, 8),), layer(4, 5), {"rows_forward", "columns", "rows_inverse"}),
    "layer of images in a block": (((1, 2, 32, 16),), layer(6, 5), {"planes_forward", "planes_inverse"}),
    "direct sums": (((2, 20), (5,)), taps(method="direct"), {"direct_any"}),
    "direct sums of planes": (((2, 9, 12), (3, 3)), taps(method="direct"), {"direct_planes"}),
    "direct sums over channels": (((1, 3, 9, 10), (4, 3, 3, 3), (4,)), channels(method="direct"), {"direct_channels"}),
    "tiles": (((2, 40, 35), (5, 4)), taps(method="tiles"), set()),
    "tiles over channels": (
        ((1, 3, 20, 22), (4, 3, 5, 5)), channels(method="tiles"), set(),
    ),
    "tiles of a line": (((2, 701), (9,)), taps(method="tiles"), {"line_spectra", "line_filter"}),
}  # fmt: skip
DTYPES = ("bfloat16", "float16")
# Those that are run on the host, each kernel of which takes seconds to build; all are compiled, and run on a device.
ON_HOST = ("packed line", "odd image", "image in a block", "direct sums of planes", "direct sums over channels")


def close(found: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """As near as one rounding and what float32 arithmetic allow."""
    assert found.dtype.name == dtype
    error = np.abs(found.astype(np.float64) - expected)
    assert (error <= ROUNDING[dtype] * np.abs(expected) + 1e-5 * np.abs(expected).max()).all()


@pytest.fixture
def host():
    with backend() as runner:
        yield runner


def arrays_of(rng: np.random.Generator, shapes: tuple[tuple[int, ...], ...], dtype: str) -> list[np.ndarray]:
    return [random_array(rng, shape, dtype) for shape in shapes]


@on_host
@pytest.mark.parametrize("name", ON_HOST)
def test_a_result_is_rounded_once(host: HostRunner, rng, name: str) -> None:
    dtype = DTYPES[list(CALLS).index(name) % 2]
    shapes, call, kernels = CALLS[name]
    arrays = arrays_of(rng, shapes, dtype)
    result = call(*arrays, backend=BACKEND)
    launched = {kernel.name.partition("<")[0]: kernel.name for kernel in host.launched}
    assert kernels <= set(launched)
    assert all(KINDS[dtype] in launched[kernel] for kernel in kernels - {"columns"})
    assert KINDS[dtype] in host.launched[-1].name
    close(result, call(*[x.astype(np.float64) for x in arrays], backend="numpy"), dtype)


@on_host
def test_lines_of_two_blocks(host: HostRunner, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their halves meet in scratch memory, which holds as many lines as there are at a time."""
    usual = geometry.row_geometry
    monkeypatch.setattr(
        spectral_filter_layout, "row_geometry", lambda n, *a, **k: None if n >= 32 else usual(n, *a, **k)
    )
    monkeypatch.setattr(spectral_filter_layout, "spread_lines", lambda *arguments: None)  # no clusters
    (x,) = arrays_of(rng, ((6, 72),), "float16")
    result = so.spectral_filter(x, GAUSSIAN, axes=-1, backend=BACKEND)
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == ["halves_filter", "halves_join"] * 2
    close(result, so.spectral_filter(x.astype(np.float64), GAUSSIAN, axes=-1, backend="numpy"), "float16")


@pytest.mark.parametrize(("n", "order"), [(8192, (1, 1)), (16384, (4, 3))])
def test_long_lines_are_done_in_the_order_of_their_filters(n: int, order: tuple[int, int]) -> None:
    """So that a filter as long as the lines that share it is read from memory once."""
    plan = so.plan_spectral_filter(
        (4, 3, n), "float16", ArraySpec((3, n // 2 + 1), "complex64"), axes=-1, backend="cuda", device="cuda"
    )
    symbol = (np.zeros((3, n // 2 + 1), np.complex64),)
    ready = spectral_filter_program.Prepared(plan, symbol, Recorder().device(), np)
    (step,) = ready.program.steps
    arguments = step.words[5].view(geometry.FILTER)
    assert (arguments["beside"].item(), arguments["apart"].item()) == order


@on_host
def test_lines_that_share_a_filter_out_of_order(host: HostRunner, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral_filter_program, "LONG_BYTES", 0)
    (x,) = arrays_of(rng, ((5, 3, 24),), "bfloat16")
    h = rng.standard_normal((3, 13)).astype(np.float32)
    result = so.spectral_filter(x, h, axes=-1, backend=BACKEND)
    close(result, so.spectral_filter(x.astype(np.float64), h, axes=-1, backend="numpy"), "bfloat16")


@on_host
def test_weight_gradients_of_fields_in_16_bits_are_complex(host: HostRunner, rng) -> None:
    x, g = arrays_of(rng, ((2, 2, 16), (2, 3, 16)), "bfloat16")
    result = so.spectral_conv_weight_gradient(x, g, 5, backend=BACKEND)
    wide = [array.astype(np.float64) for array in (x, g)]
    expected = so.spectral_conv_weight_gradient(*wide, 5, backend="numpy")
    assert result.dtype == np.complex64
    assert any("rows_forward<bfloat16_t" in kernel.name for kernel in host.launched)
    assert np.abs(result - expected).max() < 1e-6 * np.abs(expected).max()


@on_host
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_at_the_ends_of_the_range(host: HostRunner, dtype: str) -> None:
    """Subnormal, huge, infinite and NaN results are stored as IEEE 754 says."""
    kind = random_array(np.random.default_rng(0), (1,), dtype).dtype
    x = np.array([[3.0, 60000.0, -60000.0, 1e-7, -1e-7, 1.0, 0.0, -2.0]]).astype(kind)
    for factor in (1.0, 1.5, 0.01, np.inf, np.nan):
        found = so.convolve(x, np.array([factor]).astype(kind), method="direct", backend=BACKEND)
        with np.errstate(all="ignore"):
            expected = (x.astype(np.float32) * np.float32(kind.type(factor))).astype(kind)
        assert np.array_equal(found.astype(np.float32), expected.astype(np.float32), equal_nan=True)


@on_host
def test_strides_axes_and_results_of_other_layouts(host: HostRunner, rng) -> None:
    (x,) = arrays_of(rng, ((24, 2, 3),), "bfloat16")
    out = np.zeros((24, 2, 6), x.dtype)[..., ::2]
    expected = so.spectral_filter(x.astype(np.float64), GAUSSIAN, axes=0, backend="numpy")
    assert so.spectral_filter(x, GAUSSIAN, axes=0, out=out, backend=BACKEND) is out
    close(out, expected, "bfloat16")
    shifted = np.zeros(x.size + 1, x.dtype)[1:].reshape(3, 2, 24)
    so.spectral_filter(x.T, GAUSSIAN, axes=-1, out=shifted, backend=BACKEND)
    close(shifted.T, expected, "bfloat16")


@on_host
def test_a_kernel_of_another_dtype_is_computed_in_float32(host: HostRunner, rng) -> None:
    x, k = rng.standard_normal((2, 20)).astype(np.float16), rng.standard_normal(5).astype(np.float32)
    result = so.convolve(x, k, mode="same", axes=-1, backend=BACKEND)
    assert result.dtype == np.float32
    assert not any("float16_t" in kernel.name for kernel in host.launched)


@on_host
def test_torch_tensors_in_16_bits(host: HostRunner, rng) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rng.standard_normal((3, 24)).astype(np.float32)).bfloat16()
    out = torch.empty_like(x)
    assert so.spectral_filter(x, GAUSSIAN, axes=-1, out=out, backend=BACKEND) is out
    result = so.spectral_filter(x, GAUSSIAN, axes=-1, backend=BACKEND)
    assert result.dtype is torch.bfloat16
    assert torch.equal(result, out)
    expected = so.spectral_filter(x.double().numpy(), GAUSSIAN, axes=-1, backend="numpy")
    assert np.abs(result.double().numpy() - expected).max() <= 2.0**-8 * np.abs(expected).max()
    assert any("bfloat16_t" in kernel.name for kernel in host.launched)


@on_host
def test_observers_see_numbers(host: HostRunner, rng) -> None:
    (x,) = arrays_of(rng, ((3, 24),), "bfloat16")
    seen: list[Any] = []
    with _dispatch.observe(lambda plan, arrays, result: seen.append((arrays[0], result))):
        y = so.spectral_filter(x, GAUSSIAN, axes=-1, backend=BACKEND)
    ((field, result),) = seen
    assert np.array_equal(field, x.astype(np.float32))
    assert np.array_equal(result, y.astype(np.float32))
    with so.debug() as report:
        so.spectral_filter(x, GAUSSIAN, axes=-1, backend=BACKEND)
    assert report.calls == 1


def test_the_kernels_and_the_dispatcher_agree_on_what_is_stored() -> None:
    """Of every case that has fields in 16 bits."""
    count = 0
    with backend(Recorder()):
        for case in CASES:
            row = _support.SUPPORT.get((case.op, BACKEND))
            if row is None or not row.stored or "float32" not in case.dtypes:
                continue
            variant, plans = Variant(case, BACKEND, "float16"), []
            with _dispatch.observe(lambda plan, arrays, result, plans=plans: plans.append(plan)):
                try:
                    case.call(variant.function(), variant.arrays(), backend=BACKEND)
                except UnsupportedError:
                    continue
            for plan in plans:
                dtypes, kind = _support.passed(plan)
                count += 1
                if row.stored == _support.EACH:
                    names = {k: stages.in_memory(plan, k) for k, dtype in enumerate(dtypes) if dtype != "bool"}
                    assert all((name == "float16_t") == (dtypes[k] == "float16") for k, name in names.items())
                    assert dtypes[0] == kind
                    continue
                stored = geometry.stored_as(plan, row.stored)
                assert (stored == "float16_t") == (dtypes[0] == "float16")
                if kind == "float16":
                    assert stored == "float16_t"
    assert count > 60


# ------------------------------------------------------------------ machine code


def recorded() -> dict[str, list[Kernel]]:
    """One instantiation of every kernel that reads or writes 16 bits, by file."""
    recorder, small = Recorder(), Recorder(shared_bytes=geometry.SHARED_BYTES)
    rng = np.random.default_rng(0)
    with backend(recorder):
        for index, (shapes, call, _) in enumerate(CALLS.values()):
            call(*arrays_of(rng, shapes, DTYPES[index % 2]), backend=BACKEND)
    with backend(small):
        so.spectral_filter(np.zeros(32768, np.float16), GAUSSIAN, backend=BACKEND)
    found: dict[str, dict[str, Kernel]] = {}
    for kernel in recorder.launched + small.launched:
        if "float16_t" in kernel.name:
            found.setdefault(kernel.file, {}).setdefault(kernel.name.partition("<")[0], kernel)
    return {file: list(some.values()) for file, some in found.items()}


# Bytes that a kernel may spill: an address.
SPILLS = {"line_spectra": 16}
RECORDED = recorded() if nvrtc.available() else {}


@pytest.mark.skipif(not RECORDED, reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize(
    ("file", "arch"), [(file, "sm_90") for file in RECORDED] + [("halves.cu", "sm_80"), ("halves.cu", "sm_100")]
)
def test_compiles(file: str, arch: str) -> None:
    names = tuple(kernel.name for kernel in RECORDED[file])
    result = nvrtc.compile_text(module.assemble(file), names, arch, (*module.OPTIONS, "-DINDEX_T=int"))
    for name in names:
        assert result.names[name].encode() in result.code
        spilled = result.resources[result.names[name]][1]
        assert spilled <= SPILLS.get(name.partition("<")[0], 0), f"{name}: {spilled} bytes spilled"


def test_every_kernel_of_fields_is_recorded_in_16_bits() -> None:
    if not RECORDED:
        pytest.skip("NVRTC is not installed")
    names = {kernel.name.partition("<")[0] for some in RECORDED.values() for kernel in some}
    wanted = set().union(*(kernels for _, _, kernels in CALLS.values())) - {"columns"}
    assert names >= wanted | {"halves_filter", "halves_join"}


# ------------------------------------------------------------------ on a device


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_torch_on_a_device(rng, name: str, dtype: str) -> None:
    """The bits of the float32 result rounded, or its neighbour's where a sum was contracted differently."""
    torch = pytest.importorskip("torch")
    shapes, call, _ = CALLS[name]
    arrays = [torch.from_numpy(x.astype(np.float32)) for x in arrays_of(rng, shapes, dtype)]
    narrow = [x.cuda().to(getattr(torch, dtype)) for x in arrays]
    result = call(*narrow)
    assert result.dtype is narrow[0].dtype
    expected = call(*[x.double().numpy() for x in arrays], backend="numpy")
    found = random_array(rng, (1,), dtype).dtype
    close(result.float().cpu().numpy().astype(found), expected, dtype)
    out = torch.empty_like(result)
    assert call(*narrow, out=out) is out
    assert torch.equal(out, result)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_cupy_on_a_device(rng, name: str) -> None:
    cupy = pytest.importorskip("cupy")
    shapes, call, _ = CALLS[name]
    arrays = arrays_of(rng, shapes, "float16")
    result = call(*map(cupy.asarray, arrays))
    assert isinstance(result, cupy.ndarray)
    close(cupy.asnumpy(result), call(*[x.astype(np.float64) for x in arrays], backend="numpy"), "float16")


@pytest.mark.gpu
@pytest.mark.parametrize(
    "planned",
    [
        lambda shape: so.plan_spectral_filter(shape, "bfloat16", GAUSSIAN, axes=-1, device="cuda"),
        lambda shape: so.plan_diffusion_step(shape, "bfloat16", 1.0, 0.1, 1.0, steps=8, device="cuda"),
    ],
    ids=["filter", "steps"],
)
def test_nothing_is_cast_on_a_device(planned: Any) -> None:
    """A call in 16 bits launches the kernels and nothing else, and allocates no copy of its arrays."""
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    plan = planned(tuple(x.shape))
    out = plan(x)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        before = torch.cuda.memory_allocated()
        plan(x, out=out)
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() == before
    launched = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert len(launched) <= 1


@pytest.mark.gpu
def test_bfloat16_of_cupy_on_a_device(rng) -> None:
    cupy = pytest.importorskip("cupy")
    (x,) = arrays_of(rng, ((3, 24),), "bfloat16")
    try:
        there = cupy.asarray(x)
    except (TypeError, ValueError):
        pytest.skip("this CuPy has no bfloat16")
    result = so.spectral_filter(there, GAUSSIAN, axes=-1)
    assert result.dtype == x.dtype
    close(
        cupy.asnumpy(result), so.spectral_filter(x.astype(np.float64), GAUSSIAN, axes=-1, backend="numpy"), "bfloat16"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["image", "direct sums of planes"])
def test_a_captured_graph_on_a_device(rng, name: str) -> None:
    """No cast is among what is captured, so that nothing but a warm-up is needed."""
    torch = pytest.importorskip("torch")
    shapes, call, _ = CALLS[name]
    arrays = [torch.from_numpy(x.astype(np.float32)).cuda().bfloat16() for x in arrays_of(rng, shapes, "bfloat16")]
    call(*arrays)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(*arrays)
    arrays[0].neg_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, call(*arrays))
