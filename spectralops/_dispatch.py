"""Which backend runs an operator, and the one path from the caller's arrays to its executor and back.

:data:`SUPPORT` is the single statement of what is supported: errors, the documentation's table and the tests read it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from spectralops import _arrays, _checks, _threads
from spectralops._checks import COMPLEXES, FLOATS, HALVES
from spectralops._recent import Recent
from spectralops.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BACKENDS", "SUPPORT", "Known", "Plan", "Support",
    "algorithm", "execute", "observe", "observed", "passed", "passed_over", "run", "same", "select", "settled",
    "way",
]  # fmt: skip

# Device kind of each backend, the preferred ones first.
#   cpu        tuned executors in _cpu/
#   numpy      plain pipelines in _plain/: what a user would write with NumPy and SciPy, the baseline
#   cuda       tuned kernels in _cuda/
#   cupy       the modules of numpy, on CuPy and cupyx.scipy
#   reference  slow, obvious float64 in _reference/: the meaning of each operator
BACKENDS: dict[str, str] = {"cpu": "cpu", "numpy": "cpu", "cuda": "cuda", "cupy": "cuda", "reference": "cpu"}
# Where `prepared(plan)` gives what a plan of cuda launches on arrays known by their addresses.
BY_ADDRESS = "spectralops._cuda.by_address"
# Who takes the plans that the kernels of a backend do not cover.
INSTEAD = {"cuda": "cupy"}

REALS = FLOATS + HALVES
ALL = FLOATS + COMPLEXES + HALVES

# A `stored` of executors that take every operand as it is stored.
EACH = -1


@dataclass(frozen=True, slots=True)
class Support:
    """One row of the support table: where an executor lives, its dtypes, and its limits in words.

    `stored` says of how many operands, the first ones, it takes the values as they are stored in 16 bits: where all of
    them have the same such dtype, and so has the result, which is then written in 16 bits too, or there are no other
    operands. All others are cast to the dtype of the arithmetic. With ``EACH`` it takes every operand and writes the
    result so, whatever the others are.
    """

    module: str
    dtypes: tuple[str, ...]
    limits: str = ""
    stored: int = 0


def _rows(operators: tuple[str, ...], dtypes: tuple[str, ...], **modules: str) -> dict[tuple[str, str], Support]:
    return {
        (op, backend): Support(f"spectralops.{module}", dtypes)
        for op in operators
        for backend, module in modules.items()
    }


SPECTRAL = ("spectral_filter", "spectral_conv", "spectral_conv_weight_gradient", "fourier_resample")
CONVOLUTION = ("fft_conv2d", "convolve")
STEPS = ("diffusion_step", "convection_step", "diffuse_convect_step", "pde_step")
STENCILS = ("gradient", "divergence", "laplacian")

COMPILED_STEPS = "pointwise terms only if compiled by numba"

DEVICE_STEPS = "all but functions of the caller's and the spectral method, which run on cupy"

DEVICE_TRANSFORMS = "one to three axes, lengths that fit a block; others run on cupy"

DEVICE_CONVOLUTIONS = (
    "direct sums along one to three axes; transforms along one or two where a tile of the kernel's size fits a block, "
    "or of plain real images without channels; others run on cupy"
)

SUPPORT: dict[tuple[str, str], Support] = {
    ("spectral_filter", "cuda"): Support("spectralops._cuda.spectral_filter", ALL, DEVICE_TRANSFORMS, stored=1),
    ("spectral_conv", "cuda"): Support("spectralops._cuda.spectral_conv", ALL, DEVICE_TRANSFORMS, stored=1),
    ("spectral_conv_weight_gradient", "cuda"): Support(
        "spectralops._cuda.spectral_gradient", ALL, DEVICE_TRANSFORMS, stored=2
    ),
    **{
        (op, "cuda"): Support("spectralops._cuda.convolution", ALL, DEVICE_CONVOLUTIONS, stored=2) for op in CONVOLUTION
    },
    **_rows(
        SPECTRAL,
        ALL,
        cpu="_cpu.spectral",
        numpy="_plain.spectral",
        cupy="_plain.spectral",
        reference="_reference.spectral",
    ),
    **_rows(
        CONVOLUTION,
        ALL,
        cpu="_cpu.convolution",
        numpy="_plain.convolution",
        cupy="_plain.convolution",
        reference="_reference.convolution",
    ),
    **{(op, "cpu"): Support("spectralops._cpu.steps", REALS, COMPILED_STEPS) for op in STEPS},
    **{(op, "cuda"): Support("spectralops._cuda.steps", REALS, DEVICE_STEPS, stored=EACH) for op in STEPS},
    **_rows(STEPS, REALS, numpy="_plain.steps", cupy="_plain.steps", reference="_reference.steps"),
    **_rows(STENCILS, ALL, numpy="_plain.stencils", cupy="_plain.stencils", reference="_reference.stencils"),
    **_rows(
        ("diffusion_filter",),
        REALS,
        cpu="_cpu.diffusion_filter",
        numpy="_plain.diffusion_filter",
        cupy="_plain.diffusion_filter",
        reference="_reference.diffusion_filter",
    ),
}


class Plan(Protocol):
    """What execution needs of a plan; every plan class has these."""

    @property
    def op(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def operands(self) -> tuple[_arrays.Operand, ...]:
        """The array arguments, in call order."""
        ...

    @property
    def out_shape(self) -> tuple[int, ...]: ...
    @property
    def out_dtype(self) -> str: ...
    @property
    def bytes_moved(self) -> int: ...
    @property
    def flops(self) -> int: ...
    @property
    def in_place(self) -> bool:
        """Whether `out` may overlap the first operand."""
        ...


def select(op: str, dtype: str, device_kind: str, backend: str | None) -> str:
    """The backend that runs `op` on arrays of `dtype`: the caller's choice, or the first that supports it.

    Raises
    ------
    ValueError
        If `backend` is not the name of one.
    TypeError
        If `backend` runs on another kind of device than the arrays lie on.
    UnsupportedError
        If no backend, or not the chosen one, supports the operator for this dtype.
    """
    if backend is not None:
        _checks.choice(op, "backend", backend, tuple(BACKENDS))
        if BACKENDS[backend] != device_kind:
            raise TypeError(
                f"{op}: backend is {backend!r}, which runs on {BACKENDS[backend]} arrays, "
                f"but must suit arrays on {device_kind}; "
                "move them explicitly"
            )
    able = [name for name in BACKENDS if (op, name) in SUPPORT and dtype in SUPPORT[op, name].dtypes]
    chosen = backend or next((name for name in able if BACKENDS[name] == device_kind), None)
    if chosen is None or chosen not in able:
        what = f"backend {chosen!r}" if chosen else f"{device_kind} arrays"
        raise UnsupportedError(
            f"{op}: dtype is {dtype}, but must be one that {what} supports; it runs on {_listed(able)}"
        )
    return chosen


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) if names else "no backend"


P = TypeVar("P", bound=Plan)


@lru_cache(maxsize=256)
def executor(op: str, backend: str) -> Callable[..., None]:
    """The function that runs `op` on `backend`, loaded on first use."""
    function: Callable[..., None] = getattr(importlib.import_module(SUPPORT[op, backend].module), op)
    return function


def algorithm(plan: Plan) -> str:
    """How the plan's executor works, for `explain`: asked of its module, which decides at each call."""
    words: str = importlib.import_module(SUPPORT[plan.op, plan.backend].module).algorithm(plan)
    return words


def refusal(plan: Plan) -> str:
    """Why the plan's backend does not run it, in words; nothing where it does."""
    module = importlib.import_module(SUPPORT[plan.op, plan.backend].module)
    words: str = module.refusal(plan) if hasattr(module, "refusal") else ""
    return words


def settled(plan: P, asked: str | None) -> P:
    """The plan, on another backend for the same arrays where its own does not cover it and was not `asked` for.

    Raises
    ------
    UnsupportedError
        If it was.
    """
    other = INSTEAD.get(plan.backend)
    reason = refusal(plan) if other else ""
    if not other or not reason:
        return plan
    if asked == plan.backend:
        raise UnsupportedError(f"{plan.op}: backend is {asked!r}, but must be {other!r} for these arguments: {reason}")
    return replace(plan, backend=other)  # type: ignore[type-var]


def passed_over(plan: Plan) -> str:
    """Why the kernels that would run first do not run this plan, for `explain`; nothing where there are none."""
    for backend, other in INSTEAD.items():
        if plan.backend == other and (plan.op, backend) in SUPPORT:
            return refusal(replace(plan, backend=backend))  # type: ignore[type-var]
    return ""


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


def passed(plan: Plan) -> tuple[list[str], str]:
    """The dtypes in which a plan's executor is handed its arrays and gives its result, where 16 bits are stored."""
    operands, out = plan.operands, plan.out_dtype
    first = operands[0].spec.dtype
    count = SUPPORT[plan.op, plan.backend].stored
    if count == EACH:
        return [each.spec.dtype if each.spec.dtype in HALVES else each.compute for each in operands], out
    count = count if first in HALVES else 0
    same = all((each.spec.dtype, each.compute) == (first, "float32") for each in operands[:count])
    if not count or not same or (out != first and count < len(operands)):
        return [each.compute for each in operands], _checks.compute_dtype(out)
    dtypes = [first] * count + [each.compute for each in operands[count:]]
    return dtypes, out if out == first else _checks.compute_dtype(out)


def execute(plan: Plan, arrays: tuple[Any, ...], *, out: Any = None, workers: int | None = None) -> Any:
    """Run a plan on the caller's arrays: adopt, allocate, execute, give back.

    The executor is called as ``executor(plan, *native_arrays, out=native, workers=count)``. It finds inputs of any
    strides in the dtypes that the plan's operands name (16-bit only where its row of SUPPORT says `stored`, bfloat16
    then as its bits in integers) and must fill the C-contiguous `out` entirely.
    """
    op, operands = plan.op, plan.operands
    if plan.backend == "cuda":
        ways = _ways.get(id(plan))
        if ways is not None and ways.last is not None and workers is None and _observer.get() is None:
            result = ways.last(arrays, out)
            if result is not None:
                return result
    elif (
        _arrays.ready(operands, arrays, plan.out_dtype)
        and BACKENDS[plan.backend] == "cpu"
        and (out is None or _arrays.takes(out, plan.out_shape, plan.out_dtype, arrays))
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
    return run(plan, arrays, home, out, _workers(plan, workers, home.kind))


def _workers(plan: Plan, allowed: int | None, kind: str = "cpu") -> int:
    """As many of the caller's threads as compiled executors can keep busy; others get what was asked for."""
    if allowed is None:
        return 1
    count = _checks.workers(plan.op, allowed, kind)
    if count == 1 or plan.backend != "cpu":
        return count
    return _threads.worthwhile(count, plan.flops, plan.bytes_moved)


def run(plan: Plan, arrays: tuple[Any, ...], home: _arrays.Home, out: Any = None, threads: int = 1) -> Any:
    """Execute a plan on arrays that are known to fit it."""
    if home.device == "cpu":
        return _run(plan, arrays, home, out, threads)
    if plan.backend != "cuda" and _arrays.capturing(home):
        raise UnsupportedError(
            f"{plan.op}: backend is {plan.backend!r}, but must be 'cuda' while a CUDA graph is captured; "
            "explain() says why there is no kernel"
        )
    if (result := _run_by_address(plan, arrays, home, out)) is not None:
        if out is not None:
            _arrays.wrote(out, home)
        return result
    with _arrays.on_device(home):
        if out is None and _arrays.brings_memory(home):
            return _run_in_own_memory(plan, arrays)
        return _run(plan, arrays, home, out, threads)


@dataclass(slots=True)
class _Ways:
    """What a plan launches on arrays known by their addresses, by library and device; None where it cannot.

    Attributes
    ----------
    plan : Plan
        Held, so that no other gets its number.
    last : callable or None
        The way that arrays went last.
    arrays : callable or None
        The way that CuPy's went last.
    """

    plan: Plan
    by_home: dict[tuple[str, str], Any] = field(default_factory=dict)
    last: Any = None
    arrays: Any = None


# By the number of the plan.
_ways: Recent[int, _Ways] = Recent(512)


def way(plan: Plan, home: _arrays.Home) -> Any:
    """What takes arrays of a library and device to the plan's launches by their addresses; None where they do not."""
    ways = _ways.get(id(plan))
    return None if ways is None else ways.by_home.get((home.library, home.device))


def same(arrays: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether these are the same objects."""
    return len(arrays) == len(others) and all([x is y for x, y in zip(arrays, others, strict=True)])  # noqa: C419


class Known:
    """A plan that calls with arrays of the same looks find again, with the way of these to its launches."""

    __slots__ = ("_way", "plan")

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan
        self._way: Any = None

    def keep(self, plan: Plan, planned: tuple[Any, ...], arrays: tuple[Any, ...]) -> None:
        """Have the plan be found for `arrays`, if they are those that it was made for."""
        if same(planned, arrays):
            self.plan = plan

    def __call__(self, arrays: tuple[Any, ...], out: Any, workers: int | None) -> Any:
        """Run the plan on arrays of its shapes and dtypes, from one library."""
        way, plan = self._way, self.plan
        if way is not None and out is None and workers is None and _observer.get() is None:
            result = way.again(arrays)
            if result is not None:
                return result
        assert plan is not None
        result = execute(plan, arrays, out=out, workers=workers)
        if plan.backend == "cuda":
            ways = _ways.get(id(plan))
            self._way = None if ways is None else ways.arrays
        return result


def _run_by_address(plan: Plan, arrays: tuple[Any, ...], home: _arrays.Home, out: Any) -> Any:
    """Execute a plan without a look at its arrays but for where they lie; None where that does not do."""
    if plan.backend != "cuda" or home.library not in _arrays.DIRECT or _observer.get() is not None:
        return None
    key, ways = (home.library, home.device), _ways.get(id(plan))
    if ways is None or key not in ways.by_home:
        # A function of the caller's may hold anything, and must not live on in a cache.
        if getattr(plan, "samples_anew", False):
            return None
        direct = _prepared(plan, home)
        ways = _ways.get(id(plan)) or _ways.put(id(plan), _Ways(plan))
        ways.by_home[key] = direct
    direct = ways.last = ways.by_home[key]
    if home.library == "cupy":
        ways.arrays = direct
    return None if direct is None else direct.again(arrays, out)


def _prepared(plan: Plan, home: _arrays.Home) -> Any:
    dtypes, kind = passed(plan)
    cast = any(dtype != operand.spec.dtype for dtype, operand in zip(dtypes, plan.operands, strict=True))
    if cast or plan.out_dtype != kind:
        return None
    with _arrays.on_device(home):
        by_address = importlib.import_module(BY_ADDRESS)
        prepared = by_address.prepared(plan)
    if prepared is None:
        return None
    specs = [*(operand.spec for operand in plan.operands), _arrays.ArraySpec(plan.out_shape, plan.out_dtype)]
    return _arrays.direct(prepared, specs, home, by_address.scratch)


def _run_in_own_memory(plan: Plan, arrays: tuple[Any, ...]) -> Any:
    """Execute a plan where the result is allocated by the caller's library."""
    dtypes, kind = passed(plan)
    native = tuple([_arrays.own_memory(x, dtype) for dtype, x in zip(dtypes, arrays, strict=True)])
    result = _arrays.own_result(plan.out_shape, kind)
    target = _arrays.own_memory(result)
    _call(plan, native, target, 1)
    return _arrays.rounded(result, plan.out_dtype)


def _run_ready(plan: Plan, arrays: tuple[Any, ...], out: Any, threads: int) -> Any:
    """Execute a plan on arrays that need no adopting and whose library needs no giving back: the quickest way."""
    result = _arrays.empty(plan.out_shape, plan.out_dtype, _arrays.HOST) if out is None else out
    _call(plan, arrays, result, threads)
    return result


def _run(plan: Plan, arrays: tuple[Any, ...], home: _arrays.Home, out: Any, threads: int) -> Any:
    """Execute a plan on arrays that fit it, on the current device and stream."""
    out_dtype = plan.out_dtype
    dtypes, kind = passed(plan)
    native = tuple([_arrays.adopt(x, dtype, home) for dtype, x in zip(dtypes, arrays, strict=True)])
    target = None if out is None else _target(plan, arrays, out, home)
    direct = target is not None and kind == out_dtype and _arrays.behaves(target)
    if direct:
        result = _arrays.bits(target)
    else:
        result = _arrays.empty(plan.out_shape, kind, home)
    _call(plan, native, result, threads)
    if out is None:
        return _arrays.give_back(result, out_dtype, home)
    if not direct:
        _arrays.store(result, out, target if kind != out_dtype else _arrays.bits(target), home)
    _arrays.wrote(out, home)
    return out


def _call(plan: Plan, native: tuple[Any, ...], result: Any, threads: int) -> None:
    """Call the executor of a plan, then whoever observes."""
    executor(plan.op, plan.backend)(plan, *native, out=result, workers=threads)
    observer = _observer.get()
    if observer is not None:
        seen = [_arrays.widened(x, each.spec.dtype) for x, each in zip(native, plan.operands, strict=True)]
        observer(plan, tuple(seen), _arrays.widened(result, plan.out_dtype))


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
    target = _arrays.adopt_out(op, out, home)
    inputs = arrays[1:] if plan.in_place else arrays
    if any(_arrays.overlap(target, _arrays.memory(x, home)) for x in inputs):
        raise ValueError(f"{op}: out overlaps an input in memory, but must not; pass a separate array")
    return target
