"""Whether numba may compile kernels here: decided without loading it."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache

__all__ = ["SWITCH", "unavailable"]

SWITCH = "SPECTRALOPS_NUMBA"


def unavailable() -> str:
    """Why no kernel can be compiled, in words; empty where numba is at hand."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 switches compiled kernels off"
    return "" if _installed() else "numba, which compiles kernels, is not installed"


@lru_cache(maxsize=1)
def _installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("numba", "llvmlite"))
