"""Spectral convolutions and their gradients on the host: the vector engine where it covers them, otherwise SciPy."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._compiler import unavailable
from spectralops._cpu import spectral_conv_scipy as by_scipy
from spectralops._cpu.vector.choice import has_transform

if TYPE_CHECKING:
    from spectralops._cpu.vector.channels import Layer
    from spectralops._plans.spectral_conv import SpectralConvPlan
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

__all__ = ["algorithm", "gradients", "keeping", "spectral_conv", "spectral_conv_weight_gradient"]

Array = np.ndarray[Any, Any]
AnyPlan = Any

MOST_AXES = 3
# Where there is no transform, products are left, which pay for so many modes.
MOST_PRODUCTS = 64
# Of long rows, fewer than this leave most lanes idle.
FEWEST_ROWS = 4
LONG = 4096


def spectral_conv(plan: SpectralConvPlan, x: Array, weight: Array, *, out: Array, workers: int) -> None:
    """Run the plan on the engine for it."""
    if out.size == 0:
        return
    if x.size == 0:  # no channels to sum over
        out[...] = 0
        return
    layer = None if unavailable() else _convolved(plan)
    if layer is None:
        by_scipy.spectral_conv(plan, x, weight, out=out, workers=workers)
    else:
        _convolve(plan, layer, x, weight, out, workers, False)


def keeping(plan: SpectralConvPlan, x: Array, weight: Array, *, out: Array, workers: int) -> Array | None:
    """Run the plan and give the modes of x, as bytes, to keep for :func:`gradients`.

    None, and nothing is done, where the engine does not take it.
    """
    layer = None if unavailable() or not x.size or not out.size else _convolved(plan)
    return None if layer is None else _convolve(plan, layer, x, weight, out, workers, True)


def gradients(
    plan: SpectralConvPlan,
    product: SpectralConvWeightGradientPlan,
    kept: Array,
    weight: Array,
    gradient: Array,
    *,
    out: Array,
    weight_out: Array,
    workers: int,
) -> None:
    """Both gradients of what :func:`keeping` ran: `plan` is its adjoint, `product` that of the weight's gradient."""
    from spectralops._cpu.vector import channels

    adjoint, multiplied = _convolved(plan), _multiplied(product)
    assert adjoint is not None, "the engine took the convolution, of the same grids"
    assert multiplied is not None, "for the same reason"
    target = _fields(out, plan.axes)
    result = target if target.flags.c_contiguous else np.empty(target.shape, out.dtype)
    incoming = _contiguous(_fields(gradient, plan.axes))
    weights = _turned(plan, weight, adjoint)
    channels.gradients(adjoint, multiplied, kept, weights, incoming, result, weight_out, workers)
    if result is not target:
        target[...] = result


def _convolve(
    plan: SpectralConvPlan, layer: Layer, x: Array, weight: Array, out: Array, workers: int, keep: bool
) -> Array | None:
    from spectralops._cpu.vector.channels import convolve

    target = _fields(out, plan.axes)
    result = target if target.flags.c_contiguous else np.empty(target.shape, out.dtype)
    fields, weights = _contiguous(_fields(x, plan.axes)), _turned(plan, weight, layer)
    kept = convolve(layer, fields, weights, result, plan.transposed, workers, keep)
    if result is not target:
        target[...] = result
    return kept


def _turned(plan: SpectralConvPlan, weight: Array, layer: Layer) -> Array:
    """The weights as the engine reads them, from the channels that are read to those that are written."""
    weights = _weights(weight, len(plan.axes), layer.dtype)
    return weights.swapaxes(0, 1) if plan.transposed and not plan.depthwise else weights


def spectral_conv_weight_gradient(
    plan: SpectralConvWeightGradientPlan, x: Array, gradient: Array, *, out: Array, workers: int
) -> None:
    """Run the plan on the engine for it."""
    if out.size == 0:
        return
    if x.size == 0:  # no batch to sum over
        out[...] = 0
        return
    layer = None if unavailable() else _multiplied(plan)
    if layer is None:
        by_scipy.spectral_conv_weight_gradient(plan, x, gradient, out=out, workers=workers)
        return
    from spectralops._cpu.vector.channels import weight_gradient

    read, written = (_contiguous(_fields(field, plan.axes)) for field in (x, gradient))
    weight_gradient(layer, read, written, out, workers)


@lru_cache(maxsize=256)
def _convolved(plan: SpectralConvPlan) -> Layer | None:
    """What the engine convolves, or None where it does not take the plan."""
    bins = plan.bin_weights()
    factors = (plan.scale,) if bins is None else tuple((plan.scale * bins).tolist())
    return None if _uncovered(plan) else _layer(plan, plan.out_sizes, factors)


@lru_cache(maxsize=256)
def _multiplied(plan: SpectralConvWeightGradientPlan) -> Layer | None:
    """What the engine multiplies, or None where it does not take the plan."""
    return None if _uncovered(plan) else _layer(plan, plan.gradient_sizes, tuple(plan.factors().tolist()))


def refusal(plan: AnyPlan) -> str:
    """Why the engine does not take this plan, in words, or nothing if it does."""
    return unavailable() or _uncovered(plan)


def _uncovered(plan: AnyPlan) -> str:
    if len(plan.axes) > MOST_AXES:
        return f"the vector engine takes 1 to {MOST_AXES} axes, not {len(plan.axes)}"
    for sizes in _sizes(plan):
        for n, m in zip(sizes, plan.modes, strict=True):
            if m > MOST_PRODUCTS and not has_transform(n):
                return f"length {n} has large prime factors and is too long for the vector engine to transform"
    rows = plan.batch * max(plan.channels)
    if len(plan.axes) == 1 and rows < FEWEST_ROWS and max(max(sizes) for sizes in _sizes(plan)) >= LONG:
        return f"{rows} long rows would leave most lanes of the vector engine idle"
    return ""


def algorithm(plan: AnyPlan) -> str:
    """How this plan runs, in words, and why not faster."""
    gradient = plan.op.endswith("gradient")
    rest = "one product per mode over the batch" if gradient else "one product per mode over the channels"
    if reason := refusal(plan):
        first, second = (by_scipy.methods(sizes, plan.modes, plan.halved) for sizes in _sizes(plan))
        return (
            f"SciPy and BLAS ({reason}): {_both_ways(first, second, gradient)} (gemm: matrix product, where few modes "
            f"are kept; fft: scipy.fft), {rest}; BLAS uses threads of its own"
        )
    from spectralops._cpu.vector.truncation import Grid, ways

    first, second = (
        ways(Grid(sizes, plan.modes, plan.lowest, plan.halved, _precision(plan))) for sizes in _sizes(plan)
    )
    return (
        f"vector engine, compiled on first use: {_both_ways(first, second, gradient)} (product: folded "
        f"Fourier matrix, where few modes are kept; fft: all, of which the kept ones are written), image by image in "
        f"cache, {rest} with modes in the lanes; images and tiles of channels shared among workers"
    )


def _sizes(plan: AnyPlan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the grids of both fields."""
    return plan.in_sizes, plan.gradient_sizes if plan.op.endswith("gradient") else plan.out_sizes


def _both_ways(first: tuple[str, ...], second: tuple[str, ...], gradient: bool) -> str:
    one, other = ", ".join(first), ", ".join(second)
    pair = f"of x by {one} and of the gradient by {other}" if gradient else f"forward by {one} and inverse by {other}"
    return f"transforms of kept modes only, {pair} along the axes"


def _layer(plan: AnyPlan, out_sizes: tuple[int, ...], factors: tuple[float, ...]) -> Layer:
    from spectralops._cpu.vector.channels import Layer

    return Layer(
        in_sizes=plan.in_sizes,
        out_sizes=out_sizes,
        modes=plan.modes,
        lowest=plan.lowest,
        halved=plan.halved,
        dtype=_precision(plan),
        batch=plan.batch,
        channels=plan.channels,
        depthwise=plan.depthwise,
        factors=factors,
    )


def _precision(plan: AnyPlan) -> str:
    return "float64" if plan.compute_dtype in ("float64", "complex128") else "float32"


def _fields(x: Array, axes: tuple[int, ...]) -> Array:
    """The transformed axes last, in their order."""
    return x.transpose(*range(x.ndim - len(axes)), *axes)


def _contiguous(x: Array) -> Array:
    return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")


def _weights(weight: Array, d: int, dtype: str) -> Array:
    """Complex weights whose modes lie together."""
    kind = np.result_type(dtype, 1j)
    if weight.dtype.kind != "c":
        if weight.strides[-1] != weight.itemsize:
            weight = np.ascontiguousarray(weight)
        weight = _contiguous(weight) if weight.strides[-2] % kind.itemsize else weight
        weight = weight.view(kind)[..., 0]
    expected = kind.itemsize
    for axis in range(-1, -d - 1, -1):
        if weight.shape[axis] > 1 and weight.strides[axis] != expected:
            return np.ascontiguousarray(weight)
        expected *= weight.shape[axis]
    return weight if weight.flags.aligned else weight.copy()
