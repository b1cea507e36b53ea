"""Dask arrays whose filtered dimensions are whole: lazy, one layer, equal to eager."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")

import spectralops.xarray as sx  # noqa: E402

CALLS = {
    "lowpass": lambda x: sx.lowpass(x, "3000 km", dims=("lat", "lon")),
    "highpass-skipna": lambda x: sx.highpass(x, "3000 km", order=2, skipna=True),
    "gaussian": lambda x: sx.gaussian(x, "900 km"),
    "zonal": lambda x: sx.gaussian(x, "900 km", dims="lon"),
    "time": lambda x: sx.gaussian(x if x.chunks is None else x.chunk(time=-1, lat=4), "3 h", dims="time"),
    "convolve": lambda x: sx.convolve(x, np.ones((3, 2))),
    "derivative": lambda x: sx.derivative(x, "lon"),
    "laplacian": sx.laplacian,
    "inverse": lambda x: sx.inverse_laplacian(x, dims="lon"),
    "vorticity": lambda x: sx.vorticity_divergence(x, 2 * x).vorticity,
    "diffuse": lambda x: sx.diffuse(x, "900 km", mask=x.isel(time=0, drop=True).lat < 60),
    "spectrum": lambda x: sx.power_spectrum(x, dims="lon", window="hann"),
    "rings": lambda x: sx.power_spectrum(x.isel(lat=slice(6, 12)), isotropic=True),
}


def field(dtype="float32"):
    values = np.random.default_rng(3).standard_normal((5, 19, 36)).astype(dtype)
    time = np.datetime64("2001-01-01", "ns") + np.arange(5) * np.timedelta64(1, "h")
    coords = {"time": time, "lat": np.linspace(90, -90, 19), "lon": 10.0 * np.arange(36)}
    return xr.DataArray(values, coords, ("time", "lat", "lon"), name="t", attrs={"units": "K"})


def refuse(*args, **kwargs):
    raise AssertionError("computed")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "int16", "int32"])
def test_lazy_and_equal_to_eager(name, dtype) -> None:
    u = field(dtype)
    lazy = u.chunk(time=2)
    with dask.config.set(scheduler=refuse):
        y = CALLS[name](lazy)
    assert y.chunks is not None
    with dask.config.set(scheduler="synchronous"):
        result = y.compute()
    xr.testing.assert_identical(result, CALLS[name](u))
    assert y.dtype == result.dtype == y.data._meta.dtype
    assert y.shape == result.shape


@pytest.mark.parametrize("name", ["lowpass", "derivative", "vorticity", "diffuse"])
def test_half_precision_stays(name) -> None:
    u = field("float16")
    y = CALLS[name](u.chunk(time=2))
    assert y.dtype == "float16"
    with dask.config.set(scheduler="synchronous"):
        xr.testing.assert_identical(y.compute(), CALLS[name](u))
    assert CALLS[name](u).dtype == "float16"


@pytest.mark.parametrize("lazy", ["u", "v"])
def test_one_lazy_wind_is_enough(lazy) -> None:
    u, v = field(), 2 * field()
    expected = sx.vorticity_divergence(u, v).divergence
    found = sx.vorticity_divergence(u.chunk(time=2) if lazy == "u" else u, v.chunk(time=2) if lazy == "v" else v)
    assert found.divergence.chunks == ((2, 2, 1), (19,), (36,))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(found.divergence.compute(), expected)


def test_a_spectrum_along_longitude_needs_no_whole_latitude() -> None:
    u = field()
    with dask.config.set(scheduler="synchronous"):
        found = sx.power_spectrum(u.chunk(lat=5), dims="lon").compute()
    xr.testing.assert_identical(found, sx.power_spectrum(u, dims="lon"))


def test_one_layer_and_the_same_chunks() -> None:
    lazy = field().chunk(time=2)
    y = sx.lowpass(lazy, "3000 km")
    assert y.chunks == lazy.chunks
    assert len(y.data.dask.layers) == len(lazy.data.dask.layers) + 1
    assert len(y.__dask_graph__()) <= 2 * len(lazy.__dask_graph__()) + 3


def test_names_are_the_same_for_the_same_call() -> None:
    lazy = field().chunk(time=2)
    first, second, other = (sx.lowpass(lazy, w) for w in ("3000 km", "3000 km", "2000 km"))
    assert first.data.name == second.data.name != other.data.name


@pytest.mark.parametrize("name", ["highpass-skipna", "convolve", "laplacian", "vorticity", "rings"])
def test_lazy_results_travel(name) -> None:
    y = CALLS[name](field().chunk(time=2))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)).compute(), y.compute())


def test_threads_give_the_same_bits() -> None:
    u = field()
    with dask.config.set(scheduler="threads", num_workers=2):
        np.testing.assert_array_equal(sx.lowpass(u.chunk(time=1), "3000 km").compute(), sx.lowpass(u, "3000 km"))


def test_datasets_stay_lazy() -> None:
    ds = field().to_dataset().chunk(time=2)
    assert sx.gaussian(ds, "900 km").t.chunks == ds.t.chunks
