"""What plans launch for contiguous, aligned arrays that are known by their addresses alone.

The programs are those of the executors, so that either way of calling prepares the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from spectralops._cuda import convolution, launch, pruned, spectral_conv, spectral_filter, spectral_gradient, steps
from spectralops._cuda.convolution_problem import OUT, SPACE, TABLES
from spectralops._cuda.geometry import STORED
from spectralops._cuda.program import Prepared, Program, address
from spectralops._cuda.spectral_filter_symbol import on_device

__all__ = ["prepared", "scratch"]


def prepared(plan: Any) -> Prepared | None:
    """The launches of a plan on the current device; None where its arrays must be looked at or arranged first."""
    make = MAKERS.get(plan.op)
    shapes = [operand.spec.shape for operand in plan.operands]
    if make is None or 0 in plan.out_shape or any(0 in shape for shape in shapes):
        return None
    return make(plan)


def scratch(nbytes: int) -> Any:
    """Memory of CuPy's for one call on the current device and stream."""
    return launch.cuda_runner.scratch(nbytes)


@dataclass(frozen=True, slots=True)
class Launches:
    """One program. Its slots hold operands, result, scratch memory and constants, in this order or as `order` says."""

    program: Program
    space_bytes: int
    constants: tuple[int, ...]
    order: tuple[int, ...] | None
    owner: Any  # of the constants' memory
    _arranged: Callable[..., tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        arranged: Callable[..., tuple[int, ...]] = tuple if self.order is None else itemgetter(*self.order)
        object.__setattr__(self, "_arranged", arranged)

    def calls(self, operands: Sequence[int], out: int, space: int) -> tuple[tuple[Program, tuple[int, ...]]]:
        """The program with its addresses."""
        return ((self.program, self._arranged((*operands, out, space, *self.constants))),)


def _arrays(plan: Any) -> list[Any]:
    """Arrays like the operands, never touched."""
    return [np.empty(operand.spec.shape, operand.compute) for operand in plan.operands]


def _cupy() -> Any:
    import cupy

    return cupy


def _filter(plan: Any) -> Prepared | None:
    if plan.transfer is None:
        symbol = tuple(_arrays(plan)[1:])
    elif plan.samples_anew:
        return None
    else:
        symbol = on_device(plan, _cupy(), launch.cuda_runner)
    ready = spectral_filter.ready(plan, symbol, launch.cuda_runner, _cupy())
    if ready.moved or ready.expand:
        return None
    if plan.transfer is not None:
        constants = (*ready.table_addresses, *map(address, symbol))
        return Launches(ready.program, ready.space_bytes, constants, None, (ready, symbol))
    last, tables = len(symbol) + 1, len(ready.table_addresses)
    order = (0, last, *range(last + 1, last + 2 + tables), *range(1, last))
    return Launches(ready.program, ready.space_bytes, tuple(ready.table_addresses), order, ready)


def _conv(plan: Any) -> Prepared | None:
    return _pruned(plan, spectral_conv.Convolution)


def _weight_gradient(plan: Any) -> Prepared | None:
    return _pruned(plan, spectral_gradient.WeightGradient)


def _pruned(plan: Any, kind: Any) -> Prepared | None:
    ready = pruned.ready(plan, kind, launch.cuda_runner, _cupy())
    if ready.moved:
        return None
    return Launches(ready.program, ready.space_bytes, tuple(ready.table_addresses), None, ready)


def _convolution(plan: Any) -> Prepared | None:
    kinds = [operand.compute for operand in plan.operands]
    ready = convolution.prepared(plan, launch.cuda_runner, _cupy())
    rank = len(plan.out_shape)
    moved = plan.op == "convolve" and plan.axes != tuple(range(rank - len(plan.axes), rank))
    mixed = ready.task.is_complex[0] != kinds[0].startswith("complex") or set(kinds[2:]) - {plan.out_dtype}
    if moved or mixed or not ready.as_they_are:
        return None
    count = len(plan.operands)
    factors = [0 if factor is None else address(factor) for factor in ready.factors]
    constants = (0, *factors, *map(address, ready.tables))
    bias, tables = 2 if count > 2 else count + 2, range(count + 5, count + 2 + len(constants))
    places = (0, 1, count, bias, count + 3, count + 4, count + 1, *tables)
    assert (places[OUT], places[SPACE], len(places)) == (count, count + 1, TABLES + len(ready.tables))
    return Launches(ready.program, ready.space_bytes, constants, places, ready)


def _steps(plan: Any) -> Prepared | None:
    fields = [
        np.empty(each.spec.shape, np.float16 if each.spec.dtype in STORED else each.compute)
        for each in plan.operands[1:]
    ]
    return steps.prepared(plan, fields, launch.cuda_runner.device(), True)


MAKERS: dict[str, Callable[[Any], Prepared | None]] = {
    "spectral_filter": _filter,
    "spectral_conv": _conv,
    "spectral_conv_weight_gradient": _weight_gradient,
    "fft_conv2d": _convolution,
    "convolve": _convolution,
    "diffusion_step": _steps,
    "convection_step": _steps,
    "diffuse_convect_step": _steps,
    "pde_step": _steps,
}
