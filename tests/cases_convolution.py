"""Conformance cases of convolve and fft_conv2d."""

from __future__ import annotations

from typing import Any

import numpy as np
from support import Arrays, OpCase, random_array

import spectralops as so

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
    convolution("1d-long-fft", (3000,), (2100,), mode="same", method="fft"),
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
    convolution("batch-empty-kernel-longer", (0, 12), (30,), mode="valid"),
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


def correlation(
    name: str,
    x: tuple[int, ...],
    weight: tuple[int, ...],
    dtypes: tuple[str, ...] = ("float32", "float64"),
    weight_dtypes: dict[str, str] | None = None,
    bias: bool = False,
    growth: float = 1.0,
    **options: Any,
) -> OpCase:
    def inputs(rng: np.random.Generator, dtype: str) -> Arrays:
        other = (weight_dtypes or {}).get(dtype, dtype)
        arrays = {"x": random_array(rng, x, dtype), "weight": random_array(rng, weight, other)}
        return arrays | ({"bias": random_array(rng, weight[:1], other)} if bias else {})

    def call(function: Any, arrays: Arrays, **tail: Any) -> Any:
        return function(*arrays.values(), **options, **tail)

    return OpCase("fft_conv2d", name, inputs, call, dtypes, growth=growth)


FFT_CONV2D = [
    correlation("3x3", (2, 3, 9, 8), (4, 3, 3, 3), BOTH, bias=True),
    correlation("unbatched", (3, 9, 8), (4, 3, 3, 2), padding=1),
    correlation("1x1", (2, 4, 5, 6), (3, 4, 1, 1), bias=True, method="direct"),
    correlation("one-element", (1, 1, 1, 1), (1, 1, 1, 1)),
    correlation("stride-dilation-groups", (2, 4, 13, 11), (8, 2, 3, 2), BOTH, bias=True, stride=(2, 3),
                padding=(1, 2), dilation=(2, 1), groups=2, method="direct"),
    correlation("stride-dilation-groups-fft", (2, 4, 13, 11), (8, 2, 3, 2), BOTH, bias=True, stride=(2, 3),
                padding=(1, 2), dilation=(2, 1), groups=2, method="fft"),
    correlation("stride-dilation-groups-tiles", (2, 4, 37, 41), (8, 2, 3, 2), BOTH, bias=True, stride=(2, 3),
                padding=(1, 2), dilation=(2, 1), groups=2, method="tiles"),
    correlation("depthwise-direct", (2, 4, 9, 10), (4, 1, 3, 3), BOTH, groups=4, padding="same", method="direct"),
    correlation("depthwise-fft", (2, 4, 9, 10), (8, 1, 3, 3), BOTH, bias=True, groups=4, padding="same", method="fft"),
    correlation("depthwise-tiles", (2, 4, 40, 33), (8, 1, 4, 3), groups=4, padding="same", method="tiles"),
    correlation("depthwise-stride", (2, 3, 9, 10), (3, 1, 3, 2), groups=3, stride=2, method="direct"),
    correlation("same-even-kernel", (1, 2, 7, 8), (3, 2, 4, 2), padding="same"),
    correlation("valid", (1, 2, 7, 8), (3, 2, 4, 2), padding="valid"),
    correlation("kernel-as-large", (2, 2, 9, 9), (2, 2, 9, 9), method="fft"),
    correlation("reflect", (2, 3, 7, 8), (2, 3, 3, 5), padding=(1, 2), padding_mode="reflect"),
    correlation("replicate", (2, 3, 7, 8), (2, 3, 3, 5), padding=(4, 9), padding_mode="replicate"),
    correlation("circular", (2, 3, 7, 8), (2, 3, 3, 5), BOTH, padding=(0, 2), padding_mode="circular", method="tiles"),
    correlation("empty-batch", (0, 3, 7, 8), (2, 3, 3, 3), bias=True),
    correlation("prime-sizes-tiles", (1, 2, 53, 47), (3, 2, 5, 7), method="tiles"),
    correlation("complex-times-real", (2, 2, 8, 9), (3, 2, 3, 3), COMPLEX, REAL_KERNEL, bias=True, method="fft"),
    correlation("complex-times-real-direct", (2, 2, 8, 9), (3, 2, 3, 3), COMPLEX, REAL_KERNEL, method="direct"),
    correlation("scale-shift", (2, 3, 9, 8), (2, 3, 3, 3), BOTH, bias=True,
                epilogue=so.Epilogue(scale=(0.5, 2.0), shift=-1.0)),
    *(
        correlation(f"{activation}-{method}", (1, 2, 9, 8), (2, 2, 3, 3), bias=True, method=method,
                    # silu and gelu vanish on the left, where rounding of the argument is large beside them
                    growth=2.0, epilogue=so.Epilogue(0.3, (0.1, -0.2), activation))
        for activation in ("relu", "gelu", "gelu_tanh", "silu", "tanh")
        for method in ("direct", "tiles")
    ),
]  # fmt: skip

CASES = CONVOLVE + FFT_CONV2D
