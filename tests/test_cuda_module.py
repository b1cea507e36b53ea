"""The host side of the CUDA backend without a device: assembling, caching, launching."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spectralops._cuda import launch, module
from spectralops._cuda.launch import Kernel
from spectralops.errors import UnsupportedError

KERNEL = Kernel("tiny.cu", "tiny<float>", (3,), (64,), options=("-DINDEX_T=int",))


@pytest.fixture
def folder(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Kernel files of the test's own."""
    (tmp_path / "base.cuh").write_text("#pragma once\nint base;\n")
    (tmp_path / "twice.cuh").write_text('#pragma once\n#include "base.cuh"\nint twice;\n')
    (tmp_path / "tiny.cu").write_text('#include "base.cuh"\n  #include "twice.cuh"\n#include <none>\nint tiny;\n')
    monkeypatch.setattr(module, "KERNELS", tmp_path)
    module.clear()
    yield tmp_path
    module.clear()


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands in for CuPy: records what is compiled, launched and allocated."""
    log: dict[str, list[Any]] = {"compiled": [], "launched": [], "allocated": [], "modes": []}

    class Function:
        max_dynamic_shared_size_bytes = 0
        shared_size_bytes = 8
        kernel = SimpleNamespace(ptr=5)

        def __call__(self, grid: Any, block: Any, arguments: Any, *, shared_mem: int) -> None:
            log["launched"].append((grid, block, arguments, shared_mem))

    class RawModule:
        def __init__(self, **options: Any) -> None:
            log["compiled"].append(options)

        def get_function(self, name: str) -> Function:
            assert name in log["compiled"][-1]["name_expressions"]
            return Function()

    class Device:
        def __init__(self, index: int) -> None:
            self.attributes = {"MultiProcessorCount": 132 + index, "MaxSharedMemoryPerBlockOptin": 232448}
            self.compute_capability = "90"

    def empty(shape: Any, dtype: Any) -> np.ndarray:
        log["allocated"].append(shape)
        return np.empty(shape, dtype)

    stream = SimpleNamespace(ptr=1, capturing=False, is_capturing=lambda: stream.capturing)
    fake = SimpleNamespace(
        log=log,
        stream=stream,
        RawModule=RawModule,
        empty=empty,
        cuda=SimpleNamespace(
            current=0,
            Device=Device,
            nvrtc=SimpleNamespace(getVersion=lambda: (12 + fake.cuda.current, 9)),
            allocator=object(),
            get_allocator=lambda: fake.cuda.allocator,
            get_current_stream=lambda: stream,
            runtime=SimpleNamespace(getDevice=lambda: fake.cuda.current),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    exchange = SimpleNamespace(cuThreadExchangeStreamCaptureMode=lambda mode: log["modes"].append(mode))
    monkeypatch.setattr(launch.ctypes, "CDLL", lambda name: exchange)
    monkeypatch.setattr(launch.ctypes, "byref", lambda value: value.value)
    launch._device.cache_clear()
    launch.clear()
    yield fake
    launch._device.cache_clear()
    launch.clear()


def test_assemble_inlines_each_file_once(folder) -> None:
    assert module.assemble("tiny.cu") == "int base;\n\n\nint twice;\n\n#include <none>\nint tiny;\n"


def test_every_kernel_file_assembles() -> None:
    files = sorted(module.KERNELS.glob("*.cu"))
    assert files
    for file in files:
        assert '#include "' not in module.assemble(file.name)


def test_only_the_named_instantiation_is_compiled_and_only_once(folder, cupy: SimpleNamespace) -> None:
    out = SimpleNamespace()
    runner = launch.runner("op", out)
    runner.launch(KERNEL, np.int32(1))
    runner.launch(KERNEL, np.int32(2))
    assert cupy.log["compiled"] == [
        {
            "code": module.assemble("tiny.cu"),
            "options": (*module.OPTIONS, "-DINDEX_T=int"),
            "name_expressions": ("tiny<float>",),
            "enable_cooperative_groups": False,
        }
    ]
    assert cupy.log["launched"] == [((3,), (64,), (np.int32(n),), 0) for n in (1, 2)]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "tiny<double>"},
        {"options": ("-DINDEX_T=long long",)},
        {"file": "base.cuh"},
        {"shared": module.STATIC_SHARED_BYTES + 1},
        {"carveout": 100},
        {"cooperative": True},
    ],
    ids=str,
)
def test_another_kernel_is_another_function(folder, cupy: SimpleNamespace, change: dict[str, Any]) -> None:
    from dataclasses import replace

    runner = launch.runner("op", SimpleNamespace())
    runner.launch(KERNEL)
    runner.launch(replace(KERNEL, **change))
    assert len(cupy.log["compiled"]) == 2


def test_nothing_is_compiled_during_a_capture(folder, cupy: SimpleNamespace) -> None:
    runner = launch.runner("op", SimpleNamespace())
    cupy.stream.capturing = True
    message = r"^CUDA graph: kernel tiny<float> is not on the device, .*; call once before capture$"
    with pytest.raises(UnsupportedError, match=message):
        runner.launch(KERNEL)
    cupy.stream.capturing = False
    runner.launch(KERNEL)
    cupy.stream.capturing = True
    runner.launch(KERNEL)
    assert len(cupy.log["launched"]) == 2


def test_each_device_has_functions_of_its_own(folder, cupy: SimpleNamespace) -> None:
    runner = launch.runner("op", SimpleNamespace())
    runner.launch(KERNEL)
    assert runner.device() == launch.Device(0, 132, 232448, 90, False), "the compiler is too old"
    cupy.cuda.current = 1
    runner.launch(KERNEL)
    assert len(cupy.log["compiled"]) == 2
    assert runner.device() == launch.Device(1, 133, 232448, 90, True)


@pytest.mark.parametrize(("shared", "limit"), [(module.STATIC_SHARED_BYTES, 0), (module.STATIC_SHARED_BYTES + 1, 91)])
def test_much_shared_memory_is_asked_for(folder, cupy: SimpleNamespace, shared: int, limit: int) -> None:
    kernel = Kernel("tiny.cu", "tiny<float>", (1,), (32,), shared)
    assert module.function(kernel, 0, 99).max_dynamic_shared_size_bytes == limit


@pytest.mark.parametrize(("carveout", "percent"), [(0, None), (72, 72)])
def test_crowded_multiprocessors_want_shared_memory(
    folder, cupy: SimpleNamespace, carveout: int, percent: int | None
) -> None:
    kernel = Kernel("tiny.cu", "tiny<float>", (1,), (32,), carveout=carveout)
    assert getattr(module.function(kernel, 0, 99), "preferred_shared_memory_carveout", None) == percent


def test_functions_are_bounded(folder, cupy: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAPACITY", 2)
    kernels = [Kernel("tiny.cu", name, (1,), (32,)) for name in "abc"]
    for kernel in (kernels[0], kernels[1], kernels[0], kernels[2]):
        module.function(kernel, 0, 0)
    module.function(kernels[0], 0, 0)  # used last but one: kept
    assert len(cupy.log["compiled"]) == 3
    module.function(kernels[1], 0, 0)
    assert len(cupy.log["compiled"]) == 4


def test_many_threads_compile_once(folder, cupy: SimpleNamespace) -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(module.function(KERNEL, 0, 0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cupy.log["compiled"]) == 1
    assert len(set(map(id, found))) == 1


class TestWorkspace:
    @pytest.fixture
    def get(self, cupy: SimpleNamespace):
        return launch.runner("op", SimpleNamespace()).workspace

    def test_is_kept_and_grows(self, get, cupy: SimpleNamespace) -> None:
        first = get(100)
        assert get(60) is first
        assert get(101).size == 101
        assert cupy.log["allocated"] == [100, 101]

    def test_much_of_it_is_not_kept_for_those_who_hold_it(self, get, cupy: SimpleNamespace) -> None:
        scratch = launch.runner("op", SimpleNamespace()).scratch
        first = get(100)
        assert scratch(60) is first
        assert scratch(launch.MOST_KEPT_BYTES) is scratch(launch.MOST_KEPT_BYTES)
        large = scratch(launch.MOST_KEPT_BYTES + 1)
        assert large.size == launch.MOST_KEPT_BYTES + 1
        assert scratch(launch.MOST_KEPT_BYTES + 1) is not large
        cupy.stream.capturing = True
        kept = scratch(launch.MOST_KEPT_BYTES + 1)
        assert any(memory is kept for memory in launch._captured)

    def test_is_one_per_stream_and_device(self, get, cupy: SimpleNamespace) -> None:
        first = get(100)
        cupy.stream.ptr = 2
        second = get(100)
        cupy.cuda.current = 1
        third = get(100)
        assert len({id(first), id(second), id(third)}) == 3
        cupy.cuda.current, cupy.stream.ptr = 0, 1
        assert get(100) is first

    def test_is_one_per_thread(self, get) -> None:
        found = [get(100)]
        thread = threading.Thread(target=lambda: found.append(get(100)))
        thread.start()
        thread.join()
        assert found[0] is not found[1]

    def test_is_not_kept_where_the_pool_knows_streams(self, get, cupy: SimpleNamespace) -> None:
        kept = get(100)

        def allocator(size: int) -> tuple[str, int]:
            return "memory", size

        allocator.in_stream_order = True  # type: ignore[attr-defined]
        cupy.cuda.allocator = allocator
        cupy.stream.capturing = True
        assert get(70).data == ("memory", 70)
        scratch = launch.runner("op", SimpleNamespace()).scratch
        assert scratch(50).shape == (50,)
        assert scratch(50) is not scratch(50)
        assert cupy.log["allocated"] == [100, 50, 50, 50]
        assert not cupy.log["modes"]
        assert not launch._captured
        cupy.cuda.allocator, cupy.stream.capturing = None, False
        assert get(100) is kept

    def test_is_bounded(self, get, cupy: SimpleNamespace) -> None:
        for ptr in range(1, launch._Workspaces.CAPACITY + 2):
            cupy.stream.ptr = ptr
            get(10)
        cupy.stream.ptr = 2
        get(10)
        assert len(cupy.log["allocated"]) == launch._Workspaces.CAPACITY + 1
        cupy.stream.ptr = 1
        get(10)
        assert len(cupy.log["allocated"]) == launch._Workspaces.CAPACITY + 2

    def test_of_a_captured_graph_is_never_given_again(self, get, cupy: SimpleNamespace) -> None:
        outside = get(100)
        cupy.stream.capturing = True
        inside = [get(100), get(100)]
        cupy.stream.capturing = False
        assert get(100) is outside
        assert len({id(outside), *map(id, inside)}) == 3
        assert cupy.log["modes"] == [launch.RELAXED] * 4

    def test_is_given_back_by_clear(self, get, cupy: SimpleNamespace) -> None:
        first = get(100)
        launch.clear()
        assert get(100) is not first
        assert launch._captured == []


def test_host_arrays_need_a_runner() -> None:
    with pytest.raises(UnsupportedError, match=r"^op: backend is 'cuda', but must be one for arrays on the host$"):
        launch.runner("op", np.empty(1))


def test_host_arrays_run_on_the_runner_set(monkeypatch: pytest.MonkeyPatch) -> None:
    runner: Any = object()
    monkeypatch.setattr(launch, "host_runner", runner)
    assert launch.runner("op", np.empty(1)) is runner


def test_index_option() -> None:
    assert launch.index_option(32) == "-DINDEX_T=int"
    assert launch.index_option(64) == "-DINDEX_T=long long"
