"""How a step is cut up: the padded layout of a tile, the tiles of a pass, and the levels that a pass advances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from spectralops._cpu.stencil.layout import UNIT_BYTES, WORD_BYTES, Item, Record, vectors_of
from spectralops._cpu.stencil.program import Program
from spectralops._cpu.stencil.schedule import reach, schedule
from spectralops._cpu.vector import host, workspace

__all__ = ["Frame", "Layout", "Pass", "passes"]

Three = tuple[int, int, int]
# A grid whose scratch memory takes no more than this stays in a core's own cache, level after level over all of it;
# otherwise this is what all levels of a pass work on at a time. It is a part of 512 KiB, which few CPUs fall below.
CACHE_BYTES = 320 << 10
# The same in three dimensions, where so little would be too little, and for parts of interleaved rows, of which short
# ones leave much to compute twice and to load in small pieces: a part of the cache that cores share.
SHARED_BYTES = 2 << 20
# Scratch memory of a tile of one level, which leaves room in that cache for what goes in and comes out.
TILE_BYTES = 128 << 10
# A single grid of a smaller part than this of what stays in cache is not worth cutting up for further threads.
SHARED_FRACTION = 4
# Deeper passes gain nothing: memory is no longer what they wait for. Nor do steps with more operations a cell.
MOST_LEVELS = {1: 64, 2: 32, 3: 8}
# With a mask in two dimensions, of which much is made when it is loaded, half as many more do gain.
MASKED_LEVELS = 48
# Rows of so many bytes are not cut where nothing but u has scratch memory: the few that a level is at stay near, and to
# compute cells twice costs more than to reach further for the others. As many levels of planes of which no cell is
# computed twice.
ROW_BYTES, WHOLE_LEVELS = 8192, 128
FEW_LEVELS, MANY_OPERATIONS = 4, 60
# Where everything stays in cache what is loaded counts for little; the list of levels is still short.
CACHED_LEVELS = 4096
# Rows (and planes) of a level between two levels' turns; multiples of the four rows that kernels take at a time. Four
# rows that a level reads and writes stay in the nearest cache until the next one, eight do not.
BLOCK_ROWS = {2: 4, 3: 16}
BLOCK_PLANES = 2
# A tile whose rows take turns in scratch memory is at most so many times taller than what a pass reaches beyond it, or
# has so many rows: its neighbours compute little twice, and the order of its levels is still a short list.
TALL_REACHES, TALL_ROWS = 64, 4096
# Rows that a single step computes straight from the array before tiles compute their ends, or more where short ones
# would make many tiles: as much of the array as a tile of one level has scratch memory.
STRAIGHT_ROWS = 32
# Rows are interleaved for so many levels at least, as that costs several moves of lanes a vector; where of whole blocks
# no more than a part is left over; and with so many lanes at most, else blocks are long.
LEAST_LEVELS, SPARE_FRACTION, MOST_LANES = 4, 8, 8
# Rows of sums of neighbours gain less: for so many levels, and in parts of so many blocks, of which those at either end
# are computed twice.
PLAIN_LEVELS, PLAIN_BLOCKS = 16, 16
# A tile is at least this many times longer than what a pass reaches beyond it: neighbours compute the rest twice.
TILE_REACHES = {1: 16, 2: 16, 3: 8}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the cells of a tile lie in each field of scratch memory, in elements."""

    base: int
    pitch: int
    plane_pitch: int
    size: int

    @classmethod
    def of_tile(cls, extent: Three, widths: Three, itemsize: int, unit: int = 1, aligned: bool = False) -> Layout:
        """The layout of (planes, rows, cells) with `widths` ghosts on either side, rows being made of so many cells.

        If `aligned`, all distances are of whole units, and rows begin with one.
        """
        planes, rows, n = extent[0], extent[1], -(-extent[2] // unit) * unit
        step = unit if aligned else 1
        line = max(step, host.LINE_BYTES // itemsize)
        # A vector more than the ghosts: what is carried along a row begins with the vector before its first.
        margin = line if aligned else (-(-widths[2] // line) + (widths[2] > 0)) * line
        pitch = host.off_page(margin + -(-(n + widths[2]) // line) * line, itemsize, step)
        plane_pitch = (rows + 2 * widths[1]) * pitch
        if planes > 1:
            plane_pitch = host.off_page(plane_pitch, itemsize, step)
        base = margin + widths[1] * pitch + widths[0] * plane_pitch
        # Vectors may run over the end of the last row; rows of two fields should not share a set of the cache.
        size = (planes + 2 * widths[0]) * plane_pitch + 2 * line
        return cls(base, pitch, plane_pitch, host.off_page(size, itemsize, step))


@dataclass(frozen=True, slots=True)
class Frame:
    """`grids` grids of (planes, rows, cells), stepped along the last `dims` axes; what their tiles depend on."""

    grids: int
    shape: Three
    dims: int
    periodic: tuple[bool, bool, bool]
    widths: Three
    program: Program

    @property
    def itemsize(self) -> int:
        return np.dtype(self.program.dtype).itemsize

    @property
    def lanes(self) -> int:
        return host.lanes(self.program.dtype)

    @property
    def unit(self) -> int:
        """Cells of a block of interleaved rows."""
        return self.lanes * vectors_of(self.lanes)

    @property
    def cell_bytes(self) -> int:
        """Scratch memory of a cell."""
        fields, masked = self.program.scratch, self.program.masked
        if masked and self.may_interleave:
            return (fields - 1) * self.itemsize + -(-(UNIT_BYTES + WORD_BYTES) // self.unit)
        return fields * self.itemsize

    def scratch(self, layout: Layout, interleaved: bool) -> int:
        """Elements of scratch memory of all fields of a tile."""
        fields, masked = self.program.scratch, self.program.masked
        if not (masked and interleaved):
            return layout.size * fields
        # Bytes and words of the mask, and a row of the array's bytes with what lies before and after it.
        openings = layout.size // self.unit * (UNIT_BYTES + WORD_BYTES) + layout.pitch + 2 * self.unit
        return layout.size * (fields - 1) + workspace.padded(openings) // self.itemsize

    @property
    def turning(self) -> bool:
        """Whether rows may wrap around inside a tile whose levels begin, each, further along than the one before."""
        periodic, width = self.periodic[1], self.widths[1]
        return self.dims == 2 and periodic and 0 < 2 * width <= self.shape[1] and self.program.stages == 1

    def layout(self, extent: Three, interleaved: bool = False) -> Layout:
        unit = self.unit if interleaved else 1
        return Layout.of_tile(extent, self.widths, self.itemsize, unit, interleaved and self.program.masked)

    def interleaves(self, levels: int, cells: int) -> bool:
        """Whether rows of so many cells are interleaved on their way through so many levels."""
        whole = -(-cells // self.unit) * self.unit
        filled = self.lanes <= MOST_LANES and whole * SPARE_FRACTION <= cells * (SPARE_FRACTION + 1)
        long = cells == self.shape[2] or cells >= PLAIN_BLOCKS * self.unit
        plain = self.dims == 2 and long and levels >= PLAIN_LEVELS and self.program.plain
        lasting = plain or (levels >= LEAST_LEVELS and self.program.interleaves)
        return lasting and filled and self.widths[2] == 1

    @property
    def may_interleave(self) -> bool:
        """Whether rows that are cut are interleaved where they are long enough and go through many levels."""
        return self.lanes <= MOST_LANES and self.widths[2] == 1 and self.program.interleaves


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One pass over memory: its tiles as rows of integers, their common layout, and the records that they point to."""

    steps: int
    items: np.ndarray[Any, Any]
    address: int  # of the items
    layout: Layout
    interleaved: bool
    records: tuple[np.ndarray[Any, Any], ...]
    size: int  # elements of scratch memory of all fields
    passing: int  # before them, of each field that passes
    kept: int  # behind them, for rows that wrap around


@lru_cache(maxsize=64)
def passes(frame: Frame, steps: int, workers: int, contiguous: bool = False) -> list[Pass]:
    """The passes that advance all grids by a number of steps; `contiguous`: whether they lie in C order."""
    if frame.dims == 1:
        return _lines(frame, steps, workers)
    size = frame.layout(frame.shape).size * frame.cell_bytes
    alone = frame.grids < workers and size >= CACHE_BYTES // SHARED_FRACTION
    if size <= CACHE_BYTES and not alone:
        return _repeated(steps, _most_in_cache(frame), partial(_in_cache, frame, 1))
    if contiguous and steps == 1 and _goes_straight(frame):
        return [_straight(frame)]
    return _repeated(steps, _most_steps(frame, workers), partial(_tiled, frame, workers))


def _in_cache(frame: Frame, bands: int, count: int) -> Pass:
    """A pass of so many steps over grids, or bundles of lines, that stay in cache."""
    planes, rows, n = frame.shape
    return _pass(frame, count, [[(0, planes)], _cuts(rows, bands), [(0, n)]], (planes, rows))


def _most_in_cache(frame: Frame) -> int:
    """Steps of such a pass at most."""
    return max(1, CACHED_LEVELS // frame.program.stages)


def _goes_straight(frame: Frame) -> bool:
    """Whether a step reads nothing but u, and planes have cells enough that lie nowhere near an end."""
    program, (_, rows, n) = frame.program, frame.shape
    alone = program.scratch == program.buffers and program.stages == 1
    height, length = _ends(frame)
    return frame.dims == 2 and alone and rows > 2 * height and n > 4 * length


def _ends(frame: Frame) -> tuple[int, int]:
    """Rows and cells at either end that tiles compute; the very last may be held, also where nothing moves."""
    return max(1, frame.widths[1]), host.LINE_BYTES // frame.itemsize


def _straight(frame: Frame) -> Pass:
    """A pass of one step from the array to the result; tiles in scratch memory compute what lies at the ends."""
    (_, rows, n), (height, length) = frame.shape, _ends(frame)
    inner, most = rows - 2 * height, max(STRAIGHT_ROWS, TILE_BYTES // (n * frame.itemsize))
    bands = [(first + height, last + height) for first, last in _cuts(inner, _count(inner, most))]
    blocks = np.zeros((len(bands), len(Record)), np.int64)
    blocks[:, Record.STAGE], blocks[:, Record.P1] = -3, 1
    blocks[:, [Record.J0, Record.J1]] = bands
    blocks[:, Record.I0], blocks[:, Record.I1] = length, n - length
    tiles = _Tiles(frame, 1, (1, BLOCK_ROWS[2]))
    for k, band in enumerate(bands):
        tiles.items.append((0, 0, 0, 0, 1, rows, n, 0, blocks[k].ctypes.data, 1))
        tiles.add([[(0, 1)], [band], [(0, length), (n - length, n)]])
    parts = _count(n, TILE_BYTES // (3 * height * frame.cell_bytes))
    tiles.add([[(0, 1)], [(0, height), (rows - height, rows)], _cuts(n, parts)])
    return tiles.made(1, blocks)


def _most_steps(frame: Frame, workers: int) -> int:
    """Steps of a pass at most."""
    levels = MOST_LEVELS[frame.dims]
    if frame.program.operations > MANY_OPERATIONS:
        levels = FEW_LEVELS
    elif frame.dims == 2 and _is_whole(frame, workers):
        levels = max(levels, WHOLE_LEVELS)
    elif frame.program.masked and frame.dims == 2:
        levels = max(levels, MASKED_LEVELS)
    return max(1, levels // frame.program.stages)


def _is_whole(frame: Frame, workers: int) -> bool:
    """Whether tiles of many levels are whole planes, of which no cell is computed twice."""
    _, rows, n = frame.shape
    alone = rows <= TALL_ROWS and n * frame.itemsize <= ROW_BYTES and frame.grids >= workers
    return alone and (frame.turning or not frame.periodic[1])


def _tiled(frame: Frame, workers: int, count: int) -> Pass:
    """A pass of so many steps over tiles of rows and parts of rows, each through all planes."""
    dims, (planes, rows, n) = frame.dims, frame.shape
    levels = count * frame.program.stages
    far = reach(levels, frame.widths, frame.lanes)
    least = [TILE_REACHES[dims] * k for k in far]
    height, tall = None, max(TALL_REACHES * far[1], TALL_ROWS)
    if dims == 2:
        window = far[1] + BLOCK_ROWS[dims]
        if levels == 1:  # has no use for rows that stay
            most = TILE_BYTES // (TILE_REACHES[dims] * frame.cell_bytes)
        else:  # the cache should hold twice what all levels work on at a time
            most = (SHARED_BYTES if frame.may_interleave else CACHE_BYTES) // (2 * window * frame.cell_bytes)
            if not frame.program.masked:
                most = max(most, 2 * ROW_BYTES // frame.cell_bytes)
        parts = _parts_of_rows(frame, levels, n, max(least[2], most), far[2])
        row_bytes = (-(-n // parts) + 2 * far[2] * (parts > 1)) * frame.cell_bytes
        if levels == 1:
            tall = TILE_BYTES // row_bytes
        else:
            height = max(2 * window, CACHE_BYTES // row_bytes)
    else:
        depth = far[0] + BLOCK_PLANES
        slab = depth * (BLOCK_ROWS[dims] + 2 * far[1]) * frame.cell_bytes
        parts = _count(n, max(least[2], SHARED_BYTES // slab))
        length = -(-n // parts) + 2 * far[2]
        tall = SHARED_BYTES // (depth * length * frame.cell_bytes) - 2 * far[1]
    bands = _count(rows, max(least[1], tall))
    if frame.grids * bands * parts < workers:
        # Several tiles for each worker where they are long enough, else one while that gains more than it costs.
        several = min(workers * workspace.PARTS_PER_WORKER, rows // max(1, least[1]))
        one = min(-(-workers // (frame.grids * parts)), rows // max(1, 2 * far[1]))
        bands = max(bands, several // workers * workers, one)
    cuts = [[(0, planes)], _cuts(rows, bands), _cuts(n, parts)]
    return _pass(frame, count, cuts, (BLOCK_PLANES, BLOCK_ROWS[dims]), height)


def _parts_of_rows(frame: Frame, levels: int, n: int, most: int, far: int) -> int:
    """Parts of rows of `n` cells: of about `most`, but of interleaved ones as many as leave the fewest units in all."""
    parts = _count(n, most)
    if parts == 1 or levels < LEAST_LEVELS or not frame.may_interleave:
        return parts

    def units(count: int) -> int:
        return count * -(-(-(-n // count) + 2 * far) // frame.unit)

    return min(range(max(2, parts - parts // 5), parts + parts // 2 + 1), key=units)


def _lines(frame: Frame, steps: int, workers: int) -> list[Pass]:
    """Rows that know nothing of one another: as many a tile as stay in cache, long ones in parts."""
    _, rows, n = frame.shape
    height = CACHE_BYTES // (frame.layout((1, 1, n)).pitch * frame.cell_bytes)
    if height:
        bands = max(_count(rows, height), min(rows, -(-workers // frame.grids)))
        return _repeated(steps, _most_in_cache(frame), partial(_in_cache, frame, bands))
    return _repeated(steps, _most_steps(frame, workers), partial(_cut_lines, frame))


def _cut_lines(frame: Frame, count: int) -> Pass:
    """A pass of so many steps over parts of rows."""
    _, rows, n = frame.shape
    reach = count * frame.program.stages * frame.widths[2]
    parts = _count(n, max(CACHE_BYTES // frame.cell_bytes, TILE_REACHES[1] * reach))
    return _pass(frame, count, [[(0, 1)], _cuts(rows, rows), _cuts(n, parts)], (1, 1))


def _repeated(steps: int, most: int, make: Callable[[int], Pass]) -> list[Pass]:
    """Passes of `most` steps each or less; those of equal steps are one, as its records may take megabytes."""
    counts = list(_parts(steps, most))
    made = {count: make(count) for count in set(counts)}
    return [made[count] for count in counts]


def _count(n: int, most: int) -> int:
    """Parts of at most `most`."""
    return -(-n // max(1, most))


def _parts(steps: int, most: int) -> Iterator[int]:
    """Nearly equal numbers of steps, none above `most`."""
    count = -(-steps // most)
    for k in range(count):
        yield steps * (k + 1) // count - steps * k // count


def _cuts(n: int, count: int) -> list[tuple[int, int]]:
    """Nearly equal ranges."""
    return [(n * k // count, n * (k + 1) // count) for k in range(count)]


def _pass(
    frame: Frame, steps: int, cuts: list[list[tuple[int, int]]], block: tuple[int, int], height: int | None = None
) -> Pass:
    """A pass over tiles that are cut along each axis as said, of whose rows scratch memory holds `height`."""
    tiles = _Tiles(frame, steps * frame.program.stages, block, height)
    tiles.add(cuts)
    return tiles.made(steps)


class _Tiles:
    """The tiles of a pass of so many levels: rows of integers, the records of their levels, and the largest extent."""

    def __init__(self, frame: Frame, levels: int, block: tuple[int, int], height: int | None = None) -> None:
        self.frame, self.levels, self.block, self.height = frame, levels, block, height
        self.items: list[tuple[int, ...]] = []
        self.records: dict[tuple[int, Three], Any] = {}
        self.largest: Three = (0, 0, 0)
        self.turning = False

    def add(self, cuts: list[list[tuple[int, int]]]) -> None:
        """Tiles that are cut along each axis as said.

        Ends of an axis are walls, except where it wraps around and is not in one block.
        """
        frame, block = self.frame, self.block
        far = reach(self.levels, frame.widths, frame.lanes)
        self.turning = frame.turning and self.levels > 1 and len(cuts[1]) == 1 and block[1] < frame.shape[1]
        sides = []  # of each axis: (first, extent, walls) of its tiles
        for axis, ranges in enumerate(cuts):
            low, high = 1 << 2 * axis, 2 << 2 * axis
            walled = not frame.periodic[axis] or (len(ranges) == 1 and (axis == 2 or block[axis] >= frame.shape[axis]))
            tiles = []
            for first, end in ranges:
                # Where a tile would look beyond a wall it begins there, and computes some of its neighbour's cells too.
                walls = (low if walled and first <= far[axis] else 0) | (
                    high if walled and end + far[axis] >= frame.shape[axis] else 0
                )
                first = 0 if walls & low else first
                end = frame.shape[axis] if walls & high else end
                before, after = (0 if walls & side else far[axis] for side in (low, high))
                if self.turning and axis == 1:  # what is next to the cells of the last level is made of fields
                    after = frame.widths[1]
                tiles.append((first - before, end - first + before + after, walls))
            sides.append(tiles)
        for z, planes, walls_z in sides[0]:
            for y, rows, walls_y in sides[1]:
                for x, cells, walls_x in sides[2]:
                    walls = walls_z | walls_y | walls_x
                    found = self._levels(walls, (planes, rows, cells))
                    self.items.append((0, z, y, x, planes, rows, cells, walls, found.ctypes.data, len(found)))
        planes, rows, cells = (max(extent for _, extent, _ in tiles) for tiles in sides)
        if self.height is not None:
            rows = min(rows, self.height)
        self.largest = max(planes, self.largest[0]), max(rows, self.largest[1]), max(cells, self.largest[2])

    def _levels(self, walls: int, extent: Three) -> Any:
        """The records of a tile."""
        key = walls, extent
        if key not in self.records:
            program, frame = self.frame.program, self.frame
            self.records[key] = schedule(
                program.integrator,
                program.stages,
                self.levels,
                extent,
                frame.widths,
                walls,
                self.block,
                frame.lanes,
                self.height,
                self.turning,
            )
        return self.records[key]

    def made(self, steps: int, *more: Any) -> Pass:
        """The pass over these tiles of every grid; it holds the records, and `more` that tiles point to."""
        table = np.tile(np.array(self.items, np.int64), (self.frame.grids, 1))
        table[:, Item.GRID] = np.repeat(np.arange(self.frame.grids), len(self.items))
        records = (*self.records.values(), *more)
        interleaved = self.frame.interleaves(self.levels, self.largest[2])
        layout = self.frame.layout(self.largest, interleaved)
        size = self.frame.scratch(layout, interleaved)
        # A block of rows, and as many before and behind them as are ghosts.
        rows = min(self.block[1], self.largest[1]) + 2 * self.frame.widths[1]
        line = max(self.frame.unit if interleaved else 1, host.LINE_BYTES // self.frame.itemsize)
        passing = rows * layout.pitch + 2 * line
        kept = (self.levels - 1) * 2 * self.frame.widths[1] * layout.pitch if self.turning else 0
        return Pass(steps, table, table.ctypes.data, layout, interleaved, records, size, passing, kept)
