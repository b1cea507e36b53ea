"""Every CUDA kernel compiles for the devices that it is meant for, keeps its values in registers, and is there at all.

The kernels are those that the conformance cases launch, recorded without running them; an instantiation that nothing
names compiles to nothing, so that the symbols are looked up in the machine code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import cache

import numpy as np
import nvrtc
import pytest
from conformance import CASES, Variant
from cuda_on_host import BACKEND, Recorder, backend, written

import spectralops as so
from spectralops import UnsupportedError
from spectralops._cuda import channels, module
from spectralops._cuda.geometry import SHARED_BYTES
from spectralops._cuda.launch import Kernel
from spectralops._support import STEPS, SUPPORT

pytestmark = [
    pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

REALS = {"float32": "float", "float64": "double"}
COMPLEX = {"float32": "complex64", "float64": "complex128"}
# Instantiations of a kernel that are compiled for every type: the plainest and the richest, by indices.
PER_KERNEL = {"int": 2, "long long": 1}
# Kernels, by the start of their names, that may have so many bytes in local memory: spilled (stores and loads), or
# arrays that the compiler finds no registers for.
LOCAL = {
    # Three rows a thread in blocks of 512 threads, which may have 128 registers: fastest all the same.
    "march_volume<float, 4, 3, 16, 2,": 400,
    # The same; four levels a pass, which NVRTC 13.0 keeps in registers and 13.5 does not quite.
    "march_volume<float, 2, 3, 16, 4,": 80,
    # The same of lines, at the registers that let most blocks be there.
    "lines_spread<": 80,
    # Addresses of the multipliers, where these are several or indices have 64 bits; none for one with 32.
    "images_filter<": 144,
    # One address, by NVRTC 13.5; none by 13.0.
    "images_forward<double, double, 2, 256, 4, 16, 32, 16,": 8,
}
# What PyTorch's layers launch beside operators.
LAYERS = (
    channels.mapped(2, 64, 64, 4096, False, True),
    channels.mapped(2, 128, 3, 33, False, False),
    channels.gelu_backward(2, 64, 4096),
    channels.outer(2, 64, 64, 4096, 132)[0],
)
GAUSSIAN = so.transfer.gaussian(1.0)
WALLS = (so.Dirichlet(0.5), (so.Neumann(0.25), so.Hold()))


def launch_cases(dtype: str, ops: Collection[str]) -> None:
    """Conformance cases of these operators but those with functions of the caller's."""
    for case in CASES:
        variant = Variant(case, BACKEND, dtype)
        if case.op not in ops or "reaction" in case.name or case.name.startswith("pointwise"):
            continue
        try:
            case.call(variant.function(), variant.arrays(), backend=BACKEND)
        except (UnsupportedError, ValueError, TypeError):  # not covered by kernels, or no case for real x
            continue


def launch_steps(dtype: str) -> None:
    """Steps of shapes that the cases lack."""
    for shape, bc in (((64, 64), so.Periodic()), ((64, 64), WALLS), ((8, 64, 64), so.Periodic())):
        u = np.zeros(shape, dtype)
        axes = tuple(range(len(shape)))
        for steps in (1, 64):
            so.diffusion_step(u, 1.0, 0.1, 1.0, bc=bc, axes=axes, steps=steps, backend=BACKEND)
        if len(shape) == 2:
            so.diffuse_convect_step(u, 1.0, 0.1, 1.0, bc=bc, steps=64, on_unstable="ignore", backend=BACKEND)


@cache
def kernels() -> dict[tuple[str, str, str], tuple[Kernel, ...]]:
    """Kernels by file, template and type: of the conformance cases, and of shapes that they lack."""
    found: dict[tuple[str, str, str], set[Kernel]] = defaultdict(set)
    for dtype, real in REALS.items():
        recorder = Recorder()
        with backend(recorder):
            launch_cases(dtype, {op for op, name in SUPPORT if name == BACKEND})
            launch_steps(dtype)
            if dtype == "float32":  # whose arithmetic fields in 16 bits share
                launch_cases("float16", STEPS)
                launch_steps("float16")
            for shape in ((64, 64), (2, 32, 32)):  # images that share a block with their spectrum
                field = np.zeros(shape, dtype)
                so.spectral_filter(field, GAUSSIAN, axes=tuple(range(field.ndim)), backend=BACKEND)
            for shape in ((128, 256), (1, 128, 256)):  # images of clusters
                so.spectral_filter(np.zeros(shape, dtype), GAUSSIAN, axes=tuple(range(len(shape))), backend=BACKEND)
            so.spectral_filter(np.zeros((2, 17), dtype), GAUSSIAN, axes=1, backend=BACKEND)  # odd lines in twos
            # the same and columns in longer transforms
            shape = (64, 17) if dtype == "float32" else (4, 17, 8)
            so.spectral_filter(np.zeros(shape, dtype), GAUSSIAN, axes=tuple(range(1, len(shape))), backend=BACKEND)
            # lines, many lines and columns of which clusters transform parts
            for shape, axes in (((65536,), 0), ((64, 65536), 1), ((8192, 16), (0, 1))):
                so.spectral_filter(np.zeros(shape, dtype), GAUSSIAN, axes=axes, backend=BACKEND)
            weight = np.zeros((2, 2, 16), COMPLEX[dtype])  # a few wavenumbers of long lines
            so.spectral_conv(np.zeros((1, 2, 1024), dtype), weight, axes=-1, backend=BACKEND)
            image = np.zeros((256, 256), dtype)  # a kernel as large as its image: both axes through memory
            so.convolve(image, image, mode="same", axes=(0, 1), backend=BACKEND)
            for kind in (dtype, COMPLEX[dtype]):  # volumes whose planes no block holds, and complex ones
                volume = np.zeros((4, 300, 300), kind)
                so.convolve(volume, np.zeros((3, 3, 3), kind), method="fft", backend=BACKEND)
        small = Recorder(shared_bytes=SHARED_BYTES)
        with backend(small):  # a line too long for a block
            so.spectral_filter(np.zeros(32768 if dtype == "float32" else 16384, dtype), GAUSSIAN, backend=BACKEND)
        recorder.launched += small.launched
        if dtype == "float32":
            groups = Recorder(warp_groups=True)
            with backend(groups):  # layers of many samples
                for kind in (dtype, "complex64"):
                    x, weight = np.zeros((256, 32, 256), kind), np.zeros((32, 32, 64), "complex64")
                    so.spectral_conv(x, weight, axes=-1, backend=BACKEND)
            recorder.launched += groups.launched
            recorder.launched += [step.kernel for program in LAYERS for step in program.steps]
        for kernel in recorder.launched:
            found[kernel.file, kernel.name.partition("<")[0], real].add(kernel)
    return {family: tuple(sorted(some, key=lambda k: (len(k.name), k.name))) for family, some in found.items()}


def chosen(family: tuple[str, str, str], count: int) -> list[Kernel]:
    """The shortest and the longest names."""
    all_of_it = list({k.name: k for k in kernels()[family]}.values())
    return all_of_it if len(all_of_it) <= count else [*all_of_it[: count - 1], all_of_it[-1]]


FAMILIES = sorted(kernels()) if nvrtc.available() else []


def compiled(some: list[Kernel], index: str, arch: str) -> None:
    names = tuple(kernel.name for kernel in some)
    options = {option for kernel in some for option in kernel.options if not option.startswith("-DINDEX_T=")}
    flags = (*module.OPTIONS, *sorted(options), f"-DINDEX_T={index}")
    result = nvrtc.compile_text(module.assemble(some[0].file), names, arch, flags)
    assert "warning" not in result.log
    for name in names:
        symbol = result.names[name]
        assert symbol.encode() in result.code
        registers, local = result.resources[symbol]
        assert 0 < registers <= 255
        allowed = next((most for start, most in LOCAL.items() if name.startswith(start)), 0)
        assert local <= allowed, f"{name}: {local} bytes in local memory"


@pytest.mark.parametrize("index", PER_KERNEL, ids=lambda index: index.replace(" ", "-"))
@pytest.mark.parametrize("family", FAMILIES, ids="-".join)
def test_compiles_for_hopper(family: tuple[str, str, str], index: str) -> None:
    compiled(chosen(family, PER_KERNEL[index]), index, "sm_90")


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
@pytest.mark.parametrize("file", sorted({file for file, _, _ in FAMILIES} - {"mix_groups.cu"}))
def test_compiles_for_others(file: str, arch: str) -> None:
    """One kernel of each file for Ampere and Blackwell."""
    family = next(family for family in FAMILIES if family[0] == file)
    compiled(chosen(family, 1), "int", arch)


def test_every_kernel_is_recorded() -> None:
    """No kernel of any file is left out."""
    assert written() == {family[:2] for family in kernels()}


def test_an_error_is_seen() -> None:
    with pytest.raises(AssertionError, match=r"identifier .* is undefined"):
        nvrtc.compile_text("__global__ void k() { nothing(); }", ("k",), "sm_90")


def test_spilling_is_seen() -> None:
    text = "template <int N> __global__ void k(float* x) { float y[N]; for (int i = 0; i < N; ++i) y[i] = x[i];\n"
    text += "#pragma unroll\nfor (int i = 0; i < N; ++i) x[i] = y[N - 1 - i] * y[i] + x[2 * N + i]; }"
    result = nvrtc.compile_text(text, ("k<300>",), "sm_90")
    assert set(result.resources) == {result.names["k<300>"]}
    ((_, spilled),) = result.resources.values()
    assert spilled > 0
