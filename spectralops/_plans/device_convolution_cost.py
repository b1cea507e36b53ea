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

__all__ = ["CUFFT", "DeviceSums", "ring"]

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
PAIR_CROWD = {1: 1.12}  # the same of paired columns
TRANSFORM = 1.5e-9  # one tile, whatever its size
MIX = 0.04e-12  # one multiply-add of the sums over channels
SLICE = 0.15  # of the sums' time for each slice but the first that the tiles are cut into
PACKED_LINE = 0.175e-12  # one operation on one complex number of a line of which neighbours are one
PAIR_WORK = 0.105e-12  # one operation on one complex number of a tile there and back whose columns are paired
PACKED_BYTE = 0.38e-12  # one byte of images of which two rows are one, from memory or to it
NARROW = {4: 1.6, 2: 2.0, 1: 2.5}  # times that where so few columns of theirs fit a block
VOLUME_TAP = 0.064e-12  # one multiply-add of the kernel for volumes
PLANE_WORK = 0.145e-12  # one operation on one number of a volume's rows and columns, each once there or back
FIRST_WORK = 0.1e-12  # the same along the first axis, of volumes, kernels and results
DEEP, DEEP_WORK = 144, 1.15  # length from which on blocks along that axis are narrow, and times that then
# Operations on each number that a prime factor of the length takes, twiddle factors included.
OPERATIONS = {2: 3.4, 3: 7.3, 5: 10.4, 7: 12.9}
BESIDE = 25.0  # those along the other axis of a usual tile
CUFFT = "cupy"  # engine of the estimate for cuFFT
CUFFT_CALL = 100e-6  # the launches of a pipeline of cuFFT
CUFFT_BYTES = 30  # bytes that such a pipeline moves for each byte of the transformed array

# What the kernels take, and what they unroll.
MOST_AXES = 3
LONGEST, MOST_TAPS, MOST_CHANNEL_TAPS, MOST_VOLUME_TAPS = 11, 121, 25, 343
MOST_PLANES = {1: 9, 2: 5}
SPACE_BYTES = 768 * 2**20
# Shared memory that the runtime keeps, and that of a multiprocessor.
RESERVED_BYTES, MULTIPROCESSOR_BYTES = 1024, 228 * 1024
MULTIPROCESSORS = 132

RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18)
TILE_LENGTHS = tuple(sorted({*RADICES, *(a * b for a in RADICES for b in RADICES)}))
PACKED_LENGTHS = tuple(
    sorted(8 * 2**a * 3**b * 5**c * 7**d for a in range(11) for b in range(7) for c in range(5) for d in range(4)
           if 8 * 2**a * 3**b * 5**c * 7**d <= 2**13)
)  # fmt: skip
PAIR_LENGTHS = tuple(sorted({a * b for a in RADICES for b in RADICES if b % 2 == 0}))
VOLUME_LENGTHS = tuple(
    sorted(2 * 2**a * 3**b * 5**c * 7**d for a in range(13) for b in range(8) for c in range(6) for d in range(5)
           if 8 <= 2 * 2**a * 3**b * 5**c * 7**d <= 2**13)
)  # fmt: skip
# Lengths that blocks with less shared memory than this do not hold in double precision, though their numbers would fit:
# threads would have too many of them, or gaps take more than `_line_bytes` counts.
UNHELD: dict[int, float] = {
    **dict.fromkeys((4374, 5832, 6174, 6250, 6804, 7290, 7776, 7938), math.inf),
    **dict.fromkeys((5120, 5376, 5400), 2**17),
}
# Lines beyond this need so many registers that too few threads share a multiprocessor.
LONGEST_PAIRED = 240
# How much longer than the shortest a transform may be that takes fewer operations.
LONGER = 1.25
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
    cells : tuple of int
        Lengths of an image.
    whole : tuple of int
        The fewest cells of a transform of everything along each axis; `ring`, for an image of which zeros lie beyond
        its ends, and else those of a tile.
    odd : bool
        Whether an odd number of cells lies before an image's last axis, so that pairs of columns need one more.
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
    cells: tuple[int, ...]
    whole: tuple[int, ...]
    odd: bool
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
                ways = [self.tiled(method, min(lengths, key=self._seconds))] if lengths else []
                ways += [self.packed(method, rings, kind) for kind, rings in self._rings(method)]
                if ways:
                    found.append(min(ways, key=lambda cost: cost.seconds))
        elif len(self.extent) == MOST_AXES and self.inputs == 1:
            for method in ("fft", "tiles"):
                rings = self._volume_rings(method)
                if rings:
                    ways = [self.volumes(method, lengths) for lengths in rings]
                    found.append(min(ways, key=lambda cost: cost.seconds))
        return (*found, self.cufft())

    def direct(self) -> Cost:
        """One multiply-add per output, input channel and tap."""
        taps = math.prod(self.taps)
        results = self.planes * math.prod(self.result)
        products = 2 ** sum(self.is_complex)
        pairs = results * self.inputs * taps
        plain = (
            not any(self.is_complex)
            and self.dense == self.result
            and self.extent == self.taps
            and max(self.taps) <= LONGEST
        )
        rate = ANY_TAP
        if len(self.taps) != 2:
            few = len(self.taps) == 3 and taps <= MOST_VOLUME_TAPS and self.taps[0] <= MOST_PLANES[self.width]
            rate = VOLUME_TAP if plain and few else ANY_TAP
        elif plain and self.inputs == 1 and taps <= MOST_TAPS:
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
        transforms, points = self._transforms(lengths), math.prod(lengths)
        rate = WORK if len(lengths) > 1 else LINE_WORK
        each = rate * self.width * points * sum(map(_operations, lengths))
        fitting = MULTIPROCESSOR_BYTES // (self._bytes(lengths) + RESERVED_BYTES)
        each = each * CROWD.get(fitting, 1.0) + TRANSFORM
        return self._total(each, points, transforms)

    def _total(self, each: float, points: int, transforms: int) -> float:
        """Time of so many transforms an image, of so many numbers and seconds there and back."""
        moved = BYTE * HIDDEN * 8 * self.width * self.planes * math.prod(self.result)
        read, written = self.images * transforms, self.planes * transforms
        if self.inputs == 1:
            return 2 * LAUNCH + moved + each * (written + self.kernels / 2)
        count = read + written + self.kernels
        spectra = BYTE * 2 * 8 * self.width * points * count
        sums = 4 * MIX * self.width * written * self.inputs * points
        slices = -(-8 * self.width * points * (read + written) // SPACE_BYTES)
        return 4 * LAUNCH + moved + each * count / 2 + (spectra + sums) * (1 + SLICE * (slices - 1))

    def packed(self, method: str, lengths: tuple[int, ...], kind: str) -> Cost:
        """Real images of which two rows, or lines of which neighbours, are one complex number."""
        tiles = 1 if method == "fft" else _count(self.dense[0], lengths[0], self.extent[0], 0)
        if kind == "lines":
            seconds = self._line_seconds(lengths)
        elif kind == "columns":
            tiles = 1 if method == "fft" else math.prod(self._pair_tiles(axis, n) for axis, n in enumerate(lengths))
            seconds = self._pair_seconds(lengths, tiles)
        else:
            seconds = self._image_seconds(lengths, tiles)
        written = self.planes * tiles
        transforms = written + (written if self.inputs == 1 else self.images * tiles) + self.kernels
        products = (6 if self.inputs == 1 else 8 * self.inputs) * written * math.prod(lengths) // 2
        flops = transforms * fft_flops(lengths, True) + products
        return Cost(method, lengths, flops, seconds, "cuda", kind)

    def _line_seconds(self, lengths: tuple[int, ...]) -> float:
        points = lengths[0] // 2
        lines = self.planes + self.kernels / 2
        return 2 * LAUNCH + PACKED_LINE * self.width * lines * points * _operations(points)

    def _image_seconds(self, lengths: tuple[int, ...], tiles: int) -> float:
        """Rows and columns of images and kernels go through memory; columns are read again where tiles overlap."""
        height, width = lengths
        images = min(self.images, self.planes)
        rows = images * self.cells[0] + self.planes * self.dense[0] + self.kernels * self.extent[0]
        again = images * self.cells[0] * (tiles * height / self.dense[0] - 1) if tiles > 1 else 0
        numbers = width * (rows + again / 2 + self.kernels * height)
        values = images * math.prod(self.cells) + self.planes * math.prod(self.dense)
        narrow = NARROW.get(_columns(height, self.width, self.shared), 1.0)
        return 5 * LAUNCH + PACKED_BYTE * self.width * (8 * narrow * numbers + 4 * values)

    def volumes(self, method: str, lengths: tuple[int, ...]) -> Cost:
        """Volumes that go through memory between the axes; along the first one in one piece or in tiles."""
        depth, height, width = lengths
        tiles = 1 if method == "fft" else _count(self.dense[0], depth, self.extent[0], 0)
        halved = not any(self.is_complex)
        flops = (2 * self.planes * tiles + self.kernels) * fft_flops(lengths, halved)
        flops += 6 * self.planes * tiles * math.prod(lengths) // (2 if halved else 1)
        rows = width * _operations(width) * sum(
            count * math.prod(sizes[:2])
            for count, sizes in ((self.images, self.cells), (self.planes, self.dense), (self.kernels, self.taps))
        )  # fmt: skip
        planes = self.images * self.cells[0] + self.planes * self.dense[0] + self.kernels * self.taps[0]
        columns = planes * height * width * _operations(height)
        # A block transforms a kernel once for all of its tiles.
        first = (2 * self.planes * tiles + self.kernels) * math.prod(lengths) * _operations(depth)
        first *= DEEP_WORK if depth >= DEEP else 1.0
        values = self.images * math.prod(self.cells) + self.planes * math.prod(self.dense)
        work = PLANE_WORK * (rows + columns) + FIRST_WORK * first
        seconds = 7 * LAUNCH + self.width * (work / (2 if halved else 1) + BYTE * HIDDEN * 4 * values)
        return Cost(method, lengths, flops, seconds, "cuda", "volumes")

    def _volume_rings(self, method: str) -> list[tuple[int, ...]]:
        """Lengths of transforms of volumes: of everything, or of tiles along the first axis."""
        first, *others = (self._around(axis, VOLUME_LENGTHS) for axis in range(MOST_AXES))
        if method == "tiles":
            first = [n for n in VOLUME_LENGTHS if 2 * self.extent[0] <= n < self.whole[0]]
        return [each for each in product(first, *others) if all(map(self._holds, each))]

    def _rings(self, method: str) -> list[tuple[str, tuple[int, ...]]]:
        """Kinds and lengths of packed transforms: of everything, or of tiles."""
        plain = self.dense == self.result and self.extent == self.taps
        if any(self.is_complex):
            return []
        if len(self.extent) == 1 and (not plain or method == "tiles" or self.inputs > 1):
            return []
        if len(self.extent) == 1:
            return [("lines", (n,)) for n in self._around(0, LINE_LENGTHS) if self._holds(n // 2)]
        if method == "fft":
            paired, rest = (
                list(product(*(self._around(axis, allowed) for axis in (0, 1))))
                for allowed in (PAIR_LENGTHS, PACKED_LENGTHS)
            )
        else:
            paired = list(product(*(self._pair_lengths(axis) for axis in (0, 1))))
            heights = [n for n in PACKED_LENGTHS if 2 * self.extent[0] <= n < self.whole[0]]
            rest = list(product(heights, self._around(1, PACKED_LENGTHS)[:1]))
        found = [("columns", each) for each in paired if plain and self._pairs(each)]
        # Where a block holds a tile, that is quicker.
        held = [each for each in rest if self.inputs == 1 and all(map(self._holds, each))]
        rest = [each for each in held if not (plain and self._pairs(each))]
        return found + [("rows", each) for each in rest]

    def _pairs(self, lengths: tuple[int, ...]) -> bool:
        """Whether a block holds a tile whose columns are paired."""
        rows, columns = lengths
        held = rows * (columns // 2 | 1) * 8 * self.width <= self.shared
        return held and rows in PAIR_LENGTHS and columns in PAIR_LENGTHS and max(lengths) <= LONGEST_PAIRED

    def _pair_tiles(self, axis: int, length: int) -> int:
        """Tiles along an axis; of several, each gives an even number of results."""
        step = length - self.extent[axis] + 1 - self.odd * axis
        return 1 if self.dense[axis] <= step else -(-self.dense[axis] // (step // 2 * 2))

    def _pair_lengths(self, axis: int) -> list[int]:
        """The shortest length for each number of tiles along an axis, and the one with the fewest operations."""
        shortest: dict[int, int] = {}
        lightest: dict[int, int] = {}
        for n in PAIR_LENGTHS:
            if n > self.extent[axis] + self.odd * axis:
                tiles = self._pair_tiles(axis, n)
                shortest.setdefault(tiles, n)
                lightest[tiles] = min(lightest.get(tiles, n), n, key=lambda n: n * (_operations(n) + BESIDE))
        return sorted({*shortest.values(), *lightest.values()})

    def _pair_seconds(self, lengths: tuple[int, ...], tiles: int) -> float:
        points, operations = math.prod(lengths) / 2, sum(map(_operations, lengths))
        fitting = MULTIPROCESSOR_BYTES // (lengths[0] * (lengths[1] // 2 | 1) * 8 * self.width + RESERVED_BYTES)
        each = PAIR_WORK * self.width * points * operations * PAIR_CROWD.get(fitting, 1.0)
        if fitting == 1 and self.planes * tiles > MULTIPROCESSORS:
            # The last blocks leave some multiprocessors with nothing to do.
            turns = self.planes * tiles / MULTIPROCESSORS
            each *= math.ceil(turns) / turns
        each += TRANSFORM
        return self._total(each, math.prod(lengths) // 2 + 2, tiles)

    def _around(self, axis: int, allowed: tuple[int, ...]) -> list[int]:
        """Lengths for everything along an axis, the shortest and some that may be lighter."""
        if self.period[axis] in allowed:
            return [self.period[axis]]
        least = self.whole[axis] + (self.odd and axis == 1 and allowed is PAIR_LENGTHS)
        return [n for n in allowed if least <= n <= LONGER * least][:3] or [n for n in allowed if n >= least][:1]

    def _holds(self, points: int) -> bool:
        """Whether a block holds a line of so many complex numbers."""
        if self.width > 1 and self.shared < UNHELD.get(points, 0):
            return False
        return _line_bytes(points, self.width) <= self.shared - RESERVED_BYTES

    def cufft(self) -> Cost:
        """One transform for everything by cuFFT, roughly; not among what kernels do."""
        points = math.prod(n + k - 1 for n, k in zip(self.dense, self.extent, strict=True))
        count = (self.images + self.planes + self.kernels) / 2
        sums = 8 * self.width * count * self.inputs * points * MIX if self.inputs > 1 else 0.0
        moved = 4 * self.width * points * count * CUFFT_BYTES
        return Cost("fft", (), 0, CUFFT_CALL + BYTE * moved + sums, CUFFT)

    def _bytes(self, lengths: tuple[int, ...]) -> int:
        """Shared memory of a block."""
        if len(lengths) == 1:
            (n,) = lengths
            lines = max(1, min(8, 2048 // n))
            # Beside the numbers, where each line lies.
            return lines * ((n + n // 16 + 1) * 8 * self.width + 96)
        rows, columns = lengths
        # Twiddle factors are fewer than there are points along both axes.
        return (rows * (columns | 1) + rows + columns) * 8 * self.width

    def _fits(self, lengths: tuple[int, ...]) -> bool:
        return self._bytes(lengths) <= self.shared - RESERVED_BYTES

    def _candidates(self) -> list[tuple[int, ...]]:
        """The best lengths for each number of tiles along each axis, where a block holds the tile."""
        axes = [_lengths(*axis, len(self.extent)) for axis in zip(self.dense, self.extent, self.period, strict=True)]
        return [lengths for lengths in product(*axes) if self._fits(lengths)]


def ring(cells: int, before: int, results: int, kernel: int) -> int:
    """The fewest cells of a ring in which a kernel goes round an image between zeros without reaching it twice.

    Cell i of the ring is cell i - before of the image, and result i is that of cells i ... i + kernel - 1.
    """
    begin, reach = max(before, 0), results + kernel - 1
    return max(min(cells + before, reach), reach - begin)


def _line_bytes(points: int, width: int) -> int:
    """Shared memory of a line, gaps included."""
    return (points + points // 8) * 8 * width


def _columns(height: int, width: int, shared: int) -> int:
    """Columns that a block transforms at a time, at most eight of four bytes a number."""
    count = 8 // width
    while count > 1 and count * _line_bytes(height, width) > shared - RESERVED_BYTES:
        count //= 2
    return count


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
