"""The meaning of the difference operators: one cell at a time, from what crosses its faces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.stencils import StencilPlan

__all__ = ["divergence", "gradient", "laplacian"]

Array = np.ndarray[Any, Any]
Cell = tuple[int, ...]


class _Grid:
    """The cells of a scalar field with its mask, and what lies beyond each face."""

    def __init__(self, plan: StencilPlan, arrays: tuple[Array, ...]) -> None:
        self.plan = plan
        named = dict(zip((operand.name for operand in plan.operands), arrays, strict=True))
        shape = plan.scalar_shape
        self.mask = np.broadcast_to(named.get("mask", np.array(True)), shape)
        self.nu = np.broadcast_to(named.get("nu", np.array(1.0)), shape).astype(np.float64)
        self.cells: list[Cell] = [cell for cell in np.ndindex(shape) if self.mask[cell]]

    def beyond(self, cell: Cell, j: int, side: int) -> Cell | None:
        """The cell on the other side of a face (side 0: below, 1: above), None at the boundary of the grid."""
        axis, n = self.plan.axes[j], self.plan.scalar_shape[self.plan.axes[j]]
        index = cell[axis] + (1 if side else -1)
        if not 0 <= index < n:
            if self.plan.ghosts[j][side].source != "wrap":
                return None
            index %= n
        return (*cell[:axis], index, *cell[axis + 1 :])

    def closed(self, cell: Cell, j: int, side: int) -> bool:
        """Whether the face leads to a masked cell."""
        other = self.beyond(cell, j, side)
        return other is not None and not self.mask[other]

    def value(self, u: Array, cell: Cell, j: int, side: int) -> Any:
        """The value on the other side of an open face, a ghost's at the boundary."""
        other = self.beyond(cell, j, side)
        if other is None:
            rule = self.plan.ghosts[j][side]
            return rule.scale * u[cell] + rule.offset
        return u[other]

    def slope(self, u: Array, cell: Cell, j: int, side: int) -> Any:
        """The derivative at an open face along its axis."""
        difference = self.value(u, cell, j, side) - u[cell]
        return (difference if side else -difference) / self.plan.spacing[j]

    def span(self, u: Array, cell: Cell, j: int, wall: float) -> Any:
        """The difference between the values on both sides of a cell, those behind closed faces being wall * u."""
        below, above = (
            wall * u[cell] if self.closed(cell, j, side) else self.value(u, cell, j, side) for side in (0, 1)
        )
        return above - below

    def conductivity(self, cell: Cell, j: int, side: int) -> float:
        """The diffusivity at a face: the mean of both cells, at the boundary the end cell's."""
        other = self.beyond(cell, j, side)
        return float(self.nu[cell] if other is None else 0.5 * (self.nu[cell] + self.nu[other]))


def _wide(u: Array) -> Array:
    return u.astype(np.complex128 if u.dtype.kind == "c" else np.float64)


def gradient(plan: StencilPlan, u: Array, *rest: Array, out: Array, workers: int) -> None:
    """The mean of the slopes at the two faces of a cell, a closed one's being zero."""
    grid, field = _Grid(plan, (u, *rest)), _wide(u)
    out[...] = 0
    for j, h in enumerate(plan.spacing):
        for cell in grid.cells:
            out[(j, *cell)] = plan.factor * grid.span(field, cell, j, 1.0) / (2 * h)


def divergence(plan: StencilPlan, *arrays: Array, out: Array, workers: int) -> None:
    """What flows out through the faces, for each volume: means of both sides, zero at closed ones."""
    grid = _Grid(plan, arrays)
    parts = arrays[0] if plan.operands[0].name == "v" else arrays
    wide = [_wide(part) for part in parts[: len(plan.axes)]]
    out[...] = 0
    for cell in grid.cells:
        total = sum(grid.span(v, cell, j, -1.0) / (2 * plan.spacing[j]) for j, v in enumerate(wide))
        out[cell] = plan.factor * total


def laplacian(plan: StencilPlan, u: Array, *rest: Array, out: Array, workers: int) -> None:
    """What flows in through the faces down the gradient, for each volume."""
    grid, field = _Grid(plan, (u, *rest)), _wide(u)
    out[...] = 0
    for cell in grid.cells:
        total: Any = 0.0
        for j in range(len(plan.axes)):
            for side, sign in ((0, -1.0), (1, 1.0)):
                if not grid.closed(cell, j, side):
                    flux = grid.conductivity(cell, j, side) * grid.slope(field, cell, j, side)
                    total = total + sign * flux / plan.spacing[j]
        out[cell] = plan.factor * total
