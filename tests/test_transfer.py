"""The transfer library: closed forms, Nyquist rules, values that hash, compare and pickle, and its errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from spectralops import plan_spectral_filter, spectral_filter, transfer
from spectralops._plans import grid as grids
from spectralops._plans.grid import Grid, clear_symbols, sampled

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


# ------------------------------------------------------------------ derivatives and the Nyquist mode (NUM02)


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


# ------------------------------------------------------------------ the other operators on single modes


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


# ------------------------------------------------------------------ bands


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


# ------------------------------------------------------------------ dealiasing (NUM04)


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


# ------------------------------------------------------------------ values, sampling, cache

VALUES = [
    lambda: transfer.gaussian((1.0, 2.0)),
    lambda: transfer.gaussian(1),
    lambda: transfer.lowpass(wavelength=2.0),
    lambda: transfer.highpass(wavelength=2.0),
    lambda: transfer.bandpass(wavenumber=(1, 2)),
    lambda: transfer.butterworth(2, wavenumber=1.0),
    lambda: transfer.derivative(2, 0),
    lambda: transfer.derivative((1, 1)),
    lambda: transfer.laplacian(),
    lambda: transfer.inverse_laplacian(),
    lambda: transfer.heat(0.1, 2.0),
    lambda: transfer.fractional_laplacian(0.3),
    lambda: transfer.shift((0.1, 0.2)),
    lambda: transfer.dealias(),
    lambda: transfer.hilbert(),
    lambda: transfer.riesz(),
]


@pytest.mark.parametrize("make", VALUES, ids=lambda make: repr(make()))
def test_transfers_are_values(make):
    assert make() == make()
    assert hash(make()) == hash(make())
    assert pickle.loads(pickle.dumps(make())) == make()
    plan = plan_spectral_filter((8, 8), "float32", make())
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan is plan_spectral_filter((8, 8), "float32", make())


def test_all_transfers_differ():
    assert len({make() for make in VALUES}) == len(VALUES)


@pytest.mark.parametrize(
    "symbol",
    [
        transfer.gaussian(1.0),
        transfer.heat(1.0, 0.1),
        transfer.derivative((1, 2)),
        transfer.shift((1.0, 2.0)),
        transfer.dealias(),
    ],
    ids=repr,
)
def test_separable_symbols_stay_factors(symbol):
    """(16, 1) and (1, 7), never (16, 7)."""
    grid = Grid.of_axes((16, 12), (1.0, 1.0), True, (0, 1), 2)
    assert [factor.shape for factor in symbol.sample(grid)] == [(16, 1), (1, 7)]


@pytest.mark.parametrize("symbol", [transfer.derivative(0), transfer.derivative((0, 0))], ids=repr)
def test_no_derivative_is_the_identity(symbol, rng):
    u = rng.standard_normal((4, 6))
    assert np.allclose(spectral_filter(u, symbol), u, rtol=0, atol=1e-15)


def test_even_orders_stay_real():
    grid = Grid.of_axes((8,), (1.0,), True, (0,), 1)
    assert [transfer.derivative(m).sample(grid)[0].dtype.kind for m in (1, 2, 3, 4)] == ["c", "f", "c", "f"]


def test_call_gives_the_symbol_at_any_wavenumbers():
    k, m = np.array([0.0, 1.0, 2.0])[:, None], np.array([0.0, 0.5])
    assert np.allclose(transfer.gaussian((1.0, 2.0))(k, m), np.exp(-(k**2) / 2 - 2 * m**2))
    assert np.allclose(transfer.derivative((1, 1))(k, m), -k * m)
    assert np.allclose(transfer.derivative(3)(k[:, 0]), -1j * k[:, 0] ** 3)
    assert np.allclose(transfer.shift(0.5)(k), np.exp(-0.5j * k))
    assert np.allclose(transfer.heat(0.2, 3.0)(k, m), np.exp(-0.6 * (k**2 + m**2)))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("halved", [True, False])
def test_wavenumbers_are_those_of_fftfreq(n, halved):
    grid = Grid.of_axes((n,), (0.3,), halved, (0,), 1)
    expected = (np.fft.rfftfreq if halved else np.fft.fftfreq)(n, 0.3)
    assert np.allclose(grid.wavenumbers()[0], TWO_PI * expected, rtol=1e-15, atol=0)


def test_wavenumbers_broadcast_where_the_axes_lie():
    grid = Grid.of_axes((4, 6), (1.0, 0.5), True, (3, 1), 5)
    first, second = grid.wavenumbers()
    assert (first.shape, second.shape) == ((1, 1, 4, 1), (4, 1, 1, 1))
    assert np.allclose(second.ravel(), TWO_PI * np.fft.rfftfreq(6, 0.5))


def test_samples_are_cached_until_cleared():
    clear_symbols()
    grid = Grid.of_axes((16,), (1.0,), True, (0,), 1)
    first = sampled(transfer.gaussian(1.0), grid, "float32")
    assert sampled(transfer.gaussian(1.0), grid, "float32") is first
    assert first[0].dtype == np.float32
    assert not first[0].flags.writeable
    assert sampled(transfer.gaussian(1.0), grid, "float64") is not first
    assert sampled(transfer.shift(1.0), grid, "float32")[0].dtype == np.complex64
    clear_symbols()
    assert sampled(transfer.gaussian(1.0), grid, "float32") is not first


def test_the_cache_is_bounded_in_bytes():
    cache = grids._Cache(100)
    for name, size in (("a", 40), ("b", 60)):
        cache.put(name, (np.zeros(size, np.uint8),))
    assert cache.get("a") is not None  # now b is the oldest
    cache.put("c", (np.zeros(30, np.uint8), np.zeros(30, np.uint8)))
    assert (cache.get("a") is None, cache.get("b") is None, cache.get("c") is None) == (False, True, False)
    cache.put("too large", (np.zeros(101, np.uint8),))
    assert cache.get("too large") is None
    assert len(cache) == 2
    cache.put("a", (np.zeros(40, np.uint8),))  # known: not counted again
    assert len(cache) == 2
    cache.clear()
    cache.put("d", (np.zeros(100, np.uint8),))
    assert len(cache) == 1


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: transfer.gaussian(-1.0), ValueError, "gaussian: sigma is -1.0, but must not be negative"),
        (lambda: transfer.gaussian((1.0, np.nan)), ValueError, "gaussian: sigma is nan, but must be finite"),
        (lambda: transfer.gaussian(()), ValueError, "gaussian: sigma is empty, but must have one entry"),
        (lambda: transfer.gaussian("wide"), TypeError, "gaussian: sigma is a str, but must be a real number"),
        (lambda: transfer.lowpass(), TypeError, "wavelength is None and wavenumber is None, but exactly one"),
        (
            lambda: transfer.lowpass(wavelength=1, wavenumber=2),
            TypeError,
            "wavelength is 1 and wavenumber is 2, but exac",
        ),
        (lambda: transfer.lowpass(wavelength=0), ValueError, "lowpass: wavelength is 0.0, but must be positive"),
        (lambda: transfer.highpass(wavenumber=-2), ValueError, "highpass: wavenumber is -2.0, but must be positive"),
        (lambda: transfer.bandpass(wavenumber=(1, 1)), ValueError, "bandpass: both bounds are 1, but must differ"),
        (
            lambda: transfer.bandpass(wavelength=(1, 2, 3)),
            ValueError,
            r"the band is \(1, 2, 3\), but must be a sequence",
        ),
        (lambda: transfer.bandpass(wavelength=5.0), ValueError, "the band is 5.0, but must be a sequence of two"),
        (lambda: transfer.bandpass(), TypeError, "bandpass: wavelength is None and wavenumber is None"),
        (lambda: transfer.bandpass(wavelength=(1, 2), wavenumber=(1, 2)), TypeError, "but exactly one must be given"),
        (lambda: transfer.butterworth(0, wavenumber=1), ValueError, "butterworth: order is 0, but must be at least 1"),
        (
            lambda: transfer.butterworth(1.5, wavenumber=1),
            TypeError,
            "butterworth: order is 1.5, but must be an integer",
        ),
        (
            lambda: transfer.butterworth(1, wavenumber=1, btype="band"),
            ValueError,
            "btype is 'band', but must be 'lowpass'",
        ),
        (lambda: transfer.derivative(-1), ValueError, "derivative: order is -1, but must be at least 0"),
        (lambda: transfer.derivative(0.5), TypeError, "derivative: order is 0.5, but must be an integer"),
        (lambda: transfer.derivative((1, -2)), ValueError, "derivative: order is -2, but must be at least 0"),
        (lambda: transfer.derivative(()), ValueError, "derivative: order is empty, but must have one entry"),
        (lambda: transfer.derivative(1, "x"), TypeError, "derivative: axis is 'x', but must be an integer"),
        (
            lambda: transfer.derivative((1, 1), 0),
            TypeError,
            r"axis is 0, but must be left out where order has one entry",
        ),
        (lambda: transfer.heat(-0.1, 1), ValueError, "heat: nu is -0.1, but must not be negative"),
        (lambda: transfer.heat(0.1, -1), ValueError, "heat: time is -1.0, but must not be negative"),
        (
            lambda: transfer.fractional_laplacian(np.inf),
            ValueError,
            "fractional_laplacian: power is inf, but must be fin",
        ),
        (lambda: transfer.shift([]), ValueError, "shift: distance is empty"),
        (lambda: transfer.shift(1j), TypeError, "shift: distance is 1j, but must be a real number"),
        (lambda: transfer.dealias(0), ValueError, "dealias: fraction is 0.0, but must be positive"),
        (lambda: transfer.dealias(1.01), ValueError, "dealias: fraction is 1.01, but must not exceed 1"),
        (lambda: transfer.dealias()(1.0), TypeError, "dealias: called with wavenumbers, but must know the grid"),
        (lambda: transfer.hilbert(0.0), TypeError, "hilbert: axis is 0.0, but must be an integer"),
        (lambda: transfer.riesz("y"), TypeError, "riesz: axis is 'y', but must be an integer"),
        (
            lambda: transfer.gaussian((1, 2))(1.0),
            ValueError,
            "gaussian: the transfer has 2 entries, but must have 1, one",
        ),
        (lambda: transfer.riesz(1)(1.0), ValueError, r"riesz: axis is 1, but must lie in \[-1, 1\)"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        (transfer.shift(1.0), "shift: the transfer has 1 entries, but must have 2, one per transformed axis"),
        (transfer.gaussian((1, 2, 3)), "transfer has 3 entries, but must have 2, one per axis"),
        (transfer.derivative(1, 2), r"derivative: axis is 2, but must lie in \[-2, 2\): it counts the transformed"),
        (transfer.derivative(1, -3), r"derivative: axis is -3, but must lie in \[-2, 2\)"),
        (transfer.hilbert(-3), r"hilbert: axis is -3, but must lie in \[-2, 2\)"),
        (transfer.riesz(2), r"riesz: axis is 2, but must lie in \[-2, 2\)"),
    ],
)
def test_a_transfer_for_other_axes_is_refused_while_planning(symbol, message):
    with pytest.raises(ValueError, match=message):
        plan_spectral_filter((8, 8), "float64", symbol, axes=(0, 1))


def test_entries_of_a_transfer_fix_the_axes():
    assert plan_spectral_filter((4, 5, 6, 7), "float64", transfer.gaussian((1, 2, 3))).axes == (1, 2, 3)
    assert plan_spectral_filter((4, 5, 6), "float64", transfer.shift((0.5, 1.0))).axes == (1, 2)
    assert plan_spectral_filter((4, 5, 6), "float64", transfer.derivative((0, 0, 1))).axes == (0, 1, 2)
    assert plan_spectral_filter((4, 5, 6), "float64", transfer.gaussian(1.0)).axes == (1, 2)
