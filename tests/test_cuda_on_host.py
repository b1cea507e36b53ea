"""The engine that runs CUDA kernels on the host, and the kernels on it: a selection of the conformance suite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conformance import CASES, LAYOUTS, Variant
from cuda_on_host import BACKEND, HostRunner, available, backend
from test_conformance import poison, run  # noqa: F401, the fixture poisons what the cases allocate

from spectralops._cuda import module
from spectralops._cuda.launch import Kernel
from spectralops._support import BACKENDS, STEPS, SUPPORT

pytestmark = [
    pytest.mark.skipif(not available(), reason="no g++"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

HEAD = """
template <class T> __global__ void k(const T* x, T* y, int n) {
  const int lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x;
  (void)lane; (void)n; (void)x;
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., np.ndarray]:
    """Run a kernel with this body on x, and give back what it writes."""
    monkeypatch.setattr(module, "KERNELS", tmp_path)
    count = iter(range(100))

    def launch(
        body: str, x: np.ndarray, block: int = 64, shared: int = 0, cooperative: bool = False, n: object = np.int32(7)
    ) -> np.ndarray:
        name = f"k{next(count)}.cu"
        (tmp_path / name).write_text(f"#include <cuda_fp16.h>\n{HEAD}{body}\n}}\n")
        module.assemble.cache_clear()
        y = np.zeros_like(x)
        real = {"f4": "float", "f8": "double", "i4": "int"}[x.dtype.str[1:]]
        grid = (-(-x.size // block),)
        HostRunner().launch(Kernel(name, f"k<{real}>", grid, (block,), shared, (), cooperative), x, y, n)
        return y

    yield launch
    module.assemble.cache_clear()


X = np.arange(128, dtype=np.float32)


def test_threads_know_their_place(kernel) -> None:
    assert np.array_equal(kernel("y[i] = x[i] + gridDim.x * 1000 + blockDim.x;", X), X + 2064)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_barrier_orders_shared_memory(kernel, kind: str) -> None:
    memory = (
        "__shared__ T s[64];"
        if kind == "static"
        else "extern __shared__ __align__(16) unsigned char raw[]; T* s = (T*)raw;"
    )
    body = memory + "s[threadIdx.x] = x[i]; __syncthreads(); y[i] = s[63 - threadIdx.x];"
    expected = X.reshape(2, 64)[:, ::-1].reshape(-1)
    for _ in range(2):  # forwards and backwards through the threads
        assert np.array_equal(kernel(body, X, shared=256), expected)


def test_dynamic_shared_memory_starts_as_nan(kernel) -> None:
    assert np.isnan(kernel("extern __shared__ float s[]; y[i] = s[threadIdx.x];", X, shared=256)).all()


@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("__shfl_up_sync(~0u, v, 1)", lambda lane: np.maximum(lane - 1, 0)),
        ("__shfl_down_sync(~0u, v, 2)", lambda lane: np.where(lane > 29, lane, lane + 2)),
        ("__shfl_xor_sync(~0u, v, 5)", lambda lane: lane ^ 5),
        ("__shfl_sync(~0u, v, lane * 3)", lambda lane: lane * 3 % 32),
        ("__shfl_sync(~0u, v, 1, 8)", lambda lane: lane // 8 * 8 + 1),
    ],
    ids=["up", "down", "xor", "any", "narrow"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shuffles(kernel, call: str, source: Callable, dtype: str) -> None:
    x = X.astype(dtype)
    place = np.arange(128)
    expected = x[place // 32 * 32 + source(place % 32)]
    for _ in range(2):
        assert np.array_equal(kernel(f"T v = x[i]; y[i] = {call};", x), expected)


def test_votes(kernel) -> None:
    body = "y[i] = __ballot_sync(~0u, x[i] < 3) + 100 * __any_sync(~0u, x[i] == 3) + 1000 * __all_sync(~0u, x[i] < 32);"
    assert kernel(body, X.astype(np.int32))[[0, 31, 32]].tolist() == [1107, 1107, 0]


def test_atomics_and_a_barrier_of_the_whole_grid(kernel) -> None:
    body = """
      int* counter = (int*)y + 127;
      if (threadIdx.x == 0) { atomicAdd(counter, 1); while (atomicAdd(counter, 0) < (int)gridDim.x) __nanosleep(1); }
      __syncthreads();
      if (i < 127) y[i] = *counter;"""
    assert kernel(body, X.astype(np.int32), block=32, cooperative=True)[:127].tolist() == [4] * 127


def test_half_precision_rounds_to_nearest_even(kernel) -> None:
    values = np.array([1.0, 1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, 6e-8, 2e-8, -0.0] * 16, np.float32)
    found = kernel("y[i] = __half2float(__float2half(x[i]));", values)
    with np.errstate(over="ignore"):
        assert np.array_equal(found, values.astype(np.float16).astype(np.float32))


def test_undefined_behaviour_fails(kernel) -> None:
    with pytest.raises(AssertionError, match="reports of undefined behaviour"):
        kernel("y[i] = (T)((2147483647 - 63 + (int)threadIdx.x) + n);", X)


def test_an_argument_of_the_wrong_size_fails(kernel) -> None:
    with pytest.raises(AssertionError, match="argument 2 has 8 bytes, but must have 4"):
        kernel("y[i] = x[i];", X, n=np.float64(7))


def test_a_kernel_that_does_not_compile_fails(kernel) -> None:
    with pytest.raises(AssertionError, match=r"k0.cu: k<float>\n(.|\n)*error"):
        kernel("y[i] = nothing;", X)


def test_the_backend_is_there_only_while_it_lasts() -> None:
    with backend():
        assert BACKENDS[BACKEND] == "cpu"
        assert SUPPORT["diffusion_step", BACKEND] == SUPPORT["diffusion_step", "cuda"]
    assert BACKEND not in BACKENDS
    assert ("diffusion_step", BACKEND) not in SUPPORT


# Steps with a function of the caller's run on cupy.
STEP_CASES = [
    case for case in CASES if case.op in STEPS and not ("reaction" in case.name or case.name.startswith("pointwise"))
]
DTYPES = ("float32", "float64", "float16", "bfloat16")


def variants() -> list[Variant]:
    """Each case in one dtype and one layout, by turns."""
    layouts = [name for name in LAYOUTS if name != "big-endian"]
    return [
        Variant(case, BACKEND, DTYPES[index % 4], layouts[index % len(layouts)])
        for index, case in enumerate(STEP_CASES)
    ]


@pytest.mark.parametrize("variant", variants(), ids=str)
def test_matches_reference_and_numpy(variant: Variant) -> None:
    """Within the tolerance of the reference, and the very bits of the plain executor."""
    with backend():
        run(variant)
        found = variant.case.call(variant.function(), variant.arrays(), backend=BACKEND)
    expected = variant.case.call(variant.function(), variant.arrays(), backend="numpy")
    bits = f"u{expected.itemsize}"
    assert np.array_equal(found.view(bits), expected.view(bits))
