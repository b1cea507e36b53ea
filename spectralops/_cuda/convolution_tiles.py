"""Convolution by overlap-save tiles, each transformed within a block: geometry, workspace and launches.

One input channel: the spectra of the kernels, then one kernel for all else. Several: tiles forward, a sum over channels
at every wavenumber, tiles back, for as many tiles at a time as the workspace holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cuda.convolution_problem import FINISH, KERNEL, OUT, SPACE, SPACE_BYTES, TABLES, Problem, X
from spectralops._cuda.geometry import MULTIPROCESSOR_BYTES, SYSTEM_BYTES
from spectralops._cuda.launch import Device, Kernel, index_option
from spectralops._cuda.mixing import MIX, mix_kernel
from spectralops._cuda.program import Address, Program
from spectralops._cuda.pruned import ALIGNMENT

__all__ = ["Family", "Geometry", "geometry", "radices", "table", "threads_of", "tiled", "tiles_of"]

PAIRS = ("size", "before", "step", "tiles", "stride", "out")
TILE = np.dtype(
    [(name, np.int64, 2) for name in PAIRS]
    + [
        (name, np.int64)
        for name in (
            "planes", "image_divisor", "image_count", "kernel_divisor", "kernel_count", "channels", "outputs", "first",
            "samples",
        )
    ]
    + [("fill", np.float64, 2)]
)  # fmt: skip
TAPS = np.dtype(
    [(name, np.int64, 2) for name in ("taps", "dilation", "before")]
    + [("flip", np.int64), ("kernels", np.int64), ("scale", np.float64)]
)

RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18)
# Threads of a multiprocessor that the geometry aims at, by bytes of a number, which take up registers.
RESIDENT = {4: 1024, 8: 384}


@lru_cache(maxsize=1024)
def radices(n: int, fewest: int = 1) -> tuple[int, ...]:
    """As few passes as possible, and at least so many, of radices that differ as little as possible, ascending."""
    for count in range(fewest, 6):
        found = _ascending(n, count, 1)
        if found:
            return min(found, key=lambda each: (each[-1] - each[0], each))
    return ()


def _ascending(n: int, count: int, least: int) -> list[tuple[int, ...]]:
    if count == 1:
        return [(n,)] if n in RADICES and n >= least else []
    return [(r, *rest) for r in RADICES if r >= least and n % r == 0 for rest in _ascending(n // r, count - 1, r)]


def table(order: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Twiddle factors: for each pass over blocks of m points, exp(-2 pi i j k / m), k = 1 ... radix - 1 outside."""
    parts, m = [np.zeros(0, complex)], math.prod(order)
    for radix in order[:-1]:
        turns = np.outer(np.arange(1, radix), np.arange(m // radix)) / m
        parts.append(np.exp(-2j * np.pi * turns).ravel())
        m //= radix
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A block's tile or lines: radices along each axis, threads, blocks of a multiprocessor, shared memory."""

    orders: tuple[tuple[int, ...], ...]
    threads: int
    resident: int
    lines: int
    shared: int

    @property
    def points(self) -> int:
        """Complex numbers of one transform."""
        return math.prod(map(math.prod, self.orders))

    @property
    def words(self) -> str:
        """The radices, for explain()."""
        return " x ".join("*".join(map(str, order)) for order in self.orders)

    @property
    def template(self) -> str:
        """Template arguments after the types."""
        types = ", ".join(f"Radices<{', '.join(map(str, order))}>" for order in self.orders)
        first = (self.threads, self.resident) if len(self.orders) == 2 else (self.lines, self.threads)
        return f"{first[0]}, {first[1]}, {types}"


def geometry(lengths: tuple[int, ...], itemsize: int) -> Geometry:
    """How a block transforms tiles of these lengths."""
    if len(lengths) == 1:
        return _line_geometry(lengths[0], itemsize)
    rows, columns = lengths
    orders = radices(rows), radices(columns)
    shared = (rows * (columns | 1) + sum(len(table(order)) for order in orders)) * 2 * itemsize
    fitting = max(1, MULTIPROCESSOR_BYTES // (shared + SYSTEM_BYTES))
    passes = [(rows * columns // r, r) for order in orders for r in order]
    threads = threads_of(passes, RESIDENT[itemsize] // fitting)
    return Geometry(orders, threads, max(1, min(fitting, RESIDENT[itemsize] // threads)), 1, shared)


def _line_geometry(n: int, itemsize: int) -> Geometry:
    order = radices(n, 2)
    pitch = n + n // 16 + 1
    lines = max(1, min(8, 2048 // n))
    shared = lines * pitch * 2 * itemsize
    fitting = max(1, MULTIPROCESSOR_BYTES // (shared + SYSTEM_BYTES))
    threads = threads_of([(lines * n // r, r) for r in order], max(128, RESIDENT[itemsize] // fitting))
    return Geometry((order,), threads, 1, lines, shared)


def threads_of(passes: list[tuple[int, int]], aim: int, least: int = 0) -> int:
    """Threads that the butterflies of all passes keep busy; `passes`: their number and their radix."""
    most = max(64, min(aim, 896) // 32 * 32)
    least = least or max(32, most // 2 // 32 * 32)

    def cost(threads: int) -> float:
        busy = sum(-(-count // threads) * threads * radix for count, radix in passes)
        return busy * (1 + 96 / threads)

    return min(range(least, most + 1, 32), key=cost)


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels that transform tiles: their file and names, what a block does, and how tiles lie in images.

    `step` and `tiles` are results of a tile and tiles along each axis, `together` how many tiles share a transform of
    `modes` complex numbers, `scale` what makes products of two come back right, and `types` the template arguments
    before those of `each` for every kernel. A tile begins `before` cells before its first result, and kernels with
    element `start` of theirs, round the ring; each takes `parts` blocks.
    """

    file: str
    name: str
    each: Geometry
    step: tuple[int, ...]
    tiles: tuple[int, ...]
    together: int
    modes: int
    scale: float
    types: dict[str, str]
    before: tuple[int, ...]
    tables: list[np.ndarray[Any, Any]]
    start: tuple[int, ...] = (0, 0)
    parts: int = 1


def tiles_of(task: Problem, lengths: tuple[int, ...]) -> Family:
    """Complex tiles, or two real ones as one; a transform as long as a period goes round by itself."""
    each = geometry(lengths, task.itemsize)
    tiles = tuple(
        1 if p == period else -(-n // (p - k + 1))
        for n, p, k, period in zip(task.dense, lengths, task.extent, task.period, strict=True)
    )
    step = tuple(-(-n // t) for n, t in zip(task.dense, tiles, strict=True))
    number, plane = task.number(task.is_complex[0]), len(lengths) == 2
    stored = f"{task.activation}, {'true' if task.dense != task.out else 'false'}, {step[-1]}"
    types = {
        "spectra": task.number(task.is_complex[1]),
        "filter": f"{number}, {task.beyond}, {stored}" if plane else f"{number}, {task.beyond}",
        "forward": f"{number}, {task.beyond}",
        "inverse": f"{number}, {stored}",
    }
    together = 1 if task.is_complex[0] else 2
    name = "tile" if plane else "line"
    tables = [table(order) for order in each.orders]
    return Family(
        "conv_tiles.cu", name, each, step, tiles, together, each.points, 1 / each.points, types, task.before, tables
    )  # fmt: skip


def tiled(
    program: Program,
    task: Problem,
    family: Family,
    device: Device,
    options: tuple[str, ...],
    inner: dict[int, Address],
) -> tuple[int, list[np.ndarray[Any, Any]]]:
    """Append the launches; give back the bytes of scratch memory and the twiddle factors that they need."""
    builder = _Builder(program, task, family, options, inner)
    space = builder.channels(device) if task.inputs > 1 else builder.planes()
    return space, family.tables


class _Builder:
    """Writes the launches of one problem."""

    def __init__(
        self,
        program: Program,
        task: Problem,
        family: Family,
        options: tuple[str, ...],
        inner: dict[int, Address],
    ) -> None:
        self.program, self.task, self.family, self.options, self.inner = program, task, family, options, inner
        d = len(task.size)
        self.transforms = -(-math.prod(family.tiles) // family.together)
        arguments = np.zeros(1, TILE)
        for name in PAIRS:
            value = getattr(family if name in ("before", "step", "tiles") else task, name)
            arguments[name] = 0 if name == "before" else 1
            arguments[name][0, 2 - d :] = value
        for name, value in {
            "planes": task.planes, "image_divisor": task.image[0], "image_count": task.image[1],
            "kernel_divisor": task.kernel[0], "kernel_count": task.kernel[1],
            "channels": task.groups * task.inputs, "outputs": task.outputs,
        }.items():  # fmt: skip
            arguments[name] = value
        arguments["fill"] = task.fill.real, task.fill.imag
        self.arguments = arguments
        self.finish = np.zeros(1, FINISH)
        self.finish["channels"] = task.channels
        self.tables = [Address(TABLES + k) for k in range(d)]
        self.point_bytes = 2 * task.itemsize

    def kernel(self, name: str, blocks: int) -> Kernel:
        """A launch of so many transforms."""
        family, each = self.family, self.family.each
        text = f"{family.name}_{name}<{family.types[name]}, {each.template}>"
        early = (family.name, name) == ("pair", "filter")
        grid, block = (-(-blocks // each.lines),), (each.threads,)
        return Kernel(family.file, text, grid, block, each.shared, self.options, early=early)

    def spectra(self) -> int:
        """Transform the kernels into the beginning of the scratch memory, and give back its bytes."""
        task = self.task
        kernels = task.kernel[1] * task.inputs
        arguments = np.zeros(1, TAPS)
        for name in ("taps", "dilation"):
            arguments[name] = 1
            arguments[name][0, 2 - len(task.taps) :] = getattr(task, name)
        arguments["before"], arguments["flip"], arguments["kernels"] = self.family.start, task.flip, kernels
        arguments["scale"] = self.family.scale
        kernel = self.kernel("spectra", kernels * self.family.parts)
        self.program.add(kernel, Address(KERNEL), Address(SPACE), *self.tables, arguments)
        return self.aligned(kernels)

    def aligned(self, transforms: int) -> int:
        """Bytes of so many spectra."""
        return -(-transforms * self.family.modes * self.point_bytes // ALIGNMENT) * ALIGNMENT

    def planes(self) -> int:
        """A kernel for each plane."""
        task = self.task
        space = self.spectra()
        arrays = (Address(X), Address(SPACE), Address(OUT), *self.tables, self.arguments)
        kernel = self.kernel("filter", task.planes * self.transforms)
        if len(task.size) == 1:
            self.program.add(kernel, *arrays)
        else:
            self.program.add(kernel, *arrays, self.finish, inner={(6, word): at for word, at in self.inner.items()})
        return space

    def channels(self, device: Device) -> int:
        """Sums over channels, slice by slice."""
        task = self.task
        weights = self.spectra()
        channels, samples = task.groups * task.inputs, task.planes // task.channels * self.transforms
        at_once = max(1, min(samples, SPACE_BYTES // self.aligned(channels + task.channels)))
        at_once = -(-samples // -(-samples // at_once))
        read = Address(SPACE, weights)
        written = Address(SPACE, weights + self.aligned(at_once * channels))
        for first in range(0, samples, at_once):
            count = min(at_once, samples - first)
            self.slice(first, count, read, written, device)
        return weights + self.aligned(at_once * channels) + self.aligned(at_once * task.channels)

    def slice(self, first: int, count: int, read: Address, written: Address, device: Device) -> None:
        task, modes = self.task, self.family.modes
        channels = task.groups * task.inputs
        arguments = self.arguments.copy()
        arguments["first"], arguments["samples"] = first, count
        self.program.add(self.kernel("forward", count * channels), Address(X), read, *self.tables, arguments)
        mixing = np.zeros(1, MIX)
        for name, value in {
            "modes": modes, "samples": count, "in": task.inputs, "out": task.outputs, "x_sample": channels * modes,
            "x_in": modes, "weight_in": modes, "weight_out": task.inputs * modes, "last": 1, "scale": 1, "sign": 1,
        }.items():  # fmt: skip
            mixing[name] = value
        wide = modes % 2 == 0 and task.itemsize == 4
        # Spectra may be more numbers than the arrays that the plan's width of offsets is for.
        most = max(count * channels, count * task.channels, task.outputs * task.inputs) * modes
        options = self.options if most < 2**31 else (index_option(64),)
        kernel = mix_kernel(task.real, count, task.outputs, modes, "NONE", device.multiprocessors, options, wide)
        for group in range(task.groups):
            source = Address(SPACE, read.shift + group * task.inputs * modes * self.point_bytes)
            weight = Address(SPACE, group * task.outputs * task.inputs * modes * self.point_bytes)
            target = Address(SPACE, written.shift + group * count * task.outputs * modes * self.point_bytes)
            self.program.add(kernel, source, weight, target, mixing)
        kernel = self.kernel("inverse", count * task.channels)
        self.program.add(
            kernel, written, Address(OUT), *self.tables, arguments, self.finish,
            inner={(5, word): at for word, at in self.inner.items()},
        )  # fmt: skip
