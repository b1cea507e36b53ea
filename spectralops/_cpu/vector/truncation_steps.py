"""The steps of truncated transforms by products with Fourier matrices: what :mod:`truncated` reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cpu.vector import host, kernels
from spectralops._cpu.vector import truncation_fields as f
from spectralops._cpu.vector.fourier_matrices import Part, column_parts, padded, row_parts

__all__ = ["Columns", "Grid", "Rows", "Step", "blocks", "product_columns", "product_rows", "signs"]

Array = np.ndarray[Any, Any]

# Folded columns and rows that are multiplied together: they should stay in the second-level cache.
STRIP_BYTES = 1 << 16
WIDEST_STRIP = 8  # vectors
CHUNK_BYTES = 1 << 16
FEWEST_ROWS = 12
# Images up to this size are fetched while the one before is at work.
AHEAD_BYTES = 1 << 17


@dataclass(frozen=True)
class Grid:
    """One grid of points and the modes kept of it.

    On their way, modes of one image lie dense: real parts in the weight's order, then, `imag` further, imaginary parts.
    In the end those of all images form blocks [block][image][real, imaginary][lane].
    """

    sizes: tuple[int, ...]
    modes: tuple[int, ...]
    lowest: tuple[int, ...]
    halved: bool
    dtype: str

    @property
    def points(self) -> int:
        """Real numbers in one image."""
        return math.prod(self.sizes) * self.numbers

    @property
    def numbers(self) -> int:
        """Real numbers in one point."""
        return 1 if self.halved else 2

    @property
    def count(self) -> int:
        """Kept modes."""
        return math.prod(self.modes)

    @property
    def highest(self) -> tuple[int, ...]:
        """Largest absolute wavenumber of each axis but the last."""
        return tuple(max(-low, low + m - 1) for m, low in zip(self.modes[:-1], self.lowest[:-1], strict=True))

    @property
    def imag(self) -> int:
        return padded(self.count, host.lanes(self.dtype))

    @property
    def blocks(self) -> int:
        return self.imag // host.lanes(self.dtype)

    def block_step(self, images: int) -> int:
        """Numbers from block to block: no power of two, lest the blocks of an image share a few sets of the cache."""
        return 2 * host.lanes(self.dtype) * (images + 1 - images % 2)


@dataclass(frozen=True)
class Columns:
    """One axis along columns: groups of `columns` neighbouring numbers, and how rows and groups lie on both sides."""

    axis: int
    highest: int  # largest absolute wavenumber
    groups: int
    columns: int
    field_group: int
    field_row: int
    kept_group: int
    kept_row: int


@dataclass(frozen=True)
class Rows:
    """The last axis: how many rows there are, how they lie on both sides, and how far apart the kept parts."""

    rows: int
    field_row: int
    kept_row: int
    imag: int


@dataclass(frozen=True, eq=False)
class Step:
    """One kernel's run over an image, its record, and the sizes of what it reads and writes."""

    kernel: str
    record: Array
    units: int
    field: int  # numbers on the side of the points
    kept: int  # numbers on the side of the modes
    scratch: int
    keep: Any
    gain: float = 1.0  # what the result is multiplied by besides
    together: int = 1  # images of one row that should be transformed together


def _record(fields: dict[int, int], parts: tuple[Part, ...] = ()) -> Array:
    record = np.zeros((f.AXIS_FIELDS + f.PART_SIZE * len(parts)) if parts else f.SIGN_FIELDS, np.int64)
    record[list(fields)] = list(fields.values())
    for i, part in enumerate(parts):
        start = f.AXIS_FIELDS + i * f.PART_SIZE
        record[start : start + f.PART_SIZE] = (
            part.matrix.ctypes.data,
            part.matrix.shape[1],
            part.folded,
            part.kept,
            part.points,
            part.modes,
        )
    record.setflags(write=False)
    return record


def product_columns(of: Grid, at: Columns, inverse: bool) -> Step:
    """An axis along columns, by products."""
    lanes, n, columns = host.lanes(of.dtype), of.sizes[at.axis], at.columns
    parts = column_parts(n, at.highest, inverse, of.dtype)
    vectors = min(WIDEST_STRIP, STRIP_BYTES // (n * host.vector_bytes()))
    strips = -(-columns // (max(vectors // 2 * 2, 2) * lanes))
    pitch = padded(-(-columns // strips), 2 * lanes)
    strips = -(-columns // pitch)
    record = _record(
        {
            f.LENGTH: n,
            f.COLUMNS: columns,
            f.STRIPS: strips,
            f.PITCH: pitch,
            f.FIELD_GROUP: at.field_group,
            f.FIELD_ROW: at.field_row,
            f.KEPT_GROUP: at.kept_group,
            f.KEPT_ROW: at.kept_row,
            f.PRODUCT: kernels.address("product", of.dtype),
            f.PARTS: len(parts),
            f.AHEAD: _ahead(of, at.axis, pitch),
            f.BESIDE: (n + 1) * pitch,
        },
        parts,
    )
    name = f"columns_{'odd' if n % 2 else 'even'}_{'spread' if inverse else 'kept'}"
    field, kept = at.groups * at.field_group, at.groups * at.kept_group
    scratch = (n + 1) * pitch + _beside(parts, inverse, [part.modes * pitch for part in parts])
    return Step(name, record, at.groups * strips, field, kept, scratch, parts)


def _beside(parts: tuple[Part, ...], inverse: bool, sizes: list[int]) -> int:
    """Numbers of scratch for the later parts of long sums; those over modes, of an inverse, are done at once."""
    long = [size for part, size in zip(parts, sizes, strict=True) if part.points > f.LONGEST_SUM and not inverse]
    return max(long, default=0)


def _ahead(of: Grid, axis: int, pitch: int) -> int:
    """How far beyond the numbers at work memory should be fetched: the next image, or the next strip of a large one."""
    if axis:
        return 0
    return of.points if of.points * host.ITEM_BYTES[of.dtype] <= AHEAD_BYTES else pitch


def product_rows(of: Grid, at: Rows, inverse: bool) -> Step:
    """The last axis by products."""
    lanes, n, m = host.lanes(of.dtype), of.sizes[-1], of.modes[-1]
    folded = of.halved and n > 2 * lanes
    parts = row_parts(n, m, of.lowest[-1], of.halved, folded, at.imag, inverse, of.dtype)
    pitch = parts[-1].folded + padded(parts[-1].points, lanes) + lanes
    chunk = max(FEWEST_ROWS, CHUNK_BYTES // (pitch * host.ITEM_BYTES[of.dtype]) // FEWEST_ROWS * FEWEST_ROWS)
    folds = chunk * pitch if folded else 0
    record = _record(
        {
            f.LENGTH: n * of.numbers,
            f.PITCH: pitch,
            f.FIELD_ROW: at.field_row,
            f.KEPT_ROW: at.kept_row,
            f.PRODUCT: kernels.address("product", of.dtype),
            f.CHUNK: chunk,
            f.FOLDED: int(folded),
            f.BESIDE: folds,
            f.PARTS: len(parts),
        },
        parts,
    )
    name = f"rows_{'spread' if inverse else 'kept'}"
    scratch = folds + _beside(parts, inverse, [chunk * part.matrix.shape[1] for part in parts])
    field, kept = at.rows * at.field_row, at.rows * at.kept_row
    return Step(name, record, at.rows, field, kept, scratch, parts, together=chunk)


def signs(of: Grid, at: Columns, tables: tuple[Array, Array], inner: int, width: int, inverse: bool) -> Step:
    """Sums along one axis to signed wavenumbers; `inner` rows of `width` numbers belong to each.

    The outermost axis comes last and gives the modes as they lie dense.
    """
    m, row, last = of.modes[at.axis], inner * width, of.modes[-1]
    outermost = at.axis == 0
    groups = math.prod(2 * (highest + 1) for highest in of.highest[: at.axis])
    sums = 2 * (at.highest + 1) * row
    modes = 2 * of.imag if outermost else m * row
    record = _record(
        {
            f.LOWEST: of.lowest[at.axis],
            f.SIGNED: m,
            f.HIGHEST: at.highest,
            f.COSINE_ROWS: tables[0].ctypes.data,
            f.SINE_ROWS: tables[1].ctypes.data,
            f.INNER: inner,
            f.COUNT: last,
            f.SUMS_GROUP: sums,
            f.SUMS_ROW: row,
            f.SUMS_INNER: width,
            f.SUMS_IMAG: last,
            f.MODES_GROUP: modes,
            f.MODES_ROW: inner * last if outermost else row,
            f.MODES_INNER: last if outermost else width,
            f.MODES_IMAG: of.imag if outermost else last,
        }
    )
    name = f"signs_{'spread' if inverse else 'kept'}"
    return Step(name, record, groups, groups * sums, groups * modes, 0, tables)


def blocks(of: Grid, images: int, inverse: bool) -> Step:
    """Dense modes of an image to the blocks of all."""
    record = np.array([of.blocks, of.block_step(images), 2 * of.imag, of.imag, of.count], np.int64)
    return Step(f"modes_{'spread' if inverse else 'kept'}", record, 1, 2 * of.imag, 0, 0, ())
