"""The compiled diffusion_filter: bit for bit the plain one, whatever the schedule and the number of threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_filters import FORMS, GRIDS, call, same_bits

import spectralops as so
from spectralops import _compiler
from spectralops._cpu import diffusion_filter
from spectralops._cpu.vector import schedule, workspace

needs_compiler = pytest.mark.skipif(
    bool(_compiler.unavailable()), reason=_compiler.unavailable() or "kernels are compiled"
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Set the levels of a pass over grids of the tests' size, which are cut up like large ones."""

    def levels(count: int) -> None:
        monkeypatch.setattr(schedule, "RESIDENT_BYTES", 0)
        monkeypatch.setattr(schedule, "MOST_LEVELS", count)
        monkeypatch.setattr(diffusion_filter, "SHARED_CELLS", 0)
        forget()

    yield levels
    monkeypatch.undo()
    forget()


def forget() -> None:
    schedule.phases.cache_clear()
    schedule.in_order.cache_clear()


@needs_compiler
@pytest.mark.parametrize("bc", [so.Periodic(), so.Reflect()], ids=["periodic", "walls"])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("form", FORMS)
def test_same_bits_as_numpy(form: str, grid: str, bc: Any, rng: np.random.Generator) -> None:
    shape, axes = GRIDS[grid]
    for n_steps in (1, 2, 7):
        run = call(form, shape, axes, rng, "float64", bc=bc, n_steps=n_steps)
        assert same_bits(run("cpu"), run("numpy"))


@needs_compiler
@pytest.mark.parametrize("form", ["open", "coast", "flux-coast"])
def test_same_bits_in_float32(form: str, rng: np.random.Generator) -> None:
    run = call(form, (2, 12, 19), (1, 2), rng, "float32", n_steps=8)
    assert same_bits(run("cpu"), run("numpy"))


@needs_compiler
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("bc", [so.Periodic(), (so.Reflect(), so.Periodic())], ids=["periodic", "walls"])
@pytest.mark.parametrize(("levels", "n_steps"), [(1, 5), (2, 5), (3, 8), (20, 8)])
def test_same_bits_in_strips(
    levels: int, n_steps: int, bc: Any, workers: int, rng: np.random.Generator, small_blocks: Callable[[int], None]
) -> None:
    small_blocks(levels)
    run = call("coast", (1, 41, 9), (1, 2), rng, "float64", bc=bc, n_steps=n_steps)
    assert same_bits(run("cpu", workers), run("numpy"))


@needs_compiler
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_schedule_gives_the_same_bits(data: Any, small_blocks: Callable[[int], None]) -> None:
    dims = data.draw(st.integers(2, 3), "dimensions")
    shape = tuple(data.draw(st.integers(1, 15), "size") for _ in range(dims))
    form = data.draw(st.sampled_from(FORMS[:4]), "form")
    bc = data.draw(st.sampled_from([so.Periodic(), so.Reflect()]), "bc")
    small_blocks(data.draw(st.integers(1, 6), "levels"))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
    axes = tuple(range(dims))
    run = call(form, shape, axes, rng, "float64", bc=bc, n_steps=data.draw(st.integers(1, 12), "steps"))
    assert same_bits(run("cpu", data.draw(st.integers(1, 3), "workers")), run("numpy"))


@pytest.mark.parametrize("strips", [1, 2, 3])
@pytest.mark.parametrize("wraps", [False, True], ids=["walls", "wraps"])
@pytest.mark.parametrize(("slabs", "steps"), [(1, 3), (2, 4), (3, 2), (5, 6), (40, 5), (64, 17)])
def test_a_schedule_computes_each_level_once_from_the_level_before(
    slabs: int, steps: int, wraps: bool, strips: int, small_blocks: Callable[[int], None]
) -> None:
    """T_t takes the place of T_{t-2}: a neighbour must have reached level t - 1, and not yet t + 1."""
    small_blocks(8)
    reached = np.full(slabs, -1)
    for lists in schedule.phases(slabs, wraps, steps, 1, strips):
        # Lists that may run at the same time: run the last one first.
        for items in reversed(lists):
            for t, low, high in items:
                assert low < high
                for z in range(low, high):
                    assert reached[z] == t - 1
                    for neighbour in (z - 1, z + 1):
                        if t > 0 and (wraps or 0 <= neighbour < slabs):
                            assert reached[neighbour % slabs] in (t - 1, t)
                reached[low:high] = t
    assert (reached == steps).all()


def test_strips_share_the_work(small_blocks: Callable[[int], None]) -> None:
    small_blocks(4)
    first, second = schedule.phases(100, True, 4, 1, 2)
    assert [len(first), len(second)] == [2, 2]
    cells = [sum(high - low for _, low, high in items) for items in first]
    assert cells[0] == cells[1]


def test_levels_of_a_pass_fit_in_the_window() -> None:
    def levels(slabs: int, slab_bytes: int, strips: int = 1) -> int:
        return schedule.levels_of_a_pass(slabs, slab_bytes, strips)

    assert levels(64, 4096) == 1
    assert levels(65, 4096) == 32
    assert levels(1024, 1 << 15) == 28
    assert levels(1024, 1 << 20) == 1
    assert levels(40, 1 << 15) == 20
    assert levels(40, 1 << 15, 2) == 10


def test_levels_are_shared_out_evenly(small_blocks: Callable[[int], None]) -> None:
    small_blocks(8)
    ends = [lists[0][-1][0] for lists in schedule.phases(400, False, 20, 1, 1)]
    assert ends == [6, 13, 20]
    assert schedule.in_order(400, False, 20, 1)[-1].tolist() == [20, 399, 400]


@needs_compiler
def test_fields_of_a_batch_are_each_instances_own(rng: np.random.Generator) -> None:
    """A mask and a metric that differ between the instances, beside ones that all share."""
    u = rng.standard_normal((3, 8, 9))
    mask = rng.random((3, 8, 9)) > 0.3
    area, south = 1 + rng.random((3, 1, 1)), 1 + rng.random((8, 9))
    metric = so.Metric(area, (south, 1.0), (1.0, 1.5))
    options = {"mask": mask, "metric": metric}
    whole = so.diffusion_filter(u, 3.0, 0.6, backend="cpu", **options)
    for k in range(3):
        alone = so.Metric(float(area[k, 0, 0]), (south, 1.0), (1.0, 1.5))
        assert same_bits(whole[k], so.diffusion_filter(u[k], 3.0, 0.6, mask=mask[k], metric=alone, backend="numpy"))


@needs_compiler
def test_inputs_may_be_read_only_and_of_any_strides(rng: np.random.Generator) -> None:
    u = rng.standard_normal((9, 8, 7))[::-1].transpose(0, 2, 1)
    mask = rng.random((7, 8)) > 0.3
    u.flags.writeable = mask.flags.writeable = False
    before = u.copy()
    result = so.diffusion_filter(u, 3.0, 1.0, mask=mask, backend="cpu")
    assert same_bits(result, so.diffusion_filter(u, 3.0, 1.0, mask=mask, backend="numpy"))
    assert np.array_equal(u, before)


@needs_compiler
def test_empty_batches_and_out(rng: np.random.Generator) -> None:
    assert so.diffusion_filter(np.ones((0, 4, 5)), 3.0, 1.0, backend="cpu").shape == (0, 4, 5)
    u, out = rng.standard_normal((6, 5)), np.full((6, 5), np.nan)
    assert so.diffusion_filter(u, 3.0, 1.0, out=out, backend="cpu") is out
    assert same_bits(out, so.diffusion_filter(u, 3.0, 1.0, backend="numpy"))


@needs_compiler
def test_memory_goes_back_to_the_workspace() -> None:
    so.diffusion_filter(np.ones((64, 64)), 3.0, 1.0, backend="cpu")
    before = sum(kept.size for kept in workspace._kept)
    for _ in range(5):
        so.diffusion_filter(np.ones((64, 64)), 3.0, 1.0, backend="cpu")
    assert sum(kept.size for kept in workspace._kept) == before


@needs_compiler
def test_constants_stay_to_the_bit() -> None:
    """Differences of sums: also for weights that no binary number has, in the precision that shows them most."""
    for shape, dx in (((6, 7), (0.3, 0.7)), ((4, 5, 6), (1.0, 1.0, 1.0)), ((9,), (0.1,))):
        for u in (np.full(shape, 0.7, "float32"), np.full(shape, 1e3)):
            plan = so.plan_diffusion_filter(shape, u.dtype, 20.0, dx, filter_shape="taper", bc=so.Reflect())
            expected = sum((-1) ** k * u.dtype.type(c) for k, c in enumerate(plan.coefficients)) * u
            result = plan(u)
            assert np.ptp(result) == 0.0
            np.testing.assert_allclose(result, expected, rtol=len(plan.coefficients) * np.finfo(u.dtype).eps)


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("cells", [1, 5, 63, 64, 1000, 1024, 4096])
def test_rows_keep_off_page_multiples_and_have_room_for_vectors(cells: int, itemsize: int) -> None:
    grid = diffusion_filter.Grid(2, 1, 3, 1, cells, itemsize)
    line = 64 // itemsize
    assert grid.base == line
    assert 256 <= grid.pitch * itemsize % 4096 <= 4096 - 256
    assert grid.pitch % line == 0
    # A ghost beyond the last cell, whole vectors from the first cell on, a ghost before the next row.
    assert grid.pitch >= max(cells + 1, -(-cells // line) * line) + 1
    last = grid.base + 2 * grid.pitch + cells
    assert last + line < grid.scratch // itemsize


def test_a_grid_of_a_plan() -> None:
    def sizes(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> tuple[int, ...]:
        grid = diffusion_filter.Grid.of(so.plan_diffusion_filter(shape, dtype, 3.0, (1.0,) * len(axes), axes=axes))
        return grid.dims, grid.grids, grid.slabs, grid.rows, grid.cells, grid.itemsize

    assert sizes((2, 3, 40), (2,)) == (1, 6, 1, 1, 40, 4)
    assert sizes((2, 3, 40), (2, 0), "float64") == (2, 3, 2, 1, 40, 8)
    assert sizes((5, 2, 3, 40), (1, 2, 3)) == (3, 5, 2, 3, 40, 4)
    assert sizes((0, 3, 40), (1, 2)) == (2, 0, 3, 1, 40, 4)


@pytest.mark.parametrize(("form", "streams"), [("open", 3), ("coast", 4), ("flux", 6)])
def test_bytes_of_a_slab(form: str, streams: int) -> None:
    grid = diffusion_filter.Grid(2, 1, 9, 1, 120, 8)
    assert grid.slab_bytes(form) == streams * grid.pitch * 8


@needs_compiler
def test_explain_names_the_kernel() -> None:
    lines = so.plan_diffusion_filter((1024, 1024), "float64", 20.0, 1.0).explain().splitlines()
    assert lines[-2] == (
        "  runs: kernel 'chebyshev_open_2d' of the vector engine, compiled on first use: 22 level(s) per pass "
        "over a grid, grids or strips of them shared among workers"
    )
    mask = np.ones((64,), bool)
    plan = so.plan_diffusion_filter((8, 64), "float32", 20.0, 1.0, mask=mask, axes=1)
    assert "'chebyshev_coast_1d' of the vector engine, compiled on first use: 1 level(s)" in plan.explain()


def test_more_axes_than_kernels_have_run_on_numpy() -> None:
    options = {"dx": (1.0,) * 4, "axes": (0, 1, 2, 3)}
    assert so.plan_diffusion_filter((2, 3, 2, 3), "float64", 2.0, **options).backend == "numpy"
    message = (
        r"^diffusion_filter: backend is 'cpu', but must be 'numpy' for this filter: it is along 4 axes, and compiled "
        r"kernels have at most 3$"
    )
    with pytest.raises(so.UnsupportedError, match=message):
        so.plan_diffusion_filter((2, 3, 2, 3), "float64", 2.0, backend="cpu", **options)


def test_without_a_compiler_numpy_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_compiler.SWITCH, "0")
    assert so.plan_diffusion_filter((5, 67), "float64", 2.0, 1.25).backend == "numpy"
    with pytest.raises(so.UnsupportedError, match=r"SPECTRALOPS_NUMBA=0 switches compiled kernels off$"):
        so.plan_diffusion_filter((5, 67), "float64", 2.0, 1.25, backend="cpu")


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("__file__", "package.zip/spectralops/_compiler.py", "the source files of the kernels are not installed"),
        ("importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda _: None)), "llvmlite, which compiles"),
    ],
)
def test_without_what_kernels_are_made_of_numpy_runs(
    name: str, missing: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(_compiler.SWITCH, raising=False)
    monkeypatch.setattr(_compiler, name, missing)
    _compiler._missing.cache_clear()
    try:
        assert message in _compiler.unavailable()
        assert so.plan_diffusion_filter((5, 67), "float64", 2.0, 1.25).backend == "numpy"
    finally:
        monkeypatch.undo()
        _compiler._missing.cache_clear()


def test_kernels_exist_for_every_form_and_dimension() -> None:
    from spectralops._cpu.vector import chebyshev, kernels

    names = {f"chebyshev_{form}_{dims}d" for form, dims in itertools.product(chebyshev.FORMS, (1, 2, 3))}
    assert names <= set(kernels.KERNELS)
    assert all(callable(getattr(chebyshev, name)) for name in names)
