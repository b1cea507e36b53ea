"""Steps of tracers on lazy arrays, in bands of rows: the eager bits whatever the chunks; what needs whole fields."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")

from tracers import field, storm  # noqa: E402

import spectralops.xarray as sx  # noqa: E402
from spectralops.errors import StabilityError  # noqa: E402
from spectralops.xarray import _dask  # noqa: E402
from spectralops.xarray._transport import Transport  # noqa: E402

GRIDS = {
    "poles": np.linspace(90, -90, 61),
    "half-cells": np.linspace(-88.5, 88.5, 60),
    "gaussian": np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(60)[0])),
    "region": np.linspace(60, 10, 60),
}
DT = 900.0
# All fields of these tests fit into a task, or not one of them.
AMPLE, SCARCE = "128 MiB", "60 kB"


@pytest.fixture(autouse=True)
def scratch(tmp_path):
    with dask.config.set({"spectralops.scratch": str(tmp_path), "scheduler": "synchronous"}):
        yield tmp_path


def tracers(name, levels=2):
    """Noise with some NaN, the same for all levels, and winds."""
    rng = np.random.default_rng(7)
    x = field(0.0, GRIDS[name], 20)
    x = (x.expand_dims(level=levels) + rng.random((levels, *x.shape))).where(
        field(rng.random(x.shape), x.lat, 20) > 0.1
    )
    u, v = storm(rng, x[0])
    return x, u, v


def banded(x, u, v, memory=AMPLE, chunks=None, **options):
    """The lazy result, which must not take whole fields."""
    with pytest.MonkeyPatch.context() as patch, dask.config.set({"spectralops.memory": memory}):
        patch.setattr(_dask, "blockwise", refuse)
        return sx.advect_diffuse(x.chunk(chunks or {"level": 1, "lat": 30, "lon": 9}), u, v, dt=DT, **options)


def refuse(*args, **kwargs):
    raise AssertionError("whole fields")


@pytest.mark.parametrize("limiter", ["none", "positive", "monotone"])
@pytest.mark.parametrize("name", GRIDS)
def test_bands_give_the_eager_bits(name, limiter) -> None:
    x, u, v = tracers(name)
    for options in ({"skipna": True}, {"form": "advective"}):
        q = x if "skipna" in options else x.fillna(0.5)
        y = banded(q, u, v, limiter=limiter, **options)
        assert y.chunks == ((1, 1), (30,) * 2 + (1,) * (name == "poles"), (9, 9, 2))
        xr.testing.assert_identical(y.compute(), sx.advect_diffuse(q, u, v, dt=DT, limiter=limiter, **options))


def splits(n):
    """Chunks of n points, also of one."""
    return st.lists(st.integers(1, n - 1), max_size=3, unique=True).map(
        lambda cuts: tuple(np.diff([0, *sorted(cuts), n]).tolist())
    )


@given(
    splits(61), splits(20), st.integers(1, 7), st.sampled_from([AMPLE, SCARCE]), st.sampled_from(["float32", "int16"])
)
@settings(max_examples=8, deadline=None, database=None)
def test_any_chunks(lat, lon, steps, memory, dtype) -> None:
    x, u, v = tracers("poles")
    x = (100 * x.fillna(0.5)).astype(dtype)
    options = {"dt": DT, "steps": steps, "mask": x.isel(level=0, drop=True).lat < 60, "source": 1e-6 * x.lon}
    with dask.config.set({"spectralops.memory": memory}):
        y = sx.advect_diffuse(x.chunk(level=1, lat=lat, lon=lon), u, v, **options)
    assert y.chunks == ((1, 1), lat, lon)
    xr.testing.assert_identical(y.compute(), sx.advect_diffuse(x, u, v, **options))


def test_winds_that_change_from_exchange_to_exchange() -> None:
    """In fields too large for a task, bands exchange their ends after each step."""
    x, u, v = tracers("poles")
    time = np.datetime64("2020-01-01", "ns") + 2000 * np.arange(4) * np.timedelta64(1, "s")
    u, v = ((wind * xr.DataArray([1.0, -1.0, 0.5, 2.0], {"time": time}, "time")) for wind in (u, v))
    options = {"steps": 6, "start": time[0], "skipna": True}
    y = banded(x, u, v, memory=SCARCE, **options)
    xr.testing.assert_identical(y.compute(), sx.advect_diffuse(x, u, v, dt=DT, **options))


@pytest.mark.parametrize(("limiter", "reach"), [("positive", 2), ("monotone", 3)])
def test_bands_reach_as_far_as_they_must(limiter, reach, monkeypatch) -> None:
    x, u, v = tracers("half-cells", 1)
    options = {"skipna": True, "limiter": limiter}
    expected = sx.advect_diffuse(x, u, v, dt=DT, **options)
    monkeypatch.setattr(Transport, "reach", reach)
    assert not banded(x, u, v, **options).compute().equals(expected)


@pytest.mark.parametrize("kind", ["diffusivity", "nondivergent", "columns that wrap", "many steps"])
def test_what_needs_whole_fields(kind, monkeypatch) -> None:
    x, u, v = tracers("half-cells", 1)
    x, options = x.fillna(0.5), {"dt": DT}
    if kind == "columns that wrap":
        x, u, v = (each.rename(lat="y", lon="x").assign_coords(y=1e5 * np.arange(60), x=1e5 * np.arange(20))
                   for each in (x, u, v))  # fmt: skip
        options["edges"] = "wrap"
    else:
        options |= {"diffusivity": {"diffusivity": 1e4}, "nondivergent": {"nondivergent": True}}.get(kind, {"steps": 9})
    y = sx.advect_diffuse(x.chunk(dict(zip(x.dims, (1, 30, 9), strict=True))), u, v, **options)
    xr.testing.assert_identical(y.compute(), sx.advect_diffuse(x, u, v, **options))
    monkeypatch.setattr(_dask, "overlapped", refuse)
    sx.advect_diffuse(x.chunk(dict(zip(x.dims, (1, 30, 9), strict=True))), u, v, **options)


def test_what_is_wrong_is_found_by_the_band_that_has_it() -> None:
    x, u, v = tracers("poles", 1)
    x = x.fillna(0.5)
    with pytest.raises(StabilityError) as eager:
        sx.advect_diffuse(x, u, 40 * v, dt=DT)
    with pytest.raises(StabilityError, match="advect_diffuse: dt is 900 s, but must be at most") as lazy:
        banded(x, u, 40 * v).compute()
    assert lazy.value.stable_dt >= eager.value.stable_dt
    with pytest.raises(ValueError, match="advect_diffuse: winds have NaN at sea"):
        banded(x, u, v.where(v.lat > -50)).compute()


def test_graphs_grow_with_blocks_and_exchanges_alone() -> None:
    def count(levels, steps):
        x, u, v = tracers("poles", levels)
        return len(banded(x.fillna(0.5), u, v, memory=SCARCE, steps=steps).__dask_graph__())

    one = count(1, 1)
    assert one <= 200
    assert count(2, 1) <= 2 * one
    assert count(1, 4) <= 4 * one
