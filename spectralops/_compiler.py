"""Whether kernels may be compiled here: decided without loading the compiler."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from pathlib import Path

__all__ = ["SWITCH", "unavailable"]

SWITCH = "SPECTRALOPS_NUMBA"


def unavailable() -> str:
    """Why no kernel can be compiled, in words; empty where llvmlite and what it compiles are at hand."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 switches compiled kernels off"
    return _missing()


@lru_cache(maxsize=1)
def _missing() -> str:
    if importlib.util.find_spec("llvmlite") is None:
        return "llvmlite, which compiles kernels, is not installed"
    # As where only bytecode is installed, or packages lie in an archive.
    return "" if Path(__file__).with_suffix(".py").is_file() else "the source files of the kernels are not installed"
