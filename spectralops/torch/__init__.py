"""Differentiable operators and layers for PyTorch.

The functions have the names and meaning of :mod:`spectralops`, take tensors and record gradients of every order; they
run under ``torch.func`` transforms and ``torch.compile``. Where nothing is recorded they are the same calls.
"""

from spectralops.torch._convolution import convolve, fft_conv2d
from spectralops.torch._filter import spectral_filter
from spectralops.torch._resample import fourier_resample
from spectralops.torch._solve import solve
from spectralops.torch._spectral_conv import spectral_conv
from spectralops.torch._steps import convection_step, diffuse_convect_step, diffusion_step, pde_step
from spectralops.torch.layers import FFTConv2d, SpectralFilter
from spectralops.torch.models import FNO, FNOBlock
from spectralops.torch.spectral_layer import SpectralConv
from spectralops.torch.step_layers import DiffuseConvectStep, DiffusionStep

__all__ = [
    "FNO",
    "DiffuseConvectStep",
    "DiffusionStep",
    "FFTConv2d",
    "FNOBlock",
    "SpectralConv",
    "SpectralFilter",
    "convection_step",
    "convolve",
    "diffuse_convect_step",
    "diffusion_step",
    "fft_conv2d",
    "fourier_resample",
    "pde_step",
    "solve",
    "spectral_conv",
    "spectral_filter",
]
