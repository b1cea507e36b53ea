"""One explicit time step as operations that a library can differentiate, in the order of `_plans.schemes`.

Fused steps have no derivative with respect to their coefficients; gradients replay the steps here, in PyTorch or JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from spectralops._plans.schemes import WIDTH, Transport, Weight
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Field

__all__ = ["Library", "Stage", "advance"]

# Faces on either side of a face that its correction looks at.
REACH = {scheme: layers - 1 for scheme, layers in WIDTH.items()}


class Library(Protocol):
    """What is needed of the library that differentiates."""

    def concat(self, parts: Sequence[Any], axis: int) -> Any:
        """Arrays one after the other."""
        ...

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """Elements of a or b, either of which may be a number."""
        ...

    def cast(self, x: Any, dtype: str) -> Any:
        """The values in another dtype, float64 as far as the library has it."""
        ...

    def expand(self, x: Any, shape: tuple[int, ...]) -> Any:
        """The array broadcast to a shape."""
        ...

    def repeat(self, step: Callable[[Any], Any], v: Any, times: int) -> Any:
        """The result of so many steps from v."""
        ...


def advance(library: Library, plan: StepPlan, steps: int, u: Any, arrays: Sequence[Any]) -> Any:
    """The field after so many steps of the plan; `arrays` are its operands after u."""
    stage = Stage(library, plan, u, arrays)
    start = library.cast(u, plan.compute)
    v = start if stage.mask is None else library.where(stage.mask, start, 0)
    take = INTEGRATORS[plan.integrator]
    v = library.repeat(lambda v: take(stage, v), v, steps)
    if stage.mask is not None:
        v = library.where(stage.mask, v, start)
    return library.cast(v, plan.out_dtype)


class Stage:
    """What a step of one plan needs beside the field."""

    def __init__(self, library: Library, plan: StepPlan, u: Any, arrays: Sequence[Any]) -> None:
        geometry = plan.geometry
        self.library = library
        self.plan, self.update = plan, plan.update
        self.shape = geometry.shape
        self.dtype = plan.compute
        self.ghosts = dict(zip(geometry.axes, geometry.ghosts, strict=True))
        self.width = dict(zip(geometry.axes, geometry.widths, strict=True))
        self.held = dict(zip(geometry.axes, geometry.held, strict=True))
        self.arrays = (u, *arrays)
        self.mask: Any = None
        if geometry.mask is not None:
            self.mask = library.expand(self.arrays[geometry.mask], self.shape)

    # Views. Cells of an axis with n cells count from 0; ghosts are -1, -2, … and n, n + 1, ….

    def extended(self, v: Any, axis: int, width: int, values: bool = True) -> Any:
        """The field with ghost layers along one axis, or a mask with what the ghosts are made from."""
        if not width:
            return v
        n = self.shape[axis]
        low, high = self.ghosts[axis]
        parts = []
        for layer in reversed(range(width)):
            parts.append(_ghost(v, axis, _source(low[layer].source, layer, n), low[layer] if values else None))
        parts.append(v)
        for layer in range(width):
            place = n - 1 - _source(high[layer].source, layer, n)
            parts.append(_ghost(v, axis, place, high[layer] if values else None))
        return self.library.concat(parts, axis)

    def cells(self, wide: Any, axis: int, width: int, first: int, last: int) -> Any:
        """Cells first … n - 1 + last of a field with `width` ghosts."""
        return _part(wide, axis, width + first, self.shape[axis] + last - first)

    def difference(self, v: Any, axis: int, reach: int) -> Any:
        """Differences across the faces -reach … n + reach, 0 on closed ones."""
        wide = self.extended(v, axis, reach + 1)
        return self.open(_differences(wide, axis), axis, reach)

    def closed(self, axis: int, reach: int) -> Any:
        """Which of the faces -reach … n + reach are closed; None without a mask."""
        if self.mask is None:
            return None
        seen = self.extended(self.mask, axis, reach + 1, values=False)
        return ~(_part(seen, axis, 0, seen.shape[axis] - 1) & _part(seen, axis, 1, seen.shape[axis] - 1))

    def open(self, faces: Any, axis: int, reach: int = 0) -> Any:
        """Values on faces, 0 on closed ones."""
        closed = self.closed(axis, reach)
        return faces if closed is None else self.library.where(closed, 0, faces)

    # Coefficients.

    def weight(self, weight: Weight, plus: float = 0.0) -> Any:
        """A combined coefficient, formed in float64."""
        value: Any = weight.constant
        for operand, factor in weight.parts:
            value = value + factor * self.library.cast(self.arrays[operand], "float64")
        value = plus + value
        return self.library.cast(value, self.dtype) if weight.parts else value

    def array(self, field: Field) -> Any:
        """An array coefficient in the dtype of the arithmetic, 0 outside the mask.

        What it is there does not matter; were it NaN, so would be its product with a gradient of 0.
        """
        array = self.library.cast(self.arrays[field.operand], self.dtype)
        return array if self.mask is None else self.library.where(self.mask, array, 0)

    def on_faces(self, field: Field, axis: int, factor: float) -> Any:
        """(value below + value above) * factor on the faces; beyond the ends the edge value goes on."""
        array = self.array(field)
        array = array.reshape((1,) * (len(self.shape) - array.ndim) + tuple(array.shape))
        n = array.shape[axis]
        if n == 1:
            return (array + array) * factor
        ends = (n - 1, 0) if self.ghosts[axis][0][0].source == "wrap" else (0, n - 1)
        wide = self.library.concat([_part(array, axis, ends[0], 1), array, _part(array, axis, ends[1], 1)], axis)
        return (_part(wide, axis, 0, n + 1) + _part(wide, axis, 1, n + 1)) * factor

    # The stage itself.

    def run(self, v: Any, increment: bool = False) -> Any:
        """E(v), or only its increment."""
        update = self.update
        acc = v * 0.0 if increment else v
        if update.linear is not None:
            acc = v * self.weight(update.linear.center, 0.0 if increment else 1.0)
            for tap in update.linear.taps:
                width = max(map(abs, tap.offsets))
                wide = self.extended(v, tap.axis, width)
                sides = [self.cells(wide, tap.axis, width, k, k) for k in tap.offsets]
                acc = acc + (sides[0] + sides[1] if len(sides) == 2 else sides[0]) * self.weight(tap.weight)
        for part in update.diffusion:
            factor = part.factor if part.nu is None else self.on_faces(part.nu, part.axis, part.factor)
            acc = acc + _differences(self.difference(v, part.axis, 0) * factor, part.axis)
        for moved in update.transport:
            acc = acc - self.transport(moved, v)
        for rate, factor in update.sources:
            acc = acc + (rate * factor if isinstance(rate, float) else self.array(rate) * factor)
        for term in self.plan.functions:
            acc = acc + term.function(v) * update.dt
        return acc

    def restored(self, v: Any, before: Any) -> Any:
        """The field with what it had before the step where it is held or masked."""
        for axis, sides in self.held.items():
            n = self.shape[axis]
            for end, held in zip((0, n - 1), sides, strict=True):
                if held:
                    parts = [_part(v, axis, 0, end), _part(before, axis, end, 1), _part(v, axis, end + 1, n - end - 1)]
                    v = self.library.concat(parts, axis)
        return v if self.mask is None else self.library.where(self.mask, v, before)

    def transport(self, part: Transport, v: Any) -> Any:
        """What one transport subtracts."""
        if part.form == "flux":
            return _differences(self.open(self._flux(part, v), part.axis), part.axis)
        if isinstance(part.velocity, float):
            return self._slope(part, v, None) * part.factor
        velocity = v if part.velocity is None else self.array(part.velocity)
        return self._slope(part, v, velocity) * velocity * part.factor

    def _slope(self, part: Transport, v: Any, velocity: Any) -> Any:
        axis, n = part.axis, self.shape[part.axis]
        if part.scheme == "central":
            if not part.masked:
                wide = self.extended(v, axis, 1)
                return _part(wide, axis, 2, n) - _part(wide, axis, 0, n)
            difference = self.difference(v, axis, 0)
            return _part(difference, axis, 1, n) + _part(difference, axis, 0, n)
        if part.wind:
            return self._one_sided_slope(part, v, part.wind)
        forward, backward = (self._one_sided_slope(part, v, wind) for wind in (1, -1))
        assert velocity is not None
        return self.library.where(velocity >= 0, forward, backward)

    def _one_sided_slope(self, part: Transport, v: Any, wind: int) -> Any:
        axis, n, reach = part.axis, self.shape[part.axis], REACH[part.scheme]
        difference = self.difference(v, axis, reach)
        here = _part(difference, axis, reach, n + 1)
        low, high = _part(here, axis, 0, n), _part(here, axis, 1, n)
        if part.scheme == "upwind":
            return low if wind > 0 else high
        correction = self.open(self._correction(part.scheme, axis, difference, wind), axis)
        below, above = _part(correction, axis, 0, n), _part(correction, axis, 1, n)
        return above + (low - below) if wind > 0 else (high - above) + below

    def _flux(self, part: Transport, v: Any) -> Any:
        axis, n, factor = part.axis, self.shape[part.axis], part.factor
        velocity = self.on_faces(part.velocity, axis, factor) if isinstance(part.velocity, Field) else None
        if part.scheme == "central":
            wide = self.extended(v, axis, 1)
            if part.velocity is None:
                wide = wide * wide
            both = _part(wide, axis, 0, n + 1) + _part(wide, axis, 1, n + 1)
            return both * (factor if velocity is None else velocity)
        width = REACH[part.scheme] + 1
        wide = self.extended(v, axis, width)
        if part.wind:
            return self._face_value(part.scheme, axis, wide, part.wind) * factor
        if velocity is not None:
            forward, backward = (self._face_value(part.scheme, axis, wide, wind) for wind in (1, -1))
            return self.library.where(velocity >= 0, forward, backward) * velocity
        rising, falling = (
            self._face_value(part.scheme, axis, clipped * clipped, wind)
            for wind, clipped in (
                (1, self.library.where(wide >= 0, wide, 0)),
                (-1, self.library.where(wide <= 0, wide, 0)),
            )
        )
        return (rising + falling) * factor

    def _face_value(self, scheme: str, axis: int, wide: Any, wind: int) -> Any:
        """Value at the faces as their upwind side sees it, of a field with as many ghosts as the scheme reads."""
        reach = REACH[scheme]
        upwind = self.cells(wide, axis, reach + 1, *((-1, 0) if wind > 0 else (0, 1)))
        if scheme == "upwind":
            return upwind
        difference = self.open(_differences(wide, axis), axis, reach)
        return upwind + wind * self._correction(scheme, axis, difference, wind)

    def _correction(self, scheme: str, axis: int, difference: Any, wind: int) -> Any:
        """What a scheme adds to the upwind value at the faces 0 … n."""
        reach, n = REACH[scheme], self.shape[axis]

        def face(k: int) -> Any:
            """Differences at the k-th face downwind of each."""
            return _part(difference, axis, reach + wind * k, n + 1)

        if scheme == "upwind3":
            return (face(-1) + (face(0) + face(0))) * (1 / 6)
        a, b, c, e = (face(k) for k in (-2, -1, 0, 1))
        closed = self.closed(axis, 1)
        if closed is not None:  # behind a closed face
            a = self.library.where(_part(closed, axis, 1 - wind, n + 1), 0, a)
        return _weno5(a, b, c, e, float(np.finfo(self.dtype).tiny))


def _part(x: Any, axis: int, start: int, count: int) -> Any:
    """So many elements along an axis."""
    return x[(slice(None),) * axis + (slice(start, start + count),)]


def _differences(x: Any, axis: int) -> Any:
    """Differences of neighbours along an axis."""
    n = x.shape[axis] - 1
    return _part(x, axis, 1, n) - _part(x, axis, 0, n)


def _ghost(v: Any, axis: int, place: int, rule: Any) -> Any:
    value = _part(v, axis, place, 1)
    if rule is None or (rule.scale == 1.0 and rule.offset == 0.0):
        return value
    return value * rule.scale + rule.offset


def _source(kind: str, layer: int, n: int) -> int:
    """Cell that a ghost is made from, counted from the face that it lies beyond."""
    if kind == "wrap":
        return n - 1 - layer % max(n, 1)
    return layer if kind == "mirror" else 0


def _weno5(a: Any, b: Any, c: Any, e: Any, tiny: float) -> Any:
    """Nonlinear mean of the corrections of three parabolas through the differences a, b, c, e."""
    pairs = ((b - a, b * 3 - a), (c - b, c + b), (e - c, c * 3 - e))
    betas = [(second * second) * (13 / 12) + (first * first) * (1 / 4) for second, first in pairs]
    guard = (((a * a + b * b) + c * c) + e * e) * 1e-6 + tiny
    tau = abs(betas[0] - betas[2])
    shares = []
    for beta, share in zip(betas, (1 / 10, 6 / 10, 3 / 10), strict=True):
        q = tau / (beta + guard)
        shares.append((q * q + 1) * share)
    corrections = (b * 5 - (a + a), b + (c + c), c * 4 - e)
    total = (shares[0] + shares[1]) + shares[2]
    weighted = (shares[0] * corrections[0] + shares[1] * corrections[1]) + shares[2] * corrections[2]
    return weighted / (total * 6)


def _euler(stage: Stage, v: Any) -> Any:
    return stage.restored(stage.run(v), v)


def _rk2(stage: Stage, v: Any) -> Any:
    return stage.restored((v + stage.run(_euler(stage, v))) * 0.5, v)


def _ssprk3(stage: Stage, v: Any) -> Any:
    middle = stage.restored(v * (3 / 4) + stage.run(_euler(stage, v)) * (1 / 4), v)
    return stage.restored(v * (1 / 3) + stage.run(middle) * (2 / 3), v)


def _rk4(stage: Stage, v: Any) -> Any:
    total = slope = stage.run(v, increment=True)
    for reach, times in ((0.5, 2), (0.5, 2), (1.0, 1)):
        slope = stage.run(stage.restored(v + slope * reach, v), increment=True)
        total = total + slope * times
    return stage.restored(v + total * (1 / 6), v)


INTEGRATORS: dict[str, Callable[[Stage, Any], Any]] = {
    "euler": _euler, "rk2": _rk2, "ssprk3": _ssprk3, "rk4": _rk4
}  # fmt: skip
