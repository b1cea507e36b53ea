"""Which spectral plans have CUDA kernels, how they run, and the geometry of their launches."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import BACKEND, Recorder, backend

import spectralops as so
from spectralops import UnsupportedError, _support, transfer
from spectralops._arrays import ArraySpec
from spectralops._cuda import launch, spectral_conv, spectral_filter, spectral_gradient

GAUSSIAN = transfer.gaussian(1.0)
NO_KERNELS = "length 20011 does not fit a block"


def filter_plan(shape: tuple[int, ...], symbol: Any = GAUSSIAN, dtype: str = "float32", **options: Any):
    return so.plan_spectral_filter(shape, dtype, symbol, device="cuda", **options)


@pytest.mark.parametrize(
    ("shape", "options", "reason"),
    [
        ((3, 20011), {"axes": -1}, NO_KERNELS),
        ((8, 20011), {}, NO_KERNELS),
        ((8, 8), {"pad_width": (1, 2**16)}, "length 131080 does not fit a block"),
        ((2, 2, 2, 2), {"axes": (0, 1, 2, 3)}, "kernels take 1 to 3 axes, not 4"),
        ((2**18,), {}, "length 262144 does not fit a block"),
        ((2, 2**16), {}, "length 65536 does not fit a block"),
        ((2**16, 2), {}, "lengths (65536,) do not fit a block"),
    ],
)
def test_filters_that_kernels_do_not_cover_run_on_cupy(shape, options, reason) -> None:
    plan = filter_plan(shape, **options)
    assert plan.backend == "cupy"
    assert f"one after the other (no kernels: {reason})\n" in plan.explain()
    message = f"^spectral_filter: backend is 'cuda', but must be 'cupy' for these arguments: {re.escape(reason)}$"
    with pytest.raises(UnsupportedError, match=message):
        filter_plan(shape, backend="cuda", **options)
    assert spectral_filter.refusal(replace(plan, backend="cuda")) == reason


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            lambda: filter_plan((4, 1024), axes=-1),
            "runs: one kernel: forward, product and inverse in registers and shared memory, radices ",
        ),
        (
            lambda: filter_plan((4, 64, 64)),
            "runs: one kernel, a block per image: forward, product and inverse in shared memory, radices 8*8 x 4*4*4\n",
        ),
        (
            lambda: filter_plan((4, 32, 64), axes=(0, 1, 2)),
            "runs: 3 kernels: the last two axes of an image in a block, forward, product and inverse along the first "
            "axis, the last two back; half of the spectrum in a workspace; radices 4 x 4*8 x 4*4*4\n",
        ),
        (
            lambda: filter_plan((4, 8, 8)),
            "runs: 3 kernels, the middle one forward, product and inverse along the first axis; two real rows as one "
            "complex row, the spectrum in the result's own memory; radices 4*2 x 4*2\n",
        ),
        (
            lambda: filter_plan((4, 2**15), axes=-1),
            "runs: 2 kernels for some lines at a time: even and odd wavenumbers of a line in two blocks, forward, "
            "product and inverse in registers and shared memory, radices 8*16*16*4; their sums and differences\n",
        ),
        (lambda: filter_plan((34, 17)), "radices 34 as a convolution of 4*5*4 x 17 as a convolution of 6*8\n"),
        (
            lambda: filter_plan((4, 7, 8)),
            "runs: 3 kernels, the middle one forward, product and inverse along the first axis; two real rows as one "
            "complex row, told apart at once, half of their spectrum in a workspace; radices 7 x 4*2",
        ),
        (
            lambda: filter_plan((4, 17, 8)),
            "runs: 4 kernels, one for the spectrum of longer transforms, the middle one forward, product and inverse "
            "along the first axis; two real rows as one complex row, told apart at once, half of their spectrum in a "
            "workspace; radices 17 as part of 12*4 x 4*2",
        ),
        (lambda: filter_plan((3, 17, 8)), "; radices 17 as a convolution of 12*4 x 4*2"),
        (
            lambda: filter_plan((4, 17, 8), ArraySpec((4, 17, 5), "float32"), axes=(1, 2)),
            "; radices 17 as a convolution of 12*4 x 4*2",
        ),
        (
            lambda: filter_plan((64, 34), axes=-1),
            "runs: 2 kernels, one for the spectrum of longer transforms, one forward, product and inverse in registers "
            "and shared memory, two real lines as one complex line, radices 34 as part of ",
        ),
        (lambda: filter_plan((63, 34), axes=-1), "registers and shared memory, radices 17 as a convolution of "),
        (
            lambda: filter_plan((63, 17), axes=-1),
            "and shared memory, two real lines as one complex line, radices 17 as a convolution of ",
        ),
        (lambda: filter_plan((7, 8, 9), dtype="complex64", axes=(0, 1, 2)), "runs: 5 kernels, the middle one"),
        (lambda: filter_plan((7, 8), dtype="complex64"), "; complex rows; radices 7 x 4*2\n"),
        (
            lambda: so.plan_spectral_conv(
                (2, 3, 64, 64), "float32", ArraySpec((3, 4, 8, 5), "complex64"), device="cuda"
            ),
            "runs: 3 kernels: pruned transforms along the axes (radices 8*8 x 4*4*4), one product per wavenumber over "
            "the channels, pruned inverse transforms (radices 8*8 x 4*4*4); kept wavenumbers alone lie between\n",
        ),
        (
            lambda: so.plan_spectral_conv((2, 3, 7, 8), "float32", ArraySpec((3, 4, 3, 5), "complex64"), device="cuda"),
            "runs: 5 kernels: pruned transforms along the axes (radices 7 x 4*2), one product",
        ),
        (
            lambda: so.plan_spectral_conv((2, 3, 20011), "float32", ArraySpec((3, 4, 5), "complex64"), device="cuda"),
            f"forward, cut, einsum, pad, inverse, one after the other (no kernels: {NO_KERNELS})\n",
        ),
        (
            lambda: so.plan_spectral_conv(
                (2, 3, 16), "float32", ArraySpec((3, 4, 5), "complex64"), out_shape=20022, device="cuda"
            ),
            "(no kernels: length 20022 does not fit a block)\n",
        ),
    ],
)
def test_explain_says_how_kernels_run(plan, words: str) -> None:
    assert words in plan().explain()


@pytest.mark.parametrize(
    ("shape", "weight", "reason"),
    [
        ((1, 1, 2**16), (1, 1, 2), "length 65536 does not fit a block"),
        ((1, 1, 2**16, 2), (1, 1, 2, 2), "lengths (65536,) do not fit a block"),
        ((1, 1, 2, 2, 2, 2), (1, 1, 1, 1, 1, 1), "kernels take 1 to 3 axes, not 4"),
    ],
)
def test_convolutions_that_kernels_do_not_cover(shape, weight, reason) -> None:
    plan = so.plan_spectral_conv(shape, "float32", ArraySpec(weight, "complex64"), device="cuda")
    assert plan.backend == "cupy"
    assert spectral_conv.refusal(replace(plan, backend="cuda")) == reason


def test_kernels_refuse_what_they_do_not_cover() -> None:
    message = f"^spectral_filter: backend is 'cuda', but must be one without kernels: {NO_KERNELS}$"
    with pytest.raises(UnsupportedError, match=message):
        spectral_filter.algorithm(replace(filter_plan((8, 20011)), backend="cuda"))
    plan = so.plan_spectral_conv((1, 1, 20011), "float32", ArraySpec((1, 1, 2), "complex64"), device="cuda")
    with pytest.raises(UnsupportedError, match=message.replace("filter", "conv")):
        spectral_conv.algorithm(replace(plan, backend="cuda"))


def test_what_fits_depends_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(filter_plan((3, 2**17), axes=-1), backend="cuda")
    assert spectral_filter.refusal(plan) == "length 131072 does not fit a block"
    large = SimpleNamespace(device=lambda: launch.Device(0, 132, 512 * 1024))
    monkeypatch.setattr(launch, "cuda_runner", large)
    assert spectral_filter.refusal(plan) == ""


def test_plans_that_have_kernels_are_passed_over_for_no_reason() -> None:
    assert _support.passed_over(filter_plan((8, 8), backend="cupy")) == ""
    assert _support.passed_over(filter_plan((8, 8))) == ""


def test_filters_whose_values_lie_far_apart_have_wide_indices() -> None:
    """As those of a view of much memory do, of which nothing is read here."""
    x = np.zeros((2, 6, 8), np.float32)
    for step, index in ((2**31, "int"), (2**32, "long long")):
        values = np.lib.stride_tricks.as_strided(np.zeros(5, np.complex64), (6, 5), (step, 8))
        with backend(Recorder()) as recorder:
            so.spectral_filter(x, values, axes=(1, 2), backend=BACKEND)
        assert {kernel.options for kernel in recorder.launched} == {(f"-DINDEX_T={index}",)}


def test_weight_gradients_that_kernels_do_not_cover() -> None:
    plan = so.plan_spectral_conv_weight_gradient(
        (1, 1, 20011), "float32", ArraySpec((1, 1, 20011), "float32"), 3, device="cuda"
    )
    assert plan.backend == "cupy"
    assert f"one after the other (no kernels: {NO_KERNELS})\n" in plan.explain()
    with pytest.raises(UnsupportedError, match=f"must be one without kernels: {NO_KERNELS}$"):
        spectral_gradient.algorithm(replace(plan, backend="cuda"))
    plan = so.plan_spectral_conv_weight_gradient(
        (1, 1, 16), "float32", ArraySpec((1, 1, 20022), "float32"), 3, device="cuda"
    )
    assert "length 20022 does not" in plan.explain()
    plan = so.plan_spectral_conv_weight_gradient(
        (1, 1, 16), "float32", ArraySpec((1, 1, 8), "float32"), 3, device="cuda"
    )
    assert (
        "runs: 3 kernels: pruned transforms of x (radices 4*4) and of the gradient (radices 4*2), one product per "
        "wavenumber over the batch\n"
    ) in plan.explain()


@pytest.mark.parametrize(
    ("batch", "channels", "modes", "tile"),
    [
        (16, (64, 64), 2048, "8, 4, 1, 4"),
        (8, (64, 64), 2048, "4, 4, 2, 2"),
        (16, (32, 32), 288, "2, 2, 2, 2"),
        (16, (64, 64), 512, "4, 4, 2, 2"),
        (4, (64, 64), 2048, "4, 4, 1, 4"),
        (1, (64, 64), 4096, "1, 4, 1, 8"),
        (1, (1, 1), 32, "1, 1, 1, 1"),
        (16, (64, 64), 256, "4, 4, 2, 2"),
        (16, (64, 64), 128, "2, 2, 2, 2"),
    ],
)
def test_tiles_of_the_mixing(batch, channels, modes, tile) -> None:
    device = launch.Device(0, 132, 227 * 1024)
    shape, weight = (batch, channels[0], 8192), ArraySpec((*channels, modes), "complex64")
    plan = so.plan_spectral_conv(shape, "float32", weight, device="cuda")
    kernel = spectral_conv.Convolution(plan, np, device).program.steps[1].kernel
    assert kernel.name.startswith(f"mix<float, {tile}, ")
    assert kernel.shared <= 96 * 1024
    samples, outputs = (math.prod(map(int, tile.split(", ")[k::2])) for k in (0, 1))
    assert kernel.grid == (-(-modes // 32) * -(-channels[1] // outputs) * -(-batch // samples),)
