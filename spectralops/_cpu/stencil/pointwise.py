# numba carries no types that a strict check could use.
# mypy: disable-error-code="import-untyped, no-untyped-call, misc, call-overload"
"""A user's pointwise terms, compiled by numba into functions of rows of cells."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numba
from numba import types

__all__ = ["compiled", "refusal"]

# Functions whose compiled rows are remembered.
KEPT = 32

_lock = threading.RLock()
# The function is held, so that no other gets its identity.
_known: OrderedDict[tuple[int, str], tuple[Any, Any]] = OrderedDict()


def refusal(function: Callable[..., Any], dtype: str) -> str:
    """Why a function compiled by numba cannot be called cell by cell, in words; empty where it can."""
    try:
        compiled(function, dtype)
    except numba.core.errors.NumbaError as error:
        first = str(error).strip().splitlines()[0]
        return f"numba cannot call the Pointwise function with one {dtype}: {first}"
    return ""


def compiled(function: Callable[..., Any], dtype: str) -> Any:
    """``rows(source, target, count, dt)``, which writes f(source) * dt; hold it while its `address` is in use."""
    key = (id(function), dtype)
    with _lock:
        found = _known.get(key)
        if found is None:
            found = _known[key] = (function, _compile(function, dtype))
            while len(_known) > KEPT:
                _known.popitem(last=False)
        return found[1]


def _compile(function: Any, dtype: str) -> Any:
    number = {"float32": types.float32, "float64": types.float64}[dtype]
    pointer = types.CPointer(number)

    def rows(source: Any, target: Any, count: Any, dt: Any) -> None:
        for k in range(count):
            target[k] = function(source[k]) * dt

    return numba.cfunc(types.void(pointer, pointer, types.int64, number))(rows)
