"""Convolution of real images by overlap-save tiles whose neighbouring columns are one complex number."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from spectralops._cuda.convolution_problem import Problem
from spectralops._cuda.convolution_tiles import (
    MULTIPROCESSOR_BYTES,
    RADICES,
    RESERVED_BYTES,
    Family,
    Geometry,
    threads_of,
)

__all__ = ["pair_geometry", "paired"]

# Threads of a multiprocessor by the largest radix of a row's first pass, of which a thread has two butterflies, and by
# bytes of a number. Two lanes that have one each are slower, though more threads fit.
THREADS = {4: ((8, 1024), (12, 768), (18, 512)), 8: ((8, 512), (18, 256))}


@lru_cache(maxsize=1024)
def _radices(n: int) -> tuple[int, ...]:
    """Two radices that differ as little as possible, the last one even; nothing if there are none."""
    found = [(a, n // a) for a in RADICES if n % a == 0 and n // a in RADICES and n // a % 2 == 0]
    return min(found, key=lambda each: (abs(each[1] - each[0]), each[0]), default=())


def pair_geometry(lengths: tuple[int, ...], itemsize: int, shared_bytes: int) -> Geometry | None:
    """How a block transforms a tile of these lengths, None where it does not hold one."""
    if len(lengths) != 2 or not all(map(_radices, lengths)):
        return None
    (rows, columns), orders = lengths, tuple(map(_radices, lengths))
    shared = rows * (columns // 2 | 1) * 2 * itemsize
    if shared > shared_bytes:
        return None
    fitting = max(1, MULTIPROCESSOR_BYTES // (shared + RESERVED_BYTES))
    resident = next(count for radix, count in THREADS[itemsize] if orders[1][0] <= radix)
    half = rows * columns // 2
    passes = [(half // r, r) for order in orders for r in order]
    passes[2] = (passes[2][0] // 2, 2 * passes[2][1])
    threads = threads_of(passes, resident // fitting)
    return Geometry(orders, threads, max(1, min(fitting, resident // threads)), 1, shared)


def paired(task: Problem, lengths: tuple[int, ...], each: Geometry, whole: bool) -> Family:
    """Real tiles of which columns are paired. `whole`: whether one ring holds everything."""
    # Where tiles begin with the second of a pair, they and kernels get another column before them.
    shift = task.before[1] % 2
    task = replace(task, before=(task.before[0], task.before[1] + shift))
    step, tiles = zip(*(_tiles(task, axis, lengths[axis] - shift * axis, whole) for axis in (0, 1)), strict=True)
    even = task.size[1] % 2 == task.out[1] % 2 == 0
    words = "true" if even and task.beyond in ("FILL", "WRAP") else "false"
    low, some = _columns(task, lengths[1]) if whole else (0, lengths[1] // 2)
    read, written = f"{task.stored}, {task.beyond}, {words}", f"{task.activation}, {-(-step[1] // 2)}"
    types = {
        "spectra": f"{task.stored}, {shift}, {-(-(task.taps[1] + shift) // 2)}",
        "filter": f"{read}, {written}, {low}, {some}",
        "forward": f"{read}, {low}, {some}",
        "inverse": f"{task.stored}, {words}, {written}",
    }
    # Numbers come out of both symmetries twice. Beside all lines but the first one, the ends of two.
    points = math.prod(lengths)
    return Family("conv_pairs.cu", "pair", each, step, tiles, 1, points // 2 + 2, 0.25 / points, types, shift)


def _tiles(task: Problem, axis: int, length: int, whole: bool) -> tuple[int, int]:
    """Results of a tile along an axis, an even number if there are several, and tiles."""
    out = task.out[axis]
    if whole:
        return out, 1
    tiles = -(-out // ((length - task.taps[axis] + 1) // 2 * 2))
    return (out, 1) if tiles == 1 else (-(-out // (2 * tiles)) * 2, tiles)


def _columns(task: Problem, width: int) -> tuple[int, int]:
    """The pairs of columns of a ring that are not zero: from which on, and how many."""
    if task.beyond != "FILL" or task.fill != 0:
        return 0, width // 2
    begin, end = max(0, task.before[1]), min(width, task.before[1] + task.size[1])
    return begin // 2, max(1, -(-end // 2) - begin // 2)
