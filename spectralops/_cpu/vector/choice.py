"""Whether the engine takes a filter or a transform, decided from its shape alone: nothing heavy is loaded to find out.

The choice compares two predictions. A transform of length n costs its library so many units: n times the sum over the
prime factors of what each costs, or that of the longer transforms which a convolution with a chirp needs. Units are
worth different times in scipy.fft and in the engine, calls cost both something, and where fewer transforms than lanes
run side by side, the engine pays for all lanes. The constants were measured by benchmarks/sweep.py.
"""

from __future__ import annotations

import math
from functools import lru_cache

from spectralops._compiler import unavailable
from spectralops._cpu.vector import caches

__all__ = [
    "LONG", "chirp_length", "convolution_length", "filter_refusal", "has_passes", "has_transform",
    "is_convolution_spread", "is_convolved", "is_smooth", "is_spread", "prime_factors", "split", "transform_refusal",
    "units_of_passes",
]  # fmt: skip

PRIMES = (2, 3, 5, 7)
AXES = (1, 2, 3)
# Units of a prime factor in scipy.fft: its own code for these, loops for the others, which cost more where nothing else
# is left of the length.
FACTORS = {2: 2.0, 3: 3.0, 5: 5.0, 7: 7.7, 11: 12.1}
LOOPED, ALONE = (3.0, 0.6), 2.0
# The same in the engine, of prime factors above 7: sums.
SUMMED = (4.3, 0.38)
# Nanoseconds of a unit in single precision, of a forward transform, a product and an inverse together.
UNIT_SCIPY, UNIT_SMOOTH, UNIT_CHIRP = 0.48, 0.21, 0.32
# What a convolution with a chirp costs besides, whatever its length.
CHIRP_CALL = 80.0
# The same in double precision, relative to single.
DOUBLE_SCIPY, DOUBLE_ENGINE = 1.67, 1.85
# SciPy's transforms fill vectors of 16 bytes; what is left over, relative to one in a vector: real single ones, others.
ALONE_REAL, ALONE_OTHER = 2.15, 1.47
# A transform spread over the lanes, relative to an image of that size: its twiddle factors; and what such a call costs
# more than one of rows.
SPREAD, SPREAD_CALL = 1.45, 3e3
# Nanoseconds of the copies of rows that are spread with zeros after them: of a call and of each row.
COPIES_CALL, COPIES = 8e3, 4e3
# Nanoseconds of a call on top.
CALL_SCIPY, CALL_ENGINE = 60e3, 40e3
# Numbers in the vectors of most CPUs.
LANES = {"float32": 8, "float64": 4}
# From this length on, fewer rows than lanes are spread over the lanes, each as an image of its own; from that on, where
# it pays.
LONG, SHORTEST_SPREAD = 1024, 256
# Rough lengths above this become convolutions of more than twice the length, which leave the second-level cache.
LONGEST_CHIRP = 4096
# Rows shorter than this are not worth the kernel of a filter, which has to be found once; what a convolution with it
# should take at most of the time at a row's own length, by the model, in which sums look cheaper than they are.
SHORTEST_CONVOLVED, CONVOLVED = 60, 0.9
# A lone transform: numbers in the array below which the call costs more than the engine saves, and the part of the last
# cache that a group of transforms may fill.
FEW_NUMBERS = 1 << 13
LONE_SHARE = 8


def is_smooth(n: int) -> bool:
    """Whether 2, 3, 5 and 7 are the only prime factors of n."""
    return _rest(n) == 1


def _rest(n: int) -> int:
    for prime in PRIMES:
        while n % prime == 0:
            n //= prime
    return n


@lru_cache(maxsize=1024)
def prime_factors(n: int) -> tuple[int, ...]:
    """In increasing order."""
    found, factor = [], 2
    while factor * factor <= n:
        while n % factor == 0:
            found.append(factor)
            n //= factor
        factor += 1
    return (*found, n) if n > 1 else tuple(found)


@lru_cache(maxsize=1024)
def has_passes(n: int) -> bool:
    """Whether a transform is done by a pass for each factor, rather than by convolution with a chirp."""
    return is_smooth(n) or _passes(n) <= _chirp(n)


def has_transform(n: int) -> bool:
    """Whether the engine transforms this length at all."""
    return has_passes(n) or n <= LONGEST_CHIRP


@lru_cache(maxsize=1024)
def chirp_length(n: int) -> int:
    """Length of the transforms by which one of a length n that is not smooth is done: whole sixteens, smooth."""
    return next(m for m in range(-(-(2 * n - 1) // 16) * 16, 4 * n + 16, 16) if is_smooth(m))


@lru_cache(maxsize=1024)
def convolution_length(n: int) -> int:
    """Length of the transforms by which n points are convolved with the kernel of a filter they all share.

    Whole sixteens, smooth, at least 2n − 1, and of these the one that takes the fewest units.
    """
    odd = [1]
    for prime in PRIMES[1:]:
        for m in odd:  # which grows meanwhile
            if m * prime < n:
                odd.append(m * prime)
    whole = [16 * m << max(0, (-(-(2 * n - 1) // (16 * m)) - 1).bit_length()) for m in odd]
    return min(whole, key=lambda m: (m * units_of_passes(m), m))


@lru_cache(maxsize=1024)
def is_convolved(n: int, halved: bool) -> bool:
    """Whether rows that share a filter are convolved with its kernel, rather than transformed at their own length.

    Twice the points then, but real ones are halved at any length, and there are neither sums nor chirps.
    """
    if is_smooth(n) or n < SHORTEST_CONVOLVED:
        return False
    m = convolution_length(n)
    theirs = UNIT_SMOOTH * (m // 2 if halved else m) * units_of_passes(m)
    return theirs < CONVOLVED * _engine(n // 2 if halved and n % 2 == 0 else n)


@lru_cache(maxsize=1024)
def _direct(n: int) -> float:
    """Units of a transform by the factors of its length."""
    return n * sum(FACTORS.get(p, (LOOPED[0] + LOOPED[1] * p) * (ALONE if p == n else 1.0)) for p in prime_factors(n))


@lru_cache(maxsize=1024)
def _scipy(n: int) -> float:
    """Nanoseconds of a complex transform in scipy.fft, which takes the cheaper of both ways."""
    return UNIT_SCIPY * (_direct(n) if is_smooth(n) else min(_direct(n), 3.0 * _direct(chirp_length(n))))


@lru_cache(maxsize=1024)
def _engine(n: int) -> float:
    """Nanoseconds of one of the complex transforms that run side by side in the engine."""
    return _passes(n) if has_passes(n) else _chirp(n)


def units_of_passes(n: int) -> float:
    """Units of one point of a transform with a pass for each prime factor."""
    return sum(FACTORS[p] if p in PRIMES else SUMMED[0] + SUMMED[1] * p for p in prime_factors(n))


def _passes(n: int) -> float:
    return UNIT_SMOOTH * n * units_of_passes(n)


def _chirp(n: int) -> float:
    return UNIT_CHIRP * _direct(chirp_length(n)) + CHIRP_CALL


def _scipy_filters(lengths: tuple[int, ...], batch: int, dtype: str, halved: bool) -> float:
    """Nanoseconds of filters in scipy.fft, of which as many share a vector as it has numbers."""
    side_by_side = LANES[dtype] // 2
    alone = ALONE_REAL if halved and dtype == "float32" else ALONE_OTHER
    total = 0.0
    for n in lengths:
        count = batch * math.prod(lengths) // n
        left = count % side_by_side
        total += (count - left + left * alone) * _scipy(n)
    return total * (0.5 if halved else 1.0) * (DOUBLE_SCIPY if dtype == "float64" else 1.0)


def _filled(count: int, lanes: int) -> int:
    return -(-count // lanes) * lanes


@lru_cache(maxsize=1024)
def split(n: int, lanes: int) -> tuple[int, int]:
    """Factors a·b = n: nearly square, whole vectors in a row if possible, an even a if possible."""

    def cost(a: int) -> float:
        b = n // a
        return abs(math.log(b / a)) + 4.0 * (-(-b // lanes) * lanes / b - 1.0) + 0.5 * (a % 2)

    small = [a for a in range(1, math.isqrt(n) + 1) if n % a == 0]
    a = min(small + [n // a for a in small], key=cost)
    return a, n // a


def _rows(n: int, batch: int, lanes: int, halved: bool) -> float:
    """Nanoseconds of rows side by side."""
    return _filled(batch, lanes) * _engine(n // 2 if halved and n % 2 == 0 else n)


@lru_cache(maxsize=1024)
def is_spread(n: int, batch: int, lanes: int, halved: bool) -> bool:
    """Whether rows are transformed one after another, each spread over the lanes."""
    if batch >= lanes or n < SHORTEST_SPREAD or min(split(n, lanes)) == 1:
        return False
    if n >= LONG:
        return True
    apart = SPREAD * _engine_filters(split(n, lanes), batch, lanes, halved) + SPREAD_CALL
    return has_passes(n) and apart < _rows(n, batch, lanes, halved)


@lru_cache(maxsize=1024)
def is_convolution_spread(n: int, batch: int, lanes: int, halved: bool) -> bool:
    """Whether rows that are convolved with a kernel are spread over the lanes, which takes copies with zeros."""
    m = convolution_length(n)
    if batch >= lanes or m < SHORTEST_SPREAD or min(split(m, lanes)) == 1:
        return False
    apart = SPREAD * _engine_filters(split(m, lanes), batch, lanes, halved) + SPREAD_CALL
    return apart + COPIES_CALL + COPIES * batch < _rows(m, batch, lanes, halved)


def _engine_filters(lengths: tuple[int, ...], batch: int, lanes: int, halved: bool, each: bool = False) -> float:
    """Nanoseconds of filters in the engine; see routes.py for what runs."""
    first, *rest = lengths
    if not rest and not each and is_convolved(first, halved):
        return _engine_filters((convolution_length(first),), batch, lanes, halved)
    if not rest:
        if is_spread(first, batch, lanes, halved):
            return SPREAD * _engine_filters(split(first, lanes), batch, lanes, halved)
        return _rows(first, batch, lanes, halved)
    numbers = math.prod(rest)
    columns = _filled(numbers, lanes) * (_engine(first // 2) if first % 2 == 0 else _engine(first) / 2)
    rows = _filled(first // 2 + 1, lanes) * sum(numbers / n * _engine(n) for n in rest)
    return batch * (columns + rows) * (1.0 if halved else 2.0)


@lru_cache(maxsize=1024)
def filter_refusal(
    lengths: tuple[int, ...], batch: int, dtype: str = "float32", halved: bool = True, each: bool = False
) -> str:
    """Why the engine had better not take `batch` filters of these lengths, in words, or nothing if it had.

    `dtype` is that of the real numbers; `halved` says whether the input is real, `each` whether there are several
    filters.
    """
    if len(lengths) not in AXES:
        return f"the vector engine takes 1 to 3 axes, not {len(lengths)}"
    rough = [n for n in lengths if not is_smooth(n)]
    for n in rough if each or len(lengths) > 1 else ():
        # One axis may be cut: a long row then needs a transform of its rough part alone.
        if not has_passes(n) and (_rest(n) if len(lengths) == 1 and _rest(n) < n else n) > LONGEST_CHIRP:
            return f"length {n} has the prime factor {prime_factors(n)[-1]}, where the vector engine is no faster"
    if not rough or not batch:
        return ""
    ours = _engine_filters(lengths, batch, LANES[dtype], halved, each) * (DOUBLE_ENGINE if dtype == "float64" else 1.0)
    if ours + CALL_ENGINE <= _scipy_filters(lengths, batch, dtype, halved) + CALL_SCIPY:
        return ""
    return f"length {rough[0]} has the prime factor {prime_factors(rough[0])[-1]}, where the vector engine is no faster"


def transform_refusal(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, halved: bool) -> str:
    """Why the engine does not take lone transforms along `axes`, in words, or nothing if it does.

    `shape` is that of the side which is whole along all axes; `halved` says whether one side is real.
    """
    return unavailable() or _transform_refusal(shape, axes, dtype, halved)


@lru_cache(maxsize=1024)
def _transform_refusal(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, halved: bool) -> str:
    numbers = math.prod(shape)
    if numbers < FEW_NUMBERS * (2 if halved else 1):
        return f"{numbers} numbers are too few for the vector engine to pay"
    theirs = ours = 0.0
    for axis in axes:
        n = shape[axis]
        mine = halved and axis == len(shape) - 1
        beside = numbers // n if axis == len(shape) - 1 else math.prod(shape[axis + 1 :])
        if beside < LANES[dtype]:
            return f"{beside} transforms side by side along axis {axis} leave lanes of the vector engine idle"
        packed = n // 2 if mine and n % 2 == 0 else n
        if 64 * (packed if has_passes(packed) else chirp_length(packed)) > caches.last_cache() // LONE_SHARE:
            return f"length {n} is too long for the vector engine's transforms side by side"
        theirs += numbers / n * _scipy(n) * (0.5 if halved else 1.0)
        ours += numbers / n * _engine(packed) * (0.5 if halved and not mine else 1.0)
    if dtype == "float64":
        theirs, ours = theirs * DOUBLE_SCIPY, ours * DOUBLE_ENGINE
    # Without a product to fuse, the engine gains less.
    if 1.3 * ours > theirs:
        return f"lengths {tuple(shape[axis] for axis in axes)} are no faster in the vector engine"
    return ""
