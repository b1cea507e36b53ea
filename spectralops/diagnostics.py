"""Numbers that tell whether a run is sound: stability, budgets, change per step, spectra, checks of every call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, _checks
from spectralops._plans import field_stability, schemes, terms
from spectralops._plans.field_stability import sum_dtype
from spectralops.debugging import DebugReport, Explanation, debug, explain
from spectralops.spectrum import PowerSpectrum, power_spectrum

__all__ = [
    "DebugReport",
    "Explanation",
    "PowerSpectrum",
    "cfl_number",
    "debug",
    "energy",
    "explain",
    "fourier_number",
    "power_spectrum",
    "residuals",
    "stable_dt",
    "total",
]


def cfl_number(velocity: Any, dx: float | Sequence[float], dt: float) -> float:
    r"""Courant number: the largest :math:`\sum_a |v_a|\,\Delta t/\Delta x_a` of all points.

    Parameters
    ----------
    velocity : float, array or sequence of these
        One entry per axis [length/time]; a bare value only with one axis. Arrays broadcast against one another.
    dx : float or sequence of float
        Cell size along each axis [length].
    dt : float
        Time step.

    Returns
    -------
    float
        Nonnegative. At most 1 where upwind differences with Euler steps are stable.

    Raises
    ------
    TypeError
        If a value is no number, or the arrays are of different libraries or devices.
    ValueError
        If `dx` or `dt` is not positive, `velocity` is not finite, or the numbers of axes differ.

    Notes
    -----
    Waits for the device, since the result is a Python float.

    References
    ----------
    .. [1] R. Courant, K. Friedrichs, H. Lewy, Math. Ann. 100 (1928) 32-74.

    Examples
    --------
    >>> from spectralops import cfl_number
    >>> cfl_number((3.0, -1.0), dx=(0.5, 0.25), dt=0.05)
    0.5
    """
    op = "cfl_number"
    entries = tuple(velocity) if isinstance(velocity, Sequence) else (velocity,)
    steps = _spacings(op, dx, len(entries), "velocity")
    step = _checks.positive(op, "dt", dt)
    return _largest(op, "velocity", entries, [step / h for h in steps], signed=True)


def fourier_number(nu: Any, dx: float | Sequence[float], dt: float) -> float:
    r"""Diffusion number: the largest :math:`\sum_a \nu\,\Delta t/\Delta x_a^2` of all points.

    Parameters
    ----------
    nu : float or array
        Diffusivity [length²/time].
    dx : float or sequence of float
        Cell size along each axis [length]; a float means one axis.
    dt : float
        Time step.

    Returns
    -------
    float
        Nonnegative. At most 1/2 where second-order central differences with Euler steps are stable.

    Raises
    ------
    TypeError
        If a value is no number.
    ValueError
        If `dx` or `dt` is not positive, or `nu` is negative or not finite.

    Notes
    -----
    Waits for the device, since the result is a Python float.

    References
    ----------
    .. [1] C. Hirsch, Numerical Computation of Internal and External Flows, 2nd ed. 2007, section 8.1.

    Examples
    --------
    >>> from spectralops import fourier_number
    >>> fourier_number(0.5, dx=(0.5, 0.25), dt=0.05)
    0.5
    """
    op = "fourier_number"
    steps = _spacings(op, dx, None, "nu")
    step = _checks.positive(op, "dt", dt)
    return _largest(op, "nu", (nu,), [sum(step / h**2 for h in steps)], signed=False)


def stable_dt(
    dx: float | Sequence[float],
    *,
    nu: Any = 0.0,
    velocity: Any = None,
    scheme: str | None = None,
    integrator: str = "euler",
) -> float:
    r"""Largest stable time step of an explicit scheme for :math:`u_t + v\cdot\nabla u = \nabla\cdot(\nu\nabla u)`.

    Every Fourier mode must have an amplification factor of modulus at most 1 (von Neumann), with the coefficients of
    each cell taken as constant. For Euler steps: diffusion :math:`\sum_a \nu\Delta t/\Delta x_a^2 \le 1/2`; with
    ``"central"`` advection also :math:`\Delta t \sum_a v_a^2 \le 2\nu`; with ``"upwind"`` instead of both
    :math:`\sum_a |v_a|\Delta t/\Delta x_a + 2\sum_a \nu\Delta t/\Delta x_a^2 \le 1`.

    Parameters
    ----------
    dx : float or sequence of float
        Cell size along each axis [length].
    nu : float or array
        Diffusivity [length²/time].
    velocity : float, array or sequence of these, optional
        One entry per axis [length/time]; a bare value only with one axis. For Burgers' equation: u for every axis.
    scheme : {"central", "upwind", "upwind3", "weno5"}
        Differences of the advection; needed with `velocity`.
    integrator : {"euler", "rk2", "ssprk3", "rk4"}
        The time integrator.

    Returns
    -------
    float
        0 where no step is stable (such as central advection without diffusion under Euler), infinite where any is.

    Raises
    ------
    TypeError
        If a value is no number, or the arrays are of different libraries or devices.
    ValueError
        If `dx` is not positive, `nu` is negative, a coefficient is not finite, or a word is unknown or missing.

    Notes
    -----
    Waits for the device, since the result is a Python float. Boundary conditions, sources and pointwise terms are not
    considered, and neither is growth that a varying velocity itself causes.

    References
    ----------
    .. [1] A. C. Hindmarsh, P. M. Gresho, D. F. Griffiths, Int. J. Numer. Methods Fluids 4 (1984) 853-897.

    Examples
    --------
    >>> from spectralops import stable_dt
    >>> stable_dt(0.5, nu=0.25)
    0.5
    >>> stable_dt((0.5, 0.5), velocity=(2.0, -1.0), scheme="upwind")
    0.16666666666666666
    """
    op = "stable_dt"
    _checks.choice(op, "integrator", integrator, tuple(schemes.STAGES))
    winds = () if velocity is None else tuple(velocity) if isinstance(velocity, Sequence) else (velocity,)
    spacing = _spacings(op, dx, len(winds) or None, "velocity")
    _largest(op, "nu", (nu,), [1.0], signed=False)
    _largest(op, "velocity", winds, [1.0] * len(winds), signed=True)
    _arrays.common_home(op, _homes(op, nu=nu, velocity=winds) or {"dx": _arrays.HOST})
    if winds and scheme is None:
        raise ValueError(f"{op}: scheme is None, but must name the differences of the advection; pass scheme")
    if scheme is not None:
        _checks.choice(op, "scheme", scheme, terms.SCHEMES)
    advection = ((winds, str(scheme)),) if winds else ()
    return field_stability.stable_dt(spacing, (nu,), advection, integrator)


def _homes(op: str, **values: Any) -> dict[str, _arrays.Home]:
    """Homes of the arrays among arguments that may be sequences."""
    return {
        name: _arrays.describe(op, name, value)[0]
        for name, entry in values.items()
        for value in (entry if isinstance(entry, tuple) else (entry,))
        if _arrays.is_array(value)
    }


def _spacings(op: str, dx: Any, count: int | None, name: str) -> tuple[float, ...]:
    """Positive cell sizes, as many as the argument `name` has axes (None: as many as there are)."""
    entries = _checks.entries(dx)
    if count == 1 and entries not in (None, 1):
        raise ValueError(f"{op}: {name} is one value, but must have {entries} entries, one per entry of dx")
    sizes = _checks.per_axis(op, "dx", dx, count or entries or 1)
    return tuple(_checks.positive(op, "dx", h) for h in sizes)


def _largest(op: str, name: str, values: tuple[Any, ...], factors: list[float], *, signed: bool) -> float:
    """Maximum over all points of the sum of |value| * factor, as a Python float."""
    constant: float = 0.0
    field: Any = None
    homes = {}
    for index, (value, factor) in enumerate(zip(values, factors, strict=True)):
        if not _arrays.is_array(value):
            number = _checks.number(op, name, value)
            low, term = number, abs(number) * factor
            constant += term
        else:
            label = f"{name}[{index}]" if len(values) > 1 else name
            homes[label], spec = _arrays.describe(op, label, value)
            if _checks.dtype(op, spec.dtype, label).startswith("complex"):
                raise TypeError(f"{op}: {label} has dtype {spec.dtype}, but must be real")
            home = _arrays.common_home(op, homes)
            if 0 in spec.shape:
                continue
            xp = compat.array_namespace(value)
            real = xp.astype(value, getattr(xp, sum_dtype(home, spec.dtype)), copy=False)
            low = float(xp.min(real))
            field = xp.abs(real) * factor if field is None else field + xp.abs(real) * factor
        if not signed and low < 0:
            raise ValueError(f"{op}: {name} has {low}, but must not be negative")
    largest = constant if field is None else constant + float(compat.array_namespace(field).max(field))
    if not math.isfinite(largest):
        raise ValueError(f"{op}: {name} has NaN or infinite values, but must be finite")
    return largest


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
    cell = math.prod(_checks.positive(op, "dx", h) for h in _checks.per_axis(op, "dx", dx, len(where)))
    for name, factor in (("weights", weights), ("mask", mask)):
        if factor is None:
            continue
        homes[name], other = _arrays.describe(op, name, factor)
        _arrays.common_home(op, homes)
        if not _fits(other.shape, spec.shape):
            raise ValueError(f"{op}: {name} has shape {other.shape}, but must broadcast to u's shape {spec.shape}")
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
    if not isinstance(states, Iterable):
        raise TypeError(f"{op}: states is a {type(states).__name__}, but must be an array or an iterable of arrays")
    changes: list[float] = []
    before: Any = None
    count = 0
    for state in _along_first(states) if _arrays.is_array(states) else states:
        home, spec = _arrays.describe(op, f"states[{count}]", state)
        if before is not None:
            changes.append(_change(op, count, before, (home, spec, state), norm))
        before = (home, spec, state)
        count += 1
    result = np.array(changes)
    if times is None:
        return result
    intervals = np.diff(np.asarray(times, dtype=np.float64))
    if len(times) != count:
        raise ValueError(f"{op}: times has {len(times)} entries, but must have {count}, one per state")
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
