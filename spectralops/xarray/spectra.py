"""Power spectra with named wavenumbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np
import xarray as xr

from spectralops import _arrays, _checks
from spectralops import power_spectrum as _power_spectrum
from spectralops.xarray._apply import each_variable, regular
from spectralops.xarray._grid import EARTH_RADIUS, Axis, Dims, GridLayout, grid_layout
from spectralops.xarray._units import product

__all__ = ["power_spectrum"]


def power_spectrum(
    x: Any,
    *,
    dims: Dims = None,
    window: Any = None,
    detrend: str | None = None,
    scaling: str = "density",
    sides: str | None = None,
    isotropic: bool = False,
    radius: float = EARTH_RADIUS,
) -> Any:
    """Power spectrum along named dimensions, whose sum times the cell of wavenumbers is the variance.

    The meaning of every option is that of :func:`spectralops.power_spectrum`; the axes are named ``wavenumber_<dim>``,
    or ``frequency_<dim>`` along time, in cycles per metre, second or unit of the coordinate, and rise.

    Parameters
    ----------
    x : DataArray or Dataset
        The field, without NaN.
    dims : hashable or sequence of hashable, optional
        Transformed dimensions, as for :func:`lowpass`. Of a real field the last listed has one side.
    window, detrend, scaling, sides
        As for :func:`spectralops.power_spectrum`: taper, ``"constant"`` or ``"linear"``, ``"density"`` or
        ``"spectrum"``, ``"one"`` or ``"two"``.
    isotropic : bool
        Sum over rings; the result has one last dimension ``wavenumber`` in place of `dims`.
    radius : float
        Of the sphere [m].

    Returns
    -------
    DataArray or Dataset
        Units are the squared ones of x, for a density per cycle per metre (or second). ``attrs["df"]`` is the size of a
        cell of wavenumbers: ``(spectrum * df).sum()`` is the variance. Other coordinates that do not
        run along `dims` stay.

    Raises
    ------
    TypeError, ValueError
        As :func:`lowpass` and :func:`spectralops.power_spectrum`; if there are NaN (not seen in lazy arrays), or rows
        of latitude differ in length by more than a factor of two.

    Notes
    -----
    Along longitude alone, wavenumbers are in cycles per degree, the same for every row. Together with latitude they are
    in cycles per metre at the mean latitude: a plane's spectrum, for regions.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> time = np.datetime64("2020-01-01") + 10 * np.arange(100) * np.timedelta64(1, "ms")
    >>> u = xr.DataArray(np.sin(2 * np.pi * 5 * 0.01 * np.arange(100)), {"time": time})
    >>> p = sx.power_spectrum(u)
    >>> round(float(p.idxmax()), 9), round(float(p.sum() * p.df), 9), p.frequency_time.units
    (5.0, 0.5, 's-1')
    """
    op = "power_spectrum"
    isotropic = _checks.flag(op, "isotropic", isotropic)

    def one(each: xr.DataArray) -> xr.DataArray:
        layout = grid_layout(each, dims, radius=radius, op=op)
        spacing, unit = _spacing(op, layout)
        options = {
            "spacing": spacing,
            "axes": tuple(range(-len(spacing), 0)),
            "window": window,
            "detrend": detrend,
            "scaling": scaling,
            "sides": sides,
            "isotropic": isotropic,
        }
        return _spectrum(op, each, layout, unit, options)

    return each_variable(op, x, dims, one)


def _spacing(op: str, layout: GridLayout) -> tuple[tuple[float, ...], str]:
    """Distance of points along each axis and its unit; longitude alone in degrees."""
    if [axis.kind for axis in layout.axes] == ["longitude"] and layout.axes[0].regular:
        return (float(np.rad2deg(layout.axes[0].spacing / layout.radius)),), "degree"
    regular(op, layout)
    cosine = 1.0
    if any(axis.kind == "longitude" for axis in layout.axes):
        cosines = np.asarray(layout.cosines())
        if cosines.max() > 2 * cosines.min():
            raise ValueError(
                f"{op}: the cosine of latitude is {cosines.min():.3g} to {cosines.max():.3g}, but must not vary by "
                "more than a factor of two; select a band of latitudes, or transform longitude alone"
            )
        cosine = float(np.cos(np.deg2rad(np.mean(layout.latitudes))))
    spacing = tuple(axis.spacing * (cosine if axis.kind == "longitude" else 1.0) for axis in layout.axes)
    return spacing, layout.unit


def _spectrum(op: str, x: xr.DataArray, layout: GridLayout, unit: str, options: Mapping[str, Any]) -> xr.DataArray:
    names = [axis.dim for axis in layout.axes]
    if x.chunks is not None:
        from spectralops.xarray import _dask

        x = x.copy(deep=False, data=_dask.whole(x.data, tuple(axis.number for axis in layout.axes)))
    elif bool(x.isnull().any().data):
        raise ValueError(f"{op}: x has NaN, but must have none; fill them by fillna or interpolate_na")
    # Towards rising coordinates, so that the sign of each wavenumber is the coordinate's.
    upward = x.isel({axis.dim: slice(None, None, -1) for axis in layout.axes if axis.descending})
    upward = upward.transpose(*[dim for dim in x.dims if dim not in names], *names)
    sample = np.ones([axis.size for axis in layout.axes], dtype=_arrays.dtype_name(x.dtype))
    grid = _power_spectrum(sample, **options)
    new = ["wavenumber"] if options["isotropic"] else [_name(axis) for axis in layout.axes]
    frequencies = [np.asarray(each, dtype=np.float64) for each in grid.frequencies]
    orders = [np.argsort(each, kind="stable") for each in frequencies]
    dtype = grid.power.dtype
    # Blocks stay of the library that they are of.
    lazy = {} if x.chunks is None else {"meta": upward.data._meta.astype(dtype)}
    power = xr.apply_ufunc(
        _power,
        upward,
        input_core_dims=[names],
        output_core_dims=[new],
        kwargs={"options": dict(options), "orders": orders},
        dask="parallelized",
        output_dtypes=None if lazy else [dtype],
        dask_gufunc_kwargs={"output_sizes": {name: len(order) for name, order in zip(new, orders, strict=True)}} | lazy,
        exclude_dims=set(names),
        keep_attrs=True,
    )
    per_unit = {"m": "m-1", "s": "s-1", "degree": "degree-1"}.get(unit)
    for name, f, order in zip(new, frequencies, orders, strict=True):
        attrs = {"long_name": name.split("_")[0]} | ({"units": per_unit} if per_unit else {})
        power = power.assign_coords({name: (name, f[order], attrs)})
    if not options["isotropic"]:
        places = dict(zip(names, new, strict=True))
        power = power.transpose(*[places.get(dim, dim) for dim in x.dims])
    label = x.attrs.get("long_name", x.attrs.get("standard_name", x.name))
    density = options["scaling"] == "density"
    count = 1 if options["isotropic"] else len(names)
    units = product(x.attrs.get("units"), 2, {unit: count} if density else {}) if per_unit or not density else None
    power.attrs = {"long_name": "power spectrum" + (f" of {label}" if label is not None else ""), "df": grid.df}
    if units is not None:
        power.attrs["units"] = units
    power.name = x.name
    return power


def _name(axis: Axis) -> str:
    return f"{'frequency' if axis.kind == 'time' else 'wavenumber'}_{axis.dim}"


def _power(x: Any, options: Mapping[str, Any], orders: Sequence[np.ndarray[Any, Any]]) -> Any:
    """The spectrum with rising wavenumbers along its last axes."""
    power = _power_spectrum(x, **options).power
    xp = compat.array_namespace(power)
    for axis, order in enumerate(orders, start=-len(orders)):
        power = xp.take(power, xp.asarray(order, device=compat.device(power)), axis=axis)
    return power
