"""Every transform × library × dtype × lengths, axes and norm against SciPy in double precision on NumPy copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
from fft_cases import (
    FOURIER,
    HOST_LIBRARIES,
    MANY,
    ONE,
    REAL_INPUT,
    REAL_OUTPUT,
    TRIGONOMETRIC,
    Call,
    calls,
    expected,
    open_library,
    result_dtype,
    signal,
)
from libraries import library
from support import assert_close, tolerance

import spectralops.fft as fft
from spectralops._arrays import dtype_name

FLOATS = ("float32", "float64")
COMPLEXES = ("complex64", "complex128")


def dtypes(op: str) -> tuple[str, ...]:
    return FLOATS if op in REAL_INPUT else FLOATS + COMPLEXES


def check(op: str, x: np.ndarray, lib: Any, **options: Any) -> None:
    """The value, dtype, library and untouched input of one call."""
    array = lib.make(x)
    before = x.copy()
    result = getattr(fft, op)(array, **options)
    assert isinstance(result, lib.type)
    dtype = result_dtype(op, x.dtype.name)
    assert dtype_name(result.dtype) == dtype
    assert_close(lib.read(result), expected(op, x, **options), tolerance(dtype, max(x.size, 2), growth=2))
    assert np.array_equal(lib.read(array), before)


def makes_sense(op: str, call: Call) -> bool:
    """A real result of default length needs two points."""
    return not (op in REAL_OUTPUT and call.shape[-1] == 0 and "n" not in call.options)


# Every dtype where the engine is not SciPy itself, and one in turn where it is or where only the default axes differ.
FOURIER_CALLS = [
    (op, dtype, call, name)
    for op in FOURIER
    for turn, call in enumerate(calls(op))
    if makes_sense(op, call)
    for index, dtype in enumerate(dtypes(op))
    for name in HOST_LIBRARIES
    if (name in ("torch", "pretended-cupy") and op[-1] != "2") or index == turn % len(dtypes(op))
]


@pytest.mark.parametrize(("op", "dtype", "call", "name"), FOURIER_CALLS, ids=str)
def test_fourier(
    op: str, dtype: str, call: Call, name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(op, signal(rng, op, call.shape, dtype), open_library(name, monkeypatch), **call.options)


TYPES = (1, 2, 3, 4)
TRIGONOMETRIC_CALLS = [
    (op, kind, norm, orthogonalize, name)
    for op in TRIGONOMETRIC
    for kind in TYPES
    for norm, usual in ((None, True), ("ortho", False), ("forward", None))
    for orthogonalize in (None, True, False)
    for name in HOST_LIBRARIES
    if (name == "pretended-cupy" and op[-1] != "n") or orthogonalize is usual
]


@pytest.mark.parametrize(("op", "kind", "norm", "orthogonalize", "name"), TRIGONOMETRIC_CALLS, ids=str)
def test_cosine_and_sine(
    op: str,
    kind: int,
    norm: str | None,
    orthogonalize: bool | None,
    name: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = {"s": (6, 3), "axes": (2, 0)} if op.endswith("n") else {"n": 6, "axis": 1}
    x = signal(rng, op, (4, 5, 3), "float64")
    options = {"type": kind, "norm": norm, "orthogonalize": orthogonalize}
    check(op, x, open_library(name, monkeypatch), **options, **size)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", ["dct", "idst", "dstn", "idctn"])
def test_cosine_and_sine_dtypes(
    op: str, kind: int, dtype: str, name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(op, signal(rng, op, (3, 8), dtype), open_library(name, monkeypatch), type=kind)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8)], ids=str)
@pytest.mark.parametrize("kind", TYPES)
def test_cosine_of_an_empty_batch(
    kind: int, shape: tuple[int, ...], name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    check("dct", np.zeros(shape, np.float32), open_library(name, monkeypatch), type=kind)


def basis(name: str, kind: int, n: int) -> np.ndarray:
    """Matrix of a cosine or sine transform, from its definition."""
    k, j = np.arange(n)[:, None], np.arange(n)[None, :]
    if name == "dct":
        ends = np.where((j == 0) | (j == n - 1), 1, 2)
        return {
            1: ends * np.cos(np.pi * j * k / max(n - 1, 1)),
            2: 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n)),
            3: np.where(j == 0, 1, 2) * np.cos(np.pi * (2 * k + 1) * j / (2 * n)),
            4: 2 * np.cos(np.pi * (2 * k + 1) * (2 * j + 1) / (4 * n)),
        }[kind]
    return {
        1: 2 * np.sin(np.pi * (k + 1) * (j + 1) / (n + 1)),
        2: 2 * np.sin(np.pi * (k + 1) * (2 * j + 1) / (2 * n)),
        3: np.where(j == n - 1, 1, 2) * np.sin(np.pi * (2 * k + 1) * (j + 1) / (2 * n)),
        4: 2 * np.sin(np.pi * (2 * k + 1) * (2 * j + 1) / (4 * n)),
    }[kind]


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", ["dct", "dst"])
def test_cosine_and_sine_are_their_matrices(
    op: str, kind: int, n: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = open_library(name, monkeypatch)
    matrix = lib.read(getattr(fft, op)(lib.make(np.eye(n)), kind)).T
    assert_close(matrix, basis(op, kind, n), 1e-14)
    back = lib.read(getattr(fft, f"i{op}")(lib.make(matrix.T.copy()), kind))
    assert np.allclose(back, np.eye(n), atol=1e-14)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("n", [1, 2, 5, 12, 31])
def test_fft_is_its_matrix(n: int, name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = open_library(name, monkeypatch)
    k = np.arange(n)
    matrix = np.exp(-2j * np.pi * np.outer(k, k) / n)
    x = rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))
    assert_close(lib.read(fft.fft(lib.make(x))), x @ matrix.T, 1e-13)
    assert_close(lib.read(fft.ifft(lib.make(x))), x @ matrix.conj().T / n, 1e-13)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"bias": 0.3}, {"offset": 0.1, "bias": -0.2}], ids=str)
@pytest.mark.parametrize("op", ["fht", "ifht"])
def test_hankel(
    op: str, options: dict[str, float], dtype: str, name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = open_library(name, monkeypatch)
    x = rng.standard_normal((2, 9)).astype(dtype)
    result = getattr(fft, op)(lib.make(x), 0.1, 1.5, **options)
    assert isinstance(result, lib.type)
    if name in ("torch", "jax", "array_api_strict"):  # SciPy and cupyx give double where there is a bias
        assert dtype_name(result.dtype) == dtype
    assert_close(lib.read(result), getattr(scipy.fft, op)(x.astype(np.float64), 0.1, 1.5, **options), 16 * 2.0**-23)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
def test_hankel_of_its_eigenfunction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """r^(mu+1) exp(-r²/2) is its own transform (Hamilton 2000, equation B4)."""
    lib = open_library(name, monkeypatch)
    mu, r = 2.0, np.logspace(-3, 3, 256)
    dln = float(np.log(r[1] / r[0]))
    offset = fft.fhtoffset(dln, mu)
    k = np.exp(offset) / r[::-1]
    result = lib.read(fft.fht(lib.make(r ** (mu + 1) * np.exp(-(r**2) / 2)), dln, mu, offset))
    assert np.allclose(result, k ** (mu + 1) * np.exp(-(k**2) / 2), rtol=0, atol=1e-8)
    back = lib.read(fft.ifht(lib.make(np.array(result)), dln, mu, offset))
    assert np.allclose(back, r ** (mu + 1) * np.exp(-(r**2) / 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("axes", [None, 0, -1, (0, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "bool", "float32", "complex128"])
@pytest.mark.parametrize("op", ["fftshift", "ifftshift"])
def test_shift(op: str, dtype: str, axes: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = open_library(name, monkeypatch)
    x = np.arange(15).reshape(3, 5).astype(dtype)
    result = getattr(fft, op)(lib.make(x), axes)
    assert isinstance(result, lib.type)
    assert dtype_name(result.dtype) == dtype
    assert np.array_equal(lib.read(result), getattr(np.fft, op)(x, axes))


def test_shift_by_half() -> None:
    assert fft.fftshift([0, 1, 2, -2, -1]).tolist() == [-2, -1, 0, 1, 2]
    assert fft.ifftshift([-2, -1, 0, 1, 2]).tolist() == [0, 1, 2, -2, -1]
    assert fft.fftshift([[0, 1], [2, 3]], axes=0).tolist() == [[2, 3], [0, 1]]


@pytest.mark.parametrize(
    ("op", "n", "expected_"),
    [
        ("fftfreq", 1, [0]),
        ("fftfreq", 4, [0, 1, -2, -1]),
        ("fftfreq", 5, [0, 1, 2, -2, -1]),
        ("rfftfreq", 1, [0]),
        ("rfftfreq", 4, [0, 1, 2]),
        ("rfftfreq", 5, [0, 1, 2]),
    ],
)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax.numpy", "array_api_strict"])
def test_frequencies(op: str, n: int, expected_: list[int], name: str) -> None:
    xp = pytest.importorskip(name)
    result = getattr(fft, op)(np.int32(n), 0.25, xp=None if name == "numpy" else xp)
    assert isinstance(result, library(name.partition(".")[0]).type)
    assert np.allclose(np.asarray(result), 4 * np.array(expected_) / n)


def test_frequencies_on_a_named_device() -> None:
    torch = pytest.importorskip("torch")
    assert fft.fftfreq(4, xp=torch, device="meta").device.type == "meta"
    with pytest.raises(ValueError, match="device"):
        fft.fftfreq(4, device="cuda")


@pytest.mark.parametrize("op", ["fftfreq", "rfftfreq"])
def test_frequencies_of_a_library_without_devices(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    entered = []

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            entered.append(self.index)

        def __exit__(self, *error: object) -> None:
            pass

    cupy = types.SimpleNamespace(__name__="cupy", fft=np.fft, cuda=types.SimpleNamespace(Device=Device))
    assert np.array_equal(getattr(fft, op)(6, 0.5, xp=cupy), getattr(np.fft, op)(6, 0.5))
    assert entered == []
    getattr(fft, op)(6, xp=cupy, device=1)
    assert entered == [1]


@pytest.mark.parametrize("op", ["fftfreq", "rfftfreq"])
def test_frequency_refusals(op: str) -> None:
    with pytest.raises(ValueError, match=rf"^{op}: n is 0, but must be at least 1$"):
        getattr(fft, op)(0)
    with pytest.raises(TypeError, match=rf"^{op}: n is 2.5, but must be an integer$"):
        getattr(fft, op)(2.5)
    with pytest.raises(ValueError, match=rf"^{op}: d is 0.0, but must not be zero$"):
        getattr(fft, op)(4, 0.0)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool"])
@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("op", ["fft", "rfftn", "irfft", "dct"])
def test_integers_are_computed_in_the_librarys_default(
    op: str, name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = open_library(name, monkeypatch)
    x = np.array([1, 0, 1, 1, 0]).astype(dtype)
    result = getattr(fft, op)(lib.make(x))
    default = "float32" if name == "torch" else "float64"
    assert dtype_name(result.dtype) == result_dtype(op, default)
    assert_close(lib.read(result), expected(op, x), tolerance(default, 8))


def test_integers_in_torch_follow_its_default_dtype() -> None:
    torch = pytest.importorskip("torch")
    torch.set_default_dtype(torch.float64)
    try:
        assert fft.fft(torch.arange(4)).dtype == torch.complex128
        assert fft.dct(torch.arange(4)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "pretended-cupy"])
@pytest.mark.parametrize("op", ["fft", "rfftn", "irfft2", "hfft", "ihfft", "dct", "idstn"])
def test_sixteen_bits_give_single_precision(
    op: str, name: str, dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DTY02, for sizes that are no powers of two."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    lib = open_library(name, monkeypatch)
    x = rng.standard_normal((5, 12)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    result = getattr(fft, op)(lib.make(x))
    assert dtype_name(result.dtype) == result_dtype(op, dtype)
    assert_close(lib.read(result), expected(op, x), tolerance("float32", 64, growth=2))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_halves_of_torch_are_widened() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=torch.complex64)
    assert torch.equal(fft.fft(x.to(torch.complex32)), fft.fft(x))


@pytest.mark.skipif(np.dtype("longdouble") == np.dtype("float64"), reason="longdouble is double here")
@pytest.mark.parametrize("op", ["fft", "rfft2", "irfft", "dct"])
def test_longdouble_is_scipys(op: str) -> None:
    x = np.arange(6, dtype=np.longdouble).reshape(2, 3) / 3
    result = getattr(fft, op)(x)
    assert result.dtype == getattr(scipy.fft, op)(x).dtype
    assert result.dtype.itemsize in (16, 32)
    assert np.array_equal(result, getattr(scipy.fft, op)(x))


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("op", ["fft2", "fftn", "ifftn", "dctn", "idstn"])
def test_no_axes_change_nothing(op: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = open_library(name, monkeypatch)
    x = lib.make(np.arange(6.0).reshape(2, 3))
    result = getattr(fft, op)(x, axes=())
    assert np.array_equal(lib.read(result), lib.read(x))
    scalar = lib.make(np.array(2.5))
    if op != "fft2":
        assert float(getattr(fft, op)(scalar)) == 2.5


@pytest.mark.parametrize("value", [[1.0, 2.0, 4.0], (1, 2, 4), [1, 2j, 4]], ids=str)
def test_sequences_are_arrays(value: Any) -> None:
    assert np.array_equal(fft.fft(value), scipy.fft.fft(value))


def test_whatever_numpy_takes_for_an_array() -> None:
    class Series:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([1.0, 2.0, 4.0])

    assert np.array_equal(fft.rfft(Series()), scipy.fft.rfft([1.0, 2.0, 4.0]))


def test_xarray_is_taken_by_its_values() -> None:
    xarray = pytest.importorskip("xarray")
    result = fft.fft(xarray.DataArray([1.0, 2.0, 4.0]))
    assert type(result) is np.ndarray
    assert np.array_equal(result, scipy.fft.fft([1.0, 2.0, 4.0]))


def test_masked_arrays_that_hide_nothing_are_arrays() -> None:
    x = np.ma.masked_array([1.0, 2.0, 4.0])
    assert np.array_equal(fft.fft(x), scipy.fft.fft([1.0, 2.0, 4.0]))


@pytest.mark.parametrize("op", [*ONE, *MANY])
def test_workers_give_the_same(op: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((32, 16))
    assert np.array_equal(getattr(fft, op)(x, workers=2), getattr(fft, op)(x))
    with fft.set_workers(2):
        assert fft.get_workers() == 2
        assert np.array_equal(getattr(fft, op)(x), getattr(fft, op)(x, workers=-1))


def test_overwrite_is_only_a_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(8, dtype=complex)
    fft.fft(x, overwrite_x=True)
    assert not np.array_equal(x, np.arange(8)), "SciPy makes use of it, else this test says nothing"
    for name in ("torch", "jax", "array_api_strict"):
        lib = open_library(name, monkeypatch)
        y = lib.make(np.arange(8, dtype=complex))
        fft.fft(y, overwrite_x=True)
        fft.dct(y, overwrite_x=True)
        assert np.array_equal(lib.read(y), np.arange(8))


def test_next_fast_len() -> None:
    assert fft.next_fast_len(1031) == scipy.fft.next_fast_len(1031)
    assert fft.prev_fast_len(1031, real=True) == scipy.fft.prev_fast_len(1031, True)
