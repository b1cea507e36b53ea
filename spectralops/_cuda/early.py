"""Launches that may begin before the one before them on the stream has ended (programmatic dependent launches).

That gains where the one before leaves room on every multiprocessor. Behind a large one it costs up to a fifth.

CuPy's launch has no room for the attribute that says so, hence the driver's own, from a structure that is kept.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

__all__ = ["CAPABILITY", "ROOMY_THREADS", "Configuration", "driver_launch", "launch"]

# Devices from this compute capability on (times ten) know such launches.
CAPABILITY = 90
# Threads a multiprocessor of a launch that leaves room.
ROOMY_THREADS = 1024
# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
PROGRAMMATIC = 6
# Drivers from this version on can have such launches in graphs, too: 12.3.
DRIVER = 12030


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: which one, and a value of up to 64 bytes."""

    _fields_ = (("which", ctypes.c_int), ("gap", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15))


class _Launch(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("geometry", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class Configuration:
    """Geometry and attribute of one launch, for each thread that makes it."""

    def __init__(self, geometry: tuple[int, ...]) -> None:
        self.geometry = geometry
        self.local = threading.local()

    def on(self, stream: int) -> Any:
        """What the driver takes, for a stream."""
        try:
            config, by_reference = self.local.mine
        except AttributeError:
            attribute = _Attribute(PROGRAMMATIC, 0, 1)
            config = _Launch((ctypes.c_uint * 7)(*self.geometry), stream, ctypes.pointer(attribute), 1)
            by_reference = ctypes.byref(config)
            self.local.mine = config, by_reference
        config.stream = stream
        return by_reference


@cache
def driver_launch() -> Any:
    """`cuLaunchKernelEx`; None where there is no driver, or an older one."""
    version = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return None
    if version.value < DRIVER:
        return None
    function = driver.cuLaunchKernelEx
    function.argtypes = [ctypes.c_void_p] * 4
    return function


def launch(how: Configuration, function: int, stream: int, arguments: int) -> None:
    """Launch a function with pointers to its arguments."""
    status = driver_launch()(how.on(stream), function, arguments, None)
    if status:
        from cupy.cuda import driver

        raise driver.CUDADriverError(status)
