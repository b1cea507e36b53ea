"""Which of the compiled kernels of the stencil engine covers a step."""

from __future__ import annotations

from spectralops import _compiler
from spectralops._plans.schemes import Linear, Update

__all__ = ["compiled_kernel", "device_refusal", "refusal"]


def compiled_kernel(update: Update, axes: tuple[int, ...], integrator: str) -> str | None:
    """Name of the kernel, None if no kernel covers the step.

    * ``star``: constant coefficients, the same for both neighbours along every stepped axis;
    * ``burgers``: the same, with the central advective form of self-advection along all of one or two axes;
    * ``flux``: diffusion as differences of face fluxes, along every stepped axis.

    Each takes a source.
    """
    if integrator != "euler" or update.pointwise or len(update.sources) > 1:
        return None
    if update.linear is None:
        whole = len(update.diffusion) == len(axes)
        return "flux" if whole and not update.transport else None
    if update.diffusion or not _is_star(update.linear, axes):
        return None
    if not update.transport:
        return "star"
    burgers = all(
        part.velocity is None and part.scheme == "central" and part.form == "advective" for part in update.transport
    )
    return "burgers" if burgers and len(update.transport) == len(axes) <= 2 else None


def _is_star(linear: Linear, axes: tuple[int, ...]) -> bool:
    return [(tap.axis, tap.offsets) for tap in linear.taps] == [(axis, (-1, 1)) for axis in reversed(axes)]


def refusal(kernel: str | None, method: str) -> str:
    """Why compiled kernels do not run a step, in words; empty where they do."""
    if method != "stencil":
        return "the spectral method is no stencil"
    if kernel is None:
        return "no compiled kernel covers these terms"
    return _compiler.unavailable()


def device_refusal(update: Update, method: str) -> str:
    """Why the kernels of the CUDA backend do not run a step, in words; empty where they do."""
    if method != "stencil":
        return "the spectral method is no stencil"
    return "a function of the caller's is no kernel" if update.pointwise else ""
