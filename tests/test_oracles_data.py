"""Real files that nobody here made: simulations, winds, an ocean mask, within the accuracy that their origin states.

The equations are solved again with this package's operators in float64: exponential integrators whose every linear
part is one `spectral_filter`, and the package's own steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import spectralops as so
from spectralops.transfer import derivative, inverse_laplacian, laplacian

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("h5py")


@pytest.fixture
def open_file(data_file):
    def load(name: str):
        with xarray.open_dataset(data_file(name), engine="h5netcdf") as file:
            return file.load()

    return load


def etdrk4(u, nonlinear: Callable, linear: np.ndarray, dt: float, steps: int):
    """Cox and Matthews (2002), eqs. 26-29, with the contour integrals of Kassam and Trefethen (2005) for the weights.

    `linear` is the symbol of the linear part on the (half) spectrum of u; every linear map is a spectral_filter.
    """
    circle = np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)
    z = dt * linear[:, None] + circle
    half = dt * np.mean((np.exp(z / 2) - 1) / z, axis=1)
    first = dt * np.mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3, axis=1)
    middle = 2 * dt * np.mean((2 + z + np.exp(z) * (z - 2)) / z**3, axis=1)
    last = dt * np.mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3, axis=1)
    whole, part = np.exp(dt * linear), np.exp(dt * linear / 2)

    for _ in range(steps):
        n_u = nonlinear(u)
        drift = so.spectral_filter(u, part)
        a = drift + so.spectral_filter(n_u, half)
        n_a = nonlinear(a)
        b = drift + so.spectral_filter(n_a, half)
        n_b = nonlinear(b)
        c = so.spectral_filter(a, part) + so.spectral_filter(2 * n_b - n_u, half)
        u = (
            so.spectral_filter(u, whole)
            + so.spectral_filter(n_u, first)
            + so.spectral_filter(n_a + n_b, middle)
            + so.spectral_filter(nonlinear(c), last)
        )
    return u


def transport(dx: float) -> Callable:
    """-(u^2/2)_x of a periodic field."""
    return lambda u: so.spectral_filter(-0.5 * u * u, derivative(), spacing=dx)


def largest(difference, field) -> float:
    return float(np.abs(difference).max() / np.abs(field).max())


@pytest.mark.parametrize("start", [0, 30, 90])
def test_kdv(open_file, start: int) -> None:
    """u_t + u u_x + 0.0025 u_xxx = 0, stated to 1e-11 relative."""
    u = open_file("sim_kdv.nc")["u"].values
    dx = 2 / 512
    k = 2 * np.pi * np.fft.rfftfreq(512, dx)
    linear = 0.0025j * k**3
    linear[-1] = 0  # an odd derivative has no Nyquist mode
    result = etdrk4(u[start], transport(dx), linear, 0.0001, 500)
    assert largest(result - u[start + 5], u) < 1e-11


@pytest.mark.parametrize("start", [0, 50, 90])
def test_allen_cahn(open_file, start: int) -> None:
    """u_t = 1e-4 u_xx + 5u - 5u^3, stated to 6e-11."""
    u = open_file("sim_allen_cahn.nc")["u"].values
    k = 2 * np.pi * np.fft.rfftfreq(512, 2 / 512)
    result = etdrk4(u[start], lambda v: -5 * v**3, 5 - 1e-4 * k**2, 0.001, 100)
    assert np.abs(result - u[start + 10]).max() < 6e-11


@pytest.mark.parametrize(("start", "stop"), [(0, 25), (40, 60)])
def test_nonlinear_schroedinger(open_file, start: int, stop: int) -> None:
    """i h_t + h_xx/2 + |h|^2 h = 0, stated to 2e-7."""
    data = open_file("sim_nls.nc")
    h = data["u_real"].values + 1j * data["u_imag"].values
    dt = float(data["time"][1] - data["time"][0]) / 40
    k = 2 * np.pi * np.fft.fftfreq(256, 10 / 256)
    result = etdrk4(h[start], lambda v: 1j * np.abs(v) ** 2 * v, -0.5j * k**2, dt, 40 * (stop - start))
    assert np.abs(result - h[stop]).max() < 2e-7


def test_nonlinear_schroedinger_keeps_its_mass(open_file) -> None:
    data = open_file("sim_nls.nc")
    h = data["u_real"].values + 1j * data["u_imag"].values
    mass = so.energy(h, 10 / 256, axes=-1)
    np.testing.assert_allclose(np.asarray(mass), mass[0], rtol=1e-8)


@pytest.mark.parametrize(("stop", "bound"), [(1, 7e-13), (60, 9e-9)], ids=["one interval", "t=24"])
def test_kuramoto_sivashinsky(open_file, stop: int, bound: float) -> None:
    """u_t = -u u_x - u_xx - u_xxxx, stated to 7e-13 after one interval and, grown by chaos, 9e-9 at t = 24."""
    u = open_file("sim_kuramoto_sivashinsky.nc")["u"].values
    dx = 32 * np.pi / 1024
    k = 2 * np.pi * np.fft.rfftfreq(1024, dx)
    result = etdrk4(u[0], transport(dx), k**2 - k**4, 0.02, 20 * stop)
    assert np.linalg.norm(result - u[stop]) / np.linalg.norm(u[stop]) < bound


@pytest.mark.parametrize("index", [10, 25])
def test_burgers_as_a_periodic_problem(open_file, index: int) -> None:
    """u_t + u u_x = nu u_xx, stated to 5e-11. Both end points are stored: 255 intervals make one period."""
    data = open_file("sim_burgers_shock.nc")
    u, nu, refine = data["u"].values, 0.01 / np.pi, 4
    x = np.linspace(-1, 1, 255 * refine, endpoint=False)
    dx = 2 / len(x)
    k = 2 * np.pi * np.fft.rfftfreq(len(x), dx)
    result = etdrk4(-np.sin(np.pi * x), transport(dx), -nu * k**2, 0.0005, 20 * index)
    assert np.abs(result[::refine] - u[index, :-1]).max() < 5e-11


@pytest.mark.parametrize(("index", "bound"), [(25, 1.2e-4), (50, 1.2e-3), (99, 4e-4)])
def test_burgers_by_the_explicit_step(open_file, index: int, bound: float) -> None:
    """The textbook scheme on 4081 points, second order in dx: held ends, central differences, forward Euler."""
    u = open_file("sim_burgers_shock.nc")["u"].values
    nu, refine = 0.01 / np.pi, 16
    x = np.linspace(-1, 1, 255 * refine + 1)
    dx = x[1] - x[0]
    steps = int(np.ceil(0.01 * index * nu / (0.4 * dx**2)))
    result = so.diffuse_convect_step(-np.sin(np.pi * x), dx, 0.01 * index / steps, nu, bc=so.Hold(), steps=steps)
    assert np.abs(result[::refine] - u[index]).max() < bound


def test_turbulence_spectrum_holds_the_variance(open_file) -> None:
    """Parseval: the isotropic spectrum of each layer sums to its variance."""
    q = open_file("sim_qg_turbulence.nc")["q"].values
    spectrum = so.power_spectrum(q, spacing=1e6 / 64, detrend="constant", isotropic=True)
    np.testing.assert_allclose(spectrum.power.sum(axis=-1) * spectrum.df, q.var(axis=(-2, -1)), rtol=1e-12)


def test_turbulence_inverse_laplacian_round_trip(open_file) -> None:
    q = open_file("sim_qg_turbulence.nc")["q"].values
    dx = 1e6 / 64
    psi = so.spectral_filter(q, inverse_laplacian(), spacing=dx)
    back = so.spectral_filter(psi, laplacian(), spacing=dx)
    expected = q - q.mean(axis=(-2, -1), keepdims=True)
    assert largest(back - expected, q) < 1e-13


@pytest.mark.parametrize("name", ["windspharm_reference_regular.nc", "windspharm_reference_gaussian.nc"])
@pytest.mark.parametrize(
    ("potential", "component", "bound"),
    [("chi", "chigradu", 4e-6), ("chi", "uchi", 4e-6), ("psi", "vpsi", 1e-5)],
    ids=["grad-chi", "divergent-wind", "rotational-wind"],
)
def test_zonal_derivative_of_potentials(open_file, name: str, potential: str, component: str, bound: float) -> None:
    """d/dx = 1/(a cos(lat)) d/dlon of chi and psi, row by row up to 60 degrees.

    The files state 3e-7, but keep three decimals of the radius (3e-6) and the potentials in float32, whose rounding
    the derivative magnifies: psi is 1e8 m2/s where its smallest resolved differences matter at 1e-5 of the wind.
    """
    data = open_file(name)
    latitude = np.deg2rad(data["latitude"].values)
    rows = np.abs(latitude) < np.deg2rad(60)
    field = data[potential].values.astype(np.float64)[rows]
    slope = so.spectral_filter(field, derivative(), spacing=2 * np.pi / 144, axes=-1)
    result = slope / (6.3712e6 * np.cos(latitude[rows])[:, None])
    expected = data[component].values[rows]
    assert largest(result - expected, expected) < bound


@pytest.mark.parametrize("name", ["ncep_uwnd_200hpa_clim.nc", "ncep_vwnd_200hpa_clim.nc"])
def test_winds_keep_their_variance_in_the_spectrum(open_file, name: str) -> None:
    """Parseval along longitude for every month and latitude, in the file's own float32."""
    wind = open_file(name)[name[5:9]].values
    spectrum = so.power_spectrum(wind, spacing=2.5, axes=-1, detrend="constant")
    total = spectrum.power.sum(axis=-1, dtype=np.float64) * spectrum.df
    expected = wind.astype(np.float64).var(axis=-1)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-6 * float(expected.max()))


def test_ocean_mask_keeps_land_out_of_the_sea(open_file) -> None:
    """Diffusion on the real half-degree mask: what lies on land, even NaN, never reaches the sea, and heat stays."""
    data = open_file("ocean_mask_half_degree.nc")
    sea = data["wet"].values.astype(bool)
    field = data["field"].values.astype(np.float64)
    bc = (so.Neumann(0.0), so.Periodic())
    dry = so.diffusion_step(np.where(sea, field, np.nan), 1.0, 0.2, 1.0, bc=bc, mask=sea, steps=20)
    other = so.diffusion_step(np.where(sea, field, 1e30), 1.0, 0.2, 1.0, bc=bc, mask=sea, steps=20)
    assert np.array_equal(dry[sea], other[sea])
    np.testing.assert_allclose(dry[sea].sum(), field[sea].sum(), rtol=1e-12)
    assert field[sea].min() <= dry[sea].min() < dry[sea].max() <= field[sea].max()
