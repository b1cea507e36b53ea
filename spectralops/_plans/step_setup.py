"""What a step is apart from dt: the plan of a new dt is made from it without looking at the arguments again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spectralops import _support
from spectralops._plans import spectral_steps, stability
from spectralops._plans.geometry import Geometry
from spectralops._plans.steps import StepPlan, build
from spectralops._plans.terms import Advection, Diffusion, Field, Term
from spectralops.errors import UnsupportedError

__all__ = ["Setup"]

# Plans kept by their dt and number of steps.
KEPT = 16
# The plain backend that runs what the tuned one of its kind of device does not.
PLAIN = {"cpu": "numpy", "cuda": "cupy"}


@dataclass(slots=True)
class Setup:
    """Geometry and terms of a step, what limits its dt, and the plans that were made of it last.

    Attributes
    ----------
    geometry : Geometry
        Cells, ghosts and operands.
    terms : tuple
        The terms with floats and fields for coefficients.
    integrator, method : str
        As the caller wrote them.
    backend : str or None
        The one that the caller asked for.
    diffusivities : tuple of int
        Operands that are diffusivities: their values limit dt.
    stable_dt : float
        Largest stable dt if those are 0.
    """

    geometry: Geometry
    terms: tuple[Term, ...]
    integrator: str
    method: str
    backend: str | None
    diffusivities: tuple[int, ...] = field(init=False)
    stable_dt: float = field(init=False)
    _plain: Geometry | None = field(init=False, default=None)
    _plans: dict[tuple[float, int, float], StepPlan] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        nus = [term.nu for term in self.terms if isinstance(term, Diffusion)]
        self.diffusivities = tuple(nu.operand for nu in nus if isinstance(nu, Field))
        self.stable_dt = self.bound(0.0)

    def bound(self, nu: float) -> float:
        """Largest stable dt as far as the coefficients are known, with `nu` the sum of the fields' largest values.

        Winds are judged only if all their components and all diffusivities are numbers: their bound depends on both.
        """
        judge_winds = not self.diffusivities
        winds = []
        for term in self.terms:
            if isinstance(term, Diffusion) and not isinstance(term.nu, Field):
                nu += term.nu
            elif isinstance(term, Advection):
                winds.append((term.velocity, term.scheme))
                judge_winds = judge_winds and all(isinstance(v, float) for v in term.velocity)
        return stability.largest_stable_dt(
            self.geometry.spacing, nu, tuple(winds) if judge_winds else (), self.integrator
        )

    def plan(self, dt: float, steps: int, stable_dt: float) -> StepPlan:
        """The plan of so many steps of dt."""
        key = (dt, steps, stable_dt)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._made(dt, steps, stable_dt)
            if len(self._plans) >= KEPT:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _made(self, dt: float, steps: int, stable_dt: float) -> StepPlan:
        """The plan, for the plain backend where no kernel runs it and the caller did not ask for one."""
        method = spectral_steps.choose(self.geometry, self.terms, self.integrator, steps, self.method, self.backend)
        plan = build(self.geometry, self.terms, self.integrator, dt, steps, method, stable_dt)
        reason = _support.refusal(plan)
        if reason and method == "spectral" and self.method == "auto" and self.backend == "cpu":
            plan = build(self.geometry, self.terms, self.integrator, dt, steps, "stencil", stable_dt)
            reason = _support.refusal(plan)
        if not reason:
            return plan
        plain = PLAIN.get(plan.backend, "numpy")
        if self.backend == plan.backend:
            raise UnsupportedError(
                f"{plan.op}: backend is {self.backend!r}, but must be {plain!r} for this step: {reason}"
            )
        if self._plain is None:
            self._plain = replace(self.geometry, backend=plain)
        return replace(plan, geometry=self._plain)
