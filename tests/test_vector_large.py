"""Filters of single large images: the spectrum in the result's memory, the filter laid out part by part."""

from __future__ import annotations

import numpy as np
import pytest
from support import assert_close, random_array, tolerance
from vector_filters import DTYPES, Axes, by_scipy, check, filtered, poison_scratch, shared_transfer

from spectralops._cpu.vector import jobs, large, prepared, routes, workspace

# Whole vectors on both sides, ragged rows and columns, odd lengths, volumes of all these kinds.
SHAPES = [(32, 48), (64, 16), (36, 50), (30, 16), (15, 20), (22, 16), (2, 16), (16, 10, 16), (5, 8, 8), (6, 9, 11)]


@pytest.fixture
def everything_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also small images take the way of large ones."""
    monkeypatch.setattr(routes, "is_large", lambda tiles, count: True)


def every(shape: tuple[int, ...]) -> Axes:
    """All axes but those of a batch."""
    return tuple(range(-len(shape), 0))


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_is_the_plain_pipeline(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> None:
    """Filters without symmetry: what a real signal cannot have is dropped at the packed frequencies too."""
    x = random_array(rng, (2, *shape), dtype)
    check(x, shared_transfer(rng, x, every(shape)), every(shape))


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("shape", [(32, 48), (36, 50), (16, 10, 16)], ids=lambda shape: "x".join(map(str, shape)))
def test_workers_and_ways_change_nothing(
    rng: np.random.Generator, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits from one thread and three, and as from the way of small images."""
    x = random_array(rng, shape, "float32")
    transfer = shared_transfer(rng, x, every(shape))
    alone = filtered(x, transfer, every(shape))
    np.testing.assert_array_equal(filtered(x, transfer, every(shape), 3), alone)
    monkeypatch.setattr(routes, "is_large", lambda tiles, count: False)
    np.testing.assert_array_equal(filtered(x, transfer, every(shape)), alone)


@pytest.mark.usefixtures("everything_large")
def test_broadcast_and_real_filters(rng: np.random.Generator) -> None:
    x = random_array(rng, (32, 48), "float64")
    for transfer in (random_array(rng, (32, 1), "float64"), random_array(rng, (1, 25), "complex128")):
        assert_close(filtered(x, transfer, (0, 1)), by_scipy(x, transfer, (0, 1)), tolerance("float64", x.size))


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("shape", [(32, 48), (16, 10, 16)], ids=["image", "volume"])
def test_non_finite_values_stay_in_their_image(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    x = random_array(rng, (2, *shape), "float32")
    transfer = shared_transfer(rng, x, every(shape))
    clean = filtered(x, transfer, every(shape))
    x[1].flat[5] = np.inf
    spoilt = filtered(x, transfer, every(shape))
    np.testing.assert_array_equal(spoilt[0], clean[0])
    assert not np.isfinite(spoilt[1]).any()


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("shape", [(32, 48), (36, 50), (16, 10, 16)], ids=lambda shape: "x".join(map(str, shape)))
def test_poisoned_scratch_changes_nothing(
    rng: np.random.Generator, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random_array(rng, shape, "float32")
    transfer = shared_transfer(rng, x, every(shape))
    clean = filtered(x, transfer, every(shape))
    poison_scratch(monkeypatch)
    np.testing.assert_array_equal(filtered(x, transfer, every(shape)), clean)


@pytest.mark.parametrize(
    ("kind", "lengths", "packed"),
    [
        ("even", (8192, 8192), True),
        ("even", (4096, 8192), True),
        ("even", (8192, 4100), False),  # columns that are no whole vectors
        ("even", (8200, 8192), False),  # rows of frequencies that fill no whole blocks
        ("even", (514, 512, 512), True),  # planes need no blocks
        ("even", (512, 511, 511), False),
        ("pair", (8191, 8192), False),
        ("complex", (4096, 4096), False),
    ],
)
def test_spectra_lie_in_the_result_where_they_fit(kind: str, lengths: tuple[int, ...], packed: bool) -> None:
    way = large.large(kind, lengths, "float32")
    assert way.packed == packed
    image = 4 * int(np.prod(lengths))
    memory = way.spectrum + way.work + way.inner_scratch + packed * way.apart * way.step
    assert memory < image / 8 if packed else image <= way.spectrum < 2.2 * image


def test_large_is_what_no_cache_would_keep() -> None:
    """Laid out, the filter of 4096 x 4096 single numbers takes half of the cache of filters, that of 2048 an eighth."""
    for length, expected in ((2048, False), (4096, True), (8192, True)):
        tiles = jobs.filter_layout("even", (length, length), "float32").numbers * 4
        assert large.is_large(tiles, 1) is expected
        assert large.is_large(tiles, 2) is expected
        assert not large.is_large(tiles, 3)
    assert not large.is_large(prepared.KEPT_BYTES // 4, 1)
    assert large.is_large(prepared.KEPT_BYTES // 4 + 1, 1)


def test_a_large_image_keeps_no_filter(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker and two take the same way, and neither memory of the image's size."""
    taken: list[int] = []
    take = workspace.take

    def noted(size: int) -> workspace.Buffer:
        taken.append(size)
        return take(size)

    monkeypatch.setattr(workspace, "take", noted)
    monkeypatch.setattr(prepared, "KEPT_BYTES", 1 << 18)
    prepared.clear()
    x = random_array(rng, (512, 512), "float32")
    transfer = random_array(rng, (512, 257), "float32")
    for workers in (1, 2):
        taken.clear()
        filtered(x, transfer, (0, 1), workers)
        assert taken
        assert max(taken) < x.nbytes / 3
    assert prepared._kept == []
