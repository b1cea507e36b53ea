"""Grids, winds and fields for the tests of tracer transport."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

import spectralops.xarray as sx

R = sx.EARTH_RADIUS
DAY = 86400.0
LATITUDES = {
    "poles": np.linspace(90, -90, 25),
    "half-cells": np.linspace(-86.25, 86.25, 24),
    "gaussian": np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(24)[0])),
    "region": np.linspace(60, 20, 21),
}


def field(values, lat, n=48):
    lon = 360 / n * np.arange(n)
    return xr.DataArray(np.zeros((len(lat), n)) + values, {"lat": lat, "lon": lon}, ("lat", "lon"))


def rotation(like, tilt, days=12.0):
    """Solid-body rotation about an axis tilted by so many degrees: Williamson et al. (1992), eqs. 75 and 76."""
    lam, phi, a = np.deg2rad(like.lon), np.deg2rad(like.lat), math.radians(tilt)
    speed = 2 * math.pi * R / (days * DAY)
    u = speed * (np.cos(phi) * math.cos(a) + np.sin(phi) * np.cos(lam) * math.sin(a))
    v = -speed * np.sin(lam) * math.sin(a) + 0 * phi
    return u.transpose(*like.dims), v.transpose(*like.dims)


def storm(rng, like):
    """Smooth winds with divergence, zonal and meridional."""
    lam, phi = np.deg2rad(like.lon), np.deg2rad(like.lat)
    a, b, c = rng.uniform(0, 2 * np.pi, 3)
    u = 20 * np.cos(phi) + 8 * np.cos(phi) * np.sin(3 * lam + a) * np.sin(2 * phi) + 5 * np.sin(phi) * np.cos(lam + b)
    v = 6 * np.cos(phi) * np.cos(2 * lam + c) - 5 * np.sin(lam + b)
    return u.transpose(*like.dims), v.transpose(*like.dims)


def noise(rng, lat):
    """Blocks of zeros and ones, one value at a pole."""
    blocks = np.kron(rng.random((7, 12)) > 0.6, np.ones((4, 4)))[: len(lat)]
    x = field(blocks, lat)
    pole = abs(lat) > 89.99
    x[pole] = x[pole].mean("lon")
    return x


def bell(like, radius=1 / 3, smooth=False):
    """The cosine bell of Williamson et al. (1992), eq. 79, with height 1; or one without a kink at its foot."""
    lam, phi = np.deg2rad(like.lon), np.deg2rad(like.lat)
    r = np.arccos(np.clip(np.cos(phi) * np.cos(lam - 3 * math.pi / 2), -1, 1))
    height = (
        np.exp(-5 * (1 - np.cos(r))) if smooth else xr.where(r < radius, 0.5 * (1 + np.cos(math.pi * r / radius)), 0)
    )
    return height.transpose(*like.dims)


def integral(x, part=slice(None)):
    return float((x * sx.cell_area(x))[..., part].sum())


def norms(found, expected):
    """l1, l2 and l-infinity errors: Williamson et al. (1992), eqs. 82 to 84."""
    e = found - expected
    l1 = integral(abs(e)) / integral(abs(expected))
    return l1, math.sqrt(integral(e**2) / integral(expected**2)), float(abs(e).max() / abs(expected).max())
