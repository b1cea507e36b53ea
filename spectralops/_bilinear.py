"""Operators that are linear in each of two arrays, as the faces that differentiate them plan them.

An operator A takes a field x and a weight w to y. With its adjoint B, of y and w, and its weight gradient C, of x and
y, it is closed under differentiation. Options are what a batch axis before all others leaves as it is: axes count from
the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops import convolution, spectral
from spectralops._arrays import ArraySpec

__all__ = ["ADJOINT", "BEYOND", "FORWARD", "PADDING", "WEIGHT", "plan_of"]

FORWARD, ADJOINT, WEIGHT = range(3)

# The names of numpy.pad for what lies beyond the ends of images, and of signals.
PADDING = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
BEYOND = {"wrap": "wrap", "circular": "wrap", "symm": "symmetric", "symmetric": "symmetric"}


def plan_of(
    op: str, x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str
) -> Any:
    """The plan of A; it has `adjoint()`, the plan of B."""
    return _PLANS[op](x, w, y_shape, options, device)


def _spectral_filter(
    x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str
) -> Any:
    """Values of the transfer are the weight; options: axes, and the cells of zeros that each is padded by."""
    axes, pad_width = options
    return spectral.plan_spectral_filter(x.shape, x.dtype, w, axes=axes, pad_width=pad_width, device=device)


def _spectral_conv(x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str) -> Any:
    """Options: depthwise, axes."""
    depthwise, axes = options
    sizes = [y_shape[axis] for axis in axes]
    return spectral.plan_spectral_conv(
        x.shape, x.dtype, w, depthwise=depthwise, out_shape=sizes, axes=axes, device=device
    )


def _fourier_resample(
    x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str
) -> Any:
    """Nothing reads a weight; options: axes."""
    (axes,) = options
    return spectral.plan_fourier_resample(x.shape, x.dtype, [y_shape[axis] for axis in axes], axes=axes, device=device)


def _fft_conv2d(x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str) -> Any:
    """Of (N, C, H, W); options: stride, padding by zeros, dilation, groups, method."""
    stride, padding, dilation, groups, method = options
    return convolution.plan_fft_conv2d(
        x.shape, x.dtype, w, stride=stride, padding=padding, dilation=dilation, groups=groups, method=method,
        device=device,
    )  # fmt: skip


def _convolve(x: ArraySpec, w: ArraySpec, y_shape: tuple[int, ...], options: tuple[Any, ...], device: str) -> Any:
    """With zeros beyond the ends; options: mode, axes, method."""
    mode, axes, method = options
    return convolution.plan_convolve(x.shape, x.dtype, w, mode=mode, axes=axes, method=method, device=device)


_PLANS: dict[str, Callable[..., Any]] = {
    "spectral_filter": _spectral_filter,
    "spectral_conv": _spectral_conv,
    "fourier_resample": _fourier_resample,
    "fft_conv2d": _fft_conv2d,
    "convolve": _convolve,
}
