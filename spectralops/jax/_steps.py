"""Explicit time steps for JAX: differentiable in the field and in every coefficient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero

from spectralops import _stage, boundary, pde
from spectralops._arrays import ArraySpec
from spectralops._plans.step_arguments import Options, advection, prepare
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Diffusion
from spectralops.errors import UnsupportedError
from spectralops.jax._bilinear import marked, needed
from spectralops.jax._calls import LEADING, Job, run, spec_of
from spectralops.jax._values import array, floating

__all__ = ["convection_step", "diffuse_convect_step", "diffusion_step", "pde_step"]


class _Jax:
    @staticmethod
    def concat(parts: Sequence[Array], axis: int) -> Array:
        return jnp.concatenate(list(parts), axis)

    @staticmethod
    def where(condition: Array, a: Any, b: Any) -> Array:
        return jnp.where(condition, a, b)

    @staticmethod
    def cast(x: Array, dtype: str) -> Array:
        return x.astype(jax.dtypes.canonicalize_dtype(dtype))

    @staticmethod
    def expand(x: Array, shape: tuple[int, ...]) -> Array:
        return jnp.broadcast_to(x, shape)

    @staticmethod
    def repeat(step: Callable[[Array], Array], v: Array, times: int) -> Array:
        """In blocks of about the square root of the number of steps, whose insides are computed again backwards."""

        def several(v: Array, count: int) -> Array:
            return jax.lax.scan(lambda v, _: (step(v), None), v, None, length=count)[0]

        size = math.isqrt(max(times - 1, 0)) + 1
        blocks, rest = divmod(times, size)
        block = jax.checkpoint(lambda v: several(v, size))
        v = jax.lax.scan(lambda v, _: (block(v), None), v, None, length=blocks)[0]
        return several(v, rest)


class _Conditions(dict[Any, Any]):
    """Boundary conditions by axis, as a value."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class Key(NamedTuple):
    """All of a step but its arrays, of which it has the specifications."""

    op: str
    dx: Any
    dt: Any
    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]
    integrator: str
    transposed: bool = False


def _build(specs: tuple[ArraySpec, ...], device: str, key: Key) -> StepPlan:
    plan = _plan(specs[0], device, key)
    return plan.adjoint() if key.transposed else plan


def _plan(u: ArraySpec, device: str, key: Key, arguments: Any = None, options: Any = None) -> StepPlan:
    shared = DEFAULTS | (dict(key.options) if options is None else options)
    named = _named(key.op, key.arguments if arguments is None else arguments)
    default = jnp.dtype(jnp.result_type(float)).name
    return prepare(
        key.op, u.shape, u.dtype, key.dx, key.dt, named, Options(**shared, integrator=key.integrator), device, default,
        stacklevel=7,
    )[0]  # fmt: skip


DEFAULTS: dict[str, Any] = {
    "bc": boundary.Periodic(), "source": None, "mask": None, "steps": 1, "method": "stencil", "on_unstable": "raise",
    "axes": None, "backend": None,
}  # fmt: skip


def _named(op: str, arguments: tuple[Any, ...]) -> Any:
    """The terms of an operator's own arguments, each with the prefix that names it in messages."""
    if op == "pde_step":
        return pde.named(arguments[0])
    if op == "diffusion_step":
        return (("", Diffusion(arguments[0])),)
    *nu, velocity, scheme, form = arguments
    return (*(("", Diffusion(value)) for value in nu), ("", advection(op, velocity, scheme, form)))


def _mapped(value: Any, change: Callable[[Any], Any], kinds: Any = jax.Array | np.ndarray) -> Any:
    """Arguments with their arrays changed, as values that can be looked up."""
    if isinstance(value, kinds):
        return change(value)
    if isinstance(value, np.generic):  # compared with a tuple these give an array
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(_mapped(item, change, kinds) for item in value)
    if isinstance(value, dict):
        return _Conditions({key: _mapped(item, change, kinds) for key, item in value.items()})
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _mapped(getattr(value, field.name), change, kinds) for field in fields(value)}
        return type(value)(**parts)
    return value


def _constant(op: str, name: str, value: Any) -> Any:
    """An argument that plans are made from, with Python's numbers for arrays."""

    def numbers(x: Any) -> Any:
        if isinstance(x, jax.core.Tracer):
            raise TypeError(f"{op}: {name} is a JAX tracer, but must be a constant, since plans are made from it")
        return _mapped(np.asarray(x).tolist(), numbers)

    return _mapped(value, numbers)


def _take(
    op: str, u: Any, dx: Any, dt: Any, arguments: tuple[Any, ...], options: dict[str, Any], integrator: str = "euler"
) -> Array:
    u = floating(array(op, "u", u))
    for name in options.keys() - DEFAULTS.keys():
        raise TypeError(f"{op}() got an unexpected keyword argument {name!r}")
    arrays: list[Array] = []

    def noted(x: Any) -> ArraySpec:
        x = jnp.asarray(x)
        arrays.append(x if x.ndim else x.reshape((1,) * u.ndim))
        return spec_of(arrays[-1])

    arguments = _mapped(arguments, noted)
    given: dict[str, Any] = {name: _mapped(options[name], noted) for name in ("source", "mask") if name in options}
    given |= {name: _constant(op, name, value) for name, value in options.items() if name not in given}
    dx, dt = _constant(op, "dx", dx), _constant(op, "dt", dt)
    key = Key(op, dx, dt, arguments, tuple(sorted(given.items())), integrator)
    plan = _judged(key, u, arrays)
    given["on_unstable"] = "ignore"  # the plan is made again, but judged once
    if given.get("axes") is None:
        given["axes"] = plan.geometry.axes
    key = key._replace(options=tuple(sorted(given.items())))
    key = _from_the_end(key, u.ndim)
    if plan.functions:
        return _stage.advance(_Jax(), plan, plan.steps, u, arrays)
    result: Array = _steps(key, u, tuple(arrays))
    return result


def _judged(key: Key, u: Array, arrays: list[Array]) -> StepPlan:
    """The plan, its stability judged by the values of the arrays where they are there and on the host."""
    if any(isinstance(x, jax.core.Tracer) or next(iter(x.devices())).platform != "cpu" for x in arrays):
        return _plan(spec_of(u), "cpu", key)
    values = iter([np.asarray(x) for x in arrays])

    def filled(value: Any) -> Any:
        return _mapped(value, lambda _: next(values), ArraySpec)

    arguments, options = filled(key.arguments), dict(key.options)
    for name in ("source", "mask"):
        if name in options:
            options[name] = filled(options[name])
    return _plan(spec_of(u), "cpu", key, arguments, options)


def _from_the_end(key: Key, ndim: int) -> Key:
    """With axes counted from the end, so that leading axes may be added."""
    options = dict(key.options)
    listed = options["axes"]
    options["axes"] = tuple(_negative(axis, ndim) for axis in (listed if isinstance(listed, tuple) else (listed,)))
    if isinstance(options.get("bc"), dict):
        options["bc"] = _Conditions({_negative(axis, ndim): value for axis, value in options["bc"].items()})
    return key._replace(options=tuple(sorted(options.items())))


def _negative(axis: int, ndim: int) -> int:
    return axis - ndim if axis >= 0 else axis


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _steps(key: Key, u: Array, arrays: tuple[Array, ...]) -> Array:
    specs = tuple(map(spec_of, (u, *arrays)))
    return run(Job(_build, specs, (key,), specs[0], LEADING, _names(key, u)), u, *arrays)


def _names(key: Key, u: Array) -> tuple[str, ...]:
    """Names of u and the arrays, of which the adjoint step takes some."""
    return tuple(operand.name for operand in _plan(spec_of(u), "cpu", key).operands)


def _steps_forward(key: Key, u: Any, arrays: tuple[Any, ...]) -> tuple[Array, Any]:
    values = tuple(x.value for x in arrays)
    return _steps(key, u.value, values), (u.value, values, marked((u, *arrays)))


def _steps_backward(key: Key, kept: Any, ct: Any) -> tuple[Any, Any]:
    u, arrays, marks = kept
    needs = needed(marks)
    nothing = (None,) * len(arrays)
    if isinstance(ct, SymbolicZero):
        return None, nothing
    plan = _build((spec_of(u),), "cpu", key)
    if not any(needs[1:]) and _has_adjoint(plan):
        return _steps(key._replace(transposed=not key.transposed), ct, arrays), nothing
    names = _names(key, u)
    taken = [names.index(operand.name) for operand in plan.operands[1:]]
    inputs = [x for x, wanted in zip((u, *arrays), needs, strict=True) if wanted]

    def replay(*changed: Array) -> Array:
        each = iter(changed)
        values = [next(each) if wanted else x for x, wanted in zip((u, *arrays), needs, strict=True)]
        return _stage.advance(_Jax(), plan, plan.steps, values[0], [values[place] for place in taken])

    found = iter(jax.vjp(replay, *inputs)[1](ct))
    over_u, *others = [next(found) if wanted else None for wanted in needs]
    return over_u, tuple(others)


def _has_adjoint(plan: StepPlan) -> bool:
    try:
        plan.adjoint()
    except UnsupportedError:
        return False
    return True


_steps.defvjp(_steps_forward, _steps_backward, symbolic_zeros=True)


def diffusion_step(u: Array, dx: Any, dt: float, nu: Any, **options: Any) -> Array:
    """Differentiable :func:`spectralops.diffusion_step`: steps of u_t = div(nu grad u) + source.

    Parameters
    ----------
    u : Array
        Field.
    dx, dt
        Cell size and time step, constants.
    nu : float or Array
        Diffusivity.
    **options
        `bc`, `source`, `mask`, `steps`, `method`, `on_unstable`, `axes`, `backend` as for
        :func:`spectralops.diffusion_step`.

    Returns
    -------
    Array
        The field after `steps` steps.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`spectralops.diffusion_step`.

    Notes
    -----
    Backwards, constant coefficients run the adjoint step, fused; otherwise JAX replays the steps in blocks, so that
    memory grows with the square root of their number [1]_.

    References
    ----------
    .. [1] A. Griewank, Optimization Methods and Software 1 (1992) 35, section 3.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import diffusion_step
    >>> middle = lambda nu: diffusion_step(jnp.array([0.0, 1.0, 0.0, 0.0]), 1.0, 0.25, nu)[1]
    >>> round(float(jax.grad(middle)(1.0)), 4)
    -0.5
    """
    return _take("diffusion_step", u, dx, dt, (nu,), options)


def convection_step(
    u: Array, velocity: Any, dx: Any, dt: float, *, scheme: str = "upwind", form: str = "advective", **options: Any
) -> Array:
    """Differentiable :func:`spectralops.convection_step`: steps of u_t + v . grad u = source, or with div(v u).

    Parameters
    ----------
    u : Array
        Field.
    velocity : float, Array, or sequence of them
        Components of the velocity.
    dx, dt
        Cell size and time step, constants.
    scheme, form, **options
        As for :func:`spectralops.convection_step`.

    Returns
    -------
    Array
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
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import convection_step
    >>> jax.grad(lambda u: convection_step(u, 1.0, 1.0, 0.5)[2])(jnp.array([0.0, 1.0, 0.0, 0.0]))
    Array([0. , 0.5, 0.5, 0. ], dtype=float32)
    """
    return _take("convection_step", u, dx, dt, (velocity, scheme, form), options)


def diffuse_convect_step(
    u: Array,
    dx: Any,
    dt: float,
    nu: Any,
    *,
    velocity: Any = None,
    scheme: str = "central",
    form: str = "advective",
    **options: Any,
) -> Array:
    """Differentiable :func:`spectralops.diffuse_convect_step`: advection and diffusion, or Burgers' equation.

    u_t + v . grad u = div(nu grad u) + source; without a velocity u carries itself.

    Parameters
    ----------
    u : Array
        Field.
    dx, dt
        Cell size and time step, constants.
    nu, velocity
        Diffusivity and velocity, numbers or arrays.
    scheme, form, **options
        As for :func:`spectralops.diffuse_convect_step`.

    Returns
    -------
    Array
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
    >>> import jax, jax.numpy as jnp
    >>> from spectralops.jax import diffuse_convect_step
    >>> jax.grad(lambda u: diffuse_convect_step(u, 1.0, 0.25, 0.5)[1])(jnp.zeros(4))
    Array([0.125, 0.75 , 0.125, 0.   ], dtype=float32)
    """
    return _take("diffuse_convect_step", u, dx, dt, (nu, velocity, scheme, form), options)


def pde_step(u: Array, dx: Any, dt: float, terms: Any, *, integrator: str = "euler", **options: Any) -> Array:
    """Differentiable :func:`spectralops.pde_step`: u_t = the sum of the terms, by a Runge-Kutta scheme.

    Parameters
    ----------
    u : Array
        Field.
    dx, dt
        Cell size and time step, constants.
    terms : term or sequence of terms
        As for :func:`spectralops.pde_step`. The function of a Pointwise term takes and returns JAX arrays here; steps
        with one are always computed by JAX.
    integrator, **options
        As for :func:`spectralops.pde_step`.

    Returns
    -------
    Array
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
    >>> import jax, jax.numpy as jnp
    >>> import spectralops as so
    >>> from spectralops.jax import pde_step
    >>> total = lambda rate: pde_step(jnp.zeros(3), 1.0, 0.5, so.Source(rate), integrator="rk4", steps=2).sum()
    >>> jax.grad(total)(jnp.ones(3))
    Array([1., 1., 1.], dtype=float32)
    """
    return _take("pde_step", u, dx, dt, (terms,), options, integrator)
