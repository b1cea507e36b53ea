"""Numbers that tell whether a run is sound: stability, budgets, change per step, spectra, checks of every call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import array_api_compat as compat

from spectralops import _arrays, _checks
from spectralops._plans import field_stability, schemes, terms
from spectralops._plans.field_stability import sum_dtype
from spectralops.budgets import energy, residuals, total
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
    entries = _components(op, velocity)
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
    winds = () if velocity is None else _components(op, velocity)
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


def _components(op: str, velocity: Any) -> tuple[Any, ...]:
    """The components of a velocity, at least one."""
    if _checks.entries(velocity) == 0:
        raise ValueError(f"{op}: velocity is empty, but must have one component per axis")
    return (velocity,) if _checks.entries(velocity) is None else tuple(velocity)


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
    return tuple(_checks.length(op, "dx", h) for h in sizes)


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
