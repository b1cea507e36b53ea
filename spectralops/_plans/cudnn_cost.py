"""What cuDNN takes for a convolution of images in 16 bits, on tensor cores that add up in float32.

The constants are fitted to what PyTorch's convolution of NCHW tensors took on an H200 (cuDNN 9.19; kernels of 1 to 15
taps a side, 3 to 512 channels). Only the ratios to those of `device_convolution_cost.py` matter.
"""

from __future__ import annotations

import math

from spectralops._arrays import ArraySpec

__all__ = ["cudnn_seconds"]

CALL = 10e-6
BYTE = 1.0e-12  # one byte of the images or of the result, which are reordered with the channels last
PRODUCT = 4.8e-15  # one multiply-add
FULL = 64  # output channels from which tensor cores are full
NARROW = 4.0  # times the multiply-adds' time for fewer


def cudnn_seconds(x: ArraySpec, weight: ArraySpec, out_shape: tuple[int, ...], groups: int) -> float | None:
    """Predicted time of a call; None where it is not known to be worth asking for: other dtypes, groups of channels."""
    if x.dtype != weight.dtype or x.dtype not in ("float16", "bfloat16") or groups > 1:
        return None
    products = math.prod(out_shape) * math.prod(weight.shape[1:])
    rate = PRODUCT if weight.shape[0] >= FULL else NARROW * PRODUCT
    return CALL + BYTE * 2 * (math.prod(x.shape) + math.prod(out_shape)) + rate * products
