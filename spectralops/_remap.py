"""Conservative remapping along one direction, cell by cell and face by face: the formulas of a sweep.

A sweep moves the mass m of the cells (at first their area) by fluxes F through their faces, positive towards the next
cell, and with it the mean q of a tracer:

    m' = m - (F_upper - F_lower),        m' q' = m q - (F_upper f_upper - F_lower f_lower).

f is the mean, over the mass that crosses the face, of a parabola in its cell, which has the cell's mean and at its
faces the values of the cubic through four cells [1]_; a flux beyond the first cell takes whole cells before [2]_. The
donors' own means alone give a q' between the values that it mixes. The rest of the flux, A = F (f - donor), is cut
down so that q' stays between the means at the cell's faces, and those beside them across the sweep, or above zero [3]_:
a top that moves aslant is in one of these. All is written in differences from q, so that constants stay to the bit.

The formulas take anything with arithmetic, and `o`, which has ``where(condition, a, b)``, ``maximum``, ``minimum`` and
``positive(a)``, whether a >= 0: arrays of any library, or vectors in code that is being compiled. Both compute the same
bits. Openings are 1, or 0 at closed faces.

.. [1] P. Colella, P. R. Woodward, J. Comput. Phys. 54 (1984) 174, eqs. 1.6 and 1.12, without their limiter.
.. [2] S.-J. Lin, R. B. Rood, Mon. Wea. Rev. 124 (1996) 2046.
.. [3] S. T. Zalesak, J. Comput. Phys. 31 (1979) 335; for long steps W. C. Skamarock, Mon. Wea. Rev. 134 (2006) 2241.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["LIMITERS", "around", "cell", "edge", "limited", "mean_ahead", "mean_behind", "passed", "settled"]

# In the order of their numbers in kernels.
LIMITERS = ("none", "positive", "monotone")


def edge(cells: Sequence[Any], openings: Sequence[Any], weights: Sequence[Any]) -> Any:
    """Value at the face between the second and the third of four cells; at a closed one, the mean of the second.

    Differences across closed faces count as 0.
    """
    before, left, right, after = cells
    slope = (
        weights[0] * (openings[0] * (left - before))
        + weights[1] * (right - left)
        + weights[2] * (openings[2] * (after - right))
    )
    return left + openings[1] * slope


def mean_ahead(low: Any, high: Any, q: Any, part: Any) -> Any:
    """Mean over the upper part of a cell of the parabola with these values at its faces and the mean q."""
    rise, curve = high - low, 6.0 * (q - 0.5 * (low + high))
    return high - 0.5 * part * (rise - (1.0 - part * (2.0 / 3.0)) * curve)


def mean_behind(low: Any, high: Any, q: Any, part: Any) -> Any:
    """Mean over the lower part."""
    rise, curve = high - low, 6.0 * (q - 0.5 * (low + high))
    return low + 0.5 * part * (rise + (1.0 - part * (2.0 / 3.0)) * curve)


def around(o: Any, q: Any, sides: Sequence[Any], openings: Sequence[Any]) -> tuple[Any, Any]:
    """The least and the greatest of a cell's mean and those of its neighbours on both sides, through open faces."""
    low = high = q
    for side, opening in zip(sides, openings, strict=True):
        value = o.where(o.positive(opening - 0.5), side, q)
        low, high = o.minimum(low, value), o.maximum(high, value)
    return low, high


def passed(
    o: Any, flux: Any, cells: Any, masses: Any, edges: Any, open_before: Any, bounds: Any
) -> tuple[Any, Any, Any, Any]:
    """The donor's mean at a face between two cells, the least and the greatest of both cells' bounds, and A.

    The flux is at most the donor's mass; `edges` are the values at the faces before, here and after; `bounds` a pair of
    least and one of greatest values.
    """
    left, right = cells
    forward = o.positive(flux)
    first = o.where(o.positive(open_before - 0.5), edges[0], left)
    ahead = mean_ahead(first, edges[1], left, flux / masses[0])
    behind = mean_behind(edges[1], edges[2], right, (0.0 - flux) / masses[1])
    donor = o.where(forward, left, right)
    low, high = o.minimum(*bounds[0]), o.maximum(*bounds[1])
    return donor, low, high, flux * (o.where(forward, ahead, behind) - donor)


def cell(
    o: Any, limiter: str, q: Any, mass: Any, openings: Any, fluxes: Any, faces: Any, anti: Any, wide: Any
) -> tuple[Any, ...]:
    """The donors' step of a cell, and how much of A it can bear.

    Parameters come for the lower face and the upper one; `faces` are pairs of donors, of lesser and of greater values.
    `wide` are bounds of values from further away. Returns q', m', the parts of what comes in and of what goes out by A
    that q' bears, and its bounds.
    """
    donors, least, most = faces
    is_open = [o.positive(opening - 0.5) for opening in openings]
    below, above = (o.where(face, donor, q) for face, donor in zip(is_open, donors, strict=True))
    after = mass - (fluxes[1] - fluxes[0])
    step = q - (fluxes[1] * (above - q) - fluxes[0] * (below - q)) / after
    lows = [o.where(face, value, q) for face, value in zip(is_open, least, strict=True)]
    highs = [o.where(face, value, q) for face, value in zip(is_open, most, strict=True)]
    # Rounding must not carry it beyond what it mixes.
    step = o.maximum(step, o.minimum(wide[0], o.minimum(q, o.minimum(*lows))))
    step = o.minimum(step, o.maximum(wide[1], o.maximum(q, o.maximum(*highs))))
    zero = q * 0.0
    goes = o.maximum(anti[1], zero) + o.maximum(zero - anti[0], zero)
    if limiter == "positive":
        low = o.minimum(step, zero)
        return step, after, zero + 1.0, _share(o, (step - low) * after, goes), low, zero + math.inf
    low = o.minimum(step, o.minimum(*[o.where(f, v, step) for f, v in zip(is_open, least, strict=True)]))
    high = o.maximum(step, o.maximum(*[o.where(f, v, step) for f, v in zip(is_open, most, strict=True)]))
    comes = o.maximum(anti[0], zero) + o.maximum(zero - anti[1], zero)
    return step, after, _share(o, (high - step) * after, comes), _share(o, (step - low) * after, goes), low, high


def _share(o: Any, room: Any, amount: Any) -> Any:
    """How much of the amount fits into the room, at most all."""
    fits = o.positive(room - amount)
    return o.where(fits, 1.0, room / o.where(fits, 1.0, amount))


def settled(step: Any, after: Any, anti: Any) -> Any:
    """The mean with all of A."""
    return step - (anti[1] - anti[0]) / after


def limited(o: Any, step: Any, after: Any, anti: Any, comes: Any, goes: Any, bounds: Any) -> Any:
    """The mean with as much of A as both cells of each face bear: `comes` and `goes` of the cell below, here, above."""
    low = anti[0] * o.where(o.positive(anti[0]), o.minimum(goes[0], comes[1]), o.minimum(comes[0], goes[1]))
    high = anti[1] * o.where(o.positive(anti[1]), o.minimum(goes[1], comes[2]), o.minimum(comes[1], goes[2]))
    return o.minimum(o.maximum(settled(step, after, (low, high)), bounds[0]), bounds[1])
