"""Mutation test: spoil the code at random, one place at a time, and see whether a test notices.

    python -m pytest --cov --cov-context=test        # once: which test runs which line
    python tools/mutants.py --count 200 --seed 1 --workers 2

Each mutant is one changed operator, number, comparison, sign, conjugate or pair of axes in a line that some test runs.
It is judged by the tests that run the line, then by those that run its module, since plans are cached and a later test
may see what an earlier one built (where they are many: the narrowest, and a spread). The survivors are printed.

Left out: the core below the plans, the references, the command line, and tuning constants, which have no right value.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spectralops"
LEFT_OUT = (
    *("_cli", "__main__.py", "__init__.py", "errors.py", "_reference"),
    *("_arrays.py", "_checks.py", "_compiler.py", "_dispatch.py"),
    *("_interchange.py", "_sixteen_bits.py", "_support.py", "_ways.py"),
)
# Keywords that allow or check something and change no result.
PERMISSIONS = ("strict", "overwrite_x")
TESTS_OF_LINE = 150
TESTS_OF_MODULE = 350
TIMEOUT = 1200

COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
NAMES = {
    "min": "max",
    "max": "min",
    "real": "imag",
    "imag": "real",
    "any": "all",
    "all": "any",
    "cos": "sin",
    "sin": "cos",
}


@dataclass(frozen=True)
class Mutant:
    """One change: the source of its module with it, where it is, and what it does."""

    path: Path
    line: int
    what: str
    source: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every way to spoil this one node: a description and the function that does it in place."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        old, new = node.ops[0], COMPARE[type(node.ops[0])]()
        yield f"{type(old).__name__} -> {type(new).__name__}", lambda: node.ops.__setitem__(0, new)
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in BINARY:
        new_op = BINARY[type(node.op)]()
        yield f"{type(node.op).__name__} -> {type(new_op).__name__}", lambda: setattr(node, "op", new_op)
    if isinstance(node, ast.BoolOp):
        joined = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{type(node.op).__name__} -> {type(joined).__name__}", lambda: setattr(node, "op", joined)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "drop minus", lambda: setattr(node, "op", ast.UAdd())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "drop not", lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value
        yield f"{value} -> {value + 1}", lambda: setattr(node, "value", value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        flag = node.value
        yield f"{flag} -> {not flag}", lambda: setattr(node, "value", not flag)
    if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
        yield "swap pair", lambda: node.elts.reverse()
    if isinstance(node, ast.Name) and node.id in NAMES:
        name = node.id
        yield f"{name} -> {NAMES[name]}", lambda: setattr(node, "id", NAMES[name])
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        attribute = node.attr
        yield f"{attribute} -> {NAMES[attribute]}", lambda: setattr(node, "attr", NAMES[attribute])
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("conj", "conjugate", "ascontiguousarray")
    ):
        replacement = node.args[0] if node.args else node.func.value
        yield (
            f"drop {node.func.attr}",
            lambda: node.__dict__.update(
                func=ast.Lambda(_identity_arguments(), ast.Name("_x", ast.Load())),
                args=[replacement],
                keywords=[],
            ),
        )


def _identity_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[ast.arg("_x")], kwonlyargs=[], kw_defaults=[], defaults=[])


def out_of_scope(tree: ast.Module) -> set[int]:
    """Nodes whose change means nothing: annotations, errors' messages, caches' sizes, name lists, permissions."""
    skipped: set[int] = set()

    def skip(node: ast.AST | None) -> None:
        if node is not None:
            skipped.update(id(n) for n in ast.walk(node))

    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            skip(node.annotation)
        if isinstance(node, ast.FunctionDef):
            skip(node.returns)
            for decorator in node.decorator_list:
                skip(decorator)
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                skip(decorator)
        if isinstance(node, ast.Raise | ast.JoinedStr):
            skip(node)
        if isinstance(node, ast.keyword) and node.arg in PERMISSIONS:
            skip(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skip(node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            skip(node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            skip(node)
        if isinstance(node, ast.FunctionDef) and node.name in ("explain", "__repr__", "__str__"):
            skip(node)
    return skipped


def mutants_of(path: Path, covered: set[int]) -> list[tuple[int, int, int]]:
    """(node number, change number, line) of every possible mutant on covered lines."""
    tree = ast.parse(path.read_text())
    skipped = out_of_scope(tree)
    return [
        (number, change, node.lineno)
        for number, node in enumerate(ast.walk(tree))
        if id(node) not in skipped and getattr(node, "lineno", None) in covered
        for change, _ in enumerate(changes(node))
    ]


def build(path: Path, number: int, change: int) -> Mutant:
    tree = ast.parse(path.read_text())
    node = list(ast.walk(tree))[number]
    what, apply = list(changes(node))[change]
    line = node.lineno  # type: ignore[attr-defined]
    apply()
    return Mutant(path, line, what, ast.unparse(ast.fix_missing_locations(tree)))


def spread(tests: list[str], limit: int, lines_of: Counter[str]) -> list[str]:
    """At most `limit` of the tests: half are those that run the fewest lines, since an exact value is asserted there
    rather than where everything passes by; then the conformance suite and the others, evenly thinned."""
    if len(tests) <= limit:
        return sorted(tests, key=lambda test: (lines_of[test], test))
    narrow = sorted(tests, key=lambda test: (lines_of[test], test))
    keep, others = narrow[: limit // 2], narrow[limit // 2 :]
    room = limit - len(keep)
    return keep + [others[i * len(others) // room] for i in range(room)]


def killed(mutant: Mutant, tests: list[str], tree: Path) -> bool:
    """Whether the tests fail with the mutant in place in the copy of the repository at `tree`."""
    target = tree / mutant.path.relative_to(ROOT)
    original = target.read_text()
    target.write_text(mutant.source)
    listing = tree / "tests-of-mutant.txt"
    listing.write_text("\n".join(tests))
    try:
        path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", f"@{listing}"],
            cwd=tree, env=environment, capture_output=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        if run.returncode not in (0, 1, 2) and run.returncode >= 0:  # below zero: the mutant crashed the process
            raise RuntimeError(f"pytest could not judge {mutant}: {run.stdout.decode()[-500:]}")
        return run.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_text(original)


def collected() -> set[str]:
    """The tests there are now; the coverage data may know others."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    return {line for line in lines if "::" in line}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="only modules whose path contains this")
    parser.add_argument("--json", type=Path, help="write the verdicts here")
    options = parser.parse_args()
    from coverage import CoverageData

    data = CoverageData(str(ROOT / ".coverage"))
    data.read()
    tests_now = collected()
    pool: list[tuple[Path, int, int]] = []
    contexts: dict[tuple[Path, int], list[str]] = {}
    of_module: dict[Path, list[str]] = {}
    lines_of: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        if any(part in LEFT_OUT for part in path.relative_to(PACKAGE).parts) or options.only not in str(path):
            continue
        by_line = {
            line: sorted({c.partition("|")[0] for c in names} & tests_now)
            for line, names in data.contexts_by_lineno(str(path)).items()
        }
        lines_of.update(test for tests in by_line.values() for test in tests)
        of_module[path] = sorted({test for tests in by_line.values() for test in tests})
        for number, change, line in mutants_of(path, {line for line, tests in by_line.items() if tests}):
            pool.append((path, number, change))
            contexts[path, line] = by_line[line]
    chosen = [build(*place) for place in random.Random(options.seed).sample(pool, min(options.count, len(pool)))]
    print(f"{len(chosen)} of {len(pool)} possible mutants", flush=True)

    trees: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory() as scratch:
        for worker in range(options.workers):
            tree = Path(scratch) / str(worker)
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".whl", ".cov*", "*cache*"))
            trees.put(tree)

        path, line = chosen[0].path, chosen[0].line
        unchanged = Mutant(path, line, "unchanged", path.read_text())
        if killed(unchanged, spread(of_module[path], TESTS_OF_MODULE, lines_of), tree):
            raise RuntimeError("the tests fail without any mutant")

        def judge(mutant: Mutant) -> tuple[Mutant, bool]:
            tree = trees.get()
            try:
                near = spread(contexts[mutant.path, mutant.line], TESTS_OF_LINE, lines_of)
                far = spread(of_module[mutant.path], TESTS_OF_MODULE, lines_of)
                verdict = killed(mutant, list(dict.fromkeys([*near, *far])), tree)
            finally:
                trees.put(tree)
            print("." if verdict else f"\nsurvived: {mutant}", end="", flush=True)
            return mutant, verdict

        with ThreadPoolExecutor(options.workers) as threads:
            verdicts = list(threads.map(judge, chosen))
    survivors = [str(mutant) for mutant, verdict in verdicts if not verdict]
    print(f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} killed")
    print("\n".join(survivors))
    if options.json:
        options.json.write_text(
            json.dumps({"seed": options.seed, "mutants": len(verdicts), "survivors": survivors}, indent=1)
        )


if __name__ == "__main__":
    main()
