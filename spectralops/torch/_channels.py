"""Linear maps of the channels of each point, as matrix products.

A convolution with a kernel of one point does the same, but what cuDNN runs for it in float32 takes several times as
long as the product, most of all for the gradient of the weight: a sum over very many points of few numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectralops.torch._tensors import transformed

__all__ = ["ChannelMap"]

# Products into which the sum over points is split, and bytes of operands laid out for them at a time.
PARTS = 1024
FEWEST_POINTS = 256
COPIED_BYTES = 96 << 20


CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)


class ChannelMap(nn.Conv1d):
    """A map of the channels of (N, C, ...), with the parameters and checkpoints of ``nn.Conv1d(read, written, 1)``."""

    def __init__(self, read: int, written: int) -> None:
        super().__init__(read, written, 1)

    def forward(self, x: Tensor, onto: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """Map x; add a bias and what the result goes onto, whose memory may be used for it."""
        total = self.bias if bias is None else self.bias + bias.flatten()
        same = onto is None or (onto.dtype is x.dtype and onto.is_contiguous())
        if (
            x.is_cuda
            and same
            and x.dtype is self.weight.dtype
            and not transformed()
            and not torch.is_autocast_enabled()
        ):
            return Mapped.apply(x, self.weight.flatten(1), total, onto)
        d = x.ndim - 2
        weight = self.weight.reshape(*self.weight.shape[:2], *(1,) * d)
        y: Tensor = CONVOLUTIONS[d - 1](x, weight, total)
        return y if onto is None else onto + y


class Mapped(torch.autograd.Function):
    """weight x + bias, in the memory of `onto` plus its values if it is there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, onto: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        points, matrices = x.flatten(2), weight.expand(x.shape[0], -1, -1)
        y = x.new_empty(x.shape[0], weight.shape[0], *x.shape[2:]) if onto is None else onto
        flat = y.view(*y.shape[:2], -1)
        if onto is None:
            torch.bmm(matrices, points, out=flat)
        else:
            ctx.mark_dirty(onto)
            flat.baddbmm_(matrices, points)
        flat += bias[:, None]
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        g = g.contiguous()
        points = g.flatten(2)
        over_x = over_weight = over_bias = None
        if ctx.needs_input_grad[1]:  # first, since it takes memory that the others then find free
            over_weight = _outer(points, x.flatten(2))
        if ctx.needs_input_grad[2]:
            over_bias = points.sum((0, 2))
        if ctx.needs_input_grad[0]:
            over_x = torch.bmm(weight.mT.expand(g.shape[0], -1, -1), points).view(g.shape[0], -1, *g.shape[2:])
        return over_x, over_weight, over_bias, g if ctx.needs_input_grad[3] else None


def _outer(g: Tensor, x: Tensor) -> Tensor:
    """The sum over batch and points of products of channels, in enough parts to occupy a device."""
    batch, _, points = g.shape
    parts = 1
    while batch * parts < PARTS and points % (2 * parts) == 0 and points // (2 * parts) >= FEWEST_POINTS:
        parts *= 2
    rows = max(1, COPIED_BYTES // max(1, (g.nbytes + x.nbytes) // max(batch, 1)))
    if rows >= batch:
        return torch.bmm(_split(g, parts), _split(x, parts).mT).sum(0)
    sums = [
        torch.bmm(_split(each, parts), _split(other, parts).mT).sum(0)
        for each, other in zip(g.split(rows), x.split(rows), strict=True)
    ]
    return sum(sums[1:], start=sums[0])


def _split(x: Tensor, parts: int) -> Tensor:
    """(N, C, P) as (N parts, C, P / parts)."""
    n, channels, points = x.shape
    return x.view(n, channels, parts, points // parts).transpose(1, 2).reshape(n * parts, channels, points // parts)
