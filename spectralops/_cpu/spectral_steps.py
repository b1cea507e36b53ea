"""Many steps at once by their spectrum, on periodic axes: one fused filter of the vector engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._compiler import unavailable
from spectralops._cpu.vector.choice import filter_refusal

if TYPE_CHECKING:
    from spectralops._plans.spectral_steps import SpectralAdvance
    from spectralops._plans.steps import StepPlan

__all__ = ["advance", "refusal"]

Array = np.ndarray[Any, Any]


def refusal(spectral: SpectralAdvance, dtype: str) -> str:
    """Why the vector engine does not take the steps, in words; empty where it does."""
    if spectral.walls:
        return "the vector engine has Fourier transforms only, for periodic axes"
    if spectral.instances:
        return "the vector engine filters a batch with the same factors, and nu differs between instances"
    batch = int(np.prod(spectral.shape)) // int(np.prod(spectral.sizes))
    return unavailable() or filter_refusal(spectral.sizes, batch, dtype)


def advance(plan: StepPlan, u: Array, *fields: Array, out: Array, workers: int) -> None:
    """Write u after all steps to `out`: the amplification factor's power is the filter."""
    if not out.size:
        return
    from spectralops._cpu.vector.filters import filter_axes  # loads llvmlite

    spectral = plan.spectral
    complex_dtype = np.result_type(plan.compute, np.complex64)
    # Filters are complex in the precision of u, or real.
    power, *total = (
        factor.astype(complex_dtype if np.iscomplexobj(factor) else plan.compute, copy=False)
        for factor in spectral.multipliers((u, *fields), plan.compute, np.asarray)
    )
    with np.errstate(all="ignore"):
        filter_axes(u, power, out, spectral.periodic, workers)
        if total:
            added = sum(((u, *fields)[place] for place in spectral.sources), spectral.rate)
            shape = [n if axis in spectral.axes else m for axis, (n, m) in enumerate(_both(spectral.shape, added))]
            source = np.ascontiguousarray(np.broadcast_to(added, shape), plan.compute)
            result = np.empty_like(source)
            filter_axes(source, total[0], result, spectral.periodic, workers)
            out += result
        elif spectral.rate:
            out += out.dtype.type(spectral.shift)


def _both(shape: tuple[int, ...], values: Any) -> list[tuple[int, int]]:
    """Sizes of u beside those of an array that broadcasts against it."""
    sizes = np.shape(values)
    return list(zip(shape, (1,) * (len(shape) - len(sizes)) + sizes, strict=True))
