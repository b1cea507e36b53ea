"""Whether the engine takes a filter, decided from its shape alone: nothing heavy is loaded to find out."""

from __future__ import annotations

from functools import lru_cache

from spectralops._compiler import unavailable

__all__ = ["is_smooth", "refusal"]

PRIMES = (2, 3, 5, 7)
AXES = (1, 2, 3)
# Measured against scipy.fft: lengths with prime factors above 7 become convolutions of more than twice the length,
# which leave the second-level cache above this; and with fewer rows most lanes would be idle.
LONGEST_CHIRP = 4096
FEW = 8


def is_smooth(n: int) -> bool:
    """Whether 2, 3, 5 and 7 are the only prime factors of n."""
    return _rest(n) == 1


def _rest(n: int) -> int:
    for prime in PRIMES:
        while n % prime == 0:
            n //= prime
    return n


def _largest(n: int) -> int:
    """The largest prime factor of a number that has one above 7."""
    n, factor = _rest(n), 11
    while factor * factor <= n:
        if n % factor:
            factor += 2
        else:
            n //= factor
    return n


def refusal(lengths: tuple[int, ...], batch: int) -> str:
    """Why the engine does not take `batch` transforms of these lengths, in words, or nothing if it does."""
    if reason := unavailable():
        return reason
    if len(lengths) not in AXES:
        return f"the vector engine takes 1 to 3 axes, not {len(lengths)}"
    for n in lengths:
        rest = _rest(n)
        # One axis may be cut: a long row then needs a transform of its rough part alone.
        rough = rest if len(lengths) == 1 and rest < n else n
        if rest > 1 and rough > LONGEST_CHIRP:
            return f"length {n} has the prime factor {_largest(n)}, where the vector engine is no faster"
    if len(lengths) == 1 and batch < FEW and _rest(lengths[0]) == lengths[0] > 1:
        return f"length {lengths[0]} has only prime factors above 7, where the vector engine is no faster on few rows"
    return ""
