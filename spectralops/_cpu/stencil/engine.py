"""From a plan and native arrays to compiled sweeps: coefficients, ghosts, fields, buffers, threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu.stencil import rows
from spectralops._cpu.stencil.skeleton import build
from spectralops._cpu.stencil.tiling import LINE_BYTES, Layout, Pass, passes
from spectralops._cpu.vector import workspace

if TYPE_CHECKING:
    from spectralops._plans.schemes import Weight
    from spectralops._plans.steps import StepPlan
    from spectralops._plans.terms import Field

__all__ = ["advance"]

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=64)
def _sweep(kernel: str) -> Any:
    return build(getattr(rows, kernel))


def advance(plan: StepPlan, u: Array, *fields: Array, out: Array, workers: int) -> None:
    """Write u after the plan's steps to out."""
    if not out.size:
        return
    grid = Grid.of_plan(plan, (u, *fields))
    axes, last = plan.geometry.axes, tuple(range(u.ndim - grid.dims, u.ndim))
    source = np.ascontiguousarray(np.moveaxis(u, axes, last)).reshape(-1)
    in_order = axes == last
    target = (out if in_order else np.empty(np.moveaxis(out, axes, last).shape, out.dtype)).reshape(-1)
    schedule = list(
        passes(grid.grids, grid.shape, grid.dims, grid.width, grid.periodic[:2], plan.steps, out.itemsize, workers)
    )
    # A tile that borders on others looks at fields as far away as its levels reach.
    levels = max((one.levels for one in schedule if not one.folds), default=0)
    with ExitStack() as stack:
        constants = grid.constants()
        laid = grid.fields(levels, stack)
        spare = stack.enter_context(_buffers(out.dtype, source.size))[0] if len(schedule) > 1 else target
        for index, one in enumerate(schedule):
            following = target if (len(schedule) - index) % 2 else spare
            _run(grid, one, source, following, constants, laid, workers)
            source = following
    if not in_order:
        out[...] = np.moveaxis(target.reshape(np.moveaxis(out, axes, last).shape), last, axes)
    if plan.geometry.mask is not None:
        np.copyto(out, u, where=~np.broadcast_to(grid.arrays[plan.geometry.mask], out.shape))


def _run(grid: Grid, one: Pass, source: Array, target: Array, constants: Array, laid: Laid, workers: int) -> None:
    layout = one.layout
    sweep = _sweep(f"{grid.kernel}_{grid.dims}d")
    rules = grid.rules()
    stepped = (grid.dims == 3, grid.dims >= 2)
    # numba would compile anew for an array that cannot be written, so that all of them are made such.
    source = source.view()
    source.flags.writeable = False

    def part(first: int, end: int) -> None:
        with _buffers(source.dtype, layout.size, layout.size) as (a, b):
            sweep(
                source, target, one.items[first:end], grid.shape, one.levels, (a, b), layout.base,
                (layout.plane_pitch, layout.pitch), stepped, one.folds, grid.periodic[2], grid.held, rules, constants,
                laid.conductances, laid.source is not None, source if laid.source is None else laid.source, laid.base,
                laid.pitches,
            )  # fmt: skip

    with np.errstate(all="ignore"):
        workspace.run(part, len(one.items), workers)


@contextmanager
def _buffers(dtype: np.dtype[Any], *sizes: int) -> Iterator[list[Array]]:
    """Aligned flat arrays from the workspace, for the time of the context."""
    taken = [workspace.take(size * dtype.itemsize) for size in sizes]
    try:
        yield [_array(buffer, dtype, size) for buffer, size in zip(taken, sizes, strict=True)]
    finally:
        for buffer in taken:
            workspace.give_back(buffer)


def _array(buffer: workspace.Buffer, dtype: np.dtype[Any], size: int) -> Array:
    start = buffer.address - buffer.owner.ctypes.data
    return buffer.owner[start : start + size * dtype.itemsize].view(dtype)


@dataclass(frozen=True, slots=True)
class Laid:
    """Coefficient fields laid out over whole grids, with the cells beyond their ends that sweeps look at."""

    conductances: tuple[Array, ...]
    source: Array | None
    base: int
    pitches: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A plan seen as the sweep sees it: `grids` grids of (planes, rows, cells), stepped along the last `dims` axes."""

    plan: StepPlan
    arrays: tuple[Array, ...]
    dims: int
    grids: int
    shape: tuple[int, int, int]
    kernel: str

    @classmethod
    def of_plan(cls, plan: StepPlan, arrays: tuple[Array, ...]) -> Grid:
        """Rows of a batch make one grid where only rows are stepped, unless their coefficients differ."""
        geometry, update = plan.geometry, plan.update
        dims = len(geometry.axes)
        stepped = tuple(geometry.shape[axis] for axis in geometry.axes)
        batch = arrays[0].size // int(np.prod(stepped))
        varies = update.linear is not None and any(
            weight.parts for weight in (update.linear.center, *(tap.weight for tap in update.linear.taps))
        )
        if dims == 1 and not varies:
            grids, shape = 1, (1, batch, *stepped)
        else:
            grids, shape = batch, (1,) * (3 - dims) + stepped
        return cls(plan, arrays, dims, grids, shape, plan.kernel)  # type: ignore[arg-type]

    @property
    def width(self) -> int:
        """Ghost layers on every side."""
        return max(self.plan.geometry.widths)

    @property
    def periodic(self) -> tuple[bool, bool, bool]:
        """Which axes wrap around."""
        wraps = [layers[0][0].source == "wrap" for layers in self.plan.geometry.ghosts]
        return (False,) * (3 - self.dims) + tuple(wraps)  # type: ignore[return-value]

    @property
    def held(self) -> Array:
        """Which end cells keep their value, [axis, side]."""
        held = np.zeros((3, 2), np.bool_)
        held[3 - self.dims :] = self.plan.geometry.held
        return held

    def rules(self) -> tuple[Array, Array, Array]:
        """Sources, counted from the wall, scales and offsets of the ghosts: [axis, side, layer]."""
        source = np.zeros((3, 2, self.width), np.int64)
        scale = np.ones((3, 2, self.width), self.plan.compute)
        # x * 1 + (-0) is x to the last bit, also for x = -0.
        offset = np.full_like(scale, -0.0)
        first = 3 - self.dims
        for j, pair in enumerate(self.plan.geometry.ghosts):
            size = self.shape[first + j]
            for side, layers in enumerate(pair):
                for m, rule in enumerate(layers):
                    place = (first + j, side, m)
                    source[place] = {"wrap": (size - 1 - m) % size, "mirror": m, "edge": 0}[rule.source]
                    if (rule.scale, rule.offset) != (1.0, 0.0):
                        scale[place], offset[place] = rule.scale, rule.offset
        return source, scale, offset

    def constants(self) -> Array:
        """Coefficients of the kernel, a row for each grid whose coefficients differ."""
        update = self.plan.update
        if self.kernel == "flux":
            return np.zeros((1, 1), self.plan.compute)
        linear = update.linear
        assert linear is not None
        columns = [1.0 + self._weight(linear.center), *(self._weight(tap.weight) for tap in linear.taps)]
        columns += [np.array([part.factor]) for part in update.transport]
        count = max(len(column) for column in columns)
        return np.stack([np.broadcast_to(column, count) for column in columns], axis=1).astype(self.plan.compute)

    def _weight(self, weight: Weight) -> Array:
        """The weight of every grid, in float64."""
        value: Any = weight.constant
        for operand, factor in weight.parts:
            value = value + factor * self.arrays[operand]
        if not weight.parts:
            return np.array([value])
        axes = self.plan.geometry.axes
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(self.plan.in_shape))
        return np.broadcast_to(value, shape).reshape(-1)

    def fields(self, levels: int, stack: ExitStack) -> Laid:
        """The conductances and the source that the kernel reads."""
        update = self.plan.update
        sources = [self._source(rate, factor) for rate, factor in update.sources]
        conductances = [self._conductance(part) for part in update.diffusion]
        if not sources and not conductances:
            return Laid((), None, 0, (0, 0, 0))
        reach = levels * self.width
        halo = (reach + 1 if self.periodic[0] else 1, reach + 1 if self.periodic[1] else 1)
        dtype = np.dtype(self.plan.compute)
        planes, lines, n = self.shape
        pitch = Layout.of_tile(1, 1, n, 1, dtype.itemsize, 1).pitch
        whole = (self.grids, planes + 2 * halo[0], lines + 2 * halo[1], pitch)
        plane_pitch = whole[2] * pitch
        grid_pitch = whole[1] * plane_pitch
        first = LINE_BYTES // dtype.itemsize
        base = halo[0] * plane_pitch + halo[1] * pitch + first
        values = conductances + sources
        flat = stack.enter_context(_buffers(dtype, *[self.grids * grid_pitch] * len(values)))
        for array, value in zip(flat, values, strict=True):
            self._lay(array.reshape(whole), value, halo, first)
        source = flat[len(conductances)] if sources else None
        return Laid(tuple(flat[: len(conductances)]), source, base, (grid_pitch, plane_pitch, pitch))

    def _source(self, rate: float | Field, factor: float) -> Array:
        number = np.dtype(self.plan.compute).type
        if isinstance(rate, float):
            return self._whole(np.asarray(number(rate * factor)))
        return self._whole(self.arrays[rate.operand].astype(self.plan.compute) * number(factor))

    def _whole(self, array: Array) -> Array:
        """An array over all cells, in the order of the sweep: (grids, planes, rows, cells)."""
        axes = self.plan.geometry.axes
        ndim = len(self.plan.in_shape)
        last = tuple(range(ndim - self.dims, ndim))
        moved = np.moveaxis(np.broadcast_to(array, self.plan.in_shape), axes, last)
        return moved.reshape(self.grids, *self.shape)

    def _conductance(self, part: Any) -> Array:
        """Conductance of the faces of one axis, one more than cells, NaN where a mask closes them."""
        number = np.dtype(self.plan.compute).type
        axis = self._axis(part.axis)
        wraps = self.periodic[axis - 1]
        if part.nu is None:
            shape = [self.grids, *self.shape]
            shape[axis] += 1
            faces = np.full(shape, number(part.factor))
        else:
            cells = self._whole(self.arrays[part.nu.operand].astype(self.plan.compute, copy=False))
            faces = _extended(cells, axis, wraps)
            faces = (_slab(faces, axis, 0, -1) + _slab(faces, axis, 1, 0)) * number(part.factor)
        mask = self.plan.geometry.mask
        if mask is not None:
            sources = [layers[0].source for layers in self.plan.geometry.ghosts[axis - 4 + self.dims]]
            open_ = _extended(self._whole(self.arrays[mask]), axis, "wrap" in sources)
            faces[~(_slab(open_, axis, 0, -1) & _slab(open_, axis, 1, 0))] = np.nan
        return faces

    def _axis(self, axis: int) -> int:
        """Axis of the array as an axis of (grids, planes, rows, cells)."""
        return 4 - self.dims + self.plan.geometry.axes.index(axis)

    def _lay(self, view: Array, values: Array, halo: tuple[int, int], first: int) -> None:
        """Copy values over the cells of each grid, and beyond its ends where it wraps around.

        The face above a cell has the cell's place, so the faces of an axis begin one cell before the first.
        """
        planes, lines, n = self.shape
        before = [have - cells for have, cells in zip(values.shape[1:], self.shape, strict=True)]
        view[
            :,
            halo[0] - before[0] : halo[0] + planes,
            halo[1] - before[1] : halo[1] + lines,
            first - before[2] : first + n,
        ] = values
        for axis, size in ((2, lines), (1, planes)):
            if self.periodic[axis - 1]:
                width = halo[axis - 1]
                for k in (*range(-width, 0), *range(size, size + width)):
                    _slab(view, axis, width + k, width + k + 1)[...] = _slab(
                        view, axis, width + k % size, width + k % size + 1
                    )


def _slab(array: Array, axis: int, first: int, end: int) -> Array:
    """The entries from `first` to before `end` along one axis; an end of 0 or less counts from the last."""
    index = [slice(None)] * array.ndim
    index[axis] = slice(first, end if end > 0 else array.shape[axis] + end)
    return array[tuple(index)]


def _extended(cells: Array, axis: int, wraps: bool) -> Array:
    """One more cell at both ends: the other end's where the axis wraps, else the end's own."""
    n = cells.shape[axis]
    ends = (n - 1, 0) if wraps else (0, n - 1)
    return np.take(cells, [ends[0], *range(n), ends[1]], axis=axis)
