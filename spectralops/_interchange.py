"""The memory of arrays of every library: view it as NumPy's or CuPy's, allocate results, give them back.

An operator runs on NumPy arrays (host) or CuPy arrays (CUDA device). Arrays of every other library are viewed as
one of the two without a copy, through DLPack or, on the host, by what PyTorch has for NumPy, which is quicker; results
are handed back the same way. Nothing here ever moves data between host and device.
"""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from spectralops import _device
from spectralops._arrays import NATIVE, ArraySpec, Home, Operand, dtype_name
from spectralops._sixteen_bits import BITS, HALVES, bits, numpy_dtype, rounded

__all__ = [
    "DIRECT", "adopt", "adopt_out", "behaves", "brings_memory", "capturing", "direct", "empty", "from_host",
    "give_back", "memory", "on_device", "overlap", "own_memory", "own_result", "ready", "store", "takes", "wrote",
]  # fmt: skip


def ready(operands: tuple[Operand, ...], arrays: tuple[Any, ...], out_dtype: str) -> bool:
    """Whether these are NumPy arrays exactly as planned, of the dtypes that the arithmetic and the result have."""
    if out_dtype not in NATIVE or len(arrays) != len(operands):
        return False
    for operand, x in zip(operands, arrays, strict=True):
        if (
            type(x) is not np.ndarray
            or x.dtype is not operand.native
            or x.shape != operand.spec.shape
            or not x.flags.aligned
        ):
            return False
    return True


def takes(out: Any, shape: tuple[int, ...], dtype: str, arrays: tuple[Any, ...]) -> bool:
    """Whether an executor may write into this NumPy array as it is; others may be right too, but need a closer look."""
    return (
        type(out) is np.ndarray
        and out.shape == shape
        and out.dtype is NATIVE.get(dtype)
        and out.flags.carray
        and not any(np.may_share_memory(out, x) for x in arrays)
    )


def adopt(x: Any, dtype: str, home: Home) -> Any:
    """View of `x` as a NumPy array (host) or CuPy array (device) of `dtype`, in native byte order.

    Copies only where a view cannot carry the values: another dtype, torch's lazy conjugate and negative bits,
    foreign byte order. Of `dtype` bfloat16, which only arrays of that dtype are adopted as, it gives the bits.
    """
    if type(x) is np.ndarray and x.dtype is NATIVE.get(dtype) and x.flags.aligned:
        return x
    if dtype == "bfloat16":
        return _adopt_bits(x, home)
    if home.library == "torch":
        if home.device != "cpu":
            return own_memory(x, dtype)
        x = x.detach()
        if x.is_conj() or x.is_neg():
            x = x.resolve_conj().resolve_neg()
        if x.dtype is sys.modules["torch"].bfloat16:  # neither NumPy nor CuPy takes it
            x = x.float()
    elif home.library == "jax" and dtype_name(x.dtype) == "bfloat16":
        x = x.astype("float32")
    # PyTorch could not resize the memory of a tensor that `Tensor.numpy()` has seen, as sharded parameters are.
    native = np.from_dlpack(x) if home.library == "torch" else _readable(_import(x, home), home)
    return native if native.dtype is NATIVE.get(dtype) else native.astype(dtype, copy=False)


def _adopt_bits(x: Any, home: Home) -> Any:
    """The bits of a bfloat16 array."""
    if home.library == "torch":
        if home.device != "cpu":
            return own_memory(x)
        x = x.detach().resolve_neg()
    return _readable(bits(memory(x, home)), home)


def _readable(native: Any, home: Home) -> Any:
    """The array, or a copy where its elements do not begin where those of its dtype must."""
    if home.kind == "cpu":
        return native if native.flags.aligned else native.copy()
    return _device.aligned(native)


def _import(x: Any, home: Home) -> Any:
    """NumPy or CuPy array over the memory of `x`."""
    if home.library == "numpy":
        return np.asarray(x)
    if home.library == "cupy":
        return x
    if home.library == "torch":
        return x.numpy() if home.kind == "cpu" else _device.tensor_view(x)
    return np.from_dlpack(x) if home.kind == "cpu" else _device.cupy_module().from_dlpack(x)


def memory(x: Any, home: Home) -> Any:
    """Native view of the memory of `x` whatever its bits mean: what an overlap with `out` is judged by."""
    if home.library == "torch":
        x = x.detach()
        x = x.conj() if x.is_conj() else x.resolve_neg()
    if home.library in ("torch", "jax") and dtype_name(x.dtype) == "bfloat16":
        x = x.view(sys.modules["torch"].int16 if home.library == "torch" else "int16")
    return _import(x, home)


def overlap(a: Any, b: Any) -> bool:
    """Whether two native arrays share memory."""
    return np.shares_memory(a, b) if isinstance(a, np.ndarray) else _device.overlap(a, b)


def adopt_out(op: str, out: Any, home: Home) -> Any:
    """Writable native view of the caller's `out`, without any cast.

    Raises
    ------
    TypeError
        If arrays of its library are immutable.
    ValueError
        If it is read-only, in foreign byte order, or has elements that share memory.
    """
    if home.library == "jax":
        raise TypeError(f"{op}: out is a JAX array, but must be writable, which JAX arrays never are; leave it out")
    if home.library == "torch" and (out.is_conj() or out.is_neg()):
        raise ValueError(f"{op}: out is a conjugated or negated view, but must be the tensor that it is a view of")
    native = memory(out, home)
    if isinstance(native, np.ndarray):
        if not native.flags.writeable:
            raise ValueError(f"{op}: out is read-only, but must be writable")
        if not native.dtype.isnative:
            raise ValueError(f"{op}: out has dtype {native.dtype}, but must be in native byte order")
    extent = native.itemsize
    for stride, n in sorted((abs(stride), n) for stride, n in zip(native.strides, native.shape, strict=True) if n > 1):
        if stride < extent and native.size:
            raise ValueError(
                f"{op}: out is a view with strides {native.strides}, but must have memory of its own for every element"
            )
        extent = stride * n
    return native


def behaves(native: Any) -> bool:
    """Whether an executor may write into this array as it is: C-contiguous and aligned."""
    return bool(native.flags.c_contiguous) and _is_aligned(native)


def _is_aligned(native: Any) -> bool:
    return bool(native.flags.aligned) if isinstance(native, np.ndarray) else _device.is_aligned(native)


def store(result: Any, out: Any, target: Any, home: Home) -> None:
    """Copy a result into the caller's `out`, rounding to its dtype."""
    if home.library == "torch" and result.dtype != BITS:
        out.detach().copy_(sys.modules["torch"].from_dlpack(result))
    elif home.kind == "cpu":
        target[...] = result
    else:
        _device.store(result, target)


def wrote(out: Any, home: Home) -> None:
    """Tell the caller's library that the memory of `out` has changed, which it cannot see by itself."""
    if home.library == "torch" and not out.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(out)


def empty(shape: tuple[int, ...], dtype: str, home: Home) -> Any:
    """Uninitialised native array on the device of `home`: the only place where results are allocated."""
    dtype = BITS if dtype == "bfloat16" else dtype
    if home.kind == "cpu":
        return _aligned(shape, np.dtype(dtype)) if home.library == "jax" else np.empty(shape, dtype)
    cupy, index = _device.cupy_module(), _device.index_of(home.device)
    if cupy.cuda.runtime.getDevice() == index:
        return cupy.empty(shape, dtype)
    with cupy.cuda.Device(index):
        return cupy.empty(shape, dtype)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Host array on a 64-byte boundary: JAX copies what it is handed at any other address."""
    size = math.prod(shape) * dtype.itemsize
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


def from_host(array: np.ndarray[Any, Any], home: Home) -> Any:
    """Native copy of a small host array (a symbol, a coefficient) on the device of `home`."""
    if home.kind == "cpu":
        return array
    cupy = _device.cupy_module()
    with cupy.cuda.Device(_device.index_of(home.device)):
        return cupy.asarray(array)


def brings_memory(home: Home) -> bool:
    """Whether results are allocated by the caller's library: PyTorch's tensors on a device."""
    return home.library == "torch" and home.device != "cpu"


own_result = _device.tensor_empty


def own_memory(x: Any, dtype: str | None = None) -> Any:
    """CuPy array over the memory of a tensor of such a home, a copy where kernels cannot read it as it is."""
    return _device.aligned(_device.tensor_view(x, dtype))


# Libraries whose arrays go to a plan's launches by their addresses.
DIRECT = ("cupy", "torch")


def direct(prepared: Any, specs: list[ArraySpec], home: Home, scratch: Any) -> _device.Direct:
    """What takes a plan's arrays to its launches; `specs` are those of the operands and, last, of the result."""
    index = _device.index_of(home.device)
    if home.library == "torch":
        return _device.DirectTensors(prepared, index, [(spec.shape, spec.dtype) for spec in specs])
    return _device.DirectArrays(prepared, index, [(spec.shape, numpy_dtype(spec.dtype)) for spec in specs], scratch)


def give_back(native: Any, dtype: str, home: Home) -> Any:
    """The caller's library's array over the memory of `native`, rounded where the result is stored in 16 bits."""
    stored = dtype == "bfloat16" and native.dtype == BITS
    if dtype in HALVES and home.library not in ("torch", "jax"):  # these two round by themselves, below
        kind = numpy_dtype(dtype)
        native = native.view(kind) if stored else native.astype(kind, copy=False)
    if home.library in ("numpy", "cupy"):
        return native
    if home.library == "torch":
        torch = sys.modules["torch"]
        tensor = torch.from_numpy(native) if home.kind == "cpu" else torch.from_dlpack(native)
        return tensor.view(torch.bfloat16) if stored else rounded(tensor, dtype)
    if home.library == "jax":
        array = sys.modules["jax"].numpy.from_dlpack(native)
        if stored:
            return array.view(dtype)
        return array.astype(dtype) if dtype in HALVES else array
    return sys.modules[home.library].from_dlpack(native)


def capturing(home: Home) -> bool:
    """Whether PyTorch is capturing a CUDA graph on its current stream."""
    return home.library == "torch" and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def on_device(home: Home) -> Any:
    """Context in which CuPy allocates and launches on the device of `home`, in the caller's current stream."""
    return nullcontext() if home.kind == "cpu" else _device.Current(home.library, home.device)
