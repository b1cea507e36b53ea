"""The grid under a labelled array: which dimension is what, how far apart its points lie, what is beyond its ends."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from spectralops import _checks
from spectralops.xarray._units import ANGLES, LENGTHS

__all__ = ["EARTH_RADIUS", "Axis", "Dims", "Edges", "GridLayout", "chosen_dims", "grid_layout", "kind_of"]

# What public functions take as `dims` and `edges`.
Dims = Hashable | Sequence[Hashable] | None
Edges = str | Mapping[Hashable, str] | None

# Mean radius of the Earth [m].
EARTH_RADIUS = 6_371_008.8

EDGES = ("wrap", "mirror", "pole")
NAMES = {
    "latitude": ("lat", "latitude", "grid_latitude", "rlat"),
    "longitude": ("lon", "longitude", "grid_longitude", "rlon"),
}
DIRECTED = {
    "latitude": ("degrees_north", "degree_north", "degrees_N", "degree_N"),
    "longitude": ("degrees_east", "degree_east", "degrees_E", "degree_E"),
}
HORIZONTAL = {"x": "X", "y": "Y"}
# Degrees of latitude that rounding of a pole may give.
FARTHEST = 90.001
CURVILINEAR = (
    "of two or more dimensions, a curvilinear grid, but must be of one each; interpolate to a regular grid, or smooth "
    "by spectralops.diffusion_filter with a Metric"
)


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a grid.

    Attributes
    ----------
    dim : hashable
        Its name.
    number : int
        Its place among the array's dimensions.
    size : int
        Number of points.
    kind : {"latitude", "longitude", "length", "time", "plain"}
        What its coordinate measures; "plain" is any other unit.
    unit : str
        Unit of `spacing`: ``"m"``, ``"s"``, or the coordinate's own ("" if it has none).
    spacing : float
        Distance of neighbouring points, positive; of longitude along the equator. NaN if the points are not regular.
    descending : bool
        Whether the coordinate falls.
    edge : {"wrap", "mirror", "pole"}
        What lies beyond the ends: the other end; the mirror image about the face half a cell beyond the end; the
        other side of the pole, at 180 degrees' distance in longitude.
    points : tuple of float
        The coordinate in `unit`, where it is not regular; else empty.
    """

    dim: Hashable
    number: int
    size: int
    kind: str
    unit: str
    spacing: float
    descending: bool
    edge: str
    points: tuple[float, ...] = ()

    @property
    def regular(self) -> bool:
        """Whether all neighbours have the same distance."""
        return not self.points


@dataclass(frozen=True, slots=True)
class GridLayout:
    """The grid of an array along some of its dimensions, as :func:`grid_layout` reads it.

    Attributes
    ----------
    axes : tuple of Axis
        The dimensions asked for.
    ndim : int
        Number of dimensions of the array.
    latitudes : tuple of float
        Latitude [degrees] of the rows along which longitude runs, or of the axis itself; empty without latitudes.
    latitude_number, longitude_number : int or None
        Places of these two among the array's dimensions, whether asked for or not.
    radius : float
        Of the sphere [m].
    """

    axes: tuple[Axis, ...]
    ndim: int
    latitudes: tuple[float, ...]
    latitude_number: int | None
    longitude_number: int | None
    radius: float

    @property
    def spherical(self) -> bool:
        """Whether distances depend on where one is: a longitude or a latitude is among the axes."""
        return any(axis.kind in NAMES for axis in self.axes)

    @property
    def unit(self) -> str:
        """Unit of the distances along the axes."""
        return self.axes[0].unit

    @property
    def has_poles(self) -> bool:
        """Whether the first and the last row are the poles."""
        return bool(self.latitudes) and abs(abs(self.latitudes[0]) - 90) < 1e-6

    @property
    def whole(self) -> tuple[int, ...]:
        """Places of the dimensions that a computation needs in one piece."""
        numbers = {axis.number for axis in self.axes}
        if any(axis.kind == "longitude" for axis in self.axes) and self.latitude_number is not None:
            numbers.add(self.latitude_number)
        if any(axis.edge == "pole" for axis in self.axes) and self.longitude_number is not None:
            numbers.add(self.longitude_number)
        return tuple(sorted(numbers))

    def along(self, number: int, values: Any) -> np.ndarray[Any, Any]:
        """A vector shaped to broadcast along one dimension of the array."""
        shape = [1] * self.ndim
        shape[number] = -1
        return np.reshape(np.asarray(values, dtype=np.float64), shape)

    def cosines(self) -> Any:
        """Cosines of the latitudes, broadcasting against the array."""
        values = np.cos(np.deg2rad(np.asarray(self.latitudes, dtype=np.float64)))
        return values[0] if self.latitude_number is None else self.along(self.latitude_number, values)


def grid_layout(
    x: xr.DataArray,
    dims: Hashable | Sequence[Hashable] | None = None,
    *,
    edges: str | Mapping[Hashable, str] | None = None,
    radius: float = EARTH_RADIUS,
    op: str = "grid_layout",
) -> GridLayout:
    """Read the grid of an array from its coordinates.

    What a dimension is follows from its coordinate's ``standard_name``, units and, last, its name. Points are regular
    if they lie within 4 units in the last place of the coordinate's dtype (of angles, at 90 degrees or beyond), or 1e-5
    of a step, of a straight line.
    Longitude wraps if its n steps are 360 degrees to within a thousandth of a step; latitude never does, but continues
    over the poles where both are reached and longitude wraps with an even number of points. All other ends are mirrors.

    Parameters
    ----------
    x : DataArray
        The array; its values are not looked at.
    dims : hashable or sequence of hashable, optional
        Dimensions. Default: latitude and longitude, else x and y, else the only dimension.
    edges : str or mapping, optional
        What lies beyond the ends instead, of all dimensions or by name: ``"wrap"``, ``"mirror"`` or ``"pole"``.
    radius : float
        Of the sphere [m].
    op : str
        What error messages begin with.

    Returns
    -------
    GridLayout
        A frozen value.

    Raises
    ------
    TypeError
        If x is no DataArray.
    ValueError
        If a dimension is missing, empty, has no 1-d coordinate (a curvilinear grid), repeats points, or cannot have its
        edge.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((3, 8)), {"lat": [10.0, 0.0, -10.0], "lon": 45.0 * np.arange(8)}, ("lat", "lon"))
    >>> [(axis.kind, axis.edge, axis.descending) for axis in sx.grid_layout(u).axes]
    [('latitude', 'mirror', True), ('longitude', 'wrap', False)]
    """
    if not isinstance(x, xr.DataArray):
        raise TypeError(f"{op}: x is a {type(x).__name__}, but must be a DataArray")
    names = chosen_dims(op, x, dims)
    radius = _checks.positive(op, "radius", radius)
    asked = _asked_edges(op, edges, names)
    kinds = {dim: kind_of(x, dim) for dim in x.dims if dim in x.coords}
    latitude = _only(x, kinds, "latitude")
    longitude = _only(x, kinds, "longitude")
    latitudes = _latitudes(x, latitude)
    wraps = longitude is not None and _wraps(x, longitude)
    axes = tuple(
        _axis(op, x, dim, asked.get(dim), _over_poles(latitudes, wraps, x, longitude), radius) for dim in names
    )
    beyond = [each for each in latitudes if abs(each) > FARTHEST]
    if beyond and any(axis.kind in NAMES for axis in axes):
        name = "latitude" if latitude is None else repr(latitude)
        raise ValueError(
            f"{op}: {name} has {beyond[0]:g} degrees, but must lie within 90 of the equator; give a coordinate that is "
            "no latitude another name, or its own units"
        )
    return GridLayout(
        axes,
        x.ndim,
        latitudes,
        None if latitude is None else x.get_axis_num(latitude),
        None if longitude is None else x.get_axis_num(longitude),
        radius,
    )


def chosen_dims(op: str, x: Any, dims: Any) -> tuple[Hashable, ...]:
    """Dimensions asked for, or those that the coordinates suggest, of an array or a data set."""
    if dims is not None:
        names = (dims,) if isinstance(dims, str) or not isinstance(dims, Sequence) else tuple(dims)
        missing = [dim for dim in names if dim not in x.dims]
        if missing:
            raise ValueError(f"{op}: dims has {missing[0]!r}, but must be among the dimensions {tuple(x.dims)}")
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{op}: dims is {names}, but must be different dimensions, at least one")
        return names
    kinds = {dim: kind_of(x, dim) for dim in x.dims if dim in x.coords}
    for pair in (("latitude", "longitude"), ("y", "x")):
        found = [[dim for dim in kinds if _plays(x, dim, kinds[dim], role)] for role in pair]
        for role, each in zip(pair, found, strict=True):
            if len(each) > 1:
                raise ValueError(f"{op}: dims is not given and {each} could each be the {role}; pass dims")
        if all(found):
            return tuple(dim for dim in x.dims if [dim] in found)
    if len(x.dims) == 1:
        return tuple(x.dims)
    plane = [name for name, c in x.coords.items() if c.ndim > 1 and c.attrs.get("units") in sum(DIRECTED.values(), ())]
    if plane:
        raise ValueError(f"{op}: latitude and longitude are {plane}, {CURVILINEAR}")
    raise ValueError(f"{op}: dims is not given, but must be one or more of {tuple(x.dims)}")


def kind_of(x: Any, dim: Hashable) -> str:
    """What the coordinate of a dimension measures."""
    coordinate = x.coords[dim]
    units = coordinate.attrs.get("units", "")
    if coordinate.dtype.kind in "mM" or _is_cftime(coordinate):
        return "time"
    for kind, words in NAMES.items():
        named = coordinate.attrs.get("standard_name") in words or units in DIRECTED[kind]
        if named or (str(dim).lower() in words and (units == "" or units in ANGLES)):
            return kind
    return "length" if units in LENGTHS else "plain"


def _is_cftime(coordinate: Any) -> bool:
    return coordinate.dtype == object and coordinate.size > 0 and hasattr(coordinate.values.flat[0], "calendar")


def _plays(x: Any, dim: Hashable, kind: str, role: str) -> bool:
    if role in NAMES:
        return kind == role
    if kind in ("time", *NAMES):
        return False
    return x.coords[dim].attrs.get("axis") == HORIZONTAL[role] or str(dim).lower() == role


def _only(x: Any, kinds: Mapping[Hashable, str], kind: str) -> Hashable | None:
    found = [dim for dim, each in kinds.items() if each == kind]
    return found[0] if len(found) == 1 else None


def _asked_edges(op: str, edges: Any, names: tuple[Hashable, ...]) -> dict[Hashable, str]:
    if edges is None:
        return {}
    asked = dict(edges) if isinstance(edges, Mapping) else dict.fromkeys(names, edges)
    for dim, edge in asked.items():
        if dim not in names:
            raise ValueError(f"{op}: edges has {dim!r}, but must name dimensions among {names}")
        _checks.choice(op, "edges", edge, EDGES)
    return asked


def _latitudes(x: xr.DataArray, latitude: Hashable | None) -> tuple[float, ...]:
    """Degrees of latitude of the rows, also of a single row that a scalar coordinate names."""
    if latitude is None:
        scalars = [
            c
            for name, c in x.coords.items()
            if c.ndim == 0 and c.dtype.kind in "fiu" and kind_of(x, name) == "latitude"
        ]
        return (float(np.rad2deg(_angle(scalars[0]) * float(scalars[0]))),) if len(scalars) == 1 else ()
    coordinate = x.coords[latitude]
    return tuple(np.rad2deg(_angle(coordinate) * coordinate.values.astype(np.float64)).tolist())


def _angle(coordinate: Any) -> float:
    """Radians in the coordinate's unit; degrees where it has none."""
    return ANGLES.get(coordinate.attrs.get("units", ""), math.pi / 180)


def _wraps(x: xr.DataArray, longitude: Hashable) -> bool:
    """Whether n steps of longitude are a full circle."""
    coordinate = x.coords[longitude]
    n = coordinate.size
    values = np.rad2deg(_angle(coordinate) * coordinate.values.astype(np.float64))
    if n < 2 or values[-1] == values[0]:
        return False
    step = abs(values[-1] - values[0]) / (n - 1)
    return bool(abs(n * step - 360) < 1e-3 * step)


def _over_poles(latitudes: tuple[float, ...], wraps: bool, x: xr.DataArray, longitude: Hashable | None) -> bool:
    """Whether the rows reach both poles, or end within a step of them, alike, and have opposite points.

    Regular rows must continue regularly: a pole is a row, or lies halfway between two.
    """
    n = len(latitudes)
    if n < 2 or not wraps or longitude is None or x.sizes[longitude] % 2:
        return False
    steps = np.abs(np.diff(latitudes))
    step = float(np.mean(steps))
    gap = 90 - max(abs(latitudes[0]), abs(latitudes[-1]))
    if abs(latitudes[0] + latitudes[-1]) > 1e-3 * step or gap > step:
        return False
    even = float(np.ptp(steps)) <= 1e-3 * step
    return not even or min(abs(gap), abs(gap - step / 2)) < 1e-3 * step


def _axis(op: str, x: xr.DataArray, dim: Hashable, asked: str | None, poles: bool, radius: float) -> Axis:
    if dim not in x.coords:
        _refuse_bare(op, x, dim)
    coordinate = x.coords[dim]
    kind = kind_of(x, dim)
    points, unit, resolution = _points(op, coordinate, kind, radius)
    n = points.size
    if n == 0:
        raise ValueError(f"{op}: {dim!r} has no points, but must have at least one")
    if not np.all(np.isfinite(points)):
        raise ValueError(f"{op}: {dim!r} has missing points, but must have none; drop them by dropna or isel")
    steps = np.diff(points)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise ValueError(
            f"{op}: {dim!r} does not rise or fall throughout, but must; sort it by sortby({dim!r}), and take out "
            f"points that repeat by drop_duplicates({dim!r})"
        )
    step = (points[-1] - points[0]) / (n - 1) if n > 1 else 1.0
    line = points[0] + step * np.arange(n)
    regular = bool(np.max(np.abs(points - line), initial=0.0) <= max(4 * resolution, 1e-5 * abs(step)))
    edge = "mirror"
    if kind == "longitude" and regular and _wraps(x, dim):
        edge, step = "wrap", math.copysign(2 * math.pi * radius / n, step)
    elif kind == "latitude" and poles:
        edge = "pole"
    if asked == "pole" and edge != "pole":
        raise ValueError(
            f"{op}: edges is 'pole' for {dim!r}, but must be so only for latitudes that reach both poles, with an "
            "even number of longitudes round the whole circle"
        )
    edge = asked or edge
    if edge == "wrap" and not regular:
        raise ValueError(f"{op}: edges is 'wrap' for {dim!r}, but must not be where its spacing is not regular")
    kept = () if regular else tuple(points.tolist())
    return Axis(
        dim, x.get_axis_num(dim), n, kind, unit, abs(float(step)) if regular else math.nan, bool(step < 0), edge, kept
    )


def _refuse_bare(op: str, x: xr.DataArray, dim: Hashable) -> None:
    """Say why a dimension without coordinate does not do."""
    plane = [name for name, c in x.coords.items() if c.ndim > 1 and dim in c.dims]
    if plane:
        raise ValueError(f"{op}: {dim!r} has the coordinates {plane}, {CURVILINEAR}")
    raise ValueError(f"{op}: {dim!r} has no coordinate, but must have one; add it by assign_coords")


def _points(op: str, coordinate: Any, kind: str, radius: float) -> tuple[np.ndarray[Any, Any], str, float]:
    """Coordinate in its unit of distance, that unit, and the size of one unit in its last place."""
    units = coordinate.attrs.get("units", "")
    values = coordinate.values
    if kind == "time":
        first = values[0] if values.size else 0
        if values.dtype == object:
            return np.array([(t - first).total_seconds() for t in values], dtype=np.float64), "s", 0.0
        return (values - first) / np.timedelta64(1, "s"), "s", 0.0
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{op}: {coordinate.name!r} has dtype {values.dtype}, but must be numbers or times")
    if kind in NAMES:
        factor, unit = _angle(coordinate) * radius, "m"
    elif kind == "length":
        factor, unit = LENGTHS[units], "m"
    else:
        factor, unit = 1.0, str(units)
    largest = np.max(np.abs(values), initial=values.dtype.type(0))
    if kind in NAMES:
        # Angles are often computed from others of the globe, and keep their rounding near zero.
        largest = np.maximum(largest, values.dtype.type(math.pi / 2 / _angle(coordinate)))
    resolution = float(np.spacing(largest)) if values.dtype.kind == "f" else 0.0
    return values.astype(np.float64) * factor, unit, resolution * factor
