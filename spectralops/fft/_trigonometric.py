"""Cosine and sine transforms on CuPy, of all four types.

cupyx has types 2 and 3 alone, and no `orthogonalize`. Types 1 and 4 are Fourier transforms here (Rao & Yip, Discrete
Cosine Transform, 1990, sections 4.1 and 4.3, extension and modulation):

    DCT-I   rfft of the even extension (x_0 … x_{n-1}, x_{n-2} … x_1)
    DST-I   minus the imaginary rfft of the odd extension (0, x_0 … x_{n-1}, 0, -x_{n-1} … -x_0)
    IV      2 w_{2k+1} sum_j (x_j w_{2j}) exp(-2 pi i jk / 2n) with w_m = exp(-i pi m / 4n): real part DCT, minus
            imaginary part DST
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from spectralops.fft._arguments import spelled

__all__ = ["trigonometric"]


def trigonometric(
    op: str,
    x: Any,
    kind: int,
    sizes: tuple[int, ...],
    axes: tuple[int, ...],
    norm: str | None,
    orthogonalize: bool | None,
) -> Any:
    """`op` of a CuPy array (a NumPy array in the tests) with SciPy's meaning of every argument."""
    xp = np if isinstance(x, np.ndarray) else importlib.import_module("cupy")
    inverse, sine = op[0] == "i", "dst" in op
    orthogonal = norm == "ortho" if orthogonalize is None else orthogonalize
    if kind in (2, 3) and orthogonal == (norm == "ortho") and x.size:
        function = getattr(importlib.import_module("cupyx.scipy.fft"), op)
        return function(x, kind, *spelled(op, sizes, axes), norm)
    kind = {2: 3, 3: 2}.get(kind, kind) if inverse else kind
    for n, axis in zip(sizes, axes, strict=True):
        x = _along_last(xp, xp.moveaxis(x, axis, -1), kind, n, norm, inverse, sine, orthogonal)
        x = xp.moveaxis(x, -1, axis)
    return x


def _along_last(
    xp: Any, x: Any, kind: int, n: int, norm: str | None, inverse: bool, sine: bool, orthogonal: bool
) -> Any:
    if x.dtype.kind == "c":
        arguments = (kind, n, norm, inverse, sine, orthogonal)
        return _along_last(xp, x.real, *arguments) + 1j * _along_last(xp, x.imag, *arguments)
    signal = xp.zeros((*x.shape[:-1], n), x.dtype)
    kept = min(n, x.shape[-1])
    signal[..., :kept] = x[..., :kept]
    if not signal.size:
        return signal
    before, after = _ends(kind, sine) if orthogonal else ([], [])
    for index in before:
        signal[..., index] *= math.sqrt(2)
    if kind in (2, 3):
        engine = importlib.import_module("cupyx.scipy.fft")
        result = (engine.dst if sine else engine.dct)(signal, kind)
    else:
        result = _first(xp, signal, sine) if kind == 1 else _fourth(xp, signal, sine)
    for index in after:
        result[..., index] /= math.sqrt(2)
    period = 2 * (n + (1 if sine else -1)) if kind == 1 else 2 * n
    if norm == "ortho":
        result /= math.sqrt(period)
    elif (norm == "forward") != inverse:
        result /= period
    return result


def _ends(kind: int, sine: bool) -> tuple[list[int], list[int]]:
    """Indices of the terms that `orthogonalize` scales before and after the transform."""
    end = [-1] if sine else [0]
    both = [] if sine else [0, -1]
    return {1: (both, both), 2: ([], end), 3: (end, []), 4: ([], [])}[kind]


def _first(xp: Any, x: Any, sine: bool) -> Any:
    if not sine:
        return xp.fft.rfft(xp.concatenate([x, x[..., -2:0:-1]], -1)).real.astype(x.dtype)
    zero = xp.zeros_like(x[..., :1])
    return -xp.fft.rfft(xp.concatenate([zero, x, zero, -x[..., ::-1]], -1)).imag[..., 1:-1].astype(x.dtype)


def _fourth(xp: Any, x: Any, sine: bool) -> Any:
    n = x.shape[-1]
    j = xp.arange(n)
    modulated = x * xp.exp(-0.5j * math.pi / n * j)
    result = 2 * xp.exp(-0.25j * math.pi / n * (2 * j + 1)) * xp.fft.fft(modulated, 2 * n)[..., :n]
    return (-result.imag if sine else result.real).astype(x.dtype)
