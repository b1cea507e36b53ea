"""Filters laid out for the kernels, kept between calls by their content and within bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import workspace

__all__ = ["Lease", "clear", "tiles"]

# All filters and their copies together; one alone may fill half of it.
KEPT_BYTES = 1 << 27
# Values that are compared before all are.
SAMPLES = 64
# Filters up to this size are copied and compared as bytes, which takes fewer calls.
SMALL_BYTES = 1 << 16

Array = np.ndarray[Any, Any]


class Kept(NamedTuple):
    """A filter as it was given, by which it is known again, and as the kernels read it."""

    key: Any
    sample: bytes
    values: Array
    buffer: workspace.Buffer

    @property
    def nbytes(self) -> int:
        """Of both."""
        return self.values.nbytes + self.buffer.size


class Lease(NamedTuple):
    """A filter for the time of one call."""

    buffer: workspace.Buffer
    shared: bool

    def end(self) -> None:
        """Give the memory back unless it stays in the cache."""
        if not self.shared:
            workspace.give_back(self.buffer)


_lock = threading.Lock()
_kept: list[Kept] = []
_kept_bytes = 0
# The same ones by key and sample: there may be thousands of small filters.
_alike: dict[tuple[Any, bytes], list[Kept]] = {}


def tiles(key: Any, factors: Array, size: int, arrange: Callable[[int], None]) -> Lease:
    """The filter laid out in `size` bytes: the kept one if its content is the same bit for bit, else `arrange` does it.

    `key` says everything but the values: the route, and how the values lie.
    """
    global _kept_bytes
    compact = factors
    if not factors.flags.c_contiguous:
        compact = np.ascontiguousarray(factors[tuple(slice(1 if s == 0 else None) for s in factors.strides)])
    sample = compact.reshape(-1)[:: compact.size // SAMPLES + 1].tobytes()
    with _lock:
        alike = _alike.get((key, sample), ())[::-1]
    for kept in alike:
        if _same(kept.values, compact):
            return Lease(kept.buffer, True)
    kept_after = 2 * (size + compact.nbytes) <= KEPT_BYTES
    buffer = workspace.new(size) if kept_after else workspace.take(size)
    arrange(buffer.address)
    if not kept_after:
        return Lease(buffer, False)
    with _lock:
        # A copy: the caller may write to his array after the call.
        kept = Kept(key, sample, compact.copy(), buffer)
        _kept.append(kept)
        _kept_bytes += kept.nbytes
        _alike.setdefault((key, sample), []).append(kept)
        while _kept_bytes > KEPT_BYTES:
            # Perhaps still in use by another thread: memory of a filter is freed, never given to others.
            oldest = _kept.pop(0)
            _kept_bytes -= oldest.nbytes
            rest = _alike[oldest.key, oldest.sample]
            rest.pop(0)
            if not rest:
                del _alike[oldest.key, oldest.sample]
    return Lease(buffer, True)


def _same(a: Array, b: Array) -> bool:
    """Whether two contiguous arrays of one dtype hold the same bits, signs of zeros and NaNs included."""
    if a.nbytes <= SMALL_BYTES:
        return a.shape == b.shape and a.tobytes() == b.tobytes()
    return a.shape == b.shape and bool((a.view(np.uint32) == b.view(np.uint32)).all())


def clear() -> None:
    """Forget all filters."""
    global _kept_bytes
    with _lock:
        _kept.clear()
        _kept_bytes = 0
        _alike.clear()
