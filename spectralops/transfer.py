"""The transfer library: symbols of common filters and differential operators for :func:`spectralops.spectral_filter`.

Each function returns a value: frozen, hashable, picklable, equal to another made from the same arguments. Pass it as
the `transfer` of ``spectral_filter``, which samples it on the grid of the data with the physical `spacing`; call it to
see the symbol at any angular wavenumbers, ``gaussian(2.0)(k)``. With several axes, one wavenumber array each.

Wavenumbers are angular, k = 2*pi/wavelength [rad/L], in the unit of length [L] that `spacing` has; |k|^2 is the sum of
k_j^2 over the transformed axes. At an even grid's Nyquist wavenumber, where +k and -k are one mode, the mean of the
symbol over both signs applies: odd derivatives are zero there and even ones are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from spectralops import _checks
from spectralops._plans.transfers import (
    Band,
    Butterworth,
    Dealias,
    Derivative,
    Gaussian,
    Laplacian,
    Riesz,
    Shift,
    Transfer,
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
    widths = _numbers("gaussian", "sigma", sigma)
    return Gaussian(tuple(_width("gaussian", "sigma", s) ** 2 / 2 for s in widths))


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
    return Band(None, _cutoff("lowpass", wavelength, wavenumber))


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
    return Band(_cutoff("highpass", wavelength, wavenumber), None)


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
    numbers = (None, None) if wavenumber is None else wavenumber
    low, high = sorted(_cutoff("bandpass", w, k) for w, k in zip(waves, numbers, strict=True))
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
    return Butterworth(steepness, _cutoff("butterworth", wavelength, wavenumber), kind == "highpass")


def derivative(order: int | Sequence[int] = 1, axis: int | None = None) -> Transfer:
    """Derivative of an integer order, along one axis or mixed.

    H(k) = (i k_j)^order, or the product of (i k_j)^order_j. Exact for every mode that the grid resolves.

    Parameters
    ----------
    order : int or sequence of int
        Order of the derivative along `axis`, or one order per transformed axis: ``derivative((1, 1))`` is d2/dxdy.
    axis : int, optional
        Which of the transformed axes, counted in their order; by default the last. Not with a sequence of orders.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If an order or the axis is no integer, or `axis` is given with a sequence.
    ValueError
        If an order is negative.

    Examples
    --------
    >>> derivative(2)([0.0, 1.0, 2.0])
    array([-0., -1., -4.])
    """
    if _checks.entries(order) is None:
        where = -1 if axis is None else _checks.integer("derivative", "axis", axis)
        return Derivative((_checks.integer("derivative", "order", order, 0),), where)
    if axis is not None:
        raise TypeError(
            f"derivative: axis is {_checks.shown(axis)}, but must be left out where order has one entry per axis"
        )
    orders = tuple(_checks.integer("derivative", "order", m, 0) for m in order)  # type: ignore[union-attr]
    if not orders:
        raise ValueError("derivative: order is empty, but must have one entry per transformed axis")
    return Derivative(orders, None)


def laplacian() -> Transfer:
    """Laplace operator: H(k) = -|k|^2.

    Returns
    -------
    Transfer
        The symbol.

    Examples
    --------
    >>> float(laplacian()(3.0, 4.0))
    -25.0
    """
    return Laplacian(1.0, -1)


def inverse_laplacian() -> Transfer:
    """Solution of Poisson's equation lap u = f with zero mean: H(k) = -1/|k|^2, and H(0) = 0.

    The mean of f, for which no periodic solution exists, is left out.

    Returns
    -------
    Transfer
        The symbol.

    Examples
    --------
    >>> inverse_laplacian()([0.0, 1.0, 2.0])
    array([ 0.  , -1.  , -0.25])
    """
    return Laplacian(-1.0, -1)


def heat(nu: float, time: float) -> Transfer:
    """Solution operator of the heat equation u_t = nu lap u after `time`: exact for any duration.

    H(k) = exp(-nu |k|^2 time), applied as one factor per axis.

    Parameters
    ----------
    nu : float
        Diffusivity [L^2/T], not negative.
    time : float
        Duration [T], not negative: the equation cannot be run backwards.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If an argument is no real number.
    ValueError
        If one is negative or not finite.

    Examples
    --------
    >>> round(float(heat(0.1, 2.0)(1.0)), 6)
    0.818731
    """
    return Gaussian((_checks.nonnegative("heat", "nu", nu) * _checks.nonnegative("heat", "time", time),))


def fractional_laplacian(power: float) -> Transfer:
    """Power of the negative Laplace operator: (-lap)^power, H(k) = |k|^(2 power).

    ``power=1`` is -lap, ``0.5`` is |k|, ``0`` the identity. With a negative power the mean is left out, H(0) = 0.

    Parameters
    ----------
    power : float
        The exponent s of (-lap)^s.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If `power` is no real number.
    ValueError
        If it is not finite.

    Examples
    --------
    >>> fractional_laplacian(0.5)([0.0, 1.0, 2.0])
    array([0., 1., 2.])
    """
    return Laplacian(_checks.number("fractional_laplacian", "power", power), 1)


def shift(distance: float | Sequence[float]) -> Transfer:
    """Translation u(x) -> u(x - distance) by any distance, by trigonometric interpolation.

    H(k) = exp(-i sum_j k_j distance_j), applied as one factor per axis; cos(k_j distance_j) at an even grid's Nyquist
    wavenumber.

    Parameters
    ----------
    distance : float or sequence of float
        Displacement towards higher coordinates [L]: one per transformed axis; a number only with one axis.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If `distance` is no real number or sequence of them.
    ValueError
        If an entry is not finite, or there is none.

    Examples
    --------
    >>> complex(shift(math.pi)(1.0)).real
    -1.0
    """
    return Shift(tuple(_checks.number("shift", "distance", d) for d in _numbers("shift", "distance", distance)))


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


def hilbert(axis: int = -1) -> Transfer:
    """Hilbert transform along one axis: cosines become sines and sines become negative cosines.

    H(k) = -i sign(k_j); the mean becomes zero. x + i*hilbert(x) is the analytic signal.

    Parameters
    ----------
    axis : int
        Which of the transformed axes, counted in their order.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If `axis` is no integer.

    Examples
    --------
    >>> complex(hilbert()(2.0)).imag
    -1.0
    """
    return Riesz(_checks.integer("hilbert", "axis", axis), True)


def riesz(axis: int = -1) -> Transfer:
    """Riesz transform: the Hilbert transform's form in several dimensions, one component of it.

    H(k) = -i k_j/|k|, and H(0) = 0. With one axis it is the Hilbert transform [1]_.

    Parameters
    ----------
    axis : int
        Which component j, counted in the order of the transformed axes.

    Returns
    -------
    Transfer
        The symbol.

    Raises
    ------
    TypeError
        If `axis` is no integer.

    References
    ----------
    .. [1] E. M. Stein, "Singular Integrals and Differentiability Properties of Functions", Princeton (1970), ch. III.

    Examples
    --------
    >>> round(complex(riesz(0)(3.0, 4.0)).imag, 9)
    -0.6
    """
    return Riesz(_checks.integer("riesz", "axis", axis), False)


def _numbers(op: str, name: str, value: Any) -> tuple[Any, ...]:
    """The entries of a sequence, or a number as the only entry."""
    if _checks.entries(value) is None:
        return (value,)
    if not value:
        raise ValueError(f"{op}: {name} is empty, but must have one entry per transformed axis")
    return tuple(value)


def _width(op: str, name: str, value: Any) -> float:
    """A length that may be zero."""
    return _checks.length(op, name, value) if _checks.nonnegative(op, name, value) else 0.0


def _cutoff(op: str, wavelength: Any, wavenumber: Any) -> float:
    """The cutoff as an angular wavenumber."""
    if (wavelength is None) == (wavenumber is None):
        both = f"wavelength is {_checks.shown(wavelength)} and wavenumber is {_checks.shown(wavenumber)}"
        raise TypeError(f"{op}: {both}, but exactly one must be given")
    if wavenumber is not None:
        return _checks.length(op, "wavenumber", wavenumber)
    return 2 * math.pi / _checks.length(op, "wavelength", wavelength)
