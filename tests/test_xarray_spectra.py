"""Power spectra with named wavenumbers: Parseval, the position of waves, units, orientation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal as signal

xr = pytest.importorskip("xarray")

import spectralops as so  # noqa: E402
import spectralops.xarray as sx  # noqa: E402


def plane(rng, descending=False, dtype="float64"):
    y = np.arange(12) * 2.0
    attrs = {"units": "km"}
    u = rng.standard_normal((12, 15)).astype(dtype)
    x = {"y": ("y", y[:: -1 if descending else 1], attrs), "x": ("x", 0.5 * np.arange(15), attrs)}
    return xr.DataArray(u, x, name="u", attrs={"units": "m s-1", "long_name": "wind", "standard_name": "eastward_wind"})


@pytest.mark.parametrize("options", [{}, {"sides": "two"}, {"isotropic": True}], ids=str)
@pytest.mark.parametrize("window", [None, "hann"])
def test_sum_is_the_variance(rng, options, window) -> None:
    u = plane(rng)
    p = sx.power_spectrum(u, detrend="constant", window=window, **options)
    a = u.values - u.values.mean()
    w = np.ones((12, 15)) if window is None else np.outer(signal.get_window("hann", 12), signal.get_window("hann", 15))
    assert float(p.sum()) * p.df == pytest.approx(((a * w) ** 2).mean() / (w**2).mean(), rel=1e-12)


def test_xar04_density_by_definition(rng) -> None:
    """|FFT|^2 dx dy / (nx ny) at rising wavenumbers."""
    u = plane(rng)
    p = sx.power_spectrum(u, sides="two")
    expected = np.fft.fftshift(np.abs(np.fft.fft2(u.values)) ** 2) * 2000 * 500 / 180
    np.testing.assert_allclose(p, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(p.wavenumber_y, np.fft.fftshift(np.fft.fftfreq(12, 2000.0)))
    np.testing.assert_allclose(p.wavenumber_x, np.fft.fftshift(np.fft.fftfreq(15, 500.0)))


def test_xar01_orientation_of_descending_axes(rng) -> None:
    u = plane(rng)
    down = u.isel(y=slice(None, None, -1))
    for options in ({}, {"sides": "two"}, {"isotropic": True}, {"window": "hann", "detrend": "linear"}):
        xr.testing.assert_allclose(sx.power_spectrum(down, **options), sx.power_spectrum(u, **options))


def test_a_wave_has_its_wavenumbers_sign() -> None:
    """A wave towards the upper left: its wavenumbers have different signs, whichever way y is stored."""
    u = plane(np.random.default_rng(1), descending=True)
    u = 0 * u + np.cos(2 * np.pi * (3 * u.x / 7.5 - 2 * u.y / 24))
    p = sx.power_spectrum(u)
    top = p.where(p == p.max(), drop=True)
    assert float(top.wavenumber_x[0]) == pytest.approx(3 / 7500)
    assert float(top.wavenumber_y[0]) == pytest.approx(-2 / 24000)


def test_dims_units_and_names(rng) -> None:
    u = plane(rng).expand_dims(time=2).transpose("y", "time", "x").assign_coords(height=3.0)
    p = sx.power_spectrum(u, dims=("y", "x"))
    assert p.dims == ("wavenumber_y", "time", "wavenumber_x")
    assert p.attrs == {"long_name": "power spectrum of wind", "units": "m4 s-2", "df": pytest.approx(1 / 24000 / 7500)}
    assert p.wavenumber_y.attrs == {"units": "m-1", "long_name": "wavenumber"}
    assert p.name == "u"
    assert float(p.height) == 3.0
    ring = sx.power_spectrum(u, dims=("y", "x"), isotropic=True)
    assert ring.dims == ("time", "wavenumber")
    assert ring.units == "m3 s-2"
    assert sx.power_spectrum(u, dims="x", scaling="spectrum").units == "m2 s-2"
    alone = sx.power_spectrum(u, dims="x")
    assert alone.dims == ("y", "time", "wavenumber_x")
    xr.testing.assert_identical(alone.y, u.y)


def test_isotropic_is_the_plain_operator(rng) -> None:
    u = plane(rng)
    expected = so.power_spectrum(u.values, spacing=(2000.0, 500.0), isotropic=True)
    found = sx.power_spectrum(u, isotropic=True)
    np.testing.assert_array_equal(found, expected.power)
    np.testing.assert_array_equal(found.wavenumber, expected.frequencies[0])


def test_xar02_milliseconds() -> None:
    time = np.datetime64("2022-01-01", "ns") + np.arange(10000) * np.timedelta64(1, "ms")
    u = xr.DataArray(np.sin(2e-3 * np.pi * np.arange(10000)), {"time": time})
    p = sx.power_spectrum(u)
    assert float(p.idxmax()) == pytest.approx(1.0, rel=1e-12)
    assert float(p.frequency_time[1]) == pytest.approx(0.1, rel=1e-12)
    assert p.frequency_time.units == "s-1"


def test_xar02_uneven_axis_is_named() -> None:
    u = xr.DataArray(np.ones(5), {"x": [0.0, 1, 2, 3.5, 4]})
    with pytest.raises(ValueError, match="power_spectrum: 'x' has uneven spacing, but must be regular"):
        sx.power_spectrum(u)


def test_longitude_alone_is_in_cycles_per_degree() -> None:
    lon = (0.1 * np.arange(3600)).astype(np.float32)
    u = xr.DataArray(np.cos(5 * np.deg2rad(0.1 * np.arange(3600))), {"lon": lon}, attrs={"units": "K"})
    p = sx.power_spectrum(u, scaling="density")
    assert float(p.idxmax()) * 360 == pytest.approx(5.0, rel=1e-12)
    assert (p.wavenumber_lon.units, p.units) == ("degree-1", "K2 degree")


def test_a_band_of_latitudes_is_a_plane_at_its_mean() -> None:
    lat, lon = np.arange(40.0, 60.5), np.arange(0.0, 30)
    u = xr.DataArray(np.zeros((21, 30)), {"lat": lat, "lon": lon}) + np.cos(
        2 * np.pi * xr.DataArray(lon, {"lon": lon}) / 10
    )
    p = sx.power_spectrum(u)
    top = p.where(p == p.max(), drop=True)
    length = 10 * np.pi / 180 * sx.EARTH_RADIUS * np.cos(np.deg2rad(50))
    assert float(top.wavenumber_lon[0]) == pytest.approx(1 / length, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_dtype(rng, dtype) -> None:
    assert sx.power_spectrum(plane(rng).astype(dtype)).dtype == ("float32" if dtype == "float32" else "float64")


def test_complex_fields_have_two_sides(rng) -> None:
    u = plane(rng) + 1j * plane(rng)
    p = sx.power_spectrum(u)
    assert p.shape == (12, 15)
    assert float(p.sum()) * p.df == pytest.approx(float((abs(u) ** 2).mean()))


def test_datasets(rng) -> None:
    ds = xr.Dataset({"a": plane(rng)})
    xr.testing.assert_identical(sx.power_spectrum(ds).a, sx.power_spectrum(ds.a))


def test_turbulence_has_a_falling_spectrum(data_file) -> None:
    with xr.open_dataset(data_file("sim_qg_turbulence.nc"), engine="h5netcdf") as ds:
        q = ds.q.load()
    p = sx.power_spectrum(q, dims=("y", "x"), isotropic=True, detrend="constant")
    np.testing.assert_allclose(p.sum("wavenumber") * p.df, q.var(("y", "x")), rtol=1e-9)


def test_refuses_nan_and_whole_spheres(rng) -> None:
    with pytest.raises(ValueError, match="power_spectrum: x has NaN, but must have none; fill them by fillna"):
        sx.power_spectrum(plane(rng).where(lambda u: u > 0))
    u = xr.DataArray(np.zeros((19, 36)), {"lat": np.linspace(-90, 90, 19), "lon": 10.0 * np.arange(36)})
    with pytest.raises(ValueError, match=r"the cosine of latitude is .* to 1, but must not vary by more than a factor"):
        sx.power_spectrum(u)
    with pytest.raises(TypeError, match="power_spectrum: isotropic is 'no', but must be True or False"):
        sx.power_spectrum(u, isotropic="no")
