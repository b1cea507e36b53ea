"""From winds at points to fluxes of air through the faces between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops.xarray._cells import Band, Rows
from spectralops.xarray._kernels import device_array
from spectralops.xarray._sweeps import part
from spectralops.xarray._tridiagonal import Tridiagonal

__all__ = ["Fluxes", "Winds", "at_poles", "laid"]


@dataclass(frozen=True, slots=True)
class Fluxes:
    """Air that crosses faces in a second, positive towards the next cell, of (fields, rows, columns)."""

    along: Any
    across: Any

    def outflow(self, rows: Rows | Band) -> Any:
        """What leaves each cell: along rows the net of both faces, across them of each face."""
        xp = compat.array_namespace(self.along)
        net = self.along - xp.roll(self.along, 1, axis=-1)
        down, up = self.across, xp.roll(self.across, -1, axis=-2)
        if not rows.wraps[0]:
            down, up = part(down, -2, 0, -1), part(down, -2, 1, None)
        # NaN is in no comparison, and must not be lost.
        across = xp.where(up < 0, 0.0, up) + xp.where(down > 0, 0.0, -down)
        return xp.where(net < 0, 0.0, net) + at_poles(across, rows)

    def mixed(self, other: Fluxes, weight: float) -> Fluxes:
        """Between these and others, whose weight is given."""
        return Fluxes(
            *((1 - weight) * a + weight * b for a, b in ((self.along, other.along), (self.across, other.across)))
        )


def laid(x: Any, rows: Rows | Band) -> Any:
    """An array as (fields, rows, columns); one field where all are the same memory."""
    others = [n for n in range(x.ndim) if n not in (rows.y, rows.x)]
    if isinstance(x, np.ndarray) and others and all(x.strides[n] == 0 or x.shape[n] == 1 for n in others) and x.size:
        x = x[tuple(slice(0, 1) if n in others else slice(None) for n in range(x.ndim))]
    xp = compat.array_namespace(x)
    moved = xp.permute_dims(x, (*others, rows.y, rows.x))
    return xp.reshape(moved, (math.prod(moved.shape[:-2]), *moved.shape[-2:]))


def at_poles(q: Any, rows: Rows | Band) -> Any:
    """The same value all along a pole: the mean."""
    if not rows.caps:
        return q
    xp = compat.array_namespace(q)
    low, high = (part(q, -2, k, k + 1 or None) for k in (0, -1))
    same = [xp.zeros_like(end) + xp.mean(end, axis=-1, keepdims=True) for end in (low, high)]
    return xp.concat([same[0], part(q, -2, 1, -1), same[1]], axis=-2)


class Winds:
    """From winds at points to fluxes through the faces between them."""

    def __init__(self, rows: Rows | Band, sea: Any, nondivergent: bool, dtype: Any) -> None:
        self.rows, self.sea, self.nondivergent, self.dtype = rows, sea, nondivergent, dtype

    def openings(self) -> tuple[Any, Any]:
        """Of the upper faces along rows and the lower ones across, with both ends closed; True where open."""
        xp = compat.array_namespace(self.sea) if self.sea is not None else np
        sea = xp.ones((1, self.rows.rows, self.rows.columns), dtype=xp.bool) if self.sea is None else self.sea
        along = sea & xp.roll(sea, -1, axis=-1)
        if not self.rows.wraps[1]:
            along = xp.concat([part(along, -1, 0, -1), xp.zeros_like(part(along, -1, 0, 1))], axis=-1)
        across = sea & xp.roll(sea, 1, axis=-2)
        if not self.rows.wraps[0]:
            wall = xp.zeros_like(part(across, -2, 0, 1))
            across = xp.concat([wall, part(across, -2, 1, None), wall], axis=-2)
        return along, across

    def open_parts(self, like: Any) -> tuple[Any, Any]:
        """The openings as 1 and 0, beside an array and in its precision."""
        xp = compat.array_namespace(like)
        along, across = (
            device_array(np.asarray(each, np.float64), like) if self.sea is None else xp.astype(each, like.dtype)
            for each in self.openings()
        )
        return along, across

    def fluxes(self, u: Any, v: Any) -> Fluxes:
        xp = compat.array_namespace(u)
        u, v = (xp.astype(laid(each, self.rows), self.dtype, copy=False) for each in (u, v))
        sign_y, sign_x = self.rows.signs
        along_rows, widths = self.rows.passages()
        widths = sign_y * widths
        along = 0.5 * (u + xp.roll(u, -1, axis=-1)) * device_array(sign_x * along_rows[:, None], u)
        mean = 0.5 * (v + xp.roll(v, 1, axis=-2))
        if not self.rows.wraps[0]:
            mean = xp.concat([mean, part(mean, -2, 0, 1)], axis=-2)
        else:
            widths = widths[:-1]
        across = mean * device_array(widths[:, None], v)
        opens = [xp.asarray(each, device=compat.device(u)) for each in self.openings()]
        fluxes = Fluxes(*(xp.where(face, each, 0.0) for face, each in zip(opens, (along, across), strict=True)))
        if not self.nondivergent:
            return fluxes
        assert isinstance(self.rows, Rows)
        return Projection(self.rows).without_divergence(fluxes)


class Projection:
    """Takes the gradient away from fluxes whose divergence is that of the fluxes: what is left has none."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        across, along = rows.distances()
        self.along, self.across = rows.heights() / along, rows.widths()[1:-1] / across

    def without_divergence(self, fluxes: Fluxes) -> Fluxes:
        xp = compat.array_namespace(fluxes.along)
        n, m = self.rows.rows, self.rows.columns
        like = fluxes.along
        wide = xp.float64
        along, across = xp.astype(fluxes.along, wide), xp.astype(fluxes.across, wide)
        out = along - xp.roll(along, 1, axis=-1) + part(across, -2, 1, None) - part(across, -2, 0, -1)
        waves = 2 - 2 * np.cos(2 * np.pi * np.arange(m // 2 + 1) / m)
        lower, upper = (
            np.tile(np.append(*pair)[:, None], (1, waves.size)) for pair in ((0.0, self.across), (self.across, 0.0))
        )
        diagonal = -(lower + upper) - self.along[:, None] * waves
        if self.rows.caps:
            # A pole has one value: no waves.
            for row, inner in ((0, upper), (n - 1, lower)):
                inner[row, 1:], diagonal[row, 1:] = 0.0, 1.0
        # The mean wave is known but for a constant: it is 0 in the first row.
        upper[0, 0], diagonal[0, 0] = 0.0, 1.0
        spectrum = xp.fft.rfft(out, axis=-1)
        known = np.zeros((n, waves.size), bool)
        known[0, 0] = True
        if self.rows.caps:
            known[[0, -1], 1:] = True
        device = compat.device(like)
        spectrum = xp.where(xp.asarray(known, device=device), 0.0, spectrum)
        system = Tridiagonal(*(xp.asarray(each, device=device) for each in (lower, diagonal, upper)))
        potential = xp.fft.irfft(system.solve(spectrum), n=m, axis=-1)
        steps = device_array(self.along[:, None], potential), device_array(self.across[:, None], potential)
        along = along - steps[0] * (xp.roll(potential, -1, axis=-1) - potential)
        inner = part(across, -2, 1, -1) - steps[1] * (part(potential, -2, 1, None) - part(potential, -2, 0, -1))
        across = xp.concat([part(across, -2, 0, 1), inner, part(across, -2, -1, None)], axis=-2)
        if self.rows.caps:
            inside = xp.asarray((np.arange(n) % (n - 1) > 0)[:, None], device=device)
            along = xp.where(inside, along, 0.0)
        return Fluxes(xp.astype(along, like.dtype), xp.astype(across, like.dtype))
