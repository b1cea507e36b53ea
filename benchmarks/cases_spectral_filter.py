"""Claims about spectral_filter against the plain scipy.fft pipeline, one thread each, every result fresh."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
from claims import Claim, Ratio

import spectralops
from spectralops._cli.contest import Case, Contestant, Setup

__all__ = ["CLAIMS", "pipeline", "spectral_filter"]

COMPLEX = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
WIDE = {"float32": "float64", "float64": "float64", "complex64": "complex128", "complex128": "complex128"}


def pipeline(x: Any, transfer: Any, axes: tuple[int, ...], **options: Any) -> Any:
    """What one writes with scipy.fft."""
    if np.iscomplexobj(x):
        return scipy.fft.ifftn(scipy.fft.fftn(x, axes=axes, **options) * transfer, axes=axes, **options)
    sizes = [x.shape[axis] for axis in axes]
    return scipy.fft.irfftn(scipy.fft.rfftn(x, axes=axes, **options) * transfer, sizes, axes, **options)


def spectral_filter(shape: tuple[int, ...], ndim: int, dtype: str) -> Case:
    """A filter over the last `ndim` axes, complex, given as an array."""

    def build() -> Setup:
        rng = np.random.default_rng(0)
        axes, sizes = tuple(range(-ndim, 0)), shape[-ndim:]
        x, kernel = rng.standard_normal(shape), rng.standard_normal(sizes)
        if dtype.startswith("complex"):
            x = x + 1j * rng.standard_normal(shape)
            factors = scipy.fft.fftn(kernel)
        else:
            factors = scipy.fft.rfftn(kernel)
        expected = pipeline(x.astype(dtype).astype(WIDE[dtype]), factors, axes)
        x, transfer = x.astype(dtype), factors.astype(COMPLEX[dtype])
        ours = partial(spectralops.spectral_filter, x, transfer, axes=axes)
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
            "scipy": Contestant(partial(pipeline, x, transfer, axes)),
        }
        tolerance = float(np.finfo(dtype).eps) * max(math.log2(math.prod(sizes)), 4.0)
        return Setup(contestants, expected, tolerance, 2 * x.nbytes + transfer.nbytes)

    return Case(f"filter {ndim}d {dtype}", "x".join(map(str, shape)), build)


def claim(shape: tuple[int, ...], ndim: int, single: float, double: float, large: bool = True) -> list[Claim]:
    """Least ratios in float32 and float64; on large arrays two threads must pay as well."""
    threads = (Ratio(("spectralops",), 1.7, "spectralops w2"),) if large else ()
    return [
        Claim(spectral_filter(shape, ndim, dtype), (Ratio(("scipy",), least), *threads), quick=not large)
        for dtype, least in (("float32", single), ("float64", double))
    ]


CLAIMS: list[Claim] = [
    *claim((16, 512, 512), 2, 3.3, 3.0),
    *claim((64, 128, 128), 2, 4.0, 3.0),
    *claim((64, 1000), 1, 3.5, 3.0, large=False),
    *claim((2048, 2048), 2, 2.2, 2.2),
    *claim((256, 4096), 1, 2.0, 1.9),
    *claim((128, 128, 128), 3, 2.2, 1.7),
    *claim((16, 721, 1440), 2, 1.3, 1.2),
]
