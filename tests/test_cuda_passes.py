"""How transforms are parted into passes and blocks on a device, and how images share one block."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spectralops._cuda.geometry import column_geometry, row_geometry
from spectralops._cuda.passes import Chirp, Cyclic, Passes, factors, passes, within_warp
from spectralops._cuda.planes import Plane, plane_geometry


def test_factors() -> None:
    assert factors(720) == (2, 2, 2, 2, 3, 3, 5)
    assert factors(143) == (11, 13)
    assert factors(34) is None


@pytest.mark.parametrize(("itemsize", "points"), [(4, 32), (8, 16)])
@pytest.mark.parametrize(("stride", "pairs", "most"), [(1, False, 1024), (16, False, 32), (8, True, 64)])
def test_passes_multiply_to_the_length_within_their_bounds(
    itemsize: int, points: int, stride: int, pairs: bool, most: int
) -> None:
    found = {n: passes(n, itemsize, stride, pairs, most) for n in range(1, 400) if factors(n)}
    assert sum(each is not None for each in found.values()) > (50 if pairs else 100)
    for n, each in found.items():
        if each is None:
            continue
        assert each.size == math.prod(each.radices) == n
        assert each.threads <= most
        assert all(-(-n // r // each.threads) * r <= points for r in each.radices)
        if pairs:
            count = n // each.radices[0]
            assert count % 2 == 0
            assert count % (2 * each.threads) == 0, "a thread holds the points 2i and 2i + 1"


def test_passes_of_lengths_that_have_none() -> None:
    assert passes(1, 4) == Passes((1,), 1, 1)
    assert passes(1, 4, pairs=True) is None
    assert passes(15, 4, 16, True) is None
    assert passes(4096, 4, 16, False, 32) is None


def test_other_lengths_are_convolutions() -> None:
    assert passes(17, 4) == Chirp(17, Passes((6, 8), 8, 1))
    assert passes(17, 4, 16, True) is None, "an odd number of points does not pair up"
    even = passes(34, 4, 16, True)
    assert isinstance(even, Chirp)
    assert (even.inner.size // even.inner.radices[0]) % (2 * even.threads) == 0
    assert (even.padded, even.expression) == (even.inner.padded, f"Chirp<34, {even.inner.expression}>")
    assert passes(20011, 4, most_threads=512) is None
    longer = Cyclic(17, Passes((6, 8), 8, 1))
    assert (longer.expression, longer.words) == ("Cyclic<17, Radices<6, 8>>", "17 as part of 6*8")
    inner = longer.table(0.5, False)[longer.begins_at :][: 2 * 48 - 6 - 8]
    assert (inner == longer.inner.table(1.0, False)).all()


@pytest.mark.parametrize("n", [1, 5, 8, 17])
def test_chirps_convolve_to_transforms(n: int, rng) -> None:
    """Forward and, with the scale of the table, back: what the kernel does with the table."""
    each = Chirp(n, Passes((6, 6), 6, 1))
    table, m = each.table(0.5, True), 36
    x = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    for begin, scale in ((0, 1.0), (each.reversed_at, 0.5)):
        chirp, spectrum = table[begin : begin + n], table[begin + n : begin + n + m]
        y = (np.fft.ifft(np.fft.fft(x * chirp, m) * spectrum) * m)[:n] * chirp
        assert np.abs(y - scale * np.fft.fft(x)).max() < 1e-13
        inner = each.inner.table(1.0, False)
        assert (table[begin + n + m : begin + n + m + len(inner)] == inner).all()
    assert np.allclose(
        table[2 * each.reversed_at :], np.exp(-1j * np.pi * np.arange(n // 2 + 1) / n), rtol=0, atol=1e-15
    )


@pytest.mark.parametrize(
    ("n", "radices", "threads"), [(6144, (16, 6, 8, 8), 384), (8192, (32, 32, 8), 256), (16384, (32, 32, 16), 512)]
)
def test_long_mirrored_lines_take_three_passes(n: int, radices: tuple[int, ...], threads: int) -> None:
    """Measured on an H200: 8192 and 16384 points 7 and 15 % quicker than in four passes, shorter lines slower."""
    assert passes(n, 4, most_threads=512, mirrored=True) == Passes(radices, threads, 1)


def test_mirrored_wavenumbers_meet_in_a_thread_where_that_costs_little() -> None:
    for n in (128, 512, 2048):
        found = passes(n, 4, most_threads=512, mirrored=True)
        assert isinstance(found, Passes)
        assert found.radices[-1] % 2 == 0
        assert n // found.radices[-1] % (2 * found.threads) == 0


@pytest.mark.parametrize("itemsize", [4, 8])
def test_transforms_within_a_warp(itemsize: int) -> None:
    sizes = [n for n in range(1, 600) if within_warp(n, itemsize)]
    assert {16, 32, 64, 128} <= set(sizes)
    assert not {1, 17, 34, 31} & set(sizes)
    for n in sizes:
        found = within_warp(n, itemsize)
        assert found is not None
        assert found.size == n
        assert 32 % found.threads == 0
        assert n // found.threads <= (32 if n >= 256 and itemsize == 4 else 16)
        each = [n // radix / found.threads for radix in found.radices]
        assert all(count == int(count) for count in each)
        assert each[0] % 2 == 0


def test_long_transforms_within_a_warp_take_two_passes() -> None:
    assert within_warp(256, 4) == Passes((16, 16), 8, 1)
    assert within_warp(256, 8, 8) == Passes((4, 8, 8), 32, 1)


def test_contiguous_transforms_read_long_pieces() -> None:
    narrow, wide = within_warp(64, 4), within_warp(64, 4, contiguous=True)
    assert narrow is not None
    assert wide is not None
    assert (narrow.threads, wide.threads) == (4, 8)


def test_planes_share_a_multiprocessor() -> None:
    room = 227 * 1024
    found = plane_geometry((128, 128), 16, 4, room)
    assert found == Plane(Passes((8, 16), 8, 1), Passes((8, 16), 8, 1), 16, 128, 4)
    assert not found.whole
    # a window of 64 rows of 34 numbers, and room for 16 rows of 152
    assert found.shared == (64 * 34 + 16 * 152) * 8
    assert found.blocks(room) == 6
    whole = plane_geometry((128, 128), 65, 4, room)
    assert whole is not None
    assert whole.whole
    assert whole.threads == 288  # nine warps: 65 columns in two rounds
    # rows of 146 numbers (144 that one is exchanged in, and two for lanes down a column), two more after eight rows
    assert whole.shared == (64 * 146 + 8 * 2) * 8
    assert whole.blocks(room) == 3
    assert whole.passes == "8, Radices<8, 16>, 8, Radices<8, 16>"


@pytest.mark.parametrize(
    ("sizes", "kept"), [((512, 512), 257), ((127, 128), 5), ((17, 16), 5), ((24, 32), 17), ((16, 16), 9)], ids=str
)
def test_images_that_have_no_block_of_their_own(sizes: tuple[int, int], kept: int) -> None:
    assert plane_geometry(sizes, kept, 4, 227 * 1024) is None


def test_gaps_between_the_points_in_shared_memory() -> None:
    assert Passes((16, 8), 8, 1).padded == 128 + 16
    assert Passes((8, 16), 8, 1).padded == 128 + 16
    assert Passes((8, 8, 8), 64, 1).padded == 512 + 64
    assert Passes((8, 8), 8, 16).padded == 64
    assert Passes((3, 5), 5, 1).padded == 15
    assert Passes((2, 3), 3, 8).padded == 6 + 3


@pytest.mark.parametrize("radices", [(4,), (4, 2), (2, 3, 4)])
def test_twiddle_factors(radices: tuple[int, ...]) -> None:
    each = Passes(radices, 1, 1)
    table = each.table(0.5, True)
    n, at = each.size, 0
    for order, scale in ((radices, 1.0), (radices[::-1], 0.5)):
        before = order[0]
        assert at == (0 if order is radices else each.reversed_at) or len(radices) == 1
        for number, radix in enumerate(order[1:]):
            for q in range(1, radix):
                for j in range(before):
                    w = np.exp(-2j * np.pi * q * j / (before * radix)) * (scale if number == 0 else 1.0)
                    assert abs(table[at] - w) < 1e-15
                    at += 1
            before *= radix
    assert np.allclose(table[at:], np.exp(-1j * np.pi * np.arange(n // 2 + 1) / n), rtol=0, atol=1e-15)
    assert len(each.table(1.0, False)) == at


def test_rows_share_a_block() -> None:
    row = row_geometry(128, 4)
    assert row is not None
    assert row.threads == 128
    long = row_geometry(5040, 4)
    assert long is not None
    assert (long.lines, long.threads <= 512) == (1, True)
    assert row_geometry(2**15, 4) is None
    assert row_geometry(2**15, 8) is None


def test_columns_share_a_block() -> None:
    def lines(n: int, itemsize: int, *room: int) -> int | None:
        found = column_geometry(n, itemsize, False, *room)
        return None if found is None else found.lines

    assert [lines(n, 4) for n in (64, 1024, 2048, 4096, 8192, 2**15)] == [16, 8, 4, 2, 1, None]
    assert [lines(n, 8) for n in (64, 1024, 2048)] == [8, 4, 2]
    assert [lines(n, 4, 227 * 1024) for n in (1024, 2048, 4096, 8192)] == [8, 8, 4, 2]
