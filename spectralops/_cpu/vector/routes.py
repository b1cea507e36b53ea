"""Ways through the kernels: what runs for one shape and dtype, prepared once and kept."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np

from spectralops._cpu.vector import fields as f
from spectralops._cpu.vector import host, jobs, kernels, prepared, tables, workspace
from spectralops._cpu.vector.choice import convolution_length, split
from spectralops._cpu.vector.large import is_large, large
from spectralops._cpu.vector.rows import is_row_convolved, is_row_spread
from spectralops._cpu.vector.sum_jobs import beginnings

__all__ = ["Route", "route", "several"]

# Filters that a route knows again by their content: of one axis, or of so many bytes.
FILTERS_KEPT = 2
SMALL_BYTES = 1 << 15
# Bytes of rows that are convolved with a kernel at a time, with zeros after them.
ROWS_BYTES = 1 << 18

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


class Route(Protocol):
    """One way through the kernels."""

    def run(
        self, source: int, step: int, target: int, target_step: int, count: int, factors: Array, workers: int
    ) -> None:
        """Filter `count` transforms with the same factors; steps are in real numbers."""
        ...

    def run_each(
        self, source: int, step: int, target: int, target_step: int, sizes: Sizes, factors: Array, workers: int
    ) -> None:
        """Filter transforms of a batch of these sizes with the factors that broadcast against it."""
        ...


@lru_cache(maxsize=256)
def route(lengths: tuple[int, ...], char: str, inner: int, count: int) -> Route:
    """The way for transforms of these lengths and dtype character.

    `inner` is the number of neighbouring columns that one axis is filtered along, 1 along rows; `count` that of
    transforms, of which more than lanes are all the same (:func:`several`).
    """
    dtype, is_complex = host.REAL[char], host.NUMBERS[char] == 2
    if len(lengths) > 1:
        return Images(lengths, dtype, is_complex)
    n = lengths[0]
    if not is_row_convolved(n, inner, dtype, is_complex, count):
        return _one_axis(n, inner, dtype, is_complex, count)
    if inner == 1 and is_row_spread(n, dtype, is_complex, count, True):
        return SpreadConvolution(n, dtype, is_complex, count)
    return Convolution(n, inner, dtype, is_complex, count)


@lru_cache(maxsize=256)
def _one_axis(n: int, inner: int, dtype: str, is_complex: bool, count: int) -> Route:
    """Transforms of this very length."""
    if inner == 1 and is_row_spread(n, dtype, is_complex, count):
        return Spread(n, dtype, is_complex)
    return Lines(n, inner, dtype, is_complex)


def several(count: int, char: str) -> int:
    """So many transforms as far as a route depends on it."""
    return min(count, host.lanes(host.REAL[char]))


class Lines:
    """Unrelated transforms of one axis, as many at a time as there are lanes."""

    def __init__(self, n: int, inner: int, dtype: str, is_complex: bool, points: int = 0) -> None:
        self.n, self.dtype, self.rows = n, dtype, inner == 1
        self.kind = f.COMPLEX if is_complex else f.ZERO if n % 2 else f.EVEN
        self.job = jobs.line_job(self.kind, n, inner, dtype, points)
        self.kernel = kernels.kernel(self.job.stages[0], dtype)
        self.scratch = self.job.scratch * host.ITEM_BYTES[dtype]
        self.lanes = host.lanes(dtype)
        self.complex = np.dtype(host.COMPLEX[dtype])
        self.known: tuple[tuple[Any, Array], ...] = ()

    def transfer(self, factors: Array) -> Array:
        """The scaled factors in the order in which the kernel reads them."""
        content = factors.dtype.char, factors.tobytes()
        for known, table in self.known:
            if known == content:
                return table
        table = np.ascontiguousarray(self.ordered(factors), self.complex)
        # Replaced as a whole: other threads may be reading it.
        self.known = ((content, table), *self.known[: FILTERS_KEPT - 1])
        return table

    def ordered(self, factors: Array) -> Array:
        """The scaled factors in that order, of any precision."""
        if self.kind == f.EVEN:
            return tables.half_transfer(factors, self.n)
        full = factors if self.kind == f.COMPLEX else completed(factors, self.n)
        ordered: Array = full[tables.axis(self.n, self.dtype).frequency] * (1.0 / self.n)
        return ordered

    def run(
        self, source: int, step: int, target: int, target_step: int, count: int, factors: Array, workers: int
    ) -> None:
        transfer = self.transfer(factors)  # held while kernels read it: other threads may have it forgotten
        table, job, kernel, lanes = workspace.address(transfer), self.job.address, self.kernel, self.lanes
        if workers == 1 and self.rows:  # without a function of its own, which short rows would wait for
            buffer = workspace.take(self.scratch)
            kernel(job, source, step, target, target_step, table, buffer.address, 0, count)
            workspace.give_back(buffer)
            return

        def some(first: int, last: int) -> None:
            buffer = workspace.take(self.scratch)
            if self.rows:
                stop = min(last * lanes, count)
                kernel(job, source, step, target, target_step, table, buffer.address, first * lanes, stop)
            else:
                kernel(job, source, target, table, buffer.address, first, last)
            workspace.give_back(buffer)

        workspace.run(some, -(-count // lanes) if self.rows else count * self.job.units, workers)

    def run_each(
        self, source: int, step: int, target: int, target_step: int, sizes: Sizes, factors: Array, workers: int
    ) -> None:
        factors = np.ascontiguousarray(factors, self.complex)
        places = _places(sizes, factors, 1, host.ITEM_BYTES[self.dtype])
        count, lanes = len(places), self.lanes
        places = np.append(places, np.zeros(lanes, np.int64))  # lanes without a row read some filter
        scale = np.array(1.0 / self.n, self.dtype)
        kernel, job = kernels.kernel(f"filter_each_{self.kind}", self.dtype), self.job.address
        group = workspace.padded(self.scratch)
        beside = 2 * lanes * (factors.shape[-1] + lanes) * host.ITEM_BYTES[self.dtype]
        reading = workspace.address(factors), workspace.address(places), workspace.address(scale)

        def some(first: int, last: int) -> None:
            buffer = workspace.take(group + beside)
            memory = buffer.address, buffer.address + group
            kernel(job, source, step, target, target_step, *reading, *memory, first * lanes, min(last * lanes, count))
            workspace.give_back(buffer)

        workspace.run(some, -(-count // lanes), workers)


def _places(sizes: Sizes, factors: Array, d: int, item: int) -> Array:
    """Where the factors of each entry of a batch begin, in numbers."""
    batch = zip(factors.shape[:-d], factors.strides[:-d], strict=True)
    places: Array = beginnings(sizes, tuple([0 if n == 1 else stride // item for n, stride in batch]))
    return places


class Images:
    """Images or volumes: columns, then rows with the filter in between, then columns back."""

    twisted = False

    def __init__(self, lengths: tuple[int, ...], dtype: str, is_complex: bool) -> None:
        kind = f.COMPLEX if is_complex else f.PAIR if lengths[0] % 2 else f.EVEN
        job = jobs.image_job(kind, *lengths, dtype) if len(lengths) == 2 else jobs.volume_job(kind, lengths, dtype)
        self._prepare(kind, lengths, dtype, job)

    def _prepare(self, kind: str, lengths: tuple[int, ...], dtype: str, job: jobs.Job) -> None:
        self.kind, self.lengths, self.dtype, self.job = kind, lengths, dtype, job
        self.item = host.ITEM_BYTES[dtype]
        self.half = kind != f.COMPLEX
        self.whole = kernels.kernel("images", dtype)
        self.arrange = kernels.kernel("arrange", dtype)
        self.stages = tuple(kernels.kernel(name, dtype) for name in job.stages)
        self.layout = jobs.filter_layout(kind, lengths, dtype)
        self.scale = np.array((0.5 if self.half else 1.0) / math.prod(lengths), dtype)
        sizes = (self.layout.numbers, job.spectrum, job.work, job.scratch)
        self.tiles, self.spectrum, self.work, self.scratch = (workspace.padded(size * self.item) for size in sizes)
        self.memory = self.spectrum + self.work + self.scratch
        self.known: tuple[tuple[Any, prepared.Lease], ...] = ()

    def filter_fields(self, factors: Array) -> Array:
        """The layout's fields with the strides of these factors."""
        strides = [stride // self.item for stride in factors.strides]
        return self.layout.with_strides((0, *strides)[-3:], factors.dtype.kind == "c", self.half)

    def run(
        self, source: int, step: int, target: int, target_step: int, count: int, factors: Array, workers: int
    ) -> None:
        if not self.twisted and is_large(self.tiles, count):
            way = large(self.kind, self.lengths, self.dtype)
            way.run(source, step, target, target_step, count, factors, workers)
            return
        lease = self._lease(factors, workers)  # held while kernels read it: other threads may have it forgotten
        tiles = lease.buffer.address
        if workers == 1 or count >= 2 * workers:

            def some(first: int, last: int) -> None:
                memory = workspace.take(self.memory)
                work = memory.address + self.spectrum
                parts = (tiles, memory.address, work, work + self.work)
                self.whole(self.job.address, source, step, target, target_step, *parts, first, last)
                workspace.give_back(memory)

            workspace.run(some, count, workers)
        else:
            for image in range(count):
                here, there = source + image * step * self.item, target + image * target_step * self.item
                self._share(here, there, tiles, workers)
        lease.end()

    def _lease(self, factors: Array, workers: int) -> prepared.Lease:
        """The filter laid out; small ones are known again here, which takes a fifth of the time."""
        small = factors.nbytes <= SMALL_BYTES
        content = (factors.dtype.char, factors.strides, factors.tobytes()) if small else None
        if small:
            for known, lease in self.known:
                if known == content:
                    return lease
        key = (self, factors.strides, factors.dtype.char)
        lease = prepared.tiles(key, factors, self.tiles, lambda address: self._arrange(factors, address, workers))
        if small and lease.shared:
            self.known = ((content, lease), *self.known[: FILTERS_KEPT - 1])
        return lease

    def run_each(
        self, source: int, step: int, target: int, target_step: int, sizes: Sizes, factors: Array, workers: int
    ) -> None:
        factors, d = self.in_layout(factors), len(self.lengths)
        places = _places(sizes, factors, d, self.item)
        if not self.twisted and is_large(self.tiles, 1):
            way = large(self.kind, self.lengths, self.dtype)
            flat = np.broadcast_to(factors, (*sizes, *factors.shape[-d:]))
            for image, index in enumerate(np.ndindex(*sizes)):
                here, there = source + image * step * self.item, target + image * target_step * self.item
                way.run(here, step, there, target_step, 1, flat[index], workers)
            return
        order = np.argsort(places, kind="stable")
        items = np.stack([order, places[order]], axis=1)
        fields, filter_fields = self.job.fields.copy(), self.filter_fields(factors)
        fields[f.ARRANGE], fields[f.PART_BLOCKS] = kernels.address("arrange", self.dtype), self.layout.blocks
        fields[f.FILTER_JOB], fields[f.SCALE] = filter_fields.ctypes.data, self.scale.ctypes.data
        kernel = kernels.kernel("images_each", self.dtype)
        job, listed, transfer = fields.ctypes.data, items.ctypes.data, factors.ctypes.data

        def some(first: int, last: int) -> None:
            memory = workspace.take(self.tiles + self.spectrum + self.work + self.scratch)
            spectrum = memory.address + self.tiles
            work = spectrum + self.spectrum
            parts = (transfer, memory.address, spectrum, work, work + self.work)
            kernel(job, listed, source, step, target, target_step, *parts, first, last)
            workspace.give_back(memory)

        workspace.run(some, len(items), workers)

    def in_layout(self, factors: Array) -> Array:
        """The factors as an array of images."""
        return factors

    def _arrange(self, factors: Array, tiles: int, workers: int) -> None:
        factors = self.in_layout(factors)
        fields = self.filter_fields(factors)
        job, data, scale = fields.ctypes.data, factors.ctypes.data, self.scale.ctypes.data
        workspace.run(
            lambda first, last: self.arrange(job, data, scale, tiles, first, last), self.layout.blocks, workers
        )

    def _share(self, source: int, target: int, tiles: int, workers: int) -> None:
        """One image by several threads: each stage in parts, all of a stage before the next."""
        columns_in, inner, columns_out = self.stages
        job, shared = self.job.address, workspace.take(self.spectrum)
        spectrum = shared.address

        def first_stage(first: int, last: int) -> None:
            buffer = workspace.take(self.scratch)
            columns_in(job, source, spectrum, buffer.address, first, last)
            workspace.give_back(buffer)

        def second_stage(first: int, last: int) -> None:
            buffer = workspace.take(self.work + self.scratch)
            inner(job, spectrum, tiles, buffer.address, buffer.address + self.work, first, last)
            workspace.give_back(buffer)

        def third_stage(first: int, last: int) -> None:
            buffer = workspace.take(self.scratch)
            columns_out(job, spectrum, target, buffer.address, first, last)
            workspace.give_back(buffer)

        workspace.run(first_stage, self.job.units, workers)
        workspace.run(second_stage, self.job.inner, workers)
        workspace.run(third_stage, self.job.units, workers)
        workspace.give_back(shared)


class Spread(Images):
    """Long transforms of one axis, each of which is spread over the lanes as an image.

    A transform of length a·b is one of length a along the columns of the row read as (a, b), multiplication by the
    twiddle factors exp(−2πi r c/n), and one of length b along the rows; frequency r + a·s ends at row r, column s
    (Bailey 1990, J. Supercomputing 4, the four-step transform). With real input, the rows r ≤ a/2 are enough.
    """

    twisted = True

    def __init__(self, n: int, dtype: str, is_complex: bool) -> None:
        self.n, lengths = n, split(n, host.lanes(dtype))
        kind = f.COMPLEX if is_complex else f.PAIR if lengths[0] % 2 else f.EVEN
        self._prepare(kind, lengths, dtype, jobs.image_job(kind, *lengths, dtype, twisted=True))

    def in_layout(self, factors: Array) -> Array:
        """Whole spectra, cut in the other order."""
        full = completed(factors, self.n) if self.half else factors
        rows, columns = self.lengths
        return full.reshape(*full.shape[:-1], columns, rows).swapaxes(-1, -2)

    def filter_fields(self, factors: Array) -> Array:
        """The factors are complete, also of real transforms."""
        strides = [stride // self.item for stride in factors.strides]
        return self.layout.with_strides((0, *strides)[-3:], factors.dtype.kind == "c", False)


class Convolution(Lines):
    """Lines of a length with large prime factors: convolved with their common filter's kernel, at a smooth length.

    That takes two transforms of twice the length, where a convolution with a chirp for each transform takes four.
    """

    def __init__(self, n: int, inner: int, dtype: str, is_complex: bool, count: int) -> None:
        self.points, self.apart = n, partial(_one_axis, n, inner, dtype, is_complex, count)
        super().__init__(convolution_length(n), inner, dtype, is_complex, n)

    def ordered(self, factors: Array) -> Array:
        return super().ordered(tables.convolution_filter(factors, self.points, self.n, self.kind != f.COMPLEX))

    def run_each(
        self, source: int, step: int, target: int, target_step: int, sizes: Sizes, factors: Array, workers: int
    ) -> None:
        """A kernel for each row would take a transform as long as the row's own: chirps."""
        self.apart().run_each(source, step, target, target_step, sizes, factors, workers)


class SpreadConvolution(Spread):
    """The same with each row spread over the lanes, in memory that has room for the zeros."""

    def __init__(self, n: int, dtype: str, is_complex: bool, count: int) -> None:
        self.points, self.apart = n, partial(_one_axis, n, 1, dtype, is_complex, count)
        super().__init__(convolution_length(n), dtype, is_complex)

    def in_layout(self, factors: Array) -> Array:
        spectrum = tables.convolution_filter(factors, self.points, self.n, self.half)
        return super().in_layout(spectrum.astype(host.COMPLEX[self.dtype]))

    def run(
        self, source: int, step: int, target: int, target_step: int, count: int, factors: Array, workers: int
    ) -> None:
        number = (1 if self.half else 2) * self.item
        size, whole = self.points * number, workspace.padded(self.n * number)
        some = min(count, max(workers, ROWS_BYTES // whole))
        rows, results = workspace.take(some * whole), workspace.take(some * whole)
        for first in range(0, count, some):
            these = min(some, count - first)
            for row in range(these):
                here = rows.address + row * whole
                ctypes.memmove(here, source + (first + row) * step * self.item, size)
                ctypes.memset(here + size, 0, whole - size)
            places = rows.address, whole // self.item, results.address, whole // self.item
            super().run(*places, these, factors, workers)
            for row in range(these):
                ctypes.memmove(target + (first + row) * target_step * self.item, results.address + row * whole, size)
        workspace.give_back(rows)
        workspace.give_back(results)

    def run_each(
        self, source: int, step: int, target: int, target_step: int, sizes: Sizes, factors: Array, workers: int
    ) -> None:
        self.apart().run_each(source, step, target, target_step, sizes, factors, workers)


def completed(half: Array, n: int) -> Array:
    """Full spectra of real filters of length n from their halves; what a real signal cannot have is dropped."""
    full = np.empty((*half.shape[:-1], n), half.dtype)
    count = half.shape[-1]
    full[..., :count] = half
    full[..., 0] = half[..., 0].real
    if n % 2 == 0:
        full[..., n // 2] = half[..., n // 2].real
    full[..., count:] = full[..., 1 : n - count + 1][..., ::-1].conj()
    return full
