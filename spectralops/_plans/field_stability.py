"""The largest stable time step where coefficients are arrays: that of the cell which allows the least.

The coefficients of one cell at a time are frozen and judged by :mod:`spectralops._plans.stability`. Which cells to
judge is known for the bounds in closed form: the fastest, the most diffusive, the one with the largest sum of
advection and diffusion, and the least damped (largest v²/nu). Reading the arrays waits for the device, which is why
planning never does it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays
from spectralops._plans.stability import largest_stable_dt
from spectralops._plans.terms import Advection, Diffusion, Field, SelfAdvection

if TYPE_CHECKING:
    from spectralops._plans.steps import StepPlan

__all__ = ["depends_on_data", "plan_stable_dt", "stable_dt", "sum_dtype"]


def sum_dtype(home: _arrays.Home, dtype: str) -> str:
    """The widest type of the same kind that the library has: 64 bits, but in JAX as it is set up."""
    wide = "complex128" if dtype.startswith("complex") else "float64"
    if home.library == "jax" and _arrays.default_float(home) == "float32":
        return {"complex128": "complex64", "float64": "float32"}[wide]
    return wide


def stable_dt(
    spacing: tuple[float, ...],
    diffusivities: tuple[Any, ...],
    advection: tuple[tuple[tuple[Any, ...], str], ...],
    integrator: str,
) -> float:
    """Largest stable dt for numbers and arrays (of one library, broadcasting): infinite if nothing limits it."""
    values = [*diffusivities, *(v for components, _ in advection for v in components)]
    places = [i for i, value in enumerate(values) if _arrays.is_array(value)]
    if not places:
        return _judge(spacing, values, len(diffusivities), advection, integrator)
    xp = compat.array_namespace(*(values[i] for i in places))
    home, _ = _arrays.describe("stable_dt", "a coefficient", values[places[0]])
    wide = getattr(xp, sum_dtype(home, "float64"))
    fields = xp.broadcast_arrays(*(xp.astype(values[i], wide, copy=False) for i in places))
    if 0 in fields[0].shape:
        return math.inf
    for i, field in zip(places, fields, strict=True):
        values[i] = xp.reshape(field, (-1,))
    with np.errstate(all="ignore"):
        cells = {int(xp.argmax(rate)) for rate in _rates(xp, wide, spacing, values, len(diffusivities))}
    return min(
        _judge(
            spacing,
            [float(v[cell]) if i in places else v for i, v in enumerate(values)],
            len(diffusivities),
            advection,
            integrator,
        )
        for cell in cells
    )


def _rates(xp: Any, wide: Any, spacing: tuple[float, ...], values: list[Any], count: int) -> list[Any]:
    """Fields whose largest values mark the cells to judge."""
    components = values[count:]
    d = len(spacing)
    still = xp.zeros_like(next(v for v in values if _arrays.is_array(v)))
    nu = still + sum(values[:count])
    speed = still + sum(abs(v) / spacing[i % d] for i, v in enumerate(components))
    square = still + sum(sum(components[a::d]) ** 2 for a in range(d))
    diffusion = nu * math.fsum(1.0 / (h * h) for h in spacing)
    return [speed, diffusion, speed + 2.0 * diffusion, square / (nu + xp.finfo(wide).smallest_normal)]


def _judge(
    spacing: tuple[float, ...],
    values: list[Any],
    count: int,
    advection: tuple[tuple[tuple[Any, ...], str], ...],
    integrator: str,
) -> float:
    winds = []
    start = count
    for components, scheme in advection:
        winds.append((tuple(float(v) for v in values[start : start + len(components)]), scheme))
        start += len(components)
    return largest_stable_dt(spacing, math.fsum(values[:count]), tuple(winds), integrator)


def depends_on_data(plan: StepPlan) -> bool:
    """Whether the bound depends on arrays: the planner has judged all others."""
    return any(
        isinstance(term, SelfAdvection)
        or (isinstance(term, Diffusion) and isinstance(term.nu, Field))
        or (isinstance(term, Advection) and any(isinstance(v, Field) for v in term.velocity))
        for term in plan.terms
    )


def plan_stable_dt(plan: StepPlan, arrays: tuple[Any, ...]) -> float:
    """Largest stable dt of a step for the native arrays it is called with; NaN if a coefficient is not finite.

    Cells outside the mask do not count, sources and pointwise terms are not judged.
    """
    mask = None if plan.geometry.mask is None else arrays[plan.geometry.mask]

    def value(coefficient: Any) -> Any:
        if not isinstance(coefficient, Field):
            return coefficient
        return masked(arrays[coefficient.operand])

    def masked(array: Any) -> Any:
        if mask is None:
            return array
        return np.broadcast_to(array, plan.in_shape)[np.broadcast_to(mask, plan.in_shape)]  # CuPy's on CuPy arrays

    d = len(plan.geometry.spacing)
    nus = tuple(value(term.nu) for term in plan.terms if isinstance(term, Diffusion))
    winds = tuple(
        (tuple(value(v) for v in term.velocity), term.scheme)
        if isinstance(term, Advection)
        else ((masked(arrays[0]),) * d, term.scheme)
        for term in plan.terms
        if isinstance(term, Advection | SelfAdvection)
    )
    fields = [v for v in (*nus, *(v for components, _ in winds for v in components)) if _arrays.is_array(v)]
    if not all(bool(np.isfinite(field).all()) for field in fields):
        return math.nan
    return stable_dt(plan.geometry.spacing, nus, winds, plan.integrator)
