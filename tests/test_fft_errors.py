"""What spectralops.fft refuses, in which words, on every library."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
import scipy.fft
from fft_cases import FOURIER, HOST_LIBRARIES, MANY, ONE, REAL_INPUT, TRIGONOMETRIC, open_library

import spectralops.fft as fft
from spectralops.errors import UnsupportedError

OTHERS = tuple(name for name in HOST_LIBRARIES if name != "numpy")
NAMES = {"pretended-cupy": "cupy"}


def refuses(error: type[Exception], message: str) -> Any:
    return pytest.raises(error, match=f"^{re.escape(message)}$")


# The operator, the shape of x, the arguments, and what the message says after the operator's name.
FAULTS = [
    ("fft", (2, 3), {"axis": 2}, "axis is 2, but must lie in [-2, 2) for x with 2 dimensions"),
    ("irfft", (2, 3), {"axis": -3}, "axis is -3, but must lie in [-2, 2) for x with 2 dimensions"),
    ("dct", (3,), {"axis": 1}, "axis is 1, but must lie in [-1, 1) for x with 1 dimensions"),
    ("fftshift", (2, 3), {"axes": 2}, "axes has 2, but must lie in [-2, 2) for x with 2 dimensions"),
    ("ifftshift", (3,), {"axes": (0, -2)}, "axes has -2, but must lie in [-1, 1) for x with 1 dimensions"),
    ("fft", (), {}, "x has 0 dimensions, but must have at least 1"),
    ("rfft", (3,), {"n": 0}, "n is 0, but must be at least 1"),
    ("hfft", (3,), {"n": -1}, "n is -1, but must be at least 1"),
    ("dst", (3,), {"n": 0}, "n is 0, but must be at least 1"),
    ("fft", (2, 0), {}, "the length of axis 1 is 0, but must be at least 1; or pass n"),
    ("rfft", (0, 2), {"axis": 0}, "the length of axis 0 is 0, but must be at least 1; or pass n"),
    ("irfft", (4, 1), {}, "the length of axis 1 is 1, but must be at least 2; or pass n"),
    ("irfft", (4, 0), {}, "the length of axis 1 is 0, but must be at least 2; or pass n"),
    ("dct", (2, 0), {}, "the length of axis 1 is 0, but must be at least 1; or pass n"),
    ("fftn", (0, 4), {}, "the length of axis 0 is 0, but must be at least 1; or pass s"),
    ("rfft2", (3, 0), {}, "the length of axis 1 is 0, but must be at least 1; or pass s"),
    ("irfftn", (4, 1), {}, "the length of axis 1 is 1, but must be at least 2; or pass s"),
    ("hfft2", (1, 4), {"axes": (1, 0)}, "the length of axis 0 is 1, but must be at least 2; or pass s"),
    ("fftn", (3, 4), {"axes": (0, 2)}, "axes has 2, but must lie in [-2, 2) for x with 2 dimensions"),
    ("rfftn", (3, 4), {"axes": (0, -2)}, "axes is (0, -2), but must not name an axis twice"),
    ("idctn", (3, 4), {"axes": (0, 0)}, "axes is (0, 0), but must not name an axis twice"),
    ("fftn", (3, 4), {"s": (2, 2, 2)}, "s has 3 entries, but must have at most 2 for x with 2 dimensions"),
    ("fft2", (3, 4), {"s": (2,)}, "s has 1 entries, but must have 2, one per axis of axes=(0, 1)"),
    ("ifftn", (3, 4), {"s": (2, 3), "axes": (1,)}, "s has 2 entries, but must have 1, one per axis of axes=(1,)"),
    ("fftn", (3, 4), {"s": (0, 2)}, "s is (0, 2), but must be at least 1 along each axis"),
    ("irfft2", (3, 4), {"s": (3, -2)}, "s is (3, -2), but must be at least 1 along each axis"),
    ("dctn", (3, 4), {"s": (3, 0)}, "s is (3, 0), but must be at least 1 along each axis"),
    ("rfftn", (3, 4), {"axes": ()}, "axes is empty, but must name at least one axis"),
    ("irfftn", (), {}, "axes is empty, but must name at least one axis"),
    ("fft", (3,), {"norm": "unit"}, "norm is 'unit', but must be 'backward', 'ortho' or 'forward'"),
    ("irfft2", (3, 4), {"norm": ""}, "norm is '', but must be 'backward', 'ortho' or 'forward'"),
    ("dct", (3,), {"norm": "full"}, "norm is 'full', but must be 'backward', 'ortho' or 'forward'"),
    ("dct", (3,), {"type": 5}, "type is 5, but must be 1, 2, 3 or 4"),
    ("dstn", (3, 4), {"type": 0}, "type is 0, but must be 1, 2, 3 or 4"),
    ("dct", (3, 1), {"type": 1}, "the transform has lengths (1,), but must have at least 2 along each axis for type 1"),
    (
        "idctn",
        (3, 1),
        {"type": 1},
        "the transform has lengths (3, 1), but must have at least 2 along each axis for type 1",
    ),
]
KINDS = [
    ("fft", (3,), {"n": 2.5}, "n is 2.5, but must be an integer"),
    ("rfft", (3,), {"n": "4"}, "n is '4', but must be an integer"),
    ("irfft", (3,), {"axis": None}, "axis is None, but must be an integer"),
    ("fftn", (3, 4), {"s": (2.0, 3)}, "s is (2.0, 3), but must be integers"),
    ("irfftn", (3, 4), {"s": (3, None)}, "s is (3, None), but must be integers"),
    ("fft2", (3, 4), {"axes": (0, 1.5)}, "axes is (0, 1.5), but must be integers"),
    ("fft", (3,), {"norm": 1}, "norm is a int, but must be 'backward', 'ortho' or 'forward'"),
]


def label(fault: object) -> str:
    return str(fault).replace(" ", "")


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize(("op", "shape", "options", "message"), FAULTS, ids=label)
def test_wrong_values(
    op: str, shape: tuple[int, ...], options: dict[str, Any], message: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAY04 among them: a transform of length 0 says so."""
    x = open_library(name, monkeypatch).make(np.ones(shape))
    if name == "numpy" and message.endswith("at least 2; or pass s"):
        # SciPy takes the length 0 for 1 here, which its users may rely on.
        assert getattr(fft, op)(x, **options).shape == shape
        return
    with refuses(ValueError, f"{op}: {message}"):
        getattr(fft, op)(x, **options)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("op", "shape", "options", "message"), KINDS, ids=label)
def test_wrong_kinds(
    op: str, shape: tuple[int, ...], options: dict[str, Any], message: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = open_library(name, monkeypatch).make(np.ones(shape))
    with refuses(TypeError, f"{op}: {message}"):
        getattr(fft, op)(x, **options)


@pytest.mark.parametrize(("op", "shape", "options", "message"), KINDS, ids=label)
def test_wrong_kinds_where_scipy_refuses_them(
    op: str, shape: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with refuses(TypeError, f"{op}: {message}"):
        getattr(fft, op)(np.ones(shape), **options)


def test_an_axis_out_of_range_is_an_index_error_too() -> None:
    """SciPy raises one in one dimension, which a script may catch."""
    with pytest.raises(IndexError):
        fft.fft(np.ones(3), axis=1)


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("op", REAL_INPUT)
def test_complex_input_where_it_must_be_real(op: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = open_library(name, monkeypatch).make(np.ones((2, 3), np.complex64))
    with refuses(TypeError, f"{op}: x has dtype complex64, but must be real"):
        getattr(fft, op)(x)


@pytest.mark.parametrize("op", [*FOURIER, "dct", "fht"])
@pytest.mark.parametrize(
    ("value", "dtype"),
    [("abc", "str96"), (np.array(["1", "2"]), "str32"), (np.array([1, None]), "object"), (None, "object")],
    ids=["string", "strings", "objects", "None"],
)
def test_what_is_no_array_of_numbers(op: str, value: Any, dtype: str) -> None:
    more = (0.1, 0.5) if op == "fht" else ()
    with pytest.raises(TypeError, match=rf"^{op}: x has dtype {dtype}, but must be float16, .*; convert it first$"):
        getattr(fft, op)(value, *more)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", "V8"])
def test_dates_are_no_numbers(dtype: str) -> None:
    x = np.zeros(4, dtype)
    with pytest.raises(TypeError, match=rf"^fft: x has dtype {re.escape(x.dtype.name)}, but must be float16, "):
        fft.fft(x)


def test_masked_arrays_that_hide_values() -> None:
    x = np.ma.masked_array([1.0, 2.0], [False, True])
    for op in ("fft", "dct"):
        with pytest.raises(TypeError, match=rf"^{op}: x is a numpy.ma.MaskedArray, but must be a plain array; fill it"):
            getattr(fft, op)(x)


def test_dask_arrays() -> None:
    dask = pytest.importorskip("dask.array")
    message = r"^fft: x is a dask Array, but must be an in-memory array; call .compute\(\) first$"
    with pytest.raises(TypeError, match=message):
        fft.fft(dask.ones(4))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("op", [*FOURIER, *TRIGONOMETRIC])
def test_workers_are_for_numpy(op: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = open_library(name, monkeypatch).make(np.ones((4, 4)))
    message = f"{op}: workers is 2, but must be None for {NAMES.get(name, name)} arrays, where it has no effect"
    with refuses(ValueError, message):
        getattr(fft, op)(x, workers=2)


def test_workers_out_of_range_are_scipys_to_refuse() -> None:
    with pytest.raises(ValueError, match="workers must not be zero"):
        fft.fft(np.ones(3), workers=0)


@pytest.mark.parametrize("op", FOURIER)
def test_plans_are_for_cupy(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotImplementedError, match="precomputed plan"):
        getattr(fft, op)(np.ones((4, 4)), plan="any")
    for name in ("torch", "jax", "array_api_strict"):
        x = open_library(name, monkeypatch).make(np.ones((4, 4)))
        with refuses(UnsupportedError, f"{op}: plan is a str, but must be None for {name} arrays"):
            getattr(fft, op)(x, plan="any")


@pytest.mark.parametrize("active", [False, True], ids=["argument", "context"])
def test_plans_reach_cupyx(active: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan fits one transform, so with one the real inverse is the engine's own."""
    x = open_library("pretended-cupy", monkeypatch).make(np.ones((4, 4)))
    seen = []

    def engine(x: Any, size: Any, axes: Any, *more: Any, plan: Any) -> None:
        seen.append((size, axes, *more, plan))

    for op in ("fft", "fftn", "hfft2"):
        monkeypatch.setattr(sys.modules["cupyx.scipy.fft"], op, engine)
    plan = None if active else "mine"
    if active:
        monkeypatch.setattr(sys.modules["cupy"].cuda.cufft, "get_current_plan", lambda: "mine")
    fft.fft(x, plan=plan)
    fft.fftn(x, overwrite_x=True, norm="ortho", plan=plan)
    fft.hfft2(x, plan=plan)
    assert seen == [
        (4, 1, None, False, plan),
        ([4, 4], (0, 1), "ortho", True, plan),
        ([4, 6], (0, 1), None, False, plan),
    ]


@pytest.mark.parametrize("name", HOST_LIBRARIES)
@pytest.mark.parametrize("op", ["fht", "ifht"])
def test_hankel_refusals(op: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = open_library(name, monkeypatch)
    argument = {"fht": "a", "ifht": "A"}[op]
    for shape in ((), (3, 0)):
        message = f"{op}: {argument} has shape {shape}, but must have at least 1 element along its last axis"
        with refuses(ValueError, message):
            getattr(fft, op)(lib.make(np.ones(shape)), 0.1, 0.5)
    with refuses(TypeError, f"{op}: {argument} has dtype complex128, but must be real"):
        getattr(fft, op)(lib.make(np.ones(3, complex)), 0.1, 0.5)
    with refuses(ValueError, f"{op}: dln is 0.0, but must not be zero"):
        getattr(fft, op)(lib.make(np.ones(3)), 0.0, 0.5)


@pytest.mark.parametrize("op", [*ONE, *MANY])
def test_a_refusal_without_a_fault_of_the_arguments_is_scipys(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ValueError("the engine's own words")

    monkeypatch.setattr(scipy.fft, op, broken)
    with pytest.raises(ValueError, match=r"^the engine's own words$"):
        getattr(fft, op)(np.ones((4, 4)))


def test_a_faulty_call_changes_nothing() -> None:
    x = np.arange(6, dtype=complex)
    with pytest.raises(ValueError, match="norm is"):
        fft.fft(x, norm="unit", overwrite_x=True)  # type: ignore[arg-type]
    assert np.array_equal(x, np.arange(6))
