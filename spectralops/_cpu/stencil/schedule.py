"""In which order the levels of a tile are computed: blocks of a few rows, each level behind the one before."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.stencil.layout import HELD, Flag, Record

__all__ = ["reach", "schedule"]

Array = np.ndarray[Any, Any]
Three = tuple[int, int, int]
# Source and target of each stage of a step among the copies of u. A stage may overwrite what the stages before it
# have read: they are ahead of it by as many rows as they look.
BUFFERS = {
    "euler": ((0, 1), (1, 0)),
    "rk2": ((0, 1), (1, 0)),
    "ssprk3": ((0, 1), (1, 2), (2, 0)),
    "rk4": ((0, 1), (1, 2), (2, 1), (1, 0)),
}


@lru_cache(maxsize=64)
def schedule(
    integrator: str,
    stages: int,
    levels: int,
    extent: Three,
    widths: Three,
    walls: int,
    block: tuple[int, int],
    lanes: int,
    height: int | None = None,
    turning: bool = False,
) -> Array:
    """Records of a tile of `extent` cells with the given walls, in blocks of so many planes and rows.

    Level 0 is what is loaded. Along an axis that a block spans, as it spans rows, no level lags behind another: such an
    axis may wrap around inside the tile. Where a row has no wall, all levels but the last begin with a whole vector.

    Where scratch memory holds no more than `height` rows of the tile, those that are still needed move up when it is
    full.

    Where rows are `turning`, they wrap around inside the tile: each level begins as many rows further up than the one
    before as the stencil is wide, and ends as many further. The rows that it begins with are kept, and put behind its
    last ones, where the next level looks at them.
    """
    sizes = (*block, extent[2])
    lags = [0 if size >= n else width for size, n, width in zip(sizes, extent, widths, strict=True)]
    counts = [-(-(n + levels * lag) // size) for n, lag, size in zip(extent, lags, block, strict=False)]
    kz, ky, t = (index.ravel() for index in np.indices((*counts, levels + 1)))
    far = reach(levels, widths, lanes)

    def bounds(k: Array, axis: int) -> tuple[Array, Array]:
        """First and end of the planes, rows or cells of a block at its level."""
        first = k * sizes[axis] - t * lags[axis]
        # Where there is no wall: what the levels to come look at beyond the cells of the result.
        left = far[axis] - (levels - t) * widths[axis]
        if turning and axis == 1:
            lower = t * widths[1]
            upper = extent[1] - np.where(t > 0, (levels - t + 1) * widths[1], 0)
            return np.maximum(first, lower), np.minimum(first + sizes[1], upper)
        end = np.minimum(first + sizes[axis], extent[axis] - (0 if walls & 2 << 2 * axis else left))
        if axis == 2:
            left = np.where(t < levels, left // lanes * lanes, left)
        return np.maximum(first, 0 if walls & 1 << 2 * axis else left), end

    spans = [bounds(k, axis) for axis, k in enumerate((kz, ky, np.zeros_like(t)))]
    flags = np.zeros(len(t), np.int64)
    for axis, (first, end) in enumerate(spans):
        low, high = 1 << 2 * axis, 2 << 2 * axis
        at_low, at_high = walls & low and first == 0, walls & high and end == extent[axis]
        near = min(widths[axis], extent[axis])
        if near:
            flags |= np.where(walls & low and (first < near) & (near <= end), low, 0)
            flags |= np.where(at_high, high, 0)
        flags |= np.where(at_low, low << HELD, 0) | np.where(at_high, high << HELD, 0)
    pairs = np.array(BUFFERS[integrator])
    pair = pairs[(t - 1) % len(pairs)]
    records = np.empty((len(t), len(Record)), np.int64)
    records[:, Record.STAGE] = np.where(t == 0, -1, (t - 1) % stages)
    records[:, Record.SOURCE] = pair[:, 0]
    records[:, Record.TARGET] = np.where(t == 0, 0, np.where(t == levels, -1 - pair[:, 1], pair[:, 1]))
    records[:, Record.FLAGS] = flags
    records[:, Record.P0 : Record.SHIFT] = np.stack([bound for span in spans for bound in span], 1)
    records[:, Record.SHIFT] = records[:, Record.RUN] = 0
    wanted = np.all([first < end for first, end in spans], 0)
    records, ky = records[wanted], ky[wanted]
    if turning:
        records, ky = _keeping(records, ky, t[wanted], (levels, extent[1] - (levels + 1) * widths[1], widths[1]))
    if height is not None and height < extent[1]:
        ahead = widths[1] if turning else 0
        records = _moving(records, ky, (extent[1], block[1], height), levels * lags[1], (widths[1], ahead))
    _find_runs(records)
    records = np.ascontiguousarray(records)
    records.setflags(write=False)
    return records


def _moving(records: Array, ky: Array, sizes: Three, behind: int, more: tuple[int, int]) -> Array:
    """Records with the shifts of their rows, and those that move rows. The last level lags `behind` the loading.

    So many rows `more` are in use before what the last level computes, and after what is loaded.
    """
    (rows, block, height), (before, after) = sizes, more
    shifts, moves, places = np.zeros(ky[-1] + 1, np.int64), [], []
    shift = 0
    for k in range(len(shifts)):
        # Further back than this, but for its neighbours, no level looks from here on.
        first = k * block - behind
        if min((k + 1) * block, rows) - shift > height and first > shift:
            move = np.zeros(len(Record), np.int64)
            move[Record.STAGE], move[Record.SHIFT] = -2, first - shift
            move[[Record.J0, Record.J1]] = first - before - shift, min(k * block, rows) + after - shift
            moves.append(move)
            places.append(np.searchsorted(ky, k))
            shift = first
        shifts[k] = shift
    records[:, Record.SHIFT] = shifts[ky]
    return np.insert(records, places, moves, 0) if moves else records


def _keeping(records: Array, ky: Array, t: Array, sizes: Three) -> tuple[Array, Array]:
    """Records and `ky` with those that keep the first rows of levels, and that put them behind the last ones."""
    levels, rows, width = sizes
    inner, after, keeps = (t > 0) & (t < levels), [], []
    for stage, first, done in ((-4, 0, 2 * width), (-5, rows, rows)):
        # Of each level, the record with which these rows are there, or all rows.
        reached = (records[:, Record.J0] < t * width + done) & (t * width + done <= records[:, Record.J1])
        for k in np.flatnonzero(inner & reached):
            keep = np.zeros(len(Record), np.int64)
            keep[[Record.STAGE, Record.SOURCE, Record.TARGET]] = stage, records[k, Record.TARGET], t[k] - 1
            keep[[Record.J0, Record.J1]] = t[k] * width + first, t[k] * width + first + 2 * width
            keeps.append(keep)
            after.append(k)
    places = np.array(after, np.int64)
    table = np.array(keeps, np.int64).reshape(-1, len(Record))
    return np.insert(records, places + 1, table, 0), np.insert(ky, places + 1, ky[places])


def _find_runs(records: Array) -> None:
    """Say which records follow one another that compute rows of a plane to scratch memory and feed no ghost rows."""
    planes = records[:, Record.P1] - records[:, Record.P0]
    alone = (records[:, Record.FLAGS] & (Flag.LOW_PLANE | Flag.HIGH_PLANE | Flag.LOW_ROW | Flag.HIGH_ROW)) == 0
    plain = (records[:, Record.STAGE] >= 0) & (records[:, Record.TARGET] >= 0) & (planes == 1) & alone
    ends = np.flatnonzero(np.diff(plain, prepend=False, append=False))
    records[plain, Record.RUN] = -1
    records[ends[::2], Record.RUN] = ends[1::2] - ends[::2]


def reach(levels: int, widths: Three, lanes: int) -> Three:
    """Cells of its neighbours that a tile needs on each side, whole vectors of them along rows."""
    planes, rows, cells = (levels * width for width in widths)
    return planes, rows, -(-cells // lanes) * lanes
