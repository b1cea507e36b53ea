"""The plan of an explicit time step: which cells, which ghosts, which coefficients, in which order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectralops import _arrays, _checks, _dispatch, _support, boundary
from spectralops._plans import schemes, spectral_steps
from spectralops._plans.geometry import Geometry, geometry_of
from spectralops._plans.spectral_steps import SpectralAdvance
from spectralops._plans.terms import Advection, Diffusion, Field, Pointwise, Source, Term
from spectralops.errors import UnsupportedError

__all__ = ["StepPlan", "build"]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The plan of `steps` explicit time steps; called with u and the array coefficients in the operator's order.

    Attributes
    ----------
    geometry : Geometry
        What does not depend on dt and the coefficients.
    terms : tuple
        The terms of u_t; coefficients are floats, or :class:`Field` for operands.
    integrator : str
        Name of the Runge–Kutta scheme.
    dt : float
        Time step [T].
    steps : int
        Number of steps in one call.
    method : str
        ``"stencil"``, or ``"spectral"``: all steps by one multiplication of the field's coefficients.
    stable_dt : float
        Largest stable dt as far as the coefficients are known while planning: infinite if none limits it, 0 if
        no positive dt is stable.
    update : Update
        The coefficients of one stage in the order of its operations.
    """

    geometry: Geometry
    terms: tuple[Term, ...]
    integrator: str
    dt: float
    steps: int
    method: str
    stable_dt: float
    update: schemes.Update

    @property
    def op(self) -> str:
        """Name of the operator."""
        return self.geometry.op

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self.geometry.backend

    @property
    def operands(self) -> tuple[_arrays.Operand, ...]:
        """Array arguments in call order."""
        return self.geometry.operands

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of u."""
        return self.geometry.shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.geometry.shape

    @property
    def out_dtype(self) -> str:
        """Dtype of the result."""
        return self.geometry.dtype

    @property
    def functions(self) -> tuple[Pointwise, ...]:
        """The pointwise terms as functions that check what the caller's return."""
        return tuple(term for term in self.terms if isinstance(term, Pointwise))

    @property
    def spectral(self) -> SpectralAdvance:
        """What the executors of ``method="spectral"`` need to know."""
        return SpectralAdvance.of(self.geometry, self.terms, self.integrator, self.dt, self.steps)

    @property
    def compute(self) -> str:
        """Dtype of the arithmetic."""
        return _checks.compute_dtype(self.geometry.dtype)

    @property
    def stages(self) -> int:
        """Evaluations of u_t in a step."""
        return schemes.STAGES[self.integrator]

    @property
    def in_place(self) -> bool:
        """Whether `out` may be u itself: no."""
        return False

    @property
    def halo(self) -> tuple[int, ...]:
        """How many cells away, along each axis, a result still depends on u; empty where it depends on all of u."""
        if self.method == "spectral":
            return ()
        reach = dict(zip(self.geometry.axes, self.geometry.widths, strict=True))
        factor = self.stages * self.steps
        return tuple(factor * reach.get(axis, 0) for axis in range(len(self.in_shape)))

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes that must move: every operand read and the result written once."""
        read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in self.operands)
        return read + _checks.nbytes(self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Floating-point operations, a pointwise function counted as one per cell."""
        if self.method == "spectral":
            return self.spectral.flops
        cells = int(np.prod(self.in_shape, dtype=object))
        return cells * self.steps * (self.stages * self.update.flops + schemes.STAGE_FLOPS[self.integrator])

    @property
    def index_bits(self) -> int:
        """Width of the indices that address the padded field."""
        padded = list(self.in_shape)
        for axis, width in zip(self.geometry.axes, self.geometry.widths, strict=True):
            padded[axis] += 2 * width
        return _checks.index_bits(tuple(padded))

    def adjoint(self) -> StepPlan:
        """Plan of the transposed linear part of the step: of its vector–Jacobian product.

        Sources and inhomogeneous boundary data do not belong to the linear part and drop out; diffusion is its own
        transpose; constant winds blow the other way.

        Raises
        ------
        UnsupportedError
            If the transpose is not a step of this kind: nonlinear terms, winds given as arrays, winds across
            boundaries that are not periodic, held ends.
        """
        return _adjoint(self)

    def explain(self) -> str:
        """What runs, in words, one fact a line."""
        g = self.geometry
        lines = [
            f"{self.op} on backend {self.backend!r}: {self.steps} step(s) of {self.integrator}, dt = {self.dt:.6g}",
            f"u: {g.dtype} {g.shape}, stepped along axes {g.axes} with dx = {g.spacing}, computed in {self.compute}",
        ]
        lines += [f"term: {term}" for term in self.terms]
        if self.update.linear is not None:
            count = 1 + sum(len(tap.offsets) for tap in self.update.linear.taps)
            lines.append(f"constant coefficients: combined into one stencil of {count} points")
        if self.update.diffusion:
            lines.append("diffusion as differences of face fluxes: nu varies, or a mask closes faces")
        if self.update.transport:
            lines.append("advection cell by cell: the velocity or the scheme is not constant, or a mask closes faces")
        lines += [
            f"axis {axis}: {low} below, {high} above, {width} ghost layer(s)"
            for axis, (low, high), width in zip(g.axes, g.conditions, g.widths, strict=True)
        ]
        lines.append(f"largest stable dt known while planning: {self.stable_dt:.6g}")
        lines += self._method_in_words()
        if self.backend in ("cpu", "cuda"):
            lines.append(f"runs: {_support.algorithm(self)}")
        lines.append(f"at least {self.bytes_moved} bytes moved, {self.flops} operations")
        return "\n".join(lines)

    def _method_in_words(self) -> list[str]:
        """Which method is taken and why, one fact a line."""
        if self.method == "spectral":
            return self.spectral.explain()
        reason = spectral_steps.refusal(self.geometry, self.terms)
        pays = spectral_steps.crossover(self.geometry, self.terms)
        stages = self.steps * self.stages
        other = f"cannot be taken, since {reason}" if reason else f"pays from {pays} right-hand sides on, here {stages}"
        return [f"method 'stencil': {self._exactness()}; 'spectral' {other}"]

    def _exactness(self) -> str:
        """What the result equals to the bit, in words."""
        slow = self.backend == "reference"
        computed = "float64" if slow else self.compute
        rounded = "" if self.out_dtype == computed else f", rounded to {self.out_dtype} once, at the end"
        if slow:
            return f"single steps in {computed}{rounded}"
        of = f" of {computed}" if rounded else ""
        tiny = computed == "float32" and self.backend in ("cuda", "cupy")
        below = "; numbers below 1.2e-38 count as zero on the device" if tiny else ""
        return f"the same bits as single steps{of} in NumPy{rounded}{below}"

    def __call__(self, u: Any, *operands: Any, out: Any = None, workers: int | None = None) -> Any:
        """Run the step on u and the array coefficients, in the order of the operator's arguments."""
        return _dispatch.execute(self, (u, *operands), out=out, workers=workers)


def build(
    geometry: Geometry, terms: tuple[Term, ...], integrator: str, dt: float, steps: int, method: str, stable_dt: float
) -> StepPlan:
    update = schemes.assemble(terms, geometry.axes, geometry.spacing, dt, geometry.constant, geometry.mask is not None)
    return StepPlan(geometry, terms, integrator, dt, steps, method, stable_dt, update)


def _adjoint(plan: StepPlan) -> StepPlan:
    op, g = plan.op, plan.geometry

    def refuse(reason: str) -> UnsupportedError:
        return UnsupportedError(f"{op}: the step has {reason}, but must not, to have an adjoint of its own kind")

    periodic = all(isinstance(side, boundary.Periodic) for pair in g.conditions for side in pair)
    terms: list[Term] = []
    for term in plan.terms:
        if isinstance(term, Diffusion):
            terms.append(term)
        elif isinstance(term, Advection):
            if not all(isinstance(v, float) for v in term.velocity):
                raise refuse("a velocity given as an array")
            if term.scheme == "weno5":
                raise refuse("the nonlinear scheme 'weno5'")
            if not periodic or g.mask is not None:
                raise refuse("advection across boundaries that are not periodic")
            terms.append(Advection(tuple(-v for v in term.velocity), term.scheme, term.form))
        elif not isinstance(term, Source):
            raise refuse(f"the nonlinear term {type(term).__name__}")
    if any(isinstance(side, boundary.Hold) for pair in g.conditions for side in pair):
        raise refuse("held ends")
    kept = sorted(
        {0, *(term.nu.operand for term in terms if isinstance(term, Diffusion) and isinstance(term.nu, Field))}
        | (set() if g.mask is None else {g.mask})
    )
    moved = {old: new for new, old in enumerate(kept)}
    terms = [
        Diffusion(Field(moved[term.nu.operand])) if isinstance(term, Diffusion) and isinstance(term.nu, Field) else term
        for term in terms
    ]
    operands = tuple(g.operands[old] for old in kept)
    u = replace(operands[0], spec=_arrays.ArraySpec(g.shape, g.dtype))
    cells = geometry_of(
        op,
        g.backend,
        (u, *operands[1:]),
        g.dtype,
        g.axes,
        g.spacing,
        tuple((_homogeneous(low), _homogeneous(high)) for low, high in g.conditions),
        g.widths,
        frozenset(moved[place] for place in g.constant if place in moved),
        None if g.mask is None else moved[g.mask],
    )
    return build(cells, tuple(terms), plan.integrator, plan.dt, plan.steps, plan.method, plan.stable_dt)


def _homogeneous(side: boundary.Condition) -> boundary.Condition:
    """The condition without its given data, which is what acts on a perturbation of u."""
    if isinstance(side, boundary.Dirichlet):
        return boundary.Dirichlet(0.0)
    if isinstance(side, boundary.Neumann):
        return boundary.Neumann(0.0)
    if isinstance(side, boundary.Robin):
        return boundary.Robin(side.gamma, 0.0)
    return side
