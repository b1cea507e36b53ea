"""The spectral operators as a user would write them: transform, multiply, transform back, a whole array at a time.

One code for NumPy with scipy.fft and for CuPy with cupyx.scipy.fft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["spectral_filter"]


def _libraries(out: Any) -> tuple[Any, Any]:
    """The array library of `out` and its FFT module."""
    if isinstance(out, np.ndarray):
        from scipy import fft

        return np, fft
    import cupy
    from cupyx.scipy import fft as device_fft

    return cupy, device_fft


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
    spectrum = forward(x, axes=plan.axes, **options)
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
