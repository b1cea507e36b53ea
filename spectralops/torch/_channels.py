"""Linear maps of the channels of each point, with what is added to them and the activation that follows.

A convolution with a kernel of one point does the same, but what cuDNN runs for it in float32 takes several times as
long as a matrix product, most of all for the gradient of the weight: a sum over very many points of few numbers. That
sum and the activation are kernels of our own; the rest are products by PyTorch.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectralops import _device
from spectralops.torch._bilinear import ADJOINT, WEIGHT, Call, apply, compute
from spectralops.torch._tensors import transformed

__all__ = ["ChannelMap", "Pointwise", "covered"]

CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)


class ChannelMap(nn.Conv1d):
    """A map of the channels of (N, C, ...), with the parameters and checkpoints of ``nn.Conv1d(read, written, 1)``."""

    def __init__(self, read: int, written: int) -> None:
        super().__init__(read, written, 1)

    def forward(
        self,
        x: Tensor,
        onto: Tensor | None = None,
        bias: Tensor | None = None,
        active: bool = False,
        beside: tuple[Call, Tensor] | None = None,
    ) -> Tensor:
        """Map x; add a bias and what the result goes onto, whose memory may be used for it; activate if so wanted.

        `beside`: an operator on x with its weight, whose values the result goes onto, for a `covered` x.
        """
        total = self.bias if bias is None else self.bias + bias.flatten()
        assert total is not None
        same = onto is None or (onto.dtype is x.dtype and onto.is_contiguous())
        if same and covered(x, self.weight):
            call, values = (None, None) if beside is None else beside
            result: Tensor = Layer.apply(x, self.weight.flatten(1), total, active, onto, call, values)
            return result
        y = _mapped(x, self.weight, total)
        y = y if onto is None else onto + y
        return functional.gelu(y) if active else y


class Pointwise(nn.Sequential):
    """Maps of the channels of each point, with an activation between them."""

    def __init__(self, *channels: int) -> None:
        maps: list[nn.Module] = []
        for read, written in pairwise(channels):
            maps += [nn.GELU(), ChannelMap(read, written)]
        super().__init__(*maps[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Apply them in order, each with the activation after it."""
        maps = list(self)[::2]
        for each in maps:
            x = each(x, active=each is not maps[-1])
        return x


def covered(x: Tensor, weight: Tensor) -> bool:
    """Whether a map runs as a `Layer`: on a device, not transformed, in one precision."""
    return (
        x.is_cuda
        and x.dtype is weight.dtype
        and x.is_contiguous()
        and not transformed()
        and not torch.is_autocast_enabled()
    )


def _mapped(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    d = x.ndim - 2
    y: Tensor = CONVOLUTIONS[d - 1](x, weight.reshape(*weight.shape[:2], *(1,) * d), bias)
    return y


class Layer(torch.autograd.Function):
    """f(weight x + bias + y), where f is GELU or nothing.

    y is nothing; or the values of `onto`, whose memory is used; or those of the operator `call` of x and `values`,
    which keeps the grid.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        active: bool,
        onto: Tensor | None,
        call: Call | None,
        values: Tensor | None,
    ) -> Tensor:
        shape = (x.shape[0], weight.shape[0], *x.shape[2:])
        matrices, points = weight.expand(x.shape[0], -1, -1), x.flatten(2)
        z = onto
        if call is not None and values is not None:
            z = compute(call, x, values, shape, x.dtype)
        if z is None:
            z = x.new_empty(shape)
            torch.bmm(matrices, points, out=z.flatten(2))
        else:
            z.view(*shape[:2], -1).baddbmm_(matrices, points)
        ctx.active, ctx.call = active, call
        if active:
            ctx.save_for_backward(x, weight, bias, onto, values, z)
            return _activated(z, bias)
        ctx.save_for_backward(x, weight, bias, None, values, None)
        if onto is not None:
            ctx.mark_dirty(onto)
        z.flatten(2).add_(bias[:, None])
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, onto, values, z = ctx.saved_tensors
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():  # gradients of gradients: all in operations that record
            return _recorded(ctx, g, x, weight, bias, onto, values, z)
        g = g.contiguous() if z is None else _gradient(g.contiguous(), z, bias)
        over_x = over_values = None
        over_weight, over_bias = _outer(g.flatten(2), x.flatten(2))
        if ctx.call is not None and needs[6]:
            over_values = compute(ctx.call.to(WEIGHT), x, g, values.shape, values.dtype)
        if needs[0]:
            matrices = weight.mT.expand(x.shape[0], -1, -1)
            if ctx.call is None:
                over_x = torch.bmm(matrices, g.flatten(2)).view(x.shape)
            else:
                over_x = compute(ctx.call.to(ADJOINT), g, values, x.shape, x.dtype)
                over_x.view(*x.shape[:2], -1).baddbmm_(matrices, g.flatten(2))
        return over_x, over_weight, over_bias, None, g if needs[4] else None, None, over_values


def _recorded(
    ctx: Any,
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    onto: Tensor | None,
    values: Tensor | None,
    z: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """The gradients by recording the layer again; only where it is not linear do its values matter, which are z."""
    y = _mapped(x, weight[..., None], None)
    if ctx.call is not None and values is not None:
        y = y + apply(ctx.call, x, values, y.shape, y.dtype)
    if onto is not None:
        y = y + onto
    if z is not None:
        y = z.detach() + (y - y.detach())
    y = y + bias.view(-1, *(1,) * (x.ndim - 2))
    y = functional.gelu(y) if ctx.active else y
    inputs = (x, weight, bias, None, onto, None, values)
    wanted = [k for k, needed in enumerate(ctx.needs_input_grad) if needed and inputs[k] is not None]
    found = torch.autograd.grad(y, [inputs[k] for k in wanted], g, create_graph=True)
    every: list[Tensor | None] = [None] * len(inputs)
    for k, gradient in zip(wanted, found, strict=True):
        every[k] = gradient
    if not ctx.active and ctx.needs_input_grad[4]:
        every[4] = g
    return tuple(every)


def _kernels(x: Tensor) -> Any:
    """The kernels for fields like this one; None where PyTorch's operations do it."""
    if not x.is_cuda or x.dtype is not torch.float32 or not x.numel():
        return None
    from spectralops._cuda import channels

    return channels


def _aligned(x: Tensor) -> Tensor:
    """Itself, or a copy where kernels could not read sixteen bytes at a time."""
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _flat(x: Tensor) -> tuple[int, int, int]:
    return x.shape[0], x.shape[1], math.prod(x.shape[2:])


def _activated(z: Tensor, bias: Tensor) -> Tensor:
    """GELU(z + bias)."""
    kernels = _kernels(z)
    if kernels is None:
        return functional.gelu((z.flatten(2) + bias[:, None]).view(z.shape))
    out = torch.empty_like(z)
    _device.launch(kernels.gelu(_flat(z)), _aligned(z), bias, out)
    return out


def _gradient(g: Tensor, z: Tensor, bias: Tensor) -> Tensor:
    """Its gradient with respect to z."""
    kernels = _kernels(z)
    if kernels is None:
        return torch.ops.aten.gelu_backward(g, (z.flatten(2) + bias[:, None]).view(z.shape))
    out = torch.empty_like(z)
    _device.launch(kernels.gelu_backward(_flat(z)), _aligned(g), _aligned(z), bias, out)
    return out


def _outer(g: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The sums over batch and points of products of channels, and of g."""
    kernels = _kernels(g)
    if kernels is None:
        return torch.bmm(g, x.mT).sum(0), g.sum((0, 2))
    (samples, rows, points), columns = g.shape, x.shape[1]
    program, parts = kernels.outer(samples, rows, columns, points, _device.multiprocessors(g.device.index))
    sums = g.new_empty(parts, rows * (columns + 1))
    _device.launch(program, _aligned(g), _aligned(x), sums)
    total = sums.sum(0)
    return total[: rows * columns].view(rows, columns), total[rows * columns :]
