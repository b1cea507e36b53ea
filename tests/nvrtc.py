"""NVRTC through ctypes: compile the text of a kernel for any architecture, on a machine without a GPU."""

from __future__ import annotations

import ctypes
import re
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

__all__ = ["Compiled", "available", "compile_text"]

# ptxas names a function, then says what it takes.
RESOURCES = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers",
    re.DOTALL,
)


# What CuPy adds to a module's own options.
CUPY_OPTIONS = ("-ftz=true", "--device-as-default-execution-space")


@dataclass(frozen=True)
class Compiled:
    """What came of a compilation: mangled names by expression, and by mangled name (registers, bytes of local memory).

    The latter are those of its stack frame, or those that spilled registers are stored and loaded by, if these are
    more.
    """

    names: dict[str, str]
    resources: dict[str, tuple[int, int]]
    code: bytes
    log: str


@cache
def _library() -> Any:
    """NVRTC of a wheel or of the system; None without."""
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            files = metadata.files(distribution) or []
        except metadata.PackageNotFoundError:
            continue
        paths = {str(file.locate()) for file in files if ".alt." not in file.name}
        # The compiler finds its built-in headers only where they are loaded already.
        for path in sorted(path for path in paths if "libnvrtc-builtins.so" in path):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        for path in sorted(path for path in paths if "libnvrtc.so" in path):
            return ctypes.CDLL(path)
    found = find_library("nvrtc")
    return None if found is None else ctypes.CDLL(found)


def available() -> bool:
    """Whether NVRTC is installed."""
    return _library() is not None


def compile_text(text: str, names: tuple[str, ...], arch: str, options: tuple[str, ...] = ()) -> Compiled:
    """Machine code of the instantiations that these expressions name."""
    library = _library()
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    try:
        for name in names:
            assert library.nvrtcAddNameExpression(program, name.encode()) == 0
        flags = (f"--gpu-architecture={arch}", "--ptxas-options=-v", *CUPY_OPTIONS, *options)
        failed = library.nvrtcCompileProgram(
            program, len(flags), (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        )
        log = _bytes(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).decode().rstrip("\0")
        assert failed == 0, log[-4000:]
        mangled = {}
        for name in names:
            lowered = ctypes.c_char_p()
            assert library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)) == 0
            assert lowered.value is not None
            mangled[name] = lowered.value.decode()
        code = _bytes(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    resources = {
        found["name"]: (
            int(found["registers"]),
            max(int(found["stack"]), int(found["stores"]) + int(found["loads"])),
        )
        for found in RESOURCES.finditer(log)
    }
    return Compiled(mangled, resources, code, log)


def _bytes(size_of: Any, get: Any, program: Any) -> bytes:
    size = ctypes.c_size_t()
    assert size_of(program, ctypes.byref(size)) == 0
    buffer = ctypes.create_string_buffer(size.value)
    assert get(program, buffer) == 0
    return buffer.raw
