"""From a plan and native arrays to compiled sweeps: coefficients, ghosts, addresses, scratch memory, threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu.stencil.layout import LAYERS, Job, Table
from spectralops._cpu.stencil.machine import stages, sweep
from spectralops._cpu.stencil.program import program_of
from spectralops._cpu.stencil.tiles import Frame, Pass, passes
from spectralops._cpu.vector import workspace

if TYPE_CHECKING:
    from spectralops._plans.steps import StepPlan

__all__ = ["advance", "in_words"]

Array = np.ndarray[Any, Any]
# Plans whose preparation is remembered.
KEPT = 64
# Offsets of a single grid.
FIRST = np.zeros(1, np.int64)


def advance(plan: StepPlan, u: Array, *fields: Array, out: Array, workers: int) -> None:
    """Write u after the plan's steps to out."""
    if out.size:
        _prepared(plan).run((u, *fields), out, workers)


def in_words(plan: StepPlan) -> str:
    """How a plan runs."""
    prepared = _prepared(plan)
    schedule = prepared.passes(1)
    count = sum(len(one.items) for one in schedule)
    levels = max(one.steps for one in schedule) * prepared.program.stages
    return (
        f"the stencil engine, its inner loop compiled by LLVM for these terms on first use: {len(schedule)} "
        f"pass(es) over memory of at most {levels} level(s), {count} tile(s) in all, shared among workers"
    )


def _rows_of(function: Any, dtype: str) -> Any:
    from spectralops._cpu.stencil import pointwise  # loads numba

    return pointwise.compiled(function, dtype)


_lock = threading.Lock()
_known: OrderedDict[int, Prepared] = OrderedDict()


def _prepared(plan: StepPlan) -> Prepared:
    """What does not depend on the arrays; found by the identity of the plan, which is quicker than its hash."""
    with _lock:
        found = _known.get(id(plan))
        if found is not None:
            _known.move_to_end(id(plan))
            return found
    made = Prepared(plan)
    with _lock:
        _known[id(plan)] = made  # holds the plan, so that no other gets its identity
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return made


class Prepared:
    """A plan seen as the sweep sees it: grids of (planes, rows, cells), stepped along the last axes."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan
        geometry = plan.geometry
        with np.errstate(all="ignore"):  # of numbers too large for the dtype, as the plain executor takes them
            self.program, self.table = program_of(plan)
            self.constants = None if self.table.varies else self._coefficients(())
        dims, ndim = len(geometry.axes), len(geometry.shape)
        self.last = tuple(range(ndim - dims, ndim))
        self.moved = geometry.axes != self.last
        self.order = [axis for axis in range(ndim) if axis not in geometry.axes] + list(geometry.axes)
        shape = [geometry.shape[axis] for axis in self.order]
        # Rows of a batch make one grid where only rows are stepped, unless their coefficients differ.
        self.lines = dims == 1 and ndim > 1 and not self.table.varies
        inner = dims + self.lines
        self.batch = shape[: ndim - inner]
        grids = int(np.prod(self.batch, dtype=np.int64))
        cells = (1,) * (3 - inner) + tuple(shape[ndim - inner :])
        wraps = [layers[0][0].source == "wrap" if layers[0] else True for layers in geometry.ghosts]
        widths = (0,) * (3 - dims) + tuple(geometry.widths)
        self.frame = Frame(grids, cells, dims, (False,) * (3 - dims) + tuple(wraps), widths, self.program)  # type: ignore
        self.sweep, self.stages = sweep(plan.compute), stages(self.program)
        self.rules = self._rules()
        self.pointwise = [_rows_of(function, plan.compute) for function in plan.update.pointwise]
        self.functions = np.array([rows.address for rows in self.pointwise], np.int64)
        self.dt = np.array([plan.dt]).astype(plan.compute)
        self.read = [0, *self.table.fields, *(() if geometry.mask is None else (geometry.mask,))]
        self.job = self._job()
        self.cell_bytes = self.frame.cell_bytes

    def _job(self) -> Array:
        """What every call tells the sweep."""
        program = self.program
        job = np.zeros(len(Job), np.int64)
        job[Job.PLANES : Job.CELLS + 1] = self.frame.shape
        job[Job.WIDTHS : Job.WIDTHS + 3] = self.frame.widths
        job[Job.BUFFERS], job[Job.FIELDS], job[Job.POINTWISE] = program.buffers, program.fields, program.pointwise
        job[Job.SCRATCH], job[Job.MASKED] = program.scratch, program.masked
        if self.constants is not None:
            job[Job.COEFFICIENTS] = self.constants.ctypes.data
        first = 3 - self.frame.dims
        job[Job.HELD] = sum(
            1 << 2 * (first + axis) + side
            for axis, pair in enumerate(self.plan.geometry.held)
            for side, held in enumerate(pair)
            if held
        )
        for place, array in zip(
            (Job.SOURCES, Job.SCALES, Job.OFFSETS, Job.STAGES, Job.FUNCTIONS, Job.DT),
            (*self.rules, self.stages, self.functions, self.dt),
            strict=True,
        ):
            job[place] = array.ctypes.data
        return job

    def _rules(self) -> tuple[Array, Array, Array]:
        """Sources of ghosts, counted from the wall, scales and offsets: [kind, axis, side, layer]."""
        source = np.zeros((len(Table), 3, 2, LAYERS), np.int64)
        scale = np.ones((len(Table), 3, 2, LAYERS), self.plan.compute)
        # x * 1 + (-0) is x to the last bit, also for x = -0.
        offset = np.full_like(scale, -0.0)
        first = 3 - self.frame.dims
        for j, pair in enumerate(self.plan.geometry.ghosts):
            n = self.frame.shape[first + j]
            for side, layers in enumerate(pair):
                for m, rule in enumerate(layers):
                    place = (first + j, side, m)
                    found = {"wrap": (n - 1 - m) % n, "mirror": m, "edge": 0}[rule.source]
                    source[(Table.CELLS, *place)] = source[(Table.MASK, *place)] = found
                    source[(Table.FIELDS, *place)] = found if rule.source == "wrap" else 0
                    if (rule.scale, rule.offset) != (1.0, 0.0):
                        scale[(Table.CELLS, *place)], offset[(Table.CELLS, *place)] = rule.scale, rule.offset
        return source, scale, offset

    def passes(self, workers: int) -> list[Pass]:
        """The passes for so many threads."""
        return passes(self.frame, self.plan.steps, workers)

    def run(self, arrays: tuple[Array, ...], out: Array, workers: int) -> None:
        """All passes, from u to out."""
        schedule = self.passes(workers)
        target = np.empty([out.shape[axis] for axis in self.order], out.dtype) if self.moved else out
        keep: list[Any] = []  # what the job's addresses point to
        entries = np.array([self._entry(arrays[operand], keep) for operand in self.read], np.int64)
        job = self.job.copy()
        job[Job.ARRAYS] = entries.ctypes.data
        if self.constants is None:
            with np.errstate(all="ignore"):
                coefficients = self._coefficients(arrays)
            job[Job.COEFFICIENTS], job[Job.COEFFICIENT_BYTES] = coefficients.ctypes.data, coefficients.strides[0]
        spare = workspace.take(out.nbytes) if len(schedule) > 1 else None
        try:
            address = spare.address if spare else 0
            result = 0
            for index, one in enumerate(schedule):
                if index:
                    entries[0] = self._entry_of(result, target.dtype.itemsize, keep)
                result = target.ctypes.data if (len(schedule) - index) % 2 else address
                job[Job.PITCH], job[Job.PLANE_PITCH] = one.layout.pitch, one.layout.plane_pitch
                job[Job.BASE], job[Job.SIZE], job[Job.OUT] = one.layout.base, one.layout.size, result
                self._run(one, job.ctypes.data, workers)
        finally:
            if spare is not None:
                workspace.give_back(spare)
        if self.moved:
            np.copyto(out, target.transpose(np.argsort(self.order)))

    def _run(self, one: Pass, job: int, workers: int) -> None:
        size = one.layout.size * self.cell_bytes

        def part(first: int, end: int) -> None:
            buffer = workspace.take(size)
            try:
                self.sweep(job, one.address, first, end, buffer.address)
            finally:
                workspace.give_back(buffer)

        workspace.run(part, len(one.items), workers)

    def _coefficients(self, arrays: tuple[Array, ...]) -> Array:
        """The table of coefficients, a row for each grid whose coefficients differ."""
        columns = [column(arrays) for column in self.table.columns]
        count = self.frame.grids if self.table.varies else 1
        result = np.empty((count, max(1, len(columns))), self.plan.compute)
        for place, column in enumerate(columns):
            result[:, place] = column
        return result

    def _entry(self, array: Array, keep: list[Any]) -> list[int]:
        """Where an array lies, as (planes, rows, cells) of grids over which it is broadcast."""
        shape = self.plan.geometry.shape
        whole = array if array.shape == shape else np.broadcast_to(array, shape)
        strides = [whole.strides[axis] for axis in self.order]
        inner = len(strides) - len(self.batch)
        offsets = FIRST
        for n, stride in zip(self.batch, strides, strict=False):
            offsets = (offsets[:, None] + np.arange(n) * stride).reshape(-1)
        keep.append(offsets)
        return [array.ctypes.data, offsets.ctypes.data, *[0] * (3 - inner), *strides[len(self.batch) :]]

    def _entry_of(self, address: int, itemsize: int, keep: list[Any]) -> list[int]:
        """The same of a contiguous field."""
        planes, rows, cells = self.frame.shape
        strides = [rows * cells * itemsize, cells * itemsize, itemsize]
        offsets = np.arange(self.frame.grids) * (planes * strides[0])
        keep.append(offsets)
        return [address, offsets.ctypes.data, *strides]
