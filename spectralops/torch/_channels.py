"""Linear maps of the channels of each point, with what is added to them and the activation that follows.

A convolution with a kernel of one point does the same, but what cuDNN runs for it in float32 takes several times as
long as a matrix product, most of all for the gradient of the weight: a sum over very many points of few numbers. In
float32 on a device these maps, that sum and the activation are kernels of our own; elsewhere, products by PyTorch.
"""

from __future__ import annotations

import math
from itertools import pairwise, zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectralops import _device
from spectralops._bilinear import ADJOINT, WEIGHT
from spectralops.torch._bilinear import Call, apply, compute
from spectralops.torch._tensors import own, transformed

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
        mine = self.bias
        assert mine is not None
        same = onto is None or (onto.dtype is x.dtype and onto.is_contiguous())
        if same and covered(x, self.weight):
            call, values = (None, None) if beside is None else beside
            result: Tensor = Layer.apply(x, self.weight, mine, bias, active, onto, call, values)
            return result
        y = _mapped(x, self.weight, mine if bias is None else mine + bias.flatten())
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
        for each, activation in zip_longest(list(self)[::2], list(self)[1::2]):
            active = type(activation) is nn.GELU and activation.approximate == "none"
            x = each(x, active=active)
            x = x if active or activation is None else activation(x)
        return x


def covered(x: Tensor, weight: Tensor) -> bool:
    """Whether a map runs as a `Layer`: on one device, not transformed, in one precision."""
    return (
        x.is_cuda
        and x.dtype is weight.dtype
        and x.device == weight.device
        and x.is_contiguous()
        and not x.is_neg()
        and weight.is_contiguous()
        and not transformed()
        and not torch.is_autocast_enabled()
    )


def _mapped(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    d = x.ndim - 2
    y: Tensor = CONVOLUTIONS[d - 1](x, weight.reshape(*weight.shape[:2], *(1,) * d), bias)
    return y


class Layer(torch.autograd.Function):
    """f(weight x + y + bias + more), where f is GELU or nothing.

    The weight is (written, read, 1). `more` may be None. y is nothing; or the values of `onto`, whose memory is used;
    or those of the operator `call` of x and `values`, which keeps the grid.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        more: Tensor | None,
        active: bool,
        onto: Tensor | None,
        call: Call | None,
        values: Tensor | None,
    ) -> Tensor:
        shape = (x.shape[0], weight.shape[0], *x.shape[2:])
        y = onto if call is None or values is None else compute(call, x, values, shape, x.dtype)
        z, result = _forward(x, weight, bias, more, active, y)
        ctx.active, ctx.call = active, call
        if active:
            ctx.save_for_backward(x, weight, bias, more, onto, values, z)
            return result
        ctx.save_for_backward(x, weight, bias, more, None, values, None)
        if onto is not None:
            ctx.mark_dirty(onto)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, more, onto, values, z = ctx.saved_tensors
        needs = ctx.needs_input_grad
        # Gradients of gradients, and of many results at once: all in operations that record.
        if torch.is_grad_enabled() or torch._C._functorch.is_legacy_batchedtensor(g):
            return _recorded(ctx, g, x, weight, bias, more, onto, values, z)
        g = g.resolve_neg().contiguous()
        g = g if z is None else _activation(g, z, bias, more)
        del onto, z
        ctx.maybe_clear_saved_tensors()  # which lets go of z
        over_x = over_values = None
        over_weight, over_bias, over_more = _outer(g, x)
        if ctx.call is not None and needs[7]:
            over_values = compute(ctx.call.to(WEIGHT), x, g, values.shape, values.dtype)
        if needs[0]:
            y = None if ctx.call is None else compute(ctx.call.to(ADJOINT), g, values, x.shape, x.dtype)
            over_x = _backward(g, weight, y)
        over_more = None if more is None else over_more.view(more.shape)
        return over_x, over_weight, over_bias, over_more, None, g if needs[5] else None, None, over_values


def _recorded(
    ctx: Any,
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    more: Tensor | None,
    onto: Tensor | None,
    values: Tensor | None,
    z: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """The gradients by recording the layer again; only where it is not linear do its values matter, which are z."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        x, weight, bias = own(x), own(weight), own(bias)
        more, onto, values = (None if each is None else own(each) for each in (more, onto, values))
        y = _mapped(x, weight, None)
        if ctx.call is not None and values is not None:
            y = y + apply(ctx.call, x, values, y.shape, y.dtype)
        if onto is not None:
            y = y + onto
        if z is not None:
            y = z.detach() + (y - y.detach())
        for each in (bias, more):
            y = y if each is None else y + each.view(-1, *(1,) * (x.ndim - 2))
        y = functional.gelu(y) if ctx.active else y
    inputs = (x, weight, bias, more, None, onto, None, values)
    wanted = [k for k, needed in enumerate(ctx.needs_input_grad) if needed and inputs[k] is not None]
    found = torch.autograd.grad(y, [inputs[k] for k in wanted], g, create_graph=again)
    every: list[Tensor | None] = [None] * len(inputs)
    for k, gradient in zip(wanted, found, strict=True):
        every[k] = gradient
    if not ctx.active and ctx.needs_input_grad[5]:
        every[5] = g
    return tuple(every)


# The four parts of a layer: by kernels, or by PyTorch's operations where there are none.


def _kernels(x: Tensor) -> Any:
    """The kernels for fields like this one, None where there are none."""
    if not x.is_cuda or x.dtype is not torch.float32 or not x.numel() or not _device.is_current(x.device.index):
        return None
    from spectralops._cuda import channels

    return channels


def _aligned(x: Tensor) -> Tensor:
    """Itself, or a copy where kernels could not read sixteen bytes at a time."""
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _sum(bias: Tensor, more: Tensor | None) -> Tensor:
    """Of both, against (N, C, points)."""
    return (bias if more is None else bias + more.flatten())[:, None]


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, more: Tensor | None, active: bool, y: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The layer without and with bias and activation, in the memory of y: of both the latter, where that is nothing."""
    shape = (x.shape[0], weight.shape[0], *x.shape[2:])
    kernels = _kernels(x)
    if kernels is None or not weight.numel() or (y is not None and y.data_ptr() % 16):
        matrices, points = weight[..., 0].expand(x.shape[0], -1, -1), x.flatten(2)
        if y is None:
            z = torch.bmm(matrices, points).view(shape)
        else:
            z = y
            z.view(*shape[:2], -1).baddbmm_(matrices, points)
        if active:
            return z, functional.gelu(z.flatten(2) + _sum(bias, more)).view(shape)
        z.view(*shape[:2], -1).add_(_sum(bias, more))
        return z, z
    (samples, rows, *rest), columns = shape, x.shape[1]
    program = kernels.mapped(samples, rows, columns, math.prod(rest), False, active)
    z = _device.tensor_empty(shape, "float32") if y is None else y
    result = _device.tensor_empty(shape, "float32") if active else z
    _device.launch(program, x.device.index, weight, _aligned(x), y, bias, more, z, result)
    return z, result


def _activation(g: Tensor, z: Tensor, bias: Tensor, more: Tensor | None) -> Tensor:
    """The gradient with respect to z of GELU(z + bias + more)."""
    kernels = _kernels(z)
    if kernels is None:
        found: Tensor = torch.ops.aten.gelu_backward(g, (z.flatten(2) + _sum(bias, more)).view(z.shape))
        return found
    program = kernels.gelu_backward(z.shape[0], z.shape[1], math.prod(z.shape[2:]))
    out = _device.tensor_empty(tuple(z.shape), "float32")
    _device.launch(program, z.device.index, _aligned(g), _aligned(z), bias, more, out)
    return out


def _backward(g: Tensor, weight: Tensor, y: Tensor | None) -> Tensor:
    """The transposed map of g, added to y in its memory."""
    shape = (g.shape[0], weight.shape[1], *g.shape[2:])
    kernels = _kernels(g)
    if kernels is None or not weight.numel():
        matrices = weight[..., 0].mT.expand(g.shape[0], -1, -1)
        if y is None:
            return torch.bmm(matrices, g.flatten(2)).view(shape)
        y.view(*shape[:2], -1).baddbmm_(matrices, g.flatten(2))
        return y
    (samples, rows, *rest), columns = shape, g.shape[1]
    program = kernels.mapped(samples, rows, columns, math.prod(rest), True, False)
    out = _device.tensor_empty(shape, "float32") if y is None else y
    _device.launch(program, g.device.index, weight, _aligned(g), y, None, None, None, out)
    return out


def _outer(g: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The sums over batch and points of products of channels, as a weight is shaped; those of g, twice."""
    kernels = _kernels(g)
    rows, columns = g.shape[1], x.shape[1]
    if kernels is None or not x.numel():
        left = g.flatten(2)
        return torch.bmm(left, x.flatten(2).mT).sum(0)[..., None], left.sum((0, 2)), left.sum((0, 2))
    index = g.device.index
    program, count = kernels.outer(g.shape[0], rows, columns, math.prod(g.shape[2:]), _device.multiprocessors(index))
    scratch = _device.tensor_empty((count,), "float32")
    sums = _device.tensor_empty((rows * (columns + 2),), "float32")
    _device.launch(program, index, _aligned(g), _aligned(x), scratch, sums)
    weight, first, second = sums.split([rows * columns, rows, rows])
    return weight.view(rows, columns, 1), first, second
