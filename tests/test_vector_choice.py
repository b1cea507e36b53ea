"""Which filters the engine takes, and the words with which it refuses the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spectralops._cpu.vector import choice


@pytest.mark.parametrize(
    ("n", "smooth"), [(1, True), (2, True), (7, True), (720, True), (11, False), (721, False), (26, False), (49, True)]
)
def test_is_smooth(n: int, smooth: bool) -> None:
    assert choice.is_smooth(n) is smooth


@pytest.mark.parametrize("lengths", [(1,), (720,), (16, 15), (4, 6, 1)])
def test_smooth_lengths_are_taken(lengths: tuple[int, ...]) -> None:
    assert choice.refusal(lengths) == ""


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ((16, 721), "the vector engine takes lengths with prime factors up to 7, and 721 has 103"),
        ((11, 13), "the vector engine takes lengths with prime factors up to 7, and 11 has 11"),
        ((2 * 11 * 13,), "the vector engine takes lengths with prime factors up to 7, and 286 has 13"),
        ((121,), "the vector engine takes lengths with prime factors up to 7, and 121 has 11"),
        ((2, 2, 2, 2), "the vector engine takes 1 to 3 axes, not 4"),
    ],
)
def test_refusals_say_why(lengths: tuple[int, ...], words: str) -> None:
    assert choice.refusal(lengths) == words


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    assert choice.refusal((16,)) == "SPECTRALOPS_NUMBA=0 switches the vector engine off"
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "1")
    assert choice.refusal((16,)) == ""


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_installed", lambda: False)
    assert choice.refusal((16,)) == "numba, which compiles the vector engine, is not installed"


def test_the_choice_loads_nothing() -> None:
    code = (
        "import sys; from spectralops._cpu.vector import choice; choice.refusal((16,)); "
        "print(sorted({'numba', 'llvmlite', 'scipy'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"
