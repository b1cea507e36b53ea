# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call"
"""Rows of numbers in and out: windows padded with zeros, crops, strides; vectors that a loop adds to."""

from __future__ import annotations

from spectralops._cpu.vector.emit import Emitter, Value, slot, vector_op

__all__ = ["Totals", "equal", "fill_row", "move_row", "put_number", "smaller", "take_number", "zero_row"]


class Totals:
    """Vectors that a loop adds to, zeros at first: stack slots, which LLVM turns into registers."""

    def __init__(self, e: Emitter, count: int) -> None:
        self.e = e
        self.slots = [slot(e.builder, e.vector) for _ in range(count)]
        for place in self.slots:
            e.builder.store(e.zero().ir, place)

    def get(self, i: int) -> Value:
        return self.e.value(self.e.builder.load(self.slots[i]))

    def set(self, i: int, vector: Value) -> None:
        self.e.builder.store(vector.ir, self.slots[i])


def take_number(e: Emitter, array: Value, offset: Value) -> Value:
    """array[offset], one number."""
    return e.value(e.builder.load(e.builder.gep(array.ir, [offset.ir], inbounds=True)))


def put_number(e: Emitter, array: Value, offset: Value, number: Value) -> None:
    """array[offset] = number."""
    e.builder.store(number.ir, e.builder.gep(array.ir, [offset.ir], inbounds=True))


def equal(e: Emitter, a: Value, b: int) -> Value:
    """Whether an integer is b."""
    return e.value(e.builder.icmp_signed("==", a.ir, e.constant(b).ir))


def smaller(e: Emitter, a: Value, b: Value) -> Value:
    """The smaller of two integers."""
    return e.value(e.builder.select(e.less(a, b).ir, a.ir, b.ir))


def _move(
    e: Emitter, source: Value, start: Value, step: Value, target: Value, place: Value, stride: Value, count: Value
) -> None:
    """Whole vectors, the last of which may overlap the one before, or number by number."""

    def vector(i: Value) -> None:
        e.store(target, place + i, e.load(source, start + i))

    def vectors() -> None:
        with e.loop(0, count - e.lanes, e.lanes) as i:
            vector(i)
        vector(count - e.lanes)

    def numbers() -> None:
        with e.loop(0, count) as i:
            put_number(e, target, place + i * stride, take_number(e, source, start + i * step))

    def adjacent() -> None:
        e.choose(e.less(count, e.lanes), numbers, vectors)

    # Both distances are at least 1.
    e.choose(equal(e, step + stride, 2), adjacent, numbers)


@vector_op
def fill_row(
    e: Emitter, source: Value, start: Value, step: Value, target: Value, before: Value, count: Value, end: Value
) -> None:
    """target[0 : end]: `before` zeros, `count` numbers of the source `step` apart from `start` on, and zeros.

    `end` is at least one vector. Zeros are stored first, as whole vectors, and numbers over them.
    """
    last = end - e.lanes

    def zeros(first: Value, stop: Value) -> None:
        with e.loop(first, stop, e.lanes) as i:
            e.store(target, smaller(e, i, last), e.zero())

    zeros(e.constant(0), before)
    zeros(before + count, end)
    _move(e, source, start, step, target, before, e.constant(1), count)


@vector_op
def move_row(
    e: Emitter, source: Value, start: Value, step: Value, target: Value, place: Value, stride: Value, count: Value
) -> None:
    """target[place + stride·i] = source[start + step·i] for i below `count`."""
    _move(e, source, start, step, target, place, stride, count)


@vector_op
def zero_row(e: Emitter, target: Value, first: Value, last: Value) -> None:
    """Zeros in target[first : last], a multiple of the lanes."""
    with e.loop(first, last, e.lanes) as i:
        e.store(target, i, e.zero())
