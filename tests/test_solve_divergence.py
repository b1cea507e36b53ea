"""The time loop stops at the first step that gives a value that is not finite."""

from __future__ import annotations

import numpy as np
import pytest
from libraries import library
from stepping import LIBRARIES, halve

from spectralops import DivergedError, solve


def poison(at, value=np.nan, shape=(4,)):
    """A step that adds one, but makes one value bad on leaving step `at - 1`."""

    def step(u, steps=1):
        u = u.copy()
        for _ in range(steps):
            u = u + 1
            if u[1] == at:
                u[0] = value
        return u

    return step


@pytest.mark.parametrize("fuse", [False, True], ids=["single", "fused"])
@pytest.mark.parametrize("bad", [1, 2, 63, 64, 65, 100])
def test_first_bad_step_is_exact(bad, fuse):
    with pytest.raises(DivergedError) as caught:
        solve(poison(bad), np.zeros(4), steps=100, fuse=fuse)
    assert caught.value.step == bad


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_are_bad(value):
    with pytest.raises(DivergedError) as caught:
        solve(poison(5, value), np.zeros(4), steps=9)
    assert caught.value.step == 5


def test_message_of_divergence():
    message = r"^solve: u has 1 NaN or infinite values after step 5 \(t = 0\.5\), but must have 0; lower dt$"
    with pytest.raises(DivergedError, match=message):
        solve(poison(5), np.zeros(4), steps=9, dt=0.1)


def test_first_bad_step_of_a_step_in_place():
    def step(u):
        u += 1
        if u[0] == 70:
            u[1] = np.nan
        return u

    with pytest.raises(DivergedError) as caught:
        solve(step, np.zeros(4), steps=200)
    assert caught.value.step == 70


def test_first_bad_step_with_buffers():
    def step(u, out=None):
        np.add(u, 1, out=out)
        if out is not None and out[0] == 70:
            out[1] = np.nan
        return out if out is not None else poison(70)(u)

    with pytest.raises(DivergedError) as caught:
        solve(step, np.zeros(4), steps=200)
    assert caught.value.step == 70


def test_shortened_bad_step():
    def step(u, dt):
        return u + (np.nan if dt < 0.3 else 0)

    with pytest.raises(DivergedError, match=r"step 4 \(t = 1\)") as caught:
        solve(step, np.zeros(2), t_end=1.0, dt=0.3)
    assert caught.value.step == 4


def test_passing_badness_is_found_at_the_end_of_a_block():
    """A bad value that a later step repairs within one block is not looked for."""

    def step(u):
        return np.where(np.isnan(u), 0.0, u + 1) if u[0] != 3 else u * np.nan

    assert solve(step, np.zeros(1), steps=65, check_every=None).steps == 65


def test_step_with_hidden_state_blames_the_end_of_the_block():
    calls = []

    def step(u):
        calls.append(1)
        return u * np.nan if len(calls) == 3 else u

    with pytest.raises(DivergedError, match=r"u has 1 NaN .* after step 10 .* must have 0") as caught:
        solve(step, np.zeros(1), steps=10)
    assert caught.value.step == 10


def test_non_finite_values_of_the_start_are_allowed():
    """Land: NaN that stays where it is."""
    u0 = np.array([np.nan, 1.0, np.nan])
    assert solve(halve, u0, steps=3).u.tolist()[1] == 0.125


def test_spreading_of_nan_is_divergence():
    u0 = np.array([1.0, np.nan, 1.0, 1.0])

    def step(u):
        return u + np.roll(u, 1)

    with pytest.raises(DivergedError, match=r"u has 2 NaN .* after step 1 .* but must have 1 as in u0"):
        solve(step, u0, steps=3)


def test_large_sums_are_no_divergence():
    u0 = np.full(100, 1e308)
    assert solve(np.copy, u0, steps=1).steps == 1


@pytest.mark.parametrize("name", LIBRARIES)
def test_divergence_in_every_library(name):
    lib = library(name)
    with np.errstate(all="ignore"), pytest.raises(DivergedError) as caught:
        solve(lambda u: u * u, lib.make(np.full(3, 1e100)), steps=5)
    assert caught.value.step == 2


def test_complex_divergence():
    with pytest.raises(DivergedError, match="u has 1 NaN"):
        solve(lambda u: np.array([u[0], complex(0, np.inf)]), np.ones(2, complex), steps=1)


def test_snapshots_before_divergence_are_on_disk(tmp_path):
    zarr = pytest.importorskip("zarr")
    with pytest.raises(DivergedError):
        solve(poison(5), np.zeros(4), steps=9, save_every=1, save_to=tmp_path / "u.zarr")
    assert zarr.open_group(tmp_path / "u.zarr", mode="r")["step"][:].tolist() == [0, 1, 2, 3, 4]
