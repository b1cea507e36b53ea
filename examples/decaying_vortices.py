"""Two-dimensional turbulence, w_t + J(psi, w) = nu lap w with lap psi = w: your own right-hand side, our operators."""

import numpy as np

import spectralops as so
from spectralops import transfer

n, dt, nu = 64, 0.01, 1e-3
spacing = (2 * np.pi / n, 2 * np.pi / n)
rng = np.random.default_rng(0)
w = so.spectral_filter(rng.standard_normal((n, n)), transfer.bandpass(wavenumber=(3.0, 6.0)), spacing=spacing)


def tendency(w: np.ndarray) -> np.ndarray:
    """-u w_x - v w_y without aliases, plus viscosity."""
    psi = so.spectral_filter(w, transfer.inverse_laplacian(), spacing=spacing)
    psi_y, psi_x, w_y, w_x = (
        so.spectral_filter(field, transfer.derivative(axis=axis), spacing=spacing)
        for field in (psi, w)
        for axis in (0, 1)
    )
    advection = so.spectral_filter(psi_x * w_y - psi_y * w_x, transfer.dealias(), spacing=spacing)
    return nu * so.spectral_filter(w, transfer.laplacian(), spacing=spacing) - advection


def step(w: np.ndarray, dt: float = dt) -> np.ndarray:
    """Classical fourth-order Runge-Kutta."""
    a = tendency(w)
    b = tendency(w + dt / 2 * a)
    c = tendency(w + dt / 2 * b)
    return w + dt / 6 * (a + 2 * b + 2 * c + tendency(w + dt * c))


run = so.solve(step, w, steps=50, save_every=25)
for t, state in zip(run.times, run.snapshots, strict=True):
    enstrophy, circulation = float(so.energy(state, spacing)), float(so.total(state, spacing))
    print(f"t = {t:.2f}: enstrophy {enstrophy:.4f}, circulation {circulation:+.1e}")
assert float(so.energy(run.u, spacing)) < float(so.energy(w, spacing))
