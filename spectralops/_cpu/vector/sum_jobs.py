"""What the kernels of direct sums read, for one geometry."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from spectralops._cpu.vector import host, kernels
from spectralops._cpu.vector import sum_fields as f

__all__ = ["Geometry", "SumJob", "sum_job"]

# What vectors.OUTPUTS and VECTORS say, without loading the compiler.
OUTPUTS, VECTORS = 4, 2
# Bytes of the copy of what a strip needs: a first-level cache for one plane; many planes, their results and weights
# share a second-level cache.
COPY_BYTES = 1 << 15
COPIES_BYTES = 1 << 17
# Rows of the copy must not lie a multiple of a page apart: they would compete for the same sets of the cache.
PAGE_BYTES = 4096
LINE_BYTES = 64
# Columns of a strip of results.
SIDE = 4096

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
        flat = self.kind == "sum_taps" and rows < OUTPUTS
        step = VECTORS * lanes * (OUTPUTS if flat else 1)
        side = min(SIDE, -(-columns // step) * step)
        reach = gap * (g.taps[-1] - 1)
        segment = -(-(side + reach // phases) // lanes) * lanes
        if segment * phases * item % PAGE_BYTES < LINE_BYTES:
            segment += LINE_BYTES // item
        line = segment * phases
        planes = len(g.channels) * prod(g.taps[:-2])
        extent = spread * (g.taps[-2] - 1) + 1
        spacing = spread if self.kind == "sum_rows" and stride == 1 else 1
        block = 1 if flat or self.kind == "sum_channels" else OUTPUTS * spacing
        bytes_ = COPIES_BYTES if self.kind == "sum_channels" else COPY_BYTES
        room = (bytes_ // (planes * line * item) - extent) // stride + 1
        most = -(-rows // block) * block
        strip = min(most, max(block, room // block * block))
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
        outputs = [*g.outputs, *[0] * (-len(g.outputs) % OUTPUTS)]
        self.tables = [np.array(table, np.int64) for table in (_leads(g), _planes(g), taps, slices, outputs)]
        leads, places, taps_at, slices_at, outputs_at = (table.ctypes.data for table in self.tables)
        fields = {
            f.COPY: kernels.address("copy_strip", dtype),
            f.SHARED: shared,
            f.LEADS: self.leads,
            f.LEAD_PLACES: leads,
            f.PLANES: planes,
            f.PLANE_PLACES: places,
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
        self.memory = f.UNIT_BYTES + planes * size * item + step * item
        self.units = shared * self.leads * self.strips


def _kind(g: Geometry) -> str:
    if len(g.outputs) > 1:
        return "sum_channels"
    shares = g.taps[-2] > 1 and g.results[-2] >= OUTPUTS and 1 in (g.stride[-2], g.dilation[-2])
    return "sum_rows" if shares else "sum_taps"


def _slices(g: Geometry, planes: int, size: int, line: int) -> list[tuple[int, int, int]]:
    """Rows of taps that the results meet one after another: all of a plane, or with strides every stride-th."""
    rows, columns = g.taps[-2:]
    stride = g.stride[-2]
    return [
        (plane * size + row * line, -(-(rows - row) // stride), (plane * rows + row) * columns)
        for plane in range(planes)
        for row in range(min(stride, rows))
    ]


def _leads(g: Geometry) -> list[int]:
    """Where the planes of results begin."""
    ranges = [range(0, n * step, step) for n, step in zip(g.results[:-2], g.target_strides[:-2], strict=True)]
    return [sum(places) for places in product(*ranges)]


def _planes(g: Geometry) -> list[list[int]]:
    """Where the planes of the image begin that each plane of results needs: channel after channel, tap after tap."""
    d = len(g.image) - 2
    found = []
    for result in product(*(range(n) for n in g.results[:d])):
        mine = []
        for channel, tap in product(g.channels, product(*(range(k) for k in g.taps[:d]))):
            places = [g.start[i] + g.stride[i] * result[i] + g.dilation[i] * tap[i] for i in range(d)]
            inside = all(0 <= place < n for place, n in zip(places, g.image, strict=False))
            mine.append(
                channel + sum(p * s for p, s in zip(places, g.source_strides, strict=False)) if inside else f.MISSING
            )
        found.append(mine)
    return found


@lru_cache(maxsize=256)
def sum_job(geometry: Geometry, shared: int, dtype: str) -> SumJob:
    """The job of one geometry, prepared once and kept."""
    return SumJob(geometry, shared, dtype)
