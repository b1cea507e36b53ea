"""Cost model of the multi-channel convolution: operations and predicted time of each algorithm.

Rates are fitted and meant as in :mod:`spectralops._plans.convolution_cost`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from spectralops._plans.convolution_cost import (
    DIRECT_BLOCK,
    PASS,
    PRODUCT,
    TAP,
    TAP_CALL,
    TILE_TRANSFORM,
    TRANSFORM,
    Cost,
    tile_candidates,
    transform_seconds,
)
from spectralops._plans.transform import fast_size, fft_flops

__all__ = ["Channels"]

GATHER = 0.7e-9  # one float copied into the columns of a matrix product
REORDER = 1.5e-9  # one float copied from frequencies last to frequencies first, or back
REORDER_WEIGHT = 6e-9  # the same for weights, whose frequencies lie farther apart
GEMM = 0.03e-9  # one multiply-add of floats in a large matrix product
SMALL_GEMM = 0.15e-6  # one of many small matrix products, beyond its arithmetic
COLUMNS_CALL = 30e-6  # the calls around one block of columns

COLUMNS_BLOCK = 2**18  # elements of columns that the direct executor multiplies at a time
TILES_BLOCK = 2**20  # elements of tiles, input and output channels, at a time


@dataclass(frozen=True, slots=True)
class Channels:
    """A cross-correlation over channels of a padded image.

    Attributes
    ----------
    batch, groups : int
        Number of images, and of independent groups of channels.
    inputs, outputs : int
        Channels of each group.
    image, kernel, result : tuple of (int, int)
        Padded image, kernel with its holes, and result.
    taps : int
        Elements of the kernel without its holes.
    stride : tuple of (int, int)
        Distance between the results that are kept.
    is_complex : tuple of (bool, bool)
        Whether image and weight are.
    width : int
        Floats in one real number: 1 for float32, 2 for float64.
    """

    batch: int
    groups: int
    inputs: int
    outputs: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    result: tuple[int, int]
    taps: int
    stride: tuple[int, int]
    is_complex: tuple[bool, bool]
    width: int

    def costs(self) -> tuple[Cost, ...]:
        """Direct sums, one transform per image, and the best tiles."""
        whole = tuple(fast_size(n) for n in self.image)
        tiles = (self.tiled("tiles", tile) for tile in tile_candidates(self.kernel, whole))
        return self.direct(), self.tiled("fft", whole), min(tiles, key=lambda cost: cost.seconds)

    @property
    def parts(self) -> int:
        """Real numbers in one element of the result."""
        return 2 if any(self.is_complex) else 1

    def direct(self) -> Cost:
        """One multiply-add per output, input channel and tap: by shifts for one input channel, else as a product."""
        results = self.batch * self.groups * self.outputs * math.prod(self.result)
        pairs = results * self.inputs * self.taps
        products = 2 ** sum(self.is_complex)
        floats = self.width * self.parts
        if self.inputs == 1:
            blocks = -(-results // DIRECT_BLOCK)
            seconds = TAP_CALL * blocks * self.taps + TAP * floats * pairs
        else:
            columns = self.inputs * self.taps
            rows = max(1, COLUMNS_BLOCK // (columns * self.result[1]))
            blocks = self.batch * self.groups * -(-self.result[0] // rows)
            gathered = self.batch * self.groups * columns * math.prod(self.result)
            matrix = GEMM * self.width * self.parts**2 * pairs
            seconds = COLUMNS_CALL * blocks + GATHER * floats * gathered + matrix
        return Cost("direct", (), 2 * products * pairs, seconds)

    def tiled(self, method: str, tile: tuple[int, ...]) -> Cost:
        """Every channel's tiles there, a matrix product at each frequency, and back."""
        floats, size = self.width * self.parts, math.prod(tile)
        dense = ((n - 1) * s + 1 for n, s in zip(self.result, self.stride, strict=True))
        count = self.batch * math.prod(-(-n // (p - k + 1)) for n, p, k in zip(dense, tile, self.kernel, strict=True))
        bins = size if self.parts == 2 else tile[0] * (tile[1] // 2 + 1)
        channels, weights = self.inputs + self.outputs, self.inputs * self.outputs
        near = TRANSFORM if method == "fft" else TILE_TRANSFORM
        transforms = self.groups * (channels * count + weights / 2) * transform_seconds(tile, floats, near)
        if self.inputs == 1:
            mixing = (PRODUCT * self.outputs + GATHER * channels) * floats * size * count
            passes = -(-count * self.groups * channels * size // TILES_BLOCK)
            calls = 4 * PASS * passes
        else:
            passes = -(-count * channels * size // TILES_BLOCK)
            arithmetic = GEMM * self.width * 4 * weights * count * bins
            moved = 2 * self.width * bins * (REORDER * channels * count + REORDER_WEIGHT * weights)
            mixing = arithmetic + moved + SMALL_GEMM * bins * passes
            calls = 4 * PASS * passes * self.groups
        flops = self.groups * (
            (channels * count + weights) * fft_flops(tile, self.parts == 1) + 8 * weights * count * bins
        )
        return Cost(method, tile, flops, transforms + self.groups * mixing + calls)
