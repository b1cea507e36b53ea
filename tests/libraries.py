"""Arrays of other libraries for the tests: make one from NumPy, read one back, say what and where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from spectralops._arrays import Home

HOMES = {name: Home(name, "cpu") for name in ("numpy", "torch", "jax", "array_api_strict")}


@dataclass(frozen=True)
class Library:
    """How the tests speak to one array library."""

    type: type
    make: Callable[[np.ndarray], Any]
    read: Callable[[Any], np.ndarray]


def library(name: str, device: str = "cpu") -> Library:
    """The library by name, or a visible skip where it is not installed."""
    if name == "numpy":
        return Library(np.ndarray, lambda x: x, np.asarray)
    if name == "torch":
        torch = pytest.importorskip("torch")

        def make(x: np.ndarray) -> Any:
            if x.dtype.name == "bfloat16":
                return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16).to(device)
            return torch.from_numpy(np.array(x)).to(device)

        def read(x: Any) -> np.ndarray:
            return (x.float() if x.dtype == torch.bfloat16 else x).cpu().numpy()

        return Library(torch.Tensor, make, read)
    if name == "jax":
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)
        return Library(jax.Array, jax.numpy.asarray, np.asarray)
    if name == "array_api_strict":
        strict = pytest.importorskip("array_api_strict")
        return Library(type(strict.asarray(0.0)), strict.asarray, np.asarray)
    assert name == "cupy", name
    cupy = pytest.importorskip("cupy")
    return Library(cupy.ndarray, cupy.asarray, cupy.asnumpy)
