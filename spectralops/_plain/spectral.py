"""The spectral operators as a user would write them: transform, multiply, transform back, a whole array at a time.

One code for NumPy with scipy.fft and for CuPy with cupyx.scipy.fft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.resample import FourierResamplePlan
    from spectralops._plans.spectral import SpectralFilterPlan
    from spectralops._plans.spectral_conv import SpectralConvPlan
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

__all__ = ["fourier_resample", "spectral_conv", "spectral_conv_weight_gradient", "spectral_filter"]


def _libraries(out: Any) -> tuple[Any, Any]:
    """The array library of `out` and its FFT module."""
    if isinstance(out, np.ndarray):
        from scipy import fft

        return np, fft
    import cupy
    from cupyx.scipy import fft as device_fft

    return cupy, device_fft


def _readable(x: Any) -> Any:
    """The array where cuFFT reads it: real numbers from the address of a complex one on."""
    return x if isinstance(x, np.ndarray) or x.data.ptr % 16 == 0 else x.copy()


def _real_inverse(fft: Any, spectrum: Any, sizes: tuple[int, ...], axes: tuple[int, ...], **options: Any) -> Any:
    """The real inverse as NumPy defines it, whatever the library's n-d transform does with what a real signal lacks.

    Complex inverse over the other axes, then one real inverse of a spectrum whose imaginary parts at zero and at an
    even size's Nyquist wavenumber are removed. Overwrites `spectrum`.
    """
    last = axes[-1]
    if len(axes) > 1:
        spectrum = fft.ifftn(spectrum, axes=axes[:-1], overwrite_x=True, **options)
    line = [slice(None)] * spectrum.ndim
    for k in (0, sizes[-1] // 2) if sizes[-1] % 2 == 0 else (0,):
        line[last] = slice(k, k + 1)
        spectrum[tuple(line)].imag = 0
    return fft.irfft(spectrum, n=sizes[-1], axis=last, overwrite_x=True, **options)


def spectral_filter(plan: SpectralFilterPlan, x: Any, *operands: Any, out: Any, workers: int) -> None:
    """Forward transform, product, inverse transform."""
    if out.size == 0:
        return
    xp, fft = _libraries(out)
    options = {"workers": workers} if xp is np else {}
    if plan.padded:
        widths = [(0, 0)] * x.ndim
        for axis, width in zip(plan.axes, plan.pad, strict=True):
            widths[axis] = width
        x = xp.pad(x, widths, mode={"zero": "constant"}.get(plan.pad_mode, plan.pad_mode))
    forward = fft.rfftn if plan.grid.halved else fft.fftn
    spectrum = forward(_readable(x), axes=plan.axes, **options)
    for factor in plan.factors(operands):
        spectrum *= xp.asarray(factor)
    if plan.grid.halved:
        result = _real_inverse(fft, spectrum, plan.sizes, plan.axes, **options)
    else:
        result = fft.ifftn(spectrum, axes=plan.axes, overwrite_x=True, **options)
    crop = [slice(None)] * x.ndim
    for axis, (before, _) in zip(plan.axes, plan.pad, strict=True):
        crop[axis] = slice(before, before + plan.in_shape[axis])
    out[...] = result[tuple(crop)]


def spectral_conv(plan: SpectralConvPlan, x: Any, weight: Any, *, out: Any, workers: int) -> None:
    """Forward transform, cut to the kept wavenumbers, einsum over channels, pad with zeros, inverse transform."""
    if out.size == 0:
        return
    xp, fft = _libraries(out)
    options = {"workers": workers} if xp is np else {}
    d, rank = len(plan.axes), x.ndim
    if not np.iscomplexobj(weight):
        weight = weight[..., 0] + 1j * weight[..., 1]
    if plan.transposed:
        weight = weight.conj() if plan.depthwise else weight.conj().swapaxes(0, 1)
    x = xp.moveaxis(x, plan.axes, range(rank - d, rank))
    axes = tuple(range(rank - d, rank))
    kept = [xp.arange(low, low + m) for low, m in zip(plan.lowest, plan.modes, strict=True)]
    forward = fft.rfftn if plan.halved else fft.fftn
    modes = forward(_readable(x), axes=axes, norm="forward" if not plan.transposed else "backward", **options)
    modes = modes[(..., *xp.ix_(*(k % n for k, n in zip(kept, plan.in_sizes, strict=True))))]
    bins = plan.bin_weights()
    if bins is not None:
        modes *= xp.asarray(bins.astype(out.real.dtype))
    letters = "klmnpqrs"[:d]
    mix = f"...c{letters},c{letters}->...c{letters}" if plan.depthwise else f"...i{letters},io{letters}->...o{letters}"
    mixed = xp.einsum(mix, modes, weight)
    sizes = plan.out_sizes
    length = (*sizes[:-1], sizes[-1] // 2 + 1) if plan.halved else sizes
    spectrum = xp.zeros(mixed.shape[:-d] + length, mixed.dtype)
    spectrum[(..., *xp.ix_(*(k % n for k, n in zip(kept, sizes, strict=True))))] = mixed
    norm = "backward" if plan.transposed else "forward"
    if plan.halved:
        result = _real_inverse(fft, spectrum, sizes, axes, norm=norm, **options)
    else:
        result = fft.ifftn(spectrum, axes=axes, norm=norm, overwrite_x=True, **options)
    out[...] = xp.moveaxis(result, axes, plan.axes)


def spectral_conv_weight_gradient(
    plan: SpectralConvWeightGradientPlan, x: Any, gradient: Any, *, out: Any, workers: int
) -> None:
    """Both forward transforms, cut to the kept wavenumbers, einsum over the batch."""
    if out.size == 0:
        return
    xp, fft = _libraries(out)
    options = {"workers": workers} if xp is np else {}
    d, rank = len(plan.axes), x.ndim
    axes = tuple(range(rank - d, rank))
    kept = [xp.arange(low, low + m) for low, m in zip(plan.lowest, plan.modes, strict=True)]
    forward = fft.rfftn if plan.halved else fft.fftn

    def modes(field: Any, sizes: tuple[int, ...]) -> Any:
        spectrum = forward(_readable(xp.moveaxis(field, plan.axes, axes)), axes=axes, **options)
        cut = spectrum[(..., *xp.ix_(*(k % n for k, n in zip(kept, sizes, strict=True))))]
        return cut.reshape(plan.batch, *cut.shape[rank - d - 1 :])

    letters = "klmnpqrs"[:d]
    products = f"bc{letters},bc{letters}->c{letters}" if plan.depthwise else f"bi{letters},bo{letters}->io{letters}"
    read, written = modes(x, plan.in_sizes), modes(gradient, plan.gradient_sizes)
    out[...] = xp.einsum(products, read.conj(), written) * xp.asarray(plan.mode_factors(plan.out_dtype))


def fourier_resample(plan: FourierResamplePlan, x: Any, *, out: Any, workers: int) -> None:
    """Forward transform, cut or pad each axis, inverse transform."""
    if out.size == 0:
        return
    if not plan.axes:
        out[...] = x
        return
    xp, fft = _libraries(out)
    options = {"workers": workers} if xp is np else {}
    forward = fft.rfftn if plan.halved else fft.fftn
    spectrum = forward(_readable(x), axes=plan.axes, norm=plan.norm, **options)
    for j, (axis, m) in enumerate(zip(plan.axes, plan.out_sizes, strict=True)):
        length = m // 2 + 1 if plan.halved and j == len(plan.axes) - 1 else m
        cut = xp.zeros((*spectrum.shape[:axis], length, *spectrum.shape[axis + 1 :]), spectrum.dtype)
        source, target = xp.moveaxis(spectrum, axis, 0), xp.moveaxis(cut, axis, 0)
        for move in plan.moves(j):
            chunk = source[move.source : move.source + move.length]
            target[move.target : move.target + move.length] += chunk * xp.asarray(move.factor, out.real.dtype)
        spectrum = cut
    if plan.halved:
        out[...] = _real_inverse(fft, spectrum, plan.out_sizes, plan.axes, norm=plan.norm, **options)
    else:
        out[...] = fft.ifftn(spectrum, axes=plan.axes, norm=plan.norm, overwrite_x=True, **options)
