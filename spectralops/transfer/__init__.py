"""The transfer library: symbols of common filters and differential operators for :func:`spectralops.spectral_filter`.

Each function returns a value: frozen, hashable, picklable, equal to another made from the same arguments. Pass it as
the `transfer` of ``spectral_filter``, which samples it on the grid of the data with the physical `spacing`; call it to
see the symbol at any angular wavenumbers, ``gaussian(2.0)(k)``. With several axes, one wavenumber array each.

Wavenumbers are angular, k = 2*pi/wavelength [rad/L], in the unit of length [L] that `spacing` has; |k|^2 is the sum of
k_j^2 over the transformed axes. At an even grid's Nyquist wavenumber, where +k and -k are one mode, the mean of the
symbol over both signs applies: odd derivatives are zero there and even ones are not.
"""

from __future__ import annotations

from spectralops.transfer._bands import bandpass, butterworth, dealias, gaussian, highpass, lowpass
from spectralops.transfer._operators import (
    derivative,
    fractional_laplacian,
    heat,
    hilbert,
    inverse_laplacian,
    laplacian,
    riesz,
    shift,
)

__all__ = [
    "bandpass",
    "butterworth",
    "dealias",
    "derivative",
    "fractional_laplacian",
    "gaussian",
    "heat",
    "highpass",
    "hilbert",
    "inverse_laplacian",
    "laplacian",
    "lowpass",
    "riesz",
    "shift",
]
