"""How a step is cut up: the padded layout of a tile, the tiles of a pass, and the levels that a pass advances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Layout", "Pass", "passes"]

LINE_BYTES = 64
PAGE_BYTES = 4096
# A grid whose two buffers fit in this many bytes stays in cache: one tile, level after level, nothing computed twice.
RESIDENT_BYTES = 4 << 20
# The rows that all levels of a pass work on at a time, in both buffers, should take no more than this.
WINDOW_BYTES = 2 << 20
# A single grid of a smaller part than this of them is not worth cutting up for further threads.
SHARED_FRACTION = 16
# Deeper passes gain nothing: memory is no longer what they wait for.
MOST_LEVELS = {2: 32, 3: 8}
# Rows (and planes) of a level between two levels' turns; multiples of the four rows that kernels take at a time.
BLOCK_ROWS = {2: 8, 3: 16}
BLOCK_PLANES = 2
# A tile is this many times longer than what a pass reaches beyond it, which bounds what neighbours compute twice.
TILE_REACHES = {2: 32, 3: 8}
# Rows of a tile that advances one level: enough to read ahead, few enough to stay in a core's own cache.
SWEEP_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the cells of a tile lie in a flat buffer: offset of its first cell, distances of rows and planes."""

    base: int
    pitch: int
    plane_pitch: int
    size: int

    @classmethod
    def of_tile(cls, planes: int, rows: int, n: int, width: int, itemsize: int, dims: int) -> Layout:
        """The layout of `planes` by `rows` by `n` cells with `width` ghosts, beyond the planes only if `dims` is 3."""
        line = LINE_BYTES // itemsize
        margin = -(-width // line) * line
        pitch = _off_page(margin + -(-(n + width) // line) * line, line, itemsize)
        plane_pitch = (rows + 2 * width) * pitch
        above = width if dims == 3 else 0
        if dims == 3:
            plane_pitch = _off_page(plane_pitch, line, itemsize)
        base = margin + width * pitch + above * plane_pitch
        return cls(base, pitch, plane_pitch, (planes + 2 * above) * plane_pitch + 2 * line)


def _off_page(pitch: int, line: int, itemsize: int) -> int:
    """The next distance that is no multiple of a page, nor nearly: such rows would share few sets of a cache."""
    while not PAGE_BYTES // 16 <= pitch * itemsize % PAGE_BYTES <= PAGE_BYTES - PAGE_BYTES // 16:
        pitch += line
    return pitch


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over memory: the levels that it advances, its tiles as rows of integers, and their common layout.

    `folds` says whether a periodic axis wraps inside the tile, as ghosts, instead of by neighbouring tiles.
    """

    levels: int
    items: np.ndarray
    layout: Layout
    folds: bool


def passes(
    grids: int,
    shape: tuple[int, int, int],
    dims: int,
    width: int,
    periodic: tuple[bool, bool],
    steps: int,
    itemsize: int,
    workers: int,
) -> Iterator[Pass]:
    """The passes that advance `grids` grids of (planes, rows, n) cells, stepped along the last `dims` axes.

    `periodic` says so of planes and rows.
    """
    planes, rows, n = shape
    whole = Layout.of_tile(planes, rows, n, width, itemsize, dims)
    if dims == 1:
        yield _rows_alone(grids, rows, n, width, steps, itemsize)
        return
    alone = grids < workers and whole.size * itemsize >= RESIDENT_BYTES // SHARED_FRACTION
    if 2 * whole.size * itemsize <= RESIDENT_BYTES and not alone:
        items = np.empty((grids, 11), np.int64)
        items[:] = (0, 0, planes, 0, rows, planes, rows, dims == 3, dims == 3, 1, 1)
        items[:, 0] = np.arange(grids)
        yield Pass(steps, items, whole, True)
        return
    window = 2 * whole.pitch * itemsize * (BLOCK_PLANES if dims == 3 else 1)
    most = max(4, min(MOST_LEVELS[dims], WINDOW_BYTES // window - BLOCK_ROWS[dims]))
    for levels in _levels(steps, most):
        reach = levels * width
        height = TILE_REACHES[dims] * reach
        if levels == 1:
            height = max(BLOCK_ROWS[dims], SWEEP_BYTES // (whole.pitch * itemsize))
        count = max(1, rows // height)
        if grids * count < workers:
            count = max(count, min(-(-workers // grids), rows // (2 * reach)))
        yield _tiles(grids, (planes, rows, n), dims, width, periodic, levels, count, itemsize)


def _levels(steps: int, most: int) -> Iterator[int]:
    """Nearly equal numbers of levels, none above `most`."""
    count = -(-steps // most)
    for k in range(count):
        yield steps * (k + 1) // count - steps * k // count


def _rows_alone(grids: int, rows: int, n: int, width: int, steps: int, itemsize: int) -> Pass:
    """All steps at once of grids whose rows know nothing of one another: as many rows a tile as stay in cache."""
    pitch = Layout.of_tile(1, 1, n, width, itemsize, 1).pitch
    height = max(1, min(rows, SWEEP_BYTES // (2 * pitch * itemsize)))
    count = -(-rows // height)
    items = np.empty((grids, count, 11), np.int64)
    for k in range(count):
        first = rows * k // count
        tall = rows * (k + 1) // count - first
        items[:, k] = (0, 0, 1, first, tall, 1, tall, 0, 0, 0, 0)
    items[:, :, 0] = np.arange(grids)[:, None]
    return Pass(steps, items.reshape(-1, 11), Layout.of_tile(1, height, n, width, itemsize, 1), False)


def _tiles(
    grids: int,
    shape: tuple[int, int, int],
    dims: int,
    width: int,
    periodic: tuple[bool, bool],
    levels: int,
    count: int,
    itemsize: int,
) -> Pass:
    """A pass over `count` bands of rows, each through all planes."""
    planes, rows, n = shape
    edges = [rows * k // count for k in range(count + 1)]
    wall = dims == 3 and not periodic[0]
    items = np.empty((grids, count, 11), np.int64)
    for k in range(count):
        low, high = k == 0 and not periodic[1], k == count - 1 and not periodic[1]
        tall = edges[k + 1] - edges[k]
        items[:, k] = (0, 0, planes, edges[k], tall, BLOCK_PLANES, BLOCK_ROWS[dims], wall, wall, low, high)
    items[:, :, 0] = np.arange(grids)[:, None]
    reach = levels * width
    deepest = planes + (2 * reach if dims == 3 and periodic[0] else 0)
    layout = Layout.of_tile(deepest, -(-rows // count) + 2 * reach, n, width, itemsize, dims)
    return Pass(levels, items.reshape(-1, 11), layout, False)
