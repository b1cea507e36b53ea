"""Launching kernels: on the caller's current stream, without synchronisation, with a workspace that is kept.

An executor asks for the :class:`Runner` of its result and knows nothing else of the device. The runner of NumPy arrays
is None: tests set one that runs the same kernels on the host.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from spectralops._cuda import module
from spectralops.errors import UnsupportedError

__all__ = ["Device", "Kernel", "Runner", "clear", "index_bits", "index_option", "runner"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch but for its arguments.

    Attributes
    ----------
    file, name : str
        The `.cu` file and the C++ expression that names the kernel in it, such as ``"diffuse<float, 2>"``.
    grid, block : tuple of int
        Blocks and threads of a block along x, y, z.
    shared : int
        Bytes of dynamic shared memory of a block.
    options : tuple of str
        Compiler options beyond :data:`module.OPTIONS`.
    cooperative : bool
        Whether all blocks must run at once, since they wait for one another.
    carveout : int
        Percent of the memory beside a multiprocessor that is shared memory and not first-level cache, so that as many
        blocks as fit run there: left to itself (0), the driver may run fewer.
    cluster : int
        Neighbouring blocks that run at once and reach into one another's shared memory, as the kernel's code says too.
    early : bool
        Whether its blocks may begin before the launch before it in a program has ended: its code waits for that.
    """

    file: str
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int = 0
    options: tuple[str, ...] = ()
    cooperative: bool = False
    carveout: int = 0
    cluster: int = 1
    early: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """What launch geometry depends on."""

    index: int
    multiprocessors: int
    shared_bytes: int
    capability: int = 0  # ten times the major number, plus the minor one
    warp_groups: bool = False  # whether there are products of groups of four warps, and a compiler that knows them


class Runner(Protocol):
    """A device, or what stands in for one."""

    def device(self) -> Device:
        """The device that kernels run on."""
        ...

    def launch(self, kernel: Kernel, *arguments: Any) -> None:
        """Run a kernel. Arguments: arrays (their address is passed), NumPy scalars, one-element structured arrays."""
        ...

    def stream(self) -> int:
        """The handle of the stream that kernels run on."""
        ...

    def workspace(self, nbytes: int) -> Any:
        """Scratch memory by its address, valid while held, until this thread asks again on this stream."""
        ...

    def scratch(self, nbytes: int) -> Any:
        """Like `workspace`, valid only as long as the caller holds it: much memory is given back to the pool."""
        ...


class _CudaRunner:
    """Launches through CuPy on its current device and stream, which `_interchange.on_device` has made the caller's."""

    def device(self) -> Device:
        import cupy

        return _device(cupy.cuda.runtime.getDevice())

    def launch(self, kernel: Kernel, *arguments: Any) -> None:
        device = self.device()
        module.function(kernel, device.index, device.shared_bytes)(
            kernel.grid, kernel.block, arguments, shared_mem=kernel.shared
        )

    def stream(self) -> int:
        import cupy

        return int(cupy.cuda.get_current_stream().ptr)

    def workspace(self, nbytes: int) -> Any:
        import cupy

        allocator = cupy.cuda.get_allocator()
        return Block(allocator(nbytes)) if _in_stream_order(allocator) else _workspaces.get(nbytes)

    def scratch(self, nbytes: int) -> Any:
        import cupy

        if _in_stream_order(cupy.cuda.get_allocator()):
            return cupy.empty(nbytes, np.uint8)
        return _workspaces.get(nbytes, keep=nbytes <= MOST_KEPT_BYTES)


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of which the address is all that is asked for."""

    data: Any


def _in_stream_order(allocator: Any) -> bool:
    """Whether memory comes from a pool that gives a freed block to later work on its stream alone, and a graph's to
    that graph alone. Then nothing is kept here.
    """
    return getattr(allocator, "in_stream_order", False)


@lru_cache(maxsize=64)
def _device(index: int) -> Device:
    import cupy

    device = cupy.cuda.Device(index)
    attributes, capability = device.attributes, int(device.compute_capability)
    return Device(
        index,
        attributes["MultiProcessorCount"],
        attributes["MaxSharedMemoryPerBlockOptin"],
        capability,
        # Older compilers take one name of an architecture, which CuPy gives.
        capability == 90 and cupy.cuda.nvrtc.getVersion()[0] >= 13,
    )


# More scratch memory than this is not kept for the next call if its user can do without.
MOST_KEPT_BYTES = 64 << 20


class _Workspaces(threading.local):
    """Scratch memory of this thread by device and stream: two threads never share one, nor do two streams.

    The memory comes from CuPy's pool, which hands a freed block out again only on the stream that it was used on.
    """

    CAPACITY = 8

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._epoch = _epoch

    def get(self, nbytes: int, keep: bool = True) -> Any:
        import cupy

        if self._epoch != _epoch:
            self._kept.clear()
            self._epoch = _epoch
        stream = cupy.cuda.get_current_stream()
        if stream.ptr and stream.is_capturing():
            # The graph will write here whenever it is replayed: no later call may be given this memory.
            with _relaxed_capture():
                memory = cupy.empty(nbytes, np.uint8)
            _captured.append(memory)
            return memory
        if not keep:
            return cupy.empty(nbytes, np.uint8)
        key = (cupy.cuda.runtime.getDevice(), stream.ptr)
        memory = self._kept.pop(key, None)
        if memory is None or memory.size < nbytes:
            memory = cupy.empty(nbytes, np.uint8)
        self._kept[key] = memory
        while len(self._kept) > self.CAPACITY:
            self._kept.popitem(last=False)
        return memory


@contextmanager
def _relaxed_capture() -> Iterator[None]:
    """Lets this thread allocate device memory while a stream is being captured, which the driver forbids at first."""
    driver = ctypes.CDLL("libcuda.so.1")
    mode = ctypes.c_int(RELAXED)
    driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


# CU_STREAM_CAPTURE_MODE_RELAXED
RELAXED = 2

_epochs = itertools.count(1)
_epoch = 0
_captured: list[Any] = []
_workspaces = _Workspaces()
cuda_runner: Runner = _CudaRunner()

# Runs kernels on NumPy arrays; set by tests.
host_runner: Runner | None = None


def runner(op: str, out: Any) -> Runner:
    """Who runs kernels on the memory of `out`."""
    if not isinstance(out, np.ndarray):
        return cuda_runner
    if host_runner is None:
        raise UnsupportedError(f"{op}: backend is 'cuda', but must be one for arrays on the host")
    return host_runner


def clear() -> None:
    """Give back the scratch memory of every thread (when it next asks for some), also that of captured graphs."""
    global _epoch
    _epoch = next(_epochs)
    _captured.clear()


def index_bits(planned: int, views: Iterable[tuple[Sequence[int], Sequence[int]]]) -> int:
    """Bits of offsets: what a plan asks for, or 64 where operands are views of more memory than they have elements.

    `views`: shape and strides of each, in elements.
    """
    reach = [sum((n - 1) * abs(step) for n, step in zip(*view, strict=True)) for view in views]
    return planned if max(reach, default=0) < 2**31 else 64


def index_option(bits: int) -> str:
    """Compiler option that sets the kernels' `index_t` to the width that a plan asks for."""
    return f"-DINDEX_T={'int' if bits == 32 else 'long long'}"
