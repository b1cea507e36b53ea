"""Transforms of which only some wavenumbers are kept: what spectral convolutions and their gradients are made of."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.geometry import (
    COLUMNS,
    FILTER,
    PAD,
    SHARED_BYTES,
    Lines,
    columns_form,
    columns_kernel,
    itemsize_of,
    kept_on_device,
    namespace,
    row_geometry,
    rows_kernel,
    unfit,
)
from spectralops._cuda.launch import Kernel, Runner
from spectralops._cuda.program import Address, Program, address

if TYPE_CHECKING:
    from spectralops._plans.spectral_conv import SpectralConvPlan
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

    AnyPlan = SpectralConvPlan | SpectralConvWeightGradientPlan

__all__ = [
    "MIX",
    "OUT",
    "SECOND",
    "SPACE",
    "X",
    "Pruned",
    "Side",
    "both",
    "mix_kernel",
    "ready",
    "side",
]

MIX = np.dtype(
    [
        (name, np.int64)
        for name in (
            "modes",
            "samples",
            "in",
            "out",
            "x_sample",
            "x_in",
            "weight_in",
            "weight_out",
            "last",
            "read",
            "written",
        )
    ]
    + [("scale", np.float64), ("sign", np.float64)]
)
LANES = 32
# Tiles of the mixing: samples and channels of a warp, warps along samples and along channels; the largest first.
TILES = [
    (4, 8, 4, 2),
    (4, 4, 4, 2),
    (2, 8, 2, 4),
    (4, 4, 2, 2),
    (2, 4, 2, 2),
    (2, 2, 2, 2),
    (1, 8, 1, 8),
    (1, 4, 1, 8),
    (1, 4, 1, 4),
    (1, 2, 1, 4),
    (1, 1, 1, 4),
    (1, 1, 1, 1),
]
# Channels on their way through shared memory: stages, and bytes of one of them.
STAGES = 3
STAGE_BYTES = 32 * 1024
# Scratch arrays begin at multiples of this, so that every access of theirs is aligned.
ALIGNMENT = 256
# Addresses of a program: the arrays, scratch memory, twiddle factors of every axis of every side.
X, SECOND, OUT, SPACE, TABLES = range(5)


@dataclass(frozen=True, slots=True)
class Side:
    """The transforms of x or of the result: form of the last axis, sizes, and geometry of every axis."""

    form: str
    sizes: tuple[int, ...]
    row: Lines
    columns: tuple[Lines, ...]

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
    row = row_geometry(sizes[-1], itemsize)
    if row is None:
        return f"length {sizes[-1]} does not fit a block"
    if len(sizes) == 1:
        form = "FULL" if not plan.halved else "SPLIT" if joint else "HALF"
        return Side(form, sizes, row, ())
    found = columns_form(sizes, itemsize, plan.halved, shared_bytes)
    return found if isinstance(found, str) else Side(found[0], sizes, row, found[1])


def both(first: Side | str, second: Side | str) -> tuple[Side, Side] | str:
    """The two sides of a program, or the reason why the first of them that has none has none."""
    if isinstance(first, str):
        return first
    return second if isinstance(second, str) else (first, second)


class Pruned:
    """The program of a plan: launches, scratch memory and twiddle factors."""

    def __init__(self, plan: AnyPlan, sides: tuple[Side, ...], xp: Any, device: launch.Device) -> None:
        self.plan, self.sides = plan, sides
        self.moved = plan.axes != tuple(sorted(plan.axes))
        self.itemsize, self.multiprocessors = itemsize_of(plan), device.multiprocessors
        self.real = "float" if self.itemsize == 4 else "double"
        self.options = (launch.index_option(plan.index_bits),)
        self.program = Program()
        self.space_bytes = 0
        kind = np.complex64 if self.itemsize == 4 else np.complex128
        tables = [each.passes.table(1.0, False).astype(kind) for side in sides for each in side.lines]
        self.tables = kept_on_device(tables, xp)
        self.table_addresses = [address(table) for table in self.tables]

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

    def between(self, side: Side, channels: int) -> list[int]:
        """Complex numbers of the arrays between the transforms along the last, the middle and the first axis."""
        plan, count = self.plan, self.plan.batch * channels
        sizes, modes = side.sizes, plan.modes
        # A window of 2 m columns for a pair of rows takes as much as m columns for each of them.
        return [count * math.prod(sizes[:axis]) * math.prod(modes[axis:]) for axis in range(len(sizes) - 1, 0, -1)]

    def transforms(self, number: int, arrays: list[Address], images: int, *, after: bool) -> None:
        """From the field through the arrays in between to the kept spectrum; back on the side after the mixing."""
        plan, side = self.plan, self.sides[number]
        sizes, modes, lowest = side.sizes, plan.modes, plan.lowest
        d = len(sizes)
        rows = images * math.prod(sizes[:-1])
        lines = rows // 2 if side.form in ("PAIRS", "SPLIT") else rows
        row = rows_kernel(
            "rows_inverse" if after else "rows_forward",
            self.real,
            side.form,
            (modes[-1], lowest[-1]),
            side.row,
            lines,
            self.options,
        )
        steps: list[tuple[Kernel, tuple[Any, ...], tuple[Address, Address], int]] = []
        steps.append((row, (np.int64(lines), np.zeros(1, PAD)), (arrays[0], arrays[1]), d - 1))
        width, form = modes[-1], "FULL"
        if side.form == "PAIRS":
            width, form = 2 * modes[-1], "PAIRS"
        inner = 1
        for step, axis in enumerate(range(d - 2, -1, -1)):
            columns = modes[-1] * inner
            outside = (form, width if form == "PAIRS" else columns)
            inside = ("FULL", columns)
            planes = images * math.prod(sizes[:axis])
            plane = sizes[axis] * outside[1] // (2 if form == "PAIRS" else 1)
            kept = modes[axis] * columns
            nyquist = sizes[-1] // 2 if sizes[-1] % 2 == 0 else 0
            geometry = (columns, kept if after else plane, plane if after else kept, width, nyquist)
            kernel = columns_kernel(
                "INVERSE" if after else "FORWARD",
                self.real,
                inside if after else outside,
                outside if after else inside,
                (modes[axis], lowest[axis]),
                side.columns[axis],
                (planes, columns),
                self.options,
            )
            arguments = (np.array([geometry], COLUMNS), np.zeros(1, FILTER))
            steps.append((kernel, arguments, (arrays[step + 1], arrays[step + 2]), axis))
            form, inner = "FULL", inner * modes[axis]
        for kernel, arguments, (outer, nearer), axis in reversed(steps) if after else steps:
            ends = (nearer, outer) if after else (outer, nearer)
            self.program.add(kernel, *ends, self._table(number, axis, after), *arguments)


def mix_kernel(
    real: str, samples: int, written: int, modes: int, conjugate: str, multiprocessors: int, options: tuple[str, ...]
) -> Kernel:
    """The largest tile that still gives every multiprocessor a block; small ones where the problem is small."""
    itemsize = 4 if real == "float" else 8
    tiles = [t for t in TILES if t[0] * t[2] < 2 * samples or t[0] * t[2] == 1]
    tiles = [t for t in tiles if t[1] * t[3] < 2 * written or t[1] * t[3] == 1]

    def grid(tile: tuple[int, int, int, int]) -> tuple[int, int, int]:
        return -(-modes // LANES), -(-written // (tile[1] * tile[3])), -(-samples // (tile[0] * tile[2]))

    chosen = next((t for t in tiles if math.prod(grid(t)) >= multiprocessors), tiles[-1])
    rows = chosen[0] * chosen[2] + chosen[1] * chosen[3]
    chunk = max(1, min(8, STAGE_BYTES // (rows * LANES * 2 * itemsize)))
    shared = STAGES * chunk * rows * LANES * 2 * itemsize
    name = f"mix<{real}, {', '.join(map(str, chosen))}, {chunk}, {STAGES}, {conjugate}>"
    return Kernel("mix.cu", name, grid(chosen), (LANES * chosen[2] * chosen[3],), shared, options)


P = TypeVar("P", bound=Pruned)
# Programs by plan and device.
_prepared: OrderedDict[Any, Pruned] = OrderedDict()
KEPT_PROGRAMS = 256


def ready(plan: AnyPlan, kind: type[P], runner: Runner, out: Any) -> P:
    """The program of a plan, made at its first call."""
    device = runner.device()
    key = (id(plan), device.index)
    found = _prepared.get(key)
    if found is None or found.plan is not plan:
        found = _prepared[key] = kind(plan, namespace(out), device)  # type: ignore[call-arg]
        while len(_prepared) > KEPT_PROGRAMS:
            _prepared.popitem(last=False)
    return found  # type: ignore[return-value]
