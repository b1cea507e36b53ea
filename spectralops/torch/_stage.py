"""Steps as PyTorch operations that can be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from spectralops import _stage
from spectralops._plans.steps import StepPlan

__all__ = ["advance"]


class _Torch:
    @staticmethod
    def concat(parts: Sequence[Tensor], axis: int) -> Tensor:
        return torch.cat(list(parts), axis)

    where = staticmethod(torch.where)

    @staticmethod
    def cast(x: Tensor, dtype: str) -> Tensor:
        return x.to(getattr(torch, dtype))

    @staticmethod
    def expand(x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x.expand(shape)

    @staticmethod
    def repeat(step: Callable[[Tensor], Tensor], v: Tensor, times: int) -> Tensor:
        for _ in range(times):
            v = step(v)
        return v


def advance(plan: StepPlan, steps: int, u: Tensor, arrays: Sequence[Tensor]) -> Tensor:
    """The field after so many steps of the plan; `arrays` are its operands after u."""
    result: Tensor = _stage.advance(_Torch(), plan, steps, u, arrays)
    return result
