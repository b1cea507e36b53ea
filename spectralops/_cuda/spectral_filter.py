"""Filters on the device: transforms, multiplier and inverse transforms in kernels of our own.

One axis: one kernel. More: the last axis forward, the others forward, the first one forward, multiplied and back in one
kernel, and the same backwards. The spectrum of a real image lies packed in the memory of the result where its rows pair
up, so that nothing else is allocated; batches are cut so that it stays in the second-level cache.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda import launch
from spectralops._cuda.launch import Kernel, Runner
from spectralops._cuda.passes import Passes, factors, passes

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["algorithm", "refusal", "spectral_filter"]

FILE = "spectral.cu"
# Shared memory that a block may use on every device since compute capability 8.0.
SHARED_BYTES = 96 * 1024
# Threads of a block that the geometry aims at, and the most it may have.
THREADS, MOST_THREADS = 128, 512
# Part of the second-level cache that the spectrum of one slice of a batch may fill.
CACHE_PART = 0.4
MOST_FACTORS = 3

FACTOR = np.dtype([(name, np.int64) for name in ("values", "batch", "period", "stride0", "stride1", "stride2")])
FILTER = np.dtype(
    [
        ("factors", FACTOR, MOST_FACTORS),
        ("first", np.int64),
        ("inner", np.int64),
        ("scale", np.float64),
        ("sign", np.float64),
    ]
)
COLUMNS = np.dtype(
    [(name, np.int64) for name in ("columns", "in_outer", "in_pitch", "out_outer", "out_pitch", "mirror")]
)


@dataclass(frozen=True, slots=True)
class Lines:
    """Geometry of a kernel over the contiguous axis."""

    passes: Passes
    lines: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.passes.threads * self.lines

    @property
    def template(self) -> str:
        """Template arguments: threads of a line, lines of a block, radices."""
        return f"{self.passes.threads}, {self.lines}, {self.passes.expression}"


def _lines(n: int, itemsize: int) -> Lines | None:
    found = passes(n, itemsize)
    if found is None:
        return None
    fits = SHARED_BYTES // (found.padded * 2 * itemsize)
    lines = min(max(1, THREADS // found.threads), fits)
    return Lines(found, lines) if lines and found.threads <= MOST_THREADS else None


def _columns(n: int, itemsize: int, pairs: bool) -> Lines | None:
    """As many neighbouring columns a block as fit, up to 128 bytes of them."""
    width = 64 // itemsize
    while width:
        found = passes(n, itemsize, width, pairs, MOST_THREADS // width)
        if found is not None and found.padded * width * 2 * itemsize <= SHARED_BYTES:
            return Lines(found, width)
        width //= 2
    return None


@dataclass(frozen=True, slots=True)
class Layout:
    """How a plan's arrays are transformed: the trailing axes of [batch][sizes], in the form of the last axis."""

    form: str
    sizes: tuple[int, ...]
    batch: int
    itemsize: int
    row: Lines
    columns: tuple[Lines, ...]  # first axis, then the middle one

    @property
    def stored(self) -> int:
        """Coefficients of a row that are distinct."""
        return self.sizes[-1] if self.form == "FULL" else self.sizes[-1] // 2 + 1


def _layout(plan: SpectralFilterPlan) -> Layout | str:
    """The layout of a plan, or in words why there is none."""
    sizes, real = plan.sizes, plan.grid.halved
    if plan.padded:
        return "padding is not part of the kernels"
    if not 1 <= len(sizes) <= 3:
        return f"kernels take 1 to 3 axes, not {len(sizes)}"
    if plan.transfer is None and len(plan.operands) > 1 + MOST_FACTORS:
        return f"kernels multiply {MOST_FACTORS} factors, not {len(plan.operands) - 1}"
    itemsize = 8 if plan.compute_dtype in ("float64", "complex128") else 4
    for n in sizes:
        if factors(n) is None:
            return f"length {n} has a prime factor above 13"
    last = sizes[-1]
    if len(sizes) == 1:
        form = "FULL" if not real else "PAIRS" if last % 2 == 0 else "HALF"
        row = _lines(last // 2 if form == "PAIRS" else last, itemsize)
        return (
            f"length {last} does not fit a block" if row is None else Layout(form, sizes, plan.batch, itemsize, row, ())
        )
    row = _lines(last, itemsize)
    if row is None:
        return f"length {last} does not fit a block"
    middle = len(sizes) - 2
    for form in ("PAIRS", "HALF") if real else ("FULL",):
        columns = tuple(_columns(n, itemsize, form == "PAIRS" and axis == middle) for axis, n in enumerate(sizes[:-1]))
        found = tuple(each for each in columns if each is not None)
        if len(found) == len(columns):
            return Layout(form, sizes, plan.batch, itemsize, row, found)
    return f"lengths {sizes[:-1]} do not fit a block"


def refusal(plan: SpectralFilterPlan) -> str:
    """Why the kernels do not run this plan, in words; nothing if they do."""
    layout = _layout(plan)
    return layout if isinstance(layout, str) else ""


def algorithm(plan: SpectralFilterPlan) -> str:
    """How this plan runs, in words."""
    layout = _layout(plan)
    assert isinstance(layout, Layout)
    radices = " x ".join("*".join(map(str, each.passes.radices)) for each in (*layout.columns, layout.row))
    if not layout.columns:
        return f"one kernel: forward, product and inverse in registers and shared memory, radices {radices}"
    form = {
        "PAIRS": "two real rows as one complex row, the spectrum in the result's own memory",
        "HALF": "real rows one by one, half of their spectrum in a workspace",
        "FULL": "complex rows",
    }[layout.form]
    count = 2 * len(layout.sizes) - 1
    return (
        f"{count} kernels, the middle one forward, product and inverse along the first axis; {form}; radices {radices}"
    )


def spectral_filter(plan: SpectralFilterPlan, x: Any, *operands: Any, out: Any, workers: int) -> None:
    """Run the plan's kernels on the current stream."""
    if out.size == 0:
        return
    runner = launch.runner(plan.op, out)
    layout = _layout(plan)
    assert isinstance(layout, Layout)
    xp = _namespace(out)
    d = len(plan.axes)
    last = tuple(range(x.ndim - d, x.ndim))
    field = xp.ascontiguousarray(xp.moveaxis(x, plan.axes, last))
    result = out if plan.axes == last else xp.empty(field.shape, out.dtype)
    symbol = operands if plan.transfer is None else _on_device(plan, xp, runner)
    arguments, kinds, kept = _multiplier(plan, xp, symbol, field.shape[: x.ndim - d])
    # What the packed rows leave to the multiplier: both rows come out of the symmetry twice.
    arguments["scale"] *= 0.5 if d > 1 and layout.form == "PAIRS" else 1.0
    work = _Work(runner, layout, plan.index_bits, kinds)
    if d == 1:
        work.one_axis(field, result, arguments)
    else:
        work.several_axes(field, result, arguments)
    if result is not out:
        out[...] = xp.moveaxis(result, last, plan.axes)
    del kept


def _namespace(out: Any) -> Any:
    if isinstance(out, np.ndarray):
        return np
    import cupy

    return cupy


_symbols: OrderedDict[tuple[Any, ...], tuple[Any, ...]] = OrderedDict()
_symbols_lock = Lock()
KEPT_SYMBOLS = 32


def _on_device(plan: SpectralFilterPlan, xp: Any, runner: Runner) -> tuple[Any, ...]:
    """The sampled symbol on the device: kept for the package's own transfers, copied at each call for others."""
    from_package = type(plan.transfer).__module__.startswith("spectralops.")
    if not from_package or xp is np:
        return tuple(xp.asarray(value) for value in plan.symbol())
    key = (plan.transfer, plan.grid, plan.compute_dtype, runner.device().index)
    with _symbols_lock:
        found = _symbols.get(key)
        if found is None:
            found = _symbols[key] = tuple(xp.asarray(value) for value in plan.symbol())
            # Another stream may read the copy before this one has made it.
            xp.cuda.get_current_stream().synchronize()
            while len(_symbols) > KEPT_SYMBOLS:
                _symbols.popitem(last=False)
        else:
            _symbols.move_to_end(key)
    return found


def _multiplier(plan: SpectralFilterPlan, xp: Any, symbol: Any, batch: tuple[int, ...]) -> tuple[Any, str, Any]:
    """Kernel argument that describes the factors, their kinds, and the arrays to keep alive."""
    arguments = np.zeros(1, FILTER)
    d, rank = len(plan.axes), len(plan.in_shape)
    kept = []
    for j, value in enumerate(symbol):
        values = value.reshape((1,) * (rank - value.ndim) + value.shape)
        values = xp.moveaxis(values, plan.axes, range(rank - d, rank))
        step, period, values = _batch_stride(xp, values, batch)
        strides = [0 if n == 1 else s // values.itemsize for n, s in zip(values.shape, values.strides, strict=True)][
            -d:
        ]
        # The transform that multiplies runs along the first axis; the others number the columns.
        strides += [0] * (3 - d)
        if d == 2:
            strides = [strides[0], 0, strides[1]]
        arguments["factors"][0, j] = (address(values), step, period, *strides)
        kept.append(values)
    spectrum = [plan.sizes[-1] // 2 + 1 if plan.grid.halved else plan.sizes[-1]]
    arguments["inner"] = spectrum[0] if d == 3 else 2**31 - 1
    arguments["scale"] = 1 / math.prod(plan.sizes)
    arguments["sign"] = -1 if plan.conjugate else 1
    kinds = "".join(f", {'true' if np.dtype(value.dtype).kind == 'c' else 'false'}" for value in kept)
    return arguments, kinds, kept


def _batch_stride(xp: Any, values: Any, batch: tuple[int, ...]) -> tuple[int, int, Any]:
    """(b % period) * step is where transform b finds its factor; arrays for which no such rule holds are expanded."""
    lead = len(batch)
    own = values.shape[:lead]
    period, step, axis = 1, 0, lead - 1
    while axis >= 0 and own[axis] == batch[axis]:
        stride = values.strides[axis] // values.itemsize
        if own[axis] > 1:
            if period > 1 and stride != step * period:
                break
            step = step if period > 1 else stride
            period *= own[axis]
        axis -= 1
    if all(n == 1 for n in own[: axis + 1]):
        return step, period, values
    whole = xp.ascontiguousarray(xp.broadcast_to(values, batch + values.shape[lead:]))
    return whole.strides[lead - 1] // whole.itemsize, math.prod(batch), whole


def address(array: Any) -> int:
    """Where the first element of an array lies."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


class _Work:
    """The launches of one call."""

    def __init__(self, runner: Runner, layout: Layout, index_bits: int, kinds: str) -> None:
        self.runner, self.layout, self.kinds = runner, layout, kinds
        self.options = (launch.index_option(index_bits),)
        self.real = "float" if layout.itemsize == 4 else "double"
        self.complex_bytes = 2 * layout.itemsize

    def rows(self, name: str, source: Any, target: Any, lines: int, *more: Any, kinds: str = "") -> None:
        row = self.layout.row
        kernel = Kernel(
            FILE,
            f"{name}<{self.real}, {self.real}, {self.layout.form}, {row.template}{kinds}>",
            (-(-lines // row.lines),),
            (row.threads,),
            row.passes.padded * row.lines * self.complex_bytes,
            self.options,
        )
        self.runner.launch(kernel, source, target, np.int64(lines), *more)

    def columns(
        self,
        mode: str,
        axis: int,
        forms: tuple[str, str],
        source: Any,
        target: Any,
        planes: int,
        geometry: Any,
        filter_: Any,
    ) -> None:
        column = self.layout.columns[axis]
        kinds = self.kinds if mode == "FILTER" else ", false"
        kernel = Kernel(
            FILE,
            f"columns<{self.real}, {mode}, {forms[0]}, {forms[1]}, {column.template}{kinds}>",
            (planes * -(-int(geometry["columns"][0]) // column.lines),),
            (column.threads,),
            column.passes.padded * column.lines * self.complex_bytes,
            self.options,
        )
        self.runner.launch(kernel, source, target, geometry, filter_)

    def one_axis(self, x: Any, out: Any, filter_: Any) -> None:
        lines = self.layout.batch
        self.rows("rows_filter", x, out, lines, filter_, kinds=self.kinds)

    def several_axes(self, x: Any, out: Any, filter_: Any) -> None:
        layout = self.layout
        image = math.prod(layout.sizes)
        x, out = x.reshape(layout.batch, image), out.reshape(layout.batch, image)
        spectrum_bytes = math.prod(layout.sizes[:-1]) * layout.stored * self.complex_bytes
        at_once = max(1, int(self.runner.device().l2_bytes * CACHE_PART) // spectrum_bytes)
        slices = -(-layout.batch // at_once)
        at_once = -(-layout.batch // slices)
        separate = layout.form == "HALF" or (layout.form == "PAIRS" and len(layout.sizes) == 3)
        space = self.runner.workspace(at_once * spectrum_bytes) if separate else None
        for start in range(0, layout.batch, at_once):
            some = slice(start, start + at_once)
            self.slice(x[some], out[some], space, start, filter_)

    def slice(self, x: Any, out: Any, space: Any, start: int, filter_: Any) -> None:
        layout = self.layout
        count, form, sizes = len(x), layout.form, layout.sizes
        filter_ = filter_.copy()
        filter_["first"] = start
        packed = out if form != "HALF" else space
        whole = space if space is not None else out
        rows = count * math.prod(sizes[:-1])
        lines = rows // 2 if form == "PAIRS" else rows
        k, row = layout.stored, sizes[-1]
        self.rows("rows_forward", x, packed, lines)
        outside = "PAIRS" if form == "PAIRS" else "FULL"
        if len(sizes) == 2:
            pitch = row if form == "PAIRS" else k
            plane = sizes[0] * pitch // (2 if form == "PAIRS" else 1)
            geometry = np.array([(k, plane, pitch, plane, pitch, row)], COLUMNS)
            self.columns("FILTER", 0, (outside, outside), packed, packed, count, geometry, filter_)
        else:
            planes = count * sizes[0]
            pitch = row if form == "PAIRS" else k
            plane = sizes[1] * pitch // (2 if form == "PAIRS" else 1)
            inside = (sizes[1] * k, k)
            there = np.array([(k, plane, pitch, *inside, row)], COLUMNS)
            back = np.array([(k, *inside, plane, pitch, row)], COLUMNS)
            across = np.array(
                [(inside[0], sizes[0] * inside[0], inside[0], sizes[0] * inside[0], inside[0], row)], COLUMNS
            )
            self.columns("FORWARD", 1, (outside, "FULL"), packed, whole, planes, there, filter_)
            self.columns("FILTER", 0, ("FULL", "FULL"), whole, whole, count, across, filter_)
            self.columns("INVERSE", 1, ("FULL", outside), whole, packed, planes, back, filter_)
        self.rows("rows_inverse", packed, out, lines)
