# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""The kernels of tracer transport on grids of rows: one sweep along rows or across them, by :mod:`spectralops._remap`.

Along rows a flux may exceed the mass of a cell: it then takes whole cells until the rest fits, so that narrow cells
near a pole set no limit. Across rows it must not.
"""

from __future__ import annotations

import math

from spectralops import _remap
from spectralops._cpu.vector.emit import at, shift, write
from spectralops._cpu.vector.sweep_operations import (
    AFTER,
    ANTI,
    COMES,
    DONOR,
    GOES,
    HIGH,
    KINDS,
    LEAST,
    LOW,
    MOST,
    STEP,
    around,
    cells,
    edges,
    faces,
    last,
)

__all__ = ["GHOSTS", "ROWS_OF_SCRATCH", "bounds_across", "bounds_along", "sweep_columns", "sweep_rows"]

# Cells beyond each end of a row that its copy has.
GHOSTS = 3
# Rows of each kind that a sweep across rows keeps.
RING = 4
# Rows of scratch memory: constants, copies or ghosts, and what is kept.
ROWS_OF_SCRATCH = 7 + RING * KINDS

mean_ahead, mean_behind = _remap.mean_ahead, _remap.mean_behind


def _padded(target, source, n, wraps, beyond):
    """Copy a row between ghosts: round the circle, or `beyond` times its ends."""
    for i in range(n):
        write(target, GHOSTS + i, at(source, i))
    for k in range(GHOSTS):
        if wraps:
            write(target, k, at(source, (k - GHOSTS) % n))
            write(target, GHOSTS + n + k, at(source, k % n))
        else:
            write(target, k, beyond * at(source, 0))
            write(target, GHOSTS + n + k, beyond * at(source, n - 1))


def _walks(flux, mass, n):
    """Whether some flux exceeds the mass of its donor; pointers to the first face and the cell below it."""
    found = 0
    for i in range(n):
        f = at(flux, i)
        if f > at(mass, i) or -f > at(mass, i + 1):
            found = 1
    return found


def _walk(kept, pitch, flux, q, mass, openings, n, wraps):
    """What the faces of a padded row pass on if fluxes may take whole cells."""
    for i in range(n):
        face = GHOSTS + i
        f = at(flux, face)
        forward = not f < 0
        rest = f if forward else -f
        k = i if forward else i + 1
        if k == n:
            k = 0 if wraps else n - 1
        first, taken, tries = at(q, GHOSTS + k), 0.0 * f, 0
        while rest > at(mass, GHOSTS + k) and tries < n:
            taken = taken + at(mass, GHOSTS + k) * (at(q, GHOSTS + k) - first)
            rest = rest - at(mass, GHOSTS + k)
            k += -1 if forward else 1
            if k < 0:
                k = n - 1 if wraps else 0
            if k == n:
                k = 0 if wraps else n - 1
            tries += 1
        here = GHOSTS + k
        own, high, low, part = at(q, here), at(kept, here), at(kept, here - 1), rest / at(mass, here)
        if at(openings, here - 1) < 0.5:
            low = own
        if forward:
            other, more = at(q, here + 1), rest * (mean_ahead(low, high, own, part) - own)
        else:
            other, more = at(q, here - 1), -(rest * (mean_behind(low, high, own, part) - own))
        size = abs(f)
        mean = 1.0 * first
        if size > 0:
            mean = first + (taken + rest * (own - first)) / size
        write(kept, DONOR * pitch + face, mean)
        write(kept, LEAST * pitch + face, min(own, other))
        write(kept, MOST * pitch + face, max(own, other))
        write(kept, ANTI * pitch + face, more)


def _extremes(wide, q, n):
    """The least and the greatest of a row."""
    low, high = at(q, 0), at(q, 0)
    for i in range(n):
        low, high = min(low, at(q, i)), max(high, at(q, i))
    write(wide, 0, low)
    write(wide, 1, high)


def sweep_rows(job, q, mass, flux, openings, low, high, scratch):
    """Move means and masses of rows along them; `flux` is of the upper faces, `low` and `high` bound the cells.

    The job: first and last row, cells of a row, whether it wraps, the limiter's number, from one row of openings to the
    next, the pitch of scratch memory. That begins with two bounds for walking rows, two of none, three weights.
    """
    n, wraps, limiter, apart, pitch = at(job, 2), at(job, 3), at(job, 4), at(job, 5), at(job, 6)
    weights = shift(scratch, 4)
    means, masses, fluxes, opens = (
        shift(scratch, pitch),
        shift(scratch, 2 * pitch),
        shift(scratch, 3 * pitch),
        shift(scratch, 4 * pitch),
    )
    lows, highs, kinds = shift(scratch, 5 * pitch), shift(scratch, 6 * pitch), shift(scratch, 7 * pitch)
    for row in range(at(job, 0), at(job, 1)):
        _padded(means, shift(q, row * n), n, wraps, 1)
        _padded(masses, shift(mass, row * n), n, wraps, 1)
        _padded(fluxes, shift(flux, row * n), n, wraps, 0)
        _padded(opens, shift(openings, row * apart), n, wraps, 0)
        edges(
            shift(kinds, 1),
            means,
            shift(means, 1),
            shift(means, 2),
            shift(means, 3),
            opens,
            shift(opens, 1),
            shift(opens, 2),
            weights,
            n + 3,
        )
        wide = shift(scratch, 2)
        if _walks(shift(fluxes, 2), shift(masses, 2), n + 1):
            wide = scratch
            _extremes(wide, shift(q, row * n), n)
            _walk(kinds, pitch, fluxes, means, masses, opens, n, wraps)
            for kind in range(DONOR, ANTI + 1):
                write(kinds, kind * pitch + 2, at(kinds, kind * pitch + n + 2))
        else:
            _padded(lows, shift(low, row * n), n, wraps, 1)
            _padded(highs, shift(high, row * n), n, wraps, 1)
            faces(
                shift(kinds, 2),
                pitch,
                shift(fluxes, 2),
                shift(means, 2),
                shift(means, 3),
                shift(masses, 2),
                shift(masses, 3),
                shift(kinds, 1),
                shift(kinds, 2),
                shift(kinds, 3),
                shift(opens, 1),
                shift(lows, 2),
                shift(lows, 3),
                shift(highs, 2),
                shift(highs, 3),
                n + 1,
            )
        here = shift(kinds, GHOSTS)
        cells(
            here,
            shift(here, -1),
            here,
            pitch,
            shift(means, GHOSTS),
            shift(masses, GHOSTS),
            shift(fluxes, 2),
            shift(fluxes, GHOSTS),
            shift(opens, 2),
            shift(opens, GHOSTS),
            wide,
            limiter,
            n,
        )
        for kind in range(COMES, GOES + 1):
            first, final = at(here, kind * pitch), at(here, kind * pitch + n - 1)
            write(here, kind * pitch - 1, final)
            write(here, kind * pitch + n, first)
        last(
            shift(q, row * n),
            shift(mass, row * n),
            here,
            shift(here, -1),
            shift(here, 1),
            shift(here, -1),
            here,
            pitch,
            limiter,
            n,
        )


def _row(q, ghosts, rows, n, j):
    """A row of means, beyond the first and the last one a ghost."""
    if j < 0:
        return shift(ghosts, (j + 2) * n)
    if j >= rows:
        return shift(ghosts, (j - rows + 2) * n)
    return shift(q, j * n)


def _ghosts(ghosts, q, rows, n, turn, skip, over):
    """Two rows beyond each end: across the pole, whose row is skipped, or the end itself."""
    for k in range(2):
        below, above = 0, rows - 1
        if over:
            below, above = 1 - k + skip, rows - 1 - k - skip
        for i in range(n):
            from_ = (i + turn) % n
            write(ghosts, k * n + i, at(q, below * n + from_))
            write(ghosts, (2 + k) * n + i, at(q, above * n + from_))


def _part(room, amount):
    """How much of the amount fits into the room, at most all."""
    return room / amount if amount > room else 1.0


def _cap(kept, face, pitch, q, flux, sign, limiter, n):
    """A pole is one cell: the step and the bounds of the sum of its sectors.

    `face` holds what its only face passes on, `sign` is 1 if that is the upper one.
    """
    own = 1.0 * at(q, 0)
    after, moved, comes, goes, low, high = 0.0, 0.0, 0.0, 0.0, own, own
    for i in range(n):
        anti = sign * at(face, ANTI * pitch + i)
        after = after + at(kept, AFTER * pitch + i)
        moved = moved + sign * (at(flux, i) * (at(face, DONOR * pitch + i) - own))
        comes, goes = comes + max(-anti, 0.0), goes + max(anti, 0.0)
        low, high = min(low, at(face, LEAST * pitch + i)), max(high, at(face, MOST * pitch + i))
    step = min(max(own - moved / after, low), high)
    if limiter < 2:
        low, high = min(step, 0.0), math.inf
    take, give = _part((high - step) * after, comes), _part((step - low) * after, goes)
    for i in range(n):
        write(kept, STEP * pitch + i, step)
        write(kept, AFTER * pitch + i, after / n)
        write(kept, COMES * pitch + i, take)
        write(kept, GOES * pitch + i, give)
        # Sectors may leave the bounds, their mean must not.
        write(kept, LOW * pitch + i, -math.inf)
        write(kept, HIGH * pitch + i, math.inf)
    write(kept, LOW * pitch + n, low)
    write(kept, HIGH * pitch + n, high)


def _mean(q, kept, pitch, limiter, n):
    """Give all sectors of a pole their mean."""
    total = 0.0 * at(q, 0)
    first = at(q, 0)
    for i in range(n):
        total = total + (at(q, i) - first)
    mean = first + total / n
    if limiter:
        mean = min(max(mean, at(kept, LOW * pitch + n)), at(kept, HIGH * pitch + n))
    for i in range(n):
        write(q, i, mean)


def _shut(face, pitch, q, n):
    """An end passes nothing on."""
    for i in range(n):
        own = at(q, i)
        write(face, DONOR * pitch + i, own)
        write(face, LEAST * pitch + i, own)
        write(face, MOST * pitch + i, own)
        write(face, ANTI * pitch + i, 0.0 * own)


def sweep_columns(job, q, mass, flux, openings, table, low, high, scratch):
    """Move means and masses of rows across them, by fluxes of at most a cell's mass.

    `flux` is of the lower faces, with those of the upper end; `openings` too, with those beyond the ends; `table` has
    three weights for each face, `low` and `high` bound the cells. The job: rows, cells of a row, the limiter's number,
    from one row of openings to the next, the pitch of scratch memory, whether columns go on over the poles, how far
    they turn there, whether the first and the last row are poles.
    """
    rows, n, limiter, apart, pitch = at(job, 0), at(job, 1), at(job, 2), at(job, 3), at(job, 4)
    over, turn, caps = at(job, 5), at(job, 6), at(job, 7)
    none = shift(scratch, 2)
    ghosts = shift(scratch, pitch)
    ring = shift(scratch, 5 * pitch)
    size = KINDS * pitch
    _ghosts(ghosts, q, rows, n, turn, caps, over)
    for t in range(rows + 3):
        if t <= rows:
            edges(
                shift(ring, t % RING * size),
                _row(q, ghosts, rows, n, t - 2),
                _row(q, ghosts, rows, n, t - 1),
                _row(q, ghosts, rows, n, t),
                _row(q, ghosts, rows, n, t + 1),
                shift(openings, t * apart),
                shift(openings, (t + 1) * apart),
                shift(openings, (t + 2) * apart),
                shift(table, 3 * t),
                n,
            )
        f = t - 1
        here, lower = shift(ring, f % RING * size), shift(ring, (f - 1) % RING * size)
        if f == 0 or f == rows:
            _shut(here, pitch, _row(q, ghosts, rows, n, 0 if f == 0 else rows - 1), n)
        if f > 0 and f < rows:
            before, after = (f - 1) * n, f * n
            faces(
                here,
                pitch,
                shift(flux, after),
                shift(q, before),
                shift(q, after),
                shift(mass, before),
                shift(mass, after),
                lower,
                here,
                shift(ring, t % RING * size),
                shift(openings, f * apart),
                shift(low, before),
                shift(low, after),
                shift(high, before),
                shift(high, after),
                n,
            )
            if caps and (f == 1 or f == rows - 1):
                for i in range(n):
                    gives = at(flux, f * n + i)
                    if (f == 1 and gives > 0) or (f == rows - 1 and gives < 0):
                        write(here, ANTI * pitch + i, 0.0 * gives)
        j = t - 2
        if j >= 0 and j < rows:
            own, lower, upper = shift(ring, j % RING * size), shift(ring, j % RING * size), here
            cells(
                own,
                lower,
                upper,
                pitch,
                shift(q, j * n),
                shift(mass, j * n),
                shift(flux, j * n),
                shift(flux, (j + 1) * n),
                shift(openings, (j + 1) * apart),
                shift(openings, (j + 2) * apart),
                none,
                limiter,
                n,
            )
            if caps and j == 0:
                _cap(own, upper, pitch, q, shift(flux, n), 1.0, limiter, n)
            if caps and j == rows - 1:
                _cap(own, lower, pitch, shift(q, j * n), shift(flux, j * n), -1.0, limiter, n)
        j = t - 3
        if j >= 0:
            own, upper = shift(ring, j % RING * size), shift(ring, (j + 1) % RING * size)
            below, above = own, own
            if j > 0:
                below = shift(ring, (j - 1) % RING * size)
            if j < rows - 1:
                above = upper
            last(shift(q, j * n), shift(mass, j * n), own, below, above, own, upper, pitch, limiter, n)
            if caps and (j == 0 or j == rows - 1):
                _mean(shift(q, j * n), own, pitch, limiter, n)


def bounds_along(job, q, openings, low, high, scratch):
    """Bounds of all cells by their neighbours along rows; the job of :func:`sweep_rows`."""
    n, wraps, apart, pitch = at(job, 2), at(job, 3), at(job, 5), at(job, 6)
    means, opens = shift(scratch, pitch), shift(scratch, 4 * pitch)
    for row in range(at(job, 0) + at(job, 1)):  # all rows: those before the first are as many as those after the last
        _padded(means, shift(q, row * n), n, wraps, 1)
        _padded(opens, shift(openings, row * apart), n, wraps, 0)
        place = row * n
        around(
            shift(low, place),
            shift(high, place),
            shift(means, GHOSTS),
            shift(means, GHOSTS - 1),
            shift(means, GHOSTS + 1),
            shift(opens, GHOSTS - 1),
            shift(opens, GHOSTS),
            n,
        )


def bounds_across(job, q, openings, low, high):
    """Bounds of all cells by their neighbours across rows; the job of :func:`sweep_columns`."""
    rows, n, apart = at(job, 0), at(job, 1), at(job, 3)
    for j in range(rows):
        place = j * n
        below, above = max(j - 1, 0) * n, min(j + 1, rows - 1) * n
        lower, upper = shift(openings, (j + 1) * apart), shift(openings, (j + 2) * apart)
        around(
            shift(low, place), shift(high, place), shift(q, place), shift(q, below), shift(q, above), lower, upper, n
        )
