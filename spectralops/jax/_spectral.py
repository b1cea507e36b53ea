"""spectral_filter, spectral_conv and fourier_resample for JAX."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from spectralops import _checks, spectral, spectral_gradients
from spectralops._arrays import ArraySpec
from spectralops._bilinear import FORWARD
from spectralops._plans import transform
from spectralops.jax._bilinear import Call, Family, apply
from spectralops.jax._calls import Job, run, spec_of
from spectralops.jax._values import array, floating, precision, summed

__all__ = ["fourier_resample", "spectral_conv", "spectral_filter"]


class Filter(Family):
    """x times the transfer's values w; options: axes from the end, and the cells of zeros that each is padded by."""

    name = "spectral_filter"

    def weight(self, options: tuple[Any, ...], x: Array, y: Array, w: ArraySpec) -> Array:
        plan = self.plan(spec_of(x), w, x.shape, options, "cpu")
        cells = [(0, 0)] * x.ndim
        for axis, pair in zip(plan.axes, plan.pad, strict=True):
            cells[axis] = pair
        forward = jnp.fft.rfftn if plan.grid.halved else jnp.fft.fftn
        left, right = (forward(jnp.pad(v.astype(plan.compute_dtype), cells), axes=plan.axes) for v in (x, y))
        product = left.conj() * right
        if plan.grid.halved:  # a real inverse counts all but zero and Nyquist twice
            n, axis = plan.sizes[-1], plan.axes[-1]
            k = np.arange(n // 2 + 1)
            counts = np.where((k == 0) | (2 * k == n), 1.0, 2.0).reshape(-1, *(1,) * (x.ndim - 1 - axis))
            product = product * counts.astype(product.real.dtype)
        return summed(product / math.prod(plan.sizes), w.shape, w.dtype)


class SpectralConvolution(Family):
    """Truncated modes times the weight; options: depthwise, axes from the end."""

    name = "spectral_conv"

    def weight(self, options: tuple[Any, ...], x: Array, y: Array, w: ArraySpec) -> Array:
        depthwise, axes = options
        is_complex = np.dtype(w.dtype).kind == "c"
        shape = w.shape if is_complex else w.shape[:-1]
        values = w.dtype if is_complex else precision(w.dtype)[1].dtype.name
        modes = shape[1 if depthwise else 2 :]
        job = Job(_weight_gradient, (spec_of(x), spec_of(y)), (modes, depthwise, axes), ArraySpec(shape, values))
        gradient = run(job, x, y)
        return gradient if is_complex else jnp.stack([gradient.real, gradient.imag], -1).astype(w.dtype)


def _weight_gradient(
    specs: tuple[ArraySpec, ...], device: str, modes: tuple[int, ...], depthwise: bool, axes: tuple[int, ...]
) -> Any:
    x, y = specs
    return spectral_gradients.plan_spectral_conv_weight_gradient(
        x.shape, x.dtype, y, modes, depthwise=depthwise, axes=axes, device=device
    )


class Resample(Family):
    """Band-limited interpolation; options: axes from the end."""

    name = "fourier_resample"

    def weight(self, options: tuple[Any, ...], x: Array, y: Array, w: ArraySpec) -> Array:
        raise AssertionError("an operator without weight has no weight gradient")


def spectral_filter(
    x: Array,
    transfer: Array | tuple[Array, ...] | Callable[..., Any],
    /,
    *,
    spacing: float | Sequence[float] = 1.0,
    pad_width: int | str | Sequence[int | str] = 0,
    pad_mode: str = "zero",
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Differentiable :func:`spectralops.spectral_filter` of JAX arrays.

    y = F^-1[ H(k) F[x](k) ]. The gradient with respect to x is the filter with the conjugate transfer; that with
    respect to H is c(k) conj(F[x]) F[g] / N summed over the axes that H is broadcast along, where c counts a wavenumber
    of a halved axis twice unless it is zero or Nyquist [1]_.

    Parameters
    ----------
    x : Array
        Field, real or complex.
    transfer : Array, tuple of Array, or callable
        H as for :func:`spectralops.spectral_filter`. A callable's values are constants.
    spacing, pad_width, pad_mode, axes
        As for :func:`spectralops.spectral_filter`.

    Returns
    -------
    Array
        Of the shape and dtype of x.

    Raises
    ------
    TypeError
        If `x` is no array, or `transfer` is of the wrong kind.
    ValueError
        If shapes, axes, spacing or padding do not fit.

    References
    ----------
    .. [1] W. L. Briggs, V. E. Henson, "The DFT: An Owner's Manual", SIAM (1995), ch. 4.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import spectral_filter
    >>> mean = lambda x: (spectral_filter(x, jnp.array([1.0, 0.0, 0.0])) ** 2).sum()
    >>> jax.grad(mean)(jnp.arange(4.0))
    Array([3., 3., 3., 3.], dtype=float32)
    """
    op = "spectral_filter"
    x = floating(array(op, "x", x))
    several = isinstance(transfer, tuple)
    given: tuple[Any, ...] = transfer if isinstance(transfer, tuple) else () if callable(transfer) else (transfer,)
    given = tuple(array(op, f"transfer[{j}]" if several else "transfer", factor) for j, factor in enumerate(given))
    counts = {
        "spacing": _checks.entries(spacing),
        "pad_width": _checks.entries(pad_width),
        "transfer": len(given) if several else getattr(transfer, "count", None),
    }
    chosen = tuple(axis - x.ndim for axis in _checks.axes(op, axes, x.ndim, counts))
    widths: tuple[int | str, ...] = _checks.per_axis(op, "pad_width", pad_width, len(chosen))
    if pad_mode != "zero" and any(width != 0 for width in widths):
        _checks.choice(op, "pad_mode", pad_mode, ("reflect", "edge"))
        cells, own = [(0, 0)] * x.ndim, [slice(None)] * x.ndim
        for axis, width in zip(chosen, widths, strict=True):
            n = x.shape[axis]
            whole = transform.fast_size(n) if isinstance(width, str) else n + 2 * width
            low = (whole - n) // 2
            cells[axis], own[axis] = (low, whole - n - low), slice(low, low + n)
        wide = jnp.pad(x, cells, mode=pad_mode)
        return spectral_filter(wide, transfer, spacing=spacing, axes=chosen)[tuple(own)]
    if given:
        kinds = precision(x.dtype)
        values = functools.reduce(jnp.multiply, [f.astype(kinds[jnp.iscomplexobj(f)]) for f in given])
    else:
        plan = spectral.plan_spectral_filter(
            x.shape, spec_of(x).dtype, transfer, spacing=spacing, pad_width=widths, axes=chosen
        )
        symbol = functools.reduce(np.multiply, plan.symbol())
        batch = [axis for axis in range(x.ndim) if axis - x.ndim not in chosen]
        shape = [1 if axis in batch else n for axis, n in enumerate(plan.spectrum_shape)]
        values = jnp.asarray(np.broadcast_to(symbol, shape))
    return apply(Call(FORWARD, op, (chosen, widths)), x, values, x.shape, x.dtype)


def spectral_conv(
    x: Array,
    weight: Array,
    /,
    *,
    depthwise: bool = False,
    out_shape: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Differentiable :func:`spectralops.spectral_conv` of JAX arrays: the layer of a Fourier neural operator.

    y_o = P^T sum_i W_io(k) P F[x_i](k), transformed back. The gradient with respect to x is the same operator with the
    conjugate transpose of the weight and the grids swapped; that with respect to W is
    :func:`spectralops.spectral_conv_weight_gradient`. Both are differentiable again, to every order.

    Parameters
    ----------
    x : Array
        Field (..., C_in, N_1, ..., N_d), real or complex.
    weight : Array
        Complex, or real with a last axis of real and imaginary parts; as for :func:`spectralops.spectral_conv`.
    depthwise, out_shape, axes
        As for :func:`spectralops.spectral_conv`.

    Returns
    -------
    Array
        (..., C_out, M_1, ..., M_d) of the dtype of x.

    Raises
    ------
    TypeError
        If an argument is no array.
    ValueError
        If channels, modes, axes or sizes do not fit.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021), eq. 4-5.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import spectral_conv
    >>> gradient = jax.grad(lambda w: spectral_conv(jnp.ones((1, 1, 8)), w).sum())(jnp.zeros((1, 1, 3, 2)))
    >>> jnp.abs(gradient[0, 0].round()).tolist()
    [[8.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    op = "spectral_conv"
    x, weight = floating(array(op, "x", x)), array(op, "weight", weight)
    is_complex = jnp.iscomplexobj(weight)
    d = weight.ndim - (1 if depthwise else 2) - (0 if is_complex else 1)
    counts = {"weight's modes": d, "out_shape": _checks.entries(out_shape)}
    chosen = tuple(axis - x.ndim for axis in _checks.axes(op, axes, x.ndim, counts))
    weight = weight.astype(precision(x.dtype)[is_complex])
    shape = list(x.shape)
    if not depthwise:
        shape[-d - 1] = weight.shape[1]
    if out_shape is not None:
        for axis, n in zip(chosen, _checks.per_axis(op, "out_shape", out_shape, d), strict=True):
            shape[axis] = n
    return apply(Call(FORWARD, op, (depthwise, chosen)), x, weight, shape, x.dtype)


def fourier_resample(x: Array, shape: int | Sequence[int], /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Differentiable :func:`spectralops.fourier_resample` of a JAX array.

    The trigonometric polynomial through x, on another grid; its gradient is the transposed map.

    Parameters
    ----------
    x : Array
        Periodic field, real or complex.
    shape : int or sequence of int
        New lengths of the axes.
    axes
        As for :func:`spectralops.fourier_resample`.

    Returns
    -------
    Array
        Of the dtype of x.

    Raises
    ------
    TypeError
        If `x` is no array.
    ValueError
        If sizes or axes do not fit.

    References
    ----------
    .. [1] W. L. Briggs, V. E. Henson, "The DFT: An Owner's Manual", SIAM (1995), ch. 3.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spectralops.jax import fourier_resample
    >>> fourier_resample(jnp.array([1.0, 0.0, -1.0, 0.0]), 8).round(3).tolist()[:3]
    [1.0, 0.7070000171661377, 0.0]
    """
    op = "fourier_resample"
    x = floating(array(op, "x", x))
    chosen = tuple(axis - x.ndim for axis in _checks.axes(op, axes, x.ndim, {"shape": _checks.entries(shape)}))
    target = list(x.shape)
    for axis, n in zip(chosen, _checks.per_axis(op, "shape", shape, len(chosen)), strict=True):
        target[axis] = n
    return apply(Call(FORWARD, op, (chosen,)), x, jnp.zeros(0, x.dtype), target, x.dtype)
