"""Vorticity, stream function and long waves of winds on the globe: python xarray_winds.py [FILE] [--figure FIGURE]

The file is xarray-data's eraint_uvz (ERA-Interim, ECMWF); without it a jet with waves stands in.
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
        winds = file[["u", "v"]].sel(level=200, month=1).load()
else:
    lat = xr.DataArray(np.linspace(90, -90, 73), dims="latitude", attrs={"units": "degrees_north"})
    lon = xr.DataArray(2.5 * np.arange(144), dims="longitude", attrs={"units": "degrees_east"})
    phi, lam = np.deg2rad(lat).drop_attrs(), np.deg2rad(lon).drop_attrs()
    u = 60 * np.cos(phi) * np.sin(2 * phi) ** 2 + 10 * np.sin(2 * phi) * np.cos(phi) ** 2 * np.cos(5 * lam)
    v = 20 * np.cos(phi) ** 3 * np.sin(5 * lam)
    winds = xr.Dataset({"u": u, "v": v}, {"latitude": lat, "longitude": lon})
    for wind in winds.values():
        wind.attrs["units"] = "m s-1"

flow = sx.vorticity_divergence(winds.u, winds.v)
stream = sx.streamfunction_potential(winds.u, winds.v)
long_waves = sx.lowpass(winds.v, "6000 km")

# The stream function's own rotation is the vorticity again.
again = sx.laplacian(stream.streamfunction)
difference = float((again - flow.vorticity).std() / flow.vorticity.std())
jet = winds.u.mean("longitude").idxmax("latitude")
print(f"jet at {float(jet):.1f} degrees, vorticity up to {float(abs(flow.vorticity).max()):.1e} {flow.vorticity.units}")
print(f"the Laplacian of the stream function differs from the vorticity by {difference:.0e}")
print(f"waves longer than 6000 km hold {float(long_waves.var() / winds.v.var()):.0%} of the variance of v")
assert difference < 1e-6

if options.figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 4.7), sharex=True, sharey=True, layout="constrained")
    panels = [
        (1e5 * flow.vorticity, "vorticity [1e-5 s-1]", "RdBu_r"),
        (1e-6 * stream.streamfunction, "stream function [1e6 m2 s-1]", "PuOr"),
        (winds.v, "northward wind [m s-1]", "RdBu_r"),
        (long_waves, "… of waves beyond 6000 km [m s-1]", "RdBu_r"),
    ]
    for axis, (field, title, colours) in zip(axes.flat, panels, strict=True):
        field.plot.imshow(ax=axis, cmap=colours, robust=True, center=0, add_labels=False)
        axis.set_title(title, fontsize=10)
    figure.savefig(options.figure, dpi=58)
