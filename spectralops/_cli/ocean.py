"""The demo's main job on real sea-surface temperature: a low-pass around land, then advection and diffusion."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import spectralops as so
from spectralops.transfer import gaussian

__all__ = ["Ocean", "advance", "discrete_divergence", "load", "low_pass", "low_pass_scipy", "velocity"]

EARTH_RADIUS = 6.371e6
# Below this share of valid data under the filter's weights a value would be an extrapolation: it becomes NaN.
MIN_WEIGHT = 0.5
# The prescribed flow: eddies with this speed, this many pairs around the equator, at rest within SHORE cells of land.
SPEED, WAVES, SHORE, RAMP = 0.3, 24, 2, 4


@dataclass(frozen=True, slots=True)
class Ocean:
    """Monthly sea-surface temperature (month, latitude, longitude) with NaN on land, on a near-equatorial grid."""

    temperature: Any
    latitude: Any
    longitude: Any
    dates: list[str]
    source: str

    @property
    def wet(self) -> Any:
        """True where the sea is, the same in every month."""
        return np.isfinite(self.temperature).all(axis=0)

    @property
    def spacing(self) -> tuple[float, float]:
        """(dy, dx) in metres. Within 5 degrees of the equator a degree of longitude varies by 0.4 % only."""
        dy, dx = (abs(float(c[-1] - c[0])) / (len(c) - 1) for c in (self.latitude, self.longitude))
        return math.radians(dy) * EARTH_RADIUS, math.radians(dx) * EARTH_RADIUS


def load(months: int | None = None) -> Ocean:
    """The OSTIA analysis that iris-sample-data ships, in kelvin.

    Raises
    ------
    ModuleNotFoundError
        If a library of the `demo` extra is missing.
    """
    needed = ("iris_sample_data", "xarray", "h5netcdf", "h5py")
    sample, xarray, *_ = (importlib.import_module(name) for name in needed)
    path = Path(sample.path) / "ostia_monthly.nc"
    with xarray.open_dataset(path, engine="h5netcdf") as file:
        sst = file["surface_temperature"][:months].load()
    dates = [str(date)[:7] for date in sst["time"].values]
    return Ocean(sst.values, sst["latitude"].values, sst["longitude"].values, dates, path.name)


def _pad(ocean: Ocean, scale: float) -> int:
    return min(math.ceil(3 * scale / ocean.spacing[0]), len(ocean.latitude) - 1)


def _normalised(ocean: Ocean, smooth: Callable[[Any], Any]) -> Any:
    """Filter of the valid values over the filter of ones at their places, where those weigh enough."""
    wet = ocean.wet
    weight = smooth(wet.astype(ocean.temperature.dtype))
    values = smooth(np.where(wet, ocean.temperature, 0))
    return np.where(wet & (weight >= MIN_WEIGHT), values / np.maximum(weight, MIN_WEIGHT), np.nan).astype(values.dtype)


def low_pass(ocean: Ocean, scale: float, workers: int | None = None) -> Any:
    """Gaussian low-pass of standard deviation `scale` [m] around land; longitude wraps, latitude is reflected."""

    def smooth(x: Any) -> Any:
        return so.spectral_filter(
            x,
            gaussian(scale),
            spacing=ocean.spacing,
            pad_width=(_pad(ocean, scale), 0),
            pad_mode="reflect",
            workers=workers,
        )

    return _normalised(ocean, smooth)


def low_pass_scipy(ocean: Ocean, scale: float, workers: int | None = None) -> Any:
    """The same with scipy.fft: what a user writes without this package."""
    fft = importlib.import_module("scipy.fft")
    pad = _pad(ocean, scale)
    shape = len(ocean.latitude) + 2 * pad, len(ocean.longitude)
    ky = 2 * np.pi * fft.fftfreq(shape[0], ocean.spacing[0])[:, None]
    kx = 2 * np.pi * fft.rfftfreq(shape[1], ocean.spacing[1])
    response = np.exp(-0.5 * scale**2 * (ky**2 + kx**2)).astype(ocean.temperature.dtype)

    def smooth(x: Any) -> Any:
        padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(pad, pad), (0, 0)], mode="reflect")
        spectrum = fft.rfft2(padded, workers=workers) * response
        return fft.irfft2(spectrum, shape, workers=workers)[..., pad:-pad, :]

    return _normalised(ocean, smooth)


def _erode(wet: Any) -> Any:
    """Cells whose 3 x 3 neighbourhood is all sea; beyond the first and last latitude lies land."""
    rows = np.pad(wet, ((1, 1), (0, 0)), constant_values=False)
    column = rows[:-2] & rows[1:-1] & rows[2:]
    return column & np.roll(column, 1, axis=1) & np.roll(column, -1, axis=1)


def velocity(ocean: Ocean, sea: Any) -> tuple[Any, Any]:
    """Northward and eastward velocity [m/s] of a stream function that is constant outside `sea` and near its coast.

    psi = w(d) U/k cos(k x) with the central differences v = psi_x, u = -psi_y, whose central divergence is zero but
    for rounding; w rises smoothly from 0 at a distance d of SHORE cells from the coast to 1 at SHORE + RAMP.
    """
    dy, dx = ocean.spacing
    distance = np.zeros(sea.shape)
    for _ in range(SHORE + RAMP):
        distance += sea
        sea = _erode(sea)
    rise = np.clip((distance - SHORE) / RAMP, 0, 1)
    k = 2 * np.pi * WAVES / (dx * len(ocean.longitude))
    psi = rise**2 * (3 - 2 * rise) * SPEED / k * np.cos(k * dx * np.arange(len(ocean.longitude)))
    north = (np.roll(psi, -1, axis=1) - np.roll(psi, 1, axis=1)) / (2 * dx)
    east = -(np.roll(psi, -1, axis=0) - np.roll(psi, 1, axis=0)) / (2 * dy)  # psi is 0 in the first and last rows
    return north, east


def discrete_divergence(ocean: Ocean, flow: tuple[Any, Any]) -> float:
    """Largest divergence [1/s] of the flow by the central differences that the flux form amounts to."""
    (north, east), (dy, dx) = flow, ocean.spacing
    # The flow rests in the first and last rows, so wrapping there changes nothing.
    meridional = (np.roll(north, -1, axis=0) - np.roll(north, 1, axis=0)) / (2 * dy)
    zonal = (np.roll(east, -1, axis=1) - np.roll(east, 1, axis=1)) / (2 * dx)
    return float(np.abs(meridional + zonal).max())


def advance(
    ocean: Ocean, sea: Any, field: Any, flow: tuple[Any, Any], nu: float, days: float
) -> tuple[Any, int, float]:
    """Advect and diffuse `field` for some days: upwind fluxes, no flux through coasts; field, steps, time step [s]."""
    (north, east), (dy, dx) = flow, ocean.spacing
    rate = float((np.abs(north) / dy + np.abs(east) / dx).max()) + 2 * nu * (dy**-2 + dx**-2)
    steps = max(1, math.ceil(days * 86400 * rate / 0.8))
    dt = days * 86400 / steps
    result = so.diffuse_convect_step(
        field,
        ocean.spacing,
        dt,
        nu,
        velocity=flow,
        scheme="upwind",
        form="flux",
        bc=(so.Neumann(0.0), so.Periodic()),
        mask=sea,
        steps=steps,
    )
    return result, steps, dt
