"""The step operators on the arrays that users bring, and the acceptance cases about them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from step_engines import engine  # noqa: F401

import spectralops as so
from spectralops import Dirichlet, Reflect

pytestmark = pytest.mark.usefixtures("engine")


def laplacian(u: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return sum(np.roll(u, 1, a) - 2 * u + np.roll(u, -1, a) for a in axes)


def test_num09_closed_walls_conserve_with_a_varying_diffusivity() -> None:
    i, j = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
    nu = 1 + 0.9 * np.sin(i / 3) * np.cos(j / 5)
    u = np.where((i > 8) & (i < 20) & (j < 10), 4.0, 1.0)
    result = so.diffusion_step(u, 1.0, 0.1, nu, bc=Reflect(), steps=200)
    assert abs(result.sum() - u.sum()) <= 1e-12 * 200 * u.sum()
    assert u.min() - 1e-12 <= result.min() <= result.max() <= u.max() + 1e-12
    expected = u
    for _ in range(200):
        padded, k = np.pad(expected, 1, "edge"), np.pad(nu, 1, "edge")
        new = expected.copy()
        for axis in (0, 1):
            x, c = (np.moveaxis(p, axis, 0)[:, 1:-1] for p in (padded, k))
            flux = (c[1:] + c[:-1]) / 2 * np.diff(x, axis=0)
            new += 0.1 * np.moveaxis(np.diff(flux, axis=0), 0, axis)
        expected = new
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    constant = so.diffusion_step(np.full((32, 32), 7.0), 1.0, 0.1, nu, bc=Reflect())
    np.testing.assert_array_equal(constant, np.full((32, 32), 7.0))


def test_dty04_a_coefficient_is_a_double() -> None:
    """A coefficient 0.1 held in float32 would show as 1.5e-9."""
    u = np.zeros((8, 8))
    u[4, 4] = 1.0
    expected = np.zeros((8, 8))
    expected[4, 4] = 0.6
    expected[[3, 5, 4, 4], [4, 4, 3, 5]] = 0.1
    result = so.diffusion_step(u, 1.0, 1.0, 0.1)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, expected, rtol=1e-15, atol=1e-17)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("nu", "dt"),
    [(0.25, 0.5), (np.float64(0.25), 0.5), (np.float32(0.25), 0.5), (np.array(0.25), 0.5), (1, 0.125)],
    ids=["float", "float64", "float32", "0-d", "int"],
)
def test_dty08_scalars_of_any_kind_reach_the_step(dtype: str, nu, dt: float) -> None:
    u = np.zeros((16, 16), dtype)
    u[5, 7] = 1
    result = so.diffusion_step(u, 1, dt, nu)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, u + np.asarray(0.125, dtype) * laplacian(u, (0, 1)))


def test_lay01_negative_strides(rng: np.random.Generator) -> None:
    view = rng.standard_normal((9, 14))[::-1, ::-2]
    result = so.diffusion_step(view, 1.0, 1.0, 0.2)
    np.testing.assert_array_equal(result, so.diffusion_step(view.copy(), 1.0, 1.0, 0.2))
    np.testing.assert_allclose(result, view + 0.2 * laplacian(view, (0, 1)), rtol=0, atol=2e-15)


def test_lay05_the_state_is_left_alone(rng: np.random.Generator) -> None:
    u = rng.standard_normal((8, 8))
    before = u.copy()
    result = so.diffusion_step(u, 1.0, 1.0, 0.2, steps=3)
    np.testing.assert_array_equal(u, before)
    assert not np.shares_memory(result, u)


def test_nan02_neither_nan_nor_infinity_is_lost_or_spreads(rng: np.random.Generator) -> None:
    u = rng.standard_normal((12, 12))
    u[3, 4], u[8, 8] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = u + 0.2 * laplacian(u, (0, 1))
    result = so.diffusion_step(u, 1.0, 1.0, 0.2)
    bad = ~np.isfinite(result)
    assert bad.sum() == 10
    np.testing.assert_array_equal(bad, ~np.isfinite(expected))
    np.testing.assert_allclose(result[~bad], expected[~bad], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("velocity", "hit"), [(1.0, [5, 6]), (-1.0, [4, 5])])
def test_nan_moves_with_the_wind_only(velocity: float, hit: list[int]) -> None:
    u = np.zeros(10)
    u[5] = np.nan
    for v in (velocity, np.full(10, velocity)):
        result = so.convection_step(u, v, 1.0, 0.5)
        assert np.flatnonzero(np.isnan(result)).tolist() == hit


def test_thr04_many_threads(rng: np.random.Generator) -> None:
    us = rng.standard_normal((8, 64, 64))
    expected = [so.diffusion_step(u, 1.0, 1.0, 0.2, steps=3) for u in us]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            results = list(pool.map(lambda u: so.diffusion_step(u, 1.0, 1.0, 0.2, steps=3), us))
            for result, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, right)


def test_thr04_threads_do_not_end_the_process() -> None:
    code = (
        "import numpy as np, spectralops as so; from concurrent.futures import ThreadPoolExecutor as P\n"
        "u = np.random.default_rng(14).standard_normal((8, 256, 256))\n"
        "e = [x + 0.2*(np.roll(x,1,0)+np.roll(x,-1,0)+np.roll(x,1,1)+np.roll(x,-1,1)-4*x) for x in u]\n"
        "with P(8) as p:\n"
        "    for _ in range(10):\n"
        "        r = list(p.map(lambda x: so.diffusion_step(x, 1.0, 1.0, 0.2), u))\n"
        "assert np.allclose(r, e, rtol=0, atol=1e-13)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 4)], ids=str)
def test_nothing_to_do(shape) -> None:
    assert so.diffusion_step(np.ones(shape), 1.0, 0.1, 1.0, bc=Dirichlet(1.0)).shape == shape


def test_integers_are_stepped_as_doubles() -> None:
    result = so.diffusion_step(np.array([0, 0, 4, 0]), 1, 0.25, 1)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, [0, 1, 2, 1])


def test_integer_coefficients_are_numbers() -> None:
    u = np.array([0.0, 0.0, 4.0, 0.0])
    np.testing.assert_array_equal(so.convection_step(u, np.ones(4, int), 1, 0.5), [0, 0, 2, 2])


@pytest.mark.parametrize("backend", ["cpu", "numpy", "reference"])
def test_float16_rounds_once_per_call(backend: str) -> None:
    """A change below half a unit in the last place is lost in single steps, but not in one call of many."""
    u = np.ones(64, "float16")
    u[32] = 1.001
    single = u
    for _ in range(64):
        single = so.diffusion_step(single, 1.0, 0.1, 1.0, backend=backend)
    fused = so.diffusion_step(u, 1.0, 0.1, 1.0, steps=64, backend=backend)
    exact = so.diffusion_step(u.astype("f8"), 1.0, 0.1, 1.0, steps=64).astype("float16")
    assert single[32] == u[32]
    np.testing.assert_array_equal(fused, exact)


def test_out_receives_the_result(rng: np.random.Generator) -> None:
    u, out = rng.standard_normal((6, 7)), np.full((6, 7), np.nan)
    assert so.diffusion_step(u, 1.0, 0.1, 1.0, steps=2, out=out) is out
    np.testing.assert_array_equal(out, so.diffusion_step(u, 1.0, 0.1, 1.0, steps=2))


def test_out_must_not_be_the_field() -> None:
    u = np.ones(6)
    with pytest.raises(ValueError, match=r"^diffusion_step: out overlaps an input in memory, but must not"):
        so.diffusion_step(u, 1.0, 0.1, 1.0, out=u)
