"""Smooth a noisy periodic signal and differentiate it, in two calls."""

import numpy as np

import spectralops as so
from spectralops import transfer

n, length = 1000, 10.0
x = np.arange(n) * length / n
rng = np.random.default_rng(0)
signal = np.sin(2 * np.pi * x / length)
noisy = signal + 0.1 * rng.standard_normal(n)

smooth = so.spectral_filter(noisy, transfer.gaussian(0.3), spacing=length / n)
slope = so.spectral_filter(smooth, transfer.derivative(), spacing=length / n)

exact = 2 * np.pi / length * np.cos(2 * np.pi * x / length)
print(f"noise before {np.std(noisy - signal):.3f}, after {np.std(smooth - signal):.3f}")
print(f"error of the slope {np.std(slope - exact):.3f} of at most {np.abs(exact).max():.3f}")
