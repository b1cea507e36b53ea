"""The kernels of lone transforms along one axis: rows or columns of an array to those of another, in natural order."""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import layout, natural, spectra
from spectralops._cpu.vector.emit import at, call, floats, integers, lanes, shift
from spectralops._cpu.vector.fields import (
    EVEN,
    LINE_COUNT,
    LINE_GROUP,
    LINE_LENGTH,
    LINE_NUMBERS,
    LINE_ODD,
    LINE_ORDER,
    LINE_PLAN,
    LINE_POSITION,
    LINE_ROOTS,
    LINE_SIZE,
    LINE_SWEEP,
    LINE_TRANSFORM,
    LINE_TURN,
    LINE_TWIDDLES,
    LINE_UNITS,
    ZERO,
)

__all__ = ["columns_complex", "rows_complex", "rows_from_real", "rows_to_real"]

_gather_even, _gather_zero = layout.row_gatherer(EVEN), layout.row_gatherer(ZERO)
_scatter_even, _scatter_zero = layout.row_scatterer(EVEN), layout.row_scatterer(ZERO)


def rows_complex(
    job: Any,
    source: Any,
    source_step: Any,
    target: Any,
    target_step: Any,
    scratch: Any,
    scale: Any,
    unit: Any,
    first: Any,
    last: Any,
) -> None:
    """Rows first … last of complex numbers: transpose in, transform, transpose out in order and scaled."""
    n, turn = at(job, LINE_LENGTH), at(job, LINE_TURN)
    plan, twiddles = integers(at(job, LINE_PLAN)), floats(at(job, LINE_TWIDDLES), source)
    position = integers(at(job, LINE_POSITION))
    for row in range(first, last, lanes(source)):
        natural.gather_rows(shift(source, row * source_step), source_step, last - row, n, turn, unit, scratch)
        call(at(job, LINE_TRANSFORM), (scratch, plan, twiddles))
        there = shift(target, row * target_step)
        natural.scatter_rows(scratch, position, turn, scale, last - row, n, there, target_step)


def rows_from_real(
    job: Any,
    source: Any,
    source_step: Any,
    target: Any,
    target_step: Any,
    scratch: Any,
    scale: Any,
    unit: Any,
    first: Any,
    last: Any,
) -> None:
    """Rows first … last of real numbers to their half spectra, scaled."""
    n, count = at(job, LINE_LENGTH), at(job, LINE_COUNT)
    plan, twiddles = integers(at(job, LINE_PLAN)), floats(at(job, LINE_TWIDDLES), source)
    position, order = integers(at(job, LINE_POSITION)), integers(at(job, LINE_ORDER))
    roots = floats(at(job, LINE_ROOTS), source)
    width = lanes(source)
    spectrum = shift(scratch, at(job, LINE_GROUP))
    for row in range(first, last, width):
        here, there = shift(source, row * source_step), shift(target, row * target_step)
        if at(job, LINE_ODD) != 0:
            _gather_zero(here, source_step, 0, last - row, n, scratch)
            call(at(job, LINE_TRANSFORM), (scratch, plan, twiddles))
            natural.scatter_rows(scratch, position, 0, scale, last - row, count, there, target_step)
        else:
            _gather_even(here, source_step, 0, last - row, n, scratch)
            call(at(job, LINE_TRANSFORM), (scratch, plan, twiddles))
            spectra.untangle(scratch, position, roots, n, spectrum, 0, 2 * width, width)
            natural.scatter_rows(spectrum, order, 0, scale, last - row, count, there, target_step)


def rows_to_real(
    job: Any,
    source: Any,
    source_step: Any,
    target: Any,
    target_step: Any,
    scratch: Any,
    scale: Any,
    unit: Any,
    first: Any,
    last: Any,
) -> None:
    """Rows first … last of half spectra to real numbers, scaled on the way in."""
    n, count = at(job, LINE_LENGTH), at(job, LINE_COUNT)
    plan, twiddles = integers(at(job, LINE_PLAN)), floats(at(job, LINE_TWIDDLES), source)
    position = integers(at(job, LINE_POSITION))
    roots = floats(at(job, LINE_ROOTS), source)
    width = lanes(source)
    spectrum = shift(scratch, at(job, LINE_GROUP))
    for row in range(first, last, width):
        here, there = shift(source, row * source_step), shift(target, row * target_step)
        natural.gather_rows(here, source_step, last - row, count, 0, scale, spectrum)
        if at(job, LINE_ODD) != 0:
            natural.complete(spectrum, position, n, scratch)
            call(at(job, LINE_TRANSFORM), (scratch, plan, twiddles))
            _scatter_zero(there, target_step, 0, last - row, n, scratch)
        else:
            spectra.retangle(scratch, position, roots, n, spectrum, 0, 2 * width, width)
            call(at(job, LINE_TRANSFORM), (scratch, plan, twiddles))
            _scatter_even(there, target_step, 0, last - row, n, scratch)


def columns_complex(job: Any, source: Any, target: Any, scratch: Any, scale: Any, first: Any, last: Any) -> None:
    """Units first … last of complex columns: load, transform, store in order and scaled. Source may be target."""
    n, turn = at(job, LINE_LENGTH), at(job, LINE_TURN)
    plan, twiddles = integers(at(job, LINE_PLAN)), floats(at(job, LINE_TWIDDLES), source)
    position = integers(at(job, LINE_POSITION))
    numbers, size, per_image = at(job, LINE_NUMBERS), at(job, LINE_GROUP), at(job, LINE_UNITS)
    width = 2 * lanes(source)
    unit = first
    while unit < last:
        # Units count on through all images; a sweep stays within one.
        image = unit // per_image
        within = unit - image * per_image
        units = min(at(job, LINE_SWEEP), last - unit, per_image - within)
        here, there = shift(source, image * at(job, LINE_SIZE)), shift(target, image * at(job, LINE_SIZE))
        natural.load_columns(here, numbers, n, within * width, numbers, units, turn, scratch, size)
        for u in range(units):
            call(at(job, LINE_TRANSFORM), (shift(scratch, u * size), plan, twiddles))
        natural.store_columns(scratch, size, position, turn, scale, there, numbers, n, within * width, numbers, units)
        unit += units
