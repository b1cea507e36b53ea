"""The vector transform itself: butterflies, radices, tables, and every smooth length against scipy.fft."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.fft
from support import EPS

from spectralops._cpu.vector import host, kernels, tables
from spectralops._cpu.vector.butterflies import RADICES, butterfly
from spectralops._cpu.vector.choice import is_smooth, prime_factors

SMOOTH = [n for n in range(1, 211) if is_smooth(n)]
LONGER = [256, 343, 360, 512, 625, 720, 1000, 1024, 1440, 2048, 2187, 3072, 4096]


def dense(n: int) -> np.ndarray:
    k = np.arange(n)
    return np.exp(-2j * np.pi * np.outer(k, k) / n)


@pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])
@pytest.mark.parametrize("radix", RADICES)
def test_butterfly_is_the_dense_transform(rng: np.random.Generator, radix: int, inverse: bool) -> None:
    x = rng.standard_normal(radix) + 1j * rng.standard_normal(radix)
    outputs = dict(butterfly([(z.real, z.imag) for z in x], inverse))
    y = np.array([complex(*outputs[q]) for q in range(radix)])
    matrix = dense(radix).conj() if inverse else dense(radix)
    np.testing.assert_allclose(y, matrix @ x, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("n", SMOOTH + LONGER)
def test_radices_multiply_to_the_length(n: int, registers: int) -> None:
    radices = tables.factorise(n, registers)
    assert math.prod(radices) == n
    assert set(radices) <= set(RADICES)


@pytest.mark.parametrize(
    ("n", "registers", "radices"),
    [
        (1, 16, ()),
        (2, 16, (2,)),
        (8, 16, (8,)),
        (16, 16, (4, 4)),
        (32, 16, (4, 8)),
        (64, 16, (8, 8)),
        (128, 16, (4, 4, 8)),
        (256, 16, (4, 8, 8)),
        (512, 16, (4, 4, 4, 8)),
        (192, 16, (8, 8, 3)),
        (320, 16, (4, 4, 4, 5)),
        (1024, 16, (4, 4, 4, 4, 4)),
        (2048, 16, (4, 4, 4, 4, 8)),
        (64, 32, (8, 8)),
        (128, 32, (4, 4, 8)),
        (256, 32, (4, 8, 8)),
        (16, 32, (4, 4)),
        (2, 32, (2,)),
        (6, 16, (2, 3)),
        (630, 16, (2, 3, 3, 5, 7)),
    ],
)
def test_radices_of(n: int, registers: int, radices: tuple[int, ...]) -> None:
    assert tables.factorise(n, registers) == radices


@pytest.mark.parametrize("n", [1, 12, 64, 105, 720])
def test_position_and_frequency_are_opposite_orders(n: int) -> None:
    axis = tables.axis(n, "float32")
    np.testing.assert_array_equal(axis.position[axis.frequency], np.arange(n))


def test_tables_cannot_be_written() -> None:
    axis = tables.axis(12, "float32")
    for table in (axis.plan, axis.twiddles, axis.position, axis.frequency):
        assert not table.flags.writeable


def test_roots_are_correctly_rounded() -> None:
    """Exact at the eighths of a turn, where float64 angles are not."""
    values = tables.roots(8, np.arange(16))
    half = math.sqrt(0.5)
    exact = [1, half - half * 1j, -1j, -half - half * 1j, -1, -half + half * 1j, 1j, half + half * 1j] * 2
    np.testing.assert_allclose(values, exact, rtol=0, atol=6e-17)
    np.testing.assert_array_equal(values[:8], values[8:])


def transformed(group: np.ndarray, name: str) -> np.ndarray:
    """A group (positions, 2, lanes) through a kernel, in place."""
    n, dtype = len(group), str(group.dtype)
    axis = tables.axis(n, dtype)
    kernels.kernel(name, dtype)(group.ctypes.data, axis.plan.ctypes.data, axis.twiddles.ctypes.data)
    return group


def random_group(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    return rng.standard_normal((n, 2, host.lanes(dtype))).astype(dtype)


def complex_of(group: np.ndarray) -> np.ndarray:
    wide = group.astype(float)
    return wide[:, 0] + 1j * wide[:, 1]


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def bound(dtype: str, n: int) -> float:
    return 0.5 * EPS[dtype] * max(math.log2(n), 4.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SMOOTH + LONGER)
def test_forward_is_scipy_in_digit_reversed_order(rng: np.random.Generator, n: int, dtype: str) -> None:
    group = random_group(rng, n, dtype)
    expected = scipy.fft.fft(complex_of(group), axis=0)
    result = complex_of(transformed(group, "forward"))[tables.axis(n, dtype).position]
    assert relative(result, expected) < bound(dtype, n)


@pytest.mark.parametrize("way", ["forward", "inverse"])
@pytest.mark.parametrize("n", [1, 2, 16, 64, 512, 2048])
def test_powers_of_two_have_kernels_of_their_own(rng: np.random.Generator, n: int, way: str) -> None:
    """The same bits as from the kernel of all radices, to be compiled in half the time."""
    group = random_group(rng, n, "float32")
    assert (tables.axis(n, "float32").forward, tables.axis(n, "float32").inverse) == ("forward_twos", "inverse_twos")
    assert (tables.axis(6 * n, "float32").forward, tables.axis(6 * n, "float32").inverse) == ("forward", "inverse")
    np.testing.assert_array_equal(transformed(group, f"{way}_twos"), transformed(group, way))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SMOOTH + LONGER)
def test_inverse_is_scipy_from_digit_reversed_order(rng: np.random.Generator, n: int, dtype: str) -> None:
    group = random_group(rng, n, dtype)
    expected = n * scipy.fft.ifft(complex_of(group)[tables.axis(n, dtype).position], axis=0)
    assert relative(complex_of(transformed(group, "inverse")), expected) < bound(dtype, n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [11, 22, 31, 113, 143, 289, 721, 2 * 361, 1155, 13**3])
def test_primes_are_scipy_in_digit_reversed_order(rng: np.random.Generator, n: int, dtype: str) -> None:
    """Sums over prime factors above 7, whose sums and differences lie after the group."""
    axis = tables.axis(n, dtype)
    largest = max(prime_factors(n))
    assert (axis.forward, axis.inverse, axis.space) == ("forward_primes", "inverse_primes", n + largest - 1)
    group = random_group(rng, axis.space, dtype)
    before = complex_of(group[:n])
    arguments = (group.ctypes.data, axis.plan.ctypes.data, axis.twiddles.ctypes.data)
    kernels.kernel(axis.forward, dtype)(*arguments)
    assert relative(complex_of(group[:n])[axis.position], scipy.fft.fft(before, axis=0)) < bound(dtype, n)
    between = complex_of(group[:n])[axis.position]
    kernels.kernel(axis.inverse, dtype)(*arguments)
    assert relative(complex_of(group[:n]), n * scipy.fft.ifft(between, axis=0)) < bound(dtype, n)


@pytest.mark.parametrize("together", [2, 4])
def test_sums_are_laid_out_as_they_are_read(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    """For each few outputs, all points, of each of these outputs; what is missing of the last few is zero."""
    monkeypatch.setattr(host, "registers", lambda: 8 * together)
    table = tables._sums(11).reshape(-1, 5, together)
    angle = 2 * np.pi * np.outer(np.arange(1, 6), np.arange(1, 6)) / 11
    flat = table.swapaxes(1, 2).reshape(-1, 5)
    np.testing.assert_allclose(flat[:5], np.cos(angle) + 1j * np.sin(angle), atol=1e-15)
    assert len(flat) == -(-5 // together) * together
    assert not flat[5:].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [127, 422, 509, 2003])
def test_other_lengths_are_scipy_in_natural_order(rng: np.random.Generator, n: int, dtype: str) -> None:
    axis = tables.axis(n, dtype)
    assert axis.space >= 2 * n - 1
    assert is_smooth(axis.space)
    for name, expected in (
        (axis.forward, scipy.fft.fft),
        (axis.inverse, lambda z, axis: n * scipy.fft.ifft(z, axis=axis)),
    ):
        group = random_group(rng, axis.space, dtype)
        before = complex_of(group[:n])
        arguments = (group.ctypes.data, axis.plan.ctypes.data, axis.twiddles.ctypes.data)
        kernels.kernel(name, dtype)(*arguments)
        assert relative(complex_of(group[:n]), expected(before, axis=0)) < 2 * bound(dtype, n)


@pytest.mark.parametrize("kernel", ["forward", "inverse"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nothing_passes_between_lanes(rng: np.random.Generator, value: float, kernel: str) -> None:
    group = random_group(rng, 60, "float32")
    clean = transformed(group.copy(), kernel)
    group[7, 0, 1] = value
    spoilt = transformed(group, kernel)
    others = [lane for lane in range(host.lanes("float32")) if lane != 1]
    np.testing.assert_array_equal(spoilt[..., others], clean[..., others])
    assert not np.isfinite(spoilt[..., 1]).all(axis=1).any()
