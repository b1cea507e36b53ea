"""The only file that tells array libraries apart: describe, adopt, allocate, give back.

An operator runs on NumPy arrays (host) or CuPy arrays (CUDA device). Arrays of every other library are viewed as
one of the two without a copy, through DLPack or, on the host, by what PyTorch has for NumPy, which is quicker; results
are handed back the same way. Nothing here ever moves data between host and device.
"""

from __future__ import annotations

import math
import numbers
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _device

__all__ = ["ArraySpec", "Home", "Operand"]

# Stored in 16 bits, computed in float32: neither NumPy nor SciPy computes in these types.
HALF_DTYPES = ("float16", "bfloat16")
# What executors that take bfloat16 as it is stored are handed: its bits, as integers that every library has.
BITS = "int16"
# Axes that every array library here can work with, also where an operator needs a few more.
MOST_AXES = 32


@dataclass(frozen=True, slots=True)
class Home:
    """The library and the device of an array: ``Home("torch", "cuda:0")``."""

    library: str
    device: str

    @property
    def kind(self) -> str:
        """Device kind, ``"cpu"`` or ``"cuda"``: what a backend runs on."""
        return "cpu" if self.device == "cpu" else self.device.partition(":")[0]

    def __str__(self) -> str:
        return f"{self.library} array on {self.device}"


HOST = Home("numpy", "cpu")


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype name of an array: all that a plan may know of it."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Operand:
    """One array argument of a plan: its name, what the caller passes, and the dtype the executor sees."""

    name: str
    spec: ArraySpec
    compute: str
    # NumPy's dtype where both are the same, and none of 16 bits or other than NumPy's own.
    native: np.dtype[Any] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "native", _NATIVE.get(self.compute) if self.spec.dtype == self.compute else None)


_library_of_type: dict[type, str | None] = {}
# Device kind of arrays of the two libraries that operators run on, by type: NumPy's own, and CuPy's once it was met.
native_devices: dict[type, str] = {np.ndarray: "cpu"}


def library_of(x: object) -> str | None:
    """Name of the array library of `x`, None if it is no array; cached by type, imports nothing."""
    cls = type(x)
    try:
        return _library_of_type[cls]
    except KeyError:
        pass
    name: str | None = None
    if isinstance(x, np.ndarray | np.generic):
        name = "numpy"
    elif compat.is_cupy_array(x):
        name = "cupy"
        native_devices[cls] = "cuda"
    elif compat.is_torch_array(x):
        name = "torch"
    elif compat.is_jax_array(x):
        name = "jax"
    elif compat.is_dask_array(x):
        name = "dask"
    elif cls.__module__.partition(".")[0] == "xarray":
        name = "xarray"
    elif hasattr(x, "__array_namespace__") and hasattr(x, "__dlpack__"):
        name = compat.array_namespace(x).__name__.partition(".")[0]
    _library_of_type[cls] = name
    return name


def is_array(x: object) -> bool:
    """Whether `x` is an array with at least one axis; scalars of any kind and 0-d arrays are coefficients.

    >>> is_array(np.ones(3)), is_array(np.float32(2)), is_array(0.5), is_array([1.0, 2.0])
    (True, False, False, False)
    """
    return library_of(x) is not None and getattr(x, "ndim", 0) > 0


def dtype_name(dtype: object) -> str:
    """Library-neutral name of a dtype object, byte order dropped: ``'float32'``, ``'bfloat16'``."""
    if isinstance(dtype, str) and dtype in HALF_DTYPES:  # NumPy knows bfloat16 only once ml_dtypes is imported
        return dtype
    if isinstance(dtype, str | type):
        try:
            dtype = np.dtype(dtype)
        except (TypeError, ValueError):  # another library's name, or nobody's: for the caller to judge
            return str(dtype)
    if isinstance(dtype, np.dtype):
        return _numpy_name(dtype)
    name = getattr(dtype, "name", None)
    if isinstance(name, str):
        return name
    return f"a {type(dtype).__name__}" if isinstance(dtype, int) else str(dtype).rpartition(".")[2]


@lru_cache(maxsize=256)
def _numpy_name(dtype: np.dtype[Any]) -> str:
    # Cached because NumPy composes the name anew at every access, which costs more than the rest of describe().
    return dtype.name


@lru_cache(maxsize=1024)
def _spec(shape: tuple[int, ...], dtype: Any) -> ArraySpec:
    """Cached, since every call of an operator asks; `dtype` is NumPy's or PyTorch's object."""
    return ArraySpec(tuple(shape), dtype_name(dtype))


def describe(op: str, name: str, x: Any) -> tuple[Home, ArraySpec]:
    """Where `x` lives and its :class:`ArraySpec`; sequences of numbers count as NumPy arrays.

    Raises
    ------
    TypeError
        If `x` is no array, or one that this package cannot take as it is; the message says what to do.
    ValueError
        If it is a ragged sequence, or has more axes than every library can work with.
    """
    if type(x) is np.ndarray and x.ndim <= MOST_AXES:
        return HOST, _spec(x.shape, x.dtype)
    found = _described(op, name, x)
    if len(found[1].shape) > MOST_AXES:
        raise ValueError(
            f"{op}: {name} has {len(found[1].shape)} dimensions, but must have at most {MOST_AXES}; "
            "reshape the batch axes into one"
        )
    return found


def _described(op: str, name: str, x: Any) -> tuple[Home, ArraySpec]:
    library = library_of(x)
    if library == "torch":
        return _torch_home(op, name, x), _spec(x.shape, x.dtype)
    if library == "numpy":
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError(
                f"{op}: {name} is a numpy.ma.MaskedArray, but must be a plain array; "
                f"fill it, e.g. {name}.filled(numpy.nan)"
            )
        return HOST, _spec(x.shape, x.dtype)
    if library is None:
        if isinstance(x, list | tuple | numbers.Number):
            return HOST, _spec_of_numbers(op, name, x)
        raise TypeError(f"{op}: {name} is a {type(x).__name__}, but must be an array")
    if library in ("dask", "xarray"):
        remedy = "call .compute() first" if library == "dask" else f"pass {name}.data"
        raise TypeError(f"{op}: {name} is a {library} {type(x).__name__}, but must be an in-memory array; {remedy}")
    if library == "jax":
        return Home("jax", _jax_device(op, name, x)), ArraySpec(tuple(x.shape), dtype_name(x.dtype))
    if library == "cupy":
        return _cupy_home(x.device.id), _spec(x.shape, x.dtype)
    default = x.__array_namespace__().__array_namespace_info__().default_device()
    if x.__dlpack_device__()[0] != 1 or x.device != default:  # 1 is kDLCPU in the DLPack specification
        raise TypeError(
            f"{op}: {name} is a {library} array on {x.device}, but must lie on its library's default device on the host"
        )
    return Home(library, "cpu"), ArraySpec(tuple(x.shape), dtype_name(x.dtype))


def _spec_of_numbers(op: str, name: str, x: Any) -> ArraySpec:
    """The array that a number or a nested sequence of numbers makes."""
    try:
        array = np.asarray(x)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{op}: {name} is a ragged {type(x).__name__}, but must be an array or numbers that fill one"
        ) from error
    return ArraySpec(array.shape, dtype_name(array.dtype))


def _torch_home(op: str, name: str, x: Any) -> Home:
    torch = sys.modules["torch"]
    device = x.device
    if x.layout is not torch.strided or device.type not in ("cpu", "cuda"):
        raise TypeError(f"{op}: {name} is a {x.layout} tensor on {device}, but must be a strided tensor on cpu or cuda")
    if x.requires_grad and torch.is_grad_enabled():
        raise TypeError(
            f"{op}: {name} requires grad, but must not, since this function is not differentiable; "
            f"take one of spectralops.torch, pass {name}.detach() or call it under torch.no_grad()"
        )
    return _home("torch", device)


@lru_cache(maxsize=64)
def _cupy_home(index: int) -> Home:
    """One object for all arrays of a device, which so are seen to lie together at once."""
    return Home("cupy", f"cuda:{index}")


@lru_cache(maxsize=64)
def _home(library: str, device: Any) -> Home:
    """Cached, since PyTorch takes long to write a device."""
    return Home(library, str(device))


def _jax_device(op: str, name: str, x: Any) -> str:
    jax = sys.modules["jax"]
    if isinstance(x, jax.core.Tracer):
        raise TypeError(
            f"{op}: {name} is a JAX tracer, but must be a concrete array; call it outside jit, grad and vmap"
        )
    devices = x.devices()
    if len(devices) != 1:
        raise TypeError(f"{op}: {name} is a JAX array on {len(devices)} devices, but must lie on one; gather it first")
    (device,) = devices
    return "cpu" if device.platform == "cpu" else f"cuda:{device.local_hardware_id}"


def common_home(op: str, homes: dict[str, Home]) -> Home:
    """The one home of all arguments.

    Raises
    ------
    TypeError
        If two arguments differ in library or device, naming both.
    """
    items = iter(homes.items())
    first, home = next(items)
    for name, other in items:
        if other != home:
            raise TypeError(
                f"{op}: {name} is a {other}, but must be a {home} like {first}; move one of them explicitly"
            )
    return home


_NATIVE = {name: np.dtype(name) for name in ("bool", "float32", "float64", "complex64", "complex128")}


def ready(operands: tuple[Operand, ...], arrays: tuple[Any, ...], out_dtype: str) -> bool:
    """Whether these are NumPy arrays exactly as planned, of the dtypes that the arithmetic and the result have."""
    if out_dtype not in _NATIVE or len(arrays) != len(operands):
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
        and out.dtype is _NATIVE.get(dtype)
        and out.flags.carray
        and not any(np.may_share_memory(out, x) for x in arrays)
    )


def adopt(x: Any, dtype: str, home: Home) -> Any:
    """View of `x` as a NumPy array (host) or CuPy array (device) of `dtype`, in native byte order.

    Copies only where a view cannot carry the values: another dtype, torch's lazy conjugate and negative bits,
    foreign byte order. Of `dtype` bfloat16, which only arrays of that dtype are adopted as, it gives the bits.
    """
    if type(x) is np.ndarray and x.dtype is _NATIVE.get(dtype) and x.flags.aligned:
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
    return native if native.dtype is _NATIVE.get(dtype) else native.astype(dtype, copy=False)


def _adopt_bits(x: Any, home: Home) -> Any:
    """The bits of a bfloat16 array."""
    if home.library == "torch":
        if home.device != "cpu":
            return own_memory(x)
        x = x.detach().resolve_neg()
    return _readable(bits(memory(x, home)), home)


def _is_aligned(native: Any) -> bool:
    return bool(native.flags.aligned) if isinstance(native, np.ndarray) else _device.is_aligned(native)


def _readable(native: Any, home: Home) -> Any:
    """The array, or a copy where its elements do not begin where those of its dtype must."""
    if home.kind == "cpu":
        return native if native.flags.aligned else native.copy()
    return _device.aligned(native)


def bits(native: Any) -> Any:
    """The same memory as integers, where it holds bfloat16."""
    return native if native.dtype.name != "bfloat16" else native.view(BITS)


def widened(native: Any, dtype: str) -> Any:
    """The values of a native array of `dtype`, in float32 where they are stored in 16 bits."""
    if dtype == "bfloat16" and native.dtype.name == BITS:
        return (native.view("uint16").astype("uint32") << 16).view("float32")
    return native.astype("float32") if native.dtype.name == "float16" else native


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


def brings_memory(home: Home) -> bool:
    """Whether results are allocated by the caller's library: PyTorch's tensors on a device."""
    return home.library == "torch" and home.device != "cpu"


own_result = _device.tensor_empty


def own_memory(x: Any, dtype: str | None = None) -> Any:
    """CuPy array over the memory of a tensor of such a home, a copy where kernels cannot read it as it is."""
    return _device.aligned(_device.tensor_view(x, dtype))


# Libraries whose arrays go to a plan's launches by their addresses.
DIRECT = ("cupy", "torch")
index_of = _device.index_of


def direct(prepared: Any, specs: list[ArraySpec], home: Home, scratch: Any) -> _device.Direct:
    """What takes a plan's arrays to its launches; `specs` are those of the operands and, last, of the result."""
    index = _device.index_of(home.device)
    if home.library == "torch":
        return _device.DirectTensors(prepared, index, [(spec.shape, spec.dtype) for spec in specs])
    return _device.DirectArrays(prepared, index, [(spec.shape, _numpy_dtype(spec.dtype)) for spec in specs], scratch)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Host array on a 64-byte boundary: JAX copies what it is handed at any other address."""
    size = math.prod(shape) * dtype.itemsize
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(dtype)


def give_back(native: Any, dtype: str, home: Home) -> Any:
    """The caller's library's array over the memory of `native`, rounded where the result is stored in 16 bits."""
    stored = dtype == "bfloat16" and native.dtype == BITS
    if dtype in HALF_DTYPES and home.library not in ("torch", "jax"):  # these two round by themselves, below
        kind = _numpy_dtype(dtype)
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
        return array.astype(dtype) if dtype in HALF_DTYPES else array
    return sys.modules[home.library].from_dlpack(native)


def rounded(tensor: Any, dtype: str) -> Any:
    """A result of PyTorch's as `dtype` where that is stored in 16 bits."""
    return tensor.to(getattr(sys.modules["torch"], dtype)) if dtype in HALF_DTYPES else tensor


def default_float(home: Home) -> str:
    """Name of the dtype that integer and boolean input is computed in: the library's own default."""
    if home.library == "torch":
        name: str = _spec((), sys.modules["torch"].get_default_dtype()).dtype
        return name
    if home.library == "jax":
        return "float64" if sys.modules["jax"].config.jax_enable_x64 else "float32"
    return "float64"


def from_host(array: np.ndarray[Any, Any], home: Home) -> Any:
    """Native copy of a small host array (a symbol, a coefficient) on the device of `home`."""
    if home.kind == "cpu":
        return array
    cupy = _device.cupy_module()
    with cupy.cuda.Device(_device.index_of(home.device)):
        return cupy.asarray(array)


def overlap(a: Any, b: Any) -> bool:
    """Whether two native arrays share memory."""
    return np.shares_memory(a, b) if isinstance(a, np.ndarray) else _device.overlap(a, b)


def capturing(home: Home) -> bool:
    """Whether PyTorch is capturing a CUDA graph on its current stream."""
    return home.library == "torch" and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def on_device(home: Home) -> Any:
    """Context in which CuPy allocates and launches on the device of `home`, in the caller's current stream."""
    return nullcontext() if home.kind == "cpu" else _device.Current(home.library, home.device)
