"""The cosine transforms of scipy.fft."""

# ruff: noqa: A002, SciPy names a parameter "type".

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops.fft._arguments import Norm, Sizes, Type
from spectralops.fft._engines import real_transform

__all__ = ["dct", "dctn", "idct", "idctn"]


def dct(
    x: Any,
    type: Type = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Any:
    """Discrete cosine transform.

    ::

        type 1   y[k] = x[0] + (-1)^k x[n-1] + 2 sum_j x[j] cos(pi j k / (n-1)),   j = 1 … n-2
        type 2   y[k] = 2 sum_j x[j] cos(pi k (2j + 1) / 2n)
        type 3   y[k] = x[0] + 2 sum_j x[j] cos(pi (2k + 1) j / 2n),   j = 1 … n-1
        type 4   y[k] = 2 sum_j x[j] cos(pi (2k + 1) (2j + 1) / 4n)

    Parameters
    ----------
    x : array
        Real; of a complex array, the real and the imaginary part are transformed each by itself.
    type : {1, 2, 3, 4}
        The type.
    n : int, optional
        Length of the transform: `x` is cut or filled up with zeros to it. Default: the length of the axis.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers
        See :mod:`spectralops.fft`.
    orthogonalize : bool, optional
        Scale the end terms so that the transform matrix has orthogonal rows. Default: ``norm == "ortho"``.

    Returns
    -------
    array
        Of the kind of `x`, of length `n` along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, is a tensor that requires grad, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1 (2 for type 1), `axis` is none of x's, `type` or `norm` is none of those named, or
        `workers` is given for an array that is not NumPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> fft.dct(np.ones(4))
    array([8., 0., 0., 0.])
    """
    return real_transform("dct", x, type, n, axis, norm, overwrite_x, workers, orthogonalize)


def idct(
    x: Any,
    type: Type = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Any:
    """Inverse of :func:`dct` of the same type.

    Types 1 and 4 are their own inverses, 2 and 3 each other's, up to the scale that `norm` places.

    Parameters
    ----------
    x : array
        Real; of a complex array, the real and the imaginary part are transformed each by itself.
    type : {1, 2, 3, 4}
        The type.
    n : int, optional
        Length of the transform: `x` is cut or filled up with zeros to it. Default: the length of the axis.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers
        See :mod:`spectralops.fft`.
    orthogonalize : bool, optional
        Scale the end terms so that the transform matrix has orthogonal rows. Default: ``norm == "ortho"``.

    Returns
    -------
    array
        Of the kind of `x`, of length `n` along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, is a tensor that requires grad, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1 (2 for type 1), `axis` is none of x's, `type` or `norm` is none of those named, or
        `workers` is given for an array that is not NumPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.idct([6.0, 0.0, 0.0])
    array([1., 1., 1.])
    """
    return real_transform("idct", x, type, n, axis, norm, overwrite_x, workers, orthogonalize)


def dctn(
    x: Any,
    type: Type = 2,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    orthogonalize: bool | None = None,
) -> Any:
    """Discrete cosine transform in n dimensions: :func:`dct` along each of `axes`.

    Parameters
    ----------
    x : array
        Real; of a complex array, the real and the imaginary part are transformed each by itself.
    type : {1, 2, 3, 4}
        The type.
    s : int or sequence of int, optional
        Length of the transform along each axis (-1: its own): `x` is cut or filled up with zeros.
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers
        See :mod:`spectralops.fft`.
    orthogonalize : bool, optional
        Scale the end terms so that the transform matrix has orthogonal rows. Default: ``norm == "ortho"``.

    Returns
    -------
    array
        Of the kind of `x`, of lengths `s` along `axes`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, is a tensor that requires grad, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1 (2 for type 1), an axis is none of x's or named twice, `s` has not one entry per axis,
        `type` or `norm` is none of those named, or `workers` is given for an array that is not NumPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.dctn([[1.0, 1.0], [1.0, 1.0]])
    array([[16.,  0.],
           [ 0.,  0.]])
    """
    return real_transform("dctn", x, type, s, axes, norm, overwrite_x, workers, orthogonalize)


def idctn(
    x: Any,
    type: Type = 2,
    s: Sizes = None,
    axes: int | Sequence[int] | None = None,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Any:
    """Inverse of :func:`dctn`: :func:`idct` along each of `axes`.

    Parameters
    ----------
    x : array
        Real; of a complex array, the real and the imaginary part are transformed each by itself.
    type : {1, 2, 3, 4}
        The type.
    s : int or sequence of int, optional
        Length of the transform along each axis (-1: its own): `x` is cut or filled up with zeros.
    axes : int or sequence of int, optional
        The axes to transform. Default: the last len(s), or all.
    norm, overwrite_x, workers
        See :mod:`spectralops.fft`.
    orthogonalize : bool, optional
        Scale the end terms so that the transform matrix has orthogonal rows. Default: ``norm == "ortho"``.

    Returns
    -------
    array
        Of the kind of `x`, of lengths `s` along `axes`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, is a tensor that requires grad, or `s` or `axes` are no integers.
    ValueError
        If a length is below 1 (2 for type 1), an axis is none of x's or named twice, `s` has not one entry per axis,
        `type` or `norm` is none of those named, or `workers` is given for an array that is not NumPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.idctn([[16.0, 0.0], [0.0, 0.0]])
    array([[1., 1.],
           [1., 1.]])
    """
    return real_transform("idctn", x, type, s, axes, norm, overwrite_x, workers, orthogonalize)
