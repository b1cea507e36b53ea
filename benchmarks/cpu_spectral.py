"""Measure every claim about spectral operators and convolutions on the CPU, or sweep filters over sizes and batches.

    python benchmarks/cpu_spectral.py [--quick] [--only WORD ...] [--rounds 21] [--json FILE]
    python benchmarks/cpu_spectral.py --sweep [--quick] [--only WORD ...] [--json FILE] [--plot FILE]

With `--add`, the entries that FILE holds of other cases are kept, so that a long list can be measured in parts.

Claims come from `cases_*.py`: each case first checks every contestant against a float64 result, then all are called in
turn, and a ratio is the median over the rounds. `--quick` runs the cheap ones, three rounds: a check that it works.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy loads: contestants have the threads that their names say

import argparse  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import asdict, fields  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from claims import Claim, judge  # noqa: E402
from run import surroundings  # noqa: E402
from sweep import Point, plot, summary, sweep  # noqa: E402

Entry = dict[str, Any]
Keep = Callable[[list[Entry]], list[Entry]]
# Of the surroundings, what may differ between the entries of one file that was measured in parts.
MOMENT = ("time", "commit", "load")


def all_claims() -> list[Claim]:
    """The claims of every `cases_*.py` in this folder."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
    return [claim for name in modules for claim in getattr(importlib.import_module(name), "CLAIMS", [])]


def record(claim: Claim, rounds: int, seconds: float, shared: bool) -> Entry:
    """Measure one claim, print its rows and return them."""
    print(f"\n{claim}", flush=True)
    entry: Entry = {"group": claim.case.group, "case": claim.case.name}
    try:
        verdicts, errors = judge(claim, rounds, seconds, shared)
    except ArithmeticError as error:
        print(f"  WRONG {error}")
        return entry | {"wrong": str(error)}
    for verdict in verdicts:
        mark = "" if verdict.reached else "   SHORT"
        print(
            f"  {verdict.ratio:42} {verdict.median:7.2f}x ({verdict.low:.2f} … {verdict.high:.2f}), "
            f"at least {verdict.least:g};  {1e3 * verdict.seconds:.4g} ms, {verdict.against} "
            f"{1e3 * verdict.seconds_against:.4g} ms{mark}",
            flush=True,
        )
    clock = "processor" if shared else "wall"
    return entry | {
        "clock": clock, "errors": errors, "verdicts": [asdict(v) | {"reached": v.reached} for v in verdicts]
    }  # fmt: skip


def run_claims(options: argparse.Namespace, keep: Keep) -> bool:
    """All chosen claims, each kept when it is measured; whether every result is right."""
    chosen = [claim for claim in all_claims() if all(word in str(claim) for word in options.only)]
    if options.quick:
        chosen = [claim for claim in chosen if claim.quick]
    entries = []
    for claim in chosen:
        entries.append(record(claim, 3 if options.quick else options.rounds, options.seconds, options.shared))
        keep(entries)
    verdicts = [verdict for entry in entries for verdict in entry.get("verdicts", [])]
    short = [verdict for verdict in verdicts if not verdict["reached"]]
    wrong = [entry for entry in entries if "wrong" in entry]
    print(f"\n{len(verdicts) - len(short)} of {len(verdicts)} ratios reached, {len(wrong)} cases wrong")
    return not wrong


def run_sweep(options: argparse.Namespace, keep: Keep) -> bool:
    """All chosen shapes."""
    entries = keep([asdict(point) for point in sweep(options.quick, options.only)])
    names = [field.name for field in fields(Point)]
    points = [Point(**{name: entry[name] for name in names} | {"sizes": tuple(entry["sizes"])}) for entry in entries]
    print(summary(points))
    if options.plot:
        plot(points, options.plot)
    return True


def keeper(options: argparse.Namespace, about: dict[str, object]) -> Keep:
    """What adds fresh entries, with the commit and load that they were measured at, to those of the results file."""
    known: list[Entry] = []
    if options.json and options.add and options.json.exists():
        before = json.loads(options.json.read_text())
        known = [{name: before[name] for name in MOMENT} | entry for entry in before["cases"]]

    def keep(entries: list[Entry]) -> list[Entry]:
        fresh = {name_of(entry) for entry in entries}
        moment = {name: about[name] for name in MOMENT}
        entries = [entry for entry in known if name_of(entry) not in fresh] + [moment | entry for entry in entries]
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(about | {"cases": entries}, indent=1) + "\n")
        return entries

    return keep


def name_of(entry: Entry) -> str:
    """What tells one entry of a results file from another."""
    names = ("group", "case", "op", "dtype", "batch", "sizes", "modes")
    return json.dumps([entry.get(name) for name in names])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", action="store_true", help="filters over sizes, batches and dtypes instead of claims")
    parser.add_argument(
        "--quick", action="store_true", help="the cheap cases, three rounds: a check that all of it runs"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name contains every word")
    parser.add_argument("--rounds", type=int, default=21, help="timed calls of each contestant (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="the most for one case (default: %(default)s)")
    parser.add_argument("--shared", action="store_true", help="processor time, of single threads: other work runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write results, hardware, versions and commit")
    parser.add_argument("--add", action="store_true", help="keep what FILE holds of other cases")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the sweep")
    options = parser.parse_args()
    about = surroundings()
    print(json.dumps(about, indent=2))
    right = (run_sweep if options.sweep else run_claims)(options, keeper(options, about))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
