"""Many threads, many shapes: exact results, bounded memory, and nothing compiled for a new shape."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support import random_array

import spectralops
from spectralops._cpu.vector import filters, kernels, prepared, routes, workspace

Task = tuple[np.ndarray, np.ndarray, tuple[int, ...]]
SHAPES = [
    ((5, 24, 20), (1, 2)),
    ((3, 15, 18), (1, 2)),
    ((40, 60), (1,)),
    ((11, 45), (1,)),
    ((2, 1200), (1,)),
    ((3, 12, 17), (1,)),
    ((2, 6, 8, 10), (1, 2, 3)),
    ((4, 11, 13), (1, 2)),
]


def tasks(rng: np.random.Generator) -> list[Task]:
    found = []
    for shape, axes in SHAPES:
        for dtype, spectrum in (("float32", "complex64"), ("complex128", "complex128")):
            x = random_array(rng, shape, dtype)
            sizes = [n if axis in axes else 1 for axis, n in enumerate(shape)]
            if dtype == "float32":
                sizes[axes[-1]] = sizes[axes[-1]] // 2 + 1
            found.append((x, random_array(rng, tuple(sizes), spectrum), axes))
    return found


def run(task: Task, workers: int) -> np.ndarray:
    x, transfer, axes = task
    out = np.empty_like(x)
    filters.filter_axes(x, transfer, out, axes, workers)
    return out


def test_a_storm_of_threads_gets_what_each_gets_alone(rng: np.random.Generator) -> None:
    """Eight threads run every shape in orders of their own, with one to three workers, sharing filters and scratch."""
    every = tasks(rng)
    alone = [run(task, 1) for task in every]
    wrong: list[tuple[int, int]] = []
    begin = threading.Barrier(8)

    def storm(seed: int) -> None:
        mine = np.random.default_rng(seed)
        begin.wait()
        for i in mine.permutation(np.tile(np.arange(len(every)), 6)):
            if not np.array_equal(run(every[i], int(mine.integers(1, 4))), alone[i]):
                wrong.append((seed, int(i)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(storm, range(8)))
    assert wrong == []


def test_filters_forgotten_under_use_stay_right(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for one filter alone, which every call of another thread empties."""
    every = [task for task in tasks(rng) if len(task[2]) == 2]
    alone = [run(task, 1) for task in every]
    monkeypatch.setattr(prepared, "KEPT_BYTES", 30_000)

    def check(i: int) -> bool:
        return np.array_equal(run(every[i % len(every)], 2), alone[i % len(every)])

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(check, range(150)))


def test_memory_is_bounded_and_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty shapes from eight threads leave no more than both bounds, and nothing after clearing."""
    bound = 1 << 18
    monkeypatch.setattr(workspace, "KEPT_BYTES", bound)
    monkeypatch.setattr(prepared, "KEPT_BYTES", bound)
    workspace.clear()
    prepared.clear()

    def one(n: int) -> None:
        x = np.ones((3, n, 64), np.float32)
        filters.filter_axes(x, np.ones((n, 33), np.complex64), np.empty_like(x), (1, 2), 2)

    def everything() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(20, 100, 2)))

    everything()  # tables of lengths stay, in caches of their own
    workspace.clear()
    prepared.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        everything()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        assert sum(buffer.size for buffer in workspace._kept) <= bound
        assert sum(kept.values.nbytes + kept.buffer.size for kept in prepared._kept) <= bound
        assert after - before <= 2 * bound + 100_000
        workspace.clear()
        prepared.clear()
        gc.collect()
        cleared, _ = tracemalloc.get_traced_memory()
        assert cleared - before <= 100_000
    finally:
        tracemalloc.stop()


def test_routes_are_bounded() -> None:
    assert routes.route.cache_info().maxsize == 256
    for function in (filters._direct, kernels._build):
        assert function.cache_info().maxsize is not None


def test_a_new_shape_compiles_nothing(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are arguments: after one shape of each kind, forty others load no kernel."""
    kinds = [((9, 64), (1,)), ((9, 45), (1,)), ((3, 16, 20), (1, 2)), ((3, 15, 20), (1, 2)), ((1, 1536), (1,))]
    kinds += [((1, 1215), (1,)), ((9, 31), (1,)), ((2, 6, 10, 14), (1, 2, 3)), ((3, 12, 20), (1,)), ((3, 9, 20), (1,))]

    def real_filter(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        x = random_array(rng, shape, "float32")
        sizes = [n if axis in axes else 1 for axis, n in enumerate(shape)]
        sizes[axes[-1]] = sizes[axes[-1]] // 2 + 1
        filters.filter_axes(x, random_array(rng, tuple(sizes), "complex64"), np.empty_like(x), axes, 1)

    for shape, axes in kinds:
        real_filter(shape, axes)
    loaded: list[tuple[str, str]] = []
    monkeypatch.setattr(kernels, "_load", lambda name, dtype: loaded.append((name, dtype)))
    for n in (7, 26, 50, 63, 110, 126, 250, 343, 486, 1000):
        for shape, axes in (((11, n), (1,)), ((2, n, 18), (1, 2)), ((2, 14, n), (1, 2)), ((2, n, 21), (1,))):
            real_filter(shape, axes)
    assert loaded == []


def test_nothing_is_written_beside_the_sources(tmp_path: Path) -> None:
    """An installation that cannot be written to: kernels go to the user's cache and nowhere else."""
    package = Path(spectralops.__file__).parent
    copy = tmp_path / "site" / "spectralops"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    before = sorted(path.relative_to(copy) for path in copy.rglob("*"))
    code = (
        "import numpy as np, spectralops; print(spectralops.__file__); "
        "print(spectralops.spectral_filter(np.ones((9, 8), 'f4'), np.ones(5, 'f4'), axes=-1).sum())"
    )
    output = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(copy.parent), "SPECTRALOPS_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert output[0].startswith(str(copy))
    assert float(output[1]) == 72.0
    assert sorted(path.relative_to(copy) for path in copy.rglob("*")) == before
    assert list((tmp_path / "cache").rglob("*.kernel"))
