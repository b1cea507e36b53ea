"""Half spectra whose real inverse is the same on every engine.

A half spectrum holds two planes, DC and (for even n) Nyquist, that a real signal fixes to be Hermitian over the other
axes; on one axis that means real. NumPy's real inverse ignores the part that is not: it transforms the other axes,
then drops the imaginary part of the two planes. cuFFT lets that part through for some lengths and ranks, so here it is
taken out before, which changes nothing for an engine that ignores it:

    P'(k) = (P(k) + conj P(-k)) / 2  over the other axes  =>  ifft(P') = Re ifft(P).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["hermitian_array", "hermitian_tensor"]


def _planes(ndim: int, n: int, axis: int) -> tuple[slice, ...]:
    """Index of the DC plane and, for even `n`, the Nyquist plane as well."""
    index = [slice(None)] * ndim
    index[axis] = slice(0, n // 2 + 1, n // 2) if n % 2 == 0 else slice(0, 1)
    return tuple(index)


def _half(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (*sizes[:-1], sizes[-1] // 2 + 1)


def hermitian_array(x: Any, sizes: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> Any:
    """Complex copy of a NumPy or CuPy half spectrum, cut or padded to `sizes`, with Hermitian planes."""
    xp: Any = np if isinstance(x, np.ndarray) else sys.modules["cupy"]
    shape, kept = list(x.shape), [slice(None)] * x.ndim
    for n, axis in zip(_half(sizes), axes, strict=True):
        shape[axis] = n
        kept[axis] = slice(0, min(n, x.shape[axis]))
    spectrum = (xp.empty if tuple(shape) == x.shape else xp.zeros)(tuple(shape), dtype)
    spectrum[tuple(kept)] = x[tuple(kept)]
    planes = spectrum[_planes(x.ndim, sizes[-1], axes[-1])]
    others = axes[:-1]
    if others:
        mirrored = xp.roll(xp.flip(planes, others), (1,) * len(others), others)
        planes[...] = (planes + mirrored.conj()) / 2
    else:
        planes.imag[...] = 0
    return spectrum


def hermitian_tensor(x: Any, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """The same for a torch tensor, differentiable."""
    torch = sys.modules["torch"]
    x = x if x.is_complex() else torch.complex(x, torch.zeros_like(x))
    padding = [0] * (2 * x.ndim)
    for n, axis in zip(_half(sizes), axes, strict=True):
        # Counted from the last axis, the end after the beginning; a negative number cuts.
        padding[2 * (x.ndim - 1 - axis) + 1] = n - x.shape[axis]
    spectrum = torch.nn.functional.pad(x, padding) if any(padding) else x.clone()
    planes = spectrum[_planes(x.ndim, sizes[-1], axes[-1])]
    others = axes[:-1]
    if others:
        mirrored = torch.roll(torch.flip(planes, others), (1,) * len(others), others)
        planes.copy_((planes + mirrored.conj()) / 2)
    else:
        planes.copy_(planes.real.clone())
    return spectrum
