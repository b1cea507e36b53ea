# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call"
"""Blocks of direct sums: four outputs times two vectors, kept in registers while taps go by.

A block reads a padded copy of the image (:mod:`direct` makes it), so that no tap needs a test. `taps` names how far
each tap lies from the block's first number. Outputs that do not exist are computed from what lies beyond and not
stored. Every output is the sum over its taps in one order, whatever block it falls into.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, slot, vector_op
from spectralops._cpu.vector.moves import Totals, equal, put_number, smaller, take_number
from spectralops._cpu.vector.products import prefetch
from spectralops._cpu.vector.sum_fields import OUTPUTS, TALL, VECTORS

__all__ = ["SLICE_FIELDS", "block_channels", "block_rows", "block_square", "block_taps"]

# Integers per slice: where its rows begin in the copy, how many taps it has along rows, where its weights begin.
SLICE_FIELDS = 3


class Block:
    """The sums of one block."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.totals = Totals(e, OUTPUTS * VECTORS)
        self.room = slot(e.builder, e.element, VECTORS * e.lanes)

    def add(self, output: int, vector: int, product: Value) -> None:
        slot = output * VECTORS + vector
        self.totals.set(slot, self.totals.get(slot) + product)

    def store(self, output: int, target: Value, place: Value, exists: Value, columns: Value, unit: Value) -> None:
        """Store one output where it exists: so many columns of it, `unit` numbers apart."""
        e, width = self.e, VECTORS * self.e.lanes
        vectors = [self.totals.get(output * VECTORS + v) for v in range(VECTORS)]

        def whole() -> None:
            for v, vector in enumerate(vectors):
                e.store(target, place + v * e.lanes, vector)

        def part() -> None:
            for v, vector in enumerate(vectors):
                e.store_part(target, place + v * e.lanes, vector, columns - v * e.lanes)

        def apart() -> None:
            room = e.value(self.room)
            for v, vector in enumerate(vectors):
                e.store(room, v * e.lanes, vector)
            with e.loop(0, smaller(e, columns, e.constant(width))) as i:
                put_number(e, target, place + i * unit, take_number(e, room, i))

        def stored() -> None:
            adjacent = e.less(unit, 2)
            e.choose(adjacent, lambda: e.choose(e.less(columns, width), part, whole), apart)

        e.choose(e.less(e.constant(0), exists), stored, lambda: None)


@vector_op
def block_rows(
    e: Emitter,
    copy: Value,
    weights: Value,
    target: Value,
    taps: Value,
    slices: Value,
    count: Value,
    width: Value,
    base: Value,
    row_step: Value,
    weight_step: Value,
    weight: Value,
    place: Value,
    place_step: Value,
    rows: Value,
    columns: Value,
    unit: Value,
) -> None:
    """Four rows of one output: a row of the image is loaded once for all rows whose taps it meets."""
    block = Block(e)

    def meet(low: int, high: int, row: Value, q: Value, weight_row: Value) -> None:
        """Row q of a slice adds to the rows low … high − 1, by their taps q − row."""
        with e.loop(0, width) as k:
            here = row + e.integer(taps, k)
            vectors = [e.load(copy, here + v * e.lanes) for v in range(VECTORS)]
            for output in range(low, high):
                factor = e.broadcast(weights, weight_row + (q - output) * weight_step + k)
                for v in range(VECTORS):
                    block.add(output, v, vectors[v] * factor)

    with e.loop(0, count) as s:
        start, length, first = (e.integer(slices, s * SLICE_FIELDS + i) for i in range(SLICE_FIELDS))
        start, first = start + base, first + weight
        for low in range(OUTPUTS):
            for high in range(low + 1, OUTPUTS + 1):
                lo, hi = _rows_of(e, low, high, length)
                with e.loop(lo, hi) as q:
                    meet(low, high, start + q * row_step, q, first)
    for output in range(OUTPUTS):
        exists = e.one_if(e.less(e.constant(output), rows))
        block.store(output, target, place + place_step * output, exists, columns, unit)


def _rows_of(e: Emitter, low: int, high: int, length: Value) -> tuple[Value, Value]:
    """The rows of a slice of `length` taps that meet exactly the outputs low … high − 1."""
    if low == 0 and high == OUTPUTS:
        return e.constant(OUTPUTS - 1), length
    if low == 0:
        start = e.constant(high - 1)
        return start, start + e.one_if(e.less(e.constant(high - 1), length))
    if high == OUTPUTS:
        start = length + (low - 1)
        return start, start + e.one_if(e.less(e.constant(OUTPUTS - low - 1), length))
    start = e.constant(high - 1)
    return start, start + e.one_if(equal(e, length, high - low))


@vector_op
def block_taps(
    e: Emitter,
    copy: Value,
    weights: Value,
    target: Value,
    taps: Value,
    count: Value,
    base: Value,
    row_step: Value,
    weight: Value,
    place: Value,
    place_step: Value,
    rows: Value,
    columns: Value,
    column_step: Value,
    unit: Value,
) -> None:
    """Four rows, or pieces of one row `column_step` apart, of one output: any taps, nothing shared between the rows."""
    block = Block(e)
    with e.loop(0, count) as t:
        factor = e.broadcast(weights, weight + t)
        here = base + e.integer(taps, t)
        for output in range(OUTPUTS):
            for v in range(VECTORS):
                block.add(output, v, e.load(copy, here + row_step * output + v * e.lanes) * factor)
    for output in range(OUTPUTS):
        left = columns - column_step * output
        exists = e.one_if(e.less(e.constant(output), rows)) * e.one_if(e.less(e.constant(0), left))
        block.store(output, target, place + place_step * output, exists, left, unit)


@vector_op
def block_channels(
    e: Emitter,
    copy: Value,
    weights: Value,
    target: Value,
    taps: Value,
    count: Value,
    base: Value,
    weight: Value,
    places: Value,
    first: Value,
    place: Value,
    outputs: Value,
    columns: Value,
    unit: Value,
) -> None:
    """One row of four output channels: a number of the image is loaded once for all of them."""
    block = Block(e)
    with e.loop(0, count) as t:
        here = base + e.integer(taps, t)
        vectors = [e.load(copy, here + v * e.lanes) for v in range(VECTORS)]
        for output in range(OUTPUTS):
            factor = e.broadcast(weights, weight + t * OUTPUTS + output)
            for v in range(VECTORS):
                block.add(output, v, vectors[v] * factor)
    for output in range(OUTPUTS):
        # `places` is padded to whole blocks of outputs.
        exists = e.one_if(e.less(first + output, outputs))
        block.store(output, target, place + e.integer(places, first + output), exists, columns, unit)


def block_square(size: int) -> Any:
    """Operation that sums six rows of one output by size·size neighbouring taps, straight from the image.

    All is written out: a row of the image meets each of its taps once, for all outputs. Rows that do not exist are read
    from `zeros`, and columns that do not are zeros where the block meets an edge. Both sides are fetched for the block
    below meanwhile: rows so far apart are no stream that a processor would see coming.
    """

    def block(
        e: Emitter, source: Value, zeros: Value, weights: Value, target: Value, start: Value, step: Value, row: Value,
        rows: Value, left: Value, columns: Value, place: Value, place_step: Value, outputs: Value, results: Value,
    ) -> None:  # fmt: skip
        totals, width = Totals(e, TALL * VECTORS), VECTORS * e.lanes
        lines = []
        for q in range(TALL + size - 1):
            exists = e.both(e.less(e.constant(-1), row + q), e.less(row + q, rows))
            lines.append(e.pick(exists, e.moved(source, start + step * q), zeros))
        for q in range(TALL):
            prefetch(e, source, start + step * (q + TALL + size - 1))
            prefetch(e, target, place + place_step * (q + TALL), write=True)

        def sums(edge: bool) -> None:
            for q, line in enumerate(lines):
                for k in range(size):
                    for v in range(VECTORS):
                        offset = k + v * e.lanes
                        if edge:
                            vector = e.load_between(line, offset, -(left + offset), columns - (left + offset))
                        else:
                            vector = e.load(line, offset)
                        for output in range(max(0, q - size + 1), min(TALL, q + 1)):
                            slot = output * VECTORS + v
                            factor = e.broadcast(weights, (q - output) * size + k)
                            totals.set(slot, totals.get(slot) + vector * factor)

        inside = e.both(e.less(e.constant(-1), left), e.less(left, columns - (width + size - 2)))
        e.choose(inside, lambda: sums(False), lambda: sums(True))

        def stored(part: bool) -> None:
            for output in range(TALL):

                def store(output: int = output) -> None:
                    for v in range(VECTORS):
                        there, vector = place + place_step * output + v * e.lanes, totals.get(output * VECTORS + v)
                        if part:
                            e.store_part(target, there, vector, results - v * e.lanes)
                        else:
                            e.store(target, there, vector)

                e.choose(e.less(e.constant(output), outputs), store, lambda: None)

        e.choose(e.less(results, width), lambda: stored(True), lambda: stored(False))

    block.__name__ = f"block_square_{size}"
    return vector_op(block)
