# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="import-untyped, no-untyped-call"
"""Compiled code: from this process, from the cache on disk, or emitted and compiled by LLVM now."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from spectralops._cpu.stencil.program import Program
from spectralops._cpu.vector import host
from spectralops._cpu.vector.kernels import cache_directory

__all__ = ["assembly", "stages", "sweep"]

_lock = threading.RLock()
_loaded: dict[str, llvm.ExecutionEngine] = {}  # own the machine code, which lives as long as the process


@lru_cache(maxsize=4)
def sweep(dtype: str, interleaved: bool = False) -> Callable[..., None]:
    """``sweep(job, items, first, last, scratch)`` as a C function of integers, called without the GIL."""
    engine = _code(f"sweep {dtype}", dtype, interleaved, _emit_sweep)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(engine.get_function_address("sweep"))


@lru_cache(maxsize=512)
def stages(program: Program, interleaved: bool = False) -> np.ndarray[Any, Any]:
    """Addresses of the functions that compute the rows of each stage of a program."""
    engine = _code(repr(program), program.dtype, interleaved, lambda e: _emit_program(e, program))
    return np.array([engine.get_function_address(f"rows_{stage}") for stage in range(program.stages)], np.int64)


def assembly(program: Program, interleaved: bool = False) -> str:
    """The machine code of a program in words, for those who want to see it vectorised."""
    machine, module = _optimised(program.dtype, interleaved, lambda e: _emit_program(e, program))
    return str(machine.emit_assembly(module))


def _emit_sweep(e: Any) -> None:
    from spectralops._cpu.stencil.sweep import emit_sweep

    emit_sweep(e)


def _emit_program(e: Any, program: Program) -> None:
    from spectralops._cpu.stencil.cells import emit_program

    emit_program(e, program)


def _code(name: str, dtype: str, interleaved: bool, emit: Callable[[Any], None]) -> llvm.ExecutionEngine:
    """The engine of a module that is known by name, from this process, from the disk, or compiled now."""
    name += " interleaved" * interleaved
    with _lock:
        if name not in _loaded:
            file = _file(name)
            code = _from_disk(file)
            if code is None:
                machine, module = _optimised(dtype, interleaved, emit)
                code = machine.emit_object(module)
                _to_disk(file, code)
            _loaded[name] = _linked(code)
        return _loaded[name]


def _optimised(dtype: str, interleaved: bool, emit: Callable[[Any], None]) -> tuple[llvm.TargetMachine, llvm.ModuleRef]:
    from llvmlite import ir

    from spectralops._cpu.stencil.emit import Emitter

    host.initialise()
    name, features = host.cpu()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=name, features=features, opt=3, jit=True)
    raw = ir.Module(name="stencil")
    raw.triple = llvm.get_process_triple()
    raw.data_layout = str(machine.target_data)
    emit(Emitter(raw, dtype, host.lanes(dtype), interleaved))
    module = llvm.parse_assembly(str(raw))
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # What is to be vectors is written as vectors.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine, module


def _linked(code: bytes) -> llvm.ExecutionEngine:
    host.initialise()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@lru_cache(maxsize=1)
def _build() -> str:
    """Digest of everything that compiled code depends on besides its program."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    facts = (llvmlite.__version__, llvm.get_process_triple(), *host.cpu(), host.vector_bytes())
    digest.update(repr(facts).encode())
    return digest.hexdigest()


def _file(name: str) -> Path | None:
    directory = cache_directory()
    if directory is None:
        return None
    digest = hashlib.sha256((_build() + name).encode()).hexdigest()[:32]
    return directory / f"stencil-{digest}.kernel"


def _from_disk(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        stored = file.read_bytes()
    except OSError:
        return None
    digest, code = stored[:32], stored[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _to_disk(file: Path | None, code: bytes) -> None:
    """Write beside the target and rename: other processes see the whole file or none."""
    if file is None:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
            part.write(hashlib.sha256(code).digest() + code)
        Path(part.name).replace(file)
    except OSError:
        return  # a full disk costs the next process a compilation, nothing else
