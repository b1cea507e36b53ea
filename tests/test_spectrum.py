"""Power spectra: Parseval by direct sums, SciPy's periodogram, tones, rings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from libraries import library

from spectralops import energy, power_spectrum

LIBRARIES = ("numpy", "torch", "jax", "array_api_strict")


def field(rng, shape, dtype):
    u = rng.standard_normal(shape)
    return (u + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else u).astype(dtype)


def mean_square(u):
    """A plain loop, so that nothing is shared with the code."""
    return sum(abs(complex(value)) ** 2 for value in u.ravel()) / u.size


SIZES = [(1,), (2,), (7,), (16,), (4, 6), (5, 8), (6, 5), (3, 4, 6)]


@pytest.mark.parametrize("sides", ["one", "two"])
@pytest.mark.parametrize("isotropic", [False, True], ids=["bins", "rings"])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_parseval(rng, shape, sides, isotropic):
    u = field(rng, shape, "float64")
    spacing = tuple(0.3 + 0.2 * i for i in range(len(shape)))
    s = power_spectrum(u, spacing=spacing, axes=range(len(shape)), sides=sides, isotropic=isotropic)
    assert np.sum(s.power) * s.df == pytest.approx(mean_square(u), rel=1e-13)


@pytest.mark.parametrize("isotropic", [False, True], ids=["bins", "rings"])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_parseval_of_complex_fields(rng, shape, isotropic):
    u = field(rng, shape, "complex128")
    s = power_spectrum(u, axes=range(len(shape)), isotropic=isotropic)
    assert np.sum(s.power) * s.df == pytest.approx(mean_square(u), rel=1e-13)


@pytest.mark.parametrize("isotropic", [False, True], ids=["bins", "rings"])
def test_spectrum_scaling_sums_to_the_mean_square_without_a_window(rng, isotropic):
    u = field(rng, (6, 9), "float64")
    s = power_spectrum(u, spacing=0.1, scaling="spectrum", isotropic=isotropic)
    assert np.sum(s.power) == pytest.approx(mean_square(u), rel=1e-13)
    assert s.scaling == "spectrum"


def test_power_agrees_with_the_energy(rng):
    u = field(rng, (6, 8), "float64")
    s = power_spectrum(u, spacing=(0.5, 0.25))
    assert np.sum(s.power) * s.df * (6 * 0.5 * 8 * 0.25) == pytest.approx(2 * energy(u, (0.5, 0.25)), rel=1e-13)


def test_windowed_density_of_two_axes_xar04():
    """XAR04: the sum of a Hann-windowed density is the mean square of w u over that of w."""
    u = np.random.default_rng(42).standard_normal((256, 256))
    u -= u.mean()
    taper = np.hanning(256)
    w = taper[:, None] * taper
    s = power_spectrum(u, window=(taper, taper))
    total = np.sum(s.power) * s.df
    assert total == pytest.approx(np.mean((w * u) ** 2) / np.mean(w**2), rel=1e-12)
    assert total == pytest.approx(np.var(u), rel=0.02)
    two = power_spectrum(u, window=(taper, taper), sides="two")
    assert np.allclose(two.power, np.abs(np.fft.fft2(w * u)) ** 2 / np.sum(w**2), rtol=1e-10)


def test_tone_height_xar04():
    """XAR04: under "spectrum" scaling a tone of amplitude 3 is 9/4 high on each side, whatever the window."""
    n, amplitude = 1000, 3.0
    u = amplitude * np.sin(2 * np.pi * 50 * np.arange(n) / n)
    for window in (None, "hann", "blackman"):
        two = power_spectrum(u, window=window, scaling="spectrum", sides="two")
        assert float(two.power[50]) == pytest.approx(amplitude**2 / 4, rel=1e-12)
        assert float(two.power[-50]) == pytest.approx(amplitude**2 / 4, rel=1e-12)
        one = power_spectrum(u, window=window, scaling="spectrum")
        assert float(one.power[50]) == pytest.approx(amplitude**2 / 2, rel=1e-12)


def test_segments_xar04():
    """XAR04: the mean density of segments is the variance."""
    x = np.random.default_rng(0).standard_normal(10000)
    s = power_spectrum(x.reshape(100, 100), axes=-1, sides="two")
    _, expected = scipy.signal.welch(x, window="boxcar", nperseg=100, noverlap=0, return_onesided=False, detrend=False)
    assert np.allclose(s.power.mean(axis=0), expected, rtol=1e-10)
    assert s.power.mean() == pytest.approx(np.mean(x**2), rel=1e-12)


@pytest.mark.parametrize("scaling", ["density", "spectrum"])
@pytest.mark.parametrize("detrend", [None, "constant", "linear"])
@pytest.mark.parametrize("window", [None, "hann", "hamming"])
@pytest.mark.parametrize("n", [24, 25])
def test_one_axis_agrees_with_scipy(rng, n, window, detrend, scaling):
    u = rng.standard_normal((3, n)) + 5.0 + 0.3 * np.arange(n)
    s = power_spectrum(u, spacing=0.25, axes=1, window=window, detrend=detrend, scaling=scaling)
    frequency, expected = scipy.signal.periodogram(
        u, fs=4.0, window=window or "boxcar", detrend=detrend or False, scaling=scaling
    )
    assert np.allclose(s.frequencies[0], frequency, rtol=1e-14)
    assert np.allclose(s.power, expected, rtol=1e-9, atol=1e-12)


def test_complex_input_agrees_with_scipy(rng):
    u = field(rng, (17,), "complex128")
    s = power_spectrum(u, spacing=0.5, window="hann")
    frequency, expected = scipy.signal.periodogram(u, fs=2.0, window="hann", detrend=False, return_onesided=False)
    assert np.allclose(s.frequencies[0], frequency)
    assert np.allclose(s.power, expected, rtol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9])
def test_half_spectrum_doubles_all_but_mean_and_nyquist(rng, n):
    u = field(rng, (n,), "float64")
    one = power_spectrum(u).power
    two = power_spectrum(u, sides="two").power
    assert one.shape == (n // 2 + 1,)
    for k in range(n // 2 + 1):
        factor = 1 if k == 0 or 2 * k == n else 2
        assert one[k] == pytest.approx(factor * two[k], rel=1e-12)


def test_last_listed_axis_is_halved(rng):
    u = field(rng, (6, 8), "float64")
    s = power_spectrum(u, spacing=(0.5, 0.25), axes=(1, 0))
    assert s.power.shape == (4, 8)
    assert np.allclose(s.frequencies[0], np.fft.fftfreq(8, 0.5))
    assert np.allclose(s.frequencies[1], np.fft.rfftfreq(6, 0.25))
    swapped = power_spectrum(u.T, spacing=(0.5, 0.25))
    assert np.allclose(s.power, swapped.power.T, rtol=1e-12)


def test_frequencies_cell_and_units():
    s = power_spectrum(np.ones((4, 10)), spacing=(0.5, 2.0), sides="two")
    assert s.df == pytest.approx(1 / (4 * 0.5) / (10 * 2.0), rel=1e-15)
    assert s.frequencies[0].tolist() == [0.0, 0.5, -1.0, -0.5]
    assert s.frequencies[1][1] == 0.05
    assert s.power[0, 0] == pytest.approx(4 * 10 * 0.5 * 2.0, rel=1e-15)  # mean 1 in one cell of size df


def test_default_axes_are_the_last_two(rng):
    u = field(rng, (2, 4, 6), "float64")
    assert np.array_equal(power_spectrum(u).power, power_spectrum(u, axes=(1, 2)).power)
    assert np.array_equal(power_spectrum(u, spacing=(1.0,)).power, power_spectrum(u, axes=2).power)


def test_batch_is_member_by_member(rng):
    u = field(rng, (3, 8, 2), "float64")
    s = power_spectrum(u, axes=1, window="hann", detrend="linear")
    assert s.power.shape == (3, 5, 2)
    for i in range(3):
        for j in range(2):
            single = power_spectrum(u[i, :, j], window="hann", detrend="linear")
            assert np.allclose(s.power[i, :, j], single.power, rtol=1e-12)


def test_one_window_name_serves_both_axes(rng):
    u = field(rng, (8, 6), "float64")
    tapers = tuple(scipy.signal.get_window("hann", n) for n in (8, 6))
    assert np.allclose(power_spectrum(u, window="hann").power, power_spectrum(u, window=tapers).power, rtol=1e-13)


def test_windows_go_along_their_own_axis(rng):
    u = field(rng, (8, 6), "float64")
    taper = scipy.signal.get_window("hann", 8)
    s = power_spectrum(u, window=("hann", None), sides="two")
    expected = np.abs(np.fft.fft2(u * taper[:, None])) ** 2 / (6 * np.sum(taper**2))
    assert np.allclose(s.power, expected, rtol=1e-12)


@pytest.mark.parametrize("window", [[0.5, 1.0, 1.0, 0.5], (0.5, 1, 1, 0.5), ([0.5, 1.0, 1.0, 0.5],)], ids=str)
def test_windows_may_be_numbers(rng, window):
    u = field(rng, (4,), "float64")
    expected = power_spectrum(u, window=np.array([0.5, 1.0, 1.0, 0.5])).power
    assert np.array_equal(power_spectrum(u, window=window).power, expected)


def test_constant_detrend_removes_the_mean_of_the_axes_alone():
    u = np.array([[1.0, 3.0], [5.0, 7.0]])
    assert power_spectrum(u, axes=1, detrend="constant").power[:, 0].tolist() == [0.0, 0.0]
    assert power_spectrum(u, axes=1).power[:, 0].tolist() == [8.0, 72.0]


@pytest.mark.parametrize("shape", [(2,), (9,), (6, 7), (1, 5), (3, 4, 5)], ids=str)
def test_linear_detrend_removes_planes(rng, shape):
    grid = np.meshgrid(*(np.arange(float(n)) for n in shape), indexing="ij")
    plane = 3.0 + sum((0.5 + i) * x for i, x in enumerate(grid))
    noise = rng.standard_normal(shape)
    axes = range(len(shape))
    design = np.stack([np.ones(shape), *grid], axis=-1).reshape(-1, 1 + len(shape))
    fit, *_ = np.linalg.lstsq(design, noise.ravel(), rcond=None)
    residual = noise - (design @ fit).reshape(shape)
    s = power_spectrum(plane + noise, axes=axes, detrend="linear")
    assert np.allclose(s.power, power_spectrum(residual, axes=axes).power, rtol=1e-8, atol=1e-20)


def test_complex_trends_are_removed():
    u = (1 + 2j) + (3 - 1j) * np.arange(6)
    assert np.abs(power_spectrum(u, detrend="linear").power).max() < 1e-25


def test_rings_collect_what_lies_in_them():
    u = np.random.default_rng(5).standard_normal((6, 10))
    s = power_spectrum(u, spacing=(0.5, 0.7), isotropic=True)
    two = power_spectrum(u, spacing=(0.5, 0.7), sides="two")
    width = max(1 / (6 * 0.5), 1 / (10 * 0.7))
    expected = np.zeros(len(s.power))
    for i, f in enumerate(np.fft.fftfreq(6, 0.5)):
        for j, g in enumerate(np.fft.fftfreq(10, 0.7)):
            expected[int(np.hypot(f, g) / width + 0.5)] += two.power[i, j] * two.df / width
    assert s.df == pytest.approx(width, rel=1e-15)
    assert np.allclose(s.power, expected, rtol=1e-12)
    assert np.allclose(s.frequencies[0], width * np.arange(len(expected)), rtol=1e-15)


def test_rings_of_one_axis_are_the_one_sided_spectrum(rng):
    u = field(rng, (9,), "float64")
    a, b = power_spectrum(u, spacing=0.3, isotropic=True), power_spectrum(u, spacing=0.3)
    assert np.allclose(a.power, b.power, rtol=1e-12)
    assert np.allclose(a.frequencies[0], b.frequencies[0], rtol=1e-12)


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (5, 9), (4, 6, 8)], ids=str)
def test_no_ring_is_empty(shape):
    impulse = np.zeros(shape)
    impulse[(0,) * len(shape)] = 1.0  # a flat spectrum
    assert power_spectrum(impulse, axes=range(len(shape)), isotropic=True).power.min() > 0


def test_rings_of_batches(rng):
    u = field(rng, (2, 5, 6, 3), "float64")
    s = power_spectrum(u, axes=(2, 1), isotropic=True)
    assert s.power.shape[:2] == (2, 3)
    single = power_spectrum(u[1, :, :, 2].T, isotropic=True)
    assert np.allclose(s.power[1, 2], single.power, rtol=1e-12)


def test_plane_wave_sits_in_its_ring():
    y, x = np.mgrid[:20, :20] / 20
    s = power_spectrum(np.cos(2 * np.pi * (3 * x + 4 * y)), spacing=1 / 20, isotropic=True, scaling="spectrum")
    assert s.power[5] == pytest.approx(0.5, rel=1e-12)
    assert np.delete(s.power, 5).max() < 1e-25


def test_empty_batches_are_possible():
    assert power_spectrum(np.zeros((0, 8)), axes=1).power.shape == (0, 5)
    assert power_spectrum(np.zeros((0, 8, 8)), isotropic=True).power.shape[0] == 0


@pytest.mark.parametrize("isotropic", [False, True], ids=["bins", "rings"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_agree(rng, name, isotropic):
    lib = library(name)
    u = field(rng, (2, 6, 8), "float64")
    options = {"spacing": (0.5, 0.25), "window": "hann", "detrend": "linear", "isotropic": isotropic}
    s = power_spectrum(lib.make(u), **options)
    expected = power_spectrum(u, **options)
    assert isinstance(s.power, lib.type)
    assert all(isinstance(f, lib.type) for f in s.frequencies)
    assert np.allclose(lib.read(s.power), expected.power, rtol=1e-10, atol=1e-16)
    for f, g in zip(s.frequencies, expected.frequencies, strict=True):
        assert np.array_equal(lib.read(f), g)


@pytest.mark.parametrize(
    ("dtype", "power"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("complex64", "float32"),
        ("complex128", "float64"),
        ("int32", "float64"),
        ("bool", "float64"),
    ],
)
def test_precision_is_kept(rng, dtype, power):
    u = field(rng, (8,), "complex128" if dtype.startswith("complex") else "float64").astype(dtype)
    s = power_spectrum(u, window="hann", detrend="linear")
    assert s.power.dtype == power
    assert s.frequencies[0].dtype == power


def test_bfloat16_is_computed_in_float32():
    torch = pytest.importorskip("torch")
    s = power_spectrum(torch.ones(4, dtype=torch.bfloat16))
    assert s.power.dtype == torch.float32
    assert s.power.tolist() == [4.0, 0.0, 0.0]


def test_lists_are_fields():
    assert power_spectrum([1.0, 1.0]).power.tolist() == [2.0, 0.0]


def test_input_is_not_modified(rng):
    u = field(rng, (8,), "float64")
    before = u.copy()
    power_spectrum(u, detrend="linear", window="hann")
    assert np.array_equal(u, before)


def test_nan_spoils_its_own_member_only():
    u = np.ones((2, 4))
    u[0, 1] = np.nan
    power = power_spectrum(u, axes=1).power
    assert np.isnan(power[0]).all()
    assert np.isfinite(power[1]).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"spacing": 0.0}, ValueError, r"spacing is 0\.0, but must be positive"),
        ({"spacing": (1.0, 1.0, 1.0)}, ValueError, r"u has 2 dimensions, but must have at least 3 to match spacing"),
        ({"axes": 2}, ValueError, r"axes has 2, but must lie in \[-2, 2\) for u with 2 dimensions"),
        ({"scaling": "psd"}, ValueError, r"scaling is 'psd', but must be 'density' or 'spectrum'"),
        ({"sides": "both"}, ValueError, r"sides is 'both', but must be 'one' or 'two'"),
        ({"detrend": "mean"}, ValueError, r"detrend is 'mean', but must be 'constant' or 'linear'"),
        ({"window": "hat"}, ValueError, r"window is 'hat', but must be a name that scipy\.signal\.get_window knows"),
        ({"window": "kaiser"}, ValueError, r"window is 'kaiser', but must be a name"),
        ({"window": 3}, TypeError, r"window is a int, but must be a name, a 1-d array or a tuple of them"),
        ({"window": np.ones(4)}, ValueError, r"window has 1 tapers, but must have 2, one per axis"),
        ({"window": ("hann",)}, ValueError, r"window has 1 tapers, but must have 2, one per axis"),
        ({"window": ("kaiser", 8.6)}, ValueError, r"window is 'kaiser', but must be a name"),
        ({"window": ("hann", 8.6)}, TypeError, r"window has a float, but must have names or 1-d arrays"),
        ({"window": (np.ones(6), np.ones(4))}, ValueError, r"window has shape \(6,\), but must have shape \(4,\)"),
        ({"window": (None, np.ones(6) * 1j)}, TypeError, r"window has dtype complex128, but must be real"),
        ({"window": (np.zeros(4), None)}, ValueError, r"window has sum of squares 0\.0, but must have a positive one"),
        ({"window": ([1, -1, 1, -1], None), "scaling": "spectrum"}, ValueError, r"window has squared sum 0\.0"),
        ({"window": ([1, np.nan, 1, 1], None)}, ValueError, r"window has sum of squares nan, but must"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^power_spectrum: {message}"):
        power_spectrum(np.ones((4, 6)), **arguments)


def test_windows_of_other_libraries_are_refused():
    torch = pytest.importorskip("torch")
    message = "^power_spectrum: window is a torch array on cpu, but must be a NumPy array or a sequence of numbers$"
    with pytest.raises(TypeError, match=message):
        power_spectrum(torch.ones(4), window=torch.ones(4))


def test_complex_fields_have_two_sides():
    with pytest.raises(ValueError, match=r"^power_spectrum: sides is 'one', but must be 'two' for complex u"):
        power_spectrum(np.ones(4, complex), sides="one")


def test_empty_axes_are_refused():
    message = r"^power_spectrum: u has shape \(3, 0\), but must have at least one point along axes \(1,\)$"
    with pytest.raises(ValueError, match=message):
        power_spectrum(np.ones((3, 0)), axes=1)


def test_other_things_are_no_fields():
    with pytest.raises(TypeError, match=r"^power_spectrum: u is a str, but must be an array$"):
        power_spectrum("text")
