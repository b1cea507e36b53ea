"""What arrays of every library are: library, device, shape and dtype; and what is no array."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from libraries import HOMES, library

from spectralops import _arrays
from spectralops._arrays import HOST, ArraySpec, Home, common_home, describe


@pytest.fixture
def strict() -> Any:
    return pytest.importorskip("array_api_strict")


@pytest.mark.parametrize("name", HOMES)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32", "bool"])
def test_describe_names_library_device_shape_and_dtype(name: str, dtype: str) -> None:
    x = library(name).make(np.zeros((2, 3), dtype))
    assert describe("op", "x", x) == (HOMES[name], ArraySpec((2, 3), dtype))
    assert type(describe("op", "x", x)[1].shape) is tuple


@pytest.mark.parametrize("value", [[1.0, 2.0], (1.0, 2.0), [[1, 2], [3, 4]], 3, 2.5, 1j, np.float32(2), True])
def test_describe_takes_numbers_as_numpy(value: object) -> None:
    array = np.asarray(value)
    assert describe("op", "x", value) == (HOST, ArraySpec(array.shape, array.dtype.name))


@pytest.mark.parametrize(
    ("value", "kind"), [("abc", "str"), (b"abc", "bytes"), (None, "NoneType"), ({1: 2}, "dict"), (object(), "object")]
)
def test_describe_refuses_what_is_no_array(value: object, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"^op: x is a {kind}, but must be an array$"):
        describe("op", "x", value)


def test_describe_refuses_masked_arrays() -> None:
    x = np.ma.masked_array([1.0, 2.0], [False, True])
    message = r"^op: x is a numpy.ma.MaskedArray, but must be a plain array; fill it, e.g. x.filled\(numpy.nan\)$"
    with pytest.raises(TypeError, match=message):
        describe("op", "x", x)


def test_describe_refuses_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    message = r"^op: x is a xarray DataArray, but must be an in-memory array; pass x.data$"
    with pytest.raises(TypeError, match=message):
        describe("op", "x", xarray.DataArray([1.0, 2.0]))


def test_describe_refuses_dask() -> None:
    dask = pytest.importorskip("dask.array")
    message = r"^op: x is a dask Array, but must be an in-memory array; call .compute\(\) first$"
    with pytest.raises(TypeError, match=message):
        describe("op", "x", dask.ones(3))


def test_describe_refuses_sparse_and_meta_tensors(torch: Any) -> None:
    with pytest.raises(TypeError, match=r"^op: x is a torch.strided tensor on meta, but must be a strided tensor on "):
        describe("op", "x", torch.zeros(3, device="meta"))
    with pytest.raises(TypeError, match=r"^op: x is a torch.sparse_coo tensor on cpu, but must be a strided tensor"):
        describe("op", "x", torch.eye(3).to_sparse())


def test_describe_refuses_gradients(torch: Any) -> None:
    x = torch.zeros(3, requires_grad=True)
    message = (
        r"^op: x requires grad, but must not, since this function is not differentiable; "
        r"take one of spectralops.torch, pass x.detach\(\) or call it under torch.no_grad\(\)$"
    )
    with pytest.raises(TypeError, match=message):
        describe("op", "x", x)
    assert describe("op", "x", x.detach()) == (HOMES["torch"], ArraySpec((3,), "float32"))
    with torch.no_grad():
        assert describe("op", "x", x) == (HOMES["torch"], ArraySpec((3,), "float32"))


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_describe_refuses_jax_tracers(jax: Any, transform: str) -> None:
    def function(x: Any) -> Any:
        describe("op", "x", x)
        return x.sum()

    message = r"^op: x is a JAX tracer, but must be a concrete array; call it outside jit, grad and vmap"
    with pytest.raises(TypeError, match=message):
        getattr(jax, transform)(function)(jax.numpy.ones((2, 3)) if transform == "vmap" else jax.numpy.ones(3))


@pytest.mark.parametrize("device", ["device1", "no_float64"])
def test_describe_refuses_other_devices_of_host_libraries(strict: Any, device: str) -> None:
    x = strict.asarray([1, 2], device=strict.Device(device))
    message = (
        rf"^op: x is a array_api_strict array on .*{device}.*, "
        r"but must lie on its library's default device on the host$"
    )
    with pytest.raises(TypeError, match=message):
        describe("op", "x", x)


def test_describe_refuses_sharded_jax_arrays() -> None:
    """Two devices of a host need a flag before JAX starts, hence the process of its own."""
    pytest.importorskip("jax")
    code = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
from spectralops._arrays import describe
mesh = jax.sharding.Mesh(jax.devices(), "i")
x = jax.device_put(jax.numpy.ones(4), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i")))
try:
    describe("op", "x", x)
except TypeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "op: x is a JAX array on 2 devices, but must lie on one; gather it first"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("float32", "float32"),
        (np.float64, "float64"),
        (float, "float64"),
        (bool, "bool"),
        (None, "None"),
        (np.dtype(">f4"), "float32"),
        (np.dtype("longdouble"), np.dtype("longdouble").name),
        (np.dtype("U3"), "str96"),
        (np.dtype(object), "object"),
    ],
    ids=str,
)
def test_dtype_name(value: object, name: str) -> None:
    assert _arrays.dtype_name(value) == name


def test_dtype_name_of_other_libraries(torch: Any, strict: Any) -> None:
    assert _arrays.dtype_name(torch.bfloat16) == "bfloat16"
    assert _arrays.dtype_name(torch.complex64) == "complex64"
    assert _arrays.dtype_name(strict.float32) == "float32"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.ones(3), True),
        (np.ones((0, 3)), True),
        (np.float32(2), False),
        (np.array(2.0), False),
        (0.5, False),
        ([1.0, 2.0], False),
        ("abc", False),
        (None, False),
    ],
    ids=str,
)
def test_is_array(value: object, expected: bool) -> None:
    assert _arrays.is_array(value) is expected


@pytest.mark.parametrize("name", HOMES)
def test_is_array_in_every_library(name: str) -> None:
    lib = library(name)
    assert _arrays.is_array(lib.make(np.ones(2)))
    assert not _arrays.is_array(lib.make(np.array(2.0)))


def test_home_says_what_and_where() -> None:
    assert str(Home("torch", "cuda:1")) == "torch array on cuda:1"
    assert Home("torch", "cuda:1").kind == "cuda"
    assert HOST.kind == "cpu"


def test_common_home_names_both_sides() -> None:
    assert common_home("op", {"x": HOST, "y": HOST}) == HOST
    message = r"^op: y is a torch array on cpu, but must be a numpy array on cpu like x; move one of them explicitly$"
    with pytest.raises(TypeError, match=message):
        common_home("op", {"x": HOST, "y": HOMES["torch"]})
    message = r"^op: z is a cupy array on cuda:1, but must be a cupy array on cuda:0 like x; "
    with pytest.raises(TypeError, match=message):
        common_home("op", {"x": Home("cupy", "cuda:0"), "y": Home("cupy", "cuda:0"), "z": Home("cupy", "cuda:1")})
