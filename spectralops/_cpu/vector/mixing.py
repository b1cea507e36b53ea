"""Products over channels, one for each mode, with modes in the lanes, so that weights are read in the order they lie.

Modes of fields lie in blocks [block][image][real, imaginary][lane]; weights interleave real and imaginary parts of all
modes. The same product mixes channels (sums over those of x), gives the adjoint (over those of the result, with
conjugated weights) and the gradient of the weights (over the batch).
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, at, floats, lanes, shift, vector_op
from spectralops._cpu.vector.host import registers
from spectralops._cpu.vector.moves import Totals
from spectralops._cpu.vector.products import by_count, prefetch, shared_out
from spectralops._cpu.vector.truncation_fields import (
    FACTORS,
    FACTORS_IMAG,
    GROUP,
    LEFT_BLOCK,
    LEFT_ROW,
    LEFT_TERM,
    LEFTS,
    MODES,
    RESULT_BLOCK,
    RESULT_COLUMN,
    RESULT_ROW,
    RIGHT_BLOCK,
    RIGHT_COLUMN,
    RIGHT_TERM,
    RIGHTS,
    TERMS,
    TILE_COLUMNS,
    TILES,
)

__all__ = ["gradient", "gradient_single", "mix", "mix_single"]

# Rows of a tile of complex sums that the registers hold.
TILE_ROWS = 2 if registers() >= 32 else 1

Complex = tuple[Value, Value]


def _pair(e: Emitter, array: Value, place: Any) -> Complex:
    return e.load(array, place), e.load(array, place + e.lanes)


def _keep(e: Emitter, array: Value, place: Any, z: Complex) -> None:
    e.store(array, place, z[0])
    e.store(array, place + e.lanes, z[1])


def _read(e: Emitter, array: Value, place: Value, left: Value, use: Any) -> None:
    """use(z) for one vector of interleaved complex numbers, of which `left` exist; the others are zeros."""

    def whole() -> None:
        use(e.deinterleave(e.load(array, place), e.load(array, place + e.lanes)))

    def part() -> None:
        low = e.load_part(array, place, left * 2)
        use(e.deinterleave(low, e.load_part(array, place + e.lanes, left * 2 - e.lanes)))

    e.choose(e.less(left, e.lanes), part, whole)


def _write(e: Emitter, array: Value, place: Value, left: Value, z: Complex) -> None:
    low, high = e.interleave(*z)

    def whole() -> None:
        e.store(array, place, low)
        e.store(array, place + e.lanes, high)

    def part() -> None:
        e.store_part(array, place, low, left * 2)
        e.store_part(array, place + e.lanes, high, left * 2 - e.lanes)

    e.choose(e.less(left, e.lanes), part, whole)


@vector_op
def lay_out_weights(
    e: Emitter, weights: Value, modes: Value, factors: Value, imag: Value, target: Value, step: Value, ahead: Value
) -> None:
    """Vectors of so many modes of one weight times factors, real and imaginary parts apart, `step` from each other."""
    with e.loop(0, modes, e.lanes) as k:
        prefetch(e, weights, k * 2 + ahead)

        def use(w: Complex, k: Value = k) -> None:
            z = w[0] * e.load(factors, k), w[1] * e.load(factors, k + imag)
            _keep(e, target, k // e.lanes * step, z)

        _read(e, weights, k * 2, modes - k, use)


@vector_op
def lay_out_conjugates(e: Emitter, modes: Value, target: Value) -> None:
    """One vector of conjugated modes."""
    real, imag = _pair(e, modes, 0)
    _keep(e, target, e.constant(0), (real, -imag))


def _tiles(
    e: Emitter, left: Value, row: Value, term: Value, right: Value, rows: Value, columns: Value, terms: Value,
    store: Any,
) -> None:  # fmt: skip
    """Sums over terms of left[row][term] · right[term][column], tile by tile; store(row, column, z) takes each."""

    def tile(first: Value, height: int, width: int) -> None:
        sums = Totals(e, 2 * height * width)
        with e.loop(0, terms) as r:
            fields = [_pair(e, left, (first + p) * row + r * term) for p in range(height)]
            for q in range(width):
                b = _pair(e, right, r * (TILE_COLUMNS * 2 * e.lanes) + q * 2 * e.lanes)
                for p, a in enumerate(fields):
                    i = 2 * (p * width + q)
                    sums.set(i, sums.get(i) + a[0] * b[0] - a[1] * b[1])
                    sums.set(i + 1, sums.get(i + 1) + a[0] * b[1] + a[1] * b[0])
        for p in range(height):
            for q in range(width):
                i = 2 * (p * width + q)
                store(first + p, q, (sums.get(i), sums.get(i + 1)))

    def strip(width: int) -> None:
        shared_out(
            e, rows, TILE_ROWS,
            lambda first, size: by_count(e, size, TILE_ROWS, lambda height: tile(first, height, width)),
        )  # fmt: skip

    by_count(e, columns, TILE_COLUMNS, strip)


@vector_op
def mix_tiles(
    e: Emitter, left: Value, row: Value, term: Value, right: Value, rows: Value, columns: Value, terms: Value,
    result: Value, result_row: Value, result_column: Value,
) -> None:  # fmt: skip
    """Tiles of mixed modes."""

    def store(p: Value, q: int, z: Complex) -> None:
        _keep(e, result, p * result_row + result_column * q, z)

    _tiles(e, left, row, term, right, rows, columns, terms, store)


@vector_op
def gradient_tiles(
    e: Emitter, left: Value, row: Value, term: Value, right: Value, rows: Value, columns: Value, terms: Value,
    result: Value, result_row: Value, result_column: Value, here: Value, factors: Value,
) -> None:  # fmt: skip
    """Tiles of conjugated sums times factors, interleaved; `here` says how many modes there are from this vector on."""

    def store(p: Value, q: int, z: Complex) -> None:
        factor = e.load(factors, 0)
        _write(e, result, p * result_row + result_column * q, here, (z[0] * factor, -z[1] * factor))

    _tiles(e, left, row, term, right, rows, columns, terms, store)


@vector_op
def mix_rows(
    e: Emitter, left: Value, row: Value, rows: Value, weights: Value, here: Value, factors: Value, imag: Value,
    result: Value, result_row: Value,
) -> None:  # fmt: skip
    """One vector of modes of one channel in all entries of the batch, times its weights."""

    def use(w: Complex) -> None:
        w = w[0] * e.load(factors, 0), w[1] * e.load(factors, imag)
        with e.loop(0, rows) as p:
            a = _pair(e, left, p * row)
            _keep(e, result, p * result_row, (a[0] * w[0] - a[1] * w[1], a[0] * w[1] + a[1] * w[0]))

    _read(e, weights, e.constant(0), here, use)


@vector_op
def gradient_row(
    e: Emitter, left: Value, row: Value, rows: Value, right: Value, right_row: Value, result: Value, here: Value,
    factors: Value,
) -> None:  # fmt: skip
    """One vector of modes of one channel: the sum over the batch of conj(left) · right, times factors."""
    sums = Totals(e, 2)
    with e.loop(0, rows) as p:
        a, b = _pair(e, left, p * row), _pair(e, right, p * right_row)
        sums.set(0, sums.get(0) + a[0] * b[0] + a[1] * b[1])
        sums.set(1, sums.get(1) + a[0] * b[1] - a[1] * b[0])
    factor = e.load(factors, 0)
    _write(e, result, e.constant(0), here, (sums.get(0) * factor, sums.get(1) * factor))


def mix(job: Any, left: Any, right: Any, result: Any, scratch: Any, first: Any, last: Any) -> None:
    """Tiles first … last of columns, counted on through the groups of blocks: lay the weights out, then multiply."""
    count, terms, tiles = lanes(left), at(job, TERMS), at(job, TILES)
    modes, imag = at(job, MODES), at(job, FACTORS_IMAG)
    term, column = at(job, RIGHT_TERM), at(job, RIGHT_COLUMN)
    step = terms * TILE_COLUMNS * 2 * count
    for unit in range(first, last):
        group = unit // tiles
        begin = group * at(job, GROUP)
        end = min((modes + count - 1) // count, begin + at(job, GROUP))
        tile = (unit - group * tiles) * at(job, RIGHTS) // tiles
        columns = (unit - group * tiles + 1) * at(job, RIGHTS) // tiles - tile
        here = min(modes, end * count) - begin * count
        factors = shift(floats(at(job, FACTORS), left), begin * count)
        # In the order of memory: along the smaller stride first.
        outer, inner, far, near = terms, columns, term, column
        row, place = TILE_COLUMNS * 2 * count, 2 * count
        if abs(term) < abs(column):
            outer, inner, far, near = columns, terms, column, term
            row, place = place, row
        for i in range(outer):
            for j in range(inner):
                source = shift(right, i * far + j * near + tile * column + 2 * begin * count)
                lay_out_weights(source, here, factors, imag, shift(scratch, i * row + j * place), step, 2 * far)
        for block in range(begin, end):
            mix_tiles(
                shift(left, block * at(job, LEFT_BLOCK)), at(job, LEFT_ROW), at(job, LEFT_TERM),
                shift(scratch, (block - begin) * step), at(job, LEFTS), columns, terms,
                shift(result, block * at(job, RESULT_BLOCK) + tile * at(job, RESULT_COLUMN)),
                at(job, RESULT_ROW), at(job, RESULT_COLUMN),
            )  # fmt: skip


def gradient(job: Any, left: Any, right: Any, result: Any, scratch: Any, first: Any, last: Any) -> None:
    """Tiles first … last of columns, counted on through the groups of blocks, of the gradient of the weights."""
    count, terms, tiles = lanes(left), at(job, TERMS), at(job, TILES)
    modes = at(job, MODES)
    factors = floats(at(job, FACTORS), left)
    term, column = at(job, RIGHT_TERM), at(job, RIGHT_COLUMN)
    step = terms * TILE_COLUMNS * 2 * count
    for unit in range(first, last):
        group = unit // tiles
        begin = group * at(job, GROUP)
        end = min((modes + count - 1) // count, begin + at(job, GROUP))
        tile = (unit - group * tiles) * at(job, RIGHTS) // tiles
        columns = (unit - group * tiles + 1) * at(job, RIGHTS) // tiles - tile
        for block in range(begin, end):
            source = shift(right, block * at(job, RIGHT_BLOCK) + tile * column)
            for r in range(terms):
                for q in range(columns):
                    place = (block - begin) * step + (r * TILE_COLUMNS + q) * 2 * count
                    lay_out_conjugates(shift(source, r * term + q * column), shift(scratch, place))
            gradient_tiles(
                shift(left, block * at(job, LEFT_BLOCK)), at(job, LEFT_ROW), at(job, LEFT_TERM),
                shift(scratch, (block - begin) * step), at(job, LEFTS), columns, terms,
                shift(result, 2 * block * count + tile * at(job, RESULT_COLUMN)),
                at(job, RESULT_ROW), at(job, RESULT_COLUMN), modes - block * count, shift(factors, block * count),
            )  # fmt: skip


def mix_single(job: Any, left: Any, right: Any, result: Any, scratch: Any, first: Any, last: Any) -> None:
    """Channels first … last, one weight each."""
    modes, imag, count = at(job, MODES), at(job, FACTORS_IMAG), lanes(left)
    factors = floats(at(job, FACTORS), left)
    for channel in range(first, last):
        source = shift(left, channel * at(job, LEFT_TERM))
        weights = shift(right, channel * at(job, RIGHT_TERM))
        target = shift(result, channel * at(job, RESULT_COLUMN))
        for k in range(0, modes, count):
            block = k // count
            mix_rows(
                shift(source, block * at(job, LEFT_BLOCK)), at(job, LEFT_ROW), at(job, LEFTS), shift(weights, 2 * k),
                modes - k, shift(factors, k), imag, shift(target, block * at(job, RESULT_BLOCK)), at(job, RESULT_ROW),
            )  # fmt: skip


def gradient_single(job: Any, left: Any, right: Any, result: Any, scratch: Any, first: Any, last: Any) -> None:
    """Channels first … last of the gradient of weights of single channels."""
    modes, count = at(job, MODES), lanes(left)
    factors = floats(at(job, FACTORS), left)
    for channel in range(first, last):
        source = shift(left, channel * at(job, LEFT_ROW))
        other = shift(right, channel * at(job, RIGHT_COLUMN))
        target = shift(result, channel * at(job, RESULT_ROW))
        for k in range(0, modes, count):
            block = k // count
            gradient_row(
                shift(source, block * at(job, LEFT_BLOCK)), at(job, LEFT_TERM), at(job, TERMS),
                shift(other, block * at(job, RIGHT_BLOCK)), at(job, RIGHT_TERM), shift(target, 2 * k), modes - k,
                shift(factors, k),
            )  # fmt: skip
