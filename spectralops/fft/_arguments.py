"""Canonical lengths, axes and dtypes of the transforms, with one function for each argument that can be at fault."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from spectralops import _checks
from spectralops.errors import UnsupportedError

__all__ = [
    "Norm", "Sizes", "Type", "check_axes", "lengths", "no_plan", "no_workers", "result_shape", "spelled",
    "transform_dtype",
]  # fmt: skip

Norm = Literal["backward", "ortho", "forward"]
Sizes = int | Sequence[int] | None
Type = Literal[1, 2, 3, 4]

NORMS = ("backward", "ortho", "forward")
REAL_INPUT = frozenset({"rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn", "fht", "ifht"})
REAL_OUTPUT = frozenset({"irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn"})
COMPLEX = frozenset({"fft", "fft2", "fftn", "ifft", "ifft2", "ifftn"})
# Over no axes at all these are the identity; the real transforms need an axis to halve.
IDENTITY_WITHOUT_AXES = COMPLEX | {"dctn", "idctn", "dstn", "idstn"}


def lengths(
    op: str, shape: tuple[int, ...], size: Any, axes: Any, norm: Any, kind: Any = 2
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Length of the transform along each axis, and the non-negative axes, after checking all of them.

    The length is that of the side on which the signal is whole: of the result where that is real (`irfft`).
    """
    try:
        # The types belong to the key, because 2.0 equals 2 and must not pass for it.
        return _lengths(op, shape, size, axes, norm, kind, (type(size), type(axes), _types(size), _types(axes)))
    except TypeError:  # a list or a tensor may change, or an argument is at fault, which is said again
        return _lengths.__wrapped__(op, shape, size, axes, norm, kind, ())


def _types(value: Any) -> tuple[type, ...]:
    return tuple(map(type, value)) if isinstance(value, tuple) else ()


@lru_cache(maxsize=512)
def _lengths(
    op: str, shape: tuple[int, ...], size: Any, axes: Any, norm: Any, kind: Any, types: tuple[Any, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if types and not _checks.lasting((size, axes)):
        raise TypeError("may change")
    if norm is not None:
        _checks.choice(op, "norm", norm, NORMS)
    if op[-1] in "2n":
        sizes, result = _many(op, shape, size, axes)
    else:
        sizes, result = _one(op, shape, size, axes)
    if kind not in (1, 2, 3, 4):
        raise ValueError(f"{op}: type is {_checks.shown(kind)}, but must be 1, 2, 3 or 4")
    if kind == 1 and "dct" in op and min(sizes, default=2) < 2:
        raise ValueError(
            f"{op}: the transform has lengths {sizes}, but must have at least 2 along each axis for type 1"
        )
    return sizes, result


def _one(op: str, shape: tuple[int, ...], n: Any, axis: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    axis, ndim = _checks.integer(op, "axis", axis), len(shape)
    if not ndim:
        raise np.exceptions.AxisError(f"{op}: x has 0 dimensions, but must have at least 1")
    if not -ndim <= axis < ndim:
        # An IndexError as well as a ValueError, because SciPy raises the former here and the latter in n dimensions.
        raise np.exceptions.AxisError(
            f"{op}: axis is {axis}, but must lie in [{-ndim}, {ndim}) for x with {ndim} dimensions"
        )
    axis %= ndim
    if n is not None:
        n = _checks.integer(op, "n", n)
        if n < 1:
            raise ValueError(f"{op}: n is {n}, but must be at least 1")
        return (n,), (axis,)
    return (_default_length(op, shape, axis, op in REAL_OUTPUT, "n"),), (axis,)


def _many(op: str, shape: tuple[int, ...], s: Any, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ndim = len(shape)
    sizes = None if s is None else _integers(op, "s", s)
    if axes is not None:
        axes = _integers(op, "axes", axes)
        axes = _checks.axes(op, axes, ndim) if axes else ()
    elif sizes is None:
        axes = tuple(range(ndim))
    elif len(sizes) > ndim:
        raise ValueError(f"{op}: s has {len(sizes)} entries, but must have at most {ndim} for x with {ndim} dimensions")
    else:
        axes = tuple(range(ndim - len(sizes), ndim))
    if not axes:
        if op not in IDENTITY_WITHOUT_AXES:
            raise ValueError(f"{op}: axes is empty, but must name at least one axis")
        return (), ()
    if sizes is None:
        halved = [op in REAL_OUTPUT and axis == axes[-1] for axis in axes]
        return tuple(_default_length(op, shape, axis, half, "s") for axis, half in zip(axes, halved, strict=True)), axes
    if len(sizes) != len(axes):
        raise ValueError(f"{op}: s has {len(sizes)} entries, but must have {len(axes)}, one per axis of axes={axes}")
    sizes = tuple(shape[axis] if n == -1 else n for n, axis in zip(sizes, axes, strict=True))
    if min(sizes) < 1:
        raise ValueError(f"{op}: s is {sizes}, but must be at least 1 along each axis")
    return sizes, axes


def check_axes(op: str, axes: Any, ndim: int) -> None:
    """Raise AxisError, a ValueError and an IndexError, unless all axes are of an array; they may be named twice."""
    for axis in _integers(op, "axes", axes):
        if not -ndim <= axis < ndim:
            raise np.exceptions.AxisError(
                f"{op}: axes has {axis}, but must lie in [{-ndim}, {ndim}) for x with {ndim} dimensions"
            )


def _default_length(op: str, shape: tuple[int, ...], axis: int, halved: bool, name: str) -> int:
    length = 2 * (shape[axis] - 1) if halved else shape[axis]
    if length < 1:
        least = 2 if halved else 1
        raise ValueError(
            f"{op}: the length of axis {axis} is {shape[axis]}, but must be at least {least}; or pass {name}"
        )
    return length


def _integers(op: str, name: str, value: Any) -> tuple[int, ...]:
    items = value if isinstance(value, Iterable) else (value,)
    try:
        return tuple(operator.index(item) for item in items)
    except TypeError as error:
        raise TypeError(f"{op}: {name} is {_checks.shown(value)}, but must be integers") from error


@lru_cache(maxsize=512)
def transform_dtype(op: str, dtype: str, default: str, name: str = "x") -> tuple[str, str]:
    """The dtypes that a transform computes in and returns: those of SciPy, which has no 16-bit result."""
    compute = _checks.compute_dtype(_checks.inexact_dtype(op, dtype, name, default))
    if op in REAL_INPUT and compute in _checks.COMPLEXES:
        raise TypeError(f"{op}: {name} has dtype {dtype}, but must be real")
    if op in COMPLEX or op[:2] in ("rf", "ih"):
        return compute, _checks.complex_dtype(compute)
    return compute, _checks.real_dtype(compute) if op in REAL_OUTPUT else compute


def result_shape(op: str, shape: tuple[int, ...], sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the result: `sizes` along `axes`, the last of them halved where the input is real."""
    result = list(shape)
    for n, axis in zip(sizes, axes, strict=True):
        result[axis] = n
    if op in REAL_INPUT:
        result[axes[-1]] = sizes[-1] // 2 + 1
    return tuple(result)


def spelled(op: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Any, Any]:
    """`sizes` and `axes` as the functions named `op` take them: n and axis, or s and axes."""
    # s is a list, because CuPy takes a tuple that equals the shape for the shape whatever the axes (SHP03).
    return (list(sizes), axes) if op[-1] in "2n" else (sizes[0], axes[0])


def no_workers(op: str, library: str, workers: object) -> None:
    """Refuse a number of threads where it would have no effect."""
    if workers is not None:
        given = _checks.shown(workers)
        raise ValueError(f"{op}: workers is {given}, but must be None for {library} arrays, where it has no effect")


def no_plan(op: str, library: str, plan: object) -> None:
    """Refuse a precomputed plan where the engine takes none."""
    if plan is not None:
        raise UnsupportedError(f"{op}: plan is a {type(plan).__name__}, but must be None for {library} arrays")
