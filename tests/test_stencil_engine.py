"""The stencil engine: bit for bit the plain executor, whatever the tiling, the number of levels and of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spectralops as so
from spectralops import _compiler
from spectralops._cpu.stencil import tiling
from spectralops._cpu.vector import workspace

pytestmark = pytest.mark.skipif(bool(_compiler.unavailable()), reason=_compiler.unavailable() or "numba is there")

CONDITIONS = {
    "periodic": so.Periodic(),
    "dirichlet": so.Dirichlet(1.0),
    "neumann": so.Neumann(0.3),
    "robin": so.Robin(1.0, 0.5),
    "reflect": so.Reflect(),
    "outflow": so.Outflow(),
    "hold": so.Hold(),
    "mixed": (so.Dirichlet(1.0), so.Hold()),
    "open": (so.Neumann(2.0), so.Outflow()),
}
GRIDS = {
    "1d": ((40,), (0,)),
    "1d-batch": ((5, 21), (1,)),
    "2d": ((17, 20), (0, 1)),
    "2d-batch": ((3, 11, 14), (1, 2)),
    "2d-apart": ((9, 3, 17), (0, 2)),
    "3d": ((9, 12, 10), (0, 1, 2)),
    "3d-batch": ((2, 6, 7, 8), (1, 2, 3)),
    "3d-one-plane": ((1, 5, 6), (0, 1, 2)),
    "one-row": ((1, 7), (0, 1)),
    "one-column": ((5, 1), (0, 1)),
}
TERMS = ("star", "star-source", "star-number", "per-instance", "flux", "flux-mask", "number-mask", "burgers")
SPACING = (0.5, 0.7, 0.9)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the last bit, the sign of zero included; one NaN is as good as another."""
    nan = np.isnan(b)
    return np.array_equal(np.isnan(a), nan) and a[~nan].tobytes() == b[~nan].tobytes()


def call(term: str, grid: str, rng: np.random.Generator, dtype: str, **options):
    """A step of the kind `term` as a function of the backend and the workers."""
    shape, axes = GRIDS[grid]
    u = rng.standard_normal(shape).astype(dtype)
    u.flat[0] = -0.0
    field = rng.random(shape).astype(dtype)
    mask = rng.random(shape) > 0.3
    options |= {"axes": axes, "on_unstable": "ignore"}
    dx = SPACING[: len(axes)]
    if term == "burgers":
        return lambda **tail: so.diffuse_convect_step(0.3 * u, dx, 0.001, 0.5, **options, **tail)
    nu = 1.0
    if term == "star-source":
        options["source"] = field
    elif term == "star-number":
        options["source"] = 0.3
    elif term == "per-instance":
        nu = rng.random([1 if axis in axes else n for axis, n in enumerate(shape)]).astype(dtype)
    elif term in ("flux", "flux-mask"):
        nu = field
    if term.endswith("mask"):
        u[~mask] = np.nan
        options |= {"mask": mask, "source": field}
    return lambda **tail: so.diffusion_step(u, dx, 0.01, nu, **options, **tail)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids of the tests' size cut into many tiles of few levels, as large ones are."""
    monkeypatch.setattr(tiling, "RESIDENT_BYTES", 0)
    monkeypatch.setattr(tiling, "WINDOW_BYTES", 1)
    monkeypatch.setattr(tiling, "TILE_REACHES", {2: 1, 3: 1})


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("term", TERMS)
def test_same_bits_as_numpy(term: str, grid: str, condition: str, rng: np.random.Generator) -> None:
    if term == "burgers" and grid.startswith("3d"):
        pytest.skip("self-advection in three dimensions has no kernel of its own")
    bc = CONDITIONS[condition]
    sides = (bc,) * len(GRIDS[grid][1]) if isinstance(bc, tuple) else bc
    dtype = "float32" if len(condition) % 2 else "float64"
    step = call(term, grid, rng, dtype, bc=sides, steps=7)
    assert same_bits(step(backend="cpu"), step(backend="numpy"))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("term", "grid"), [("star", "2d"), ("flux-mask", "2d"), ("star-source", "3d"), ("flux", "3d")])
def test_same_bits_in_tiles(term: str, grid: str, condition: str, workers: int, rng: np.random.Generator) -> None:
    bc = CONDITIONS[condition]
    sides = (bc,) * len(GRIDS[grid][1]) if isinstance(bc, tuple) else bc
    step = call(term, grid, rng, "float32", bc=sides, steps=11)
    assert same_bits(step(backend="cpu", workers=workers), step(backend="numpy"))


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_tiling_gives_the_same_bits(data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random grids, numbers of steps, threads and tilings, against single NumPy steps."""
    dims = data.draw(st.integers(1, 3), "dimensions")
    shape = tuple(data.draw(st.integers(1, 14), "size") for _ in range(dims))
    steps = data.draw(st.integers(1, 12), "steps")
    bc = data.draw(st.sampled_from([so.Periodic(), so.Reflect(), so.Dirichlet(0.5), so.Hold()]), "bc")
    dtype = data.draw(st.sampled_from(["float32", "float64"]), "dtype")
    field = data.draw(st.booleans(), "field")
    monkeypatch.setattr(tiling, "RESIDENT_BYTES", data.draw(st.sampled_from([0, 1 << 22]), "resident"))
    monkeypatch.setattr(tiling, "WINDOW_BYTES", data.draw(st.sampled_from([1, 1 << 14, 2 << 20]), "window"))
    monkeypatch.setattr(tiling, "TILE_REACHES", dict.fromkeys((2, 3), data.draw(st.integers(1, 3), "reaches")))
    monkeypatch.setattr(tiling, "BLOCK_ROWS", dict.fromkeys((2, 3), data.draw(st.integers(1, 9), "block")))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
    u = rng.standard_normal(shape).astype(dtype)
    nu = rng.random(shape).astype(dtype) if field else 0.8
    expected = u
    options = {"bc": bc, "axes": tuple(range(dims)), "on_unstable": "ignore"}
    for _ in range(steps):
        expected = so.diffusion_step(expected, 1.0, 0.05, nu, backend="numpy", **options)
    workers = data.draw(st.integers(1, 3), "workers")
    result = so.diffusion_step(u, 1.0, 0.05, nu, steps=steps, workers=workers, backend="cpu", **options)
    assert same_bits(result, expected)


def test_passes_cover_every_row_once() -> None:
    for one in tiling.passes(2, (1, 1000, 64), 2, 1, (False, True), 70, 4, 3):
        assert sum(p.levels for p in tiling.passes(2, (1, 1000, 64), 2, 1, (False, True), 70, 4, 3)) == 70
        for grid in (0, 1):
            rows = np.concatenate([np.arange(i[3], i[3] + i[4]) for i in one.items if i[0] == grid])
            assert np.array_equal(rows, np.arange(1000))


def test_a_tile_of_a_wrapping_grid_has_no_walls_but_a_whole_one_folds() -> None:
    (whole,) = tiling.passes(1, (1, 40, 64), 2, 1, (False, True), 5, 4, 1)
    assert whole.folds
    assert whole.levels == 5
    for one in tiling.passes(1, (1, 4000, 4096), 2, 1, (False, True), 40, 4, 1):
        assert not one.folds
        assert one.levels <= tiling.MOST_LEVELS[2]
        assert not one.items[:, 7:].any()


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("n", [5, 64, 1000, 1024, 4096])
def test_rows_keep_off_page_multiples(n: int, itemsize: int) -> None:
    layout = tiling.Layout.of_tile(1, 10, n, 2, itemsize, 2)
    assert layout.pitch >= n + 4
    assert layout.base >= 2 * layout.pitch + 2
    assert layout.base * itemsize % tiling.LINE_BYTES == 0
    assert 256 <= layout.pitch * itemsize % 4096 <= 4096 - 256
    assert layout.size >= layout.base + 12 * layout.pitch - 2


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("planes", [1, 4])
def test_ghosts_lie_inside_the_buffer(planes: int, dims: int) -> None:
    """The first and the last ghost of the first and last row and plane, one plane included."""
    width, rows, n = 3, 5, 7
    layout = tiling.Layout.of_tile(planes, rows, n, width, 8, dims)
    above, left = (width if dims == 3 else 0), (width if dims >= 2 else 0)
    first = layout.base - above * layout.plane_pitch - left * layout.pitch - width
    last = (planes - 1 + above) * layout.plane_pitch + (rows - 1 + left) * layout.pitch + n - 1 + width
    assert first >= 0
    assert layout.base + last < layout.size


def test_levels_are_nearly_equal() -> None:
    assert list(tiling._levels(70, 32)) == [23, 23, 24]
    assert list(tiling._levels(5, 32)) == [5]


def test_inputs_stay_as_they_are_and_may_be_read_only() -> None:
    u = np.arange(64.0).reshape(8, 8)
    u.flags.writeable = False
    result = so.diffusion_step(u, 1.0, 0.1, 1.0, backend="cpu")
    assert np.array_equal(u, np.arange(64.0).reshape(8, 8))
    assert result.flags.writeable


def test_memory_goes_back_to_the_workspace() -> None:
    so.diffusion_step(np.ones((64, 64)), 1.0, 0.1, 1.0, backend="cpu")
    before = sum(kept.size for kept in workspace._kept)
    for _ in range(5):
        so.diffusion_step(np.ones((64, 64)), 1.0, 0.1, 1.0, backend="cpu")
    assert sum(kept.size for kept in workspace._kept) == before


def test_the_default_is_the_engine_and_explain_says_so() -> None:
    plan = so.plan_diffusion_step((8, 8), "float64", 1.0, 0.1, 1.0)
    assert plan.backend == "cpu"
    assert plan.kernel == "star"
    assert "kernel 'star' of the stencil engine" in plan.explain()


def test_what_no_kernel_covers_runs_on_numpy() -> None:
    arguments = ((8,), "float64", 1.0, 0.1, 1.0)
    plan = so.plan_diffuse_convect_step(*arguments, velocity=0.5)
    assert plan.kernel is None
    assert plan.backend == "numpy"
    with pytest.raises(so.UnsupportedError, match="backend is 'cpu', but must be 'numpy' for this step: no compiled"):
        so.plan_diffuse_convect_step(*arguments, velocity=0.5, backend="cpu")
    assert so.plan_convection_step((8,), "float64", 0.5, 1.0, 0.1).backend == "numpy"


def test_the_switch_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_compiler.SWITCH, "0")
    with pytest.raises(so.UnsupportedError, match="SPECTRALOPS_NUMBA=0 switches compiled kernels off"):
        so.plan_diffusion_step((8, 9), "float64", 1.0, 0.1, 1.0, backend="cpu")
    assert so.plan_diffusion_step((8, 11), "float64", 1.0, 0.1, 1.0).backend == "numpy"
