"""Many steps at once by their spectrum, a whole array at a time, with scipy.fft or cupyx.scipy.fft."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.spectral_steps import SpectralAdvance
    from spectralops._plans.steps import StepPlan

__all__ = ["advance"]


class _Transforms:
    """Sine and cosine transforms along the walls' axes, Fourier transforms along the periodic ones."""

    def __init__(self, spectral: SpectralAdvance, on_host: bool, workers: int) -> None:
        self.spectral = spectral
        self.options = {"workers": workers} if on_host else {}
        self.fft = importlib.import_module("scipy.fft" if on_host else "cupyx.scipy.fft")

    def forward(self, u: Any) -> Any:
        for axis, kind in self.spectral.walls:
            u = (self.fft.dct if kind == "closed" else self.fft.dst)(u, type=2, axis=axis, **self.options)
        periodic = self.spectral.periodic
        return self.fft.rfftn(u, axes=periodic, **self.options) if periodic else u

    def inverse(self, coefficients: Any) -> Any:
        periodic = self.spectral.periodic
        if periodic:
            sizes = [self.spectral.shape[axis] for axis in periodic]
            coefficients = self.fft.irfftn(coefficients, s=sizes, axes=periodic, overwrite_x=True, **self.options)
        for axis, kind in self.spectral.walls:
            back = self.fft.idct if kind == "closed" else self.fft.idst
            coefficients = back(coefficients, type=2, axis=axis, overwrite_x=True, **self.options)
        return coefficients


def advance(plan: StepPlan, u: Any, *fields: Any, out: Any, workers: int) -> None:
    """Write u after all steps to `out`: transform, multiply by the amplification factor's power, transform back."""
    if out.size == 0:
        return
    spectral, on_host = plan.spectral, isinstance(out, np.ndarray)
    xp = np if on_host else importlib.import_module("cupy")
    transforms = _Transforms(spectral, on_host, workers)
    arrays = (u, *fields)
    power, *total = spectral.multipliers(arrays, plan.compute, xp.asarray)
    with np.errstate(all="ignore"):  # NaN and infinity pass through as IEEE 754 says
        coefficients = transforms.forward(u) * power
        if total:
            source = _source(spectral, xp, arrays, plan.compute)
            coefficients += transforms.forward(source) * total[0]
        xp.copyto(out, transforms.inverse(coefficients))
        if not total and spectral.rate:
            out += out.dtype.type(spectral.shift)


def _source(spectral: SpectralAdvance, xp: Any, arrays: tuple[Any, ...], dtype: str) -> Any:
    """The sum of all sources, whole along the stepped axes and of length 1 elsewhere if that is all it takes."""
    shape = [n if axis in spectral.axes else 1 for axis, n in enumerate(spectral.shape)]
    total = xp.full(shape, spectral.rate, dtype)
    for place in spectral.sources:
        total = total + arrays[place]
    return total.astype(dtype, copy=False)
