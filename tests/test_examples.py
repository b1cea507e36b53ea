"""The scripts of examples/ run by themselves, with warnings as errors, and print what they found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Those that train with PyTorch are run by test_torch_examples.py; what begins with _ is a module of theirs.
EXAMPLES = sorted(p for p in (ROOT / "examples").glob("*.py") if not p.stem.startswith(("_", "fno_")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6
