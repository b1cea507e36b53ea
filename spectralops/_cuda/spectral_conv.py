"""Spectral convolutions on the device: pruned transforms, channel mixing per wavenumber, pruned inverse transforms.

Dropped wavenumbers are neither written nor read; between the kernels stand only the kept ones, which stay in the
second-level cache.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.geometry import (
    SHARED_BYTES,
    Lines,
    itemsize_of,
    namespace,
    present_device,
    present_shared_bytes,
    required,
    usable,
    words,
)
from spectralops._cuda.launch import Kernel
from spectralops._cuda.mixing import MIX, mix_kernel
from spectralops._cuda.program import ALIGNMENT, Address, address
from spectralops._cuda.pruned import OUT, SECOND, Pruned, Side, X, at_once, between, both, ready, side, slices
from spectralops._cuda.turned import groups_kernel, mixed_by_groups, turned_lines

if TYPE_CHECKING:
    from spectralops._plans.spectral_conv import SpectralConvPlan

__all__ = ["algorithm", "refusal", "spectral_conv"]

# Weights that may be read again for each slice of a batch, since the second-level cache keeps them.
CACHED_WEIGHT_BYTES = 8 << 20


def _sides(plan: SpectralConvPlan, shared_bytes: int = SHARED_BYTES) -> tuple[Side, Side] | str:
    read, written = plan.channels
    before = side(plan.in_sizes, plan, read % 2 == 0 and not plan.depthwise, shared_bytes)
    after = side(plan.out_sizes, plan, written % 2 == 0 and not plan.depthwise, shared_bytes)
    return both(before, after)


def _samples_at_once(plan: SpectralConvPlan, sides: tuple[Side, ...]) -> int:
    """Of how many samples there are spectra at a time: of all of them where weights are too many to be read again."""
    modes, point = math.prod(plan.modes), 2 * itemsize_of(plan)
    weights = plan.channels[0] * (1 if plan.depthwise else plan.channels[1]) * modes
    if weights * point > CACHED_WEIGHT_BYTES:
        return plan.batch
    each = zip(plan.channels, sides, strict=True)
    return slices(plan.batch, sum(count * (modes + sum(between(plan, side, 1))) for count, side in each) * point)


def _turned(
    plan: SpectralConvPlan, sides: tuple[Side, ...], device: launch.Device | None, samples: int
) -> tuple[Lines, ...] | None:
    """The transforms of spectra that groups of warps mix; None where single numbers are multiplied."""
    if device is None or plan.depthwise or not mixed_by_groups(device, samples, *plan.channels):
        return None
    if len(plan.axes) > 1 or itemsize_of(plan) > 4 or any(each.form not in ("FULL", "SPLIT") for each in sides):
        return None
    found = [turned_lines(each.row, each.form) for each in sides]
    lines = tuple(each for each in found if each is not None)
    return lines if len(lines) == len(sides) else None


def refusal(plan: SpectralConvPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    sides = _sides(plan, present_shared_bytes())
    return sides if isinstance(sides, str) else ""


def algorithm(plan: SpectralConvPlan) -> str:
    """How this plan runs, in words."""
    before, after = sides = required(plan, _sides(plan, present_shared_bytes()))
    samples = _samples_at_once(plan, sides)
    sliced = samples < plan.batch or any(
        at_once(plan, each, samples * count) < samples * count for count, each in zip(plan.channels, sides, strict=True)
    )
    count = sum(len(each.lines) - (each.plane is not None) for each in (before, after)) + 1
    groups = _turned(plan, sides, present_device(), samples) is not None
    return (
        f"{count} kernels: pruned transforms along the axes (radices {words(before.lines)}), one "
        f"product per wavenumber over the channels{' on tensor cores, in parts of 11 bits' * groups}, "
        f"pruned inverse transforms (radices {words(after.lines)}); kept "
        f"wavenumbers alone lie between{'; for a part of the batch at a time' * sliced}"
    )


def spectral_conv(plan: SpectralConvPlan, x: Any, weight: Any, *, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    runner = launch.runner(plan.op, out)
    program = ready(plan, Convolution, runner, namespace(out))
    weight = usable(weight, ALIGNMENT)
    if not program.moved and address(out) % ALIGNMENT == 0:
        program.run(runner, usable(x, ALIGNMENT), weight, out)
        return
    xp = namespace(out)
    d, rank = len(plan.axes), x.ndim
    last = tuple(range(rank - d, rank))
    result = xp.empty((*out.shape[: rank - d], *plan.out_sizes), out.dtype)
    program.run(runner, usable(xp.moveaxis(x, plan.axes, last), ALIGNMENT), weight, result)
    out[...] = xp.moveaxis(result, last, plan.axes)


class Convolution(Pruned):
    """The program of a convolution."""

    def __init__(self, plan: SpectralConvPlan, xp: Any, device: launch.Device) -> None:
        super().__init__(plan, required(plan, _sides(plan, device.shared_bytes)), xp, device)
        modes = math.prod(plan.modes)
        read, written = plan.channels
        samples = _samples_at_once(plan, self.sides)
        self.turned = _turned(plan, self.sides, device, samples)
        images = [math.prod(each.sizes) * self.value_bytes for each in self.sides]
        # The spectrum of x lies in the result where there is room: nobody reads it any more when the result is written.
        too_small = read * modes * 2 * self.itemsize > written * images[1]
        own = too_small or (samples < plan.batch and written * images[1] % ALIGNMENT > 0)
        kept = self.scratch(samples * read * modes) if own else Address(OUT)
        mixed = self.scratch(samples * written * modes)
        self.make_room((samples * read, samples * written))
        for first in range(0, plan.batch, samples):
            count = min(samples, plan.batch - first)
            target = Address(OUT, first * written * images[1])
            spectrum = kept if own else target
            self.transforms(0, Address(X, first * read * images[0]), spectrum, count * read, after=False)
            self._mix(plan, count, spectrum, mixed, modes)
            self.transforms(1, target, mixed, count * written, after=True)

    def _mix(self, plan: SpectralConvPlan, samples: int, kept: Address, mixed: Address, modes: int) -> None:
        read, written = plan.channels
        arguments = np.zeros(1, MIX)
        for name, value in {"modes": modes, "samples": samples, "in": read, "out": written}.items():
            arguments[name] = value
        arguments["x_sample"], arguments["x_in"], arguments["last"] = read * modes, modes, plan.modes[-1]
        if plan.transposed and plan.halved:
            arguments["read"], arguments["written"] = plan.in_sizes[-1], plan.out_sizes[-1]
        # The symmetry that tells two rows apart gives each of them twice.
        arguments["scale"] = plan.scale * (0.5 if self.sides[0].form in ("PAIRS", "SPLIT", "FEW") else 1.0)
        arguments["sign"] = -1 if plan.transposed else 1
        # The weight is stored (channels in, channels out, modes); its adjoint reads it the other way round.
        along = (modes, read * modes) if plan.transposed else (written * modes, modes)
        conjugate = "WEIGHT" if plan.transposed else "NONE"
        if plan.depthwise:
            arguments["weight_in"] = modes
            size = samples * read * modes
            kernel = Kernel("mix.cu", f"multiply<{self.real}>", (-(-size // 256),), (256,), 0, self.options, early=True)
        elif self.turned is not None:
            arguments["weight_in"], arguments["weight_out"] = along
            kernel = groups_kernel(samples, read, written, modes, conjugate, self.device, self.options)
        else:
            arguments["weight_in"], arguments["weight_out"] = along
            kernel = mix_kernel(
                self.real,
                samples,
                written,
                modes,
                conjugate,
                self.device.multiprocessors,
                self.options,
                wide=self.itemsize == 4 and modes % 2 == 0,
                early=True,
            )
        self.program.add(kernel, kept, Address(SECOND), mixed, arguments)
