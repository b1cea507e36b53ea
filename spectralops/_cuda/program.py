"""A fixed sequence of launches in which only addresses change from call to call.

What a call costs on the host is one copy of a small buffer of arguments and one driver call a launch.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from spectralops._cuda import early, launch, module
from spectralops._cuda.launch import Kernel, Runner

__all__ = ["ALIGNMENT", "Address", "Prepared", "Program", "address"]

# Bytes that one instruction reads or writes at most, as many threads do at a time: two complex numbers of float32.
ALIGNMENT = 16

# How a kernel is launched whose blocks wait for one another.
COOPERATIVE = object()


def address(array: Any) -> int:
    """Where the first element of an array lies."""
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr)


@dataclass(frozen=True, slots=True)
class Address:
    """A pointer argument: the address that a call passes in this place, plus a number of bytes."""

    slot: int
    shift: int = 0

    def plus(self, nbytes: int) -> Address:
        """So many bytes further on."""
        return Address(self.slot, self.shift + nbytes)


class Prepared(Protocol):
    """What a plan launches for contiguous, aligned arrays, found by their addresses alone."""

    @property
    def space_bytes(self) -> int:
        """Scratch memory of a call."""
        ...

    def calls(self, operands: Sequence[int], out: int, space: int) -> Iterable[tuple[Program, Sequence[int]]]:
        """Programs in order, each with the addresses in its slots."""
        ...


@dataclass(slots=True)
class Step:
    """One launch: arguments as 8-byte words, the bytes of each, and which words are addresses."""

    kernel: Kernel
    words: list[np.ndarray[Any, Any]]
    nbytes: list[int]
    addresses: list[tuple[int, int, Address]]  # argument, word in it, address


@dataclass(slots=True)
class Program:
    """Launches to be made one after the other on the current stream."""

    steps: list[Step] = field(default_factory=list)
    cleared: list[tuple[Address, int]] = field(default_factory=list)
    _ready: dict[int, Any] = field(default_factory=dict)

    def clear(self, at: Address, nbytes: int) -> None:
        """Have so many bytes be zero when the first launch begins."""
        self.cleared.append((at, nbytes))

    def add(self, kernel: Kernel, *arguments: Any, inner: dict[tuple[int, int], Address] | None = None) -> None:
        """Append a launch. Arguments: :class:`Address`, NumPy scalars, or structures.

        `inner` gives addresses inside structured arguments by argument and 8-byte word.
        """
        words, nbytes, places = [], [], [(argument, word, at) for (argument, word), at in (inner or {}).items()]
        for position, value in enumerate(arguments):
            if isinstance(value, Address):
                places.append((position, 0, value))
                value = np.uint64(0)
            given = np.asarray(value).tobytes()
            nbytes.append(len(given))
            words.append(np.frombuffer(given + bytes(-len(given) % 8), np.uint64))
        self.steps.append(Step(kernel, words, nbytes, places))

    def run(self, runner: Runner, addresses: Sequence[int]) -> None:
        """Launch everything with these addresses in the slots."""
        if runner is launch.cuda_runner:
            self.launch(runner.device().index, runner.stream(), addresses)
            return
        for at, nbytes in self.cleared:
            ctypes.memset(addresses[at.slot] + at.shift, 0, nbytes)
        for step in self.steps:
            words = [each.copy() for each in step.words]
            for argument, word, at in step.addresses:
                words[argument][word] = addresses[at.slot] + at.shift
            runner.launch(step.kernel, *map(_argument, words, step.nbytes))

    def compiled(self, device: int) -> bool:
        """Whether nothing is left to be compiled for a device."""
        return device in self._ready

    def launch(self, device: int, stream: int, addresses: Sequence[int]) -> None:
        """The same on the current device, of this number, and on this stream of it."""
        ready = self._ready.get(device)
        if ready is None:
            ready = self._ready[device] = _Ready(self, launch.cuda_runner.device())
        first = ready.arguments(addresses)
        for at, nbytes in self.cleared:
            clear_memory(addresses[at.slot] + at.shift, 0, nbytes, stream)
        for function, geometry, offset, how in ready.calls:
            if how is None:
                launch_kernel(function, *geometry, stream, first + offset, 0)
            elif how is COOPERATIVE:
                launch_cooperative_kernel(function, *geometry, stream, first + offset)
            else:
                early.launch(how, function, stream, first + offset)


def _argument(words: np.ndarray[Any, Any], nbytes: int) -> Any:
    """As a runner takes it: a scalar for a word, a structure for everything else."""
    return words[0] if nbytes == 8 else words.view(np.uint8)[:nbytes].view([("byte", np.uint8, nbytes)])


def launch_kernel(function: int, *arguments: int) -> None:
    """The driver's launch, through CuPy."""
    from cupy.cuda import driver

    globals()["launch_kernel"] = driver.launchKernel
    driver.launchKernel(function, *arguments)


def launch_cooperative_kernel(function: int, *arguments: int) -> None:
    """The driver's launch of blocks that wait for one another, through CuPy."""
    from cupy.cuda import driver

    driver.launchCooperativeKernel(function, *arguments)


def clear_memory(at: int, value: int, nbytes: int, stream: int) -> None:
    """Set bytes of the device, in the order of the stream."""
    from cupy.cuda import runtime

    runtime.memsetAsync(at, value, nbytes, stream)


def bind(device: int) -> None:
    """Make the device's context current in a thread that may have made no call of CUDA's before."""
    from cupy.cuda import runtime

    runtime.setDevice(device)


class _Ready:
    """The program as flat arrays for one device, with its functions compiled."""

    def __init__(self, program: Program, device: launch.Device) -> None:
        words: list[np.ndarray[Any, Any]] = []
        pointers: list[int] = []
        places: list[list[tuple[int, int]]] = []
        self.calls: list[tuple[int, tuple[int, ...], int, Any]] = []
        can_be_early = device.capability >= early.CAPABILITY and early.driver_launch() is not None
        roomy = False  # whether the launch before was: never before the first, behind which others' work may lie
        self.functions = []
        count = 0
        for step in program.steps:
            kernel = step.kernel
            function = module.function(kernel, device.index, device.shared_bytes).kernel
            self.functions.append(function)  # keeps its module loaded
            geometry = (*(kernel.grid + (1, 1))[:3], *(kernel.block + (1, 1))[:3], kernel.shared)
            how: Any = COOPERATIVE if kernel.cooperative else None
            if can_be_early and kernel.early and roomy:
                how = early.Configuration(geometry)
            roomy = math.prod(geometry[:6]) <= device.multiprocessors * early.ROOMY_THREADS
            self.calls.append((function.ptr, geometry, 8 * len(pointers), how))
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
        self.device = device.index
        self.local = threading.local()

    def arguments(self, addresses: Sequence[int]) -> int:
        """Where this thread's array of pointers to the arguments begins, after filling in what has changed."""
        mine = getattr(self.local, "mine", None) or self._mine()
        last = mine.addresses
        if addresses == last:
            return mine.first
        mine.addresses = addresses
        buffer, places = mine.buffer, self.places
        for slot, (value, seen) in enumerate(zip(addresses, last, strict=False)):
            if seen != value and slot < len(places):  # callers may give more than is read
                for place, shift in places[slot]:
                    buffer[place] = value + shift
        return mine.first

    def _mine(self) -> _Arguments:
        bind(self.device)
        words = self.words.copy()
        pointers = self.pointers + np.uint64(address(words))
        buffer = (ctypes.c_uint64 * words.size).from_address(address(words))
        mine = self.local.mine = _Arguments(words, pointers, buffer, address(pointers), (-1,) * len(self.places))
        return mine


@dataclass(slots=True)
class _Arguments:
    """The arguments of all launches for one thread: their words, also as a buffer, and pointers to them."""

    words: np.ndarray[Any, Any]
    pointers: np.ndarray[Any, Any]
    buffer: Any
    first: int  # where the pointers begin
    addresses: Sequence[int]  # that are filled in; callers give a new sequence each time, and do not change it
