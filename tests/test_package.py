"""The house itself: layers, import cost, public names, signatures, docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import conformance
import pytest

import spectralops
from spectralops._support import SUPPORT

ROOT = Path(spectralops.__file__).parent
OPERATORS = sorted({op for op, _ in SUPPORT})

# What a module may import of the package at run time; a folder stands for all its modules.
CORE = {
    "_arrays", "_checks", "_compiler", "_dispatch", "_interchange", "_sixteen_bits", "_support", "_ways", "errors"
}  # fmt: skip
MAY_IMPORT = {
    "errors": set(),
    "_compiler": set(),
    "_remap": set(),
    "_recent": set(),
    "_threads": set(),
    "_device": {"errors"},
    "_sixteen_bits": set(),
    "_arrays": {"_sixteen_bits"},
    "_interchange": {"_arrays", "_device", "_sixteen_bits"},
    "_checks": {"_arrays", "_sixteen_bits"},
    "_support": {"_arrays", "_checks", "_sixteen_bits", "errors"},
    "_ways": {"_arrays", "_interchange", "_recent", "_support"},
    "_dispatch": {"_arrays", "_checks", "_interchange", "_sixteen_bits", "_support", "_threads", "_ways", "errors"},
    "boundary": {"_arrays", "_checks", "errors"},
    "_plans": CORE | {"_plans", "boundary"},
    "_reference": {"_reference", "errors"},
    "_plain": {"_plain", "errors"},
    "_cpu": {"_cpu", "_compiler", "_recent", "_remap", "errors"},
    "_cuda": {"_cuda", "_recent", "errors"},
    "fft": {"fft", "_arrays", "_checks", "_interchange", "_threads", "errors"},
}
PUBLIC = CORE | {"_plans", "boundary"}
# Faces stand above the operators and may use every public module.
FACES = {"__init__", "__main__", "_bilinear", "_cli", "jax", "torch", "xarray"}
# The array libraries that each folder may load at all, and may load with its module.
AT_IMPORT = {"numpy", "array_api_compat"}
EXECUTOR_AT_IMPORT = {
    "_cpu": {"numpy", "scipy", "numba", "llvmlite"},
    "_reference": {"numpy"},
    "_plain": {"numpy"},
    "_cuda": {"numpy"},
    "fft": {"numpy", "scipy"},
    "jax": {"numpy", "jax"},
    "torch": {"torch"},
    "xarray": {"numpy", "xarray"},
}
HEAVY = {"scipy", "numba", "llvmlite", "cupy", "cupyx", "torch", "jax", "dask", "xarray", "matplotlib", "tqdm", "zarr"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def below(node: ast.AST, at_module_level: bool, for_types: bool) -> Iterator[ast.AST]:
    """All nodes below: on request not those inside functions, and also those for types."""
    for child in ast.iter_child_nodes(node):
        if at_module_level and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not for_types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from below(child, at_module_level, for_types)


def imports(path: Path, at_module_level: bool = False, for_types: bool = False) -> set[str]:
    """Dotted names that a module imports, be it by a function."""
    names: set[str] = set()
    for node in below(parsed(path), at_module_level, for_types):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {str(text.value) for text in node.args if isinstance(text, ast.Constant)}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path: Path) -> None:
    """No arrow upwards: each room imports only what stands below it."""
    if room(path) in FACES:
        return
    allowed = MAY_IMPORT.get(room(path), PUBLIC | SIBLINGS.get(room(path), set()))
    own = {name.split(".")[1] for name in imports(path) if name.startswith("spectralops.")}
    assert own <= allowed, f"{path.name} imports {sorted(own - allowed)}"


# Public modules that build on another public module, or that have several parts.
SIBLINGS = {
    "transfer": {"transfer"},
    "compilation": {"_cpu"},
    "solve": {"_stepper", "_storage"},
    "_storage": {"_stepper"},
    "diagnostics": {"budgets", "debugging", "spectrum"},
}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_array_libraries_load_late(path: Path) -> None:
    allowed = EXECUTOR_AT_IMPORT.get(room(path), AT_IMPORT)
    heavy = {name.split(".")[0] for name in imports(path, at_module_level=True)} & HEAVY
    assert heavy <= allowed


def test_no_cycles_between_modules() -> None:
    """Not even for the sake of types: what two modules need of each other belongs into a third."""
    graph: dict[str, set[str]] = {}
    names = {".".join(("spectralops", *p.relative_to(ROOT).with_suffix("").parts)): p for p in modules()}
    for name, path in names.items():
        if path.name == "__init__.py":
            continue
        found = imports(path, at_module_level=True, for_types=True)
        parts = [each.split(".") for each in found]
        graph[name] = {".".join(part[:k]) for part in parts for k in range(1, len(part) + 1)} & names.keys() - {name}
    while leaves := [name for name, needs in graph.items() if not needs & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert graph == {}, "these modules import one another in a circle"


def test_import_loads_numpy_alone() -> None:
    code = f"import sys; import spectralops; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_import_is_quick() -> None:
    """Below 0.2 s over NumPy, in CPU time and as the best of five, so that a busy machine does not fail it."""
    code = (
        "import time, numpy, json; import array_api_compat; t = time.process_time(); import spectralops; "
        "print(time.process_time() - t)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(times) < 0.2


def test_all_names_exist_and_are_sorted_out() -> None:
    assert len(set(spectralops.__all__)) == len(spectralops.__all__)
    for name in spectralops.__all__:
        assert getattr(spectralops, name) is not None
    assert set(OPERATORS) <= set(spectralops.__all__)
    assert {f"plan_{op}" for op in OPERATORS} <= set(spectralops.__all__)


def test_type_checkers_see_the_names_that_load_late() -> None:
    """The imports for type checkers name what the table of late names does."""
    tree = parsed(ROOT / "__init__.py")
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module.rpartition(".")[2]
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "spectralops"
        for alias in node.names
    }
    assert seen == spectralops._MODULE_OF
    assert sorted(spectralops.__all__) == sorted([*seen, *spectralops._SUBMODULES, "Solution", "solve"])


@pytest.mark.parametrize("op", OPERATORS)
def test_operator_and_plan_agree(op: str) -> None:
    """`plan_op` takes the operator's arguments but the tail, with the same defaults."""
    call = inspect.signature(getattr(spectralops, op)).parameters
    plan = inspect.signature(getattr(spectralops, f"plan_{op}")).parameters
    assert list(call)[-3:] == ["out", "workers", "backend"]
    for name in ("axes", "out", "workers", "backend"):
        if name in call:
            assert call[name].default is None
            assert call[name].kind is inspect.Parameter.KEYWORD_ONLY
    shared = [name for name in list(call)[1:] if name not in ("out", "workers")]
    assert list(plan)[:2] == ["shape", "dtype"]
    assert [name for name in plan if name not in ("shape", "dtype", "device")] == shared
    for name in shared:
        assert plan[name].default == call[name].default, name


@pytest.mark.parametrize("op", OPERATORS)
def test_operators_have_cases(op: str) -> None:
    assert Counter(case.op for case in conformance.CASES)[op] >= 8


PUBLIC_NAMES = [name for name in spectralops.__all__ if callable(getattr(spectralops, name))]


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_names_are_documented(name: str) -> None:
    thing = getattr(spectralops, name)
    text = inspect.getdoc(thing) or ""
    assert text, f"{name} has no docstring"
    if name.startswith("plan_"):
        for section in ("Parameters", "Returns", "Raises", "Examples"):
            assert f"{section}\n{'-' * len(section)}" in text, f"{name} lacks {section}"
    if name in OPERATORS:
        for section in ("Parameters", "Returns", "Raises", "Notes", "References", "Examples"):
            assert f"{section}\n{'-' * len(section)}" in text, f"{name} lacks {section}"
        for parameter in inspect.signature(thing).parameters:
            assert f"{parameter}" in text, f"{name} does not describe {parameter}"


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_names_pickle(name: str) -> None:
    thing = getattr(spectralops, name)
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_every_support_row_has_its_executor() -> None:
    for (op, _), row in SUPPORT.items():
        assert callable(getattr(importlib.import_module(row.module), op))


def test_version_matches_the_metadata() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("spectralops")
    except PackageNotFoundError:
        pytest.skip("spectralops runs from a source tree that is not installed")
    assert spectralops.__version__ == installed


def test_import_leaves_numpy_as_it_was() -> None:
    code = "import numpy; before = numpy.geterr(); import spectralops; print(numpy.geterr() == before)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
