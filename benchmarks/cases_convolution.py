"""Claims about fft_conv2d against torch's conv2d and about convolve against scipy.signal, one thread each."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
import scipy.signal
from claims import Claim, Ratio

import spectralops
from spectralops._cli.contest import Case, Contestant, Setup, optional

__all__ = ["CLAIMS", "conv2d", "convolve"]

EPS = 2.0**-23
TORCH = ("torch", "torch channels last")
SCIPY = ("scipy convolve", "scipy fftconvolve", "scipy oaconvolve")


def _same(x: Any, weight: Any, groups: int) -> Any:
    """The right result in float64: one transform per image, odd kernels, padding "same"."""
    (n, _, *sizes), k = x.shape, weight.shape[-1]
    full = [scipy.fft.next_fast_len(size + k - 1, real=True) for size in sizes]
    spectrum = scipy.fft.rfft2(x.astype(float), full).reshape(n, groups, -1, full[0], full[1] // 2 + 1)
    factor = scipy.fft.rfft2(weight[..., ::-1, ::-1].astype(float), full).reshape(groups, -1, *spectrum.shape[2:])
    mixed = np.einsum("ngcyx,gocyx->ngoyx", spectrum, factor, optimize=True)
    result = scipy.fft.irfft2(mixed, full).reshape(n, -1, *full)
    half = k // 2
    return result[..., half : half + sizes[0], half : half + sizes[1]]


def conv2d(batch: int, inputs: int, outputs: int, size: int, kernel: int, depthwise: bool = False) -> Case:
    """A layer with padding "same": all channels mixed, or each with its own kernel."""

    def build() -> Setup:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((batch, inputs, size, size), np.float32)
        weight = rng.standard_normal((outputs, 1 if depthwise else inputs, kernel, kernel), np.float32) / kernel
        groups = inputs if depthwise else 1
        ours = partial(spectralops.fft_conv2d, x, weight, padding=kernel // 2, groups=groups)
        contestants = {"spectralops": Contestant(ours), "spectralops w2": Contestant(partial(ours, workers=2), 2)}
        if torch := optional("torch"):
            tensors = torch.from_numpy(x), torch.from_numpy(weight)
            last = [tensor.contiguous(memory_format=torch.channels_last) for tensor in tensors]
            for name, arguments in zip(TORCH, (tensors, last), strict=True):
                call = partial(torch.nn.functional.conv2d, *arguments, padding=kernel // 2, groups=groups)
                contestants[name] = Contestant(torch.no_grad()(call))
        # float32 sums of so many terms.
        tolerance = EPS * math.log2(size * size) * math.sqrt(inputs / groups)
        return Setup(contestants, _same(x, weight, groups), tolerance, 2 * x.nbytes + weight.nbytes)

    kind = "depthwise" if depthwise else "dense"
    channels = f"{inputs}" if depthwise else f"{inputs}→{outputs}"
    return Case(f"conv2d {kind}", f"{batch}×{channels}×{size}² K={kernel}", build)


def convolve(size: int, kernel: int) -> Case:
    """One image with one kernel, the same size out."""

    def build() -> Setup:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((size, size), np.float32)
        taps = rng.standard_normal((kernel, kernel), np.float32) / kernel
        ours = partial(spectralops.convolve, x, taps, mode="same")
        calls = (scipy.signal.convolve, scipy.signal.fftconvolve, scipy.signal.oaconvolve)
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
            **{name: Contestant(partial(call, x, taps, mode="same")) for name, call in zip(SCIPY, calls, strict=True)},
        }
        expected = scipy.signal.fftconvolve(x.astype(float), taps.astype(float), mode="same")
        return Setup(contestants, expected, EPS * math.log2(size * size), 2 * x.nbytes + taps.nbytes)

    return Case("convolve", f"{size}² K={kernel}", build)


def claim(case: Case, against: tuple[str, ...], least: float, quick: bool = False) -> Claim:
    """Against others, and two threads against one."""
    return Claim(case, (Ratio(against, least), Ratio(("spectralops",), 1.7, "spectralops w2")), quick)


CLAIMS: list[Claim] = [
    *(claim(conv2d(8, 16, 32, 224, k), TORCH, least, k == 5) for k, least in ((5, 2.2), (7, 4.0), (15, 30.0))),
    *(
        claim(conv2d(8, 64, 64, 224, k, True), TORCH, least, k == 3)
        for k, least in ((3, 5.0), (7, 5.0), (15, 40.0), (31, 150.0))
    ),
    *(claim(convolve(2048, k), SCIPY, least, k == 5) for k, least in ((5, 8.0), (15, 7.0), (63, 5.0), (255, 3.0))),
]
