"""The same functions as methods, ``u.spectral.lowpass("500 km")``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import xarray as xr

from spectralops.xarray import calculus, diffusion, filters, spectra, transport

__all__ = ["SpectralAccessor"]


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: SpectralAccessor, *args: Any, **kwargs: Any) -> Any:
        return function(self._x, *args, **kwargs)

    return method


@xr.register_dataarray_accessor("spectral")
@xr.register_dataset_accessor("spectral")
class SpectralAccessor:
    """Methods of DataArrays and Datasets that call the functions of :mod:`spectralops.xarray`.

    Parameters
    ----------
    x : DataArray or Dataset
        The first argument of each function.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import spectralops.xarray as sx
    >>> u = xr.DataArray(np.arange(8.0), {"x": np.arange(8.0)})
    >>> bool(u.spectral.lowpass(4.0).equals(sx.lowpass(u, 4.0)))
    True
    """

    def __init__(self, x: Any) -> None:
        self._x = x

    lowpass = _method(filters.lowpass)
    highpass = _method(filters.highpass)
    bandpass = _method(filters.bandpass)
    gaussian = _method(filters.gaussian)
    convolve = _method(filters.convolve)
    diffuse = _method(diffusion.diffuse)
    advect_diffuse = _method(transport.advect_diffuse)
    derivative = _method(calculus.derivative)
    laplacian = _method(calculus.laplacian)
    inverse_laplacian = _method(calculus.inverse_laplacian)
    streamfunction_potential = _method(calculus.streamfunction_potential)
    vorticity_divergence = _method(calculus.vorticity_divergence)
    power_spectrum = _method(spectra.power_spectrum)
