"""One stage of a step at a few neighbouring rows of cells, in the order of operations of `_plans.schemes`.

The same Python serves every scheme and dimension: run over the values of :mod:`emit`, it emits the code of the inner
loop. Cells are named by their offsets (planes, rows, cells); the face above a cell along an axis by that cell. What
two neighbours share, such as the flux across the face between two rows, is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from spectralops._cpu.stencil.emit import Emitter, Value
from spectralops._cpu.stencil.program import GRID, ITSELF, NUMBER, Flux, Mean, Program, Transport

__all__ = ["Formula"]

Cell = tuple[int, int, int]
F = TypeVar("F", bound=Callable[..., Value])
# A field whose face values are asked for: u, or its positive or negative part squared, by its sign.
U = 0


def _next(cell: Cell, axis: int, count: int = 1) -> Cell:
    moved = list(cell)
    moved[axis] += count
    return moved[0], moved[1], moved[2]


def _once(method: F) -> F:
    """Remember what a method returned for the same arguments, within one block of code."""

    @wraps(method)
    def remembered(self: Formula, *arguments: Any) -> Value:
        key = (method.__name__, *arguments)
        if key not in self.known:
            self.known[key] = method(self, *arguments)
        return self.known[key]

    return cast(F, remembered)


class Formula:
    """Values of one stage, read by the functions that its maker passes.

    `number(slot)` is a coefficient; `cell(cell)` a value of u, `field(place, cell)` of a coefficient field,
    `bits(cell)` those of the mask and `opening(axis, bits)` signs of the open faces among them, `mean(mean, face)` what
    is made of a field, `rate(place, cell)` a pointwise term times dt, `zero` what flows through closed faces, of which
    there are none if `all_open`, `place(cell)` where a vector that is not beyond the ends of a block lies. `before` may
    hold what :meth:`carried` gave for the cells before these.
    """

    def __init__(
        self,
        emitter: Emitter,
        program: Program,
        number: Callable[[int], Value],
        cell: Callable[[Cell], Value],
        field: Callable[[int, Cell], Value],
        bits: Callable[[Cell], Value],
        opening: Callable[[int, Value], Value],
        mean: Callable[[Mean, Cell], Value],
        rate: Callable[[int, Cell], Value],
        zero: Value,
        place: Callable[[Cell], Value],
        all_open: bool = False,
    ) -> None:
        self.opening = opening
        self.zero = zero
        self.place = place
        self.all_open = all_open
        self.before: dict[Any, Value] = {}
        self.e = emitter
        self.program = program
        self.number = number
        self.read: dict[str, Callable[..., Value]] = {
            "u": cell,
            "field": field,
            "bits": bits,
            "mean": mean,
            "rate": rate,
        }
        self.known: dict[Any, Value] = {}
        self.tiny = float(np.finfo(program.dtype).tiny)

    @_once
    def u(self, cell: Cell) -> Value:
        return self.read["u"](cell)

    @_once
    def field(self, place: int, cell: Cell) -> Value:
        return self.read["field"](place, cell)

    @_once
    def bits(self, cell: Cell) -> Value:
        return self.read["bits"](cell)

    def stage(self, cell: Cell, increment: bool) -> Value:
        """E(u) of a cell, or the increment alone."""
        program = self.program
        if program.center is not None:
            value = self.number(program.center) * self.u(cell)
        else:
            value = self.e.constant(0.0) if increment else self.u(cell)
        for tap in program.taps:
            parts = [self.u(_next(cell, tap.axis, k)) for k in tap.offsets]
            value = value + self.number(tap.slot) * (parts[0] if len(parts) == 1 else parts[0] + parts[1])
        for part in program.fluxes:
            value = value + (self.diffusion(part, cell) - self.lower(part.axis, self.diffusion, part, cell))
        for one in program.transport:
            value = value - self.transport(one, cell)
        for source in program.added:
            rate = self.number(source.slot)
            value = value + (self.field(source.given, cell) * rate if source.given >= 0 else rate)
        for place in range(program.pointwise):
            value = value + self.read["rate"](place, cell)
        return value

    # Faces.

    def lower(self, axis: int, value_at: Callable[[Any, Cell], Value], part: Any, cell: Cell) -> Value:
        """What belongs to the face below a cell; along rows, what the face above the cell before it had."""
        key = (value_at.__name__, part, cell)
        if key in self.before:
            return self.e.begun(self.before[key], self.turned(value_at, part, cell))
        return value_at(part, _next(cell, axis, -1))

    def turned(self, value_at: Callable[[Any, Cell], Value], part: Any, cell: Cell) -> Value:
        """What belongs to faces above cells, at the next cells; the last one, for the next vector, is the first."""
        key = ("turned", value_at.__name__, part, cell)
        if key not in self.known:
            self.known[key] = self.e.turned(value_at(part, cell))
        return self.known[key]

    def carried(self, cell: Cell) -> list[tuple[Any, Callable[[], Value]]]:
        """What is worth keeping for the next cells of a row: keys, and values at the faces above cells, turned."""
        found: list[tuple[Callable[[Any, Cell], Value], Any]] = []
        for part in self.program.fluxes:
            if part.given >= 0 or self.program.masked:
                found.append((self.diffusion, part))
        for one in self.program.transport:
            if one.form == "flux" and (one.scheme != "central" or one.given >= 0 or self.program.masked):
                found.append((self.flux, one))
            elif one.form == "advective" and one.scheme in ("upwind3", "weno5"):
                found += [(self.forward_gain, one)] if one.wind >= 0 else []
                found += [(self.backward_gain, one)] if one.wind <= 0 else []
        return [((f.__name__, part, cell), partial(self.turned, f, part, cell)) for f, part in found if part.axis == 2]

    def opened(self, axis: int, face: Cell, value: Value) -> Value:
        """The value, or 0 where the face is closed."""
        # The face below the first cells belongs to those before them.
        if not self.program.masked or (self.all_open and face[2] >= 0):
            return value
        return self.e.chosen(self.opening(axis, self.bits(face)), value, self.zero)

    @_once
    def of(self, kind: int, cell: Cell) -> Value:
        """u, or the square of its positive (1) or negative (-1) part."""
        u = self.u(cell)
        if kind == U:
            return u
        zero = self.e.constant(0.0)
        clipped = self.e.select(u < zero if kind > 0 else u > zero, zero, u)
        return clipped * clipped

    @_once
    def difference(self, kind: int, axis: int, face: Cell) -> Value:
        above = self.of(kind, _next(face, axis))
        return self.opened(axis, face, above - self.of(kind, face))

    @_once
    def mean(self, part: Flux | Transport, face: Cell) -> Value:
        """Sum of a part's field on either side of a face, times a factor."""
        return self.read["mean"](Mean(part.given, part.axis, part.slot), face)

    @_once
    def diffusion(self, part: Flux, face: Cell) -> Value:
        """Diffusive flux across a face."""
        axis = part.axis
        conductance = self.mean(part, face) if part.given >= 0 else self.number(part.slot)
        flux = (self.of(U, _next(face, axis)) - self.of(U, face)) * conductance
        return self.opened(axis, face, flux)

    # Transport.

    def transport(self, one: Transport, cell: Cell) -> Value:
        """What one transport subtracts from a cell."""
        if one.form == "flux":
            return self.flux(one, cell) - self.lower(one.axis, self.flux, one, cell)
        if one.given == NUMBER:
            velocity = None
        elif one.given == ITSELF:
            velocity = self.u(cell)
        else:
            velocity = self.number(one.slot + 1) if one.given == GRID else self.field(one.given, cell)
        slope = self.slope(one, cell, velocity)
        if velocity is not None:
            slope = slope * velocity
        return slope * self.number(one.slot)

    def slope(self, one: Transport, cell: Cell, velocity: Value | None) -> Value:
        if one.scheme == "central":
            below = _next(cell, one.axis, -1)
            if not self.program.masked:
                return self.u(_next(cell, one.axis)) - self.u(below)
            return self.difference(U, one.axis, cell) + self.difference(U, one.axis, below)
        if velocity is None:
            return self.one_sided_slope(one, cell, one.wind)
        forward, backward = (self.one_sided_slope(one, cell, wind) for wind in (1, -1))
        return self.e.select(velocity >= self.e.constant(0.0), forward, backward)

    def one_sided_slope(self, one: Transport, cell: Cell, wind: int) -> Value:
        low, high = self.difference(U, one.axis, _next(cell, one.axis, -1)), self.difference(U, one.axis, cell)
        if one.scheme == "upwind":
            return low if wind > 0 else high
        gain = self.forward_gain if wind > 0 else self.backward_gain
        g_low, g_high = self.lower(one.axis, gain, one, cell), gain(one, cell)
        return g_high + (low - g_low) if wind > 0 else (high - g_high) + g_low

    @_once
    def forward_gain(self, one: Transport, face: Cell) -> Value:
        """The correction of the upwind value at a face, 0 where it is closed, of wind to higher indices."""
        return self.opened(one.axis, face, self.correction(one.scheme, U, one.axis, face, 1))

    @_once
    def backward_gain(self, one: Transport, face: Cell) -> Value:
        """The same of wind to lower indices."""
        return self.opened(one.axis, face, self.correction(one.scheme, U, one.axis, face, -1))

    @_once
    def flux(self, one: Transport, face: Cell) -> Value:
        """Advective flux across a face."""
        factor = self.number(one.slot)
        if one.given >= 0:
            factor = self.mean(one, face)
        elif one.given == GRID:
            factor = self.number(one.slot + 1)
        above = _next(face, one.axis)
        if one.scheme == "central":
            u, v = self.u(face), self.u(above)
            value = u * u + v * v if one.given == ITSELF else u + v
        elif one.given == ITSELF:
            value = self.face_value(one, 1, face, 1) + self.face_value(one, -1, face, -1)
        elif one.wind:
            value = self.face_value(one, U, face, one.wind)
        else:
            values = (self.face_value(one, U, face, wind) for wind in (1, -1))
            value = self.e.select(factor >= self.e.constant(0.0), *values)
        return self.opened(one.axis, face, value * factor)

    def face_value(self, one: Transport, kind: int, face: Cell, wind: int) -> Value:
        """The value at a face as its upwind side sees it."""
        upwind = self.of(kind, face if wind > 0 else _next(face, one.axis))
        if one.scheme == "upwind":
            return upwind
        correction = self.correction(one.scheme, kind, one.axis, face, wind)
        return upwind + correction if wind > 0 else upwind - correction

    @_once
    def correction(self, scheme: str, kind: int, axis: int, face: Cell, wind: int) -> Value:
        """What a scheme adds to the upwind value at a face."""
        b_face = _next(face, axis, -wind)
        b, c = self.difference(kind, axis, b_face), self.difference(kind, axis, face)
        if scheme == "upwind3":
            return (b + (c + c)) * self.e.constant(1 / 6)
        a = self.opened(axis, b_face, self.difference(kind, axis, _next(face, axis, -2 * wind)))
        return self.weno5(a, b, c, self.difference(kind, axis, _next(face, axis, wind)))

    def weno5(self, a: Value, b: Value, c: Value, e: Value) -> Value:
        """Nonlinear mean of the corrections of three parabolas through the differences a, b, c, e."""
        number = self.e.constant

        def indicator(second: Value, first: Value) -> Value:
            return (second * second) * number(13 / 12) + (first * first) * number(1 / 4)

        betas = (
            indicator(b - a, b * number(3) - a),
            indicator(c - b, c + b),
            indicator(e - c, c * number(3) - e),
        )
        guard = (((a * a + b * b) + c * c) + e * e) * number(1e-6) + number(self.tiny)
        tau = self.e.absolute(betas[0] - betas[2])
        weights = []
        for beta, share in zip(betas, (1 / 10, 6 / 10, 3 / 10), strict=True):
            ratio = tau / (beta + guard)
            weights.append((ratio * ratio + number(1)) * number(share))
        total = weights[0] * (b * number(5) - (a + a)) + weights[1] * (b + (c + c))
        total = total + weights[2] * (c * number(4) - e)
        return total / ((weights[0] + weights[1]) + weights[2]) * number(1 / 6)
