"""Spectral operators on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from spectralops._cpu.resample import fourier_resample
from spectralops._cpu.spectral_conv import spectral_conv
from spectralops._cpu.spectral_filter import algorithm, spectral_filter

__all__ = ["algorithm", "fourier_resample", "spectral_conv", "spectral_filter"]
