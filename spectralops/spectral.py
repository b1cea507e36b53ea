"""Spectral operators: multiply, mix or resample the Fourier coefficients of a periodic field, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spectralops import _arrays
from spectralops._plans import spectral as _filter
from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["plan_spectral_filter", "spectral_filter"]


def spectral_filter(
    x: Any,
    transfer: Any | tuple[Any, ...] | Callable[..., Any],
    /,
    *,
    spacing: float | Sequence[float] = 1.0,
    pad_width: int | str | Sequence[int | str] = 0,
    pad_mode: str = "zero",
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    """Multiply the Fourier coefficients of a field by a transfer function.

    y = F^-1[ H(k) F[x](k) ] along `axes`, the other axes being a batch: ``irfftn(rfftn(x) * H)`` in one call. The same
    for every normalisation of the transforms, which is why there is no `norm`.

    Parameters
    ----------
    x : array
        Field, real or complex, with any number of dimensions.
    transfer : array, tuple of arrays, or callable
        H. An array broadcasts by NumPy's rule against the spectrum: the shape of x with each transformed axis at its
        padded length n, the last listed one at n//2 + 1 for real x (wavenumbers 0, 1, ... as in ``numpy.fft.rfftn``).
        A tuple has one such factor per axis, in the order of `axes`, multiplied together and never expanded: (ny, 1)
        and (nx//2 + 1,) for two axes. A callable is ``H(k_0, ..., k_{d-1})`` of broadcastable NumPy float64 arrays of
        angular wavenumbers [rad/L], whatever the library of x; it is evaluated on the host at every call and may
        return a tuple of factors. A value of :mod:`spectralops.transfer` is sampled once and cached.
    spacing : float or sequence of float
        Distance between points along each transformed axis [L]. Only callables and transfer values depend on it.
    pad_width : int, "auto", or sequence of them
        Cells added on each side of each transformed axis before the transform and cropped after; ``"auto"`` adds the
        few that reach the next fast size. None by default: the field is periodic.
    pad_mode : {"zero", "reflect", "edge"}
        What they hold, as in ``numpy.pad``: zeros, the mirror image about the end cell, or the end cell's value.
    axes : int or sequence of int, optional
        Transformed axes. By default the only one of a 1-d array, else as many of the last as a tuple of `spacing`,
        `pad_width` or `transfer` has entries, else the last two. Real x has its spectrum halved along the last listed.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Number of threads, as in :mod:`scipy.fft`.
    backend : {"cpu", "numpy", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        Of the library, device, shape and dtype of x; integers and bool become the library's default float.

    Raises
    ------
    TypeError
        If `x` or `transfer` is of the wrong kind, or arrays differ in library or device.
    ValueError
        If shapes, axes, spacing or padding do not fit, an axis is empty, or a callable is not finite somewhere.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    Hermitian rule: for real x the imaginary parts that a real signal's spectrum cannot have (at wavenumber zero and an
    even grid's Nyquist of the halved axis, after the other axes' inverse) are ignored, as in ``numpy.fft.irfftn``.
    16-bit floats are stored as such and computed in float32. The transfer is cast to x's precision. NaN and infinity
    spread over the transform that holds them and never to another batch entry.

    References
    ----------
    .. [1] W. L. Briggs, V. E. Henson, "The DFT: An Owner's Manual", SIAM (1995), ch. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import spectral_filter, transfer
    >>> x = 2 * np.pi * np.arange(8) / 8
    >>> spectral_filter(np.sin(x), transfer.derivative(), spacing=x[1]).round(4) + 0.0
    array([ 1.    ,  0.7071,  0.    , -0.7071, -1.    , -0.7071,  0.    ,  0.7071])
    """
    home, spec = _arrays.describe("spectral_filter", "x", x)
    plan = _filter.plan_spectral_filter(
        spec.shape,
        spec.dtype,
        transfer,
        spacing=spacing,
        pad_width=pad_width,
        pad_mode=pad_mode,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    return plan(x, *_operands(transfer), out=out, workers=workers)


def _operands(transfer: Any) -> tuple[Any, ...]:
    """The arrays among the arguments of a filter."""
    if isinstance(transfer, tuple):
        return transfer
    return (transfer,) if _arrays.is_array(transfer) else ()


def plan_spectral_filter(
    shape: Sequence[int],
    dtype: Any,
    transfer: Any | tuple[Any, ...] | Callable[..., Any],
    *,
    spacing: float | Sequence[float] = 1.0,
    pad_width: int | str | Sequence[int | str] = 0,
    pad_mode: str = "zero",
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> SpectralFilterPlan:
    """Plan :func:`spectral_filter` for fields of one shape and dtype.

    ``spectral_filter(x, H, ...)`` equals ``plan_spectral_filter(x.shape, x.dtype, H, ...)(x, *arrays)`` with the
    arrays of H, none for a callable.

    Parameters
    ----------
    shape, dtype
        Of the field.
    transfer, spacing, pad_width, pad_mode, axes, backend
        As for :func:`spectral_filter`; the arrays of the transfer may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    SpectralFilterPlan
        A frozen, hashable value; call it with x and the transfer's arrays.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`spectral_filter`.

    Examples
    --------
    >>> from spectralops import plan_spectral_filter, transfer
    >>> plan = plan_spectral_filter((16, 64, 64), "float32", transfer.gaussian(2.0))
    >>> plan.axes, plan.spectrum_shape
    ((1, 2), (16, 64, 33))
    """
    return _filter.plan_spectral_filter(
        shape,
        dtype,
        transfer,
        spacing=spacing,
        pad_width=pad_width,
        pad_mode=pad_mode,
        axes=axes,
        backend=backend,
        device=device,
    )
