"""Row kernels of the commonest updates, in the order of operations that :mod:`spectralops._plans.schemes` states.

Each has the signature that :func:`spectralops._cpu.stencil.skeleton.build` names. In two dimensions several rows go
through the inner loop at once and share their loads; in three that makes too many streams for LLVM's test of overlap.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from numba import uintp
from numba.extending import register_jitable

__all__ = ["burgers_1d", "burgers_2d", "flux_1d", "flux_2d", "flux_3d", "star_1d", "star_2d", "star_3d"]

U = uintp


@register_jitable
def star_1d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """c0*u + c1*(left + right)."""
    one = U(1)
    c0, c1 = c[0], c[1]
    for r in range(U(count)):
        i, o = U(start) + r * U(pitch), U(target) + r * U(d_pitch)
        for k in range(U(n)):
            q = i + k
            d[o + k] = c0 * s[q] + c1 * (s[q - one] + s[q + one])


@register_jitable
def star_2d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """c0*u + c1*(left + right) + c2*(above + below)."""
    one, P, D = U(1), U(pitch), U(d_pitch)
    two, three, four = P + P, P + P + P, P + P + P + P
    c0, c1, c2 = c[0], c[1], c[2]
    i, o = U(start), U(target)
    r = 0
    while r + 4 <= count:
        for k in range(U(n)):
            q, t = i + k, o + k
            u0, u1, u2, u3 = s[q], s[q + P], s[q + two], s[q + three]
            d[t] = (c0 * u0 + c1 * (s[q - one] + s[q + one])) + c2 * (s[q - P] + u1)
            d[t + D] = (c0 * u1 + c1 * (s[q + P - one] + s[q + P + one])) + c2 * (u0 + u2)
            d[t + D + D] = (c0 * u2 + c1 * (s[q + two - one] + s[q + two + one])) + c2 * (u1 + u3)
            d[t + D + D + D] = (c0 * u3 + c1 * (s[q + three - one] + s[q + three + one])) + c2 * (u2 + s[q + four])
        i += four
        o += D + D + D + D
        r += 4
    while r < count:
        for k in range(U(n)):
            q = i + k
            d[o + k] = (c0 * s[q] + c1 * (s[q - one] + s[q + one])) + c2 * (s[q - P] + s[q + P])
        i += P
        o += D
        r += 1


@register_jitable
def star_3d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """c0*u + c1*(left + right) + c2*(above + below) + c3*(front + back)."""
    one, P, Z = U(1), U(pitch), U(plane_pitch)
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for r in range(U(count)):
        i, o = U(start) + r * P, U(target) + r * U(d_pitch)
        for k in range(U(n)):
            q = i + k
            acc = (c0 * s[q] + c1 * (s[q - one] + s[q + one])) + c2 * (s[q - P] + s[q + P])
            d[o + k] = acc + c3 * (s[q - Z] + s[q + Z])


@register_jitable
def burgers_1d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """The star, then minus (right - left)*u*c2 as the sum of both differences."""
    one = U(1)
    c0, c1, c2 = c[0], c[1], c[2]
    for r in range(U(count)):
        i, o = U(start) + r * U(pitch), U(target) + r * U(d_pitch)
        for k in range(U(n)):
            q = i + k
            u, left, right = s[q], s[q - one], s[q + one]
            d[o + k] = (c0 * u + c1 * (left + right)) - (((right - u) + (u - left)) * u) * c2


@register_jitable
def _burgers_2d(u, left, right, below, above, c):
    acc = (c[0] * u + c[1] * (left + right)) + c[2] * (below + above)
    acc = acc - (((right - u) + (u - left)) * u) * c[3]
    return acc - (((above - u) + (u - below)) * u) * c[4]


@register_jitable
def burgers_2d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """The star, then minus the central self-advection along x (c3) and y (c4)."""
    one, P, D = U(1), U(pitch), U(d_pitch)
    two, three, four = P + P, P + P + P, P + P + P + P
    w = (c[0], c[1], c[2], c[3], c[4])
    i, o = U(start), U(target)
    r = 0
    while r + 4 <= count:
        for k in range(U(n)):
            q, t = i + k, o + k
            u0, u1, u2, u3 = s[q], s[q + P], s[q + two], s[q + three]
            d[t] = _burgers_2d(u0, s[q - one], s[q + one], s[q - P], u1, w)
            d[t + D] = _burgers_2d(u1, s[q + P - one], s[q + P + one], u0, u2, w)
            d[t + D + D] = _burgers_2d(u2, s[q + two - one], s[q + two + one], u1, u3, w)
            d[t + D + D + D] = _burgers_2d(u3, s[q + three - one], s[q + three + one], u2, s[q + four], w)
        i += four
        o += D + D + D + D
        r += 4
    while r < count:
        for k in range(U(n)):
            q = i + k
            d[o + k] = _burgers_2d(s[q], s[q - one], s[q + one], s[q - P], s[q + P], w)
        i += P
        o += D
        r += 1


@register_jitable
def _flux(conductance, difference, zero):
    """Flux across a face; a conductance of NaN marks a closed one."""
    return conductance * difference if conductance == conductance else zero


@register_jitable
def flux_1d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """The difference of the fluxes added to u; f[0][i] is the conductance of the face above cell i."""
    one = U(1)
    (fx,) = f
    for r in range(U(count)):
        i, o, g = U(start) + r * U(pitch), U(target) + r * U(d_pitch), U(place) + r * U(f_pitch)
        for k in range(U(n)):
            q, h = i + k, g + k
            u = s[q]
            above, below = _flux(fx[h], s[q + one] - u, c[0]), _flux(fx[h - one], u - s[q - one], c[0])
            d[o + k] = u + (above - below)


@register_jitable
def flux_2d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """The same along x, then along y with f[1]."""
    one, P, D, F = U(1), U(pitch), U(d_pitch), U(f_pitch)
    fx, fy = f
    zero = c[0]
    i, o, g = U(start), U(target), U(place)
    r = 0
    while r + 2 <= count:
        for k in range(U(n)):
            q, h, t = i + k, g + k, o + k
            u0, u1 = s[q], s[q + P]
            between = _flux(fy[h], u1 - u0, zero)
            high, low = _flux(fx[h], s[q + one] - u0, zero), _flux(fx[h - one], u0 - s[q - one], zero)
            d[t] = (u0 + (high - low)) + (between - _flux(fy[h - F], u0 - s[q - P], zero))
            high = _flux(fx[h + F], s[q + P + one] - u1, zero)
            low = _flux(fx[h + F - one], u1 - s[q + P - one], zero)
            d[t + D] = (u1 + (high - low)) + (_flux(fy[h + F], s[q + P + P] - u1, zero) - between)
        i += P + P
        o += D + D
        g += F + F
        r += 2
    while r < count:
        for k in range(U(n)):
            q, h = i + k, g + k
            u = s[q]
            high, low = _flux(fx[h], s[q + one] - u, zero), _flux(fx[h - one], u - s[q - one], zero)
            acc = u + (high - low)
            high, low = _flux(fy[h], s[q + P] - u, zero), _flux(fy[h - F], u - s[q - P], zero)
            d[o + k] = acc + (high - low)
        i += P
        o += D
        g += F
        r += 1


@register_jitable
def flux_3d(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch):
    """The same along x, y, then z with f[2]."""
    one, P, Z, F, G = U(1), U(pitch), U(plane_pitch), U(f_pitch), U(f_plane_pitch)
    fx, fy, fz = f
    zero = c[0]
    for r in range(U(count)):
        i, o, g = U(start) + r * P, U(target) + r * U(d_pitch), U(place) + r * F
        for k in range(U(n)):
            q, h = i + k, g + k
            u = s[q]
            high, low = _flux(fx[h], s[q + one] - u, zero), _flux(fx[h - one], u - s[q - one], zero)
            acc = u + (high - low)
            high, low = _flux(fy[h], s[q + P] - u, zero), _flux(fy[h - F], u - s[q - P], zero)
            acc = acc + (high - low)
            high, low = _flux(fz[h], s[q + Z] - u, zero), _flux(fz[h - G], u - s[q - Z], zero)
            d[o + k] = acc + (high - low)
