# numba and llvmlite carry no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call, misc, assignment"
"""The compiled kernels: by name and dtype, from this process, from the cache on disk, or compiled now.

A kernel is a numba-compiled function on addresses and integers, called through ctypes, which releases the GIL. numba
is loaded only to compile: a kernel found in the cache needs nothing but llvmlite. Object code is cached in the user's
cache directory under a digest of everything it depends on: this package's sources, the compiler's versions, the CPU and
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
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from spectralops import _remap
from spectralops._cpu.vector import host

__all__ = ["KERNELS", "address", "cache_directory", "compiled", "kernel", "warm_up"]

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
# numba's convention: a kernel takes first where to put its result (it stores a null there) and its exception (never).
_ignored = (ctypes.c_int64 * 2)()
_UNUSED = (ctypes.addressof(_ignored), ctypes.addressof(_ignored) + 8)
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
    stored = _from_disk(name, dtype)
    if stored is None:
        stored = _compile(name, dtype)
        _to_disk(name, dtype, stored)
    symbol, code = stored
    host.initialise()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    start = engine.get_function_address(symbol)
    _engines.append(engine)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * (2 + len(KERNELS[name][1])))(start)
    return start, partial(function, *_UNUSED)


def _compile(name: str, dtype: str) -> tuple[str, bytes]:
    """Symbol and object code of one kernel; numba is imported here and nowhere else."""
    from numba.core import codegen, compiler, typed_passes, types, untyped_passes
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.compiler_machinery import PassManager
    from numba.core.registry import cpu_target

    class Library(codegen.JITCodeLibrary):
        """Code as it was lowered: numba would optimise it three times, for loops that are none of the kernels'."""

        def _optimize_functions(self, module: Any) -> None:
            module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalized = True

    class Pipeline(compiler.CompilerBase):
        """What loops over integers and pointers need: neither closures nor overloads nor array expressions."""

        def define_pipelines(self) -> list[Any]:
            passes = PassManager("kernel")
            for module, names in (
                (untyped_passes, ("TranslateByteCode", "FixupArgs", "IRProcessing", "ReconstructSSA")),
                (typed_passes, ("NopythonTypeInference", "PreLowerStripPhis", "IRLegalization", "NativeLowering")),
                (typed_passes, ("NoPythonBackend",)),
            ):
                for each in names:
                    passes.add_pass(getattr(module, each), each)
            passes.finalize()
            return [passes]

    module, arguments = KERNELS[name]
    number = {"float32": types.float32, "float64": types.float64}[dtype]
    kinds = {"f": types.CPointer(number), "q": types.CPointer(types.int64), "i": types.int64}
    function = getattr(importlib.import_module(f"spectralops._cpu.vector.{module}"), name)
    flags = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.nrt = False
    with global_compiler_lock:
        library = Library(cpu_target.target_context.codegen(), name)
        library.enable_object_caching()
        result = compiler.compile_extra(
            cpu_target.typing_context,
            cpu_target.target_context,
            function,
            tuple(kinds[kind] for kind in arguments),
            types.void,
            flags,
            {},
            library,
            Pipeline,
        )
        library.finalize()
        text = library.get_llvm_str()
    return result.fndesc.llvm_func_name, _object_code(text)


def _object_code(text: str) -> bytes:
    """Machine code of an LLVM module for this CPU."""
    host.initialise()
    name, features = host.cpu()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=name, features=features, opt=3, jit=True)
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # What is to be vectors is written as vectors.
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@lru_cache(maxsize=1)
def _build() -> str:
    """Digest of everything that compiled code depends on."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.glob("*.py")), Path(_remap.__file__)):
        digest.update(path.read_bytes())
    facts = (version("numba"), version("llvmlite"), llvm.get_process_triple(), *host.cpu(), host.vector_bytes())
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


def _from_disk(name: str, dtype: str) -> tuple[str, bytes] | None:
    directory = cache_directory()
    if directory is None:
        return None
    try:
        stored = _file(directory, name, dtype).read_bytes()
    except OSError:
        return None
    digest, symbol, code = stored[:32], *stored[32:].partition(b"\n")[::2]
    if hashlib.sha256(stored[32:]).digest() != digest:
        return None
    return symbol.decode(), code


def _to_disk(name: str, dtype: str, stored: tuple[str, bytes]) -> None:
    """Write beside the target and rename: other processes see the whole file or none."""
    directory = cache_directory()
    if directory is None:
        return
    content = stored[0].encode() + b"\n" + stored[1]
    try:
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            file.write(hashlib.sha256(content).digest() + content)
        Path(file.name).replace(_file(directory, name, dtype))
    except OSError:
        return  # a full disk costs the next process a compilation, nothing else
