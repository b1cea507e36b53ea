"""Convolutions of arrays of any layout: direct sums, windows, or tiles with channels in the lanes.

Arrays come with batch axes first: x (…, n…), taps (…, k…), out (…, results…), whose batch axes broadcast; or with
channels: x (N, G, C, H, W), weights (G, O, C, K_h, K_w), out (N, G, O, …).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import host, prepared, workspace
from spectralops._cpu.vector import sum_fields as s
from spectralops._cpu.vector import tile_fields as t
from spectralops._cpu.vector import window_fields as w
from spectralops._cpu.vector.sum_jobs import OUTPUTS, Geometry, sum_job
from spectralops._cpu.vector.window_jobs import Extent, LineWindows, Tiles, Windows, tiles, windows

__all__ = ["Extent", "filter_channels", "filter_windows", "sum_channels", "sum_windows"]

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

# Bytes of filters held at a time.
FILTERS_BYTES = 1 << 25
CHANNELS_BYTES = 1 << 26
# Up to so many output channels of a group are summed one by one: four at a time would mostly sum nothing.
FEW_OUTPUTS = 2


def _strides(array: Array, item: int) -> Sizes:
    """Strides in numbers; axes of length 1 do not move."""
    return tuple(0 if n == 1 else stride // item for n, stride in zip(array.shape, array.strides, strict=True))


def _readable(array: Array, rows: bool) -> Array:
    """The array, or a copy where kernels could not read it; with `rows`, elements must be side by side."""
    number = host.ITEM_BYTES[host.REAL[array.dtype.char]]
    fits = array.flags.aligned and not any(stride % number for stride in array.strides)
    if fits and (not rows or array.shape[-1] == 1 or array.strides[-1] == array.itemsize):
        return array
    return array.copy(order="C")


@lru_cache(maxsize=512)
def _places(batch: Sizes, strides: Sizes) -> Array:
    """Where the entries of a batch begin."""
    places = np.zeros((), np.int64)
    for n, stride in zip(batch, strides, strict=True):
        places = places[..., None] + np.arange(n) * stride
    return places.reshape(-1)


@lru_cache(maxsize=512)
def _items(batch: Sizes, source: Sizes, filters: Sizes, target: Sizes, offsets: tuple[Sizes, ...]) -> Array:
    """(source, filter, target) of each entry of the batch, and of each of `offsets` added to it."""
    places = np.stack([_places(batch, strides) for strides in (source, filters, target)], axis=1)
    items = (places[:, None] + np.array(offsets, np.int64)).reshape(-1, 3)
    items.setflags(write=False)
    return items


@lru_cache(maxsize=512)
def _by_filter(batch: Sizes, source: Sizes, filters: Sizes, target: Sizes) -> tuple[Array, Sizes]:
    """Items in the order of their filters, and where those of each filter begin."""
    items = _items(batch, source, filters, target, ((0, 0, 0),))
    items = np.ascontiguousarray(items[np.argsort(items[:, 1], kind="stable")])
    bounds = np.searchsorted(items[:, 1], np.arange(items[-1, 1] + 2))
    return items, tuple(bounds.tolist())


class _Fields:
    """A job's fields with the address of its items, which live as long."""

    def __init__(self, fields: Array, place: int, items: Array) -> None:
        self._fields, self._items = fields.copy(), items
        self._fields[place] = items.ctypes.data
        self.address = self._fields.ctypes.data


def _number_strides(shape: Sizes) -> Sizes:
    """Strides that count the entries of a batch in their order; axes of length 1 broadcast."""
    return tuple(0 if n == 1 else math.prod(shape[axis + 1 :]) for axis, n in enumerate(shape))


def sum_windows(x: Array, taps: Array, out: Array, start: Sizes, workers: int) -> None:
    """Elements `start` + r of the full convolution, r = 0 …, by direct sums over the taps."""
    d = len(start)
    real = host.REAL[out.dtype.char]
    item = host.ITEM_BYTES[real]
    x = _readable(x, False)
    flipped = taps[(..., *(slice(None, None, -1),) * d)]
    batch, k = out.shape[:-d], taps.shape[-d:]
    weights, channels, offsets = _parts(x.dtype.kind == "c", flipped, d)
    size = weights.shape[-1]
    strides, target = _strides(x, item), _strides(out, item)
    geometry = _geometry(
        x.shape[-d:], k, tuple(first - n + 1 for first, n in zip(start, k, strict=True)), (1,) * d, (1,) * d,
        out.shape[-d:], _last(x, d, item), _last(out, d, item), channels, (0,),
    )  # fmt: skip
    filters = tuple(size * weights.shape[-2] * step for step in _number_strides(taps.shape[:-d]))
    places = tuple((source, number * size, target) for source, number, target in offsets)
    items = _items(batch, strides[:-d], filters, target[:-d], places)
    _sum(geometry, len(offsets), real, items, x, weights, out, workers)


def _last(array: Array, d: int, item: int) -> Sizes:
    """Strides of the last axes in numbers; elements of a row of one are side by side."""
    return tuple(stride // item for stride in array.strides[-d:])


def _parts(is_complex: bool, taps: Array, d: int) -> tuple[Array, Sizes, tuple[Sizes, ...]]:
    """Weights (…, result, summed parts and taps), where the summed parts of x begin, and (source, weights, target) of
    each result: real arithmetic for real and imaginary parts.
    """
    flat = taps.reshape(*taps.shape[:-d], 1, -1)
    if taps.dtype.kind != "c":
        weights = np.ascontiguousarray(flat)
        return weights, (0,), ((0, 0, 0), (1, 0, 1)) if is_complex else ((0, 0, 0),)
    if not is_complex:
        weights = np.concatenate([flat.real, flat.imag], axis=-2)
        return weights, (0,), ((0, 0, 0), (0, 1, 1))
    real = np.concatenate([flat.real, -flat.imag], axis=-1)
    weights = np.concatenate([real, np.concatenate([flat.imag, flat.real], axis=-1)], axis=-2)
    return weights, (0, 1), ((0, 0, 0), (0, 1, 1))


def _geometry(
    image: Sizes, taps: Sizes, start: Sizes, stride: Sizes, dilation: Sizes, results: Sizes, source: Sizes,
    target: Sizes, channels: Sizes, outputs: Sizes,
) -> Geometry:  # fmt: skip
    """With one axis, the image is a single row."""
    if len(image) == 1:
        image, taps, results, stride, dilation = ((1, *sizes) for sizes in (image, taps, results, stride, dilation))
        start, source, target = ((0, *sizes) for sizes in (start, source, target))
    return Geometry(image, taps, start, stride, dilation, results, source, target, channels, outputs)


def _sum(
    geometry: Geometry, shared: int, dtype: str, items: Array, x: Array, weights: Array, out: Array, workers: int
) -> None:
    # Real and imaginary parts of one entry share what is copied only if all of them have the same source.
    job = sum_job(geometry, shared if len(geometry.channels) > 1 or _same_source(items, shared) else 1, dtype)
    fields = _Fields(job.fields, s.ITEMS, items)
    source, factors, target = x.ctypes.data, weights.ctypes.data, out.ctypes.data

    def some(first: int, last: int) -> None:
        memory = workspace.take(job.memory)
        job.kernel(fields.address, source, factors, target, memory.address, first, last)
        workspace.give_back(memory)

    workspace.run(some, job.units * len(items) // job.shared, workers)


def _same_source(items: Array, shared: int) -> bool:
    return shared > 1 and items[0, 0] == items[1, 0]


def filter_windows(x: Array, taps: Array, out: Array, extent: Extent, workers: int) -> None:
    """The convolution along the last axes by circular ones."""
    d = len(extent.lengths)
    is_complex, real = out.dtype.kind == "c", host.REAL[out.dtype.char]
    item = host.ITEM_BYTES[real]
    x = _readable(x if x.dtype == out.dtype else x.astype(out.dtype), True)
    filters = np.ascontiguousarray(taps, out.dtype)
    strides, target = _strides(x, item), _strides(out, item)
    way = windows(extent, _last(x, d, item), _last(out, d, item), real, is_complex)
    batch = out.shape[:-d]
    items, bounds = _by_filter(batch, strides[:-d], _number_strides(taps.shape[:-d]), target[:-d])
    filters = filters.reshape(-1, *extent.taps)
    if isinstance(way, LineWindows):
        _filter_lines(way, x, filters, out, items, bounds, workers)
    else:
        _filter_images(way, x, filters, out, items, bounds, workers)


def _filter_lines(
    way: LineWindows, x: Array, filters: Array, out: Array, items: Array, bounds: Sizes, workers: int
) -> None:
    length, halved = way.lines.n, out.dtype.kind == "f"
    wide = np.complex128 if not halved else np.float64
    spectra = (np.fft.rfft if halved else np.fft.fft)(filters.astype(wide), length)
    lanes = way.lines.lanes
    source, target = x.ctypes.data, out.ctypes.data

    def one(number: int, threads: int) -> None:
        count = (bounds[number + 1] - bounds[number]) * way.count
        fields = _Fields(way.fields, w.ITEMS, items[bounds[number] :])
        transfer = way.lines.transfer(spectra[number])

        def some(first: int, last: int) -> None:
            memory = workspace.take(way.memory)
            stop = min(last * lanes, count)
            way.kernel(fields.address, source, transfer.ctypes.data, target, memory.address, first * lanes, stop)
            workspace.give_back(memory)

        workspace.run(some, -(-count // lanes), threads)

    _each(one, len(filters), workers)


def _each(one: Callable[[int, int], None], count: int, workers: int) -> None:
    """Call one(number, threads) for all: side by side where there are enough, else one after another."""
    if count < workers:
        for number in range(count):
            one(number, workers)
        return

    def some(first: int, last: int) -> None:
        for number in range(first, last):
            one(number, 1)

    workspace.run(some, count, workers)


def _filter_images(
    way: Windows, x: Array, filters: Array, out: Array, items: Array, bounds: Sizes, workers: int
) -> None:
    size = filters[0].size * (2 if out.dtype.kind == "c" else 1)
    few = max(1, FILTERS_BYTES // way.filter_bytes)
    source, target = x.ctypes.data, out.ctypes.data
    for begin in range(0, len(filters), few):
        chosen = filters[begin : begin + few]
        count = len(chosen)
        places = np.zeros((count, w.ITEM_FIELDS), np.int64)
        places[:, w.ITEM_SOURCE] = np.arange(count) * size
        reading = _Fields(way.filters.fields, w.ITEMS, places)

        def arrange(
            address: int, fields: int = reading.address, taps: int = chosen.ctypes.data, count: int = count
        ) -> None:
            def some(first: int, last: int) -> None:
                memory = workspace.take(way.memory)
                way.filters_kernel(fields, taps, way.scale.ctypes.data, address, memory.address, first, last)
                workspace.give_back(memory)

            workspace.run(some, count, workers)

        lease = prepared.tiles(way, chosen, way.filter_bytes * count, arrange)
        mine = items[bounds[begin] : bounds[begin + count]].copy()
        mine[:, w.ITEM_FILTER] -= begin
        fields, transfer = _Fields(way.fields, w.ITEMS, mine), lease.buffer.address

        def some(first: int, last: int, fields: int = fields.address, transfer: int = transfer) -> None:
            memory = workspace.take(way.memory)
            way.kernel(fields, source, transfer, target, memory.address, first, last)
            workspace.give_back(memory)

        workspace.run(some, len(mine) * way.count, workers)
        lease.end()


def sum_channels(
    x: Array, weight: Array, out: Array, start: Sizes, stride: Sizes, dilation: Sizes, workers: int
) -> None:
    """The correlation over channels by direct sums: the first tap of result r meets element start + stride·r."""
    real = host.REAL[out.dtype.char]
    item = host.ITEM_BYTES[real]
    x = _readable(x, False)
    (_, groups, channels), (outputs, _, *taps) = x.shape[:3], weight.shape[1:]
    weights, parts, offsets = _parts(x.dtype.kind == "c", weight, 3)
    results = weights.shape[-2]
    size = weights.shape[-1]
    weights = weights.reshape(groups, outputs * results, size)
    strides, target = _strides(x, item), _strides(out, item)
    summed = tuple(part + channel * strides[2] for part in parts for channel in range(channels))
    places = tuple(output * target[2] + part for output in range(outputs) for part in range(results))
    sources = tuple(part for part, number, _ in offsets if number == 0)
    few = len(places) <= FEW_OUTPUTS
    geometry = _geometry(
        x.shape[-2:], tuple(taps), start, stride, dilation, out.shape[-2:], _last(x, 2, item), _last(out, 2, item),
        summed, (0,) if few else places,
    )  # fmt: skip
    if few:
        each = tuple((part, i * size, part + place) for part in sources for i, place in enumerate(places))
        shared, filters = len(places), len(places) * size
    else:
        blocks = -(-len(places) // OUTPUTS)
        padded = np.zeros((groups, blocks * OUTPUTS, size), weights.dtype)
        padded[:, : len(places)] = weights
        weights = np.ascontiguousarray(padded.reshape(groups, blocks, OUTPUTS, size).swapaxes(-1, -2))
        each = tuple((part, 0, part) for part in sources)
        shared, filters = 1, blocks * OUTPUTS * size
    items = _items(out.shape[:2], strides[:2], (0, filters), target[:2], each)
    _sum(geometry, shared, real, items, x, weights, out, workers)


def filter_channels(x: Array, weight: Array, out: Array, extent: Extent, workers: int) -> None:
    """The convolution over channels by circular ones."""
    outputs, inputs = weight.shape[1:3]
    if inputs == 1 and outputs <= FEW_OUTPUTS:
        filter_windows(x, weight[None, :, :, 0], out, extent, workers)
    elif out.dtype.kind == "c":
        _filter_parts(x, weight, out, extent, workers)
    else:
        x = _readable(x, True)
        for group in range(x.shape[1]):
            _filter_group(x[:, group], weight[group], out[:, group], extent, workers)


def _filter_parts(x: Array, weight: Array, out: Array, extent: Extent, workers: int) -> None:
    """Real and imaginary parts as channels, or as images where the weights are real."""
    real = host.REAL[out.dtype.char]
    images, outputs = x.shape[0], weight.shape[1]
    if weight.dtype.kind == "c":
        columns = [np.concatenate([weight.real, weight.imag], axis=1)]
        if x.dtype.kind == "c":
            columns.append(np.concatenate([-weight.imag, weight.real], axis=1))
            x = np.concatenate([x.real, x.imag], axis=2)
        results = np.empty((images, out.shape[1], 2 * outputs, *out.shape[3:]), real)
        filter_channels(x, np.concatenate(columns, axis=2), results, extent, workers)
        out.real, out.imag = results[:, :, :outputs], results[:, :, outputs:]
    else:
        results = np.empty((2 * images, *out.shape[1:]), real)
        filter_channels(np.concatenate([x.real, x.imag]), weight, results, extent, workers)
        out.real, out.imag = results[:images], results[images:]


def _filter_group(x: Array, weight: Array, out: Array, extent: Extent, workers: int) -> None:
    """One group: x (N, C, H, W), weight (O, C, K_h, K_w), out (N, O, …); output channels in shares if they are many."""
    real, item = x.dtype.name, x.itemsize
    weight = np.ascontiguousarray(weight, out.dtype)
    outputs, inputs = weight.shape[:2]
    (_, *source), (_, *target), (*taps, _) = _strides(x, item), _strides(out, item), _strides(weight, item)
    share = outputs_together(inputs, outputs, extent.lengths, item, host.lanes(real))
    for begin in range(0, outputs, share):
        mine, results = weight[begin : begin + share], out[:, begin : begin + share]
        count = mine.shape[0]
        way = tiles(
            extent, inputs, count, tuple(source[:2]), (target[0], *_last(out, 2, item)), (taps[0], taps[2]), real
        )
        lease = prepared.tiles(way, mine, way.factor_bytes, _weights_to(way, mine, workers))
        items = np.zeros((x.shape[0], t.ITEM_FIELDS), np.int64)
        items[:, t.ITEM_SOURCE] = _places(x.shape[:1], _strides(x, item)[:1])
        items[:, t.ITEM_TARGET] = _places(x.shape[:1], _strides(out, item)[:1])
        fields = _Fields(way.fields, t.ITEMS, items)
        arguments = (fields.address, x.ctypes.data, lease.buffer.address, results.ctypes.data)

        def some(first: int, last: int, way: Tiles = way, arguments: tuple[int, ...] = arguments) -> None:
            memory = workspace.take(way.memory)
            way.kernel(*arguments, memory.address, first, last)
            workspace.give_back(memory)

        workspace.run(some, x.shape[0] * way.count, workers)
        lease.end()


def outputs_together(inputs: int, outputs: int, lengths: Sizes, item: int, lanes: int) -> int:
    """Output channels whose factors are held at a time, whole vectors of them."""
    one = (lengths[1] // 2 + 1) * lengths[0] * inputs * 2 * lanes * item
    return min(outputs, max(1, CHANNELS_BYTES // one) * lanes)


def _weights_to(way: Tiles, weight: Array, workers: int) -> Callable[[int], None]:
    """What transforms weights (O, C, K_h, K_w) to factors."""
    inputs = weight.shape[1]
    items = np.zeros((inputs, t.ITEM_FIELDS), np.int64)
    items[:, t.ITEM_SOURCE] = np.arange(inputs) * weight[0, 0].size
    fields = _Fields(way.weights.fields, t.ITEMS, items)

    def arrange(address: int) -> None:
        def some(first: int, last: int) -> None:
            memory = workspace.take(way.weights_memory)
            arguments = fields.address, weight.ctypes.data, way.scale.ctypes.data, address
            way.weights_kernel(*arguments, memory.address, first, last)
            workspace.give_back(memory)

        workspace.run(some, inputs, workers)

    return arrange
