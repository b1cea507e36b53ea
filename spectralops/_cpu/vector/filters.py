"""The fused filter on arrays of any layout."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import host
from spectralops._cpu.vector.routes import Route, route, several
from spectralops._cpu.vector.workspace import address

__all__ = ["filter_axes"]

Array = np.ndarray[Any, Any]


def filter_axes(x: Array, transfer: Array, out: Array, axes: tuple[int, ...], workers: int) -> None:
    """Write inverse(transform(x) · transfer) to `out`, along one, two or three axes; the last is halved for real x.

    `transfer`, real or complex of the precision of x, broadcasts against the spectrum. `out` has x's shape and dtype.
    """
    if not out.size:
        return
    char = x.dtype.char
    way = _direct(x.shape, char, x.strides, out.strides, transfer.shape, axes)
    if way is not None and x.flags.aligned and out.flags.aligned:
        factors = transfer if transfer.shape == way.spectrum else _spread(transfer.reshape(way.given), way.spectrum)
        way.route.run(address(x), way.step, address(out), way.target_step, way.images, factors, workers)
    else:
        _rearranged(x, transfer, out, axes, workers)


class Direct(NamedTuple):
    """A call that needs no rearranging: the same for all arrays of these shapes and strides."""

    route: Route
    step: int
    target_step: int
    images: int
    given: tuple[int, ...]
    spectrum: tuple[int, ...]


@lru_cache(maxsize=512)
def _direct(
    shape: tuple[int, ...],
    char: str,
    strides: tuple[int, ...],
    target_strides: tuple[int, ...],
    given: tuple[int, ...],
    axes: tuple[int, ...],
) -> Direct | None:
    """Where the last axes are transformed, with one filter, and images are contiguous and evenly spaced."""
    d, ndim = len(axes), len(shape)
    given = (1,) * (ndim - len(given)) + given
    step = _step(shape, strides, char, d)
    target_step = _step(shape, target_strides, char, d)
    in_order = tuple(axis % ndim for axis in axes) == tuple(range(ndim - d, ndim))
    if not in_order or math.prod(given[: ndim - d]) != 1 or step is None or target_step is None:
        return None
    lengths, count = shape[ndim - d :], math.prod(shape[: ndim - d])
    way = route(lengths, char, 1, several(count, char))
    return Direct(way, step, target_step, count, given[ndim - d :], _spectrum(lengths, char))


def _rearranged(x: Array, transfer: Array, out: Array, axes: tuple[int, ...], workers: int) -> None:
    """Axes elsewhere, filters of their own for parts of the batch, other layouts: views where possible, else copies."""
    d, ndim, char = len(axes), x.ndim, x.dtype.char
    axes = tuple(axis % ndim for axis in axes)
    order = (*(axis for axis in range(ndim) if axis not in axes), *axes)
    factors = transfer[(None,) * (ndim - transfer.ndim)]
    if d == 1 and factors.size == factors.shape[axes[0]] and _along_columns(x, out, axes[0]):
        n, inner = x.shape[axes[0]], math.prod(x.shape[axes[0] + 1 :])
        factors = _spread(factors.reshape(-1), _spectrum((n,), char))
        way = route((n,), char, inner, several(x.size // n, char))
        way.run(address(x), 0, address(out), 0, x.size // (n * inner), factors, workers)
        return
    source, factors, target = x.transpose(order), factors.transpose(order), out.transpose(order)
    apart = _step_of(target, d) is None
    if apart:
        target = np.empty(target.shape, out.dtype)
    batch = factors.shape[: ndim - d]
    factors = _spread(factors, (*batch, *_spectrum(source.shape[ndim - d :], char)))
    _filter_batch(source, factors, target, d, workers)
    if apart:
        out.transpose(order)[...] = target


def _spectrum(lengths: tuple[int, ...], char: str) -> tuple[int, ...]:
    return lengths if host.NUMBERS[char] == 2 else (*lengths[:-1], lengths[-1] // 2 + 1)


def _spread(factors: Array, shape: tuple[int, ...]) -> Array:
    return factors if factors.shape == shape else np.broadcast_to(factors, shape)


def _along_columns(x: Array, out: Array, axis: int) -> bool:
    """Whether one axis is best filtered where it lies: with enough neighbouring columns to fill the lanes."""
    return (
        x.flags.c_contiguous
        and x.flags.aligned
        and out.flags.c_contiguous
        and math.prod(x.shape[axis + 1 :]) >= host.lanes(host.REAL[x.dtype.char])
    )


def _filter_batch(source: Array, factors: Array, target: Array, d: int, workers: int) -> None:
    """Images along the last d axes with one filter, or with filters that broadcast against their batch."""
    step, target_step = _step_of(source, d), _step_of(target, d)
    assert target_step is not None  # or the results would have been written apart
    if step is None:
        source = source.copy(order="C")
        step = math.prod(source.shape[-d:]) * host.NUMBERS[source.dtype.char]
    sizes, lengths = source.shape[:-d], source.shape[-d:]
    count = math.prod(sizes)
    way = route(lengths, source.dtype.char, 1, several(count, source.dtype.char))
    places = address(source), step, address(target), target_step
    if math.prod(factors.shape[:-d]) == 1:
        way.run(*places, count, factors.reshape(factors.shape[-d:]), workers)
    else:
        way.run_each(*places, sizes, factors, workers)


def _step_of(array: Array, d: int) -> int | None:
    return _step(array.shape, array.strides, array.dtype.char, d) if array.flags.aligned else None


def _step(shape: tuple[int, ...], strides: tuple[int, ...], char: str, d: int) -> int | None:
    """Numbers from each image to the next, where images are C-contiguous and evenly spaced; None where not."""
    number = host.ITEM_BYTES[host.REAL[char]]
    expected = number * host.NUMBERS[char]
    for axis in range(-1, -d - 1, -1):
        if shape[axis] > 1 and strides[axis] != expected:
            return None
        expected *= shape[axis]
    step, first = expected, True
    for axis in range(len(shape) - d - 1, -1, -1):
        if shape[axis] > 1:
            if first:
                step, first = strides[axis], False
            elif strides[axis] != expected:
                return None
            expected = strides[axis] * shape[axis]
    return step // number
