"""The examples that train: small, on the real files and on generated stand-ins; each compares two losses and draws."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("fno_*.py"))


@pytest.mark.parametrize("source", ["files", "generated"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_torch_example_trains_like_plain_torch(path: Path, source: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    if source == "generated":
        environment.pop("SPECTRALOPS_TEST_DATA", None)
    elif "SPECTRALOPS_TEST_DATA" not in environment:
        pytest.skip("SPECTRALOPS_TEST_DATA is not set")
    figure = tmp_path / "figure.png"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path), "--samples", "40", "--epochs", "3", "--figure", str(figure)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("training loss ") == 2
    assert "the training losses differ by" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [figure]


def test_there_are_torch_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["fno_burgers", "fno_darcy"]
