"""Spectral layers and filters on a CUDA device, beside torch and CuPy in the same run and the floor of a copy.

    python benchmarks/gpu_spectral.py [--only filter|layer|sweep] [--json FILE] [--match TEXT]

Every result is compared with float64 before it is timed; a wrong one stops the run. Times are medians of CUDA events,
the second-level cache flushed between calls, on random data. `floor` is the time in which a device copy moves the bytes
that must move (`plan.bytes_moved`); `host` is what one warm call costs before it returns; `extra` is the memory that a
call takes beyond its result, kept scratch memory included, in multiples of the input. `sweep` sets many lengths beside
CuPy's pipeline.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import cupyx.scipy.fft
import torch
from gpu_timing import copy_bytes_per_us, median_us, relative_error, write

import spectralops
from spectralops._arrays import ArraySpec
from spectralops._cuda import launch

# (batch, channels, *sizes), kept modes per axis; the last of them on the half axis. Goal in microseconds.
LAYERS = [
    ((16, 64, 128, 128), 16, 55),
    ((16, 32, 64, 64), 12, 18),
    ((8, 64, 256, 256), 32, 125),
    ((4, 64, 512, 512), 32, 220),
    ((1, 64, 128, 128), 16, 20),
    ((16, 128, 128, 128), 32, 210),
    ((64, 64, 1024), 64, 22),
    ((32, 64, 8192), 16, 48),
    ((64, 64, 256), 32, 12),
    ((1024, 64, 128), 64, 45),
    ((4, 32, 64, 64, 64), 8, 120),
    ((2, 32, 128, 128, 128), 12, 480),
]
# Complex layers: (batch, channels, *sizes), 64 modes along each axis; those of TurboFNO's published task. Their goal is
# 2 TB/s of the bytes that must move.
COMPLEX_LAYERS = [
    (1024, 64, 128),
    (16384, 64, 128),
    (16384, 128, 256),
    (128, 32, 256),
    (16, 64, 128, 128),
    (16, 64, 256, 256),
    (64, 128, 256, 256),
]
GOAL_BYTES_PER_US = 2e6
# Shape, transformed axes, dtype, goal in microseconds.
FILTERS = [
    ((64, 512, 512), 2, "float32", 65),
    ((512, 128, 128), 2, "float32", 27),
    ((8, 2048, 2048), 2, "float32", 170),
    ((8192, 8192), 2, "float32", 480),
    ((64, 500, 500), 2, "float32", 75),
    ((16, 721, 1440), 2, "float32", 150),
    ((8192, 4096), 1, "float32", 78),
    ((32768, 1024), 1, "float32", 72),
    ((1024, 65536), 1, "float32", 300),
    ((256, 256, 256), 3, "float32", 140),
    ((8, 128, 128, 128), 3, "float32", 95),
    ((32, 512, 512), 2, "float64", None),
    ((16384, 1024), 1, "float64", None),
    ((128, 128, 128), 3, "float64", None),
    ((64, 512, 512), 2, "bfloat16", None),
    ((32768, 1024), 1, "bfloat16", None),
    ((256, 256, 256), 3, "bfloat16", None),
]
# Circular convolutions of the published fused systems: (batch, channels, length), a filter for each channel.
CIRCULAR = [
    ((64, 768, 1024), "float16", 100),
    ((64, 768, 4096), "float16", 450),
    ((32, 768, 16384), "bfloat16", 1400),
    ((16, 768, 32768), "float16", 1600),
]
SWEEP = [
    2, 3, 5, 7, 8, 13, 16, 17, 31, 34, 60, 64, 97, 100, 127, 128, 199, 243, 256, 343, 500, 512, 601, 625, 720, 721, 729,
    1000, 1009, 1024, 1331, 1440, 1536, 2000, 2003, 2048, 2187, 2401, 2500, 3000, 3001, 3125, 4001, 4095, 4096,
]  # fmt: skip
SWEEP_POINTS = 2**24
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3, "complex64": 2e-6}
HALVES = ("float16", "bfloat16")


def host_us(function: Callable[[], Any]) -> float:
    """Median time until a call returns, the device being idle."""
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def extra_memory(function: Callable[[], Any], inputs: int, out: int) -> float:
    """Bytes that a call takes beyond its result, with the scratch memory that is kept for the next one."""
    launch.clear()
    launch.cuda_runner.workspace(1)
    pool = cupy.get_default_memory_pool()
    torch.cuda.reset_peak_memory_stats()
    before = pool.used_bytes() + torch.cuda.memory_allocated()
    result = function()
    taken = pool.used_bytes() + torch.cuda.max_memory_allocated() - before - out
    del result
    return max(taken, 0) / inputs


def real_inverse(spectrum: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    """The real inverse as NumPy defines it."""
    axes = tuple(range(-len(sizes), 0))
    if len(sizes) > 1:
        spectrum = torch.fft.ifftn(spectrum, dim=axes[:-1])
    spectrum[..., 0].imag.zero_()
    if sizes[-1] % 2 == 0:
        spectrum[..., sizes[-1] // 2].imag.zero_()
    return torch.fft.irfft(spectrum, n=sizes[-1], dim=-1)


def prepare_filter(shape: tuple[int, ...], d: int, dtype: str, channels: bool = False) -> None:
    """Compile what :func:`filter_row` runs, on a small batch."""
    few = (*(1,) * (len(shape) - d - channels), *shape[len(shape) - d - channels :])
    dtype = "float32" if dtype in HALVES else dtype
    half = (*few[len(few) - d - channels : len(few) - d], *few[-d:-1], few[-1] // 2 + 1)
    x, h = cupy.zeros(few, dtype), cupy.zeros(half, "complex128" if dtype == "float64" else "complex64")
    spectralops.spectral_filter(x, h, axes=tuple(range(-d, 0)))


def prepare_layer(shape: tuple[int, ...], modes: int, dtype: str) -> None:
    """Compile what :func:`layer_row` runs, on fields whose values do not matter."""
    kept = kept_modes(shape, modes, dtype)
    spectralops.spectral_conv(cupy.zeros(shape, dtype), cupy.zeros((shape[1], shape[1], *kept), "complex64"))


def kept_modes(shape: tuple[int, ...], modes: int, dtype: str) -> tuple[int, ...]:
    d = len(shape) - 2
    return (modes,) * d if dtype == "complex64" else (*(2 * modes,) * (d - 1), modes)


def filter_row(shape: tuple[int, ...], d: int, dtype: str, rate: float, channels: bool = False) -> dict[str, Any]:
    """A filter along the last `d` axes, with `channels` one for each index of the axis before them."""
    axes, sizes = tuple(range(-d, 0)), shape[-d:]
    half = (*(shape[-d - 1 : -d] if channels else ()), *sizes[:-1], sizes[-1] // 2 + 1)
    precise = "complex128" if dtype == "float64" else "complex64"
    tx = torch.randn(shape, dtype=getattr(torch, dtype), device="cuda")
    th = torch.randn(half, dtype=getattr(torch, precise), device="cuda")
    # Numbers of 16 bits are PyTorch's, whose transforms take them as float32.
    x, h = (tx, th) if dtype in HALVES else (cupy.asarray(tx), cupy.asarray(th))
    wide = (lambda: tx.float()) if dtype in HALVES else (lambda: tx)
    plan = spectralops.plan_spectral_filter(shape, dtype, ArraySpec(half, precise), axes=axes, device="cuda:0")
    some = slice(0, max(1, 2**25 // math.prod(shape[1:]))) if len(shape) > d else ...
    expected = real_inverse(torch.fft.rfftn(tx[some].double(), dim=axes) * th, sizes)
    error = relative_error(plan(x, h)[some], expected)
    del expected
    torch.cuda.empty_cache()
    out = torch.empty_like(tx) if dtype in HALVES else cupy.empty_like(x)
    row = {
        "backend": plan.backend,
        "error": error,
        "us": median_us(lambda: plan(x, h, out=out)),
        "host": host_us(lambda: plan(x, h, out=out)),
        "extra": extra_memory(lambda: plan(x, h), tx.nbytes, tx.nbytes),
        "torch": median_us(
            lambda: torch.fft.irfftn(torch.fft.rfftn(wide(), dim=axes) * th, s=sizes, dim=axes).to(tx.dtype)
        ),
        "floor": plan.bytes_moved / rate,
        "runs": plan.explain().split("runs: ")[1].splitlines()[0],
    }
    if dtype not in HALVES:
        row["cupy"] = cupy_filter_us(x, h, axes, sizes)
    return row


def cupy_filter_us(x: Any, h: Any, axes: tuple[int, ...], sizes: tuple[int, ...]) -> float:
    fft = cupyx.scipy.fft
    return median_us(lambda: fft.irfftn(fft.rfftn(x, axes=axes) * h, s=sizes, axes=axes))


def prepare_sweep(n: int) -> None:
    spectralops.spectral_filter(cupy.zeros((1, n), "float32"), cupy.zeros(n // 2 + 1, "float32"), axes=-1)


def sweep_row(n: int, rate: float) -> dict[str, Any]:
    """A filter of many lines of n points."""
    shape = (SWEEP_POINTS // n, n)
    x = cupy.random.standard_normal(shape, dtype="float32")
    h = cupy.random.standard_normal(n // 2 + 1, dtype="float32")
    plan = spectralops.plan_spectral_filter(shape, "float32", ArraySpec(h.shape, "float32"), axes=-1, device="cuda")
    out = cupy.empty_like(x)
    expected = real_inverse(torch.fft.rfft(torch.as_tensor(x).double()) * torch.as_tensor(h), (n,))
    return {
        "backend": plan.backend,
        "error": relative_error(plan(x, h), expected),
        "us": median_us(lambda: plan(x, h, out=out)),
        "cupy": cupy_filter_us(x, h, (-1,), (n,)),
        "floor": plan.bytes_moved / rate,
        "runs": plan.explain().split("runs: ")[1].splitlines()[0],
    }


def torch_layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The usual layer: transform, corners of kept modes times weights, transform back."""
    d = w.ndim - 2
    axes, sizes = tuple(range(-d, 0)), x.shape[-d:]
    spectrum = torch.fft.rfftn(x, dim=axes, norm="forward")
    out = torch.zeros(x.shape[0], w.shape[1], *spectrum.shape[-d:], dtype=spectrum.dtype, device=x.device)
    letters = "klm"[:d]
    mix = f"bi{letters},io{letters}->bo{letters}"
    modes = w.shape[2:]
    corners: list[list[tuple[slice, slice]]] = [[]]
    for m in modes[:-1]:
        choices = [(slice(0, m - m // 2), slice(m // 2, m)), (slice(-(m // 2), None), slice(0, m // 2))]
        corners = [[*corner, choice] for corner in corners for choice in choices]
    for corner in corners:
        grid = (..., *(place for place, _ in corner), slice(0, modes[-1]))
        part = (..., *(own for _, own in corner), slice(None))
        out[grid] = torch.einsum(mix, spectrum[grid], w[part])
    return torch.fft.irfftn(out, s=sizes, dim=axes, norm="forward")


def torch_complex_layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The same for complex fields, whose modes are centred along every axis."""
    d = w.ndim - 2
    axes, letters = tuple(range(-d, 0)), "klm"[:d]
    spectrum = torch.fft.fftn(x, dim=axes, norm="forward")
    grids = [(torch.arange(m, device="cuda") - m // 2) % n for m, n in zip(w.shape[2:], x.shape[2:], strict=True)]
    kept = (..., *torch.meshgrid(*grids, indexing="ij"))
    out = torch.zeros(x.shape[0], w.shape[1], *x.shape[2:], dtype=x.dtype, device=x.device)
    out[kept] = torch.einsum(f"bi{letters},io{letters}->bo{letters}", spectrum[kept], w)
    return torch.fft.ifftn(out, dim=axes, norm="forward")


def layer_row(shape: tuple[int, ...], modes: int, rate: float, dtype: str = "float32") -> dict[str, Any]:
    channels, real = shape[1], dtype == "float32"
    kept = kept_modes(shape, modes, dtype)
    layer = torch_layer if real else torch_complex_layer
    x = torch.randn(shape, dtype=getattr(torch, dtype), device="cuda")
    w = torch.randn(channels, channels, *kept, dtype=torch.complex64, device="cuda")
    plan = spectralops.plan_spectral_conv(shape, dtype, ArraySpec(tuple(w.shape), "complex64"), device="cuda")
    cx, cw = cupy.asarray(x), cupy.asarray(w)
    some = slice(0, max(1, 2**25 // math.prod(shape[1:])))
    expected = layer(x[some].to(torch.float64 if real else torch.complex128), w.to(torch.complex128))
    error = relative_error(plan(cx, cw)[some], expected)
    del expected
    torch.cuda.empty_cache()
    out = cupy.empty(plan.out_shape, dtype)
    return {
        "backend": plan.backend,
        "error": error,
        "us": median_us(lambda: plan(cx, cw, out=out)),
        "host": host_us(lambda: plan(cx, cw, out=out)),
        "extra": extra_memory(lambda: plan(cx, cw), cx.nbytes, out.nbytes),
        "torch": median_us(lambda: layer(x, w)),
        "floor": plan.bytes_moved / rate,
        "runs": plan.explain().split("runs: ")[1].splitlines()[0],
    }


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def show(name: str, row: dict[str, Any], goal: float | None) -> None:
    others = " ".join(f"{key} {row[key]:7.1f} ({row[key] / row['us']:.1f}x)" for key in ("torch", "cupy") if key in row)
    costs = " ".join(f"{key} {row[key]:.2f}" for key in ("host", "extra") if key in row)
    mark = "" if goal is None else f" goal {goal:.0f} {'met' if row['us'] <= goal else 'missed'}"
    print(
        f"{name:34} {row['backend']:5} {row['us']:8.1f} us  floor {row['floor']:6.1f} (x{row['us'] / row['floor']:.1f})"
        f"{mark}  {others}  {costs} err {row['error']:.0e}",
        flush=True,
    )


@dataclass(frozen=True)
class Job:
    """One row: how it is named and judged, what compiles its kernels, what measures it."""

    name: str
    goal: float | None
    dtype: str
    prepare: Callable[[], None]
    measure: Callable[[], dict[str, Any]]


def all_jobs(rate: float) -> list[Job]:
    """Every row of the tables."""

    def size(shape: tuple[int, ...]) -> str:
        return "x".join(map(str, shape))

    jobs = [
        Job(f"filter {d}d {size(s)} {t}", goal, t, partial(prepare_filter, s, d, t), partial(filter_row, s, d, t, rate))
        for s, d, t, goal in FILTERS
    ]
    jobs += [
        Job(
            f"filter circular {size(s)} {t}",
            goal,
            t,
            partial(prepare_filter, s, 1, t, channels=True),
            partial(filter_row, s, 1, t, rate, channels=True),
        )
        for s, t, goal in CIRCULAR
    ]
    layers = [(s, m, "float32", goal) for s, m, goal in LAYERS]
    layers += [
        (s, 64, "complex64", 8 * (2 * math.prod(s) + s[1] ** 2 * 64 ** (len(s) - 2)) / GOAL_BYTES_PER_US)
        for s in COMPLEX_LAYERS
    ]
    jobs += [
        Job(
            f"layer {size(s)} modes {m}" + " complex" * (t == "complex64"),
            goal,
            t,
            partial(prepare_layer, s, m, t),
            partial(layer_row, s, m, rate, t),
        )
        for s, m, t, goal in layers
    ]
    return jobs + [
        Job(f"sweep {n}", None, "float32", partial(prepare_sweep, n), partial(sweep_row, n, rate)) for n in SWEEP
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("filter", "layer", "sweep"), default="")
    parser.add_argument("--match", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rate = copy_bytes_per_us()
    print(f"{torch.cuda.get_device_name()}, copy {rate / 1e6:.2f} TB/s")
    jobs = [job for job in all_jobs(rate) if options.match in job.name and job.name.startswith(options.only)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda job: job.prepare(), jobs))
    rows: dict[str, dict[str, Any]] = {}
    for job in jobs:
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
        row = job.measure()
        if not row["error"] <= TOLERANCE[job.dtype]:
            sys.exit(f"{job.name}: relative error {row['error']:.2e} is above {TOLERANCE[job.dtype]:.0e}")
        rows[job.name] = row | {"goal": job.goal}
        show(job.name, row, job.goal)
    for kind, other in (("filter", "torch"), ("layer", "torch"), ("sweep", "cupy")):
        ratios = [row[other] / row["us"] for name, row in rows.items() if name.startswith(kind)]
        if ratios:
            print(f"{kind}: geometric mean {geometric_mean(ratios):.2f} times {other}, at least {min(ratios):.2f}")
    if options.json:
        write(options.json, rows, copy_bytes_per_us=rate)


if __name__ == "__main__":
    main()
