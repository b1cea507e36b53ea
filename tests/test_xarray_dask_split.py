"""Dask arrays that are split along the grid: lazy, equal to eager, in slabs, with overlaps, on every scheduler."""

from __future__ import annotations

import math
import pickle

import elsewhere
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")

import spectralops.xarray as sx  # noqa: E402

# What a task may take: all fields here, a part of a field, or a few rows of one.
AMPLE, SOME, SCARCE = "128 MiB", "10 kB", "4 kB"


def field(dtype="float64", nan=0.0):
    rng = np.random.default_rng(3)
    values = rng.standard_normal((3, 13, 24))
    values[rng.random(values.shape) < nan] = np.nan
    time = np.datetime64("2001-01-01", "ns") + np.arange(3) * np.timedelta64(1, "h")
    coords = {"time": time, "lat": np.linspace(90, -90, 13), "lon": 15.0 * np.arange(24)}
    return xr.DataArray(values.astype(dtype), coords, ("time", "lat", "lon"), name="t", attrs={"units": "K"})


def plane(x):
    """The same values on a plane."""
    places = {"y": 1e3 * np.arange(x.sizes["lat"]), "x": 1e3 * np.arange(x.sizes["lon"])}
    return x.rename(lat="y", lon="x").assign_coords(places)


def windy(x):
    still = 0 * x.drop_attrs()
    return sx.advect_diffuse(x, 10 + still, 3 + still, dt="6 h", steps=2)


# Bit for bit, in slabs, too.
SAME = {
    "lowpass": lambda x: sx.lowpass(x, "3000 km"),
    "gaussian": lambda x: sx.gaussian(x, "900 km"),
    "zonal": lambda x: sx.gaussian(x, "900 km", dims="lon"),
    "meridional": lambda x: sx.highpass(x, "3000 km", order=2, dims="lat"),
    "time": lambda x: sx.gaussian(x, "3 h", dims="time"),
    "regional": lambda x: sx.gaussian(x.isel(lat=slice(2, 11), lon=slice(1, 20)), "900 km"),
    "convolve": lambda x: sx.convolve(x, np.ones((3, 2))),
    "convolve-plane": lambda x: sx.convolve(plane(x), np.arange(20.0).reshape(5, 4), edges={"x": "wrap"}),
    "derivative": lambda x: sx.derivative(x, "lon"),
    "laplacian": sx.laplacian,
    "inverse": lambda x: sx.inverse_laplacian(x, dims="lon"),
    "vorticity": lambda x: sx.vorticity_divergence(x, 2 * x).vorticity,
    "transport": windy,
    "diffuse": lambda x: sx.diffuse(x, "500 km", mask=x.isel(time=0, drop=True).lat < 60),
    "diffuse-plane": lambda x: sx.diffuse(plane(x), 900.0, edges={"x": "wrap"}),
    "diffuse-far": lambda x: sx.diffuse(plane(x), wavelength=9000.0),
    "spectrum": lambda x: sx.power_spectrum(x, dims="lon", window="hann"),
}
HOLED = {
    "gaussian": lambda x: sx.gaussian(x, "900 km", skipna=True),
    "bandpass": lambda x: sx.bandpass(x, ("9000 km", "3000 km"), skipna=True, fill=True),
    "convolve": lambda x: sx.convolve(plane(x), np.ones((3, 2)), skipna=True),
    "diffuse": lambda x: sx.diffuse(x, "500 km", skipna=True),
}
# In slabs to round-off: an array's transforms over two axes are another sequence of operations than the engine's.
PLANES = {
    "wrap": lambda x: sx.lowpass(plane(x), 6e3, edges="wrap"),
    "mirrors": lambda x: sx.gaussian(plane(x), 3e3),
    "poisson": lambda x: sx.inverse_laplacian(plane(x), edges={"x": "wrap"}),
    "transposed": lambda x: sx.gaussian(plane(x), 3e3, dims=("x", "y"), edges={"y": "wrap"}),
    "three": lambda x: sx.gaussian(plane(x).assign_coords(time=1e3 * np.arange(3.0)), 3e3, dims=("time", "y", "x")),
    "complex": lambda x: sx.gaussian(plane(x) * (1 + 2j), 3e3, edges={"y": "wrap"}),
}


def refuse(*args, **kwargs):
    raise AssertionError("computed")


@pytest.fixture(autouse=True)
def scratch(tmp_path):
    """The folder of the stores; all are gone when a test ends."""
    with dask.config.set({"spectralops.scratch": str(tmp_path), "scheduler": "synchronous"}):
        yield tmp_path


def lazily(call, x, memory=AMPLE, **chunks):
    """The lazy result, for which nothing is computed."""
    with dask.config.set({"scheduler": refuse, "spectralops.memory": memory}):
        return call(x.chunk(chunks or {"time": 2, "lat": 5, "lon": 8}))


@pytest.mark.parametrize("memory", [AMPLE, SOME, SCARCE], ids=["whole", "parts", "slabs"])
@pytest.mark.parametrize("name", SAME)
def test_split_arrays_give_the_eager_bits(name, memory, scratch) -> None:
    x = field()
    y = lazily(SAME[name], x, memory)
    result = y.compute()
    xr.testing.assert_identical(result, SAME[name](x))
    assert y.dtype == result.dtype == y.data._meta.dtype
    assert list(scratch.iterdir()) == []
    if name not in ("spectrum", "regional"):
        assert y.chunks == ((2, 1), (5, 5, 3), (8, 8, 8))


@pytest.mark.parametrize("memory", [AMPLE, SCARCE], ids=["whole", "slabs"])
@pytest.mark.parametrize("name", HOLED)
def test_holes_in_split_arrays(name, memory) -> None:
    x = field(nan=0.05)
    x[0] = 1.0  # one field without any
    xr.testing.assert_identical(lazily(HOLED[name], x, memory).compute(), HOLED[name](x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PLANES)
def test_planes_in_slabs(name, dtype, scratch) -> None:
    x = field(dtype)
    y = lazily(PLANES[name], x, SOME)
    result, expected = y.compute(), PLANES[name](x)
    assert y.dtype == result.dtype == expected.dtype
    bound = 8 * np.finfo(dtype).eps * float(abs(expected).max())
    np.testing.assert_allclose(result, expected, rtol=0, atol=bound)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float16", "int16"])
def test_other_dtypes_in_slabs(dtype) -> None:
    x = (8 * field()).astype(dtype)
    for call in (SAME["lowpass"], SAME["diffuse"], SAME["derivative"]):
        y = lazily(call, x, SCARCE)
        xr.testing.assert_identical(y.compute(), call(x))
        assert y.dtype == call(x).dtype


def splits(n):
    """Chunks of n points, also of one."""
    return st.lists(st.integers(1, n - 1), max_size=4, unique=True).map(
        lambda cuts: tuple(np.diff([0, *sorted(cuts), n]).tolist())
    )


@given(splits(3), splits(13), splits(24), st.sampled_from([AMPLE, SOME]), st.sampled_from(sorted(HOLED)))
@settings(max_examples=8, deadline=None, database=None)
def test_any_chunks_give_the_eager_result(time, lat, lon, memory, name) -> None:
    x = field(nan=0.02)
    y = lazily(HOLED[name], x, memory, time=time, lat=lat, lon=lon)
    assert y.chunks == (time, lat, lon)
    np.testing.assert_array_equal(y.compute(), HOLED[name](x))


@given(splits(24), splits(13), st.sampled_from(sorted(PLANES)))
@settings(max_examples=4, deadline=None, database=None)
def test_any_chunks_of_planes(lon, lat, name) -> None:
    x = field()
    y = lazily(PLANES[name], x, SOME, time=2, lat=lat, lon=lon)
    np.testing.assert_allclose(y.compute(), PLANES[name](x), rtol=0, atol=1e-6 if name == "poisson" else 1e-13)


@pytest.mark.parametrize(
    ("shape", "chunks", "sigma"), [((20, 24, 24), (1, 24, 24), 1.0), ((2, 5), (1, 5), 1.0)], ids=str
)
def test_dsk01_overlap_wider_than_a_chunk(rng, shape, chunks, sigma) -> None:
    """DSK01: a Gaussian of radius 4 on chunks of one slice, and on an array of two."""
    x = xr.DataArray(rng.standard_normal(shape), {d: np.arange(float(n)) for d, n in zip("zyx", shape, strict=False)},
                     tuple("zyx"[: len(shape)]))  # fmt: skip
    k = np.exp(-0.5 * (np.arange(-4, 5) / sigma) ** 2)
    kernel = math.prod(np.ix_(*[k / k.sum()] * len(shape)))
    y = sx.convolve(x.chunk(dict(zip(x.dims, chunks, strict=True))), kernel, dims=x.dims, edges="wrap")
    expected = ndimage.gaussian_filter(x.values, sigma, mode="wrap", truncate=4.0)
    np.testing.assert_allclose(y.compute(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("chunk", [10, 30, 100])
def test_dsk01_moving_mean(rng, chunk) -> None:
    """DSK01: a periodic mean of 41 points, wider than a chunk."""
    values = rng.standard_normal(100)
    x = xr.DataArray(values, {"x": np.arange(100.0)})
    y = sx.convolve(x.chunk(x=chunk), np.ones(41) / 41, edges="wrap")
    np.testing.assert_allclose(y.compute(), ndimage.uniform_filter1d(values, 41, mode="wrap"), rtol=0, atol=1e-13)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["lowpass", "diffuse-plane", "spectrum", "zonal"])
def test_dsk03_declared_is_computed(name, split) -> None:
    """DSK03: dtype, shape and chunks of a lazy result of float32 are those of the computed one."""
    y = lazily(SAME[name], field("float32"), time=3, lat=5 if split else -1, lon=9 if split else -1)
    result = y.compute()
    assert y.dtype == result.dtype == np.float32
    assert y.shape == result.shape == tuple(map(sum, y.chunks))


def test_an_impulse_crosses_the_seam_of_longitude() -> None:
    x = plane(0 * field())
    x[0, 6, 0] = 1.0
    y = sx.diffuse(x.chunk(y=5, x=8), 900.0, edges={"x": "wrap"}).compute()
    np.testing.assert_array_equal(y[0, :, 1:], y[0, :, :0:-1])
    assert float(y[0, 6, -1]) > 0.1


@pytest.mark.parametrize("name", ["lowpass", "diffuse", "gaussian-holes", "plane"])
def test_graphs_grow_with_the_blocks_alone(name) -> None:
    call = {**SAME, "gaussian-holes": HOLED["gaussian"], "plane": PLANES["mirrors"]}[name]
    x = field().isel(time=[0, 1])
    counts = []
    for chunk in (2, 1):
        y = lazily(call, x, SOME if name == "plane" else AMPLE, time=chunk, lat=7, lon=12)
        counts.append(len(y.__dask_graph__()))
    assert counts[1] <= 2.2 * counts[0]
    assert counts[0] <= 4 * 60


def test_names_follow_from_the_arguments() -> None:
    first, second, other = (lazily(SAME["lowpass"], field(), m) for m in (SOME, SOME, AMPLE))
    assert first.data.name == second.data.name != other.data.name


def test_slabs_of_split_arrays_travel() -> None:
    y = lazily(PLANES["mirrors"], field(), SOME)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)).compute(), y.compute())


def test_thr04_threads_share_compiled_kernels() -> None:
    """THR04: eight threads in the same kernels, with the eager numbers."""
    x = field()
    for name in ("diffuse", "lowpass"):
        y = lazily(SAME[name], x, SOME, time=1, lat=5, lon=8)
        np.testing.assert_array_equal(y.compute(scheduler="threads", num_workers=8), SAME[name](x))


def test_processes(scratch) -> None:
    x = field().isel(time=[0])
    y = lazily(PLANES["wrap"], x, SOME, lat=7, lon=12)
    result = y.compute(scheduler="processes", num_workers=1)
    np.testing.assert_allclose(result, PLANES["wrap"](x), rtol=0, atol=1e-14)
    assert list(scratch.iterdir()) == []


def test_a_cluster(scratch) -> None:
    distributed = pytest.importorskip("distributed")
    x = field()
    calls = (SAME["lowpass"], SAME["diffuse"])
    options = {"dashboard_address": None, "silence_logs": 50, "memory_limit": "1GiB"}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True, **options) as cluster,
        distributed.Client(cluster),
        dask.config.set(scheduler="distributed"),
    ):
        results = dask.compute(*(lazily(call, x, SOME) for call in calls))
        kept = lazily(SAME["gaussian"], x, SOME).persist()  # the lazy array is gone while workers are at it
        results = (*results, kept.compute())
    for call, result in zip((*calls, SAME["gaussian"]), results, strict=True):
        xr.testing.assert_identical(result, call(x))
    assert list(scratch.iterdir()) == []


def test_progress_is_told_by_dask(capsys) -> None:
    from dask.diagnostics import ProgressBar

    with ProgressBar(dt=0.01):
        lazily(PLANES["mirrors"], field(), SOME).compute()
    assert "100% Completed" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["eager", "whole", "slabs"])
@pytest.mark.parametrize("name", [*SAME, *(f"{name}-holes" for name in HOLED)])
def test_arrays_of_cupy_stay_on_the_device(name, kind) -> None:
    import cupy
    import dask.array as da

    call = {**SAME, **{f"{each}-holes": HOLED[each] for each in HOLED}}[name]
    x = field(nan=0.05 if "holes" in name else 0.0)
    data = cupy.asarray(x.values)
    if kind != "eager":
        data = da.from_array(data, chunks=(2, 5, 8), asarray=False)
    with dask.config.set({"spectralops.memory": SOME if kind == "slabs" else AMPLE}):
        result = call(x.copy(data=data)).data
    if kind != "eager":
        assert isinstance(result._meta, cupy.ndarray)
        result = result.compute()
    assert isinstance(result, cupy.ndarray)
    expected = call(x)
    np.testing.assert_allclose(result.get(), expected, rtol=1e-12, atol=1e-12 * float(abs(expected).max()))


@pytest.mark.parametrize("name", [*SAME, *(f"{name}-holes" for name in HOLED)])
def test_blocks_of_another_library_never_meet_numpys(name) -> None:
    """What runs on a device for CuPy's, without one."""
    import dask.array as da

    call = {**SAME, **{f"{each}-holes": HOLED[each] for each in HOLED}}[name]
    x = field(nan=0.05 if "holes" in name else 0.0)
    meta = elsewhere.Array(np.empty((0, 0, 0)))
    y = lazily(call, x.copy(data=da.from_array(elsewhere.Array(x.values), (2, 5, 8), asarray=False, meta=meta)), SOME)
    assert type(y.data._meta) is elsewhere.Array
    result, expected = y.data.compute(), call(x)
    assert type(result) is elsewhere.Array
    np.testing.assert_allclose(result.values, expected, rtol=1e-12, atol=1e-12 * float(abs(expected).max()))
