# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call"
"""The compiled kernels: by name and dtype, from this process, from the cache on disk, or compiled now.

A kernel is a compiled function of addresses and integers, called through ctypes, which releases the GIL. What compiles
(:mod:`loops`, :mod:`emit`) is loaded only for kernels that the cache does not have. Object code is cached in the user's
cache directory under a digest of everything it depends on: this package's sources, the compiler's version, the CPU and
the vector width. Where no directory is writable, each process compiles its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from spectralops import _remap
from spectralops._cpu.vector import host

__all__ = ["KERNELS", "address", "cache_directory", "compiled", "kernel", "optimised", "warm_up"]

# Module and arguments of each kernel: f pointer to numbers of its dtype, q pointer to 64-bit integers, i integer.
KERNELS: dict[str, tuple[str, str]] = {
    **{f"{way}{kind}": ("passes", "fqf") for way in ("forward", "inverse") for kind in ("", "_twos", "_primes")},
    "chirp_forward": ("chirp", "fqf"),
    "chirp_inverse": ("chirp", "fqf"),
    "arrange": ("arrange", "qfffii"),
    "product": ("products", "fififiiii"),
    "chain": ("truncated", "qffffii"),
    **{
        f"{step}_{way}": ("truncated", "qfffii")
        for step in ("columns_even", "columns_odd", "rows", "signs", "modes")
        for way in ("kept", "spread")
    },
    **{
        f"wave_{lines}_{way}": ("pruned", "qfffii")
        for lines in ("columns_even", "columns_pair", "rows_even", "rows_zero", "rows_complex")
        for way in ("kept", "spread")
    },
    **{f"wave_rows_short_{way}": ("shortened", "qfffii") for way in ("kept", "spread")},
    **dict.fromkeys(("mix", "mix_single", "gradient", "gradient_single"), ("mixing", "qffffii")),
    "copy_strip": ("direct", "qfiii"),
    **{
        f"sum_{kind}": ("direct", "qfffiii")
        for kind in ("rows", "taps", "channels", "square_3", "square_5", "square_7")
    },
    "cut_window": ("windows", "qffi"),
    "keep_window": ("windows", "qffi"),
    **{f"filter_{name}": ("windows", "qffffii") for name in ("windows", "lines", "spectra")},
    "tile_in": ("tiles", "qfffqqi"),
    "tile_out": ("tiles", "qfffqqi"),
    **dict.fromkeys(("tile_weights", "filter_tiles"), ("tiles", "qffffii")),
    **{f"rows_{kind}": ("lines", "qfififffii") for kind in ("complex", "from_real", "to_real")},
    "columns_complex": ("lines", "qffffii"),
    "images": ("stages", "qfififfffii"),
    "rows": ("stages", "qffffii"),
    "planes": ("stages", "qffffii"),
    "arranged": ("stages", "qffffii"),
    **{
        f"columns_{kind}_{way}": ("stages", "qfffii")
        for kind in ("even", "packed", "pair", "complex", "split")
        for way in ("in", "out")
    },
    **{
        f"filter_{along}_{kind}": ("stages", "qfififfii" if along == "rows" else "qffffii")
        for along in ("rows", "columns")
        for kind in ("even", "zero", "complex")
    },
    **{f"filter_each_{kind}": ("each", "qfififqfffii") for kind in ("even", "zero", "complex")},
    "images_each": ("each", "qqfififffffii"),
    **{
        f"chebyshev_{form}_{dims}d": ("chebyshev", "qfffffffffqiii")
        for form in ("open", "coast", "flux")
        for dims in (1, 2, 3)
    },
    "sweep_rows": ("sweeps", "qfffffff"),
    "sweep_columns": ("sweeps", "qffffffff"),
    "bounds_along": ("sweeps", "qfffff"),
    "bounds_across": ("sweeps", "qffff"),
}

_lock = threading.RLock()
_loaded: dict[tuple[str, str], tuple[int, Callable[..., int]]] = {}
_engines: list[Any] = []  # own the machine code; kernels live as long as the process


def kernel(name: str, dtype: str) -> Callable[..., int]:
    """The kernel as a C function of addresses and integers."""
    return _get(name, dtype)[1]


def address(name: str, dtype: str) -> int:
    """Where the kernel's machine code begins, for kernels that call it."""
    return _get(name, dtype)[0]


def compiled(name: str, dtype: str) -> bool:
    """Whether the kernel is at hand, in this process or on disk."""
    directory = cache_directory()
    return (name, dtype) in _loaded or (directory is not None and _file(directory, name, dtype).exists())


def warm_up(dtypes: tuple[str, ...]) -> None:
    """Load every kernel, compiling those that the cache on disk does not have."""
    for dtype in dtypes:
        for name in KERNELS:
            kernel(name, dtype)


def _get(name: str, dtype: str) -> tuple[int, Callable[..., int]]:
    found = _loaded.get((name, dtype))
    if found is None:
        with _lock:
            found = _loaded.get((name, dtype))
            if found is None:
                found = _loaded[name, dtype] = _load(name, dtype)
    return found


def _load(name: str, dtype: str) -> tuple[int, Callable[..., int]]:
    code = _from_disk(name, dtype)
    if code is None:
        machine, module = optimised(name, dtype)
        code = bytes(machine.emit_object(module))
        _to_disk(name, dtype, code)
    host.initialise()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    start = engine.get_function_address(name)
    _engines.append(engine)
    return start, ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(KERNELS[name][1]))(start)


def optimised(name: str, dtype: str) -> tuple[llvm.TargetMachine, llvm.ModuleRef]:
    """LLVM's module of one kernel and the machine that it is for."""
    from llvmlite import ir

    from spectralops._cpu.vector.loops import module_of

    host.initialise()
    cpu, features = host.cpu()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    module, arguments = KERNELS[name]
    function = getattr(importlib.import_module(f"spectralops._cpu.vector.{module}"), name)
    number = {"float32": ir.FloatType(), "float64": ir.DoubleType()}[dtype]
    kinds = {"f": number.as_pointer(), "q": ir.IntType(64).as_pointer(), "i": ir.IntType(64)}
    written = module_of(name, function, [kinds[kind] for kind in arguments])
    written.triple, written.data_layout = llvm.get_process_triple(), str(machine.target_data)
    parsed = llvm.parse_assembly(str(written))
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # What is to be vectors is written as vectors.
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return machine, parsed


@lru_cache(maxsize=1)
def _build() -> str:
    """Digest of everything that compiled code depends on."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.glob("*.py")), Path(_remap.__file__)):
        digest.update(path.read_bytes())
    facts = (llvmlite.__version__, llvm.get_process_triple(), *host.cpu(), host.vector_bytes())
    digest.update(repr(facts).encode())
    return digest.hexdigest()[:20]


def cache_directory() -> Path | None:
    """Where compiled kernels are kept, or None where nothing private can be written.

    ``SPECTRALOPS_CACHE_DIR`` if set, else the user's cache directory, else a private one among the temporary files.
    """
    for candidate in _candidates():
        directory = candidate / "kernels" / _build()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = directory.stat()
        except OSError:
            continue
        # Machine code is only loaded from where nobody else can have put it.
        mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & stat.S_IWOTH)
        if mine and os.access(directory, os.W_OK):
            return directory
    return None


def _candidates() -> list[Path]:
    chosen = os.environ.get("SPECTRALOPS_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    found = []
    if os.environ.get("XDG_CACHE_HOME"):
        found.append(Path(os.environ["XDG_CACHE_HOME"]) / "spectralops")
    try:
        home = Path.home()
    except RuntimeError:
        pass
    else:
        caches = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}
        found.append(caches.get(sys.platform, home / ".cache") / "spectralops")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return [*found, Path(tempfile.gettempdir()) / f"spectralops-{user}"]


def _file(directory: Path, name: str, dtype: str) -> Path:
    return directory / f"{name}-{dtype}.kernel"


def _from_disk(name: str, dtype: str) -> bytes | None:
    directory = cache_directory()
    if directory is None:
        return None
    try:
        stored = _file(directory, name, dtype).read_bytes()
    except OSError:
        return None
    digest, code = stored[:32], stored[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _to_disk(name: str, dtype: str, code: bytes) -> None:
    """Write beside the target and rename: other processes see the whole file or none."""
    directory = cache_directory()
    if directory is None:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        Path(file.name).replace(_file(directory, name, dtype))
    except OSError:
        return  # a full disk costs the next process a compilation, nothing else
