"""What the functions of this package share: checks of tensors, and when a call must be recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from spectralops import _checks
from spectralops._arrays import ArraySpec, Home, dtype_name
from spectralops._plans.looks import Known

__all__ = [
    "constant", "fixed", "floating", "looked_up", "own", "padded", "planned", "precision", "recorded",
    "spec_of", "straight", "tensor", "transformed",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def constant(function: F) -> F:
    """Have a function run while tracing, its result a constant of the compiled code: PyTorch cannot trace what it does.

    This is the mark of ``torch.compiler.assume_constant_result``, which itself loads the compiler, two seconds of it.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def fixed(value: Any) -> Any:
    """The value with its numbers as constants of the compiled code, which then holds for these alone."""
    if isinstance(value, list | tuple):
        return tuple(fixed(item) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    from torch.fx.experimental.symbolic_shapes import guard_scalar  # which loads SymPy

    return guard_scalar(value)


def spec_of(tensor: Tensor) -> ArraySpec:
    """Shape and dtype of a tensor as the plans write them."""
    return ArraySpec(tuple(tensor.shape), dtype_name(tensor.dtype))


def tensor(op: str, name: str, value: Any) -> None:
    """Raise TypeError unless `value` is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{op}: {name} is a {type(value).__name__}, but must be a torch.Tensor; "
            f"spectralops.{op} takes arrays of every library"
        )


def transformed() -> bool:
    """Whether calls are compiled or transformed."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return torch.autograd.forward_ad._current_level >= 0


def recorded(*tensors: Tensor) -> bool:
    """Whether a call is differentiated, transformed or compiled, rather than just run."""
    if torch.is_grad_enabled():
        for t in tensors:
            if t.requires_grad:
                return True
    return transformed()


def planned(build: Callable[..., Any]) -> Any:
    """Remember what `build(specs, device, *options)` makes of tensors of the same looks, together with their home."""

    @lru_cache(maxsize=512, typed=True)
    def found(count: int, types: tuple[Any, ...], *key: Any) -> Known:
        looks, options = key[: 3 * count], key[3 * count :]
        specs = [
            ArraySpec(tuple(shape), dtype_name(dtype)) for shape, dtype in zip(looks[::3], looks[1::3], strict=True)
        ]
        if len(set(looks[2::3])) > 1:
            raise TypeError("tensors on several devices")
        inexact = all(dtype.is_floating_point or dtype.is_complex for dtype in looks[1::3])
        if not inexact or not _checks.lasting(options):
            raise TypeError("integers, which become floats of PyTorch's default, or options that may change")
        home = Home("torch", str(looks[2]))
        return Known(build(specs, home.device, *options), home)

    return found


def straight(found: Any, tensors: tuple[Tensor, ...], *options: Any) -> Tensor | None:
    """Run a plan found by the looks of the tensors alone, nothing described again; None for what needs more care."""
    known = looked_up(found, tensors, *options)
    return None if known is None else known(tensors)


def looked_up(found: Any, tensors: tuple[Tensor, ...], *options: Any) -> Known | None:
    """The plan of tensors by their looks alone; None for what needs more care.

    That are fields of integers, sparse tensors and what no plan can be made of: the public function says why.
    """
    key: list[Any] = []
    for x in tensors:
        if x.layout is not torch.strided:
            return None
        key += (x.shape, x.dtype, x.device)
    if not (tensors[0].is_floating_point() or tensors[0].is_complex()):
        return None
    # A tuple of floats is equal to one of integers, but must not find its plan.
    types: tuple[Any, ...] = ()
    if tuple in map(type, options):
        types = tuple([tuple(map(type, option)) for option in options if type(option) is tuple])
    try:
        known: Known = found(len(tensors), types, *key, *options)
    except (TypeError, ValueError, NotImplementedError):
        return None
    return known


def own(x: Tensor) -> Tensor:
    """The tensor as a node of this call's own, by which gradients inside of it are found.

    By the tensor itself they would have parts that are not this call's, if another input was made of it.
    """
    return x.view_as(x)


def floating(x: Tensor) -> Tensor:
    """x, as PyTorch's default float where it holds integers or bool."""
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())


def precision(dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
    """Real and complex dtype that coefficients have beside a field: float32 also beside 16-bit storage."""
    if dtype in (torch.float64, torch.complex128):
        return torch.float64, torch.complex128
    return torch.float32, torch.complex64


def padded(x: Tensor, axes: Iterable[int], widths: Iterable[tuple[int, int]], mode: str) -> Tensor:
    """The tensor with cells before and after each axis as ``numpy.pad`` fills them in this mode, by gathering."""
    for axis, (low, high) in zip(axes, widths, strict=True):
        n = x.shape[axis]
        cells = torch.arange(-low, n + high, device=x.device)
        if mode == "edge":
            cells = cells.clamp(0, n - 1)
        elif mode == "wrap":
            cells = cells.remainder(n)
        else:
            # Mirrored about the end values, whose distance is half a period, or about the end faces.
            period, shift = (max(2 * n - 2, 1), 0) if mode == "reflect" else (2 * n, 1)
            cells = cells.remainder(period)
            cells = torch.where(cells < n, cells, period - shift - cells)
        x = x.index_select(axis, cells)
    return x
