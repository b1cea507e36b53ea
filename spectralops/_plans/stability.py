r"""The largest stable time step of an explicit scheme, from its amplification factor.

A Fourier mode exp(i sum_a theta_a j_a) of a linear scheme with constant coefficients is multiplied by R(z) in each
step, z = dt * lambda(theta), R the integrator's stability polynomial and lambda the symbol of the discretised
right-hand side. A step is stable if abs(R) <= 1 for every theta. With r_a = nu dt / h_a**2 and C_a = v_a dt / h_a
that is exactly

* forward Euler, diffusion: sum(r_a) <= 1/2;
* forward Euler, central advection and diffusion: sum(r_a) <= 1/2 and sum(C_a**2 / (2 r_a)) <= 1 [1]_;
* forward Euler, first-order upwind advection and diffusion: sum(abs(C_a)) + 2 sum(r_a) <= 1, at theta = pi;
* any integrator, diffusion: 4 sum(r_a) within its interval on the negative real axis;
* any integrator, central advection: sum(abs(C_a)) within its interval on the imaginary axis;

and for the rest the condition is evaluated on a grid of theta, refined around its worst point. The nonlinear ``weno5``
is judged by the linear fifth-order upwind scheme that it is where u is smooth.

The bounds hold for waves of every length. Where they are 0, because long waves grow with every dt, a finite grid is
still stable with very small steps, as it has a longest wave [2]_: too small to be of use, and not counted here.

.. [1] A. C. Hindmarsh, P. M. Gresho, D. F. Griffiths, Int. J. Numer. Methods Fluids 4 (1984) 853.
.. [2] M. Motamed, C. B. Macdonald, S. J. Ruuth, J. Sci. Comput. 47 (2011) 127.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from spectralops._plans.schemes import DERIVATIVE
from spectralops.errors import StabilityError, StabilityWarning

__all__ = ["amplification", "judge", "largest_stable_dt", "symbol"]

# One advection: (velocity along each axis, scheme).
Advections: TypeAlias = tuple[tuple[tuple[float, ...], str], ...]

# Stability polynomials R(z) of the integrators, lowest power first, and how far they stay within 1 in modulus along
# the negative real axis and along the imaginary one.
POLYNOMIAL = {
    "euler": (1.0, 1.0),
    "rk2": (1.0, 1.0, 1 / 2),
    "ssprk3": (1.0, 1.0, 1 / 2, 1 / 6),
    "rk4": (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24),
}
REAL_AXIS = {"euler": 2.0, "rk2": 2.0, "ssprk3": 2.5127453266183286, "rk4": 2.785293563405282}
IMAGINARY_AXIS = {"euler": 0.0, "rk2": 0.0, "ssprk3": math.sqrt(3.0), "rk4": math.sqrt(8.0)}
# Weights of h * du/dx of the linear scheme behind weno5.
LINEAR_DERIVATIVE = DERIVATIVE | {"weno5": {-3: -1 / 30, -2: 1 / 4, -1: -1.0, 0: 1 / 3, 1: 1 / 2, 2: -1 / 20}}
# Growth per step that counts as none, and how far a dt at the bound may lie above it by rounding.
GROWTH = 1e-10
SLACK = 1e-12


def symbol(theta: Any, spacing: float, nu: float, advection: tuple[tuple[float, str], ...]) -> Any:
    """Eigenvalues lambda [1/T] of one axis for modes of phase `theta` per cell; (velocity, scheme) per advection."""
    value = -4.0 * nu / (spacing * spacing) * np.sin(theta / 2) ** 2 + 0j
    for velocity, scheme in advection:
        wind = 1 if velocity > 0 else -1
        waves = [wind * w * np.exp(1j * wind * k * theta) for k, w in LINEAR_DERIVATIVE[scheme].items()]
        value = value - velocity / spacing * sum(waves)
    return value


def amplification(z: Any, integrator: str) -> Any:
    """Factor R(z) by which one step multiplies a mode with z = dt * lambda."""
    result = 0.0 * z
    for coefficient in reversed(POLYNOMIAL[integrator]):
        result = result * z + coefficient
    return result


@lru_cache(maxsize=512)
def largest_stable_dt(
    spacing: tuple[float, ...], nu: float = 0.0, advection: Advections = (), integrator: str = "euler"
) -> float:
    """Largest dt for which every mode of the linear scheme is stable: infinite without terms, 0 if there is none.

    Parameters
    ----------
    spacing : tuple of float
        Cell size along each stepped axis [L].
    nu : float
        Sum of the diffusivities, for fields their maximum [L²/T].
    advection : tuple of (velocity, scheme)
        Velocity along each axis, for fields the largest in modulus [L/T], and the name of the scheme.
    integrator : str
        ``"euler"``, ``"rk2"``, ``"ssprk3"`` or ``"rk4"``.
    """
    moving = tuple((v, scheme) for v, scheme in advection if any(v))
    schemes = {scheme for _, scheme in moving}
    curvature = math.fsum(1.0 / (h * h) for h in spacing)
    diffusive = REAL_AXIS[integrator] / (4.0 * nu * curvature) if nu > 0.0 else math.inf
    if not moving:
        return diffusive
    if integrator == "euler":
        if schemes == {"upwind"}:
            rates = math.fsum(abs(c) / h for v, _ in moving for c, h in zip(v, spacing, strict=True))
            return 1.0 / (rates + 2.0 * nu * curvature)
        limit = min(diffusive, _long_waves(spacing, nu, moving))
        return limit if schemes == {"central"} or limit == 0.0 else min(limit, _scan(spacing, nu, moving, integrator))
    if nu == 0.0 and schemes == {"central"}:
        return _ratio(IMAGINARY_AXIS[integrator], (abs(c) / h for c, h in zip(_total(moving), spacing, strict=True)))
    if nu == 0.0 and integrator == "rk2" and schemes <= {"central", "weno5"}:
        return 0.0  # long waves grow by |z|**4 / 8 a step, which is more than a fifth-order scheme damps
    return _scan(spacing, nu, moving, integrator)


def _total(advection: Advections) -> list[float]:
    """Sum of the velocities along each axis."""
    return [math.fsum(components) for components in zip(*(v for v, _ in advection), strict=True)]


def _ratio(numerator: float, parts: Iterable[float]) -> float:
    total = math.fsum(parts)
    return numerator / total if total else math.inf


def _long_waves(spacing: tuple[float, ...], nu: float, advection: Advections) -> float:
    """Bound sum(C**2 / (2 r)) <= 1 of forward Euler, where r contains the damping of first-order upwind schemes.

    It is exact for long waves of every scheme here, since those of higher order do not damp them at this order.
    """
    parts = []
    for a, (velocity, h) in enumerate(zip(_total(advection), spacing, strict=True)):
        damping = nu + math.fsum(abs(v[a]) * h / 2 for v, scheme in advection if scheme == "upwind")
        if velocity != 0.0:
            parts.append(velocity * velocity / (2.0 * damping) if damping else math.inf)
    return _ratio(1.0, parts)


def _scan(spacing: tuple[float, ...], nu: float, advection: Advections, integrator: str) -> float:
    """Largest stable dt on a grid of modes that closes in on the worst one."""
    d = len(spacing)
    points = {1: 721, 2: 97}.get(d, 25)
    ranges = [(0.0 if a == 0 else -math.pi, math.pi) for a in range(d)]
    bound = math.inf
    for _ in range(4):
        theta = [np.linspace(low, high, points) for low, high in ranges]
        values: Any = np.zeros((1,) * d, complex)
        for a in range(d):
            along = symbol(theta[a], spacing[a], nu, tuple((v[a], scheme) for v, scheme in advection))
            values = values + along.reshape([-1 if b == a else 1 for b in range(d)])
        bound, place = _bisect(values.ravel(), integrator, bound)
        worst = np.unravel_index(place, values.shape)
        ranges = [
            (float(t[max(int(i) - 2, 0)]), float(t[min(int(i) + 2, points - 1)]))
            for t, i in zip(theta, worst, strict=True)
        ]
    return bound


def _bisect(values: Any, integrator: str, high: float) -> tuple[float, int]:
    """Largest dt up to `high` that keeps all eigenvalues stable, and the place of the one that limits it.

    A mode that is stable with some dt is stable with every smaller one, so that ever fewer are left to look at.
    """

    def growth(dt: float, places: Any) -> Any:
        return np.abs(amplification(dt * values[places], integrator))

    low, high = 0.0, min(high, 4.0 / float(np.abs(values).max()))  # no integrator is stable where |z| >= 4
    places = np.arange(values.size)
    first = growth(high, places)
    if first.max() <= 1.0 + GROWTH:
        return high, int(np.argmax(first))
    places = places[first > 1.0 + GROWTH]
    for _ in range(48):
        middle = 0.5 * (low + high)
        unstable = growth(middle, places) > 1.0 + GROWTH
        if unstable.any():
            high, places = middle, places[unstable]
        else:
            low = middle
    return low, int(places[np.argmax(growth(high, places))])


def judge(op: str, dt: float, bound: float, scheme: str, on_unstable: str, stacklevel: int) -> None:
    """Raise or warn, as `on_unstable` says, if `dt` is above the `bound` of the `scheme` in words.

    Raises
    ------
    StabilityError
        With the bound as `stable_dt`.
    """
    if on_unstable == "ignore" or dt <= bound * (1.0 + SLACK):
        return
    if bound > 0.0:
        message = (
            f"{op}: dt is {dt:.6g}, {dt / bound:.3g} times the stability bound of {scheme}, "
            f"but must be at most {bound:.6g}; reduce dt, or pass on_unstable='warn' or 'ignore'"
        )
    else:
        message = (
            f"{op}: dt is {dt:.6g}, but must be 0, since {scheme} amplifies long waves with every dt; take "
            "scheme='upwind', a larger nu, or pde_step with integrator='ssprk3', or pass on_unstable='warn' or 'ignore'"
        )
    if on_unstable == "warn":
        warnings.warn(message, StabilityWarning, stacklevel=stacklevel)
    else:
        raise StabilityError(message, bound or None)
