"""The dispatcher: backends, devices, dtypes, out, observers."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from fakes import install, plan_for, spec_plan
from libraries import library

from spectralops import _arrays, _interchange, _sixteen_bits, _support
from spectralops._arrays import Home
from spectralops._dispatch import execute, observe
from spectralops._support import select
from spectralops.errors import UnsupportedError

LIBRARIES = ("numpy", "torch", "jax", "array_api_strict")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def test_select_takes_the_first_that_supports_it() -> None:
    assert select("fake", "float32", "cpu", None) == "cpu"
    assert select("fake", "float32", "cuda", None) == "cupy"
    assert select("fake", "float32", "cpu", "cpu") == "cpu"


def test_select_passes_over_backends_that_lack_the_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _support.SUPPORT["fake", "cpu"]
    monkeypatch.setitem(_support.SUPPORT, ("fake", "cpu"), _support.Support(row.module, ("float64",)))
    monkeypatch.setitem(_support.SUPPORT, ("fake", "numpy"), row)
    assert select("fake", "float32", "cpu", None) == "numpy"
    assert select("fake", "float64", "cpu", None) == "cpu"


def test_select_refuses_an_unknown_backend() -> None:
    message = r"^fake: backend is 'gpu', but must be 'cpu', 'numpy', 'cuda', 'cupy' or 'reference'$"
    with pytest.raises(ValueError, match=message):
        select("fake", "float32", "cpu", "gpu")
    message = r"^fake: backend is a int, but must be 'cpu', 'numpy', 'cuda', 'cupy' or 'reference'$"
    with pytest.raises(TypeError, match=message):
        select("fake", "float32", "cpu", 3)  # type: ignore[arg-type]


def test_select_refuses_the_wrong_device() -> None:
    message = r"^fake: backend is 'cupy', which runs on cuda arrays, but must suit arrays on cpu; move them explicitly$"
    with pytest.raises(TypeError, match=message):
        select("fake", "float32", "cpu", "cupy")


def test_select_refuses_an_unsupported_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    message = r"^fake: dtype is int8, but must be one that cpu arrays supports; it runs on no backend$"
    with pytest.raises(UnsupportedError, match=message):
        select("fake", "int8", "cpu", None)
    monkeypatch.delitem(_support.SUPPORT, ("fake", "cpu"))
    message = r"^fake: dtype is float32, but must be one that backend 'cpu' supports; it runs on 'cupy'$"
    with pytest.raises(UnsupportedError, match=message):
        select("fake", "float32", "cpu", "cpu")
    monkeypatch.setitem(_support.SUPPORT, ("fake", "reference"), _support.SUPPORT["fake", "cupy"])
    message = r"^fake: dtype is float32, but must be one that backend 'numpy' supports; it runs on 'cupy', 'reference'$"
    with pytest.raises(UnsupportedError, match=message):
        select("fake", "float32", "cpu", "numpy")


def test_executor_is_loaded_by_name() -> None:
    from fakes import double

    assert _support.executor("fake", "cpu") is double


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_same_library_device_and_precision_come_out(name: str, dtype: str, rng: np.random.Generator) -> None:
    lib = library(name)
    values = rng.standard_normal((3, 4)).astype(dtype)
    x = lib.make(values)
    result = execute(plan_for(x), (x,))
    assert isinstance(result, lib.type)
    assert _arrays.describe("op", "x", result) == _arrays.describe("op", "x", x)
    assert np.array_equal(lib.read(result), 2 * values)
    assert np.array_equal(lib.read(x), values)


@pytest.mark.parametrize("name", LIBRARIES)
def test_nothing_is_copied_on_the_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def spy(plan: Any, x: Any, *, out: Any, workers: int) -> None:
        seen.update(x=x.ctypes.data, out=out.ctypes.data)
        out[...] = x

    install(monkeypatch, spy)
    x = library(name).make(np.arange(1000.0))
    result = execute(plan_for(x), (x,))
    home = Home(name, "cpu")
    assert seen["x"] == _interchange.memory(x, home).ctypes.data
    assert seen["out"] == _interchange.memory(result, home).ctypes.data


@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_are_computed_in_float32(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ml_dtypes")
    seen = []

    def spy(plan: Any, x: Any, *, out: Any, workers: int) -> None:
        seen.append((x.dtype.name, out.dtype.name))
        out[...] = 2 * x

    install(monkeypatch, spy)
    lib = library(name)
    values = np.array([0.1, 1.0, 3.0]).astype(_sixteen_bits.numpy_dtype(dtype))
    x = lib.make(values)
    result = execute(plan_for(x), (x,))
    assert seen == [("float32", "float32")]
    assert _arrays.dtype_name(result.dtype) == dtype
    assert np.array_equal(lib.read(result).astype(np.float32), 2 * values.astype(np.float32))


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_out_is_rounded_into(name: str, dtype: str) -> None:
    pytest.importorskip("ml_dtypes")
    lib = library(name)
    values = np.array([0.1, 1.0, 3.0]).astype(_sixteen_bits.numpy_dtype(dtype))
    x, out = lib.make(values), lib.make(np.zeros_like(values))
    assert execute(plan_for(x), (x,), out=out) is out
    assert np.array_equal(lib.read(out).astype(np.float32), 2 * values.astype(np.float32))


def test_integers_are_cast_to_the_compute_dtype() -> None:
    x = np.array([1, 2, 3])
    result = execute(plan_for(x, compute="float64", out_dtype="float64"), (x,))
    assert result.dtype == np.float64
    assert result.tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1, ::-2],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x[:0],
        lambda x: x[:1, :1],
        lambda x: x.astype(">f8"),
        np.asfortranarray,
    ],
    ids=["negative", "transposed", "broadcast", "zero-size", "one-element", "big-endian", "F-order"],
)
def test_any_layout_gives_a_contiguous_result(view: Any, rng: np.random.Generator) -> None:
    x = view(rng.standard_normal((4, 6)))
    x.flags.writeable = False
    before = x.copy()
    result = execute(plan_for(x), (x,))
    assert result.flags.c_contiguous
    assert result.dtype.isnative
    assert np.array_equal(result, 2 * x)
    assert np.array_equal(x, before)


def test_lists_are_numpy_arrays() -> None:
    result = execute(plan_for([1.0, 2.0]), ([1.0, 2.0],))
    assert type(result) is np.ndarray
    assert result.tolist() == [2.0, 4.0]


def test_lazy_bits_of_tensors_are_seen() -> None:
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 4j])
    for x in (z.conj(), z.conj().imag):
        assert torch.equal(execute(plan_for(x), (x,)), 2 * x)


def test_operands_in_call_order() -> None:
    x, y, z = np.arange(3.0), np.full(3, 10.0), np.full(3, 100.0)
    assert execute(plan_for(x, y, z), (x, y, z)).tolist() == [110, 112, 114]


def test_a_missing_operand_is_named() -> None:
    x = np.zeros(3)
    message = r"^fake: 1 arrays were passed, but must be 2: x, y$"
    with pytest.raises(TypeError, match=message):
        execute(plan_for(x, x), (x,))


@pytest.mark.parametrize("x", [np.zeros(4), np.zeros(3, np.float32)], ids=["shape", "dtype"])
def test_arrays_must_be_as_planned(x: np.ndarray) -> None:
    message = (
        rf"^fake: x has shape \({x.shape[0]},\) and dtype {x.dtype}, "
        r"but must have shape \(3,\) and dtype float64 as planned$"
    )
    with pytest.raises(ValueError, match=message):
        execute(spec_plan((3,), "float64"), (x,))


def test_libraries_do_not_mix() -> None:
    torch = pytest.importorskip("torch")
    x, y = np.zeros(3), torch.zeros(3, dtype=torch.float64)
    message = r"^fake: y is a torch array on cpu, but must be a numpy array on cpu like x; move one of them explicitly$"
    with pytest.raises(TypeError, match=message):
        execute(plan_for(x, y), (x, y))


def test_a_plan_for_a_gpu_refuses_host_arrays() -> None:
    message = r"^fake: the plan is for cuda arrays, but the first one is a numpy array on cpu; plan it for that device$"
    with pytest.raises(TypeError, match=message):
        execute(spec_plan((3,), "float64", backend="cupy"), (np.zeros(3),))


def test_gradients_are_refused() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"^fake: x requires grad, but must not, since this function is not diff"):
        execute(spec_plan((3,), "float32"), (x,))
    with torch.no_grad():
        result = execute(spec_plan((3,), "float32"), (x,))
    assert not result.requires_grad


@pytest.mark.parametrize(("workers", "count"), [(None, 1), (1, 1), (3, 3)])
def test_workers_reach_the_executor(workers: int | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(plan: Any, x: Any, *, out: Any, workers: int) -> None:
        seen.append(workers)

    install(monkeypatch, spy)
    execute(spec_plan((3,), "float64"), (np.zeros(3),), workers=workers)
    assert seen == [count]


@pytest.mark.parametrize("name", ["numpy", "torch", "array_api_strict"])
def test_out_is_filled_and_returned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = library(name)
    x, out = lib.make(np.arange(6.0).reshape(2, 3)), lib.make(np.full((2, 3), 9.0))

    def refuse(*arguments: object) -> None:
        raise AssertionError("a contiguous out needs no other array")

    monkeypatch.setattr(_interchange, "empty", refuse)
    assert execute(plan_for(x), (x,), out=out) is out
    assert lib.read(out).tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("index", [(slice(None), slice(None, None, 2)), (slice(1, 3), slice(0, 3))], ids=str)
def test_strided_out_is_filled_right(name: str, index: Any) -> None:
    lib = library(name)
    buffer = lib.make(np.full((4, 6), -1.0))
    out = buffer[index]
    values = np.arange(float(np.prod(out.shape))).reshape(tuple(out.shape))
    x = lib.make(values)
    assert execute(plan_for(x), (x,), out=out) is out
    expected = np.full((4, 6), -1.0)
    expected[index] = 2 * values
    assert np.array_equal(lib.read(buffer), expected)


def test_reversed_and_transposed_out() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for out in (np.zeros((2, 3))[::-1, ::-1], np.zeros((3, 2)).T):
        execute(plan_for(x), (x,), out=out)
        assert np.array_equal(out, 2 * x)


def test_unaligned_out_is_filled_right() -> None:
    x = np.arange(3.0)
    out = np.zeros(25, np.uint8)[1:].view(np.float64)
    assert not out.flags.aligned
    execute(plan_for(x), (x,), out=out)
    assert out.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("out", "kind"),
    [([0.0, 0.0, 0.0], "list"), (1.5, "float"), (np.float64(1), "float64")],
    ids=["list", "number", "scalar"],
)
def test_out_must_be_an_array(out: object, kind: str) -> None:
    x = np.zeros(3)
    with pytest.raises(TypeError, match=rf"^fake: out is a {kind}, but must be an array$"):
        execute(plan_for(x), (x,), out=out)


@pytest.mark.parametrize(
    ("out", "found"),
    [
        (np.zeros(4), r"shape \(4,\) and dtype float64"),
        (np.zeros((3, 1)), r"shape \(3, 1\) and dtype float64"),
        (np.zeros(3, np.float32), r"shape \(3,\) and dtype float32"),
        (np.zeros(3, complex), r"shape \(3,\) and dtype complex128"),
    ],
    ids=["length", "dimensions", "precision", "complex"],
)
def test_out_must_fit(out: np.ndarray, found: str) -> None:
    x = np.zeros(3)
    with pytest.raises(ValueError, match=rf"^fake: out has {found}, but must have shape \(3,\) and dtype float64$"):
        execute(plan_for(x), (x,), out=out)


def test_out_must_be_of_the_same_library() -> None:
    torch = pytest.importorskip("torch")
    x = np.zeros(3)
    message = r"^fake: out is a torch array on cpu, but must be a numpy array on cpu like the input$"
    with pytest.raises(TypeError, match=message):
        execute(plan_for(x), (x,), out=torch.zeros(3, dtype=torch.float64))


def test_jax_out_is_refused() -> None:
    lib = library("jax")
    x = lib.make(np.zeros(3))
    with pytest.raises(TypeError, match=r"^fake: out is a JAX array, but must be writable, which JAX arrays never are"):
        execute(plan_for(x), (x,), out=lib.make(np.zeros(3)))


OVERLAP = r"^fake: out overlaps an input in memory, but must not; pass a separate array$"


@pytest.mark.parametrize("name", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_out_must_not_overlap_an_input(name: str, dtype: str) -> None:
    if (name, dtype) == ("array_api_strict", "float16"):
        pytest.skip("the standard has no float16")
    lib = library(name)
    buffer = lib.make(np.zeros(6, dtype))
    for x, out in ((buffer[:3], buffer[:3]), (buffer[:3], buffer[2:5])):
        with pytest.raises(ValueError, match=OVERLAP):
            execute(plan_for(x), (x,), out=out)
    x, y = lib.make(np.zeros(3, dtype)), buffer[:3]
    with pytest.raises(ValueError, match=OVERLAP):
        execute(plan_for(x, y), (x, y), out=y)
    execute(plan_for(x), (buffer[:3],), out=buffer[3:])


def test_out_must_not_overlap_what_a_lazy_view_reads() -> None:
    torch = pytest.importorskip("torch")
    z = torch.zeros(3, dtype=torch.complex64)
    with pytest.raises(ValueError, match=OVERLAP):
        execute(plan_for(z), (z.conj(),), out=z)
    bfloat16 = torch.zeros(3, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=OVERLAP):
        execute(plan_for(bfloat16), (bfloat16,), out=bfloat16)


def test_out_may_interleave_with_an_input() -> None:
    buffer = np.arange(6.0)
    execute(plan_for(buffer[::2]), (buffer[::2],), out=buffer[1::2])
    assert buffer.tolist() == [0, 0, 2, 4, 4, 8]


def test_in_place_plans_may_overwrite_their_first_operand_only() -> None:
    x, y = np.arange(3.0), np.ones(3)
    plan = plan_for(x, y, in_place=True)
    assert execute(plan, (x, y), out=x) is x
    assert x.tolist() == [1, 3, 5]
    with pytest.raises(ValueError, match=OVERLAP):
        execute(plan, (x, y), out=y)


def test_a_refused_out_leaves_everything_as_it_was() -> None:
    x = np.arange(3.0)
    out = np.arange(4.0)
    with pytest.raises(ValueError, match="out has shape"):
        execute(plan_for(x), (x,), out=out)
    assert x.tolist() == [0, 1, 2]
    assert out.tolist() == [0, 1, 2, 3]


def test_autograd_sees_that_out_was_written() -> None:
    torch = pytest.importorskip("torch")
    weight, out, x = torch.ones(3, requires_grad=True), torch.ones(3), torch.ones(3)
    loss = (weight * out).sum()
    execute(plan_for(x), (x,), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inference_tensors_can_be_out() -> None:
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        x, out = torch.ones(3), torch.zeros(3)
        assert execute(plan_for(x), (x,), out=out).tolist() == [2, 2, 2]


def test_observers_see_plan_arrays_and_result() -> None:
    seen = []
    x = np.arange(3.0)
    plan = plan_for(x)
    with observe(lambda *report: seen.append(report)):
        execute(plan, (x,))
    execute(plan, (x,))
    ((observed, arrays, result),) = seen
    assert observed is plan
    assert len(arrays) == 1
    assert arrays[0].ctypes.data == x.ctypes.data
    assert result.tolist() == [0, 2, 4]


def test_observers_nest() -> None:
    order = []
    x = np.zeros(3)
    with observe(lambda *report: order.append("outer")):
        with observe(lambda *report: order.append("inner")):
            execute(plan_for(x), (x,))
        execute(plan_for(x), (x,))
    assert order == ["inner", "outer", "outer"]


def test_an_observer_that_raises_is_removed_all_the_same() -> None:
    x = np.zeros(3)

    def angry(*report: object) -> None:
        raise ArithmeticError("seen enough")

    with pytest.raises(ArithmeticError, match="seen enough"), observe(angry):
        execute(plan_for(x), (x,))
    execute(plan_for(x), (x,))


def test_observers_belong_to_their_thread() -> None:
    seen = []
    x = np.zeros(3)
    with observe(lambda *report: seen.append(report)):
        thread = threading.Thread(target=lambda: execute(plan_for(x), (x,)))
        thread.start()
        thread.join()
    assert seen == []
