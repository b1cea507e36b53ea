"""Explicit time steps for PyTorch: differentiable in the field and in every coefficient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spectralops import _checks, boundary, pde, steps
from spectralops._arrays import ArraySpec, dtype_name
from spectralops._plans.step_arguments import Options, advection, prepare
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Diffusion, Pointwise
from spectralops.errors import UnsupportedError
from spectralops.torch._stage import advance
from spectralops.torch._tensors import floating, planned, spec_of, straight, tensor, transformed

__all__ = ["convection_step", "diffuse_convect_step", "diffusion_step", "pde_step"]


class _Steps(torch.autograd.Function):
    """Fused steps forwards; backwards the adjoint step if only u matters and there is one, else a replay in blocks.

    The replay keeps the field at the start of each block, about the square root of the number of steps apart, and the
    operations of one block at a time.
    """

    @staticmethod
    def forward(ctx: Any, plan: StepPlan, workers: int | None, u: Tensor, *arrays: Tensor) -> Tensor:
        ctx.plan, ctx.workers = plan, workers
        ctx.save_for_backward(u, *arrays)
        result: Tensor = plan(u, *arrays, workers=workers)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        plan, (u, *arrays) = ctx.plan, ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        if not any(needs[1:]) and (transposed := _adjoint(plan)) is not None:
            names = [operand.name for operand in plan.operands]
            kept = [(u, *arrays)[names.index(operand.name)] for operand in transposed.operands[1:]]
            return None, None, _Steps.apply(transposed, ctx.workers, g, *kept), *(None,) * len(arrays)
        if torch.is_grad_enabled():  # for gradients of gradients, which need the whole history
            inputs = [x for x, needed in zip((u, *arrays), needs, strict=True) if needed]
            with torch.enable_grad():
                found = torch.autograd.grad(advance(plan, plan.steps, u, arrays), inputs, g, create_graph=True)
        else:
            found = _replayed(plan, u, arrays, needs, g, ctx.workers)
        gradients = iter(found)
        return None, None, *(next(gradients) if needed else None for needed in needs)


def _adjoint(plan: StepPlan) -> StepPlan | None:
    try:
        return plan.adjoint()
    except UnsupportedError:
        return None


def _replayed(
    plan: StepPlan, u: Tensor, arrays: Sequence[Tensor], needs: Sequence[bool], g: Tensor, workers: int | None
) -> list[Tensor | None]:
    """The gradients by autograd, block after block, the last one first."""
    size = math.isqrt(max(plan.steps - 1, 0)) + 1
    starts = list(range(0, plan.steps, size))
    states = [u.detach()]
    for _ in starts[1:]:
        states.append(replace(plan, steps=size)(states[-1], *arrays, workers=workers))
    leaves = [x.detach().requires_grad_(needed) for x, needed in zip(arrays, needs[1:], strict=True)]
    wanted = [leaf for leaf, needed in zip(leaves, needs[1:], strict=True) if needed]
    totals: list[Tensor | None] = [None] * len(wanted)
    for start, state in zip(reversed(starts), reversed(states), strict=True):
        with torch.enable_grad():
            v = state.detach().requires_grad_()
            end = advance(plan, min(size, plan.steps - start), v, leaves)
        g, *parts = torch.autograd.grad(end, [v, *wanted], g, allow_unused=True)
        totals = [b if a is None else a if b is None else a + b for a, b in zip(totals, parts, strict=True)]
    return [g, *totals] if needs[0] else totals


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


def _aligned(value: Any, ndim: int) -> Any:
    """With scalar tensors as arrays, since a plan keeps numbers as constants."""
    return _mapped(value, lambda x: x.reshape((1,) * ndim) if x.ndim == 0 else x)


def _specified(value: Any) -> Any:
    """With specifications for tensors."""
    return _mapped(value, spec_of)


def _matters(value: Any) -> bool:
    """Whether a call with these arguments is recorded, or has functions of tensors."""
    return transformed() or _open(value, torch.is_grad_enabled())


PLAIN = frozenset({float, int, bool, str, type(None)})


def _open(value: Any, recording: bool) -> bool:
    kind = type(value)
    if kind in PLAIN:
        return False
    if isinstance(value, Tensor):
        return recording and value.requires_grad
    if kind in (list, tuple):
        return any(_open(item, recording) for item in value)
    if kind is dict:
        return any(_open(item, recording) for item in value.values())
    if kind is Pointwise:
        return True
    return is_dataclass(value) and any(_open(getattr(value, field.name), recording) for field in fields(value))


class _Place(NamedTuple):
    """Stands for a tensor in the arguments of a step, by its number among the arrays."""

    number: int


def _places(value: Any, arrays: list[Tensor]) -> Any:
    """An argument with places for its tensors, which are put into the list."""
    if isinstance(value, Tensor):
        arrays.append(value)
        return _Place(len(arrays) - 1)
    return tuple([_places(item, arrays) for item in value]) if type(value) in (list, tuple) else value


def _specs(value: Any, specs: list[ArraySpec]) -> Any:
    """An argument with specifications in these places."""
    if type(value) is _Place:
        return specs[value.number]
    return tuple([_specs(item, specs) for item in value]) if type(value) is tuple else value


@planned
def _plan(specs: list[ArraySpec], device: str, op: str, arguments: tuple[Any, ...], *options: Any) -> Any:
    u, *arrays = specs
    named = {name: _specs(value, arrays) for name, value in zip(options[::2], options[1::2], strict=True)}
    return getattr(steps, f"plan_{op}")(u.shape, u.dtype, *_specs(arguments, arrays), device=device, **named)


def _straight(op: str, u: Tensor, arguments: tuple[Any, ...], options: dict[str, Any]) -> Tensor | None:
    """Take steps that nothing records on a plan that need not be made again; None for what needs more care.

    That are warnings, which each call gives, and diffusivities in host memory, which each call looks at.
    """
    if "workers" in options or options.get("on_unstable") == "warn":
        return None
    arrays: list[Tensor] = []
    arguments = _places(arguments, arrays)
    for name in options:
        if name in ("source", "mask", "velocity") and options[name] is not None:
            options = options | {name: _places(options[name], arrays)}
    if arrays and (u.device.type == "cpu" or not all(x.ndim for x in arrays)):
        return None
    return straight(_plan, (u, *arrays), op, arguments, *[item for pair in options.items() for item in pair])


def _take(op: str, u: Tensor, dx: Any, dt: Any, named: Any, options: dict[str, Any], integrator: str) -> Tensor:
    """Plan and take recorded steps."""
    workers = options.pop("workers", None)
    if workers is not None:
        _checks.workers(op, workers, u.device.type)
    defaults = {"bc": boundary.Periodic(), "source": None, "mask": None, "steps": 1, "method": "stencil",
                "on_unstable": "raise", "axes": None, "backend": None}  # fmt: skip
    for name in options.keys() - defaults.keys():
        raise TypeError(f"{op}() got an unexpected keyword argument {name!r}")
    shared = defaults | options
    u = floating(u)
    shared["source"] = _aligned(shared["source"], u.ndim)
    unseen = transformed()
    arrays = _arrays_of((named, shared["source"], shared["mask"]))
    if unseen:  # no values to judge stability by
        named, shared["source"], shared["mask"] = map(_specified, (named, shared["source"], shared["mask"]))
    with torch.no_grad():
        plan, _ = prepare(
            op, tuple(u.shape), dtype_name(u.dtype), dx, dt, named, Options(**shared, integrator=integrator),
            u.device.type, dtype_name(torch.get_default_dtype()),
        )  # fmt: skip
    if unseen or plan.functions:
        return advance(plan, plan.steps, u, arrays)
    result: Tensor = _Steps.apply(plan, workers, u, *arrays)
    return result


def diffusion_step(u: Tensor, dx: Any, dt: float, nu: Any, **options: Any) -> Tensor:
    """Differentiable :func:`spectralops.diffusion_step`: steps of u_t = div(nu grad u) + source.

    Parameters
    ----------
    u : Tensor
        Field.
    dx, dt
        Cell size and time step, constants.
    nu : float or Tensor
        Diffusivity; a tensor may require grad, as may the `source`.
    **options
        `bc`, `source`, `mask`, `steps`, `method`, `on_unstable`, `axes`, `workers`, `backend` as for
        :func:`spectralops.diffusion_step`.

    Returns
    -------
    Tensor
        The field after `steps` steps.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`spectralops.diffusion_step`.

    Notes
    -----
    Backwards, constant coefficients run the adjoint step, fused; otherwise the steps are replayed by PyTorch in blocks,
    so that memory grows with the square root of their number [1]_. Gradients of gradients replay all at once.

    References
    ----------
    .. [1] A. Griewank, Optimization Methods and Software 1 (1992) 35, section 3.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import diffusion_step
    >>> nu = torch.tensor(1.0, requires_grad=True)
    >>> diffusion_step(torch.tensor([0.0, 1.0, 0.0, 0.0]), 1.0, 0.25, nu)[1].backward()
    >>> nu.grad
    tensor(-0.5000)
    """
    tensor("diffusion_step", "u", u)
    if not _matters((u, nu, options)):
        if (y := _straight("diffusion_step", u, (dx, dt, nu), options)) is not None:
            return y
        result: Tensor = steps.diffusion_step(u, dx, dt, nu, **options)
        return result
    return _take("diffusion_step", u, dx, dt, (("", Diffusion(_aligned(nu, u.ndim))),), options, "euler")


def convection_step(
    u: Tensor, velocity: Any, dx: Any, dt: float, *, scheme: str = "upwind", form: str = "advective", **options: Any
) -> Tensor:
    """Differentiable :func:`spectralops.convection_step`: steps of u_t + v . grad u = source, or with div(v u).

    Parameters
    ----------
    u : Tensor
        Field.
    velocity : float, Tensor, or sequence of them
        Components of the velocity; tensors may require grad.
    dx, dt
        Cell size and time step, constants.
    scheme, form, **options
        As for :func:`spectralops.convection_step`.

    Returns
    -------
    Tensor
        The field after `steps` steps.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`spectralops.convection_step`.

    References
    ----------
    .. [1] A. Griewank, Optimization Methods and Software 1 (1992) 35, section 3.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import convection_step
    >>> u = torch.tensor([0.0, 1.0, 0.0, 0.0], requires_grad=True)
    >>> convection_step(u, 1.0, 1.0, 0.5)[2].backward()
    >>> u.grad
    tensor([0.0000, 0.5000, 0.5000, 0.0000])
    """
    tensor("convection_step", "u", u)
    if not _matters((u, velocity, options)):
        named = options | {"scheme": scheme, "form": form}
        if (y := _straight("convection_step", u, (velocity, dx, dt), named)) is not None:
            return y
        result: Tensor = steps.convection_step(u, velocity, dx, dt, scheme=scheme, form=form, **options)
        return result
    term = advection("convection_step", _aligned(velocity, u.ndim), scheme, form)
    return _take("convection_step", u, dx, dt, (("", term),), options, "euler")


def diffuse_convect_step(
    u: Tensor,
    dx: Any,
    dt: float,
    nu: Any,
    *,
    velocity: Any = None,
    scheme: str = "central",
    form: str = "advective",
    **options: Any,
) -> Tensor:
    """Differentiable :func:`spectralops.diffuse_convect_step`: advection and diffusion, or Burgers' equation.

    u_t + v . grad u = div(nu grad u) + source; without a velocity u carries itself.

    Parameters
    ----------
    u : Tensor
        Field.
    dx, dt
        Cell size and time step, constants.
    nu, velocity
        Diffusivity and velocity; tensors may require grad.
    scheme, form, **options
        As for :func:`spectralops.diffuse_convect_step`.

    Returns
    -------
    Tensor
        The field after `steps` steps.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`spectralops.diffuse_convect_step`.

    References
    ----------
    .. [1] A. Griewank, Optimization Methods and Software 1 (1992) 35, section 3.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import diffuse_convect_step
    >>> u = torch.tensor([0.0, 1.0, 2.0, 1.0], requires_grad=True)
    >>> diffuse_convect_step(u, 1.0, 0.25, 1.0).sum().backward()
    >>> u.grad
    tensor([1., 1., 1., 1.])
    """
    op = "diffuse_convect_step"
    tensor(op, "u", u)
    if not _matters((u, nu, velocity, options)):
        named = options | {"velocity": velocity, "scheme": scheme, "form": form}
        if (y := _straight(op, u, (dx, dt, nu), named)) is not None:
            return y
        result: Tensor = steps.diffuse_convect_step(
            u, dx, dt, nu, velocity=velocity, scheme=scheme, form=form, **options
        )
        return result
    term = advection(op, _aligned(velocity, u.ndim), scheme, form)
    return _take(op, u, dx, dt, (("", Diffusion(_aligned(nu, u.ndim))), ("", term)), options, "euler")


def pde_step(u: Tensor, dx: Any, dt: float, terms: Any, *, integrator: str = "euler", **options: Any) -> Tensor:
    """Differentiable :func:`spectralops.pde_step`: u_t = the sum of the terms, by a Runge-Kutta scheme.

    Parameters
    ----------
    u : Tensor
        Field.
    dx, dt
        Cell size and time step, constants.
    terms : term or sequence of terms
        As for :func:`spectralops.pde_step`; their tensors may require grad. The function of a Pointwise term takes and
        returns tensors here; steps with one are always replayed by PyTorch.
    integrator, **options
        As for :func:`spectralops.pde_step`.

    Returns
    -------
    Tensor
        The field after `steps` steps.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`spectralops.pde_step`.

    References
    ----------
    .. [1] A. Griewank, Optimization Methods and Software 1 (1992) 35, section 3.

    Examples
    --------
    >>> import torch
    >>> import spectralops as so
    >>> from spectralops.torch import pde_step
    >>> rate = torch.ones(3, requires_grad=True)
    >>> pde_step(torch.zeros(3), 1.0, 0.5, so.Source(rate), integrator="rk4", steps=2).sum().backward()
    >>> rate.grad
    tensor([1., 1., 1.])
    """
    tensor("pde_step", "u", u)
    if not _matters((u, terms, options)):
        result: Tensor = pde.pde_step(u, dx, dt, terms, integrator=integrator, **options)
        return result
    named = pde.named(_aligned(terms, u.ndim))
    return _take("pde_step", u, dx, dt, named, options, integrator)
