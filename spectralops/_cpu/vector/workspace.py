"""Scratch memory and threads, kept between calls within bounds."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Buffer", "address", "clear", "give_back", "new", "padded", "run", "take"]

# Buffers that no call uses are kept up to this many bytes in all, the most recent first.
KEPT_BYTES = 1 << 27
ALIGNMENT = 64
# Parts of a range for each thread: one that is held up leaves the rest to the others.
PARTS_PER_WORKER = 4


class Buffer(NamedTuple):
    """Memory of one call: where it begins, aligned, and what owns it."""

    address: int
    size: int
    owner: np.ndarray


_lock = threading.Lock()
_kept: list[Buffer] = []
_kept_bytes = 0
_addressof = ctypes.addressof
_from_buffer: Callable[[Any], Any] = ctypes.c_char.from_buffer
_pools: dict[int, ThreadPoolExecutor] = {}


def address(array: np.ndarray) -> int:
    """Where the array's first element lies. `ndarray.ctypes` takes longer than the transform of a short row."""
    try:
        return _addressof(_from_buffer(array))
    except (BufferError, TypeError, ValueError):  # read-only, not contiguous, or empty
        return array.ctypes.data


def padded(size: int) -> int:
    """A number of bytes up to the next multiple of the alignment, for buffers of several parts."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def take(size: int) -> Buffer:
    """Memory of at least `size` bytes, for one call alone, with arbitrary content; `give_back` it after."""
    global _kept_bytes
    with _lock:
        for i in range(len(_kept) - 1, -1, -1):
            # A buffer several times too large is left for those who need it.
            if size <= _kept[i].size <= 4 * size + ALIGNMENT:
                buffer = _kept.pop(i)
                _kept_bytes -= buffer.size
                return buffer
    return new(size)


def new(size: int) -> Buffer:
    """Fresh memory of `size` bytes."""
    # Zeros, so that no arithmetic ever meets denormal numbers by chance.
    owner = np.zeros(size + ALIGNMENT, np.uint8)
    return Buffer(padded(owner.ctypes.data), size, owner)


def give_back(buffer: Buffer) -> None:
    """Keep a buffer for later calls, or release it where too much is kept."""
    global _kept_bytes
    with _lock:
        _kept.append(buffer)
        _kept_bytes += buffer.size
        while _kept_bytes > KEPT_BYTES:
            _kept_bytes -= _kept.pop(0).size


def clear() -> None:
    """Release the buffers and threads that no call uses."""
    global _kept_bytes
    with _lock:
        _kept.clear()
        _kept_bytes = 0
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.shutdown(wait=False)


def run(task: Callable[[int, int], object], count: int, workers: int) -> None:
    """Call task(first, last) on nearly equal parts of range(count), on up to `workers` threads, this one among them.

    Every thread takes the next part when it is done with one, so that none waits for another that is held up.
    """
    threads = min(workers, count)
    if threads <= 1:
        if count:
            task(0, count)
        return
    parts = min(count, threads * PARTS_PER_WORKER)
    todo = iter([(count * part // parts, count * (part + 1) // parts) for part in range(parts)])
    taking = threading.Lock()

    def work() -> None:
        while True:
            with taking:
                part = next(todo, None)
            if part is None:
                return
            task(*part)

    futures = [_pool(threads - 1).submit(work) for _ in range(threads - 1)]
    try:
        work()
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
    global _lock, _kept_bytes
    _lock = threading.Lock()
    _pools.clear()
    _kept.clear()
    _kept_bytes = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
