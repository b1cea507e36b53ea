"""Explicit time steps as NumPy or CuPy ufuncs that write into two padded buffers: the plain baseline.

The order of operations is the one that `_plans.schemes` states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._plain import spectral_steps
from spectralops._plain.transport import closed_to_zero, transport

if TYPE_CHECKING:
    from spectralops._plans.schemes import Weight
    from spectralops._plans.steps import StepPlan
    from spectralops._plans.terms import Field

__all__ = ["convection_step", "diffuse_convect_step", "diffusion_step", "pde_step"]


def pde_step(plan: StepPlan, u: Any, *fields: Any, out: Any, workers: int) -> None:
    """Write u after `plan.steps` steps to `out`."""
    if not out.size:
        return
    if plan.method == "spectral":
        spectral_steps.advance(plan, u, *fields, out=out, workers=workers)
        return
    with np.errstate(all="ignore"):  # NaN and infinity pass through as IEEE 754 says
        stage = Stage(plan, u, fields, out)
        advance = INTEGRATORS[plan.integrator]
        current, following = stage.padded(), stage.padded()
        stage.load(current, u)
        for step in range(plan.steps):
            target = out if step == plan.steps - 1 else stage.core(following)
            advance(stage, current, following, target)
            current, following = following, current
        if stage.frozen is not None:
            stage.xp.copyto(out, u, where=stage.frozen)


diffusion_step = convection_step = diffuse_convect_step = pde_step


class Stage:
    """One stage of a step on padded buffers, with all that can be prepared before the first."""

    def __init__(self, plan: StepPlan, u: Any, fields: tuple[Any, ...], out: Any) -> None:
        geometry = plan.geometry
        self.xp: Any = np
        if not isinstance(out, np.ndarray):
            import cupy

            self.xp = cupy
        self.update = plan.update
        self.functions = plan.functions
        self.shape = geometry.shape
        self.width = dict(zip(geometry.axes, geometry.widths, strict=True))
        self.ghosts = dict(zip(geometry.axes, geometry.ghosts, strict=True))
        self.held = dict(zip(geometry.axes, geometry.held, strict=True))
        self.dtype = np.dtype(plan.compute)
        self.number = self.dtype.type
        self.smallest_normal = np.finfo(self.dtype).tiny
        core = [slice(None)] * len(self.shape)
        for axis, width in self.width.items():
            core[axis] = slice(width, width + self.shape[axis])
        self._core = tuple(core)
        self._scratch: dict[str, Any] = {}
        self._arrays = (u, *fields)

        self.frozen: Any = None
        self._closed: dict[int, Any] = {}
        if geometry.mask is not None:
            mask = self.xp.broadcast_to(self._arrays[geometry.mask], self.shape)
            self.frozen = ~mask
            for axis, width in self.width.items():
                if not width:
                    continue
                seen = self._extended(mask, axis, width)
                self._closed[axis] = ~(self.slab(seen, axis, 0, -1) & self.slab(seen, axis, 1, 0))

        self.linear: Any = None
        if self.update.linear is not None:
            taps = [(tap.axis, tap.offsets, self._weight(tap.weight)) for tap in self.update.linear.taps]
            center = self.update.linear.center
            self.linear = (self._weight(center, 1.0), self._weight(center), taps)
        self.diffusion = [
            (part.axis, self.number(part.factor) if part.nu is None else self.on_faces(part.nu, part.axis, part.factor))
            for part in self.update.diffusion
        ]
        self.transport = [(part, *self._velocity(part)) for part in self.update.transport]
        self.sources = [self._source(rate, factor) for rate, factor in self.update.sources]

    def _weight(self, weight: Weight, plus: float = 0.0) -> Any:
        value: Any = weight.constant
        for operand, factor in weight.parts:
            value = value + factor * self._arrays[operand]
        return self.number(plus + value) if not weight.parts else (plus + value).astype(self.dtype)

    def _source(self, rate: float | Field, factor: float) -> Any:
        if isinstance(rate, float):
            return self.number(rate * factor)
        return self._arrays[rate.operand].astype(self.dtype) * self.number(factor)

    def _velocity(self, part: Any) -> tuple[Any, Any]:
        """Velocity of a transport, in cells or on faces, and where it is forward; None for u and for numbers."""
        if part.velocity is None or isinstance(part.velocity, float):
            return None, None
        if part.form == "flux":
            velocity = self.on_faces(part.velocity, part.axis, part.factor)
        else:
            velocity = self._arrays[part.velocity.operand].astype(self.dtype, copy=False)
        return velocity, velocity >= 0

    # Views and indices. Cells of an axis with n cells count from 0; ghosts are -1, -2, … and n, n + 1, ….

    def padded(self) -> Any:
        """Buffer for a field with its ghost layers."""
        shape = [n + 2 * self.width.get(axis, 0) for axis, n in enumerate(self.shape)]
        return self.xp.empty(shape, self.dtype)

    def padded_scratch(self, name: str) -> Any:
        """Scratch array of the size of a field with its ghosts."""
        if name not in self._scratch:
            self._scratch[name] = self.padded()
        return self._scratch[name]

    def core(self, padded: Any) -> Any:
        """The cells without the ghosts."""
        return padded[self._core]

    def cells(self, padded: Any, axis: int, first: int, last: int) -> Any:
        """The cells from `first` to n - 1 + `last` along one axis, without ghosts along the others."""
        index = list(self._core)
        width = self.width[axis]
        index[axis] = slice(width + first, width + self.shape[axis] + last)
        return padded[tuple(index)]

    def slab(self, array: Any, axis: int, first: int, last: int) -> Any:
        """`array` without its first `first` and its last -`last` entries along one axis."""
        index = [slice(None)] * len(self.shape)
        index[axis] = slice(first, array.shape[axis] + last)
        return array[tuple(index)]

    def faces(self, name: str, axis: int, extra: int) -> Any:
        """Scratch array with `extra` more entries than cells along one axis; one per name, reused by all axes."""
        shape = list(self.shape)
        shape[axis] += extra
        size = 1
        for n in shape:
            size *= n
        buffer = self._scratch.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._scratch[name] = self.xp.empty(size, self.dtype)
        return buffer[:size].reshape(shape)

    def closed(self, axis: int, reach: int = 0) -> Any:
        """Which of the faces -reach … n + reach of an axis are closed; None without a mask."""
        if self.frozen is None:
            return None
        spare = self.width[axis] - 1 - reach
        return self.slab(self._closed[axis], axis, spare, -spare)

    def _extended(self, array: Any, axis: int, width: int) -> Any:
        """`array` continued along one axis by the cells that its ghosts are made from."""
        n = self.shape[axis]
        low, high = self.ghosts[axis]
        index = [
            *(source(low[layer].source, layer, n) for layer in reversed(range(width))),
            *range(n),
            *(n - 1 - source(high[layer].source, layer, n) for layer in range(width)),
        ]
        return self.xp.take(array, self.xp.asarray(index), axis=axis)

    def on_faces(self, field: Field, axis: int, factor: float) -> Any:
        """(value below + value above) * factor on the faces; coefficients go on beyond the ends as their edge value."""
        array = self._arrays[field.operand].astype(self.dtype, copy=False)
        array = array.reshape((1,) * (len(self.shape) - array.ndim) + array.shape)
        if array.shape[axis] == 1:
            return (array + array) * self.number(factor)
        n = self.shape[axis]
        periodic = self.ghosts[axis][0][0].source == "wrap"
        ends = (n - 1, 0) if periodic else (0, n - 1)
        array = self.xp.take(array, self.xp.asarray([ends[0], *range(n), ends[1]]), axis=axis)
        return (self.slab(array, axis, 0, -1) + self.slab(array, axis, 1, 0)) * self.number(factor)

    # The stage itself.

    def load(self, padded: Any, u: Any) -> None:
        """Copy u into a buffer, zero where it is not computed."""
        self.xp.copyto(self.core(padded), u)
        if self.frozen is not None:
            self.xp.copyto(self.core(padded), self.number(0), where=self.frozen)

    def fill(self, padded: Any) -> None:
        """Set the ghost layers from the cells."""
        for axis, sides in self.ghosts.items():
            n = self.shape[axis]
            for high, layers in enumerate(sides):
                for layer, rule in enumerate(layers):
                    inside = source(rule.source, layer, n)
                    place, cell = (n + layer, n - 1 - inside) if high else (-1 - layer, inside)
                    ghost = self.cells(padded, axis, place, place + 1 - n)
                    value = self.cells(padded, axis, cell, cell + 1 - n)
                    if rule.scale == 1.0 and rule.offset == 0.0:
                        self.xp.copyto(ghost, value)
                    else:
                        self.xp.multiply(value, self.number(rule.scale), out=ghost)
                        self.xp.add(ghost, self.number(rule.offset), out=ghost)

    def restore(self, target: Any, before: Any) -> None:
        """Give held ends and cells outside the mask the value they had before the step."""
        for axis, sides in self.held.items():
            for end, held in zip((0, self.shape[axis] - 1), sides, strict=True):
                if held:
                    index = [slice(None)] * len(self.shape)
                    index[axis] = slice(end, end + 1)
                    self.xp.copyto(target[tuple(index)], before[tuple(index)])
        if self.frozen is not None:
            self.xp.copyto(target, before, where=self.frozen)

    def run(self, padded: Any, target: Any, increment: bool = False) -> None:
        """Write E(u), or only its increment, of the field in `padded` to `target`."""
        xp, u = self.xp, self.core(padded)
        self.fill(padded)
        if self.linear is None:
            xp.copyto(target, self.number(0) if increment else u)
        else:
            whole, change, taps = self.linear
            xp.multiply(u, change if increment else whole, out=target)
            work = self.faces("work", 0, 0)
            for axis, offsets, weight in taps:
                neighbours = [self.cells(padded, axis, k, k) for k in offsets]
                if len(neighbours) == 2:
                    xp.add(*neighbours, out=work)
                    xp.multiply(work, weight, out=work)
                else:
                    xp.multiply(neighbours[0], weight, out=work)
                xp.add(target, work, out=target)
        for axis, conductance in self.diffusion:
            flux = self.difference(padded, axis, 0)
            xp.multiply(flux, conductance, out=flux)
            closed_to_zero(self, flux, axis)
            self.add_divergence(flux, axis, target, xp.add)
        for part, velocity, forward in self.transport:
            transport(self, part, velocity, forward, padded, target)
        for rate in self.sources:
            xp.add(target, rate, out=target)
        for function in self.functions:
            self._add_function(function, u, target)

    def difference(self, padded: Any, axis: int, reach: int) -> Any:
        """Differences across the faces -reach … n + reach of an axis, 0 on closed ones; in scratch memory."""
        out = self.faces("difference", axis, 1 + 2 * reach)
        above = self.cells(padded, axis, -reach, reach + 1)
        self.xp.subtract(above, self.cells(padded, axis, -reach - 1, reach), out=out)
        closed_to_zero(self, out, axis, reach)
        return out

    def add_divergence(self, flux: Any, axis: int, target: Any, operation: Any) -> None:
        """Add to, or subtract from, `target` the flux above less the flux below each cell."""
        work = self.faces("work", axis, 0)
        self.xp.subtract(self.slab(flux, axis, 1, 0), self.slab(flux, axis, 0, -1), out=work)
        operation(target, work, out=target)

    def _add_function(self, function: Any, u: Any, target: Any) -> None:
        argument = u.view()
        if isinstance(argument, np.ndarray):
            argument.flags.writeable = False
        rate = function(argument)
        shape = getattr(rate, "shape", ())
        if shape not in ((), u.shape):
            raise ValueError(f"pde_step: Pointwise function returned shape {shape}, but must return {u.shape}")
        work = self.faces("work", 0, 0)
        self.xp.multiply(rate, self.number(self.update.dt), out=work, casting="same_kind")
        self.xp.add(target, work, out=target)


def source(kind: str, layer: int, n: int) -> int:
    """Cell that a ghost is made from, counted from the face that it lies beyond; layers count from 0."""
    if kind == "wrap":
        return n - 1 - layer % n
    return layer if kind == "mirror" else 0


def euler(stage: Stage, current: Any, following: Any, target: Any) -> None:
    """One step of forward Euler."""
    stage.run(current, target)
    stage.restore(target, stage.core(current))


def rk2(stage: Stage, current: Any, following: Any, target: Any) -> None:
    """One step of Heun's method."""
    u, middle, work = stage.core(current), stage.core(following), stage.faces("stage", 0, 0)
    euler(stage, current, following, middle)
    stage.run(following, work)
    stage.xp.add(u, work, out=work)
    stage.xp.multiply(work, stage.number(0.5), out=target)
    stage.restore(target, u)


def ssprk3(stage: Stage, current: Any, following: Any, target: Any) -> None:
    """One step of the strong-stability-preserving third-order scheme."""
    u, middle, work = stage.core(current), stage.core(following), stage.faces("stage", 0, 0)
    euler(stage, current, following, middle)
    stage.run(following, work)
    _blend(stage, 3 / 4, u, 1 / 4, work, middle)
    stage.restore(middle, u)
    stage.run(following, work)
    _blend(stage, 1 / 3, u, 2 / 3, work, target)
    stage.restore(target, u)


def _blend(stage: Stage, a: float, u: Any, b: float, work: Any, target: Any) -> None:
    """Write a * u + b * work to `target`; `work` is overwritten."""
    stage.xp.multiply(work, stage.number(b), out=work)
    stage.xp.multiply(u, stage.number(a), out=target)
    stage.xp.add(target, work, out=target)


def rk4(stage: Stage, current: Any, following: Any, target: Any) -> None:
    """One step of the classical fourth-order scheme."""
    xp, u, middle = stage.xp, stage.core(current), stage.core(following)
    slope, total, work = (stage.faces(name, 0, 0) for name in ("stage", "total", "work"))
    stage.run(current, slope, increment=True)
    xp.copyto(total, slope)
    for reach, twice in ((0.5, True), (0.5, True), (1.0, False)):
        xp.multiply(slope, stage.number(reach), out=slope)
        xp.add(u, slope, out=middle)
        stage.restore(middle, u)
        stage.run(following, slope, increment=True)
        if twice:
            xp.add(slope, slope, out=work)
        xp.add(total, work if twice else slope, out=total)
    xp.multiply(total, stage.number(1 / 6), out=total)
    xp.add(u, total, out=target)
    stage.restore(target, u)


INTEGRATORS = {"euler": euler, "rk2": rk2, "ssprk3": ssprk3, "rk4": rk4}
