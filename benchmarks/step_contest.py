"""Fair timing of steps: contestants that take several steps in a call are checked first, then called in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Case", "Contestant", "Missing", "Outcome", "Patches", "Row", "Setup", "Target", "contest"]

# Sides of the blocks in which results are checked.
PATCH = 48


class Missing(Exception):  # noqa: N818
    """A peer that is not here, or does not run this case: it is left out, visibly."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to take steps.

    `call` takes `steps` steps, from where the last call ended or from the same field again; `result` is the field after
    the first call. `interior`: whether its ends differ from the case's, so that only the inside is checked.
    """

    call: Callable[[], Any]
    steps: int
    result: Callable[[], Any]
    threads: int = 1
    interior: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """A case with its arrays made: how to make each contestant, and the error of a result after some steps.

    `tolerance` is the error allowed for one step; rounding errors add up over steps.
    """

    contestants: dict[str, Callable[[], Contestant]]
    error: Callable[[Any, int, bool], float]
    tolerance: float


@dataclass(frozen=True, slots=True)
class Target:
    """How many times faster ours must be than a peer, as users run it and without its page faults; None: no claim."""

    against: str
    default: float | None
    fair: float | None
    ours: str = "spectralops"


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    name: str
    build: Callable[[bool], Setup]
    targets: tuple[Target, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one contestant: seconds per step or call, error, first call."""

    name: str
    first: float
    median: float
    low: float
    high: float
    error: float


class Patches:
    """The right result in a few blocks: single steps in float64 of what they depend on.

    `step(u, *fields)` takes one step of a periodic grid by whole arrays; cells near the ends of a block's surroundings
    come out wrong, one more with each step, so that the surroundings are as many cells wider.
    """

    def __init__(self, step: Callable[..., Any], width: int, u: Any, *fields: Any) -> None:
        self.step, self.width, self.arrays = step, width, (u, *fields)

    def __call__(self, result: Any, steps: int, interior: bool) -> float:
        """Relative error in the norm over all blocks; infinite where values are not finite."""
        result = np.asarray(result)
        shape = result.shape
        # Blocks across the ends, unless these differ, and in the middle.
        places = [[n // 2 for n in shape]] if interior else [[n // 2 for n in shape], [n - PATCH // 2 for n in shape]]
        difference = norm = 0.0
        for place in places:
            reach = self.width * steps
            spans = [
                np.arange(start - reach, start + PATCH + reach) if PATCH + 2 * reach < n else np.arange(n)
                for start, n in zip(place, shape, strict=True)
            ]
            inner = [
                np.arange(reach, reach + PATCH) if len(span) != n else (start + np.arange(min(PATCH, n))) % n
                for span, start, n in zip(spans, place, shape, strict=True)
            ]
            near = np.ix_(*(span % n for span, n in zip(spans, shape, strict=True)))
            u, *fields = (np.broadcast_to(a, shape)[near] for a in self.arrays)
            u, fields = u.astype(np.float64), [a if a.dtype == bool else a.astype(np.float64) for a in fields]
            for _ in range(steps):
                u = self.step(u, *fields)
            expected = u[np.ix_(*inner)]
            found = result[np.ix_(*(s[i] % n for s, i, n in zip(spans, inner, shape, strict=True)))]
            if not np.isfinite(found).all():
                return float("inf")
            difference += float(np.sum((found - expected) ** 2))
            norm += float(np.sum(expected**2))
        return float(np.sqrt(difference / norm))


@dataclass(slots=True)
class Outcome:
    """Rows of one case, contestants left out with the reason, ratios by target."""

    rows: list[Row] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    ratios: dict[tuple[str, str], tuple[float, float, float]] = field(default_factory=dict)


def _timed(contestant: Contestant) -> float:
    start = time.perf_counter()
    contestant.call()
    return (time.perf_counter() - start) / contestant.steps


def contest(case: Case, quick: bool, peers: Callable[[str], bool], rounds: int, seconds: float) -> Outcome:
    """Check every contestant, call them in turn, compare.

    Raises
    ------
    ArithmeticError
        If one of ours is wrong: a fast wrong answer is no result.
    """
    setup, outcome = case.build(quick), Outcome()
    ready: dict[str, Contestant] = {}
    first, errors = {}, {}
    for name, make in setup.contestants.items():
        ours = name.startswith("spectralops")
        if not ours and not peers(name):
            outcome.left_out[name] = "not asked for"
            continue
        try:
            contestant = make()
            first[name] = _timed(contestant) * contestant.steps
            errors[name] = setup.error(contestant.result(), contestant.steps, contestant.interior)
        except Missing as reason:
            outcome.left_out[name] = str(reason)
            continue
        bound = setup.tolerance * (2 + contestant.steps)
        if not errors[name] <= bound:
            message = f"relative error {errors[name]:.3g}, but must be at most {bound:.3g}"
            if ours:
                raise ArithmeticError(f"{case}: {name}: {message}")
            outcome.left_out[name] = message
            continue
        ready[name] = contestant
    times = _measured(ready, rounds, seconds)
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        outcome.rows.append(Row(name, first[name], median, low, high, errors[name]))
    for target in case.targets:
        if target.ours in times and target.against in times:
            quotients = [a / b for a, b in zip(times[target.against], times[target.ours], strict=True)]
            low, median, high = statistics.quantiles(quotients, n=4)
            outcome.ratios[target.ours, target.against] = (median, low, high)
    return outcome


def _measured(ready: dict[str, Contestant], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Times per step of every contestant by round: each round calls all, starting one further on."""
    names = list(ready)
    one_round = sum(_timed(ready[name]) * ready[name].steps for name in names)
    rounds = max(3, min(rounds, int(seconds / max(one_round, 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for position in range(len(names)):
            name = names[(turn + position) % len(names)]
            times[name].append(_timed(ready[name]))
    return times
