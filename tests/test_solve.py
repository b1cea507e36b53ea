"""The time loop: what it passes to the step, when it stops, what it saves and shows."""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from libraries import library
from stepping import LIBRARIES, Recording, halve, relax, relax_many, relax_out, rotate

from spectralops import Solution, solve


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
