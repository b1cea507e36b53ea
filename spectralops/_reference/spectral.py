"""The meaning of the spectral operators: dense matrices of the discrete Fourier transform in complex128."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.resample import FourierResamplePlan
    from spectralops._plans.spectral import SpectralFilterPlan
    from spectralops._plans.spectral_conv import SpectralConvPlan
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

__all__ = ["fourier_resample", "spectral_conv", "spectral_conv_weight_gradient", "spectral_filter"]

Array = np.ndarray[Any, Any]


def _waves(k: Array, n: int) -> Array:
    """exp(2 pi i k j/n) for wavenumbers k (rows) at points j (columns), the angle reduced in integers."""
    return np.exp(2j * np.pi * (np.outer(k, np.arange(n)) % n) / n)


def _along(matrix: Array, x: Array, axis: int) -> Array:
    """The matrix applied along one axis of x."""
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)


def _real_sum(y: Array, k: Array, n: int, axis: int) -> Array:
    """The real signal of n points whose coefficients at k >= 0 are y: sum of c_k Re(y_k exp(i theta)).

    c_k is 2, for k and -k, but 1 at k = 0 and at an even grid's Nyquist wavenumber, where the sum ignores Im y.
    """
    weights = np.where((k == 0) | (2 * k == n), 1.0, 2.0)
    waves = weights[:, None] * _waves(k, n)
    return _along(waves.real.T, y.real, axis) - _along(waves.imag.T, y.imag, axis)


def _padded_index(n: int, before: int, after: int, mode: str) -> Array:
    """Which cell of n each cell of the padded axis shows; -1 is a zero."""
    index = []
    for j in range(-before, n + after):
        if 0 <= j < n:
            index.append(j)
        elif mode == "zero":
            index.append(-1)
        elif mode == "edge" or n == 1:
            index.append(0 if j < 0 else n - 1)
        else:
            period = 2 * (n - 1)
            folded = j % period
            index.append(min(folded, period - folded))
    return np.array(index)


def spectral_filter(plan: SpectralFilterPlan, x: Array, *operands: Array, out: Array, workers: int) -> None:
    """Pad, transform by dense matrices, multiply, sum the waves, crop."""
    field = x.astype(np.complex128)
    for axis, (before, after) in zip(plan.axes, plan.pad, strict=True):
        index = _padded_index(x.shape[axis], before, after, plan.pad_mode)
        zero = np.zeros_like(field.take([0], axis))
        field = np.concatenate([field, zero], axis).take(index, axis)
    for axis, n in zip(plan.axes, plan.sizes, strict=True):
        field = _along(_waves(np.arange(n), n).conj(), field, axis)
    last, size = plan.axes[-1], plan.sizes[-1]
    half = np.arange(size // 2 + 1)
    if plan.grid.halved:
        field = field.take(half, last)
    for factor in plan.factors(operands):
        field = field * factor.astype(np.complex128)
    full = list(zip(plan.axes, plan.sizes, strict=True))
    for axis, n in full[:-1] if plan.grid.halved else full:
        field = _along(_waves(np.arange(n), n).T, field, axis)
    result = _real_sum(field, half, size, last) if plan.grid.halved else field
    for axis, (before, _) in zip(plan.axes, plan.pad, strict=True):
        result = result.take(np.arange(before, before + plan.in_shape[axis]), axis)
    out[...] = result / math.prod(plan.sizes)


def spectral_conv(plan: SpectralConvPlan, x: Array, weight: Array, *, out: Array, workers: int) -> None:
    """The kept coefficients by explicit sums over the points, mixed per wavenumber, and the waves summed up again.

    The adjoint weighs the coefficients it reads as the forward operator weighs those it writes, and sums bare waves.
    """
    d = len(plan.axes)
    matrix = weight.astype(np.complex128)
    if weight.dtype.kind != "c":
        matrix = weight[..., 0] + 1j * weight[..., 1].astype(np.float64)
    if plan.transposed:
        matrix = matrix.conj() if plan.depthwise else matrix.conj().swapaxes(0, 1)
    kept = [np.arange(low, low + m) for low, m in zip(plan.lowest, plan.modes, strict=True)]
    field = np.moveaxis(x.astype(np.complex128), plan.axes, range(-d, 0))
    for j, n in enumerate(plan.in_sizes):
        field = _along(_waves(kept[j], n).conj(), field, field.ndim - d + j)
    if plan.halved and plan.transposed:
        n = plan.in_sizes[-1]
        field = field * np.where((kept[-1] == 0) | (2 * kept[-1] == n), 1.0, 2.0)
    letters = "klmnpqrs"[:d]
    mix = f"...c{letters},c{letters}->...c{letters}" if plan.depthwise else f"...i{letters},io{letters}->...o{letters}"
    field = np.einsum(mix, field, matrix)
    for j, n in enumerate(plan.out_sizes[:-1] if plan.halved else plan.out_sizes):
        field = _along(_waves(kept[j], n).T, field, field.ndim - d + j)
    if plan.halved and plan.transposed:
        field = _along(_waves(kept[-1], plan.out_sizes[-1]).T, field, field.ndim - 1).real
    elif plan.halved:
        field = _real_sum(field, kept[-1], plan.out_sizes[-1], field.ndim - 1)
    out[...] = np.moveaxis(field, range(-d, 0), plan.axes) * plan.scale


def spectral_conv_weight_gradient(
    plan: SpectralConvWeightGradientPlan, x: Array, gradient: Array, *, out: Array, workers: int
) -> None:
    """One kept wavenumber after another: the amplitude of its wave in x, times the wave's share in the gradient.

    A weight w adds the wave w X_k exp(i theta)/|N| to the result; to a real one it adds the real part, twice where
    the wavenumbers k and -k are two.
    """
    d = len(plan.axes)
    fields = []
    for field, channels, sizes in zip((x, gradient), plan.channels, (plan.in_sizes, plan.gradient_sizes), strict=True):
        moved = np.moveaxis(field.astype(np.complex128), plan.axes, range(-d, 0))
        fields.append(moved.reshape(plan.batch, channels, *sizes))
    read, written = fields
    out[...] = 0
    for index in np.ndindex(*plan.modes):
        k = [low + i for low, i in zip(plan.lowest, index, strict=True)]
        there = _plane_wave(k, plan.in_sizes)
        here = _plane_wave(k, plan.gradient_sizes)
        points = tuple(range(2, 2 + d))
        amplitude = (read * there.conj()).sum(points) / math.prod(plan.in_sizes)
        both = plan.halved and k[-1] != 0 and 2 * k[-1] != plan.gradient_sizes[-1]
        response = (written * here.conj()).sum(points) * (2.0 if both else 1.0)
        sums = "bc,bc->c" if plan.depthwise else "bi,bo->io"
        out[(..., *index)] = np.einsum(sums, amplitude.conj(), response)


def _plane_wave(k: list[int], sizes: tuple[int, ...]) -> Array:
    """exp(2 pi i sum_a k_a j_a/n_a) at all points."""
    wave = np.ones((), complex)
    for wavenumber, n in zip(k, sizes, strict=True):
        wave = np.multiply.outer(wave, _waves(np.array([wavenumber]), n)[0])
    return wave


def fourier_resample(plan: FourierResamplePlan, x: Array, *, out: Array, workers: int) -> None:
    """One dense matrix of trigonometric interpolation, real by construction, per axis."""
    field = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    for axis, n, m in zip(plan.axes, plan.in_sizes, plan.out_sizes, strict=True):
        matrix = _interpolation(m, n).T if plan.transposed else _interpolation(n, m)
        field = _along(matrix, field, axis)
    out[...] = field


def _interpolation(n: int, m: int) -> Array:
    """Values at m points of the trigonometric polynomial through n points, cut to what m points can show.

    Nyquist of the smaller grid enters as a cosine: upwards with the weight of one mode, downwards of two, since there
    +k and -k of the finer grid fall together.
    """
    points, values = np.arange(m)[:, None], np.arange(n)[None, :]
    matrix = np.ones((m, n))
    for k in range(1, (min(n, m) + 1) // 2):
        turns = (k * points * n - k * values * m) % (n * m)
        matrix += 2 * np.cos(2 * np.pi * turns / (n * m))
    if min(n, m) % 2 == 0:
        k = min(n, m) // 2
        here, there = 2 * np.pi * (k * points % m) / m, 2 * np.pi * (k * values % n) / n
        if m > n:
            matrix += np.cos(here) * np.cos(there)
        else:
            matrix += 2 * np.cos(here) * np.cos(there)
    return matrix / n
