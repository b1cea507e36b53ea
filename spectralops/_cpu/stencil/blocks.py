"""The code of interleaved rows of scratch memory.

Such a row is made of blocks of several vectors; each lane of a block holds cells that follow one another, one in each
vector. The neighbours along the row of a vector's cells are then the vectors beside it, without lanes being moved or
loads that cross lines of the cache, but at the ends of blocks. Rows are brought into blocks when a tile is loaded, and
back into order at its last level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.layout import Record

__all__ = ["beside", "emit_interleave", "end_of", "first_of", "in_order", "place_of", "units_of", "vector_of"]


def first_of(e: Emitter, cell: Value) -> Value:
    """The first cell of the unit that a cell is in."""
    return cell & -e.unit


def end_of(e: Emitter, end: Value) -> Value:
    """The end of the unit that the cell before an end is in."""
    return first_of(e, end + e.unit - 1)


def units_of(e: Emitter, r: Tables) -> tuple[Value, Value]:
    """The first of the cells that rows of a record are computed at, whole blocks where interleaved, and how many."""
    first, end = r[Record.I0], r[Record.I1]
    if e.interleaved:
        first, end = first_of(e, first), end_of(e, end)
    return first, end - first


def place_of(e: Emitter, cell: Value) -> Value:
    """Where a cell of a row lies, from where its first one does; ghosts count from -1 down, and on behind the last."""
    if not e.interleaved:
        return cell
    vector, lane = cell & (e.vectors - 1), (cell >> e.vectors.bit_length() - 1) & (e.lanes - 1)
    return first_of(e, cell) + vector * e.lanes + lane


def beside(e: Emitter, values: Value, others: Value, up: bool) -> Value:
    """The lanes moved by one, to the next higher (`up`) or lower; the others' last or first one comes in."""
    n = e.lanes
    return e.shuffled(values, others, [2 * n - 1, *range(n - 1)] if up else [*range(1, n), n])


def vector_of(e: Emitter, load: Callable[[Any], Value], block: Value, vector: int) -> Value:
    """A vector of a block; those before its first and after its last one begin or end in the block beside it."""
    if 0 <= vector < e.vectors:
        return load(block + vector * e.lanes)
    place = vector % e.vectors * e.lanes
    beyond = e.unit if vector > 0 else -e.unit
    return beside(e, load(block + place), load(block + (place + beyond)), vector < 0)


def emit_interleave(e: Emitter) -> None:
    """Define ``interleave(row, count)``: so many cells of a row into blocks, and what completes the last of them."""
    n, parts = e.lanes, e.vectors // e.lanes
    with e.function("interleave", "fi") as (row, count), e.loop(0, count, e.unit) as first:
        found = [e.load(row, first + k * n) for k in range(e.vectors)]
        for part in range(parts):
            # The vectors of one part of every lane's cells.
            for k, vector in enumerate(_turned_over(e, found[part::parts])):
                e.store(row, first + (part * n + k) * n, vector)


def in_order(e: Emitter, found: list[Value]) -> list[Value]:
    """The vectors of a block in the order of their cells."""
    n, parts = e.lanes, e.vectors // e.lanes
    turned = [_turned_over(e, found[part * n : part * n + n]) for part in range(parts)]
    return [turned[k % parts][k // parts] for k in range(e.vectors)]


def _turned_over(e: Emitter, rows: list[Value]) -> list[Value]:
    """The columns of as many vectors as there are lanes, in steps that exchange halves, quarters and so on of pairs."""
    n, half = e.lanes, e.lanes // 2
    while half:
        low = [n + j - half if j & half else j for j in range(n)]
        high = [n + j if j & half else j + half for j in range(n)]
        for k in range(n):
            if not k & half:
                pair = rows[k], rows[k + half]
                rows[k], rows[k + half] = (e.shuffled(*pair, order) for order in (low, high))
        half //= 2
    return rows
