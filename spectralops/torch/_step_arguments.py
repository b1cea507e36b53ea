"""The arguments of steps: which of them are tensors, and the plan that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from spectralops import _checks, boundary, pde, steps
from spectralops._arrays import Home, dtype_name, is_array
from spectralops._plans.looks import KEYS, Known, look
from spectralops._plans.step_arguments import Options, advection, prepare
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Diffusion, Pointwise
from spectralops.torch._tensors import spec_of, transformed

__all__ = ["filled", "matters", "prepared", "straightly"]


CPU = torch.device("cpu")


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


def _check_library(op: str, name: str, value: Any) -> None:
    """Raise TypeError for arrays of another library, which no plan of tensors has a place for."""
    if isinstance(value, list | tuple):
        for j, item in enumerate(value):
            _check_library(op, f"{name}[{j}]", item)
    elif not isinstance(value, Tensor) and is_array(value):
        raise TypeError(
            f"{op}: {name} is a {type(value).__name__}, but must be a torch.Tensor like u; move it by torch.as_tensor"
        )


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


def _of_tensor(value: Any, arrays: list[Tensor]) -> tuple[Any, ...]:
    """Shape, dtype and device of a tensor, which is put into the list; without axes it counts by its value."""
    if not isinstance(value, Tensor) or not value.ndim or value.layout is not torch.strided:
        raise TypeError("has no looks")
    arrays.append(value)
    return Tensor, value.shape, value.dtype, value.device


@lru_cache(maxsize=512, typed=True)
def _found(*looks: Any) -> Known:
    return Known()


def straightly(op: str, u: Tensor, arguments: tuple[Any, ...], options: dict[str, Any]) -> Tensor | None:
    """Take steps that nothing records on a plan that need not be made again; None for what needs more care.

    That are warnings, which each call gives, and diffusivities in host memory, which each call looks at.
    """
    if transformed() or "workers" in options or options.get("on_unstable") == "warn":
        return None
    if "mask" in options or "source" in options:  # their order is that of a plan's operands
        options = {name: options[name] for name in ("velocity", "source", "mask") if name in options} | options
    values = (u, *arguments, *options.values())
    arrays: list[Tensor] = []
    try:
        looks = [each if type(each) in KEYS else look(each, _of_tensor, arrays) for each in values]
        known = _found(op, *options, *looks)
        if torch.is_grad_enabled():
            for x in arrays:
                if x.requires_grad:
                    return None
        if known.plan is None:
            if arrays[0] is not u or not _plannable(arrays):
                return None
            known.home = Home("torch", str(u.device))
            planned = getattr(pde if op == "pde_step" else steps, f"plan_{op}")
            specs = _specified(values[1:])
            given, named = specs[: len(arguments)], dict(zip(options, specs[len(arguments) :], strict=True))
            known.plan = planned(u.shape, dtype_name(u.dtype), *given, device=known.home.device, **named)
    except (TypeError, ValueError, NotImplementedError):
        return None
    return known(tuple(arrays))


def _plannable(arrays: list[Tensor]) -> bool:
    """Whether a step of the first one, with the others for coefficients, depends on their looks alone."""
    u, *others = arrays
    return u.is_floating_point() and all(x.device == u.device != CPU for x in others)


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
    given = [(prefix + each.name, getattr(term, each.name)) for prefix, term in named for each in fields(term)]
    for name, value in (*given, ("source", shared["source"]), ("mask", shared["mask"])):
        _check_library(op, name, value)
    dt = _checks.number(op, "dt", dt)
    dx = _mapped(dx, lambda h: _checks.number(op, "dx", h))
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
