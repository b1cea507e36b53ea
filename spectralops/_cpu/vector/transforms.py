"""Lone transforms of C-contiguous arrays, along one or several axes, in natural order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import fields as f
from spectralops._cpu.vector import host, kernels, tables, workspace

__all__ = ["FORWARD", "FROM_REAL", "INVERSE", "TO_REAL", "transform"]

# What is transformed into what.
FORWARD, INVERSE, FROM_REAL, TO_REAL = "forward", "inverse", "from_real", "to_real"
# Images of several axes are transformed a few at a time, so that each axis finds them in the second-level cache.
CHUNK_BYTES = 1 << 18

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Pass:
    """The transforms along one axis of images that lie one after another."""

    kernel: Any
    job: Array
    address: int
    keep: tuple[Any, ...]
    scratch: int  # bytes
    rows: bool
    per_image: int  # rows, or units of columns
    grain: int  # rows that one group takes
    steps: tuple[int, int]  # numbers from row to row, of source and target
    images: tuple[int, int]  # bytes from image to image, of source and target

    def run(self, source: int, target: int, first: int, last: int, scale: int, workers: int) -> None:
        """Images first … last; `scale` is the address of the factor and of the number one."""
        count = (last - first) * self.per_image
        source += first * self.images[0]
        target += first * self.images[1]

        def some(begin: int, end: int) -> None:
            memory = workspace.take(self.scratch)
            if self.rows:
                end = min(end * self.grain, count)
                steps = (source, self.steps[0], target, self.steps[1], memory.address, *self._scales(scale))
                self.kernel(self.address, *steps, begin * self.grain, end)
            else:
                self.kernel(self.address, source, target, memory.address, scale, begin, end)
            workspace.give_back(memory)

        workspace.run(some, -(-count // self.grain), workers)

    def _scales(self, scale: int) -> tuple[int, int]:
        return scale, scale + int(self.job[f.LINE_FIELDS])


@lru_cache(maxsize=256)
def _pass(kind: str, n: int, outer: int, inner: int, dtype: str) -> Pass:
    """Along an axis of length n with so many rows before it and numbers (as complex ones) after it, in one image."""
    lanes, item = host.lanes(dtype), host.ITEM_BYTES[dtype]
    real = kind in (FROM_REAL, TO_REAL)
    even = real and n % 2 == 0
    packed = tables.axis(n // 2 if even else n, dtype)
    count = n // 2 + 1
    padded = -(-n // lanes) * lanes
    group = 2 * lanes * max(padded, packed.space)
    order = np.arange(padded)
    position = np.zeros(padded, np.int64)
    position[: packed.n] = packed.position
    roots = tables.untangling_roots(n, dtype)
    job = np.zeros(f.LINE_FIELDS + 1, np.int64)
    job[f.LINE_LENGTH], job[f.LINE_COUNT], job[f.LINE_ODD] = n, count, not even
    job[f.LINE_TURN] = lanes if kind == INVERSE else 0
    job[f.LINE_TRANSFORM] = kernels.address(packed.inverse if kind == TO_REAL else packed.forward, dtype)
    job[f.LINE_PLAN], job[f.LINE_TWIDDLES] = packed.plan.ctypes.data, packed.twiddles.ctypes.data
    job[f.LINE_POSITION], job[f.LINE_ORDER] = position.ctypes.data, order.ctypes.data
    job[f.LINE_ROOTS], job[f.LINE_GROUP] = roots.ctypes.data, group
    job[f.LINE_FIELDS] = item
    rows = inner == 1
    if rows:
        name = {FROM_REAL: "rows_from_real", TO_REAL: "rows_to_real"}.get(kind, "rows_complex")
        lengths = {FROM_REAL: (n, 2 * count), TO_REAL: (2 * count, n)}.get(kind, (2 * n, 2 * n))
        groups, per_image, grain = 2 if real else 1, outer, lanes
        images = lengths[0] * outer * item, lengths[1] * outer * item
    else:
        name, lengths, grain = "columns_complex", (0, 0), 1
        units = -(-inner // lanes)
        groups = max(1, min(host.SWEEP_BYTES // (2 * lanes * item), units))
        per_image = units * outer
        job[f.LINE_NUMBERS], job[f.LINE_SIZE], job[f.LINE_UNITS] = 2 * inner, 2 * n * inner, units
        job[f.LINE_SWEEP] = groups
        images = (2 * n * inner * outer * item,) * 2
    job.setflags(write=False)
    keep = (packed, order, position, roots)
    scratch = workspace.padded(groups * group * item)
    kernel = kernels.kernel(name, dtype)
    return Pass(kernel, job, job.ctypes.data, keep, scratch, rows, per_image, grain, lengths, images)


@lru_cache(maxsize=256)
def _passes(kind: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> tuple[int, tuple[Pass, ...]]:
    """Where images begin, and the passes over them; `shape` is that of the side which is whole along all axes.

    The halved axis is the last of the array: it goes first where a real array is transformed, and last on the way back.
    """
    start = min(axes)
    image = list(shape[start:])
    half = kind in (FROM_REAL, TO_REAL)
    others = (INVERSE if kind == TO_REAL else FORWARD) if half else kind
    passes = []
    for axis in sorted(axes, reverse=True):
        along = axis - start
        sides = math.prod(image[:along]), math.prod(image[along + 1 :])
        mine = half and axis == len(shape) - 1
        passes.append(_pass(kind if mine else others, image[along], *sides, dtype))
        if mine:
            image[along] = image[along] // 2 + 1
    return start, tuple(passes[::-1] if kind == TO_REAL else passes)


@lru_cache(maxsize=256)
def _scale(value: float, dtype: str) -> Array:
    """A factor and, after it, the number one."""
    numbers = np.array([value, 1.0], dtype)
    numbers.setflags(write=False)
    return numbers


def transform(
    kind: str, x: Array, out: Array, shape: tuple[int, ...], axes: tuple[int, ...], scale: float, workers: int
) -> None:
    """Write the transform of x along the nonnegative `axes`, times `scale`, to `out`; both are C-contiguous.

    `shape` is that of the side which is whole along all axes. Real ends are halved along the array's last axis, which
    must be among `axes`. x may be out for complex transforms.
    """
    dtype = host.REAL[out.dtype.char]
    start, passes = _passes(kind, shape, axes, dtype)
    # Untangling gives twice the spectrum.
    doubled = kind == FROM_REAL and shape[-1] % 2 == 0
    factors = [_scale(1.0, dtype)] * len(passes)
    factors[-1] = _scale(scale * (0.5 if doubled else 1.0), dtype)
    if kind == FROM_REAL:
        factors.reverse()
    count = math.prod(shape[:start])
    source, target = workspace.address(x), workspace.address(out)
    between = None
    if kind == TO_REAL and len(passes) > 1:
        between = np.empty(x.shape, x.dtype)
    places = _places(source, target, between, len(passes))

    def images(first: int, last: int, threads: int) -> None:
        for one, (here, there), factor in zip(passes, places, factors, strict=True):
            one.run(here, there, first, last, factor.ctypes.data, threads)

    chunk = count if len(passes) == 1 else max(1, CHUNK_BYTES // (out.nbytes // count))
    chunks = [(first, min(first + chunk, count)) for first in range(0, count, chunk)]
    if len(chunks) >= 2 * workers > 2:

        def some(first: int, last: int) -> None:
            for begin, end in chunks[first:last]:
                images(begin, end, 1)

        workspace.run(some, len(chunks), workers)
    else:
        for begin, end in chunks:
            images(begin, end, workers)


def _places(source: int, target: int, between: Array | None, count: int) -> list[tuple[int, int]]:
    """Where each pass reads and writes: all but the first work in place, or on a copy where only the last is real."""
    if between is None:
        return [(source, target), *[(target, target)] * (count - 1)]
    middle = workspace.address(between)
    return [(source, middle), *[(middle, middle)] * (count - 2), (middle, target)]
