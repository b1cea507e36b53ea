"""The one path from the caller's arrays to a plan's executor and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from spectralops import _arrays, _checks, _interchange, _support, _threads, _ways
from spectralops._sixteen_bits import bits, rounded, widened
from spectralops._support import BACKENDS, Plan, passed
from spectralops.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["execute", "observe", "observed", "run"]

# Called as observer(plan, native_arrays, native_result) after each execution; debug() and explain() set it.
_observer: ContextVar[Callable[[Any, tuple[Any, ...], Any], None] | None] = ContextVar(
    "spectralops_observer", default=None
)


@contextmanager
def observe(observer: Callable[[Any, tuple[Any, ...], Any], None]) -> Iterator[None]:
    """Report every execution in this context to `observer`, and to the observers of enclosing contexts."""
    outer = _observer.get()

    def both(plan: Any, arrays: tuple[Any, ...], result: Any) -> None:
        observer(plan, arrays, result)
        if outer is not None:
            outer(plan, arrays, result)

    token = _observer.set(both)
    try:
        yield
    finally:
        _observer.reset(token)


def observed() -> bool:
    """Whether executions are reported in this context."""
    return _observer.get() is not None


def execute(plan: Plan, arrays: tuple[Any, ...], *, out: Any = None, workers: int | None = None) -> Any:
    """Run a plan on the caller's arrays: adopt, allocate, execute, give back.

    The executor is called as ``executor(plan, *native_arrays, out=native, workers=count)``. It finds inputs of any
    strides in the dtypes that the plan's operands name (16-bit only where its row of SUPPORT says `stored`, bfloat16
    then as its bits in integers) and must fill the C-contiguous `out` entirely.
    """
    op, operands = plan.op, plan.operands
    if plan.backend == "cuda":
        ways = _ways.kept.get(id(plan))
        if ways is not None and ways.last is not None and workers is None and _observer.get() is None:
            result = ways.last(arrays, out)
            if result is not None:
                return result
    elif (
        _interchange.ready(operands, arrays, plan.out_dtype)
        and BACKENDS[plan.backend] == "cpu"
        and (out is None or _interchange.takes(out, plan.out_shape, plan.out_dtype, arrays))
    ):
        return _run_ready(plan, arrays, out, _workers(plan, workers))
    if len(arrays) != len(operands):
        names = ", ".join(operand.name for operand in operands)
        raise TypeError(f"{op}: {len(arrays)} arrays were passed, but must be {len(operands)}: {names}")
    home: _arrays.Home | None = None
    for operand, x in zip(operands, arrays, strict=True):
        where, found = _arrays.describe(op, operand.name, x)
        spec = operand.spec
        if found.dtype != spec.dtype or found.shape != spec.shape:
            raise ValueError(
                f"{op}: {operand.name} has shape {found.shape} and dtype {found.dtype}, "
                f"but must have shape {spec.shape} and dtype {spec.dtype} as planned"
            )
        if home is None:
            home = where
        elif where is not home:
            _arrays.common_home(op, {operands[0].name: home, operand.name: where})
    assert home is not None
    if home.kind != BACKENDS[plan.backend]:
        raise TypeError(
            f"{op}: the plan is for {BACKENDS[plan.backend]} arrays, but the first one is a {home}; "
            "plan it for that device"
        )
    return run(plan, arrays, home, out, workers)


def _workers(plan: Plan, allowed: int | None, kind: str = "cpu") -> int:
    """As many of the caller's threads as compiled executors can keep busy; others get what was asked for."""
    if allowed is None:
        return 1
    count = _checks.workers(plan.op, allowed, kind)
    if count == 1 or plan.backend != "cpu":
        return count
    return _threads.worthwhile(count, plan.flops, plan.bytes_moved)


def run(plan: Plan, arrays: tuple[Any, ...], home: _arrays.Home, out: Any = None, workers: int | None = None) -> Any:
    """Execute a plan on arrays that are known to fit it."""
    threads = _workers(plan, workers, home.kind)
    if home.device == "cpu":
        return _run(plan, arrays, home, out, threads)
    if plan.backend != "cuda" and _interchange.capturing(home):
        raise UnsupportedError(
            f"{plan.op}: backend is {plan.backend!r}, but must be 'cuda' while a CUDA graph is captured; "
            "explain() says why there is no kernel"
        )
    if _observer.get() is None and (result := _ways.run(plan, arrays, home, out)) is not None:
        if out is not None:
            _interchange.wrote(out, home)
        return result
    with _interchange.on_device(home):
        if out is None and _interchange.brings_memory(home):
            return _run_in_own_memory(plan, arrays)
        return _run(plan, arrays, home, out, threads)


def _run_in_own_memory(plan: Plan, arrays: tuple[Any, ...]) -> Any:
    """Execute a plan where the result is allocated by the caller's library."""
    dtypes, kind = passed(plan)
    native = tuple([_interchange.own_memory(x, dtype) for dtype, x in zip(dtypes, arrays, strict=True)])
    result = _interchange.own_result(plan.out_shape, kind)
    target = _interchange.own_memory(result)
    _call(plan, native, target, 1)
    return rounded(result, plan.out_dtype)


def _run_ready(plan: Plan, arrays: tuple[Any, ...], out: Any, threads: int) -> Any:
    """Execute a plan on arrays that need no adopting and whose library needs no giving back: the quickest way."""
    result = _interchange.empty(plan.out_shape, plan.out_dtype, _arrays.HOST) if out is None else out
    _call(plan, arrays, result, threads)
    return result


def _run(plan: Plan, arrays: tuple[Any, ...], home: _arrays.Home, out: Any, threads: int) -> Any:
    """Execute a plan on arrays that fit it, on the current device and stream."""
    out_dtype = plan.out_dtype
    dtypes, kind = passed(plan)
    native = tuple([_interchange.adopt(x, dtype, home) for dtype, x in zip(dtypes, arrays, strict=True)])
    target = None if out is None else _target(plan, arrays, out, home)
    direct = target is not None and kind == out_dtype and _interchange.behaves(target)
    if direct:
        result = bits(target)
    else:
        result = _interchange.empty(plan.out_shape, kind, home)
    _call(plan, native, result, threads)
    if out is None:
        return _interchange.give_back(result, out_dtype, home)
    if not direct:
        _interchange.store(result, out, target if kind != out_dtype else bits(target), home)
    _interchange.wrote(out, home)
    return out


def _call(plan: Plan, native: tuple[Any, ...], result: Any, threads: int) -> None:
    """Call the executor of a plan, then whoever observes."""
    _support.executor(plan.op, plan.backend)(plan, *native, out=result, workers=threads)
    observer = _observer.get()
    if observer is not None:
        seen = [widened(x, each.spec.dtype) for x, each in zip(native, plan.operands, strict=True)]
        observer(plan, tuple(seen), widened(result, plan.out_dtype))


def _target(plan: Plan, arrays: tuple[Any, ...], out: Any, home: _arrays.Home) -> Any:
    """Native view of `out` after checking that the result fits into it."""
    op = plan.op
    out_home, spec = _arrays.describe(op, "out", out)
    if _arrays.library_of(out) is None or not hasattr(out, "__setitem__"):
        raise TypeError(f"{op}: out is a {type(out).__name__}, but must be an array")
    if out_home != home:
        raise TypeError(f"{op}: out is a {out_home}, but must be a {home} like the input")
    if spec != _arrays.ArraySpec(plan.out_shape, plan.out_dtype):
        raise ValueError(
            f"{op}: out has shape {spec.shape} and dtype {spec.dtype}, "
            f"but must have shape {plan.out_shape} and dtype {plan.out_dtype}"
        )
    target = _interchange.adopt_out(op, out, home)
    inputs = arrays[1:] if plan.in_place else arrays
    if any(_interchange.overlap(target, _interchange.memory(x, home)) for x in inputs):
        raise ValueError(f"{op}: out overlaps an input in memory, but must not; pass a separate array")
    return target
