"""The kernels of direct sums: copy the part of an image that a strip of results needs, then sum block by block.

The copy is padded with zeros and small enough for the second-level cache. A unit is one strip of one item's results;
kernels work on a range of units, so that threads share images as well as batches.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.emit import at, call, floats, integers, lanes, shift, write
from spectralops._cpu.vector.moves import fill_row, zero_row
from spectralops._cpu.vector.sum_fields import (
    COLUMNS,
    COPIED,
    COPY,
    ELEMENT,
    FLAT,
    IMAGE_COLUMNS,
    IMAGE_ROWS,
    ITEM_FIELDS,
    ITEM_SOURCE,
    ITEM_TARGET,
    ITEM_WEIGHT,
    ITEMS,
    LEAD_PLACES,
    LEADS,
    LEFT,
    MISSING,
    OUTPUT_COUNT,
    OUTPUT_PLACES,
    OUTPUTS,
    PHASES,
    PLANE_PLACES,
    PLANE_SIZE,
    PLANES,
    REACH,
    ROW_STRIDE,
    ROWS,
    SEGMENT,
    SHARED,
    SIDE,
    SIDES,
    SLICE_COUNT,
    SLICES,
    SPACING,
    SQUARES,
    STRIDE,
    STRIP,
    STRIPS,
    TALL,
    TAP_COUNT,
    TAPS,
    TARGET_ELEMENT,
    TARGET_STRIDE,
    TOP,
    UNIT_BYTES,
    UNIT_COLUMNS,
    UNIT_ROWS,
    UNIT_TARGET,
    UNIT_WEIGHT,
    VECTORS,
    WEIGHT_STEP,
)
from spectralops._cpu.vector.sums import block_channels, block_rows, block_square, block_taps

__all__ = [
    "copy_strip", "sum_channels", "sum_rows", "sum_square_3", "sum_square_5", "sum_square_7", "sum_taps",
]  # fmt: skip


def copy_strip(job: Any, source: Any, memory: Any, number: Any, again: Any) -> None:
    """What unit `number` needs: where its results go and, unless the unit before had the same source, its planes.

    Every phase of the columns has a row of its own.
    """
    strips, leads, shared, sides = at(job, STRIPS), at(job, LEADS), at(job, SHARED), at(job, SIDES)
    place = number // shared
    strip, lead = place % strips, place // strips % leads
    top, side = strip // sides * at(job, STRIP), strip % sides * at(job, SIDE)
    record = shift(integers(at(job, ITEMS)), (place // strips // leads * shared + number % shared) * ITEM_FIELDS)
    unit = integers(memory)
    write(unit, UNIT_ROWS, min(at(job, STRIP), at(job, ROWS) - top))
    write(unit, UNIT_COLUMNS, min(at(job, SIDE), at(job, COLUMNS) - side))
    within = top * at(job, TARGET_STRIDE) + side * at(job, TARGET_ELEMENT)
    write(unit, UNIT_TARGET, at(record, ITEM_TARGET) + at(integers(at(job, LEAD_PLACES)), lead) + within)
    write(unit, UNIT_WEIGHT, at(record, ITEM_WEIGHT))
    if number % shared == 0 or again != 0:
        copy = floats(memory + UNIT_BYTES, source)
        places = shift(integers(at(job, PLANE_PLACES)), lead * at(job, PLANES))
        rows, columns, phases = at(job, IMAGE_ROWS), at(job, IMAGE_COLUMNS), at(job, PHASES)
        element, segment, stride = at(job, ELEMENT), at(job, SEGMENT), at(job, ROW_STRIDE)
        first = at(job, TOP) + top * at(job, STRIDE)
        for phase in range(phases):
            # Columns left + phases·i of the image, for those i from `before` on where it exists.
            left = at(job, LEFT) + side * phases + phase
            before = min(max((phases - 1 - left) // phases, 0), segment)
            count = max(min((columns - left + phases - 1) // phases, segment) - before, 0)
            for plane in range(at(job, PLANES)):
                line = shift(copy, plane * at(job, PLANE_SIZE) + phase * segment)
                here = at(places, plane)
                start = at(record, ITEM_SOURCE) + here + (left + before * phases) * element
                for r in range(at(job, COPIED)):
                    row = first + r
                    exists = here != MISSING and row >= 0 and row < rows
                    fill_row(
                        source,
                        start + row * stride,
                        phases * element,
                        shift(line, r * phases * segment),
                        before,
                        count if exists else 0,
                        segment,
                    )


def sum_rows(job: Any, source: Any, weights: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Units first … last of results of one output each, rows sharing what they read."""
    copy, unit = floats(memory + UNIT_BYTES, source), integers(memory)
    taps, slices = integers(at(job, TAPS)), integers(at(job, SLICES))
    spacing = at(job, SPACING)
    line = at(job, SEGMENT) * at(job, PHASES)
    for number in range(first, last):
        call(at(job, COPY), (job, source, memory, number, 1 if number == first else 0))
        rows, columns = at(unit, UNIT_ROWS), at(unit, UNIT_COLUMNS)
        for group in range(0, rows, OUTPUTS * spacing):
            for row in range(group, min(group + spacing, rows)):
                for column in range(0, columns, VECTORS * lanes(source)):
                    block_rows(
                        copy,
                        weights,
                        target,
                        taps,
                        slices,
                        at(job, SLICE_COUNT),
                        at(job, TAP_COUNT),
                        row * line * at(job, STRIDE) + column,
                        line * max(spacing, at(job, STRIDE)),
                        at(job, WEIGHT_STEP),
                        at(unit, UNIT_WEIGHT),
                        at(unit, UNIT_TARGET) + row * at(job, TARGET_STRIDE) + column * at(job, TARGET_ELEMENT),
                        spacing * at(job, TARGET_STRIDE),
                        (rows - row + spacing - 1) // spacing,
                        columns - column,
                        at(job, TARGET_ELEMENT),
                    )


def _sum_square(size: int) -> Any:
    block = block_square(size)

    def sum_square(job: Any, source: Any, weights: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
        """Units first … last of results of one output each, neighbouring taps, from the image itself."""
        zeros = floats(memory, source)
        width = VECTORS * lanes(source)
        zero_row(zeros, 0, width + REACH)
        strips, columns = at(job, STRIPS), at(job, COLUMNS)
        for number in range(first, last):
            record = shift(integers(at(job, ITEMS)), number // strips * ITEM_FIELDS)
            top = number % strips * at(job, STRIP)
            bottom = min(at(job, ROWS), top + at(job, STRIP))
            factors = shift(weights, at(record, ITEM_WEIGHT))
            for row in range(top, bottom, TALL):
                line = row + at(job, TOP)
                start = at(record, ITEM_SOURCE) + line * at(job, ROW_STRIDE)
                place = at(record, ITEM_TARGET) + row * at(job, TARGET_STRIDE)
                for column in range(0, columns, width):
                    left = column + at(job, LEFT)
                    block(
                        source,
                        zeros,
                        factors,
                        target,
                        start + left,
                        at(job, ROW_STRIDE),
                        line,
                        at(job, IMAGE_ROWS),
                        left,
                        at(job, IMAGE_COLUMNS),
                        place + column,
                        at(job, TARGET_STRIDE),
                        bottom - row,
                        columns - column,
                    )

    return sum_square


sum_square_3, sum_square_5, sum_square_7 = (_sum_square(size) for size in SQUARES)


def sum_taps(job: Any, source: Any, weights: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Units first … last of results of one output each, by any taps."""
    copy, unit = floats(memory + UNIT_BYTES, source), integers(memory)
    taps, count = integers(at(job, TAPS)), at(job, TAP_COUNT)
    line = at(job, SEGMENT) * at(job, PHASES) * at(job, STRIDE)
    width, element = VECTORS * lanes(source), at(job, TARGET_ELEMENT)
    flat = at(job, FLAT)
    step = width * OUTPUTS if flat else width
    for number in range(first, last):
        call(at(job, COPY), (job, source, memory, number, 1 if number == first else 0))
        rows, columns = at(unit, UNIT_ROWS), at(unit, UNIT_COLUMNS)
        for row in range(0, rows, 1 if flat else OUTPUTS):
            for column in range(0, columns, step):
                block_taps(
                    copy,
                    weights,
                    target,
                    taps,
                    count,
                    row * line + column,
                    width if flat else line,
                    at(unit, UNIT_WEIGHT),
                    at(unit, UNIT_TARGET) + row * at(job, TARGET_STRIDE) + column * element,
                    width * element if flat else at(job, TARGET_STRIDE),
                    OUTPUTS if flat else rows - row,
                    columns - column,
                    width if flat else 0,
                    element,
                )


def sum_channels(job: Any, source: Any, weights: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Units first … last of results of many output channels: four at a time, whose weights stay in cache for a row."""
    copy, unit = floats(memory + UNIT_BYTES, source), integers(memory)
    taps, count = integers(at(job, TAPS)), at(job, TAP_COUNT)
    places, outputs = integers(at(job, OUTPUT_PLACES)), at(job, OUTPUT_COUNT)
    line = at(job, SEGMENT) * at(job, PHASES) * at(job, STRIDE)
    for number in range(first, last):
        call(at(job, COPY), (job, source, memory, number, 1 if number == first else 0))
        columns = at(unit, UNIT_COLUMNS)
        for row in range(at(unit, UNIT_ROWS)):
            for output in range(0, outputs, OUTPUTS):
                for column in range(0, columns, VECTORS * lanes(source)):
                    block_channels(
                        copy,
                        weights,
                        target,
                        taps,
                        count,
                        row * line + column,
                        at(unit, UNIT_WEIGHT) + output * count,
                        places,
                        output,
                        at(unit, UNIT_TARGET) + row * at(job, TARGET_STRIDE) + column * at(job, TARGET_ELEMENT),
                        outputs,
                        columns - column,
                        at(job, TARGET_ELEMENT),
                    )
