"""fft_conv2d and convolve for JAX: differentiable in the signal, the kernel and the bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from spectralops import _checks
from spectralops._arrays import ArraySpec
from spectralops._bilinear import BEYOND, FORWARD, PADDING
from spectralops._plans.conv2d import Conv2dPlan
from spectralops._plans.convolve import ConvolvePlan, fill_value
from spectralops.convolution import Epilogue
from spectralops.jax._bilinear import Call, Family, apply
from spectralops.jax._calls import FIRST, LEADING, SEPARATE, spec_of
from spectralops.jax._values import array, floating, summed

__all__ = ["convolve", "fft_conv2d"]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}


class Conv2d(Family):
    """Cross-correlation of (N, C, H, W); options: stride, padding by zeros, dilation, groups, method."""

    name = "fft_conv2d"

    def fold(self, options: tuple[Any, ...], w: ArraySpec) -> int:
        return FIRST

    def weight(self, options: tuple[Any, ...], x: Array, y: Array, w: ArraySpec) -> Array:
        """The batch takes the channels' place: x correlated with the gradients, which lie at the stride."""
        plan: Conv2dPlan = self.plan(spec_of(x), w, y.shape, options, "cpu")
        groups, inputs, outputs = plan.groups, w.shape[1], w.shape[0] // plan.groups
        signal = jnp.pad(x, ((0, 0), (0, 0), *plan.padding))
        n, _, height, width = signal.shape
        # (N, G C, H, W) -> (C, G N, H, W), and (N, G O, h, w) -> (G O, N, h, w)
        signal = signal.reshape(n, groups, inputs, height, width).transpose(2, 1, 0, 3, 4)
        signal = signal.reshape(inputs, groups * n, height, width)
        kernel = y.reshape(n, groups, outputs, *y.shape[2:]).transpose(1, 2, 0, 3, 4)
        kernel = kernel.reshape(groups * outputs, n, *y.shape[2:])
        rows, columns = (
            reach + s * (m - 1) for reach, s, m in zip(plan.kernel, plan.stride, y.shape[-2:], strict=True)
        )
        result = fft_conv2d(
            signal[..., :rows, :columns].conj(), kernel, stride=plan.dilation, dilation=plan.stride, groups=groups
        )
        return summed(result.transpose(1, 0, 2, 3), w.shape, w.dtype)


class Convolve(Family):
    """Convolution with zeros beyond the ends; options: mode, axes from the end, method."""

    name = "convolve"

    def fold(self, options: tuple[Any, ...], w: ArraySpec) -> int:
        _, axes, _ = options
        return LEADING if len(w.shape) == len(axes) else SEPARATE

    def weight(self, options: tuple[Any, ...], x: Array, y: Array, w: ArraySpec) -> Array:
        """w_j = sum over n of conj(x_{n + start - j}) y_n: y convolved with x reversed, cut to the kernel's extent."""
        plan: ConvolvePlan = self.plan(spec_of(x), w, y.shape, options, "cpu")
        whole = convolve(y, jnp.flip(x, plan.axes).conj(), axes=plan.axes)
        for axis, n, start in zip(plan.axes, plan.kernel_lengths, plan.start, strict=True):
            whole = _window(whole, axis, x.shape[axis] - 1 - start, n)
        if len(w.shape) < x.ndim and len(w.shape) == len(plan.axes):  # one kernel, its axes in the order of `axes`
            batch = [axis for axis in range(x.ndim) if axis not in plan.axes]
            whole = whole.transpose(*batch, *plan.axes).sum(tuple(range(len(batch))))
        return summed(whole, w.shape, w.dtype)


def _window(x: Array, axis: int, low: int, count: int) -> Array:
    """`count` elements of x along an axis from `low` on, zero beyond its ends."""
    first, last = max(low, 0), min(low + count, x.shape[axis])
    cells = [(0, 0)] * x.ndim
    cells[axis] = (first - low, low + count - last)
    return jnp.pad(jax.lax.slice_in_dim(x, first, last, axis=axis), cells)


def _promoted(x: Array, weight: Array) -> tuple[Array, Array]:
    """Both in the precision of the two together, and x complex where the weight is."""
    x, weight = floating(x), floating(weight)
    dtype = jnp.promote_types(x.dtype, weight.dtype)
    real = np.zeros((), dtype).real.dtype if jnp.issubdtype(dtype, jnp.complexfloating) else dtype
    return x.astype(dtype), weight.astype(dtype if jnp.iscomplexobj(weight) else real)


def convolve(
    x: Array,
    kernel: Array,
    /,
    *,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: complex = 0,
    axes: int | Sequence[int] | None = None,
    method: str = "auto",
) -> Array:
    """Differentiable :func:`spectralops.convolve` of JAX arrays.

    y_n = sum_j k_j x_(n-j). The gradient with respect to x is the correlation with the conjugate kernel; that with
    respect to the kernel is the correlation of the gradient with x [1]_.

    Parameters
    ----------
    x, kernel : Array
        Signal and kernel.
    mode, boundary, fillvalue, axes, method
        As for :func:`spectralops.convolve`.

    Returns
    -------
    Array
        As :func:`spectralops.convolve` returns.

    Raises
    ------
    TypeError
        If an argument is no array.
    ValueError
        If shapes or options do not fit.

    References
    ----------
    .. [1] M. Mathieu, M. Henaff, Y. LeCun, "Fast training of convolutional networks through FFTs", arXiv:1312.5851
       (2014), section 2.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import convolve
    >>> jax.grad(lambda k: convolve(jnp.array([1.0, 0.0, 3.0]), k).sum())(jnp.array([1.0, 2.0]))
    Array([4., 4.], dtype=float32)
    """
    op = "convolve"
    x, kernel = _promoted(array(op, "x", x), array(op, "kernel", kernel))
    counts = {"kernel": kernel.ndim} if axes is None else None
    chosen = tuple(axis - x.ndim for axis in _checks.axes(op, axes, x.ndim, counts))
    _checks.choice(op, "mode", mode, ("full", "same", "valid"))
    _checks.choice(op, "boundary", boundary, ("fill", *BEYOND))
    fillvalue = fill_value(fillvalue, boundary, x.dtype.name)
    one = kernel.ndim == len(chosen) < x.ndim  # for the whole batch, its axes in the order of `axes`
    lengths = [kernel.shape[j if one else axis] for j, axis in enumerate(chosen)]
    if mode != "valid" and (boundary != "fill" or fillvalue != 0):
        cells = [(0, 0)] * x.ndim
        for axis, k in zip(chosen, lengths, strict=True):
            start = (k - 1) // 2 if mode == "same" else 0
            cells[axis] = (k - 1 - start, start if mode == "same" else k - 1)
        if boundary != "fill":
            x = jnp.pad(x, cells, mode=BEYOND[boundary])
        else:
            x = jnp.pad(x, cells, constant_values=fillvalue)
        mode = "valid"
    shape = list(x.shape)
    if not one:
        apart = [1 if axis - kernel.ndim in chosen else n for axis, n in enumerate(kernel.shape)]
        shape = list(np.broadcast_shapes(x.shape, tuple(apart)))
        x = jnp.broadcast_to(x, shape)
    for axis, k in zip(chosen, lengths, strict=True):
        shape[axis] = {"full": shape[axis] + k - 1, "same": shape[axis], "valid": abs(shape[axis] - k) + 1}[mode]
    return apply(Call(FORWARD, op, (mode, chosen, method)), x, kernel, shape, x.dtype)


def fft_conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    /,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    method: str = "auto",
    epilogue: Epilogue | None = None,
) -> Array:
    """Differentiable :func:`spectralops.fft_conv2d` of JAX arrays.

    y_(n,o,i) = sum over c, k of w_(o,c,k) x_(n,c,si+dk). The gradients are a transposed convolution and a correlation
    whose kernel is the gradient [1]_, both by direct sums, transforms or tiles, whichever is quickest.

    Parameters
    ----------
    x, weight, bias : Array
        Images (N, C_in, H, W) or (C_in, H, W), kernels (C_out, C_in / groups, K_h, K_w), and (C_out,).
    stride, padding, dilation, groups, padding_mode, method, epilogue
        As for :func:`spectralops.fft_conv2d`.

    Returns
    -------
    Array
        As :func:`spectralops.fft_conv2d` returns.

    Raises
    ------
    TypeError
        If an argument is no array.
    ValueError
        If shapes, channels, groups or options do not fit.

    References
    ----------
    .. [1] M. Mathieu, M. Henaff, Y. LeCun, "Fast training of convolutional networks through FFTs", arXiv:1312.5851
       (2014), section 2.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import fft_conv2d
    >>> gradient = jax.grad(lambda w: fft_conv2d(jnp.arange(9.0).reshape(1, 3, 3), w).sum())
    >>> gradient(jnp.ones((1, 1, 2, 2))).tolist()
    [[[[8.0, 12.0], [20.0, 24.0]]]]
    """
    op = "fft_conv2d"
    x, weight = _promoted(array(op, "x", x), array(op, "weight", weight))
    if weight.ndim != 4:
        raise ValueError(
            f"{op}: weight has {weight.ndim} dimensions, but must have 4: (C_out, C_in / groups, K_h, K_w)"
        )
    images = x if x.ndim == 4 else x[None]
    strides, dilations = _checks.per_axis(op, "stride", stride, 2), _checks.per_axis(op, "dilation", dilation, 2)
    extent = [d * (k - 1) + 1 for d, k in zip(dilations, weight.shape[-2:], strict=True)]
    if padding == "same":
        added = [k - 1 for k in extent]
    else:
        added = [2 * p for p in _checks.per_axis(op, "padding", 0 if isinstance(padding, str) else padding, 2)]
    zeros: Any = padding if isinstance(padding, str) else tuple(p // 2 for p in added)
    if padding_mode != "zeros":
        _checks.choice(op, "padding_mode", padding_mode, tuple(PADDING))
        sides = [(n // 2, n - n // 2) for n in added]
        images, zeros, added = jnp.pad(images, ((0, 0), (0, 0), *sides), mode=PADDING[padding_mode]), 0, [0, 0]
    rows, columns = ((n + p - k) // s + 1 for n, p, k, s in zip(images.shape[-2:], added, extent, strides, strict=True))
    shape = (images.shape[0], weight.shape[0], rows, columns)
    y = apply(Call(FORWARD, op, (strides, zeros, dilations, groups, method)), images, weight, shape, images.dtype)
    if bias is not None:
        y = y + array(op, "bias", bias).astype(y.dtype)[:, None, None]
    if epilogue is not None:
        y = _finished(y, epilogue)
    return y if x.ndim == 4 else y[0]


def _finished(y: Array, epilogue: Epilogue) -> Array:
    if epilogue.scale is not None:
        y = y * _per_channel(epilogue.scale, y)
    if epilogue.shift is not None:
        y = y + _per_channel(epilogue.shift, y)
    return y if epilogue.activation is None else ACTIVATIONS[epilogue.activation](y)


def _per_channel(factor: Any, y: Array) -> Any:
    return jnp.asarray(factor, y.dtype)[:, None, None] if isinstance(factor, tuple) else factor
