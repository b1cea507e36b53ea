"""The transform of one group of lanes: in place, without reordering, for every 2·3·5·7-smooth length.

A group holds position i of as many transforms as there are lanes: real parts at 2·lanes·i, imaginary parts `lanes`
further. The forward transform decimates in frequency and leaves frequency k at its digit-reversed position; the
inverse decimates in time and takes it from there, so that a filter in between needs no reordering at all. The radices,
sizes and twiddle factors are data (:mod:`tables`): one compiled kernel serves every length.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.butterflies import RADICES, TWOS, butterfly
from spectralops._cpu.vector.emit import Emitter, Value, at, lanes, shift, vector_op
from spectralops._cpu.vector.moves import equal
from spectralops._cpu.vector.tables import FIELDS_PER_STAGE, FIRST_STAGE

__all__ = ["forward", "forward_twos", "inverse", "inverse_twos"]


def _multiply(a: tuple[Value, Value], w: tuple[Value, Value], conjugate: bool) -> tuple[Value, Value]:
    if conjugate:
        return a[0] * w[0] + a[1] * w[1], a[1] * w[0] - a[0] * w[1]
    return a[0] * w[0] - a[1] * w[1], a[1] * w[0] + a[0] * w[1]


def _pass(e: Emitter, radix: int, inverse: bool, group: Value, count: Value, size: Value, twiddles: Value) -> None:
    """One radix of every block of `size` positions: butterflies over its `size / radix` columns."""
    span = size // radix
    step = span * (2 * e.lanes)

    def visit(position: Value, column: Value | None) -> None:
        base = position * (2 * e.lanes)
        places = [base if q == 0 else base + step * q for q in range(radix)]

        def load(q: int) -> tuple[Value, Value]:
            return e.load(group, places[q]), e.load(group, places[q] + e.lanes)

        def twisted(z: tuple[Value, Value], q: int) -> tuple[Value, Value]:
            # The factor is loaded where it is used: earlier ones would hold registers.
            if q == 0 or column is None:
                return z
            place = column * (2 * (radix - 1)) + 2 * (q - 1)
            return _multiply(z, (e.broadcast(twiddles, place), e.broadcast(twiddles, place + 1)), inverse)

        if inverse:
            outputs = butterfly([twisted(load(q), q) for q in range(radix)], True)
        else:
            outputs = ((q, twisted(z, q)) for q, z in butterfly([load(q) for q in range(radix)]))
        for q, (real, imag) in outputs:
            e.store(group, places[q], real)
            e.store(group, places[q] + e.lanes, imag)

    with e.loop(0, count, size) as block:
        visit(block, None)
        with e.loop(1, span) as column:
            visit(block + column, column)


def _chosen(radices: tuple[int, ...], inverse: bool) -> Any:
    """Operation that runs the pass of one of these radices."""

    def operation(e: Emitter, group: Value, count: Value, radix: Value, size: Value, twiddles: Value) -> None:
        def emit(left: tuple[int, ...]) -> None:
            def this() -> None:
                _pass(e, left[0], inverse, group, count, size, twiddles)

            if len(left) == 1:
                this()
            else:
                e.choose(equal(e, radix, left[0]), this, lambda: emit(left[1:]))

        emit(radices)

    operation.__name__ = f"{'inverse' if inverse else 'forward'}_pass"
    return vector_op(operation)


def _forward(one_pass: Any) -> Any:
    def forward(group: Any, axis: Any, twiddles: Any) -> None:
        """Positions to digit-reversed frequencies.

        The leading passes sweep the whole group; the others finish one block after another, each small enough for the
        first-level cache.
        """
        count = at(axis, 0)
        stages = at(axis, 1)
        lead = at(axis, 2)
        block = at(axis, 3)
        width = 2 * lanes(group)
        for phase in range(2):
            first = 0 if phase == 0 else lead
            last = lead if phase == 0 else stages
            length = count if phase == 0 else block
            if first < last:
                for start in range(0, count, length):
                    part = shift(group, start * width)
                    for s in range(first, last):
                        field = FIRST_STAGE + FIELDS_PER_STAGE * s
                        factors = shift(twiddles, at(axis, field + 2))
                        one_pass(part, length, at(axis, field), at(axis, field + 1), factors)

    return forward


def _inverse(one_pass: Any) -> Any:
    def inverse(group: Any, axis: Any, twiddles: Any) -> None:
        """Digit-reversed frequencies to positions, unscaled: the passes of `forward` undone in opposite order."""
        count = at(axis, 0)
        stages = at(axis, 1)
        lead = at(axis, 2)
        block = at(axis, 3)
        width = 2 * lanes(group)
        for phase in range(2):
            first = lead if phase == 0 else 0
            last = stages if phase == 0 else lead
            length = block if phase == 0 else count
            if first < last:
                for start in range(0, count, length):
                    part = shift(group, start * width)
                    for s in range(last - 1, first - 1, -1):
                        field = FIRST_STAGE + FIELDS_PER_STAGE * s
                        factors = shift(twiddles, at(axis, field + 2))
                        one_pass(part, length, at(axis, field), at(axis, field + 1), factors)

    return inverse


# Powers of two, the commonest lengths, have kernels of their own, which are compiled in half the time.
forward, inverse = _forward(_chosen(RADICES, False)), _inverse(_chosen(RADICES, True))
forward_twos, inverse_twos = _forward(_chosen(TWOS, False)), _inverse(_chosen(TWOS, True))
