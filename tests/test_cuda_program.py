"""Sequences of launches of the CUDA backend: addresses filled in, on the host and on a device that stands in."""

from __future__ import annotations

import ctypes
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import Recorder

from spectralops._cuda import launch
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
    runner = SimpleNamespace(device=lambda: launch.Device(0, 1, 1), stream=lambda: 5)
    monkeypatch.setattr(launch, "cuda_runner", runner)
    made = program()
    made.run(runner, [1000, 2000])  # type: ignore[arg-type]
    made.run(runner, [3000, 2000])  # type: ignore[arg-type]
    thread = threading.Thread(target=made.run, args=(runner, [4000, 5000]))
    thread.start()
    thread.join()
    geometry = (3, 2, 1, 64, 1, 1, 128)
    assert [call[:4] for call in calls] == [(77, geometry, 5, 0)] * 6
    assert [call[4] for call in calls] == [[2016, 7], [5, 1000], [2016, 7], [5, 3000], [5016, 7], [5, 4000]]
    assert [call[5] for call in calls[1::2]] == [2000, 2000, 5000]


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
