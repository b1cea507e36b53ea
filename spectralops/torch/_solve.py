"""The time loop with gradients: steps are repeated backwards, segment by segment, instead of being remembered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from spectralops import _checks
from spectralops._stepper import Clock, Stepper, function_of
from spectralops.errors import DivergedError
from spectralops.solve import Solution, clock_of, save_steps_of
from spectralops.solve import solve as solve_without_gradients
from spectralops.torch._steps import convection_step, diffuse_convect_step, diffusion_step, pde_step
from spectralops.torch._tensors import tensor

__all__ = ["solve"]

OP = "solve"

# These take many steps in a call, and keep of them what their own gradients need.
FUSED = (convection_step, diffuse_convect_step, diffusion_step, pde_step)


def solve(
    step: Callable[..., Any],
    u0: Tensor,
    /,
    *,
    steps: int | None = None,
    t_end: float | None = None,
    dt: float | None = None,
    t0: float = 0.0,
    save_every: int | float | None = None,
    recompute_every: int | None = None,
) -> Solution:
    r"""Differentiable :func:`spectralops.solve`: u_{n+1} = step(u_n), t_n = t0 + n dt.

    Gradients reach u0 and every tensor that `step` uses, also those that it holds on to: diffusivities, velocities,
    sources, the parameters of a model. Only the state at the start of each segment of `recompute_every` steps is kept;
    backwards, the steps of one segment at a time are run again [1]_.

    Parameters
    ----------
    step : callable
        ``step(u, ...) -> u_next``, of the same shape, dtype and device; it must leave u as it is. It is given ``dt``
        and ``t`` as by :func:`spectralops.solve`.
    u0 : Tensor
        The initial state.
    steps, t_end, dt, t0, save_every
        As for :func:`spectralops.solve`.
    recompute_every : int, optional
        Steps in a segment. Left out, the square root of their number, with which the memory is least: about twice as
        many states, with what the operations of one segment keep. A step of this package (``functools.partial`` of
        one) takes all steps to the next snapshot in one call, which repeats them by itself; a 16-bit state is rounded
        once a call.

    Returns
    -------
    Solution
        As from :func:`spectralops.solve`; `u` and `snapshots` can be differentiated, to every order.

    Raises
    ------
    DivergedError
        If a segment ends with more NaN or infinite values than u0 has; its attribute `step` is that end.
    TypeError, ValueError
        As for :func:`spectralops.solve`; also if `step` changes u in place.

    Notes
    -----
    Each step is run about twice. Under ``torch.no_grad()`` this is :func:`spectralops.solve` itself; under
    ``torch.func`` transforms nothing is run again, and everything kept.

    References
    ----------
    .. [1] A. Griewank, Optimization Methods and Software 1 (1992) 35, section 3.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import solve
    >>> rate = torch.tensor(1.0, requires_grad=True)
    >>> solution = solve(lambda u, dt: u - dt * rate * u, torch.ones(1), t_end=1.0, dt=0.25, save_every=2)
    >>> solution.u.backward()
    >>> rate.grad, solution.snapshots.flatten().tolist()
    (tensor(-0.4219), [1.0, 0.5625, 0.31640625])
    """
    tensor(OP, "u0", u0)
    segment = None if recompute_every is None else _checks.integer(OP, "recompute_every", recompute_every, 1)
    if not torch.is_grad_enabled():
        return solve_without_gradients(step, u0, steps=steps, t_end=t_end, dt=dt, t0=t0, save_every=save_every)
    stepper = Stepper(step, None)
    function, bound = function_of(step)
    stepper.fused = stepper.fused or (function in FUSED and "steps" not in bound)
    with torch.no_grad():
        clock = clock_of(stepper, u0, steps, t_end, dt, _checks.number(OP, "t0", t0), save_every)
    interval = save_steps_of(save_every, clock)
    if segment is None:
        segment = clock.total if stepper.fused else math.isqrt(max(clock.total - 1, 0)) + 1
    transformed = torch._C._are_functorch_transforms_active()
    allowed = 0 if transformed else _bad(u0)
    u, n, times, snapshots = u0, 0, [clock.time(0)], [u0]
    while n < clock.total:
        ends = [n + segment, clock.full if n < clock.full else clock.total]
        if interval is not None:
            ends.append((n // interval + 1) * interval)
        last = min(ends)
        if transformed:
            u = _segment(stepper, clock, u, n, last)
        else:
            u = checkpoint(_segment, stepper, clock, u, n, last, use_reentrant=False)
            _look(u, last, clock, allowed)
        n = last
        if interval is not None and n % interval == 0 and n <= clock.full:
            times.append(clock.time(n))
            snapshots.append(u)
    if interval is None:
        return Solution(u, clock.time(n), n, clock.dt, np.array([]), None)
    return Solution(u, clock.time(n), n, clock.dt, np.array(times), torch.stack(snapshots))


def _segment(stepper: Stepper, clock: Clock, u: Tensor, n: int, last: int) -> Tensor:
    """The state at step `last` from that at step `n`."""
    stride = last - n if stepper.fused else 1
    for k in range(n, last, stride):
        version = u._version
        result = stepper(u, stride, clock.time(k), clock.step_size(k), None)
        if not isinstance(result, Tensor):
            raise TypeError(f"{OP}: step returned a {type(result).__name__}, but must return a tensor like u0")
        if u._version != version:
            raise ValueError(f"{OP}: step changed u in place, but must return a new tensor for its gradients")
        for name in ("shape", "dtype", "device"):
            got, had = getattr(result, name), getattr(u, name)
            if got != had:
                raise ValueError(f"{OP}: step returned {name} {got}, but must keep u0's {name} {had}")
        u = result
    return u


def _bad(u: Tensor) -> int:
    """Number of NaN and infinite values."""
    return int((~torch.isfinite(u.detach())).sum())


def _look(u: Tensor, n: int, clock: Clock, allowed: int) -> None:
    if (count := _bad(u)) > allowed:
        raise DivergedError(
            f"{OP}: u has {count} NaN or infinite values after step {n} (t = {clock.time(n):.6g}), "
            f"but must have {f'{allowed} as in u0' if allowed else '0'}; lower dt",
            n,
        )
