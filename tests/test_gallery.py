"""The examples of the gallery on the real files that they name: they agree with themselves and draw."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = {
    "xarray_winds": "era_interim_uvz.nc",
    "xarray_ocean": "ostia_sst_tropics_monthly.nc",
    "xarray_tracer": "era_interim_uvz.nc",
    "xarray_region": "era5_t2m_uk_hourly.nc",
}


@pytest.mark.parametrize("name", FILES)
def test_example_on_its_file(name: str, data_file, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = tmp_path / "figure.png"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    script = str(ROOT / "examples" / f"{name}.py")
    command = [sys.executable, "-W", "error", script, str(data_file(FILES[name])), "--figure", str(figure)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
    assert figure.stat().st_size > 20_000


def test_the_gallery_has_every_example_and_small_figures() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    for name in FILES:
        assert f"../examples/{name}.py" in page
        assert (ROOT / "docs" / "gallery" / f"{name}.png").stat().st_size < 150_000
