"""Transfers are values that hash, compare, pickle, sample themselves on a grid, and refuse bad arguments."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from spectralops import plan_spectral_filter, spectral_filter, transfer
from spectralops._plans import grid as grids
from spectralops._plans.grid import Grid, clear_symbols, sampled

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
    assert np.allclose(spectral_filter(u, symbol), u, rtol=0, atol=1e-14)


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
    assert np.allclose(grid.wavenumbers()[0], 2 * np.pi * expected, rtol=1e-15, atol=0)


def test_wavenumbers_broadcast_where_the_axes_lie():
    grid = Grid.of_axes((4, 6), (1.0, 0.5), True, (3, 1), 5)
    first, second = grid.wavenumbers()
    assert (first.shape, second.shape) == ((1, 1, 4, 1), (4, 1, 1, 1))
    assert np.allclose(second.ravel(), 2 * np.pi * np.fft.rfftfreq(6, 0.5))


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
