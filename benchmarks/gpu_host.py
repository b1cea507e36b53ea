"""What calls cost before the device works: warm calls of CuPy's and PyTorch's users, and first calls of new processes.

python benchmarks/gpu_host.py --json benchmarks/results/gpu_host.json
python benchmarks/gpu_host.py --match conv        some of the operators, by name

A warm call is timed until it returns, many of them one after the other on arrays so small that the device keeps up. A
first call is timed to its end in a process that has only loaded the packages and made the arrays, once with an
empty cache of compiled kernels and once with what the former left there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch

import spectralops as so
from spectralops import torch as st
from spectralops import transfer
from spectralops._cuda.program import Program

# How each library makes an array, and its functions.
LIBRARIES: dict[str, tuple[Callable[[np.ndarray], Any], Any]] = {
    "cupy": (cupy.asarray, so),
    "torch": (lambda values: torch.from_numpy(values).cuda(), st),
}
# Microseconds of a warm call beside those of each launch, and seconds of a first call by cache.
CALL_US, LAUNCH_US, COLD_S, WARM_S = 8, 7, 3.0, 0.3
CALLS, ROUNDS, AT_ONCE = 20, 200, 4


def cases(library: str) -> dict[str, Callable[[], Any]]:
    """Small calls by name."""
    array, face = LIBRARIES[library]
    rng = np.random.default_rng(0)

    def field(*shape: int) -> Any:
        return array(rng.standard_normal(shape, dtype=np.float32))

    def modes(*shape: int) -> Any:
        return array((rng.standard_normal(shape) + 1j).astype(np.complex64))

    line, image, volume, u = field(16, 256), field(4, 64, 64), field(16, 16, 16), field(64, 64)
    out, smooth = field(16, 256), transfer.gaussian(1.0)
    h = [modes(129), modes(64, 33), modes(16, 16, 9)]
    channels, weight, conv = field(2, 8, 64, 64), modes(8, 8, 16, 9), field(8, 8, 5, 5)
    kernel, nu, bias = field(5, 5), array(np.full((64, 64), 0.1, np.float32)), field(8)
    plan = so.plan_spectral_filter((16, 256), "float32", h[0], axes=-1, device="cuda")
    terms = [so.Diffusion(0.1), so.Advection((0.5, 0.25))]
    return {
        "spectral_filter 1-d": lambda: face.spectral_filter(line, h[0], axes=-1),
        "spectral_filter 1-d transfer": lambda: face.spectral_filter(line, smooth, axes=-1),
        "spectral_filter 2-d": lambda: face.spectral_filter(image, h[1]),
        "spectral_filter 3-d": lambda: face.spectral_filter(volume, h[2], axes=(0, 1, 2)),
        "spectral_conv": lambda: face.spectral_conv(channels, weight),
        "diffusion_step": lambda: face.diffusion_step(u, 1.0, 0.1, 0.5),
        "diffusion_step field": lambda: face.diffusion_step(u, 1.0, 0.1, nu),
        "convection_step": lambda: face.convection_step(u, (0.5, 0.25), 1.0, 0.1),
        "diffuse_convect_step": lambda: face.diffuse_convect_step(u, 1.0, 0.01, 0.5, on_unstable="ignore"),
        "pde_step rk4": lambda: face.pde_step(u, 1.0, 0.1, terms, integrator="rk4"),
        "fft_conv2d": lambda: face.fft_conv2d(channels, conv, bias, padding=2),
        "fft_conv2d tiles": lambda: face.fft_conv2d(channels, conv, padding=2, method="tiles"),
        "convolve": lambda: face.convolve(u, kernel, mode="same"),
        "convolve tiles": lambda: face.convolve(u, kernel, mode="same", method="tiles"),
        "a plan": lambda: plan(line, h[0]),
        "a plan, out=": lambda: plan(line, h[0], out=out),
    }


# Of which also the first call is timed.
FIRST = [
    *(f"cupy {name}" for name in ("spectral_filter 2-d", "spectral_conv", "diffuse_convect_step", "pde_step rk4")),
    *("cupy fft_conv2d", "cupy convolve", "torch spectral_filter 2-d", "torch spectral_conv"),
]


def launches(call: Callable[[], Any]) -> int:
    """How many kernels a call launches."""
    counted = 0
    kept = Program.launch

    def count(program: Program, *arguments: Any) -> None:
        nonlocal counted
        counted += len(program.steps)
        kept(program, *arguments)

    Program.launch = count  # type: ignore[method-assign]
    try:
        call()
    finally:
        Program.launch = kept  # type: ignore[method-assign]
    return counted


def warm_us(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Medians over rounds of the mean time of each call until it returns.

    Each round makes all of them, since a processor is slower for a second now and then.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - begin) / CALLS)
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


def first_s(library: str, name: str) -> float:
    """Seconds of a call that is the first of this process."""
    call = cases(library)[name]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def first_calls(library: str, name: str) -> dict[str, float]:
    """The same in two processes of their own, the first of which finds no compiled kernels."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CUPY_CACHE_DIR": folder, "CUDA_CACHE_PATH": folder}
        for cache in ("cold", "warm"):
            run = [sys.executable, __file__, "--first", library, name]
            answer = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
            found[cache] = float(answer.stdout.split()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", help="only operators whose name has this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-first", action="store_true", help="no first calls")
    parser.add_argument("--first", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        print(first_s(*arguments.first))
        return
    calls = {
        f"{library} {name}": call
        for library in LIBRARIES
        for name, call in cases(library).items()
        if arguments.match in name
    }
    rows: dict[str, dict[str, Any]] = {}
    for key, call in calls.items():
        call()
        count = launches(call)
        rows[key] = {"us": 0.0, "launches": count, "goal": CALL_US + LAUNCH_US * count}
    for key, us in warm_us(calls).items():
        row = rows[key]
        row["us"] = us
        mark = "met" if us <= row["goal"] else "missed"
        print(f"{key:37} {us:6.1f} us  {row['launches']} launches, goal {row['goal']} {mark}", flush=True)
    if not arguments.no_first:
        wanted = [key for key in FIRST if key in rows]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for key, found in zip(wanted, pool.map(lambda key: first_calls(*key.split(" ", 1)), wanted), strict=True):
                rows[key] |= found
                mark = "met" if found["cold"] <= COLD_S and found["warm"] <= WARM_S else "missed"
                print(f"{key:37} cold {found['cold']:.2f} s  warm {found['warm']:.3f} s  {mark}", flush=True)
    if arguments.json:
        from gpu_timing import write

        write(arguments.json, rows, processors=os.cpu_count())


if __name__ == "__main__":
    main()
