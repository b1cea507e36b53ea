"""Filters along split dimensions of lazy arrays: in one piece where a task can take it, else one axis after the other.

On the sphere, and along one dimension, a filter is a pass along each axis. On a plane the transfer function couples the
axes: the last ones are transformed forward, the first one forward, multiplied and back, and the last ones back. Between
two passes the array changes its blocks, from slabs along one axis to slabs along the other, through files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import fft
from spectralops.xarray._dask_scratch import Runs, Tiles, cut, exchanged
from spectralops.xarray._grid import Axis, GridLayout
from spectralops.xarray._kernels import Smoothed, device_array, extended, smoothed

__all__ = ["blockwise", "budget", "by_files", "is_split", "moved", "passed", "whole_chunks"]

# Arrays of the widest kind that a task holds at a time: what was read, what it is extended to, spectrum, result, files.
HELD = 5


def budget() -> int:
    """Bytes that one task may take."""
    import dask
    from dask.utils import parse_bytes

    return int(parse_bytes(dask.config.get("spectralops.memory", "128 MiB")))


def is_split(x: Any, numbers: tuple[int, ...]) -> bool:
    """Whether an array has several blocks along one of some axes."""
    return any(x.numblocks[number] > 1 for number in numbers)


def fits(x: Any, numbers: tuple[int, ...], held: int = HELD) -> bool:
    """Whether a task can take so many arrays in one piece along some axes, in the blocks of x along the others."""
    return held * _largest(x, numbers) <= budget()


def by_files(x: Any, numbers: tuple[int, ...]) -> bool:
    """Whether so much of an array is read and written together that it has to lie in files in between."""
    return _largest(x, numbers) > budget()


def _largest(x: Any, numbers: tuple[int, ...]) -> int:
    """Bytes of the largest piece that is whole along some axes, in the array's blocks along the others."""
    sizes = [n if number in numbers else max(x.chunks[number]) for number, n in enumerate(x.shape)]
    return math.prod(sizes) * int(x.dtype.itemsize)


def whole_chunks(x: Any, numbers: tuple[int, ...], held: int = HELD) -> tuple[tuple[int, ...], ...]:
    """Chunks that are whole along some axes, and along the others those of x, or smaller where a task needs it."""
    if fits(x, numbers, held):
        return tuple((n,) if number in numbers else x.chunks[number] for number, n in enumerate(x.shape))
    tiles = _tiles(x, numbers, held * x.dtype.itemsize, ())
    return tuple(tuple(sum(b - a for a, b in runs) for runs in blocks) for blocks in tiles)


def moved(x: Any, chunks: tuple[tuple[int, ...], ...], files: bool) -> Any:
    """The same array in other chunks."""
    if x.chunks == chunks:
        return x
    return exchanged(x, cut(chunks)) if files else x.rechunk(chunks, method="tasks")


def blockwise(kernel: Any, arrays: list[Any], numbers: tuple[int, ...], dtype: Any, held: int = HELD) -> Any:
    """A kernel on blocks that are whole along some axes; the result has the chunks of the first array."""
    import dask.array as da

    x = arrays[0]
    files, chunks = by_files(x, numbers), whole_chunks(x, numbers, held)
    blocks = [moved(each, chunks, files) for each in arrays]
    return moved(da.map_blocks(kernel, *blocks, dtype=dtype, meta=x._meta.astype(dtype)), x.chunks, files)


def passed(x: Any, layout: GridLayout, symbol: Any) -> Any:
    """:func:`smoothed` of a lazy array that is split along filtered axes."""
    # Nothing is extended where all axes wrap: there are x, a spectrum, what becomes of it, and the result.
    most = HELD - int(all(_ratio(axis) == 1 for axis in layout.axes))
    if fits(x, layout.whole, most) or (len(layout.whole) == 1 and not by_files(x, layout.whole)) or 0 in x.shape:
        return blockwise(Smoothed(layout, symbol), [x], layout.whole, x.dtype, most)
    import dask.array as da

    y, held = x, None
    for step in _passes(x.dtype, layout, symbol):
        tiles = _tiles(
            y, step.numbers, HELD * step.bytes_each, tuple(axis.number for axis in layout.axes), step.opposite
        )
        y = exchanged(y, tiles, held)
        size = step.size or y.shape[step.axis]
        chunks = tuple((size,) if number == step.axis else each for number, each in enumerate(y.chunks))
        meta = x._meta.astype(step.dtype)
        y = da.map_blocks(_OnBlock(step.function, tiles), y, dtype=step.dtype, chunks=chunks, meta=meta)
        held = tuple((((0, size),),) if number == step.axis else each for number, each in enumerate(tiles))
    return exchanged(y, cut(x.chunks), held)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A function of slabs that are whole along one axis, of their runs along all: its result along the axis has `size`
    points, if not as many.

    `bytes_each` are those of the widest array by point of what is read; slabs hold meridians beside those `opposite` on
    the axis of longitude.
    """

    axis: int
    function: Any
    dtype: np.dtype[Any]
    bytes_each: int
    size: int | None = None
    opposite: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.axis,)


def _passes(dtype: np.dtype[Any], layout: GridLayout, symbol: Any) -> Iterator[_Pass]:
    item = dtype.itemsize
    if layout.spherical or len(layout.axes) == 1:
        for axis in sorted(layout.axes, key=lambda axis: axis.kind != "longitude"):
            opposite = layout.longitude_number if axis.edge == "pole" else None
            yield _Pass(axis.number, Along(layout, axis, symbol), dtype, _ratio(axis) * item, opposite=opposite)
        return
    first, *others = layout.axes
    halved = dtype.kind != "c"
    spectrum = np.result_type(dtype, np.complex64)
    for axis in reversed(others):
        real = halved and axis is others[-1]
        each = _ratio(axis) * (item if real else spectrum.itemsize)
        yield _Pass(axis.number, Forward(layout, axis, real), spectrum, each, _coefficients(axis, real))
    yield _Pass(first.number, Across(layout, symbol, halved), spectrum, _ratio(first) * spectrum.itemsize)
    for axis in others:
        real = halved and axis is others[-1]
        yield _Pass(axis.number, Inverse(axis, real), dtype if real else spectrum, spectrum.itemsize, axis.size)


def _ratio(axis: Axis) -> int:
    """How much longer than the axis one period of its continuation is, at most."""
    return 1 if axis.edge == "wrap" else 2


def _coefficients(axis: Axis, halved: bool) -> int:
    n = _ratio(axis) * axis.size
    return n // 2 + 1 if halved else n


@dataclass(frozen=True, slots=True)
class Along:
    """The filter along one axis, for the latitudes of the slab."""

    layout: GridLayout
    axis: Axis
    symbol: Any

    def __call__(self, x: Any, runs: tuple[Runs, ...]) -> Any:
        number, latitudes = self.layout.latitude_number, self.layout.latitudes
        if number is not None:
            latitudes = tuple(value for a, b in runs[number] for value in latitudes[a:b])
        return smoothed(x, replace(self.layout, axes=(self.axis,), latitudes=latitudes), self.symbol)


@dataclass(frozen=True, slots=True)
class Forward:
    """Coefficients along one axis."""

    layout: GridLayout
    axis: Axis
    halved: bool

    def __call__(self, x: Any, runs: tuple[Runs, ...]) -> Any:
        transform = fft.rfft if self.halved else fft.fft
        return transform(extended(x, self.axis, self.layout), axis=self.axis.number)


@dataclass(frozen=True, slots=True)
class Across:
    """The filter along the first axis of coefficients along all others."""

    layout: GridLayout
    symbol: Any
    halved: bool

    def __call__(self, x: Any, runs: tuple[Runs, ...]) -> Any:
        first, *others = self.layout.axes
        wide = extended(x, first, self.layout)
        k = [self._wavenumbers(first, False)]
        for axis in others:
            values = self._wavenumbers(axis, self.halved and axis is others[-1])
            k.append(np.concatenate([values[a:b] for a, b in runs[axis.number]]))
        grids = [self.layout.along(axis.number, each) for axis, each in zip(self.layout.axes, k, strict=True)]
        spectrum = fft.fft(wide, axis=first.number)
        spectrum *= device_array(np.real(self.symbol(*grids)), wide)
        y = fft.ifft(spectrum, axis=first.number, overwrite_x=True)
        return y[(slice(None),) * first.number + (slice(first.size), ...)]

    @staticmethod
    def _wavenumbers(axis: Axis, halved: bool) -> np.ndarray[Any, Any]:
        frequencies = (np.fft.rfftfreq if halved else np.fft.fftfreq)(_ratio(axis) * axis.size, axis.spacing)
        return np.asarray(2 * np.pi * frequencies)


@dataclass(frozen=True, slots=True)
class Inverse:
    """Values along one axis from coefficients."""

    axis: Axis
    halved: bool

    def __call__(self, x: Any, runs: tuple[Runs, ...]) -> Any:
        number = self.axis.number
        if self.halved:
            y = fft.irfft(x, _ratio(self.axis) * self.axis.size, axis=number)
        else:
            y = fft.ifft(x, axis=number)
        # Without the part beyond the ends, which a view would keep in memory.
        part = y[(slice(None),) * number + (slice(self.axis.size), ...)]
        return compat.array_namespace(y).asarray(part, copy=True) if _ratio(self.axis) > 1 else y


@dataclass(frozen=True, slots=True)
class _OnBlock:
    """A function of a block and of its runs, as map_blocks calls it."""

    function: Any
    tiles: Tiles

    def __call__(self, x: Any, block_id: tuple[int, ...]) -> Any:
        return self.function(x, tuple(blocks[i] for blocks, i in zip(self.tiles, block_id, strict=True)))


def _tiles(
    x: Any, numbers: tuple[int, ...], bytes_each: int, later: tuple[int, ...], opposite: int | None = None
) -> Tiles:
    """Slabs that are whole along some axes and small enough for a task: cut along the first axes first, but `later`.

    A task takes `bytes_each` for each point. Along the axis of `opposite` meridians each slab has those half a circle
    away, too.
    """
    limit = max(1, budget() // bytes_each)
    sizes = list(x.shape)
    others = [number for number in range(x.ndim) if number not in numbers]
    for number in sorted(others, key=lambda number: (number in later, number)):
        rest = math.prod(sizes) // sizes[number]
        smallest = 2 if number == opposite else 1
        if limit // rest < sizes[number]:
            sizes[number] = _aligned(max(smallest, limit // rest), max(x.chunks[number]))
    return tuple(
        _pairs(n, size // 2) if number == opposite else _runs(n, size)
        for number, (n, size) in enumerate(zip(x.shape, sizes, strict=True))
    )


def _aligned(size: int, chunk: int) -> int:
    """A size no larger, of whole chunks or of which whole ones make a chunk, so that few chunks are read twice."""
    return size // chunk * chunk if size >= chunk else math.ceil(chunk / math.ceil(chunk / size))


def _runs(n: int, size: int) -> tuple[Runs, ...]:
    return tuple(((a, min(a + size, n)),) for a in range(0, n, size))


def _pairs(n: int, size: int) -> tuple[Runs, ...]:
    half = n // 2
    ends = [(a, min(a + size, half)) for a in range(0, half, size)]
    return tuple(((a, b), (half + a, half + b)) for a, b in ends)
