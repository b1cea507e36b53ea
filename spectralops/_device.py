"""CUDA devices: the current device and stream of a call, and PyTorch's device memory as CuPy sees it.

PyTorch's tensors are viewed by address, and whatever a call needs besides comes from PyTorch's pool on PyTorch's
current stream: no events, no second pool, and graphs can be captured. DLPack costs some thirty microseconds a tensor.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops.errors import BackendUnavailableError

__all__ = [
    "Current", "Direct", "DirectArrays", "DirectTensors",
    "aligned", "cupy_module", "index_of", "is_aligned", "is_current", "launch", "multiprocessors", "overlap", "store",
    "tensor_empty", "tensor_view",
]  # fmt: skip


def cupy_module() -> Any:
    """CuPy, or an error that says how to install it."""
    found = sys.modules.get("cupy")
    if found is not None:
        return found
    try:
        import cupy
    except ImportError as error:
        raise BackendUnavailableError(
            'backend for CUDA arrays needs CuPy; pip install "spectralops[cuda13]" (or [cuda12])'
        ) from error
    return cupy


@lru_cache(maxsize=64)
def index_of(device: str) -> int:
    """The number of a device such as ``"cuda:1"``."""
    return int(device.partition(":")[2])


class Current:
    """Makes the caller's device and stream CuPy's own, and for PyTorch its pool CuPy's source of memory."""

    __slots__ = ("_contexts", "_index", "_previous", "_torch")

    def __init__(self, library: str, device: str) -> None:
        self._index = index_of(device)
        self._torch = library == "torch"
        self._contexts: tuple[Any, ...] = ()
        self._previous: Callable[..., Any] | None = None

    def __enter__(self) -> None:
        cuda = cupy_module().cuda
        if cuda.runtime.getDevice() != self._index:
            self._push(cuda.Device(self._index))
        if not self._torch:
            return
        stream = sys.modules["torch"]._C._cuda_getCurrentRawStream(self._index)
        if cuda.get_current_stream().ptr != stream:
            self._push(_stream(self._index, stream))
        self._previous = cuda.memory._get_thread_local_allocator()
        cuda.memory._set_thread_local_allocator(from_torch)

    def _push(self, context: Any) -> None:
        context.__enter__()
        self._contexts = (context, *self._contexts)

    def __exit__(self, *error: object) -> None:
        if self._torch:
            cupy_module().cuda.memory._set_thread_local_allocator(self._previous)
        for context in self._contexts:
            context.__exit__(*error)


@lru_cache(maxsize=256)
def _stream(index: int, address: int) -> Any:
    """CuPy's object for a stream of PyTorch's, which is current."""
    return cupy_module().cuda.Stream.from_external(sys.modules["torch"].cuda.current_stream(index))


def from_torch(size: int) -> Any:
    """An allocator for CuPy: bytes from PyTorch's pool, for its current stream."""
    cuda = cupy_module().cuda
    index = cuda.runtime.getDevice()
    tensor = _empty()((size,), (1,), sys.modules["torch"].uint8)
    return cuda.MemoryPointer(cuda.UnownedMemory(tensor.data_ptr(), size, tensor, index), 0)


# The scratch memory of `_cuda.launch` is not kept beyond a call where it comes from such an allocator.
from_torch.in_stream_order = True  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _name(dtype: Any) -> str:
    """NumPy's name for one of PyTorch's dtypes."""
    return str(dtype).rpartition(".")[2]


@lru_cache(maxsize=1)
def _empty() -> Callable[..., Any]:
    """PyTorch's allocation on the current device, by shape, strides and dtype: what the code calls that its compiler
    writes, at a fifth of the cost of ``torch.empty``, which stands in where a version does not have it.
    """
    torch = sys.modules["torch"]
    try:
        found: Callable[..., Any] = torch._C._dynamo.guards._empty_strided_cuda
    except AttributeError:
        return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device="cuda")
    return found


@lru_cache(maxsize=1024)
def _layout(shape: tuple[int, ...], dtype: str) -> tuple[Any, ...]:
    """Arguments of the above for an array in C order."""
    strides = [math.prod(max(n, 1) for n in shape[axis + 1 :]) for axis in range(len(shape))]
    return shape, tuple(strides), getattr(sys.modules["torch"], dtype)


def tensor_empty(shape: tuple[int, ...], dtype: str) -> Any:
    """Uninitialised tensor of PyTorch's on the current device."""
    return _empty()(*_layout(shape, dtype))


class Direct:
    """A plan's launches on contiguous arrays, which go by their addresses from one driver call to another.

    `prepared` has `space_bytes`, of scratch memory, and `calls(operands, out, space)`, programs with addresses.
    """

    __slots__ = ("_calls", "_index", "_nbytes", "_space_bytes")

    def __init__(self, prepared: Any, index: int, nbytes: list[int]) -> None:
        """`nbytes`: of the operands and, last, of the result."""
        self._calls, self._space_bytes = prepared.calls, prepared.space_bytes
        self._index, self._nbytes = index, nbytes

    def _apart(self, operands: list[int], out: int) -> bool:
        """Whether a result there overlaps no operand."""
        end = out + self._nbytes[-1]
        apart = [at >= end or out >= at + nbytes for at, nbytes in zip(operands, self._nbytes, strict=False)]
        return False not in apart

    def _launch(self, operands: list[int], out: int, space: int, stream: int) -> None:
        for program, addresses in self._calls(operands, out, space):
            program.launch(self._index, stream, addresses)


class DirectTensors(Direct):
    """The same for PyTorch's tensors."""

    __slots__ = ("_current", "_device", "_empty", "_launched", "_layout", "_looks", "_space", "_stream", "_torch")

    def __init__(self, prepared: Any, index: int, looks: list[tuple[tuple[int, ...], str]]) -> None:
        self._torch = torch = sys.modules["torch"]
        super().__init__(prepared, index, [math.prod(shape) * getattr(torch, dtype).itemsize for shape, dtype in looks])
        self._looks = [(shape, getattr(torch, dtype)) for shape, dtype in looks[:-1]]
        self._device = torch.device("cuda", index)
        self._layout = _layout(*looks[-1])
        self._space = ((self._space_bytes,), (1,), torch.uint8)
        self._current, self._stream = torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
        self._empty = _empty()
        self._launched = False

    def __call__(self, tensors: tuple[Any, ...], out: Any = None) -> Any:
        """The result, as a new tensor or in `out`, which PyTorch is told of; None where tensors are not exactly as
        planned, contiguous, aligned, apart and on the current device, or need a gradient.
        """
        torch, device = self._torch, self._device
        if len(tensors) != len(self._looks):
            return None
        for x, (shape, dtype) in zip(tensors, self._looks, strict=True):
            if type(x) is not torch.Tensor or x.dtype is not dtype or x.shape != shape or x.device != device:
                return None
            if x.layout is not torch.strided or x.requires_grad:
                return None
        result = self.again(tensors, out)
        if out is not None and result is not None and not out.is_inference():
            torch.autograd.graph.increment_version(out)
        return result

    def again(self, tensors: tuple[Any, ...], out: Any = None) -> Any:
        """The same for tensors that are known to have the shapes and dtypes of the plan; PyTorch is told nothing."""
        if self._current() != self._index:
            return None
        operands = []
        for x in tensors:
            at = x.data_ptr()
            if at % 16 or not x.is_contiguous() or x.is_neg() or x.is_conj():
                return None
            operands.append(at)
        if out is not None and not (self._fits(out) and self._apart(operands, out.data_ptr())):
            return None
        if self._launched:
            result = self._run(operands, out)
        else:
            with Current("torch", f"cuda:{self._index}"):  # kernels are compiled, which asks CuPy for the stream
                result = self._run(operands, out)
            self._launched = True
        return result

    def _fits(self, out: Any) -> bool:
        """Whether the result can be written into a tensor; what else it needs is for others to say."""
        shape, _, dtype = self._layout
        torch = self._torch
        if type(out) is not torch.Tensor or out.dtype is not dtype or out.shape != shape or out.requires_grad:
            return False
        if out.layout is not torch.strided or out.device.type != "cuda" or out.device.index != self._index:
            return False
        return not (out.data_ptr() % 16 or not out.is_contiguous() or out.is_neg() or out.is_conj())

    def _run(self, operands: list[int], out: Any) -> Any:
        result = self._empty(*self._layout) if out is None else out
        space = self._empty(*self._space) if self._space_bytes else None
        stream = self._stream(self._index)
        self._launch(operands, result.data_ptr(), 0 if space is None else space.data_ptr(), stream)
        return result


class DirectArrays(Direct):
    """The same for CuPy arrays; `scratch(nbytes)` is memory for a call on the current stream."""

    __slots__ = ("_array", "_count", "_current", "_looks", "_result", "_scratch", "_stream", "_strides")

    def __init__(
        self, prepared: Any, index: int, looks: list[tuple[tuple[int, ...], Any]], scratch: Callable[[int], Any]
    ) -> None:
        super().__init__(prepared, index, [math.prod(shape) * dtype.itemsize for shape, dtype in looks])
        cupy = cupy_module()
        self._array, self._result = cupy.ndarray, looks[-1]
        self._current, self._stream = cupy.cuda.runtime.getDevice, cupy.cuda.get_current_stream
        self._count = len(looks) - 1
        self._looks = looks
        self._strides = [
            tuple([dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
            for shape, dtype in looks
        ]
        self._scratch = scratch

    def __call__(self, arrays: tuple[Any, ...], out: Any = None) -> Any:
        """The result, as a new array or in `out`; None where arrays are not exactly as planned, contiguous, aligned,
        apart and on the current device.
        """
        if len(arrays) != self._count:
            return None
        cls = self._array
        for x, (shape, dtype) in zip(arrays, self._looks, strict=False):
            if type(x) is not cls or x.dtype is not dtype or x.shape != shape:
                return None
        return self.again(arrays, out)

    def again(self, arrays: tuple[Any, ...], out: Any = None) -> Any:
        """The same for arrays that are known to have the shapes and dtypes of the plan."""
        index = self._index
        if self._current() != index or not (out is None or self._fits(out)):
            return None
        operands = []
        for x, strides in zip(arrays if out is None else (*arrays, out), self._strides, strict=False):
            data = x.data
            at = data.ptr
            if at % 16 or data.device_id != index or (x.strides != strides and not x.flags.c_contiguous):
                return None
            operands.append(at)
        if out is None:
            out = self._array(*self._result)
            at = out.data.ptr
        else:
            at = operands.pop()
            if not self._apart(operands, at):
                return None
        space = self._scratch(self._space_bytes) if self._space_bytes else None
        self._launch(operands, at, 0 if space is None else space.data.ptr, self._stream().ptr)
        return out

    def _fits(self, out: Any) -> bool:
        """Whether the result has the shape and dtype of an array."""
        shape, dtype = self._result
        return type(out) is self._array and out.dtype is dtype and out.shape == shape


def launch(program: Any, index: int, *tensors: Any) -> None:
    """Launch a program whose slots are these tensors of PyTorch's on the current device, or None for no address."""
    stream = sys.modules["torch"]._C._cuda_getCurrentRawStream(index)
    addresses = [0 if x is None else x.data_ptr() for x in tensors]
    if program.compiled(index):
        program.launch(index, stream, addresses)
        return
    with Current("torch", f"cuda:{index}"):
        program.launch(index, stream, addresses)


def is_current(index: int) -> bool:
    """Whether PyTorch's current device has this number."""
    current: int = sys.modules["torch"]._C._cuda_getDevice()
    return current == index


@lru_cache(maxsize=64)
def multiprocessors(index: int) -> int:
    """Of a device that PyTorch knows by this number."""
    count: int = sys.modules["torch"].cuda.get_device_properties(index).multi_processor_count
    return count


def tensor_view(tensor: Any, dtype: str | None = None) -> Any:
    """CuPy array over the memory of a tensor on a device; a copy where dtype or lazy bits ask for one."""
    if tensor.is_conj() or tensor.is_neg() or (dtype is not None and _name(tensor.dtype) != dtype):
        return tensor_copy(tensor, dtype)
    return _view(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def tensor_copy(tensor: Any, dtype: str | None) -> Any:
    """CuPy array that holds a new tensor with the same values."""
    values = tensor.detach().resolve_conj().resolve_neg()
    if dtype is not None:
        values = values.to(getattr(sys.modules["torch"], dtype))
    return _array(values.data_ptr(), values.shape, values.stride(), values.dtype, values.device, values)


def _array(address: int, shape: Any, strides: tuple[int, ...], dtype: Any, device: Any, owner: Any) -> Any:
    name = _name(dtype)
    # CuPy may lack bfloat16: its bits, as integers.
    cupy, kind, shape = cupy_module(), np.dtype("int16" if name == "bfloat16" else name), tuple(shape)
    if not address:  # nothing in it
        return cupy.empty(shape, kind)
    extent = (1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))) * kind.itemsize
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, extent, owner, device.index), 0)
    return cupy.ndarray(shape, kind, memory, tuple([stride * kind.itemsize for stride in strides]))


@lru_cache(maxsize=2048)
def _view(address: int, shape: Any, strides: tuple[int, ...], dtype: Any, device: Any) -> Any:
    """An array that owns nothing, since the caller holds the tensor.

    PyTorch's pool gives the same addresses again and again, and making an array costs several times as much as that.
    """
    return _array(address, shape, strides, dtype, device, None)


def is_aligned(array: Any) -> bool:
    """Whether all elements of a CuPy array begin at multiples of their size, as kernels, CuPy's too, must find them."""
    size = array.itemsize
    return not (array.data.ptr % size or any(stride % size for stride in array.strides))


def as_bytes(array: Any) -> Any:
    """The memory of a CuPy array with an axis for the bytes of each element."""
    return cupy_module().ndarray((*array.shape, array.itemsize), np.uint8, array.data, (*array.strides, 1))


def aligned(array: Any) -> Any:
    """The CuPy array, or a copy where it is not aligned."""
    if is_aligned(array):
        return array
    return as_bytes(array).copy().view(array.dtype).reshape(array.shape)


def store(result: Any, target: Any) -> None:
    """Copy one CuPy array into another, which need not be aligned."""
    if is_aligned(target):
        target[...] = result
    else:
        as_bytes(target)[...] = as_bytes(result.astype(target.dtype, copy=False))


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays share memory: CuPy's own test sorts the addresses of all elements, and waits for that."""
    if a.flags.c_contiguous and b.flags.c_contiguous:
        first, second = a.data.ptr, b.data.ptr
        return bool(a.size and b.size and first < second + b.nbytes and second < first + a.nbytes)
    return np.shares_memory(np.asarray(_Addresses(a)), np.asarray(_Addresses(b)))


class _Addresses:
    """A device array as NumPy sees one: where its elements lie, never to be read."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (array.data.ptr, True),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.itemsize}",
        }
