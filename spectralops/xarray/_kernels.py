"""What is computed on the arrays inside: extension beyond the ends, filters along rows and meridians, convolution.

Every kernel is a frozen value that can be called with one array, so that Dask can name it and send it elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, fft, transfer
from spectralops.convolution import convolve
from spectralops.spectral import spectral_filter
from spectralops.xarray._grid import Axis, GridLayout

__all__ = [
    "Convolution",
    "Filter",
    "InverseLaplacian",
    "Smoothed",
    "beside",
    "convolved",
    "device_array",
    "extended",
    "is_complex",
    "present",
    "smoothed",
    "stored",
    "window",
    "working",
]


def working(x: Any) -> Any:
    """The array in the dtype in which it is computed: integers in float64, 16-bit floats in float32."""
    xp = compat.array_namespace(x)
    name = _arrays.dtype_name(x.dtype)
    if name.startswith(("bool", "int", "uint")):
        return xp.astype(x, xp.float64)
    return xp.astype(x, xp.float32) if name == "float16" else x


def stored(y: Any, like: Any) -> Any:
    """The result in 16 bits if the array was."""
    half = _arrays.dtype_name(like.dtype) == "float16"
    return compat.array_namespace(y).astype(y, like.dtype) if half else y


def is_complex(x: Any) -> bool:
    """Whether an array is complex."""
    return _arrays.dtype_name(x.dtype).startswith("complex")


def window(x: Any, number: int, start: int, stop: int) -> Any:
    """Some places along one axis."""
    return x[(slice(None),) * number + (slice(start, stop), ...)]


def extended(x: Any, axis: Axis, layout: GridLayout, parity: int = 1) -> Any:
    """One period of the array continued beyond the ends of an axis; it begins with the array itself.

    `parity` is -1 for what changes its sign over the pole, as the components of a vector do.
    """
    if axis.edge == "wrap":
        return x
    xp = compat.array_namespace(x)
    beyond = xp.flip(x, axis=axis.number)
    if axis.edge == "pole":
        assert layout.longitude_number is not None
        beyond = xp.roll(beyond, x.shape[layout.longitude_number] // 2, axis=layout.longitude_number)
        if layout.has_poles:
            beyond = window(beyond, axis.number, 1, axis.size - 1)
    return xp.concat([x, beyond if parity == 1 else -beyond], axis=axis.number)


def device_array(values: np.ndarray[Any, Any], like: Any) -> Any:
    """Host values beside an array, in its precision if they are real."""
    xp = compat.array_namespace(like)
    single = _arrays.dtype_name(like.dtype) in ("float32", "complex64")
    names = ("complex64", "complex128") if values.dtype.kind == "c" else ("float32", "float64")
    return xp.asarray(values, dtype=getattr(xp, names[0 if single else 1]), device=compat.device(like))


def beside(x: Any, like: Any) -> Any:
    """What was made on the host, as a mask of coordinates is, in the library and on the device of another array."""
    if not isinstance(x, np.ndarray) or isinstance(like, np.ndarray):
        return x
    return compat.array_namespace(like).asarray(x, device=compat.device(like))


def present(x: Any, mask: Any = None) -> Any:
    """Where an array has values, and a mask is true."""
    valid = ~compat.array_namespace(x).isnan(working(x))
    return valid if mask is None else beside(mask, x) & valid


def _row_wavenumbers(axis: Axis, layout: GridLayout, size: int, half: bool) -> np.ndarray[Any, Any]:
    """Angular wavenumbers along rows of latitude: those along the equator over the cosine of each row."""
    frequencies = np.fft.rfftfreq(size, axis.spacing) if half else np.fft.fftfreq(size, axis.spacing)
    k = layout.along(axis.number, 2 * np.pi * frequencies)
    return np.asarray(k / np.maximum(layout.cosines(), 1e-12))


def smoothed(x: Any, layout: GridLayout, symbol: Any) -> Any:
    """Apply an even transfer function: over all axes at once on a plane, along rows and then meridians on a sphere."""
    if not layout.spherical:
        y = x
        for axis in layout.axes:
            y = extended(y, axis, layout)
        if len(layout.axes) == 1:
            y = _lines(y, layout.axes[0], symbol)
        else:
            axes = tuple(axis.number for axis in layout.axes)
            y = spectral_filter(y, symbol, spacing=tuple(axis.spacing for axis in layout.axes), axes=axes)
        for axis in layout.axes:
            y = window(y, axis.number, 0, axis.size)
        return y
    y = x
    for axis in sorted(layout.axes, key=lambda axis: axis.kind != "longitude"):
        wide = extended(y, axis, layout)
        if axis.kind == "longitude":
            wide = _rows(wide, axis, layout, symbol)
        else:
            wide = _lines(wide, axis, symbol)
        y = window(wide, axis.number, 0, axis.size)
    return y


def _lines(x: Any, axis: Axis, symbol: Any) -> Any:
    """Filter along one axis, on an engine that follows from its length and not from how many lines there are."""
    rough = isinstance(x, np.ndarray) and any(n > 7 for n in prime_factors(x.shape[axis.number]))
    return spectral_filter(x, symbol, spacing=axis.spacing, axes=axis.number, backend="numpy" if rough else None)


def prime_factors(n: int) -> list[int]:
    """Prime factors of a number, the smallest first."""
    factors, factor = [], 2
    while n > 1:
        if factor * factor > n:
            factor = n
        while n % factor == 0:
            factors.append(factor)
            n //= factor
        factor += 1
    return factors


def _rows(x: Any, axis: Axis, layout: GridLayout, symbol: Any) -> Any:
    """Filter each row of latitude by gains of its own: one transform after the other, as the bits of a row must not
    depend on those that come with it.
    """
    n, half = x.shape[axis.number], not is_complex(x)
    gains = device_array(np.real(symbol(_row_wavenumbers(axis, layout, n, half))), x)
    library = scipy_fft() if isinstance(x, np.ndarray) else fft
    spectrum = (library.rfft if half else library.fft)(x, axis=axis.number) * gains
    if half:
        return library.irfft(spectrum, n, axis=axis.number, overwrite_x=True)
    return library.ifft(spectrum, axis=axis.number, overwrite_x=True)


def scipy_fft() -> Any:
    import scipy.fft

    return scipy.fft


@dataclass(frozen=True, slots=True)
class Filter:
    """What one low-pass keeps less what another keeps; None is the one that keeps all, or nothing."""

    layout: GridLayout
    keep: Any
    less: Any
    skipna: bool
    min_weight: float
    fill: bool

    def __call__(self, x: Any) -> Any:
        return self.through(x, smoothed)

    def through(self, x: Any, smooth: Callable[[Any, GridLayout, Any], Any]) -> Any:
        """The same with another way to apply transfer functions, as for lazy arrays."""
        work = working(x)
        y = work if self.keep is None else self._low(work, self.keep, smooth)
        if self.less is not None:
            y = y - self._low(work, self.less, smooth)
        return stored(y, x)

    def _low(self, x: Any, symbol: Any, smooth: Callable[[Any, GridLayout, Any], Any]) -> Any:
        def apply(values: Any) -> Any:
            return smooth(values, self.layout, symbol)

        return normalised(x, apply, self.layout, self.min_weight, self.fill) if self.skipna else apply(x)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """:func:`smoothed` as a value."""

    layout: GridLayout
    symbol: Any

    def __call__(self, x: Any) -> Any:
        return smoothed(x, self.layout, self.symbol)


def normalised(x: Any, apply: Callable[[Any], Any], layout: GridLayout, min_weight: float, fill: bool) -> Any:
    """A filter of the values that are there over the same filter of where they are.

    Where nothing is missing along the filtered axes, the weight is exactly one.
    """
    xp = compat.array_namespace(x)
    valid = ~xp.isnan(x)
    zero = xp.zeros_like(x)
    total = apply(xp.where(valid, x, zero))
    ones = xp.astype(valid, xp.real(zero).dtype if is_complex(x) else x.dtype)
    weight = xp.where(xp.all(valid, axis=layout.whole, keepdims=True), 1.0, apply(ones))
    enough = weight >= min_weight
    shown = enough if fill else enough & valid
    return xp.where(shown, total / xp.where(enough, weight, 1.0), np.nan)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution with a kernel on the grid, normalised by the kernel's weight over what is there with `skipna`."""

    layout: GridLayout
    kernel: tuple[Any, ...]
    shape: tuple[int, ...]
    skipna: bool
    min_weight: float
    fill: bool

    def __call__(self, x: Any) -> Any:
        return self.through(x, convolved)

    def through(self, x: Any, apply: Callable[[Any, GridLayout, np.ndarray[Any, Any]], Any]) -> Any:
        """The same with another way to convolve, as for lazy arrays."""
        work = working(x)
        values = np.reshape(np.asarray(self.kernel), self.shape)
        total = float(values.sum())
        if not self.skipna:
            y = apply(work, self.layout, values)
        else:

            def share(present: Any) -> Any:
                return apply(present, self.layout, values / total)

            y = total * normalised(work, share, self.layout, self.min_weight, self.fill)
        return stored(y, x)


def convolved(x: Any, layout: GridLayout, values: np.ndarray[Any, Any]) -> Any:
    """Convolution with a kernel that has an axis for each of the layout's, in their order."""
    y = x
    xp = compat.array_namespace(x)
    for axis, k in zip(layout.axes, values.shape, strict=True):
        before, after = k - 1 - (k - 1) // 2, (k - 1) // 2
        wide = extended(y, axis, layout)
        places = np.arange(-before, axis.size + after) % wide.shape[axis.number]
        y = xp.take(wide, xp.asarray(places, device=compat.device(x)), axis=axis.number)
    axes = [axis.number for axis in layout.axes]
    upward = np.transpose(values, np.argsort(axes))
    return convolve(y, device_array(upward, x), mode="valid", axes=sorted(axes))


@dataclass(frozen=True, slots=True)
class InverseLaplacian:
    """The field of zero mean whose Laplacian is the array less its mean."""

    layout: GridLayout

    def __call__(self, x: Any) -> Any:
        return self.through(x, smoothed)

    def through(self, x: Any, smooth: Callable[[Any, GridLayout, Any], Any]) -> Any:
        """The same with another way to apply transfer functions, as for lazy arrays."""
        return stored(smooth(working(x), self.layout, transfer.inverse_laplacian()), x)
