"""In which order the levels of a grid are computed: several of them each time that its slabs pass through the cache.

In a pass, level t works on blocks of slabs that lie t slabs behind those of level 0, so that the slabs in use stay in
cache from one level to the next. A strip of slabs that borders on others advances a trapezoid, one slab less on that
side with each level; when all strips are done, the seams between them advance the triangles that are left. Nothing is
computed twice, and strips, like seams, are independent of one another.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["in_order", "levels_of_a_pass", "phases"]

# Of all arrays in use, what the levels of a pass work on at a time should take no more than this.
WINDOW_BYTES = 1 << 20
# A grid whose arrays take no more than this stays in cache: one level after the other.
RESIDENT_BYTES = 1 << 18
# Deeper passes gain nothing: memory is no longer what they wait for.
MOST_LEVELS = 32
# Slabs of a level between two levels' turns.
BLOCK = 4

Items = np.ndarray[Any, Any]


def levels_of_a_pass(slabs: int, slab_bytes: int, strips: int) -> int:
    """How many levels a grid advances by each time that it passes through the cache.

    `slab_bytes` is what all arrays together take for one slab.
    """
    if slabs * slab_bytes <= RESIDENT_BYTES:
        return 1
    return max(1, min(MOST_LEVELS, WINDOW_BYTES // slab_bytes - BLOCK, slabs // (2 * strips)))


@lru_cache(maxsize=64)
def phases(slabs: int, wraps: bool, steps: int, slab_bytes: int, strips: int) -> tuple[tuple[Items, ...], ...]:
    """The phases that advance a grid by `steps` levels: one after the other, each of lists that may run together.

    The items of a list are (level, first slab, last slab), in their order; the first phase begins with level 0. `wraps`
    says whether the last slab is the first one's neighbour. There are fewer strips than asked for where the grid is
    too small for them.
    """
    most = levels_of_a_pass(slabs, slab_bytes, strips)
    strips = max(1, min(strips, slabs // (2 * most)))
    edges = [slabs * k // strips for k in range(strips + 1)]
    found: list[tuple[Items, ...]] = []
    count = -(-steps // most)
    for k in range(count):
        done, levels = steps * k // count, steps * (k + 1) // count - steps * k // count
        found.append(
            tuple(
                _trapezoid(edges[j], edges[j + 1], done, levels, j > 0 or wraps, j < strips - 1 or wraps)
                for j in range(strips)
            )
        )
        seams = tuple(_seam(edge, slabs, done, levels) for edge in edges[0 if wraps else 1 : -1])
        if seams:
            found.append(seams)
    return tuple(found)


@lru_cache(maxsize=64)
def in_order(slabs: int, wraps: bool, steps: int, slab_bytes: int) -> Items:
    """All items of a grid that one thread advances alone."""
    return np.concatenate([items for phase in phases(slabs, wraps, steps, slab_bytes, 1) for items in phase])


def _items(items: list[tuple[int, int, int]]) -> Items:
    return np.array(items, np.int64).reshape(-1, 3)


def _trapezoid(first: int, last: int, done: int, levels: int, shrinks_low: bool, shrinks_high: bool) -> Items:
    """The next levels of the slabs first ... last, those that do not depend on what lies beyond a side that shrinks."""
    items = []
    for k in range((last - first + levels) // BLOCK + 1):
        for t in range(0 if done == 0 else 1, levels + 1):
            low = first if k == 0 else first + k * BLOCK + 2 - t
            high = first + (k + 1) * BLOCK + 2 - t
            low = max(low, first + t * shrinks_low)
            high = min(high, last - t * shrinks_high)
            if low < high:
                items.append((done + t, low, high))
    return _items(items)


def _seam(edge: int, slabs: int, done: int, levels: int) -> Items:
    """The same levels on both sides of an edge; the edge at 0 has the last slabs before it."""
    items = []
    for t in range(1, levels + 1):
        if edge:
            items.append((done + t, edge - t, edge + t))
        elif slabs > 1:
            items += [(done + t, slabs - t, slabs), (done + t, 0, t)]
        else:
            items.append((done + t, 0, 1))
    return _items(items)
