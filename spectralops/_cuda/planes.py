"""Geometry of the kernels that transform both axes of a small real image in one block."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spectralops._cuda.geometry import ALL_REGISTERS, SYSTEM_BYTES
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Passes, within_warp

__all__ = ["Plane", "filter_kernel", "plane_geometry", "plane_kernel"]

FILE = "planes.cu"
# Threads of a block, for a window of kept wavenumbers and for whole images.
WINDOW_THREADS, WHOLE_THREADS = 128, 256
# Threads of a block for windows that are all worked on at once anyhow, if so many are.
MORE_THREADS = (512, 256)
# Points of a thread; registers that it needs for so many (fewer do in blocks of whole images), for half as many in a
# row, or for more.
POINTS = {4: 16, 8: 8}
REGISTERS, WHOLE_REGISTERS, SHORT_REGISTERS = {4: 80, 8: 112}, {4: 72, 8: 112}, {4: 64, 8: 112}
MANY_REGISTERS = 128
MOST_THREADS = 2048


def _up_to(size: int, rest: int, banks: int) -> int:
    """The smallest number from `size` on that is `rest` modulo the number of banks."""
    return size + (rest - size) % banks


@dataclass(frozen=True, slots=True)
class Plane:
    """How a block transforms an image of which `kept` wavenumbers of a row are stored, all if that exceeds half."""

    row: Passes
    column: Passes
    kept: int
    threads: int
    itemsize: int

    @property
    def whole(self) -> bool:
        """Whether all wavenumbers are kept, and transforms exchanged in place."""
        return 2 * self.kept > self.row.size

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block: `Window` and the room beside it."""
        banks = 64 // self.itemsize
        row_room, column_room = (_up_to(each.padded, each.threads, banks) for each in (self.row, self.column))
        step = max(1, banks // self.column.threads)
        width = max(self.row.size + 2, self.row.padded) if self.whole else 2 * self.kept
        pitch = _up_to(width, step, banks)
        pairs = self.column.size // 2
        if self.whole:
            numbers = pairs * pitch + pairs // 8 * step
        else:
            rooms = (self.threads // self.row.threads * row_room, self.threads // self.column.threads * column_room)
            numbers = pairs * pitch + max(rooms)
        return numbers * 2 * self.itemsize

    def blocks(self, shared_bytes: int) -> int:
        """Blocks that a multiprocessor can run at a time."""
        by_memory = (shared_bytes + SYSTEM_BYTES) // (self.shared + SYSTEM_BYTES)
        points = max(each.size // each.threads for each in (self.row, self.column))
        short = 2 * self.row.size <= self.row.threads * POINTS[self.itemsize]
        usual = WHOLE_REGISTERS if self.whole else SHORT_REGISTERS if short else REGISTERS
        registers = usual[self.itemsize] if points <= POINTS[self.itemsize] else MANY_REGISTERS
        return min(by_memory, MOST_THREADS // self.threads, ALL_REGISTERS // (self.threads * registers))

    def shared_out(self, planes: int, shared_bytes: int, multiprocessors: int) -> Plane:
        """The same with more threads a block where all of so few planes are worked on at once."""
        ways = [replace(self, threads=threads) for threads in MORE_THREADS if not self.whole]
        return next((way for way in ways if planes <= multiprocessors * way.blocks(shared_bytes)), self)

    @property
    def passes(self) -> str:
        """Template arguments: threads and radices of rows and of columns."""
        axes = (self.row, self.column)
        return ", ".join(f"{each.threads}, {each.expression}" for each in axes)


def plane_geometry(sizes: tuple[int, ...], kept: int, itemsize: int, shared_bytes: int) -> Plane | None:
    """How a block transforms a real image of these sizes, None if two of them do not fit a multiprocessor."""
    height, width = sizes
    row = within_warp(width, itemsize, POINTS[itemsize], contiguous=True)
    column = within_warp(height, itemsize, POINTS[itemsize])
    if row is None or column is None or height % 2:
        return None
    whole = 2 * kept > width
    threads = WHOLE_THREADS if whole else WINDOW_THREADS
    if whole:
        while (height // 2) % (threads // row.threads):
            threads //= 2
        if height % 16 or threads < 32:
            return None
        # A warp more, which has columns only, where the last of them would need a round of their own.
        if -(-kept // ((threads + 32) // column.threads)) < -(-kept // (threads // column.threads)):
            threads += 32
    found = Plane(row, column, kept, threads, itemsize)
    return found if found.blocks(shared_bytes) >= 2 else None


def plane_kernel(
    name: str,
    reals: tuple[str, str],
    plane: Plane,
    kept: tuple[int, int],
    planes: int,
    shared_bytes: int,
    options: tuple[str, ...],
    multiprocessors: int = 0,
) -> Kernel:
    """`planes_forward` or `planes_inverse` with these wavenumbers of a column, how many and from which on.

    `reals`: the types of the values in memory and of the arithmetic.
    """
    plane = plane.shared_out(planes, shared_bytes, multiprocessors)
    blocks = plane.blocks(shared_bytes)
    template = f"{', '.join(reals)}, {plane.kept}, {kept[0]}, {kept[1]}, {plane.threads}, {blocks}, {plane.passes}"
    return Kernel(
        FILE, f"{name}<{template}>", (planes,), (plane.threads,), plane.shared, options, carveout=100, early=True
    )


def filter_kernel(
    reals: tuple[str, str], plane: Plane, planes: int, shared_bytes: int, options: tuple[str, ...], factors: str
) -> Kernel:
    """Both axes forward, the product, and back."""
    template = f"{', '.join(reals)}, {plane.threads}, {plane.blocks(shared_bytes)}, {plane.passes}{factors}"
    return Kernel(FILE, f"planes_filter<{template}>", (planes,), (plane.threads,), plane.shared, options, carveout=100)
