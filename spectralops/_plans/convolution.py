"""What the plans of both convolutions share: result dtypes and the words about the chosen algorithm."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, Protocol

import numpy as np

from spectralops import _arrays, _checks, _support
from spectralops._arrays import Operand
from spectralops._compiler import unavailable
from spectralops._plans.convolution_cost import Cost
from spectralops._plans.vector_cost import Rates

__all__ = [
    "METHODS", "around", "bytes_moved", "explain_method", "machine_rates", "offered", "quickest", "result_dtype",
    "surroundings",
]  # fmt: skip

METHODS = ("auto", "direct", "fft", "tiles")

MEANING = {
    "direct": "sums of products; a NaN reaches only the outputs that depend on it",
    "fft": "one transform per image; a NaN reaches its whole image",
    "tiles": "overlap-save; a NaN reaches the tiles that contain it",
}


ENGINES = {"vector": "kernels compiled on first use", "scipy": "NumPy and SciPy"}
# What a tile of the device's kernels stands for.
DEVICE_MEANING = MEANING | {
    "fft": "one tile for everything; a NaN reaches its whole image",
    "tiles": "overlap-save; a NaN reaches the two tiles of its image that share a transform",
}


def machine_rates(backend: str | None) -> Rates | None:
    """How quick this machine's compiled kernels are, or None where none can run."""
    if not (backend is None or (isinstance(backend, str) and backend == "cpu")) or unavailable():
        return None
    return _rates(_ratios()())


def surroundings(op: str, device: str, backend: str | None) -> tuple[Rates | None, int]:
    """What the choice depends on beside the arguments: rates of compiled kernels, and a block's shared memory."""
    if backend is None and isinstance(device, str) and device.startswith("cuda"):
        backend = "cuda"
    return machine_rates(backend), device_shared(op, backend)


def around(op: str, x: Any, backend: str | None) -> tuple[Rates | None, int] | None:
    """The same for a NumPy or CuPy array; None for others."""
    device = _arrays.native_devices.get(type(x))
    if device == "cuda" and backend is None:
        return None, _shared()()
    return None if device is None else surroundings(op, device, backend)


def device_shared(op: str, backend: str | None) -> int:
    """Shared memory that a block has for tiles where a device's kernels may run; 0 elsewhere."""
    own = _support.SUPPORT.get((op, "cuda"))
    if own is None or not isinstance(backend, str) or _support.SUPPORT.get((op, backend)) != own:
        return 0
    found: int = _shared()()
    return found


@lru_cache(maxsize=1)
def _shared() -> Callable[[], int]:
    found: Callable[[], int] = importlib.import_module(_support.SUPPORT["convolve", "cuda"].module).shared_bytes
    return found


def offered(device: tuple[Cost, ...], plain: tuple[Cost, ...], method: str) -> tuple[Cost, ...]:
    """The costs of a device's kernels, or the plain ones where kernels lack the method or take longer than cuFFT."""
    able = [cost for cost in device if cost.engine == "cuda"]
    if method == "auto":
        best = quickest(device).engine == "cuda"
    else:
        best = any(cost.method == method for cost in able)
    return tuple(able) if best else plain


@lru_cache(maxsize=1)
def _ratios() -> Callable[[], tuple[float, ...]]:
    found: Callable[[], tuple[float, ...]] = importlib.import_module(_support.SUPPORT["convolve", "cpu"].module).ratios
    return found


@lru_cache(maxsize=8)
def _rates(ratios: tuple[float, ...]) -> Rates:
    return Rates(*ratios)


def quickest(costs: Sequence[Cost]) -> Cost:
    """The cheapest way to do the same."""
    return min(costs, key=lambda cost: cost.seconds)


def result_dtype(op: str, dtypes: dict[str, str], default: str) -> str:
    """NumPy's promotion of the arguments' dtypes, integers and bool counting as `default`; bfloat16 stays alone."""
    names = [_checks.inexact_dtype(op, dtype, name, default) for name, dtype in dtypes.items()]
    if len(set(names)) == 1:
        return names[0]
    return reduce(np.promote_types, (np.dtype(_checks.compute_dtype(name)) for name in names)).name


def operand_dtype(dtype: str, out_dtype: str) -> str:
    """What an argument of `dtype` is calculated in: the result's precision, and real stays real."""
    compute = _checks.compute_dtype(out_dtype)
    return compute if dtype in _checks.COMPLEXES else _checks.real_dtype(compute)


def bytes_moved(operands: tuple[Operand, ...], out_shape: tuple[int, ...], out_dtype: str) -> int:
    """Fewest bytes between memory and processor: every argument in, the result out."""
    read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in operands)
    return read + _checks.nbytes(out_shape, out_dtype)


class Convolution(_support.Plan, Protocol):
    """What both kinds of plans tell of their algorithm."""

    @property
    def cost(self) -> Cost: ...
    @property
    def requested(self) -> str: ...
    @property
    def seconds(self) -> tuple[tuple[str, float], ...]: ...


def explain_method(plan: Convolution) -> str:
    """Two or three lines: which algorithm, who chose it, how it runs and what the cost model says of the others."""
    cost, requested, backend = plan.cost, plan.requested, plan.backend
    method, lengths = cost.method, cost.lengths
    if backend == "reference":
        return f"method: explicit sums in 64 bit, whatever was asked for ({requested!r})"
    size = f", lengths {'x'.join(map(str, lengths))}" if lengths else ""
    why = "asked for" if requested == method else f"chosen by {requested!r}"
    model = ", ".join(f"{name} {1e3 * value:.3g} ms" for name, value in plan.seconds)
    if "cudnn" in dict(plan.seconds):
        model += " (cudnn: where spectralops.torch is called and it is quicker)"
    if cost.engine == "cuda":
        how = _support.algorithm(plan)
        meaning = MEANING if cost.packed else DEVICE_MEANING
        return f"method: {method}{size}, {why}: {meaning[method]}\nruns: {how}\ncost model: {model}"
    by = f", by {ENGINES[cost.engine]}" if backend == "cpu" else ""
    reason = _support.passed_over(plan)
    none = f" (no kernels: {reason})" if reason else ""
    return f"method: {method}{size}, {why}{by}{none}: {MEANING[method]}\ncost model: {model}"
