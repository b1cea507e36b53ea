"""Kernels for maps of channels, on the host: activation, its gradient, sums of products over points."""

from __future__ import annotations

import math
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from cuda_on_host import HostRunner

from spectralops._cuda import channels
from spectralops._cuda.program import Program, address

pytestmark = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
SHAPES = [(2, 3, 8), (1, 2, 7), (3, 1, 4100)]
erf = np.vectorize(math.erf)


def run(program: Program, *arrays: Any) -> None:
    program.run(HostRunner(), list(map(address, arrays)))


def below(z: Any) -> Any:
    """The normal distribution."""
    return 0.5 * (1 + erf(z / math.sqrt(2)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gelu_of_a_sum(rng: Any, shape: Any) -> None:
    z, bias = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32)
    out = np.full_like(z, np.nan)
    run(channels.gelu(shape), z, bias, out)
    total = z.astype(float) + bias[:, None]
    np.testing.assert_allclose(out, total * below(total), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient_of_gelu(rng: Any, shape: Any) -> None:
    g, z = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    bias = rng.standard_normal(shape[1]).astype(np.float32)
    out = np.full_like(z, np.nan)
    run(channels.gelu_backward(shape), g, z, bias, out)
    total = z.astype(float) + bias[:, None]
    slope = below(total) + total * np.exp(-(total**2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(out, g * slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "rows", "columns", "points", "tile"),
    [
        (3, 64, 64, 40, (64, 64)),
        (2, 70, 33, 64, (128, 64)),
        (1, 130, 3, 36, (128, 8)),
        (2, 1, 100, 44, (16, 128)),
        (2, 5, 2, 33, (16, 8)),
        (1, 40, 9, 7, (64, 32)),
    ],
    ids=str,
)
def test_sums_of_products(rng: Any, samples: int, rows: int, columns: int, points: int, tile: tuple[int, int]) -> None:
    g = rng.standard_normal((samples, rows, points)).astype(np.float32)
    x = rng.standard_normal((samples, columns, points)).astype(np.float32)
    program, parts = channels.outer(samples, rows, columns, points, 2)
    (step,) = program.steps
    _, mt, nt, wm, wn = step.kernel.name.strip("outer<>").split(", ")
    assert (16 * int(mt) * int(wm), 8 * int(nt) * int(wn)) == tile
    sums = np.full((parts, rows * (columns + 1)), np.nan, np.float32)
    run(program, g, x, sums)
    total = sums.astype(float).sum(0)
    g, x = g.astype(float), x.astype(float)
    # In float32, although tensor cores multiply shorter numbers.
    scale = math.sqrt(samples * points)
    np.testing.assert_allclose(
        total[: rows * columns].reshape(rows, columns), np.einsum("nop,nip->oi", g, x), rtol=0, atol=2e-6 * scale
    )
    np.testing.assert_allclose(total[rows * columns :], g.sum((0, 2)), rtol=0, atol=2e-6 * scale)


def test_sums_are_shared_among_blocks() -> None:
    program, parts = channels.outer(16, 64, 64, 128 * 128, 132)
    (step,) = program.steps
    assert parts == 264
    assert (step.kernel.grid, step.kernel.block) == ((264, 1), (128,))
    assert step.kernel.shared == 3 * 128 * 36 * 4
    assert channels.outer(1, 300, 200, 32, 132)[0].steps[0].kernel.grid == (1, 12)
    assert channels.outer(1, 4, 4, 64, 132)[1] == 2


@pytest.mark.parametrize(("points", "bits"), [(2**27, "long long"), (2**20, "int")])
def test_indices_are_as_wide_as_fields_ask_for(points: int, bits: str) -> None:
    for program in (channels.gelu((16, 1, points)), channels.outer(16, 1, 1, points, 4)[0]):
        assert program.steps[0].kernel.options == (f"-DINDEX_T={bits}",)
