"""Fair timing: correctness first, then calls of all contestants in turn, medians with their spread."""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = ["Case", "Contestant", "Result", "Setup", "contest", "measure", "optional"]

# Seconds that the timed calls of one case may take together; slow cases get fewer rounds, but never fewer than three.
BUDGET = 20.0

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to compute a case: a call without arguments and the number of threads it may use."""

    call: Callable[[], Any]
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Setup:
    """A case with its arrays made: the contestants by name, ours first, and the right result in float64."""

    contestants: dict[str, Contestant]
    expected: Any
    tolerance: float
    bytes_moved: int
    work: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a benchmark table; `build` makes the arrays, `skip` names contestants left out and why."""

    group: str
    name: str
    build: Callable[[], Setup]
    skip: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """Times of one contestant in seconds (median and quartiles) and its error against the right result."""

    contestant: str
    first: float
    median: float
    low: float
    high: float
    ratio: float
    error: float


def optional(module: str) -> Any:
    """An installed module, or None."""
    return importlib.import_module(module) if find_spec(module) else None


def relative_error(result: Any, expected: Any) -> float:
    """L2 norm of the difference over that of the right result; infinite where shapes or finiteness differ."""
    array = np.asarray(result)
    if array.shape != expected.shape or not np.isfinite(array).all():
        return float("inf")
    return float(np.linalg.norm((array - expected).ravel()) / np.linalg.norm(expected.ravel()))


def _time(contestant: Contestant, clock: Clock = time.perf_counter) -> tuple[float, Any]:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(contestant.threads)
    start = clock()
    result = contestant.call()
    return clock() - start, result


def measure(
    contestants: dict[str, Contestant], rounds: int, seconds: float = BUDGET, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Times of every contestant by round: each round calls all of them, starting one further on."""
    names = list(contestants)
    one_round = sum(_time(contestants[name], clock)[0] for name in names)
    rounds = max(3, min(rounds, int(seconds / max(one_round, 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for position in range(len(names)):
            name = names[(turn + position) % len(names)]
            times[name].append(_time(contestants[name], clock)[0])
    return times


def contest(case: Case, rounds: int) -> list[Result]:
    """Check every contestant against the right result, then time them.

    Raises
    ------
    ArithmeticError
        If ours is wrong: a fast wrong answer is no result.
    """
    setup = case.build()
    contestants = {name: one for name, one in setup.contestants.items() if name not in case.skip}
    first, errors = {}, {}
    for name, contestant in contestants.items():
        first[name], result = _time(contestant)
        errors[name] = relative_error(result, setup.expected)
    ours = next(iter(contestants))
    if not errors[ours] <= setup.tolerance:
        raise ArithmeticError(
            f"{case}: relative error is {errors[ours]:.3g}, but must be at most {setup.tolerance:.3g}"
        )
    times = measure(contestants, rounds)
    results = []
    for name, values in times.items():
        scaled = sorted(t / setup.work for t in values)
        low, _, high = statistics.quantiles(scaled, n=4)
        ratio = statistics.median(t / t0 for t, t0 in zip(values, times[ours], strict=True))
        results.append(
            Result(name, first[name] / setup.work, statistics.median(scaled), low, high, ratio, errors[name])
        )
    return results
