"""Which filters the engine takes, and the words with which it refuses the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spectralops import _compiler, plan_spectral_filter, transfer
from spectralops._cpu import spectral_filter
from spectralops._cpu.vector import caches, choice


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
        ((16, 4100), 9),
        ((2**13, 2**13), 1),
        ((11,), 1),
        ((1155,), 0),
        ((4099,), 9),
        ((2 * 4099,), 9),
        ((1028,), 4),
        ((433,), 1),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_that_are_taken(lengths: tuple[int, ...], batch: int, dtype: str) -> None:
    assert choice.filter_refusal(lengths, batch, dtype) == ""


@pytest.mark.parametrize(
    ("lengths", "batch", "words"),
    [
        ((2, 2, 2, 2), 9, "the vector engine takes 1 to 3 axes, not 4"),
        ((16, 4099), 9, "length 4099 has the prime factor 4099, where the vector engine is no faster"),
        ((16, 2 * 4099), 9, "length 8198 has the prime factor 4099, where the vector engine is no faster"),
        ((16, 4132), 9, "length 4132 has the prime factor 1033, where the vector engine is no faster"),
        ((4099,), 9, "length 4099 has the prime factor 4099, where the vector engine is no faster"),
        ((2 * 4099,), 9, "length 8198 has the prime factor 4099, where the vector engine is no faster"),
        ((1028,), 4, "length 1028 has the prime factor 257, where the vector engine is no faster"),
    ],
)
def test_refusals_say_why(lengths: tuple[int, ...], batch: int, words: str) -> None:
    """Of one axis, rows with filters of their own are refused alone: a shared one is a convolution."""
    assert choice.filter_refusal(lengths, batch, each=True) == words


@pytest.mark.parametrize(
    ("n", "batch", "halved", "taken"),
    [(433, 1, True, False), (433, 1, False, True), (1028, 4, True, False), (1028, 8, True, True)],
)
def test_few_rows_and_complex_rows_are_another_matter(n: int, batch: int, halved: bool, taken: bool) -> None:
    """A long row is cut into short ones, and complex input has no half that SciPy saves."""
    assert (choice.filter_refusal((n,), batch, "float32", halved, each=True) == "") is taken


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
    ("n", "m"), [(127, 256), (433, 960), (719, 1440), (1009, 2048), (3001, 6144), (4099, 8640), (10007, 20736)]
)
def test_length_of_the_convolution_with_a_kernel(n: int, m: int) -> None:
    """Of all smooth multiples of sixteen, the one with the least work."""
    work = {k: k * choice.units_of_passes(k) for k in range(16, 8 * n, 16) if k >= 2 * n - 1 and choice.is_smooth(k)}
    assert choice.convolution_length(n) == m == min(work, key=lambda k: (work[k], k))


@pytest.mark.parametrize(
    ("n", "halved", "convolved"),
    [
        (719, True, True), (719, False, True), (97, True, True), (97, False, False), (61, True, True),
        (59, True, False), (122, True, False), (254, True, True), (254, False, True), (2401, True, False),
        (1849, True, True), (1849, False, False), (1155, True, False),
    ],
)  # fmt: skip
def test_rows_are_convolved_where_it_pays(n: int, halved: bool, convolved: bool) -> None:
    """Measured for 64 rows: 97 real points take 0.47 of the time, 97 complex ones 0.75, 1155 0.93."""
    assert choice.is_convolved(n, halved) is convolved


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
        ((256, 1875), (1,), "float32", True, "lengths (1875,) are no faster in the vector engine"),
    ],
)
def test_lone_transforms_that_are_refused(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, halved: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a last cache of 8 MB, a group may fill one; of one of 16 MB, two."""
    monkeypatch.setattr(caches, "last_cache", lambda: 1 << 23)
    choice._transform_refusal.cache_clear()
    assert choice.transform_refusal(shape, axes, dtype, halved).startswith(words)
    monkeypatch.setattr(caches, "last_cache", lambda: 1 << 24)
    choice._transform_refusal.cache_clear()
    assert (choice.transform_refusal(shape, axes, dtype, halved) == "") is ("too long" in words)
    choice._transform_refusal.cache_clear()


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_spectral_filter((4, 16), "float32", transfer.gaussian(1.0), axes=-1)
    words = "SPECTRALOPS_NUMBA=0 switches compiled kernels off"
    assert not spectral_filter._refuses(plan)
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    assert spectral_filter._refuses(plan)
    assert spectral_filter._refusal(plan) == words
    assert choice.transform_refusal((64, 256), (1,), "float32", False) == words
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "1")
    assert spectral_filter._refusal(plan) == ""
    assert not spectral_filter._refuses(plan)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiler, "_missing", lambda: "llvmlite, which compiles kernels, is not installed")
    plan = plan_spectral_filter((4, 16), "float32", transfer.gaussian(1.0), axes=-1)
    assert spectral_filter._refusal(plan) == "llvmlite, which compiles kernels, is not installed"
    assert spectral_filter._refuses(plan)


def test_the_choice_loads_nothing() -> None:
    code = (
        "import sys; from spectralops._cpu.vector import choice; choice.filter_refusal((22,), 1); "
        "print(sorted({'numba', 'llvmlite', 'scipy'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


@pytest.mark.parametrize(
    ("lengths", "batch", "halved", "units"),
    [
        ((16,), 9, True, 16 * 48),
        ((15,), 9, True, 16 * 120),
        ((16,), 9, False, 16 * 128),
        ((16, 30), 3, True, 3 * (32 * 48 + 16 * 300)),
        ((15, 30), 1, False, 2 * (32 * 60 + 8 * 300)),
        ((16, 30, 2), 1, True, 64 * 48 + 16 * (2 * 300 + 30 * 4)),
        ((1024,), 1, True, 1.45 * (32 * 128 + 24 * 320)),
        ((1024,), 8, True, 8 * 512 * 18),
        ((2000,), 3, False, 3 * 2 * 1.45 * (40 * 250 + 32 * 440)),
        ((1009,), 9, True, 16 * 1024 * 20),
    ],
)
def test_predicted_time_of_the_engine(lengths: tuple[int, ...], batch: int, halved: bool, units: float) -> None:
    """Units by hand: 8 costs 48, 15 costs 120, 30 costs 300, 32 costs 320; whole groups of eight lanes are paid."""
    assert choice._engine_filters(lengths, batch, 8, halved) == pytest.approx(0.21 * units)


@pytest.mark.parametrize(
    ("n", "batch", "halved", "spread"),
    [
        (1024, 1, True, True),
        (1024, 7, True, True),
        (1024, 8, True, False),
        (1155, 1, True, True),
        (1009, 1, False, False),
        (1000, 1, False, True),
        (1000, 1, True, True),
        (512, 1, True, True),
        (900, 1, False, True),
        (900, 4, False, True),
        (900, 5, False, True),
        (900, 6, False, False),
        (625, 1, False, True),
        (300, 1, False, True),
        (360, 4, False, False),
        (961, 1, False, True),
        (422, 1, False, False),
        (250, 1, False, False),
    ],
)
def test_few_rows_are_spread_where_it_pays(n: int, batch: int, halved: bool, spread: bool) -> None:
    """Eight lanes of 1000 complex points take 35 us; one row as an image of 25 x 40 takes 7, its call 3 more."""
    assert choice.is_spread(n, batch, 8, halved) is spread


@pytest.mark.parametrize(
    ("n", "batch", "lanes", "halved", "spread"),
    [
        (499, 1, 8, False, True),
        (499, 1, 8, True, False),
        (719, 1, 8, True, True),
        (719, 4, 8, True, False),
        (719, 1, 4, True, False),
        (2003, 1, 4, True, True),
        (4093, 4, 8, True, True),
        (4093, 8, 8, True, False),
        (127, 1, 8, True, False),
    ],
)
def test_few_rows_that_are_convolved_are_copied_and_spread_where_it_pays(
    n: int, batch: int, lanes: int, halved: bool, spread: bool
) -> None:
    """719 complex points take 50 us side by side, 29 apart; four real rows of them 37 and 66."""
    assert choice.is_convolution_spread(n, batch, lanes, halved) is spread


@pytest.mark.parametrize(
    ("lengths", "batch", "halved"),
    [((17, 19), 8, True), ((17, 19), 16, False), ((17, 19, 23), 1, True), ((289,), 256, True)],
)
def test_short_prime_lengths_are_taken(lengths: tuple[int, ...], batch: int, halved: bool) -> None:
    """They are summed, which costs less than SciPy's loops."""
    assert choice.filter_refusal(lengths, batch, "float32", halved) == ""


@pytest.mark.parametrize(("n", "factors"), [(1, ()), (2, (2,)), (49, (7, 7)), (1260, (2, 2, 3, 3, 5, 7)), (13, (13,))])
def test_prime_factors(n: int, factors: tuple[int, ...]) -> None:
    assert choice.prime_factors(n) == factors


@pytest.mark.parametrize(
    ("n", "passes"), [(1, True), (720, True), (101, True), (113, True), (127, False), (721, True), (2003, False)]
)
def test_large_primes_have_no_pass(n: int, passes: bool) -> None:
    """Their sums take longer than a convolution with a chirp."""
    assert choice.has_passes(n) is passes


@pytest.mark.parametrize(("n", "units"), [(1, 0.0), (12, 7.0), (7, 7.7), (22, 2 + 4.3 + 0.38 * 11), (289, 21.52)])
def test_units_of_a_pass_for_each_factor(n: int, units: float) -> None:
    """By hand: 2 for 2, 3 for 3, 7.7 for 7, 4.3 + 0.38 p for larger p."""
    assert choice.units_of_passes(n) == pytest.approx(units)


@pytest.mark.parametrize(
    ("lengths", "batch", "dtype", "halved", "units"),
    [
        ((16,), 1, "float32", True, 0.5 * 2.15 * 128),
        ((16,), 1, "float32", False, 1.47 * 128),
        ((16,), 1, "float64", True, 1.67 * 0.5 * 1.47 * 128),
        ((16,), 4, "float32", True, 0.5 * 4 * 128),
        ((16,), 7, "float32", True, 0.5 * (4 + 3 * 2.15) * 128),
        ((16,), 3, "float64", False, 1.67 * (2 + 1.47) * 128),
        ((16, 30), 2, "float32", True, 0.5 * (60 * 128 + 32 * 300)),
    ],
)
def test_predicted_time_of_scipy(lengths: tuple[int, ...], batch: int, dtype: str, halved: bool, units: float) -> None:
    """Four single or two double transforms share a vector; those left over cost more."""
    assert choice._scipy_filters(lengths, batch, dtype, halved) == pytest.approx(0.48 * units)


@pytest.mark.parametrize(
    ("n", "scipy", "engine"),
    [
        (16, 0.48 * 128, 0.21 * 128),
        (13, 0.48 * 280.8, 0.21 * 13 * 9.24),
        (1009, 3 * 0.48 * 45056, 0.32 * 45056 + 80),
    ],
)
def test_predicted_times_of_one_transform(n: int, scipy: float, engine: float) -> None:
    """SciPy takes the cheaper of loops and Bluestein's three transforms; the engine has its own for what is rough."""
    assert choice._scipy(n) == pytest.approx(scipy)
    assert choice._engine(n) == pytest.approx(engine)
