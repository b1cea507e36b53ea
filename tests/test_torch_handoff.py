"""Arrays handed from library to library by DLPack, before and after operators: values, memory, lifetimes, refusals."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from libraries import library  # noqa: E402

import spectralops as so  # noqa: E402
from spectralops import torch as st  # noqa: E402

LIBRARIES = ["numpy", "torch", "jax", "array_api_strict"]
REAL = np.random.default_rng(0).standard_normal((2, 2, 6, 8))

# One call of every operator of a field (2, 2, 6, 8); `make` brings its other arrays to the library of the field.
OPERATORS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "spectral_filter": lambda x, make: so.spectral_filter(x, make(np.linspace(0, 1, 30).reshape(6, 5))),
    "spectral_conv": lambda x, make: so.spectral_conv(x, make(np.linspace(0, 1, 72).reshape(2, 3, 4, 3) + 0j)),
    "fourier_resample": lambda x, make: so.fourier_resample(x, (9, 5)),
    "fft_conv2d": lambda x, make: so.fft_conv2d(x, make(np.linspace(0, 1, 24).reshape(2, 2, 3, 2))),
    "convolve": lambda x, make: so.convolve(x, make(np.linspace(0, 1, 6).reshape(2, 3)), mode="same"),
    "diffusion_step": lambda x, make: so.diffusion_step(
        x, 1.0, 0.1, make(np.linspace(0, 1, 48).reshape(6, 8)), steps=3
    ),
    "convection_step": lambda x, make: so.convection_step(x, (0.5, make(np.full((6, 8), 0.25))), 1.0, 0.1),
    "diffusion_filter": lambda x, make: so.diffusion_filter(x, 4.0, 1.0),
    "gradient": lambda x, make: so.gradient(x, 1.0)[0, ...],
    "laplacian": lambda x, make: so.laplacian(x, 1.0),
}
EXPECTED = {name: call(REAL, np.asarray) for name, call in OPERATORS.items()}


def handed(x: Any, to: str) -> Any:
    """What another library makes of an array by DLPack."""
    if to == "jax":
        library("jax")
        return pytest.importorskip("jax").numpy.from_dlpack(x)
    return {"numpy": np, "torch": torch, "array_api_strict": pytest.importorskip("array_api_strict")}[to].from_dlpack(x)


def address(x: Any) -> int:
    for name in ("data_ptr", "unsafe_buffer_pointer"):
        if hasattr(x, name):
            return getattr(x, name)()
    return np.from_dlpack(x).ctypes.data


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("source", LIBRARIES)
def test_torch_results_are_handed_on_without_a_copy(source: str, target: str) -> None:
    lib = library(source)
    y = OPERATORS["spectral_filter"](lib.make(REAL), lib.make)
    z = handed(y, target)
    assert isinstance(z, library(target).type)
    np.testing.assert_allclose(library(target).read(z), EXPECTED["spectral_filter"], rtol=1e-12, atol=1e-12)
    if target != "jax" or source == "jax":  # which copies what does not lie on a boundary of 64 bytes
        assert address(z) == address(y)


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("source", LIBRARIES)
@pytest.mark.parametrize("name", ["spectral_conv", "diffusion_step"])
def test_torch_what_another_library_made_is_taken(name: str, source: str, target: str) -> None:
    """From `source` by DLPack to `target`, whose array goes into the operator."""
    make = lambda x: handed(library(source).make(np.array(x)), target)  # noqa: E731
    result = OPERATORS[name](make(REAL), make)
    assert isinstance(result, library(target).type)
    np.testing.assert_allclose(library(target).read(result), EXPECTED[name], rtol=1e-12, atol=1e-12)


def test_torch_a_simulation_hands_its_field_to_a_model_and_takes_it_back() -> None:
    field = np.array(REAL)
    torch.manual_seed(0)
    model = st.FNO((4, 4), 2, 2, hidden_channels=4, n_layers=1).double()
    with torch.no_grad():
        y = model(torch.from_dlpack(field))
    back = np.from_dlpack(y)
    assert back.ctypes.data == y.data_ptr()
    assert so.diffusion_step(back, 1.0, 0.1, 0.5, out=back.copy()).shape == field.shape
    assert np.array_equal(field, REAL)


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_results_outlive_what_they_came_from(name: str) -> None:
    buffer = np.array(REAL)
    alive = weakref.ref(buffer)
    x = torch.from_dlpack(buffer)
    y = np.from_dlpack(OPERATORS[name](x, torch.from_numpy))
    del x, buffer
    gc.collect()
    assert alive() is None
    torch.full((64, 64), torch.nan)  # where freed memory would be taken from
    np.testing.assert_allclose(y, EXPECTED[name], rtol=1e-12, atol=1e-12)


def test_torch_memory_of_a_result_is_freed_with_its_last_holder() -> None:
    y = OPERATORS["spectral_filter"](torch.from_numpy(REAL), torch.from_numpy).numpy()
    holder = np.from_dlpack(torch.from_numpy(y))
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is not None
    del holder
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_read_only_fields_are_taken_and_left_as_they_are(name: str) -> None:
    """PyTorch ignores the flag of memory that it is handed; we never write into an input, whatever its flag."""
    field = np.array(REAL)
    field.flags.writeable = False
    np.testing.assert_array_equal(OPERATORS[name](field, np.asarray), EXPECTED[name])
    shared = torch.from_dlpack(np.array(REAL))
    OPERATORS[name](shared, torch.from_numpy)
    assert np.array_equal(shared.numpy(), REAL)


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_negated_views_mean_what_they_say(name: str) -> None:
    """DLP03: the imaginary part of a conjugate holds the numbers with the other sign, and a bit that says so."""
    z = torch.complex(torch.zeros(REAL.shape, dtype=torch.float64), -torch.from_numpy(REAL)).conj()
    assert z.imag.is_neg()
    result = OPERATORS[name](z.imag, torch.from_numpy)
    assert not result.is_neg()
    torch.testing.assert_close(result, torch.from_numpy(np.asarray(EXPECTED[name])), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["spectral_filter", "spectral_conv", "fourier_resample", "convolve"])
def test_torch_conjugated_views_mean_what_they_say(name: str) -> None:
    z = torch.complex(torch.from_numpy(REAL), torch.from_numpy(REAL[::-1].copy()))
    make = lambda x: torch.from_numpy(np.resize(x, (6, 8) if name == "spectral_filter" else x.shape))  # noqa: E731
    assert z.conj().is_conj()
    result = OPERATORS[name](z.conj(), make)
    assert not result.is_conj()
    torch.testing.assert_close(result, OPERATORS[name](z.conj().resolve_conj(), make))


def test_torch_conjugated_weights_have_gradients() -> None:
    x = torch.from_numpy(REAL)
    weight = torch.randn(
        2, 3, 4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    (got,) = torch.autograd.grad(st.spectral_conv(x, weight.conj()).square().sum(), weight)
    (expected,) = torch.autograd.grad(st.spectral_conv(x, weight.conj().resolve_conj()).square().sum(), weight)
    torch.testing.assert_close(got, expected)
    imaginary = torch.complex(x, x).conj().imag.requires_grad_()
    st.spectral_conv(imaginary, weight.detach()).square().sum().backward()
    torch.testing.assert_close(
        imaginary.grad, torch.func.grad(lambda x: st.spectral_conv(x, weight.detach()).square().sum())(-x)
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_reversed_fields_give_results_that_can_be_handed_on(name: str) -> None:
    """DLP02: PyTorch ends the process when it is handed negative strides; results never have any."""
    result = OPERATORS[name](REAL[::-1, :, ::-1][::-1, :, ::-1], np.asarray)
    assert min(result.strides) > 0
    np.testing.assert_allclose(torch.from_dlpack(result).numpy(), EXPECTED[name], rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(REAL[::-1])
    assert torch.equal(torch.from_dlpack(np.ascontiguousarray(REAL[::-1])), torch.from_numpy(REAL).flip(0))


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_expanded_fields_are_taken(name: str) -> None:
    one = torch.from_numpy(REAL[:1])
    result = OPERATORS[name](one.expand(2, 2, 6, 8), torch.from_numpy)
    torch.testing.assert_close(result[0], result[1])
    torch.testing.assert_close(result[:1], OPERATORS[name](one, torch.from_numpy))


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_fields_that_require_gradients_are_refused_and_sent_on(name: str) -> None:
    x = torch.from_numpy(REAL).requires_grad_()
    with pytest.raises(TypeError, match=rf"^{name}: \w+ requires grad, but must not, .* take one of spectralops.torch"):
        OPERATORS[name](x, torch.from_numpy)
    with torch.no_grad():
        assert not OPERATORS[name](x, torch.from_numpy).requires_grad


@pytest.mark.parametrize("source", LIBRARIES)
@pytest.mark.parametrize("name", OPERATORS)
def test_torch_empty_batches_are_handed_on(name: str, source: str) -> None:
    lib = library(source)
    result = OPERATORS[name](lib.make(REAL[:0]), lib.make)
    assert isinstance(result, lib.type)
    assert tuple(result.shape) == (0, *EXPECTED[name].shape[1:])
    assert np.from_dlpack(result).shape == tuple(result.shape)


def test_torch_empty_batches_have_gradients() -> None:
    x = torch.zeros(0, 2, 6, 8, dtype=torch.float64, requires_grad=True)
    layer = st.SpectralConv(2, 3, (4, 4)).double()
    layer(x).sum().backward()
    assert x.grad.shape == x.shape
    assert layer.weight.grad.abs().max() == 0


def test_torch_bfloat16_goes_where_libraries_take_it() -> None:
    """NumPy takes no bfloat16 by DLPack, but the same bits as integers with the name that ml_dtypes gives them."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = torch.from_numpy(REAL).bfloat16()
    y = OPERATORS["diffusion_filter"](x, torch.from_numpy)
    assert y.dtype == torch.bfloat16
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(y)
    seen = y.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    assert seen.ctypes.data == y.data_ptr()
    assert np.array_equal(seen.astype(np.float32), y.float().numpy())
    again = OPERATORS["diffusion_filter"](x.view(torch.int16).numpy().view(ml_dtypes.bfloat16), np.asarray)
    assert np.array_equal(again.astype(np.float32), y.float().numpy())


def test_torch_jax_takes_bfloat16_from_torch() -> None:
    y = OPERATORS["diffusion_filter"](torch.from_numpy(REAL).bfloat16(), torch.from_numpy)
    z = handed(y, "jax")
    assert z.dtype.name == "bfloat16"
    assert np.array_equal(np.asarray(z.astype("float32")), y.float().numpy())


@pytest.mark.parametrize("name", ["spectral_filter", "spectral_conv", "fft_conv2d", "convolve", "diffusion_step"])
def test_torch_arrays_of_two_libraries_are_refused(name: str) -> None:
    message = rf"^{name}: \w+ is a numpy array on cpu, but must be a torch array on cpu like \w+; move one of them"
    with pytest.raises(TypeError, match=message):
        OPERATORS[name](torch.from_numpy(REAL), np.asarray)


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_tensors_without_memory_are_refused(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^{name}: \w+ is a torch.strided tensor on meta, but must be a strided tensor"
    ):
        OPERATORS[name](torch.zeros(2, 2, 6, 8, device="meta"), torch.from_numpy)


def test_torch_jax_results_are_never_written_into() -> None:
    library("jax")
    y = OPERATORS["diffusion_filter"](library("jax").make(REAL), np.asarray)
    seen = np.from_dlpack(y)
    assert not seen.flags.writeable
    with pytest.raises(ValueError, match="out is read-only, but must be writable"):
        so.diffusion_step(np.array(REAL), 1.0, 0.1, 0.5, out=seen)
    assert not np.shares_memory(so.diffusion_step(seen, 1.0, 0.1, 0.5), seen)


@pytest.mark.parametrize("name", ["spectral_filter", "fourier_resample", "convolve", "diffusion_step", "laplacian"])
def test_torch_tensors_without_axes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        OPERATORS[name](torch.tensor(1.0, dtype=torch.float64), torch.from_numpy)


def test_torch_tensors_without_axes_are_coefficients() -> None:
    u = torch.from_numpy(REAL)
    nu = torch.tensor(0.3, dtype=torch.float64)
    assert torch.equal(so.diffusion_step(u, 1.0, 0.1, nu), so.diffusion_step(u, 1.0, 0.1, 0.3))


def test_torch_two_threads_train_at_once() -> None:
    def gradient(seed: int) -> Any:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(2, 2, 12, 10, generator=generator, dtype=torch.float64)
        weight = torch.randn(2, 2, 4, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
        nu = torch.rand(12, 10, generator=generator, dtype=torch.float64).requires_grad_()
        y = st.diffusion_step(st.spectral_conv(x, weight), 1.0, 0.1, nu, steps=4)
        return torch.autograd.grad(y.square().sum(), (weight, nu))

    alone = [gradient(seed) for seed in range(8)]
    with ThreadPoolExecutor(2) as pool:
        for got, expected in zip(pool.map(gradient, range(8)), alone, strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)
