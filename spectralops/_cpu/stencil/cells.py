"""The code of the rows of one stage: its formula over vectors of cells, several rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import and_
from typing import Any

from spectralops._cpu.stencil.blocks import vector_of
from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.formula import Cell, Formula
from spectralops._cpu.stencil.layout import ALL_OPEN, INSIDE, OUTSIDE, Job
from spectralops._cpu.stencil.openings import Openings, openings_of
from spectralops._cpu.stencil.program import Program

__all__ = ["emit_program"]

# Rows that go through the inner loop together and share their loads, by the operations of a cell. Interleaved rows
# carry nothing along, which leaves registers for more.
TOGETHER, TOGETHER_INTERLEAVED = ((18, 4), (40, 2)), ((24, 4), (40, 2))


def emit_program(e: Emitter, program: Program) -> None:
    """Define the functions of all stages."""
    bounds = TOGETHER_INTERLEAVED if e.interleaved else TOGETHER
    together = next((rows for most, rows in bounds if program.operations <= most), 1)
    for stage in range(program.stages):
        (_emit_blocks if e.interleaved else _emit_rows)(e, program, stage, together)


def _emit_blocks(e: Emitter, program: Program, stage: int, together: int) -> None:
    """Define the same for interleaved rows, which may always run over their end."""
    with e.function(f"rows_{stage}", "qffiffiiii", private=False) as arguments:
        job, coefficients, scratch, place, source, target, pitch, count, n, _ = arguments
        rows = _Rows(e, program, stage, Tables(e, job), coefficients, scratch, place, source)

        def several(first: Value, some: int) -> None:
            with e.loop(0, n, e.unit) as block:
                targets = [e.shift(target, (first + row) * pitch + block) for row in range(some)]

                def computed(all_open: bool) -> None:
                    formula = rows.formula(first, block, all_open)
                    for x in range(e.vectors):
                        for row, to in enumerate(targets):
                            (value,) = rows.values(formula, [(0, row, x)])
                            e.store(to, x * e.lanes, value)

                def apart() -> None:
                    all_open, outside = rows.marks(first, block, some)
                    with e.when(outside.negated()):
                        e.either(all_open, lambda: computed(True), lambda: computed(False))

                if program.marked and together > 1:
                    apart()
                else:
                    computed(False)

        with e.loop(0, count - (together - 1), together) as row:
            several(row, together)
        if together > 1:
            with e.loop(e.after, count) as row:
                several(row, 1)


def _emit_rows(e: Emitter, program: Program, stage: int, together: int) -> None:
    """Define ``rows(job, coefficients, scratch, place, source, target, pitch, count, n, exact)`` of one stage.

    In scratch memory a row may run over its end; in the result, where `exact` is 1, the last vector must not.
    """
    with e.function(f"rows_{stage}", "qffiffiiii", private=False) as arguments:
        job, coefficients, scratch, place, source, target, out_pitch, count, n, exact = arguments
        rows = _Rows(e, program, stage, Tables(e, job), coefficients, scratch, place, source)
        limit = e.select(exact.equals(1), n - e.lanes, n)

        def several(first: Value, some: int) -> None:
            # Of the vector before the first, only the face above its last cell counts.
            keys, values = rows.carried(first, e.integer(-e.lanes), some)
            with e.loop(0, n, e.lanes, values) as k:
                before = dict(zip(keys, e.carried, strict=True))
                targets = [e.shift(target, (first + row) * out_pitch) for row in range(some)]

                def computed(all_open: bool) -> list[Value]:
                    formula = rows.formula(first, k, all_open)
                    formula.before = before
                    cells = [(0, row, 0) for row in range(some)]
                    values = rows.values(formula, cells)
                    carried = [value() for cell in cells for _, value in formula.carried(cell)]

                    def whole() -> None:
                        for to, value in zip(targets, values, strict=True):
                            e.store(to, k, value)

                    def part() -> None:
                        lanes = e.first_lanes(n - k)
                        for to, value in zip(targets, values, strict=True):
                            e.store_part(to, k, value, lanes)

                    e.either(k <= limit, whole, part)
                    return carried

                def apart() -> list[Value]:
                    all_open, outside = rows.marks(first, k, some)
                    # The result gets what is outside from the array; nothing else looks at it. What is carried is what
                    # flows through the face at its other end, as closed as that at this one.
                    return e.either_of(
                        outside,
                        lambda: list(before.values()),
                        lambda: e.either_of(all_open, lambda: computed(True), lambda: computed(False)),
                    )

                e.carried = apart() if program.marked and together > 1 else computed(False)

        with e.loop(0, count - (together - 1), together) as row:
            several(row, together)
        if together > 1:
            with e.loop(e.after, count) as row:
                several(row, 1)


class _Rows:
    """What the rows of a stage are computed from."""

    def __init__(
        self,
        e: Emitter,
        program: Program,
        stage: int,
        job: Tables,
        coefficients: Value,
        scratch: Value,
        place: Value,
        source: Value,
    ) -> None:
        self.e = e
        self.program = program
        self.stage = stage
        self.pitch, self.plane_pitch = job[Job.PITCH], job[Job.PLANE_PITCH]
        self.numbers = [e.everywhere(coefficients, slot) for slot in range(program.numbers)]
        # Not a constant: LLVM would make three instructions of each selection that has it, instead of two.
        self.zero = e.everywhere(coefficients, program.numbers)
        size = job[Job.SIZE]
        self.source = source
        # u at the beginning of the step, and the sum of increments.
        self.before = e.shift(scratch, place)
        self.total = e.shift(self.before, size * (program.buffers - 1))
        places = (*program.field_places, *range(program.rates, program.rates + program.pointwise))
        self.fields = [e.shift(self.before, size * place) for place in places]
        bits = e.shift(scratch, size * program.mask)
        self.raised = job[Job.RAISED]
        self.mask, self.openings, self.place = e.shift(bits, place), Openings(e, bits, size), place
        self.means = {mean: e.shift(self.before, size * k) for mean, k in program.mean_places.items()}

    def _at(self, first: Value, k: Value, cell: Cell) -> Value:
        x = cell[2] * self.e.lanes if self.e.interleaved else cell[2]
        return self._line(first, cell) + (k + x)

    def _line(self, first: Value, cell: Cell) -> Value:
        return self.plane_pitch * cell[0] + self.pitch * cell[1] + first * self.pitch

    def _vector(self, load: Callable[[Any], Value], first: Value, k: Value, cell: Cell) -> Value:
        """The vector at a cell's offset from the k-th cell of a row."""
        if not self.e.interleaved:
            return load(self._at(first, k, cell))
        return vector_of(self.e, load, self._line(first, cell) + k, cell[2])

    def marks(self, first: Value, k: Value, some: int) -> tuple[Value, Value]:
        """Whether no face of a unit of cells in some rows is closed, and whether all of them are outside the mask."""

        def bits(row: int) -> Value:
            place = self._at(first, k, (0, row, 0))
            if self.e.interleaved:
                return self.e.whole(self.e.scalar(self.openings.byte(self.place + place)))
            return self.e.whole_bits(self.mask, place)

        def of_all() -> list[Value]:
            here = reduce(and_, map(bits, range(1, some)), lowest)
            around = here & bits(-1) if 1 in self.program.closed else here
            return [(around & ALL_OPEN) + (here & OUTSIDE)]

        lowest = bits(0)
        # Where coasts are everywhere, one look is enough.
        (found,) = self.e.either_of((lowest & (ALL_OPEN | OUTSIDE)) > 0, of_all, lambda: [lowest & 0])
        return (found & ALL_OPEN) > 0, (found & OUTSIDE) > 0

    def formula(self, first: Value, k: Value, all_open: bool = False) -> Formula:
        e, program = self.e, self.program

        def read(field: Value, cell: Cell, load: Callable[[Value, Any], Value] = e.load) -> Value:
            return self._vector(partial(load, field), first, k, cell)

        def bits(cell: Cell) -> Value:
            if not e.interleaved:
                return read(self.mask, cell, e.load_bits)
            place = self.place + (self._line(first, cell) + k)
            return vector_of(e, lambda cell: e.load_signed(self.openings.byte(cell)), place, cell[2])

        def opening(axis: int, bits: Value) -> Value:
            if e.interleaved:
                return openings_of(e, bits, axis, self.raised)
            return e.raised(bits, program.closed.index(axis))

        return Formula(
            e,
            program,
            self.numbers.__getitem__,
            lambda cell: read(self.source, cell),
            lambda place, cell: read(self.fields[place], cell),
            bits,
            opening,
            lambda mean, face: read(self.means[mean], face),
            lambda place, cell: read(self.fields[program.fields + place], cell),
            self.zero,
            partial(self._at, first, k),
            all_open,
        )

    def carried(self, first: Value, k: Value, some: int) -> tuple[list[Any], list[Value]]:
        """What a vector of cells leaves for the next one, in some rows: keys and values."""
        formula = self.formula(first, k)
        found = [entry for row in range(some) for entry in formula.carried((0, row, 0))]
        return [key for key, _ in found], [value() for _, value in found]

    def values(self, formula: Formula, cells: list[Cell]) -> list[Value]:
        """The results of the vectors at some offsets; their sums of increments are stored."""
        e, program = self.e, self.program
        results, sums = [], []
        for cell in cells:
            place = formula.place(cell)
            value, total = self._combined(formula, cell, place)
            if program.masked and not program.restored:
                inside = e.raised(e.load_bits(self.mask, place), INSIDE)
                value = e.chosen(inside, value, formula.u(cell))
            results.append(value)
            if total is not None:
                sums.append((place, total))
        # All that is read is read by now: the stage may write where it has read.
        for place, total in sums:
            e.store(self.total, place, total)
        return results

    def _combined(self, formula: Formula, cell: Cell, place: Value) -> tuple[Value, Value | None]:
        """What the integrator makes of a stage, and the sum of increments that it leaves for the next."""
        e, stage, integrator = self.e, self.stage, self.program.integrator
        value = formula.stage(cell, integrator == "rk4")
        if integrator == "euler" or (stage == 0 and integrator != "rk4"):
            return value, None
        u = formula.u(cell) if stage == 0 else e.load(self.before, place)
        if integrator == "rk2":
            return (u + value) * e.constant(0.5), None
        if integrator == "ssprk3":
            a, b = ((3 / 4, 1 / 4), (1 / 3, 2 / 3))[stage - 1]
            return u * e.constant(a) + value * e.constant(b), None
        if stage == 3:
            return u + (e.load(self.total, place) + value) * e.constant(1 / 6), None
        total = value if stage == 0 else e.load(self.total, place) + (value + value)
        return u + (value if stage == 2 else value * e.constant(0.5)), total
