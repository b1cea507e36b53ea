"""Filters and spectral convolutions of the CUDA backend: geometry, programs, and the kernels on the host."""

from __future__ import annotations

import ctypes
import math
import re
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from conformance import CASES, Variant
from cuda_on_host import BACKEND, HostRunner, Recorder, backend
from test_conformance import poison, run  # noqa: F401, the fixture poisons what the cases allocate

import spectralops as so
from spectralops import UnsupportedError, _dispatch, transfer
from spectralops._arrays import ArraySpec
from spectralops._cuda import launch, pruned, spectral_conv, spectral_filter, spectral_gradient
from spectralops._cuda.geometry import column_geometry, row_geometry
from spectralops._cuda.launch import Kernel
from spectralops._cuda.passes import Passes, factors, passes
from spectralops._cuda.program import Address, Program, address

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
GAUSSIAN = transfer.gaussian(1.0)
NO_KERNELS = "length 17 has a prime factor above 13"


# ------------------------------------------------------------------ passes


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
    assert passes(17, 4) is None
    assert passes(1, 4) == Passes((1,), 1, 1)
    assert passes(1, 4, pairs=True) is None
    assert passes(15, 4, 16, True) is None
    assert passes(4096, 4, 16, False, 32) is None


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


# ------------------------------------------------------------------ programs


RECORD = np.dtype([("count", np.int64), ("where", np.int64)])
KERNEL = Kernel("some.cu", "some<float>", (3, 2), (64,), 128)


def program() -> Program:
    made = Program()
    made.add(KERNEL, Address(1, 16), np.int64(7))
    made.add(KERNEL, np.array([(5, 0)], RECORD), Address(0), inner={(0, 1): Address(1)})
    return made


def test_a_program_fills_in_addresses_on_the_host() -> None:
    runner = Recorder()
    program().run(runner, [1000, 2000])
    (pointer, count), (record, last) = runner.arguments
    assert runner.launched == [KERNEL, KERNEL]
    assert (pointer, count, last) == (2016, 7, 1000)
    assert record.view(RECORD).tolist() == [(5, 2000)]


def test_a_program_fills_in_addresses_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def launch_kernel(function: int, *rest: int) -> None:
        geometry, stream, pointers, extra = rest[:7], rest[7], rest[8], rest[9]
        arguments = [ctypes.c_uint64.from_address(p).value for p in (ctypes.c_uint64 * 2).from_address(pointers)]
        second = ctypes.c_uint64.from_address((ctypes.c_uint64 * 2).from_address(pointers)[0] + 8).value
        calls.append((function, geometry, stream, extra, arguments, second))

    function = SimpleNamespace(kernel=SimpleNamespace(ptr=77))
    monkeypatch.setattr("spectralops._cuda.program.module.function", lambda *_: function)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    cuda = SimpleNamespace(driver=SimpleNamespace(launchKernel=launch_kernel))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setattr("spectralops._cuda.program.launch_kernel", launch_kernel)
    runner = SimpleNamespace(device=lambda: launch.Device(0, 1, 1), stream=lambda: 5)
    monkeypatch.setattr(launch, "cuda_runner", runner)
    made = program()
    made.run(runner, [1000, 2000])  # type: ignore[arg-type]
    made.run(runner, [3000, 2000])  # type: ignore[arg-type]
    thread = threading.Thread(target=made.run, args=(runner, [4000, 5000]))
    thread.start()
    thread.join()
    geometry = (3, 2, 1, 64, 1, 1, 128)
    assert [call[:4] for call in calls] == [(77, geometry, 5, 0)] * 6
    assert [call[4] for call in calls] == [[2016, 7], [5, 1000], [2016, 7], [5, 3000], [5016, 7], [5, 4000]]
    assert [call[5] for call in calls[1::2]] == [2000, 2000, 5000]


def test_the_driver_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    from spectralops._cuda import program as module

    calls: list[Any] = []
    monkeypatch.setattr(module, "launch_kernel", module.launch_kernel)  # puts it back afterwards
    driver = SimpleNamespace(launchKernel=lambda *a: calls.append(a))
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(driver=driver))
    module.launch_kernel(1, 2, 3)
    assert module.launch_kernel is driver.launchKernel
    assert calls == [(1, 2, 3)]


def test_address() -> None:
    x = np.zeros(8)
    assert address(x[2:]) == x.ctypes.data + 16
    assert address(SimpleNamespace(data=SimpleNamespace(ptr=12))) == 12


# ------------------------------------------------------------------ plans


def filter_plan(shape: tuple[int, ...], symbol: Any = GAUSSIAN, dtype: str = "float32", **options: Any):
    return so.plan_spectral_filter(shape, dtype, symbol, device="cuda", **options)


@pytest.mark.parametrize(
    ("shape", "options", "reason"),
    [
        ((3, 17), {"axes": -1}, NO_KERNELS),
        ((17, 8), {}, NO_KERNELS),
        ((8, 8), {"pad_width": (1, (17 * 2 - 8) // 2)}, "length 34 has a prime factor above 13"),
        ((2, 2, 2, 2), {"axes": (0, 1, 2, 3)}, "kernels take 1 to 3 axes, not 4"),
        ((2**17,), {}, "length 131072 does not fit a block"),
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
            "runs: 3 kernels, the middle one forward, product and inverse along the first axis; two real rows as one "
            "complex row, the spectrum in the result's own memory; radices 4*16 x 8*8\n",
        ),
        (
            lambda: filter_plan((4, 7, 8)),
            "; real rows one by one, half of their spectrum in a workspace; radices 7 x 4*2",
        ),
        (lambda: filter_plan((7, 8, 9), dtype="complex64", axes=(0, 1, 2)), "runs: 5 kernels, the middle one"),
        (lambda: filter_plan((7, 8), dtype="complex64"), "; complex rows; radices 7 x 4*2\n"),
        (
            lambda: so.plan_spectral_conv(
                (2, 3, 64, 64), "float32", ArraySpec((3, 4, 8, 5), "complex64"), device="cuda"
            ),
            "runs: 5 kernels: pruned transforms along the axes (radices 4*16 x 8*8), one product per wavenumber over "
            "the channels, pruned inverse transforms (radices 4*16 x 8*8); kept wavenumbers alone lie between\n",
        ),
        (
            lambda: so.plan_spectral_conv((2, 3, 17), "float32", ArraySpec((3, 4, 5), "complex64"), device="cuda"),
            f"forward, cut, einsum, pad, inverse, one after the other (no kernels: {NO_KERNELS})\n",
        ),
        (
            lambda: so.plan_spectral_conv(
                (2, 3, 16), "float32", ArraySpec((3, 4, 5), "complex64"), out_shape=34, device="cuda"
            ),
            "(no kernels: length 34 has a prime factor above 13)\n",
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
        spectral_filter.algorithm(replace(filter_plan((17, 8)), backend="cuda"))
    plan = so.plan_spectral_conv((1, 1, 17), "float32", ArraySpec((1, 1, 2), "complex64"), device="cuda")
    with pytest.raises(UnsupportedError, match=message.replace("filter", "conv")):
        spectral_conv.algorithm(replace(plan, backend="cuda"))


def test_plans_that_have_kernels_are_passed_over_for_no_reason() -> None:
    assert _dispatch.passed_over(filter_plan((8, 8), backend="cupy")) == ""
    assert _dispatch.passed_over(filter_plan((8, 8))) == ""


# ------------------------------------------------------------------ kernels on the host

SELECTED = [
    ("gaussian-odd-anisotropic", "float32"),
    ("gaussian-1d-prime", "float32"),
    ("derivative-1d", "float32"),
    ("shift-3d", "float32"),
    ("riesz-reversed-axes", "float32"),
    ("empty-batch", "float32"),
    ("single-point", "float32"),
    ("array-per-channel", "float32"),
    ("factors", "float32"),
    ("1d-all-modes-even", "float32"),
    ("1d-complex-all-modes", "complex64"),
    ("2d", "float32"),
    ("2d-finer", "float32"),
    ("2d-swapped-axes", "float32"),
    ("2d-depthwise", "float32"),
    ("3d", "float32"),
    ("1d-depthwise", "float32"),
]
GRADIENTS = ("1d-depthwise", "2d", "2d-finer", "1d-complex-all-modes")
VARIANTS = [
    Variant(case, BACKEND, dtype)
    for name, dtype in SELECTED
    for case in CASES
    if case.name == name
    and (case.op, "cuda") in _dispatch.SUPPORT
    and case.op.startswith("spectral")
    and (case.op != "spectral_conv_weight_gradient" or name in GRADIENTS)
]


@on_host
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_kernels_match_the_reference(variant: Variant) -> None:
    with backend():
        run(variant)


@pytest.fixture
def host():
    """The backend on the host, for a test."""
    with backend() as runner:
        yield runner


@on_host
@pytest.mark.parametrize(
    ("shape", "width", "mode"),
    [
        ((2, 10), 2, "zero"),
        ((2, 9), 3, "edge"),
        ((2, 9, 7), (2, 3), "zero"),
        ((1, 3), (4, 5), "reflect"),
        ((4, 8, 6), (1, 2, 1), "reflect"),
    ],
)
def test_padding(host, rng, shape: tuple[int, ...], width: int | tuple[int, ...], mode: str) -> None:
    axes = tuple(range(-len(width), 0)) if isinstance(width, tuple) else (-1,)
    x = rng.standard_normal(shape).astype("float32")
    options: dict[str, Any] = {"axes": axes, "pad_width": width, "pad_mode": mode}
    result = so.spectral_filter(x, transfer.shift((0.7,) * len(axes)), backend=BACKEND, **options)
    expected = so.spectral_filter(x.astype("float64"), transfer.shift((0.7,) * len(axes)), backend="numpy", **options)
    assert np.abs(result - expected).max() < 1e-5


@on_host
def test_padding_of_complex_fields_in_slices(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral_filter, "SPACE_BYTES", 1)
    x = rng.standard_normal((3, 5, 6)) + 1j * rng.standard_normal((3, 5, 6))
    options: dict[str, Any] = {"pad_width": (1, 2), "pad_mode": "reflect"}
    result = so.spectral_filter(x, GAUSSIAN, backend=BACKEND, **options)
    assert np.abs(result - so.spectral_filter(x, GAUSSIAN, backend="numpy", **options)).max() < 1e-13
    assert len(host.launched) == 9


@on_host
def test_adjoint_of_a_convolution_to_another_grid(host, rng) -> None:
    weight = (rng.standard_normal((3, 2, 4, 4)) + 1j * rng.standard_normal((3, 2, 4, 4))).astype("complex64")
    plan = so.plan_spectral_conv((2, 3, 8, 6), "float32", weight, out_shape=(6, 8), backend=BACKEND)
    x = rng.standard_normal(plan.in_shape).astype("float32")
    y = rng.standard_normal(plan.out_shape).astype("float32")
    left, right = np.vdot(plan(x, weight), y), np.vdot(x, plan.adjoint()(y, weight))
    assert abs(left - right) < 1e-5 * abs(left)


@on_host
def test_adjoint_of_a_filter_conjugates(host, rng) -> None:
    h = (rng.standard_normal((6, 5)) + 1j * rng.standard_normal((6, 5))).astype("complex64")
    plan = so.plan_spectral_filter((2, 6, 8), "float32", h, backend=BACKEND)
    x, y = (rng.standard_normal((2, 6, 8)).astype("float32") for _ in range(2))
    left, right = np.vdot(plan(x, h), y), np.vdot(x, plan.adjoint()(y, h))
    assert abs(left - right) < 1e-5 * np.linalg.norm(x) * np.linalg.norm(y)


@on_host
def test_weight_gradient_is_the_derivative(host, rng) -> None:
    x, g = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 2, 8))
    gradient = so.spectral_conv_weight_gradient(x, g, 3, backend=BACKEND)
    v = rng.standard_normal(gradient.shape) + 1j * rng.standard_normal(gradient.shape)
    assert abs(np.vdot(gradient, v).real - np.vdot(g, so.spectral_conv(x, v, backend="reference"))) < 1e-12 * g.size


@on_host
def test_weight_gradient_of_no_samples_is_zero(host) -> None:
    empty = np.zeros((0, 2, 8), "float32")
    assert not so.spectral_conv_weight_gradient(empty, empty, 3, backend=BACKEND).any()


def test_weight_gradients_that_kernels_do_not_cover() -> None:
    plan = so.plan_spectral_conv_weight_gradient(
        (1, 1, 17), "float32", ArraySpec((1, 1, 17), "float32"), 3, device="cuda"
    )
    assert plan.backend == "cupy"
    assert f"one after the other (no kernels: {NO_KERNELS})\n" in plan.explain()
    with pytest.raises(UnsupportedError, match=f"must be one without kernels: {NO_KERNELS}$"):
        spectral_gradient.algorithm(replace(plan, backend="cuda"))
    plan = so.plan_spectral_conv_weight_gradient(
        (1, 1, 16), "float32", ArraySpec((1, 1, 34), "float32"), 3, device="cuda"
    )
    assert "length 34 has" in plan.explain()
    plan = so.plan_spectral_conv_weight_gradient(
        (1, 1, 16), "float32", ArraySpec((1, 1, 8), "float32"), 3, device="cuda"
    )
    assert (
        "runs: 3 kernels: pruned transforms of x (radices 4*4) and of the gradient (radices 4*2), one product per "
        "wavenumber over the batch\n"
    ) in plan.explain()


@on_host
@pytest.mark.parametrize("factor", [(3, 1, 6, 5), (1, 2, 6, 5), (3, 2, 6, 1), (2, 1, 1)], ids=str)
def test_factors_along_the_batch(host, rng, factor) -> None:
    x, h = rng.standard_normal((3, 2, 6, 8)).astype("float32"), rng.standard_normal(factor).astype("float32")
    expected = np.fft.irfft2(np.fft.rfft2(x) * h, s=(6, 8))
    assert np.abs(so.spectral_filter(x, h, backend=BACKEND) - expected).max() < 1e-5


@on_host
def test_factors_of_any_strides(host, rng) -> None:
    x, h = rng.standard_normal((4, 6, 8)).astype("float32"), rng.standard_normal((5, 6, 4)).astype("float32")
    symbol = h.transpose(2, 1, 0)[::-1, ::-1]
    expected = np.fft.irfft2(np.fft.rfft2(x) * symbol, s=(6, 8))
    assert np.abs(so.spectral_filter(x, symbol, backend=BACKEND) - expected).max() < 1e-5


@on_host
def test_functions_that_return_another_kind_at_each_call(host, rng) -> None:
    x = rng.standard_normal((4, 6, 8)).astype("float32")
    whole = 1 + rng.random((6, 5))
    for value in (2.0, 2.0 + 0j, whole, whole[:1], whole[:, :1], whole + 0.5j):
        expected = np.fft.irfft2(np.fft.rfft2(x) * value, s=(6, 8))
        result = so.spectral_filter(x, lambda k0, k1, h=value: h, backend=BACKEND)
        assert np.abs(result - expected).max() < 1e-5


@on_host
def test_functions_that_return_many_factors(host, rng) -> None:
    x = rng.standard_normal((4, 8)).astype("float32")
    parts = [1 + rng.random(5) for _ in range(5)]
    expected = np.fft.irfft(np.fft.rfft(x) * math.prod(parts[1:], start=parts[0]))
    assert np.abs(so.spectral_filter(x, lambda k: tuple(parts), axes=-1, backend=BACKEND) - expected).max() < 1e-4


@on_host
@pytest.mark.parametrize("op", ["filter", "conv"])
def test_misaligned_arrays_are_copied(host, rng, op: str) -> None:
    x = rng.standard_normal((2, 2, 16)).astype("float32")
    buffer = np.zeros(4 * 9 * 2 + 1, "float32")
    values = buffer[1:]
    values[:] = rng.standard_normal(values.size)
    if op == "filter":
        h = values[:18].view("complex64")
        expected = np.fft.irfft(np.fft.rfft(x) * h)
        assert np.abs(so.spectral_filter(x, h, axes=-1, backend=BACKEND) - expected).max() < 1e-5
    else:
        weight = values.reshape(2, 2, 9, 2)
        expected = so.spectral_conv(x, weight, backend="reference")
        assert np.abs(so.spectral_conv(x, weight, backend=BACKEND) - expected).max() < 1e-5


@on_host
def test_large_batches_are_cut_to_the_scratch_memory(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    x, h = rng.standard_normal((5, 7, 8)).astype("float32"), rng.standard_normal((5, 7, 5)).astype("float32")
    monkeypatch.setattr(spectral_filter, "SPACE_BYTES", 2 * 7 * 5 * 8)
    expected = np.fft.irfft2(np.fft.rfft2(x) * h, s=(7, 8))
    assert np.abs(so.spectral_filter(x, h, backend=BACKEND) - expected).max() < 1e-5
    assert len(host.launched) == 9


@on_host
def test_programs_are_kept_by_plan_and_strides(host, rng) -> None:
    spectral_filter._prepared.clear()
    x = rng.standard_normal((2, 16)).astype("float32")
    for _ in range(2):
        so.spectral_filter(x, GAUSSIAN, axes=-1, backend=BACKEND)
    assert len(spectral_filter._prepared) == 1
    for width in (1.0, 2.0):  # a caller's function is new each time, its kernels are not
        result = so.spectral_filter(x, lambda k, w=width: np.exp(-((w * k) ** 2)), axes=-1, backend=BACKEND)
        k = 2 * np.pi * np.fft.rfftfreq(16)
        expected = np.fft.irfft(np.fft.rfft(x) * np.exp(-((width * k) ** 2)))
        assert np.abs(result - expected).max() < 1e-6
    assert len(spectral_filter._prepared) == 2
    assert [each.plan.transfer for each in spectral_filter._prepared.values()] == [GAUSSIAN, None]


@on_host
def test_kept_programs_are_bounded(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral_filter, "KEPT_PROGRAMS", 2)
    monkeypatch.setattr(pruned, "KEPT_PROGRAMS", 2)
    spectral_filter._prepared.clear()
    pruned._prepared.clear()
    monkeypatch.setattr(HostRunner, "launch", lambda *_: None)
    for n in (8, 16, 32):
        so.spectral_filter(np.ones((1, n), "float32"), transfer.gaussian(1.0), axes=-1, backend=BACKEND)
        so.spectral_conv(np.ones((1, 1, n), "float32"), np.ones((1, 1, 2), "complex64"), backend=BACKEND)
    assert len(spectral_filter._prepared) == len(pruned._prepared) == 2
    spectral_filter._prepared.clear()
    pruned._prepared.clear()


@on_host
def test_convolutions_read_any_strides(host, rng) -> None:
    x = rng.standard_normal((8, 2, 3)).astype("float32").T
    weight = (
        (rng.standard_normal((3, 2, 2)) + 1j * rng.standard_normal((3, 2, 2))).astype("complex64").transpose(1, 2, 0)
    )
    result = so.spectral_conv(x, weight, backend=BACKEND)
    assert np.abs(result - so.spectral_conv(x, weight, backend="reference")).max() < 1e-5


@pytest.mark.parametrize(
    ("batch", "channels", "modes", "tile"),
    [
        (16, (64, 64), 2048, "4, 8, 4, 2"),
        (1, (64, 64), 4096, "1, 4, 1, 8"),
        (1, (1, 1), 32, "1, 1, 1, 1"),
        (16, (64, 64), 256, "2, 4, 2, 2"),
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
    assert kernel.grid == (-(-modes // 32), -(-channels[1] // outputs), -(-batch // samples))


# ------------------------------------------------------------------ on a device

CALLS = {
    "filter-2d": (
        (4, 64, 96),
        lambda x, weight, **tail: so.spectral_filter(x, GAUSSIAN, **tail),
    ),
    "filter-3d": (
        (2, 16, 20, 24),
        lambda x, weight, **tail: so.spectral_filter(x, GAUSSIAN, axes=(1, 2, 3), **tail),
    ),
    "conv-2d": (
        (3, 4, 32, 48),
        lambda x, weight, **tail: so.spectral_conv(x, weight, **tail),
    ),
}


@pytest.fixture
def device_call(request):
    """A call of an operator on a device, its field, and what comes out by CuPy's transforms."""
    cupy = pytest.importorskip("cupy")
    shape, function = CALLS[request.param]
    random = np.random.default_rng(2)
    x = cupy.asarray(random.standard_normal(shape).astype("float32"))
    # on the device before any capture begins: none may copy from the host
    weight = cupy.asarray((random.standard_normal((4, 4, 8, 6)) + 1j).astype("complex64"))

    def call(x: Any, **tail: Any) -> Any:
        return function(x, weight, **tail)

    return cupy, call, x, cupy.asnumpy(call(x, backend="cupy"))


def close(result: Any, expected: np.ndarray) -> bool:
    return bool(np.abs(result - expected).max() < 1e-5 * np.abs(expected).max())


@pytest.mark.gpu
@pytest.mark.parametrize("device_call", CALLS, indirect=True)
def test_captured_graphs_on_gpu(device_call) -> None:
    cupy, call, x, expected = device_call
    out = cupy.empty_like(x)
    call(x, backend="cuda", out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        call(x, backend="cuda", out=out)
        graph = stream.end_capture()
        for _ in range(2):
            out.fill(0)
            graph.launch(stream)
            stream.synchronize()
            assert close(cupy.asnumpy(out), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("device_call", CALLS, indirect=True)
def test_threads_and_streams_on_gpu(device_call) -> None:
    cupy, call, x, expected = device_call
    wrong: list[int] = []

    def work(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(20):
                result = call(x, backend="cuda")
                stream.synchronize()
                if not close(cupy.asnumpy(result), expected):
                    wrong.append(number)

    cupy.cuda.Device().synchronize()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.gpu
@pytest.mark.parametrize("n", [2, 15, 128, 500, 1001, 2048, 4096, 5040, 8192])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_lengths_on_gpu(n: int, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    random = np.random.default_rng(n)
    values = random.standard_normal((6, n)) + (1j * random.standard_normal((6, n)) if dtype == "complex64" else 0)
    x = cupy.asarray(values.astype(dtype))
    for axes, field in ((-1, x), ((0, 1), x), ((0, 1), cupy.ascontiguousarray(x.T))):
        if so.plan_spectral_filter(field.shape, dtype, GAUSSIAN, axes=axes, device="cuda").backend != "cuda":
            continue
        result = cupy.asnumpy(so.spectral_filter(field, GAUSSIAN, axes=axes, backend="cuda"))
        expected = cupy.asnumpy(so.spectral_filter(field, GAUSSIAN, axes=axes, backend="cupy"))
        assert np.abs(result - expected).max() < (1e-12 if dtype == "float64" else 1e-5) * np.abs(expected).max()
