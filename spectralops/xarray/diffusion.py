"""Smoothing by diffusion on the sphere: around land, and with the global integral kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np
import xarray as xr

from spectralops import _checks
from spectralops.boundary import Periodic, Reflect
from spectralops.filters import Metric, diffusion_filter, plan_diffusion_filter
from spectralops.xarray._apply import applied, each_variable, regular, same_points
from spectralops.xarray._cells import Rows
from spectralops.xarray._grid import EARTH_RADIUS, Axis, Dims, Edges, GridLayout, grid_layout
from spectralops.xarray._kernels import beside, device_array, present, stored, working
from spectralops.xarray._units import measured

__all__ = ["cell_area", "check_cells", "diffuse", "sea_mask"]


def diffuse(
    x: Any,
    sigma: Any = None,
    *,
    wavelength: Any = None,
    mask: Any = None,
    dims: Dims = None,
    edges: Edges = None,
    skipna: bool = False,
    polar_cap: float = 10.0,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Smooth by diffusion: fluxes between cells, none across coasts, so that the area integral is kept.

    The response is that of :func:`gaussian` with `sigma`, or removes what is shorter than `wavelength` with a smooth
    transition; see :func:`spectralops.diffusion_filter`, which runs it. On latitudes and longitudes, cells and faces
    are those of the sphere, also for uneven latitudes.

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    sigma : str, float or quantity
        Standard deviation of the Gaussian, as for :func:`gaussian`.
    wavelength : str, float or quantity
        Longest wavelength that is removed. Exactly one of the two is given.
    mask : DataArray of bool, optional
        True at sea; dimensions may be missing. Land neither gives nor takes, and keeps its values. A mask on the host,
        as coordinates are, is copied beside a field that is not.
    dims : hashable or sequence of hashable, optional
        As for :func:`lowpass`: latitude and longitude, or dimensions of a plane.
    edges : str or mapping, optional
        As in :func:`grid_layout`; ends that do not wrap are walls, and a pole has no face.
    skipna : bool
        Take NaN for land.
    polar_cap : float
        Within so many degrees of a pole, the zonal width shrinks with the cosine of latitude, since cells do: otherwise
        the narrowest would set the number of Laplacians. Of rows at a pole itself the mean is taken.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray or Dataset
        As of :func:`lowpass`. ``(x * cell_area(x)).sum()`` is the same as before, to rounding errors.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`; also if the mask is not of bool on the same grid, or latitude or longitude stands alone.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((9, 16)), {"lat": np.linspace(-80, 80, 9), "lon": 22.5 * np.arange(16)})
    >>> u[4, 3:5] = [1.0, np.nan]
    >>> y = sx.diffuse(u, "2000 km", skipna=True)
    >>> round(float(y[4, 3]), 1), bool(np.isclose((y * sx.cell_area(u)).sum(), sx.cell_area(u)[4]))
    (0.4, True)
    """
    op = "diffuse"
    if (sigma is None) == (wavelength is None):
        both = f"sigma is {_checks.shown(sigma)} and wavelength is {_checks.shown(wavelength)}"
        raise TypeError(f"{op}: {both}, but exactly one must be given")
    skipna = _checks.flag(op, "skipna", skipna)
    cap = _checks.positive(op, "polar_cap", polar_cap)
    if cap > 90:
        raise ValueError(f"{op}: polar_cap is {cap}, but must be at most 90 degrees")

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, dims, edges=edges, radius=radius, op=op)
        if layout.spherical:
            check_cells(op, layout)
        else:
            regular(op, layout)
        name, value = ("sigma", sigma) if wavelength is None else ("wavelength", wavelength)
        length = measured(op, name, value, layout.unit, radius if layout.spherical else None)
        # The variance of a box of this width.
        scale = length * math.sqrt(12) if wavelength is None else length
        kernel = Diffusion(layout, scale, "gaussian" if wavelength is None else "taper", skipna, cap)
        return applied(op, each, layout, kernel, *([] if mask is None else [sea_mask(op, each, mask)]))

    return each_variable(op, x, dims, one)


def cell_area(x: Any, *, radius: float = EARTH_RADIUS) -> xr.DataArray:
    """Area of the cells of a grid of latitudes and longitudes, whose faces lie halfway between the points.

    Parameters
    ----------
    x : DataArray
        Any field on the grid.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray
        Square metres along latitude. Cells at a pole end there; their sum over a globe is 4 pi R^2.

    Raises
    ------
    TypeError, ValueError
        As :func:`grid_layout`; also if there are no latitudes and longitudes.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((19, 36)), {"lat": np.linspace(-90, 90, 19), "lon": 10.0 * np.arange(36)})
    >>> bool(np.isclose(36 * sx.cell_area(u).sum(), 4 * np.pi * sx.EARTH_RADIUS**2))
    True
    """
    layout = grid_layout(x, radius=radius, op="cell_area")
    check_cells("cell_area", layout)
    (latitude,) = (axis.dim for axis in layout.axes if axis.kind == "latitude")
    attrs = {"units": "m2", "long_name": "cell area", "standard_name": "cell_area"}
    return xr.DataArray(_Cells.of(layout).areas, {latitude: x.coords[latitude]}, (latitude,), "cell_area", attrs)


def check_cells(op: str, layout: GridLayout) -> None:
    """Raise ValueError unless the axes are rows of cells on the sphere."""
    if sorted(axis.kind for axis in layout.axes) != ["latitude", "longitude"]:
        names = tuple(axis.dim for axis in layout.axes)
        raise ValueError(f"{op}: dims are {names}, but must be one of latitude and one of longitude")
    for axis in layout.axes:
        if axis.size < 2:
            raise ValueError(f"{op}: {axis.dim!r} has {axis.size} points, but must have at least 2")
        if axis.kind == "longitude" and not axis.regular:
            raise ValueError(f"{op}: {axis.dim!r} has uneven spacing, but must be regular")


def sea_mask(op: str, x: xr.DataArray, mask: Any) -> xr.DataArray:
    """The mask in the shape of the field."""
    if not isinstance(mask, xr.DataArray) or mask.dtype != bool:
        kind = mask.dtype if isinstance(mask, xr.DataArray) else f"a {type(mask).__name__}"
        raise TypeError(f"{op}: mask is {kind}, but must be a DataArray of bool")
    for dim in mask.dims:
        if dim not in x.dims or not same_points(x, mask, dim):
            raise ValueError(f"{op}: mask has other coordinates along {dim!r}, but must be on the grid of x")
    return mask.broadcast_like(x).transpose(*x.dims)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Rows of cells on the sphere, in the order in which they are stored; lower faces are those towards the first."""

    areas: np.ndarray[Any, Any]
    heights: np.ndarray[Any, Any]
    lower_widths: np.ndarray[Any, Any]
    lower_distances: np.ndarray[Any, Any]
    distances: np.ndarray[Any, Any]

    @staticmethod
    def of(layout: GridLayout) -> _Cells:
        numbers = {axis.kind: axis.number for axis in layout.axes}
        rows = Rows(layout, numbers["latitude"], numbers["longitude"])
        across, along = rows.distances()
        apart = np.concatenate([across[:1], across])
        return _Cells(rows.areas(), rows.heights(), rows.widths()[:-1], apart, along)


@dataclass(frozen=True, slots=True)
class Diffusion:
    """diffusion_filter on a grid, with a mask in the array's shape if there is one."""

    layout: GridLayout
    scale: float
    shape: str
    skipna: bool
    cap: float

    def __call__(self, x: Any, mask: Any = None) -> Any:
        y = self.spread(x, mask, places={})
        for row in self._polar_rows():
            ends = (None if each is None else self._row(each, row) for each in (y, x, mask))
            y = self._with_row(y, row, self.at_pole(*ends))
        return stored(y, x)

    def overlapped(self, x: Any, mask: Any = None, *, apply: Callable[..., Any], rows: Callable[..., Any]) -> Any:
        """The same on lazy arrays: `apply` calls a function on overlapping blocks, `rows` one on whole rows."""
        arrays = [x] if mask is None else [x, mask]
        wraps = {axis.number: axis.edge == "wrap" for axis in self.layout.axes}
        y = apply(self.spread, arrays, self._reach(x), wraps, working(x).dtype)
        for row in self._polar_rows():
            ends = [self._row(each, row) for each in (y, *arrays)]
            y = self._with_row(y, row, rows(self.at_pole, ends, (self.layout.longitude_number,), y.dtype))
        return stored(y, x)

    def _reach(self, x: Any) -> int:
        """How many cells away a value matters."""
        axes = tuple(axis.number for axis in self.layout.axes)
        plan = plan_diffusion_filter(
            x.shape, working(x).dtype.name, self.scale, self._spacing(), filter_shape=self.shape, axes=axes
        )
        return plan.n_steps

    def _row(self, x: Any, row: int) -> Any:
        number = self.layout.latitude_number
        assert number is not None
        return x[(slice(None),) * number + (slice(row, row + 1), ...)]

    def _with_row(self, y: Any, row: int, values: Any) -> Any:
        number = self.layout.latitude_number
        assert number is not None
        before = (slice(None),) * number
        parts = [y[(*before, slice(0, row), ...)], values, y[(*before, slice(row + 1, None), ...)]]
        return compat.array_namespace(y).concat([part for part in parts if part.shape[number]], axis=number)

    def spread(self, x: Any, mask: Any = None, *, places: Mapping[int, np.ndarray[Any, Any]]) -> Any:
        """All but that a pole is one point; `places` are those of a block's points, see `_dask.overlapped`."""
        work = working(x)
        axes = tuple(axis.number for axis in self.layout.axes)
        wraps = [axis.edge == "wrap" and axis.number not in places for axis in self.layout.axes]
        options: dict[str, Any] = {
            "filter_shape": self.shape,
            "bc": tuple(Periodic() if each else Reflect() for each in wraps),
            "mask": self._sea(work, mask),
            "axes": axes,
        }
        spacing = self._spacing()
        if self.layout.spherical:
            options["metric"] = self._metric(work, places)
        return diffusion_filter(work, self.scale, spacing, **options)

    def _sea(self, x: Any, mask: Any) -> Any:
        if self.skipna:
            return present(x, mask)
        return None if mask is None else beside(mask, x)

    def _spacing(self) -> tuple[float, ...]:
        """Of the plane; on the sphere one whose spectrum holds that of the cells' Laplacian by Gershgorin's theorem."""
        if not self.layout.spherical:
            return tuple(axis.spacing for axis in self.layout.axes)
        cells = _Cells.of(self.layout)
        across = cells.lower_widths / cells.lower_distances
        across[0] = 0.0
        total = across + np.append(across[1:], 0.0) + 2 * self._kappa() * cells.heights / cells.distances
        h = 2 * math.sqrt(2 / float(np.max(2 * total / cells.areas)))
        return (h, h)

    def _kappa(self) -> np.ndarray[Any, Any]:
        rows = np.deg2rad(np.asarray(self.layout.latitudes))
        return np.minimum(1.0, (np.cos(rows) / math.sin(math.radians(self.cap))) ** 2)

    def _metric(self, x: Any, places: Mapping[int, np.ndarray[Any, Any]]) -> Metric:
        """Sizes of the cells, of some rows."""
        cells = _Cells.of(self.layout)
        number = self.layout.latitude_number
        assert number is not None
        rows = places.get(number, slice(None))
        area, heights, widths, apart, distances, factor = (
            device_array(self.layout.along(number, values[rows]), x)
            for values in (
                cells.areas,
                cells.heights,
                cells.lower_widths,
                cells.lower_distances,
                cells.distances,
                self._kappa(),
            )
        )
        parts = {"latitude": (widths, apart, 1.0), "longitude": (heights, distances, factor)}
        chosen = [parts[axis.kind] for axis in self.layout.axes]
        wide, length, kappas = zip(*chosen, strict=True)
        return Metric(area, wide, length, kappas)

    def _polar_rows(self) -> list[int]:
        """Rows at a pole, which is one point."""
        if self.layout.latitude_number is None or not self._latitude():
            return []
        return [i for i, latitude in enumerate(self.layout.latitudes) if abs(abs(latitude) - 90) < 1e-6]

    def at_pole(self, y: Any, x: Any, mask: Any = None) -> Any:
        """The mean of a row of equal cells, of those at sea."""
        xp = compat.array_namespace(y)
        sea = self._sea(working(x), mask)
        sea = xp.ones_like(y, dtype=xp.bool) if sea is None else sea
        along = self.layout.longitude_number
        count = xp.sum(xp.astype(sea, y.dtype), axis=along, keepdims=True)
        total = xp.sum(xp.where(sea, y, 0.0), axis=along, keepdims=True)
        return xp.where(sea, total / xp.where(count > 0, count, 1.0), y)

    def _latitude(self) -> Axis | None:
        return next((axis for axis in self.layout.axes if axis.kind == "latitude"), None)
