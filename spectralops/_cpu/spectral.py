"""Spectral operators on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from typing import Any

from spectralops._cpu import spectral_conv as conv
from spectralops._cpu import spectral_filter as filters
from spectralops._cpu.resample import fourier_resample
from spectralops._cpu.spectral_conv import spectral_conv, spectral_conv_weight_gradient
from spectralops._cpu.spectral_filter import spectral_filter

__all__ = ["algorithm", "fourier_resample", "spectral_conv", "spectral_conv_weight_gradient", "spectral_filter"]


def algorithm(plan: Any) -> str:
    """How this plan runs, in words."""
    words: str = (conv if plan.op.startswith("spectral_conv") else filters).algorithm(plan)
    return words
