"""Tracers in given winds: kinds of arrays, what comes back, the largest step, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

from tracers import LATITUDES, R, field, noise, rotation, storm  # noqa: E402

import spectralops.xarray as sx  # noqa: E402
from spectralops.errors import StabilityError, UnsupportedError  # noqa: E402


def test_model_calendars() -> None:
    cftime = pytest.importorskip("cftime")
    time = [cftime.Datetime360Day(2000, 2, day) for day in (29, 30)] + [cftime.Datetime360Day(2000, 3, 1)]
    x = xr.DataArray(np.ones((4, 5)), {"y": np.arange(4.0), "x": np.arange(5.0), "time": time[0]}, ("y", "x"))
    u = xr.DataArray(np.zeros(3), {"time": time}, "time")
    y = sx.advect_diffuse(x, u, u, duration="2 D", dt="6 h")
    assert y.time.item() == time[2]


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
    with pytest.raises(UnsupportedError, match=r"land differs among fields, .*; pass it as one mask"):
        sx.advect_diffuse(two, u[0], u[0], diffusivity=1.0, skipna=True)
