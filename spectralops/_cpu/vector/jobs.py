"""What the kernels read: sizes, distances and addresses of one shape and dtype, as arrays of integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import fields as f
from spectralops._cpu.vector import host, kernels, tables

__all__ = ["FilterLayout", "Job", "filter_layout", "image_job", "line_job", "volume_job"]

# Bytes of each row that one sweep takes where every row lies on a memory page of its own.
WIDE_SWEEP_BYTES = 512
# The groups of one sweep together.
GROUPS_BYTES = 1 << 20
# Strides of filters that a layout remembers.
LAYOUTS_KEPT = 8


@dataclass(frozen=True, eq=False)
class Job:
    """The integers that one shape's kernels read, the tables that they point to, and the memory that they need."""

    fields: np.ndarray
    keep: tuple[Any, ...]
    units: int  # units of columns of one image
    inner: int  # blocks of rows or planes of one image
    spectrum: int  # numbers
    work: int
    scratch: int
    stages: tuple[str, ...]  # the kernels that work on parts of it

    @cached_property
    def address(self) -> int:
        return self.fields.ctypes.data


def _address(table: np.ndarray) -> int:
    return table.ctypes.data


def _stages(kind: str, inner: str) -> tuple[str, ...]:
    return f"columns_{kind}_in", inner, f"columns_{kind}_out"


def _padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _column_fields(kind: str, length: int, numbers: int, dtype: str) -> tuple[dict[int, int], list[Any], int]:
    """Fields of the transform along columns, the tables to keep, and the numbers of scratch that a sweep needs."""
    even = kind in (f.EVEN, f.PACKED)
    breadth = f.BREADTH[kind] * host.lanes(dtype)
    vectors = f.VECTORS[kind] * host.lanes(dtype)
    packed = tables.axis(length // 2 if even else length, dtype)
    group = max(length * vectors, packed.space * 2 * host.lanes(dtype))
    roots = tables.untangling_roots(length, dtype)
    units = -(-numbers // breadth)
    item = host.ITEM_BYTES[dtype]
    sweep = (WIDE_SWEEP_BYTES if numbers * item >= host.PAGE_BYTES else host.SWEEP_BYTES) // (breadth * item)
    sweep = max(1, min(sweep, GROUPS_BYTES // (group * item)))
    fields = {
        f.COLUMN_LENGTH: length,
        f.COLUMN_FORWARD: kernels.address(packed.forward, dtype),
        f.COLUMN_INVERSE: kernels.address(packed.inverse, dtype),
        f.COLUMN_PLAN: _address(packed.plan),
        f.COLUMN_TWIDDLES: _address(packed.twiddles),
        f.COLUMN_POSITION: _address(packed.position),
        f.COLUMN_ROOTS: _address(roots),
        f.COLUMNS: numbers,
        f.UNITS: units,
        f.SWEEP: sweep,
        f.GROUP: group,
    }
    return fields, [packed, roots], min(sweep, units) * group


def _filled(fields: dict[int, int]) -> np.ndarray:
    array = np.zeros(f.FIELDS, np.int64)
    array[list(fields)] = list(fields.values())
    array.setflags(write=False)
    return array


@lru_cache(maxsize=128)
def line_job(kind: str, length: int, inner: int, dtype: str, points: int = 0) -> Job:
    """Unrelated transforms of one axis: along rows where it is the last (inner = 1), else along columns.

    With `points`, there are so many in the array, and the others are zeros that are not stored.
    """
    numbers = inner * (2 if kind == f.COMPLEX else 1)
    fields, keep, scratch = _column_fields(kind, length, numbers, dtype)
    if points:
        halves = 2 if kind == f.EVEN else 1
        fields |= {f.BLANK: points // halves, f.BLANKED: length // halves}
    points = points or length
    fields |= {f.IMAGE_STRIDE: numbers, f.SIZE: points * numbers, f.POINTS: points}
    if inner == 1:
        fields[f.COLUMNS] = points * numbers
        scratch = max(_padded(length, host.lanes(dtype)) * f.VECTORS[kind] * host.lanes(dtype), fields[f.GROUP])
    stages = (f"filter_{'rows' if inner == 1 else 'columns'}_{kind}",)
    return Job(_filled(fields), tuple(keep), fields[f.UNITS], 0, 0, 0, scratch, stages)


@lru_cache(maxsize=128)
def image_job(
    kind: str, length: int, columns: int, dtype: str, imag: int = 0, twisted: bool = False, inner: bool = True
) -> Job:
    """Images of `length` rows and `columns` columns, filtered along both; `inner` says whether along the rows too.

    The spectrum of packed ones has the size of the image and is not counted.
    """
    lanes = host.lanes(dtype)
    numbers = columns * (2 if kind == f.COMPLEX else 1)
    fields, keep, scratch = _column_fields(kind, length, numbers, dtype)
    units = fields[f.UNITS]
    count = {f.EVEN: length // 2 + 1, f.PAIR: length // 2 + 1, f.PACKED: length // 2}.get(kind, length)
    width = units * lanes * (2 if kind == f.PAIR else 1)
    # A row is one cache line longer than a power of two, lest its columns share a few sets of the cache.
    stride = 2 * width + (0 if kind == f.PACKED else host.LINE_BYTES // host.ITEM_BYTES[dtype])
    fields |= {
        f.IMAGE_STRIDE: numbers,
        f.IMAGE_IMAG: imag,
        f.SIZE: length * numbers,
        f.SPECTRUM_STRIDE: stride,
        f.SPECTRUM_IMAG: width,
        f.COLUMNS_IN: kernels.address(f"columns_{kind}_in", dtype),
        f.COLUMNS_OUT: kernels.address(f"columns_{kind}_out", dtype),
        f.PLANE_STRIDE: stride,
    }
    blocks = count
    if inner:
        row = tables.axis(columns, dtype)
        blocks = -(-count // lanes)
        fields |= {
            f.INNER: kernels.address("rows", dtype),
            f.ROW_LENGTH: columns,
            f.ROW_FORWARD: kernels.address(row.forward, dtype),
            f.ROW_INVERSE: kernels.address(row.inverse, dtype),
            f.ROW_PLAN: _address(row.plan),
            f.ROW_TWIDDLES: _address(row.twiddles),
            f.GATHERED: _padded(columns, lanes),
            f.BLOCK_STRIDE: lanes * stride,
            f.BLOCK_FILTER: 2 * lanes * columns,
        }
        keep.append(row)
        scratch = max(scratch, 2 * lanes * max(_padded(columns, lanes), row.space))
        if twisted:
            factors = tables.twist(length, columns, kind == f.COMPLEX, dtype)
            fields[f.TWIST] = _address(factors)
            keep.append(factors)
    fields[f.INNER_COUNT] = blocks
    spectrum = 0 if kind == f.PACKED else (blocks * lanes if inner else count) * stride
    return Job(_filled(fields), tuple(keep), units, blocks, spectrum, 0, scratch, _stages(kind, "rows"))


@lru_cache(maxsize=128)
def volume_job(kind: str, shape: tuple[int, int, int], dtype: str) -> Job:
    """Volumes: columns along the first axis, then each plane of frequencies as an image of split parts."""
    outer = image_job(kind, shape[0], shape[1] * shape[2], dtype, inner=False)
    plane = image_job(f.SPLIT, shape[1], shape[2], dtype, imag=int(outer.fields[f.SPECTRUM_IMAG]))
    fields = outer.fields.copy()
    fields[f.INNER] = kernels.address("planes", dtype)
    fields[f.INNER_JOB] = plane.address
    fields[f.PLANE_FILTER] = plane.inner * plane.fields[f.BLOCK_FILTER]
    fields.setflags(write=False)
    scratch = max(outer.scratch, plane.scratch)
    return Job(
        fields,
        (outer, plane),
        outer.units,
        outer.inner,
        outer.spectrum,
        plane.spectrum,
        scratch,
        _stages(kind, "planes"),
    )


@dataclass(frozen=True, eq=False)
class FilterLayout:
    """Which frequencies the rows of a spectrum are, and how large the tiles of a filter get."""

    fields: np.ndarray
    keep: tuple[Any, ...]
    blocks: int
    numbers: int
    _known: dict[Any, np.ndarray] = field(default_factory=dict)

    def with_strides(self, strides: tuple[int, ...], is_complex: bool, half: bool) -> np.ndarray:
        """The fields for a filter with these strides, in numbers."""
        key = (strides, is_complex, half)
        known = self._known.get(key)
        if known is None:
            known = self.fields.copy()
            known[[f.FILTER_PLANE_STRIDE, f.FILTER_ROW_STRIDE, f.FILTER_COLUMN_STRIDE]] = strides
            known[[f.FILTER_COMPLEX, f.FILTER_HALF]] = is_complex, half
            if len(self._known) < LAYOUTS_KEPT:
                self._known[key] = known
        return known


@lru_cache(maxsize=128)
def filter_layout(kind: str, lengths: tuple[int, ...], dtype: str) -> FilterLayout:
    """The layout of filters of images or volumes whose columns are transformed as `kind`."""
    lanes = host.lanes(dtype)
    half = kind != f.COMPLEX
    first = np.arange(lengths[0] // 2 + 1) if half else tables.axis(lengths[0], dtype).frequency
    if kind == f.PACKED:
        first = np.append(first[:-1], [0, lengths[0] // 2])
    if len(lengths) == 2:
        planes, plane_length, rows = np.zeros(1, np.int64), 1, first
    else:
        planes, plane_length, rows = first, lengths[0], tables.axis(lengths[1], dtype).frequency
    columns = tables.axis(lengths[-1], dtype)
    blocks = len(planes) * -(-len(rows) // lanes)
    fields = np.zeros(f.FILTER_FIELDS, np.int64)
    fields[f.FILTER_ROWS] = len(rows)
    fields[f.FILTER_COLUMNS] = lengths[-1]
    fields[f.FILTER_PLANE_LENGTH] = plane_length
    fields[f.FILTER_ROW_LENGTH] = lengths[-2]
    fields[f.FILTER_PLANE_ORDER] = _address(planes)
    fields[f.FILTER_ROW_ORDER] = _address(rows)
    fields[f.FILTER_POSITION] = _address(columns.position)
    return FilterLayout(fields, (planes, rows, columns), blocks, blocks * lengths[-1] * 2 * lanes)
