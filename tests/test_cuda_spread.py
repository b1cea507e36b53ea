"""Filters on the CUDA backend whose transforms clusters share, and odd lines done two at a time; on the host."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import BACKEND, available, backend
from support import assert_close, tolerance

import spectralops as so
from spectralops._cuda import spectral_filter_layout as layouts
from spectralops._cuda.geometry import Lines
from spectralops._cuda.passes import Passes
from spectralops._cuda.spectral_filter import algorithm
from spectralops._cuda.spread import Spread, spread_columns, spread_lines

on_host = pytest.mark.skipif(not available(), reason="g++ is not installed")

GAUSSIAN = so.transfer.gaussian(1.0)
ROOM = 227 * 1024
SMALL = 96 * 1024


def filtered(x: np.ndarray, transfer, axes, names: list[str]) -> np.ndarray:
    """By the kernels, twice: the threads run in the other order the second time."""
    with backend() as host:
        results = [so.spectral_filter(x, transfer, axes=axes, backend=BACKEND) for _ in range(2)]
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == names * 2
    np.testing.assert_array_equal(*results)
    return results[0]


def random_transfer(rng, shape: tuple[int, ...], dtype: str, real: bool) -> np.ndarray:
    values = rng.standard_normal(shape)
    if real:
        return values.astype(dtype)
    return (values + 1j * rng.standard_normal(shape)).astype("complex64" if dtype == "float32" else "complex128")


@on_host
@pytest.mark.parametrize(
    ("n", "dtype", "found", "shape", "lines"),
    [
        (512, "float32", Spread(4, Lines(Passes((8, 8), 8, 1), 1), 4, 2), (257,), 3),
        (512, "float64", Spread(8, Lines(Passes((8, 4), 8, 1), 1), 8, 2), (3, 257), 3),
        (1024, "float32", Spread(8, Lines(Passes((16, 4), 4, 1), 1), 4, 2), (1, 513), 3),
        (1024, "float32", Spread(8, Lines(Passes((16, 4), 4, 1), 1), 4, 2), (1, 513), 2),
        (960, "float64", Spread(16, Lines(Passes((5, 6), 5, 1), 1), 8, 2), (481,), 3),
    ],
    ids=["four", "eight-each-its-own", "eight", "eight-few", "sixteen-with-unequal-shares"],
)
def test_lines_of_clusters(
    monkeypatch, rng, n: int, dtype: str, found: Spread, shape: tuple[int, ...], lines: int
) -> None:
    row_geometry = layouts.row_geometry
    monkeypatch.setattr(
        layouts, "row_geometry", lambda m, *rest, **more: None if m == n // 2 else row_geometry(m, *rest)
    )
    monkeypatch.setattr(layouts, "spread_lines", lambda m, itemsize, room, one: found)
    monkeypatch.setattr(layouts, "MANY_LINES", 3)
    x = rng.standard_normal((lines, n)).astype(dtype)
    transfer = random_transfer(rng, shape, dtype, real=len(shape) == 1)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=1, backend="numpy")
    names = ["spread_coefficients"] * (lines == 3 and shape[0] != 3) + ["lines_spread"]
    assert_close(filtered(x, transfer, 1, names), expected, tolerance(dtype, n))


@on_host
@pytest.mark.parametrize(
    ("shape", "dtype", "found", "names"),
    [
        (
            (2, 128, 34),
            "float32",
            Spread(4, Lines(Passes((8, 4), 4, 4), 4), 4),
            ["rows_forward", "columns_spread", "rows_inverse"],
        ),
        (
            (1, 256, 18),
            "float64",
            Spread(8, Lines(Passes((4, 8), 2, 8), 8), 8),
            ["rows_forward", "columns_spread", "rows_inverse"],
        ),
    ],
    ids=["four", "eight"],
)
def test_columns_of_clusters(monkeypatch, rng, shape, dtype: str, found: Spread, names: list[str]) -> None:
    monkeypatch.setattr(layouts, "spread_columns", lambda n, column, itemsize, room: found)
    monkeypatch.setattr(layouts, "plane_geometry", lambda *arguments: None)
    x = rng.standard_normal(shape).astype(dtype)
    axes = tuple(range(1, x.ndim))
    transfer = random_transfer(rng, (*shape[1:-1], shape[-1] // 2 + 1), dtype, real=False)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=axes, backend="numpy")
    assert_close(filtered(x, transfer, axes, names), expected, tolerance(dtype, found.size))


@on_host
def test_complex_columns_of_clusters(monkeypatch, rng) -> None:
    found = Spread(4, Lines(Passes((8, 4), 4, 4), 4), 4)
    monkeypatch.setattr(layouts, "spread_columns", lambda n, column, itemsize, room: found)
    x = (rng.standard_normal((128, 10)) + 1j * rng.standard_normal((128, 10))).astype("complex64")
    transfer = random_transfer(rng, (128, 10), "float32", real=False)
    expected = so.spectral_filter(x.astype("complex128"), transfer, axes=(0, 1), backend="numpy")
    result = filtered(x, transfer, (0, 1), ["rows_forward", "columns_spread", "rows_inverse"])
    assert_close(result, expected, tolerance("float32", 128))


@on_host
def test_lines_too_long_for_a_block(rng) -> None:
    x = rng.standard_normal((2, 65536)).astype("float32")
    result = filtered(x, GAUSSIAN, 1, ["lines_spread"])
    assert_close(result, so.spectral_filter(x.astype("float64"), GAUSSIAN, axes=1, backend="numpy"), 1e-6)
    with backend():
        plan = so.plan_spectral_filter(x.shape, x.dtype, GAUSSIAN, axes=1, backend=BACKEND)
        words = algorithm(plan)
        many = algorithm(so.plan_spectral_filter((64, 65536), x.dtype, GAUSSIAN, axes=1, backend=BACKEND))
    how = (
        "forward, product and inverse in registers and shared memory in clusters of 8 blocks, "
        f"radices {spread_lines(32768, 4, ROOM).words}"
    )
    assert words == f"one kernel: {how}"
    assert many == f"2 kernels, one for what wavenumbers are multiplied by, one {how}"


@on_host
def test_says_that_columns_lie_in_clusters() -> None:
    with backend():
        plan = so.plan_spectral_filter((8192, 64), "float32", GAUSSIAN, axes=(0, 1), backend=BACKEND)
        words = algorithm(plan)
    assert "along the first axis in clusters of 8 blocks; two real rows" in words
    assert "radices 8*" in words


@pytest.mark.parametrize(
    ("n", "itemsize", "room", "one", "parts", "blocks"),
    [
        (32768, 4, ROOM, True, 16, 4),
        (65536, 4, ROOM, True, 16, 2),
        (131072, 4, ROOM, True, 16, 1),
        (16384, 8, ROOM, True, 16, 4),
        (32760, 4, ROOM, True, 8, 1),
        (32768, 4, ROOM, False, 8, 2),
        (65536, 4, ROOM, False, 16, 2),  # 136 KiB a block of 8 parts
        (262144, 4, ROOM, True, None, None),  # 256 KiB a block
        (32768, 4, SMALL, True, None, None),  # no clusters
        (32770, 4, ROOM, True, None, None),
    ],
)
def test_choice_of_lines(n: int, itemsize: int, room: int, one: bool, parts: int | None, blocks: int | None) -> None:
    found = spread_lines(n, itemsize, room, one)
    assert (found and found.parts) == parts
    if found is not None:
        assert found.blocks == blocks
        assert found.size == n
        assert found.cluster == parts // 2
        assert found.shared * found.blocks <= room
        assert found.angles_at == found.table(1.0, angles=True).size - found.angles


@pytest.mark.parametrize(("shared", "blocks"), [(113 * 1024, 2), (113 * 1024 + 8, 1)])
def test_the_system_keeps_a_part_of_each_block(monkeypatch: pytest.MonkeyPatch, shared: int, blocks: int) -> None:
    found = spread_lines(32768, 4, ROOM)
    monkeypatch.setattr(Spread, "shared", shared)
    assert found.blocks == blocks


@pytest.mark.parametrize(
    ("n", "columns", "itemsize", "room", "parts", "width", "blocks"),
    [
        (8192, 2, 4, ROOM, 8, 8, 2),
        (4608, 1, 4, ROOM, 8, 16, 1),
        (8192, 1, 8, ROOM, 8, 4, 1),
        (4096, 4, 4, ROOM, 4, 8, 2),  # pieces of 32 bytes where two blocks share a multiprocessor
        (4608, 4, 4, ROOM, None, None, 0),
        (4096, 2, 8, ROOM, None, None, 0),
        (2048, 8, 4, ROOM, None, None, 0),
        (8192, 2, 4, SMALL, None, None, 0),
        (8190, 2, 4, ROOM, None, None, 0),
        (96 * 97, 2, 4, ROOM, None, None, 0),
    ],
)
def test_choice_of_columns(
    n: int, columns: int, itemsize: int, room: int, parts: int | None, width: int | None, blocks: int
) -> None:
    found = spread_columns(n, Lines(Passes((n,), 1, columns), columns), itemsize, room)
    assert (found and found.parts) == parts
    if found is not None:
        assert (found.lines.lines, found.size, found.blocks) == (width, n, blocks)
        assert n % (2 * found.parts**2) == 0
        assert found.lines.threads <= (512 if itemsize == 4 else 256)
        assert found.shared <= room


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lines", [1, 2, 5])
@pytest.mark.parametrize("n", [17, 51])
def test_odd_lines_two_at_a_time(rng, n: int, lines: int, dtype: str) -> None:
    x = rng.standard_normal((lines, n)).astype(dtype)
    transfer = random_transfer(rng, (n // 2 + 1,), dtype, real=n == 51)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=1, backend="numpy")
    assert_close(filtered(x, transfer, 1, ["twos_filter"]), expected, tolerance(dtype, n))


@on_host
def test_odd_lines_with_filters_of_their_own_go_one_by_one(rng) -> None:
    x = rng.standard_normal((4, 51)).astype("float32")
    transfer = random_transfer(rng, (4, 26), "float32", real=False)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=1, backend="numpy")
    assert_close(filtered(x, transfer, 1, ["rows_filter"]), expected, tolerance("float32", 51))


@on_host
def test_odd_lines_of_small_factors_go_one_by_one(rng) -> None:
    x = rng.standard_normal((4, 45)).astype("float32")
    expected = so.spectral_filter(x.astype("float64"), GAUSSIAN, axes=1, backend="numpy")
    assert_close(filtered(x, GAUSSIAN, 1, ["rows_filter"]), expected, tolerance("float32", 45))


@on_host
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 3), (1, 0), (2, 50), (4, 7)])
def test_what_is_not_finite_stays_in_its_line(rng, place: tuple[int, int], bad: float) -> None:
    x = rng.standard_normal((5, 51)).astype("float32")
    whole = filtered(x, GAUSSIAN, 1, ["twos_filter"])
    x[place] = bad
    result = filtered(x, GAUSSIAN, 1, ["twos_filter"])
    others = np.arange(5) != place[0]
    assert not np.isfinite(result[place[0]]).any()
    np.testing.assert_allclose(result[others], whole[others], atol=1e-6)


@on_host
@pytest.mark.parametrize("scales", [(1e8, 1, 1, 1e-8, 1), (1, 5, 0, 3, 1e20), (1, 1, 0, 0, 1)])
def test_rounding_errors_stay_in_their_line(rng, scales: tuple[float, ...]) -> None:
    x = (rng.standard_normal((5, 51)) * np.array(scales)[:, None]).astype("float32")
    expected = so.spectral_filter(x.astype("float64"), GAUSSIAN, axes=1, backend="numpy")
    for line, right in zip(filtered(x, GAUSSIAN, 1, ["twos_filter"]), expected, strict=True):
        assert_close(line, right, 2 * tolerance("float32", 51))


@on_host
def test_odd_lines_with_padding(rng) -> None:
    x = rng.standard_normal((3, 35)).astype("float32")
    expected = so.spectral_filter(
        x.astype("float64"), GAUSSIAN, axes=1, pad_width=8, pad_mode="reflect", backend="numpy"
    )
    with backend() as host:
        result = so.spectral_filter(x, GAUSSIAN, axes=1, pad_width=8, pad_mode="reflect", backend=BACKEND)
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == ["twos_filter"]
    assert_close(result, expected, tolerance("float32", 51))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 65536), "float32"),
        ((2, 262144), "float32"),
        ((3, 65536), "float64"),
        ((8192, 36), "float32"),
        ((8192, 10), "float64"),
        ((5, 3001), "float32"),
        ((2, 128, 64), "float32"),
    ],
    ids=str,
)
def test_on_gpu(rng, shape: tuple[int, ...], dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    x = rng.standard_normal(shape).astype(dtype)
    axes = (0, 1) if shape[0] == 8192 else tuple(range(1, len(shape)))
    transfer = random_transfer(rng, (*[shape[axis] for axis in axes[:-1]], shape[-1] // 2 + 1), dtype, real=False)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=axes, backend="numpy")
    for _ in range(2):
        result = so.spectral_filter(cupy.asarray(x), cupy.asarray(transfer), axes=axes, backend="cuda")
        assert_close(cupy.asnumpy(result), expected, tolerance(dtype, x.size))


@pytest.mark.gpu
def test_what_is_not_finite_stays_in_its_line_on_gpu(rng) -> None:
    cupy = pytest.importorskip("cupy")
    x = rng.standard_normal((7, 601)).astype("float32")
    x[2, 5] = np.nan
    result = cupy.asnumpy(so.spectral_filter(cupy.asarray(x), GAUSSIAN, axes=1, backend="cuda"))
    np.testing.assert_array_equal(np.isfinite(result).all(1), np.arange(7) != 2)
