"""Measured and predicted time of every algorithm of convolve and fft_conv2d: what the cost model was fitted to.

python benchmarks/fit_convolution.py [dtype ...]        one core; process time, best of several rounds
"""

from __future__ import annotations

import os
import sys
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 (reads the number of threads when it loads)

import spectralops as so  # noqa: E402

METHODS = ("direct", "fft", "tiles")
LONGEST = 1.5  # predicted seconds beyond which an algorithm is not run
CONVOLVE = [
    ((1000,), (3,)),
    ((1000,), (31,)),
    ((1000,), (300,)),
    ((10**6,), (5,)),
    ((10**6,), (100,)),
    ((10**6,), (5000,)),
    ((64, 64), (3, 3)),
    ((256, 256), (3, 3)),
    ((256, 256), (9, 9)),
    ((512, 512), (31, 31)),
    ((2048, 2048), (5, 5)),
    ((2048, 2048), (63, 63)),
    ((32, 256, 256), (9, 9)),
    ((128, 128, 128), (3, 3, 3)),
    ((1000, 1), (1, 1000)),
    ((64, 1000), (31,)),
    ((256, 256), (31, 31)),
    ((1024, 1024), (127, 127)),
    ((2048, 2048), (15, 15)),
    ((2048, 2048), (255, 255)),
    ((128, 128, 128), (9, 9, 9)),
]
CONV2D = [
    ((1, 3, 32, 32), (8, 3, 3, 3), 1),
    ((8, 16, 64, 64), (32, 16, 3, 3), 1),
    ((2, 16, 224, 224), (32, 16, 3, 3), 1),
    ((2, 16, 224, 224), (32, 16, 7, 7), 1),
    ((2, 16, 224, 224), (32, 16, 31, 31), 1),
    ((2, 64, 56, 56), (64, 64, 3, 3), 1),
    ((8, 256, 14, 14), (256, 256, 3, 3), 1),
    ((2, 64, 112, 112), (64, 1, 3, 3), 64),
    ((2, 64, 112, 112), (64, 1, 31, 31), 64),
    ((2, 32, 64, 64), (32, 4, 5, 5), 8),
    ((1, 4, 512, 512), (4, 4, 31, 31), 1),
    ((2, 16, 224, 224), (32, 16, 5, 5), 1),
    ((2, 16, 224, 224), (32, 16, 15, 15), 1),
    ((2, 64, 224, 224), (64, 1, 7, 7), 64),
    ((2, 64, 224, 224), (64, 1, 15, 15), 64),
    ((8, 3, 64, 64), (16, 3, 5, 5), 1),
]


def measure(plans: dict[str, object], arrays: tuple[np.ndarray, ...]) -> dict[str, float]:
    """Best process time of each plan, taken in turns."""
    best = dict.fromkeys(plans, float("inf"))
    for _ in range(3):
        for name, plan in plans.items():
            start = time.process_time()
            plan(*arrays)
            best[name] = min(best[name], time.process_time() - start)
    return best


def report(label: str, plans: dict[str, object], arrays: tuple[np.ndarray, ...]) -> None:
    predicted = {name: plan.cost.seconds for name, plan in plans.items()}
    measured = measure({name: plan for name, plan in plans.items() if predicted[name] < LONGEST}, arrays)
    chosen = min(predicted, key=predicted.get)
    columns = [
        f"{name} {1e3 * measured[name]:.3g}/{1e3 * predicted[name]:.3g} {plans[name].lengths}" for name in measured
    ]
    loss = measured[chosen] / min(measured.values())
    print(f"{label:62s} {chosen:6s} {loss:4.2f}x the quickest | " + " | ".join(columns), flush=True)


def main(dtypes: list[str]) -> None:
    rng = np.random.default_rng(0)
    print("milliseconds, measured/predicted, and transform lengths")
    for dtype in dtypes:
        for shape, kernel in CONVOLVE:
            x, k = (rng.standard_normal(s).astype(dtype) for s in (shape, kernel))
            plans = {m: so.plan_convolve(shape, dtype, k, mode="same", method=m) for m in METHODS}
            report(f"convolve {dtype} {shape} {kernel}", plans, (x, k))
        for shape, weight, groups in CONV2D:
            x, w = (rng.standard_normal(s).astype(dtype) for s in (shape, weight))
            options = {"padding": weight[-1] // 2, "groups": groups}
            plans = {m: so.plan_fft_conv2d(shape, dtype, w, method=m, **options) for m in METHODS}
            report(f"fft_conv2d {dtype} {shape} {weight} groups={groups}", plans, (x, w))


if __name__ == "__main__":
    main(sys.argv[1:] or ["float32", "float64", "complex64"])
