"""Cost model of the convolutions that compiled kernels run: operations and predicted time of each algorithm.

The constants were fitted with ``python benchmarks/fit_convolution.py`` on one core of a server processor with AVX2 (AMD
Zen 3). What a machine is faster or slower is measured once per family of kernels and multiplies them
(``spectralops._cpu.convolution_rates``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spectralops._plans.convolution_cost import Cost
from spectralops._plans.transform import fast_size, fft_flops

__all__ = ["LARGEST_AXES", "Rates", "Sums"]

# Seconds; "float" means one float32, and float64 counts as two.
OUTPUT = 0.3e-9  # one result of a direct sum, whatever its taps
ROW_TAP = 0.0235e-9  # one of its taps, where rows share what they read
TAP = 0.035e-9  # the same for any taps
CHANNEL_TAP = 0.022e-9  # the same where four output channels share what they read
FAR_CHANNEL_TAP = 0.042e-9  # the same for many input channels, which leave the first-level cache
COPY = 0.3e-9  # one float copied beside its neighbours, or from a window
STREAM = 0.2e-9  # one float read from memory in a long row
COPY_APART = 0.9e-9  # one float copied from between others: parts of complex numbers
MEMORY = 0.35e-9  # one float from memory or to it
LEVEL = 0.056e-9  # one float and one level log2 of the transform of a window that fits the second-level cache
FAR_LEVEL = 0.1e-9  # one that leaves all caches
LINE_LEVEL = 0.045e-9  # one float and one level of a row among as many as there are lanes
TILE_LEVEL = 0.085e-9  # one float and one level of a tile with channels in the lanes
TRANSFORM_CALL = 70e-9  # one transform of a row or column of a tile, whatever its length
WINDOW_CALL = 0.6e-6  # one window, whatever its size
LINE_CALL = 0.05e-6  # the same for a row
KNOWN = 0.3  # of the time that filters take: they are kept for the next call with the same kernel
MIX = 0.02e-9  # one of the four multiply-adds of a complex product, eight operations in all counting as four
WEIGHT = 0.5e-9  # one float of weights brought into the order of the tiles
CALL = 20e-6  # preparing a call of direct sums
FILTER_CALL = 45e-6  # and of transforms
GROUP_CALL = 12e-6  # one more call, for each filter of rows and for each group of channels

ENGINE = "vector"
VECTOR = 8  # floats in a vector
BLOCK = 16  # results of a row that are summed at a time
NEAR_BYTES = 2**22
CACHE_BYTES = 2**20
FEW_INPUTS = 32
FAR_BYTES = 2**24
WEIGHTS_BYTES = 2**23
KEPT_BYTES = 2**26
TOGETHER = 4  # tiles that share what they read of the weights
SHORTEST = 16  # shortest transform of the last axis
LARGEST_AXES = 3
LONGEST_LINE = 4096
TARGETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 16384, 65536, 2**18, 2**20)
LARGEST_WINDOW = 2**23


class Rates(NamedTuple):
    """How much longer than on the machine of the constants each family of kernels takes here."""

    rows: float = 1.0
    taps: float = 1.0
    channels: float = 1.0
    lines: float = 1.0
    windows: float = 1.0
    tiles: float = 1.0


@dataclass(frozen=True, slots=True)
class Sums:
    """A convolution along some axes, over channels or not.

    Attributes
    ----------
    image, taps : tuple of int
        Lengths of the image and of the kernel, holes included.
    start, step, results : tuple of int
        Result r is number start + step·r of the full convolution, r below results.
    held : tuple of int
        Lengths of the kernel without its holes.
    batch : int
        Number of results: images, or pairs of arrays and kernels.
    kernels : int
        Different kernels of one group.
    groups, inputs, outputs : int
        Groups of channels, and channels of each.
    is_complex : tuple of (bool, bool)
        Whether image and kernel are.
    width : int
        Floats in one real number.
    rates : Rates
        This machine's.
    """

    image: tuple[int, ...]
    taps: tuple[int, ...]
    start: tuple[int, ...]
    step: tuple[int, ...]
    results: tuple[int, ...]
    held: tuple[int, ...]
    batch: int
    kernels: int
    groups: int
    inputs: int
    outputs: int
    is_complex: tuple[bool, bool]
    width: int
    rates: Rates

    @property
    def parts(self) -> int:
        """Real numbers in one element of the result."""
        return 2 if any(self.is_complex) else 1

    @property
    def products(self) -> int:
        """Real products in one product."""
        return (1, 2, 4)[sum(self.is_complex)]

    def direct(self) -> Cost:
        """One multiply-add per result, input channel and tap."""
        taps = self.inputs * math.prod(self.held)
        entries = self.batch * self.groups
        pairs = entries * self.outputs * math.prod(self.results) * taps
        channels = self.outputs * (2 if self.is_complex[1] else 1)
        rows = self.results[-2] if len(self.results) > 1 else 1
        shared = len(self.held) > 1 and self.held[-2] > 1 and rows >= 4
        summed = taps * self.products / self.parts
        area = math.prod(self.results[:-2]) * rows * _up(self.results[-1], BLOCK)
        # Taps with holes between them reach far: more is copied.
        apart = 1 if self.held == self.taps else 3
        copies = apart * self.inputs * math.prod(self.held[:-2]) * math.prod(self.results[:-2]) * rows * self.image[-1]
        if channels > 2:
            near = self.inputs <= FEW_INPUTS
            each, rate = (CHANNEL_TAP if near else FAR_CHANNEL_TAP), self.rates.channels
            results = area * self.parts * _up(channels, 4) / channels
            area_copied = copies
        elif shared:
            each, rate = ROW_TAP, self.rates.rows
            results, area_copied = area * self.parts * _up(rows, 4) / rows, copies
        else:
            each, rate = TAP, self.rates.taps
            results, area_copied = area * self.parts, copies
        sums = entries * self.outputs * results * (OUTPUT + each * summed)
        moved = entries * (area_copied * (2 * COPY_APART if self.is_complex[0] else COPY) + MEMORY * self._traffic())
        return Cost("direct", (), 2 * self.products * pairs, CALL + rate * self.width * (sums + moved), ENGINE)

    @property
    def _element(self) -> int:
        return 2 if self.is_complex[0] else 1

    def _traffic(self) -> float:
        """Floats between memory and processor for one entry, where they leave the cache."""
        floats = self.inputs * math.prod(self.image) * self._element + self.outputs * self.parts * math.prod(
            self.results
        )
        return floats if 4 * self.width * floats * self.batch * self.groups > NEAR_BYTES else 0.0

    def whole(self) -> Cost:
        """One circular convolution for everything, long enough not to wrap into what is wanted."""
        return self._transformed("fft", _rounded(self._needed()), (1,) * len(self.taps))

    def _needed(self) -> tuple[int, ...]:
        needed = []
        for n, k, first, step, count in zip(self.image, self.taps, self.start, self.step, self.results, strict=True):
            before = max(0, -first)
            n, first = n + before, first + before
            needed.append(max(n, k, first + (count - 1) * step + 1, n + k - 1 - first))
        return tuple(needed)

    def tiled(self) -> Cost:
        """The best of windows that overlap."""
        costs = [self._transformed("tiles", lengths, counts) for lengths, counts in self._tiles()]
        return min(costs, key=lambda cost: cost.seconds)

    def _tiles(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Lengths of windows of some sizes, cut so that all are nearly full, and how many of them there are."""
        seen: set[tuple[int, ...]] = set()
        axes = list(zip(self.taps, self.step, self.results, strict=True))
        for target in TARGETS:
            counts, lengths = [], []
            for k, step, count in axes:
                fitting = max(1, (max(target, 2 * k) - k) // step + 1)
                parts = -(-count // fitting)
                counts.append(parts)
                lengths.append((-(-count // parts) - 1) * step + k)
            rounded = _rounded(lengths)
            if rounded not in seen and (math.prod(rounded) <= LARGEST_WINDOW or not seen):
                seen.add(rounded)
                yield rounded, tuple(counts)

    def _transformed(self, method: str, lengths: tuple[int, ...], counts: tuple[int, ...]) -> Cost:
        size, windows = math.prod(lengths), self.batch * math.prod(counts)
        real = self.parts == 1
        bins = lengths[-1] // 2 + 1 if real else lengths[-1]
        products = self.inputs * self.outputs * size // lengths[-1] * bins
        flops = self.groups * (
            ((self.inputs + self.outputs) * windows + self.kernels * self.inputs * self.outputs)
            * fft_flops(lengths, real)
            + (6 if self.inputs == 1 else 8) * products * windows
        )
        if self.inputs == 1 and self.outputs <= 2:
            seconds = self._by_windows(lengths, windows)
        else:
            seconds = self._by_tiles(lengths, windows)
        return Cost(method, lengths, flops, FILTER_CALL + self.width * seconds, ENGINE)

    def _by_windows(self, lengths: tuple[int, ...], windows: int) -> float:
        """Every window alone, or rows side by side."""
        size, levels = math.prod(lengths) * self.parts, _levels(lengths)
        filters = max(1, self.kernels * self.groups * self.outputs)
        windows *= self.groups * self.outputs
        traffic = self.batch * self.groups * MEMORY * self._traffic() * self.rates.windows
        if len(lengths) == 1 and lengths[0] <= LONGEST_LINE:
            blocks = filters * -(-windows // (filters * VECTOR)) * VECTOR
            each = size * (2 * LINE_LEVEL * levels + 2 * COPY) + LINE_CALL / self.width
            own = filters * (GROUP_CALL + 10 * LINE_LEVEL * size * levels) / self.width
            return self.rates.lines * (blocks * each + own) + traffic
        # Between the second-level cache and the memory, a window is ever more often waited for.
        far = min(max(math.log2(4 * self.width * size / CACHE_BYTES) / math.log2(FAR_BYTES / CACHE_BYTES), 0.0), 1.0)
        rate = LEVEL + far * (FAR_LEVEL - LEVEL)
        each = size * (2 * rate * levels + 2 * COPY)
        call = WINDOW_CALL / self.width
        return self.rates.windows * (windows * (each + call) + KNOWN * filters * each) + traffic

    def _by_tiles(self, lengths: tuple[int, ...], windows: int) -> float:
        """Tiles of all channels, real and imaginary parts as channels or as images."""
        inputs, outputs = self.inputs, self.outputs
        if self.is_complex[1]:
            inputs, outputs = inputs * self._element, 2 * outputs
        else:
            windows *= self._element
        size, levels = math.prod(lengths), _levels(lengths)
        blocks = _up(inputs, VECTOR) + _up(outputs, VECTOR)
        bins = lengths[0] * (lengths[1] // 2 + 1)
        calls = TRANSFORM_CALL / VECTOR / self.width * (lengths[0] + lengths[1] // 2 + 1)
        transforms = blocks * (TILE_LEVEL * levels * size + calls)
        mixing = 4 * MIX * inputs * _up(outputs, VECTOR) * bins
        # Few rows of a kernel are not zeros: its transform takes half the time.
        weights = inputs * _up(outputs, VECTOR) * (0.5 * TILE_LEVEL * levels * size + 2 * WEIGHT * bins)
        factors, moved = 2 * inputs * _up(outputs, VECTOR) * bins, 0.0
        if 4 * self.width * factors > WEIGHTS_BYTES:
            # Weights come from memory for every few tiles.
            moved = STREAM * factors * -(-windows // TOGETHER)
        known = KNOWN if 4 * self.width * factors <= KEPT_BYTES else 1.0
        work = windows * (transforms + mixing) + known * weights + moved
        return self.groups * (self.rates.tiles * work + GROUP_CALL + self.batch * MEMORY * self._traffic())


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _rounded(lengths: Sequence[int]) -> tuple[int, ...]:
    """Lengths that transforms are quick for: smooth, the last a whole number of vectors, the first of several even."""
    *others, last = lengths
    rounded = [_smooth(n, 2 if axis == 0 else 1) for axis, n in enumerate(others)]
    return (*rounded, _smooth(max(last, SHORTEST), VECTOR))


def _smooth(n: int, multiple: int) -> int:
    """The shortest multiple from n on whose prime factors are at most 7."""
    return multiple * fast_size(-(-n // multiple)) if n > 1 else 1


def _levels(lengths: Sequence[int]) -> float:
    """log2 of the number of elements; factors of 3, 5 and 7 take longer than their logarithm."""
    total = 0.0
    for length in lengths:
        for prime, more in ((3, 1.15), (5, 1.25), (7, 1.4)):
            while length % prime == 0:
                length //= prime
                total += more * math.log2(prime)
        total += math.log2(length)
    return max(total, 1.0)
