"""Spectral operators on labelled grids: by name, in kilometres and days, around missing values.

Functions of DataArrays and Datasets, and the same as methods of ``.spectral``. The grid is read from the coordinates
(:func:`grid_layout`): longitude wraps where it is a full circle, latitudes continue over the poles, other ends are
mirrors. Coordinates, order of dimensions, precision, name and attributes come back as they were.
"""

from spectralops.xarray._grid import EARTH_RADIUS, Axis, GridLayout, grid_layout
from spectralops.xarray.accessor import SpectralAccessor
from spectralops.xarray.calculus import (
    derivative,
    inverse_laplacian,
    laplacian,
    streamfunction_potential,
    vorticity_divergence,
)
from spectralops.xarray.diffusion import cell_area, diffuse
from spectralops.xarray.filters import bandpass, convolve, gaussian, highpass, lowpass
from spectralops.xarray.gains import response
from spectralops.xarray.spectra import power_spectrum
from spectralops.xarray.transport import advect_diffuse

__all__ = [
    "EARTH_RADIUS",
    "Axis",
    "GridLayout",
    "SpectralAccessor",
    "advect_diffuse",
    "bandpass",
    "cell_area",
    "convolve",
    "derivative",
    "diffuse",
    "gaussian",
    "grid_layout",
    "highpass",
    "inverse_laplacian",
    "laplacian",
    "lowpass",
    "power_spectrum",
    "response",
    "streamfunction_potential",
    "vorticity_divergence",
]
