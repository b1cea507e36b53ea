"""Conformance cases of spectral_filter, spectral_conv and fourier_resample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support import Arrays, OpCase, random_array

from spectralops import transfer

REALS = ("float32", "float64")
COMPLEXES = ("complex64", "complex128")


def coefficients(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str = "complex") -> np.ndarray:
    """Complex or real coefficients in the precision that a field of `dtype` is computed in."""
    wide = dtype in ("float64", "complex128")
    if kind == "complex":
        return random_array(rng, shape, "complex128" if wide else "complex64")
    return random_array(rng, shape, "float64" if wide else "float32")


def field_case(
    name: str, shape: tuple[int, ...], symbol: Any, dtypes: tuple[str, ...] = REALS, growth: float = 1.0, **options: Any
) -> OpCase:
    """A filter whose transfer is a value or a callable."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        return {"x": random_array(rng, shape, dtype)}

    def call(function: Callable[..., Any], arrays: dict[str, Any], **tail: Any) -> Any:
        return function(arrays["x"], symbol, **options, **tail)

    return OpCase("spectral_filter", name, inputs, call, dtypes, growth=growth)


def array_case(
    name: str,
    shape: tuple[int, ...],
    factors: Sequence[tuple[int, ...]],
    dtypes: tuple[str, ...] = REALS,
    kind: str = "complex",
    **options: Any,
) -> OpCase:
    """A filter whose transfer is one array, or a tuple of several."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        arrays = {"x": random_array(rng, shape, dtype)}
        return arrays | {f"h{j}": coefficients(rng, each, dtype, kind) for j, each in enumerate(factors)}

    def call(function: Callable[..., Any], arrays: dict[str, Any], **tail: Any) -> Any:
        h = tuple(arrays[f"h{j}"] for j in range(len(factors)))
        return function(arrays["x"], h if len(h) > 1 else h[0], **options, **tail)

    return OpCase("spectral_filter", name, inputs, call, dtypes)


def _wave_packet(k0: np.ndarray, k1: np.ndarray) -> np.ndarray:
    return np.exp(-((k0 - 0.5) ** 2) - k1**2) * (1 + 0.5j * k0)


FILTERS = [
    field_case("gaussian-2d", (2, 8, 6), transfer.gaussian(1.5)),
    field_case("gaussian-odd-anisotropic", (9, 7), transfer.gaussian((0.5, 2.0)), spacing=(0.5, 2.0)),
    field_case("gaussian-1d-prime", (3, 13), transfer.gaussian(1.0), axes=-1),
    field_case("derivative-1d", (2, 16), transfer.derivative(), axes=(1,), spacing=0.25),
    field_case("mixed-derivative", (3, 6, 8), transfer.derivative((1, 2)), COMPLEXES + REALS),
    field_case("shift-3d", (4, 5, 6), transfer.shift((0.3, -1.2, 2.5)), COMPLEXES + REALS),
    field_case("riesz-reversed-axes", (4, 6, 5), transfer.riesz(0), axes=(2, 0)),
    field_case("inverse-laplacian", (2, 6, 10), transfer.inverse_laplacian(), growth=4.0),
    field_case("dealias-complex", (12, 9), transfer.dealias(), COMPLEXES),
    field_case("callable", (2, 6, 7), _wave_packet),
    field_case("callable-complex", (6, 8), _wave_packet, COMPLEXES),
    field_case("lowpass-padded", (2, 9, 7), transfer.lowpass(wavelength=4.0), pad_width=(2, 3), pad_mode="reflect"),
    field_case("heat-auto-edge", (2, 11, 13), transfer.heat(0.3, 1.0), pad_width="auto", pad_mode="edge"),
    field_case("empty-batch", (0, 4, 6), transfer.gaussian(1.0)),
    field_case("single-point", (1,), transfer.gaussian(1.0)),
    array_case("array-non-hermitian", (2, 6, 8), [(6, 5)]),
    array_case("array-per-channel", (2, 3, 5, 6), [(3, 5, 4)]),
    array_case("array-real-row", (3, 4, 10), [(6,)], kind="real"),
    array_case("factors", (2, 6, 8), [(6, 1), (5,)]),
    array_case("factors-3d-middle-axes", (4, 3, 5, 2), [(4, 1, 1, 1), (3, 1, 1), (3, 1)], axes=(0, 1, 2)),
    array_case("array-complex-x", (2, 5, 6), [(5, 6)], COMPLEXES),
    array_case("array-zero-padded", (2, 6, 5), [(10, 4)], pad_width=(2, 1)),
]


def conv_case(
    name: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    dtypes: tuple[str, ...] = REALS,
    kind: str = "complex",
    **options: Any,
) -> OpCase:
    """A spectral convolution."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        return {"x": random_array(rng, shape, dtype), "weight": coefficients(rng, weight, dtype, kind)}

    def call(function: Callable[..., Any], arrays: dict[str, Any], **tail: Any) -> Any:
        return function(arrays["x"], arrays["weight"], **options, **tail)

    return OpCase("spectral_conv", name, inputs, call, dtypes)


CONVOLUTIONS = [
    conv_case("1d-few-modes", (2, 3, 32), (3, 4, 4)),
    conv_case("1d-all-modes-even", (2, 3, 8), (3, 2, 5)),
    conv_case("1d-many-modes", (2, 2, 128), (2, 3, 40)),
    conv_case("1d-odd-prime", (3, 2, 17), (2, 2, 9)),
    conv_case("1d-complex-all-modes", (2, 2, 6), (2, 3, 6), COMPLEXES),
    conv_case("1d-complex-many-modes", (1, 2, 64), (2, 1, 57), COMPLEXES),
    conv_case("2d", (2, 3, 8, 6), (3, 4, 4, 3)),
    conv_case("2d-odd-modes", (2, 2, 7, 9), (2, 2, 5, 4)),
    conv_case("2d-many-modes", (1, 2, 72, 64), (2, 1, 60, 30)),
    conv_case("2d-complex", (2, 2, 6, 5), (2, 2, 5, 4), COMPLEXES),
    conv_case("2d-finer", (2, 2, 6, 8), (2, 3, 6, 5), out_shape=(9, 12)),
    conv_case("2d-coarser", (2, 2, 9, 12), (2, 3, 6, 4), out_shape=(6, 7)),
    conv_case("2d-swapped-axes", (2, 2, 3, 6, 8), (3, 2, 5, 3), axes=(-1, -2), out_shape=(10, 6)),
    conv_case("2d-no-batch", (3, 6, 6), (3, 2, 3, 3)),
    conv_case("2d-real-view", (2, 3, 8, 6), (3, 2, 4, 3, 2), kind="real"),
    conv_case("2d-depthwise", (2, 3, 8, 6), (3, 4, 3), depthwise=True),
    conv_case("1d-depthwise-real-view", (2, 3, 16), (3, 5, 2), kind="real", depthwise=True),
    conv_case("3d", (1, 2, 4, 5, 6), (2, 3, 3, 4, 3)),
    conv_case("3d-complex-depthwise", (2, 2, 4, 3, 5), (2, 3, 2, 4), COMPLEXES, depthwise=True),
    conv_case("empty-batch", (0, 2, 6, 8), (2, 3, 4, 3)),
    conv_case("single-point", (2, 2, 1), (2, 3, 1)),
]


def gradient_case(
    name: str,
    shape: tuple[int, ...],
    gradient: tuple[int, ...],
    modes: Any,
    dtypes: tuple[str, ...] = REALS,
    **options: Any,
) -> OpCase:
    """A gradient with respect to the weight of a spectral convolution."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        return {"x": random_array(rng, shape, dtype), "gradient": random_array(rng, gradient, dtype)}

    def call(function: Callable[..., Any], arrays: dict[str, Any], **tail: Any) -> Any:
        return function(arrays["x"], arrays["gradient"], modes, **options, **tail)

    return OpCase("spectral_conv_weight_gradient", name, inputs, call, dtypes, complex_result=True)


GRADIENTS = [
    gradient_case("1d-few-modes", (2, 3, 32), (2, 4, 32), 4),
    gradient_case("1d-all-modes-even", (2, 3, 8), (2, 2, 8), (5,)),
    gradient_case("1d-many-modes", (2, 2, 128), (2, 3, 128), 40),
    gradient_case("1d-odd-prime", (3, 2, 17), (3, 2, 17), (9,)),
    gradient_case("1d-complex-all-modes", (2, 2, 6), (2, 3, 6), 6, COMPLEXES),
    gradient_case("1d-depthwise", (3, 3, 16), (3, 3, 16), 5, depthwise=True),
    gradient_case("2d", (2, 3, 8, 6), (2, 4, 8, 6), (4, 3)),
    gradient_case("2d-finer", (2, 2, 6, 8), (2, 3, 9, 12), (6, 5)),
    gradient_case("2d-coarser", (2, 2, 9, 12), (2, 3, 6, 8), (6, 5)),
    gradient_case("2d-complex", (2, 2, 6, 5), (2, 2, 6, 5), (5, 4), COMPLEXES),
    gradient_case("2d-swapped-axes", (2, 2, 3, 6, 8), (2, 2, 2, 6, 9), (5, 3), axes=(-1, -2)),
    gradient_case("2d-no-batch", (3, 6, 6), (2, 6, 6), (3, 3)),
    gradient_case("3d", (1, 2, 4, 5, 6), (1, 3, 4, 5, 6), (3, 4, 3)),
    gradient_case("3d-complex-depthwise", (2, 2, 4, 3, 5), (2, 2, 4, 3, 5), (3, 2, 4), COMPLEXES, depthwise=True),
    gradient_case("empty-batch", (0, 2, 6, 8), (0, 3, 6, 8), (4, 3)),
    gradient_case("single-point", (2, 2, 1), (2, 3, 1), 1),
]


def resample_case(
    name: str, shape: tuple[int, ...], sizes: Any, dtypes: tuple[str, ...] = REALS, **options: Any
) -> OpCase:
    """A resampling."""

    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        return {"x": random_array(rng, shape, dtype)}

    def call(function: Callable[..., Any], arrays: dict[str, Any], **tail: Any) -> Any:
        return function(arrays["x"], sizes, **options, **tail)

    return OpCase("fourier_resample", name, inputs, call, dtypes)


RESAMPLINGS = [
    resample_case("1d-up-even", (2, 8), 12, axes=-1),
    resample_case("1d-up-odd", (2, 7), 10, axes=-1),
    resample_case("1d-down-to-even", (3, 11), 6, axes=-1),
    resample_case("1d-down-to-odd", (3, 8), 5, axes=-1),
    resample_case("1d-to-two", (6,), 2),
    resample_case("1d-to-one", (6,), 1),
    resample_case("1d-from-one", (2, 1), 4, axes=-1),
    resample_case("1d-complex", (2, 6), 10, COMPLEXES, axes=-1),
    resample_case("1d-complex-down", (2, 10), 6, COMPLEXES, axes=-1),
    resample_case("2d-up", (2, 4, 6), (8, 9)),
    resample_case("2d-down", (2, 8, 9), (4, 6)),
    resample_case("2d-up-and-down", (2, 4, 9), (7, 4), COMPLEXES + REALS),
    resample_case("2d-reversed-axes", (6, 3, 4), (8, 4), axes=(2, 0)),
    resample_case("2d-one-unchanged", (2, 6, 8), (6, 4)),
    resample_case("3d", (4, 5, 6), (6, 4, 4)),
    resample_case("unchanged", (3, 4), (3, 4)),
    resample_case("empty-batch", (0, 4, 6), (6, 4)),
]

CASES = [*FILTERS, *CONVOLUTIONS, *GRADIENTS, *RESAMPLINGS]
