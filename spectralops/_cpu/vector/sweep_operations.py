# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call"
"""The vector operations of the sweeps: :mod:`spectralops._remap` on rows of faces and cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from spectralops import _remap
from spectralops._cpu.vector.chebyshev import Run
from spectralops._cpu.vector.emit import Emitter, Value, vector_op

__all__ = ["KINDS", "around", "cells", "edges", "faces", "last"]

# What is kept per row: values at faces, donors, lesser and greater values, A; then of cells, step, mass, the parts
# that come and go, bounds.
EDGE, DONOR, LEAST, MOST, ANTI, STEP, AFTER, COMES, GOES, LOW, HIGH = range(11)
KINDS = 11


class Number(Value):
    """A vector whose operations round one by one."""

    __slots__ = ()

    def _apply(self, on_ints: str, on_floats: str, left: Any, right: Any) -> Number:
        return Number(self.builder, getattr(self.builder, on_floats)(left, right))

    def __rsub__(self, other: Any) -> Number:
        return self._apply("sub", "fsub", self._operand(other), self.ir)

    def __truediv__(self, other: Any) -> Number:
        return self._apply("sdiv", "fdiv", self.ir, self._operand(other))


class Lanes:
    """What the formulas need besides arithmetic, lane by lane."""

    def __init__(self, e: Emitter) -> None:
        self.e = e

    def number(self, value: Any) -> Any:
        """LLVM's vector of a value or of one number."""
        return value.ir if isinstance(value, Value) else ir.Constant(self.e.vector, [float(value)] * self.e.lanes)

    def where(self, condition: Any, a: Any, b: Any) -> Number:
        return Number(self.e.builder, self.e.builder.select(condition, self.number(a), self.number(b)))

    def positive(self, a: Any) -> Any:
        return self.e.builder.fcmp_ordered(">=", a.ir, self.number(0.0))

    def maximum(self, a: Any, b: Any) -> Number:
        return self.where(self.e.builder.fcmp_ordered(">", self.number(b), self.number(a)), b, a)

    def minimum(self, a: Any, b: Any) -> Number:
        return self.where(self.e.builder.fcmp_ordered("<", self.number(b), self.number(a)), b, a)


class Place:
    """Reads and writes at one place of rows."""

    def __init__(self, e: Emitter, run: Run) -> None:
        self.e, self.run, self.o = e, run, Lanes(e)
        self.start = e.constant(0)

    def get(self, pointer: Value) -> Number:
        return Number(self.e.builder, self.run.array(pointer, self.start).ir)

    def put(self, pointer: Value, value: Value) -> None:
        self.run.put(pointer, self.start, value)

    def kind(self, rows: Value, number: int, pitch: Value) -> Number:
        """One of the rows `pitch` apart."""
        return Number(self.e.builder, self.run.array(rows, pitch * number).ir)

    def keep(self, rows: Value, number: int, pitch: Value, value: Value) -> None:
        self.run.put(rows, pitch * number, value)


def _on_row(e: Emitter, n: Value, body: Callable[[Place], None]) -> None:
    """Code for all places of a row of n numbers."""
    whole = n // e.lanes * e.lanes
    with e.loop(0, whole, e.lanes) as place:
        body(Place(e, Run(e, place, None)))
    with e.loop(whole, n, e.lanes) as place:
        body(Place(e, Run(e, place, n - whole)))


@vector_op
def edges(
    e: Emitter, out: Value, before: Value, left: Value, right: Value, after: Value, open_before: Value,
    open_here: Value, open_after: Value, weights: Value, n: Value,
) -> None:  # fmt: skip
    """Values at n faces; pointers to the cells and openings around them."""
    factors = [Number(e.builder, e.broadcast(weights, k).ir) for k in range(3)]

    def body(p: Place) -> None:
        four = [p.get(pointer) for pointer in (before, left, right, after)]
        openings = [p.get(pointer) for pointer in (open_before, open_here, open_after)]
        p.put(out, _remap.edge(four, openings, factors))

    _on_row(e, n, body)


@vector_op
def around(
    e: Emitter,
    low: Value,
    high: Value,
    q: Value,
    before: Value,
    after: Value,
    open_before: Value,
    open_after: Value,
    n: Value,
) -> None:
    """Bounds of n cells: of their means and those on both sides."""

    def body(p: Place) -> None:
        openings = (p.get(open_before), p.get(open_after))
        values = _remap.around(p.o, p.get(q), (p.get(before), p.get(after)), openings)
        for pointer, value in zip((low, high), values, strict=True):
            p.put(pointer, value)

    _on_row(e, n, body)


@vector_op
def faces(
    e: Emitter,
    here: Value,
    pitch: Value,
    flux: Value,
    left: Value,
    right: Value,
    mass_left: Value,
    mass_right: Value,
    edge_before: Value,
    edge_here: Value,
    edge_after: Value,
    open_before: Value,
    low_left: Value,
    low_right: Value,
    high_left: Value,
    high_right: Value,
    n: Value,
) -> None:
    """What n faces pass on, of fluxes that stay within the next cell; `here` is where their kinds of rows begin."""

    def body(p: Place) -> None:
        pair, masses = (p.get(left), p.get(right)), (p.get(mass_left), p.get(mass_right))
        three = [p.get(pointer) for pointer in (edge_before, edge_here, edge_after)]
        bounds = (p.get(low_left), p.get(low_right)), (p.get(high_left), p.get(high_right))
        values = _remap.passed(p.o, p.get(flux), pair, masses, three, p.get(open_before), bounds)
        for kind, value in zip((DONOR, LEAST, MOST, ANTI), values, strict=True):
            p.keep(here, kind, pitch, value)

    _on_row(e, n, body)


@vector_op
def cells(
    e: Emitter, here: Value, lower: Value, upper: Value, pitch: Value, q: Value, mass: Value, flux_lower: Value,
    flux_upper: Value, open_lower: Value, open_upper: Value, wide: Value, limiter: Value, n: Value,
) -> None:  # fmt: skip
    """The donors' step of n cells; `here`, `lower` and `upper` are where the kinds of rows begin, `pitch` apart."""
    extremes = [Number(e.builder, e.broadcast(wide, k).ir) for k in range(2)]

    def body(p: Place, name: str) -> None:
        sides = [[p.kind(side, kind, pitch) for side in (lower, upper)] for kind in (DONOR, LEAST, MOST, ANTI)]
        openings, fluxes = (p.get(open_lower), p.get(open_upper)), (p.get(flux_lower), p.get(flux_upper))
        values = _remap.cell(p.o, name, p.get(q), p.get(mass), openings, fluxes, sides[:3], sides[3], extremes)
        for kind, value in zip((STEP, AFTER, COMES, GOES, LOW, HIGH), values, strict=True):
            p.keep(here, kind, pitch, value)

    e.choose(
        e.less(limiter, 2),
        lambda: _on_row(e, n, lambda p: body(p, "positive")),
        lambda: _on_row(e, n, lambda p: body(p, "monotone")),
    )


@vector_op
def last(
    e: Emitter, q: Value, mass: Value, here: Value, below: Value, above: Value, lower: Value, upper: Value,
    pitch: Value, limiter: Value, n: Value,
) -> None:  # fmt: skip
    """Write the new means and masses of n cells."""

    def body(p: Place, limits: bool) -> None:
        step, after = p.kind(here, STEP, pitch), p.kind(here, AFTER, pitch)
        anti = (p.kind(lower, ANTI, pitch), p.kind(upper, ANTI, pitch))
        if limits:
            comes, goes = ([p.kind(row, kind, pitch) for row in (below, here, above)] for kind in (COMES, GOES))
            bounds = (p.kind(here, LOW, pitch), p.kind(here, HIGH, pitch))
            p.put(q, _remap.limited(p.o, step, after, anti, comes, goes, bounds))
        else:
            p.put(q, _remap.settled(step, after, anti))
        p.put(mass, after)

    e.choose(
        e.less(limiter, 1),
        lambda: _on_row(e, n, lambda p: body(p, False)),
        lambda: _on_row(e, n, lambda p: body(p, True)),
    )
