"""Filters by the vector engine and by scipy.fft, for its tests."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
from support import assert_close, random_array, tolerance

from spectralops._cpu.vector import filters, workspace

Axes = tuple[int, ...]
DTYPES = ["float32", "float64", "complex64", "complex128"]
COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
REAL_OF = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}


def spectrum_shape(x: np.ndarray, axes: Axes) -> list[int]:
    shape = list(x.shape)
    if not np.iscomplexobj(x):
        shape[axes[-1]] = shape[axes[-1]] // 2 + 1
    return shape


def shared_transfer(rng: np.random.Generator, x: np.ndarray, axes: Axes, real: bool = False) -> np.ndarray:
    """A filter without any symmetry, the same for the whole batch."""
    whole = {axis % x.ndim for axis in axes}
    shape = [n if i in whole else 1 for i, n in enumerate(spectrum_shape(x, axes))]
    return random_array(rng, tuple(shape), (REAL_OF if real else COMPLEX_OF)[str(x.dtype)])


def by_scipy(x: np.ndarray, transfer: np.ndarray, axes: Axes) -> np.ndarray:
    sizes = [x.shape[axis] for axis in axes]
    if np.iscomplexobj(x):
        return scipy.fft.ifftn(scipy.fft.fftn(x.astype(complex), axes=axes) * transfer, axes=axes)
    return scipy.fft.irfftn(scipy.fft.rfftn(x.astype(float), axes=axes) * transfer, s=sizes, axes=axes)


def filtered(x: np.ndarray, transfer: np.ndarray, axes: Axes, workers: int = 1) -> np.ndarray:
    out = np.full(x.shape, np.nan, x.dtype)
    before = x.copy(), transfer.copy()
    filters.filter_axes(x, transfer, out, axes, workers)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(transfer, before[1])
    return out


def check(x: np.ndarray, transfer: np.ndarray, axes: Axes, workers: int = 1) -> None:
    size = int(np.prod([x.shape[axis] for axis in axes]))
    assert_close(filtered(x, transfer, axes, workers), by_scipy(x, transfer, axes), tolerance(str(x.dtype), size))


def poison_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch memory that is NaN in every number, so that a kernel that reads what it did not write shows."""
    take = workspace.take

    def poisoned(size: int) -> workspace.Buffer:
        buffer = take(size)
        buffer.owner[:] = 0xFF
        return buffer

    monkeypatch.setattr(workspace, "take", poisoned)
