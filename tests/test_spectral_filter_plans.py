"""spectral_filter: plans, words, adjoints, engines, and every bad argument with its message."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from support import complex_normal

from spectralops import fourier_resample, plan_spectral_filter, spectral_filter, transfer
from spectralops._arrays import ArraySpec
from spectralops._cpu.blocks import run
from spectralops.errors import UnsupportedError

BACKENDS = ["cpu", "numpy", "reference"]


def test_plan_of_a_real_filter():
    plan = plan_spectral_filter((4, 6, 8), "float32", ArraySpec((6, 5), "complex128"), spacing=(0.5, 2))
    assert plan.op == "spectral_filter"
    assert plan.backend == "cpu"
    assert plan.in_shape == plan.out_shape == (4, 6, 8)
    assert (plan.out_dtype, plan.compute_dtype) == ("float32", "float32")
    assert [(o.name, o.compute) for o in plan.operands] == [("x", "float32"), ("transfer", "complex64")]
    assert (plan.axes, plan.sizes, plan.batch) == ((1, 2), (6, 8), 4)
    assert plan.spectrum_shape == (4, 6, 5)
    assert plan.grid.spacing == (0.5, 2.0)
    assert plan.halo == ()
    assert plan.in_place is False
    assert plan.padded is False
    assert plan.conjugate is False
    assert plan.bytes_moved == 2 * 4 * 192 + 16 * 30
    assert plan.flops == 4 * 2 * round(2.5 * 48 * np.log2(48)) + 6 * 4 * 30
    assert plan.index_bits == 32
    assert plan.block == 2**20 // (30 * 8)
    assert hash(plan) == hash(pickle.loads(pickle.dumps(plan)))


def test_plan_of_a_complex_filter():
    plan = plan_spectral_filter((4, 6, 8), "complex128", ArraySpec((6, 1), "bool"), axes=0)
    assert plan.spectrum_shape == (4, 6, 8)
    assert plan.operands[1].compute == "float64"
    assert plan.flops == 48 * 2 * (5 * 4 * 2) + 6 * 192
    assert plan.block == 2**22 // (4 * 16)
    assert plan.bytes_moved == 2 * 16 * 192 + 6


def test_plan_of_16_bit_storage():
    plan = plan_spectral_filter((8, 8), "bfloat16", ArraySpec((8, 1), "float16"))
    assert (plan.out_dtype, plan.compute_dtype, plan.operands[0].compute) == ("bfloat16", "float32", "float32")
    assert plan.operands[1].compute == "float32"
    assert plan.bytes_moved == 2 * 2 * 64 + 2 * 8


@pytest.mark.parametrize("shape", [(2**29,), (2**30, 4)])
def test_offsets_count_the_spectrum_as_real_numbers(shape):
    plan = plan_spectral_filter(shape, "complex64", transfer.gaussian(1.0), axes=-1)
    assert plan.index_bits == (32 if len(shape) == 1 else 64)


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["array", "factors", "callable", "value", "zero-padded"])
def test_adjoint(kind, backend, case, rng):
    shape = (2, 6, 5)
    make = complex_normal if kind == "complex128" else lambda rng, *shape: rng.standard_normal(shape)
    width = 2 if case == "zero-padded" else 0
    probe = plan_spectral_filter(shape, kind, transfer.gaussian(1.0), pad_width=width).spectrum_shape
    h = {
        "array": complex_normal(rng, *probe[1:]),
        "zero-padded": complex_normal(rng, *probe[1:]),
        "factors": (complex_normal(rng, probe[1], 1), complex_normal(rng, probe[2])),
        "callable": lambda k, m: np.exp(1j * k) + m,
        "value": transfer.shift((0.3, 0.7)),
    }[case]
    arrays = h if isinstance(h, tuple) else (h,) if isinstance(h, np.ndarray) else ()
    plan = plan_spectral_filter(shape, kind, h, pad_width=width, backend=backend)
    x, y = make(rng, *shape), make(rng, *shape)
    adjoint = plan.adjoint()
    for _ in range(2):  # the engine knows a plan again
        left, right = np.vdot(plan(x, *arrays), y), np.vdot(x, adjoint(y, *arrays))
        assert abs(left - right) < 1e-12 * np.linalg.norm(x) * np.linalg.norm(y)
    assert not np.allclose(plan(y, *arrays), adjoint(y, *arrays))
    assert adjoint.adjoint() == plan


def test_the_adjoint_takes_what_the_operator_gives():
    plan = plan_spectral_filter((4,), "int32", ArraySpec((3,), "complex64")).adjoint()
    assert [(o.name, o.spec.dtype, o.compute) for o in plan.operands] == [
        ("x", "float64", "float64"),
        ("transfer", "complex64", "complex128"),
    ]


def test_padding_that_repeats_values_has_no_adjoint_plan():
    plan = plan_spectral_filter((8,), "float64", transfer.gaussian(1.0), pad_width=2, pad_mode="edge")
    with pytest.raises(UnsupportedError, match="pad_mode is 'edge', but must be 'zero' for a plan that has an adjoint"):
        plan.adjoint()
    assert plan_spectral_filter((8,), "float64", transfer.gaussian(1.0), pad_mode="edge").adjoint().conjugate


def test_explain_says_what_runs():
    text = plan_spectral_filter((4, 6, 8), "float16", transfer.gaussian(1.0)).explain()
    assert text.splitlines() == [
        "spectral_filter: float16 (4, 6, 8) on backend 'cpu', arithmetic in float32",
        "  transforms: 4 real, size 6 x 8, along axes (1, 2), half spectrum on axis 2",
        "  padding: none (periodic)",
        "  transfer: Gaussian(decay=(0.5,)), sampled on the host and cached",
        "  runs: vector engine, compiled on first use: transform, product and inverse fused, one image at a "
        "time in cache, shared among workers",
        "  moves at least 768 bytes, 6080 operations, 32-bit offsets",
    ]


def test_explain_says_why_the_engine_is_not_used(monkeypatch):
    """Lengths with other primes, more than three axes, or switched off; one axis is named as rows."""
    side_by_side = "as many rows as a vector has lanes at a time in cache, shared among workers"
    spread = "one row, spread over a vector's lanes, at a time in cache, shared among workers"
    monkeypatch.setattr("spectralops._cpu.vector.caches.last_cache", lambda: 1 << 22)

    def runs(*shape, axes=None, h=None):
        text = plan_spectral_filter(shape, "float64", h or transfer.gaussian(1.0), axes=axes).explain()
        return next(line for line in text.splitlines() if "runs:" in line)

    words = "runs: scipy.fft (length 1042 has the prime factor 521, where the vector engine is no faster), "
    assert words in runs(2, 1042, axes=-1, h=ArraySpec((2, 522), "float64"))
    assert "scipy" not in runs(2, 1042, axes=-1, h=ArraySpec((1, 522), "float64"))
    assert "scipy" not in runs(1042, 2, axes=0, h=ArraySpec((522, 1), "float64"))
    assert runs(9, 211, axes=-1, h=ArraySpec((9, 1), "float64")).endswith("; length 211 by convolution with a chirp")
    kernel = "; length 1042 by convolution with the filter's kernel, over 2160 points"
    assert runs(64, 1042, axes=-1).endswith(side_by_side + kernel)
    assert runs(1, 4006, axes=-1).endswith(
        f"{spread}; length 4006 by convolution with the filter's kernel, over 8192 points"
    )
    assert runs(1, 1849, axes=-1).endswith(spread)
    chirps = "shared among workers; length 211, 251 by convolution with a chirp"
    assert runs(5, 211, 251, axes=(1, 2)).endswith(chirps)
    assert "chirp" not in runs(5, 101, 103, axes=(1, 2))
    assert "runs: scipy.fft (the vector engine takes 1 to 3 axes, not 4)" in runs(2, 2, 2, 2, axes=(0, 1, 2, 3))
    assert runs(12).endswith(side_by_side)
    assert runs(64, 1024, axes=-1).endswith(side_by_side)
    assert runs(2, 1024, axes=-1).endswith(spread)
    assert runs(64, 2**16, axes=-1).endswith(spread)
    assert runs(2**16, 64, axes=0).endswith(side_by_side)
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    assert "runs: scipy.fft (SPECTRALOPS_NUMBA=0 switches compiled kernels off), " in runs(12)


@pytest.mark.parametrize("shape", [(3, 12, 20), (12,), (2, 3, 10, 12)])
def test_both_engines_agree(shape, rng, monkeypatch):
    x = rng.standard_normal(shape)
    options = {"pad_width": 2, "pad_mode": "reflect"} if len(shape) == 3 else {}
    h = np.exp(-np.arange(7.0)) if len(shape) == 1 else transfer.gaussian(2.0)
    vectors = spectral_filter(x, h, **options)
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    monkeypatch.setattr("spectralops._cpu.spectral_filter._vector_filter", None)
    assert np.abs(spectral_filter(x, h, **options) - vectors).max() < 1e-14


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"transfer": ArraySpec((8, 8), "float64")},
            "transfer: array (8, 8), cast from float64 as float32 at each call",
        ),
        ({"transfer": ArraySpec((8, 8), "complex64")}, "transfer: array (8, 8)\n"),
        ({"transfer": (ArraySpec((8, 1), "float32"), ArraySpec((8,), "float32"))}, "transfer: array (8, 1), (8,)\n"),
        ({"transfer": np.hypot}, "transfer: callable hypot, evaluated on the host at each call"),
        ({"device": "cuda", "backend": "cupy"}, "sampled on the host and cached and copied to the device at each call"),
        ({"device": "cuda"}, "sampled on the host and cached there and on the device\n"),
        ({"device": "cuda", "transfer": np.hypot}, "evaluated on the host and copied to the device at each call"),
        (
            {"device": "cuda", "backend": "cupy"},
            "runs: cupyx.scipy.fft over the whole array: forward, product, inverse, one after the other\n",
        ),
        ({"backend": "numpy"}, "runs: scipy.fft over the whole array: forward, product, inverse"),
        ({"backend": "reference"}, "runs: dense matrices of the discrete Fourier transform in float64"),
        ({"pad_width": (1, 2), "pad_mode": "edge"}, "padding: edge ((1, 1), (2, 2)), cropped after"),
        ({}, "transforms: 1 complex, size 8 x 8, along axes (0, 1)\n"),
    ],
)
def test_explain_names_the_choices(options, words):
    settings = {"transfer": transfer.gaussian(1.0)} | options
    assert words in plan_spectral_filter((8, 8), "complex64", **settings).explain()


def test_explain_says_conjugated():
    plan = plan_spectral_filter((8,), "float64", transfer.shift(1.0)).adjoint()
    assert "Shift(distance=(1.0,)), sampled on the host and cached, conjugated" in plan.explain()


def filtered(shape=(8, 8), symbol=None, dtype="float64", **options):
    return spectral_filter(np.ones(shape, dtype), transfer.gaussian(1.0) if symbol is None else symbol, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: spectral_filter("field", np.ones(5)), TypeError, "spectral_filter: x is a str, but must be an array"),
        (lambda: spectral_filter(1.0, np.ones(1)), ValueError, "x has 0 dimensions, but must have at least 1"),
        (
            lambda: filtered(symbol=2.0),
            TypeError,
            "transfer is a float, but must be an array, a tuple of arrays or a call",
        ),
        (lambda: filtered(symbol=[np.ones(5)]), TypeError, "transfer is a list, but must be an array"),
        (lambda: filtered(symbol=()), ValueError, "transfer is an empty tuple, but must have one array per axis"),
        (
            lambda: filtered(symbol=(np.ones(5), 2.0)),
            TypeError,
            r"transfer\[1\] is a float, but must be an array with at",
        ),
        (lambda: filtered(symbol=np.ones(5, "O")), TypeError, "transfer has dtype object, but must be float16"),
        (
            lambda: filtered(symbol=np.ones((8, 8))),
            ValueError,
            r"transfer has shape \(8, 8\), but must broadcast against the spectrum of shape \(8, 5\); real x has 5 w",
        ),
        (
            lambda: filtered(symbol=np.ones((3, 8, 5))),
            ValueError,
            r"transfer has shape \(3, 8, 5\), but must broadcast",
        ),
        (
            lambda: filtered(symbol=np.ones((8, 5)), dtype=complex),
            ValueError,
            r"has shape \(8, 5\), but must broadcast against the spectrum of shape \(8, 8\)$",
        ),
        (
            lambda: filtered((6, 8, 8), symbol=(np.ones(5), np.ones(5))),
            ValueError,
            r"transfer\[0\] has shape \(5,\), which broadcasts along the last axis, but must lie along axis 1; "
            r"reshape it to \(5, 1\)",
        ),
        (
            lambda: filtered((2, 6, 32), symbol=np.ones((1, 7, 17)), axes=-1),
            ValueError,
            r"\(1, 7, 17\), but must broadcast against the spectrum of shape \(2, 6, 17\)",
        ),
        (
            lambda: filtered(symbol=(np.ones(5),) * 3),
            ValueError,
            "x has 2 dimensions, but must have at least 3 to match tr",
        ),
        (lambda: filtered(spacing=0.0), ValueError, "spacing is 0.0, but must be positive"),
        (lambda: filtered(spacing=(1.0, -1.0)), ValueError, "spacing is -1.0, but must be positive"),
        (lambda: filtered(spacing=np.nan), ValueError, "spacing is nan, but must be finite"),
        (
            lambda: filtered(spacing=(1.0, 1.0), axes=0),
            ValueError,
            "spacing has 2 entries, but must have 1, one per axis",
        ),
        (lambda: filtered(pad_width=-1), ValueError, r"pad_width is \(-1,\), but must not be negative"),
        (lambda: filtered(pad_width=1.5), TypeError, r"pad_width is \(1.5,\), but must be integers"),
        (
            lambda: filtered(pad_width="full"),
            ValueError,
            "pad_width is 'full', but must be 'auto' or a number of cells",
        ),
        (
            lambda: filtered(pad_width=(1, 2, 3)),
            ValueError,
            "x has 2 dimensions, but must have at least 3 to match pad_w",
        ),
        (lambda: filtered(pad_mode="wrap"), ValueError, "pad_mode is 'wrap', but must be 'zero', 'reflect' or 'edge'"),
        (lambda: filtered(axes=(0, 2)), ValueError, r"axes has 2, but must lie in \[-2, 2\)"),
        (lambda: filtered(axes=(0, 0)), ValueError, r"axes is \(0, 0\), but must not name an axis twice"),
        (
            lambda: filtered((2, 0)),
            ValueError,
            r"x has shape \(2, 0\) with length 0 along axis 1, but must have length 1",
        ),
        (lambda: filtered(backend="fast"), ValueError, "backend is 'fast', but must be 'cpu'"),
        (lambda: filtered(backend="cupy"), TypeError, "backend is 'cupy', which runs on cuda arrays"),
        (lambda: filtered(workers=0), ValueError, "workers is 0, but must be at least 1"),
        (lambda: filtered(out=np.ones((8, 9))), ValueError, r"out has shape \(8, 9\)"),
        (lambda: filtered(symbol=lambda k: 1.0), TypeError, "argument"),
        (
            lambda: filtered(symbol=lambda k, m: [1.0]),
            TypeError,
            "transfer returned a list, but must return NumPy arrays or numbers",
        ),
        (
            lambda: filtered(symbol=lambda k, m: np.array("one")),
            TypeError,
            "transfer returned a ndarray, but must return",
        ),
        (
            lambda: filtered(symbol=lambda k, m: np.ones((8, 8))),
            ValueError,
            r"transfer returned an array of shape \(8, 8\), but must broadcast",
        ),
        (
            lambda: filtered(symbol=lambda k, m: np.where(k == 0, np.nan, k)),
            ValueError,
            "transfer returned nan, but must be finite at every wavenumber; choose a value there",
        ),
        (
            lambda: plan_spectral_filter((8,), "float32", np.hypot, device="tpu"),
            ValueError,
            "device is 'tpu', but must be",
        ),
        (
            lambda: plan_spectral_filter((8.0,), "float32", np.hypot),
            TypeError,
            r"shape is \(8.0,\), but must be integers",
        ),
        (lambda: plan_spectral_filter((8,), "longdouble", np.hypot), TypeError, "x has dtype"),
        (lambda: plan_spectral_filter((8,), "S4", np.hypot), TypeError, "x has dtype bytes32, but must be float16"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("first", [(1, 1.0), (1.0, 1)])
def test_an_error_does_not_depend_on_what_was_planned_before(first):
    """1 and 1.0 are equal and hash alike, but only one of them is an axis."""
    for axis in first:
        if isinstance(axis, int):
            assert filtered(axes=(axis,)).shape == (8, 8)
            assert filtered(axes=axis).shape == (8, 8)
        else:
            with pytest.raises(TypeError, match="but must be integers"):
                filtered(axes=(axis,))
            with pytest.raises(TypeError, match="but must be integers"):
                filtered(axes=axis)


def test_lists_of_options_are_as_good_as_tuples(rng):
    x = rng.standard_normal((4, 6, 5))
    expected = spectral_filter(x, transfer.gaussian(1.0), axes=(0, 2), spacing=(1.0, 2.0))
    assert np.array_equal(spectral_filter(x, transfer.gaussian(1.0), axes=[0, 2], spacing=[1.0, 2.0]), expected)


def test_out_may_not_be_x(rng):
    x = rng.standard_normal((4, 4))
    with pytest.raises(ValueError, match="out overlaps"):
        spectral_filter(x, transfer.gaussian(1.0), out=x)


def test_plans_do_not_keep_callables_alive():
    """A callable may close over large arrays; only the caller's plan holds it."""
    import gc
    import weakref

    def make():
        def symbol(k):
            return np.exp(-(k**2))

        return symbol

    symbol = make()
    alive = weakref.ref(symbol)
    filtered((8,), symbol)
    del symbol
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("batch", "workers", "expected"), [(8, 2, (2, 2)), (7, 3, (3, 3)), (2, 2, (2, 2)), (1, 4, (1, 1))]
)
def test_blocks_are_shared_among_workers(batch, workers, expected, monkeypatch):
    """As many blocks as workers where there are images enough; a lone image leaves the threads to its transforms."""
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    seen = []

    def recorded(task, items, threads):
        seen.append((len(items), threads))
        run(task, items, threads)

    monkeypatch.setattr("spectralops._cpu.spectral_filter.run", recorded)
    monkeypatch.setattr("spectralops._cpu.resample.run", recorded)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    x = np.ones((batch, 4, 4))
    spectral_filter(x, transfer.gaussian(1.0), workers=workers)
    fourier_resample(x, (6, 6), workers=workers)
    assert seen == [expected, (expected[0], workers)]


def test_pad_width_must_not_be_an_array():
    message = r"^spectral_filter: pad_width is .*, but must be integers$"
    with pytest.raises(TypeError, match=message):
        spectral_filter(np.ones((4, 4)), transfer.laplacian(), pad_width=np.array([1, 2]))


def test_blocks_take_no_more_threads_than_there_are_items(monkeypatch) -> None:
    from spectralops._cpu import blocks as module

    asked = []

    class Pool(module.ThreadPoolExecutor):
        def __init__(self, count: int) -> None:
            asked.append(count)
            super().__init__(count)

    monkeypatch.setattr(module, "ThreadPoolExecutor", Pool)
    done: list[int] = []
    run(done.append, [1, 2, 3], 8)
    run(done.append, [4, 5, 6], 2)
    assert asked == [3, 2]
    assert sorted(done) == [1, 2, 3, 4, 5, 6]


def test_large_images_are_told_from_small_ones() -> None:
    """Those whose filter would fill a quarter of what is kept, one or two of them."""

    def runs(*shape: int, dtype: str = "float32", d: int = 2) -> str:
        return plan_spectral_filter(shape, dtype, transfer.gaussian(1.0), axes=tuple(range(-d, 0))).explain()

    parts = "the filter laid out in parts as they are used, the spectrum in the result's memory"
    assert parts in runs(4096, 4096)
    assert parts in runs(2, 4096, 4096)
    assert parts in runs(2048, 2064, dtype="complex64")
    assert parts in runs(512, 512, 512, d=3)
    for small in (runs(3, 4096, 4096), runs(2048, 2048, dtype="complex64"), runs(2**26, d=1)):
        assert parts not in small
