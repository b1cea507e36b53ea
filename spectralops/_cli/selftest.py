"""``selftest``: every row of the support table against the float64 reference, on this machine, in seconds."""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import spectralops as so
from spectralops._checks import COMPLEXES, compute_dtype
from spectralops._cli.contest import relative_error
from spectralops._sixteen_bits import HALVES
from spectralops._support import BACKENDS, SUPPORT

__all__ = ["CHECKS", "Check", "run"]

HALF_TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3}


@dataclass(frozen=True, slots=True)
class Check:
    """One call of one operator: the shapes of its array arguments, and the call itself."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    call: Callable[..., Any]
    complex_operands: tuple[int, ...] = ()
    growth: float = 1.0


def _filter(function: Any, x: Any, **tail: Any) -> Any:
    return function(x, so.transfer.gaussian(1.5), spacing=(0.5, 0.7), **tail)


CHECKS = (
    Check("spectral_filter", ((3, 12, 15),), _filter),
    Check(
        "spectral_filter", ((30,),), lambda f, x, **tail: f(x, so.transfer.lowpass(wavenumber=2.0), pad_width=3, **tail)
    ),
    Check("spectral_conv", ((2, 3, 8, 9), (3, 4, 4, 3)), lambda f, x, w, **tail: f(x, w, **tail), (1,)),
    Check("spectral_conv", ((2, 3, 16), (3, 5)), lambda f, x, w, **tail: f(x, w, depthwise=True, **tail), (1,)),
    Check(
        "spectral_conv_weight_gradient",
        ((2, 3, 8, 9), (2, 4, 8, 9)),
        lambda f, x, g, **tail: f(x, g, (4, 3), **tail),
    ),
    Check("fourier_resample", ((2, 8, 10),), lambda f, x, **tail: f(x, (12, 7), **tail)),
    Check(
        "fft_conv2d",
        ((2, 4, 9, 10), (6, 2, 3, 3)),
        lambda f, x, w, **tail: f(x, w, padding=1, stride=2, groups=2, **tail),
    ),
    Check("convolve", ((12, 13), (3, 4)), lambda f, x, w, **tail: f(x, w, mode="same", **tail)),
    Check("diffusion_step", ((2, 9, 11),), lambda f, u, **tail: f(u, (1.0, 0.8), 0.1, 0.5, steps=3, **tail), growth=3),
    Check("diffusion_step", ((17,),), lambda f, u, **tail: f(u, 1.0, 0.2, 1.0, bc=so.Dirichlet(1.0), **tail)),
    Check(
        "convection_step",
        ((9, 11),),
        lambda f, u, **tail: f(u, (0.3, -0.4), 1.0, 0.5, bc=so.Outflow(), **tail),
    ),
    Check("diffuse_convect_step", ((33,),), lambda f, u, **tail: f(u, 1.0, 0.1, 0.5, bc=so.Hold(), **tail)),
    Check(
        "pde_step",
        ((12, 10),),
        lambda f, u, **tail: f(u, 1.0, 0.1, (so.Diffusion(0.5), so.Source(0.3)), integrator="rk4", **tail),
        growth=4,
    ),
    Check("diffusion_filter", ((16, 18),), lambda f, u, **tail: f(u, 4.0, 1.0, **tail), growth=16),
    Check("gradient", ((9, 11),), lambda f, u, **tail: f(u, (1.0, 0.5), **tail)),
    Check("divergence", ((2, 9, 11),), lambda f, u, **tail: f(u, (1.0, 0.5), **tail)),
    Check("laplacian", ((9, 11),), lambda f, u, **tail: f(u, (1.0, 0.5), **tail)),
)


def _array(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype in COMPLEXES:
        return (values + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype == "bfloat16":
        return values.astype(importlib.import_module("ml_dtypes").bfloat16)
    return values.astype(dtype)


def _arrays(check: Check, dtype: str) -> list[Any]:
    narrow = dtype in HALVES or compute_dtype(dtype) in ("float32", "complex64")
    weights = "complex64" if narrow else "complex128"
    return [
        _array(shape, weights if position in check.complex_operands else dtype, position)
        for position, shape in enumerate(check.shapes)
    ]


def _tolerance(check: Check, dtype: str) -> float:
    if dtype in HALF_TOLERANCE:
        return HALF_TOLERANCE[dtype] * check.growth
    return 8 * float(np.finfo(dtype).eps) * check.growth * max(math.log2(math.prod(check.shapes[0])), 4)


def _wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def error_of(check: Check, backend: str, dtype: str, make: Callable[[Any], Any], read: Callable[[Any], Any]) -> float:
    """Relative L2 error of one call against the reference on the same values in 64 bits."""
    function, arrays = getattr(so, check.op), _arrays(check, dtype)
    expected = np.asarray(check.call(function, *map(_wide, arrays), backend="reference"))
    result = read(check.call(function, *map(make, arrays), backend=backend))
    return relative_error(_wide(result), expected)


def _same(x: Any) -> Any:
    return x


def _homes() -> Iterator[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]:
    """The array libraries here besides NumPy and CuPy: name, from NumPy, to NumPy."""
    if find_spec("torch"):
        torch = importlib.import_module("torch")
        yield "torch", torch.from_numpy, lambda x: x.numpy()
    if find_spec("jax"):
        yield "jax", importlib.import_module("jax").numpy.asarray, np.asarray
    if find_spec("array_api_strict"):
        yield "array_api_strict", importlib.import_module("array_api_strict").asarray, np.asarray


def run(options: argparse.Namespace) -> int:
    """Run all checks; exit status 1 if one fails."""
    started = time.perf_counter()
    gpu = _gpu()
    passed, failures, skipped = 0, [], []
    rows = [(op, backend, dtype) for (op, backend), row in SUPPORT.items() for dtype in row.dtypes]
    jobs: list[tuple[str, Check, str, str, Callable[[Any], Any], Callable[[Any], Any]]] = []
    for op, backend, dtype in rows:
        name = f"{op} {backend} {dtype}"
        if BACKENDS[backend] == "cuda" and (gpu is None or dtype == "bfloat16"):
            skipped.append((name, "no CUDA device" if gpu is None else "CuPy has no bfloat16"))
        elif dtype == "bfloat16" and not find_spec("ml_dtypes"):
            skipped.append((name, "ml_dtypes is not installed"))
        else:
            make, read = (_same, _same) if BACKENDS[backend] == "cpu" else (gpu.asarray, gpu.asnumpy)
            jobs += [(name, check, backend, dtype, make, read) for check in CHECKS if check.op == op]
    for library, make, read in _homes():
        for check in CHECKS:
            default = next(b for b in BACKENDS if (check.op, b) in SUPPORT)
            jobs.append((f"{check.op} {default} float32 from {library}", check, default, "float32", make, read))

    for name, check, backend, dtype, make, read in jobs:
        try:
            error, bound = error_of(check, backend, dtype, make, read), _tolerance(check, dtype)
        except Exception as problem:  # a self-test reports whatever breaks and goes on
            failures.append(f"{name}: {type(problem).__name__}: {problem}")
            continue
        if error <= bound:
            passed += 1
            if options.verbose:
                print(f"ok    {name}: error {error:.1e} <= {bound:.1e}")
        else:
            failures.append(f"{name}: relative error is {error:.3g}, but must be at most {bound:.3g}")
    for line in failures:
        print(f"FAIL  {line}")
    for reason in dict.fromkeys(reason for _, reason in skipped):
        print(f"skip  {sum(r == reason for _, r in skipped)} rows: {reason}")
    print(f"{passed} passed, {len(failures)} failed, {len(skipped)} skipped in {time.perf_counter() - started:.1f} s")
    return 1 if failures else 0


def _gpu() -> Any:
    """CuPy with a usable device, or None."""
    try:
        cupy = importlib.import_module("cupy")
        return cupy if cupy.cuda.runtime.getDeviceCount() else None
    except Exception:  # no CuPy, no driver, no device: all mean that nothing can run there
        return None
