"""What the kernels of direct sums read, for one geometry."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import host, kernels
from spectralops._cpu.vector import sum_fields as f

__all__ = ["Geometry", "SumJob", "beginnings", "sum_job"]

# Bytes of the copy of what a strip needs: a first-level cache for one plane; many planes, their results and weights
# share a second-level cache.
COPY_BYTES = 1 << 15
COPIES_BYTES = 1 << 17
# What the copy for a single row of results should not exceed.
LARGEST_COPY = 1 << 20
# Columns of a strip of results.
SIDE = 4096
# Rows of a strip of results that are summed straight from the image.
SQUARE_STRIP = 48

Sizes = tuple[int, ...]


class Geometry(NamedTuple):
    """A correlation of planes: sizes along the summed axes, last two rows and columns; distances in numbers.

    Result r of an axis is the sum over taps k of weight k times element start + stride·r + dilation·k of the image,
    which is zero beyond its ends.
    """

    image: Sizes
    taps: Sizes
    start: Sizes
    stride: Sizes
    dilation: Sizes
    results: Sizes
    source_strides: Sizes  # the last is the distance of elements
    target_strides: Sizes
    channels: Sizes  # where the planes of the summed channels begin
    outputs: Sizes  # where the results of the output channels begin


class SumJob:
    """The integers of one geometry, the tables that they point to, and the kernel."""

    def __init__(self, g: Geometry, shared: int, dtype: str) -> None:
        self.kind, self.shared = _kind(g), shared
        lanes, item = host.lanes(dtype), host.ITEM_BYTES[dtype]
        (rows, columns), (stride, phases), (spread, gap) = g.results[-2:], g.stride[-2:], g.dilation[-2:]
        flat = self.kind == "sum_taps" and rows < f.OUTPUTS
        square = self.kind.startswith("sum_square")
        step = f.VECTORS * lanes * (f.OUTPUTS if flat else 1)
        planes = len(g.channels) * prod(g.taps[:-2])
        extent = spread * (g.taps[-2] - 1) + 1
        # Many planes are copied for fewer columns at a time.
        most = LARGEST_COPY // (planes * extent * phases * item)
        side = min(max(most, step) // step * step, SIDE, -(-columns // step) * step)
        reach = gap * (g.taps[-1] - 1)
        segment = -(-(side + reach // phases) // lanes) * lanes
        # Rows a multiple of a page apart would compete for the same sets of the cache.
        if segment * phases * item % host.PAGE_BYTES < host.LINE_BYTES:
            segment += host.LINE_BYTES // item
        line = segment * phases
        spacing = spread if self.kind == "sum_rows" and stride == 1 else 1
        block = 1 if flat or self.kind == "sum_channels" else f.OUTPUTS * spacing
        bytes_ = COPIES_BYTES if self.kind == "sum_channels" else COPY_BYTES
        room = (bytes_ // (planes * line * item) - extent) // stride + 1
        most = -(-rows // block) * block
        # At least half of what is copied for a single row: dilated taps reach far.
        strip = min(most, max(block, room // block * block, extent // 2 // block * block))
        if square:  # nothing is copied: strips are what threads share
            strip, side = SQUARE_STRIP, columns
        copied = (strip - 1) * stride + extent
        size = copied * line
        self.strips, self.leads = -(-rows // strip) * -(-columns // side), prod(g.results[:-2])
        columns_of = [k * gap % phases * segment + k * gap // phases for k in range(g.taps[-1])]
        if self.kind == "sum_rows":
            taps, slices = columns_of, _slices(g, planes, size, line)
        else:
            rows_of = product(range(planes), range(g.taps[-2]))
            taps = [plane * size + row * spread * line + c for plane, row in rows_of for c in columns_of]
            slices = []
        outputs = [*g.outputs, *[0] * (-len(g.outputs) % f.OUTPUTS)]
        leads = beginnings(g.results[:-2], g.target_strides[:-2])
        self.tables = [np.array(table, np.int64) for table in (leads, _planes(g), taps, slices, outputs)]
        leads_at, planes_at, taps_at, slices_at, outputs_at = (table.ctypes.data for table in self.tables)
        fields = {
            f.COPY: kernels.address("copy_strip", dtype),
            f.SHARED: shared,
            f.LEADS: self.leads,
            f.LEAD_PLACES: leads_at,
            f.PLANES: planes,
            f.PLANE_PLACES: planes_at,
            f.IMAGE_ROWS: g.image[-2],
            f.IMAGE_COLUMNS: g.image[-1],
            f.ROW_STRIDE: g.source_strides[-2],
            f.ELEMENT: g.source_strides[-1],
            f.TOP: g.start[-2],
            f.LEFT: g.start[-1],
            f.STRIDE: stride,
            f.PHASES: phases,
            f.STRIPS: self.strips,
            f.SIDES: -(-columns // side),
            f.SIDE: side,
            f.STRIP: strip,
            f.COPIED: copied,
            f.SEGMENT: segment,
            f.PLANE_SIZE: size,
            f.ROWS: rows,
            f.COLUMNS: columns,
            f.TARGET_STRIDE: g.target_strides[-2],
            f.TARGET_ELEMENT: g.target_strides[-1],
            f.SPACING: spacing,
            f.FLAT: int(flat),
            f.TAPS: taps_at,
            f.TAP_COUNT: len(taps),
            f.SLICES: slices_at,
            f.SLICE_COUNT: len(slices),
            f.WEIGHT_STEP: g.taps[-1] * stride,
            f.OUTPUT_COUNT: len(g.outputs),
            f.OUTPUT_PLACES: outputs_at,
        }
        self.fields = np.zeros(f.FIELDS, np.int64)
        self.fields[list(fields)] = list(fields.values())
        self.kernel = kernels.kernel(self.kind, dtype)
        self.memory = (step + f.REACH) * item if square else f.UNIT_BYTES + planes * size * item + step * item
        self.units = shared * self.leads * self.strips


def _kind(g: Geometry) -> str:
    if len(g.outputs) > 1:
        return "sum_channels"
    apart = g.dilation[-2] if g.stride[-2] == 1 else 1
    shares = g.taps[-2] > 1 and g.results[-2] >= f.OUTPUTS * apart and 1 in (g.stride[-2], g.dilation[-2])
    if shares and _is_square(g):
        return f"sum_square_{g.taps[-1]}"
    return "sum_rows" if shares else "sum_taps"


def _is_square(g: Geometry) -> bool:
    """Whether a block of neighbouring taps can read the image itself: one plane of numbers side by side."""
    along = (*g.stride, *g.dilation, g.source_strides[-1], g.target_strides[-1])
    plane = len(g.image) == 2 and g.channels == g.outputs == (0,)
    return plane and set(along) == {1} and g.taps[0] == g.taps[1] in f.SQUARES


def _slices(g: Geometry, planes: int, size: int, line: int) -> list[tuple[int, int, int]]:
    """Rows of taps that the results meet one after another: all of a plane, or with strides every stride-th."""
    rows, columns = g.taps[-2:]
    stride = g.stride[-2]
    return [
        (plane * size + row * line, -(-(rows - row) // stride), (plane * rows + row) * columns)
        for plane in range(planes)
        for row in range(min(stride, rows))
    ]


@lru_cache(maxsize=512)
def beginnings(sizes: Sizes, strides: Sizes) -> Any:
    """Where the entries of some axes begin."""
    places = np.zeros((), np.int64)
    for n, stride in zip(sizes, strides, strict=True):
        places = places[..., None] + np.arange(n) * stride
    return places.reshape(-1)


def _planes(g: Geometry) -> Any:
    """Where the planes of the image begin that each plane of results needs: channel after channel, tap after tap."""
    d = len(g.image) - 2
    places = np.array(g.channels, np.int64).reshape((1,) * d + (-1,) + (1,) * d)
    exists = np.ones((1,) * (2 * d + 1), bool)
    for axis in range(d):
        taps = g.start[axis] + g.dilation[axis] * np.arange(g.taps[axis])
        index = g.stride[axis] * np.arange(g.results[axis])[:, None] + taps
        shape = [1] * (2 * d + 1)
        shape[axis], shape[d + 1 + axis] = index.shape
        places = places + (index * g.source_strides[axis]).reshape(shape)
        exists = exists & ((index >= 0) & (index < g.image[axis])).reshape(shape)
    return np.where(exists, places, f.MISSING).reshape(-1)


@lru_cache(maxsize=256)
def sum_job(geometry: Geometry, shared: int, dtype: str) -> SumJob:
    """The job of one geometry, prepared once and kept."""
    return SumJob(geometry, shared, dtype)
