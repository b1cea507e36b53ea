"""Convolutions of the CUDA backend: geometry, costs and the choice of the algorithm."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spectralops as so
from spectralops import UnsupportedError
from spectralops._arrays import ArraySpec
from spectralops._cuda import convolution, convolution_direct, convolution_problem, convolution_tiles, launch
from spectralops._cuda.convolution_direct import family
from spectralops._cuda.convolution_problem import mapping, problem
from spectralops._cuda.convolution_tiles import geometry, radices, table
from spectralops._cuda.geometry import MULTIPROCESSOR_BYTES, SYSTEM_BYTES
from spectralops._plans import device_convolution_cost as model
from spectralops._plans.device_convolution_cost import LINE_LENGTHS, TILE_LENGTHS, DeviceSums


def layer_plan(x: tuple[int, ...], weight: tuple[int, ...], dtype: str = "float32", **options: Any):
    return so.plan_fft_conv2d(x, dtype, ArraySpec(weight, dtype), device="cuda", **options)


def signal_plan(x: tuple[int, ...], kernel: tuple[int, ...], dtype: str = "float32", **options: Any):
    return so.plan_convolve(x, dtype, ArraySpec(kernel, dtype), device="cuda", **options)


@pytest.mark.parametrize("lengths", [TILE_LENGTHS, LINE_LENGTHS], ids=["tiles", "lines"])
def test_every_length_of_the_cost_model_has_radices(lengths) -> None:
    fewest = 2 if lengths is LINE_LENGTHS else 1
    for n in lengths:
        order = radices(n, fewest)
        assert math.prod(order) == n
        assert list(order) == sorted(order)
        assert fewest <= len(order) <= (4 if lengths is LINE_LENGTHS else 2)


def test_the_cost_model_knows_the_kernels() -> None:
    assert model.MOST_AXES == convolution.MOST_AXES
    assert model.RADICES == convolution_tiles.RADICES
    assert model.SPACE_BYTES == convolution_problem.SPACE_BYTES
    assert (model.RESERVED_BYTES, model.MULTIPROCESSOR_BYTES) == (SYSTEM_BYTES, MULTIPROCESSOR_BYTES)
    limits = convolution_direct.LONGEST, convolution_direct.MOST_TAPS, convolution_direct.MOST_CHANNEL_TAPS
    assert limits == (model.LONGEST, model.MOST_TAPS, model.MOST_CHANNEL_TAPS)


def test_radices_differ_as_little_as_possible() -> None:
    assert [radices(n) for n in (7, 64, 144, 126)] == [(7,), (8, 8), (12, 12), (9, 14)]
    assert radices(16, 2) == (4, 4)
    assert radices(17) == ()


@pytest.mark.parametrize("order", [(5,), (2, 3), (2, 3, 4)])
def test_twiddle_factors_follow_the_passes(order: tuple[int, ...]) -> None:
    """Decimation in frequency with these factors is the transform in the order of reversed digits."""
    n = math.prod(order)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    factors, v, m, at = table(order), x.copy(), n, 0
    for radix in order:
        parts = m // radix
        blocks = v.reshape(-1, radix, parts)
        blocks[...] = np.fft.fft(blocks, axis=1)
        if parts > 1:
            count = (radix - 1) * parts
            blocks[:, 1:] *= factors[at : at + count].reshape(radix - 1, parts)
            at += count
        m = parts
    assert at == len(factors)
    expected = np.fft.fft(x).reshape(order[::-1]).transpose().ravel()
    assert np.allclose(v, expected, rtol=0, atol=1e-12)


def test_tiles_fill_a_multiprocessor() -> None:
    large, small = geometry((144, 144), 4), geometry((32, 32), 4)
    assert (large.orders, large.threads, large.resident, large.lines) == (((12, 12), (12, 12)), 864, 1, 1)
    assert large.shared == (144 * 145 + 2 * 132) * 8
    assert (small.threads, small.resident) == (64, 16)
    assert large.points == 144 * 144
    assert large.template == "864, 1, Radices<12, 12>, Radices<12, 12>"
    assert geometry((96, 144), 8).resident == 1


def test_short_lines_share_a_block() -> None:
    each = geometry((256,), 4)
    assert (each.lines, each.orders) == (8, ((16, 16),))
    assert each.shared == 8 * (256 + 16 + 1) * 8
    assert each.template == f"8, {each.threads}, Radices<16, 16>"
    assert geometry((4096,), 4).lines == 1


@pytest.mark.parametrize(
    ("shape", "batch", "found"),
    [
        ((), (4, 5), (1, 1)),
        ((1, 1), (4, 5), (1, 1)),
        ((4, 5), (4, 5), (1, 20)),
        ((5,), (4, 5), (1, 5)),
        ((4, 1), (4, 5), (5, 4)),
        ((3, 1), (2, 3, 4), (4, 3)),
        ((2, 1, 4), (2, 3, 4), None),
    ],
)
def test_a_batch_finds_its_planes(shape, batch, found) -> None:
    assert mapping(shape, batch) == found
    if found is not None:
        numbers = np.arange(math.prod(shape)).reshape(shape)
        expected = np.broadcast_to(numbers, batch).ravel()
        assert np.array_equal(np.arange(math.prod(batch)) // found[0] % found[1], expected)


LARGE = (16, 64, 224, 224)


@pytest.mark.parametrize(
    ("kernel", "groups", "method"),
    [(3, 64, "direct"), (7, 64, "direct"), (15, 64, "tiles"), (31, 64, "fft"), (7, 1, "tiles")],
)
def test_the_cost_model_chooses(kernel: int, groups: int, method: str) -> None:
    plan = layer_plan(LARGE, (64, 64 // groups, kernel, kernel), padding="same", groups=groups)
    assert (plan.backend, plan.method) == ("cuda", method)
    assert plan.cost.seconds == min(seconds for _, seconds in plan.seconds)
    assert f"method: {method}" in plan.explain()


def test_explain_says_how_kernels_run() -> None:
    tiles = layer_plan(LARGE, (64, 1, 15, 15), padding="same", groups=64).explain()
    assert "lengths 128x128, chosen by 'auto': overlap-save; a NaN reaches the tiles that contain it\n" in tiles
    how = (
        "spectra of the kernels; tiles forward, product and inverse in one, neighbouring columns as one complex column"
    )
    assert f"runs: 2 kernels: {how}; radices 8*16 x 8*16\n" in tiles
    strided = layer_plan(LARGE, (64, 1, 15, 15), padding=7, groups=64, stride=2, method="tiles").explain()
    assert "asked for: overlap-save; a NaN reaches the two tiles of its image that share a transform\n" in strided
    assert "tiles forward, product and inverse in one, two tiles of an image as one complex one; radices" in strided
    dense = layer_plan((2, 8, 64, 64), (8, 8, 9, 9), method="tiles").explain()
    assert (
        "runs: 4 kernels: spectra of the weights, tiles forward, sums over channels, tiles back, neighbouring" in dense
    )
    assert "one result a thread" in layer_plan((1, 1, 9, 9), (1, 1, 3, 3), stride=2).explain()
    assert "32 results a thread" in layer_plan((1, 1, 9, 9), (1, 1, 3, 3)).explain()
    assert "8 results of a plane a thread, plane after plane" in signal_plan((9, 9, 9), (3, 3, 3)).explain()
    assert "8 results for each of several channels a thread" in layer_plan((1, 2, 9, 9), (1, 2, 3, 3)).explain()
    long = signal_plan((4, 8192), (8192,), mode="same", boundary="wrap", axes=-1, method="fft").explain()
    assert "product and inverse in one, neighbours as one complex number; radices 16*4*8*8\n" in long
    complex_lines = signal_plan((4, 4000), (50,), "complex64", method="tiles").explain()
    assert "two tiles of" not in complex_lines.split("runs: ")[1]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (lambda **o: signal_plan((2, 3, 4, 5), (2, 2, 2, 2), **o), "kernels take 1 to 3 axes, not 4"),
        (
            lambda **o: signal_plan((4096, 4096), (255, 255), "complex64", mode="same", **o),
            "no tile of the kernel's size fits a block, and direct sums would take longer than cuFFT",
        ),
        (
            lambda **o: signal_plan((400, 400), (3, 3), "complex64", method="fft", **o),
            "one tile for everything does not fit a block",
        ),
        (
            lambda **o: signal_plan((400, 400), (200, 200), "complex64", method="tiles", **o),
            "a tile of the kernel's size does not fit a block",
        ),
        (
            lambda **o: signal_plan((2, 2, 20000), (3, 3, 3), method="fft", **o),
            "one tile for everything does not fit a block",
        ),
        (
            lambda **o: signal_plan((5, 8, 9), (3, 3, 3), method="tiles", **o),
            "tiles along three axes must fit a block, and be shorter than one transform of everything",
        ),
        (
            lambda **o: layer_plan((1, 2, 400, 400), (1, 2, 3, 3), method="fft", **o),
            "one tile for everything does not fit",
        ),
    ],
    ids=["4d", "large-kernel", "whole", "tile", "long-volume", "small-volume", "layer"],
)
def test_what_kernels_do_not_cover_runs_on_cupy(plan, reason: str) -> None:
    found = plan()
    assert found.backend == "cupy"
    assert f"(no kernels: {reason}" in found.explain()
    with pytest.raises(UnsupportedError, match=rf"backend is 'cuda', but must be 'cupy' .*: {re.escape(reason)}"):
        plan(backend="cuda")
    with pytest.raises(UnsupportedError, match="but must be one without kernels: "):
        convolution.algorithm(replace(found, backend="cuda"))


def test_plans_that_name_cupy_are_passed_over_for_no_reason() -> None:
    plan = signal_plan((40,), (3,), backend="cupy")
    assert plan.cost.engine == "scipy"
    assert "no kernels" in plan.explain()
    assert "no kernels" not in signal_plan((40,), (3,)).explain()


def test_a_device_of_less_shared_memory_gets_smaller_tiles() -> None:
    def sums(shared: int) -> DeviceSums:
        return DeviceSums(
            (31, 31), (31, 31), (224, 224), (1, 1), 1024, 64, 1024, 1, 1, (True, False), 1, (0, 0), (224, 224),
            (239, 239), True, shared,
        )  # fmt: skip

    large = {cost.method: cost for cost in sums(227 * 1024).costs()}["tiles"]
    small = {cost.method: cost for cost in sums(99 * 1024).costs()}["tiles"]
    assert large.lengths == (105, 256)
    assert math.prod(small.lengths) * 8 < 99 * 1024
    assert large.seconds < small.seconds


def test_a_tile_that_does_not_fit_the_device_is_refused() -> None:
    plan = so.plan_fft_conv2d(
        LARGE, "complex64", ArraySpec((64, 1, 31, 31), "float32"), padding="same", groups=64, device="cuda"
    )
    message = (
        r"^fft_conv2d: a tile of 105 x 256 takes 218520 bytes of shared memory, but must take at most 1024; plan on"
    )
    with pytest.raises(UnsupportedError, match=message):
        convolution.Prepared(plan, launch.Device(0, 4, 1024), np)


def test_a_circular_convolution_of_a_good_length_needs_no_overlap() -> None:
    plan = signal_plan((8, 1024), (1024,), mode="same", boundary="wrap", axes=-1, method="fft")
    assert plan.lengths == (1024,)
    assert signal_plan((8, 1024), (1024,), mode="same", axes=-1, method="fft").lengths == (1536,)
    assert signal_plan((8, 1024), (1024,), mode="full", boundary="wrap", axes=-1, method="fft").lengths != (1024,)


@pytest.mark.parametrize(
    ("plan", "kernel"),
    [
        (lambda: layer_plan((1, 2, 9, 9), (2, 1, 3, 3), groups=2), "direct_planes"),
        (lambda: layer_plan((1, 2, 9, 9), (2, 1, 3, 3), groups=2, dilation=2), "direct_any"),
        (lambda: layer_plan((1, 2, 9, 9), (2, 1, 3, 3), groups=2, stride=(1, 2)), "direct_any"),
        (lambda: layer_plan((1, 2, 9, 9), (2, 2, 3, 3)), "direct_channels"),
        (lambda: layer_plan((1, 2, 19, 19), (2, 2, 7, 7), method="direct"), "direct_any"),
        (lambda: layer_plan((1, 1, 39, 39), (1, 1, 12, 2), method="direct"), "direct_any"),
        (lambda: signal_plan((9, 9), (3, 3)), "direct_planes"),
        (lambda: signal_plan((9, 9), (3, 3), "complex64"), "direct_any"),
        (lambda: signal_plan((9,), (3,)), "direct_any"),
        (lambda: signal_plan((9, 9, 9), (3, 3, 3)), "direct_volumes"),
        (lambda: signal_plan((9, 9, 9), (3, 3, 3), "complex64"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (9, 6, 6), method="direct"), "direct_volumes"),
        (lambda: signal_plan((29, 29, 29), (9, 6, 7), method="direct"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (10, 1, 1), method="direct"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (1, 1, 12), method="direct"), "direct_any"),
        (lambda: signal_plan((29, 29, 29), (5, 1, 1), "float64", method="direct"), "direct_volumes"),
        (lambda: signal_plan((29, 29, 29), (6, 1, 1), "float64", method="direct"), "direct_any"),
    ],
)
def test_direct_sums_have_four_kernels(plan, kernel: str) -> None:
    assert family(problem(plan())) == kernel


def test_flops_and_bytes_are_exact() -> None:
    direct = layer_plan((2, 3, 9, 8), (4, 3, 3, 3), method="direct")
    assert direct.flops == 2 * (2 * 4 * 7 * 6) * 3 * 9
    assert direct.bytes_moved == 4 * (2 * 3 * 9 * 8 + 4 * 3 * 9 + 2 * 4 * 7 * 6)
