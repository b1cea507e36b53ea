"""Convolution of real images by one transform of each, or by tiles of columns, two rows or neighbours as one number.

One axis: the spectra of the kernels, then one kernel for all else. Two: rows forward, columns forward, multiplied and
back, rows back, for some kernels with all or some of their planes at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cuda.convolution_problem import FINISH, KERNEL, OUT, SPACE, SPACE_BYTES, TABLES, Problem, X
from spectralops._cuda.geometry import SHARED_BYTES, Lines, column_geometry, row_geometry, words
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Passes, passes
from spectralops._cuda.program import Address, Program
from spectralops._cuda.pruned import ALIGNMENT

__all__ = ["Layout", "layout_of", "packed"]

FILE = "conv_packed.cu"
PACKED = np.dtype(
    [(name, np.int64, 2) for name in ("size", "before", "out", "stride", "dilation")]
    + [
        (name, np.int64)
        for name in (
            "first", "pairs", "back", "step", "tiles", "image_divisor", "image_count", "kernel_divisor", "kernel_count",
            "first_kernel", "first_plane", "planes", "beside", "lines", "common", "flip",
        )
    ]
    + [("fill", np.float64), ("scale", np.float64)]
)  # fmt: skip
# Columns of a block by bytes of a number, 64 bytes, and its threads: many small blocks hide each other's waiting.
COLUMNS = {4: 8, 8: 4}
THREADS = (256, 384, 512)
# Lines from this length on are done in the order of the kernels, whose spectra are as long.
LONG_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """How images are transformed: lengths of the ring along each axis, geometry of its lines."""

    lengths: tuple[int, ...]
    row: Lines
    column: Lines | None
    itemsize: int

    @property
    def lines(self) -> tuple[Lines, ...]:
        """Geometry in the order of the axes."""
        return (self.row,) if self.column is None else (self.column, self.row)

    @property
    def words(self) -> str:
        """Radices, for explain()."""
        return words(self.lines)

    @property
    def scale(self) -> float:
        """Of the kernels' spectra, which come out of their symmetry twice, as images do along two axes."""
        return (0.5 if self.column is None else 0.25) / math.prod(self.lengths)


def layout_of(lengths: tuple[int, ...], itemsize: int, shared_bytes: int) -> Layout | None:
    """The layout of a ring of these lengths, None where a block does not hold a line."""
    if len(lengths) == 1:
        row = row_geometry(lengths[0] // 2, itemsize, shared_bytes, mirrored=True)
        return None if row is None else Layout(lengths, row, None, itemsize)
    row, column = row_geometry(lengths[1], itemsize, shared_bytes), _columns(lengths[0], itemsize, shared_bytes)
    return None if row is None or column is None else Layout(lengths, row, column, itemsize)


def _columns(n: int, itemsize: int, shared_bytes: int) -> Lines | None:
    """Blocks of few threads; fewer columns only where no such block holds them."""
    width = COLUMNS[itemsize]
    for threads in THREADS:
        found = passes(n, itemsize, width, True, threads // width)
        if isinstance(found, Passes) and found.padded * width * 2 * itemsize <= min(shared_bytes, SHARED_BYTES):
            return Lines(found, width)
    return column_geometry(n, itemsize, True, shared_bytes)


def packed(
    program: Program,
    task: Problem,
    layout: Layout,
    whole: bool,
    options: tuple[str, ...],
    inner: dict[int, Address],
) -> tuple[int, list[np.ndarray[Any, Any]]]:
    """Append the launches; give back the bytes of scratch memory and the twiddle factors that they need.

    `whole`: whether one ring holds all rows of an image.
    """
    builder = _Builder(program, task, layout, whole, options, inner)
    space = builder.line() if layout.column is None else builder.image()
    return space, [each.passes.table(1.0, layout.column is None) for each in layout.lines]


class _Builder:
    """Writes the launches of one problem."""

    def __init__(
        self,
        program: Program,
        task: Problem,
        layout: Layout,
        whole: bool,
        options: tuple[str, ...],
        inner: dict[int, Address],
    ) -> None:
        self.program, self.task, self.layout, self.whole = program, task, layout, whole
        self.options, self.inner = options, inner
        d = len(layout.lengths)
        arguments = np.zeros(1, PACKED)
        for name in ("size", "before", "out", "stride", "dilation"):
            arguments[name] = 0 if name == "before" else 1
            arguments[name][0, 2 - d :] = getattr(task, name)
        arguments["image_divisor"], arguments["image_count"] = task.image
        arguments["kernel_divisor"], arguments["kernel_count"] = task.kernel
        arguments["fill"], arguments["scale"] = task.fill.real, layout.scale
        self.arguments = arguments
        # Kernels as images: they begin in the first cell.
        taps = arguments.copy()
        taps["size"][0, 2 - d :], taps["before"], taps["fill"] = task.taps, 0, 0
        taps["common"], taps["flip"] = 1, task.flip
        self.taps = taps
        self.number_bytes = 2 * task.itemsize
        self.each_kernel = task.planes // task.kernel[1]

    def aligned(self, numbers: int) -> int:
        """Bytes of so many complex numbers."""
        return -(-numbers * self.number_bytes // ALIGNMENT) * ALIGNMENT

    def table(self, axis: int, back: bool = False) -> Address:
        """Twiddle factors along an axis, or those of the inverse."""
        lines = self.layout.lines[axis]
        return Address(TABLES + axis, lines.passes.reversed_at * self.number_bytes if back else 0)

    def rows(self, name: str, types: str, lines: int) -> Kernel:
        row, template = self.layout.row, f"{self.task.stored}, {self.task.real}, {types}{self.layout.row.template}"
        shared = row.passes.padded * row.lines * self.number_bytes
        grid, early = (-(-lines // row.lines),), name == "packed_lines"
        return Kernel(FILE, f"{name}<{template}>", grid, (row.threads,), shared, self.options, early=early)

    def columns(self, name: str, planes: int) -> Kernel:
        column, width = self.layout.column, self.layout.lengths[1]
        assert column is not None
        template = f"{self.task.real}, {width}, {column.template}"
        shared = column.passes.padded * column.lines * self.number_bytes
        blocks = planes * -(-(width // 2 + 1) // column.lines)
        return Kernel(FILE, f"{name}<{template}>", (blocks,), (column.threads,), shared, self.options)

    def line(self) -> int:
        """One axis."""
        task, (length,) = self.task, self.layout.lengths
        kernels, arguments = task.kernel[1], self.arguments
        self.taps["lines"] = kernels
        beyond = task.beyond
        if beyond == "FILL" or (beyond == "WRAP" and length == task.period[0]):
            # A line begins in the first cell of the ring, and the kernel so far before it.
            beyond, arguments["before"] = "FILL", 0
            self.taps["before"][0, 1] = -(task.before[0] % length)
        self.program.add(
            self.rows("packed_taps", "", kernels), Address(KERNEL), Address(SPACE), self.table(0), self.taps
        )
        arguments["lines"], arguments["planes"] = task.planes, self.each_kernel
        arguments["beside"] = task.size[0] * task.stored_bytes >= LONG_BYTES
        access = "SINGLY"
        if beyond == "FILL" and task.fill == 0 and not any(n % 2 for n in (task.size[0], task.out[0])):
            access = "WHOLLY" if task.size[0] == task.out[0] == length else "IN_PAIRS"
        kernel = self.rows("packed_lines", f"{beyond}, {access}, {task.size[0]}, {task.out[0]}, ", task.planes)
        self.program.add(kernel, Address(X), Address(SPACE), Address(OUT), self.table(0), arguments)
        return self.aligned(kernels * (length // 2 + 1))

    def image(self) -> int:
        """Two axes: slices of kernels and of the planes that each has."""
        task, (height, width) = self.task, self.layout.lengths
        arguments = self.arguments
        step, tiles = self.tiles()
        first, pairs = self.pairs(step * (tiles - 1) + height)
        tap_pairs, back = -(-task.extent[0] // 2), -(-task.dense[0] // 2)
        arguments["first"], arguments["pairs"], arguments["back"] = first, pairs, back
        arguments["step"], arguments["tiles"] = step, tiles
        self.taps["pairs"] = tap_pairs
        # Images that several planes take are transformed once, if there is room for all of them.
        common = task.image[1] < task.planes and task.image[1] * pairs * width <= SPACE_BYTES // self.number_bytes
        arguments["common"] = common
        # A kernel's rows and spectrum; a plane's rows and those of its result.
        spectrum_numbers = height * ((width // 2 + 4) // 4 * 4)
        kernel_numbers = tap_pairs * width + spectrum_numbers
        plane_numbers = (back + (0 if common else pairs)) * width
        kernels, planes = self.slices(kernel_numbers, plane_numbers)
        places, end = [], 0
        for count in (
            task.image[1] * pairs * width if common else kernels * planes * pairs * width,
            kernels * planes * back * width, kernels * tap_pairs * width, kernels * spectrum_numbers,
        ):  # fmt: skip
            places.append(Address(SPACE, end))
            end += self.aligned(count)
        images = places[0]
        if common:
            arguments["lines"] = task.image[1] * pairs
            self.forward(images, task.image[1] * pairs)
        for first_kernel in range(0, task.kernel[1], kernels):
            some = min(kernels, task.kernel[1] - first_kernel)
            self.spectra(first_kernel, some, places[2], places[3])
            for first_plane in range(0, self.each_kernel, planes):
                each = min(planes, self.each_kernel - first_plane)
                arguments["first_kernel"], arguments["first_plane"] = first_kernel, first_plane
                arguments["planes"] = each
                self.slice(some * each, common, images, places[1], places[3])
        return end

    def tiles(self) -> tuple[int, int]:
        """Rows of results of a tile of columns, and tiles: one where the ring is long enough for all."""
        task, height = self.task, self.layout.lengths[0]
        if self.whole:
            return task.dense[0] + task.dense[0] % 2, 1
        most = (height - task.extent[0] + 1) // 2 * 2
        tiles = -(-task.dense[0] // most)
        return -(-task.dense[0] // (2 * tiles)) * 2, tiles

    def pairs(self, rows: int) -> tuple[int, int]:
        """The pairs of rows of a ring of so many that are not zero: from which on, and how many."""
        task = self.task
        if task.beyond != "FILL" or task.fill != 0:
            return 0, -(-rows // 2)
        begin, end = max(0, task.before[0]), min(rows, task.before[0] + task.size[0])
        return begin // 2, max(1, -(-end // 2) - begin // 2)

    def slices(self, kernel_numbers: int, plane_numbers: int) -> tuple[int, int]:
        """Kernels and planes of each at a time, so that scratch memory is bounded."""
        room = SPACE_BYTES // self.number_bytes
        whole = kernel_numbers + self.each_kernel * plane_numbers
        if whole <= room:
            return _even(self.task.kernel[1], room // whole), self.each_kernel
        return 1, _even(self.each_kernel, max(1, (room - kernel_numbers) // plane_numbers))

    def forward(self, images: Address, lines: int) -> None:
        kernel = self.rows("packed_rows", f"{self.task.beyond}, false, ", lines)
        self.program.add(kernel, Address(X), images, self.table(1), self.arguments)

    def spectra(self, first: int, count: int, rows: Address, spectra: Address) -> None:
        """Of some kernels."""
        lines = count * int(self.taps["pairs"][0])
        self.taps["lines"] = lines
        shift = first * math.prod(self.task.taps) * self.task.stored_bytes
        holes = "true" if self.task.extent != self.task.taps else "false"
        kernel = self.rows("packed_rows", f"FILL, {holes}, ", lines)
        self.program.add(kernel, Address(KERNEL, shift), rows, self.table(1), self.taps)
        self.program.add(self.columns("packed_spectra", count), rows, spectra, self.table(0), self.taps)

    def slice(self, planes: int, common: bool, images: Address, results: Address, spectra: Address) -> None:
        arguments, task = self.arguments, self.task
        pairs, back, tiles = (int(arguments[name][0]) for name in ("pairs", "back", "tiles"))
        if not common:
            arguments["lines"] = planes * pairs
            self.forward(images, planes * pairs)
        kernel = self.columns("packed_columns", planes * tiles)
        self.program.add(kernel, images, spectra, results, self.table(0), arguments)
        arguments["lines"] = planes * back
        strided = "true" if task.dense != task.out else "false"
        kernel = self.rows("packed_rows_back", f"{task.activation}, {strided}, ", planes * back)
        finish = np.zeros(1, FINISH)
        finish["channels"] = task.channels
        self.program.add(
            kernel, results, Address(OUT), self.table(1, back=True), arguments, finish,
            inner={(4, word): at for word, at in self.inner.items()},
        )  # fmt: skip


def _even(count: int, most: int) -> int:
    """So many at a time, at most `most`, that all times are much the same."""
    return -(-count // -(-count // max(1, min(count, most))))
