"""Gradient, divergence and Laplacian: plans, what they are told by, every bad argument with its message."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import spectralops as so
from spectralops._arrays import ArraySpec, Operand
from spectralops.boundary import Dirichlet, GhostRule, Hold, Outflow, Reflect, Robin


def test_operators_equal_their_plans(rng: np.random.Generator) -> None:
    u, nu, mask = rng.standard_normal((4, 5)), rng.random(5), rng.random((4, 5)) > 0.5
    options = {"nu": nu, "mask": mask, "bc": Reflect()}
    plan = so.plan_laplacian((4, 5), "float64", 0.5, **options)
    assert plan is so.plan_laplacian(
        (4, 5), np.float64, 0.5, nu=ArraySpec((5,), "float64"), mask=ArraySpec((4, 5), "bool"), bc=Reflect()
    )
    np.testing.assert_array_equal(plan(u, nu, mask), so.laplacian(u, 0.5, **options))
    plan = so.plan_gradient((4, 5), "float64", 0.5, mask=mask)
    np.testing.assert_array_equal(plan(u, mask), so.gradient(u, 0.5, mask=mask))
    plan = so.plan_divergence((2, 4, 5), "float64", 0.5, mask=mask)
    v = rng.standard_normal((2, 4, 5))
    np.testing.assert_array_equal(plan(v, mask), so.divergence(v, 0.5, mask=mask))
    np.testing.assert_array_equal(so.divergence(list(v), 0.5, mask=mask), so.divergence(v, 0.5, mask=mask))


GRADIENT = so.plan_gradient((3, 4, 5), "float32", (0.5, 2.0), mask=ArraySpec((5,), "bool"))
DIVERGENCE = so.plan_divergence((2, 3, 4, 5), "complex64", 0.5)
LAPLACIAN = so.plan_laplacian((4, 5), "float16", 0.5, nu=ArraySpec((5,), "float16"), bc=Dirichlet(1.5))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            GRADIENT,
            {
                "op": "gradient",
                "backend": "numpy",
                "operands": (
                    Operand("u", ArraySpec((3, 4, 5), "float32"), "float32"),
                    Operand("mask", ArraySpec((5,), "bool"), "bool"),
                ),
                "in_shape": (3, 4, 5),
                "out_shape": (2, 3, 4, 5),
                "scalar_shape": (3, 4, 5),
                "out_dtype": "float32",
                "compute_dtype": "float32",
                "axes": (1, 2),
                "spacing": (0.5, 2.0),
                "factor": 1.0,
                "in_place": False,
                "halo": (0, 1, 1),
                "bytes_moved": 240 + 5 + 480,
                "flops": 60 * 4,
                "index_bits": 32,
            },
        ),
        (
            DIVERGENCE,
            {
                "operands": (Operand("v", ArraySpec((2, 3, 4, 5), "complex64"), "complex64"),),
                "in_shape": (2, 3, 4, 5),
                "out_shape": (3, 4, 5),
                "scalar_shape": (3, 4, 5),
                "compute_dtype": "complex64",
                "axes": (1, 2),
                "spacing": (0.5, 0.5),
                "halo": (0, 0, 1, 1),
                "bytes_moved": 960 + 480,
                "flops": 60 * 5,
            },
        ),
        (
            LAPLACIAN,
            {
                "operands": (
                    Operand("u", ArraySpec((4, 5), "float16"), "float32"),
                    Operand("nu", ArraySpec((5,), "float16"), "float32"),
                ),
                "out_shape": (4, 5),
                "out_dtype": "float16",
                "compute_dtype": "float32",
                "halo": (1, 1),
                "bytes_moved": 40 + 10 + 40,
                "flops": 20 * 21,
                "ghosts": ((GhostRule("mirror", -1.0, 3.0),) * 2,) * 2,
            },
        ),
        (so.plan_laplacian((4, 5), "float64", 0.5, nu=2.5), {"flops": 20 * 9, "factor": 2.5}),
        (so.plan_laplacian((7,), "int32", 1.0), {"out_dtype": "float64", "bytes_moved": 28 + 56, "halo": (1,)}),
        (so.plan_gradient((2**16, 2**14), "float32", 1.0), {"index_bits": 64}),
        (so.plan_laplacian((2**16, 2**15), "float32", 1.0), {"index_bits": 64}),
        (so.plan_divergence(((3, 4), (3, 4)), "float32", 1.0), {"in_shape": (2, 3, 4), "halo": (0, 1, 1)}),
    ],
    ids=lambda value: value.op if hasattr(value, "op") else "",
)
def test_plan_attributes(plan, expected: dict) -> None:
    assert {name: getattr(plan, name) for name in expected} == expected


def test_operand_names_of_separate_components() -> None:
    plan = so.plan_divergence(((3, 4), (3, 4)), "float32", 1.0, mask=ArraySpec((3, 4), "bool"))
    assert [operand.name for operand in plan.operands] == ["v[0]", "v[1]", "mask"]
    assert plan.place("mask") == 2
    assert plan.place("nu") is None


@pytest.mark.parametrize("plan", [GRADIENT, DIVERGENCE, LAPLACIAN], ids=lambda plan: plan.op)
def test_a_plan_is_a_value(plan) -> None:
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    assert hash(copy) == hash(plan)


def test_explain() -> None:
    assert GRADIENT.explain().splitlines() == [
        "gradient: float32 (3, 4, 5) -> (2, 3, 4, 5) on backend 'numpy', arithmetic in float32",
        "  stencil: central differences of second order along axes (1, 2) with dx = (0.5, 2.0), times the factor 1",
        "  axis 1: ghosts wrap below, wrap above",
        "  axis 2: ghosts wrap below, wrap above",
        "  mask: faces to cells that are False are closed",
        "  moves at least 725 bytes, 240 operations, 32-bit offsets",
    ]
    text = LAPLACIAN.explain()
    assert "times a field nu, averaged onto the faces" in text
    assert "axis 0: ghosts -1 * end cell + 3 below, -1 * end cell + 3 above" in text
    assert "mask" not in text


@pytest.mark.parametrize("dtype", ["int16", "bool"])
def test_integers_become_the_default_float(dtype: str) -> None:
    u = np.array([0, 1, 1, 0], dtype)
    result = so.laplacian(u, 1.0)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, [1, -1, -1, 1])


def test_torch_integers_become_its_default_float() -> None:
    torch = pytest.importorskip("torch")
    result = so.gradient(torch.tensor([0, 1, 4]), 1.0)
    assert result.dtype == torch.float32
    parts = [torch.ones(3, 4), torch.ones(3, 4)]
    assert torch.equal(so.divergence(parts, 1.0), torch.zeros(3, 4))


def test_inputs_stay_as_they_are(rng: np.random.Generator) -> None:
    u, nu, mask = rng.standard_normal((4, 5)), rng.random((4, 5)), rng.random((4, 5)) > 0.5
    before = u.copy(), nu.copy(), mask.copy()
    so.laplacian(u, 1.0, nu=nu, mask=mask, bc=Dirichlet(2.0))
    so.gradient(u, 1.0, mask=mask, bc=Dirichlet(2.0))
    for x, y in zip((u, nu, mask), before, strict=True):
        np.testing.assert_array_equal(x, y)


U = np.zeros((4, 5))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: so.gradient(U, 0.0), ValueError, r"^gradient: dx is 0\.0, but must be positive$"),
        (lambda: so.gradient(U, (1.0, -2.0)), ValueError, r"^gradient: dx is -2\.0, but must be positive$"),
        (lambda: so.gradient(U, "1"), TypeError, r"^gradient: dx is a str, but must be a real number$"),
        (
            lambda: so.gradient(U, (1.0, 1.0, 1.0)),
            ValueError,
            r"^gradient: u has 2 dimensions, but must have at least 3",
        ),
        (lambda: so.gradient(U, (1.0, 1.0), axes=0), ValueError, r"^gradient: dx has 2 entries, but must have 1"),
        (lambda: so.gradient(np.float64(1.0), 1.0), ValueError, r"^gradient: u has 0 dimensions"),
        (lambda: so.gradient("abc", 1.0), TypeError, r"^gradient: u is a str, but must be an array$"),
        (
            lambda: so.laplacian(U, 1.0, bc=Hold()),
            ValueError,
            r"^laplacian: bc is Hold\(\), but must say what lies beyond the face, .*; use Outflow\(\), or Dirichlet",
        ),
        (
            lambda: so.divergence(np.zeros((2, 4, 5)), 1.0, bc=((Outflow(), Hold()), Outflow())),
            ValueError,
            r"^divergence: bc is Hold\(\)",
        ),
        (lambda: so.laplacian(U, 1.0, bc=(Reflect(),)), ValueError, r"^laplacian: bc has 1 entries, but must have 2"),
        (lambda: so.laplacian(U, 0.5, bc=Robin(-4.0, 0.0)), ValueError, r"^Robin: gamma is -4\.0, but must differ"),
        (
            lambda: so.laplacian(U, 1.0, nu=np.zeros(4)),
            ValueError,
            r"^laplacian: nu has shape \(4,\), but must broadcast to \(4, 5\), the shape of u$",
        ),
        (
            lambda: so.laplacian(U, 1.0, nu=np.zeros((3, 5))),
            ValueError,
            r"^laplacian: nu has shape \(3, 5\), but must broadcast to \(4, 5\)",
        ),
        (
            lambda: so.plan_divergence((2, (4, 5)), "float32", 1.0),
            TypeError,
            r"^divergence: shape is \(2, \(4, 5\)\), but must be integers$",
        ),
        (
            lambda: so.laplacian(U, 1.0, nu=np.zeros((1, 4, 5))),
            ValueError,
            r"^laplacian: nu has shape \(1, 4, 5\), but must broadcast to \(4, 5\)",
        ),
        (
            lambda: so.laplacian(U + 0j, 1.0, nu=np.zeros(5, complex)),
            TypeError,
            r"^laplacian: nu has dtype complex128, but must be real$",
        ),
        (lambda: so.laplacian(U, 1.0, nu="1"), TypeError, r"^laplacian: nu is a str, but must be a real number$"),
        (lambda: so.laplacian(U, 1.0, nu=np.nan), ValueError, r"^laplacian: nu is nan, but must be finite$"),
        (lambda: so.gradient(U, 1.0, mask=True), TypeError, r"^gradient: mask is a bool, but must be a boolean array$"),
        (
            lambda: so.gradient(U, 1.0, mask=np.ones((4, 5))),
            TypeError,
            r"^gradient: mask has dtype float64, but must be bool, True where u is computed$",
        ),
        (
            lambda: so.gradient(U, 1.0, mask=np.ones(4, bool)),
            ValueError,
            r"^gradient: mask has shape \(4,\), but must broadcast to \(4, 5\)",
        ),
        (
            lambda: so.divergence(np.zeros(5), 1.0),
            ValueError,
            r"^divergence: v has shape \(5,\), but must have at least 2 dimensions, the components along the first$",
        ),
        (
            lambda: so.divergence(np.zeros((3, 4, 5)), (1.0, 1.0)),
            ValueError,
            r"^divergence: v has 3 entries and dx has 2, but both must have one per axis",
        ),
        (
            lambda: so.divergence(np.zeros((3, 4, 5)), 1.0),
            ValueError,
            r"^divergence: each component of v has 2 dimensions, but must have at least 3 to match v$",
        ),
        (
            lambda: so.divergence((np.zeros((4, 5)), np.zeros((5, 4))), 1.0),
            ValueError,
            r"^divergence: v\[1\] has shape \(5, 4\), but must have shape \(4, 5\) like v\[0\]$",
        ),
        (
            lambda: so.divergence((np.zeros(4, "f4"), np.zeros(4)), 1.0),
            TypeError,
            r"^divergence: v\[1\] has dtype float64, but must have dtype float32 like v\[0\]$",
        ),
        (
            lambda: so.plan_laplacian((4, 5), "float32", 1.0, backend="cpu"),
            so.UnsupportedError,
            r"^laplacian: dtype is float32, but must be one that backend 'cpu' supports",
        ),
        (
            lambda: so.plan_laplacian((4, 5), "float32", 1.0, device="tpu"),
            ValueError,
            r"^laplacian: device is 'tpu', but must be 'cpu' or 'cuda'$",
        ),
        (
            lambda: so.gradient(U, 1.0, out=np.zeros((4, 5))),
            ValueError,
            r"^gradient: out has shape \(4, 5\) and dtype float64, but must have shape \(2, 4, 5\)",
        ),
        (lambda: so.laplacian(U, 1.0, out=U), ValueError, r"^laplacian: out overlaps an input in memory"),
        (
            lambda: so.plan_gradient((4, 5), "float64", 1.0)(U, U),
            TypeError,
            r"^gradient: 2 arrays were passed, but must be 1: u$",
        ),
    ],
)
def test_errors(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_mixed_libraries() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^divergence: v\[1\] is a torch array on cpu, but must be a numpy array"):
        so.divergence((np.zeros(4), torch.zeros(4)), 1.0)


def test_a_device_plan_is_for_the_device() -> None:
    assert so.plan_gradient((4, 5), "float32", 1.0, device="cuda").backend == "cupy"
    assert so.plan_divergence((2, 4, 5), "float32", 1.0, device="cuda:1").backend == "cupy"


@pytest.mark.parametrize("backend", [[1.0], np.ones(2)], ids=["list", "array"])
def test_backend_must_be_a_name(backend):
    with pytest.raises(TypeError, match=r"^laplacian: backend is a (list|ndarray), but must be 'cpu', "):
        so.laplacian(np.ones((4, 4)), 1.0, backend=backend)
