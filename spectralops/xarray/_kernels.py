"""What is computed on the arrays inside: extension beyond the ends, filters along rows and meridians, derivatives.

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
    "Derivative",
    "Filter",
    "InverseLaplacian",
    "Laplacian",
    "Smoothed",
    "WindDerivative",
    "convolved",
    "device_array",
    "extended",
    "smoothed",
    "stored",
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


def _window(x: Any, number: int, start: int, stop: int) -> Any:
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
            beyond = _window(beyond, axis.number, 1, axis.size - 1)
    return xp.concat([x, beyond if parity == 1 else -beyond], axis=axis.number)


def device_array(values: np.ndarray[Any, Any], like: Any) -> Any:
    """Host values beside an array, in its precision if they are real."""
    xp = compat.array_namespace(like)
    single = _arrays.dtype_name(like.dtype) in ("float32", "complex64")
    names = ("complex64", "complex128") if values.dtype.kind == "c" else ("float32", "float64")
    return xp.asarray(values, dtype=getattr(xp, names[0 if single else 1]), device=compat.device(like))


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
            y = _window(y, axis.number, 0, axis.size)
        return y
    y = x
    for axis in sorted(layout.axes, key=lambda axis: axis.kind != "longitude"):
        wide = extended(y, axis, layout)
        if axis.kind == "longitude":
            wide = _rows(wide, axis, layout, symbol)
        else:
            wide = _lines(wide, axis, symbol)
        y = _window(wide, axis.number, 0, axis.size)
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


def along(x: Any, axis: Axis, layout: GridLayout, order: int, method: str, parity: int = 1) -> Any:
    """Derivative along an axis with respect to its coordinate in its unit; of longitude as if at the equator."""
    if method == "difference" and axis.edge == "mirror":
        return _one_sided(x, _coordinate(axis), axis.number, order)
    if not axis.regular:
        return _uneven_over_poles(x, axis, layout, order, parity)
    wide = extended(x, axis, layout, parity)
    sign = -1.0 if axis.descending and order % 2 else 1.0
    if method == "spectral":
        wide = spectral_filter(wide, transfer.derivative(order), spacing=axis.spacing, axes=axis.number)
    else:
        xp = compat.array_namespace(x)
        ahead, behind = xp.roll(wide, -1, axis=axis.number), xp.roll(wide, 1, axis=axis.number)
        if order == 1:
            wide = (ahead - behind) / (2 * axis.spacing)
        else:
            wide = (ahead - 2 * wide + behind) / axis.spacing**2
    return sign * _window(wide, axis.number, 0, axis.size)


def _coordinate(axis: Axis) -> np.ndarray[Any, Any]:
    steps = -axis.spacing if axis.descending else axis.spacing
    return np.asarray(axis.points) if axis.points else steps * np.arange(axis.size)


def _uneven_over_poles(x: Any, axis: Axis, layout: GridLayout, order: int, parity: int) -> Any:
    """Differences along uneven latitudes, whose neighbours at the ends lie on the other side of the pole."""
    xp = compat.array_namespace(x)
    assert layout.longitude_number is not None
    turned = parity * xp.roll(x, x.shape[layout.longitude_number] // 2, axis=layout.longitude_number)
    n = axis.size
    first, last = _window(turned, axis.number, 0, 1), _window(turned, axis.number, n - 1, n)
    points = _coordinate(axis)
    pole = np.pi * layout.radius * np.sign(points[-1])
    wide = np.concatenate([[-pole - points[0]], points, [pole - points[-1]]])
    y = _one_sided(xp.concat([first, x, last], axis=axis.number), wide, axis.number, order)
    return _window(y, axis.number, 1, n + 1)


def _one_sided(x: Any, points: np.ndarray[Any, Any], number: int, order: int) -> Any:
    """Derivative of the parabola through each point and its neighbours; at an end, through the last three."""
    n = points.size
    first = np.clip(np.arange(n) - 1, 0, n - 3)
    a, b, c = points[first], points[first + 1], points[first + 2]
    if order == 1:
        weight_a, weight_c = (2 * points - b - c) / ((a - b) * (a - c)), (2 * points - a - b) / ((c - a) * (c - b))
    else:
        weight_a, weight_c = 2 / ((a - b) * (a - c)), 2 / ((c - a) * (c - b))
    xp = compat.array_namespace(x)
    shape = [1] * x.ndim
    shape[number] = n
    values = [xp.take(x, xp.asarray(first + k, device=compat.device(x)), axis=number) for k in range(3)]
    # All weights add up to zero: in differences, a large constant costs no digits.
    low, high = values[0] - values[1], values[2] - values[1]
    return device_array(weight_a.reshape(shape), x) * low + device_array(weight_c.reshape(shape), x) * high


def over_cosine(x: Any, layout: GridLayout, latitude: Axis | None, method: str, parity: int) -> Any:
    """Divide by cos(latitude); at a pole, where both vanish, the slopes, and NaN where there is no other side.

    `parity` is how x itself continues over the pole.
    """
    xp = compat.array_namespace(x)
    cosines = np.asarray(layout.cosines())
    pole = cosines < 1e-9
    y = x / device_array(np.where(pole, 1.0, cosines), x)
    if not pole.any():
        return y
    limit: Any = np.nan
    if latitude is not None:
        slope = along(x, latitude, layout, 1, method, parity) * layout.radius
        assert layout.latitude_number is not None
        sines = layout.along(layout.latitude_number, np.sin(np.deg2rad(layout.latitudes)))
        limit = slope / device_array(np.where(pole, -sines, 1.0), x)
    return xp.where(xp.asarray(pole, device=compat.device(x)), limit, y)


@dataclass(frozen=True, slots=True)
class Derivative:
    """First or second derivative along one axis; `latitude` is the axis over the poles, if there is one."""

    layout: GridLayout
    latitude: Axis | None
    order: int
    method: str

    def __call__(self, x: Any) -> Any:
        work = working(x)
        axis = self.layout.axes[0]
        y = along(work, axis, self.layout, self.order, self.method)
        if axis.kind == "longitude":
            if self.order == 1:
                y = over_cosine(y, self.layout, self.latitude, "spectral", 1)
            else:
                cosines = np.asarray(self.layout.cosines())
                squared = np.where(cosines < 1e-9, np.nan, cosines**2)
                y = y / device_array(squared, work)
        return stored(y, x)


@dataclass(frozen=True, slots=True)
class Laplacian:
    """Sum of second derivatives, on the sphere with its metric; `methods` has one word per axis."""

    layout: GridLayout
    methods: tuple[str, ...]

    def __call__(self, x: Any) -> Any:
        work = working(x)
        xp = compat.array_namespace(work)
        y: Any = 0.0
        meridional: Any = None
        cosines = np.asarray(self.layout.cosines()) if self.layout.spherical and self.layout.latitudes else np.ones(())
        pole = cosines < 1e-9
        for axis, method in zip(self.layout.axes, self.methods, strict=True):
            second = along(work, axis, self.layout, 2, method)
            if axis.kind == "longitude":
                second = second / device_array(np.where(pole, 1.0, cosines**2), work)
            elif axis.kind == "latitude":
                meridional = second
                tangents = np.where(
                    pole, 0.0, np.tan(np.deg2rad(self.layout.along(axis.number, self.layout.latitudes)))
                )
                slope = along(work, axis, self.layout, 1, method)
                second = second - device_array(tangents / self.layout.radius, work) * slope
            y = y + second
        if pole.any():
            limit: Any = np.nan
            # At a pole all meridians' second derivatives have half of the Laplacian as their mean.
            if meridional is not None and any(axis.edge == "pole" for axis in self.layout.axes):
                limit = 2 * xp.mean(meridional, axis=self.layout.longitude_number, keepdims=True)
            y = xp.where(xp.asarray(pole, device=compat.device(work)), limit, y)
        return stored(y, x)


@dataclass(frozen=True, slots=True)
class InverseLaplacian:
    """The field of zero mean whose Laplacian is the array less its mean."""

    layout: GridLayout

    def __call__(self, x: Any) -> Any:
        return self.through(x, smoothed)

    def through(self, x: Any, smooth: Callable[[Any, GridLayout, Any], Any]) -> Any:
        """The same with another way to apply transfer functions, as for lazy arrays."""
        return stored(smooth(working(x), self.layout, transfer.inverse_laplacian()), x)


@dataclass(frozen=True, slots=True)
class WindDerivative:
    """Vorticity or divergence of a vector field with components along the two axes (first y, then x)."""

    layout: GridLayout
    methods: tuple[str, str]
    divergence: bool

    def __call__(self, u: Any, v: Any) -> Any:
        # In 16 bits if both are.
        like = u if _arrays.dtype_name(v.dtype) == "float16" else v
        return stored(self._derived(working(u), working(v)), like)

    def _derived(self, u: Any, v: Any) -> Any:
        y, x = self.layout.axes
        in_y, in_x = self.methods
        across, upward = (u, v) if self.divergence else (v, u)
        sign = 1.0 if self.divergence else -1.0
        if not self.layout.spherical:
            return along(across, x, self.layout, 1, in_x) + sign * along(upward, y, self.layout, 1, in_y)
        xp = compat.array_namespace(u)
        cosines = np.asarray(self.layout.cosines())
        rows = along(upward * device_array(cosines, u), y, self.layout, 1, in_y)
        total = along(across, x, self.layout, 1, in_x) + sign * rows
        over = y if y.edge == "pole" else None
        result = over_cosine(total, self.layout, over, in_y, -1)
        pole = cosines < 1e-9
        if pole.any() and over is not None:
            mean = xp.mean(result, axis=x.number, keepdims=True)
            result = xp.where(xp.asarray(pole, device=compat.device(u)), mean, result)
        return result
