"""The Fourier transforms of scipy.fft, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops.fft._arguments import Norm, Sizes
from spectralops.fft._engines import transform

__all__ = ["fftn", "hfftn", "ifftn", "ihfftn", "irfftn", "rfftn"]


def fftn(
    x: Any,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Discrete Fourier transform in n dimensions: :func:`fft` along each of `axes`.

    Parameters
    ----------
    x : array
        Real or complex.
    s : int or sequence of int, optional
        Length of the transform along each axis (-1: its own): `x` is cut or filled up with zeros.
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of lengths `s` along `axes`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1, an axis is none of x's or named twice, `s` has not one entry per axis, `norm` is none of
        the three, or `workers` is given for an array that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> np.abs(fft.fftn(np.eye(2)))
    array([[2., 0.],
           [0., 2.]])
    """
    return transform("fftn", x, s, axes, norm, overwrite_x, workers, plan)


def ifftn(
    x: Any,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Inverse of :func:`fftn`: :func:`ifft` along each of `axes`.

    Parameters
    ----------
    x : array
        Real or complex.
    s : int or sequence of int, optional
        Length of the transform along each axis (-1: its own): `x` is cut or filled up with zeros.
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of lengths `s` along `axes`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1, an axis is none of x's or named twice, `s` has not one entry per axis, `norm` is none of
        the three, or `workers` is given for an array that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.ifftn([[4.0, 0.0], [0.0, 0.0]])
    array([[1.-0.j, 1.-0.j],
           [1.-0.j, 1.-0.j]])
    """
    return transform("ifftn", x, s, axes, norm, overwrite_x, workers, plan)


def rfftn(
    x: Any,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Discrete Fourier transform of real input in n dimensions.

    :func:`rfft` along the last of `axes`, :func:`fft` along the others.

    Parameters
    ----------
    x : array
        Real; complex input is a TypeError.
    s : int or sequence of int, optional
        Length of the transform along each axis (-1: its own): `x` is cut or filled up with zeros.
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of lengths `s` along `axes`, the last of them s[-1]//2 + 1.

    Raises
    ------
    TypeError
        If `x` is no array of numbers or is complex, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1, an axis is none of x's or named twice, `s` has not one entry per axis, `norm` is none of
        the three, or `workers` is given for an array that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> fft.rfftn(np.ones((4, 6)), axes=(1, 0)).shape
    (3, 6)
    """
    return transform("rfftn", x, s, axes, norm, overwrite_x, workers, plan)


def irfftn(
    x: Any,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Inverse of :func:`rfftn`.

    :func:`ifft` along all of `axes` but the last, then :func:`irfft` along it: imaginary parts of DC and Nyquist that
    are left by then do not enter, on no engine.

    Parameters
    ----------
    x : array
        Half spectrum, complex or real.
    s : int or sequence of int, optional
        Lengths of the result; the default for the last axis, of length m, is 2 (m - 1).
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Real, of lengths `s` along `axes`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1, an axis is none of x's or named twice, `s` has not one entry per axis, `norm` is none of
        the three, or `workers` is given for an array that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> x = np.arange(15.0).reshape(3, 5)
    >>> np.allclose(fft.irfftn(fft.rfftn(x), s=(3, 5)), x)
    True
    """
    return transform("irfftn", x, s, axes, norm, overwrite_x, workers, plan)


def hfftn(
    x: Any,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Discrete Fourier transform in n dimensions of a signal with Hermitian symmetry, hence real.

    :func:`fft` along all of `axes` but the last, then :func:`hfft` along it.

    Parameters
    ----------
    x : array
        The half of the signal that determines the rest, complex or real.
    s : int or sequence of int, optional
        Lengths of the result; the default for the last axis, of length m, is 2 (m - 1).
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Real, of lengths `s` along `axes`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1, an axis is none of x's or named twice, `s` has not one entry per axis, `norm` is none of
        the three, or `workers` is given for an array that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.hfftn([[1.0, 2.0], [0.0, 0.0]])
    array([[ 3., -1.],
           [ 3., -1.]])
    """
    return transform("hfftn", x, s, axes, norm, overwrite_x, workers, plan)


def ihfftn(
    x: Any,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Inverse of :func:`hfftn`.

    :func:`ihfft` along the last of `axes`, :func:`ifft` along the others.

    Parameters
    ----------
    x : array
        Real; complex input is a TypeError.
    s : int or sequence of int, optional
        Length of the transform along each axis (-1: its own): `x` is cut or filled up with zeros.
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of lengths `s` along `axes`, the last of them s[-1]//2 + 1.

    Raises
    ------
    TypeError
        If `x` is no array of numbers or is complex, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1, an axis is none of x's or named twice, `s` has not one entry per axis, `norm` is none of
        the three, or `workers` is given for an array that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.ihfftn([[3.0, -1.0], [3.0, -1.0]])
    array([[1.+0.j, 2.+0.j],
           [0.+0.j, 0.+0.j]])
    """
    return transform("ihfftn", x, s, axes, norm, overwrite_x, workers, plan)
