"""Convolutions of images by PyTorch's own kernels: on a device cuDNN's, which multiply 16 bits on tensor cores.

They round each result once, from sums in float32, as kernels of this library do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from spectralops._bilinear import ADJOINT, FORWARD
from spectralops._plans.conv2d import Conv2dPlan

__all__ = ["METHOD", "asked", "convolved", "taken_over"]

METHOD = "cudnn"


def available(x: Tensor) -> bool:
    """Whether cuDNN can be asked."""
    return x.is_cuda and torch.backends.cudnn.is_available()


def asked(op: str, *tensors: Tensor) -> None:
    """Raise unless tensors for which cuDNN was asked by name are such as it takes."""
    for x in tensors:
        if not available(x):
            raise ValueError(
                f"{op}: method is {METHOD!r} for a tensor on {x.device}, but must be 'auto', 'direct', 'fft' or "
                "'tiles' there; cuDNN runs on CUDA devices"
            )
        if x.is_complex():
            raise TypeError(f"{op}: method is {METHOD!r} for {x.dtype}, but must be another; cuDNN takes real tensors")


def taken_over(plan: Conv2dPlan, x: Tensor) -> bool:
    """Whether the plan's tensors are left to cuDNN where no method was asked for."""
    return x.dtype in (torch.float16, torch.bfloat16) and plan.handed_over and available(x)


def convolved(which: int, plan: Conv2dPlan, a: Tensor, b: Tensor, shape: Sequence[int]) -> Tensor | None:
    """One of the three maps of x and the weight for a plan of A, with as many cells before each axis as after it.

    None where there are not.
    """
    if any(before != after for before, after in plan.padding):
        return None
    padding = [before for before, _ in plan.padding]
    if which == FORWARD:
        return functional.conv2d(a, b, None, plan.stride, padding, plan.dilation, plan.groups)
    # What is not asked for is read for its shape alone.
    g, x, w = (a, a.new_empty(shape), b) if which == ADJOINT else (b, a, a.new_empty(shape))
    mask = [which == ADJOINT, which != ADJOINT, False]
    found = torch.ops.aten.convolution_backward(
        g, x, w, None, plan.stride, padding, plan.dilation, False, [0, 0], plan.groups, mask
    )
    result: Tensor = found[0 if which == ADJOINT else 1]
    return result
