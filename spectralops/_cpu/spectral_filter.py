"""Filters on the host: a few images at a time through forward transform, product and inverse, all in cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

from spectralops._cpu.blocks import batch_first, blocks, merge, run

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["spectral_filter"]

Array = np.ndarray[Any, Any]
Engine = Callable[["SpectralFilterPlan", Array, tuple[Array, ...], Array, int], None]


def _engine(plan: SpectralFilterPlan) -> Engine:
    """Who runs this plan: the place for a faster engine for the sizes, ranks and dtypes that it covers."""
    return _by_scipy


def spectral_filter(plan: SpectralFilterPlan, x: Array, *operands: Array, out: Array, workers: int) -> None:
    """Run the plan on the engine for its sizes."""
    if out.size:
        _engine(plan)(plan, x, plan.factors(operands), out, workers)


def _by_scipy(plan: SpectralFilterPlan, x: Array, factors: tuple[Array, ...], out: Array, workers: int) -> None:
    d = len(plan.axes)
    source, target = batch_first(x, plan.axes), batch_first(out, plan.axes)
    multipliers = [_aligned(factor, plan) for factor in factors]
    if all(m.shape[: m.ndim - d] == (1,) * (m.ndim - d) for m in multipliers):
        # One transfer for the whole batch: cut it anywhere.
        whole = merge(target, d)
        if whole is not None:
            merged = merge(source, d)
            source = source.reshape(whole.shape) if merged is None else merged
            target = whole
            multipliers = [m[(0,) * (m.ndim - d)] for m in multipliers]
    batch = source.shape[:-d]
    per_block, spare = plan.block, 1
    if workers > 1:
        images = target.size // max(1, int(np.prod(target.shape[-d:])))
        per_block = max(1, min(per_block, -(-images // workers)))
        if images < workers:  # too few blocks for the threads: let each transform use them
            workers, spare = 1, workers

    def one_block(index: tuple[Any, ...]) -> None:
        mine = [m[_clipped(index, m)] if m.ndim > d else m for m in multipliers]
        _filtered(plan, source[index], mine, target[index], spare)

    run(one_block, blocks(batch, per_block), workers)


def _aligned(factor: Array, plan: SpectralFilterPlan) -> Array:
    """View of a factor with the spectrum's number of dimensions, batch axes first."""
    return batch_first(factor[(None,) * (len(plan.in_shape) - factor.ndim)], plan.axes)


def _clipped(index: tuple[Any, ...], factor: Array) -> tuple[Any, ...]:
    """The index of a block where the factor has its own entry along a batch axis, all of it where it is shared."""
    return tuple(
        (i if n > 1 else slice(None) if isinstance(i, slice) else 0) for i, n in zip(index, factor.shape, strict=False)
    )


def _filtered(plan: SpectralFilterPlan, x: Array, factors: list[Array], out: Array, workers: int) -> None:
    """One block: `x` and `out` have the transformed axes last."""
    axes = tuple(range(x.ndim - len(plan.axes), x.ndim))
    if plan.padded:
        widths = [(0, 0)] * (x.ndim - len(axes)) + list(plan.pad)
        mode: Any = {"zero": "constant"}.get(plan.pad_mode, plan.pad_mode)
        x = np.pad(x, widths, mode=mode)
    halved = plan.grid.halved
    spectrum = fft.rfftn(x, axes=axes, workers=workers) if halved else fft.fftn(x, axes=axes, workers=workers)
    for factor in factors:
        spectrum *= factor
    if halved:
        result = fft.irfftn(spectrum, s=plan.sizes, axes=axes, overwrite_x=True, workers=workers)
    else:
        result = fft.ifftn(spectrum, axes=axes, overwrite_x=True, workers=workers)
    crop = tuple(slice(before, before + n) for (before, _), n in zip(plan.pad, out.shape[-len(axes) :], strict=True))
    out[...] = result[(slice(None),) * (x.ndim - len(axes)) + crop]
