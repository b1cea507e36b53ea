"""Whether the engine takes a filter, decided from its shape alone: nothing heavy is loaded to find out."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache

__all__ = ["is_smooth", "refusal", "unavailable"]

PRIMES = (2, 3, 5, 7)
AXES = (1, 2, 3)
SWITCH = "SPECTRALOPS_NUMBA"


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


def unavailable() -> str:
    """Why the engine cannot run here at all, or nothing."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 switches the vector engine off"
    return "" if _installed() else "numba, which compiles the vector engine, is not installed"


@lru_cache(maxsize=1)
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None and importlib.util.find_spec("llvmlite") is not None


def refusal(lengths: tuple[int, ...]) -> str:
    """Why the engine does not take transforms of these lengths, in words, or nothing if it does."""
    if reason := unavailable():
        return reason
    if len(lengths) not in AXES:
        return f"the vector engine takes 1 to 3 axes, not {len(lengths)}"
    for n in lengths:
        if not is_smooth(n):
            return f"the vector engine takes lengths with prime factors up to 7, and {n} has {_largest(n)}"
    return ""
