"""Plans launched on arrays known by their addresses alone: the kernels on the host, and what is left to others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from cuda_on_host import HostRunner

import spectralops as so
from spectralops._arrays import ArraySpec
from spectralops._cuda import by_address, convolution, launch, pruned, spectral_conv, spectral_filter

pytestmark = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> HostRunner:
    found = HostRunner()
    monkeypatch.setattr(by_address, "_cupy", lambda: np)
    monkeypatch.setattr(launch, "cuda_runner", SimpleNamespace(device=found.device))
    return found


def aligned(array: Any) -> Any:
    memory = np.empty(array.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    result = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def make(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if dtype == "complex128" else values


NU = 0.2 + 0.1 * np.abs(make(6, 8, seed=5))
MASK = make(6, 8, seed=6) > -1
EPILOGUE = so.Epilogue(scale=2.0, shift=(0.5, 0.25), activation="relu")
# name -> operator, its arrays, other arguments in order, options
CASES: dict[str, tuple[str, list[Any], tuple[Any, ...], dict[str, Any]]] = {
    "a line": ("spectral_filter", [make(3, 12), make(7, seed=1)], (), {"axes": -1}),
    "an image by two factors": (
        "spectral_filter", [make(2, 6, 8), (make(6, 1, dtype="complex128", seed=1), make(5, seed=2))], (), {}
    ),
    "padded": ("spectral_filter", [make(6, 8), make(8, 6, seed=1)], (), {"pad_width": 1, "pad_mode": "edge"}),
    "a transfer": ("spectral_filter", [make(2, 6, 8)], (so.transfer.gaussian(1.5),), {}),
    "layer": ("spectral_conv", [make(2, 3, 6, 8), make(3, 4, 4, 3, dtype="complex128", seed=1)], (), {}),
    "weight gradient": ("spectral_conv_weight_gradient", [make(2, 3, 6, 8), make(2, 4, 6, 8, seed=1)], ((4, 3),), {}),
    "conv2d": ("fft_conv2d", [make(2, 3, 6, 8), make(2, 3, 3, 3, seed=1)], (), {"method": "direct"}),
    "conv2d with more": (
        "fft_conv2d", [make(2, 3, 6, 8), make(2, 3, 3, 3, seed=1), make(2, seed=2)], (),
        {"epilogue": EPILOGUE, "method": "tiles", "padding": 1},
    ),
    "convolve": ("convolve", [make(2, 6, 8), make(3, 3, seed=1)], (), {"mode": "same", "method": "direct"}),
    "convolve by tiles": ("convolve", [make(40), make(5, seed=1)], (), {"method": "tiles"}),
    "steps": ("diffusion_step", [make(2, 6, 8)], (0.7, 0.05, 0.5), {"steps": 5}),
    "many stages": ("diffusion_step", [make(6, 8), NU], (0.7, 0.05, NU), {"steps": 18}),
    "many steps": ("diffusion_step", [make(40, 48)], (0.7, 0.05, 0.5), {"steps": 27}),
    "one step along a line": ("convection_step", [make(3, 16)], ((0.5,), 1.0, 0.1), {"axes": -1}),
    "fields": ("diffusion_step", [make(6, 8), NU], (0.7, 0.05, NU), {"mask": MASK, "steps": 3}),
    "rk4": (
        "pde_step", [make(6, 8)], (0.7, 0.05, [so.Diffusion(NU), so.Source(0.5)]), {"integrator": "rk4", "steps": 2}
    ),
}  # fmt: skip


def spec(array: Any) -> Any:
    if isinstance(array, tuple):
        return tuple(map(spec, array))
    return ArraySpec(array.shape, array.dtype.name)


@pytest.mark.parametrize("name", CASES)
def test_kernels_run_by_address(name: str, runner: HostRunner) -> None:
    op, arrays, more, options = CASES[name]
    x = arrays[0]
    stepping = op.endswith("step")
    passed = more if stepping else (*(arrays[1:]), *more)
    plan = getattr(so, f"plan_{op}")(
        x.shape, x.dtype.name, *(passed if stepping else [*map(spec, arrays[1:]), *more]), **options, device="cuda"
    )
    assert plan.backend == "cuda"
    expected = getattr(so, op)(x, *passed, **options, backend="reference")
    operands = [x]
    if stepping:
        operands += [NU] * any(operand.name == "nu" or "nu" in operand.name for operand in plan.operands[1:])
        operands += [MASK] * ("mask" in options)
    else:
        for array in arrays[1:]:
            operands += list(array) if isinstance(array, tuple) else [array]
    assert [each.shape for each in operands] == [operand.spec.shape for operand in plan.operands]
    operands = [aligned(each) for each in operands]
    out = aligned(np.full(plan.out_shape, np.nan, plan.out_dtype))
    prepared = by_address.prepared(plan)
    assert prepared is not None
    for _ in range(2):
        space = aligned(np.full(max(prepared.space_bytes, 1), 255, np.uint8))
        for program, addresses in prepared.calls([x.ctypes.data for x in operands], out.ctypes.data, space.ctypes.data):
            program.run(runner, addresses)
        np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-10)
        out.fill(np.nan)


def test_kernels_run_by_address_in_16_bits(runner: HostRunner) -> None:
    x, h = make(2, 8).astype(np.float16), np.abs(make(5, seed=1)).astype(np.float32)
    plan = so.plan_spectral_filter((2, 8), "float16", ArraySpec((5,), "float32"), axes=-1, device="cuda")
    prepared = by_address.prepared(plan)
    assert prepared is not None
    operands, out, space = [aligned(x), aligned(h)], aligned(np.full_like(x, np.nan)), np.empty(4096, np.uint8)
    assert prepared.space_bytes <= space.nbytes
    for program, addresses in prepared.calls([x.ctypes.data for x in operands], out.ctypes.data, space.ctypes.data):
        program.run(runner, addresses)
    expected = np.fft.irfft(np.fft.rfft(x.astype(float)) * h, n=8)
    np.testing.assert_allclose(out.astype(float), expected, rtol=2e-3, atol=2e-3)


def test_executors_find_the_same_programs(runner: HostRunner) -> None:
    """A call without `out` warms up a captured one with it."""
    kernel = ArraySpec((3, 3), "float64")
    plan = so.plan_convolve((6, 8), "float64", kernel, method="direct", device="cuda")
    assert by_address.prepared(plan).owner is convolution.prepared(plan, runner, np)  # type: ignore[union-attr]
    plan = so.plan_spectral_conv((1, 2, 8), "float64", ArraySpec((2, 2, 3), "complex128"), device="cuda")
    layer = pruned.ready(plan, spectral_conv.Convolution, runner, np)
    assert by_address.prepared(plan).owner is layer  # type: ignore[union-attr]
    plan = so.plan_spectral_filter((2, 8), "float64", ArraySpec((5,), "float64"), axes=-1, device="cuda")
    symbol = (np.empty(5),)
    assert by_address.prepared(plan).owner is spectral_filter.ready(plan, symbol, runner, np)  # type: ignore[union-attr]


OTHERS: dict[str, Any] = {
    "a function": lambda: so.plan_spectral_filter((8,), "float64", lambda k: k * 0 + 1.0, device="cuda"),
    "other axes": lambda: so.plan_spectral_filter((6, 8), "float64", np.ones((4, 1)), axes=0, device="cuda"),
    "factors to be expanded": lambda: so.plan_spectral_filter(
        (2, 3, 8), "float64", np.ones((2, 1, 5)), axes=-1, device="cuda"
    ),
    "other axes of a layer": lambda: so.plan_spectral_conv(
        (1, 2, 6, 8), "float64", np.ones((2, 2, 2, 2)) + 0j, axes=(-1, -2), device="cuda"
    ),
    "no batch": lambda: so.plan_spectral_conv_weight_gradient(
        (0, 2, 8), "float64", ArraySpec((0, 2, 8), "float64"), (3,), device="cuda"
    ),
    "nothing": lambda: so.plan_diffusion_step((0, 8), "float64", 1.0, 0.1, 1.0, axes=-1, device="cuda"),
    "an adjoint": lambda: so.plan_fft_conv2d(
        (1, 2, 6, 8), "float64", np.ones((2, 2, 3, 3)), method="direct", device="cuda"
    ).adjoint(),
    "a real image for complex numbers": lambda: so.plan_fft_conv2d(
        (1, 2, 6, 8), "float64", np.ones((2, 2, 3, 3)), np.ones(2) + 0j, method="direct", device="cuda"
    ),
    "columns": lambda: so.plan_convolve((6, 8), "float64", np.ones(3), axes=0, method="direct", device="cuda"),
    "a resampling": lambda: so.plan_fourier_resample((8,), "float64", (6,), device="cuda"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_must_be_arranged_is_left_to_others(name: str, runner: HostRunner) -> None:
    assert by_address.prepared(OTHERS[name]()) is None
