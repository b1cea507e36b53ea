"""Convolutions as explicit sums over every tap, in 64 bit: the meaning of the operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve"]

Array = Any

PAD_MODES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def convolve(plan: ConvolvePlan, x: Array, kernel: Array, *, out: Array, workers: int) -> None:
    """Every element of x lays a copy of the kernel, weighted with itself, into the full result; then the window."""
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    a, b = np.moveaxis(_wide(x), plan.axes, last), np.moveaxis(_wide(kernel), plan.kernel_axes, last)
    if plan.flipped:
        b = np.flip(b, last).conj()
    widths = [(0, 0)] * (a.ndim - d) + list(plan.padding)
    fill = {"constant_values": plan.fillvalue} if plan.boundary == "fill" else {}
    a = np.pad(a, widths, PAD_MODES[plan.boundary], **fill)  # type: ignore[call-overload]
    b = b.reshape((1,) * (a.ndim - b.ndim) + b.shape)
    batch = np.broadcast_shapes(a.shape[:-d], b.shape[:-d])
    full: Array = np.zeros(
        (*batch, *(n + k - 1 for n, k in zip(a.shape[-d:], b.shape[-d:], strict=True))), np.result_type(a, b)
    )
    for j in np.ndindex(b.shape[-d:]):
        shifted = tuple(slice(i, i + n) for i, n in zip(j, a.shape[-d:], strict=True))
        full[(..., *shifted)] += b[(..., *j)].reshape(b.shape[:-d] + (1,) * d) * a
    window = tuple(slice(s, s + n) for s, n in zip(plan.start, plan.outputs, strict=True))
    out[...] = np.moveaxis(full[(..., *window)], last, plan.axes)
