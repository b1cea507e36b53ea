"""Geometry of the transform kernels: what a block does, and how kernels are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from spectralops._cuda import launch, module
from spectralops._cuda.few import Few
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Chirp, Passes, passes
from spectralops._cuda.program import address
from spectralops.errors import UnsupportedError

__all__ = [
    "ALL_REGISTERS", "BYTES", "CLUSTER_BYTES", "COLUMNS", "FACTOR", "FILTER", "MOST_FACTORS", "MULTIPROCESSOR_BYTES",
    "PAD", "REALS", "SHARED_BYTES", "STORED", "SYSTEM_BYTES", "Lines",
    "column_geometry", "columns_form", "columns_kernel", "itemsize_of", "kept_on_device", "namespace",
    "present_device", "present_shared_bytes", "required", "row_geometry", "rows_kernel", "stored_as", "unfit", "usable",
    "words",
]  # fmt: skip

FILE = "spectral.cu"
# Shared memory that a block may use on every device since compute capability 8.0.
SHARED_BYTES = 96 * 1024
# The same on devices that have clusters.
CLUSTER_BYTES = 227 * 1024
# Shared memory that the system takes of each block, and registers of a multiprocessor.
SYSTEM_BYTES, ALL_REGISTERS = 1024, 65536
# Shared memory of a multiprocessor that has clusters, as much as its largest block.
MULTIPROCESSOR_BYTES = CLUSTER_BYTES + SYSTEM_BYTES
# Threads of a block that the geometry aims at, and the most it may have.
THREADS, MOST_THREADS = 128, 512

MOST_FACTORS = 3
FACTOR = np.dtype([(name, np.int64) for name in ("values", "batch", "period", "stride1", "stride2")])
FILTER = np.dtype(
    [
        ("factors", FACTOR, MOST_FACTORS),
        ("first", np.int64),
        ("inner", np.int64),
        ("scale", np.float64),
        ("sign", np.float64),
        ("beside", np.int64),
        ("apart", np.int64),
    ]
)
PAD = np.dtype([(name, np.int64, 3) for name in ("size", "before", "padded")])
COLUMNS = np.dtype(
    [(name, np.int64) for name in ("columns", "in_outer", "out_outer", "mirror", "nyquist", "nyquist_at")]
)


@dataclass(frozen=True, slots=True)
class Lines:
    """Geometry of a kernel over the contiguous axis."""

    passes: Passes | Chirp | Few
    lines: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.passes.threads * self.lines

    @property
    def template(self) -> str:
        """Template arguments: threads of a line, lines of a block, radices."""
        return f"{self.passes.threads}, {self.lines}, {self.passes.expression}"


def row_geometry(n: int, itemsize: int, shared_bytes: int = SHARED_BYTES, mirrored: bool = False) -> Lines | None:
    """Several lines a block, None where one does not fit; `mirrored` where wavenumbers k and n - k meet.

    A line that needs it takes all that the device has.
    """
    for threads, room in ((MOST_THREADS, SHARED_BYTES), (MOST_THREADS, shared_bytes), (2 * MOST_THREADS, shared_bytes)):
        found = passes(n, itemsize, most_threads=threads, mirrored=mirrored)
        if found is not None and found.padded * 2 * itemsize <= room:
            fits = SHARED_BYTES // (found.padded * 2 * itemsize)
            return Lines(found, max(1, min(THREADS // found.threads, fits)))
    return None


def column_geometry(n: int, itemsize: int, pairs: bool, shared_bytes: int = SHARED_BYTES) -> Lines | None:
    """As many neighbouring columns a block as fit, up to 128 bytes of them.

    Where long columns leave room for few of them, a block takes all that the device has, unless it computes so much
    (:class:`Chirp`) that reading does not matter.
    """
    last = None
    for width, threads, room in _tiles(64 // itemsize, shared_bytes):
        found = passes(n, itemsize, width, pairs, threads // width)
        if found is not None and found.padded * width * 2 * itemsize <= room:
            if isinstance(found, Passes) or room == SHARED_BYTES:
                return Lines(found, width)
            last = last or Lines(found, width)
    return last


def _tiles(widest: int, shared_bytes: int) -> list[tuple[int, int, int]]:
    """Columns, threads and shared memory of a block, the best first."""
    usual = [(widest >> k, MOST_THREADS, SHARED_BYTES) for k in range(widest.bit_length())]
    whole = [(width, 2 * MOST_THREADS, shared_bytes) for width, _, _ in usual]
    # Below 64 bytes at a time, reading is slower than having one block on a multiprocessor.
    return [*usual[:2], *(tile for pair in zip(whole[1:], usual[1:], strict=True) for tile in pair)]


def columns_form(
    sizes: tuple[int, ...], itemsize: int, halved: bool, shared_bytes: int
) -> tuple[str, tuple[Lines, ...]] | str:
    """Form of the last axis and geometry of those before it, or in words why there is none."""
    middle = len(sizes) - 2
    for form in ("PAIRS", "HALF") if halved else ("FULL",):
        columns = [
            column_geometry(n, itemsize, form == "PAIRS" and axis == middle, shared_bytes)
            for axis, n in enumerate(sizes[:-1])
        ]
        found = tuple(each for each in columns if each is not None)
        if len(found) == len(columns):
            return form, found
    return f"lengths {sizes[:-1]} do not fit a block"


def unfit(sizes: tuple[int, ...]) -> str:
    """Why no kernel transforms so many axes; nothing if they do."""
    return "" if 1 <= len(sizes) <= 3 else f"kernels take 1 to 3 axes, not {len(sizes)}"


T = TypeVar("T")


def required(plan: Any, found: T | str) -> T:
    """What was found for a plan; raises where that is the reason why there are no kernels."""
    if isinstance(found, str):
        raise UnsupportedError(f"{plan.op}: backend is {plan.backend!r}, but must be one without kernels: {found}")
    return found


def present_device() -> launch.Device | None:
    """The device that kernels run on; None where there is none."""
    try:
        return (launch.host_runner or launch.cuda_runner).device()
    except Exception:  # no CuPy, no device, or a driver too old for this CuPy
        return None


def present_shared_bytes(otherwise: int = SHARED_BYTES) -> int:
    """Shared memory that a block may use on the current device; `otherwise` where there is none."""
    device = present_device()
    return otherwise if device is None else device.shared_bytes


def itemsize_of(plan: Any) -> int:
    """Bytes of a real number in the arithmetic of a plan."""
    return 8 if plan.compute_dtype in ("float64", "complex128") else 4


# C++ types: of 16-bit values in memory, of real numbers by their bytes; and the bytes of each.
STORED = {"float16": "float16_t", "bfloat16": "bfloat16_t"}
REALS = {4: "float", 8: "double"}
BYTES = {"float16_t": 2, "bfloat16_t": 2, "float": 4, "double": 8}


def stored_as(plan: Any, fields: int = 1) -> str:
    """The C++ type of a plan's first arrays in memory, as `_support.passed` hands them to who takes 16 bits."""
    first = plan.operands[0].spec.dtype
    same = all((each.spec.dtype, each.compute) == (first, "float32") for each in plan.operands[:fields])
    stored = same and (plan.out_dtype == first or fields == len(plan.operands))
    return STORED.get(first, REALS[4]) if stored else REALS[itemsize_of(plan)]


def words(lines: Sequence[Lines]) -> str:
    """Radices of the axes, for explain()."""
    return " x ".join(each.passes.words for each in lines)


def rows_kernel(
    name: str,
    reals: tuple[str, str],
    form: str,
    kept: tuple[int, int],
    row: Lines,
    lines: int,
    options: tuple[str, ...],
    padding: str = "BARE",
    more: str = "",
) -> Kernel:
    """Transform of `lines` contiguous lines.

    `reals`: types of the values in memory and of the arithmetic; `kept`: stored wavenumbers and the lowest, as the
    kernels count them.
    """
    wavenumbers = "" if name in ("rows_filter", "twos_filter") else f"{kept[0]}, {kept[1]}, "
    return Kernel(
        FILE,
        f"{name}<{', '.join(reals)}, {form}, {wavenumbers}{padding}, {row.template}{more}>",
        (-(-lines // (2 * row.lines if name == "twos_filter" else row.lines)),),
        (row.threads,),
        row.passes.padded * row.lines * COMPLEX_BYTES[reals[1]],
        options,
        early=name != "rows_filter",
    )


def columns_kernel(
    mode: str,
    real: str,
    source: tuple[str, int],
    target: tuple[str, int],
    kept: tuple[int, int],
    column: Lines,
    blocks: tuple[int, int],
    options: tuple[str, ...],
    more: str = "",
) -> Kernel:
    """Transform along another axis. `source`, `target`: form and pitch; `blocks`: planes and columns of a plane."""
    planes, columns = blocks
    return Kernel(
        FILE,
        f"columns<{real}, {mode}, {source[0]}, {source[1]}, {target[0]}, {target[1]}, {kept[0]}, {kept[1]}, "
        f"{column.template}{more}>",
        (planes * -(-columns // column.lines),),
        (column.threads,),
        column.passes.padded * column.lines * COMPLEX_BYTES[real],
        options,
        early=True,
    )


COMPLEX_BYTES = {"float": 8, "double": 16}


def namespace(out: Any) -> Any:
    """The array library of `out`."""
    if isinstance(out, np.ndarray):
        return np
    import cupy

    return cupy


def usable(array: Any, alignment: int) -> Any:
    """The array as kernels read it: C-contiguous and aligned; a copy where it is not."""
    if not array.flags.c_contiguous:
        return namespace(array).ascontiguousarray(array)
    return array if address(array) % alignment == 0 else array.copy()


def kept_on_device(values: Sequence[np.ndarray[Any, Any]], xp: Any) -> tuple[Any, ...]:
    """Copies that every stream may read from now on, in memory of CuPy's own, which no caller's pool takes back."""
    if xp is np:
        return tuple(np.asarray(value) for value in values)
    module.warm("a table of factors")
    with xp.cuda.using_allocator(xp.get_default_memory_pool().malloc):
        arrays = tuple(xp.asarray(value) for value in values)
    xp.cuda.get_current_stream().synchronize()
    return arrays
