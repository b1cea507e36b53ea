"""How quick this machine's convolution kernels are: measured, kept, read, overridden."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spectralops as so
from spectralops._cpu import convolution_rates as rates
from spectralops._cpu.convolution_rates import FAMILIES, Probe
from spectralops._cpu.vector import kernels
from spectralops._plans.convolution import machine_rates
from spectralops._plans.vector_cost import Rates


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Nothing known, in a cache of its own."""
    monkeypatch.setenv("SPECTRALOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SPECTRALOPS_RATES", raising=False)
    monkeypatch.setattr(rates, "_spent", 0.0)
    rates.ratios.cache_clear()
    yield
    rates.ratios.cache_clear()


@pytest.fixture
def clock(monkeypatch):
    """Probes that take what they are said to take, by a clock that only they move."""
    now = [0.0]

    def probe(name):
        def call():
            now[0] += FAMILIES[name].seconds * {"rows": 2.0, "tiles": 0.5}.get(name, 1.0)

        return Probe(FAMILIES[name].seconds, FAMILIES[name].kernels, call)

    monkeypatch.setattr(rates, "FAMILIES", {name: probe(name) for name in FAMILIES})
    monkeypatch.setattr(rates.time, "thread_time", lambda: now[0])
    return now


def file():
    return kernels.cache_directory() / "convolution-rates.json"


def test_the_model_knows_the_same_families():
    assert tuple(FAMILIES) == Rates._fields


def test_nothing_known_means_the_shipped_rates():
    assert rates.ratios() == (1.0,) * 6
    assert machine_rates("cpu") == machine_rates(None) == Rates()


@pytest.mark.parametrize("backend", ["numpy", "reference", "cupy"])
def test_other_backends_have_none(backend):
    assert machine_rates(backend) is None


def test_nothing_compiled_has_none(monkeypatch):
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    assert machine_rates("cpu") is None


def test_measured_ratios_are_kept(clock):
    rates.measure()
    assert json.loads(file().read_text()) == pytest.approx(dict.fromkeys(FAMILIES, 1.0) | {"rows": 2.0, "tiles": 0.5})
    assert rates.ratios() == pytest.approx((2.0, 1.0, 1.0, 1.0, 1.0, 0.5))
    assert [path.name for path in file().parent.iterdir()] == ["convolution-rates.json"]


def test_some_families_are_added_to_others(clock):
    rates.measure(("rows",))
    assert rates.ratios() == pytest.approx((2.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    rates.measure(("tiles",))
    assert rates.ratios() == pytest.approx((2.0, 1.0, 1.0, 1.0, 1.0, 0.5))


def test_real_probes_are_short():
    rates.measure(("rows", "taps"))
    known = json.loads(file().read_text())
    assert set(known) == {"rows", "taps"}
    assert all(0.1 <= ratio <= 10 for ratio in known.values())


@pytest.mark.parametrize("name", ["channels", "lines", "windows", "tiles"])
def test_probes_run(name):
    FAMILIES[name].call()


def test_ratios_are_believed_within_bounds(monkeypatch, tmp_path):
    (tmp_path / "mine").write_text(json.dumps({"rows": 1000, "taps": 0.001, "other": 3}))
    monkeypatch.setenv("SPECTRALOPS_RATES", str(tmp_path / "mine"))
    assert rates.ratios() == (10.0, 0.1, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("content", ["[1]", "{", '{"rows": "x"}', '{"rows": null}', None])
def test_a_file_asked_for_must_hold_ratios(monkeypatch, tmp_path, content):
    if content is not None:
        (tmp_path / "mine").write_text(content)
    monkeypatch.setenv("SPECTRALOPS_RATES", str(tmp_path / "mine"))
    with pytest.raises(
        ValueError, match=r"SPECTRALOPS_RATES is '.*mine', but must name a file of ratios or be 'default'"
    ):
        rates.ratios()


@pytest.mark.parametrize("content", ["[1]", "{", '{"rows": "x"}', '{"rows": null}'])
def test_a_damaged_file_of_ours_is_ignored(content):
    file().write_text(content)
    assert rates.ratios() == (1.0,) * 6


def test_default_uses_and_measures_nothing(clock, monkeypatch):
    rates.measure()
    monkeypatch.setenv("SPECTRALOPS_RATES", "default")
    rates.ratios.cache_clear()
    assert rates.ratios() == (1.0,) * 6
    before = clock[0]
    rates.measure()
    assert clock[0] == before


def test_nowhere_to_write_measures_nothing(clock, monkeypatch):
    monkeypatch.setattr(kernels, "cache_directory", lambda: None)
    rates.measure()
    assert clock[0] == 0
    assert rates.ratios() == (1.0,) * 6


def test_a_full_disk_is_no_error(clock, monkeypatch):
    def full(*arguments, **options):
        raise OSError("No space left on device")

    monkeypatch.setattr(rates.tempfile, "NamedTemporaryFile", full)
    rates.measure()
    assert rates.ratios() == (1.0,) * 6


class TestCounting:
    @pytest.fixture
    def measured(self, monkeypatch):
        calls = []
        monkeypatch.setattr(rates, "measure", calls.append)
        monkeypatch.setattr(rates, "_missing", lambda: ("rows",))
        return calls

    def spend(self, monkeypatch, seconds):
        now = iter((0.0, seconds))
        monkeypatch.setattr(rates.time, "perf_counter", lambda: next(now))
        with rates.counted():
            pass

    def test_after_some_seconds_once(self, monkeypatch, measured):
        for seconds, times in ((1.5, 0), (1.4, 0), (0.2, 1), (5.0, 1)):
            self.spend(monkeypatch, seconds)
            assert len(measured) == times
        assert measured == [("rows",)]

    def test_calls_that_the_model_chose_count(self, monkeypatch, rng):
        x, kernel = rng.standard_normal((700, 700)), rng.standard_normal((9, 9))
        for method, counts in (("direct", False), ("auto", True)):
            monkeypatch.setattr(rates, "_spent", 0.0)
            so.convolve(x, kernel, mode="same", method=method)
            assert (rates._spent > 0) == counts
        before = rates._spent
        so.convolve(x[:8, :8], kernel, mode="same")
        assert rates._spent == before

    def test_layers_count(self, monkeypatch, rng):
        x, weight = rng.standard_normal((2, 16, 100, 100)), rng.standard_normal((16, 16, 7, 7))
        so.fft_conv2d(x, weight)
        assert rates._spent > 0

    def test_only_compiled_kernels_are_measured(self, clock, monkeypatch):
        monkeypatch.setattr(kernels, "compiled", lambda name, dtype: name in ("copy_strip", "sum_rows", "sum_taps"))
        assert rates._missing() == ("rows", "taps")
        rates.measure(("rows",))
        assert rates._missing() == ("taps",)


def test_compiled(monkeypatch):
    monkeypatch.setattr(kernels, "_loaded", {("forward", "float32"): None})
    assert kernels.compiled("forward", "float32")
    assert not kernels.compiled("forward", "float64")
    kernels._to_disk("forward", "float64", b"code")
    assert kernels.compiled("forward", "float64")
    monkeypatch.setattr(kernels, "cache_directory", lambda: None)
    assert not kernels.compiled("forward", "float64")


def test_rates_are_part_of_the_choice(monkeypatch, tmp_path):
    shape, kernel = (2, 16, 224, 224), np.ones((32, 16, 5, 5), np.float32)
    assert so.plan_fft_conv2d(shape, "float32", kernel).method == "tiles"
    (tmp_path / "mine").write_text(json.dumps({"tiles": 10, "channels": 0.5}))
    monkeypatch.setenv("SPECTRALOPS_RATES", str(tmp_path / "mine"))
    rates.ratios.cache_clear()
    assert so.plan_fft_conv2d(shape, "float32", kernel).method == "direct"
