"""Filters on the vector engine against scipy.fft in float64: every way through the kernels."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
from support import random_array
from vector_filters import DTYPES, Axes, check, filtered, poison_scratch, shared_transfer

from spectralops._cpu.vector import caches, choice, filters, routes, tables

CASES: list[tuple[tuple[int, ...], Axes]] = [
    # images: even and odd rows, whole vectors and tails, fewer columns than lanes, one row, one column, one pixel
    ((3, 16, 24), (-2, -1)),
    ((2, 15, 20), (-2, -1)),
    ((1, 9, 7), (-2, -1)),
    ((2, 36, 50), (-2, -1)),
    ((2, 21, 33 - 3), (-2, -1)),
    ((4, 2, 30), (-2, -1)),
    ((3, 7, 1), (-2, -1)),
    ((3, 1, 12), (-2, -1)),
    ((2, 1, 1), (-2, -1)),
    ((1, 128, 96), (-2, -1)),
    ((96, 128), (-2, -1)),
    # rows: whole groups and tails of the batch, even and odd
    ((5, 64), (-1,)),
    ((20, 100), (-1,)),
    ((20, 45), (-1,)),
    ((16, 2), (-1,)),
    ((4, 1), (-1,)),
    ((17, 3), (-1,)),
    ((40,), (-1,)),
    ((2, 3, 4, 30), (3,)),
    # rows of which a group leaves the first-level cache
    ((9, 1000), (-1,)),
    ((8, 4096), (-1,)),
    ((9, 1470), (-1,)),
    ((9, 2700), (-1,)),
    # long rows spread over the lanes
    ((3, 1000), (-1,)),
    ((2, 945), (-1,)),
    ((2, 1215), (-1,)),
    ((1, 4096), (-1,)),
    ((1024,), (0,)),
    ((1, 2401), (-1,)),
    ((9, 6000), (-1,)),
    # an axis that is not the last: its neighbours are the lanes, or there are too few
    ((3, 12, 20), (-2,)),
    ((3, 15, 20), (1,)),
    ((15, 9), (0,)),
    ((2, 12, 3), (1,)),
    ((6, 5, 7, 4), (1,)),
    # volumes: even and odd, tails on both inner axes
    ((2, 12, 10, 14), (-3, -2, -1)),
    ((2, 5, 9, 3), (-3, -2, -1)),
    ((1, 16, 16, 16), (-3, -2, -1)),
    ((6, 1, 8), (0, 1, 2)),
    ((1, 1, 1, 1), (-3, -2, -1)),
    # lengths with other prime factors, on every axis
    ((3, 22, 26), (-2, -1)),
    ((2, 11, 13), (-2, -1)),
    ((2, 12, 17), (-2, -1)),
    ((2, 19, 12), (-2, -1)),
    ((9, 31), (-1,)),
    ((9, 38), (-1,)),
    ((3, 34, 20), (1,)),
    ((2, 37, 20), (1,)),
    ((2, 11, 10, 13), (-3, -2, -1)),
    ((1, 22, 11, 4), (-3, -2, -1)),
    # rows and columns of such lengths by convolution: side by side, spread over the lanes, even and odd
    ((9, 254), (-1,)),
    ((3, 2, 131), (-1,)),
    ((1, 2 * 571), (-1,)),
    ((2, 1031), (-1,)),
    ((2, 127, 9), (1,)),
    ((262, 5), (0,)),
    # axes apart and out of order
    ((2, 6, 5), (0, 2)),
    ((12, 3, 10), (2, 0)),
    ((6, 5, 3, 2), (2, 0, 1)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axes"), CASES, ids=lambda value: "x".join(map(str, value)))
def test_is_the_plain_pipeline(rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, dtype: str) -> None:
    """Also for filters that are not Hermitian: what a real signal cannot have is dropped exactly as irfftn does."""
    x = random_array(rng, shape, dtype)
    check(x, shared_transfer(rng, x, axes), axes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 16, 20), (1, 2)),
        ((2, 9, 10), (1, 2)),
        ((9, 30), (1,)),
        ((9, 15), (1,)),
        ((1, 1500), (1,)),
        ((9, 127), (1,)),
        ((1, 521), (1,)),
        ((6, 8, 10), (0, 1, 2)),
    ],
    ids=lambda value: "x".join(map(str, value)),
)
def test_real_transfer(rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, dtype: str) -> None:
    x = random_array(rng, shape, dtype)
    check(x, shared_transfer(rng, x, axes, real=True), axes)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((7, 16, 20), (1, 2)),
        ((1, 30, 40), (1, 2)),
        ((1, 35, 18), (1, 2)),
        ((1, 12, 10, 14), (1, 2, 3)),
        ((40, 64), (1,)),
        ((2, 1920), (1,)),
        ((7, 521), (1,)),
        ((1, 22, 33), (1, 2)),
        ((5, 12, 20), (1,)),
        ((1, 4, 4), (1, 2)),
    ],
    ids=lambda value: "x".join(map(str, value)),
)
def test_workers_change_nothing(
    rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, dtype: str, workers: int
) -> None:
    x = random_array(rng, shape, dtype)
    transfer = shared_transfer(rng, x, axes)
    np.testing.assert_array_equal(filtered(x, transfer, axes, workers), filtered(x, transfer, axes))


@pytest.mark.parametrize(
    ("name", "transfer_shape"),
    [
        ("scalar-like", (1, 1)),
        ("rows", (16, 1)),
        ("columns", (1, 11)),
        ("per-image", (6, 16, 11)),
        ("per-second-batch-axis", (1, 3, 16, 11)),
        ("per-first-batch-axis", (2, 1, 16, 11)),
        ("all", (2, 3, 16, 11)),
        ("per-image-rows", (3, 16, 1)),
    ],
)
def test_transfers_broadcast(rng: np.random.Generator, name: str, transfer_shape: tuple[int, ...]) -> None:
    x = random_array(rng, (2, 3, 16, 20) if name != "per-image" else (6, 16, 20), "float64")
    check(x, random_array(rng, transfer_shape, "complex128"), (-2, -1))


def test_per_row_transfers(rng: np.random.Generator) -> None:
    x = random_array(rng, (3, 4, 30), "float64")
    check(x, random_array(rng, (4, 16), "complex128"), (-1,))


def test_per_column_transfers(rng: np.random.Generator) -> None:
    x = random_array(rng, (2, 30, 9), "float64")
    check(x, random_array(rng, (16, 9), "complex128"), (-2,))


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "fortran": np.asfortranarray,
    "sliced-columns": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "sliced-batch": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed-batch": lambda x: x[::-1].copy()[::-1],
    "reversed-columns": lambda x: x[..., ::-1].copy()[..., ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
}


@pytest.mark.parametrize("shape", [(4, 12, 10), (20, 30), (3, 1024)], ids=["images", "rows", "long"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_x(rng: np.random.Generator, layout: str, shape: tuple[int, ...]) -> None:
    x = LAYOUTS[layout](random_array(rng, shape, "float32"))
    x.flags.writeable = False
    axes = (-2, -1) if len(shape) == 3 else (-1,)
    check(x, shared_transfer(rng, x, axes), axes)


@pytest.mark.parametrize("layout", ["fortran", "sliced-columns", "reversed-columns"])
def test_layouts_of_the_transfer(rng: np.random.Generator, layout: str) -> None:
    x = random_array(rng, (3, 12, 10), "float64")
    check(x, LAYOUTS[layout](shared_transfer(rng, x, (1, 2))), (1, 2))


@pytest.mark.parametrize("shape", [(0, 8, 6), (3, 0, 6), (2, 8, 0)])
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    out = np.zeros(shape)
    filters.filter_axes(np.zeros(shape), np.ones((1, 1)), out, (-2, -1), 2)
    assert out.shape == shape


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 16, 20), (1, 2)),
        ((3, 15, 20), (1, 2)),
        ((20, 30), (1,)),
        ((20, 15), (1,)),
        ((3, 1200), (1,)),
        ((3, 6, 5, 4), (1, 2, 3)),
        ((2, 9, 24), (1,)),
        ((2, 8, 24), (1,)),
        ((20, 22), (1,)),
        ((20, 11), (1,)),
        ((20, 127), (1,)),
        ((3, 521), (1,)),
        ((3, 11, 13), (1, 2)),
    ],
    ids=lambda value: "x".join(map(str, value)),
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_non_finite_values_stay_in_their_transform(
    rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, value: float, dtype: str
) -> None:
    x = random_array(rng, shape, dtype)
    transfer = shared_transfer(rng, x, axes)
    clean = filtered(x, transfer, axes)
    place = (1, *(1 for _ in shape[1:]))
    x[place] = value
    spoilt = filtered(x, transfer, axes)
    own = np.zeros(shape, bool)
    own[tuple(slice(None) if axis in axes else 1 for axis in range(len(shape)))] = True
    np.testing.assert_array_equal(spoilt[~own], clean[~own])
    assert not np.isfinite(spoilt[own]).any()


def test_constant_and_wave_are_multiplied_by_their_factors() -> None:
    """Closed form: cos(2π·3 i/32) cos(2π·5 j/40) times the value of the filter at (3, 5)."""
    i, j = np.arange(32)[:, None], np.arange(40)
    wave = np.cos(2 * np.pi * 3 * i / 32) * np.cos(2 * np.pi * 5 * j / 40)
    transfer = np.zeros((32, 21))
    transfer[[3, 29], 5] = 0.25
    transfer[0, 0] = 2.0
    np.testing.assert_allclose(filtered(7.0 + wave, transfer, (0, 1)), 14.0 + 0.25 * wave, rtol=0, atol=1e-13)


def test_one_shape_many_threads(rng: np.random.Generator) -> None:
    """Sixteen callers at once, each with its own data, get what each gets alone."""
    xs = [random_array(rng, (2, 24, 20), "float64") for _ in range(16)]
    transfer = random_array(rng, (24, 11), "complex128")
    alone = [filtered(x, transfer, (1, 2)) for x in xs]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda x: filtered(x, transfer, (1, 2), 2), xs))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


def test_poisoned_scratch_changes_nothing(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels never read scratch memory that they did not write."""
    cases: list[tuple[tuple[int, ...], Axes]] = [((3, 15, 21), (1, 2)), ((13, 30), (1,)), ((2, 6, 10, 7), (1, 2, 3))]
    cases += [((9, 127), (1,)), ((9, 254), (1,)), ((254, 9), (0,)), ((3, 521), (1,))]
    data = [(x := random_array(rng, shape, "float32"), shared_transfer(rng, x, axes), axes) for shape, axes in cases]
    clean = [filtered(*arguments) for arguments in data]

    poison_scratch(monkeypatch)
    for arguments, expected in zip(data, clean, strict=True):
        np.testing.assert_array_equal(filtered(*arguments), expected)


@pytest.mark.parametrize(("n", "expected"), [(1024, (32, 32)), (945, (27, 35)), (1000, (25, 40)), (7, (1, 7))])
def test_long_transforms_are_split_nearly_square(n: int, expected: tuple[int, int]) -> None:
    a, b = choice.split(n, 8)
    assert a * b == n
    assert (a, b) == expected


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("n", [1024, 521], ids=["smooth", "convolved"])
def test_rows_are_spread_where_their_groups_leave_the_cache(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, n: int, dtype: str
) -> None:
    """However many there are, also where only few have room at a time."""
    monkeypatch.setattr(caches, "last_cache", lambda: 1 << 16)
    monkeypatch.setattr(routes, "ROWS_BYTES", 1 << 15)
    routes.route.cache_clear()
    routes._one_axis.cache_clear()
    x = random_array(rng, (17, n), dtype)
    transfer = shared_transfer(rng, x, (1,))
    check(x, transfer, (1,))
    np.testing.assert_array_equal(filtered(x, transfer, (1,), 3), filtered(x, transfer, (1,)))
    assert isinstance(routes.route((n,), x.dtype.char, 1, routes.several(17, x.dtype.char)), routes.Spread)
    routes.route.cache_clear()
    routes._one_axis.cache_clear()


def test_last_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest that the system names; a usual size where it names none."""
    monkeypatch.setattr(caches, "CACHES", tmp_path)
    found = caches.last_cache.__wrapped__
    assert found() == 1 << 23
    for index, text in enumerate(("48K\n", "2M\n", "garbage", "1024K\n", "")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(text)
    assert found() == 2 << 20


def test_a_filter_of_a_convolution_is_found_once(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel takes as long as a transform: it is known again by its content."""
    calls: list[int] = []
    make = tables.convolution_filter
    monkeypatch.setattr(tables, "convolution_filter", lambda *given: calls.append(given[1]) or make(*given))
    for shape in ((9, 137), (1, 523)):
        x = random_array(rng, shape, "float64")
        transfer = shared_transfer(rng, x, (1,))
        check(x, transfer, (1,))
        check(x, transfer, (1,))
    assert calls == [137, 523]


def test_completed_spectrum_is_that_of_the_real_filter(rng: np.random.Generator) -> None:
    for n in (7, 8):
        half: Any = random_array(rng, (n // 2 + 1,), "complex128")
        np.testing.assert_allclose(routes.completed(half, n), scipy.fft.fft(scipy.fft.irfft(half, n)), atol=1e-14)
