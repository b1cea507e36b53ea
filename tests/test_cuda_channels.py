"""Kernels for maps of channels, on the host: products, the gradient of the activation, sums over points."""

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


MAPS = [(2, 64, 64, 132), (1, 70, 33, 64), (2, 1, 20, 40), (1, 20, 5, 33), (2, 128, 3, 36), (1, 3, 1, 1)]


@pytest.mark.parametrize("kind", ["alone", "onto", "active", "active onto", "turned"])
@pytest.mark.parametrize(("samples", "rows", "columns", "points"), MAPS, ids=str)
def test_maps(rng: Any, samples: int, rows: int, columns: int, points: int, kind: str) -> None:
    w, x = rng.standard_normal((rows, columns)), rng.standard_normal((samples, columns, points))
    bias, more, y = rng.standard_normal(rows), rng.standard_normal(rows), rng.standard_normal((samples, rows, points))
    onto, active, turned = "onto" in kind, "active" in kind, kind == "turned"
    z = np.einsum("oi,nip->nop", w, x) + (y if onto else 0)
    added = np.zeros(rows) if turned else bias if kind == "alone" else bias + more
    expected = z + added[:, None]
    expected = expected * below(expected) if active else expected
    w, x, bias, more, y = (each.astype(np.float32) for each in (w.T.copy() if turned else w, x, bias, more, y))
    out, before = np.full_like(y, np.nan), y if onto else np.full_like(y, np.nan)
    out = out if active else before
    program = channels.mapped(samples, rows, columns, points, turned, active)
    addresses = [address(w), address(x), address(y) if onto else 0, 0 if turned else address(bias)]
    addresses += [0 if turned or kind == "alone" else address(more), address(before), address(out)]
    program.run(HostRunner(), addresses)
    scale = 2e-6 * math.sqrt(columns + 1)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=scale)
    if active:
        np.testing.assert_allclose(before, z, rtol=2e-6, atol=scale)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient_of_gelu(rng: Any, shape: Any) -> None:
    g, z = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    bias = rng.standard_normal(shape[1]).astype(np.float32)
    out = np.full_like(z, np.nan)
    run(channels.gelu_backward(*shape), g, z, bias, bias, out)
    total = z.astype(float) + 2 * bias[:, None]
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
    program, count = channels.outer(samples, rows, columns, points, 2)
    step, _ = program.steps
    _, mt, nt, wm, wn = step.kernel.name.strip("outer<>").split(", ")
    assert (16 * int(mt) * int(wm), 8 * int(nt) * int(wn)) == tile
    sums = np.full(rows * (columns + 2), np.nan, np.float32)
    run(program, g, x, np.full(count, np.nan, np.float32), sums)
    total, again = np.split(sums, [rows * (columns + 1)])
    assert np.array_equal(again, total[rows * columns :])
    g, x = g.astype(float), x.astype(float)
    # In float32, although tensor cores multiply shorter numbers.
    scale = math.sqrt(samples * points)
    np.testing.assert_allclose(
        total[: rows * columns].reshape(rows, columns), np.einsum("nop,nip->oi", g, x), rtol=0, atol=2e-6 * scale
    )
    np.testing.assert_allclose(total[rows * columns :], g.sum((0, 2)), rtol=0, atol=2e-6 * scale)


def test_large_and_infinite_numbers_have_the_products_of_float32() -> None:
    """Their first 11 bits round to infinity, of which no second part can be told."""
    largest = np.finfo(np.float32).max
    x = np.array([[1, largest, -largest, np.inf, -np.inf, np.nan, largest, 0]], np.float32)
    w = np.array([[0.5], [-1], [1], [0], [2]], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = w * x
    out, none = np.full((5, 8), np.nan, np.float32), 0
    for turned in (False, True):
        program = channels.mapped(1, 5, 1, 8, turned, False)
        program.run(HostRunner(), [address(w), address(x), none, none, none, address(out), address(out)])
        np.testing.assert_allclose(out, expected, rtol=2e-7)
    program, count = channels.outer(1, 5, 1, 1, 2)
    for j in (1, 3, 4):
        sums = np.full(5 * 3, np.nan, np.float32)
        run(program, w, x[:, j].copy(), np.empty(count, np.float32), sums)
        np.testing.assert_allclose(sums[:5], expected[:, j], rtol=2e-7)


def test_sums_are_shared_among_blocks() -> None:
    program, count = channels.outer(16, 64, 64, 128 * 128, 132)
    step, last = program.steps
    assert count == 264 * 64 * 65
    assert (last.kernel.name, last.kernel.grid) == ("sum_parts", (130,))
    assert (step.kernel.grid, step.kernel.block) == ((264, 1), (128,))
    assert step.kernel.shared == 3 * 128 * 36 * 4
    assert channels.outer(1, 300, 200, 32, 132)[0].steps[0].kernel.grid == (1, 12)
    assert channels.outer(1, 4, 4, 64, 132)[1] == 2 * 4 * 5


@pytest.mark.parametrize(("points", "bits"), [(2**27, "long long"), (2**20, "int")])
def test_indices_are_as_wide_as_fields_ask_for(points: int, bits: str) -> None:
    for program in (channels.gelu_backward(16, 1, points), channels.mapped(16, 1, 1, points, False, True)):
        assert program.steps[0].kernel.options == (f"-DINDEX_T={bits}",)
    assert channels.outer(16, 1, 1, points, 4)[0].steps[0].kernel.options == (f"-DINDEX_T={bits}",)
