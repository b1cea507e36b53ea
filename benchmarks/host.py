"""What a call costs before and after the work: each operator with its executor replaced by nothing.

python benchmarks/host.py            microseconds per warm call, best of many
python benchmarks/host.py filter     those whose name has the word
"""

from __future__ import annotations

import itertools
import sys
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import spectralops as so
from spectralops import _support, transfer

LOOPS, REPEATS = 200, 30


def nothing(plan: Any, *arrays: Any, out: Any, workers: int) -> None:
    """An executor that leaves `out` as it is."""


def cases(as_array: Callable[[np.ndarray], Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Small calls by name."""
    rng = np.random.default_rng(0)

    def field(*shape: int) -> Any:
        return as_array(rng.standard_normal(shape))

    u, image, weight = field(8, 8), field(2, 4, 8, 8), field(6, 4, 3, 3)
    modes = as_array(rng.standard_normal((4, 4, 4, 3)) + 0j)
    symbol, smooth, mask = field(8, 5), transfer.gaussian(1.0), as_array(np.ones((8, 8), bool))
    kernel, bias, out = field(3, 3), field(6), field(8, 8)
    vector = field(2, 8, 8)
    terms = [so.Diffusion(0.1), so.Advection((1.0, 0.5))]
    sizes = itertools.count(1)
    yield "spectral_filter, transfer value", lambda: so.spectral_filter(u, smooth, spacing=0.5)
    yield "spectral_filter, array", lambda: so.spectral_filter(u, symbol)
    yield "spectral_filter, out=", lambda: so.spectral_filter(u, symbol, out=out)
    yield "spectral_conv", lambda: so.spectral_conv(image, modes)
    yield "fourier_resample", lambda: so.fourier_resample(u, (4, 4))
    yield "convolve", lambda: so.convolve(u, kernel, mode="same")
    yield "fft_conv2d", lambda: so.fft_conv2d(image, weight, bias, padding=1)
    yield "diffusion_step", lambda: so.diffusion_step(u, 0.5, 0.01, 0.1)
    yield "diffusion_step, new dt", lambda: so.diffusion_step(u, 0.5, 0.01 + 1e-9 * next(sizes), 0.1)
    yield "diffusion_step, mask", lambda: so.diffusion_step(u, 0.5, 0.01, 0.1, mask=mask)
    yield "diffusion_step, bc", lambda: so.diffusion_step(u, 0.5, 0.01, 0.1, bc=so.Dirichlet(0.0))
    yield "convection_step", lambda: so.convection_step(u, (1.0, 0.5), 0.5, 0.01)
    yield "convection_step, wind", lambda: so.convection_step(u, (u, u), 0.5, 0.01)
    yield "convection_step, new dt", lambda: so.convection_step(u, (1.0, 0.5), 0.5, 0.01 + 1e-9 * next(sizes))
    yield "diffuse_convect_step", lambda: so.diffuse_convect_step(u, 0.5, 0.01, 0.1)
    yield "diffuse_convect_step, new dt", lambda: so.diffuse_convect_step(u, 0.5, 0.01 + 1e-9 * next(sizes), 0.1)
    yield "pde_step", lambda: so.pde_step(u, 0.5, 0.01, terms, integrator="ssprk3")
    yield "gradient", lambda: so.gradient(u, 0.5)
    yield "divergence", lambda: so.divergence(vector, 0.5)
    yield "laplacian", lambda: so.laplacian(u, 0.5)
    yield "laplacian, mask", lambda: so.laplacian(u, 0.5, mask=mask)
    yield "diffusion_filter", lambda: so.diffusion_filter(u, 3.0, 1.0)
    plan = so.plan_diffusion_step((8, 8), "float64", 0.5, 0.01, 0.1)
    yield "a plan", lambda: plan(u)


def microseconds(call: Callable[[], Any]) -> float:
    """Time of one call when nothing disturbs it."""
    call()
    return 1e6 * min(timeit.repeat(call, number=LOOPS, repeat=REPEATS)) / LOOPS


def main(words: list[str]) -> None:
    _support.executor = lambda op, backend: nothing  # type: ignore[assignment]
    libraries: dict[str, Callable[[np.ndarray], Any]] = {"numpy": np.asarray}
    try:
        import torch
    except ImportError:
        pass
    else:
        libraries["torch"] = torch.from_numpy
    print(f"{'us per call':32}" + "".join(f"{name:>10}" for name in libraries))
    for rows in zip(*(cases(as_array) for as_array in libraries.values()), strict=True):
        if all(word in rows[0][0] for word in words):
            print(f"{rows[0][0]:32}" + "".join(f"{microseconds(call):10.1f}" for _, call in rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
