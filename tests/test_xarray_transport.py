"""Tracers in given winds: conservation, bounds, the bell over the poles, seams, coasts, time, the parts of a step."""

from __future__ import annotations

import math

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

from kernels_as_python import run_as_python  # noqa: E402

import spectralops.xarray as sx  # noqa: E402
from spectralops.errors import StabilityError, UnsupportedError  # noqa: E402
from spectralops.xarray._cells import Rows  # noqa: E402
from spectralops.xarray._tridiagonal import Cyclic, Tridiagonal  # noqa: E402

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


def rows_are_poles(lat):
    return abs(lat[0]) > 89.99


def spread(x):
    return float(x.max() - x.min())


def norms(found, expected):
    """l1, l2 and l-infinity errors: Williamson et al. (1992), eqs. 82 to 84."""
    e = found - expected
    l1 = integral(abs(e)) / integral(abs(expected))
    return l1, math.sqrt(integral(e**2) / integral(expected**2)), float(abs(e).max() / abs(expected).max())


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


@pytest.fixture(params=LATITUDES)
def lat(request):
    return LATITUDES[request.param]


@pytest.fixture(params=["compiled", "plain"])
def engine(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    return request.param


@pytest.mark.parametrize("limiter", ["none", "positive", "monotone"])
def test_integral_and_bounds(rng, lat, limiter) -> None:
    x = noise(rng, lat)
    u, v = storm(rng, x)
    y = sx.advect_diffuse(x, u, v, steps=20, limiter=limiter)
    assert abs(integral(y) / integral(x) - 1) < 1e-13
    assert float(abs(y - x).max()) > 0.1
    if limiter == "positive":
        assert float(y.min()) >= 0.0
    mixed = sx.advect_diffuse(x, u, v, steps=4, limiter=limiter, form="advective")
    low, high = float(mixed.min()), float(mixed.max())
    if limiter == "monotone":
        assert low >= 0.0
        assert high <= 1.0
    elif limiter == "positive":
        assert low >= 0.0
        assert high > 1.0
    else:
        assert low < -0.01


def test_constants(rng, lat) -> None:
    """As a mixing ratio they stay to the bit; as a density they stay if no wind has divergence."""
    x = field(7.3, lat)
    u, v = storm(rng, x)
    y = sx.advect_diffuse(x, u, v, steps=10, form="advective")
    np.testing.assert_array_equal(y, x)
    assert float(abs(sx.advect_diffuse(x, u, v, steps=10) - 7.3).max()) > 0.01
    y = sx.advect_diffuse(x, u, v, steps=10, nondivergent=True)
    np.testing.assert_allclose(y, x, rtol=1e-12)


def test_solid_rotation_without_help_has_little_divergence() -> None:
    x = field(1.0, LATITUDES["half-cells"])
    y = sx.advect_diffuse(x, *rotation(x, 90), duration="1 D")
    assert float(abs(y - 1).max()) < 0.01


# As measured here, not by others: docs/xarray.md has the same numbers.
BELL = {
    ("half-cells", 45, "monotone"): (0.046, 0.041, 0.073),
    ("half-cells", 90, "monotone"): (0.080, 0.091, 0.155),
    ("half-cells", 90, "positive"): (0.066, 0.064, 0.107),
    ("half-cells", 90, "none"): (0.108, 0.077, 0.113),
    ("poles", 90, "monotone"): (0.061, 0.061, 0.092),
}


@pytest.mark.parametrize("case", BELL, ids=lambda case: "-".join(map(str, case)))
def test_cosine_bell_after_one_revolution(case) -> None:
    """Test 1 of Williamson et al. (1992) on 128 longitudes, past the poles and over them."""
    name, tilt, limiter = case
    lat = -90 + 180 / 64 * (np.arange(64) + 0.5) if name == "half-cells" else np.linspace(-90, 90, 65)
    x = bell(field(0.0, lat, 128))
    y = sx.advect_diffuse(x, *rotation(x, tilt), duration="12 D", limiter=limiter, nondivergent=True)
    assert norms(y, x) == pytest.approx(BELL[case], rel=0.03)
    assert abs(integral(y) / integral(x) - 1) < 1e-13
    if limiter != "none":
        assert float(y.min()) >= 0.0


@pytest.mark.parametrize(("tilt", "order"), [(45, 1.9), (90, 1.4)])
def test_order(tilt, order) -> None:
    """A smooth hill after half a revolution; next to a pole, where the directions turn within a step, it is less."""
    errors = []
    for n in (24, 48, 96):
        lat = -90 + 180 / n * (np.arange(n) + 0.5)
        x = bell(field(0.0, lat, 2 * n), smooth=True)
        u, v = rotation(x, tilt)
        y = sx.advect_diffuse(x, u, v, dt=12 * DAY / (6 * n), duration="6 D", limiter="none", nondivergent=True)
        expected = x.roll(lon=n, roll_coords=False)
        errors.append(norms(y, expected)[1])
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders[-1] > order, (errors, orders)


def test_seam_orientation_and_order_of_dimensions(rng, lat) -> None:
    x = noise(rng, lat)
    u, v = storm(rng, x)
    y = sx.advect_diffuse(x, u, v, steps=6)
    rolled = [each.roll(lon=11) for each in (x, u, v)]
    # The mean of a pole's sectors depends on their order.
    np.testing.assert_allclose(sx.advect_diffuse(*rolled, steps=6).roll(lon=-11), y, atol=1e-14 * rows_are_poles(lat))
    for turned in ({"lat": slice(None, None, -1)}, {"lon": slice(None, None, -1)}):
        z = sx.advect_diffuse(*(each.isel(turned) for each in (x, u, v)), steps=6)
        np.testing.assert_allclose(z.isel(turned), y, atol=1e-13)
    z = sx.advect_diffuse(x.T, u, v.T, steps=6)
    assert z.dims == ("lon", "lat")
    np.testing.assert_array_equal(z.T, y)


def test_engines_agree(rng, lat, monkeypatch) -> None:
    """Bit for bit but for sums over a pole's sectors."""
    x = xr.concat([noise(rng, lat), noise(rng, lat)], "tracer")
    sea = field(rng.random((len(lat), 48)) > 0.2, lat) > 0
    sea[[0, -1]] = True
    u, v = storm(rng, x[0])
    results = []
    for switch in ("1", "0"):
        monkeypatch.setenv("SPECTRALOPS_NUMBA", switch)
        each = [sx.advect_diffuse(x, u, v, steps=8, limiter=name, dt=600) for name in ("none", "positive", "monotone")]
        land = sx.advect_diffuse(x, u, v, steps=8, dt=600, mask=sea)
        single = sx.advect_diffuse(x.astype("float32"), u, v, steps=8, dt=600)
        assert single.dtype == "float32"
        results.append((*each, land, single))
    for k, (a, b) in enumerate(zip(*results, strict=True)):
        if not rows_are_poles(lat) and k < 4:
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, b, atol=1e-13 if k < 4 else 1e-5)


def test_long_steps_along_rows(engine) -> None:
    """A wind along rows may take any number of cells at once: whole ones exactly, and lanes of any width agree."""
    lat = LATITUDES["half-cells"]
    x = noise(np.random.default_rng(1), lat)
    phi = np.deg2rad(x.lat)
    u = (R * np.cos(phi) * np.deg2rad(7.5) * 5 / 3600 + 0 * x).transpose("lat", "lon")
    for sign in (1, -1):
        y = sx.advect_diffuse(x, sign * u, 0 * u, dt=7200)
        np.testing.assert_allclose(y, x.roll(lon=sign * 10), atol=1e-11)
        part = sx.advect_diffuse(x, sign * u, 0 * u, dt=7200 * 1.05)
        assert abs(integral(part) / integral(x) - 1) < 1e-13
        assert float(part.min()) >= 0
        assert float(part.max()) <= 1


def test_land_is_a_wall(rng, engine) -> None:
    x = noise(rng, LATITUDES["region"]) + 1
    x[:, [5, 30]] = np.nan
    u, v = storm(rng, x)
    u, v = u.where(x.notnull()), v.where(x.notnull())
    y = sx.advect_diffuse(x, u, v, steps=30, skipna=True)
    np.testing.assert_array_equal(y.isnull(), x.isnull())
    for basin in (range(6, 30), [*range(31, 48), *range(5)]):
        assert integral(y, basin) == pytest.approx(integral(x, basin), rel=1e-13)
    mask = x.notnull()
    filled = sx.advect_diffuse(x.fillna(-5.0), u, v, steps=30, mask=mask)
    np.testing.assert_array_equal(filled, y.fillna(-5.0))
    quiet = sx.advect_diffuse(x, u, v, steps=30, skipna=True, form="advective")
    assert float(quiet.min()) >= 1.0
    assert float(quiet.max()) <= 2.0


def test_land_at_a_pole_is_all_of_it(rng) -> None:
    x = noise(rng, LATITUDES["poles"])
    x[0, 3] = np.nan
    u, v = storm(rng, x)
    y = sx.advect_diffuse(x, u, v, steps=5, skipna=True)
    np.testing.assert_array_equal(y[0], x[0])
    assert integral(y[1:].fillna(0)) == pytest.approx(integral(x[1:]), rel=1e-13)


def test_poles_have_one_value(rng, engine) -> None:
    x = noise(rng, LATITUDES["poles"])
    y = sx.advect_diffuse(x, *rotation(x, 90), steps=10)
    assert spread(y[0]) == spread(y[-1]) == 0.0
    assert float(abs(y[0, 0] - x[0, 0])) > 1e-3


@pytest.mark.parametrize("wrap", ["x", "y", "xy"])
def test_planes(rng, engine, wrap) -> None:
    """Cells that pass whole are exact, in both directions, and walls keep everything."""
    x = {"y": ("y", 2.0 * np.arange(12), {"units": "km"}), "x": ("x", 0.5 * np.arange(15), {"units": "km"})}
    q = xr.DataArray(rng.random((12, 15)), x)
    edges = dict.fromkeys(wrap, "wrap")
    still = 0 * q
    y = sx.advect_diffuse(q, still + 5.0 * ("x" in wrap), still - 10.0 * ("y" in wrap), dt=200, edges=edges)
    expected = q.roll(x=2 * ("x" in wrap), y=-1 * ("y" in wrap))
    np.testing.assert_allclose(y, expected, atol=1e-12)
    u, v = (np.sin(2 * np.pi * (q.x / 7500 + q.y / 24000 + k)).transpose("y", "x").drop_attrs() for k in (0, 0.3))
    y = sx.advect_diffuse(q, u, v, steps=20, edges=edges)
    assert float(y.sum()) == pytest.approx(float(q.sum()), rel=1e-13)
    turned = sx.advect_diffuse(q.T, u, v, steps=20, edges=edges, dims=("y", "x"))
    np.testing.assert_allclose(turned.T, y, atol=1e-13)


def test_winds_that_change(engine) -> None:
    """u = 2 a t carries over a t^2, and the mid-point rule integrates it exactly."""
    x = xr.DataArray(np.eye(1, 40, 3)[0] + np.zeros((4, 1)), {"y": np.arange(4.0), "x": np.arange(40.0)}, ("y", "x"))
    time = np.datetime64("2020-01-01", "ns") + np.array([-10, 0, 10, 40]) * np.timedelta64(1, "s")
    u = xr.DataArray([-0.4, 0.0, 0.4, 1.6], {"time": time}, "time")
    x = x.assign_coords(time=time[1])
    y = sx.advect_diffuse(x, u, 0 * u, dt=10, duration="20 s", edges={"x": "wrap"})
    centre = float((y[0] * y.x).sum() / y[0].sum())
    assert centre == pytest.approx(3 + 0.02 * 20**2, abs=1e-9)
    assert y.time.values == time[1] + np.timedelta64(20, "s")
    later = sx.advect_diffuse(x.drop_vars("time"), u, 0 * u, dt=10, steps=2, start="2020-01-01", edges={"x": "wrap"})
    np.testing.assert_array_equal(later, y)
    assert "time" not in later.coords


def test_model_calendars() -> None:
    cftime = pytest.importorskip("cftime")
    time = [cftime.Datetime360Day(2000, 2, day) for day in (29, 30)] + [cftime.Datetime360Day(2000, 3, 1)]
    x = xr.DataArray(np.ones((4, 5)), {"y": np.arange(4.0), "x": np.arange(5.0), "time": time[0]}, ("y", "x"))
    u = xr.DataArray(np.zeros(3), {"time": time}, "time")
    y = sx.advect_diffuse(x, u, u, duration="2 D", dt="6 h")
    assert y.time.item() == time[2]


def test_diffusion_decays_harmonics(engine) -> None:
    """sin(lat) decays by exp(-2 nu t / R^2), to first order in the step; the integral and bounds stay."""
    x = np.sin(np.deg2rad(field(0.0, np.linspace(-88.5, 88.5, 60)).lat)) + field(0.0, np.linspace(-88.5, 88.5, 60))
    nu, still = 0.1 * R**2 / DAY, 0 * x
    errors = []
    for n in (4, 8):
        y = sx.advect_diffuse(x, still, still, duration="1 D", dt=DAY / n, diffusivity=nu)
        errors.append(float(abs(y - math.exp(-0.2) * x).max()))
    assert errors[0] < 0.01
    assert 1.7 < errors[0] / errors[1] < 2.3
    noisy = noise(np.random.default_rng(0), LATITUDES["poles"])
    y = sx.advect_diffuse(noisy, 0 * noisy, 0 * noisy, dt="1 D", diffusivity=nu)
    assert integral(y) == pytest.approx(integral(noisy), rel=1e-13)
    assert float(y.min()) > 0
    assert float(y.max()) < 1
    assert spread(y[0]) < 1e-15


def test_diffusion_around_land_and_on_planes(rng) -> None:
    x = noise(rng, LATITUDES["region"])
    x[:, [5, 30]] = np.nan
    y = sx.advect_diffuse(x, 0 * x, 0 * x, dt="1 D", diffusivity=1e6, skipna=True)
    for basin in (range(6, 30), [*range(31, 48), *range(5)]):
        assert integral(y, basin) == pytest.approx(integral(x, basin), rel=1e-12)
    plane = xr.DataArray(
        np.cos(2 * np.pi * np.arange(8) / 8) + np.zeros((5, 1)), {"y": np.arange(5.0), "x": np.arange(8.0)}
    )
    for dims in (("y", "x"), ("x", "y")):
        edges = {"x": "wrap", "y": "wrap"}
        y = sx.advect_diffuse(plane.transpose(*dims), 0.0 * plane, 0.0 * plane, dt=3.0, diffusivity=0.5, edges=edges)
        np.testing.assert_allclose(y, plane.transpose(*dims) / (1 + 1.5 * (2 - math.sqrt(2))), atol=1e-14)


def test_source() -> None:
    x = field(1.0, LATITUDES["half-cells"])
    y = sx.advect_diffuse(x, 0 * x, 0 * x, dt=100, steps=3, source=0.01)
    np.testing.assert_allclose(y, 4.0, rtol=1e-14)
    y = sx.advect_diffuse(x, 0 * x, 0 * x, dt=100, steps=3, source=0.01 * (x.lon > 90))
    np.testing.assert_allclose(y, x + 3 * (x.lon > 90), rtol=1e-14)


def test_what_comes_back(rng) -> None:
    x = noise(rng, LATITUDES["half-cells"]).astype("float32").assign_attrs(units="kg m-2").rename("q")
    x.encoding = {"scale_factor": 0.1, "zlib": True}
    before = x.copy(deep=True)
    u, v = storm(rng, x)
    y = sx.advect_diffuse(x, u.assign_attrs(units="m/s"), v, steps=2)
    assert (y.dtype, y.attrs, y.name, y.encoding) == (x.dtype, x.attrs, "q", {"zlib": True})
    xr.testing.assert_identical(x, before)
    both = sx.advect_diffuse(xr.Dataset({"q": x, "n": 3}), u, v, steps=2)
    xr.testing.assert_identical(both.q, y)
    assert x.spectral.advect_diffuse(u, v, steps=2).equals(y)
    assert sx.advect_diffuse((10 * x).astype("int16"), u, v).dtype == "float64"
    assert sx.advect_diffuse(x, u, v, steps=0).equals(x)


def test_half_precision_empty_batches_and_complex_numbers(rng) -> None:
    x = noise(rng, LATITUDES["poles"])
    u, v = rotation(x, 60)
    half = sx.advect_diffuse(x.astype("float16"), u, v, steps=3)
    assert half.dtype == "float16"
    np.testing.assert_allclose(half, sx.advect_diffuse(x, u, v, steps=3), atol=2e-3)
    none = sx.advect_diffuse(x.expand_dims(level=3)[:0], u, v, dt=600, steps=3)
    assert none.shape == (0, 25, 48)
    with pytest.raises(TypeError, match="advect_diffuse: x has dtype complex128, but must be real"):
        sx.advect_diffuse(1j * x, u, v)


def test_other_libraries(rng) -> None:
    strict = pytest.importorskip("array_api_strict")
    x = noise(rng, LATITUDES["poles"])
    u, v = rotation(x, 60)
    wrapped = [each.copy(data=strict.asarray(each.values)) for each in (x, u, v)]
    y = sx.advect_diffuse(*wrapped, steps=3, diffusivity=1e5, nondivergent=True)
    assert isinstance(y.data, type(wrapped[0].data))
    expected = sx.advect_diffuse(x, u, v, steps=3, diffusivity=1e5, nondivergent=True)
    np.testing.assert_allclose(np.asarray(y.data), expected, atol=1e-13)


def test_lazy(rng) -> None:
    dask = pytest.importorskip("dask")
    x = xr.concat([noise(rng, LATITUDES["half-cells"]) for _ in range(3)], "level").astype("float32")
    u, v = storm(rng, x[0])
    y = sx.advect_diffuse(x.chunk(level=1), u, v, dt=600, steps=4, skipna=True)
    assert y.dtype == "float32"
    assert y.chunks[0] == (1, 1, 1)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(y.compute(), sx.advect_diffuse(x, u, v, dt=600, steps=4, skipna=True))
    split = sx.advect_diffuse(x.chunk(lat=10, lon=30), u.chunk(lat=10), v, dt=600, steps=4, skipna=True)
    assert split.chunks == ((3,), (10, 10, 4), (30, 18))
    xr.testing.assert_identical(split.compute(scheduler="synchronous"), y.compute(scheduler="synchronous"))
    with pytest.raises(ValueError, match="advect_diffuse: dt is not given, but must be for Dask arrays"):
        sx.advect_diffuse(x.chunk(level=1), u, v)


def test_real_winds(data_file) -> None:
    """ERA-Interim at 200 hPa: ten days of the winds of January, poles included."""
    with xr.open_dataset(data_file("era_interim_uvz.nc"), engine="h5netcdf") as ds:
        winds = ds.sel(level=200).isel(month=0, latitude=slice(None, None, 4), longitude=slice(None, None, 4)).load()
    x = xr.where((abs(winds.latitude - 45) < 10) & (abs(winds.longitude) < 15), 1.0, 0.0 * winds.u)
    y = sx.advect_diffuse(x, winds.u, winds.v, duration="10 D")
    assert integral(y) == pytest.approx(integral(x), rel=1e-12)
    assert float(y.min()) >= 0.0
    assert spread(y[0]) == 0.0


def test_largest_step_empties_no_cell() -> None:
    """Of solid rotation along the equator nothing limits the step; over the poles it is what a polar cell holds."""
    x = field(1.0, LATITUDES["half-cells"])
    with pytest.raises(StabilityError, match=r"advect_diffuse: dt is 50000 s, but must be at most 1\d{4}") as error:
        sx.advect_diffuse(x, *rotation(x, 90), dt=50000)
    bound = error.value.stable_dt
    u, v = rotation(x, 90)
    edge = math.radians(86.25 - 3.75)
    wind = float(abs(v).max()) * R * math.cos(edge) * math.radians(7.5)
    area = R**2 * math.radians(7.5) * (1 - math.sin(edge))
    assert bound == pytest.approx(area / wind, rel=0.6)
    sx.advect_diffuse(x, u, v, dt=0.999 * bound)


NONE = np.zeros((24, 48))


@pytest.mark.parametrize(
    ("kind", "message", "change"),
    [
        (TypeError, "u is a ndarray, but must be a DataArray", {"u": NONE}),
        (ValueError, "v has units 'knot', but must have 'm s-1'; convert it", {"v": {"units": "knot"}}),
        (ValueError, "u has other coordinates along 'lat', but must be on the grid of x", {"u": {"lat": 1}}),
        (ValueError, "v has the dimension 'level', but must have only those of x", {"v": {"level": 1}}),
        (ValueError, "limiter is 'hard', but must be 'none', 'positive' or 'monotone'", {"limiter": "hard"}),
        (ValueError, "form is 'weak', but must be 'flux' or 'advective'", {"form": "weak"}),
        (ValueError, "diffusivity is -1", {"diffusivity": -1}),
        (ValueError, "steps is -1", {"steps": -1}),
        (TypeError, "steps is 2 and duration is '1 D', but must not both be given", {"steps": 2, "duration": "1 D"}),
        (ValueError, "dims are ('lat',), but must be one of latitude and one of longitude", {"dims": "lat"}),
        (ValueError, "winds have NaN at sea, but must have none", {"u": {"nan": 1}}),
        (ValueError, "winds have NaN at sea, but must have none", {"v": {"nan": 1}}),
        (ValueError, "dt is not given, but must be where nothing moves", {"u": {"zero": 1}, "v": {"zero": 1}}),
        (TypeError, "mask is a ndarray, but must be a DataArray of bool", {"mask": NONE > 0}),
        (ValueError, "source has other coordinates along 'lat'", {"source": {"lat": 1}}),
        (UnsupportedError, "nondivergent is True with land, but must be False", {"nondivergent": True, "skipna": True}),
    ],
)
def test_refusals(kind, message, change) -> None:
    x = field(1.0, LATITUDES["half-cells"])
    arguments = dict(zip("uv", rotation(x, 30), strict=True))
    for name, what in change.items():
        if isinstance(what, dict):
            wind = arguments.get(name, x)
            made = {
                "units": lambda w: w.assign_attrs(units="knot"),
                "lat": lambda w: w.assign_coords(lat=w.lat + 1),
                "level": lambda w: w.expand_dims("level"),
                "nan": lambda w: w.where(w.lat > 0),
                "zero": lambda w: 0 * w,
            }
            arguments[name] = made[next(iter(what))](wind)
        else:
            arguments[name] = what
    with pytest.raises(kind) as error:
        sx.advect_diffuse(x, **arguments)
    assert str(error.value).startswith("advect_diffuse: " + message), error.value


def test_refusals_of_time_and_shape(rng) -> None:
    x = field(1.0, LATITUDES["region"])
    time = np.array(["2020-01-01", "2020-01-03"], "datetime64[ns]")
    u = (x * xr.DataArray([1.0, 1.0], {"time": time}, "time")).transpose("time", ...)
    with pytest.raises(ValueError, match="start is not given and x has no 'time'"):
        sx.advect_diffuse(x, u, u)
    with pytest.raises(ValueError, match="winds end 172800 s after the start, but must cover 259200 s"):
        sx.advect_diffuse(x, u, u, start="2020-01-01", duration="3 D")
    with pytest.raises(ValueError, match="winds begin 86400 s after the start, but must not be later"):
        sx.advect_diffuse(x, u, u, start="2019-12-31")
    with pytest.raises(ValueError, match="v has other coordinates along 'time', but must be on the grid of u"):
        sx.advect_diffuse(x, u, u[0], start="2020-01-01")
    with pytest.raises(ValueError, match="winds have 1 times, but must have at least two, rising"):
        sx.advect_diffuse(x, u[:1], u[:1], start="2020-01-01")
    with pytest.raises(ValueError, match="'lat' has 2 points, but must have at least 3"):
        sx.advect_diffuse(x[:2], u[0, :2], u[0, :2])
    with pytest.raises(UnsupportedError, match="nondivergent is True with walls in the east and west"):
        sx.advect_diffuse(x[:, :20], u[0, :, :20], u[0, :, :20], nondivergent=True)
    plane = xr.DataArray(rng.random((5, 6)), {"y": np.arange(5.0), "x": np.arange(6.0)})
    with pytest.raises(UnsupportedError, match="nondivergent is True with columns that wrap"):
        sx.advect_diffuse(plane, plane, plane, nondivergent=True, edges="wrap")
    with pytest.raises(ValueError, match=r"dims are .'x',., but must be two"):
        sx.advect_diffuse(plane, plane, plane, dims="x")
    two = xr.concat([x, x.where(x.lon > 50)], "n")
    with pytest.raises(UnsupportedError, match="land differs among fields, but must be the same"):
        sx.advect_diffuse(two, u[0], u[0], diffusivity=1.0, skipna=True)


def test_weights_are_exact_for_quadratics(rng, lat) -> None:
    """The value at a face of x -> x^2, from its means over four uneven cells."""
    u = field(0.0, lat)
    rows = Rows(sx.grid_layout(u), 0, 1)
    h = rows.heights() / R
    faces = np.concatenate([[0.0], np.cumsum(h)])
    means = np.diff(faces**3) / 3 / h
    inner = slice(2, len(h) - 1)
    weights = rows.weights()[inner]
    d = np.diff(means)
    found = means[1:-2] + weights[:, 0] * d[:-2] + weights[:, 1] * d[1:-1] + weights[:, 2] * d[2:]
    if not rows.caps:
        np.testing.assert_allclose(found, faces[2:-2] ** 2, atol=1e-12)
    else:
        np.testing.assert_allclose(found[2:-2], faces[4:-4] ** 2, atol=1e-12)


def far_winds(rng, case):
    """A field of few cells, winds that cross some of them in 2000 s, and a sea."""
    if case == "walls":
        x = xr.DataArray(rng.random((4, 14)), {"y": np.arange(4.0), "x": np.arange(14.0)}, ("y", "x"))
        # Within the step no cell is emptied, though in the middle three cross a face.
        ramp = 2.2e-4 * np.minimum(np.arange(14), 13 - np.arange(14)) * np.array([[1.0], [-1.0], [0.4], [0.1]])
        return x, x.copy(data=ramp), 0 * x, x > -1
    x = noise(rng, LATITUDES[case])[::4, ::4] if case == "region" else noise(rng, LATITUDES[case])[::3, ::4]
    u, v = storm(rng, x)
    turning = R * np.cos(np.deg2rad(x.lat)) * math.radians(30) * 1.3 / 2000
    sea = x > -1
    if case == "region":
        sea[1, 2] = False
        turning = 0 * turning
    return x, u + turning, 0.2 * v, sea


@pytest.mark.parametrize("case", ["poles", "half-cells", "region", "walls"])
def test_loops_of_the_kernels(rng, monkeypatch, case) -> None:
    """Run by Python they do what they do when compiled, and arrays of any library too."""
    pytest.importorskip("numba")
    x, u, v, sea = far_winds(rng, case)
    for limiter in ("none", "positive", "monotone"):
        options = {"limiter": limiter, "mask": sea, "dt": 4000.0, "steps": 2}
        expected = sx.advect_diffuse(x, u, v, **options)
        with monkeypatch.context() as patch:
            called = run_as_python(patch, "sweeps")
            found = sx.advect_diffuse(x, u, v, **options)
        assert {"sweep_rows", "sweep_columns"} <= set(called)
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
        with monkeypatch.context() as patch:
            patch.setenv("SPECTRALOPS_NUMBA", "0")
            plain = sx.advect_diffuse(x, u, v, **options)
        np.testing.assert_allclose(plain, expected, rtol=1e-13, atol=1e-13)
        if case == "walls":
            assert float(found.sum()) == pytest.approx(float(x.sum()), rel=1e-13)


@pytest.mark.parametrize("kind", [Tridiagonal, Cyclic])
def test_tridiagonal_systems(rng, kind) -> None:
    lower, upper = rng.standard_normal((2, 7, 3))
    diagonal = 3 + rng.random((7, 3))
    y = rng.standard_normal((2, 7, 3))
    x = kind(lower, diagonal, upper).solve(y)
    for k in range(3):
        matrix = np.diag(diagonal[:, k]) + np.diag(lower[1:, k], -1) + np.diag(upper[:-1, k], 1)
        if kind is Cyclic:
            matrix[0, -1], matrix[-1, 0] = lower[0, k], upper[-1, k]
        np.testing.assert_allclose(x[..., k] @ matrix.T, y[..., k], atol=1e-12)
