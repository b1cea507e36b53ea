"""diffusion_filter on the host: the vector engine's Chebyshev kernels, several levels per pass over memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu.vector import chebyshev_fields as f
from spectralops._cpu.vector import host, schedule, workspace

if TYPE_CHECKING:
    from spectralops._plans.diffusion_filter import DiffusionFilterPlan
    from spectralops._plans.recurrence import Recurrence

__all__ = ["algorithm", "diffusion_filter"]

Array = np.ndarray[Any, Any]

# A grid of fewer cells than this is not worth cutting up for further threads.
SHARED_CELLS = 1 << 15


@dataclass(frozen=True, slots=True)
class Grid:
    """A field seen as `grids` stacks of slabs of rows of cells, the filtered axes last, and its place in scratch.

    Offsets are in numbers of `itemsize` bytes.
    """

    dims: int
    grids: int
    slabs: int
    rows: int
    cells: int
    itemsize: int

    @classmethod
    def of(cls, plan: DiffusionFilterPlan) -> Grid:
        sizes = [plan.shape[axis] for axis in sorted(plan.axes)]
        grids = int(np.prod(plan.shape)) // max(1, int(np.prod(sizes)))
        slabs, rows, cells = {1: [1, 1], 2: [sizes[0], 1]}.get(len(sizes), sizes[:2]) + sizes[-1:]
        return cls(len(sizes), grids, slabs, rows, cells, np.dtype(plan.compute_dtype).itemsize)

    @property
    def base(self) -> int:
        """Place of the first cell: a ghost lies before it, and rows begin with a cache line."""
        return host.LINE_BYTES // self.itemsize

    @property
    def pitch(self) -> int:
        """From one row to the next: room for a ghost at each end and for whole vectors."""
        line = host.LINE_BYTES // self.itemsize
        return host.off_page(line + -(-(self.cells + 1) // line) * line, self.itemsize)

    @property
    def scratch(self) -> int:
        """Bytes of one buffer."""
        return (self.slabs * self.rows * self.pitch + 2 * self.base) * self.itemsize

    def slab_bytes(self, form: str) -> int:
        """What all arrays of a form take for one slab: the buffers, the result, fields."""
        streams = {"open": 3, "coast": 4, "flux": 4 + self.dims}[form]
        return streams * self.rows * self.pitch * self.itemsize

    def laid(self, values: Any, plan: DiffusionFilterPlan) -> Array:
        """An array that broadcasts against the field as (grids or 1, slabs, rows, cells)."""
        ndim, axes = len(plan.shape), sorted(plan.axes)
        values = np.asarray(values, plan.compute_dtype)
        values = values.reshape((1,) * (ndim - values.ndim) + values.shape)
        batch = [axis for axis in range(ndim) if axis not in axes]
        shared = all(values.shape[axis] == 1 for axis in batch)
        whole = [1 if shared and axis in batch else n for axis, n in enumerate(plan.shape)]
        moved = np.moveaxis(np.broadcast_to(values, whole), axes, range(ndim - self.dims, ndim))
        shape = (1 if shared else self.grids, self.slabs, self.rows, self.cells)
        return np.ascontiguousarray(moved).reshape(shape)


def algorithm(plan: DiffusionFilterPlan) -> str:
    """How this plan runs, in words."""
    grid, form = Grid.of(plan), plan.form
    levels = schedule.levels_of_a_pass(grid.slabs, grid.slab_bytes(form), 1)
    return (
        f"kernel 'chebyshev_{form}_{grid.dims}d' of the vector engine, compiled on first use: "
        f"{min(levels, plan.n_steps)} level(s) per pass over a grid, grids or strips of them shared among workers"
    )


def diffusion_filter(plan: DiffusionFilterPlan, u: Array, *rest: Array, out: Array, workers: int) -> None:
    """Write the filtered field to `out`."""
    if not out.size:
        return
    grid, recurrence = Grid.of(plan), plan.recurrence((u, *rest), np)
    axes, last = sorted(plan.axes), list(range(u.ndim - grid.dims, u.ndim))
    if plan.transposed:
        with np.errstate(all="ignore"):
            u = u / recurrence.area
    source = np.ascontiguousarray(np.moveaxis(u, axes, last))
    target = out if axes == last else np.empty(source.shape, out.dtype)
    _Run(plan, grid, recurrence, source, target).all_levels(workers)
    if target is not out:
        out[...] = np.moveaxis(target, last, axes)
    if plan.transposed:
        out *= recurrence.area


class _Run:
    """One call of a kernel: the tables that it reads and the arrays that it works on."""

    def __init__(
        self, plan: DiffusionFilterPlan, grid: Grid, recurrence: Recurrence, source: Array, target: Array
    ) -> None:
        from spectralops._cpu.vector import kernels  # loads llvmlite

        self.grid = grid
        self.kernel = kernels.kernel(f"chebyshev_{plan.form}_{grid.dims}d", plan.compute_dtype)
        wraps = (recurrence.periodic + (False, False))[:3]
        if grid.dims == 2:
            wraps = (wraps[0], False, wraps[1])
        self.schedule = (grid.slabs, wraps[2], plan.n_steps, grid.slab_bytes(plan.form))
        # In the kernel's order: the cells' field, the faces between cells, slabs, rows. Not all forms look at them.
        read: list[Array | None] = [None] * 4
        if recurrence.field is not None:
            read[0] = grid.laid(recurrence.field, plan)
        order = ((3, 1), (1, 2)) if grid.dims < 3 else ((3, 1), (2, 3), (1, 2))
        for conductance, periodic, (axis, place) in zip(
            recurrence.conductances, recurrence.periodic, order, strict=False
        ):
            read[place] = _with_upper(grid.laid(conductance, plan), axis, periodic)
        table = np.zeros(f.HEAD + f.PER_LEVEL * (plan.n_steps + 1), plan.compute_dtype)
        table[: len(recurrence.weights)] = recurrence.weights
        levels = table[f.HEAD :].reshape(-1, f.PER_LEVEL)
        levels[:, 0] = -1.0 if plan.form == "open" else 1.0
        levels[1, 0] *= 0.5
        levels[1:, 1] = plan.coefficients[:-1]
        levels[:, 2] = plan.coefficients
        self.job = np.zeros(f.FIELDS, np.int64)
        self.job[[f.SLABS, f.ROWS, f.CELLS, f.STEPS]] = grid.slabs, grid.rows, grid.cells, plan.n_steps
        self.job[[f.WRAPS_CELLS, f.WRAPS_ROWS, f.WRAPS_SLABS]] = wraps
        self.job[[f.BASE, f.SLAB_PITCH, f.PITCH]] = grid.base, grid.rows * grid.pitch, grid.pitch
        for name, array in zip((f.FIELD, f.CELL_FACES, f.SLAB_FACES, f.ROW_FACES), read, strict=True):
            self.job[name] = 0 if array is None or len(array) == 1 else array[0].size
        # Owned here while the kernel runs.
        self.arrays = (source, target, *(source if array is None else array for array in read), table)
        self.places = tuple(array.ctypes.data for array in self.arrays)

    def all_levels(self, workers: int) -> None:
        """Share the grids among the workers, or strips of each grid."""
        grid = self.grid
        if workers > 1 and grid.grids % workers and grid.slabs * grid.rows * grid.cells >= SHARED_CELLS:
            phases = schedule.phases(*self.schedule, workers)
            with _scratch(grid.scratch) as buffers:
                for one in range(grid.grids):
                    for lists in phases:
                        workspace.run(partial(self._lists, buffers, one, lists), len(lists), workers)
            return
        items = schedule.in_order(*self.schedule)

        def some(first: int, last: int) -> None:
            with _scratch(grid.scratch) as buffers:
                self._items(buffers, items, first, last)

        workspace.run(some, grid.grids, workers)

    def _lists(self, buffers: tuple[int, int], grid: int, lists: tuple[Array, ...], first: int, last: int) -> None:
        for items in lists[first:last]:
            self._items(buffers, items, grid, grid + 1)

    def _items(self, buffers: tuple[int, int], items: Array, first: int, last: int) -> None:
        self.kernel(self.job.ctypes.data, *self.places, *buffers, items.ctypes.data, len(items), first, last)


def _with_upper(lower: Array, axis: int, periodic: bool) -> Array:
    """Conductances of the lower faces and of the last cell's upper face, which is the first face, or closed."""
    first = lower[tuple(slice(0, 1) if k == axis else slice(None) for k in range(4))]
    return np.concatenate([lower, first if periodic else np.zeros_like(first)], axis)


@contextmanager
def _scratch(size: int) -> Iterator[tuple[int, int]]:
    """Addresses of two buffers."""
    a, b = workspace.take(size), workspace.take(size)
    try:
        yield a.address, b.address
    finally:
        workspace.give_back(a)
        workspace.give_back(b)
