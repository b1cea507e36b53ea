"""Gradients of the spectral operators with respect to their coefficients; those of fields are the plans' adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops import _arrays
from spectralops._plans import spectral_conv_gradient as _gradient
from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

__all__ = ["plan_spectral_conv_weight_gradient", "spectral_conv_weight_gradient"]


def spectral_conv_weight_gradient(
    x: Any,
    gradient: Any,
    modes: int | Sequence[int],
    /,
    *,
    depthwise: bool = False,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    """Gradient of a loss with respect to the weight of :func:`spectral_conv`, from that with respect to its result.

    G[i, o, k] = c_k/|N| sum_b conj(F_N[x])[b, i, k] F_M[g][b, o, k] over the kept wavenumbers k, with unnormalised
    transforms over the grids N of x and M of g = dL/dy; for real x, c_k counts k and -k, 2 but at zero and Nyquist of
    M on the halved axis, where it is 1; for complex x it is 1.

    Parameters
    ----------
    x : array
        What was convolved, (..., C_in, N_1, ..., N_d).
    gradient : array
        The loss's gradient with respect to the result, (..., C_out, M_1, ..., M_d), real or complex as x is.
    modes : int or sequence of int
        Kept wavenumbers along each transform axis: the last d sizes of the weight.
    depthwise : bool
        Whether each channel has a weight of its own.
    axes : int or sequence of int, optional
        The last d axes of x in the order of `modes`; by default increasing.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Most threads to use, as in :mod:`scipy.fft`; small work keeps to one. The result does not depend on it.
    backend : {"cpu", "numpy", "cuda", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        Complex (C_in, C_out, m_1, ..., m_d), or (C, m_1, ..., m_d) for single channels, of the library and device of x
        and of its precision: complex64 also for 16-bit fields.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, only one field is complex, or arrays differ in library or device.
    ValueError
        If batch, channels, modes, axes or sizes do not fit.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    A complex gradient means dL/dRe + i dL/dIm, as in PyTorch; JAX's is its conjugate. A weight given as pairs of real
    numbers has the same gradient as pairs. The gradient with respect to x is the convolution plan's ``adjoint()`` [1]_.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021), eq. 4-5,
       differentiated.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import spectral_conv_weight_gradient
    >>> x = np.cos(2 * np.pi * np.arange(8) / 8).reshape(1, 1, 8)
    >>> spectral_conv_weight_gradient(x, np.ones((1, 1, 8)) + x, 2).round(6) + 0.0
    array([[[0.+0.j, 4.+0.j]]])
    """
    home, spec = _arrays.describe("spectral_conv_weight_gradient", "x", x)
    plan = _gradient.plan_spectral_conv_weight_gradient(
        spec.shape,
        spec.dtype,
        gradient,
        modes,
        depthwise=depthwise,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    return plan(x, gradient, out=out, workers=workers)


def plan_spectral_conv_weight_gradient(
    shape: Sequence[int],
    dtype: Any,
    gradient: Any,
    modes: int | Sequence[int],
    *,
    depthwise: bool = False,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> SpectralConvWeightGradientPlan:
    """Plan :func:`spectral_conv_weight_gradient` for fields of one shape and dtype.

    ``spectral_conv_weight_gradient(x, g, m, ...)`` equals
    ``plan_spectral_conv_weight_gradient(x.shape, x.dtype, g, m, ...)(x, g)``.

    Parameters
    ----------
    shape, dtype
        Of x.
    gradient : array or ArraySpec
        The gradient with respect to the result, of which shape and dtype matter.
    modes, depthwise, axes, backend
        As for :func:`spectral_conv_weight_gradient`.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    SpectralConvWeightGradientPlan
        A frozen, hashable value; call it with x and the gradient.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`spectral_conv_weight_gradient`.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import plan_spectral_conv_weight_gradient
    >>> plan = plan_spectral_conv_weight_gradient((8, 3, 64, 64), "float32", np.zeros((8, 5, 64, 64)), (12, 7))
    >>> plan.out_shape, plan.out_dtype
    ((3, 5, 12, 7), 'complex64')
    """
    return _gradient.plan_spectral_conv_weight_gradient(
        shape, dtype, gradient, modes, depthwise=depthwise, axes=axes, backend=backend, device=device
    )
