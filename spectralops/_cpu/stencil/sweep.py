"""The code of a sweep: tiles are loaded with their ghosts and taken through the records of their levels.

It knows nothing of the terms of a step: one per dtype is compiled, which calls the rows of each stage by address.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from spectralops._cpu.stencil.blocks import emit_interleave, place_of, units_of
from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.faces import coefficients_of, emit_faces, emit_marks, emit_restore, field_of, origin_of
from spectralops._cpu.stencil.ghosts import Rules, affine, emit_ghosts, ghost_of
from spectralops._cpu.stencil.layout import UNIT_BYTES, WORD_BYTES, Array, Flag, Item, Job, Record, Table
from spectralops._cpu.stencil.loads import emit_loads
from spectralops._cpu.stencil.openings import Openings
from spectralops._cpu.stencil.unload import emit_unload

__all__ = ["emit_sweep"]

ROW_GHOSTS = Flag.LOW_PLANE | Flag.HIGH_PLANE | Flag.LOW_ROW | Flag.HIGH_ROW
COLUMN_GHOSTS = Flag.LOW_CELL | Flag.HIGH_CELL


def emit_sweep(e: Emitter) -> None:
    """Define ``sweep(job, items, first, last, scratch)``, which advances the tiles from `first` to before `last`."""
    if e.interleaved:
        emit_interleave(e)
    emit_ghosts(e)
    emit_loads(e)
    _emit_hold(e)
    emit_faces(e)
    if not e.interleaved:
        emit_marks(e)
        emit_restore(e)
    _emit_load_block(e)
    _emit_move(e)
    _emit_keep(e)
    if e.interleaved:
        emit_unload(e)
    _emit_level(e)
    _emit_run(e)
    if not e.interleaved:
        _emit_straight(e)
    with e.function("sweep", "qqiii", private=False) as (job, items, first, last, address):
        scratch = e.pointer(address)
        with e.loop(first, last) as index:
            item = e.shift(items, index * len(Item))
            records, count = (e.scalar(item, int(place)) for place in (Item.RECORDS, Item.COUNT))
            with e.loop(0, count) as k:
                arguments = (job, item, e.shift(e.pointer(records, "q"), k * len(Record)), scratch)
                run = e.select(e.scalar(job, int(Job.RUNS)) > 0, e.scalar(arguments[2], int(Record.RUN)), 0)
                with e.when(run >= 0):  # others belong to one that is done
                    e.either(run > 0, partial(e.call, "run", *arguments), partial(_emit_record, e, arguments))


def _emit_record(e: Emitter, arguments: tuple[Value, ...]) -> None:
    """Compute a block of a level, load one of a tile, move rows, compute a block straight from the array, or keep rows.

    Rows straight from the array are in order.
    """
    stage = e.scalar(arguments[2], int(Record.STAGE))

    def other() -> None:
        rare = {-2: "move", **({} if e.interleaved else {-3: "straight"}), -4: "keep", -5: "keep"}
        for kind, name in {-1: "load", **rare}.items():
            with e.when(stage.equals(kind)):
                e.call(name, *arguments)

    e.either(stage < 0, other, lambda: e.call("level", *arguments))


def _emit_move(e: Emitter) -> None:
    """Define ``move(job, item, record, scratch)``: rows of all fields, and the ghosts at their ends, to rows above."""
    with e.function("move", "qqqf") as (job, _, record, scratch):
        j, r = Tables(e, job), Tables(e, record)
        pitch = j[Job.PITCH]
        # A row begins with the ghosts before its first cell; so does scratch memory with its first row.
        first = e.shift(scratch, (r[Record.J0] + j[Job.WIDTH_OF_ROWS]) * pitch)
        size = (r[Record.J1] - r[Record.J0]) * pitch * e.bytes
        with e.loop(0, j[Job.MASK] if e.interleaved else j[Job.SCRATCH]) as k:
            source = e.shift(first, k * j[Job.SIZE])
            target = e.shift(source, r[Record.SHIFT] * pitch * -1)
            e.move(e.bytes_at(target), e.bytes_at(source), size)
        if e.interleaved:
            with e.when(j[Job.MASKED] > 0):
                openings = Openings(e, e.shift(scratch, j[Job.MASK] * j[Job.SIZE]), j[Job.SIZE])
                row, units = r[Record.J0] + j[Job.WIDTH_OF_ROWS], openings.units((r[Record.J1] - r[Record.J0]) * pitch)
                for place, of_unit in ((openings.byte, UNIT_BYTES), (openings.word, WORD_BYTES)):
                    source, target = (e.bytes_at(place(k * pitch)) for k in (row, row - r[Record.SHIFT]))
                    e.move(target, source, units * of_unit)


def _emit_keep(e: Emitter) -> None:
    """Define ``keep(job, item, record, scratch)``: rows of a copy of u, and ghosts, to where they stay or back."""
    with e.function("keep", "qqqf") as (job, _, record, scratch):
        j, r = Tables(e, job), Tables(e, record)
        pitch, size = j[Job.PITCH], j[Job.SIZE]
        count = (r[Record.J1] - r[Record.J0]) * pitch
        row = r[Record.J0] - r[Record.SHIFT] + j[Job.WIDTH_OF_ROWS]
        there = e.shift(scratch, j[Job.KEPT] + r[Record.TARGET] * count)
        here = e.shift(scratch, r[Record.SOURCE] * size + row * pitch)
        back = r[Record.STAGE].equals(-5)
        target, source = e.select(back, here, there), e.select(back, there, here)
        e.copy(e.bytes_at(target), e.bytes_at(source), count * e.bytes)


def _emit_load_block(e: Emitter) -> None:
    """Define ``load(job, item, record, scratch)``: a block of u, of all fields and of the mask, with their ghosts."""
    with e.function("load", "qqqf") as (job, item, record, scratch):
        j, r = Tables(e, job), Tables(e, record)
        size, base = j[Job.SIZE], origin_of(j, r)
        arrays = e.pointer(j[Job.ARRAYS], "q")

        def load(entry: Any, start: Value, table: Table) -> None:
            e.call("load_numbers", job, item, record, e.shift(arrays, entry * len(Array)), start)
            _emit_ghosts(e, (job, item, record, start), r[Record.FLAGS], table)

        load(0, e.shift(scratch, base), Table.CELLS)
        with e.loop(0, j[Job.FIELDS]) as k:
            place = e.scalar(e.pointer(j[Job.FIELD_PLACES], "q"), k)
            load(k + 1, e.shift(scratch, field_of(e, j, r, place)), Table.FIELDS)
        with e.when(j[Job.MASKED] > 0):
            entry, field = e.shift(arrays, (j[Job.FIELDS] + 1) * len(Array)), e.shift(scratch, size * j[Job.MASK])
            e.call("load_mask", job, item, record, entry, field)
            if not e.interleaved:  # else the words of ghosts are there by now
                _emit_ghosts(e, (job, item, record, e.shift(field, base)), r[Record.FLAGS], Table.MASK)
        e.call("faces", job, item, record, scratch)
        if not e.interleaved:
            with e.when(j[Job.MARKED] > 0):
                e.call("marks", job, record, e.shift(scratch, size * j[Job.MASK] + base))
        with e.loop(0, j[Job.FIELDS]) as k:
            place = e.scalar(e.pointer(j[Job.FIELD_PLACES], "q"), k)
            with e.when(place < 0):
                _emit_pass(e, j, r, e.shift(scratch, (place + 1) * j[Job.PASSING]))


def _emit_pass(e: Emitter, j: Tables, r: Tables, end: Value) -> None:
    """The last rows of a block of a field that passes, which ends there, to where those before the next block lie."""
    width, pitch = j[Job.WIDTH_OF_ROWS], j[Job.PITCH]
    first = e.shift(end, j[Job.PASSING] * -1)
    count = r[Record.J1] - r[Record.J0]
    e.move(e.bytes_at(first), e.bytes_at(e.shift(first, count * pitch)), width * pitch * e.bytes)


def _emit_ghosts(e: Emitter, arguments: tuple[Value, ...], flags: Value, table: Table) -> None:
    """Renew the ghosts that a block feeds."""
    for name, some in (("column_ghosts", COLUMN_GHOSTS), ("row_ghosts", ROW_GHOSTS)):
        with e.when((flags & some) > 0):
            e.call(name, *arguments, e.integer(int(table)))


def _emit_level(e: Emitter) -> None:
    """Define ``level(job, item, record, scratch)``: a block of one level, and the ghosts that it feeds."""
    with e.function("level", "qqqf") as (job, item, record, scratch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        size, pitch, plane_pitch = j[Job.SIZE], j[Job.PITCH], j[Job.PLANE_PITCH]
        coefficients = coefficients_of(e, j, i)
        target, flags = r[Record.TARGET], r[Record.FLAGS]
        exact = target < 0
        p0, p1, j0, j1 = (r[p] for p in (Record.P0, Record.P1, Record.J0, Record.J1))
        i0, n = units_of(e, r)
        count, base = j1 - j0, origin_of(j, r)
        # The last level goes to the result, interleaved rows by way of the copy of u that would be next.
        straight = e.integer(0) > 0 if e.interleaved else exact
        out_pitch = e.select(straight, j[Job.CELLS], pitch)
        source = e.shift(scratch, r[Record.SOURCE] * size)
        inner = e.shift(scratch, e.select(exact, target * -1 - 1, target) * size)
        rows = e.scalar(e.pointer(j[Job.STAGES], "q"), r[Record.STAGE])
        with e.loop(p0, p1) as p:
            place = base + p * plane_pitch + j0 * pitch + i0
            z = i[Item.GRID] * j[Job.PLANES] + i[Item.Z] + p
            cell = (z * j[Job.ROWS] + i[Item.Y] + j0) * j[Job.CELLS] + i[Item.X] + r[Record.I0]
            result = e.shift(e.pointer(j[Job.OUT]), cell)
            to = e.select(straight, result, e.shift(inner, place))
            s = e.shift(source, place)
            with e.loop(0, j[Job.POINTWISE]) as k:
                _emit_pointwise(e, j, k, scratch, s, place, count, n)
            whole = e.select(straight, 1, 0)
            e.call_address(rows, job, coefficients, scratch, place, s, to, out_pitch, count, n, whole)
            with e.when(j[Job.HELD] > 0):
                e.call("hold", job, item, record, p, s, to, out_pitch)
            if e.interleaved:
                with e.when(exact):
                    e.call("unload", job, item, record, p, e.shift(scratch, j[Job.MASK] * size), place, to, result)
            else:
                with e.when(exact & (j[Job.RESTORED] > 0)):
                    bits = e.shift(scratch, j[Job.MASK] * size + place)
                    e.call("restore", job, item, record, p, bits, result)
        with e.when(target >= 0):
            _emit_ghosts(e, (job, item, record, e.shift(inner, base)), flags, Table.CELLS)


def _emit_run(e: Emitter) -> None:
    """Define ``run(job, item, record, scratch)``: blocks of several levels one after another.

    The same as `level` does for each of them, without what it asks every time.
    """
    with e.function("run", "qqqf") as (job, item, records, scratch):
        j, i = Tables(e, job), Tables(e, item)
        coefficients = coefficients_of(e, j, i)
        size, pitch, plane_pitch = j[Job.SIZE], j[Job.PITCH], j[Job.PLANE_PITCH]
        stages = e.pointer(j[Job.STAGES], "q")
        rules, zero = Rules(e, job, e.integer(int(Table.CELLS))), e.integer(0)
        ends = []
        for high in (0, 1):
            scale, offset = (e.scalar(p) for p in rules.scale_and_offset(2, high, zero))
            source, ghost = rules.source(2, high, zero, i[Item.CELLS]), ghost_of(i[Item.CELLS], high, zero)
            ends.append((Flag.LOW_CELL << high, scale, offset, place_of(e, source), place_of(e, ghost)))
        with e.loop(0, e.scalar(records, int(Record.RUN))) as k:
            r = Tables(e, e.shift(records, k * len(Record)))
            first, n = units_of(e, r)
            row = origin_of(j, r) + r[Record.P0] * plane_pitch + r[Record.J0] * pitch
            count, flags = r[Record.J1] - r[Record.J0], r[Record.FLAGS]
            source, target = (e.shift(scratch, r[which] * size + row) for which in (Record.SOURCE, Record.TARGET))
            s, to = e.shift(source, first), e.shift(target, first)
            rows = e.scalar(stages, r[Record.STAGE])
            e.call_address(rows, job, coefficients, scratch, row + first, s, to, pitch, count, n, zero)
            for flag, scale, offset, inside, ghost in ends:
                with e.when((flags & flag) > 0), e.loop(0, count) as k:
                    line = e.shift(target, k * pitch)
                    e.put(line, ghost, affine(scale, offset, e.scalar(line, inside)))


def _emit_straight(e: Emitter) -> None:
    """Define ``straight(job, item, record, scratch)``: a block of rows from the array to the result."""
    with e.function("straight", "qqqf") as (job, item, record, scratch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        a = Tables(e, e.pointer(j[Job.ARRAYS], "q"))
        grid, pitch = i[Item.GRID], j[Job.CELLS]
        first = r[Record.J0] * pitch + r[Record.I0]
        source = e.shift(e.pointer(a[Array.ADDRESS] + e.scalar(e.pointer(a[Array.GRIDS], "q"), grid)), first)
        target = e.shift(e.pointer(j[Job.OUT]), grid * j[Job.ROWS] * pitch + first)
        count, n = r[Record.J1] - r[Record.J0], r[Record.I1] - r[Record.I0]
        rows, own = e.scalar(e.pointer(j[Job.STAGES], "q")), e.pointer(j[Job.STRAIGHT], "q")
        zero, one = e.integer(0), e.integer(1)
        coefficients = coefficients_of(e, j, i)
        # Rows one by one: several, whose distance is often a multiple of a page, would fight for sets of the cache.
        with e.loop(0, count) as k:
            here, there = e.shift(source, k * pitch), e.shift(target, k * pitch)
            e.call_address(rows, own, coefficients, scratch, zero, here, there, pitch, one, n, one)


def _emit_pointwise(
    e: Emitter, j: Tables, k: Value, scratch: Value, s: Value, place: Value, count: Value, n: Value
) -> None:
    """Rows of a pointwise term times dt, by the function whose address the job lists."""
    pitch = j[Job.PITCH]
    rate = e.shift(scratch, j[Job.SIZE] * (j[Job.RATES] + k) + place)
    address = e.scalar(e.pointer(j[Job.FUNCTIONS], "q"), k)
    dt = e.scalar(e.pointer(j[Job.DT]))
    with e.loop(0, count) as row:
        e.call_address(address, e.shift(s, row * pitch), e.shift(rate, row * pitch), n, dt)


def _emit_hold(e: Emitter) -> None:
    """Define ``hold(job, item, record, plane, source, target, pitch)``: held cells get their value back.

    The source has it too: of a stage that is not a step's first, held cells are those of the stage before.
    """
    with e.function("hold", "qqqiffi") as (job, item, record, p, s, to, out_pitch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        pitch, held = j[Job.PITCH], j[Job.HELD]
        flags = r[Record.FLAGS]
        (first, n), count = units_of(e, r), r[Record.J1] - r[Record.J0]

        def is_held(axis: int, side: int, bits: Value, bit: int) -> Value:
            return ((held & (1 << 2 * axis + side)) > 0) & ((bits & bit) > 0)

        def copy(k: Value) -> None:
            target, source = e.shift(to, k * out_pitch), e.shift(s, k * pitch)
            e.copy(e.bytes_at(target), e.bytes_at(source), n * e.bytes)

        for side in (0, 1):
            extents = i[Item.PLANES], count, r[Record.I1] - first
            plane, row, column = (extent - 1 if side else e.integer(0) for extent in extents)
            column = place_of(e, column)
            on_plane = is_held(0, side, flags, Flag.HELD_LOW_PLANE << side) & p.equals(plane)
            with e.when(on_plane), e.loop(0, count) as k:
                copy(k)
            with e.when(is_held(1, side, flags, Flag.HELD_LOW_ROW << side)):
                copy(row)
            with e.when(is_held(2, side, flags, Flag.HELD_LOW_CELL << side)), e.loop(0, count) as k:
                e.put(e.shift(to, k * out_pitch), column, e.scalar(e.shift(s, k * pitch), column))
