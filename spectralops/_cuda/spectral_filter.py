"""Filters on the device: transforms, multiplier and inverse transforms in kernels of our own.

One axis: one kernel, or two where a line is too long for a block. Small real images: one kernel, a block per image.
Else: the last axis forward, the others forward, the first one forward, multiplied and back in one kernel, and the same
backwards. The spectrum of a real image lies packed in the memory of the result where its rows pair up, so that nothing
else is allocated.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch, module
from spectralops._cuda.geometry import (
    BYTES,
    COLUMNS,
    FACTOR,
    FILTER,
    MOST_FACTORS,
    PAD,
    REALS,
    SHARED_BYTES,
    Lines,
    columns_form,
    columns_kernel,
    itemsize_of,
    kept_on_device,
    namespace,
    present_shared_bytes,
    required,
    row_geometry,
    rows_kernel,
    stored_as,
    unfit,
    usable,
    words,
)
from spectralops._cuda.launch import Kernel, Runner
from spectralops._cuda.passes import Chirp
from spectralops._cuda.planes import Plane, filter_kernel, plane_geometry, plane_kernel
from spectralops._cuda.program import Address, Program, address
from spectralops._cuda.spread import Spread, columns_in_clusters, lines_in_clusters, spread_columns, spread_lines

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["algorithm", "refusal", "spectral_filter"]

# Scratch memory that a batch may take before it is cut into slices. Cutting it so that the spectrum stays in cache does
# not pay: small launches leave multiprocessors idle at their ends.
SPACE_BYTES = 256 * 2**20
# Lines from this length on are done in the order of the filters that they share.
LONG_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """How a plan's arrays are transformed: the trailing axes of [batch][sizes], in the form of the last axis."""

    form: str
    sizes: tuple[int, ...]
    batch: int
    reals: tuple[str, str]  # C++ types of the values in memory and of the arithmetic
    row: Lines
    columns: tuple[Lines, ...]  # first axis, then the middle one
    plane: Plane | None = None  # how one block transforms the last two axes
    halves: bool = False  # whether two blocks share a line, of which `row` transforms half
    spread: Spread | None = None  # how clusters transform lines, or the first of several axes

    @property
    def itemsize(self) -> int:
        """Bytes of a number of the arithmetic."""
        return BYTES[self.reals[1]]

    @property
    def value_bytes(self) -> int:
        """Bytes of a value in memory: two real ones, or one complex one."""
        return BYTES[self.reals[0]] * (2 if self.form == "FULL" else 1)

    @property
    def narrow(self) -> bool:
        """Whether values lie in memory in 16 bits, where their spectrum has no room."""
        return self.reals[0] != self.reals[1]

    @property
    def stored(self) -> int:
        """Coefficients of a row that are distinct."""
        return self.sizes[-1] if self.form == "FULL" else self.sizes[-1] // 2 + 1

    @property
    def scale(self) -> float:
        """What the inverse that follows the multiplier scales by; both rows come out of a pair's symmetry twice.

        A packed real line has half as many points, and comes out of its filter twice.
        """
        return (0.5 if self.form == "PAIRS" and self.columns else 1.0) / math.prod(self.sizes)


def _layout(plan: SpectralFilterPlan, shared_bytes: int = SHARED_BYTES) -> Layout | str:
    """The layout of a plan, or in words why there is none."""
    sizes, real = plan.sizes, plan.grid.halved
    if reason := unfit(sizes):
        return reason
    itemsize = itemsize_of(plan)
    reals = stored_as(plan), REALS[itemsize]
    last = sizes[-1]
    if len(sizes) == 1:
        form = "FULL" if not real else "PAIRS" if last % 2 == 0 else "HALF"
        row = row_geometry(last // 2 if form == "PAIRS" else last, itemsize, shared_bytes, mirrored=form == "PAIRS")
        if form == "HALF" and row is not None and isinstance(row.passes, Chirp) and _one_for_all(plan):
            form = "SPLIT"
        long = row is None and form == "PAIRS" and not plan.padded
        if long and (found := spread_lines(last // 2, itemsize, shared_bytes)) is not None:
            return Layout(form, sizes, plan.batch, reals, found.lines, (), spread=found)
        halves = long and last % 4 == 0
        if halves:
            row = row_geometry(last // 4, itemsize, shared_bytes)
        if row is None:
            return f"length {last} does not fit a block"
        return Layout(form, sizes, plan.batch, reals, row, (), None, halves)
    row = row_geometry(last, itemsize, shared_bytes)
    if row is None:
        return f"length {last} does not fit a block"
    formed = columns_form(sizes, itemsize, real, shared_bytes)
    if isinstance(formed, str):
        return formed
    form, columns = formed
    spread = spread_columns(sizes[0], columns[0], itemsize, shared_bytes)
    plane = None
    if form == "PAIRS" and not plan.padded:
        plane = plane_geometry(sizes[-2:], last // 2 + 1, itemsize, shared_bytes)
    if plane is None:
        return Layout(form, sizes, plan.batch, reals, row, columns, spread=spread)
    columns = (*columns[:-1], Lines(plane.column, 1))
    return Layout(form, sizes, plan.batch, reals, Lines(plane.row, 1), columns, plane, spread=spread)


def _one_for_all(plan: SpectralFilterPlan) -> bool:
    """Whether all transforms of a batch have the same filter."""
    rank = len(plan.in_shape)
    shapes = [(1,) * (rank - len(each.spec.shape)) + each.spec.shape for each in plan.operands[1:]]
    return all(shape[axis] == 1 for shape in shapes for axis in range(rank) if axis not in plan.axes)


def refusal(plan: SpectralFilterPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    layout = _layout(plan, present_shared_bytes())
    return layout if isinstance(layout, str) else ""


def algorithm(plan: SpectralFilterPlan) -> str:
    """How this plan runs, in words."""
    layout = required(plan, _layout(plan, present_shared_bytes()))
    radices = words((*layout.columns, layout.row))
    clusters = ""
    if layout.spread is not None:
        radices = " x ".join([layout.spread.words, *radices.split(" x ")[1:]])
        clusters = f" in clusters of {layout.spread.parts} blocks"
    if layout.plane is not None and len(layout.sizes) == 2:
        return f"one kernel, a block per image: forward, product and inverse in shared memory, radices {radices}"
    if layout.plane is not None:
        return (
            "3 kernels: the last two axes of an image in a block, forward, product and inverse along the first axis"
            f"{clusters}, the last two back; half of the spectrum in a workspace; radices {radices}"
        )
    if layout.halves:
        return (
            "2 kernels for some lines at a time: even and odd wavenumbers of a line in two blocks, forward, product "
            f"and inverse in registers and shared memory, radices {radices}; their sums and differences"
        )
    if not layout.columns:
        lines = {"SPLIT": ", two real lines as one complex line"}.get(layout.form, clusters)
        return f"one kernel: forward, product and inverse in registers and shared memory{lines}, radices {radices}"
    place = "a workspace" if plan.padded or layout.narrow else "the result's own memory"
    form = {
        "PAIRS": f"two real rows as one complex row, the spectrum in {place}",
        "HALF": "real rows one by one, half of their spectrum in a workspace",
        "FULL": "complex rows",
    }[layout.form]
    count = 2 * len(layout.sizes) - 1
    return (
        f"{count} kernels, the middle one forward, product and inverse along the first axis{clusters}; {form}; "
        f"radices {radices}"
    )


def spectral_filter(plan: SpectralFilterPlan, x: Any, *operands: Any, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    runner = launch.runner(plan.op, out)
    symbol = operands if plan.transfer is None else _on_device(plan, namespace(out), runner)
    ready = _ready(plan, symbol, runner, out)
    if ready.expand:
        symbol = tuple(_expanded(plan, value, out) for value in symbol)
    if any(address(value) % value.itemsize for value in symbol):
        symbol = tuple(value.copy() for value in symbol)
        ready = _ready(plan, symbol, runner, out)
    alignment = 2 * BYTES[ready.layout.reals[0]]
    if not ready.moved and address(out) % alignment == 0:
        ready.run(runner, usable(x, alignment), symbol, out)
        return
    xp = namespace(out)
    last = tuple(range(x.ndim - len(plan.axes), x.ndim))
    field = usable(xp.moveaxis(x, plan.axes, last), alignment)
    result = xp.empty(field.shape, out.dtype)
    ready.run(runner, field, symbol, result)
    out[...] = xp.moveaxis(result, last, plan.axes)


_symbols: OrderedDict[tuple[Any, ...], tuple[Any, ...]] = OrderedDict()
_symbols_lock = Lock()
KEPT_SYMBOLS = 32


def _on_device(plan: SpectralFilterPlan, xp: Any, runner: Runner) -> tuple[Any, ...]:
    """The sampled symbol on the device: kept for the package's own transfers, copied at each call for others."""
    if not _from_package(plan) or xp is np:
        if xp is not np:
            module.warm("what a function of the caller's returns, sampled at every call,")
        return tuple(xp.asarray(value) for value in _few(plan.symbol()))
    key = (plan.transfer, plan.grid, plan.compute_dtype, runner.device().index)
    with _symbols_lock:
        found = _symbols.get(key)
        if found is None:
            found = _symbols[key] = kept_on_device(_few(plan.symbol()), xp)
            while len(_symbols) > KEPT_SYMBOLS:
                _symbols.popitem(last=False)
        else:
            _symbols.move_to_end(key)
    return found


def _few(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """No more factors than the kernels multiply; the product of the last ones where a caller's function gives more."""
    first, rest = values[: MOST_FACTORS - 1], values[MOST_FACTORS - 1 :]
    return values if len(rest) <= 1 else (*first, math.prod(rest[1:], start=rest[0]))


def _from_package(plan: SpectralFilterPlan) -> bool:
    """Whether the symbol is one of the package's own transfers, which are values."""
    return type(plan.transfer).__module__.startswith("spectralops.")


def _expanded(plan: SpectralFilterPlan, value: Any, out: Any) -> Any:
    """A factor with every axis before the transformed ones in full."""
    xp = namespace(out)
    shape = list(plan.spectrum_shape)
    padded = (1,) * (len(shape) - value.ndim) + value.shape
    for axis in plan.axes:
        shape[axis] = padded[axis]
    return xp.ascontiguousarray(xp.broadcast_to(value, shape))


@dataclass(frozen=True, slots=True)
class Factor:
    """Strides of a factor in elements: (b % period) * batch is where transform b finds its values."""

    is_complex: bool
    batch: int
    period: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, plan: SpectralFilterPlan, value: Any) -> Factor | None:
        """The strides of an array, None where transforms of a batch find their values by no such rule."""
        rank, d = len(plan.in_shape), len(plan.axes)
        missing = rank - value.ndim
        shape = (1,) * missing + value.shape
        strides = (0,) * missing + tuple(
            0 if n == 1 else s // value.itemsize for n, s in zip(value.shape, value.strides, strict=True)
        )
        lead = [axis for axis in range(rank) if axis not in plan.axes]
        period, step = 1, 0
        for axis in reversed(lead):
            if shape[axis] == 1 and plan.in_shape[axis] > 1:
                if any(shape[outer] > 1 for outer in lead[: lead.index(axis)]):
                    return None
                break
            if shape[axis] > 1:
                if period > 1 and strides[axis] != step * period:
                    return None
                step = step if period > 1 else strides[axis]
                period *= shape[axis]
        along = tuple(strides[axis] for axis in plan.axes)
        # The transform that multiplies runs along the first axis; the others number the columns.
        along = {1: (*along, 0, 0), 2: (along[0], 0, along[-1]), 3: along}[d]
        return cls(np.dtype(value.dtype).kind == "c", step, period, along)


class Prepared:
    """The program of a plan for factors of given strides."""

    def __init__(self, plan: SpectralFilterPlan, symbol: tuple[Any, ...], device: launch.Device, xp: Any) -> None:
        layout = required(plan, _layout(plan, device.shared_bytes))
        self.plan, self.layout = plan, layout
        self.shared_bytes, self.multiprocessors = device.shared_bytes, device.multiprocessors
        rank, d = len(plan.in_shape), len(plan.axes)
        self.moved = plan.axes != tuple(range(rank - d, rank))
        found = [Factor.of(plan, value) for value in symbol]
        self.expand = any(factor is None for factor in found)
        if self.expand:
            values = [np.broadcast_to(np.empty((), value.dtype), value.shape) for value in symbol]
            found = [Factor.of(plan, _expanded(plan, value, value)) for value in values]
        self.factors = [factor for factor in found if factor is not None]
        self.space_bytes = 0
        self.program = Program()
        _Builder(self).build()
        kind = np.complex64 if layout.itemsize == 4 else np.complex128
        self.tables = kept_on_device([table.astype(kind) for table in self.host_tables(layout)], xp)
        self.table_addresses = [address(table) for table in self.tables]

    def host_tables(self, layout: Layout) -> list[Any]:
        """Twiddle factors of the axes in order; the inverse that follows the multiplier also scales."""
        if layout.halves:
            n = layout.sizes[-1] // 2
            roots = np.exp(-1j * np.pi * np.arange(n) / n)
            return [np.concatenate([layout.row.passes.table(layout.scale, False), roots])]
        if not layout.columns and layout.spread is not None:
            return [layout.spread.table(layout.scale, True)]
        if not layout.columns:
            return [layout.row.passes.table(layout.scale, layout.form == "PAIRS")]
        first = [each.passes.table(1.0 if j else layout.scale, False) for j, each in enumerate(layout.columns)]
        if layout.spread is not None:
            first[0] = layout.spread.table(layout.scale, False)
        return [*first, layout.row.passes.table(1.0, False)]

    def run(self, runner: Runner, x: Any, symbol: tuple[Any, ...], out: Any) -> None:
        space = runner.workspace(self.space_bytes) if self.space_bytes else None
        place = 0 if space is None else address(space)
        self.program.run(runner, [address(x), address(out), place, *self.table_addresses, *map(address, symbol)])


# Programs by plan and by the strides of the factors.
_prepared: OrderedDict[Any, Prepared] = OrderedDict()
KEPT_PROGRAMS = 256


def _ready(plan: SpectralFilterPlan, symbol: tuple[Any, ...], runner: Runner, out: Any) -> Prepared:
    device = runner.device()
    key: Any = (id(plan), device.index, tuple([value.strides for value in symbol]))
    if plan.transfer is not None and not _from_package(plan):
        # Plans with a caller's function are made anew at each call, and the function must not live on here. What it
        # returns may differ from call to call.
        plan = replace(plan, transfer=None)
        key = (plan, device.index, tuple([(value.shape, value.strides, value.dtype.kind) for value in symbol]))
    found = _prepared.get(key)
    if found is None or (found.plan is not plan and found.plan != plan):
        found = _prepared[key] = Prepared(plan, symbol, device, namespace(out))
        while len(_prepared) > KEPT_PROGRAMS:
            _prepared.popitem(last=False)
    return found


X, OUT, SPACE, TABLES = range(4)


class _Builder:
    """Writes the launches of one plan."""

    def __init__(self, prepared: Prepared) -> None:
        plan, layout = prepared.plan, prepared.layout
        self.prepared, self.layout = prepared, layout
        self.options = (launch.index_option(plan.index_bits),)
        self.real = layout.reals[1]
        self.complex_bytes = 2 * layout.itemsize
        self.kinds = "".join(
            f", Factor<{'true' if f.is_complex else 'false'}, {f.strides[0]}>" for f in prepared.factors
        )
        self.factors_at = TABLES + len(layout.sizes)
        d = len(layout.sizes)
        arguments = np.zeros(1, FILTER)
        for j, f in enumerate(prepared.factors):
            arguments["factors"][0, j] = (0, f.batch, f.period, *f.strides[1:])
        arguments["inner"] = layout.stored if d == 3 else 2**31 - 1
        arguments["scale"] = layout.scale
        arguments["sign"] = -1 if plan.conjugate else 1
        arguments["beside"], arguments["apart"] = self.order()
        self.arguments = arguments
        self.padding = {"zero": "ZERO", "reflect": "REFLECT", "edge": "EDGE"}[plan.pad_mode] if plan.padded else "BARE"
        own = tuple(plan.in_shape[axis] for axis in plan.axes)
        self.values = math.prod(own)  # of a transform in x and in the result
        pad = np.zeros(1, PAD)
        pad["size"] = pad["padded"] = 1
        pad["size"][0, 3 - d :], pad["padded"][0, 3 - d :] = own, layout.sizes
        pad["before"][0, 3 - d :] = [before for before, _ in plan.pad]
        self.pad = pad

    def order(self) -> tuple[int, int]:
        """How many lines with the same values of the filter follow one another, and their distance in memory.

        So long lines find values in cache that are as many as theirs; short ones are read in the order of memory.
        """
        layout = self.layout
        periods = {factor.period for factor in self.prepared.factors} - {1}
        if len(periods) != 1 or layout.columns or layout.sizes[-1] * layout.value_bytes < LONG_BYTES:
            return 1, 1
        (period,) = periods
        return layout.batch // period, period

    def filter_addresses(self, argument: int) -> dict[tuple[int, int], Address]:
        words = FACTOR.itemsize // 8
        return {(argument, words * j): Address(self.factors_at + j) for j in range(len(self.prepared.factors))}

    def rows(self, name: str, source: Address, target: Address, lines: int, fused: bool = False) -> None:
        form, n, row = self.layout.form, self.layout.sizes[-1], self.layout.row
        kept = {"HALF": n // 2 + 1, "FULL": n}.get(form, 0)
        more = self.kinds if fused else ""
        reals = self.layout.reals
        kernel = rows_kernel(name, reals, form, (kept, 0), row, lines, self.options, self.padding, more)
        table = self.table(len(self.layout.sizes) - 1, name == "rows_inverse")
        arguments = (source, target, table, np.int64(lines), self.pad, *([self.arguments] if fused else []))
        self.prepared.program.add(kernel, *arguments, inner=self.filter_addresses(5) if fused else None)

    def halves(self) -> None:
        """Lines of which one block transforms half."""
        layout, program = self.layout, self.prepared.program
        half, passes = layout.sizes[-1] // 4, layout.row.passes
        reals = ", ".join(layout.reals)
        name = f"halves_filter<{reals}, {passes.threads}, {passes.expression}{self.kinds}>"
        shared, threads = passes.padded * self.complex_bytes, 256
        # As many lines at a time as fill the device twice, so that their halves are joined while in cache.
        at_once = self.prepared.multiprocessors
        if layout.narrow:
            self.prepared.space_bytes = min(at_once, layout.batch) * 2 * half * self.complex_bytes
        for start in range(0, layout.batch, at_once):
            count = min(at_once, layout.batch - start)
            shift = start * 4 * half * layout.value_bytes
            apart = Address(SPACE) if layout.narrow else Address(OUT, shift)
            self.arguments["first"] = start
            kernel = Kernel("halves.cu", name, (2 * count,), (passes.threads,), shared, self.options)
            arguments = (Address(X, shift), apart, Address(TABLES), self.arguments)
            program.add(kernel, *arguments, inner=self.filter_addresses(3))
            sums = half * count
            grid = (-(-sums // threads),)
            kernel = Kernel("halves.cu", f"halves_join<{reals}>", grid, (threads,), 0, self.options)
            program.add(kernel, apart, Address(OUT, shift), np.int64(sums), np.int64(half))

    def planes(self, name: str, source: Address, target: Address, count: int) -> None:
        """The last two axes at once."""
        plane = self.layout.plane
        assert plane is not None
        kept = (self.layout.sizes[-2], 0)
        kernel = plane_kernel(name, self.layout.reals, plane, kept, count, self.prepared.shared_bytes, self.options)
        tables = [self.table(axis, name == "planes_inverse") for axis in (2, 1)]
        self.prepared.program.add(kernel, source, target, *tables)

    def table(self, axis: int, backwards: bool) -> Address:
        """Twiddle factors along an axis."""
        row = self.layout.row if axis == len(self.layout.sizes) - 1 else self.layout.columns[axis]
        return Address(TABLES + axis, row.passes.reversed_at * self.complex_bytes if backwards else 0)

    def columns(
        self,
        mode: str,
        axis: int,
        source: tuple[Address, str, int],
        target: tuple[Address, str, int],
        planes: int,
        geometry: tuple[int, ...],
    ) -> None:
        """`source` and `target`: address, form and distance between the elements of a column."""
        spread, more = self.layout.spread, self.kinds if mode == "FILTER" else ""
        blocks = planes, geometry[0]
        if mode == "FILTER" and spread is not None:
            kernel = columns_in_clusters(spread, self.real, *source[1:], blocks, self.options, more)
        else:
            kept, column = (self.layout.sizes[axis], 0), self.layout.columns[axis]
            ends = source[1:], target[1:]
            kernel = columns_kernel(mode, self.real, *ends, kept, column, blocks, self.options, more)
        self.prepared.program.add(
            kernel,
            source[0],
            target[0],
            self.table(axis, mode == "INVERSE"),
            np.array([geometry], COLUMNS),
            self.arguments,
            inner=self.filter_addresses(4) if mode == "FILTER" else None,
        )

    def build(self) -> None:
        layout = self.layout
        if layout.halves:
            self.halves()
            return
        if layout.spread is not None and not layout.columns:
            kernel = lines_in_clusters(layout.spread, layout.reals, layout.batch, self.options, self.kinds)
            arguments = (Address(X), Address(OUT), Address(TABLES), self.arguments)
            self.prepared.program.add(kernel, *arguments, inner=self.filter_addresses(3))
            return
        if len(layout.sizes) == 1:
            name = "twos_filter" if layout.form == "SPLIT" else "rows_filter"
            self.rows(name, Address(X), Address(OUT), layout.batch, fused=True)
            return
        if layout.plane is not None and len(layout.sizes) == 2:
            kernel = filter_kernel(
                layout.reals, layout.plane, layout.batch, self.prepared.shared_bytes, self.options, self.kinds
            )
            tables = [self.table(axis, False) for axis in (1, 0)]
            inner = self.filter_addresses(4)
            self.prepared.program.add(kernel, Address(X), Address(OUT), *tables, self.arguments, inner=inner)
            return
        one = math.prod(layout.sizes[:-1]) * layout.stored * self.complex_bytes
        # The packed spectrum fits into the result unless that is smaller; the one between the axes needs its own place.
        packed = (layout.form == "HALF" or self.padding != "BARE" or layout.narrow) and layout.plane is None
        whole = layout.form == "PAIRS" and len(layout.sizes) == 3
        each = one * (packed + whole)
        at_once = max(1, SPACE_BYTES // each) if each else layout.batch
        at_once = -(-layout.batch // -(-layout.batch // at_once))
        self.prepared.space_bytes = at_once * each
        for start in range(0, layout.batch, at_once):
            shift = start * self.values * layout.value_bytes
            out = Address(OUT, shift)
            first = Address(SPACE) if packed else out
            second = Address(SPACE, at_once * one * packed) if whole else first
            self.slice(start, min(at_once, layout.batch - start), Address(X, shift), first, second, out)

    def slice(self, start: int, count: int, x: Address, packed: Address, whole: Address, out: Address) -> None:
        layout = self.layout
        form, sizes = layout.form, layout.sizes
        self.arguments["first"] = start
        rows = count * math.prod(sizes[:-1])
        lines = rows // 2 if form == "PAIRS" else rows
        k, row = layout.stored, sizes[-1]
        nyquist = row // 2 if row % 2 == 0 else 0
        outside = "PAIRS" if form == "PAIRS" else "FULL"
        pitch = row if form == "PAIRS" else k
        plane = sizes[-2] * pitch // (2 if form == "PAIRS" else 1)
        if layout.plane is not None:
            area = sizes[1] * k
            across = (whole, "FULL", area)
            self.planes("planes_forward", x, whole, count * sizes[0])
            self.columns("FILTER", 0, across, across, count, (area, sizes[0] * area, sizes[0] * area, 0, 0))
            self.planes("planes_inverse", whole, out, count * sizes[0])
            return
        self.rows("rows_forward", x, packed, lines)
        first = (packed, outside, pitch)
        if len(sizes) == 2:
            self.columns("FILTER", 0, first, first, count, (k, plane, plane, row, nyquist))
        else:
            planes, area = count * sizes[0], sizes[1] * k
            second = (whole, "FULL", k)
            across = (whole, "FULL", area)
            self.columns("FORWARD", 1, first, second, planes, (k, plane, area, row, nyquist))
            self.columns("FILTER", 0, across, across, count, (area, sizes[0] * area, sizes[0] * area, 0, 0))
            self.columns("INVERSE", 1, second, first, planes, (k, area, plane, row, nyquist))
        self.rows("rows_inverse", packed, out, lines)
