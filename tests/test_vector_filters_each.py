"""A filter for every transform of a batch: one compiled loop over them, against scipy.fft in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import random_array
from vector_filters import COMPLEX_OF, DTYPES, Axes, check, filtered, spectrum_shape

from spectralops._cpu.vector import filters, prepared, routes

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
    ((9, 127), (-1,), (9, 1)),
    ((2, 521), (-1,), (2, 1)),
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


def test_uneven_images_are_gathered(rng: np.random.Generator) -> None:
    """Two batch axes whose images no single step reaches, with a filter for each entry of the third."""
    x = random_array(rng, (3, 4, 5, 8, 6), "float64")[:, :3]
    check(x, random_array(rng, (5, 8, 4), "complex128"), (-2, -1))
