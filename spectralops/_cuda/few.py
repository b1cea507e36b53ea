"""Geometry of the kernels for a few wavenumbers of long real lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cuda.launch import Kernel

__all__ = ["MOST", "Few", "few_geometry", "few_kernel"]

FILE = "few.cu"
# Wavenumbers that the register transform has, and lanes of a warp.
MOST, LANES = 16, 32
# Threads of a line at most, and of a block.
THREADS = 128


@dataclass(frozen=True, slots=True)
class Few:
    """How a block finds the first wavenumbers of a line: by sums over its threads."""

    size: int
    threads: int

    @property
    def expression(self) -> str:
        """Template arguments beside the kept wavenumbers."""
        return f"{self.size}, {self.threads}"

    @property
    def padded(self) -> int:
        """Complex numbers of shared memory: one real number a thread, if there are several warps."""
        return self.threads // 2 if self.threads > LANES else 0

    @property
    def words(self) -> str:
        """How it is done, for explain()."""
        return f"{MOST}, the first of {self.size}"

    @property
    def reversed_at(self) -> int:
        """Where the table of the inverse begins: it is the same."""
        return 0

    def table(self, scale: float, roots: bool) -> np.ndarray[Any, Any]:
        """exp(-2 pi i k t / size) for every wavenumber k and thread t."""
        turns = np.outer(np.arange(MOST), np.arange(self.threads)) / self.size
        factors: np.ndarray[Any, Any] = scale * np.exp(-2j * np.pi * turns).ravel()
        return factors


def few_geometry(size: int, kept: int, itemsize: int) -> Few | None:
    """The threads of a line, None where it is too short or of an odd length, or where too much is kept."""
    pairs, rest = divmod(size, 2 * MOST * LANES)
    if rest or kept > MOST or itemsize != 4:
        return None
    return Few(size, LANES * next(warps for warps in range(THREADS // LANES, 0, -1) if pairs % warps == 0))


def few_kernel(name: str, reals: tuple[str, str], few: Few, kept: int, lines: int, options: tuple[str, ...]) -> Kernel:
    """`few_forward` or `few_inverse`."""
    together = THREADS // few.threads
    template = f"{', '.join(reals)}, {kept}, {together}, {few.expression}"
    shared = few.padded * together * 8
    return Kernel(
        FILE, f"{name}<{template}>", (-(-lines // together),), (few.threads * together,), shared, options, early=True
    )
