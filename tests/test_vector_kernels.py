"""Compiling, keeping and finding kernels: cache directories, damaged files, no home, many processes, other widths."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectralops._cpu.vector import host, kernels

# Filters in a fresh process; prints whether they are right, and whether the compiler was loaded.
PROBE = """
import sys
import numpy as np
from spectralops._cpu.vector import filters
worst = 0.0
rng = np.random.default_rng(0)
for shape, axes in {cases}:
    x = rng.standard_normal(shape).astype("{dtype}")
    sizes = [x.shape[axis] for axis in axes]
    filled = [n if axis in axes else 1 for axis, n in enumerate(shape)]
    transfer = np.fft.rfftn(rng.standard_normal(filled), axes=axes)
    out = np.empty_like(x)
    filters.filter_axes(x, transfer.astype("complex64" if "{dtype}" == "float32" else complex), out, axes, 1)
    expected = np.fft.irfftn(np.fft.rfftn(x.astype(float), axes=axes) * transfer, sizes, axes)
    worst = max(worst, np.linalg.norm(out - expected) / np.linalg.norm(expected) / np.finfo("{dtype}").eps)
print(worst < 8, "spectralops._cpu.vector.loops" in sys.modules)
"""
ONE = [((9, 30), (1,))]
ALL = [
    ((3, 15, 21), (1, 2)),
    ((3, 16, 24), (1, 2)),
    ((9, 64), (1,)),
    ((9, 45), (1,)),
    ((2, 1536), (1,)),
    ((2, 11, 12), (1, 2)),
    ((2, 6, 20), (1,)),
    ((2, 6, 5, 9), (1, 2, 3)),
]


def probe(cases: object = ONE, dtype: str = "float32", **environment: str) -> tuple[str, str]:
    """Right or not, and whether the compiler was loaded, of a fresh process."""
    result = subprocess.run(
        [sys.executable, "-c", PROBE.format(cases=cases, dtype=dtype)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    right, loaded = result.stdout.split()
    return right, loaded


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert probe(SPECTRALOPS_CACHE_DIR=str(tmp_path)) == ("True", "True")
    assert probe(SPECTRALOPS_CACHE_DIR=str(tmp_path)) == ("True", "False")


def test_several_processes_compile_at_once(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PROBE.format(cases=ONE, dtype="float32")]
    environment = {**os.environ, "SPECTRALOPS_CACHE_DIR": str(tmp_path)}
    running = [subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in running:
        output, _ = process.communicate()
        assert output.startswith("True")
    assert probe(SPECTRALOPS_CACHE_DIR=str(tmp_path)) == ("True", "False")
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".kernel"}


def test_nowhere_to_write_still_works(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert probe(SPECTRALOPS_CACHE_DIR=str(blocked)) == ("True", "True")


def test_no_home_falls_back_to_temporary_files(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    environment = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(blocked)) | {"TMPDIR": str(tmp_path)}
    environment["SPECTRALOPS_CACHE_DIR"] = ""  # one set by whoever runs the tests would be used
    assert probe(**environment) == ("True", "True")
    assert list(tmp_path.glob("spectralops-*/kernels/*/forward-float32.kernel"))


@pytest.mark.parametrize(("width", "dtype"), [("16", "float64"), ("32", "float64"), ("64", "float32")])
def test_every_vector_width_is_right(tmp_path: Path, width: str, dtype: str) -> None:
    """Other CPUs' widths run on this one too, split or half used: the same code with other lanes and radices."""
    right, _ = probe(ALL, dtype, SPECTRALOPS_VECTOR_BYTES=width, SPECTRALOPS_CACHE_DIR=str(tmp_path))
    assert right == "True"


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRALOPS_CACHE_DIR", str(tmp_path))
    directory = kernels.cache_directory()
    assert directory is not None
    return directory


def test_a_kernel_is_stored_and_found(fresh_cache: Path) -> None:
    kernels._to_disk("forward", "float32", b"code\nwith lines")
    assert kernels._from_disk("forward", "float32") == b"code\nwith lines"
    assert kernels._from_disk("forward", "float64") is None
    assert [path.name for path in fresh_cache.iterdir()] == ["forward-float32.kernel"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_damaged_files_are_not_loaded(fresh_cache: Path, damage: str) -> None:
    kernels._to_disk("forward", "float32", b"code")
    path = fresh_cache / "forward-float32.kernel"
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-1], "flipped": content[:-1] + b"!", "empty": b""}[damage])
    assert kernels._from_disk("forward", "float32") is None


def test_directory_is_private(fresh_cache: Path) -> None:
    assert fresh_cache.stat().st_mode & 0o777 == 0o700


def test_directory_that_others_can_write_is_not_trusted(fresh_cache: Path) -> None:
    fresh_cache.chmod(0o777)
    assert kernels.cache_directory() is None
    assert kernels._from_disk("forward", "float32") is None
    kernels._to_disk("forward", "float32", b"code")
    assert list(fresh_cache.iterdir()) == []


def test_directory_of_somebody_else_is_not_trusted(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: fresh_cache.stat().st_uid + 1)
    assert kernels.cache_directory() is None


def test_full_disk_is_no_error(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(kernels.tempfile, "NamedTemporaryFile", full)
    kernels._to_disk("forward", "float32", b"code")
    assert list(fresh_cache.iterdir()) == []


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/spectralops"),
        ("linux", {}, "/home/me/.cache/spectralops"),
        ("darwin", {}, "/home/me/Library/Caches/spectralops"),
    ],
)
def test_candidates(monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str) -> None:
    monkeypatch.delenv("SPECTRALOPS_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert kernels._candidates()[0] == Path(expected)
    assert kernels._candidates()[-1].name == f"spectralops-{os.getuid()}"


def test_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SPECTRALOPS_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert len(kernels._candidates()) == 1


@pytest.mark.parametrize(
    ("features", "chosen", "bytes_", "registers"),
    [
        ("+avx2,+avx512f", None, 64, 32),
        ("+avx2,-avx512f", None, 32, 16),
        ("+neon", None, 32, 16),
        ("+avx512f", "16", 16, 16),
        ("+avx2", "64", 64, 32),
        ("+avx2", "12", 32, 16),
    ],
)
def test_vector_width_follows_the_cpu(
    monkeypatch: pytest.MonkeyPatch, features: str, chosen: str | None, bytes_: int, registers: int
) -> None:
    host.vector_bytes.cache_clear()
    monkeypatch.setattr(host, "cpu", lambda: ("some-cpu", features))
    monkeypatch.delenv("SPECTRALOPS_VECTOR_BYTES", raising=False)
    if chosen:
        monkeypatch.setenv("SPECTRALOPS_VECTOR_BYTES", chosen)
    try:
        assert (host.vector_bytes(), host.registers()) == (bytes_, registers)
        assert (host.lanes("float32"), host.lanes("float64")) == (bytes_ // 4, bytes_ // 8)
    finally:
        host.vector_bytes.cache_clear()
