"""Arrays that executors take as they are stored in 16 bits: float16, and bfloat16 as its bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import FakePlan, install, plan_for
from libraries import library

from spectralops import _arrays, _dispatch, _interchange, _sixteen_bits, _support
from spectralops._arrays import ArraySpec, Home, Operand
from spectralops._dispatch import execute
from spectralops._support import passed

ml_dtypes = pytest.importorskip("ml_dtypes")
VALUES = np.array([0.1, 1.0, -3.0, 1e4, np.inf]).astype(ml_dtypes.bfloat16)
BITS = VALUES.view(np.int16)
LIBRARIES = ("numpy", "torch", "jax")


@pytest.mark.parametrize("name", LIBRARIES)
def test_bfloat16_is_adopted_as_its_bits(name: str) -> None:
    x = library(name).make(VALUES)
    native = _interchange.adopt(x, "bfloat16", Home(name, "cpu"))
    assert isinstance(native, np.ndarray)
    assert native.dtype == np.int16
    assert np.array_equal(native, BITS)
    if name != "jax":  # whose views are copies
        assert native.ctypes.data == _interchange.memory(x, Home(name, "cpu")).ctypes.data


def test_lazy_bits_of_a_tensor_are_resolved() -> None:
    torch = pytest.importorskip("torch")
    x = torch._neg_view(torch.ones(2, dtype=torch.bfloat16))
    assert _interchange.adopt(x, "bfloat16", Home("torch", "cpu")).tolist() == [-0x4080] * 2


def test_bits_at_odd_addresses_are_copied() -> None:
    x = np.frombuffer(b"\0" + VALUES.tobytes(), np.uint8)[1:].view(ml_dtypes.bfloat16)
    native = _interchange.adopt(x, "bfloat16", Home("numpy", "cpu"))
    assert native.flags.aligned
    assert np.array_equal(native, BITS)


@pytest.mark.parametrize("name", LIBRARIES)
def test_bits_are_given_back_as_bfloat16(name: str) -> None:
    lib = library(name)
    result = _interchange.give_back(BITS.copy(), "bfloat16", Home(name, "cpu"))
    assert isinstance(result, lib.type)
    assert _arrays.dtype_name(result.dtype) == "bfloat16"
    assert np.array_equal(lib.read(result).astype(np.float32), VALUES.astype(np.float32))


def test_float16_is_given_back_without_a_copy() -> None:
    x = np.ones(3, np.float16)
    assert _interchange.give_back(x, "float16", _arrays.HOST) is x


def test_room_for_bfloat16_is_room_for_its_bits() -> None:
    assert _interchange.empty((2, 3), "bfloat16", _arrays.HOST).dtype == np.int16


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_bits_are_stored_as_they_are(name: str) -> None:
    lib, home = library(name), Home(name, "cpu")
    out = lib.make(np.zeros(2 * VALUES.size, VALUES.dtype))[::2]
    _interchange.store(BITS, out, _sixteen_bits.bits(_interchange.adopt_out("op", out, home)), home)
    assert np.array_equal(lib.read(out).astype(np.float32), VALUES.astype(np.float32))


@pytest.mark.parametrize(
    ("native", "dtype", "expected"),
    [
        (BITS, "bfloat16", VALUES.astype(np.float32)),
        (np.ones(2, np.float16), "float16", np.ones(2, np.float32)),
        (BITS, "int16", BITS),
        (np.ones(2, np.float32), "bfloat16", np.ones(2, np.float32)),
    ],
    ids=["bits", "float16", "integers", "widened already"],
)
def test_numbers_of_stored_values(native: np.ndarray, dtype: str, expected: np.ndarray) -> None:
    found = _sixteen_bits.widened(native, dtype)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def plan(dtypes: tuple[str, ...], computes: tuple[str, ...], out: str) -> FakePlan:
    operands = [Operand(name, ArraySpec((3,), d), c) for name, d, c in zip("xyz", dtypes, computes, strict=False)]
    return FakePlan(tuple(operands), (3,), out)


SINGLE, HALF, BRAIN = "float32", "float16", "bfloat16"


@pytest.mark.parametrize(
    ("stored", "dtypes", "computes", "out", "expected"),
    [
        (0, (HALF,), (SINGLE,), HALF, ([SINGLE], SINGLE)),
        (1, (HALF,), (SINGLE,), HALF, ([HALF], HALF)),
        (1, (SINGLE,), (SINGLE,), SINGLE, ([SINGLE], SINGLE)),
        (1, ("int16",), ("float64",), "float64", (["float64"], "float64")),
        (1, (BRAIN, BRAIN), (SINGLE, SINGLE), BRAIN, ([BRAIN, SINGLE], BRAIN)),
        (2, (BRAIN, BRAIN), (SINGLE, SINGLE), BRAIN, ([BRAIN, BRAIN], BRAIN)),
        (2, (BRAIN, HALF), (SINGLE, SINGLE), SINGLE, ([SINGLE, SINGLE], SINGLE)),
        (2, (HALF, SINGLE), (SINGLE, SINGLE), SINGLE, ([SINGLE, SINGLE], SINGLE)),
        (2, (HALF, HALF), (SINGLE, SINGLE), "complex64", ([HALF, HALF], "complex64")),
        (2, (HALF, HALF), ("complex64", SINGLE), "complex64", (["complex64", SINGLE], "complex64")),
        (_support.EACH, (HALF, BRAIN, SINGLE), (SINGLE, "float64", "float64"), HALF, ([HALF, BRAIN, "float64"], HALF)),
        (_support.EACH, (SINGLE, HALF, "bool"), (SINGLE, SINGLE, "bool"), SINGLE, ([SINGLE, HALF, "bool"], SINGLE)),
        (
            2, (HALF, HALF, "complex64"), (SINGLE, SINGLE, "complex64"), "complex64",
            ([SINGLE, SINGLE, "complex64"], "complex64"),
        ),
    ],
)  # fmt: skip
def test_what_is_passed_in_16_bits(
    stored: int, dtypes, computes, out: str, expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = _support.Support("spectralops._fake", _support.ALL, stored=stored)
    monkeypatch.setitem(_support.SUPPORT, ("fake", "cpu"), row)
    assert passed(plan(dtypes, computes, out)) == expected


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_executors_read_and_write_what_is_stored(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def spy(plan: Any, x: Any, *, out: Any, workers: int) -> None:
        seen.append((x.dtype.name, out.dtype.name))
        out[...] = x

    install(monkeypatch, spy)
    row = _support.Support("spectralops._fake", _support.ALL, stored=1)
    monkeypatch.setitem(_support.SUPPORT, ("fake", "cpu"), row)
    lib = library(name)
    values = VALUES.astype(_sixteen_bits.numpy_dtype(dtype))
    x = lib.make(values)
    observed: list[Any] = []
    with _dispatch.observe(lambda plan, arrays, result: observed.append((arrays[0].dtype, result.dtype))):
        result = execute(plan_for(x), (x,))
    assert _arrays.dtype_name(result.dtype) == dtype
    assert np.array_equal(lib.read(result).astype(np.float32), values.astype(np.float32))
    kind = HALF if dtype == HALF else "int16"
    assert seen == [(kind, kind)]
    assert observed == [(np.float32, np.float32)]
    if name == "jax":
        return
    whole = lib.make(np.zeros_like(values))
    spaced = lib.make(np.zeros(2 * values.size, values.dtype))[::2]
    for out in (whole, spaced):
        assert execute(plan_for(x), (x,), out=out) is out
        assert np.array_equal(lib.read(out).astype(np.float32), values.astype(np.float32))
