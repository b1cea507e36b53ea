"""Sweeps of tracer transport on arrays of any library: the formulas of the compiled ones, whole arrays at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _remap

__all__ = ["Sweeps"]

# Cells beyond each end that a sweep looks at.
GHOSTS = 3
UNIFORM = (1 / 12, 1 / 2, -1 / 12)


class Whole:
    """What the formulas need besides arithmetic, of whole arrays."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return self.xp.where(condition, a, b)

    def positive(self, a: Any) -> Any:
        return a >= 0

    def maximum(self, a: Any, b: Any) -> Any:
        return self.xp.where(b > a, b, a)

    def minimum(self, a: Any, b: Any) -> Any:
        return self.xp.where(b < a, b, a)


def part(x: Any, axis: int, start: int, stop: int | None) -> Any:
    """Some places along the last axis (-1) or the one before."""
    cut = slice(start, stop)
    return x[..., cut] if axis == -1 else x[..., cut, :]


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Sweeps of fields (fields, rows, columns) in one library.

    Attributes
    ----------
    limiter : int
        Its number in :data:`_remap.LIMITERS`.
    wraps : bool
        Whether rows go on at their other end.
    over, caps : bool
        Whether columns go on over the poles, and whether these are the first and the last row.
    openings : tuple of array
        (rows, columns) of the upper faces along rows, (rows + 3, columns) across them from the face below the first
        one; of one row where all are the same.
    weights : array
        Three for each face across rows.
    """

    limiter: int
    wraps: bool
    over: bool
    caps: bool
    openings: tuple[Any, Any]
    weights: Any

    def rows(self, q: Any, mass: Any, flux: Any) -> tuple[Any, Any]:
        """The means and masses after a sweep along rows; fluxes of the upper faces."""
        o, n = Whole(compat.array_namespace(q)), q.shape[-1]
        opens = self._padded(self.openings[0] + 0 * part(q, -1, 0, 1), 0.0)
        means, masses, fluxes = self._padded(q, 1.0), self._padded(mass, 1.0), self._padded(flux, 0.0)
        edges = _remap.edge([part(means, -1, k, n + 3 + k) for k in range(4)],
                           [part(opens, -1, k, n + 3 + k) for k in range(3)], UNIFORM)  # fmt: skip
        faces = _remap.passed(
            o,
            part(fluxes, -1, 2, n + 3),
            [part(means, -1, k, n + 1 + k) for k in (2, 3)],
            [part(masses, -1, k, n + 1 + k) for k in (2, 3)],
            [part(edges, -1, k, n + 1 + k) for k in range(3)],
            part(opens, -1, 1, n + 2),
            self._pairs(-1, [self._padded(each, 1.0) for each in self._bounds(o, -2, q)], 2, n + 1),
        )
        xp, wide = o.xp, (math.inf, -math.inf)
        here, there = part(fluxes, -1, 2, n + 3), part(masses, -1, 2, n + 4)
        walks = xp.any((here > part(there, -1, 0, n + 1)) | (-here > part(there, -1, 1, None)), axis=-1, keepdims=True)
        if bool(xp.any(walks)):
            far = self._walked(means, masses, fluxes, edges, opens, n)
            faces = tuple(xp.where(walks, a, b) for a, b in zip(far, faces, strict=True))
            wide = (
                xp.where(walks, xp.min(q, axis=-1, keepdims=True), math.inf),
                xp.where(walks, xp.max(q, axis=-1, keepdims=True), -math.inf),
            )
        around = [part(opens, -1, k, n + k) for k in (2, 3)]
        cells = self._cells(o, -1, q, mass, part(fluxes, -1, 2, n + 3), around, faces, wide)
        value, after = self._last(o, -1, cells, faces[3], self.wraps)
        if not self.caps:
            return value, after
        rows = xp.arange(q.shape[-2], device=compat.device(q))[:, None]
        inner = (rows > 0) & (rows < q.shape[-2] - 1)
        return xp.where(inner, value, q), xp.where(inner, after, mass)

    def _padded(self, x: Any, beyond: float) -> Any:
        """Rows between ghosts: round the circle, or `beyond` times their ends."""
        xp, n = compat.array_namespace(x), x.shape[-1]
        if self.wraps:
            places = np.arange(-GHOSTS, n + GHOSTS) % n
            return xp.take(x, xp.asarray(places, device=compat.device(x)), axis=-1)
        low, high = ([beyond * part(x, -1, k, k + 1 or None)] * GHOSTS for k in (0, -1))
        return xp.concat([*low, x, *high], axis=-1)

    def _walked(self, means: Any, masses: Any, fluxes: Any, edges: Any, opens: Any, n: int) -> tuple[Any, ...]:
        """What faces pass on if their fluxes may take whole cells."""
        xp = compat.array_namespace(means)
        shape = np.broadcast_shapes(means.shape, masses.shape, fluxes.shape, opens.shape)
        flux, means, masses, opens = (
            xp.broadcast_to(each, shape) for each in (fluxes, means, masses, opens)
        )  # fmt: skip
        flux = part(flux, -1, GHOSTS, n + GHOSTS)
        edges = xp.broadcast_to(edges, (*shape[:-1], edges.shape[-1]))

        def at(values: Any, places: Any, shift: int = 0) -> Any:
            return xp.take_along_axis(values, places + (GHOSTS + shift), axis=-1)

        def inside(places: Any) -> Any:
            return places % n if self.wraps else xp.clip(places, 0, n - 1)

        forward = ~(flux < 0)
        back = xp.astype(~forward, xp.int64)
        start = back + xp.arange(n, device=compat.device(means))
        k, rest, step = inside(start), xp.abs(flux), 2 * back - 1
        first, taken = at(means, k), xp.zeros_like(rest)
        for _ in range(n):
            mass = at(masses, k)
            whole = rest > mass
            if not bool(xp.any(whole)):
                break
            taken = taken + xp.where(whole, mass * (at(means, k) - first), 0.0)
            rest = xp.where(whole, rest - mass, rest)
            k = xp.where(whole, inside(k + step), k)
        own, size, share = at(means, k), xp.abs(flux), rest / at(masses, k)
        # Edges begin with the upper face of the second ghost.
        low, high = at(edges, k, -2), at(edges, k, -1)
        low = xp.where(at(opens, k, -1) < 0.5, own, low)
        other = xp.where(forward, at(means, k, 1), at(means, k, -1))
        mean = xp.where(forward, _remap.mean_ahead(low, high, own, share), _remap.mean_behind(low, high, own, share))
        more = rest * (mean - own)
        more = xp.where(forward, more, -more)
        donor = first + xp.where(size > 0, (taken + rest * (own - first)) / xp.where(size > 0, size, 1.0), 0.0)
        results = donor, xp.where(other < own, other, own), xp.where(other > own, other, own), more
        # The lower face of the first cell is the upper one of the last.
        return tuple(xp.concat([part(each, -1, -1, None), each], axis=-1) for each in results)

    def columns(self, q: Any, mass: Any, flux: Any) -> tuple[Any, Any]:
        """The means and masses after a sweep across rows; fluxes of all lower faces and of the upper end."""
        o, n = Whole(compat.array_namespace(q)), q.shape[-2]
        xp, opens = o.xp, self.openings[1] + 0 * part(q, -2, 0, 1)
        if self.openings[1].shape[-2] == 1:
            opens = xp.broadcast_to(opens, (*opens.shape[:-2], n + 3, opens.shape[-1]))
        means = self._beyond(q)
        weights = [self.weights[:, k : k + 1] for k in range(3)]
        edges = _remap.edge([part(means, -2, k, n + 1 + k) for k in range(4)],
                           [part(opens, -2, k, n + 1 + k) for k in range(3)], weights)  # fmt: skip
        fluxes, inner = flux, part(flux, -2, 1, n)
        faces = _remap.passed(
            o,
            inner,
            [part(q, -2, 0, n - 1), part(q, -2, 1, None)],
            [part(mass, -2, 0, n - 1), part(mass, -2, 1, None)],
            [part(edges, -2, k, n - 1 + k) for k in range(3)],
            part(opens, -2, 1, n),
            self._pairs(-2, self._bounds(o, -1, q), 0, n - 1),
        )
        anti = faces[3]
        if self.caps:
            rows = xp.arange(n - 1, device=compat.device(q))[:, None]
            given = ((rows == 0) & (inner > 0)) | ((rows == n - 2) & (inner < 0))
            anti = xp.where(given, 0.0, anti)
        ends = part(q, -2, 0, 1), part(q, -2, -1, None)
        shut = [*[ends] * 3, tuple(0.0 * end for end in ends)]
        faces = tuple(
            xp.concat([low, xp.broadcast_to(each, (*q.shape[:-2], n - 1, q.shape[-1])), high], axis=-2)
            for each, (low, high) in zip((*faces[:3], anti), shut, strict=True)
        )
        around = [part(opens, -2, 1, n + 1), part(opens, -2, 2, n + 2)]
        cells = self._cells(o, -2, q, mass, fluxes, around, faces, (math.inf, -math.inf))
        if not self.caps:
            return self._last(o, -2, cells, faces[3], False)
        bounds = []
        for row, face, sign in ((0, 1, 1.0), (n - 1, n - 1, -1.0)):
            cells, bound = self._cap(
                o, cells, row, [part(each, -2, face, face + 1) for each in (*faces, fluxes)], q, sign
            )
            bounds.append(bound)
        value, after = self._last(o, -2, cells, faces[3], False)
        poles = []
        for row, (low, high) in zip((0, n - 1), bounds, strict=True):
            mean = xp.mean(part(value, -2, row, row + 1), axis=-1, keepdims=True)
            poles.append(o.minimum(o.maximum(mean, low), high) if self.limiter else mean)
        same = xp.zeros_like(part(value, -2, 0, 1))
        return xp.concat([poles[0] + same, part(value, -2, 1, n - 1), poles[1] + same], axis=-2), after

    def _beyond(self, q: Any) -> Any:
        """Two rows beyond each end: across the pole, whose row is skipped, or the end itself."""
        xp, n, skip = compat.array_namespace(q), q.shape[-2], int(self.caps)
        if not self.over:
            low, high = part(q, -2, 0, 1), part(q, -2, -1, None)
            return xp.concat([low, low, q, high, high], axis=-2)
        turned = xp.roll(q, q.shape[-1] // 2, axis=-1)
        low, high = part(turned, -2, skip, skip + 2), part(turned, -2, n - 2 - skip, n - skip)
        return xp.concat([xp.flip(low, axis=-2), q, xp.flip(high, axis=-2)], axis=-2)

    def _bounds(self, o: Whole, axis: int, q: Any) -> tuple[Any, Any]:
        """The least and the greatest of each cell and its neighbours along an axis, where these matter."""
        if self.limiter < 2 or self.weights is None:
            return q, q
        xp, n = o.xp, q.shape[axis]
        if axis == -1:
            wide = self._padded(q, 1.0)
            sides = part(wide, -1, GHOSTS - 1, GHOSTS + n - 1), part(wide, -1, GHOSTS + 1, GHOSTS + n + 1)
            opens = self._padded(self.openings[0] + 0 * part(q, -1, 0, 1), 0.0)
            openings = part(opens, -1, GHOSTS - 1, GHOSTS + n - 1), part(opens, -1, GHOSTS, GHOSTS + n)
        else:
            wide = xp.concat([part(q, -2, 0, 1), q, part(q, -2, -1, None)], axis=-2)
            sides = part(wide, -2, 0, n), part(wide, -2, 2, n + 2)
            faces, same = self.openings[1], self.openings[1].shape[-2] == 1
            openings = (faces, faces) if same else (part(faces, -2, 1, n + 1), part(faces, -2, 2, n + 2))
        return _remap.around(o, q, sides, openings)

    def _pairs(self, axis: int, bounds: Any, first: int, count: int) -> list[list[Any]]:
        """Bounds of the cells on both sides of faces."""
        return [[part(each, axis, first + k, first + k + count) for k in (0, 1)] for each in bounds]

    def _cells(
        self, o: Whole, axis: int, q: Any, mass: Any, fluxes: Any, openings: Any, faces: Any, wide: Any
    ) -> tuple[Any, ...]:
        def both(values: Any) -> tuple[Any, Any]:
            return part(values, axis, 0, -1), part(values, axis, 1, None)

        name = "monotone" if self.limiter == 2 else "positive"
        return _remap.cell(
            o, name, q, mass, openings, both(fluxes), [both(each) for each in faces[:3]], both(faces[3]), wide
        )

    def _last(self, o: Whole, axis: int, cells: tuple[Any, ...], anti: Any, wraps: bool) -> tuple[Any, Any]:
        step, after, comes, goes, low, high = cells
        around = part(anti, axis, 0, -1), part(anti, axis, 1, None)
        if not self.limiter:
            return _remap.settled(step, after, around), after

        def three(values: Any) -> list[Any]:
            n = values.shape[axis]
            ends = (n - 1, 0) if wraps else (0, n - 1)
            below, above = (part(values, axis, k, k + 1) for k in ends)
            padded = o.xp.concat([below, values, above], axis=axis)
            return [part(padded, axis, k, n + k) for k in range(3)]

        return _remap.limited(o, step, after, around, three(comes), three(goes), (low, high)), after

    def _cap(
        self, o: Whole, cells: tuple[Any, ...], row: int, face: list[Any], q: Any, sign: float
    ) -> tuple[tuple[Any, ...], tuple[Any, Any]]:
        """A pole is one cell: the step and the bounds of the sum of its sectors, and those of its mean."""
        xp, n = o.xp, q.shape[-1]
        donor, least, most, anti, flux = face

        def total(values: Any) -> Any:
            return xp.sum(values, axis=-1, keepdims=True)

        own = part(part(q, -2, row, row + 1), -1, 0, 1)
        after, moved = total(part(cells[1], -2, row, row + 1)), total(sign * (flux * (donor - own)))
        low = o.minimum(own, xp.min(least, axis=-1, keepdims=True))
        high = o.maximum(own, xp.max(most, axis=-1, keepdims=True))
        step = o.minimum(o.maximum(own - moved / after, low), high)
        if self.limiter < 2:
            low, high = o.minimum(step, 0.0 * step), 0.0 * step + math.inf
        zero = 0.0 * anti
        comes, goes = total(o.maximum(-sign * anti, zero)), total(o.maximum(sign * anti, zero))
        new = (
            step,
            after / n,
            _fits((high - step) * after, comes, xp),
            _fits((step - low) * after, goes, xp),
            # Sectors may leave the bounds, their mean must not.
            0.0 * step - math.inf,
            0.0 * step + math.inf,
        )
        places = xp.arange(q.shape[-2], device=compat.device(q))[:, None] == row
        return tuple(xp.where(places, a, b) for a, b in zip(new, cells, strict=True)), (low, high)


def _fits(room: Any, amount: Any, xp: Any) -> Any:
    """How much of the amount fits into the room, at most all."""
    more = amount > room
    return xp.where(more, room / xp.where(more, amount, 1.0), 1.0)
