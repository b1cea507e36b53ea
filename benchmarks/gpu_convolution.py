"""Convolutions on a CUDA device, beside cuDNN, torch and CuPy in the same run and the floor of a copy.

    python benchmarks/gpu_convolution.py [--json FILE] [--match TEXT] [--methods]

Every result is compared with float64 before it is timed; a wrong one stops the run. Times are medians of CUDA events,
the second-level cache flushed between calls, on random data. `floor` is the time in which a device copy moves the bytes
that must move (`plan.bytes_moved`). `cudnn` is torch's convolution in benchmark mode with float32 arithmetic, `torch` a
pipeline of its real transforms, `cupy` `fftconvolve`, `tiled` `oaconvolve`; `face` is `spectralops.torch`, which leaves
some layers in 16 bits to cuDNN. `--methods` times every method that kernels
have beside its predicted time, from which the cost model's constants were fitted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
import cupyx.scipy.signal
import torch
from gpu_timing import copy_bytes_per_us, median_us, relative_error, write

import spectralops as so
from spectralops import torch as st
from spectralops._arrays import ArraySpec

TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-14}


@dataclass(frozen=True)
class Layer:
    """Images of a convolution layer, "same" padding; `groups` as many as channels for a depthwise one."""

    batch: int
    channels: int
    size: int
    kernel: int
    depthwise: bool
    goal: float | None
    dtype: str = "float32"

    def __str__(self) -> str:
        kind = "depthwise" if self.depthwise else "dense"
        other = "" if self.dtype == "float32" else f" {self.dtype}"
        return f"{kind} B{self.batch} C{self.channels} {self.size}x{self.size} K{self.kernel}{other}"

    def arrays(self) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(self.batch, self.channels, self.size, self.size, device="cuda")
        inputs = 1 if self.depthwise else self.channels
        w = torch.randn(self.channels, inputs, self.kernel, self.kernel, device="cuda")
        return x.to(getattr(torch, self.dtype)), w.to(getattr(torch, self.dtype))

    @property
    def groups(self) -> int:
        return self.channels if self.depthwise else 1

    def plan(self, x: torch.Tensor, w: torch.Tensor, method: str = "auto") -> Any:
        return so.plan_fft_conv2d(
            tuple(x.shape), self.dtype, ArraySpec(tuple(w.shape), self.dtype), padding="same", groups=self.groups,
            method=method, device="cuda",
        )  # fmt: skip

    def expected(self, x: torch.Tensor, w: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Some of the result, and its float64 values."""
        n = self.size + self.kernel - 1
        before = (self.kernel - 1) // 2
        spectrum = torch.fft.rfft2(torch.nn.functional.pad(x[:1].double(), (before, 0, before, 0)), s=(n, n))
        weight = torch.fft.rfft2(w[:4].double(), s=(n, n)).conj()
        mixed = spectrum[:, :4] * weight[:, 0] if self.depthwise else torch.einsum("ncyx,ocyx->noyx", spectrum, weight)
        return (slice(0, 1), slice(0, 4)), torch.fft.irfft2(mixed, s=(n, n))[..., : self.size, : self.size]

    def peers(self, x: torch.Tensor, w: torch.Tensor) -> dict[str, Callable[[], Any]]:
        options: dict[str, Any] = {"padding": "same", "groups": self.groups}
        found: dict[str, Callable[[], Any]] = {"cudnn": lambda: torch.nn.functional.conv2d(x, w, **options)}
        if x.dtype in (torch.float16, torch.bfloat16):
            found["face"] = lambda: st.fft_conv2d(x, w, **options)
        return found


@dataclass(frozen=True)
class Signals:
    """Signals of (batch, channels), each channel with a kernel of its own, a window as long as the signals."""

    batch: int
    channels: int
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    boundary: str
    goal: float | None
    dtype: str = "float32"

    def __str__(self) -> str:
        sizes, taps = ("x".join(map(str, n)) for n in (self.shape, self.kernel))
        kind = "circular" if self.boundary == "wrap" else "zero-padded"
        return f"{kind} B{self.batch} H{self.channels} {sizes} kernel {taps} {self.dtype}"

    def arrays(self) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(self.batch, self.channels, *self.shape, device="cuda")
        w = torch.randn(self.channels, *self.kernel, device="cuda")
        return x.to(getattr(torch, self.dtype)), w.to(getattr(torch, self.dtype))

    def plan(self, x: torch.Tensor, w: torch.Tensor, method: str = "auto") -> Any:
        axes = tuple(range(-len(self.shape), 0))
        return so.plan_convolve(
            tuple(x.shape), self.dtype, ArraySpec(tuple(w.shape), self.dtype), mode="same", boundary=self.boundary,
            axes=axes, method=method, device="cuda",
        )  # fmt: skip

    def pipeline(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """By real transforms."""
        axes = tuple(range(-len(self.shape), 0))
        if self.boundary == "wrap":
            y = torch.fft.irfftn(torch.fft.rfftn(x, dim=axes) * torch.fft.rfftn(w, dim=axes), s=self.shape, dim=axes)
            return torch.roll(y, tuple(-((k - 1) // 2) for k in self.kernel), axes)
        sizes = tuple(2 * n if n == k else n + k - 1 for n, k in zip(self.shape, self.kernel, strict=True))
        y = torch.fft.irfftn(
            torch.fft.rfftn(x, s=sizes, dim=axes) * torch.fft.rfftn(w, s=sizes, dim=axes), s=sizes, dim=axes
        )
        window = tuple(slice((k - 1) // 2, (k - 1) // 2 + n) for n, k in zip(self.shape, self.kernel, strict=True))
        return y[(..., *window)]

    def expected(self, x: torch.Tensor, w: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Some of the result, and its float64 values."""
        return (slice(0, 1), slice(0, 4)), self.pipeline(x[:1, :4].double(), w[:4].double())

    def peers(self, x: torch.Tensor, w: torch.Tensor) -> dict[str, Callable[[], Any]]:
        if self.batch * self.channels == 1:
            a, b = cupy.asarray(x[0, 0]), cupy.asarray(w[0])
            signal = cupyx.scipy.signal
            return {
                "cupy": lambda: signal.fftconvolve(a, b, mode="same"),
                "tiled": lambda: signal.oaconvolve(a, b, mode="same"),
            }
        x, w = (x, w) if self.dtype == "float32" else (x.float(), w.float())
        return {"torch": lambda: self.pipeline(x, w)}


# Goals in microseconds.
CASES: list[Layer | Signals] = [
    *(Layer(16, 64, 224, k, True, goal) for k, goal in ((7, 190), (15, 280), (31, 290), (51, 300))),
    *(Layer(16, 64, 224, k, False, goal) for k, goal in ((3, None), (7, 1400), (15, 1300), (31, 1300))),
    *(Signals(1, 1, (4096, 4096), (k, k), "fill", goal) for k, goal in ((15, 90), (63, 100), (255, 130))),
    Signals(8, 768, (16, 16), (16, 16), "fill", 25),
    Signals(8, 768, (32, 32), (32, 32), "fill", 70),
    Signals(8, 768, (64, 64), (64, 64), "fill", 220),
    Signals(8, 384, (128, 128), (128, 128), "fill", 500),
    Signals(4, 128, (256, 256), (256, 256), "fill", 400),
    Signals(2, 64, (512, 512), (512, 512), "fill", 400),
    Signals(64, 768, (1024,), (1024,), "fill", 200),
    Signals(32, 768, (4096,), (4096,), "fill", 400),
    Signals(64, 768, (1024,), (1024,), "fill", 160, "bfloat16"),
    Signals(64, 768, (1024,), (1024,), "wrap", 100, "float16"),
    Signals(64, 768, (4096,), (4096,), "wrap", 450, "float16"),
    Signals(32, 768, (16384,), (16384,), "wrap", 1400, "bfloat16"),
    Signals(16, 768, (32768,), (32768,), "wrap", 1600, "float16"),
    *(Signals(1, 1, (256,) * 3, (k,) * 3, "fill", None) for k in (3, 5, 15, 31)),
    Signals(1, 1, (512,) * 3, (31,) * 3, "fill", None),
    Signals(4, 32, (64,) * 3, (64,) * 3, "fill", None),
    Layer(16, 64, 224, 3, True, None),
    Layer(4, 64, 224, 31, True, None, "float64"),
    *(Layer(16, 64, 224, k, False, None, "bfloat16") for k in (3, 5, 7)),
    Layer(16, 128, 56, 7, False, None, "float16"),
    Layer(16, 64, 224, 7, True, None, "bfloat16"),
]


def ours(x: torch.Tensor) -> Any:
    """The array that is handed to our functions: CuPy's where it has the dtype, whose calls take the host less time."""
    return x if x.dtype is torch.bfloat16 else cupy.asarray(x)


def row(case: Layer | Signals, rate: float) -> dict[str, Any]:
    x, w = case.arrays()
    plan = case.plan(x, w)
    where, expected = case.expected(x, w)
    with torch.no_grad():
        a, b = ours(x), ours(w)
        result = plan(a, b)
        error = relative_error(result[where], expected)
        found = {"backend": plan.backend, "method": plan.method, "lengths": plan.lengths, "error": error}
        if not error <= TOLERANCE[case.dtype]:
            sys.exit(f"{case}: relative error {error:.2e} is above {TOLERANCE[case.dtype]:.0e}")
        found["us"] = median_us(lambda: plan(a, b, out=result))
        for name, call in case.peers(x, w).items():
            found[name] = median_us(call)
    return found | {"floor": plan.bytes_moved / rate, "goal": case.goal}


def methods(case: Layer | Signals) -> str:
    """Time over predicted time of every method that kernels have."""
    x, w = case.arrays()
    a, b = ours(x), ours(w)
    words = []
    for method in ("direct", "fft", "tiles"):
        plan = case.plan(x, w, method)
        if plan.backend != "cuda" or plan.cost.seconds > 20e-3:
            continue
        out = plan(a, b)
        us = median_us(lambda plan=plan, out=out: plan(a, b, out=out))
        size = "x".join(map(str, plan.lengths))
        words.append(f"{method} {size} {us:.1f} / {1e6 * plan.cost.seconds:.1f}")
    return f"{case!s:50} " + ", ".join(words)


def show(name: str, found: dict[str, Any]) -> None:
    peers = " ".join(
        f"{key} {found[key]:8.1f} ({found[key] / found['us']:.1f}x)"
        for key in ("cudnn", "face", "torch", "cupy", "tiled")
        if key in found
    )
    goal = found["goal"]
    mark = "" if goal is None else f" goal {goal} {'met' if found['us'] <= goal else 'missed'}"
    how = f"{found['backend']} {found['method']} {'x'.join(map(str, found['lengths']))}"
    print(
        f"{name:50} {how:24} {found['us']:8.1f} us  floor {found['floor']:6.1f} (x{found['us'] / found['floor']:.1f})"
        f"{mark}  {peers}  err {found['error']:.0e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--methods", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    rate = copy_bytes_per_us()
    print(f"{torch.cuda.get_device_name()}, copy {rate / 1e6:.2f} TB/s")
    rows: dict[str, dict[str, Any]] = {}
    for case in CASES:
        if options.match not in str(case):
            continue
        if options.methods:
            print(methods(case), flush=True)
        else:
            rows[str(case)] = row(case, rate)
            show(str(case), rows[str(case)])
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
    if options.json:
        write(options.json, rows, copy_bytes_per_us=rate)


if __name__ == "__main__":
    main()
