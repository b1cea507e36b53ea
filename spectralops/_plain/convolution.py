"""Convolutions as one would write them with NumPy or CuPy: whole arrays, one step after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve"]

PAD_MODES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _namespaces(out: Any) -> tuple[Any, Any]:
    """The array library of `out` and its Fourier transforms."""
    if isinstance(out, np.ndarray):
        import scipy.fft

        return np, scipy.fft
    import cupy
    import cupyx.scipy.fft

    return cupy, cupyx.scipy.fft


def convolve(plan: ConvolvePlan, x: Any, kernel: Any, *, out: Any, workers: int) -> None:
    """The window of x * kernel, by sums over taps, one transform, or overlap-add."""
    if not out.size:
        return
    xp, fft = _namespaces(out)
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    a, b = xp.moveaxis(x, plan.axes, last), xp.moveaxis(kernel, plan.kernel_axes, last)
    if plan.flipped:
        b = xp.flip(b, last).conj()
    if plan.padding != ((0, 0),) * d:
        fill = {"constant_values": plan.fillvalue} if plan.boundary == "fill" else {}
        a = xp.pad(a, [(0, 0)] * (a.ndim - d) + list(plan.padding), PAD_MODES[plan.boundary], **fill)
    b = b[(None,) * (a.ndim - b.ndim)]
    if math.prod(b.shape[-d:]) > math.prod(a.shape[-d:]):
        a, b = b, a
    target = xp.moveaxis(out, plan.axes, last)
    if plan.method == "direct":
        _sum_taps(xp, a, b, target, plan.start)
    elif plan.method == "fft":
        window = tuple(slice(s, s + n) for s, n in zip(plan.start, plan.outputs, strict=True))
        target[...] = _circular(fft, a, b, plan.lengths)[(..., *window)]
    else:
        _overlap_add(fft, a, b, target, plan.start, plan.lengths)


def _sum_taps(xp: Any, a: Any, b: Any, out: Any, start: Sequence[int]) -> None:
    """out[n] = sum of b[j] a[n + start - j]."""
    d = len(start)
    out[...] = 0
    for j in np.ndindex(b.shape[-d:]):
        tap = b[(..., *j)][(..., *(None,) * d)]
        reads, writes = [], []
        for s, i, n, m in zip(start, j, a.shape[-d:], out.shape[-d:], strict=True):
            low, high = max(0, i - s), min(m, n + i - s)
            writes.append(slice(low, max(low, high)))
            reads.append(slice(low + s - i, max(low, high) + s - i))
        if all(w.stop > w.start for w in writes):
            out[(..., *writes)] += tap * a[(..., *reads)]


def _circular(fft: Any, a: Any, b: Any, lengths: Sequence[int]) -> Any:
    """Circular convolution of `lengths`, zeros appended."""
    axes = tuple(range(-len(lengths), 0))
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        return fft.ifftn(fft.fftn(a, lengths, axes) * fft.fftn(b, lengths, axes), axes=axes)
    return _real_inverse(fft, fft.rfftn(a, lengths, axes) * fft.rfftn(b, lengths, axes), lengths)


def _real_inverse(fft: Any, spectrum: Any, lengths: Sequence[int]) -> Any:
    """Inverse of rfftn whose last step is one-dimensional: no library varies what that does with imaginary parts."""
    d = len(lengths)
    if d > 1:
        spectrum = fft.ifftn(spectrum, axes=tuple(range(-d, -1)))
    return fft.irfft(spectrum, lengths[-1], axis=-1)


def _overlap_add(fft: Any, a: Any, b: Any, out: Any, start: Sequence[int], tile: Sequence[int]) -> None:
    """Each piece of `a` is convolved with `b` and added to the outputs that it reaches."""
    d = len(tile)
    out[...] = 0
    steps = [p - k + 1 for p, k in zip(tile, b.shape[-d:], strict=True)]
    for corner in product(*(range(0, n, step) for n, step in zip(a.shape[-d:], steps, strict=True))):
        piece = a[(..., *(slice(c, c + step) for c, step in zip(corner, steps, strict=True)))]
        result = _circular(fft, piece, b, tile)
        reads, writes = [], []
        for c, s, p, m in zip(corner, start, tile, out.shape[-d:], strict=True):
            low, high = max(0, c - s), min(m, c - s + p)
            writes.append(slice(low, max(low, high)))
            reads.append(slice(low + s - c, max(low, high) + s - c))
        out[(..., *writes)] += result[(..., *reads)]
