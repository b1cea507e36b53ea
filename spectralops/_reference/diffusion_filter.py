"""The meaning of diffusion_filter: face by face, the polynomial summed from its highest term by Clenshaw's rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.diffusion_filter import DiffusionFilterPlan

__all__ = ["diffusion_filter"]

Array = np.ndarray[Any, Any]
Cell = tuple[int, ...]


def _faces(plan: DiffusionFilterPlan, named: dict[str, Array], wet: Array) -> list[tuple[Cell, Cell, float]]:
    """The open faces: the cells on both sides and the conductance between them."""

    def at(entry: float | str, cell: Cell) -> float:
        return float(np.broadcast_to(named[entry], plan.shape)[cell] if isinstance(entry, str) else entry)

    found = []
    for j, axis in enumerate(plan.axes):
        for cell in np.ndindex(plan.shape):
            if cell[axis] == 0 and not plan.periodic[j]:
                continue
            lower = (*cell[:axis], (cell[axis] - 1) % plan.shape[axis], *cell[axis + 1 :])
            if not (wet[cell] and wet[lower]):
                continue
            if plan.metric is None:
                conductance = plan.spacing[j] ** -2
            else:
                width, length, kappa = (
                    at(entries[j], cell) for entries in (plan.metric.widths, plan.metric.lengths, plan.metric.kappa)
                )
                conductance = kappa * width / length
            found.append((lower, cell, conductance))
    return found


def diffusion_filter(plan: DiffusionFilterPlan, u: Array, *rest: Array, out: Array, workers: int) -> None:
    """b_k = c_k u + 2 S b_{k+1} - b_{k+2}; the result is c_0 u + S b_1 - b_2."""
    named = dict(zip((operand.name for operand in plan.operands), (u, *rest), strict=True))
    wet = np.broadcast_to(named.get("mask", np.array(True)), plan.shape)
    faces = _faces(plan, named, wet)
    area = 1.0 if plan.metric is None else plan.metric.area
    areas = np.broadcast_to(named[area] if isinstance(area, str) else np.array(area), plan.shape)
    areas = np.where(wet, areas, 1.0).astype(np.float64)

    def apply(field: Array) -> Array:
        gain = np.zeros(plan.shape)
        for lower, upper, conductance in faces:
            flux = conductance * (field[upper] - field[lower])
            gain[lower] += flux
            gain[upper] -= flux
        stretched: Array = -2.0 * gain / areas / plan.s_max - field
        return stretched

    field = np.where(wet, u, 0.0).astype(np.float64)
    if plan.transposed:
        field = field / areas
    after, later = np.zeros(plan.shape), np.zeros(plan.shape)
    for c in plan.coefficients[:0:-1]:
        after, later = c * field + 2.0 * apply(after) - later, after
    result = plan.coefficients[0] * field + apply(after) - later
    if plan.transposed:
        result = result * areas
    out[...] = np.where(wet, result, u)
