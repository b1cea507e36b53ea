"""What a filter does to each wavelength."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spectralops import _checks, transfer
from spectralops.xarray._units import measured
from spectralops.xarray.filters import bandpass, bounds_of, gaussian, highpass, lowpass, symbols

__all__ = ["response"]


def response(filter: Callable[..., Any], bound: Any, *, order: int | None = None, size: int = 201) -> xr.DataArray:  # noqa: A002
    """Gain of a filter at each wavelength, or period: what it multiplies a wave by.

    Parameters
    ----------
    filter : function
        :func:`lowpass`, :func:`highpass`, :func:`bandpass` or :func:`gaussian`.
    bound : str, float or timedelta, or a sequence of two for a band
        Its wavelength, period or sigma; a duration such as ``"10 D"`` means periods, all else metres.
    order : int, optional
        Of a Butterworth filter.
    size : int
        Number of wavelengths, evenly spaced in their logarithm, from a tenth of the least to ten times the largest.

    Returns
    -------
    DataArray
        Along ``wavelength`` [m] or ``period`` [s]. Its ``plot(xscale="log")`` draws it where Matplotlib is installed.

    Raises
    ------
    TypeError, ValueError
        If the filter is another one, or its arguments do not fit.

    Examples
    --------
    >>> import spectralops.xarray as sx
    >>> gain = sx.response(sx.lowpass, "500 km", order=4)
    >>> round(float(gain.interp(wavelength=500e3)), 2)
    0.71
    """
    known = {each.__name__: each for each in (lowpass, highpass, bandpass, gaussian)}
    op = getattr(filter, "__name__", "")
    if known.get(op) is not filter:
        raise TypeError(f"response: filter is {_checks.shown(filter)}, but must be one of {', '.join(sorted(known))}")
    bounds = bounds_of("response", "bound", bound, op == "bandpass")
    unit = "s" if any(_is_duration(each) for each in bounds) else "m"
    numbers = sorted(measured("response", "bound", each, unit) for each in bounds)
    count = _checks.integer("response", "size", size, 2)
    waves = np.geomspace(numbers[0] / 10, numbers[-1] * 10, count)
    if op == "gaussian":
        keep, less = transfer.gaussian(numbers[0]), None
    else:
        keep, less = symbols(op, numbers, order)
    k = 2 * np.pi / waves
    gain = np.ones_like(k) if keep is None else keep(k)
    if less is not None:
        gain = gain - less(k)
    name = "period" if unit == "s" else "wavelength"
    attrs = {"long_name": f"gain of {op}", "units": "1"}
    return xr.DataArray(gain, {name: (name, waves, {"units": unit, "long_name": name})}, name="gain", attrs=attrs)


def _is_duration(value: Any) -> bool:
    """Whether a bound is of time: a timedelta, or words whose unit pandas knows and no length has."""
    if isinstance(value, str):
        try:
            measured("response", "bound", value, "m")
        except ValueError:
            return True
        return False
    return hasattr(value, "total_seconds") or isinstance(value, np.timedelta64)
