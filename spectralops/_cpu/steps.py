"""Explicit steps on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectralops._plans.steps import StepPlan

__all__ = ["algorithm", "diffuse_convect_step", "diffusion_step"]


def algorithm(plan: StepPlan) -> str:
    """How this plan runs, in words."""
    return (
        f"kernel {plan.kernel!r} of the stencil engine, compiled by numba on first use: several steps per pass over "
        "memory, tiles shared among workers"
    )


def diffusion_step(plan: StepPlan, u: Any, *fields: Any, out: Any, workers: int) -> None:
    """Write u after the plan's steps to `out`."""
    from spectralops._cpu.stencil.engine import advance  # loads numba

    advance(plan, u, *fields, out=out, workers=workers)


diffuse_convect_step = diffusion_step
