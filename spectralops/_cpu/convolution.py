"""Convolutions on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu import conv2d
from spectralops._cpu.conv_blocks import pad
from spectralops._cpu.conv_direct import direct
from spectralops._cpu.conv_fft import overlap_save, transformed
from spectralops._cpu.epilogue import finisher

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve", "fft_conv2d"]

Array = Any

BEYOND = {"zeros": "fill", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def convolve(plan: ConvolvePlan, x: Array, kernel: Array, *, out: Array, workers: int) -> None:
    """Bring both arrays into one form, batch axes first, and convolve them by the planned algorithm."""
    if not out.size:
        return
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    a = pad(np.moveaxis(x, plan.axes, last), plan.padding, plan.boundary, plan.fillvalue)
    b = np.moveaxis(kernel, plan.kernel_axes, last)
    if plan.flipped:
        b = b[(..., *(slice(None, None, -1),) * d)].conj()
    b = b[(None,) * (a.ndim - b.ndim)]
    if np.prod(b.shape[-d:]) > np.prod(a.shape[-d:]):
        a, b = b, a
    target = np.moveaxis(out, plan.axes, last)
    if plan.method == "direct":
        direct(a, b, target, plan.start, workers)
    elif plan.method == "fft":
        transformed(a, b, target, plan.start, plan.lengths, workers)
    else:
        overlap_save(a, b, target, plan.start, plan.lengths, workers)


def fft_conv2d(plan: Conv2dPlan, x: Array, weight: Array, *bias: Array, out: Array, workers: int) -> None:
    """Split the channels into groups, lay out the padded image, and correlate by the planned algorithm."""
    if not out.size:
        return
    groups = plan.groups
    weight = weight.reshape(groups, -1, *weight.shape[1:])
    if plan.forward is not None:
        weight = weight.swapaxes(1, 2)[..., ::-1, ::-1].conj()
    images = x.reshape(-1, groups, weight.shape[2], *x.shape[-2:])
    images = pad(conv2d.spread(images, plan.spread), plan.padding, BEYOND[plan.padding_mode])
    target = out.reshape(-1, groups, weight.shape[1], *out.shape[-2:])
    finish = finisher(bias[0] if bias else None, plan.epilogue, groups)
    if plan.method == "direct":
        conv2d.direct(images, weight, target, plan.stride, plan.dilation, finish, workers)
    else:
        conv2d.tiled(images, weight, target, plan.lengths, plan.stride, plan.dilation, finish, workers)
