r"""Finite-difference schemes as data: what one forward Euler stage does to a field, to the last rounding.

Order of operations
-------------------
Every executor of the steps computes a stage exactly as follows, so that all of them agree bit for bit. Each ``+ - * /``
below is one operation rounded to the compute type, never contracted. Coefficients are formed in float64 and rounded
once to the compute type. uL and uR are the cells on either side of a face, d = uR - uL; "axes last to first" means
the order of the array's dimensions. A face of a cell where the mask is False is closed: d := 0 there.

A stage maps u to E(u) = u + dt * rhs(u), accumulated in this order:

1. Linear part (:class:`Linear`): ``acc = c0 * u``; then for each tap, axes last to first, near to far, low side
   first, ``acc = acc + w * (u[-k] + u[+k])`` where both sides have the same weight, else ``acc = acc + w * u[k]`` for
   each side whose weight is not zero. Without a linear part ``acc = u``. Weights that depend on arrays are formed in
   float64 as ``(constant + factor * array) + factor * array …``; c0 is 1 plus such a weight.
2. Diffusion as flux differences (:class:`FluxDiffusion`), axes last to first: ``F = A * d`` on every face,
   ``A = (nuL + nuR) * factor``, or ``A = factor`` for a number nu; F := 0 on closed faces;
   ``acc = acc + (F_high - F_low)``.
3. Transport (:class:`Transport`), terms in the caller's order, axes last to first. With the correction G below, the
   value at a face is fL = uL + G when the wind blows to higher indices (or stands still), fR = uR - G when it blows
   to lower ones; the central one is f = uL + uR, its half being part of the factor.
   Advective form: ``T = G_high + (d_low - G_low)`` for the first, ``T = (d_high - G_high) + G_low`` for the second, by
   the sign of the cell's velocity (upwind, without G: ``d_low``, ``d_high``), and ``T = u[+1] - u[-1]`` for central,
   or ``T = d_high + d_low`` where there is a mask; G := 0 on closed faces. ``acc = acc - T * factor`` for a number
   velocity, else ``acc = acc - (T * v) * factor``.
   Flux form: ``F = f * factor`` for a number velocity; ``F = f * V`` with ``V = (vL + vR) * factor``, whose sign
   chooses fL or fR, for an array; for u itself ``F = (pL + mR) * factor`` after Engquist and Osher, where pL is fL of
   the field ``max(u, 0)**2`` and mR is fR of ``min(u, 0)**2``, ghosts included, central
   ``F = (uL * uL + uR * uR) * factor``; F := 0 on closed faces. ``acc = acc - (F_high - F_low)``.
4. Sources: ``acc = acc + s * dt``; 5. pointwise terms: ``acc = acc + f(u) * dt``.
6. Cells held by the boundary and cells outside the mask take the value they had before the step.

An increment dt * rhs(u) is the same without the 1 in c0 (formed in float64), or from ``acc = 0``.

Corrections G, from the differences a, b, c, e over four consecutive faces, of which c is the face itself and a, b
lie upwind; G uses them mirrored (a, b downwards in index for fL, upwards for fR), so that reflection is exact. Behind
a closed face all differences count as 0, seen from the face that is computed.

* upwind: none (G = 0). upwind3: ``G = (b + (c + c)) * (1/6)``.
* weno5: the three parabolas' corrections ``5b - 2a``, ``b + 2c``, ``4c - e`` with weights 1, 6, 3 tenths times
  ``1 + q**2``, ``q = tau / (beta + s)``, tau = ``|beta0 - beta2|``,
  ``beta = 13/12 (second difference)**2 + 1/4 (first difference)**2``: WENO-Z [1]_ on the smoothness indicators
  of [2]_. The guard against division by zero, s, grows with the field (1e-6 of the sum of the squared
  differences, plus the smallest normal number), so that the scheme does not depend on the units of u; see [3]_.

Integrators: ``euler`` u' = E(u). ``rk2`` (Heun) u1 = E(u), u' = (u + E(u1)) * 1/2. ``ssprk3`` [4]_ u1 = E(u),
u2 = 3/4 * u + 1/4 * E(u1), u' = 1/3 * u + 2/3 * E(u2). ``rk4`` with increments k: k1 = k(u), k2 = k(u + 1/2 * k1),
k3 = k(u + 1/2 * k2), k4 = k(u + k3), u' = u + (((k1 + 2 * k2) + 2 * k3) + k4) * 1/6. After each stage, 6 holds.

.. [1] R. Borges, M. Carmona, B. Costa, W. S. Don, J. Comput. Phys. 227 (2008) 3191.
.. [2] G.-S. Jiang, C.-W. Shu, J. Comput. Phys. 126 (1996) 202.
.. [3] W. S. Don, R. Li, B.-S. Wang, Y. Wang, A novel and robust scale-invariant WENO scheme for hyperbolic
   conservation laws, J. Comput. Phys. (2022): the same aim by another guard.
.. [4] C.-W. Shu, S. Osher, J. Comput. Phys. 77 (1988) 439.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spectralops._plans.terms import Advection, Diffusion, Field, SelfAdvection, Source, Term

__all__ = ["FluxDiffusion", "Linear", "Tap", "Transport", "Update", "Weight", "assemble", "width"]

# Ghost layers that each scheme reads.
WIDTH = {"central": 1, "upwind": 1, "upwind3": 2, "weno5": 3}
# Weights of h * du/dx in the wind that blows towards higher indices; mirrored in sign and place for the other wind.
DERIVATIVE = {
    "central": {-1: -1 / 2, 1: 1 / 2},
    "upwind": {-1: -1.0, 0: 1.0},
    "upwind3": {-2: 1 / 6, -1: -1.0, 0: 1 / 2, 1: 1 / 3},
}
# Stages of each integrator, each of which widens the reach of a step once more.
STAGES = {"euler": 1, "rk2": 2, "ssprk3": 3, "rk4": 4}
# Operations per cell of a correction G, and of combining stages into a step.
CORRECTION_FLOPS = {"upwind3": 3, "weno5": 65}
STAGE_FLOPS = {"euler": 0, "rk2": 2, "ssprk3": 6, "rk4": 14}


@dataclass(frozen=True, slots=True)
class Weight:
    """A coefficient ``constant + sum(factor * operand)``; the parts are (operand, factor)."""

    constant: float = 0.0
    parts: tuple[tuple[int, float], ...] = ()

    def __bool__(self) -> bool:
        return self.constant != 0.0 or bool(self.parts)


@dataclass(frozen=True, slots=True)
class Tap:
    """One neighbour, or a pair with a common weight: the offsets along an axis of the array."""

    axis: int
    offsets: tuple[int, ...]
    weight: Weight


@dataclass(frozen=True, slots=True)
class Linear:
    """The constant-coefficient part of a stage: ``center * u + sum(weight * neighbours)``."""

    center: Weight
    taps: tuple[Tap, ...]


@dataclass(frozen=True, slots=True)
class FluxDiffusion:
    """div(nu grad u) along one axis as a difference of face fluxes; `nu` None: the factor holds it."""

    axis: int
    nu: Field | None
    factor: float


@dataclass(frozen=True, slots=True)
class Transport:
    """Advection along one axis that is not linear with constant coefficients.

    `velocity` is an array, None for u itself, or a number, which the factor then holds and whose sign is `wind`
    (0 where the sign is only known cell by cell, or does not matter). `masked`: whether faces may be closed.
    """

    axis: int
    scheme: str
    form: str
    velocity: Field | float | None
    factor: float
    wind: int
    masked: bool = False

    @property
    def flops(self) -> int:
        """Operations per cell."""
        sides = 1 if self.wind else 2
        number = isinstance(self.velocity, float)
        if self.scheme == "central":
            values = 1 + self.masked if self.form == "advective" else 3 if self.velocity is None else 1
        elif self.scheme == "upwind":
            values = 1 if self.form == "advective" else 0
        else:
            values = 1 + sides * (CORRECTION_FLOPS[self.scheme] + (2 if self.form == "advective" else 1))
        if self.form == "advective":
            return values + (2 if number else 3)
        if self.velocity is None and self.scheme != "central":
            values += 5  # two squares of clipped values and their sum
        return values + (5 if isinstance(self.velocity, Field) else 3)


@dataclass(frozen=True, slots=True)
class Update:
    """What one stage computes, in the order of this module's docstring."""

    linear: Linear | None
    diffusion: tuple[FluxDiffusion, ...]
    transport: tuple[Transport, ...]
    sources: tuple[tuple[float | Field, float], ...]
    pointwise: tuple[Callable[[Any], Any], ...]
    dt: float

    @property
    def flops(self) -> int:
        """Operations per cell of one stage; a pointwise function counts as one."""
        count = 0
        if self.linear is not None:
            count += 1 + sum(len(tap.offsets) + 1 for tap in self.linear.taps)
        count += sum(4 if part.nu is None else 6 for part in self.diffusion)
        count += sum(part.flops for part in self.transport)
        return count + 2 * len(self.sources) + 3 * len(self.pointwise)


def width(term: Term, j: int) -> int:
    """Ghost layers that a term reads along the `j`-th stepped axis."""
    if isinstance(term, Diffusion):
        return 1
    if isinstance(term, Advection):
        return WIDTH[term.scheme] if term.velocity[j] != 0.0 else 0
    return WIDTH[term.scheme] if isinstance(term, SelfAdvection) else 0


def assemble(
    terms: tuple[Term, ...],
    axes: tuple[int, ...],
    spacing: tuple[float, ...],
    dt: float,
    constant: frozenset[int],
    masked: bool,
) -> Update:
    """The update of terms with canonical coefficients, on sorted `axes` of the array with their `spacing`.

    `constant` are the operands that do not vary along the stepped axes. A mask leaves nothing to the linear part,
    since closed faces make its weights vary.
    """
    constants: dict[tuple[int, int], float] = {}
    parts: dict[tuple[int, int], tuple[tuple[int, float], ...]] = {}
    diffusion: list[FluxDiffusion] = []
    transport: list[Transport] = []
    sources: list[tuple[float | Field, float]] = []
    pointwise: list[Callable[[Any], Any]] = []
    last_to_first = range(len(axes) - 1, -1, -1)

    def add(axis: int, offset: int, coefficient: float | Field, factor: float) -> None:
        place = (axis, offset)
        if isinstance(coefficient, Field):
            parts[place] = (*parts.get(place, ()), (coefficient.operand, factor))
        else:
            constants[place] = constants.get(place, 0.0) + factor * coefficient

    for term in terms:
        if isinstance(term, Diffusion):
            nu = term.nu
            linear = not masked and not (isinstance(nu, Field) and nu.operand not in constant)
            for j in last_to_first:
                axis, rate = axes[j], dt / (spacing[j] * spacing[j])
                if linear:
                    add(axis, -1, nu, rate)
                    add(axis, 1, nu, rate)
                    add(-1, 0, nu, -2.0 * rate)
                elif isinstance(nu, Field):
                    diffusion.append(FluxDiffusion(axis, nu, 0.5 * rate))
                else:
                    diffusion.append(FluxDiffusion(axis, None, nu * rate))
        elif isinstance(term, Advection):
            for j in last_to_first:
                v = term.velocity[j]
                if v == 0.0:
                    continue
                if isinstance(v, float) and term.scheme in DERIVATIVE and not masked:
                    wind = 1 if v > 0 else -1
                    for offset, weight in DERIVATIVE[term.scheme].items():
                        add(axes[j] if offset else -1, wind * offset, v, -wind * weight * dt / spacing[j])
                else:
                    transport.append(_transport(axes[j], term, v, dt / spacing[j], masked))
        elif isinstance(term, SelfAdvection):
            transport += [_transport(axes[j], term, None, dt / spacing[j], masked) for j in last_to_first]
        elif isinstance(term, Source):
            if term.rate != 0.0:
                sources.append((term.rate, dt))
        else:
            pointwise.append(term.function)
    weights = {place: Weight(constants.get(place, 0.0), parts.get(place, ())) for place in {**constants, **parts}}
    return Update(
        _linear(weights, axes) if weights else None,
        tuple(diffusion),
        tuple(transport),
        tuple(sources),
        tuple(pointwise),
        dt,
    )


def _linear(weights: dict[tuple[int, int], Weight], axes: tuple[int, ...]) -> Linear:
    none = Weight()
    center = weights.pop((-1, 0), none)
    taps = []
    for axis in reversed(axes):
        for k in (1, 2):
            low, high = weights.get((axis, -k), none), weights.get((axis, k), none)
            if low == high:
                if low:
                    taps.append(Tap(axis, (-k, k), low))
                continue
            taps += [Tap(axis, (offset,), weight) for offset, weight in ((-k, low), (k, high)) if weight]
    return Linear(center, tuple(taps))


def _transport(
    axis: int, term: Advection | SelfAdvection, velocity: Field | float | None, rate: float, masked: bool
) -> Transport:
    """One transport; its factor is dt / h, halved for each mean that it makes of a sum, times a number velocity."""
    scheme, form = term.scheme, term.form
    factor = rate * 0.5 if scheme == "central" else rate
    if form == "flux" and not isinstance(velocity, float):
        factor *= 0.5
    if not isinstance(velocity, float):
        return Transport(axis, scheme, form, velocity, factor, 0, masked)
    wind = 0 if scheme == "central" else (1 if velocity > 0 else -1)
    return Transport(axis, scheme, form, velocity, factor * velocity, wind, masked)
