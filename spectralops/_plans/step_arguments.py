"""From the caller's arguments of a step to its plan: canonical coefficients, operands, the stability bound."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spectralops import _arrays, _checks, _dispatch, boundary
from spectralops._plans import schemes, spectral_steps, stability, step_kernels, transform
from spectralops._plans.steps import StepPlan, build, geometry_of
from spectralops._plans.terms import FORMS, SCHEMES, Advection, Diffusion, Field, Pointwise, SelfAdvection, Source, Term
from spectralops.errors import UnsupportedError

__all__ = ["Options", "advection", "prepare", "run"]

INTEGRATORS = tuple(schemes.STAGES)
METHODS = ("stencil", "spectral", "auto")
ON_UNSTABLE = ("raise", "warn", "ignore")

# The caller's terms, each with the prefix that names its arguments in messages.
Named: TypeAlias = tuple[tuple[str, Term], ...]


class _Operands:
    """The array arguments of one call as they are found: their specs for the plan, the arrays for its execution."""

    def __init__(self, op: str, u: _arrays.Operand, axes: tuple[int, ...]) -> None:
        self.op = op
        self.u = u
        self.axes = axes
        self.found = [u]
        self.arrays: list[Any] = []
        self.constant: set[int] = set()

    def coefficient(self, name: str, value: Any) -> float | Field:
        """A number as a float, an array as the :class:`Field` that it becomes."""
        if not (isinstance(value, _arrays.ArraySpec) or _arrays.is_array(value)):
            return _checks.number(self.op, name, value)
        spec = self._spec(name, value)
        kind = _checks.dtype(self.op, spec.dtype, name)
        if kind in _checks.COMPLEXES:
            raise TypeError(f"{self.op}: {name} has dtype {kind}, but must be real")
        place = len(self.found)
        aligned = (1,) * (len(self.u.spec.shape) - len(spec.shape)) + spec.shape
        compute = self.u.compute
        if all(aligned[axis] == 1 for axis in self.axes):
            self.constant.add(place)
            compute = "float64"
        return self._register(name, value, spec, compute)

    def mask(self, value: Any) -> int:
        """Place of the mask among the operands."""
        if not (isinstance(value, _arrays.ArraySpec) or _arrays.is_array(value)):
            raise TypeError(f"{self.op}: mask is a {type(value).__name__}, but must be a boolean array")
        spec = self._spec("mask", value)
        if spec.dtype != "bool":
            raise TypeError(f"{self.op}: mask has dtype {spec.dtype}, but must be bool, True where u is computed")
        return self._register("mask", value, spec, "bool").operand

    def _spec(self, name: str, value: Any) -> _arrays.ArraySpec:
        spec = value if isinstance(value, _arrays.ArraySpec) else _arrays.describe(self.op, name, value)[1]
        shape = self.u.spec.shape
        fits = len(spec.shape) <= len(shape) and all(
            n in (1, m) for n, m in zip(reversed(spec.shape), reversed(shape), strict=False)
        )
        if not fits:
            raise ValueError(f"{self.op}: {name} has shape {spec.shape}, but must broadcast to {shape}, the shape of u")
        return spec

    def _register(self, name: str, value: Any, spec: _arrays.ArraySpec, compute: str) -> Field:
        self.found.append(_arrays.Operand(name, spec, compute))
        self.arrays.append(value)
        return Field(len(self.found) - 1)

    def array(self, field: Field) -> Any:
        """The array behind a field; an ArraySpec where only a plan is made."""
        return self.arrays[field.operand - 1]


def advection(op: str, velocity: Any, scheme: str, form: str) -> Advection | SelfAdvection:
    """The advection that an operator's arguments ask for; without a velocity, u carries itself."""
    _checks.choice(op, "scheme", scheme, SCHEMES)
    _checks.choice(op, "form", form, FORMS)
    return SelfAdvection(scheme, form) if velocity is None else Advection(velocity, scheme, form)


class Options(NamedTuple):
    """The arguments that all steps share."""

    bc: Any
    source: Any
    mask: Any
    steps: Any
    method: str
    on_unstable: str
    axes: Any
    backend: str | None
    integrator: str = "euler"


def run(op: str, u: Any, dx: Any, dt: Any, terms: Named, options: Options, out: Any, workers: int | None) -> Any:
    """Plan a step for u and take it."""
    home, spec = _arrays.describe(op, "u", u)
    default = _arrays.default_float(home)
    if _numbers_only(dx, dt, terms, options):
        plan = _plan_of_numbers(op, spec.shape, spec.dtype, dx, dt, terms, home.kind, default, *options)
        return plan(u, out=out, workers=workers)
    plan, arrays = prepare(op, spec.shape, spec.dtype, dx, dt, terms, options, home.kind, default, stacklevel=5)
    return plan(u, *arrays, out=out, workers=workers)


@lru_cache(maxsize=512, typed=True)
def _plan_of_numbers(
    op: str,
    shape: tuple[int, ...],
    dtype: str,
    dx: Any,
    dt: Any,
    terms: Named,
    device: str,
    default: str,
    *options: Any,
) -> StepPlan:
    """The plan of a step without arrays, found again by its arguments as the caller wrote them."""
    return prepare(op, shape, dtype, dx, dt, terms, Options(*options), device, default)[0]


def _numbers_only(dx: Any, dt: Any, terms: Named, options: Options) -> bool:
    """Whether the arguments alone decide the plan, and can be looked up: no arrays, functions or warnings to give."""
    if options.mask is not None or not isinstance(options.on_unstable, str) or options.on_unstable == "warn":
        return False
    if not _is_number(dt) or not _are_integers(options.axes):
        return False
    values = [dx, 0.0 if options.source is None else options.source]
    for _, term in terms:
        if isinstance(term, Pointwise):
            return False
        values.append(getattr(term, "nu", getattr(term, "velocity", getattr(term, "rate", 0.0))))
    if not all(_is_number(v) or (type(v) is tuple and all(map(_is_number, v))) for v in values):
        return False
    try:
        hash(options)
    except TypeError:  # a dict or a list
        return False
    return True


def _are_integers(axes: Any) -> bool:
    """Whether axes are what they look like to the cache, to which 1.0 in a tuple is 1."""
    return axes is None or isinstance(axes, int) or (type(axes) is tuple and all(type(a) is int for a in axes))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)  # 1 + 0j is 1 to the cache


def prepare(
    op: str,
    shape: Any,
    dtype: Any,
    dx: Any,
    dt: Any,
    terms: Named,
    options: Options,
    device: str,
    default: str = "float64",
    stacklevel: int = 4,
) -> tuple[StepPlan, list[Any]]:
    """The plan of a step from the caller's arguments, and the arrays to call it with after u."""
    bc, source, mask, steps, method, on_unstable, axes, backend, integrator = options
    _checks.choice(op, "integrator", integrator, INTEGRATORS)
    _checks.choice(op, "on_unstable", on_unstable, ON_UNSTABLE)
    _checks.choice(op, "method", method, METHODS)
    shape = _checks.shape(op, shape)
    result = _checks.inexact_dtype(op, dtype, "u", default)
    backend = _dispatch.select(op, result, transform.device_kind(op, device), backend)
    listed = _axes(op, axes, len(shape), dx, terms)
    order = sorted(range(len(listed)), key=listed.__getitem__)
    sorted_axes = tuple(listed[j] for j in order)
    steps_of_axis = tuple(_checks.positive(op, "dx", h) for h in _checks.per_axis(op, "dx", dx, len(listed)))
    spacing = tuple(steps_of_axis[j] for j in order)
    conditions = boundary.sides(op, bc, listed, len(shape))
    dt = _checks.positive(op, "dt", dt)
    count = _count(op, steps)

    u = _arrays.Operand("u", _arrays.ArraySpec(shape, _arrays.dtype_name(dtype)), _checks.compute_dtype(result))
    operands = _Operands(op, u, sorted_axes)
    found = tuple(_canonical(operands, prefix, term, order) for prefix, term in terms)
    if source is not None:
        found = (*found, Source(operands.coefficient("source", source)))
    masked = None if mask is None else operands.mask(mask)

    stable_dt = _stable_dt(operands, found, spacing, integrator, mask)
    stability.judge(op, dt, stable_dt, _in_words(found, integrator), on_unstable, stacklevel)
    cells = geometry_of(
        op,
        backend,
        tuple(operands.found),
        result,
        sorted_axes,
        spacing,
        tuple(conditions[j] for j in order),
        tuple(max((schemes.width(term, j) for term in found), default=0) for j in range(len(order))),
        frozenset(operands.constant),
        masked,
    )
    method = spectral_steps.choose(cells, found, integrator, count, method, options.backend)
    plan = build(cells, found, integrator, dt, count, method, stable_dt)
    return _runnable(plan, options.backend), operands.arrays


def _runnable(plan: StepPlan, chosen: str | None) -> StepPlan:
    """The plan itself, or for NumPy where no compiled kernel runs it and the caller did not ask for one."""
    reason = step_kernels.refusal(plan.kernel, plan.method) if plan.backend == "cpu" else ""
    if not reason:
        return plan
    if chosen == "cpu":
        raise UnsupportedError(f"{plan.op}: backend is 'cpu', but must be 'numpy' for this step: {reason}")
    geometry = replace(plan.geometry, backend="numpy")
    return build(geometry, plan.terms, plan.integrator, plan.dt, plan.steps, plan.method, plan.stable_dt)


def _axes(op: str, axes: Any, ndim: int, dx: Any, terms: Named) -> tuple[int, ...]:
    counts = {"dx": _checks.entries(dx)}
    for prefix, term in terms:
        if isinstance(term, Advection):
            counts[f"{prefix}velocity"] = _checks.entries(term.velocity)
    found = _checks.axes(op, axes, ndim, counts, "u")
    if len(found) > 3:
        raise ValueError(f"{op}: axes has {len(found)} entries, but must have 1 to 3")
    return found


def _count(op: str, steps: Any) -> int:
    try:
        count = operator.index(steps)
    except TypeError as error:
        raise TypeError(f"{op}: steps is {steps!r}, but must be an integer") from error
    if count < 1:
        raise ValueError(f"{op}: steps is {count}, but must be at least 1")
    return count


def _canonical(operands: _Operands, prefix: str, term: Term, order: list[int]) -> Term:
    """The term with floats and fields for coefficients, its velocity in the order of the sorted axes."""
    op = operands.op
    if isinstance(term, Diffusion):
        nu = operands.coefficient(f"{prefix}nu", term.nu)
        return Diffusion(nu if isinstance(nu, Field) else _checks.nonnegative(op, f"{prefix}nu", nu))
    if isinstance(term, Advection):
        name = f"{prefix}velocity"
        if _checks.entries(term.velocity) is not None:
            parts = [operands.coefficient(f"{name}[{j}]", v) for j, v in enumerate(term.velocity)]
        elif len(order) == 1:
            parts = [operands.coefficient(name, term.velocity)]
        else:
            raise ValueError(
                f"{op}: {name} is a single {type(term.velocity).__name__}, but must be a sequence of {len(order)}, "
                "one component per stepped axis"
            )
        return Advection(tuple(parts[j] for j in order), term.scheme, term.form)
    if isinstance(term, Source):
        return Source(operands.coefficient(f"{prefix}rate", term.rate))
    return term


def _stable_dt(
    operands: _Operands, terms: tuple[Term, ...], spacing: tuple[float, ...], integrator: str, mask: Any
) -> float:
    """Largest stable dt as far as the coefficients are known: numbers, and diffusivities in host memory.

    Winds are judged only if all their components and all diffusivities are numbers: their bound depends on both.
    """
    nu, judge_winds = 0.0, True
    winds = []
    for term in terms:
        if isinstance(term, Diffusion):
            if isinstance(term.nu, Field):
                nu += _largest(operands, term.nu, mask)
                judge_winds = False
            else:
                nu += term.nu
        elif isinstance(term, Advection):
            winds.append((term.velocity, term.scheme))
            judge_winds = judge_winds and all(isinstance(v, float) for v in term.velocity)
    return stability.largest_stable_dt(spacing, nu, tuple(winds) if judge_winds else (), integrator)


def _largest(operands: _Operands, field: Field, mask: Any) -> float:
    """Largest value of a diffusivity in host memory; 0 for one on a device, which would have to wait for it.

    Raises
    ------
    ValueError
        If a value where u is computed is negative or not finite.
    """
    array, operand, op = operands.array(field), operands.found[field.operand], operands.op
    if isinstance(array, _arrays.ArraySpec):
        return 0.0
    home, _ = _arrays.describe(op, operand.name, array)
    if home.kind != "cpu":
        return 0.0
    values = _arrays.adopt(array, operand.compute, home)
    if _arrays.is_array(mask) and _arrays.describe(op, "mask", mask)[0].kind == "cpu":
        values = np.broadcast_to(values, operands.u.spec.shape)[_whole(op, mask, operands.u.spec.shape)]
    if not values.size:
        return 0.0
    low, high = float(values.min()), float(values.max())
    if not (low >= 0.0 and high < float("inf")):
        value = low if low < 0.0 else high
        raise ValueError(f"{op}: {operand.name} has the value {value}, but must be finite and not negative")
    return high


def _whole(op: str, mask: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    home, _ = _arrays.describe(op, "mask", mask)
    return np.broadcast_to(_arrays.adopt(mask, "bool", home), shape)


def _in_words(terms: Iterable[Term], integrator: str) -> str:
    """The scheme as messages name it: ``integrator 'euler' with diffusion and scheme 'central'``."""
    parts = []
    for term in terms:
        if isinstance(term, Diffusion):
            parts.append("diffusion")
        elif isinstance(term, Advection | SelfAdvection):
            parts.append(f"scheme {term.scheme!r}")
    return f"integrator {integrator!r} with {' and '.join(dict.fromkeys(parts))}"
