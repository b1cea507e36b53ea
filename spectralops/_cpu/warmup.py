"""Compiling ahead of time: the kernels of the vector FFT engine."""

from __future__ import annotations

from spectralops._compiler import unavailable

__all__ = ["warmup"]


def warmup(dtypes: tuple[str, ...]) -> None:
    """Load or compile all kernels for these real dtypes, where they can run at all."""
    if not unavailable():
        from spectralops._cpu.vector.kernels import warm_up

        warm_up(dtypes)
