"""How many of the threads that a caller allows are worth waking."""

from __future__ import annotations

__all__ = ["worthwhile"]

# What one thread does in a second, of operations in cache and of bytes from memory: a plan's share of both is the least
# that it takes. The operations of short calls are mostly in cache, those of long ones need no such care.
FLOPS_PER_SECOND = 3e10
BYTES_PER_SECOND = 1e10
# A thread that is woken and waited for several times a call, as transforms before and after a product are, must have
# this much to do to save time.
SECONDS_EACH = 5e-4


def worthwhile(allowed: int, flops: int, moved: int) -> int:
    """How many of the `allowed` threads so many operations, and bytes from or to memory, keep busy: 1 or more."""
    seconds = flops / FLOPS_PER_SECOND + moved / BYTES_PER_SECOND
    return max(1, min(allowed, int(seconds / SECONDS_EACH)))
