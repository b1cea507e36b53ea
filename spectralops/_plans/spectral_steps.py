r"""Steps by their spectrum: T steps of a linear scheme with constant coefficients as one multiplication.

Where the Fourier, cosine or sine modes are the eigenvectors of the discretised right-hand side, T steps multiply each
mode by R(z)^T, with z = dt * lambda, lambda the eigenvalue of the scheme itself (not of the differential equation) and
R the integrator's stability polynomial. The eigenvectors are, for n cells,

* periodic ends: exp(i theta j), theta = 2 pi k / n;
* closed ends, ghosts that repeat the cells: cos(theta (j + 1/2)), theta = pi k / n, k = 0 ... n - 1 (DCT-II);
* zero at both faces, ghosts minus the cells: sin(theta (j + 1/2)), theta = pi k / n, k = 1 ... n (DST-II);

all with lambda = -(4 nu / h^2) sin^2(theta / 2) for diffusion, and on periodic axes the symbol of the advection scheme
added. A source s that is constant in time adds dt (1 + R + ... + R^(T-1)) Q(z) times its coefficients, with
Q = (R(z) - 1) / z a polynomial too, so that z = 0 is no exception. See W. L. Briggs, V. E. Henson, "The DFT: An Owner's
Manual", SIAM (1995), and G. Strang, "The discrete cosine transform", SIAM Rev. 41 (1999) 135.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops import _compiler, boundary
from spectralops._plans import stability, transform
from spectralops._plans.geometry import Geometry
from spectralops._plans.grid import Grid, sampled
from spectralops._plans.schemes import DERIVATIVE, STAGES
from spectralops._plans.terms import Advection, Diffusion, Field, SelfAdvection, Source, Term
from spectralops.errors import UnsupportedError

__all__ = ["SpectralAdvance", "choose", "crossover", "refusal"]

# Right-hand sides that cost as much as the forward and inverse transform with the product, from which on method="auto"
# turns to the spectrum. Measured on one core, grids of 64 to 4096 cells along an axis, float32 and float64: 18 to 51
# compiled stencils (6 to 9 in three dimensions) for the vector engine, 33 to 82 (12 to 40) for scipy.fft, 2 to 5
# whole-array stencils.
CROSSOVER = {
    ("vector", 1): 40,
    ("vector", 2): 30,
    ("vector", 3): 10,
    ("scipy", 1): 50,
    ("scipy", 2): 50,
    ("scipy", 3): 25,
}
PLAIN_CROSSOVER = 4
# On a device both are bound by memory: a transform is four to eight passes, a compiled sweep advances several levels.
DEVICE_CROSSOVER = 50

CLOSED = (boundary.Reflect(), boundary.Neumann(0.0), boundary.Outflow())
KINDS = {"periodic": "FFT", "closed": "DCT-II", "zero": "DST-II"}


def _kind(low: boundary.Condition, high: boundary.Condition) -> str | None:
    """Which modes an axis has; None if none of the transforms has them."""
    if isinstance(low, boundary.Periodic):
        return "periodic"
    if low in CLOSED and high in CLOSED:
        return "closed"
    return "zero" if low == high == boundary.Dirichlet(0.0) else None


def refusal(geometry: Geometry, terms: tuple[Term, ...]) -> str | None:
    """Why a step cannot be taken by its spectrum, None if it can."""
    if geometry.mask is not None:
        return "a mask closes faces"
    walls = []
    for axis, (low, high) in zip(geometry.axes, geometry.conditions, strict=True):
        kind = _kind(low, high)
        if kind is None:
            return (
                f"the ends of axis {axis} are {low} and {high}, not Periodic(), nor both closed (Reflect(), "
                "Neumann(0.0)), nor both Dirichlet(0.0)"
            )
        walls.append(kind != "periodic")
    for term in terms:
        if isinstance(term, Diffusion):
            if isinstance(term.nu, Field) and term.nu.operand not in geometry.constant:
                return "nu varies along the stepped axes"
        elif isinstance(term, Advection):
            if term.scheme not in DERIVATIVE:
                return f"the scheme {term.scheme!r} is not linear"
            if not all(isinstance(v, float) for v in term.velocity):
                return "the velocity is an array"
            if any(wall and v != 0.0 for wall, v in zip(walls, term.velocity, strict=True)):
                return "the velocity crosses the ends of an axis that is not periodic"
        elif isinstance(term, SelfAdvection):
            return "u carries itself, which is not linear"
        elif not isinstance(term, Source):
            return "a pointwise term need not be linear"
    if 0 in (geometry.shape[axis] for axis in geometry.axes):
        return "a stepped axis is empty"
    return None


def crossover(geometry: Geometry, terms: tuple[Term, ...]) -> int:
    """How many right-hand sides cost as much as the spectrum, by who computes both."""
    if geometry.backend in ("cupy", "cuda"):
        return DEVICE_CROSSOVER
    if geometry.backend != "cpu" or _compiler.unavailable():
        return PLAIN_CROSSOVER
    fused = all(isinstance(low, boundary.Periodic) for low, _ in geometry.conditions) and not any(
        isinstance(term, Diffusion) and isinstance(term.nu, Field) for term in terms
    )
    return CROSSOVER["vector" if fused else "scipy", min(len(geometry.axes), 3)]


def choose(
    geometry: Geometry, terms: tuple[Term, ...], integrator: str, steps: int, method: str, backend: str | None
) -> str:
    """``"stencil"`` or ``"spectral"``: what the caller's method comes to on the caller's `backend`.

    Raises
    ------
    UnsupportedError
        If the method is ``"spectral"`` and the step, or the backend asked for, does not have it.
    """
    if method == "stencil":
        return method
    reason = refusal(geometry, terms)
    if reason is None and backend == "cuda":
        reason = "backend 'cuda' has stencils only"
    if method == "auto" and (reason or steps * STAGES[integrator] < crossover(geometry, terms)):
        return "stencil"
    if reason:
        raise UnsupportedError(f"{geometry.op}: method is 'spectral', but must be 'stencil' or 'auto', since {reason}")
    return "spectral"


@dataclass(frozen=True, slots=True)
class SpectralAdvance:
    """How the executors take the steps of a plan by their spectrum.

    Attributes
    ----------
    shape : tuple of int
        Shape of u.
    walls : tuple of (axis, kind)
        Axes with a ``"closed"`` (DCT-II) or ``"zero"`` (DST-II) kind of end.
    periodic : tuple of int
        The other stepped axes; the spectrum is halved along the last.
    spacing : tuple of float
        Cell size of the walls' axes, then of the periodic ones [L].
    nu : float
        Sum of the diffusivities that are numbers [L^2/T].
    instances : tuple of int
        Operands with a diffusivity for each instance.
    advection : tuple of (velocity, scheme)
        Velocity along the same axes as `spacing` [L/T].
    rate : float
        Sum of the sources that are numbers.
    sources : tuple of int
        Operands with the other sources.
    integrator, dt, steps
        As in the plan.
    """

    shape: tuple[int, ...]
    walls: tuple[tuple[int, str], ...]
    periodic: tuple[int, ...]
    spacing: tuple[float, ...]
    nu: float
    instances: tuple[int, ...]
    advection: tuple[tuple[tuple[float, ...], str], ...]
    rate: float
    sources: tuple[int, ...]
    integrator: str
    dt: float
    steps: int

    @classmethod
    def of(cls, geometry: Geometry, terms: tuple[Term, ...], integrator: str, dt: float, steps: int) -> SpectralAdvance:
        """The advance of a step that :func:`refusal` has nothing against."""
        kinds = [_kind(low, high) or "" for low, high in geometry.conditions]
        order = sorted(range(len(kinds)), key=lambda j: kinds[j] == "periodic")
        nus = [term.nu for term in terms if isinstance(term, Diffusion)]
        rates = [term.rate for term in terms if isinstance(term, Source)]
        winds = [term for term in terms if isinstance(term, Advection)]
        return cls(
            shape=geometry.shape,
            walls=tuple((geometry.axes[j], kinds[j]) for j in order if kinds[j] != "periodic"),
            periodic=tuple(geometry.axes[j] for j in order if kinds[j] == "periodic"),
            spacing=tuple(geometry.spacing[j] for j in order),
            nu=sum(nu for nu in nus if not isinstance(nu, Field)),
            instances=tuple(nu.operand for nu in nus if isinstance(nu, Field)),
            advection=tuple((tuple(term.velocity[j] for j in order), term.scheme) for term in winds),
            rate=sum(rate for rate in rates if not isinstance(rate, Field)),
            sources=tuple(rate.operand for rate in rates if isinstance(rate, Field)),
            integrator=integrator,
            dt=dt,
            steps=steps,
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The stepped axes in the order of the other attributes."""
        return (*(axis for axis, _ in self.walls), *self.periodic)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells along each of the axes."""
        return tuple(self.shape[axis] for axis in self.axes)

    @property
    def grid(self) -> Grid:
        """Where the eigenvalues lie: along the dimensions of the array from the first stepped axis on."""
        return Grid.of_axes(self.sizes, self.spacing, bool(self.periodic), self.axes, len(self.shape))

    @property
    def keeps_constants(self) -> bool:
        """Whether a uniform field is a mode with eigenvalue 0: no axis has zero ends."""
        return all(kind == "closed" for _, kind in self.walls)

    @property
    def shift(self) -> float:
        """What sources that are numbers add to a field whose uniform part is a mode."""
        return self.steps * self.dt * self.rate

    @property
    def has_source_field(self) -> bool:
        """Whether the source needs a transform of its own."""
        return bool(self.sources) or (self.rate != 0.0 and not self.keeps_constants)

    @property
    def flops(self) -> int:
        """Nominal operations: both transforms of each instance and six for each coefficient's product."""
        cells = int(np.prod(self.shape, dtype=object))
        each = int(np.prod(self.sizes, dtype=object))
        return cells // each * 2 * transform.fft_flops(self.sizes, True) + 6 * cells if cells else 0

    def _angles(self, j: int) -> np.ndarray[Any, Any]:
        """Phase per cell of the modes along the j-th axis."""
        n = self.sizes[j]
        if j < len(self.walls):
            first = 1 if self.walls[j][1] == "zero" else 0
            return np.arange(first, n + first) * (np.pi / n)
        return self.grid.indices()[j] * (2 * np.pi / n)

    def eigenvalues(self, nu: float, advection: tuple[tuple[tuple[float, ...], str], ...] = ()) -> np.ndarray[Any, Any]:
        """The product dt * lambda of every mode: real without advection."""
        total: Any = 0.0
        for j, h in enumerate(self.spacing):
            winds = tuple((velocity[j], scheme) for velocity, scheme in advection)
            total = total + self.grid.along(j, stability.symbol(self._angles(j), h, nu, winds))
        return np.asarray(self.dt * (total if advection else total.real))

    def propagate(self, z: Any) -> tuple[Any, Any]:
        """R(z)^T and dt (1 + R + ... + R^(T-1)) Q(z), by squaring: the error grows no faster than the power."""
        with np.errstate(all="ignore"):  # an unstable step may overflow, as it does by the stencil
            factor = stability.amplification(z, self.integrator)
            power, total = factor, 1.0 + 0.0 * z
            for bit in bin(self.steps)[3:]:
                total = total * (1.0 + power)
                power = power * power
                if bit == "1":
                    total = total * factor + 1.0
                    power = power * factor
            if not self.has_source_field:
                return power, None
            quotient = 0.0 * z
            for coefficient in reversed(stability.POLYNOMIAL[self.integrator][1:]):
                quotient = quotient * z + coefficient
            return power, self.dt * quotient * total

    def sample(self, grid: Grid) -> tuple[np.ndarray[Any, Any], ...]:
        """What the coefficients of u, and of the source if there is one, are multiplied by."""
        power, total = self.propagate(self.eigenvalues(self.nu, self.advection))
        return (power,) if total is None else (power, total)

    def multipliers(self, arrays: tuple[Any, ...], dtype: str, asarray: Any) -> tuple[Any, ...]:
        """The same as arrays of the executor's library in the precision of the real `dtype`.

        `arrays` are the plan's operands; those with a diffusivity for each instance enter here.
        """
        if not self.instances:
            return tuple(asarray(factor) for factor in sampled(self, self.grid, dtype))
        z = asarray(self.eigenvalues(self.nu, self.advection))
        unit = asarray(self.eigenvalues(1.0))
        for place in self.instances:
            z = z + arrays[place] * unit
        complex_dtype = np.result_type(dtype, np.complex64)
        return tuple(
            factor.astype(complex_dtype if self.advection else dtype)
            for factor in self.propagate(z)
            if factor is not None
        )

    def explain(self) -> list[str]:
        """What runs, in words, one fact a line."""
        kinds = [f"{KINDS[kind]} along axis {axis}" for axis, kind in self.walls]
        kinds += [f"FFT along axis {axis}" for axis in self.periodic]
        lines = [
            f"method 'spectral': {', '.join(kinds)}; each mode times the scheme's amplification factor to the power "
            f"{self.steps}; agrees with the steps to rounding errors"
        ]
        if self.has_source_field:
            lines.append("source: transformed too, times the sum of the powers")
        return lines
