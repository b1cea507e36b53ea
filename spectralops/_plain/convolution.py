"""Convolutions as one would write them with NumPy or CuPy: whole arrays, one step after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

__all__ = ["convolve", "fft_conv2d"]

PAD_MODES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
IMAGE_PAD_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _namespaces(out: Any) -> tuple[Any, Any]:
    """The array library of `out` and its Fourier transforms."""
    if isinstance(out, np.ndarray):
        return np, import_module("scipy.fft")
    return import_module("cupy"), import_module("cupyx.scipy.fft")


def convolve(plan: ConvolvePlan, x: Any, kernel: Any, *, out: Any, workers: int) -> None:
    """The window of x * kernel, by sums over taps, one transform, or overlap-add."""
    if not out.size:
        return
    xp, fft = _namespaces(out)
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    a, b = xp.moveaxis(x, plan.axes, last), xp.moveaxis(kernel, plan.kernel_axes, last)
    if plan.flipped:
        b = xp.flip(b, last).conj()
    if plan.padding != ((0, 0),) * d:
        fill = {"constant_values": plan.fillvalue} if plan.boundary == "fill" else {}
        a = xp.pad(a, [(0, 0)] * (a.ndim - d) + list(plan.padding), PAD_MODES[plan.boundary], **fill)
    b = b[(None,) * (a.ndim - b.ndim)]
    if math.prod(b.shape[-d:]) > math.prod(a.shape[-d:]):
        a, b = b, a
    target = xp.moveaxis(out, plan.axes, last)
    if plan.method == "direct":
        _sum_taps(xp, a, b, target, plan.start)
    elif plan.method == "fft":
        window = tuple(slice(s, s + n) for s, n in zip(plan.start, plan.outputs, strict=True))
        target[...] = _circular(fft, a, b, plan.lengths)[(..., *window)]
    else:
        _overlap_add(fft, a, b, target, plan.start, plan.lengths)


def _sum_taps(xp: Any, a: Any, b: Any, out: Any, start: Sequence[int]) -> None:
    """out[n] = sum of b[j] a[n + start - j]."""
    d = len(start)
    out[...] = 0
    for j in np.ndindex(b.shape[-d:]):
        tap = b[(..., *j)][(..., *(None,) * d)]
        reads, writes = [], []
        for s, i, n, m in zip(start, j, a.shape[-d:], out.shape[-d:], strict=True):
            low, high = max(0, i - s), min(m, n + i - s)
            writes.append(slice(low, max(low, high)))
            reads.append(slice(low + s - i, max(low, high) + s - i))
        if all(w.stop > w.start for w in writes):
            out[(..., *writes)] += tap * a[(..., *reads)]


def _circular(fft: Any, a: Any, b: Any, lengths: Sequence[int]) -> Any:
    """Circular convolution of `lengths`, zeros appended."""
    axes = tuple(range(-len(lengths), 0))
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        return fft.ifftn(fft.fftn(a, lengths, axes) * fft.fftn(b, lengths, axes), axes=axes)
    return _real_inverse(fft, fft.rfftn(a, lengths, axes) * fft.rfftn(b, lengths, axes), lengths)


def _real_inverse(fft: Any, spectrum: Any, lengths: Sequence[int]) -> Any:
    """Inverse of rfftn whose last step is one-dimensional: no library varies what that does with imaginary parts."""
    d = len(lengths)
    if d > 1:
        spectrum = fft.ifftn(spectrum, axes=tuple(range(-d, -1)))
    return fft.irfft(spectrum, lengths[-1], axis=-1)


def _overlap_add(fft: Any, a: Any, b: Any, out: Any, start: Sequence[int], tile: Sequence[int]) -> None:
    """Each piece of `a` is convolved with `b` and added to the outputs that it reaches."""
    d = len(tile)
    out[...] = 0
    steps = [p - k + 1 for p, k in zip(tile, b.shape[-d:], strict=True)]
    for corner in product(*(range(0, n, step) for n, step in zip(a.shape[-d:], steps, strict=True))):
        piece = a[(..., *(slice(c, c + step) for c, step in zip(corner, steps, strict=True)))]
        result = _circular(fft, piece, b, tile)
        reads, writes = [], []
        for c, s, p, m in zip(corner, start, tile, out.shape[-d:], strict=True):
            low, high = max(0, c - s), min(m, c - s + p)
            writes.append(slice(low, max(low, high)))
            reads.append(slice(low + s - c, max(low, high) + s - c))
        out[(..., *writes)] += result[(..., *reads)]


def fft_conv2d(plan: Conv2dPlan, x: Any, weight: Any, *bias: Any, out: Any, workers: int) -> None:
    """Cross-correlation of the padded images by sums over taps or transforms, then bias, scale, shift, activation."""
    if not out.size:
        return
    xp, fft = _namespaces(out)
    groups = plan.groups
    kernels = weight.reshape(groups, -1, *weight.shape[1:])
    if plan.forward is not None:
        kernels = kernels.swapaxes(1, 2)[..., ::-1, ::-1].conj()
    images = _laid_out(xp, plan, x.reshape(-1, groups, kernels.shape[2], *x.shape[-2:]))
    target = out.reshape(-1, groups, kernels.shape[1], *out.shape[-2:])
    if plan.method == "direct":
        _correlate(xp, plan, images, kernels, target)
    else:
        _correlate_tiles(xp, fft, plan, images, kernels, target)
    _finish(xp, plan, bias, out)


def _laid_out(xp: Any, plan: Conv2dPlan, images: Any) -> Any:
    """Zeros between the elements, values around them; negative padding takes away."""
    down, right = plan.spread
    if (down, right) != (1, 1):
        height, width = images.shape[-2:]
        wide = xp.zeros((*images.shape[:-2], (height - 1) * down + 1, (width - 1) * right + 1), images.dtype)
        wide[..., ::down, ::right] = images
        images = wide
    widths = [(max(low, 0), max(high, 0)) for low, high in plan.padding]
    images = xp.pad(images, [(0, 0)] * 3 + widths, IMAGE_PAD_MODES[plan.padding_mode])
    crops = [
        slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(images.shape[-2:], plan.padding, strict=True)
    ]
    return images[(..., *crops)]


def _correlate(xp: Any, plan: Conv2dPlan, images: Any, kernels: Any, out: Any) -> None:
    """out[i] = sum over taps and channels of kernels[k] images[stride * i + dilation * k]."""
    (down, right), (height, width) = plan.stride, out.shape[-2:]
    out[...] = 0
    for k, m in np.ndindex(kernels.shape[-2:]):
        i, j = k * plan.dilation[0], m * plan.dilation[1]
        seen = images[..., i : i + (height - 1) * down + 1 : down, j : j + (width - 1) * right + 1 : right]
        out += xp.einsum("ngchw,goc->ngohw", seen, kernels[..., k, m])


def _correlate_tiles(xp: Any, fft: Any, plan: Conv2dPlan, images: Any, kernels: Any, out: Any) -> None:
    """Circular correlation of overlapping tiles, of which the results that did not wrap around are kept."""
    rows, columns = plan.kernel
    holes = xp.zeros((*kernels.shape[:-2], rows, columns), kernels.dtype)
    holes[..., :: plan.dilation[0], :: plan.dilation[1]] = kernels
    full, axes = out.dtype.kind == "c", (-2, -1)
    spectrum = (fft.fftn if full else fft.rfftn)(holes.conj(), plan.lengths, axes).conj()
    height, width = images.shape[-2] - rows + 1, images.shape[-1] - columns + 1
    dense = xp.empty((*out.shape[:-2], height, width), out.dtype)
    steps = plan.lengths[0] - rows + 1, plan.lengths[1] - columns + 1
    for i, j in product(range(0, height, steps[0]), range(0, width, steps[1])):
        tile = images[..., i : i + plan.lengths[0], j : j + plan.lengths[1]]
        mixed = xp.einsum("ngcyx,gocyx->ngoyx", (fft.fftn if full else fft.rfftn)(tile, plan.lengths, axes), spectrum)
        result = fft.ifftn(mixed, axes=axes) if full else _real_inverse(fft, mixed, plan.lengths)
        target = dense[..., i : i + steps[0], j : j + steps[1]]
        target[...] = result[..., : target.shape[-2], : target.shape[-1]]
    out[...] = dense[..., :: plan.stride[0], :: plan.stride[1]]


def _finish(xp: Any, plan: Conv2dPlan, bias: tuple[Any, ...], out: Any) -> None:
    """Bias, scale, shift and activation, in place."""
    if bias:
        out += bias[0][:, None, None]
    if plan.epilogue is None:
        return
    precision = out.real.dtype
    if plan.epilogue.scale is not None:
        out *= xp.asarray(plan.epilogue.scale, precision).reshape(-1, 1, 1)
    if plan.epilogue.shift is not None:
        out += xp.asarray(plan.epilogue.shift, precision).reshape(-1, 1, 1)
    if plan.epilogue.activation is not None:
        out[...] = _activated(xp, plan.epilogue.activation, out)


def _activated(xp: Any, activation: str, y: Any) -> Any:
    if activation == "relu":
        return xp.maximum(y, 0)
    if activation == "tanh":
        return xp.tanh(y)
    if activation == "gelu_tanh":
        return 0.5 * y * (1 + xp.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    special = import_module("scipy.special" if xp is np else "cupyx.scipy.special")
    if activation == "gelu":
        return 0.5 * y * (1 + special.erf(y / math.sqrt(2)))
    return y * special.expit(y)
