"""Convolutions on the device: direct sums, or tiles transformed, multiplied and transformed back within a block."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.convolution_direct import direct, family
from spectralops._cuda.convolution_problem import BIAS, SCALE, SHIFT, arrays, as_they_are, problem
from spectralops._cuda.convolution_tiles import is_half, shape_of, tiled
from spectralops._cuda.geometry import kept_on_device, namespace, required, usable
from spectralops._cuda.launch import Runner
from spectralops._cuda.program import Address, Program, address
from spectralops.errors import UnsupportedError

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

    AnyPlan = Conv2dPlan | ConvolvePlan

__all__ = ["algorithm", "convolve", "fft_conv2d", "refusal", "shared_bytes"]

MOST_AXES = 3
# Of a device that nobody has asked: Hopper's.
SHARED_BYTES = 227 * 1024


def shared_bytes() -> int:
    """Shared memory that a block may have on the current device, or on a usual one where none is in use."""
    import sys

    cupy = sys.modules.get("cupy")
    if cupy is None or not cupy.cuda.is_available():
        return SHARED_BYTES
    return launch.cuda_runner.device().shared_bytes


def refusal(plan: AnyPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    if plan.cost.engine == "cuda":
        return ""
    axes = len(plan.axes) if plan.op == "convolve" else 2  # type: ignore[union-attr]
    if axes > MOST_AXES:
        return f"kernels take 1 to {MOST_AXES} axes, not {axes}"
    if plan.requested == "auto":
        return "no tile of the kernel's size fits a block, and direct sums would take longer than cuFFT"
    if axes == MOST_AXES:
        return f"method {plan.requested!r} has kernels for one or two axes"
    whole = "one tile for everything" if plan.requested == "fft" else "a tile of the kernel's size"
    return f"{whole} does not fit a block"


SUMS = {
    "direct_planes": "one kernel: 32 results a thread, their cells in shared memory",
    "direct_channels": "one kernel: 8 results for each of several channels a thread, their cells in shared memory",
    "direct_any": "one kernel: one result a thread",
}


def algorithm(plan: AnyPlan) -> str:
    """How this plan runs, in words."""
    required(plan, refusal(plan) or None)
    task = problem(plan)
    if plan.method == "direct":
        return SUMS[family(task)]
    each = shape_of(task, plan.lengths)
    orders = " x ".join("*".join(map(str, order)) for order in each.orders)
    pairs = "" if task.is_complex[0] else ", two tiles of an image as one complex one"
    if is_half(task, plan.lengths):
        pairs = ", neighbours as one complex number"
    if task.inputs > 1:
        return (
            f"4 kernels: spectra of the weights, tiles forward, sums over channels, tiles back{pairs}; radices {orders}"
        )
    return f"2 kernels: spectra of the kernels; tiles forward, product and inverse in one{pairs}; radices {orders}"


def convolve(plan: ConvolvePlan, x: Any, kernel: Any, *, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    d, rank = len(plan.axes), out.ndim
    last = tuple(range(rank - d, rank))
    if plan.axes == last:
        _run(plan, x, kernel, None, out)
        return
    xp = namespace(out)
    moved = xp.moveaxis(out, plan.axes, last)
    result = xp.empty(moved.shape, out.dtype)
    _run(plan, x, kernel, None, result)
    moved[...] = result


def fft_conv2d(plan: Conv2dPlan, x: Any, weight: Any, *bias: Any, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    kind = np.dtype(plan.compute_dtype)
    added = usable(bias[0] if bias[0].dtype == kind else bias[0].astype(kind), kind.itemsize) if bias else None
    _run(plan, x, weight, added, out)


def _run(plan: AnyPlan, x: Any, kernel: Any, bias: Any, out: Any) -> None:
    runner = launch.runner(plan.op, out)
    ready = _ready(plan, runner, out)
    x, kernel = arrays(plan, ready.task, ready.as_they_are, x, kernel)
    # Complex numbers are stored whole, which a view of real ones may not allow.
    result = out if address(out) % out.itemsize == 0 else namespace(out).empty(out.shape, out.dtype)
    ready.run(runner, x, kernel, bias, result)
    if result is not out:
        out[...] = result


class Prepared:
    """The program of a plan on a device."""

    def __init__(self, plan: AnyPlan, device: launch.Device, xp: Any) -> None:
        required(plan, refusal(plan) or None)
        self.plan, self.task, self.as_they_are = plan, problem(plan), as_they_are(plan)
        self.program = Program()
        kind = np.dtype(f"f{self.task.itemsize}")
        self.factors: list[Any] = [None, None]
        inner: dict[int, Address] = {}
        if plan.op == "fft_conv2d":
            inner = self._finish(plan, kind, xp)  # type: ignore[arg-type]
        options = (launch.index_option(plan.index_bits),)
        tables: list[np.ndarray[Any, Any]] = []
        self.space_bytes = 0
        if plan.method == "direct":
            direct(self.program, self.task, options, inner)
        else:
            each = shape_of(self.task, plan.lengths)
            if each.shared > device.shared_bytes:
                raise UnsupportedError(
                    f"{plan.op}: a tile of {' x '.join(map(str, plan.lengths))} takes {each.shared} bytes of shared "
                    f"memory, but must take at most {device.shared_bytes}; plan on the device"
                )
            self.space_bytes, tables = tiled(self.program, self.task, plan.lengths, device, options, inner)
        wide = np.dtype(f"c{2 * self.task.itemsize}")
        self.tables = kept_on_device([each.astype(wide) for each in tables], xp)
        self.slots = 1 + max(at.slot for step in self.program.steps for *_, at in step.addresses)

    def _finish(self, plan: Conv2dPlan, kind: np.dtype[Any], xp: Any) -> dict[int, Address]:
        """Words of the finishing arguments that hold addresses; factors are put onto the device."""
        inner = {0: Address(BIAS)} if len(plan.operands) > 2 else {}
        if plan.epilogue is not None:
            channels = plan.out_shape[-3]
            for k, (factor, slot) in enumerate(((plan.epilogue.scale, SCALE), (plan.epilogue.shift, SHIFT))):
                if factor is not None:
                    (self.factors[k],) = kept_on_device([np.full(channels, factor, kind)], xp)
                    inner[k + 1] = Address(slot)
        return inner

    def run(self, runner: Runner, x: Any, kernel: Any, bias: Any, out: Any) -> None:
        """Launch it for these arrays."""
        space = runner.scratch(self.space_bytes) if self.space_bytes else None
        slots = (x, kernel, out, bias, *self.factors, space, *self.tables)
        self.program.run(runner, [0 if array is None else address(array) for array in slots[: self.slots]])


# Programs by plan and device.
_prepared: OrderedDict[Any, Prepared] = OrderedDict()
KEPT_PROGRAMS = 256


def _ready(plan: AnyPlan, runner: Runner, out: Any) -> Prepared:
    device = runner.device()
    key = (id(plan), device.index)
    found = _prepared.get(key)
    if found is None or found.plan is not plan:
        found = _prepared[key] = Prepared(plan, device, namespace(out))
        while len(_prepared) > KEPT_PROGRAMS:
            _prepared.popitem(last=False)
    return found
