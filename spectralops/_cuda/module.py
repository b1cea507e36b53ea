"""From the text of a kernel to a function on the device: assemble, compile, keep.

One string holds everything that determines the binary: `#include "x.cuh"` lines are replaced by the files' text,
since CuPy's cache on disk does not look into included files. Only the instantiation that a launch names is compiled.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from spectralops.errors import UnsupportedError

__all__ = ["OPTIONS", "assemble", "clear", "function", "warm"]


class Kernel(Protocol):
    """What of a :class:`launch.Kernel` matters to its code; that module imports this one, which cannot import it."""

    @property
    def file(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def options(self) -> tuple[str, ...]: ...
    @property
    def shared(self) -> int: ...
    @property
    def cooperative(self) -> bool: ...
    @property
    def carveout(self) -> int: ...


KERNELS = Path(__file__).parent / "kernels"
INCLUDE = re.compile(r'^[ \t]*#include "([\w.]+)"[ \t]*$', re.MULTILINE)
OPTIONS = ("--std=c++17", "--device-as-default-execution-space")
# A block may use more than this only after its function has been told so.
STATIC_SHARED_BYTES = 48 * 1024
# Functions kept; a program uses a handful per operator, shape and dtype.
CAPACITY = 512

_functions: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_lock = threading.RLock()
# Whoever compiles a function holds its lock, so that others are compiled at the same time.
_compiling: dict[tuple[Any, ...], threading.Lock] = {}


@lru_cache(maxsize=64)
def assemble(file: str) -> str:
    """The text of a kernel file with everything that it includes, each file once."""
    seen: set[str] = set()

    def expand(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = (KERNELS / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
        return INCLUDE.sub(lambda match: expand(match[1]), text)

    return expand(file)


def function(kernel: Kernel, device: int, shared_limit: int) -> Any:
    """The compiled function of a kernel on the current CUDA device, compiled at most once even by many threads."""
    key = (
        device, kernel.file, kernel.name, kernel.options, kernel.shared > STATIC_SHARED_BYTES,
        kernel.cooperative, kernel.carveout,
    )  # fmt: skip
    found = _kept(key)
    if found is not None:
        return found
    with _lock:
        mine = _compiling.setdefault(key, threading.Lock())
    with mine:
        found = _kept(key)
        if found is None:
            warm(f"kernel {kernel.name}")
            found = _compile(kernel, shared_limit)
            with _lock:
                _functions[key] = found
                while len(_functions) > CAPACITY:
                    _functions.popitem(last=False)
                _compiling.pop(key, None)
    return found


def _kept(key: tuple[Any, ...]) -> Any:
    with _lock:
        found = _functions.get(key)
        if found is not None:
            _functions.move_to_end(key)
        return found


def warm(what: str) -> None:
    """Raise where something is to be made for the first time while a graph is captured, which would break the graph."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    if stream.ptr and stream.is_capturing():
        raise UnsupportedError(
            f"CUDA graph: {what} is not on the device, but must be before a capture; call once before capture"
        )


def _compile(kernel: Kernel, shared_limit: int) -> Any:
    import cupy

    module = cupy.RawModule(
        code=assemble(kernel.file),
        options=(*OPTIONS, *kernel.options),
        name_expressions=(kernel.name,),
        enable_cooperative_groups=kernel.cooperative,
    )
    found = module.get_function(kernel.name)
    if kernel.shared > STATIC_SHARED_BYTES:
        found.max_dynamic_shared_size_bytes = shared_limit - found.shared_size_bytes
    if kernel.carveout:
        found.preferred_shared_memory_carveout = kernel.carveout
    return found


def clear() -> None:
    """Forget every compiled function; CuPy's own cache on disk stays."""
    with _lock:
        _functions.clear()
    assemble.cache_clear()
