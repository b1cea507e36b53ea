"""How a transform of n points is done by one block: radices of its passes and the threads that share it.

A search over all factorisations with a small cost model: arithmetic and exchanges through shared memory per point,
both multiplied by what idle threads waste. The registers that a thread can hold bound the points it works on. Lengths
with large prime factors are convolutions of other lengths (Bluestein's algorithm).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["Chirp", "Cyclic", "Passes", "by_twos", "factors", "passes", "unpacking_roots", "within_warp"]

RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 25, 28, 30, 32)
PRIMES = (2, 3, 5, 7, 11, 13)
MOST_PASSES = 4
# Points of a thread, in registers: two 32-bit registers each for float32, four for float64.
POINTS = {4: 32, 8: 16}
# Costs in floating-point instructions a point: an exchange through shared memory, twiddle factors, access to the array,
# meeting the mirrored wavenumber in shared memory;
# and the points of a thread beyond which it pays more to have other threads at hand. Fitted to timings on an H200.
EXCHANGE = 8.0
TWIDDLE = 5.0
LOAD = 8.0
EASE = 8.0
SHORT = 12.0
MIRROR = 30.0
# What the lengths of chirps' convolutions are multiples of, where they are longer.
CHIRP_STEP = 16
# Points of a thread up to which that pays, and passes: lines that would take more do with more points a thread.
MOST_HELD, LINE_PASSES = 16, 3
# Transforms within a warp from this length on do with so few passes what shorter ones do with fewer points a thread.
LONG, FEW_PASSES = 256, 2


@dataclass(frozen=True, slots=True)
class Passes:
    """One way to transform: the radices in order, the threads of a transform, shared memory in complex numbers."""

    radices: tuple[int, ...]
    threads: int
    stride: int

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.radices)

    @property
    def expression(self) -> str:
        """The C++ type of the radices."""
        return f"Radices<{', '.join(map(str, self.radices))}>"

    @property
    def words(self) -> str:
        """The radices, for explain()."""
        return "*".join(map(str, self.radices))

    @property
    def padded(self) -> int:
        """Complex numbers of shared memory that a transform takes with its gaps: `Geometry::padded`."""
        return max(_padded(order, self.stride) for order in (self.radices, self.radices[::-1]))

    def table(self, scale: float, roots: bool) -> np.ndarray[Any, Any]:
        """Twiddle factors of the forward transform, then of the one with reversed radices, whose first are scaled.

        With `roots` follow exp(-pi i k / n) for k = 0 ... n/2, which split the spectrum of packed real lines.
        """
        parts = _twiddles(self.radices, 1.0) + _twiddles(self.radices[::-1], scale)
        return np.concatenate([np.zeros(0, complex), *parts, *([unpacking_roots(self.size)] if roots else [])])

    @property
    def reversed_at(self) -> int:
        """Where the factors of the reversed radices begin in the table."""
        return self.size - self.radices[0]


@dataclass(frozen=True, slots=True)
class Chirp:
    """A transform of any number of points as a convolution, which transforms of more points do."""

    size: int
    inner: Passes

    @property
    def threads(self) -> int:
        """Threads of a transform."""
        return self.inner.threads

    @property
    def expression(self) -> str:
        """The C++ type that stands in the place of radices."""
        return f"Chirp<{self.size}, {self.inner.expression}>"

    @property
    def words(self) -> str:
        """How it is done, for explain()."""
        return f"{self.size} as a convolution of {self.inner.words}"

    @property
    def padded(self) -> int:
        """Complex numbers of shared memory that a transform takes."""
        return self.inner.padded

    def table(self, scale: float, roots: bool) -> np.ndarray[Any, Any]:
        """Chirp, spectrum of its conjugate and inner twiddle factors, forward and for the inverse, which scales.

        With `roots` follows what :meth:`Passes.table` says.
        """
        n, m = self.size, self.inner.size
        k = np.arange(n)
        chirp = np.exp(-1j * np.pi * (k * k % (2 * n)) / n)
        kernel = np.zeros(m, complex)
        kernel[:n] = chirp.conj()
        kernel[m - n + 1 :] = chirp[:0:-1].conj()
        spectrum, inner = np.fft.fft(kernel) / m, self.inner.table(1.0, False)
        parts = [chirp, spectrum, inner, chirp, scale * spectrum, inner]
        return np.concatenate([*parts, *([unpacking_roots(n)] if roots else [])])

    @property
    def reversed_at(self) -> int:
        """Where the table of the inverse begins."""
        inner = self.inner
        return self.size + 3 * inner.size - inner.radices[0] - inner.radices[-1]


@dataclass(frozen=True, slots=True)
class Cyclic(Chirp):
    """The same for a filter of many lines: the longer transform does all of the convolution that the filter is.

    So it takes two transforms instead of four, and a spectrum that is transformed once for all lines.
    """

    @property
    def expression(self) -> str:
        """The C++ type that stands in the place of radices."""
        return f"Cyclic<{self.size}, {self.inner.expression}>"

    @property
    def words(self) -> str:
        """How it is done, for explain()."""
        return f"{self.size} as part of {self.inner.words}"

    @property
    def begins_at(self) -> int:
        """Where in the table the factors of the longer transform begin."""
        return self.size + self.inner.size


def unpacking_roots(n: int) -> np.ndarray[Any, Any]:
    """exp(-pi i k / n) for k = 0 ... n/2: what tells 2 n real values apart that were transformed as n complex ones."""
    roots: np.ndarray[Any, Any] = np.exp(-1j * np.pi * np.arange(n // 2 + 1) / n)
    return roots


def _twiddles(radices: tuple[int, ...], scale: float) -> list[np.ndarray[Any, Any]]:
    parts, before = [], radices[0]
    for radix in radices[1:]:
        turns = np.outer(np.arange(1, radix), np.arange(before)) / (before * radix)
        parts.append((scale if before == radices[0] else 1.0) * np.exp(-2j * np.pi * turns).ravel())
        before *= radix
    return parts


def _padded(radices: tuple[int, ...], stride: int) -> int:
    n = most = math.prod(radices)
    before = 1
    for radix in radices[:-1]:
        gap = before if before * stride < 16 and radix % 2 == 0 else 0
        before *= radix
        most = max(most, n + n // before * gap)
    return most


@lru_cache(maxsize=4096)
def factors(n: int) -> tuple[int, ...] | None:
    """Prime factors of n, None where one is above 13."""
    found = []
    for prime in PRIMES:
        while n % prime == 0:
            found.append(prime)
            n //= prime
    return tuple(found) if n == 1 else None


@lru_cache(maxsize=4096)
def _factorisations(n: int, most: int) -> list[tuple[int, ...]]:
    """Ordered factorisations of n into at most `most` radices."""
    if n == 1:
        return [()]
    if most == 0:
        return []
    return [(r, *rest) for r in RADICES if n % r == 0 for rest in _factorisations(n // r, most - 1)]


@lru_cache(maxsize=64)
def _arithmetic(radix: int) -> float:
    """Instructions a point of a butterfly in registers, roughly."""
    cost, n = 0.0, radix
    for prime in (4, 2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            cost += {4: 4.0, 2: 2.0}.get(prime, 2.0 * prime)
            n //= prime
    return cost + (2.0 if radix not in (2, 3, 4, 5, 7, 11, 13) else 0.0)


@lru_cache(maxsize=1024)
def passes(
    n: int,
    itemsize: int,
    stride: int = 1,
    pairs: bool = False,
    most_threads: int = 1024,
    mirrored: bool = False,
    points: int | None = None,
) -> Passes | Chirp | None:
    """The cheapest way to transform n points of real numbers of `itemsize` bytes, None where none fits.

    `stride` transforms are interleaved in shared memory. With `pairs` a thread must hold points 2i and 2i + 1 before
    the first pass (and after the last one of the inverse). With `mirrored` it is better if a thread has wavenumbers k
    and n - k. A thread holds at most `points` of them, or as many as its registers can.
    """
    if pairs and n % 2:
        return None
    points = points or POINTS[itemsize]
    if factors(n) is not None:
        found = _cheapest(n, points, stride, pairs, most_threads, mirrored)
        return None if found is None else found[1]
    # The shortest lengths that the convolution fits into, of which one may be cheaper than those before it. Transforms
    # of odd lengths, and of those with few factors of two, waste more than the points they save.
    step = CHIRP_STEP if n >= CHIRP_STEP else 2
    lengths = itertools.islice(
        (m for m in itertools.count(-(-(2 * n - 1) // step) * step, step) if max(factors(m) or (7,)) <= 5), 4
    )
    inner = [(m, _cheapest(m, points, stride, pairs, most_threads, False)) for m in lengths]
    ways = [(m * found[0], found[1]) for m, found in inner if found is not None]
    return Chirp(n, min(ways, key=lambda way: way[0])[1]) if ways else None


def _cheapest(
    n: int, points: int, stride: int, pairs: bool, most_threads: int, mirrored: bool
) -> tuple[float, Passes] | None:
    """Cost of a point, and how it comes about."""
    if n == 1:
        return None if pairs else (0.0, Passes((1,), 1, stride))
    fewest = next((k for k in range(1, MOST_PASSES + 1) if points**k >= n), MOST_PASSES)
    orders = [order for order in _factorisations(n, min(fewest + 1, MOST_PASSES)) if max(order) <= points]
    # Radices of much the same size are the rule; only lengths that have none such are searched through.
    even = [order for order in orders if max(order) <= 4 * min(order)]
    for some in (even, orders):
        found = [way for order in some for way in _ways(order, points, stride, pairs, most_threads, mirrored)]
        if mirrored and n >= LONG:
            found = _mirrored(found, points) or found
        if found:
            return min(found, key=lambda way: way[0])
    return None


def _mirrored(found: list[tuple[float, Passes]], points: int) -> list[tuple[float, Passes]]:
    """Those in which wavenumbers meet; in few passes where lines are too long for that with few points a thread."""
    few = [way for way in found if len(way[1].radices) <= LINE_PASSES and _meets(way[1], points)]
    long = bool(few) and few[0][1].size >= 2 * MOST_HELD**LINE_PASSES
    return few if long else [way for way in found if _meets(way[1])]


def _meets(way: Passes, most: int = MOST_HELD) -> bool:
    """Whether a thread has wavenumbers k and n - k, as `Fft::PAIRED`, without holding too many."""
    last = way.radices[-1]
    return last % 2 == 0 and way.size // last % (2 * way.threads) == 0 and way.size <= most * way.threads


def _ways(
    radices: tuple[int, ...], points: int, stride: int, pairs: bool, most_threads: int, mirrored: bool
) -> list[tuple[float, Passes]]:
    """Costs of these radices with every number of threads that can hold the points."""
    n = math.prod(radices)
    butterflies = [n // r for r in radices]
    if pairs and butterflies[0] % 2:
        return []
    found = []
    for threads in _thread_counts(butterflies, -(-n // points), most_threads):
        each = [-(-count // threads) for count in butterflies]
        if pairs and (each[0] % 2 or butterflies[0] % threads):
            continue
        held = max(e * r for e, r in zip(each, radices, strict=True))
        if held > points:
            continue
        cost = 2 * LOAD * each[0] * radices[0]
        if stride == 1:  # neighbouring threads read neighbouring points: fewer than a warp of them waste bandwidth
            cost *= max(1.0, (32 / threads) ** 0.5)
        for p, (e, r) in enumerate(zip(each, radices, strict=True)):
            cost += (_arithmetic(r) + SHORT / r + (TWIDDLE + EXCHANGE if p else 0.0)) * e * r
        if mirrored and not _meets(Passes(radices, threads, stride)):
            cost += MIRROR * n / threads
        cost *= threads / n * (1 + max(held, EASE) / 32)  # registers in use keep other warps out
        # Of equals, the one that ends on a small radix was faster; where wavenumbers meet, one that ends on 8.
        cost += 3.0 * (radices[-1] != 8) - 0.01 * radices[0] if mirrored else 0.01 * radices[-1]
        found.append((cost, Passes(radices, threads, stride)))
    return found


@lru_cache(maxsize=1024)
def by_twos(n: int, stride: int, points: int) -> Passes | None:
    """The way in the fewest passes in which threads, part of a warp, hold so many points in every pass.

    Before the first pass these are two butterflies side by side. None where there is no such way.
    """
    threads = n // points
    if n % points or threads == 0 or 32 % threads:
        return None
    found = []
    for order in _factorisations(n, MOST_PASSES - 1):
        if 2 * order[0] == points and all(points % r == 0 for r in order):
            ways = _ways(order, points, stride, True, threads, False)
            found += [(len(order), max(order), cost, way) for cost, way in ways]
    return min(found, key=lambda way: way[:3])[3] if found else None


def _thread_counts(butterflies: list[int], fewest: int, most: int) -> list[int]:
    """Thread counts worth trying: those that share out the butterflies of some pass evenly."""
    counts = {count // d for count in butterflies for d in range(1, 17) if count % d == 0}
    return sorted(count for count in counts if fewest <= count <= most)


@lru_cache(maxsize=1024)
def within_warp(n: int, itemsize: int, points: int = 16, contiguous: bool = False) -> Passes | None:
    """The cheapest way in which a part of a warp transforms n points, at most `points` a thread; None if there is none.

    Every thread has as much to do as the others, and holds points 2i and 2i + 1 before the first pass (and after the
    last one of the inverse). Threads of a `contiguous` transform read pieces of 64 bytes if possible.
    """
    if n == 1 or factors(n) is None:
        return None
    if n >= LONG and points < POINTS[itemsize]:
        # A thread that holds more is worth a pass less.
        more = within_warp(n, itemsize, POINTS[itemsize], contiguous)
        if more is not None and len(more.radices) == FEW_PASSES:
            return more
    found = []
    for radices in _factorisations(n, MOST_PASSES - 1):
        for threads in (1, 2, 4, 8, 16, 32):
            each = [n // r // threads for r in radices]
            if n // threads > min(points, POINTS[itemsize]) or each[0] % 2 or any(n // r % threads for r in radices):
                continue
            cost = sum(map(_arithmetic, radices)) + (TWIDDLE + EXCHANGE) * (len(radices) - 1)
            cost += 4.0 * (each[0] != 2)
            cost += 50.0 if contiguous and threads * 2 * itemsize < 64 else 32 / threads / 4
            found.append((cost, max(radices), Passes(radices, threads, 1)))
    return min(found, key=lambda way: way[:2])[2] if found else None
