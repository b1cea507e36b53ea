"""The kernels of filters of which each transform has its own: rows side by side in the lanes, and images.

A row's factors are transposed into the lanes as the row itself is, so that rows with different filters share vectors.
An image's filter is laid out just before its image, and stays for those that follow with the same one.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector import layout, natural
from spectralops._cpu.vector.emit import Emitter, Value, at, call, floats, integers, lanes, shift, vector_op
from spectralops._cpu.vector.fields import (
    ARRANGE,
    COLUMN_FORWARD,
    COLUMN_INVERSE,
    COLUMN_LENGTH,
    COLUMN_PLAN,
    COLUMN_POSITION,
    COLUMN_ROOTS,
    COLUMN_TWIDDLES,
    COLUMNS,
    COLUMNS_IN,
    COLUMNS_OUT,
    COMPLEX,
    EVEN,
    FILTER_JOB,
    INNER,
    INNER_COUNT,
    PART_BLOCKS,
    SCALE,
    UNITS,
    ZERO,
)
from spectralops._cpu.vector.spectra import Complex, load_pair, passed_through, place_of, store_pair, times

__all__ = ["filter_each_complex", "filter_each_even", "filter_each_zero", "images_each"]


@vector_op
def pick_rows(e: Emitter, array: Value, places: Value, rows: Value, count: Value, scale: Value, group: Value) -> None:
    """Transpose up to `lanes` rows of `count` complex numbers, which begin at `places`, scaled, into a group."""

    def tile(column: Value, left: list[Any]) -> None:
        unit = e.broadcast(scale, 0)
        parts = [natural.read(e, array, e.integer(places, r) + column * 2, left[r]) for r in range(e.lanes)]
        reals, imags = (e.transpose([part[i] for part in parts]) for i in range(2))
        for j, (real, imag) in enumerate(zip(reals, imags, strict=True)):
            store_pair(e, group, (column + j) * (2 * e.lanes), e.lanes, (real * unit, imag * unit))

    natural.row_tiles(e, rows, count, tile)


def _factor(e: Emitter, factors: Value, k: Value) -> Complex:
    return load_pair(e, factors, k * (2 * e.lanes), e.lanes)


@vector_op
def through_own_half(e: Emitter, group: Value, position: Value, roots: Value, n: Value, factors: Value) -> None:
    """A group of kind even through a half spectrum of factors in each lane: see `tables.half_transfer`."""
    half = n // 2
    low, high = e.load(factors, 0), e.load(factors, half * (2 * e.lanes))
    mean, apart = low + high, low - high
    real, imag = load_pair(e, group, e.constant(0), e.lanes)
    store_pair(e, group, e.constant(0), e.lanes, (mean * real + apart * imag, mean * imag + apart * real))
    with e.loop(1, half // 2 + 1) as k:
        h, g = _factor(e, factors, k), _factor(e, factors, half - k)
        total, difference = (h[0] + g[0], h[1] - g[1]), (h[0] - g[0], h[1] + g[1])
        cosine, sine = e.broadcast(roots, k * 2), -e.broadcast(roots, k * 2 + 1)
        turned = difference[0] * sine, difference[1] * sine
        own, opposite = (total[0] - turned[0], total[1] - turned[1]), (total[0] + turned[0], total[1] + turned[1])
        across = -(difference[1] * cosine), difference[0] * cosine
        passed_through(e, group, place_of(e, position, k), place_of(e, position, half - k), own, across, opposite)


@vector_op
def through_own_odd(e: Emitter, group: Value, position: Value, roots: Value, n: Value, factors: Value) -> None:
    """A complex group of real numbers, n odd, through a half spectrum of factors in each lane."""
    real, imag = load_pair(e, group, e.constant(0), e.lanes)
    mean = e.load(factors, 0)
    store_pair(e, group, e.constant(0), e.lanes, (mean * real, mean * imag))
    with e.loop(1, (n + 1) // 2) as k:
        h = _factor(e, factors, k)
        for place, factor in ((place_of(e, position, k), h), (place_of(e, position, n - k), (h[0], -h[1]))):
            store_pair(e, group, place, e.lanes, times(load_pair(e, group, place, e.lanes), factor))


@vector_op
def through_own_full(e: Emitter, group: Value, position: Value, roots: Value, n: Value, factors: Value) -> None:
    """A complex group through a spectrum of factors in each lane."""
    with e.loop(0, n) as k:
        place = place_of(e, position, k)
        store_pair(e, group, place, e.lanes, times(load_pair(e, group, place, e.lanes), _factor(e, factors, k)))


def _filter_each(kind: str, through: Any) -> Any:
    gather, scatter = layout.row_gatherer(kind), layout.row_scatterer(kind)
    full = kind == COMPLEX

    def filter_each(
        job: Any, source: Any, source_step: Any, target: Any, target_step: Any, transfer: Any, places: Any, scale: Any,
        group: Any, factors: Any, first: Any, last: Any,
    ) -> None:  # fmt: skip
        """Rows first … last, each with the factors that begin at its place."""
        length = at(job, COLUMN_LENGTH)
        plan = integers(at(job, COLUMN_PLAN))
        twiddles = floats(at(job, COLUMN_TWIDDLES), source)
        position = integers(at(job, COLUMN_POSITION))
        roots = floats(at(job, COLUMN_ROOTS), source)
        count = length if full else length // 2 + 1
        for row in range(first, last, lanes(source)):
            here, there = shift(source, row * source_step), shift(target, row * target_step)
            pick_rows(transfer, shift(places, row), last - row, count, scale, factors)
            gather(here, source_step, 0, last - row, at(job, COLUMNS), group)
            call(at(job, COLUMN_FORWARD), (group, plan, twiddles))
            through(group, position, roots, length, factors)
            call(at(job, COLUMN_INVERSE), (group, plan, twiddles))
            scatter(there, target_step, 0, last - row, at(job, COLUMNS), group)

    return filter_each


filter_each_even = _filter_each(EVEN, through_own_half)
filter_each_zero = _filter_each(ZERO, through_own_odd)
filter_each_complex = _filter_each(COMPLEX, through_own_full)


def images_each(
    job: Any, items: Any, source: Any, source_step: Any, target: Any, target_step: Any, transfer: Any, tiles: Any,
    spectrum: Any, work: Any, scratch: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """Items first … last: the number of an image and where its filter begins, those with the same one together."""
    fields, scale = integers(at(job, FILTER_JOB)), floats(at(job, SCALE), source)
    for number in range(first, last):
        image, place = at(items, 2 * number), at(items, 2 * number + 1)
        if number == first or place != at(items, 2 * number - 1):
            call(at(job, ARRANGE), (fields, shift(transfer, place), scale, tiles, 0, at(job, PART_BLOCKS)))
        here, there = shift(source, image * source_step), shift(target, image * target_step)
        call(at(job, COLUMNS_IN), (job, here, spectrum, scratch, 0, at(job, UNITS)))
        call(at(job, INNER), (job, spectrum, tiles, work, scratch, 0, at(job, INNER_COUNT)))
        call(at(job, COLUMNS_OUT), (job, spectrum, there, scratch, 0, at(job, UNITS)))
