"""The Fourier transforms of scipy.fft, in one dimension."""

from __future__ import annotations

from typing import Any

from spectralops.fft._arguments import Norm
from spectralops.fft._engines import transform

__all__ = ["fft", "hfft", "ifft", "ihfft", "irfft", "rfft"]


def fft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Discrete Fourier transform.

    ::

        y[k] = sum_j x[j] exp(-2 pi i j k / n),   k = 0 … n-1

    Parameters
    ----------
    x : array
        Real or complex.
    n : int, optional
        Length of the transform: `x` is cut or filled up with zeros to it. Default: the length of the axis.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of length `n` along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1, `axis` is none of x's, `norm` is none of the three, or `workers` is given for an array
        that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> np.abs(fft.fft(np.array([1.0, 2.0, 1.0, 0.0])))
    array([4., 2., 0., 2.])
    """
    return transform("fft", x, n, axis, norm, overwrite_x, workers, plan)


def ifft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Inverse of :func:`fft`.

    ::

        y[j] = (1/n) sum_k x[k] exp(2 pi i j k / n),   j = 0 … n-1

    Parameters
    ----------
    x : array
        Real or complex.
    n : int, optional
        Length of the transform: `x` is cut or filled up with zeros to it. Default: the length of the axis.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of length `n` along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1, `axis` is none of x's, `norm` is none of the three, or `workers` is given for an array
        that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> fft.ifft(np.array([4, -2j, 0, 2j]))
    array([1.+0.j, 2.+0.j, 1.+0.j, 0.+0.j])
    """
    return transform("ifft", x, n, axis, norm, overwrite_x, workers, plan)


def rfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Discrete Fourier transform of real input: the half of :func:`fft` that determines the rest.

    ::

        y[k] = sum_j x[j] exp(-2 pi i j k / n),   k = 0 … n//2

    Parameters
    ----------
    x : array
        Real; complex input is a TypeError.
    n : int, optional
        Length of the transform: `x` is cut or filled up with zeros to it. Default: the length of the axis.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of length n//2 + 1 along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers or is complex, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1, `axis` is none of x's, `norm` is none of the three, or `workers` is given for an array
        that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> fft.rfft(np.array([1.0, 2.0, 1.0, 0.0]))
    array([4.+0.j, 0.-2.j, 0.+0.j])
    """
    return transform("rfft", x, n, axis, norm, overwrite_x, workers, plan)


def irfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Inverse of :func:`rfft`.

    ::

        y[j] = (1/n) (Re x[0] + 2 Re sum_k x[k] exp(2 pi i j k / n)),   k = 1 … (n-1)//2,

    plus (-1)^j Re x[n/2] / n for even n. The imaginary parts of x[0] and x[n/2] do not enter, on no engine.

    Parameters
    ----------
    x : array
        Half spectrum, complex or real.
    n : int, optional
        Length of the result; `x` is cut or filled up with zeros to n//2 + 1. Default: 2 (m - 1) for length m.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Real, of length `n` along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1, `axis` is none of x's, `norm` is none of the three, or `workers` is given for an array
        that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops.fft as fft
    >>> fft.irfft(np.array([4 + 100j, -2j, 0]))
    array([1., 2., 1., 0.])
    """
    return transform("irfft", x, n, axis, norm, overwrite_x, workers, plan)


def hfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Discrete Fourier transform of a signal with Hermitian symmetry, hence real: n irfft(conj(x)).

    ::

        y[k] = Re x[0] + 2 Re sum_j x[j] exp(-2 pi i j k / n),   j = 1 … (n-1)//2,

    plus (-1)^k Re x[n/2] for even n.

    Parameters
    ----------
    x : array
        The half x[0] … x[n//2] of the signal, complex or real.
    n : int, optional
        Length of the result; `x` is cut or filled up with zeros to n//2 + 1. Default: 2 (m - 1) for length m.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Real, of length `n` along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1, `axis` is none of x's, `norm` is none of the three, or `workers` is given for an array
        that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.hfft([1.0, 2.0, 1.0])
    array([ 6.,  0., -2.,  0.])
    """
    return transform("hfft", x, n, axis, norm, overwrite_x, workers, plan)


def ihfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: Any = None,
) -> Any:
    """Inverse of :func:`hfft`: conj(rfft(x)) / n.

    ::

        y[j] = (1/n) sum_k x[k] exp(2 pi i j k / n),   j = 0 … n//2

    Parameters
    ----------
    x : array
        Real; complex input is a TypeError.
    n : int, optional
        Length of the transform: `x` is cut or filled up with zeros to it. Default: the length of the axis.
    axis : int
        The axis to transform.
    norm, overwrite_x, workers, plan
        See :mod:`spectralops.fft`.

    Returns
    -------
    array
        Complex, of length n//2 + 1 along `axis`.

    Raises
    ------
    TypeError
        If `x` is no array of numbers or is complex, or `n` or `axis` is no integer.
    ValueError
        If a length is below 1, `axis` is none of x's, `norm` is none of the three, or `workers` is given for an array
        that is not NumPy's.
    NotImplementedError
        If `plan` is given for an array that is not CuPy's.

    Examples
    --------
    >>> import spectralops.fft as fft
    >>> fft.ihfft([1.0, 2.0, 3.0, 2.0])
    array([ 2. +0.j, -0.5-0.j,  0. +0.j])
    """
    return transform("ihfft", x, n, axis, norm, overwrite_x, workers, plan)
