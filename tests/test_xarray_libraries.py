"""Arrays of other libraries inside: what comes out is of the same one, and NumPy never sees it."""

from __future__ import annotations

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
strict = pytest.importorskip("array_api_strict")

import spectralops.xarray as sx  # noqa: E402

CALLS = {
    "lowpass": lambda x: sx.lowpass(x, "3000 km"),
    "highpass-skipna": lambda x: sx.highpass(x, "3000 km", order=2, skipna=True),
    "bandpass-fill": lambda x: sx.bandpass(x, ("9000 km", "3000 km"), skipna=True, fill=True),
    "gaussian": lambda x: sx.gaussian(x, "900 km", dims="lat"),
    "convolve": lambda x: sx.convolve(x, np.ones((3, 2)), skipna=True),
    "derivative": lambda x: sx.derivative(x, "lon"),
    "difference": lambda x: sx.derivative(x, "lat", method="difference"),
    "one-sided": lambda x: sx.derivative(x, "lat", order=2, edges="mirror"),
    "laplacian": sx.laplacian,
    "inverse": lambda x: sx.inverse_laplacian(x, dims="lon"),
    "inverse on the globe": sx.inverse_laplacian,
    "stream function": lambda x: sx.streamfunction_potential(x, 2 * x, method="difference").streamfunction,
    "advection": lambda x: sx.advect_diffuse(x, x, 0 * x, dt=600, steps=2, skipna=True, source=x, diffusivity=1e4),
    "vorticity": lambda x: sx.vorticity_divergence(x, 2 * x).vorticity,
    "diffuse": lambda x: sx.diffuse(x, "900 km", skipna=True),
    "spectrum": lambda x: sx.power_spectrum(x, dims="lon", window="hann"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_library_stays(rng, name, dtype) -> None:
    values = (8 * rng.standard_normal((19, 36))).astype(dtype)
    coords = {"lat": np.linspace(90, -90, 19), "lon": 10.0 * np.arange(36)}
    plain = xr.DataArray(values, coords, ("lat", "lon"))
    x = xr.DataArray(strict.asarray(values), coords, ("lat", "lon"))
    y = CALLS[name](x)
    assert type(y.data) is type(x.data)
    expected = CALLS[name](plain)
    assert str(y.dtype).rpartition(".")[2] == str(expected.dtype)
    np.testing.assert_allclose(np.asarray(y.data), expected, rtol=1e-4, atol=1e-4 * float(abs(expected).max()))
