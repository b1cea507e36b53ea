"""spectral_conv_weight_gradient: derivatives, plans, threads, NaN, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from spectral_conv_cases import BACKENDS, GRIDS, every_method, every_way  # noqa: F401, fixtures
from support import random_array

from spectralops import (
    UnsupportedError,
    plan_spectral_conv_weight_gradient,
    spectral_conv,
    spectral_conv_weight_gradient,
)
from spectralops._arrays import ArraySpec
from spectralops._cpu import spectral_conv_scipy as by_scipy


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("sizes", "targets", "modes"), GRIDS)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_num06_directional_derivative(way, depthwise, sizes, targets, modes, kind, rng):
    """The loss Re <g, y> changes by Re <G, V> when the weight changes by V."""
    leading = (3,) if depthwise else (3, 2)
    x, step = random_array(rng, (2, 3, *sizes), kind), random_array(rng, (*leading, *modes), "complex128")
    gradient = random_array(rng, (2, leading[-1], *targets), kind)
    result = spectral_conv_weight_gradient(x, gradient, modes, depthwise=depthwise, backend=way)
    change = np.vdot(gradient, spectral_conv(x, step, depthwise=depthwise, out_shape=targets)).real
    size = np.linalg.norm(x) * np.linalg.norm(gradient) * np.linalg.norm(step)
    assert result.shape == step.shape
    assert abs(np.vdot(result, step).real - change) < 1e-13 * size


@pytest.mark.parametrize("backend", BACKENDS)
def test_num06_gradient_of_a_layer_by_differences(backend, rng):
    """Every real and imaginary part, of the weight of a small layer, by central differences of a quadratic loss."""
    x, weight = rng.standard_normal((2, 2, 6)), random_array(rng, (2, 1, 4), "complex128")

    def loss(w):
        return 0.5 * (spectral_conv(x, w, out_shape=8, backend="reference") ** 2).sum()

    gradient = spectral_conv(x, weight, out_shape=8, backend="reference")
    result = spectral_conv_weight_gradient(x, gradient, 4, backend=backend)
    expected = np.zeros_like(weight)
    for index in np.ndindex(weight.shape):
        for unit in (1.0, 1j):
            step = np.zeros_like(weight)
            step[index] = 1e-4 * unit
            expected[index] += unit * (loss(weight + step) - loss(weight - step)) / 2e-4
    assert np.allclose(result, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_wave(backend):
    """x = 3 cos(2 theta), g = cos(2 theta - 1): amplitude 3/2 times n exp(-i), counted twice over n and 2."""
    n = 10
    theta = 2 * np.pi * np.arange(n) / n
    x, gradient = 3 * np.cos(2 * theta)[None, None], np.cos(2 * theta - 1)[None, None]
    result = spectral_conv_weight_gradient(x, gradient, 4, backend=backend)
    expected = [0, 0, 1.5 * n * np.exp(-1j), 0]
    assert np.allclose(result[0, 0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("workers", [1, 2, 3, -1])
@pytest.mark.parametrize("depthwise", [False, True])
def test_blocks_and_threads_change_nothing(workers, depthwise, method, rng, monkeypatch):
    monkeypatch.setattr(by_scipy, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(by_scipy, "MIX_MODES", 5)
    x, gradient = rng.standard_normal((3, 4, 6, 8)), rng.standard_normal((3, 4, 9, 8))
    expected = spectral_conv_weight_gradient(x, gradient, (4, 3), depthwise=depthwise, backend="numpy")
    result = spectral_conv_weight_gradient(x, gradient, (4, 3), depthwise=depthwise, workers=workers)
    assert np.allclose(result, expected, rtol=0, atol=1e-13)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_stays_in_its_channel(way, rng):
    x, gradient = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 4, 8))
    clean = spectral_conv_weight_gradient(x, gradient, 3, backend=way)
    x[1, 2, 5] = np.nan
    result = spectral_conv_weight_gradient(x, gradient, 3, backend=way)
    assert np.isnan(result[2]).all()
    assert np.allclose(result[:2], clean[:2], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("x", "gradient", "expected"),
    [
        ("float32", "float32", "complex64"),
        ("float16", "float32", "complex64"),
        ("float64", "float32", "complex128"),
        ("int32", "float32", "complex128"),
        ("complex64", "complex128", "complex64"),
        ("complex128", "complex128", "complex128"),
    ],
)
def test_result_dtype_follows_x(x, gradient, expected):
    result = spectral_conv_weight_gradient(np.ones((2, 1, 4), x), np.ones((2, 1, 4), gradient), 2)
    assert result.dtype == expected
    assert np.allclose(result[0, 0], [0, 8] if "complex" in x else [8, 0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depthwise", [False, True])
def test_nothing_sums_to_zero(backend, depthwise):
    options = {"depthwise": depthwise, "backend": backend}
    result = spectral_conv_weight_gradient(np.ones((0, 3, 8)), np.ones((0, 3, 8)), 4, **options)
    assert (result.shape, result.any()) == ((3, 4) if depthwise else (3, 3, 4), False)
    assert spectral_conv_weight_gradient(np.ones((2, 0, 8)), np.ones((2, 0, 8)), 4, **options).size == 0


def test_out_is_filled(rng):
    x, gradient = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 4, 8))
    out = np.full((3, 4, 5), np.nan, complex)
    assert spectral_conv_weight_gradient(x, gradient, 5, out=out) is out
    assert np.array_equal(out, spectral_conv_weight_gradient(x, gradient, 5))


def test_plan():
    gradient = ArraySpec((5, 4, 9, 6), "float64")
    plan = plan_spectral_conv_weight_gradient((5, 3, 8, 6), "float32", gradient, (4, 3))
    assert (plan.op, plan.backend) == ("spectral_conv_weight_gradient", "cpu")
    assert [(o.name, o.spec.dtype, o.compute) for o in plan.operands] == [
        ("x", "float32", "float32"),
        ("gradient", "float64", "float32"),
    ]
    assert (plan.in_shape, plan.gradient_shape, plan.out_shape) == ((5, 3, 8, 6), (5, 4, 9, 6), (3, 4, 4, 3))
    assert (plan.out_dtype, plan.compute_dtype) == ("complex64", "float32")
    assert (plan.axes, plan.modes, plan.lowest) == ((2, 3), (4, 3), (-2, 0))
    assert (plan.in_sizes, plan.gradient_sizes, plan.channels, plan.batch) == ((8, 6), (9, 6), (3, 4), 5)
    assert (plan.halved, plan.depthwise, plan.in_place, plan.halo) == (True, False, False, ())
    assert plan.bytes_moved == 4 * 5 * 3 * 48 + 8 * 5 * 4 * 54 + 8 * 144
    forward, other = round(2.5 * 48 * np.log2(48)), round(2.5 * 54 * np.log2(54))
    assert plan.flops == 5 * (3 * forward + 4 * other + 8 * 12 * 12)
    assert plan.index_bits == 32
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan is plan_spectral_conv_weight_gradient((5, 3, 8, 6), "float32", gradient, (4, 3))


def test_plan_of_single_complex_channels():
    gradient = ArraySpec((2, 3, 8), "complex64")
    plan = plan_spectral_conv_weight_gradient((2, 3, 8), "complex64", gradient, 5, depthwise=True)
    assert (plan.modes, plan.lowest, plan.halved, plan.out_shape) == ((5,), (-2,), False, (3, 5))
    assert plan.flops == 2 * (3 * 120 + 3 * 120 + 8 * 3 * 5)
    assert plan.factors().tolist() == [0.125] * 5


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [(8, 8, [1, 2, 2, 2, 1]), (10, 8, [1, 2, 2, 2, 1]), (8, 10, [1, 2, 2, 2, 2]), (9, 9, [1, 2, 2, 2, 2])],
)
def test_modes_count_as_the_real_inverse_counts_them(n, m, expected):
    """On the gradient's grid: zero and its Nyquist wavenumber once, the others for k and -k."""
    plan = plan_spectral_conv_weight_gradient((1, n), "float64", ArraySpec((1, m), "float64"), 5)
    assert (plan.factors() * n).round(12).tolist() == expected
    assert plan.mode_factors("complex64").dtype == "float32"


def test_offsets():
    gradient = ArraySpec((1, 1, 8), "float32")
    assert plan_spectral_conv_weight_gradient((1, 1, 8), "float32", gradient, 4).index_bits == 32
    wide = ArraySpec((1, 2**14, 8), "float32")
    assert plan_spectral_conv_weight_gradient((1, 2**14, 8), "float32", wide, 4).index_bits == 64
    long = ArraySpec((2**16, 1, 2**15), "float32")
    assert plan_spectral_conv_weight_gradient((2**16, 1, 8), "float32", long, 4).index_bits == 64


def test_explain_says_what_runs(monkeypatch):
    gradient = ArraySpec((5, 4, 32, 200), "float64")
    plan = plan_spectral_conv_weight_gradient((5, 3, 64, 256), "float32", gradient, (16, 100))
    assert plan.explain().splitlines() == [
        "spectral_conv_weight_gradient: float32 (5, 3, 64, 256) and float64 (5, 4, 32, 200) -> complex64 "
        "(3, 4, 16, 100) on backend 'cpu', arithmetic in float32",
        "  transforms: real, sizes 64 x 256 and 32 x 200, along axes (2, 3), keeping 16 x 100 wavenumbers from (-8, 0)",
        "  products: 3 channels by 4, summed over a batch of 5",
        "  runs: vector engine, compiled on first use: transforms of kept modes only, of x by product, fft "
        "and of the gradient by product, fft along the axes (product: folded Fourier matrix, where few modes are kept; "
        "fft: all, of which the kept ones are written), image by image in cache, one product per mode over the batch "
        "with modes in the lanes; images and tiles of channels shared among workers",
        f"  moves at least {plan.bytes_moved} bytes, {plan.flops} operations, 32-bit offsets",
    ]
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    assert "of x by gemm, fft and of the gradient by gemm, fft along the axes (gemm: " in plan.explain()
    assert "one product per mode over the batch; BLAS uses threads of its own" in plan.explain()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "numpy"}, "runs: scipy.fft over the whole arrays: forward, cut, einsum, one after the other"),
        ({"backend": "reference"}, "runs: dense matrices of the discrete Fourier transform in float64"),
        ({"device": "cuda", "backend": "cupy"}, "runs: cupyx.scipy.fft over the whole arrays"),
        ({}, "transforms: complex, sizes 8 and 9, along axes (1,), keeping 4 wavenumbers from (-2,)"),
        ({}, "products: 3 channels, one weight each, summed over a batch of 1\n"),
    ],
)
def test_explain_names_the_choices(options, words):
    gradient = ArraySpec((3, 9), "complex64")
    plan = plan_spectral_conv_weight_gradient((3, 8), "complex64", gradient, 4, depthwise=True, **options)
    assert words in plan.explain()


def test_there_is_no_adjoint():
    plan = plan_spectral_conv_weight_gradient((1, 8), "float32", ArraySpec((1, 8), "float32"), 4)
    message = r"adjoint\(\) is asked of an operator of two fields, but must be of one; its gradients are spectral_conv"
    with pytest.raises(UnsupportedError, match=message):
        plan.adjoint()


def called(shape=(2, 3, 8, 8), gradient=(2, 4, 8, 8), modes=(4, 3), dtype="float64", other="float64", **options):
    return spectral_conv_weight_gradient(np.ones(shape, dtype), np.ones(gradient, other), modes, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: spectral_conv_weight_gradient("x", np.ones((1, 4)), 2), TypeError, "x is a str, but must be an a"),
        (lambda: spectral_conv_weight_gradient(np.ones((1, 4)), 2.0, 2), TypeError, "gradient is a float, but must be"),
        (lambda: called(dtype="O"), TypeError, "x has dtype object, but must be"),
        (lambda: called(other="O"), TypeError, "gradient has dtype object, but must be"),
        (lambda: called(other=complex), TypeError, "gradient has dtype complex128, but must be real as x of dtype flo"),
        (lambda: called(dtype=complex), TypeError, "gradient has dtype float64, but must be complex as x of dtype com"),
        (lambda: called(modes=()), ValueError, r"modes is \(\), but must be 1 or more along one or more axes"),
        (lambda: called(modes=(4, 0)), ValueError, r"modes is \(4, 0\), but must be 1 or more along one or more axes"),
        (lambda: called(modes=(4, 2.5)), TypeError, r"modes is \(4, 2.5\), but must be integers"),
        (
            lambda: called(modes=(4, 6)),
            ValueError,
            r"keeps 6 wavenumbers along axis 3, but must keep at most 5 \(half ",
        ),
        (lambda: called(modes=(9, 3)), ValueError, r"along axis 2, but must keep at most 8 \(8 points in x, 8 in grad"),
        (lambda: called(gradient=(2, 4, 5, 8), modes=(6, 3)), ValueError, r"at most 5 \(8 points in x, 5 in gradient"),
        (
            lambda: called(gradient=(3, 4, 8, 8)),
            ValueError,
            r"gradient has shape \(3, 4, 8, 8\), but must have 4 axes, the first 1 of lengths \(2,\) as x of shape",
        ),
        (
            lambda: called(gradient=(2, 8, 8)),
            ValueError,
            r"gradient has shape \(2, 8, 8\), but must have 4 axes, the f",
        ),
        (lambda: called(depthwise=True), ValueError, r"but must have 4 axes, the first 2 of lengths \(2, 3\)"),
        (lambda: called(depthwise=1), TypeError, "depthwise is 1, but must be True or False"),
        (lambda: called(axes=(1, 2)), ValueError, r"axes is \(1, 2\), but must name the last 2 of x, with the channel"),
        (lambda: called(axes=(3,)), ValueError, "modes has 2 entries, but must have 1, one per axis"),
        (
            lambda: called((8, 8), (8, 8)),
            ValueError,
            r"x has shape \(8, 8\), but must have a channel axis before its 2",
        ),
        (lambda: called((2, 3, 0, 8)), ValueError, r"x has shape \(2, 3, 0, 8\) with length 0 along axis 2"),
        (lambda: called(gradient=(2, 4, 8, 0)), ValueError, r"gradient has shape \(2, 4, 8, 0\) with length 0 along a"),
        (lambda: called(backend="cupy"), TypeError, "backend is 'cupy', which runs on cuda arrays"),
        (
            lambda: called(out=np.ones((3, 4, 4, 3))),
            ValueError,
            "out has shape .* and dtype float64, but must have sha",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=f"spectral_conv_weight_gradient: .*{message}|{message}"):
        call()
