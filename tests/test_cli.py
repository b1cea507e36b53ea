"""The command line: what it says, its exit status, and that its checks can fail."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import spectralops
from spectralops import __main__ as command_line
from spectralops._cli import bench, cases, contest, demo, info, ocean, selftest, shock
from spectralops._support import SUPPORT

ROOT = Path(__file__).parents[1]


def clear(output: str) -> str:
    return re.sub(r"\s+", " ", output)


class TestArguments:
    @pytest.mark.parametrize("arguments", [[], ["nothing"], ["bench", "--rounds"]])
    def test_wrong_ones_exit_with_2(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stop:
            command_line.main(arguments)
        assert stop.value.code == 2
        assert "usage: python -m spectralops" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["demo", "--days", "many"], "argument --days: invalid days value: 'many'"),
            (["demo", "--days", "0"], "argument --days: '0' must be positive and finite"),
            (["demo", "--days", "inf"], "argument --days: 'inf' must be positive and finite"),
            (["demo", "--output", "no/such/folder.png"], "'no/such/folder.png' must lie in a folder that exists"),
            (["bench", "--rounds", "0"], "argument --rounds: '0' must be 1 or more"),
        ],
    )
    def test_values_that_do_not_fit_are_refused_at_once(
        self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit, match="2"):
            command_line.main(arguments)
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["info", "demo", "selftest", "bench"])
    def test_each_command_has_help(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stop:
            command_line.main([command, "--help"])
        assert stop.value.code == 0
        assert f"python -m spectralops {command}" in capsys.readouterr().out

    def test_as_a_module(self) -> None:
        done = subprocess.run([sys.executable, "-m", "spectralops", "info"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"spectralops {spectralops.__version__}, Python 3.")

    def test_status_is_handed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(info, "run", lambda options: 7)
        assert command_line.main(["info"]) == 7


class TestInfo:
    def test_says_what_is_here(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.main(["info"]) == 0
        output = clear(capsys.readouterr().out)
        assert f"numpy {np.__version__} host arrays" in output
        for op in info.operators():
            assert f" {op} " in output

    def test_operators_name_their_default_first(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(info, "devices", lambda: ["none: CuPy is not installed"])
        command_line.main(["info"])
        lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith(", reference")]
        backends = dict(line.split(maxsplit=1) for line in lines)
        assert list(backends) == info.operators()
        assert backends["spectral_filter"] == "cpu, numpy, reference"
        assert len({line.index(names) for line, names in zip(lines, backends.values(), strict=True)}) == 1

    def test_what_is_missing_and_how_to_get_it(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(info, "LIBRARIES", (info.Library("no_such_module", ("none",), "nothing", "demo"),))
        assert command_line.main(["info"]) == 0
        output = clear(capsys.readouterr().out)
        assert "no_such_module - nothing" in output
        assert '-m pip install "spectralops[demo]" nothing' in output

    def test_nothing_missing(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(info, "LIBRARIES", info.LIBRARIES[:1])
        command_line.main(["info"])
        assert "Missing" not in capsys.readouterr().out

    def test_every_library_names_a_real_extra(self) -> None:
        text = (ROOT / "pyproject.toml").read_text()
        for extra in {library.extra for library in info.LIBRARIES} - {""}:
            assert re.search(rf"^{extra} = \[", text, flags=re.MULTILINE), extra

    def test_library_without_an_extra_is_installed_by_name(self) -> None:
        assert info.Library("some_module", ("some-distribution", "another"), "").requirement == "some-distribution"

    def test_library_without_metadata(self) -> None:
        assert info.installed(info.Library("numpy", ("no-such-distribution",), "")) == "unknown version"

    def test_second_distribution_name_counts(self) -> None:
        assert info.installed(info.Library("numpy", ("no-such-distribution", "numpy"), "")) == np.__version__

    def test_cuda_devices(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        properties = {"name": b"Some GPU", "totalGlobalMem": 16 * 2**30}
        runtime = SimpleNamespace(getDeviceCount=lambda: 1, getDeviceProperties=lambda index: properties)
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
        assert info.devices() == ["cuda:0  Some GPU, 16 GiB"]
        monkeypatch.setattr(info, "LIBRARIES", ())
        command_line.main(["info"])
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  spectral_filter"))
        assert line.split(maxsplit=1)[1] == "cpu, numpy, cuda, cupy, reference"

    def test_no_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime = SimpleNamespace(getDeviceCount=lambda: 0)
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
        assert info.devices() == ["none: CuPy finds no CUDA device"]

    def test_no_driver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> int:
            raise RuntimeError("cudaErrorInsufficientDriver")

        runtime = SimpleNamespace(getDeviceCount=fail)
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
        assert info.devices() == ["none: cudaErrorInsufficientDriver"]

    def test_no_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        assert info.devices() == ["none: CuPy is not installed"]

    def test_processor_elsewhere_than_on_linux(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(self, **options):
            raise FileNotFoundError

        monkeypatch.setattr(Path, "open", fail)
        monkeypatch.setattr(info.platform, "machine", lambda: "arm64")
        assert info.processor() == "arm64"

    def test_threads_without_affinity(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(info.os, "sched_getaffinity", raising=False)
        monkeypatch.setattr(info.os, "cpu_count", lambda: None)
        assert info.threads() == 1


@pytest.fixture(scope="module")
def sst() -> ocean.Ocean:
    pytest.importorskip("iris_sample_data")
    pytest.importorskip("xarray")
    return ocean.load(months=2)


class TestOcean:
    def test_is_the_real_file(self, sst: ocean.Ocean) -> None:
        assert sst.temperature.shape == (2, 18, 432)
        assert sst.dates == ["2006-04", "2006-05"]
        assert 0.25 < 1 - sst.wet.mean() < 0.27
        np.testing.assert_allclose(sst.spacing, (61774.9, 92662.4), rtol=1e-5)

    def test_low_pass_equals_plain_scipy(self, sst: ocean.Ocean) -> None:
        ours, plain = ocean.low_pass(sst, 150e3), ocean.low_pass_scipy(sst, 150e3)
        assert ours.dtype == plain.dtype == np.float32
        np.testing.assert_allclose(ours, plain, atol=2e-3, rtol=0)

    def test_low_pass_keeps_a_constant_around_land(self, sst: ocean.Ocean) -> None:
        flat = ocean.Ocean(np.where(sst.wet, 280.0, np.nan)[None], sst.latitude, sst.longitude, ["now"], "test")
        smooth = ocean.low_pass(flat, 150e3)
        assert np.isnan(smooth[0][~sst.wet]).all()
        np.testing.assert_allclose(smooth[np.isfinite(smooth)], 280.0, rtol=1e-12)
        assert np.isfinite(smooth).sum() > 0.9 * sst.wet.sum()

    def test_longitude_wraps_and_latitude_does_not(self, sst: ocean.Ocean) -> None:
        spot = np.full((1, *sst.wet.shape), 1.0)
        spot[0, 0, 0] = 2.0
        everywhere = ocean.Ocean(spot, sst.latitude, sst.longitude, ["now"], "test")
        smooth = ocean.low_pass(everywhere, 100e3)[0] - 1
        assert smooth[0, -1] == pytest.approx(smooth[0, 1], rel=1e-9)
        assert smooth[0, -1] > 1e-3
        assert abs(smooth[-1, 0]) < 1e-6

    def test_flow_has_no_divergence_and_rests_at_the_coast(self, sst: ocean.Ocean) -> None:
        north, east = ocean.velocity(sst, sst.wet)
        assert ocean.discrete_divergence(sst, (north, east)) < 1e-20
        assert 0.3 < np.hypot(north, east).max() < 1.0
        at_rest = ~ocean._erode(sst.wet)
        assert np.abs(north[at_rest]).max() == np.abs(east[at_rest]).max() == 0
        assert at_rest[0].all()
        assert at_rest[-1].all()

    def test_divergence_is_seen(self, sst: ocean.Ocean) -> None:
        north, east = ocean.velocity(sst, sst.wet)
        assert ocean.discrete_divergence(sst, (north, 1.01 * east)) > 1e-9

    def test_advance_conserves_heat_and_range(self, sst: ocean.Ocean) -> None:
        sea, flow = sst.wet, ocean.velocity(sst, sst.wet)
        later, steps, dt = ocean.advance(sst, sea, sst.temperature.astype(np.float64), flow, 2000.0, 5)
        before = sst.temperature[:, sea].astype(np.float64)
        assert steps * dt == pytest.approx(5 * 86400)
        np.testing.assert_allclose(later[:, sea].sum(axis=1), before.sum(axis=1), rtol=1e-12)
        assert before.min() <= later[:, sea].min() < later[:, sea].max() <= before.max()
        assert np.abs(later[:, sea] - before).max() > 0.1


class TestShock:
    def test_exact_solution_is_the_published_one(self) -> None:
        """Five values of the Cole-Hopf solution computed independently in extended precision."""
        published = {
            (0.05, 1 / np.pi): -0.794577865294,
            (0.10, 2 / np.pi): -0.873220494553,
            (0.50, 0.5): -0.592769534402,
            (0.25, 3 / np.pi): -0.577909314936,
            (0.90, 1.0): -0.075695944486,
        }
        for (x, t), value in published.items():
            assert shock.exact(x, t) == pytest.approx(value, abs=2e-12)

    def test_slope(self) -> None:
        x = np.linspace(-1, 1, 201)
        assert shock.slope_at_zero(3 * x**3 - 2 * x, 0.01) == pytest.approx(2.0, rel=1e-12)

    def test_steps_to_every_time(self) -> None:
        x, fields, steps = shock.run_shock(cells=400)
        assert len(x) == 401
        assert sorted(fields) == sorted((*shock.TIMES, shock.HEAD_TIME))
        assert steps == pytest.approx(1.0 / (0.4 * 0.005**2 / shock.NU), abs=6)
        assert fields[0.5][300] == pytest.approx(shock.exact(0.5, 0.5), abs=2e-3)


class TestDemo:
    def test_runs_on_real_data(self, sst: ocean.Ocean, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("matplotlib")
        figure = tmp_path / "figure.png"
        assert command_line.main(["demo", "--output", str(figure), "--days", "3"]) == 0
        output = capsys.readouterr().out
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert "54 months x 18 latitudes x 432 longitudes" in output
        for word in ("largest discrete divergence", "against plain scipy.fft", "heat drift", "steepest slope"):
            assert word in output
        assert len(re.findall(r"^   0\.\d+  0\.\d\d  -0\.\d{10}", output, flags=re.MULTILINE)) == 24

    @pytest.mark.parametrize("module", ["iris_sample_data", "xarray", "h5netcdf", "h5py", "matplotlib"])
    def test_without_its_extra(
        self, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for needed in ("iris_sample_data", "xarray", "h5netcdf", "h5py", "matplotlib"):
            pytest.importorskip(needed)
        monkeypatch.setitem(sys.modules, module, None)
        assert command_line.main(["demo"]) == 1
        output = capsys.readouterr().out
        assert output == f'demo: {module} is not installed; python -m pip install "spectralops[demo]"\n'

    @pytest.mark.parametrize("spoiled", ["_filter", "_advance", "_shock"])
    def test_a_wrong_number_fails_it(self, spoiled: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for stage, result in (("_filter", (None,)), ("_advance", (None, None)), ("_shock", (None, {}))):
            verdict = stage != spoiled
            monkeypatch.setattr(demo, stage, lambda *_, result=result, verdict=verdict: (*result, verdict))
        monkeypatch.setattr(demo, "_draw", lambda *_: None)
        monkeypatch.setattr(demo, "_pyplot", lambda: None)
        monkeypatch.setattr(demo.sea, "load", lambda: None)
        assert demo.run(argparse.Namespace(days=1.0, output=str(tmp_path / "none.png"))) == 1


class TestSelftest:
    def test_passes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.main(["selftest"]) == 0
        output = capsys.readouterr().out
        assert re.search(r"^\d{3} passed, 0 failed, \d+ skipped in", output, flags=re.MULTILINE)
        assert "FAIL" not in output

    def test_checks_every_operator(self) -> None:
        assert {check.op for check in selftest.CHECKS} == {op for op, _ in SUPPORT}

    @pytest.fixture
    def only_laplacian(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selftest, "SUPPORT", {k: v for k, v in SUPPORT.items() if k[0] == "laplacian"})
        monkeypatch.setattr(selftest, "CHECKS", tuple(c for c in selftest.CHECKS if c.op == "laplacian"))
        monkeypatch.setattr(selftest, "_homes", lambda: iter(()))

    def test_verbose_names_what_passed(self, only_laplacian: None, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.main(["selftest", "--verbose"]) == 0
        assert "ok    laplacian numpy float64: error " in capsys.readouterr().out

    def test_a_wrong_result_fails_it(
        self, only_laplacian: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(selftest, "relative_error", lambda result, expected: 1.0)
        assert command_line.main(["selftest"]) == 1
        assert re.search(
            r"^FAIL  laplacian \w+ float64: relative error is 1, but must be", capsys.readouterr().out, re.M
        )

    def test_an_exception_fails_it(
        self, only_laplacian: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(result, expected):
            raise RuntimeError("broken")

        monkeypatch.setattr(selftest, "relative_error", fail)
        assert command_line.main(["selftest"]) == 1
        assert "float64: RuntimeError: broken" in capsys.readouterr().out

    def test_says_what_it_skips(
        self, only_laplacian: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(selftest, "_gpu", lambda: None)
        monkeypatch.setattr(selftest, "find_spec", lambda name: None)
        assert command_line.main(["selftest"]) == 0
        output = capsys.readouterr().out
        assert re.search(r"^skip  \d rows: no CUDA device$", output, re.M)
        assert re.search(r"^skip  \d rows: ml_dtypes is not installed$", output, re.M)

    def test_finds_no_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        assert selftest._gpu() is None

    def test_finds_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime = SimpleNamespace(getDeviceCount=lambda: 1)
        cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        assert selftest._gpu() is cupy

    def test_runs_the_installed_libraries(self) -> None:
        found = [name for name, _, _ in selftest._homes()]
        assert found == [name for name in ("torch", "jax", "array_api_strict") if find_spec(name)]


TINY = (
    cases.low_pass((2, 16, 18), 2),
    cases.low_pass((3, 30), 1),
    cases.layer(2, 3, (16, 12), 4),
    cases.layer(2, 3, (20,), 5),
    cases.layer(1, 2, (8, 12, 10), 3),
    cases.diffusion((2, 12, 14), 2, 3),
    cases.diffusion((8, 9, 10), 3, 2),
    cases.burgers((12, 14), 2, 3),
    cases.dense_conv(2, 4, 12, 3),
    cases.dense_conv(1, 2, 16, 5, skip={"numpy": "a reason"}),
    cases.depthwise_conv(2, 4, 15, 5),
    cases.convolution(40, 7),
)


class TestBench:
    @pytest.mark.parametrize("case", TINY, ids=str)
    def test_contestants_agree(self, case: contest.Case) -> None:
        results = contest.contest(case, rounds=1)
        setup = case.build()
        assert next(iter(setup.contestants)) == results[0].contestant == "spectralops"
        assert results[0].ratio == 1.0
        for result in results:
            assert result.error <= setup.tolerance, result
            assert 0 < result.low <= result.median <= result.high
            assert result.first > 0
        assert {r.contestant for r in results} == setup.contestants.keys() - case.skip.keys()

    def test_prints_ratios(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setattr(bench, "SHORT", TINY[:1])
        assert command_line.main(["bench", "--rounds", "3"]) == 0
        output = capsys.readouterr().out
        assert "filter 2d: 2x16x18" in output
        assert re.search(r"^  scipy +\S+ ms \[\S+ \.\. \S+\] +\d+\.\d\dx   error \d", output, flags=re.MULTILINE)

    def test_a_wrong_result_is_not_timed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(spectralops, "spectral_filter", lambda x, transfer, **options: 1.01 * x)
        monkeypatch.setattr(bench, "SHORT", TINY[:1])
        assert command_line.main(["bench"]) == 1
        output = capsys.readouterr().out
        assert re.search(r"WRONG filter 2d: 2x16x18: relative error is \S+, but must be at most", output)
        assert " ms " not in output

    def test_times_are_per_step(self) -> None:
        assert TINY[5].build().work == 3

    def test_floor_bytes(self) -> None:
        assert TINY[0].build().bytes_moved == 2 * 4 * 2 * 16 * 18 + 4 * 16 * 10
        assert TINY[3].build().bytes_moved == 2 * 4 * 2 * 3 * 20 + 8 * 3 * 3 * 5

    def test_contestants_take_turns(self) -> None:
        calls: list[str] = []
        contestants = {name: contest.Contestant(lambda name=name: calls.append(name)) for name in "abc"}
        times = contest.measure(contestants, rounds=3)
        assert calls == list("abcabcbcacab")
        assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3, "c": 3}

    def test_slow_ones_get_fewer_rounds(self) -> None:
        calls: list[int] = []
        contest.measure({"a": contest.Contestant(lambda: calls.append(1))}, rounds=50, seconds=0.0)
        assert len(calls) == 1 + 3

    @pytest.mark.parametrize(
        ("result", "error"),
        [([1.0, 2.0], 0.0), ([1.0, 2.5], 0.5 / 5**0.5), ([1.0], np.inf), ([1.0, np.nan], np.inf)],
        ids=["same", "off", "short", "nan"],
    )
    def test_relative_error(self, result: list[float], error: float) -> None:
        assert contest.relative_error(result, np.array([1.0, 2.0])) == pytest.approx(error)

    def test_optional(self) -> None:
        assert contest.optional("no_such_module") is None
        assert contest.optional("numpy") is np


class TestBenchmarks:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *arguments]
        return subprocess.run(script, capture_output=True, text=True)

    def test_writes_results(self, tmp_path: Path) -> None:
        path = tmp_path / "results.json"
        done = self.run("--quick", "--only", "filter", "1d", "--json", str(path))
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("\n1 cases right, 0 wrong\n")
        report = json.loads(path.read_text())
        assert {"commit", "processor", "cores", "versions", "environment", "load", "time"} <= report.keys()
        (entry,) = report["cases"]
        assert (entry["group"], entry["case"]) == ("filter 1d", "256x1024")
        assert {"contestant", "first", "median", "low", "high", "ratio", "error"} == entry["results"][0].keys()

    def test_unknown_case(self) -> None:
        done = self.run("--only", "nothing")
        assert done.returncode == 2
        assert "--only is nothing, but must match a case" in done.stderr

    def test_full_list(self) -> None:
        code = "from cases import FULL; print(len(FULL), len({str(case) for case in FULL}))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True
        )
        assert done.stdout == "47 47\n"
