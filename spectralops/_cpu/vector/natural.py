"""Between complex arrays in natural order and groups in digit-reversed order: what lone transforms need.

`position` says where each frequency stands in a group (or is the identity where the group is in order). With `turn`, a
number of lanes, real and imaginary parts change places on the way, which makes an inverse transform of a forward one;
it is 0 for none. `scale` holds one number that everything is multiplied by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, vector_op

__all__ = ["complete", "gather_rows", "load_columns", "read", "row_tiles", "scatter_rows", "store_columns"]

Complex = tuple[Value, Value]


def _group(e: Emitter, place: Value, turn: Value) -> tuple[Value, Value]:
    """Where the real and the imaginary vector of one place of a group lie."""
    base = place * (2 * e.lanes)
    return base + turn, base + e.lanes - turn


def _put(e: Emitter, group: Value, place: Value, turn: Value, z: Complex) -> None:
    for offset, vector in zip(_group(e, place, turn), z, strict=True):
        e.store(group, offset, vector)


def _take(e: Emitter, group: Value, place: Value, turn: Value, scale: Value) -> Complex:
    unit = e.broadcast(scale, 0)
    real, imag = (e.load(group, offset) * unit for offset in _group(e, place, turn))
    return real, imag


def row_tiles(e: Emitter, rows: Value, count: Value, tile: Callable[[Value, list[Any]], None]) -> None:
    """Squares of `lanes` rows and complex columns; `left` says how many numbers each row has left, None for all."""

    def rest(column: Value) -> None:
        left = [(count - column) * (2 * e.one_if(e.less(e.constant(r), rows))) for r in range(e.lanes)]
        tile(column, left)

    def tiles(part: bool) -> None:
        with e.loop(0, count, e.lanes) as column:
            if part:
                rest(column)
            else:
                whole = [None] * e.lanes
                e.choose(e.less(count, column + e.lanes), lambda: rest(column), lambda: tile(column, whole))

    e.choose(e.less(rows, e.lanes), lambda: tiles(True), lambda: tiles(False))


def read(e: Emitter, array: Value, offset: Value, left: Value | None) -> Complex:
    """One vector of complex numbers, of which `left` real ones exist if not all."""
    if left is None:
        low, high = e.load(array, offset), e.load(array, offset + e.lanes)
    else:
        low, high = e.load_part(array, offset, left), e.load_part(array, offset + e.lanes, left - e.lanes)
    return e.deinterleave(low, high)


def _write(e: Emitter, array: Value, offset: Value, left: Value | None, z: Complex) -> None:
    low, high = e.interleave(*z)
    if left is None:
        e.store(array, offset, low)
        e.store(array, offset + e.lanes, high)
    else:
        e.store_part(array, offset, low, left)
        e.store_part(array, offset + e.lanes, high, left - e.lanes)


@vector_op
def gather_rows(
    e: Emitter, array: Value, stride: Value, rows: Value, count: Value, turn: Value, scale: Value, group: Value
) -> None:
    """Transpose up to `lanes` rows of `count` complex numbers, scaled, into a group in order; others become zeros."""

    def tile(column: Value, left: list[Any]) -> None:
        unit = e.broadcast(scale, 0)
        parts = [read(e, array, stride * r + column * 2, left[r]) for r in range(e.lanes)]
        reals, imags = (e.transpose([part[i] for part in parts]) for i in range(2))
        for j, (real, imag) in enumerate(zip(reals, imags, strict=True)):
            _put(e, group, column + j, turn, (real * unit, imag * unit))

    row_tiles(e, rows, count, tile)


@vector_op
def scatter_rows(
    e: Emitter,
    group: Value,
    position: Value,
    turn: Value,
    scale: Value,
    rows: Value,
    count: Value,
    array: Value,
    stride: Value,
) -> None:
    """The first `count` frequencies of up to `lanes` transforms, in order and scaled, to rows of an array.

    The table of positions is read up to a whole tile.
    """

    def tile(column: Value, left: list[Any]) -> None:
        taken = [_take(e, group, e.integer(position, column + j), turn, scale) for j in range(e.lanes)]
        reals, imags = (e.transpose([z[i] for z in taken]) for i in range(2))
        for r in range(e.lanes):
            _write(e, array, stride * r + column * 2, left[r], (reals[r], imags[r]))

    row_tiles(e, rows, count, tile)


def _columns(e: Emitter, rows: Value, first: Value, width: Value, units: Value, visit: Callable[..., None]) -> None:
    """Visit each row of `units` groups of neighbouring complex columns, of which `width` numbers exist in all."""

    def sweep(part: bool) -> None:
        with e.loop(0, rows) as row, e.loop(0, units) as unit:
            moved = first + unit * (2 * e.lanes)
            visit(row, unit, moved, width - moved if part else None)

    e.choose(e.less(width, first + units * (2 * e.lanes)), lambda: sweep(True), lambda: sweep(False))


@vector_op
def load_columns(
    e: Emitter,
    array: Value,
    stride: Value,
    rows: Value,
    first: Value,
    width: Value,
    units: Value,
    turn: Value,
    scratch: Value,
    size: Value,
) -> None:
    """Groups of complex columns from the number `first` of each row on; groups lie `size` numbers apart."""

    def visit(row: Value, unit: Value, moved: Value, left: Value | None) -> None:
        base = unit * size
        z = read(e, array, row * stride + moved, left)
        for offset, vector in zip(_group(e, row, turn), z, strict=True):
            e.store(scratch, base + offset, vector)

    _columns(e, rows, first, width, units, visit)


@vector_op
def store_columns(
    e: Emitter,
    scratch: Value,
    size: Value,
    position: Value,
    turn: Value,
    scale: Value,
    array: Value,
    stride: Value,
    rows: Value,
    first: Value,
    width: Value,
    units: Value,
) -> None:
    """The opposite of `load_columns`, from digit-reversed order and scaled."""

    def visit(row: Value, unit: Value, moved: Value, left: Value | None) -> None:
        base, factor = unit * size, e.broadcast(scale, 0)
        real, imag = (e.load(scratch, base + o) * factor for o in _group(e, e.integer(position, row), turn))
        _write(e, array, row * stride + moved, left, (real, imag))

    _columns(e, rows, first, width, units, visit)


@vector_op
def complete(e: Emitter, half: Value, position: Value, n: Value, group: Value) -> None:
    """A half spectrum in order to the full one of n real numbers (n odd) in the order of the inverse transform.

    The imaginary part at 0 is ignored.
    """
    e.store(group, 0, e.load(half, 0))
    e.store(group, e.lanes, e.zero())
    with e.loop(1, (n + 1) // 2) as k:
        real, imag = e.load(half, k * (2 * e.lanes)), e.load(half, k * (2 * e.lanes) + e.lanes)
        for place, part in ((e.integer(position, k), imag), (e.integer(position, n - k), -imag)):
            e.store(group, place * (2 * e.lanes), real)
            e.store(group, place * (2 * e.lanes) + e.lanes, part)
