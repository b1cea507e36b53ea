"""Explicit time steps for PyTorch: differentiable in the field and in every coefficient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spectralops import pde, steps
from spectralops.torch import _compiled_steps
from spectralops.torch._replay import Steps
from spectralops.torch._stage import advance
from spectralops.torch._step_arguments import matters, prepared, straightly
from spectralops.torch._tensors import floating, tensor, transformed

__all__ = ["convection_step", "diffuse_convect_step", "diffusion_step", "pde_step"]


def _take(
    op: str, u: Tensor, dx: Any, dt: Any, arguments: tuple[Any, ...], options: dict[str, Any], integrator: str = "euler"
) -> Tensor:
    """Take steps that are recorded."""
    u = floating(u)
    if torch.compiler.is_compiling():
        return _compiled_steps.take(op, u, dx, dt, arguments, options, integrator)
    unseen = transformed()
    plan, arrays, workers = prepared(op, u, dx, dt, arguments, options, integrator, unseen)
    if unseen or plan.functions:
        return advance(plan, plan.steps, u, arrays)
    result: Tensor = Steps.apply(plan, workers, u, *arrays)
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
    if (y := straightly("diffusion_step", u, (dx, dt, nu), options)) is not None:
        return y
    if not matters((u, nu, options)):
        result: Tensor = steps.diffusion_step(u, dx, dt, nu, **options)
        return result
    return _take("diffusion_step", u, dx, dt, (nu,), options)


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
    named = {"scheme": scheme, "form": form} | options
    if (y := straightly("convection_step", u, (velocity, dx, dt), named)) is not None:
        return y
    if not matters((u, velocity, options)):
        result: Tensor = steps.convection_step(u, velocity, dx, dt, scheme=scheme, form=form, **options)
        return result
    return _take("convection_step", u, dx, dt, (velocity, scheme, form), options)


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
    named = {"velocity": velocity, "scheme": scheme, "form": form} | options
    if (y := straightly(op, u, (dx, dt, nu), named)) is not None:
        return y
    if not matters((u, nu, velocity, options)):
        result: Tensor = steps.diffuse_convect_step(
            u, dx, dt, nu, velocity=velocity, scheme=scheme, form=form, **options
        )
        return result
    return _take(op, u, dx, dt, (nu, velocity, scheme, form), options)


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
    if (y := straightly("pde_step", u, (dx, dt, terms), {"integrator": integrator} | options)) is not None:
        return y
    if not matters((u, terms, options)):
        result: Tensor = pde.pde_step(u, dx, dt, terms, integrator=integrator, **options)
        return result
    return _take("pde_step", u, dx, dt, (terms,), options, integrator)
