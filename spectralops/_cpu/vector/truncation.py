"""Truncated transforms of one grid: which steps they take, and the job that :func:`truncated.chain` reads.

The axes before the last are columns, with neighbouring points in the lanes; the last one is rows. Each is transformed
by products with Fourier matrices, on which its even and odd parts act apart (:mod:`folding`), or by an FFT.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import host, kernels
from spectralops._cpu.vector import truncation_fields as f
from spectralops._cpu.vector.choice import has_passes, has_transform, is_smooth, units_of_passes
from spectralops._cpu.vector.fourier_matrices import padded, sum_rows
from spectralops._cpu.vector.truncation_steps import (
    Columns,
    Grid,
    Rows,
    Step,
    blocks,
    product_columns,
    product_rows,
    signs,
)
from spectralops._cpu.vector.truncation_waves import wave_columns, wave_rows, wave_sum_rows

__all__ = ["Grid", "Stage", "stage", "ways"]

Array = np.ndarray[Any, Any]

# Costs relative to one fused multiplication and addition of vectors in a product, as measured: folding a number,
# transforming it (times the logarithm of the length, or half its units), and how much more odd lengths cost, and those
# with large factors.
FOLD = 1.5
BUTTERFLY = 1.5
ODD = 1.5
CHIRP = 8.0
# Below this length both are as fast.
SHORTEST = 32
# Small images take their steps together.
TOGETHER_BYTES = 1 << 14


@dataclass(frozen=True, eq=False)
class Stage:
    """What turns fields into kept modes, or back."""

    job: Array
    work: int  # numbers
    scratch: int
    keep: tuple[Any, ...]
    gain: float  # the result is so many times the transform


@lru_cache(maxsize=64)
def stage(of: Grid, images: int, inverse: bool) -> Stage:
    """From the fields of so many images to their modes, or back."""
    steps = _steps(of, images, inverse)
    return _chained(of, steps[::-1] if inverse else steps, inverse)


def ways(of: Grid) -> tuple[str, ...]:
    """``"product"`` or ``"fft"`` for each axis, whichever the cost model expects to be faster.

    Costs count fused multiplications and additions of vectors: for one vector of columns, or as many rows as lanes.
    """
    last = len(of.sizes) - 1
    chosen = []
    for axis, (n, m) in enumerate(zip(of.sizes, of.modes, strict=True)):
        if axis < last:
            products = (of.highest[axis] + 1) * (n / 2 if n % 2 == 0 else n)
            lines = 1
        else:
            folded = of.halved and n > 2 * host.lanes(of.dtype)
            products = m * n * (1 if folded else 2 * of.numbers)
            lines = 1 if of.halved and n % 2 == 0 else 2
        length = n // 2 if n % 2 == 0 and (axis < last or of.halved) else n
        fast = n >= SHORTEST and has_transform(length) and lines * _transform(n, length) < products + FOLD * n
        chosen.append("fft" if fast else "product")
    return tuple(chosen)


def _transform(n: int, length: int) -> float:
    """The cost of the transform of n real numbers, done by one of `length` complex ones."""
    cost = BUTTERFLY * n * math.log2(max(n, 2))
    if not has_passes(length):
        return CHIRP * cost
    if not is_smooth(length):
        return BUTTERFLY * n * units_of_passes(length) / 2
    return cost if length & -length > 2 else ODD * cost


def _steps(of: Grid, images: int, inverse: bool) -> list[Step]:
    """From the points on: the columns of each axis but the last, the rows, the signs of the columns' axes, blocks."""
    lanes, d, chosen = host.lanes(of.dtype), len(of.sizes), ways(of)
    steps: list[Step] = []
    columns: list[Columns] = []
    groups, group, row = 1, of.points, of.points // of.sizes[0]
    for axis, highest in enumerate(of.highest):
        inner = math.prod(of.sizes[axis + 1 :]) * of.numbers
        wide = padded(inner, lanes) + lanes
        rows = 2 * (highest + 1)
        columns.append(Columns(axis, highest, groups, inner, group, row, rows * wide, wide))
        steps.append((product_columns if chosen[axis] == "product" else wave_columns)(of, columns[-1], inverse))
        groups *= rows
        group = wide
        row = inner // of.sizes[axis + 1]
    last = of.modes[-1]
    width, imag = (padded(2 * last, lanes), last) if d > 1 else (2 * of.imag, of.imag)
    steps.append(
        (product_rows if chosen[-1] == "product" else wave_rows)(of, Rows(groups, group, width, imag), inverse)
    )
    inner = 1
    for at in reversed(columns):
        product = chosen[at.axis] == "product"
        tables = sum_rows(of.sizes[at.axis], at.highest) if product else wave_sum_rows(at.highest)
        steps.append(signs(of, at, tables, inner, width, inverse))
        inner *= of.modes[at.axis]
    return [*steps, blocks(of, images, inverse)]


def _chained(of: Grid, steps: list[Step], inverse: bool) -> Stage:
    """The steps as one job; what a step writes for the next lies in a workspace, one after another."""
    lanes = host.lanes(of.dtype)
    if len(of.sizes) == 1:
        together = max(step.together for step in steps)
    else:
        together = max(1, TOGETHER_BYTES // (of.points * host.ITEM_BYTES[of.dtype]))
    job = np.zeros(f.CHAIN_FIELDS + f.STEP_SIZE * len(steps), np.int64)
    strides = (2 * lanes, of.points) if inverse else (of.points, 2 * lanes)
    job[: f.CHAIN_FIELDS] = (len(steps), together, *strides)
    work, here = 0, 0
    for i, step in enumerate(steps):
        there = work
        # Whole vectors are read, also where a row ends.
        work += padded(together * (step.field if inverse else step.kept) + 2 * lanes, lanes)
        start = f.CHAIN_FIELDS + i * f.STEP_SIZE
        address = kernels.address(step.kernel, of.dtype)
        job[start : start + f.STEP_SIZE] = (address, step.record.ctypes.data, step.units, here, there)
        here = there
    job.setflags(write=False)
    gain = math.prod(step.gain for step in steps)
    return Stage(job, work, max(step.scratch for step in steps), tuple(steps), gain)
