"""The time loop: many steps of any step function, with snapshots, checkpoints and a stop at the first bad value."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, _checks, _dispatch, _storage
from spectralops._plans.field_stability import plan_stable_dt
from spectralops._plans.steps import StepPlan
from spectralops._stepper import Clock, March, Stepper, digest_of, function_of, host, identity

__all__ = ["Solution", "solve"]

# A dt so small that a trial step is stable, and a power of two, so that it divides out exactly.
TRIAL_DT = 2.0**-100
# Share of the largest stable dt that solve takes when it picks dt itself.
SAFETY = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What :func:`solve` returns.

    Attributes
    ----------
    u : array
        The last state, in the library, dtype and device of u0.
    t : float
        Its time.
    steps : int
        Number of steps from `t0` to `t`, those before a resumed checkpoint included.
    dt : float or None
        The time step; None where neither the caller nor the step names one, and time counts steps.
    times : numpy.ndarray
        Times of the snapshots, float64, on the host; empty without `save_every`.
    snapshots : array, pathlib.Path or None
        The states at `times` along a new first axis, in the library of u0; the path where `save_to` took them;
        None without `save_every`.
    """

    u: Any
    t: float
    steps: int
    dt: float | None
    times: np.ndarray[Any, Any]
    snapshots: Any


def solve(
    step: Callable[..., Any],
    u0: Any,
    /,
    *,
    steps: int | None = None,
    t_end: float | None = None,
    dt: float | None = None,
    t0: float = 0.0,
    save_every: int | float | None = None,
    save_to: str | Path | None = None,
    callback: Callable[[int, float, Any], Any] | None = None,
    callback_every: int = 1,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    check_every: int | None = 64,
    fuse: bool | None = None,
) -> Solution:
    r"""Apply a step function many times: u_{n+1} = step(u_n), t_n = t0 + n dt.

    `step` is any callable that takes the state and returns the next one: a lambda, a :func:`functools.partial` of
    a step of this package, a plan, a method. What else it is given follows from its signature alone:

    ==========  =======================================  ========================================================
    parameter   when                                     what `solve` passes
    ==========  =======================================  ========================================================
    ``dt``      it has one, with or without default      the time step, where it is not the default already
    ``t``       it has one without a default             the time at the start of the step
    ``out``     its default is None                      a buffer to write into: two or three alternate
    ``steps``   `fuse` (see there)                       how many steps to advance in this one call
    ==========  =======================================  ========================================================

    Parameters
    ----------
    step : callable
        ``step(u, ...) -> u_next``, of the same shape, dtype and library. It may work in place and return its argument.
    u0 : array
        The initial state, of any shape, dtype and library. Never modified.
    steps : int, optional
        Number of steps. Exactly one of `steps` and `t_end` is given.
    t_end : float, optional
        Time to stop at, reached exactly: where it is no whole number of steps away, a last shortened step leads
        there, for which `step` must take `dt`.
    dt : float, optional
        Time step. Left out: the step's own default (or the one bound by ``partial``); else, for a step that takes
        `dt`, 0.9 of the largest stable one, lowered until it divides the time to `t_end` (and the interval of
        `save_every`) evenly. What is stable for u0 is asked once: of ``step.stable_dt(u0)`` where the callable has such
        an attribute (given what ``partial`` binds, if it is the function's own), else of the steps of this package that
        it runs, watched in one trial call with a tiny dt.
    t0 : float
        Time of u0.
    save_every : int or float, optional
        Take a snapshot of u0 and then every so many steps (int) or every so much time (float, a whole number of
        steps). The shortened last step is never one.
    save_to : path, optional
        Write the snapshots to this new ``.zarr`` or ``.nc`` instead of keeping them in memory: variables ``u``,
        ``time`` and ``step`` along ``time``, 16-bit floats as float32. Needs zarr or h5netcdf.
    callback : callable, optional
        Called as ``callback(step, t, u)`` every `callback_every` steps and after the last. Returning True stops the
        run. `u` is the state itself: it may be kept, since it is never written again, but must not be modified.
    callback_every : int
        Steps between calls of `callback`.
    progress : bool
        Show a progress bar. Needs tqdm.
    checkpoint : path, optional
        Save state and step number to this file, atomically, every `checkpoint_every` steps and after the last
        whole step or a stop by `callback`.
    checkpoint_every : int, optional
        Steps between checkpoints; left out, a tenth of the run.
    resume : bool
        Go on from `checkpoint` if the file exists, bit for bit as if the run had never stopped, and from u0 if not.
        Snapshots in memory then begin at that step; `save_to` goes on in its file.
    check_every : int or None
        Look for NaN and infinity at least every so many steps, and before every snapshot, checkpoint and callback.
        Each look reads the state once (and waits for the GPU). None: only at the latter and at the end.
    fuse : bool, optional
        Advance many steps in one call by the step's keyword ``steps``, up to the next event. None: for steps of
        this package, which are known to give the same bits either way, except that a 16-bit state is rounded at events
        alone, not at every step. True: for your own function too, stating that ``step(u, steps=k)`` equals k calls.

    Returns
    -------
    Solution
        The last state, its time and step number, and the snapshots.

    Raises
    ------
    DivergedError
        If a step makes more values NaN or infinite than u0 had; its attribute `step` is the first such step, found by
        repeating the steps since the last look one by one.
    TypeError
        If `step` is not callable, u0 is no array, or `step` returns something else than an array of u0's library.
    ValueError
        If an argument has a wrong value; if neither or both of `steps` and `t_end` are given; if no dt is known; if
        t_end or save_every is no whole number of steps and cannot be; if `step` changes shape or dtype; if the
        checkpoint is of another run (shape, dtype, u0, t0, dt or step).
    FileExistsError
        If `checkpoint` or `save_to` exists and `resume` is False.
    ImportError
        If `save_to` or `progress` needs a package that is not installed; the message names the pip command.

    Notes
    -----
    Memory: beside u0, the snapshots and the step's own, at most four arrays of u0's size, however long the run.
    Nothing leaves the device but what `save_to` and `checkpoint` write. A step that hides state of its own (random
    numbers, counters) resumes from its own beginning, and its first bad step may not be found again.

    Examples
    --------
    >>> from spectralops import solve
    >>> decay = lambda u, dt: u - dt * u
    >>> solution = solve(decay, [1.0, 2.0], t_end=1.0, dt=0.25, save_every=2)
    >>> solution.u
    array([0.31640625, 0.6328125 ])
    >>> solution.times, solution.snapshots.shape
    (array([0. , 0.5, 1. ]), (3, 2))
    """
    progress, resume = _checks.flag("solve", "progress", progress), _checks.flag("solve", "resume", resume)
    stepper = Stepper(step, fuse)
    home, spec = _arrays.describe("solve", "u0", u0)
    _checks.dtype("solve", spec.dtype, "u0")
    if home.library == "numpy":
        u0 = np.asarray(u0)
    if callback is not None and not callable(callback):
        raise TypeError(f"solve: callback is a {type(callback).__name__}, but must be callable, callback(n, t, u)")
    for name, file in (("checkpoint", checkpoint), ("save_to", save_to)):
        if not isinstance(file, str | PathLike | None):
            raise TypeError(f"solve: {name} is a {type(file).__name__}, but must be a path")
    clock = clock_of(stepper, u0, steps, t_end, dt, _checks.number("solve", "t0", t0), save_every)
    save_steps = save_steps_of(save_every, clock)
    callback_steps = _count("callback_every", callback_every)
    checkpoint_steps = _checkpoint_steps(checkpoint, checkpoint_every, clock)
    if save_to is not None and save_steps is None:
        raise ValueError("solve: save_every is None, but must say how often to write to save_to")
    if resume and checkpoint is None:
        raise ValueError("solve: checkpoint is None, but must be the path to resume from")
    events = [
        every
        for every in (
            save_steps,
            None if callback is None else callback_steps,
            checkpoint_steps,
            None if check_every is None else _count("check_every", check_every),
            max(1, clock.total // 100) if progress else None,
        )
        if every is not None
    ]
    march = March(stepper, clock, u0)
    u, n = u0, 0
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        run = {"shape": list(spec.shape), "dtype": spec.dtype, "t0": clock.t0, "dt": clock.dt}
        run |= {"u0": digest_of(host(u0, spec.dtype, home)), "step": identity(step)}
        if path.exists():
            u, n = _resumed(path, run, home, clock, resume)

    with ExitStack() as stack:
        record = None
        if save_steps is not None:
            target = None if save_to is None else Path(save_to)
            record = _storage.recorder(target, u0, spec, home, clock.full // save_steps + 1, n, resume)
            stack.callback(record.close)
            if n % save_steps == 0 and record.last_step() < n:
                record.append(n, clock.time(n), u)
        bar = stack.enter_context(_progress_bar(clock.total, n)) if progress else None
        stop = False
        while n < clock.total and not stop:
            last = _next_event(n, events, clock)
            u = march.block(u, n, last)
            if bar is not None:
                bar.update(last - n)
            n = last
            whole = n <= clock.full
            if record is not None and save_steps is not None and whole and n % save_steps == 0:
                record.append(n, clock.time(n), u)
            if callback is not None and (n % callback_steps == 0 or n == clock.total):
                march.keep(u)
                stop = bool(_checks.called("solve", "callback", callback, "(step, t, u)", n, clock.time(n), u))
            if (
                path is not None
                and checkpoint_steps is not None
                and whole
                and (n % checkpoint_steps == 0 or n == clock.full or stop)
            ):
                _storage.save_checkpoint(path, u, n, run, home)
        times = np.array([] if record is None else record.times)
        snapshots = None if record is None else record.snapshots()
    return Solution(march.copy(u) if u is u0 else u, clock.time(n), n, clock.dt, times, snapshots)


def clock_of(
    stepper: Stepper,
    u0: Any,
    steps: int | None,
    t_end: float | None,
    dt: float | None,
    t0: float,
    save_every: float | None,
) -> Clock:
    """The times of a run, from the arguments that say how long it is and how long its steps are."""
    if (steps is None) == (t_end is None):
        raise ValueError(
            f"solve: steps is {_checks.shown(steps)} and t_end is {_checks.shown(t_end)}, "
            "but exactly one of them must be given"
        )
    end = None if t_end is None else _checks.number("solve", "t_end", t_end)
    span = None if end is None else end - t0
    if span is not None and span < 0:
        raise ValueError(f"solve: t_end is {end}, but must not be before t0 = {t0}")
    size = stepper.own_dt if dt is None else _checks.positive("solve", "dt", dt)
    if size is None and (stepper.requires_dt or span is not None):
        by_time = isinstance(save_every, float | np.floating)
        size = _pick_dt(stepper, u0, t0, _checks.positive("solve", "save_every", save_every) if by_time else span)
    if span is None:
        return Clock(t0, size, _count("steps", steps, least=0))
    assert size is not None
    assert end is not None
    ratio = span / size
    if not ratio <= _checks.MOST_STEPS:
        raise ValueError(f"solve: t_end is {ratio:.3g} steps of dt = {size} away, but must be at most 2**53")
    full = round(ratio)
    if abs(ratio - full) <= 8 * np.finfo(float).eps * max(ratio, abs(t0) / size, abs(end) / size, 1.0):  # rounding
        return Clock(t0, size, full, t_end=end)
    full = math.floor(ratio)
    if not stepper.takes_dt:
        raise ValueError(
            f"solve: t_end is {end}, but must be t0 plus a whole number of steps of dt = {size} for a step that "
            f"takes no dt; pass dt={span / max(full, 1)!r} or such a t_end"
        )
    return Clock(t0, size, full, span - full * size, end)


def _pick_dt(stepper: Stepper, u0: Any, t0: float, whole: float | None) -> float:
    """Stable time step, of which the time `whole` takes a whole number."""
    if not stepper.takes_dt:
        raise ValueError("solve: dt is None, but must be the time of one step for a step that takes no dt")
    bound = _stable_dt(stepper, u0, t0)
    if whole:
        return whole / max(1, math.ceil(whole / (SAFETY * bound) - 1e-9))
    if not math.isfinite(bound):
        raise ValueError(f"solve: dt is None and any is stable ({bound}), but must then be given")
    return SAFETY * bound


def _stable_dt(stepper: Stepper, u0: Any, t0: float) -> float:
    """Largest stable dt as the step says, or as the plans of this package say that it runs."""
    step = stepper.step
    function, bound = function_of(step)
    if hasattr(step, "stable_dt"):
        largest = float(step.stable_dt(u0))
    elif hasattr(function, "stable_dt"):
        largest = float(function.stable_dt(u0, **bound))
    else:
        largest = _trial(stepper, u0, t0)
    if not largest > 0:
        raise ValueError(f"solve: the step's stable_dt is {largest}, but must be positive; pass dt")
    return largest


def _trial(stepper: Stepper, u0: Any, t0: float) -> float:
    """Largest stable dt of the steps of this package that one call runs, found by calling it with a tiny dt."""
    bounds = []

    def observer(plan: Any, arrays: tuple[Any, ...], result: Any) -> None:
        if isinstance(plan, StepPlan):
            bounds.append(plan_stable_dt(plan, arrays) * (TRIAL_DT / plan.dt))

    with _dispatch.observe(observer):
        stepper(compat.array_namespace(u0).asarray(u0, copy=True), 1, t0, TRIAL_DT, None)
    if not bounds:
        raise ValueError(
            "solve: dt is None, but must be given for this step, which has no attribute stable_dt and runs no step of "
            "spectralops; pass dt, or set step.stable_dt to a function of u0"
        )
    return min(bounds)


def _count(name: str, value: Any, least: int = 1) -> int:
    return _checks.integer("solve", name, value, least, _checks.MOST_STEPS)


def save_steps_of(save_every: Any, clock: Clock) -> int | None:
    """Steps between snapshots, from a number of steps (int) or a time (float)."""
    if save_every is None:
        return None
    if not isinstance(save_every, float | np.floating):
        return _count("save_every", save_every)
    interval = _checks.positive("solve", "save_every", save_every)
    if clock.dt is None:
        raise ValueError(f"solve: save_every is a time, {interval}, but must be a number of steps (int) without a dt")
    count = round(min(interval / clock.dt, 1e300))
    if count < 1 or abs(count * clock.dt - interval) > 1e-9 * interval:
        raise ValueError(
            f"solve: save_every is a time, {interval}, but must be a whole number of steps of dt = {clock.dt}; "
            f"pass {max(count, 1) * clock.dt!r}"
        )
    return count


def _checkpoint_steps(checkpoint: str | Path | None, every: int | None, clock: Clock) -> int | None:
    if checkpoint is None:
        if every is not None:
            given = _checks.shown(every)
            raise ValueError(f"solve: checkpoint_every is {given}, but must be None without a checkpoint path")
        return None
    return max(1, -(-clock.total // 10)) if every is None else _count("checkpoint_every", every)


def _resumed(path: Path, run: dict[str, Any], home: _arrays.Home, clock: Clock, resume: bool) -> tuple[Any, int]:
    if not resume:
        raise FileExistsError(f"solve: checkpoint {str(path)!r} exists, but must not; delete it or pass resume=True")
    u, n = _storage.load_checkpoint(path, run, home)
    if n > clock.full:
        raise ValueError(f"solve: checkpoint {str(path)!r} is at step {n}, but must be at most at step {clock.full}")
    return u, n


def _next_event(n: int, events: list[int], clock: Clock) -> int:
    """The step after `n` at which something is due; the shortened step is a block of its own."""
    if n >= clock.full:
        return clock.total
    return min([clock.full, *((n // every + 1) * every for every in events)])


def _progress_bar(total: int, initial: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("solve: progress is True, which needs tqdm; pip install tqdm") from error
    return tqdm(total=total, initial=initial, unit="step")
