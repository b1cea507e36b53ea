"""The fast Hankel transform of scipy.fft and its inverse."""

from __future__ import annotations

from typing import Any

from spectralops.fft._engines import hankel

__all__ = ["fht", "ifht"]


def fht(a: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """Fast Hankel transform, of logarithmically spaced samples.

    ::

        A(k) = integral over r from 0 to infinity of a(r) J_mu(k r) k dr

    Parameters
    ----------
    a : array
        Real, of shape (…, n), sampled at points with uniform logarithmic spacing.
    dln : float
        The logarithmic spacing; not zero.
    mu : float
        Order of the transform.
    offset : float
        Offset of the logarithmic spacing of the result: ln(k_c r_c), see :func:`fhtoffset`.
    bias : float
        Exponent of the power law by which the data are divided before and multiplied after.

    Returns
    -------
    array
        Real, of the shape of `a`.

    References
    ----------
    A. J. S. Hamilton, MNRAS 312 (2000) 257, appendix B.

    Raises
    ------
    TypeError
        If `a` is complex, no array of numbers, or a tensor that requires grad.
    ValueError
        If the last axis of `a` is empty or `dln` is zero.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.fht([1.0, 1.0, 1.0, 1.0], dln=0.5, mu=0.0).round(4)
    array([1., 1., 1., 1.])
    """
    return hankel("fht", "a", a, dln, mu, offset, bias)


def ifht(A: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """Inverse of :func:`fht`.

    ::

        a(r) = integral over k from 0 to infinity of A(k) J_mu(k r) r dk

    Parameters
    ----------
    A : array
        Real, of shape (…, n), sampled at points with uniform logarithmic spacing.
    dln : float
        The logarithmic spacing; not zero.
    mu : float
        Order of the transform.
    offset : float
        Offset of the logarithmic spacing of the result: ln(k_c r_c), see :func:`fhtoffset`.
    bias : float
        Exponent of the power law by which the data are divided before and multiplied after.

    Returns
    -------
    array
        Real, of the shape of `A`.

    References
    ----------
    A. J. S. Hamilton, MNRAS 312 (2000) 257, appendix B.

    Raises
    ------
    TypeError
        If `A` is complex, no array of numbers, or a tensor that requires grad.
    ValueError
        If the last axis of `A` is empty or `dln` is zero.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.ifht(fft.fht([1.0, 2.0, 2.0, 1.0], 0.5, 0.0), 0.5, 0.0).round(12)
    array([1., 2., 2., 1.])
    """
    return hankel("ifht", "A", A, dln, mu, offset, bias)
