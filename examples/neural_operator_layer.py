"""One layer of a Fourier neural operator: the same weights on a coarse and on a fine grid give the same field."""

import numpy as np

import spectralops as so

rng = np.random.default_rng(0)
weight = (rng.standard_normal((2, 4, 12, 7)) + 1j * rng.standard_normal((2, 4, 12, 7))).astype(np.complex64)


def field(n: int) -> np.ndarray:
    """Two smooth channels on n x n points."""
    y, x = np.meshgrid(*2 * (np.arange(n, dtype=np.float32) * 2 * np.pi / n,), indexing="ij")
    return np.stack([np.sin(x) * np.cos(2 * y), np.cos(x + y)])[None]


coarse = so.spectral_conv(field(32), weight)
fine = so.spectral_conv(field(128), weight)
finer_output = so.spectral_conv(field(32), weight, out_shape=(128, 128))

print(f"coarse {coarse.shape}, fine {fine.shape}, coarse in and fine out {finer_output.shape}")
print(f"difference on the shared points {np.abs(fine[..., ::4, ::4] - coarse).max():.1e}")
print(f"difference of the two fine fields {np.abs(fine - finer_output).max():.1e}")
assert np.abs(fine - finer_output).max() < 1e-4
