"""``bench``: the short set on this machine, our times beside the plain pipelines."""

from __future__ import annotations

import argparse
import importlib
from importlib.util import find_spec

from spectralops._cli.cases import SHORT
from spectralops._cli.contest import Result, contest
from spectralops._cli.info import processor, threads

__all__ = ["format_row", "run"]


def format_row(result: Result) -> str:
    """One contestant: median with quartiles in milliseconds, time over ours, relative error."""
    spread = f"[{1e3 * result.low:.3g} .. {1e3 * result.high:.3g}]"
    return (
        f"  {result.contestant:17} {1e3 * result.median:9.4g} ms {spread:21} {result.ratio:7.2f}x"
        f"   error {result.error:.1e}"
    )


def run(options: argparse.Namespace) -> int:
    """Run the short set; exit status 1 if one of our results is wrong."""
    versions = {
        name: importlib.import_module(name).__version__ for name in ("numpy", "scipy", "torch") if find_spec(name)
    }
    print(f"{processor()}, {threads()} cores; " + ", ".join(f"{name} {v}" for name, v in versions.items()))
    print(
        "float32; median [quartiles] of calls taken in turn, per step for steps; ratio: time over ours; w2: two threads"
    )
    wrong = 0
    for case in SHORT:
        print(f"\n{case}", flush=True)
        try:
            for result in contest(case, options.rounds):
                print(format_row(result))
        except ArithmeticError as error:
            print(f"  WRONG {error}")
            wrong += 1
    return min(wrong, 1)
