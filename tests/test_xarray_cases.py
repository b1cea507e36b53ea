"""Faults that users of other packages met on labelled grids, and what is right instead."""

from __future__ import annotations

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

import spectralops.xarray as sx  # noqa: E402

LATITUDE = np.arange(75.0, 14.9, -2.5)
DEGREE = np.deg2rad(sx.EARTH_RADIUS)


def wave(latitude):
    return np.sin(2 * np.pi * 3 * latitude / 62.5)


def test_xar01_derivative_on_a_descending_coordinate() -> None:
    """XAR01: the slope of a wave from 75 to 15 degrees, in the order in which it is stored."""
    x = xr.DataArray(wave(LATITUDE), {"lat": ("lat", LATITUDE, {"units": "degrees_north"})})
    slope = 2 * np.pi * 3 / 62.5 * np.cos(2 * np.pi * 3 * LATITUDE / 62.5)
    y = sx.derivative(x, "lat", edges="wrap")
    np.testing.assert_allclose(y * DEGREE, slope, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(y.lat, LATITUDE)


def test_xar01_a_spectrum_does_not_depend_on_the_order() -> None:
    """XAR01: the same wavenumbers, rising, and the same power from the sorted copy."""
    x = xr.DataArray(np.cos(0.1 * LATITUDE) + 0.3 * np.sin(0.37 * LATITUDE), {"y": LATITUDE})
    down, up = (sx.power_spectrum(each, sides="two") for each in (x, x.sortby("y")))
    assert (np.diff(down.wavenumber_y) > 0).all()
    xr.testing.assert_allclose(down, up, rtol=1e-12)
    waves = np.exp(-2j * np.pi * np.outer(down.wavenumber_y, LATITUDE))
    np.testing.assert_allclose(down, abs(waves @ x.values) ** 2 * 2.5 / 25, rtol=1e-10, atol=1e-14)


def test_xar02_milliseconds() -> None:
    """XAR02: a tone of 1 Hz in samples of a millisecond."""
    time = np.datetime64("2022-01-01", "ns") + np.arange(10000) * np.timedelta64(1, "ms")
    power = sx.power_spectrum(xr.DataArray(np.sin(2 * np.pi * 1e-3 * np.arange(10000)), {"time": time}))
    assert float(power.idxmax()) == pytest.approx(1.0, abs=1e-9)
    assert np.diff(power.frequency_time)[0] == pytest.approx(0.1, abs=1e-9)


def test_xar02_longitudes_in_single_precision_are_even() -> None:
    """XAR02: tenths of a degree in float32, whose steps differ by 3e-4 of themselves."""
    lon = (np.arange(3600) * 0.1).astype("float32")
    assert abs(np.diff(lon) / 0.1 - 1).max() > 1e-4
    power = sx.power_spectrum(xr.DataArray(np.cos(np.deg2rad(5.0 * lon)), {"lon": lon}), dims="lon")
    assert float(power.idxmax()) == pytest.approx(5 / 360, rel=1e-6)


def test_xar02_uneven_points_are_named() -> None:
    """XAR02: an uneven axis is refused by its name."""
    with pytest.raises(ValueError, match=r"power_spectrum: 'x' has uneven spacing, but must be regular"):
        sx.power_spectrum(xr.DataArray(np.ones(5), {"x": [0.0, 1, 2, 3.5, 4]}))


def test_xar04_windowed_densities_give_the_variance_back(rng) -> None:
    """XAR04: under a symmetric Hann window, the sum of the density is the mean square of w u over that of w."""
    u = rng.standard_normal((64, 48))
    x = xr.DataArray(u, {"y": np.arange(64.0), "x": np.arange(48.0)}, ("y", "x"))
    taper = np.hanning(64)[:, None] * np.hanning(48)
    power = sx.power_spectrum(x, window=(np.hanning(64), np.hanning(48)))
    expected = np.mean((taper * u) ** 2) / np.mean(taper**2)
    assert float((power * power.df).sum()) == pytest.approx(expected, rel=1e-12)
