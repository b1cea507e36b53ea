"""Time every operator beside SciPy, NumPy and PyTorch, and print ratios.

    python benchmarks/run.py [--quick] [--only WORD ...] [--against NAME ...] [--rounds 7] [--json FILE]

Each case first checks every contestant against a float64 result; ours must pass, or the case fails and is not timed.
Then the contestants are called in turn, one further on in every round. A ratio is the median over the rounds of a
contestant's time over ours. "first" is the first call, with planning and compilation. For steps, times are per step.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cases import FULL

import spectralops
from spectralops._cli.bench import format_row
from spectralops._cli.cases import SHORT
from spectralops._cli.contest import Case, Setup, contest
from spectralops._cli.info import processor, threads

PACKAGES = ("numpy", "scipy", "numba", "torch", "cupy-cuda12x", "cupy-cuda13x")
PLACES = ("_DIR", "_DATA")  # where something lies, which matters to nobody else
STEERING = ("OPENBLAS_", "OMP_", "MKL_", "NUMBA_", "MALLOC_", "SPECTRALOPS_")


def surroundings(more: tuple[str, ...] = ()) -> dict[str, object]:
    """Hardware, versions (of `more` packages too) and commit, so that a result can be read later."""
    versions = {"python": platform.python_version(), "spectralops": spectralops.__version__}
    for name in (*PACKAGES, *more):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        status = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
        commit += " and changes" if status.stdout.strip() else ""
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "commit": commit,
        "processor": processor(),
        "cores": threads(),
        "platform": platform.platform(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "versions": versions,
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(STEERING) and not name.endswith(PLACES)
        },
    }


def record(case: Case, rounds: int) -> dict[str, object]:
    """Run one case, print its rows and return them."""
    print(f"\n{case}", flush=True)
    entry: dict[str, object] = {"group": case.group, "case": case.name, "skipped": case.skip}
    try:
        results = contest(case, rounds)
    except ArithmeticError as error:
        print(f"  WRONG {error}")
        return entry | {"error": str(error)}
    for result in results:
        print(format_row(result), flush=True)
    for name, reason in case.skip.items():
        print(f"  {name:17} left out: {reason}")
    return entry | {"results": [asdict(result) for result in results]}


def against(case: Case, names: list[str]) -> Case:
    """The case with no others than these: some take hours."""

    def build() -> Setup:
        setup = case.build()
        kept = {name: one for name, one in setup.contestants.items() if name.startswith("spectralops") or name in names}
        return replace(setup, contestants=kept)

    return replace(case, build=build, skip=case.skip | {"others": f"--against {' '.join(names)}"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the short set, three rounds: a check that all cases run")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name contains every word")
    parser.add_argument("--against", nargs="+", default=[], metavar="NAME", help="no contestants but ours and these")
    parser.add_argument("--rounds", type=int, default=7, help="timed calls of each contestant (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write results, hardware, versions and commit")
    options = parser.parse_args()
    chosen = [case for case in (SHORT if options.quick else FULL) if all(word in str(case) for word in options.only)]
    if not chosen:
        parser.error(f"--only is {' '.join(options.only)}, but must match a case")
    if options.against:
        chosen = [against(case, options.against) for case in chosen]
    about = surroundings()
    print(json.dumps(about, indent=2))
    entries: list[dict[str, object]] = []
    for case in chosen:
        entries.append(record(case, 3 if options.quick else options.rounds))
        if options.json:  # after each: a long list may be stopped
            options.json.write_text(json.dumps(about | {"cases": entries}, indent=2) + "\n")
    wrong = [entry for entry in entries if "error" in entry]
    print(f"\n{len(entries) - len(wrong)} cases right, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
