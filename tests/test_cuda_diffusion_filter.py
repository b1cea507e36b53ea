"""diffusion_filter of the CUDA backend: bit for bit NumPy's, on the host and on a device."""

from __future__ import annotations

import re
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from cuda_on_host import BACKEND, HostRunner, backend
from small_filters import FORMS, GRIDS, call, same_bits

import spectralops as so
from spectralops._cuda import diffusion_filter

WALLS = {"bc": so.Reflect()}
MIXED = {"bc": (so.Periodic(), so.Reflect())}
# Grids that a strip and a chunk of rows do not cover, of whole vectors and not.
WIDE = {
    "wide": ((2, 23, 260), (1, 2)),
    "odd": ((40, 131), (0, 1)),
    "narrow": ((5, 3), (0, 1)),
    "long": ((3, 300), (1,)),
}

# Form, grid, dtype, Laplacians, ends.
HOST = [
    ("open", "1d", "float64", 4, {}),
    ("coast", "long", "float32", 8, WALLS),
    ("open", "wide", "float32", 14, {}),
    ("coast", "2d-batch", "float32", 14, WALLS),
    ("open", "narrow", "float64", 5, MIXED),
    ("flux", "odd", "float32", 5, MIXED),
    ("flux-coast", "2d-apart", "float32", 9, {}),
    ("adjoint", "2d", "float64", 1, WALLS),
    ("flux", "1d-batch", "float32", 3, {}),
    ("open", "3d-batch", "float32", 3, WALLS),
    ("coast", "3d", "float32", 4, {}),
    ("flux-coast", "3d", "float32", 1, MIXED | {"bc": (so.Reflect(), so.Periodic(), so.Reflect())}),
]


@pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
class TestOnHost:
    @pytest.mark.parametrize(("form", "grid", "dtype", "n_steps", "ends"), HOST)
    def test_same_bits_as_numpy(self, rng, form: str, grid: str, dtype: str, n_steps: int, ends: dict) -> None:
        run = call(form, *(GRIDS | WIDE)[grid], rng, dtype, n_steps=n_steps, **ends)
        with backend() as runner:
            found = run(BACKEND)
        assert same_bits(found, run("numpy"))
        kernels = {1: "chebyshev_lines", 2: "chebyshev_planes", 3: "chebyshev_volume"}
        expected = {kernels[len((GRIDS | WIDE)[grid][1])]} | ({"closed_faces"} if form == "coast" else set())
        assert {kernel.name.partition("<")[0] for kernel in runner.launched} == expected

    @pytest.mark.parametrize("form", ["coast", "flux"])
    def test_grids_in_turn(self, rng, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
        monkeypatch.setattr(diffusion_filter, "SPACE_BYTES", 2 * 2 * 512)  # two levels of two grids
        shape = (5, 9, 12)
        u = rng.standard_normal(shape).astype(np.float32)
        options: dict[str, Any] = {"n_steps": 2 * diffusion_filter.MOST_LEVELS[form]}
        if form == "coast":
            options["mask"] = rng.random(shape) > 0.3
        else:
            area, *faces = (1 + rng.random((5, *shape))).astype(np.float32)
            options["metric"] = so.Metric(area, faces[:2], faces[2:])
        with backend() as runner:
            found = so.diffusion_filter(u, 3.0, 1.0, **options, backend=BACKEND)
        assert same_bits(found, so.diffusion_filter(u, 3.0, 1.0, **options, backend="numpy"))
        passes = [kernel for kernel in runner.launched if kernel.name.startswith("chebyshev_planes")]
        assert len(passes) == 3 * 2  # of two, two and one grids

    def test_memory_between_vectors(self, rng) -> None:
        u = rng.standard_normal(9 * 16 + 1).astype(np.float32)[1:].reshape(9, 16)
        out = np.empty(9 * 16 + 1, np.float32)[1:].reshape(9, 16)
        with backend():
            assert so.diffusion_filter(u, 3.0, 1.0, out=out, backend=BACKEND) is out
        assert same_bits(out, so.diffusion_filter(u, 3.0, 1.0, backend="numpy"))

    def test_nothing_to_do(self) -> None:
        with backend() as runner:
            assert so.diffusion_filter(np.ones((0, 4, 5)), 3.0, 1.0, backend=BACKEND).shape == (0, 4, 5)
        assert not runner.launched

    def test_scratch_memory(self) -> None:
        """Two levels of two fields each between three passes, two of one between two, beside the counts of a coast."""
        cells, mask = 8 * 32, np.ones((8, 32), bool)
        for n_steps, fields in ((4, 0), (8, 2), (9, 4)):
            plan = so.plan_diffusion_filter((8, 32), "float32", 3.0, 1.0, n_steps=n_steps, mask=mask, backend="numpy")
            recurrence = plan.recurrence((np.ones((8, 32), np.float32), mask), np, coasts=False)
            ready = diffusion_filter.Filter(plan, recurrence, (False, False), HostRunner().device())
            assert ready.space_bytes == cells + fields * 4 * cells

    @pytest.mark.parametrize(("lines", "index"), [(2**30, "int"), (2**30 + 1, "long long")])
    def test_counters_of_many_lines(self, lines: int, index: str) -> None:
        plan = so.plan_diffusion_filter((lines, 1), "float32", 3.0, 1.0, axes=1, backend="numpy")
        recurrence = plan.recurrence((np.ones((1, 1), np.float32),), np)
        ready = diffusion_filter.Filter(plan, recurrence, (False, False), HostRunner().device())
        assert plan.index_bits == 32
        assert f"-DINDEX_T={index}" in ready.program.steps[0].kernel.options


class TestPlans:
    def test_explain(self) -> None:
        with backend():
            plan = so.plan_diffusion_filter((64, 64), "float32", 8.0, 1.0, backend=BACKEND)
            assert diffusion_filter.algorithm(plan) == (
                "kernels compiled on first use: up to 6 level(s) per pass over memory, in registers"
            )
            plan = so.plan_diffusion_filter((8, 8, 8), "float32", 8.0, (1.0,) * 3, backend=BACKEND)
            assert diffusion_filter.algorithm(plan) == "kernels compiled on first use: one level per pass over memory"

    def test_more_axes(self) -> None:
        plan = so.plan_diffusion_filter((2, 3, 2, 3), "float64", 2.0, (1.0,) * 4, device="cuda")
        assert plan.backend == "cupy"
        words = "operations of CuPy, one after another (no kernels: it is along 4 axes, and kernels have at most 3)"
        assert f"  runs: {words}" in plan.explain().splitlines()
        message = "diffusion_filter: backend is 'cuda', but must be 'cupy' for these arguments: it is along 4 axes, and"
        with pytest.raises(so.errors.UnsupportedError, match=f"^{re.escape(message)}"):
            so.plan_diffusion_filter((2, 3, 2, 3), "float64", 2.0, (1.0,) * 4, device="cuda", backend="cuda")
        assert so.plan_diffusion_filter((3, 3), "float64", 2.0, 1.0, device="cuda").backend == "cuda"


@pytest.mark.gpu
class TestOnDevice:
    @pytest.mark.parametrize("grid", GRIDS | WIDE)
    @pytest.mark.parametrize("form", FORMS)
    def test_same_bits_as_numpy(self, rng, form: str, grid: str) -> None:
        cupy = pytest.importorskip("cupy")
        shape, axes = (GRIDS | WIDE)[grid]
        for dtype, ends, n_steps in (("float32", {}, 9), ("float64", WALLS, 7)):
            run = call(form, shape, axes, rng, dtype, n_steps=n_steps, **ends)
            plan, arrays = run.plan("cuda"), run.arrays
            found = plan(*(cupy.asarray(array) for array in arrays)).get()
            assert same_bits(found, run("numpy")), dtype

    def test_replayed_graph(self, rng) -> None:
        cupy = pytest.importorskip("cupy")
        mask = cupy.asarray(rng.random((40, 64)) > 0.2)
        u, out = (cupy.asarray(rng.standard_normal((3, 40, 64))) for _ in range(2))
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            so.diffusion_filter(u, 9.0, 1.0, mask=mask, out=out)
            stream.begin_capture()
            so.diffusion_filter(u, 9.0, 1.0, mask=mask, out=out)
            graph = stream.end_capture()
            u *= 2
            graph.launch()
        stream.synchronize()
        assert same_bits(out.get(), so.diffusion_filter(u.get(), 9.0, 1.0, mask=mask.get()))
