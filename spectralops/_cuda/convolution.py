"""Convolutions on the device: direct sums, or tiles transformed, multiplied and transformed back within a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.convolution_direct import direct, family
from spectralops._cuda.convolution_packed import Layout, layout_of, packed
from spectralops._cuda.convolution_pairs import pair_geometry, paired
from spectralops._cuda.convolution_problem import BIAS, SCALE, SHIFT, Problem, arrays, as_they_are, problem
from spectralops._cuda.convolution_tiles import Geometry, geometry, tiled, tiles_of
from spectralops._cuda.convolution_volume_layout import VolumeLayout, volume_layout
from spectralops._cuda.convolution_volumes import volumes
from spectralops._cuda.geometry import (
    CLUSTER_BYTES,
    kept_on_device,
    namespace,
    present_shared_bytes,
    required,
    usable,
)
from spectralops._cuda.launch import Runner
from spectralops._cuda.program import Address, Program, address
from spectralops._recent import Recent
from spectralops.errors import UnsupportedError

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

    AnyPlan = Conv2dPlan | ConvolvePlan

__all__ = ["algorithm", "convolve", "fft_conv2d", "prepared", "refusal", "shared_bytes"]

MOST_AXES = 3


def shared_bytes() -> int:
    """Shared memory that a block may have on the current device, or on Hopper where there is none."""
    return present_shared_bytes(CLUSTER_BYTES)


def refusal(plan: AnyPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    if plan.cost.engine == "cuda":
        return ""
    axes = len(plan.axes) if plan.op == "convolve" else 2  # type: ignore[union-attr]
    if axes > MOST_AXES:
        return f"kernels take 1 to {MOST_AXES} axes, not {axes}"
    if plan.requested == "auto":
        return "no tile of the kernel's size fits a block, and direct sums would take longer than cuFFT"
    if plan.requested == "tiles" and axes == MOST_AXES:
        return "tiles along three axes must fit a block, and be shorter than one transform of everything"
    whole = "one tile for everything" if plan.requested == "fft" else "a tile of the kernel's size"
    return f"{whole} does not fit a block"


SUMS = {
    "direct_planes": "one kernel: 32 results a thread, their cells in shared memory",
    "direct_channels": "one kernel: 8 results for each of several channels a thread, their cells in shared memory",
    "direct_volumes": "one kernel: 8 results of a plane a thread, plane after plane, their cells in shared memory",
    "direct_any": "one kernel: one result a thread",
}


PACKED = {
    1: "2 kernels: spectra of the kernels; lines forward, product and inverse in one, neighbours as one complex number",
    2: "5 kernels: rows and columns of the kernels; rows forward, columns forward, product and inverse in one, rows "
    "back, two rows as one complex row",
    3: "7 kernels: rows and columns of the kernels; rows and columns forward, first axis of both forward, product and "
    "inverse in one, columns and rows back",
}
HELD = (
    "4 kernels: planes of the kernels; planes forward, first axis of both forward, product and inverse in one, planes "
    "back"
)


def _packed_layout(plan: AnyPlan, task: Problem, shared: int) -> Layout | Geometry | VolumeLayout:
    """How packed images are transformed: by one block, or through memory between the axes."""
    layout: Layout | Geometry | VolumeLayout | None
    if plan.cost.packed == "volumes":
        layout = volume_layout(plan.lengths, task, shared)
    else:
        held = pair_geometry if plan.cost.packed == "columns" else layout_of
        layout = held(plan.lengths, task.itemsize, shared)
    if layout is None:
        raise UnsupportedError(
            f"{plan.op}: lines of {' x '.join(map(str, plan.lengths))} take more shared memory than a block's {shared} "
            "bytes, but must fit; plan on the device"
        )
    return layout


def algorithm(plan: AnyPlan) -> str:
    """How this plan runs, in words."""
    required(plan, refusal(plan) or None)
    task = problem(plan)
    if plan.method == "direct":
        return SUMS[family(task)]
    layout = _packed_layout(plan, task, shared_bytes()) if plan.cost.packed else geometry(plan.lengths, task.itemsize)
    if isinstance(layout, VolumeLayout):
        how = PACKED[3] if layout.plane is None else HELD
        return f"{how}{', two rows as one complex row' if layout.paired else ''}; radices {layout.words}"
    if isinstance(layout, Layout):
        return f"{PACKED[len(plan.lengths)]}; radices {layout.words}"
    pairs = "" if task.is_complex[0] else ", two tiles of an image as one complex one"
    if plan.cost.packed:
        pairs = ", neighbouring columns as one complex column"
    how = "2 kernels: spectra of the kernels; tiles forward, product and inverse in one"
    if task.inputs > 1:
        how = "4 kernels: spectra of the weights, tiles forward, sums over channels, tiles back"
    return f"{how}{pairs}; radices {layout.words}"


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
    ready = prepared(plan, runner, namespace(out))
    x, kernel = arrays(plan, ready.task, ready.as_they_are, x, kernel)
    x = usable(x, ready.alignment)
    result = out if address(out) % ready.alignment == 0 else namespace(out).empty(out.shape, out.dtype)
    ready.run(runner, x, kernel, bias, result)
    if result is not out:
        out[...] = result


class Prepared:
    """The program of a plan on a device."""

    def __init__(self, plan: AnyPlan, device: launch.Device, xp: Any) -> None:
        required(plan, refusal(plan) or None)
        self.plan, self.task, self.as_they_are = plan, problem(plan), as_they_are(plan)
        # Complex numbers and pairs are read and stored whole, which a view of single ones may not allow.
        both = any(self.task.is_complex) or bool(plan.cost.packed)
        self.alignment = self.task.stored_bytes * (2 if both else 1)
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
        elif plan.cost.packed:
            layout, whole = _packed_layout(plan, self.task, device.shared_bytes), plan.method == "fft"
            if isinstance(layout, VolumeLayout):
                self.space_bytes, tables = volumes(self.program, self.task, layout, whole, options)
            elif isinstance(layout, Layout):
                self.space_bytes, tables = packed(self.program, self.task, layout, whole, options, inner)
            else:
                tiling = paired(self.task, plan.lengths, layout, whole)
                self.space_bytes, tables = tiled(self.program, self.task, tiling, device, options, inner)
        else:
            tiling = tiles_of(self.task, plan.lengths)
            each = tiling.each
            if each.shared > device.shared_bytes:
                raise UnsupportedError(
                    f"{plan.op}: a tile of {' x '.join(map(str, plan.lengths))} takes {each.shared} bytes of shared "
                    f"memory, but must take at most {device.shared_bytes}; plan on the device"
                )
            self.space_bytes, tables = tiled(self.program, self.task, tiling, device, options, inner)
        wide = np.dtype(f"c{2 * self.task.itemsize}")
        self.tables = kept_on_device([each.astype(wide) for each in tables], xp)

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
        self.program.run(runner, [0 if array is None else address(array) for array in slots])


# Programs by plan and device.
_prepared: Recent[tuple[int, int], Prepared] = Recent(256)


def prepared(plan: AnyPlan, runner: Runner, xp: Any) -> Prepared:
    """The program of a plan, made at the first call."""
    device = runner.device()
    key = (id(plan), device.index)
    found = _prepared.get(key)
    return _prepared.put(key, Prepared(plan, device, xp)) if found is None else found
