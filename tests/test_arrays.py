"""Arrays of every library come in without a copy and go out as they came."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from libraries import HOMES, library

from spectralops import _arrays, _interchange
from spectralops._arrays import HOST, ArraySpec, Home, describe
from spectralops._interchange import adopt, adopt_out, give_back

DTYPES = ("float16", "float32", "float64", "complex64", "complex128")


def address(x: Any) -> int:
    """Where the first element of an array of any host library lies."""
    for name in ("data_ptr", "unsafe_buffer_pointer"):
        if hasattr(x, name):
            return getattr(x, name)()
    return np.from_dlpack(x).ctypes.data


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", HOMES)
def test_adopt_copies_nothing(name: str, dtype: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal((3, 4)).astype(dtype)
    if name == "array_api_strict" and dtype == "float16":
        pytest.skip("the standard has no float16")
    x = library(name).make(values)
    native = adopt(x, dtype, HOMES[name])
    assert type(native) is np.ndarray
    assert native.ctypes.data == address(x)
    assert np.array_equal(native, values)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1, ::-2],
        lambda x: x[:, 1:3],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x[:0],
        lambda x: x[:1, :1],
        lambda x: x[2],
    ],
    ids=["negative", "sliced", "transposed", "broadcast", "zero-size", "one-element", "offset"],
)
def test_adopt_keeps_views_of_numpy_arrays(view: Any, rng: np.random.Generator) -> None:
    x = view(rng.standard_normal((4, 5)))
    native = adopt(x, "float64", HOST)
    assert native.ctypes.data == x.ctypes.data
    assert native.strides == x.strides
    assert native.shape == x.shape


@pytest.mark.parametrize("name", ["torch", "array_api_strict"])
@pytest.mark.parametrize("index", [(slice(None), slice(1, 4, 2)), (slice(2, 3),), (slice(0, 0),)], ids=str)
def test_adopt_keeps_views_of_other_libraries(name: str, index: Any, rng: np.random.Generator) -> None:
    values = rng.standard_normal((4, 5))
    index = (*index, ...)
    x = library(name).make(values)[index]
    native = adopt(x, "float64", HOMES[name])
    assert np.array_equal(native, values[index])
    if native.size:
        assert native.ctypes.data == address(x)


def test_adopt_keeps_expanded_and_transposed_tensors(torch: Any) -> None:
    x = torch.arange(3.0).expand(2, 3)
    assert adopt(x, "float32", HOMES["torch"]).strides == (0, 4)
    y = torch.arange(6.0).reshape(2, 3).T
    assert adopt(y, "float32", HOMES["torch"]).ctypes.data == y.data_ptr()


@pytest.mark.parametrize("name", ["numpy", "array_api_strict"])
def test_adopt_keeps_read_only_arrays(name: str) -> None:
    values = np.arange(3.0)
    values.flags.writeable = False
    x = values if name == "numpy" else pytest.importorskip(name).asarray(values, copy=False)
    native = adopt(x, "float64", HOMES[name])
    assert native.ctypes.data == values.ctypes.data
    assert not native.flags.writeable


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">c8", ">c16", ">i2", ">u4"])
def test_adopt_makes_foreign_byte_order_native(dtype: str) -> None:
    """DTY01: the byte order is not a value."""
    x = np.arange(5).astype(dtype)
    native = adopt(x, "complex128", HOST)
    assert native.dtype.isnative
    assert np.array_equal(native, np.arange(5))
    assert adopt(x, _arrays.dtype_name(x.dtype), HOST).dtype == x.dtype.newbyteorder("=")


def test_adopt_aligns() -> None:
    buffer = np.zeros(4 * 8 + 1, np.uint8)
    x = buffer[1:].view(np.float64)
    x[:] = [1, 2, 3, 4]
    native = adopt(x, "float64", HOST)
    assert native.flags.aligned
    assert native.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", HOMES)
def test_adopt_casts_to_the_compute_dtype(name: str) -> None:
    x = library(name).make(np.array([1, 0, 3]))
    native = adopt(x, "float32", HOMES[name])
    assert native.dtype == np.float32
    assert native.tolist() == [1, 0, 3]


def test_adopt_resolves_lazy_bits(torch: Any) -> None:
    """DLP03: the memory of a conjugated or negated tensor holds other numbers than the tensor."""
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert z.conj().is_conj()
    assert adopt(z.conj(), "complex64", HOMES["torch"]).tolist() == [1 - 2j, 3 + 4j]
    negated = z.conj().imag
    assert negated.is_neg()
    assert adopt(negated, "float32", HOMES["torch"]).tolist() == [-2, 4]
    matrix = torch.tensor([[1 + 2j, 3j], [4, 5 - 1j]])
    assert adopt(matrix.mH, "complex64", HOMES["torch"]).tolist() == [[1 - 2j, 4], [-3j, 5 + 1j]]
    assert z.tolist() == [1 + 2j, 3 - 4j]


@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_adopt_widens_bfloat16(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.5, -2.25, 1e30]).astype(ml_dtypes.bfloat16)
    x = library(name).make(values)
    assert describe("op", "x", x)[1].dtype == "bfloat16"
    native = adopt(x, "float32", HOMES[name])
    assert native.dtype == np.float32
    assert np.array_equal(native, values.astype(np.float32))


def test_adopt_leaves_no_memory_behind(torch: Any) -> None:
    """DLP01: every import ends with the exporter's deleter, so a thousand of them hold no more than one."""
    import weakref

    buffer = np.zeros((100, 1000))
    alive = weakref.ref(buffer)
    for _ in range(1000):
        adopt(torch.from_numpy(buffer), "float64", HOMES["torch"])
        give_back(adopt(buffer, "float64", HOST), "float64", HOMES["torch"])
    assert sys.getrefcount(buffer) < 10
    del buffer
    assert alive() is None


def test_negative_strides_never_reach_dlpack() -> None:
    """DLP02: torch aborts the process when it is handed one, so this runs in a process of its own."""
    pytest.importorskip("torch")
    code = """
import numpy as np, torch
from spectralops._arrays import HOST, Home, describe
from spectralops._interchange import adopt
x = np.arange(6.0).reshape(2, 3)[:, ::-1]
assert adopt(x, "float64", HOST).strides == x.strides
print(describe("op", "x", x)[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "numpy array on cpu")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", HOMES)
@pytest.mark.parametrize("shape", [(3, 4), (1,), (257,), (0, 3)], ids=str)
def test_give_back_copies_nothing(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    lib, home = library(name), HOMES[name]
    native = _interchange.empty(shape, dtype, home)
    native[...] = 3
    result = give_back(native, dtype, home)
    assert isinstance(result, lib.type)
    assert describe("op", "x", result) == (home, ArraySpec(shape, dtype))
    assert np.array_equal(lib.read(result), native)
    if native.size:
        assert address(result) == native.ctypes.data


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_give_back_rounds_to_sixteen_bits(name: str, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    lib, home = library(name), HOMES[name]
    native = _interchange.empty((3,), "float32", home)
    native[:] = [1.0, 1 / 3, -65000.0]
    result = give_back(native, dtype, home)
    assert isinstance(result, lib.type)
    assert describe("op", "x", result)[1] == ArraySpec((3,), dtype)
    rounded = native.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    assert np.array_equal(lib.read(result).astype(np.float32), rounded.astype(np.float32))


@pytest.mark.parametrize("size", range(1, 9))
def test_empty_for_jax_lies_where_jax_can_use_it(size: int) -> None:
    assert _interchange.empty((size, 3), "complex64", HOMES["jax"]).ctypes.data % 64 == 0


def test_empty_is_contiguous_and_of_the_shape() -> None:
    for home in HOMES.values():
        array = _interchange.empty((2, 3), "float32", home)
        assert (array.shape, array.dtype.name, array.flags.c_contiguous) == ((2, 3), "float32", True)


def test_default_float_follows_the_library(torch: Any, jax: Any) -> None:
    assert _arrays.default_float(HOST) == "float64"
    assert _arrays.default_float(HOMES["array_api_strict"]) == "float64"
    assert _arrays.default_float(HOMES["torch"]) == "float32"
    torch.set_default_dtype(torch.float64)
    try:
        assert _arrays.default_float(HOMES["torch"]) == "float64"
    finally:
        torch.set_default_dtype(torch.float32)
    jax.config.update("jax_enable_x64", False)
    try:
        assert _arrays.default_float(HOMES["jax"]) == "float32"
    finally:
        jax.config.update("jax_enable_x64", True)
    assert _arrays.default_float(HOMES["jax"]) == "float64"


def test_from_host_is_the_same_array_on_the_host() -> None:
    x = np.arange(3.0)
    assert _interchange.from_host(x, HOMES["torch"]) is x


@pytest.mark.parametrize("name", ["numpy", "torch", "array_api_strict"])
def test_adopt_out_is_a_writable_view(name: str) -> None:
    lib = library(name)
    out = lib.make(np.zeros((2, 3)))
    target = adopt_out("op", out, HOMES[name])
    target[1, 2] = 7
    assert lib.read(out).tolist() == [[0, 0, 0], [0, 0, 7]]


def test_adopt_out_refuses_jax(jax: Any) -> None:
    message = r"^op: out is a JAX array, but must be writable, which JAX arrays never are; leave it out$"
    with pytest.raises(TypeError, match=message):
        adopt_out("op", jax.numpy.zeros(3), HOMES["jax"])


@pytest.mark.parametrize("name", ["numpy", "array_api_strict"])
def test_adopt_out_refuses_read_only(name: str) -> None:
    values = np.zeros(3)
    values.flags.writeable = False
    out = values if name == "numpy" else pytest.importorskip(name).asarray(values, copy=False)
    with pytest.raises(ValueError, match=r"^op: out is read-only, but must be writable$"):
        adopt_out("op", out, HOMES[name])


def test_adopt_out_refuses_foreign_byte_order() -> None:
    with pytest.raises(ValueError, match=r"^op: out has dtype >f8, but must be in native byte order$"):
        adopt_out("op", np.zeros(3, ">f8"), HOST)


@pytest.mark.parametrize(
    ("strides", "shape"), [((0, 8), (2, 3)), ((8, 8), (2, 3)), ((8, 16), (3, 3)), ((4,), (3,)), ((-8, 8), (2, 2))]
)
def test_adopt_out_refuses_elements_that_share_memory(strides: tuple[int, ...], shape: tuple[int, ...]) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(64)[8:], shape, strides)
    message = r"^op: out is a view with strides \(.*\), but must have memory of its own for every element$"
    with pytest.raises(ValueError, match=message):
        adopt_out("op", out, HOST)


def test_adopt_out_refuses_expanded_tensors(torch: Any) -> None:
    with pytest.raises(ValueError, match=r"^op: out is a view with strides \(0, 4\), but must have memory of its own"):
        adopt_out("op", torch.zeros(3).expand(2, 3), HOMES["torch"])


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1],
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[1:2, :1],
        lambda x: x[:0],
        lambda x: x[:, None],
    ],
    ids=["reversed", "transposed", "strided", "one", "empty", "new-axis"],
)
def test_adopt_out_takes_any_view_of_its_own_memory(view: Any) -> None:
    out = view(np.zeros((4, 4)))
    assert adopt_out("op", out, HOST).ctypes.data == out.ctypes.data


def test_adopt_out_refuses_lazy_bits(torch: Any) -> None:
    z = torch.zeros(3, dtype=torch.complex64)
    message = r"^op: out is a conjugated or negated view, but must be the tensor that it is a view of$"
    for out in (z.conj(), z.conj().imag):
        with pytest.raises(ValueError, match=message):
            adopt_out("op", out, HOMES["torch"])


def test_overlap() -> None:
    x = np.zeros(10)
    assert _interchange.overlap(x, x[3:4])
    assert not _interchange.overlap(x[:5], x[5:])
    assert not _interchange.overlap(x[::2], x[1::2])


def test_memory_sees_through_lazy_bits_and_storage_types(torch: Any) -> None:
    z = torch.zeros(4, dtype=torch.complex64)
    assert _interchange.memory(z.conj(), HOMES["torch"]).ctypes.data == z.data_ptr()
    b = torch.zeros(4, dtype=torch.bfloat16)
    assert _interchange.memory(b, HOMES["torch"]).ctypes.data == b.data_ptr()


def test_memory_of_jax_bfloat16(jax: Any) -> None:
    b = jax.numpy.zeros(4, "bfloat16")
    assert _interchange.memory(b, HOMES["jax"]).nbytes == 8


def test_on_device_is_nothing_on_the_host() -> None:
    with _interchange.on_device(HOST) as context:
        assert context is None


def test_missing_cupy_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    from spectralops.errors import BackendUnavailableError

    monkeypatch.setitem(sys.modules, "cupy", None)
    message = r'^backend for CUDA arrays needs CuPy; pip install "spectralops\[cuda13\]" \(or \[cuda12\]\)$'
    with pytest.raises(BackendUnavailableError, match=message):
        _interchange.empty((3,), "float32", Home("torch", "cuda:0"))


def planned(x: np.ndarray, compute: str) -> _arrays.Operand:
    return _arrays.Operand("x", _arrays.ArraySpec(x.shape, str(x.dtype)), compute)


def test_arrays_as_planned_are_ready() -> None:
    x = np.ones((3, 4), "float32")
    assert _interchange.ready((planned(x, "float32"),), (x,), "float32")
    assert _interchange.ready((planned(x, "float32"),), (x[:, ::-1],), "float32")
    assert not _interchange.ready((planned(x, "float32"),), (x, x), "float32")
    assert not _interchange.ready((planned(x, "float32"),), (x[1:],), "float32")
    assert not _interchange.ready((planned(x, "float32"),), (x.astype("float64"),), "float32")
    assert not _interchange.ready((planned(x, "float32"),), (x.astype(">f4"),), "float32")
    assert not _interchange.ready((planned(x, "float32"),), (np.ma.MaskedArray(x),), "float32")
    assert not _interchange.ready((planned(x, "float64"),), (x,), "float64")
    assert not _interchange.ready((planned(x.astype("float16"), "float32"),), (x,), "float32")
    assert not _interchange.ready((planned(x, "float32"),), (x,), "float16")
    unaligned = np.frombuffer(b"\0" + x.tobytes(), "float32", offset=1).reshape(3, 4)
    assert not _interchange.ready((planned(x, "float32"),), (unaligned,), "float32")


def test_what_may_be_written_as_it_is() -> None:
    x, out = np.ones((3, 4), "float32"), np.empty((3, 4), "float32")
    locked = out.copy()
    locked.flags.writeable = False
    assert _interchange.takes(out, (3, 4), "float32", (x,))
    assert not _interchange.takes(x[:], (3, 4), "float32", (out, x))
    assert not _interchange.takes(out, (4, 3), "float32", (x,))
    assert not _interchange.takes(out, (3, 4), "float64", (x,))
    assert not _interchange.takes(np.asfortranarray(out), (3, 4), "float32", (x,))
    assert not _interchange.takes(locked, (3, 4), "float32", (x,))
    assert not _interchange.takes(np.ma.MaskedArray(out), (3, 4), "float32", (x,))
