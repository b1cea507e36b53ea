"""Which library runs a transform: SciPy on NumPy arrays, cupyx on CuPy arrays, torch on tensors.

Arrays of other libraries, and what torch lacks, go through DLPack to SciPy or cupyx and back.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from spectralops import _arrays, _checks
from spectralops.fft import _arguments
from spectralops.fft._arguments import REAL_OUTPUT
from spectralops.fft._hermitian import hermitian_array, hermitian_tensor
from spectralops.fft._trigonometric import trigonometric

__all__ = ["hankel", "real_transform", "shift", "transform"]

NUMBERS = frozenset("fciub")
# What SciPy takes through numpy.asarray; arrays of all other libraries are served by their own kind.
ARRAY_LIKE = (None, "numpy", "xarray")
OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def transform(op: str, x: Any, size: Any, axes: Any, norm: Any, overwrite_x: bool, workers: Any, plan: Any) -> Any:
    """One of the 18 Fourier transforms; `size` and `axes` are n and axis in one dimension."""
    if type(x) is np.ndarray and x.dtype.kind in NUMBERS:
        return _scipy(op, x, (size, axes, norm, overwrite_x, workers), {"plan": plan})
    library = _arrays.library_of(x)
    if library in ARRAY_LIKE:
        return _scipy(op, _as_numpy(op, x), (size, axes, norm, overwrite_x, workers), {"plan": plan})
    _arguments.no_workers(op, str(library), workers)
    if library != "cupy":
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
        return _cupyx(op, native, sizes, axes, norm, overwrite_x and home.library == "cupy", plan)

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
    name = _arrays.dtype_name(x.dtype)
    # torch keeps complex halves to powers of two on a GPU, and has none on the host.
    name = "complex64" if name == "complex32" else name
    compute, result = _arguments.transform_dtype(op, name, _arrays.dtype_name(torch.get_default_dtype()))
    sizes, axes = _arguments.lengths(op, tuple(x.shape), size, axes, norm)
    if not axes:
        return x
    x = x.to(getattr(torch, compute))
    shape = _arguments.result_shape(op, tuple(x.shape), sizes, axes)
    if 0 in shape:  # the sum of nothing keeps an empty batch differentiable
        return torch.zeros(shape, dtype=getattr(torch, result), device=x.device) + x.real.sum()
    if op in REAL_OUTPUT and x.device.type != "cpu":
        x = hermitian_tensor(x, sizes, axes)
    return getattr(torch.fft, op)(x, *_arguments.spelled(op, sizes, axes), norm)


def _cupyx(
    op: str, x: Any, sizes: tuple[int, ...], axes: tuple[int, ...], norm: Any, overwrite_x: bool, plan: Any
) -> Any:
    """cupyx.scipy.fft on a CuPy array of the dtype it computes in."""
    engine = importlib.import_module("cupyx.scipy.fft")
    shape = _arguments.result_shape(op, x.shape, sizes, axes)
    dtype = _arrays.dtype_name(x.dtype)
    if 0 in shape:
        return importlib.import_module("cupy").empty(shape, _arguments.transform_dtype(op, dtype, dtype)[1])
    if op in REAL_OUTPUT:
        x = hermitian_array(x, sizes, axes, _checks.complex_dtype(dtype))
        overwrite_x = True
        if op[0] == "h":
            op, norm = f"ir{op[1:]}", OPPOSITE[norm]
            x.imag *= -1
    return getattr(engine, op)(x, *_arguments.spelled(op, sizes, axes), norm, overwrite_x, plan=plan)


def _bridged(op: str, name: str, x: Any, home: _arrays.Home, spec: _arrays.ArraySpec, run: Callable[[Any], Any]) -> Any:
    """Run on the native array behind `x` and give the result back in the library, and the precision, of `x`."""
    compute, result_dtype = _arguments.transform_dtype(op, spec.dtype, _arrays.default_float(home), name)
    with _arrays.on_device(home):
        result = run(_arrays.adopt(x, compute, home))
        if home.library == "cupy":
            return result
        # DLPack carries no negative strides, and torch aborts the process over them (DLP02).
        xp: Any = np if home.kind == "cpu" else sys.modules["cupy"]
        return _arrays.give_back(xp.ascontiguousarray(result, dtype=result_dtype), result_dtype, home)


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
    engine = scipy.fft if home.kind == "cpu" else importlib.import_module("cupyx.scipy.fft")
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
    library = _arrays.library_of(x)
    if library == "torch":
        return getattr(sys.modules["torch"].fft, op)(x, axes)
    if library in ARRAY_LIKE:
        return getattr(np.fft, op)(x, axes)
    if library == "cupy":
        return getattr(importlib.import_module("cupy").fft, op)(x, axes)
    home, spec = _arrays.describe(op, "x", x)
    native = _arrays.adopt(x, spec.dtype, home)
    xp: Any = np if home.kind == "cpu" else importlib.import_module("cupy")
    with _arrays.on_device(home):
        return _arrays.give_back(xp.ascontiguousarray(getattr(xp.fft, op)(native, axes)), spec.dtype, home)
