"""The kernel that lays a filter out in the order in which the transforms leave their spectra."""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.emit import at, integers, lanes, write
from spectralops._cpu.vector.fields import (
    FILTER_COLUMN_STRIDE,
    FILTER_COLUMNS,
    FILTER_COMPLEX,
    FILTER_HALF,
    FILTER_PLANE_LENGTH,
    FILTER_PLANE_ORDER,
    FILTER_PLANE_STRIDE,
    FILTER_POSITION,
    FILTER_ROW_LENGTH,
    FILTER_ROW_ORDER,
    FILTER_ROW_STRIDE,
    FILTER_ROWS,
)

__all__ = ["arrange"]


def arrange(job: Any, transfer: Any, scale: Any, tiles: Any, first: Any, last: Any) -> None:
    """Blocks first … last of a filter, of any strides, to tiles [plane][block of rows][column][real, imaginary][lane].

    Planes and rows are the frequencies that the job's orders name; columns stand at their digit-reversed positions.
    A half filter, which holds columns 0 … n/2, is completed by the conjugate at the opposite frequency. In columns 0
    and n/2, which are their own opposites, both are averaged: this is what ignoring the imaginary parts there means.
    """
    rows, columns = at(job, FILTER_ROWS), at(job, FILTER_COLUMNS)
    plane_length, row_length = at(job, FILTER_PLANE_LENGTH), at(job, FILTER_ROW_LENGTH)
    plane_order, row_order = integers(at(job, FILTER_PLANE_ORDER)), integers(at(job, FILTER_ROW_ORDER))
    position = integers(at(job, FILTER_POSITION))
    plane_stride, row_stride = at(job, FILTER_PLANE_STRIDE), at(job, FILTER_ROW_STRIDE)
    column_stride = at(job, FILTER_COLUMN_STRIDE)
    complex_valued, half = at(job, FILTER_COMPLEX) != 0, at(job, FILTER_HALF) != 0
    count = lanes(tiles)
    blocks = (rows + count - 1) // count
    unit = at(scale, 0)
    for block in range(first, last):
        plane = block // blocks
        start = (block - plane * blocks) * count
        a = at(plane_order, plane)
        opposite_a = plane_length - a if a > 0 else 0
        for row in range(start, min(start + count, rows)):
            b = at(row_order, row)
            opposite_b = row_length - b if b > 0 else 0
            here = a * plane_stride + b * row_stride
            there = opposite_a * plane_stride + opposite_b * row_stride
            base = block * columns * 2 * count + row - start
            for column in range(columns):
                target = base + at(position, column) * 2 * count
                imag = 0.0
                if not half or 2 * column <= columns:
                    own_real = at(transfer, here + column * column_stride)
                    real = 1.0 * own_real
                    if complex_valued:
                        imag = 1.0 * at(transfer, here + column * column_stride + 1)
                    if half and (column == 0 or 2 * column == columns):
                        own = there + column * column_stride
                        real = 0.5 * (own_real + at(transfer, own))
                        if complex_valued:
                            imag = (imag - at(transfer, own + 1)) * 0.5
                else:
                    mirrored = there + (columns - column) * column_stride
                    real = 1.0 * at(transfer, mirrored)
                    if complex_valued:
                        imag = -1.0 * at(transfer, mirrored + 1)
                write(tiles, target, real * unit)
                write(tiles, target + count, imag * unit)
