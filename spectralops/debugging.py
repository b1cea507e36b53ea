"""Seeing what runs: `debug()` compares every call with the reference, `explain()` lists the plans of a call."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectralops import _checks, _dispatch, _interchange, _support
from spectralops._plans.field_stability import depends_on_data, plan_stable_dt
from spectralops._plans.steps import StepPlan
from spectralops.errors import MismatchError, StabilityError

__all__ = ["DebugReport", "Explanation", "debug", "explain"]

# Relative L2 error against the 64-bit reference: FFT errors grow with log2 of the size, stencils with the steps.
EPS = {"float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52, "complex128": 2.0**-52}
FFT_FACTOR = 1.0
STENCIL_FACTOR = 4.0
LOCAL = (*_support.STEPS, *_support.STENCILS, "diffusion_filter")
# Where the reference itself moves this little under rounding of its inputs, an error of that size is no fault.
CONDITION_FACTOR = 8.0
# How far dt may lie above the bound by the rounding of float32 arrays.
STABILITY_SLACK = 1e-6
# Relative error of a result that its executor rounded to 16 bits.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
# Share of the bound for the L2 norm and for the largest value, since L2 alone hides one bad element.
NORM_FACTORS = np.array([1.0, 10.0])


@dataclass(slots=True)
class DebugReport:
    """What :func:`debug` has seen so far.

    Attributes
    ----------
    calls : int
        Operators run inside the context.
    compared : int
        Those compared with the reference.
    skipped : list of str
        Those that were not, each with its number, name and the reason.
    worst : float
        Largest error found, as a fraction of what is allowed.
    """

    calls: int = 0
    compared: int = 0
    skipped: list[str] = field(default_factory=list)
    worst: float = 0.0


@contextmanager
def debug(*, max_size: int = 2**16, stability: bool = True) -> Iterator[DebugReport]:
    """Check every operator that runs inside this context, and raise at the first that is wrong.

    Of each call, in this order:

    1. a step whose coefficients are data (Burgers, arrays) must be stable for the data it is given;
    2. its result must agree with the slow float64 reference of the same plan, within the tolerance of the tests:
       relative L2 error ≤ eps log₂N for transforms, 4 eps per step for stencils (more where the result is
       ill-conditioned, measured by perturbing the input), with NaN and infinity at the same places;
    3. its result must be finite if its inputs are.

    Parameters
    ----------
    max_size : int
        Largest number of points, times steps, for which the reference is run: it is thousands of times slower.
        Larger calls are not compared (checks 1 and 3 still hold); the report lists them, and a warning at the end
        counts them.
    stability : bool
        Whether check 1 is made; False for steps that are unstable on purpose.

    Yields
    ------
    DebugReport
        Counts, filled in as calls are made.

    Raises
    ------
    TypeError
        If `max_size` is no integer, or `stability` neither True nor False.
    ValueError
        If `max_size` is negative.
    MismatchError
        If a result disagrees with the reference. The message names the operator, its backend and the worst element.
    StabilityError
        If a step is beyond its stability bound for the values it is given.
    FloatingPointError
        If a result is not finite although the inputs are, and the reference agrees or was not run.

    Warns
    -----
    UserWarning
        At the end, if calls were not compared.

    Notes
    -----
    Every check waits for the device, and arrays on a GPU are copied to the host: here, and nowhere else in this
    package. A call whose `out` overwrote its own input cannot be compared and is listed in `skipped`. The context
    belongs to the thread (and asyncio task) that entered it: calls of other threads are not seen.

    Examples
    --------
    >>> from spectralops import debug, diffusion_step
    >>> with debug() as report:
    ...     u = diffusion_step([0.0, 1.0, 0.0], 1.0, 0.25, 1.0, steps=2)
    >>> report.calls, report.compared, report.skipped
    (1, 1, [])
    """
    max_size = _checks.integer("debug", "max_size", max_size, 0)
    stability = _checks.flag("debug", "stability", stability)
    report = DebugReport()

    def observer(plan: Any, arrays: tuple[Any, ...], result: Any) -> None:
        report.calls += 1
        if stability and isinstance(plan, StepPlan) and depends_on_data(plan):
            _check_stability(_where(report, plan), plan, arrays)
        _inspect(report, plan, arrays, result, max_size)

    with _dispatch.observe(observer):
        yield report
    if report.skipped:
        warnings.warn(
            f"debug: {len(report.skipped)} of {report.calls} calls were not compared with the reference: "
            f"{report.skipped[0]}" + (", …" if len(report.skipped) > 1 else ""),
            UserWarning,
            stacklevel=3,
        )


def _where(report: DebugReport, plan: Any) -> str:
    return f"debug: call {report.calls}, {plan.op} on backend {plan.backend!r}"


def _inspect(report: DebugReport, plan: Any, arrays: tuple[Any, ...], result: Any, max_size: int) -> None:
    where = _where(report, plan)
    overwritten = plan.in_place and any(_interchange.overlap(result, array) for array in arrays)
    size = max(math.prod(array.shape) for array in (*arrays, result)) * getattr(plan, "steps", 1)
    if plan.backend == "reference":
        pass
    elif overwritten:
        report.skipped.append(f"call {report.calls}, {plan.op}: out overwrote its input")
    elif size > max_size:
        report.skipped.append(f"call {report.calls}, {plan.op}: {size} points times steps > max_size={max_size}")
    else:
        _compare(report, where, plan, tuple(_host(array) for array in arrays), _host(result))
        report.compared += 1
    bad = _nonfinite(result)
    if bad and not overwritten and not any(_nonfinite(array) for array in arrays):
        raise FloatingPointError(
            f"{where}: the result has {bad} NaN or infinite values, but must be finite, as its inputs are"
        )


def _check_stability(where: str, plan: StepPlan, arrays: tuple[Any, ...]) -> None:
    bound = plan_stable_dt(plan, arrays)
    if plan.dt > bound * (1 + STABILITY_SLACK):
        raise StabilityError(
            f"{where}: dt is {plan.dt:.6g}, but must be at most {bound:.6g} to be stable for the values of its arrays",
            bound or None,
        )


def _nonfinite(array: Any) -> int:
    return int((~np.isfinite(array)).sum())  # NumPy's functions run CuPy's on CuPy arrays


def _host(array: Any) -> np.ndarray[Any, Any]:
    return array if isinstance(array, np.ndarray) else array.get()


def _compare(
    report: DebugReport, where: str, plan: Any, inputs: tuple[np.ndarray[Any, Any], ...], output: np.ndarray[Any, Any]
) -> None:
    """Raise unless `output` is the reference's result within the tolerance."""
    inputs = tuple(array.astype(_wide(array.dtype), copy=False) for array in inputs)
    expected = _reference(plan, inputs)
    eps = EPS[output.dtype.name]
    stored = _support.passed(plan)[1]
    with np.errstate(over="ignore"):  # what overflows the narrower type is rightly infinite
        rounded = expected.astype(np.float16 if stored == "float16" else output.dtype)
    finite = np.isfinite(rounded)
    if not np.array_equal(np.isfinite(output), finite):
        count = int(np.count_nonzero(np.isfinite(output) != finite))
        raise MismatchError(
            f"{where}: {count} values are finite in only one of result and reference, but must be so in both"
        )
    expected = np.where(finite, expected, 0)
    difference = np.abs(np.where(finite, output, 0) - expected)
    bound = _tolerance(plan, inputs, eps)
    error = _norms(difference)
    allowed = (bound * NORM_FACTORS + ROUNDING.get(stored, 0.0)) * _norms(expected)
    if np.any(error > allowed):
        moved = np.where(finite, _reference(plan, _perturbed(inputs, eps)), 0) - expected
        allowed = allowed + CONDITION_FACTOR * bound / eps * NORM_FACTORS * _norms(moved)
    report.worst = max(report.worst, *(float(e / a) for e, a in zip(error, allowed, strict=True) if a), 0.0)
    if np.any(error > allowed):
        worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(difference)), difference.shape))
        raise MismatchError(
            f"{where}: the L2 norm of the error against the reference is {error[0]:.3g}, but must be at most "
            f"{allowed[0]:.3g}; the worst element, {worst}, is {output[worst]:.9g} instead of {expected[worst]:.9g}"
        )


def _norms(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """L2 norm and largest absolute value."""
    magnitudes = np.abs(values).ravel()
    return np.array([float(np.linalg.norm(magnitudes)), float(np.max(magnitudes, initial=0.0))])


def _tolerance(plan: Any, inputs: tuple[np.ndarray[Any, Any], ...], eps: float) -> float:
    if plan.op in LOCAL:
        return STENCIL_FACTOR * eps * float(getattr(plan, "steps", 1))
    return FFT_FACTOR * eps * max(math.log2(max(inputs[0].size, 2)), 4.0)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype({"f": "float64", "c": "complex128"}.get(dtype.kind, dtype))


def _reference(plan: Any, inputs: tuple[np.ndarray[Any, Any], ...]) -> np.ndarray[Any, Any]:
    """Result of the same plan in 64 bits by the reference executor."""
    plan = _on_reference(plan)
    out = np.full(plan.out_shape, np.nan, _wide(np.dtype(_checks.compute_dtype(plan.out_dtype))))
    _support.executor(plan.op, "reference")(plan, *inputs, out=out, workers=1)
    return out


def _on_reference(plan: Any) -> Any:
    """The plan for the reference backend; steps keep their backend with the geometry."""
    if isinstance(plan, StepPlan):
        return dataclasses.replace(plan, geometry=dataclasses.replace(plan.geometry, backend="reference"))
    return dataclasses.replace(plan, backend="reference")


def _perturbed(inputs: tuple[np.ndarray[Any, Any], ...], eps: float) -> tuple[np.ndarray[Any, Any], ...]:
    """Inputs with rounding errors: relative to the RMS of the field, as transforms make them, and to other values."""
    rng = np.random.default_rng(0)
    result = []
    for index, array in enumerate(inputs):
        if array.dtype.kind not in "fc":
            result.append(array)
            continue
        magnitudes = np.abs(array)
        if index == 0:
            finite = magnitudes[np.isfinite(magnitudes)]
            magnitudes = np.full(array.shape, math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0)
        result.append(array + eps * magnitudes * rng.standard_normal(array.shape))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class ExplainedCall:
    """One plan of an :class:`Explanation`, and how many times in a row it ran."""

    plan: Any
    count: int = 1

    def __str__(self) -> str:
        times = f" × {self.count}" if self.count > 1 else ""
        head = f"{self.plan.op}{times} on backend {self.plan.backend!r}, moves {_size(self.plan.bytes_moved)}"
        return "\n".join([head, *(f"    {line}" for line in self.plan.explain().splitlines())])


@dataclass(frozen=True, slots=True)
class Explanation:
    """What ran, and why: printable.

    Attributes
    ----------
    calls : tuple
        The plans executed, in order; each has `plan` and `count` (equal plans in a row are one entry).
    """

    calls: tuple[ExplainedCall, ...]

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes that all calls together move."""
        return sum(call.count * call.plan.bytes_moved for call in self.calls)

    def __str__(self) -> str:
        if not self.calls:
            return "no operator of spectralops ran"
        lines = [f"{number}. {call}" for number, call in enumerate(self.calls, 1)]
        count = sum(call.count for call in self.calls)
        if count > 1:
            lines.append(f"in all {count} calls, {_size(self.bytes_moved)}")
        return "\n".join(lines)


def explain(function: Any, /, *args: Any, **kwargs: Any) -> Explanation:
    """Say what a call of `function` runs, on which backend, and why.

    Parameters
    ----------
    function : callable or plan
        An operator of this package or any function that calls some; or a plan, which is explained without being run.
    *args, **kwargs
        What to call it with. The call is made, and its result dropped.

    Returns
    -------
    Explanation
        Prints as the list of plans executed, in order, each with its backend, the fewest bytes it moves and its own
        ``explain()``. Operators called in other threads are not seen.

    Raises
    ------
    TypeError
        If `function` is neither, or is a plan and arguments are given.

    Examples
    --------
    >>> from spectralops import explain
    >>> print(explain(len, [1, 2, 3]))
    no operator of spectralops ran
    """
    if hasattr(function, "explain") and hasattr(function, "bytes_moved"):
        if args or kwargs:
            raise TypeError("explain: arguments are given for a plan, but must be left out: a plan is not run")
        return Explanation((ExplainedCall(function),))
    if not callable(function):
        raise TypeError(f"explain: function is a {type(function).__name__}, but must be callable or a plan")
    calls: list[ExplainedCall] = []

    def observer(plan: Any, arrays: tuple[Any, ...], result: Any) -> None:
        if calls and calls[-1].plan == plan:
            calls[-1] = ExplainedCall(plan, calls[-1].count + 1)
        else:
            calls.append(ExplainedCall(plan))

    with _dispatch.observe(observer):
        function(*args, **kwargs)
    return Explanation(tuple(calls))


def _size(count: int) -> str:
    """A number of bytes in the unit that suits it: 512 B, 1.5 KiB."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / 1024**power:.4g} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"
