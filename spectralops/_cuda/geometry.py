"""Geometry of the transform kernels: what a block does, and how kernels are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Passes, passes

__all__ = [
    "COLUMNS", "FACTOR", "FILTER", "MOST_FACTORS", "Lines", "Planes", "column_geometry", "columns_kernel", "namespace",
    "plane_geometry",     "row_geometry", "rows_kernel",
]  # fmt: skip

FILE = "spectral.cu"
# Shared memory that a block may use on every device since compute capability 8.0.
SHARED_BYTES = 96 * 1024
# Threads of a block that the geometry aims at, and the most it may have.
THREADS, MOST_THREADS = 128, 512

MOST_FACTORS = 3
FACTOR = np.dtype([(name, np.int64) for name in ("values", "batch", "period", "stride1", "stride2")])
FILTER = np.dtype(
    [
        ("factors", FACTOR, MOST_FACTORS),
        ("first", np.int64),
        ("inner", np.int64),
        ("scale", np.float64),
        ("sign", np.float64),
    ]
)
COLUMNS = np.dtype([(name, np.int64) for name in ("columns", "in_outer", "out_outer", "mirror", "nyquist")])


@dataclass(frozen=True, slots=True)
class Lines:
    """Geometry of a kernel over the contiguous axis."""

    passes: Passes
    lines: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.passes.threads * self.lines

    @property
    def template(self) -> str:
        """Template arguments: threads of a line, lines of a block, radices."""
        return f"{self.passes.threads}, {self.lines}, {self.passes.expression}"


def row_geometry(n: int, itemsize: int) -> Lines | None:
    """Several lines a block, None where one does not fit."""
    found = passes(n, itemsize)
    if found is None:
        return None
    fits = SHARED_BYTES // (found.padded * 2 * itemsize)
    lines = min(max(1, THREADS // found.threads), fits)
    return Lines(found, lines) if lines and found.threads <= MOST_THREADS else None


def column_geometry(n: int, itemsize: int, pairs: bool) -> Lines | None:
    """As many neighbouring columns a block as fit, up to 128 bytes of them."""
    width = 64 // itemsize
    while width:
        found = passes(n, itemsize, width, pairs, MOST_THREADS // width)
        if found is not None and found.padded * width * 2 * itemsize <= SHARED_BYTES:
            return Lines(found, width)
        width //= 2
    return None


@dataclass(frozen=True, slots=True)
class Planes:
    """Geometry of the kernel over two axes, whose blocks take rows and columns."""

    row: Lines
    column: Lines

    @property
    def shared(self) -> int:
        """Complex numbers of shared memory of a block."""
        return max(self.row.passes.padded * self.row.lines, self.column.passes.padded * self.column.lines)

    @property
    def blocks(self) -> int:
        """Blocks of a multiprocessor that registers leave room for, as `blocks_at_once` of the kernels."""
        return max(
            1,
            (1024 if max(self.row.passes.points, self.column.passes.points) <= EASY_POINTS else 512)
            // self.row.threads,
        )


def plane_geometry(rows: int, row_length: int, itemsize: int, pairs: bool) -> Planes | None:
    """Rows and columns by blocks of one size: the widest tile of columns whose threads hold few points."""
    found = []
    width = 64 // itemsize
    while width > 1:
        column = passes(rows, itemsize, width, pairs, MOST_THREADS // width)
        row = column and passes(row_length, itemsize, 1, False, MOST_THREADS, column.threads * width)
        if column is not None and row is not None:
            planes = Planes(Lines(row, column.threads * width // row.threads), Lines(column, width))
            if planes.shared * 2 * itemsize <= SHARED_BYTES:
                found.append(planes)
        width //= 2
    return next((p for p in found if max(p.row.passes.points, p.column.passes.points) <= EASY_POINTS), None)


def rows_kernel(
    name: str,
    real: str,
    form: str,
    kept: tuple[int, int],
    row: Lines,
    lines: int,
    options: tuple[str, ...],
    more: str = "",
) -> Kernel:
    """Transform of `lines` contiguous lines. `kept`: stored wavenumbers and the lowest, as the kernels count them."""
    stored = "" if name == "rows_filter" else f"{kept[0]}, {kept[1]}, "
    return Kernel(
        FILE,
        f"{name}<{real}, {real}, {form}, {stored}{row.template}{more}>",
        (-(-lines // row.lines),),
        (row.threads,),
        row.passes.padded * row.lines * COMPLEX_BYTES[real],
        options,
    )


def columns_kernel(
    mode: str,
    real: str,
    source: tuple[str, int],
    target: tuple[str, int],
    kept: tuple[int, int],
    column: Lines,
    blocks: tuple[int, int],
    options: tuple[str, ...],
    more: str = "",
) -> Kernel:
    """Transform along another axis. `source`, `target`: form and pitch; `blocks`: planes and columns of a plane."""
    planes, columns = blocks
    return Kernel(
        FILE,
        f"columns<{real}, {mode}, {source[0]}, {source[1]}, {target[0]}, {target[1]}, {kept[0]}, {kept[1]}, "
        f"{column.template}{more}>",
        (planes * -(-columns // column.lines),),
        (column.threads,),
        column.passes.padded * column.lines * COMPLEX_BYTES[real],
        options,
    )


# Points of a thread up to which a multiprocessor holds 1024 threads.
EASY_POINTS = 16
COMPLEX_BYTES = {"float": 8, "double": 16}


def namespace(out: Any) -> Any:
    """The array library of `out`."""
    if isinstance(out, np.ndarray):
        return np
    import cupy

    return cupy
