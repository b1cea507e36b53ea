"""Filters on the device: transforms, multiplier and inverse transforms in kernels of our own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spectralops._cuda import launch
from spectralops._cuda.geometry import BYTES, namespace, present_shared_bytes, required, usable, words
from spectralops._cuda.launch import Runner
from spectralops._cuda.passes import Cyclic
from spectralops._cuda.program import address
from spectralops._cuda.spectral_filter_layout import layout_of
from spectralops._cuda.spectral_filter_program import Prepared
from spectralops._cuda.spectral_filter_symbol import expanded, on_device
from spectralops._recent import Recent

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["algorithm", "ready", "refusal", "spectral_filter"]


def refusal(plan: SpectralFilterPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    layout = layout_of(plan, present_shared_bytes())
    return layout if isinstance(layout, str) else ""


def algorithm(plan: SpectralFilterPlan) -> str:
    """How this plan runs, in words."""
    layout = required(plan, layout_of(plan, present_shared_bytes()))
    radices = words((*layout.columns, layout.row))
    clusters = ""
    if layout.spread is not None:
        radices = " x ".join([layout.spread.words, *radices.split(" x ")[1:]])
        clusters = f" in clusters of {layout.spread.cluster} blocks"
    image = "a block" if layout.image is None else f"a cluster of {layout.image.parts} blocks"
    if layout.whole and len(layout.sizes) == 2:
        return f"one kernel, {image} per image: forward, product and inverse in shared memory, radices {radices}"
    if layout.whole:
        return (
            f"3 kernels: the last two axes of an image in {image}, forward, product and inverse along the first axis"
            f"{clusters}, the last two back; half of the spectrum in a workspace; radices {radices}"
        )
    if layout.halves:
        return (
            "2 kernels for some lines at a time: even and odd wavenumbers of a line in two blocks, forward, product "
            f"and inverse in registers and shared memory, radices {radices}; their sums and differences"
        )
    if not layout.columns:
        lines = {"SPLIT": ", two real lines as one complex line"}.get(layout.form, clusters)
        if isinstance(layout.row.passes, Cyclic):
            return (
                "2 kernels, one for the spectrum of longer transforms, one forward, product and inverse in registers "
                f"and shared memory{lines}, radices {radices}"
            )
        if layout.beforehand:
            return (
                "2 kernels, one for what wavenumbers are multiplied by, one forward, product and inverse in registers "
                f"and shared memory{lines}, radices {radices}"
            )
        return f"one kernel: forward, product and inverse in registers and shared memory{lines}, radices {radices}"
    place = "a workspace" if plan.padded or layout.narrow else "the result's own memory"
    form = {
        "PAIRS": f"two real rows as one complex row, the spectrum in {place}",
        "HALF": "two real rows as one complex row, told apart at once, half of their spectrum in a workspace",
        "FULL": "complex rows",
    }[layout.form]
    count = 2 * len(layout.sizes) - 1
    kernels = f"{count} kernels"
    if isinstance(layout.columns[0].passes, Cyclic):
        kernels = f"{count + 1} kernels, one for the spectrum of longer transforms"
    return (
        f"{kernels}, the middle one forward, product and inverse along the first axis{clusters}; {form}; "
        f"radices {radices}"
    )


def spectral_filter(plan: SpectralFilterPlan, x: Any, *operands: Any, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    runner = launch.runner(plan.op, out)
    symbol = operands if plan.transfer is None else on_device(plan, namespace(out), runner)
    found = ready(plan, symbol, runner, namespace(out))
    if found.expand:
        symbol = tuple(expanded(plan, value, out) for value in symbol)
    if any(address(value) % value.itemsize for value in symbol):
        symbol = tuple(value.copy() for value in symbol)
        found = ready(plan, symbol, runner, namespace(out))
    alignment = 2 * BYTES[found.layout.reals[0]]
    if not found.moved and address(out) % alignment == 0:
        found.run(runner, usable(x, alignment), symbol, out)
        return
    xp = namespace(out)
    last = tuple(range(x.ndim - len(plan.axes), x.ndim))
    field = usable(xp.moveaxis(x, plan.axes, last), alignment)
    result = xp.empty(field.shape, out.dtype)
    found.run(runner, field, symbol, result)
    out[...] = xp.moveaxis(result, last, plan.axes)


# Programs by plan and by the strides of the factors.
_prepared: Recent[Any, Prepared] = Recent(256)


def ready(plan: SpectralFilterPlan, symbol: tuple[Any, ...], runner: Runner, xp: Any) -> Prepared:
    """The program of a plan for factors like these, made at the first call."""
    device = runner.device()
    key: Any = (id(plan), device.index, tuple([value.strides for value in symbol]))
    if plan.samples_anew:
        # Plans with a caller's function are made anew at each call, and the function must not live on here. What it
        # returns may differ from call to call.
        plan = replace(plan, transfer=None)
        key = (plan, device.index, tuple([(value.shape, value.strides, value.dtype.kind) for value in symbol]))
    found = _prepared.get(key)
    return _prepared.put(key, Prepared(plan, symbol, device, xp)) if found is None else found
