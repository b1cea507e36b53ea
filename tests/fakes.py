"""A smallest operator for the tests of the core: one plan class and an executor that the support table finds."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from spectralops import _support
from spectralops._arrays import ArraySpec, Operand, describe


@dataclass(frozen=True)
class FakePlan:
    """Result = function of the operands, shaped and typed like the first unless said otherwise."""

    operands: tuple[Operand, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    backend: str = "cpu"
    bytes_moved: int = 8
    flops: int = 8
    in_place: bool = False
    op: str = "fake"


def plan_for(*arrays: Any, compute: str | None = None, **changes: Any) -> FakePlan:
    """Plan of ``fake(x, y, ...)`` for the specs of these arrays, computed in the dtype of the first."""
    home, first = describe("fake", "x", arrays[0])
    halves = ("float16", "bfloat16")
    compute = compute or ("float32" if first.dtype in halves else first.dtype)
    specs = [describe("fake", name, array)[1] for name, array in zip("xyz", arrays, strict=False)]
    operands = tuple(Operand(name, spec, compute) for name, spec in zip("xyz", specs, strict=False))
    settings = {"out_shape": first.shape, "out_dtype": first.dtype, "backend": "cpu" if home.kind == "cpu" else "cupy"}
    return FakePlan(operands, **(settings | changes))


def spec_plan(shape: tuple[int, ...], dtype: str, **changes: Any) -> FakePlan:
    """Plan of ``fake(x)`` for a shape and dtype."""
    operand = Operand("x", ArraySpec(shape, dtype), dtype)
    return FakePlan((operand,), **({"out_shape": shape, "out_dtype": dtype} | changes))


def double(plan: Any, x: Any, *more: Any, out: Any, workers: int) -> None:
    """Executor: twice the first array plus the others."""
    out[...] = 2 * x
    for array in more:
        out += array


def install(monkeypatch: pytest.MonkeyPatch, function: Callable[..., None] = double) -> None:
    """Make `function` the executor of ``fake`` on the CPU and on CuPy."""
    module = types.ModuleType("spectralops._fake")
    module.fake = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spectralops._fake", module)
    for backend in ("cpu", "cupy"):
        row = _support.Support("spectralops._fake", _support.ALL)
        monkeypatch.setitem(_support.SUPPORT, ("fake", backend), row)
    _support.executor.cache_clear()
