"""Gradients of spectralops.fft on torch tensors, and its tensors on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
from fft_cases import FOURIER, MANY, REAL_INPUT, REAL_OUTPUT, calls, expected, result_dtype, signal
from libraries import library
from support import assert_close, tolerance

import spectralops.fft as fft
from spectralops._arrays import dtype_name
from spectralops.fft._engines import _real_output

torch = pytest.importorskip("torch")


def variable(rng: np.random.Generator, op: str, shape: tuple[int, ...], device: str = "cpu") -> Any:
    values = torch.from_numpy(signal(rng, op, shape, "float64" if op in REAL_INPUT else "complex128"))
    return values.to(device).requires_grad_()


@pytest.mark.parametrize("op", FOURIER)
def test_gradients_of_every_order_are_right(op: str, rng: np.random.Generator) -> None:
    x = variable(rng, op, (2, 3))
    options = {"s": (3, 4)} if op in MANY else {"n": 4}
    assert torch.autograd.gradcheck(lambda x: getattr(fft, op)(x, **options), (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: getattr(fft, op)(x, **options), (x,), fast_mode=True)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("last", [4, 5, 6, 9])
@pytest.mark.parametrize("op", ["irfftn", "hfftn"])
def test_the_real_inverse_off_the_host(op: str, shape: tuple[int, ...], last: int, rng: np.random.Generator) -> None:
    """What CUDA tensors go through, run on the host: values and gradients are those of torch on the host."""
    x = variable(rng, op, shape)
    sizes, axes = (*shape[:-1], last), tuple(range(len(shape)))

    def corrected(x: Any) -> Any:
        return _real_output(torch.fft, op, x, sizes, axes, "ortho")

    def plain(x: Any) -> Any:
        return getattr(torch.fft, op)(x, sizes, axes, "ortho")

    before = x.detach().clone()
    assert torch.allclose(corrected(x), plain(x), rtol=1e-13, atol=1e-13)
    assert torch.equal(x, before)
    assert torch.autograd.gradcheck(corrected, (x,), fast_mode=True)
    ours, theirs = (torch.autograd.grad(f(x).square().sum(), x)[0] for f in (corrected, plain))
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", FOURIER)
def test_the_tensor_engine_off_the_host(op: str, rng: np.random.Generator) -> None:
    """A meta tensor goes the way of a CUDA tensor, shapes and dtypes alone."""
    x = torch.from_numpy(signal(rng, op, (4, 6), "float32")).to("meta")
    result = getattr(fft, op)(x)
    assert tuple(result.shape) == expected(op, np.zeros((4, 6))).shape
    assert dtype_name(result.dtype) == result_dtype(op, "float32")


@pytest.mark.parametrize("op", ["fft", "rfftn", "irfft"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_differentiate(op: str, dtype: str) -> None:
    x = torch.ones(6, dtype=getattr(torch, dtype), requires_grad=True)
    getattr(fft, op)(x).abs().sum().backward()
    assert x.grad.dtype == x.dtype


@pytest.mark.parametrize("op", ["fft", "irfft"])
def test_an_empty_batch_differentiates(op: str) -> None:
    x = torch.zeros(0, 4, dtype=torch.complex64, requires_grad=True)
    getattr(fft, op)(x).abs().sum().backward()
    assert x.grad.shape == (0, 4)


def test_shifts_differentiate() -> None:
    x = torch.arange(5.0, requires_grad=True)
    (fft.fftshift(x) * torch.arange(5.0)).sum().backward()
    assert x.grad.tolist() == [2, 3, 4, 0, 1]


@pytest.mark.parametrize("op", ["dct", "idst", "dctn", "fht", "ifht"])
def test_what_does_not_differentiate_says_so(op: str) -> None:
    x = torch.ones(4, requires_grad=True)
    more = (0.1, 0.5) if "fht" in op else ()
    name = {"fht": "a", "ifht": "A"}.get(op, "x")
    message = rf"^{op}: {name} requires grad, but must not, since this function is not differentiable; "
    with pytest.raises(TypeError, match=message):
        getattr(fft, op)(x, *more)
    with torch.no_grad():
        assert getattr(fft, op)(x, *more).shape == (4,)


def test_per_sample_gradients() -> None:
    x = torch.randn(3, 8, dtype=torch.float64)

    def energy(x: Any) -> Any:
        return fft.irfft(fft.rfft(x) * 2).square().sum()

    assert torch.allclose(torch.func.vmap(torch.func.grad(energy))(x), 8 * x)


GPU = pytest.mark.gpu
GPU_LIBRARIES = ("cupy", "torch")


def unlazy(x: Any) -> Any:
    return x.resolve_conj() if isinstance(x, torch.Tensor) else x


@GPU
@pytest.mark.parametrize("name", GPU_LIBRARIES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("op", FOURIER)
def test_fourier_on_gpu(op: str, dtype: str, name: str, rng: np.random.Generator) -> None:
    if op in REAL_INPUT and dtype.startswith("complex"):
        dtype = {"complex64": "float32", "complex128": "float64"}[dtype]
    lib = library(name, "cuda")
    for call in calls(op):
        if op in REAL_OUTPUT and 0 in call.shape[-1:] and "n" not in call.options:
            continue
        x = signal(rng, op, call.shape, dtype)
        array = lib.make(x)
        result = getattr(fft, op)(array, **call.options)
        assert isinstance(result, lib.type)
        assert dtype_name(result.dtype) == result_dtype(op, dtype)
        bound = tolerance("float32" if dtype == "float16" else dtype, max(x.size, 2), growth=2)
        assert_close(lib.read(unlazy(result)), expected(op, x, **call.options), bound)
        assert np.array_equal(lib.read(array), x), "LAY05: the input was modified"


@GPU
@pytest.mark.parametrize("name", GPU_LIBRARIES)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("op", ["dct", "idct", "dst", "idst", "dctn", "idstn"])
def test_cosine_and_sine_on_gpu(op: str, kind: int, name: str, rng: np.random.Generator) -> None:
    lib = library(name, "cuda")
    for dtype in ("float32", "float64", "complex128"):
        x = signal(rng, op, (4, 7), dtype)
        for norm in (None, "ortho", "forward"):
            for orthogonalize in (None,) if dtype == "complex128" else (None, True, False):
                options = {"type": kind, "norm": norm, "orthogonalize": orthogonalize}
                result = getattr(fft, op)(lib.make(x), **options)
                assert isinstance(result, lib.type)
                assert_close(lib.read(result), expected(op, x, **options), tolerance(dtype, 28, growth=4))


@GPU
@pytest.mark.parametrize("name", GPU_LIBRARIES)
def test_helpers_on_gpu(name: str) -> None:
    lib = library(name, "cuda")
    xp = pytest.importorskip(name)
    x = np.arange(15.0).reshape(3, 5)
    assert np.array_equal(lib.read(fft.fftshift(lib.make(x), 1)), scipy.fft.fftshift(x, 1))
    assert np.array_equal(lib.read(fft.ifftshift(lib.make(x))), scipy.fft.ifftshift(x))
    result = fft.fft(lib.make(x))
    assert np.allclose(lib.read(fft.ifft(result)), x)
    frequencies = fft.rfftfreq(8, 0.5, xp=xp, device="cuda" if name == "torch" else 0)
    assert np.allclose(lib.read(frequencies), scipy.fft.rfftfreq(8, 0.5))
    hankel = fft.fht(lib.make(x), 0.1, 0.5, bias=0.2)
    assert isinstance(hankel, lib.type)
    assert np.allclose(lib.read(hankel), scipy.fft.fht(x, 0.1, 0.5, bias=0.2))


@GPU
@pytest.mark.parametrize("name", GPU_LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 1000, 8192, 16384])
def test_num01_on_gpu(n: int, dtype: str, name: str) -> None:
    lib = library(name, "cuda")
    for norm in ("backward", "ortho", "forward"):
        spectrum = fft.rfft(np.ones((2, n), dtype), norm=norm)
        spectrum[:, 0] += 100j
        if n % 2 == 0:
            spectrum[:, -1] -= 50j
        array = lib.make(spectrum)
        assert_close(lib.read(fft.irfft(array, n, norm=norm)), np.ones((2, n)), tolerance(dtype, n))
        assert np.array_equal(lib.read(array), spectrum)


@GPU
@pytest.mark.parametrize("name", GPU_LIBRARIES)
def test_prime_and_repeated_calls_on_gpu(name: str, rng: np.random.Generator) -> None:
    """NUM11 and PRF01."""
    lib = library(name, "cuda")
    x = rng.standard_normal((1000, 1))
    for _ in range(3):
        assert_close(lib.read(fft.rfft(lib.make(x), 49951, 0)), np.fft.rfft(x, 49951, 0), 1e-13)
    spike = np.zeros(1030703)
    spike[1] = 1
    wave = np.exp(-2j * np.pi * np.arange(1030703) / 1030703)
    assert_close(lib.read(fft.fft(lib.make(spike))), wave, 1e-10)


@GPU
def test_gradients_on_gpu(rng: np.random.Generator) -> None:
    for op in FOURIER:
        x = variable(rng, op, (2, 3), "cuda")
        options = {"s": (3, 4)} if op in MANY else {"n": 4}
        assert torch.autograd.gradcheck(lambda x, op=op, options=options: getattr(fft, op)(x, **options), (x,))
    with pytest.raises(TypeError, match="requires grad"):
        fft.dct(torch.ones(4, device="cuda", requires_grad=True))


@GPU
def test_plan_and_workers_on_gpu(rng: np.random.Generator) -> None:
    cupy = pytest.importorskip("cupy")
    engine = pytest.importorskip("cupyx.scipy.fft")
    x = cupy.asarray(rng.standard_normal((8, 16)) + 1j)
    plan = engine.get_fft_plan(x, axes=(0, 1))
    assert np.allclose(fft.fftn(x, plan=plan).get(), np.fft.fftn(x.get()))
    half = cupy.asarray(np.fft.rfft2(rng.standard_normal((8, 16))))
    plan = engine.get_fft_plan(half, shape=(8, 16), axes=(0, 1), value_type="C2R")
    assert np.allclose(fft.irfft2(half, (8, 16), plan=plan).get(), np.fft.irfft2(half.get()))
    with pytest.raises(ValueError, match=r"^fft: workers is 2, but must be None for cupy arrays, where it has no effe"):
        fft.fft(x, workers=2)


@GPU
@pytest.mark.parametrize("name", GPU_LIBRARIES)
def test_transforms_run_on_the_callers_stream(name: str) -> None:
    """THR05: torch.fft, cupyx and the way through DLPack all see what the current stream wrote before."""
    cupy = pytest.importorskip("cupy")
    x = library(name, "cuda").make(np.zeros(1 << 16, np.float32))
    fft.fft(x), fft.dct(x), fft.irfft(x)
    cupy.cuda.Device().synchronize()
    if name == "torch":
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)
            x.fill_(1)
            results = [fft.fft(x)[0].real, fft.dct(x)[0], fft.irfft(x)[0]]
    else:
        stream = cupy.cuda.Stream(non_blocking=True)
        source = 'extern "C" __global__ void spin() { long long t = clock64(); while (clock64() - t < 100000000) {} }'
        spin = cupy.RawKernel(source, "spin")
        with stream:
            spin((1,), (1,), ())
            x.fill(1)
            results = [fft.fft(x)[0].real, fft.dct(x)[0], fft.irfft(x)[0]]
    stream.synchronize()
    assert [float(value) for value in results] == pytest.approx([1 << 16, 2 << 16, 1], rel=1e-5)
