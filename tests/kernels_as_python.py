"""The plain loops of the vector engine's kernels run by Python, so that their lines count and can be stepped through.

What the loops are made of keeps its meaning: reads and writes go to the same memory, and each vector operation is
compiled by itself.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from spectralops._cpu.vector import host, kernels
from spectralops._cpu.vector.emit import Operation

__all__ = ["run_as_python"]

READ = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int64": ctypes.c_int64}


NOWHERE = 1 << 60


@dataclass(frozen=True)
class Pointer:
    """An address and what lies there."""

    address: int
    kind: str

    def cell(self, offset: int) -> Any:
        kind = READ[self.kind]
        return kind.from_address(self.address + offset * ctypes.sizeof(kind))


def _number(argument: Any) -> int:
    return argument.address if isinstance(argument, Pointer) else int(argument)


def _write(pointer: Pointer, offset: int, value: float) -> None:
    pointer.cell(offset).value = value


def _shift(pointer: Pointer, offset: int) -> Pointer:
    return Pointer(pointer.address + offset * ctypes.sizeof(READ[pointer.kind]), pointer.kind)


def _operation(patch: pytest.MonkeyPatch, module: Any, name: str, operation: Any) -> Callable[..., None]:
    """Call one vector operation as a kernel of its own."""
    folder = module.__name__.rpartition(".")[2]

    def call(*arguments: Any) -> None:
        letters = "".join("i" if not isinstance(a, Pointer) else "q" if a.kind == "int64" else "f" for a in arguments)
        dtype = next(a.kind for a in arguments if isinstance(a, Pointer) and a.kind != "int64")
        alone = f"{folder}_{name}_alone"
        if alone not in kernels.KERNELS:
            patch.setattr(module, alone, operation, raising=False)
            patch.setitem(kernels.KERNELS, alone, (folder, letters))
        kernels.kernel(alone, dtype)(*(_number(a) for a in arguments))

    return call


def run_as_python(patch: pytest.MonkeyPatch, *modules: str) -> list[str]:
    """From now on, the kernels of these modules are their Python functions; returns the names of those called."""
    called: list[str] = []
    compiled, address = kernels.kernel, kernels.address
    chosen = {name: entry for name, entry in kernels.KERNELS.items() if entry[0] in modules}
    by_address: dict[int, Callable[..., None]] = {}

    def python(name: str, dtype: str) -> Callable[..., None]:
        module, letters = chosen[name]
        function = getattr(importlib.import_module(f"spectralops._cpu.vector.{module}"), name)

        def run(*arguments: Any) -> None:
            called.append(name)
            kinds = {"f": dtype, "q": "int64"}
            function(*(
                a if letter == "i" else Pointer(_number(a), kinds[letter])
                for letter, a in zip(letters, arguments, strict=True)
            ))  # fmt: skip

        return run

    def kernel(name: str, dtype: str) -> Callable[..., Any]:
        return python(name, dtype) if name in chosen else compiled(name, dtype)

    def address_of(name: str, dtype: str) -> int:
        if name not in chosen:
            return address(name, dtype)
        # No machine code: only loops that Python runs call these kernels.
        place = NOWHERE + len(by_address)
        by_address[place] = python(name, dtype)
        return place

    def call(place: int, arguments: tuple[Any, ...]) -> None:
        if place in by_address:
            by_address[place](*arguments)
        else:
            kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))
            kind(place)(*(_number(a) for a in arguments))

    replaced = {
        "at": lambda pointer, offset: pointer.cell(offset).value,
        "write": _write,
        "shift": _shift,
        "call": call,
        "lanes": lambda pointer: host.lanes(pointer.kind),
        "integers": lambda place: Pointer(place, "int64"),
        "floats": lambda place, like: Pointer(place, like.kind),
    }
    patch.setattr(kernels, "kernel", kernel)
    patch.setattr(kernels, "address", address_of)
    for name in modules:
        module = importlib.import_module(f"spectralops._cpu.vector.{name}")
        for key, value in inspect.getmembers(module, lambda value: isinstance(value, Operation)):
            patch.setattr(module, key, replaced.get(key) or _operation(patch, module, key, value))
    return called
