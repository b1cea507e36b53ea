"""What the first call of a new process takes on the CPU, with an empty cache of compiled kernels and with a filled one.

python benchmarks/first_calls.py --json benchmarks/results/first_calls.json
python benchmarks/first_calls.py --match conv     some of the operators, by name

The call is timed to its end in a process that has only loaded the package and made the arrays. Median over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import spectralops as so
from spectralops import transfer

# Seconds by cache that a first call may take.
COLD_S, WARM_S = 4.0, 0.5


def cases() -> dict[str, Callable[[], Any]]:
    """Calls by name, on arrays small enough that the work itself takes no time."""
    rng = np.random.default_rng(0)

    def field(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    def modes(*shape: int) -> Any:
        return (rng.standard_normal(shape) + 1j).astype(np.complex64)

    smooth = transfer.gaussian(1.0)
    terms: list[Any] = [so.Diffusion(0.1), so.Advection((0.5, 0.25))]
    terms_3d: list[Any] = [so.Diffusion(0.1), so.SelfAdvection("weno5")]
    line, image, volume, u = field(16, 256), field(4, 64, 64), field(16, 16, 16), field(64, 64)
    each = modes(4, 64, 33)
    large, odd, prime, complex_image = field(2048, 2048), field(4, 45, 63), field(16, 257), modes(4, 64, 64)
    layers = field(2, 8, 256), field(2, 8, 64, 64), field(2, 8, 128, 128), field(1, 4, 32, 32, 32)
    weights = modes(8, 8, 16), modes(8, 8, 16, 9), modes(8, 8, 96, 48), modes(4, 4, 8, 8, 5), modes(8, 16, 9)
    few, many = field(2, 8, 64, 64), field(1, 64, 64, 64)
    dense = {k: field(8, 8, k, k) for k in (3, 7, 15)}
    single, one = {k: field(64, 1, k, k) for k in (3, 15)}, {k: field(k, k) for k in (5, 63)}
    return {
        "spectral_filter 1-d": lambda: so.spectral_filter(line, smooth, axes=-1),
        "spectral_filter 2-d": lambda: so.spectral_filter(image, smooth),
        "spectral_filter 3-d": lambda: so.spectral_filter(volume, smooth, axes=(0, 1, 2)),
        "spectral_filter 2-d complex": lambda: so.spectral_filter(complex_image, smooth),
        "spectral_filter 2-d odd": lambda: so.spectral_filter(odd, smooth),
        "spectral_filter 1-d prime": lambda: so.spectral_filter(prime, smooth, axes=-1),
        "spectral_filter 2-d large": lambda: so.spectral_filter(large, smooth),
        "spectral_filter 2-d each": lambda: so.spectral_filter(image, each),
        "spectral_conv 1-d": lambda: so.spectral_conv(layers[0], weights[0]),
        "spectral_conv 2-d": lambda: so.spectral_conv(layers[1], weights[1]),
        "spectral_conv 2-d depthwise": lambda: so.spectral_conv(layers[1], weights[4], depthwise=True),
        "spectral_conv 2-d many modes": lambda: so.spectral_conv(layers[2], weights[2]),
        "spectral_conv 3-d": lambda: so.spectral_conv(layers[3], weights[3]),
        "spectral_conv_weight_gradient 2-d": lambda: so.spectral_conv_weight_gradient(layers[1], layers[1], (16, 9)),
        "fourier_resample 2-d": lambda: so.fourier_resample(u, (96, 80)),
        **{f"fft_conv2d dense {k}": partial(so.fft_conv2d, few, w, padding=k // 2) for k, w in dense.items()},
        **{
            f"fft_conv2d depthwise {k}": partial(so.fft_conv2d, many, w, padding=k // 2, groups=64)
            for k, w in single.items()
        },
        **{f"convolve {k}": partial(so.convolve, large, w, mode="same") for k, w in one.items()},
        "convolve tiles": lambda: so.convolve(large, one[63], mode="same", method="tiles"),
        "diffusion_step": lambda: so.diffusion_step(u, 1.0, 0.1, 0.5),
        "convection_step": lambda: so.convection_step(u, (0.5, 0.25), 1.0, 0.1),
        "pde_step rk4": lambda: so.pde_step(u, 1.0, 0.1, terms, integrator="rk4"),
        "pde_step 3-d": lambda: so.pde_step(volume, 1.0, 0.01, terms_3d, integrator="ssprk3"),
        "diffusion_filter": lambda: so.diffusion_filter(u, 3.0, 1.0),
        "diffusion_filter, land": lambda: so.diffusion_filter(u, 3.0, 1.0, mask=u > -1),
    }


def first_s(name: str) -> float:
    """Seconds of a call that is the first of this process."""
    call = cases()[name]
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def first_calls(name: str) -> dict[str, float]:
    """The same in two processes of their own, the first of which finds no compiled kernels."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("cold", "warm"):
            run = [sys.executable, __file__, "--first", name]
            answer = subprocess.run(
                run, env=os.environ | {"SPECTRALOPS_CACHE_DIR": folder}, capture_output=True, text=True, check=True
            )
            found[cache] = float(answer.stdout.split()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", help="only operators whose name has this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--first", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        print(first_s(arguments.first))
        return
    rows: dict[str, Any] = {}
    for name in (name for name in cases() if arguments.match in name):
        rounds = [first_calls(name) for _ in range(arguments.rounds)]
        found = {cache: statistics.median(each[cache] for each in rounds) for cache in rounds[0]}
        mark = "met" if found["cold"] <= COLD_S and found["warm"] <= WARM_S else "missed"
        print(f"{name:30} cold {found['cold']:.2f} s  warm {found['warm']:.3f} s  {mark}", flush=True)
        rows[name] = found | {"all": rounds}
    if arguments.json:
        from run import surroundings

        arguments.json.write_text(json.dumps(surroundings() | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
