"""Scratch memory and threads: aligned, private, bounded, released; failures arrive; forks start afresh."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from spectralops._cpu.vector import workspace


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    workspace.clear()
    yield
    workspace.clear()


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_padded(size: int, expected: int) -> None:
    assert workspace.padded(size) == expected


@pytest.mark.parametrize("size", [0, 1, 100, 4096])
def test_buffers_are_aligned_and_whole(size: int) -> None:
    buffer = workspace.take(size)
    assert buffer.address % 64 == 0
    begin = buffer.owner.ctypes.data
    assert begin <= buffer.address
    assert buffer.address + size <= begin + buffer.owner.nbytes


def test_buffers_are_used_again() -> None:
    first = workspace.take(1000)
    workspace.give_back(first)
    second = workspace.take(900)
    assert second is first
    assert workspace.take(900) is not first


def test_larger_ones_are_not_taken_for_smaller() -> None:
    small = workspace.take(1000)
    workspace.give_back(small)
    assert workspace.take(1001) is not small
    assert workspace._kept == [small]


@pytest.mark.parametrize(("size", "taken"), [(1000, True), (984, True), (983, False)])
def test_much_too_large_buffers_are_left_alone(size: int, taken: bool) -> None:
    large = workspace.take(4000)
    workspace.give_back(large)
    assert (workspace.take(size) is large) is taken


def test_kept_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "KEPT_BYTES", 5000)
    buffers = [workspace.take(2000) for _ in range(3)]
    for buffer in buffers:
        workspace.give_back(buffer)
    assert workspace._kept == buffers[1:]
    workspace.take(2000)
    assert workspace._kept_bytes == 2000
    workspace.give_back(workspace.take(100_000))
    assert (workspace._kept, workspace._kept_bytes) == ([], 0)


def wait_for_fewer(threads: int) -> None:
    """A helper that is told to ends by itself."""
    deadline = time.monotonic() + 10
    while threading.active_count() >= threads:
        assert time.monotonic() < deadline


def test_clear_releases_everything() -> None:
    workspace.run(lambda first, last: None, 4, 2)
    workspace.give_back(workspace.take(1000))
    threads = threading.active_count()
    workspace.clear()
    assert workspace._kept == []
    assert workspace._helpers == []
    wait_for_fewer(threads)


def test_helpers_wait_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are needed, up to a bound; what they did is forgotten, and after a failure they go on."""
    workspace.clear()
    workspace.run(lambda first, last: None, 4, 3)
    helpers = list(workspace._helpers)
    assert len(helpers) == 2
    assert [helper._task for helper in helpers] == [None, None]
    with pytest.raises(ValueError, match="broken"):
        workspace.run(lambda first, last: int("broken"), 3, 3)
    barrier = threading.Barrier(3, timeout=10)
    workspace.run(lambda first, last: barrier.wait(), 3, 3)
    assert set(workspace._helpers) == set(helpers)
    threads = threading.active_count()
    monkeypatch.setattr(workspace, "KEPT_HELPERS", 1)
    workspace.run(lambda first, last: None, 4, 3)
    assert len(workspace._helpers) == 1
    wait_for_fewer(threads)


@pytest.mark.parametrize(
    ("count", "workers", "parts"), [(0, 2, 0), (1, 4, 1), (7, 1, 1), (7, 3, 7), (3, 8, 3), (100, 2, 8), (100, 3, 12)]
)
def test_parts_cover_the_range_once(count: int, workers: int, parts: int) -> None:
    seen = np.zeros(count, int)
    found = []

    def task(first: int, last: int) -> None:
        assert first < last
        seen[first:last] += 1
        found.append(last - first)

    workspace.run(task, count, workers)
    assert (seen == 1).all()
    assert len(found) == parts
    assert not found or max(found) - min(found) <= 1


def test_a_thread_that_is_held_up_leaves_the_rest_to_the_others() -> None:
    """Of eight parts, one waits until the seven others are done, which one other thread must do."""
    others = threading.Semaphore(0)
    done = []

    def task(first: int, last: int) -> None:
        if first == 0:
            for _ in range(7):
                assert others.acquire(timeout=10)
        else:
            others.release()
        done.append(first)

    workspace.run(task, 8, 2)
    assert sorted(done) == list(range(8))
    assert done[-1] == 0


def test_no_more_threads_than_workers() -> None:
    names = set()
    barrier = threading.Barrier(3, timeout=10)

    def task(first: int, last: int) -> None:
        names.add(threading.get_ident())
        if first < 3:
            barrier.wait()

    workspace.run(task, 12, 3)
    assert len(names) == 3


LAYOUTS = {
    "contiguous": lambda x: x,
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "reversed": lambda x: x[::-1, ::-1],
    "sliced": lambda x: x[1:, 2:],
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_address_is_that_of_the_first_element(layout: str) -> None:
    x = LAYOUTS[layout](np.zeros((3, 5), np.float32))
    assert workspace.address(x) == x.__array_interface__["data"][0]


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


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to threads")
def test_an_interrupt_arrives_when_nobody_writes_any_more() -> None:
    """Others write to memory that goes with the call."""
    main, begun, written = threading.get_ident(), threading.Event(), []

    def task(first: int, last: int) -> None:
        if threading.get_ident() == main:
            assert begun.wait(10)
            return
        begun.set()
        time.sleep(0.02)  # until it is waited for
        for _ in range(2):
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.02)
        written.append(first)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells ignore in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            workspace.run(task, 2, 2)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(written) == 1


def test_parts_are_done_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    workspace.run(lambda first, last: None, 2, 2)
    helpers = list(workspace._helpers)
    monkeypatch.setattr(threading.Thread, "start", fail)
    done: list[int] = []
    workspace.run(lambda first, last: done.append(first), 8, 4)
    assert sorted(done) == list(range(8))
    assert workspace._helpers == helpers


def test_nobody_waits_for_a_thread_that_has_begun_nothing() -> None:
    """It finds nothing left when it comes, and takes part in the next call."""
    workspace.clear()
    held, gone = threading.Event(), threading.Event()
    helper = workspace.Helper()
    helper.begin(lambda: [gone.set(), held.wait(10)])
    assert gone.wait(10)
    workspace._helpers.append(helper)
    me = threading.get_ident()
    found: list[int] = []
    workspace.run(lambda first, last: found.append(threading.get_ident()), 8, 2)
    assert found == [me] * 8
    held.set()
    barrier = threading.Barrier(2, timeout=10)
    workspace.run(lambda first, last: barrier.wait(), 2, 2)
    assert workspace._helpers == [helper]


def test_after_a_failure_no_part_is_begun() -> None:
    begun: list[int] = []

    def task(first: int, last: int) -> None:
        begun.append(first)
        raise ValueError("broken")

    share = workspace.Share(task, [(0, 1), (1, 2), (2, 3)])
    share.work()
    with pytest.raises(ValueError, match="broken"):
        share.finish()
    assert begun == [0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_threads() -> None:
    workspace.run(lambda first, last: None, 2, 2)
    workspace.give_back(workspace.take(1000))
    workspace._after_fork()
    assert workspace._helpers == []
    assert workspace._kept == []
    workspace.run(lambda first, last: None, 2, 2)
