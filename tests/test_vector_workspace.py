"""Scratch memory and threads: aligned, private, bounded, released; failures arrive; forks start afresh."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from spectralops._cpu.vector import workspace


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    workspace.clear()
    yield
    workspace.clear()


def test_buffers_are_aligned_and_apart() -> None:
    with workspace.scratch(100, 0, 64, 1) as (a, b, c, d):
        assert all(address % 64 == 0 for address in (a, b, c, d))
        assert (b - a, c - b, d - c) == (128, 0, 64)


def test_buffers_are_used_again() -> None:
    with workspace.scratch(1000) as (first,):
        pass
    with workspace.scratch(900) as (second,):
        assert second == first
        with workspace.scratch(900) as (third,):
            assert third != first


def test_much_too_large_buffers_are_left_alone() -> None:
    with workspace.scratch(100_000) as (large,):
        pass
    with workspace.scratch(1000) as (small,):
        assert small != large
    assert len(workspace._kept) == 2


def test_kept_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "KEPT_BYTES", 5000)
    with workspace.scratch(2000), workspace.scratch(2000), workspace.scratch(2000):
        pass
    assert [kept.size for kept in workspace._kept] == [2112, 2112]
    with workspace.scratch(100_000):
        pass
    assert workspace._kept == []


def test_clear_releases_everything() -> None:
    workspace.run(lambda first, last: None, 4, 2)
    with workspace.scratch(1000):
        pass
    workspace.clear()
    assert workspace._kept == []
    assert workspace._pools == {}


@pytest.mark.parametrize(("count", "workers"), [(0, 2), (1, 4), (7, 1), (7, 3), (3, 8), (100, 2)])
def test_parts_cover_the_range_once(count: int, workers: int) -> None:
    seen = np.zeros(count, int)
    threads = set()

    def task(first: int, last: int) -> None:
        assert first < last
        seen[first:last] += 1
        threads.add((first, last))

    workspace.run(task, count, workers)
    assert (seen == 1).all()
    assert len(threads) == min(count, workers)
    lengths = [last - first for first, last in threads]
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_parts_run_side_by_side() -> None:
    barrier = threading.Barrier(3, timeout=10)
    workspace.run(lambda first, last: barrier.wait(), 3, 3)


@pytest.mark.parametrize("failing", [0, 1])
def test_failures_arrive(failing: int) -> None:
    def task(first: int, last: int) -> None:
        if first == failing:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        workspace.run(task, 2, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_threads() -> None:
    workspace.run(lambda first, last: None, 2, 2)
    with workspace.scratch(1000):
        pass
    workspace._after_fork()
    assert workspace._pools == {}
    assert workspace._kept == []
    workspace.run(lambda first, last: None, 2, 2)
