"""Conformance cases of convolve and fft_conv2d."""

from __future__ import annotations

from typing import Any

import numpy as np
from support import Arrays, OpCase, random_array

COMPLEX = ("complex64", "complex128")
BOTH = ("float32", "float64", *COMPLEX)


def convolution(
    name: str,
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    dtypes: tuple[str, ...] = ("float32", "float64"),
    kernel_dtypes: dict[str, str] | None = None,
    **options: Any,
) -> OpCase:
    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        other = (kernel_dtypes or {}).get(dtype, dtype)
        return {"x": random_array(rng, x, dtype), "kernel": random_array(rng, kernel, other)}

    def call(function: Any, arrays: Arrays, **tail: Any) -> Any:
        return function(arrays["x"], arrays["kernel"], **options, **tail)

    return OpCase("convolve", name, inputs, call, dtypes)


REAL_KERNEL = {"complex64": "float32", "complex128": "float64"}

CONVOLVE = [
    convolution("1d-full", (37,), (5,)),
    convolution("1d-same-even-kernel", (40,), (6,), mode="same"),
    convolution("1d-valid", (37,), (8,), BOTH, mode="valid"),
    convolution("1d-valid-kernel-longer", (8,), (37,), mode="valid"),
    convolution("1d-long-direct", (700,), (9,), BOTH, mode="same", method="direct"),
    convolution("1d-tiles", (701,), (9,), BOTH, mode="same", method="tiles"),
    convolution("1d-kernel-longer-tiles", (9,), (130,), method="tiles"),
    convolution("1d-one-element", (1,), (1,)),
    convolution("1d-wrap", (11,), (4,), mode="same", boundary="wrap"),
    convolution("1d-symm-kernel-longer", (3,), (11,), mode="same", boundary="symm"),
    convolution("2d-full-fft", (13, 11), (3, 5), BOTH, method="fft"),
    convolution("2d-same-direct", (13, 11), (4, 2), BOTH, mode="same", method="direct"),
    convolution("2d-valid-tiles", (61, 47), (5, 4), BOTH, mode="valid", method="tiles"),
    convolution("2d-symm", (12, 17), (5, 4), mode="same", boundary="symm"),
    convolution("2d-fill", (12, 17), (5, 4), BOTH, boundary="fill", fillvalue=1.5),
    convolution("2d-wrap-full", (6, 7), (3, 9), boundary="wrap"),
    convolution("2d-outer-product", (31, 1), (1, 29)),
    convolution("batch-one-kernel", (2, 3, 20), (5,), mode="same"),
    convolution("batch-both-broadcast", (4, 1, 30), (1, 5, 4), mode="same", axes=-1),
    convolution("batch-kernels-only", (1, 25), (7, 10), BOTH, mode="same", axes=1, method="fft"),
    convolution("batch-empty", (0, 12), (3,)),
    convolution("axes-first", (20, 3), (6,), axes=0),
    convolution("axes-swapped", (9, 14), (3, 2), BOTH, axes=(1, 0), mode="same"),
    convolution("axes-outer-two-of-three", (10, 3, 9), (4, 2), axes=(0, 2), method="fft"),
    convolution("axes-outer-tiles", (40, 2, 36), (4, 3), axes=(0, 2), method="tiles"),
    convolution("3d-direct", (6, 7, 8), (2, 3, 2), method="direct"),
    convolution("3d-fft-prime", (7, 11, 13), (3, 2, 4), BOTH, mode="same", method="fft"),
    convolution("3d-tiles", (20, 19, 40), (3, 2, 4), mode="valid", method="tiles"),
    convolution("4d", (3, 4, 5, 6), (2, 2, 2, 2), mode="same"),
    convolution("complex-times-real", (20, 15), (3, 4), COMPLEX, REAL_KERNEL),
    convolution("complex-times-real-tiles", (400,), (12,), COMPLEX, REAL_KERNEL, mode="same", method="tiles"),
    convolution("complex-fill", (12,), (5,), COMPLEX, boundary="fill", fillvalue=1 - 2j),
]

CASES = CONVOLVE
