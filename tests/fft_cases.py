"""Calls of spectralops.fft that several test files share, and an array type that passes for CuPy's on the host."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.fft
from libraries import Library, library

from spectralops import _arrays

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = tuple(f"{name}{suffix}" for name in ONE for suffix in "2n")
FOURIER = ONE + MANY
TRIGONOMETRIC_ONE = ("dct", "idct", "dst", "idst")
TRIGONOMETRIC = TRIGONOMETRIC_ONE + tuple(f"{name}n" for name in TRIGONOMETRIC_ONE)
REAL_INPUT = tuple(name for name in FOURIER if name.startswith(("rfft", "ihfft")))
REAL_OUTPUT = tuple(name for name in FOURIER if name.startswith(("irfft", "hfft")))

SINGLE = {"float16": "float32", "bfloat16": "float32"}
COMPLEX = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
REAL = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Call:
    """Arguments of a transform besides the array, and the shape of the array."""

    shape: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{name}={value}".replace(" ", "") for name, value in self.options.items()]
        return "-".join(["x".join(map(str, self.shape)), *words])


ONE_CALLS = (
    Call((8,)),
    Call((7,), {"norm": "ortho"}),
    Call((2,)),
    Call((3, 5), {"axis": 0, "norm": "forward"}),
    Call((4, 6), {"n": 4, "norm": "backward"}),
    Call((4, 6), {"n": 13}),
    Call((2, 31, 3), {"axis": -2, "norm": "ortho"}),
    Call((0, 2, 16)),
    Call((3, 0), {"n": 4}),
    Call((3, 0), {"n": 5}),
    Call((5, 4), {"n": 1, "axis": 1}),
)
MANY_CALLS = (
    Call((4, 6)),
    Call((3, 5), {"norm": "ortho", "axes": (1, 0)}),
    Call((3, 4, 5), {"norm": "forward", "axes": (0, 2)}),
    Call((3, 4, 5), {"s": (4, 6), "axes": (-1, 0)}),
    Call((3, 4, 5), {"s": (5, 3), "axes": (0, 2), "norm": "ortho"}),
    Call((2, 7, 2, 3), {"s": (5, -1), "axes": (1, 2)}),
    Call((3, 2), {"s": (3, 2), "axes": (1, 0)}),
    Call((5, 5), {"s": (8, 1), "axes": (0, 1)}),
    Call((0, 4, 6), {"axes": (1, 2)}),
    Call((6, 5), {"axes": (-1,)}),
)


def calls(op: str) -> tuple[Call, ...]:
    return MANY_CALLS if op in MANY or op.endswith("n") else ONE_CALLS


def signal(rng: np.random.Generator, op: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """White noise that `op` takes: real where it must be."""
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def expected(op: str, x: np.ndarray, **options: Any) -> np.ndarray:
    """SciPy in double precision."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return getattr(scipy.fft, op)(wide, **options)


def result_dtype(op: str, dtype: str) -> str:
    """dtype of the result as scipy.fft defines it."""
    dtype = SINGLE.get(dtype, dtype)
    if op in REAL_OUTPUT:
        return REAL.get(dtype, dtype)
    return COMPLEX[dtype] if op in FOURIER else dtype


class PretendCupy(np.ndarray):
    """A host array that the array layer is told to take for CuPy's."""

    device = types.SimpleNamespace(id=0)

    @property
    def data(self) -> Any:
        """Where it begins, as CuPy says it."""
        return types.SimpleNamespace(ptr=self.ctypes.data)


def _engine() -> types.SimpleNamespace:
    """cupyx.scipy.fft made of SciPy: no workers, no orthogonalize, only types 2 and 3, no empty arrays.

    cuFFT promises nothing for half spectra that no real signal has, so here they are refused, and so is the real
    inverse in several dimensions, which mixes the parts up.
    """

    def fourier(name: str) -> Callable[..., Any]:
        def function(x: Any, size: Any, axes: Any, norm: Any, overwrite_x: bool = False, *, plan: Any = None) -> Any:
            lengths = size if isinstance(size, list) else [size]
            assert 0 not in [n for axis, n in enumerate(x.shape) if axis not in np.atleast_1d(axes)], "empty batch"
            assert min(lengths) > 0
            assert x.dtype.name in COMPLEX, "the dtype is settled before"
            if name in ("irfft", "hfft"):
                planes = np.moveaxis(x, axes, -1)[..., slice(0, None, size // 2) if size % 2 == 0 else slice(0, 1)]
                assert not planes.imag.any(), "cuFFT would let this through"
            assert name in ("irfft", "hfft") or name not in REAL_OUTPUT, "cuFFT would mix this up"
            return getattr(scipy.fft, name)(x, size, axes, norm, overwrite_x, plan=plan)

        return function

    def trigonometric(name: str) -> Callable[..., Any]:
        def function(x: Any, kind: int = 2, size: Any = None, axes: Any = -1, norm: Any = None) -> Any:
            assert x.size
            assert kind in (2, 3), "cupyx has no other"
            return getattr(scipy.fft, name)(x, kind, size, axes, norm)

        return function

    functions = {name: fourier(name) for name in FOURIER} | {name: trigonometric(name) for name in TRIGONOMETRIC}
    return types.SimpleNamespace(**functions, fht=scipy.fft.fht, ifht=scipy.fft.ifht)


def pretend_cupy(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Let PretendCupy arrays run through the code for CuPy, on SciPy in place of cupyx."""
    cupy = types.SimpleNamespace(
        ndarray=PretendCupy,
        cuda=types.SimpleNamespace(
            Device=lambda index: nullcontext(),
            runtime=types.SimpleNamespace(getDevice=lambda: 0),
            cufft=types.SimpleNamespace(get_current_plan=lambda: None),
        ),
        empty=np.empty,
        fft=np.fft,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.fft", _engine())
    monkeypatch.setitem(_arrays._library_of_type, PretendCupy, "cupy")
    return Library(np.ndarray, lambda x: np.array(x).view(PretendCupy), np.asarray)


def open_library(name: str, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A library of tests/libraries.py, or the pretended CuPy; tensors are read through lazy bits."""
    if name == "pretended-cupy":
        return pretend_cupy(monkeypatch)
    found = library(name)
    if name != "torch":
        return found
    return Library(found.type, found.make, lambda x: found.read(x.resolve_conj().resolve_neg()))


HOST_LIBRARIES = ("numpy", "torch", "jax", "array_api_strict", "pretended-cupy")
