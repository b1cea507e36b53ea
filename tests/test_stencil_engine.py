"""The stencil engine: bit for bit the plain executor, whatever the tiling, the number of levels and of threads."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases_steps import CASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import OpCase

import spectralops as so
from spectralops import _compiler

pytestmark = pytest.mark.skipif(bool(_compiler.unavailable()), reason=_compiler.unavailable() or "kernels are compiled")
if not _compiler.unavailable():
    from spectralops._cpu.stencil import engine, tiles
    from spectralops._cpu.vector import workspace

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
    "1d-batches": ((2, 3, 19), (2,)),
    "2d": ((17, 20), (0, 1)),
    "2d-batch": ((3, 11, 14), (1, 2)),
    "2d-apart": ((9, 3, 17), (0, 2)),
    "3d": ((9, 12, 10), (0, 1, 2)),
    "3d-batch": ((2, 6, 7, 8), (1, 2, 3)),
    "3d-one-plane": ((1, 5, 6), (0, 1, 2)),
    "one-row": ((1, 7), (0, 1)),
    "one-column": ((5, 1), (0, 1)),
}
TERMS = ("star", "per-instance", "flux-mask", "number-mask", "burgers-source")
SPACING = (0.5, 0.7, 0.9)
SMALL = {"CACHE_BYTES": 64, "ROW_BYTES": 16, "SHARED_BYTES": 64, "TILE_BYTES": 128, "TALL_REACHES": 1, "TALL_ROWS": 1}


# What cells outside a mask hold, which stays as it is.
LAND = (np.nan, -0.0, np.inf, -2.5)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the last bit, the sign of zero included; one NaN is as good as another."""
    nan = np.isnan(b)
    return a.shape == b.shape and np.array_equal(np.isnan(a), nan) and a[~nan].tobytes() == b[~nan].tobytes()


def call(term: str, grid: str, rng: np.random.Generator, dtype: str, **options: Any) -> Callable[..., Any]:
    """A step of the kind `term` as a function of the backend and the workers."""
    shape, axes = GRIDS[grid]
    u = rng.standard_normal(shape).astype(dtype)
    u.flat[0] = -0.0
    field = rng.random(shape).astype(dtype)
    mask = rng.random(shape) > 0.3
    options |= {"axes": axes, "on_unstable": "ignore"}
    dx = SPACING[: len(axes)]
    if term == "burgers-source":
        return functools.partial(so.diffuse_convect_step, 0.3 * u, dx, 0.001, 0.5, source=field, **options)
    nu: Any = 1.0
    if term == "per-instance":
        nu = rng.random([1 if axis in axes else n for axis, n in enumerate(shape)]).astype(dtype)
        options["source"] = 0.3
    elif term == "flux-mask":
        nu = field
    if term.endswith("mask"):
        u[~mask] = rng.choice(LAND, int((~mask).sum()))
        options |= {"mask": mask, "source": field}
    return functools.partial(so.diffusion_step, u, dx, 0.01, nu, **options)


@pytest.fixture(params=["whole", "tiles"])
def tiling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Grids of the tests' size as they are, and cut into many tiles of few levels, as large ones are.

    Of each, some tests interleave rows wherever they may, others nowhere; of the second, some cut rows only.
    """
    choice = zlib.crc32(request.node.name.encode())
    interleaving = {"LEAST_LEVELS": 1, "PLAIN_LEVELS": 1, "PLAIN_BLOCKS": 1, "SPARE_FRACTION": 0}
    constants = interleaving if choice % 2 else {"LEAST_LEVELS": 99, "PLAIN_LEVELS": 99}
    if request.param == "tiles":
        constants |= {
            "TILE_REACHES": 1,
            **SMALL,
            "TALL_ROWS": 99 if choice & 2 else 1,
            "BLOCK_ROWS": 4 if choice & 4 else 3,
        }
    cut_up(monkeypatch, **constants)
    return request.param


def cut_up(monkeypatch: pytest.MonkeyPatch, **constants: int) -> None:
    """Set what decides the tiles, and forget those that were decided before."""
    for name, value in constants.items():
        by_dims = isinstance(getattr(tiles, name), dict)
        monkeypatch.setattr(tiles, name, dict.fromkeys((1, 2, 3), value) if by_dims else value)
    tiles.passes.cache_clear()


@pytest.fixture(autouse=True)
def _forget() -> Any:
    """What a test decided about tiles is not what the next one wants; plans may be tested for being kept."""
    engine._known.clear()
    engine._grounds.clear()
    yield
    tiles.passes.cache_clear()


# Conditions on grids: all of them on the commonest grids, some of each kind on the others.
SOME = ("periodic", "mixed", "open")
PAIRS = [(g, c) for g in GRIDS for c in CONDITIONS if c in SOME or g in ("1d", "2d", "3d")]


@pytest.mark.parametrize(("grid", "condition"), PAIRS)
@pytest.mark.parametrize("term", TERMS)
def test_same_bits_as_numpy(term: str, grid: str, condition: str, tiling: str, rng: np.random.Generator) -> None:
    bc = CONDITIONS[condition]
    sides = (bc,) * len(GRIDS[grid][1]) if isinstance(bc, tuple) else bc
    dtype = "float32" if len(condition) % 2 else "float64"
    step = call(term, grid, rng, dtype, bc=sides, steps=7)
    assert same_bits(step(backend="cpu", workers=1 + len(grid) % 3), step(backend="numpy"))


@pytest.mark.parametrize(
    ("kind", "integrator", "condition"),
    [("number", "euler", "mixed"), ("field", "rk4", "periodic"), ("rows", "euler", "robin")],
)
def test_vectors_on_land_at_sea_and_along_coasts(
    kind: str, integrator: str, condition: str, tiling: str, rng: np.random.Generator
) -> None:
    shape, bc = (29, 150), CONDITIONS[condition]
    dtype = "float32" if len(condition) % 2 else "float64"
    # In blocks of columns and of all rows but a few: at sea, on land, either.
    mask = rng.random(shape) > np.repeat(rng.choice([0.0, 0.3, 1.0], 19), 8)[:150]
    mask[rng.integers(29, size=6)] = True
    u = rng.standard_normal(shape).astype(dtype)
    u[~mask] = rng.choice(LAND, int((~mask).sum()))
    nu = rng.random(shape).astype(dtype) if kind == "field" else 0.5
    options = {"integrator": integrator, "mask": mask, "axes": (1,) if kind == "rows" else (0, 1), "steps": 5}
    sides = (bc,) * len(options["axes"]) if isinstance(bc, tuple) else bc  # type: ignore[arg-type]
    step = functools.partial(so.pde_step, u, 1.0, 0.1, [so.Diffusion(nu), so.Source(0.1)], bc=sides, **options)
    assert same_bits(step(backend="cpu", workers=2), step(backend="numpy"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_has_the_bits_of_numpy(case: OpCase, tiling: str) -> None:
    dtype = case.dtypes[zlib.crc32(str(case).encode()) % 2]
    arrays = case.inputs(np.random.default_rng(zlib.crc32(str(case).encode())), dtype)
    function = getattr(so, case.op)
    try:
        result = case.call(function, arrays, backend="cpu", workers=2)
    except so.UnsupportedError as error:
        assert "Pointwise function in plain Python" in str(error)  # noqa: PT017
        return
    assert same_bits(result, case.call(function, arrays, backend="numpy"))


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Random grids, boundaries, terms, integrators, masks and sources."""
    dims = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(dims))
    if max(shape) < 3:
        shape = (*shape[:-1], 11)
    sides = [so.Reflect(), so.Dirichlet(0.5), so.Neumann(0.2), so.Robin(0.4, 0.3), so.Outflow(), so.Hold()]
    small = [so.Outflow(), so.Hold()]  # mirrors need as many cells as the stencil is wide
    bc = []
    for n in shape:
        some = st.sampled_from(sides if n >= 3 else small)
        bc.append(so.Periodic() if draw(st.booleans()) else (draw(some), draw(some)))
    scheme = draw(st.sampled_from(["central", "upwind", "upwind3", "weno5"]))
    return {
        "shape": shape,
        "batch": draw(st.integers(0, 3)),
        "bc": tuple(bc),
        "scheme": scheme,
        "form": draw(st.sampled_from(["advective", "flux"])),
        "kinds": draw(st.lists(st.sampled_from(["nu", "number", "wind", "field", "self"]), min_size=1, max_size=2)),
        "mask": draw(st.booleans()),
        "source": draw(st.booleans()),
        "integrator": draw(st.sampled_from(["euler", "euler", "rk2", "ssprk3", "rk4"])),
        "steps": draw(st.integers(1, 8)),
        "dtype": draw(st.sampled_from(["float32", "float64"])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems(), data=st.data())
def test_any_tiling_gives_the_bits_of_single_numpy_steps(
    problem: dict[str, Any], data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_up(
        monkeypatch,
        CACHE_BYTES=data.draw(st.sampled_from([1, 500, 4000, 1 << 20]), "cache"),
        SHARED_BYTES=data.draw(st.sampled_from([1, 4000]), "shared"),
        TILE_BYTES=data.draw(st.sampled_from([1, 2000]), "tile"),
        TILE_REACHES=data.draw(st.integers(1, 3), "reaches"),
        TALL_REACHES=data.draw(st.integers(1, 5), "tall"),
        TALL_ROWS=data.draw(st.sampled_from([1, 99]), "whole"),
        BLOCK_ROWS=data.draw(st.integers(1, 9), "rows"),
        BLOCK_PLANES=data.draw(st.integers(1, 3), "planes"),
        MOST_LEVELS=data.draw(st.integers(1, 9), "levels"),
        MASKED_LEVELS=1,
        WHOLE_LEVELS=1,
        ROW_BYTES=16,
        PLAIN_BLOCKS=1,
        LEAST_LEVELS=data.draw(st.integers(1, 5), "interleaved from"),
        PLAIN_LEVELS=data.draw(st.integers(1, 5), "sums interleaved from"),
        SPARE_FRACTION=data.draw(st.sampled_from([0, 0, 8]), "left over"),
    )
    rng = np.random.default_rng(problem["seed"])
    stepped = problem["shape"]
    shape = ((problem["batch"],) if problem["batch"] else ()) + stepped
    u = rng.standard_normal(shape).astype(problem["dtype"])

    def field() -> np.ndarray:
        """Random values that may be the same along some axes."""
        chosen = [1 if rng.random() < 0.3 else n for n in shape]
        return rng.random(chosen).astype(problem["dtype"])

    terms: list[Any] = []
    for kind in problem["kinds"]:
        scheme, form = problem["scheme"], problem["form"]
        if kind in ("nu", "number"):
            terms.append(so.Diffusion(field() if kind == "nu" else 0.4))
        elif kind == "self":
            terms.append(so.SelfAdvection(scheme, form))
        else:
            velocity = tuple(field() - 0.5 if kind == "field" else rng.standard_normal() for _ in stepped)
            terms.append(so.Advection(velocity, scheme, form))
    options: dict[str, Any] = {
        "axes": tuple(range(len(shape) - len(stepped), len(shape))),
        "bc": problem["bc"],
        "integrator": problem["integrator"],
        "on_unstable": "ignore",
    }
    if problem["mask"]:
        options["mask"] = rng.random(shape) > 0.25
        u[~options["mask"]] = rng.choice(LAND, int((~options["mask"]).sum()))
    if problem["source"]:
        options["source"] = field()
    expected = u
    for _ in range(problem["steps"]):
        expected = so.pde_step(expected, 1.0, 0.02, terms, backend="numpy", **options)
    workers = data.draw(st.integers(1, 3), "workers")
    steps = problem["steps"]
    result = so.pde_step(u, 1.0, 0.02, terms, steps=steps, workers=workers, backend="cpu", **options)
    assert same_bits(result, expected)


STRAIGHT = {
    "diffusion": lambda u, nu, **o: so.diffusion_step(u, (0.5, 0.7), 0.01, 1.0, **o),
    "each grid": lambda u, nu, **o: so.diffusion_step(u, (0.5, 0.7), 0.01, nu, source=0.3, **o),
    "burgers": lambda u, nu, **o: so.diffuse_convect_step(u, (0.5, 0.7), 0.01, 1.0, **o),
    "upwind3": lambda u, nu, **o: so.convection_step(u, (0.3, -0.2), (0.5, 0.7), 0.01, scheme="upwind3", **o),
    "one axis": lambda u, nu, **o: so.convection_step(u, (0.0, 0.2), (0.5, 0.7), 0.01, **o),
}


@pytest.mark.parametrize("term", STRAIGHT)
@pytest.mark.parametrize("condition", ["periodic", "mixed", "open", "robin"])
@pytest.mark.parametrize("tile", [960, 4800], ids=["ends in parts", "whole"])
def test_a_single_step_straight_from_the_array(
    term: str, condition: str, tile: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    cut_up(monkeypatch, CACHE_BYTES=64, STRAIGHT_ROWS=6, TILE_BYTES=tile)
    bc, dtype = CONDITIONS[condition], ("float32", "float64")[len(term) % 2]
    u, nu = rng.standard_normal((2, 23, 83)).astype(dtype), rng.random((2, 1, 1))
    options: dict[str, Any] = {"axes": (1, 2), "bc": (bc, bc) if isinstance(bc, tuple) else bc}
    expected = STRAIGHT[term](u, nu, on_unstable="ignore", backend="numpy", **options)
    for workers in (1, 3):
        found = STRAIGHT[term](u, nu, on_unstable="ignore", backend="cpu", workers=workers, **options)
        assert same_bits(found, expected)
    # Where u lies in another order it goes through scratch memory.
    other = np.asfortranarray(u)
    assert same_bits(STRAIGHT[term](other, nu, on_unstable="ignore", backend="cpu", **options), expected)


@pytest.mark.usefixtures("tiling")
@pytest.mark.parametrize("layout", ["F", "strided", "reversed", "broadcast"])
def test_fields_of_any_strides(layout: str, rng: np.random.Generator) -> None:
    def laid(x: np.ndarray) -> np.ndarray:
        if layout == "F":
            return np.asfortranarray(x)
        if layout == "strided":
            return np.repeat(x, 2, axis=-1)[..., ::2]
        return x[::-1, ::-1] if layout == "reversed" else np.broadcast_to(x[:1], x.shape)

    u, nu, source = (laid(rng.random((12, 15))) for _ in range(3))
    mask = laid(rng.random((12, 15)) > 0.2)
    results = [
        so.diffusion_step(u, 1.0, 0.05, nu, mask=mask, source=source, steps=4, backend=backend)
        for backend in ("cpu", "numpy")
    ]
    assert same_bits(*results)


@pytest.mark.usefixtures("tiling")
@pytest.mark.parametrize("interleaved", [False, True])
def test_nothing_is_written_beyond_scratch_memory(
    interleaved: bool, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Scratch memory of exactly the size asked for, all NaN, between guards."""
    if interleaved:
        cut_up(monkeypatch, LEAST_LEVELS=1, SPARE_FRACTION=0)
    guard = 256
    given_out = []

    def take(size: int) -> workspace.Buffer:
        owner = np.full(size + 2 * guard + 64, 0xFF, np.uint8)
        start = -(-(owner.ctypes.data + guard) // 64) * 64
        given_out.append((owner, start - owner.ctypes.data, size))
        return workspace.Buffer(start, size, owner)

    monkeypatch.setattr(workspace, "take", take)
    monkeypatch.setattr(workspace, "give_back", lambda buffer: None)
    u, v, nu = rng.random((3, 10, 13)), rng.random((10, 13)), rng.random((3, 10, 13))
    terms = [so.Diffusion(nu), *([] if interleaved else [so.Advection((v, v), "weno5", "flux")]), so.Source(v)]
    options = {"integrator": "rk4", "mask": v > 0.2, "bc": (so.Reflect(), so.Hold()), "steps": 2}
    results = [so.pde_step(u, 1.0, 0.05, terms, backend=b, on_unstable="ignore", **options) for b in ("cpu", "numpy")]
    assert same_bits(*results)
    assert given_out
    for owner, start, size in given_out:
        assert (owner[start - guard : start] == 0xFF).all()
        assert (owner[start + size : start + size + guard] == 0xFF).all()


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


def test_plans_are_prepared_once_and_forgotten_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "KEPT", 2)
    plans = [so.plan_diffusion_step((8, 8), "float64", 1.0, 0.1, nu) for nu in (1.0, 1.1, 1.2)]
    for plan in plans:
        plan(np.ones((8, 8)))
    kept = list(engine._known.values())
    assert [one.plan for one in kept] == plans[1:]
    plans[1](np.ones((8, 8)))
    assert list(engine._known.values()) == kept[::-1]


def test_plans_that_differ_in_numbers_alone_share_their_ground() -> None:
    plans = [so.plan_diffusion_step((8, 9), "float64", 1.0, dt, 1.0, steps=2) for dt in (0.1, 0.2)]
    u = np.random.default_rng(0).random((8, 9))
    results = [plan(u, workers=1) for plan in plans]
    grounds = [engine._prepared(plan).ground for plan in plans]
    assert grounds[0] is grounds[1]
    assert list(grounds[0].schedules) == [(2, 1, True)]
    for dt, result in zip((0.1, 0.2), results, strict=True):
        assert same_bits(result, so.diffusion_step(u, 1.0, dt, 1.0, steps=2, backend="numpy"))
    masked = so.plan_diffusion_step((8, 9), "float64", 1.0, 0.1, 1.0, mask=np.ones((8, 9), bool))
    assert engine._prepared(masked).ground is not grounds[0]


def test_threads_that_come_at_the_same_time_take_the_same_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first one, which hold while it computes."""
    ground = engine.Prepared(so.plan_diffusion_step((8, 9), "float64", 1.0, 0.1, 1.0)).ground
    compiled, first = engine.stages, []

    def stages(*arguments: Any) -> np.ndarray:
        made = compiled(*arguments).copy()
        if not first:
            first.append(0)
            first.append(ground.code(False)[1])  # as another thread would, before this one has stored its own
        return made

    monkeypatch.setattr(engine, "stages", stages)
    assert ground.code(False)[1] == first[-1] != 0
    assert ground.code(False)[1] == first[-1]


def test_the_default_is_the_engine_and_explain_says_so() -> None:
    plan = so.plan_diffusion_step((8, 8), "float64", 1.0, 0.1, 1.0, steps=3)
    assert plan.backend == "cpu"
    assert (
        "runs: the stencil engine, its inner loop compiled by LLVM for these terms on first use: "
        "1 pass(es) over memory of at most 3 level(s), 1 tile(s) in all, shared among workers"
    ) in plan.explain()


def test_the_switch_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_compiler.SWITCH, "0")
    with pytest.raises(so.UnsupportedError, match="SPECTRALOPS_NUMBA=0 switches compiled kernels off"):
        so.plan_diffusion_step((8, 9), "float64", 1.0, 0.1, 1.0, backend="cpu")
    assert so.plan_diffusion_step((8, 11), "float64", 1.0, 0.1, 1.0).backend == "numpy"


def test_no_cells() -> None:
    assert so.diffusion_step(np.ones((0, 4, 4)), 1.0, 0.1, 1.0, backend="cpu").shape == (0, 4, 4)
