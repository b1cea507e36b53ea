"""Claims of speed as data: a benchmark case, who is compared in it, and the ratio that must be reached.

A module `cases_*.py` beside this one exports ``CLAIMS: list[Claim]``; `cpu_spectral.py` measures them all.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spectralops._cli.contest import BUDGET, Case, Setup, measure, relative_error

__all__ = ["Claim", "Ratio", "Verdict", "judge"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of the best of `against` over that of `ours`, contestants of a case by name, is at least `least`."""

    against: tuple[str, ...]
    least: float
    ours: str = "spectralops"

    def __str__(self) -> str:
        return f"{self.ours} against {' or '.join(self.against)}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of one case. `quick` ones are run where only a check is wanted that all of it works."""

    case: Case
    ratios: tuple[Ratio, ...]
    quick: bool = False

    def __str__(self) -> str:
        return str(self.case)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One ratio as measured: median and quartiles over the rounds, and the median times in seconds."""

    ratio: str
    against: str
    least: float
    median: float
    low: float
    high: float
    seconds: float
    seconds_against: float

    @property
    def reached(self) -> bool:
        return self.median >= self.least


def checked(case: Case) -> tuple[Setup, dict[str, float]]:
    """The case with its arrays made, and every contestant's relative error.

    Raises
    ------
    ArithmeticError
        If one of ours is wrong: a fast wrong answer is no result.
    """
    setup = case.build()
    errors = {}
    for name, contestant in setup.contestants.items():
        errors[name] = relative_error(contestant.call(), setup.expected)
        if name.startswith("spectralops") and not errors[name] <= setup.tolerance:
            raise ArithmeticError(
                f"{case}: the relative error of {name} is {errors[name]:.3g}, but must be at most {setup.tolerance:.3g}"
            )
    return setup, errors


def judge(
    claim: Claim, rounds: int, seconds: float = BUDGET, shared: bool = False
) -> tuple[list[Verdict], dict[str, float]]:
    """Check all contestants, call them in turn, and compare: verdicts, and relative errors by contestant.

    On a `shared` machine processor time is compared, of single threads alone.
    """
    setup, errors = checked(claim.case)
    possible = [ratio for ratio in claim.ratios if ratio.ours in setup.contestants]
    ratios = [ratio for ratio in possible if not shared or setup.contestants[ratio.ours].threads == 1]
    wanted = {name for ratio in ratios for name in (ratio.ours, *ratio.against)} & set(setup.contestants)
    chosen = {name: setup.contestants[name] for name in setup.contestants if name in wanted}
    times = measure(chosen, rounds, seconds, time.process_time if shared else time.perf_counter)
    verdicts = []
    for ratio in ratios:
        present = [name for name in ratio.against if name in times]
        if not present or ratio.ours not in times:
            continue
        best = min(present, key=lambda name: statistics.median(times[name]))
        quotients = [a / b for a, b in zip(times[best], times[ratio.ours], strict=True)]
        low, median, high = statistics.quantiles(quotients, n=4)
        seconds_of = {name: statistics.median(times[name]) / setup.work for name in (ratio.ours, best)}
        verdicts.append(
            Verdict(str(ratio), best, ratio.least, median, low, high, seconds_of[ratio.ours], seconds_of[best])
        )
    return verdicts, errors
