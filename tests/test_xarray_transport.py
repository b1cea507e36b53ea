"""Tracers in given winds: conservation, bounds, the bell over the poles, seams, coasts, time, parts of a step."""

from __future__ import annotations

import math

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

from kernels_as_python import run_as_python  # noqa: E402
from tracers import DAY, LATITUDES, R, bell, field, integral, noise, norms, rotation, storm  # noqa: E402

import spectralops.xarray as sx  # noqa: E402
from spectralops.xarray._cells import Rows  # noqa: E402
from spectralops.xarray._tridiagonal import Cyclic, Tridiagonal  # noqa: E402


def rows_are_poles(lat):
    return abs(lat[0]) > 89.99


def spread(x):
    return float(x.max() - x.min())


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


# As measured here: docs/xarray.md has the same numbers, and those of other sizes.
BELL = {
    ("half-cells", 45, "monotone"): (0.0245, 0.0223, 0.0508),
    ("half-cells", 45, "positive"): (0.0233, 0.0178, 0.0154),
    ("half-cells", 90, "monotone"): (0.0490, 0.0632, 0.124),
    ("half-cells", 90, "positive"): (0.0375, 0.0415, 0.0829),
    ("poles", 90, "monotone"): (0.0380, 0.0404, 0.0691),
}
# J. A. Rossmanith, J. Comput. Phys. 213 (2006) 629, tables 3 and 2: a limited wave propagation method of second order
# on a cubed sphere of 6 x 40 x 40 cells, also 160 round the equator, without poles, over which ours has larger peaks.
ROSSMANITH = {45: (0.112, 0.107, 0.176), 90: (0.0570, 0.0462, 0.0457)}


@pytest.mark.parametrize("case", BELL, ids=lambda case: "-".join(map(str, case)))
def test_cosine_bell_after_one_revolution(case) -> None:
    """Test 1 of Williamson et al. (1992) on 160 longitudes, past the poles and over them, beside published norms."""
    name, tilt, limiter = case
    lat = -90 + 180 / 80 * (np.arange(80) + 0.5) if name == "half-cells" else np.linspace(-90, 90, 81)
    x = bell(field(0.0, lat, 160))
    y = sx.advect_diffuse(x, *rotation(x, tilt), duration="12 D", limiter=limiter, nondivergent=True)
    found = norms(y, x)
    assert found == pytest.approx(BELL[case], rel=0.03)
    better = [ours < theirs for ours, theirs in zip(found, ROSSMANITH[tilt], strict=True)]
    assert all(better[: 3 if tilt == 45 else 1])
    assert abs(integral(y) / integral(x) - 1) < 1e-13
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


@pytest.mark.parametrize("limiter", ["none", "positive"])
def test_constants_stay_where_land_lies_across_a_pole(rng, lat, limiter) -> None:
    x = field(7.3, lat)
    sea = x.copy(data=rng.random(x.shape) > 0.3)
    if rows_are_poles(lat):
        sea[[0, -1]] = True
    y = sx.advect_diffuse(x, *storm(rng, x), dt=300, steps=3, mask=sea, form="advective", limiter=limiter)
    np.testing.assert_array_equal(y, x)


def test_land_of_fields_sources_and_winds(rng) -> None:
    """NaN at land in any of them changes nothing at sea; land that all fields share may diffuse."""
    x = noise(rng, LATITUDES["half-cells"])
    land = x.copy(data=rng.random(x.shape) > 0.7)
    u, v = storm(rng, x)
    options = {"dt": 300, "steps": 3, "diffusivity": 1e4}
    expected = sx.advect_diffuse(x, u, v, source=1e-4 + 0 * x, mask=~land, **options).where(~land)
    two = xr.concat([x, x], "n").where(~land)
    u, v, source = (each.where(~land) for each in (u, v, 1e-4 + 0 * x))
    found = sx.advect_diffuse(two, u, v, source=source, skipna=True, **options)
    for each in found:
        np.testing.assert_array_equal(each, expected)


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


def test_real_winds(data_file) -> None:
    """ERA-Interim at 200 hPa: ten days of the winds of January, poles included."""
    with xr.open_dataset(data_file("era_interim_uvz.nc"), engine="h5netcdf") as ds:
        winds = ds.sel(level=200).isel(month=0, latitude=slice(None, None, 4), longitude=slice(None, None, 4)).load()
    x = xr.where((abs(winds.latitude - 45) < 10) & (abs(winds.longitude) < 15), 1.0, 0.0 * winds.u)
    y = sx.advect_diffuse(x, winds.u, winds.v, duration="10 D")
    assert integral(y) == pytest.approx(integral(x), rel=1e-12)
    assert float(y.min()) >= 0.0
    assert spread(y[0]) == 0.0


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
    pytest.importorskip("llvmlite")
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
