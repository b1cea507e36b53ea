"""Power spectra whose sum is the variance, whatever the window, the sides and the binning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, _checks

__all__ = ["PowerSpectrum", "power_spectrum"]

OP = "power_spectrum"


@dataclass(frozen=True, slots=True, eq=False)
class PowerSpectrum:
    """What :func:`power_spectrum` returns.

    Attributes
    ----------
    power : array
        Real, in the library of the input; the transformed axes keep their places. Isotropic: one last axis of rings.
    frequencies : tuple of array
        Frequencies [cycles per unit of `spacing`] along each of `axes`, in the order of ``fftfreq`` (not shifted),
        1-d and in the library of the input; isotropic: one array, the middle of each ring. Times 2π: wavenumbers.
    df : float
        Size of one frequency cell, Π 1/(n_a Δ_a); isotropic: the width of a ring.
    scaling : str
        ``"density"`` or ``"spectrum"``.
    """

    power: Any
    frequencies: tuple[Any, ...]
    df: float
    scaling: str


def power_spectrum(
    u: Any,
    /,
    *,
    spacing: float | Sequence[float] = 1.0,
    axes: int | Sequence[int] | None = None,
    window: Any = None,
    detrend: str | None = None,
    scaling: str = "density",
    sides: str | None = None,
    isotropic: bool = False,
) -> PowerSpectrum:
    r"""Periodogram of `u` over `axes`, corrected for the window.

    With :math:`\hat u = \sum_x w\,u'\,e^{-2\pi i f x}` (no factor), u' the detrended input, N the number of points
    and :math:`\Delta V = \prod \Delta_a` the volume of a cell,

    * ``scaling="density"``: :math:`P = |\hat u|^2\,\Delta V / \sum w^2` [u² per cycle per unit]. Its sum is the
      variance: :math:`\sum P\,df = \langle (wu')^2\rangle / \langle w^2\rangle` to round-off, for one side, two
      sides and rings alike. What noise needs.
    * ``scaling="spectrum"``: :math:`P = |\hat u|^2 / (\sum w)^2` [u²]. A sine of amplitude A on a frequency of the
      grid gives A²/4 at ±f (two-sided), A²/2 at f (one-sided), with any window. What tones need. Its sum is
      the variance only without a window.

    Parameters
    ----------
    u : array
        Real or complex, any library. Axes that are not in `axes` are a batch.
    spacing : float or tuple of float
        Cell size along each of `axes` [length or time].
    axes : int or tuple of int, optional
        Axes to transform. Default: the only one of a 1-d array, else the last two.
    window : str, array or tuple of these, optional
        Taper along each of `axes`, multiplied together: a name of :func:`scipy.signal.get_window` (taken periodic), or
        a 1-d NumPy array or sequence of numbers of the axis's length. One string serves every axis. Default: none.
    detrend : {None, "constant", "linear"}
        Subtract nothing, the mean, or the least-squares (hyper)plane over `axes` before the window is applied.
    scaling : {"density", "spectrum"}
        See above.
    sides : {None, "one", "two"}
        ``"one"`` (default for real u): the last of `axes` has the n//2 + 1 frequencies from 0; each value stands for
        ±f and is doubled, but for f = 0 and, where n is even, the Nyquist frequency, which have no partner.
        ``"two"`` (default for complex u): all n.
    isotropic : bool
        Sum over rings (shells) of radial frequency :math:`|f| \in [(b-½)\delta, (b+½)\delta)`, with δ the largest
        of the axes' 1/(n_a Δ_a), out to the corner of the grid, so that nothing is lost. Density: divided by δ, a 1-d
        density over \|f\| with :math:`\sum P\,\delta` the variance.

    Returns
    -------
    PowerSpectrum
        ``power``, ``frequencies``, ``df`` and ``scaling``. The precision of u is kept; 16-bit floats give float32,
        integers the library's default float.

    Raises
    ------
    TypeError
        If u is no array or `window` no window.
    ValueError
        If `axes` or `spacing` do not fit, an axis is empty, a word is unknown, a window has another length than its
        axis or no weight, or one side is asked of complex u.

    Notes
    -----
    Segments of a long record (Welch's method): reshape it to (segments, length), take ``axes=-1`` and average over the
    first axis. NaN in u makes all its batch member's spectrum NaN. `frequencies`, the window and the rings are made on
    the host and moved; u is not.

    References
    ----------
    .. [1] G. Heinzel, A. Rüdiger, R. Schilling, Spectrum and spectral density estimation by the discrete Fourier
       transform (DFT), including a comprehensive list of window functions, 2002, eqs. (18)-(24).

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import power_spectrum
    >>> u = 3.0 * np.sin(2 * np.pi * 5 * np.arange(100) / 100)
    >>> s = power_spectrum(u, spacing=0.01, window="hann", scaling="spectrum")
    >>> float(s.frequencies[0][5]), round(float(s.power[5]), 12)
    (5.0, 4.5)
    """
    home, spec = _arrays.describe(OP, "u", u)
    if not _arrays.is_array(u):
        u = np.asarray(u)
    dtype = _checks.compute_dtype(_checks.inexact_dtype(OP, spec.dtype, "u", _arrays.default_float(home)))
    where = _checks.axes(OP, axes, len(spec.shape), {"spacing": _checks.entries(spacing)}, array="u")
    sizes = tuple(spec.shape[a] for a in where)
    if 0 in sizes:
        raise ValueError(f"{OP}: u has shape {spec.shape}, but must have at least one point along axes {where}")
    steps = tuple(_checks.length(OP, "spacing", h) for h in _checks.per_axis(OP, "spacing", spacing, len(where)))
    isotropic = _checks.flag(OP, "isotropic", isotropic)
    _checks.choice(OP, "scaling", scaling, ("density", "spectrum"))
    is_complex = dtype.startswith("complex")
    one = not is_complex if sides is None else _checks.choice(OP, "sides", sides, ("one", "two")) == "one"
    if one and is_complex:
        raise ValueError(f"{OP}: sides is 'one', but must be 'two' for complex u, whose two sides differ")
    tapers = _windows(window, sizes)

    xp = compat.array_namespace(u)
    device = compat.device(u)
    real = getattr(xp, _checks.real_dtype(dtype))
    u = xp.astype(u, getattr(xp, dtype), copy=False)
    if detrend is not None:
        u = _detrended(xp, u, where, _checks.choice(OP, "detrend", detrend, ("constant", "linear")))
    for axis, taper in zip(where, tapers, strict=True):
        if taper is not None:
            u = u * _along(xp.asarray(taper, dtype=real, device=device), axis, u.ndim)
    spectrum = xp.fft.rfftn(u, axes=where) if one else xp.fft.fftn(u, axes=where)
    power = xp.real(spectrum) ** 2 + xp.imag(spectrum) ** 2
    scale = _scale(scaling, sizes, steps, tapers)
    if one:
        pairs = np.full(sizes[-1] // 2 + 1, 2.0 * scale)
        pairs[0] = scale
        if sizes[-1] % 2 == 0:
            pairs[-1] = scale
        power = power * _along(xp.asarray(pairs, dtype=real, device=device), where[-1], power.ndim)
    else:
        power = power * scale
    frequencies = [np.fft.fftfreq(n, h) for n, h in zip(sizes, steps, strict=True)]
    if one:
        frequencies[-1] = np.fft.rfftfreq(sizes[-1], steps[-1])
    df = math.prod(1.0 / (n * h) for n, h in zip(sizes, steps, strict=True))
    if isotropic:
        width = max(1.0 / (n * h) for n, h in zip(sizes, steps, strict=True))
        rings = _rings(frequencies, width)
        power = _sum_rings(xp, power, where, rings) * (df / width if scaling == "density" else 1.0)
        frequencies, df = [width * np.arange(len(rings))], width
    return PowerSpectrum(power, tuple(xp.asarray(f, dtype=real, device=device) for f in frequencies), df, scaling)


def _windows(window: Any, sizes: tuple[int, ...]) -> tuple[np.ndarray[Any, Any] | None, ...]:
    """Taper of each axis, None for none."""
    if window is None or isinstance(window, str):
        entries: list[Any] = [window] * len(sizes)
    elif _is_taper(window):
        entries = [window]
    elif isinstance(window, Sequence) and not isinstance(window, _checks.BUFFERS):
        entries = list(window)
    else:
        raise TypeError(
            f"{OP}: window is a {type(window).__name__}, but must be a name, a 1-d array or a tuple of them"
        )
    if len(entries) != len(sizes):
        raise ValueError(f"{OP}: window has {len(entries)} tapers, but must have {len(sizes)}, one per axis")
    return tuple(_window(entry, n) for entry, n in zip(entries, sizes, strict=True))


def _is_taper(window: Any) -> bool:
    if isinstance(window, Sequence):
        return not isinstance(window, _checks.BUFFERS) and all(isinstance(w, int | float) for w in window)
    return _arrays.is_array(window)


def _window(entry: Any, n: int) -> np.ndarray[Any, Any] | None:
    if entry is None:
        return None
    if isinstance(entry, str):
        from scipy.signal import get_window

        try:
            taper = np.asarray(get_window(entry, n))
        except ValueError as error:
            raise ValueError(
                f"{OP}: window is {_checks.shown(entry)}, but must be a name that scipy.signal.get_window knows "
                "without a parameter; pass the array"
            ) from error
    elif _is_taper(entry):
        home, _ = _arrays.describe(OP, "window", entry)
        if home.library != "numpy":
            raise TypeError(f"{OP}: window is a {home}, but must be a NumPy array or a sequence of numbers")
        taper = np.asarray(entry)
    else:
        raise TypeError(f"{OP}: window has a {type(entry).__name__}, but must have names or 1-d arrays")
    if taper.shape != (n,):
        raise ValueError(f"{OP}: window has shape {taper.shape}, but must have shape ({n},) like its axis")
    if taper.dtype.kind not in "fiu":
        raise TypeError(f"{OP}: window has dtype {taper.dtype}, but must be real")
    return taper.astype(np.float64)


def _scale(
    scaling: str,
    sizes: tuple[int, ...],
    steps: tuple[float, ...],
    tapers: tuple[np.ndarray[Any, Any] | None, ...],
) -> float:
    """Factor from |FFT|^2 to power: no window is a window of ones."""
    weights = 1.0
    for n, taper in zip(sizes, tapers, strict=True):
        w = np.ones(n) if taper is None else taper
        weights *= float(np.sum(w**2) if scaling == "density" else np.sum(w) ** 2)
    if not (weights > 0 and math.isfinite(weights)):
        what = "sum of squares" if scaling == "density" else "squared sum"
        raise ValueError(f"{OP}: window has {what} {weights}, but must have a positive one")
    return math.prod(steps) / weights if scaling == "density" else 1.0 / weights


def _along(vector: Any, axis: int, ndim: int) -> Any:
    """A vector shaped to broadcast along one axis."""
    shape = [1] * ndim
    shape[axis] = -1
    xp = compat.array_namespace(vector)
    return xp.reshape(vector, tuple(shape))


def _detrended(xp: Any, u: Any, where: tuple[int, ...], order: str) -> Any:
    """`u` without its mean and, for "linear", its least-squares slopes: on a full grid the axes are orthogonal."""
    residual = u - xp.mean(u, axis=where, keepdims=True)
    if order == "constant":
        return residual
    result = residual
    count = math.prod(u.shape[a] for a in where)
    for axis in where:
        n = u.shape[axis]
        x = np.arange(n) - (n - 1) / 2
        if n > 1:
            centred = _along(xp.asarray(x, dtype=u.dtype, device=compat.device(u)), axis, u.ndim)
            slope = xp.sum(residual * centred, axis=where, keepdims=True) / float(np.sum(x**2) * (count // n))
            result = result - slope * centred
    return result


def _rings(frequencies: list[np.ndarray[Any, Any]], width: float) -> list[np.ndarray[Any, Any]]:
    """Flat indices of the frequencies in each ring |f| in [(b - 1/2) width, (b + 1/2) width)."""
    squares = 0.0
    for axis, f in enumerate(frequencies):
        squares = squares + _along(f**2, axis, len(frequencies))
    ring = np.floor(np.sqrt(squares) / width + 0.5).astype(np.int64).ravel()
    order = np.argsort(ring, kind="stable")
    return np.split(order, np.cumsum(np.bincount(ring))[:-1])


def _sum_rings(xp: Any, power: Any, where: tuple[int, ...], rings: list[np.ndarray[Any, Any]]) -> Any:
    batch = [a for a in range(power.ndim) if a not in where]
    shape = tuple(power.shape[a] for a in batch)
    flat = xp.reshape(xp.permute_dims(power, (*batch, *where)), (*shape, math.prod(power.shape[a] for a in where)))
    device = compat.device(power)
    return xp.stack(
        [xp.sum(xp.take(flat, xp.asarray(members, device=device), axis=-1), axis=-1) for members in rings], axis=-1
    )
