"""Whether kernels may be compiled here: decided without loading the compiler."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache

__all__ = ["SWITCH", "unavailable"]

SWITCH = "SPECTRALOPS_NUMBA"


def unavailable() -> str:
    """Why no kernel can be compiled, in words; empty where llvmlite is at hand."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 switches compiled kernels off"
    return "" if _installed() else "llvmlite, which compiles kernels, is not installed"


@lru_cache(maxsize=1)
def _installed() -> bool:
    return importlib.util.find_spec("llvmlite") is not None
