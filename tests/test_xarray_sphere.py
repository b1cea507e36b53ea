"""Poisson's equation on the globe: the inverse of the discrete Laplacian, harmonics, the fields of windspharm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import sph_harm_y

xr = pytest.importorskip("xarray")

import spectralops.xarray as sx  # noqa: E402
from spectralops.errors import UnsupportedError  # noqa: E402

R = sx.EARTH_RADIUS
LATITUDES = {
    "poles": np.linspace(90, -90, 25),
    "poles, even": np.linspace(-90, 90, 24),
    "half-cells": np.linspace(-86.25, 86.25, 24),
    "half-cells, odd": 90 - 180 / 23 * (np.arange(23) + 0.5),
    "gaussian": np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(24)[0])),
}
METHODS = ["auto", "difference"]


def field(values, lat, n=48):
    return xr.DataArray(np.zeros((len(lat), n)) + values, {"lat": lat, "lon": 360 / n * np.arange(n)}, ("lat", "lon"))


def noise(rng, lat, n=48):
    x = field(rng.standard_normal((len(lat), n)), lat, n)
    pole = abs(lat) > 89.99
    x[pole] = x[pole].mean("lon")
    return x


def mean(x):
    area = sx.cell_area(x)
    return float((x * area).sum() / (area.sum() * x.sizes["lon"]))


@pytest.mark.parametrize("n", [48, 30])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", LATITUDES)
def test_laplacian_of_the_inverse(rng, name, method, n) -> None:
    """Any field comes back but for one constant, to rounding; the inverse has no mean."""
    x = noise(rng, LATITUDES[name], n)
    y = sx.inverse_laplacian(x, method=method)
    rest = x - sx.laplacian(y, method=method)
    assert float(rest.max() - rest.min()) < 2e-11
    assert float(rest.mean()) == pytest.approx(mean(x), abs=0.02)
    assert abs(mean(y)) < 1e-13 * float(abs(y).max())


@pytest.mark.parametrize(("degree", "order"), [(1, 0), (2, 1), (5, 4), (7, 7), (9, 2)])
def test_harmonics(degree, order) -> None:
    """-R^2 / (l (l + 1)) times each, exactly where double Fourier series are used."""
    for name, lat in LATITUDES.items():
        angles = np.deg2rad(90 - lat)[:, None], np.deg2rad(7.5 * np.arange(48))[None]
        x = field(np.real(sph_harm_y(degree, order, *angles)), lat) + 3.0
        expected = -(R**2) / (degree * (degree + 1)) * (x - 3.0)
        y = sx.inverse_laplacian(x)
        tolerance = 0.15 if name == "gaussian" else 1e-12
        assert float(abs(y - expected).max()) < tolerance * float(abs(expected).max()), name


def test_differences_converge() -> None:
    errors = []
    for n in (24, 48):
        lat = np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(n)[0]))
        angles = np.deg2rad(90 - lat)[:, None], np.deg2rad(180 / n * np.arange(2 * n))[None]
        x = field(np.real(sph_harm_y(5, 3, *angles)), lat, 2 * n)
        errors.append(float(abs(sx.inverse_laplacian(x) * 30 / R**2 + x).max()))
    assert errors[0] / errors[1] > 3.7


def test_orientation_precision_and_order_of_dimensions(rng) -> None:
    x = noise(rng, LATITUDES["half-cells"]).assign_attrs(units="s-1", long_name="vorticity")
    y = sx.inverse_laplacian(x)
    assert (y.units, y.long_name) == ("m2 s-1", "inverse Laplacian of vorticity")
    turned = sx.inverse_laplacian(x.isel(lat=slice(None, None, -1), lon=slice(None, None, -1)))
    size = float(abs(y).max())
    np.testing.assert_allclose(turned.isel(lat=slice(None, None, -1), lon=slice(None, None, -1)), y, atol=1e-12 * size)
    both = sx.inverse_laplacian(xr.concat([x, 2 * x], "time").transpose("lon", "time", "lat"))
    np.testing.assert_allclose(both.isel(time=1).transpose("lat", "lon"), 2 * y, atol=1e-12 * size)
    single = sx.inverse_laplacian(x.astype("float32"))
    assert single.dtype == "float32"
    np.testing.assert_allclose(single, y, atol=1e-6 * size)
    rotated = sx.inverse_laplacian((1 + 2j) * x)
    np.testing.assert_allclose(rotated, (1 + 2j) * y, atol=1e-12 * size)
    np.testing.assert_array_equal(x.spectral.inverse_laplacian(), y)


def test_lazy(rng) -> None:
    pytest.importorskip("dask")
    x = xr.concat([noise(rng, LATITUDES["poles"]) for _ in range(2)], "time")
    y = sx.inverse_laplacian(x.chunk(time=1, lat=10))
    assert y.chunks == ((1, 1), (10, 10, 5), (48,))
    np.testing.assert_array_equal(y.compute(scheduler="synchronous"), sx.inverse_laplacian(x))


@pytest.mark.parametrize(
    ("change", "n"),
    [({"lat": slice(0, 12)}, 48), ({"lon": slice(0, 12)}, 48), ({}, 45)],
    ids=["poles", "circle", "odd"],
)
def test_regions_are_refused(change, n: int) -> None:
    x = field(1.0, LATITUDES["half-cells"], n).isel(change)
    message = rf"dims are \('lat', 'lon'\) of .* longitudes \({x.lon.size}\), but must reach both poles and go"
    with pytest.raises(UnsupportedError, match="inverse_laplacian: " + message):
        sx.inverse_laplacian(x)
    with pytest.raises(UnsupportedError, match="streamfunction_potential: " + message):
        sx.streamfunction_potential(x, x)


def test_other_refusals() -> None:
    x = xr.DataArray(np.zeros((3, 4)), {"lat": [0.0, 1, 2], "x": ("x", np.arange(4.0), {"units": "m"})}, ("lat", "x"))
    with pytest.raises(ValueError, match=r"dims are \('lat', 'x'\), but must be one of latitude and one of longitude"):
        sx.inverse_laplacian(x, dims=("lat", "x"))
    plane = xr.DataArray(np.zeros(4), {"x": np.arange(4.0)})
    with pytest.raises(ValueError, match="method is 'difference', but must be 'auto' or 'spectral'"):
        sx.inverse_laplacian(plane, method="difference")


def test_solid_rotation_and_its_divergence() -> None:
    """Rotation about a tilted axis has the stream function -U R times the sine of the latitude about that axis."""
    x = field(0.0, LATITUDES["poles"])
    lam, phi, a = np.deg2rad(x.lon), np.deg2rad(x.lat), 0.7
    u = (20 * (np.cos(phi) * np.cos(a) + np.sin(phi) * np.cos(lam) * np.sin(a))).transpose("lat", "lon")
    v = (-20 * np.sin(lam) * np.sin(a) + 0 * phi).transpose("lat", "lon")
    psi = -20 * R * (np.sin(phi) * np.cos(a) - np.cos(lam) * np.cos(phi) * np.sin(a)).transpose("lat", "lon")
    flow = sx.streamfunction_potential(u.assign_attrs(units="m s-1"), v)
    assert list(flow) == ["streamfunction", "velocity_potential"]
    np.testing.assert_allclose(flow.streamfunction, psi, atol=1e-12 * 20 * R)
    np.testing.assert_allclose(flow.velocity_potential, 0, atol=1e-12 * 20 * R)
    assert flow.streamfunction.attrs == {"units": "m2 s-1", "long_name": "streamfunction"}
    turned = sx.streamfunction_potential(-v, u)
    np.testing.assert_allclose(turned.velocity_potential, -psi, atol=1e-12 * 20 * R)


# Files hold float32, and their winds differ from the fields' by what spherical harmonics cut off.
@pytest.mark.parametrize(("grid", "psi", "chi"), [("regular", 1e-5, 1e-4), ("gaussian", 5e-3, 2e-2)])
def test_windspharm(data_file, grid, psi, chi) -> None:
    with xr.open_dataset(data_file(f"windspharm_reference_{grid}.nc"), engine="h5netcdf") as ds:
        ds = ds.astype(float).load()
    flow = sx.streamfunction_potential(ds.uwnd, ds.vwnd, radius=6.3712e6)
    for name, expected, tolerance in (("streamfunction", ds.psi, psi), ("velocity_potential", ds.chi, chi)):
        error = flow[name] - expected
        assert float(abs(error - error.mean()).max()) < tolerance * float(abs(expected).max())


def test_eddy_winds(data_file) -> None:
    """Ascending latitudes without any attributes, two days; the file's stream function is of finite differences."""
    with xr.open_dataset(data_file("ncep_eddy_winds_2p5deg.nc"), engine="h5netcdf") as ds:
        ds = ds.load()
    flow = sx.streamfunction_potential(ds.u, ds.v)
    for name, stored in (("streamfunction", ds.sf), ("velocity_potential", ds.vp)):
        error = flow[name] - stored
        error = error - error.mean(("lat", "lon"))
        assert float(abs(error).max()) < 0.06 * float(abs(stored).max())
