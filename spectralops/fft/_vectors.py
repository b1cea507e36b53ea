"""Fourier transforms of NumPy arrays on the vector engine, where it is faster than SciPy and means the same."""

from __future__ import annotations

import importlib
import math
import os
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft

from spectralops import _threads
from spectralops.fft import _arguments

__all__ = ["refusal", "transformed"]

ENGINE = "spectralops._cpu.vector"
KINDS = {
    "fft": "forward",
    "ifft": "inverse",
    "rfft": "from_real",
    "irfft": "to_real",
}
COMPLEX_OF = {"f": "F", "d": "D"}
REAL_OF = {"F": "f", "D": "d"}
DTYPES = {"f": "float32", "d": "float64", "F": "float32", "D": "float64"}


def transformed(op: str, x: np.ndarray[Any, Any], size: Any, axes: Any, norm: Any, workers: Any) -> Any:
    """The transform, or None where SciPy is to be called: for what the engine does not take, and for every error."""
    kind = KINDS.get(op.rstrip("2n"))
    if kind is None or x.dtype.char not in _taken(kind) or not x.flags.c_contiguous or not x.flags.aligned:
        return None
    if not x.dtype.isnative or x.size < 1 << 12 or _steered():
        return None
    try:
        sizes, along = _arguments.lengths(op, x.shape, size, axes, norm)
    except (TypeError, ValueError):
        return None
    threads = _allowed(workers)
    if threads is None or refusal(op, x.shape, x.dtype.char, sizes, along):
        return None
    whole = _whole(x.shape, sizes, along)
    total = math.prod(sizes)
    scale = {None: 1.0, "backward": 1.0, "ortho": math.sqrt(total), "forward": float(total)}[norm]
    if kind in ("inverse", "to_real"):
        scale = total / scale
    result = np.empty(_arguments.result_shape(op, x.shape, sizes, along), _result(kind, x.dtype.char))
    engine = importlib.import_module(f"{ENGINE}.transforms")
    flops = int((2.5 if "real" in kind else 5.0) * math.prod(whole) * math.log2(max(total, 2)))
    threads = _threads.worthwhile(threads, flops, x.nbytes + result.nbytes)
    engine.transform(kind, x, result, whole, along, 1.0 / scale, threads)
    return result


def _taken(kind: str) -> str:
    return "fd" if kind == "from_real" else "FD"


def _result(kind: str, char: str) -> str:
    return {"from_real": COMPLEX_OF, "to_real": REAL_OF}.get(kind, {char: char})[char]


def _whole(shape: tuple[int, ...], sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the side that is whole along all axes."""
    whole = list(shape)
    for n, axis in zip(sizes, axes, strict=True):
        whole[axis] = n
    return tuple(whole)


def refusal(op: str, shape: tuple[int, ...], char: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> str:
    """Why SciPy runs the transform of a C-contiguous array, in words; empty where the engine does."""
    kind = KINDS[op.rstrip("2n")]
    reason, whole = _mismatch(kind, shape, sizes, axes)
    if reason:
        return reason
    choice = importlib.import_module(f"{ENGINE}.choice")
    words: str = choice.transform_refusal(whole, axes, DTYPES[char], kind in ("from_real", "to_real"))
    return words


@lru_cache(maxsize=512)
def _mismatch(
    kind: str, shape: tuple[int, ...], sizes: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[str, tuple[int, ...]]:
    """What the engine has no kernel for, if anything, and the shape of the side that is whole along all axes."""
    if not axes or len(set(axes)) < len(axes):
        return "no axis, or one twice", shape
    whole = _whole(shape, sizes, axes)
    given = list(whole)
    if kind == "to_real":
        given[axes[-1]] = whole[axes[-1]] // 2 + 1
    if tuple(given) != shape:
        return "x is cut or filled up with zeros", whole
    if kind in ("from_real", "to_real") and axes[-1] != len(shape) - 1:
        return "the halved axis is not the last of the array", whole
    return "", whole


def _allowed(workers: Any) -> int | None:
    """The number of threads that SciPy would use, or None where it would refuse."""
    if workers is None:
        return scipy.fft.get_workers()
    if type(workers) is not int:
        return None
    cores = os.cpu_count() or 1
    count = workers if workers > 0 else workers + 1 + cores
    return count if workers and count > 0 else None


def _steered() -> bool:
    """Whether a backend was chosen by SciPy's control, which must then see the call."""
    try:
        control = importlib.import_module("scipy._lib._uarray._uarray")
        every, own, _ = control.get_state()._pickle()
    except (ImportError, AttributeError, ValueError):
        return False
    chosen, registered, _ = every.get("numpy.scipy.fft", (None, [], True))
    skipped, entered = own.get("numpy.scipy.fft", ([], []))
    standard = chosen is None or getattr(chosen[0], "__name__", "") == "_ScipyBackend"
    return bool(registered or skipped or entered or not standard)
