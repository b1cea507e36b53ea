"""Filters on the CUDA backend whose images or planes lie in the blocks of a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import BACKEND, available, backend
from support import assert_close, tolerance

import spectralops as so
from spectralops._cuda import spectral_filter_layout as layouts
from spectralops._cuda.images import Image, image_filter, image_geometry, image_kernel
from spectralops._cuda.passes import Passes, by_twos
from spectralops._cuda.spectral_filter import algorithm

on_host = pytest.mark.skipif(not available(), reason="g++ is not installed")

GAUSSIAN = so.transfer.gaussian(1.0)
ROOM = 227 * 1024


def random_transfer(rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return values.astype("complex128" if dtype == "float64" else "complex64")


@on_host
@pytest.mark.parametrize(
    ("shape", "dtype", "found"),
    [
        ((2, 32, 24), "float32", Image(2, Passes((4, 6), 4, 1), Passes((4, 8), 4, 6), 4, 1)),
        ((1, 20, 25), "float64", Image(4, Passes((5, 5), 5, 1), Passes((5, 4), 2, 4), 8, 1)),
        ((1, 3, 20, 30), "float32", Image(4, Passes((5, 6), 6, 1), Passes((5, 4), 2, 4), 4, 1)),
    ],
    ids=["even", "odd-rows-shared-unevenly", "volume"],
)
def test_images_in_clusters(monkeypatch, rng, shape: tuple[int, ...], dtype: str, found: Image) -> None:
    """Any real field and any complex multiplier, whose values at real columns need not belong to a real filter."""
    monkeypatch.setattr(layouts, "plane_geometry", lambda *arguments: None)
    monkeypatch.setattr(layouts, "image_geometry", lambda *arguments: found)
    x = rng.standard_normal(shape).astype(dtype)
    axes = tuple(range(1, x.ndim))
    transfer = random_transfer(rng, (*shape[1:-1], shape[-1] // 2 + 1), dtype)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=axes, backend="numpy")
    with backend() as host:
        results = [so.spectral_filter(x, transfer, axes=axes, backend=BACKEND) for _ in range(2)]
    names = ["images_filter"] if len(axes) == 2 else ["images_forward", "columns", "images_inverse"]
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == names * 2
    assert {kernel.cluster for kernel in host.launched if kernel.file == "images.cu"} == {found.parts}
    np.testing.assert_array_equal(*results)  # the threads ran in another order
    assert_close(results[0], expected, tolerance(dtype, x.size))


@pytest.mark.parametrize(
    ("sizes", "itemsize", "parts", "points", "blocks"),
    [
        ((128, 128), 4, 2, 16, 4),
        ((64, 512), 4, 4, 16, 4),
        ((256, 128), 4, 4, 16, 4),
        ((256, 256), 4, 8, 16, 4),
        ((256, 512), 4, 8, 32, 2),
        ((128, 128), 8, 2, 16, 2),
        ((256, 256), 8, 8, 16, 2),
    ],
    ids=str,
)
def test_choice(sizes: tuple[int, int], itemsize: int, parts: int, points: int, blocks: int) -> None:
    found = image_geometry(sizes, itemsize, ROOM, 16, False)
    assert found is not None
    assert (found.parts, found.blocks, found.threads) == (parts, blocks, 256)
    assert (found.row.threads * points, found.column.threads * points) == sizes[::-1]
    assert (2 * found.rows * parts, 2 * found.columns * parts) == sizes
    assert found.groups == found.rows
    assert found.blocks * (found.shared + 1024) <= ROOM + 1024
    assert (image_geometry(sizes, itemsize, ROOM, 15, False) is None) == (parts == 8)
    planes = image_geometry(sizes, itemsize, ROOM, 16, True)
    assert planes == (found if sizes[0] * sizes[1] * itemsize <= 2**18 else None)


@pytest.mark.parametrize(
    ("sizes", "itemsize", "room"),
    [
        ((256, 256), 4, ROOM - 1),  # no clusters
        ((240, 256), 4, ROOM),  # idle threads
        ((384, 256), 4, ROOM),
        ((512, 128), 4, ROOM),  # eight columns a block
        ((512, 256), 4, ROOM),
        ((64, 1024), 4, ROOM),
        ((32, 512), 8, ROOM),
        ((512, 512), 4, ROOM),  # too large
        ((64, 64), 4, ROOM),  # fits a block
    ],
    ids=str,
)
def test_images_that_clusters_are_not_for(sizes: tuple[int, int], itemsize: int, room: int) -> None:
    assert image_geometry(sizes, itemsize, room, 16, False) is None


def test_launches() -> None:
    """The first-level cache keeps what the shared memory of all blocks leaves: four of 45 of 228 KiB."""
    found = image_geometry((256, 256), 4, ROOM, 16, False)
    assert found is not None
    arguments = "float16_t, float, 4, 256, 8, 16, 16, 16, Radices<8, 8, 4>, 16, Radices<8, 8, 4>"
    kernel = image_filter(found, ("float16_t", "float"), 3, ("-DX",), ", Factor<true, 1>")
    assert kernel.name == f"images_filter<{arguments}, Factor<true, 1>>"
    assert image_kernel("images_forward", found, ("float16_t", "float"), 3, ()).name == f"images_forward<{arguments}>"
    assert (kernel.grid, kernel.block, kernel.cluster, kernel.options) == ((24,), (256,), 8, ("-DX",))
    assert (kernel.shared, kernel.carveout) == (45056, 79)


def test_passes_by_twos() -> None:
    assert by_twos(256, 16, 16) == Passes((8, 8, 4), 16, 16)
    assert by_twos(512, 1, 16) == Passes((8, 8, 8), 32, 1)
    assert by_twos(512, 16, 32) == Passes((16, 32), 16, 16)
    assert by_twos(128, 32, 16) == Passes((8, 16), 8, 32)
    assert [by_twos(n, 1, 16) for n in (8, 24, 96, 1024)] == [None] * 4  # too short, uneven, uneven, beyond a warp


@on_host
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((16, 256, 256), "one kernel, a cluster of 8 blocks per image: forward, product and inverse in shared memory"),
        ((4, 128, 128), "one kernel, a cluster of 2 blocks per image:"),
        (
            (4, 16, 128, 256),
            "3 kernels: the last two axes of an image in a cluster of 4 blocks, forward, product and inverse along",
        ),
    ],
)
def test_says_so(shape: tuple[int, ...], words: str) -> None:
    with backend():
        axes = tuple(range(1, len(shape)))
        plan = so.plan_spectral_filter(shape, "float32", GAUSSIAN, axes=axes, backend=BACKEND)
        assert algorithm(plan).startswith(words)


@pytest.mark.gpu
@pytest.mark.parametrize("separable", [False, True], ids=["any", "gaussian"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((5, 128, 256), "float32"),
        ((40, 256, 256), "float32"),
        ((17, 256, 512), "float32"),
        ((3, 128, 128), "float32"),
        ((3, 128, 128), "float64"),
        ((17, 256, 256), "float64"),
        ((2, 8, 256, 256), "float32"),
        ((2, 6, 128, 128), "float64"),
    ],
    ids=str,
)
def test_on_gpu(rng, shape: tuple[int, ...], dtype: str, separable: bool) -> None:
    cupy = pytest.importorskip("cupy")
    x = rng.standard_normal(shape).astype(dtype)
    axes = tuple(range(1, len(shape)))
    transfer = GAUSSIAN if separable else random_transfer(rng, (*shape[1:-1], shape[-1] // 2 + 1), dtype)
    expected = so.spectral_filter(x.astype("float64"), transfer, axes=axes, backend="numpy")
    given = transfer if separable else cupy.asarray(transfer)
    plan = so.plan_spectral_filter(shape, dtype, given, axes=axes, device="cuda")
    assert "a cluster of" in plan.explain()
    for _ in range(2):
        result = so.spectral_filter(cupy.asarray(x), given, axes=axes, backend="cuda")
        assert_close(cupy.asnumpy(result), expected, tolerance(dtype, x.size))
