"""Scratch stores: what is in them, that they go when they are done with, fail or are dropped, and how a run goes on."""

from __future__ import annotations

import gc
import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

import spectralops.xarray as sx  # noqa: E402
from spectralops.xarray import _dask_scratch as scratch  # noqa: E402
from spectralops.xarray._dask_scratch import Exchange, cut, exchanged  # noqa: E402


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with dask.config.set({"spectralops.scratch": str(tmp_path), "scheduler": "synchronous"}):
        yield tmp_path


def numbers(*shape, dtype="float64"):
    return np.random.default_rng(5).integers(-9, 9, shape).astype(dtype)


def turned(values, chunks=((3, 4), (5, 2, 4)), wanted=((2, 2, 2, 1), (11,))):
    return exchanged(da.from_array(values, chunks=chunks), cut(wanted))


def spoilt(self, runs):
    raise RuntimeError("spoilt")


def stores(folder) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int16", "bool", "float16"])
def test_values_pass_through(dtype) -> None:
    values = numbers(7, 11, dtype=dtype)
    y = turned(values)
    assert y.chunks == ((2, 2, 2, 1), (11,))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.compute(), values)


def test_blocks_of_runs_and_back() -> None:
    """Meridians beside those half a circle away, as a filter over the poles wants them."""
    values = numbers(4, 10)
    x = da.from_array(values, chunks=(3, 4))
    pairs = ((((0, 4),),), (((0, 2), (5, 7)), ((2, 5), (7, 10))))
    y = exchanged(x, pairs)
    assert y.chunks == ((4,), (4, 6))
    np.testing.assert_array_equal(y, values[:, [0, 1, 5, 6, 2, 3, 4, 7, 8, 9]])
    np.testing.assert_array_equal(exchanged(y, cut(x.chunks), held=pairs), values)


def test_a_store_is_zarr(folder) -> None:
    zarr = pytest.importorskip("zarr")
    for dtype in ("float32", "complex128", "int16", "bool"):
        values = numbers(7, 11, dtype=dtype)
        y = turned(values)
        y[:2].compute()  # so that it is not yet done with
        (store,) = stores(folder)
        np.testing.assert_array_equal(zarr.open_array(store / "1-2", mode="r")[...], values[3:, 7:])
        np.testing.assert_array_equal(zarr.open_array(store / "0-0", mode="r")[1:, 2:], values[1:3, 2:5])
        del y
        gc.collect()


def test_nothing_is_made_before_it_is_computed(folder) -> None:
    y = turned(numbers(7, 11))
    assert stores(folder) == []
    y.compute()
    assert stores(folder) == []


def test_computed_again_and_in_parts(folder) -> None:
    values = numbers(7, 11)
    y = turned(values)
    for _ in range(2):
        np.testing.assert_array_equal(y[:3].compute(), values[:3])
        assert len(stores(folder)) == 1
        np.testing.assert_array_equal(y.compute(), values)
        assert stores(folder) == []


def test_gone_with_the_lazy_array(folder) -> None:
    y = turned(numbers(7, 11))
    y[:2].compute()
    part = y[3:]
    del y
    gc.collect()
    assert len(stores(folder)) == 1  # which is still needed
    del part
    gc.collect()
    assert stores(folder) == []


def test_a_cluster_may_still_be_at_work(folder, monkeypatch) -> None:
    """What was made into futures needs its store after the lazy array is gone; the end of the process takes it."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed.client, "_get_global_client", lambda: object())
    y = turned(numbers(7, 11))
    y[:2].compute()
    del y
    gc.collect()
    assert len(stores(folder)) == 1
    scratch._remove_all()
    assert stores(folder) == []


def test_lazy_arrays_may_go_while_the_process_ends(folder, monkeypatch) -> None:
    arrays = [turned(numbers(7, 11)), turned(numbers(7, 11), wanted=((7,), (11,)))]
    for y in arrays:
        y[:2, :2].compute()
    remove = scratch._remove

    def collecting(path):
        if arrays:
            arrays.clear()
            gc.collect()
        remove(path)

    monkeypatch.setattr(scratch, "_remove", collecting)
    del y
    scratch._remove_all()
    assert stores(folder) == []


def test_forked_processes_leave_it_alone(folder, monkeypatch) -> None:
    y = turned(numbers(7, 11))
    y[:2].compute()
    monkeypatch.setattr(scratch.os, "getpid", lambda: -1)
    scratch._remove_all()
    del y
    gc.collect()
    assert len(stores(folder)) == 1


def test_copies_do_not_take_it_with_them(folder) -> None:
    y = turned(numbers(7, 11))
    y[:2].compute()
    pickle.loads(pickle.dumps(y))
    gc.collect()
    assert len(stores(folder)) == 1


@pytest.mark.parametrize("where", ["before", "between", "after"])
def test_gone_after_a_failure(folder, where) -> None:
    def fail(block):
        if block.size and block.flat[0] == bad[0]:
            raise RuntimeError("spoilt")
        return block

    values = numbers(7, 11) + 0.1 * np.arange(77).reshape(7, 11)
    bad = [values[4, 0] if where == "between" else values[3, 7] if where == "before" else None]
    x = da.from_array(values, chunks=((3, 4), (5, 2, 4)))
    if where == "before":
        x = x.map_blocks(fail, dtype=x.dtype, meta=x._meta)
    y = exchanged(x, cut(((2, 2, 2, 1), (11,))))
    if where == "between":
        y = y.map_blocks(fail, dtype=x.dtype, meta=x._meta)
    z = exchanged(y, cut(x.chunks))
    if where == "after":
        z = z.map_blocks(lambda block: 1 / 0, dtype=x.dtype, meta=x._meta)
    with pytest.raises(ZeroDivisionError if where == "after" else RuntimeError):
        z.compute()
    del x, y, z
    gc.collect()
    assert stores(folder) == []


@pytest.mark.parametrize("method", ["_write", "_read"])
def test_gone_when_it_fails_itself(folder, monkeypatch, method) -> None:
    def full(self, *args):
        (Path(self.path) / "0-0").mkdir(parents=True, exist_ok=True)
        raise OSError("no space left")

    monkeypatch.setattr(Exchange, method, full)
    y = turned(numbers(7, 11))
    with pytest.raises(OSError, match="no space left"):
        y.compute()
    assert stores(folder) == []


def test_what_is_lost_is_missed(folder, monkeypatch) -> None:
    """A store that someone removes between the passes is an error, not zeros."""
    begin = Exchange.begin

    def lose(self, written):
        begin(self, written)
        scratch._remove(Path(self.path))

    monkeypatch.setattr(Exchange, "begin", lose)
    with pytest.raises(FileNotFoundError):
        turned(numbers(7, 11)).compute()


def test_a_run_goes_on_where_another_was_stopped(folder) -> None:
    count = itertools.count()
    values = numbers(6, 8)

    def stopped(block, block_info=None):
        if block.size and limit is not None and next(count) >= limit:
            raise KeyboardInterrupt
        return block

    def build():
        x = da.from_array(values, chunks=(2, 4), name="values")
        return exchanged(x.map_blocks(stopped, dtype=x.dtype, meta=x._meta, name="stopped"), cut(((6,), (3, 3, 2))))

    with dask.config.set({"spectralops.resume": True}):
        limit = 4
        with pytest.raises(KeyboardInterrupt):
            build().compute()
        gc.collect()
        assert len(stores(folder)) == 1
        limit, count = None, itertools.count()
        y = build()
        assert sum("-write" in str(key) for key in dict(y.__dask_graph__())) == 2
        np.testing.assert_array_equal(y.compute(), values)
    assert stores(folder) == []


def test_a_failure_is_kept_for_the_next_run(folder, monkeypatch) -> None:
    with dask.config.set({"spectralops.resume": True}):
        y = turned(numbers(7, 11))
        with monkeypatch.context() as patch:
            patch.setattr(Exchange, "_read", spoilt)
            with pytest.raises(RuntimeError):
                y.compute()
        del y
        gc.collect()
        assert len(stores(folder)) == 1
        turned(numbers(7, 11)).compute()
    assert stores(folder) == []


def test_another_version_begins_anew(folder, monkeypatch) -> None:
    values = numbers(7, 11)
    with dask.config.set({"spectralops.resume": True}):
        old = turned(values)
        old[:2].compute()
        monkeypatch.setattr(scratch, "__version__", "0")
        new = turned(values)
        assert new.name != old.name
        assert sum("-write" in str(key) for key in dict(new.__dask_graph__())) == 6
        for y in (new, old):
            np.testing.assert_array_equal(y.compute(), values)
    assert stores(folder) == []


def test_the_folder_is_dasks_unless_named(tmp_path) -> None:
    with dask.config.set({"spectralops.scratch": None, "temporary-directory": str(tmp_path / "daily")}):
        y = turned(numbers(7, 11))
        y[:2].compute()
        assert len(stores(tmp_path / "daily")) == 1


def test_the_memory_of_a_task_is_bounded(monkeypatch) -> None:
    """No block that passes through has more than a fifth of the bytes allowed, whatever the field's size."""
    largest = []
    write, read = Exchange.write, Exchange.read

    def noting(method):
        def noted(self, index, *args):
            result = method(self, index, *args)
            largest.append((args[0] if result is None else result).nbytes)
            return result

        return noted

    monkeypatch.setattr(Exchange, "write", noting(write))
    monkeypatch.setattr(Exchange, "read", noting(read))
    values = np.zeros((96, 128))
    x = xr.DataArray(values, {"y": np.arange(96.0), "x": np.arange(128.0)}, ("y", "x")).chunk(y=16, x=16)
    with dask.config.set({"spectralops.memory": "40 kB"}):
        sx.lowpass(x, 8.0, edges="wrap").compute()
    assert 6_000 < max(largest) <= 8_000
