"""Explicit time steps cell by cell, in float64 and in the textbook's form: what the steps mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.steps import StepPlan

__all__ = ["convection_step", "diffuse_convect_step", "diffusion_step", "pde_step"]

# Butcher tableaus: (rows of a, b).
TABLEAU: dict[str, tuple[list[list[float]], list[float]]] = {
    "euler": ([[]], [1.0]),
    "rk2": ([[], [1.0]], [1 / 2, 1 / 2]),
    "ssprk3": ([[], [1.0], [1 / 4, 1 / 4]], [1 / 6, 1 / 6, 2 / 3]),
    "rk4": ([[], [1 / 2], [0.0, 1 / 2], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
}


def pde_step(plan: StepPlan, u: Any, *fields: Any, out: Any, workers: int) -> None:
    """Write u after `plan.steps` steps to `out`."""
    if not out.size:
        return
    system = System(plan, fields)
    rows, weights = TABLEAU[plan.integrator]
    field = np.where(system.computed, u, 0.0).astype(np.float64)
    with np.errstate(all="ignore"):
        for _ in range(plan.steps):
            slopes: list[Any] = []
            for row in rows:
                stage = field + plan.dt * sum((a * k for a, k in zip(row, slopes, strict=True)), np.zeros(field.shape))
                slopes.append(np.where(system.updated, system.tendency(stage), 0.0))
            change = plan.dt * sum(b * k for b, k in zip(weights, slopes, strict=True))
            field = np.where(system.updated, field + change, field)
        out[...] = np.where(system.computed, field, u)


diffusion_step = convection_step = diffuse_convect_step = pde_step


class System:
    """The semi-discrete equation u_t = tendency(u) of a plan and its array coefficients."""

    def __init__(self, plan: StepPlan, fields: tuple[Any, ...]) -> None:
        geometry = plan.geometry
        self.plan = plan
        self.shape = geometry.shape
        self.fields = fields
        mask = True if geometry.mask is None else fields[geometry.mask - 1]
        self.computed = np.broadcast_to(mask, self.shape)
        self.updated = self.computed.copy()
        for axis, (low, high) in zip(geometry.axes, geometry.held, strict=True):
            ends = np.moveaxis(self.updated, axis, 0)
            if low:
                ends[:1] = False
            if high:
                ends[-1:] = False

    def values(self, coefficient: Any) -> Any:
        """A coefficient in every cell."""
        value = coefficient if isinstance(coefficient, float) else self.fields[coefficient.operand - 1]
        return np.broadcast_to(np.asarray(value, dtype=np.float64), self.shape)

    def tendency(self, u: Any) -> Any:
        """du/dt in every cell."""
        total = np.zeros(self.shape)
        for term in self.plan.terms:
            kind = type(term).__name__
            if kind == "Source":
                total += self.values(term.rate)  # type: ignore[union-attr]
            elif kind == "Pointwise":
                total += term(u)  # type: ignore[operator]
            else:
                for j, axis in enumerate(self.plan.geometry.axes):
                    self._add_along(term, kind, j, axis, u, total)
        return total

    def _add_along(self, term: Any, kind: str, j: int, axis: int, u: Any, total: Any) -> None:
        if kind == "Diffusion":
            coefficient = self.values(term.nu)
        elif kind == "Advection":
            if term.velocity[j] == 0.0:
                return
            coefficient = self.values(term.velocity[j])
        else:
            coefficient = u
        arrays = [np.moveaxis(x, axis, -1) for x in (u, coefficient, self.computed, total)]
        for place in np.ndindex(arrays[0].shape[:-1]):
            cells, c, computed, result = (x[place] for x in arrays)
            line = Line(self.plan, j, cells.tolist(), c.tolist(), computed.tolist())
            for i in range(len(cells)):
                if kind == "Diffusion":
                    result[i] += (line.diffusive_flux(i + 1) - line.diffusive_flux(i)) / line.h
                elif term.form == "flux":
                    flux = line.square_flux if kind == "SelfAdvection" else line.flux
                    result[i] -= (flux(i + 1, term.scheme) - flux(i, term.scheme)) / line.h
                else:
                    result[i] -= c[i] * line.derivative(i, term.scheme)


class Line:
    """One line of cells with its ghosts; face i lies between the cells i - 1 and i."""

    def __init__(self, plan: StepPlan, j: int, cells: list[float], c: list[float], computed: list[bool]) -> None:
        geometry = plan.geometry
        self.h = geometry.spacing[j]
        self.width = width = geometry.widths[j]
        n = len(cells)
        low: list[tuple[float, float, bool]] = []
        high: list[tuple[float, float, bool]] = []
        for layer in range(width):
            for rules, ghosts, end, mirror, wrap in (
                (geometry.ghosts[j][0], low, 0, layer, (-1 - layer) % n),
                (geometry.ghosts[j][1], high, n - 1, n - 1 - layer, layer % n),
            ):
                rule = rules[layer]
                cell = {"wrap": wrap, "mirror": mirror, "edge": end}[rule.source]
                beyond = cell if rule.source == "wrap" else end
                ghosts.append((rule.scale * cells[cell] + rule.offset, c[beyond], computed[cell]))
        self.cells = low[::-1] + list(zip(cells, c, computed, strict=True)) + high

    def u(self, i: int) -> float:
        """Value of a cell or ghost."""
        return self.cells[self.width + i][0]

    def c(self, i: int) -> float:
        """Coefficient of a cell or ghost."""
        return self.cells[self.width + i][1]

    def is_open(self, face: int) -> bool:
        """Whether both cells at a face are computed."""
        return self.cells[self.width + face - 1][2] and self.cells[self.width + face][2]

    def diffusive_flux(self, face: int) -> float:
        """Coefficient times du/dx at a face."""
        if not self.is_open(face):
            return 0.0
        return 0.5 * (self.c(face - 1) + self.c(face)) * (self.u(face) - self.u(face - 1)) / self.h

    def derivative(self, i: int, scheme: str) -> float:
        """du/dx in a cell, upwind by the sign of its coefficient; a closed face has the value of the cell."""
        forward = self.c(i) >= 0.0
        low, high = (self.face_value(face, scheme, forward) if self.is_open(face) else self.u(i) for face in (i, i + 1))
        return (high - low) / self.h

    def flux(self, face: int, scheme: str) -> float:
        """Velocity times u at a face."""
        if not self.is_open(face):
            return 0.0
        velocity = 0.5 * (self.c(face - 1) + self.c(face))
        return velocity * self.face_value(face, scheme, velocity >= 0.0)

    def square_flux(self, face: int, scheme: str) -> float:
        """u**2 / 2 at a face after Engquist and Osher; the mean of both cells for the central scheme."""
        if not self.is_open(face):
            return 0.0
        if scheme == "central":
            return (_square(self.u(face - 1)) + _square(self.u(face))) / 4
        forward = self.face_value(face, scheme, True, lambda u: _square(float(np.maximum(u, 0.0))) / 2)
        backward = self.face_value(face, scheme, False, lambda u: _square(float(np.minimum(u, 0.0))) / 2)
        return forward + backward

    def face_value(
        self, face: int, scheme: str, forward: bool, quantity: Callable[[float], float] = lambda u: u
    ) -> float:
        """Value at a face from the cells around it, counted downwind: cell 0 lies just upwind of it."""

        def v(k: int) -> float:
            """The k-th cell, or the last one before a closed face on the way to it."""
            upwards = (k > 0) == forward
            cell = face if upwards else face - 1
            target = face - 1 + k if forward else face - k
            while cell != target and self.is_open(cell + 1 if upwards else cell):
                cell += 1 if upwards else -1
            return quantity(self.u(cell))

        if scheme == "central":
            return 0.5 * (v(0) + v(1))
        if scheme == "upwind":
            return v(0)
        if scheme == "upwind3":
            return (-v(-1) + 5 * v(0) + 2 * v(1)) / 6
        return weno5(v(-2), v(-1), v(0), v(1), v(2))


def weno5(a: float, b: float, c: float, d: float, e: float) -> float:
    """Fifth-order WENO-Z value to the right of c, with a guard relative to the differences of the cells."""
    parabolas = ((2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6, (2 * c + 5 * d - e) / 6)
    # Indicators from differences, which vanish exactly on equal cells.
    p, q, r, t = b - a, c - b, d - c, e - d
    beta = (
        13 / 12 * _square(q - p) + 1 / 4 * _square(3 * q - p),
        13 / 12 * _square(r - q) + 1 / 4 * _square(q + r),
        13 / 12 * _square(t - r) + 1 / 4 * _square(3 * r - t),
    )
    guard = 1e-6 * (_square(p) + _square(q) + _square(r) + _square(t)) + float(np.finfo(np.float64).tiny)
    tau = abs(beta[0] - beta[2])
    alpha = [share * (1 + _square(tau / (x + guard))) for share, x in zip((0.1, 0.6, 0.3), beta, strict=True)]
    return float(sum(w * p for w, p in zip(alpha, parabolas, strict=True)) / sum(alpha))


def _square(x: float) -> float:
    return x * x  # x**2 raises on overflow
