"""Kernels on lazy arrays that are split along dimensions of the grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectralops.xarray._cells import Band, Rows
from spectralops.xarray._dask_slabs import blockwise, by_files, fits, is_split, moved, passed, whole_chunks
from spectralops.xarray._grid import GridLayout
from spectralops.xarray._kernels import Convolution, Filter, InverseLaplacian, convolved, present, stored, working
from spectralops.xarray._transport import Transport

__all__ = ["overlapped", "split", "whole"]

# Arrays of the field's size that a task of steps holds at a time: winds, fluxes, means, masses, bounds, openings.
HELD_BY_STEPS = 16
# How much shorter than a block what two neighbours have in common should be, where steps can be parted.
COMMON = 4


def split(kernel: Any, arrays: list[Any], layout: GridLayout, dtype: Any) -> Any:
    """A kernel's result on Dask arrays of the same chunks, split along axes that it needs whole.

    Filters and steps work on slabs and with overlaps, everything else on fields in one piece.
    """
    x = arrays[0]
    if isinstance(kernel, Filter | InverseLaplacian):
        y = kernel.through(x, passed)
    elif isinstance(kernel, Convolution):
        y = kernel.through(x, _convolved)
    elif hasattr(kernel, "overlapped"):
        y = kernel.overlapped(*arrays, apply=overlapped, rows=blockwise)
    elif isinstance(kernel, Transport):
        y = _stepped(kernel, arrays, layout, dtype)
    else:
        y = blockwise(kernel, arrays, layout.whole, dtype)
    return moved(y, x.chunks, files=False)


def whole(x: Any, numbers: tuple[int, ...]) -> Any:
    """A Dask array in one piece along some axes, by way of files if it is too large for one task."""
    return moved(x, whole_chunks(x, numbers), by_files(x, numbers)) if is_split(x, numbers) else x


def _stepped(kernel: Transport, arrays: list[Any], layout: GridLayout, dtype: Any) -> Any:
    """Steps of a tracer on bands of whole rows that overlap as far as the steps look, a few steps at a time.

    Rows are whole, since along them air may pass any number of cells, and bounds are then those of the row. Where
    neighbours would have to exchange their rows more than once, a field that a task can take is one block.
    """
    import dask.array as da

    x, reach, steps = arrays[0], kernel.reach, kernel.steps
    along, across = (kernel.rows.x,), kernel.rows.y
    if reach is None or not steps or 0 in x.shape:
        return blockwise(kernel, arrays, layout.whole, dtype)
    chunks = whole_chunks(x, along, HELD_BY_STEPS)
    at_once = steps if len(chunks[across]) == 1 else max(1, max(chunks[across]) // (COMMON * reach))
    if at_once < steps and fits(x, layout.whole, HELD_BY_STEPS):
        return blockwise(kernel, arrays, layout.whole, dtype)
    files = by_files(x, along)
    x, *others = (moved(each, chunks, files) for each in arrays)
    if kernel.skipna:
        place = 2 * len(kernel.times)
        mask = others[place : place + int(kernel.masked)]
        sea = da.map_blocks(present, x, *mask, dtype=bool, meta=x._meta.astype(bool))
        others[place : place + int(kernel.masked)] = [sea]
        kernel = replace(kernel, skipna=False, masked=True)
    y = working(x)
    for first in range(0, steps, at_once):
        some = replace(kernel, first=first, steps=min(at_once, steps - first))
        y = overlapped(_OnBand(some), [y, *others], reach * some.steps, {across: False}, y.dtype)
    return moved(stored(y, x), arrays[0].chunks, files)


@dataclass(frozen=True, slots=True)
class _OnBand:
    """Steps on the rows of a block."""

    kernel: Transport

    def __call__(self, *arrays: Any, places: Mapping[int, np.ndarray[Any, Any]]) -> Any:
        kernel, rows = self.kernel, self.kernel.rows
        if rows.y in places:
            assert isinstance(rows, Rows)
            band = places[rows.y]
            kernel = replace(kernel, rows=Band(rows, int(band[0]), int(band[-1]) + 1))
        return kernel(*arrays)


def overlapped(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    depth: int,
    wraps: Mapping[int, bool],
    dtype: Any = None,
) -> Any:
    """A function of blocks that overlap their neighbours: what it makes wrong at their ends is cut off.

    Parameters
    ----------
    function : callable
        Called as ``function(*blocks, places=places)``; gives an array like its first block. ``places`` has for each
        axis along which blocks overlap the indices of the points in the whole array. There, the true ends are ends of
        the block, too, and an axis that wraps is to be treated as if it did not. It must be hashable by Dask, as frozen
        dataclasses are.
    arrays : sequence of dask.array.Array
        Of the same shape and chunks.
    depth : int
        Points at each end that may be wrong.
    wraps : mapping
        Axes that the function couples, and whether the ends meet.
    dtype : dtype, optional
        Of the result, by default that of the first array.

    Returns
    -------
    dask.array.Array
        With the chunks of the first array.
    """
    import dask.array as da
    from dask.array.overlap import overlap, trim_internal

    x = arrays[0]
    dtype = x.dtype if dtype is None else dtype
    chunks = tuple(
        _long_enough(sizes, depth) if number in wraps and len(sizes) > 1 else sizes
        for number, sizes in enumerate(x.chunks)
    )
    split_axes = [number for number in wraps if len(chunks[number]) > 1]
    depths = {number: depth if number in split_axes else 0 for number in range(x.ndim)}
    ends = {number: "periodic" if wraps.get(number) and number in split_axes else "none" for number in range(x.ndim)}
    wide = [overlap(each.rechunk(chunks, method="tasks"), depths, ends) for each in arrays]
    places = {number: _places(chunks[number], depth, wraps[number]) for number in split_axes}
    y = da.map_blocks(_OnBlock(function, places), *wide, dtype=dtype, meta=x._meta.astype(dtype))
    return trim_internal(y, depths, ends).rechunk(x.chunks, method="tasks")


@dataclass(frozen=True, slots=True, eq=False)
class _OnBlock:
    """A function of blocks and of the places of their points, as map_blocks calls it."""

    function: Callable[..., Any]
    places: dict[int, tuple[tuple[int, int, int], ...]]

    def __call__(self, *blocks: Any, block_id: tuple[int, ...]) -> Any:
        found = {}
        for number, runs in self.places.items():
            start, stop, n = runs[block_id[number]]
            found[number] = np.arange(start, stop) % n
        return self.function(*blocks, places=found)


def _places(sizes: tuple[int, ...], depth: int, wraps: bool) -> tuple[tuple[int, int, int], ...]:
    """First and last point of each block with its overlap, and the number of all points."""
    n = sum(sizes)
    stops = np.cumsum(sizes).tolist()
    reaches = [(stop - size - depth, stop + depth) for stop, size in zip(stops, sizes, strict=True)]
    return tuple((a, b, n) if wraps else (max(a, 0), min(b, n), n) for a, b in reaches)


def _long_enough(sizes: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Chunks at least twice as long as the overlap, of about the same size; one if there is no room for two."""
    if min(sizes) >= 2 * depth:
        return sizes
    n = sum(sizes)
    count = n // max(max(sizes), 4 * depth)
    if count < 2:
        return (n,)
    return tuple(len(part) for part in np.array_split(np.arange(n), count))


def _convolved(x: Any, layout: GridLayout, values: np.ndarray[Any, Any]) -> Any:
    """:func:`convolved` of a lazy array."""
    kernel = _Convolved(layout, values)
    if any(axis.edge == "pole" for axis in layout.axes):
        return blockwise(kernel, [x], layout.whole, x.dtype)
    wraps = {axis.number: axis.edge == "wrap" for axis in layout.axes}
    return overlapped(kernel, [x], max(size // 2 for size in values.shape), wraps)


@dataclass(frozen=True, slots=True, eq=False)
class _Convolved:
    """:func:`convolved` as a value; between blocks, ends are mirrors, which reach no further than the overlap."""

    layout: GridLayout
    values: np.ndarray[Any, Any]

    def __call__(self, x: Any, places: Mapping[int, np.ndarray[Any, Any]] | None = None) -> Any:
        axes = tuple(
            replace(axis, size=x.shape[axis.number], edge="mirror" if axis.number in (places or {}) else axis.edge)
            for axis in self.layout.axes
        )
        return convolved(x, replace(self.layout, axes=axes), self.values)
