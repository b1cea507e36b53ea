"""Cases of diffusion_filter: shapes, dimensions, axes, walls, coasts and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support import Arrays, OpCase, random_array

import spectralops as so
from spectralops.boundary import Neumann, Periodic, Reflect


def _field(*shape: int) -> Callable[[np.random.Generator, str], Arrays]:
    return lambda rng, dtype: {"u": random_array(rng, shape, dtype)}


def _with_mask(*shape: int) -> Callable[[np.random.Generator, str], Arrays]:
    """Every fifth cell is land, where the field is NaN."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        mask = np.arange(np.prod(shape[-2:])).reshape(shape[-2:]) % 5 != 1
        u = random_array(rng, shape, dtype)
        u[..., ~mask] = np.nan
        return {"u": u, "mask": mask}

    return inputs


def _with_metric(*shape: int, masked: bool = False) -> Callable[[np.random.Generator, str], Arrays]:
    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        arrays = (_with_mask if masked else _field)(*shape)(rng, dtype)
        for name in ("area", "south", "west", "north", "east"):
            arrays[name] = (1 + np.abs(random_array(rng, shape[-2:], "float64")) % 1).astype(dtype)
        return arrays

    return inputs


def _call(*args: Any, **options: Any) -> Callable[..., Any]:
    def call(function: Callable[..., Any], arrays: Arrays, **tail: Any) -> Any:
        return function(arrays["u"], *args, mask=arrays.get("mask"), **options, **tail)

    return call


def _on_metric(*args: Any, **options: Any) -> Callable[..., Any]:
    def call(function: Callable[..., Any], arrays: Arrays, **tail: Any) -> Any:
        metric = so.Metric(arrays["area"], (arrays["south"], arrays["west"]), (arrays["north"], arrays["east"]), 0.5)
        return function(arrays["u"], *args, mask=arrays.get("mask"), metric=metric, **options, **tail)

    return call


def _case(name: str, inputs: Any, call: Any, steps: int) -> OpCase:
    # Rounding errors of Chebyshev's recurrence add up over the steps.
    return OpCase("diffusion_filter", name, inputs, call, kind="stencil", growth=steps)


CASES = [
    _case("1d", _field(12), _call(4.0, 1.0), 4),
    _case("1d-one-cell", _field(1), _call(2.0, 1.0), 3),
    _case("1d-walls", _field(11), _call(3.0, 0.5, bc=Reflect()), 5),
    _case("one-step", _field(3, 4), _call(3.0, 1.0, n_steps=1), 2),
    _case("2d-gaussian", _field(6, 7), _call(4.0, 1.0), 5),
    _case("2d-taper", _field(5, 6), _call(2.0, 1.0, filter_shape="taper"), 8),
    _case("2d-sharp-taper", _field(4, 4), _call(2.0, 1.0, filter_shape="taper", transition_width=2.0), 12),
    _case("2d-spacing", _field(4, 5), _call(6.0, (1.0, 2.0), axes=(1, 0)), 5),
    _case("2d-batch", _field(2, 4, 5), _call(3.0, 1.0, bc=(Neumann(0.0), Periodic())), 4),
    _case("2d-empty-batch", _field(0, 4, 5), _call(3.0, 1.0), 4),
    _case("3d", _field(3, 4, 2), _call(2.0, (1.0, 1.0, 1.0)), 4),
    _case("leading-axis", _field(7, 3), _call(4.0, 1.0, axes=0), 4),
    _case("mask", _with_mask(6, 5), _call(3.0, 1.0), 4),
    _case("mask-walls", _with_mask(2, 5, 4), _call(2.0, 1.0, bc=Reflect(), filter_shape="taper"), 8),
    _case("metric", _with_metric(4, 5), _on_metric(3.0, 1.0), 4),
    _case("metric-mask-walls", _with_metric(2, 4, 5, masked=True), _on_metric(3.0, 1.0, bc=Reflect()), 4),
]
