"""Discrete Fourier transforms of 2, 3, 4, 5, 7 and 8 points on pairs (real, imaginary) of anything with + - *.

The transform is y_q = Σ_p x_p exp(−2πi p q / r). The inverse follows by exchanging real and imaginary parts on both
sides, which costs nothing. Odd radices use the symmetric sums and differences of x_p and x_{r−p} (Winograd 1978,
Math. Comp. 32, in its plain form); 4 and 8 split by the parity of q (decimation in frequency).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

__all__ = ["RADICES", "TWOS", "butterfly"]

# Preferred ones first: what one visit to memory achieves.
RADICES = (8, 4, 7, 5, 3, 2)
TWOS = (8, 4, 2)
HALF_ROOT = math.sqrt(0.5)

Pair = tuple[Any, Any]
Outputs = Iterator[tuple[int, Pair]]


def _plus(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _minus(a: Pair, b: Pair) -> Pair:
    return a[0] - b[0], a[1] - b[1]


def _add_minus_i(a: Pair, b: Pair) -> Pair:
    """Return a − i b."""
    return a[0] + b[1], a[1] - b[0]


def _add_plus_i(a: Pair, b: Pair) -> Pair:
    """Return a + i b."""
    return a[0] - b[1], a[1] + b[0]


def _two(x: list[Pair]) -> Outputs:
    yield 0, _plus(x[0], x[1])
    yield 1, _minus(x[0], x[1])


def _four(x: list[Pair]) -> Outputs:
    even, even_difference = _plus(x[0], x[2]), _minus(x[0], x[2])
    odd, odd_difference = _plus(x[1], x[3]), _minus(x[1], x[3])
    yield 0, _plus(even, odd)
    yield 2, _minus(even, odd)
    yield 1, _add_minus_i(even_difference, odd_difference)
    yield 3, _add_plus_i(even_difference, odd_difference)


def _eight(x: list[Pair]) -> Outputs:
    sums = [_plus(x[q], x[q + 4]) for q in range(4)]
    differences = [_minus(x[q], x[q + 4]) for q in range(4)]
    for q, output in _four(sums):
        yield 2 * q, output
    # The odd outputs are a transform of the differences times powers of the eighth root, (1 − i)/√2.
    one, three = differences[1], differences[3]
    first = (HALF_ROOT * (one[0] + one[1]), HALF_ROOT * (one[1] - one[0]))
    third = (HALF_ROOT * (three[1] - three[0]), -HALF_ROOT * (three[0] + three[1]))
    low = _add_minus_i(differences[0], differences[2])
    high = _add_plus_i(differences[0], differences[2])
    total, rest = _plus(first, third), _minus(first, third)
    yield 1, _plus(low, total)
    yield 5, _minus(low, total)
    yield 3, _add_minus_i(high, rest)
    yield 7, _add_plus_i(high, rest)


def _odd(x: list[Pair]) -> Outputs:
    radix = len(x)
    half = range(1, radix // 2 + 1)
    sums = [_plus(x[p], x[radix - p]) for p in half]
    differences = [_minus(x[p], x[radix - p]) for p in half]
    first = x[0]
    for pair in sums:
        first = _plus(first, pair)
    yield 0, first
    for q in half:
        even, odd = x[0], (0.0, 0.0)
        for p in half:
            angle = 2.0 * math.pi * (p * q % radix) / radix
            cosine, sine = math.cos(angle), math.sin(angle)
            even = (even[0] + cosine * sums[p - 1][0], even[1] + cosine * sums[p - 1][1])
            term = (sine * differences[p - 1][0], sine * differences[p - 1][1])
            odd = term if p == 1 else _plus(odd, term)
        yield q, _add_minus_i(even, odd)
        yield radix - q, _add_plus_i(even, odd)


_TRANSFORMS = {2: _two, 3: _odd, 4: _four, 5: _odd, 7: _odd, 8: _eight}


def butterfly(x: list[Pair], inverse: bool = False) -> Outputs:
    """The transform of len(x) points, or its unscaled inverse: (q, y_q) as soon as each is known, not in order of q."""
    if not inverse:
        yield from _TRANSFORMS[len(x)](x)
        return
    for q, (imag, real) in _TRANSFORMS[len(x)]([(imag, real) for real, imag in x]):
        yield q, (real, imag)
