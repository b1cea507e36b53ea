"""Steps in compiled code: one custom operator, planned when it runs, so that shapes and the number of steps may vary.

What else describes a step is a text, since an operator takes plain values only: the expression that makes the
arguments, with ``Array(k)`` for the k-th array. PyTorch can trace how it is written; read back, it makes objects of
this package and no others.
"""

from __future__ import annotations

import ast
import uuid
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spectralops import boundary
from spectralops._plans import terms
from spectralops.errors import UnsupportedError
from spectralops.torch._replay import gradients
from spectralops.torch._stage import advance
from spectralops.torch._step_arguments import filled, prepared
from spectralops.torch._tensors import constant, fixed

__all__ = ["take"]

CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        boundary.Periodic, boundary.Dirichlet, boundary.Neumann, boundary.Robin, boundary.Reflect, boundary.Outflow,
        boundary.Hold, terms.Diffusion, terms.Advection, terms.SelfAdvection, terms.Source, terms.Pointwise,
    )
}  # fmt: skip
FIELDS = {name: tuple(field.name for field in fields(cls)) for name, cls in CLASSES.items()}


class Array(NamedTuple):
    """Stands for an array of the arguments."""

    number: int


# Functions of pointwise terms, by the names that texts give them: of this process, since an exported program may be
# loaded by another one, and kept, so that no other function gets the same name.
_functions: dict[str, Callable[..., Any]] = {}
_PROCESS = uuid.uuid4().hex


@constant
def _name_of(function: Callable[..., Any]) -> str:
    name = f"{id(function)} of {_PROCESS}"
    _functions[name] = function
    return name


def _function(name: str) -> Callable[..., Any]:
    found = _functions.get(name)
    if found is None:
        raise UnsupportedError(
            "pde_step: the function of Pointwise is one of another process, but must be of this one; "
            "export steps without Pointwise, or compile them here"
        )
    return found


def text_of(value: Any, arrays: list[Tensor]) -> str:
    """The expression that makes an argument; its tensors are put into the list."""
    if isinstance(value, Tensor):
        arrays.append(value)
        return f"Array({len(arrays) - 1})"
    if value is None or isinstance(value, bool | str):
        return f"{value!r}"
    if isinstance(value, int | float):
        return f"{fixed(value)!r}"
    if isinstance(value, tuple | list):
        return "(" + "".join([text_of(item, arrays) + ", " for item in value]) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join([text_of(k, arrays) + ": " + text_of(v, arrays) for k, v in value.items()]) + "}"
    kind = type(value).__name__
    if kind not in FIELDS:
        raise TypeError(f"steps: an argument is a {kind}, but must be one that compiled code can hold")
    if kind == "Pointwise":
        return f"Pointwise(function({_name_of(value.function)!r}))"
    return kind + "(" + ", ".join([text_of(getattr(value, name), arrays) for name in FIELDS[kind]]) + ")"


@lru_cache(maxsize=512)
def _read(text: str) -> Any:
    """The arguments that an expression makes."""
    return _made(ast.parse(text, mode="eval").body)


def _made(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        makers: dict[str, Callable[..., Any]] = CLASSES | {"Array": Array, "function": _function}
        return makers[node.func.id](*map(_made, node.args))
    if isinstance(node, ast.Tuple):
        return tuple(map(_made, node.elts))
    if isinstance(node, ast.Dict):
        return {_made(k): _made(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.Name):  # inf and nan, as Python writes them
        return float(node.id)
    if isinstance(node, ast.UnaryOp):
        return -_made(node.operand)
    return ast.literal_eval(node)


def _prepared(u: Tensor, arrays: list[Tensor], dt: float, steps: int, text: str) -> tuple[Any, list[Tensor], Any]:
    op, dx, arguments, options, integrator = filled(_read(text), Array, arrays)
    return prepared(op, u, dx, dt, arguments, options | {"steps": steps}, integrator)


@torch.library.custom_op("spectralops::steps", mutates_args=())
def _steps(u: Tensor, arrays: list[Tensor], dt: float, steps: int, text: str) -> Tensor:
    plan, operands, workers = _prepared(u, arrays, dt, steps, text)
    if plan.functions:
        return advance(plan, steps, u, operands).contiguous()
    result: Tensor = plan(u, *operands, workers=workers)
    return result


@_steps.register_fake
def _(u: Tensor, arrays: list[Tensor], dt: float, steps: int, text: str) -> Tensor:
    return u.new_empty(u.shape)


@torch.library.custom_op("spectralops::steps_gradients", mutates_args=())
def _steps_gradients(
    g: Tensor, u: Tensor, arrays: list[Tensor], dt: float, steps: int, text: str, needs: list[bool]
) -> list[Tensor]:
    """The gradients that are needed, in order."""
    plan, operands, workers = _prepared(u, arrays, dt, steps, text)
    with _Recording():
        found = gradients(plan, u, operands, needs, g, workers)
    return [
        torch.zeros_like(x, memory_format=torch.contiguous_format) if one is None else one.reshape(x.shape).contiguous()
        for x, one, needed in zip((u, *arrays), found, needs, strict=True)
        if needed
    ]


@_steps_gradients.register_fake
def _(g: Tensor, u: Tensor, arrays: list[Tensor], dt: float, steps: int, text: str, needs: list[bool]) -> list[Tensor]:
    return [x.new_empty(x.shape) for x, needed in zip((u, *arrays), needs, strict=True) if needed]


class _Recording:
    """Lets autograd record inside an operator, where PyTorch has switched it off."""

    KEYS = ("AutogradFunctionality", "ADInplaceOrView", "Conjugate", "Negative")

    def __enter__(self) -> None:
        excluded = torch._C._dispatch_tls_local_exclude_set()
        for key in self.KEYS:
            excluded = excluded.remove(getattr(torch._C.DispatchKey, key))
        self._guard = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)
        self._guard.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._guard.__exit__(*error)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    u, arrays, ctx.dt, ctx.steps, ctx.text = inputs
    ctx.save_for_backward(u, *arrays)


def _backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    u, *arrays = ctx.saved_tensors
    needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[1]]
    found = iter(_steps_gradients(g, u, arrays, ctx.dt, ctx.steps, ctx.text, needs))
    first, *others = [next(found) if needed else None for needed in needs]
    return first, others, None, None, None


_steps.register_autograd(_backward, setup_context=_keep)


def take(
    op: str, u: Tensor, dx: Any, dt: Any, arguments: tuple[Any, ...], options: dict[str, Any], integrator: str
) -> Tensor:
    """Take steps inside of compiled code."""
    arrays: list[Tensor] = []
    count = options.get("steps", 1)
    rest = {name: value for name, value in options.items() if name != "steps"}
    text = text_of((op, dx, arguments, rest, integrator), arrays)
    result: Tensor = _steps(u, arrays, dt, count, text)
    return result
