"""Smooth the sea around land, by weights and by fluxes: python xarray_ocean.py [FILE] [--figure FIGURE]

The file is iris-sample-data's ostia_monthly (Met Office); without it a warm sea with islands stands in.
"""

import argparse

import numpy as np
import xarray as xr

import spectralops.xarray as sx

parser = argparse.ArgumentParser()
parser.add_argument("file", nargs="?")
parser.add_argument("--figure")
options = parser.parse_args()

if options.file:
    with xr.open_dataset(options.file, engine="h5netcdf") as file:
        sst = file.surface_temperature.isel(time=0).load()
else:
    rng = np.random.default_rng(0)
    lat = xr.DataArray(np.linspace(-5, 4.4, 18), dims="latitude", attrs={"units": "degrees_north"})
    lon = xr.DataArray(2.5 * np.arange(144), dims="longitude", attrs={"units": "degrees_east"})
    sst = 300 + 2 * np.cos(np.deg2rad(lon)) - 0.05 * lat**2 + rng.normal(0, 0.5, (144, 18))
    sst = sst.where(np.sin(np.deg2rad(3 * lon)) + 0.1 * lat < 0.9).transpose("latitude", "longitude")
    sst = sst.assign_coords(latitude=lat, longitude=lon).assign_attrs(units="K", long_name="sea surface temperature")

weighted = sx.gaussian(sst, "300 km", skipna=True)
spread = sx.diffuse(sst, "300 km", skipna=True)
anomaly = sst - spread

area = sx.cell_area(sst)
heat = (sst * area).sum() / (area * sst.notnull()).sum()
kept = (spread * area).sum() / (area * sst.notnull()).sum()
print(f"{float(sst.isnull().mean()):.0%} land; longitude {sx.grid_layout(sst).axes[1].edge}s")
print(f"area mean {float(heat):.4f} {sst.units}; after diffusion it differs by {float(abs(kept - heat)):.0e}")
apart = float((weighted - spread).std())
print(f"eddies below 300 km: {float(anomaly.std()):.2f} {sst.units}; both ways differ by {apart:.2f}")
assert abs(float(kept - heat)) < 1e-3
assert bool((spread.isnull() == sst.isnull()).all())

if options.figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 1, figsize=(10, 4), sharex=True, layout="constrained")
    panels = [
        (sst, "as read [K]", "inferno"),
        (spread, "diffused by 300 km [K]", "inferno"),
        (anomaly, "rest [K]", "RdBu_r"),
    ]
    for axis, (field, title, colours) in zip(axes, panels, strict=True):
        field.plot.imshow(ax=axis, cmap=colours, robust=True, add_labels=False)
        axis.set_title(title, fontsize=10)
        axis.set_facecolor("0.6")
    figure.savefig(options.figure, dpi=70)
