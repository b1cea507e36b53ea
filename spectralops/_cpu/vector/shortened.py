"""Rows of real numbers to few of their modes, and back, without the last stage of the transform.

After the stages before it, block q of s neighbouring positions holds what the frequencies q + j·n/s come from, n that
of the half-length transform: with m ≤ n/s modes, only j = 0 of block k and j = s − 1 of block n/s − k are wanted, which
untangle into mode k. Back, both are spread over their blocks, where the first stage of the inverse would have put them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from spectralops._cpu.vector import layout, spectra
from spectralops._cpu.vector.butterflies import butterfly
from spectralops._cpu.vector.emit import Emitter, Value, at, call, floats, integers, lanes, shift, vector_op
from spectralops._cpu.vector.fields import EVEN, SPLIT
from spectralops._cpu.vector.moves import equal, smaller
from spectralops._cpu.vector.tables import LAST
from spectralops._cpu.vector.truncation_fields import (
    COLUMNS,
    FIELD_ROW,
    KEPT_ROW,
    LENGTH,
    WAVE_COUNT,
    WAVE_GROUP,
    WAVE_IMAG,
    WAVE_PLAN,
    WAVE_POSITION,
    WAVE_RADIX,
    WAVE_ROOTS,
    WAVE_TRANSFORM,
    WAVE_TWIDDLES,
)

__all__ = ["wave_rows_short_kept", "wave_rows_short_spread"]

Complex = spectra.Complex


def _by_radix(e: Emitter, radix: Value, emit: Callable[[int], None]) -> None:
    """Run emit(r) with the constant r of :data:`LAST` that `radix` equals."""

    def rest(left: tuple[int, ...]) -> None:
        if len(left) == 1:
            emit(left[0])
        else:
            e.choose(equal(e, radix, left[0]), lambda: emit(left[0]), lambda: rest(left[1:]))

    rest(LAST)


def _ends(e: Emitter, group: Value, start: Value, radix: int) -> tuple[Complex, Complex]:
    """The first and the last frequency of a block; LLVM drops what only the others need."""
    points = [spectra.load_pair(e, group, start + p * (2 * e.lanes), e.lanes) for p in range(radix)]
    found = dict(butterfly(points))
    return found[0], found[radix - 1]


def _fill(e: Emitter, group: Value, start: Value, radix: int, plain: Complex | None, last: Complex | None) -> None:
    """What a block comes from whose first frequency is `plain` and whose last is `last`, zero where there is none."""
    for p in range(radix):
        z = plain or (e.zero(), e.zero())
        if last is not None:
            angle = -2.0 * math.pi * p / radix
            turned = last if p == 0 else _times(last, math.cos(angle), math.sin(angle))
            z = turned if plain is None else (plain[0] + turned[0], plain[1] + turned[1])
        spectra.store_pair(e, group, start + p * (2 * e.lanes), e.lanes, z)


def _times(z: Complex, real: float, imag: float) -> Complex:
    return real * z[0] - imag * z[1], real * z[1] + imag * z[0]


@vector_op
def sum_kept(
    e: Emitter, group: Value, position: Value, roots: Value, n: Value, radix: Value, count: Value, kept: Value
) -> None:
    """Twice the first `count` coefficients of a half spectrum, from blocks of `radix` positions."""
    blocks = n // 2 // radix
    # From here on, the block of the opposite frequency has a mode, too.
    opposite = blocks - count + 1

    def keep(k: Value, first: Complex, last: Complex) -> None:
        x, _ = spectra.untangled(first, last, spectra.scalar(e, roots, k))
        spectra.store_pair(e, kept, k * (2 * e.lanes), e.lanes, x)

    def sums(constant: int) -> None:
        def ends(block: Value) -> tuple[Complex, Complex]:
            return _ends(e, group, spectra.place_of(e, position, block), constant)

        (real, imag), _ = ends(e.constant(0))
        mean = real + imag
        spectra.store_pair(e, kept, e.constant(0), e.lanes, (mean + mean, e.zero()))
        with e.loop(1, smaller(e, count, opposite)) as k:
            keep(k, ends(k)[0], ends(blocks - k)[1])
        with e.loop(opposite, smaller(e, count, blocks // 2 + 1)) as k:
            here, there = ends(k), ends(blocks - k)
            keep(k, here[0], there[1])
            keep(blocks - k, there[0], here[1])

    _by_radix(e, radix, sums)


@vector_op
def spread_kept(
    e: Emitter, kept: Value, position: Value, roots: Value, n: Value, radix: Value, count: Value, group: Value
) -> None:
    """Half spectra to twice the blocks; Im at zero is ignored. All of the group is written."""
    blocks = n // 2 // radix
    opposite = blocks - count + 1

    def mode(k: Value) -> tuple[Complex, Complex]:
        z = spectra.load_pair(e, kept, k * (2 * e.lanes), e.lanes)
        return spectra.retangled(z, (e.zero(), e.zero()), spectra.scalar(e, roots, k))

    def spread(constant: int) -> None:
        def fill(block: Value, plain: Complex | None, last: Complex | None) -> None:
            _fill(e, group, spectra.place_of(e, position, block), constant, plain, last)

        mean = e.load(kept, e.constant(0))
        fill(e.constant(0), (mean, mean), None)
        with e.loop(1, smaller(e, count, opposite)) as k:
            plain, last = mode(k)
            fill(k, plain, None)
            fill(blocks - k, None, last)
        with e.loop(opposite, smaller(e, count, blocks // 2 + 1)) as k:
            here, there = mode(k), mode(blocks - k)
            fill(k, here[0], there[1])
            fill(blocks - k, there[0], here[1])
        with e.loop(count, opposite) as k:
            fill(k, None, None)

    _by_radix(e, radix, spread)


_gather, _scatter = layout.row_gatherer(EVEN), layout.row_scatterer(EVEN)
_gather_kept, _scatter_kept = layout.row_gatherer(SPLIT), layout.row_scatterer(SPLIT)


def wave_rows_short_kept(job: Any, field: Any, kept: Any, scratch: Any, first: Any, last: Any) -> None:
    """Rows first … last: transpose to lanes, all stages but the last, sums, transpose the kept modes back."""
    n, count, radix = at(job, LENGTH), at(job, WAVE_COUNT), at(job, WAVE_RADIX)
    plan, position = integers(at(job, WAVE_PLAN)), integers(at(job, WAVE_POSITION))
    twiddles, roots = floats(at(job, WAVE_TWIDDLES), field), floats(at(job, WAVE_ROOTS), field)
    row, size = at(job, FIELD_ROW), at(job, KEPT_ROW)
    modes = shift(scratch, at(job, WAVE_GROUP))
    for start in range(first, last, lanes(field)):
        _gather(shift(field, start * row), row, 0, last - start, at(job, COLUMNS), scratch)
        call(at(job, WAVE_TRANSFORM), (scratch, plan, twiddles))
        sum_kept(scratch, position, roots, n, radix, count, modes)
        _scatter_kept(shift(kept, start * size), size, at(job, WAVE_IMAG), last - start, count, modes)


def wave_rows_short_spread(job: Any, kept: Any, field: Any, scratch: Any, first: Any, last: Any) -> None:
    """Rows first … last: transpose the kept modes to lanes, spread them, the other stages, transpose to rows."""
    n, count, radix = at(job, LENGTH), at(job, WAVE_COUNT), at(job, WAVE_RADIX)
    plan, position = integers(at(job, WAVE_PLAN)), integers(at(job, WAVE_POSITION))
    twiddles, roots = floats(at(job, WAVE_TWIDDLES), field), floats(at(job, WAVE_ROOTS), field)
    row, size = at(job, FIELD_ROW), at(job, KEPT_ROW)
    modes = shift(scratch, at(job, WAVE_GROUP))
    for start in range(first, last, lanes(field)):
        _gather_kept(shift(kept, start * size), size, at(job, WAVE_IMAG), last - start, count, modes)
        spread_kept(modes, position, roots, n, radix, count, scratch)
        call(at(job, WAVE_TRANSFORM), (scratch, plan, twiddles))
        _scatter(shift(field, start * row), row, 0, last - start, at(job, COLUMNS), scratch)
