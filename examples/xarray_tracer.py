"""Ten days of a tracer in the winds of 200 hPa: python xarray_tracer.py [FILE] [--figure FIGURE]

The file is xarray-data's eraint_uvz (ERA-Interim, ECMWF), of which these are monthly means; without it a jet that
meanders over the poles stands in.
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
        u, v = (file[name].sel(level=200, month=1).load() for name in ("u", "v"))
else:
    lat = xr.DataArray(np.linspace(90, -90, 37), dims="latitude", attrs={"units": "degrees_north"})
    lon = xr.DataArray(5.0 * np.arange(72), dims="longitude", attrs={"units": "degrees_east"})
    phi, lam = np.deg2rad(lat).drop_attrs(), np.deg2rad(lon).drop_attrs()
    u = (40 * np.cos(phi) + 15 * np.sin(phi) * np.cos(lam)).assign_coords(latitude=lat, longitude=lon)
    v = (-15 * np.sin(lam) + 0 * phi).transpose("latitude", "longitude").assign_coords(latitude=lat, longitude=lon)

distance = np.hypot(u.latitude - 40, (u.longitude + 180) % 360 - 180)
cloud = xr.where(distance < 12, 1.0, 0.0).transpose("latitude", "longitude").assign_attrs(units="1")

days = [cloud]
for _ in range(2):
    days.append(sx.advect_diffuse(days[-1], u, v, duration="5 D", diffusivity=1e4, nondivergent=True))

area = sx.cell_area(cloud)
total = [float((day * area).sum()) for day in days]
print(f"after ten days {total[-1] / total[0] - 1:.0e} of the tracer is gone")
print(f"values lie between {float(days[-1].min()):.1f} and {float(days[-1].max()):.2f}")
north = (days[-1] * area).sel(latitude=slice(70, 90)).sum() / total[-1]
print(f"{float(north):.1%} of it is north of 70 degrees, over the pole {float(days[-1][0, 0]):.1e}")
assert abs(total[-1] / total[0] - 1) < 1e-12
assert float(days[-1].min()) >= 0
assert float(days[-1].max()) <= 1

if options.figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 1, figsize=(7, 8), sharex=True, layout="constrained")
    thin = {"latitude": slice(None, None, max(1, u.sizes["latitude"] // 20)),
            "longitude": slice(None, None, max(1, u.sizes["longitude"] // 40))}  # fmt: skip
    for axis, day, number in zip(axes, days, (0, 5, 10), strict=True):
        day.plot.imshow(ax=axis, cmap="viridis", vmin=0, vmax=0.6, add_labels=False)
        few_u, few_v = u.isel(thin), v.isel(thin)
        axis.quiver(few_u.longitude, few_u.latitude, few_u, few_v, color="white", alpha=0.5, width=0.0015)
        axis.set_title(f"day {number}", fontsize=10)
    figure.savefig(options.figure, dpi=62)
