"""Advection that is not one constant linear stencil: differences and fluxes of every scheme, on padded buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spectralops._plans.schemes import Transport

__all__ = ["closed_to_zero", "transport"]

# Faces on either side of a face that its correction looks at.
REACH = {"central": 0, "upwind": 0, "upwind3": 1, "weno5": 2}


class Stage(Protocol):
    """What these functions need of the stage of a step that they are part of."""

    xp: Any
    smallest_normal: Any

    def number(self, value: float) -> Any: ...
    def core(self, padded: Any) -> Any: ...
    def padded_scratch(self, name: str) -> Any: ...
    def cells(self, padded: Any, axis: int, first: int, last: int) -> Any: ...
    def slab(self, array: Any, axis: int, first: int, last: int) -> Any: ...
    def faces(self, name: str, axis: int, extra: int) -> Any: ...
    def closed(self, axis: int, reach: int = 0) -> Any: ...
    def difference(self, padded: Any, axis: int, reach: int) -> Any: ...
    def add_divergence(self, flux: Any, axis: int, target: Any, operation: Any) -> None: ...


def closed_to_zero(stage: Stage, array: Any, axis: int, reach: int = 0) -> None:
    """Set the faces -reach … n + reach of an axis to 0 where a mask closes them."""
    closed = stage.closed(axis, reach)
    if closed is not None:
        stage.xp.copyto(array, stage.number(0), where=closed)


def transport(stage: Stage, part: Transport, velocity: Any, forward: Any, padded: Any, target: Any) -> None:
    """Subtract one transport from `target`; `velocity` and where it is `forward` are prepared, None for u itself."""
    if part.form == "flux":
        flux = _flux(stage, part, velocity, forward, padded)
        closed_to_zero(stage, flux, part.axis)
        stage.add_divergence(flux, part.axis, target, stage.xp.subtract)
        return
    xp = stage.xp
    if part.velocity is None:
        velocity = stage.core(padded)
        forward = velocity >= 0
    slope = _slope(stage, part, forward, padded)
    if velocity is not None:
        xp.multiply(slope, velocity, out=slope)
    xp.multiply(slope, stage.number(part.factor), out=slope)
    xp.subtract(target, slope, out=target)


def _slope(stage: Stage, part: Transport, forward: Any, padded: Any) -> Any:
    """Difference of the face values on either side of each cell, twice that of central ones, in scratch memory."""
    xp, axis = stage.xp, part.axis
    if part.scheme == "central":
        out = stage.faces("slope", axis, 0)
        if not part.masked:
            return xp.subtract(stage.cells(padded, axis, 1, 1), stage.cells(padded, axis, -1, -1), out=out)
        difference = stage.difference(padded, axis, 0)
        return xp.add(stage.slab(difference, axis, 1, 0), stage.slab(difference, axis, 0, -1), out=out)
    sides = [part.wind] if part.wind else [-1, 1]
    difference = stage.difference(padded, axis, REACH[part.scheme])
    slopes = [_one_sided_slope(stage, part.scheme, axis, difference, wind) for wind in sides]
    if len(slopes) == 2:
        xp.copyto(slopes[0], slopes[1], where=forward)
    return slopes[0]


def _one_sided_slope(stage: Stage, scheme: str, axis: int, difference: Any, wind: int) -> Any:
    xp = stage.xp
    reach = REACH[scheme]
    here = stage.slab(difference, axis, reach, -reach)
    low, high = stage.slab(here, axis, 0, -1), stage.slab(here, axis, 1, 0)
    out = stage.faces("slope" if wind < 0 else "forward slope", axis, 0)
    correction = _correction(stage, scheme, axis, difference, wind)
    if correction is None:
        xp.copyto(out, low if wind > 0 else high)
        return out
    closed_to_zero(stage, correction, axis)
    below, above = stage.slab(correction, axis, 0, -1), stage.slab(correction, axis, 1, 0)
    if wind > 0:
        xp.subtract(low, below, out=out)
        return xp.add(above, out, out=out)
    xp.subtract(high, above, out=out)
    return xp.add(out, below, out=out)


def _flux(stage: Stage, part: Transport, velocity: Any, forward: Any, padded: Any) -> Any:
    """Flux across the faces of an axis, in scratch memory."""
    xp, axis, factor = stage.xp, part.axis, stage.number(part.factor)
    below, above = stage.cells(padded, axis, -1, 0), stage.cells(padded, axis, 0, 1)
    flux = stage.faces("flux", axis, 1)
    if part.scheme == "central":
        if part.velocity is None:
            square = stage.faces("backward value", axis, 1)
            xp.multiply(above, above, out=square)
            xp.multiply(below, below, out=flux)
            xp.add(flux, square, out=flux)
        else:
            xp.add(below, above, out=flux)
        return xp.multiply(flux, factor if velocity is None else velocity, out=flux)
    if part.wind:
        return xp.multiply(_face_value(stage, part.scheme, axis, padded, part.wind), factor, out=flux)
    if part.velocity is not None:
        forwards, backwards = (_face_value(stage, part.scheme, axis, padded, wind) for wind in (1, -1))
        xp.copyto(backwards, forwards, where=forward)
        return xp.multiply(backwards, velocity, out=flux)
    values = []
    for wind, clip in ((1, xp.maximum), (-1, xp.minimum)):
        square = stage.padded_scratch("square")
        clip(padded, stage.number(0), out=square)
        xp.multiply(square, square, out=square)
        values.append(_face_value(stage, part.scheme, axis, square, wind))
    xp.add(*values, out=flux)
    return xp.multiply(flux, factor, out=flux)


def _face_value(stage: Stage, scheme: str, axis: int, padded: Any, wind: int) -> Any:
    """Value at the faces as their upwind side sees it, in scratch memory."""
    upwind = stage.cells(padded, axis, *((-1, 0) if wind > 0 else (0, 1)))
    difference = stage.difference(padded, axis, REACH[scheme]) if REACH[scheme] else None
    out = stage.faces("forward value" if wind > 0 else "backward value", axis, 1)
    correction = _correction(stage, scheme, axis, difference, wind)
    if correction is None:
        stage.xp.copyto(out, upwind)
        return out
    return (stage.xp.add if wind > 0 else stage.xp.subtract)(upwind, correction, out=out)


def _correction(stage: Stage, scheme: str, axis: int, difference: Any, wind: int) -> Any:
    """What a scheme adds to the upwind value at the faces 0 … n, in scratch memory; None for first order."""
    reach = REACH[scheme]

    def face(k: int) -> Any:
        """Differences at the k-th face downwind of each."""
        return stage.slab(difference, axis, reach + wind * k, wind * k - reach)

    if scheme == "upwind":
        return None
    out = stage.faces("correction", axis, 1)
    if scheme == "upwind3":
        xp = stage.xp
        xp.add(face(0), face(0), out=out)
        xp.add(face(-1), out, out=out)
        return xp.multiply(out, stage.number(1 / 6), out=out)
    far = face(-2)
    closed = stage.closed(axis, 1)
    if closed is not None:  # behind a closed face
        far = far.copy()
        stage.xp.copyto(far, stage.number(0), where=stage.slab(closed, axis, 1 - wind, -1 - wind))
    return _weno5(stage, axis, far, face(-1), face(0), face(1), out)


def _weno5(stage: Stage, axis: int, a: Any, b: Any, c: Any, e: Any, out: Any) -> Any:
    """Nonlinear mean of the corrections of three parabolas through the differences a, b, c, e."""
    xp, number = stage.xp, stage.number
    first, second = stage.faces("first", axis, 1), stage.faces("second", axis, 1)
    betas = [stage.faces(f"beta {k}", axis, 1) for k in range(3)]

    def triple(x: Any, y: Any, sign: Any) -> None:
        """First = 3 x ± y."""
        xp.multiply(x, number(3), out=first)
        sign(first, y, out=first)

    for k, beta in enumerate(betas):
        xp.subtract(*((b, a), (c, b), (e, c))[k], out=second)
        if k == 0:
            triple(b, a, xp.subtract)
        elif k == 1:
            xp.add(c, b, out=first)
        else:
            triple(c, e, xp.subtract)
        xp.multiply(second, second, out=second)
        xp.multiply(second, number(13 / 12), out=second)
        xp.multiply(first, first, out=first)
        xp.multiply(first, number(1 / 4), out=first)
        xp.add(second, first, out=beta)
    guard = second
    xp.multiply(a, a, out=guard)
    for difference in (b, c, e):
        xp.multiply(difference, difference, out=first)
        xp.add(guard, first, out=guard)
    xp.multiply(guard, number(1e-6), out=guard)
    xp.add(guard, number(stage.smallest_normal), out=guard)
    tau = stage.faces("tau", axis, 1)
    xp.subtract(betas[0], betas[2], out=tau)
    xp.abs(tau, out=tau)
    for beta, share in zip(betas, (1 / 10, 6 / 10, 3 / 10), strict=True):
        xp.add(beta, guard, out=beta)
        xp.divide(tau, beta, out=beta)
        xp.multiply(beta, beta, out=beta)
        xp.add(beta, number(1), out=beta)
        xp.multiply(beta, number(share), out=beta)
    # The three corrections, times six.
    xp.multiply(b, number(5), out=first)
    xp.add(a, a, out=second)
    xp.subtract(first, second, out=first)
    xp.multiply(betas[0], first, out=out)
    xp.add(c, c, out=first)
    xp.add(b, first, out=first)
    xp.multiply(betas[1], first, out=first)
    xp.add(out, first, out=out)
    xp.multiply(c, number(4), out=first)
    xp.subtract(first, e, out=first)
    xp.multiply(betas[2], first, out=first)
    xp.add(out, first, out=out)
    total = tau
    xp.add(betas[0], betas[1], out=total)
    xp.add(total, betas[2], out=total)
    xp.divide(out, total, out=out)
    return xp.multiply(out, number(1 / 6), out=out)
