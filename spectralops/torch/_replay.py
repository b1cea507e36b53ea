"""Steps in the middle of a graph: fused forwards; backwards the adjoint step, or a replay in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from spectralops._plans.steps import StepPlan
from spectralops.errors import UnsupportedError
from spectralops.torch._stage import advance
from spectralops.torch._tensors import own

__all__ = ["Steps", "gradients"]


class Steps(torch.autograd.Function):
    """Fused steps forwards; backwards the adjoint step if only u matters and there is one, else a replay in blocks.

    The replay keeps the field at the start of each block, about the square root of the number of steps apart, and the
    operations of one block at a time.
    """

    @staticmethod
    def forward(ctx: Any, plan: StepPlan, workers: int | None, u: Tensor, *arrays: Tensor) -> Tensor:
        ctx.plan, ctx.workers = plan, workers
        ctx.save_for_backward(u, *arrays)
        result: Tensor = plan(u, *arrays, workers=workers)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        plan, (u, *arrays) = ctx.plan, ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        # Operations of PyTorch's take many results at once, executors do not.
        batched = torch._C._functorch.is_legacy_batchedtensor(g)
        if not batched and (transposed := _transposed(plan, needs, (u, *arrays))) is not None:
            adjoint, kept = transposed
            return None, None, Steps.apply(adjoint, ctx.workers, g, *kept), *(None,) * len(arrays)
        if torch.is_grad_enabled():  # for gradients of gradients, which need the whole history
            with torch.enable_grad():
                u, *arrays = map(own, (u, *arrays))
                inputs = [x for x, needed in zip((u, *arrays), needs, strict=True) if needed]
                found = torch.autograd.grad(advance(plan, plan.steps, u, arrays), inputs, g, create_graph=True)
        else:
            found = _replayed(plan, u, arrays, needs, g, ctx.workers)
        each = iter(found)
        return None, None, *(next(each) if needed else None for needed in needs)


def gradients(
    plan: StepPlan, u: Tensor, arrays: Sequence[Tensor], needs: Sequence[bool], g: Tensor, workers: int | None
) -> list[Tensor | None]:
    """The gradients of first order with respect to those of u and the arrays that need one, None for the others."""
    if (transposed := _transposed(plan, needs, (u, *arrays))) is not None:
        adjoint, kept = transposed
        return [adjoint(g, *kept, workers=workers), *(None,) * len(arrays)]
    each = iter(_replayed(plan, u, arrays, needs, g, workers))
    return [next(each) if needed else None for needed in needs]


def _transposed(
    plan: StepPlan, needs: Sequence[bool], inputs: Sequence[Tensor]
) -> tuple[StepPlan, list[Tensor]] | None:
    """The plan of the adjoint step with its coefficients, where u alone needs a gradient and there is one."""
    if any(needs[1:]) or (adjoint := _adjoint(plan)) is None:
        return None
    names = [operand.name for operand in plan.operands]
    return adjoint, [inputs[names.index(operand.name)] for operand in adjoint.operands[1:]]


def _adjoint(plan: StepPlan) -> StepPlan | None:
    try:
        return plan.adjoint()
    except UnsupportedError:
        return None


def _replayed(
    plan: StepPlan, u: Tensor, arrays: Sequence[Tensor], needs: Sequence[bool], g: Tensor, workers: int | None
) -> list[Tensor | None]:
    """The gradients by autograd, block after block, the last one first."""
    size = math.isqrt(max(plan.steps - 1, 0)) + 1
    starts = list(range(0, plan.steps, size))
    states = [u.detach()]
    for _ in starts[1:]:
        states.append(replace(plan, steps=size)(states[-1], *arrays, workers=workers))
    leaves = [x.detach().requires_grad_(needed) for x, needed in zip(arrays, needs[1:], strict=True)]
    wanted = [leaf for leaf, needed in zip(leaves, needs[1:], strict=True) if needed]
    totals: list[Tensor | None] = [None] * len(wanted)
    for start, state in zip(reversed(starts), reversed(states), strict=True):
        with torch.enable_grad():
            v = state.detach().requires_grad_()
            end = advance(plan, min(size, plan.steps - start), v, leaves)
        g, *parts = torch.autograd.grad(end, [v, *wanted], g, allow_unused=True)
        totals = [b if a is None else a if b is None else a + b for a, b in zip(totals, parts, strict=True)]
    return [g, *totals] if needs[0] else totals
