r"""The arithmetic of diffusion_filter, in the order that its executors share, and the fields that it reads.

With S = -2 Laplacian / s_max - 1 and X = 2 S, the levels are

    T_0 = u,  T_1 = X(T_0) / 2,  T_k = X(T_{k-1}) - T_{k-2},  result = ((c_0 T_0 + c_1 T_1) + c_2 T_2) + ...

Axes are counted from the last filtered axis of the array to the first; l_j and r_j are the neighbours below and above
along axis j, beyond a closed end the cell itself. Without a metric, minus the weights of the two faces is

    w_j = 4 / (s_max h_j^2),  sum of the w_j = 1,

so that X(u) is minus the weighted mean of the l_j + r_j. It is formed by differences, which keeps constants to the bit:

    mean = ((l_0 + r_0) + w_1 ((l_1 + r_1) - (l_0 + r_0))) + w_2 ((l_2 + r_2) - (l_0 + r_0))
    X(u) = -mean                   without land
    X(u) = e u - mean              with land, where u is 0 and e is minus the weights of the cell's closed faces

With a metric, g_j being the conductances of the lower faces, zero where these are closed, and g'_j of the upper ones,

    sum  = (g'_0 (r_0 - u) - g_0 (u - l_0)) + (g'_1 (r_1 - u) - g_1 (u - l_1)) + ...
    X(u) = f sum - (u + u),  f = -4 / (s_max area)

e and f are NaN on land, where every level is 0. Two-dimensional grids of square cells have w_1 = 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Recurrence"]


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """What the levels of one call are computed with; arrays broadcast against u.

    Attributes
    ----------
    axes : tuple of int
        Filtered axes, the last one first.
    periodic : tuple of bool
        Whether the ends of each of them meet.
    weights : tuple of float
        w_1, w_2, ...
    form : str
        ``"open"``, ``"coast"`` or ``"flux"``: which of the three X it is.
    sea : array or None
        The mask.
    field : array or None
        e or f.
    closed : tuple of float
        e for each count of dry neighbours: a number in base 3 with a digit for each of the axes, the first one's last.
    conductances : tuple of array
        g_0, g_1, ... of the form ``"flux"``.
    area : array or float
        The metric's, one on land.
    """

    axes: tuple[int, ...]
    periodic: tuple[bool, ...]
    weights: tuple[float, ...]
    form: str
    sea: Any
    field: Any
    closed: tuple[float, ...]
    conductances: tuple[Any, ...]
    area: Any

    @classmethod
    def of(cls, plan: Any, arrays: tuple[Any, ...], xp: Any, coasts: bool = True) -> Recurrence:
        """That of a plan's operands, arrays of the library xp; e of its cells only with `coasts`."""
        named = dict(zip((operand.name for operand in plan.operands), arrays, strict=True))
        order = sorted(range(len(plan.axes)), key=lambda j: -plan.axes[j])
        axes = tuple(plan.axes[j] for j in order)
        periodic = tuple(plan.periodic[j] for j in order)
        weights = [4.0 / (plan.s_max * plan.spacing[j] ** 2) for j in order]
        sea = named.get("mask")
        if sea is not None:
            sea = sea.reshape((1,) * (len(plan.shape) - sea.ndim) + sea.shape)
        closed = tuple(-sum(w * (k // 3**j % 3) for j, w in enumerate(weights)) for k in range(3 ** len(weights)))
        build = cls(axes, periodic, tuple(weights[1:]), plan.form, sea, None, closed, (), 1.0)
        if plan.form == "open" or (plan.form == "coast" and not coasts):
            return build
        if plan.form == "coast":
            return replace(build, field=build._closed_weights(plan.compute_dtype, xp))
        return build._with_metric(plan, named, order, xp)

    def lower(self, x: Any, j: int, xp: Any) -> Any:
        """The neighbour of each cell below along axis j; beyond a closed end the cell itself."""
        return self._moved(x, j, 1, xp)

    def upper(self, x: Any, j: int, xp: Any) -> Any:
        """The neighbour of each cell above."""
        return self._moved(x, j, -1, xp)

    def _moved(self, x: Any, j: int, shift: int, xp: Any) -> Any:
        axis = self.axes[j]
        moved = xp.roll(x, shift, axis)
        if not self.periodic[j]:
            end = _slab(x.ndim, axis, 0 if shift > 0 else -1)
            moved[end] = x[end]
        return moved

    def _closed_weights(self, dtype: str, xp: Any) -> Any:
        """The field e: by the number of dry neighbours of each cell, on land above all of these."""
        count = len(self.closed)
        kind = np.min_scalar_type(count)
        land = (~self.sea).astype(kind)
        code = land * kind.type(count)
        for j in range(len(self.axes)):
            dry = self.lower(land, j, xp) + self.upper(land, j, xp)
            code += (1 - land) * dry * kind.type(3**j)
        return xp.asarray([*self.closed, xp.nan], dtype)[code]

    def _with_metric(self, plan: Any, named: dict[str, Any], order: list[int], xp: Any) -> Recurrence:
        metric, dtype = plan.metric, plan.compute_dtype
        assert metric is not None

        def value(entry: float | str) -> Any:
            return named[entry] if isinstance(entry, str) else entry

        area = value(metric.area)
        if self.sea is not None:
            area = xp.where(self.sea, area, 1.0).astype(dtype)
        field = xp.asarray(-4.0 / plan.s_max / area, dtype)
        if self.sea is not None:
            field = xp.where(self.sea, field, xp.asarray(xp.nan, dtype))
        conductances = []
        for j, place in enumerate(order):
            width, length, kappa = (value(part[place]) for part in (metric.widths, metric.lengths, metric.kappa))
            is_open = self._open(j, plan.shape, xp)
            if is_open is None:
                conductances.append(xp.asarray(kappa * width / length, dtype))
                continue
            length = xp.where(is_open, length, 1.0).astype(dtype)
            conductance = xp.where(is_open, kappa * width / length, 0.0)
            conductances.append(conductance.astype(dtype))
        return replace(self, area=area, field=field, conductances=tuple(conductances))

    def _open(self, j: int, shape: tuple[int, ...], xp: Any) -> Any:
        """Whether the lower faces along axis j are open; None if all are."""
        axis = self.axes[j]
        if self.sea is None and self.periodic[j]:
            return None
        if self.sea is None:
            is_open = xp.ones([n if k == axis else 1 for k, n in enumerate(shape)], bool)
        else:
            is_open = self.sea & self.lower(self.sea, j, xp)
        if not self.periodic[j]:
            is_open = xp.broadcast_to(
                is_open, [shape[axis] if k == axis else n for k, n in enumerate(is_open.shape)]
            ).copy()
            is_open[_slab(len(shape), axis, 0)] = False
        return is_open


def _slab(ndim: int, axis: int, place: int) -> tuple[slice, ...]:
    """The first (0) or last (-1) entries along an axis; none where it is empty."""
    slices = [slice(None)] * ndim
    slices[axis] = slice(0, 1) if place == 0 else slice(-1, None)
    return tuple(slices)
