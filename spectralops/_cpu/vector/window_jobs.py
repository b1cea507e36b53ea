"""What the kernels of windows and tiles read, for one geometry."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import fields as image
from spectralops._cpu.vector import host, jobs, kernels, tables
from spectralops._cpu.vector import tile_fields as t
from spectralops._cpu.vector import window_fields as w
from spectralops._cpu.vector.choice import LONG, split
from spectralops._cpu.vector.routes import Lines

__all__ = ["Extent", "LineWindows", "Tiles", "Windows", "axis_table", "tiles", "windows"]

# Rows of one axis longer than this are cut into two and transformed as an image: their lanes would leave the cache.
LONGEST_LINE = 4096
# Tiles that meet the weights together: the weights come from far, and are read once for all of them.
TOGETHER = 4

Sizes = tuple[int, ...]


class Extent(NamedTuple):
    """Convolution along some axes: result r is number start + step·r of the full convolution of image and taps."""

    image: Sizes
    taps: Sizes
    start: Sizes
    step: Sizes
    results: Sizes
    lengths: Sizes  # of the circular convolutions
    whole: bool  # one of them for everything, long enough not to wrap into what is wanted


def axis_table(extent: Extent, axis: int) -> np.ndarray:
    """The windows along one axis; all results of a window are wanted, or there is only one window."""
    n, k, first, step, count, length = (sizes[axis] for sizes in extent[:-1])
    if extent.whole:
        before = max(0, -first)
        return np.array([[-before, before, before + n, 0, count, first + before]], np.int64)
    fitting = (length - k) // step + 1
    parts = -(-count // fitting)
    each = -(-count // parts)
    target = np.arange(0, count, each)
    source = first + target * step - (k - 1)
    low = np.clip(-source, 0, length)
    high = np.clip(n - source, low, length)
    wanted = np.minimum(each, count - target)
    return np.stack([source, low, high, target, wanted, np.full_like(target, k - 1)], axis=1)


class _Job:
    """Fields of a kernel's job, and everything that they point to."""

    def __init__(self, size: int, fields: dict[int, int], keep: list[Any]) -> None:
        self.fields = np.zeros(size, np.int64)
        self.fields[list(fields)] = list(fields.values())
        self.keep = keep


def _aligned(numbers: int, dtype: str) -> int:
    line = host.LINE_BYTES // host.ITEM_BYTES[dtype]
    return -(-numbers // line) * line


class Windows(_Job):
    """Windows of images, volumes, or long rows, which are transformed as images of their own."""

    def __init__(self, extent: Extent, source: Sizes, target: Sizes, dtype: str, is_complex: bool) -> None:
        kind = image.COMPLEX if is_complex else image.PAIR if extent.lengths[0] % 2 else image.EVEN
        lengths = extent.lengths
        self.long = len(lengths) == 1
        if self.long:
            shape = split(lengths[0], host.lanes(dtype))
            kind = image.COMPLEX if is_complex else image.PAIR if shape[0] % 2 else image.EVEN
            inner = jobs.image_job(kind, *shape, dtype, twisted=True)
        elif len(lengths) == 2:
            inner = jobs.image_job(kind, *lengths, dtype)
        else:
            inner = jobs.volume_job(kind, lengths, dtype)
        item, numbers = host.ITEM_BYTES[dtype], 2 if is_complex else 1
        self.layout = jobs.filter_layout(kind, shape if self.long else lengths, dtype)
        window = _aligned(math.prod(lengths) * numbers, dtype)
        spectrum, work = _aligned(inner.spectrum, dtype), _aligned(inner.work, dtype)
        fields, keep = _window_fields(extent, source, target, numbers, dtype)
        fields |= {
            w.WORK_JOB: inner.address,
            w.FILTER_SIZE: self.layout.numbers,
            w.WINDOW_SIZE: window,
            w.SPECTRUM_SIZE: spectrum,
            w.WORK_SIZE: work,
        }
        reading, tables = _window_fields(_alone(extent), _contiguous(extent.taps, numbers), target, numbers, dtype)
        super().__init__(w.FIELDS, fields, [*keep, *tables, inner])
        self.filters = _Job(w.FIELDS, fields | reading, [])
        self.filters_kernel = kernels.kernel("filter_spectra", dtype)
        self.count = math.prod(fields[field] for field in (w.COUNTS, w.COUNT_1, w.COUNT_2))
        self.memory = (window + spectrum + work + inner.scratch) * item
        self.filter_bytes = self.layout.numbers * item
        # Spectra and their opposites are each twice as large where they are halves; see spectra.py.
        self.scale = np.array((1.0 if is_complex else 0.25) / math.prod(lengths), dtype)
        self.kernel = kernels.kernel("filter_windows", dtype)


class LineWindows(_Job):
    """Windows of one axis, as many side by side as there are lanes."""

    def __init__(self, extent: Extent, source: Sizes, target: Sizes, dtype: str, is_complex: bool) -> None:
        (length,), numbers = extent.lengths, 2 if is_complex else 1
        self.lines = Lines(length, 1, dtype, is_complex)
        inner = self.lines.job
        window = _aligned(length * numbers * host.lanes(dtype), dtype)
        fields, keep = _window_fields(extent, source, target, numbers, dtype)
        fields |= {
            w.WORK_JOB: inner.address,
            w.WORK_KERNEL: kernels.address(inner.stages[0], dtype),
            w.WINDOW_SIZE: window,
        }
        super().__init__(w.FIELDS, fields, [*keep, inner])
        self.count = fields[w.COUNT_2]
        self.memory = (window + inner.scratch) * host.ITEM_BYTES[dtype]
        self.kernel = kernels.kernel("filter_lines", dtype)


def _alone(extent: Extent) -> Extent:
    """The taps as the only window."""
    ones, zeros = (1,) * len(extent.taps), (0,) * len(extent.taps)
    return Extent(extent.taps, ones, zeros, ones, zeros, extent.lengths, True)


def _contiguous(sizes: Sizes, numbers: int) -> Sizes:
    return tuple(numbers * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def _window_fields(
    extent: Extent, source: Sizes, target: Sizes, numbers: int, dtype: str
) -> tuple[dict[int, int], list[Any]]:
    """What all windows have: tables of three axes, of which missing ones have one element."""
    missing = 3 - len(extent.lengths)
    one = np.array([[0, 0, 1, 0, 1, 0]], np.int64)
    found = [one] * missing + [axis_table(extent, axis) for axis in range(3 - missing)]
    sizes, steps = (1,) * missing + extent.lengths, (1,) * missing + extent.step
    strides = [(0,) * missing + strides for strides in (source, target)]
    fields = {
        w.CUT: kernels.address("cut_window", dtype),
        w.KEEP: kernels.address("keep_window", dtype),
        w.NUMBERS: numbers,
    }
    for axis in range(3):
        fields |= {
            w.COUNTS + axis: len(found[axis]),
            w.TABLES + axis: found[axis].ctypes.data,
            w.SIZES + axis: sizes[axis],
            w.SOURCE_STRIDES + axis: strides[0][axis],
            w.TARGET_STRIDES + axis: strides[1][axis],
            w.STEPS + axis: steps[axis],
        }
    return fields, found


class Tiles(_Job):
    """Tiles of images with channels in the lanes; `weights` is the job that transforms the weights."""

    def __init__(
        self, extent: Extent, inputs: int, outputs: int, source: Sizes, target: Sizes, taps: Sizes, dtype: str
    ) -> None:
        lanes, item = host.lanes(dtype), host.ITEM_BYTES[dtype]
        rows, columns = extent.lengths
        row, column = tables.axis(columns // 2, dtype), tables.axis(rows, dtype)
        roots = tables.untangling_roots(columns, dtype)
        stride = 2 * lanes * rows + host.LINE_BYTES // item
        block = (columns // 2 + 1) * stride
        group = (columns + lanes) * lanes
        down, across = axis_table(extent, 0), axis_table(extent, 1)
        fields = {
            t.TILE_IN: kernels.address("tile_in", dtype),
            t.TILE_OUT: kernels.address("tile_out", dtype),
            t.ROWS: rows,
            t.COLUMNS: columns,
            t.ROW_FORWARD: kernels.address(row.forward, dtype),
            t.ROW_INVERSE: kernels.address(row.inverse, dtype),
            t.ROW_PLAN: row.plan.ctypes.data,
            t.ROW_TWIDDLES: row.twiddles.ctypes.data,
            t.POSITION: row.position.ctypes.data,
            t.ROOTS: roots.ctypes.data,
            t.COLUMN_FORWARD: kernels.address(column.forward, dtype),
            t.COLUMN_INVERSE: kernels.address(column.inverse, dtype),
            t.COLUMN_PLAN: column.plan.ctypes.data,
            t.COLUMN_TWIDDLES: column.twiddles.ctypes.data,
            t.STRIDE: stride,
            t.BLOCK_SIZE: block,
            t.INPUTS: inputs,
            t.OUTPUTS: outputs,
            t.GROUP_SIZE: group,
        }
        together = min(TOGETHER, len(down) * len(across))
        own = {
            t.TOGETHER: together,
            t.DOWN: len(down),
            t.ACROSS: len(across),
            t.DOWN_TABLE: down.ctypes.data,
            t.ACROSS_TABLE: across.ctypes.data,
            t.SOURCE_CHANNEL: source[0],
            t.SOURCE_ROW: source[1],
            t.TARGET_CHANNEL: target[0],
            t.TARGET_ROW: target[1],
            t.TARGET_ELEMENT: target[2],
            t.STEP_DOWN: extent.step[0],
            t.STEP_ACROSS: extent.step[1],
        }
        kernel_rows, kernel_columns = (np.array([[0, 0, k, 0, 0, 0]], np.int64) for k in extent.taps)
        reading = {
            t.DOWN_TABLE: kernel_rows.ctypes.data,
            t.ACROSS_TABLE: kernel_columns.ctypes.data,
            t.SOURCE_CHANNEL: taps[0],
            t.SOURCE_ROW: taps[1],
        }
        keep = [row, column, roots, down, across, kernel_rows, kernel_columns]
        super().__init__(t.FIELDS, fields | own, keep)
        self.weights = _Job(t.FIELDS, fields | reading, keep)
        blocks = -(-inputs // lanes), -(-outputs // lanes)
        self.count = len(down) * len(across)
        self.memory = (together * sum(blocks) * block + group + lanes * columns) * item
        self.weights_memory = (t.WEIGHTS * block + group) * item
        self.factor_bytes = (columns // 2 + 1) * rows * blocks[1] * inputs * 2 * lanes * item
        self.scale = np.array(0.25 / (rows * columns), dtype)
        self.kernel = kernels.kernel("filter_tiles", dtype)
        self.weights_kernel = kernels.kernel("tile_weights", dtype)


@lru_cache(maxsize=128)
def windows(extent: Extent, source: Sizes, target: Sizes, dtype: str, is_complex: bool) -> Windows | LineWindows:
    """The windows of one geometry: strides of the source, whose elements are side by side, and of the target."""
    if len(extent.lengths) == 1 and not _long(extent.lengths[0], dtype):
        return LineWindows(extent, source, target, dtype, is_complex)
    return Windows(extent, source, target, dtype, is_complex)


def _long(n: int, dtype: str) -> bool:
    return n > max(LONG, LONGEST_LINE) and min(split(n, host.lanes(dtype))) > 1


@lru_cache(maxsize=128)
def tiles(extent: Extent, inputs: int, outputs: int, source: Sizes, target: Sizes, taps: Sizes, dtype: str) -> Tiles:
    """The tiles of one geometry: distances of channels and rows in the source, with those of elements in the target."""
    return Tiles(extent, inputs, outputs, source, target, taps, dtype)
