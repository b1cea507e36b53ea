"""Plans of gradient, divergence and laplacian: central differences of second order with ghosts at the boundary."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from spectralops import _arrays, _checks, _dispatch, _support, boundary
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import fields, transform
from spectralops._plans.memo import memoised

__all__ = ["StencilPlan", "plan_divergence", "plan_gradient", "plan_laplacian"]

# Rules of the ghost below and above, for each axis.
Ghosts: TypeAlias = tuple[tuple[boundary.GhostRule, boundary.GhostRule], ...]

# What adjoint() makes of an operator, and the sign that comes with it.
ADJOINTS = {"gradient": ("divergence", -1.0), "divergence": ("gradient", -1.0), "laplacian": ("laplacian", 1.0)}
# Operations for each cell and axis; adding up the axes of a sum costs one less.
FLOPS = {"gradient": 2, "divergence": 3, "laplacian": 5}
FLOPS_OF_NU = 6


@dataclass(frozen=True, slots=True)
class StencilPlan:
    """The plan of one difference operator: what a call with these shapes, dtypes and options will do.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        The field (of a divergence: all components as one array, or one operand each), then nu and mask if they are
        arrays.
    in_shape, out_shape : tuple of int
        Shapes of the field and of the result; a vector field has its components along the first axis.
    out_dtype, compute_dtype : str
        dtype of the result and of the arithmetic.
    axes : tuple of int
        Axes of the scalar field along which differences are taken, nonnegative, in the caller's order.
    spacing : tuple of float
        Cell size along each of them [L].
    ghosts : tuple of (low, high)
        Rule of the ghost cell beyond either end of each of them.
    factor : float
        What the result is multiplied by: a constant nu, the sign of an adjoint.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    compute_dtype: str
    axes: tuple[int, ...]
    spacing: tuple[float, ...]
    ghosts: Ghosts
    factor: float

    @property
    def in_place(self) -> bool:
        """Whether `out` may be the field: no."""
        return False

    @property
    def scalar_shape(self) -> tuple[int, ...]:
        """Shape of the scalar field, or of one component of the vector field."""
        return min(self.in_shape, self.out_shape, key=len)

    @property
    def halo(self) -> tuple[int, ...]:
        """How many cells away, along each axis of the field, a result depends on it."""
        reach = tuple(int(axis in self.axes) for axis in range(len(self.scalar_shape)))
        return (0,) * (len(self.in_shape) - len(reach)) + reach

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: every operand in, the result out."""
        read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in self.operands)
        return read + _checks.nbytes(self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Operations on the elements of the field, masks not counted."""
        each = FLOPS[self.op] + (FLOPS_OF_NU if self.place("nu") is not None else 0)
        summed = 0 if self.op == "gradient" else 1
        return math.prod(self.scalar_shape) * (each * len(self.axes) - summed)

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element."""
        return _checks.index_bits(self.in_shape, self.out_shape)

    def place(self, name: str) -> int | None:
        """Position of an operand, None if there is none of this name."""
        return next((j for j, operand in enumerate(self.operands) if operand.name == name), None)

    def adjoint(self) -> StencilPlan:
        """The plan of the adjoint A* of the operator's linear part, with <A u, w> = <u, A* w>.

        The gradient's is minus the divergence whose ghosts have the opposite sign, and the reverse: a closed wall
        for u is one that no flux of w crosses. The Laplacian is its own. Inhomogeneous boundary data do not belong
        to the linear part and drop out.
        """
        op, sign = ADJOINTS[self.op]
        flip = -1.0 if op != self.op else 1.0
        ghosts = tuple((_dual(low, flip), _dual(high, flip)) for low, high in self.ghosts)
        name = "v" if op == "divergence" else "u"
        first = Operand(name, ArraySpec(self.out_shape, self.out_dtype), self.compute_dtype)
        rest = tuple(operand for operand in self.operands if operand.name in ("nu", "mask"))
        return replace(
            self,
            op=op,
            operands=(first, *rest),
            in_shape=self.out_shape,
            out_shape=self.in_shape,
            ghosts=ghosts,
            factor=sign * self.factor,
        )

    def explain(self) -> str:
        """What runs, in words, one fact a line."""
        nu = "a field nu, averaged onto the faces" if self.place("nu") is not None else f"the factor {self.factor:g}"
        lines = [
            f"{self.op}: {self.out_dtype} {self.in_shape} -> {self.out_shape} on backend {self.backend!r}, "
            f"arithmetic in {self.compute_dtype}",
            f"  stencil: central differences of second order along axes {self.axes} with dx = {self.spacing}, "
            f"times {nu}",
        ]
        lines += [
            f"  axis {axis}: ghosts {_in_words(low)} below, {_in_words(high)} above"
            for axis, (low, high) in zip(self.axes, self.ghosts, strict=True)
        ]
        if self.place("mask") is not None:
            lines.append("  mask: faces to cells that are False are closed")
        lines.append(
            f"  moves at least {self.bytes_moved} bytes, {self.flops} operations, {self.index_bits}-bit offsets"
        )
        return "\n".join(lines)

    def __call__(self, u: Any, *operands: Any, out: Any = None, workers: int | None = None) -> Any:
        """Run the operator on the field and the other operands, in call order."""
        return _dispatch.execute(self, (u, *operands), out=out, workers=workers)


def _dual(rule: boundary.GhostRule, flip: float) -> boundary.GhostRule:
    scale = rule.scale if rule.source == "wrap" else flip * rule.scale
    return boundary.GhostRule(rule.source, scale)


def _in_words(rule: boundary.GhostRule) -> str:
    if rule.source == "wrap":
        return "wrap"
    return f"{rule.scale:g} * end cell + {rule.offset:g}"


def plan_gradient(
    shape: Any,
    dtype: Any,
    dx: Any,
    *,
    bc: Any,
    mask: Any = None,
    axes: Any = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> StencilPlan:
    """The plan of :func:`spectralops.gradient`; `default` is the dtype that integers become."""
    mask = fields.as_spec("gradient", "mask", mask)
    return _of_scalar("gradient", shape, dtype, dx, None, bc, mask, axes, backend, device, default)


def plan_laplacian(
    shape: Any,
    dtype: Any,
    dx: Any,
    *,
    nu: Any = None,
    bc: Any,
    mask: Any = None,
    axes: Any = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> StencilPlan:
    """The plan of :func:`spectralops.laplacian`; `default` is the dtype that integers become."""
    nu, mask = fields.as_spec("laplacian", "nu", nu), fields.as_spec("laplacian", "mask", mask)
    return _of_scalar("laplacian", shape, dtype, dx, nu, bc, mask, axes, backend, device, default)


@memoised
def _of_scalar(
    op: str,
    shape: Any,
    dtype: Any,
    dx: Any,
    nu: Any,
    bc: Any,
    mask: Any,
    axes: Any,
    backend: str | None,
    device: str,
    default: str,
) -> StencilPlan:
    sizes = _checks.shape(op, shape)
    where = _checks.axes(op, axes, len(sizes), {"dx": _checks.entries(dx)}, "u")
    return _build(
        op,
        sizes,
        (sizes,),
        ("u",),
        _checks.dtype(op, dtype, "u"),
        _checks.inexact_dtype(op, dtype, "u", default),
        1.0 if nu is None else fields.coefficient(op, "nu", nu, sizes),
        fields.mask_spec(op, mask, sizes),
        where,
        fields.spacing(op, dx, len(where)),
        boundary.sides(op, bc, where, len(sizes)),
        backend,
        transform.device_kind(op, device),
    )


def plan_divergence(
    shape: Any,
    dtype: Any,
    dx: Any,
    *,
    bc: Any,
    mask: Any = None,
    axes: Any = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> StencilPlan:
    """The plan of :func:`spectralops.divergence`; `default` is the dtype that integers become."""
    return _of_vector(shape, dtype, dx, bc, fields.as_spec("divergence", "mask", mask), axes, backend, device, default)


@memoised
def _of_vector(
    shape: Any, dtype: Any, dx: Any, bc: Any, mask: Any, axes: Any, backend: str | None, device: str, default: str
) -> StencilPlan:
    op = "divergence"
    sizes, apart = _component_shape(op, shape)
    count = len(shape) if apart else _checks.shape(op, shape)[0]
    where = _checks.axes(op, axes, len(sizes), {"v": count, "dx": _checks.entries(dx)}, "each component of v")
    names = tuple(f"v[{j}]" for j in range(count)) if apart else ("v",)
    return _build(
        op,
        sizes,
        (sizes,) * count if apart else ((count, *sizes),),
        names,
        _checks.dtype(op, dtype, "v"),
        _checks.inexact_dtype(op, dtype, "v", default),
        1.0,
        fields.mask_spec(op, mask, sizes),
        where,
        fields.spacing(op, dx, len(where)),
        boundary.sides(op, bc, where, len(sizes)),
        backend,
        transform.device_kind(op, device),
    )


def _component_shape(op: str, shape: Any) -> tuple[tuple[int, ...], bool]:
    """Shape of one component, and whether `shape` lists the shapes of components that are arrays of their own."""
    if _checks.entries(shape) and all(isinstance(part, Iterable) for part in shape):
        parts = [_checks.shape(op, part) for part in shape]
        for j, part in enumerate(parts):
            if part != parts[0]:
                raise ValueError(f"{op}: v[{j}] has shape {part}, but must have shape {parts[0]} like v[0]")
        return parts[0], True
    sizes = _checks.shape(op, shape)
    if len(sizes) < 2:
        raise ValueError(
            f"{op}: v has shape {sizes}, but must have at least 2 dimensions, the components along the first"
        )
    return sizes[1:], False


@memoised
def _build(
    op: str,
    scalar_shape: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...],
    names: tuple[str, ...],
    dtype: str,
    out_dtype: str,
    nu: float | ArraySpec,
    mask: ArraySpec | None,
    axes: tuple[int, ...],
    spacing: tuple[float, ...],
    conditions: tuple[boundary.Sides, ...],
    backend: str | None,
    device: str,
) -> StencilPlan:
    chosen = _support.select(op, out_dtype, device, backend)
    if any(isinstance(side, boundary.Hold) for pair in conditions for side in pair):
        raise ValueError(
            f"{op}: bc is Hold(), but must say what lies beyond the face, since there is no step that could keep the "
            "end cell; use Outflow(), or Dirichlet(value) for a known value"
        )
    compute = _checks.compute_dtype(out_dtype)
    real = _checks.real_dtype(compute)
    operands = [Operand(name, ArraySpec(shape, dtype), compute) for name, shape in zip(names, shapes, strict=True)]
    if isinstance(nu, ArraySpec):
        operands.append(Operand("nu", nu, real))
    if mask is not None:
        operands.append(Operand("mask", mask, "bool"))
    rules = boundary.ghosts(op, conditions, spacing, {axis: scalar_shape[axis] for axis in axes}, (1,) * len(axes))
    vector = (len(axes), *scalar_shape)
    return StencilPlan(
        op=op,
        backend=chosen,
        operands=tuple(operands),
        in_shape=vector if op == "divergence" else scalar_shape,
        out_shape=vector if op == "gradient" else scalar_shape,
        out_dtype=out_dtype,
        compute_dtype=compute,
        axes=axes,
        spacing=spacing,
        ghosts=tuple((low[0], high[0]) for low, high in rules),
        factor=nu if isinstance(nu, float) else 1.0,
    )


def components(op: str, v: Any) -> tuple[tuple[Any, ...], _arrays.Home, Any, str]:
    """The arrays of a vector field, their home, and the shape and dtype to plan it with.

    `v` is one array with the components along its first axis, or a sequence with one array for each.
    """
    if isinstance(v, list | tuple) and v and all(_arrays.is_array(part) for part in v):
        found = [_arrays.describe(op, f"v[{j}]", part) for j, part in enumerate(v)]
        home = _arrays.common_home(op, {f"v[{j}]": where for j, (where, _) in enumerate(found)})
        for j, (_, spec) in enumerate(found):
            if spec.dtype != found[0][1].dtype:
                raise TypeError(
                    f"{op}: v[{j}] has dtype {spec.dtype}, but must have dtype {found[0][1].dtype} like v[0]"
                )
        return tuple(v), home, tuple(spec.shape for _, spec in found), found[0][1].dtype
    home, spec = _arrays.describe(op, "v", v)
    return (v,), home, spec.shape, spec.dtype
