"""The kernels of circular convolution over channels, which are in the lanes: neither axis of a tile is transposed.

A tile is transposed once, from channels apart to channels side by side, transformed along rows and columns, multiplied
by a matrix over channels at each frequency, transformed back, and its valid part is transposed into the results. The
weights are transformed in the same way, output channels in the lanes, to [frequency][block of outputs][input].
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import layout
from spectralops._cpu.vector.emit import Emitter, Value, at, call, floats, integers, lanes, shift, vector_op
from spectralops._cpu.vector.fields import EVEN
from spectralops._cpu.vector.moves import Totals, move_row, smaller, zero_row
from spectralops._cpu.vector.spectra import retangle, untangle
from spectralops._cpu.vector.tile_fields import (
    ACROSS,
    ACROSS_TABLE,
    BLOCK_SIZE,
    COLUMN_FORWARD,
    COLUMN_INVERSE,
    COLUMN_PLAN,
    COLUMN_TWIDDLES,
    COLUMNS,
    DOWN,
    DOWN_TABLE,
    GROUP_SIZE,
    INPUTS,
    ITEM_FIELDS,
    ITEM_SOURCE,
    ITEM_TARGET,
    ITEMS,
    OUTPUTS,
    POSITION,
    ROOTS,
    ROW_FORWARD,
    ROW_INVERSE,
    ROW_PLAN,
    ROW_TWIDDLES,
    ROWS,
    SOURCE_CHANNEL,
    SOURCE_ROW,
    STEP_ACROSS,
    STEP_DOWN,
    STRIDE,
    TARGET_CHANNEL,
    TARGET_ELEMENT,
    TARGET_ROW,
    TILE_IN,
    TILE_OUT,
    TOGETHER,
    WEIGHTS,
)
from spectralops._cpu.vector.window_fields import (
    WINDOW_COUNT,
    WINDOW_FIELDS,
    WINDOW_FROM,
    WINDOW_HIGH,
    WINDOW_LOW,
    WINDOW_SOURCE,
    WINDOW_TARGET,
)

__all__ = ["filter_tiles", "tile_in", "tile_out", "tile_weights"]

# Tiles whose sums the registers hold: a real and an imaginary part each.
TILES = 4

_gather = layout.row_gatherer(EVEN)
_scatter = layout.row_scatterer(EVEN)


@vector_op
def zero_places(e: Emitter, spectrum: Value, offset: Value, stride: Value, count: Value) -> None:
    """Complex zeros at `count` places, `stride` numbers apart."""
    with e.loop(0, count) as i:
        for part in range(2):
            e.store(spectrum, offset + i * stride + part * e.lanes, e.zero())


@vector_op
def scatter_scaled(
    e: Emitter,
    source: Value,
    between: Value,
    channels: Value,
    rows: Value,
    scale: Value,
    target: Value,
    distance: Value,
) -> None:
    """Rows of complex vectors times a number: channels `between` apart become neighbours, rows `distance` apart."""
    factor = e.broadcast(scale, 0)
    with e.loop(0, rows) as row, e.loop(0, channels) as channel:
        here = channel * between + row * (2 * e.lanes)
        there = row * distance + channel * (2 * e.lanes)
        for place in (0, e.lanes):
            e.store(target, there + place, e.load(source, here + place) * factor)


@vector_op
def mix_frequency(
    e: Emitter,
    x: Value,
    weights: Value,
    y: Value,
    inputs: Value,
    outputs: Value,
    tiles: Value,
    block: Value,
) -> None:
    """One frequency of some tiles: y = weights · x over blocks of input and output channels, `block` numbers apart."""
    last = tiles - 1
    x_tile = ((inputs + (e.lanes - 1)) // e.lanes) * block
    y_tile = ((outputs + (e.lanes - 1)) // e.lanes) * block
    with e.loop(0, tiles, TILES) as first:
        # Beyond the last tile, it is computed again: the same numbers, stored to the same place.
        numbers = [smaller(e, first + t, last) for t in range(TILES)]
        with e.loop(0, outputs, e.lanes) as output:
            sums = Totals(e, 2 * TILES)
            row = output * inputs * 2
            with e.loop(0, inputs, e.lanes) as base:
                here = (base // e.lanes) * block
                with e.loop(0, smaller(e, inputs - base, e.constant(e.lanes))) as lane:
                    factor = row + (base + lane) * (2 * e.lanes)
                    real, imag = e.load(weights, factor), e.load(weights, factor + e.lanes)
                    for t, number in enumerate(numbers):
                        place = number * x_tile + here + lane
                        a, b = e.broadcast(x, place), e.broadcast(x, place + e.lanes)
                        sums.set(2 * t, sums.get(2 * t) + real * a - imag * b)
                        sums.set(2 * t + 1, sums.get(2 * t + 1) + imag * a + real * b)
            for t, number in enumerate(numbers):
                place = number * y_tile + (output // e.lanes) * block
                e.store(y, place, sums.get(2 * t))
                e.store(y, place + e.lanes, sums.get(2 * t + 1))


def tile_in(job: Any, source: Any, spectrum: Any, group: Any, down: Any, across: Any, channels: Any) -> None:
    """Up to as many channels as lanes of one tile to their spectrum [column][row][real, imaginary][lane]."""
    rows, columns, stride = at(job, ROWS), at(job, COLUMNS), at(job, STRIDE)
    plan, twiddles = integers(at(job, ROW_PLAN)), floats(at(job, ROW_TWIDDLES), source)
    position, roots = integers(at(job, POSITION)), floats(at(job, ROOTS), source)
    width = lanes(source)
    low, high = at(across, WINDOW_LOW), at(across, WINDOW_HIGH)
    for row in range(rows):
        if at(down, WINDOW_LOW) <= row and row < at(down, WINDOW_HIGH) and low < high:
            place = (at(down, WINDOW_SOURCE) + row) * at(job, SOURCE_ROW) + at(across, WINDOW_SOURCE) + low
            zero_row(group, 0, low * width)
            _gather(shift(source, place), at(job, SOURCE_CHANNEL), 0, channels, high - low, shift(group, low * width))
            zero_row(group, high * width, columns * width)
            call(at(job, ROW_FORWARD), (group, plan, twiddles))
            untangle(group, position, roots, columns, spectrum, row * 2 * width, stride, width)
        else:
            zero_places(spectrum, row * 2 * width, stride, columns // 2 + 1)
    plan, twiddles = integers(at(job, COLUMN_PLAN)), floats(at(job, COLUMN_TWIDDLES), source)
    for column in range(columns // 2 + 1):
        call(at(job, COLUMN_FORWARD), (shift(spectrum, column * stride), plan, twiddles))


def tile_out(job: Any, spectrum: Any, target: Any, group: Any, down: Any, across: Any, channels: Any) -> None:
    """The spectrum of up to as many channels as lanes of one tile to those results that are wanted."""
    columns, stride = at(job, COLUMNS), at(job, STRIDE)
    plan, twiddles = integers(at(job, COLUMN_PLAN)), floats(at(job, COLUMN_TWIDDLES), target)
    for column in range(columns // 2 + 1):
        call(at(job, COLUMN_INVERSE), (shift(spectrum, column * stride), plan, twiddles))
    plan, twiddles = integers(at(job, ROW_PLAN)), floats(at(job, ROW_TWIDDLES), target)
    position, roots = integers(at(job, POSITION)), floats(at(job, ROOTS), target)
    width, step, element = lanes(target), at(job, STEP_ACROSS), at(job, TARGET_ELEMENT)
    first, count = at(across, WINDOW_FROM), at(across, WINDOW_COUNT)
    rest = shift(group, at(job, GROUP_SIZE))
    for i in range(at(down, WINDOW_COUNT)):
        row = at(down, WINDOW_FROM) + i * at(job, STEP_DOWN)
        retangle(group, position, roots, columns, spectrum, row * 2 * width, stride, width)
        call(at(job, ROW_INVERSE), (group, plan, twiddles))
        place = (at(down, WINDOW_TARGET) + i) * at(job, TARGET_ROW) + at(across, WINDOW_TARGET) * element
        wanted = shift(group, first * width)
        if step == 1 and element == 1:
            _scatter(shift(target, place), at(job, TARGET_CHANNEL), 0, channels, count, wanted)
        else:
            extent = (count - 1) * step + 1
            _scatter(rest, extent, 0, channels, extent, wanted)
            for channel in range(min(channels, width)):
                there = place + channel * at(job, TARGET_CHANNEL)
                move_row(rest, channel * extent, step, target, there, element, count)


def tile_weights(job: Any, source: Any, scale: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Input channels first … last of the weights, whose rows of tiles are output channels, to their factors."""
    inputs, outputs, width = at(job, INPUTS), at(job, OUTPUTS), lanes(source)
    blocks = (outputs + width - 1) // width
    distance = blocks * inputs * 2 * width
    between = at(job, BLOCK_SIZE)
    group = shift(memory, WEIGHTS * between)
    items = integers(at(job, ITEMS))
    down, across = integers(at(job, DOWN_TABLE)), integers(at(job, ACROSS_TABLE))
    for channel in range(first, last, WEIGHTS):
        count = min(WEIGHTS, last - channel)
        for block in range(blocks):
            for c in range(count):
                here = at(items, (channel + c) * ITEM_FIELDS + ITEM_SOURCE) + block * width * at(job, SOURCE_CHANNEL)
                spectrum = shift(memory, c * between)
                call(
                    at(job, TILE_IN),
                    (job, shift(source, here), spectrum, group, down, across, outputs - block * width),
                )
            place = (block * inputs + channel) * 2 * width
            for column in range(at(job, COLUMNS) // 2 + 1):
                scatter_scaled(
                    shift(memory, column * at(job, STRIDE)),
                    between,
                    count,
                    at(job, ROWS),
                    scale,
                    shift(target, column * at(job, ROWS) * distance + place),
                    distance,
                )


def filter_tiles(job: Any, source: Any, weights: Any, target: Any, memory: Any, first: Any, last: Any) -> None:
    """Tiles first … last of all items: a few at a time, so that the weights of a frequency serve them all."""
    inputs, outputs, width = at(job, INPUTS), at(job, OUTPUTS), lanes(source)
    block, stride, rows = at(job, BLOCK_SIZE), at(job, STRIDE), at(job, ROWS)
    x_tile, y_tile = (inputs + width - 1) // width * block, (outputs + width - 1) // width * block
    x, y = memory, shift(memory, at(job, TOGETHER) * x_tile)
    group = shift(y, at(job, TOGETHER) * y_tile)
    across, tiles = at(job, ACROSS), at(job, DOWN) * at(job, ACROSS)
    items = integers(at(job, ITEMS))
    down_table, across_table = integers(at(job, DOWN_TABLE)), integers(at(job, ACROSS_TABLE))
    factors = (outputs + width - 1) // width * inputs * 2 * width
    for start in range(first, last, at(job, TOGETHER)):
        count = min(at(job, TOGETHER), last - start)
        for t in range(count):
            number = start + t
            here = shift(source, at(items, number // tiles * ITEM_FIELDS + ITEM_SOURCE))
            down = shift(down_table, number % tiles // across * WINDOW_FIELDS)
            beside = shift(across_table, number % across * WINDOW_FIELDS)
            for channel in range(0, inputs, width):
                place = shift(x, t * x_tile + channel // width * block)
                begin = shift(here, channel * at(job, SOURCE_CHANNEL))
                call(at(job, TILE_IN), (job, begin, place, group, down, beside, inputs - channel))
        for column in range(at(job, COLUMNS) // 2 + 1):
            for row in range(rows):
                mode = column * stride + row * 2 * width
                matrix = shift(weights, (column * rows + row) * factors)
                mix_frequency(shift(x, mode), matrix, shift(y, mode), inputs, outputs, count, block)
        for t in range(count):
            number = start + t
            there = shift(target, at(items, number // tiles * ITEM_FIELDS + ITEM_TARGET))
            down = shift(down_table, number % tiles // across * WINDOW_FIELDS)
            beside = shift(across_table, number % across * WINDOW_FIELDS)
            for channel in range(0, outputs, width):
                place = shift(y, t * y_tile + channel // width * block)
                begin = shift(there, channel * at(job, TARGET_CHANNEL))
                call(at(job, TILE_OUT), (job, place, begin, group, down, beside, outputs - channel))
