"""Derivatives on the arrays inside: along one axis, over the poles, Laplacians, vorticity and divergence.

Every kernel is a frozen value that can be called with arrays, so that Dask can name it and send it elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, transfer
from spectralops.spectral import spectral_filter
from spectralops.xarray._grid import Axis, GridLayout
from spectralops.xarray._kernels import device_array, extended, stored, window, working

__all__ = ["Derivative", "Laplacian", "WindDerivative"]


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
    return sign * window(wide, axis.number, 0, axis.size)


def _coordinate(axis: Axis) -> np.ndarray[Any, Any]:
    steps = -axis.spacing if axis.descending else axis.spacing
    return np.asarray(axis.points) if axis.points else steps * np.arange(axis.size)


def _uneven_over_poles(x: Any, axis: Axis, layout: GridLayout, order: int, parity: int) -> Any:
    """Differences along uneven latitudes, whose neighbours at the ends lie on the other side of the pole."""
    xp = compat.array_namespace(x)
    assert layout.longitude_number is not None
    turned = parity * xp.roll(x, x.shape[layout.longitude_number] // 2, axis=layout.longitude_number)
    n = axis.size
    first, last = window(turned, axis.number, 0, 1), window(turned, axis.number, n - 1, n)
    points = _coordinate(axis)
    pole = np.pi * layout.radius * np.sign(points[-1])
    wide = np.concatenate([[-pole - points[0]], points, [pole - points[-1]]])
    y = _one_sided(xp.concat([first, x, last], axis=axis.number), wide, axis.number, order)
    return window(y, axis.number, 1, n + 1)


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
