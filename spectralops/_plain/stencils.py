"""Difference operators as a user would write them: whole-array rolls, ghosts put in at the ends.

One code for NumPy and CuPy. A face to a masked cell is closed by giving the cell a neighbour that makes the flux
through the face vanish: its own value where fluxes are differences, minus it where they are means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.stencils import StencilPlan

__all__ = ["divergence", "gradient", "laplacian"]


def _library(out: Any) -> Any:
    if isinstance(out, np.ndarray):
        return np
    import cupy

    return cupy


def _ends(ndim: int, axis: int) -> tuple[Any, Any]:
    """Indices of the first and the last cell along an axis."""
    first, last = [slice(None)] * ndim, [slice(None)] * ndim
    first[axis], last[axis] = slice(0, 1), slice(-1, None)
    return tuple(first), tuple(last)


def _neighbours(xp: Any, u: Any, axis: int, rules: Any) -> tuple[Any, Any]:
    """The values below and above each cell, ghosts included."""
    pair = xp.roll(u, 1, axis), xp.roll(u, -1, axis)
    for shifted, rule, end in zip(pair, rules, _ends(u.ndim, axis), strict=True):
        if rule.source != "wrap":
            shifted[end] = rule.scale * u[end] + rule.offset
    return pair


def _open(xp: Any, mask: Any, axis: int, rules: Any) -> tuple[Any, Any]:
    """Whether the faces below and above each cell are open; those of the boundary are its condition's business."""
    below, above = xp.roll(mask, 1, axis), xp.roll(mask, -1, axis)
    first, last = _ends(mask.ndim, axis)
    if rules[0].source != "wrap":
        below[first], above[last] = True, True
    return mask & below, mask & above


def _sides(plan: StencilPlan, xp: Any, u: Any, j: int, mask: Any, wall: float) -> tuple[Any, Any]:
    """The neighbours along the plan's j-th axis, replaced by wall * u beyond closed faces."""
    axis, rules = plan.axes[j], plan.ghosts[j]
    below, above = _neighbours(xp, u, axis, rules)
    if mask is None:
        return below, above
    low, high = _open(xp, mask, axis, rules)
    return xp.where(low, below, wall * u), xp.where(high, above, wall * u)


def _operand(plan: StencilPlan, name: str, arrays: tuple[Any, ...]) -> Any:
    place = plan.place(name)
    return None if place is None else arrays[place]


def _whole_mask(plan: StencilPlan, xp: Any, arrays: tuple[Any, ...]) -> Any:
    mask = _operand(plan, "mask", arrays)
    return None if mask is None else xp.broadcast_to(mask, plan.scalar_shape)


def gradient(plan: StencilPlan, u: Any, *rest: Any, out: Any, workers: int) -> None:
    """(u_above - u_below) / 2h along each axis."""
    xp = _library(out)
    mask = _whole_mask(plan, xp, (u, *rest))
    for j, h in enumerate(plan.spacing):
        below, above = _sides(plan, xp, u, j, mask, 1.0)
        xp.multiply(above - below, plan.factor / (2.0 * h), out=out[j])
        if mask is not None:
            out[j][~mask] = 0


def divergence(plan: StencilPlan, *arrays: Any, out: Any, workers: int) -> None:
    """Sum of (v_above - v_below) / 2h, each axis with its component."""
    xp = _library(out)
    mask = _whole_mask(plan, xp, arrays)
    parts = arrays[0] if plan.operands[0].name == "v" else arrays
    out[...] = 0
    for j, h in enumerate(plan.spacing):
        below, above = _sides(plan, xp, parts[j], j, mask, -1.0)
        out += (above - below) * (plan.factor / (2.0 * h))
    if mask is not None:
        out[~mask] = 0


def laplacian(plan: StencilPlan, u: Any, *rest: Any, out: Any, workers: int) -> None:
    """Sum of differences of face fluxes, nu at a face being the mean of the cells on both sides."""
    xp = _library(out)
    arrays = (u, *rest)
    mask, nu = _whole_mask(plan, xp, arrays), _operand(plan, "nu", arrays)
    if nu is not None:
        nu = xp.broadcast_to(nu, u.shape)
    out[...] = 0
    for j, h in enumerate(plan.spacing):
        below, above = _sides(plan, xp, u, j, mask, 1.0)
        upper, lower = above - u, u - below
        if nu is not None:
            before, after = _faces(plan, xp, nu, j, mask)
            upper, lower = after * upper, before * lower
        out += (upper - lower) * (plan.factor / (h * h))
    if mask is not None:
        out[~mask] = 0


def _faces(plan: StencilPlan, xp: Any, nu: Any, j: int, mask: Any) -> tuple[Any, Any]:
    """Means of nu on the faces below and above; at the boundary, and towards masked cells, the cell's own value."""
    axis, rules = plan.axes[j], plan.ghosts[j]
    below, above = xp.roll(nu, 1, axis), xp.roll(nu, -1, axis)
    if rules[0].source != "wrap":
        first, last = _ends(nu.ndim, axis)
        below[first], above[last] = nu[first], nu[last]
    if mask is not None:
        low, high = _open(xp, mask, axis, rules)
        below, above = xp.where(low, below, nu), xp.where(high, above, nu)
    return 0.5 * (below + nu), 0.5 * (nu + above)
