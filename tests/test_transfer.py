"""What the transfers do to fields: closed forms, the rules of the Nyquist mode, bands, dealiasing."""

from __future__ import annotations

import numpy as np
import pytest

from spectralops import spectral_filter, transfer
from spectralops._plans.grid import Grid

TWO_PI = 2 * np.pi


def line(n: int) -> np.ndarray:
    return TWO_PI * np.arange(n) / n


def apply(x: np.ndarray, symbol: transfer.Transfer, **options) -> np.ndarray:
    """The filter on a domain of length 2 pi along every axis."""
    axes = options.get("axes", tuple(range(x.ndim)))
    spacing = tuple(TWO_PI / x.shape[axis] for axis in axes)
    return spectral_filter(x, symbol, **({"axes": axes, "spacing": spacing} | options))


def product(symbol: transfer.Transfer, grid: Grid) -> np.ndarray:
    factors = symbol.sample(grid)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize(("order", "factor"), [(1, 0.0), (2, -64.0), (3, 0.0), (4, 4096.0)])
def test_num02_nyquist_of_an_even_grid(order, factor, kind):
    f = np.cos(8 * line(16)).astype(kind)
    assert np.allclose(apply(f, transfer.derivative(order)), factor * f, rtol=1e-12, atol=1e-9)


def test_num02_odd_grid_keeps_its_top_mode():
    x = line(15)
    assert np.allclose(apply(np.cos(7 * x), transfer.derivative()), -7 * np.sin(7 * x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("symbol", "factor"),
    [
        (transfer.laplacian(), -100.0),
        (transfer.derivative((1, 1)), 0.0),
        (transfer.derivative((2, 0)), -64.0),
        (transfer.derivative((0, 2)), -36.0),
        (transfer.derivative((1, 0)), 0.0),
        (transfer.riesz(0), 0.0),
        (transfer.hilbert(1), 0.0),
    ],
)
@pytest.mark.parametrize("kind", [float, complex])
def test_num02_both_nyquists_of_a_plane(symbol, factor, kind):
    f = (np.cos(8 * line(16))[:, None] * np.cos(6 * line(12))).astype(kind)
    assert np.allclose(apply(f, symbol), factor * f, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [12, 13])
@pytest.mark.parametrize("order", range(5))
def test_derivative_of_an_interior_mode(n, order):
    x = line(n)
    exact = [np.sin(4 * x), 4 * np.cos(4 * x), -16 * np.sin(4 * x), -64 * np.cos(4 * x), 256 * np.sin(4 * x)][order]
    assert np.allclose(apply(np.sin(4 * x), transfer.derivative(order)), exact, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("axis", "factor"), [(0, 3), (1, 2), (-2, 3), (None, 2)])
def test_derivative_counts_the_transformed_axes(axis, factor):
    x, y = line(10)[:, None], line(8)[None]
    result = apply(np.sin(3 * x + 2 * y), transfer.derivative(1, axis))
    assert np.allclose(result, factor * np.cos(3 * x + 2 * y), rtol=0, atol=1e-12)


def test_mixed_derivative_in_axes_order():
    x, y = line(10)[:, None], line(8)[None]
    f = np.sin(2 * x) * np.sin(3 * y)
    swapped = apply(f, transfer.derivative((1, 2)), axes=(1, 0))
    assert np.allclose(swapped, 3 * -4 * np.sin(2 * x) * np.cos(3 * y), rtol=0, atol=1e-11)


def test_shift_moves_to_higher_coordinates():
    x = line(12)
    moved = apply(np.sin(x) + np.cos(3 * x), transfer.shift(0.7))
    assert np.allclose(moved, np.sin(x - 0.7) + np.cos(3 * (x - 0.7)), rtol=0, atol=1e-13)


def test_shift_by_a_cell_is_a_roll(rng):
    u = rng.standard_normal((6, 9))
    assert np.allclose(spectral_filter(u, transfer.shift((2.0, -1.0))), np.roll(u, (2, -1), (0, 1)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [float, complex])
def test_shift_of_the_nyquist_mode(kind):
    f = np.cos(np.pi * np.arange(8)).astype(kind)
    assert np.allclose(spectral_filter(f, transfer.shift(0.25)), np.cos(np.pi * 0.25) * f, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n", [16, 15])
def test_hilbert_turns_cosines_into_sines(n):
    x = line(n)
    assert np.allclose(apply(1 + np.cos(3 * x), transfer.hilbert()), np.sin(3 * x), rtol=0, atol=1e-14)
    assert np.allclose(apply(np.sin(3 * x), transfer.hilbert()), -np.cos(3 * x), rtol=0, atol=1e-14)


def test_hilbert_makes_the_analytic_signal(rng):
    from scipy.signal import hilbert

    x = rng.standard_normal(20)
    assert np.allclose(x + 1j * spectral_filter(x, transfer.hilbert()), hilbert(x), rtol=0, atol=1e-14)


def test_riesz_of_a_plane_wave():
    x, y = line(16)[:, None], line(12)[None]
    assert np.allclose(apply(np.cos(3 * x + 4 * y), transfer.riesz(0)), 0.6 * np.sin(3 * x + 4 * y), atol=1e-14)
    assert np.allclose(apply(np.cos(3 * x + 4 * y), transfer.riesz(1)), 0.8 * np.sin(3 * x + 4 * y), atol=1e-14)
    assert np.allclose(apply(np.cos(3 * x + 4 * y), transfer.riesz()), 0.8 * np.sin(3 * x + 4 * y), atol=1e-14)


def test_riesz_transforms_square_to_minus_the_fluctuation(rng):
    u = rng.standard_normal((7, 9))
    squares = sum(spectral_filter(spectral_filter(u, transfer.riesz(j)), transfer.riesz(j)) for j in (0, 1))
    assert np.allclose(squares, u.mean() - u, rtol=0, atol=1e-13)


def test_heat_decays_a_mode():
    x, y = line(12)[:, None], line(10)[None]
    f = 2 + np.sin(2 * x) * np.cos(3 * y)
    expected = 2 + np.exp(-0.1 * 13 * 0.5) * np.sin(2 * x) * np.cos(3 * y)
    assert np.allclose(apply(f, transfer.heat(0.1, 0.5)), expected, rtol=0, atol=1e-14)


def test_laplacian_and_its_inverse(rng):
    u = rng.standard_normal((8, 7))
    assert np.allclose(apply(apply(u, transfer.laplacian()), transfer.inverse_laplacian()), u - u.mean(), atol=1e-12)
    x, y = line(8)[:, None], line(7)[None]
    f = np.cos(x + 2 * y)
    assert np.allclose(apply(f, transfer.laplacian()), -5 * f, rtol=0, atol=1e-12)
    assert np.allclose(apply(f, transfer.inverse_laplacian()), -f / 5, rtol=0, atol=1e-14)


def test_fractional_laplacian_composes(rng):
    u = rng.standard_normal(9)
    half = transfer.fractional_laplacian(0.5)
    assert np.allclose(apply(apply(u, half), half), -apply(u, transfer.laplacian()), rtol=0, atol=1e-12)
    assert np.allclose(apply(apply(u, half), transfer.fractional_laplacian(-0.5)), u - u.mean(), rtol=0, atol=1e-13)
    assert np.allclose(apply(u, transfer.fractional_laplacian(0)), u, rtol=0, atol=1e-14)


def test_gaussian_is_a_convolution_with_a_normal_density():
    n, sigma, h = 64, 1.5, 0.5
    x = h * (np.arange(n) - n // 2)
    spike = (x == 0) / h
    density = np.exp(-((x / sigma) ** 2) / 2) / (sigma * np.sqrt(TWO_PI))
    assert np.allclose(spectral_filter(spike, transfer.gaussian(sigma), spacing=h), density, rtol=0, atol=1e-13)


def test_gaussian_with_a_width_per_axis(rng):
    u = rng.standard_normal((9, 8))
    both = spectral_filter(u, transfer.gaussian((1.0, 2.0)))
    rows = spectral_filter(u, transfer.gaussian(1.0), axes=0)
    assert np.allclose(both, spectral_filter(rows, transfer.gaussian(2.0), axes=1), rtol=0, atol=1e-14)


def test_dty06_single_precision_smoothing_keeps_the_total():
    a = np.arange(10000, dtype=np.float32).reshape(100, 100)
    k = TWO_PI * np.fft.fftfreq(100)
    gain = np.exp(-(k[:, None] ** 2 + k[None] ** 2) / 2)
    expected = np.fft.ifft2(np.fft.fft2(a.astype(np.float64)) * gain).real
    result = spectral_filter(a, transfer.gaussian(1.0))
    assert result.dtype == np.float32
    assert abs(result.sum(dtype=np.float64) - 49995000.0) <= 15.0
    assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max()


def test_lowpass_keeps_the_mode_at_its_cutoff_and_highpass_the_rest():
    x = line(32)
    f = 1 + np.cos(3 * x) + np.cos(4 * x) + np.cos(5 * x)
    low = apply(f, transfer.lowpass(wavelength=TWO_PI / 4))
    assert np.allclose(low, 1 + np.cos(3 * x) + np.cos(4 * x), rtol=0, atol=1e-13)
    assert np.allclose(apply(f, transfer.highpass(wavelength=TWO_PI / 4)), np.cos(5 * x), rtol=0, atol=1e-13)
    assert np.allclose(apply(f, transfer.lowpass(wavenumber=4.0)), low, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [10, 30, 49, 70])
def test_a_cutoff_at_a_grid_wavelength_ignores_rounding(n):
    """Wavelength n*h/m is mode m, whatever the rounding of h."""
    h = 0.1
    for m in range(1, n // 2):
        grid = Grid.of_axes((n,), (h,), True, (0,), 1)
        assert transfer.lowpass(wavelength=n * h / m).sample(grid)[0].sum() == m + 1
        assert transfer.highpass(wavelength=n * h / m).sample(grid)[0].sum() == n // 2 - m


def test_lowpass_is_isotropic():
    x, y = line(16)[:, None], line(16)[None]
    inside, outside = np.cos(3 * x + 4 * y), np.cos(4 * x + 4 * y)
    kept = apply(inside + outside, transfer.lowpass(wavenumber=5.0))
    assert np.allclose(kept, inside, rtol=0, atol=1e-13)


def test_bands_that_share_bounds_add_up(rng):
    u = rng.standard_normal((9, 12))
    parts = [
        transfer.lowpass(wavenumber=2.0),
        transfer.bandpass(wavenumber=(2.0, 4.0)),
        transfer.bandpass(wavelength=(TWO_PI / 4, TWO_PI / 5)),
        transfer.highpass(wavenumber=5.0),
    ]
    assert np.allclose(sum(apply(u, part) for part in parts), u, rtol=0, atol=1e-13)


def test_bandpass_takes_its_bounds_in_either_order():
    assert transfer.bandpass(wavenumber=(4.0, 2.0)) == transfer.bandpass(wavenumber=(2.0, 4.0))
    assert transfer.bandpass(wavenumber=(2.0, 4.0))([2.0, 2.1, 4.0, 4.1]).tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("order", [1, 2, 5])
def test_butterworth_gain(order):
    low = transfer.butterworth(order, wavelength=TWO_PI / 3)
    high = transfer.butterworth(order, wavenumber=3.0, btype="highpass")
    k = np.array([0.0, 1.0, 3.0, 6.0])
    assert np.allclose(low(k), (1 + (k / 3) ** (2 * order)) ** -0.5, rtol=1e-14)
    assert np.allclose(low(k) ** 2 + high(k) ** 2, 1, rtol=1e-14)
    assert float(high(0.0)) == 0.0
    assert float(low(3.0)) == pytest.approx(0.5**0.5, rel=1e-15)


def test_a_steep_butterworth_does_not_overflow():
    k = np.array([1.0, 1e6])
    assert transfer.butterworth(60, wavenumber=2.0)(k).tolist() == pytest.approx([1.0, 0.0])
    assert transfer.butterworth(60, wavenumber=2.0, btype="highpass")(k).tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("shape", [(16, 16), (128, 64), (17, 20), (18, 12)])
@pytest.mark.parametrize("halved", [True, False])
def test_num04_mask_is_symmetric_and_drops_a_mode_with_one_high_component(shape, halved):
    grid = Grid.of_axes(shape, (1.0, 1.0), halved, (0, 1), 2)
    waves = [np.abs(np.fft.fftfreq(n, 1 / n)) for n in shape]
    if halved:
        waves[1] = waves[1][: shape[1] // 2 + 1]
    expected = np.outer(3 * waves[0] < shape[0] - 1e-9, 3 * waves[1] < shape[1] - 1e-9)
    assert np.array_equal(product(transfer.dealias(), grid), expected)


def test_num04_products_are_free_of_aliases():
    x, y = line(16)[:, None], line(16)[None]
    u = np.cos(5 * x + 5 * y)
    assert np.allclose(apply(u * u, transfer.dealias()), 0.5, rtol=0, atol=1e-13)


def test_num04_one_high_component_is_enough():
    x, y = line(16)[:, None], line(16)[None]
    assert np.allclose(apply(np.cos(7 * x) + 0 * y, transfer.dealias()), 0, atol=1e-13)
    kept = np.cos(5 * x - 5 * y)
    assert np.allclose(apply(kept, transfer.dealias()), kept, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("fraction", "kept"), [(1.0, 8), (0.5, 4), (2 / 3, 6), (0.25, 2), (0.26, 3)])
def test_dealias_fraction(fraction, kept):
    """Of 16 points the modes with 2m < 16 * fraction are kept: 0, ..., kept - 1."""
    (mask,) = transfer.dealias(fraction).sample(Grid.of_axes((16,), (0.1,), True, (0,), 1))
    assert mask.tolist() == [1.0] * kept + [0.0] * (9 - kept)
