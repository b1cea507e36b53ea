"""Which steps march: several levels in one pass over memory, and how the grid is cut up for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda.launch import Device, Kernel, index_option
from spectralops._cuda.program import Address, Program
from spectralops._cuda.stages import C_NAMES, NO_CONTRACTION, Instances, in_memory

if TYPE_CHECKING:
    from spectralops._plans.schemes import Weight
    from spectralops._plans.steps import StepPlan

__all__ = ["LINE_BYTES", "SCHEDULERS", "March", "Marches", "Pass", "grid_of", "height_of", "most_levels"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a marching kernel is cut.

    Attributes
    ----------
    width : int
        Cells of a lane along the contiguous axis.
    levels : int
        Most steps of a pass.
    warps : int
        Warps of a block.
    saturation : int
        Marches for each scheduler (for each multiprocessor in three dimensions) below which more cost no time.
    walled : int
        The same where there are walls, beside which marches take longer: many short ones even that out.
    ahead : int
        Slices that are read ahead.
    rows : int
        Rows of a thread: in three dimensions, and of a single step.
    """

    width: int
    levels: int
    warps: int
    saturation: int
    walled: int
    ahead: int = 1
    rows: int = 1


# By stepped axes and bytes of a number, for passes of more and more steps: the first that takes enough. Measured on an
# H200. More levels have less room in registers for rows, so that tiles overlap more, but pass over memory less often.
SHAPES = {
    (1, 4): (Shape(8, 16, 4, 1, 1),),
    (1, 8): (Shape(8, 16, 4, 1, 1),),
    (2, 4): (Shape(4, 1, 8, 1, 1, rows=2), Shape(4, 8, 4, 3, 12)),
    (2, 8): (Shape(2, 1, 8, 1, 1, rows=4), Shape(2, 8, 4, 6, 12)),
    (3, 4): (
        Shape(4, 1, 4, 6, 12, rows=2),
        Shape(4, 2, 16, 1, 1, ahead=2, rows=3),
        Shape(2, 3, 16, 1, 1, rows=4),
        Shape(2, 4, 16, 1, 1, rows=3),
    ),
    (3, 8): (Shape(2, 1, 8, 12, 12, rows=2), Shape(2, 2, 16, 1, 1, ahead=2, rows=2)),
}
# Single steps by stepped axes where u or the result is stored in 16 bits, for rows of whole words of 16 bytes.
NARROW_SHAPES = {2: Shape(8, 1, 4, 1, 1, rows=2), 3: Shape(8, 1, 4, 4, 12, rows=2)}
SCHEDULERS = 4  # of a multiprocessor
# Blocks that a multiprocessor surely holds at once.
RESIDENT_BLOCKS = 2
# Slices of a chunk, which bounds what chunks compute twice.
LEAST_HEIGHT = 4
# A launch of several passes saves launches where a pass takes no longer than one: for fields of up to so many bytes.
RESIDENT_BYTES = 16 << 20
TAPS = {"none": 0, "both": 1, "low": 2, "high": 3, "each": 4}
# The parts of scratch memory start at such lines.
LINE_BYTES = 256
# Addresses of a program: the arrays, scratch memory, coefficients in the order of the plan.
U, OUT, SPACE, FIELDS = range(4)


@dataclass(frozen=True, slots=True)
class Pass:
    """One launch: how many passes of how many levels, its kernel, and the struct of the grid."""

    kernel: Kernel
    levels: int
    passes: int
    grid: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Marches:
    """All launches of a plan."""

    program: Program
    space_bytes: int

    def calls(self, operands: Sequence[int], out: int, space: int) -> tuple[tuple[Program, list[int]]]:
        """The one program, with the addresses of u and of its coefficients."""
        u, *fields = operands
        return ((self.program, [u, out, space, *fields]),)


def most_levels(axes: int, itemsize: int) -> int:
    """Steps that a pass takes at most."""
    return SHAPES[axes, itemsize][-1].levels


class March:
    """The marching kernels of a plan: coefficients constant on a grid, neighbours of width 1, along the last axes."""

    def __init__(self, plan: StepPlan, fields: tuple[Any, ...] = ()) -> None:
        geometry, update = plan.geometry, plan.update
        linear = update.linear
        assert linear is not None
        self.plan = plan
        self.axes = len(geometry.axes)
        self.real = np.dtype(plan.compute)
        # Of the arithmetic and of what lies between launches; of u and the result in memory.
        self._types = C_NAMES[plan.compute], in_memory(plan)
        self._narrow = self._types[0] != self._types[1]
        self._schedules: dict[tuple[int, bool], tuple[Pass, ...]] = {}
        self._launches: dict[tuple[int, bool], Marches] = {}
        self.index = np.dtype(np.int32 if plan.index_bits == 32 else np.int64)
        first = geometry.axes[0]
        taps = dict.fromkeys(range(self.axes), "none")
        values = np.zeros((), self._values_type())
        weights: dict[tuple[int, int], Weight | None] = {(a, k): None for a in range(self.axes) for k in (-1, 1)}
        values["center"] = 1.0 + linear.center.constant
        for tap in linear.taps:
            a = tap.axis - first
            if len(tap.offsets) == 2:
                taps[a] = "both"
            else:
                side = "low" if tap.offsets[0] < 0 else "high"
                taps[a] = side if taps[a] == "none" else "each"
            for k in tap.offsets:
                values["low" if k < 0 else "high"][a] = tap.weight.constant
                weights[a, k] = tap.weight
        for part in update.transport:
            values["speed"][part.axis - first] = part.factor
        if update.sources:
            rate, factor = update.sources[0]
            values["source"] = rate * factor  # type: ignore[operator]
        table = any(weight is not None and weight.parts for weight in (linear.center, *weights.values()))
        self.instances = Instances(plan, fields, linear.center, tuple(weights.values())) if table else None
        flags = ["true" if flag else "false" for flag in (update.transport, update.sources, table)]
        self._rule = f"Rule<{', '.join([*flags, *(str(TAPS[taps[a]]) for a in range(self.axes))])}>"
        # An axis along which nothing moves has no ghosts; its ends may be held all the same.
        self._walls = any(
            layers[0][0].source != "wrap" if layers[0] else any(held)
            for layers, held in zip(geometry.ghosts, geometry.held, strict=True)
        )
        self.values = values

    @staticmethod
    def covers(plan: StepPlan) -> bool:
        """Whether the kernels compute the step: Euler, taps next to the cell, at most Burgers' central term."""
        geometry, update = plan.geometry, plan.update
        linear, ndim = update.linear, len(geometry.shape)
        if plan.integrator != "euler" or linear is None or update.diffusion or update.pointwise:
            return False
        if geometry.axes != tuple(range(ndim - len(geometry.axes), ndim)) or max(geometry.widths) != 1:
            return False
        if any(max(map(abs, tap.offsets)) > 1 for tap in linear.taps):
            return False
        if len(update.sources) > 1 or any(not isinstance(rate, float) for rate, _ in update.sources):
            return False
        if not update.transport:
            return True
        return len(update.transport) == len(geometry.axes) and all(
            part.velocity is None and part.scheme == "central" and part.form == "advective" for part in update.transport
        )

    def _values_type(self) -> np.dtype[Any]:
        one = (self.axes,)
        return np.dtype(
            [
                ("center", self.real),
                ("low", self.real, one),
                ("high", self.real, one),
                ("speed", self.real, one),
                ("source", self.real),
            ],
            align=True,
        )

    def passes(self, device: Device, aligned: bool) -> tuple[Pass, ...]:
        """The launches that advance all steps; `aligned`: u and the result start at a multiple of 16 bytes."""
        key = (device.index, aligned)
        found = self._schedules.get(key)
        if found is None:
            found = self._schedules[key] = self._schedule(device, aligned)
        return found

    def launches(self, device: Device, aligned: bool) -> Marches:
        """The same as a program, with its scratch memory: a counter, coefficients of each grid, the field."""
        key = (device.index, aligned)
        found = self._launches.get(key)
        if found is None:
            found = self._launches[key] = self._programmed(self.passes(device, aligned))
        return found

    def _programmed(self, passes: tuple[Pass, ...]) -> Marches:
        program, instances = Program(), self.instances
        table, begin = Address(OUT), LINE_BYTES
        if instances is not None:
            table = Address(SPACE, begin)
            begin += -(-instances.count * self.values.itemsize // LINE_BYTES) * LINE_BYTES
            inner = {(2, word): Address(FIELDS + operand - 1) for word, operand in instances.places()}
            program.add(instances.kernel, table, self.values, instances.values, inner=inner)
        nbytes = math.prod(self.plan.in_shape) * self.real.itemsize
        pitch = -(-nbytes // LINE_BYTES) * LINE_BYTES
        left = sum(one.passes for one in passes)
        spares = min(left - 1, 2 if self._narrow else 1)
        space = [Address(SPACE, begin + k * pitch) for k in range(spares)]
        # Passes end by turns in scratch memory and in the result, which must hold the last one; what is rounded when it
        # is stored there holds no other.
        turns = space if self._narrow and space else [Address(OUT), *space]
        source = Address(U)
        for one in passes:
            left -= one.passes
            target = turns[(left - self._narrow) % len(turns)] if left else Address(OUT)
            other = turns[(left + 1 - self._narrow) % len(turns)]
            if self.axes == 1:
                arguments: tuple[Any, ...] = (np.int32(one.levels), one.grid)
            elif self.axes == 3 or one.levels == 1:
                arguments = (one.grid,)
            else:
                counter = target
                if one.passes > 1:
                    counter = Address(SPACE)
                    program.clear(counter, LINE_BYTES)
                arguments = (other, counter, np.int32(one.passes), one.grid)
            program.add(one.kernel, source, target, *arguments, self.values, table)
            source = target
        return Marches(program, begin + spares * pitch if spares or instances is not None else 0)

    def _shape(self, levels: int) -> Shape:
        narrow = NARROW_SHAPES.get(self.axes) if levels == 1 and self._narrow else None
        if narrow is not None and self.plan.in_shape[-1] % narrow.width == 0:
            return narrow
        return next(shape for shape in SHAPES[self.axes, self.real.itemsize] if shape.levels >= levels)

    def _schedule(self, device: Device, aligned: bool) -> tuple[Pass, ...]:
        count = self.plan.steps
        most = most_levels(self.axes, self.real.itemsize)
        nbytes = math.prod(self.plan.in_shape) * self.real.itemsize
        if self.axes == 2 and count >= 2 * most and nbytes <= RESIDENT_BYTES:
            whole, rest = divmod(count, most)
            if self._narrow:  # what lies between the passes of one launch is of the type of what it reads and writes
                cuts = [(most, 1), (most, whole - (1 if rest else 2)), (rest or most, 1)]
            else:
                cuts = [(most, whole), (rest, 1)]
            cuts = [(levels, passes) for levels, passes in cuts if levels and passes]
        else:
            number = -(-count // most)
            cuts = [(count * (k + 1) // number - count * k // number, 1) for k in range(number)]
        last = len(cuts) - 1
        return tuple(
            self._pass(device, aligned, levels, passes, (k == 0, k == last)) for k, (levels, passes) in enumerate(cuts)
        )

    def _pass(self, device: Device, aligned: bool, levels: int, passes: int, ends: tuple[bool, bool]) -> Pass:
        """`ends`: whether it reads u, and whether it writes the result."""
        whole = self.plan.in_shape
        n = whole[len(whole) - self.axes :]
        grids = math.prod(whole[: len(whole) - self.axes])
        shape = self._shape(levels)
        width, warps = shape.width, shape.warps
        aligned = aligned and n[-1] % width == 0
        most = shape.levels if self.axes == 1 else levels
        sweep = self.axes > 1 and levels == 1
        kept = 32 * width - (0 if sweep else 2 * (-(-most // width) * width))
        strips = -(-n[-1] // kept)
        rows = warps * shape.rows
        tiles = -(-n[1] // (rows - (0 if sweep else 2 * levels))) if self.axes == 3 else 1
        height = chunks = 1
        if sweep and self.axes == 2:
            height, chunks = rows, -(-n[0] // rows)
        elif self.axes > 1:
            slots = device.multiprocessors * (SCHEDULERS if self.axes == 2 else 1)
            # Passes of one launch wait for one another: there the shortest march counts, not the busiest scheduler.
            saturation = 1 if passes > 1 else shape.walled if self._walls else shape.saturation
            height = height_of(n[0], grids * strips * tiles, levels, slots, saturation)
            chunks = -(-n[0] // height)
        units = grids * strips * tiles * chunks
        grid = self._grid(n, height, chunks, tiles, strips, units)
        flags = [str(flag).lower() for flag in (aligned, self._walls)]
        real = self._types[0]
        options = (NO_CONTRACTION, index_option(8 * self.index.itemsize))
        blocks, shared, cooperative = -(-units // warps), 0, False
        if self.axes == 1:
            parts = ["march_line", real, width, warps, most, *flags, self._rule]
        elif sweep:
            kind = "sweep_plane" if self.axes == 2 else "sweep_volume"
            parts = [kind, real, width, warps, shape.rows, *flags, self._rule]
            blocks = units
        elif self.axes == 2:
            parts = ["march_plane", real, width, warps, levels, shape.ahead, *flags, self._rule]
            cooperative = passes > 1
            if cooperative:
                blocks = min(blocks, RESIDENT_BLOCKS * device.multiprocessors)
        else:
            parts = ["march_volume", real, width, shape.rows, warps, levels, shape.ahead, *flags, self._rule]
            blocks = units
            shared = 2 * levels * warps * 2 * 32 * width * self.real.itemsize
        if self._narrow and any(ends):
            parts += [self._types[end] for end in ends]
        name = f"{parts[0]}<{', '.join(map(str, parts[1:]))}>"
        kernel = Kernel("march.cu", name, (min(blocks, 2**31 - 1),), (32 * warps,), shared, options, cooperative)
        return Pass(kernel, levels, passes, grid)

    def _grid(self, n: tuple[int, ...], height: int, chunks: int, tiles: int, strips: int, units: int) -> Any:
        grid = grid_of(n, (height, chunks, tiles, strips, units), self.real, self.index)
        geometry = self.plan.geometry
        grid["held"] = geometry.held
        for a, sides in enumerate(geometry.ghosts):
            for side, layers in enumerate(sides):
                if not layers:  # an axis along which nothing moves
                    continue
                rule = layers[0]
                grid["wraps"][a] = rule.source == "wrap"
                if (rule.scale, rule.offset) != (1.0, 0.0):
                    grid["walls"]["scale"][a, side], grid["walls"]["offset"][a, side] = rule.scale, rule.offset
        return grid


def grid_of(n: tuple[int, ...], cut: tuple[int, ...], real: np.dtype[Any], index: np.dtype[Any]) -> Any:
    """The struct of grids of these sizes, cut into pieces of so many slices, chunks, tiles, strips, units in all."""
    wall = np.dtype([("scale", real, (2,)), ("offset", real, (2,))], align=True)
    one, counts = (len(n),), ("height", "chunks", "tiles", "strips", "units")
    grid = np.zeros(
        (),
        np.dtype(
            [
                ("n", index, one),
                *((name, index) for name in counts),
                ("wraps", np.int32, one),
                ("held", np.int32, (len(n), 2)),
                ("walls", wall, one),
            ],
            align=True,
        ),
    )
    grid["n"] = n
    for name, value in zip(counts, cut, strict=True):
        grid[name] = value
    # 1 * u + (-0) is u to the last bit, also for u = -0.
    grid["walls"]["scale"], grid["walls"]["offset"] = 1.0, -0.0
    return grid


@lru_cache(maxsize=256)
def height_of(n: int, columns: int, levels: int, slots: int, saturation: int) -> int:
    """Slices of a chunk that let `columns` marches of n slices end soonest on `slots` schedulers.

    A march of h slices takes h + 2 * levels turns, and a scheduler with up to `saturation` marches no longer than
    with one.
    """
    best, least = n, math.inf
    for chunks in range(1, max(1, n // LEAST_HEIGHT) + 1):
        height = -(-n // chunks)
        turns = (height + 2 * levels) * max(saturation, -(-columns * chunks // slots))
        if turns < least:
            best, least = height, turns
    return best
