"""From a plan and native arrays to compiled sweeps: coefficients, ghosts, addresses, scratch memory, threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spectralops._cpu.stencil.layout import LAYERS, Face, Job, Table
from spectralops._cpu.stencil.machine import stages, sweep
from spectralops._cpu.stencil.program import Program, program_of
from spectralops._cpu.stencil.tiles import Frame, Pass, passes
from spectralops._cpu.vector import workspace

if TYPE_CHECKING:
    from spectralops._plans.geometry import Geometry
    from spectralops._plans.steps import StepPlan

__all__ = ["advance", "in_words"]

Array = np.ndarray[Any, Any]
T = TypeVar("T")
# Plans, and grids with their programs, whose preparation is remembered.
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
    levels = max(one.steps for one in schedule) * prepared.ground.program.stages
    return (
        f"the stencil engine, its inner loop compiled by LLVM for these terms on first use: {len(schedule)} "
        f"pass(es) over memory of at most {levels} level(s), {count} tile(s) in all, shared among workers"
    )


def _rows_of(function: Any, dtype: str) -> Any:
    from spectralops._cpu.stencil import pointwise  # loads numba

    return pointwise.compiled(function, dtype)


_lock = threading.Lock()
_known: OrderedDict[int, Prepared] = OrderedDict()
_grounds: OrderedDict[tuple[int, Program, bool], Ground] = OrderedDict()


def _remembered(known: OrderedDict[Any, T], key: Any, make: Callable[[], T]) -> T:
    """What was made for a key; what is made holds the object whose identity the key has, so that no other gets it."""
    with _lock:
        found = known.get(key)
        if found is not None:
            known.move_to_end(key)
            return found
    made = make()
    with _lock:
        known[key] = made
        while len(known) > KEPT:
            known.popitem(last=False)
    return made


def _prepared(plan: StepPlan) -> Prepared:
    """What does not depend on the arrays; found by the identity of the plan, which is quicker than its hash."""
    return _remembered(_known, id(plan), lambda: Prepared(plan))


class Ground:
    """What plans share that differ in their numbers: grids of (planes, rows, cells), stepped along the last axes."""

    def __init__(self, geometry: Geometry, compute: str, program: Program, varies: bool) -> None:
        self.geometry = geometry
        self.compute = compute
        self.program = program
        dims, ndim = len(geometry.axes), len(geometry.shape)
        self.last = tuple(range(ndim - dims, ndim))
        self.moved = geometry.axes != self.last
        self.order = [axis for axis in range(ndim) if axis not in geometry.axes] + list(geometry.axes)
        shape = [geometry.shape[axis] for axis in self.order]
        # Rows of a batch make one grid where only rows are stepped, unless their coefficients differ.
        lines = dims == 1 and ndim > 1 and not varies
        inner = dims + lines
        self.batch = shape[: ndim - inner]
        grids = int(np.prod(self.batch, dtype=np.int64))
        cells = (1,) * (3 - inner) + tuple(shape[ndim - inner :])
        # An axis along which nothing moves has no ghosts; its ends may be held all the same.
        wraps = [
            layers[0][0].source == "wrap" if layers[0] else not any(held)
            for layers, held in zip(geometry.ghosts, geometry.held, strict=True)
        ]
        widths = (0,) * (3 - dims) + tuple(geometry.widths)
        self.frame = Frame(grids, cells, dims, (False,) * (3 - dims) + tuple(wraps), widths, program)  # type: ignore
        self.compiled: dict[bool, tuple[Callable[..., None], Array]] = {}
        self.rules = self._rules()
        self.faces = np.array(
            [
                *(
                    (mean.axis, program.field_places[mean.given], mean.slot, place)
                    for mean, place in program.mean_places.items()
                ),
                *((axis, program.mask, -1 - k, program.mask) for k, axis in enumerate(program.closed)),
            ],
            np.int64,
        ).reshape(-1, len(Face))
        self.field_places = np.array(program.field_places, np.int64)
        self.schedules: dict[tuple[int, int, bool], list[Pass]] = {}
        self.straight = np.zeros(len(Job), np.int64)
        self.straight[Job.PITCH], self.straight[Job.PLANE_PITCH] = cells[2], cells[1] * cells[2]
        self.job = self._job()

    def _job(self) -> Array:
        """What every call tells the sweep."""
        program = self.program
        job = np.zeros(len(Job), np.int64)
        job[Job.PLANES : Job.CELLS + 1] = self.frame.shape
        job[Job.WIDTHS : Job.WIDTHS + 3] = self.frame.widths
        job[Job.FIELDS], job[Job.POINTWISE], job[Job.RATES] = program.fields, program.pointwise, program.rates
        job[Job.SCRATCH], job[Job.MASK], job[Job.MASKED], job[Job.FACE_COUNT] = (
            program.scratch,
            program.mask,
            program.masked,
            len(program.mean_places),
        )
        job[Job.RUNS] = not program.pointwise and self.frame.widths[2] == 1 and not any(map(any, self.geometry.held))
        job[Job.CLOSED], job[Job.RAISED] = len(program.closed), 8 * self.frame.itemsize - 7
        job[Job.RESTORED], job[Job.MARKED] = program.restored, len(program.closed) if program.marked else 0
        first = 3 - self.frame.dims
        job[Job.HELD] = sum(
            1 << 2 * (first + axis) + side
            for axis, pair in enumerate(self.geometry.held)
            for side, held in enumerate(pair)
            if held
        )
        for place, array in zip(
            (Job.SOURCES, Job.SCALES, Job.OFFSETS, Job.FACES, Job.STRAIGHT, Job.FIELD_PLACES),
            (*self.rules, self.faces, self.straight, self.field_places),
            strict=True,
        ):
            job[place] = array.ctypes.data
        return job

    def _rules(self) -> tuple[Array, Array, Array]:
        """Sources of ghosts, counted from the wall, scales and offsets: [kind, axis, side, layer]."""
        source = np.zeros((len(Table), 3, 2, LAYERS), np.int64)
        scale = np.ones((len(Table), 3, 2, LAYERS), self.compute)
        # x * 1 + (-0) is x to the last bit, also for x = -0.
        offset = np.full_like(scale, -0.0)
        first = 3 - self.frame.dims
        for j, pair in enumerate(self.geometry.ghosts):
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

    def code(self, interleaved: bool) -> tuple[Callable[..., None], int]:
        """The sweep, and where the addresses of the functions of all stages lie, for rows in order or interleaved."""
        if interleaved not in self.compiled:
            # Of threads that come at the same time, all take the first one's: addresses that are replaced are freed.
            made = sweep(self.compute, interleaved), stages(self.program, interleaved)
            self.compiled.setdefault(interleaved, made)
        compute, addresses = self.compiled[interleaved]
        return compute, addresses.ctypes.data

    def passes(self, steps: int, workers: int, contiguous: bool) -> list[Pass]:
        """The passes for so many steps and threads; `contiguous`: whether u is in C order."""
        found = self.schedules.get((steps, workers, contiguous))
        if found is None:
            found = passes(self.frame, steps, workers, contiguous and not self.moved)
            if len(self.schedules) < KEPT:
                self.schedules[steps, workers, contiguous] = found
        return found


class Prepared:
    """A plan: the ground that it shares with others, and its numbers."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan
        geometry = plan.geometry
        with np.errstate(all="ignore"):  # of numbers too large for the dtype, as the plain executor takes them
            program, self.table = program_of(plan)
            varies = self.table.varies
            key = id(geometry), program, varies
            self.ground = _remembered(_grounds, key, lambda: Ground(geometry, plan.compute, program, varies))
            self.constants = None if varies else self._coefficients(())
        self.pointwise = [_rows_of(function, plan.compute) for function in plan.update.pointwise]
        self.functions = np.array([rows.address for rows in self.pointwise], np.int64)
        self.dt = np.array([plan.dt]).astype(plan.compute)
        self.read = [0, *self.table.fields, *(() if geometry.mask is None else (geometry.mask,))]
        self.job = self.ground.job.copy()
        self.job[Job.FUNCTIONS], self.job[Job.DT] = self.functions.ctypes.data, self.dt.ctypes.data
        if self.constants is not None:
            self.job[Job.COEFFICIENTS] = self.constants.ctypes.data

    def passes(self, workers: int, contiguous: bool = True) -> list[Pass]:
        """The passes for so many threads; `contiguous`: whether u is in C order."""
        return self.ground.passes(self.plan.steps, workers, contiguous)

    def run(self, arrays: tuple[Array, ...], out: Array, workers: int) -> None:
        """All passes, from u to out."""
        schedule, ground = self.passes(workers, bool(arrays[0].flags.c_contiguous)), self.ground
        target = np.empty([out.shape[axis] for axis in ground.order], out.dtype) if ground.moved else out
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
                job[Job.PASSING], job[Job.KEPT] = one.passing, one.size
                compute, job[Job.STAGES] = ground.code(one.interleaved)
                self._run(one, compute, job.ctypes.data, workers)
        finally:
            if spare is not None:
                workspace.give_back(spare)
        if ground.moved:
            np.copyto(out, target.transpose(np.argsort(ground.order)))

    def _run(self, one: Pass, compute: Callable[..., None], job: int, workers: int) -> None:
        frame = self.ground.frame
        before = workspace.padded(one.passing * frame.program.passing * frame.itemsize)
        size = before + (one.size + one.kept) * frame.itemsize

        def part(first: int, end: int) -> None:
            buffer = workspace.take(size)
            try:
                compute(job, one.address, first, end, buffer.address + before)
            finally:
                workspace.give_back(buffer)

        workspace.run(part, len(one.items), workers)

    def _coefficients(self, arrays: tuple[Array, ...]) -> Array:
        """The table of coefficients and a zero behind them, a row for each grid whose coefficients differ."""
        columns = [column(arrays) for column in self.table.columns]
        count = self.ground.frame.grids if self.table.varies else 1
        result = np.zeros((count, len(columns) + 1), self.plan.compute)
        for place, column in enumerate(columns):
            result[:, place] = column
        return result

    def _entry(self, array: Array, keep: list[Any]) -> list[int]:
        """Where an array lies, as (planes, rows, cells) of grids over which it is broadcast."""
        shape = self.plan.geometry.shape
        whole = array if array.shape == shape else np.broadcast_to(array, shape)
        strides = [whole.strides[axis] for axis in self.ground.order]
        batch = self.ground.batch
        inner = len(strides) - len(batch)
        offsets = FIRST
        for n, stride in zip(batch, strides, strict=False):
            offsets = (offsets[:, None] + np.arange(n) * stride).reshape(-1)
        keep.append(offsets)
        return [array.ctypes.data, offsets.ctypes.data, *[0] * (3 - inner), *strides[len(batch) :]]

    def _entry_of(self, address: int, itemsize: int, keep: list[Any]) -> list[int]:
        """The same of a contiguous field."""
        planes, rows, cells = self.ground.frame.shape
        strides = [rows * cells * itemsize, cells * itemsize, itemsize]
        offsets = np.arange(self.ground.frame.grids) * (planes * strides[0])
        keep.append(offsets)
        return [address, offsets.ctypes.data, *strides]
