"""Linear convolution by transforms: one per array, or overlap-save over tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from spectralops._cpu.blocks import run
from spectralops._cpu.conv_blocks import backward, batch_blocks, forward, part

__all__ = ["gather", "overlap_save", "transformed"]

Array = Any

# Elements transformed at a time: their spectra and products stay in a core's second-level cache.
BLOCK = 2**17


class _Spectrum:
    """Spectrum of one factor: computed once where several results share it, else with each block."""

    def __init__(self, x: Array, lengths: Sequence[int], halved: bool, results: int) -> None:
        self._lengths, self._halved = lengths, halved
        self._axes = range(-len(lengths), 0)
        count = int(np.prod(x.shape[: -len(lengths)]))
        self._whole = forward(x, lengths, self._axes, halved) if count < results or count == 1 else None
        self._x = x

    def __call__(self, index: tuple[slice, ...]) -> Array:
        if self._whole is not None:
            return part(self._whole, index)
        return forward(part(self._x, index), self._lengths, self._axes, self._halved)


def transformed(a: Array, b: Array, out: Array, start: Sequence[int], lengths: Sequence[int], workers: int) -> None:
    """The window of a * b from `start` on, by circular convolution of `lengths`, long enough not to wrap into it."""
    d = len(lengths)
    batch, axes, halved = out.shape[:-d], range(-d, 0), out.dtype.kind == "f"
    windows = [slice(s, s + n) for s, n in zip(start, out.shape[-d:], strict=True)]
    results = int(np.prod(batch))
    spectra = [_Spectrum(x, lengths, halved, results) for x in (a, b)]

    def one_block(index: tuple[slice, ...]) -> None:
        spectrum = spectra[0](index) * spectra[1](index)
        out[index] = backward(spectrum, lengths, axes, windows, halved)

    run(one_block, batch_blocks(batch, max(1, BLOCK // int(np.prod(lengths)))), workers)


def overlap_save(a: Array, b: Array, out: Array, start: Sequence[int], tile: Sequence[int], workers: int) -> None:
    """The window of a * b from `start` on, by circular convolutions of tiles of `a` with the shorter `b`.

    A tile of P elements gives the P - K + 1 outputs of which it holds every input.
    """
    d = len(tile)
    batch, sizes, halved = out.shape[:-d], out.shape[-d:], out.dtype.kind == "f"
    kernel = b.shape[-d:]
    steps = [p - k + 1 for p, k in zip(tile, kernel, strict=True)]
    # Neighbouring tiles along the last axis are transformed together: axes (..., p_1, ..., tiles, p_d).
    axes = [*range(-d - 1, -2), -1]
    spectrum_b = _Spectrum(b, tile, halved, max(2, int(np.prod(batch))))
    room = max(1, BLOCK // int(np.prod(tile)))
    together = min(room, -(-sizes[-1] // steps[-1]))
    windows = [slice(k - 1, None) for k in kernel]

    def one_group(item: tuple[tuple[slice, ...], tuple[int, ...]]) -> None:
        index, corner = item
        count = min(together, -(-(sizes[-1] - corner[-1]) // steps[-1]))
        low = [s + c - k + 1 for s, c, k in zip(start, corner, kernel, strict=True)]
        extent = [*tile[:-1], (count - 1) * steps[-1] + tile[-1]]
        tiles = _side_by_side(gather(part(a, index), low, extent), count, steps[-1], tile[-1])
        spectrum = forward(tiles, tile, axes, halved) * np.expand_dims(spectrum_b(index), -2)
        result = backward(spectrum, tile, axes, windows, halved)
        result = result.reshape(*result.shape[:-2], count * steps[-1])
        target = out[(*index, *(slice(c, c + n) for c, n in zip(corner, result.shape[-d:], strict=True)))]
        target[...] = result[(..., *(slice(n) for n in target.shape[-d:]))]

    strides = [*steps[:-1], together * steps[-1]]
    corners = product(*(range(0, n, step) for n, step in zip(sizes, strides, strict=True)))
    run(one_group, list(product(batch_blocks(batch, max(1, room // together)), corners)), workers)


def gather(x: Array, low: Sequence[int], extent: Sequence[int]) -> Array:
    """The box of `extent` elements from `low` on along the last axes, zeros beyond the ends of `x`."""
    d = len(extent)
    n = x.shape[-d:]
    inside = [(max(i, 0), min(i + e, m)) for i, e, m in zip(low, extent, n, strict=True)]
    box = x[(..., *(slice(i, max(i, j)) for i, j in inside))]
    if box.shape[-d:] == tuple(extent):
        return box
    buffer: Array = np.zeros((*x.shape[:-d], *extent), x.dtype)
    buffer[(..., *(slice(i - o, max(i, j) - o) for (i, j), o in zip(inside, low, strict=True)))] = box
    return buffer


def _side_by_side(x: Array, count: int, step: int, length: int) -> Array:
    """View of overlapping pieces of the last axis, with a new axis that counts them before it."""
    pieces = np.lib.stride_tricks.sliding_window_view(x, length, axis=-1)[..., ::step, :]
    return pieces[..., :count, :]
