"""Transforms of which only some wavenumbers are kept: what spectral convolutions and their gradients are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.few import Few, few_geometry, few_kernel
from spectralops._cuda.geometry import (
    BYTES,
    COLUMNS,
    FILTER,
    PAD,
    REALS,
    SHARED_BYTES,
    Lines,
    columns_form,
    columns_kernel,
    itemsize_of,
    kept_on_device,
    row_geometry,
    rows_kernel,
    stored_as,
    unfit,
)
from spectralops._cuda.launch import Kernel, Runner
from spectralops._cuda.planes import Plane, plane_geometry, plane_kernel
from spectralops._cuda.program import Address, Program, address
from spectralops._cuda.turned import turned_kernel
from spectralops._recent import Recent

if TYPE_CHECKING:
    from spectralops._plans.spectral_conv import SpectralConvPlan
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

    AnyPlan = SpectralConvPlan | SpectralConvWeightGradientPlan

__all__ = [
    "OUT",
    "SECOND",
    "SPACE",
    "X",
    "Pruned",
    "Side",
    "at_once",
    "between",
    "both",
    "ready",
    "side",
    "slices",
]

# Bytes of the spectra of a slice of a large batch, and of all of them before it is cut, which bounds scratch memory.
# Slices that the second-level cache could hold are slower: small launches leave multiprocessors idle at their ends.
SLICE_BYTES, SLICED_FROM = 1 << 30, 2 << 30
# Scratch arrays begin at multiples of this, so that every access of theirs is aligned.
ALIGNMENT = 256
# Addresses of a program: the arrays, scratch memory, twiddle factors of every axis of every side.
X, SECOND, OUT, SPACE, TABLES = range(5)


@dataclass(frozen=True, slots=True)
class Side:
    """The transforms of x or of the result: form of the last axis, sizes, and geometry of every axis.

    `plane` is how one block transforms the last two axes, None where each has a kernel of its own.
    """

    form: str
    sizes: tuple[int, ...]
    row: Lines
    columns: tuple[Lines, ...]
    plane: Plane | None = None

    @property
    def lines(self) -> tuple[Lines, ...]:
        """Geometry in the order of the axes."""
        return (*self.columns, self.row)


def side(sizes: tuple[int, ...], plan: AnyPlan, joint: bool, shared_bytes: int = SHARED_BYTES) -> Side | str:
    """How one side is transformed, or in words why it is not.

    With `joint`, two channels of one sample share a transform along one axis: the result depends on both anyhow.
    """
    itemsize = itemsize_of(plan)
    if reason := unfit(sizes):
        return reason
    row = row_geometry(sizes[-1], itemsize, shared_bytes)
    if row is None:
        return f"length {sizes[-1]} does not fit a block"
    if len(sizes) == 1:
        few = few_geometry(sizes[0], plan.modes[0], itemsize) if plan.halved else None
        if few is not None:
            return Side("FEW", sizes, Lines(few, 1), ())
        form = "FULL" if not plan.halved else "SPLIT" if joint else "HALF"
        return Side(form, sizes, row, ())
    found = columns_form(sizes, itemsize, plan.halved, shared_bytes)
    if isinstance(found, str):
        return found
    form, columns = found
    plane = plane_geometry(sizes[-2:], plan.modes[-1], itemsize, shared_bytes) if form == "PAIRS" else None
    if plane is None:
        return Side(form, sizes, row, columns)
    return Side(form, sizes, Lines(plane.row, 1), (*columns[:-1], Lines(plane.column, 1)), plane)


def both(first: Side | str, second: Side | str) -> tuple[Side, Side] | str:
    """The two sides of a program, or the reason why the first of them that has none has none."""
    if isinstance(first, str):
        return first
    return second if isinstance(second, str) else (first, second)


def slices(count: int, nbytes: int) -> int:
    """How many of `count` parts, whose spectra take so many bytes each, are worked on at a time."""
    if count * nbytes <= SLICED_FROM:
        return count
    return -(-count // min(count, -(-count * nbytes // SLICE_BYTES)))


def between(plan: AnyPlan, side: Side, images: int) -> list[int]:
    """Complex numbers of the arrays between the transforms along the last, the middle and the first axis."""
    sizes, modes = side.sizes, plan.modes
    # A window of 2 m columns for a pair of rows takes as much as m columns for each of them.
    all_of_them = [images * math.prod(sizes[:axis]) * math.prod(modes[axis:]) for axis in range(len(sizes) - 1, 0, -1)]
    return all_of_them if side.plane is None else [0, *all_of_them[1:]]


def at_once(plan: AnyPlan, side: Side, images: int) -> int:
    """Images whose spectra between two axes are there at a time."""
    return slices(images, sum(between(plan, side, 1)) * 2 * itemsize_of(plan))


class Pruned:
    """The program of a plan: launches, scratch memory and twiddle factors."""

    def __init__(self, plan: AnyPlan, sides: tuple[Side, ...], xp: Any, device: launch.Device) -> None:
        self.plan, self.sides, self.device = plan, sides, device
        self.moved = plan.axes != tuple(sorted(plan.axes))
        self.turned: tuple[Lines, ...] | None = None
        self.itemsize = itemsize_of(plan)
        self.real = REALS[self.itemsize]
        fields = 2 if plan.op == "spectral_conv_weight_gradient" else 1
        self.reals = stored_as(plan, fields), self.real
        self.options = (launch.index_option(plan.index_bits),)
        self.program = Program()
        self.space_bytes = 0
        kind = np.complex64 if self.itemsize == 4 else np.complex128
        tables = [each.passes.table(1.0, False).astype(kind) for side in sides for each in side.lines]
        self.tables = kept_on_device(tables, xp)
        self.table_addresses = [address(table) for table in self.tables]

    @property
    def value_bytes(self) -> int:
        """Bytes of a value of a field."""
        return BYTES[self.reals[0]] * (1 if self.plan.halved else 2)

    def run(self, runner: Runner, x: Any, second: Any, out: Any) -> None:
        """Launch it for these arrays."""
        space = runner.workspace(self.space_bytes)
        self.program.run(runner, [address(x), address(second), address(out), address(space), *self.table_addresses])

    def scratch(self, count: int) -> Address:
        """Room for so many complex numbers."""
        begin = self.space_bytes
        self.space_bytes += -(-count * 2 * self.itemsize // ALIGNMENT) * ALIGNMENT
        return Address(SPACE, begin)

    def _table(self, number: int, axis: int, after: bool) -> Address:
        before = sum(len(side.lines) for side in self.sides[:number])
        skipped = self.sides[number].lines[axis].passes.reversed_at if after else 0
        return Address(TABLES + before + axis, skipped * 2 * self.itemsize)

    def make_room(self, images: tuple[int, ...]) -> None:
        """The arrays between the transforms along the last, the middle and the first axis, for so many on each side."""
        counts = [
            between(self.plan, side, at_once(self.plan, side, count))
            for side, count in zip(self.sides, images, strict=True)
        ]
        self.arrays = [self.scratch(max(each)) for each in zip(*counts, strict=True)]

    def transforms(self, number: int, field: Address, spectrum: Address, images: int, *, after: bool) -> None:
        """From the field through the arrays in between to the kept spectrum; back on the side after the mixing."""
        side = self.sides[number]
        image, kept = math.prod(side.sizes) * self.value_bytes, math.prod(self.plan.modes) * 2 * self.itemsize
        step = at_once(self.plan, side, images)
        for first in range(0, images, step):
            outer, inner = field.plus(first * image), spectrum.plus(first * kept)
            self._slice(number, [outer, *self.arrays, inner], min(step, images - first), after)

    def _slice(self, number: int, arrays: list[Address], images: int, after: bool) -> None:
        """The same for images whose arrays in between are there at once."""
        side = self.sides[number]
        sizes, modes, lowest = side.sizes, self.plan.modes, self.plan.lowest
        d = len(sizes)
        # Each step: kernel, arguments, arrays on its outer and its inner side, axes.
        steps: list[tuple[Kernel, tuple[Any, ...], tuple[Address, Address], tuple[int, ...]]] = []
        if side.plane is not None:
            kernel = plane_kernel(
                "planes_inverse" if after else "planes_forward",
                self.reals,
                side.plane,
                (modes[-2], lowest[-2]),
                images * math.prod(sizes[:-2]),
                self.device.shared_bytes,
                self.options,
                self.device.multiprocessors,
            )
            steps.append((kernel, (), (arrays[0], arrays[2]), (d - 1, d - 2)))
        else:
            steps += self._rows_and_columns(side, arrays, images, after)
        for axis in range(d - 3, -1, -1):
            steps.append(self._column(side, axis, "FULL", arrays, images, after))
        for kernel, arguments, (outer, nearer), axes in reversed(steps) if after else steps:
            ends = (nearer, outer) if after else (outer, nearer)
            tables = [self._table(number, axis, after) for axis in axes]
            self.program.add(kernel, *ends, *tables, *arguments)

    def _rows_and_columns(self, side: Side, arrays: list[Address], images: int, after: bool) -> list[Any]:
        """The last axis, and the one before it if there is one."""
        modes, lowest = self.plan.modes, self.plan.lowest
        d = len(side.sizes)
        rows = images * math.prod(side.sizes[:-1])
        if isinstance(side.row.passes, Few):
            name = "few_inverse" if after else "few_forward"
            few = few_kernel(name, self.reals, side.row.passes, modes[-1], rows, self.options)
            return [(few, (np.int64(rows),), (arrays[0], arrays[1]), (0,))]
        lines = rows // 2 if side.form in ("PAIRS", "SPLIT") else rows
        if self.turned is not None:
            name, kept = "turned_inverse" if after else "turned_forward", (modes[-1], lowest[-1])
            turned = turned_kernel(name, self.reals, side.form, kept, self.turned[after], lines, self.options)
            return [(turned, (np.int64(lines),), (arrays[0], arrays[1]), (0,))]
        row = rows_kernel(
            "rows_inverse" if after else "rows_forward",
            self.reals,
            side.form,
            (modes[-1], lowest[-1]),
            side.row,
            lines,
            self.options,
        )
        steps = [(row, (np.int64(lines), np.zeros(1, PAD)), (arrays[0], arrays[1]), (d - 1,))]
        form = "PAIRS" if side.form == "PAIRS" else "FULL"
        return steps if d == 1 else [*steps, self._column(side, d - 2, form, arrays, images, after)]

    def _column(self, side: Side, axis: int, form: str, arrays: list[Address], images: int, after: bool) -> Any:
        """Any other axis than the last one; `form` is that of the spectrum outside."""
        sizes, modes = side.sizes, self.plan.modes
        columns = math.prod(modes[axis + 1 :])
        width = 2 * modes[-1] if form == "PAIRS" else modes[-1]
        outside = (form, width if form == "PAIRS" else columns)
        inside = ("FULL", columns)
        plane = sizes[axis] * outside[1] // (2 if form == "PAIRS" else 1)
        kept = modes[axis] * columns
        nyquist = sizes[-1] // 2 if sizes[-1] % 2 == 0 else 0
        geometry = (columns, kept if after else plane, plane if after else kept, width, nyquist, nyquist)
        kernel = columns_kernel(
            "INVERSE" if after else "FORWARD",
            self.real,
            inside if after else outside,
            outside if after else inside,
            (modes[axis], self.plan.lowest[axis]),
            side.columns[axis],
            (images * math.prod(sizes[:axis]), columns),
            self.options,
        )
        step = len(sizes) - 1 - axis
        arguments = (np.array([geometry], COLUMNS), np.zeros(1, FILTER))
        return kernel, arguments, (arrays[step], arrays[step + 1]), (axis,)


P = TypeVar("P", bound=Pruned)
# Programs by plan and device.
_prepared: Recent[tuple[int, int], Any] = Recent(256)


def ready(plan: AnyPlan, kind: type[P], runner: Runner, xp: Any) -> P:
    """The program of a plan, made at its first call."""
    device = runner.device()
    key = (id(plan), device.index)
    found = _prepared.get(key)
    if found is None:
        found = _prepared.put(key, kind(plan, xp, device))  # type: ignore[call-arg]
    return found  # type: ignore[no-any-return]
