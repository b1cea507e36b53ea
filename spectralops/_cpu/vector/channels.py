"""Spectral convolutions and the gradients of their weights: truncated transforms around products of channels.

Fields are C-contiguous arrays (batch, channels, *sizes), weights arrays whose modes lie together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import host, kernels, workspace
from spectralops._cpu.vector import truncation_fields as f
from spectralops._cpu.vector.truncation import Grid, Stage, stage

__all__ = ["Layer", "convolve", "gradients", "weight_gradient"]

Array = np.ndarray[Any, Any]

# Weights that are laid out at a time: they should leave the second-level cache to the modes of fields.
GROUP_BYTES = 1 << 17
WIDEST_GROUP = 16


@dataclass(frozen=True)
class Layer:
    """What is convolved with what; hashable. `factors` are those of the modes of the last axis, or one for all."""

    in_sizes: tuple[int, ...]
    out_sizes: tuple[int, ...]
    modes: tuple[int, ...]
    lowest: tuple[int, ...]
    halved: bool
    dtype: str
    batch: int
    channels: tuple[int, int]
    depthwise: bool
    factors: tuple[float, ...]

    def grid(self, written: bool) -> Grid:
        """The grid that is read, or written."""
        return Grid(self.out_sizes if written else self.in_sizes, self.modes, self.lowest, self.halved, self.dtype)

    def images(self, written: bool) -> int:
        return self.batch * self.channels[written]

    def stage(self, written: bool, inverse: bool) -> Stage:
        """From the fields on the grid that is read, or written, to modes, or back."""
        return stage(self.grid(written), self.images(written), inverse)


@dataclass(frozen=True, eq=False)
class Task:
    """A kernel and its job: units of work that threads share, each with scratch memory of its own."""

    kernel: Callable[..., int]
    job: int
    keep: Any
    units: int
    scratch: int  # bytes
    parts: tuple[int, ...]  # where the parts of the scratch begin

    def run(self, arrays: tuple[int, ...], workers: int) -> None:
        """Run on arrays at these addresses."""

        def some(first: int, last: int) -> None:
            buffer = workspace.take(self.scratch)
            self.kernel(self.job, *arrays, *(buffer.address + part for part in self.parts), first, last)
            workspace.give_back(buffer)

        workspace.run(some, self.units, workers)


class Program(NamedTuple):
    """All tasks of a call, and the memory for the modes of both fields: bytes, and where the second field's begin."""

    first: Task
    second: Task
    third: Task
    memory: int
    begin: int


def convolve(
    layer: Layer, x: Array, weight: Array, out: Array, conjugated: bool, workers: int, keep: bool = False
) -> Array | None:
    """Convolve x with the weight, (channels in, channels out, modes) or (channels, modes), or its conjugate.

    Where asked to keep them, the modes of x are returned, as bytes.
    """
    forward, mix, inverse, size, begin = _convolution(layer, _strides(layer, weight), conjugated)
    kept, memory = workspace.new(begin) if keep else None, workspace.take(size)
    modes, mixed = memory.address if kept is None else kept.address, memory.address + begin
    forward.run((x.ctypes.data, modes), workers)
    mix.run((modes, weight.ctypes.data, mixed), workers)
    inverse.run((mixed, out.ctypes.data), workers)
    workspace.give_back(memory)
    return None if kept is None else kept.owner[kept.address - kept.owner.ctypes.data :][:begin]


def gradients(
    adjoint: Layer,
    product: Layer,
    modes: Array,
    weight: Array,
    gradient: Array,
    out: Array,
    weight_out: Array,
    workers: int,
) -> None:
    """Both gradients of a convolution, of x to `out` and of the weight, from one transform of the incoming gradient.

    `modes` are those of x, as they were kept; the layers are those of either gradient by itself.
    """
    forward, mix, inverse, size, begin = _convolution(adjoint, _strides(adjoint, weight), True)
    memory = workspace.take(size)
    incoming, mixed = memory.address, memory.address + begin
    forward.run((gradient.ctypes.data, incoming), workers)
    _gradient(product).third.run((modes.ctypes.data, incoming, weight_out.ctypes.data), workers)
    mix.run((incoming, weight.ctypes.data, mixed), workers)
    inverse.run((mixed, out.ctypes.data), workers)
    workspace.give_back(memory)


def _strides(layer: Layer, weight: Array) -> tuple[int, ...]:
    item = weight.itemsize // 2
    return tuple([stride // item for stride in weight.strides[: 1 if layer.depthwise else 2]])


def weight_gradient(layer: Layer, x: Array, gradient: Array, out: Array, workers: int) -> None:
    """The sum over the batch of conj(modes of x) · modes of the gradient, times the factors; `out` is C-contiguous."""
    forward, other, multiply, size, begin = _gradient(layer)
    memory = workspace.take(size)
    read, written = memory.address, memory.address + begin
    forward.run((x.ctypes.data, read), workers)
    other.run((gradient.ctypes.data, written), workers)
    multiply.run((read, written, out.ctypes.data), workers)
    workspace.give_back(memory)


@lru_cache(maxsize=64)
def _convolution(layer: Layer, strides: tuple[int, ...], conjugated: bool) -> Program:
    mixture = _mixture(layer, strides, conjugated)
    return Program(
        _transform(layer, False, False), _product(layer, mixture), _transform(layer, True, True), *_memory(layer)
    )


@lru_cache(maxsize=64)
def _gradient(layer: Layer) -> Program:
    mixture = _gradient_mixture(layer)
    return Program(
        _transform(layer, False, False), _transform(layer, True, False), _product(layer, mixture), *_memory(layer)
    )


def _memory(layer: Layer) -> tuple[int, int]:
    item = host.ITEM_BYTES[layer.dtype]
    sizes = [layer.grid(side).blocks * layer.grid(side).block_step(layer.images(side)) * item for side in (False, True)]
    return sum(sizes), sizes[0]


def _transform(layer: Layer, written: bool, inverse: bool) -> Task:
    way, item = layer.stage(written, inverse), host.ITEM_BYTES[layer.dtype]
    work = workspace.padded(way.work * item)
    kernel = kernels.kernel("chain", layer.dtype)
    return Task(kernel, way.job.ctypes.data, way, layer.images(written), work + way.scratch * item, (0, work))


class Mixture(NamedTuple):
    """The product over channels: its kernel and job, the units of work, numbers of scratch."""

    kernel: str
    job: Array
    factors: Array
    units: int
    scratch: int


def _product(layer: Layer, mixture: Mixture) -> Task:
    kernel = kernels.kernel(mixture.kernel, layer.dtype)
    scratch = mixture.scratch * host.ITEM_BYTES[layer.dtype]
    return Task(kernel, mixture.job.ctypes.data, mixture, mixture.units, scratch, (0,))


def _factors(layer: Layer, sign: float, gain: float) -> Array:
    """Of real parts and of imaginary parts, of all modes."""
    values = np.broadcast_to(layer.factors, layer.modes).reshape(-1) / gain
    table = np.zeros((2, layer.grid(False).imag))
    table[0, : values.size], table[1, : values.size] = values, sign * values
    table = table.astype(layer.dtype)
    table.setflags(write=False)
    return table


def _filled(fields: dict[int, int]) -> Array:
    record = np.zeros(f.MIX_FIELDS, np.int64)
    record[list(fields)] = list(fields.values())
    record.setflags(write=False)
    return record


def _shared(layer: Layer, terms: int) -> tuple[dict[int, int], int, int]:
    """The fields that both products have, the units of work, and numbers of scratch."""
    lanes, of = host.lanes(layer.dtype), layer.grid(False)
    block = terms * f.TILE_COLUMNS * 2 * lanes
    group = max(1, min(WIDEST_GROUP, GROUP_BYTES // (block * host.ITEM_BYTES[layer.dtype]), of.blocks))
    tiles = -(-layer.channels[1] // f.TILE_COLUMNS)
    factors = {f.MODES: of.count, f.GROUP: group, f.TILES: tiles, f.RIGHTS: layer.channels[1], f.TERMS: terms}
    return factors, tiles * -(-of.blocks // group), group * block


def _mixture(layer: Layer, strides: tuple[int, ...], conjugated: bool) -> Mixture:
    """Fields mixed by weights of these strides."""
    of, image = layer.grid(False), 2 * host.lanes(layer.dtype)
    gain = layer.stage(False, False).gain * layer.stage(True, True).gain
    factors = _factors(layer, -1.0 if conjugated else 1.0, gain)
    read, written = layer.channels
    fields, units, scratch = _shared(layer, read)
    fields |= {
        f.LEFTS: layer.batch,
        f.LEFT_BLOCK: of.block_step(layer.images(False)),
        f.LEFT_ROW: read * image,
        f.LEFT_TERM: image,
        f.RIGHT_TERM: strides[0],
        f.RIGHT_COLUMN: strides[-1],
        f.RESULT_BLOCK: of.block_step(layer.images(True)),
        f.RESULT_ROW: written * image,
        f.RESULT_COLUMN: image,
        f.FACTORS: factors.ctypes.data,
        f.FACTORS_IMAG: of.imag,
    }
    if layer.depthwise:
        return Mixture("mix_single", _filled(fields), factors, read, 0)
    return Mixture("mix", _filled(fields), factors, units, scratch)


def _gradient_mixture(layer: Layer) -> Mixture:
    """Fields multiplied by fields, and summed over the batch."""
    of, image = layer.grid(False), 2 * host.lanes(layer.dtype)
    factors = _factors(layer, 1.0, layer.stage(False, False).gain * layer.stage(True, False).gain)
    read, written = layer.channels
    fields, units, scratch = _shared(layer, layer.batch)
    fields |= {
        f.LEFTS: read,
        f.LEFT_BLOCK: of.block_step(layer.images(False)),
        f.LEFT_ROW: image,
        f.LEFT_TERM: read * image,
        f.RIGHT_BLOCK: of.block_step(layer.images(True)),
        f.RIGHT_TERM: written * image,
        f.RIGHT_COLUMN: image,
        f.RESULT_ROW: 2 * of.count * (1 if layer.depthwise else written),
        f.RESULT_COLUMN: 2 * of.count,
        f.FACTORS: factors.ctypes.data,
        f.FACTORS_IMAG: of.imag,
    }
    if layer.depthwise:
        return Mixture("gradient_single", _filled(fields), factors, read, 0)
    return Mixture("gradient", _filled(fields), factors, units, scratch)
