"""Compiling ahead of time: the kernels of the vector engine, and how quick they are here."""

from __future__ import annotations

from spectralops._compiler import unavailable
from spectralops._cpu import convolution_rates

__all__ = ["warmup"]


def warmup(dtypes: tuple[str, ...]) -> None:
    """Load or compile all kernels for these real dtypes, where they can run at all; time those of convolutions."""
    if not unavailable():
        from spectralops._cpu.vector.kernels import warm_up

        warm_up(dtypes)
        if "float32" in dtypes:
            convolution_rates.measure()
