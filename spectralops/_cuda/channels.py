"""Linear maps of the channels of each point with all that follows them, and their gradients, in single precision.

Fields are (samples, channels, points), contiguous.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spectralops._cuda.launch import Kernel, index_option
from spectralops._cuda.program import Address, Program

__all__ = ["gelu_backward", "mapped", "outer"]

FILE = "channels.cu"
MAP = np.dtype([(name, np.int64) for name in ("rows", "columns", "points", "tiles", "row", "column")])
GELU = np.dtype([(name, np.int64) for name in ("pieces", "channels", "blocks")])
OUTER = np.dtype([(name, np.int64) for name in ("rows", "columns", "points", "chunks", "sample_chunks")])
GELU_THREADS, GELU_PIECES = 256, 4
# Of `channel_map`: channels of x in a stage, stages.
MAP_DEPTH, MAP_STAGES = 16, 3
# Its tiles by the most rows they are for: MT, NT, WM, WN.
MAP_TILES = {16: (1, 4, 1, 4), 32: (2, 4, 1, 4), 64: (2, 8, 2, 2)}
TALL_TILE = (2, 4, 4, 2)
# Of `outer`: points of a chunk, chunks in shared memory, floats between channels there, blocks of a multiprocessor.
DEPTH, STAGES, PITCH, RESIDENT = 32, 3, 36, 2
# Most warps of a block along the channels of either field, and in all.
MOST_WARPS, ALL_WARPS = 4, 8


def _wide(points: int) -> str:
    """What is read at a time: rows begin at multiples of sixteen bytes, or do not."""
    return "Four" if points % 4 == 0 else "One"


def _options(count: int) -> tuple[str, ...]:
    return (index_option(32 if count < 2**31 else 64),)


@lru_cache(maxsize=256)
def mapped(samples: int, rows: int, columns: int, points: int, turned: bool, active: bool) -> Program:
    """Maps w x + y + b, or GELU of it; addresses: w, x, y, both parts of b, the sum without b, result.

    x has `columns` channels and the result `rows`; w is (rows, columns), or `turned`. y and both parts of b may be
    null. y may be the result, or the sum without b, which is written only if `active`.
    """
    mt, nt, wm, wn = next((tile for most, tile in MAP_TILES.items() if rows <= most), TALL_TILE)
    m, n = 16 * mt * wm, 8 * nt * wn
    tiles = -(-points // n)
    row, column = (1, rows) if turned else (columns, 1)
    arguments = np.array([(rows, columns, points, tiles, row, column)], MAP)
    name = f"channel_map<{_wide(points)}, {mt}, {nt}, {wm}, {wn}, {str(active).lower()}>"
    shared = MAP_STAGES * 4 * (m * (MAP_DEPTH + 4) + MAP_DEPTH * (n + 8))
    grid = (samples * tiles, -(-rows // m))
    kernel = Kernel(FILE, name, grid, (32 * wm * wn,), shared, _options(samples * max(rows, columns) * (points + n)))
    program = Program()
    program.add(kernel, *map(Address, range(7)), arguments)
    return program


@lru_cache(maxsize=256)
def gelu_backward(samples: int, channels: int, points: int) -> Program:
    """The gradient of GELU(z + b) with respect to z; addresses: that with respect to the result, z, both parts of b,
    and what is found. Each part may be null.
    """
    wide = _wide(points)
    pieces = points // (4 if wide == "Four" else 1)
    blocks = -(-pieces // (GELU_THREADS * GELU_PIECES))
    arguments = np.array([(pieces, channels, blocks)], GELU)
    options = _options(samples * channels * points + GELU_THREADS * GELU_PIECES)
    kernel = Kernel(FILE, f"gelu_backward<{wide}>", (samples * channels * blocks,), (GELU_THREADS,), 0, options)
    program = Program()
    program.add(kernel, *map(Address, range(5)), arguments)
    return program


@lru_cache(maxsize=256)
def outer(samples: int, rows: int, columns: int, points: int, multiprocessors: int) -> tuple[Program, int]:
    """Sums over samples and points of g[o] x[i] and of g[o]; addresses: g, x, scratch, sums; and numbers in scratch.

    The sums are (rows, columns) of products, then twice the `rows` sums of g.
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
    size = rows * (columns + 1)
    kernel = Kernel(FILE, "sum_parts", (-(-size // 32),), (256,), 0, options)
    program.add(kernel, Address(2), Address(3), *map(np.int64, (parts, size, rows * columns)))
    return program, parts * size


def _warps(channels: int, each: int, most: int) -> int:
    """Warps along so many channels: a power of two."""
    found = 1
    while found < min(most, MOST_WARPS) and found * each < channels:
        found *= 2
    return found
