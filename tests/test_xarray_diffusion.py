"""Diffusion on the sphere: areas, conservation, harmonics, coasts, and the plain operator on planes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import sph_harm_y

xr = pytest.importorskip("xarray")

import spectralops as so  # noqa: E402
import spectralops.xarray as sx  # noqa: E402

R = sx.EARTH_RADIUS
LATITUDES = {
    "poles": np.linspace(90, -90, 46),
    "half-cells": np.linspace(-88, 88, 45),
    "gaussian": np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(40)[0])),
    "region": np.linspace(60, 20, 21),
}
LONGITUDES = np.arange(0.0, 360, 6)


@pytest.fixture(params=LATITUDES)
def lat(request):
    return LATITUDES[request.param]


def field(values, lat, lon=LONGITUDES):
    return xr.DataArray(np.array(values, dtype="float64"), {"lat": lat, "lon": lon}, ("lat", "lon"))


def noise(rng, lat):
    values = rng.standard_normal((len(lat), len(LONGITUDES)))
    pole = np.abs(lat) > 89.99
    values[pole] = values[pole][:, :1]
    return field(values, lat)


def integral(u):
    return float((u * sx.cell_area(u)).sum())


def test_areas_cover_the_globe(lat) -> None:
    u = field(np.ones((len(lat), 60)), lat)
    top, bottom = (61, 19) if lat.max() < 80 else (90, -90)
    expected = 2 * np.pi * R**2 * (math.sin(math.radians(top)) - math.sin(math.radians(bottom)))
    assert integral(u) == pytest.approx(expected, rel=1e-12)
    area = sx.cell_area(u, radius=1.0)
    assert (area.units, area.dims) == ("m2", ("lat",))
    assert float(area.sum()) == pytest.approx(expected / R**2 / 60, rel=1e-12)


@pytest.mark.parametrize("option", ["sigma", "wavelength"])
@pytest.mark.parametrize("land", ["none", "mask", "nan"])
def test_the_integral_is_kept(rng, lat, option, land) -> None:
    u = noise(rng, lat)
    sea = xr.DataArray(rng.random(u.shape) > 0.3, u.coords)
    sea[[0, -1]] = True
    options = {option: "900 km"}
    if land == "none":
        y = sx.diffuse(u, **options)
    elif land == "mask":
        y = sx.diffuse(u, mask=sea, **options)
        xr.testing.assert_equal(y.where(~sea), u.where(~sea))
    else:
        u = u.where(sea)
        y = sx.diffuse(u, skipna=True, **options)
        np.testing.assert_array_equal(y.isnull(), u.isnull())
    size = integral(abs(u))
    assert abs(integral(y) - integral(u)) < 1e-13 * size
    assert float(y.where(sea).std()) < 0.8 * float(u.where(sea).std())


def test_constants_stay(rng, lat) -> None:
    sea = xr.DataArray(rng.random((len(lat), 60)) > 0.3, {"lat": lat, "lon": LONGITUDES})
    u = (0 * noise(rng, lat) + 7).where(sea)
    y = sx.diffuse(u, "900 km", skipna=True)
    np.testing.assert_allclose(y.values[sea.values], 7.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["poles", "half-cells", "gaussian"])
@pytest.mark.parametrize(("degree", "order"), [(2, 0), (3, 3), (5, 4)])
def test_gain_of_spherical_harmonics(name, degree, order) -> None:
    """exp(-sigma^2 l (l + 1) / (2 R^2)) to the accuracy of the filter's polynomial and the grid."""
    lat = LATITUDES[name]
    colatitude, angle = np.deg2rad(90 - lat)[:, None], np.deg2rad(LONGITUDES)[None]
    u = field(np.real(sph_harm_y(degree, order, colatitude, angle)), lat)
    gain = math.exp(-((1200e3 / R) ** 2) * degree * (degree + 1) / 2)
    error = abs(sx.diffuse(u, "1200 km") - gain * u)
    assert float(error.max()) < 0.02 * float(abs(u).max())


def test_no_flux_through_land() -> None:
    lat = LATITUDES["half-cells"]
    u = field(np.zeros((45, 60)), lat)
    sea = xr.ones_like(u, dtype=bool)
    sea[:, [10, 40]] = False
    u[20, 9] = 1.0
    y = sx.diffuse(u, "1500 km", mask=sea)
    assert float(abs(y[:, 11:40]).max()) == 0.0
    assert float(y[20, 8]) > 1e-3
    assert float(y[20, 59]) > 0.0


def test_nothing_crosses_the_outer_rows(rng) -> None:
    lat = LATITUDES["region"]
    u = 0 * noise(rng, lat)
    u[0, 0] = 1.0
    y = sx.diffuse(u, "500 km")
    assert float(abs(y[-1]).max()) < 1e-4
    assert float(y[0].max()) > 0.01


def test_two_rows_are_enough(rng) -> None:
    u = field(rng.standard_normal((2, 60)), np.array([10.0, 14.0]))
    y = sx.diffuse(u, "900 km")
    assert abs(integral(y) - integral(u)) < 1e-13 * integral(abs(u))
    assert float(abs(y[0] - y[1]).max()) < float(abs(u[0] - u[1]).max())


def test_orientation_and_seam(rng, lat) -> None:
    u = noise(rng, lat)
    y = sx.diffuse(u, "900 km")
    down = sx.diffuse(u.isel(lat=slice(None, None, -1)), "900 km").isel(lat=slice(None, None, -1))
    np.testing.assert_allclose(down, y, atol=1e-12)
    rolled = sx.diffuse(u.roll(lon=7), "900 km").roll(lon=-7)
    np.testing.assert_allclose(rolled, y, atol=1e-12)
    np.testing.assert_allclose(sx.diffuse(u.T, "900 km").T, y, atol=1e-12)


def test_poles_have_one_value(rng) -> None:
    u = noise(rng, LATITUDES["poles"])
    sea = xr.ones_like(u, dtype=bool)
    sea[-1, :30] = False
    y = sx.diffuse(u, "900 km", mask=sea)
    assert float(np.ptp(y[0].values)) == 0.0
    assert float(np.ptp(y[-1, 30:].values)) == 0.0
    np.testing.assert_array_equal(y[-1, :30], u[-1, :30])


def test_a_smaller_cap_smooths_more_near_the_pole(rng) -> None:
    u = noise(rng, LATITUDES["half-cells"])
    wide, narrow = (sx.diffuse(u, "900 km", polar_cap=cap) for cap in (20.0, 4.0))
    assert float(narrow[1].std()) < float(wide[1].std())


def test_planes_are_the_plain_operator(rng) -> None:
    x = {"y": ("y", 2.0 * np.arange(12), {"units": "km"}), "x": ("x", 0.5 * np.arange(15), {"units": "km"})}
    u = xr.DataArray(rng.standard_normal((12, 15)), x)
    found = sx.diffuse(u, wavelength="4 km", edges={"x": "wrap"})
    bc = (so.Reflect(), so.Periodic())
    expected = so.diffusion_filter(u.values, 4000.0, (2000.0, 500.0), filter_shape="taper", bc=bc)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        sx.diffuse(u, "2 km"), so.diffusion_filter(u.values, 2000 * math.sqrt(12), (2000.0, 500.0), bc=so.Reflect())
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_dtype(rng, dtype) -> None:
    u = (8 * noise(rng, LATITUDES["half-cells"])).astype(dtype)
    y = sx.diffuse(u, "900 km")
    assert y.dtype == ("float64" if dtype == "int16" else dtype)
    tolerance = {"float32": 1e-4, "float16": 2e-2, "int16": 1e-12}[dtype]
    np.testing.assert_allclose(y, sx.diffuse(u.astype("float64"), "900 km"), atol=tolerance)


def test_batches_attributes_and_masks_of_fewer_dimensions(rng) -> None:
    u = xr.concat([noise(rng, LATITUDES["half-cells"]) for _ in range(3)], "time").transpose("lon", "time", "lat")
    u.attrs = {"units": "K"}
    sea = xr.DataArray(rng.random((45, 60)) > 0.3, {"lat": u.lat, "lon": u.lon})
    y = sx.diffuse(u, "900 km", mask=sea)
    assert y.dims == u.dims
    assert y.attrs == {"units": "K"}
    one = sx.diffuse(u.isel(time=1).transpose("lat", "lon"), "900 km", mask=sea)
    np.testing.assert_allclose(y.isel(time=1).T, one, atol=1e-13)


def test_lazy(rng) -> None:
    dask = pytest.importorskip("dask")
    u = xr.concat([noise(rng, LATITUDES["half-cells"]) for _ in range(3)], "time")
    sea = xr.DataArray(rng.random((45, 60)) > 0.3, {"lat": u.lat, "lon": u.lon})
    y = sx.diffuse(u.chunk(time=1), "900 km", mask=sea)
    assert y.chunks == ((1, 1, 1), (45,), (60,))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(y.compute(), sx.diffuse(u, "900 km", mask=sea))


def test_real_ocean(data_file) -> None:
    with xr.open_dataset(data_file("ocean_mask_half_degree.nc"), engine="h5netcdf") as ds:
        ds = ds.isel(lat=slice(None, None, 4), lon=slice(None, None, 4)).load()
    sea = ds.wet == 1
    u = ds.field.astype("float64").where(sea)
    y = sx.diffuse(u, "500 km", skipna=True)
    np.testing.assert_array_equal(y.isnull(), u.isnull())
    assert integral(y) == pytest.approx(integral(u), rel=1e-11)


U = field(np.zeros((45, 60)), LATITUDES["half-cells"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sx.diffuse(U), TypeError, "sigma is None and wavelength is None, but exactly one must be given"),
        (lambda: sx.diffuse(U, 1.0, wavelength=1.0), TypeError, "sigma is 1.0 and wavelength is 1.0, but"),
        (lambda: sx.diffuse(U, 1.0, polar_cap=91), ValueError, "polar_cap is 91.0, but must be at most 90"),
        (lambda: sx.diffuse(U, 1.0, skipna=1), TypeError, "diffuse: skipna is 1, but must be True or False"),
        (lambda: sx.diffuse(U, 1.0, mask=True), TypeError, "mask is a bool, but must be a DataArray of bool"),
        (lambda: sx.diffuse(U, 1.0, mask=U), TypeError, "mask is float64, but must be a DataArray of bool"),
        (lambda: sx.diffuse(U, 1.0, mask=(U == 0)[:3]), ValueError, "mask has other coordinates along"),
        (lambda: sx.diffuse(U, 1.0, mask=(U == 0).roll(lon=1, roll_coords=True)), ValueError, "along .lon."),
        (lambda: sx.diffuse(U, 1.0, dims="lon"), ValueError, r"dims are \('lon',\), but must be one of lat"),
        (lambda: sx.diffuse(U[:1], 1.0), ValueError, "diffuse: 'lat' has 1 points, but must"),
        (lambda: sx.diffuse(U[:, [0, 1, 3]], 1.0), ValueError, "'lon' has uneven spacing, but must be regular"),
        (lambda: sx.cell_area(U.rename(lat="y", lon="x")), ValueError, r"cell_area: dims are \('y', 'x'\), but"),
    ],
)  # fmt: skip
def test_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
