"""What the functions of this package share: checks of arrays, precision, continuation beyond the ends."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["array", "floating", "precision", "summed"]


def array(op: str, name: str, value: Any) -> Array:
    """The value, if it is an array of JAX or NumPy."""
    if not isinstance(value, jax.Array | np.ndarray):
        raise TypeError(
            f"{op}: {name} is a {type(value).__name__}, but must be a jax.Array; "
            f"spectralops.{op} takes arrays of every library"
        )
    return jnp.asarray(value)


def floating(x: Array) -> Array:
    """x, as JAX's default float where it holds integers or bool."""
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.result_type(float))


def precision(dtype: Any) -> tuple[Any, Any]:
    """Real and complex dtype that coefficients have beside a field: float32 also beside 16-bit storage."""
    return (jnp.float64, jnp.complex128) if np.dtype(dtype).name in ("float64", "complex128") else (
        jnp.float32, jnp.complex64
    )  # fmt: skip


def summed(values: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Values summed over what an array of this shape was broadcast along, real where that is."""
    lead = values.ndim - len(shape)
    values = values.sum(tuple(range(lead)))
    along = tuple(axis for axis, n in enumerate(shape) if n == 1)
    values = values.sum(along, keepdims=True)
    if jnp.iscomplexobj(values) and np.dtype(dtype).kind != "c":
        values = values.real
    return values.astype(dtype)
