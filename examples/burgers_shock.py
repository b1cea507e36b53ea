"""A sine steepens into a shock: the time loop picks a stable step and keeps snapshots."""

from functools import partial

import numpy as np

import spectralops as so

n = 400
dx = 2.0 / n
x = -1 + dx * (np.arange(n) + 0.5)
step = partial(so.diffuse_convect_step, dx=dx, nu=0.01, bc=so.Dirichlet(0.0))

run = so.solve(step, -np.sin(np.pi * x), t_end=1.0, dt=0.0005, save_every=0.25)
for t, u in zip(run.times, run.snapshots, strict=True):
    print(f"t = {t:.2f}: steepest slope {np.abs(np.gradient(u, dx)).max():6.2f}, energy {float(so.energy(u, dx)):.4f}")
assert float(so.energy(run.u, dx)) < float(so.energy(run.snapshots[0], dx))
