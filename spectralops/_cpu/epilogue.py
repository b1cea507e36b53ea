"""Bias, scale, shift and activation, applied in place to results that are still in cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.epilogue import Epilogue

__all__ = ["finisher"]

Array = Any

SQRT_HALF = 0.5**0.5
SQRT_2_OVER_PI = (2 / np.pi) ** 0.5


def _relu(y: Array) -> None:
    np.maximum(y, 0, out=y)


def _gelu(y: Array) -> None:
    from scipy import special  # slow to load

    y *= 0.5 * (1 + special.erf(y * SQRT_HALF))


def _gelu_tanh(y: Array) -> None:
    y *= 0.5 * (1 + np.tanh(SQRT_2_OVER_PI * (y + 0.044715 * y**3)))


def _silu(y: Array) -> None:
    from scipy import special

    y *= special.expit(y)


def _tanh(y: Array) -> None:
    np.tanh(y, out=y)


ACTIVATIONS: dict[str | None, Callable[[Array], None]] = {
    None: lambda y: None,
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "tanh": _tanh,
}


def finisher(bias: Array | None, epilogue: Epilogue | None, groups: int) -> Callable[[Array, slice, slice], None]:
    """What is done to a block (..., G, O, H, W) of results that belongs to slices of groups and output channels."""
    scale, shift, activation = (epilogue.scale, epilogue.shift, epilogue.activation) if epilogue else (None,) * 3
    factors = [None if f is None else _per_channel(f, groups) for f in (bias, scale, shift)]

    def finish(block: Array, mine: slice, some: slice) -> None:
        added, scaled, moved = (None if f is None else f if f.ndim == 0 else f[mine, some] for f in factors)
        if added is not None:
            block += added
        if scaled is not None:
            block *= scaled.astype(block.real.dtype)
        if moved is not None:
            block += moved.astype(block.real.dtype)
        ACTIVATIONS[activation](block)

    return finish


def _per_channel(factor: Any, groups: int) -> Array:
    values = np.asarray(factor)
    return values if values.ndim == 0 else values.reshape(groups, -1, 1, 1)
