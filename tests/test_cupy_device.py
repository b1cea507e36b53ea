"""CuPy arrays on their way to launches, by their addresses: with a stand-in for CuPy, and on a device."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import spectralops as so
from spectralops import _arrays, _device, _dispatch, _interchange, _ways


class Array(np.ndarray):
    """A CuPy array in the host's memory."""

    def __new__(cls, shape: Any, dtype: Any = np.float32, memory: Any = None, strides: Any = None) -> Array:
        if memory is None:
            return super().__new__(cls, shape, dtype)
        extent = np.dtype(dtype).itemsize + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        return super().__new__(cls, shape, dtype, (ctypes.c_char * extent).from_address(memory.ptr), 0, strides)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data, device_id=self.device.id)

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=getattr(self, "where", 0))


class Program:
    """Notes its launches."""

    def __init__(self) -> None:
        self.launched: list[Any] = []

    def launch(self, *arguments: Any) -> None:
        self.launched.append(arguments)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in: device 0 is current, and stream 5."""
    fake = SimpleNamespace(current=0, ndarray=Array, empty=Array)
    stream = SimpleNamespace(ptr=5, is_capturing=lambda: False)
    fake.cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: fake.current), get_current_stream=lambda: stream
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setitem(_arrays._library_of_type, Array, "cupy")
    monkeypatch.setitem(_arrays.native_devices, Array, "cuda")
    _ways.kept.clear()
    yield fake
    _ways.kept.clear()


def prepared(program: Program, space_bytes: int = 0) -> Any:
    return SimpleNamespace(
        space_bytes=space_bytes, calls=lambda operands, out, space: [(program, [*operands, out, space])]
    )


def arrays(program: Program, space_bytes: int = 0) -> tuple[_device.DirectArrays, list[int]]:
    """Launches for x (2, 4) in float32 and h (4,) in complex64, whose result is like x; and what scratch was asked."""
    asked: list[int] = []

    def scratch(nbytes: int) -> Any:
        asked.append(nbytes)
        return SimpleNamespace(data=SimpleNamespace(ptr=4096))

    kinds = np.dtype("float32"), np.dtype("complex64")
    looks = [((2, 4), kinds[0]), ((4,), kinds[1]), ((2, 4), kinds[0])]
    return _device.DirectArrays(prepared(program, space_bytes), 0, looks, scratch), asked


def at(offset: int, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """An array that begins so many bytes after a multiple of 64."""
    memory = Array((256,), np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return memory[begin : begin + nbytes].view(dtype).reshape(shape)


def test_arrays_are_launched_by_address(cupy: Any) -> None:
    program, x, h = Program(), at(0, (2, 4)), at(16, (4,), np.complex64)
    direct, asked = arrays(program)
    y = direct((x, h))
    assert (type(y), y.shape, y.dtype) == (Array, (2, 4), np.float32)
    assert program.launched == [(0, 5, [x.ctypes.data, h.ctypes.data, y.ctypes.data, 0])]
    assert not asked
    direct, asked = arrays(program, 100)
    out = at(0, (2, 4))
    assert direct((x, h), out) is out
    assert program.launched[-1] == (0, 5, [x.ctypes.data, h.ctypes.data, out.ctypes.data, 4096])
    assert asked == [100]


OTHERS: dict[str, Callable[[], Any]] = {
    "strides": lambda: at(0, (4, 2)).T,
    "alignment": lambda: at(8, (2, 4)),
    "shape": lambda: at(0, (4, 2)),
    "dtype": lambda: at(0, (2, 4), np.int32),
    "byte order": lambda: at(0, (2, 4), ">f4"),
    "library": lambda: np.zeros((2, 4), np.float32),
}


@pytest.mark.parametrize("name", OTHERS)
def test_arrays_are_launched_only_as_planned(cupy: Any, name: str) -> None:
    program = Program()
    direct, _ = arrays(program)
    x, h, other = at(0, (2, 4)), at(0, (4,), np.complex64), OTHERS[name]()
    assert direct((other, h)) is None
    assert direct((x, h), other) is None
    assert not program.launched


def test_arrays_are_launched_only_on_their_device_and_apart(cupy: Any) -> None:
    program = Program()
    direct, _ = arrays(program)
    x, h = at(0, (2, 4)), at(0, (4,), np.complex64)
    assert direct((x,)) is None
    assert direct((x, h, h)) is None
    both = at(0, (4, 4))
    assert direct((both[:2], h), both[1:3]) is None
    assert direct((both[1:3], h), both[:2]) is None
    assert direct((x, h), x) is None
    assert direct((both[:2], h), both[2:]) is not None
    count = len(program.launched)
    x.where = 1
    assert direct((x, h)) is None
    x.where, cupy.current = 0, 1
    assert direct((x, h)) is None
    assert len(program.launched) == count


def test_size_one_axes_may_have_any_stride(cupy: Any) -> None:
    program, kind = Program(), np.dtype("float32")
    direct = _device.DirectArrays(prepared(program), 0, [((1, 4), kind)] * 2, lambda nbytes: None)
    assert direct((at(0, (2, 8))[:1, :4],)) is not None


def test_plans_go_by_address_from_the_second_call_on(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from spectralops._cuda import by_address

    program, made = Program(), []
    monkeypatch.setattr(by_address, "prepared", lambda plan: made.append(plan) or prepared(program))
    plan = so.plan_diffusion_step((4, 8), "float32", 1.0, 0.1, 1.0, device="cuda")
    x, out = at(0, (4, 8)), at(0, (4, 8))
    assert plan(x).shape == (4, 8)
    described: list[Any] = []
    describe = _arrays.describe
    monkeypatch.setattr(_arrays, "describe", lambda *a: described.append(a) or describe(*a))
    assert plan(x, out=out) is out
    assert (len(program.launched), described) == (2, [])
    for _ in range(2):
        assert so.diffusion_step(x, 1.0, 0.1, 1.0).shape == (4, 8)
    assert len(described) == 1, "the first time"
    assert (len(made), len(program.launched)) == (1, 4)
    seen: list[Any] = []
    monkeypatch.setattr(_dispatch, "_call", lambda plan, native, result, threads: seen.append(native))
    with _dispatch.observe(lambda *_: None):
        plan(x)
    plan(x.T.copy().T)
    assert len(seen) == 2
    with pytest.raises(ValueError, match=r"^diffusion_step: u has shape"):
        plan(at(0, (8, 4)))
    with pytest.raises(ValueError, match="must be None for arrays on a GPU"):
        plan(x, workers=2)
    with pytest.raises(ValueError, match="out overlaps an input"):
        plan(x, out=x)


def test_arrays_that_are_not_aligned_are_copied(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels, CuPy's own too, cannot read them."""
    home = _arrays.Home("cupy", "cuda:0")
    x = at(2, (3, 4))
    x[...] = np.arange(12).reshape(3, 4)
    for given in (x, x.T, x[:, ::2]):
        native = _interchange.adopt(given, "float32", home)
        assert native.ctypes.data % 4 == 0
        assert np.array_equal(native, given)
        _device.store(native + 1, given)
        assert np.array_equal(given, native + 1)
    assert not _interchange.behaves(x)
    records = np.zeros(4, "u1,f4")["f1"].view(Array)
    assert not _device.is_aligned(records)
    good = at(4, (3, 4))
    assert _interchange.behaves(good)
    assert _device.aligned(good) is good
    assert _interchange.adopt(at(8, (4,), np.complex128), "complex128", home).ctypes.data % 16 == 0
    result = at(0, (3, 4), np.float64)
    result[...] = 2.5
    _device.store(result, x)
    assert (x == 2.5).all()


# On a device.

GPU = pytest.mark.gpu
OPERATORS: dict[str, Callable[..., Any]] = {
    "filter": lambda x, **options: so.spectral_filter(x, operand(x, 65), axes=-1, **options),
    "image filter": lambda x, **options: so.spectral_filter(x, so.transfer.gaussian(2.0), **options),
    "layer": lambda x, **options: so.spectral_conv(
        x[None, None], operand(x, 1, 1, 8, 5, dtype=np.complex64),
        **{name: out[None, None] for name, out in options.items()},
    ),
    "convolve": lambda x, **options: so.convolve(x, operand(x, 3, 5), mode="same", **options),
    "convolve by tiles": lambda x, **options: so.convolve(
        x, operand(x, 3, 5), mode="same", method="tiles", **options
    ),
    "diffusion": lambda x, **options: so.diffusion_step(x, 1.0, 0.1, 0.5, steps=3, **options),
    "fields": lambda x, **options: so.diffusion_step(x, 1.0, 0.1, operand(x, 64, 128), **options),
    "rk4": lambda x, **options: so.pde_step(x, 1.0, 0.1, [so.Diffusion(0.2)], integrator="rk4", **options),
}  # fmt: skip


def operand(x: Any, *shape: int, dtype: Any = np.float32) -> Any:
    return _operand(np if isinstance(x, np.ndarray) else sys.modules["cupy"], str(x.device), shape, dtype)


@functools.cache
def _operand(xp: Any, device: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Made once on the current device, which x's is: a graph may not copy it from the host."""
    return xp.asarray(np.random.default_rng(len(shape)).random(shape) / 4, dtype)


def field(seed: int = 0) -> Any:
    cupy = pytest.importorskip("cupy")
    return cupy.asarray(np.random.default_rng(seed).standard_normal((64, 128)), np.float32)


def off(values: Any, by: int = 2) -> Any:
    """The same numbers so many bytes after an address where they may lie."""
    cupy = sys.modules["cupy"]
    memory = cupy.empty(values.nbytes + 16, np.uint8)
    memory[by : by + values.nbytes] = values.ravel().view(np.uint8)
    pointer = cupy.cuda.MemoryPointer(memory.data.mem, memory.data.ptr - memory.data.mem.ptr + by)
    return cupy.ndarray(values.shape, values.dtype, pointer)


@GPU
@pytest.mark.parametrize("name", OPERATORS)
def test_cupy_arrays_lie_anywhere(name: str) -> None:
    x, call = field(), OPERATORS[name]
    cupy = sys.modules["cupy"]
    expected = call(x).reshape(x.shape)
    np.testing.assert_allclose(expected.get(), call(x.get()).reshape(x.shape), rtol=1e-4, atol=1e-5)
    for given in (off(x), off(x, 4), off(x, 8)):
        for _ in range(2):
            assert cupy.abs(call(given).reshape(x.shape) - expected).max() < 1e-5
        out = off(cupy.full_like(x, np.nan), 2)
        call(x, out=out)
        assert cupy.abs(_device.aligned(out) - expected).max() < 1e-5
    turned = cupy.asfortranarray(x)
    assert cupy.abs(call(turned).reshape(x.shape) - expected).max() < 1e-5
    with pytest.raises(ValueError, match="out overlaps an input"):
        call(x, out=x)


@GPU
@pytest.mark.parametrize("name", OPERATORS)
def test_cupy_threads_and_streams(name: str) -> None:
    cupy, call = pytest.importorskip("cupy"), OPERATORS[name]
    fields = [field(seed) for seed in range(4)]
    call(fields[0])
    expected = [call(x).get() for x in fields]
    wrong: list[int] = []

    def work(k: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            results = [call(fields[k]) for _ in range(50)]
            out = cupy.empty_like(fields[k])
            call(fields[k], out=out)
            stream.synchronize()
            wrong.extend(
                k for result in (*results, out) if not np.array_equal(result.get().reshape(-1), expected[k].reshape(-1))
            )

    cupy.cuda.Device().synchronize()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@GPU
@pytest.mark.parametrize("name", OPERATORS)
def test_cupy_calls_are_captured(name: str) -> None:
    cupy, call, x, out = pytest.importorskip("cupy"), OPERATORS[name], field(), field(1)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(2):
            call(x, out=out)
        stream.begin_capture()
        call(x, out=out)
        graph = stream.end_capture()
        x[...] = field(2)
        out.fill(np.nan)
        graph.launch(stream)
        stream.synchronize()
    assert np.array_equal(out.get(), call(field(2)).get().reshape(out.shape))


@GPU
def test_cupy_arrays_of_the_second_device() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one CUDA device")
    x = field()
    expected = [call(x).get() for call in OPERATORS.values()]
    with cupy.cuda.Device(1):
        far = field()
        for _ in range(2):
            results = [call(far) for call in OPERATORS.values()]
            assert {result.device.id for result in results} == {1}
            assert all(np.array_equal(result.get(), right) for result, right in zip(results, expected, strict=True))
    for _ in range(2):
        result = so.diffusion_step(far, 1.0, 0.1, 0.5)
        assert result.device.id == 1
    assert cupy.cuda.runtime.getDevice() == 0
