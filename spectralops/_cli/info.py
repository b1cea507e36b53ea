"""``info``: libraries, devices, what runs each operator, and how to get what is missing."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import spectralops
from spectralops._support import BACKENDS, SUPPORT


@dataclass(frozen=True, slots=True)
class Library:
    """A library: import name, distributions that have it, what it brings, and the extra that installs it, if any."""

    module: str
    distributions: tuple[str, ...]
    brings: str
    extra: str = ""

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f'"spectralops[{self.extra}]"' if self.extra else self.distributions[0]


LIBRARIES = (
    Library("numpy", ("numpy",), "host arrays"),
    Library("scipy", ("scipy",), "FFTs of every size on the CPU"),
    Library("llvmlite", ("llvmlite",), "LLVM for the compiled engines of the CPU backend"),
    Library("numba", ("numba",), "pointwise terms of your own in compiled steps"),
    Library("cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "arrays and kernels on NVIDIA GPUs", "cuda13"),
    Library("torch", ("torch",), "PyTorch tensors in and out", "torch"),
    Library("jax", ("jax",), "JAX arrays in and out", "jax"),
    Library("ml_dtypes", ("ml-dtypes",), "bfloat16 outside PyTorch", "jax"),
    Library("xarray", ("xarray",), "labelled arrays", "xarray"),
    Library("dask", ("dask",), "arrays larger than memory", "dask"),
    Library("iris_sample_data", ("iris-sample-data",), "real sea-surface temperature for the demo", "demo"),
    Library("h5netcdf", ("h5netcdf",), "NetCDF files: the demo, snapshots of solve()", "demo"),
    Library("h5py", ("h5py",), "what h5netcdf reads and writes with", "demo"),
    Library("matplotlib", ("matplotlib",), "the demo's figure", "demo"),
    Library("tqdm", ("tqdm",), "progress bars of solve()", "demo"),
)


def installed(library: Library) -> str | None:
    """Version of an installed library, None where it cannot be imported; does not import it."""
    if find_spec(library.module) is None:
        return None
    for distribution in library.distributions:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown version"


def threads() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def devices() -> list[str]:
    """Name and memory of each CUDA device, or one line that says why there is none."""
    try:
        cupy: Any = importlib.import_module("cupy")
        runtime = cupy.cuda.runtime
        found = []
        for index in range(runtime.getDeviceCount()):
            properties = runtime.getDeviceProperties(index)
            memory = properties["totalGlobalMem"] / 2**30
            found.append(f"cuda:{index}  {properties['name'].decode()}, {memory:.0f} GiB")
        return found or ["none: CuPy finds no CUDA device"]
    except ImportError:
        return ["none: CuPy is not installed"]
    except Exception as error:  # CuPy's CUDARuntimeError exists only where CuPy does
        return [f"none: {error}"]


def processor() -> str:
    """Model name of the CPU as Linux tells it, else the architecture."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def operators() -> list[str]:
    """The operators in the order of the support table."""
    return list(dict.fromkeys(op for op, _ in SUPPORT))


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    print(f"spectralops {spectralops.__version__}, Python {platform.python_version()} on {platform.platform()}")
    print(f"CPU        {processor()}, {threads()} of {os.cpu_count()} cores usable (workers=1 unless you ask for more)")
    for line in devices():
        print(f"GPU        {line}")

    print("\nLibraries")
    missing = []
    for library in LIBRARIES:
        found = installed(library)
        print(f"  {library.module:17} {found or '-':18} {library.brings}")
        if found is None:
            missing.append(library)

    print("\nWhat runs each operator (the first one is the default)")
    gpu = any(line.startswith("cuda:") for line in devices())
    width = max(map(len, operators()))
    for op in operators():
        names = [b for b, kind in BACKENDS.items() if (op, b) in SUPPORT and (kind == "cpu" or gpu)]
        print(f"  {op:{width}} {', '.join(names)}")
    print("  cpu: tuned; numpy, cupy: plain array pipelines; reference: slow, obvious float64")

    if missing:
        print("\nMissing, and how to install it")
        for requirement in dict.fromkeys(library.requirement for library in missing):
            brings = "; ".join(library.brings for library in missing if library.requirement == requirement)
            print(f"  {sys.executable} -m pip install {requirement}    {brings}")
    return 0
