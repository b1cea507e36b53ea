"""diffusion_filter on a CUDA device, beside the same recurrence as operations of CuPy and a copy of the field.

    python benchmarks/gpu_diffusion_filter.py [--json FILE] [--match TEXT]

Fields are those of gcm-filters' own benchmark (10 x 1024 x 1024), alone, around land, and on a grid with a metric; a
volume and lines. A small field is first compared with NumPy, bit for bit. Times are medians of CUDA events, the
second-level cache flushed between calls, in microseconds; `levels` is how many Laplacians a call applies.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from gpu_timing import copy_bytes_per_us, median_us, write

import spectralops as so

GCM = (10, 1024, 1024)


@dataclass(frozen=True)
class Case:
    """One row: the field, its filtered axes, and what is around it."""

    shape: tuple[int, ...]
    axes: int
    dtype: str
    form: str = "open"
    scale: float = 4.0
    options: dict[str, Any] = field(default_factory=lambda: {"filter_shape": "taper"})

    @property
    def name(self) -> str:
        kind = self.options.get("filter_shape", "gaussian")
        sizes = "x".join(map(str, self.shape))
        return f"{sizes} {self.axes}d {self.dtype} {kind} scale {self.scale:g} {self.form}"

    def small(self) -> Case:
        """The same of a field that NumPy filters at once."""
        shape = tuple(min(n, 140 if n > 16 else 2) for n in self.shape[-self.axes :])
        shape = (12, 14, 36) if self.axes == 3 else shape
        return Case((2, *shape), self.axes, self.dtype, self.form, self.scale, self.options)

    def arrays(self, xp: Any) -> tuple[Any, dict[str, Any]]:
        """The field and the keywords, arrays of the library xp."""
        rng, grid = np.random.default_rng(0), self.shape[-self.axes :]
        options = dict(self.options)
        if self.form != "open":
            options["mask"] = xp.asarray(rng.random(grid) > 0.3)
        if self.form == "metric":
            area, *faces = (xp.asarray(1 + rng.random(grid), self.dtype) for _ in range(2 * self.axes + 1))
            options["metric"] = so.Metric(area, faces[: self.axes], faces[self.axes :], 0.5)
        return xp.asarray(rng.standard_normal(self.shape), self.dtype), options

    def call(self, xp: Any, backend: str) -> Callable[[], Any]:
        """A warm call that writes into an array of its own."""
        u, options = self.arrays(xp)
        out, axes = xp.empty_like(u), tuple(range(-self.axes, 0))
        dx = (1.0,) * self.axes
        return lambda: so.diffusion_filter(u, self.scale, dx, axes=axes, out=out, backend=backend, **options)

    @property
    def levels(self) -> int:
        plan = so.plan_diffusion_filter(
            self.shape, self.dtype, self.scale, (1.0,) * self.axes, axes=tuple(range(-self.axes, 0)), **self.options
        )
        return plan.n_steps


GAUSSIAN: dict[str, Any] = {}
CASES = [
    *(Case(GCM, 2, dtype) for dtype in ("float64", "float32")),
    *(Case(GCM, 2, dtype, scale=20.0, options=GAUSSIAN) for dtype in ("float64", "float32")),
    *(Case(GCM, 2, dtype, form) for form in ("land", "metric") for dtype in ("float64", "float32")),
    Case((4096, 4096), 2, "float32"),
    Case((8192, 4096), 1, "float32"),
    Case((256, 256, 256), 3, "float32"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--match", default="")
    arguments = parser.parse_args()
    rate, rows = copy_bytes_per_us(), {}
    for case in CASES:
        if arguments.match not in case.name:
            continue
        found, expected = case.small().call(cupy, "cuda")().get(), case.small().call(np, "numpy")()
        assert np.array_equal(found, expected, equal_nan=True), case.name
        floor = 2 * np.prod(case.shape) * np.dtype(case.dtype).itemsize / rate
        ours, plain = (median_us(case.call(cupy, backend)) for backend in ("cuda", "cupy"))
        rows[case.name] = {"us": ours, "cupy": plain, "levels": case.levels, "copy": float(floor)}
        print(
            f"{case.name:52} {ours:8.0f} us   cupy {plain:8.0f}   {plain / ours:5.1f} x   copy {floor:6.1f}", flush=True
        )
    if arguments.json:
        write(arguments.json, rows)


if __name__ == "__main__":
    main()
