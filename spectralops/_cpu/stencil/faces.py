"""The code of what is made of fields and masks at faces when a tile is loaded, and of what a mask puts back."""

from __future__ import annotations

from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.layout import ALL_OPEN, INSIDE, OUTSIDE, Array, Face, Flag, Item, Job, Record

__all__ = ["coefficients_of", "emit_faces", "emit_marks", "emit_restore", "origin_of"]


def emit_faces(e: Emitter) -> None:
    """Define ``faces(job, item, record, scratch)``: values at the faces above cells, from the cells on both sides.

    A face that looks at what later blocks load is done again with these.
    """
    with e.function("faces", "qqqf") as (job, item, record, scratch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        coefficients = coefficients_of(e, j, i)
        pitches = (j[Job.PLANE_PITCH], j[Job.PITCH], e.integer(1))
        spans = [(r[Record.P0 + 2 * axis], r[Record.P1 + 2 * axis]) for axis in range(3)]
        with e.loop(0, j[Job.FACE_COUNT]) as k:
            f = Tables(e, e.shift(e.pointer(j[Job.FACES], "q"), k * len(Face)))
            slot = f[Face.SLOT]
            of_mask = slot < 0
            source, target = (
                e.shift(scratch, f[place] * j[Job.SIZE] + origin_of(j, r)) for place in (Face.SOURCE, Face.TARGET)
            )
            factor = e.everywhere(coefficients, e.select(of_mask, 0, slot))
            place = e.select(of_mask, slot * -1 - 1, 0)
            for axis, pitch in enumerate(pitches):
                with e.when(f[Face.AXIS].equals(axis)):
                    # Of masks there are as many ghosts as of u, of other fields one.
                    width = e.select(of_mask, j[Job.WIDTHS + axis], 1)
                    around = _around(e, r, axis, width)
                    (p0, p1), (j0, j1), (i0, i1) = (around if n == axis else span for n, span in enumerate(spans))
                    with e.loop(p0, p1) as p, e.loop(j0, j1) as row:
                        line = p * pitches[0] + row * pitches[1]
                        with e.loop(i0, i1, e.lanes) as cell:
                            here, above = line + cell, line + cell + pitch
                            value, other = e.load(source, here), e.load(source, above)
                            bits = e.with_bit(e.load_bits(source, here), e.load_bits(source, above), place, INSIDE)
                            e.store(target, here, e.select(of_mask, bits, (value + other) * factor))


def emit_marks(e: Emitter) -> None:
    """Define ``marks(job, record, mask)``: which vectors of rows and their ghosts are all open, or outside."""
    with e.function("marks", "qqf") as (job, record, mask):
        j, r = Tables(e, job), Tables(e, record)
        first, end = _around(e, r, 1, j[Job.WIDTHS + 1])
        # Also where rows are not stepped and have no faces between them.
        end = e.select(end < r[Record.J1], r[Record.J1], end)
        with e.loop(r[Record.P0], r[Record.P1]) as p, e.loop(first, end) as row:
            line = e.shift(mask, p * j[Job.PLANE_PITCH] + row * j[Job.PITCH])
            with e.loop(r[Record.I0], r[Record.I1], e.lanes) as cell:
                e.mark(line, cell, (ALL_OPEN, OUTSIDE), j[Job.MARKED], INSIDE)


def emit_restore(e: Emitter) -> None:
    """Define ``restore(job, item, record, plane, bits, target)``: cells outside the mask as the array has them."""
    with e.function("restore", "qqqiff") as (job, item, record, p, bits, to):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        a = Tables(e, e.pointer(j[Job.ARRAYS], "q"))
        step, n = a[Array.CELL], r[Record.I1] - r[Record.I0]
        z, x = i[Item.Z] + p, i[Item.X] + r[Record.I0]
        plane = a[Array.ADDRESS] + e.scalar(e.pointer(a[Array.GRIDS], "q"), i[Item.GRID]) + z * a[Array.PLANE]
        whole = e.select(step.equals(e.bytes), n - (e.lanes - 1), 0)
        with e.loop(0, r[Record.J1] - r[Record.J0]) as row:
            line = plane + (i[Item.Y] + r[Record.J0] + row) * a[Array.ROW] + x * step
            inside, target = e.shift(bits, row * j[Job.PITCH]), e.shift(to, row * j[Job.CELLS])
            with e.loop(0, whole, e.lanes) as k:
                value, kept = e.load(target, k), e.load(e.pointer(line), k)
                e.store(target, k, e.chosen_by_bytes(e.load_bits(inside, k), INSIDE, value, kept))
            with e.loop(e.after, n) as k:
                value, kept = e.scalar(target, k), e.scalar(e.pointer(line + k * step))
                e.put(target, k, e.select(e.is_set(e.scalar(inside, k), INSIDE), value, kept))


def _around(e: Emitter, r: Tables, axis: int, width: Value) -> tuple[Value, Value]:
    """First and end of the cells along an axis of which the face above may look at what a block loads."""
    low = (r[Record.FLAGS] & (Flag.LOW_PLANE << 2 * axis)) > 0
    first, end = r[Record.P0 + 2 * axis], r[Record.P1 + 2 * axis]
    return e.select(low, width * -1, first - width), end + width - 1


def origin_of(j: Tables, r: Tables) -> Value:
    """Where the first cell of a tile would lie in a field of scratch memory."""
    return j[Job.BASE] - r[Record.SHIFT] * j[Job.PITCH]


def coefficients_of(e: Emitter, j: Tables, i: Tables) -> Value:
    """Where those of an item's grid lie."""
    return e.pointer(j[Job.COEFFICIENTS] + i[Item.GRID] * j[Job.COEFFICIENT_BYTES])
