"""Convolutions as explicit sums over every tap, in 64 bit: the meaning of the operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve", "fft_conv2d"]

Array = Any

PAD_MODES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
IMAGE_PAD_MODES: dict[str, Any] = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}

# The activations, number by number.
ACTIVATIONS = {
    None: lambda y: y,
    "relu": lambda y: y if math.isnan(y) else max(y, 0.0),
    "gelu": lambda y: y * (1 + math.erf(y / math.sqrt(2))) / 2,
    "gelu_tanh": lambda y: y * (1 + math.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))) / 2,
    "silu": lambda y: y * (1 + math.tanh(y / 2)) / 2,
    "tanh": math.tanh,
}


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def convolve(plan: ConvolvePlan, x: Array, kernel: Array, *, out: Array, workers: int) -> None:
    """Every element of x lays a copy of the kernel, weighted with itself, into the full result; then the window."""
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    a, b = np.moveaxis(_wide(x), plan.axes, last), np.moveaxis(_wide(kernel), plan.kernel_axes, last)
    if plan.flipped:
        b = np.flip(b, last).conj()
    widths = [(0, 0)] * (a.ndim - d) + list(plan.padding)
    fill = {"constant_values": plan.fillvalue} if plan.boundary == "fill" else {}
    a = np.pad(a, widths, PAD_MODES[plan.boundary], **fill)  # type: ignore[call-overload]
    b = b.reshape((1,) * (a.ndim - b.ndim) + b.shape)
    batch = np.broadcast_shapes(a.shape[:-d], b.shape[:-d])
    full: Array = np.zeros(
        (*batch, *(n + k - 1 for n, k in zip(a.shape[-d:], b.shape[-d:], strict=True))), np.result_type(a, b)
    )
    for j in np.ndindex(b.shape[-d:]):
        shifted = tuple(slice(i, i + n) for i, n in zip(j, a.shape[-d:], strict=True))
        full[(..., *shifted)] += b[(..., *j)].reshape(b.shape[:-d] + (1,) * d) * a
    window = tuple(slice(s, s + n) for s, n in zip(plan.start, plan.outputs, strict=True))
    out[...] = np.moveaxis(full[(..., *window)], last, plan.axes)


def fft_conv2d(plan: Conv2dPlan, x: Array, weight: Array, *bias: Array, out: Array, workers: int) -> None:
    """Each result is the sum of the patch of the padded image behind the kernel, times the kernel."""
    if not out.size:
        return
    if plan.forward is not None:
        _scattered(plan.forward, _wide(x), _wide(weight), out)
        return
    images = _wide(x).reshape(-1, plan.groups, weight.shape[1], *x.shape[-2:])
    images = np.pad(images, ((0, 0), (0, 0), (0, 0), *plan.padding), IMAGE_PAD_MODES[plan.padding_mode])
    kernels = _wide(weight).reshape(plan.groups, -1, *weight.shape[1:])
    results: Array = np.zeros(
        (images.shape[0], plan.groups, kernels.shape[1], *out.shape[-2:]), np.result_type(images, kernels, *bias)
    )
    for i, j in np.ndindex(out.shape[-2:]):
        results[..., i, j] = np.einsum("ngckl,gockl->ngo", _patch(plan, images, i, j), kernels)
    results = results.reshape(-1, *out.shape[-3:])
    if bias:
        results = results + _wide(bias[0])[:, None, None]
    if plan.epilogue is not None:
        scale, shift = (
            default if factor is None else np.reshape(factor, (-1, 1, 1))
            for factor, default in ((plan.epilogue.scale, 1), (plan.epilogue.shift, 0))
        )
        results = scale * results + shift
        if plan.epilogue.activation:
            results = np.vectorize(ACTIVATIONS[plan.epilogue.activation], otypes=[float])(results)
    out[...] = results.reshape(out.shape)


def _patch(plan: Conv2dPlan, images: Array, i: int, j: int) -> Array:
    """What result (i, j) sees of the padded images."""
    (rows, columns), (down, right) = plan.kernel, plan.stride
    return images[
        ...,
        i * down : i * down + rows : plan.dilation[0],
        j * right : j * right + columns : plan.dilation[1],
    ]


def _scattered(plan: Conv2dPlan, y: Array, weight: Array, out: Array) -> None:
    """The transpose of `plan`: each element of y lays its conjugate kernel onto the padded image, which is cropped."""
    (top, bottom), (left, right) = plan.padding
    height, width = out.shape[-2:]
    kernels = weight.reshape(plan.groups, -1, *weight.shape[1:]).conj()
    y = y.reshape(-1, plan.groups, kernels.shape[1], *y.shape[-2:])
    images: Array = np.zeros(
        (y.shape[0], plan.groups, kernels.shape[2], height + top + bottom, width + left + right),
        np.result_type(y, kernels),
    )
    for i, j in np.ndindex(y.shape[-2:]):
        patch = _patch(plan, images, i, j)
        patch += np.einsum("ngo,gockl->ngckl", y[..., i, j], kernels)
    out[...] = images[..., top : top + height, left : left + width].reshape(out.shape)
