"""Spectral convolution by whole transforms of PyTorch: for products that are not one matrix per mode, and for peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from spectralops.torch._factorised import Mixing
from spectralops.torch._tensors import precision

__all__ = ["Places", "convolved", "mixed", "places", "upstream_places", "upstream_resampled"]

# For each axis: where the kept modes lie in the spectrum of x, and where in the spectrum of the result.
Places = list[tuple[Tensor, Tensor]]


def convolved(
    x: Tensor, at: Places, product: Callable[[Tensor], Tensor], spectrum: Sequence[int], target: Sequence[int]
) -> Tensor:
    """The inverse transform to the grid `target` of a product with the modes of x, in a spectrum of zeros.

    Where `spectrum`, the lengths of the axes that the places refer to, is not `target`, it is cut or padded at its end.
    """
    dtype, axes = x.dtype, tuple(range(-len(target), 0))
    halved = not x.is_complex()
    x = x.to(precision(dtype)[not halved])
    modes = (torch.fft.rfftn if halved else torch.fft.fftn)(x, dim=axes, norm="forward")
    y = product(modes[(..., *_mesh([read for read, _ in at], x.device))])
    shape = [*spectrum[:-1], spectrum[-1] // 2 + 1] if halved else spectrum
    whole = y.new_zeros(*y.shape[: -len(axes)], *shape)
    whole[(..., *_mesh([written for _, written in at], x.device))] = y
    inverse = torch.fft.irfftn if halved else torch.fft.ifftn
    return inverse(whole, s=tuple(target), dim=axes, norm="forward").to(dtype)


def _mesh(lines: list[Tensor], device: Any) -> list[Tensor]:
    """Indices that pick a block out of several axes."""
    d = len(lines)
    return [line.to(device).reshape(-1, *(1,) * (d - 1 - j)) for j, line in enumerate(lines)]


def places(kept: Sequence[int], sizes: Sequence[int], target: Sequence[int], halved: bool) -> Places:
    """Places at which every mode keeps its wavenumber."""
    found = []
    for j, (m, n, size) in enumerate(zip(kept, sizes, target, strict=True)):
        k = torch.arange(m) if halved and j == len(kept) - 1 else torch.arange(-(m // 2), m // 2 + m % 2)
        found.append((k % n, k % size))
    return found


def upstream_places(kept: Sequence[int], sizes: Sequence[int], halved: bool) -> Places:
    """Places at which neuraloperator 2.0.0 reads and writes, both in a spectrum of the lengths of x.

    It moves wavenumber zero to the middle of an axis by half its length, rounded down, and back by the same again, so
    that on odd axes every mode arrives one below. The last axis of complex data is read from its beginning, whatever
    lies there, and not moved back; with one axis alone nothing is moved.
    """
    d, found = len(kept), []
    for j, (m, n) in enumerate(zip(kept, sizes, strict=True)):
        if j < d - 1:
            k = torch.arange(-(m // 2), m // 2 + m % 2)
            found.append((k % n, (k + 2 * (n // 2)) % n))
        else:
            first = torch.arange(m)
            found.append((first if halved or d == 1 else (first - n // 2) % n, first))
    return found


def upstream_resampled(x: Tensor, target: Sequence[int]) -> Tensor:
    """What neuraloperator 2.0.0 does with the input of a skip connection: splines through the corners, or modes."""
    d = len(target)
    if d <= 2:
        mode = "linear" if d == 1 else "bicubic"
        return functional.interpolate(x, size=tuple(target), mode=mode, align_corners=True)
    at = []
    for j, (n, size) in enumerate(zip(x.shape[-d:], target, strict=True)):
        m = min(n, size)
        k = torch.arange(m // 2 + 1) if j == d - 1 else torch.arange(-((m + 1) // 2), m // 2)
        at.append((k % n, k % size))
    return convolved(x, at, lambda modes: modes, target, target)


def mixed(modes: Tensor, weight: Mixing | Tensor, depthwise: bool) -> Tensor:
    """Modes (N, channels, ...) times a weight, which is whole, perhaps real with a last axis of two, or three maps."""
    if isinstance(weight, Tensor):
        values = weight if weight.is_complex() else torch.view_as_complex(weight.contiguous())
        values = values.to(modes.dtype)
        return modes * values if depthwise else torch.einsum("bi...,io...->bo...", modes, values)
    y = torch.einsum("bi...,ip->bp...", modes, weight.read.to(modes.dtype))
    small = weight.modes.to(modes.dtype)
    y = y * small if small.ndim == y.ndim - 1 else torch.einsum("bp...,pq...->bq...", y, small)
    return y if weight.written is None else torch.einsum("bq...,oq->bo...", y, weight.written.to(modes.dtype))
