"""The code of what a tile loads: cells of arrays to scratch memory, and those of the mask as bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_

from spectralops._cpu.stencil.blocks import end_of
from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.faces import around, origin_of
from spectralops._cpu.stencil.ghosts import Rules, ghost_of
from spectralops._cpu.stencil.layout import ALL_OPEN, INSIDE, OUTSIDE, Array, Flag, Item, Job, Record, Table
from spectralops._cpu.stencil.openings import Openings

__all__ = ["emit_loads"]

LINE_BYTES, INT_BITS = 64, 64
# A row to which cells of the array are copied, from where and how far apart they lie, how many, and how far ahead
# those of the next block lie.
Copy = Callable[[Value, Value, Value, Value, Value], None]


def emit_loads(e: Emitter) -> None:
    """Define ``load_numbers(job, item, record, array, start)`` and ``load_mask(job, item, record, array, field)``."""
    _emit_load(e)
    if e.interleaved:
        _emit_load_openings(e)
    else:
        _emit_load_mask(e)


def _emit_load(e: Emitter) -> None:
    def copy(target: Value, source: Value, step: Value, count: Value, ahead: Value) -> None:
        def whole() -> None:
            e.copy(e.bytes_at(target), e.pointer(source, "b"), count * e.bytes)
            # What the next block of rows will load arrives while levels are computed.
            with e.loop(0, count * e.bytes, LINE_BYTES) as k:
                e.prefetch(source + ahead + k)

        def scattered() -> None:
            with e.loop(0, count) as k:
                e.put(target, k, e.scalar(e.pointer(source + k * step)))

        e.either(step.equals(e.bytes), whole, scattered)

    with e.function("load_numbers", "qqqqf") as (job, item, record, entry, start):
        j, r = Tables(e, job), Tables(e, record)
        with _rows(e, (job, item, record, entry)) as (p, row, parts):
            to = e.shift(start, p * j[Job.PLANE_PITCH] + row * j[Job.PITCH] + r[Record.I0])
            parts(to, copy)
            if e.interleaved:
                e.call("interleave", to, r[Record.I1] - r[Record.I0])


def _emit_load_mask(e: Emitter) -> None:
    """Bytes become numbers with one bit set, or none."""

    def copy(target: Value, source: Value, step: Value, count: Value, _: Value) -> None:
        # Whole vectors where bytes lie side by side.
        whole = e.select(step.equals(1), count - (e.lanes - 1), 0)
        with e.loop(0, whole, e.lanes) as k:
            e.store(target, k, e.masks_of(e.pointer(source + k, "b"), INSIDE))
        with e.loop(e.after, count) as k:
            e.put(target, k, e.mask_of(e.scalar(e.pointer(source + k * step, "b")), INSIDE))

    with e.function("load_mask", "qqqqf") as (job, item, record, entry, field):
        j, r = Tables(e, job), Tables(e, record)
        with _rows(e, (job, item, record, entry)) as (p, row, parts):
            cell = p * j[Job.PLANE_PITCH] + row * j[Job.PITCH] + r[Record.I0]
            parts(e.shift(field, origin_of(j, r) + cell), copy)


def _emit_load_openings(e: Emitter) -> None:
    """Bytes of the array become words, those of ghosts with them, and these the bytes of faces."""

    def copy(target: Value, source: Value, step: Value, count: Value, ahead: Value) -> None:
        def whole() -> None:
            e.copy(target, e.pointer(source, "b"), count)
            with e.loop(0, count, LINE_BYTES) as k:
                e.prefetch(source + ahead + k)

        def scattered() -> None:
            with e.loop(0, count) as k:
                e.put(target, k, e.scalar(e.pointer(source + k * step, "b")))

        e.either(step.equals(1), whole, scattered)

    with e.function("load_mask", "qqqqf") as (job, item, record, entry, field):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        openings, rules = Openings(e, field, j[Job.SIZE]), Rules(e, job, e.integer(int(Table.MASK)))
        pitches, first, n = (j[Job.PLANE_PITCH], j[Job.PITCH]), origin_of(j, r), i[Item.CELLS]
        end, cells = end_of(e, n), openings.row_of_array
        with _rows(e, (job, item, record, entry)) as (p, row, parts):
            parts(e.shift(cells, r[Record.I0]), copy)
            for high in (0, 1):
                with e.when((r[Record.FLAGS] & (Flag.LOW_CELL << high)) > 0):
                    source, ghost = rules.source(2, high, e.integer(0), n), ghost_of(n, high, e.integer(0))
                    e.put(cells, ghost, e.scalar(cells, source))
            line = first + p * pitches[0] + row * pitches[1]
            with e.loop(-e.unit, end + 1, e.unit) as cell:
                e.put(openings.word(line + cell), 0, e.some_bits(cells, cell))
        spans = [(r[Record.P0 + 2 * axis], r[Record.P1 + 2 * axis]) for axis in range(2)]
        for axis, pitch in enumerate(pitches):
            for high in (0, 1):
                flag = Flag.LOW_PLANE << 2 * axis + high
                with e.when((r[Record.FLAGS] & flag) > 0), e.loop(0, rules.layers(axis)) as layer:
                    extent = i[Item.PLANES + axis]
                    ghost, source = ghost_of(extent, high, layer), rules.source(axis, high, layer, extent)
                    with e.loop(*spans[1 - axis]) as k, e.loop(-e.unit, end + 1, e.unit) as cell:
                        line = first + k * pitches[1 - axis] + cell
                        e.put(openings.word(line + ghost * pitch), 0, openings.inside(line + source * pitch))
        _emit_openings(e, j, r, openings, first, end)


def _emit_openings(e: Emitter, j: Tables, r: Tables, openings: Openings, first: Value, end: Value) -> None:
    """The bytes of a block's faces, and of those below it, which look at what the block has loaded."""
    pitches = j[Job.PLANE_PITCH], j[Job.PITCH]
    whole = e.integer((1 << e.unit) - 1 if e.unit < INT_BITS else -1)
    spans, distances = [], []
    for axis, pitch in enumerate(pitches):
        # Also where an axis is not stepped, and has neither faces nor ghosts.
        width, last = j[Job.WIDTHS + axis], r[Record.P1 + 2 * axis]
        first_face, end_of_faces = around(e, r, axis, width)
        spans.append((first_face, e.select(end_of_faces < last, last, end_of_faces)))
        distances.append(e.select(width > 0, pitch, 0))
    with e.loop(*spans[0]) as p, e.loop(*spans[1]) as row, e.loop(-e.unit, end, e.unit) as cell:
        place = first + p * pitches[0] + row * pitches[1] + cell
        here = openings.inside(place)
        above = [openings.inside(place + distance) for distance in distances]
        above.append(here.lowered(1) | (openings.inside(place, 1) << e.unit - 1))
        faces = [here & some for some in above]
        opened = reduce(and_, faces).equals(whole) & (j[Job.MARKED] > 0)
        outside = here.equals(0) & (j[Job.MARKED] > 0)
        marks = e.select(opened, ALL_OPEN, 0) + e.select(outside, OUTSIDE, 0)
        openings.put(place, tuple(faces), marks)


@contextmanager
def _rows(
    e: Emitter, arguments: tuple[Value, Value, Value, Value]
) -> Iterator[tuple[Value, Value, Callable[[Value, Copy], None]]]:
    """Each row of a block: its plane, its place in that, and what copies its parts."""
    j, i, r, a = (Tables(e, argument) for argument in arguments)
    n = j[Job.CELLS]
    origin = a[Array.ADDRESS] + e.scalar(e.pointer(a[Array.GRIDS], "q"), i[Item.GRID])
    i0 = r[Record.I0]
    x = ((i[Item.X] + i0) % n + n) % n
    extent = r[Record.I1] - i0
    step = a[Array.CELL]
    ahead = (r[Record.J1] - r[Record.J0]) * a[Array.ROW]
    with e.loop(r[Record.P0], r[Record.P1]) as p, e.loop(r[Record.J0], r[Record.J1]) as row:
        z, y = (
            ((i[first] + k) % j[count] + j[count]) % j[count]
            for first, k, count in ((Item.Z, p, Job.PLANES), (Item.Y, row, Job.ROWS))
        )
        line = origin + z * a[Array.PLANE] + y * a[Array.ROW]

        def parts(to: Value, copy: Copy) -> None:
            # Of a row that wraps around there are several.
            with e.loop(e.integer(0) - x, extent, n) as first:
                begin = e.select(first < 0, 0, first)
                length = e.least(extent - begin, n - (begin - first))
                copy(e.shift(to, begin), line + (begin - first) * step, step, length, ahead)

        yield p, row, parts
