"""Spectral convolutions on the device: pruned transforms, channel mixing per wavenumber, pruned inverse transforms.

Dropped wavenumbers are neither written nor read; between the kernels stand only the kept ones, which stay in the
second-level cache.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.geometry import (
    COLUMNS,
    FILTER,
    SHARED_BYTES,
    Lines,
    column_geometry,
    columns_kernel,
    namespace,
    row_geometry,
    rows_kernel,
)
from spectralops._cuda.launch import Kernel, Runner
from spectralops._cuda.passes import factors
from spectralops._cuda.program import Address, Program, address
from spectralops.errors import UnsupportedError

if TYPE_CHECKING:
    from spectralops._plans.spectral_conv import SpectralConvPlan

__all__ = ["algorithm", "refusal", "spectral_conv"]

MIX = np.dtype(
    [(name, np.int64) for name in ("modes", "batch", "in", "out", "weight_in", "weight_out", "last", "read", "written")]
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


def _side(
    sizes: tuple[int, ...], channels: int, plan: SpectralConvPlan, itemsize: int, shared_bytes: int
) -> Side | str:
    """How one side is transformed, or in words why it is not."""
    for n in sizes:
        if factors(n) is None:
            return f"length {n} has a prime factor above 13"
    row = row_geometry(sizes[-1], itemsize)
    if row is None:
        return f"length {sizes[-1]} does not fit a block"
    if len(sizes) == 1:
        # Two channels of one sample may share a transform where the result depends on both of them anyhow.
        form = "FULL" if not plan.halved else "SPLIT" if channels % 2 == 0 and not plan.depthwise else "HALF"
        return Side(form, sizes, row, ())
    middle = len(sizes) - 2
    for form in ("PAIRS", "HALF") if plan.halved else ("FULL",):
        columns = [
            column_geometry(n, itemsize, form == "PAIRS" and axis == middle, shared_bytes)
            for axis, n in enumerate(sizes[:-1])
        ]
        found = tuple(each for each in columns if each is not None)
        if len(found) == len(columns):
            return Side(form, sizes, row, found)
    return f"lengths {sizes[:-1]} do not fit a block"


def _sides(plan: SpectralConvPlan, shared_bytes: int = SHARED_BYTES) -> tuple[Side, Side] | str:
    if not 1 <= len(plan.axes) <= 3:
        return f"kernels take 1 to 3 axes, not {len(plan.axes)}"
    itemsize = _itemsize(plan)
    before = _side(plan.in_sizes, plan.channels[0], plan, itemsize, shared_bytes)
    if isinstance(before, str):
        return before
    after = _side(plan.out_sizes, plan.channels[1], plan, itemsize, shared_bytes)
    return after if isinstance(after, str) else (before, after)


def _itemsize(plan: SpectralConvPlan) -> int:
    return 8 if plan.compute_dtype in ("float64", "complex128") else 4


def refusal(plan: SpectralConvPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    sides = _sides(plan)
    return sides if isinstance(sides, str) else ""


def algorithm(plan: SpectralConvPlan) -> str:
    """How this plan runs, in words."""
    before, after = _required(plan)
    d = len(plan.axes)
    return (
        f"{2 * d + 1} kernels: pruned transforms along the axes (radices {_words(before)}), one product per wavenumber "
        f"over the channels, pruned inverse transforms (radices {_words(after)}); kept wavenumbers alone lie between"
    )


def _words(side: Side) -> str:
    return " x ".join("*".join(map(str, each.passes.radices)) for each in side.lines)


def _required(plan: SpectralConvPlan, shared_bytes: int = SHARED_BYTES) -> tuple[Side, Side]:
    sides = _sides(plan, shared_bytes)
    if isinstance(sides, str):
        raise UnsupportedError(f"{plan.op}: backend is {plan.backend!r}, but must be one without kernels: {sides}")
    return sides


def spectral_conv(plan: SpectralConvPlan, x: Any, weight: Any, *, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    runner = launch.runner(plan.op, out)
    ready = _ready(plan, runner, out)
    if not weight.flags.c_contiguous:
        weight = namespace(out).ascontiguousarray(weight)
    if not ready.moved and x.flags.c_contiguous:
        ready.run(runner, x, weight, out)
        return
    xp = namespace(out)
    d, rank = len(plan.axes), x.ndim
    last = tuple(range(rank - d, rank))
    field = xp.ascontiguousarray(xp.moveaxis(x, plan.axes, last))
    result = xp.empty((*out.shape[: rank - d], *plan.out_sizes), out.dtype) if ready.moved else out
    ready.run(runner, field, weight, result)
    if ready.moved:
        out[...] = xp.moveaxis(result, last, plan.axes)


# Programs by plan and device.
_prepared: OrderedDict[Any, Prepared] = OrderedDict()
KEPT_PROGRAMS = 256


def _ready(plan: SpectralConvPlan, runner: Runner, out: Any) -> Prepared:
    device = runner.device()
    key = (id(plan), device.index)
    found = _prepared.get(key)
    if found is None or found.plan is not plan:
        found = _prepared[key] = Prepared(plan, namespace(out), device)
        while len(_prepared) > KEPT_PROGRAMS:
            _prepared.popitem(last=False)
    return found


X, WEIGHT, OUT, SPACE, TABLES = range(5)


class Prepared:
    """The program of a plan: launches, scratch memory and twiddle factors."""

    def __init__(self, plan: SpectralConvPlan, xp: Any, device: launch.Device) -> None:
        self.plan = plan
        self.moved = plan.axes != tuple(sorted(plan.axes))
        self.before, self.after = _required(plan, device.shared_bytes)
        self.itemsize, self.multiprocessors = _itemsize(plan), device.multiprocessors
        self.real = "float" if self.itemsize == 4 else "double"
        self.options = (launch.index_option(plan.index_bits),)
        self.program = Program()
        self.space_bytes = 0
        kind = np.complex64 if self.itemsize == 4 else np.complex128
        lines = (*self.before.lines, *self.after.lines)
        self.tables = [xp.asarray(each.passes.table(1.0, False).astype(kind)) for each in lines]
        self.table_addresses = [address(table) for table in self.tables]
        self._build()

    def run(self, runner: Runner, x: Any, weight: Any, out: Any) -> None:
        """Launch it for these arrays."""
        space = address(runner.workspace(self.space_bytes))
        self.program.run(runner, [address(x), address(weight), address(out), space, *self.table_addresses])

    def _scratch(self, count: int) -> Address:
        """Room for so many complex numbers."""
        begin = self.space_bytes
        self.space_bytes += -(-count * 2 * self.itemsize // ALIGNMENT) * ALIGNMENT
        return Address(SPACE, begin)

    def _table(self, after: bool, axis: int) -> Address:
        side = self.after if after else self.before
        skipped = side.lines[axis].passes.reversed_at if after else 0
        return Address(TABLES + len(self.before.lines) * after + axis, skipped * 2 * self.itemsize)

    def _build(self) -> None:
        plan = self.plan
        modes = math.prod(plan.modes)
        read, written = plan.channels
        kept = self._scratch(plan.batch * read * modes)
        mixed = self._scratch(plan.batch * written * modes)
        before, after = self._between(self.before, read), self._between(self.after, written)
        between = [self._scratch(max(pair)) for pair in zip(before, after, strict=True)]
        self._transforms(self.before, [Address(X), *between, kept], plan.batch * read, after=False)
        self._mix(kept, mixed, modes)
        self._transforms(self.after, [Address(OUT), *between, mixed], plan.batch * written, after=True)

    def _between(self, side: Side, channels: int) -> list[int]:
        """Complex numbers of the arrays between the transforms along the last, the middle and the first axis."""
        plan, count = self.plan, self.plan.batch * channels
        sizes, modes = side.sizes, plan.modes
        # A window of 2 m columns for a pair of rows takes as much as m columns for each of them.
        return [count * math.prod(sizes[:axis]) * math.prod(modes[axis:]) for axis in range(len(sizes) - 1, 0, -1)]

    def _transforms(self, side: Side, arrays: list[Address], images: int, *, after: bool) -> None:
        """From the field through the arrays in between to the kept spectrum; back on the side after the mixing."""
        plan = self.plan
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
        steps.append((row, (np.int64(lines),), (arrays[0], arrays[1]), d - 1))
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
            self.program.add(kernel, *ends, self._table(after, axis), *arguments)

    def _mix(self, kept: Address, mixed: Address, modes: int) -> None:
        plan = self.plan
        read, written = plan.channels
        arguments = np.zeros(1, MIX)
        arguments["modes"], arguments["batch"], arguments["in"], arguments["out"] = modes, plan.batch, read, written
        arguments["last"] = plan.modes[-1]
        if plan.transposed and plan.halved:
            arguments["read"], arguments["written"] = plan.in_sizes[-1], plan.out_sizes[-1]
        # The symmetry that tells two rows apart gives each of them twice.
        arguments["scale"] = plan.scale * (0.5 if self.before.form in ("PAIRS", "SPLIT") else 1.0)
        arguments["sign"] = -1 if plan.transposed else 1
        if plan.depthwise:
            arguments["weight_in"] = modes
            size = plan.batch * read * modes
            kernel = Kernel("mix.cu", f"multiply<{self.real}>", (-(-size // 256),), (256,), 0, self.options)
        else:
            # The weight is stored (channels in, channels out, modes); its adjoint reads it the other way round.
            along = (modes, read * modes) if plan.transposed else (written * modes, modes)
            arguments["weight_in"], arguments["weight_out"] = along
            kernel = self._mix_kernel(plan.batch, read, written, modes)
        self.program.add(kernel, kept, Address(WEIGHT), mixed, arguments)

    def _mix_kernel(self, batch: int, read: int, written: int, modes: int) -> Kernel:
        """The largest tile that still gives every multiprocessor a block; small ones where the problem is small."""
        tiles = [t for t in TILES if t[0] * t[2] < 2 * batch or t[0] * t[2] == 1]
        tiles = [t for t in tiles if t[1] * t[3] < 2 * written or t[1] * t[3] == 1] or TILES[-1:]

        def grid(tile: tuple[int, int, int, int]) -> tuple[int, int, int]:
            samples, channels = tile[0] * tile[2], tile[1] * tile[3]
            return -(-modes // LANES), -(-written // channels), -(-batch // samples)

        chosen = next((t for t in tiles if math.prod(grid(t)) >= self.multiprocessors), tiles[-1])
        rows = chosen[0] * chosen[2] + chosen[1] * chosen[3]
        chunk = max(1, min(8, STAGE_BYTES // (rows * LANES * 2 * self.itemsize)))
        shared = STAGES * chunk * rows * LANES * 2 * self.itemsize
        conjugate = "true" if self.plan.transposed else "false"
        name = f"mix<{self.real}, {', '.join(map(str, chosen))}, {chunk}, {STAGES}, {conjugate}>"
        return Kernel("mix.cu", name, grid(chosen), (LANES * chosen[2] * chosen[3],), shared, self.options)
