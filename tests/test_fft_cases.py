"""Known traps of Fourier transform libraries, one by one; the ids are those of the project's list of cases."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.fft
from fft_cases import HOST_LIBRARIES, open_library, pretend_cupy
from libraries import library
from support import assert_close, tolerance

import spectralops.fft as fft


@pytest.fixture(params=HOST_LIBRARIES)
def lib(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return open_library(request.param, monkeypatch)


@pytest.mark.parametrize(("dtype", "norm"), [("float32", "backward"), ("float64", "ortho"), ("float32", "forward")])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 1000, 8192, 16384])
def test_num01_imaginary_dc_is_ignored(n: int, dtype: str, norm: Any, lib: Any) -> None:
    """The inverse of the spectrum of ones is ones, whatever stands beside the DC coefficient."""
    spectrum = fft.rfft(np.ones((2, n), dtype), norm=norm)
    spectrum[:, 0] += 100j
    if n % 2 == 0:
        spectrum[:, -1] -= 50j
    result = lib.read(fft.irfft(lib.make(spectrum), n, norm=norm))
    assert_close(result, np.ones((2, n)), tolerance(dtype, n))


@pytest.mark.parametrize(("shape", "s"), [((4, 5), (4, 8)), ((3, 4, 5), (3, 4, 9)), ((6, 3, 2), (5, 3, 3))], ids=str)
@pytest.mark.parametrize("op", ["irfftn", "hfftn"])
def test_num01_in_n_dimensions(
    op: str, shape: tuple[int, ...], s: tuple[int, ...], lib: Any, rng: np.random.Generator
) -> None:
    """Of a spectrum that no real signal has, NumPy's definition is taken: the other axes first."""
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    axes = tuple(range(len(shape)))
    inner = fft.fftn if op == "hfftn" else fft.ifftn
    last = fft.hfft if op == "hfftn" else fft.irfft
    steps = last(np.asarray(inner(x, s[:-1], axes[:-1])), s[-1])
    assert_close(lib.read(getattr(fft, op)(lib.make(x), s)), steps, 1e-14)


@pytest.mark.parametrize(("shape", "axis", "n"), [((1000, 1), 0, 49951), ((3, 1031), 1, None)], ids=str)
def test_num11_repeated_calls_agree(shape: Any, axis: int, n: int | None, lib: Any, rng: np.random.Generator) -> None:
    """A plan for a length with a large prime factor is as right the third time as the first."""
    x = rng.standard_normal(shape)
    expected = np.fft.rfft(x, n, axis)
    for _ in range(3):
        assert_close(lib.read(fft.rfft(lib.make(x), n, axis)), expected, 1e-13)


def test_num11_spike(lib: Any) -> None:
    x = np.zeros((3, 1031))
    x[:, 1] = 1
    expected = np.broadcast_to(np.exp(-2j * np.pi * np.arange(1031) / 1031), (3, 1031))
    for _ in range(5):
        assert_close(lib.read(fft.fft(lib.make(x))), expected, 1e-13)


@pytest.mark.parametrize(
    ("shape", "s", "axes"),
    [
        ((3, 2), (3, 2), (1, 0)),
        ((3, 4, 5), (3, 4, 5), (2, 1, 0)),
        ((3, 4, 5), (5, 3), (0, 2)),
        ((3, 4, 5), (4, 6), (-1, 0)),
        ((4, 4), (4, 4), (0, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["fftn", "rfftn", "irfftn"])
def test_shp03_s_with_permuted_axes(op: str, shape: Any, s: Any, axes: Any, lib: Any, rng: np.random.Generator) -> None:
    """The lengths belong to the axes in their order, also where they equal the shape."""
    x = rng.standard_normal(shape)
    result = lib.read(getattr(fft, op)(lib.make(x), s, axes))
    assert_close(result, getattr(np.fft, op)(x, s, axes), 1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 15, 101, 255])
def test_shp04_odd_lengths_come_back(n: int, lib: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal(n)
    spectrum = fft.rfft(lib.make(x))
    assert tuple(spectrum.shape) == (n // 2 + 1,)
    assert_close(lib.read(fft.irfft(spectrum, n)), x, 1e-14)


@pytest.mark.parametrize("shape", [(39, 17), (65, 31), (42, 19)], ids=str)
def test_shp04_two_dimensions_come_back(shape: tuple[int, ...], lib: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape)
    assert_close(lib.read(fft.irfft2(fft.rfft2(lib.make(x)), shape)), x, 1e-14)


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">c16", ">i2", ">u4"])
def test_dty01_byte_order_is_no_value(dtype: str, rng: np.random.Generator) -> None:
    x = (100 * rng.standard_normal(12)).astype(dtype) if dtype != ">u4" else np.arange(12).astype(dtype)
    native = x.astype(x.dtype.newbyteorder("="))
    result = fft.fft(x)
    assert result.dtype.isnative
    assert np.array_equal(result, fft.fft(native))
    assert np.array_equal(fft.dct(x), fft.dct(native))


def test_dty02_half_precision_of_any_size(lib: Any, rng: np.random.Generator) -> None:
    if lib.type.__module__.startswith("array_api_strict"):
        pytest.skip("the standard has no float16")
    x = rng.standard_normal((1, 1, 20, 20, 10)).astype(np.float16)
    result = lib.read(fft.rfftn(lib.make(x), axes=(2, 3, 4)))
    assert result.dtype == np.complex64
    assert_close(result, scipy.fft.rfftn(x.astype(np.float64), axes=(2, 3, 4)), tolerance("float32", 4000))


def test_dty04_double_stays_double(lib: Any) -> None:
    x = 1e7 + 0.01 * np.arange(8)
    result = lib.read(fft.ifft(fft.fft(lib.make(x))))
    assert result.dtype == np.complex128
    assert np.abs(result - x).max() < 1e-7


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., 1::2] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    shared = np.broadcast_to(x[:1], x.shape)
    return {
        "F": np.asfortranarray(x),
        "T": np.ascontiguousarray(x.T).T,
        "swapped": np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
        "inner-slice": wide[..., 1::2],
        "reversed": np.ascontiguousarray(x[::-1, :, ::-1])[::-1, :, ::-1],
        "read-only": read_only,
        "broadcast": shared,
    }


@pytest.mark.parametrize("axes", [(2,), (0,), (1, 2), (0, 2), (2, 0), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("layout", layouts(np.zeros((1, 1, 1))))
@pytest.mark.parametrize("op", ["fftn", "rfftn", "irfftn", "dctn"])
def test_lay02_layouts(op: str, layout: str, axes: Any, rng: np.random.Generator) -> None:
    """LAY01 and LAY02: the order of the elements in memory is not a value."""
    x = layouts(rng.standard_normal((4, 5, 6)))[layout]
    expected = getattr(scipy.fft, op)(np.array(x, order="C"), axes=axes)
    assert_close(getattr(fft, op)(x, axes=axes), expected, 1e-14)


@pytest.mark.parametrize("axes", [(2,), (0, 2), (2, 0)], ids=str)
@pytest.mark.parametrize("layout", ["F", "T", "swapped", "inner-slice", "broadcast"])
@pytest.mark.parametrize("op", ["fftn", "rfftn", "irfftn", "dctn"])
def test_lay02_layouts_of_tensors(op: str, layout: str, axes: Any, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((4, 5, 6))
    wide = torch.zeros(4, 5, 12, dtype=torch.float64)
    wide[..., 1::2] = torch.from_numpy(x)
    tensor = {
        "F": torch.from_numpy(np.asfortranarray(x)),
        "T": torch.from_numpy(np.ascontiguousarray(x.T)).permute(2, 1, 0),
        "swapped": torch.from_numpy(x).transpose(0, 1).contiguous().transpose(0, 1),
        "inner-slice": wide[..., 1::2],
        "broadcast": torch.from_numpy(x[:1]).expand(4, 5, 6),
    }[layout]
    expected = getattr(scipy.fft, op)(tensor.numpy().copy(), axes=axes)
    assert_close(getattr(fft, op)(tensor, axes=axes).numpy(), expected, 1e-14)


@pytest.mark.parametrize(
    ("op", "shape", "result"),
    [("rfft", (0, 2, 16), (0, 2, 9)), ("fft", (0, 8), (0, 8)), ("irfft", (0, 9), (0, 16)), ("hfftn", (0, 3), (0, 4))],
    ids=str,
)
def test_lay04_empty_batch(op: str, shape: Any, result: Any, lib: Any) -> None:
    dtype = np.float32 if op == "rfft" else np.complex64
    options = {"axes": (1,)} if op == "hfftn" else {}
    y = getattr(fft, op)(lib.make(np.zeros(shape, dtype)), **options)
    assert tuple(y.shape) == result
    assert lib.read(y).dtype == (np.float32 if op in ("irfft", "hfftn") else np.complex64)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("op", ["irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn"])
def test_lay05_the_real_inverse_leaves_its_input(op: str, dtype: str, lib: Any, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((3, 4, 5)) + 1j * rng.standard_normal((3, 4, 5))).astype(dtype)
    array = lib.make(x.copy())
    first = lib.read(getattr(fft, op)(array)).copy()
    assert np.array_equal(lib.read(array), x)
    assert np.array_equal(lib.read(getattr(fft, op)(array)), first)


def test_big01_every_row_of_a_long_batch(lib: Any) -> None:
    """The small version of 2^31 elements: row b holds exp(2 pi i b j / n), whose transform is n at b mod n."""
    n, rows = 64, 1025
    j = np.arange(n)
    x = np.exp(2j * np.pi * (np.arange(rows)[:, None] * j % n) / n).astype(np.complex64)
    result = lib.read(fft.fft(lib.make(x)))
    for row in (0, 1, rows // 2, rows - 1):
        spike = np.zeros(n)
        spike[row % n] = n
        assert np.abs(result[row] - spike).max() < 1e-3


@pytest.mark.parametrize("kind", [np.int32, np.int16, np.uint8])
def test_big03_sizes_of_numpy_integers(kind: type, lib: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 5))
    s, axes = (kind(8), kind(4)), (np.int32(0), np.int8(-1))
    assert_close(lib.read(fft.fftn(lib.make(x), s, axes)), np.fft.fftn(x, (8, 4), (0, 1)), 1e-14)
    assert_close(lib.read(fft.rfft(lib.make(x), kind(7), np.int64(0))), np.fft.rfft(x, 7, 0), 1e-14)


def test_thr01_threads_do_not_share_plans(lib: Any, rng: np.random.Generator) -> None:
    images = rng.standard_normal((64, 32, 32))
    kernel = np.fft.rfft2(rng.standard_normal((32, 32)))
    serial = np.fft.irfft2(np.fft.rfft2(images) * kernel)

    def smooth(image: np.ndarray) -> np.ndarray:
        spectrum = lib.read(fft.rfft2(lib.make(image)))
        return lib.read(fft.irfft2(lib.make(spectrum * kernel)))

    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert_close(np.stack(list(pool.map(smooth, images))), serial, 1e-12)


def test_dlp01_nothing_is_kept_alive() -> None:
    """Thousands of calls on fresh tensors of 4 MB, through torch.fft and through DLPack, hold no memory."""
    pytest.importorskip("torch")
    resource = pytest.importorskip("resource")
    code = """
import resource, torch
import spectralops.fft as fft
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range(140):
    x = torch.zeros(1000, 1000)
    fft.dct(x[:1])
    fft.fft(x[:1])
    if i == 20:
        before = peak()
print(peak() - before)
"""
    assert resource
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50 * 1024, "kilobytes"


def test_dlp02_negative_strides_end_no_process() -> None:
    pytest.importorskip("torch")
    code = """
import numpy as np, torch
import spectralops.fft as fft
x = np.arange(12.0).reshape(3, 4)[:, ::-1]
assert np.allclose(fft.fft(x), np.fft.fft(x.copy()))
y = fft.fht(torch.from_numpy(x.copy()), 0.1, 0.5)
assert all(stride > 0 for stride in y.stride())
print(y.shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "torch.Size([3, 4])")


@pytest.mark.parametrize("op", ["fft", "irfft", "hfft", "fftn", "dct"])
def test_dlp03_conjugated_tensors(op: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    z = torch.from_numpy(x)
    for tensor, values in ((z.conj(), x.conj()), (z.mH, x.conj().T)):
        assert tensor.is_conj()
        assert_close(getattr(fft, op)(tensor).numpy(), getattr(scipy.fft, op)(values), 1e-14)


@pytest.mark.parametrize("op", ["fft", "rfft", "ihfft", "irfft", "dct", "fht"])
def test_dlp03_negated_tensors(op: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    tensor = torch.from_numpy(x).conj().imag
    assert tensor.is_neg()
    more = (0.1, 0.5) if op == "fht" else ()
    result = getattr(fft, op)(tensor, *more).resolve_conj()
    assert_close(result.numpy(), getattr(scipy.fft, op)(-x.imag, *more), 1e-14)


def test_prf01_large_prime_length(lib: Any) -> None:
    n = 10007
    x = np.zeros(n)
    x[1] = 1
    expected = np.exp(-2j * np.pi * np.arange(n) / n)
    assert_close(lib.read(fft.fft(lib.make(x))), expected, 1e-12)


def test_the_pretended_engine_refuses_what_cufft_gets_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary of the tests on it: handed the spectrum as it is, it fails."""
    pretend_cupy(monkeypatch)
    x = np.ones((4, 3), complex)
    x[0, 0] += 1j
    engine = sys.modules["cupyx.scipy.fft"]
    with pytest.raises(AssertionError, match="cuFFT would let this through"):
        engine.irfft(x, 4, -1, None)
    with pytest.raises(AssertionError, match="cuFFT would mix this up"):
        engine.irfft2(x, [4, 4], (0, 1), None)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("op", ["irfft", "hfft"])
def test_only_dc_and_nyquist_lose_their_imaginary_part(op: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = pretend_cupy(monkeypatch)
    seen = []

    def engine(x: np.ndarray, *arguments: object, **options: object) -> np.ndarray:
        seen.append(np.array(x))
        return x.real

    monkeypatch.setattr(sys.modules["cupyx.scipy.fft"], op, engine)
    x = np.arange(1, 10) + 1j * np.arange(11, 20)  # longer than the half that counts
    getattr(fft, op)(lib.make(x), n)
    half = x[: n // 2 + 1].copy()
    half.imag[0] = 0
    if n % 2 == 0:
        half.imag[-1] = 0
    assert np.array_equal(seen[0], half)


@pytest.mark.parametrize("op", ["fft", "rfftn", "irfft", "dct"])
def test_a_backend_of_scipy_reaches_numpy_arrays(op: str) -> None:
    class Backend:
        __ua_domain__ = "numpy.scipy.fft"
        seen: list[str] = []  # noqa: RUF012, one test's own class

        @staticmethod
        def __ua_function__(method: Any, arguments: Any, options: Any) -> str:
            Backend.seen.append(method.__name__)
            return "theirs"

    with fft.set_backend(Backend):
        assert getattr(fft, op)(np.ones(4)) == "theirs"
        assert fft.fft([1.0, 2.0]) == "theirs"
        with fft.skip_backend(Backend):
            assert getattr(fft, op)(np.ones(4)).shape
    assert Backend.seen == [op, "fft"]
    assert getattr(fft, op)(np.ones(4)).shape


def test_a_script_changes_one_import() -> None:
    """A pseudo-spectral step, a Poisson solve and a cosine filter give SciPy's bits."""

    def script(fft: Any) -> list[np.ndarray]:
        x = np.linspace(0, 2 * np.pi, 32, endpoint=False)
        u = np.sin(x)[:, None] * np.cos(2 * x)[None, :]
        k = fft.fftfreq(32, 1 / 32)
        ux = fft.ifft2(1j * k[:, None] * fft.fft2(u)).real
        with fft.set_workers(2):
            half = fft.rfftn(u, axes=(0, 1), workers=1, overwrite_x=True)
        half[0, 0] = 0
        back = fft.irfftn(half, s=u.shape)
        shifted = fft.ifftshift(fft.fftshift(fft.fft(u, fft.next_fast_len(35, real=True), axis=0), axes=(0,)), axes=0)
        return [ux, back, shifted, fft.idctn(fft.dctn(u, norm="ortho")[:4, :4], norm="ortho", s=u.shape)]

    for ours, scipys in zip(script(fft), script(scipy.fft), strict=True):
        assert np.array_equal(ours, scipys)


def test_jax_tracers_are_refused() -> None:
    library("jax")
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError, match=r"^fft: x is a JAX tracer, but must be a concrete array; call it outside jit"):
        jax.jit(fft.fft)(jax.numpy.ones(4))


def test_jax_in_single_precision_stays_single() -> None:
    lib = library("jax")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", False)
    try:
        assert fft.rfft(lib.make(np.arange(4))).dtype == np.complex64
        assert fft.fht(lib.make(np.ones(4, np.float32)), 0.1, 0.5, bias=0.3).dtype == np.float32
    finally:
        jax.config.update("jax_enable_x64", True)
