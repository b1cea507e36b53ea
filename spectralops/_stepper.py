"""Calling a user's step function many times: its keywords, alternating buffers, the search for the first bad step."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, _checks, _interchange
from spectralops.errors import DivergedError

__all__ = ["Clock", "March", "Stepper", "digest_of", "function_of", "host", "identity"]

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Clock:
    """Times of the steps: `full` steps of `dt` from `t0`, then one shortened step where `remainder` is not zero.

    `dt` is None where nobody names one; the time is then the number of the step.
    """

    t0: float
    dt: float | None
    full: int
    remainder: float = 0.0
    t_end: float | None = None

    @property
    def total(self) -> int:
        return self.full + (self.remainder > 0)

    def time(self, n: int) -> float:
        """Time after `n` steps: `t0 + n*dt`, never a running sum; the end is exactly `t_end`."""
        if n == self.total and self.t_end is not None:
            return self.t_end
        return self.t0 + n * (1.0 if self.dt is None else self.dt)

    def step_size(self, n: int) -> float | None:
        """Time step that leads away from step `n`."""
        return self.remainder if n >= self.full else self.dt


class Stepper:
    """A step function and what its signature says: whether it takes `dt`, `t`, `steps` and `out`."""

    def __init__(self, step: Callable[..., Any], fuse: bool | None) -> None:
        if not callable(step):
            raise TypeError(f"solve: step is a {type(step).__name__}, but must be a callable u -> u_next")
        if fuse is not None:
            fuse = _checks.flag("solve", "fuse", fuse)
        self.step = step
        defaults = _keywords(step)
        self.takes_dt = "dt" in defaults
        self.requires_dt = defaults.get("dt") is REQUIRED
        own = None if self.requires_dt else defaults.get("dt")
        self.own_dt = None if own is None else _checks.positive("solve", "the step's dt", own)
        self.takes_t = defaults.get("t") is REQUIRED
        self.takes_out = "out" in defaults and defaults["out"] is None
        self.fused = _fused(step, defaults, fuse)
        self.in_place = False

    def __call__(self, u: Any, count: int, t: float, dt: float | None, out: Any) -> Any:
        """The state `count` steps after `u`; `count` is 1 unless the step is fused."""
        keywords: dict[str, Any] = {}
        if self.takes_dt and dt != self.own_dt:
            keywords["dt"] = dt
        if self.takes_t:
            keywords["t"] = t
        if self.fused:
            keywords["steps"] = count
        if out is not None:
            keywords["out"] = out
        return _checks.called("solve", "step", self.step, "the state as its first argument", u, **keywords)


def _keywords(step: Callable[..., Any]) -> dict[str, Any]:
    """Defaults of all parameters after the state that can be passed by keyword, `REQUIRED` where there is none."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):  # callables written in C need not have a signature
        return {}
    return {p.name: p.default for p in parameters[1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def function_of(step: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """The function under any :class:`functools.partial`, and the keywords bound on the way (partials are flat)."""
    if isinstance(step, functools.partial):
        return step.func, dict(step.keywords)
    return step, {}


def is_ours(function: Any) -> bool:
    """Whether a function belongs to this package, whose `steps`, `dt` and `out` are known to mean what they say."""
    return str(getattr(function, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]


def _fused(step: Callable[..., Any], defaults: dict[str, Any], fuse: bool | None) -> bool:
    ours = is_ours(function_of(step)[0])
    if "steps" not in defaults:
        if fuse:
            raise ValueError("solve: fuse is True, but must be False or None for a step without a keyword named steps")
        return False
    if (ours or fuse) and defaults["steps"] not in (1, REQUIRED):
        raise ValueError(
            f"solve: step has steps={_checks.shown(defaults['steps'])} bound, but must leave steps to solve; "
            "ask solve for fewer events (save_every, callback_every, check_every) to advance many steps a call"
        )
    return ours if fuse is None else fuse


def identity(step: Callable[..., Any]) -> str:
    """Text that is equal for equal steps, also in another process: names and values, array contents as digests."""
    function, keywords = function_of(step)
    bound = ", ".join(f"{name}={_token(value)}" for name, value in sorted(keywords.items()))
    return f"{_token(function)}({bound})"


def _token(value: Any) -> str:
    if _arrays.is_array(value):
        where, spec = _arrays.describe("solve", "an array bound in step", value)
        digest = digest_of(host(value, spec.dtype, where))
        return f"{spec.dtype}{list(spec.shape)}:{digest}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_token(k)}: {_token(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "(" + ", ".join(_token(v) for v in value) + ")"
    if isinstance(value, functools.partial):
        return identity(value)
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{value.__module__}.{name}"
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text  # a memory address differs in each process


def host(x: Any, dtype: str, home: _arrays.Home) -> np.ndarray[Any, Any]:
    """NumPy array of the values of `x` (16-bit floats as float32, which loses nothing); a view where it can be."""
    with _interchange.on_device(home):
        native = _interchange.adopt(x, _checks.compute_dtype(dtype), home)
        return native if isinstance(native, np.ndarray) else native.get()


def digest_of(values: np.ndarray[Any, Any]) -> str:
    """Short digest of the values of an array, whatever its memory layout."""
    import hashlib  # loads OpenSSL, which import spectralops must not wait for

    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


class March:
    """Advances a state block by block with at most three buffers of its own, and never writes into anyone else's."""

    def __init__(self, stepper: Stepper, clock: Clock, u0: Any) -> None:
        self.stepper = stepper
        self.clock = clock
        self.xp = compat.array_namespace(u0)
        self.home, self.spec = _arrays.describe("solve", "u0", u0)
        self.allowed = self.nonfinite(u0)
        self.writable = self.home.library != "jax"
        self.pool: list[Any] = []
        self.first = True

    def copy(self, u: Any) -> Any:
        return self.xp.asarray(u, copy=True)

    def nonfinite(self, u: Any) -> int:
        """Number of NaN and infinite values. One sum answers the usual case without a temporary array."""
        if self.spec.dtype in _checks.EXACT:
            return 0
        xp = self.xp
        with np.errstate(all="ignore"):
            if bool(xp.isfinite(xp.sum(u))):
                return 0
        return int(xp.sum(xp.astype(~xp.isfinite(u), xp.int32)))

    def block(self, u: Any, n: int, last: int) -> Any:
        """The state at step `last` from `u` at step `n`; all steps of a block have the same size.

        Raises
        ------
        DivergedError
            If it has more non-finite values than u0 had, with the first step of which that is true.
        """
        good = u
        if self.first or self.stepper.in_place:  # a step that works in place is known only once it has been called
            u = self.copy(u)
            self.first = False
        u = self._advance(u, n, last, good)
        count = self.nonfinite(u)
        if count > self.allowed:
            self._raise_diverged(good, n, last, count)
        return u

    def keep(self, u: Any) -> None:
        """Never write into `u` again: someone else may hold it."""
        self.pool = [buffer for buffer in self.pool if buffer is not u]

    def _advance(self, u: Any, n: int, last: int, good: Any) -> Any:
        stride = last - n if self.stepper.fused else 1
        for k in range(n, last, stride):
            out = self._buffer(u, good) if self.stepper.takes_out and self.writable else None
            result = self._call(u, k, stride, out)
            if result is u:
                self.stepper.in_place = True
            if out is not None and result is not out:  # it may be a view of the buffer, so nothing may be reused
                self.stepper.takes_out = False
                self.pool.clear()
            u = result
        return u

    def _call(self, u: Any, k: int, count: int, out: Any) -> Any:
        result = self.stepper(u, count, self.clock.time(k), self.clock.step_size(k), out)
        if out is None or result is not out:
            self._verify(result)
        return result

    def _verify(self, result: Any) -> None:
        if not isinstance(getattr(result, "shape", None), tuple):
            raise TypeError(f"solve: step returned a {type(result).__name__}, but must return an array like u0")
        home, spec = _arrays.describe("solve", "the result of step", result)
        if home != self.home:
            raise TypeError(f"solve: step returned a {home}, but must return a {self.home} like u0")
        if spec != self.spec:
            raise ValueError(
                f"solve: step returned shape {spec.shape} and dtype {spec.dtype}, but must keep u0's shape "
                f"{self.spec.shape} and dtype {self.spec.dtype}; pass u0 as the step returns it"
            )

    def _buffer(self, *busy: Any) -> Any:
        for buffer in self.pool:
            if all(buffer is not array for array in busy):
                return buffer
        like = busy[0]
        self.pool.append(self.xp.empty(self.spec.shape, dtype=like.dtype, device=compat.device(like)))
        return self.pool[-1]

    def _raise_diverged(self, good: Any, n: int, last: int, count: int) -> None:
        """Run the block again one step at a time, since only its end is known to be bad, with `count` such values."""
        u, bad = self.copy(good), last
        for k in range(n, last):
            u = self._call(u, k, 1, None)
            found = self.nonfinite(u)
            if found > self.allowed:
                bad, count = k + 1, found
                break
        had = f"{self.allowed} as in u0" if self.allowed else "0"
        raise DivergedError(
            f"solve: u has {count} NaN or infinite values after step {bad} (t = {self.clock.time(bad):.6g}), "
            f"but must have {had}; lower dt",
            bad,
        )
