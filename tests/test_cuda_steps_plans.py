"""Explicit steps of the CUDA backend: what marches, and how arrays are laid out and cut up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import BACKEND, Recorder, backend

import spectralops as so
from spectralops._cuda import marches, steps
from spectralops._cuda.launch import Device
from spectralops._cuda.marches import March
from spectralops._cuda.stages import Layout, Stages

H200 = Device(0, 132, 232448)


def step_plan(shape: tuple[int, ...], **options: Any) -> Any:
    count = min(len(shape), 3)
    options = {"axes": tuple(range(len(shape) - count, len(shape)))} | options
    return so.plan_diffusion_step(shape, "float32", 1.0, 0.1, 1.0, device="cuda", **options)


class TestWhatMarches:
    @pytest.mark.parametrize(
        ("options", "covered"),
        [
            ({}, True),
            ({"steps": 9, "source": 1.0}, True),
            ({"axes": (0,)}, False),
            ({"source": np.ones((8, 8), np.float32)}, False),
            ({"mask": np.ones((8, 8), bool)}, False),
        ],
        ids=["plain", "source", "first-axis", "source-field", "mask"],
    )
    def test_diffusion(self, options: dict[str, Any], covered: bool) -> None:
        assert March.covers(step_plan((8, 8), **options)) == covered

    @pytest.mark.parametrize(
        ("term", "covered"),
        [
            (so.Advection(1.0), True),
            (so.Advection(1.0, "upwind3"), False),
            (so.SelfAdvection("central"), True),
            (so.SelfAdvection("central", "flux"), False),
            (so.SelfAdvection("upwind"), False),
        ],
        ids=str,
    )
    def test_terms(self, term: Any, covered: bool) -> None:
        plan = so.plan_pde_step(
            (8,), "float32", 1.0, 0.1, [so.Diffusion(0.5), term], device="cuda", on_unstable="ignore"
        )
        assert March.covers(plan) == covered

    def test_other_integrators_do_not(self) -> None:
        plan = so.plan_pde_step((8,), "float32", 1.0, 0.1, so.Diffusion(1.0), integrator="rk2", device="cuda")
        assert not March.covers(plan)

    @pytest.mark.parametrize(
        ("options", "words"), [({}, "up to 8 steps per pass"), ({"axes": 0}, "one pass over memory")]
    )
    def test_is_said(self, options: dict[str, Any], words: str) -> None:
        assert words in step_plan((8, 8), **options).explain()

    @pytest.mark.parametrize("method", ["spectral", "auto"])
    def test_the_spectral_method_runs_on_cupy(self, method: str) -> None:
        assert step_plan((8, 8), method=method, steps=200).backend == "cupy"

    def test_functions_run_on_cupy(self) -> None:
        term = so.Pointwise(lambda u: u)
        plan = so.plan_pde_step((8,), "float32", 1.0, 0.1, term, device="cuda")
        assert plan.backend == "cupy"
        message = r"backend is 'cuda', but must be 'cupy' for this step: a function of the caller's is no kernel$"
        with pytest.raises(so.UnsupportedError, match=message):
            so.plan_pde_step((8,), "float32", 1.0, 0.1, term, device="cuda", backend="cuda")


class TestCutting:
    def test_levels_are_shared_evenly(self) -> None:
        passes = March(step_plan((4096, 4096), steps=20)).passes(H200, True)
        assert [one.levels for one in passes] == [6, 7, 7]
        assert [one.passes for one in passes] == [1, 1, 1]

    @pytest.mark.parametrize(("count", "levels"), [(4, [4]), (5, [2, 3]), (8, [4, 4])])
    def test_more_levels_of_volumes_leave_room_for_fewer_rows(self, count: int, levels: list[int]) -> None:
        passes = March(step_plan((64, 100, 120), steps=count)).passes(H200, True)
        assert [one.levels for one in passes] == levels
        kernels = {2: "march_volume<float, 4, 3, 16, 2, 2,", 3: "march_volume<float, 2, 4, 16, 3, 1,"}
        kernels[4] = "march_volume<float, 2, 3, 16, 4, 1,"
        assert all(one.kernel.name.startswith(kernels[one.levels]) for one in passes)

    @pytest.mark.parametrize(("n", "cut"), [(64, "8, 4, 2, true"), (68, "4, 8, 2, true"), (66, "4, 8, 2, false")])
    def test_rows_in_16_bits_are_read_in_whole_words(self, n: int, cut: str) -> None:
        plan = so.plan_diffusion_step((64, n), "bfloat16", 1.0, 0.1, 1.0, device="cuda")
        (one,) = March(plan).passes(H200, True)
        assert one.kernel.name.startswith(f"sweep_plane<float, {cut}, false")
        assert one.kernel.name.endswith(">, bfloat16_t, bfloat16_t>")

    def test_small_fields_advance_in_one_launch(self) -> None:
        first, rest = March(step_plan((512, 512), steps=259)).passes(H200, True)
        assert (first.levels, first.passes, first.kernel.cooperative) == (8, 32, True)
        assert (rest.levels, rest.passes, rest.kernel.cooperative) == (3, 1, False)
        assert first.kernel.grid[0] <= marches.RESIDENT_BLOCKS * H200.multiprocessors

    def test_units_cover_the_grid(self) -> None:
        (one,) = March(step_plan((3, 500, 1000), axes=(1, 2), steps=8)).passes(H200, True)
        grid = one.grid
        assert grid["n"].tolist() == [500, 1000]
        assert grid["height"] * grid["chunks"] >= 500 > grid["height"] * (grid["chunks"] - 1)
        assert grid["strips"] == -(-1000 // (4 * 32 - 2 * 8))
        assert grid["units"] == 3 * grid["chunks"] * grid["strips"]
        assert one.kernel.grid == (-(-int(grid["units"]) // 4),)

    def test_volumes(self) -> None:
        (one,) = March(step_plan((64, 100, 120), steps=2)).passes(H200, True)
        shape = marches.SHAPES[3, 4][1]
        assert one.grid["tiles"] == -(-100 // (shape.warps * shape.rows - 4))
        assert one.kernel.block == (32 * shape.warps,)
        assert one.kernel.shared == 2 * 2 * shape.warps * 2 * 32 * shape.width * 4

    def test_schedules_are_kept(self) -> None:
        march = March(step_plan((8, 8)))
        assert march.passes(H200, True) is march.passes(H200, True)
        assert "true, false" in march.passes(H200, True)[0].kernel.name
        assert "false, false" in march.passes(H200, False)[0].kernel.name

    @pytest.mark.parametrize(
        ("n", "columns", "expected"),
        [(8, 1, 4), (1, 1, 1), (400, 4, 10), (400, 40, 100)],
        ids=["few", "one", "fewer-than-slots", "as-many-as-slots"],
    )
    def test_height(self, n: int, columns: int, expected: int) -> None:
        assert marches.height_of(n, columns, 2, 160, 1) == expected


class TestLayout:
    def test_axes_that_are_not_stepped_merge(self) -> None:
        layout = Layout.of((2, 3, 8, 5), (3,), ())
        assert layout == Layout((48, 5), {3: 1}, ())

    def test_stepped_axes_stay(self) -> None:
        assert Layout.of((5, 2, 3, 1, 6), (0, 4), ()) == Layout((5, 6, 6), {0: 0, 4: 2}, ())

    def test_strides_of_coefficients_keep_axes_apart(self) -> None:
        field = np.zeros((2, 1, 8))
        assert Layout.of((2, 3, 8), (2,), (field,)) == Layout((2, 3, 8), {2: 2}, ((8, 0, 1),))

    def test_missing_axes_broadcast(self) -> None:
        assert Layout.of((4, 6), (0, 1), (np.zeros(6, np.float32),)).strides == ((0, 1),)


class TestStages:
    def test_a_linear_step(self) -> None:
        plan = so.plan_pde_step(
            (4, 6), "float32", 0.5, 0.1, [so.Diffusion(0.5), so.Source(3.0)], integrator="rk2", device="cuda"
        )
        stages = Stages(plan, Layout.of((4, 6), (0, 1), ()))
        kernel = stages.kernel("heun")
        assert kernel.name == (
            "stage<float, Sizes<2, 1, 1, 7, 1>, -1, 1, Update<Linear<Constant<4, 5>, Tap<1, -1, 1, Constant<0, 1>>, "
            "Tap<0, -1, 1, Constant<2, 3>>>, Source<6, -1, float>>>"
        )
        assert (kernel.grid, kernel.block) == ((1, 1), (32, 8))
        assert kernel.options == ("-fmad=false", "-DINDEX_T=int")
        assert stages.values["numbers"].tolist() == pytest.approx([0.2, 1.2, 0.2, 1.2, -0.8, 0.2, 0.3])
        assert stages.values["shape"].tolist() == [4, 6]
        assert stages.values["stride"].tolist() == [6, 1]
        assert stages.values["rows"] == 4

    def test_coefficients_of_each_grid_are_formed_by_a_thread_each(self) -> None:
        nu = np.ones((300, 1, 1), np.float32)
        plan = so.plan_diffusion_step((300, 4, 8), "float32", 1.0, 0.1, nu, device="cuda")
        march = March(plan, (nu.astype(np.float64),))
        assert march.instances is not None
        assert (march.instances.kernel.grid, march.instances.kernel.block) == ((3,), (128,))
        assert march.instances.values["rows"] == 300
        assert march.instances.operands == (1,)

    def test_ghosts(self) -> None:
        plan = step_plan((4, 6), bc=((so.Dirichlet(1.0), so.Reflect()), so.Periodic()))
        ghosts = Stages(plan, Layout.of((4, 6), (0, 1), ())).values["ghosts"]
        assert ghosts["cell"][:, :, 0].tolist() == [[0, 3], [5, 0]]
        assert ghosts["scale"][:, :, 0].tolist() == [[-1.0, 1.0], [1.0, 1.0]]
        assert ghosts["offset"][0, 0, 0] == 2.0
        assert np.signbit(ghosts["offset"][0, 1, 0])

    def test_plans_are_prepared_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(steps._prepared, "most", 2)
        steps._prepared.clear()
        with backend(Recorder()) as runner:
            u = np.zeros((4, 8), np.float32)
            for dt in (0.1, 0.1, 0.125, 0.0625):
                so.diffusion_step(u, 1.0, dt, 1.0, backend=BACKEND)
            assert len(steps._prepared) == 2
            assert runner.launched[0] is runner.launched[1]
        steps._prepared.clear()
