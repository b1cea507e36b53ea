"""Arrays of the convolutions made ready: values beyond the ends, batch blocks, transforms with padding and cropping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

__all__ = ["backward", "batch_blocks", "forward", "pad", "part"]

Array = Any
Pads = Sequence[tuple[int, int]]

# Index into an axis of n elements for every position m, also far beyond its ends.
SOURCES: dict[str, Callable[[Array, int], Array]] = {
    "wrap": lambda m, n: m % n,
    "edge": lambda m, n: np.clip(m, 0, n - 1),
    "symm": lambda m, n: np.minimum(m % (2 * n), 2 * n - 1 - m % (2 * n)),
    "reflect": lambda m, n: np.abs((m + n - 1) % max(2 * n - 2, 1) - (n - 1)),
}


def pad(x: Array, widths: Pads, mode: str, value: complex = 0.0) -> Array:
    """Copy of `x` with values before and after its last axes; negative widths crop. No copy where none are wanted."""
    d = len(widths)
    if mode in SOURCES:
        for axis, (low, high) in zip(range(-d, 0), widths, strict=True):
            if low or high:
                n = x.shape[axis]
                x = np.take(x, SOURCES[mode](np.arange(-low, n + high), n), axis=axis)
        return x
    if not any(low or high for low, high in widths):
        return x
    n = x.shape[-d:]
    padded: Array = np.full(
        (*x.shape[:-d], *(m + low + high for m, (low, high) in zip(n, widths, strict=True))), value, x.dtype
    )
    target = tuple(slice(max(low, 0), max(low, 0) + m + min(low, 0) + min(high, 0))
                   for m, (low, high) in zip(n, widths, strict=True))  # fmt: skip
    source = tuple(slice(max(-low, 0), m - max(-high, 0)) for m, (low, high) in zip(n, widths, strict=True))
    padded[(..., *target)] = x[(..., *source)]
    return padded


def batch_blocks(batch: tuple[int, ...], size: int) -> list[tuple[slice, ...]]:
    """Slices that cut the batch axes into boxes of at most `size` entries, the last axes whole where they fit."""
    steps = []
    for n in reversed(batch):
        steps.append(max(1, min(n, size)))
        size //= steps[-1]
    ranges = [[slice(i, i + step) for i in range(0, n, step)] for n, step in zip(batch, reversed(steps), strict=True)]
    return list(product(*ranges))


def part(x: Array, index: tuple[slice, ...]) -> Array:
    """What broadcasts against the box `index` of the batch: axes of length 1 stay whole."""
    return x[tuple(slice(None) if n == 1 else box for n, box in zip(x.shape, index, strict=False))]


def forward(x: Array, lengths: Sequence[int], axes: Sequence[int], halved: bool, workers: int = 1) -> Array:
    """Spectrum along `axes`, zeros appended up to `lengths`; the last axis first, while the others are short."""
    from scipy import fft  # not needed where kernels are compiled, and slow to load

    one = fft.rfft if halved else fft.fft
    for n, axis in zip(reversed(lengths), reversed(axes), strict=True):
        x = one(x, n, axis=axis, workers=workers)
        one = fft.fft
    return x


def backward(
    spectrum: Array,
    lengths: Sequence[int],
    axes: Sequence[int],
    windows: Sequence[slice],
    halved: bool,
    workers: int = 1,
) -> Array:
    """Inverse of :func:`forward`, cropped to a window along each axis as soon as it is transformed."""
    from scipy import fft

    for j, (n, axis, window) in enumerate(zip(lengths, axes, windows, strict=True)):
        if halved and j == len(axes) - 1:
            spectrum = fft.irfft(spectrum, n, axis=axis, overwrite_x=True, workers=workers)
        else:
            spectrum = fft.ifft(spectrum, n, axis=axis, overwrite_x=True, workers=workers)
        box = [slice(None)] * spectrum.ndim
        box[axis] = window
        spectrum = spectrum[tuple(box)]
    return spectrum
