"""Filters on the vector engine against scipy.fft in float64: every way through the kernels."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.fft
from support import assert_close, random_array, tolerance

from spectralops._cpu.vector import choice, filters, prepared, routes, workspace

Axes = tuple[int, ...]
DTYPES = ["float32", "float64", "complex64", "complex128"]
COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
REAL_OF = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}


def spectrum_shape(x: np.ndarray, axes: Axes) -> list[int]:
    shape = list(x.shape)
    if not np.iscomplexobj(x):
        shape[axes[-1]] = shape[axes[-1]] // 2 + 1
    return shape


def shared_transfer(rng: np.random.Generator, x: np.ndarray, axes: Axes, real: bool = False) -> np.ndarray:
    """A filter without any symmetry, the same for the whole batch."""
    whole = {axis % x.ndim for axis in axes}
    shape = [n if i in whole else 1 for i, n in enumerate(spectrum_shape(x, axes))]
    return random_array(rng, tuple(shape), (REAL_OF if real else COMPLEX_OF)[str(x.dtype)])


def by_scipy(x: np.ndarray, transfer: np.ndarray, axes: Axes) -> np.ndarray:
    sizes = [x.shape[axis] for axis in axes]
    if np.iscomplexobj(x):
        return scipy.fft.ifftn(scipy.fft.fftn(x.astype(complex), axes=axes) * transfer, axes=axes)
    return scipy.fft.irfftn(scipy.fft.rfftn(x.astype(float), axes=axes) * transfer, s=sizes, axes=axes)


def filtered(x: np.ndarray, transfer: np.ndarray, axes: Axes, workers: int = 1) -> np.ndarray:
    out = np.full(x.shape, np.nan, x.dtype)
    before = x.copy(), transfer.copy()
    filters.filter_axes(x, transfer, out, axes, workers)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(transfer, before[1])
    return out


def check(x: np.ndarray, transfer: np.ndarray, axes: Axes, workers: int = 1) -> None:
    size = int(np.prod([x.shape[axis] for axis in axes]))
    assert_close(filtered(x, transfer, axes, workers), by_scipy(x, transfer, axes), tolerance(str(x.dtype), size))


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
    ((1, 2 * 571), (-1,)),
    ((1, 1031), (-1,)),
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


# Shape of x, axes, and the shape of filters that differ along the batch: every kernel, and every way to repeat them.
EACH: list[tuple[tuple[int, ...], Axes, tuple[int, ...]]] = [
    ((3, 4, 30), (-1,), (4, 1)),
    ((3, 7, 30), (-1,), (3, 1, 1)),
    ((3, 7, 15), (-1,), (3, 7, 1)),
    ((11, 2), (-1,), (11, 1)),
    ((11, 1), (-1,), (11, 1)),
    ((9, 31), (-1,), (9, 1)),
    ((9, 22), (-1,), (9, 1)),
    ((2, 9, 1000), (-1,), (9, 1)),
    ((3, 1024), (-1,), (3, 1)),
    ((3, 1215), (-1,), (3, 1)),
    ((2, 9, 6000), (-1,), (9, 1)),
    ((2, 30, 9), (-2,), (2, 1, 1)),
    ((2, 15, 9), (-2,), (1, 1, 9)),
    ((2, 3, 16, 20), (-2, -1), (3, 1, 1)),
    ((2, 3, 15, 20), (-2, -1), (2, 1, 1, 1)),
    ((2, 3, 9, 7), (-2, -1), (2, 3, 1, 1)),
    ((4, 11, 13), (-2, -1), (4, 1, 1)),
    ((2, 6, 3, 8), (1, 3), (2, 1, 3, 1)),
    ((3, 6, 5, 7), (-3, -2, -1), (3, 1, 1, 1)),
    ((3, 5, 6, 8), (-3, -2, -1), (3, 1, 1, 1)),
]


def filters_of_each(rng: np.random.Generator, x: np.ndarray, axes: Axes, batch: tuple[int, ...]) -> np.ndarray:
    """Random filters: where `batch` has ones along transformed axes, their whole spectrum."""
    spectrum = spectrum_shape(x, axes)
    first = x.ndim - len(batch)
    whole = {axis % x.ndim - first for axis in axes}
    shape = tuple(spectrum[first + i] if i in whole else n for i, n in enumerate(batch))
    return random_array(rng, shape, COMPLEX_OF[str(x.dtype)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axes", "batch"), EACH, ids=lambda value: "x".join(map(str, value)))
def test_every_transform_with_a_filter_of_its_own(
    rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, batch: tuple[int, ...], dtype: str
) -> None:
    x = random_array(rng, shape, dtype)
    transfer = filters_of_each(rng, x, axes, batch)
    check(x, transfer, axes)
    np.testing.assert_array_equal(filtered(x, transfer, axes, 3), filtered(x, transfer, axes))


@pytest.mark.parametrize(("shape", "axes", "batch"), [EACH[0], EACH[13]], ids=["rows", "images"])
def test_real_and_broadcast_filters_of_each(
    rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, batch: tuple[int, ...]
) -> None:
    x = random_array(rng, shape, "float32")
    check(x, filters_of_each(rng, x, axes, batch).real.copy(), axes)
    check(x, random_array(rng, batch, "complex64"), axes)


def test_large_images_with_filters_of_their_own(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "KEPT_BYTES", 10_000)
    routes.route.cache_clear()
    x = random_array(rng, (2, 3, 32, 40), "float32")
    check(x, filters_of_each(rng, x, (-2, -1), (3, 1, 1)), (-2, -1), 2)
    routes.route.cache_clear()


@pytest.mark.parametrize(
    ("shape", "axes", "kernel"),
    [((64, 20, 30), (-1,), "filter_each_even"), ((64, 4, 12, 10), (-2, -1), "images_each")],
)
def test_filters_of_each_are_one_call(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], axes: Axes, kernel: str
) -> None:
    """However many filters there are, the loop over them is compiled; an image's is laid out once."""
    called: list[str] = []
    find = routes.kernels.kernel

    def spy(name: str, dtype: str) -> Any:
        function = find(name, dtype)
        return lambda *arguments: called.append(name) or function(*arguments)

    monkeypatch.setattr(routes.kernels, "kernel", spy)
    routes.route.cache_clear()
    filters._direct.cache_clear()
    x = random_array(rng, shape, "float32")
    check(x, filters_of_each(rng, x, axes, (*shape[: len(shape) - len(axes)], *(1 for _ in axes))), axes)
    routes.route.cache_clear()
    filters._direct.cache_clear()
    assert called == [kernel] * len(called)
    assert len(called) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("shape", "axes", "batch"), [EACH[1], EACH[13]], ids=["rows", "images"])
def test_what_is_no_number_stays_in_its_own_transform(
    rng: np.random.Generator, shape: tuple[int, ...], axes: Axes, batch: tuple[int, ...], bad: float
) -> None:
    """Of the data of the first entry and of the filter of another."""
    x = random_array(rng, shape, "float32")
    transfer = filters_of_each(rng, x, axes, batch)
    right = filtered(x, transfer, axes)
    x[0, 0, ..., 0] = bad
    with np.errstate(invalid="ignore"):
        spoiled = filtered(x, transfer, axes)
    rest = np.ones(shape[:2], bool)
    rest[0, 0] = False
    assert not np.isfinite(spoiled[0, 0]).any()
    np.testing.assert_array_equal(spoiled[rest], right[rest])


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


def test_uneven_images_are_gathered(rng: np.random.Generator) -> None:
    """Two batch axes whose images no single step reaches, with a filter for each entry of the third."""
    x = random_array(rng, (3, 4, 5, 8, 6), "float64")[:, :3]
    check(x, random_array(rng, (5, 8, 4), "complex128"), (-2, -1))


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
    data = [(x := random_array(rng, shape, "float32"), shared_transfer(rng, x, axes), axes) for shape, axes in cases]
    clean = [filtered(*arguments) for arguments in data]

    take = workspace.take

    def poisoned(size: int) -> workspace.Buffer:
        buffer = take(size)
        buffer.owner[:] = 0xFF  # NaN in every number
        return buffer

    monkeypatch.setattr(workspace, "take", poisoned)
    for arguments, expected in zip(data, clean, strict=True):
        np.testing.assert_array_equal(filtered(*arguments), expected)


@pytest.mark.parametrize(("n", "expected"), [(1024, (32, 32)), (945, (27, 35)), (1000, (25, 40)), (7, (1, 7))])
def test_long_transforms_are_split_nearly_square(n: int, expected: tuple[int, int]) -> None:
    a, b = choice.split(n, 8)
    assert a * b == n
    assert (a, b) == expected


def test_completed_spectrum_is_that_of_the_real_filter(rng: np.random.Generator) -> None:
    for n in (7, 8):
        half: Any = random_array(rng, (n // 2 + 1,), "complex128")
        np.testing.assert_allclose(routes.completed(half, n), scipy.fft.fft(scipy.fft.irfft(half, n)), atol=1e-14)


@pytest.fixture
def no_filters_kept() -> Iterator[None]:
    prepared.clear()
    workspace.clear()
    yield
    prepared.clear()


@pytest.mark.usefixtures("no_filters_kept")
def test_a_filter_is_laid_out_once(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known again by its content, wherever it lies, and not after the caller changed one value."""
    x = random_array(rng, (2, 16, 20), "float64")
    transfer = random_array(rng, (16, 11), "complex128")
    filtered(x, transfer, (1, 2))
    assert len(prepared._kept) == 1
    check(x, transfer.copy(), (1, 2))
    assert len(prepared._kept) == 1
    transfer[7, 3] += 1.0
    check(x, transfer, (1, 2))
    assert len(prepared._kept) == 2


@pytest.mark.usefixtures("no_filters_kept")
def test_zero_and_minus_zero_are_different_filters(rng: np.random.Generator) -> None:
    x = random_array(rng, (16, 20), "float32")
    filtered(x, np.zeros((16, 11), "float32"), (0, 1))
    filtered(x, -np.zeros((16, 11), "float32"), (0, 1))
    assert len(prepared._kept) == 2


@pytest.mark.usefixtures("no_filters_kept")
def test_a_filter_with_nan_is_known_again(rng: np.random.Generator) -> None:
    x = random_array(rng, (16, 20), "float32")
    transfer = np.full((16, 11), np.nan, "float32")
    for _ in range(2):
        assert np.isnan(filtered(x, transfer, (0, 1))).all()
    assert len(prepared._kept) == 1


@pytest.mark.usefixtures("no_filters_kept")
def test_kept_filters_are_bounded(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(rng, (16, 20), "float64")
    transfers = [random_array(rng, (16, 11), "complex128") for _ in range(5)]
    filtered(x, transfers[0], (0, 1))
    one = prepared._kept[0].values.nbytes + prepared._kept[0].buffer.size
    monkeypatch.setattr(prepared, "KEPT_BYTES", 3 * one)
    for transfer in transfers:
        check(x, transfer, (0, 1))
    assert [kept.sample for kept in prepared._kept] == [
        transfer.reshape(-1)[:: transfer.size // prepared.SAMPLES + 1].tobytes() for transfer in transfers[2:]
    ]


@pytest.mark.usefixtures("no_filters_kept")
def test_a_filter_too_large_to_keep_is_given_back(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "KEPT_BYTES", 100)
    x = random_array(rng, (16, 20), "float64")
    workspace.clear()
    check(x, random_array(rng, (16, 11), "complex128"), (0, 1))
    assert prepared._kept == []
    assert len(workspace._kept) == 2


@pytest.mark.parametrize(("n", "axis"), [(24, -1), (15, -1), (24, -2)])
def test_filters_of_one_axis_are_known_by_their_content(rng: np.random.Generator, n: int, axis: int) -> None:
    """Also after the caller changed one value in place; the last two are kept."""
    x = random_array(rng, (9, n) if axis == -1 else (n, 9), "float64")
    transfer: Any = random_array(rng, (n // 2 + 1,), "complex128")
    shaped = transfer if axis == -1 else transfer[:, None]
    check(x, shaped, (axis,))
    way = routes.route((n,), "d", 1 if axis == -1 else 9, routes.several(9, "d"))
    assert isinstance(way, routes.Lines)
    before = way.known
    check(x, shaped.copy(), (axis,))
    assert way.known is before
    transfer[3] += 1.0
    check(x, shaped, (axis,))
    assert way.known[0][0][1] == transfer.tobytes()
    assert way.known[1] is before[0]
    check(x, np.ascontiguousarray(shaped.real), (axis,))
    assert len(way.known) == routes.FILTERS_KEPT == 2


def test_a_filter_lives_while_kernels_read_it(rng, monkeypatch) -> None:
    """Other threads may have it forgotten by filters of their own meanwhile."""
    lines = routes.Lines(16, 1, "float64", False)
    found: list[bool] = []
    made: list[weakref.ref[np.ndarray]] = []
    transfer = lines.transfer

    def remembered(factors: np.ndarray) -> np.ndarray:
        table = transfer(factors)
        made.append(weakref.ref(table))
        return table

    def kernel(*arguments: object) -> None:
        for _ in range(routes.FILTERS_KEPT):
            transfer(rng.random(9))
        gc.collect()
        found.append(made[0]() is not None)

    monkeypatch.setattr(lines, "transfer", remembered)
    monkeypatch.setattr(lines, "kernel", kernel)
    x = rng.standard_normal((1, 16))
    lines.run(x.ctypes.data, 16, x.ctypes.data, 16, 1, rng.random(9), 1)
    assert found == [True]
