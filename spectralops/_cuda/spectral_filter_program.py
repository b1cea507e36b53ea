"""The launches of a filter.

One axis: one kernel, or two where a line is too long for a block or the filter of many such lines is prepared. Small
real images: one kernel, a block per image.
Else: the last axis forward, the others forward, the first one forward, multiplied and back in one kernel, and the same
backwards. The spectrum of a real image lies packed in the memory of the result where its rows pair up, so that nothing
else is allocated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.geometry import (
    COLUMNS,
    FACTOR,
    FILTER,
    PAD,
    columns_kernel,
    kept_on_device,
    required,
    rows_kernel,
)
from spectralops._cuda.images import image_filter, image_kernel
from spectralops._cuda.launch import Kernel, Runner
from spectralops._cuda.passes import Cyclic
from spectralops._cuda.planes import filter_kernel, plane_kernel
from spectralops._cuda.program import Address, Program, address
from spectralops._cuda.spectral_filter_layout import Layout, layout_of
from spectralops._cuda.spectral_filter_symbol import Factor, expanded
from spectralops._cuda.spread import COEFFICIENTS, Spread, coefficients, columns_in_clusters, lines_in_clusters

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["Prepared"]

# Scratch memory that a batch may take before it is cut into slices: a tenth more than its fields, which spectra of
# 16-bit fields and of padded ones exceed, but as much as is little, and not more than is much. Cutting it so that the
# spectrum stays in cache does not pay: small launches leave multiprocessors idle at their ends.
LITTLE_BYTES, SPACE_BYTES = 16 * 2**20, 256 * 2**20
# Lines from this length on are done in the order of the filters that they share.
LONG_BYTES = 32 * 1024
# Addresses of a program.
X, OUT, SPACE, TABLES = range(4)


class Prepared:
    """The program of a plan for factors of given strides."""

    def __init__(self, plan: SpectralFilterPlan, symbol: tuple[Any, ...], device: launch.Device, xp: Any) -> None:
        layout = required(plan, layout_of(plan, device.shared_bytes))
        self.plan, self.layout = plan, layout
        self.shared_bytes, self.multiprocessors = device.shared_bytes, device.multiprocessors
        rank, d = len(plan.in_shape), len(plan.axes)
        self.moved = plan.axes != tuple(range(rank - d, rank))
        found = [Factor.of(plan, value) for value in symbol]
        self.expand = any(factor is None for factor in found)
        if self.expand:
            values = [np.broadcast_to(np.empty((), value.dtype), value.shape) for value in symbol]
            found = [Factor.of(plan, expanded(plan, value, value)) for value in values]
        self.factors = [factor for factor in found if factor is not None]
        views = [(value.shape, [step // value.itemsize for step in value.strides]) for value in symbol]
        self.index_bits = launch.index_bits(plan.index_bits, views)
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


class _Builder:
    """Writes the launches of one plan."""

    def __init__(self, prepared: Prepared) -> None:
        plan, layout = prepared.plan, prepared.layout
        self.prepared, self.layout = prepared, layout
        self.options = (launch.index_option(prepared.index_bits),)
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
        # The filter as longer transforms multiply by it, and its address.
        self.longer: tuple[Any, Address] | None = None

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

    def multiplier(self, argument: int) -> tuple[str, Any, dict[tuple[int, int], Address]]:
        """The factors as template arguments, their strides, and addresses in this argument of a launch."""
        if self.longer is None:
            return self.kinds, self.arguments, self.filter_addresses(argument)
        values, at = self.longer
        stride = self.layout.aligned if self.layout.columns else 1
        return f", Factor<true, {stride}>", values, {(argument, 0): at}

    def rows(self, name: str, source: Address, target: Address, lines: int, fused: bool = False) -> None:
        form, n, row = self.layout.form, self.layout.sizes[-1], self.layout.row
        kept = {"HALF": self.layout.pitch, "FULL": n}.get(form, 0)
        more, values, inner = self.multiplier(5) if fused else ("", None, None)
        reals = self.layout.reals
        form = "TWOS" if form == "HALF" and self.layout.columns else form
        kernel = rows_kernel(name, reals, form, (kept, 0), row, lines, self.options, self.padding, more)
        table = self.table(len(self.layout.sizes) - 1, name == "rows_inverse")
        arguments = (source, target, table, np.int64(lines), self.pad, *([values] if fused else []))
        self.prepared.program.add(kernel, *arguments, inner=inner)

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

    def lines(self, spread: Spread) -> None:
        """Lines that clusters share."""
        layout, program = self.layout, self.prepared.program
        kinds, inner = self.kinds, self.filter_addresses(3)
        if layout.beforehand:
            kernel = coefficients(spread, self.real, self.options, kinds)
            angles = Address(TABLES, spread.angles_at * self.complex_bytes)
            program.add(kernel, Address(SPACE), angles, self.arguments, inner=self.filter_addresses(2))
            self.prepared.space_bytes = 2 * spread.size * self.complex_bytes
            kinds, inner = COEFFICIENTS, {(3, 0): Address(SPACE)}
        kernel = lines_in_clusters(spread, layout.reals, layout.batch, self.options, kinds)
        program.add(kernel, Address(X), Address(OUT), Address(TABLES), self.arguments, inner=inner)

    def planes(self, name: str, source: Address, target: Address, count: int) -> None:
        """The last two axes at once, `forward` or `inverse`."""
        plane, image = self.layout.plane, self.layout.image
        if image is not None:
            kernel = image_kernel(f"images_{name}", image, self.layout.reals, count, self.options)
        else:
            assert plane is not None
            room, kept = self.prepared.shared_bytes, (self.layout.sizes[-2], 0)
            kernel = plane_kernel(f"planes_{name}", self.layout.reals, plane, kept, count, room, self.options)
        tables = [self.table(axis, name == "inverse") for axis in (2, 1)]
        self.prepared.program.add(kernel, source, target, *tables)

    def table(self, axis: int, backwards: bool) -> Address:
        """Twiddle factors along an axis."""
        row = self.layout.row if axis == len(self.layout.sizes) - 1 else self.layout.columns[axis]
        begin = row.passes.begins_at if isinstance(row.passes, Cyclic) else 0
        return Address(TABLES + axis, (row.passes.reversed_at if backwards else begin) * self.complex_bytes)

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
        spread = self.layout.spread
        more, values, inner = self.multiplier(4) if mode == "FILTER" else ("", self.arguments, None)
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
            values,
            inner=inner,
        )

    def longer_spectrum(self, passes: Cyclic, at: Address) -> None:
        """Have what longer transforms multiply by lie at an address."""
        layout = self.layout
        inner = passes.inner
        columns, pitch, width = 1, 1, 1
        if layout.columns:
            columns, pitch, width = layout.stored, layout.aligned, layout.columns[0].lines
        halved = "false" if layout.columns else "true"
        template = f"{halved}, {passes.threads}, {width}, {passes.size}, {inner.expression}{self.kinds}"
        name = f"cyclic_spectrum<{self.real}, {template}>"
        shared = passes.padded * width * self.complex_bytes
        grid, block = (-(-columns // width),), (passes.threads * width,)
        kernel = Kernel("cyclic.cu", name, grid, block, shared, self.options)
        arguments = (at, Address(TABLES), np.int64(columns), np.int64(pitch), self.arguments)
        self.prepared.program.add(kernel, *arguments, inner=self.filter_addresses(4))
        values = np.zeros(1, FILTER)
        values["factors"][0, 0] = (0, 0, 1, 0, 1)
        values["inner"], values["sign"], values["beside"], values["apart"] = 2**31 - 1, 1, 1, 1
        self.longer = values, at

    def build(self) -> None:
        layout = self.layout
        if layout.halves:
            self.halves()
            return
        if layout.spread is not None and not layout.columns:
            self.lines(layout.spread)
            return
        if len(layout.sizes) == 1:
            name = "twos_filter" if layout.form == "SPLIT" else "rows_filter"
            if isinstance(layout.row.passes, Cyclic):
                self.longer_spectrum(layout.row.passes, Address(SPACE))
                self.prepared.space_bytes = layout.row.passes.inner.size * self.complex_bytes
            self.rows(name, Address(X), Address(OUT), layout.batch, fused=True)
            return
        if layout.whole and len(layout.sizes) == 2:
            if layout.image is not None:
                kernel = image_filter(layout.image, layout.reals, layout.batch, self.options, self.kinds)
            else:
                assert layout.plane is not None
                room = self.prepared.shared_bytes
                kernel = filter_kernel(layout.reals, layout.plane, layout.batch, room, self.options, self.kinds)
            tables = [self.table(axis, False) for axis in (1, 0)]
            inner = self.filter_addresses(4)
            self.prepared.program.add(kernel, Address(X), Address(OUT), *tables, self.arguments, inner=inner)
            return
        one = math.prod(layout.sizes[:-1]) * layout.pitch * self.complex_bytes
        # The packed spectrum fits into the result unless that is smaller; the one between the axes needs its own place.
        packed = (layout.form == "HALF" or self.padding != "BARE" or layout.narrow) and not layout.whole
        whole = layout.form == "PAIRS" and len(layout.sizes) == 3
        each = one * (packed + whole)
        fields = layout.batch * self.values * layout.value_bytes
        space = min(max(LITTLE_BYTES, fields + fields // 10), SPACE_BYTES)
        at_once = max(1, space // each) if each else layout.batch
        at_once = -(-layout.batch // -(-layout.batch // at_once))
        self.prepared.space_bytes = at_once * each
        passes = layout.columns[0].passes
        if isinstance(passes, Cyclic):
            # In the part of the result that is written last, where its spectrum does not lie there.
            nbytes = passes.inner.size * layout.aligned * self.complex_bytes
            last = (layout.batch - 1) // at_once * at_once * self.values * layout.value_bytes
            free = layout.batch * self.values * layout.value_bytes - last
            there = packed and not layout.narrow and free >= nbytes and last % self.complex_bytes == 0
            self.longer_spectrum(passes, Address(OUT, last) if there else Address(SPACE, at_once * each))
            self.prepared.space_bytes += 0 if there else nbytes
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
        lines = rows
        if form != "FULL":
            lines = count * math.prod(sizes[:-2]) * -(-sizes[-2] // 2)
        k, row = layout.stored, sizes[-1]
        # Above N / 2 wavenumbers lie one place lower, and N / 2 at the end (`packed_place`).
        beside = (row - 1, row // 2, row - 1) if row % 2 == 0 else (row, 0, 0)
        outside = "PAIRS" if form == "PAIRS" else "FULL"
        pitch = row if form == "PAIRS" else layout.pitch
        plane = sizes[-2] * pitch // (2 if form == "PAIRS" else 1)
        if layout.whole:
            area = sizes[1] * k
            across = (whole, "FULL", area)
            self.planes("forward", x, whole, count * sizes[0])
            self.columns("FILTER", 0, across, across, count, (area, sizes[0] * area, sizes[0] * area, 0, 0, 0))
            self.planes("inverse", whole, out, count * sizes[0])
            return
        self.rows("rows_forward", x, packed, lines)
        first = (packed, outside, pitch)
        if len(sizes) == 2:
            self.columns("FILTER", 0, first, first, count, (k, plane, plane, *beside))
        else:
            planes, area = count * sizes[0], sizes[1] * k
            second = (whole, "FULL", k)
            across = (whole, "FULL", area)
            self.columns("FORWARD", 1, first, second, planes, (k, plane, area, *beside))
            self.columns("FILTER", 0, across, across, count, (area, sizes[0] * area, sizes[0] * area, 0, 0, 0))
            self.columns("INVERSE", 1, second, first, planes, (k, area, plane, *beside))
        self.rows("rows_inverse", packed, out, lines)
