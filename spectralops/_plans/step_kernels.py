"""Which steps compiled code runs: stencils all, the spectral method where the vector engine has the transforms."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spectralops import _compiler

if TYPE_CHECKING:
    from spectralops._plans.schemes import Update
    from spectralops._plans.steps import StepPlan

__all__ = ["device_refusal", "refusal"]


def refusal(plan: StepPlan) -> str:
    """Why compiled code does not run a step, in words; empty where it does."""
    if reason := _compiler.unavailable():
        return reason
    if plan.method != "stencil":
        spectral = importlib.import_module("spectralops._cpu.spectral_steps")
        return str(spectral.refusal(plan.spectral, plan.compute))
    for function in plan.update.pointwise:
        if not _is_compiled(function):
            return "a Pointwise function in plain Python works on whole arrays; compile it with numba.njit"
        # Loads numba, which the caller has done already.
        pointwise = importlib.import_module("spectralops._cpu.stencil.pointwise")
        reason = pointwise.refusal(function, plan.compute)
        if reason:
            return str(reason)
    return ""


def _is_compiled(function: Any) -> bool:
    """Whether a function is one of numba's."""
    return str(type(function).__module__).startswith("numba.")


def device_refusal(update: Update, method: str) -> str:
    """Why the kernels of the CUDA backend do not run a step, in words; empty where they do."""
    if method != "stencil":
        return "the spectral method is no stencil"
    return "a function of the caller's is no kernel" if update.pointwise else ""
