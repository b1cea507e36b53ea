"""diffusion_filter as a user would write it: rolled arrays, Chebyshev's three-term recurrence.

One code for NumPy and CuPy. The order of operations is that of :mod:`spectralops._plans.recurrence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.diffusion_filter import DiffusionFilterPlan
    from spectralops._plans.recurrence import Recurrence

__all__ = ["diffusion_filter"]


def _library(out: Any) -> Any:
    if isinstance(out, np.ndarray):
        return np
    import cupy

    return cupy


def _twice_s(r: Recurrence, u: Any, xp: Any) -> Any:
    """X(u): twice the Laplacian brought to the spectrum -1 ... 1."""
    if r.form == "flux":
        total: Any = None
        for j, conductance in enumerate(r.conductances):
            flux = (u - r.lower(u, j, xp)) * conductance
            if not r.periodic[j]:
                flux[(*(slice(None),) * r.axes[j], slice(0, 1))] = 0.0
            inflow = xp.roll(flux, -1, r.axes[j]) - flux
            total = inflow if total is None else total + inflow
        result = r.field * total - (u + u)
    else:
        pairs = [r.lower(u, j, xp) + r.upper(u, j, xp) for j in range(len(r.axes))]
        mean = pairs[0]
        for weight, pair in zip(r.weights, pairs[1:], strict=True):
            mean = mean + weight * (pair - pairs[0])
        result = -mean if r.form == "open" else r.field * u - mean
    return result if r.sea is None else xp.where(r.sea, result, xp.zeros((), u.dtype))


def diffusion_filter(plan: DiffusionFilterPlan, u: Any, *rest: Any, out: Any, workers: int) -> None:
    """Sum of c_k T_k(S) u with T_k = 2 S T_{k-1} - T_{k-2}."""
    xp = _library(out)
    recurrence = plan.recurrence((u, *rest), xp)
    sea = recurrence.sea
    field = u if sea is None else xp.where(sea, u, xp.zeros((), u.dtype))
    if plan.transposed:
        field = field / recurrence.area
    previous, current = field, 0.5 * _twice_s(recurrence, field, xp)
    out[...] = plan.coefficients[0] * previous + plan.coefficients[1] * current
    for c in plan.coefficients[2:]:
        previous, current = current, _twice_s(recurrence, current, xp) - previous
        out += c * current
    if plan.transposed:
        out *= recurrence.area
    if sea is not None:
        out[...] = xp.where(sea, out, u)
