"""fourier_resample: the Nyquist rule, agreement with SciPy, axes, adjoint, plans, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import signal
from support import complex_normal

from spectralops import fourier_resample, plan_fourier_resample
from spectralops._plans.resample import Move

BACKENDS = ["cpu", "numpy", "reference"]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "sizes", "axes"),
    [
        ((64, 512), (768,), (1,)),
        ((96, 512), (256,), (1,)),
        ((16, 64, 64), (96, 48), (1, 2)),
        ((64, 16, 64), (96, 48), (0, 2)),
    ],
    ids=str,
)
def test_the_engine_agrees_with_scipy(shape, sizes, axes, dtype, adjoint, rng, monkeypatch):
    """Arrays large enough for the vector engine; the environment switches it off for the other result."""
    plan = plan_fourier_resample(shape, dtype, sizes, axes=axes)
    plan = plan.adjoint() if adjoint else plan
    x = complex_normal(rng, *plan.in_shape)
    x = (x if dtype.startswith("c") else x.real).astype(dtype)
    before = x.copy()
    ours = plan(x)
    np.testing.assert_array_equal(x, before)
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    theirs = plan(x)
    assert ours.dtype == theirs.dtype == dtype
    error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
    assert 0 < error < 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("n", "m"), [(4, 6), (10, 20), (11, 22), (4, 5), (1, 3), (2, 3), (6, 8)])
def test_num05_up_and_back_is_the_identity(n, m, backend, rng):
    for x in (rng.standard_normal(n), complex_normal(rng, n)):
        up = fourier_resample(x, m, backend=backend)
        assert np.allclose(fourier_resample(up, n, backend=backend), x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [float, complex])
def test_num05_nyquist_is_split_upwards_and_summed_downwards(backend, kind):
    coarse = np.cos(np.pi * np.arange(4)).astype(kind)
    fine = np.cos(np.pi * np.arange(8) / 2).astype(kind)
    assert np.allclose(fourier_resample(coarse, 8, backend=backend), fine, rtol=0, atol=1e-15)
    assert np.allclose(fourier_resample(fine, 4, backend=backend), coarse, rtol=0, atol=1e-15)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 10, 11])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 10, 12])
def test_num05_agrees_with_scipy_for_real_and_complex_numbers(n, m, backend, rng):
    x = rng.standard_normal((2, n))
    expected = signal.resample(x, m, axis=-1)
    assert np.allclose(fourier_resample(x, m, axes=-1, backend=backend), expected, rtol=0, atol=1e-14)
    as_complex = fourier_resample(x.astype(complex), m, axes=-1, backend=backend)
    assert np.allclose(as_complex, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [float, complex])
def test_several_axes_are_one_after_the_other(backend, kind, rng):
    x = rng.standard_normal((6, 5, 8)).astype(kind)
    expected = signal.resample(signal.resample(signal.resample(x, 4, axis=0), 8, axis=1), 6, axis=2)
    result = fourier_resample(x, (4, 8, 6), backend=backend)
    assert np.allclose(result, expected, rtol=0, atol=1e-14)
    again = fourier_resample(x, (6, 4, 8), axes=(2, 0, 1), backend=backend)
    assert np.allclose(again, expected, rtol=0, atol=1e-14)


def test_num06_top_mode_of_an_odd_cube():
    n, top = 15, 7
    x = np.broadcast_to(np.cos(top * 2 * np.pi * np.arange(n) / n)[:, None, None], (1, n, n, n))
    fine = np.cos(top * 2 * np.pi * np.arange(2 * n) / (2 * n))[:, None, None]
    result = fourier_resample(x, (2 * n,) * 3)
    assert np.allclose(result, np.broadcast_to(fine, (1, 30, 30, 30)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_axis_that_keeps_its_length_is_not_touched(backend, rng):
    x = rng.standard_normal((4, 6))
    x[2, 3] = np.nan
    assert np.array_equal(fourier_resample(x, (4, 6), backend=backend), x, equal_nan=True)
    result = fourier_resample(x, (4, 9), backend=backend)
    assert np.isnan(result).any(axis=1).tolist() == [False, False, True, False]
    assert np.allclose(result[1], fourier_resample(x[1], 9, backend=backend), rtol=0, atol=1e-14)


@pytest.mark.parametrize("workers", [1, 2, -1])
@pytest.mark.parametrize("axes", [(1,), (0, 2), (2, 1)])
def test_blocks_and_threads_change_nothing(workers, axes, rng, monkeypatch):
    x = rng.standard_normal((5, 6, 7, 4))
    sizes = (8, 4)[: len(axes)]
    expected = fourier_resample(x, sizes, axes=axes, backend="numpy")
    monkeypatch.setattr("spectralops._plans.resample.BLOCK_BYTES", 1000)
    assert np.allclose(fourier_resample(x, sizes, axes=axes, workers=workers), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_element(backend):
    out = np.full(1, 7.0)
    fourier_resample(np.array([3.0, 1.0]), 1, backend=backend, out=out)
    assert out == 2.0


def test_lay04_empty_batch():
    for backend in BACKENDS:
        assert fourier_resample(np.zeros((0, 4)), 6, axes=-1, backend=backend).shape == (0, 6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int8"])
def test_result_dtype_follows_x(dtype):
    result = fourier_resample(np.arange(6).astype(dtype), 9)
    assert result.dtype == ("float64" if dtype == "int8" else dtype)


def test_sizes_may_come_as_numpy_integers(rng):
    """BIG03."""
    x = rng.standard_normal((4, 3))
    expected = fourier_resample(x, (8, 6))
    for sizes in ((np.int32(8), np.int32(6)), [8, 6], np.array([8, 6], np.int32)):
        assert np.array_equal(fourier_resample(x, sizes), expected)
    assert fourier_resample(x, np.int32(5)).shape == (5, 5)
    n = np.int32(2**14)
    assert plan_fourier_resample((4, 4), "complex128", (n, n)).bytes_moved == 16 * (2**28 + 16)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "sizes"), [((6,), (8,)), ((8,), (6,)), ((7,), (4,)), ((3,), (8,)), ((2, 4, 9), (7, 6)), ((6, 4), (4, 6))]
)
def test_adjoint(backend, kind, shape, sizes, rng):
    make = complex_normal if kind == "complex128" else lambda rng, *shape: rng.standard_normal(shape)
    plan = plan_fourier_resample(shape, kind, sizes, backend=backend)
    adjoint = plan.adjoint()
    x, y = make(rng, *plan.in_shape), make(rng, *plan.out_shape)
    assert abs(np.vdot(plan(x), y) - np.vdot(x, adjoint(y))) < 1e-13 * np.linalg.norm(x) * np.linalg.norm(y)
    assert adjoint.adjoint() == plan
    assert adjoint.transposed


def test_plan():
    plan = plan_fourier_resample((5, 8, 6, 4), "float16", (12, 6, 5))
    assert plan.op == "fourier_resample"
    assert plan.backend == "cpu"
    assert (plan.in_shape, plan.out_shape) == ((5, 8, 6, 4), (5, 12, 6, 5))
    assert (plan.out_dtype, plan.compute_dtype) == ("float16", "float32")
    assert [(o.name, o.compute) for o in plan.operands] == [("x", "float32")]
    assert (plan.axes, plan.in_sizes, plan.out_sizes) == ((1, 3), (8, 4), (12, 5))
    assert (plan.halved, plan.transposed, plan.in_place, plan.halo) == (True, False, False, ())
    assert (plan.norm, plan.adjoint().norm) == ("forward", "backward")
    assert plan.block == 2**20 // (12 * 5 * 8)
    assert plan.bytes_moved == 2 * (5 * 192 + 5 * 360)
    assert plan.flops == 5 * 6 * (round(2.5 * 32 * 5) + round(2.5 * 60 * np.log2(60)))
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan is plan_fourier_resample((5, 8, 6, 4), "float16", (12, 6, 5))
    adjoint = plan.adjoint()
    assert (adjoint.operands[0].spec.shape, adjoint.operands[0].spec.dtype) == ((5, 12, 6, 5), "float16")
    assert (adjoint.in_shape, adjoint.out_shape) == (plan.out_shape, plan.in_shape)
    assert plan_fourier_resample((8,), "complex128", 4).block == 2**20 // (8 * 16)
    assert not plan_fourier_resample((8,), "complex128", 4).halved


@pytest.mark.parametrize(
    ("n", "m", "kind", "expected"),
    [
        (4, 6, "float64", [(0, 0, 2, 1.0), (2, 2, 1, 0.5)]),
        (6, 4, "float64", [(0, 0, 2, 1.0), (2, 2, 1, 2.0)]),
        (5, 8, "float64", [(0, 0, 3, 1.0)]),
        (4, 6, "complex128", [(0, 0, 2, 1.0), (5, 3, 1, 1.0), (2, 2, 1, 0.5), (4, 2, 1, 0.5)]),
        (6, 4, "complex128", [(0, 0, 2, 1.0), (3, 5, 1, 1.0), (2, 2, 1, 1.0), (2, 4, 1, 1.0)]),
        (5, 3, "complex128", [(0, 0, 2, 1.0), (2, 4, 1, 1.0)]),
    ],
)
def test_moves(n, m, kind, expected):
    """Which coefficient goes where, and with which factor."""
    assert plan_fourier_resample((n,), kind, m).moves(0) == tuple(Move(*each) for each in expected)


def test_offsets_count_the_spectrum_as_real_numbers():
    assert plan_fourier_resample((2**30 - 1,), "float32", 4).index_bits == 32
    assert plan_fourier_resample((2**30,), "float32", 4).index_bits == 64
    assert plan_fourier_resample((4,), "float32", 2**30).index_bits == 64


def test_explain_says_what_runs():
    plan = plan_fourier_resample((5, 8, 6, 4), "float32", (12, 6, 5))
    assert plan.explain().splitlines() == [
        "fourier_resample: float32 (5, 8, 6, 4) -> (5, 12, 6, 5) on backend 'cpu', arithmetic in float32",
        "  transforms: real, axis 1 from 8 to 12, axis 3 from 4 to 5; no others",
        "  runs: axis by axis, each cut before the next, on the vector engine where it is predicted to be faster, else "
        "scipy.fft, 2184 transform(s) at a time in cache",
        f"  moves at least {plan.bytes_moved} bytes, {plan.flops} operations, 32-bit offsets",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "numpy"}, "runs: scipy.fft over the whole array: forward, cut or pad, inverse"),
        ({"backend": "reference"}, "runs: dense matrices of trigonometric interpolation in float64"),
        ({"device": "cuda"}, "runs: cupyx.scipy.fft over the whole array"),
        ({}, "transforms: complex, axis 0 from 8 to 6; no others"),
    ],
)
def test_explain_names_the_choices(options, words):
    plan = plan_fourier_resample((8,), "complex64", 6, **options)
    assert words in plan.explain()
    assert plan.adjoint().explain().startswith("fourier_resample (adjoint): complex64 (6,) -> (8,)")


def test_explain_of_a_copy():
    text = plan_fourier_resample((8,), "float32", 8).explain()
    assert "transforms: none, no length changes\n  runs: a copy\n" in text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fourier_resample("x", 4), TypeError, "fourier_resample: x is a str, but must be an array"),
        (
            lambda: fourier_resample(np.ones(4), 0),
            ValueError,
            r"out_shape is \(0,\), but must be 1 or more along each axis",
        ),
        (lambda: fourier_resample(np.ones(4), -2), ValueError, r"out_shape is \(-2,\), but must not be negative"),
        (lambda: fourier_resample(np.ones(4), 2.5), TypeError, "out_shape is 2.5, but must be integers"),
        (lambda: fourier_resample(np.ones(4), "4"), TypeError, "out_shape is '4', but must be integers"),
        (
            lambda: fourier_resample(np.ones(4), (4, 4)),
            ValueError,
            "x has 1 dimensions, but must have at least 2 to match",
        ),
        (
            lambda: fourier_resample(np.ones((4, 4)), (4, 4), axes=0),
            ValueError,
            "out_shape has 2 entries, but must have 1",
        ),
        (
            lambda: fourier_resample(np.ones((3, 0)), 4, axes=1),
            ValueError,
            "with length 0 along axis 1, but must have len",
        ),
        (lambda: fourier_resample(np.ones(4), 4, axes=1), ValueError, r"axes has 1, but must lie in \[-1, 1\)"),
        (lambda: fourier_resample(np.ones(4), 4, backend="gpu"), ValueError, "backend is 'gpu', but must be 'cpu'"),
        (lambda: fourier_resample(np.ones(4), 6, out=np.ones(5)), ValueError, r"out has shape \(5,\)"),
        (lambda: fourier_resample(np.ones(4), 6, workers="all"), TypeError, "workers is 'all', but must be an integer"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
