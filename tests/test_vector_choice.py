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
        ((721, 1440), 16),
        ((11, 13), 1),
        ((4093, 4), 1),
        ((101,), 256),
        ((4093,), 8),
        ((22,), 1),
        ((2 * 4093,), 8),
        ((2**13, 2**13), 1),
        ((11,), 1),
        ((1155,), 0),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_that_are_taken(lengths: tuple[int, ...], batch: int, dtype: str) -> None:
    assert choice.refusal(lengths, batch, dtype) == ""


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
        ((1155,), 256, "length 1155 has the prime factor 11, where the vector engine is no faster"),
        ((16, 33, 64), 64, "length 33 has the prime factor 11, where the vector engine is no faster"),
    ],
)
def test_refusals_say_why(lengths: tuple[int, ...], batch: int, words: str) -> None:
    assert choice.refusal(lengths, batch) == words


@pytest.mark.parametrize(
    ("n", "batch", "halved", "taken"),
    [(961, 64, True, False), (961, 64, False, True), (1155, 2, True, True), (1155, 64, True, False)],
)
def test_few_rows_and_complex_rows_are_another_matter(n: int, batch: int, halved: bool, taken: bool) -> None:
    """A long row is cut into short ones, and complex input has no half that SciPy saves."""
    assert (choice.refusal((n,), batch, "float32", halved) == "") is taken


@pytest.mark.parametrize(
    ("n", "units"), [(1, 0.0), (2, 4.0), (8, 48.0), (15, 120.0), (7, 53.9), (11, 133.1), (13, 280.8), (26, 332.8)]
)
def test_units_of_a_length(n: int, units: float) -> None:
    """n Σ p, by hand; 11 has code of its own in scipy.fft, 13 and above loops of 3 + 0.6 p, twice that alone."""
    assert choice._direct(n) == pytest.approx(units)


@pytest.mark.parametrize(("n", "m"), [(11, 32), (13, 32), (17, 48), (721, 1536), (1009, 2048)])
def test_length_of_the_convolution_with_a_chirp(n: int, m: int) -> None:
    assert choice.chirp_length(n) == m >= 2 * n - 1


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "halved"),
    [
        ((64, 256), (1,), "float32", False),
        ((64, 256), (1,), "float64", True),
        ((16, 128, 128), (1, 2), "float32", True),
        ((512, 512), (0,), "float32", False),
        ((64, 1009), (1,), "float32", False),
        ((32, 64, 64), (0, 1, 2), "float64", False),
    ],
)
def test_lone_transforms_that_are_taken(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, halved: bool
) -> None:
    assert choice.transform_refusal(shape, axes, dtype, halved) == ""


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "halved", "words"),
    [
        ((8, 1023), (1,), "float32", False, "8184 numbers are too few for the vector engine to pay"),
        ((15, 1024), (1,), "float32", True, "15360 numbers are too few for the vector engine to pay"),
        ((7, 4096), (1,), "float32", False, "7 transforms side by side along axis 1 leave lanes of the vector engine"),
        ((3, 4096), (1,), "float64", False, "3 transforms side by side along axis 1 leave lanes of the vector engine"),
        ((64, 4096, 4), (1,), "float32", False, "4 transforms side by side along axis 1 leave lanes of the vector"),
        ((16, 2**15), (1,), "float32", False, "length 32768 is too long for the vector engine's transforms"),
        ((256, 1001), (1,), "float32", False, "lengths (1001,) are no faster in the vector engine"),
    ],
)
def test_lone_transforms_that_are_refused(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, halved: bool, words: str
) -> None:
    assert choice.transform_refusal(shape, axes, dtype, halved).startswith(words)


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


@pytest.mark.parametrize(
    ("lengths", "batch", "halved", "nanoseconds"),
    [
        ((16,), 9, True, 16 * 8.16),
        ((15,), 9, True, 16 * 20.4),
        ((16,), 9, False, 16 * 21.76),
        ((16, 30), 3, True, 3 * (32 * 8.16 + 16 * 51.0)),
        ((15, 30), 1, False, 2 * (32 * 10.2 + 8 * 51.0)),
        ((16, 30, 2), 1, True, 64 * 8.16 + 16 * (2 * 51.0 + 30 * 0.68)),
        ((1024,), 1, True, 0.6 * (32 * 54.4 + 32 * 54.4)),
        ((1024,), 8, True, 8 * 1566.72),
        ((2018,), 1, False, 2 * 10512.88 + 1009 * 0.68),
    ],
)
def test_predicted_time_of_the_engine(lengths: tuple[int, ...], batch: int, halved: bool, nanoseconds: float) -> None:
    """Units by hand: 8 costs 48 of 0.17 ns, 15 costs 120, 30 costs 300; whole groups of eight lanes are paid."""
    assert choice._engine_filters(lengths, batch, 8, halved) == pytest.approx(nanoseconds)


@pytest.mark.parametrize(
    ("n", "scipy", "engine"),
    [
        (16, 0.38 * 128, 0.17 * 128),
        (13, 0.38 * 280.8, 150 + 0.23 * 320),
        (1009, 3 * 0.38 * 45056, 150 + 0.23 * 45056),
    ],
)
def test_predicted_times_of_one_transform(n: int, scipy: float, engine: float) -> None:
    """SciPy takes the cheaper of loops and Bluestein's three transforms; the engine has its own for what is rough."""
    assert choice._scipy(n) == pytest.approx(scipy)
    assert choice._engine(n) == pytest.approx(engine)
