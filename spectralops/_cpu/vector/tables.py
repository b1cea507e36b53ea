"""Radices, twiddle factors and orders of one transform length: what the kernels read at run time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import host, kernels
from spectralops._cpu.vector.butterflies import RADICES, TWOS
from spectralops._cpu.vector.choice import chirp_length, has_passes, prime_factors

__all__ = [
    "FIELDS_PER_STAGE",
    "FIRST_STAGE",
    "Axis",
    "axis",
    "convolution_filter",
    "factorise",
    "half_transfer",
    "roots",
    "sums_together",
    "twist",
    "untangling_roots",
]

# An axis is an array of integers: length, stages, leading stages, length of a block after them; then per stage the
# radix, the size of the blocks it splits, and where its twiddle factors begin. Those of a radix that has no butterfly
# are followed by its cosines and sines.
FIRST_STAGE = 4
FIELDS_PER_STAGE = 3
# Radices of a last stage that are worth leaving out.
LAST = (8, 5, 4)
# What the passes of one block should fit in: half of a usual first-level data cache.
BLOCK_BYTES = 1 << 14
# Longest transform of which a group of 32-byte vectors fits in there.
SHORT = 256


def factorise(n: int, registers: int) -> tuple[int, ...]:
    """Radices of the passes, in order; `registers` is how many vectors the CPU holds.

    A butterfly of 8 keeps 16 vectors and its temporaries alive: it pays where there are 32 registers, or where all of a
    group lies in the first-level cache; otherwise 4 is faster and 8 only replaces a last 4·2. The odd radices go last,
    where most of their visits need no twiddle factors.
    """
    many = registers >= 32 or n <= SHORT
    factors = prime_factors(n)
    odd = [factor for factor in factors if factor > 2]
    twos = len(factors) - len(odd)
    eights = twos // 3 if many else int(twos > 1 and twos % 2 == 1)
    rest = twos - 3 * eights
    if rest == 1 and eights:
        eights, rest = eights - 1, 4
    return (*[4] * (rest // 2), *[2] * (rest % 2), *[8] * eights, *odd)


def roots(n: int, powers: np.ndarray) -> Any:
    """exp(−2πi p/n) for integers p, from extended precision so that rounding to float64 is the only error."""
    turn = 8 * np.arctan(np.longdouble(1))
    angles = (powers % n).astype(np.longdouble) * (turn / n)
    return np.cos(angles).astype(float) - 1j * np.sin(angles).astype(float)


@dataclass(frozen=True, eq=False)
class Axis:
    """The tables of one transform length, read-only and shared between threads."""

    n: int
    plan: np.ndarray  # see FIRST_STAGE, or chirp.py
    twiddles: np.ndarray  # (real, imaginary) pairs; stage after stage, column after column, radix − 1 of them
    position: np.ndarray  # where frequency k stands
    frequency: np.ndarray  # which frequency stands at position i
    forward: str  # kernels
    inverse: str
    space: int = 0  # positions that a group must have room for, if more than n
    keep: Any = None


@lru_cache(maxsize=128)
def axis(n: int, dtype: str) -> Axis:
    """The tables of the transforms of length n."""
    return _axis_of_passes(n, dtype) if has_passes(n) else _chirp_axis(n, dtype)


@lru_cache(maxsize=128)
def shortened_axis(n: int, radix: int, dtype: str) -> Axis:
    """The transforms of length n without their last stage, one of this radix."""
    radices = list(factorise(n, host.registers()))
    radices.remove(radix)
    whole = _axis_of_passes(n, dtype, (*radices, radix))
    plan = whole.plan.copy()
    plan[1] -= 1
    return replace(whole, plan=_frozen(plan)[0], keep=whole)


def last_radix(n: int, modes: int) -> int:
    """The largest radix of length n of which so many modes need few sums; 0 where there is none that pays."""
    found = [radix for radix in factorise(n, host.registers()) if modes * radix <= n]
    return max((radix for radix in found if radix in LAST), default=0)


def sums_together() -> int:
    """Outputs that a pass without a butterfly sums at a time: as many as the registers hold."""
    return 4 if host.registers() >= 32 else 2


def _sums(radix: int) -> np.ndarray[Any, Any]:
    """cos(2πpq/r) + i sin(2πpq/r) for p and q = 1 … r/2: for each few q, all p, of each of these q."""
    half, together = radix // 2, sums_together()
    table = np.zeros((-(-half // together) * together, half), complex)
    table[:half] = roots(radix, np.outer(np.arange(1, half + 1), np.arange(1, half + 1))).conj()
    return table.reshape(-1, together, half).swapaxes(1, 2).ravel()


def _axis_of_passes(n: int, dtype: str, radices: tuple[int, ...] = ()) -> Axis:
    radices = radices or factorise(n, host.registers())
    frequency = np.zeros(1, np.int64)
    for radix in reversed(radices):
        frequency = np.concatenate([q + radix * frequency for q in range(radix)])
    row = 2 * host.vector_bytes()
    lead, block = 0, n
    while block * row > BLOCK_BYTES and lead < len(radices) - 1:
        block //= radices[lead]
        lead += 1
    fields = [n, len(radices), lead, block]
    factors = []
    size, begin = n, 0
    for radix in radices:
        fields += [radix, size, begin]
        stage = roots(size, np.outer(np.arange(size // radix), np.arange(1, radix)))
        factors.append(stage.ravel())
        begin += 2 * stage.size
        if radix not in RADICES:
            factors.append(_sums(radix))
            begin += 2 * factors[-1].size
        size //= radix
    twiddles = np.concatenate([*factors, np.zeros(1)]).view(float).astype(dtype)
    plan, twiddles, position, order = _frozen(np.array(fields, np.int64), twiddles, np.argsort(frequency), frequency)
    largest = max(radices, default=1)
    is_rough = largest not in (1, *RADICES)
    suffix = "_twos" if set(radices) <= set(TWOS) else "_primes" if is_rough else ""
    space = n + largest - 1 if is_rough else 0
    return Axis(n, plan, twiddles, position, order, f"forward{suffix}", f"inverse{suffix}", space)


def _chirp_axis(n: int, dtype: str) -> Axis:
    m = chirp_length(n)
    inner = axis(m, dtype)
    chirp = roots(2 * n, np.arange(n) ** 2)
    wrapped = np.zeros(m, complex)
    wrapped[:n] = chirp.conj()
    wrapped[m - n + 1 :] = chirp[:0:-1].conj()
    numbers = np.concatenate([chirp, np.fft.fft(wrapped)[inner.frequency] / m]).view(float).astype(dtype)
    kernels_of = (kernels.address(inner.forward, dtype), kernels.address(inner.inverse, dtype))
    fields = [n, m, inner.plan.ctypes.data, inner.twiddles.ctypes.data, *kernels_of]
    plan, numbers, order = _frozen(np.array(fields, np.int64), numbers, np.arange(n))
    return Axis(n, plan, numbers, order, order, "chirp_forward", "chirp_inverse", m, inner)


def _frozen(*arrays: np.ndarray) -> Any:
    for array in arrays:
        array.setflags(write=False)
    return arrays


@lru_cache(maxsize=128)
def untangling_roots(n: int, dtype: str) -> np.ndarray[Any, Any]:
    """exp(−2πi k/n) for k = 0 … n/4 as (real, imaginary) pairs: what untangles n real numbers."""
    table: np.ndarray[Any, Any] = roots(n, np.arange(n // 4 + 1)).view(float).astype(dtype)
    table.setflags(write=False)
    return table


@lru_cache(maxsize=128)
def _sines(n: int) -> tuple[Any, Any]:
    """Sines and cosines of 2πk/n for k = 0 … n/4."""
    found = roots(n, np.arange(n // 4 + 1))
    return -found.imag, found.real


def convolution_filter(factors: np.ndarray[Any, Any], n: int, m: int, halved: bool) -> np.ndarray[Any, Any]:
    """What filters n points as `factors` do when zeros make m ≥ 2n − 1 of them: the transform of the filter's kernel.

    Result j is the sum over points i of x_i h_{(j−i) mod n}, h the inverse transform of the factors: a convolution that
    does not wrap around m points if h stands there twice, at the places 0 … n − 1 and −(n − 1) … −1.
    """
    kernel = np.fft.irfft(factors.astype(complex), n) if halved else np.fft.ifft(factors.astype(complex))
    placed = np.zeros(m, kernel.dtype)
    placed[:n] = kernel
    placed[m - n + 1 :] = kernel[1:]
    spectrum: np.ndarray[Any, Any] = (np.fft.rfft if halved else np.fft.fft)(placed)
    return spectrum


def half_transfer(factors: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    """What a half spectrum of factors does to n real numbers that are transformed as n/2 complex ones.

    With m = n/2, P = (H_k + conj H_{m-k})/2 and Q = (H_k - conj H_{m-k})/2, untangling, multiplying and retangling are

        Z'_k = (P - Q sin 2πk/n) Z_k + i Q cos 2πk/n conj Z_{m-k}
        conj Z'_{m-k} = (P + Q sin 2πk/n) conj Z_{m-k} - i Q cos 2πk/n Z_k

    Rows k = 0 … n/4 hold these three numbers, scaled for the inverse transform. Those of k = 0 are real, and what a
    real signal cannot have is dropped: the first row is P and Q of the real parts, as one complex number.
    """
    half = factors * (1.0 / n)
    here, there = half[: n // 4 + 1], half[: n // 2 - n // 4 - 1 : -1].conj()
    total, difference = here + there, here - there
    sine, cosine = _sines(n)
    table = np.empty((len(here), 3), np.result_type(half.dtype, 1j))
    turned = difference * sine
    table[:, 0] = total - turned
    table[:, 1] = difference * (1j * cosine)
    table[:, 2] = total + turned
    table[0, 0] = complex(total[0].real, difference[0].real)
    return table


@lru_cache(maxsize=16)
def twist(rows: int, columns: int, full: bool, dtype: str) -> np.ndarray:
    """exp(−2πi r c/(rows·columns)) in tiles [block of rows][column][real, imaginary][lane].

    Rows r are 0 … rows/2, or all in digit-reversed order where the spectrum is full.
    """
    lanes = host.lanes(dtype)
    order = axis(rows, dtype).frequency if full else np.arange(rows // 2 + 1)
    order = np.pad(order, (0, -len(order) % lanes))
    factors = roots(rows * columns, np.outer(order, np.arange(columns)))
    tiles = np.stack([factors.real, factors.imag]).reshape(2, -1, lanes, columns).transpose(1, 3, 0, 2)
    table = np.ascontiguousarray(tiles, dtype)
    table.setflags(write=False)
    return table
