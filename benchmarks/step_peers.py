"""The peers' ways to take periodic steps, as their users write them. Each factory returns a contestant, or is missing.

The step is u += r (sum of neighbours - 2 d u), and for Burgers minus u (u_x + u_y) dt with central differences,
dt / (2 h) = b. All advance their own field from call to call.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from step_contest import Contestant, Missing

__all__ = ["devito", "gcm_filters_step", "jax_roll", "numpy_out", "numpy_roll", "py_pde", "roll_step", "torch_compiled"]

os.environ.setdefault("DEVITO_LANGUAGE", "C")
os.environ.setdefault("DEVITO_LOGGING", "ERROR")
os.environ.setdefault("DEVITO_ARCH", "gcc")


def load(module: str, package: str) -> Any:
    """A peer's module."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"{package} is not installed") from error


def roll_step(u: Any, r: Any, b: Any, roll: Callable[..., Any], two: Any = 2) -> Any:
    """One step on whole arrays; b is None without self-advection."""
    lower = [roll(u, 1, axis) for axis in range(u.ndim)]
    upper = [roll(u, -1, axis) for axis in range(u.ndim)]
    result = u
    for low, high in zip(lower, upper, strict=True):
        result = result + r * (low + high - two * u)
    if b is None:
        return result
    slope = upper[0] - lower[0]
    for low, high in zip(lower[1:], upper[1:], strict=True):
        slope = slope + (high - low)
    return result - u * (b * slope)


class Advancing:
    """A field that each call of a contestant advances."""

    def __init__(self, u: Any, steps: int, step: Callable[[Any], Any]) -> None:
        self.u, self.steps, self.step = u, steps, step

    def __call__(self) -> None:
        u = self.u
        for _ in range(self.steps):
            u = self.step(u)
        self.u = u


def numpy_roll(u: Any, steps: int, r: float, b: float | None = None) -> Contestant:
    number = u.dtype.type
    factors = number(r), None if b is None else number(b)
    state = Advancing(u.copy(), steps, lambda v: roll_step(v, *factors, np.roll, number(2)))
    return Contestant(state, steps, lambda: state.u)


def numpy_out(u: Any, steps: int, r: float, b: float | None = None) -> Contestant:
    """Slices of padded arrays, every operation with a preallocated `out`: the best that NumPy does."""
    d, number = u.ndim, u.dtype.type
    inner = (slice(1, -1),) * d
    padded = [np.zeros([n + 2 for n in u.shape], u.dtype) for _ in range(2)]
    padded[0][inner] = u
    t, s = np.empty_like(u), np.empty_like(u)
    factor, center = number(r), number(1 - 2 * d * r)

    def moved(axis: int, part: slice) -> tuple[slice, ...]:
        return tuple(part if k == axis else slice(1, -1) for k in range(d))

    low = [moved(axis, slice(0, -2)) for axis in range(d)]
    high = [moved(axis, slice(2, None)) for axis in range(d)]

    def step(of: list[Any]) -> list[Any]:
        a, target = of
        for axis in range(d):
            view = np.moveaxis(a, axis, 0)
            view[0], view[-1] = view[-2], view[1]
        np.add(a[low[0]], a[high[0]], out=t)
        for axis in range(1, d):
            np.add(t, a[low[axis]], out=t)
            np.add(t, a[high[axis]], out=t)
        np.multiply(t, factor, out=t)
        np.multiply(a[inner], center, out=s)
        if b is None:
            np.add(t, s, out=target[inner])
        else:
            np.add(t, s, out=t)
            np.subtract(a[high[0]], a[low[0]], out=s)
            for axis in range(1, d):
                np.add(s, a[high[axis]], out=s)
                np.subtract(s, a[low[axis]], out=s)
            np.multiply(s, number(b), out=s)
            np.multiply(s, a[inner], out=s)
            np.subtract(t, s, out=target[inner])
        return [target, a]

    state = Advancing(padded, steps, step)
    return Contestant(state, steps, lambda: state.u[0][inner])


def torch_compiled(u: Any, steps: int, r: float, b: float | None = None) -> Contestant:
    torch = load("torch", "torch")
    torch.set_num_threads(1)
    compiled = torch.compile(lambda v: roll_step(v, r, b, torch.roll))

    def step(v: Any) -> Any:
        with torch.no_grad():
            return compiled(v)

    state = Advancing(torch.from_numpy(u.copy()), steps, step)
    return Contestant(state, steps, lambda: state.u.numpy())


def jax_roll(u: Any, steps: int, r: float, b: float | None = None) -> Contestant:
    jax = load("jax", "jax")
    jax.config.update("jax_enable_x64", True)
    number = u.dtype.type
    factors = number(r), None if b is None else number(b)

    @jax.jit
    def run(v: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, w: roll_step(w, *factors, jax.numpy.roll, number(2)), v)

    state = Advancing(jax.numpy.asarray(u), 1, lambda v: run(v).block_until_ready())
    return Contestant(state, steps, lambda: np.asarray(state.u))


def py_pde(u: Any, steps: int, r: float, b: float | None = None) -> Contestant:
    """Explicit Euler on py-pde's numba backend, unit spacing and diffusivity, dt = r."""
    pde, solvers = load("pde", "py-pde"), load("pde.solvers", "py-pde")
    grid = pde.CartesianGrid([[0, n] for n in u.shape], u.shape, periodic=True)
    field = pde.ScalarField(grid, u, dtype=u.dtype)
    if b is None:
        equation = pde.DiffusionPDE(diffusivity=1.0, bc="periodic")
    else:
        slope = " + ".join(f"d_d{axis}(u)" for axis in "xyz"[: u.ndim])
        equation = pde.PDE({"u": f"laplace(u) - {2 * b / r} * u * ({slope})"}, bc="periodic")
    stepper = solvers.EulerSolver(equation, backend="numba").make_stepper(field, dt=r)

    def step(state: tuple[Any, float]) -> tuple[Any, float]:
        kept, start = state
        stepper(kept, start, start + steps * r)
        return kept, start + steps * r

    state = Advancing((field, 0.0), 1, step)
    return Contestant(state, steps, lambda: state.u[0].data)


def devito(u: Any, steps: int, r: float, b: float | None = None) -> Contestant:
    """Devito has no periodic ends: zeros lie beyond the grid."""
    if b is not None:
        raise Missing("Devito takes part in diffusion only")
    module = load("devito", "devito")
    grid = module.Grid(shape=u.shape, extent=tuple(n - 1 for n in u.shape), dtype=u.dtype.type)
    v = module.TimeFunction(name="v", grid=grid, time_order=1, space_order=2)
    v.data[:] = u
    dt = grid.stepping_dim.spacing
    operator = module.Operator([module.Eq(v.forward, v + dt * r * v.laplace)])
    state = Advancing(None, 1, lambda _: operator.apply(time_m=0, time_M=steps - 1, dt=1.0) and None)
    return Contestant(state, steps, lambda: np.array(v.data[steps % 2]), interior=True)


def gcm_filters_step(u: Any, steps: int, dt: float, nu: Any, mask: Any) -> Contestant:
    """u + dt div(nu grad u) on gcm-filters' IRREGULAR_WITH_LAND grid, nu at the faces the mean of both cells."""
    kernels = load("gcm_filters.kernels", "gcm-filters")
    number = u.dtype.type
    one = np.ones_like(u)
    west, south = ((nu + np.roll(nu, 1, axis)) * number(0.5) for axis in (1, 0))
    # It wants factors up to exactly 1 somewhere.
    most = max(float(west.max()), float(south.max()))
    laplacian = kernels.IrregularLaplacianWithLandMask(
        mask.astype(u.dtype), one, one, one, one, one, west / number(most), south / number(most)
    )
    factor = number(dt * most)
    state = Advancing(u.copy(), steps, lambda v: v + factor * laplacian(v))
    return Contestant(state, steps, lambda: np.where(mask, state.u, 0.0))
