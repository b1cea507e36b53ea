"""Command line: ``python -m spectralops info | demo | selftest | bench``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

DESCRIPTION = "Fused spectral and stencil operators on the arrays you already have."


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands; each command is the function `run` of the module of its name in _cli."""
    main = argparse.ArgumentParser(prog="python -m spectralops", description=DESCRIPTION)
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("info", help="what was found on this machine, what is fast, what is missing")
    demo = commands.add_parser("demo", help="filter and advect real sea-surface temperature; a table and a figure")
    demo.add_argument(
        "--output", type=figure, default="spectralops_demo.png", metavar="FILE", help="figure (default: %(default)s)"
    )
    demo.add_argument("--days", type=days, default=30.0, help="length of the simulation (default: %(default)s)")
    selftest = commands.add_parser("selftest", help="every operator on every backend here against the reference")
    selftest.add_argument("-v", "--verbose", action="store_true", help="print the checks that pass, too")
    bench = commands.add_parser("bench", help="time the operators beside plain SciPy, NumPy and PyTorch")
    bench.add_argument("--rounds", type=rounds, default=7, help="timed calls of each contestant (default: %(default)s)")
    return main


def figure(text: str) -> str:
    """A file's name, if its folder exists."""
    folder = Path(text).parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} must lie in a folder that exists, but {str(folder)!r} does not")
    return text


def days(text: str) -> float:
    """A length of time above zero."""
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} must be positive and finite")
    return number


def rounds(text: str) -> int:
    """A count of at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be 1 or more")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(arguments)
    status: int = import_module(f"spectralops._cli.{options.command}").run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
