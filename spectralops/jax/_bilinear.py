"""Operators that are linear in each of two arrays, as differentiable functions of JAX.

Such an operator y = A(x, w) has two companions with respect to the real inner product <a, b> = Re sum conj(a) b:

    <y', A(x, w)> = <B(y', w), x> = <C(x, y'), w>,

the adjoint B and the weight gradient C. Each has the other two for its own companions, so that gradients of every order
need nothing else. JAX's cotangents are the conjugates of gradients: the change of a loss is Re sum ct dx, without
conjugation; so cotangents are conjugated on their way in and out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from spectralops._arrays import ArraySpec
from spectralops._bilinear import ADJOINT, FORWARD, WEIGHT, plan_of
from spectralops.jax._calls import FIRST, LEADING, Job, run, spec_of

__all__ = ["Call", "Family", "apply", "marked", "needed"]

_families: dict[str, Family] = {}


class Family(ABC):
    """One operator, planned by its name: how C is computed, and whatever else is special to it.

    An operator of x alone is planned without w, which is then an empty array that nothing reads.
    """

    name: str

    def __init_subclass__(cls) -> None:
        _families[cls.name] = cls()

    def plan(self, x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str) -> Any:
        """The plan of A; it has `adjoint()`, the plan of B."""
        return plan_of(self.name, x, w, y_shape, options, device)

    def fold(self, options: tuple[Any, ...], w: ArraySpec) -> int:
        """How a batch of fields is run with one w."""
        return LEADING

    @abstractmethod
    def weight(self, options: tuple[Any, ...], x: Array, y: Array, w: ArraySpec) -> Array:
        """C(x, y)."""


class Call(NamedTuple):
    """One of the three maps of an operator with its options."""

    which: int
    family: str
    options: tuple[Any, ...]

    def to(self, which: int) -> Call:
        """The same operator's other map."""
        return self._replace(which=which)


def _forward(specs: tuple[ArraySpec, ...], device: str, family: str, y_shape: Any, options: tuple[Any, ...]) -> Any:
    x, w = specs
    return _families[family].plan(x, w, _batched(y_shape, x, family, options, w), options, device)


def _batched(
    shape: tuple[int, ...], like: ArraySpec, family: str, options: tuple[Any, ...], w: ArraySpec
) -> tuple[int, ...]:
    """The result's shape for a field with a batch in it."""
    if _families[family].fold(options, w) == FIRST:
        return (like.shape[0], *shape[1:])
    return (*like.shape[: len(like.shape) - len(shape)], *shape)


def _adjoint(specs: tuple[ArraySpec, ...], device: str, family: str, x_shape: Any, options: tuple[Any, ...]) -> Any:
    y, w = specs
    x = ArraySpec(_batched(x_shape, y, family, options, w), y.dtype)
    return _families[family].plan(x, w, y.shape, options, device).adjoint()


def _compute(call: Call, a: Array, b: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """The map's values."""
    out = ArraySpec(shape, dtype)
    if call.which == WEIGHT:
        if not a.size:
            return jnp.zeros(out.shape, out.dtype)
        return _families[call.family].weight(call.options, a, b, out)
    build = _forward if call.which == FORWARD else _adjoint
    fold = _families[call.family].fold(call.options, spec_of(b))
    return run(Job(build, (spec_of(a), spec_of(b)), (call.family, shape, call.options), out, fold), a, b)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _bilinear(call: Call, shape: tuple[int, ...], dtype: str, a: Array, b: Array) -> Array:
    return _compute(call, a, b, shape, dtype)


def marked(primals: tuple[Any, ...]) -> tuple[Any, ...]:
    """Which arguments are differentiated, as a tree without leaves, since residuals hold arrays alone."""
    return tuple(() if primal.perturbed else None for primal in primals)


def needed(marks: tuple[Any, ...]) -> list[bool]:
    """What `marked` has noted."""
    return [mark is not None for mark in marks]


def _bilinear_forward(call: Call, shape: tuple[int, ...], dtype: str, a: Any, b: Any) -> tuple[Array, Any]:
    return _bilinear(call, shape, dtype, a.value, b.value), (a.value, b.value, marked((a, b)))


def _bilinear_backward(call: Call, shape: tuple[int, ...], dtype: str, kept: Any, ct: Any) -> tuple[Any, Any]:
    a, b, marks = kept
    if isinstance(ct, SymbolicZero):
        return None, None
    g, (first, second) = ct.conj(), needed(marks)
    if call.which == WEIGHT:  # a = x, b = y, g like w
        over_a = apply(call.to(ADJOINT), b, g, a.shape, a.dtype) if first else None
        over_b = apply(call.to(FORWARD), a, g, b.shape, b.dtype) if second else None
    else:
        over_a = apply(call.to(ADJOINT - call.which), g, b, a.shape, a.dtype) if first else None
        pair = (a, g) if call.which == FORWARD else (g, a)
        over_b = apply(call.to(WEIGHT), *pair, b.shape, b.dtype) if second else None
    return None if over_a is None else over_a.conj(), None if over_b is None else over_b.conj()


_bilinear.defvjp(_bilinear_forward, _bilinear_backward, symbolic_zeros=True)


def apply(call: Call, a: Array, b: Array, shape: Any, dtype: Any) -> Array:
    """One of the maps, differentiable; the result has `shape` and `dtype`."""
    result: Array = _bilinear(call, tuple(shape), jnp.dtype(dtype).name, a, b)
    return result
