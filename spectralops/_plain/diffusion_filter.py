"""diffusion_filter as a user would write it: rolled arrays, Chebyshev's three-term recurrence.

One code for NumPy and CuPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.diffusion_filter import DiffusionFilterPlan

__all__ = ["diffusion_filter"]


def _library(out: Any) -> Any:
    if isinstance(out, np.ndarray):
        return np
    import cupy

    return cupy


class _Laplacian:
    """The Laplacian of a plan's grid: what flows into each cell through its faces, for each area."""

    def __init__(self, plan: DiffusionFilterPlan, xp: Any, named: dict[str, Any]) -> None:
        self.xp = xp
        self.plan = plan
        mask = named.get("mask")
        self.mask = None if mask is None else xp.broadcast_to(mask, plan.shape)
        self.open = [self._open(j) for j in range(len(plan.axes))]
        metric = plan.metric
        if metric is None:
            self.area: Any = 1.0
            self.conductances: list[Any] = [1.0 / (h * h) for h in plan.spacing]
            return

        def value(entry: float | str) -> Any:
            return named[entry] if isinstance(entry, str) else entry

        self.area = value(metric.area)
        if self.mask is not None:
            self.area = xp.where(self.mask, self.area, 1.0).astype(plan.compute_dtype)
        self.conductances = []
        for j, (width, length, kappa) in enumerate(zip(metric.widths, metric.lengths, metric.kappa, strict=True)):
            distance = value(length)
            if self.open[j] is not None:
                distance = xp.where(self.open[j], distance, 1.0).astype(plan.compute_dtype)
            self.conductances.append(value(kappa) * value(width) / distance)

    def _open(self, j: int) -> Any:
        """Whether the lower face of each cell along the plan's j-th axis is open; None if all are."""
        xp, axis = self.xp, self.plan.axes[j]
        if self.mask is None and self.plan.periodic[j]:
            return None
        faces = xp.ones(self.plan.shape, bool) if self.mask is None else self.mask & xp.roll(self.mask, 1, axis)
        if not self.plan.periodic[j]:
            first = [slice(None)] * faces.ndim
            first[axis] = slice(0, 1)
            faces[tuple(first)] = False
        return faces

    def __call__(self, u: Any) -> Any:
        xp, total = self.xp, None
        for axis, faces, conductance in zip(self.plan.axes, self.open, self.conductances, strict=True):
            flux = (u - xp.roll(u, 1, axis)) * conductance
            if faces is not None:
                flux = xp.where(faces, flux, xp.zeros((), u.dtype))
            inflow = xp.roll(flux, -1, axis) - flux
            total = inflow if total is None else total + inflow
        return total / self.area


def diffusion_filter(plan: DiffusionFilterPlan, u: Any, *rest: Any, out: Any, workers: int) -> None:
    """Sum of c_k T_k(S) u with S = -2 Laplacian / s_max - 1 and T_k = 2 S T_{k-1} - T_{k-2}."""
    xp = _library(out)
    named = dict(zip((operand.name for operand in plan.operands), (u, *rest), strict=True))
    laplacian = _Laplacian(plan, xp, named)
    mask = laplacian.mask
    field = u if mask is None else xp.where(mask, u, xp.zeros((), u.dtype))
    if plan.transposed:
        field = field / laplacian.area
    scale = -2.0 / plan.s_max

    previous, current = field, scale * laplacian(field) - field
    out[...] = plan.coefficients[0] * previous + plan.coefficients[1] * current
    for c in plan.coefficients[2:]:
        previous, current = current, 2.0 * (scale * laplacian(current) - current) - previous
        out += c * current
    if plan.transposed:
        out *= laplacian.area
    if mask is not None:
        out[...] = xp.where(mask, out, u)
