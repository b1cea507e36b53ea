"""The cells of an explicit time step: shape, stepped axes, boundary conditions, ghosts, operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from spectralops import _arrays, boundary

__all__ = ["Geometry", "geometry_of"]

Ghosts: TypeAlias = tuple[tuple[tuple[boundary.GhostRule, ...], tuple[boundary.GhostRule, ...]], ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """All of a step that does not depend on the values of its coefficients.

    Attributes
    ----------
    op, backend : str
        Operator and the executor that runs it.
    operands : tuple of Operand
        The field u, the array coefficients in the order of the call, the mask last.
    shape : tuple of int
        Shape of u and of the result.
    dtype : str
        Dtype of the result.
    axes : tuple of int
        Stepped axes of the array, sorted; the attributes below have one entry for each.
    spacing : tuple of float
        Cell size [L].
    conditions : tuple of (low, high)
        Boundary conditions.
    widths : tuple of int
        Ghost layers.
    ghosts : tuple of (low, high)
        Rule of each ghost layer, the innermost first.
    constant : frozenset of int
        Operands that do not vary along the stepped axes.
    mask : int or None
        Operand that says which cells are computed.
    """

    op: str
    backend: str
    operands: tuple[_arrays.Operand, ...]
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...]
    spacing: tuple[float, ...]
    conditions: tuple[boundary.Sides, ...]
    widths: tuple[int, ...]
    ghosts: Ghosts
    constant: frozenset[int]
    mask: int | None

    @property
    def held(self) -> tuple[tuple[bool, bool], ...]:
        """Whether the end cells keep their value."""
        return tuple((isinstance(low, boundary.Hold), isinstance(high, boundary.Hold)) for low, high in self.conditions)


def geometry_of(
    op: str,
    backend: str,
    operands: tuple[_arrays.Operand, ...],
    dtype: str,
    axes: tuple[int, ...],
    spacing: tuple[float, ...],
    conditions: tuple[boundary.Sides, ...],
    widths: tuple[int, ...],
    constant: frozenset[int],
    mask: int | None,
) -> Geometry:
    """The geometry with the rules of its ghosts."""
    shape = operands[0].spec.shape
    ghosts = boundary.ghosts(op, conditions, spacing, {axis: shape[axis] for axis in axes}, widths)
    return Geometry(op, backend, operands, shape, dtype, axes, spacing, conditions, widths, ghosts, constant, mask)
