"""From the caller's arguments of a step to its plan: canonical coefficients, operands, the stability bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spectralops import _arrays, _checks, _dispatch, _interchange, _support, boundary
from spectralops._plans import schemes, stability, transform
from spectralops._plans.geometry import geometry_of
from spectralops._plans.looks import Known, Looks, same
from spectralops._plans.memo import memoised
from spectralops._plans.step_setup import Setup
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import FORMS, SCHEMES, Advection, Diffusion, Field, Pointwise, SelfAdvection, Source, Term

__all__ = ["Named", "Options", "advection", "prepare", "run"]

INTEGRATORS = tuple(schemes.STAGES)
METHODS = ("stencil", "spectral", "auto")
ON_UNSTABLE = ("raise", "warn", "ignore")
# Types of dt that are the same number where they are equal.
NUMBERS = frozenset({float, int, np.float64, np.float32})
# Plans kept by their dt and number of steps for arguments that look the same.
KEPT = 16
# Cells that are looked at together for the largest diffusivity.
PART = 1 << 16

# Places among Options.
COUNT, UNSTABLE = 3, 5

# The caller's terms, each with the prefix that names its arguments in messages.
Named: TypeAlias = tuple[tuple[str, Term], ...]


class _Operands:
    """The array arguments of a step as they are found by their specifications."""

    def __init__(self, op: str, u: _arrays.Operand, axes: tuple[int, ...]) -> None:
        self.op = op
        self.u = u
        self.axes = axes
        self.found = [u]
        self.constant: set[int] = set()

    def coefficient(self, name: str, value: Any) -> float | Field:
        """A number as a float, an array as the :class:`Field` that it becomes."""
        if not isinstance(value, _arrays.ArraySpec):
            return _checks.number(self.op, name, value)
        spec = self._fitting(name, value)
        kind = _checks.dtype(self.op, spec.dtype, name)
        if kind in _checks.COMPLEXES:
            raise TypeError(f"{self.op}: {name} has dtype {kind}, but must be real")
        place = len(self.found)
        aligned = (1,) * (len(self.u.spec.shape) - len(spec.shape)) + spec.shape
        compute = self.u.compute
        if all(aligned[axis] == 1 for axis in self.axes):
            self.constant.add(place)
            compute = "float64"
        return self._register(name, spec, compute)

    def mask(self, value: Any) -> int:
        """Place of the mask among the operands."""
        if not isinstance(value, _arrays.ArraySpec):
            raise TypeError(f"{self.op}: mask is a {type(value).__name__}, but must be a boolean array")
        spec = self._fitting("mask", value)
        if spec.dtype != "bool":
            raise TypeError(f"{self.op}: mask has dtype {spec.dtype}, but must be bool, True where u is computed")
        return self._register("mask", spec, "bool").operand

    def _fitting(self, name: str, spec: _arrays.ArraySpec) -> _arrays.ArraySpec:
        shape = self.u.spec.shape
        fits = len(spec.shape) <= len(shape) and all(
            n in (1, m) for n, m in zip(reversed(spec.shape), reversed(shape), strict=False)
        )
        if not fits:
            raise ValueError(f"{self.op}: {name} has shape {spec.shape}, but must broadcast to {shape}, the shape of u")
        return spec

    def _register(self, name: str, spec: _arrays.ArraySpec, compute: str) -> Field:
        self.found.append(_arrays.Operand(name, spec, compute))
        return Field(len(self.found) - 1)


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


class _Taken:
    """What calls that look alike have found: the step apart from dt, and plans by dt and the number of steps."""

    __slots__ = ("plans", "setup")

    def __init__(self) -> None:
        self.setup: Setup | None = None
        self.plans: dict[tuple[Any, int], Known] = {}

    def plan(self, setup: Setup, arrays: Sequence[Any], dt: Any, steps: Any, on_unstable: Any) -> StepPlan:
        """The plan of so many steps, to be found again if it depends on the looks of the arrays alone."""
        plan = _timed(setup, arrays[1:], dt, steps, on_unstable, 6)
        by_value = setup.diffusivities and type(arrays[0]) is np.ndarray
        warned = on_unstable == "warn" and plan.dt > plan.stable_dt
        if type(dt) in NUMBERS and type(steps) is int and not by_value and not warned:
            if len(self.plans) >= KEPT:
                self.plans.clear()
            self.plans[dt, steps] = Known(plan)
        return plan


_taken = Looks(_Taken)


def run(
    op: str,
    make: Callable[..., Named],
    u: Any,
    dx: Any,
    dt: Any,
    coefficients: tuple[Any, ...],
    options: tuple[Any, ...],
    out: Any,
    workers: int | None,
) -> Any:
    """Plan a step for u and take it; `make` makes its terms of the coefficients, `options` are those of Options."""
    steps = options[COUNT]
    taken, found = _taken.find(u, (dx, *coefficients, *options[:COUNT], *options[COUNT + 1 :]), op)
    if type(dt) in NUMBERS and type(steps) is int:
        known = taken.plans.get((dt, steps))
        if known is not None:
            return known(found, out, workers)
    setup = taken.setup
    if setup is not None:
        plan = taken.plan(setup, found, dt, steps, options[UNSTABLE])
        return _dispatch.execute(plan, found, out=out, workers=workers)
    terms = make(*coefficients)
    home, spec = _arrays.describe(op, "u", u)
    default = _arrays.default_float(home)
    shared = Options(*options)
    setup, arrays = _arranged(op, spec.shape, spec.dtype, dx, terms, shared, home.kind, default)
    given = (u, *arrays)
    if same(found, given):
        taken.setup = setup
    else:
        taken = _Taken()
    plan = taken.plan(setup, given, dt, steps, shared.on_unstable)
    return _dispatch.execute(plan, given, out=out, workers=workers)


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
    setup, arrays = _arranged(op, shape, dtype, dx, terms, options, device, default)
    return _timed(setup, arrays, dt, options.steps, options.on_unstable, stacklevel + 1), arrays


def _arranged(
    op: str, shape: Any, dtype: Any, dx: Any, terms: Named, options: Options, device: str, default: str
) -> tuple[Setup, list[Any]]:
    """A step apart from dt, and its arrays after u."""
    bc, source, mask, _, method, _, axes, backend, integrator = options
    arrays: list[Any] = []
    find: Callable[..., Setup] = _setup
    named = []
    for prefix, term in terms:
        if type(term) is Pointwise:  # a cached setup would keep the user's function, and what it closes over, alive
            find = _setup.__wrapped__
        named.append((prefix, _specified(op, prefix, term, arrays)))
    if source is not None:
        source = _coefficient(op, "", "source", source, arrays)
    mask = _spec_of(op, "mask", mask, arrays)
    setup = find(
        op, shape, dtype, dx, tuple(named), bc, source, mask, method, axes, backend, integrator, device, default
    )
    return setup, arrays


def _timed(setup: Setup, arrays: Sequence[Any], dt: Any, steps: Any, on_unstable: Any, stacklevel: int) -> StepPlan:
    """The plan of so many steps of dt."""
    op = setup.geometry.op
    if not isinstance(on_unstable, str) or on_unstable != "raise":
        _checks.choice(op, "on_unstable", on_unstable, ON_UNSTABLE)
    dt = _checks.positive(op, "dt", dt)
    stable_dt = _stable_dt(setup, arrays) if setup.diffusivities else setup.stable_dt
    if dt > stable_dt:
        words = _in_words(setup.terms, setup.integrator)
        stability.judge(op, dt, stable_dt, words, on_unstable, stacklevel)
    return setup.plan(dt, _checks.integer(op, "steps", steps, 1, _checks.MOST_STEPS), stable_dt)


def _specified(op: str, prefix: str, term: Term, arrays: list[Any]) -> Term:
    """The term with floats and specifications for coefficients; its arrays are put into the list."""
    if isinstance(term, Diffusion):
        nu = _coefficient(op, prefix, "nu", term.nu, arrays)
        return term if nu is term.nu else Diffusion(nu)
    if isinstance(term, Advection):
        velocity = term.velocity
        if _checks.entries(velocity) is None:
            velocity = _coefficient(op, prefix, "velocity", velocity, arrays)
        elif type(velocity) is not tuple or not all([type(v) is float for v in velocity]):  # noqa: C419
            velocity = tuple([_coefficient(op, prefix, f"velocity[{j}]", v, arrays) for j, v in enumerate(velocity)])
        return term if velocity is term.velocity else Advection(velocity, term.scheme, term.form)
    if isinstance(term, Source):
        return Source(_coefficient(op, prefix, "rate", term.rate, arrays))
    return term


def _coefficient(op: str, prefix: str, name: str, value: Any, arrays: list[Any]) -> float | _arrays.ArraySpec:
    """A number as a float, of an array the specification."""
    if type(value) is float:
        return value
    spec = _spec_of(op, prefix + name, value, arrays)
    return spec if isinstance(spec, _arrays.ArraySpec) else _checks.number(op, prefix + name, value)


def _spec_of(op: str, name: str, value: Any, arrays: list[Any]) -> Any:
    """The specification of an array, which is put into the list, anything else as it is."""
    if value is None:
        return None
    if isinstance(value, _arrays.ArraySpec):
        arrays.append(value)
        return value
    if not _arrays.is_array(value):
        return value
    arrays.append(value)
    return _arrays.describe(op, name, value)[1]


@memoised
def _setup(
    op: str,
    shape: Any,
    dtype: Any,
    dx: Any,
    terms: Named,
    bc: Any,
    source: Any,
    mask: Any,
    method: Any,
    axes: Any,
    backend: str | None,
    integrator: Any,
    device: str,
    default: str,
) -> Setup:
    """All of a step that does not depend on dt, from the caller's arguments with specifications for arrays."""
    _checks.choice(op, "integrator", integrator, INTEGRATORS)
    _checks.choice(op, "method", method, METHODS)
    shape = _checks.shape(op, shape)
    result = _checks.inexact_dtype(op, dtype, "u", default)
    chosen = _support.select(op, result, transform.device_kind(op, device), backend)
    listed = _axes(op, axes, len(shape), dx, terms)
    order = sorted(range(len(listed)), key=listed.__getitem__)
    sorted_axes = tuple(listed[j] for j in order)
    steps_of_axis = tuple(_checks.length(op, "dx", h) for h in _checks.per_axis(op, "dx", dx, len(listed)))
    spacing = tuple(steps_of_axis[j] for j in order)
    conditions = boundary.sides(op, bc, listed, len(shape))
    u = _arrays.Operand("u", _arrays.ArraySpec(shape, _arrays.dtype_name(dtype)), _checks.compute_dtype(result))
    operands = _Operands(op, u, sorted_axes)
    found = tuple(_canonical(operands, prefix, term, order) for prefix, term in terms)
    if source is not None:
        found = (*found, Source(operands.coefficient("source", source)))
    masked = None if mask is None else operands.mask(mask)
    cells = geometry_of(
        op,
        chosen,
        tuple(operands.found),
        result,
        sorted_axes,
        spacing,
        tuple(conditions[j] for j in order),
        tuple(max((schemes.width(term, j) for term in found), default=0) for j in range(len(order))),
        frozenset(operands.constant),
        masked,
    )
    return Setup(cells, found, integrator, method, backend)


def _axes(op: str, axes: Any, ndim: int, dx: Any, terms: Named) -> tuple[int, ...]:
    counts = {"dx": _checks.entries(dx)}
    for prefix, term in terms:
        if isinstance(term, Advection):
            counts[f"{prefix}velocity"] = _checks.entries(term.velocity)
    found = _checks.axes(op, axes, ndim, counts, "u")
    if len(found) > 3:
        raise ValueError(f"{op}: axes has {len(found)} entries, but must have 1 to 3")
    return found


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
            kind = "array" if isinstance(term.velocity, _arrays.ArraySpec) else type(term.velocity).__name__
            raise ValueError(
                f"{op}: {name} is a single {kind}, but must be a sequence of {len(order)}, "
                "one component per stepped axis"
            )
        return Advection(tuple(parts[j] for j in order), term.scheme, term.form)
    if isinstance(term, Source):
        return Source(operands.coefficient(f"{prefix}rate", term.rate))
    return term


def _stable_dt(setup: Setup, arrays: Sequence[Any]) -> float:
    """Largest stable dt with the diffusivities in host memory; one on a device would have to be waited for.

    Raises
    ------
    ValueError
        If a value where u is computed is negative or not finite.
    """
    mask = setup.geometry.mask
    where = None if mask is None else arrays[mask - 1]
    return setup.bound(math.fsum(_largest(setup, place, arrays[place - 1], where) for place in setup.diffusivities))


def _largest(setup: Setup, place: int, array: Any, mask: Any) -> float:
    op, operand, shape = setup.geometry.op, setup.geometry.operands[place], setup.geometry.shape
    if isinstance(array, _arrays.ArraySpec):
        return 0.0
    home, _ = _arrays.describe(op, operand.name, array)
    if home.kind != "cpu":
        return 0.0
    values = _interchange.adopt(array, operand.compute, home)
    where = None
    if _arrays.is_array(mask):
        home, _ = _arrays.describe(op, "mask", mask)
        if home.kind == "cpu":
            where = np.broadcast_to(_interchange.adopt(mask, "bool", home), shape)
            values = np.broadcast_to(values, shape)
    low, high = _extremes(values, where)
    if not (low >= 0.0 and high < math.inf):
        value = low if low < 0.0 else high
        raise ValueError(f"{op}: {operand.name} has the value {value}, but must be finite and not negative")
    return high


def _extremes(values: Any, where: Any) -> tuple[float, float]:
    """Least and largest value where the mask is True; zeros if there is none. NaN counts as both."""
    if not values.size or (where is not None and not where.any()):
        return 0.0, 0.0
    if where is None:
        return float(values.min()), float(values.max())
    if values.flags.c_contiguous and where.flags.c_contiguous:
        values, where = values.reshape(-1), where.reshape(-1)
    # In parts that stay in cache: a copy of the whole field would take as long as steps do.
    rows = max(1, PART * len(values) // values.size)
    parts = [values[k : k + rows] for k in range(0, len(values), rows)]
    lows, highs = [part.min() for part in parts], [part.max() for part in parts]
    computed = [where[k : k + rows] for k in range(0, len(values), rows)]
    low, high = float(np.min(lows)), 0.0
    if low >= 0.0:
        # Mostly no cell is negative: of the parts with the largest values few are looked at again.
        for k in np.argsort(highs)[::-1]:
            if highs[k] <= high:
                break
            high = max(high, float(np.where(computed[k], parts[k], 0).max()))
        return low, high
    spare = values[np.unravel_index(where.argmax(), where.shape)]
    chosen = (np.where(some, part, spare) for some, part in zip(computed, parts, strict=True))
    least, most = zip(*((part.min(), part.max()) for part in chosen), strict=True)
    return float(np.min(least)), float(np.max(most))


def _in_words(terms: Iterable[Term], integrator: str) -> str:
    """The scheme as messages name it: ``integrator 'euler' with diffusion and scheme 'central'``."""
    parts = []
    for term in terms:
        if isinstance(term, Diffusion):
            parts.append("diffusion")
        elif isinstance(term, Advection | SelfAdvection):
            parts.append(f"scheme {term.scheme!r}")
    return f"integrator {integrator!r} with {' and '.join(dict.fromkeys(parts))}"
