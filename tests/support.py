"""Shared by all tests: the operator cases of the conformance suite, layouts, tolerances and assertions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

HALF_TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3}
EPS = {"float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52, "complex128": 2.0**-52}
# Relative L2 error allowed per unit of eps: FFT errors grow with log2 of the transform size, stencils with the steps.
FFT_FACTOR = 1.0
STENCIL_FACTOR = 4.0
# The largest single error may exceed the L2 bound by this much: L2 alone hides one bad element.
MAX_NORM_FACTOR = 10.0


@dataclass(frozen=True)
class OpCase:
    """One call of one public operator, from which the conformance suite makes backend, dtype and layout variants.

    `inputs(rng, dtype)` makes the NumPy arrays of the call by name, the field or signal first;
    `call(function, arrays, **tail)` calls the public function with them and passes on the tail keywords
    (`out`, `workers`, `backend`). `growth` multiplies the tolerance: the number of steps, or a condition number with
    its reason. `complex_result` says that the result is complex also where the field is real.
    """

    op: str
    name: str
    inputs: Callable[[np.random.Generator, str], Arrays]
    call: Callable[..., Any]
    dtypes: tuple[str, ...] = ("float32", "float64")
    kind: str = "fft"
    growth: float = 1.0
    complex_result: bool = False

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """White noise of any inexact dtype name (bfloat16 through ml_dtypes)."""
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    if dtype == "bfloat16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(dtype)


def complex_normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Complex white noise."""
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def tolerance(dtype: str, size: int, kind: str = "fft", growth: float = 1.0) -> float:
    """The one tolerance table: relative L2 error allowed against the float64 reference."""
    if dtype in HALF_TOLERANCE:
        return HALF_TOLERANCE[dtype] * growth
    factor = FFT_FACTOR * max(math.log2(max(size, 2)), 4.0) if kind == "fft" else STENCIL_FACTOR
    return factor * EPS[dtype] * growth


def assert_close(result: Any, expected: Any, bound: float) -> None:
    """Relative L2 error within `bound`, largest error within ten times that of the RMS; same non-finite pattern."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.shape == expected.shape, f"shape {result.shape} != {expected.shape}"
    wide = np.complex128 if np.iscomplexobj(expected) or np.iscomplexobj(result) else np.float64
    result, expected = result.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(result), finite), "non-finite pattern differs"
    difference = np.abs(result[finite] - expected[finite])
    if not difference.size:
        return
    norm = float(np.linalg.norm(expected[finite]))
    error = float(np.linalg.norm(difference))
    assert error <= bound * norm, f"relative L2 error {error / norm if norm else math.inf:.3g} > {bound:.3g}"
    largest = float(np.abs(expected[finite]).max())
    worst = float(difference.max())
    assert worst <= MAX_NORM_FACTOR * bound * largest, (
        f"max error {worst:.3g} > {MAX_NORM_FACTOR * bound * largest:.3g}"
    )
