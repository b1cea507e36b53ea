"""Which way rows go: convolved with a filter's kernel or at their own length, side by side or spread over the lanes."""

from __future__ import annotations

from spectralops._cpu.vector import caches, host
from spectralops._cpu.vector.choice import (
    LONG,
    convolution_length,
    has_passes,
    is_convolution_spread,
    is_convolved,
    is_spread,
    split,
)

__all__ = ["is_row_convolved", "is_row_spread"]

# Part of the last cache that a group of transforms may fill before it is spread too.
GROUP_SHARE = 4


def is_row_convolved(n: int, inner: int, dtype: str, is_complex: bool, count: int) -> bool:
    """Whether transforms that share a filter are convolved with its kernel: not those that are cut into short ones."""
    cut = inner == 1 and has_passes(n) and is_row_spread(n, dtype, is_complex, count)
    return is_convolved(n, not is_complex) and not cut


def is_row_spread(n: int, dtype: str, is_complex: bool, count: int, convolved: bool = False) -> bool:
    """Whether each row is spread over the lanes: there are few, or a group of them leaves the caches."""
    lanes = host.lanes(dtype)
    few = (is_convolution_spread if convolved else is_spread)(n, count, lanes, not is_complex)
    n = convolution_length(n) if convolved else n
    vectors = 1 if not is_complex and n % 2 == 0 else 2
    far = n >= LONG and n * vectors * host.vector_bytes() > caches.last_cache() // GROUP_SHARE
    return few or (far and min(split(n, lanes)) > 1)
