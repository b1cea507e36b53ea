"""Spectral layers and filters on a CUDA device, beside torch and CuPy in the same run and the floor of a copy.

    python benchmarks/gpu_spectral.py [--only filter|layer] [--json FILE] [--match TEXT]

Every result is compared with float64 before it is timed; a wrong one stops the run. Times are medians of CUDA events,
the second-level cache flushed between calls, on random data. `floor` is the time in which a device copy moves the bytes
that must move (`plan.bytes_moved`); `host` is what one warm call costs before it returns; `extra` is what a
warm call leaves in CuPy's pool beyond its result, in multiples of the input: kept workspaces do not show in it.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import cupyx.scipy.fft
import torch
from triton.testing import do_bench

import spectralops
from spectralops._arrays import ArraySpec

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
]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


def median_us(function: Callable[[], Any]) -> float:
    """Median time on the device."""
    return float(do_bench(function, warmup=5, rep=40, return_mode="median")) * 1e3


def host_us(function: Callable[[], Any]) -> float:
    """Median time until a call returns, the device being idle."""
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def copy_bytes_per_us() -> float:
    """Bytes read and written by a large copy."""
    a = torch.randn(1 << 28, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() * 4 / median_us(lambda: b.copy_(a))


def extra_memory(function: Callable[[], Any], inputs: int, out: int) -> float:
    """Bytes of CuPy's pool in use after a warm call beyond its result and what was kept before, over the input's."""
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    result = function()
    taken = pool.used_bytes() - before - out
    del result
    return max(taken, 0) / inputs


def relative_error(result: Any, expected: torch.Tensor) -> float:
    values = torch.as_tensor(result, device="cuda").double()
    assert torch.isfinite(values).all(), "not finite"
    return float((values - expected).norm() / expected.norm())


def real_inverse(spectrum: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    """The real inverse as NumPy defines it."""
    axes = tuple(range(-len(sizes), 0))
    if len(sizes) > 1:
        spectrum = torch.fft.ifftn(spectrum, dim=axes[:-1])
    spectrum[..., 0].imag.zero_()
    if sizes[-1] % 2 == 0:
        spectrum[..., sizes[-1] // 2].imag.zero_()
    return torch.fft.irfft(spectrum, n=sizes[-1], dim=-1)


def filter_row(shape: tuple[int, ...], d: int, dtype: str, rate: float) -> dict[str, Any]:
    axes, sizes = tuple(range(-d, 0)), shape[-d:]
    x = cupy.random.standard_normal(shape, dtype=dtype)
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    h = (cupy.random.standard_normal(half) + 1j * cupy.random.standard_normal(half)).astype(f"c{2 * x.itemsize}")
    plan = spectralops.plan_spectral_filter(shape, dtype, ArraySpec(half, str(h.dtype)), axes=axes, device="cuda")
    some = slice(0, max(1, 2**25 // math.prod(sizes))) if len(shape) > d else ...
    expected = real_inverse(torch.fft.rfftn(torch.as_tensor(x[some], device="cuda").double(), dim=axes)
                            * torch.as_tensor(h, device="cuda"), sizes)  # fmt: skip
    error = relative_error(plan(x, h)[some], expected)
    del expected
    torch.cuda.empty_cache()
    out = cupy.empty_like(x)
    tx, th = torch.as_tensor(x, device="cuda"), torch.as_tensor(h, device="cuda")
    fft = cupyx.scipy.fft
    return {
        "backend": plan.backend,
        "error": error,
        "us": median_us(lambda: plan(x, h, out=out)),
        "host": host_us(lambda: plan(x, h, out=out)),
        "extra": extra_memory(lambda: plan(x, h), x.nbytes, x.nbytes),
        "torch": median_us(lambda: torch.fft.irfftn(torch.fft.rfftn(tx, dim=axes) * th, s=sizes, dim=axes)),
        "cupy": median_us(lambda: fft.irfftn(fft.rfftn(x, axes=axes) * h, s=sizes, axes=axes)),
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


def layer_row(shape: tuple[int, ...], modes: int, rate: float) -> dict[str, Any]:
    _, channels, *sizes = shape
    kept = (*([2 * modes] * (len(sizes) - 1)), modes)
    x = torch.randn(shape, device="cuda")
    w = torch.randn(channels, channels, *kept, dtype=torch.complex64, device="cuda")
    plan = spectralops.plan_spectral_conv(shape, "float32", ArraySpec(tuple(w.shape), "complex64"), device="cuda")
    cx, cw = cupy.asarray(x), cupy.asarray(w)
    some = slice(0, max(1, 2**25 // math.prod(shape[1:])))
    expected = torch_layer(x[some].double(), w.to(torch.complex128))
    error = relative_error(plan(cx, cw)[some], expected)
    del expected
    torch.cuda.empty_cache()
    out = cupy.empty(plan.out_shape, "float32")
    return {
        "backend": plan.backend,
        "error": error,
        "us": median_us(lambda: plan(cx, cw, out=out)),
        "host": host_us(lambda: plan(cx, cw, out=out)),
        "extra": extra_memory(lambda: plan(cx, cw), cx.nbytes, out.nbytes),
        "torch": median_us(lambda: torch_layer(x, w)),
        "floor": plan.bytes_moved / rate,
        "runs": plan.explain().split("runs: ")[1].splitlines()[0],
    }


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def show(name: str, row: dict[str, Any], goal: int | None) -> None:
    others = " ".join(f"{key} {row[key]:7.1f} ({row[key] / row['us']:.1f}x)" for key in ("torch", "cupy") if key in row)
    mark = "" if goal is None else f" goal {goal} {'met' if row['us'] <= goal else 'missed'}"
    print(
        f"{name:34} {row['backend']:5} {row['us']:8.1f} us  floor {row['floor']:6.1f} (x{row['us'] / row['floor']:.1f})"
        f"{mark}  {others}  host {row['host']:.0f} extra {row['extra']:.2f} err {row['error']:.0e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("filter", "layer"))
    parser.add_argument("--match", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rate = copy_bytes_per_us()
    print(f"{torch.cuda.get_device_name()}, copy {rate / 1e6:.2f} TB/s")
    jobs: list[tuple[str, int | None, str, Callable[[], dict[str, Any]]]] = []
    if options.only != "layer":
        jobs += [
            (f"filter {d}d {'x'.join(map(str, s))} {t}", goal, t, lambda s=s, d=d, t=t: filter_row(s, d, t, rate))
            for s, d, t, goal in FILTERS
        ]
    if options.only != "filter":
        jobs += [
            (f"layer {'x'.join(map(str, s))} modes {m}", goal, "float32", lambda s=s, m=m: layer_row(s, m, rate))
            for s, m, goal in LAYERS
        ]
    rows: dict[str, dict[str, Any]] = {}
    for name, goal, dtype, job in jobs:
        if options.match not in name:
            continue
        row = job()
        if not row["error"] <= TOLERANCE[dtype]:
            sys.exit(f"{name}: relative error {row['error']:.2e} is above {TOLERANCE[dtype]:.0e}")
        rows[name] = row | {"goal": goal}
        show(name, row, goal)
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
    for kind in ("filter", "layer"):
        ratios = [row["torch"] / row["us"] for name, row in rows.items() if name.startswith(kind)]
        if ratios:
            print(f"{kind}: geometric mean {geometric_mean(ratios):.2f} times torch")
    if options.json:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        facts = {
            "device": torch.cuda.get_device_name(),
            "copy_bytes_per_us": rate,
            "torch": torch.__version__,
            "cupy": cupy.__version__,
            "cuda": torch.version.cuda,
            "python": platform.python_version(),
            "spectralops": spectralops.__version__,
            "commit": commit,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
