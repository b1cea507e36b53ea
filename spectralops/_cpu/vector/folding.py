"""Symmetries that quarter the work of a truncated Fourier transform by matrix product.

With C_k = Σ_j x_j cos(2πjk/n) and S_k = Σ_j x_j sin(2πjk/n): sums of x_j and x_{n−j} give all C from half as many
terms, and differences all S from the others. For even n = 2h, adding and subtracting the terms j and h − j separates
even k from odd k and halves them again. The folded rows are, for j = 0 … h/2,

    C, even k:  x_j + x_{n−j} + (x_{h−j} + x_{h+j})        S, odd k:   x_j − x_{n−j} + (x_{h−j} − x_{h+j})
    C, odd k:   x_j + x_{n−j} − (x_{h−j} + x_{h+j})        S, even k:  x_j − x_{n−j} − (x_{h−j} − x_{h+j})

without what is zero or would be counted twice where some of the four indices coincide. They stand in a scratch in the
order C even, C odd, S odd, S even; an odd axis has only C and S. Unfolding does the same to the sums over k of an
inverse transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, vector_op
from spectralops._cpu.vector.products import prefetch

__all__ = ["fold_even_columns", "fold_odd_columns", "fold_row", "unfold_even_columns", "unfold_odd_columns",
           "unfold_row"]  # fmt: skip


class _Strip:
    """Some columns of an array, `width` of them, beside the folded rows in a scratch of whole vectors."""

    def __init__(
        self, e: Emitter, array: Value, stride: Value, width: Value, scratch: Value, pitch: Value, ahead: Value
    ) -> None:
        self.e, self.array, self.stride, self.width = e, array, stride, width
        self.scratch, self.pitch, self.ahead = scratch, pitch, ahead

    def each(self, visit: Callable[[Any, Any], None]) -> None:
        """Run visit(column, left) for each vector of a row; `left` is None where the vector is whole."""
        e = self.e
        whole = self.width // e.lanes * e.lanes
        with e.loop(0, whole, e.lanes) as column:
            visit(column, None)
        with e.loop(whole, self.width, e.lanes) as column:
            visit(column, self.width - column)

    def load(self, row: Value, column: Value, left: Value | None) -> Value:
        place = row * self.stride + column
        if left is not None:
            return self.e.load_part(self.array, place, left)
        prefetch(self.e, self.array, place + self.ahead)
        return self.e.load(self.array, place)

    def store(self, row: Value, column: Value, left: Value | None, vector: Value) -> None:
        place = row * self.stride + column
        if left is None:
            prefetch(self.e, self.array, place + self.ahead, write=True)
            self.e.store(self.array, place, vector)
        else:
            self.e.store_part(self.array, place, vector, left)

    def keep(self, row: Value, column: Value, vector: Value) -> None:
        self.e.store(self.scratch, row * self.pitch + column, vector)

    def kept(self, row: Value, column: Value) -> Value:
        return self.e.load(self.scratch, row * self.pitch + column)


class _Even:
    """Where the parts of a folded even axis begin."""

    def __init__(self, e: Emitter, n: Value) -> None:
        self.n, self.half = n, n // 2
        self.pairs = (self.half + 1) // 2
        self.middle = self.half // 2 * 2 - self.half + 1
        self.odd = self.pairs + self.middle
        self.sine_odd = self.odd + self.pairs
        self.sine_even = self.sine_odd + self.pairs + self.middle - 1
        self.zero = e.constant(0)


@vector_op
def fold_even_columns(
    e: Emitter, array: Value, stride: Value, n: Value, width: Value, scratch: Value, pitch: Value, ahead: Value
) -> None:
    """Rows of an even axis to folded rows."""
    strip, axis = _Strip(e, array, stride, width, scratch, pitch, ahead), _Even(e, n)

    def ends(column: Value, left: Value | None) -> None:
        first, opposite = strip.load(axis.zero, column, left), strip.load(axis.half, column, left)
        strip.keep(axis.zero, column, first + opposite)
        strip.keep(axis.odd, column, first - opposite)

    strip.each(ends)
    with e.loop(1, axis.pairs) as j:

        def four(column: Value, left: Value | None) -> None:
            a, b = strip.load(j, column, left), strip.load(n - j, column, left)
            c, d = strip.load(axis.half - j, column, left), strip.load(axis.half + j, column, left)
            low, high = a + b, c + d
            strip.keep(j, column, low + high)
            strip.keep(axis.odd + j, column, low - high)
            low, high = a - b, c - d
            strip.keep(axis.sine_odd + j - 1, column, low + high)
            strip.keep(axis.sine_even + j - 1, column, low - high)

        strip.each(four)
    with e.loop(axis.pairs, axis.odd) as j:

        def middle(column: Value, left: Value | None) -> None:
            a, b = strip.load(j, column, left), strip.load(n - j, column, left)
            strip.keep(j, column, a + b)
            strip.keep(axis.sine_odd + j - 1, column, a - b)

        strip.each(middle)


@vector_op
def unfold_even_columns(
    e: Emitter, array: Value, stride: Value, n: Value, width: Value, scratch: Value, pitch: Value, ahead: Value
) -> None:
    """Folded rows to the rows of an even axis."""
    strip, axis = _Strip(e, array, stride, width, scratch, pitch, ahead), _Even(e, n)

    def ends(column: Value, left: Value | None) -> None:
        even, odd = strip.kept(axis.zero, column), strip.kept(axis.odd, column)
        strip.store(axis.zero, column, left, even + odd)
        strip.store(axis.half, column, left, even - odd)

    strip.each(ends)
    with e.loop(1, axis.pairs) as j:

        def four(column: Value, left: Value | None) -> None:
            even, odd = strip.kept(j, column), strip.kept(axis.odd + j, column)
            sine_odd = strip.kept(axis.sine_odd + j - 1, column)
            sine_even = strip.kept(axis.sine_even + j - 1, column)
            cosine, sine = even + odd, sine_odd + sine_even
            strip.store(j, column, left, cosine + sine)
            strip.store(n - j, column, left, cosine - sine)
            cosine, sine = even - odd, sine_odd - sine_even
            strip.store(axis.half - j, column, left, cosine + sine)
            strip.store(axis.half + j, column, left, cosine - sine)

        strip.each(four)
    with e.loop(axis.pairs, axis.odd) as j:

        def middle(column: Value, left: Value | None) -> None:
            cosine, sine = strip.kept(j, column), strip.kept(axis.sine_odd + j - 1, column)
            strip.store(j, column, left, cosine + sine)
            strip.store(n - j, column, left, cosine - sine)

        strip.each(middle)


@vector_op
def fold_odd_columns(
    e: Emitter, array: Value, stride: Value, n: Value, width: Value, scratch: Value, pitch: Value, ahead: Value
) -> None:
    """Rows of an odd axis to folded rows."""
    strip, half = _Strip(e, array, stride, width, scratch, pitch, ahead), n // 2
    strip.each(lambda column, left: strip.keep(e.constant(0), column, strip.load(e.constant(0), column, left)))
    with e.loop(1, half + 1) as j:

        def two(column: Value, left: Value | None) -> None:
            a, b = strip.load(j, column, left), strip.load(n - j, column, left)
            strip.keep(j, column, a + b)
            strip.keep(half + j, column, a - b)

        strip.each(two)


@vector_op
def unfold_odd_columns(
    e: Emitter, array: Value, stride: Value, n: Value, width: Value, scratch: Value, pitch: Value, ahead: Value
) -> None:
    """Folded rows to the rows of an odd axis."""
    strip, half = _Strip(e, array, stride, width, scratch, pitch, ahead), n // 2
    strip.each(lambda column, left: strip.store(e.constant(0), column, left, strip.kept(e.constant(0), column)))
    with e.loop(1, half + 1) as j:

        def two(column: Value, left: Value | None) -> None:
            cosine, sine = strip.kept(j, column), strip.kept(half + j, column)
            strip.store(j, column, left, cosine + sine)
            strip.store(n - j, column, left, cosine - sine)

        strip.each(two)


def _reversed(e: Emitter, vector: Value) -> Value:
    return e.shuffle(vector, vector, list(range(e.lanes - 1, -1, -1)))


def _move_one(e: Emitter, source: Value, target: Value, place: Value) -> None:
    one = e.constant(1)
    e.store_part(target, place, e.load_part(source, place, one), one)


def _along_row(e: Emitter, n: Value, visit: Callable[[Value], None]) -> None:
    """visit(j) for whole vectors of j = 1 … (n − 1)/2, the last one overlapping the one before; n > 2 lanes."""
    count = (n - 1) // 2
    whole = count // e.lanes * e.lanes
    with e.loop(0, whole, e.lanes) as done:
        visit(done + 1)
    with e.loop(whole, count, e.lanes):
        visit(count - (e.lanes - 1))


@vector_op
def fold_row(e: Emitter, row: Value, n: Value, cosine: Value, sine: Value) -> None:
    """One row of n > 2 lanes numbers to sums j = 0 … n/2 and differences j = 1 … (n − 1)/2 of x_j and x_{n−j}."""
    half = n // 2
    _move_one(e, row, cosine, e.constant(0))
    _move_one(e, row, cosine, half)

    def pair(j: Value) -> None:
        ahead, behind = e.load(row, j), _reversed(e, e.load(row, n - j - (e.lanes - 1)))
        e.store(cosine, j, ahead + behind)
        e.store(sine, j - 1, ahead - behind)

    _along_row(e, n, pair)


@vector_op
def unfold_row(e: Emitter, row: Value, n: Value, cosine: Value, sine: Value) -> None:
    """The opposite of :func:`fold_row`, of sums over k."""
    half = n // 2
    _move_one(e, cosine, row, e.constant(0))
    _move_one(e, cosine, row, half)

    def pair(j: Value) -> None:
        even, odd = e.load(cosine, j), e.load(sine, j - 1)
        e.store(row, j, even + odd)
        e.store(row, n - j - (e.lanes - 1), _reversed(e, even - odd))

    _along_row(e, n, pair)
