"""What a filter multiplies by: its factors on the device, and by which strides transforms find their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import module
from spectralops._cuda.geometry import MOST_FACTORS, kept_on_device, namespace
from spectralops._cuda.launch import Runner
from spectralops._recent import Recent

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["Factor", "expanded", "on_device"]

_symbols: Recent[tuple[Any, ...], tuple[Any, ...]] = Recent(32)
_symbols_lock = Lock()


def on_device(plan: SpectralFilterPlan, xp: Any, runner: Runner) -> tuple[Any, ...]:
    """The sampled symbol on the device: kept for the package's own transfers, copied at each call for others."""
    if plan.samples_anew or xp is np:
        if xp is not np:
            module.warm("what a function of the caller's returns, sampled at every call,")
        return tuple(xp.asarray(value) for value in _few(plan.symbol()))
    key = (plan.transfer, plan.grid, plan.compute_dtype, runner.device().index)
    with _symbols_lock:
        found = _symbols.get(key)
        if found is None:
            found = _symbols.put(key, kept_on_device(_few(plan.symbol()), xp))
    return found


def _few(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """No more factors than the kernels multiply; the product of the last ones where a caller's function gives more."""
    first, rest = values[: MOST_FACTORS - 1], values[MOST_FACTORS - 1 :]
    return values if len(rest) <= 1 else (*first, math.prod(rest[1:], start=rest[0]))


def expanded(plan: SpectralFilterPlan, value: Any, out: Any) -> Any:
    """A factor with every axis before the transformed ones in full."""
    xp = namespace(out)
    shape = list(plan.spectrum_shape)
    padded = (1,) * (len(shape) - value.ndim) + value.shape
    for axis in plan.axes:
        shape[axis] = padded[axis]
    return xp.ascontiguousarray(xp.broadcast_to(value, shape))


@dataclass(frozen=True, slots=True)
class Factor:
    """Strides of a factor in elements: (b % period) * batch is where transform b finds its values."""

    is_complex: bool
    batch: int
    period: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, plan: SpectralFilterPlan, value: Any) -> Factor | None:
        """The strides of an array, None where transforms of a batch find their values by no such rule."""
        rank, d = len(plan.in_shape), len(plan.axes)
        missing = rank - value.ndim
        shape = (1,) * missing + value.shape
        strides = (0,) * missing + tuple(
            0 if n == 1 else s // value.itemsize for n, s in zip(value.shape, value.strides, strict=True)
        )
        lead = [axis for axis in range(rank) if axis not in plan.axes]
        period, step = 1, 0
        for axis in reversed(lead):
            if shape[axis] == 1 and plan.in_shape[axis] > 1:
                if any(shape[outer] > 1 for outer in lead[: lead.index(axis)]):
                    return None
                break
            if shape[axis] > 1:
                if period > 1 and strides[axis] != step * period:
                    return None
                step = step if period > 1 else strides[axis]
                period *= shape[axis]
        along = tuple(strides[axis] for axis in plan.axes)
        # The transform that multiplies runs along the first axis; the others number the columns.
        along = {1: (*along, 0, 0), 2: (along[0], 0, along[-1]), 3: along}[d]
        return cls(np.dtype(value.dtype).kind == "c", step, period, along)
