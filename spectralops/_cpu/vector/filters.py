"""The fused filter on arrays: which kernels run on which memory, and on how many threads."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spectralops._cpu.vector import fields as f
from spectralops._cpu.vector import host, jobs, kernels, tables, workspace

__all__ = ["filter_axes"]

# From this length on, and for few rows, one transform is spread over the lanes as an image of its own.
LONG = 256
# A group of transforms larger than this leaves the second-level cache between passes: it is spread too.
LONG_BYTES = 1 << 18


def filter_axes(x: np.ndarray, transfer: np.ndarray, out: np.ndarray, axes: tuple[int, ...], workers: int) -> None:
    """Write inverse(transform(x) · transfer) to `out`, along one, two or three axes; the last is halved for real x.

    `transfer`, real or complex, broadcasts against the spectrum. All lengths along `axes` are 2·3·5·7-smooth.
    """
    if out.size == 0:
        return
    d = len(axes)
    inner = range(-d, 0)
    source, target = np.moveaxis(x, axes, inner), np.moveaxis(out, axes, inner)
    lengths = source.shape[-d:]
    spectrum = lengths if np.iscomplexobj(x) else (*lengths[:-1], lengths[-1] // 2 + 1)
    transfer = transfer.reshape((1,) * (x.ndim - transfer.ndim) + transfer.shape)
    transfer = np.moveaxis(transfer, axes, inner)
    factors = np.broadcast_to(transfer, (*transfer.shape[:-d], *spectrum))
    if d == 1 and x.ndim > 1 and transfer.size == transfer.shape[-1] and _along_columns(x, out, axes[0]):
        _filter_lines(x, factors.reshape(-1), out, axes[0], workers)
        return
    if not target.flags.c_contiguous:
        result = np.empty(target.shape, out.dtype)
        _filter_each(source, factors, result, d, workers)
        target[...] = result
        return
    _filter_each(source, factors, target, d, workers)


def _along_columns(x: np.ndarray, out: np.ndarray, axis: int) -> bool:
    """Whether the axis can be filtered where it lies: enough neighbouring columns to fill the lanes."""
    return (
        x.flags.c_contiguous
        and out.flags.c_contiguous
        and math.prod(x.shape[axis % x.ndim + 1 :]) >= host.lanes(_real(x.dtype))
    )


def _real(dtype: Any) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(str(dtype), str(dtype))


def _filter_each(source: np.ndarray, factors: np.ndarray, target: np.ndarray, d: int, workers: int) -> None:
    """Images along the last d axes; those that share a filter go together."""
    batch = factors.shape[:-d]
    if math.prod(batch) == 1:
        _filter_batch(source, factors.reshape(factors.shape[-d:]), target, d, workers)
        return
    for index in np.ndindex(batch):
        chosen = tuple(slice(None) if size == 1 else i for i, size in zip(index, batch, strict=True))
        _filter_batch(source[chosen], factors[index], target[chosen], d, workers)


def _filter_batch(source: np.ndarray, factors: np.ndarray, target: np.ndarray, d: int, workers: int) -> None:
    """Images along the last d axes, all with the same filter."""
    images, step = _uniform(source, d)
    results, result_step = _uniform(target, d)
    if results is None:
        # Only when a filter of its own for some of several batch axes makes the others uneven.
        copy = np.empty(target.shape, target.dtype)
        _filter_batch(source, factors, copy, d, workers)
        target[...] = copy
        return
    if images is None:
        images, step = _uniform(source.copy(order="C"), d)
    if d == 1:
        _filter_rows(images, step, factors, results, result_step, workers)
    else:
        _filter_images(images, step, factors, results, result_step, workers)


def _uniform(array: np.ndarray, d: int) -> tuple[Any, int]:
    """The array with one batch axis of constant step between C-contiguous images, or None."""
    shape = array.shape[-d:]
    sample = array[(0,) * (array.ndim - d)]
    if not sample.flags.c_contiguous or array.dtype.byteorder == ">" or not array.flags.aligned:
        return None, 0
    try:
        view = array.reshape((-1, *shape), copy=False)
    except ValueError:
        return None, 0
    return view, view.strides[0] // array.itemsize * _numbers(array.dtype)


def _numbers(dtype: Any) -> int:
    return 2 if np.issubdtype(dtype, np.complexfloating) else 1


def _bytes(numbers: int, dtype: str) -> int:
    return numbers * host.ITEM_BYTES[dtype]


def _filter_images(images: Any, step: int, factors: Any, results: Any, result_step: int, workers: int) -> None:
    """Images or volumes with a common filter."""
    lengths, dtype = images.shape[1:], _real(images.dtype)
    kind = f.COMPLEX if np.iscomplexobj(images) else f.PAIR if lengths[0] % 2 else f.EVEN
    layout = _filter_layout(kind, lengths, dtype)
    if len(lengths) == 2:
        job = jobs.image_job(kind, *lengths, dtype)
    else:
        job = jobs.volume_job(kind, lengths, dtype)
    _run_images(job, layout, images, step, factors, factors.strides, results, result_step, workers)


def _filter_long(rows: Any, step: int, factors: Any, results: Any, result_step: int, workers: int) -> None:
    """Rows, each of which is spread over the lanes as an image.

    A transform of length a·b is one of length a along the columns of the row read as (a, b), multiplication by the
    twiddle factors exp(−2πi r c/n), and one of length b along the rows; frequency r + a·s ends at row r, column s
    (Bailey 1990, J. Supercomputing 4, the four-step transform). With real input, the rows r ≤ a/2 are enough.
    """
    n, dtype = rows.shape[-1], _real(rows.dtype)
    a, b = _split(n, host.lanes(dtype))
    kind = f.COMPLEX if np.iscomplexobj(rows) else f.PAIR if a % 2 else f.EVEN
    full = factors if kind == f.COMPLEX else _completed(factors, n)
    layout = _filter_layout(kind, (a, b), dtype)._replace(half=False)
    strides = (full.strides[0], a * full.strides[0])
    job = jobs.image_job(kind, a, b, dtype, twisted=True)
    _run_images(job, layout, rows, step, full, strides, results, result_step, workers)


@lru_cache(maxsize=256)
def _split(n: int, lanes: int) -> tuple[int, int]:
    """Factors a·b = n: nearly square, whole vectors in a row if possible, an even a if possible."""

    def cost(a: int) -> float:
        b = n // a
        return abs(math.log(b / a)) + 4.0 * (-(-b // lanes) * lanes / b - 1.0) + 0.5 * (a % 2)

    small = [a for a in range(1, math.isqrt(n) + 1) if n % a == 0]
    a = min(small + [n // a for a in small], key=cost)
    return a, n // a


def _completed(half: np.ndarray, n: int) -> np.ndarray:
    """The full spectrum of a real filter of length n from its half spectrum."""
    full = np.empty(n, np.result_type(half.dtype, np.complex64))
    count = half.size
    full[:count] = half
    full[0] = full[0].real
    if n % 2 == 0:
        full[n // 2] = full[n // 2].real
    full[count:] = full[1 : n - count + 1][::-1].conj()
    return full


class FilterLayout(NamedTuple):
    """Which frequencies the rows of a spectrum are, and how large its tiles get."""

    fields: np.ndarray
    keep: tuple[Any, ...]
    blocks: int
    numbers: int
    scale: float
    half: bool


@lru_cache(maxsize=128)
def _filter_layout(kind: str, lengths: tuple[int, ...], dtype: str) -> FilterLayout:
    """The layout of filters of images or volumes whose columns are transformed as `kind`."""
    lanes = host.lanes(dtype)
    half = kind != f.COMPLEX
    first = np.arange(lengths[0] // 2 + 1) if half else tables.axis(lengths[0], dtype).frequency
    if len(lengths) == 2:
        planes, plane_length, rows = np.zeros(1, np.int64), 1, first
    else:
        planes, plane_length, rows = first, lengths[0], tables.axis(lengths[1], dtype).frequency
    columns = tables.axis(lengths[-1], dtype)
    blocks = -(-len(rows) // lanes)
    fields = np.zeros(f.FILTER_FIELDS, np.int64)
    fields[f.FILTER_ROWS] = len(rows)
    fields[f.FILTER_COLUMNS] = lengths[-1]
    fields[f.FILTER_PLANE_LENGTH] = plane_length
    fields[f.FILTER_ROW_LENGTH] = lengths[-2]
    fields[f.FILTER_PLANE_ORDER] = planes.ctypes.data
    fields[f.FILTER_ROW_ORDER] = rows.ctypes.data
    fields[f.FILTER_POSITION] = columns.position.ctypes.data
    numbers = len(planes) * blocks * lengths[-1] * 2 * lanes
    scale = (0.5 if half else 1.0) / math.prod(lengths)
    return FilterLayout(fields, (planes, rows, columns), len(planes) * blocks, numbers, scale, half)


def _arrange(layout: FilterLayout, factors: Any, strides: Any, dtype: str, tiles: int, workers: int) -> None:
    """Lay a filter out at the address `tiles`."""
    fields = layout.fields.copy()
    numbers = [stride // host.ITEM_BYTES[dtype] for stride in strides]
    fields[f.FILTER_PLANE_STRIDE] = numbers[-3] if len(numbers) == 3 else 0
    fields[f.FILTER_ROW_STRIDE] = numbers[-2]
    fields[f.FILTER_COLUMN_STRIDE] = numbers[-1]
    fields[f.FILTER_COMPLEX] = np.iscomplexobj(factors)
    fields[f.FILTER_HALF] = layout.half
    scale = np.array(layout.scale, dtype)
    kernel = kernels.kernel("arrange", dtype)
    job, data, unit = fields.ctypes.data, factors.ctypes.data, scale.ctypes.data
    workspace.run(lambda first, last: kernel(job, data, unit, tiles, first, last), layout.blocks, workers)


def _run_images(
    job: jobs.Job,
    layout: FilterLayout,
    images: Any,
    step: int,
    factors: Any,
    strides: Any,
    results: Any,
    result_step: int,
    workers: int,
) -> None:
    dtype = _real(images.dtype)
    memory = (_bytes(job.spectrum, dtype), _bytes(job.work, dtype), _bytes(job.scratch, dtype))
    source, target, count = images.ctypes.data, results.ctypes.data, len(images)
    whole = kernels.kernel("images", dtype)
    with workspace.scratch(_bytes(layout.numbers, dtype)) as (tiles,):
        _arrange(layout, factors, strides, dtype, tiles, workers)

        def some(first: int, last: int) -> None:
            with workspace.scratch(*memory) as (spectrum, work, scratch):
                whole(job.address, source, step, target, result_step, tiles, spectrum, work, scratch, first, last)

        if workers == 1 or count >= 2 * workers:
            workspace.run(some, count, workers)
            return
        with workspace.scratch(memory[0]) as (spectrum,):
            for image in range(count):
                here = source + _bytes(image * step, dtype)
                there = target + _bytes(image * result_step, dtype)
                _share_image(job, dtype, here, there, tiles, spectrum, memory, workers)


def _share_image(
    job: jobs.Job,
    dtype: str,
    source: int,
    target: int,
    tiles: int,
    spectrum: int,
    memory: tuple[int, ...],
    workers: int,
) -> None:
    """One image by several threads: each stage in parts, all of a stage before the next."""
    columns_in, inner, columns_out = (kernels.kernel(name, dtype) for name in job.stages)

    def first_stage(first: int, last: int) -> None:
        with workspace.scratch(memory[2]) as (scratch,):
            columns_in(job.address, source, spectrum, scratch, first, last)

    def second_stage(first: int, last: int) -> None:
        with workspace.scratch(*memory[1:]) as (work, scratch):
            inner(job.address, spectrum, tiles, work, scratch, first, last)

    def third_stage(first: int, last: int) -> None:
        with workspace.scratch(memory[2]) as (scratch,):
            columns_out(job.address, spectrum, target, scratch, first, last)

    workspace.run(first_stage, job.units, workers)
    workspace.run(second_stage, job.inner, workers)
    workspace.run(third_stage, job.units, workers)


def _line_transfer(kind: str, factors: np.ndarray, n: int, dtype: str) -> np.ndarray:
    """Scaled factors of one axis, in the order in which its kernel reads them."""
    if kind == f.EVEN:
        ordered = factors * (0.5 / n)
    else:
        full = factors if kind == f.COMPLEX else _completed(factors, n)
        ordered = full[tables.axis(n, dtype).frequency] * (1.0 / n)
    return np.ascontiguousarray(ordered, {"float32": np.complex64, "float64": np.complex128}[dtype])


def _line_kind(array: np.ndarray, n: int) -> str:
    return f.COMPLEX if np.iscomplexobj(array) else f.ZERO if n % 2 else f.EVEN


def _filter_rows(rows: Any, step: int, factors: np.ndarray, results: Any, result_step: int, workers: int) -> None:
    """Rows with a common filter, as many at a time as there are lanes."""
    count, n = rows.shape
    dtype = _real(rows.dtype)
    lanes = host.lanes(dtype)
    if n >= LONG and (count < lanes or n * lanes * 2 * host.ITEM_BYTES[dtype] > LONG_BYTES):
        _filter_long(rows, step, factors, results, result_step, workers)
        return
    kind = _line_kind(rows, n)
    job = jobs.line_job(kind, n, 1, dtype)
    transfer = _line_transfer(kind, factors, n, dtype)
    kernel = kernels.kernel(job.stages[0], dtype)
    source, target, table = rows.ctypes.data, results.ctypes.data, transfer.ctypes.data

    def some(first: int, last: int) -> None:
        with workspace.scratch(_bytes(job.scratch, dtype)) as (scratch,):
            start, stop = first * lanes, min(last * lanes, count)
            kernel(job.address, source, step, target, result_step, table, scratch, start, stop)

    workspace.run(some, -(-count // lanes), workers)


def _filter_lines(x: np.ndarray, factors: np.ndarray, out: np.ndarray, axis: int, workers: int) -> None:
    """Along an axis that is not the last: neighbouring columns are the lanes."""
    dtype, n = _real(x.dtype), x.shape[axis]
    kind = _line_kind(x, n)
    inner = math.prod(x.shape[axis % x.ndim + 1 :])
    job = jobs.line_job(kind, n, inner, dtype)
    transfer = _line_transfer(kind, factors, n, dtype)
    kernel = kernels.kernel(job.stages[0], dtype)
    source, target, table = x.ctypes.data, out.ctypes.data, transfer.ctypes.data

    def some(first: int, last: int) -> None:
        with workspace.scratch(_bytes(job.scratch, dtype)) as (scratch,):
            kernel(job.address, source, target, table, scratch, first, last)

    workspace.run(some, x.size // (n * inner) * job.units, workers)
