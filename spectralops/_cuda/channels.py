"""Linear maps of the channels of each point: what PyTorch's layers launch beside matrix products, in single precision.

Fields are (samples, channels, points), contiguous.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from spectralops._cuda.launch import Kernel, index_option
from spectralops._cuda.program import Address, Program

__all__ = ["gelu", "gelu_backward", "outer"]

FILE = "channels.cu"
GELU = np.dtype([(name, np.int64) for name in ("pieces", "channels", "blocks")])
OUTER = np.dtype([(name, np.int64) for name in ("rows", "columns", "points", "chunks", "sample_chunks")])
GELU_THREADS, GELU_PIECES = 256, 4
# Of `outer`: points of a chunk, chunks in shared memory, floats between channels there, blocks of a multiprocessor.
DEPTH, STAGES, PITCH, RESIDENT = 32, 3, 36, 2
# Most warps of a block along the channels of either field, and in all.
MOST_WARPS, ALL_WARPS = 4, 8


def _wide(points: int) -> str:
    """What is read at a time: rows begin at multiples of sixteen bytes, or do not."""
    return "Four" if points % 4 == 0 else "One"


def _options(count: int) -> tuple[str, ...]:
    return (index_option(32 if count < 2**31 else 64),)


def _activation(name: str, shape: tuple[int, int, int]) -> tuple[Kernel, np.ndarray[Any, Any]]:
    samples, channels, points = shape
    wide = _wide(points)
    pieces = points // (4 if wide == "Four" else 1)
    blocks = -(-pieces // (GELU_THREADS * GELU_PIECES))
    arguments = np.array([(pieces, channels, blocks)], GELU)
    options = _options(samples * channels * points + GELU_THREADS * GELU_PIECES)
    return Kernel(FILE, f"{name}<{wide}>", (samples * channels * blocks,), (GELU_THREADS,), 0, options), arguments


@lru_cache(maxsize=256)
def gelu(shape: tuple[int, int, int]) -> Program:
    """GELU(z + bias); addresses: z, bias, result."""
    kernel, arguments = _activation("gelu", shape)
    program = Program()
    program.add(kernel, *map(Address, range(3)), arguments)
    return program


@lru_cache(maxsize=256)
def gelu_backward(shape: tuple[int, int, int]) -> Program:
    """Its gradient with respect to z; addresses: that with respect to the result, z, bias, and what is found."""
    kernel, arguments = _activation("gelu_backward", shape)
    program = Program()
    program.add(kernel, *map(Address, range(4)), arguments)
    return program


@lru_cache(maxsize=256)
def outer(samples: int, rows: int, columns: int, points: int, multiprocessors: int) -> tuple[Program, int]:
    """Sums over samples and points of g[o] x[i] and of g[o]; addresses: g, x, sums; and how many parts these are in.

    A part is (rows, columns) of products, then `rows` sums.
    """
    mt, nt = 2 if rows > 16 else 1, 4 if columns > 8 else 1
    wm = _warps(rows, 16 * mt, MOST_WARPS)
    wn = _warps(columns, 8 * nt, ALL_WARPS // wm)
    tile, threads = (16 * mt * wm, 8 * nt * wn), 32 * wm * wn
    tiles = -(-rows // tile[0]) * -(-columns // tile[1])
    sample_chunks = -(-points // DEPTH)
    chunks = samples * sample_chunks
    parts = max(1, min(chunks, RESIDENT * multiprocessors // tiles))
    arguments = np.array([(rows, columns, points, chunks, sample_chunks)], OUTER)
    options = _options(max(samples * max(rows, columns) * points, parts * rows * (columns + 1)))
    shared = STAGES * sum(tile) * PITCH * 4
    name = f"outer<{_wide(points)}, {mt}, {nt}, {wm}, {wn}>"
    program = Program()
    kernel = Kernel(FILE, name, (parts, tiles), (threads,), shared, options)
    program.add(kernel, *map(Address, range(3)), arguments)
    return program, parts


def _warps(channels: int, each: int, most: int) -> int:
    """Warps along so many channels: a power of two."""
    found = 1
    while found < min(most, MOST_WARPS) and found * each < channels:
        found *= 2
    return found
