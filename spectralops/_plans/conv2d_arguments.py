"""The arguments of fft_conv2d: their canonical forms, and what does not fit together."""

from __future__ import annotations

from typing import Any

from spectralops import _checks
from spectralops._arrays import ArraySpec
from spectralops._plans import transform
from spectralops._plans.epilogue import Epilogue

__all__ = [
    "OP", "PADDING_MODES", "Pair",
    "check_epilogue", "check_shapes", "check_sizes", "extent", "padded_size", "sizes", "widths_of",
]  # fmt: skip

OP = "fft_conv2d"
# The largest stride, dilation and number of groups: products with sizes stay within 64 bits.
MOST = 2**31 - 1
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")

Pair = tuple[int, int]


def sizes(name: str, value: Any, count: int) -> tuple[int, ...]:
    """Positive integers, a single one standing for all."""
    found = _checks.shape(OP, value, name)
    if len(found) == 1:
        found *= count
    if len(found) != count:
        raise ValueError(f"{OP}: {name} has {len(found)} entries, but must have {count}")
    if min(found) < 1:
        raise ValueError(f"{OP}: {name} is {_checks.shown(value)}, but must be positive")
    if max(found) > MOST:
        raise ValueError(f"{OP}: {name} is {_checks.shown(value)}, but must be at most {MOST}")
    return found


def extent(weight: tuple[int, ...], dilation: tuple[int, ...]) -> Pair:
    """Length of the kernel with its holes along rows and columns."""
    rows, columns = (d * (k - 1) + 1 for k, d in zip(weight[-2:], dilation, strict=True))
    return rows, columns


def padded_size(image: tuple[int, ...], spread: Pair, padding: tuple[Pair, Pair]) -> Pair:
    """Size of an image after zeros between its elements, and padding around them."""
    rows, columns = ((n - 1) * s + 1 + low + high for n, s, (low, high) in zip(image, spread, padding, strict=True))
    return rows, columns


def check_shapes(x: ArraySpec, weight: ArraySpec, bias: ArraySpec | None, groups: int) -> None:
    """Raise ValueError unless images, kernels and bias fit one another."""
    if len(x.shape) not in (3, 4):
        raise ValueError(f"{OP}: x has {len(x.shape)} dimensions, but must have 4 (N, C, H, W) or 3 (C, H, W)")
    if len(weight.shape) != 4:
        raise ValueError(
            f"{OP}: weight has {len(weight.shape)} dimensions, but must have 4 (C_out, C_in / groups, K_h, K_w)"
        )
    transform.check_lengths(OP, "x", x.shape, tuple(range(len(x.shape) - 3, len(x.shape))))
    transform.check_lengths(OP, "weight", weight.shape, (0, 1, 2, 3))
    channels, outputs = x.shape[-3], weight.shape[0]
    if channels % groups or outputs % groups:
        raise ValueError(
            f"{OP}: groups is {groups}, but must divide the {channels} channels of x and the {outputs} of weight"
        )
    if channels != groups * weight.shape[1]:
        raise ValueError(
            f"{OP}: x has {channels} channels, but must have {groups * weight.shape[1]} "
            f"for a weight of shape {weight.shape} and {groups} groups"
        )
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"{OP}: bias has shape {bias.shape}, but must have shape {(outputs,)}, one per output channel")


def widths_of(value: Any, kernel: Pair, stride: tuple[int, ...]) -> tuple[Pair, ...]:
    """Cells before and after each axis; what "same" cannot halve goes after."""
    if isinstance(value, str):
        if _checks.choice(OP, "padding", value, ("same", "valid")) == "valid":
            return ((0, 0), (0, 0))
        if stride != (1, 1):
            raise ValueError(f"{OP}: stride is {stride}, but must be 1 for padding 'same'")
        return tuple(((k - 1) // 2, k - 1 - (k - 1) // 2) for k in kernel)
    sizes = _checks.shape(OP, value, "padding")
    if len(sizes) not in (1, 2):
        raise ValueError(f"{OP}: padding has {len(sizes)} entries, but must have 2")
    return (sizes[0],) * 2, (sizes[-1],) * 2


def check_sizes(x: tuple[int, ...], kernel: Pair, padding: tuple[Pair, ...], mode: str) -> None:
    """Raise ValueError where an image is smaller than its kernel, or than what it is padded by."""
    for name, n, k, widths in zip(("height", "width"), x[-2:], kernel, padding, strict=True):
        most = {"reflect": n - 1, "circular": n}.get(mode, max(widths))
        if max(widths) > most:
            raise ValueError(
                f"{OP}: padding is {max(widths)} for a {name} of {n}, but must be at most {most} "
                f"for padding_mode {mode!r}"
            )
        if n + sum(widths) < k:
            raise ValueError(
                f"{OP}: x has {name} {n}, {n + sum(widths)} with padding, "
                f"but must have at least the kernel's {k} (with dilation)"
            )


def check_epilogue(epilogue: Any, outputs: int, out_dtype: str) -> None:
    """Raise unless there is none, or one for so many channels of this dtype."""
    if epilogue is None:
        return
    if not isinstance(epilogue, Epilogue):
        raise TypeError(f"{OP}: epilogue is a {type(epilogue).__name__}, but must be an Epilogue or None")
    for name in ("scale", "shift"):
        factor = getattr(epilogue, name)
        if isinstance(factor, tuple) and len(factor) != outputs:
            raise ValueError(
                f"{OP}: epilogue.{name} has {len(factor)} entries, but must have {outputs}, one per output channel"
            )
    if epilogue.activation and out_dtype in _checks.COMPLEXES:
        raise TypeError(
            f"{OP}: epilogue.activation is {epilogue.activation!r}, but must be None for a result of dtype {out_dtype}"
        )
