"""Poisson's equation on the sphere: Fourier series round circles of latitude, tridiagonal systems along meridians."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops.xarray._cells import Rows
from spectralops.xarray._grid import Axis, GridLayout
from spectralops.xarray._kernels import is_complex, stored, working
from spectralops.xarray._tridiagonal import Tridiagonal

__all__ = ["SphereInverse"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SphereInverse:
    """The field of zero mean whose Laplacian, as :class:`Laplacian` has it, is the array less a constant.

    Attributes
    ----------
    layout : GridLayout
        Of latitude and longitude, in this order.
    methods : tuple of str
        ``"spectral"`` or ``"difference"`` along each.
    """

    layout: GridLayout
    methods: tuple[str, str]

    def __call__(self, x: Any) -> Any:
        work = working(x)
        xp = compat.array_namespace(work)
        latitude, longitude = self.layout.axes
        n = longitude.size
        wide = xp.complex128 if is_complex(work) else xp.float64
        rows = xp.moveaxis(xp.astype(work, wide), (latitude.number, longitude.number), (-2, -1))
        waves = np.fft.fftfreq(n, 1 / n) if is_complex(work) else np.arange(n // 2 + 1.0)
        spectrum = (xp.fft.fft if is_complex(work) else xp.fft.rfft)(rows, axis=-1)
        mean = self._of_means(spectrum[..., :1])
        others = self._of_waves(spectrum[..., 1:], waves[1:])
        spectrum = xp.concat([mean, others], axis=-1)
        result = xp.fft.ifft(spectrum, axis=-1) if is_complex(work) else xp.fft.irfft(spectrum, n=n, axis=-1)
        result = xp.moveaxis(result, (-2, -1), (latitude.number, longitude.number))
        return stored(xp.astype(result, work.dtype), x)

    def _of_means(self, spectrum: Any) -> Any:
        """The wave 0, by the inverse of its matrix."""
        xp = compat.array_namespace(spectrum)
        inverse = xp.asarray(_inverse_of_means(self.layout, self.methods[0]), device=compat.device(spectrum))
        return xp.matmul(xp.astype(inverse, spectrum.dtype), spectrum)

    def _of_waves(self, spectrum: Any, waves: Array) -> Any:
        step = 2 * np.pi / self.layout.axes[1].size
        squares = waves**2 if self.methods[1] == "spectral" else (2 - 2 * np.cos(step * waves)) / step**2
        if self.methods[0] == "spectral":
            return _spectral(spectrum, waves, squares, self.layout)
        return _by_differences(spectrum, waves, squares, self.layout)


def _colatitudes(layout: GridLayout) -> Array:
    return np.deg2rad(90 - np.asarray(layout.latitudes))


def _spectral(spectrum: Any, waves: Array, squares: Array, layout: GridLayout) -> Any:
    """Waves m > 0 by double Fourier series.

    In colatitudes t, f = sum_k c_k exp(i k t), with c_-k = (-1)^m c_k as meridians go on over the poles, solves

        sin(t)^2 f_tt + sin(t) cos(t) f_t - m^2 f = R^2 sin(t)^2 g,

    in which a wave k meets only itself and k - 2 and k + 2: S. Y. K. Yee, Mon. Wea. Rev. 109 (1981) 501; H.-B. Cheong,
    J. Comput. Phys. 157 (2000) 327. Waves beyond the grid's are taken for those that they look like on it.
    """
    xp, device = compat.array_namespace(spectrum), compat.device(spectrum)
    rows, skip = spectrum.shape[-2], int(layout.has_poles)
    size = 2 * (rows - skip)
    top, shift = size // 2, 0.0 if skip else 0.5
    sines = np.sin(_colatitudes(layout))[:, None] ** 2 * layout.radius**2
    right = spectrum * xp.asarray(sines, device=device)
    signs = np.where(waves % 2 == 0, 1.0, -1.0)
    turned = xp.flip(right[..., skip : rows - skip, :], axis=-2) * xp.asarray(signs, device=device)
    k = np.arange(top + 1.0)
    phase = np.exp(-2j * np.pi * k * shift / size)[:, None]
    series = xp.fft.fft(xp.concat([right, turned], axis=-2), axis=-2)[..., : top + 1, :]
    series = series * xp.asarray(phase, device=device)
    solved = [_chain(series, first, top, signs, squares, shift == 0.0) for first in (0, 1)]
    pairs = [solved[j % 2][..., j // 2, :] for j in range(top + 1)]
    half = xp.stack(pairs, axis=-2)
    back = half * xp.asarray(np.conj(phase), device=device)
    # The negative k, in the order of the transform.
    mirrored = half * xp.asarray(phase, device=device) * xp.asarray(signs, device=device)
    mirrored = xp.flip(mirrored[..., 1:top, :], axis=-2)
    return xp.fft.ifft(xp.concat([back, mirrored], axis=-2), axis=-2)[..., :rows, :]


def _chain(series: Any, first: int, top: int, signs: Array, squares: Array, whole: bool) -> Any:
    """Coefficients of k = first, first + 2, … of the solution; `whole` if the first point is the pole."""
    xp, device = compat.array_namespace(series), compat.device(series)
    k = np.arange(first, top + 1, 2.0)
    # What looks like k - size, on points shifted by half a step, has the other sign.
    alias = signs if whole else -signs
    diagonal = -(k**2)[:, None] / 2 - squares
    lower = np.broadcast_to(((k - 2) * (k - 1) / 4)[:, None], diagonal.shape).copy()
    upper = np.broadcast_to(((k + 2) * (k + 1) / 4)[:, None], diagonal.shape).copy()
    if first == 0:
        upper[0] += upper[0] * signs
    if k[-1] == top:
        # On the grid, the top wave has no first derivative, and is there only in one of the two parities.
        if len(k) > 1:
            upper[-2] = top**2 / 4
        lower[-1] *= 1 + alias
        diagonal[-1] = np.where(alias > 0, diagonal[-1], 1.0)
    else:
        diagonal[-1] += alias * k[-1] * (k[-1] + 1) / 4
    gone = np.zeros(diagonal.shape, bool)
    if first == 0:
        gone[0] = signs < 0
        diagonal[0] = np.where(gone[0], 1.0, diagonal[0])
    if k[-1] == top:
        gone[-1] |= alias < 0
    right = xp.where(xp.asarray(gone, device=device), 0.0, series[..., first::2, :])
    upper, lower = (np.where(gone, 0.0, each) for each in (upper, lower))
    return Tridiagonal(*(xp.asarray(each, device=device) for each in (lower, diagonal, upper))).solve(right)


def _by_differences(spectrum: Any, waves: Array, squares: Array, layout: GridLayout) -> Any:
    """Waves m > 0 by differences of second order along meridians, which go on over the poles."""
    xp, device = compat.array_namespace(spectrum), compat.device(spectrum)
    below, here, above = (each[:, None] for each in _difference(layout))
    cosines = np.cos(np.deg2rad(np.asarray(layout.latitudes)))
    pole = cosines < 1e-9
    signs = np.where(waves % 2 == 0, 1.0, -1.0)
    over = layout.radius**2 * np.where(pole, 1.0, cosines) ** 2
    diagonal = here - squares / over[:, None]
    lower, upper = (np.broadcast_to(each, diagonal.shape).copy() for each in (below, above))
    if pole.any():
        lower[[0, -1]], diagonal[[0, -1]], upper[[0, -1]] = 0.0, 1.0, 0.0
        spectrum = xp.where(xp.asarray(pole[:, None], device=device), 0.0, spectrum)
    else:
        diagonal[0] += signs * lower[0]
        diagonal[-1] += signs * upper[-1]
    return Tridiagonal(*(xp.asarray(each, device=device) for each in (lower, diagonal, upper))).solve(spectrum)


def _difference(layout: GridLayout) -> tuple[Array, Array, Array]:
    """Weights of the rows before, at and after each in the meridional part of the Laplacian by differences."""
    points = layout.radius * np.deg2rad(np.asarray(layout.latitudes))
    if layout.has_poles:
        ends = 2 * points[0] - points[1], 2 * points[-1] - points[-2]
    else:
        pole = np.pi * layout.radius * np.sign(points[-1])
        ends = -pole - points[0], pole - points[-1]
    a, b, c = np.concatenate([[ends[0]], points[:-1]]), points, np.concatenate([points[1:], [ends[1]]])
    first = [(b - c) / ((a - b) * (a - c)), (2 * b - a - c) / ((b - a) * (b - c)), (b - a) / ((c - a) * (c - b))]
    second = [2 / ((a - b) * (a - c)), 2 / ((b - a) * (b - c)), 2 / ((c - a) * (c - b))]
    tangents = np.tan(points / layout.radius) / layout.radius
    pole_rows = np.abs(np.cos(points / layout.radius)) < 1e-9
    weights = [np.where(pole_rows, 2 * s, s - tangents * f) for f, s in zip(first, second, strict=True)]
    return weights[0], weights[1], weights[2]


@lru_cache(maxsize=8)
def _inverse_of_means(layout: GridLayout, method: str) -> Array:
    """What gives the zonal mean of zero mean whose Laplacian is that of the right-hand side less a constant."""
    axis, n = layout.axes[0], len(layout.latitudes)
    matrix = _spectral_means(layout, axis) if method == "spectral" else _difference_means(layout)
    weights = Rows(layout, axis.number, layout.axes[1].number).areas()
    bordered = np.zeros((n + 1, n + 1))
    # Of the size of the rest, so that the elimination finds its pivots.
    scale = np.abs(matrix).max()
    bordered[:n, :n], bordered[:n, n], bordered[n, :n] = matrix, scale, scale * weights / weights.max()
    inverse = np.linalg.inv(bordered)[:n, :n]
    return np.asarray(inverse)


def _spectral_means(layout: GridLayout, axis: Axis) -> Array:
    """The meridional Laplacian of zonal means by spectral derivatives over the poles."""
    n, skip = axis.size, int(layout.has_poles)
    unit = np.eye(n)
    wide = np.concatenate([unit, unit[::-1][skip : n - skip]])
    k = np.fft.rfftfreq(len(wide), axis.spacing) * 2 * np.pi
    slope = 1j * k
    slope[-1] = 0.0
    spectrum = np.fft.rfft(wide, axis=0)
    first, second = (np.fft.irfft(spectrum * f[:, None], len(wide), axis=0)[:n] for f in (slope, -(k**2)))
    sign = -1.0 if axis.descending else 1.0
    angles = np.deg2rad(np.asarray(layout.latitudes))
    pole = np.abs(np.cos(angles)) < 1e-9
    tangents = np.where(pole, 0.0, np.tan(angles)) / layout.radius
    return np.asarray(np.where(pole[:, None], 2 * second, second - tangents[:, None] * sign * first))


def _difference_means(layout: GridLayout) -> Array:
    below, here, above = _difference(layout)
    n = len(here)
    matrix = np.diag(here) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
    inner = 1 if layout.has_poles else 0
    matrix[0, inner] += below[0]
    matrix[-1, n - 1 - inner] += above[-1]
    return matrix
