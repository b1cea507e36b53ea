"""Tracers carried by given winds, on the sphere and on planes, around land."""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

from spectralops import _arrays, _checks
from spectralops._remap import LIMITERS
from spectralops.errors import UnsupportedError
from spectralops.xarray._apply import applied, check_library, each_variable, regular, same_points
from spectralops.xarray._cells import Rows
from spectralops.xarray._grid import EARTH_RADIUS, Dims, Edges, GridLayout, grid_layout, kind_of
from spectralops.xarray._motion import OP
from spectralops.xarray._pint import in_units
from spectralops.xarray._transport import Transport
from spectralops.xarray._units import measured, product
from spectralops.xarray.diffusion import check_cells, sea_mask

__all__ = ["advect_diffuse"]

FORMS = ("flux", "advective")
# Of the largest stable step, where dt is not given.
SAFETY = 0.9


def advect_diffuse(
    x: Any,
    u: xr.DataArray,
    v: xr.DataArray,
    *,
    dt: Any = None,
    steps: int | None = None,
    duration: Any = None,
    diffusivity: Any = 0.0,
    source: Any = None,
    limiter: str = "monotone",
    form: str = "flux",
    nondivergent: bool = False,
    mask: Any = None,
    skipna: bool = False,
    start: Any = None,
    dims: Dims = None,
    edges: Edges = None,
    radius: float = EARTH_RADIUS,
) -> Any:
    r"""Carry a tracer with given winds and spread it by diffusion, by fluxes between cells: its integral is kept.

    .. math:: q_t + \frac{1}{R\cos\varphi}\left((u q)_\lambda + (v q \cos\varphi)_\varphi\right)
              = \nabla\cdot(\nu\nabla q) + s

    on latitudes and longitudes, even or not; :math:`q_t + (uq)_x + (vq)_y = \dots` on a plane. Longitude wraps if it is
    a full circle; nothing passes ends that do not wrap, coasts, or the poles themselves.

    Parameters
    ----------
    x : DataArray or Dataset
        The tracer.
    u, v : DataArray
        Winds [m s-1] towards the east and north, or rising x and y, at the same points; other dimensions of x may be
        missing. A time that x does not have makes them change: they are interpolated to the middle of each step.
    dt : str, float or timedelta, optional
        Step, ``"10 min"`` or seconds. Default: 0.9 of the largest stable one, for which eager winds are looked at.
    steps : int, optional
        Number of steps; 1 by default.
    duration : str, float or timedelta, optional
        Time to go in equal steps of at most `dt`, instead of `steps`.
    diffusivity : float or quantity
        :math:`\nu` [m2 s-1].
    source : DataArray or float, optional
        s, added to q_t [units of x per second].
    limiter : {"monotone", "positive", "none"}
        Whether no sweep may give a value beyond those of neighbours, or only none below zero, or anything goes: the
        less, the less is smoothed.
    form : {"flux", "advective"}
        x is a density, whose integral is kept; or a mixing ratio, :math:`q_t + v\cdot\nabla q`, of which constants
        stay. The two agree for winds without divergence.
    nondivergent : bool
        Take the gradient of a potential away from the winds, so that the fluxes through the faces of each cell add up
        to zero: then both hold. For longitudes all round, without land.
    mask : DataArray of bool, optional
        True where the tracer is; dimensions may be missing. Elsewhere values stay. One on the host, as coordinates are,
        is copied beside a field that is not.
    skipna : bool
        Take NaN for land.
    start : datetime, optional
        Time of x among the winds' times. Default: that of its scalar coordinate, which then moves on.
    dims : hashable or sequence of hashable, optional
        As for :func:`diffuse`.
    edges : str or mapping, optional
        As in :func:`grid_layout`; a ``"mirror"`` is a wall.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray or Dataset
        After all steps. Coordinates, order of dimensions, precision, name and attributes are those of x.

    Raises
    ------
    TypeError
        If arrays are not labelled or, but for the mask, of another library than x, x is complex, or the mask is not of
        bool.
    ValueError
        If grids or units differ, a Dask array is given without dt, the winds have NaN at sea or do not cover the time.
    StabilityError
        If dt lets the winds empty a cell; its `stable_dt` is the largest allowed. For Dask arrays, like NaN in winds,
        found by the block that has it, when it is computed.
    UnsupportedError
        If `nondivergent` meets land, walls in the east and west, or columns that wrap; if land differs among fields
        that diffuse.

    Notes
    -----
    A step is half a sweep along rows, one across them, half along, each of which carries the masses of air and of
    tracer together [1]_, [2]_: of second order in space and time, next to a pole, where directions turn within a step,
    of order 1.5. In a sweep, a parabola in each cell gives the flux [3]_, which is limited by flux correction [4]_.
    Along rows air may pass any number of cells [5]_, so that narrow cells near a pole set no limit; dt must only leave
    air in each cell: dt times (what leaves it across rows plus the net of what leaves it along them) is at most its
    area. Diffusion is implicit, first along and then across rows: of first order in dt, stable for all, within the
    bounds of the values. A row at a pole is one cell, which has one value.

    References
    ----------
    .. [1] R. C. Easter, Two modified versions of Bott's positive-definite numerical advection scheme, Mon. Wea. Rev.
       121 (1993) 297.
    .. [2] G. Strang, On the construction and comparison of difference schemes, SIAM J. Numer. Anal. 5 (1968) 506.
    .. [3] P. Colella, P. R. Woodward, The piecewise parabolic method (PPM), J. Comput. Phys. 54 (1984) 174.
    .. [4] S. T. Zalesak, Fully multidimensional flux-corrected transport algorithms, J. Comput. Phys. 31 (1979) 335.
    .. [5] S.-J. Lin, R. B. Rood, Multidimensional flux-form semi-Lagrangian transport schemes, Mon. Wea. Rev. 124
       (1996) 2046; W. C. Skamarock, Positive-definite and monotonic limiters for unrestricted-time-step transport
       schemes, Mon. Wea. Rev. 134 (2006) 2241.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> q = xr.DataArray(np.zeros((9, 16)), {"lat": np.linspace(-80, 80, 9), "lon": 22.5 * np.arange(16)})
    >>> q[4, 3] = 1.0
    >>> east = 40 * np.cos(np.deg2rad(q.lat)) + 0 * q
    >>> later = sx.advect_diffuse(q, east, 0 * q, duration="5 D")
    >>> float(later.min()), bool(np.isclose((later * sx.cell_area(q)).sum(), sx.cell_area(q)[4]))
    (0.0, True)
    >>> float(later[4].idxmax())
    225.0
    """
    number = LIMITERS.index(_checks.choice(OP, "limiter", limiter, LIMITERS))
    flux = _checks.choice(OP, "form", form, FORMS) == "flux"
    straight = _checks.flag(OP, "nondivergent", nondivergent)
    skip = _checks.flag(OP, "skipna", skipna)
    if steps is not None and duration is not None:
        raise TypeError(f"{OP}: steps is {steps} and duration is {_checks.shown(duration)}, but must not both be given")
    count = None if duration is not None else _checks.integer(OP, "steps", 1 if steps is None else steps, 0)
    length = None if duration is None else measured(OP, "duration", duration, "s")
    step = None if dt is None else measured(OP, "dt", dt, "s")
    if hasattr(diffusivity, "magnitude"):
        diffusivity = diffusivity.to("m**2/s").magnitude
    spread = _checks.nonnegative(OP, "diffusivity", diffusivity)

    u, v = (in_units(wind, "m/s") for wind in (u, v))

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, dims, edges=edges, radius=radius, op=OP)
        rows = _rows(layout)
        if _arrays.dtype_name(each.dtype).startswith("complex"):
            raise TypeError(f"{OP}: x has dtype {each.dtype}, but must be real")
        if straight:
            _check_free(rows, mask is not None or skip)
        time, winds, seconds, begin = _winds(each, u, v, start)
        arrays = [wind for pair in winds for wind in pair]
        if mask is not None:
            arrays.append(sea_mask(OP, each, mask))
        forcing = None if source is None else _source(each, source)
        options = (number, flux, straight, spread, seconds, skip, mask is not None, forcing is not None)
        length_of, steps_of = step, count
        if length_of is None:
            if any(array.chunks is not None for array in (each, *arrays)):
                raise ValueError(f"{OP}: dt is not given, but must be for Dask arrays, which are not looked at")
            probe = Transport(rows, 0.0, 0, *options)
            length_of = SAFETY * probe.largest_dt(each.data, *(array.data for array in arrays))
        if length is not None:
            steps_of = max(1, math.ceil(length / length_of - 1e-9))
            length_of = length / steps_of
        assert steps_of is not None
        if math.isinf(length_of):
            raise ValueError(f"{OP}: dt is not given, but must be where nothing moves; or give duration")
        elapsed = length_of * steps_of
        if time is not None and elapsed > seconds[-1] * (1 + 1e-9):
            raise ValueError(f"{OP}: winds end {seconds[-1]:.6g} s after the start, but must cover {elapsed:.6g} s")
        if forcing is not None:
            arrays.append(forcing)
        result = applied(OP, each, layout, Transport(rows, length_of, steps_of, *options), *arrays)
        if time is not None and time in result.coords:
            result = result.assign_coords({time: _later(each.coords[time], begin, elapsed)})
        return result

    return each_variable(OP, x, dims, one)


def _rows(layout: GridLayout) -> Rows:
    """The cells of a layout of two axes."""
    if layout.spherical:
        check_cells(OP, layout)
        y, x = sorted(layout.axes, key=lambda axis: axis.kind != "latitude")
    else:
        regular(OP, layout)
        if len(layout.axes) != 2:
            raise ValueError(f"{OP}: dims are {tuple(axis.dim for axis in layout.axes)}, but must be two")
        y, x = layout.axes
        if str(y.dim).lower() == "x":
            y, x = x, y
    for axis in (y, x):
        if axis.size < 3:
            raise ValueError(f"{OP}: {axis.dim!r} has {axis.size} points, but must have at least 3")
    return Rows(layout, y.number, x.number)


def _check_free(rows: Rows, land: bool) -> None:
    """Raise UnsupportedError unless the potential of the winds can be found."""
    turns, wraps = rows.wraps
    found = "land" if land else "columns that wrap" if turns else "" if wraps else "walls in the east and west"
    if found:
        raise UnsupportedError(
            f"{OP}: nondivergent is True with {found}, but must be False there; pass winds without divergence"
        )


def _winds(
    x: xr.DataArray, u: Any, v: Any, start: Any
) -> tuple[Hashable | None, list[tuple[xr.DataArray, xr.DataArray]], tuple[float, ...], Any]:
    """The winds' time if they change, pairs of winds, seconds from the start to each, and the start."""
    for name, wind in (("u", u), ("v", v)):
        if not isinstance(wind, xr.DataArray):
            raise TypeError(f"{OP}: {name} is a {type(wind).__name__}, but must be a DataArray")
        units = wind.attrs.get("units")
        if units is not None and product(units, 1, {}) != "m s-1":
            raise ValueError(f"{OP}: {name} has units {units!r}, but must have 'm s-1'; convert it")
    times = [dim for dim in u.dims if dim not in x.dims and dim in u.coords and kind_of(u, dim) == "time"]
    if not times:
        return None, [(_on_grid(x, u, "u"), _on_grid(x, v, "v"))], (0.0,), None
    (time,) = times
    if time not in v.dims or not same_points(u, v, time):
        raise ValueError(f"{OP}: v has other coordinates along {time!r}, but must be on the grid of u")
    if start is None:
        if time not in x.coords:
            raise ValueError(f"{OP}: start is not given and x has no {time!r}, but one must say when x is")
        start = x.coords[time].values[()]
    stamps = u.coords[time].values
    start = np.datetime64(start) if stamps.dtype.kind == "M" else start
    seconds = [_seconds(stamp - start) for stamp in stamps]
    if len(seconds) < 2 or np.any(np.diff(seconds) <= 0):
        raise ValueError(f"{OP}: winds have {len(seconds)} times, but must have at least two, rising")
    if seconds[0] > 0:
        raise ValueError(f"{OP}: winds begin {seconds[0]:.6g} s after the start, but must not be later")
    first = max(k for k, second in enumerate(seconds) if second <= 0)
    pairs = [
        (_on_grid(x, u.isel({time: k}), "u"), _on_grid(x, v.isel({time: k}), "v")) for k in range(first, len(seconds))
    ]
    return time, pairs, tuple(seconds[first:]), start


def _seconds(difference: Any) -> float:
    if isinstance(difference, np.timedelta64):
        return float(difference / np.timedelta64(1, "s"))
    return float(difference.total_seconds())


def _later(coordinate: xr.DataArray, begin: Any, elapsed: float) -> xr.DataArray:
    """A time, so many seconds later."""
    if isinstance(begin, np.datetime64):
        value: Any = begin.astype("datetime64[ns]") + np.timedelta64(round(elapsed * 1e9), "ns")
    else:
        value = begin + datetime.timedelta(seconds=elapsed)
    return xr.DataArray(value, attrs=coordinate.attrs)


def _on_grid(x: xr.DataArray, other: xr.DataArray, name: str) -> xr.DataArray:
    """An array at the points of x, in its shape."""
    for dim in other.dims:
        if dim not in x.dims:
            raise ValueError(
                f"{OP}: {name} has the dimension {dim!r}, but must have only those of x, {x.dims}; expand x"
            )
        if not same_points(x, other, dim):
            raise ValueError(f"{OP}: {name} has other coordinates along {dim!r}, but must be on the grid of x")
    check_library(OP, x, other, name)
    bare = other.drop_vars([each for each in other.coords if each not in other.dims])
    return bare.broadcast_like(x).transpose(*x.dims)


def _source(x: xr.DataArray, source: Any) -> xr.DataArray:
    if isinstance(source, xr.DataArray):
        return _on_grid(x, source, "source")
    return xr.DataArray(_checks.number(OP, "source", source)).broadcast_like(x)
