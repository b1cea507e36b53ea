"""Steps chosen for stability, and every bad argument of the time loop with its message."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from stepping import halve, relax, relax_many

from spectralops import solve


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
