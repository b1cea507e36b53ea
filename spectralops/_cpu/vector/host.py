# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-any-return"
"""What the host CPU offers: the width of its vectors, and its name for the cache of compiled kernels."""

from __future__ import annotations

import os
from functools import lru_cache

import llvmlite.binding as llvm

__all__ = ["cpu", "initialise", "lanes", "off_page", "registers", "vector_bytes"]

# Of the cache and of memory.
LINE_BYTES, PAGE_BYTES = 64, 4096
# Of each row of an image, what one sweep over its rows takes: a whole run of cache lines.
SWEEP_BYTES = 256
ITEM_BYTES = {"float32": 4, "float64": 8}
# Of NumPy's dtype characters: the dtype of the real numbers, and how many make one element.
REAL = {"f": "float32", "d": "float64", "F": "float32", "D": "float64"}
NUMBERS = {"f": 1, "d": 1, "F": 2, "D": 2}
COMPLEX = {"float32": "complex64", "float64": "complex128"}


@lru_cache(maxsize=1)
def initialise() -> None:
    """Make LLVM's native code generator available, once per process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def cpu() -> tuple[str, str]:
    """LLVM's name of the CPU and its feature string."""
    initialise()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@lru_cache(maxsize=1)
def vector_bytes() -> int:
    """Bytes of one vector of the engine.

    64 with AVX-512, otherwise 32: LLVM splits a vector in two where registers hold 16 bytes (SSE2, NEON), which costs
    little and halves the broadcasts. ``SPECTRALOPS_VECTOR_BYTES`` overrides it (16, 32 or 64), for tests.
    """
    chosen = os.environ.get("SPECTRALOPS_VECTOR_BYTES")
    if chosen in ("16", "32", "64"):
        return int(chosen)
    return 64 if "+avx512f" in cpu()[1].split(",") else 32


def registers() -> int:
    """Vectors of the engine that the registers hold: 32 of 64 bytes with AVX-512, otherwise 16 of 32 bytes."""
    return 32 if vector_bytes() == 64 else 16


def lanes(dtype: str) -> int:
    """Numbers of `dtype` in one vector: the transforms that run side by side."""
    return vector_bytes() // ITEM_BYTES[dtype]


def off_page(pitch: int, itemsize: int, unit: int = 1) -> int:
    """The next distance that is no multiple of a page, nor nearly: such rows would share few sets of a cache.

    A multiple of `unit` stays one.
    """
    while not PAGE_BYTES // 16 <= pitch * itemsize % PAGE_BYTES <= PAGE_BYTES - PAGE_BYTES // 16:
        pitch += max(unit, LINE_BYTES // itemsize)
    return pitch
