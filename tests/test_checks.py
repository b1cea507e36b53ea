"""Canonical arguments: every form that is accepted, and the whole message of every refusal."""

from __future__ import annotations

import math
import os
import re
from typing import Any

import numpy as np
import pytest

from spectralops import _checks


def refuses(error: type[Exception], message: str) -> Any:
    """The call must raise exactly this message."""
    return pytest.raises(error, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("value", [(3, 4), [3, 4], np.array([3, 4], np.int32), (np.int64(3), np.uint8(4))], ids=str)
def test_shape_is_a_tuple_of_python_ints(value: Any) -> None:
    """BIG03: sizes that come as int32 must not overflow in products."""
    result = _checks.shape("op", value)
    assert result == (3, 4)
    assert [type(n) for n in result] == [int, int]


def test_shape_takes_one_number_and_zero() -> None:
    assert _checks.shape("op", 5) == (5,)
    assert _checks.shape("op", (0, 2)) == (0, 2)
    assert _checks.shape("op", ()) == ()


def test_shape_refusals() -> None:
    with refuses(TypeError, "op: shape is (2.5, 3), but must be integers"):
        _checks.shape("op", (2.5, 3))
    with refuses(TypeError, "op: out_shape is None, but must be integers"):
        _checks.shape("op", None, "out_shape")
    with refuses(TypeError, "op: shape is '34', but must be integers"):
        _checks.shape("op", "34")
    with refuses(ValueError, "op: shape is (3, -1), but must not be negative"):
        _checks.shape("op", (3, -1))


@pytest.mark.parametrize(
    ("value", "ndim", "expected"),
    [
        (None, 1, (0,)),
        (None, 2, (0, 1)),
        (None, 4, (2, 3)),
        (-1, 3, (2,)),
        (0, 3, (0,)),
        ((-1, 0), 3, (2, 0)),
        ([1, -1], 3, (1, 2)),
        (np.int64(1), 2, (1,)),
        (np.array([0, 1]), 2, (0, 1)),
    ],
    ids=str,
)
def test_axes(value: Any, ndim: int, expected: tuple[int, ...]) -> None:
    assert _checks.axes("op", value, ndim) == expected


@pytest.mark.parametrize(
    ("counts", "ndim", "expected"),
    [
        ({"dx": 3}, 4, (1, 2, 3)),
        ({"dx": 1}, 4, (3,)),
        ({"dx": None}, 4, (2, 3)),
        ({"dx": None, "velocity": 1}, 2, (1,)),
        ({"dx": 2, "velocity": 2}, 3, (1, 2)),
        ({}, 3, (1, 2)),
    ],
    ids=str,
)
def test_axes_are_counted_by_other_arguments(counts: Any, ndim: int, expected: tuple[int, ...]) -> None:
    assert _checks.axes("op", None, ndim, counts) == expected


def test_axes_refusals() -> None:
    with refuses(TypeError, "op: axes is 1.5, but must be integers"):
        _checks.axes("op", 1.5, 2)  # type: ignore[arg-type]
    with refuses(TypeError, "op: axes is (0, 'y'), but must be integers"):
        _checks.axes("op", (0, "y"), 2)  # type: ignore[arg-type]
    with refuses(ValueError, "op: axes is empty, but must name at least one axis"):
        _checks.axes("op", (), 2)
    with refuses(ValueError, "op: axes has 2, but must lie in [-2, 2) for x with 2 dimensions"):
        _checks.axes("op", 2, 2)
    with refuses(ValueError, "op: axes has -3, but must lie in [-2, 2) for u with 2 dimensions"):
        _checks.axes("op", (0, -3), 2, array="u")
    with refuses(ValueError, "op: axes is (1, -1), but must not name an axis twice"):
        _checks.axes("op", (1, -1), 2)
    with refuses(ValueError, "op: x has 0 dimensions, but must have at least 1 to match axes"):
        _checks.axes("op", None, 0)
    with refuses(ValueError, "op: u has 1 dimensions, but must have at least 2 to match dx"):
        _checks.axes("op", None, 1, {"dx": 2}, array="u")
    with refuses(ValueError, "op: x has 2 dimensions, but must have at least 1 to match dx"):
        _checks.axes("op", None, 2, {"dx": 0})


def test_axes_name_both_readings() -> None:
    message = (
        "op: dx has 1 entries and velocity has 2, but both must have one per axis; "
        "pass axes=(-1,) or axes=(-2, -1) and make them agree"
    )
    with refuses(ValueError, message):
        _checks.axes("op", None, 3, {"dx": 1, "bc": None, "velocity": 2})
    message = "op: dx has 3 entries, but must have 2, one per axis of axes=(0, 1)"
    with refuses(ValueError, message):
        _checks.axes("op", (0, 1), 3, {"velocity": 2, "dx": 3})


@pytest.mark.parametrize(("value", "count"), [(0.5, None), ((1, 2), 2), ([1], 1), ("ab", None), (np.float32(1), None)])
def test_entries(value: Any, count: int | None) -> None:
    assert _checks.entries(value) == count


def test_per_axis() -> None:
    assert _checks.per_axis("op", "dx", 0.5, 3) == (0.5, 0.5, 0.5)
    assert _checks.per_axis("op", "dx", [1.0, 2.0], 2) == (1.0, 2.0)
    with refuses(ValueError, "op: dx has 3 entries, but must have 2, one per axis"):
        _checks.per_axis("op", "dx", (1.0, 2.0, 3.0), 2)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.array(2.0), np.array(2)])
def test_number_is_a_python_float(value: Any) -> None:
    """DTY08: a coefficient of any kind gives the same number."""
    for check in (_checks.number, _checks.positive, _checks.nonnegative):
        result = check("op", "dt", value)
        assert result == 2.0
        assert type(result) is float


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_number_takes_zero_dimensional_arrays_of_any_library(library: str) -> None:
    xp = pytest.importorskip(library)
    assert _checks.number("op", "dt", xp.asarray(0.25)) == 0.25


@pytest.mark.parametrize("zero", [-0.0, np.float32(-0.0)])
def test_zeros_of_both_signs_are_one_number(zero: Any) -> None:
    """Plans that are kept are found by either, and must not depend on which came first."""
    assert not np.signbit(_checks.number("op", "nu", zero))


def test_number_refusals() -> None:
    with refuses(TypeError, "op: dt is a str, but must be a real number"):
        _checks.number("op", "dt", "0.1")
    with refuses(TypeError, "op: dt is a bytes, but must be a real number"):
        _checks.number("op", "dt", b"0.1")
    with refuses(TypeError, "op: dt is a ndarray, but must be a real number"):
        _checks.number("op", "dt", np.ones(1))
    with refuses(TypeError, "op: dt is None, but must be a real number"):
        _checks.number("op", "dt", None)
    with refuses(TypeError, "op: dt is 1j, but must be a real number"):
        _checks.number("op", "dt", 1j)
    with refuses(ValueError, "op: dt is nan, but must be finite"):
        _checks.number("op", "dt", float("nan"))
    with refuses(ValueError, "op: dt is -inf, but must be finite"):
        _checks.number("op", "dt", -np.inf)


def test_number_does_not_drop_an_imaginary_part() -> None:
    for value in (np.complex128(1 + 2j), np.array(1 + 2j)):
        with refuses(TypeError, f"op: dt is {value!r}, but must be a real number"):
            _checks.number("op", "dt", value)


def test_positive_and_nonnegative() -> None:
    assert _checks.nonnegative("op", "nu", 0) == 0.0
    with refuses(ValueError, "op: dt is 0.0, but must be positive"):
        _checks.positive("op", "dt", 0)
    with refuses(ValueError, "op: dt is -1.0, but must be positive"):
        _checks.positive("op", "dt", -1)
    with refuses(ValueError, "op: nu is -0.5, but must not be negative"):
        _checks.nonnegative("op", "nu", -0.5)
    with refuses(ValueError, "op: nu is nan, but must be finite"):
        _checks.nonnegative("op", "nu", float("nan"))


def test_choice() -> None:
    assert _checks.choice("op", "mode", "same", ("full", "same", "valid")) == "same"
    with refuses(ValueError, "op: mode is 'sam', but must be 'full', 'same' or 'valid'"):
        _checks.choice("op", "mode", "sam", ("full", "same", "valid"))
    with refuses(TypeError, "op: mode is a int, but must be 'full', 'same' or 'valid'"):
        _checks.choice("op", "mode", 1, ("full", "same", "valid"))
    with refuses(ValueError, "op: mode is 'x', but must be 'y'"):
        _checks.choice("op", "mode", "x", ("y",))
    with refuses(ValueError, "op: mode is 'x', but must be 'y' or 'z'"):
        _checks.choice("op", "mode", "x", ("y", "z"))


KNOWN = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
EXACT = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("name", [n for n in KNOWN + EXACT if n != "bfloat16"])
def test_dtype(name: str) -> None:
    assert _checks.dtype("op", np.dtype(name)) == name
    assert _checks.dtype("op", name) == name


def test_dtype_knows_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    torch = pytest.importorskip("torch")
    assert _checks.dtype("op", np.dtype(ml_dtypes.bfloat16)) == "bfloat16"
    assert _checks.dtype("op", torch.bfloat16) == "bfloat16"
    assert _checks.inexact_dtype("op", torch.bfloat16) == "bfloat16"


@pytest.mark.parametrize(
    "value", [np.dtype(object), np.dtype("U3"), np.dtype("S3"), np.dtype("M8[s]"), np.dtype("m8[s]"), np.dtype("V4")]
)
def test_dtype_refuses_what_is_no_number(value: np.dtype) -> None:
    message = (
        f"op: u has dtype {value.name}, but must be float16, bfloat16, float32, float64, complex64, complex128, "
        "integer or bool; convert it first"
    )
    with refuses(TypeError, message):
        _checks.dtype("op", value, "u")


@pytest.mark.skipif(np.dtype("longdouble") == np.dtype("float64"), reason="longdouble is double here")
@pytest.mark.parametrize("value", ["longdouble", "clongdouble"])
def test_dtype_refuses_longdouble(value: str) -> None:
    with pytest.raises(TypeError, match=rf"^op: x has dtype {np.dtype(value).name}, but must be float16, "):
        _checks.dtype("op", np.dtype(value))


def test_dtype_refuses_complex32() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^op: x has dtype complex32, but must be float16, "):
        _checks.dtype("op", torch.complex32)


@pytest.mark.parametrize("name", EXACT)
def test_integers_become_the_default_float(name: str) -> None:
    assert _checks.inexact_dtype("op", name) == "float64"
    assert _checks.inexact_dtype("op", name, default="float32") == "float32"


@pytest.mark.parametrize("name", [n for n in KNOWN if n != "bfloat16"])
def test_inexact_dtypes_are_kept(name: str) -> None:
    assert _checks.inexact_dtype("op", name, default="float32") == name


def test_inexact_dtype_names_the_argument() -> None:
    with pytest.raises(TypeError, match=r"^op: H has dtype object, "):
        _checks.inexact_dtype("op", np.dtype(object), "H")


@pytest.mark.parametrize(
    ("name", "compute", "real", "complex_"),
    [
        ("float16", "float32", "float16", "complex64"),
        ("bfloat16", "float32", "bfloat16", "complex64"),
        ("float32", "float32", "float32", "complex64"),
        ("float64", "float64", "float64", "complex128"),
        ("complex64", "complex64", "float32", "complex64"),
        ("complex128", "complex128", "float64", "complex128"),
    ],
)
def test_related_dtypes(name: str, compute: str, real: str, complex_: str) -> None:
    assert _checks.compute_dtype(name) == compute
    assert _checks.real_dtype(name) == real
    assert _checks.complex_dtype(name) == complex_


CORES = 6


@pytest.fixture
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: CORES)


@pytest.mark.usefixtures("six_cores")
@pytest.mark.parametrize(
    ("value", "count"), [(None, 1), (1, 1), (4, 4), (100, 100), (np.int64(2), 2), (-1, 6), (-2, 5), (-6, 1)]
)
def test_workers(value: Any, count: int) -> None:
    assert _checks.workers("op", value) == count


@pytest.mark.usefixtures("six_cores")
@pytest.mark.parametrize("value", [0, -7])
def test_workers_out_of_range(value: int) -> None:
    message = f"op: workers is {value}, but must be at least 1, or negative down to -6 to count from 6 cores"
    with refuses(ValueError, message):
        _checks.workers("op", value)


def test_workers_refusals() -> None:
    with refuses(TypeError, "op: workers is 1.5, but must be an integer"):
        _checks.workers("op", 1.5)  # type: ignore[arg-type]
    with refuses(ValueError, "op: workers is 2, but must be None for arrays on a GPU, where it has no effect"):
        _checks.workers("op", 2, "cuda")
    assert _checks.workers("op", None, "cuda") == 1


def test_workers_without_a_known_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert _checks.workers("op", -1) == 1


@pytest.mark.parametrize(
    ("shapes", "bits"),
    [
        ((), 32),
        (((3, 4),), 32),
        (((2**31 - 1,),), 32),
        (((2**31,),), 64),
        (((2**16, 2**16),), 64),
        (((3,), (2**20, 2**11)), 64),
        (((0, 2**40),), 32),
    ],
)
def test_index_bits(shapes: tuple[tuple[int, ...], ...], bits: int) -> None:
    assert _checks.index_bits(*shapes) == bits


@pytest.mark.parametrize(
    ("shape", "dtype", "size"),
    [
        ((3, 4), "float32", 48),
        ((3,), "float16", 6),
        ((3,), "bfloat16", 6),
        ((5,), "bool", 5),
        ((2,), "complex128", 32),
        ((0, 4), "float64", 0),
        ((), "float64", 8),
        ((2**14, 2**14), "complex128", 4294967296),
    ],
)
def test_nbytes(shape: tuple[int, ...], dtype: str, size: int) -> None:
    """BIG03: the number of bytes is a Python integer that does not wrap."""
    assert _checks.nbytes(shape, dtype) == size


@pytest.mark.parametrize("value", [np.array(1), np.int64(1)], ids=["0-d array", "scalar"])
def test_a_lone_integer_of_any_kind_is_one_entry(value: Any) -> None:
    assert _checks.axes("op", value, 3) == (1,)
    assert _checks.shape("op", value) == (1,)


@pytest.mark.parametrize("value", [np.array(1.0), b"x", {1}, {1: 2}], ids=["0-d array", "bytes", "set", "dict"])
def test_what_has_no_order_or_no_integers_is_no_list_of_sizes(value: Any) -> None:
    with refuses(TypeError, f"op: axes is {value!r}, but must be integers"):
        _checks.axes("op", value, 3)
    with refuses(TypeError, f"op: shape is {value!r}, but must be integers"):
        _checks.shape("op", value)


def test_bytes_are_not_one_number_per_axis() -> None:
    assert _checks.entries(b"xy") is None


def test_messages_stay_on_one_line() -> None:
    with refuses(TypeError, "op: axes is a ndarray, but must be integers"):
        _checks.axes("op", np.zeros((2, 2)), 3)
    with refuses(TypeError, "op: out_shape is a list, but must be integers"):
        _checks.shape("op", ["a" * 100], "out_shape")
    with pytest.raises(TypeError, match=r"^op: x has dtype a ndarray, but must be float16, [^\n]*$"):
        _checks.dtype("op", np.zeros((2, 2)))


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_beyond_every_float_is_infinite(sign: int) -> None:
    with refuses(ValueError, f"op: dt is {sign * math.inf}, but must be finite"):
        _checks.number("op", "dt", sign * 10**400)


@pytest.mark.parametrize("value", [np.array("1.5"), np.str_("1.5"), np.timedelta64(1, "s")], ids=["0-d", "str", "time"])
def test_number_takes_no_strings_and_no_spans_of_time(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^op: dt is .*, but must be a real number$"):
        _checks.number("op", "dt", value)


@pytest.mark.parametrize("name", ["str32", "void64", "complex32", "float8_e4m3fn", "nonsense"])
def test_dtype_refuses_names_that_numpy_does_not_know(name: str) -> None:
    with pytest.raises(TypeError, match=f"^op: x has dtype {name}, but must be float16, .*; convert it first$"):
        _checks.dtype("op", name)
