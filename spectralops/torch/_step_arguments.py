"""The arguments of steps: which of them are tensors, and the plan that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spectralops import _checks, boundary, pde, steps
from spectralops._arrays import ArraySpec, dtype_name
from spectralops._plans.step_arguments import Options, advection, prepare
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Diffusion, Pointwise
from spectralops.torch._tensors import planned, spec_of, straight, transformed

__all__ = ["filled", "fixed_terms", "matters", "prepared", "straightly"]


def _arrays_of(value: Any) -> list[Tensor]:
    """The tensors in the arguments of a step that are arrays to it, in the order of its operands."""
    if isinstance(value, Tensor):
        return [value] if value.ndim else []
    if isinstance(value, list | tuple):
        return [found for item in value for found in _arrays_of(item)]
    if is_dataclass(value) and not isinstance(value, type):
        return [found for field in fields(value) for found in _arrays_of(getattr(value, field.name))]
    return []


def _mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The arguments of a step with their tensors changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: _mapped(getattr(value, field.name), change) for field in fields(value)})
    return value


def filled(value: Any, place: Any, arrays: Sequence[Any]) -> Any:
    """Arguments with arrays, or what else there is of each, in the places that stand for them."""
    if type(value) is place:
        return arrays[value.number]
    if isinstance(value, tuple):
        return tuple([filled(item, place, arrays) for item in value])
    if isinstance(value, dict):
        return {key: filled(item, place, arrays) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = [filled(getattr(value, field.name), place, arrays) for field in fields(value)]
        return type(value)(*parts)
    return value


def _aligned(value: Any, ndim: int) -> Any:
    """With scalar tensors as arrays, since a plan keeps numbers as constants."""
    return _mapped(value, lambda x: x.reshape((1,) * ndim) if x.ndim == 0 else x)


def _specified(value: Any) -> Any:
    """With specifications for tensors."""
    return _mapped(value, spec_of)


def matters(value: Any) -> bool:
    """Whether a call with these arguments is recorded, or has functions of tensors."""
    return transformed() or _open(value, torch.is_grad_enabled())


PLAIN = frozenset({float, int, bool, str, type(None)})


def _open(value: Any, recording: bool) -> bool:
    kind: Any = type(value)
    if kind in PLAIN:
        return False
    if isinstance(value, Tensor):
        return recording and value.requires_grad
    if kind is tuple or kind is list:
        return _any_open(value, recording)
    if kind is dict:
        return _any_open(value.values(), recording)
    if kind is Pointwise:
        return True
    return _any_open([getattr(value, name) for name in _names(kind)], recording)


def _any_open(values: Iterable[Any], recording: bool) -> bool:
    return bool([value for value in values if type(value) not in PLAIN and _open(value, recording)])


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; none of others. Kept, since `fields` takes as long as a whole look at a term."""
    return tuple([field.name for field in fields(kind)]) if is_dataclass(kind) else ()


def fixed_terms(value: Any) -> bool:
    """Whether terms have numbers alone, no tensors and no functions, so that they are found again by what they are."""
    kind: Any = type(value)
    if kind in PLAIN:
        return True
    if kind is list or kind is tuple:
        parts = value
    elif kind is Pointwise or not (names := _names(kind)):
        return False
    else:
        parts = [getattr(value, name) for name in names]
    return all(map(fixed_terms, parts))


class _Place(NamedTuple):
    """Stands for a tensor in the arguments of a step, by its number among the arrays."""

    number: int


def _places(value: Any, arrays: list[Tensor]) -> Any:
    """An argument with places for its tensors, which are put into the list."""
    if isinstance(value, Tensor):
        arrays.append(value)
        return _Place(len(arrays) - 1)
    if type(value) in (list, tuple):
        return tuple([item if type(item) in PLAIN else _places(item, arrays) for item in value])
    return value


@planned
def _plan(specs: list[ArraySpec], device: str, op: str, arguments: tuple[Any, ...], *options: Any) -> Any:
    u, *arrays = specs
    named = {name: filled(value, _Place, arrays) for name, value in zip(options[::2], options[1::2], strict=True)}
    module = pde if op == "pde_step" else steps
    return getattr(module, f"plan_{op}")(u.shape, u.dtype, *filled(arguments, _Place, arrays), device=device, **named)


def straightly(op: str, u: Tensor, arguments: tuple[Any, ...], options: dict[str, Any]) -> Tensor | None:
    """Take steps that nothing records on a plan that need not be made again; None for what needs more care.

    That are warnings, which each call gives, and diffusivities in host memory, which each call looks at.
    """
    if "workers" in options or options.get("on_unstable") == "warn":
        return None
    arrays: list[Tensor] = []
    arguments = _places(arguments, arrays)
    for name in ("velocity", "source", "mask"):  # the order of a plan's operands
        if options.get(name) is not None:
            options = options | {name: _places(options[name], arrays)}
    if arrays and (u.device.type == "cpu" or not all(x.ndim for x in arrays)):
        return None
    return straight(_plan, (u, *arrays), op, arguments, *[item for pair in options.items() for item in pair])


def _named(op: str, ndim: int, arguments: tuple[Any, ...]) -> Any:
    """The terms of an operator's own arguments, each with the prefix that names it in messages."""
    if op == "pde_step":
        return pde.named(_aligned(arguments[0], ndim))
    if op == "diffusion_step":
        return (("", Diffusion(_aligned(arguments[0], ndim))),)
    *nu, velocity, scheme, form = arguments
    wind = ("", advection(op, _aligned(velocity, ndim), scheme, form))
    return (*(("", Diffusion(_aligned(value, ndim))) for value in nu), wind)


def prepared(
    op: str,
    u: Tensor,
    dx: Any,
    dt: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    integrator: str,
    unseen: bool = False,
) -> tuple[StepPlan, list[Tensor], int | None]:
    """The plan of a step, the arrays to call it with after u, and the number of workers.

    Unseen arrays are those that have no values yet, to judge stability by.
    """
    named, shared = _named(op, u.ndim, arguments), DEFAULTS | options
    workers = shared.pop("workers")
    if workers is not None:
        _checks.workers(op, workers, u.device.type)
    for name in shared.keys() - DEFAULTS.keys():
        raise TypeError(f"{op}() got an unexpected keyword argument {name!r}")
    shared["source"] = _aligned(shared["source"], u.ndim)
    arrays = _arrays_of((named, shared["source"], shared["mask"]))
    if unseen:
        named, shared["source"], shared["mask"] = map(_specified, (named, shared["source"], shared["mask"]))
    with torch.no_grad():
        plan, _ = prepare(
            op, tuple(u.shape), dtype_name(u.dtype), dx, dt, named, Options(**shared, integrator=integrator),
            u.device.type, dtype_name(torch.get_default_dtype()), stacklevel=6,
        )  # fmt: skip
    return plan, arrays, workers


DEFAULTS: dict[str, Any] = {
    "bc": boundary.Periodic(), "source": None, "mask": None, "steps": 1, "method": "stencil", "on_unstable": "raise",
    "axes": None, "backend": None, "workers": None,
}  # fmt: skip
