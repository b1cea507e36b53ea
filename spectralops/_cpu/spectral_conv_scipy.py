"""Spectral convolution by SciPy and BLAS: transforms of the kept modes only, and a product per mode over channels.

Along an axis of which few modes are kept, a product with the rows of the Fourier matrix is faster than an FFT of all.
This serves what the vector engine does not take, and runs where llvmlite is missing.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cpu.blocks import cuts, run

if TYPE_CHECKING:
    from spectralops._plans.spectral_conv import SpectralConvPlan
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

__all__ = ["clear_matrices", "methods", "spectral_conv", "spectral_conv_weight_gradient"]

Array = np.ndarray[Any, Any]
# Bytes of one block of batch entries: its intermediate results should stay in cache.
BLOCK_BYTES = 2**21
# Modes mixed by one task.
MIX_MODES = 256
# Kept modes per log2(n) up to which a matrix product over an axis of n points costs less than its FFT: products run
# several times faster per operation. Measured crossovers with OpenBLAS and pocketfft.
GEMM_MODES_HALF = 4.0
GEMM_MODES_FULL = 8.0
# A matrix that leaves the cache is read anew for each block of fields, which takes longer than their FFTs.
MATRIX_BYTES = 2**22


def methods(sizes: tuple[int, ...], modes: tuple[int, ...], halved: bool) -> tuple[str, ...]:
    """``"gemm"`` or ``"fft"`` for each axis, whichever the cost model expects to be faster."""
    limits = [GEMM_MODES_FULL] * (len(sizes) - 1) + [GEMM_MODES_HALF if halved else GEMM_MODES_FULL]
    return tuple(
        "gemm" if m <= limit * math.log2(max(n, 2)) and 8 * n * m <= MATRIX_BYTES else "fft"
        for n, m, limit in zip(sizes, modes, limits, strict=True)
    )


def spectral_conv(plan: SpectralConvPlan, x: Array, weight: Array, *, out: Array, workers: int) -> None:
    """Truncated forward transforms, channel mixing, padded inverse transforms; no array is empty."""
    kind = np.result_type(out.dtype, 1j)
    matrices = _mixing_matrices(plan, weight, kind)
    count = matrices.shape[0]
    # One field for each batch entry and channel, independent but for the mixing.
    first = range(x.ndim - len(plan.axes))
    source = x.transpose(*first, *plan.axes).reshape(-1, *plan.in_sizes)
    target = out.transpose(*first, *plan.axes).reshape(-1, *plan.out_sizes, copy=False)
    read = np.empty((count, len(source)), kind)
    written = np.empty((count, len(target)), kind)

    ways = methods(plan.in_sizes, plan.modes, plan.halved), methods(plan.out_sizes, plan.modes, plan.halved)

    def forward(block: slice) -> None:
        read[:, block] = _kept_modes(plan, ways[0], source[block], kind).reshape(-1, count).T

    def mix(block: slice) -> None:
        inputs = read[block].reshape(-1, plan.batch, plan.channels[0])
        outputs = written[block].reshape(-1, plan.batch, plan.channels[1])
        if plan.depthwise:
            np.multiply(inputs, matrices[block], out=outputs)
        else:
            np.matmul(inputs, matrices[block], out=outputs)

    def inverse(block: slice) -> None:
        modes = np.ascontiguousarray(written[:, block].T)
        _field(plan, ways[1], modes.reshape(-1, *plan.modes), target[block])

    run(forward, cuts(len(source), BLOCK_BYTES // source[0].nbytes, workers), workers)
    run(mix, cuts(count, MIX_MODES, workers), workers)
    run(inverse, cuts(len(target), BLOCK_BYTES // target[0].nbytes, workers), workers)


def _mixing_matrices(plan: SpectralConvPlan, weight: Array, kind: np.dtype[Any]) -> Array:
    """(modes, channels in, channels out), or (modes, 1, channels) for single channels, scaled for the transforms."""
    if weight.dtype.kind != "c":
        weight = np.ascontiguousarray(weight).view(kind)[..., 0]
    d = len(plan.axes)
    leading = weight.shape[: weight.ndim - d]
    matrices = np.empty((int(np.prod(plan.modes)), *((1, *leading) if plan.depthwise else leading)), kind)
    factor = np.full(plan.modes, plan.scale)
    bins = plan.bin_weights()
    if bins is not None:
        factor *= bins
    factor = factor.reshape(-1).astype(matrices.real.dtype)
    flat = weight.reshape(*leading, -1)
    if plan.depthwise:
        np.multiply(flat.T[:, None], factor[:, None, None], out=matrices)
    else:
        # One input channel at a time: both sides of the transposition then fit the cache.
        for i in range(leading[0]):
            np.multiply(flat[i].T, factor[:, None], out=matrices[:, i])
    if not plan.transposed:
        return matrices
    np.conjugate(matrices, out=matrices)
    return matrices if plan.depthwise else matrices.swapaxes(1, 2)


def spectral_conv_weight_gradient(
    plan: SpectralConvWeightGradientPlan, x: Array, gradient: Array, *, out: Array, workers: int
) -> None:
    """Truncated transforms of both fields, then products over the batch, one per mode; no array is empty."""
    d, kind = len(plan.axes), out.dtype
    count = math.prod(plan.modes)
    kept = []
    for field, sizes in ((x, plan.in_sizes), (gradient, plan.gradient_sizes)):
        source = field.transpose(*range(field.ndim - d), *plan.axes).reshape(-1, *sizes)
        modes = np.empty((count, len(source)), kind)
        ways = methods(sizes, plan.modes, plan.halved)

        def forward(block: slice, source: Array = source, modes: Array = modes, ways: Any = ways) -> None:
            modes[:, block] = _kept_modes(plan, ways, source[block], kind).reshape(-1, count).T

        run(forward, cuts(len(source), BLOCK_BYTES // source[0].nbytes, workers), workers)
        kept.append(modes.reshape(count, plan.batch, -1))
    read, written = kept
    factors = plan.mode_factors(kind.name).reshape(-1)
    target = out.reshape(*out.shape[: out.ndim - d], count)

    def multiply(block: slice) -> None:
        if plan.depthwise:
            product = (read[block].conj() * written[block]).sum(1)
        else:
            product = np.matmul(read[block].conj().swapaxes(1, 2), written[block])
        target[..., block] = np.moveaxis(product, 0, -1) * factors[block]

    run(multiply, cuts(count, MIX_MODES, workers), workers)


def _kept_modes(plan: Any, ways: tuple[str, ...], x: Array, kind: np.dtype[Any]) -> Array:
    """Unnormalised coefficients of the kept modes of one block (fields, *sizes)."""
    from scipy import fft  # not needed where kernels are compiled, and slow to load

    d = len(plan.axes)
    result = x
    for j in reversed(range(d)):
        n, m, low = x.shape[1 + j], plan.modes[j], plan.lowest[j]
        axis = j - d
        if plan.halved and j == d - 1:
            if ways[j] == "gemm":
                rows = result.reshape(-1, n) @ _real_forward(n, m, x.dtype.name)
                result = rows.view(kind).reshape(*result.shape[:-1], m)
            else:
                result = fft.rfft(result, axis=-1)[..., :m]
        elif ways[j] == "gemm":
            result = _product(_complex_waves(n, m, low, -1, kind.name), result, axis)
        else:
            result = _cut(fft.fft(result, axis=axis), m, low, axis)
    return result


def _field(plan: SpectralConvPlan, ways: tuple[str, ...], modes: Array, out: Array) -> None:
    """Unnormalised inverse of the kept modes of one block, into `out` (fields, *sizes)."""
    from scipy import fft

    d = len(plan.axes)
    kind = modes.dtype
    result = modes
    for j in range(d):
        n, m, low = plan.out_sizes[j], plan.modes[j], plan.lowest[j]
        axis = j - d
        if plan.halved and j == d - 1:
            if ways[j] == "gemm":
                pairs = np.ascontiguousarray(result).view(out.dtype).reshape(-1, 2 * m)
                matrix = _real_inverse(n, m, out.dtype.name)
                if out.flags.c_contiguous:
                    np.matmul(pairs, matrix, out=out.reshape(-1, n))
                    return
                result = (pairs @ matrix).reshape(out.shape)
            else:
                result = fft.irfft(result, n=n, axis=-1, norm="forward")
        elif ways[j] == "gemm":
            result = _product(_complex_waves(n, m, low, 1, kind.name).T, result, axis)
        else:
            result = fft.ifft(_padded(result, n, low, axis), axis=axis, norm="forward", overwrite_x=True)
    out[...] = result


def _product(matrix: Array, x: Array, axis: int) -> Array:
    """The matrix applied along an axis of x, counted from the end, as one batch of matrix products."""
    if axis == -1:
        return (x.reshape(-1, x.shape[-1]) @ matrix.T).reshape(*x.shape[:-1], -1)
    shape = x.shape
    leading, trailing = shape[:axis], shape[axis + 1 :]
    product: Array = np.matmul(matrix, x.reshape(*leading, shape[axis], -1))
    return product.reshape(*leading, matrix.shape[0], *trailing)


def _cut(spectrum: Array, m: int, low: int, axis: int) -> Array:
    """The m wavenumbers from `low` on, in increasing order, out of a transform's order."""
    n = spectrum.shape[axis]
    kept: Array = spectrum.take(np.arange(low, low + m) % n, axis)
    return kept


def _padded(modes: Array, n: int, low: int, axis: int) -> Array:
    """The inverse of :func:`_cut`, zeros elsewhere."""
    shape = list(modes.shape)
    m, shape[axis] = shape[axis], n
    result = np.zeros(shape, modes.dtype)
    place, source = np.moveaxis(result, axis, 0), np.moveaxis(modes, axis, 0)
    place[: m + low] = source[-low:]
    if low:
        place[low:] = source[:-low]
    return result


@lru_cache(maxsize=64)
def _complex_waves(n: int, m: int, low: int, sign: int, dtype: str) -> Array:
    """exp(sign * 2 pi i k j/n), k = low ... low + m - 1 in rows, j in columns; the angle is reduced in integers."""
    turns = np.outer(np.arange(low, low + m), np.arange(n)) % n
    return _frozen(np.exp(sign * 2j * np.pi * turns / n).astype(dtype))


@lru_cache(maxsize=64)
def _real_forward(n: int, m: int, dtype: str) -> Array:
    """(n, 2 m): real and imaginary parts of exp(-2 pi i k j/n) side by side, so that products are complex in memory."""
    waves = _complex_waves(n, m, 0, -1, "complex128")
    return _frozen(np.ascontiguousarray(waves.T).view(np.float64).astype(dtype))


@lru_cache(maxsize=64)
def _real_inverse(n: int, m: int, dtype: str) -> Array:
    """(2 m, n): from pairs (re, im) to c_k Re(y_k exp(2 pi i k j/n)), c_k = 1 at k = 0 and Nyquist, else 2."""
    waves = _complex_waves(n, m, 0, 1, "complex128")
    k = np.arange(m)
    own = (k == 0) | (2 * k == n)
    matrix = np.empty((m, 2, n))
    matrix[:, 0] = waves.real * np.where(own, 1.0, 2.0)[:, None]
    matrix[:, 1] = waves.imag * np.where(own, 0.0, -2.0)[:, None]
    return _frozen(matrix.reshape(2 * m, n).astype(dtype))


def _frozen(matrix: Array) -> Array:
    matrix.flags.writeable = False
    return matrix


def clear_matrices() -> None:
    """Forget the cached Fourier matrices."""
    for cache in (_complex_waves, _real_forward, _real_inverse):
        cache.cache_clear()
