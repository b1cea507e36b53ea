"""spectral_filter and spectral_conv against the plain scipy.fft pipeline over sizes, batches, modes and dtypes.

Each point is the median over interleaved pairs of calls, one thread each, in processor time, on which other processes
bear less; calls shorter than a fifth of a millisecond are repeated to that within each of a pair.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
from cases_spectral_filter import COMPLEX, pipeline

import spectralops

__all__ = ["Point", "plot", "summary", "sweep"]

PAIRS = 15
SHORTEST = 2e-4
SLOWER = 1.1  # times the pipeline's time: what no shape may exceed
NUMBERS = 2**22  # of the largest array
LENGTHS = (
    16, 17, 20, 27, 31, 32, 45, 50, 61, 64, 81, 97, 100, 101, 121, 128, 169, 200, 211, 243, 251, 256, 289, 343, 360,
    401, 499, 500, 509, 512, 600, 625, 719, 720, 729, 768, 841, 900, 961, 1000, 1009, 1024, 1155, 1250, 1331, 1440,
    1500, 1536, 1849, 2003, 2039, 2048, 2187, 2310, 2401, 2662, 3001, 3072, 3125, 3600, 3721, 4000, 4093, 4095, 4096,
)  # fmt: skip
SIDES = (
    (16, 16), (17, 19), (24, 30), (32, 32), (31, 64), (61, 61), (64, 64), (100, 100), (101, 101), (127, 128),
    (128, 128), (128, 131), (180, 360), (181, 360), (243, 243), (251, 257), (256, 256), (320, 200), (343, 125),
    (500, 500), (509, 512), (512, 512), (720, 1440), (721, 1440), (1000, 1000), (1009, 1009), (1024, 1024),
    (2048, 16), (16, 2048), (2048, 2048), (2039, 2048),
)  # fmt: skip
VOLUMES = ((16, 16, 16), (17, 19, 23), (31, 32, 33), (32, 32, 32), (45, 60, 75), (64, 64, 64), (61, 64, 67), (100,) * 3)
BATCHES = (1, 2, 4, 8, 16, 64, 256)
CHANNELS = 8
LAYERS = (
    *(((n,), modes) for n in (64, 128, 256, 1000, 1024, 4096) for modes in (4, 16, 32)),
    *(((n, n), modes) for n in (32, 61, 64, 128, 256) for modes in (4, 8, 16)),
    *(((n, n, n), modes) for n in (16, 32, 48) for modes in (4, 6)),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One shape: the median over pairs of scipy's time over ours, and the median times."""

    op: str
    dtype: str
    batch: int
    sizes: tuple[int, ...]
    modes: int
    ratio: float
    seconds: float
    seconds_scipy: float

    @property
    def slower(self) -> bool:
        return self.ratio * SLOWER < 1.0

    def __str__(self) -> str:
        size, modes = "x".join(map(str, self.sizes)), f" modes {self.modes}" if self.modes else ""
        return (
            f"{self.op} {self.dtype} {self.batch} of {size}{modes}: {self.ratio:.2f}x, "
            f"{1e6 * self.seconds:.4g} us, scipy {1e6 * self.seconds_scipy:.4g} us"
        )


def pairs(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float, float]:
    """Median ratio of `theirs` over `ours`, and median times."""

    def timed(call: Callable[[], Any], count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            call()
        return (time.process_time() - start) / count

    counts = []
    for call in (ours, theirs):
        timed(call, 2)
        counts.append(max(1, math.ceil(SHORTEST / max(timed(call, 2), 1e-7))))
    times = []
    for turn in range(PAIRS):
        order = (0, 1) if turn % 2 else (1, 0)
        pair = [0.0, 0.0]
        for which in order:
            pair[which] = timed((ours, theirs)[which], counts[which])
        times.append(pair)
    ratio = statistics.median(b / a for a, b in times)
    return ratio, statistics.median(a for a, _ in times), statistics.median(b for _, b in times)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def filter_point(dtype: str, batch: int, sizes: tuple[int, ...]) -> Point:
    rng = np.random.default_rng(0)
    axes = tuple(range(-len(sizes), 0))
    x = random(rng, (batch, *sizes), dtype)
    half = sizes if dtype.startswith("complex") else (*sizes[:-1], sizes[-1] // 2 + 1)
    transfer = random(rng, half, COMPLEX[dtype])
    measured = pairs(partial(spectralops.spectral_filter, x, transfer, axes=axes), partial(pipeline, x, transfer, axes))
    return Point("filter", dtype, batch, sizes, 0, *measured)


def layer(x: Any, weight: Any, axes: tuple[int, ...], modes: int) -> Any:
    """The spectral layer as one writes it with scipy.fft and einsum: the lowest modes mixed over channels."""
    sizes = [x.shape[axis] for axis in axes]
    spectrum = scipy.fft.rfftn(x, axes=axes, norm="forward")
    kept = [np.arange(-(modes // 2), modes - modes // 2) for _ in axes[:-1]] + [np.arange(modes)]
    chosen = (..., *np.ix_(*kept))
    letters = "xyz"[: len(axes)]
    mixed = np.zeros_like(spectrum)
    mixed[chosen] = np.einsum(f"bi{letters},io{letters}->bo{letters}", spectrum[chosen], weight, optimize=True)
    return scipy.fft.irfftn(mixed, sizes, axes, norm="forward")


def layer_point(dtype: str, batch: int, sizes: tuple[int, ...], modes: int) -> Point:
    rng = np.random.default_rng(0)
    axes = tuple(range(-len(sizes), 0))
    x = random(rng, (batch, CHANNELS, *sizes), dtype)
    weight = random(rng, (CHANNELS, CHANNELS, *(modes for _ in sizes)), COMPLEX[dtype])
    measured = pairs(partial(spectralops.spectral_conv, x, weight, axes=axes), partial(layer, x, weight, axes, modes))
    return Point("layer", dtype, batch, sizes, modes, *measured)


def points() -> Iterator[tuple[str, Callable[[], Point]]]:
    """Every shape by name; arrays are made when it is measured."""
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for sizes in (*((n,) for n in LENGTHS), *SIDES, *VOLUMES):
            for batch in BATCHES:
                if batch == 1 or batch * math.prod(sizes) <= NUMBERS >> dtype.startswith("complex"):
                    name = f"filter {len(sizes)}d {dtype} {batch} of {'x'.join(map(str, sizes))}"
                    yield name, partial(filter_point, dtype, batch, sizes)
    for dtype in ("float32", "float64"):
        for sizes, modes in LAYERS:
            for batch in (1, 8, 64):
                if batch * CHANNELS * math.prod(sizes) <= NUMBERS:
                    name = f"layer {len(sizes)}d {dtype} {batch} of {'x'.join(map(str, sizes))} modes {modes}"
                    yield name, partial(layer_point, dtype, batch, sizes, modes)


def sweep(quick: bool, words: list[str]) -> list[Point]:
    """Measure the chosen shapes, `quick` every fiftieth, and print each that is slower."""
    chosen = [make for name, make in points() if all(word in name.split() for word in words)]
    found = []
    for make in chosen[:: 50 if quick else 1]:
        point = make()
        if point.slower:
            # A busy moment of the machine is not repeated; a slow shape is.
            point = max(point, make(), key=lambda one: one.ratio)
        found.append(point)
        if point.slower:
            print(f"SLOWER {point}", flush=True)
    return found


def summary(found: list[Point]) -> str:
    """Counts and the spread of ratios."""
    if not found:
        return "no shapes"
    ratios = sorted(point.ratio for point in found)
    slower = [point for point in found if point.slower]
    return (
        f"{len(found)} shapes: {len(slower)} more than {round(100 * SLOWER - 100)} % slower than scipy; ratios "
        f"{ratios[0]:.2f} … {statistics.median(ratios):.2f} … {ratios[-1]:.2f}"
    )


def plot(found: list[Point], path: Path) -> None:
    """Ratio over numbers in the array, one panel per operator and rank."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = sorted({(point.op, len(point.sizes)) for point in found})
    figure, axes = pyplot.subplots(
        2, -(-len(panels) // 2), figsize=(4 * -(-len(panels) // 2), 7), sharey=True, squeeze=False
    )
    for (op, rank), ax in zip(panels, axes.flat, strict=False):
        mine = [point for point in found if (point.op, len(point.sizes)) == (op, rank)]
        for dtype, marker in zip(("float32", "float64", "complex64", "complex128"), "osxv", strict=True):
            some = [point for point in mine if point.dtype == dtype]
            if some:
                numbers = [point.batch * math.prod(point.sizes) for point in some]
                ax.loglog(numbers, [point.ratio for point in some], marker, ms=3, alpha=0.6, label=dtype, ls="none")
        ax.axhline(1.0, color="black", lw=0.8)
        ax.axhline(1.0 / SLOWER, color="red", lw=0.8, ls="--")
        ax.set_title(f"{op}, {rank}-d")
        ax.set_xlabel("numbers per channel" if op == "layer" else "numbers")
    for row in axes:
        row[0].set_ylabel("time of scipy over ours")
    axes[0][0].legend(fontsize="small")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
