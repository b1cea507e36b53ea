"""How the grid is read from the coordinates: roles, regularity, wrap, poles, and what is refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

import spectralops.xarray as sx  # noqa: E402
from spectralops.xarray._units import measured, product  # noqa: E402

R = sx.EARTH_RADIUS


def field(**coords):
    """Zeros on these coordinates: values, or values and attributes."""
    variables = {k: v if isinstance(v, tuple) else (np.asarray(v), {}) for k, v in coords.items()}
    return xr.DataArray(
        np.zeros([len(v[0]) for v in variables.values()]), {k: (k, v[0], v[1]) for k, v in variables.items()}
    )


def axes(x, **options):
    return {axis.dim: axis for axis in sx.grid_layout(x, **options).axes}


def test_spacing_in_metres_and_orientation() -> None:
    found = axes(field(lat=[10.0, 0.0, -10.0], lon=np.arange(0.0, 360, 90)))
    assert found["lat"].spacing == pytest.approx(R * math.pi / 18)
    assert found["lon"].spacing == pytest.approx(R * math.pi / 2, rel=1e-15)
    assert (found["lat"].descending, found["lon"].descending) == (True, False)
    assert (found["lat"].unit, found["lat"].number, found["lon"].number) == ("m", 0, 1)


@pytest.mark.parametrize(
    ("name", "attrs", "kind"),
    [
        ("q", {"standard_name": "grid_longitude", "units": "degrees"}, "longitude"),
        ("q", {"units": "degrees_north"}, "latitude"),
        ("Latitude", {}, "latitude"),
        ("lon", {"units": "m"}, "length"),
        ("x", {"units": "km"}, "length"),
        ("x", {"units": "furlong"}, "plain"),
    ],
)
def test_kind_of_a_dimension(name, attrs, kind) -> None:
    (axis,) = axes(field(**{name: ([1.0, 2.0, 3.0], attrs)})).values()
    assert axis.kind == kind


def test_length_units_become_metres() -> None:
    (axis,) = axes(field(x=([0.0, 2, 4], {"units": "km"}))).values()
    assert (axis.spacing, axis.unit) == (2000.0, "m")


def test_other_units_stay() -> None:
    (axis,) = axes(field(x=([0.0, 2, 4], {"units": "furlong"}))).values()
    assert (axis.spacing, axis.unit) == (2.0, "furlong")


@pytest.mark.parametrize(("n", "edge"), [(36, "wrap"), (35, "mirror"), (37, "mirror")])
def test_longitude_wraps_if_its_steps_are_a_circle(n, edge) -> None:
    (axis,) = axes(field(lon=-180 + 10.0 * np.arange(n))).values()
    assert axis.edge == edge


def test_a_circle_of_float32_has_the_exact_step() -> None:
    (axis,) = axes(field(lon=(0.1 * np.arange(3600)).astype(np.float32))).values()
    assert axis.regular
    assert axis.edge == "wrap"
    assert axis.spacing == 2 * math.pi * R / 3600


@pytest.mark.parametrize(
    ("lat", "lon", "edge"),
    [
        (np.linspace(-90, 90, 19), np.arange(0.0, 360, 20), "pole"),
        (np.linspace(85, -85, 18), np.arange(0.0, 360, 20), "pole"),
        (np.linspace(-80, 90, 18), np.arange(0.0, 360, 20), "mirror"),
        (np.linspace(-83, 83, 18), np.arange(0.0, 360, 20), "mirror"),
        (np.linspace(-90, 90, 19), np.arange(0.0, 360, 40), "mirror"),
        (np.linspace(-90, 90, 19), np.arange(0.0, 340, 20), "mirror"),
    ],
    ids=["poles", "half-cell", "one-pole", "gap", "odd-circle", "region"],
)
def test_latitude_continues_over_the_poles(lat, lon, edge) -> None:
    assert axes(field(lat=lat, lon=lon))["lat"].edge == edge


def test_gaussian_latitudes_are_uneven_and_reach_over_the_poles() -> None:
    lat = np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(32)[0]))
    axis = axes(field(lat=lat, lon=np.arange(0.0, 360, 10)))["lat"]
    assert (axis.regular, axis.edge, math.isnan(axis.spacing)) == (False, "pole", True)
    assert axis.points == pytest.approx(np.deg2rad(lat) * R)


@pytest.mark.parametrize("jitter", [0.0, 1e-6, 1e-3])
def test_regular_is_close_to_a_straight_line(jitter) -> None:
    x = np.arange(10.0)
    x[4] += jitter
    assert axes(field(x=x))["x"].regular == (jitter < 1e-5)


def test_float32_far_from_zero_is_regular() -> None:
    x = (np.float32(359.6) + np.float32(0.0009) * np.arange(100)).astype(np.float32)
    assert np.ptp(np.diff(x)) > 0.03 * 0.0009
    assert axes(field(x=x))["x"].regular


def test_times_in_seconds() -> None:
    t = np.datetime64("2022-01-01") + np.arange(5) * np.timedelta64(1, "ms")
    (axis,) = axes(field(time=t)).values()
    assert (axis.kind, axis.unit, axis.regular) == ("time", "s", True)
    assert axis.spacing == pytest.approx(1e-3)


def test_cftime_in_seconds() -> None:
    pytest.importorskip("cftime")
    t = xr.date_range("0500-02-28", periods=4, freq="D", calendar="360_day", use_cftime=True)
    (axis,) = axes(field(time=t)).values()
    assert (axis.kind, axis.spacing, axis.regular) == ("time", 86400.0, True)


def test_default_dims_keep_the_order_of_the_array() -> None:
    x = field(lon=np.arange(3.0), time=np.arange(2), lat=np.arange(4.0))
    assert [axis.dim for axis in sx.grid_layout(x).axes] == ["lon", "lat"]


def test_default_dims_by_axis_attributes() -> None:
    x = field(north=([0.0, 1], {"axis": "Y"}), east=([0.0, 1], {"axis": "X"}), z=[1.0, 2])
    assert [axis.dim for axis in sx.grid_layout(x).axes] == ["north", "east"]


def test_edges_can_be_chosen() -> None:
    x = field(y=np.arange(3.0), x=np.arange(4.0))
    assert {a.edge for a in sx.grid_layout(x, edges="wrap").axes} == {"wrap"}
    assert [a.edge for a in sx.grid_layout(x, edges={"x": "wrap"}).axes] == ["mirror", "wrap"]


def test_layout_is_a_value() -> None:
    x = field(lat=np.linspace(-90, 90, 19), lon=np.arange(0.0, 360, 20))
    layout = sx.grid_layout(x)
    assert layout == pickle.loads(pickle.dumps(layout))
    assert hash(layout) == hash(sx.grid_layout(x + 1))


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (field(a=[1.0, 2], b=[1.0, 2]), {}, r"dims is not given, but must be one or more of \('a', 'b'\)"),
        (field(x=[1.0, 2]), {"dims": "y"}, r"dims has 'y', but must be among the dimensions \('x',\)"),
        (field(x=[1.0, 2]), {"dims": ("x", "x")}, r"dims is \('x', 'x'\), but must be different"),
        (
            field(lat=[1.0, 2], latitude=[1.0, 2], lon=[1.0, 2]),
            {},
            r"\['lat', 'latitude'\] could each be the latitude; pass dims",
        ),
        (field(x=[1.0, 1.0, 2.0]), {}, r"'x' does not rise .*; sort it by sortby\('x'\), .* by drop_duplicates\('x'\)"),
        (field(x=[1.0, np.nan, 2.0]), {}, "'x' has missing points, but must have none; drop them"),
        (field(lat=[80.0, 91.0], lon=[0.0, 1.0]), {"dims": "lon"}, "'lat' has 91 degrees, but must lie within 90"),
        (field(lon=[0.0, 1.0]).assign_coords(lat=-91.0), {}, "latitude has -91 degrees, but must"),
        (field(x=[1.0, 2]), {"edges": "reflect"}, "edges is 'reflect', but must be"),
        (field(x=[1.0, 2]), {"edges": {"y": "wrap"}}, r"edges has 'y', but must name dimensions among \('x',\)"),
        (field(lat=[1.0, 2]), {"edges": "pole"}, "edges is 'pole' for 'lat', but must be so only for latitudes"),
        (field(x=[0.0, 1, 3]), {"edges": "wrap"}, "edges is 'wrap' for 'x', but must not be where its spacing"),
        (xr.DataArray(np.zeros(3), dims="x"), {"dims": "x"}, "'x' has no coordinate, but must have one"),
        (field(x=[1.0, 2]), {"radius": -1}, "radius is -1"),
    ],
    ids=[
        "no-dims",
        "unknown-dim",
        "same-dims",
        "two-latitudes",
        "repeated-points",
        "missing-points",
        "beyond-a-pole",
        "one-row-beyond-a-pole",
        "unknown-edge",
        "edge-of-another-dim",
        "no-pole",
        "uneven-wrap",
        "no-coordinate",
        "radius",
    ],
)
def test_refused(x, options, message) -> None:
    with pytest.raises(ValueError, match=f"^grid_layout: .*{message}"):
        sx.grid_layout(x, **options)


def test_words_as_coordinates_are_refused() -> None:
    with pytest.raises(TypeError, match="'x' has dtype <U1, but must be numbers or times"):
        sx.grid_layout(field(x=["a", "b"]))


def test_arrays_without_labels_are_refused() -> None:
    with pytest.raises(TypeError, match="x is a ndarray, but must be a DataArray"):
        sx.grid_layout(np.zeros(3))


@pytest.mark.parametrize("dims", [None, ("y", "x")])
def test_curvilinear_grids_are_refused_with_help(dims) -> None:
    plane = ("y", "x"), np.zeros((3, 4)), {"units": "degrees_north"}
    x = xr.DataArray(np.zeros((3, 4)), {"nav_lat": plane}, ("y", "x"))
    with pytest.raises(
        ValueError, match=r"\['nav_lat'\], of two or more dimensions, a curvilinear grid.*diffusion_filter"
    ):
        sx.grid_layout(x, dims)


@pytest.mark.parametrize(
    ("name", "variable", "expected"),
    [
        ("era_interim_uvz.nc", "u", [("latitude", "pole", True), ("longitude", "wrap", False)]),
        ("ncep_uwnd_200hpa_clim.nc", "uwnd", [("latitude", "pole", True), ("longitude", "wrap", False)]),
        ("era5_t2m_uk_hourly.nc", "t2m", [("latitude", "mirror", True), ("longitude", "mirror", False)]),
        (
            "ostia_sst_tropics_monthly.nc",
            "surface_temperature",
            [("latitude", "mirror", False), ("longitude", "wrap", False)],
        ),
        (
            "rotated_pole_mslp.nc",
            "air_pressure_at_sea_level",
            [("latitude", "mirror", False), ("longitude", "mirror", False)],
        ),
        (
            "um_theta_hybrid_height_100m.nc",
            "air_potential_temperature",
            [("latitude", "mirror", False), ("longitude", "mirror", False)],
        ),
        ("msg_brightness_stereographic.nc", "data", [("length", "mirror", True), ("length", "mirror", False)]),
    ],
)
def test_real_files(data_file, name, variable, expected) -> None:
    with xr.open_dataset(data_file(name), engine="h5netcdf") as ds:
        found = sx.grid_layout(ds[variable]).axes
    assert [(axis.kind, axis.edge, axis.descending) for axis in found] == expected
    assert all(axis.regular for axis in found)


@pytest.mark.parametrize(
    ("value", "unit", "radius", "expected"),
    [
        ("500 km", "m", None, 5e5),
        ("2.5e3 m", "m", None, 2500.0),
        ("30mm", "m", None, 0.03),
        ("180 degrees", "m", 2.0, 2 * math.pi),
        (7, "m", None, 7.0),
        ("3 furlong", "furlong", None, 3.0),
        ("2 D", "s", None, 172800.0),
        (np.timedelta64(3, "h"), "s", None, 10800.0),
        (0.5, "s", None, 0.5),
    ],
    ids=str,
)
def test_measured(value, unit, radius, expected) -> None:
    assert measured("f", "a", value, unit, radius) == pytest.approx(expected, rel=1e-15)


def test_measured_takes_quantities() -> None:
    class Quantity:
        magnitude = 2.0

        def to(self, unit):
            assert unit == "m"
            return type("Q", (), {"magnitude": 2000.0})()

    assert measured("f", "a", Quantity(), "m") == 2000.0


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("500", "m", "a is '500', but must be a number with its unit such as '500 km'"),
        ("5 parsec", "m", "a is '5 parsec', but must be"),
        ("2 degrees", "m", "a is '2 degrees', but must be"),
        ("5 m", "furlong", "such as '500 furlong'"),
        ("5 m", "", "a is '5 m', but must be a number alone, since the coordinate has no units"),
        ("soon", "s", "a is 'soon', but must be a duration such as '10 min', '6 h' or '2 D'"),
        (-1.0, "m", "a is -1.0"),
        ("-1 km", "m", "a is -1000.0"),
    ],
)
def test_measured_refuses(value, unit, message) -> None:
    with pytest.raises(ValueError, match=f"^f: .*{message}"):
        measured("f", "a", value, unit)


@pytest.mark.parametrize(
    ("units", "power", "factors", "expected"),
    [
        ("m s-1", 1, {"m": -1}, "s-1"),
        ("m/s", 1, {"m": -1}, "s-1"),
        ("m**2 s**-2", 1, {"m": -1}, "m s-2"),
        ("W/m^2", 2, {"m": 1}, "W2 m-3"),
        ("K", 1, {"m": -2}, "K m-2"),
        ("degree_C", 1, {"s": -1}, "K s-1"),
        ("1", 1, {"m": -1}, "m-1"),
        ("1/s", 1, {"s": 1}, "1"),
        ("", 1, {"m": -1}, "m-1"),
        ("log(Pa)", 1, {"m": -1}, None),
        (None, 1, {"m": -1}, None),
    ],
)
def test_product_of_units(units, power, factors, expected) -> None:
    assert product(units, power, factors) == expected
