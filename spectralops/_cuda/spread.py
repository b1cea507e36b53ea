"""Transforms that are spread over the blocks of a cluster, where one block has no room for them or reads too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cuda.geometry import ALL_REGISTERS, BYTES, CLUSTER_BYTES, MULTIPROCESSOR_BYTES, SYSTEM_BYTES, Lines
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Passes, passes

__all__ = ["Spread", "columns_in_clusters", "lines_in_clusters", "spread_columns", "spread_lines"]

FILE = "spread.cu"
# Columns that one block would read in pieces of fewer bytes, of which half is wasted, are read by clusters. It does not
# pay for longer pieces: blocks that wait for one another leave multiprocessors idle.
PIECE_BYTES = 32
# Parts to try, the best first. A cluster of more than eight blocks does not fit every device.
LINE_PARTS, COLUMN_PARTS = (4, 8, 2), (8, 4, 2)
# Threads of a block, and the most where it has a multiprocessor to itself; registers that each of them needs.
THREADS, MOST_THREADS, REGISTERS = 256, {4: 512, 8: 256}, {4: 128, 8: 255}


@dataclass(frozen=True, slots=True)
class Spread:
    """How many blocks share a transform, what each of them transforms, and the bytes of a real number."""

    parts: int
    lines: Lines
    itemsize: int

    @property
    def passes(self) -> Passes:
        """Of one part."""
        assert isinstance(self.lines.passes, Passes)
        return self.lines.passes

    @property
    def size(self) -> int:
        """Number of points."""
        return self.parts * self.passes.size

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self.passes.padded * self.lines.lines * 2 * self.itemsize

    @property
    def blocks(self) -> int:
        """Blocks of a multiprocessor."""
        by_memory = MULTIPROCESSOR_BYTES // (self.shared + SYSTEM_BYTES)
        return max(1, min(by_memory, ALL_REGISTERS // (self.lines.threads * REGISTERS[self.itemsize])))

    @property
    def words(self) -> str:
        """Parts and radices, for explain()."""
        return f"{self.parts}*{self.passes.words}"

    def table(self, scale: float, angles: bool) -> np.ndarray[Any, Any]:
        """Twiddle factors of a part, then those between parts; with `angles` those that tell packed values apart."""
        n, m = self.size, self.passes.size
        found = [self.passes.table(scale, False), np.exp(-2j * np.pi * np.arange(m) / n)]
        if angles:
            k = np.arange(self.parts)[:, None] + self.parts * np.arange(m // self.passes.radices[-1])
            found.append(np.exp(-1j * np.pi * k / n).ravel())
        return np.concatenate(found)


def spread_lines(n: int, itemsize: int, shared_bytes: int) -> Spread | None:
    """Lines of n complex numbers, if possible two blocks a multiprocessor; None where none fit or nothing is shared."""
    for threads, room in ((THREADS, shared_bytes // 2 - SYSTEM_BYTES), (MOST_THREADS[itemsize], shared_bytes)):
        for parts in LINE_PARTS:
            found = _spread(n, parts, 1, itemsize, threads, 1)
            if shared_bytes >= CLUSTER_BYTES and found is not None and found.shared <= room:
                return found
    return None


def spread_columns(n: int, column: Lines, itemsize: int, shared_bytes: int) -> Spread | None:
    """Columns of n numbers which one block would read in small pieces, as `column` says; None where that is not so."""
    if column.lines * 2 * itemsize >= PIECE_BYTES or shared_bytes < CLUSTER_BYTES:
        return None
    widest = 64 // itemsize
    for parts in COLUMN_PARTS:
        for width in (widest, widest // 2):
            found = _spread(n, parts, 2, itemsize, MOST_THREADS[itemsize] // width, width)
            if found is not None and found.shared <= shared_bytes:
                return found
    return None


def _spread(n: int, parts: int, together: int, itemsize: int, threads: int, lines: int) -> Spread | None:
    """Every part reads as many points of each other part, `together` neighbours at a time."""
    if n % (parts * parts * together):
        return None
    found = passes(n // parts, itemsize, lines, False, threads)
    return Spread(parts, Lines(found, lines), itemsize) if isinstance(found, Passes) else None


def lines_in_clusters(
    spread: Spread, reals: tuple[str, str], count: int, options: tuple[str, ...], factors: str
) -> Kernel:
    """Forward, product and inverse of `count` real lines of twice as many values."""
    passes = f"{spread.passes.threads}, {spread.passes.expression}"
    name = f"lines_spread<{', '.join(reals)}, {spread.parts}, {spread.blocks}, {passes}{factors}>"
    return _kernel(spread, name, count, options)


def columns_in_clusters(
    spread: Spread, real: str, form: str, pitch: int, blocks: Sequence[int], options: tuple[str, ...], factors: str
) -> Kernel:
    """The same in place, of columns whose elements lie `pitch` apart. `blocks`: planes and columns of a plane."""
    assert BYTES[real] == spread.itemsize
    planes, columns = blocks
    name = f"columns_spread<{real}, {spread.parts}, {form}, {pitch}, {spread.blocks}, {spread.lines.template}{factors}>"
    return _kernel(spread, name, planes * -(-columns // spread.lines.lines), options)


def _kernel(spread: Spread, name: str, clusters: int, options: tuple[str, ...]) -> Kernel:
    grid, block = (clusters * spread.parts,), (spread.lines.threads,)
    return Kernel(FILE, name, grid, block, spread.shared, options, cluster=spread.parts)
