"""Cost model of the convolutions by NumPy and SciPy: operations and predicted time of each algorithm, the best tile.

The constants are rates of NumPy and SciPy on one core of a server processor (AMD Zen 4), fitted to the executors'
process time with ``python benchmarks/fit_convolution.py``, which prints both; predictions were within a factor of two
and the choice mostly the quickest. Only the ratios matter, so other machines of this kind need no refitting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectralops._plans.transform import fast_size, fft_flops

__all__ = ["Cost", "Linear", "choose", "tile_candidates", "transform_seconds"]

# Seconds. "Float" means one float32: float64 counts as two, complex64 as two, complex128 as four.
TAP_CALL = 10e-6  # the calls for one tap on one block of outputs
TAP = 0.75e-9  # multiply-add of one float by one tap
ROW_CALL = 4e-6  # one call of numpy.convolve
ROW_OUTPUT = 20e-9  # one output of it: a dot product
ROW_TAP = 0.12e-9  # one float in that dot product
SHORT_ROW_TAP = 0.5e-9  # the same for real kernels of up to SHORT taps, which it sums without dot products
PASS = 60e-6  # the calls for one axis of one block of transforms
TRANSFORM = 0.24e-9  # one float and one level log2 of a transform in cache
TILE_TRANSFORM = 0.34e-9  # the same for tiles, which are cut out and put back
FAR_TRANSFORM = 0.42e-9  # the same for transforms that do not fit there
PRODUCT = 0.6e-9  # one float of a spectrum times another spectrum

NEAR_BYTES = 2**21  # what counts as in cache
DIRECT_BLOCK = 2**16  # outputs that the direct executor takes at a time
SHORT = 11
ROW = 256  # elements of a row from which on numpy.convolve takes it, rather than shifts of many rows
TRANSFORM_BLOCK = 2**17  # elements transformed at a time
LARGEST_TILE = 2**22  # elements of one tile


@dataclass(frozen=True, slots=True)
class Cost:
    """One algorithm's operations, predicted time and transform lengths (none for direct sums), and who runs it.

    `engine` is "scipy" (NumPy and SciPy), "vector" (compiled kernels) or "cuda" (kernels of a device).
    Those have real numbers `packed` as complex ones where it is not empty: neighbours along one axis ("lines"),
    neighbouring columns of a tile in a block ("columns"), or two rows of an image that goes through memory between its
    axes ("rows").
    """

    method: str
    lengths: tuple[int, ...]
    flops: int
    seconds: float
    engine: str = "scipy"
    packed: str = ""


def choose(costs: Sequence[Cost], method: str) -> Cost:
    """The quickest, or the one asked for."""
    return min(costs if method == "auto" else [c for c in costs if c.method == method], key=lambda c: c.seconds)


def transform_seconds(lengths: Sequence[int], floats: int, near: float) -> float:
    """One transform; `floats` per element: 1 or 2 for real, 2 or 4 for complex, of single or double precision."""
    size = math.prod(lengths)
    rate = near if 4 * floats * size <= NEAR_BYTES else FAR_TRANSFORM
    return rate * floats * size * max(1.0, math.log2(size))


def tile_candidates(kernel: Sequence[int], whole: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Tile lengths from just over the kernel to one tile for everything, the same power of two along every axis."""
    seen: set[tuple[int, ...]] = set()
    for exponent in range(4, 23):
        tile = tuple(
            min(fast_size(max(2 * k if k > 1 else 1, 2**exponent)), m) for k, m in zip(kernel, whole, strict=True)
        )
        if tile not in seen and (math.prod(tile) <= LARGEST_TILE or not seen):
            seen.add(tile)
            yield tile


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear convolution of two batches of arrays, of whose full result a window is wanted.

    Attributes
    ----------
    a, b : tuple of int
        Lengths of the two arrays along the convolved axes; it does not matter which is which.
    start, outputs : tuple of int
        First element and length of the window.
    batch : tuple of (int, int, int)
        Number of arrays a, of arrays b, and of results.
    is_complex : tuple of (bool, bool)
        Whether a and b are.
    width : int
        Floats in one real number: 1 for float32, 2 for float64.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    start: tuple[int, ...]
    outputs: tuple[int, ...]
    batch: tuple[int, int, int]
    is_complex: tuple[bool, bool]
    width: int

    def costs(self) -> tuple[Cost, ...]:
        """Direct sums, one transform for everything, and the best tiles."""
        _, short = self.long_and_short
        whole = tuple(fast_size(w + k - 1) for w, k in zip(self.outputs, short, strict=True))
        tiles = (self.tiled(tile) for tile in tile_candidates(short, whole))
        return self.direct(), self.transformed(), min(tiles, key=lambda cost: cost.seconds)

    @property
    def parts(self) -> int:
        """Real numbers in one element of the result."""
        return 2 if any(self.is_complex) else 1

    @property
    def long_and_short(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The lengths of the larger and of the smaller array."""
        return (self.a, self.b) if math.prod(self.a) >= math.prod(self.b) else (self.b, self.a)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Shortest fast transform in which nothing that wraps around falls into the window."""
        return tuple(
            fast_size(max(n, k, s + w, n + k - 1 - s))
            for n, k, s, w in zip(self.a, self.b, self.start, self.outputs, strict=True)
        )

    def direct(self) -> Cost:
        """One multiply-add per output and tap that meet."""
        long, short = self.long_and_short
        items, taps = self.batch[2], math.prod(short)
        pairs = items * math.prod(k * min(n, w) for n, k, w in zip(long, short, self.outputs, strict=True))
        products = 2 ** sum(self.is_complex)
        floats = self.width * self.parts * pairs
        if len(long) == 1 and long[0] >= ROW:
            if taps <= SHORT and self.parts == 1:
                sums = SHORT_ROW_TAP * floats
            else:
                sums = ROW_OUTPUT * items * (long[0] + taps - 1) + ROW_TAP * floats
            seconds = ROW_CALL * items + sums
        else:
            blocks = -(-items * math.prod(self.outputs) // DIRECT_BLOCK)
            seconds = TAP_CALL * blocks * taps + TAP * floats
        return Cost("direct", (), 2 * products * pairs, seconds)

    def transformed(self) -> Cost:
        """Both spectra, their product, and back."""
        long, _ = self.long_and_short
        many, few = self.batch[:2] if long == self.a else self.batch[1::-1]
        passes = -(-self.batch[2] * math.prod(self.lengths) // TRANSFORM_BLOCK)
        return self._by_transforms("fft", self.lengths, TRANSFORM, passes, many, few, self.batch[2])

    def tiled(self, tile: tuple[int, ...]) -> Cost:
        """The smaller array's spectrum once, and every tile there and back."""
        long, short = self.long_and_short
        many, few = self.batch[:2] if long == self.a else self.batch[1::-1]
        *counts, last = (-(-n // (p - k + 1)) for n, p, k in zip(self.outputs, tile, short, strict=True))
        room = max(1, TRANSFORM_BLOCK // math.prod(tile))
        together = min(room, last)
        passes = math.prod(counts) * -(-last // together) * -(-self.batch[2] // max(1, room // together))
        count = math.prod(counts) * last
        return self._by_transforms("tiles", tile, TILE_TRANSFORM, passes, many * count, few, self.batch[2] * count)

    def _by_transforms(
        self, method: str, lengths: tuple[int, ...], near: float, passes: int, many: int, few: int, back: int
    ) -> Cost:
        """`many` long arrays and `few` short ones, mostly zeros, forward; products; as many `back`."""
        floats, size, d = self.width * self.parts, math.prod(lengths), len(lengths)
        flops = (many + few + back) * fft_flops(lengths, self.parts == 1) + 6 * back * (size * self.parts // 2 + 1)
        transforms = (many + few / d + back) * transform_seconds(lengths, floats, near)
        return Cost(method, lengths, flops, PASS * (d * passes + 1) + transforms + PRODUCT * floats * size * back)
