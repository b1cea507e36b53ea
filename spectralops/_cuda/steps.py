"""Explicit steps on the device: the executors that the dispatcher finds by name."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.marches import ALIGNMENT, March, most_levels
from spectralops._cuda.program import address
from spectralops._cuda.stages import Layout, Stages

if TYPE_CHECKING:
    from spectralops._cuda.launch import Runner
    from spectralops._plans.steps import StepPlan

__all__ = ["algorithm", "convection_step", "diffuse_convect_step", "diffusion_step", "pde_step"]

# The parts of scratch memory start at such lines; a march's first is for the counter of the barrier between passes.
LINE_BYTES = 256
# Plans whose kernels and values are kept ready.
CAPACITY = 256
_prepared: OrderedDict[Any, Stages | March] = OrderedDict()


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
    u = _contiguous(u)
    ready = _ready(plan, fields)
    if isinstance(ready, March):
        _march(runner, ready, u, fields, out)
    else:
        INTEGRATORS[plan.integrator](_Steps(runner, ready, ready.addressed(ready.values, fields), u, out))


diffusion_step = convection_step = diffuse_convect_step = pde_step


def _ready(plan: StepPlan, fields: tuple[Any, ...]) -> Stages | March:
    """The plan's kernels and values, found again by the plan itself and the strides of its coefficients."""
    key = (id(plan), tuple([field.strides for field in fields]))
    found = _prepared.get(key)
    if found is None or found.plan is not plan:
        if March.covers(plan):
            found = March(plan, fields)
        else:
            found = Stages(plan, Layout.of(plan.in_shape, plan.geometry.axes, fields))
        _prepared[key] = found
        while len(_prepared) > CAPACITY:
            _prepared.popitem(last=False)
    return found


def _march(runner: Runner, march: March, u: Any, fields: tuple[Any, ...], out: Any) -> None:
    aligned = address(u) % ALIGNMENT == 0 and address(out) % ALIGNMENT == 0
    passes = march.passes(runner.device(), aligned)
    table, spare, instances = out, out, march.instances
    table_bytes = 0 if instances is None else -(-instances.count * march.values.itemsize // LINE_BYTES) * LINE_BYTES
    again = len(passes) > 1 or passes[0].passes > 1
    if again or instances is not None:
        start = LINE_BYTES + table_bytes
        memory = runner.scratch(start + (out.nbytes if again else 0))
        if again:
            spare = memory[start : start + out.nbytes].view(out.dtype).reshape(out.shape)
        if instances is not None:
            table = memory[LINE_BYTES:start]
            runner.launch(instances.kernel, table, march.values, instances.addressed(instances.values, fields))
    for k, one in enumerate(passes):
        # By turns to the scratch memory and to the result, so that the last launch ends there.
        target, other = (out, spare) if (len(passes) - k) % 2 else (spare, out)
        if march.axes == 1:
            runner.launch(one.kernel, u, target, np.int32(one.levels), one.grid, march.values, table)
        elif march.axes == 3 or one.levels == 1:
            runner.launch(one.kernel, u, target, one.grid, march.values, table)
        else:
            counter = target
            if one.passes > 1:
                counter = memory[:LINE_BYTES]
                _clear(counter)
            runner.launch(one.kernel, u, target, other, counter, np.int32(one.passes), one.grid, march.values, table)
        u = target


def _contiguous(array: Any) -> Any:
    """The array in C order: itself, or a copy where it lies otherwise."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def _clear(array: Any) -> None:
    """Zero memory without a kernel of its own."""
    if isinstance(array, np.ndarray):
        array.fill(0)
    else:
        array.data.memset_async(0, array.nbytes)


class _Steps:
    """All stages of a call: u, the result, and as much scratch memory between them as the integrator needs."""

    def __init__(self, runner: Runner, stages: Stages, values: Any, u: Any, out: Any) -> None:
        self.runner = runner
        self.stages = stages
        self.values = values
        self.u = u
        self.out = out
        self.count = stages.plan.steps

    def scratch(self, count: int) -> list[Any]:
        """Arrays like the result."""
        if not count:
            return []
        itemsize = self.out.itemsize
        pitch = -(-self.out.size * itemsize // LINE_BYTES) * LINE_BYTES
        memory = self.runner.scratch(count * pitch)
        shape, dtype = self.out.shape, self.out.dtype
        return [memory[k * pitch :][: self.out.size * itemsize].view(dtype).reshape(shape) for k in range(count)]

    def run(
        self, combine: str, field: Any, u: Any, out: Any, blend: tuple[float, float] = (0.0, 0.0), total: Any = None
    ) -> None:
        """One stage: of `field`, in the step that started from `u`."""
        self.values["blend"] = blend
        self.runner.launch(self.stages.kernel(combine), field, u, out if total is None else total, out, self.values)


def _euler(steps: _Steps) -> None:
    (spare,) = steps.scratch(1) if steps.count > 1 else (None,)
    current = steps.u
    for step in range(steps.count):
        target = steps.out if (steps.count - step) % 2 else spare
        steps.run("euler", current, current, target)
        current = target


def _rk2(steps: _Steps) -> None:
    spares = steps.scratch(1 if steps.count == 1 else 2)
    middle, u = spares[0], steps.u
    for step in range(steps.count):
        target = steps.out if (steps.count - step) % 2 else spares[1]
        steps.run("euler", u, u, middle)
        steps.run("heun", middle, u, target)
        u = target


def _ssprk3(steps: _Steps) -> None:
    spares = steps.scratch(2 if steps.count == 1 else 3)
    first, second, u = spares[0], spares[1], steps.u
    for step in range(steps.count):
        target = steps.out if (steps.count - step) % 2 else spares[2]
        steps.run("euler", u, u, first)
        steps.run("blend", first, u, second, (3 / 4, 1 / 4))
        steps.run("blend", second, u, target, (1 / 3, 2 / 3))
        u = target


def _rk4(steps: _Steps) -> None:
    spares = steps.scratch(3 if steps.count == 1 else 4)
    total, a, b, u = *spares[:3], steps.u
    for step in range(steps.count):
        target = steps.out if (steps.count - step) % 2 else spares[3]
        steps.run("rk4_first", u, u, a, (0.5, 0.0), total)
        steps.run("rk4_middle", a, u, b, (0.5, 0.0), total)
        steps.run("rk4_middle", b, u, a, (1.0, 0.0), total)
        steps.run("rk4_last", a, u, target, total=total)
        u = target


INTEGRATORS = {"euler": _euler, "rk2": _rk2, "ssprk3": _ssprk3, "rk4": _rk4}
