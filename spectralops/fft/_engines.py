"""Which library runs a transform: SciPy or the vector engine on NumPy arrays, cupyx on CuPy arrays, torch on tensors.

Arrays of other libraries, and what torch lacks, go through DLPack to SciPy or cupyx and back.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft

from spectralops import _arrays, _checks, _interchange
from spectralops.fft import _arguments, _vectors
from spectralops.fft._arguments import REAL_OUTPUT
from spectralops.fft._trigonometric import trigonometric

__all__ = ["hankel", "real_transform", "shift", "transform"]

NUMBERS = frozenset("fciub")
# What SciPy takes through numpy.asarray; arrays of all other libraries are served by their own kind.
ARRAY_LIKE = (None, "numpy", "xarray")


def transform(op: str, x: Any, size: Any, axes: Any, norm: Any, overwrite_x: bool, workers: Any, plan: Any) -> Any:
    """One of the 18 Fourier transforms; `size` and `axes` are n and axis in one dimension."""
    if type(x) is np.ndarray and x.dtype.kind in NUMBERS:
        if plan is None and (result := _vectors.transformed(op, x, size, axes, norm, workers)) is not None:
            return result
        return _scipy(op, x, (size, axes, norm, overwrite_x, workers), {"plan": plan})
    library = _arrays.library_of(x)
    if library in ARRAY_LIKE:
        return _scipy(op, _as_numpy(op, x), (size, axes, norm, overwrite_x, workers), {"plan": plan})
    _arguments.no_workers(op, str(library), workers)
    if library == "cupy":
        return _cupy(op, x, size, axes, norm, overwrite_x, plan)
    _arguments.no_plan(op, str(library), plan)
    if library == "torch":
        return _torch(op, x, size, axes, norm)
    home, spec = _arrays.describe(op, "x", x)
    sizes, axes = _arguments.lengths(op, spec.shape, size, axes, norm)
    if not axes:
        return x

    def run(native: Any) -> Any:
        if home.kind == "cpu":
            return getattr(scipy.fft, op)(native, *_arguments.spelled(op, sizes, axes), norm)
        return _cupyx(op, native, sizes, axes, norm)

    return _bridged(op, "x", x, home, spec, run)


def _scipy(op: str, x: Any, arguments: tuple[Any, ...], options: dict[str, Any], kind: Any = 2) -> Any:
    """Call SciPy's public function, so that a backend set there applies; say what is wrong where it refuses."""
    try:
        return getattr(scipy.fft, op)(x, *arguments, **options)
    except (IndexError, RuntimeError, TypeError, ValueError):
        size, axes, norm = arguments[-5:-2]
        if x.dtype.kind == "c" and op in _arguments.REAL_INPUT:
            raise TypeError(f"{op}: x has dtype {x.dtype}, but must be real") from None
        _arguments.lengths(op, x.shape, size, axes, norm, kind)
        raise


def _as_numpy(op: str, x: Any) -> np.ndarray[Any, Any]:
    """NumPy array of numbers from whatever SciPy takes as one."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        _arrays.describe(op, "x", x)
    array = np.asarray(x)
    if array.dtype.kind in NUMBERS:
        return array
    dtype = _checks.dtype(op, array.dtype)
    return array.astype(_checks.compute_dtype(dtype))


def _torch(op: str, x: Any, size: Any, axes: Any, norm: Any) -> Any:
    """torch.fft, which differentiates; the result is defined as NumPy's also where it runs on cuFFT."""
    torch = sys.modules["torch"]
    compute, result = _torch_dtypes(op, x.dtype, torch.get_default_dtype())
    sizes, axes = _arguments.lengths(op, tuple(x.shape), size, axes, norm)
    if not axes:
        return x
    x = x if x.dtype == compute else x.to(compute)
    if not x.numel() and 0 in (shape := _arguments.result_shape(op, tuple(x.shape), sizes, axes)):
        # The sum of nothing keeps an empty batch differentiable.
        return torch.zeros(shape, dtype=result, device=x.device) + x.real.sum()
    if op in REAL_OUTPUT and x.device.type != "cpu":
        return _real_output(torch.fft, op, x, sizes, axes, norm)
    length, axis = _arguments.spelled(op, sizes, axes)
    # torch is quicker where it need not compare lengths.
    return getattr(torch.fft, op)(x, None if size is None else length, axis, norm)


@lru_cache(maxsize=512)
def _torch_dtypes(op: str, dtype: Any, default: Any) -> tuple[Any, Any]:
    torch = sys.modules["torch"]
    name = _arrays.dtype_name(dtype)
    # torch keeps complex halves to powers of two on a GPU, and has none on the host.
    name = "complex64" if name == "complex32" else name
    compute, result = _arguments.transform_dtype(op, name, _arrays.dtype_name(default))
    return getattr(torch, compute), getattr(torch, result)


def _real_output(
    engine: Any, op: str, x: Any, sizes: tuple[int, ...], axes: tuple[int, ...], norm: Any, **options: Any
) -> Any:
    """irfft* and hfft* of torch or cupyx as NumPy defines them: the other axes first, then the half axis.

    The imaginary parts of DC and Nyquist that are left by then are dropped, because cuFFT lets them through for some
    lengths, and in several dimensions mixes them up with the rest.
    """
    n, axis = sizes[-1], axes[-1]
    before = (slice(None),) * axis
    if x.shape[axis] > n // 2 + 1:
        x = x[(*before, slice(0, n // 2 + 1))]
    inner, last = (engine.fftn, engine.hfft) if op[0] == "h" else (engine.ifftn, engine.irfft)
    spectrum = inner(x, list(sizes[:-1]), axes[:-1], norm) if len(axes) > 1 else x + 0j
    spectrum.imag[(*before, slice(0, None, n // 2) if n % 2 == 0 else slice(0, 1))] = 0
    return last(spectrum, n, axis, norm, **options)


def _module(name: str) -> Any:
    return sys.modules.get(name) or importlib.import_module(name)


def _cupy(op: str, x: Any, size: Any, axes: Any, norm: Any, overwrite_x: bool, plan: Any) -> Any:
    """cupyx.scipy.fft on the device where the array lies."""
    dtype = _arrays.dtype_name(x.dtype)
    compute, _ = _arguments.transform_dtype(op, dtype, "float64")
    sizes, axes = _arguments.lengths(op, x.shape, size, axes, norm)
    if not axes:
        return x
    current = _module("cupy").cuda.runtime.getDevice()
    with nullcontext() if x.device.id == current else x.device:
        x = x if dtype == compute else x.astype(compute)
        return _cupyx(op, x, sizes, axes, norm, overwrite_x, plan)


def _cupyx(
    op: str,
    x: Any,
    sizes: tuple[int, ...],
    axes: tuple[int, ...],
    norm: Any,
    overwrite_x: bool = False,
    plan: Any = None,
) -> Any:
    """cupyx.scipy.fft on a CuPy array of the dtype it computes in."""
    engine, cupy = _module("cupyx.scipy.fft"), _module("cupy")
    if not x.size and 0 in (shape := _arguments.result_shape(op, x.shape, sizes, axes)):
        dtype = _arrays.dtype_name(x.dtype)
        return cupy.empty(shape, _arguments.transform_dtype(op, dtype, dtype)[1])
    # A plan, also one that is active as a context, fits the one transform that the caller made it for.
    if op in REAL_OUTPUT and plan is None and cupy.cuda.cufft.get_current_plan() is None:
        return _real_output(engine, op, x, sizes, axes, norm, overwrite_x=True)
    return getattr(engine, op)(x, *_arguments.spelled(op, sizes, axes), norm, overwrite_x, plan=plan)


def _bridged(op: str, name: str, x: Any, home: _arrays.Home, spec: _arrays.ArraySpec, run: Callable[[Any], Any]) -> Any:
    """Run on the native array behind `x` and give the result back in the library, and the precision, of `x`."""
    compute, result_dtype = _arguments.transform_dtype(op, spec.dtype, _arrays.default_float(home), name)
    with _interchange.on_device(home):
        result = run(_interchange.adopt(x, compute, home))
        if home.library == "cupy":
            return result
        # DLPack carries no negative strides, and torch aborts the process over them (DLP02).
        xp: Any = np if home.kind == "cpu" else _module("cupy")
        return _interchange.give_back(xp.ascontiguousarray(result, dtype=result_dtype), result_dtype, home)


def real_transform(
    op: str, x: Any, kind: Any, size: Any, axes: Any, norm: Any, overwrite_x: bool, workers: Any, orthogonalize: Any
) -> Any:
    """One of the eight cosine and sine transforms."""
    library = _arrays.library_of(x)
    if library in ARRAY_LIKE:
        arguments = (kind, size, axes, norm, overwrite_x, workers)
        return _scipy(op, _as_numpy(op, x), arguments, {"orthogonalize": orthogonalize}, kind)
    _arguments.no_workers(op, str(library), workers)
    home, spec = _arrays.describe(op, "x", x)
    sizes, axes = _arguments.lengths(op, spec.shape, size, axes, norm, kind)
    if not axes:
        return x

    def run(native: Any) -> Any:
        if home.kind == "cpu":
            size, axis = _arguments.spelled(op, sizes, axes)
            return getattr(scipy.fft, op)(native, kind, size, axis, norm, orthogonalize=orthogonalize)
        return trigonometric(op, native, kind, sizes, axes, norm, orthogonalize)

    return _bridged(op, "x", x, home, spec, run)


def hankel(op: str, name: str, x: Any, *arguments: Any) -> Any:
    """The fast Hankel transform or its inverse."""
    library = _arrays.library_of(x)
    if library in ARRAY_LIKE:
        x = _as_numpy(op, x)
        _check_hankel(op, name, x.shape, x.dtype, arguments[0])
        return getattr(scipy.fft, op)(x, *arguments)
    home, spec = _arrays.describe(op, name, x)
    _check_hankel(op, name, spec.shape, spec.dtype, arguments[0])
    engine = scipy.fft if home.kind == "cpu" else _module("cupyx.scipy.fft")
    return _bridged(op, name, x, home, spec, lambda native: getattr(engine, op)(native, *arguments))


def _check_hankel(op: str, name: str, shape: tuple[int, ...], dtype: Any, dln: Any) -> None:
    if not shape or shape[-1] < 1:
        raise ValueError(f"{op}: {name} has shape {shape}, but must have at least 1 element along its last axis")
    if "complex" in str(dtype):
        raise TypeError(f"{op}: {name} has dtype {dtype}, but must be real")
    if dln == 0:
        raise ValueError(f"{op}: dln is {dln}, but must not be zero")


def shift(op: str, x: Any, axes: Any) -> Any:
    """numpy.fft's fftshift or ifftshift of any library, which keeps every dtype and, in torch, gradients."""
    if axes is not None:
        _arguments.check_axes(op, axes, x.ndim if hasattr(x, "ndim") else np.ndim(x))
    library = _arrays.library_of(x)
    if library == "torch":
        return getattr(sys.modules["torch"].fft, op)(x, axes)
    if library in ARRAY_LIKE:
        return getattr(np.fft, op)(x, axes)
    if library == "cupy":
        return getattr(_module("cupy").fft, op)(x, axes)
    home, spec = _arrays.describe(op, "x", x)
    native = _interchange.adopt(x, spec.dtype, home)
    xp: Any = np if home.kind == "cpu" else _module("cupy")
    with _interchange.on_device(home):
        return _interchange.give_back(xp.ascontiguousarray(getattr(xp.fft, op)(native, axes)), spec.dtype, home)
