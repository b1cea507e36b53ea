"""Compilation of the engine's functions: without the GIL, cached on disk where there is a place for it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

__all__ = ["jit", "sources"]


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile at the first call, from numba's cache on disk if it can.

    Never with fast-math: it buys nothing here, and results would differ from NumPy's and lose NaN.
    """
    try:
        compiled: Callable[..., Any] = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # neither the package's folder nor a home is writable: each process compiles its own
        compiled = njit(nogil=True)(function)
    return compiled


def sources() -> int:
    """A number that changes with the sources of this folder.

    numba's cache knows only the file of the function that it compiles, not those of the functions that this one calls.
    """
    digest = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest = zlib.crc32(path.read_bytes(), digest)
    return digest
