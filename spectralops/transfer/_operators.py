"""Symbols of differential operators and of their relatives."""

from __future__ import annotations

from collections.abc import Sequence

from spectralops import _checks
from spectralops._plans.transfers import Derivative, Gaussian, Laplacian, Riesz, Shift, Transfer
from spectralops.transfer._arguments import numbers

__all__ = ["derivative", "fractional_laplacian", "heat", "hilbert", "inverse_laplacian", "laplacian", "riesz", "shift"]


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
    >>> import math
    >>> complex(shift(math.pi)(1.0)).real
    -1.0
    """
    return Shift(tuple(_checks.number("shift", "distance", d) for d in numbers("shift", "distance", distance)))


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
