"""The most that inner loops of steps can reach on one core: each alone, on a row that stays in the nearest cache.

    python benchmarks/step_kernels.py

Whole steps also load, store and renew ghosts, and share caches. The best burst is that of a core of one's own, the
median also holds what neighbours take.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import Any

import numpy as np

import spectralops
from spectralops._cpu.stencil.layout import Job
from spectralops._cpu.stencil.machine import stages
from spectralops._cpu.stencil.program import program_of

CELLS, ROWS, BURSTS = 512, 2000, 400


def plans(dtype: str) -> dict[str, Any]:
    """Steps of planes; shapes do not matter."""
    shape, common = (64, 64), {"backend": "cpu"}
    field, mask = np.ones(shape, dtype), np.ones(shape, bool)
    diffusion = spectralops.plan_diffusion_step
    return {
        "diffusion": diffusion(shape, dtype, 1.0, 0.1, 1.0, **common),
        "Burgers": spectralops.plan_diffuse_convect_step(shape, dtype, 1.0, 0.1, 1.0, on_unstable="ignore", **common),
        "source": diffusion(shape, dtype, 1.0, 0.1, 1.0, source=field, **common),
        "mask": diffusion(shape, dtype, 1.0, 0.1, 1.0, mask=mask, **common),
        "mask, nu of cells": diffusion(shape, dtype, 1.0, 0.1, field, mask=mask, **common),
    }


def rates(plan: Any) -> list[float]:
    """Cells a second in short bursts: all rows are one, whose neighbours it is itself."""
    program = program_of(plan)[0]
    itemsize = np.dtype(plan.compute).itemsize
    size = 3 * CELLS + 96  # no multiple of a page, which loads and stores would mistake for one place
    scratch = np.full((program.scratch + 1) * size, 0.5, plan.compute)  # as bits of a mask: some faces closed, no marks
    job = np.zeros(len(Job), np.int64)
    job[Job.SIZE] = size
    coefficients = np.array([0.6, *[0.1] * (program.numbers - 1), 0.0], plan.compute)
    rows = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 10)(int(stages(program, program.interleaves)[0]))
    place = CELLS // 2
    source = scratch.ctypes.data + place * itemsize
    addresses = (job.ctypes.data, coefficients.ctypes.data, scratch.ctypes.data, place, source)
    found = []
    for _ in range(BURSTS):
        start = time.perf_counter()
        rows(*addresses, source + size * itemsize, 0, ROWS, CELLS, 0)
        found.append(ROWS * CELLS / (time.perf_counter() - start))
    return found


def main() -> None:
    print(f"{'kernel':20}{'dtype':10}billions of cells a second: best, median")
    for dtype in ("float32", "float64"):
        for name, plan in plans(dtype).items():
            found = rates(plan)
            best = statistics.quantiles(found, n=50)[-1]
            print(f"{name:20}{dtype:10}{best / 1e9:.2f}, {statistics.median(found) / 1e9:.2f}")


if __name__ == "__main__":
    main()
