"""Scratch memory and threads, kept between calls within bounds."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Buffer", "address", "clear", "give_back", "new", "padded", "run", "take"]

# Buffers that no call uses are kept up to this many bytes in all, the most recent first.
KEPT_BYTES = 1 << 27
ALIGNMENT = 64
# Helpers that wait for calls.
KEPT_HELPERS = 64
# Parts of a range for each thread: one that is held up leaves the rest to the others.
PARTS_PER_WORKER = 4


class Buffer(NamedTuple):
    """Memory of one call: where it begins, aligned, and what owns it."""

    address: int
    size: int
    owner: np.ndarray


class Helper:
    """A thread that takes part in one call after another; plain locks wake it in a fifth of the time of a future."""

    def __init__(self) -> None:
        self._guard, self._start = threading.Lock(), threading.Lock()
        self._start.acquire()
        self._awake = False  # or about to be
        self._task: Callable[[], object] | None = None
        threading.Thread(target=self._serve, name="spectralops", daemon=True).start()

    def begin(self, task: Callable[[], object]) -> None:
        """Have it do the task as soon as it can."""
        with self._guard:
            self._task = task
            if not self._awake:
                self._awake = True
                self._start.release()

    def recall(self) -> None:
        """Forget a task that it has not begun."""
        with self._guard:
            self._task = None

    def _serve(self) -> None:
        while True:
            self._start.acquire()
            with self._guard:
                task, self._task, self._awake = self._task, None, False
            if task is _stop:
                return
            if task is not None:
                task()
            task = None  # it holds the caller's arrays


def _stop() -> None:
    """The task after which a helper ends."""


class Share:
    """Parts of a range that threads take, one after another, until none is left."""

    def __init__(self, task: Callable[[int, int], object], parts: list[tuple[int, int]]) -> None:
        self._task, self._todo = task, parts[::-1]
        self._busy: set[int] = set()  # threads
        self._waited = False
        self._lock, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self._error: BaseException | None = None

    def work(self) -> None:
        """Do parts; after a failure nobody begins another."""
        me = threading.get_ident()
        while True:
            with self._lock:
                if not self._todo:
                    return
                part = self._todo.pop()
                self._busy.add(me)
            try:
                self._task(*part)
            except BaseException as error:  # raised by `finish`, when nobody writes any more
                with self._lock:
                    self._todo.clear()
                    self._error = error
            with self._lock:
                self._busy.discard(me)
                if self._waited and not self._busy and not self._todo:
                    self._done.release()

    def finish(self) -> None:
        """Work, then wait for the parts that others have begun, not for threads that have begun none.

        An interrupt is raised after that: others write to memory that the caller would free.
        """
        try:
            self.work()
        finally:
            waiting = True
            while waiting:
                try:
                    waiting = self._is_begun()
                    if waiting:
                        self._done.acquire()
                except BaseException as error:  # KeyboardInterrupt, at any place
                    self._error = error
        if self._error is not None:
            raise self._error

    def _is_begun(self) -> bool:
        """Whether others are at work, whose last one then says so when it is done."""
        with self._lock:
            self._todo.clear()
            self._busy.discard(threading.get_ident())
            self._waited = bool(self._busy)
        return self._waited


_lock = threading.Lock()
_kept: list[Buffer] = []
_kept_bytes = 0
_addressof = ctypes.addressof
_from_buffer: Callable[[Any], Any] = ctypes.c_char.from_buffer
_helpers: list[Helper] = []


def address(array: np.ndarray) -> int:
    """Where the array's first element lies. `ndarray.ctypes` takes longer than the transform of a short row."""
    try:
        return _addressof(_from_buffer(array))
    except (BufferError, TypeError, ValueError):  # read-only, not contiguous, or empty
        return array.ctypes.data


def padded(size: int) -> int:
    """A number of bytes up to the next multiple of the alignment, for buffers of several parts."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def take(size: int) -> Buffer:
    """Memory of at least `size` bytes, for one call alone, with arbitrary content; `give_back` it after."""
    global _kept_bytes
    with _lock:
        for i in range(len(_kept) - 1, -1, -1):
            # A buffer several times too large is left for those who need it.
            if size <= _kept[i].size <= 4 * size + ALIGNMENT:
                buffer = _kept.pop(i)
                _kept_bytes -= buffer.size
                return buffer
    return new(size)


def new(size: int) -> Buffer:
    """Fresh memory of `size` bytes."""
    # Zeros, so that no arithmetic ever meets denormal numbers by chance.
    owner = np.zeros(size + ALIGNMENT, np.uint8)
    return Buffer(padded(owner.ctypes.data), size, owner)


def give_back(buffer: Buffer) -> None:
    """Keep a buffer for later calls, or release it where too much is kept."""
    global _kept_bytes
    with _lock:
        _kept.append(buffer)
        _kept_bytes += buffer.size
        while _kept_bytes > KEPT_BYTES:
            _kept_bytes -= _kept.pop(0).size


def clear() -> None:
    """Release the buffers and threads that no call uses."""
    global _kept_bytes
    with _lock:
        _kept.clear()
        _kept_bytes = 0
        idle = _helpers.copy()
        _helpers.clear()
    for helper in idle:
        helper.begin(_stop)


def run(task: Callable[[int, int], object], count: int, workers: int) -> None:
    """Call task(first, last) on nearly equal parts of range(count), on up to `workers` threads, this one among them.

    Every thread takes the next part when it is done with one, so that none waits for another that is held up.
    """
    threads = min(workers, count)
    if threads <= 1:
        if count:
            task(0, count)
        return
    parts = min(count, threads * PARTS_PER_WORKER)
    share = Share(task, [(count * part // parts, count * (part + 1) // parts) for part in range(parts)])
    with _lock:
        helpers = [_helpers.pop() for _ in range(min(threads - 1, len(_helpers)))]
    try:
        while len(helpers) < threads - 1:
            try:
                helpers.append(Helper())
            except RuntimeError:  # no more threads are to be had: those there are do all
                break
        for helper in helpers:
            helper.begin(share.work)
        share.finish()
    finally:
        for helper in helpers:
            helper.recall()
        with _lock:
            _helpers.extend(helpers)
            surplus = _helpers[KEPT_HELPERS:]
            del _helpers[KEPT_HELPERS:]
        for helper in surplus:
            helper.begin(_stop)


def _after_fork() -> None:
    """A forked child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _lock, _kept_bytes
    _lock = threading.Lock()
    _helpers.clear()
    _kept.clear()
    _kept_bytes = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
