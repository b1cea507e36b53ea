"""Geometry of convolutions along three axes: what a block does along each axis, or with a plane that it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spectralops._cuda.convolution_problem import Problem
from spectralops._cuda.few import Few
from spectralops._cuda.geometry import (
    ALL_REGISTERS,
    MULTIPROCESSOR_BYTES,
    SHARED_BYTES,
    SYSTEM_BYTES,
    Lines,
    column_geometry,
    row_geometry,
)
from spectralops._cuda.passes import Chirp, Passes, passes

__all__ = ["PlaneLines", "VolumeLayout", "plane_lines", "rows_there", "volume_layout"]

# Threads of a block of columns. Along the first axis, points of a thread, which holds them of volume and kernel, by
# bytes of a number; and threads of a block up to which it has 128 bytes of columns, as along the middle axis, not half.
THREADS = (256, 384, 512)
POINTS, WIDE_THREADS = {4: 16, 8: 16}, 192
# Registers of a thread that has rows and columns of a plane, and threads of a multiprocessor that hide each other's
# waiting, by bytes of a number; threads of a block, as few as do; and in how many turns it does all columns at most.
REGISTERS, BUSY = {4: 64, 8: 112}, {4: 640, 8: 384}
PLANE_THREADS = (256, 512)
MOST_TURNS = 16


@dataclass(frozen=True, slots=True)
class PlaneLines:
    """How a block transforms a plane: pairs of rows and columns at a time, and how far apart rows lie."""

    row: Passes
    column: Passes
    rows: int
    columns: int
    pitch: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return max(self.rows * self.row.threads, self.columns * self.column.threads)

    @property
    def template(self) -> str:
        """Template arguments after the types."""
        row, column = self.row, self.column
        rows = f"{row.threads}, {self.rows}, {self.pitch}, {row.expression}"
        return f"{rows}, {column.threads}, {self.columns}, {column.expression}"

    def numbers(self, lines: int) -> int:
        """Complex numbers of shared memory for so many pairs of rows."""
        return lines * self.pitch + max(self.pitch, self.columns * self.column.padded)


def plane_lines(lengths: tuple[int, ...], itemsize: int, shared_bytes: int, lines: int) -> PlaneLines | None:
    """How a block transforms planes of which so many pairs of rows are there, None if it does not hold them."""
    row, stored, banks = passes(lengths[1], itemsize), lengths[1] // 2 + 1, 64 // itemsize
    if not isinstance(row, Passes):
        return None
    pitch = row.padded + (row.threads - row.padded) % banks
    for threads in PLANE_THREADS:
        found = []
        for turns in range(1, MOST_TURNS + 1):
            columns = -(-stored // turns)
            column = passes(lengths[0], itemsize, columns, True, threads // columns)
            if not isinstance(column, Passes):
                continue
            rounds = -(-lines // max(1, columns * column.threads // row.threads))
            each = PlaneLines(row, column, -(-lines // rounds), columns, pitch)
            shared = each.numbers(lines) * 2 * itemsize
            if shared <= shared_bytes and each.threads <= threads:
                by_memory = MULTIPROCESSOR_BYTES // (shared + SYSTEM_BYTES)
                fitting = max(1, min(by_memory, ALL_REGISTERS // REGISTERS[itemsize] // each.threads))
                idle = (rounds + turns) * each.threads / (lines * row.threads + stored * column.threads)
                found.append((idle * max(1.0, BUSY[itemsize] / (each.threads * fitting)), turns, each))
        if found:
            return min(found, key=lambda way: way[:2])[2]
    return None


@dataclass(frozen=True, slots=True)
class VolumeLayout:
    """How volumes are transformed: lengths of the ring along each axis, and what is of them.

    `paired`: whether two rows are one complex row; `plane`: how a block transforms a plane, if it holds one; else
    `middle` and `row` say how columns and rows are.
    """

    lengths: tuple[int, ...]
    first: Lines
    middle: Lines
    row: Lines
    itemsize: int
    paired: bool
    plane: PlaneLines | None

    @property
    def passes(self) -> tuple[Passes | Chirp | Few, ...]:
        """The transforms in the order of the axes."""
        if self.plane is not None:
            return self.first.passes, self.plane.column, self.plane.row
        return self.first.passes, self.middle.passes, self.row.passes

    @property
    def words(self) -> str:
        """Radices, for explain()."""
        return " x ".join(each.words for each in self.passes)

    @property
    def area(self) -> int:
        """Numbers of a plane of a spectrum, whose rows begin where pieces of memory do."""
        stored = self.lengths[2] // 2 + 1 if self.paired else self.lengths[2]
        return self.lengths[1] * (-(-stored // 4) * 4)

    @property
    def scale(self) -> float:
        """Of products, in which volumes and kernels of packed rows come twice."""
        return (0.25 if self.paired else 1.0) / math.prod(self.lengths)


def rows_there(height: int, task: Problem) -> tuple[int, int]:
    """The rows of a ring, from which to which, that are not zero in a plane of volumes."""
    if task.beyond != "FILL" or task.fill != 0:
        return 0, height
    return max(0, task.before[1]), min(height, task.before[1] + task.size[1])


def pairs(begin: int, end: int) -> tuple[int, int]:
    """Rows as pairs of an even and an odd one: the first, and how many."""
    return begin // 2, max(1, -(-end // 2) - begin // 2)


def volume_layout(lengths: tuple[int, ...], task: Problem, shared_bytes: int) -> VolumeLayout | None:
    """The layout of a ring of these lengths, None where a block does not hold a line."""
    itemsize, paired = task.itemsize, not any(task.is_complex)
    first = _first(lengths[0], itemsize, shared_bytes)
    middle = _columns(lengths[1], itemsize, shared_bytes, 64 // itemsize, paired)
    row = row_geometry(lengths[2], itemsize, shared_bytes)
    if first is None or middle is None or row is None:
        return None
    lines = max(pairs(*rows_there(lengths[1], task))[1], -(-task.out[1] // 2), -(-task.taps[1] // 2))
    plane = plane_lines(lengths[1:], itemsize, shared_bytes, lines) if paired else None
    return VolumeLayout(lengths, first, middle, row, itemsize, paired, plane)


def _first(n: int, itemsize: int, shared_bytes: int) -> Lines | None:
    """Columns along the first axis."""
    wide = 64 // itemsize
    found = _columns(n, itemsize, shared_bytes, wide, False, POINTS[itemsize])
    if found is None or found.lines < wide or found.threads > WIDE_THREADS:
        found = _columns(n, itemsize, shared_bytes, wide // 2, False, POINTS[itemsize])
    return found


def _columns(
    n: int, itemsize: int, shared_bytes: int, width: int, paired: bool, points: int | None = None
) -> Lines | None:
    """Blocks of few threads; fewer columns, or more points a thread, only where no such block holds them."""
    for threads in THREADS:
        found = passes(n, itemsize, width, paired, threads // width, points=points)
        if isinstance(found, Passes) and found.padded * width * 2 * itemsize <= min(shared_bytes, SHARED_BYTES):
            return Lines(found, width)
    return column_geometry(n, itemsize, paired, shared_bytes)
