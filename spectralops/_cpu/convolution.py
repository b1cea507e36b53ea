"""Convolutions on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu.conv_blocks import pad
from spectralops._cpu.conv_direct import direct
from spectralops._cpu.conv_fft import overlap_save, transformed

if TYPE_CHECKING:
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve"]

Array = Any


def convolve(plan: ConvolvePlan, x: Array, kernel: Array, *, out: Array, workers: int) -> None:
    """Bring both arrays into one form, batch axes first, and convolve them by the planned algorithm."""
    if not out.size:
        return
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    a = pad(np.moveaxis(x, plan.axes, last), plan.padding, plan.boundary, plan.fillvalue)
    b = np.moveaxis(kernel, plan.kernel_axes, last)
    if plan.flipped:
        b = b[(..., *(slice(None, None, -1),) * d)].conj()
    b = b[(None,) * (a.ndim - b.ndim)]
    if np.prod(b.shape[-d:]) > np.prod(a.shape[-d:]):
        a, b = b, a
    target = np.moveaxis(out, plan.axes, last)
    if plan.method == "direct":
        direct(a, b, target, plan.start, workers)
    elif plan.method == "fft":
        transformed(a, b, target, plan.start, plan.lengths, workers)
    else:
        overlap_save(a, b, target, plan.start, plan.lengths, workers)
