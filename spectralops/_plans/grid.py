"""The periodic grid of a transform: its wavenumbers in the layout of the spectrum, and transfers sampled on it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Grid", "Symbol", "clear_symbols", "sampled"]

Symbol = tuple[np.ndarray[Any, Any], ...]

# Sampled transfers kept for reuse. A symbol is as large as one image's spectrum, so bytes are what must be bounded.
CACHE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Grid:
    """The transformed axes of an array, in `axes` order.

    Attributes
    ----------
    sizes : tuple of int
        Number of points along each axis.
    spacing : tuple of float
        Distance between points along each axis [L].
    halved : bool
        Whether the spectrum holds the last axis's nonnegative wavenumbers only: real input.
    places : tuple of int
        Position of each axis among the dimensions of the arrays that :meth:`wavenumbers` makes. They have just the
        dimensions from the first transformed axis to the array's last, so that they broadcast against its spectrum.
    span : int
        Number of those dimensions.
    """

    sizes: tuple[int, ...]
    spacing: tuple[float, ...]
    halved: bool
    places: tuple[int, ...]
    span: int

    @classmethod
    def of_axes(
        cls, sizes: tuple[int, ...], spacing: tuple[float, ...], halved: bool, axes: tuple[int, ...], ndim: int
    ) -> Grid:
        """The grid of `axes` of an array with `ndim` dimensions."""
        first = min(axes)
        return cls(sizes, spacing, halved, tuple(axis - first for axis in axes), ndim - first)

    def along(self, j: int, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A 1-d array laid along axis `j`, with length 1 along the others."""
        shape = [1] * self.span
        shape[self.places[j]] = len(values)
        return values.reshape(shape)

    def indices(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Signed integer wavenumbers of each axis (cycles per domain), in the transform's order, as 1-d arrays.

        An even axis of n points ends its first half with the Nyquist wavenumber: -n/2 where both signs are kept,
        +n/2 on a halved axis, as in ``numpy.fft.fftfreq`` and ``rfftfreq``.
        """
        last = len(self.sizes) - 1
        return tuple(
            np.arange(n // 2 + 1) if self.halved and j == last else (np.arange(n) + n // 2) % n - n // 2
            for j, n in enumerate(self.sizes)
        )

    def wavenumbers(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Angular wavenumbers 2*pi*m/(n*spacing) [rad/L] of each axis, broadcastable against each other."""
        return tuple(
            self.along(j, m * (2 * np.pi / (n * h)))
            for j, (m, n, h) in enumerate(zip(self.indices(), self.sizes, self.spacing, strict=True))
        )


class _Cache:
    """Least recently used symbols up to a number of bytes; safe in threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._items: OrderedDict[Any, Symbol] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Any) -> Symbol | None:
        with self._lock:
            symbol = self._items.get(key)
            if symbol is not None:
                self._items.move_to_end(key)
            return symbol

    def put(self, key: Any, symbol: Symbol) -> None:
        size = sum(factor.nbytes for factor in symbol)
        with self._lock:
            if size > self.limit or key in self._items:
                return
            self._items[key] = symbol
            self._bytes += size
            while self._bytes > self.limit:
                _, oldest = self._items.popitem(last=False)
                self._bytes -= sum(factor.nbytes for factor in oldest)

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._items)


_symbols = _Cache(CACHE_BYTES)


def clear_symbols() -> None:
    """Forget every sampled transfer."""
    _symbols.clear()


def sampled(
    transfer: Any, grid: Grid, dtype: str, check: Callable[[Any, np.ndarray[Any, Any]], None] | None = None
) -> Symbol:
    """Factors of a transfer value on a grid, real or complex in the precision of the real `dtype`; cached.

    New ones are given to `check`, which may raise.
    """
    key = (transfer, grid, dtype)
    symbol = _symbols.get(key)
    if symbol is None:
        with np.errstate(over="ignore"):
            symbol = tuple(_frozen(factor, dtype) for factor in transfer.sample(grid))
        for factor in symbol:
            if check is not None:
                check(transfer, factor)
        _symbols.put(key, symbol)
    return symbol


def _frozen(factor: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    result = factor.astype(np.result_type(dtype, 1j) if factor.dtype.kind == "c" else dtype)
    result.flags.writeable = False
    return result
