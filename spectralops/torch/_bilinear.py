"""Operators that are linear in each of two tensors, as differentiable functions of PyTorch.

Such an operator y = A(x, w) has two companions with respect to the real inner product <a, b> = Re sum conj(a) b:

    <y', A(x, w)> = <B(y', w), x> = <C(x, y'), w>,

the adjoint B and the weight gradient C. Each is bilinear again and has the other two for its own companions, so that
the three are closed under differentiation: gradients of every order need nothing else.

Eager code runs through :class:`torch.autograd.Function`, compiled code through a custom operator: forward-mode
derivatives of the latter are silently zero, and PyTorch cannot trace the former's. The operator names its family and
options by a string, since its arguments must be plain values.
"""

from __future__ import annotations

import ast
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spectralops import _dispatch
from spectralops._arrays import ArraySpec, Home, dtype_name
from spectralops._bilinear import ADJOINT, FORWARD, WEIGHT, plan_of
from spectralops.torch._tensors import constant, fixed, recorded, transformed

__all__ = ["Call", "Family", "apply", "compute"]

_families: dict[str, Family] = {}


class Family(ABC):
    """One operator, planned by its name: how C is computed, and whatever else is special to it.

    An operator of x alone is planned without w, which is then an empty tensor that nothing reads.
    """

    name: str

    def __init_subclass__(cls) -> None:
        _families[cls.name] = cls()

    def plan(self, x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str) -> Any:
        """The plan of A; it has `adjoint()`, the plan of B."""
        return plan_of(self.name, x, w, y_shape, options, device)

    @abstractmethod
    def weight(self, plan: Any, x: Tensor, y: Tensor, w: ArraySpec) -> Tensor:
        """C(x, y), where `plan` is the plan of A."""

    def keeping(self, plan: Any, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor] | None:
        """A(x, w) and what :meth:`gradients` wants to be kept of it; None where it would keep nothing."""
        return None

    def gradients(self, plan: Any, kept: Tensor, x: Tensor, w: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """B(y, w) and C(x, y) together, not recorded."""
        raise NotImplementedError

    def elsewhere(self, call: Call, plan: Any, a: Tensor, b: Tensor, shape: Sequence[int]) -> Tensor | None:
        """The map by somebody else, where that is wanted; `plan` is that of the map, of A for C."""
        return None

    def fold(self, call: Call, a: Tensor, b: Tensor, shape: Sequence[int]) -> Tensor:
        """A or B for an `a` with one more leading axis, one for each of its entries."""
        return apply(call, a, b, (a.shape[0], *shape), a.dtype)


class Call(NamedTuple):
    """One of the three maps of an operator with its options."""

    which: int
    family: str
    options: tuple[Any, ...] | str  # text where they go through the operator

    def to(self, which: int) -> Call:
        """The same operator's other map."""
        return Call(which, self.family, self.options)


@lru_cache(maxsize=1024)
def _plans(
    family: str, x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str
) -> tuple[Any, Any]:
    plan = _families[family].plan(x, w, y_shape, options, device)
    return plan, plan.adjoint()


@lru_cache(maxsize=1024)
def _found(
    call: Call, a: tuple[Any, ...], b: tuple[Any, ...], device: Any, shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[Any, Home]:
    """The plan of a map for tensors of these shapes and dtypes, for C that of A; and where they live."""
    home = Home("torch", str(device))
    first, second = (ArraySpec(tuple(size), dtype_name(kind)) for size, kind in (a, b))
    if call.which == WEIGHT:
        result = ArraySpec(shape, dtype_name(dtype))
        return _plans(call.family, first, result, second.shape, call.options, home.device)[FORWARD], home
    x = first if call.which == FORWARD else ArraySpec(shape, first.dtype)
    y_shape = shape if call.which == FORWARD else first.shape
    return _plans(call.family, x, second, y_shape, call.options, home.device)[call.which], home


def compute(call: Call, a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """The map's values; where gradients are not recorded."""
    shape = tuple(shape)
    plan, home = _found(call, (a.shape, a.dtype), (b.shape, b.dtype), a.device, shape, dtype)
    if a.device != b.device and len(plan.operands) > 1:
        raise TypeError(f"{call.family}: arrays lie on {a.device} and {b.device}, but must lie on one device")
    family = _families[call.family]
    found = family.elsewhere(call, plan, a, b, shape)
    if found is not None:
        return found
    if call.which == WEIGHT:
        if not a.numel():
            return a.new_zeros(shape, dtype=dtype)
        return family.weight(plan, a.detach(), b.detach(), ArraySpec(shape, dtype_name(dtype)))
    result: Tensor = _dispatch.run(plan, (a, b)[: len(plan.operands)], home)
    return result


def _companions(
    run: Callable[..., Tensor], call: Call, a: Tensor, b: Tensor, g: Tensor, needs: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients with respect to both tensors, by the other two maps."""
    if call.which == WEIGHT:  # a = x, b = y, g like w
        first = run(call.to(ADJOINT), b, g, a.shape, a.dtype) if needs[0] else None
        return first, run(call.to(FORWARD), a, g, b.shape, b.dtype) if needs[1] else None
    first = run(call.to(ADJOINT - call.which), g, b, a.shape, a.dtype) if needs[0] else None
    pair = (a, g) if call.which == FORWARD else (g, a)
    return first, run(call.to(WEIGHT), *pair, b.shape, b.dtype) if needs[1] else None


NOTHING = (None, None)


class _Kept(threading.local):
    """What a node keeps and its plan, from its forward pass to where its context is there."""

    of: Sequence[Any] = NOTHING


_kept = _Kept()


def _keeping(call: Call, a: Tensor, b: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor, Any] | None:
    """A(a, b), what the family keeps, and the plan."""
    if not (_is_plain(a) and _is_plain(b)) or transformed() or _dispatch.observed():
        return None
    plan, _ = _found(call, (a.shape, a.dtype), (b.shape, b.dtype), a.device, tuple(shape), a.dtype)
    found = _families[call.family].keeping(plan, a, b)
    return None if found is None else (*found, plan)


def _is_plain(x: Tensor) -> bool:
    """Whether this is an array on the host and nothing else."""
    if type(x) not in (Tensor, torch.nn.Parameter) or torch._C._functorch.is_legacy_batchedtensor(x):
        return False
    return x.device.type == "cpu" and x.layout is torch.strided


class _Bilinear(torch.autograd.Function):
    @staticmethod
    def forward(call: Call, a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        _kept.of = NOTHING  # an interrupted call may have left its own
        if any(map(torch._C._functorch.is_legacy_batchedtensor, (a, b))):  # is_grads_batched: PyTorch loops over it
            return _run_operator(call, a, b, shape, dtype)
        if call.which == FORWARD and a.requires_grad and b.requires_grad and (found := _keeping(call, a, b, shape)):
            result, *_kept.of = found
            return result
        return compute(call, a, b, shape, dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.call, a, b, ctx.shape, ctx.dtype = inputs
        (kept, ctx.plan), _kept.of = _kept.of, NOTHING
        ctx.save_for_backward(a, b, kept)
        ctx.save_for_forward(a, b)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, ...]:
        if g is None:
            return (None,) * 5
        a, b, kept = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:3]
        if kept is not None and all(needs) and not recorded(a, b, g) and g.dtype == ctx.dtype and _is_plain(g):
            return None, *_families[ctx.call.family].gradients(ctx.plan, kept, a, b, g), None, None
        return None, *_companions(_record, ctx.call, a, b, g, needs), None, None

    @staticmethod
    def jvp(ctx: Any, _call: None, da: Tensor | None, db: Tensor | None, *_: None) -> Tensor | None:
        a, b = ctx.saved_tensors
        parts = [
            _record(ctx.call, first, second, ctx.shape, ctx.dtype)
            for first, second, tangent in ((da, b, da), (a, db, db))
            if tangent is not None
        ]
        return sum(parts[1:], start=parts[0]) if parts else None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], call: Call, a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype
    ) -> tuple[Tensor, int]:
        _, over_a, over_b, *_rest = in_dims
        if call.which != WEIGHT and over_b is None:
            return _families[call.family].fold(call, a.movedim(over_a, 0), b, shape), 0
        each_a = a.unbind(over_a) if over_a is not None else [a] * info.batch_size
        each_b = b.unbind(over_b) if over_b is not None else [b] * info.batch_size
        results = [_record(call, x, y, shape, dtype) for x, y in zip(each_a, each_b, strict=True)]
        return torch.stack(results), 0


# What `_Bilinear.apply` comes to outside of `torch.func`, but for reading the signature of `forward` at every call.
_straight: Callable[..., Tensor] = super(torch.autograd.Function, _Bilinear).apply


def _record(call: Call, a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """One of the maps in eager code."""
    if torch._C._are_functorch_transforms_active():
        result: Tensor = _Bilinear.apply(call, a, b, tuple(shape), dtype)
        return result
    return _straight(call, a, b, tuple(shape), dtype)


@constant
def _text(options: tuple[Any, ...]) -> str:
    return repr(options)


@lru_cache(maxsize=1024)
def _parsed(options: str) -> tuple[Any, ...]:
    result: tuple[Any, ...] = ast.literal_eval(options)
    return result


@torch.library.custom_op("spectralops::bilinear", mutates_args=())
def _operator(
    a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype, which: int, family: str, options: str
) -> Tensor:
    return compute(Call(which, family, _parsed(options)), a, b, shape, dtype)


@_operator.register_fake
def _(a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype, which: int, family: str, options: str) -> Tensor:
    return a.new_empty(shape, dtype=dtype)


def _run_operator(call: Call, a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    text = call.options if isinstance(call.options, str) else _text(fixed(call.options))
    result: Tensor = _operator(a, b, list(shape), dtype, call.which, call.family, text)
    return result


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, _, _, which, family, options = inputs
    ctx.call = Call(which, family, options)
    ctx.save_for_backward(a, b)


def _operator_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    a, b = ctx.saved_tensors
    return *_companions(_run_operator, ctx.call, a, b, g, ctx.needs_input_grad[:2]), *(None,) * 5


_operator.register_autograd(_operator_backward, setup_context=_keep)


def apply(call: Call, a: Tensor, b: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """One of the maps, differentiable; the result has `shape` and `dtype`."""
    if torch.compiler.is_compiling():
        return _run_operator(call, a, b, shape, dtype)
    return _record(call, a, b, shape, dtype)
