"""Arguments of the plans of stencil operators that are fields: coefficients and masks on the cells of u."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops import _arrays, _checks
from spectralops._arrays import ArraySpec
from spectralops._plans import transform

__all__ = ["as_spec", "coefficient", "is_field", "mask_spec", "spacing"]


def is_field(value: Any) -> bool:
    """Whether an argument is an operand: an array, or the specification of one."""
    return isinstance(value, ArraySpec) or _arrays.is_array(value)


def as_spec(op: str, name: str, value: Any) -> Any:
    """The specification of an array, anything else as it is: what a plan can be found again by."""
    return _arrays.describe(op, name, value)[1] if _arrays.is_array(value) else value


def coefficient(op: str, name: str, value: Any, shape: tuple[int, ...]) -> float | ArraySpec:
    """A number as a float, a real array that broadcasts to `shape` as its specification."""
    if not is_field(value):
        return _checks.number(op, name, value)
    spec = _fitting(op, name, value, shape)
    if spec.dtype in _checks.COMPLEXES:
        raise TypeError(f"{op}: {name} has dtype {spec.dtype}, but must be real")
    return spec


def mask_spec(op: str, value: Any, shape: tuple[int, ...]) -> ArraySpec | None:
    """Specification of a mask that broadcasts to `shape`, None without one."""
    if value is None:
        return None
    if not is_field(value):
        raise TypeError(f"{op}: mask is a {type(value).__name__}, but must be a boolean array")
    spec = _fitting(op, "mask", value, shape)
    if spec.dtype != "bool":
        raise TypeError(f"{op}: mask has dtype {spec.dtype}, but must be bool, True where u is computed")
    return spec


def spacing(op: str, dx: float | Sequence[float], count: int) -> tuple[float, ...]:
    """The cell size along each of `count` axes."""
    return tuple(_checks.length(op, "dx", h) for h in _checks.per_axis(op, "dx", dx, count))


def _fitting(op: str, name: str, value: Any, shape: tuple[int, ...]) -> ArraySpec:
    spec = transform.array_spec(op, name, value)
    fits = len(spec.shape) <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(spec.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(f"{op}: {name} has shape {spec.shape}, but must broadcast to {shape}, the shape of u")
    return spec
