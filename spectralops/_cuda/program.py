"""A fixed sequence of launches in which only addresses change from call to call.

What a call costs on the host is one copy of a small buffer of arguments and one driver call a launch.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectralops._cuda import launch, module
from spectralops._cuda.launch import Kernel, Runner

__all__ = ["Address", "Program", "address"]


def address(array: Any) -> int:
    """Where the first element of an array lies."""
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr)


@dataclass(frozen=True, slots=True)
class Address:
    """A pointer argument: the address that a call passes in this place, plus a number of bytes."""

    slot: int
    shift: int = 0


@dataclass(slots=True)
class Step:
    """One launch: arguments as 8-byte words, where each begins, and which words are addresses."""

    kernel: Kernel
    words: list[np.ndarray[Any, Any]]
    addresses: list[tuple[int, int, Address]]  # argument, word in it, address


@dataclass(slots=True)
class Program:
    """Launches to be made one after the other on the current stream."""

    steps: list[Step] = field(default_factory=list)
    _ready: dict[int, Any] = field(default_factory=dict)

    def add(self, kernel: Kernel, *arguments: Any, inner: dict[tuple[int, int], Address] | None = None) -> None:
        """Append a launch. Arguments: :class:`Address`, 8-byte NumPy scalars, or structured arrays of 8-byte fields.

        `inner` gives addresses inside structured arguments by argument and word.
        """
        words, places = [], [(argument, word, at) for (argument, word), at in (inner or {}).items()]
        for position, value in enumerate(arguments):
            if isinstance(value, Address):
                places.append((position, 0, value))
                words.append(np.zeros(1, np.uint64))
            else:
                words.append(np.atleast_1d(np.asarray(value)).view(np.uint64).copy())
        self.steps.append(Step(kernel, words, places))

    def run(self, runner: Runner, addresses: list[int]) -> None:
        """Launch everything with these addresses in the slots."""
        if runner is launch.cuda_runner:
            self._launch(runner, addresses)
            return
        for step in self.steps:
            words = [each.copy() for each in step.words]
            for argument, word, at in step.addresses:
                words[argument][word] = addresses[at.slot] + at.shift
            runner.launch(step.kernel, *(_argument(each) for each in words))

    def _launch(self, runner: Runner, addresses: list[int]) -> None:
        device = runner.device()
        ready = self._ready.get(device.index)
        if ready is None:
            ready = self._ready[device.index] = _Ready(self, device)
        stream = runner.stream()
        first = ready.arguments(addresses)
        for function, geometry, offset in ready.calls:
            launch_kernel(function, *geometry, stream, first + offset, 0)


def _argument(words: np.ndarray[Any, Any]) -> Any:
    """As a runner takes it: a scalar for one word, a structure for more."""
    return words[0] if words.size == 1 else words.view([("word", np.uint64, words.size)])


def launch_kernel(function: int, *arguments: int) -> None:
    """The driver's launch, through CuPy."""
    from cupy.cuda import driver

    globals()["launch_kernel"] = driver.launchKernel
    driver.launchKernel(function, *arguments)


class _Ready:
    """The program as flat arrays for one device, with its functions compiled."""

    def __init__(self, program: Program, device: launch.Device) -> None:
        words: list[np.ndarray[Any, Any]] = []
        pointers: list[int] = []
        places: list[list[tuple[int, int]]] = []
        self.calls: list[tuple[int, tuple[int, ...], int]] = []
        self.functions = []
        count = 0
        for step in program.steps:
            kernel = step.kernel
            function = module.function(kernel, device.index, device.shared_bytes).kernel
            self.functions.append(function)  # keeps its module loaded
            geometry = (*(kernel.grid + (1, 1))[:3], *(kernel.block + (1, 1))[:3], kernel.shared)
            self.calls.append((function.ptr, geometry, 8 * len(pointers)))
            begin = []
            for each in step.words:
                begin.append(count)
                pointers.append(8 * count)
                words.append(each)
                count += each.size
            for argument, word, at in step.addresses:
                places += [[] for _ in range(at.slot + 1 - len(places))]
                places[at.slot].append((begin[argument] + word, at.shift))
        self.words = np.concatenate(words)
        self.pointers = np.array(pointers, np.uint64)
        self.places = places
        self.local = threading.local()

    def arguments(self, addresses: list[int]) -> int:
        """Where this thread's array of pointers to the arguments begins, after filling in what has changed."""
        mine = getattr(self.local, "mine", None)
        if mine is None:
            words = self.words.copy()
            pointers = self.pointers + np.uint64(address(words))
            buffer = (ctypes.c_uint64 * words.size).from_address(address(words))
            mine = self.local.mine = (buffer, words, pointers, address(pointers), [-1] * len(addresses))
        buffer, _, _, first, last = mine  # the arrays are kept because the buffer and the pointers lie in them
        for slot, value in enumerate(addresses):
            if last[slot] != value:
                last[slot] = value
                for place, shift in self.places[slot]:
                    buffer[place] = value + shift
        return first
