"""Cases of gradient, divergence and laplacian: dimensions, sizes, axes, boundaries, coefficients and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support import Arrays, OpCase, random_array

from spectralops.boundary import Dirichlet, Neumann, Outflow, Periodic, Reflect, Robin

ALL = ("float32", "float64", "complex64", "complex128")


def _field(name: str, *shape: int) -> Callable[[np.random.Generator, str], Arrays]:
    return lambda rng, dtype: {name: random_array(rng, shape, dtype)}


def _with_mask(name: str, *shape: int) -> Callable[[np.random.Generator, str], Arrays]:
    """Every fourth cell is land, where the field is NaN."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        cells = shape[-2:]
        mask = np.arange(np.prod(cells)).reshape(cells) % 4 != 1
        u = random_array(rng, shape, dtype)
        u[..., ~mask] = np.nan
        return {name: u, "mask": mask}

    return inputs


def _with_nu(nu_shape: tuple[int, ...], *shape: int) -> Callable[[np.random.Generator, str], Arrays]:
    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
        return {"u": random_array(rng, shape, dtype), "nu": np.abs(random_array(rng, nu_shape, real)) + 1}

    return inputs


def _call(dx: Any, **options: Any) -> Callable[..., Any]:
    def call(function: Callable[..., Any], arrays: Arrays, **tail: Any) -> Any:
        first, *rest = arrays
        return function(arrays[first], dx, **{name: arrays[name] for name in rest}, **options, **tail)

    return call


def _apart(dx: Any, **options: Any) -> Callable[..., Any]:
    def call(function: Callable[..., Any], arrays: Arrays, **tail: Any) -> Any:
        return function([arrays["a"], arrays["b"]], dx, **options, **tail)

    return call


def _pair(*shape: int) -> Callable[[np.random.Generator, str], Arrays]:
    return lambda rng, dtype: {"a": random_array(rng, shape, dtype), "b": random_array(rng, shape, dtype)}


MIXED = ((Dirichlet(0.5), Neumann(-1.0)), Periodic())
WALLS = (Reflect(), (Robin(0.5, 1.0), Outflow()))


def _case(op: str, name: str, inputs: Any, call: Any, dtypes: tuple[str, ...] = ALL) -> OpCase:
    return OpCase(op, name, inputs, call, dtypes, kind="stencil")


def _scalar_cases(op: str) -> list[OpCase]:
    return [
        _case(op, "1d", _field("u", 12), _call(0.5)),
        _case(op, "1d-one-cell", _field("u", 1), _call(2.0, bc=Dirichlet(1.0))),
        _case(op, "1d-two-cells", _field("u", 2), _call(0.25)),
        _case(op, "1d-prime-axis-0-of-2", _field("u", 7, 3), _call((0.5,), axes=0, bc=Robin(0.25, -1.0))),
        _case(op, "2d", _field("u", 6, 5), _call(1.0)),
        _case(op, "2d-spacing", _field("u", 5, 4), _call((0.5, 3.0), bc=MIXED)),
        _case(op, "2d-axes-swapped", _field("u", 4, 5), _call((0.5, 3.0), axes=(1, 0), bc=WALLS)),
        _case(op, "2d-batch", _field("u", 3, 4, 5), _call(2.0, bc=Neumann(1.0)), ("float32", "float64")),
        _case(op, "2d-empty-batch", _field("u", 0, 4, 5), _call(2.0), ("float32",)),
        _case(op, "3d", _field("u", 3, 4, 5), _call((1.0, 2.0, 0.5), bc=Outflow()), ("float32", "float64")),
        _case(op, "mask", _with_mask("u", 6, 5), _call(0.5)),
        _case(op, "mask-walls", _with_mask("u", 2, 5, 6), _call((0.5, 2.0), bc=WALLS), ("float32", "float64")),
    ]


CASES = [
    *_scalar_cases("gradient"),
    *_scalar_cases("laplacian"),
    _case("laplacian", "nu-number", _field("u", 5, 6), _call(0.5, nu=-0.75, bc=MIXED)),
    _case("laplacian", "nu-field", _with_nu((6, 5), 6, 5), _call((0.5, 2.0))),
    _case("laplacian", "nu-along-one-axis", _with_nu((5,), 2, 4, 5), _call(0.5, bc=WALLS), ("float32", "float64")),
    _case("laplacian", "nu-per-instance", _with_nu((3, 1, 1), 3, 4, 5), _call(0.5, bc=Reflect()), ("float32",)),
    _case("divergence", "1d", _field("v", 1, 12), _call(0.5)),
    _case("divergence", "1d-one-cell", _field("v", 1, 1), _call(2.0, bc=Dirichlet(1.0))),
    _case("divergence", "1d-two-cells", _field("v", 1, 2), _call(0.25)),
    _case("divergence", "1d-prime-axis-0-of-2", _field("v", 1, 7, 3), _call(0.5, axes=0, bc=Robin(0.25, -1.0))),
    _case("divergence", "2d", _field("v", 2, 6, 5), _call(1.0)),
    _case("divergence", "2d-spacing", _field("v", 2, 5, 4), _call((0.5, 3.0), bc=MIXED)),
    _case("divergence", "2d-axes-swapped", _field("v", 2, 4, 5), _call((0.5, 3.0), axes=(1, 0), bc=WALLS)),
    _case("divergence", "2d-batch", _field("v", 2, 3, 4, 5), _call(2.0, bc=Neumann(1.0)), ("float32", "float64")),
    _case("divergence", "2d-empty-batch", _field("v", 2, 0, 4, 5), _call(2.0), ("float32",)),
    _case("divergence", "2d-apart", _pair(5, 6), _apart((0.5, 3.0), bc=MIXED)),
    _case("divergence", "3d", _field("v", 3, 3, 4, 5), _call((1.0, 2.0, 0.5), bc=Outflow()), ("float32", "float64")),
    _case("divergence", "mask", _with_mask("v", 2, 6, 5), _call(0.5)),
    _case("divergence", "mask-walls", _with_mask("v", 2, 2, 5, 6), _call(0.5, bc=WALLS), ("float32", "float64")),
]
