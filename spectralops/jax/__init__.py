"""Differentiable operators for JAX.

The functions have the names and meaning of :mod:`spectralops`, take JAX arrays and run under ``jit``, ``grad`` and
``vmap``: on the CPU and on CUDA devices the same fused executors fill JAX's own buffers.
"""

from spectralops.jax._convolution import convolve, fft_conv2d
from spectralops.jax._spectral import fourier_resample, spectral_conv, spectral_filter
from spectralops.jax._steps import convection_step, diffuse_convect_step, diffusion_step, pde_step

__all__ = [
    "convection_step",
    "convolve",
    "diffuse_convect_step",
    "diffusion_step",
    "fft_conv2d",
    "fourier_resample",
    "pde_step",
    "spectral_conv",
    "spectral_filter",
]
