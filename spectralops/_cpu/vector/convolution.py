"""Convolutions of arrays of any layout: direct sums, windows, or tiles with channels in the lanes.

Arrays come with batch axes first: x (…, n…), taps (…, k…), out (…, results…), whose batch axes broadcast; or with
channels: x (N, G, C, H, W), weights (G, O, C, K_h, K_w), out (N, G, O, …).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import host, prepared, workspace
from spectralops._cpu.vector import sum_fields as s
from spectralops._cpu.vector import tile_fields as t
from spectralops._cpu.vector import window_fields as w
from spectralops._cpu.vector.sum_jobs import Geometry, SumJob, beginnings, sum_job
from spectralops._cpu.vector.window_jobs import Extent, LineWindows, Tiles, Windows, tiles, windows

__all__ = ["Extent", "filter_channels", "filter_windows", "sum_channels", "sum_windows"]

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

# Bytes of filters held at a time.
FILTERS_BYTES = 1 << 25
CHANNELS_BYTES = 1 << 26
# Up to so many output channels of a group are summed one by one: four at a time would mostly sum nothing.
FEW_OUTPUTS = 2


def _strides(shape: Sizes, strides: Sizes, item: int) -> Sizes:
    """Strides in numbers; axes of length 1 do not move."""
    return tuple(0 if n == 1 else stride // item for n, stride in zip(shape, strides, strict=True))


def _readable(array: Array, rows: bool) -> Array:
    """The array, or a copy where kernels could not read it; with `rows`, elements must be side by side."""
    number = host.ITEM_BYTES[host.REAL[array.dtype.char]]
    fits = array.flags.aligned and not any(stride % number for stride in array.strides)
    if fits and (not rows or array.shape[-1] == 1 or array.strides[-1] == array.itemsize):
        return array
    return array.copy(order="C")


@lru_cache(maxsize=512)
def _items(batch: Sizes, source: Sizes, filters: Sizes, target: Sizes, offsets: tuple[Sizes, ...]) -> Array:
    """(source, filter, target) of each entry of the batch, and of each of `offsets` added to it."""
    places = np.stack([beginnings(batch, strides) for strides in (source, filters, target)], axis=1)
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
        self._fields[place] = workspace.address(items)
        self.address = workspace.address(self._fields)


def _number_strides(shape: Sizes) -> Sizes:
    """Strides that count the entries of a batch in their order; axes of length 1 broadcast."""
    return tuple(0 if n == 1 else math.prod(shape[axis + 1 :]) for axis, n in enumerate(shape))


class Sum(NamedTuple):
    """Direct sums of one layout of arrays."""

    job: SumJob
    fields: _Fields
    units: int


def sum_windows(x: Array, taps: Array, out: Array, start: Sizes, workers: int) -> None:
    """Elements `start` + r of the full convolution, r = 0 …, by direct sums over the taps."""
    x = _readable(x, False)
    backwards: tuple[Any, ...] = (..., *(slice(None, None, -1),) * len(start))
    flipped = taps[backwards]
    weights = _weights(x.dtype.kind == "c", flipped.reshape(*taps.shape[: -len(start)], 1, -1))
    chars = x.dtype.char, taps.dtype.char, out.dtype.char
    _run(
        _sum_of_windows(x.shape, x.strides, taps.shape, out.shape, out.strides, chars, start), x, weights, out, workers
    )


@lru_cache(maxsize=512)
def _sum_of_windows(
    shape: Sizes, strides: Sizes, taps: Sizes, results: Sizes, target: Sizes, chars: tuple[str, str, str], start: Sizes
) -> Sum:
    d, real = len(start), host.REAL[chars[2]]
    item = host.ITEM_BYTES[real]
    k = taps[-d:]
    channels, offsets = _parts(chars[0], chars[1])
    # Weights of one kernel for one result: taps of each summed part.
    size = len(channels) * math.prod(k)
    geometry = _geometry(
        shape[-d:], k, tuple(first - n + 1 for first, n in zip(start, k, strict=True)), (1,) * d, (1,) * d,
        results[-d:], _numbers(strides[-d:], item), _numbers(target[-d:], item), channels, (0,),
    )  # fmt: skip
    kernels_of = host.NUMBERS[chars[1]] * size
    filters = tuple(kernels_of * step for step in _number_strides(taps[:-d]))
    each = tuple((source, number * size, place) for source, number, place in offsets)
    batch = results[:-d]
    source = _strides(shape[:-d], strides[:-d], item)
    items = _items(batch, source, filters, _strides(batch, target[:-d], item), each)
    # The parts of a result that have the same source follow each other.
    return _sum(geometry, len(offsets) if chars[1] in "FD" else 1, real, items)


def _sum(geometry: Geometry, shared: int, dtype: str, items: Array) -> Sum:
    job = sum_job(geometry, shared, dtype)
    return Sum(job, _Fields(job.fields, s.ITEMS, items), job.units * len(items) // shared)


def _run(plan: Sum, x: Array, weights: Array, out: Array, workers: int) -> None:
    kernel, fields, size = plan.job.kernel, plan.fields.address, plan.job.memory
    source, factors, target = workspace.address(x), workspace.address(weights), workspace.address(out)

    def some(first: int, last: int) -> None:
        memory = workspace.take(size)
        kernel(fields, source, factors, target, memory.address, first, last)
        workspace.give_back(memory)

    workspace.run(some, plan.units, workers)


def _numbers(strides: Sizes, item: int) -> Sizes:
    """Strides in numbers."""
    return tuple(stride // item for stride in strides)


def _parts(x: str, taps: str) -> tuple[Sizes, tuple[Sizes, ...]]:
    """Real arithmetic for real and imaginary parts: where the summed parts of x begin, and (source, kernel, target) of
    each part of a result.
    """
    if taps not in "FD":
        return (0,), ((0, 0, 0), (1, 0, 1)) if x in "FD" else ((0, 0, 0),)
    return (0, 1) if x in "FD" else (0,), ((0, 0, 0), (0, 1, 1))


def _weights(is_complex: bool, taps: Array) -> Array:
    """Weights (…, part of the result, summed parts · taps) from (…, 1, taps), for `_parts`."""
    if taps.dtype.kind != "c":
        return np.ascontiguousarray(taps)
    taps = np.ascontiguousarray(taps)  # concatenate keeps the order in memory of what it is given
    if not is_complex:
        return np.concatenate([taps.real, taps.imag], axis=-2)
    real = np.concatenate([taps.real, -taps.imag], axis=-1)
    return np.concatenate([real, np.concatenate([taps.imag, taps.real], axis=-1)], axis=-2)


def _geometry(
    image: Sizes, taps: Sizes, start: Sizes, stride: Sizes, dilation: Sizes, results: Sizes, source: Sizes,
    target: Sizes, channels: Sizes, outputs: Sizes,
) -> Geometry:  # fmt: skip
    """With one axis, the image is a single row."""
    if len(image) == 1:
        image, taps, results, stride, dilation = ((1, *sizes) for sizes in (image, taps, results, stride, dilation))
        start, source, target = ((0, *sizes) for sizes in (start, source, target))
    return Geometry(image, taps, start, stride, dilation, results, source, target, channels, outputs)


class Filter(NamedTuple):
    """Windows of one layout of arrays, and which of their items have which filter."""

    way: Windows | LineWindows
    items: Array
    bounds: Sizes


def filter_windows(x: Array, taps: Array, out: Array, extent: Extent, workers: int) -> None:
    """The convolution along the last axes by circular ones."""
    x = _readable(x if x.dtype == out.dtype else x.astype(out.dtype), True)
    filters = np.ascontiguousarray(taps, out.dtype).reshape(-1, *extent.taps)
    plan = _filter_of_windows(x.shape, x.strides, taps.shape, out.shape, out.strides, out.dtype.char, extent)
    if isinstance(plan.way, LineWindows):
        _filter_lines(plan.way, x, filters, out, plan, workers)
    else:
        _filter_images(plan.way, x, filters, out, plan, workers)


@lru_cache(maxsize=512)
def _filter_of_windows(
    shape: Sizes, strides: Sizes, taps: Sizes, results: Sizes, target: Sizes, char: str, extent: Extent
) -> Filter:
    d, real = len(extent.lengths), host.REAL[char]
    item, batch = host.ITEM_BYTES[real], results[:-d]
    way = windows(extent, _numbers(strides[-d:], item), _numbers(target[-d:], item), real, host.NUMBERS[char] == 2)
    source = _strides(shape[:-d], strides[:-d], item)
    return Filter(way, *_by_filter(batch, source, _number_strides(taps[:-d]), _strides(batch, target[:-d], item)))


def _filter_lines(way: LineWindows, x: Array, filters: Array, out: Array, plan: Filter, workers: int) -> None:
    items, bounds = plan.items, plan.bounds
    length, halved = way.lines.n, out.dtype.kind == "f"
    wide = np.complex128 if not halved else np.float64
    spectra = (np.fft.rfft if halved else np.fft.fft)(filters.astype(wide), length)
    lanes = way.lines.lanes
    source, target = workspace.address(x), workspace.address(out)

    def one(number: int, threads: int) -> None:
        count = (bounds[number + 1] - bounds[number]) * way.count
        fields = _Fields(way.fields, w.ITEMS, items[bounds[number] :])
        transfer = way.lines.transfer(spectra[number])

        def some(first: int, last: int) -> None:
            memory = workspace.take(way.memory)
            stop = min(last * lanes, count)
            way.kernel(fields.address, source, workspace.address(transfer), target, memory.address, first * lanes, stop)
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


def _filter_images(way: Windows, x: Array, filters: Array, out: Array, plan: Filter, workers: int) -> None:
    items, bounds = plan.items, plan.bounds
    size = filters[0].size * (2 if out.dtype.kind == "c" else 1)
    few = max(1, FILTERS_BYTES // way.filter_bytes)
    source, target = workspace.address(x), workspace.address(out)
    for begin in range(0, len(filters), few):
        chosen = filters[begin : begin + few]
        count = len(chosen)
        places = np.zeros((count, w.ITEM_FIELDS), np.int64)
        places[:, w.ITEM_SOURCE] = np.arange(count) * size
        reading = _Fields(way.filters.fields, w.ITEMS, places)

        def arrange(
            address: int, fields: int = reading.address, taps: int = workspace.address(chosen), count: int = count
        ) -> None:
            def some(first: int, last: int) -> None:
                memory = workspace.take(way.memory)
                way.filters_kernel(fields, taps, workspace.address(way.scale), address, memory.address, first, last)
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
    x = _readable(x, False)
    groups, outputs = weight.shape[:2]
    weights = _weights(x.dtype.kind == "c", weight.reshape(groups, outputs, 1, -1))
    weights = weights.reshape(groups, -1, weights.shape[-1])
    count = weights.shape[1]
    if count > FEW_OUTPUTS:
        padded = np.zeros((groups, _up(count), weights.shape[-1]), weights.dtype)
        padded[:, :count] = weights
        weights = np.ascontiguousarray(padded.reshape(groups, -1, s.OUTPUTS, weights.shape[-1]).swapaxes(-1, -2))
    chars = x.dtype.char, weight.dtype.char, out.dtype.char
    plan = _sum_of_channels(
        x.shape, x.strides, weight.shape, out.shape, out.strides, chars, start, tuple(stride), tuple(dilation)
    )
    _run(plan, x, weights, out, workers)


def _up(outputs: int) -> int:
    return -(-outputs // s.OUTPUTS) * s.OUTPUTS


@lru_cache(maxsize=512)
def _sum_of_channels(
    shape: Sizes, strides: Sizes, weight: Sizes, results: Sizes, target: Sizes, chars: tuple[str, str, str],
    start: Sizes, stride: Sizes, dilation: Sizes,
) -> Sum:  # fmt: skip
    real = host.REAL[chars[2]]
    item = host.ITEM_BYTES[real]
    _, outputs, channels, *taps = weight
    parts, offsets = _parts(chars[0], chars[1])
    source, place = _strides(shape, strides, item), _strides(results, target, item)
    size = len(parts) * channels * math.prod(taps)
    summed = tuple(part + channel * source[2] for part in parts for channel in range(channels))
    places = tuple(output * place[2] + part for output in range(outputs) for part in range(host.NUMBERS[chars[1]]))
    sources = tuple(source for source, number, _ in offsets if number == 0)
    few = len(places) <= FEW_OUTPUTS
    geometry = _geometry(
        shape[-2:], tuple(taps), start, stride, dilation, results[-2:], _numbers(strides[-2:], item),
        _numbers(target[-2:], item), summed, (0,) if few else places,
    )  # fmt: skip
    if few:
        each = tuple((part, i * size, part + output) for part in sources for i, output in enumerate(places))
        shared, filters = len(places), len(places) * size
    else:
        each = tuple((part, 0, part) for part in sources)
        shared, filters = 1, _up(len(places)) * size
    return _sum(geometry, shared, real, _items(results[:2], source[:2], (0, filters), place[:2], each))


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
    source, target = _strides(x.shape, x.strides, item), _strides(out.shape, out.strides, item)
    taps = _strides(weight.shape, weight.strides, item)
    share = outputs_together(inputs, outputs, extent.lengths, item, host.lanes(real))
    for begin in range(0, outputs, share):
        mine, results = weight[begin : begin + share], out[:, begin : begin + share]
        count = mine.shape[0]
        places = source[1:3], (target[1], *_numbers(out.strides[-2:], item)), (taps[0], taps[2])
        way = tiles(extent, inputs, count, *places, real)
        lease = prepared.tiles(way, mine, way.factor_bytes, _weights_to(way, mine, workers))
        items = np.zeros((x.shape[0], t.ITEM_FIELDS), np.int64)
        items[:, t.ITEM_SOURCE] = np.arange(x.shape[0]) * source[0]
        items[:, t.ITEM_TARGET] = np.arange(x.shape[0]) * target[0]
        fields = _Fields(way.fields, t.ITEMS, items)
        arguments = (fields.address, workspace.address(x), lease.buffer.address, workspace.address(results))

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
            arguments = fields.address, workspace.address(weight), workspace.address(way.scale), address
            way.weights_kernel(*arguments, memory.address, first, last)
            workspace.give_back(memory)

        workspace.run(some, inputs, workers)

    return arrange
