"""Filters laid out for the kernels are kept: known again by their content, bounded in bytes, alive while read."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import random_array
from vector_filters import check, filtered

from spectralops._cpu.vector import prepared, routes, workspace


@pytest.fixture
def no_filters_kept() -> Iterator[None]:
    prepared.clear()
    workspace.clear()
    yield
    prepared.clear()


@pytest.mark.usefixtures("no_filters_kept")
def test_a_filter_is_laid_out_once(rng: np.random.Generator) -> None:
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
    check(x, np.ascontiguousarray(transfer.real), (1, 2))
    way = routes.route((16, 20), "d", 1, routes.several(2, "d"))
    assert isinstance(way, routes.Images)
    assert len(way.known) == routes.FILTERS_KEPT


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
