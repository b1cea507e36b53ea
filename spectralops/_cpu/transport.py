"""Transport of tracers on rows of cells, on the host: the compiled sweeps of the vector engine."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Sweeps"]

Array = np.ndarray[Any, Any]


class Sweeps:
    """The kernels for fields of one shape and dtype, with what they read of the grid.

    Parameters
    ----------
    grid : object
        `limiter`, `wraps`, `over`, `caps` and `weights`, as of the plain sweeps that these replace.
    dtype : str
        ``"float32"`` or ``"float64"``.
    shape : tuple of int
        Rows and columns.
    openings : tuple of array
        Of the upper faces along rows, and across them from the face below the first row; of one row where all rows are
        the same.
    """

    def __init__(self, grid: Any, dtype: str, shape: tuple[int, ...], openings: tuple[Array, ...]) -> None:
        from spectralops._cpu.vector import kernels, sweeps  # loads llvmlite

        rows, n = shape
        self.along, self.across, self.bounds_along, self.bounds_across = (
            kernels.kernel(name, dtype) for name in ("sweep_rows", "sweep_columns", "bounds_along", "bounds_across")
        )
        self.monotone = grid.limiter == 2
        pitch = -(-(n + 2 * sweeps.GHOSTS) // 16) * 16
        self.openings = tuple(np.ascontiguousarray(each, dtype) for each in openings)
        apart = [0 if len(each) == 1 else n for each in self.openings]
        cap = int(grid.caps)
        self.row_job = np.array([cap, rows - cap, n, grid.wraps, grid.limiter, apart[0], pitch], np.int64)
        self.column_job = np.array([rows, n, grid.limiter, apart[1], pitch, grid.over, n // 2, cap], np.int64)
        self.scratch = np.zeros(sweeps.ROWS_OF_SCRATCH * pitch, dtype)
        self.scratch[:7] = 0.0, 0.0, np.inf, -np.inf, 1 / 12, 1 / 2, -1 / 12
        self.weights = None if grid.weights is None else np.ascontiguousarray(grid.weights, dtype)

    def rows(self, q: Array, mass: Array, flux: Array) -> None:
        """Move one field along its rows, in place; fluxes of the upper faces."""
        low = high = q
        if self.monotone and self.weights is not None:
            low, high = np.empty_like(q), np.empty_like(q)
            _run(self.bounds_across, self.column_job, q, self.openings[1], low, high)
        _run(self.along, self.row_job, q, mass, flux, self.openings[0], low, high, self.scratch)

    def columns(self, q: Array, mass: Array, flux: Array) -> None:
        """Move one field across its rows, in place; fluxes of all lower faces and of the upper end."""
        assert self.weights is not None
        low = high = q
        if self.monotone:
            low, high = np.empty_like(q), np.empty_like(q)
            _run(self.bounds_along, self.row_job, q, self.openings[0], low, high, self.scratch)
        _run(self.across, self.column_job, q, mass, flux, self.openings[1], self.weights, low, high, self.scratch)


def _run(kernel: Any, *arrays: Array) -> None:
    kernel(*(array.ctypes.data for array in arrays))
