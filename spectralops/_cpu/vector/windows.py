"""The kernels of circular convolution of windows: cut out, transform, multiply, transform back, keep what is right.

A window is a whole image or a part of one that overlaps its neighbours (overlap-save). It is copied with zeros where
the image has ended, filtered by the kernels of :mod:`stages` while it lies in the cache, and its valid part is stored.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import layout
from spectralops._cpu.vector.emit import Emitter, Value, at, call, floats, integers, lanes, shift, vector_op
from spectralops._cpu.vector.fields import (
    BLOCK_FILTER,
    BLOCK_STRIDE,
    COLUMNS_IN,
    COLUMNS_OUT,
    GATHERED,
    INNER,
    INNER_COUNT,
    INNER_JOB,
    PLANE_FILTER,
    PLANE_STRIDE,
    ROW_FORWARD,
    ROW_LENGTH,
    ROW_PLAN,
    ROW_TWIDDLES,
    SPECTRUM_IMAG,
    SPECTRUM_STRIDE,
    SPLIT,
    TWIST,
    UNITS,
)
from spectralops._cpu.vector.moves import fill_row, move_row
from spectralops._cpu.vector.spectra import multiply
from spectralops._cpu.vector.window_fields import (
    COUNT_1,
    COUNT_2,
    COUNTS,
    CUT,
    FILTER_SIZE,
    ITEM_FIELDS,
    ITEM_FILTER,
    ITEM_SOURCE,
    ITEM_TARGET,
    ITEMS,
    KEEP,
    NUMBERS,
    SIZE_1,
    SIZE_2,
    SIZES,
    SOURCE_STRIDE_1,
    SOURCE_STRIDES,
    SPECTRUM_SIZE,
    STEP_1,
    STEP_2,
    STEPS,
    TABLE_1,
    TABLE_2,
    TABLES,
    TARGET_STRIDE_1,
    TARGET_STRIDE_2,
    TARGET_STRIDES,
    WINDOW_COUNT,
    WINDOW_FIELDS,
    WINDOW_FROM,
    WINDOW_HIGH,
    WINDOW_LOW,
    WINDOW_SIZE,
    WINDOW_SOURCE,
    WINDOW_TARGET,
    WORK_JOB,
    WORK_KERNEL,
    WORK_SIZE,
)

__all__ = ["cut_window", "filter_lines", "filter_spectra", "filter_windows", "keep_window"]

_gather = layout.row_gatherer(SPLIT)


@vector_op
def scaled_copy(e: Emitter, source: Value, count: Value, scale: Value, target: Value) -> None:
    """The source times a number: `count` of them, a multiple of the lanes."""
    factor = e.broadcast(scale, 0)
    with e.loop(0, count, e.lanes) as i:
        e.store(target, i, e.load(source, i) * factor)


def cut_window(job: Any, source: Any, window: Any, number: Any) -> None:
    """Window `number` of those of all items, zeros where the source has none."""
    n_1, n_2 = at(job, COUNT_1), at(job, COUNT_2)
    tile, count = number % (at(job, COUNTS) * n_1 * n_2), at(job, NUMBERS)
    item = shift(integers(at(job, ITEMS)), number // (at(job, COUNTS) * n_1 * n_2) * ITEM_FIELDS)
    axis_0 = shift(integers(at(job, TABLES)), tile // (n_1 * n_2) * WINDOW_FIELDS)
    axis_1 = shift(integers(at(job, TABLE_1)), tile // n_2 % n_1 * WINDOW_FIELDS)
    axis_2 = shift(integers(at(job, TABLE_2)), tile % n_2 * WINDOW_FIELDS)
    first, length = at(axis_2, WINDOW_LOW), at(axis_2, WINDOW_HIGH) - at(axis_2, WINDOW_LOW)
    corner = at(item, ITEM_SOURCE) + (at(axis_2, WINDOW_SOURCE) + first) * count
    size_0, size_1, width = at(job, SIZES), at(job, SIZE_1), at(job, SIZE_2) * count
    for i in range(size_0):
        exists_0 = at(axis_0, WINDOW_LOW) <= i and i < at(axis_0, WINDOW_HIGH)
        place_0 = corner + (at(axis_0, WINDOW_SOURCE) + i) * at(job, SOURCE_STRIDES)
        for j in range(size_1):
            exists = exists_0 and at(axis_1, WINDOW_LOW) <= j and j < at(axis_1, WINDOW_HIGH)
            place = place_0 + (at(axis_1, WINDOW_SOURCE) + j) * at(job, SOURCE_STRIDE_1)
            row = shift(window, (i * size_1 + j) * width)
            fill_row(source, place, 1, row, first * count, length * count if exists else 0, width)


def keep_window(job: Any, window: Any, target: Any, number: Any) -> None:
    """The results of window `number` that are wanted, to where they belong."""
    n_1, n_2 = at(job, COUNT_1), at(job, COUNT_2)
    tile, numbers = number % (at(job, COUNTS) * n_1 * n_2), at(job, NUMBERS)
    item = shift(integers(at(job, ITEMS)), number // (at(job, COUNTS) * n_1 * n_2) * ITEM_FIELDS)
    axis_0 = shift(integers(at(job, TABLES)), tile // (n_1 * n_2) * WINDOW_FIELDS)
    axis_1 = shift(integers(at(job, TABLE_1)), tile // n_2 % n_1 * WINDOW_FIELDS)
    axis_2 = shift(integers(at(job, TABLE_2)), tile % n_2 * WINDOW_FIELDS)
    step, stride, count = at(job, STEP_2), at(job, TARGET_STRIDE_2), at(axis_2, WINDOW_COUNT)
    size_1, width = at(job, SIZE_1), at(job, SIZE_2) * numbers
    corner = at(item, ITEM_TARGET) + at(axis_2, WINDOW_TARGET) * stride
    for i in range(at(axis_0, WINDOW_COUNT)):
        row = at(axis_0, WINDOW_FROM) + i * at(job, STEPS)
        place_0 = corner + (at(axis_0, WINDOW_TARGET) + i) * at(job, TARGET_STRIDES)
        for j in range(at(axis_1, WINDOW_COUNT)):
            start = (row * size_1 + at(axis_1, WINDOW_FROM) + j * at(job, STEP_1)) * width
            start += at(axis_2, WINDOW_FROM) * numbers
            place = place_0 + (at(axis_1, WINDOW_TARGET) + j) * at(job, TARGET_STRIDE_1)
            # Real and imaginary parts by themselves, unless all numbers are neighbours on both sides.
            together = step == 1 and stride == numbers
            parts, hop = (1, 1) if together else (numbers, stride)
            for part in range(parts):
                move_row(
                    window,
                    start + part,
                    1 if together else step * numbers,
                    target,
                    place + part,
                    hop,
                    count * numbers if together else count,
                )


def filter_windows(job: Any, source: Any, transfer: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Windows first … last of images or volumes, from end to end."""
    inner = integers(at(job, WORK_JOB))
    spectrum = shift(memory, at(job, WINDOW_SIZE))
    work = shift(spectrum, at(job, SPECTRUM_SIZE))
    scratch = shift(work, at(job, WORK_SIZE))
    tiles = at(job, COUNTS) * at(job, COUNT_1) * at(job, COUNT_2)
    for number in range(first, last):
        call(at(job, CUT), (job, source, memory, number))
        number_of_filter = at(integers(at(job, ITEMS)), number // tiles * ITEM_FIELDS + ITEM_FILTER)
        factors = shift(transfer, number_of_filter * at(job, FILTER_SIZE))
        call(at(inner, COLUMNS_IN), (inner, memory, spectrum, scratch, 0, at(inner, UNITS)))
        call(at(inner, INNER), (inner, spectrum, factors, work, scratch, 0, at(inner, INNER_COUNT)))
        call(at(inner, COLUMNS_OUT), (inner, spectrum, memory, scratch, 0, at(inner, UNITS)))
        call(at(job, KEEP), (job, memory, target, number))


def filter_lines(job: Any, source: Any, transfer: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Windows first … last of one axis, with one filter, as many side by side as there are lanes."""
    inner = integers(at(job, WORK_JOB))
    width = at(job, SIZE_2) * at(job, NUMBERS)
    scratch = shift(memory, at(job, WINDOW_SIZE))
    for block in range(first, last, lanes(source)):
        count = min(lanes(source), last - block)
        for i in range(count):
            call(at(job, CUT), (job, source, shift(memory, i * width), block + i))
        call(at(job, WORK_KERNEL), (inner, memory, width, memory, width, transfer, scratch, 0, count))
        for i in range(count):
            call(at(job, KEEP), (job, shift(memory, i * width), target, block + i))


def filter_spectra(job: Any, source: Any, scale: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Windows first … last, each the only one of its item, to filters in the order of the transforms."""
    outer = integers(at(job, WORK_JOB))
    spectrum = shift(memory, at(job, WINDOW_SIZE))
    work = shift(spectrum, at(job, SPECTRUM_SIZE))
    scratch = shift(work, at(job, WORK_SIZE))
    volume = at(outer, INNER_JOB) != 0
    inner = integers(at(outer, INNER_JOB)) if volume else outer
    plan = integers(at(inner, ROW_PLAN))
    twiddles = floats(at(inner, ROW_TWIDDLES), source)
    for number in range(first, last):
        call(at(job, CUT), (job, source, memory, number))
        call(at(outer, COLUMNS_IN), (outer, memory, spectrum, scratch, 0, at(outer, UNITS)))
        for plane in range(at(outer, INNER_COUNT) if volume else 1):
            part = spectrum
            if volume:
                part = work
                here = shift(spectrum, plane * at(outer, PLANE_STRIDE))
                call(at(inner, COLUMNS_IN), (inner, here, work, scratch, 0, at(inner, UNITS)))
            filters = shift(target, number * at(job, FILTER_SIZE) + plane * at(outer, PLANE_FILTER))
            for block in range(at(inner, INNER_COUNT)):
                here = shift(part, block * at(inner, BLOCK_STRIDE))
                stride, imag = at(inner, SPECTRUM_STRIDE), at(inner, SPECTRUM_IMAG)
                _gather(here, stride, imag, lanes(source), at(inner, GATHERED), scratch)
                if at(inner, TWIST) != 0:
                    twist = shift(floats(at(inner, TWIST), source), block * at(inner, BLOCK_FILTER))
                    multiply(scratch, at(inner, ROW_LENGTH), twist)
                call(at(inner, ROW_FORWARD), (scratch, plan, twiddles))
                scaled_copy(scratch, at(inner, BLOCK_FILTER), scale, shift(filters, block * at(inner, BLOCK_FILTER)))
