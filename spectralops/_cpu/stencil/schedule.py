"""In which order the levels of a tile are computed: blocks of a few rows, each level behind the one before."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.stencil.layout import Flag, Record, Wall

__all__ = ["schedule"]

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
    integrator: str, stages: int, levels: int, extent: Three, widths: Three, walls: int, block: tuple[int, int]
) -> Array:
    """Records of a tile of `extent` cells with the given walls, in blocks of so many planes and rows.

    Level 0 is what is loaded. Blocks as large as the tile keep no level behind another: then an axis may wrap around
    inside the tile.
    """
    planes, rows, cells = extent
    whole = block[0] >= planes and block[1] >= rows
    lags = (0, 0) if whole else widths[:2]
    counts = [-(-(n + levels * lag) // b) for n, lag, b in zip(extent, lags, block, strict=False)]
    kz, ky, t = (index.ravel() for index in np.indices((*counts, levels + 1)))

    def bounds(k: Array, axis: int, low: int, high: int) -> tuple[Array, Array]:
        """First and end of the rows (or planes) of a block at its level."""
        first = k * block[axis] - t * lags[axis]
        end = np.minimum(first + block[axis], extent[axis] - (0 if walls & high else t * widths[axis]))
        return np.maximum(first, 0 if walls & low else t * widths[axis]), end

    p0, p1 = bounds(kz, 0, Wall.LOW_PLANE, Wall.HIGH_PLANE)
    j0, j1 = bounds(ky, 1, Wall.LOW_ROW, Wall.HIGH_ROW)
    flags = np.zeros(len(t), np.int64)
    for axis, first, end, low, high in (
        (0, p0, p1, Flag.LOW_PLANE, Flag.HIGH_PLANE),
        (1, j0, j1, Flag.LOW_ROW, Flag.HIGH_ROW),
    ):
        at_low, at_high = walls & low and first == 0, walls & high and end == extent[axis]
        near = min(widths[axis], extent[axis])
        if near:
            flags |= np.where(walls & low and (first < near) & (near <= end), int(low), 0)
            flags |= np.where(at_high, int(high), 0)
        held = Flag.HELD_LOW_PLANE if axis == 0 else Flag.HELD_LOW_ROW
        flags |= np.where(at_low, int(held), 0) | np.where(at_high, 2 * int(held), 0)
    pairs = np.array(BUFFERS[integrator])
    pair = pairs[(t - 1) % len(pairs)]
    records = np.empty((len(t), len(Record)), np.int64)
    records[:, Record.STAGE] = np.where(t == 0, -1, (t - 1) % stages)
    records[:, Record.SOURCE] = pair[:, 0]
    records[:, Record.TARGET] = np.where(t == 0, 0, np.where(t == levels, -1, pair[:, 1]))
    records[:, Record.FLAGS] = flags
    records[:, Record.P0], records[:, Record.P1], records[:, Record.J0], records[:, Record.J1] = p0, p1, j0, j1
    records[:, Record.I0] = 0 if walls & Wall.LOW_CELL else t * widths[2]
    records[:, Record.I1] = cells - (0 if walls & Wall.HIGH_CELL else t * widths[2])
    records = np.ascontiguousarray(records[(p0 < p1) & (j0 < j1)])
    records.setflags(write=False)
    return records
