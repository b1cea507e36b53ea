"""The code of ghosts beyond the walls of a tile, which are renewed from the cells that they are made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spectralops._cpu.stencil.blocks import place_of, units_of
from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.layout import LAYERS, Flag, Item, Job, Record, Table

__all__ = ["Rules", "affine", "emit_ghosts", "ghost_of"]


def emit_ghosts(e: Emitter) -> None:
    """Define ``column_ghosts`` and ``row_ghosts``."""
    _emit_column_ghosts(e)
    _emit_row_ghosts(e)


class Rules:
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


def ghost_of(extent: Value, high: int, layer: Value) -> Value:
    return extent + layer if high else layer * -1 - 1


def _emit_column_ghosts(e: Emitter) -> None:
    """Define ``column_ghosts(job, item, record, start, table)``: ghosts at the ends of rows."""
    with e.function("column_ghosts", "qqqfi") as (job, item, record, start, table):
        j, i, r, rules = Tables(e, job), Tables(e, item), Tables(e, record), Rules(e, job, table)
        p0, p1, j0, j1 = (r[place] for place in (Record.P0, Record.P1, Record.J0, Record.J1))
        pitch, plane_pitch, n = j[Job.PITCH], j[Job.PLANE_PITCH], i[Item.CELLS]
        for high in (0, 1):
            with e.when((r[Record.FLAGS] & (Flag.LOW_CELL << high)) > 0), e.loop(0, rules.layers(2)) as m:
                source, ghost = rules.source(2, high, m, n), ghost_of(n, high, m)
                scale, offset = (e.scalar(p) for p in rules.scale_and_offset(2, high, m))

                def fill(change: Callable[[Value], Value], source: Value = source, ghost: Value = ghost) -> None:
                    with e.loop(p0, p1) as p, e.loop(j0, j1) as row:
                        line = e.shift(start, p * plane_pitch + row * pitch)
                        e.put(line, place_of(e, ghost), change(e.scalar(line, place_of(e, source))))

                _emit_by_kind(e, table, fill, partial(affine, scale, offset))


def affine(scale: Value, offset: Value, value: Value) -> Value:
    return value * scale + offset


def _emit_by_kind(
    e: Emitter,
    table: Value,
    fill: Callable[[Callable[[Value], Value]], None],
    change: Callable[[Value], Value],
) -> None:
    """Ghosts of u by their rule; those of fields and masks are copies, the bits of masks being no numbers."""
    e.either(table.equals(int(Table.CELLS)), lambda: fill(change), lambda: fill(lambda value: value))


def _emit_row_ghosts(e: Emitter) -> None:
    """Define ``row_ghosts(job, item, record, start, table)``: what the rows of a block feed.

    Ghosts beyond a wall of rows or planes depend on rows near it only; flags say when the last of these is there.
    """
    with e.function("row_ghosts", "qqqfi") as (job, item, record, start, table):
        j, i, r, rules = Tables(e, job), Tables(e, item), Tables(e, record), Rules(e, job, table)
        p0, p1, j0, j1 = (r[place] for place in (Record.P0, Record.P1, Record.J0, Record.J1))
        pitch, plane_pitch = j[Job.PITCH], j[Job.PLANE_PITCH]
        begin, n = units_of(e, r)
        for axis, distance, extent, flag in (
            (1, pitch, i[Item.ROWS], Flag.LOW_ROW),
            (0, plane_pitch, i[Item.PLANES], Flag.LOW_PLANE),
        ):
            first, last, other = (p0, p1, plane_pitch) if axis else (j0, j1, pitch)
            for high in (0, 1):
                with e.when((r[Record.FLAGS] & (flag << high)) > 0), e.loop(0, rules.layers(axis)) as m:
                    places = (ghost_of(extent, high, m) * distance, rules.source(axis, high, m, extent) * distance)
                    scale, offset = (e.everywhere(p, 0) for p in rules.scale_and_offset(axis, high, m))

                    def fill(
                        change: Callable[[Value], Value],
                        bounds: tuple[Value, Value, Value] = (first, last, other),
                        places: tuple[Value, Value] = places,
                    ) -> None:
                        with e.loop(*bounds[:2]) as k:
                            target, source = (e.shift(start, k * bounds[2] + place) for place in places)
                            with e.loop(begin, begin + n, e.lanes) as cell:
                                e.store(target, cell, change(e.load(source, cell)))

                    _emit_by_kind(e, table, fill, partial(affine, scale, offset))
