"""Derivatives in metres and seconds, on planes and on the sphere."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from spectralops import _checks
from spectralops.errors import UnsupportedError
from spectralops.xarray._apply import applied, commensurable, described, each_variable, matched, regular
from spectralops.xarray._grid import EARTH_RADIUS, Axis, GridLayout, grid_layout
from spectralops.xarray._kernels import Derivative, InverseLaplacian, Laplacian, WindDerivative

__all__ = ["derivative", "inverse_laplacian", "laplacian", "vorticity_divergence"]

Edges = str | Mapping[Hashable, str] | None
Dims = Hashable | Sequence[Hashable] | None
METHODS = ("auto", "spectral", "difference")


def derivative(
    x: Any,
    dim: Hashable,
    *,
    order: int = 1,
    method: str = "auto",
    edges: Edges = None,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Derivative along one dimension, towards rising coordinates whichever way they are stored.

    Along longitude it is 1/(R cos(lat)) d/dlon, eastward; along latitude 1/R d/dlat, northward.

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    dim : hashable
        The dimension.
    order : {1, 2}
        First or second derivative.
    method : {"auto", "spectral", "difference"}
        Trigonometric interpolation, exact for every wave that the grid resolves; or the parabola through each point and
        its neighbours, of second order, one-sided at the ends, and also for uneven spacing. By default spectral where
        the axis is closed: a full circle of longitude, or latitudes that continue over the poles.
    edges : str or mapping, optional
        What lies beyond the ends, as in :func:`grid_layout`.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray or Dataset
        Per metre for lengths and angles, per second for times, else per unit of the coordinate. ``units`` follow, and
        go where they are unknown; ``standard_name`` goes. Coordinates, dimensions and precision are the same. At a
        pole the eastward derivative is the limit along the meridian; where there is no other side it is NaN.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`; also if there are fewer than 3 points for differences, or the spectral method is asked for
        where the ends are mirrors, at which the slope would jump, or the spacing is uneven.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> lon = xr.DataArray(30.0 * np.arange(12), dims="lon", attrs={"units": "degrees_east"})
    >>> u = xr.DataArray(np.sin(np.deg2rad(lon)), {"lon": lon, "lat": 60.0}, attrs={"units": "K"})
    >>> du = sx.derivative(u, "lon")
    >>> bool(np.allclose(du, np.cos(np.deg2rad(lon)) / (0.5 * sx.EARTH_RADIUS))), du.units
    (True, 'K m-1')
    """
    order = _checks.integer("derivative", "order", order, 1, 2)

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, (dim,), edges=edges, radius=radius, op="derivative")
        (axis,) = commensurable("derivative", layout).axes
        word = _method("derivative", axis, method)
        result = applied("derivative", each, layout, Derivative(layout, _meridian(each, layout, radius), order, word))
        prefix = f"derivative along {dim}" if order == 1 else f"second derivative along {dim}"
        return described(result, each, prefix, axis.unit, -order)

    return each_variable("derivative", x, (dim,), one)


def laplacian(
    x: Any, *, dims: Dims = None, method: str = "auto", edges: Edges = None, radius: float = EARTH_RADIUS
) -> Any:
    r"""Sum of the second derivatives; on latitudes and longitudes, of the sphere.

    .. math:: \nabla^2 f = \frac{1}{R^2}\left(f_{\varphi\varphi} - \tan\varphi\, f_\varphi
              + \frac{f_{\lambda\lambda}}{\cos^2\varphi}\right)

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    dims : hashable or sequence of hashable, optional
        As for :func:`lowpass`; one of latitude and longitude gives its part of the sum.
    method, edges, radius
        As for :func:`derivative`.

    Returns
    -------
    DataArray or Dataset
        As of :func:`derivative`, per square metre.

    Raises
    ------
    TypeError, ValueError
        As :func:`derivative`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((19, 18)), {"lat": np.linspace(90, -90, 19), "lon": 20.0 * np.arange(18)})
    >>> u = u + np.sin(np.deg2rad(u.lat))
    >>> bool(np.allclose(sx.EARTH_RADIUS**2 * sx.laplacian(u), -2 * u))
    True
    """

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, dims, edges=edges, radius=radius, op="laplacian")
        axes = commensurable("laplacian", layout).axes
        words = tuple(_method("laplacian", axis, method) for axis in axes)
        result = applied("laplacian", each, layout, Laplacian(layout, words))
        return described(result, each, "Laplacian", layout.unit, -2)

    return each_variable("laplacian", x, dims, one)


def inverse_laplacian(x: Any, *, dims: Dims = None, edges: Edges = None, radius: float = EARTH_RADIUS) -> Any:
    """Solution of Poisson's equation lap y = x - mean(x) with zero mean, on a plane or along one dimension.

    Parameters
    ----------
    x : DataArray or Dataset
        The field, such as a vorticity; the result is then the stream function.
    dims : hashable or sequence of hashable, optional
        As for :func:`lowpass`.
    edges : str or mapping, optional
        As in :func:`grid_layout`: at mirrors, the default, no gradient crosses the end.
    radius : float
        Of the sphere [m], for longitude or latitude alone.

    Returns
    -------
    DataArray or Dataset
        As of :func:`derivative`, times square metres.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`.
    UnsupportedError
        For latitude and longitude together, which no Fourier series solves.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> x = 2 * np.pi * np.arange(8) / 8
    >>> u = xr.DataArray(np.sin(x), {"x": ("x", x, {"units": "m"})}, attrs={"units": "s-1"})
    >>> y = sx.inverse_laplacian(u, edges="wrap")
    >>> bool(np.allclose(y, -u)), y.units
    (True, 'm2 s-1')
    """
    op = "inverse_laplacian"

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = regular(op, grid_layout(each, dims, edges=edges, radius=radius, op=op))
        if layout.spherical and len(layout.axes) > 1:
            raise UnsupportedError(
                f"{op}: dims are {tuple(axis.dim for axis in layout.axes)} of a sphere, but must be of a plane, or one"
            )
        result = applied(op, each, layout, InverseLaplacian(layout))
        return described(result, each, "inverse Laplacian", layout.unit, 2)

    return each_variable(op, x, dims, one)


def vorticity_divergence(
    u: xr.DataArray,
    v: xr.DataArray,
    *,
    dims: Dims = None,
    method: str = "auto",
    edges: Edges = None,
    radius: float = EARTH_RADIUS,
) -> xr.Dataset:
    r"""Vertical vorticity and horizontal divergence of a wind.

    .. math:: \zeta = \frac{1}{R\cos\varphi}\left(v_\lambda - (u\cos\varphi)_\varphi\right), \qquad
              \delta = \frac{1}{R\cos\varphi}\left(u_\lambda + (v\cos\varphi)_\varphi\right)

    on latitudes and longitudes [1]_; on a plane :math:`v_x - u_y` and :math:`u_x + v_y`.

    Parameters
    ----------
    u, v : DataArray
        Components towards the east and north, or x and y, on the same grid.
    dims : sequence of two, optional
        Latitude and longitude in either order, or y and x in this one.
    method, edges, radius
        As for :func:`derivative`. Over the poles both components change their signs.

    Returns
    -------
    Dataset
        ``vorticity`` and ``divergence``, with the coordinates and dimensions of u.

    Raises
    ------
    TypeError, ValueError
        As :func:`derivative`; also if u and v are on different grids.

    References
    ----------
    .. [1] J. R. Holton, "An Introduction to Dynamic Meteorology", 4th ed., Academic Press (2004), ch. 4.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((19, 18)), {"lat": np.linspace(90, -90, 19), "lon": 20.0 * np.arange(18)})
    >>> u = u + np.cos(np.deg2rad(u.lat))
    >>> flow = sx.vorticity_divergence(u, 0 * u)
    >>> bool(np.allclose(sx.EARTH_RADIUS * flow.vorticity, 0 * u + 2 * np.sin(np.deg2rad(u.lat))))
    True
    """
    op = "vorticity_divergence"
    layout = grid_layout(u, dims, edges=edges, radius=radius, op=op)
    other = matched(op, u, v, "v")
    if len(layout.axes) != 2:
        raise ValueError(f"{op}: dims has {len(layout.axes)} entries, but must have two")
    y, x = commensurable(op, layout).axes
    if y.kind == "longitude" or (dims is None and str(y.dim).lower() == "x"):
        y, x = x, y
    if layout.spherical and (y.kind, x.kind) != ("latitude", "longitude"):
        raise ValueError(f"{op}: dims are {y.kind} and {x.kind}, but must be latitude and longitude or both of a plane")
    words = (_method(op, y, method), _method(op, x, method))
    ordered = replace(layout, axes=(y, x))
    results = {}
    for name in ("vorticity", "divergence"):
        kernel = WindDerivative(ordered, words, name == "divergence")
        result = described(applied(op, u, ordered, kernel, other), u, name, y.unit, -1)
        result.attrs["long_name"] = {"vorticity": "relative vorticity", "divergence": "horizontal divergence"}[name]
        results[name] = result.rename(name)
    return xr.Dataset(results)


def _method(op: str, axis: Axis, method: Any) -> str:
    word = _checks.choice(op, "method", method, METHODS)
    if word == "auto":
        word = "difference" if axis.edge == "mirror" or not axis.regular else "spectral"
    if word == "spectral" and not axis.regular:
        raise ValueError(f"{op}: method is 'spectral' for {axis.dim!r}, but must be 'difference' for uneven spacing")
    if word == "spectral" and axis.edge == "mirror":
        raise ValueError(
            f"{op}: method is 'spectral' for {axis.dim!r}, but must be 'difference' between ends that are mirrors; "
            "pass edges='wrap' if the field is periodic"
        )
    if word == "difference" and axis.size < 3:
        raise ValueError(f"{op}: {axis.dim!r} has {axis.size} points, but must have at least 3 for differences")
    return word


def _meridian(x: xr.DataArray, layout: GridLayout, radius: float) -> Axis | None:
    """The axis of latitude, if it continues over the poles and longitude is the layout's axis."""
    if layout.axes[0].kind != "longitude" or layout.latitude_number is None:
        return None
    (axis,) = grid_layout(x, (x.dims[layout.latitude_number],), radius=radius, op="derivative").axes
    return axis if axis.edge == "pole" and axis.regular else None
