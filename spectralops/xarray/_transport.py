"""A tracer's transport as a function of arrays: the steps, their limits, land, winds that change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops._remap import LIMITERS
from spectralops.errors import StabilityError
from spectralops.xarray._cells import Band, Rows
from spectralops.xarray._kernels import beside, device_array, present, stored, working
from spectralops.xarray._motion import OP, Motion, Spread
from spectralops.xarray._sweeps import part
from spectralops.xarray._winds import Fluxes, Winds, at_poles, laid

__all__ = ["Transport"]


@dataclass(frozen=True, slots=True)
class Transport:
    """Steps of a tracer's transport, as a function of the field, winds, and a mask and a source if there are any.

    Attributes
    ----------
    rows : Rows or Band
        The cells.
    dt : float
        Step [s].
    steps : int
        Number of steps.
    limiter : int
        Its number among the limiters.
    flux : bool
        Whether the field is a density, whose integral is kept; else it is a mixing ratio.
    nondivergent : bool
        Whether the divergence of the winds is taken away.
    diffusivity : float
        [m2 s-1].
    times : tuple of float
        Seconds from the beginning to each pair of winds; one 0.0 for steady ones.
    skipna, masked, forced : bool
        Whether NaN are land, and whether a mask and a source are among the arrays.
    first : int
        Number of steps that the field has already been through.
    """

    rows: Rows | Band
    dt: float
    steps: int
    limiter: int
    flux: bool
    nondivergent: bool
    diffusivity: float
    times: tuple[float, ...]
    skipna: bool
    masked: bool
    forced: bool
    first: int = 0

    @property
    def reach(self) -> int | None:
        """How many rows away a value matters within a step; None where that is all of them.

        Both sweeps along rows look at neighbours for bounds, the one across them four cells far: for the flux into the
        next cell, whose parabola begins with a cubic. Poisson's equation and implicit diffusion couple all rows, and on
        a plane that wraps across them a flux takes any number of cells.
        """
        if self.nondivergent or self.diffusivity or self.rows.wraps[0]:
            return None
        return 6 if self.limiter == LIMITERS.index("monotone") else 4

    @property
    def first_alone(self) -> bool:
        """Whether the result has the dtype of the first array whatever the others have."""
        return True

    def __call__(self, x: Any, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return self._moved(x, *arrays)

    def _moved(self, x: Any, *arrays: Any) -> Any:
        levels, xp = len(self.times), compat.array_namespace(x)
        sea = self._sea(x, arrays[2 * levels] if self.masked else None)
        work = working(x)
        winds = Winds(self.rows, sea, self.nondivergent, work.dtype)
        fluxes = [
            winds.fluxes(*pair) for pair in zip(arrays[0 : 2 * levels : 2], arrays[1 : 2 * levels : 2], strict=True)
        ]
        source = xp.astype(beside(self._laid(arrays[-1]), x), work.dtype, copy=False) if self.forced else None
        if source is not None and sea is not None:
            source = xp.where(sea, source, 0.0)
        for each in fluxes:
            self._check(each)
        q = self._laid(work)
        state = q if sea is None else xp.where(sea, q, 0.0)
        # After a step a pole has one value, of which a mean would change the last bit.
        state = state if self.first else at_poles(state, self.rows)
        motion = Motion(self.rows, winds, self.limiter, self.flux, q)
        spread = None
        if self.diffusivity:
            assert isinstance(self.rows, Rows)
            spread = Spread(self.rows, winds, self.diffusivity * self.dt, q)
        now: Fluxes | None = None
        for step in range(self.first, self.first + self.steps):
            if source is not None:
                state = state + 0.5 * self.dt * source
            if now is None or levels > 1:
                now = self._scaled(fluxes, (step + 0.5) * self.dt)
            state = motion(state, now)
            if spread is not None:
                state = spread(state)
            if source is not None:
                state = state + 0.5 * self.dt * source
        if sea is not None:
            state = xp.where(sea, state, q)
        return stored(self._back(state, x), x)

    def _scaled(self, fluxes: list[Fluxes], time: float) -> Fluxes:
        """The fluxes at a time, of half a step along rows and a whole one across."""
        place = int(np.clip(np.searchsorted(self.times, time) - 1, 0, max(0, len(self.times) - 2)))
        now = fluxes[place]
        if len(fluxes) > 1:
            first, second = self.times[place : place + 2]
            now = now.mixed(fluxes[place + 1], (time - first) / (second - first))
        return Fluxes(0.5 * self.dt * now.along, self.dt * now.across)

    def largest_dt(self, x: Any, *arrays: Any) -> float:
        """The largest stable step for all winds."""
        levels = len(self.times)
        sea = self._sea(x, arrays[2 * levels] if self.masked else None)
        winds = Winds(self.rows, sea, self.nondivergent, working(x).dtype)
        pairs = zip(arrays[0 : 2 * levels : 2], arrays[1 : 2 * levels : 2], strict=True)
        return min(self._bound(winds.fluxes(*pair)) for pair in pairs)

    def _bound(self, fluxes: Fluxes) -> float:
        out = fluxes.outflow(self.rows)
        if 0 in out.shape:
            return np.inf
        xp = compat.array_namespace(out)
        share = out / device_array(self.rows.areas()[:, None], out)
        fastest = float(xp.max(share[:, self.rows.true, :]))
        if np.isnan(fastest):
            raise ValueError(
                f"{OP}: winds have NaN at sea, but must have none; fill them, or name the land by mask or skipna"
            )
        return 1 / fastest if fastest > 0 else np.inf

    def _check(self, fluxes: Fluxes) -> None:
        bound = self._bound(fluxes)
        if self.dt > bound * (1 + 1e-12):
            raise StabilityError(
                f"{OP}: dt is {self.dt:.6g} s, but must be at most {bound:.6g} s, within which no wind empties a cell; "
                "leave dt out for a stable one",
                bound,
            )

    def _sea(self, x: Any, mask: Any) -> Any:
        """Where the tracer is, of (fields, rows, columns), or None where that is everywhere; poles are one cell.

        One field where all are the same.
        """
        xp = compat.array_namespace(x)
        sea: Any = None if mask is None else beside(self._laid(mask), x)
        if self.skipna:
            sea = present(self._laid(x), sea)
        if sea is None:
            return None
        if sea.shape[0] > 1 and bool(xp.all(sea == sea[:1, ...])):
            sea = sea[:1, ...]
        if not self.rows.caps:
            return sea
        low, high = (xp.all(part(sea, -2, k, k + 1 or None), axis=-1, keepdims=True) for k in (0, -1))
        whole = xp.ones_like(sea[..., :1, :])
        return xp.concat([low & whole, part(sea, -2, 1, -1), high & whole], axis=-2)

    def _laid(self, x: Any) -> Any:
        """An array as (fields, rows, columns)."""
        return laid(x, self.rows)

    def _back(self, q: Any, like: Any) -> Any:
        xp = compat.array_namespace(q)
        others = [n for n in range(like.ndim) if n not in (self.rows.y, self.rows.x)]
        order = [*others, self.rows.y, self.rows.x]
        q = xp.reshape(q, tuple(like.shape[n] for n in order))
        return xp.permute_dims(q, tuple(order.index(n) for n in range(like.ndim)))
