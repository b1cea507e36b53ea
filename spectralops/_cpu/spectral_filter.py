"""Filters on the host: the vector engine where it covers the sizes, otherwise scipy.fft on a few images at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._compiler import unavailable
from spectralops._cpu.blocks import Index, blocks, run
from spectralops._cpu.vector.choice import convolution_length, filter_refusal, has_passes
from spectralops._recent import Recent

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["algorithm", "spectral_filter"]

# Results of up to this size are one block, whatever their shape.
ONE_BLOCK_BYTES = 1 << 18

Array = np.ndarray[Any, Any]


# Plans whose one array is all that the engine needs besides x, by their identity: their hash would take as long as a
# short transform.
_plain: Recent[int, SpectralFilterPlan] = Recent(512)


def spectral_filter(plan: SpectralFilterPlan, x: Array, *operands: Array, out: Array, workers: int) -> None:
    """Run the plan on the engine for it."""
    if _plain.get(id(plan)) is not None and not unavailable():
        _vector_filter()(x, operands[0], out, plan.axes, workers)
    elif out.size:
        refuses = _refuses(plan)
        if not refuses and plan.transfer is None and len(operands) == 1 and not plan.conjugate and not plan.padded:
            _plain.put(id(plan), plan)
        engine = _by_scipy if refuses else _by_vectors
        engine(plan, x, plan.factors(operands), out, workers)


def _refusal(plan: SpectralFilterPlan) -> str:
    return unavailable() or _known_refusal(plan.in_shape, plan.axes, plan.sizes, plan.compute_dtype, _each(plan))


def _refuses(plan: SpectralFilterPlan) -> bool:
    """Whether there is any reason; the environment is asked last, which takes longest."""
    known = _known_refusal(plan.in_shape, plan.axes, plan.sizes, plan.compute_dtype, _each(plan))
    return bool(known or unavailable())


def _each(plan: SpectralFilterPlan) -> bool:
    """Whether transforms have filters of their own: arrays that differ along the batch."""
    ndim = len(plan.in_shape)
    return any(
        n > 1 and axis - len(operand.spec.shape) + ndim not in plan.axes
        for operand in plan.operands[1:]
        for axis, n in enumerate(operand.spec.shape)
    )


@lru_cache(maxsize=512)
def _known_refusal(
    shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...], dtype: str, each: bool
) -> str:
    """Why the engine does not take a plan; `sizes` are the padded lengths of its axes."""
    batch = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
    real = "float64" if dtype in ("float64", "complex128") else "float32"
    return filter_refusal(sizes, batch, real, real == dtype, each)


def algorithm(plan: SpectralFilterPlan) -> str:
    """How this plan runs, in words, and why not faster."""
    reason = _refusal(plan)
    if reason:
        return (
            f"scipy.fft ({reason}), {plan.block} transform(s) at a time so that the spectrum stays in cache, product "
            "in place, blocks shared among workers"
        )
    rough = ", ".join(str(n) for n in plan.sizes if not has_passes(n))
    chirps = f"; length {rough} by convolution with a chirp" if rough else ""
    start = "vector engine, compiled on first use: transform, product and inverse fused"
    if _is_large(plan):
        return (
            f"{start}, the filter laid out in parts as they are used, the spectrum in the result's memory where the "
            f"columns are even and whole vectors, each stage shared among workers{chirps}"
        )
    unit = "one image"
    if len(plan.sizes) == 1:
        convolved, spread = _way(plan)
        unit = "one row, spread over a vector's lanes," if spread else "as many rows as a vector has lanes"
        if convolved:
            (n,) = plan.sizes
            chirps = f"; length {n} by convolution with the filter's kernel, over {convolution_length(n)} points"
    return f"{start}, {unit} at a time in cache, shared among workers{chirps}"


def _way(plan: SpectralFilterPlan) -> tuple[bool, bool]:
    """Whether rows are convolved with the kernel of a filter that they share, and whether they are spread over lanes.

    Neighbouring columns that fill vectors and share a filter are never spread.
    """
    from spectralops._cpu.vector import host, rows  # loads llvmlite
    from spectralops._cpu.vector.routes import several

    (axis,), (n,), char = plan.axes, plan.sizes, np.dtype(plan.compute_dtype).char
    dtype, is_complex, count = host.REAL[char], host.NUMBERS[char] == 2, several(plan.batch, char)
    inner, each = math.prod(plan.in_shape[axis + 1 :]), _each(plan)
    inner = 1 if each or inner < host.lanes(dtype) else inner
    convolved = not each and rows.is_row_convolved(n, inner, dtype, is_complex, count)
    return convolved, inner == 1 and rows.is_row_spread(n, dtype, is_complex, count, convolved)


def _is_large(plan: SpectralFilterPlan) -> bool:
    """Whether images are too large for workspaces; the engine counts the rows that fill vectors too."""
    from spectralops._cpu.vector.large import is_large  # loads llvmlite

    first, *rest = plan.sizes
    item = 16 if plan.compute_dtype in ("float64", "complex128") else 8
    tiles = item * math.prod(rest) * (first // 2 + 1 if plan.grid.halved else first)
    return bool(rest) and is_large(tiles, plan.batch)


@lru_cache(maxsize=1)
def _vector_filter() -> Callable[..., None]:
    """The engine's filter, loaded on first use: it needs llvmlite."""
    from spectralops._cpu.vector.filters import filter_axes

    return filter_axes


def _by_vectors(plan: SpectralFilterPlan, x: Array, factors: tuple[Array, ...], out: Array, workers: int) -> None:
    """All transforms, with the factors multiplied into one filter."""
    filter_axes = _vector_filter()
    transfer = factors[0]
    for factor in factors[1:]:
        transfer = transfer * factor
    if not plan.padded:
        filter_axes(x, transfer, out, plan.axes, workers)
        return
    x = _padded(plan, x)
    result = np.empty(x.shape, out.dtype)
    filter_axes(x, transfer, result, plan.axes, workers)
    out[...] = _cropped(plan, result)


def _by_scipy(plan: SpectralFilterPlan, x: Array, factors: tuple[Array, ...], out: Array, workers: int) -> None:
    """Blocks of transforms, in the memory order of x; with fewer than workers, the threads go into the transforms."""
    if workers == 1 and (out.nbytes <= ONE_BLOCK_BYTES or plan.batch <= plan.block):
        _filtered(plan, x, factors, out, 1)
        return
    aligned = tuple(factor[(None,) * (x.ndim - factor.ndim)] for factor in factors)
    inner = workers if plan.batch < workers else 1

    def one_block(index: Index) -> None:
        mine = tuple(factor[_own(index, factor, plan.axes)] for factor in aligned)
        _filtered(plan, x[index], mine, out[index], inner)

    size = min(plan.block, -(-plan.batch // workers))
    run(one_block, blocks(out.shape, plan.axes, size), workers // inner)


def _own(index: Index, factor: Array, axes: tuple[int, ...]) -> Index:
    """The part of a factor that belongs to a block: whole along transformed axes and where it is shared."""
    whole = slice(None)
    return tuple(
        whole if n == 1 or axis in axes else cut for axis, (cut, n) in enumerate(zip(index, factor.shape, strict=True))
    )


def _filtered(plan: SpectralFilterPlan, x: Array, factors: tuple[Array, ...], out: Array, workers: int) -> None:
    """One block."""
    from scipy import fft  # not needed where kernels are compiled, and slow to load

    if plan.padded:
        x = _padded(plan, x)
    halved, axes = plan.grid.halved, plan.axes
    if len(axes) == 1:  # SciPy's functions for one axis take half the time around a short transform
        spectrum = (fft.rfft if halved else fft.fft)(x, None, axes[0], workers=workers)
    else:
        spectrum = (fft.rfftn if halved else fft.fftn)(x, None, axes, workers=workers)
    for factor in factors:
        spectrum *= factor
    if len(axes) == 1:
        back = fft.irfft if halved else fft.ifft
        result = back(spectrum, plan.sizes[0], axes[0], overwrite_x=True, workers=workers)
    else:
        result = (fft.irfftn if halved else fft.ifftn)(spectrum, plan.sizes, axes, overwrite_x=True, workers=workers)
    out[...] = _cropped(plan, result) if plan.padded else result


def _padded(plan: SpectralFilterPlan, x: Array) -> Array:
    widths = [(0, 0)] * x.ndim
    for axis, width in zip(plan.axes, plan.pad, strict=True):
        widths[axis] = width
    mode: Any = {"zero": "constant"}.get(plan.pad_mode, plan.pad_mode)
    return np.pad(x, widths, mode=mode)


def _cropped(plan: SpectralFilterPlan, result: Array) -> Array:
    crop = [slice(None)] * result.ndim
    for axis, (before, _) in zip(plan.axes, plan.pad, strict=True):
        crop[axis] = slice(before, before + plan.in_shape[axis])
    return result[tuple(crop)]
