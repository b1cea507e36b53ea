"""The kernels of truncated transforms by FFT: all frequencies of an axis, of which only the kept ones are written.

They do the same as the products with Fourier matrices in :mod:`truncated`, up to a factor of 2 that the records' maker
knows of, and are faster where many modes are kept. Columns that are real give cosines and sines of one wavenumber in
neighbouring rows; the first `count` wavenumbers are kept.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import layout, spectra
from spectralops._cpu.vector.emit import Emitter, Value, at, call, floats, integers, lanes, shift, vector_op
from spectralops._cpu.vector.fields import BREADTH, COMPLEX, EVEN, PAIR, SPLIT, ZERO
from spectralops._cpu.vector.moves import smaller
from spectralops._cpu.vector.truncation_fields import (
    COLUMNS,
    FIELD_GROUP,
    FIELD_ROW,
    KEPT_GROUP,
    KEPT_ROW,
    LENGTH,
    STRIPS,
    WAVE_COUNT,
    WAVE_GROUP,
    WAVE_IMAG,
    WAVE_MIRRORS,
    WAVE_PLACES,
    WAVE_PLAN,
    WAVE_POSITION,
    WAVE_ROOTS,
    WAVE_SWEEP,
    WAVE_TRANSFORM,
    WAVE_TWIDDLES,
)

__all__ = [
    "wave_columns_even_kept", "wave_columns_even_spread", "wave_columns_pair_kept", "wave_columns_pair_spread",
    "wave_rows_complex_kept", "wave_rows_complex_spread", "wave_rows_even_kept", "wave_rows_even_spread",
    "wave_rows_zero_kept", "wave_rows_zero_spread",
]  # fmt: skip

Complex = tuple[Value, Value]


def _larger(e: Emitter, a: Value, b: Value) -> Value:
    return e.value(e.builder.select(e.less(a, b).ir, b.ir, a.ir))


class _Half:
    """The pairs k and h − k, h = n/2, of a real transform, of which those below `count` are kept."""

    def __init__(self, e: Emitter, n: Value, count: Value) -> None:
        self.half = n // 2
        middle = self.half // 2 + 1
        one = e.constant(1)
        # Below `both`, h − k is not kept.
        self.both = smaller(e, _larger(e, self.half - count + 1, one), middle)
        self.single = smaller(e, self.both, count)
        self.middle = middle
        self.top = e.less(self.half, count)


@vector_op
def untangle_kept(
    e: Emitter, group: Value, position: Value, roots: Value, n: Value, count: Value, kept: Value, offset: Value,
    stride: Value, imag: Value,
) -> None:  # fmt: skip
    """A group of kind even to twice the first `count` coefficients of its half spectrum."""
    axis = _Half(e, n, count)
    real, other = spectra.load_pair(e, group, e.constant(0), e.lanes)
    total, difference = real + other, real - other
    spectra.store_pair(e, kept, offset, imag, (total + total, e.zero()))

    def nyquist() -> None:
        spectra.store_pair(e, kept, offset + axis.half * stride, imag, (difference + difference, e.zero()))

    e.choose(axis.top, nyquist, lambda: None)

    def pair(k: Value) -> tuple[Complex, Complex]:
        a = spectra.load_pair(e, group, spectra.place_of(e, position, k), e.lanes)
        b = spectra.load_pair(e, group, spectra.place_of(e, position, axis.half - k), e.lanes)
        return spectra.untangled(a, b, spectra.scalar(e, roots, k))

    with e.loop(1, axis.single) as k:
        spectra.store_pair(e, kept, offset + k * stride, imag, pair(k)[0])
    with e.loop(axis.both, axis.middle) as k:
        x, y = pair(k)
        spectra.store_pair(e, kept, offset + k * stride, imag, x)
        spectra.store_pair(e, kept, offset + (axis.half - k) * stride, imag, y)


def _retangle(name: str, columns: bool) -> Any:
    def operation(
        e: Emitter, group: Value, position: Value, roots: Value, n: Value, count: Value, kept: Value, offset: Value,
        stride: Value, imag: Value,
    ) -> None:  # fmt: skip
        axis = _Half(e, n, count)

        def load(k: Value) -> Complex:
            real, other = spectra.load_pair(e, kept, offset + k * stride, imag)
            return real, -other if columns else other

        def own(k: Value) -> Value:
            real = e.load(kept, offset + k * stride)
            return real + real if columns else real

        def ends(low: Value, high: Value) -> None:
            spectra.store_pair(e, group, e.constant(0), e.lanes, (low + high, low - high))

        first = own(e.constant(0))
        e.choose(axis.top, lambda: ends(first, own(axis.half)), lambda: ends(first, e.zero()))

        def keep(k: Value, x: Complex, y: Complex) -> None:
            a, b = spectra.retangled(x, y, spectra.scalar(e, roots, k))
            spectra.store_pair(e, group, spectra.place_of(e, position, k), e.lanes, a)
            spectra.store_pair(e, group, spectra.place_of(e, position, axis.half - k), e.lanes, b)

        with e.loop(1, axis.single) as k:
            keep(k, load(k), (e.zero(), e.zero()))
        with e.loop(axis.both, axis.middle) as k:
            keep(k, load(k), load(axis.half - k))

    operation.__name__ = name
    return vector_op(operation)


# The half spectrum of a row, and the factors of cosines and sines of a column, to twice the group of kind even; the
# latter also count double. What is not kept must be zero in the group already.
retangle_row = _retangle("retangle_row", False)
retangle_column = _retangle("retangle_column", True)


@vector_op
def split_kept(
    e: Emitter, group: Value, position: Value, roots: Value, n: Value, count: Value, kept: Value, offset: Value,
    stride: Value, imag: Value,
) -> None:  # fmt: skip
    """A group of kind pair to twice the first `count` coefficients of both blocks of columns."""
    second = offset + e.lanes
    real, other = spectra.load_pair(e, group, e.constant(0), e.lanes)
    spectra.store_pair(e, kept, offset, imag, (real + real, e.zero()))
    spectra.store_pair(e, kept, second, imag, (other + other, e.zero()))
    with e.loop(1, count) as k:
        a = spectra.load_pair(e, group, spectra.place_of(e, position, k), e.lanes)
        b = spectra.load_pair(e, group, spectra.place_of(e, position, n - k), e.lanes)
        spectra.store_pair(e, kept, offset + k * stride, imag, (a[0] + b[0], a[1] - b[1]))
        spectra.store_pair(e, kept, second + k * stride, imag, (a[1] + b[1], b[0] - a[0]))


@vector_op
def join_column(
    e: Emitter, group: Value, position: Value, roots: Value, n: Value, count: Value, kept: Value, offset: Value,
    stride: Value, imag: Value,
) -> None:  # fmt: skip
    """Factors of cosines and sines of two blocks of columns to twice the group of kind pair; the rest must be zero."""
    second = offset + e.lanes
    low, high = e.load(kept, offset), e.load(kept, second)
    spectra.store_pair(e, group, e.constant(0), e.lanes, (low + low, high + high))
    with e.loop(1, count) as k:
        x = spectra.load_pair(e, kept, offset + k * stride, imag)
        y = spectra.load_pair(e, kept, second + k * stride, imag)
        # x and y stand for x₀ − i x₁ and y₀ − i y₁.
        spectra.store_pair(e, group, spectra.place_of(e, position, k), e.lanes, (x[0] + y[1], y[0] - x[1]))
        spectra.store_pair(e, group, spectra.place_of(e, position, n - k), e.lanes, (x[0] - y[1], y[0] + x[1]))


@vector_op
def trim(e: Emitter, kept: Value, offset: Value, stride: Value, rows: Value, left: Value) -> None:
    """Zeros after the first `left` lanes of one vector of each row."""
    with e.loop(0, rows) as row:
        place = offset + row * stride
        e.store(kept, place, e.load_part(kept, place, left))


@vector_op
def take(e: Emitter, group: Value, places: Value, count: Value, kept: Value) -> None:
    """The first `count` of the named positions of a complex group, in their order."""
    with e.loop(0, count) as k:
        z = spectra.load_pair(e, group, spectra.place_of(e, places, k), e.lanes)
        spectra.store_pair(e, kept, k * (2 * e.lanes), e.lanes, z)


@vector_op
def put(e: Emitter, kept: Value, places: Value, count: Value, group: Value) -> None:
    """The opposite of :func:`take`."""
    with e.loop(0, count) as k:
        z = spectra.load_pair(e, kept, k * (2 * e.lanes), e.lanes)
        spectra.store_pair(e, group, spectra.place_of(e, places, k), e.lanes, z)


@vector_op
def put_both(e: Emitter, kept: Value, places: Value, mirrors: Value, count: Value, group: Value) -> None:
    """A half spectrum to the named positions, and its conjugate to the opposite ones; Im at zero is ignored."""
    spectra.store_pair(e, group, spectra.place_of(e, places, e.constant(0)), e.lanes, (e.load(kept, 0), e.zero()))
    with e.loop(1, count) as k:
        z = spectra.load_pair(e, kept, k * (2 * e.lanes), e.lanes)
        spectra.store_pair(e, group, spectra.place_of(e, places, k), e.lanes, z)
        spectra.store_pair(e, group, spectra.place_of(e, mirrors, k), e.lanes, (z[0], -z[1]))


_scatter_kept = layout.row_scatterer(SPLIT)
_gather_kept = layout.row_gatherer(SPLIT)


def _rows_kept(kind: str) -> Any:
    gather = layout.row_gatherer(kind)
    even = kind == EVEN

    def rows_kept(job: Any, field: Any, kept: Any, scratch: Any, first: Any, last: Any) -> None:
        """Rows first … last: transpose to lanes, transform, transpose the kept modes back."""
        n, count = at(job, LENGTH), at(job, WAVE_COUNT)
        plan, position = integers(at(job, WAVE_PLAN)), integers(at(job, WAVE_POSITION))
        twiddles, roots = floats(at(job, WAVE_TWIDDLES), field), floats(at(job, WAVE_ROOTS), field)
        places = integers(at(job, WAVE_PLACES))
        row, size, width = at(job, FIELD_ROW), at(job, KEPT_ROW), lanes(field)
        modes = shift(scratch, at(job, WAVE_GROUP))
        for start in range(first, last, width):
            gather(shift(field, start * row), row, 0, last - start, at(job, COLUMNS), scratch)
            call(at(job, WAVE_TRANSFORM), (scratch, plan, twiddles))
            if even:
                untangle_kept(scratch, position, roots, n, count, modes, 0, 2 * width, width)
            else:
                take(scratch, places, count, modes)
            _scatter_kept(shift(kept, start * size), size, at(job, WAVE_IMAG), last - start, count, modes)

    return rows_kept


def _rows_spread(kind: str) -> Any:
    scatter = layout.row_scatterer(kind)
    even, full = kind == EVEN, kind == COMPLEX

    def rows_spread(job: Any, kept: Any, field: Any, scratch: Any, first: Any, last: Any) -> None:
        """Rows first … last: transpose the kept modes to lanes, transform back, transpose to rows."""
        n, count = at(job, LENGTH), at(job, WAVE_COUNT)
        plan, position = integers(at(job, WAVE_PLAN)), integers(at(job, WAVE_POSITION))
        twiddles, roots = floats(at(job, WAVE_TWIDDLES), field), floats(at(job, WAVE_ROOTS), field)
        places, mirrors = integers(at(job, WAVE_PLACES)), integers(at(job, WAVE_MIRRORS))
        row, size, width = at(job, FIELD_ROW), at(job, KEPT_ROW), lanes(field)
        modes = shift(scratch, at(job, WAVE_GROUP))
        for start in range(first, last, width):
            _gather_kept(shift(kept, start * size), size, at(job, WAVE_IMAG), last - start, count, modes)
            if even:
                spectra.blank(scratch, 0, n // 2)
                retangle_row(scratch, position, roots, n, count, modes, 0, 2 * width, width)
            else:
                spectra.blank(scratch, 0, n)
                if full:
                    put(modes, places, count, scratch)
                else:
                    put_both(modes, places, mirrors, count, scratch)
            call(at(job, WAVE_TRANSFORM), (scratch, plan, twiddles))
            scatter(shift(field, start * row), row, 0, last - start, at(job, COLUMNS), scratch)

    return rows_spread


def _columns_kept(kind: str, unpack: Any) -> Any:
    load = layout.column_loader(kind)
    breadth = BREADTH[kind]

    def columns_kept(job: Any, field: Any, kept: Any, scratch: Any, first: Any, last: Any) -> None:
        """Units first … last of columns: load, transform, keep."""
        n, count, units = at(job, LENGTH), at(job, WAVE_COUNT), at(job, STRIPS)
        plan, position = integers(at(job, WAVE_PLAN)), integers(at(job, WAVE_POSITION))
        twiddles, roots = floats(at(job, WAVE_TWIDDLES), field), floats(at(job, WAVE_ROOTS), field)
        size, width = at(job, KEPT_ROW), breadth * lanes(field)
        unit = first
        while unit < last:
            group = unit // units
            within = unit - group * units
            sweep = min(at(job, WAVE_SWEEP), last - unit, units - within)
            here = shift(field, group * at(job, FIELD_GROUP))
            there = shift(kept, group * at(job, KEPT_GROUP))
            columns = at(job, COLUMNS)
            load(here, at(job, FIELD_ROW), 0, n, within * width, columns, sweep, scratch, at(job, WAVE_GROUP))
            for u in range(sweep):
                lines = shift(scratch, u * at(job, WAVE_GROUP))
                call(at(job, WAVE_TRANSFORM), (lines, plan, twiddles))
                unpack(lines, position, roots, n, count, there, (within + u) * width, 2 * size, size)
            unit += sweep

    return columns_kept


def _columns_spread(kind: str, pack: Any) -> Any:
    store = layout.column_storer(kind)
    breadth = BREADTH[kind]
    even, pair = kind == EVEN, kind == PAIR

    def columns_spread(job: Any, kept: Any, field: Any, scratch: Any, first: Any, last: Any) -> None:
        """Units first … last of columns: spread, transform back, store."""
        n, count, units = at(job, LENGTH), at(job, WAVE_COUNT), at(job, STRIPS)
        plan, position = integers(at(job, WAVE_PLAN)), integers(at(job, WAVE_POSITION))
        twiddles, roots = floats(at(job, WAVE_TWIDDLES), field), floats(at(job, WAVE_ROOTS), field)
        size, width = at(job, KEPT_ROW), breadth * lanes(field)
        positions = n // 2 if even else n
        unit = first
        while unit < last:
            group = unit // units
            within = unit - group * units
            sweep = min(at(job, WAVE_SWEEP), last - unit, units - within)
            here = shift(kept, group * at(job, KEPT_GROUP))
            there = shift(field, group * at(job, FIELD_GROUP))
            for u in range(sweep):
                lines = shift(scratch, u * at(job, WAVE_GROUP))
                spectra.blank(lines, 0, positions)
                second = (within + u) * width + lanes(field)
                if pair and second + lanes(field) > at(job, COLUMNS):
                    # Whatever stood beside the last columns would be transformed with others.
                    trim(here, second, size, 2 * count, at(job, COLUMNS) - second)
                pack(lines, position, roots, n, count, here, (within + u) * width, 2 * size, size)
                call(at(job, WAVE_TRANSFORM), (lines, plan, twiddles))
            columns = at(job, COLUMNS)
            store(there, at(job, FIELD_ROW), 0, n, within * width, columns, sweep, scratch, at(job, WAVE_GROUP))
            unit += sweep

    return columns_spread


wave_columns_even_kept = _columns_kept(EVEN, untangle_kept)
wave_columns_even_spread = _columns_spread(EVEN, retangle_column)
wave_columns_pair_kept = _columns_kept(PAIR, split_kept)
wave_columns_pair_spread = _columns_spread(PAIR, join_column)
wave_rows_even_kept = _rows_kept(EVEN)
wave_rows_even_spread = _rows_spread(EVEN)
wave_rows_zero_kept = _rows_kept(ZERO)
wave_rows_zero_spread = _rows_spread(ZERO)
wave_rows_complex_kept = _rows_kept(COMPLEX)
wave_rows_complex_spread = _rows_spread(COMPLEX)
