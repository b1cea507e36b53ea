"""The parts of the stencil engine: tiles, and the order of their levels."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_engines import program

import spectralops as so
from spectralops import _compiler

pytestmark = pytest.mark.skipif(bool(_compiler.unavailable()), reason=_compiler.unavailable() or "kernels are compiled")
if not _compiler.unavailable():
    from spectralops._cpu.stencil import engine, tiles
    from spectralops._cpu.stencil import schedule as schedules
    from spectralops._cpu.stencil.layout import Flag, Item, Record, Wall, vectors_of
    from spectralops._cpu.stencil.program import Program
    from spectralops._cpu.stencil.schedule import BUFFERS, schedule
    from spectralops._cpu.vector import host

F32 = "float32"


def frame(shape: tuple[int, int, int], periodic: tuple[bool, bool, bool], dims: int = 2, grids: int = 1) -> tiles.Frame:
    widths = (0,) * (3 - dims) + (1,) * dims
    return tiles.Frame(grids, shape, dims, periodic, widths, program())


# Tiles.


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("periodic", [False, True])
def test_tiles_cover_every_cell_and_all_steps(periodic: bool, workers: int) -> None:
    found = tiles.passes(frame((1, 1000, 3000), (False, periodic, periodic), grids=2), 37, workers)
    assert [one.steps for one in found] == [18, 19]
    for one in found:
        seen = np.zeros((2, 1000, 3000), np.int8)
        reach, whole = one.steps, schedules.reach(one.steps, (0, 1, 1), host.lanes(F32))[2]
        assert whole % host.lanes(F32) == 0
        assert reach <= whole < reach + host.lanes(F32)
        for item in one.items:
            y, x, rows, cells, walls = (int(item[k]) for k in (Item.Y, Item.X, Item.ROWS, Item.CELLS, Item.WALLS))
            y0, x0 = (y if walls & Wall.LOW_ROW else y + reach), (x if walls & Wall.LOW_CELL else x + whole)
            y1 = y + rows - (0 if walls & Wall.HIGH_ROW else 1 if one.kept else reach)
            x1 = x + cells - (0 if walls & Wall.HIGH_CELL else whole)
            seen[item[Item.GRID], y0:y1, x0:x1] += 1
        assert (seen == 1).all()


def test_a_small_grid_is_one_tile_with_walls_on_all_sides() -> None:
    (one,) = tiles.passes(frame((1, 40, 64), (False, True, True)), 500, 1)
    assert one.steps == 500
    assert one.items[0, Item.WALLS] == 63
    assert one.items[0, Item.Z : Item.CELLS + 1].tolist() == [0, 0, 0, 1, 40, 64]


@pytest.mark.parametrize(("shape", "dims"), [((1, 40, 64), 2), ((4, 6, 8), 3), ((1, 1, 100), 1)])
def test_long_runs_of_small_grids_have_a_short_list_of_levels(shape: tuple[int, int, int], dims: int) -> None:
    found = tiles.passes(frame(shape, (True,) * 3, dims=dims), 1_000_000, 1)
    assert sum(one.steps for one in found) == 1_000_000
    assert {one.steps for one in found} == {4081, 4082}
    assert len(set(map(id, found))) == 2
    assert {one.items[0, Item.WALLS] for one in found} == {63}
    staged = replace(frame(shape, (True,) * 3, dims=dims), program=program(integrator="rk4"))
    assert [len(tiles.passes(staged, steps, 1)) for steps in (1024, 1025)] == [1, 2]


def test_rows_that_fit_into_the_cache_wrap_inside_a_tile_and_longer_ones_are_cut() -> None:
    (short,) = tiles.passes(frame((1, 2000, 256), (False, True, True)), 16, 1)
    assert (short.items[:, Item.WALLS] & 63 == Wall.LOW_CELL | Wall.HIGH_CELL | Wall.LOW_PLANE | Wall.HIGH_PLANE).all()
    (long,) = tiles.passes(frame((1, 2000, 9000), (False, True, True)), 16, 1)
    assert (long.items[:, Item.WALLS] == Wall.LOW_PLANE | Wall.HIGH_PLANE).all()
    assert set(long.items[:, Item.CELLS] - 32) == {-(-9000 // -(-9000 * 4 // tiles.ROW_BYTES))}


def test_tall_tiles_take_turns_in_what_the_cache_holds() -> None:
    (one,) = tiles.passes(frame((1, 2000, 256), (False, True, True)), 16, 1)
    assert len(one.items) == 1
    # Around the end of the grid: a row for each level, and one that the last level looks at.
    assert one.items[0, [Item.Y, Item.ROWS]].tolist() == [-16, 2017]
    height = tiles.CACHE_BYTES // (256 * 8)
    assert one.layout == tiles.Layout.of_tile((1, height, 256), (0, 1, 1), 4)
    assert one.kept == 2 * 15 * one.layout.pitch
    assert (one.records[0][:, Record.STAGE] == -2).any()
    (taller,) = tiles.passes(frame((1, 5000, 256), (False, False, True)), 32, 1)
    assert len(taller.items) == -(-5000 // max(tiles.TALL_REACHES * 32, tiles.TALL_ROWS)) == 2
    (deep,) = tiles.passes(frame((1, 2000, 1024), (False, True, True)), 32, 1)
    assert one.interleaved == (host.lanes(F32) <= tiles.MOST_LANES)
    assert deep.interleaved == one.interleaved
    assert deep.layout == tiles.Layout.of_tile((1, 2 * (32 + tiles.BLOCK_ROWS[2]), 1024), (0, 1, 1), 4)
    (single,) = tiles.passes(frame((1, 2000, 256), (False, True, True)), 1, 1)
    assert len(single.items) == -(-2000 // (tiles.TILE_BYTES // (256 * 8)))
    (wide,) = tiles.passes(frame((1, 64, 4096), (False, True, True)), 1, 1)
    assert {(int(item[Item.ROWS]), int(item[Item.CELLS])) for item in wide.items} == {(18, 1040)}
    assert not (single.records[0][:, Record.STAGE] == -2).any()


def test_a_tile_that_would_look_beyond_a_wall_begins_there() -> None:
    cuts = [[(0, 1)], [(0, 3), (3, 20)], [(0, 30)]]
    one = tiles._pass(frame((1, 20, 30), (False, False, False)), 5, cuts, (2, 8))
    assert one.items[:, [Item.Y, Item.ROWS]].tolist() == [[0, 8], [0, 20]]
    assert (one.items[:, Item.WALLS] & Wall.LOW_ROW).all()


def test_few_grids_are_cut_up_for_more_workers_and_many_are_not() -> None:
    shape = (1, 200, 200)
    assert len(tiles.passes(frame(shape, (False, False, False)), 2, 1)[0].items) == 1
    assert len(tiles.passes(frame(shape, (False, False, False)), 2, 4)[0].items) == 4
    assert len(tiles.passes(frame(shape, (False, False, False), grids=4), 2, 4)[0].items) == 4


def test_a_long_line_is_cut_and_many_short_ones_are_bundled() -> None:
    (one, *_) = tiles.passes(frame((1, 1, 1_000_000), (False, False, True), dims=1), 200, 1)
    assert one.steps == 50
    assert len(one.items) == -(-1_000_000 // (tiles.CACHE_BYTES // 8))
    (one,) = tiles.passes(frame((1, 1000, 100), (False, False, True), dims=1), 200, 1)
    assert one.items[:, Item.ROWS].sum() == 1000
    assert len(one.items) < 10


@pytest.mark.parametrize(("shape", "dims"), [((1, 2000, 256), 2), ((1, 1, 1_000_000), 1)])
def test_passes_of_equal_steps_share_their_records(shape: tuple[int, int, int], dims: int) -> None:
    found = tiles.passes(frame(shape, (False, True, True), dims=dims), 1001, 1)
    assert sum(one.steps for one in found) == 1001
    assert len(found) > 7
    assert len(set(map(id, found))) == len({one.steps for one in found}) == 2


def test_a_single_step_goes_straight_where_it_reads_nothing_but_an_array_in_order() -> None:
    wide = frame((1, 1000, 3000), (False, True, True), grids=2)
    (one,) = tiles.passes(wide, 1, 1, True)
    blocks = one.records[-1]
    bands = -(-998 // tiles.STRAIGHT_ROWS)
    assert (
        blocks[:, [Record.STAGE, Record.P0, Record.P1, Record.I0, Record.I1]].tolist() == [[-3, 0, 1, 16, 2984]] * bands
    )
    assert [1, *blocks[:, Record.J1]] == [*blocks[:, Record.J0], 999]
    assert len(one.items) == 2 * (3 * bands + 2)  # the ends of these rows, and the first and the last row
    assert one.items[:, Item.GRID].tolist() == sorted(one.items[:, Item.GRID])


@pytest.mark.parametrize(
    ("shape", "bands", "parts"), [((1, 64, 2_000_000), 2, 367), ((1, 400_002, 100), 1224, 1), ((1, 3, 90_000), 1, 17)]
)
def test_straight_passes_over_long_and_short_rows(shape: tuple[int, int, int], bands: int, parts: int) -> None:
    """Neither scratch memory as long as the rows, nor a tile for every few short ones."""
    wide = frame(shape, (False, True, True))
    (one,) = tiles.passes(wide, 1, 1, True)
    assert len(one.records[-1]) == bands
    assert len(one.items) == 3 * bands + 2 * parts
    assert one.layout.size * wide.cell_bytes < 2**21


def test_other_steps_do_not_go_straight() -> None:
    def straight(of: tiles.Frame, steps: int = 1, contiguous: bool = True) -> bool:
        return any(
            (records[:, Record.STAGE] == -3).any() for records in tiles.passes(of, steps, 1, contiguous)[0].records
        )

    shape, ends = (1, 1000, 3000), (False, True, True)
    wide = frame(shape, ends)
    assert straight(wide)
    assert not straight(wide, contiguous=False)
    assert not straight(wide, 2)
    masked = program(mask=np.ones((64, 64), bool))
    assert not straight(tiles.Frame(1, shape, 2, ends, (0, 1, 1), masked))
    assert not straight(tiles.Frame(1, shape, 2, ends, (0, 1, 1), program(integrator="rk2")))
    assert not straight(tiles.Frame(1, (50, 60, 3000), 3, (True,) * 3, (1, 1, 1), program()))
    assert [straight(frame((1, rows, 90_000), ends)) for rows in (2, 3)] == [False, True]
    assert [straight(frame((1, 90_000, n), ends)) for n in (64, 65)] == [False, True]


def test_costly_steps_take_few_levels_a_pass_and_masked_ones_more() -> None:
    masked = tiles.Frame(1, (1, 1000, 3000), 2, (False,) * 3, (0, 1, 1), program(mask=np.ones((64, 64), bool)))
    assert [one.steps for one in tiles.passes(masked, 97, 1)] == [32, 32, 33]
    deep = tiles.Frame(1, (300, 100, 200), 3, (False,) * 3, (1, 1, 1), masked.program)
    assert [one.steps for one in tiles.passes(deep, 16, 1)] == [8, 8]
    plan = so.plan_convection_step(
        (2000, 2000), F32, (1.0, 1.0), 1.0, 0.1, scheme="weno5", steps=9, on_unstable="ignore"
    )
    assert [one.steps for one in engine.Prepared(plan).passes(1)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("shape", "wraps", "workers", "integrator", "steps"),
    [
        ((4096, 2048), True, 1, "euler", 128),
        ((4097, 2048), True, 1, "euler", 32),
        ((4096, 2049), True, 1, "euler", 32),
        ((4096, 2048), True, 2, "euler", 32),
        ((4096, 2048), True, 1, "rk2", 16),
        ((4096, 2048), False, 1, "rk2", 64),
    ],
)
def test_planes_of_which_no_cell_is_computed_twice_take_more_levels(
    shape: tuple[int, int], wraps: bool, workers: int, integrator: str, steps: int
) -> None:
    of = tiles.Frame(1, (1, *shape), 2, (False, wraps, True), (0, 1, 1), program(integrator=integrator))
    assert [one.steps for one in tiles.passes(of, 2 * steps, workers)] == [steps, steps]


def test_rows_are_interleaved_for_several_levels_where_whole_blocks_waste_little() -> None:
    masked = program(mask=np.ones((64, 64), bool))
    block = host.lanes(F32) * vectors_of(host.lanes(F32))

    def interleaved(cells: int, steps: int, of: Program = masked, widths: tuple[int, int, int] = (0, 1, 1)) -> bool:
        (one,) = tiles.passes(tiles.Frame(1, (1, 40, cells), 2, (False,) * 3, widths, of), steps, 1)
        aligned = one.interleaved and of.masked
        expected = tiles.Layout.of_tile((1, 40, cells), widths, 4, block if one.interleaved else 1, aligned)
        assert one.layout == expected
        return one.interleaved

    few = host.lanes(F32) <= tiles.MOST_LANES
    assert interleaved(block, 4) == few
    assert not interleaved(block, 3)
    assert not interleaved(block, 15, program())
    assert interleaved(block, 16, program()) == few
    assert not interleaved(block, 4, widths=(0, 1, 2))
    least = -(-block * 16 // 9)  # an eighth of them is as much as completes two blocks
    assert interleaved(least, 4) == few
    assert not interleaved(least - 1, 4)
    # Parts of rows of sums, whose ends tiles compute twice.
    for parts, long in ((16, True), (15, False)):
        of = frame((1, 40, 4096), (False, True, True))
        assert of.interleaves(16, parts * block) == (few and long)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_blocks_of_interleaved_rows_have_no_more_vectors_than_wanted(lanes: int) -> None:
    assert vectors_of(lanes) == {2: 8, 4: 8, 8: 8, 16: 16}[lanes]


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("n", [5, 64, 1000, 1024, 4096])
def test_rows_keep_off_page_multiples(n: int, itemsize: int) -> None:
    layout = tiles.Layout.of_tile((1, 10, n), (0, 2, 2), itemsize)
    assert layout.pitch >= n + 4
    assert layout.base * itemsize % host.LINE_BYTES == 0
    assert 256 <= layout.pitch * itemsize % 4096 <= 4096 - 256
    assert 256 <= layout.size * itemsize % 4096 <= 4096 - 256


@pytest.mark.parametrize("widths", [(3, 3, 3), (0, 3, 3), (0, 0, 3), (1, 0, 2)])
@pytest.mark.parametrize("planes", [1, 4])
def test_ghosts_and_vectors_lie_inside_the_buffer(planes: int, widths: tuple[int, int, int]) -> None:
    """The first ghost of the first row, a vector before it, and a vector after the last ghost of the last one."""
    rows, n, lanes = 5, 7, 8
    layout = tiles.Layout.of_tile((planes, rows, n), widths, 8)
    first = layout.base - widths[0] * layout.plane_pitch - widths[1] * layout.pitch - widths[2]
    last = (planes - 1 + widths[0]) * layout.plane_pitch + (rows - 1 + widths[1]) * layout.pitch + n - 1 + widths[2]
    assert first - lanes >= 0
    assert layout.base + last + lanes < layout.size


@pytest.mark.parametrize(("itemsize", "lanes"), [(4, 8), (8, 4), (8, 8)])
@pytest.mark.parametrize("n", [1, 64, 65, 1000])
@pytest.mark.parametrize("aligned", [False, True])
def test_interleaved_rows_keep_their_ghosts_apart(n: int, itemsize: int, lanes: int, aligned: bool) -> None:
    """Those before the first cell are in the vector before it, those behind the last whole block in the next one."""
    block = lanes * vectors_of(lanes)
    layout = tiles.Layout.of_tile((1, 3, n), (0, 1, 1), itemsize, block, aligned)
    whole = -(-n // block) * block
    assert not aligned or {layout.base % block, layout.pitch % block, layout.size % block} == {0}
    assert layout.pitch >= whole + 2 * lanes
    assert layout.base - layout.pitch - lanes >= 0
    assert layout.base + 3 * layout.pitch + whole + lanes <= layout.size


# Schedules.


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_level_finds_the_one_before_in_its_source(data: st.DataObject) -> None:
    integrator = data.draw(st.sampled_from(sorted(BUFFERS)))
    stages = {"euler": 1, "rk2": 2, "ssprk3": 3, "rk4": 4}[integrator]
    levels = stages * data.draw(st.integers(1, 4))
    widths = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    lanes = data.draw(st.sampled_from([1, 2, 4, 8]))
    rows = data.draw(st.integers(1, 30))
    cells = data.draw(st.integers(1, 40)) + 2 * schedules.reach(levels, (0, *widths), lanes)[2]
    block = data.draw(st.integers(1, 9))
    walls = data.draw(st.sampled_from([0, 4, 8, 12])) | data.draw(st.sampled_from([0, 16, 32, 48]))
    height = None
    if data.draw(st.booleans()) and block < rows:
        height = levels * widths[0] + block + data.draw(st.integers(0, 9))
    check_levels(integrator, levels, widths, (rows, cells), lanes, block, walls, height)


@pytest.mark.parametrize("width", [1, 2])
def test_rows_that_are_put_behind_the_last_ones_move_with_them(width: int) -> None:
    for rows, block, more in itertools.product(range(2 * width + 1, 13), range(1, 5), range(0, 9, 2)):
        check_levels("euler", 3, (width, 1), (rows, 8), 1, block, 48, 3 * width + block + more)


def check_levels(
    integrator: str,
    levels: int,
    widths: tuple[int, int],
    extent: tuple[int, int],
    lanes: int,
    block: int,
    walls: int,
    height: int | None,
) -> None:
    """Mark cells with the level that they hold, those that a vector runs over with none; leave ghosts out."""
    stages, (rows, cells) = {"euler": 1, "rk2": 2, "ssprk3": 3, "rk4": 4}[integrator], extent
    turning = integrator == "euler" and levels > 1 and not walls & 12 and 0 < 2 * widths[0] <= rows and block < rows
    whole, begun = rows, {}
    if turning:
        rows += (levels + 1) * widths[0]
    records = schedule(
        integrator, stages, levels, (1, rows, cells), (0, *widths), walls | 3, (1, block), lanes, height, turning
    )
    far = schedules.reach(levels, (0, *widths), lanes)
    pad = 3  # rows of ghosts
    held = np.full((4, 2 * pad + min(rows, height or rows), cells), -1)
    result = np.full((rows, cells), -1)
    for record in records:
        j0, j1, i0, i1, stage = (int(record[k]) for k in (Record.J0, Record.J1, Record.I0, Record.I1, Record.STAGE))
        shift = int(record[Record.SHIFT])
        if stage == -2:
            kept = held[:, j0 + pad : j1 + pad].copy()
            assert j0 + pad - shift >= 0
            held[:] = -1
            held[:, j0 + pad - shift : j1 + pad - shift] = kept
            continue
        if stage < -3:
            some = held[record[Record.SOURCE], j0 + pad - shift : j1 + pad - shift]
            level, at = int(record[Record.TARGET]) + 1, j0 - (whole if stage == -5 else 0)
            assert (at, j1 - j0) == (level * widths[0], 2 * widths[0])
            if stage == -4:
                begun[level] = some.copy()
            else:
                some[:] = begun.pop(level)
            continue
        assert 0 <= j0 < j1 <= rows
        assert 0 <= i0 < i1 <= cells
        low, high = max(0, j0 - widths[0]) + pad - shift, min(rows, j1 + widths[0]) + pad - shift
        j0, j1 = j0 + pad - shift, j1 + pad - shift
        assert pad <= j0 < j1 <= held.shape[1] - pad
        over = min(i0 + -(-(i1 - i0) // lanes) * lanes, cells)
        if stage < 0:
            held[0, j0:j1, i0:i1] = 0
            continue
        source = held[record[Record.SOURCE]]
        level = source[j0, i1 - 1] + 1
        last = record[Record.TARGET] < 0
        assert last == (level == levels)
        # Before the first cell that counts, whole vectors may compute what nobody reads.
        counts = max(i0, 0 if walls & 16 else far[2] - (levels - level) * widths[1])
        near = source[low:high, counts:i1]
        along = source[j0:j1, max(0, counts - widths[1]) : i1 + widths[1]]
        assert (near == level - 1).all()
        assert (along == level - 1).all()
        assert stage == (level - 1) % stages
        assert (stage == 0) or (held[0, j0:j1, counts:i1] == level - 1 - stage).all()
        if last:
            place = (slice(j0 - pad + shift, j1 - pad + shift), slice(i0, i1))
            assert (result[place] == -1).all()
            result[place] = level
            # Interleaved rows go there by way of the copy of u that would be next.
            assert -1 - record[Record.TARGET] != record[Record.SOURCE]
            held[-1 - record[Record.TARGET], j0:j1, i0:over] = -1
        else:
            held[record[Record.TARGET], j0:j1, i0:over] = -1
            held[record[Record.TARGET], j0:j1, i0:i1] = level
    ends = [
        (0 if walls & low else reach, n if walls & 2 * low else max(0, n - reach))
        for low, reach, n in ((4, far[1], rows), (16, far[2], cells))
    ]
    if turning:
        ends[0] = far[1], far[1] + whole
    inner = tuple(slice(*both) for both in ends)
    assert (result[inner] == levels).all()
    result[inner] = -1
    assert (result == -1).all()


def test_ghosts_are_renewed_when_the_last_row_that_they_depend_on_is_there() -> None:
    records = schedule("euler", 1, 2, (1, 10, 9), (0, 3, 0), 63, (1, 2), 4)
    loads = records[records[:, Record.STAGE] < 0]
    assert [(int(r[Record.J0]), int(r[Record.FLAGS]) & 12) for r in loads] == [(0, 0), (2, 4), (4, 0), (6, 0), (8, 8)]
    held = Flag.HELD_LOW_ROW | Flag.HELD_HIGH_ROW
    assert [int(r[Record.FLAGS]) & held for r in loads] == [Flag.HELD_LOW_ROW, 0, 0, 0, Flag.HELD_HIGH_ROW]
    assert not records.flags.writeable


def test_ghosts_of_columns_are_renewed_where_rows_end_at_walls() -> None:
    columns = Flag.LOW_CELL | Flag.HIGH_CELL | Flag.HELD_LOW_CELL | Flag.HELD_HIGH_CELL
    for walls, flags in ((48, columns), (16, 16 | 1024), (32, 32 | 2048), (0, 0)):
        records = schedule("euler", 1, 2, (1, 4, 20), (0, 1, 3), 15 | walls, (1, 2), 4)
        assert set(records[:, Record.FLAGS] & columns) == {flags}


def test_a_block_as_tall_as_a_tile_keeps_no_level_behind() -> None:
    records = schedule("euler", 1, 3, (1, 6, 40), (0, 1, 1), 63, (1, 6), 8)
    assert (records[:, [Record.J0, Record.J1]] == [0, 6]).all()
    assert len(records) == 4


def test_parts_of_rows_shrink_with_each_level() -> None:
    records = schedule("euler", 1, 3, (1, 4, 40), (0, 0, 2), 15 | Wall.LOW_CELL, (1, 4), 2)
    assert records[:, [Record.I0, Record.I1]].tolist() == [[0, 40], [0, 38], [0, 36], [0, 34]]
    records = schedule("euler", 1, 3, (1, 4, 40), (0, 0, 2), 15 | Wall.HIGH_CELL, (1, 4), 2)
    assert records[:, [Record.I0, Record.I1]].tolist() == [[0, 40], [2, 40], [4, 40], [6, 40]]


def test_parts_of_rows_begin_with_a_whole_vector_but_for_the_result() -> None:
    records = schedule("euler", 1, 3, (1, 4, 40), (0, 0, 2), 15 | Wall.HIGH_CELL, (1, 4), 4)
    assert records[:, [Record.I0, Record.I1]].tolist() == [[0, 40], [4, 40], [4, 40], [8, 40]]
