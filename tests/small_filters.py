"""diffusion_filter on small grids of every form, as functions of the backend: what fast executors are tested with."""

from __future__ import annotations

from typing import Any

import numpy as np

import spectralops as so
from spectralops._plans.diffusion_filter import operand_arrays

GRIDS = {
    "1d": ((13,), (0,)),
    "1d-batch": ((3, 21), (1,)),
    "2d": ((17, 20), (0, 1)),
    "2d-batch": ((3, 40, 9), (1, 2)),
    "2d-apart": ((9, 3, 17), (0, 2)),
    "3d": ((9, 12, 10), (0, 1, 2)),
    "3d-batch": ((2, 6, 7, 8), (1, 2, 3)),
    "one-row": ((1, 7), (0, 1)),
    "one-column": ((5, 1), (0, 1)),
    "two-rows": ((2, 5), (0, 1)),
    "three-rows": ((3, 5), (0, 1)),
}
FORMS = ("open", "coast", "flux", "flux-coast", "adjoint")
SPACING = (0.5, 0.7, 0.9)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the last bit, the sign of zero included; one NaN is as good as another."""
    nan = np.isnan(b)
    return np.array_equal(np.isnan(a), nan) and a[~nan].tobytes() == b[~nan].tobytes()


class Run:
    """A filter of given operands, as a function of the backend and the workers."""

    def __init__(self, arrays: tuple[Any, ...], adjoint: bool, **options: Any) -> None:
        self.arrays, self._adjoint, self._options = arrays, adjoint, options

    def plan(self, backend: str) -> Any:
        """The plan, of the adjoint if that is asked for."""
        u = self.arrays[0]
        device = "cuda" if backend in ("cuda", "cupy") else "cpu"
        plan = so.plan_diffusion_filter(u.shape, u.dtype, 1.5, backend=backend, device=device, **self._options)
        return plan.adjoint() if self._adjoint else plan

    def __call__(self, backend: str, workers: int = 1) -> np.ndarray:
        return np.asarray(self.plan(backend)(*self.arrays, workers=workers))


def call(form: str, shape: tuple[int, ...], axes: tuple[int, ...], rng: Any, dtype: str, **options: Any) -> Run:
    """A filter of the given form; "flux" with a metric, "coast" with land, where the field is NaN."""
    u = rng.standard_normal(shape).astype(dtype)
    u.flat[0] = -0.0
    if form.endswith("coast"):
        options["mask"] = rng.random(shape[-2:]) > 0.25
        u[np.broadcast_to(~options["mask"], shape)] = np.nan
    if form not in ("open", "coast"):
        area, *faces = (1 + rng.random((2 * len(axes) + 1, *shape))).astype(dtype)
        options["metric"] = so.Metric(area, faces[: len(axes)], faces[len(axes) :], (0.5,) * len(axes))
    arrays = operand_arrays(options.get("mask"), options.get("metric"))
    return Run((u, *arrays), form == "adjoint", axes=axes, dx=SPACING[: len(axes)], **options)
