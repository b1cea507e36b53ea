"""Filters: symbols that keep a part of the spectrum."""

from __future__ import annotations

from collections.abc import Sequence

from spectralops import _checks
from spectralops._plans.transfers import Band, Butterworth, Dealias, Gaussian, Transfer
from spectralops.transfer._arguments import cutoff, numbers, width

__all__ = ["bandpass", "butterworth", "dealias", "gaussian", "highpass", "lowpass"]


def gaussian(sigma: float | Sequence[float]) -> Transfer:
    """Gaussian smoothing: convolution with a normal density of standard deviation `sigma`.

    H(k) = exp(-sum_j sigma_j^2 k_j^2 / 2), applied as one factor per axis. The mean is kept.

    Parameters
    ----------
    sigma : float or sequence of float
        Standard deviation [L], not negative; one for all axes or one per transformed axis.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If `sigma` is no real number or sequence of them.
    ValueError
        If an entry is negative or not finite, or there is none.

    Examples
    --------
    >>> float(gaussian(2.0)(0.0)), round(float(gaussian(2.0)(0.5)), 6)
    (1.0, 0.606531)
    """
    widths = numbers("gaussian", "sigma", sigma)
    return Gaussian(tuple(width("gaussian", "sigma", s) ** 2 / 2 for s in widths))


def lowpass(*, wavelength: float | None = None, wavenumber: float | None = None) -> Transfer:
    """Sharp low-pass: keeps the modes with |k| up to the cutoff.

    H(k) = 1 where |k| <= k_c, else 0. A mode within a relative 1e-9 of the cutoff counts as being at it.

    Parameters
    ----------
    wavelength : float, optional
        Shortest wavelength that is kept [L], k_c = 2*pi/wavelength.
    wavenumber : float, optional
        The cutoff k_c itself as an angular wavenumber [rad/L]. Exactly one of the two is given.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If both or neither are given, or the cutoff is no real number.
    ValueError
        If the cutoff is not positive and finite.

    Examples
    --------
    >>> lowpass(wavenumber=2.0)([0.0, 1.0, 2.0, 3.0])
    array([1., 1., 1., 0.])
    """
    return Band(None, cutoff("lowpass", wavelength, wavenumber))


def highpass(*, wavelength: float | None = None, wavenumber: float | None = None) -> Transfer:
    """Sharp high-pass: what :func:`lowpass` with the same cutoff removes.

    H(k) = 1 where |k| > k_c, else 0.

    Parameters
    ----------
    wavelength : float, optional
        Wavelengths shorter than this are kept [L], k_c = 2*pi/wavelength.
    wavenumber : float, optional
        The cutoff k_c itself as an angular wavenumber [rad/L]. Exactly one of the two is given.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If both or neither are given, or the cutoff is no real number.
    ValueError
        If the cutoff is not positive and finite.

    Examples
    --------
    >>> highpass(wavenumber=2.0)([0.0, 1.0, 2.0, 3.0])
    array([0., 0., 0., 1.])
    """
    return Band(cutoff("highpass", wavelength, wavenumber), None)


def bandpass(*, wavelength: Sequence[float] | None = None, wavenumber: Sequence[float] | None = None) -> Transfer:
    """Sharp band-pass: the modes between two cutoffs, in either order.

    H(k) = 1 where k_low < |k| <= k_high, else 0, so that low-pass, adjoining bands and high-pass add up to 1.

    Parameters
    ----------
    wavelength : sequence of two floats, optional
        The wavelengths that bound the band [L].
    wavenumber : sequence of two floats, optional
        The angular wavenumbers that bound it [rad/L]. Exactly one of the two is given.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If both or neither are given, or a bound is no real number.
    ValueError
        If there are not two different bounds, or one is not positive and finite.

    Examples
    --------
    >>> bandpass(wavenumber=(1.0, 2.0))([0.0, 1.0, 2.0, 3.0])
    array([0., 0., 1., 0.])
    """
    given = wavelength if wavenumber is None else wavenumber
    if given is not None and _checks.entries(given) != 2:
        raise ValueError(f"bandpass: the band is {_checks.shown(given)}, but must be a sequence of two bounds")
    waves = (None, None) if wavelength is None else wavelength
    wavenumbers = (None, None) if wavenumber is None else wavenumber
    low, high = sorted(cutoff("bandpass", w, k) for w, k in zip(waves, wavenumbers, strict=True))
    if low == high:
        raise ValueError(f"bandpass: both bounds are {given[0] if given else low}, but must differ")
    return Band(low, high)


def butterworth(
    order: int, *, wavelength: float | None = None, wavenumber: float | None = None, btype: str = "lowpass"
) -> Transfer:
    """Butterworth filter: maximally flat, with gain 1/sqrt(2) at the cutoff and no phase shift.

    H(k) = 1/sqrt(1 + (|k|/k_c)^(2 order)); for a high-pass the ratio is inverted [1]_.

    Parameters
    ----------
    order : int
        Steepness, 1 or more: the gain falls by 6 dB per octave and order.
    wavelength : float, optional
        Wavelength at the cutoff [L], k_c = 2*pi/wavelength.
    wavenumber : float, optional
        The cutoff k_c itself as an angular wavenumber [rad/L]. Exactly one of the two is given.
    btype : {"lowpass", "highpass"}
        Which side passes.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If both or neither cutoffs are given, or an argument is of the wrong kind.
    ValueError
        If the order is below 1, the cutoff not positive and finite, or `btype` another word.

    References
    ----------
    .. [1] S. Butterworth, "On the theory of filter amplifiers", Wireless Engineer 7 (1930) 536-541.

    Examples
    --------
    >>> butterworth(2, wavenumber=1.0)([0.0, 1.0, 2.0]).round(4)
    array([1.    , 0.7071, 0.2425])
    """
    steepness = _checks.integer("butterworth", "order", order, 1)
    kind = _checks.choice("butterworth", "btype", btype, ("lowpass", "highpass"))
    return Butterworth(steepness, cutoff("butterworth", wavelength, wavenumber), kind == "highpass")


def dealias(fraction: float = 2 / 3) -> Transfer:
    """Truncation against aliasing: by default the 2/3 rule for quadratic products.

    H(k) = 1 where |k_j| < fraction * pi/spacing_j along every axis, else 0, applied as one factor per axis. A mode is
    removed as soon as one component is too high, and +k and -k alike: of n points 3|m| < n waves are kept [1]_.

    Parameters
    ----------
    fraction : float
        Part of the grid's Nyquist wavenumber that is kept, in (0, 1]: 2/3 for products of two, 1/2 of three.

    Returns
    -------
    Transfer
        The symbol. It depends on the grid, so it cannot be called with wavenumbers.

    Raises
    ------
    TypeError
        If `fraction` is no real number.
    ValueError
        If it does not lie in (0, 1].

    References
    ----------
    .. [1] S. A. Orszag, "On the elimination of aliasing in finite-difference schemes by filtering high-wavenumber
       components", J. Atmos. Sci. 28 (1971) 1074.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import spectral_filter
    >>> x = 2 * np.pi * np.arange(12) / 12
    >>> bool(np.allclose(spectral_filter(np.cos(3 * x) + np.cos(4 * x), dealias()), np.cos(3 * x)))
    True
    """
    kept = _checks.positive("dealias", "fraction", fraction)
    if kept > 1:
        raise ValueError(f"dealias: fraction is {kept}, but must not exceed 1, which keeps all below Nyquist")
    return Dealias(kept)
