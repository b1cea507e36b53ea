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

__all__ = ["beside", "emit_orders", "end_of", "first_of", "place_of", "units_of", "vector_of"]


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


def emit_orders(e: Emitter) -> None:
    """Define ``interleave(row, count)`` and ``order(row, count)``: so many cells of a row into blocks, and back.

    What completes the last block comes with them.
    """
    n, parts = e.lanes, e.vectors // e.lanes
    for name, back in (("interleave", False), ("order", True)):
        with e.function(name, "fi") as (row, count), e.loop(0, count, e.unit) as first:
            found = [e.load(row, first + k * n) for k in range(e.vectors)]
            for part in range(parts):
                # The vectors of one part of every lane's cells, in blocks and in order.
                blocked, ordered = range(part * n, part * n + n), range(part, e.vectors, parts)
                sources, targets = (blocked, ordered) if back else (ordered, blocked)
                for target, vector in zip(targets, _turned_over(e, [found[k] for k in sources]), strict=True):
                    e.store(row, first + target * n, vector)


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
