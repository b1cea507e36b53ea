"""Weight gradients of spectral convolutions on the device: two pruned transforms, one product per wavenumber."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.geometry import SHARED_BYTES, namespace, present_shared_bytes, required, usable, words
from spectralops._cuda.launch import Kernel
from spectralops._cuda.mixing import MIX, mix_kernel
from spectralops._cuda.program import ALIGNMENT, Address
from spectralops._cuda.pruned import OUT, SECOND, Pruned, Side, X, both, ready, side

if TYPE_CHECKING:
    from spectralops._plans.spectral_conv_gradient import SpectralConvWeightGradientPlan

__all__ = ["algorithm", "refusal", "spectral_conv_weight_gradient"]


def _sides(plan: SpectralConvWeightGradientPlan, shared_bytes: int = SHARED_BYTES) -> tuple[Side, Side] | str:
    before = side(plan.in_sizes, plan, False, shared_bytes)
    after = side(plan.gradient_sizes, plan, False, shared_bytes)
    return both(before, after)


def refusal(plan: SpectralConvWeightGradientPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    sides = _sides(plan, present_shared_bytes())
    return sides if isinstance(sides, str) else ""


def algorithm(plan: SpectralConvWeightGradientPlan) -> str:
    """How this plan runs, in words."""
    before, after = required(plan, _sides(plan, present_shared_bytes()))
    count = sum(len(each.lines) - (each.plane is not None) for each in (before, after)) + 1
    return (
        f"{count} kernels: pruned transforms of x (radices {words(before.lines)}) and of the gradient "
        f"(radices {words(after.lines)}), one product per wavenumber over the batch"
    )


def spectral_conv_weight_gradient(
    plan: SpectralConvWeightGradientPlan, x: Any, gradient: Any, *, out: Any, workers: int
) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    if plan.batch == 0:
        out[...] = 0
        return
    runner = launch.runner(plan.op, out)
    program = ready(plan, WeightGradient, runner, namespace(out))
    if program.moved:
        xp = namespace(out)
        last = tuple(range(x.ndim - len(plan.axes), x.ndim))
        x, gradient = xp.moveaxis(x, plan.axes, last), xp.moveaxis(gradient, plan.axes, last)
    program.run(runner, usable(x, ALIGNMENT), usable(gradient, ALIGNMENT), out)


class WeightGradient(Pruned):
    """The program of a weight gradient."""

    def __init__(self, plan: SpectralConvWeightGradientPlan, xp: Any, device: launch.Device) -> None:
        super().__init__(plan, required(plan, _sides(plan, device.shared_bytes)), xp, device)
        modes = math.prod(plan.modes)
        read, written = plan.channels
        spectra = [self.scratch(plan.batch * channels * modes) for channels in (read, written)]
        self.make_room((plan.batch * read, plan.batch * written))
        self.transforms(0, Address(X), spectra[0], plan.batch * read, after=False)
        self.transforms(1, Address(SECOND), spectra[1], plan.batch * written, after=False)
        arguments = np.zeros(1, MIX)
        # Channels of x take the place of samples, the batch that of the channels which are summed over.
        for name, value in {
            "modes": modes, "samples": read, "in": plan.batch, "out": written, "x_sample": modes, "x_in": read * modes,
            "weight_in": written * modes, "weight_out": modes, "last": plan.modes[-1],
        }.items():  # fmt: skip
            arguments[name] = value
        arguments["read"] = plan.gradient_sizes[-1] if plan.halved else 0
        arguments["sign"] = 1
        halves = sum(each.form in ("PAIRS", "FEW") for each in self.sides)
        arguments["scale"] = 0.5**halves / math.prod(plan.in_sizes)
        if plan.depthwise:
            name = f"correlate<{self.real}>"
            kernel = Kernel("mix.cu", name, (-(-read * modes // 256),), (256,), 0, self.options, early=True)
        else:
            kernel = mix_kernel(
                self.real,
                read,
                written,
                modes,
                "FIELD",
                self.device.multiprocessors,
                self.options,
                wide=self.itemsize == 4 and modes % 2 == 0,
                early=True,
            )
        self.program.add(kernel, *spectra, Address(OUT), arguments)
