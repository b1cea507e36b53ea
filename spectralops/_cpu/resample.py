"""Resampling on the host: axis by axis, so that later transforms work on what the earlier ones kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

from spectralops._cpu.blocks import Index, blocks, run

if TYPE_CHECKING:
    from spectralops._plans.resample import FourierResamplePlan

__all__ = ["fourier_resample"]

Array = np.ndarray[Any, Any]


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
        halved = plan.halved and j == d - 1
        forward: Any = fft.rfft if halved else fft.fft
        spectrum = forward(spectrum, axis=axes[j], norm=plan.norm)
        if shrinks[j]:
            spectrum = _moved(plan, spectrum, j, axes[j])
    for j in range(d):
        if not shrinks[j]:
            spectrum = _moved(plan, spectrum, j, axes[j])
        inverse: Any = fft.irfft if plan.halved and j == d - 1 else fft.ifft
        spectrum = inverse(spectrum, n=plan.out_sizes[j], axis=axes[j], norm=plan.norm, overwrite_x=True)
    return spectrum


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
