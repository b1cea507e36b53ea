"""A small call of every kernel, on memory of its own: what `compute-sanitizer` watches, as docs/adding.md says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from cuda_on_host import BACKEND, Recorder, backend, written
from support import random_array

import spectralops as so
from spectralops._cuda import channels, launch, spectral_filter_layout
from spectralops._cuda.program import address

GAUSSIAN = so.transfer.gaussian(1.0)
WALLS = (so.Dirichlet(0.5), (so.Neumann(0.25), so.Hold()))
Shapes = tuple[tuple[int, ...], ...]


def filtered(*axes: int) -> Callable[..., Any]:
    return lambda x, **tail: so.spectral_filter(x, GAUSSIAN, axes=axes, **tail)


def layer(*axes: int, **options: Any) -> Callable[..., Any]:
    return lambda x, w, **tail: so.spectral_conv(x, w + 0j, axes=axes, **options, **tail)


def convolved(*axes: int, **options: Any) -> Callable[..., Any]:
    return lambda x, k, **tail: so.convolve(x, k, mode="same", axes=axes, **options, **tail)


def over_channels(method: str, **options: Any) -> Callable[..., Any]:
    return lambda x, k, **tail: so.fft_conv2d(x, k, padding="same", method=method, **options, **tail)


def diffused(count: int, *axes: int, **options: Any) -> Callable[..., Any]:
    return lambda u, nu=1.0, **tail: so.diffusion_step(u, 1.0, 0.1, nu, axes=axes, steps=count, **options, **tail)


def carried(u: Any, wind: Any, **tail: Any) -> Any:
    terms = [so.Diffusion(0.1), so.Advection((wind, 1.0), "weno5", "flux")]
    return so.pde_step(u, 1.0, 0.1, terms, bc=WALLS, integrator="rk4", on_unstable="ignore", **tail)


def smoothed(*axes: int) -> Callable[..., Any]:
    def call(u: Any, sea: Any, **tail: Any) -> Any:
        return so.diffusion_filter(u, 1.5, (1.0,) * len(axes), n_steps=8, mask=sea > 0.5, axes=axes, **tail)

    return call


# name -> shapes of the arrays, the call
CALLS: dict[str, tuple[Shapes, Callable[..., Any]]] = {
    "lines": (((5, 24),), filtered(1)),
    "odd lines": (((5, 17),), filtered(1)),
    "lines of a large prime": (((64, 97),), filtered(1)),
    "lines of a cluster": (((64, 65536),), filtered(1)),
    "images": (((2, 6, 8),), filtered(1, 2)),
    "images in a block": (((3, 32, 16),), filtered(1, 2)),
    "large images in a block": (((1, 128, 96),), filtered(1, 2)),
    "an image of a cluster": (((128, 256),), filtered(0, 1)),
    "a volume of clusters": (((2, 128, 256),), filtered(0, 1, 2)),
    "columns of a cluster": (((8192, 16),), filtered(0, 1)),
    "volumes": (((4, 32, 16),), filtered(0, 1, 2)),
    "a layer of lines": (((2, 2, 16), (2, 3, 5)), layer(-1)),
    "a layer of many samples": (((70, 8, 16), (8, 32, 5)), layer(-1)),
    "a layer of few wavenumbers": (((1, 2, 1024), (2, 2, 16)), layer(-1)),
    "a layer of images": (((2, 2, 6, 8), (2, 3, 4, 5)), layer(-2, -1)),
    "a layer of images in a block": (((2, 2, 32, 16), (2, 3, 6, 5)), layer(-2, -1)),
    "each channel by itself": (((2, 2, 6, 8), (2, 4, 5)), layer(-2, -1, depthwise=True)),
    "gradients of weights": (
        ((2, 2, 16), (2, 3, 16)), lambda x, g, **tail: so.spectral_conv_weight_gradient(x, g, 5, axes=-1, **tail)
    ),
    "gradients of weights of each channel": (
        ((2, 2, 16), (2, 2, 16)),
        lambda x, g, **tail: so.spectral_conv_weight_gradient(x, g, 5, axes=-1, depthwise=True, **tail),
    ),
    "direct sums": (((2, 20), (5,)), convolved(1, method="direct")),
    "direct sums of planes": (((2, 9, 12), (3, 3)), convolved(1, 2, method="direct")),
    "direct sums over channels": (((1, 3, 9, 10), (4, 3, 3, 3)), over_channels("direct")),
    "direct sums of volumes": (((2, 9, 20, 12), (3, 3, 3)), convolved(1, 2, 3, method="direct")),
    "tiles": (((2, 40, 35), (5, 4)), convolved(1, 2, method="tiles")),
    "tiles of a line": (((2, 701), (9,)), convolved(1, method="tiles")),
    "tiles over channels": (((1, 3, 20, 22), (4, 3, 5, 5)), over_channels("tiles")),
    "complex tiles over channels": (
        ((1, 3, 20, 22), (4, 3, 5, 5)), lambda x, k, **tail: over_channels("tiles")(x + 1j * x, k, **tail)
    ),
    "pairs of columns": (((2, 4, 16, 16), (4, 1, 31, 31)), over_channels("fft", groups=4)),
    "a packed image": (((256, 256), (256, 256)), convolved(0, 1)),
    "volumes of planes in a block": (((2, 30, 11, 13), (3, 2, 4)), convolved(1, 2, 3, method="tiles")),
    "volumes of large planes": (((4, 260, 260), (3, 3, 3)), convolved(0, 1, 2, method="fft")),
    "complex volumes": (
        ((7, 11, 13), (3, 2, 4)), lambda x, k, **tail: convolved(0, 1, 2, method="fft")(x + 1j * x, k, **tail)
    ),
    "packed lines": (((4, 1024), (1024,)), convolved(1, method="fft")),
    "a step of lines": (((3, 400),), diffused(1, 1)),
    "steps of lines": (((3, 400),), diffused(3, 1, bc=WALLS[:1])),
    "a step of planes": (((2, 37, 200),), diffused(1, 1, 2, bc=WALLS)),
    "steps of planes": (((37, 200),), diffused(27, 0, 1, bc=WALLS)),
    "a step of volumes": (((7, 33, 68),), diffused(1, 0, 1, 2)),
    "steps of volumes": (((7, 33, 68),), diffused(5, 0, 1, 2, bc=(WALLS[0], *WALLS))),
    "coefficients of each grid": (((3, 9, 12), (3, 1, 1)), diffused(3, 1, 2)),
    "stages": (((9, 13), (9, 13)), carried),
    "levels of lines": (((3, 300), (300,)), smoothed(1)),
    "levels of planes": (((2, 23, 200), (23, 200)), smoothed(1, 2)),
    "levels of volumes": (((7, 9, 40), (7, 9, 40)), smoothed(0, 1, 2)),
}  # fmt: skip
# Fields that steps and filters read and write in 16 bits, in words of two and more.
IN_16_BITS = ("lines", "images in a block", "a step of planes", "steps of planes", "steps of volumes", "stages")
VARIANTS = [(name, "float32") for name in CALLS] + [(name, "float16") for name in IN_16_BITS]
VARIANTS.append(("a step of planes", "float64"))  # beside walls row by row, of which there are not whole groups


def arrays_of(name: str, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    return [abs(random_array(rng, shape, "float32")).astype(dtype) for shape in CALLS[name][0]]


def halves(x: Any, **tail: Any) -> Any:
    """Lines whose halves two blocks transform, as on devices without clusters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectral_filter_layout, "spread_lines", lambda *arguments: None)
        return so.spectral_filter(x, GAUSSIAN, axes=1, **tail)


HALVES = (2, 65536)


def layers_programs(multiprocessors: int) -> list[tuple[Any, list[int]]]:
    """What PyTorch's layers launch besides, with the numbers of each address, 0 for null."""
    outer, scratch = channels.outer(2, 6, 5, 44, multiprocessors)
    return [
        (channels.mapped(2, 6, 5, 44, False, True), [30, 440, 528, 6, 6, 528, 528]),
        (channels.gelu_backward(2, 5, 44), [440, 440, 5, 0, 440]),
        (outer, [528, 440, scratch, 6 * 5 + 2 * 6]),
    ]


def test_every_kernel_is_called() -> None:
    recorder = Recorder(warp_groups=True)
    with backend(recorder):
        for name, (_, call) in CALLS.items():
            call(*arrays_of(name), backend=BACKEND)
        halves(np.zeros(HALVES, np.float32), backend=BACKEND)
    found = {kernel.name.partition("<")[0] for kernel in recorder.launched}
    found |= {step.kernel.name.partition("<")[0] for program, _ in layers_programs(4) for step in program.steps}
    assert found == {name for _, name in written()}


@pytest.fixture(scope="module")
def compiled() -> None:
    """Kernels are compiled side by side: that takes longer than all else."""
    cupy = pytest.importorskip("cupy")

    def call(name: str, dtype: str) -> None:
        CALLS[name][1](*map(cupy.asarray, arrays_of(name, dtype)))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(call, *zip(*VARIANTS, strict=True)))


@pytest.fixture
def memory_of_its_own(compiled: None) -> Iterator[None]:
    """Every array is an allocation of the driver's, so that whoever leaves it is seen."""
    cupy = pytest.importorskip("cupy")
    launch.clear()
    with cupy.cuda.using_allocator(None):
        yield
        cupy.cuda.get_current_stream().synchronize()
    launch.clear()


@pytest.mark.gpu
@pytest.mark.usefixtures("memory_of_its_own")
class TestOnDevice:
    @pytest.mark.parametrize(("name", "dtype"), VARIANTS)
    def test_calls(self, name: str, dtype: str) -> None:
        cupy = pytest.importorskip("cupy")
        arrays, call = arrays_of(name, dtype), CALLS[name][1]
        found = call(*map(cupy.asarray, arrays)).get()
        expected = call(*arrays, backend="numpy")
        bound = 2e-3 if dtype == "float16" else 1e-4
        assert np.abs(found - expected).max() <= bound * np.abs(expected).max()

    def test_halves(self, rng: np.random.Generator) -> None:
        cupy = pytest.importorskip("cupy")
        x = rng.standard_normal(HALVES).astype(np.float32)
        found = halves(cupy.asarray(x)).get()
        assert np.abs(found - so.spectral_filter(x, GAUSSIAN, axes=1, backend="numpy")).max() < 1e-4

    def test_layers(self) -> None:
        cupy = pytest.importorskip("cupy")
        for program, sizes in layers_programs(launch.cuda_runner.device().multiprocessors):
            arrays = [cupy.zeros(size, np.float32) if size else None for size in sizes]
            program.run(launch.cuda_runner, [0 if array is None else address(array) for array in arrays])
            assert all(cupy.isfinite(array).all() for array in arrays if array is not None)
