"""The Burgers shock of Basdevant et al. (1986) against the exact Cole-Hopf solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import spectralops as so

__all__ = ["HEAD_SLOPE", "HEAD_TIME", "NU", "POSITIONS", "TIMES", "exact", "run_shock", "slope_at_zero"]

NU = 0.01 / math.pi
POSITIONS = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90)
TIMES = (1 / math.pi, 0.5, 2 / math.pi, 3 / math.pi, 1.0)
# The steepest slope that the solution ever has, and its time: Basdevant et al., Computers & Fluids 14, 23 (1986).
HEAD_TIME, HEAD_SLOPE = 1.6037 / math.pi, 152.00516


def exact(x: float, t: float) -> float:
    """u(x, t) for u(x, 0) = -sin(pi x): the Cole-Hopf formula, by the trapezoidal rule (converges exponentially)."""
    width = math.sqrt(4 * NU * t)
    eta = np.linspace(-15 * width, 15 * width, 8001)  # the other factor of the integrand grows by up to exp(100)
    weight = np.exp(-np.cos(np.pi * (x - eta)) / (2 * np.pi * NU) - (eta / width) ** 2)
    return float(-(np.sin(np.pi * (x - eta)) * weight).sum() / weight.sum())


def run_shock(cells: int = 4000) -> tuple[Any, dict[float, Any], int]:
    """Step u_t + u u_x = NU u_xx on [-1, 1] by central differences, the ends held; fields at all times, steps taken."""
    x = np.linspace(-1.0, 1.0, cells + 1)
    dx = 2.0 / cells
    u, now, taken, fields = -np.sin(np.pi * x), 0.0, 0, {}
    for time in sorted((*TIMES, HEAD_TIME)):
        steps = math.ceil((time - now) / (0.4 * dx**2 / NU))
        u = so.diffuse_convect_step(u, dx, (time - now) / steps, NU, bc=so.Hold(), steps=steps)
        fields[time], now, taken = u, time, taken + steps
    return x, fields, taken


def slope_at_zero(u: Any, dx: float) -> float:
    """|u_x| at the middle of an odd number of points, by the fourth-order central difference."""
    middle = len(u) // 2
    near, far = u[middle + 1] - u[middle - 1], u[middle + 2] - u[middle - 2]
    return abs(float(8 * near - far)) / (12 * dx)
