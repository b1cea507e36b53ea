"""Arrays on a device come in without a copy and go out as they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from libraries import library

from spectralops import _arrays, _interchange
from spectralops._arrays import ArraySpec, Home, common_home, describe
from spectralops._interchange import adopt, adopt_out, give_back

DTYPES = ("float16", "float32", "float64", "complex64", "complex128")


GPU = pytest.mark.gpu
CUDA = {"cupy": Home("cupy", "cuda:0"), "torch": Home("torch", "cuda:0")}


def device_address(x: Any) -> int:
    return x.data_ptr() if hasattr(x, "data_ptr") else x.data.ptr


@GPU
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CUDA)
def test_adopt_copies_nothing_on_gpu(name: str, dtype: str, rng: np.random.Generator) -> None:
    cupy = pytest.importorskip("cupy")
    values = rng.standard_normal((3, 4)).astype(dtype)
    x = library(name, "cuda").make(values)
    assert describe("op", "x", x) == (CUDA[name], ArraySpec((3, 4), dtype))
    native = adopt(x, dtype, CUDA[name])
    assert isinstance(native, cupy.ndarray)
    assert native.data.ptr == device_address(x)
    assert np.array_equal(native.get(), values)


@GPU
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_torch_gets_the_memory_back_on_gpu(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    native = _interchange.empty((3, 4), "float32" if dtype in ("float16", "bfloat16") else dtype, CUDA["torch"])
    native[...] = 3
    result = give_back(native, dtype, CUDA["torch"])
    assert describe("op", "x", result) == (CUDA["torch"], ArraySpec((3, 4), dtype))
    assert torch.equal(result.cpu(), torch.full((3, 4), 3, dtype=getattr(torch, dtype)))
    if dtype not in ("float16", "bfloat16"):
        assert result.data_ptr() == native.data.ptr


@GPU
def test_lazy_bits_on_gpu() -> None:
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 4j], device="cuda")
    assert adopt(z.conj(), "complex64", CUDA["torch"]).tolist() == [1 - 2j, 3 + 4j]
    assert adopt(z.conj().imag, "float32", CUDA["torch"]).tolist() == [-2, 4]
    bfloat16 = torch.tensor([1.5, -2.0], device="cuda", dtype=torch.bfloat16)
    assert adopt(bfloat16, "float32", CUDA["torch"]).tolist() == [1.5, -2.0]


@GPU
@pytest.mark.parametrize("name", CUDA)
def test_out_rules_on_gpu(name: str) -> None:
    lib = library(name, "cuda")
    out = lib.make(np.zeros((2, 3), np.float32))
    target = adopt_out("op", out, CUDA[name])
    target[1, 2] = 7
    assert lib.read(out).tolist() == [[0, 0, 0], [0, 0, 7]]
    assert _interchange.overlap(target, _interchange.memory(out, CUDA[name]))
    other = lib.make(np.zeros((2, 3), np.float32))
    assert not _interchange.overlap(target, _interchange.memory(other, CUDA[name]))


@GPU
def test_bfloat16_out_on_gpu() -> None:
    torch = pytest.importorskip("torch")
    out = torch.zeros(3, device="cuda", dtype=torch.bfloat16)
    assert adopt_out("op", out, CUDA["torch"]).data.ptr == out.data_ptr()


@GPU
def test_arrays_of_two_devices_are_refused() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one CUDA device")
    with cupy.cuda.Device(1):
        far = cupy.ones(3)
    homes = {"x": describe("op", "x", cupy.ones(3))[0], "y": describe("op", "y", far)[0]}
    message = r"^op: y is a cupy array on cuda:1, but must be a cupy array on cuda:0 like x; "
    with pytest.raises(TypeError, match=message):
        common_home("op", homes)


@GPU
def test_torch_stream_becomes_current() -> None:
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    stream = torch.cuda.Stream()
    before = cupy.cuda.get_current_stream().ptr
    with torch.cuda.stream(stream), _interchange.on_device(CUDA["torch"]):
        assert cupy.cuda.get_current_stream().ptr == stream.cuda_stream
    assert cupy.cuda.get_current_stream().ptr == before


def test_describe_refuses_ragged_sequences() -> None:
    message = "^op: x is a ragged list, but must be an array or numbers that fill one$"
    with pytest.raises(ValueError, match=message):
        describe("op", "x", [[1.0, 2.0], [3.0]])


@pytest.mark.parametrize(
    "x", [np.array(["a"]), np.zeros(2, "f4,f4"), np.array(["2020"], "M8[D]")], ids=["string", "record", "date"]
)
def test_describe_names_dtypes_that_nothing_computes_in(x: np.ndarray[Any, Any]) -> None:
    """Each has a name for the message that refuses it, though NumPy does not read every such name back."""
    spec = describe("op", "x", x)[1]
    assert _arrays.dtype_name(spec.dtype) == spec.dtype
