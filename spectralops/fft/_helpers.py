"""The helper functions of scipy.fft that make or move arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import scipy.fft

from spectralops import _checks
from spectralops.fft._engines import shift

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(n: int, d: float = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """Frequencies of the bins of :func:`fft`, in cycles per unit of `d`: (0, 1, …, -2, -1) / (n d).

    Parameters
    ----------
    n : int
        Length of the transform, at least 1.
    d : float
        Spacing of the samples.
    xp : module, optional
        The array library of the result; NumPy by default.
    device : optional
        Where the result is made, in the words of `xp`.

    Returns
    -------
    array
        Of length `n`; the Nyquist frequency of even `n` is negative.

    Raises
    ------
    TypeError
        If `n` is no integer.
    ValueError
        If `n` is below 1 or `d` is zero.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.fftfreq(4, d=0.5)
    array([ 0. ,  0.5, -1. , -0.5])
    """
    return _frequencies("fftfreq", n, d, xp, device)


def rfftfreq(n: int, d: float = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """Frequencies of the bins of :func:`rfft`, in cycles per unit of `d`: (0, 1, …, n//2) / (n d).

    Parameters
    ----------
    n : int
        Length of the transform, at least 1.
    d : float
        Spacing of the samples.
    xp : module, optional
        The array library of the result; NumPy by default.
    device : optional
        Where the result is made, in the words of `xp`.

    Returns
    -------
    array
        Of length n//2 + 1.

    Raises
    ------
    TypeError
        If `n` is no integer.
    ValueError
        If `n` is below 1 or `d` is zero.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.rfftfreq(4, d=0.5)
    array([0. , 0.5, 1. ])
    """
    return _frequencies("rfftfreq", n, d, xp, device)


def _frequencies(name: str, n: Any, d: Any, xp: Any, device: Any) -> Any:
    n = _checks.integer(name, "n", n, 1)
    if d == 0:
        raise ValueError(f"{name}: d is {d}, but must not be zero")
    if xp is not None and xp.__name__.endswith("cupy"):  # its functions take no device
        with nullcontext() if device is None else xp.cuda.Device(device):
            return getattr(xp.fft, name)(n, d)
    return getattr(scipy.fft, name)(n, d, xp=xp, device=device)


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Move the zero frequency from the beginning to the middle: roll by n//2.

    Parameters
    ----------
    x : array
        Of any dtype.
    axes : int or sequence of int, optional
        The axes to roll; all by default.

    Returns
    -------
    array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `axes` are no integers.
    IndexError
        If an axis is none of x's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.fftshift([0, 1, 2, -2, -1])
    array([-2, -1,  0,  1,  2])
    """
    return shift("fftshift", x, axes)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Inverse of :func:`fftshift`, from which it differs for odd lengths: roll by -(n//2).

    Parameters
    ----------
    x : array
        Of any dtype.
    axes : int or sequence of int, optional
        The axes to roll; all by default.

    Returns
    -------
    array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `axes` are no integers.
    IndexError
        If an axis is none of x's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.ifftshift([-2, -1, 0, 1, 2])
    array([ 0,  1,  2, -2, -1])
    """
    return shift("ifftshift", x, axes)
