"""Sequences of launches of the CUDA backend: addresses filled in, on the host and on a device that stands in."""

from __future__ import annotations

import ctypes
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import Recorder

from spectralops._cuda import early, launch
from spectralops._cuda.launch import Kernel
from spectralops._cuda.program import Address, Program, address

RECORD = np.dtype([("count", np.int64), ("where", np.int64)])
KERNEL = Kernel("some.cu", "some<float>", (3, 2), (64,), 128)


def program() -> Program:
    made = Program()
    made.add(KERNEL, Address(1, 16), np.int64(7))
    made.add(KERNEL, np.array([(5, 0)], RECORD), Address(0), inner={(0, 1): Address(1)})
    return made


def test_a_program_fills_in_addresses_on_the_host() -> None:
    runner = Recorder()
    program().run(runner, [1000, 2000])
    (pointer, count), (record, last) = runner.arguments
    assert runner.launched == [KERNEL, KERNEL]
    assert (pointer, count, last) == (2016, 7, 1000)
    assert record.view(RECORD).tolist() == [(5, 2000)]


def test_a_program_fills_in_addresses_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def launch_kernel(function: int, *rest: int) -> None:
        geometry, stream, pointers, extra = rest[:7], rest[7], rest[8], rest[9]
        arguments = [ctypes.c_uint64.from_address(p).value for p in (ctypes.c_uint64 * 2).from_address(pointers)]
        second = ctypes.c_uint64.from_address((ctypes.c_uint64 * 2).from_address(pointers)[0] + 8).value
        calls.append((function, geometry, stream, extra, arguments, second))

    function = SimpleNamespace(kernel=SimpleNamespace(ptr=77))
    monkeypatch.setattr("spectralops._cuda.program.module.function", lambda *_: function)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    cuda = SimpleNamespace(driver=SimpleNamespace(launchKernel=launch_kernel))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setattr("spectralops._cuda.program.launch_kernel", launch_kernel)
    bound: list[int] = []
    monkeypatch.setattr("spectralops._cuda.program.bind", bound.append)
    runner = SimpleNamespace(device=lambda: launch.Device(0, 1, 1), stream=lambda: 5)
    monkeypatch.setattr(launch, "cuda_runner", runner)
    made = program()
    assert not made.compiled(0)
    made.run(runner, [1000, 2000])  # type: ignore[arg-type]
    assert made.compiled(0)
    made.run(runner, [3000, 2000, 6000])  # type: ignore[arg-type]
    thread = threading.Thread(target=made.run, args=(runner, [4000, 5000, 6000]))
    thread.start()
    thread.join()
    geometry = (3, 2, 1, 64, 1, 1, 128)
    assert [call[:4] for call in calls] == [(77, geometry, 5, 0)] * 6
    assert [call[4] for call in calls] == [[2016, 7], [5, 1000], [2016, 7], [5, 3000], [5016, 7], [5, 4000]]
    assert [call[5] for call in calls[1::2]] == [2000, 2000, 5000]
    assert bound == [0, 0], "once in each thread"


def test_the_driver_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    from spectralops._cuda import program as module

    calls: list[Any] = []
    monkeypatch.setattr(module, "launch_kernel", module.launch_kernel)  # puts it back afterwards
    driver = SimpleNamespace(launchKernel=lambda *a: calls.append(a))
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(driver=driver))
    module.launch_kernel(1, 2, 3)
    assert module.launch_kernel is driver.launchKernel
    assert calls == [(1, 2, 3)]


def test_address() -> None:
    x = np.zeros(8)
    assert address(x[2:]) == x.ctypes.data + 16
    assert address(SimpleNamespace(data=SimpleNamespace(ptr=12))) == 12


def test_a_program_takes_arguments_of_any_size_and_clears_memory() -> None:
    record = np.array([(1.5, 2, 3)], np.dtype([("a", np.float32), ("b", np.int32), ("c", np.int32)]))
    memory = np.full(16, 0xFF, np.uint8)
    made, runner = Program(), Recorder()
    made.add(KERNEL, np.int32(-7), record, Address(0))
    made.clear(Address(1, 4), 8)
    made.run(runner, [1000, address(memory)])
    ((first, second, pointer),) = runner.arguments
    assert (first.nbytes, first.view(np.int32).tolist()) == (4, [-7])
    assert second.view(record.dtype).tolist() == [(1.5, 2, 3)]
    assert pointer == 1000
    assert memory.tolist() == [255] * 4 + [0] * 8 + [255] * 4


def test_cooperative_launches_and_clearing_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    driver = SimpleNamespace(
        launchKernel=lambda *a: calls.append(("alone", *a[:9])),
        launchCooperativeKernel=lambda *a: calls.append(("together", *a[:9], len(a))),
    )
    runtime = SimpleNamespace(
        memsetAsync=lambda *a: calls.append(("clear", *a)), setDevice=lambda index: calls.append(("bind", index))
    )
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(driver=driver, runtime=runtime))
    from spectralops._cuda import program as module

    monkeypatch.setattr(module, "launch_kernel", module.launch_kernel)
    function = SimpleNamespace(kernel=SimpleNamespace(ptr=77))
    monkeypatch.setattr("spectralops._cuda.program.module.function", lambda *_: function)
    monkeypatch.setattr(launch, "cuda_runner", SimpleNamespace(device=lambda: launch.Device(3, 1, 1)))
    made = Program()
    made.clear(Address(1, 4), 8)
    made.add(Kernel("some.cu", "some", (5,), (32,), cooperative=True), Address(0))
    made.add(KERNEL, Address(0))
    made.launch(3, 9, [1000, 2000, 3000])
    assert calls == [
        ("bind", 3), ("clear", 2004, 0, 8, 9), ("together", 77, 5, 1, 1, 32, 1, 1, 0, 9, 10),
        ("alone", 77, 3, 2, 1, 64, 1, 1, 128, 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("capability", "known", "multiprocessors", "launched"),
    [
        (90, True, 1, ["alone", "early", "alone"]), (89, True, 1, ["alone"] * 3), (90, False, 1, ["alone"] * 3),
        (90, True, 0, ["alone"] * 3),
    ],
)  # fmt: skip
def test_launches_begin_early_where_the_device_can(
    monkeypatch: pytest.MonkeyPatch, capability: int, known: bool, multiprocessors: int, launched: list[str]
) -> None:
    """Not the first one, whose arrays others may write, nor one that does not wait or that follows a large one."""
    calls: list[Any] = []

    def launch_early(by_reference: Any, function: int, arguments: int, extra: None) -> int:
        config = by_reference._obj
        attribute = config.attributes[0]
        calls.append(("early", list(config.geometry), config.stream, config.count, attribute.which, attribute.value))
        assert ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(arguments).value).value == 1000
        return 0

    def launch_alone(function: int, *rest: int) -> None:
        calls.append(("alone", list(rest[:7]), rest[7]))

    function = SimpleNamespace(kernel=SimpleNamespace(ptr=77))
    monkeypatch.setattr("spectralops._cuda.program.module.function", lambda *_: function)
    monkeypatch.setattr("spectralops._cuda.program.launch_kernel", launch_alone)
    monkeypatch.setattr("spectralops._cuda.program.bind", lambda device: None)
    monkeypatch.setattr(early, "driver_launch", lambda: launch_early if known else None)
    device = launch.Device(0, multiprocessors, 1, capability)
    monkeypatch.setattr(launch, "cuda_runner", SimpleNamespace(device=lambda: device))
    made = Program()
    for kernel in (replace(KERNEL, early=True), replace(KERNEL, early=True), KERNEL):
        made.add(kernel, Address(0))
    for stream in (5, 6):
        made.launch(0, stream, [1000])
    assert [call[0] for call in calls] == 2 * launched
    assert [call[2] for call in calls] == [5, 5, 5, 6, 6, 6]
    assert {tuple(call[1]) for call in calls} == {(3, 2, 1, 64, 1, 1, 128)}
    assert {call[3:] for call in calls if call[0] == "early"} <= {(1, 6, 1)}


def test_the_driver_may_not_know_early_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before 12.3 do not have them in graphs."""

    def driver(version: int) -> Any:
        def get(by_reference: Any) -> None:
            by_reference._obj.value = version

        return SimpleNamespace(cuDriverGetVersion=get, cuLaunchKernelEx=SimpleNamespace())

    def missing(name: str) -> Any:
        raise OSError(name)

    for library, found in ((lambda _: driver(12020), False), (missing, False), (lambda _: driver(12030), True)):
        early.driver_launch.cache_clear()
        monkeypatch.setattr(ctypes, "CDLL", library)
        assert (early.driver_launch() is not None) == found
    early.driver_launch.cache_clear()


def test_an_early_launch_that_fails_is_the_drivers_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class CUDADriverError(RuntimeError):
        pass

    driver = SimpleNamespace(CUDADriverError=CUDADriverError)
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(driver=driver))
    monkeypatch.setattr(early, "driver_launch", lambda: lambda *_: 701)
    with pytest.raises(CUDADriverError, match=r"^701$"):
        early.launch(early.Configuration((1, 1, 1, 1, 1, 1, 0)), 7, 0, 0)
