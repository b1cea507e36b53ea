"""The kernels of truncated transforms: fields to kept modes and back, one axis after another.

Each step is driven by a record of integers (:mod:`truncation_steps` fills it): sizes, distances, and the addresses of
matrices and of other kernels. `field` is the side of the points, `kept` that of the wavenumbers. A chain runs the steps
of one image after another through a workspace that stays in the cache.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import folding, products, signs
from spectralops._cpu.vector.emit import at, call, floats, integers, lanes, shift
from spectralops._cpu.vector.truncation_fields import (
    AHEAD,
    AXIS_FIELDS,
    BESIDE,
    BLOCK_STEP,
    BLOCKS,
    CHAIN_FIELDS,
    CHAIN_IMAGES,
    CHAIN_STEPS,
    CHUNK,
    COLUMNS,
    COSINE_ROWS,
    COUNT,
    DENSE_COUNT,
    DENSE_IMAG,
    DENSE_STEP,
    FIELD_GROUP,
    FIELD_ROW,
    FOLDED,
    HIGHEST,
    INNER,
    KEPT_GROUP,
    KEPT_ROW,
    LENGTH,
    LONGEST_SUM,
    LOWEST,
    MODES_GROUP,
    MODES_IMAG,
    MODES_INNER,
    MODES_ROW,
    PART_FOLDED,
    PART_KEPT,
    PART_MATRIX,
    PART_MODES,
    PART_POINTS,
    PART_SIZE,
    PART_STRIDE,
    PARTS,
    PITCH,
    PRODUCT,
    SIGNED,
    SINE_ROWS,
    SOURCE_STEP,
    STEP_KERNEL,
    STEP_RECORD,
    STEP_SIZE,
    STEP_SOURCE,
    STEP_TARGET,
    STEP_UNITS,
    STRIPS,
    SUMS_GROUP,
    SUMS_IMAG,
    SUMS_INNER,
    SUMS_ROW,
    TARGET_STEP,
)

__all__ = [
    "chain", "columns_even_kept", "columns_even_spread", "columns_odd_kept", "columns_odd_spread", "modes_kept",
    "modes_spread", "rows_kept", "rows_spread", "signs_kept", "signs_spread",
]  # fmt: skip


def chain(job: Any, source: Any, target: Any, work: Any, scratch: Any, first: Any, last: Any) -> None:
    """Images first … last, some at a time, each through all steps."""
    steps, together = at(job, CHAIN_STEPS), at(job, CHAIN_IMAGES)
    for image in range(first, last, together):
        count = min(together, last - image)
        for s in range(steps):
            step = shift(job, CHAIN_FIELDS + s * STEP_SIZE)
            here, there = shift(work, at(step, STEP_SOURCE)), shift(work, at(step, STEP_TARGET))
            if s == 0:
                here = shift(source, image * at(job, SOURCE_STEP))
            if s == steps - 1:
                there = shift(target, image * at(job, TARGET_STEP))
            record = integers(at(step, STEP_RECORD))
            call(at(step, STEP_KERNEL), (record, here, there, scratch, 0, count * at(step, STEP_UNITS)))


def modes_kept(job: Any, dense: Any, blocks: Any, scratch: Any, first: Any, last: Any) -> None:
    """Images first … last: their modes from rows of their own to blocks that all images share."""
    count = lanes(dense)
    for image in range(first, last):
        here, there = shift(dense, image * at(job, DENSE_STEP)), shift(blocks, image * 2 * count)
        signs.to_blocks(here, at(job, DENSE_IMAG), at(job, DENSE_COUNT), at(job, BLOCKS), there, at(job, BLOCK_STEP))


def modes_spread(job: Any, blocks: Any, dense: Any, scratch: Any, first: Any, last: Any) -> None:
    """Images first … last: their modes from shared blocks to rows of their own."""
    count = lanes(dense)
    for image in range(first, last):
        here, there = shift(dense, image * at(job, DENSE_STEP)), shift(blocks, image * 2 * count)
        signs.from_blocks(here, at(job, DENSE_IMAG), at(job, BLOCKS), there, at(job, BLOCK_STEP))


def _columns_kept(fold: Any) -> Any:
    def columns_kept(job: Any, field: Any, kept: Any, scratch: Any, first: Any, last: Any) -> None:
        """Strips first … last of columns: fold, then multiply by the Fourier matrix, part by part."""
        n, pitch, strips = at(job, LENGTH), at(job, PITCH), at(job, STRIPS)
        for unit in range(first, last):
            group = unit // strips
            column = (unit - group * strips) * pitch
            width = min(pitch, at(job, COLUMNS) - column)
            here = shift(field, group * at(job, FIELD_GROUP) + column)
            there = shift(kept, group * at(job, KEPT_GROUP) + column)
            row, size = at(job, FIELD_ROW), at(job, KEPT_ROW)
            fold(here, row, n, width, scratch, pitch, at(job, AHEAD))
            for p in range(at(job, PARTS)):
                part = shift(job, AXIS_FIELDS + p * PART_SIZE)
                points, modes = at(part, PART_POINTS), at(part, PART_MODES)
                matrix = floats(at(part, PART_MATRIX), field)
                folded = shift(scratch, at(part, PART_FOLDED) * pitch)
                result = shift(there, at(part, PART_KEPT) * size)
                stride = at(part, PART_STRIDE)
                beside = shift(scratch, at(job, BESIDE))
                for start in range(0, max(points, 1), LONGEST_SUM):
                    depth = min(points - start, LONGEST_SUM)
                    left, right = shift(matrix, start), shift(folded, start * pitch)
                    if start == 0:
                        call(at(job, PRODUCT), (left, stride, right, pitch, result, size, modes, width, depth))
                    else:
                        call(at(job, PRODUCT), (left, stride, right, pitch, beside, pitch, modes, width, depth))
                        products.add_rows(beside, pitch, result, size, modes, width)

    return columns_kept


def _columns_spread(unfold: Any) -> Any:
    def columns_spread(job: Any, kept: Any, field: Any, scratch: Any, first: Any, last: Any) -> None:
        """Strips first … last of columns: multiply by the Fourier matrix, part by part, then unfold."""
        n, pitch, strips = at(job, LENGTH), at(job, PITCH), at(job, STRIPS)
        for unit in range(first, last):
            group = unit // strips
            column = (unit - group * strips) * pitch
            width = min(pitch, at(job, COLUMNS) - column)
            here = shift(kept, group * at(job, KEPT_GROUP) + column)
            there = shift(field, group * at(job, FIELD_GROUP) + column)
            row, size = at(job, FIELD_ROW), at(job, KEPT_ROW)
            for p in range(at(job, PARTS)):
                part = shift(job, AXIS_FIELDS + p * PART_SIZE)
                points, modes = at(part, PART_POINTS), at(part, PART_MODES)
                matrix = floats(at(part, PART_MATRIX), field)
                sums = shift(here, at(part, PART_KEPT) * size)
                folded = shift(scratch, at(part, PART_FOLDED) * pitch)
                stride = at(part, PART_STRIDE)
                call(at(job, PRODUCT), (matrix, stride, sums, size, folded, pitch, points, width, modes))
            unfold(there, row, n, width, scratch, pitch, at(job, AHEAD))

    return columns_spread


columns_even_kept, columns_odd_kept = (
    _columns_kept(folding.fold_even_columns),
    _columns_kept(folding.fold_odd_columns),
)
columns_even_spread, columns_odd_spread = (
    _columns_spread(folding.unfold_even_columns),
    _columns_spread(folding.unfold_odd_columns),
)


def rows_kept(job: Any, field: Any, kept: Any, scratch: Any, first: Any, last: Any) -> None:
    """Rows first … last: fold, then multiply by the Fourier matrix from the right, a chunk of rows at a time."""
    n, pitch, chunk = at(job, LENGTH), at(job, PITCH), at(job, CHUNK)
    row, size = at(job, FIELD_ROW), at(job, KEPT_ROW)
    sine = at(job, AXIS_FIELDS + PART_SIZE + PART_FOLDED)
    for start in range(first, last, chunk):
        rows = min(chunk, last - start)
        here, there = shift(field, start * row), shift(kept, start * size)
        source, stride = here, row
        if at(job, FOLDED) != 0:
            source, stride = scratch, pitch
            for r in range(rows):
                folded = shift(scratch, r * pitch)
                folding.fold_row(shift(here, r * row), n, folded, shift(folded, sine))
        for p in range(at(job, PARTS)):
            part = shift(job, AXIS_FIELDS + p * PART_SIZE)
            points, modes = at(part, PART_POINTS), at(part, PART_MODES)
            matrix, width = floats(at(part, PART_MATRIX), field), at(part, PART_STRIDE)
            left = shift(source, at(part, PART_FOLDED))
            result = shift(there, at(part, PART_KEPT))
            beside = shift(scratch, at(job, BESIDE))
            for begin in range(0, max(points, 1), LONGEST_SUM):
                depth = min(points - begin, LONGEST_SUM)
                some, right = shift(left, begin), shift(matrix, begin * width)
                if begin == 0:
                    call(at(job, PRODUCT), (some, stride, right, width, result, size, rows, modes, depth))
                else:
                    call(at(job, PRODUCT), (some, stride, right, width, beside, width, rows, modes, depth))
                    products.add_rows(beside, width, result, size, rows, modes)


def rows_spread(job: Any, kept: Any, field: Any, scratch: Any, first: Any, last: Any) -> None:
    """Rows first … last: multiply by the Fourier matrix from the right, a chunk of rows at a time, then unfold."""
    n, pitch, chunk = at(job, LENGTH), at(job, PITCH), at(job, CHUNK)
    row, size = at(job, FIELD_ROW), at(job, KEPT_ROW)
    sine = at(job, AXIS_FIELDS + PART_SIZE + PART_FOLDED)
    for start in range(first, last, chunk):
        rows = min(chunk, last - start)
        here, there = shift(kept, start * size), shift(field, start * row)
        target, stride = there, row
        if at(job, FOLDED) != 0:
            target, stride = scratch, pitch
        for p in range(at(job, PARTS)):
            part = shift(job, AXIS_FIELDS + p * PART_SIZE)
            points, modes = at(part, PART_POINTS), at(part, PART_MODES)
            matrix, width = floats(at(part, PART_MATRIX), field), at(part, PART_STRIDE)
            sums = shift(here, at(part, PART_KEPT))
            folded = shift(target, at(part, PART_FOLDED))
            call(at(job, PRODUCT), (sums, size, matrix, width, folded, stride, rows, points, modes))
        if at(job, FOLDED) != 0:
            for r in range(rows):
                folded = shift(scratch, r * pitch)
                folding.unfold_row(shift(there, r * row), n, folded, shift(folded, sine))


def signs_kept(job: Any, sums: Any, modes: Any, scratch: Any, first: Any, last: Any) -> None:
    """Groups first … last: sums of cosines and sines along one axis to signed wavenumbers in increasing order."""
    cosine_rows, sine_rows = integers(at(job, COSINE_ROWS)), integers(at(job, SINE_ROWS))
    imag, modes_imag, count = at(job, SUMS_IMAG), at(job, MODES_IMAG), at(job, COUNT)
    for group in range(first, last):
        for i in range(at(job, SIGNED)):
            k = at(job, LOWEST) + i
            size = abs(k)
            for inner in range(at(job, INNER)):
                here = group * at(job, SUMS_GROUP) + inner * at(job, SUMS_INNER)
                place = group * at(job, MODES_GROUP) + i * at(job, MODES_ROW) + inner * at(job, MODES_INNER)
                cosine = here + at(cosine_rows, size) * at(job, SUMS_ROW)
                sine = here + at(sine_rows, size) * at(job, SUMS_ROW)
                if k >= 0:
                    signs.to_positive(sums, cosine, sine, imag, modes, place, modes_imag, count)
                else:
                    signs.to_negative(sums, cosine, sine, imag, modes, place, modes_imag, count)


def signs_spread(job: Any, modes: Any, sums: Any, scratch: Any, first: Any, last: Any) -> None:
    """Groups first … last: signed wavenumbers along one axis to factors of cosines and sines."""
    cosine_rows, sine_rows = integers(at(job, COSINE_ROWS)), integers(at(job, SINE_ROWS))
    imag, modes_imag, count = at(job, SUMS_IMAG), at(job, MODES_IMAG), at(job, COUNT)
    lowest, top = at(job, LOWEST), at(job, LOWEST) + at(job, SIGNED) - 1
    row = at(job, MODES_ROW)
    for group in range(first, last):
        for k in range(at(job, HIGHEST) + 1):
            for inner in range(at(job, INNER)):
                here = group * at(job, MODES_GROUP) + inner * at(job, MODES_INNER)
                there = group * at(job, SUMS_GROUP) + inner * at(job, SUMS_INNER)
                plus, minus = here + (k - lowest) * row, here + (-k - lowest) * row
                cosine = there + at(cosine_rows, k) * at(job, SUMS_ROW)
                sine = there + at(sine_rows, k) * at(job, SUMS_ROW)
                if k > top:
                    signs.from_negative(modes, minus, minus, modes_imag, sums, cosine, sine, imag, count)
                elif k == 0 or -k < lowest:
                    signs.from_positive(modes, plus, plus, modes_imag, sums, cosine, sine, imag, count)
                else:
                    signs.from_both(modes, plus, minus, modes_imag, sums, cosine, sine, imag, count)
