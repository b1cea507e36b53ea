"""Resampling on the host: axis by axis, so that later transforms work on what the earlier ones kept.

Each transform runs on the vector engine where that is predicted to be faster, else on scipy.fft.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu.blocks import Index, blocks, run
from spectralops._cpu.vector.choice import transform_refusal

if TYPE_CHECKING:
    from spectralops._plans.resample import FourierResamplePlan

__all__ = ["fourier_resample"]

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64")
COMPLEX = ("complex64", "complex128")


def fourier_resample(plan: FourierResamplePlan, x: Array, *, out: Array, workers: int) -> None:
    """Cut the spectrum along each axis right after its transform, pad it right before its inverse."""
    if out.size == 0:
        return
    if not plan.axes:
        out[...] = x
        return

    def one_block(index: Index) -> None:
        place = list(index)
        for axis in plan.axes:
            place[axis] = slice(None)
        out[tuple(place)] = _resampled(plan, x[index])

    batch = math.prod(n for axis, n in enumerate(x.shape) if axis not in plan.axes)
    run(one_block, blocks(x.shape, plan.axes, min(plan.block, -(-batch // workers))), workers)


def _resampled(plan: FourierResamplePlan, x: Array) -> Array:
    """One block."""
    axes, d = plan.axes, len(plan.axes)
    shrinks = [m < n for n, m in zip(plan.in_sizes, plan.out_sizes, strict=True)]
    spectrum: Array = x
    for j in reversed(range(d)):
        kind = "from_real" if plan.halved and j == d - 1 else "forward"
        spectrum = _transformed(kind, spectrum, plan.in_sizes[j], axes[j], plan.norm == "forward")
        if shrinks[j]:
            spectrum = _moved(plan, spectrum, j, axes[j])
    for j in range(d):
        if not shrinks[j]:
            spectrum = _moved(plan, spectrum, j, axes[j])
        kind = "to_real" if plan.halved and j == d - 1 else "inverse"
        spectrum = _transformed(kind, spectrum, plan.out_sizes[j], axes[j], plan.norm == "backward")
    return spectrum


LIBRARY = {"forward": "fft", "inverse": "ifft", "from_real": "rfft", "to_real": "irfft"}


def _transformed(kind: str, x: Array, n: int, axis: int, scaled: bool) -> Array:
    """One transform of length n, divided by n if `scaled`. A spectrum may be overwritten."""
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    halved = kind.endswith("real")
    last = axis == x.ndim - 1
    double = x.dtype.char in "dD"
    contiguous = x.flags.c_contiguous and x.flags.aligned
    if not contiguous or (halved and not last) or transform_refusal(shape, (axis,), DTYPES[double], halved):
        from scipy import fft  # slow to load

        divided = "forward" if kind in ("forward", "from_real") else "backward"
        norm = divided if scaled else {"forward": "backward", "backward": "forward"}[divided]
        result: Array = getattr(fft, LIBRARY[kind])(x, n, axis, norm, overwrite_x=kind in ("inverse", "to_real"))
        return result
    from spectralops._cpu.vector.transforms import transform

    dtype = DTYPES[double] if kind == "to_real" else COMPLEX[double]
    out = np.empty((*shape[:-1], n // 2 + 1) if kind == "from_real" else shape, dtype)
    transform(kind, x, out, shape, (axis,), 1.0 / n if scaled else 1.0, 1)
    return out


def _moved(plan: FourierResamplePlan, spectrum: Array, j: int, axis: int) -> Array:
    """The spectrum with its j-th axis cut or padded from one size to the other."""
    m = plan.out_sizes[j]
    length = m // 2 + 1 if plan.halved and j == len(plan.axes) - 1 else m
    result = np.zeros((*spectrum.shape[:axis], length, *spectrum.shape[axis + 1 :]), spectrum.dtype)
    source, target = np.moveaxis(spectrum, axis, 0), np.moveaxis(result, axis, 0)
    for move in plan.moves(j):
        # A Python float as factor keeps single precision.
        chunk = source[move.source : move.source + move.length]
        target[move.target : move.target + move.length] += chunk if move.factor == 1.0 else chunk * move.factor
    return result
