"""Kernels of spectral layers: few wavenumbers of long lines, slices of a batch, memory, blocks of few images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cuda_on_host
import numpy as np
import nvrtc
import pytest
from cuda_on_host import BACKEND, backend

import spectralops as so
from spectralops._arrays import ArraySpec
from spectralops._cuda import few, launch, module, planes, pruned, spectral_conv, turned
from spectralops._cuda.pruned import OUT, SPACE
from spectralops._recent import Recent

H200 = launch.Device(0, 132, 227 * 1024)
WITH_GROUPS = replace(H200, warp_groups=True)

pytestmark = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch):
    """The backend on the host, for a test, which finds no program of an earlier one."""
    monkeypatch.setattr(pruned, "_prepared", Recent(256))
    with backend() as runner:
        yield runner


def random_layer(rng, shape: tuple[int, ...], written: int, modes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    weight = rng.standard_normal((shape[1], written, *modes)) + 1j * rng.standard_normal((shape[1], written, *modes))
    return rng.standard_normal(shape).astype("float32"), weight.astype("complex64")


def off(result: Any, expected: Any) -> float:
    """Relative error in L2."""
    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize(("size", "kept", "threads"), [(1024, 16, 32), (2048, 5, 64), (8192, 16, 128), (5120, 1, 32)])
def test_few_wavenumbers_of_long_lines(host, rng, size: int, kept: int, threads: int) -> None:
    x, weight = random_layer(rng, (1, 3, size), 2, (kept,))
    result = so.spectral_conv(x, weight, backend=BACKEND)
    assert off(result, so.spectral_conv(x.astype("float64"), weight.astype("complex128"), backend="numpy")) < 5e-7
    names = [kernel.name.partition("<")[0] for kernel in host.launched]
    assert names == ["few_forward", "mix", "few_inverse"]
    assert few.few_geometry(size, kept, 4) == few.Few(size, threads)


@pytest.mark.parametrize(
    ("size", "kept", "itemsize"), [(1024, 17, 4), (1024, 16, 8), (1000, 4, 4), (512, 4, 4)], ids=str
)
def test_what_has_not_few_wavenumbers(size: int, kept: int, itemsize: int) -> None:
    assert few.few_geometry(size, kept, itemsize) is None


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("stored", ["float", "bfloat16_t"])
def test_few_wavenumbers_compile_without_spills(stored: str, arch: str) -> None:
    names = []
    for which in ("few_forward", "few_inverse"):
        kernel = few.few_kernel(which, (stored, "float"), few.Few(8192, 128), 16, 64, ())
        names.append(kernel.name)
    options = (*module.OPTIONS, launch.index_option(32))
    made = nvrtc.compile_text(module.assemble("few.cu"), tuple(names), arch, options)
    assert [made.resources[made.names[name]][1] for name in names] == [0, 0]


def test_few_wavenumbers_to_another_grid_and_back(host, rng) -> None:
    """One side by sums, the other by transforms; imaginary parts of the mean are not there."""
    x, weight = random_layer(rng, (2, 2, 1024), 3, (7,))
    exact = so.plan_spectral_conv(x.shape, "float64", weight.astype("complex128"), out_shape=(60,), backend="numpy")
    plan = so.plan_spectral_conv(x.shape, "float32", weight, out_shape=(60,), backend=BACKEND)
    y = plan(x, weight)
    assert off(y, exact(x.astype("float64"), weight.astype("complex128"))) < 5e-7
    back = exact.adjoint()(y.astype("float64"), weight.astype("complex128"))
    assert off(plan.adjoint()(y, weight), back) < 5e-7


@pytest.mark.parametrize("depthwise", [False, True], ids=["mixing", "depthwise"])
def test_weight_gradient_of_few_wavenumbers(host, rng, depthwise: bool) -> None:
    x, g = (rng.standard_normal((3, 2, 1024)).astype("float32") for _ in range(2))
    result = so.spectral_conv_weight_gradient(x, g, 6, depthwise=depthwise, backend=BACKEND)
    exact = so.spectral_conv_weight_gradient(
        x.astype("float64"), g.astype("float64"), 6, depthwise=depthwise, backend="numpy"
    )
    assert off(result, exact) < 5e-7


SLICED = [
    # shape, modes, bytes of a weight that may be read again, samples and images at a time
    ((5, 2, 16), (4,), 10**6, (1, 2)),
    ((3, 2, 7, 14), (4, 3), 10**6, (1, 1)),
    ((3, 2, 7, 14), (4, 3), 0, (3, 1)),
    ((2, 2, 5, 7, 7), (2, 3, 3), 0, (2, 1)),
    ((3, 2, 2, 6, 8), (2, 3, 3), 10**6, (1, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize(("shape", "modes", "cached", "at_once"), SLICED, ids=str)
def test_slices(host, rng, monkeypatch: pytest.MonkeyPatch, shape, modes, cached: int, at_once, dtype: str) -> None:
    """One sample, or one image, at a time; the last axis is transformed once for each of them."""
    monkeypatch.setattr(pruned, "SLICED_FROM", 0)
    monkeypatch.setattr(pruned, "SLICE_BYTES", 1)
    monkeypatch.setattr(spectral_conv, "CACHED_WEIGHT_BYTES", cached)
    x, weight = random_layer(rng, shape, 2, modes)
    x = x.astype(dtype)
    result = so.spectral_conv(x, weight.astype("complex64" if dtype == "float32" else "complex128"), backend=BACKEND)
    wide = x.astype("float64" if dtype == "float32" else dtype)
    assert off(result, so.spectral_conv(wide, weight.astype("complex128"), backend="numpy")) < 5e-7
    names = [kernel.name.partition("<")[0] for kernel in host.launched]
    assert sum(name in ("rows_forward", "planes_forward") for name in names) == 2 * shape[0] // at_once[1]
    assert sum(name == "mix" for name in names) == shape[0] // at_once[0]


def test_slices_are_even() -> None:
    each = pruned.SLICE_BYTES // 16
    assert [pruned.slices(n, each) for n in (1, 32, 33, 48, 100, 1000)] == [1, 32, 11, 16, 15, 16]
    assert pruned.slices(3, 2 * pruned.SLICE_BYTES) == 1


def test_slices_of_a_weight_gradient(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruned, "SLICED_FROM", 0)
    monkeypatch.setattr(pruned, "SLICE_BYTES", 1)
    x, g = (rng.standard_normal((2, 2, 7, 14)).astype("float32") for _ in range(2))
    result = so.spectral_conv_weight_gradient(x, g, (4, 3), backend=BACKEND)
    exact = so.spectral_conv_weight_gradient(x.astype("float64"), g.astype("float64"), (4, 3), backend="numpy")
    assert off(result, exact) < 5e-7
    assert len(host.launched) == 2 * 2 * 2 * 2 + 1


def program(shape: tuple[int, ...], dtype: str, modes: tuple[int, ...], **options: Any) -> spectral_conv.Convolution:
    weight = ArraySpec((shape[1], shape[1], *modes), "complex64")
    plan = so.plan_spectral_conv(shape, dtype, weight, device="cuda", **options)
    return spectral_conv.Convolution(plan, np, H200)


@pytest.mark.parametrize(
    ("shape", "modes", "sliced"),
    [((65536, 64, 128), (64,), True), ((1024, 64, 128), (64,), False), ((256, 128, 256, 256), (64, 64), True)],
    ids=str,
)
def test_slices_are_announced(shape: tuple[int, ...], modes: tuple[int, ...], sliced: bool) -> None:
    weight = ArraySpec((shape[1], shape[1], *modes), "complex64")
    told = so.plan_spectral_conv(shape, "complex64", weight, device="cuda").explain()
    assert ("kept wavenumbers alone lie between; for a part of the batch at a time\n" in told) == sliced


def test_scratch_memory_is_that_of_a_slice() -> None:
    assert program((65536, 64, 128), "complex64", (64,)).space_bytes <= pruned.SLICE_BYTES


def spectra(made: spectral_conv.Convolution) -> list[int]:
    """Where the spectra that the mixing reads lie."""
    mixings = [step for step in made.program.steps if step.kernel.name.startswith("mix")]
    return [at.slot for step in mixings for argument, _, at in step.addresses if argument == 0]


def test_spectra_lie_in_the_result_where_there_is_room() -> None:
    assert spectra(program((4, 8, 128), "float32", (64,))) == [OUT]
    assert spectra(program((4, 8, 128), "float32", (65,))) == [SPACE]
    assert spectra(program((4, 8, 128), "float32", (16,), out_shape=(30,))) == [SPACE]


@pytest.mark.parametrize(("size", "slot"), [(12, OUT), (11, SPACE)])
def test_slices_of_the_result_that_hold_spectra_are_aligned(
    monkeypatch: pytest.MonkeyPatch, size: int, slot: int
) -> None:
    monkeypatch.setattr(pruned, "SLICED_FROM", 0)
    monkeypatch.setattr(pruned, "SLICE_BYTES", 1)
    assert spectra(program((2, 1, size), "float32", (3,))) == [slot, slot]


@pytest.mark.parametrize(("images", "threads"), [(1, 512), (132, 512), (133, 256), (396, 256), (397, 128)])
def test_few_images_have_more_threads_each(images: int, threads: int) -> None:
    first = program((1, images, 128, 128), "float32", (32, 16)).program.steps[0].kernel
    assert (first.block, first.grid) == ((threads,), (images,))


def test_images_of_whole_spectra_have_their_threads() -> None:
    plane = planes.plane_geometry((64, 64), 33, 4, H200.shared_bytes)
    assert plane is not None
    assert plane.shared_out(1, H200.shared_bytes, 132) is plane


@pytest.mark.parametrize("threads", [256, 512])
def test_images_by_more_threads(host, rng, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(planes, "MORE_THREADS", (threads,))
    x, weight = random_layer(rng, (1, 2, 32, 32), 2, (6, 5))
    result = so.spectral_conv(x, weight, backend=BACKEND)
    assert host.launched[0].block == host.launched[2].block == (threads,)
    assert off(result, so.spectral_conv(x.astype("float64"), weight.astype("complex128"), backend="numpy")) < 5e-7


def names(kernels: list[launch.Kernel]) -> list[str]:
    return [kernel.name.partition("<")[0] for kernel in kernels]


def test_many_samples_are_mixed_by_groups_of_warps(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real lines with samples that no whole group has, and the adjoint with its weights the other way round."""
    monkeypatch.setattr(pruned, "_prepared", Recent(256))
    x, weight = random_layer(rng, (66, 32, 8), 32, (3,))
    exact = so.plan_spectral_conv(x.shape, "float64", weight.astype("complex128"), backend="numpy")
    with backend(cuda_on_host.HostRunner(warp_groups=True)) as runner:
        plan = so.plan_spectral_conv(x.shape, "float32", weight, backend=BACKEND)
        y = plan(x, weight)
        back = plan.adjoint()(y, weight)
        assert "over the channels on tensor cores, in parts of 11 bits, " in spectral_conv.algorithm(plan)
    assert names(runner.launched) == ["turned_forward", "mix_groups", "turned_inverse"] * 2
    assert off(y, exact(x.astype("float64"), weight.astype("complex128"))) < 3e-7
    assert off(back, exact.adjoint()(y.astype("float64"), weight.astype("complex128"))) < 3e-7


def test_many_complex_samples_by_groups_of_warps(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a prime length, fewer channels than a warp has lanes, several blocks of channels."""
    monkeypatch.setattr(pruned, "_prepared", Recent(256))
    x, weight = random_layer(rng, (65, 8, 7), 64, (4,))
    x = x + 1j * x[::-1]
    with backend(cuda_on_host.HostRunner(warp_groups=True)) as runner:
        result = so.spectral_conv(x, weight, backend=BACKEND)
    assert names(runner.launched) == ["turned_forward", "mix_groups", "turned_inverse"]
    expected = so.spectral_conv(x.astype("complex128"), weight.astype("complex128"), backend="numpy")
    assert off(result, expected) < 3e-7


@pytest.mark.parametrize(
    ("samples", "read", "written", "device", "mixed"),
    [
        (64, 64, 32, WITH_GROUPS, True),
        (64, 64, 32, H200, False),
        (63, 8, 32, WITH_GROUPS, False),
        (64, 72, 32, WITH_GROUPS, False),
        (64, 60, 32, WITH_GROUPS, False),
        (64, 64, 48, WITH_GROUPS, False),
        (256, 208, 64, WITH_GROUPS, True),
        (256, 216, 64, WITH_GROUPS, False),
    ],
)
def test_what_groups_of_warps_mix(samples: int, read: int, written: int, device: launch.Device, mixed: bool) -> None:
    assert turned.mixed_by_groups(device, samples, read, written) == mixed


@pytest.mark.parametrize(
    ("samples", "read", "modes", "template", "grid", "threads", "shared"),
    [
        (1024, 64, 64, "64, 4, 4", 128, 512, 128),
        (128, 32, 64, "32, 2, 4", 128, 256, 64),
        (64, 24, 3, "24, 1, 1", 6, 128, 28),
        (1000, 16, 3, "16, 4, 2", 24, 512, 48),
        (1000, 208, 3, "208, 4, 1", 24, 512, 224),
    ],
)
def test_blocks_of_groups(
    samples: int, read: int, modes: int, template: str, grid: int, threads: int, shared: int
) -> None:
    """Kilobytes for the weights and for what is on its way; several blocks a wavenumber where these are few."""
    kernel = turned.groups_kernel(samples, read, 64, modes, "WEIGHT", WITH_GROUPS, ("-DX",))
    assert (kernel.name, kernel.options) == (f"mix_groups<{template}, WEIGHT>", ("-DX", "-arch=sm_90a"))
    assert (kernel.grid, kernel.block, kernel.shared) == ((grid,), (threads,), shared * 1024)


@pytest.mark.parametrize(
    ("shape", "dtype", "modes", "together"),
    [
        ((1024, 64, 128), "float32", (64,), (8, 8)),
        ((1024, 64, 128), "complex64", (64,), (16, 16)),
        ((64, 32, 2048), "float32", (200,), (4, 4)),
        ((64, 32, 4096), "float32", (200,), (2, 2)),
        ((64, 32, 8192), "float32", (200,), None),
        ((64, 32, 8192), "float32", (16,), None),
        ((64, 32, 128), "float64", (16,), None),
        ((64, 32, 8, 128), "float32", (4, 16), None),
    ],
    ids=str,
)
def test_lines_whose_spectra_have_the_wavenumber_first(shape, dtype: str, modes, together) -> None:
    weight = ArraySpec((shape[1], shape[1], *modes), "complex128" if dtype == "float64" else "complex64")
    plan = so.plan_spectral_conv(shape, dtype, weight, axes=tuple(range(2, len(shape))), device="cuda")
    found = spectral_conv.Convolution(plan, np, WITH_GROUPS).turned
    assert (None if found is None else tuple(each.lines for each in found)) == together
    assert spectral_conv.Convolution(plan, np, H200).turned is None


def test_channels_by_themselves_need_no_groups() -> None:
    weight = ArraySpec((64, 16), "complex64")
    plan = so.plan_spectral_conv((64, 64, 128), "float32", weight, depthwise=True, device="cuda")
    assert spectral_conv.Convolution(plan, np, WITH_GROUPS).turned is None


def test_layers_begin_early_and_gradients_with_their_transforms() -> None:
    """No launch of a program but the first, which nothing else depends on, needs the end of the one before to begin."""
    assert all(step.kernel.early for step in program((4, 8, 128), "float32", (16,)).program.steps)
    assert all(step.kernel.early for step in program((4, 8, 16, 16, 16), "float32", (4, 4, 4)).program.steps)


def test_short_rows_leave_registers_for_more_blocks() -> None:
    first = program((16, 32, 64, 64), "float32", (24, 12)).program.steps[0].kernel
    assert (first.block, first.grid) == ((256,), (512,))
