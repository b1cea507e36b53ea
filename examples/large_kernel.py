"""Blur an image with a kernel of 41 x 41 points: the same numbers by direct sums and by transforms."""

import time

import numpy as np

import spectralops as so

rng = np.random.default_rng(0)
image = rng.standard_normal((256, 256)).astype(np.float32)
radius = np.hypot(*np.mgrid[-20:21, -20:21])
kernel = (radius <= 20).astype(np.float32)
kernel /= kernel.sum()

results = {}
for method in ("direct", "fft", "auto"):
    start = time.perf_counter()
    results[method] = so.convolve(image, kernel, mode="same", boundary="symm", method=method)
    print(f"{method:6} {1e3 * (time.perf_counter() - start):7.1f} ms")
print(f"largest difference {np.abs(results['direct'] - results['fft']).max():.1e}")
assert np.allclose(results["direct"], results["auto"], atol=1e-5)
