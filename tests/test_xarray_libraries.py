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
    "advection, masked": lambda x: sx.advect_diffuse(x, x, 0 * x, dt=600, mask=x.lat < 60, source=2.0),
    "vorticity": lambda x: sx.vorticity_divergence(x, 2 * x).vorticity,
    "diffuse": lambda x: sx.diffuse(x, "900 km", skipna=True),
    "diffuse, masked": lambda x: sx.diffuse(x, "900 km", mask=x.lat < 60),
    "spectrum": lambda x: sx.power_spectrum(x, dims="lon", window="hann"),
}


# Those that no engine of the host takes part in: with them, an array may be on any device.
ANYWHERE = ("difference", "one-sided", "stream function", "advection", "advection, masked")


def fields(rng, dtype, **where):
    """The same of NumPy and of another library; their coordinates are NumPy's."""
    values = (8 * rng.standard_normal((19, 36))).astype(dtype)
    coords = {"lat": np.linspace(90, -90, 19), "lon": 10.0 * np.arange(36)}
    return (xr.DataArray(each, coords, ("lat", "lon")) for each in (values, strict.asarray(values, **where)))


@pytest.mark.parametrize("name", ANYWHERE)
def test_the_device_stays(rng, name) -> None:
    device = strict.Device("device1")
    _, x = fields(rng, "float64", device=device)
    assert CALLS[name](x).data.device == device


def test_no_array_is_moved_unasked(rng) -> None:
    plain, x = fields(rng, "float64")
    for name, (u, v) in {"u": (plain, x), "v": (x, plain)}.items():
        words = f"{name} is a numpy array, but must be a array_api_strict array like the field; move one of them"
        with pytest.raises(TypeError, match=f"advect_diffuse: {words}"):
            sx.advect_diffuse(x, u, v, dt=600)
    with pytest.raises(TypeError, match="vorticity_divergence: v is a numpy array, but must be a array_api_strict"):
        sx.vorticity_divergence(x, plain)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_library_stays(rng, name, dtype) -> None:
    plain, x = fields(rng, dtype)
    y = CALLS[name](x)
    assert type(y.data) is type(x.data)
    expected = CALLS[name](plain)
    assert str(y.dtype).rpartition(".")[2] == str(expected.dtype)
    np.testing.assert_allclose(np.asarray(y.data), expected, rtol=1e-4, atol=1e-4 * float(abs(expected).max()))
