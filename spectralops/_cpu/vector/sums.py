# numba and llvmlite carry no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call"
"""Blocks of direct sums: four outputs times two vectors, kept in registers while taps go by.

A block reads a padded copy of the image (:mod:`direct` makes it), so that no tap needs a test. `taps` names how far
each tap lies from the block's first number. Outputs that do not exist are computed from what lies beyond and not
stored. Every output is the sum over its taps in one order, whatever block it falls into.
"""

from __future__ import annotations

from numba.core import cgutils

from spectralops._cpu.vector.emit import Emitter, Value, vector_op
from spectralops._cpu.vector.moves import Totals, equal, put_number, smaller, take_number
from spectralops._cpu.vector.sum_fields import OUTPUTS, VECTORS

__all__ = ["SLICE_FIELDS", "block_channels", "block_rows", "block_taps"]

# Integers per slice: where its rows begin in the copy, how many taps it has along rows, where its weights begin.
SLICE_FIELDS = 3


class Block:
    """The sums of one block."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.totals = Totals(e, OUTPUTS * VECTORS)
        self.room = cgutils.alloca_once(e.builder, e.element, size=VECTORS * e.lanes)

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
