"""Lone transforms on the vector engine against scipy.fft in float64, and where spectralops.fft uses them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import scipy.fft
from support import assert_close, random_array, tolerance
from vector_filters import poison_scratch

import spectralops.fft
from spectralops._cpu.vector import transforms, workspace
from spectralops.fft import _vectors

COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}
CASES = [
    # rows: whole groups and tails, even, odd and prime
    ((5, 16), (1,)),
    ((9, 30), (1,)),
    ((20, 45), (1,)),
    ((17, 22), (1,)),
    ((33, 2), (1,)),
    ((4, 1), (1,)),
    ((9, 13), (1,)),
    # images and volumes, several of them to a chunk and not
    ((3, 16, 24), (1, 2)),
    ((2, 15, 21), (1, 2)),
    ((3, 11, 26), (1, 2)),
    ((2, 6, 10, 7), (1, 2, 3)),
    ((33, 2), (0, 1)),
    ((8, 12), (0, 1)),
    # axes apart
    ((2, 6, 10, 8), (1, 3)),
]
COLUMNS = [((4, 12, 9), (1,)), ((15, 40), (0,)), ((2, 6, 5, 7), (1, 2)), ((2, 22, 3), (1,))]


def sizes_of(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[int]:
    return [shape[axis] for axis in axes]


def bound(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> float:
    return tolerance(dtype, int(np.prod(sizes_of(shape, axes))))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["forward", "inverse"])
@pytest.mark.parametrize(("shape", "axes"), CASES + COLUMNS, ids=lambda value: "x".join(map(str, value)))
def test_complex_transforms(
    rng: np.random.Generator, shape: tuple[int, ...], axes: tuple[int, ...], kind: str, dtype: str, workers: int
) -> None:
    x = random_array(rng, shape, COMPLEX_OF[dtype])
    out = np.full(shape, np.nan, x.dtype)
    transforms.transform(kind, x, out, shape, axes, 0.25, workers)
    wide = x.astype(complex)
    whole = np.prod(sizes_of(shape, axes))
    expected = scipy.fft.fftn(wide, axes=axes) if kind == "forward" else whole * scipy.fft.ifftn(wide, axes=axes)
    assert_close(out, 0.25 * expected, bound(dtype, shape, axes))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axes"), CASES, ids=lambda value: "x".join(map(str, value)))
def test_real_transforms(
    rng: np.random.Generator, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, workers: int
) -> None:
    """Forward of any, inverse of any half spectrum: what a real signal cannot have is ignored as irfftn does."""
    x = random_array(rng, shape, dtype)
    half = scipy.fft.rfftn(x.astype(float), axes=axes)
    out = np.full(half.shape, np.nan, COMPLEX_OF[dtype])
    transforms.transform("from_real", x, out, shape, axes, 3.0, workers)
    assert_close(out, 3.0 * half, bound(dtype, shape, axes))
    spectrum = random_array(rng, half.shape, COMPLEX_OF[dtype])
    before = spectrum.copy()
    back = np.full(shape, np.nan, dtype)
    sizes = sizes_of(shape, axes)
    transforms.transform("to_real", spectrum, back, shape, axes, 1.0 / np.prod(sizes), workers)
    assert_close(back, scipy.fft.irfftn(spectrum.astype(complex), sizes, axes), bound(dtype, shape, axes))
    np.testing.assert_array_equal(spectrum, before)


def test_images_are_transformed_in_chunks(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(rng, (7, 6, 10), "complex128")
    whole = np.empty_like(x)
    transforms.transform("forward", x, whole, x.shape, (1, 2), 1.0, 1)
    for chunk in (1, 2 * 60 * 16):
        monkeypatch.setattr(transforms, "CHUNK_BYTES", chunk)
        for workers in (1, 2):
            parts = np.full_like(x, np.nan)
            transforms.transform("forward", x, parts, x.shape, (1, 2), 1.0, workers)
            np.testing.assert_array_equal(parts, whole)


def test_scratch_is_never_read_before_it_is_written(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    poison_scratch(monkeypatch)
    x = random_array(rng, (3, 15, 21), "float32")
    out = np.empty((3, 15, 11), "complex64")
    transforms.transform("from_real", x, out, x.shape, (1, 2), 1.0, 1)
    assert np.isfinite(out).all()


def test_nan_stays_in_its_row(rng: np.random.Generator) -> None:
    x = random_array(rng, (20, 64), "float32")
    clean, spoilt = (np.empty((20, 33), "complex64") for _ in range(2))
    transforms.transform("from_real", x, clean, x.shape, (1,), 1.0, 1)
    x[7, 3] = np.nan
    transforms.transform("from_real", x, spoilt, x.shape, (1,), 1.0, 1)
    others = np.arange(20) != 7
    np.testing.assert_array_equal(spoilt[others], clean[others])
    assert np.isnan(spoilt[7]).all()


# spectralops.fft


@pytest.fixture
def engine_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the transforms that the engine ran."""
    calls: list[str] = []
    original = transforms.transform

    def counted(kind: str, *arguments: Any) -> None:
        calls.append(kind)
        original(kind, *arguments)

    monkeypatch.setattr(transforms, "transform", counted)
    return calls


NORMS = [None, "backward", "ortho", "forward"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("op", "shape", "options"),
    [
        ("fft", (64, 256), {}),
        ("ifft", (64, 256), {}),
        ("fft", (256, 64), {"axis": 0}),
        ("fft2", (4, 64, 64), {}),
        ("ifft2", (4, 64, 64), {"axes": (1, 2)}),
        ("fftn", (16, 32, 48), {}),
        ("ifftn", (16, 32, 48), {"axes": (0, 2)}),
        ("fftn", (16, 32, 48), {"s": (32, 48)}),
        ("irfft", (64, 257), {}),
        ("irfft", (64, 255), {"n": 509}),
        ("irfft2", (4, 64, 129), {}),
        ("irfftn", (16, 32, 64), {"s": (16, 32, 127)}),
    ],
    ids=str,
)
def test_the_engine_is_scipy(
    rng: np.random.Generator,
    engine_calls: list[str],
    op: str,
    shape: tuple[int, ...],
    options: dict[str, Any],
    dtype: str,
    norm: Any,
) -> None:
    x = random_array(rng, shape, dtype)
    before = x.copy()
    result = getattr(spectralops.fft, op)(x, norm=norm, **options)
    expected = getattr(scipy.fft, op)(x.astype(complex), norm=norm, **options)
    assert len(engine_calls) == 1
    real = {"complex64": "float32", "complex128": "float64"}[dtype]
    assert result.dtype == (real if op.startswith("ir") else dtype)
    assert result.flags.c_contiguous
    assert_close(result, expected, tolerance(dtype, x.size))
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "shape", "options"),
    [
        ("rfft", (64, 512), {}),
        ("rfft", (128, 251), {"axis": 1}),
        ("rfft2", (5, 64, 64), {}),
        ("rfftn", (16, 32, 48), {"workers": 2}),
        ("rfftn", (16, 32, 48), {"axes": (0, 2), "workers": -1}),
    ],
    ids=str,
)
def test_the_engine_is_scipy_on_real_arrays(
    rng: np.random.Generator,
    engine_calls: list[str],
    op: str,
    shape: tuple[int, ...],
    options: dict[str, Any],
    dtype: str,
    norm: Any,
) -> None:
    x = random_array(rng, shape, dtype)
    result = getattr(spectralops.fft, op)(x, norm=norm, **options)
    expected = getattr(scipy.fft, op)(x.astype(float), norm=norm, **options)
    assert engine_calls == ["from_real"]
    assert result.dtype == COMPLEX_OF[dtype]
    assert_close(result, expected, tolerance(dtype, x.size))


@pytest.mark.parametrize(
    ("op", "x", "options"),
    [
        ("fft", np.ones((64, 256)), {}),
        ("hfft", np.ones((64, 256), complex), {}),
        ("fft", np.ones((64, 256), complex)[:, ::2], {}),
        ("fft", np.ones((64, 256), complex).T, {}),
        ("fft", np.ones((64, 256), ">c16"), {}),
        ("fft", np.ones((64, 256), "clongdouble"), {}),
        ("fft", np.ones((4, 256), complex), {}),
        ("fft", np.ones((64, 256), complex), {"n": 255}),
        ("fft", np.ones((64, 256), complex), {"n": 257}),
        ("rfft", np.ones((256, 128)), {"axis": 0}),
        ("irfft", np.ones((64, 257), complex), {"n": 500}),
        ("rfft", np.ones((256, 1875), "float32"), {}),
    ],
    ids=lambda value: str(getattr(value, "shape", value)),
)
def test_everything_else_is_scipys(engine_calls: list[str], op: str, x: np.ndarray, options: dict[str, Any]) -> None:
    result = getattr(spectralops.fft, op)(x, **options)
    np.testing.assert_array_equal(result, getattr(scipy.fft, op)(x, **options))
    assert engine_calls == []


@pytest.mark.parametrize(
    ("op", "options"),
    [
        ("fft", {"axis": 2}),
        ("fft", {"n": 0}),
        ("fft", {"n": 1.5}),
        ("fft", {"norm": "other"}),
        ("fft", {"workers": 0}),
        ("fft", {"workers": -1000}),
        ("fftn", {"axes": (0, 5)}),
        ("rfft", {}),
    ],
    ids=str,
)
def test_errors_are_the_same_above_and_below_the_threshold(op: str, options: dict[str, Any]) -> None:
    messages = []
    for n in (8, 256):
        with pytest.raises((TypeError, ValueError, IndexError)) as caught:
            getattr(spectralops.fft, op)(np.ones((64, n), complex), **options)
        messages.append((caught.type, str(caught.value).replace("(64, 8)", "(64, 256)")))
    assert messages[0] == messages[1]


class Recorder:
    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(method: Any, arguments: Any, options: Any) -> str:
        return "theirs"


def test_a_backend_of_scipy_sees_large_arrays_too(engine_calls: list[str]) -> None:
    x = np.ones((64, 256), complex)
    with scipy.fft.set_backend(Recorder):
        assert spectralops.fft.fft(x) == "theirs"
    assert engine_calls == []
    spectralops.fft.fft(x)
    assert engine_calls == ["forward"]


def test_a_global_backend_of_scipy_sees_large_arrays_too() -> None:
    x = np.ones((64, 256), complex)
    scipy.fft.set_global_backend(Recorder)
    try:
        assert spectralops.fft.fft(x) == "theirs"
    finally:
        scipy.fft.set_global_backend("scipy")


def test_workers_of_the_context_are_used(engine_calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = workspace.run
    monkeypatch.setattr(workspace, "run", lambda task, count, workers: (seen.append(workers), original(task, count, 1)))
    with scipy.fft.set_workers(2):
        spectralops.fft.fft(np.ones((64, 256), complex))
    assert set(seen) == {2}


def test_the_switch_reaches_the_transforms(engine_calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((64, 256), complex)
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    np.testing.assert_array_equal(spectralops.fft.fft(x), scipy.fft.fft(x))
    assert engine_calls == []
    assert "switches" in _vectors.refusal("fft", x.shape, "D", (256,), (1,))


def test_many_threads_transform_at_once(rng: np.random.Generator) -> None:
    xs = [random_array(rng, (8, 48, 40), "complex64") for _ in range(8)]
    alone = [spectralops.fft.fft2(x) for x in xs]
    together: list[Any] = [None] * len(xs)

    def work(i: int) -> None:
        together[i] = spectralops.fft.fft2(xs[i], workers=2)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)
