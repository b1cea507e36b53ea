"""Fixtures of all tests: seeds, data files, poisoned allocations, the GPU switch."""

from __future__ import annotations

import importlib
import os
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from libraries import library

from spectralops import _threads


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="a missing CUDA device is a failure, not a skip")


def cuda_device_count() -> int:
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount()
    except Exception:  # no CuPy, no driver, no device: all mean that nothing can run there
        return 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if cuda_device_count() or config.getoption("--require-gpu"):
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_configure(config: pytest.Config) -> None:
    # What a convolution's cost model chooses must not depend on the machine.
    os.environ.setdefault("SPECTRALOPS_RATES", "default")
    # Every number of workers that a test names runs, however small its arrays.
    _threads.SECONDS_EACH = 1e-12
    if sys.gettrace() is not None:
        _leave_double_precision_untraced()


def _leave_double_precision_untraced() -> None:
    """Coverage makes compiling slower, and what a kernel of float64 runs to be compiled is that of float32."""
    from spectralops._cpu.vector import kernels

    compiled = kernels.optimised

    def untraced(name: str, dtype: str) -> Any:
        importlib.import_module(f"spectralops._cpu.vector.{kernels.KERNELS[name][0]}")
        trace = sys.gettrace()
        if dtype == "float64":
            sys.settrace(None)
        try:
            return compiled(name, dtype)
        finally:
            sys.settrace(trace)

    kernels.optimised = untraced


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("--require-gpu") and not cuda_device_count():
        raise pytest.UsageError("--require-gpu: no CUDA device is usable from CuPy")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers fixed by the test's id."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.fixture
def jax() -> ModuleType:
    library("jax")
    return pytest.importorskip("jax")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiled kernels: plans choose among what NumPy and SciPy do."""
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")


@pytest.fixture
def data_file():
    """Path of a real file of the test data, or a visible skip."""

    def find(name: str) -> Path:
        root = os.environ.get("SPECTRALOPS_TEST_DATA")
        if not root:
            pytest.skip("SPECTRALOPS_TEST_DATA is not set")
        path = Path(root) / name
        assert path.exists(), f"{path} is missing from the test data"
        return path

    return find
