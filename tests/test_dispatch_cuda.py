"""The dispatcher on a device."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import FakePlan, install, plan_for, spec_plan
from libraries import library

from spectralops import _arrays
from spectralops._dispatch import execute


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


GPU = pytest.mark.gpu
CUDA = ("cupy", "torch")
OVERLAP = r"^fake: out overlaps an input in memory, but must not; pass a separate array$"


@GPU
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", CUDA)
def test_same_library_device_and_precision_on_gpu(name: str, dtype: str, rng: np.random.Generator) -> None:
    lib = library(name, "cuda")
    values = rng.standard_normal((3, 4)).astype(dtype)
    x = lib.make(values)
    result = execute(plan_for(x), (x,))
    assert isinstance(result, lib.type)
    assert _arrays.describe("op", "x", result) == _arrays.describe("op", "x", x)
    assert np.array_equal(lib.read(result), 2 * values)
    out = lib.make(np.zeros((3, 4), dtype))
    assert execute(plan_for(x), (x,), out=out) is out
    assert np.array_equal(lib.read(out), 2 * values)


@GPU
def test_bfloat16_on_gpu() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.1, 1.0, 3.0], device="cuda", dtype=torch.bfloat16)
    out = torch.zeros_like(x)
    assert torch.equal(execute(plan_for(x), (x,)), 2 * x)
    assert execute(plan_for(x), (x,), out=out) is out
    assert torch.equal(out, 2 * x)


@GPU
@pytest.mark.parametrize("name", CUDA)
def test_overlap_is_seen_on_gpu(name: str) -> None:
    x = library(name, "cuda").make(np.zeros(6))
    with pytest.raises(ValueError, match=OVERLAP):
        execute(plan_for(x[:3]), (x[:3],), out=x[2:5])
    execute(plan_for(x[:3]), (x[:3],), out=x[3:])


@GPU
def test_devices_do_not_mix() -> None:
    lib = library("cupy", "cuda")
    x, y = np.zeros(3), lib.make(np.zeros(3))
    message = r"^fake: y is a cupy array on cuda:0, but must be a numpy array on cpu like x; move one of them explicit"
    with pytest.raises(TypeError, match=message):
        execute(plan_for(x, y), (x, y))
    with pytest.raises(TypeError, match=r"^fake: out is a numpy array on cpu, but must be a cupy array on cuda:0 like"):
        execute(plan_for(y), (y,), out=x)
    with pytest.raises(
        TypeError, match=r"^fake: the plan is for cpu arrays, but the first one is a cupy array on cuda"
    ):
        execute(spec_plan((3,), "float64"), (y,))
    message = r"^fake: workers is 2, but must be None for arrays on a GPU, where it has no effect$"
    with pytest.raises(ValueError, match=message):
        execute(plan_for(y), (y,), workers=2)


@GPU
@pytest.mark.parametrize("name", CUDA)
def test_work_runs_on_the_callers_stream(name: str) -> None:
    """THR05: after a call on the default stream, one on another stream sees what that stream's producer wrote."""
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    x = library(name, "cuda").make(np.zeros(1 << 20, np.float32))
    plan = plan_for(x)
    execute(plan, (x,))
    cupy.cuda.Device().synchronize()
    if name == "torch":
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)
            x.fill_(3)
            result = execute(plan, (x,))
            total = result.sum()
    else:
        stream = cupy.cuda.Stream(non_blocking=True)
        spin = cupy.RawKernel(
            'extern "C" __global__ void spin() { long long t = clock64(); while (clock64() - t < 100000000) {} }',
            "spin",
        )
        with stream:
            spin((1,), (1,), ())
            x.fill(3)
            result = execute(plan, (x,))
            total = result.sum()
    stream.synchronize()
    assert float(total) == 6 * (1 << 20)


@GPU
def test_arrays_of_the_second_device_stay_there() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one CUDA device")
    with cupy.cuda.Device(1):
        x = cupy.arange(3.0)
    result = execute(plan_for(x), (x,))
    assert result.device.id == 1
    assert cupy.cuda.runtime.getDevice() == 0
    assert result.get().tolist() == [0, 2, 4]


def test_fake_plan_is_what_the_tests_say() -> None:
    """The helper itself: an in-place plan is asked for by name, everything else follows the first array."""
    plan = plan_for(np.zeros((2, 3), np.float32), np.zeros(3))
    assert isinstance(plan, FakePlan)
    assert (plan.out_shape, plan.out_dtype, plan.backend, plan.in_place) == ((2, 3), "float32", "cpu", False)
    assert [(o.name, o.spec.shape, o.compute) for o in plan.operands] == [
        ("x", (2, 3), "float32"),
        ("y", (3,), "float32"),
    ]
