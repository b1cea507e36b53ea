"""The kernels of a filter: plain loops over vector operations, driven by a job.

A job is an array of integers (:mod:`jobs` fills it): sizes, distances and the addresses of tables and of other kernels.
Each kernel works on a range, so that threads can share one image as well as many.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import layout, spectra
from spectralops._cpu.vector.emit import at, call, floats, integers, lanes, shift
from spectralops._cpu.vector.fields import (
    ARRANGE,
    BLANK,
    BLANKED,
    BLOCK_FILTER,
    BLOCK_STRIDE,
    BREADTH,
    COLUMN_FORWARD,
    COLUMN_INVERSE,
    COLUMN_LENGTH,
    COLUMN_PLAN,
    COLUMN_POSITION,
    COLUMN_ROOTS,
    COLUMN_TWIDDLES,
    COLUMNS,
    COLUMNS_IN,
    COLUMNS_OUT,
    COMPLEX,
    EVEN,
    FILTER_JOB,
    GATHERED,
    GROUP,
    IMAGE_IMAG,
    IMAGE_STRIDE,
    INNER,
    INNER_COUNT,
    INNER_JOB,
    PAIR,
    PART,
    PART_BLOCKS,
    PART_FILTER,
    PLANE_FILTER,
    PLANE_STRIDE,
    POINTS,
    ROW_FORWARD,
    ROW_INVERSE,
    ROW_LENGTH,
    ROW_PLAN,
    ROW_TWIDDLES,
    SCALE,
    SIZE,
    SPECTRUM_IMAG,
    SPECTRUM_STRIDE,
    SPLIT,
    SWEEP,
    TILES,
    TWIST,
    UNITS,
    ZERO,
)

__all__ = [
    "arranged", "columns_complex_in", "columns_complex_out", "columns_even_in", "columns_even_out", "columns_packed_in",
    "columns_packed_out", "columns_pair_in", "columns_pair_out", "columns_split_in", "columns_split_out",
    "filter_columns_complex", "filter_columns_even", "filter_columns_zero", "filter_rows_complex", "filter_rows_even",
    "filter_rows_zero", "images", "planes", "rows",
]  # fmt: skip


def _columns_in(kind: str, unpack: Any) -> Any:
    load = layout.column_loader(kind)
    breadth = BREADTH[kind]
    wide = 2 if kind == PAIR else 1

    def columns_in(job: Any, image: Any, spectrum: Any, scratch: Any, first: Any, last: Any) -> None:
        """Units first … last of columns: load, transform, unpack to the spectrum."""
        length = at(job, COLUMN_LENGTH)
        plan = integers(at(job, COLUMN_PLAN))
        twiddles = floats(at(job, COLUMN_TWIDDLES), image)
        position = integers(at(job, COLUMN_POSITION))
        roots = floats(at(job, COLUMN_ROOTS), image)
        count = lanes(image)
        sweep = at(job, SWEEP)
        for unit in range(first, last, sweep):
            units = min(sweep, last - unit)
            load(
                image,
                at(job, IMAGE_STRIDE),
                at(job, IMAGE_IMAG),
                length,
                unit * breadth * count,
                at(job, COLUMNS),
                units,
                scratch,
                at(job, GROUP),
            )
            for u in range(units):
                group = shift(scratch, u * at(job, GROUP))
                call(at(job, COLUMN_FORWARD), (group, plan, twiddles))
                offset = (unit + u) * wide * count
                unpack(
                    group, position, roots, length, spectrum, offset, at(job, SPECTRUM_STRIDE), at(job, SPECTRUM_IMAG)
                )

    return columns_in


def _columns_out(kind: str, pack: Any) -> Any:
    store = layout.column_storer(kind)
    breadth = BREADTH[kind]
    wide = 2 if kind == PAIR else 1

    def columns_out(job: Any, spectrum: Any, image: Any, scratch: Any, first: Any, last: Any) -> None:
        """Units first … last of columns: pack the spectrum, transform back, store."""
        length = at(job, COLUMN_LENGTH)
        plan = integers(at(job, COLUMN_PLAN))
        twiddles = floats(at(job, COLUMN_TWIDDLES), image)
        position = integers(at(job, COLUMN_POSITION))
        roots = floats(at(job, COLUMN_ROOTS), image)
        count = lanes(image)
        sweep = at(job, SWEEP)
        for unit in range(first, last, sweep):
            units = min(sweep, last - unit)
            for u in range(units):
                group = shift(scratch, u * at(job, GROUP))
                offset = (unit + u) * wide * count
                pack(group, position, roots, length, spectrum, offset, at(job, SPECTRUM_STRIDE), at(job, SPECTRUM_IMAG))
                call(at(job, COLUMN_INVERSE), (group, plan, twiddles))
            store(
                image,
                at(job, IMAGE_STRIDE),
                at(job, IMAGE_IMAG),
                length,
                unit * breadth * count,
                at(job, COLUMNS),
                units,
                scratch,
                at(job, GROUP),
            )

    return columns_out


columns_even_in = _columns_in(EVEN, spectra.untangle)
columns_even_out = _columns_out(EVEN, spectra.retangle)
columns_packed_in = _columns_in(EVEN, spectra.untangle_packed)
columns_packed_out = _columns_out(EVEN, spectra.retangle_packed)
columns_pair_in = _columns_in(PAIR, spectra.split_pair)
columns_pair_out = _columns_out(PAIR, spectra.join_pair)
columns_complex_in = _columns_in(COMPLEX, spectra.full_in)
columns_complex_out = _columns_out(COMPLEX, spectra.full_out)
columns_split_in = _columns_in(SPLIT, spectra.full_in)
columns_split_out = _columns_out(SPLIT, spectra.full_out)

_gather_split = layout.row_gatherer(SPLIT)
_scatter_split = layout.row_scatterer(SPLIT)


def rows(job: Any, spectrum: Any, transfer: Any, work: Any, scratch: Any, first: Any, last: Any) -> None:
    """Blocks first … last of as many rows as lanes: transform, multiply, transform back, in place.

    The spectrum is padded to whole blocks of rows and columns. With a twist, rows are multiplied by its factors before
    and by their conjugates after: the twiddle factors of a long transform in two dimensions.
    """
    length = at(job, ROW_LENGTH)
    plan = integers(at(job, ROW_PLAN))
    twiddles = floats(at(job, ROW_TWIDDLES), spectrum)
    stride = at(job, SPECTRUM_STRIDE)
    imag = at(job, SPECTRUM_IMAG)
    twisted = at(job, TWIST) != 0
    size = at(job, BLOCK_FILTER)
    for block in range(first, last):
        here = shift(spectrum, block * at(job, BLOCK_STRIDE))
        factors = shift(floats(at(job, TWIST), spectrum), block * size)
        _gather_split(here, stride, imag, lanes(spectrum), at(job, GATHERED), scratch)
        if twisted:
            spectra.multiply(scratch, length, factors)
        call(at(job, ROW_FORWARD), (scratch, plan, twiddles))
        spectra.multiply(scratch, length, shift(transfer, block * size))
        call(at(job, ROW_INVERSE), (scratch, plan, twiddles))
        if twisted:
            spectra.multiply_conjugate(scratch, length, factors)
        _scatter_split(here, stride, imag, lanes(spectrum), at(job, GATHERED), scratch)


def planes(job: Any, spectrum: Any, transfer: Any, work: Any, scratch: Any, first: Any, last: Any) -> None:
    """Planes first … last of a volume, each filtered as an image of its own through the plane `work`."""
    inner = integers(at(job, INNER_JOB))
    for plane in range(first, last):
        here = shift(spectrum, plane * at(job, PLANE_STRIDE))
        call(at(inner, COLUMNS_IN), (inner, here, work, scratch, 0, at(inner, UNITS)))
        factors = shift(transfer, plane * at(job, PLANE_FILTER))
        call(at(inner, INNER), (inner, work, factors, work, scratch, 0, at(inner, INNER_COUNT)))
        call(at(inner, COLUMNS_OUT), (inner, work, here, scratch, 0, at(inner, UNITS)))


def arranged(job: Any, spectrum: Any, transfer: Any, work: Any, scratch: Any, first: Any, last: Any) -> None:
    """Parts first … last of the inner stage, rows or planes, each after its part of the filter is laid out."""
    fields = integers(at(job, FILTER_JOB))
    blocks, size = at(job, PART_BLOCKS), at(job, PART_FILTER)
    scale = floats(at(job, SCALE), spectrum)
    for part in range(first, last):
        tiles = shift(scratch, at(job, TILES) - part * size)
        call(at(job, ARRANGE), (fields, transfer, scale, tiles, part * blocks, (part + 1) * blocks))
        call(at(job, PART), (job, spectrum, tiles, work, scratch, part, part + 1))


def images(
    job: Any,
    source: Any,
    source_step: Any,
    target: Any,
    target_step: Any,
    transfer: Any,
    spectrum: Any,
    work: Any,
    scratch: Any,
    first: Any,
    last: Any,
) -> None:
    """Images first … last, each from end to end while its spectrum lies in the cache."""
    for image in range(first, last):
        here, there = shift(source, image * source_step), shift(target, image * target_step)
        call(at(job, COLUMNS_IN), (job, here, spectrum, scratch, 0, at(job, UNITS)))
        call(at(job, INNER), (job, spectrum, transfer, work, scratch, 0, at(job, INNER_COUNT)))
        call(at(job, COLUMNS_OUT), (job, spectrum, there, scratch, 0, at(job, UNITS)))


def _filter_columns(kind: str, through: Any) -> Any:
    load, store = layout.column_loader(kind), layout.column_storer(kind)
    breadth = BREADTH[kind]

    def filter_columns(job: Any, source: Any, target: Any, transfer: Any, scratch: Any, first: Any, last: Any) -> None:
        """Units first … last of columns of unrelated transforms: load, filter, store."""
        length = at(job, COLUMN_LENGTH)
        plan = integers(at(job, COLUMN_PLAN))
        twiddles = floats(at(job, COLUMN_TWIDDLES), source)
        position = integers(at(job, COLUMN_POSITION))
        count = lanes(source)
        sweep = at(job, SWEEP)
        unit = first
        while unit < last:
            # Units count on through all images; a sweep stays within one.
            image = unit // at(job, UNITS)
            within = unit - image * at(job, UNITS)
            units = min(sweep, last - unit, at(job, UNITS) - within)
            here = image * at(job, SIZE)
            column = within * breadth * count
            stride, columns, size = at(job, IMAGE_STRIDE), at(job, COLUMNS), at(job, GROUP)
            for u in range(units):
                spectra.blank(shift(scratch, u * size), at(job, BLANK), at(job, BLANKED))
            load(shift(source, here), stride, 0, at(job, POINTS), column, columns, units, scratch, size)
            for u in range(units):
                group = shift(scratch, u * size)
                call(at(job, COLUMN_FORWARD), (group, plan, twiddles))
                through(group, position, length, transfer)
                call(at(job, COLUMN_INVERSE), (group, plan, twiddles))
            store(shift(target, here), stride, 0, at(job, POINTS), column, columns, units, scratch, size)
            unit += units

    return filter_columns


def _filter_rows(kind: str, through: Any) -> Any:
    gather, scatter = layout.row_gatherer(kind), layout.row_scatterer(kind)

    def filter_rows(
        job: Any,
        source: Any,
        source_step: Any,
        target: Any,
        target_step: Any,
        transfer: Any,
        scratch: Any,
        first: Any,
        last: Any,
    ) -> None:
        """Rows first … last, each a transform of its own: transpose in, filter, transpose out."""
        length = at(job, COLUMN_LENGTH)
        plan = integers(at(job, COLUMN_PLAN))
        twiddles = floats(at(job, COLUMN_TWIDDLES), source)
        position = integers(at(job, COLUMN_POSITION))
        for row in range(first, last, lanes(source)):
            here, there = shift(source, row * source_step), shift(target, row * target_step)
            spectra.blank(scratch, at(job, BLANK), at(job, BLANKED))
            gather(here, source_step, 0, last - row, at(job, COLUMNS), scratch)
            call(at(job, COLUMN_FORWARD), (scratch, plan, twiddles))
            through(scratch, position, length, transfer)
            call(at(job, COLUMN_INVERSE), (scratch, plan, twiddles))
            scatter(there, target_step, 0, last - row, at(job, COLUMNS), scratch)

    return filter_rows


filter_columns_even = _filter_columns(EVEN, spectra.through_half)
filter_columns_zero = _filter_columns(ZERO, spectra.through_full)
filter_columns_complex = _filter_columns(COMPLEX, spectra.through_full)
filter_rows_even = _filter_rows(EVEN, spectra.through_half)
filter_rows_zero = _filter_rows(ZERO, spectra.through_full)
filter_rows_complex = _filter_rows(COMPLEX, spectra.through_full)
