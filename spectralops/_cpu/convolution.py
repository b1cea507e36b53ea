"""Convolutions on the host: the executors that the dispatcher finds by name.

The plan says who runs it: the kernels of the vector engine, or NumPy and SciPy.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._compiler import unavailable
from spectralops._cpu import conv2d
from spectralops._cpu.blocks import run
from spectralops._cpu.conv_blocks import pad
from spectralops._cpu.conv_direct import direct
from spectralops._cpu.conv_fft import overlap_save, transformed
from spectralops._cpu.convolution_rates import counted, ratios
from spectralops._cpu.epilogue import finisher

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve", "fft_conv2d", "ratios"]

Array = Any

LONG = 1e-3
BEYOND = {"zeros": "fill", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _compiled(plan: ConvolvePlan | Conv2dPlan) -> bool:
    """Whether kernels run the plan: it may have been made where they can, and now be where they cannot."""
    return plan.cost.engine == "vector" and not unavailable()


def _watched(plan: ConvolvePlan | Conv2dPlan) -> AbstractContextManager[None]:
    """Long calls count towards measuring this machine."""
    return counted() if plan.requested == "auto" and plan.cost.seconds > LONG else nullcontext()


def convolve(plan: ConvolvePlan, x: Array, kernel: Array, *, out: Array, workers: int) -> None:
    """Bring both arrays into one form, batch axes first, and convolve them by the planned algorithm."""
    if not out.size:
        return
    d = len(plan.axes)
    a = pad(_last(x, plan.axes), plan.padding, plan.boundary, plan.fillvalue)
    b = _last(kernel, plan.kernel_axes)
    if plan.flipped:
        b = b[(..., *(slice(None, None, -1),) * d)].conj()
    b = b[(None,) * (a.ndim - b.ndim)]
    if math.prod(b.shape[-d:]) > math.prod(a.shape[-d:]):
        a, b = b, a
    target = _last(out, plan.axes)
    if _compiled(plan):
        with _watched(plan):
            _by_windows(plan, a, b, target, workers)
    elif plan.method == "direct":
        direct(a, b, target, plan.start, workers)
    elif plan.method == "fft":
        transformed(a, b, target, plan.start, plan.lengths, workers)
    else:
        overlap_save(a, b, target, plan.start, plan.lengths, workers)


def _last(x: Array, axes: tuple[int, ...]) -> Array:
    """View with these axes last, in their order."""
    if axes == tuple(range(x.ndim - len(axes), x.ndim)):
        return x
    return np.moveaxis(x, axes, range(-len(axes), 0))


def _by_windows(plan: ConvolvePlan, a: Array, b: Array, out: Array, workers: int) -> None:
    from spectralops._cpu.vector.convolution import Extent, filter_windows, sum_windows

    d = len(plan.start)
    if plan.method == "direct":
        sum_windows(a, b, out, plan.start, workers)
    else:
        whole = plan.method == "fft"
        extent = Extent(a.shape[-d:], b.shape[-d:], plan.start, (1,) * d, out.shape[-d:], plan.lengths, whole)
        filter_windows(a, b, out, extent, workers)


def fft_conv2d(plan: Conv2dPlan, x: Array, weight: Array, *bias: Array, out: Array, workers: int) -> None:
    """Split the channels into groups, lay out the padded image, and correlate by the planned algorithm."""
    if not out.size:
        return
    groups = plan.groups
    weight = weight.reshape(groups, -1, *weight.shape[1:])
    if plan.forward is not None:
        weight = weight.swapaxes(1, 2)[..., ::-1, ::-1].conj()
    images = x.reshape(-1, groups, weight.shape[2], *x.shape[-2:])
    images = conv2d.spread(images, plan.spread)
    target = out.reshape(-1, groups, weight.shape[1], *out.shape[-2:])
    finish = finisher(bias[0] if bias else None, plan.epilogue, groups)
    if _compiled(plan):
        with _watched(plan):
            _by_channels(plan, images, weight, target, workers)
        if bias or plan.epilogue is not None:
            every = slice(None)
            run(lambda image: finish(target[image : image + 1], every, every), range(len(target)), workers)
        return
    images = pad(images, plan.padding, BEYOND[plan.padding_mode])
    if plan.method == "direct":
        conv2d.direct(images, weight, target, plan.stride, plan.dilation, finish, workers)
    else:
        conv2d.tiled(images, weight, target, plan.lengths, plan.stride, plan.dilation, finish, workers)


def _by_channels(plan: Conv2dPlan, images: Array, weight: Array, out: Array, workers: int) -> None:
    """Zeros around the image are left to the kernels, other padding is laid out."""
    from spectralops._cpu.vector.convolution import Extent, filter_channels, sum_channels

    before = tuple(low for low, _ in plan.padding)
    if plan.padding_mode != "zeros":
        images, before = pad(images, plan.padding, BEYOND[plan.padding_mode]), (0, 0)
    if plan.method == "direct":
        sum_channels(images, weight, out, tuple(-low for low in before), plan.stride, plan.dilation, workers)
        return
    taps = conv2d.spread(weight, plan.dilation)[..., ::-1, ::-1]
    sizes = taps.shape[-2:]
    start = tuple(k - 1 - low for k, low in zip(sizes, before, strict=True))
    whole = plan.method == "fft"
    extent = Extent(images.shape[-2:], sizes, start, plan.stride, out.shape[-2:], plan.lengths, whole)
    filter_channels(images, taps, out, extent, workers)
