"""Values stored in 16 bits: float16, which NumPy has but does not compute in, and bfloat16, which it does not know."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["BITS", "HALVES", "bits", "numpy_dtype", "rounded", "widened"]

# Stored in 16 bits, computed in float32.
HALVES = ("float16", "bfloat16")
# What executors that take bfloat16 as it is stored are handed: its bits, as integers that every library has.
BITS = "int16"


def bits(native: Any) -> Any:
    """The same memory as integers, where it holds bfloat16."""
    return native if native.dtype.name != "bfloat16" else native.view(BITS)


def widened(native: Any, dtype: str) -> Any:
    """The values of a native array of `dtype`, in float32 where they are stored in 16 bits."""
    if dtype == "bfloat16" and native.dtype.name == BITS:
        return (native.view("uint16").astype("uint32") << 16).view("float32")
    return native.astype("float32") if native.dtype.name == "float16" else native


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's object for a dtype, of bfloat16 the one that JAX brings."""
    if dtype == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(dtype)


def rounded(tensor: Any, dtype: str) -> Any:
    """A result of PyTorch's as `dtype` where that is stored in 16 bits."""
    return tensor.to(getattr(sys.modules["torch"], dtype)) if dtype in HALVES else tensor
