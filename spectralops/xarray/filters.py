"""Filters by wavelength, period and width, on named dimensions and around missing values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from spectralops import _checks, transfer
from spectralops.xarray._apply import applied, each_variable, regular
from spectralops.xarray._grid import EARTH_RADIUS, Dims, Edges, GridLayout, grid_layout, kind_of
from spectralops.xarray._kernels import Convolution, Filter
from spectralops.xarray._units import measured

__all__ = ["bandpass", "convolve", "gaussian", "highpass", "lowpass"]


def lowpass(
    x: Any,
    wavelength: Any = None,
    *,
    period: Any = None,
    dims: Dims = None,
    order: int | None = None,
    edges: Edges = None,
    skipna: bool = False,
    min_weight: float = 0.5,
    fill: bool = False,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Keep the wavelengths, or periods, above a bound.

    On a plane, H(k) = 1 where |k| <= 2 pi / wavelength, and on latitudes and longitudes the same along each row, whose
    circle shrinks by the cosine of its latitude, and then along each meridian. With `order`, the Butterworth filter
    H = 1/sqrt(1 + (|k|/k_c)^(2 order)) instead, which rings less.

    Parameters
    ----------
    x : DataArray or Dataset
        The field; of a data set, each variable that has all of `dims`.
    wavelength : str, float or quantity
        ``"500 km"``, or a number of metres, or of the coordinate's unit if that is none of length or angle.
    period : str, float or timedelta
        Along time instead: ``"10 D"``, ``"6 h"``, or a number of seconds. Exactly one of the two is given.
    dims : hashable or sequence of hashable, optional
        Filtered dimensions. Default: those of latitude and longitude, else x and y, else the only one; with `period`,
        the one of time.
    order : int, optional
        Of a Butterworth filter. Default: a sharp one.
    edges : str or mapping, optional
        What lies beyond the ends, as in :func:`grid_layout`.
    skipna : bool
        Divide the filtered values by the filtered mask of where they are, so that NaN do not spread. A field without
        NaN gives the same bits as without `skipna`.
    min_weight : float
        With `skipna`, results whose weight is less are NaN; above 0 and at most 1.
    fill : bool
        With `skipna`, give results also where x is NaN.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray or Dataset
        Same coordinates, order of dimensions, precision, name and attributes; integers become float64. Lazy for Dask
        arrays; on the device for CuPy.

    Raises
    ------
    TypeError
        If x is no labelled array, or not exactly one of `wavelength` and `period` is given.
    ValueError
        If the bound has no or another unit, or `dims` are not on a regular grid or cannot be told.

    Notes
    -----
    Ends that do not wrap are mirrors, so that means are kept there, too. The weight of a sharp filter may exceed one
    or fall below zero near missing values; :func:`gaussian` and `order` behave better there.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> x = 1000.0 * np.arange(8)
    >>> u = xr.DataArray([1.0, 3, 1, 3, 1, 3, 1, 3], {"x": ("x", x, {"units": "m"})})
    >>> sx.lowpass(u, "4 km", edges="wrap").values.round(9)
    array([2., 2., 2., 2., 2., 2., 2., 2.])
    """
    return _filtered("lowpass", x, dims, (wavelength, period), order, edges, skipna, min_weight, fill, radius)


def highpass(
    x: Any,
    wavelength: Any = None,
    *,
    period: Any = None,
    dims: Dims = None,
    order: int | None = None,
    edges: Edges = None,
    skipna: bool = False,
    min_weight: float = 0.5,
    fill: bool = False,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Remove what :func:`lowpass` with the same arguments keeps: x less its low-pass.

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    wavelength, period
        Upper bound of what is kept.
    dims, order, edges, skipna, min_weight, fill, radius
        As for :func:`lowpass`.

    Returns
    -------
    DataArray or Dataset
        As of :func:`lowpass`.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray([1.0, 3, 1, 3, 1, 3, 1, 3], {"x": np.arange(8.0)})
    >>> sx.highpass(u, 4.0, edges="wrap").values.round(9)
    array([-1.,  1., -1.,  1., -1.,  1., -1.,  1.])
    """
    return _filtered("highpass", x, dims, (wavelength, period), order, edges, skipna, min_weight, fill, radius)


def bandpass(
    x: Any,
    wavelength: Any = None,
    *,
    period: Any = None,
    dims: Dims = None,
    order: int | None = None,
    edges: Edges = None,
    skipna: bool = False,
    min_weight: float = 0.5,
    fill: bool = False,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Keep what lies between two wavelengths, or periods: one low-pass less another.

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    wavelength, period : sequence of two
        The bounds, in either order.
    dims, order, edges, skipna, min_weight, fill, radius
        As for :func:`lowpass`.

    Returns
    -------
    DataArray or Dataset
        As of :func:`lowpass`.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`; also if there are not two different bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> time = pd.date_range("2020-01-01", periods=40, freq="6h")
    >>> daily = np.tile([0.0, 1, 0, -1], 10)
    >>> u = xr.DataArray(5 + daily, {"time": time})
    >>> bool(np.allclose(sx.bandpass(u, period=("18 h", "3 D"), edges="wrap"), daily))
    True
    """
    return _filtered("bandpass", x, dims, (wavelength, period), order, edges, skipna, min_weight, fill, radius)


def gaussian(
    x: Any,
    sigma: Any,
    *,
    dims: Dims = None,
    edges: Edges = None,
    skipna: bool = False,
    min_weight: float = 0.5,
    fill: bool = False,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Smooth by a normal density of standard deviation `sigma`: H(k) = exp(-sigma^2 |k|^2 / 2).

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    sigma : str, float, timedelta or quantity
        ``"100 km"``, ``"12 h"``, or a number of metres, seconds, or of the coordinate's unit.
    dims, edges, skipna, min_weight, fill, radius
        As for :func:`lowpass`.

    Returns
    -------
    DataArray or Dataset
        As of :func:`lowpass`.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> lon = xr.DataArray(45.0 * np.arange(8), dims="lon", attrs={"units": "degrees_east"})
    >>> u = xr.DataArray(np.cos(np.deg2rad(lon)), {"lon": lon, "lat": 60.0})
    >>> gain = np.exp(-((2000e3 / (0.5 * sx.EARTH_RADIUS)) ** 2) / 2)
    >>> bool(np.allclose(sx.gaussian(u, "2000 km"), gain * u))
    True
    """

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = regular("gaussian", grid_layout(each, dims, edges=edges, radius=radius, op="gaussian"))
        width = measured("gaussian", "sigma", sigma, layout.unit, radius if layout.spherical else None)
        kernel = Filter(layout, transfer.gaussian(width), None, *_missing("gaussian", skipna, min_weight, fill))
        return applied("gaussian", each, layout, kernel)

    return each_variable("gaussian", x, dims, one)


def convolve(
    x: Any,
    kernel: Any,
    *,
    dims: Dims = None,
    edges: Edges = None,
    skipna: bool = False,
    min_weight: float = 0.5,
    fill: bool = False,
) -> Any:
    """Convolve with a kernel on the grid: y_n = sum_j k_j x_(n-j), centred, of the same size.

    Parameters
    ----------
    x : DataArray or Dataset
        The field.
    kernel : array_like
        Real numbers with one axis for each of `dims`, in their order and in the direction in which the points are
        stored. Its middle is the entry (K - 1)//2.
    dims, edges
        As for :func:`lowpass`.
    skipna, min_weight, fill
        As for :func:`lowpass`; the weight is the part of the kernel's sum, which must not be zero, over values.

    Returns
    -------
    DataArray or Dataset
        As of :func:`lowpass`.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass`; also if the kernel has another number of axes, is empty, or sums to zero with `skipna`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray([0.0, 0, 3, 0, np.nan, 3], {"x": np.arange(6)})
    >>> sx.convolve(u, np.ones(3) / 3, skipna=True).values.round(9)
    array([0. , 1. , 1. , 1.5, nan, 3. ])
    """
    values = np.asarray(kernel)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"convolve: kernel has dtype {values.dtype}, but must be real numbers")
    missing = _missing("convolve", skipna, min_weight, fill)
    if skipna and values.size and values.sum() == 0:
        raise ValueError("convolve: kernel has the sum 0, but must have another one with skipna, which divides by it")

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, dims, edges=edges, op="convolve")
        if values.ndim != len(layout.axes) or 0 in values.shape:
            names = tuple(axis.dim for axis in layout.axes)
            raise ValueError(f"convolve: kernel has shape {values.shape}, but must have entries along {names}")
        work = Convolution(layout, tuple(values.ravel().tolist()), values.shape, *missing)
        return applied("convolve", each, layout, work)

    return each_variable("convolve", x, dims, one)


def _filtered(
    op: str,
    x: Any,
    dims: Dims,
    bounds: tuple[Any, Any],
    order: int | None,
    edges: Edges,
    skipna: bool,
    min_weight: float,
    fill: bool,
    radius: float,
) -> Any:
    wavelength, period = bounds
    if (wavelength is None) == (period is None):
        both = f"wavelength is {_checks.shown(wavelength)} and period is {_checks.shown(period)}"
        raise TypeError(f"{op}: {both}, but exactly one must be given")
    name = "wavelength" if period is None else "period"
    entries = bounds_of(op, name, wavelength if period is None else period, op == "bandpass")
    missing = _missing(op, skipna, min_weight, fill)
    if dims is None and period is not None and isinstance(x, xr.DataArray | xr.Dataset):
        dims = _time_dim(op, x)

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = regular(op, grid_layout(each, dims, edges=edges, radius=radius, op=op))
        _measure_fits(op, name, layout)
        numbers = sorted(
            measured(op, name, bound, layout.unit, radius if layout.spherical else None) for bound in entries
        )
        keep, less = symbols(op, numbers, order)
        return applied(op, each, layout, Filter(layout, keep, less, *missing))

    return each_variable(op, x, dims, one)


def symbols(op: str, numbers: Sequence[float], order: int | None) -> tuple[Any, Any]:
    """Low-pass that is kept and low-pass that is taken away."""
    if numbers[0] == numbers[-1] and len(numbers) == 2:
        raise ValueError(f"{op}: both bounds are {numbers[0]}, but must differ")
    if order is None:
        lows = [transfer.lowpass(wavelength=number) for number in numbers]
    else:
        lows = [transfer.butterworth(order, wavelength=number) for number in numbers]
    return {"lowpass": (lows[0], None), "highpass": (None, lows[0]), "bandpass": (lows[0], lows[-1])}[op]


def bounds_of(op: str, name: str, value: Any, band: bool) -> tuple[Any, ...]:
    if not band:
        return (value,)
    if isinstance(value, str) or _checks.entries(value) != 2:
        raise ValueError(f"{op}: {name} is {_checks.shown(value)}, but must be a sequence of two bounds")
    return tuple(value)


def _missing(op: str, skipna: Any, min_weight: Any, fill: Any) -> tuple[bool, float, bool]:
    weight = _checks.positive(op, "min_weight", min_weight)
    if weight > 1:
        raise ValueError(f"{op}: min_weight is {weight}, but must be at most 1")
    return _checks.flag(op, "skipna", skipna), weight, _checks.flag(op, "fill", fill)


def _time_dim(op: str, x: Any) -> Hashable:
    times = [dim for dim in x.dims if dim in x.coords and kind_of(x, dim) == "time"]
    if len(times) != 1:
        raise ValueError(f"{op}: dims is not given and {times} are times, but must be one; pass dims")
    return times[0]


def _measure_fits(op: str, name: str, layout: GridLayout) -> None:
    for axis in layout.axes:
        if (axis.kind == "time") != (name == "period"):
            other = "period" if axis.kind == "time" else "wavelength"
            raise ValueError(f"{op}: {name} is given for {axis.dim!r}, but must be {other}, since it is {axis.kind}")
