"""Plans of steps: attributes, coefficients, words, and how they are found again."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import pickle
import weakref

import numpy as np
import pytest

import spectralops as so
from spectralops import (
    Advection,
    Diffusion,
    Dirichlet,
    Hold,
    Outflow,
    Pointwise,
    Reflect,
    SelfAdvection,
)
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import step_arguments, step_setup
from spectralops._plans.schemes import FluxDiffusion, Linear, Tap, Transport, Weight
from spectralops._plans.terms import Field

U64 = ((6, 7), "float64")


def test_attributes_of_a_plan() -> None:
    plan = so.plan_diffusion_step((3, 6, 7), "float16", (0.5, 0.25), 0.01, ArraySpec((3, 1, 1), "float32"), steps=4)
    assert (plan.op, plan.backend) == ("diffusion_step", so.plan_diffusion_step((3,), "float16", 1, 0.1, 1).backend)
    assert plan.operands == (
        Operand("u", ArraySpec((3, 6, 7), "float16"), "float32"),
        Operand("nu", ArraySpec((3, 1, 1), "float32"), "float64"),
    )
    assert plan.in_shape == plan.out_shape == (3, 6, 7)
    assert (plan.out_dtype, plan.compute) == ("float16", "float32")
    assert plan.halo == (0, 4, 4)
    assert plan.index_bits == 32
    assert plan.in_place is False
    assert plan.bytes_moved == 2 * 126 * 2 + 3 * 4
    assert plan.flops == 126 * 4 * 7
    assert (plan.dt, plan.steps, plan.method, plan.integrator) == (0.01, 4, "stencil", "euler")


def test_geometry() -> None:
    low, high = Dirichlet(1.0), Hold()
    plan = so.plan_diffuse_convect_step(
        (6, 7),
        "float32",
        (0.5, 0.25),
        0.01,
        1.0,
        velocity=(1.0, 0.0),
        scheme="weno5",
        bc={1: (low, high), 0: Reflect()},
        axes=(1, 0),
        mask=ArraySpec((7,), "bool"),
        on_unstable="ignore",
    )
    g = plan.geometry
    assert (g.axes, g.spacing, g.widths) == ((0, 1), (0.25, 0.5), (1, 3))
    assert g.conditions == ((Reflect(), Reflect()), (low, high))
    assert g.held == ((False, False), (False, True))
    assert [[len(side) for side in axis] for axis in g.ghosts] == [[1, 1], [3, 3]]
    assert g.mask == 1
    assert g.constant == frozenset()
    assert plan.halo == (1, 3)


def test_operands_in_the_order_of_the_arguments() -> None:
    names = {name: ArraySpec((6, 7), "float32") for name in ("nu", "v0", "v1", "source")}
    plan = so.plan_diffuse_convect_step(
        *U64, 1.0, 0.1, names["nu"], velocity=(names["v0"], 2.0), source=names["source"], mask=ArraySpec((6, 7), "bool")
    )
    assert [operand.name for operand in plan.operands] == ["u", "nu", "velocity[0]", "source", "mask"]
    assert [operand.compute for operand in plan.operands] == ["float64"] * 4 + ["bool"]


@pytest.mark.parametrize("integrator", ["euler", "rk2", "ssprk3", "rk4"])
def test_stages_widen_the_halo_and_count_operations(integrator: str) -> None:
    stages, extra = {"euler": (1, 0), "rk2": (2, 2), "ssprk3": (3, 6), "rk4": (4, 14)}[integrator]
    plan = so.plan_pde_step(
        (8,), "float64", 1.0, 0.1, [Diffusion(0.1), Advection(0.2, "upwind3")], integrator=integrator, steps=3
    )
    assert plan.halo == (2 * stages * 3,)
    # 5 points: p0 u (1), two far apart weights and two near ones (2 each), one of them absent for the wind from below.
    assert plan.flops == 8 * 3 * (stages * plan.update.flops + extra)
    assert plan.update.flops == 1 + 2 * 3


@pytest.mark.parametrize(
    ("terms", "mask", "flops"),
    [
        ([Diffusion(0.1)], None, 1 + 3),
        ([Diffusion(ArraySpec((8,), "float64"))], None, 6),
        ([Diffusion(0.1)], ArraySpec((8,), "bool"), 4),
        ([Advection(1.0, "central")], None, 1 + 4),
        ([Advection(1.0, "central")], ArraySpec((8,), "bool"), 2 + 2),
        ([Advection(1.0, "weno5")], None, 1 + 65 + 2 + 2),
        ([Advection(ArraySpec((8,), "float64"), "weno5")], None, 1 + 2 * (65 + 2) + 3),
        ([Advection(1.0, "weno5", "flux")], None, 1 + 65 + 1 + 3),
        ([Advection(ArraySpec((8,), "float64"), "upwind3", "flux")], None, 1 + 2 * (3 + 1) + 5),
        ([Advection(ArraySpec((8,), "float64"), "central", "flux")], None, 1 + 5),
        ([Advection(ArraySpec((8,), "float64"), "upwind", "flux")], None, 5),
        ([SelfAdvection("upwind")], None, 1 + 3),
        ([Advection(ArraySpec((8,), "float64"), "central")], None, 1 + 3),
        ([SelfAdvection("central")], None, 1 + 3),
        ([SelfAdvection("central")], ArraySpec((8,), "bool"), 2 + 3),
        ([SelfAdvection("central", "flux")], None, 3 + 3),
        ([SelfAdvection("upwind", "flux")], None, 5 + 3),
        ([SelfAdvection("upwind3", "flux")], None, 1 + 2 * (3 + 1) + 5 + 3),
        ([so.Source(1.0), Pointwise(np.sin)], None, 2 + 3),
    ],
    ids=str,
)
def test_operations_of_a_stage(terms, mask, flops: int) -> None:
    plan = so.plan_pde_step((8,), "float64", 1.0, 0.1, terms, mask=mask, on_unstable="ignore")
    assert plan.update.flops == flops


def test_coefficients_of_diffusion() -> None:
    linear = so.plan_diffusion_step(*U64, (0.5, 0.25), 0.01, 0.5).update.linear
    assert linear == Linear(
        Weight(-2 * 0.16 * 0.5 - 2 * 0.04 * 0.5),
        (Tap(1, (-1, 1), Weight(0.08)), Tap(0, (-1, 1), Weight(0.02))),
    )


def test_coefficients_of_a_wind_beside_diffusion() -> None:
    linear = so.plan_diffuse_convect_step((8,), "float64", 0.5, 0.1, 0.5, velocity=0.25).update.linear
    r, c = 0.5 * (0.1 / 0.25), 0.25 * 0.1 / 0.5
    assert [(tap.offsets, tap.weight.constant) for tap in linear.taps] == [
        ((-1,), pytest.approx(r + c / 2, rel=1e-15)),
        ((1,), pytest.approx(r - c / 2, rel=1e-15)),
    ]
    assert linear.center.constant == pytest.approx(-2 * r, rel=1e-15)


@pytest.mark.parametrize(
    ("scheme", "velocity", "weights"),
    [
        ("upwind", 1.0, {-1: 1.0, 0: -1.0}),
        ("upwind", -1.0, {1: 1.0, 0: -1.0}),
        ("central", 1.0, {-1: 0.5, 1: -0.5}),
        ("central", -1.0, {-1: -0.5, 1: 0.5}),
        ("upwind3", 1.0, {-2: -1 / 6, -1: 1.0, 0: -0.5, 1: -1 / 3}),
        ("upwind3", -1.0, {2: -1 / 6, 1: 1.0, 0: -0.5, -1: -1 / 3}),
    ],
)
def test_coefficients_of_winds(scheme: str, velocity: float, weights: dict[int, float]) -> None:
    """dt / h = 1: minus v times the derivative's weights; no weight for cells that do not count."""
    linear = so.plan_convection_step(
        (8,), "float64", velocity, 1.0, 1.0, scheme=scheme, on_unstable="ignore"
    ).update.linear
    assert {k: tap.weight.constant for tap in linear.taps for k in tap.offsets} == {
        k: w for k, w in weights.items() if k
    }
    assert linear.center.constant == weights.get(0, 0.0)
    assert [k for tap in linear.taps for k in tap.offsets] == sorted(set(weights) - {0}, key=lambda k: (abs(k), k))


def test_coefficients_of_instances() -> None:
    spec = ArraySpec((3, 1, 1), "float64")
    plan = so.plan_diffuse_convect_step((3, 6, 7), "float64", 1.0, 0.1, spec, velocity=(0.0, 0.5), scheme="upwind")
    assert plan.geometry.constant == frozenset({1})
    assert plan.update.linear == Linear(
        Weight(-0.05, ((1, -0.2), (1, -0.2))),
        (
            Tap(2, (-1,), Weight(0.05, ((1, 0.1),))),
            Tap(2, (1,), Weight(0.0, ((1, 0.1),))),
            Tap(1, (-1, 1), Weight(0.0, ((1, 0.1),))),
        ),
    )


def test_an_array_that_varies_along_a_batch_axis_alone_is_constant() -> None:
    plan = so.plan_diffusion_step((3, 8), "float64", 1.0, 0.1, ArraySpec((3, 1), "float64"), axes=1)
    assert plan.update.linear is not None
    plan = so.plan_diffusion_step((3, 8), "float64", 1.0, 0.1, ArraySpec((3, 1), "float64"), axes=0)
    assert plan.update.linear is None
    plan = so.plan_diffusion_step((3, 8), "float64", 1.0, 0.1, ArraySpec((8,), "float64"), axes=0)
    assert plan.update.linear is not None


def test_flux_diffusion() -> None:
    field = so.plan_diffusion_step(*U64, (0.5, 0.25), 0.01, ArraySpec((7,), "float64")).update
    assert field.linear is None
    assert field.diffusion == (FluxDiffusion(1, Field(1), 0.08), FluxDiffusion(0, Field(1), 0.02))
    masked = so.plan_diffusion_step(*U64, (0.5, 0.25), 0.01, 0.5, mask=ArraySpec((6, 7), "bool")).update
    assert masked.linear is None
    assert masked.diffusion == (FluxDiffusion(1, None, 0.08), FluxDiffusion(0, None, 0.02))


@pytest.mark.parametrize(
    ("scheme", "form", "velocity", "factor", "wind"),
    [
        ("weno5", "advective", 2.0, 0.4, 1),
        ("weno5", "flux", -2.0, -0.4, -1),
        ("weno5", "advective", Field(1), 0.2, 0),
        ("weno5", "flux", Field(1), 0.1, 0),
        ("central", "advective", Field(1), 0.1, 0),
        ("central", "flux", Field(1), 0.05, 0),
        ("upwind", "advective", None, 0.2, 0),
        ("upwind", "flux", None, 0.1, 0),
        ("central", "advective", None, 0.1, 0),
        ("central", "flux", None, 0.05, 0),
    ],
)
def test_factors_of_transport(scheme: str, form: str, velocity, factor: float, wind: int) -> None:
    given = ArraySpec((8,), "float64") if isinstance(velocity, Field) else velocity
    term = SelfAdvection(scheme, form) if velocity is None else Advection(given, scheme, form)
    plan = so.plan_pde_step((8,), "float64", 0.5, 0.1, term, on_unstable="ignore")
    assert plan.update.transport == (Transport(0, scheme, form, velocity, pytest.approx(factor, rel=1e-15), wind),)
    assert plan.update.linear is None


def test_masked_winds_are_transport() -> None:
    mask = ArraySpec((8,), "bool")
    plan = so.plan_convection_step((8,), "float64", -2.0, 0.5, 0.1, scheme="central", mask=mask, on_unstable="ignore")
    assert plan.update.transport == (Transport(0, "central", "advective", -2.0, -0.2, 0, masked=True),)
    terms = SelfAdvection("upwind", "flux")
    plan = so.plan_pde_step((8,), "float64", 0.5, 0.1, terms, mask=mask, on_unstable="ignore")
    assert plan.update.transport == (Transport(0, "upwind", "flux", None, 0.1, 0, masked=True),)


def test_index_bits_count_the_ghosts() -> None:
    edge = 2**31 - 1
    assert so.plan_diffusion_step((edge,), "float32", 1.0, 0.1, 1.0).index_bits == 64
    assert so.plan_diffusion_step((edge - 2,), "float32", 1.0, 0.1, 1.0).index_bits == 32
    assert so.plan_diffusion_step((2, edge), "float32", 1.0, 0.1, 1.0).flops == 2 * edge * 7
    for size, bits in ((edge - 6, 32), (edge - 5, 64)):
        plan = so.plan_convection_step((size,), "float32", 1.0, 1.0, 0.1, scheme="weno5", on_unstable="ignore")
        assert plan.index_bits == bits


def test_cells_alone_need_no_ghosts() -> None:
    plan = so.plan_pde_step((8,), "float64", 1.0, 0.1, [so.Source(1.0), Pointwise(np.sin), Advection(0.0)], steps=3)
    assert plan.geometry.widths == (0,)
    assert plan.halo == (0,)


def test_held_sides() -> None:
    for bc, held in (((Hold(), Outflow()), (True, False)), ((Outflow(), Hold()), (False, True))):
        assert so.plan_diffusion_step((8,), "float64", 1.0, 0.1, 1.0, bc=(bc,)).geometry.held == (held,)


def test_plans_are_cached_values() -> None:
    def make(dt: float):
        return so.plan_diffusion_step(*U64, 1.0, dt, 1.0)

    assert make(0.1) is make(0.1)
    assert make(0.1) != make(0.2)
    assert make(0.1).geometry is make(0.2).geometry
    assert pickle.loads(pickle.dumps(make(0.1))) == make(0.1)
    assert hash(pickle.loads(pickle.dumps(make(0.1)))) == hash(make(0.1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        make(0.1).dt = 1.0


@pytest.mark.parametrize("op", ["diffusion_step", "convection_step", "diffuse_convect_step", "pde_step"])
def test_planner_and_operator_share_their_arguments(op: str) -> None:
    call = inspect.signature(getattr(so, op)).parameters
    plan = inspect.signature(getattr(so, f"plan_{op}")).parameters
    shared = [name for name in list(call)[1:] if name not in ("out", "workers")]
    assert [name for name in plan if name not in ("shape", "dtype", "device")] == shared
    assert {name: plan[name].default for name in shared} == {name: call[name].default for name in shared}


def test_plan_and_operator_agree(rng: np.random.Generator) -> None:
    u, nu, v, s = rng.standard_normal((4, 6, 7))
    mask, nu = rng.random((6, 7)) < 0.8, np.abs(nu)
    calls = [
        (so.plan_diffusion_step(*U64, 1.0, 0.01, nu, source=s, mask=mask)(u, nu, s, mask),
         so.diffusion_step(u, 1.0, 0.01, nu, source=s, mask=mask)),
        (so.plan_convection_step(*U64, (v, 1.0), 1.0, 0.1, scheme="central", form="flux", bc=Reflect())(u, v),
         so.convection_step(u, (v, 1.0), 1.0, 0.1, scheme="central", form="flux", bc=Reflect())),
        (so.plan_diffuse_convect_step(*U64, 1.0, 0.1, 0.5, scheme="weno5", form="flux", steps=2)(u),
         so.diffuse_convect_step(u, 1.0, 0.1, 0.5, scheme="weno5", form="flux", steps=2)),
        (so.plan_pde_step(*U64, 1.0, 0.1, Diffusion(0.5), integrator="rk4", axes=0)(u),
         so.pde_step(u, 1.0, 0.1, Diffusion(0.5), integrator="rk4", axes=0)),
    ]  # fmt: skip
    for planned, called in calls:
        np.testing.assert_array_equal(planned, called)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            lambda: so.plan_diffusion_step((6, 7), "float32", 1.0, 0.1, 1.0, steps=4, bc=Hold()),
            [
                "diffusion_step on backend",
                "4 step(s) of euler, dt = 0.1",
                "float32 (6, 7), stepped along axes (0, 1)",
                "term: Diffusion(nu=1.0)",
                "combined into one stencil of 5 points",
                "axis 0: Hold() below, Hold() above, 1 ghost",
                "largest stable dt known while planning: 0.25",
                "method 'stencil'",
                "at least 336 bytes moved, 1176 operations",
            ],
        ),
        (lambda: so.plan_diffusion_step((6, 7), "float64", 1.0, 0.1, ArraySpec((6, 7), "float64")), ["face fluxes"]),
        (lambda: so.plan_diffuse_convect_step((6, 7), "float64", 1.0, 0.1, 1.0), ["cell by cell", "SelfAdvection"]),
    ],
    ids=["diffusion", "field", "burgers"],
)
def test_explain(plan, words: list[str]) -> None:
    text = plan().explain()
    for word in words:
        assert word in text
    assert ("cell by cell" in text) == ("cell by cell" in words)
    assert ("face fluxes" in text) == ("face fluxes" in words)


@pytest.mark.parametrize(
    ("dtype", "options", "words"),
    [
        ("float32", {}, "the same bits as single steps in NumPy"),
        ("int32", {}, "the same bits as single steps in NumPy"),
        ("bfloat16", {}, "the same bits as single steps of float32 in NumPy, rounded to bfloat16 once, at the end"),
        ("float32", {"backend": "reference"}, "single steps in float64, rounded to float32 once, at the end"),
        ("float64", {"backend": "reference"}, "single steps in float64"),
        ("float64", {"device": "cuda"}, "the same bits as single steps in NumPy"),
        (
            "float16",
            {"device": "cuda"},
            "the same bits as single steps of float32 in NumPy, rounded to float16 once, at the end; "
            "numbers below 1.2e-38 count as zero on the device",
        ),
    ],
    ids=str,
)
def test_explain_says_what_steps_equal(dtype: str, options: dict[str, str], words: str) -> None:
    text = so.plan_diffusion_step((6, 7), dtype, 1.0, 0.1, 1.0, steps=3, **options).explain()
    assert f"\nmethod 'stencil': {words}; 'spectral' pays from " in text


class TestRecentPlans:
    """Plans are found again by their arguments; what must not be found that way is not."""

    u = np.ones(6)

    @staticmethod
    def plan(**options):
        return so.plan_diffusion_step((6,), "float64", **({"dx": 1.0, "dt": 0.1, "nu": 0.1} | options))

    @pytest.mark.parametrize(
        "options",
        [
            {"dx": (1.0,), "dt": 0.123, "bc": ((Reflect(), Outflow()),), "source": 1, "steps": 3},
            {"nu": np.full(6, 0.1)},
            {"source": np.ones(6), "mask": np.ones(6, bool)},
            {"nu": np.array(0.1)},
            {"on_unstable": "warn"},
        ],
        ids=["numbers", "nu", "fields", "0-d", "warn"],
    )
    def test_equal_arguments_find_the_plan(self, options) -> None:
        assert self.plan(**options) is self.plan(**options)

    @pytest.mark.parametrize("options", [{"bc": {0: Reflect()}}, {"axes": [0]}, {"dx": [1.0]}], ids=str)
    def test_arguments_without_a_hash_make_equal_plans(self, options) -> None:
        assert self.plan(**options) == self.plan(**options)

    def test_a_new_dt_looks_at_no_argument_again(self) -> None:
        plan = self.plan(dt=0.2)
        before = step_arguments._setup.cache_info()
        other = self.plan(dt=0.3)
        after = step_arguments._setup.cache_info()
        assert (after.misses, after.hits) == (before.misses, before.hits + 1)
        assert other.geometry is plan.geometry
        assert (other.dt, other.update.linear.taps[0].weight.constant) == (0.3, 0.3 * 0.1)

    def test_only_the_last_plans_are_kept(self) -> None:
        step_arguments._setup.cache_clear()
        first = self.plan(dt=0.4)
        for k in range(step_setup.KEPT - 1):
            self.plan(dt=0.41 + 0.001 * k)
        assert self.plan(dt=0.4) is first
        self.plan(dt=0.45)
        assert self.plan(dt=0.4) is not first

    def test_the_bound_follows_the_values_of_nu(self) -> None:
        nu = np.full(6, 0.1)
        assert self.plan(nu=nu).stable_dt == 5.0
        nu[2] = 1.0
        assert self.plan(nu=nu).stable_dt == 0.5
        with pytest.raises(so.StabilityError):
            self.plan(nu=nu, dt=0.6)

    def test_functions_are_not_kept(self) -> None:
        function = lambda u: -u  # noqa: E731
        alive = weakref.ref(function)
        so.pde_step(self.u, 1.0, 0.1, so.Pointwise(function))
        del function
        gc.collect()
        assert alive() is None

    def test_zero_dimensional_tensors_are_read_anew(self) -> None:
        torch = pytest.importorskip("torch")
        nu, spike = torch.tensor(0.1, dtype=torch.float64), np.array([0.0, 1.0, 0.0])
        assert so.diffusion_step(spike, 1.0, 1.0, nu)[1] == pytest.approx(0.8, rel=1e-15)
        nu.fill_(0.2)
        assert so.diffusion_step(spike, 1.0, 1.0, nu)[1] == pytest.approx(0.6, rel=1e-15)

    def test_a_wrong_type_is_seen_after_a_right_one(self) -> None:
        so.diffusion_step(self.u, 1.0, 0.1, 0.1, steps=1)
        with pytest.raises(TypeError, match=r"^diffusion_step: steps is 1\.0, but must be an integer"):
            so.diffusion_step(self.u, 1.0, 0.1, 0.1, steps=1.0)


def test_remembered_plans_are_told_apart_by_type():
    """Equal numbers of other types are refused also after the plan of the right ones was made."""
    u = np.ones((4, 4))
    so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(0, 1))
    with pytest.raises(TypeError, match=r"^diffusion_step: axes is \(0\.0, 1\.0\), but must be integers$"):
        so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(0.0, 1.0))
    with pytest.raises(TypeError, match=r"^diffusion_step: nu is .*1\+0j.*, but must be a real number$"):
        so.diffusion_step(u, 1.0, 0.1, np.complex128(1.0), axes=(0, 1))
