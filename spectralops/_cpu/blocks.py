"""Work in blocks of independent transforms: few enough that a block stays in cache, spread over threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

__all__ = ["batch_first", "blocks", "merge", "run"]

Array = np.ndarray[Any, Any]


def batch_first(x: Array, axes: tuple[int, ...]) -> Array:
    """View with the other axes first and `axes` last, in their order."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose(*others, *axes)


def merge(x: Array, d: int) -> Array | None:
    """View with all axes but the last `d` as one, or None where the strides do not allow it."""
    try:
        return x.reshape(-1, *x.shape[x.ndim - d :], copy=False)
    except ValueError:
        return None


def blocks(batch: tuple[int, ...], size: int) -> Iterator[tuple[Any, ...]]:
    """Indices that cut the batch axes into blocks of at most `size` entries along the last of them."""
    if not batch:
        yield ()
        return
    for outer in np.ndindex(batch[:-1]):
        for start in range(0, batch[-1], size):
            yield (*outer, slice(start, start + size))


def run(task: Callable[[Any], None], items: Iterable[Any], workers: int) -> None:
    """Call the task on every item, on `workers` threads; the first error is raised."""
    if workers == 1:
        for item in items:
            task(item)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(task, items):
            pass
