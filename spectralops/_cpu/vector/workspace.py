"""Scratch memory and threads, kept between calls within bounds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

__all__ = ["clear", "run", "scratch"]

# Buffers that no call uses are kept up to this many bytes in all, the most recent first.
KEPT_BYTES = 1 << 27
ALIGNMENT = 64

_lock = threading.Lock()
_kept: list[np.ndarray] = []
_pools: dict[int, ThreadPoolExecutor] = {}


@contextmanager
def scratch(*sizes: int) -> Iterator[list[int]]:
    """Addresses of aligned buffers of so many bytes, for this call alone; their content is arbitrary."""
    padded = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
    need = sum(padded) + ALIGNMENT
    buffer = _take(need)
    try:
        begin = -(-buffer.ctypes.data // ALIGNMENT) * ALIGNMENT
        yield [begin + sum(padded[:i]) for i in range(len(padded))]
    finally:
        _give_back(buffer)


def _take(need: int) -> np.ndarray:
    with _lock:
        for i in reversed(range(len(_kept))):
            # A buffer several times too large is left for those who need it.
            if need <= _kept[i].size <= 4 * need:
                return _kept.pop(i)
    # Zeros, so that no arithmetic ever meets denormal numbers by chance.
    return np.zeros(need, np.uint8)


def _give_back(buffer: np.ndarray) -> None:
    with _lock:
        _kept.append(buffer)
        while sum(kept.size for kept in _kept) > KEPT_BYTES:
            _kept.pop(0)


def clear() -> None:
    """Release the buffers and threads that no call uses."""
    with _lock:
        _kept.clear()
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.shutdown(wait=False)


def run(task: Callable[[int, int], object], count: int, workers: int) -> None:
    """Call task(first, last) on nearly equal parts of range(count), on up to `workers` threads, this one among them."""
    parts = min(workers, count)
    if parts <= 1:
        if count:
            task(0, count)
        return
    bounds = [count * part // parts for part in range(parts + 1)]
    futures = [_pool(parts - 1).submit(task, bounds[i], bounds[i + 1]) for i in range(1, parts)]
    try:
        task(bounds[0], bounds[1])
    finally:
        # Also after a failure, nobody may still be writing when the caller goes on.
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


def _pool(threads: int) -> ThreadPoolExecutor:
    with _lock:
        pool = _pools.get(threads)
        if pool is None:
            pool = _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="spectralops")
        return pool


def _after_fork() -> None:
    """A forked child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
