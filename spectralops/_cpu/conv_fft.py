"""Linear convolution by transforms: one per array, or overlap-save over tiles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
    """Spectrum of one factor: computed once if it is used more often than it has arrays, else with each block."""

    def __init__(self, x: Array, lengths: Sequence[int], halved: bool, uses: int, workers: int) -> None:
        self._transform = partial(
            forward, lengths=lengths, axes=range(-len(lengths), 0), halved=halved, workers=workers
        )
        count = int(np.prod(x.shape[: -len(lengths)]))
        self._whole = self._transform(x) if count < uses else None
        self._x = x

    def __call__(self, index: tuple[slice, ...]) -> Array:
        if self._whole is not None:
            return part(self._whole, index)
        return self._transform(part(self._x, index))


def transformed(a: Array, b: Array, out: Array, start: Sequence[int], lengths: Sequence[int], workers: int) -> None:
    """The window of a * b from `start` on, by circular convolution of `lengths`, long enough not to wrap into it."""
    d = len(lengths)
    batch, axes, halved = out.shape[:-d], range(-d, 0), out.dtype.kind == "f"
    windows = [slice(s, s + n) for s, n in zip(start, out.shape[-d:], strict=True)]
    blocks = batch_blocks(batch, max(1, BLOCK // int(np.prod(lengths))))
    spare = workers if len(blocks) == 1 else 1
    spectra = [_Spectrum(x, lengths, halved, int(np.prod(batch)), spare) for x in (a, b)]

    def one_block(index: tuple[slice, ...]) -> None:
        spectrum = spectra[0](index) * spectra[1](index)
        out[index] = backward(spectrum, lengths, axes, windows, halved, spare)

    run(one_block, blocks, workers)


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
    corners = list(product(*(range(0, n, step) for n, step in zip(sizes, strides, strict=True))))
    spectrum_b = _Spectrum(b, tile, halved, int(np.prod(batch)) * len(corners), 1)
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
