"""The code of a sweep: tiles are loaded with their ghosts and taken through the records of their levels.

It knows nothing of the terms of a step: one per dtype is compiled, which calls the rows of each stage by address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.layout import LAYERS, Array, Flag, Item, Job, Record, Table, Wall

__all__ = ["emit_sweep"]

SUFFIX = {"f": "numbers", "b": "bytes"}
GHOSTS = Flag.LOW_PLANE | Flag.HIGH_PLANE | Flag.LOW_ROW | Flag.HIGH_ROW


def emit_sweep(e: Emitter) -> None:
    """Define ``sweep(job, items, first, last, scratch)``, which advances the tiles from `first` to before `last`."""
    for kind in "fb":
        _emit_load(e, kind)
    _emit_column_ghosts(e, "f", True)
    _emit_column_ghosts(e, "b", False)
    _emit_row_ghosts(e)
    _emit_byte_row_ghosts(e)
    _emit_hold(e)
    _emit_load_block(e)
    _emit_level(e)
    with e.function("sweep", "qqiii", private=False) as (job, items, first, last, address):
        scratch = e.pointer(address)
        with e.loop(first, last) as index:
            item = e.shift(items, index * len(Item))
            records, count = (e.scalar(item, int(place)) for place in (Item.RECORDS, Item.COUNT))
            with e.loop(0, count) as k:
                arguments = (job, item, e.shift(e.pointer(records, "q"), k * len(Record)), scratch)
                _emit_record(e, arguments)


def _emit_record(e: Emitter, arguments: tuple[Value, ...]) -> None:
    """Load a block of a tile, or compute one of a level."""
    stage = e.scalar(arguments[2], int(Record.STAGE))
    e.either(stage < 0, lambda: e.call("load", *arguments), lambda: e.call("level", *arguments))


def _emit_load_block(e: Emitter) -> None:
    """Define ``load(job, item, record, scratch)``: a block of u, of all fields and of the mask, with their ghosts."""
    with e.function("load", "qqqf") as (job, item, record, scratch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        size, base, first = j[Job.SIZE], j[Job.BASE], j[Job.BUFFERS]
        arrays = e.pointer(j[Job.ARRAYS], "q")
        block = tuple(r[place] for place in (Record.P0, Record.P1, Record.J0, Record.J1))

        def load(entry: Any, start: Value, table: Table) -> None:
            suffix = SUFFIX["b" if table == Table.MASK else "f"]
            e.call(f"load_{suffix}", job, item, e.shift(arrays, entry * len(Array)), start, *block)
            arguments = (job, item, start, *block)
            e.call(f"column_ghosts_{suffix}", *arguments, i[Item.WALLS], e.integer(int(table)))
            e.call(f"row_ghosts_{suffix}", *arguments, r[Record.FLAGS], e.integer(int(table)))

        load(0, e.shift(scratch, base), Table.CELLS)
        with e.loop(0, j[Job.FIELDS]) as k:
            load(k + 1, e.shift(scratch, (first + k) * size + base), Table.FIELDS)
        with e.when(j[Job.MASKED] > 0):
            mask = e.shift(e.bytes_at(e.shift(scratch, size * j[Job.SCRATCH])), base)
            load(j[Job.FIELDS] + 1, mask, Table.MASK)


def _emit_level(e: Emitter) -> None:
    """Define ``level(job, item, record, scratch)``: a block of one level, and the ghosts that it feeds."""
    with e.function("level", "qqqf") as (job, item, record, scratch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        size, pitch, plane_pitch = j[Job.SIZE], j[Job.PITCH], j[Job.PLANE_PITCH]
        coefficients = e.pointer(j[Job.COEFFICIENTS] + i[Item.GRID] * j[Job.COEFFICIENT_BYTES])
        target, flags = r[Record.TARGET], r[Record.FLAGS]
        exact = target < 0
        p0, p1, j0, j1, i0 = (r[p] for p in (Record.P0, Record.P1, Record.J0, Record.J1, Record.I0))
        n = r[Record.I1] - i0
        count = j1 - j0
        out_pitch = e.select(exact, j[Job.CELLS], pitch)
        source = e.shift(scratch, r[Record.SOURCE] * size)
        inner = e.shift(scratch, e.select(exact, 0, target) * size)
        rows = e.scalar(e.pointer(j[Job.STAGES], "q"), r[Record.STAGE])
        with e.loop(p0, p1) as p:
            place = j[Job.BASE] + p * plane_pitch + j0 * pitch + i0
            z = i[Item.GRID] * j[Job.PLANES] + i[Item.Z] + p
            cell = (z * j[Job.ROWS] + i[Item.Y] + j0) * j[Job.CELLS] + i[Item.X] + i0
            to = e.select(exact, e.shift(e.pointer(j[Job.OUT]), cell), e.shift(inner, place))
            s = e.shift(source, place)
            with e.loop(0, j[Job.POINTWISE]) as k:
                _emit_pointwise(e, j, k, scratch, s, place, count, n)
            e.call_address(rows, job, coefficients, scratch, place, s, to, out_pitch, count, n, e.select(exact, 1, 0))
            with e.when(j[Job.HELD] > 0):
                e.call("hold", job, item, record, p, s, to, out_pitch)
        with e.when(target >= 0):
            block = (job, item, e.shift(inner, j[Job.BASE]), p0, p1, j0, j1)
            e.call("column_ghosts_numbers", *block, i[Item.WALLS], e.integer(int(Table.CELLS)))
            with e.when((flags & GHOSTS) > 0):
                e.call("row_ghosts_numbers", *block, flags, e.integer(int(Table.CELLS)))


def _emit_pointwise(
    e: Emitter, j: Tables, k: Value, scratch: Value, s: Value, place: Value, count: Value, n: Value
) -> None:
    """Rows of a pointwise term times dt, by the function whose address the job lists."""
    pitch = j[Job.PITCH]
    rate = e.shift(scratch, j[Job.SIZE] * (j[Job.BUFFERS] + j[Job.FIELDS] + k) + place)
    address = e.scalar(e.pointer(j[Job.FUNCTIONS], "q"), k)
    dt = e.scalar(e.pointer(j[Job.DT]))
    with e.loop(0, count) as row:
        e.call_address(address, e.shift(s, row * pitch), e.shift(rate, row * pitch), n, dt)


def _emit_load(e: Emitter, kind: str) -> None:
    """Define ``load(job, item, array, start, p0, p1, j0, j1)``: cells of the grid to scratch memory."""
    size = e.bytes if kind == "f" else 1
    with e.function(f"load_{SUFFIX[kind]}", f"qqq{kind}iiii") as arguments:
        job, item, entry, start, p0, p1, j0, j1 = arguments
        j, i, a = Tables(e, job), Tables(e, item), Tables(e, entry)
        n = j[Job.CELLS]
        origin = a[Array.ADDRESS] + e.scalar(e.pointer(a[Array.GRIDS], "q"), i[Item.GRID])
        x = (i[Item.X] % n + n) % n
        extent = i[Item.CELLS]
        step = a[Array.CELL]
        with e.loop(p0, p1) as p, e.loop(j0, j1) as row:
            z, y = (
                ((i[first] + k) % j[count] + j[count]) % j[count]
                for first, k, count in ((Item.Z, p, Job.PLANES), (Item.Y, row, Job.ROWS))
            )
            line = origin + z * a[Array.PLANE] + y * a[Array.ROW]
            to = e.shift(start, p * j[Job.PLANE_PITCH] + row * j[Job.PITCH])
            # Parts of a row that wraps around.
            with e.loop(e.integer(0) - x, extent, n) as first:
                begin = e.select(first < 0, 0, first)
                length = e.least(extent - begin, n - (begin - first))
                target, part = e.shift(to, begin), line + (begin - first) * step

                def whole(target: Value = target, part: Value = part, length: Value = length) -> None:
                    e.copy(e.bytes_at(target), e.pointer(part, "b"), length * size)

                def scattered(target: Value = target, part: Value = part, length: Value = length) -> None:
                    with e.loop(0, length) as k:
                        e.put(target, k, e.scalar(e.pointer(part + k * step, kind)))

                e.either(step.equals(size), whole, scattered)


class _Rules:
    """The rules of the ghosts of one kind of array."""

    def __init__(self, e: Emitter, job: Value, table: Value) -> None:
        self.e = e
        self.j = Tables(e, job)
        self.table = table

    def layers(self, axis: int) -> Value:
        """Ghost layers along an axis; fields need one."""
        width = self.j[Job.WIDTHS + axis]
        return self.e.select(self.table.equals(int(Table.FIELDS)), self.e.least(width, self.e.integer(1)), width)

    def _place(self, axis: int, high: int, layer: Value) -> Value:
        return ((self.table * 3 + axis) * 2 + high) * LAYERS + layer

    def source(self, axis: int, high: int, layer: Value, extent: Value) -> Value:
        """The cell that a ghost is made from."""
        inside = self.e.scalar(self.e.pointer(self.j[Job.SOURCES], "q"), self._place(axis, high, layer))
        return extent - 1 - inside if high else inside

    def scale_and_offset(self, axis: int, high: int, layer: Value) -> tuple[Value, Value]:
        """Where the numbers of a ghost lie."""
        place = self._place(axis, high, layer)
        scale, offset = (self.e.shift(self.e.pointer(self.j[which]), place) for which in (Job.SCALES, Job.OFFSETS))
        return scale, offset


def _ghost(extent: Value, high: int, layer: Value) -> Value:
    return extent + layer if high else layer * -1 - 1


def _emit_column_ghosts(e: Emitter, kind: str, affine: bool) -> None:
    """Define ``column_ghosts(job, item, start, p0, p1, j0, j1, walls, table)``: ghosts at the ends of rows."""
    with e.function(f"column_ghosts_{SUFFIX[kind]}", f"qq{kind}iiiiii") as arguments:
        job, item, start, p0, p1, j0, j1, walls, table = arguments
        j, i, rules = Tables(e, job), Tables(e, item), _Rules(e, job, table)
        pitch, plane_pitch, n = j[Job.PITCH], j[Job.PLANE_PITCH], i[Item.CELLS]
        for high in (0, 1):
            with e.when((walls & (Wall.LOW_CELL << high)) > 0), e.loop(0, rules.layers(2)) as m:
                source, ghost = rules.source(2, high, m, n), _ghost(n, high, m)
                numbers = [e.scalar(p) for p in rules.scale_and_offset(2, high, m)] if affine else []
                with e.loop(p0, p1) as p, e.loop(j0, j1) as row:
                    line = e.shift(start, p * plane_pitch + row * pitch)
                    value = e.scalar(line, source)
                    e.put(line, ghost, value * numbers[0] + numbers[1] if affine else value)


def _emit_row_ghosts(e: Emitter) -> None:
    """Define ``row_ghosts_numbers``: whole rows of ghosts beyond the walls of rows and planes."""

    def copy(target: Value, source: Value, n: Value, numbers: list[Value]) -> None:
        with e.loop(0, n, e.lanes) as k:
            e.store(target, k, e.load(source, k) * numbers[0] + numbers[1])

    def read(rules: _Rules, axis: int, high: int, m: Value) -> list[Value]:
        return [e.everywhere(p, 0) for p in rules.scale_and_offset(axis, high, m)]

    _emit_rows_beyond(e, "f", copy, read)


def _emit_byte_row_ghosts(e: Emitter) -> None:
    """Define ``row_ghosts_bytes``."""

    def copy(target: Value, source: Value, n: Value, numbers: list[Value]) -> None:
        e.copy(target, source, n)

    _emit_rows_beyond(e, "b", copy, lambda rules, axis, high, m: [])


def _emit_rows_beyond(
    e: Emitter,
    kind: str,
    copy: Callable[[Value, Value, Value, list[Value]], None],
    read: Callable[[_Rules, int, int, Value], list[Value]],
) -> None:
    """Define ``row_ghosts(job, item, start, p0, p1, j0, j1, flags, table)``: what the rows of a block feed.

    Ghosts beyond a wall depend on rows near it only; flags say when the last of these is there.
    """
    with e.function(f"row_ghosts_{SUFFIX[kind]}", f"qq{kind}iiiiii") as arguments:
        job, item, start, p0, p1, j0, j1, flags, table = arguments
        j, i, rules = Tables(e, job), Tables(e, item), _Rules(e, job, table)
        pitch, plane_pitch = j[Job.PITCH], j[Job.PLANE_PITCH]
        for axis, distance, extent, flag in (
            (1, pitch, i[Item.ROWS], Flag.LOW_ROW),
            (0, plane_pitch, i[Item.PLANES], Flag.LOW_PLANE),
        ):
            first, last, other = (p0, p1, plane_pitch) if axis else (j0, j1, pitch)
            for high in (0, 1):
                with e.when((flags & (flag << high)) > 0), e.loop(0, rules.layers(axis)) as m:
                    source, ghost = rules.source(axis, high, m, extent), _ghost(extent, high, m)
                    numbers = read(rules, axis, high, m)
                    with e.loop(first, last) as k:
                        line = e.shift(start, k * other)
                        target, origin = e.shift(line, ghost * distance), e.shift(line, source * distance)
                        copy(target, origin, i[Item.CELLS], numbers)


def _emit_hold(e: Emitter) -> None:
    """Define ``hold(job, item, record, plane, source, target, pitch)``: held cells get their value back.

    The source has it too: of a stage that is not a step's first, held cells are those of the stage before.
    """
    with e.function("hold", "qqqiffi") as (job, item, record, p, s, to, out_pitch):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        pitch, held = j[Job.PITCH], j[Job.HELD]
        flags = r[Record.FLAGS]
        n, count = r[Record.I1] - r[Record.I0], r[Record.J1] - r[Record.J0]

        def is_held(axis: int, side: int, bits: Value, bit: int) -> Value:
            return ((held & (1 << 2 * axis + side)) > 0) & ((bits & bit) > 0)

        def copy(k: Value) -> None:
            target, source = e.shift(to, k * out_pitch), e.shift(s, k * pitch)
            e.copy(e.bytes_at(target), e.bytes_at(source), n * e.bytes)

        for side in (0, 1):
            plane, row, column = (extent - 1 if side else e.integer(0) for extent in (i[Item.PLANES], count, n))
            on_plane = is_held(0, side, flags, Flag.HELD_LOW_PLANE << side) & p.equals(plane)
            with e.when(on_plane), e.loop(0, count) as k:
                copy(k)
            with e.when(is_held(1, side, flags, Flag.HELD_LOW_ROW << side)):
                copy(row)
            with e.when(is_held(2, side, i[Item.WALLS], Wall.LOW_CELL << side)), e.loop(0, count) as k:
                e.put(e.shift(to, k * out_pitch), column, e.scalar(e.shift(s, k * pitch), column))
