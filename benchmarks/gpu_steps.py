"""Explicit steps on a CUDA device: every row of the steps table beside a copy of the same bytes.

python benchmarks/gpu_steps.py [--json results.json] [--only NAME]

Each case is checked first against NumPy on a smaller field, bit for bit. Times are medians with the second-level cache
flushed before each call; floor is the time in which a large device copy moves the bytes of one pass, and copy is what a
device copy of this very field takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from run import surroundings

import spectralops as so

FLUSH_BYTES = 1 << 30
SECONDS = 0.4


@dataclass(frozen=True)
class Case:
    """One row: the field, the step, and the goal [µs a step] on an H200."""

    name: str
    shape: tuple[int, ...]
    op: str
    steps: int = 1
    dtype: str = "float32"
    goal: float | None = None

    def call(self, u: Any, **tail: Any) -> Any:
        axes = tuple(range(u.ndim - len(self.stepped), u.ndim))
        return getattr(so, self.op)(
            u, 1.0, 0.1, 1.0, steps=self.steps, axes=axes, on_unstable="ignore", **self.options, **tail
        )

    @property
    def stepped(self) -> tuple[int, ...]:
        return self.shape[-3:] if "3d" in self.name else self.shape[-2:]

    @property
    def options(self) -> dict[str, Any]:
        return {"bc": (so.Dirichlet(0.5), (so.Neumann(0.1), so.Reflect()))} if "walls" in self.name else {}


DIFFUSION, BURGERS = "diffusion_step", "diffuse_convect_step"
CASES = [
    Case("diffusion 8192²", (8192, 8192), DIFFUSION, 1, goal=135),
    Case("diffusion 8192² walls", (8192, 8192), DIFFUSION, 1, goal=135),
    Case("diffusion 8192²", (8192, 8192), DIFFUSION, 16, goal=42),
    Case("diffusion 8192² walls", (8192, 8192), DIFFUSION, 16, goal=42),
    Case("diffusion 64×512²", (64, 512, 512), DIFFUSION, 1, goal=34),
    Case("diffusion 64×512²", (64, 512, 512), DIFFUSION, 16, goal=11),
    Case("diffusion 1×512²", (1, 512, 512), DIFFUSION, 256, goal=1.3),
    Case("Burgers 8192²", (8192, 8192), BURGERS, 1, goal=138),
    Case("Burgers 8192²", (8192, 8192), BURGERS, 16, goal=50),
    Case("Burgers 64×512²", (64, 512, 512), BURGERS, 1, goal=35),
    Case("diffusion 512³ 3d", (512, 512, 512), DIFFUSION, 1, goal=275),
    Case("diffusion 512³ 3d", (512, 512, 512), DIFFUSION, 4, goal=150),
    Case("diffusion 8192² walls f64", (8192, 8192), DIFFUSION, 16, "float64"),
    Case("diffusion 8192² f16", (8192, 8192), DIFFUSION, 1, "float16"),
    Case("diffusion 8192² f16", (8192, 8192), DIFFUSION, 16, "float16"),
    Case("diffusion 64×512² f16", (64, 512, 512), DIFFUSION, 1, "float16"),
    Case("diffusion 512³ 3d f16", (512, 512, 512), DIFFUSION, 1, "float16"),
]


def microseconds(function: Callable[[], Any]) -> list[float]:
    """Times of single calls by the device's clock, after flushing its cache."""
    import cupy

    flush = cupy.empty(FLUSH_BYTES, cupy.uint8)
    first, last = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(3):
        function()
    times: list[float] = []
    while sum(times) < SECONDS * 1e6 and len(times) < 100:
        flush.fill(0)
        first.record()
        function()
        last.record()
        last.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(first, last))
    return times


def copy_time(source: Any, target: Any) -> float:
    """What a device copy of one field to the other takes [µs]."""
    import cupy

    return statistics.median(microseconds(lambda: cupy.copyto(target, source)))


def copy_rate() -> float:
    """What a large device copy moves [TB/s], reads and writes together."""
    import cupy

    source = cupy.arange(1 << 28, dtype=np.uint32)
    return 2 * source.nbytes / copy_time(source, cupy.empty_like(source)) / 1e6


def check(case: Case) -> None:
    """The same step of a smaller field on the device and with NumPy."""
    import cupy

    shape = tuple(min(n, 200 if case.steps < 100 else 64) for n in case.shape[-2:])
    shape = (2, *shape) if "3d" not in case.name else (20, 70, 140)
    u = np.random.default_rng(0).standard_normal(shape).astype(case.dtype)
    expected = case.call(u, backend="numpy")
    found = case.call(cupy.asarray(u)).get()
    assert np.array_equal(found, expected), f"{case.name}: {np.abs(found - expected).max()}"


def main() -> None:
    import cupy

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rate = copy_rate()
    print(f"copy: {rate:.2f} TB/s")
    rows = []
    print(f"{'case':28} {'steps':>5} {'µs/step':>9} {'spread':>7} {'copy':>7} {'floor':>7} {'goal':>6}")
    for case in CASES:
        if arguments.only not in case.name:
            continue
        check(case)
        drawn = "float32" if case.dtype == "float16" else case.dtype
        u = (cupy.random.standard_normal(case.shape, dtype=drawn) * 0.1).astype(case.dtype)
        out = cupy.empty_like(u)
        times = microseconds(lambda u=u, out=out, case=case: case.call(u, out=out))
        median = statistics.median(times) / case.steps
        spread = (max(times) - min(times)) / case.steps
        floor, copy = 2 * u.nbytes / rate / 1e6, copy_time(u, out)
        goal = case.goal or 0.0
        print(
            f"{case.name:28} {case.steps:5} {median:9.2f} {spread:7.2f} {copy:7.1f} {floor:7.1f} {goal:6.1f}",
            flush=True,
        )
        rows.append(asdict(case) | {"us_per_step": median, "copy_us": copy, "floor_us": floor, "calls": len(times)})
        del u, out
        cupy.get_default_memory_pool().free_all_blocks()
    if arguments.json:
        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        about = surroundings() | {"device": device, "copy_TB_s": rate}
        arguments.json.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
