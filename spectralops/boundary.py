r"""Boundary conditions of finite-difference operators, as data.

Grids are cell-centred: the boundary is a face, half a cell beyond the last value. A condition says what the ghost
cells beyond that face hold: layer m = 1, 2, … lies (m - 1/2) spacings outside, and its mirror image, the m-th cell
counted from the face inwards, as far inside. Every ghost is affine in one cell,

    ghost = scale * u[source] + offset,

so that an executor needs this one rule for all of them, however wide its stencil.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spectralops import _checks

__all__ = ["Dirichlet", "Hold", "Neumann", "Outflow", "Periodic", "Reflect", "Robin"]


@dataclass(frozen=True, slots=True)
class GhostRule:
    """One ghost cell as ``scale * u[source] + offset``.

    `source` names a cell of the same line of cells: ``"wrap"``, the cell that lies as far from the opposite face;
    ``"mirror"``, the mirror image in the face; ``"edge"``, the end cell next to the face.
    """

    source: str
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Periodic:
    """The two ends of the axis meet: beyond the last cell comes the first.

    Belongs on both sides of an axis or on neither.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0], 1.0, 0.25, 1.0, bc=so.Periodic())
    array([1., 1., 2.])
    """

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        return GhostRule("wrap")


@dataclass(frozen=True, slots=True)
class Dirichlet:
    r"""A given value at the face, :math:`u = g`.

    Ghosts continue the field oddly about the face, :math:`u_{ghost} = 2 g - u_{mirror}`: exact for linear profiles.

    Parameters
    ----------
    value : float
        The value g [units of u].

    Raises
    ------
    TypeError
        If the value is not a real number.
    ValueError
        If it is not finite.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0], 1.0, 0.25, 1.0, bc=so.Dirichlet(0.0))
    array([0., 1., 1.])
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _checks.number("Dirichlet", "value", self.value))

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        return GhostRule("mirror", -1.0, 2.0 * self.value)


@dataclass(frozen=True, slots=True)
class Neumann:
    r"""A given outward derivative at the face, :math:`\partial u/\partial n = d`.

    n points out of the grid on both sides, so a positive d lets the field rise towards either end. Ghosts are
    :math:`u_{ghost} = u_{mirror} + (2m - 1) h\, d`: exact for quadratic profiles.

    Parameters
    ----------
    derivative : float
        The outward derivative d [units of u per unit of length].

    Raises
    ------
    TypeError
        If the derivative is not a real number.
    ValueError
        If it is not finite.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0], 1.0, 0.25, 1.0, bc=((so.Neumann(0.0), so.Neumann(4.0)),))
    array([0., 1., 4.])
    """

    derivative: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "derivative", _checks.number("Neumann", "derivative", self.derivative))

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        return GhostRule("mirror", 1.0, (2 * layer - 1) * spacing * self.derivative)


@dataclass(frozen=True, slots=True)
class Robin:
    r"""A mixed condition at the face, :math:`\partial u/\partial n + \gamma u = \beta`, n pointing outwards.

    With the value at the face taken as the mean of ghost and mirror cell and H = (2m - 1) h their distance,
    :math:`u_{ghost} = [(2 - \gamma H)\, u_{mirror} + 2 H \beta] / (2 + \gamma H)`.

    Parameters
    ----------
    gamma : float
        Coefficient :math:`\gamma` [1 / length]; positive for heat lost to the surroundings.
    beta : float
        Right-hand side :math:`\beta` [units of u per unit of length].

    Raises
    ------
    TypeError
        If a parameter is not a real number.
    ValueError
        If it is not finite; when a step is planned, also if :math:`2 + \gamma H = 0` on its grid.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0], 1.0, 0.25, 1.0, bc=so.Robin(2.0, 0.0))
    array([0., 1., 2.])
    """

    gamma: float
    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _checks.number("Robin", "gamma", self.gamma))
        object.__setattr__(self, "beta", _checks.number("Robin", "beta", self.beta))

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        distance = (2 * layer - 1) * spacing
        denominator = 2.0 + self.gamma * distance
        if denominator == 0.0:
            raise ValueError(
                f"Robin: gamma is {self.gamma}, but must differ from {-2.0 / distance}, "
                f"where no ghost value fits a spacing of {spacing}; change gamma or the spacing"
            )
        return GhostRule(
            "mirror", (2.0 - self.gamma * distance) / denominator, 2.0 * distance * self.beta / denominator
        )


@dataclass(frozen=True, slots=True)
class Reflect:
    """A mirror at the face: ghosts repeat the cells inside, the end cell first (``Neumann(0)``, a closed wall).

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0], 1.0, 0.25, 1.0, bc=so.Reflect())
    array([0., 1., 3.])
    """

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        return GhostRule("mirror")


@dataclass(frozen=True, slots=True)
class Outflow:
    """Zeroth-order extrapolation: every ghost repeats the end cell, so that waves leave without coming back.

    Examples
    --------
    >>> import spectralops as so
    >>> so.convection_step([0.0, 0.0, 4.0], 1.0, 1.0, 0.5, bc=so.Outflow())
    array([0., 0., 2.])
    """

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        return GhostRule("edge")


@dataclass(frozen=True, slots=True)
class Hold:
    """The end cell keeps its value: Dirichlet data on a grid whose ends are nodes of the boundary.

    The end cell itself is not updated; where a wide stencil looks beyond it, ghosts repeat its value.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0], 1.0, 0.25, 1.0, bc=so.Hold())
    array([0., 1., 4.])
    """

    def ghost(self, layer: int, spacing: float) -> GhostRule:
        """Rule of the ghost in this `layer`, counted from 1 outwards, on a grid of this `spacing`."""
        return GhostRule("edge")


Condition: TypeAlias = Periodic | Dirichlet | Neumann | Robin | Reflect | Outflow | Hold
Sides: TypeAlias = tuple[Condition, Condition]
# What the public functions take as `bc`.
Conditions: TypeAlias = (
    Condition | Mapping[int, Condition | Sequence[Condition]] | Sequence[Condition | Sequence[Condition]]
)


def sides(op: str, bc: Any, axes: tuple[int, ...], ndim: int) -> tuple[Sides, ...]:
    """The (low, high) conditions of each of the `axes` of an array of `ndim` dimensions.

    `bc` is one condition for all sides, a mapping {axis of the array: condition or (low, high)} that names every
    axis, or a tuple with one such entry per axis.
    """
    if isinstance(bc, Mapping):
        entries = _of_mapping(op, bc, axes, ndim)
    elif isinstance(bc, list | tuple):
        if len(bc) != len(axes):
            raise ValueError(
                f"{op}: bc has {len(bc)} entries, but must have {len(axes)}, one per axis; "
                "write ((low, high),) for the two sides of a single axis"
            )
        entries = tuple(bc)
    else:
        entries = (bc,) * len(axes)
    return tuple(_pair(op, entry, axis) for entry, axis in zip(entries, axes, strict=True))


def _of_mapping(op: str, bc: Mapping[Any, Any], axes: tuple[int, ...], ndim: int) -> tuple[Any, ...]:
    found: dict[int, Any] = {}
    for key, entry in bc.items():
        try:
            axis = operator.index(key)
        except TypeError as error:
            raise TypeError(f"{op}: bc has the key {_checks.shown(key)}, but must have axes as integers") from error
        if not -ndim <= axis < ndim or axis % ndim not in axes:
            where = _checks.shown(axis)
            raise ValueError(f"{op}: bc has an entry for axis {where}, but must only name the stepped axes {axes}")
        if axis % ndim in found:
            raise ValueError(f"{op}: bc has two entries for axis {axis % ndim}, but must have one")
        found[axis % ndim] = entry
    missing = [axis for axis in axes if axis not in found]
    if missing:
        raise ValueError(
            f"{op}: bc has no entry for axis {missing[0]}, but must name every stepped axis of {axes}; "
            f"add {{{missing[0]}: Periodic()}} if it wraps around"
        )
    return tuple(found[axis] for axis in axes)


def _pair(op: str, entry: Any, axis: int) -> Sides:
    pair = tuple(entry) if isinstance(entry, list | tuple) else (entry, entry)
    if len(pair) != 2:
        raise ValueError(
            f"{op}: bc has {len(pair)} entries for axis {axis}, but must have one condition or two, (low, high)"
        )
    for condition in pair:
        if isinstance(condition, type) and issubclass(condition, Condition):
            name = condition.__name__
            raise TypeError(f"{op}: bc is the class {name}, but must be an instance; write {name}(…)")
        if not isinstance(condition, Condition):
            raise TypeError(
                f"{op}: bc is {_checks.shown(condition)}, but must be Periodic(), Dirichlet(value), "
                "Neumann(derivative), Robin(gamma, beta), Reflect(), Outflow() or Hold()"
            )
    low, high = pair
    if isinstance(low, Periodic) != isinstance(high, Periodic):
        raise ValueError(
            f"{op}: bc is ({low}, {high}) on axis {axis}, but must be Periodic() on both sides of an axis or on neither"
        )
    return low, high


def ghosts(
    op: str,
    conditions: tuple[Sides, ...],
    spacing: tuple[float, ...],
    sizes: Mapping[int, int],
    halo: tuple[int, ...],
) -> tuple[tuple[tuple[GhostRule, ...], tuple[GhostRule, ...]], ...]:
    """Rules [axis][side][layer - 1] of every ghost that a stencil of these `halo` widths reads.

    `sizes` has the number of cells along each stepped axis, in the order of the other arguments.

    Raises
    ------
    ValueError
        If an axis has fewer cells than a mirrored ghost reaches into; an empty one needs no ghosts.
    """
    rules = []
    for (low, high), h, (axis, size), width in zip(conditions, spacing, sizes.items(), halo, strict=True):
        pair = tuple(tuple(side.ghost(layer, h) for layer in range(1, width + 1)) for side in (low, high))
        if 0 < size < width and any(rule.source == "mirror" for side in pair for rule in side):
            raise ValueError(
                f"{op}: u has {size} cells along axis {axis}, but must have at least {width} for the ghosts of {low} "
                f"and {high}; take a narrower scheme, or Outflow() or Hold(), which need one cell"
            )
        rules.append((pair[0], pair[1]))
    return tuple(rules)
