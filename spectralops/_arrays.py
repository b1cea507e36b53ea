"""What a plan may know of an array, whatever its library: where it lies, its shape and its dtype.

This file and `_interchange`, which hands the memory over, are the only ones that tell array libraries apart.
"""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops._sixteen_bits import HALVES

__all__ = [
    "HOST", "MOST_AXES", "NATIVE", "ArraySpec", "Home", "Operand",
    "common_home", "default_float", "describe", "dtype_name", "is_array", "is_recorded", "library_of", "native_devices",
]  # fmt: skip

# Axes that every array library here can work with, also where an operator needs a few more.
MOST_AXES = 32
# NumPy's objects for the dtypes that executors compute in: an array's own is one of these where it is in native order.
NATIVE = {name: np.dtype(name) for name in ("bool", "float32", "float64", "complex64", "complex128")}


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
        object.__setattr__(self, "native", NATIVE.get(self.compute) if self.spec.dtype == self.compute else None)


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
    if isinstance(dtype, str) and dtype in HALVES:  # NumPy knows bfloat16 only once ml_dtypes is imported
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


def is_recorded(x: Any) -> bool:
    """Whether a value is a tensor of which gradients are being recorded."""
    return getattr(x, "requires_grad", False) is True and bool(sys.modules["torch"].is_grad_enabled())


def _torch_home(op: str, name: str, x: Any) -> Home:
    torch = sys.modules["torch"]
    device = x.device
    if x.layout is not torch.strided or device.type not in ("cpu", "cuda"):
        raise TypeError(f"{op}: {name} is a {x.layout} tensor on {device}, but must be a strided tensor on cpu or cuda")
    if is_recorded(x):
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


def default_float(home: Home) -> str:
    """Name of the dtype that integer and boolean input is computed in: the library's own default."""
    if home.library == "torch":
        name: str = _spec((), sys.modules["torch"].get_default_dtype()).dtype
        return name
    if home.library == "jax":
        return "float64" if sys.modules["jax"].config.jax_enable_x64 else "float32"
    return "float64"
