"""The variants of the conformance suite: every operator case times backends, dtypes, memory layouts and libraries."""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from support import HALF_TOLERANCE, Arrays, OpCase, tolerance

import spectralops
from spectralops._support import BACKENDS, SUPPORT

CASES: list[OpCase] = [
    case
    for path in sorted(Path(__file__).parent.glob("cases_*.py"))
    for case in importlib.import_module(path.stem).CASES
]


def _strided(x: np.ndarray) -> np.ndarray:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def _reversed(x: np.ndarray) -> np.ndarray:
    backwards = (slice(None, None, -1),) * x.ndim
    return np.ascontiguousarray(x[backwards])[backwards]


def _offset(x: np.ndarray) -> np.ndarray:
    buffer = np.zeros(x.size + 1, x.dtype)
    buffer[1:] = x.ravel()
    return buffer[1:].reshape(x.shape)


def _read_only(x: np.ndarray) -> np.ndarray:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def _broadcast(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x[:1], x.shape) if x.shape[0] else x


def _foreign_order(x: np.ndarray) -> np.ndarray:
    return x.astype(x.dtype.newbyteorder(">"))


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": _strided,
    "reversed": _reversed,
    "offset": _offset,
    "read-only": _read_only,
    "broadcast": _broadcast,
    "big-endian": _foreign_order,
}
LIBRARIES = ("torch", "jax", "array_api_strict")


@dataclass(frozen=True)
class Variant:
    """One case on one backend, dtype, layout and library."""

    case: OpCase
    backend: str
    dtype: str
    layout: str = "C"
    library: str = "numpy"

    def __str__(self) -> str:
        return f"{self.case}-{self.backend}-{self.dtype}-{self.layout}-{self.library}"

    def function(self) -> Any:
        return getattr(spectralops, self.case.op)

    def arrays(self) -> Arrays:
        """The inputs in this variant's layout."""
        values = _inputs(self.case, self.dtype)
        return {name: self._lay_out(x) for name, x in values.items()}

    def _lay_out(self, x: np.ndarray) -> np.ndarray:
        if x.ndim == 0 or (self.layout == "big-endian" and x.dtype.kind not in "fc"):
            return x
        return LAYOUTS[self.layout](x)

    def expected(self) -> np.ndarray:
        """The 64-bit reference of the same values."""
        return _reference(self.case, self.dtype, self.layout == "broadcast")

    @property
    def result_dtype(self) -> str:
        """The dtype that the result must have."""
        if not self.case.complex_result or self.dtype.startswith("complex"):
            return self.dtype
        return "complex128" if self.dtype == "float64" else "complex64"

    def bound(self, arrays: Arrays) -> float:
        field = next(iter(arrays.values()))
        return tolerance(self.dtype, field.size, self.case.kind, self.case.growth)


@cache
def _inputs(case: OpCase, dtype: str) -> Arrays:
    return case.inputs(np.random.default_rng(zlib.crc32(str(case).encode())), dtype)


def _widen(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x if x.dtype.kind in "biu" else x.astype(np.float64)


@cache
def _reference(case: OpCase, dtype: str, broadcast: bool) -> np.ndarray:
    arrays = {name: _widen(_broadcast(x) if broadcast and x.ndim else x) for name, x in _inputs(case, dtype).items()}
    return np.asarray(case.call(getattr(spectralops, case.op), arrays, backend="reference"))


def _dtypes(case: OpCase) -> tuple[str, ...]:
    return case.dtypes + tuple(HALF_TOLERANCE) if "float32" in case.dtypes else case.dtypes


def _layouts(turn: int, backend: str, dtype: str) -> list[str]:
    """All of them for the first case of a row and dtype, one more than C for the others, in turn.

    The reference, which every array reaches as 64-bit numbers, needs no more than the first.
    """
    others = [layout for layout in LAYOUTS if layout != "C" and (layout, dtype) != ("big-endian", "bfloat16")]
    if turn == 0:
        return ["C", *others]
    return ["C"] if backend == "reference" else ["C", others[turn % len(others)]]


def host_variants() -> list[Variant]:
    """Each case on every CPU backend and dtype, contiguous and in other layouts, and once in another library."""
    variants = []
    turns: Counter[tuple[str, str, str]] = Counter()
    for index, case in enumerate(CASES):
        for backend, kind in BACKENDS.items():
            row = SUPPORT.get((case.op, backend))
            if kind != "cpu" or row is None:
                continue
            for dtype in _dtypes(case):
                if dtype not in row.dtypes:
                    continue
                turn = turns[case.op, backend, dtype]
                turns[case.op, backend, dtype] += 1
                variants += [Variant(case, backend, dtype, layout) for layout in _layouts(turn, backend, dtype)]
        dtype = case.dtypes[index % len(case.dtypes)]
        default = next(b for b in BACKENDS if (case.op, b) in SUPPORT)
        variants.append(Variant(case, default, dtype, "C", LIBRARIES[index % len(LIBRARIES)]))
    return variants


def device_variants() -> list[Variant]:
    """Each case and dtype on the CUDA backends, as CuPy arrays and once as torch tensors."""
    variants = []
    for index, case in enumerate(CASES):
        for backend, kind in BACKENDS.items():
            row = SUPPORT.get((case.op, backend))
            if kind != "cuda" or row is None:
                continue
            dtypes = [dtype for dtype in _dtypes(case) if dtype in row.dtypes and dtype != "bfloat16"]
            variants += [Variant(case, backend, dtype, "C", "cupy") for dtype in dtypes]
            variants.append(Variant(case, backend, dtypes[index % len(dtypes)], "C", "torch"))
            if row.stored and "bfloat16" in _dtypes(case):
                variants.append(Variant(case, backend, "bfloat16", "C", "torch"))
    return variants
