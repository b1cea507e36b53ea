"""What a filter does to each wavelength."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spectralops import _checks, transfer
from spectralops.xarray._units import measured
from spectralops.xarray.diffusion import diffuse
from spectralops.xarray.filters import bandpass, bounds_of, convolve, gaussian, highpass, lowpass, symbols

__all__ = ["response"]


def response(
    filter: Callable[..., Any],  # noqa: A002
    bound: Any,
    *,
    order: int | None = None,
    spacing: Any = None,
    size: int = 201,
) -> xr.DataArray:
    """Gain of a filter at each wavelength, or period: what it multiplies a wave by.

    Parameters
    ----------
    filter : function
        :func:`lowpass`, :func:`highpass`, :func:`bandpass`, :func:`gaussian`, :func:`diffuse` or :func:`convolve`.
    bound : str, float or timedelta, a sequence of two for a band, or a kernel
        Its wavelength, period or sigma; a duration such as ``"10 D"`` means periods, all else metres. Of `convolve`,
        the kernel along one dimension.
    order : int, optional
        Of a Butterworth filter.
    spacing : str, float or timedelta
        Of the points, for `convolve` alone.
    size : int
        Number of wavelengths, evenly spaced in their logarithm, from a tenth of the least to ten times the largest; of
        `convolve` from the shortest that the points show to ten times the kernel.

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
    known = {each.__name__: each for each in (lowpass, highpass, bandpass, gaussian, diffuse, convolve)}
    op = getattr(filter, "__name__", "")
    if known.get(op) is not filter:
        raise TypeError(f"response: filter is {_checks.shown(filter)}, but must be one of {', '.join(sorted(known))}")
    if (spacing is None) == (op == "convolve"):
        must = "be given for convolve" if spacing is None else f"be left out for {op}"
        raise TypeError(f"response: spacing is {_checks.shown(spacing)}, but must {must}")
    count = _checks.integer("response", "size", size, 2)
    if op == "convolve":
        unit = "s" if _is_duration(spacing) else "m"
        waves, gain = _of_kernel(bound, measured("response", "spacing", spacing, unit), count)
    else:
        bounds = bounds_of("response", "bound", bound, op == "bandpass")
        unit = "s" if any(_is_duration(each) for each in bounds) else "m"
        numbers = sorted(measured("response", "bound", each, unit) for each in bounds)
        waves = np.geomspace(numbers[0] / 10, numbers[-1] * 10, count)
        if op in ("gaussian", "diffuse"):
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


def _of_kernel(kernel: Any, spacing: float, count: int) -> tuple[Any, Any]:
    """Wavelengths and the gain of a kernel; its size where it shifts waves."""
    values = np.asarray(kernel, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"response: bound has shape {values.shape}, but must be a kernel along one dimension")
    waves = np.geomspace(2 * spacing, 10 * spacing * max(values.size, 2), count)
    places = spacing * (np.arange(values.size) - (values.size - 1) // 2)
    gain = np.exp(-2j * np.pi * places / waves[:, None]) @ values
    even = values.size % 2 == 1 and np.array_equal(values, values[::-1])
    return waves, gain.real if even else np.abs(gain)


def _is_duration(value: Any) -> bool:
    """Whether a bound is of time: a timedelta, or words whose unit pandas knows and no length has."""
    if isinstance(value, str):
        try:
            measured("response", "bound", value, "m")
        except ValueError:
            return True
        return False
    return hasattr(value, "total_seconds") or isinstance(value, np.timedelta64)
