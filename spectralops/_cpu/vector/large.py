"""Images and volumes too large for workspaces that are kept: they need little memory beyond their result.

Fresh memory costs more than a transform: each page has to be found and cleared. So the filter is laid out part by part,
just before each part of the spectrum meets it, and the spectrum lies in the result's own memory where the columns
are even and whole vectors: row or plane k of frequencies takes the place of two of the image. The first and the last
frequency are real, so that the last one fits where the imaginary part of the first would be zero; both are filtered
in a small workspace.
"""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cpu.vector import fields as f
from spectralops._cpu.vector import host, jobs, kernels, prepared, workspace

__all__ = ["Large", "is_large", "large"]

# More images than this share a filter that is laid out once.
MOST_IMAGES = 2

Array = np.ndarray[Any, Any]


def is_large(tiles: int, count: int) -> bool:
    """Whether a filter of so many bytes, for so many images, had better be laid out part by part."""
    return count <= MOST_IMAGES and 4 * tiles > prepared.KEPT_BYTES


@lru_cache(maxsize=32)
def large(kind: str, lengths: tuple[int, ...], dtype: str) -> Large:
    """The way of one shape, kind of columns and dtype."""
    return Large(kind, lengths, dtype)


class Large:
    """One image at a time, each stage in parts that threads share, all of a stage before the next."""

    def __init__(self, kind: str, lengths: tuple[int, ...], dtype: str) -> None:
        lanes, self.item = host.lanes(dtype), host.ITEM_BYTES[dtype]
        beside, volume = math.prod(lengths[1:]), len(lengths) == 3
        self.packed = kind == f.EVEN and beside % lanes == 0 and (volume or lengths[0] // 2 % lanes == 0)
        if self.packed:
            kind = f.PACKED
        self.half = kind != f.COMPLEX
        self.job = jobs.volume_job(kind, lengths, dtype) if volume else jobs.image_job(kind, *lengths, dtype)
        self.layout = jobs.filter_layout(kind, lengths, dtype)
        self.scale = np.array((0.5 if self.half else 1.0) / math.prod(lengths), dtype)
        names = ("columns_{}_in", "arranged", "columns_{}_out")
        self.stages = tuple(kernels.kernel(name.format(kind), dtype) for name in names)
        fields = self.job.fields.copy()
        tiles = workspace.padded(self.job.scratch * self.item) // self.item
        fields[f.PART] = fields[f.INNER]
        fields[f.PART_FILTER] = fields[f.PLANE_FILTER if volume else f.BLOCK_FILTER]
        fields[f.PART_BLOCKS] = -(-lengths[1] // lanes) if volume else 1
        fields[f.ARRANGE], fields[f.TILES] = kernels.address("arrange", dtype), tiles
        fields[f.SCALE] = self.scale.ctypes.data
        self.fields = fields
        # The plane of both real frequencies is done apart, the block of rows with the others besides.
        self.first = int(volume and self.packed)
        self.apart = 2 if volume else 1
        self.step = int(fields[f.PLANE_STRIDE if volume else f.BLOCK_STRIDE]) * self.item
        self.row = int(fields[f.SPECTRUM_IMAG]) * self.item
        self.spectrum, self.work = (workspace.padded(n * self.item) for n in (self.job.spectrum, self.job.work))
        self.scratch = workspace.padded(self.job.scratch * self.item)
        self.inner_scratch = (tiles + int(fields[f.PART_FILTER])) * self.item

    def run(
        self, source: int, step: int, target: int, target_step: int, count: int, factors: Array, workers: int
    ) -> None:
        """Filter `count` images with the same factors; steps are in real numbers."""
        strides = [stride // self.item for stride in factors.strides]
        order = self.layout.with_strides((0, *strides)[-3:], factors.dtype.kind == "c", self.half)
        fields = self.fields.copy()
        fields[f.FILTER_JOB] = order.ctypes.data
        transfer = factors.ctypes.data
        for image in range(count):
            here, there = source + image * step * self.item, target + image * target_step * self.item
            self._filter(fields.ctypes.data, here, there, transfer, workers)

    def _filter(self, job: int, source: int, target: int, transfer: int, workers: int) -> None:
        columns_in, arranged, columns_out = self.stages
        shared = None if self.packed else workspace.take(self.spectrum)
        spectrum = target if shared is None else shared.address

        def inner(first: int, last: int, place: int = spectrum) -> None:
            buffer = workspace.take(self.work + self.inner_scratch)
            arranged(job, place, transfer, buffer.address, buffer.address + self.work, first, last)
            workspace.give_back(buffer)

        def columns(kernel: Any, read: int, written: int) -> None:
            def some(first: int, last: int) -> None:
                buffer = workspace.take(self.scratch)
                kernel(job, read, written, buffer.address, first, last)
                workspace.give_back(buffer)

            workspace.run(some, self.job.units, workers)

        columns(columns_in, source, spectrum)
        ends = self._take_ends(target) if self.packed else None
        workspace.run(
            lambda first, last: inner(first + self.first, last + self.first), self.job.inner - self.first, workers
        )
        if ends is not None:
            # Parts are counted on from the spectrum's: this is where the filter of these frequencies stands.
            inner(self.job.inner, self.job.inner + self.apart, ends.address - self.job.inner * self.step)
            self._put_ends(ends, target)
        columns(columns_out, spectrum, target)
        if shared is not None:
            workspace.give_back(shared)

    def _take_ends(self, target: int) -> workspace.Buffer:
        """The first and the last frequency in memory of their own, with imaginary parts of zero."""
        ends = workspace.take(self.apart * self.step)
        for i in range(2):
            ctypes.memmove(ends.address + 2 * i * self.row, target + i * self.row, self.row)
            ctypes.memset(ends.address + (2 * i + 1) * self.row, 0, self.row)
        return ends

    def _put_ends(self, ends: workspace.Buffer, target: int) -> None:
        """Their real parts back: the imaginary parts of a real signal's first and last frequency are ignored."""
        for i in range(2):
            ctypes.memmove(target + i * self.row, ends.address + 2 * i * self.row, self.row)
        workspace.give_back(ends)
