"""diffusion_filter: plans, words, and every bad argument with its message."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from golden_gcm_filters import metric_of, waves
from support import random_array

import spectralops as so
from spectralops._arrays import ArraySpec, Operand
from spectralops.boundary import Dirichlet, Neumann, Outflow, Periodic, Reflect

BACKENDS = ["cpu", "numpy", "reference"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


PLAN = so.plan_diffusion_filter((3, 4, 5), "float16", 3.0, 0.5, n_steps=6, bc=(Reflect(), Periodic()), backend="numpy")
METRIC_PLAN = so.plan_diffusion_filter(
    (4, 5),
    "float32",
    4.0,
    1.0,
    filter_shape="taper",
    mask=ArraySpec((5,), "bool"),
    metric=so.Metric(ArraySpec((4, 1), "float64"), (1.0, 1.0), (1.0, 1.0)),
)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            PLAN,
            {
                "op": "diffusion_filter",
                "backend": "numpy",
                "operands": (Operand("u", ArraySpec((3, 4, 5), "float16"), "float32"),),
                "in_shape": (3, 4, 5),
                "out_shape": (3, 4, 5),
                "out_dtype": "float16",
                "compute_dtype": "float32",
                "axes": (1, 2),
                "spacing": (0.5, 0.5),
                "periodic": (False, True),
                "s_max": 32.0,
                "in_place": False,
                "has_mask": False,
                "form": "open",
                "halo": (0, 6, 6),
                "bytes_moved": 240,
                "flops": 60 * 6 * 12,
                "index_bits": 32,
                "transposed": False,
                "filter_scale": 3.0,
                "filter_shape": "gaussian",
                "transition_width": math.pi,
            },
        ),
        (
            METRIC_PLAN,
            {
                "n_steps": 16,
                "has_mask": True,
                "form": "flux",
                "operands": (
                    Operand("u", ArraySpec((4, 5), "float32"), "float32"),
                    Operand("mask", ArraySpec((5,), "bool"), "bool"),
                    Operand("metric.area", ArraySpec((4, 1), "float64"), "float32"),
                ),
                "bytes_moved": 80 + 5 + 32 + 80,
                "flops": 20 * 16 * 13,
                "halo": (16, 16),
            },
        ),
        (so.plan_diffusion_filter((2**16, 2**15), "float32", 3.0, 1.0), {"index_bits": 64}),
        (so.plan_diffusion_filter((7, 3), "int8", 3.0, 1.0, axes=0), {"out_dtype": "float64", "halo": (3, 0)}),
    ],
)
def test_plan_attributes(plan, expected: dict) -> None:
    assert {name: getattr(plan, name) for name in expected} == expected


def test_a_plan_is_a_value() -> None:
    copy = pickle.loads(pickle.dumps(METRIC_PLAN))
    assert copy == METRIC_PLAN
    assert hash(copy) == hash(METRIC_PLAN)


def test_explain() -> None:
    assert PLAN.explain().splitlines() == [
        "diffusion_filter: float16 (3, 4, 5) on backend 'numpy', arithmetic in float32",
        "  filter: gaussian of scale 3, along axes (1, 2)",
        "  polynomial: 6 Laplacians by Chebyshev's recurrence, within 0.013 of the target",
        "  grid: dx = (0.5, 0.5)",
        "  axis 1: closed at both ends",
        "  axis 2: periodic",
        "  moves at least 240 bytes, 4320 operations, 32-bit offsets",
    ]
    lines = METRIC_PLAN.explain().splitlines()
    assert lines[1].endswith("axes (0, 1), transition width 3.14159")
    assert lines[3] == "  grid: metric given, dx = (1.0, 1.0)"
    assert lines[6] == "  mask: faces to cells that are False are closed, their values kept"


def test_inputs_stay_as_they_are() -> None:
    w = waves()
    so.diffusion_filter(w["u"], 3.0, 1.0, mask=w["sea"], metric=metric_of(w))
    for name, x in waves().items():
        np.testing.assert_array_equal(w[name], x)


def test_torch_comes_back(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    w = {name: torch.as_tensor(x) for name, x in waves().items()}
    result = so.diffusion_filter(w["u"], 3.0, 1.0, mask=w["sea"], metric=metric_of(w))
    expected = so.diffusion_filter(waves()["u"], 3.0, 1.0, mask=waves()["sea"], metric=metric_of(waves()))
    np.testing.assert_array_equal(result.numpy(), expected)


U = np.zeros((4, 5))
ONES = (1.0, 1.0)


def call(*args, **options):
    return lambda: so.diffusion_filter(*args, **options)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (call(U, 0.0, 1.0), ValueError, r"^diffusion_filter: filter_scale is 0\.0, but must be positive$"),
        (call(U, "4", 1.0), TypeError, r"^diffusion_filter: filter_scale is a str, but must be a real number$"),
        (call(U, 4.0, -1.0), ValueError, r"^diffusion_filter: dx is -1\.0, but must be positive$"),
        (
            call(U, 4.0, 1.0, filter_shape="box"),
            ValueError,
            r"^diffusion_filter: filter_shape is 'box', but must be 'gaussian' or 'taper'$",
        ),
        (
            call(U, 4.0, 1.0, transition_width=1.0),
            ValueError,
            r"^diffusion_filter: transition_width is 1\.0, but must be above 1; pi is a good choice$",
        ),
        (call(U, 4.0, 1.0, n_steps=0), ValueError, r"^diffusion_filter: n_steps is 0, but must be at least 1$"),
        (call(U, 4.0, 1.0, n_steps=2.5), TypeError, r"^diffusion_filter: n_steps is 2\.5, but must be an integer$"),
        (
            call(U, 4.0, 1.0, bc=Dirichlet(0.0)),
            ValueError,
            r"^diffusion_filter: bc is Dirichlet\(value=0\.0\), but must be Periodic\(\), Reflect\(\) or Neumann",
        ),
        (call(U, 4.0, 1.0, bc=Neumann(1.0)), ValueError, r"^diffusion_filter: bc is Neumann\(derivative=1\.0\), but"),
        (
            call(U, 4.0, 1.0, bc=((Reflect(), Outflow()), Periodic())),
            ValueError,
            r"^diffusion_filter: bc is Outflow\(\), but",
        ),
        (
            call(U, 4.0, 1.0, mask=np.ones((4, 5))),
            TypeError,
            r"^diffusion_filter: mask has dtype float64, but must be bool",
        ),
        (
            call(U, 4.0, 1.0, mask=np.ones(4, bool)),
            ValueError,
            r"^diffusion_filter: mask has shape \(4,\), but must broadcast to \(4, 5\)",
        ),
        (
            call(U, 4.0, 1.0, metric=np.ones(3)),
            TypeError,
            r"^diffusion_filter: metric is a ndarray, but must be a Metric$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(1.0, np.ones((2, 5)), ONES)),
            TypeError,
            r"^diffusion_filter: metric\.widths is a ndarray, but must be a sequence with one entry per axis$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(1.0, ONES, (1.0,))),
            ValueError,
            r"^diffusion_filter: metric\.widths has 2 entries and metric\.lengths has 1, but both must have one per",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(1.0, ONES, ONES, (1.0, 1.0, 1.0))),
            ValueError,
            r"^diffusion_filter: metric\.kappa has 3 entries, but must have 2, one per axis$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(1.0, ONES, ONES, (1.0,))),
            ValueError,
            r"^diffusion_filter: metric\.kappa has 1 entries, but must have 2, one per axis$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(0.0, ONES, ONES)),
            ValueError,
            r"^diffusion_filter: metric\.area is 0\.0, but must be positive$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(1.0, ONES, ONES, -0.5)),
            ValueError,
            r"^diffusion_filter: metric\.kappa is -0\.5, but must not be negative$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(np.ones((3, 5)), ONES, ONES)),
            ValueError,
            r"^diffusion_filter: metric\.area has shape \(3, 5\), but must broadcast to \(4, 5\), the shape of u$",
        ),
        (
            call(U, 4.0, 1.0, metric=so.Metric(1.0, (1.0, 1.0, 1.0), ONES)),
            ValueError,
            r"^diffusion_filter: metric\.widths has 3 entries and metric\.lengths has 2",
        ),
        (
            call(U + 0j, 4.0, 1.0),
            so.UnsupportedError,
            r"^diffusion_filter: dtype is complex128, but must be one that cpu arrays supports",
        ),
        (call(U, 4.0, 1.0, out=U), ValueError, r"^diffusion_filter: out overlaps an input in memory"),
        (
            lambda: so.plan_diffusion_filter((4, 5), "float64", 4.0, 1.0, device="tpu"),
            ValueError,
            r"^diffusion_filter: device is 'tpu', but must be 'cpu' or 'cuda'$",
        ),
        (
            lambda: so.plan_diffusion_filter((4, 5), "float64", 4.0, 1.0)(U, U),
            TypeError,
            r"^diffusion_filter: 2 arrays were passed, but must be 1: u$",
        ),
    ],
)
def test_errors(run, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run()


def test_random_fields_of_every_precision_stay_bounded(rng: np.random.Generator) -> None:
    """|p| <= 1 up to the approximation error, so no norm grows."""
    for dtype in ("float32", "float64"):
        u = random_array(rng, (12, 12), dtype)
        for shape in ("gaussian", "taper"):
            smooth = so.diffusion_filter(u, 5.0, 1.0, filter_shape=shape)
            assert np.linalg.norm(smooth) < np.linalg.norm(u)


def test_backend_must_be_a_name():
    with pytest.raises(TypeError, match=r"^diffusion_filter: backend is a list, but must be 'cpu', "):
        so.diffusion_filter(np.ones((4, 4)), 4.0, 1.0, backend=["numpy"])
