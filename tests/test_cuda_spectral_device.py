"""Filters and spectral convolutions of the CUDA backend on a device: graphs, threads and streams, lengths."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import spectralops as so
from spectralops import transfer
from spectralops._cuda import pruned
from spectralops._recent import Recent

GAUSSIAN = transfer.gaussian(1.0)

CALLS = {
    "filter-2d": (
        (4, 64, 96),
        lambda x, weight, **tail: so.spectral_filter(x, GAUSSIAN, **tail),
    ),
    "filter-3d": (
        (2, 16, 20, 24),
        lambda x, weight, **tail: so.spectral_filter(x, GAUSSIAN, axes=(1, 2, 3), **tail),
    ),
    "conv-2d": (
        (3, 4, 32, 48),
        lambda x, weight, **tail: so.spectral_conv(x, weight, **tail),
    ),
}


@pytest.fixture
def device_call(request):
    """A call of an operator on a device, its field, and what comes out by CuPy's transforms."""
    cupy = pytest.importorskip("cupy")
    shape, function = CALLS[request.param]
    random = np.random.default_rng(2)
    x = cupy.asarray(random.standard_normal(shape).astype("float32"))
    # on the device before any capture begins: none may copy from the host
    weight = cupy.asarray((random.standard_normal((4, 4, 8, 6)) + 1j).astype("complex64"))

    def call(x: Any, **tail: Any) -> Any:
        return function(x, weight, **tail)

    return cupy, call, x, cupy.asnumpy(call(x, backend="cupy"))


def close(result: Any, expected: np.ndarray) -> bool:
    return bool(np.abs(result - expected).max() < 1e-5 * np.abs(expected).max())


@pytest.mark.gpu
@pytest.mark.parametrize("device_call", CALLS, indirect=True)
def test_captured_graphs_on_gpu(device_call) -> None:
    cupy, call, x, expected = device_call
    out = cupy.empty_like(x)
    call(x, backend="cuda", out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        call(x, backend="cuda", out=out)
        graph = stream.end_capture()
        for _ in range(2):
            out.fill(0)
            graph.launch(stream)
            stream.synchronize()
            assert close(cupy.asnumpy(out), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("device_call", CALLS, indirect=True)
def test_threads_and_streams_on_gpu(device_call) -> None:
    cupy, call, x, expected = device_call
    wrong: list[int] = []

    def work(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(20):
                result = call(x, backend="cuda")
                stream.synchronize()
                if not close(cupy.asnumpy(result), expected):
                    wrong.append(number)

    cupy.cuda.Device().synchronize()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.gpu
@pytest.mark.parametrize("n", [2, 15, 128, 500, 1001, 2048, 4096, 5040, 8192])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_lengths_on_gpu(n: int, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    random = np.random.default_rng(n)
    values = random.standard_normal((6, n)) + (1j * random.standard_normal((6, n)) if dtype == "complex64" else 0)
    x = cupy.asarray(values.astype(dtype))
    for axes, field in ((-1, x), ((0, 1), x), ((0, 1), cupy.ascontiguousarray(x.T))):
        if so.plan_spectral_filter(field.shape, dtype, GAUSSIAN, axes=axes, device="cuda").backend != "cuda":
            continue
        result = cupy.asnumpy(so.spectral_filter(field, GAUSSIAN, axes=axes, backend="cuda"))
        expected = cupy.asnumpy(so.spectral_filter(field, GAUSSIAN, axes=axes, backend="cupy"))
        assert np.abs(result - expected).max() < (1e-12 if dtype == "float64" else 1e-5) * np.abs(expected).max()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((70, 17), "float32"), ((64, 4001), "float32"), ((100, 1202), "float64"), ((999, 97), "float16"),
        ((16, 721, 48), "float32"), ((5, 206, 33), "float64"), ((40, 127, 30), "bfloat16"), ((6, 34, 8), "complex64"),
        ((3, 9, 15, 14), "float32"),
    ],
    ids=str,
)  # fmt: skip
def test_lengths_with_large_prime_factors_on_gpu(shape: tuple[int, ...], dtype: str, rng) -> None:
    """In longer transforms where lines are many; rows of images with odd numbers of them by twos."""
    torch = pytest.importorskip("torch")
    axes = tuple(range(1, len(shape)))
    x = torch.as_tensor(rng.standard_normal(shape), device="cuda").to(getattr(torch, dtype))
    half = (*shape[1:-1], shape[-1] if dtype == "complex64" else shape[-1] // 2 + 1)
    h = torch.as_tensor(rng.standard_normal(half) + 1j * rng.standard_normal(half), device="cuda")
    h = h.to(torch.complex128 if dtype == "float64" else torch.complex64)
    wide = x.to(torch.complex128 if dtype == "complex64" else torch.float64).cpu().numpy()
    expected = so.spectral_filter(wide, h.cpu().numpy(), axes=axes, backend="numpy")
    bound = {"float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-5)
    for _ in range(2):  # scratch memory is used again
        result = so.spectral_filter(x, h, axes=axes, backend="cuda").to(torch.complex128).cpu().numpy()
        assert np.abs(result - expected).max() < bound * np.abs(expected).max()


LAYERS = {
    # shape, channels written, modes
    "few wavenumbers of long lines": ((5, 6, 8192), 7, (16,)),
    "few wavenumbers of a line a warp": ((3, 3, 1024), 2, (5,)),
    "lines": ((70, 20, 128), 24, (64,)),
    "one image": ((1, 12, 128, 128), 12, (32, 16)),
    "images": ((9, 24, 64, 64), 20, (24, 12)),
    "long images": ((2, 6, 512, 96), 6, (20, 9)),
    "volumes": ((2, 4, 24, 32, 40), 3, (6, 8, 7)),
}


@pytest.mark.gpu
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "sliced"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_gpu(name: str, sliced: bool, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer, its adjoint and its weight gradient, as exact as single precision."""
    cupy = pytest.importorskip("cupy")
    if sliced:
        monkeypatch.setattr(pruned, "SLICED_FROM", 0)
        monkeypatch.setattr(pruned, "SLICE_BYTES", 2**16)
        monkeypatch.setattr(pruned, "_prepared", Recent(256))
    shape, written, modes = LAYERS[name]
    x, g = rng.standard_normal(shape), rng.standard_normal((shape[0], written, *shape[2:]))
    w = rng.standard_normal((shape[1], written, *modes)) + 1j * rng.standard_normal((shape[1], written, *modes))
    single = [cupy.asarray(each.astype("float32")) for each in (x, g)]
    weight = cupy.asarray(w.astype("complex64"))
    plan = so.plan_spectral_conv(shape, "float32", weight, device="cuda")
    exact = so.plan_spectral_conv(shape, "float64", w, backend="numpy")
    axes = tuple(range(2, len(shape)))
    for result, expected in (
        (plan(single[0], weight), exact(x, w)),
        (plan.adjoint()(single[1], weight), exact.adjoint()(g, w)),
        (
            so.spectral_conv_weight_gradient(*single, modes, axes=axes, backend="cuda"),
            so.spectral_conv_weight_gradient(x, g, modes, axes=axes, backend="numpy"),
        ),
    ):
        assert np.linalg.norm(cupy.asnumpy(result) - expected) < 1e-6 * np.linalg.norm(expected)
