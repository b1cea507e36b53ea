"""One step of a tracer on rows of cells: sweeps, compiled where they can be, and implicit diffusion."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops._compiler import unavailable
from spectralops.errors import UnsupportedError
from spectralops.xarray._cells import Band, Rows
from spectralops.xarray._kernels import device_array
from spectralops.xarray._sweeps import Sweeps, part
from spectralops.xarray._tridiagonal import Cyclic, Tridiagonal
from spectralops.xarray._winds import Fluxes, Winds, at_poles

__all__ = ["OP", "Motion", "Spread"]

OP = "advect_diffuse"


class Compiled:
    """The sweeps of :class:`Sweeps` by kernels, field by field."""

    def __init__(self, plain: Sweeps, like: Any) -> None:
        from spectralops._cpu import transport

        self.like = np.dtype(like.dtype)
        openings = [np.asarray(each).reshape(-1, *each.shape[-2:]) for each in plain.openings]
        count = max(len(each) for each in openings)
        self.fields = [
            transport.Sweeps(
                plain, self.like.name, like.shape[-2:], tuple(each[min(k, len(each) - 1)] for each in openings)
            )
            for k in range(count)
        ]

    def rows(self, q: Any, mass: Any, flux: Any) -> tuple[Any, Any]:
        return self._each("rows", q, mass, flux)

    def columns(self, q: Any, mass: Any, flux: Any) -> tuple[Any, Any]:
        return self._each("columns", q, mass, flux)

    def _each(self, sweep: str, q: Any, mass: Any, flux: Any) -> tuple[Any, Any]:
        q = np.array(q, self.like, order="C")
        mass = np.array(np.broadcast_to(mass, q.shape), self.like, order="C")
        flux = np.ascontiguousarray(flux, self.like)
        for k in range(len(q)):
            fields = self.fields[min(k, len(self.fields) - 1)]
            getattr(fields, sweep)(q[k], mass[k], flux[min(k, len(flux) - 1)])
        return q, mass


def _sweeps(plain: Sweeps, like: Any) -> Any:
    return Compiled(plain, like) if isinstance(like, np.ndarray) and not unavailable() else plain


class Motion:
    """A step of means by fluxes: half a sweep along rows, one across, half along, of second order in time."""

    def __init__(self, rows: Rows | Band, winds: Winds, limiter: int, flux: bool, like: Any) -> None:
        xp = compat.array_namespace(like)
        along, across = winds.open_parts(like)
        self.flux, self.turns = flux, rows.wraps[0]
        self.area = device_array(rows.areas()[:, None], like) + xp.zeros_like(like[:1, ...])
        if winds.sea is None:
            along = along[:, :1, :]
        if self.turns:
            turned = xp.roll(xp.permute_dims(across, (0, 2, 1)), -1, axis=-1)
            turned = turned[:, :1, :] if winds.sea is None else turned
            other = Sweeps(limiter, True, False, False, (turned, turned), None)
            self.across = _sweeps(other, xp.permute_dims(like, (0, 2, 1)))
            wall = xp.zeros_like(across[:, :1, :])
            across = xp.concat([wall, wall, across[:, 1:, :], wall, wall], axis=-2)
        elif rows.over and winds.sea is None:
            across = across[:, 1:2, :]
        else:
            low, high = (_beyond(rows, winds.sea, across, xp, end) for end in (0, -1))
            across = xp.concat([*low[::-1], across[:, 1:-1, :], *high], axis=-2)
        weights = device_array(rows.weights(), like)
        self.along = _sweeps(Sweeps(limiter, rows.wraps[1], rows.over, rows.caps, (along, across), weights), like)

    def __call__(self, q: Any, fluxes: Fluxes) -> Any:
        mean, mass = self.along.rows(q, self.area, fluxes.along)
        if self.turns:
            xp = compat.array_namespace(q)
            flux = xp.roll(xp.permute_dims(fluxes.across, (0, 2, 1)), -1, axis=-1)
            turned = self.across.rows(*(xp.permute_dims(each, (0, 2, 1)) for each in (mean, mass)), flux)
            mean, mass = (xp.permute_dims(each, (0, 2, 1)) for each in turned)
        else:
            mean, mass = self.along.columns(mean, mass, fluxes.across)
        mean, mass = self.along.rows(mean, mass, fluxes.along)
        return mean * (mass / self.area) if self.flux else mean


def _beyond(rows: Rows | Band, sea: Any, across: Any, xp: Any, end: int) -> list[Any]:
    """Openings of the face at an end of the columns and of the next one beyond: over a pole those on its other side."""
    if not rows.over:
        return [xp.zeros_like(across[:, :1, :])] * 2
    faces = across if end == 0 else xp.flip(across, axis=-2)
    first, second = (xp.roll(faces[:, k : k + 1, :], rows.columns // 2, axis=-1) for k in (1, 2))
    if rows.caps:
        return [first, second]
    row = xp.astype(sea[:, :1, :] if end == 0 else sea[:, -1:, :], across.dtype)
    return [row * xp.roll(row, rows.columns // 2, axis=-1), first]


class Spread:
    """Diffusion over one step, implicit along rows and then across them: backward Euler, of first order in the step.

    No cell is too small for it, and no value leaves the bounds of its neighbours.
    """

    def __init__(self, rows: Rows, winds: Winds, amount: float, like: Any) -> None:
        xp = compat.array_namespace(like)
        self.rows = rows
        across, along = rows.distances()
        opens = winds.open_parts(like)
        if opens[0].shape[0] > 1:
            raise UnsupportedError(
                f"{OP}: land differs among fields, but must be the same for all with diffusivity; pass it as one mask"
            )
        lengths = amount * rows.heights() / along / rows.areas()
        if rows.caps:
            lengths[[0, -1]] = 0.0
        # Along rows, columns become the axis before the last.
        right = xp.permute_dims(opens[0][0, ...] * device_array(lengths[:, None], like), (1, 0))
        left = xp.roll(right, 1, axis=0)
        self.along = (Cyclic if rows.wraps[1] else Tridiagonal)(-left, 1 + left + right, -right)
        ends = amount * rows.widths()[:1] / across[:1] if rows.wraps[0] else np.zeros(1)
        lengths = np.concatenate([ends, amount * rows.widths()[1:-1] / across, ends])
        area = device_array(rows.areas()[:, None], like)
        faces = opens[1][0, ...]
        if rows.wraps[0]:
            faces = xp.concat([faces, faces[:1, ...]], axis=0)
        faces = device_array(lengths[:, None], like) * faces
        below, above = part(faces, -2, 0, -1) / area, part(faces, -2, 1, None) / area
        self.across = (Cyclic if rows.wraps[0] else Tridiagonal)(-below, 1 + below + above, -above)

    def __call__(self, q: Any) -> Any:
        xp = compat.array_namespace(q)
        turned = self.along.solve(xp.permute_dims(q, (0, 2, 1)))
        return at_poles(self.across.solve(xp.permute_dims(turned, (0, 2, 1))), self.rows)
