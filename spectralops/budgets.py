"""What a field holds and how fast it changes: totals, energies, residuals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, _checks
from spectralops._plans.field_stability import sum_dtype

__all__ = ["energy", "residuals", "total"]


def total(
    u: Any,
    dx: float | Sequence[float] = 1.0,
    *,
    weights: Any = None,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
) -> Any:
    r"""Integral of a field: :math:`\sum u\,w\,\prod_a \Delta x_a` over `axes`.

    Parameters
    ----------
    u : array
        Real or complex field, any library.
    dx : float or sequence of float
        Cell size along each of `axes` [length].
    weights : array, optional
        Factors that broadcast against u, such as cell areas (with ``dx=1``), of u's library.
    mask : array of bool, optional
        True where cells count, broadcast against u; what the others hold, NaN too, does not matter.
    axes : int or sequence of int, optional
        Axes to sum over. Default: the only one of a 1-d array, else the last two, or as many as `dx` has entries.

    Returns
    -------
    float, complex or array
        A Python number where all axes of u are summed over, which waits for the device; else an array of the remaining
        (batch) axes, in u's library. Summed in float64 (float32 in JAX without x64).

    Raises
    ------
    TypeError
        If an argument is no array, or of another library or device than u.
    ValueError
        If `dx` is not positive, or shapes or axes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import total
    >>> total(np.ones((4, 8)), dx=(0.5, 0.25))
    4.0
    """
    return _integral("total", u, dx, weights, mask, axes, square=False)


def energy(
    u: Any,
    dx: float | Sequence[float] = 1.0,
    *,
    weights: Any = None,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
) -> Any:
    r"""Energy of a field: :math:`\tfrac12 \sum |u|^2\,w\,\prod_a \Delta x_a` over `axes`.

    For one velocity component this is its kinetic energy per density; that of a vector is the sum over components.
    Without weights and mask, ``2 * energy / volume`` is the mean square, the sum of :func:`spectralops.power_spectrum`.

    Parameters
    ----------
    u : array
        Real or complex field, any library.
    dx : float or sequence of float
        Cell size along each of `axes` [length].
    weights : array, optional
        Factors that broadcast against u, such as cell areas (with ``dx=1``), of u's library.
    mask : array of bool, optional
        True where cells count, broadcast against u; what the others hold, NaN too, does not matter.
    axes : int or sequence of int, optional
        Axes to sum over. Default: the only one of a 1-d array, else the last two, or as many as `dx` has entries.

    Returns
    -------
    float or array
        A Python float where all axes of u are summed over, which waits for the device; else an array of the remaining
        (batch) axes, in u's library. Summed in float64 (float32 in JAX without x64).

    Raises
    ------
    TypeError
        If an argument is no array, or of another library or device than u.
    ValueError
        If `dx` is not positive, or shapes or axes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import energy
    >>> energy(np.array([3.0, 4.0]), dx=0.5)
    6.25
    """
    return _integral("energy", u, dx, weights, mask, axes, square=True)


def _integral(op: str, u: Any, dx: Any, weights: Any, mask: Any, axes: Any, *, square: bool) -> Any:
    homes = {}
    homes["u"], spec = _arrays.describe(op, "u", u)
    if homes["u"].library == "numpy":
        u = np.asarray(u)
    _checks.dtype(op, spec.dtype, "u")
    where = _checks.axes(op, axes, len(spec.shape), {"dx": _checks.entries(dx)}, array="u")
    cell = math.prod(_checks.length(op, "dx", h) for h in _checks.per_axis(op, "dx", dx, len(where)))
    for name, factor in (("weights", weights), ("mask", mask)):
        if factor is None:
            continue
        homes[name], other = _arrays.describe(op, name, factor)
        _arrays.common_home(op, homes)
        if not _fits(other.shape, spec.shape):
            raise ValueError(f"{op}: {name} has shape {other.shape}, but must broadcast to u's shape {spec.shape}")
        if name == "weights" and _checks.dtype(op, other.dtype, name) in _checks.COMPLEXES:
            raise TypeError(f"{op}: weights has dtype {other.dtype}, but must be real")
        if name == "mask" and other.dtype != "bool":
            raise TypeError(f"{op}: mask has dtype {other.dtype}, but must be bool")
    xp = compat.array_namespace(u)
    wide = sum_dtype(homes["u"], spec.dtype)
    if mask is not None:
        u = xp.where(xp.asarray(mask), u, xp.zeros((), dtype=u.dtype, device=compat.device(u)))
    if square:
        u = xp.astype(u, getattr(xp, wide), copy=False)
        u = xp.real(u) ** 2 + xp.imag(u) ** 2 if wide.startswith("complex") else u * u
        wide = _checks.real_dtype(wide)
    if weights is not None:
        u = xp.astype(u, getattr(xp, wide), copy=False) * xp.astype(xp.asarray(weights), getattr(xp, wide))
    result = xp.sum(u, axis=where, dtype=getattr(xp, wide)) * (cell / 2 if square else cell)
    if len(where) < len(spec.shape):
        return result
    return complex(result) if wide.startswith("complex") else float(result)


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        n in (1, size) for n, size in zip(reversed(shape), reversed(target), strict=False)
    )


def residuals(states: Any, /, *, times: Sequence[float] | None = None, norm: str = "l2") -> np.ndarray[Any, Any]:
    r"""How much each state differs from the one before: the norms of :math:`u_{n+1} - u_n`.

    Parameters
    ----------
    states : array or iterable of array
        Snapshots along the first axis, such as ``solution.snapshots``, or any iterable of arrays, of which two are held
        at a time.
    times : sequence of float, optional
        Time of each state, such as ``solution.times``: each norm is then divided by the time in between.
    norm : {"l2", "linf"}
        ``"l2"``: root of the mean square, which does not depend on the number of points; ``"linf"``: largest absolute
        value.

    Returns
    -------
    numpy.ndarray
        float64, one fewer than states, on the host (waits for the device).

    Raises
    ------
    TypeError
        If `states` is no array and no iterable of arrays.
    ValueError
        If `norm` is unknown, shapes differ, or `times` does not increase or has another length.

    Examples
    --------
    >>> import numpy as np
    >>> from spectralops import residuals
    >>> residuals(np.array([[0.0, 0.0], [3.0, -3.0], [3.0, -4.0]]), times=[0.0, 1.0, 3.0], norm="linf")
    array([3. , 0.5])
    """
    op = "residuals"
    _checks.choice(op, "norm", norm, ("l2", "linf"))
    if not isinstance(states, Iterable) or isinstance(states, _checks.BUFFERS) or getattr(states, "ndim", 1) == 0:
        raise TypeError(f"{op}: states is a {type(states).__name__}, but must be an array or an iterable of arrays")
    changes: list[float] = []
    before: Any = None
    count = 0
    for state in _along_first(states) if _arrays.is_array(states) else states:
        home, spec = _arrays.describe(op, f"states[{count}]", state)
        _checks.dtype(op, spec.dtype, f"states[{count}]")
        if before is not None:
            changes.append(_change(op, count, before, (home, spec, state), norm))
        before = (home, spec, state)
        count += 1
    result = np.array(changes)
    if times is None:
        return result
    listed = isinstance(times, Iterable) and not isinstance(times, _checks.BUFFERS) and getattr(times, "ndim", 1) != 0
    instants = tuple(times) if listed else (times,)
    if len(instants) != count:
        raise ValueError(f"{op}: times has {len(instants)} entries, but must have {count}, one per state")
    intervals = np.diff(np.array([_checks.number(op, f"times[{j}]", t) for j, t in enumerate(instants)]))
    if not np.all(intervals > 0):
        raise ValueError(f"{op}: times has an interval of {intervals.min()}, but must increase")
    return result / intervals


def _along_first(states: Any) -> Iterable[Any]:
    return (states[i, ...] for i in range(states.shape[0]))  # the array API has no iteration


def _change(op: str, index: int, before: Any, after: Any, norm: str) -> float:
    (home, spec, old), (new_home, new_spec, new) = before, after
    _arrays.common_home(op, {f"states[{index - 1}]": home, f"states[{index}]": new_home})
    if spec.shape != new_spec.shape:
        raise ValueError(
            f"{op}: states[{index}] has shape {new_spec.shape}, but must have {spec.shape} like the one before"
        )
    xp = np if home.library == "numpy" else compat.array_namespace(new)
    wide = getattr(xp, sum_dtype(home, new_spec.dtype))
    if home.library == "numpy":
        difference = np.abs(np.asarray(new, dtype=wide) - np.asarray(old, dtype=wide))
    else:
        difference = xp.abs(xp.astype(new, wide) - xp.astype(old, wide))
    if 0 in spec.shape:
        return 0.0
    return float(xp.max(difference)) if norm == "linf" else math.sqrt(float(xp.mean(difference * difference)))
