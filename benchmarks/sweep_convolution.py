"""Is the chosen algorithm the quickest? convolve and fft_conv2d over sizes, kernels, batches, channels and dtypes.

    python benchmarks/sweep_convolution.py [--quick] [--json FILE]

At each point the plan for method="auto" is called in turn with one for every method, and with the rivals from SciPy;
methods predicted to take over `HOPELESS` times the best are left out. `loss` is the time of "auto" over that of the
quickest, the least of some rounds in processor time of the one thread, so that other processes disturb little.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy loads

import argparse  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import scipy.signal  # noqa: E402
from run import surroundings  # noqa: E402

import spectralops as so  # noqa: E402

METHODS = ("direct", "fft", "tiles")
HOPELESS = 4.0
ALLOWED = 1.25
ROUNDS = 7
SHORTEST = 5e-4  # seconds of a sample: shorter calls are repeated
LONGEST = 0.08  # predicted seconds of a call beyond which a point is left out
SIZES = {
    1: ((50,), (1000,), (16384,), (10**6,), (64, 1000), (1000, 100)),
    2: ((16, 16), (50, 70), (128, 128), (509, 512), (1000, 1000), (2048, 2048), (64, 64, 64), (8, 256, 256)),
    3: ((20, 20, 20), (64, 64, 64), (128, 128, 128)),
}
KERNELS = {
    1: (2, 3, 9, 31, 100, 400, 3000),
    2: (2, 3, 5, 7, 9, 11, 15, 21, 31, 63, 127, 255),
    3: (2, 3, 5, 7, 11),
}
LAYERS = (
    # images, inputs, outputs, size, groups
    (1, 3, 16, 32, 1), (8, 3, 32, 64, 1), (1, 3, 64, 224, 1), (2, 16, 32, 112, 1), (2, 32, 32, 56, 1),
    (2, 64, 64, 28, 1), (2, 64, 64, 56, 1), (1, 128, 128, 28, 1), (1, 16, 1, 128, 1), (4, 1, 16, 64, 1),
    (1, 64, 64, 56, 64), (2, 32, 32, 112, 32), (2, 16, 32, 64, 16), (1, 32, 32, 64, 4), (1, 8, 8, 256, 1),
)  # fmt: skip
TAPS = (1, 2, 3, 5, 7, 9, 13, 21, 31)


def points() -> Iterator[tuple[str, dict[str, Any], Callable[..., Any], dict[str, Callable[[], Any]]]]:
    """Name, predicted seconds by method, a call for each, and rivals."""
    rng = np.random.default_rng(0)
    for ndim, shapes in SIZES.items():
        for shape in shapes:
            for k in KERNELS[ndim]:
                for dtype in ("float32", "float64", "complex64"):
                    if k > min(shape[-ndim:]) or (dtype != "float32" and k not in (3, 9, 31)):
                        continue
                    x, taps = _noise(rng, shape, dtype), _noise(rng, (k,) * ndim, dtype)
                    full = taps.reshape((1,) * (len(shape) - ndim) + taps.shape)
                    rivals = {
                        name: partial(getattr(scipy.signal, name), x, full, mode="same", axes=tuple(range(-ndim, 0)))
                        for name in ("fftconvolve", "oaconvolve")
                    }
                    planned = partial(so.plan_convolve, shape, dtype, taps, mode="same")
                    yield f"convolve {dtype} {list(shape)} K={k}", (x, taps), planned, rivals
    for images, inputs, outputs, size, groups in LAYERS:
        for k in TAPS:
            for stride in (1, 2):
                if k > size // 2 or (stride == 2 and k not in (3, 7)):
                    continue
                x = _noise(rng, (images, inputs, size, size), "float32")
                weight = _noise(rng, (outputs, inputs // groups, k, k), "float32")
                options = {"padding": k // 2, "groups": groups, "stride": stride}
                planned = partial(so.plan_fft_conv2d, x.shape, "float32", weight, **options)
                name = f"conv2d float32 {images}×{inputs}→{outputs}×{size}² groups={groups} K={k} stride={stride}"
                yield name, (x, weight), planned, {}


def _noise(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else values).astype(dtype)


def judge(arrays: tuple[Any, ...], planned: Callable[..., Any], rivals: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Least seconds of every contestant, and what "auto" loses."""
    plans = {method: planned(method=method) for method in METHODS}
    best = min(plan.cost.seconds for plan in plans.values())
    kept = {name: plan for name, plan in plans.items() if plan.cost.seconds <= HOPELESS * best}
    auto = planned(method="auto")
    calls = {name: partial(plan, *arrays) for name, plan in kept.items() if name != auto.method} | rivals
    calls = {"auto": partial(auto, *arrays)} | calls
    times: dict[str, list[float]] = {name: [] for name in calls}
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = max(1, int(SHORTEST / max(_time(call, 1), 1e-7)))
    for turn in range(ROUNDS):
        for name in [*list(calls)[turn % len(calls) :], *list(calls)[: turn % len(calls)]]:
            times[name].append(_time(calls[name], repeats[name]))
    least = {name: min(values) for name, values in times.items()}
    return {
        "chosen": auto.method,
        "engine": auto.cost.engine,
        "lengths": auto.lengths,
        "predicted": {name: plan.cost.seconds for name, plan in plans.items()},
        "seconds": least,
        "loss": least["auto"] / min(least.values()),
    }


def _time(call: Callable[[], Any], repeats: int) -> float:
    start = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - start) / repeats


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every twentieth point: a check that it works")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th point from the I-th on, added to FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write results, hardware, versions and commit")
    parser.add_argument("--seconds", type=float, default=900.0, help="stop after this time (default: %(default)s)")
    options = parser.parse_args()
    start = time.monotonic()
    first, step = (int(part) for part in options.part.split("/"))
    if options.quick:
        step *= 20
    found = []
    for number, (name, arrays, planned, rivals) in enumerate(points()):
        if number % step != first or planned(method="auto").cost.seconds > LONGEST:
            continue
        if time.monotonic() - start > options.seconds:
            print(f"stopped before {name}")
            break
        entry = {"point": name} | judge(arrays, planned, rivals)
        found.append(entry)
        mark = "  SLOW" if entry["loss"] > ALLOWED else ""
        print(f"{name:64s} {entry['chosen']:6s} {entry['loss']:5.2f}{mark}", flush=True)
    losses = sorted(entry["loss"] for entry in found)
    slow = [entry for entry in found if entry["loss"] > ALLOWED]
    middle, most = statistics.median(losses), losses[-1]
    print(f"{len(found)} points, {len(slow)} above {ALLOWED}; median {middle:.3f}, most {most:.2f}")
    if options.json:
        options.json.parent.mkdir(exist_ok=True)
        before = json.loads(options.json.read_text())["points"] if step > 1 and options.json.exists() else []
        options.json.write_text(json.dumps(surroundings() | {"allowed": ALLOWED, "points": before + found}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
