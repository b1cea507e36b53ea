"""CUDA kernels run on the host: the text that NVRTC would compile, behind `cuda_host.h`, built by g++.

`backend()` installs a backend "cuda-on-host" whose executors are those of `spectralops._cuda` on NumPy arrays.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spectralops import _support
from spectralops._cuda import launch, module
from spectralops._cuda.launch import Device, Kernel

__all__ = ["BACKEND", "HostRunner", "Recorder", "available", "backend", "build", "written"]

BACKEND = "cuda-on-host"
HEADER = Path(__file__).parent / "cuda_host.h"
ENGINE = HEADER.with_suffix(".cpp")
# No contraction, as the stencils' -fmad=false; what g++ sees of undefined behaviour is reported at run time.
FLAGS = (
    "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-fno-omit-frame-pointer", "-fsanitize=undefined",
    "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-psabi",
)  # fmt: skip
# A kernel is linked to nothing: the engine, loaded before it, has all that it calls.
KERNEL_FLAGS = (*FLAGS, "-O0", "-nostdlib")
ENGINE_FLAGS = (*FLAGS, "-O1", "-static-libubsan", "-Wl,--whole-archive,-lubsan,--no-whole-archive")
# Dynamic shared memory has no type of its own in C++.
SHARED = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\[\];")
CUDA_INCLUDE = re.compile(r"^[ \t]*#include <[^>]*>[ \t]*$", re.MULTILINE)


def available() -> bool:
    """Whether a C++ compiler is here."""
    return shutil.which("g++") is not None


def translated(kernel: Kernel) -> str:
    """The kernel's text as C++, and an entry that launches the instantiation it names."""
    text = CUDA_INCLUDE.sub("", module.assemble(kernel.file))
    text = SHARED.sub(r"\1* const \2 = static_cast<\1*>(cuda_host::dynamic_shared());", text)
    return (
        f'#include "{HEADER.name}"\n#line 1 "{kernel.file}"\n{text}\n'
        f"static constexpr auto the_kernel = &{kernel.name};\n"
        "static void call_it(void** arguments) { cuda_host::call(the_kernel, arguments); }\n"
        'extern "C" size_t argument_size(size_t k) { return cuda_host::argument_size(the_kernel, k); }\n'
        'extern "C" unsigned long run_kernel(const unsigned* g, size_t shared, void** arguments, unsigned together) {\n'
        "  cuda_host::reports = 0;\n"
        "  const dim3 grid(g[0], g[1], g[2]), block(g[3], g[4], g[5]);\n"
        "  cuda_host::launch(call_it, grid, block, shared, arguments, together);\n"
        "  return cuda_host::reports;\n}\n"
    )


def _folder() -> Path:
    """Where built kernels are kept between runs, by a hash of everything that makes them."""
    root = os.environ.get("SPECTRALOPS_CACHE_DIR") or tempfile.gettempdir()
    folder = Path(root) / f"spectralops-{BACKEND}-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _hash(*parts: str) -> str:
    return hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]


def _compiled(source: str, flags: tuple[str, ...], name: str) -> Path:
    """The library made from a C++ source, built where no earlier run has."""
    parts = (source, *(path.read_text() for path in (HEADER, ENGINE)), *flags)
    target = _folder() / f"{_hash(*parts)}.so"
    return target if target.exists() else _made(target, source, (f"-I{_parsed_header()}", *flags), name)


def _made(target: Path, source: str, flags: tuple[str, ...], name: str) -> Path:
    """What g++ makes of a source, put in its place when it is whole."""
    with tempfile.TemporaryDirectory(dir=_folder()) as work:
        path, built = Path(work) / "source.cpp", Path(work) / "built"
        path.write_text(source)
        done = subprocess.run(
            ["g++", *flags, f"-I{HEADER.parent}", "-o", str(built), str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name}\n{done.stderr[-4000:]}"
        target.parent.mkdir(exist_ok=True)
        return built.replace(target)


@cache
def _parsed_header() -> Path:
    """Folder of the header as g++ has parsed it, which would take longer than many a kernel."""
    folder = _folder() / _hash(HEADER.read_text(), *KERNEL_FLAGS)
    target = folder / f"{HEADER.name}.gch"
    if not target.exists():
        _made(target, HEADER.read_text(), (*KERNEL_FLAGS, "-w", "-x", "c++-header"), HEADER.name)
    return folder


@cache
def _engine() -> Any:
    """The engine, whose symbols all kernels use."""
    return ctypes.CDLL(str(_compiled(ENGINE.read_text(), ENGINE_FLAGS, ENGINE.name)), mode=ctypes.RTLD_GLOBAL)


def build(file: str, name: str, options: tuple[str, ...] = ()) -> Any:
    """The library of one kernel instantiation."""
    defines = tuple(option for option in options if option.startswith("-D"))
    return _library(translated(Kernel(file, name, (1,), (1,))), defines, f"{file}: {name}")


@cache
def _library(source: str, defines: tuple[str, ...], name: str) -> Any:
    _engine()
    library = ctypes.CDLL(str(_compiled(source, (*KERNEL_FLAGS, *defines), name)))
    library.argument_size.restype = ctypes.c_size_t
    library.argument_size.argtypes = [ctypes.c_size_t]
    library.run_kernel.restype = ctypes.c_ulong
    library.run_kernel.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint]
    return library


class HostRunner:
    """A device that is the host: few multiprocessors, so that small tests have several blocks and passes."""

    def __init__(self, multiprocessors: int = 4, shared_bytes: int = 227 * 1024, warp_groups: bool = False) -> None:
        self._device = Device(0, multiprocessors, shared_bytes, warp_groups=warp_groups)
        self._scratch = np.empty(0, np.uint8)
        self.launched: list[Kernel] = []

    def device(self) -> Device:
        return self._device

    def launch(self, kernel: Kernel, *arguments: Any) -> None:
        library = build(kernel.file, kernel.name, kernel.options)
        self.launched.append(kernel)
        kept = [_by_address(x) for x in arguments]
        for k, (size, _, _) in enumerate(kept):
            wanted = library.argument_size(k)
            assert size == wanted, f"{kernel.name}: argument {k} has {size} bytes, but must have {wanted}"
        assert library.argument_size(len(kept)) == 0, f"{kernel.name}: {len(kept)} arguments are too few"
        grid, block = (kernel.grid + (1, 1))[:3], (kernel.block + (1, 1))[:3]
        threads = int(np.prod(block))
        assert 0 < threads <= 1024, f"{kernel.name}: {threads} threads a block"
        assert kernel.shared <= self._device.shared_bytes, f"{kernel.name}: {kernel.shared} bytes of shared memory"
        geometry = np.array([*grid, *block], np.uint32)
        addresses = (ctypes.c_void_p * max(len(kept), 1))(*(address for _, address, _ in kept))
        assert np.prod(grid) % kernel.cluster == 0, f"{kernel.name}: {grid} blocks in clusters of {kernel.cluster}"
        together = 0 if kernel.cooperative else kernel.cluster
        reports = library.run_kernel(geometry.ctypes.data, kernel.shared, addresses, together)
        assert reports == 0, f"{kernel.name}: {reports} reports of undefined behaviour, see stderr"

    def stream(self) -> int:
        return 0

    def workspace(self, nbytes: int) -> Any:
        if self._scratch.size < nbytes:
            self._scratch = np.empty(nbytes, np.uint8)
        self._scratch.fill(0xFF)  # NaN
        return self._scratch

    def scratch(self, nbytes: int) -> Any:
        return self.workspace(nbytes)


class Recorder(HostRunner):
    """Notes launches without running them."""

    def __init__(self, shared_bytes: int = 227 * 1024, warp_groups: bool = False) -> None:
        super().__init__(shared_bytes=shared_bytes, warp_groups=warp_groups)
        self.arguments: list[tuple[Any, ...]] = []

    def launch(self, kernel: Kernel, *arguments: Any) -> None:
        self.launched.append(kernel)
        self.arguments.append(arguments)


def _by_address(x: Any) -> tuple[int, int, Any]:
    """Size of an argument, address of its bytes, and what must live until the call is over."""
    if isinstance(x, np.ndarray) and x.dtype.names is not None:
        assert x.size == 1
        return x.itemsize, x.ctypes.data, x
    if isinstance(x, np.ndarray):
        pointer = np.array([x.ctypes.data], np.uint64)
        return 8, pointer.ctypes.data, (pointer, x)
    assert isinstance(x, np.generic), f"{x!r} is no array and no NumPy scalar"
    value = np.array([x])
    return value.itemsize, value.ctypes.data, value


def written() -> set[tuple[str, str]]:
    """Every kernel there is, by file and name."""
    bounds = re.compile(r"(?:__launch_bounds__|SOPS_CLUSTER)\((?:[^()]|\([^()]*\))*\)")
    return {
        (path.name, re.findall(r"(\w+)\s*\(", bounds.sub("", part))[0])
        for path in module.KERNELS.glob("*.cu")
        for part in path.read_text().split("__global__")[1:]
    }


@contextmanager
def backend(runner: HostRunner | None = None) -> Iterator[HostRunner]:
    """While it lasts, "cuda-on-host" is a backend for host arrays that runs what "cuda" runs on a device."""
    runner = runner or HostRunner()
    rows = {(op, BACKEND): row for (op, name), row in _support.SUPPORT.items() if name == "cuda"}
    before = launch.host_runner
    launch.host_runner = runner
    _support.BACKENDS[BACKEND] = "cpu"
    _support.SUPPORT.update(rows)
    try:
        yield runner
    finally:
        launch.host_runner = before
        del _support.BACKENDS[BACKEND]
        for key in rows:
            del _support.SUPPORT[key]
