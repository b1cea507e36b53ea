"""fft_conv2d and convolve for PyTorch: differentiable in the signal, the kernel and the bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from spectralops import _checks, _dispatch, convolution
from spectralops._arrays import ArraySpec, dtype_name
from spectralops._bilinear import BEYOND, FORWARD, PADDING
from spectralops._plans.conv2d import Conv2dPlan
from spectralops._plans.conv2d_arguments import sizes
from spectralops._plans.convolve import ConvolvePlan, fill_value
from spectralops.convolution import Epilogue
from spectralops.torch._bilinear import Call, Family, apply
from spectralops.torch._cudnn import METHOD, asked, convolved, taken_over
from spectralops.torch._tensors import (
    floating,
    looked_up,
    padded,
    planned,
    precision,
    recorded,
    spec_of,
    straight,
    tensor,
)

__all__ = ["convolve", "fft_conv2d"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
}


class Conv2d(Family):
    """Cross-correlation of (N, C, H, W); options: stride, padding by zeros, dilation, groups, method."""

    name = "fft_conv2d"

    def plan(self, x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str) -> Any:
        *shared, method = options
        return super().plan(x, w, y_shape, (*shared, "auto" if method == METHOD else method), device)

    def elsewhere(self, call: Call, plan: Conv2dPlan, a: Tensor, b: Tensor, shape: Sequence[int]) -> Tensor | None:
        """By cuDNN, where it was asked for or is quicker and nobody watches which plans run."""
        plan = plan.forward or plan
        if call.options[-1] != METHOD and (not taken_over(plan, a) or _dispatch.observed()):
            return None
        return convolved(call.which, plan, a, b, shape)

    def weight(self, plan: Conv2dPlan, x: Tensor, y: Tensor, w: ArraySpec) -> Tensor:
        """The batch takes the channels' place: x correlated with the gradients, which lie at the stride."""
        groups, inputs, outputs = plan.groups, w.shape[1], w.shape[0] // plan.groups
        (top, bottom), (left, right) = plan.padding
        # (N, G C, H, W) -> (C, G N, H, W), and (N, G O, h, w) -> (G O, N, h, w)
        signal = functional.pad(x, (left, right, top, bottom))
        signal = signal.unflatten(1, (groups, inputs)).permute(2, 1, 0, 3, 4).flatten(1, 2)
        kernel = y.unflatten(1, (groups, outputs)).permute(1, 2, 0, 3, 4).flatten(0, 1)
        rows, columns = (
            reach + s * (n - 1) for reach, s, n in zip(plan.kernel, plan.stride, y.shape[-2:], strict=True)
        )
        result: Tensor = convolution.fft_conv2d(
            signal[..., :rows, :columns].conj(), kernel, stride=plan.dilation, dilation=plan.stride, groups=groups
        )
        return _of_dtype(result.transpose(0, 1), w)

    def fold(self, call: Call, a: Tensor, b: Tensor, shape: Sequence[int]) -> Tensor:
        images = apply(call, a.flatten(0, 1), b, (a.shape[0] * shape[0], *shape[1:]), a.dtype)
        return images.unflatten(0, (a.shape[0], shape[0]))


class Convolve(Family):
    """Convolution with zeros beyond the ends; options: mode, axes from the end, method."""

    name = "convolve"

    def weight(self, plan: ConvolvePlan, x: Tensor, y: Tensor, w: ArraySpec) -> Tensor:
        """w_j = sum over n of conj(x_{n + start - j}) y_n: y convolved with x reversed, cut to the kernel's extent."""
        whole: Tensor = convolution.convolve(y, x.flip(plan.axes).conj(), axes=plan.axes)
        for axis, n, start in zip(plan.axes, plan.kernel_lengths, plan.start, strict=True):
            whole = _window(whole, axis, x.shape[axis] - 1 - start, n)
        if len(w.shape) < x.ndim and len(w.shape) == len(plan.axes):  # one kernel, its axes in the order of `axes`
            batch = [axis for axis in range(x.ndim) if axis not in plan.axes]
            whole = whole.permute(*batch, *plan.axes).sum(list(range(len(batch))))
        return _of_dtype(whole.sum_to_size(w.shape), w)


def _window(x: Tensor, axis: int, low: int, count: int) -> Tensor:
    """`count` elements of x along an axis from `low` on, zero beyond its ends."""
    first, last = max(low, 0), min(low + count, x.shape[axis])
    cells = [0, 0] * (x.ndim - axis - 1) + [first - low, low + count - last]
    return functional.pad(x.narrow(axis, first, last - first), cells)


def _of_dtype(values: Tensor, w: ArraySpec) -> Tensor:
    wanted = getattr(torch, w.dtype)
    return (values if wanted.is_complex or not values.is_complex() else values.real).to(wanted).contiguous()


def _promoted(x: Tensor, *kernels: Tensor) -> list[Tensor]:
    """All in the precision of them together, and x complex where any is."""
    dtype = floating(x).dtype
    for each in kernels:
        dtype = torch.promote_types(dtype, floating(each).dtype)
    real = dtype if not dtype.is_complex else precision(dtype)[0]
    return [x.to(dtype), *[each.to(dtype if each.is_complex() else real) for each in kernels]]


@planned
def _plan_convolve(
    specs: list[ArraySpec], device: str, mode: Any, boundary: Any, fillvalue: Any, axes: Any, method: Any, backend: Any
) -> Any:
    x, kernel = specs
    return convolution.plan_convolve(
        x.shape, x.dtype, kernel, mode=mode, boundary=boundary, fillvalue=fillvalue, axes=axes, method=method,
        backend=backend, device=device,
    )  # fmt: skip


@planned
def _plan_conv2d(
    specs: list[ArraySpec],
    device: str,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    padding_mode: Any,
    method: Any,
    epilogue: Any,
    backend: Any,
) -> Any:
    x, weight, *bias = specs
    return convolution.plan_fft_conv2d(
        x.shape, x.dtype, weight, *bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
        padding_mode=padding_mode, method=method, epilogue=epilogue, backend=backend, device=device,
    )  # fmt: skip


def convolve(
    x: Tensor,
    kernel: Tensor,
    /,
    *,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: complex = 0,
    axes: int | Sequence[int] | None = None,
    method: str = "auto",
    workers: int | None = None,
    backend: str | None = None,
) -> Tensor:
    """Differentiable :func:`spectralops.convolve` of tensors.

    y_n = sum_j k_j x_(n-j). The gradient with respect to x is the correlation with the conjugate kernel; that with
    respect to the kernel is the correlation of the gradient with x [1]_.

    Parameters
    ----------
    x, kernel : Tensor
        Signal and kernel; both may require grad.
    mode, boundary, fillvalue, axes, method, workers, backend
        As for :func:`spectralops.convolve`; the last two hold where no gradient is recorded.

    Returns
    -------
    Tensor
        As :func:`spectralops.convolve` returns.

    Raises
    ------
    TypeError
        If an argument is no tensor.
    ValueError
        If shapes or options do not fit.

    References
    ----------
    .. [1] M. Mathieu, M. Henaff, Y. LeCun, "Fast training of convolutional networks through FFTs", arXiv:1312.5851
       (2014), section 2.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import convolve
    >>> kernel = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> convolve(torch.tensor([1.0, 0.0, 3.0]), kernel).sum().backward()
    >>> kernel.grad
    tensor([4., 4.])
    """
    op = "convolve"
    tensor(op, "x", x)
    tensor(op, "kernel", kernel)
    if not recorded(x, kernel):
        if workers is None:
            y = straight(_plan_convolve, (x, kernel), mode, boundary, fillvalue, axes, method, backend)
            if y is not None:
                return y
        result: Tensor = convolution.convolve(
            x, kernel, mode=mode, boundary=boundary, fillvalue=fillvalue, axes=axes, method=method, workers=workers,
            backend=backend,
        )  # fmt: skip
        return result
    x, kernel = _promoted(x, kernel)
    counts = {"kernel": kernel.ndim} if axes is None else None
    chosen = tuple(axis - x.ndim for axis in _checks.axes(op, axes, x.ndim, counts))
    _checks.choice(op, "mode", mode, ("full", "same", "valid"))
    _checks.choice(op, "boundary", boundary, ("fill", *BEYOND))
    fillvalue = fill_value(fillvalue, boundary, dtype_name(x.dtype))
    one = kernel.ndim == len(chosen) < x.ndim  # for the whole batch, its axes in the order of `axes`
    lengths = [kernel.shape[j if one else axis] for j, axis in enumerate(chosen)]
    if mode != "valid" and (boundary != "fill" or fillvalue != 0):
        starts = [(k - 1) // 2 if mode == "same" else 0 for k in lengths]
        sides = [(k - 1 - start, start if mode == "same" else k - 1) for k, start in zip(lengths, starts, strict=True)]
        x = _continued(x, chosen, sides, boundary, fillvalue)
        mode = "valid"
    shape = list(x.shape)
    if not one:
        apart = [1 if axis - kernel.ndim in chosen else n for axis, n in enumerate(kernel.shape)]
        shape = list(torch.broadcast_shapes(x.shape, apart))
        x = x.expand(shape)
    for axis, k in zip(chosen, lengths, strict=True):
        shape[axis] = {"full": shape[axis] + k - 1, "same": shape[axis], "valid": abs(shape[axis] - k) + 1}[mode]
    return apply(Call(FORWARD, op, (mode, chosen, method)), x, kernel, shape, x.dtype)


def _continued(x: Tensor, axes: Sequence[int], sides: Sequence[tuple[int, int]], boundary: str, value: Any) -> Tensor:
    if boundary != "fill":
        return padded(x, axes, sides, BEYOND[boundary])
    cells = [0] * (2 * x.ndim)
    for axis, (low, high) in zip(axes, sides, strict=True):
        cells[-2 * axis - 2], cells[-2 * axis - 1] = low, high
    if isinstance(value, complex) and value.imag:
        return functional.pad(x - value, cells) + value
    return functional.pad(x, cells, value=value.real)


def fft_conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    method: str = "auto",
    epilogue: Epilogue | None = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Tensor:
    """Differentiable :func:`spectralops.fft_conv2d` of tensors: ``functional.conv2d``.

    y_(n,o,i) = sum over c, k of w_(o,c,k) x_(n,c,si+dk). The gradients are a transposed convolution and a correlation
    whose kernel is the gradient [1]_, both by direct sums, transforms or tiles, whichever is quickest.

    Parameters
    ----------
    x, weight, bias : Tensor
        Images (N, C_in, H, W) or (C_in, H, W), kernels (C_out, C_in / groups, K_h, K_w), and (C_out,). All may require
        grad.
    stride, padding, dilation, groups, padding_mode, epilogue, workers, backend
        As for :func:`spectralops.fft_conv2d`; the last two hold where no gradient is recorded.
    method : {"auto", "direct", "fft", "tiles", "cudnn"}
        Likewise; ``"cudnn"`` is PyTorch's own convolution on a device, with PyTorch's settings, its gradients included.
        ``"auto"`` hands float16 and bfloat16 layers to it that it is predicted to compute sooner: small kernels over
        many channels. Bias and epilogue are then applied to the rounded result.

    Returns
    -------
    Tensor
        As :func:`spectralops.fft_conv2d` returns.

    Raises
    ------
    TypeError
        If an argument is no tensor, or cuDNN is asked for complex ones.
    ValueError
        If shapes, channels, groups or options do not fit, or cuDNN is asked for elsewhere than on a CUDA device.

    References
    ----------
    .. [1] M. Mathieu, M. Henaff, Y. LeCun, "Fast training of convolutional networks through FFTs", arXiv:1312.5851
       (2014), section 2.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import fft_conv2d
    >>> weight = torch.ones(1, 1, 2, 2, requires_grad=True)
    >>> fft_conv2d(torch.arange(9.0).reshape(1, 3, 3), weight).sum().backward()
    >>> weight.grad
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    op = "fft_conv2d"
    tensor(op, "x", x)
    tensor(op, "weight", weight)
    tensors: tuple[Tensor, ...] = (x, weight)
    if bias is not None:
        tensor(op, "bias", bias)
        tensors = (x, weight, bias)
    known = None
    if method == METHOD:
        asked(op, *tensors)
    elif not recorded(*tensors):
        options = (stride, padding, dilation, groups, padding_mode, method, epilogue, backend)
        known = looked_up(_plan_conv2d, tensors, *options) if workers is None else None
        if known is None:
            result: Tensor = convolution.fft_conv2d(
                x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
                padding_mode=padding_mode, method=method, epilogue=epilogue, workers=workers, backend=backend,
            )  # fmt: skip
            return result
        if backend is not None or not taken_over(known.plan, x) or _dispatch.observed():
            return known(tensors)
    strides, dilations = sizes("stride", stride, 2), sizes("dilation", dilation, 2)
    (groups,) = sizes("groups", groups, 1)
    if not isinstance(padding, str):
        padding = _checks.shape(op, padding, "padding")
    if known is None and not torch.compiler.is_compiling():
        named = "auto" if method == METHOD else method
        _refuse(tensors, strides, padding, dilations, groups, padding_mode, named, epilogue)
    x, weight, *rest = _promoted(*tensors)
    images = x if x.ndim == 4 else x[None]
    extent = [d * (k - 1) + 1 for d, k in zip(dilations, weight.shape[-2:], strict=True)]
    if padding == "same":
        added = [k - 1 for k in extent]
    else:
        added = [0, 0] if isinstance(padding, str) else [2 * padding[0], 2 * padding[-1]]
    zeros: Any = padding if isinstance(padding, str) else tuple(p // 2 for p in added)
    sides = [(n // 2, n - n // 2) for n in added]
    if padding_mode != "zeros":
        _checks.choice(op, "padding_mode", padding_mode, tuple(PADDING))
        images, zeros, added = padded(images, (-2, -1), sides, PADDING[padding_mode]), 0, [0, 0]
    elif method == METHOD and any(n % 2 for n in added):
        images, zeros, added = functional.pad(images, (*sides[1], *sides[0])), 0, [0, 0]
    rows, columns = ((n + p - k) // s + 1 for n, p, k, s in zip(images.shape[-2:], added, extent, strides, strict=True))
    shape = (images.shape[0], weight.shape[0], rows, columns)
    call = Call(FORWARD, op, (strides, zeros, dilations, groups, method))
    y = apply(call, images, weight, shape, images.dtype)
    if bias is not None:
        y = y + rest[0][:, None, None]
    if epilogue is not None:
        y = _finished(y, epilogue)
    return y if x.ndim == 4 else y[0]


def _refuse(
    tensors: tuple[Tensor, ...],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    padding_mode: str,
    method: str,
    epilogue: Epilogue | None,
) -> None:
    """Raise what planning raises for layers that do not fit."""
    if looked_up(_plan_conv2d, tensors, stride, padding, dilation, groups, padding_mode, method, epilogue, None):
        return
    x, *others = tensors
    convolution.plan_fft_conv2d(
        x.shape, dtype_name(x.dtype), *map(spec_of, others), stride=stride, padding=padding, dilation=dilation,
        groups=groups, padding_mode=padding_mode, method=method, epilogue=epilogue, device=x.device.type,
    )  # fmt: skip


def _finished(y: Tensor, epilogue: Epilogue) -> Tensor:
    if epilogue.scale is not None:
        y = y * _per_channel(epilogue.scale, y)
    if epilogue.shift is not None:
        y = y + _per_channel(epilogue.shift, y)
    return y if epilogue.activation is None else ACTIVATIONS[epilogue.activation](y)


def _per_channel(factor: Any, y: Tensor) -> Any:
    return y.new_tensor(factor)[:, None, None] if isinstance(factor, tuple) else factor
