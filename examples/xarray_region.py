"""Scales and days of a region that does not wrap: python xarray_region.py [FILE] [--figure FIGURE]

The file is from xarray-data (ERA5, Copernicus Climate Change Service); without it days over a sloping land stand in.
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
        t2m = file.t2m.load()
else:
    rng = np.random.default_rng(0)
    lat = xr.DataArray(np.linspace(58, 50, 17), dims="latitude", attrs={"units": "degrees_north"})
    lon = xr.DataArray(np.linspace(-10, 2, 25), dims="longitude", attrs={"units": "degrees_east"})
    time = xr.DataArray(np.datetime64("2019-03-01", "ns") + np.arange(240) * np.timedelta64(1, "h"), dims="time")
    hours = xr.DataArray(np.arange(240.0), dims="time")
    t2m = 280 + 0.3 * (54 - lat) + (2 + 0.1 * lon) * np.sin(2 * np.pi * (hours - 9) / 24)
    t2m = t2m.transpose("time", "latitude", "longitude") + rng.normal(0, 0.5, (240, 17, 25))
    t2m = t2m.assign_coords(latitude=lat, longitude=lon, time=time).assign_attrs(units="K")

edges = {axis.dim: axis.edge for axis in sx.grid_layout(t2m, ("latitude", "longitude")).axes}
smooth = sx.lowpass(t2m, "300 km", dims=("latitude", "longitude"), order=4)
days = sx.bandpass(t2m, period=("18 h", "30 h"))
spectrum = sx.power_spectrum(t2m, dims="time", detrend="linear", window="hann").mean(("latitude", "longitude"))

peak = float(1 / spectrum.frequency_time[int(spectrum[5:].argmax("frequency_time")) + 5] / 3600)
print(f"ends of the region: {edges}")
horizontal = ("latitude", "longitude")
shift, ratio = float(abs(smooth.mean() - t2m.mean())), float((smooth.std(horizontal) / t2m.std(horizontal)).mean())
print(f"smoothing changes the mean by {shift:.0e} K, the spread by {ratio - 1:.0%}")
print(f"strongest period below two days: {peak:.0f} h; it swings by {float(np.sqrt(2) * days.std()):.1f} K")
assert edges == {"latitude": "mirror", "longitude": "mirror"}
assert 22 < peak < 26

if options.figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (field, title) in zip(
        axes, ((t2m[12], "2 m temperature [K]"), (smooth[12], "longer than 300 km [K]")), strict=False
    ):
        field.plot.imshow(
            ax=axis, cmap="RdYlBu_r", vmin=float(t2m[12].min()), vmax=float(t2m[12].max()), add_labels=False
        )
        axis.set_title(title, fontsize=10)
    mean = (t2m - t2m.mean("time")).mean(("latitude", "longitude"))
    mean.plot(ax=axes[2], color="0.7")
    days.mean(("latitude", "longitude")).plot(ax=axes[2], color="tab:red")
    axes[2].set_title("area mean and its 18 to 30 h [K]", fontsize=10)
    axes[2].set(xlabel="", ylabel="")
    figure.savefig(options.figure, dpi=70)
