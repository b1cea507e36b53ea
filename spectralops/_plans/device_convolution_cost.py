"""Cost model of the convolutions on a CUDA device: operations and predicted time of each algorithm, the best tiles.

The constants are rates of the kernels on an H200, fitted by hand to what ``benchmarks/gpu_convolution.py --methods``
prints. Only the ratios matter for the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from spectralops._plans.convolution_cost import Cost
from spectralops._plans.transform import fft_flops

__all__ = ["CUFFT", "DeviceSums"]

# Seconds of a whole device; "float" means one float32, and float64 counts as two.
LAUNCH = 4e-6  # one kernel
BYTE = 0.24e-12  # one byte from memory or to it
HIDDEN = 0.5  # of that time where transforms hide the rest
PLANE_TAP = 0.04e-12  # one multiply-add of the kernel for planes
CHANNEL_TAP = 0.06e-12  # one of the kernel for channels
ANY_TAP = 1.0e-12  # one of the kernel that takes all options
WORK = 0.107e-12  # one operation on one complex number of a tile there and back
LINE_WORK = 0.17e-12  # the same for one axis
CROWD = {1: 1.22, 2: 1.08}  # times that where few blocks share a multiprocessor
TRANSFORM = 1.5e-9  # one tile, whatever its size
MIX = 0.04e-12  # one multiply-add of the sums over channels
SLICE = 0.15  # of the sums' time for each slice but the first that the tiles are cut into
# Operations on each number that a prime factor of the length takes, twiddle factors included.
OPERATIONS = {2: 3.4, 3: 7.3, 5: 10.4, 7: 12.9}
UNPACK = 38.0  # those that tell a real line apart of which neighbours are one complex number
BESIDE = 25.0  # those along the other axis of a usual tile
CUFFT = "cupy"  # engine of the estimate for cuFFT
CUFFT_CALL = 100e-6  # the launches of a pipeline of cuFFT
CUFFT_BYTES = 30  # bytes that such a pipeline moves for each byte of the transformed array

# What the kernels take, and what they unroll.
MOST_AXES = 3
LONGEST, MOST_TAPS, MOST_CHANNEL_TAPS = 11, 121, 25
LEAST_HALF = 4096
SPACE_BYTES = 768 * 2**20
# Shared memory that the runtime keeps, and that of a multiprocessor.
RESERVED_BYTES, MULTIPROCESSOR_BYTES = 1024, 228 * 1024

RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18)
TILE_LENGTHS = tuple(sorted({*RADICES, *(a * b for a in RADICES for b in RADICES)}))
LINE_LENGTHS = tuple(sorted(m << e for m in (1, 3, 5, 7, 9, 15) for e in range(16) if 16 <= m << e <= 2**15))


@dataclass(frozen=True, slots=True)
class DeviceSums:
    """A correlation over channels of images on a device.

    Attributes
    ----------
    extent, taps : tuple of int
        Lengths of a kernel with and without its holes.
    result, stride : tuple of int
        Results that are kept along each axis, and their distance.
    images, kernels, planes : int
        Number of images (of one channel), kernels (of one channel), and planes of the result.
    inputs, outputs : int
        Channels that are summed over, and of a group of the result.
    is_complex : tuple of (bool, bool)
        Whether images and kernels are.
    width : int
        Floats in one real number: 1 for float32, 2 for float64.
    period : tuple of int
        Lengths of the axes along which all results of a periodic image are wanted, 0 of the others.
    shared : int
        Bytes of shared memory that a block may have.
    """

    extent: tuple[int, ...]
    taps: tuple[int, ...]
    result: tuple[int, ...]
    stride: tuple[int, ...]
    images: int
    kernels: int
    planes: int
    inputs: int
    outputs: int
    is_complex: tuple[bool, bool]
    width: int
    period: tuple[int, ...]
    shared: int

    @property
    def dense(self) -> tuple[int, ...]:
        """Results before every stride-th is kept."""
        return tuple((n - 1) * s + 1 for n, s in zip(self.result, self.stride, strict=True))

    def costs(self) -> tuple[Cost, ...]:
        """What kernels can do: direct sums, one tile for everything, the best tiles; and an estimate for cuFFT."""
        found = [self.direct()] if len(self.extent) <= MOST_AXES else []
        if len(self.extent) <= 2:
            some = self._candidates()
            whole = [lengths for lengths in some if self._tiles(lengths) == 1]
            for method, lengths in (("fft", whole), ("tiles", some)):
                if lengths:
                    found.append(self.tiled(method, min(lengths, key=self._seconds)))
        return (*found, self.cufft())

    def direct(self) -> Cost:
        """One multiply-add per output, input channel and tap."""
        taps = math.prod(self.taps)
        results = self.planes * math.prod(self.result)
        products = 2 ** sum(self.is_complex)
        pairs = results * self.inputs * taps
        plain = (
            len(self.taps) == 2
            and not any(self.is_complex)
            and self.dense == self.result
            and self.extent == self.taps
            and max(self.taps) <= LONGEST
        )
        rate = ANY_TAP
        if plain and self.inputs == 1 and taps <= MOST_TAPS:
            rate = PLANE_TAP
        elif plain and self.inputs > 1 and taps <= MOST_CHANNEL_TAPS:
            rate = CHANNEL_TAP * max(1, -(-self.outputs // 8) * 8 / self.outputs)
        moved = 8 * self.width * results
        return Cost(
            "direct", (), 2 * products * pairs, LAUNCH + BYTE * moved + rate * self.width * products * pairs, "cuda"
        )

    def tiled(self, method: str, lengths: tuple[int, ...]) -> Cost:
        """Kernels and tiles there, products or sums at each wavenumber, and back."""
        transforms = self._transforms(lengths)
        read, written = self.images * transforms, self.planes * transforms
        count = (written if self.inputs == 1 else read) + written + self.kernels
        products = (6 if self.inputs == 1 else 8 * self.inputs) * written * math.prod(lengths)
        return Cost(method, lengths, count * fft_flops(lengths, False) + products, self._seconds(lengths), "cuda")

    def _tiles(self, lengths: tuple[int, ...]) -> int:
        """Tiles of an image."""
        return math.prod(map(_count, self.dense, lengths, self.extent, self.period))

    def _transforms(self, lengths: tuple[int, ...]) -> int:
        """Transforms of an image: of tiles, or of two where they are real."""
        return -(-self._tiles(lengths) // (1 if self.is_complex[0] else 2))

    def _seconds(self, lengths: tuple[int, ...]) -> float:
        transforms, held = self._transforms(lengths), self._held(lengths)
        points, operations = math.prod(held), sum(map(_operations, held))
        if held != lengths:
            operations += UNPACK
        each = (WORK if len(lengths) > 1 else LINE_WORK) * self.width * points * operations
        fitting = MULTIPROCESSOR_BYTES // (self._bytes(lengths) + RESERVED_BYTES)
        each = each * CROWD.get(fitting, 1.0) + TRANSFORM
        moved = BYTE * HIDDEN * 8 * self.width * self.planes * math.prod(self.result)
        read, written = self.images * transforms, self.planes * transforms
        if self.inputs == 1:
            return 2 * LAUNCH + moved + each * (written + self.kernels / 2)
        count = read + written + self.kernels
        spectra = BYTE * 2 * 8 * self.width * points * count
        sums = 4 * MIX * self.width * written * self.inputs * points
        slices = -(-8 * self.width * points * (read + written) // SPACE_BYTES)
        return 4 * LAUNCH + moved + each * count / 2 + (spectra + sums) * (1 + SLICE * (slices - 1))

    def cufft(self) -> Cost:
        """One transform for everything by cuFFT, roughly; not among what kernels do."""
        points = math.prod(n + k - 1 for n, k in zip(self.dense, self.extent, strict=True))
        count = (self.images + self.planes + self.kernels) / 2
        sums = 8 * self.width * count * self.inputs * points * MIX if self.inputs > 1 else 0.0
        moved = 4 * self.width * points * count * CUFFT_BYTES
        return Cost("fft", (), 0, CUFFT_CALL + BYTE * moved + sums, CUFFT)

    def _held(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Complex numbers of a tile: half as many for one long real line, neighbours being one complex number."""
        if len(lengths) > 1 or any(self.is_complex) or lengths[0] % 2 or lengths[0] < LEAST_HALF:
            return lengths
        return (lengths[0] // 2,) if self._tiles(lengths) == 1 else lengths

    def _bytes(self, lengths: tuple[int, ...]) -> int:
        """Shared memory of a block."""
        held = self._held(lengths)
        if len(held) == 1:
            (n,) = held
            lines = max(1, min(8, 2048 // n))
            # Beside the numbers, where each line lies.
            return lines * ((n + n // 16 + 1) * 8 * self.width + 96)
        rows, columns = held
        # Twiddle factors are fewer than there are points along both axes.
        return (rows * (columns | 1) + rows + columns) * 8 * self.width

    def _fits(self, lengths: tuple[int, ...]) -> bool:
        return self._bytes(lengths) <= self.shared - RESERVED_BYTES

    def _candidates(self) -> list[tuple[int, ...]]:
        """The best lengths for each number of tiles along each axis, where a block holds the tile."""
        axes = [_lengths(*axis, len(self.extent)) for axis in zip(self.dense, self.extent, self.period, strict=True)]
        return [lengths for lengths in product(*axes) if self._fits(lengths)]


def _allowed(axes: int) -> tuple[int, ...]:
    return LINE_LENGTHS if axes == 1 else TILE_LENGTHS


def _count(results: int, length: int, kernel: int, period: int) -> int:
    """Tiles along an axis; a transform as long as a period goes round by itself."""
    return 1 if length == period else -(-results // (length - kernel + 1))


@lru_cache(maxsize=256)
def _lengths(results: int, kernel: int, period: int, axes: int) -> tuple[int, ...]:
    """For each number of tiles the shortest length, and the one with the fewest operations beside as many elsewhere."""
    shortest: dict[int, int] = {}
    lightest: dict[int, int] = {}
    for length in _allowed(axes):
        if length >= kernel:
            tiles = _count(results, length, kernel, period)
            shortest.setdefault(tiles, length)
            lightest[tiles] = min(lightest.get(tiles, length), length, key=lambda n: n * (_operations(n) + BESIDE))
    return tuple(sorted({*shortest.values(), *lightest.values()}))


@lru_cache(maxsize=1024)
def _operations(length: int) -> float:
    """Operations on each of the numbers of a transform."""
    total = 0.0
    for prime, each in OPERATIONS.items():
        while length % prime == 0:
            length //= prime
            total += each
    return total
