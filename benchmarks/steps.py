"""Time steps and filters beside the peers, large grids twice: as users run them, and without their page faults.

    python benchmarks/steps.py [--quick] [--only WORD ...] [--peers NAME ...] [--rounds 9] [--json FILE]
    python benchmarks/steps.py --table FILE

Peers (`pip install "spectralops[bench]"`): py-pde, devito, gcm-filters, torch, jax; those not installed are left out
and named. Each case runs in a process of its own: first every contestant is checked against the exact result in
float64, then all are called in turn, and a ratio is the median over the rounds of the peer's time per step over ours.

By default the C library hands memory above 32 MiB back to the system, so that every large temporary of a peer is
faulted in anew. Mode "fair" tells it to keep them (MALLOC_MMAP_MAX_=0 and so on); both are published.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy loads: contestants have the threads that their names say
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from dataclasses import asdict  # noqa: E402
from pathlib import Path  # noqa: E402

from run import surroundings  # noqa: E402
from step_cases import CASES  # noqa: E402
from step_contest import Case, contest  # noqa: E402

FAIR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "268435456"}
MODES = ("default", "fair")
PACKAGES = ("py-pde", "devito", "gcm-filters", "jax", "xarray")


def record(case: Case, mode: str, options: argparse.Namespace) -> dict[str, object]:
    """Run one case in this process, print its rows and return them."""
    print(f"\n{case}, {mode}", flush=True)
    entry: dict[str, object] = {"case": str(case), "mode": mode}

    def wanted(name: str) -> bool:
        return not options.peers or any(word.lower() in name.lower() for word in options.peers)

    rounds, seconds = (3, 2.0) if options.quick else (options.rounds, options.seconds)
    try:
        outcome = contest(case, options.quick, wanted, rounds, seconds)
    except ArithmeticError as error:
        print(f"  WRONG {error}")
        return entry | {"wrong": str(error)}
    for row in outcome.rows:
        print(
            f"  {row.name:26} {1e3 * row.median:10.4g} ms ({1e3 * row.low:.4g} … {1e3 * row.high:.4g}), "
            f"error {row.error:.1e}, first {row.first:.2f} s"
        )
    for name, reason in outcome.left_out.items():
        print(f"  {name:26} left out: {reason}")
    ratios = []
    for target in case.targets:
        found = outcome.ratios.get((target.ours, target.against))
        if found is None:
            continue
        # Small grids say nothing of large ones.
        least = None if options.quick else target.fair if mode == "fair" else target.default
        short = least is not None and found[0] < least
        words = "" if least is None else f", at least {least:.3g}{'   SHORT' if short else ''}"
        print(f"  {target.ours} against {target.against}: {found[0]:.2f}x ({found[1]:.2f} … {found[2]:.2f}){words}")
        ratios.append(
            {"ours": target.ours, "against": target.against, "least": least, "median": found[0], "low": found[1],
             "high": found[2], "reached": not short}
        )  # fmt: skip
    sys.stdout.flush()
    rows = [asdict(row) for row in outcome.rows]
    return entry | {"rows": rows, "left_out": outcome.left_out, "ratios": ratios}


def in_a_process(case: Case, mode: str, options: argparse.Namespace) -> dict[str, object]:
    """The same with the C library's settings of the mode, which it reads when a process starts."""
    environment = {name: value for name, value in os.environ.items() if name not in FAIR}
    environment |= FAIR if mode == "fair" else {}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "case.json"
        command = [sys.executable, __file__, "--one", str(case), mode, "--json", str(target)]
        command += ["--rounds", str(options.rounds), "--seconds", str(options.seconds)]
        command += ["--quick"] * options.quick + (["--peers", *options.peers] if options.peers else [])
        ended = subprocess.run(command, env=environment)
        if not target.exists():
            return {"case": str(case), "mode": mode, "wrong": f"the process ended with status {ended.returncode}"}
        return dict(json.loads(target.read_text()))


def saved(path: Path, about: dict[str, object], entries: list[dict[str, object]]) -> None:
    """Write the entries, in place of those of the same cases and modes that the file has already."""
    entries = [entry | {name: about[name] for name in ("time", "commit", "load")} for entry in entries]
    kept = json.loads(path.read_text())["cases"] if path.exists() else []
    new = {(entry["case"], entry["mode"]) for entry in entries}
    cases = [entry for entry in kept if (entry["case"], entry["mode"]) not in new] + entries
    order = {str(case): place for place, case in enumerate(CASES)}
    cases.sort(key=lambda entry: (order.get(str(entry["case"]), len(order)), entry["mode"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about | {"cases": cases}, indent=1) + "\n")


def table(entries: list[dict[str, object]]) -> str:
    """A Markdown table of all ratios: what is wanted and what was measured, in both modes."""
    lines = ["| case | against | default | wanted | fair | wanted |", "|---|---|---|---|---|---|"]
    found = {(entry["case"], entry["mode"]): entry for entry in entries}
    for case in CASES:
        for target in case.targets:
            words = [str(case), target.against if target.ours == "spectralops" else f"{target.ours} / {target.against}"]
            for mode, least in zip(MODES, (target.default, target.fair), strict=True):
                ratios = found.get((str(case), mode), {}).get("ratios", [])
                pair = (target.ours, target.against)
                median = next((r["median"] for r in ratios if (r["ours"], r["against"]) == pair), None)
                short = median is not None and least is not None and median < least
                words.append("–" if median is None else f"**{median:.2f}**" if short else f"{median:.2f}")
                words.append("–" if least is None else f"{least:.3g}")
            lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small grids, three rounds: a check that all of it runs")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name contains every word")
    parser.add_argument("--peers", nargs="+", default=[], metavar="NAME", help="only peers whose name contains one")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES, help="default: both")
    parser.add_argument("--rounds", type=int, default=9, help="timed calls of each contestant (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="the most for one case (default: %(default)s)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="add results, hardware, versions and commit to a file"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="print a table of results in a file, and end")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.table.read_text())["cases"]))
        return 0
    if options.one:
        name, mode = options.one
        case = next(case for case in CASES if str(case) == name)
        options.json.write_text(json.dumps(record(case, mode, options)))
        return 0
    chosen = [case for case in CASES if all(word in str(case) for word in options.only)]
    if not chosen:
        parser.error(f"--only is {' '.join(options.only)}, but must match a case")
    about = surroundings(PACKAGES)
    print(json.dumps(about, indent=2))
    modes = options.modes[:1] if options.quick else options.modes
    if options.quick:
        entries = [record(case, modes[0], options) for case in chosen]
    else:
        entries = [in_a_process(case, mode, options) for case in chosen for mode in modes]
    if options.json:
        saved(options.json, about, entries)
    ratios = [ratio for entry in entries for ratio in entry.get("ratios", []) if ratio["least"] is not None]
    short = [ratio for ratio in ratios if not ratio["reached"]]
    wrong = [entry for entry in entries if "wrong" in entry]
    print(f"\n{len(entries) - len(wrong)} cases right, {len(wrong)} wrong")
    if not options.quick:
        print(f"{len(ratios) - len(short)} of {len(ratios)} ratios reached")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
