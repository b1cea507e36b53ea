# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""The kernels of diffusion_filter: Chebyshev's recurrence through many levels per pass over memory.

T_0 = u, T_1 = X(u) / 2, T_k = X(T_{k-1}) - T_{k-2}, where X is twice the Laplacian brought to the spectrum -1 ... 1.
Two buffers hold T of even and of odd k: T_k takes the place of T_{k-2}. The result gathers c_k T_k, two levels at a
time.

A grid is a stack of slabs along its first filtered axis: rows of a plane, or planes. In which order their levels are
computed is data, made by :mod:`spectralops._cpu.vector.schedule`.

The arithmetic is that of the plain executor, operation by operation: nothing is contracted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from spectralops._cpu.vector.chebyshev_fields import (
    BASE,
    CELL_FACES,
    CELLS,
    FIELD,
    HEAD,
    PER_LEVEL,
    PITCH,
    ROW_FACES,
    ROWS,
    SLAB_FACES,
    SLAB_PITCH,
    SLABS,
    STEPS,
    WRAPS_CELLS,
    WRAPS_ROWS,
    WRAPS_SLABS,
)
from spectralops._cpu.vector.emit import Emitter, Value, at, vector_op, write

__all__ = ["FORMS"]

FORMS = ("open", "coast", "flux")
# Rows that go through the inner loop together and share what they read of one another.
TOGETHER = 2


class Exact(Value):
    """A value whose operations round one by one."""

    __slots__ = ()

    def _apply(self, on_ints: str, on_floats: str, left: Any, right: Any) -> Exact:
        return Exact(self.builder, getattr(self.builder, on_floats)(left, right))


def _where(judge: Value, value: Value, other: Value) -> Exact:
    """The value where `judge` is a number, the other where it is NaN."""
    number = judge.builder.fcmp_ordered("ord", judge.ir, judge.ir)
    return Exact(judge.builder, judge.builder.select(number, value.ir, other.ir))


class Run:
    """Loads and stores at one place of a row: whole vectors, or the lanes that are left at its end."""

    def __init__(self, e: Emitter, place: Value, rest: Value | None) -> None:
        self.e, self.place, self.rest = e, place, rest

    def scratch(self, pointer: Value, row: Value, offset: int = 0) -> Exact:
        """Scratch rows have room for whole vectors."""
        value = self.e.load(pointer, row + self.place + offset)
        return Exact(value.builder, value.ir)

    def keep(self, pointer: Value, row: Value, value: Value) -> None:
        self.e.store(pointer, row + self.place, value)

    def array(self, pointer: Value, row: Value, offset: int = 0) -> Exact:
        place = row + self.place + offset
        value = self.e.load(pointer, place) if self.rest is None else self.e.load_part(pointer, place, self.rest)
        return Exact(value.builder, value.ir)

    def put(self, pointer: Value, row: Value, value: Value) -> None:
        if self.rest is None:
            self.e.store(pointer, row + self.place, value)
        else:
            self.e.store_part(pointer, row + self.place, value, self.rest)


def _along(e: Emitter, n: Value, body: Callable[[Run], None]) -> None:
    """Code for all places of a row of n cells."""
    whole = n // e.lanes * e.lanes
    with e.loop(0, whole, e.lanes) as place:
        body(Run(e, place, None))
    with e.loop(whole, n, e.lanes) as place:
        body(Run(e, place, n - whole))


def _number(e: Emitter, table: Value, place: Any) -> Exact:
    value = e.broadcast(table, place)
    return Exact(value.builder, value.ir)


def _zero(e: Emitter, sign: float = 0.0) -> Exact:
    return Exact(e.builder, ir.Constant(e.vector, [sign] * e.lanes))


def _begin(form: str) -> Any:
    """Level 0 of a row: T_0 to one buffer, 0 to the other, c_0 T_0 to the result if its degree is even."""

    def begin(
        e: Emitter, a: Value, b: Value, out: Value, u: Value, field: Value, table: Value, row: Value, line: Value,
        place: Value, n: Value, even: Value,
    ) -> None:  # fmt: skip
        first = _number(e, table, HEAD + PER_LEVEL - 1)

        def body(run: Run, gathers: bool) -> None:
            value = run.array(u, line)
            start = first * value if gathers else _zero(e, -0.0)
            if form != "open":
                judge = run.array(field, place)
                value, start = _where(judge, value, _zero(e)), _where(judge, start, value)
            run.keep(a, row, value)
            run.keep(b, row, _zero(e))
            run.put(out, line, start)

        e.choose(
            e.less(e.constant(0), even),
            lambda: _along(e, n, lambda run: body(run, True)),
            lambda: _along(e, n, lambda run: body(run, False)),
        )

    return vector_op(begin)


def _advance(form: str, dims: int, count: int) -> Any:
    """One level of `count` neighbouring rows.

    `row` is the first one's place in the buffers, `below` and `above` the places of the rows on both sides, `back` and
    `front` the same across planes; `line` is the place in the result, `place` in the field of the cells, `face_0`
    and so on in the conductances, of cells, slabs, and rows within a slab.
    """

    def advance(
        e: Emitter, d: Value, s: Value, out: Value, field: Value, f0: Value, f1: Value, f2: Value, table: Value,
        level: Value, row: Value, below: Value, above: Value, back: Value, front: Value, pitch: Value, line: Value,
        place: Value, face_0: Value, face_1: Value, face_2: Value, n: Value, faces: Value, gathers: Value,
    ) -> None:  # fmt: skip
        weights = [_number(e, table, j) for j in range(dims - 1)]
        factor, before, own = (_number(e, table, level * PER_LEVEL + HEAD + j) for j in range(PER_LEVEL))

        def body(run: Run, gathering: bool) -> None:
            rows = [row if r == 0 else row + pitch * r for r in range(count)]
            column = [run.scratch(s, at_row) for at_row in rows]
            if dims > 1:
                column = [run.scratch(s, below), *column, run.scratch(s, above)]
            lower_flux = None
            for r, at_row in enumerate(rows):
                u = column[r + (dims > 1)]
                left, right = run.scratch(s, at_row, -1), run.scratch(s, at_row, 1)
                across = [(column[r], column[r + 2])] if dims > 1 else []
                if dims == 3:
                    across.append((run.scratch(s, back), run.scratch(s, front)))
                judge = None if form == "open" else run.array(field, place if r == 0 else place + n * r)
                if form == "flux":
                    faces_row = face_0 if r == 0 else face_0 + (n + 1) * r
                    total = run.array(f0, faces_row, 1) * (right - u) - run.array(f0, faces_row) * (u - left)
                    for j, (low, high) in enumerate(across):
                        # In two dimensions rows are slabs; in three, rows come before planes.
                        pointer, at_face, step = (f1, face_1, faces) if j == dims - 2 else (f2, face_2, n)
                        at_face = at_face if r == 0 else at_face + step * r
                        if lower_flux is None or dims == 3:
                            lower_flux = run.array(pointer, at_face) * (u - low)
                        upper_flux = run.array(pointer, at_face + step) * (high - u)
                        total = total + (upper_flux - lower_flux)
                        lower_flux = upper_flux
                    assert judge is not None
                    value = judge * total - (u + u)
                else:
                    pair = left + right
                    value = pair
                    for weight, (low, high) in zip(weights, across, strict=True):
                        value = value + weight * ((low + high) - pair)
                    if judge is not None:
                        value = judge * u - value
                value = factor * value - run.scratch(d, at_row)
                if judge is not None:
                    value = _where(judge, value, _zero(e))
                run.keep(d, at_row, value)
                if gathering:
                    at_line = line if r == 0 else line + n * r
                    old = run.array(out, at_line)
                    total = (old + before * u) + own * value
                    run.put(out, at_line, total if judge is None else _where(judge, total, old))

        e.choose(
            e.less(e.constant(0), gathers),
            lambda: _along(e, n, lambda run: body(run, True)),
            lambda: _along(e, n, lambda run: body(run, False)),
        )

    return vector_op(advance)


def _ends(d: Any, row: Any, n: Any, wraps: Any) -> None:
    """Ghosts at both ends of a row."""
    write(d, row - 1, at(d, row + n - 1 if wraps else row))
    write(d, row + n, at(d, row if wraps else row + n - 1))


def _lower(k: Any, count: Any, wraps: Any) -> Any:
    """The neighbour before: beyond a closed end the cell itself."""
    if k > 0:
        return k - 1
    return count - 1 if wraps else k


def _upper(k: Any, count: Any, wraps: Any) -> Any:
    if k < count - 1:
        return k + 1
    return 0 if wraps else k


def _kernel(form: str, dims: int) -> Any:
    """The kernel of one form of Laplacian and number of filtered axes.

    ``open``: no land, the same weights everywhere; ``coast``: a field holds, for each cell, minus the weights of its
    closed faces; ``flux``: conductances of all faces, and a field with the factor of their sum. Fields are NaN on land.
    """
    begin, single, several = _begin(form), _advance(form, dims, 1), _advance(form, dims, TOGETHER)

    def start(job, u, out, field, table, a, b, grid, first, last):
        slabs, rows, n = at(job, SLABS), at(job, ROWS), at(job, CELLS)
        even = 1 - at(job, STEPS) % 2
        for z in range(first, last):
            for j in range(rows):
                row = at(job, BASE) + z * at(job, SLAB_PITCH) + j * at(job, PITCH)
                line = ((grid * slabs + z) * rows + j) * n
                place = grid * at(job, FIELD) + (z * rows + j) * n
                begin(a, b, out, u, field, table, row, line, place, n, even)
                _ends(a, row, n, at(job, WRAPS_CELLS))

    def level(job, out, field, f0, f1, f2, table, a, b, grid, t, first, last):
        slabs, rows, n = at(job, SLABS), at(job, ROWS), at(job, CELLS)
        base, slab_pitch, pitch = at(job, BASE), at(job, SLAB_PITCH), at(job, PITCH)
        wraps_slabs, wraps_rows, wraps_cells = at(job, WRAPS_SLABS), at(job, WRAPS_ROWS), at(job, WRAPS_CELLS)
        if t % 2:
            d, s = b, a
        else:
            d, s = a, b
        gathers = 1 - (at(job, STEPS) - t) % 2
        z = first
        while z < last:
            count = 1
            if dims == 2 and z + TOGETHER <= last:
                count = TOGETHER
            low, high = _lower(z, slabs, wraps_slabs), _upper(z + count - 1, slabs, wraps_slabs)
            for j in range(rows):
                row = base + z * slab_pitch + j * pitch
                line = ((grid * slabs + z) * rows + j) * n
                place = grid * at(job, FIELD) + (z * rows + j) * n
                back, front = base + low * slab_pitch + j * pitch, base + high * slab_pitch + j * pitch
                below, above = back, front
                if dims == 3:
                    below = row + (_lower(j, rows, wraps_rows) - j) * pitch
                    above = row + (_upper(j, rows, wraps_rows) - j) * pitch
                face_0 = grid * at(job, CELL_FACES) + (z * rows + j) * (n + 1)
                face_1 = grid * at(job, SLAB_FACES) + (z * rows + j) * n
                face_2 = grid * at(job, ROW_FACES) + (z * (rows + 1) + j) * n
                if dims != 2 or count == 1:
                    single(d, s, out, field, f0, f1, f2, table, t, row, below, above, back, front, slab_pitch, line,
                           place, face_0, face_1, face_2, n, rows * n, gathers)  # fmt: skip
                else:
                    several(d, s, out, field, f0, f1, f2, table, t, row, below, above, back, front, slab_pitch, line,
                            place, face_0, face_1, face_2, n, rows * n, gathers)  # fmt: skip
                for r in range(count):
                    _ends(d, row + r * slab_pitch, n, wraps_cells)
            z += count

    def kernel(job, u, out, field, f0, f1, f2, table, a, b, items, count, first, last):
        """The items (level, first slab, last slab) of a schedule, in order, on each of the grids `first` to `last`."""
        for grid in range(first, last):
            for k in range(count):
                t, low, high = at(items, 3 * k), at(items, 3 * k + 1), at(items, 3 * k + 2)
                if t == 0:
                    start(job, u, out, field, table, a, b, grid, low, high)
                else:
                    level(job, out, field, f0, f1, f2, table, a, b, grid, t, low, high)

    return kernel


for _form in FORMS:
    for _dims in (1, 2, 3):
        globals()[f"chebyshev_{_form}_{_dims}d"] = _kernel(_form, _dims)
