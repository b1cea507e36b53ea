"""Smooth a sea field to a length scale, then diffuse it: land is never looked at and no heat is lost to it."""

import numpy as np

import spectralops as so

rng = np.random.default_rng(0)
sea = np.ones((60, 80), dtype=bool)
sea[20:40, 30:45] = False  # an island
heat = np.where(sea, 15 + rng.standard_normal(sea.shape), np.nan)

smooth = so.diffusion_filter(heat, 8.0, 1.0, mask=sea)
print(f"standard deviation {heat[sea].std():.3f} before, {smooth[sea].std():.3f} after")
print(f"heat lost {abs(smooth[sea].sum() / heat[sea].sum() - 1):.1e}, land untouched: {np.isnan(smooth[~sea]).all()}")

stable = 0.9 * 0.25
walls = (so.Neumann(0.0), so.Periodic())
later = so.diffusion_step(heat, (1.0, 1.0), stable, 1.0, bc=walls, mask=sea, steps=100)
print(
    f"after 100 steps of diffusion: {later[sea].std():.3f}, heat lost {abs(later[sea].sum() / heat[sea].sum() - 1):.1e}"
)
assert abs(smooth[sea].sum() / heat[sea].sum() - 1) < 1e-12
assert abs(later[sea].sum() / heat[sea].sum() - 1) < 1e-12
