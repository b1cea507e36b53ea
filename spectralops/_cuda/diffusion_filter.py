"""diffusion_filter on the device: several levels of Chebyshev's recurrence in one pass over memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.geometry import namespace, usable
from spectralops._cuda.launch import Device, Kernel, index_option
from spectralops._cuda.marches import LINE_BYTES, SCHEDULERS, grid_of, height_of
from spectralops._cuda.program import ALIGNMENT, Address, Program, address
from spectralops._cuda.stages import C_NAMES, NO_CONTRACTION
from spectralops._recent import Recent

if TYPE_CHECKING:
    from spectralops._plans.diffusion_filter import DiffusionFilterPlan
    from spectralops._plans.recurrence import Recurrence

__all__ = ["algorithm", "diffusion_filter", "refusal"]

FILE = "chebyshev.cu"
MOST_AXES = 3
# Addresses of a program: the field, the result, scratch memory, the mask, the cells' field, conductances.
U, OUT, SPACE, MASK, FIELD, FACES = range(6)
# Levels of a pass, by how much a row keeps in registers; cells of a lane by bytes of a number; warps of a block;
# marches for each scheduler below which more cost no time. Measured on an H200.
MOST_LEVELS, WIDTH, WARPS, SATURATION = {"open": 6, "coast": 4, "flux": 5}, {4: 4, 8: 2}, 4, 3
THREADS, MOST_BLOCKS_Y = 256, 65535
# Levels between passes lie in scratch memory, of as many grids at a time as it holds: fewer leave multiprocessors idle.
SPACE_BYTES = 160 << 20
COUNTS = 27


def refusal(plan: DiffusionFilterPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    axes = len(plan.axes)
    return f"it is along {axes} axes, and kernels have at most {MOST_AXES}" if axes > MOST_AXES else ""


def algorithm(plan: DiffusionFilterPlan) -> str:
    """How this plan runs, in words."""
    if len(plan.axes) == MOST_AXES:
        return "kernels compiled on first use: one level per pass over memory"
    most = min(MOST_LEVELS[plan.form], plan.n_steps)
    return f"kernels compiled on first use: up to {most} level(s) per pass over memory, in registers"


def diffusion_filter(plan: DiffusionFilterPlan, u: Any, *rest: Any, out: Any, workers: int) -> None:
    """Write the filtered field to `out`."""
    if not out.size:
        return
    xp, runner = namespace(out), launch.runner(plan.op, out)
    recurrence = plan.recurrence((u, *rest), xp, coasts=False)
    if plan.transposed:
        u = u / recurrence.area
    axes = sorted(plan.axes)
    last = list(range(u.ndim - len(axes), u.ndim))
    source = usable(xp.moveaxis(u, axes, last), ALIGNMENT)
    target = out if axes == last and address(out) % ALIGNMENT == 0 else xp.empty(source.shape, out.dtype)
    mask = recurrence.sea if plan.form == "coast" else None
    fields = [None if value is None else _laid(plan, value, xp) for value in (mask, recurrence.field)]
    fields += [_laid(plan, value, xp) for value in recurrence.conductances]
    ready = _ready(plan, recurrence, tuple(value is not None and value.shape[0] > 1 for value in fields), runner)
    space = runner.scratch(ready.space_bytes) if ready.space_bytes else None
    arrays = (source, target, space, *fields)
    ready.program.run(runner, [0 if array is None else address(array) for array in arrays])
    if target is not out:
        out[...] = xp.moveaxis(target, last, axes)
    if plan.transposed:
        out *= recurrence.area


def _laid(plan: DiffusionFilterPlan, values: Any, xp: Any) -> Any:
    """An array that broadcasts against the field as (grids or 1, cells of a grid), the filtered axes last."""
    ndim, axes = len(plan.shape), sorted(plan.axes)
    values = values.reshape((1,) * (ndim - values.ndim) + values.shape)
    batch = [axis for axis in range(ndim) if axis not in axes]
    shared = all(values.shape[axis] == 1 for axis in batch)
    whole = [1 if shared and axis in batch else n for axis, n in enumerate(plan.shape)]
    moved = xp.moveaxis(xp.broadcast_to(values, whole), axes, range(ndim - len(axes), ndim))
    cells = math.prod(plan.shape[axis] for axis in axes)
    return usable(xp.ascontiguousarray(moved).reshape(-1, cells), ALIGNMENT)


# Programs by plan, device, and which fields differ between grids.
_prepared: Recent[Any, Filter] = Recent(64)


def _ready(plan: DiffusionFilterPlan, recurrence: Recurrence, apart: tuple[bool, ...], runner: launch.Runner) -> Filter:
    device = runner.device()
    key = (id(plan), device.index, apart)
    found = _prepared.get(key)
    return _prepared.put(key, Filter(plan, recurrence, apart, device)) if found is None else found


@dataclass(frozen=True, slots=True)
class Pass:
    """Levels first + 1 ... last of some grids; where those that it begins and ends with lie (T_{k-2}, T_{k-1})."""

    first: int
    last: int
    begin: tuple[Address, Address]
    end: tuple[Address, Address]


class Filter:
    """The launches of a plan, for fields that differ between grids (`apart`) or are the same for all."""

    def __init__(
        self, plan: DiffusionFilterPlan, recurrence: Recurrence, apart: tuple[bool, ...], device: Device
    ) -> None:
        self.plan = plan  # which lives as long as its program is found by it
        self._apart, self._device = apart, device
        self._real = np.dtype(plan.compute_dtype)
        self._sizes = tuple(plan.shape[axis] for axis in sorted(plan.axes))
        self._wraps = tuple(reversed(recurrence.periodic))
        self._weights, self._closed = recurrence.weights, recurrence.closed
        # Counters of lines go on by up to as many again.
        wide = plan.index_bits > 32 or math.prod(plan.shape) // self._sizes[-1] > 2**30
        self._index = np.dtype(np.int64 if wide else np.int32)
        self._options = (NO_CONTRACTION, index_option(8 * self._index.itemsize))
        self.program = Program()
        self._cells = math.prod(self._sizes)
        self._grids = math.prod(plan.shape) // self._cells
        self._pitch = -(-self._cells * self._real.itemsize // LINE_BYTES) * LINE_BYTES  # of one grid's level
        self.space_bytes = self._dry_bytes()
        levels = self._cuts()
        fields = 0 if len(levels) == 1 else 2 if len(levels) == 2 or len(self._sizes) == MOST_AXES else 4
        at_once = max(1, min(self._grids, SPACE_BYTES // max(1, fields * self._pitch)))
        level = -(-at_once * self._cells * self._real.itemsize // LINE_BYTES) * LINE_BYTES
        spaces = [Address(SPACE, self.space_bytes + k * level) for k in range(fields)]
        self.space_bytes += fields * level
        if plan.form == "coast":
            self._count_dry()
        for start in range(0, self._grids, at_once):
            for one in self._passes(levels, spaces):
                self._add(one, start, min(at_once, self._grids - start))

    def _dry_bytes(self) -> int:
        """Bytes of the counts of dry neighbours, which lie where scratch memory begins."""
        if self.plan.form != "coast":
            return 0
        grids = self._grids if self._apart[0] else 1
        return -(-grids * self._cells // LINE_BYTES) * LINE_BYTES

    def _cuts(self) -> list[int]:
        """Levels after which passes end."""
        count = self.plan.n_steps
        most = 1 if len(self._sizes) == MOST_AXES else MOST_LEVELS[self.plan.form]
        number = -(-count // most)
        return [count * (k + 1) // number for k in range(number)]

    def _passes(self, ends: list[int], spaces: list[Address]) -> Iterator[Pass]:
        """All passes of some grids. Along three axes a pass has one level, and T_k is written over T_{k-2}."""
        if len(self._sizes) == MOST_AXES:
            before = current = Address(U)
            for k, last in enumerate(ends):
                following = spaces[k % 2] if spaces else current
                yield Pass(last - 1, last, (before, current), (before, following))
                before, current = (Address(U) if k == 0 else current), following
            return
        begin, first = (Address(U), Address(U)), 0
        for k, last in enumerate(ends):
            end = (spaces[k % 2 * 2], spaces[k % 2 * 2 + 1]) if last < ends[-1] else begin
            yield Pass(first, last, begin, end)
            begin, first = end, last

    def _medium(self, start: int) -> tuple[np.ndarray[Any, Any], dict[int, Address]]:
        """The struct of the fields from a grid on, without addresses, and these by their words."""
        type_ = np.dtype(
            [
                ("addresses", np.uint64, (5,)),
                ("dry_apart", self._index),
                ("field_apart", self._index),
                ("faces_apart", self._index, (MOST_AXES,)),
            ],
            align=True,
        )
        medium, words, size = np.zeros((), type_), {}, self._real.itemsize
        dry_apart, field_apart, *faces_apart = (self._cells * each for each in self._apart)
        medium["dry_apart"], medium["field_apart"] = dry_apart, field_apart
        if self.plan.form == "coast":
            words[0] = Address(SPACE, start * dry_apart)
        elif self.plan.form == "flux":
            words[1] = Address(FIELD, start * field_apart * size)
            for j, apart in enumerate(faces_apart):
                medium["faces_apart"][j] = apart
                words[2 + j] = Address(FACES + j, start * apart * size)
        return medium, words

    def _recurrence(self, one: Pass) -> np.ndarray[Any, Any]:
        count = one.last - one.first
        type_ = [("weights", self._real, (2,)), ("closed", self._real, (COUNTS,)), ("c", self._real, (count + 1,))]
        values = np.zeros((), np.dtype(type_, align=True))
        values["weights"][: len(self._weights)] = self._weights
        values["closed"][: len(self._closed)] = self._closed
        values["c"] = self.plan.coefficients[one.first : one.last + 1]
        return values

    def _add(self, one: Pass, start: int, grids: int) -> None:
        """A launch: one pass of so many grids."""
        size = self._real.itemsize
        shift = start * self._cells * size
        u, total = Address(U, shift), Address(OUT, shift)
        streams = [u, *(at.plus(shift) if at.slot == U else at for at in (*one.begin, *one.end)), total]
        medium, words = self._medium(start)
        kernel, grid = self._kernel(one, grids)
        grid["wraps"][-len(self._wraps) :] = self._wraps
        inner = {(0, word): at for word, at in enumerate(streams)} | {(1, word): at for word, at in words.items()}
        struct = np.zeros((), [("streams", np.uint64, (len(streams),))])
        self.program.add(kernel, struct, medium, grid, self._recurrence(one), inner=inner)

    def _kernel(self, one: Pass, grids: int) -> tuple[Kernel, np.ndarray[Any, Any]]:
        real, form = C_NAMES[self._real.name], self.plan.form.upper()
        ends = (one.first == 0) + 2 * (one.last == self.plan.n_steps)
        tail = f"{form}, {ends}"
        if len(self._sizes) == MOST_AXES:
            rows, n = grids * self._sizes[0] * self._sizes[1], self._sizes[2]
            wide = min(THREADS, 1 << max(5, (n - 1).bit_length()))
            blocks = (-(-n // wide), min(-(-rows // (THREADS // wide)), MOST_BLOCKS_Y))
            name, threads = f"chebyshev_volume<{real}, {tail}>", (wide, THREADS // wide)
            cut = (0, 0, 0, 0, rows)
            return Kernel(FILE, name, blocks, threads, options=self._options), self._grid(self._sizes, cut)
        levels, width = one.last - one.first, WIDTH[self._real.itemsize]
        n = self._sizes[-1]
        aligned = str(n % width == 0).lower()
        strips = -(-n // (32 * width - 2 * (-(-levels // width) * width)))
        template = f"{real}, {width}, {WARPS}, {levels}, {tail}, {aligned}"
        kind, rows, height, chunks = "chebyshev_lines", grids, 1, 1
        if len(self._sizes) == 2:
            kind, rows = "chebyshev_planes", self._sizes[0]
            slots = self._device.multiprocessors * SCHEDULERS
            height = height_of(rows, grids * strips, levels, slots, SATURATION)
            chunks = -(-rows // height)
        units = grids * strips * chunks
        kernel = Kernel(
            FILE,
            f"{kind}<{template}>",
            (min(-(-units // WARPS), 2**31 - 1),),
            (32 * WARPS,),
            options=self._options,
        )
        return kernel, self._grid((rows, n), (height, chunks, 1, strips, units))

    def _grid(self, sizes: tuple[int, ...], cut: tuple[int, ...]) -> np.ndarray[Any, Any]:
        grid: np.ndarray[Any, Any] = grid_of(sizes, cut, self._real, self._index)
        return grid

    def _count_dry(self) -> None:
        """The launch that finds the dry neighbours of all cells."""
        grids = self._grids if self._apart[0] else 1
        count = grids * self._cells
        grid = grid_of(self._sizes, (0, 0, 0, 0, 0), np.dtype(np.float32), self._index)
        grid["wraps"] = self._wraps
        kernel = Kernel(
            FILE, f"closed_faces<{len(self._sizes)}>", (-(-count // THREADS),), (THREADS,), options=self._options
        )
        self.program.add(kernel, Address(MASK), Address(SPACE), grid, self._index.type(count))
