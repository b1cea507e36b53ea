"""Transforms that are spread over the blocks of a cluster, where one block has no room for them or reads too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cuda.geometry import ALL_REGISTERS, BYTES, CLUSTER_BYTES, MULTIPROCESSOR_BYTES, SYSTEM_BYTES, Lines
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import POINTS, Passes, passes

__all__ = [
    "COEFFICIENTS", "Spread",
    "coefficients", "columns_in_clusters", "lines_in_clusters", "spread_columns", "spread_lines",
]  # fmt: skip

FILE = "spread.cu"
# Template argument in the place of factors.
COEFFICIENTS = ", Coefficients"
# Columns that one block would read in pieces of fewer bytes, of which half is wasted, are read by clusters; those of
# as many where two blocks share a multiprocessor. It does not pay for longer pieces: blocks that wait for one another
# leave multiprocessors idle.
PIECE_BYTES = 32
# Parts to try, the best first. A cluster of more than eight blocks does not fit every device.
LINE_PARTS, COLUMN_PARTS, SHARING_PARTS = (16, 8, 4), (8, 4, 2), (4, 8, 2)
# Parts where lines have filters of their own, whose wavenumbers part by part lie far from one another in memory.
OWN_PARTS = 8
# Parts of a line in a block, among which mirrored wavenumbers meet, and registers of its threads.
MIRRORED, LINE_REGISTERS = 2, 128
# Threads of a block for columns where it has a multiprocessor to itself; registers that each of them needs, half of
# them in single precision if it holds few points.
MOST_THREADS, REGISTERS, FEW_POINTS = {4: 512, 8: 256}, {4: 128, 8: 255}, 16


@dataclass(frozen=True, slots=True)
class Spread:
    """In how many parts a transform is done, how each of them is, and the bytes of a real number."""

    parts: int
    lines: Lines
    itemsize: int
    each: int = 1  # parts of a block

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.parts // self.each

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.each * self.lines.threads

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
        return self.each * self.passes.padded * self.lines.lines * 2 * self.itemsize

    @property
    def easy(self) -> bool:
        """Whether threads do with half of the registers."""
        return self.itemsize == 4 and self.passes.size <= FEW_POINTS * self.passes.threads

    @property
    def blocks(self) -> int:
        """Blocks of a multiprocessor."""
        by_memory = MULTIPROCESSOR_BYTES // (self.shared + SYSTEM_BYTES)
        registers = REGISTERS[self.itemsize] // (2 if self.easy else 1) if self.each == 1 else LINE_REGISTERS
        return max(1, min(by_memory, ALL_REGISTERS // (self.threads * registers)))

    @property
    def words(self) -> str:
        """Parts and radices, for explain()."""
        return f"{self.parts}*{self.passes.words}"

    @property
    def angles_at(self) -> int:
        """Where in the table those begin that tell packed values apart."""
        return 2 * self.passes.size - sum(self.passes.radices[:: len(self.passes.radices) - 1]) + self.passes.size

    @property
    def angles(self) -> int:
        """How many these are."""
        return self.size // self.passes.radices[-1]

    def table(self, scale: float, angles: bool) -> np.ndarray[Any, Any]:
        """Twiddle factors of a part, then those between parts; with `angles` those that tell packed values apart."""
        n, m = self.size, self.passes.size
        found = [self.passes.table(scale, False), np.exp(-2j * np.pi * np.arange(m) / n)]
        if angles:
            k = np.arange(self.parts)[:, None] + self.parts * np.arange(m // self.passes.radices[-1])
            found.append(np.exp(-1j * np.pi * k / n).ravel())
        return np.concatenate(found)


def spread_lines(n: int, itemsize: int, shared_bytes: int, one: bool = True) -> Spread | None:
    """Lines of n complex numbers, with as few threads as can hold them; None where none fit or nothing is shared.

    More threads wait no less for memory and other blocks, and a thread with more numbers has more loads on their way.
    `one`: whether one filter is for all lines.
    """
    ways = [(parts, shared_bytes) for parts in LINE_PARTS]
    if not one:
        ways.insert(0, (OWN_PARTS, shared_bytes // 2 - SYSTEM_BYTES))
    for parts, room in ways:
        fewest = -(-n // (parts * POINTS[itemsize]))
        for threads in (fewest, 4 * fewest // 3, 2 * fewest, 4 * fewest):
            found = _spread(n, parts, 1, itemsize, threads, 1, MIRRORED)
            if found is not None and found.shared <= room and shared_bytes >= CLUSTER_BYTES:
                return found
    return None


def spread_columns(n: int, column: Lines, itemsize: int, shared_bytes: int) -> Spread | None:
    """Columns of n numbers which one block would read in small pieces, as `column` says; None where that is not so."""
    piece = column.lines * 2 * itemsize
    if piece > PIECE_BYTES or shared_bytes < CLUSTER_BYTES:
        return None
    widths = (64 // itemsize, 32 // itemsize)

    def ways(orders: tuple[int, ...]) -> list[Spread]:
        found = [
            _spread(n, parts, 2, itemsize, MOST_THREADS[itemsize] // width, width)
            for parts in orders
            for width in widths
        ]
        return [each for each in found if each is not None and each.shared <= shared_bytes]

    sharing = [each for each in ways(SHARING_PARTS) if each.easy and each.blocks > 1]
    alone = ways(COLUMN_PARTS) if piece < PIECE_BYTES else []
    return next(iter(sharing + alone), None)


def _spread(n: int, parts: int, together: int, itemsize: int, threads: int, lines: int, each: int = 1) -> Spread | None:
    """Every block of one part reads as many points of each other part, `together` neighbours at a time."""
    if n % (parts * (parts * together if each == 1 else 1)):
        return None
    found = passes(n // parts, itemsize, lines, False, threads)
    return Spread(parts, Lines(found, lines), itemsize, each) if isinstance(found, Passes) else None


def lines_in_clusters(
    spread: Spread, reals: tuple[str, str], count: int, options: tuple[str, ...], factors: str
) -> Kernel:
    """Forward, product and inverse of `count` real lines of twice as many values.

    `factors`: as template arguments; :data:`COEFFICIENTS` where :func:`coefficients` come before.
    """
    passes = f"{spread.passes.threads}, {spread.passes.expression}"
    name = f"lines_spread<{', '.join(reals)}, {spread.parts}, {spread.blocks}, {passes}{factors}>"
    return _kernel(spread, name, count, options)


def coefficients(spread: Spread, real: str, options: tuple[str, ...], factors: str) -> Kernel:
    """What :func:`lines_in_clusters` multiplies by where one filter is for all lines."""
    name = f"spread_coefficients<{real}, {spread.parts}, {spread.passes.expression}{factors}>"
    threads = 64
    return Kernel(FILE, name, (-(-spread.angles // threads),), (threads,), 0, options)


def columns_in_clusters(
    spread: Spread, real: str, form: str, pitch: int, blocks: Sequence[int], options: tuple[str, ...], factors: str
) -> Kernel:
    """The same in place, of columns whose elements lie `pitch` apart. `blocks`: planes and columns of a plane."""
    assert BYTES[real] == spread.itemsize
    planes, columns = blocks
    name = f"columns_spread<{real}, {spread.parts}, {form}, {pitch}, {spread.blocks}, {spread.lines.template}{factors}>"
    return _kernel(spread, name, planes * -(-columns // spread.lines.lines), options)


def _kernel(spread: Spread, name: str, clusters: int, options: tuple[str, ...]) -> Kernel:
    grid, block = (clusters * spread.cluster,), (spread.threads,)
    return Kernel(FILE, name, grid, block, spread.shared, options, cluster=spread.cluster)
