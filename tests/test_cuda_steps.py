"""Explicit steps of the CUDA backend: several levels a pass, bit for bit, on the host and on a device."""

from __future__ import annotations

from typing import Any

import cuda_on_host
import numpy as np
import pytest
from cuda_on_host import BACKEND, HostRunner, backend
from support import random_array

import spectralops as so
from spectralops import _dispatch
from spectralops._arrays import ArraySpec
from spectralops._cuda.stages import Layout, Stages

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
WALLS = ((so.Dirichlet(0.5), so.Neumann(-0.25)), (so.Robin(0.5, 1.0), so.Reflect()))
HELD = ((so.Hold(), so.Outflow()), (so.Reflect(), so.Hold()))
PERIODIC = (so.Periodic(), so.Periodic())
BOUNDARIES = {"periodic": PERIODIC, "walls": WALLS, "held": HELD, "mixed": (so.Periodic(), HELD[1])}


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.itemsize}")


def assert_same(call: Any, *templates: str) -> HostRunner:
    """The kernels on the host give the bits of NumPy, by the kernels of these names."""
    expected = call("numpy")
    with backend() as runner:
        found = call(BACKEND)
    assert np.array_equal(bits(found), bits(expected))
    assert {kernel.name.partition("<")[0] for kernel in runner.launched} == set(templates)
    return runner


@on_host
class TestMarches:
    @pytest.mark.parametrize(
        ("bc", "dtype"),
        [("periodic", "float32"), ("walls", "float16"), ("held", "bfloat16"), ("mixed", "float32")],
    )
    def test_planes(self, rng, bc: str, dtype: str) -> None:
        u = random_array(rng, (2, 37, 200), dtype)
        assert_same(
            lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, bc=BOUNDARIES[bc], steps=7, backend=b), "march_plane"
        )

    @pytest.mark.parametrize(("bc", "dtype"), [("periodic", "bfloat16"), ("held", "float32")])
    def test_planes_once(self, rng, bc: str, dtype: str) -> None:
        u = random_array(rng, (2, 37, 200), dtype)
        assert_same(
            lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, bc=BOUNDARIES[bc], steps=1, backend=b), "sweep_plane"
        )

    @pytest.mark.parametrize("size", [1, 2, 31, 77])
    @pytest.mark.parametrize(("bc", "dtype"), [("periodic", "float16"), ("walls", "float64")])
    def test_columns_that_fill_no_vector(self, rng, size: int, bc: str, dtype: str) -> None:
        u = random_array(rng, (5, size), dtype)
        for count in (1, 3):
            template = "march_plane" if count > 1 else "sweep_plane"
            assert_same(
                lambda b, count=count: so.diffusion_step(u, 0.5, 0.02, 1.0, bc=BOUNDARIES[bc], steps=count, backend=b),
                template,
            )

    def test_memory_that_starts_between_vectors(self, rng) -> None:
        u = rng.standard_normal(8 * 64 + 1).astype(np.float32)[1:].reshape(8, 64)
        assert_same(lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, steps=3, backend=b), "march_plane")

    def test_many_passes_in_one_launch(self, rng) -> None:
        u = rng.standard_normal((40, 600)).astype(np.float32)  # in several blocks
        runner = assert_same(
            lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, bc=WALLS, steps=25, backend=b), "march_plane", "sweep_plane"
        )
        assert [kernel.cooperative for kernel in runner.launched] == [True, False]  # 3 * 8 steps and one

    def test_many_passes_between_fields_in_16_bits(self, rng) -> None:
        u = random_array(rng, (40, 600), "bfloat16")
        runner = assert_same(
            lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, bc=WALLS, steps=33, backend=b), "march_plane", "sweep_plane"
        )
        ends = [kernel.name.partition(">, ")[2] for kernel in runner.launched]
        assert ends == ["bfloat16_t, float>", "", "float, bfloat16_t>"]  # 8, 3 * 8 steps in one launch, one
        assert [kernel.cooperative for kernel in runner.launched] == [False, True, False]

    def test_burgers_and_a_source(self, rng) -> None:
        u = rng.standard_normal((20, 36)).astype(np.float32)

        def call(b: str) -> np.ndarray:
            return so.diffuse_convect_step(
                u, (0.5, 0.7), 0.02, 1.0, bc=WALLS, steps=5, source=0.5, on_unstable="ignore", backend=b
            )

        assert_same(call, "march_plane")

    def test_winds(self, rng) -> None:
        u = rng.standard_normal((20, 36)).astype(np.float32)

        def call(b: str) -> np.ndarray:
            return so.diffuse_convect_step(
                u, 0.5, 0.02, 1.0, velocity=(1.0, -2.0), scheme="upwind", steps=4, on_unstable="ignore", backend=b
            )

        assert_same(call, "march_plane")

    def test_a_wind_along_one_axis(self, rng) -> None:
        u = rng.standard_normal((9, 12)).astype(np.float32)

        def call(b: str) -> np.ndarray:
            return so.convection_step(u, (1.0, 0.0), 0.5, 0.02, bc=WALLS, steps=4, backend=b)

        assert_same(call, "march_plane")

    @pytest.mark.parametrize("count", [1, 3])
    def test_ends_are_held_where_nothing_moves(self, rng, count: int) -> None:
        u = rng.standard_normal((9, 40)).astype(np.float32)
        bc = ((so.Reflect(), so.Hold()), so.Periodic())

        def call(b: str) -> np.ndarray:
            return so.convection_step(u, (0.0, 0.2), 0.5, 0.02, bc=bc, steps=count, backend=b)

        assert_same(call, "march_plane" if count > 1 else "sweep_plane")

    @pytest.mark.parametrize("bc", ["periodic", "walls", "held"])
    @pytest.mark.parametrize("count", [1, 20])
    def test_lines(self, rng, bc: str, count: int) -> None:
        u = random_array(rng, (3, 400), "float32" if bc != "held" else "float16")
        side = BOUNDARIES[bc][:1]
        assert_same(
            lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, axes=-1, bc=side, steps=count, backend=b), "march_line"
        )

    @pytest.mark.parametrize(
        ("dtype", "count"),
        [("float16", 1), ("bfloat16", 2), *(("float32", count) for count in (1, 2, 3, 4)),
         *(("float64", count) for count in (1, 2, 3))],
    )  # fmt: skip
    def test_volumes(self, rng, dtype: str, count: int) -> None:
        u = random_array(rng, (2, 7, 33, 68), dtype)
        bc = (*WALLS, HELD[0])
        assert_same(
            lambda b: so.diffusion_step(u, 0.5, 0.01, 1.0, axes=(1, 2, 3), bc=bc, steps=count, backend=b),
            *(["march_volume"] if count > 1 else []),
            *(["sweep_volume"] if count == 1 or (dtype, count) == ("float64", 3) else []),
        )

    @pytest.mark.parametrize(
        ("shape", "nu_shape", "count"),
        [((5, 9, 12), (5, 1, 1), 1), ((2, 3, 9, 12), (3, 1, 1), 40)],
        ids=["one-step", "one-launch"],
    )
    def test_coefficients_of_each_grid(self, rng, shape: Any, nu_shape: Any, count: int) -> None:
        u = rng.standard_normal(shape).astype(np.float32)
        nu = (0.2 + rng.random(nu_shape)).astype(np.float32)
        template = "sweep_plane" if count == 1 else "march_plane"
        expected = so.diffusion_step(u, 0.7, 0.05, nu, bc=WALLS, steps=count, backend="numpy")
        with backend() as runner:
            found = so.diffusion_step(u, 0.7, 0.05, nu, bc=WALLS, steps=count, backend=BACKEND)
        assert np.array_equal(bits(found), bits(expected))
        assert {kernel.name.partition("<")[0] for kernel in runner.launched} == {"form_values", template}

    def test_winds_of_each_grid(self, rng) -> None:
        u = rng.standard_normal((3, 7, 6, 8))
        nu, *winds = (0.2 + rng.random((3, 1, 1, 1)) for _ in range(4))

        def call(b: str) -> np.ndarray:
            terms = [so.Diffusion(nu), so.Diffusion(0.1), so.Advection(tuple(winds), "central")]
            return so.pde_step(u, 0.7, 0.05, terms, axes=(1, 2, 3), steps=3, on_unstable="ignore", backend=b)

        expected = call("numpy")
        with backend():
            assert np.array_equal(bits(call(BACKEND)), bits(expected))

    def test_wide_indices(self, rng, monkeypatch: pytest.MonkeyPatch) -> None:
        from spectralops import _checks

        monkeypatch.setattr(_checks, "index_bits", lambda *shapes: 64)
        u = rng.standard_normal((9, 40)).astype(np.float32)
        runner = assert_same(lambda b: so.diffusion_step(u, 0.5, 0.02, 1.0, steps=3, backend=b), "march_plane")
        assert "-DINDEX_T=long long" in runner.launched[0].options

    def test_a_coefficient_whose_elements_lie_far_apart(self) -> None:
        """As those of a view of every 2**26th element of much memory do, of which nothing is read here."""
        plan = so.plan_diffusion_step((33, 40), "float32", 0.5, 0.02, ArraySpec((33, 40), "float32"), device="cuda")
        for rows, bits, option in ((33, 64, "-DINDEX_T=long long"), (32, 32, "-DINDEX_T=int")):
            field = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (rows, 40), (2**28, 4))
            stages = Stages(plan, Layout.of((rows, 40), (0, 1), (field,)))
            assert (8 * stages.index.itemsize, stages.options[1]) == (bits, option)


def on_device(function: Any, u: np.ndarray, *fields: np.ndarray, **options: Any) -> np.ndarray:
    cupy = pytest.importorskip("cupy")
    return function(cupy.asarray(u), *map(cupy.asarray, fields), **options).get()


def terms_of(nu: Any, wind: Any, rate: Any) -> list[Any]:
    return [so.Diffusion(nu), so.Advection((wind, 0.5), "weno5", "flux"), so.SelfAdvection(), so.Source(rate)]


LOOSE = {"on_unstable": "ignore"}
# Steps whose kernels read and write 16 bits: shapes of u and of coefficients, the call.
NARROW: dict[str, tuple[tuple[tuple[int, ...], ...], Any]] = {
    "lines": (((30, 1000),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, axes=-1, steps=3, **tail)),
    "lines-often": (((3, 999),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, axes=-1, steps=50, **tail)),
    "planes": (((3, 301, 512),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, bc=WALLS, **tail)),
    "planes-held": (((3, 301, 511),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, bc=HELD, steps=9, **tail)),
    "planes-often": (((300, 500),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, steps=100, **tail)),
    "planes-twice": (((300, 500),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, steps=17, **tail)),
    "volumes": (((40, 50, 136),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(0, 1, 2), **tail)),
    "volumes-often": (
        ((40, 50, 130),), lambda u, **tail: so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(0, 1, 2), steps=9, **tail)
    ),
    "each-grid": (
        ((5, 60, 70), (5, 1, 1)), lambda u, nu, **tail: so.diffusion_step(u, 1.0, 0.1, nu, bc=WALLS, steps=3, **tail)
    ),
    **{
        integrator: (
            ((60, 70), (60, 70), (60, 1), (70,)),
            lambda u, *fields, integrator=integrator, count=count, **tail: so.pde_step(
                u, 1.0, 0.05, terms_of(*fields), bc=HELD, integrator=integrator, steps=count, **LOOSE, **tail
            ),
        )
        for integrator, count in (("euler", 3), ("rk2", 1), ("ssprk3", 20), ("rk4", 2))
    },
}  # fmt: skip


def wave_error(make: Any, n: int, terms: Any, integrator: str, order: float) -> float:
    """Largest error of a wave that decays or travels for a time of 0.05, by steps whose own error does not show."""
    h = 2 * np.pi / n
    x = (np.arange(n) + 0.5) * h
    diffuses = isinstance(terms[0], so.Diffusion)
    dt = 0.2 * h * h if diffuses else 0.5 * h ** max(1.0, order / 3)
    count = max(1, round(0.05 / dt))
    dt = 0.05 / count
    u = np.repeat(np.sin(x)[:, None], 8, axis=1)
    found = so.pde_step(make(u), h, dt, terms, integrator=integrator, steps=count)
    found = found.get() if hasattr(found, "get") else found
    expected = np.exp(-0.05) * np.sin(x) if diffuses else np.sin(x - 0.05)
    return float(np.abs(found - expected[:, None]).max())


@pytest.mark.gpu
class TestOnDevice:
    @pytest.mark.parametrize("bc", BOUNDARIES.values(), ids=BOUNDARIES)
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize(("shape", "count"), [((300, 500), 1), ((300, 500), 37), ((3, 1030, 515), 11)], ids=str)
    def test_equals_numpy_to_the_bit(self, rng, shape: Any, count: int, dtype: str, bc: Any) -> None:
        u = rng.standard_normal(shape).astype(dtype)

        def call(x: Any, **tail: Any) -> Any:
            return so.diffusion_step(x, 0.5, 0.05, 1.0, bc=bc, axes=(-2, -1), steps=count, **tail)

        assert np.array_equal(bits(on_device(call, u)), bits(call(u, backend="numpy")))

    def test_coefficients_of_each_grid(self, rng) -> None:
        u = rng.standard_normal((6, 100, 200)).astype(np.float32)
        nu = (0.2 + rng.random((6, 1, 1))).astype(np.float32)

        def call(x: Any, nu: Any, **tail: Any) -> Any:
            return so.diffusion_step(x, 0.7, 0.05, nu, bc=WALLS, steps=11, **tail)

        assert np.array_equal(bits(on_device(call, u, nu)), bits(call(u, nu, backend="numpy")))

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_volumes(self, rng, dtype: str) -> None:
        u = rng.standard_normal((70, 90, 140)).astype(dtype)

        def call(x: Any, **tail: Any) -> Any:
            bc = (*WALLS, HELD[0])
            return so.diffusion_step(x, 0.5, 0.01, 1.0, bc=bc, axes=(0, 1, 2), steps=5, **tail)

        assert np.array_equal(bits(on_device(call, u)), bits(call(u, backend="numpy")))

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    @pytest.mark.parametrize("name", NARROW)
    def test_16_bits_are_those_of_casts_before_and_after(self, rng, name: str, dtype: str) -> None:
        torch = pytest.importorskip("torch")
        shapes, call = NARROW[name]
        wide = [torch.from_numpy(abs(random_array(rng, shape, dtype)).astype(np.float32)).cuda() for shape in shapes]
        arrays = [x.to(getattr(torch, dtype)) for x in wide]
        expected = call(*wide).to(arrays[0].dtype).view(torch.int16)
        assert torch.equal(call(*arrays).view(torch.int16), expected)
        out = torch.empty_like(arrays[0])
        call(*arrays, out=out)
        assert torch.equal(out.view(torch.int16), expected)
        if dtype == "float16":
            cupy = pytest.importorskip("cupy")
            found = call(*map(cupy.asarray, arrays))
            assert np.array_equal(bits(found.get()), expected.cpu().numpy().view(np.uint16))

    def test_rows_beyond_2_to_the_31_elements(self) -> None:
        cupy = pytest.importorskip("cupy")
        shape = (46400, 46400)
        u = cupy.empty(shape, np.float32)
        for first in range(0, shape[0], 4640):
            u[first : first + 4640] = cupy.random.standard_normal((4640, shape[1]), dtype=np.float32)
        plan = so.plan_diffusion_step(shape, "float32", 1.0, 0.1, 1.0, steps=2, device="cuda")
        assert plan.index_bits == 64
        found = plan(u)
        rows = slice(shape[0] - 12, shape[0])
        expected = so.diffusion_step(u[rows].get(), 1.0, 0.1, 1.0, steps=2, backend="numpy")
        assert np.array_equal(found[rows].get()[2:-2], expected[2:-2])

    def test_a_captured_graph_replays(self, rng) -> None:
        cupy = pytest.importorskip("cupy")
        u = cupy.asarray(rng.standard_normal((128, 256)).astype(np.float32))
        out = cupy.empty_like(u)
        plan = so.plan_diffusion_step(u.shape, "float32", 1.0, 0.1, 1.0, steps=40, device="cuda")
        expected = plan(u).get()
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            plan(u, out=out)
            stream.synchronize()
            stream.begin_capture()
            plan(u, out=out)
            graph = stream.end_capture()
            for _ in range(2):
                out.fill(0)
                graph.launch()
            stream.synchronize()
        assert np.array_equal(out.get(), expected)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("bc", [so.Periodic(), so.Reflect()], ids=["periodic", "closed"])
    @pytest.mark.parametrize("fluxes", [False, True], ids=["one-stencil", "fluxes"])
    def test_sums_are_conserved_over_many_steps(self, rng, fluxes: bool, bc: Any, dtype: str) -> None:
        cupy = pytest.importorskip("cupy")
        u = cupy.asarray(1.0 + rng.random((256, 256)), dtype=dtype)
        before = float(u.sum(dtype=np.float64))
        terms: list[Any] = [so.Diffusion(1.0)]
        if fluxes:
            nu, *wind = (cupy.asarray(0.2 + 0.3 * rng.random(u.shape), dtype=dtype) for _ in range(3))
            for axis, along in enumerate(wind):  # no wind through walls
                along[(slice(None),) * axis + ([0, -1],)] = 0
            terms = [so.Diffusion(nu), so.Advection(tuple(wind), "upwind", "flux")]
        found = so.pde_step(u, 1.0, 0.2, terms, bc=bc, steps=10_000)
        drift = abs(float(found.sum(dtype=np.float64)) - before) / before
        # What a face takes from one cell it gives to the other, so that only the rounding of cells is left, to either
        # side: 70 eps measured. The weights of one stencil add up to 1 but for half an eps a step.
        assert drift <= (200 if fluxes else 5_000) * np.finfo(dtype).eps

    @pytest.mark.parametrize(
        ("terms", "integrator", "order"),
        [
            ([so.Diffusion(1.0)], "euler", 2.0),
            ([so.Advection((1.0, 0.0), "upwind3")], "ssprk3", 3.0),
            ([so.Advection((1.0, 0.0), "weno5", "flux")], "ssprk3", 5.0),
        ],
        ids=["diffusion", "upwind3", "weno5"],
    )
    def test_orders_of_convergence(self, terms: Any, integrator: str, order: float) -> None:
        cupy = pytest.importorskip("cupy")
        errors = [wave_error(cupy.asarray, n, terms, integrator, order) for n in (64, 128)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)

    @pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("rk2", 2), ("ssprk3", 3), ("rk4", 4)])
    def test_orders_of_convergence_in_time(self, integrator: str, order: int) -> None:
        """Of a wave that the differences in space make decay at a known rate."""
        cupy = pytest.importorskip("cupy")
        angle = 2 * np.pi / 16
        u = cupy.asarray(np.repeat(np.sin(angle * np.arange(16))[:, None], 8, axis=1))
        rate, errors = 2 * np.cos(angle) - 2, []
        for count in (16, 32):
            found = so.pde_step(u, 1.0, 4.0 / count, so.Diffusion(1.0), integrator=integrator, steps=count)
            errors.append(float(abs(found - np.exp(4.0 * rate) * u).max()))
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)

    def test_takes_the_kernels_by_default(self) -> None:
        cupy = pytest.importorskip("cupy")
        plans = []
        with _dispatch.observe(lambda plan, arrays, result: plans.append(plan)):
            so.diffusion_step(cupy.zeros((4, 4)), 1.0, 0.1, 1.0)
        assert plans[0].backend == "cuda"
