"""Smoothing by diffusion on the sphere: around land, and with the global integral kept."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np
import xarray as xr

from spectralops import _checks
from spectralops.boundary import Periodic, Reflect
from spectralops.filters import Metric, diffusion_filter
from spectralops.xarray._apply import applied, each_variable, regular, same_points
from spectralops.xarray._grid import EARTH_RADIUS, Axis, GridLayout, grid_layout
from spectralops.xarray._kernels import device_array, stored, working
from spectralops.xarray._units import measured

__all__ = ["cell_area", "diffuse"]

Edges = str | Mapping[Hashable, str] | None
Dims = Hashable | Sequence[Hashable] | None


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
        True at sea; dimensions may be missing. Land neither gives nor takes, and keeps its values.
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
    TypeError, ValueError, UnsupportedError
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
            _check_cells(op, layout)
        else:
            regular(op, layout)
        name, value = ("sigma", sigma) if wavelength is None else ("wavelength", wavelength)
        length = measured(op, name, value, layout.unit, radius if layout.spherical else None)
        # The variance of a box of this width.
        scale = length * math.sqrt(12) if wavelength is None else length
        kernel = Diffusion(layout, scale, "gaussian" if wavelength is None else "taper", skipna, cap)
        return applied(op, each, layout, kernel, *([] if mask is None else [_sea(op, each, mask)]))

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
    _check_cells("cell_area", layout)
    (latitude,) = (axis.dim for axis in layout.axes if axis.kind == "latitude")
    attrs = {"units": "m2", "long_name": "cell area", "standard_name": "cell_area"}
    return xr.DataArray(_Cells.of(layout).areas, {latitude: x.coords[latitude]}, (latitude,), "cell_area", attrs)


def _check_cells(op: str, layout: GridLayout) -> None:
    """Raise ValueError unless the axes are rows of cells on the sphere."""
    if sorted(axis.kind for axis in layout.axes) != ["latitude", "longitude"]:
        names = tuple(axis.dim for axis in layout.axes)
        raise ValueError(f"{op}: dims are {names}, but must be one of latitude and one of longitude")
    for axis in layout.axes:
        if axis.size < 2:
            raise ValueError(f"{op}: {axis.dim!r} has {axis.size} points, but must have at least 2")
        if axis.kind == "longitude" and not axis.regular:
            raise ValueError(f"{op}: {axis.dim!r} has uneven spacing, but must be regular")


def _sea(op: str, x: xr.DataArray, mask: Any) -> xr.DataArray:
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
        (longitude,) = (axis for axis in layout.axes if axis.kind == "longitude")
        step = longitude.spacing / layout.radius
        rows = np.deg2rad(np.asarray(layout.latitudes))
        middle = (rows[1:] + rows[:-1]) / 2
        faces = np.concatenate([[2 * rows[0] - middle[0]], middle, [2 * rows[-1] - middle[-1]]])
        reaching = any(axis.edge == "pole" for axis in layout.axes)
        if reaching:
            faces[[0, -1]] = np.copysign(np.pi / 2, faces[[0, -1]])
        faces = np.clip(faces, -np.pi / 2, np.pi / 2)
        apart = np.abs(np.diff(rows))
        return _Cells(
            layout.radius**2 * step * np.abs(np.diff(np.sin(faces))),
            layout.radius * np.abs(np.diff(faces)),
            layout.radius * step * np.cos(faces[:-1]),
            layout.radius * np.concatenate([apart[:1], apart]),
            layout.radius * step * np.maximum(np.cos(rows), 1e-9),
        )


@dataclass(frozen=True, slots=True)
class Diffusion:
    """diffusion_filter on a grid, with a mask in the array's shape if there is one."""

    layout: GridLayout
    scale: float
    shape: str
    skipna: bool
    cap: float

    def __call__(self, x: Any, mask: Any = None) -> Any:
        xp = compat.array_namespace(x)
        work = working(x)
        if self.skipna:
            valid = ~xp.isnan(work)
            mask = valid if mask is None else mask & valid
        axes = tuple(axis.number for axis in self.layout.axes)
        options: dict[str, Any] = {
            "filter_shape": self.shape,
            "bc": tuple(Periodic() if axis.edge == "wrap" else Reflect() for axis in self.layout.axes),
            "mask": mask,
            "axes": axes,
        }
        if self.layout.spherical:
            spacing, options["metric"] = self._metric(work)
        else:
            spacing = tuple(axis.spacing for axis in self.layout.axes)
        y = diffusion_filter(work, self.scale, spacing, **options)
        y = self._one_value_at_poles(y, mask)
        return stored(y, x)

    def _metric(self, x: Any) -> tuple[tuple[float, ...], Metric]:
        """Sizes of the cells, and the spacing whose spectrum holds that of their Laplacian by Gershgorin's theorem."""
        cells = _Cells.of(self.layout)
        rows = np.deg2rad(np.asarray(self.layout.latitudes))
        kappa = np.minimum(1.0, (np.cos(rows) / math.sin(math.radians(self.cap))) ** 2)
        across = cells.lower_widths / cells.lower_distances
        across[0] = 0.0
        total = across + np.append(across[1:], 0.0) + 2 * kappa * cells.heights / cells.distances
        h = 2 * math.sqrt(2 / float(np.max(2 * total / cells.areas)))
        number = self.layout.latitude_number
        assert number is not None
        area, heights, widths, apart, distances, factor = (
            device_array(self.layout.along(number, values), x)
            for values in (
                cells.areas,
                cells.heights,
                cells.lower_widths,
                cells.lower_distances,
                cells.distances,
                kappa,
            )
        )
        parts = {"latitude": (widths, apart, 1.0), "longitude": (heights, distances, factor)}
        chosen = [parts[axis.kind] for axis in self.layout.axes]
        wide, length, kappas = zip(*chosen, strict=True)
        return (h, h), Metric(area, wide, length, kappas)

    def _one_value_at_poles(self, y: Any, mask: Any) -> Any:
        """A pole is one point: the mean of its row of equal cells, of those at sea."""
        latitude = self._latitude()
        if latitude is None:
            return y
        xp = compat.array_namespace(y)
        pole = np.abs(np.abs(np.asarray(self.layout.latitudes)) - 90) < 1e-6
        if not pole.any():
            return y
        here = xp.asarray(self.layout.along(latitude.number, pole) > 0, device=compat.device(y))
        sea = xp.ones_like(y, dtype=xp.bool) if mask is None else mask
        along = self.layout.longitude_number
        count = xp.sum(xp.astype(sea, y.dtype), axis=along, keepdims=True)
        total = xp.sum(xp.where(sea, y, 0.0), axis=along, keepdims=True)
        return xp.where(here & sea, total / xp.where(count > 0, count, 1.0), y)

    def _latitude(self) -> Axis | None:
        return next((axis for axis in self.layout.axes if axis.kind == "latitude"), None)
