"""Between arrays and groups of lanes.

A group holds, for each position of a transform, one vector (real numbers) or two (real and imaginary parts); its lanes
are that many transforms side by side. Along columns a vector lies in the array as it is; along rows a square of rows
and columns is transposed in registers. What one row of a group is made of is its kind:

even     real numbers, one vector: two positions of the group are one complex number of a half-length transform
zero     real numbers with an imaginary part of zeros
pair     real numbers; the imaginary part is the next vector of columns
complex  real and imaginary parts alternate in the array
split    real and imaginary parts lie at a distance
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, vector_op
from spectralops._cpu.vector.fields import BREADTH, COMPLEX, EVEN, PAIR, SPLIT, VECTORS, ZERO

__all__ = ["column_loader", "column_storer", "row_gatherer", "row_scatterer"]


def _fetch(e: Emitter, kind: str, array: Value, offset: Value, imag: Value, left: Value | None) -> list[Value]:
    """The vectors of one row of a group; with `left`, only so many numbers are read and the others are zeros."""

    def load(distance: Value | int, skipped: int) -> Value:
        if left is None:
            return e.load(array, offset + distance)
        return e.load_part(array, offset + distance, left - skipped)

    first = load(0, 0)
    if kind == EVEN:
        return [first]
    if kind == ZERO:
        return [first, e.zero()]
    if kind == SPLIT:
        return [first, load(imag, 0)]
    second = load(e.lanes, e.lanes)
    return [first, second] if kind == PAIR else list(e.deinterleave(first, second))


def _deliver(
    e: Emitter, kind: str, array: Value, offset: Value, imag: Value, left: Value | None, vectors: list[Value]
) -> None:
    """The vectors of one row of a group to the array: the opposite of `_fetch`."""

    def store(distance: Value | int, skipped: int, vector: Value) -> None:
        if left is None:
            e.store(array, offset + distance, vector)
        else:
            e.store_part(array, offset + distance, vector, left - skipped)

    if kind == COMPLEX:
        vectors = list(e.interleave(*vectors))
    store(0, 0, vectors[0])
    if kind == SPLIT:
        store(imag, 0, vectors[1])
    elif kind in (PAIR, COMPLEX):
        store(e.lanes, e.lanes, vectors[1])


def _columns(kind: str, visit: Callable[..., None], name: str) -> Any:
    def operation(
        e: Emitter,
        array: Value,
        stride: Value,
        imag: Value,
        rows: Value,
        column: Value,
        columns: Value,
        units: Value,
        scratch: Value,
        size: Value,
    ) -> None:
        breadth, vectors = BREADTH[kind] * e.lanes, VECTORS[kind] * e.lanes

        def sweep(part: bool) -> None:
            with e.loop(0, rows) as row, e.loop(0, units) as unit:
                moved = column + unit * breadth
                group = unit * size + row * vectors
                visit(e, kind, array, row * stride + moved, imag, columns - moved if part else None, scratch, group)

        e.choose(e.less(columns, column + units * breadth), lambda: sweep(True), lambda: sweep(False))

    operation.__name__ = name
    return vector_op(operation)


def column_loader(kind: str) -> Any:
    """Operation that loads `units` groups of neighbouring columns from the number `column` of each row.

    `stride` is the length of a row in the array and `columns` of the part that exists, in numbers; groups lie `size`
    apart.
    """

    def visit(
        e: Emitter, kind: str, array: Value, offset: Value, imag: Value, left: Any, scratch: Value, group: Value
    ) -> None:
        for i, vector in enumerate(_fetch(e, kind, array, offset, imag, left)):
            e.store(scratch, group + i * e.lanes, vector)

    return _columns(kind, visit, f"load_{kind}_columns")


def column_storer(kind: str) -> Any:
    """Operation that undoes `column_loader`."""

    def visit(
        e: Emitter, kind: str, array: Value, offset: Value, imag: Value, left: Any, scratch: Value, group: Value
    ) -> None:
        vectors = [e.load(scratch, group + i * e.lanes) for i in range(VECTORS[kind])]
        _deliver(e, kind, array, offset, imag, left, vectors)

    return _columns(kind, visit, f"store_{kind}_columns")


def _rows(kind: str, tile: Callable[..., None], name: str) -> Any:
    def operation(
        e: Emitter, array: Value, stride: Value, imag: Value, rows: Value, columns: Value, group: Value
    ) -> None:
        breadth = BREADTH[kind] * e.lanes

        def whole(column: Value) -> None:
            tile(e, kind, array, stride, imag, column, [None] * e.lanes, group)

        def rest(column: Value) -> None:
            # Rows that do not exist have nothing left, not even at their first column.
            left = [(columns - column) * e.one_if(e.less(e.constant(r), rows)) for r in range(e.lanes)]
            tile(e, kind, array, stride, imag, column, left, group)

        def tiles(part: bool) -> None:
            with e.loop(0, columns, breadth) as column:
                if part:
                    rest(column)
                else:
                    e.choose(e.less(columns, column + breadth), lambda: rest(column), lambda: whole(column))

        e.choose(e.less(rows, e.lanes), lambda: tiles(True), lambda: tiles(False))

    operation.__name__ = name
    return vector_op(operation)


def row_gatherer(kind: str) -> Any:
    """Operation that transposes up to `lanes` rows of `columns` numbers into a group; missing rows become zeros."""

    def tile(
        e: Emitter, kind: str, array: Value, stride: Value, imag: Value, column: Value, left: list[Any], group: Value
    ) -> None:
        rows = [_fetch(e, kind, array, stride * r + column, imag, left[r]) for r in range(e.lanes)]
        for i in range(VECTORS[kind]):
            for j, vector in enumerate(e.transpose([row[i] for row in rows])):
                e.store(group, _lane_offset(e, kind, column, j, i), vector)

    return _rows(kind, tile, f"gather_{kind}_rows")


def _lane_offset(e: Emitter, kind: str, column: Value, j: int, i: int) -> Value:
    """Where vector i of position column + j stands in a group, `column` in numbers of the array."""
    scale = VECTORS[kind] // BREADTH[kind]
    return column * (scale * e.lanes) + (j * VECTORS[kind] + i) * e.lanes


def row_scatterer(kind: str) -> Any:
    """Operation that undoes `row_gatherer`."""

    def tile(
        e: Emitter, kind: str, array: Value, stride: Value, imag: Value, column: Value, left: list[Any], group: Value
    ) -> None:
        parts = [
            e.transpose([e.load(group, _lane_offset(e, kind, column, j, i)) for j in range(e.lanes)])
            for i in range(1 if kind == ZERO else VECTORS[kind])
        ]
        for r in range(e.lanes):
            _deliver(e, kind, array, stride * r + column, imag, left[r], [part[r] for part in parts])

    return _rows(kind, tile, f"scatter_{kind}_rows")
