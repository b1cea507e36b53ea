"""Convolution along three axes by one transform of each volume, or by tiles of planes, through memory between the axes.

Planes of volumes and kernels forward, row by row and column by column or by blocks that hold one; the first axis
forward, multiplied and back in one kernel; planes back. All that for some results at a time, and rows for some planes.
A kernel is transformed along the first axis wherever it multiplies: its spectrum never lies in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops._cuda.convolution_packed import PACKED
from spectralops._cuda.convolution_problem import FINISH, KERNEL, OUT, SPACE, SPACE_BYTES, TABLES, Problem, X
from spectralops._cuda.convolution_volume_layout import VolumeLayout, pairs, rows_there
from spectralops._cuda.geometry import Lines
from spectralops._cuda.launch import Kernel
from spectralops._cuda.program import Address, Program
from spectralops._cuda.pruned import ALIGNMENT

__all__ = ["volumes"]

FILE, ROWS_FILE = "conv_volumes.cu", "conv_packed.cu"
ROWS = np.dtype(
    [(name, np.int64, 2) for name in ("size", "before", "out")]
    + [(name, np.int64) for name in ("first", "rows", "lines", "flip")]
    + [("fill", np.float64, 2), ("sign", np.float64)]
)
PLANES = np.dtype([(name, np.int64) for name in ("first_plane", "planes", "room", "first", "lines")])
PRODUCT = np.dtype(
    [
        (name, np.int64)
        for name in (
            "size", "before", "taps", "out", "step", "tiles", "spread", "first", "together",
            "apart",
            "image_divisor", "image_count", "image_first", "image_room",
            "kernel_divisor", "kernel_count", "kernel_first", "out_room", "flip",
        )
    ]
    + [("fill", np.float64, 2), ("scale", np.float64)]
)  # fmt: skip
# Rows between the axes, which lie in memory for so many planes at a time.
ROWS_BYTES = 256 * 2**20
# Blocks of a launch that keep a device busy.
ENOUGH = 4096
# Above the number of a launch's planes.
ALL = 2**31 - 1


def volumes(
    program: Program, task: Problem, layout: VolumeLayout, whole: bool, options: tuple[str, ...]
) -> tuple[int, list[np.ndarray[Any, Any]]]:
    """Append the launches; give back the bytes of scratch memory and the twiddle factors that they need.

    `whole`: whether one ring holds all planes of a volume.
    """
    space = _Builder(program, task, layout, whole, options).build()
    return space, [each.table(1.0, False) for each in layout.passes]


@dataclass(frozen=True, slots=True)
class _Side:
    """Volumes or kernels whose planes are transformed.

    `number`: divisor and count by which results find theirs; `first` and `lines`: of rows of the ring, or pairs of
    them, the first that is there, and how many; `types`: of values in memory, of the arithmetic, and what lies beyond.
    """

    argument: int
    sizes: tuple[int, ...]
    number: tuple[int, int]
    first: int
    lines: int
    before: tuple[int, ...]
    fill: complex
    flip: bool
    types: str
    value_bytes: int

    def run(self, begin: int, count: int) -> tuple[int, int]:
        """The first one, and how many, of those that some results in a row take; they go round at the end."""
        divisor, total = self.number
        first, last = begin // divisor, (begin + count - 1) // divisor
        return (0, total) if last - first + 1 >= total else (first % total, last - first + 1)

    def most(self, count: int) -> int:
        """How many so many results in a row take at most."""
        divisor, total = self.number
        return min(total, (count + divisor - 2) // divisor + 1)


class _Builder:
    """Writes the launches of one problem."""

    def __init__(
        self, program: Program, task: Problem, layout: VolumeLayout, whole: bool, options: tuple[str, ...]
    ) -> None:
        self.program, self.task, self.layout, self.whole, self.options = program, task, layout, whole, options
        self.number_bytes = 2 * task.itemsize
        self.image = self._side(
            X, task.size, task.image, rows_there(layout.lengths[1], task), task.before[1:], task.beyond
        )
        self.kernel = self._side(KERNEL, task.taps, task.kernel, (0, task.taps[1]), (0, 0), "FILL")
        self.back = -(-task.out[1] // 2) if layout.paired else task.out[1]
        # Planes whose rows lie in memory at a time, and the bytes of a plane's.
        self.row_bytes = max(self.image.lines, self.kernel.lines, self.back) * layout.lengths[2] * self.number_bytes
        most = task.planes * max(task.size[0], task.out[0], task.taps[0])
        self.row_planes = max(1, min(most, ROWS_BYTES // self.row_bytes))

    def _side(
        self,
        argument: int,
        sizes: tuple[int, ...],
        number: tuple[int, int],
        there: tuple[int, int],
        before: tuple[int, ...],
        beyond: str,
    ) -> _Side:
        task = self.task
        is_image = argument == X
        is_complex = task.is_complex[0 if is_image else 1]
        first, lines = pairs(*there) if self.layout.paired else (there[0], max(1, there[1] - there[0]))
        return _Side(
            argument, sizes, number, first, lines, before, task.fill if is_image else 0, not is_image and task.flip,
            f"{task.number(is_complex)}, {task.real}, {beyond}", task.stored_bytes * (2 if is_complex else 1),
        )  # fmt: skip

    def aligned(self, numbers: int) -> int:
        """Bytes of so many complex numbers."""
        return -(-numbers * self.number_bytes // ALIGNMENT) * ALIGNMENT

    def table(self, axis: int, back: bool = False) -> Address:
        """Twiddle factors along an axis, or those of the inverse."""
        passes = self.layout.passes[axis]
        return Address(TABLES + axis, passes.reversed_at * self.number_bytes if back else 0)

    def build(self) -> int:
        """All launches; gives back the bytes of scratch memory."""
        task, layout = self.task, self.layout
        step, tiles = self.tiles()
        # Results lie where their volumes did, if no other result needs those.
        own = task.image == (1, task.planes) and tiles == 1
        room = max(task.size[0], task.out[0]) if own else task.size[0]
        out_room = room if own else task.out[0]
        count = self.at_once(own, room)
        places, end = [], 0
        for each in (
            self.aligned(self.image.most(count) * room * layout.area),
            0 if own else self.aligned(count * task.out[0] * layout.area),
            self.aligned(self.kernel.most(count) * task.taps[0] * layout.area),
            0 if layout.plane is not None else self.row_planes * self.row_bytes,
        ):
            places.append(Address(SPACE, end))
            end += each
        images, results, kernels, rows = places
        if own:
            results = images
        product = self.product(step, tiles, room, out_room)
        held: list[tuple[int, int] | None] = [None, None]
        for begin in range(0, task.planes, count):
            some = min(count, task.planes - begin)
            sides = ((self.image, images, room), (self.kernel, kernels, task.taps[0]))
            for k, (side, place, between) in enumerate(sides):
                needed = side.run(begin, some)
                if needed != held[k] or (side is self.image and own):
                    self.forward(side, needed, place, between, rows)
                    held[k] = needed
            product["first"] = begin
            product["image_first"], product["kernel_first"] = (
                self.image.run(begin, some)[0],
                self.kernel.run(begin, some)[0],
            )
            blocks = -(-layout.area // layout.first.lines)
            spread = 1 if some * blocks >= ENOUGH else tiles
            blocks *= spread
            together, product["apart"] = self.together(begin, some, blocks)
            product["together"], product["spread"] = together, spread
            several = "true" if together * tiles > spread else "false"
            template = f"{task.real}, {task.beyond}, {several}, {layout.area}, {layout.first.template}"
            kernel = self.columns("volume_product", template, layout.first, some // together * blocks)
            self.program.add(kernel, images, kernels, results, self.table(0), product)
            self.inverse(begin, some, results, out_room, rows)
        return end

    def tiles(self) -> tuple[int, int]:
        """Planes of results of a tile, and tiles: one where the ring is long enough for all."""
        task, depth = self.task, self.layout.lengths[0]
        tiles = 1 if self.whole else -(-task.out[0] // (depth - task.taps[0] + 1))
        return -(-task.out[0] // tiles), tiles

    def at_once(self, own: bool, room: int) -> int:
        """Results at a time, so that scratch memory is bounded unless one takes more."""
        task, area = self.task, self.layout.area

        def nbytes(count: int) -> int:
            planes = self.image.most(count) * room + self.kernel.most(count) * task.taps[0]
            return area * (planes + (0 if own else count * task.out[0])) * self.number_bytes

        most = task.planes
        while most > 1 and nbytes(most) > SPACE_BYTES:
            most = -(-most // 2)
        return -(-task.planes // -(-task.planes // most))

    def together(self, begin: int, count: int, blocks: int) -> tuple[int, int]:
        """How many results of a launch a block does with one kernel, and how far apart they lie.

        `blocks`: of each result; as many as leave the device blocks enough.
        """
        divisor, kinds = self.task.kernel
        if divisor > 1:
            most, apart = math.gcd(divisor, begin, count), 1
        else:
            most, apart = (count // kinds, kinds) if count % kinds == 0 else (1, 1)
        fitting = (n for n in range(most, 1, -1) if most % n == 0 and count // n * blocks >= ENOUGH)
        return next(fitting, 1), apart

    def product(self, step: int, tiles: int, image_room: int, out_room: int) -> Any:
        """Arguments of the kernel along the first axis but for what changes from launch to launch."""
        task, layout = self.task, self.layout
        arguments = np.zeros(1, PRODUCT)
        for name, value in {
            "size": task.size[0], "before": task.before[0], "taps": task.taps[0],
            "out": task.out[0], "step": step, "tiles": tiles, "image_divisor": task.image[0],
            "image_count": task.image[1], "image_room": image_room, "kernel_divisor": task.kernel[0],
            "kernel_count": task.kernel[1], "out_room": out_room, "flip": task.flip, "scale": layout.scale,
        }.items():  # fmt: skip
            arguments[name] = value
        # The sum of a plane that is not there.
        cells = math.prod(layout.lengths[1:]) * (2 if layout.paired else 1)
        arguments["fill"] = task.fill.real * cells, task.fill.imag * cells
        return arguments

    def columns(self, name: str, template: str, column: Lines, blocks: int) -> Kernel:
        """A kernel of so many blocks of columns."""
        shared = column.passes.padded * column.lines * self.number_bytes
        return Kernel(FILE, f"{name}<{template}>", (blocks,), (column.threads,), shared, self.options)

    def plane_columns(self, name: str, planes: int) -> Kernel:
        """Columns of so many planes."""
        layout, width = self.layout, self.layout.lengths[2]
        form, stored = ("PAIRS", width // 2 + 1) if layout.paired else ("FULL", width)
        template = f"{self.task.real}, {form}, {width}, {layout.middle.template}"
        return self.columns(name, template, layout.middle, planes * -(-stored // layout.middle.lines))

    def rows(self, name: str, template: str, lines: int) -> Kernel:
        """So many rows, or pairs of them."""
        row, file = self.layout.row, ROWS_FILE if self.layout.paired else FILE
        shared = row.passes.padded * row.lines * self.number_bytes
        name = f"{'packed' if self.layout.paired else 'volume'}_{name}<{template}, {row.template}>"
        return Kernel(file, name, (-(-lines // row.lines),), (row.threads,), shared, self.options)

    def planes(self, name: str, template: str, lines: int, count: int) -> Kernel:
        """So many planes that blocks hold."""
        plane = self.layout.plane
        assert plane is not None
        shared = plane.numbers(lines) * self.number_bytes
        return Kernel(FILE, f"{name}<{template}, {plane.template}>", (count,), (plane.threads,), shared, self.options)

    def forward(self, side: _Side, needed: tuple[int, int], place: Address, room: int, rows: Address) -> None:
        """Planes of volumes or kernels, those of a run that may go round at the end."""
        first, count = needed
        total, at, depth = side.number[1], 0, side.sizes[0]
        for begin, some in ((first, min(count, total - first)), (0, max(0, first + count - total))):
            planes = some * depth
            each = planes if self.layout.plane is not None else self.row_planes
            for plane in range(0, planes, max(1, each)):
                shift = (begin * depth + plane) * math.prod(side.sizes[1:]) * side.value_bytes
                where = np.array([(at * depth + plane, depth, room, side.first, side.lines)], PLANES)
                self.some_forward(side, min(each, planes - plane), shift, where, place, rows)
            at += some

    def some_forward(self, side: _Side, count: int, shift: int, where: Any, place: Address, rows: Address) -> None:
        """So many planes; `where` they lie in the spectra."""
        layout, source, lines = self.layout, Address(side.argument, shift), count * side.lines
        arguments = np.zeros(1, ROWS)
        arguments["fill"], arguments["sign"] = (side.fill.real, side.fill.imag), 1 if side is self.image else -1
        template = side.types
        if layout.plane is None and layout.paired:
            arguments = np.zeros(1, PACKED)
            arguments["stride"], arguments["dilation"], arguments["common"], arguments["pairs"] = 1, 1, 1, side.lines
            arguments["fill"] = side.fill.real
            template += ", false"  # no holes
        else:
            arguments["rows"] = side.lines
        arguments["size"], arguments["before"], arguments["flip"] = side.sizes[1:], side.before, side.flip
        arguments["first"], arguments["lines"] = side.first, lines
        if layout.plane is not None:
            kernel = self.planes("volume_planes", template, side.lines, count)
            self.program.add(kernel, source, place, self.table(2), self.table(1), arguments, where)
            return
        self.program.add(self.rows("rows", template, lines), source, rows, self.table(2), arguments)
        self.program.add(self.plane_columns("volume_columns", count), rows, place, self.table(1), where)

    def inverse(self, begin: int, count: int, place: Address, room: int, rows: Address) -> None:
        """Planes of results."""
        task = self.task
        planes = count * task.out[0]
        each = planes if self.layout.plane is not None else self.row_planes
        for plane in range(0, planes, each):
            where = np.array([(plane, task.out[0], room, 0, self.back)], PLANES)
            self.some_inverse(begin * task.out[0] + plane, min(each, planes - plane), where, place, rows)

    def some_inverse(self, first: int, count: int, where: Any, place: Address, rows: Address) -> None:
        """So many planes, of which the first has this number; `where` they lie in the spectra."""
        task, layout, lines = self.task, self.layout, count * self.back
        tables = self.table(2, back=True), self.table(1, back=True)
        shift = first * math.prod(task.out[1:]) * task.stored_bytes * (1 if layout.paired else 2)
        arguments = np.zeros(1, ROWS)
        arguments["out"], arguments["lines"] = task.out[1:], lines
        if layout.plane is not None:
            kernel = self.planes("volume_planes_back", f"{task.stored}, {task.real}", self.back, count)
            self.program.add(kernel, place, Address(OUT, shift), *tables, arguments, where)
            return
        self.program.add(self.plane_columns("volume_columns_back", count), place, rows, tables[1], where)
        if not layout.paired:
            kernel = self.rows("rows_back", task.real, lines)
            self.program.add(kernel, rows, Address(OUT, shift), tables[0], arguments)
            return
        packed = np.zeros(1, PACKED)
        packed["out"], packed["back"], packed["lines"] = task.out[1:], self.back, lines
        packed["kernel_divisor"], packed["kernel_count"], packed["planes"] = 1, 1, ALL
        finish = np.zeros(1, FINISH)
        finish["channels"] = 1
        kernel = self.rows("rows_back", f"{task.stored}, {task.real}, NOTHING, false", lines)
        self.program.add(kernel, rows, Address(OUT, shift), tables[0], packed, finish)
