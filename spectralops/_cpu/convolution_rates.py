"""How quick this machine's convolution kernels are, beside the one that the cost model's constants come from.

Each family of kernels has a small probe. It is timed once per machine, in a few milliseconds of its thread's processor
time, and the ratio is kept beside the compiled kernels: by :func:`spectralops.warmup`, or when a process has spent some
seconds in convolutions that the cost model chose, and then only for kernels that are compiled already. Until then, and
where nothing can be written, the ratios are 1. ``SPECTRALOPS_RATES`` names a file to use instead, or is ``default``.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["FAMILIES", "counted", "measure", "ratios"]

SWITCH = "SPECTRALOPS_RATES"
# Seconds in convolutions after which measuring pays, and how far a ratio is believed.
PATIENCE = 3.0
BOUNDS = (0.1, 10.0)
ROUNDS = 9

Array = np.ndarray[Any, Any]


class Probe(NamedTuple):
    """A small convolution, the kernels that it needs, and its seconds where the constants come from."""

    seconds: float
    kernels: tuple[str, ...]
    call: Callable[[], None]


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _planes(x: tuple[int, ...], taps: tuple[int, ...], tile: tuple[int, ...] | None) -> None:
    from spectralops._cpu.vector.convolution import Extent, filter_windows, sum_windows

    image, kernel, out = _arrays(x, taps, x)
    start = tuple((k - 1) // 2 for k in taps)
    if tile is None:
        sum_windows(image, kernel, out, start, 1)
    else:
        filter_windows(image, kernel, out, Extent(x, taps, start, (1,) * len(x), x, tile, False), 1)


def _channels(size: int, taps: int, tile: int | None) -> None:
    from spectralops._cpu.vector.convolution import Extent, filter_channels, sum_channels

    image, weight, out = _arrays((1, 1, 16, size, size), (1, 32, 16, taps, taps), (1, 1, 32, size, size))
    half, pair = taps // 2, (size, size)
    if tile is None:
        sum_channels(image, weight, out, (-half, -half), (1, 1), (1, 1), 1)
    else:
        extent = Extent(pair, (taps, taps), (half, half), (1, 1), pair, (tile, tile), False)
        filter_channels(image, weight, out, extent, 1)


@lru_cache(maxsize=8)
def _arrays(*shapes: tuple[int, ...]) -> tuple[Array, ...]:
    return tuple(_random(*shape) for shape in shapes)


FAMILIES = {
    "rows": Probe(0.13e-3, ("copy_strip", "sum_rows"), partial(_planes, (256, 256), (7, 7), None)),
    "taps": Probe(0.104e-3, ("copy_strip", "sum_taps"), partial(_planes, (65536,), (31,), None)),
    "channels": Probe(0.46e-3, ("copy_strip", "sum_channels"), partial(_channels, 64, 3, None)),
    "lines": Probe(0.148e-3, ("filter_lines", "filter_rows_even"), partial(_planes, (65536,), (200,), (1024,))),
    "windows": Probe(0.23e-3, ("filter_windows", "filter_spectra"), partial(_planes, (256, 256), (31, 31), (160, 160))),
    "tiles": Probe(0.43e-3, ("filter_tiles", "tile_weights"), partial(_channels, 64, 7, 40)),
}


@lru_cache(maxsize=1)
def ratios() -> tuple[float, ...]:
    """Time of this machine over that of the constants, for each family; read once per process."""
    found = _known()
    return tuple(found.get(name, 1.0) for name in FAMILIES)


def _known() -> dict[str, float]:
    """What is known of this machine."""
    switch = os.environ.get(SWITCH)
    if switch == "default":
        return {}
    if switch:
        try:
            return _checked(json.loads(Path(switch).read_text()))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{SWITCH} is {switch!r}, but must name a file of ratios or be 'default'") from error
    path = _file()
    try:
        return _checked(json.loads(path.read_text())) if path else {}
    except (OSError, TypeError, ValueError):
        return {}


def _checked(found: Any) -> dict[str, float]:
    """Positive numbers by the names of families, within what is believed."""
    if not isinstance(found, dict):
        raise ValueError(f"ratios are a {type(found).__name__}, but must be a mapping of names to numbers")
    low, high = BOUNDS
    return {name: min(max(float(found[name]), low), high) for name in FAMILIES if name in found}


def _file() -> Path | None:
    from spectralops._cpu.vector.kernels import cache_directory

    directory = cache_directory()
    return directory / "convolution-rates.json" if directory else None


def measure(names: tuple[str, ...] = tuple(FAMILIES)) -> None:
    """Time the probes of some families and keep the ratios; with ``SPECTRALOPS_RATES`` set there is nothing to do."""
    if os.environ.get(SWITCH):
        return
    path = _file()
    if path is None:
        return
    known = _known()
    for name in names:
        probe = FAMILIES[name]
        probe.call()
        known[name] = min(_seconds(probe.call) for _ in range(ROUNDS)) / probe.seconds
    try:
        # Other processes see the whole file or none.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(_checked(known), file)
        Path(file.name).replace(path)
    except OSError:
        return
    ratios.cache_clear()


def _seconds(call: Callable[[], None]) -> float:
    # Of this thread alone: others may keep the machine busy.
    start = time.thread_time()
    call()
    return time.thread_time() - start


_lock = threading.Lock()
_spent = 0.0


@contextmanager
def counted() -> Iterator[None]:
    """Count the seconds of a convolution that the cost model chose; after enough of them, measure this machine."""
    global _spent
    start = time.perf_counter()
    yield
    spent = time.perf_counter() - start
    with _lock:
        before, _spent = _spent, _spent + spent
    if before < PATIENCE <= before + spent:
        measure(_missing())


def _missing() -> tuple[str, ...]:
    """Families without a ratio whose kernels are compiled: nobody should wait for a compiler here."""
    from spectralops._cpu.vector.kernels import compiled

    known = _known()
    return tuple(
        name
        for name, probe in FAMILIES.items()
        if name not in known and all(compiled(kernel, "float32") for kernel in probe.kernels)
    )
