"""Explicit steps on the device: the executors that the dispatcher finds by name.

u, the result and coefficients may be stored in 16 bits, which the kernels read and write themselves. Arithmetic is then
in float32, and so is all that lies between the launches of a call, in scratch memory: only the result is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.marches import LINE_BYTES, March, most_levels
from spectralops._cuda.program import ALIGNMENT, Address, Prepared, Program, address
from spectralops._cuda.stages import C_NAMES, Layout, Stages, in_memory
from spectralops._recent import Recent

if TYPE_CHECKING:
    from spectralops._plans.steps import StepPlan

__all__ = ["algorithm", "convection_step", "diffuse_convect_step", "diffusion_step", "pde_step", "prepared", "refusal"]

# Plans whose kernels and values are kept ready.
_prepared: Recent[tuple[int, Any], Integration | March] = Recent(256)


def refusal(plan: StepPlan) -> str:
    """Why no kernel runs a step, in words; empty where one does."""
    if plan.method != "stencil":
        return "the spectral method is no stencil"
    return "a function of the caller's is no kernel" if plan.update.pointwise else ""


def algorithm(plan: StepPlan) -> str:
    """How this plan runs, in words."""
    if March.covers(plan):
        most = most_levels(len(plan.geometry.axes), np.dtype(plan.compute).itemsize)
        return f"kernels compiled for this step on first use: up to {most} steps per pass over memory, in registers"
    return "a kernel compiled for this step on first use: one pass over memory per stage"


def pde_step(plan: StepPlan, u: Any, *fields: Any, out: Any, workers: int) -> None:
    """Write u after the plan's steps to `out`."""
    if not out.size:
        return
    runner = launch.runner(plan.op, out)
    u = u if u.flags.c_contiguous else u.copy(order="C")
    aligned = address(u) % ALIGNMENT == 0 and address(out) % ALIGNMENT == 0
    ready = prepared(plan, fields, runner.device(), aligned)
    space = runner.scratch(ready.space_bytes) if ready.space_bytes else None
    operands = [address(u), *map(address, fields)]
    for program, addresses in ready.calls(operands, address(out), 0 if space is None else address(space)):
        program.run(runner, addresses)


diffusion_step = convection_step = diffuse_convect_step = pde_step


def prepared(plan: StepPlan, fields: Sequence[Any], device: launch.Device, aligned: bool) -> Prepared:
    """The plan's launches, found again by the plan itself and the strides of its coefficients.

    `aligned`: u and the result start at a multiple of 16 bytes.
    """
    key = (id(plan), tuple([field.strides for field in fields]))
    found = _prepared.get(key)
    if found is None:
        if March.covers(plan):
            found = March(plan, tuple(fields))
        else:
            found = Integration(Stages(plan, Layout.of(plan.in_shape, plan.geometry.axes, tuple(fields))))
        _prepared.put(key, found)
    return found.launches(device, aligned) if isinstance(found, March) else found


class Integration:
    """The stages of all steps, one launch each, and as many fields of scratch memory as the integrator needs."""

    def __init__(self, stages: Stages) -> None:
        plan = self.plan = stages.plan
        self._stages = stages
        self._real, self._stored = C_NAMES[plan.compute], in_memory(plan)
        self._integrate, self._spares = INTEGRATORS[plan.integrator]
        nbytes = math.prod(plan.in_shape) * np.dtype(plan.compute).itemsize
        self._pitch = -(-nbytes // LINE_BYTES) * LINE_BYTES
        self.space_bytes = (self._spares + min(plan.steps - 1, 2 if self._narrow else 1)) * self._pitch
        self._together = self._programmed() if plan.steps <= MOST_TOGETHER else None

    @property
    def _narrow(self) -> bool:
        return self._stored != self._real

    def _all_stages(self, u: Any, out: Any, space: list[Any]) -> Iterator[tuple[Stage, tuple[str, ...]]]:
        """The stages of all steps, each with its types in memory if these are not all the arithmetic's."""
        spares, more = space[: self._spares], space[self._spares :]
        # The steps' results lie by turns in scratch memory and in `out`, which must hold the last one; what is rounded
        # when it is stored there holds no other.
        turns = more if self._narrow else (out, more[0])
        ends = (turns[(left - self._narrow) % 2] if left else out for left in range(self.plan.steps - 1, -1, -1))
        for stage in self._integrate(u, ends, spares):
            yield stage, self._types(stage.field == u, stage.u == u, stage.out == out) if self._narrow else ()

    def _types(self, *stored: bool) -> tuple[str, ...]:
        return tuple(self._stored if each else self._real for each in stored) if any(stored) else ()

    def _programmed(self) -> Program:
        """All stages; its slots are u, the result, scratch memory and the coefficients."""
        program, space = Program(), [Address(2, k * self._pitch) for k in range(MOST_SPACES)]
        for stage, types in self._all_stages(Address(0), Address(1), space):
            self._stages.append(program, stage.combine, stage.blend, stage.fields, 3, types)
        return program

    def calls(self, operands: Sequence[int], out: int, space: int) -> Iterator[tuple[Program, list[int]]]:
        """One program, or one for each of many stages with the addresses of its fields and of the coefficients."""
        u, *coefficients = operands
        if self._together is not None:
            yield self._together, [u, out, space, *coefficients]
            return
        places = [space + k * self._pitch for k in range(MOST_SPACES)]
        for stage, types in self._all_stages(u, out, places):
            yield self._stages.program(stage.combine, stage.blend, types), [*stage.fields, *coefficients]


class Stage(NamedTuple):
    """One stage, of `field`, in the step that started from `u`; addresses, in numbers or in slots."""

    combine: str
    field: Any
    u: Any
    out: Any
    blend: tuple[float, float] = (0.0, 0.0)
    total: Any = None

    @property
    def fields(self) -> tuple[Any, ...]:
        """The field, u, the sum of stages, for which the result stands in where there is none, and the result."""
        return self.field, self.u, self.out if self.total is None else self.total, self.out


def _euler(u: Any, ends: Iterable[Any], spares: list[Any]) -> Iterator[Stage]:
    for end in ends:
        yield Stage("euler", u, u, end)
        u = end


def _rk2(u: Any, ends: Iterable[Any], spares: list[Any]) -> Iterator[Stage]:
    (middle,) = spares
    for end in ends:
        yield Stage("euler", u, u, middle)
        yield Stage("heun", middle, u, end)
        u = end


def _ssprk3(u: Any, ends: Iterable[Any], spares: list[Any]) -> Iterator[Stage]:
    first, second = spares
    for end in ends:
        yield Stage("euler", u, u, first)
        yield Stage("blend", first, u, second, (3 / 4, 1 / 4))
        yield Stage("blend", second, u, end, (1 / 3, 2 / 3))
        u = end


def _rk4(u: Any, ends: Iterable[Any], spares: list[Any]) -> Iterator[Stage]:
    total, a, b = spares
    for end in ends:
        yield Stage("rk4_first", u, u, a, (0.5, 0.0), total)
        yield Stage("rk4_middle", a, u, b, (0.5, 0.0), total)
        yield Stage("rk4_middle", b, u, a, (1.0, 0.0), total)
        yield Stage("rk4_last", a, u, end, total=total)
        u = end


# Each with the fields of scratch memory that one step takes; from u to the fields in which the steps end.
INTEGRATORS: dict[str, tuple[Callable[[Any, Iterable[Any], list[Any]], Iterator[Stage]], int]] = {
    "euler": (_euler, 0), "rk2": (_rk2, 1), "ssprk3": (_ssprk3, 2), "rk4": (_rk4, 3)
}  # fmt: skip
# Fields of scratch memory: for a step, and for two results.
MOST_SPACES = 5
# Steps of which all launches are one program, whose arguments are all kept.
MOST_TOGETHER = 16
