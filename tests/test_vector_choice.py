"""Which filters the engine takes, and the words with which it refuses the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spectralops import _compiler
from spectralops._cpu.vector import choice


@pytest.mark.parametrize(
    ("n", "smooth"), [(1, True), (2, True), (7, True), (720, True), (11, False), (721, False), (26, False), (49, True)]
)
def test_is_smooth(n: int, smooth: bool) -> None:
    assert choice.is_smooth(n) is smooth


@pytest.mark.parametrize(
    ("lengths", "batch"),
    [
        ((1,), 1),
        ((720,), 1),
        ((16, 15), 1),
        ((4, 6, 1), 1),
        ((2**20,), 1),
        ((721, 1440), 1),
        ((11, 13), 1),
        ((4093, 4), 1),
        ((101,), 8),
        ((4093,), 8),
        ((22,), 1),
        ((2 * 4093,), 1),
        ((2**13, 2**13), 1),
    ],
)
def test_lengths_that_are_taken(lengths: tuple[int, ...], batch: int) -> None:
    assert choice.refusal(lengths, batch) == ""


@pytest.mark.parametrize(
    ("lengths", "batch", "words"),
    [
        ((2, 2, 2, 2), 9, "the vector engine takes 1 to 3 axes, not 4"),
        ((16, 4099), 9, "length 4099 has the prime factor 4099, where the vector engine is no faster"),
        ((16, 2 * 4099), 9, "length 8198 has the prime factor 4099, where the vector engine is no faster"),
        ((16, 4100), 9, "length 4100 has the prime factor 41, where the vector engine is no faster"),
        ((4099,), 9, "length 4099 has the prime factor 4099, where the vector engine is no faster"),
        ((2 * 4099,), 9, "length 8198 has the prime factor 4099, where the vector engine is no faster"),
        ((2 * 121 * 169,), 9, "length 40898 has the prime factor 13, where the vector engine is no faster"),
        ((11,), 7, "length 11 has only prime factors above 7, where the vector engine is no faster on few rows"),
    ],
)
def test_refusals_say_why(lengths: tuple[int, ...], batch: int, words: str) -> None:
    assert choice.refusal(lengths, batch) == words


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    assert choice.refusal((16,), 1) == "SPECTRALOPS_NUMBA=0 switches compiled kernels off"
    assert choice.transform_refusal((64, 256), (1,), "float32", False) == choice.refusal((16,), 1)
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "1")
    assert choice.refusal((16,), 1) == ""


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiler, "_installed", lambda: False)
    assert choice.refusal((16,), 1) == "numba, which compiles kernels, is not installed"


def test_the_choice_loads_nothing() -> None:
    code = (
        "import sys; from spectralops._cpu.vector import choice; choice.refusal((16,), 1); "
        "print(sorted({'numba', 'llvmlite', 'scipy'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"
