"""Work in blocks of independent transforms: few enough that a block stays in cache, spread over threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["blocks", "cuts", "run"]

Index = tuple[slice, ...]


def blocks(shape: tuple[int, ...], axes: tuple[int, ...], size: int) -> list[Index]:
    """Indices that cut an array into blocks of at most `size` transforms over `axes`, which stay whole.

    The last axes are filled first, so that blocks are contiguous where the array is.
    """
    slices = []
    for axis in reversed(range(len(shape))):
        n = shape[axis]
        step = n if axis in axes else max(1, min(n, size))
        if axis not in axes:
            size //= step
        slices.append([slice(start, start + step) for start in range(0, n, step)])
    return list(itertools.product(*reversed(slices)))


def cuts(count: int, most: int, workers: int) -> list[slice]:
    """Runs of at most `most` out of `count` entries, and where possible one or more for each worker."""
    step = max(1, min(most, -(-count // workers)))
    return [slice(start, start + step) for start in range(0, count, step)]


def run(task: Callable[[Any], None], items: Sequence[Any], workers: int) -> None:
    """Call the task on every item, on `workers` threads; the first error is raised."""
    if workers == 1 or len(items) == 1:
        for item in items:
            task(item)
        return
    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        for _ in pool.map(task, items):
            pass
