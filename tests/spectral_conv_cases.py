"""What the tests of spectral_conv and of its weight gradient share: grids, and every way to compute them."""

from __future__ import annotations

import numpy as np
import pytest

from spectralops._cpu import spectral_conv_scipy

# Sizes of x, sizes of the result, kept modes: also where one grid's Nyquist is an interior mode of the other.
GRIDS = [
    ((8,), (8,), (5,)),
    ((6,), (8,), (4,)),
    ((8,), (6,), (4,)),
    ((7,), (9,), (4,)),
    ((6, 7), (8, 6), (5, 4)),
    ((6, 8), (6, 8), (6, 5)),
    ((4, 3, 6), (4, 5, 8), (3, 3, 4)),
]
BACKENDS = ["cpu", "numpy", "reference"]
METHODS = ["engine", "gemm", "fft"]


def _use(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method != "engine":
        limit = 1e9 if method == "gemm" else -1.0
        monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
        monkeypatch.setattr(spectral_conv_scipy, "GEMM_MODES_HALF", limit)
        monkeypatch.setattr(spectral_conv_scipy, "GEMM_MODES_FULL", limit)


@pytest.fixture(name="method", params=METHODS)
def every_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The vector engine, or SciPy with one method for all axes, so that small tests reach all."""
    _use(request.param, monkeypatch)
    return request.param


@pytest.fixture(name="way", params=[*METHODS, *BACKENDS[1:]])
def every_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend to name: that of the CPU by each of its methods, and the others."""
    if request.param in BACKENDS:
        return request.param
    _use(request.param, monkeypatch)
    return "cpu"


def points(*sizes: int) -> tuple[np.ndarray, ...]:
    """Coordinates of a 2 pi periodic grid, broadcastable."""
    return tuple(np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in sizes), indexing="ij", sparse=True))
