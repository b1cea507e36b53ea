"""Filters on the host: a few images at a time through forward transform, product and inverse, all in cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

from spectralops._cpu.blocks import Index, blocks, run

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["spectral_filter"]

Array = np.ndarray[Any, Any]
Engine = Callable[["SpectralFilterPlan", Array, tuple[Array, ...], Array, int], None]


def spectral_filter(plan: SpectralFilterPlan, x: Array, *operands: Array, out: Array, workers: int) -> None:
    """Run the plan on the engine for it."""
    if out.size:
        _engine(plan)(plan, x, plan.factors(operands), out, workers)


def _engine(plan: SpectralFilterPlan) -> Engine:
    """Who runs this plan: the place for a faster engine for the sizes, ranks and dtypes that it covers."""
    return _by_scipy


def _by_scipy(plan: SpectralFilterPlan, x: Array, factors: tuple[Array, ...], out: Array, workers: int) -> None:
    """Blocks of transforms, in the memory order of x; with fewer than workers, the threads go into the transforms."""
    aligned = [factor[(None,) * (x.ndim - factor.ndim)] for factor in factors]
    inner = workers if plan.batch < workers else 1

    def one_block(index: Index) -> None:
        mine = [factor[_own(index, factor, plan.axes)] for factor in aligned]
        _filtered(plan, x[index], mine, out[index], inner)

    size = min(plan.block, -(-plan.batch // workers))
    run(one_block, blocks(out.shape, plan.axes, size), workers // inner)


def _own(index: Index, factor: Array, axes: tuple[int, ...]) -> Index:
    """The part of a factor that belongs to a block: whole along transformed axes and where it is shared."""
    whole = slice(None)
    return tuple(
        whole if n == 1 or axis in axes else cut for axis, (cut, n) in enumerate(zip(index, factor.shape, strict=True))
    )


def _filtered(plan: SpectralFilterPlan, x: Array, factors: list[Array], out: Array, workers: int) -> None:
    """One block."""
    if plan.padded:
        widths = [(0, 0)] * x.ndim
        for axis, width in zip(plan.axes, plan.pad, strict=True):
            widths[axis] = width
        mode: Any = {"zero": "constant"}.get(plan.pad_mode, plan.pad_mode)
        x = np.pad(x, widths, mode=mode)
    halved = plan.grid.halved
    spectrum = (fft.rfftn if halved else fft.fftn)(x, axes=plan.axes, workers=workers)
    for factor in factors:
        spectrum *= factor
    if halved:
        result = fft.irfftn(spectrum, s=plan.sizes, axes=plan.axes, overwrite_x=True, workers=workers)
    else:
        result = fft.ifftn(spectrum, axes=plan.axes, overwrite_x=True, workers=workers)
    if plan.padded:
        crop = [slice(None)] * x.ndim
        for axis, (before, _) in zip(plan.axes, plan.pad, strict=True):
            crop[axis] = slice(before, before + plan.in_shape[axis])
        result = result[tuple(crop)]
    out[...] = result
