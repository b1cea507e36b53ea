"""Geometry of the kernels that transform both axes of a real image in the blocks of one cluster."""

from __future__ import annotations

from dataclasses import dataclass

from spectralops._cuda.geometry import ALL_REGISTERS, CLUSTER_BYTES, MULTIPROCESSOR_BYTES, SYSTEM_BYTES
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Passes, by_twos

__all__ = ["Image", "image_filter", "image_geometry", "image_kernel"]

FILE = "images.cu"
# Blocks of a cluster, and threads of a block; by bytes of a number the points that each of them holds: few where they
# suffice, since other clusters then run beside.
PARTS, THREADS, POINTS = (2, 4, 8), 256, {4: (16, 32), 8: (16,)}
# Lengths of axes.
SHORTEST, LONGEST = 64, 512
# Images from which on it pays to have so many blocks for each: fewer leave multiprocessors idle, or are as fast.
MANY_PARTS, IMAGES = 8, 16
# Bytes of a plane of a volume, of which other passes remain, up to which it pays.
PLANE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Image:
    """How many blocks share an image, what each of them transforms, and how many share a multiprocessor."""

    parts: int
    row: Passes
    column: Passes
    itemsize: int
    blocks: int

    @property
    def rows(self) -> int:
        """Pairs of rows of a block."""
        return -(-self.column.size // (2 * self.parts))

    @property
    def columns(self) -> int:
        """Columns of a block, of those in the first half."""
        return -(-((self.row.size + 1) // 2) // self.parts)

    @property
    def groups(self) -> int:
        """Pairs of rows that all threads of a block could transform."""
        return max(self.rows, -(-self.columns * self.column.threads // self.row.threads))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.groups * self.row.threads

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        numbers = max(self.groups * self.row.padded, self.columns * self.column.padded)
        if self.row.size % 2 == 0:
            numbers += 2 * self.column.size  # multipliers of columns 0 and W / 2
        return numbers * 2 * self.itemsize

    def template(self, reals: tuple[str, str]) -> str:
        """Template arguments that all kernels take. `reals`: types of the values in memory and of the arithmetic."""
        axes = ", ".join(f"{each.threads}, {each.expression}" for each in (self.row, self.column))
        counts = f"{self.blocks}, {self.threads}, {self.parts}, {self.rows}, {self.columns}"
        return f"{', '.join(reals)}, {counts}, {axes}"


def image_geometry(
    sizes: tuple[int, ...], itemsize: int, shared_bytes: int, images: int, volumes: bool
) -> Image | None:
    """How a cluster transforms real images, or planes of `volumes`, of these sizes; None where that does not pay.

    It does for lengths that leave no thread idle, which are powers of two, if a block has as many neighbouring columns
    as a thread has points: shorter pieces take as long.
    """
    height, width = sizes
    if shared_bytes < CLUSTER_BYTES or not SHORTEST <= min(sizes) <= max(sizes) <= LONGEST:
        return None
    if volumes and height * width * itemsize > PLANE_BYTES:
        return None
    for points in POINTS[itemsize]:
        parts, rest = divmod(height * width, 2 * points * THREADS)
        if rest or parts not in PARTS:
            continue
        columns = width // 2 // parts
        row, column = by_twos(width, 1, points), by_twos(height, columns, points)
        if row is None or column is None or columns < points or (parts == MANY_PARTS and images < IMAGES):
            return None
        return Image(parts, row, column, itemsize, ALL_REGISTERS // (THREADS * points * itemsize))
    return None


def image_filter(image: Image, reals: tuple[str, str], count: int, options: tuple[str, ...], factors: str) -> Kernel:
    """Both axes of `count` images forward, the product, and back."""
    return _kernel(image, f"images_filter<{image.template(reals)}{factors}>", count, options)


def image_kernel(name: str, image: Image, reals: tuple[str, str], count: int, options: tuple[str, ...]) -> Kernel:
    """`images_forward` or `images_inverse`."""
    return _kernel(image, f"{name}<{image.template(reals)}>", count, options)


def _kernel(image: Image, name: str, count: int, options: tuple[str, ...]) -> Kernel:
    grid, block = (count * image.parts,), (image.threads,)
    carveout = min(100, -(-100 * image.blocks * (image.shared + SYSTEM_BYTES) // MULTIPROCESSOR_BYTES))
    return Kernel(FILE, name, grid, block, image.shared, options, carveout=carveout, cluster=image.parts)
