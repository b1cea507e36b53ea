"""The transform of one group of lanes: in place, without reordering, for lengths without large prime factors.

A group holds position i of as many transforms as there are lanes: real parts at 2·lanes·i, imaginary parts `lanes`
further. The forward transform decimates in frequency and leaves frequency k at its digit-reversed position; the
inverse decimates in time and takes it from there, so that a filter in between needs no reordering at all. The radices,
sizes and twiddle factors are data (:mod:`tables`): one compiled kernel serves every length.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.butterflies import RADICES, TWOS, butterfly
from spectralops._cpu.vector.emit import Emitter, Value, at, lanes, shift, vector_op
from spectralops._cpu.vector.moves import Totals, equal
from spectralops._cpu.vector.tables import FIELDS_PER_STAGE, FIRST_STAGE, sums_together

__all__ = ["forward", "forward_primes", "forward_twos", "inverse", "inverse_primes", "inverse_twos"]


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


def _sums_pass(
    e: Emitter, radix: Value, inverse: bool, group: Value, count: Value, size: Value, twiddles: Value, beside: Value
) -> None:
    """The same for any odd radix: sums and differences of opposite points go beside, then some outputs at a time.

    The cosines and sines of the radix follow the twiddle factors of the stage; `beside` has room for radix − 1
    positions.
    """
    span, half = size // radix, radix // 2
    step = span * (2 * e.lanes)
    coefficients = e.moved(twiddles, span * (radix - 1) * 2)
    together = sums_together()

    def visit(position: Value, column: Value | None) -> None:
        base = position * (2 * e.lanes)

        def load(q: Any) -> tuple[Value, Value]:
            place = base + step * q
            return e.load(group, place), e.load(group, place + e.lanes)

        def twisted(z: tuple[Value, Value], q: Value) -> tuple[Value, Value]:
            if column is None:
                return z
            place = column * (radix - 1) * 2 + (q - 1) * 2
            return _multiply(z, (e.broadcast(twiddles, place), e.broadcast(twiddles, place + 1)), inverse)

        def keep(q: Value, real: Value, imag: Value) -> None:
            place = base + step * q
            real, imag = (real, imag) if inverse else twisted((real, imag), q)
            e.store(group, place, real)
            e.store(group, place + e.lanes, imag)

        first = load(0)
        total = Totals(e, 2)
        with e.loop(1, half + 1) as p:
            pair = load(p), load(radix - p)
            if inverse:
                pair = twisted(pair[0], p), twisted(pair[1], radix - p)
            place = (p - 1) * (4 * e.lanes)
            for i, (a, b) in enumerate(zip(*pair, strict=True)):
                e.store(beside, place + i * e.lanes, a + b)
                e.store(beside, place + (2 + i) * e.lanes, a - b)
                total.set(i, total.get(i) + (a + b))
        e.store(group, base, first[0] + total.get(0))
        e.store(group, base + e.lanes, first[1] + total.get(1))

        with e.loop(0, half, together) as block:
            sums = Totals(e, 4 * together)
            for j in range(together):
                for i in range(2):
                    sums.set(4 * j + i, first[i])
            with e.loop(0, half) as p:
                parts = [e.load(beside, p * (4 * e.lanes) + i * e.lanes) for i in range(4)]
                for j in range(together):
                    place = (block * half + p * together + j) * 2
                    factors = e.broadcast(coefficients, place), e.broadcast(coefficients, place + 1)
                    for i, part in enumerate(parts):
                        sums.set(4 * j + i, sums.get(4 * j + i) + factors[i // 2] * part)
            for j in range(together):
                even, odd = (sums.get(4 * j), sums.get(4 * j + 1)), (sums.get(4 * j + 2), sums.get(4 * j + 3))
                q = block + (j + 1)
                here, there = (radix - q, q) if inverse else (q, radix - q)

                def outputs(even: Any = even, odd: Any = odd, here: Value = here, there: Value = there) -> None:
                    keep(here, even[0] + odd[1], even[1] - odd[0])
                    keep(there, even[0] - odd[1], even[1] + odd[0])

                if j:
                    e.choose(e.less(q, half + 1), outputs, lambda: None)
                else:
                    outputs()

    with e.loop(0, count, size) as start:
        visit(start, None)
        with e.loop(1, span) as column:
            visit(start + column, column)


def _chosen(radices: tuple[int, ...], inverse: bool, others: bool = False) -> Any:
    """Operation that runs the pass of one of these radices, or also of `others`, by sums."""

    def operation(
        e: Emitter, group: Value, count: Value, radix: Value, size: Value, twiddles: Value, beside: Value
    ) -> None:
        def emit(left: tuple[int, ...]) -> None:
            def this() -> None:
                _pass(e, left[0], inverse, group, count, size, twiddles)

            def rest() -> None:
                if len(left) > 1:
                    emit(left[1:])
                else:
                    _sums_pass(e, radix, inverse, group, count, size, twiddles, beside)

            if len(left) == 1 and not others:
                this()
            else:
                e.choose(equal(e, radix, left[0]), this, rest)

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
        beside = shift(group, count * width)
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
                        one_pass(part, length, at(axis, field), at(axis, field + 1), factors, beside)

    return forward


def _inverse(one_pass: Any) -> Any:
    def inverse(group: Any, axis: Any, twiddles: Any) -> None:
        """Digit-reversed frequencies to positions, unscaled: the passes of `forward` undone in opposite order."""
        count = at(axis, 0)
        stages = at(axis, 1)
        lead = at(axis, 2)
        block = at(axis, 3)
        width = 2 * lanes(group)
        beside = shift(group, count * width)
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
                        one_pass(part, length, at(axis, field), at(axis, field + 1), factors, beside)

    return inverse


# Powers of two, the commonest lengths, have kernels of their own, which are compiled in half the time; so have lengths
# with prime factors above 7, which few need.
forward, inverse = _forward(_chosen(RADICES, False)), _inverse(_chosen(RADICES, True))
forward_twos, inverse_twos = _forward(_chosen(TWOS, False)), _inverse(_chosen(TWOS, True))
forward_primes, inverse_primes = _forward(_chosen(RADICES, False, True)), _inverse(_chosen(RADICES, True, True))
