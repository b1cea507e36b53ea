"""Convolution of real images by overlap-save tiles whose neighbouring columns are one complex number."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cuda.convolution_problem import Problem
from spectralops._cuda.convolution_tiles import RADICES, Family, Geometry, table, threads_of
from spectralops._cuda.geometry import MULTIPROCESSOR_BYTES, SYSTEM_BYTES

__all__ = ["pair_geometry", "paired"]

# Threads of a multiprocessor by the largest radix of a row's first pass, of which a thread has two butterflies, and by
# bytes of a number. Two lanes that have one each are slower, though more threads fit.
THREADS = {4: ((8, 1024), (12, 768), (18, 512)), 8: ((8, 512), (18, 256))}
# Those of a block that has a multiprocessor to itself, in single precision.
LEAST_THREADS, MOST_THREADS = 480, 512

# Blocks that a kernel's spectrum takes at most, and those that run at once.
MOST_PARTS, MULTIPROCESSORS = 8, 128


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
    fitting = max(1, MULTIPROCESSOR_BYTES // (shared + SYSTEM_BYTES))
    resident = next(count for radix, count in THREADS[itemsize] if orders[1][0] <= radix)
    half = rows * columns // 2
    passes = [(half // r, r) for order in orders for r in order]
    passes[2] = (passes[2][0] // 2, 2 * passes[2][1])
    alone = fitting == 1 and itemsize == 4
    threads = threads_of(passes, MOST_THREADS if alone else resident // fitting, LEAST_THREADS if alone else 0)
    resident = max(resident, threads)
    return Geometry(orders, threads, max(1, min(fitting, resident // threads)), 1, shared)


def beside(order: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Twiddle factors of columns: for each butterfly of the first of two passes an even number of neighbours."""
    radix, parts = order
    turns = np.outer(np.arange(parts), np.arange(1, radix // 2 * 2 + 1)) / (radix * parts)
    factors: np.ndarray[Any, Any] = np.exp(-2j * np.pi * turns).ravel()
    return factors


def paired(task: Problem, lengths: tuple[int, ...], each: Geometry, whole: bool) -> Family:
    """Real tiles of which columns are paired. `whole`: whether one ring holds everything."""
    once = whole and _at_once(task, lengths)
    if once:
        before, start = (0, 0), tuple(b % n for b, n in zip(task.before, lengths, strict=True))
    else:
        # Where tiles begin with the second of a pair, they and kernels get another column before them.
        shift = task.before[1] % 2
        before, start = (task.before[0], task.before[1] + shift), (0, -shift)
    step, tiles = zip(*(_tiles(task, axis, lengths[axis] + min(start[axis], 0), whole) for axis in (0, 1)), strict=True)
    beyond = "FILL" if once else task.beyond
    even = task.size[1] % 2 == task.out[1] % 2 == 0
    words = "true" if even and beyond in ("FILL", "WRAP") else "false"
    cells = f"Cells<{task.size[0]}, {task.size[1]}, {'true' if once else 'false'}>"
    read = f"{task.stored}, {beyond}, {words}, {cells}"
    written = f"Results<{task.out[0]}, {task.out[1]}, {step[0]}, {step[1]}>, {task.activation}"
    low, high = (n // 2 for n in (-start[1], task.taps[1] - 1 - start[1]))
    half = lengths[1] // 2
    taps = min(half, high - low + 1)
    # Few kernels are spread over the device, which waits for the slowest.
    parts = max(1, min(MOST_PARTS, lengths[0] // 16, MULTIPROCESSORS // (task.kernel[1] * task.inputs)))
    types = {
        "spectra": ", ".join(map(str, (task.stored, *task.taps, low % half if taps < half else 0, taps, parts))),
        "filter": f"{read}, {written}",
        "forward": read,
        "inverse": f"{task.stored}, {words}, {written}",
    }
    # Numbers come out of both symmetries twice. Beside all lines but the first one, the ends of two.
    points = math.prod(lengths)
    return Family(
        "conv_pairs.cu", "pair", each, step, tiles, 1, points // 2 + 2, 0.25 / points, types, before,
        [beside(each.orders[0]), table(each.orders[1])], start, parts,
    )  # fmt: skip


def _at_once(task: Problem, lengths: tuple[int, ...]) -> bool:
    """Whether an image may lie in the first cells of its ring, and the kernel begin before."""
    if task.beyond == "WRAP":
        return task.period == lengths
    room = all(0 <= b <= n - size for b, n, size in zip(task.before, lengths, task.size, strict=True))
    return room and task.beyond == "FILL" and task.fill == 0


def _tiles(task: Problem, axis: int, length: int, whole: bool) -> tuple[int, int]:
    """Results of a tile along an axis, an even number if there are several, and tiles."""
    out = task.out[axis]
    if whole:
        return out, 1
    tiles = -(-out // ((length - task.taps[axis] + 1) // 2 * 2))
    return (out, 1) if tiles == 1 else (-(-out // (2 * tiles)) * 2, tiles)
