"""Benchmark cases as data: a builder turns one shape into our call, the plain pipelines beside it and the right result.

`benchmarks/cases.py` has the full list, :data:`SHORT` the one of ``python -m spectralops bench``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import spectralops
from spectralops._cli.contest import Case, Contestant, Setup, optional

__all__ = ["SHORT", "burgers", "convolution", "diffusion", "dense_conv", "depthwise_conv", "layer", "low_pass"]

FLOAT32_EPS = 2.0**-23


def _random(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _complex(shape: tuple[int, ...], seed: int = 1) -> Any:
    return (_random(shape, seed) + 1j * _random(shape, seed + 1)).astype(np.complex64)


def _fft_tolerance(*sizes: int) -> float:
    return 4 * FLOAT32_EPS * max(math.log2(max(sizes)), 4)


def low_pass(shape: tuple[int, ...], ndim: int) -> Case:
    """``irfftn(rfftn(x) * H)`` over the last `ndim` axes of a float32 array, H real and given as an array."""

    def build() -> Setup:
        fft = optional("scipy.fft")
        x, axes = _random(shape), tuple(range(-ndim, 0))
        sizes = shape[-ndim:]
        k = [np.fft.fftfreq(n) for n in sizes[:-1]] + [np.fft.rfftfreq(sizes[-1])]
        squares = np.meshgrid(*(ki**2 for ki in k), indexing="ij", sparse=True)
        transfer = np.exp(-40 * sum(squares)).astype(np.float32)

        def pipeline(library: Any, values: Any, factor: Any, **options: Any) -> Any:
            spectrum = library.rfftn(values, None, axes, **options)
            return library.irfftn(spectrum * factor, sizes, axes, **options)

        contestants = {
            "spectralops": Contestant(partial(spectralops.spectral_filter, x, transfer, axes=axes)),
            "spectralops w2": Contestant(partial(spectralops.spectral_filter, x, transfer, axes=axes, workers=2), 2),
            "scipy": Contestant(partial(pipeline, fft, x, transfer)),
            "scipy w2": Contestant(partial(pipeline, fft, x, transfer, workers=2), 2),
            "numpy": Contestant(partial(pipeline, np.fft, x, transfer)),
        }
        if torch := optional("torch"):
            tensors = torch.from_numpy(x), torch.from_numpy(transfer)
            for name, threads in (("torch", 1), ("torch w2", 2)):
                contestants[name] = Contestant(partial(pipeline, torch.fft, *tensors), threads)
        expected = pipeline(fft, x.astype(np.float64), transfer)
        return Setup(contestants, expected, _fft_tolerance(math.prod(sizes)), 2 * x.nbytes + transfer.nbytes)

    return Case(f"filter {ndim}d", "x".join(map(str, shape)), build)


def layer(batch: int, channels: int, sizes: tuple[int, ...], modes: int) -> Case:
    """The spectral layer of a Fourier neural operator: rfftn, mixing of the lowest modes, irfftn."""
    ndim = len(sizes)

    def build() -> Setup:
        x = _random((batch, channels, *sizes))
        weight = _complex((channels, channels, *(2 * modes,) * (ndim - 1), modes)) / np.float32(channels)
        axes = tuple(range(-ndim, 0))
        letters = "xyz"[:ndim]
        formula = f"bi{letters},io{letters}->bo{letters}"
        # A full axis keeps its first and last `modes` entries, which in the weight are the upper and the lower half.
        halves = ((slice(None, modes), slice(modes, None)), (slice(-modes, None), slice(None, modes)))
        corners = [
            ((..., *(kept for kept, _ in corner), slice(modes)), (..., *(own for _, own in corner), slice(None)))
            for corner in itertools.product(halves, repeat=ndim - 1)
        ]

        def pipeline(
            library: Any, mix: Callable[..., Any], values: Any, factor: Any, zeros: Any, **options: Any
        ) -> Any:
            spectrum = library.rfftn(values, None, axes, **options)
            mixed = zeros(spectrum.shape, dtype=spectrum.dtype)
            for kept, own in corners:
                mixed[kept] = mix(formula, spectrum[kept], factor[own])
            return library.irfftn(mixed, sizes, axes, **options)

        fft, mix = optional("scipy.fft"), partial(np.einsum, optimize=True)
        ours = partial(spectralops.spectral_conv, x, weight)
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
            "scipy": Contestant(partial(pipeline, fft, mix, x, weight, np.zeros)),
            "scipy w2": Contestant(partial(pipeline, fft, mix, x, weight, np.zeros, workers=2), 2),
            "numpy": Contestant(partial(pipeline, np.fft, mix, x, weight, np.zeros)),
        }
        if torch := optional("torch"):
            tensors = torch.from_numpy(x), torch.from_numpy(weight)
            for name, threads in (("torch", 1), ("torch w2", 2)):
                call = partial(pipeline, torch.fft, torch.einsum, *tensors, torch.zeros)
                contestants[name] = Contestant(call, threads)
        expected = pipeline(fft, mix, x.astype(np.float64), weight.astype(np.complex128), np.zeros)
        tolerance = _fft_tolerance(math.prod(sizes)) * math.sqrt(channels)
        return Setup(contestants, expected, tolerance, 2 * x.nbytes + weight.nbytes)

    return Case(f"spectral_conv {ndim}d", f"B{batch} C{channels} {'x'.join(map(str, sizes))} modes {modes}", build)


def _laplacian_numbers(u: Any, axes: tuple[int, ...], roll: Callable[..., Any]) -> Any:
    total = -2 * len(axes) * u
    for axis in axes:
        total = total + roll(u, 1, axis) + roll(u, -1, axis)
    return total


def _repeat(step: Callable[[Any], Any], u: Any, steps: int) -> Any:
    for _ in range(steps):
        u = step(u)
    return u


def _steps(group: str, shape: tuple[int, ...], ndim: int, steps: int, ours: Callable[..., Any], step: Any) -> Case:
    """A periodic explicit step; times are per step."""

    def build() -> Setup:
        u = _random(shape) * np.float32(0.1)
        axes = tuple(range(-ndim, 0))
        call = partial(ours, u, axes=axes, steps=steps)
        contestants = {
            "spectralops": Contestant(call),
            "spectralops w2": Contestant(partial(call, workers=2), 2),
            "numpy": Contestant(partial(_repeat, partial(step, axes=axes, roll=np.roll), u, steps)),
        }
        if torch := optional("torch"):
            tensor = torch.from_numpy(u)
            for name, threads in (("torch", 1), ("torch w2", 2)):
                contestants[name] = Contestant(
                    partial(_repeat, partial(step, axes=axes, roll=torch.roll), tensor, steps), threads
                )
        expected = _repeat(partial(step, axes=axes, roll=np.roll), u.astype(np.float64), steps)
        return Setup(contestants, expected, 8 * FLOAT32_EPS * steps, 2 * u.nbytes, steps)

    return Case(group, f"{'x'.join(map(str, shape))} {ndim}d steps {steps}", build)


def diffusion(shape: tuple[int, ...], ndim: int, steps: int) -> Case:
    """Explicit diffusion at dt nu / dx^2 = 0.1, periodic."""

    def step(u: Any, axes: tuple[int, ...], roll: Callable[..., Any]) -> Any:
        return u + 0.1 * _laplacian_numbers(u, axes, roll)

    ours = partial(spectralops.diffusion_step, dx=1.0, dt=0.1, nu=1.0)
    return _steps("diffusion", shape, ndim, steps, ours, step)


def burgers(shape: tuple[int, ...], ndim: int, steps: int) -> Case:
    """Viscous Burgers for one scalar, central differences, periodic."""

    def step(u: Any, axes: tuple[int, ...], roll: Callable[..., Any]) -> Any:
        slope = sum(roll(u, -1, axis) - roll(u, 1, axis) for axis in axes)
        return u + 0.1 * _laplacian_numbers(u, axes, roll) - 0.05 * u * slope

    ours = partial(spectralops.diffuse_convect_step, dx=1.0, dt=0.1, nu=1.0)
    return _steps("Burgers", shape, ndim, steps, ours, step)


def _conv2d(
    group: str, batch: int, channels: int, size: int, kernel: int, depthwise: bool, skip: dict[str, str]
) -> Case:
    def build() -> Setup:
        fft = optional("scipy.fft")
        x = _random((batch, channels, size, size))
        weight = _random((channels, 1 if depthwise else channels, kernel, kernel), 1) / np.float32(kernel)
        groups = channels if depthwise else 1
        formula = "bcyx,cyx->bcyx" if depthwise else "bcyx,ocyx->boyx"
        full = fft.next_fast_len(size + kernel - 1, real=True)

        def pipeline(library: Any, values: Any, kernels: Any, **options: Any) -> Any:
            spectrum = library.rfft2(values, (full, full), **options)
            factor = library.rfft2(kernels[:, 0] if depthwise else kernels, (full, full), **options).conj()
            result = library.irfft2(np.einsum(formula, spectrum, factor, optimize=True), (full, full), **options)
            return np.roll(result, ((kernel - 1) // 2,) * 2, (-2, -1))[..., :size, :size]

        ours = partial(spectralops.fft_conv2d, x, weight, padding="same", groups=groups)
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
            "scipy": Contestant(partial(pipeline, fft, x, weight)),
            "scipy w2": Contestant(partial(pipeline, fft, x, weight, workers=2), 2),
            "numpy": Contestant(partial(pipeline, np.fft, x, weight)),
        }
        if torch := optional("torch"):
            tensors = torch.from_numpy(x), torch.from_numpy(weight)
            call = partial(torch.nn.functional.conv2d, *tensors, padding="same", groups=groups)
            contestants["torch"] = Contestant(call)
            contestants["torch w2"] = Contestant(call, 2)
        expected = pipeline(fft, x.astype(np.float64), weight.astype(np.float64))
        tolerance = _fft_tolerance(full * full) * math.sqrt(channels / groups)
        return Setup(contestants, expected, tolerance, 2 * x.nbytes + weight.nbytes)

    return Case(group, f"B{batch} C{channels} {size}x{size} K{kernel}", build, skip)


def dense_conv(batch: int, channels: int, size: int, kernel: int, skip: dict[str, str] | None = None) -> Case:
    """conv2d with every channel mixed into every other, padding "same"."""
    return _conv2d("conv2d dense", batch, channels, size, kernel, False, skip or {})


def depthwise_conv(batch: int, channels: int, size: int, kernel: int, skip: dict[str, str] | None = None) -> Case:
    """conv2d of each channel with its own kernel, padding "same"."""
    return _conv2d("conv2d depthwise", batch, channels, size, kernel, True, skip or {})


def convolution(size: int, kernel: int) -> Case:
    """One image with one kernel, true convolution, "same"."""

    def build() -> Setup:
        signal = optional("scipy.signal")
        x, taps = _random((size, size)), _random((kernel, kernel), 1) / np.float32(kernel)
        ours = partial(spectralops.convolve, x, taps, mode="same")
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
            "scipy": Contestant(partial(signal.fftconvolve, x, taps, mode="same")),
            "scipy oaconvolve": Contestant(partial(signal.oaconvolve, x, taps, mode="same")),
        }
        expected = signal.fftconvolve(x.astype(np.float64), taps.astype(np.float64), mode="same")
        return Setup(contestants, expected, _fft_tolerance((size + kernel) ** 2), 2 * x.nbytes + taps.nbytes)

    return Case("convolve", f"{size}x{size} K{kernel}", build)


SHORT: tuple[Case, ...] = (
    low_pass((8, 256, 256), 2),
    low_pass((256, 1024), 1),
    low_pass((64, 64, 64), 3),
    layer(8, 32, (64, 64), 12),
    layer(8, 32, (512,), 32),
    diffusion((512, 512), 2, 16),
    burgers((512, 512), 2, 16),
    diffusion((64, 64, 64), 3, 4),
    depthwise_conv(2, 16, 112, 15),
    convolution(512, 31),
)
