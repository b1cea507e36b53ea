"""The time loop: what it passes to the step, when it stops, what it saves, and that it resumes bit for bit."""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from libraries import library
from stepping import LIBRARIES, Recording, halve, relax, relax_many, relax_out, rotate

from spectralops import DivergedError, Solution, solve


def test_steps_are_applied_that_often():
    solution = solve(halve, np.array([8.0, 4.0]), steps=3)
    assert np.array_equal(solution.u, [1.0, 0.5])
    assert (solution.steps, solution.t, solution.dt) == (3, 3.0, None)
    assert isinstance(solution, Solution)


def test_euler_decay_is_the_power_of_its_factor():
    solution = solve(relax, np.array([1.0]), t_end=2.0, dt=0.25)
    assert solution.u[0] == pytest.approx(0.75**8, rel=1e-15)
    assert (solution.steps, solution.t, solution.dt) == (8, 2.0, 0.25)


def test_zero_steps_return_a_copy_of_the_start():
    u0 = np.ones(3)
    solution = solve(halve, u0, steps=0)
    assert solution.steps == 0
    assert np.array_equal(solution.u, u0)
    assert not np.shares_memory(solution.u, u0)


def test_time_zero_span_takes_no_step():
    assert solve(relax, np.ones(2), t0=1.5, t_end=1.5, dt=0.5).steps == 0


def test_t0_moves_the_times():
    solution = solve(relax, np.ones(2), t0=10.0, t_end=11.0, dt=0.25, save_every=2)
    assert solution.times.tolist() == [10.0, 10.5, 11.0]
    assert solution.steps == 4


def test_times_are_multiples_and_not_running_sums():
    solution = solve(relax, np.ones(1), steps=1000, dt=0.1, save_every=1)
    assert solution.times[1000] == 1000 * 0.1
    assert solution.t == 100.0


@pytest.mark.parametrize(("t_end", "dt", "steps"), [(0.3, 0.1, 3), (0.7, 0.1, 7), (1e6, 0.1, 10_000_000)])
def test_rounding_of_the_quotient_makes_no_extra_step(t_end, dt, steps):
    seen = []

    def step(u, dt, steps=1):
        seen.append(steps)
        return u

    solution = solve(step, np.ones(1), t_end=t_end, dt=dt, fuse=True, check_every=None)
    assert (solution.steps, solution.t) == (steps, t_end)
    assert seen == [steps]


def test_rounding_of_large_times_makes_no_extra_step():
    solution = solve(halve, np.ones(1), t0=1e6, t_end=1e6 + 0.3, dt=0.1)
    assert (solution.steps, solution.t) == (3, 1e6 + 0.3)


def test_last_step_is_shortened_to_hit_the_end():
    step = Recording(relax)
    solution = solve(step, np.ones(1), t_end=1.0, dt=0.375)
    assert [call["dt"] for call in step.calls] == [0.375, 0.375, 0.25]
    assert (solution.steps, solution.t) == (3, 1.0)
    assert solution.u[0] == pytest.approx(0.625**2 * 0.75, rel=1e-15)


def test_end_before_the_first_whole_step_is_one_short_step():
    step = Recording(relax)
    assert solve(step, np.ones(1), t_end=0.1, dt=0.5).t == 0.1
    assert [call["dt"] for call in step.calls] == [0.1]


def test_shortened_step_is_taken_alone_by_a_fused_step():
    step = Recording(relax_many)
    solve(step, np.ones(1), t_end=1.0, dt=0.375, fuse=True)
    assert [(call["steps"], call.get("dt")) for call in step.calls] == [(2, 0.375), (1, 0.25)]


def test_dt_is_only_a_label_for_a_step_that_takes_none():
    solution = solve(halve, np.ones(1), t_end=1.0, dt=0.25)
    assert (solution.steps, solution.dt, solution.u[0]) == (4, 0.25, 0.5**4)


def test_own_default_dt_is_used_and_not_passed():
    step = Recording(relax_out)
    solution = solve(step, np.ones(1), t_end=0.5)
    assert (solution.dt, solution.steps) == (0.125, 4)
    assert all("dt" not in call for call in step.calls)


def test_dt_bound_by_partial_is_the_steps_own():
    solution = solve(functools.partial(relax, dt=0.5), np.ones(1), t_end=2.0)
    assert (solution.dt, solution.steps, solution.u[0]) == (0.5, 4, 0.5**4)


def test_dt_of_the_caller_replaces_the_steps_own():
    solution = solve(functools.partial(relax, dt=0.5), np.ones(1), t_end=2.0, dt=0.25)
    assert (solution.dt, solution.steps, solution.u[0]) == (0.25, 8, 0.75**8)


def test_start_time_of_each_step_is_passed_where_t_is_required():
    seen = []

    def step(u, t, dt):
        seen.append((t, dt))
        return u

    solve(step, np.ones(1), t0=1.0, t_end=2.0, dt=0.375)
    assert seen == [(1.0, 0.375), (1.375, 0.375), (1.75, 0.25)]


def test_t_with_a_default_is_the_users_own():
    def step(u, t=7.0):
        assert t == 7.0
        return u

    solve(step, np.ones(1), steps=2)


def test_unreadable_signature_is_a_plain_step():
    class Opaque:
        @property
        def __signature__(self):
            raise ValueError("no signature")

        def __call__(self, u):
            return u + 1

    assert solve(Opaque(), np.zeros(1), steps=3).u[0] == 3.0


def test_ufuncs_are_steps():
    assert solve(np.negative, np.ones(2), steps=3).u.tolist() == [-1.0, -1.0]


def test_fused_calls_end_at_the_next_event():
    step = Recording(relax_many)
    solve(step, np.ones(2), steps=100, save_every=30, fuse=True)
    assert [call["steps"] for call in step.calls] == [30, 30, 4, 26, 10]


def test_fused_without_events_is_one_call():
    step = Recording(relax_many)
    fused = solve(step, np.ones(2), steps=100, fuse=True, check_every=None)
    assert [call["steps"] for call in step.calls] == [100]
    assert fused.u[0] == pytest.approx(0.875**100, rel=1e-13)


def test_own_step_functions_are_fused_without_asking(monkeypatch):
    step = Recording(relax_many)
    monkeypatch.setattr(Recording, "__module__", "spectralops.steps")
    solve(step, np.ones(2), steps=10, check_every=None)
    assert [call["steps"] for call in step.calls] == [10]


def test_own_step_functions_are_not_fused_on_request(monkeypatch):
    step = Recording(relax_many)
    monkeypatch.setattr(Recording, "__module__", "spectralops.steps")
    solve(step, np.ones(2), steps=3, fuse=False)
    assert [call.get("steps") for call in step.calls] == [None, None, None]


def test_foreign_steps_keyword_is_left_alone():
    step = Recording(relax_many)
    solve(step, np.ones(2), steps=3)
    assert [call.get("steps") for call in step.calls] == [None, None, None]


def test_foreign_function_may_bind_steps():
    solution = solve(functools.partial(relax_many, steps=2), np.ones(1), steps=3)
    assert solution.u[0] == pytest.approx(0.875**6, rel=1e-15)


def test_modules_that_only_begin_alike_are_foreign(monkeypatch):
    step = Recording(relax_many)
    monkeypatch.setattr(Recording, "__module__", "spectralopsextra.steps")
    solve(step, np.ones(2), steps=3)
    assert len(step.calls) == 3


@pytest.mark.parametrize(("check_every", "buffers"), [(None, 2), (5, 3)], ids=["one block", "a good state is kept"])
def test_out_alternates_between_few_buffers(check_every, buffers):
    step = Recording(relax_out)
    solve(step, np.ones(4), steps=20, check_every=check_every)
    assert len({id(call["out"]) for call in step.calls}) == buffers
    assert all(call["out"].flags.c_contiguous and call["out"].shape == (4,) for call in step.calls)


def test_out_is_never_the_state_itself():
    def step(u, out=None):
        assert not np.shares_memory(u, out)
        return np.multiply(u, 0.5, out=out)

    assert solve(step, np.ones(4), steps=9, check_every=2).u[0] == 0.5**9


def test_buffers_give_the_same_bits_as_fresh_arrays(rng):
    u0 = rng.standard_normal(50)
    with_out = solve(relax_out, u0, steps=23, check_every=5)
    without = solve(lambda u: relax_out(u), u0, steps=23)
    assert np.array_equal(with_out.u, without.u)


def test_result_beside_the_buffer_ends_their_use():
    step = Recording(lambda u, out=None: np.multiply(u, 0.5, out=out)[:])
    kept = []
    solve(step, np.ones(3), steps=4, callback=lambda n, t, u: kept.append(u))
    assert ["out" in call for call in step.calls] == [True, False, False, False]
    assert [u[0] for u in kept] == [0.5, 0.25, 0.125, 0.0625]


def test_out_bound_by_the_user_is_left_alone():
    buffer = np.empty(3)
    step = functools.partial(relax_out, out=buffer)
    assert solve(step, np.ones(3), steps=2).u is buffer


def test_arrays_given_to_the_callback_are_not_written_again():
    kept = []
    solve(relax_out, np.ones(3), steps=6, callback=lambda n, t, u: kept.append(u))
    assert [u[0] for u in kept] == [0.875**k for k in range(1, 7)]


def test_other_buffers_outlive_a_callback():
    step = Recording(relax_out)
    solve(step, np.ones(3), steps=12, callback=lambda n, t, u: None, callback_every=3, check_every=None)
    assert len({id(call["out"]) for call in step.calls}) < 12


def in_place(u):
    u *= 0.5
    return u


def test_start_is_never_modified_by_a_step_in_place():
    u0 = np.ones(3)
    solution = solve(in_place, u0, steps=4, save_every=1)
    assert np.array_equal(u0, np.ones(3))
    assert solution.snapshots[:, 0].tolist() == [1.0, 0.5, 0.25, 0.125, 0.0625]


@pytest.mark.parametrize("name", LIBRARIES)
def test_same_library_comes_back(name):
    lib = library(name)
    u0 = lib.make(np.array([8.0, 4.0]))
    solution = solve(halve, u0, steps=3, save_every=2)
    assert isinstance(solution.u, lib.type)
    assert isinstance(solution.snapshots, lib.type)
    assert lib.read(solution.u).tolist() == [1.0, 0.5]
    assert lib.read(solution.snapshots).tolist() == [[8.0, 4.0], [2.0, 1.0]]
    assert lib.read(u0).tolist() == [8.0, 4.0]


def test_torch_buffers():
    torch = pytest.importorskip("torch")
    step = Recording(lambda u, out=None: torch.mul(u, 0.5, out=out))
    assert solve(step, torch.ones(3), steps=5).u.tolist() == [0.5**5] * 3
    assert all(type(call["out"]) is torch.Tensor for call in step.calls)


def test_jax_gets_no_out():
    lib = library("jax")
    step = Recording(lambda u, out=None: u * 0.5)
    solve(step, lib.make(np.ones(3)), steps=3)
    assert all("out" not in call for call in step.calls)


@pytest.mark.parametrize("u0", [np.float64(4.0), 4.0, np.array(4.0)], ids=["scalar", "float", "0-d"])
def test_scalars_are_states(u0):
    assert float(solve(halve, u0, steps=2, save_every=1).snapshots[1]) == 2.0


def test_integer_states_are_possible():
    solution = solve(rotate, np.arange(4), steps=1, save_every=1)
    assert solution.u.tolist() == [3, 0, 1, 2]
    assert solution.snapshots.dtype == np.arange(4).dtype


def test_empty_states_are_possible():
    assert solve(halve, np.zeros((0, 3)), steps=2).u.shape == (0, 3)


def test_snapshots_begin_with_the_start_and_follow_the_interval():
    solution = solve(halve, np.array([16.0]), steps=5, save_every=2)
    assert solution.snapshots[:, 0].tolist() == [16.0, 4.0, 1.0]
    assert solution.times.tolist() == [0.0, 2.0, 4.0]
    assert solution.times.dtype == np.float64
    assert solution.u[0] == 0.5


def test_without_save_every_there_are_none():
    solution = solve(halve, np.ones(1), steps=2)
    assert solution.snapshots is None
    assert solution.times.shape == (0,)


def test_float_interval_is_a_time():
    solution = solve(relax, np.ones(1), t_end=1.2, dt=0.1, save_every=0.3)
    assert solution.times.tolist() == pytest.approx([0.0, 0.3, 0.6, 0.9, 1.2], rel=1e-15)


def test_numpy_float_interval_is_a_time():
    assert len(solve(relax, np.ones(1), t_end=1.0, dt=0.25, save_every=np.float32(0.5)).times) == 3


def test_shortened_step_is_no_snapshot():
    solution = solve(relax, np.ones(1), t_end=1.0, dt=0.375, save_every=1)
    assert solution.times.tolist() == [0.0, 0.375, 0.75]


def test_snapshots_are_copies():
    solution = solve(in_place, np.ones(2), steps=2, save_every=1)
    assert not np.shares_memory(solution.u, solution.snapshots)


def test_stop_leaves_only_the_snapshots_taken():
    solution = solve(halve, np.ones(2), steps=10, save_every=1, callback=lambda n, t, u: n == 3)
    assert solution.times.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert solution.snapshots.shape == (4, 2)


def test_callback_is_told_step_time_and_state():
    seen = []
    solve(
        relax,
        np.ones(1),
        t_end=1.0,
        dt=0.25,
        callback_every=3,
        callback=lambda n, t, u: seen.append((n, t, float(u[0]))),
    )
    assert seen == [(3, 0.75, 0.75**3), (4, 1.0, 0.75**4)]


def test_callback_is_called_every_step_by_default():
    seen = []
    solve(relax, np.ones(1), t_end=1.0, dt=0.375, callback=lambda n, t, u: seen.append((n, t)))
    assert seen == [(1, 0.375), (2, 0.75), (3, 1.0)]


def test_callback_stops_the_run():
    solution = solve(halve, np.ones(1), steps=100, callback=lambda n, t, u: u[0] < 0.1)
    assert (solution.steps, solution.u[0]) == (4, 0.0625)
    assert solution.t == 4.0


def test_progress_bar_counts_the_steps(capsys):
    pytest.importorskip("tqdm")
    solve(halve, np.ones(1), steps=250, progress=True)
    assert "250/250" in capsys.readouterr().err


def test_progress_bar_moves_at_least_in_hundredths(monkeypatch):
    updates = []

    class Bar:
        def __init__(self, total, initial, unit):
            assert (total, initial, unit) == (1000, 0, "step")

        def __enter__(self):
            return self

        def __exit__(self, *error):
            updates.append("closed")

        def update(self, n):
            updates.append(n)

    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    solve(relax_many, np.ones(1), steps=1000, progress=True, fuse=True, check_every=None)
    assert updates == [10] * 100 + ["closed"]


def test_missing_tqdm_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"^solve: progress is True, which needs tqdm; pip install tqdm$"):
        solve(halve, np.ones(1), steps=1, progress=True)


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

    with pytest.raises(DivergedError) as caught:
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


def stable_decay(u, dt):
    return u - dt * u


stable_decay.stable_dt = lambda u, **bound: 1.0


def test_stable_dt_of_the_function_is_taken_with_safety_and_divides_the_end():
    solution = solve(stable_decay, np.ones(1), t_end=2.0)
    assert (solution.steps, solution.dt) == (3, 2.0 / 3)


def test_stable_dt_divides_the_interval_of_snapshots():
    solution = solve(stable_decay, np.ones(1), t_end=2.5, save_every=1.0)
    assert solution.dt == 0.5
    assert solution.times.tolist() == [0.0, 1.0, 2.0]


def test_stable_dt_for_a_number_of_steps():
    assert solve(stable_decay, np.ones(1), steps=2).dt == 0.9


def test_stable_dt_is_told_what_partial_binds():
    def step(u, dt, rate):
        return u - dt * rate * u

    step.stable_dt = lambda u, rate: 1 / rate
    assert solve(functools.partial(step, rate=4.0), np.ones(1), steps=2).dt == 0.9 / 4


def test_stable_dt_of_the_partial_itself_wins():
    step = functools.partial(stable_decay)
    step.stable_dt = lambda u: 2 * u[0]
    assert solve(step, np.ones(1), steps=1).dt == 1.8


def test_infinite_stable_dt_is_one_step_to_the_end():
    step = functools.partial(stable_decay)
    step.stable_dt = lambda u: np.inf
    assert solve(step, np.ones(1), t_end=0.5).steps == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, r"steps is None and t_end is None, but exactly one of them must be given"),
        ({"steps": 1, "t_end": 1.0}, ValueError, r"steps is 1 and t_end is 1\.0, but exactly one"),
        ({"steps": -1}, ValueError, r"steps is -1, but must be at least 0"),
        ({"steps": 1.5}, TypeError, r"steps is 1\.5, but must be an integer"),
        ({"t_end": -1.0, "dt": 0.1}, ValueError, r"t_end is -1\.0, but must not be before t0 = 0\.0"),
        ({"t_end": "x", "dt": 0.1}, TypeError, r"t_end is a str, but must be a real number"),
        ({"t_end": 1.0, "dt": 0.0}, ValueError, r"dt is 0\.0, but must be positive"),
        ({"t_end": 1.0, "dt": np.nan}, ValueError, r"dt is nan, but must be finite"),
        ({"t_end": 1.0}, ValueError, r"dt is None, but must be the time of one step for a step that takes no dt"),
        ({"t_end": 1.0, "dt": 0.3}, ValueError, r"t_end is 1\.0, but must be t0 plus a whole number of steps of dt = "
         r"0\.3 for a step that takes no dt; pass dt=0\.33"),
        ({"t_end": 0.1, "dt": 0.3}, ValueError, r".*pass dt=0\.1 or such a t_end"),
        ({"steps": 1, "t0": np.inf}, ValueError, r"t0 is inf, but must be finite"),
        ({"steps": 1, "save_every": 0}, ValueError, r"save_every is 0, but must be at least 1"),
        ({"steps": 1, "save_every": "a"}, TypeError, r"save_every is 'a', but must be an integer"),
        ({"steps": 1, "save_every": 0.5}, ValueError, r"save_every is a time, 0\.5, but must be a number of steps "
         r"\(int\) without a dt"),
        ({"steps": 1, "dt": 0.2, "save_every": 0.5}, ValueError, r"save_every is a time, 0\.5, but must be a whole "
         r"number of steps of dt = 0\.2; pass 0\.4"),
        ({"steps": 1, "dt": 0.2, "save_every": 0.05}, ValueError, r".*steps of dt = 0\.2; pass 0\.2"),
        ({"steps": 1, "dt": 0.2, "save_every": -0.2}, ValueError, r"save_every is -0\.2, but must be positive"),
        ({"steps": 1, "save_to": "x.zarr"}, ValueError, r"save_every is None, but must say how often"),
        ({"steps": 1, "callback_every": 0}, ValueError, r"callback_every is 0, but must be at least 1"),
        ({"steps": 1, "check_every": 0}, ValueError, r"check_every is 0, but must be at least 1"),
        ({"steps": 1, "checkpoint": "c", "checkpoint_every": 0}, ValueError, r"checkpoint_every is 0, but must be at"),
        ({"steps": 1, "checkpoint_every": 3}, ValueError, r"checkpoint_every is 3, but must be None without"),
        ({"steps": 1, "resume": True}, ValueError, r"checkpoint is None, but must be the path to resume from"),
        ({"steps": 1, "fuse": True}, ValueError, r"fuse is True, but must be False or None for a step without a "
         r"keyword named steps"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^solve: {message}"):
        solve(halve, np.ones(2), **arguments)


def test_step_must_be_callable():
    with pytest.raises(TypeError, match=r"^solve: step is a int, but must be a callable u -> u_next$"):
        solve(3, np.ones(2), steps=1)


@pytest.mark.parametrize("u0", ["text", None], ids=["str", "None"])
def test_start_must_be_an_array(u0):
    with pytest.raises(TypeError, match=r"^solve: u0 is a (str|NoneType), but must be an array$"):
        solve(halve, u0, steps=1)


def test_start_must_hold_numbers():
    with pytest.raises(TypeError, match=r"^solve: u0 has dtype object"):
        solve(halve, np.array([None]), steps=1)


def test_fused_foreign_step_must_not_bind_steps():
    with pytest.raises(ValueError, match=r"^solve: step has steps=4 bound, but must leave steps to solve"):
        solve(functools.partial(relax_many, steps=4), np.ones(1), steps=1, fuse=True)


def test_step_own_dt_must_be_positive():
    with pytest.raises(ValueError, match=r"^solve: the step's dt is -1\.0, but must be positive$"):
        solve(functools.partial(relax, dt=-1.0), np.ones(1), steps=1)


def test_unknown_stable_dt():
    with pytest.raises(
        ValueError, match=r"^solve: dt is None, but must be given for this step, which has no attribute "
    ):
        solve(relax, np.ones(1), t_end=1.0)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_wrong_stable_dt(value):
    step = functools.partial(stable_decay)
    step.stable_dt = lambda u: value
    with pytest.raises(ValueError, match=rf"^solve: the step's stable_dt is {value}, but must be positive; pass dt$"):
        solve(step, np.ones(1), t_end=1.0)


def test_infinite_stable_dt_needs_an_end():
    step = functools.partial(stable_decay)
    step.stable_dt = lambda u: np.inf
    with pytest.raises(ValueError, match=r"^solve: dt is None and any is stable \(inf\), but must then be given$"):
        solve(step, np.ones(1), steps=2)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (lambda u: None, TypeError, r"step returned a NoneType, but must return an array like u0"),
        (lambda u: [1.0, 2.0], TypeError, r"step returned a list, but must return an array like u0"),
        (lambda u: u[:1], ValueError, r"step returned shape \(1,\) and dtype float64, but must keep u0's shape \(2,\) "
         r"and dtype float64; pass u0 as the step returns it"),
        (lambda u: u.astype(np.float32), ValueError, r"step returned shape \(2,\) and dtype float32, but must keep"),
    ],
    ids=["None", "list", "shape", "dtype"],
)  # fmt: skip
def test_wrong_results(step, error, message):
    with pytest.raises(error, match=f"^solve: {message}"):
        solve(step, np.ones(2), steps=1)


def test_result_of_another_library():
    torch = pytest.importorskip("torch")
    message = "^solve: step returned a torch array on cpu, but must return a numpy array on cpu like u0$"
    with pytest.raises(TypeError, match=message):
        solve(lambda u: torch.ones(2, dtype=torch.float64), np.ones(2), steps=1)


def test_wrong_kinds_are_refused_before_the_first_step(tmp_path):
    def never(u):
        raise AssertionError("no step may be taken")

    with pytest.raises(TypeError, match=r"^solve: callback is a str, but must be callable, callback\(n, t, u\)$"):
        solve(never, np.ones(3), steps=2, callback="print")
    with pytest.raises(TypeError, match=r"^solve: checkpoint is a int, but must be a path$"):
        solve(never, np.ones(3), steps=2, checkpoint=3)
    with pytest.raises(TypeError, match=r"^solve: save_to is a bytes, but must be a path$"):
        solve(never, np.ones(3), steps=2, save_every=1, save_to=b"x")
