"""Filters on labelled grids: waves in closed form, seams and poles, missing values, and what comes back unchanged."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import scipy.ndimage as ndi

xr = pytest.importorskip("xarray")

import spectralops as so  # noqa: E402
import spectralops.xarray as sx  # noqa: E402

R = sx.EARTH_RADIUS
FILTERS = {
    "lowpass": lambda x, **o: sx.lowpass(x, "3000 km", **o),
    "highpass": lambda x, **o: sx.highpass(x, "3000 km", order=2, **o),
    "bandpass": lambda x, **o: sx.bandpass(x, ("2000 km", "6000 km"), **o),
    "gaussian": lambda x, **o: sx.gaussian(x, "900 km", **o),
    "convolve": lambda x, **o: sx.convolve(x, np.outer([1, 2, 1], [1, 2, 3]) / 24, **o),
}


def globe(rng, nlat=19, nlon=36, descending=False, dtype="float64"):
    lat = np.linspace(-90, 90, nlat)[:: -1 if descending else 1]
    lon = np.arange(nlon) * 360.0 / nlon
    values = rng.standard_normal((nlat, nlon)).astype(dtype)
    values[[0, -1]] = values[[0, -1], :1]
    attrs = {"units": "degrees_north"}, {"units": "degrees_east"}
    return xr.DataArray(values, {"lat": ("lat", lat, attrs[0]), "lon": ("lon", lon, attrs[1])}, name="t")


def wave(lat, m=4, n=72):
    """A zonal wave along one circle of latitude."""
    lon = np.arange(n) * 360.0 / n
    return xr.DataArray(np.cos(m * np.deg2rad(lon)), {"lon": ("lon", lon), "lat": lat}, ("lon",))


@pytest.mark.parametrize("lat", [0.0, 45.0, -60.0])
def test_wavelength_of_a_circle_of_latitude(lat) -> None:
    u = wave(lat)
    length = 2 * np.pi * R * np.cos(np.deg2rad(lat)) / 4
    np.testing.assert_allclose(sx.lowpass(u, 0.99 * length), u, atol=1e-14)
    np.testing.assert_allclose(sx.lowpass(u, 1.01 * length), 0 * u, atol=1e-14)
    np.testing.assert_allclose(sx.highpass(u, 1.01 * length), u, atol=1e-14)
    np.testing.assert_allclose(sx.bandpass(u, (0.9 * length, 1.1 * length)), u, atol=1e-14)


def test_rows_have_cutoffs_of_their_own(rng) -> None:
    u = globe(rng)
    y = sx.lowpass(u, "3000 km", dims="lon")
    for row in (3, 9, 15):
        np.testing.assert_allclose(y[row], sx.lowpass(u.isel(lat=row), "3000 km"), atol=1e-14)


def test_meridional_wave_on_the_great_circle() -> None:
    """P2 has one wave of half a circle: sin^2 = (1 - cos 2 lat)/2."""
    lat = np.linspace(90, -90, 37)
    u = xr.DataArray(
        np.sin(np.deg2rad(lat))[:, None] ** 2 + np.zeros((37, 8)),
        {"lat": lat, "lon": 45.0 * np.arange(8)},
        ("lat", "lon"),
    )
    gain = np.exp(-((2 * 1e6 / R) ** 2) / 2)
    expected = 0.5 - 0.5 * gain * np.cos(2 * np.deg2rad(lat))
    np.testing.assert_allclose(sx.gaussian(u, "1000 km").values, expected[:, None] + np.zeros(8), atol=1e-14)


def test_gaussian_at_the_pole_is_the_gaussian_of_distance() -> None:
    """Away from the pole's singular point, one spot spreads alike in all directions."""
    lat, lon = np.linspace(-90, 90, 181), np.arange(0.0, 360, 2)
    u = xr.DataArray(np.zeros((181, 180)), {"lat": lat, "lon": lon}, ("lat", "lon"))
    u[-1] = 1.0
    y = sx.gaussian(u, "500 km")
    r = R * np.deg2rad(90 - lat)
    ring = y.values[:, 0]
    np.testing.assert_allclose(y.values, ring[:, None] + np.zeros(180), atol=1e-12)
    near = lat > 75
    np.testing.assert_allclose(ring[near] / ring[-1], np.exp(-(r[near] ** 2) / (2 * 5e5**2)), atol=1e-3)


def test_nothing_leaks_from_pole_to_pole(rng) -> None:
    u = 0 * globe(rng, 37)
    u[-1] = 1.0
    y = sx.gaussian(u, "1500 km")
    assert float(abs(y[0]).max()) < 1e-12
    assert float(y[-1].min()) > 0.1


def test_a_filter_over_the_pole_sees_the_opposite_meridian(rng) -> None:
    u = 0 * globe(rng, 18 * 2 + 1)
    u[-2, 3] = 1.0
    y = sx.gaussian(u, "300 km", dims="lat")
    # Next to the pole, the spot's mirror is half the globe's circle away, two rows along the meridian.
    assert float(y[-2, 3 + 18]) == pytest.approx(float(y[-4, 3]), abs=1e-12)
    assert float(y[-2, 5]) == 0.0


def test_seam_of_longitude(rng) -> None:
    u = globe(rng)
    shifted = u.roll(lon=7, roll_coords=False)
    for name, filtered in FILTERS.items():
        np.testing.assert_allclose(
            filtered(shifted), filtered(u).roll(lon=7, roll_coords=False), atol=1e-13, err_msg=name
        )


@pytest.mark.parametrize("name", ["lowpass", "highpass", "bandpass", "gaussian"])
def test_descending_latitude_gives_the_same(rng, name) -> None:
    """Only a convolution's kernel follows the order of storage."""
    u = globe(rng)
    np.testing.assert_allclose(
        FILTERS[name](u.isel(lat=slice(None, None, -1))).sortby("lat"), FILTERS[name](u), atol=1e-13
    )


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16"])
@pytest.mark.parametrize("skipna", [False, True])
def test_dtype(rng, name, dtype, skipna) -> None:
    u = (8 * globe(rng)).astype(dtype)
    y = FILTERS[name](u, skipna=skipna)
    assert y.dtype == ("float64" if dtype == "int16" else dtype)
    tolerance = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-2, "int16": 1e-13}[dtype]
    np.testing.assert_allclose(y, FILTERS[name](u.astype("float64")), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("order", [("lat", "lon"), ("lon", "time", "lat")])
def test_what_comes_back_unchanged(rng, name, order) -> None:
    u = globe(rng, descending=True, dtype="float32")
    u = u.expand_dims(time=2).transpose(*order) if "time" in order else u
    u = u.assign_coords(height=10.0, area=(("lat", "lon"), np.ones((19, 36))))
    u.attrs = {"units": "K", "standard_name": "air_temperature", "note": [1, 2]}
    u.lat.attrs["extra"] = "kept"
    before = copy.deepcopy(u)
    y = FILTERS[name](u, dims=("lat", "lon"))
    assert y.dims == u.dims
    assert y.name == "t"
    assert y.attrs == before.attrs
    assert u.identical(before)
    xr.testing.assert_identical(y.coords.to_dataset(), u.coords.to_dataset())
    for c in u.coords:
        assert y[c].variable.dtype == u[c].variable.dtype


def test_batches_and_order_of_dimensions(rng) -> None:
    u = xr.concat([globe(rng), globe(rng)], "time").transpose("lon", "time", "lat")
    for name, filtered in FILTERS.items():
        if name != "convolve":
            one = filtered(u.isel(time=1).transpose("lat", "lon"))
            np.testing.assert_allclose(filtered(u).isel(time=1).transpose("lat", "lon"), one, atol=1e-13, err_msg=name)


def test_packing_is_dropped_and_compression_kept(rng) -> None:
    u = globe(rng)
    u.encoding = {
        "dtype": "int16",
        "scale_factor": -0.1,
        "add_offset": 3.0,
        "_FillValue": -1,
        "zlib": True,
        "source": "x",
    }
    assert sx.lowpass(u, "3000 km").encoding == {"zlib": True}
    assert u.encoding["scale_factor"] == -0.1


def test_written_and_read_back_after_packing(data_file, tmp_path) -> None:
    """Carrying a packed file's encoding would leave single values."""
    with xr.open_dataset(data_file("era_interim_uvz.nc"), engine="h5netcdf") as ds:
        y = sx.lowpass(ds.u.isel(month=0, level=0), "3000 km")
    y.to_netcdf(tmp_path / "y.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "y.nc", engine="h5netcdf") as back:
        np.testing.assert_array_equal(back.u, y)


def test_datasets(rng) -> None:
    ds = xr.Dataset({"a": globe(rng), "b": globe(rng).T, "c": ("lat", np.arange(19.0)), "n": ("lat", list("x" * 19))})
    ds.attrs["title"] = "kept"
    y = sx.gaussian(ds, "900 km")
    assert list(y) == ["a", "b", "c", "n"]
    assert y.attrs == ds.attrs
    xr.testing.assert_identical(y.a, sx.gaussian(ds.a, "900 km"))
    xr.testing.assert_identical(y.b, sx.gaussian(ds.b, "900 km"))
    xr.testing.assert_identical(y.c, ds.c)


def test_plane_with_wrap_is_the_plain_operator(rng) -> None:
    u = xr.DataArray(rng.standard_normal((12, 15)), {"y": 2.0 * np.arange(12), "x": 0.5 * np.arange(15)})
    expected = so.spectral_filter(u.values, so.transfer.lowpass(wavelength=3.0), spacing=(2.0, 0.5))
    np.testing.assert_array_equal(sx.lowpass(u, 3.0, edges="wrap"), expected)
    expected = so.spectral_filter(u.values, so.transfer.butterworth(3, wavelength=3.0), spacing=(2.0, 0.5))
    np.testing.assert_array_equal(sx.lowpass(u, 3.0, order=3, edges="wrap"), expected)


def test_mirror_agrees_with_scipy(rng) -> None:
    """SciPy's "reflect" is the same continuation; its Gaussian is sampled in space instead."""
    u = xr.DataArray(rng.standard_normal((20, 16)), {"y": np.arange(20.0), "x": np.arange(16.0)})
    expected = ndi.gaussian_filter(u.values, 2.0, mode="reflect", truncate=12)
    np.testing.assert_allclose(sx.gaussian(u, 2.0), expected, atol=1e-7)


def test_mirrors_keep_the_mean(rng) -> None:
    u = xr.DataArray(rng.standard_normal((11, 8)), {"y": np.arange(11.0), "x": np.arange(8.0)})
    assert float(sx.lowpass(u, 6.0).mean()) == pytest.approx(float(u.mean()), abs=1e-15)


def test_low_band_and_high_add_up(rng) -> None:
    u = globe(rng)
    parts = sx.lowpass(u, "5000 km") + sx.bandpass(u, ("5000 km", "2500 km")) + sx.highpass(u, "2500 km")
    np.testing.assert_allclose(parts, u, atol=1e-14)


def test_complex_fields(rng) -> None:
    u = globe(rng) + 1j * globe(rng)
    y = sx.lowpass(u, "3000 km")
    np.testing.assert_allclose(y.real, sx.lowpass(u.real, "3000 km"), atol=1e-14)
    np.testing.assert_allclose(y.imag, sx.lowpass(u.imag, "3000 km"), atol=1e-14)


def test_periods() -> None:
    time = np.datetime64("2001-01-01") + np.arange(240) * np.timedelta64(6, "h")
    day, week = (np.sin(2 * np.pi * np.arange(240) / n) for n in (4, 30))
    u = xr.DataArray(3 + day + week, {"time": time, "x": 1.0}, ("time",)).expand_dims(y=2)
    np.testing.assert_allclose(sx.lowpass(u, period="2 D", edges="wrap")[1], 3 + week, atol=1e-13)
    np.testing.assert_allclose(sx.highpass(u, period=2 * 86400.0, edges="wrap")[1], day, atol=1e-13)
    assert sx.gaussian(u, "12 h", dims="time").dims == ("y", "time")


def test_calendars(data_file) -> None:
    pytest.importorskip("cftime")
    with xr.open_dataset(data_file("e1_tas_north_america_360day.nc"), engine="h5netcdf") as ds:
        t = ds.air_temperature.load()
    y = sx.lowpass(t, period="3600 D")
    assert y.time.identical(t.time)
    assert float(y.mean()) == pytest.approx(float(t.mean()), rel=1e-5)
    assert float(y.diff("time").var()) < 0.2 * float(t.diff("time").var())


@pytest.mark.parametrize("name", FILTERS)
def test_without_nan_the_bits_are_the_same(rng, name) -> None:
    u = globe(rng)
    np.testing.assert_array_equal(FILTERS[name](u, skipna=True), FILTERS[name](u))


@pytest.mark.parametrize("name", ["lowpass", "gaussian", "convolve"])
def test_constants_stay_constant_around_land(rng, name) -> None:
    u = 0 * globe(rng) + 4.0
    u = u.where(rng.random(u.shape) > 0.2)
    y = FILTERS[name](u, skipna=True, min_weight=0.4)
    np.testing.assert_allclose(y.values[~np.isnan(y)], 4.0, atol=1e-13)
    assert bool(y.isnull().where(u.isnull(), True).all())


def test_normalised_by_the_filtered_mask(rng) -> None:
    u = globe(rng)
    u[4:8, 10:20] = np.nan
    mask = u.notnull()
    total, weight = sx.gaussian(u.fillna(0), "900 km"), sx.gaussian(mask.astype(float), "900 km")
    kept = mask & (weight >= 0.8)
    np.testing.assert_array_equal(sx.gaussian(u, "900 km", skipna=True, min_weight=0.8), (total / weight).where(kept))
    filled = sx.gaussian(u, "900 km", skipna=True, min_weight=0.3, fill=True)
    np.testing.assert_array_equal(filled, (total / weight).where(weight >= 0.3))
    assert 0 < int(filled.isnull().sum()) < int(u.isnull().sum())


def test_members_without_nan_are_not_touched(rng) -> None:
    u = xr.concat([globe(rng), globe(rng)], "time")
    u[0, 3, 3] = np.nan
    np.testing.assert_array_equal(FILTERS["gaussian"](u, skipna=True)[1], FILTERS["gaussian"](u[1]))


@pytest.mark.parametrize("name", FILTERS)
def test_without_skipna_a_nan_spreads(rng, name) -> None:
    u = globe(rng)
    u[3, 3] = np.nan
    nan = FILTERS[name](u).isnull()
    assert bool(nan[3, 4])
    assert name == "convolve" or bool(nan.all())


def test_highpass_around_land_is_the_rest(rng) -> None:
    u = globe(rng).where(rng.random((19, 36)) > 0.1)
    options = {"order": 2, "skipna": True}
    np.testing.assert_allclose(
        sx.highpass(u, "3000 km", **options) + sx.lowpass(u, "3000 km", **options), u, atol=1e-13
    )


def test_sea_surface_temperature(data_file) -> None:
    with xr.open_dataset(data_file("ostia_sst_tropics_monthly.nc"), engine="h5netcdf") as ds:
        t = ds.surface_temperature.isel(time=slice(2)).load()
    y = sx.gaussian(t, "150 km", skipna=True)
    assert y.dtype == "float32"
    assert bool(y.isnull().where(t.isnull(), True).all())
    assert int((y.isnull() & t.notnull()).sum()) < 0.02 * t.size
    assert float(abs(y - t).max()) < 3.0


@pytest.mark.parametrize("shape", [(3, 3), (4, 5), (1, 2), (7, 9)])
@pytest.mark.parametrize(("edges", "mode"), [("wrap", "wrap"), ("mirror", "reflect")])
def test_convolution_agrees_with_scipy(rng, shape, edges, mode) -> None:
    u = xr.DataArray(rng.standard_normal((6, 8)), {"y": np.arange(6.0), "x": np.arange(8.0)})
    k = rng.standard_normal(shape)
    origin = tuple(-1 if n % 2 == 0 else 0 for n in shape)
    expected = ndi.convolve(u.values, k, mode=mode, origin=origin)
    np.testing.assert_allclose(sx.convolve(u, k, edges=edges), expected, atol=1e-12)


def test_convolution_over_the_pole(rng) -> None:
    u = globe(rng)
    y = sx.convolve(u, [1.0, 0, 0], dims="lat")
    np.testing.assert_array_equal(y[:-1], u[1:])
    np.testing.assert_array_equal(y[-1], u[-2].roll(lon=18, roll_coords=False))


def test_convolution_follows_the_order_of_dims(rng) -> None:
    u = xr.DataArray(rng.standard_normal((6, 8)), {"y": np.arange(6.0), "x": np.arange(8.0)})
    k = rng.standard_normal((3, 5))
    np.testing.assert_allclose(sx.convolve(u, k, dims=("x", "y")), sx.convolve(u, k.T, dims=("y", "x")), atol=1e-14)


def test_response_is_what_waves_are_multiplied_by() -> None:
    gain = sx.response(sx.gaussian, "500 km")
    n, length = 64, 4e6
    x = np.arange(n) * length / 8
    u = xr.DataArray(np.cos(2 * np.pi * x / length), {"x": ("x", x, {"units": "m"})})
    ratio = float(sx.gaussian(u, "500 km", edges="wrap")[0])
    assert float(gain.interp(wavelength=length)) == pytest.approx(ratio, abs=1e-3)
    assert gain.wavelength.units == "m"
    assert gain.sizes == {"wavelength": 201}


@pytest.mark.parametrize(
    ("filtered", "bound", "kept"),
    [(sx.lowpass, "10 D", [0, 0, 1]), (sx.highpass, "10 D", [1, 1, 0]), (sx.bandpass, ("3 D", "10 D"), [0, 1, 0])],
)
def test_response_of_periods(filtered, bound, kept) -> None:
    gain = sx.response(filtered, bound, size=5001)
    at = gain.sel(period=86400 * np.array([1.5, 6.0, 40.0]), method="nearest")
    np.testing.assert_array_equal(at, kept)
    assert gain.period.units == "s"


def test_response_of_kernels_and_diffusion() -> None:
    """A running mean of three keeps (1 + 2 cos(k dx)) / 3, with its sign; one that shifts has a size alone."""
    gain = sx.response(sx.convolve, [1, 1, 1], spacing="25 km", size=31) / 3
    k = 2 * np.pi / gain.wavelength
    np.testing.assert_allclose(gain, (1 + 2 * np.cos(25e3 * k)) / 3, atol=1e-15)
    assert float(gain[0]) == pytest.approx(-1 / 3)
    assert float(gain.wavelength[0]) == 50e3
    assert float(gain.wavelength[-1]) == pytest.approx(750e3)
    shifted = sx.response(sx.convolve, [0, 0, 1.0, 0], spacing="6 h")
    np.testing.assert_allclose(shifted, 1.0)
    assert shifted.period.units == "s"
    x = {"x": ("x", 10e3 * np.arange(60), {"units": "m"})}
    wave = xr.DataArray(np.cos(2 * np.pi * np.arange(60) / 30), x)
    ratio = float(sx.convolve(wave, [0.2, 0.5, 0.3], edges="wrap").std() / wave.std())
    gain = sx.response(sx.convolve, [0.2, 0.5, 0.3], spacing=10e3, size=4001)
    assert float(gain.interp(wavelength=300e3)) == pytest.approx(ratio, abs=1e-6)
    field = xr.DataArray(
        np.cos(2 * np.pi * np.arange(60) / 30) + np.zeros((8, 1)), x | {"y": x["x"][1][:8]}, ("y", "x")
    )
    field.y.attrs["units"] = "m"
    ratio = float(sx.diffuse(field, "60 km", edges="wrap")[0, 0])
    gain = sx.response(sx.diffuse, "60 km", size=4001)
    assert float(gain.interp(wavelength=300e3)) == pytest.approx(ratio, abs=0.01)


def test_response_can_be_drawn() -> None:
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (line,) = sx.response(sx.lowpass, "500 km", order=2).plot(xscale="log")
    assert line.get_ydata()[0] < 0.1
    plt.close("all")


NO_X = xr.Dataset({"a": ("y", [1.0])}, {"x": [1.0]})
LINE = xr.DataArray(np.zeros(8), {"x": np.arange(8.0)})
TIMES = xr.DataArray(np.zeros(8), {"time": np.arange(8).astype("datetime64[h]").astype("datetime64[ns]")})
MONTHS = xr.DataArray(np.zeros(4), {"time": np.array(["2001-01", "2001-02", "2001-03", "2001-04"], "datetime64[ns]")})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sx.lowpass(LINE), TypeError, "lowpass: wavelength is None and period is None, but exactly one must"),
        (lambda: sx.lowpass(LINE, 1.0, period=2.0), TypeError, "wavelength is 1.0 and period is 2.0, but exactly one"),
        (lambda: sx.lowpass(np.zeros(3), 1.0), TypeError, "lowpass: x is a ndarray, but must be a DataArray"),
        (lambda: sx.lowpass(TIMES, 5.0), ValueError, "wavelength is given for 'time', but must be period"),
        (lambda: sx.lowpass(LINE, period=5.0, dims="x"), ValueError, "period is given for 'x', but must be wavelength"),
        (lambda: sx.lowpass(LINE, period=5.0), ValueError, r"dims is not given and \[\] are times, but must be one"),
        (lambda: sx.lowpass(MONTHS, period="90 D"), ValueError, "'time' has uneven spacing, .*resample"),
        (lambda: sx.bandpass(LINE, 5.0), ValueError, "bandpass: wavelength is 5.0, but must be a sequence"),
        (lambda: sx.bandpass(LINE, (5.0, 5.0)), ValueError, "bandpass: both bounds are 5.0, but must differ"),
        (lambda: sx.lowpass(LINE, 5.0, min_weight=2), ValueError, "min_weight is 2.0, but must be at most 1"),
        (lambda: sx.lowpass(LINE, 5.0, min_weight=0), ValueError, "lowpass: min_weight is 0"),
        (lambda: sx.lowpass(LINE, 5.0, skipna="no"), TypeError, "lowpass: skipna is 'no', but must be True or False"),
        (lambda: sx.lowpass(LINE, 5.0, fill=1), TypeError, "lowpass: fill is 1, but must be True or False"),
        (lambda: sx.lowpass(LINE, "5 km"), ValueError, "wavelength is '5 km', but must be a number"),
        (lambda: sx.gaussian(LINE[:0], 5.0), ValueError, "gaussian: 'x' has no points, but must have at least one"),
        (lambda: sx.gaussian(LINE.rename(x="lon"), "5 km"), ValueError, "longitude has no latitude beside it"),
        (
            lambda: sx.gaussian(LINE.expand_dims(time=TIMES.time), 5.0, dims=("time", "x")),
            ValueError,
            "gaussian: 'time' and 'x' have different units, but must have the same; pass one in dims",
        ),
        (lambda: sx.gaussian(NO_X, 5.0, dims="x"), ValueError, "no variable of the Dataset has numbers along"),
        (lambda: sx.convolve(LINE, np.ones((3, 3))), ValueError, r"shape \(3, 3\), but must have entries along \('x',"),
        (lambda: sx.convolve(LINE, []), ValueError, r"kernel has shape \(0,\), but must have entries"),
        (lambda: sx.convolve(LINE, ["a"]), TypeError, "kernel has dtype <U1, but must be real numbers"),
        (lambda: sx.convolve(LINE, [1.0, -1.0], skipna=True), ValueError, "kernel has the sum 0, but must"),
        (lambda: sx.response(sx.laplacian, 1.0), TypeError, "filter is .*, but must be one of bandpass, convol"),
        (lambda: sx.response(sx.convolve, [1]), TypeError, "spacing is None, but must be given for convolve"),
        (lambda: sx.response(sx.gaussian, 1, spacing=1), TypeError, "spacing is 1, but must be left out for gaussian"),
        (lambda: sx.response(sx.convolve, 1, spacing=1), ValueError, r"bound has shape \(\), but must be a kernel"),
        (lambda: sx.response(sx.bandpass, "5 km"), ValueError, "response: bound is '5 km', but must be a seq"),
        (lambda: sx.response(sx.lowpass, "soon"), ValueError, "response: bound is 'soon', but must be a duration"),
    ],
)  # fmt: skip
def test_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


def test_gaussian_latitudes_are_refused_with_help() -> None:
    lat = np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(16)[0]))
    u = xr.DataArray(np.zeros((16, 8)), {"lat": lat, "lon": 45.0 * np.arange(8)})
    with pytest.raises(
        ValueError, match=r"'lat' has uneven spacing.*interp\(lat=\.\.\.\) or transform longitude alone"
    ):
        sx.lowpass(u, "5000 km")
    assert sx.lowpass(u, "5000 km", dims="lon").shape == u.shape


@pytest.mark.parametrize(
    ("name", "args"),
    [("lowpass", ("3000 km",)), ("highpass", ("3000 km",)), ("bandpass", (("3000 km", "9000 km"),)),
     ("gaussian", ("900 km",)), ("convolve", (np.ones((3, 3)),)), ("laplacian", ()), ("derivative", ("lat",))],
)  # fmt: skip
def test_accessor_forwards(rng, name, args) -> None:
    u = globe(rng)
    xr.testing.assert_identical(getattr(u.spectral, name)(*args), getattr(sx, name)(u, *args))
    ds = u.to_dataset()
    xr.testing.assert_identical(getattr(ds.spectral, name)(*args), getattr(sx, name)(ds, *args))
    assert getattr(type(u.spectral), name).__doc__ == getattr(sx, name).__doc__
