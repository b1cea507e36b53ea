"""The polynomial of diffusion_filter: the transfer functions it stands for, its degree and Chebyshev coefficients."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["SHAPES", "coefficients", "default_steps", "largest_eigenvalue", "target"]

SHAPES = ("gaussian", "taper")

# Steps for each unit of filter_scale / dx at which the error of the default polynomial is about 1 % or less, for one
# and two axes: offset + factor * (pi / transition_width)**exponent.
STEPS = {
    ("gaussian", 1): (0.8, 0.0, 0.0),
    ("gaussian", 2): (1.1, 0.0, 0.0),
    ("taper", 1): (2.2, 0.6, 2.5),
    ("taper", 2): (3.2, 0.7, 2.7),
}
FEWEST_STEPS = 3
# Coefficients found at a time.
ROWS = 512


def largest_eigenvalue(spacing: tuple[float, ...]) -> float:
    """Of minus the Laplacian: the squared discrete wavenumber of the finest wave."""
    return sum((2.0 / h) ** 2 for h in spacing)


def target(s: np.ndarray[Any, Any], scale: float, shape: str, width: float) -> np.ndarray[Any, Any]:
    """The filter shapes of Grooms et al. (2021) as functions of the squared wavenumber s.

    The Gaussian exp(-s L^2 / 24); the taper is one for wavelengths above width * L, zero below L, and between them the
    cubic in the wavenumber that joins smoothly.
    """
    if shape == "gaussian":
        return np.asarray(np.exp(-s * scale**2 / 24.0))
    stop = 2.0 * np.pi / scale
    start = stop / width
    x = np.clip((np.sqrt(s) - start) / (stop - start), 0.0, 1.0)
    return np.asarray(1.0 - x * x * (3.0 - 2.0 * x))


@lru_cache(maxsize=256)
def coefficients(s_max: float, n_steps: int, scale: float, shape: str, width: float) -> tuple[float, ...]:
    """Chebyshev coefficients of the polynomial of degree n that is closest to the target and exact at both ends.

    Closest in the mean square weighted with 1/sqrt(1 - t^2) at the n + 1 roots of T_{n+1}: there the T_k are
    orthogonal, the free minimum is the interpolant's coefficients g_k, and the minimum with p(0) = 1 (which makes the
    filter conservative) and p(s_max) exact spreads what is missing evenly over them, half as much to T_0, separately
    for even and odd k since T_k(-1) = (-1)^k.
    """
    count = n_steps + 1
    angle = np.pi * (np.arange(count) + 0.5) / count
    values = target(0.5 * s_max * (np.cos(angle) + 1.0), scale, shape, width)
    result = np.empty(count)
    for first in range(0, count, ROWS):
        k = np.arange(first, min(first + ROWS, count))
        result[k] = 2.0 / count * np.cos(np.outer(k, angle)) @ values
    weight = np.full(count, 2.0)
    result[0] /= 2.0
    weight[0] /= 2.0
    low, high = 1.0, float(target(np.array(s_max), scale, shape, width))
    for parity, wanted in ((0, 0.5 * (high + low)), (1, 0.5 * (high - low))):
        part = slice(parity, None, 2)
        result[part] += weight[part] * ((wanted - result[part].sum()) / weight[part].sum())
    return tuple(map(float, result))


def default_steps(spacing: tuple[float, ...], scale: float, shape: str, width: float) -> int:
    """Number of Laplacians by default: proportional to the filter scale in cells.

    With three and more axes, as many as the wider spectrum of their Laplacian takes at the accuracy of two.
    """
    count = len(spacing)
    if len(set(spacing)) == 1:
        cells = scale / spacing[0]
    else:
        cells = scale * math.sqrt(sum(1.0 / h**2 for h in spacing) / count)
    offset, factor, exponent = STEPS[shape, min(count, 2)]
    rate: float = offset + factor * (math.pi / width) ** exponent
    if count > 2:
        rate *= math.sqrt(count / 2.0)
    return max(FEWEST_STEPS, math.ceil(min(rate * cells, 1e300)))
