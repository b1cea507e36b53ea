"""Claims about spectral_conv, its adjoint and its weight gradient against the plain PyTorch pipeline, one thread each.

The plain pipeline is what Fourier neural operators are published with: rfftn, einsum over the corners of the spectrum
that are kept, irfftn. Backward passes are compared with autograd through it: those of `spectralops.torch`, which keeps
the modes of the field as that does its spectrum, and transforms the incoming gradient once for both results.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from claims import Claim, Ratio

import spectralops
from spectralops._cli.contest import Case, Contestant, Setup, optional

__all__ = ["CLAIMS", "backward", "forward", "pipeline", "sweep_cases"]


def pipeline(
    library: Any, mix: Any, zeros: Any, x: Any, weight: Any, sizes: tuple[int, ...], modes: int, out: Any = None
) -> Any:
    """The layer as usually written, with the lowest `modes` of each axis; the weight's full axes are centred."""
    axes = tuple(range(-len(sizes), 0))
    spectrum = library.rfftn(x, None, axes)
    shape = (*spectrum.shape[:1], weight.shape[1], *spectrum.shape[2:])
    mixed = zeros(shape, dtype=spectrum.dtype)
    letters = "xyz"[: len(sizes)]
    halves = ((slice(None, modes), slice(modes, None)), (slice(-modes, None), slice(None, modes)))
    for corner in itertools.product(halves, repeat=len(sizes) - 1):
        kept = (..., *(here for here, _ in corner), slice(modes))
        own = (..., *(there for _, there in corner), slice(None))
        mixed[kept] = mix(f"bi{letters},io{letters}->bo{letters}", spectrum[kept], weight[own])
    return library.irfftn(mixed, sizes, axes, out=out)


def _arrays(batch: int, read: int, written: int, sizes: tuple[int, ...], modes: int, dtype: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shape = (read, written, *(2 * modes,) * (len(sizes) - 1), modes)
    weight = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / read
    x, gradient = (rng.standard_normal((batch, count, *sizes)) for count in (read, written))
    kind = "complex64" if dtype == "float32" else "complex128"
    return x.astype(dtype), weight.astype(kind), gradient.astype(dtype)


def _tolerance(dtype: str, sizes: tuple[int, ...], channels: int) -> float:
    return 2 * float(np.finfo(dtype).eps) * max(math.log2(math.prod(sizes)), 4.0) * math.sqrt(math.log2(channels + 1))


def _torch_pipeline(torch: Any, *tensors: Any, **geometry: Any) -> Any:
    return pipeline(torch.fft, torch.einsum, torch.zeros, *tensors, **geometry)


def forward(batch: int, read: int, written: int, sizes: tuple[int, ...], modes: int, dtype: str = "float32") -> Case:
    """One layer, into memory that is there: fresh pages cost the system more than the layer costs us."""

    def build() -> Setup:
        x, weight, gradient = _arrays(batch, read, written, sizes, modes, dtype)
        geometry: dict[str, Any] = {"sizes": sizes, "modes": modes}
        ours = partial(spectralops.spectral_conv, x, weight, out=np.empty_like(gradient))
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
        }
        if torch := optional("torch"):
            tensors = torch.from_numpy(x), torch.from_numpy(weight)
            geometry["out"] = torch.empty(gradient.shape, dtype=tensors[0].dtype)
            contestants["torch"] = Contestant(partial(_torch_pipeline, torch, *tensors, **geometry))
        exact = x.astype(np.float64), weight.astype(np.complex128)
        expected = spectralops.spectral_conv(*exact, backend="numpy")
        return Setup(contestants, expected, _tolerance(dtype, sizes, read), 2 * x.nbytes + weight.nbytes)

    return Case(f"spectral_conv {len(sizes)}d {dtype}", _name(batch, read, written, sizes, modes), build)


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients with respect to x and the weight, as one array for those who ask."""

    x: Any
    weight: Any

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        both = np.concatenate([np.ravel(self.x), np.ravel(self.weight)])
        return both if dtype is None else both.astype(dtype)


def backward(batch: int, read: int, written: int, sizes: tuple[int, ...], modes: int, dtype: str = "float32") -> Case:
    """Both gradients of one layer, from that of its result."""

    def build() -> Setup:
        x, weight, gradient = _arrays(batch, read, written, sizes, modes, dtype)

        def both(x: Any, weight: Any, gradient: Any, **options: Any) -> Gradients:
            plan = spectralops.plan_spectral_conv(x.shape, x.dtype, weight, backend=options.pop("backend", None))
            other = spectralops.spectral_conv_weight_gradient(x, gradient, weight.shape[2:], **options)
            return Gradients(plan.adjoint()(gradient, weight, **options), other)

        ours = partial(both, x, weight, gradient)
        contestants = {
            "spectralops": Contestant(ours),
            "spectralops w2": Contestant(partial(ours, workers=2), 2),
        }
        if torch := optional("torch"):
            from spectralops.torch import spectral_conv

            field, factor, incoming = (torch.from_numpy(array) for array in (x, weight, gradient))
            leaves = field.requires_grad_(), factor.requires_grad_()
            results = {
                "torch": _torch_pipeline(torch, *leaves, sizes=sizes, modes=modes),
                "spectralops in torch": spectral_conv(*leaves),
            }
            for name, result in results.items():
                grad = partial(torch.autograd.grad, result, leaves, incoming, retain_graph=True)
                contestants[name] = Contestant(lambda grad=grad: Gradients(*grad()))
        wide = x.astype(np.float64), weight.astype(np.complex128), gradient.astype(np.float64)
        expected = np.asarray(both(*wide))
        tolerance = _tolerance(dtype, sizes, read)
        return Setup(contestants, expected, tolerance, 2 * (x.nbytes + weight.nbytes) + gradient.nbytes)

    name = f"backward, {_name(batch, read, written, sizes, modes)}"
    return Case(f"spectral_conv {len(sizes)}d {dtype}", name, build)


def _name(batch: int, read: int, written: int, sizes: tuple[int, ...], modes: int) -> str:
    return f"B{batch} C{read}→{written} {'x'.join(map(str, sizes))} modes {modes}"


def _claim(case: Case, least: float, ours: str = "spectralops") -> Claim:
    against_torch = Ratio(("torch",), least, ours)
    return Claim(case, (against_torch, Ratio(("spectralops",), 1.7, "spectralops w2")))


def sweep_cases() -> list[Claim]:
    """Layers of many shapes, none of which may be slower than the plain pipeline."""
    shapes = [
        (1, 1, 1, (64,), 8),
        (1, 3, 5, (100,), 13),
        (8, 16, 16, (128,), 64),
        (4, 32, 32, (250,), 20),
        (16, 8, 8, (509,), 100),
        (4, 64, 64, (8192,), 16),
        (2, 16, 16, (8192,), 2000),
        (1, 2, 2, (65536,), 64),
        (2, 256, 256, (64,), 4),
        (1, 512, 512, (32,), 8),
        (1, 4, 4, (32, 32), 4),
        (2, 3, 7, (45, 75), 10),
        (16, 32, 32, (64, 64), 12),
        (4, 32, 32, (64, 64), 32),
        (2, 16, 16, (101, 103), 12),
        (2, 8, 8, (256, 256), 100),
        (1, 64, 64, (128, 128), 16),
        (1, 8, 8, (721, 1440), 20),
        (1, 2, 2, (1024, 1024), 400),
        (1, 4, 4, (16, 16, 16), 4),
        (2, 8, 8, (32, 36, 40), 8),
        (1, 16, 16, (33, 35, 31), 8),
        (1, 4, 4, (128, 128, 128), 40),
    ]
    at_least_as_fast = (Ratio(("torch",), 1.0),)
    return [
        Claim(make(*shape, dtype), at_least_as_fast, quick=math.prod(shape[3]) * shape[0] * shape[1] < 10**5)
        for shape in shapes
        for make, dtype in ((forward, "float32"), (forward, "float64"), (backward, "float32"))
    ]


CLAIMS: list[Claim] = [
    _claim(forward(16, 64, 64, (128, 128), 16), 9.0),
    _claim(forward(32, 64, 64, (1024,), 16), 3.0),
    _claim(forward(32, 64, 64, (1024,), 64), 3.0),
    _claim(forward(4, 16, 16, (64, 64, 64), 8), 12.0),
    _claim(backward(16, 64, 64, (128, 128), 16), 6.0, "spectralops in torch"),
    _claim(backward(32, 64, 64, (1024,), 16), 6.0, "spectralops in torch"),
    _claim(backward(32, 64, 64, (1024,), 64), 6.0, "spectralops in torch"),
    _claim(backward(4, 16, 16, (64, 64, 64), 8), 6.0, "spectralops in torch"),
    *sweep_cases(),
]
