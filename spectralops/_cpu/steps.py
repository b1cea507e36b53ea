"""Explicit steps on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spectralops._compiler import unavailable

if TYPE_CHECKING:
    from spectralops._plans.steps import StepPlan

__all__ = ["algorithm", "convection_step", "diffuse_convect_step", "diffusion_step", "pde_step", "refusal"]


def refusal(plan: StepPlan) -> str:
    """Why compiled code does not run a step, in words; empty where it does."""
    if reason := unavailable():
        return reason
    if plan.method == "spectral":
        from spectralops._cpu import spectral_steps

        return spectral_steps.refusal(plan.spectral, plan.compute)
    for function in plan.update.pointwise:
        if not str(type(function).__module__).startswith("numba."):
            return "a Pointwise function in plain Python works on whole arrays; compile it with numba.njit"
        from spectralops._cpu.stencil import pointwise  # loads numba, which the caller has done already

        if reason := pointwise.refusal(function, plan.compute):
            return reason
    return ""


def algorithm(plan: StepPlan) -> str:
    """How this plan runs, in words."""
    if plan.method == "spectral":
        return "the vector engine: transform, product and inverse fused, shared among workers"
    from spectralops._cpu.stencil.engine import in_words

    return in_words(plan)


def pde_step(plan: StepPlan, u: Any, *fields: Any, out: Any, workers: int) -> None:
    """Write u after the plan's steps to `out`."""
    if plan.method == "spectral":
        from spectralops._cpu.spectral_steps import advance
    else:
        from spectralops._cpu.stencil.engine import advance  # loads LLVM

    advance(plan, u, *fields, out=out, workers=workers)


diffusion_step = convection_step = diffuse_convect_step = pde_step
