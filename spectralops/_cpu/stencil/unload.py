"""The code of the way from interleaved rows of scratch memory to the result, and of what a mask puts back there."""

from __future__ import annotations

from functools import partial

from spectralops._cpu.stencil.blocks import in_order, units_of
from spectralops._cpu.stencil.emit import Emitter, Tables, Value
from spectralops._cpu.stencil.faces import first_kept
from spectralops._cpu.stencil.layout import Array, Job, Record
from spectralops._cpu.stencil.openings import Openings

__all__ = ["emit_unload"]


def emit_unload(e: Emitter) -> None:
    """Define ``unload(job, item, record, plane, mask, place, source, target)``: rows of a plane in order.

    The target gets cells outside the mask as the array has them. Rows in scratch memory are not looked at any more.
    """
    with e.function("unload", "qqqififf") as (job, item, record, p, field, place, source, target):
        j, i, r = Tables(e, job), Tables(e, item), Tables(e, record)
        a, openings = Tables(e, e.pointer(j[Job.ARRAYS], "q")), Openings(e, field, j[Job.SIZE])
        step, kept = a[Array.CELL], first_kept(e, j, i, r, p)
        first, n = units_of(e, r)
        # Cells of the first unit that do not belong to the result, and the end of those that do.
        skipped, last = r[Record.I0] - first, r[Record.I1] - first
        restored, side_by_side = j[Job.RESTORED] > 0, step.equals(e.bytes)
        whole = (1 << e.unit) - 1 if e.unit < 64 else -1
        with e.loop(0, r[Record.J1] - r[Record.J0]) as row, e.loop(0, n, e.unit) as block:
            unit, to = row * j[Job.PITCH] + block, e.shift(target, row * j[Job.CELLS] - skipped + block)
            line = kept + row * a[Array.ROW] + (block - skipped) * step
            begin, end = e.select(skipped > block, skipped - block, 0), e.least(last - block, e.integer(e.unit))
            of_unit = e.shift(source, unit)
            vectors = in_order(e, [e.load(of_unit, k * e.lanes) for k in range(e.vectors)])
            full = (end - begin).equals(e.unit)

            def stored(pointer: Value, vectors: list[Value] = vectors) -> None:
                for k, vector in enumerate(vectors):
                    e.store(pointer, k * e.lanes, vector)

            def part(of_unit: Value = of_unit, to: Value = to, begin: Value = begin, end: Value = end) -> None:
                stored(of_unit)
                source, target = (e.bytes_at(e.shift(pointer, begin)) for pointer in (of_unit, to))
                e.copy(target, source, (end - begin) * e.bytes)

            def plain(full: Value = full, to: Value = to) -> None:
                e.either(full, partial(stored, to), part)

            def mixed(inside: Value, line: Value = line, to: Value = to, vectors: list[Value] = vectors) -> None:
                for k, vector in enumerate(vectors):
                    old = e.load(e.pointer(line), k * e.lanes)
                    chosen = e.chosen(e.lanes_of(inside.lowered(k * e.lanes)), vector, old)
                    e.store(to, k * e.lanes, chosen)

            def one_by_one(
                inside: Value,
                line: Value = line,
                to: Value = to,
                of_unit: Value = of_unit,
                begin: Value = begin,
                end: Value = end,
            ) -> None:
                stored(of_unit)
                several = e.select(side_by_side, end - (e.lanes - 1), begin)
                with e.loop(begin, several, e.lanes) as k:
                    signs = e.lanes_of(inside.lowered(k))
                    e.store(to, k, e.chosen(signs, e.load(of_unit, k), e.load(e.pointer(line), k)))
                with e.loop(e.after, end) as k:
                    value, old = e.scalar(of_unit, k), e.scalar(e.pointer(line + k * step))
                    e.put(to, k, e.select((inside.lowered(k) & 1) > 0, value, old))

            def masked(unit: Value = unit, full: Value = full) -> None:
                inside = openings.inside(place + unit)

                def coast() -> None:
                    e.either(full & side_by_side, partial(mixed, inside), partial(one_by_one, inside))

                e.either(inside.equals(whole), plain, coast)

            e.either(restored, masked, plain)
