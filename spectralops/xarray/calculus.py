"""Derivatives in metres and seconds, on planes and on the sphere."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import xarray as xr

from spectralops import _checks
from spectralops.errors import UnsupportedError
from spectralops.xarray._apply import applied, commensurable, described, each_variable, matched, regular
from spectralops.xarray._derivatives import Derivative, Laplacian, WindDerivative
from spectralops.xarray._grid import EARTH_RADIUS, Axis, Dims, Edges, GridLayout, grid_layout
from spectralops.xarray._kernels import InverseLaplacian
from spectralops.xarray._pint import bare, dressed, in_units
from spectralops.xarray._sphere import SphereInverse
from spectralops.xarray._units import same

__all__ = ["derivative", "inverse_laplacian", "laplacian", "streamfunction_potential", "vorticity_divergence"]

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


def inverse_laplacian(
    x: Any, *, dims: Dims = None, method: str = "auto", edges: Edges = None, radius: float = EARTH_RADIUS
) -> Any:
    """Solution of Poisson's equation lap y = x - mean(x) with zero mean: the inverse of :func:`laplacian`.

    Parameters
    ----------
    x : DataArray or Dataset
        The field, such as a vorticity; the result is then the stream function.
    dims : hashable or sequence of hashable, optional
        As for :func:`lowpass`; latitude and longitude must be those of a globe.
    method : {"auto", "spectral", "difference"}
        On a globe, which Laplacian is inverted, as for :func:`laplacian`; everywhere else the spectral one.
    edges : str or mapping, optional
        As in :func:`grid_layout`: at mirrors, the default of planes, no gradient crosses the end.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray or Dataset
        As of :func:`derivative`, times square metres. On a globe ``(y * cell_area(y)).sum()`` is zero.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`.
    UnsupportedError
        For latitude and longitude of a region, where fluxes through the ends are not known.

    Notes
    -----
    On a globe the mean of x is the constant without which the discrete equation has a solution; it is the area mean to
    the accuracy of the grid. Latitudes that reach both poles, evenly, are solved by double Fourier series [1]_, others
    by differences; both need a tridiagonal system for each wave round the globe.

    References
    ----------
    .. [1] S. Y. K. Yee, Solution of Poisson's equation on a sphere by truncated double Fourier series, Mon. Wea. Rev.
       109 (1981) 501; H.-B. Cheong, Double Fourier series on a sphere, J. Comput. Phys. 157 (2000) 327.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((19, 18)), {"lat": np.linspace(90, -90, 19), "lon": 20.0 * np.arange(18)})
    >>> u = u + np.sin(np.deg2rad(u.lat))
    >>> bool(np.allclose(sx.inverse_laplacian(u) / sx.EARTH_RADIUS**2, -u / 2))
    True
    """
    op = "inverse_laplacian"

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, dims, edges=edges, radius=radius, op=op)
        kernel: Any
        if layout.spherical and len(layout.axes) > 1:
            layout, words = _globe(op, layout, method)
            kernel = SphereInverse(layout, words)
        else:
            _checks.choice(op, "method", method, ("auto", "spectral"))
            kernel = InverseLaplacian(regular(op, layout))
        result = applied(op, each, layout, kernel)
        return described(result, each, "inverse Laplacian", layout.unit, 2)

    return each_variable(op, x, dims, one)


def _globe(op: str, layout: GridLayout, method: str) -> tuple[GridLayout, tuple[str, str]]:
    """The layout with latitude first, and its methods, if it is the whole globe."""
    axes = sorted(commensurable(op, layout).axes, key=lambda axis: axis.kind != "latitude")
    if [axis.kind for axis in axes] != ["latitude", "longitude"]:
        names = tuple(axis.dim for axis in axes)
        raise ValueError(f"{op}: dims are {names}, but must be one of latitude and one of longitude, or of a plane")
    if (axes[0].edge, axes[1].edge) != ("pole", "wrap"):
        names, count = tuple(axis.dim for axis in axes), axes[1].size
        raise UnsupportedError(
            f"{op}: dims are {names} of a region or have an odd number of longitudes ({count}), but must reach both "
            "poles and go all round in an even number, so that meridians go on at opposite ones"
        )
    return replace(layout, axes=tuple(axes)), (_method(op, axes[0], method), _method(op, axes[1], method))


def streamfunction_potential(
    u: xr.DataArray, v: xr.DataArray, *, dims: Dims = None, method: str = "auto", radius: float = EARTH_RADIUS
) -> xr.Dataset:
    r"""Stream function and velocity potential of a wind on the globe, of which it is the rotation and the gradient.

    .. math:: (u, v) = k \times \nabla\psi + \nabla\chi

    Parameters
    ----------
    u, v : DataArray
        Components towards the east and north, on the same grid.
    dims, method, radius
        As for :func:`inverse_laplacian`.

    Returns
    -------
    Dataset
        ``streamfunction`` and ``velocity_potential`` [m2 s-1] with the coordinates and dimensions of u, of zero mean.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As :func:`vorticity_divergence` and :func:`inverse_laplacian`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.zeros((19, 18)), {"lat": np.linspace(90, -90, 19), "lon": 20.0 * np.arange(18)})
    >>> u = u + 10 * np.cos(np.deg2rad(u.lat))
    >>> psi = sx.streamfunction_potential(u, 0 * u).streamfunction
    >>> bool(np.allclose(psi / sx.EARTH_RADIUS, 0 * psi - 10 * np.sin(np.deg2rad(psi.lat))))
    True
    """
    op = "streamfunction_potential"
    layout = grid_layout(u, dims, radius=radius, op=op)
    _globe(op, layout, method)
    flow = _flow(op, u, v, dims, method, None, radius)
    results = {}
    for name, source in (("streamfunction", "vorticity"), ("velocity_potential", "divergence")):
        result = inverse_laplacian(flow[source], dims=dims, method=method, radius=radius)
        result.attrs["long_name"] = name.replace("_", " ")
        results[name] = result.rename(name)
    return xr.Dataset(results)


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
        As :func:`derivative`; also if u and v are on different grids, in different units, or of different libraries.

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
    return _flow("vorticity_divergence", u, v, dims, method, edges, radius)


def _flow(op: str, u: Any, v: Any, dims: Dims, method: str, edges: Edges, radius: float) -> xr.Dataset:
    given, u = u, bare(u)
    v = in_units(v, given.data.units) if given is not u else v
    layout = grid_layout(u, dims, edges=edges, radius=radius, op=op)
    other = matched(op, u, v, "v")
    if not same(u.attrs.get("units"), v.attrs.get("units")):
        raise ValueError(
            f"{op}: v has units {v.attrs['units']!r}, but must have {u.attrs['units']!r} as u has; convert one of them"
        )
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
        results[name] = dressed(result.rename(name), given)
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
