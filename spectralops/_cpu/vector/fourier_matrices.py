"""The real Fourier matrices of truncated transforms: cosines and sines for the folded parts of an axis."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import host

__all__ = ["Part", "column_parts", "padded", "row_parts", "sum_rows"]

Array = np.ndarray[Any, Any]


def padded(count: int, multiple: int) -> int:
    """The next multiple."""
    return -(-count // multiple) * multiple


def _frozen(values: Array, dtype: str) -> Array:
    matrix = np.ascontiguousarray(values, dtype)
    matrix.setflags(write=False)
    return matrix


def waves(k: Array, j: Array, n: int) -> tuple[Array, Array]:
    """The cosine and the sine of 2πkj/n, reduced in integers and exact where they are 0 or ±1."""
    turns = np.outer(k, j) % n
    angles = turns * (2 * math.pi / n)
    cosine, sine = np.cos(angles), np.sin(angles)
    sine[2 * turns % n == 0] = 0.0
    cosine[(4 * turns % n == 0) & (2 * turns % n != 0)] = 0.0
    return cosine, sine


@dataclass(frozen=True, eq=False)
class Part:
    """One matrix and what it maps: where and how many the folded points and the kept sums are."""

    matrix: Array
    folded: int
    kept: int
    points: int
    modes: int


def sum_rows(n: int, highest: int) -> tuple[Array, Array]:
    """Where the sums of cosines and of sines of each wavenumber 0 … highest stand."""
    k = np.arange(highest + 1)
    if n % 2:
        return k, highest + 1 + k
    evens, odds = highest // 2 + 1, (highest + 1) // 2
    cosine = np.where(k % 2, evens + k // 2, k // 2)
    sine = np.where(k % 2, evens + odds + k // 2, evens + 2 * odds + k // 2)
    return cosine, sine


def folded_rows(n: int) -> tuple[int, int, int, int]:
    """How many rows each part of a folded axis has: C even, C odd, S odd, S even; C, 0, S, 0 for an odd axis."""
    half = n // 2
    if n % 2:
        return half + 1, 0, half, 0
    pairs, middle = (half + 1) // 2, 1 - half % 2
    return pairs + middle, pairs, pairs - 1 + middle, pairs - 1


@lru_cache(maxsize=32)
def column_parts(n: int, highest: int, inverse: bool, dtype: str) -> tuple[Part, ...]:
    """The matrices of a column axis: sums of cosines and of minus sines forward, plain sums backward."""
    sizes = folded_rows(n)
    starts = [0, *itertools.accumulate(sizes)]
    k = np.arange(highest + 1)
    groups = [k, k[:0], k, k[:0]] if n % 2 else [k[::2], k[1::2], k[1::2], k[::2]]
    parts, kept = [], 0
    for i, (size, chosen) in enumerate(zip(sizes, groups, strict=True)):
        if len(chosen) or inverse:  # without modes, the inverse is zero
            j = np.arange(size) + (i >= 2)
            cosine, sine = waves(chosen, j, n)
            matrix = cosine if i < 2 else sine if inverse else -sine
            parts.append(Part(_frozen(matrix.T if inverse else matrix, dtype), starts[i], kept, size, len(chosen)))
        kept += len(chosen)
    return tuple(parts)


@lru_cache(maxsize=32)
def row_parts(
    n: int, m: int, low: int, halved: bool, folded: bool, imag: int, inverse: bool, dtype: str
) -> tuple[Part, ...]:
    """The matrices of the last axis: to real and imaginary parts `imag` apart, and back.

    Back, wavenumbers of a halved axis count twice, but zero and Nyquist once.
    """
    k = np.arange(low, low + m)
    weights = np.where((k == 0) | (2 * k == n), 1.0, 2.0) if halved and inverse else np.ones(m)
    lanes = host.lanes(dtype)
    if folded:
        half, sines = n // 2 + 1, (n - 1) // 2
        cosine, _ = waves(k, np.arange(half), n)
        _, sine = waves(k, np.arange(1, sines + 1), n)
        matrices = (cosine * weights[:, None], -sine * weights[:, None])
        places, sizes = (0, padded(half, lanes)), (half, sines)
        return tuple(
            Part(_widened(matrix if inverse else matrix.T, lanes, dtype), place, kept, size, m)
            for matrix, place, kept, size in zip(matrices, places, (0, imag), sizes, strict=True)
        )
    cosine, sine = waves(k, np.arange(n), n)
    numbers = 1 if halved else 2
    # Forward and backward alike; after each part, where no modes are, zeros are written and read.
    matrix = np.zeros((2, imag, n, numbers))
    matrix[0, :m, :, 0], matrix[1, :m, :, 0] = cosine * weights[:, None], -sine * weights[:, None]
    if not halved:
        matrix[0, :m, :, 1], matrix[1, :m, :, 1] = sine, cosine
    rows = matrix.reshape(2 * imag, numbers * n)
    return (Part(_widened(rows if inverse else rows.T, lanes, dtype), 0, 0, numbers * n, 2 * imag),)


def _widened(matrix: Array, lanes: int, dtype: str) -> Array:
    """Rows in whole vectors."""
    wide = np.zeros((matrix.shape[0], padded(max(matrix.shape[1], 1), lanes)))
    wide[:, : matrix.shape[1]] = matrix
    return _frozen(wide, dtype)
