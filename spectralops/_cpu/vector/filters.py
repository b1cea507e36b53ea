"""The fused filter on arrays of any layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spectralops._cpu.vector import host
from spectralops._cpu.vector.routes import route

__all__ = ["filter_axes"]

Array = np.ndarray[Any, Any]


def filter_axes(x: Array, transfer: Array, out: Array, axes: tuple[int, ...], workers: int) -> None:
    """Write inverse(transform(x) · transfer) to `out`, along one, two or three axes; the last is halved for real x.

    `transfer`, real or complex of the precision of x, broadcasts against the spectrum. `out` has x's shape and dtype.
    """
    if not out.size:
        return
    d, ndim = len(axes), x.ndim
    axes = tuple(axis % ndim for axis in axes)
    order = (*(axis for axis in range(ndim) if axis not in axes), *axes)
    factors = transfer[(None,) * (ndim - transfer.ndim)]
    if d == 1 and factors.size == factors.shape[axes[0]] and _along_columns(x, out, axes[0]):
        n, inner = x.shape[axes[0]], math.prod(x.shape[axes[0] + 1 :])
        factors = _spread(factors.reshape(-1), _spectrum((n,), x))
        way = route((n,), x.dtype.char, inner, False)
        way.run(x.ctypes.data, 0, out.ctypes.data, 0, x.size // (n * inner), factors, workers)
        return
    source, factors, target = x.transpose(order), factors.transpose(order), out.transpose(order)
    apart = _step(target, d) is None
    if apart:
        target = np.empty(target.shape, out.dtype)
    batch = factors.shape[: ndim - d]
    factors = _spread(factors, (*batch, *_spectrum(source.shape[ndim - d :], x)))
    if math.prod(batch) == 1:
        _filter_batch(source, factors.reshape(factors.shape[ndim - d :]), target, d, workers)
    else:
        for index in np.ndindex(batch):
            chosen = tuple(slice(None) if size == 1 else i for i, size in zip(index, batch, strict=True))
            _filter_batch(source[chosen], factors[index], target[chosen], d, workers)
    if apart:
        out.transpose(order)[...] = target


def _spectrum(lengths: tuple[int, ...], x: Array) -> tuple[int, ...]:
    return lengths if x.dtype.kind == "c" else (*lengths[:-1], lengths[-1] // 2 + 1)


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
    """Images along the last d axes with one filter."""
    step, target_step = _step(source, d), _step(target, d)
    if target_step is None:
        # A filter for some of several batch axes leaves the others unevenly spaced.
        copy = np.empty(target.shape, target.dtype)
        _filter_batch(source, factors, copy, d, workers)
        target[...] = copy
        return
    if step is None:
        source = source.copy(order="C")
        step = math.prod(source.shape[-d:]) * host.NUMBERS[source.dtype.char]
    lengths = source.shape[-d:]
    count = math.prod(source.shape[:-d])
    char = source.dtype.char
    few = count < host.lanes(host.REAL[char])
    way = route(lengths, char, 1, few)
    way.run(source.ctypes.data, step, target.ctypes.data, target_step, count, factors, workers)


def _step(array: Array, d: int) -> int | None:
    """Numbers from each image to the next, where images are C-contiguous and evenly spaced; None where not."""
    if not array.flags.aligned:
        return None
    shape, strides, numbers = array.shape, array.strides, host.NUMBERS[array.dtype.char]
    expected = array.itemsize
    for axis in range(-1, -d - 1, -1):
        if shape[axis] > 1 and strides[axis] != expected:
            return None
        expected *= shape[axis]
    step = expected
    first = True
    for axis in range(array.ndim - d - 1, -1, -1):
        if shape[axis] > 1:
            if first:
                step, first = strides[axis], False
            elif strides[axis] != expected:
                return None
            expected = strides[axis] * shape[axis]
    return step // array.itemsize * numbers
