"""The code of what is made of fields and masks at faces when a tile is loaded, and of what a mask puts back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spectralops._cpu.stencil.blocks import beside, end_of, vector_of
from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.layout import ALL_OPEN, INSIDE, OUTSIDE, Array, Face, Flag, Item, Job, Record

__all__ = [
    "around", "coefficients_of", "emit_faces", "emit_marks", "emit_restore", "field_of", "first_kept", "origin_of",
]  # fmt: skip


def emit_faces(e: Emitter) -> None:
    """Define ``faces(job, item, record, scratch)``: values at the faces above cells, from the cells on both sides.

    A face that looks at what later blocks load is done again with these. Of rows in order, faces of masks are among
    them.
    """
    with e.function("faces", "qqqf") as (job, item, record, scratch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        coefficients = coefficients_of(e, j, i)
        pitches = (j[Job.PLANE_PITCH], j[Job.PITCH], e.integer(1))
        spans = [(r[Record.P0 + 2 * axis], r[Record.P1 + 2 * axis]) for axis in range(3)]
        count = j[Job.FACE_COUNT] if e.interleaved else j[Job.FACE_COUNT] + j[Job.CLOSED]
        with e.loop(0, count) as k:
            f = Tables(e, e.shift(e.pointer(j[Job.FACES], "q"), k * len(Face)))
            slot = f[Face.SLOT]
            of_mask = slot < 0
            source = e.shift(scratch, field_of(e, j, r, f[Face.SOURCE]))
            target = e.shift(scratch, f[Face.TARGET] * j[Job.SIZE] + origin_of(j, r))
            factor = e.everywhere(coefficients, e.select(of_mask, 0, slot))
            place = e.select(of_mask, slot * -1 - 1, 0)
            for axis, pitch in enumerate(pitches):
                with e.when(f[Face.AXIS].equals(axis)):
                    # Of masks there are as many ghosts as of u, of other fields one.
                    width = e.select(of_mask, j[Job.WIDTHS + axis], 1)
                    near = around(e, r, axis, width)
                    (p0, p1), (j0, j1), (i0, i1) = (near if n == axis else span for n, span in enumerate(spans))
                    make = partial(_emit_vector, e, source, target, of_mask, place, factor)
                    with e.loop(p0, p1) as p, e.loop(j0, j1) as row:
                        line = p * pitches[0] + row * pitches[1]
                        if not e.interleaved:
                            with e.loop(i0, i1, e.lanes) as cell:
                                make(line + cell, partial(_above, line + cell + pitch))
                        elif axis < 2:
                            with e.loop(0, end_of(e, i1), e.lanes) as cell:
                                make(line + cell, partial(_above, line + cell + pitch))
                        else:
                            # The face between the ghost before the first cell and that.
                            make(line - e.lanes, partial(_first, e, line))
                            with e.loop(0, end_of(e, i1), e.unit) as block:
                                for vector in range(e.vectors):
                                    make(line + block + vector * e.lanes, partial(_behind, e, line + block, vector))


def _emit_vector(
    e: Emitter,
    source: Value,
    target: Value,
    of_mask: Value,
    place: Value,
    factor: Value,
    here: Value,
    above: Callable[[Callable[[Value], Value]], Value],
) -> None:
    """Values at the faces of a vector; `above` gives what lies above it by the way that it is passed to load."""
    numbers, bits = partial(e.load, source), partial(e.load_bits, source)
    values = (numbers(here) + above(numbers)) * factor
    if not e.interleaved:
        values = e.select(of_mask, e.with_bit(bits(here), above(bits), place, INSIDE), values)
    e.store(target, here, values)


def _above(place: Value, load: Callable[[Value], Value]) -> Value:
    return load(place)


def _first(e: Emitter, line: Value, load: Callable[[Value], Value]) -> Value:
    first = load(line)
    return beside(e, first, first, False)


def _behind(e: Emitter, block: Value, vector: int, load: Callable[[Value], Value]) -> Value:
    return vector_of(e, load, block, vector + 1)


def emit_marks(e: Emitter) -> None:
    """Define ``marks(job, record, mask)``: which units of rows and their ghosts are all open, or outside."""
    with e.function("marks", "qqf") as (job, record, mask):
        j, r = Tables(e, job), Tables(e, record)
        first, end = around(e, r, 1, j[Job.WIDTHS + 1])
        # Also where rows are not stepped and have no faces between them.
        end = e.select(end < r[Record.J1], r[Record.J1], end)
        with e.loop(r[Record.P0], r[Record.P1]) as p, e.loop(first, end) as row:
            line = e.shift(mask, p * j[Job.PLANE_PITCH] + row * j[Job.PITCH])
            with e.loop(r[Record.I0], r[Record.I1], e.unit) as cell:
                e.mark(line, cell, (ALL_OPEN, OUTSIDE), j[Job.MARKED], INSIDE)


def emit_restore(e: Emitter) -> None:
    """Define ``restore(job, item, record, plane, bits, target)``: cells outside the mask as the array has them.

    For rows in order.
    """
    with e.function("restore", "qqqiff") as (job, item, record, p, bits, to):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        a = Tables(e, e.pointer(j[Job.ARRAYS], "q"))
        step, n = a[Array.CELL], r[Record.I1] - r[Record.I0]
        first = first_kept(e, j, i, r, p)
        whole = e.select(step.equals(e.bytes), n - (e.lanes - 1), 0)
        with e.loop(0, r[Record.J1] - r[Record.J0]) as row:
            line = first + row * a[Array.ROW]
            inside, target = e.shift(bits, row * j[Job.PITCH]), e.shift(to, row * j[Job.CELLS])
            with e.loop(0, whole, e.lanes) as k:
                value, kept = e.load(target, k), e.load(e.pointer(line), k)
                e.store(target, k, e.chosen_by_bytes(e.raised(e.load_bits(inside, k), INSIDE), value, kept))
            with e.loop(e.after, n) as k:
                value, kept = e.scalar(target, k), e.scalar(e.pointer(line + k * step))
                e.put(target, k, e.select(e.is_set(e.scalar(inside, k), INSIDE), value, kept))


def first_kept(e: Emitter, j: Tables, i: Tables, r: Tables, p: Value) -> Value:
    """The address in the array of the first cell of a plane of a block, which has neither ghosts nor parts."""
    a = Tables(e, e.pointer(j[Job.ARRAYS], "q"))
    grid = a[Array.ADDRESS] + e.scalar(e.pointer(a[Array.GRIDS], "q"), i[Item.GRID])
    y, x = i[Item.Y] + r[Record.J0], i[Item.X] + r[Record.I0]
    return grid + (i[Item.Z] + p) * a[Array.PLANE] + y * a[Array.ROW] + x * a[Array.CELL]


def around(e: Emitter, r: Tables, axis: int, width: Value) -> tuple[Value, Value]:
    """First and end of the cells along an axis of which the face above may look at what a block loads."""
    low = (r[Record.FLAGS] & (Flag.LOW_PLANE << 2 * axis)) > 0
    first, end = r[Record.P0 + 2 * axis], r[Record.P1 + 2 * axis]
    return e.select(low, width * -1, first - width), end + width - 1


def origin_of(j: Tables, r: Tables) -> Value:
    """Where the first cell of a tile would lie in a field of scratch memory."""
    return j[Job.BASE] - r[Record.SHIFT] * j[Job.PITCH]


def field_of(e: Emitter, j: Tables, r: Tables, place: Value) -> Value:
    """Where the first cell of a tile would lie in a field by its place; one that passes lies before scratch memory.

    The rows of its block follow as many as there are ghosts.
    """
    pitch = j[Job.PITCH]
    # Scratch memory has the same rows of ghosts before its first cell.
    passing = place * j[Job.PASSING] + j[Job.BASE] - r[Record.J0] * pitch
    return e.select(place < 0, passing, place * j[Job.SIZE] + origin_of(j, r))


def coefficients_of(e: Emitter, j: Tables, i: Tables) -> Value:
    """Where those of an item's grid lie."""
    return e.pointer(j[Job.COEFFICIENTS] + i[Item.GRID] * j[Job.COEFFICIENT_BYTES])
