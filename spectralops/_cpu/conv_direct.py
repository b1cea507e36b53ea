"""Direct sums: dot products along long rows, else shifted multiply-adds over blocks of outputs that stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spectralops._cpu.blocks import run
from spectralops._cpu.conv_blocks import batch_blocks, part

__all__ = ["direct", "shifted_sums"]

Array = Any

# Outputs taken at a time: they, the products and the inputs behind them share a second-level cache.
BLOCK = 2**16
# From this length on, the dot products of numpy.convolve are quicker than shifts.
ROW = 256


def direct(a: Array, b: Array, out: Array, start: Sequence[int], workers: int) -> None:
    """The window of a * b from `start` on, by sums over the taps of `b`."""
    d = len(start)
    if d == 1 and a.shape[-1] >= ROW:
        _rows(a, b, out, start[0], workers)
    else:
        shifted_sums(a, b, out, start, (-1,) * d, (1,) * d, workers)


def _rows(a: Array, b: Array, out: Array, start: int, workers: int) -> None:
    batch, window = out.shape[:-1], slice(start, start + out.shape[-1])
    rows_a, rows_b = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (a, b))

    def one_row(index: tuple[int, ...]) -> None:
        out[index] = np.convolve(rows_a[index], rows_b[index])[window]

    run(one_row, list(np.ndindex(batch)), workers)


def shifted_sums(
    a: Array,
    b: Array,
    out: Array,
    origin: Sequence[int],
    tap_step: Sequence[int],
    stride: Sequence[int],
    workers: int,
    finish: Callable[[Array, tuple[slice, ...]], None] | None = None,
) -> None:
    """out[n] = sum over taps j of b[j] * a[origin + tap_step * j + stride * n], nothing being added beyond the ends.

    The last axes, as many as `origin` has entries, are summed over; those before broadcast. Each block of results
    and its slices of the batch axes are handed to `finish`.
    """
    d = len(origin)
    batch, sizes = out.shape[:-d], out.shape[-d:]
    taps = [(j, b[(..., *j)][(..., *(None,) * d)]) for j in np.ndindex(b.shape[-d:])]

    def one_block(index: tuple[slice, ...]) -> None:
        *boxes, box = index
        lead = tuple(boxes)
        source, target = part(a, lead), out[(*lead, ..., box, *(slice(None),) * (d - 1))]
        first = [
            o + (s * box.start if axis == 0 else 0) for axis, (o, s) in enumerate(zip(origin, stride, strict=True))
        ]
        target[...] = 0
        product: Array = np.empty(target.shape, out.dtype)
        for j, tap in taps:
            offsets = [o + t * i for o, t, i in zip(first, tap_step, j, strict=True)]
            reads, writes = _overlap(offsets, stride, source.shape[-d:], target.shape[-d:])
            mine, addend = target[(..., *writes)], product[(..., *writes)]
            np.multiply(source[(..., *reads)], part(tap, lead), out=addend)
            np.add(mine, addend, out=mine)
        if finish is not None:
            finish(target, lead)

    run(one_block, batch_blocks((*batch, sizes[0]), max(1, BLOCK // int(np.prod(sizes[1:])))), workers)


def _overlap(
    offsets: Sequence[int], stride: Sequence[int], n: Sequence[int], outputs: Sequence[int]
) -> tuple[list[slice], list[slice]]:
    """Slices of the input and of the output that a shift brings together: 0 <= offset + stride * m < n."""
    reads, writes = [], []
    for offset, s, size, wanted in zip(offsets, stride, n, outputs, strict=True):
        low = max(0, -(offset // s))
        high = max(low, min(wanted, (size - 1 - offset) // s + 1))
        writes.append(slice(low, high))
        reads.append(slice(offset + s * low, offset + s * (high - 1) + 1 if high > low else offset + s * low, s))
    return reads, writes
