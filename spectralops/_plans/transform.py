"""What the plans of the spectral operators share: array arguments, sizes, operation counts, words for explain()."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from spectralops import _arrays, _checks
from spectralops._arrays import ArraySpec

__all__ = [
    "array_spec",
    "check_layer_axes",
    "check_lengths",
    "device_kind",
    "fast_size",
    "fft_flops",
    "lowest_wavenumbers",
    "real_part_of",
    "spectrum_sizes",
    "target_sizes",
]


def array_spec(op: str, name: str, value: Any) -> ArraySpec:
    """Shape and dtype of an array argument, which a planner may also be given as an :class:`ArraySpec`.

    Raises
    ------
    TypeError
        If it is neither, or has a dtype that the package does not know.
    """
    if isinstance(value, ArraySpec):
        spec = ArraySpec(_checks.shape(op, value.shape, f"{name}.shape"), value.dtype)
    elif _arrays.is_array(value):
        spec = _arrays.describe(op, name, value)[1]
    else:
        raise TypeError(f"{op}: {name} is a {type(value).__name__}, but must be an array with at least one axis")
    _checks.dtype(op, spec.dtype, name)
    return spec


def device_kind(op: str, device: Any) -> str:
    """``"cpu"`` or ``"cuda"`` of a device name such as ``"cuda:0"``."""
    name = device if isinstance(device, int) else str(device).partition(":")[0]  # also of an object that is a device
    return _checks.choice(op, "device", name, ("cpu", "cuda"))


def check_lengths(op: str, name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Raise ValueError if an axis to be transformed is empty."""
    for axis in axes:
        if shape[axis] == 0:
            raise ValueError(
                f"{op}: {name} has shape {shape} with length 0 along axis {axis}, but must have length 1 or more there"
            )


def check_layer_axes(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Raise ValueError if the axes to be transformed are not the last of x, with a channel axis before them."""
    d = len(axes)
    if sorted(axes) != list(range(len(shape) - d, len(shape))):
        raise ValueError(
            f"{op}: axes is {axes}, but must name the last {d} of x, with the channel axis before them; move them "
            "there, e.g. with numpy.moveaxis"
        )
    if len(shape) == d:
        raise ValueError(
            f"{op}: x has shape {shape}, but must have a channel axis before its {d} transformed axes; add one, e.g. "
            "x[None]"
        )


def lowest_wavenumbers(modes: tuple[int, ...], halved: bool) -> tuple[int, ...]:
    """First of the kept wavenumbers along each axis, which are centred, or nonnegative along a halved last axis."""
    full = tuple(-(m // 2) for m in modes)
    return (*full[:-1], 0) if halved else full


def spectrum_sizes(sizes: Sequence[int], halved: bool) -> tuple[int, ...]:
    """Number of coefficients along each transformed axis: real input keeps n//2 + 1 of the last."""
    return (*sizes[:-1], sizes[-1] // 2 + 1) if halved else tuple(sizes)


@lru_cache(maxsize=1024)
def fast_size(n: int) -> int:
    """The smallest size from `n` on without prime factors above 7."""
    best = 1 << max(n - 1, 0).bit_length()
    sevens = 1
    while sevens < best:
        fives = sevens
        while fives < best:
            odd = fives
            while odd < best:
                twos = -(-n // odd)
                best = min(best, odd << (twos - 1).bit_length())
                odd *= 3
            fives *= 5
        sevens *= 7
    return best


def fft_flops(sizes: Sequence[int], halved: bool) -> int:
    """Nominal count of one transform: 5 N log2 N, half of it for real input."""
    size = math.prod(sizes)
    return round((2.5 if halved else 5.0) * size * math.log2(size)) if size > 1 else 0


def real_part_of(dtype: str) -> str:
    """The dtype of a coefficient's real part when the field has `dtype`: float32 also for 16-bit storage."""
    return _checks.real_dtype(_checks.compute_dtype(dtype))


def target_sizes(op: str, value: Any) -> int | tuple[int, ...]:
    """`out_shape` as one size for every axis or as a tuple with one per axis."""
    sizes = _checks.shape(op, value, "out_shape")
    return sizes if isinstance(value, Iterable) else sizes[0]
