"""Spectral operators: multiply, mix or resample the Fourier coefficients of a periodic field, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spectralops import _arrays, _dispatch
from spectralops._plans import resample as _resample
from spectralops._plans import spectral as _filter
from spectralops._plans import spectral_conv as _conv
from spectralops._plans.looks import Known, Looks
from spectralops._plans.resample import FourierResamplePlan
from spectralops._plans.spectral import SpectralFilterPlan
from spectralops._plans.spectral_conv import SpectralConvPlan
from spectralops._plans.transfers import Transfer

__all__ = [
    "fourier_resample",
    "plan_fourier_resample",
    "plan_spectral_conv",
    "plan_spectral_filter",
    "spectral_conv",
    "spectral_filter",
]

_filters = Looks(Known)
_layers = Looks(Known)
_resampled = Looks(Known)


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
        Most threads to use, as in :mod:`scipy.fft`; small work keeps to one.
    backend : {"cpu", "numpy", "cuda", "cupy", "reference"}, optional
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
    options = spacing, pad_width, pad_mode, axes, backend
    if isinstance(transfer, Transfer):
        known, found = _filters.find(x, options, transfer)
    else:
        known, found = _filters.find(x, (transfer, *options))
    if known.plan is not None:
        return known(found, out, workers)
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
    arrays = (x, *_operands(transfer))
    known.keep(plan, found, arrays)
    return _dispatch.execute(plan, arrays, out=out, workers=workers)


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


def spectral_conv(
    x: Any,
    weight: Any,
    /,
    *,
    depthwise: bool = False,
    out_shape: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    """Keep the lowest Fourier modes of a field and mix its channels with a matrix of their own for each mode.

    y_o = P^T sum_i W_io(k) P F[x_i](k), transformed back: the layer of a Fourier neural operator [1]_. P keeps a few
    wavenumbers; the others of y are zero.

    Parameters
    ----------
    x : array
        Field (..., C_in, N_1, ..., N_d), real or complex: batch axes, the channel axis, d transform axes.
    weight : array
        Complex (C_in, C_out, m_1, ..., m_d), or with a real dtype (C_in, C_out, m_1, ..., m_d, 2) of real and imaginary
        parts. On a full axis the m kept wavenumbers are -(m//2), ..., m//2 + m%2 - 1 in increasing order; on the last
        listed axis of a real x they are 0, ..., m - 1. Complex x has full axes only.
    depthwise : bool
        One weight per channel and no mixing: weight (C, m_1, ..., m_d), or (C, m_1, ..., m_d, 2) if real.
    out_shape : int or sequence of int, optional
        Sizes of the transform axes of the result: the same polynomial on another grid. By default those of x.
    axes : int or sequence of int, optional
        The last d axes of x in the order of the weight's modes; by default increasing.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Most threads to use, as in :mod:`scipy.fft`; small work keeps to one. The result does not depend on it. Where
        SciPy and BLAS run instead of the vector engine (``plan.explain()`` says so), BLAS uses threads of its own.
    backend : {"cpu", "numpy", "cuda", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        (..., C_out, M_1, ..., M_d) of the library, device and dtype of x; integers and bool become the library's
        default float.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, or arrays differ in library or device.
    ValueError
        If channels, modes, axes or sizes do not fit: more modes than either grid has, an empty transform axis.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    The forward transform divides by the number of points (``norm="forward"``) and the inverse by nothing, so that
    amplitudes survive `out_shape`. A kept Nyquist wavenumber is copied as it is; :func:`fourier_resample` splits it.
    The spectrum given to the real inverse is whatever the weight makes of it: imaginary parts at wavenumber zero and
    Nyquist of the halved axis, after the other axes' inverse, are ignored, as in ``numpy.fft.irfftn``. The weight is
    cast to the precision of x; 16-bit floats are stored as such and computed in float32. NaN spreads within its batch
    entry only. The plan's ``adjoint()`` is the gradient with respect to x, :func:`spectral_conv_weight_gradient` that
    with respect to the weight.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021), eq. 4-5.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import spectral_conv
    >>> x = np.cos(2 * np.pi * np.arange(8) / 8).reshape(1, 1, 8)
    >>> weight = np.array([0.0, 2.0], dtype=complex).reshape(1, 1, 2)
    >>> spectral_conv(x, weight, out_shape=4).round(6) + 0.0
    array([[[ 2.,  0., -2.,  0.]]])
    """
    known, found = _layers.find(x, (weight, depthwise, out_shape, axes, backend))
    if known.plan is not None:
        return known(found, out, workers)
    home, spec = _arrays.describe("spectral_conv", "x", x)
    plan = _conv.plan_spectral_conv(
        spec.shape,
        spec.dtype,
        weight,
        depthwise=depthwise,
        out_shape=out_shape,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    known.keep(plan, found, (x, weight))
    return plan(x, weight, out=out, workers=workers)


def plan_spectral_conv(
    shape: Sequence[int],
    dtype: Any,
    weight: Any,
    *,
    depthwise: bool = False,
    out_shape: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> SpectralConvPlan:
    """Plan :func:`spectral_conv` for fields of one shape and dtype.

    ``spectral_conv(x, w, ...)`` equals ``plan_spectral_conv(x.shape, x.dtype, w, ...)(x, w)``.

    Parameters
    ----------
    shape, dtype
        Of the field.
    weight : array or ArraySpec
        The weight, of which shape and dtype matter.
    depthwise, out_shape, axes, backend
        As for :func:`spectral_conv`.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    SpectralConvPlan
        A frozen, hashable value; call it with x and the weight. ``adjoint()`` plans the gradient.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`spectral_conv`.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import plan_spectral_conv
    >>> plan = plan_spectral_conv((8, 3, 64, 64), "float32", np.zeros((3, 5, 12, 7), "complex64"))
    >>> plan.out_shape, plan.adjoint().out_shape
    ((8, 5, 64, 64), (8, 3, 64, 64))
    """
    return _conv.plan_spectral_conv(
        shape,
        dtype,
        weight,
        depthwise=depthwise,
        out_shape=out_shape,
        axes=axes,
        backend=backend,
        device=device,
    )


def fourier_resample(
    x: Any,
    out_shape: int | Sequence[int],
    /,
    *,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    """Sample a periodic field's trigonometric interpolant on another grid of the same domain.

    Along each axis y_j = sum_k c_k exp(2 pi i k j/m), |k| <= min(n, m)/2, with c the coefficients of x over n points:
    exact for whatever both grids resolve. Point 0 stays where it is.

    Parameters
    ----------
    x : array
        Field, real or complex, periodic along `axes`.
    out_shape : int or sequence of int
        New length of each axis, in the order of `axes`; a number is for all of them.
    axes : int or sequence of int, optional
        Axes to resample. By default the only one of a 1-d array, else as many of the last as `out_shape` has entries,
        else the last two.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping x.
    workers : int, optional
        Most threads to use, as in :mod:`scipy.fft`; small work keeps to one.
    backend : {"cpu", "numpy", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        The resampled field, of the library, device and dtype of x; integers and bool become the library's default
        float.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If sizes or axes do not fit, or an axis is empty before or after.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    The Nyquist coefficient of an even size stands for two wavenumbers, k and -k: it is split in half on the way to more
    points, and on the way to an even number of fewer points the two are added. So going up and back returns x, real and
    complex input agree, and cos(pi j) stays a cosine of amplitude 1 [1]_. An axis whose length stays is not touched.

    References
    ----------
    .. [1] L. N. Trefethen, "Spectral Methods in MATLAB", SIAM (2000), ch. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import fourier_resample
    >>> fourier_resample(np.array([1.0, -1.0, 1.0, -1.0]), 8).round(6) + 0.0
    array([ 1.,  0., -1.,  0.,  1.,  0., -1.,  0.])
    """
    known, found = _resampled.find(x, (out_shape, axes, backend))
    if known.plan is not None:
        return known(found, out, workers)
    home, spec = _arrays.describe("fourier_resample", "x", x)
    plan = _resample.plan_fourier_resample(
        spec.shape,
        spec.dtype,
        out_shape,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    known.keep(plan, found, (x,))
    return plan(x, out=out, workers=workers)


def plan_fourier_resample(
    shape: Sequence[int],
    dtype: Any,
    out_shape: int | Sequence[int],
    *,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> FourierResamplePlan:
    """Plan :func:`fourier_resample` for fields of one shape and dtype.

    ``fourier_resample(x, sizes, ...)`` equals ``plan_fourier_resample(x.shape, x.dtype, sizes, ...)(x)``.

    Parameters
    ----------
    shape, dtype
        Of the field.
    out_shape, axes, backend
        As for :func:`fourier_resample`.
    device : str
        Where the array will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    FourierResamplePlan
        A frozen, hashable value; call it with x.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`fourier_resample`.

    Examples
    --------
    >>> from spectralops import plan_fourier_resample
    >>> plan_fourier_resample((5, 64, 48), "float32", (128, 48)).out_shape
    (5, 128, 48)
    """
    return _resample.plan_fourier_resample(shape, dtype, out_shape, axes=axes, backend=backend, device=device)
