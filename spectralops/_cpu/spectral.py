"""Spectral operators on the host: the executors that the dispatcher finds by name."""

from __future__ import annotations

from spectralops._cpu.spectral_filter import spectral_filter

__all__ = ["spectral_filter"]
