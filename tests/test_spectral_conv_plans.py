"""spectral_conv: gradients, plans, words, and every bad argument with its message."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from spectral_conv_cases import GRIDS, every_way  # noqa: F401, fixtures
from support import complex_normal

from spectralops import plan_spectral_conv, spectral_conv
from spectralops._arrays import ArraySpec


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("sizes", "targets", "modes"), GRIDS)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_adjoint(way, depthwise, sizes, targets, modes, kind, rng):
    """<A x, y> = <x, A* y>, also where one grid's Nyquist is an interior mode of the other."""
    make = complex_normal if kind == "complex128" else lambda rng, *shape: rng.standard_normal(shape)
    channels = (3,) if depthwise else (3, 2)
    weight = complex_normal(rng, *channels, *modes)
    plan = plan_spectral_conv((2, 3, *sizes), kind, weight, depthwise=depthwise, out_shape=targets, backend=way)
    x, y = make(rng, *plan.in_shape), make(rng, *plan.out_shape)
    adjoint = plan.adjoint()
    left, right = np.vdot(plan(x, weight), y), np.vdot(x, adjoint(y, weight))
    assert abs(left - right) < 1e-12 * np.linalg.norm(x) * np.linalg.norm(y)
    assert adjoint.adjoint() == plan


def test_adjoint_swaps_what_belongs_to_the_grids():
    weight = ArraySpec((3, 2, 4, 60), "complex64")
    plan = plan_spectral_conv((5, 3, 8, 1024), "float16", weight, out_shape=(6, 128))
    adjoint = plan.adjoint()
    assert (adjoint.in_shape, adjoint.out_shape) == ((5, 2, 6, 128), (5, 3, 8, 1024))
    assert adjoint.operands[0].spec == ArraySpec((5, 2, 6, 128), "float16")
    assert adjoint.operands[0].compute == "float32"
    assert (adjoint.channels, adjoint.batch) == ((2, 3), 5)
    assert adjoint.scale == plan.scale == 1 / (8 * 1024)


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [(8, 8, None), (8, 10, [1, 1, 1, 1, 2]), (10, 8, [1, 1, 1, 1, 0.5]), (9, 11, None)],
)
def test_adjoint_reweighs_a_nyquist_that_is_interior_elsewhere(n, m, expected):
    """The adjoint of n -> m points reads from m and writes to n."""
    plan = plan_spectral_conv((1, n), "float64", ArraySpec((1, 1, 5), "complex128"), out_shape=m)
    assert plan.bin_weights() is None
    bins = plan.adjoint().bin_weights()
    assert (bins if bins is None else bins.tolist()) == expected


def test_complex_adjoint_reweighs_nothing():
    plan = plan_spectral_conv((1, 8), "complex128", ArraySpec((1, 1, 5), "complex128"), out_shape=10)
    assert plan.adjoint().bin_weights() is None


def test_plan():
    plan = plan_spectral_conv((5, 3, 8, 6), "float32", ArraySpec((3, 4, 4, 3), "complex128"), out_shape=(9, 5))
    assert plan.op == "spectral_conv"
    assert plan.backend == "cpu"
    assert (plan.in_shape, plan.out_shape) == ((5, 3, 8, 6), (5, 4, 9, 5))
    assert (plan.out_dtype, plan.compute_dtype) == ("float32", "float32")
    assert [(o.name, o.compute) for o in plan.operands] == [("x", "float32"), ("weight", "complex64")]
    assert (plan.axes, plan.modes, plan.lowest) == ((2, 3), (4, 3), (-2, 0))
    assert (plan.in_sizes, plan.out_sizes, plan.channels, plan.batch) == ((8, 6), (9, 5), (3, 4), 5)
    assert (plan.halved, plan.depthwise, plan.transposed) == (True, False, False)
    assert plan.halo == ()
    assert plan.in_place is False
    assert plan.scale == 1 / 48
    assert plan.bytes_moved == 4 * (5 * 3 * 48 + 5 * 4 * 45) + 16 * 144
    forward, inverse = round(2.5 * 48 * np.log2(48)), round(2.5 * 45 * np.log2(45))
    assert plan.flops == 5 * (3 * forward + 4 * inverse + 8 * 12 * 12)
    assert plan.index_bits == 32
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan is plan_spectral_conv((5, 3, 8, 6), "float32", ArraySpec((3, 4, 4, 3), "complex128"), out_shape=(9, 5))


def test_plan_of_a_depthwise_complex_convolution():
    plan = plan_spectral_conv((2, 3, 8), "complex64", ArraySpec((3, 5, 2), "int8"), depthwise=True)
    assert (plan.modes, plan.lowest, plan.halved, plan.depthwise) == ((5,), (-2,), False, True)
    assert plan.operands[1].compute == "float32"
    assert plan.flops == 2 * (3 * 120 + 3 * 120 + 8 * 3 * 5)
    assert plan.bytes_moved == 2 * 8 * 48 + 30


def test_offsets():
    n = np.int32(2**15)
    small = ArraySpec((1, 1, 2, 2), "complex64")
    assert plan_spectral_conv((1, n, n), "float32", small).index_bits == 32
    assert plan_spectral_conv((2, 1, n, n), "float32", small).index_bits == 64
    wide = ArraySpec((2**14, 2**14, 4), "complex64")
    assert plan_spectral_conv((2**14, 8), "float32", wide).index_bits == 64
    assert plan_spectral_conv((1, 8, 8), "float32", small, out_shape=(n, n)).index_bits == 32
    assert plan_spectral_conv((2, 1, 8, 8), "float32", small, out_shape=(n, n)).index_bits == 64


SOME = ArraySpec((3, 4, 16, 100), "complex128")


def test_explain_says_what_runs():
    plan = plan_spectral_conv((5, 3, 64, 256), "float32", SOME, out_shape=(32, 200))
    assert plan.explain().splitlines() == [
        "spectral_conv: float32 (5, 3, 64, 256) -> (5, 4, 32, 200) on backend 'cpu', arithmetic in float32",
        "  transforms: real, size 64 x 256 to 32 x 200, along axes (2, 3), keeping 16 x 100 wavenumbers from (-8, 0)",
        "  mixing: 3 channels to 4; weight complex128 (3, 4, 16, 100), cast to complex64 at each call",
        "  runs: vector engine, compiled on first use: transforms of kept modes only, forward by product, fft "
        "and inverse by product, fft along the axes (product: folded Fourier matrix, where few modes are kept; fft: "
        "all, of which the kept ones are written), image by image in cache, one product per mode over the channels "
        "with modes in the lanes; images and tiles of channels shared among workers",
        f"  moves at least {plan.bytes_moved} bytes, {plan.flops} operations, 32-bit offsets",
    ]


def test_explain_says_why_the_engine_does_not_run(monkeypatch):
    four = plan_spectral_conv((1, 3, 3, 3, 3), "float32", ArraySpec((1, 1, 2, 2, 2, 2), "complex64"))
    assert "runs: SciPy and BLAS (the vector engine takes 1 to 3 axes, not 4): transforms" in four.explain()
    rough = plan_spectral_conv((1, 16, 4099), "float32", ArraySpec((1, 1, 4, 65), "complex64"), out_shape=(16, 128))
    for plan in (rough, rough.adjoint()):
        assert "(length 4099 has large prime factors and is too long for the vector engine to tr" in plan.explain()
    few = plan_spectral_conv((1, 16, 4099), "float32", ArraySpec((1, 1, 4, 64), "complex64"))
    assert "runs: vector engine" in few.explain()
    assert (
        "runs: vector engine" in plan_spectral_conv((4, 5000), "float64", ArraySpec((4, 1, 65), "complex64")).explain()
    )
    for shape, out_shape, runs in [
        ((3, 1, 4096), None, False),
        ((1, 1, 64), 4096, False),
        ((4, 1, 4096), None, True),
        ((3, 1, 4095), None, True),
    ]:
        plan = plan_spectral_conv(shape, "float32", ArraySpec((1, 1, 9), "complex64"), out_shape=out_shape)
        assert ("long rows would leave most lanes of the vector engine idle" not in plan.explain()) is runs
    pair = plan_spectral_conv((1, 4096), "float32", ArraySpec((1, 3, 9), "complex64"))
    assert "(3 long rows would leave most lanes" in pair.explain()
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    plan = plan_spectral_conv((5, 3, 64, 256), "float32", SOME, out_shape=(32, 200))
    assert (
        "  runs: SciPy and BLAS (SPECTRALOPS_NUMBA=0 switches compiled kernels off): transforms of kept modes only, "
        "forward by gemm, fft and inverse by gemm, fft along the axes (gemm: matrix product, where few modes are kept; "
        "fft: scipy.fft), one product per mode over the channels; BLAS uses threads of its own"
    ) in plan.explain()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "numpy"}, "runs: scipy.fft over the whole array: forward, cut, einsum, pad, inverse"),
        ({"backend": "reference"}, "runs: dense matrices"),
        ({"device": "cuda", "backend": "cupy"}, "runs: cupyx.scipy.fft over the whole array"),
        ({}, "transforms: complex, size 8 to 8, along axes (1,), keeping 4 wavenumbers from (-2,)"),
        ({}, "mixing: 3 channels, one weight each; weight complex64 (3, 4)\n"),
    ],
)
def test_explain_names_the_choices(options, words):
    plan = plan_spectral_conv((3, 8), "complex64", ArraySpec((3, 4), "complex64"), depthwise=True, **options)
    assert words in plan.explain()
    assert plan.adjoint().explain().startswith("spectral_conv (adjoint): complex64")


def convolved(shape=(2, 3, 8, 8), weight=(3, 4, 4, 4), dtype="float64", kind=complex, **options):
    return spectral_conv(np.ones(shape, dtype), np.ones(weight, kind), **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: spectral_conv("x", np.ones((1, 1, 1), complex)),
            TypeError,
            "spectral_conv: x is a str, but must be an a",
        ),
        (
            lambda: spectral_conv(np.ones((1, 4)), 2j),
            TypeError,
            "weight is a complex, but must be an array with at least",
        ),
        (lambda: convolved(weight=(3, 4, 4, 4), kind="O"), TypeError, "weight has dtype object, but must be"),
        (
            lambda: convolved(weight=(4, 5, 4, 4)),
            ValueError,
            r"x of shape \(2, 3, 8, 8\) has 3 channels on axis 1, but must have 4 as weight of shape \(4, 5, 4, 4\)",
        ),
        (
            lambda: convolved((2, 6, 32), (1, 7, 17), depthwise=True, axes=-1),
            ValueError,
            "weight's modes has 2 entries, but must have 1, one per axis",
        ),
        (
            lambda: convolved((2, 6, 32), (7, 17), depthwise=True),
            ValueError,
            "has 6 channels on axis 1, but must have 7 as weight",
        ),
        (
            lambda: convolved(weight=(3, 4, 4, 4), kind=float),
            ValueError,
            r"weight has dtype float64 and shape \(3, 4, 4, 4\), but a real weight must end with an axis of length 2",
        ),
        (
            lambda: convolved(weight=(3, 4)),
            ValueError,
            r"weight has shape \(3, 4\), but must have the layout \(channels in, channels out, modes...\)",
        ),
        (
            lambda: convolved(weight=(3, 2), kind=float, depthwise=True),
            ValueError,
            r"weight has shape \(3, 2\), but must have the layout \(channels, modes...\)",
        ),
        (
            lambda: convolved(weight=(3, 4, 0, 4)),
            ValueError,
            r"weight has shape \(3, 4, 0, 4\), but must keep 1 wavenumber",
        ),
        (
            lambda: convolved(weight=(3, 4, 9, 4)),
            ValueError,
            r"weight keeps 9 wavenumbers along axis 2, but must keep at most 8 \(8 points in, 8 out\); crop the weight",
        ),
        (
            lambda: convolved(weight=(3, 4, 4, 6)),
            ValueError,
            r"keeps 6 wavenumbers along axis 3, but must keep at most 5 \(half of 8 points in, 8 out\)",
        ),
        (lambda: convolved(out_shape=(3, 8)), ValueError, r"keep at most 3 \(8 points in, 3 out\)"),
        (lambda: convolved(out_shape=(8, 4)), ValueError, r"keep at most 3 \(half of 8 points in, 4 out\)"),
        (lambda: convolved(weight=(3, 4, 4, 9), dtype=complex), ValueError, r"keep at most 8 \(8 points in, 8 out\)"),
        (
            lambda: convolved(out_shape=(8, 0)),
            ValueError,
            r"out_shape is \(8, 0\), but must be 1 or more along each axis",
        ),
        (lambda: convolved(out_shape=(8, -1)), ValueError, r"out_shape is \(8, -1\), but must not be negative"),
        (lambda: convolved(out_shape=(8, 8.5)), TypeError, r"out_shape is \(8, 8.5\), but must be integers"),
        (
            lambda: convolved(out_shape=(8, 8, 8)),
            ValueError,
            "weight's modes has 2 entries and out_shape has 3, but both",
        ),
        (
            lambda: convolved(axes=(1, 2)),
            ValueError,
            r"axes is \(1, 2\), but must name the last 2 of x, with the channel",
        ),
        (
            lambda: convolved((8, 8)),
            ValueError,
            r"x has shape \(8, 8\), but must have a channel axis before its 2 transformed axes; add one",
        ),
        (lambda: convolved((8,)), ValueError, "x has 1 dimensions, but must have at least 2 to match weight's modes"),
        (lambda: convolved((2, 3, 0, 8)), ValueError, "with length 0 along axis 2, but must have length 1 or more"),
        (lambda: convolved(depthwise="yes"), TypeError, "depthwise is 'yes', but must be True or False"),
        (lambda: convolved(backend="cupy"), TypeError, "backend is 'cupy', which runs on cuda arrays"),
        (lambda: convolved(out=np.ones((2, 3, 8, 8))), ValueError, r"out has shape \(2, 3, 8, 8\)"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_out_shape_forms(rng):
    x, weight = rng.standard_normal((1, 8, 8)), complex_normal(rng, 1, 1, 3, 3)
    expected = spectral_conv(x, weight, out_shape=(6, 6))
    for sizes in (6, np.int32(6), [6, 6], np.array([6, 6])):
        assert np.array_equal(spectral_conv(x, weight, out_shape=sizes), expected)


@pytest.mark.parametrize(
    ("grid", "target", "modes"),
    [((63,), (7,), (3,)), ((61,), (1,), (1,)), ((64,), (16,), (4,)), ((12, 20), (6, 7), (4, 3))],
    ids=str,
)
def test_nothing_is_left_of_an_earlier_call(grid, target, modes, rng) -> None:
    """A NaN of one call must not come back in the next one's result by way of memory that both use."""
    x = rng.standard_normal((4, 5, *grid)).astype(np.float32)
    weight = (rng.standard_normal((5, 2, *modes)) + 1j).astype(np.complex64)
    spectral_conv(np.full((8, 8, 2048), np.nan, np.float32), np.full((8, 8, 200), np.nan, np.complex64))
    y = spectral_conv(x, weight, out_shape=target)
    expected = spectral_conv(x, weight, out_shape=target, backend="reference")
    np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
