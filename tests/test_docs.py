"""README and documentation: the examples give what they print, generated tables are fresh, commands and links exist."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spectralops
from spectralops._support import BACKENDS, SUPPORT

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OPERATORS = sorted({op for op, _ in SUPPORT})


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator():
    return load(ROOT / "docs" / "generate_support_table.py")


def console_blocks(path: Path) -> str:
    """All ```pycon blocks of a page, as one session."""
    return "\n".join(re.findall(r"^```pycon\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("path", [p for p in PAGES if console_blocks(p)], ids=lambda p: p.name)
def test_printed_results_are_true(path: Path) -> None:
    session = doctest.DocTestParser().get_doctest(console_blocks(path), {}, path.name, str(path), 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    try:
        failed = runner.run(session, out=output.append).failed
    finally:
        import numpy as np

        np.set_printoptions(precision=8, suppress=False)
    assert failed == 0, "".join(output)


def test_every_operator_has_an_example_in_the_readme() -> None:
    text = console_blocks(ROOT / "README.md")
    assert [op for op in OPERATORS if f"so.{op}(" not in text and f"so.{op}," not in text] == []


def test_support_tables_are_fresh(generator) -> None:
    assert generator.stale() == [], "run python docs/generate_support_table.py"


def test_support_tables_hold_every_row(generator) -> None:
    short, long = generator.short_table().splitlines(), generator.long_table().splitlines()
    assert len(short) == 2 + len(OPERATORS)
    assert len(long) == 2 + len(SUPPORT)
    for op, backend in SUPPORT:
        (line,) = [line for line in short if line.startswith(f"| `{op}` |")]
        cells = line.split("|")
        assert f"`{backend}`" in cells[3 if BACKENDS[backend] == "cpu" else 4]


def test_a_stale_table_is_seen(generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(generator.SUPPORT, ("new_operator", "cpu"), SUPPORT["spectral_filter", "cpu"])
    assert generator.stale() == ["README.md", "docs/backends.md"]


def test_text_without_markers_is_refused(generator) -> None:
    with pytest.raises(ValueError, match="has no lines"):
        generator.refreshed("nothing", "table")


def test_the_readme_has_two_commands() -> None:
    """One installs and runs the demo, one installs and runs the tests; .ci/run takes them from here."""
    commands = re.findall(r"^python3? .*&& .*$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert [command.rpartition("python -m ")[2] for command in commands] == ["spectralops demo", "pytest"]
    for ending, command in zip(("python -m spectralops demo", "python -m pytest"), commands, strict=True):
        script = [sys.executable, str(ROOT / ".ci" / "readme_command.py"), ending]
        assert subprocess.run(script, capture_output=True, text=True, check=True).stdout.strip() == command


def test_a_missing_readme_command_fails() -> None:
    script = [sys.executable, str(ROOT / ".ci" / "readme_command.py"), "python -m nothing"]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 1
    assert "README.md has 0 different command lines" in done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_relative_links_exist(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


# Imported on purpose, with libraries that need not be installed; their names are not the package's.
FACES = {"spectralops.torch", "spectralops.jax", "spectralops.xarray"}


def test_every_public_name_has_a_page() -> None:
    """Each name is in `__all__` of a module that a page documents, or is such a module."""
    pages = "\n".join(p.read_text() for p in PAGES)
    modules = set(re.findall(r"automodule:: (spectralops\.\w+)$", pages, re.MULTILINE)) - FACES
    documented = {name for module in modules for name in importlib.import_module(module).__all__}
    documented |= {module.rpartition(".")[2] for module in modules}
    assert set(spectralops.__all__) - documented - {"__version__"} == set()


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {spectralops.__version__}\n" in citation
    assert f"\n## {spectralops.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("path", [ROOT / ".ci" / "run", *PAGES, ROOT / "pyproject.toml"], ids=lambda p: p.name)
def test_no_machine_paths(path: Path) -> None:
    text = path.read_text().removeprefix("#!/usr/bin/env bash\n")
    assert re.findall(r"(?<![\w.}])/(?:work|opt|root|home|usr)/\S*", text) == []
