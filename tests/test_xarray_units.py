"""Quantities of pint in and out, and cases of other projects' threads about coordinates and spectra."""

from __future__ import annotations

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

import spectralops.xarray as sx  # noqa: E402

LAT, LON = np.linspace(-87.5, 87.5, 36), 5.0 * np.arange(72)


@pytest.fixture
def ureg():
    return pytest.importorskip("pint").UnitRegistry(force_ndarray_like=True)


def field(values):
    return xr.DataArray(values, {"lat": LAT, "lon": LON}, ("lat", "lon"), name="t", attrs={"long_name": "wind"})


UNITS = {
    "gaussian": (lambda x: sx.gaussian(x, "900 km"), "m/s"),
    "lowpass": (lambda x: sx.lowpass(x, "3000 km", skipna=True), "m/s"),
    "convolve": (lambda x: sx.convolve(x, np.ones((3, 3)) / 9), "m/s"),
    "diffuse": (lambda x: sx.diffuse(x, "900 km"), "m/s"),
    "derivative": (lambda x: sx.derivative(x, "lon"), "1/s"),
    "second derivative": (lambda x: sx.derivative(x, "lat", order=2), "1/m/s"),
    "laplacian": (lambda x: sx.laplacian(x), "1/m/s"),
    "inverse_laplacian": (lambda x: sx.inverse_laplacian(x), "m**3/s"),
    "power_spectrum": (lambda x: sx.power_spectrum(x, dims="lat"), "m**3/s**2"),
    "advect_diffuse": (lambda x: sx.advect_diffuse(x, x, 0 * x, steps=2), "m/s"),
}


@pytest.mark.parametrize("name", UNITS)
def test_quantities_come_back(rng, ureg, name) -> None:
    function, unit = UNITS[name]
    u = field(rng.standard_normal((36, 72)))
    quantity = u.copy(data=u.values * ureg.Unit("m/s"))
    y = function(quantity)
    assert y.data.units == ureg.Unit(unit)
    assert "units" not in y.attrs
    expected = function(u.assign_attrs(units="m s-1"))
    np.testing.assert_array_equal(y.data.magnitude, expected)
    assert y.attrs.get("long_name") == expected.attrs.get("long_name")
    assert quantity.data.units == ureg.Unit("m/s")


def test_winds_are_converted(rng, ureg) -> None:
    u, v = field(rng.standard_normal((36, 72))), field(rng.standard_normal((36, 72)))
    fast = u.copy(data=u.values * ureg.Unit("m/s")), v.copy(data=3.6 * v.values * ureg.Unit("km/hour"))
    flow = sx.vorticity_divergence(*fast)
    assert flow.vorticity.data.units == ureg.Unit("1/s")
    expected = sx.vorticity_divergence(u, v)
    np.testing.assert_allclose(flow.divergence.data.magnitude, expected.divergence, rtol=1e-12, atol=1e-20)
    psi = sx.streamfunction_potential(*fast).streamfunction
    assert psi.data.units == ureg.Unit("m**2/s")
    moved = sx.advect_diffuse(u, *fast, dt=600)
    np.testing.assert_allclose(moved, sx.advect_diffuse(u, u, v, dt=600), rtol=1e-9)


def test_lengths_and_data_sets(rng, ureg) -> None:
    u = field(280 + rng.standard_normal((36, 72)))
    both = xr.Dataset({"a": u.copy(data=ureg.Quantity(u.values - 273.15, "degC")), "b": u})
    y = sx.gaussian(both, 900 * ureg.km)
    assert y.a.data.units == ureg.degC
    np.testing.assert_allclose(y.a.data.magnitude + 273.15, y.b, rtol=1e-12)
    assert sx.derivative(both, "lat").a.data.units == ureg.Unit("K/m")
    moved = sx.advect_diffuse(u, 0 * u, 0 * u, dt=3600, diffusivity=0.1 * ureg.Unit("km**2/s"))
    xr.testing.assert_equal(moved, sx.advect_diffuse(u, 0 * u, 0 * u, dt=3600, diffusivity=1e5))


def test_unknown_units_are_left_out(rng, ureg) -> None:
    """What pint calls a power that is no whole number."""
    u = field(rng.standard_normal((36, 72)))
    root = u.copy(data=u.values * ureg.Unit("m**0.5"))
    assert sx.gaussian(root, "900 km").data.units == ureg.Unit("m**0.5")
    assert isinstance(sx.laplacian(root).data, np.ndarray)


def test_xar01_descending_latitude() -> None:
    """XAR01: a derivative along a falling axis is that of the sorted copy, and so are wavenumbers and their power."""
    lat = np.arange(75.0, 14.9, -2.5)
    length = 2.5 * lat.size
    g = xr.DataArray(np.sin(2 * np.pi * 3 * lat / length), {"y": ("y", lat, {"units": "1"})})
    expected = 2 * np.pi * 3 / length * np.cos(2 * np.pi * 3 * lat / length)
    found = sx.derivative(g, "y", method="spectral", edges="wrap")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * abs(expected).max())
    np.testing.assert_array_equal(found.y, lat)
    f = g.copy(data=np.cos(0.1 * lat) + 0.3 * np.sin(0.37 * lat))
    for options in ({}, {"sides": "two"}, {"window": "hann", "detrend": "linear"}):
        down, up = sx.power_spectrum(f, **options), sx.power_spectrum(f.sortby("y"), **options)
        xr.testing.assert_allclose(down, up, rtol=1e-12)
    spectrum = sx.power_spectrum(f, sides="two")
    k = spectrum.wavenumber_y.values
    direct = abs((f.values * np.exp(-2j * np.pi * k[:, None] * lat)).sum(axis=1) * 2.5) ** 2 / length
    np.testing.assert_allclose(spectrum, direct, rtol=1e-10)


def test_xar02_milliseconds() -> None:
    """XAR02: 1 Hz sampled every millisecond peaks at 1.0 Hz, in steps of 0.1 Hz."""
    time = np.datetime64("2022-01-01", "ns") + np.arange(10000) * np.timedelta64(1, "ms")
    f = xr.DataArray(np.sin(2 * np.pi * 1e-3 * np.arange(10000)), {"time": time})
    p = sx.power_spectrum(f)
    assert float(p.frequency_time[p.argmax("frequency_time")]) == pytest.approx(1.0, abs=1e-9)
    assert float(p.frequency_time.diff("frequency_time")[0]) == pytest.approx(0.1, abs=1e-9)


def test_xar02_single_precision_longitudes_are_even() -> None:
    """XAR02: steps of 0.1 degrees in float32 differ by 3e-4, from rounding alone."""
    lon = (0.1 * np.arange(3600)).astype("float32")
    f = xr.DataArray(np.cos(np.deg2rad(5 * 0.1 * np.arange(3600))), {"lon": lon})
    p = sx.power_spectrum(f)
    assert float(p.wavenumber_lon[p.argmax("wavenumber_lon")]) == pytest.approx(5 / 360)


def test_xar02_uneven_axes_are_named() -> None:
    """XAR02: [0, 1, 2, 3.5, 4] is refused, by name."""
    f = xr.DataArray(np.ones(5), {"x": [0.0, 1.0, 2.0, 3.5, 4.0]})
    with pytest.raises(ValueError, match="power_spectrum: 'x' has uneven spacing, but must be regular; interpolate"):
        sx.power_spectrum(f, dims="x")


def test_xar04_windows_and_tones() -> None:
    """XAR04: the sum of a density is the weighted mean square; a tone is A^2/4 high on each side as a spectrum."""
    u = np.random.default_rng(42).standard_normal((64, 64))
    u -= u.mean()
    w = 0.5 * (1 - np.cos(2 * np.pi * np.arange(64) / 64))
    w = w[:, None] * w
    plane = xr.DataArray(u, {"y": np.arange(64.0), "x": np.arange(64.0)}, ("y", "x"))
    p = sx.power_spectrum(plane, window="hann", sides="two")
    assert float(p.sum()) * p.df == pytest.approx(((w * u) ** 2).mean() / (w**2).mean(), rel=1e-10)
    tone = xr.DataArray(3 * np.sin(2 * np.pi * 50 * np.arange(1000) / 1000), {"x": np.arange(1000.0)})
    p = sx.power_spectrum(tone, window="hann", scaling="spectrum", sides="two")
    assert float(p.max()) == pytest.approx(9 / 4, rel=1e-10)


def test_xar04_segments() -> None:
    """XAR04: the mean of the densities of segments is the variance."""
    x = np.random.default_rng(0).standard_normal(10000)
    parts = xr.DataArray(x.reshape(100, 100), {"x": np.arange(100.0)}, ("segment", "x"))
    p = sx.power_spectrum(parts, dims="x", sides="two").mean("segment")
    assert float(p.mean()) == pytest.approx((x**2).mean(), rel=1e-10)
