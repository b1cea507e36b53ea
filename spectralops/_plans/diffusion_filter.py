"""Plans of diffusion_filter: a polynomial of the discrete Laplacian that approximates a transfer function."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from spectralops import _arrays, _checks, _compiler, _dispatch, _support, boundary
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import fields, polynomial, transform
from spectralops._plans.memo import memoised
from spectralops._plans.recurrence import Recurrence
from spectralops.errors import UnsupportedError

__all__ = ["DiffusionFilterPlan", "Metric", "plan_diffusion_filter"]

OP = "diffusion_filter"
# Far more than any use, and few enough for the coefficients to be found in a second.
MOST_STEPS = 10_000

# A number, or the name of the operand that holds the values.
Value: TypeAlias = float | str


@dataclass(frozen=True, eq=False, slots=True)
class Metric:
    r"""Sizes of the cells of a curvilinear grid, for a Laplacian in flux form.

    :math:`\Delta u` in a cell is the sum over its faces of :math:`\kappa\, w\, (u_{neighbour} - u) / l`, divided by its
    area: w is the width of a face, l the distance between the cell centres on both sides. Every array broadcasts
    against the field and holds, for each cell, the values of its lower face along an axis: the south face along y, the
    west face along x.

    Parameters
    ----------
    area : float or array
        Area of the cells [L^2] (volume, with three axes).
    widths : sequence of float or array
        For each axis, in the order of `axes`: width of the lower face of each cell [L]. For axes (y, x): south, west.
    lengths : sequence of float or array
        For each axis: distance from the lower neighbour's centre to the cell's own [L].
    kappa : float or array, or sequence of them
        For each axis: factor of the squared filter scale at the lower face, 0 to 1. One value serves every axis.

    Notes
    -----
    The arrays are arguments of the operator, so they must be of the same library and device as the field. Values at
    closed faces and on land are never looked at.

    References
    ----------
    .. [1] I. Grooms et al., "Diffusion-based smoothers for spatial filtering of gridded geophysical data", J. Adv.
       Model. Earth Syst. 13 (2021), doi:10.1029/2021MS002552.

    Examples
    --------
    >>> import numpy as np, spectralops as so
    >>> cosine = np.cos(np.radians([[60.0], [61.0]]))
    >>> metric = so.Metric(area=cosine, widths=(cosine, 1.0), lengths=(1.0, cosine))
    """

    area: Any
    widths: Any
    lengths: Any
    kappa: Any = 1.0

    def entries(self) -> dict[str, Any]:
        """Every number and array with the name of the operand that it becomes."""
        per_face = {"widths": self.widths, "lengths": self.lengths, "kappa": self.kappa}
        named = {"metric.area": self.area}
        for name, value in per_face.items():
            if isinstance(value, list | tuple):
                named |= {f"metric.{name}[{j}]": part for j, part in enumerate(value)}
            else:
                named[f"metric.{name}"] = value
        return named


@dataclass(frozen=True, slots=True)
class FaceValues:
    """A plan's form of :class:`Metric`: numbers, and names of operands."""

    area: Value
    widths: tuple[Value, ...]
    lengths: tuple[Value, ...]
    kappa: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class DiffusionFilterPlan:
    """The plan of one filter: what a call with these shapes, dtypes and options will do.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        The field u, then the mask and the arrays of the metric.
    shape : tuple of int
        Shape of u and of the result.
    out_dtype, compute_dtype : str
        dtype of the result and of the arithmetic.
    axes : tuple of int
        Filtered axes, nonnegative, in the caller's order.
    spacing : tuple of float
        Cell size along each of them, with a metric the smallest [L].
    periodic : tuple of bool
        Whether the ends of each of them meet; otherwise they are walls without flux.
    metric : FaceValues or None
        Face widths, distances, cell areas.
    filter_scale, transition_width : float
        The caller's.
    filter_shape : str
        ``"gaussian"`` or ``"taper"``.
    coefficients : tuple of float
        c_0 ... c_n of the polynomial, sum of c_k T_k(2 s / s_max - 1) in Chebyshev's T_k, s being minus the Laplacian.
    transposed : bool
        Whether this is the adjoint: multiplied by the area after, divided by it before.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    shape: tuple[int, ...]
    out_dtype: str
    compute_dtype: str
    axes: tuple[int, ...]
    spacing: tuple[float, ...]
    periodic: tuple[bool, ...]
    metric: FaceValues | None
    filter_scale: float
    filter_shape: str
    transition_width: float
    coefficients: tuple[float, ...]
    transposed: bool

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of u."""
        return self.shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.shape

    @property
    def in_place(self) -> bool:
        """Whether `out` may be u: no."""
        return False

    @property
    def n_steps(self) -> int:
        """Degree of the polynomial: how often the Laplacian is applied."""
        return len(self.coefficients) - 1

    @property
    def s_max(self) -> float:
        """Upper end of the spectrum of minus the Laplacian: the squared wavenumber of the finest wave, with d axes."""
        return polynomial.largest_eigenvalue(self.spacing)

    @property
    def halo(self) -> tuple[int, ...]:
        """How many cells away, along each axis of u, a result depends on it."""
        return tuple(self.n_steps if axis in self.axes else 0 for axis in range(len(self.shape)))

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: every operand in, the result out."""
        read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in self.operands)
        return read + _checks.nbytes(self.shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Operations on u: in each step the Laplacian, the recurrence and the sum; the mask not counted."""
        laplacian = 4 * len(self.axes) + (0 if self.metric is None else 1)
        return math.prod(self.shape) * self.n_steps * (laplacian + 4)

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element."""
        return _checks.index_bits(self.shape)

    @property
    def has_mask(self) -> bool:
        """Whether one of the operands is a mask."""
        return any(operand.name == "mask" for operand in self.operands)

    @property
    def form(self) -> str:
        """Which Laplacian: ``"open"``, ``"coast"`` with a mask, ``"flux"`` with a metric."""
        return "flux" if self.metric is not None else "coast" if self.has_mask else "open"

    def response(self, s: Any) -> np.ndarray[Any, Any]:
        """The factor p(s) by which an eigenfunction of the Laplacian with eigenvalue -s is multiplied."""
        s = np.asarray(s, np.float64)
        return np.asarray(np.polynomial.chebyshev.chebval(2.0 * s / self.s_max - 1.0, np.array(self.coefficients)))

    def target(self, s: Any) -> np.ndarray[Any, Any]:
        """The transfer function that :meth:`response` approximates, at the squared wavenumber s."""
        return polynomial.target(np.asarray(s, np.float64), self.filter_scale, self.filter_shape, self.transition_width)

    def recurrence(self, arrays: tuple[Any, ...], xp: Any, coasts: bool = True) -> Recurrence:
        """What an executor computes with, from the native operands, arrays of the library xp.

        Without `coasts` the form ``"coast"`` has no field of the cells, which the executor then forms itself.
        """
        return Recurrence.of(self, arrays, xp, coasts)

    def adjoint(self) -> DiffusionFilterPlan:
        """The plan of the adjoint operator A*, with <A u, w> = <u, A* w>: the same filter between areas."""
        return replace(self, transposed=not self.transposed) if self.metric is not None else self

    def explain(self) -> str:
        """What runs, in words, one fact a line."""
        samples = np.linspace(0.0, self.s_max, 1001)
        error = float(np.abs(self.response(samples) - self.target(samples)).max())
        lines = [
            f"{OP}: {self.out_dtype} {self.shape} on backend {self.backend!r}, arithmetic in {self.compute_dtype}",
            f"  filter: {self.filter_shape} of scale {self.filter_scale:g}, along axes {self.axes}"
            + (f", transition width {self.transition_width:g}" if self.filter_shape == "taper" else ""),
            f"  polynomial: {self.n_steps} Laplacians by Chebyshev's recurrence, within {error:.2g} of the target",
            f"  grid: {'metric given, ' if self.metric else ''}dx = {self.spacing}"
            + (", adjoint" if self.transposed else ""),
        ]
        lines += [
            f"  axis {axis}: {'periodic' if periodic else 'closed at both ends'}"
            for axis, periodic in zip(self.axes, self.periodic, strict=True)
        ]
        if self.has_mask:
            lines.append("  mask: faces to cells that are False are closed, their values kept")
        if self.backend in ("cpu", "cuda"):
            lines.append(f"  runs: {_support.algorithm(self)}")
        elif reason := _support.passed_over(self):
            lines.append(f"  runs: operations of CuPy, one after another (no kernels: {reason})")
        lines.append(
            f"  moves at least {self.bytes_moved} bytes, {self.flops} operations, {self.index_bits}-bit offsets"
        )
        return "\n".join(lines)

    def __call__(self, u: Any, *operands: Any, out: Any = None, workers: int | None = None) -> Any:
        """Filter u, given the mask and the metric's arrays as the operator was."""
        return _dispatch.execute(self, (u, *operands), out=out, workers=workers)


def plan_diffusion_filter(
    shape: Any,
    dtype: Any,
    filter_scale: Any,
    dx: Any,
    *,
    filter_shape: Any,
    transition_width: Any,
    n_steps: Any,
    bc: Any,
    mask: Any,
    metric: Any,
    axes: Any,
    backend: str | None,
    device: str,
    default: str = "float64",
) -> DiffusionFilterPlan:
    """The plan of :func:`spectralops.diffusion_filter`; `default` is the dtype that integers become."""
    make = _plan if metric is None else _plan.__wrapped__  # a cached plan would keep the metric's arrays alive
    return make(
        shape, dtype, filter_scale, dx, filter_shape, transition_width, n_steps, bc, fields.as_spec(OP, "mask", mask),
        metric, axes, backend, device, default,
    )  # fmt: skip


@memoised
def _plan(
    shape: Any,
    dtype: Any,
    filter_scale: Any,
    dx: Any,
    filter_shape: Any,
    transition_width: Any,
    n_steps: Any,
    bc: Any,
    mask: Any,
    metric: Any,
    axes: Any,
    backend: str | None,
    device: str,
    default: str,
) -> DiffusionFilterPlan:
    sizes = _checks.shape(OP, shape)
    out_dtype = _checks.inexact_dtype(OP, dtype, "u", default)
    if metric is not None and not isinstance(metric, Metric):
        raise TypeError(f"{OP}: metric is a {type(metric).__name__}, but must be a Metric")
    counts = {"dx": _checks.entries(dx)}
    if metric is not None:
        counts |= {f"metric.{name}": _faces(metric, name) for name in ("widths", "lengths")}
    where = _checks.axes(OP, axes, len(sizes), counts, "u")
    spacing = fields.spacing(OP, dx, len(where))
    scale = _checks.length(OP, "filter_scale", filter_scale)
    kind = _checks.choice(OP, "filter_shape", filter_shape, polynomial.SHAPES)
    width = _checks.number(OP, "transition_width", transition_width)
    if width <= 1.0:
        raise ValueError(f"{OP}: transition_width is {width}, but must be above 1; pi is a good choice")
    specs: dict[str, ArraySpec] = {}
    masked = fields.mask_spec(OP, mask, sizes)
    if masked is not None:
        specs["mask"] = masked
    faces = None if metric is None else _face_values(metric, sizes, len(where), specs)
    if n_steps is None:
        count = polynomial.default_steps(spacing, scale, kind, width)
        if count > MOST_STEPS:
            raise ValueError(
                f"{OP}: filter_scale is {scale} for dx = {_checks.shown(dx)}, which takes {count:.3g} Laplacians, but "
                f"must take at most {MOST_STEPS}; filter on a coarser grid"
            )
    else:
        count = _checks.integer(OP, "n_steps", n_steps, 1, MOST_STEPS)
    return _build(
        sizes,
        _checks.dtype(OP, dtype, "u"),
        out_dtype,
        tuple(specs.items()),
        where,
        spacing,
        tuple(_is_periodic(pair) for pair in boundary.sides(OP, bc, where, len(sizes))),
        faces,
        scale,
        kind,
        width,
        count,
        backend,
        transform.device_kind(OP, device),
    )


def _faces(metric: Metric, name: str) -> int:
    value = getattr(metric, name)
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{OP}: metric.{name} is a {type(value).__name__}, but must be a sequence with one entry per axis"
        )
    return len(value)


def _face_values(metric: Metric, sizes: tuple[int, ...], count: int, specs: dict[str, ArraySpec]) -> FaceValues:
    """The metric with arrays replaced by their names, under which their specifications are put into `specs`."""
    found: dict[str, Value] = {}
    for name, value in metric.entries().items():
        canonical = fields.coefficient(OP, name, value, sizes)
        if isinstance(canonical, ArraySpec):
            specs[name] = canonical
            found[name] = name
        elif name.startswith("metric.kappa"):
            found[name] = _checks.nonnegative(OP, name, canonical)
        else:
            found[name] = _checks.positive(OP, name, canonical)

    def per_axis(name: str) -> tuple[Value, ...]:
        single = found.get(f"metric.{name}")
        return tuple(found[f"metric.{name}[{j}]"] if single is None else single for j in range(count))

    if isinstance(metric.kappa, list | tuple):
        _checks.per_axis(OP, "metric.kappa", metric.kappa, count)
    return FaceValues(found["metric.area"], per_axis("widths"), per_axis("lengths"), per_axis("kappa"))


def _is_periodic(pair: boundary.Sides) -> bool:
    for side in pair:
        if not isinstance(side, boundary.Periodic | boundary.Reflect) and side != boundary.Neumann(0.0):
            raise ValueError(f"{OP}: bc is {side}, but must be Periodic(), Reflect() or Neumann(0.0), which conserve")
    return isinstance(pair[0], boundary.Periodic)


@memoised
def _build(
    shape: tuple[int, ...],
    dtype: str,
    out_dtype: str,
    specs: tuple[tuple[str, ArraySpec], ...],
    axes: tuple[int, ...],
    spacing: tuple[float, ...],
    periodic: tuple[bool, ...],
    metric: FaceValues | None,
    filter_scale: float,
    filter_shape: str,
    transition_width: float,
    n_steps: int,
    backend: str | None,
    device: str,
) -> DiffusionFilterPlan:
    chosen = _support.select(OP, out_dtype, device, backend)
    reason = _refusal(axes) if chosen == "cpu" else ""
    if reason and backend == "cpu":
        raise UnsupportedError(f"{OP}: backend is 'cpu', but must be 'numpy' for this filter: {reason}")
    if reason:
        chosen = "numpy"
    compute = _checks.compute_dtype(out_dtype)
    operands = [Operand("u", ArraySpec(shape, dtype), compute)]
    operands += [Operand(name, spec, "bool" if name == "mask" else compute) for name, spec in specs]
    plan = DiffusionFilterPlan(
        op=OP,
        backend=chosen,
        operands=tuple(operands),
        shape=shape,
        out_dtype=out_dtype,
        compute_dtype=compute,
        axes=axes,
        spacing=spacing,
        periodic=periodic,
        metric=metric,
        filter_scale=filter_scale,
        filter_shape=filter_shape,
        transition_width=transition_width,
        coefficients=polynomial.coefficients(
            polynomial.largest_eigenvalue(spacing), n_steps, filter_scale, filter_shape, transition_width
        ),
        transposed=False,
    )
    return _support.settled(plan, backend)


def _refusal(axes: tuple[int, ...]) -> str:
    """Why compiled kernels do not run a filter, in words; empty where they do."""
    if len(axes) > 3:
        return f"it is along {len(axes)} axes, and compiled kernels have at most 3"
    return _compiler.unavailable()


def operand_arrays(mask: Any, metric: Metric | None) -> tuple[Any, ...]:
    """The arrays among the arguments in the order of a plan's operands."""
    given = [mask, *(() if metric is None else metric.entries().values())]
    return tuple(value for value in given if _arrays.is_array(value))
