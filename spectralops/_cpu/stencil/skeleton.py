"""The compiled sweep of grids through their time levels, built around a kernel that computes a few rows of one level.

Grids are three-dimensional here, (planes, rows, cells); an axis that is not stepped counts as a batch.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable

from numba import uintp

from spectralops._cpu.stencil.compile import jit, sources

__all__ = ["build"]

# Offsets are unsigned: a signed start makes numba test every index for being negative, which stops vectorisation.
U = uintp


@jit
def copy_row(d, target, s, source, n):
    """Copy n values."""
    to, of = U(target), U(source)
    for k in range(U(n)):
        d[to + k] = s[of + k]


@jit
def affine_row(d, target, source, n, scale, offset):
    """A row of ghosts from the row of cells that they depend on, in the same buffer."""
    to, of = U(target), U(source)
    for k in range(U(n)):
        d[to + k] = scale * d[of + k] + offset


@jit
def column_ghosts(d, start, count, pitch, n, wraps, rules):
    """Ghosts at both ends of `count` rows."""
    source, scale, offset = rules
    width = U(source.shape[2])
    if wraps:
        for r in range(U(count)):
            i = U(start) + r * U(pitch)
            for m in range(width):
                d[i - U(1) - m] = d[i + U(n) - U(1) - m]
                d[i + U(n) + m] = d[i + m]
        return
    for r in range(U(count)):
        i = U(start) + r * U(pitch)
        for m in range(width):
            d[i - U(1) - m] = scale[2, 0, m] * d[i + U(source[2, 0, m])] + offset[2, 0, m]
            d[i + U(n) + m] = scale[2, 1, m] * d[i + U(n - 1 - source[2, 1, m])] + offset[2, 1, m]


@jit
def wall_ghosts(d, base, block, extent, pitches, n, walls, rules):
    """Ghost rows and planes beyond the walls that the block just written feeds.

    The ghosts of a wall depend on rows near it only; they are renewed when the farthest of these has been written.
    """
    source, scale, offset = rules
    planes, rows = extent
    plane_pitch, pitch = pitches
    p0, p1, j0, j1 = block
    width = source.shape[2]
    if walls[2] and j0 < min(width, rows) <= j1:
        for p in range(p0, p1):
            q = base + p * plane_pitch
            for m in range(width):
                affine_row(d, q - (m + 1) * pitch, q + source[1, 0, m] * pitch, n, scale[1, 0, m], offset[1, 0, m])
    if walls[3] and j1 == rows:
        for p in range(p0, p1):
            q = base + p * plane_pitch
            for m in range(width):
                near = (rows - 1 - source[1, 1, m]) * pitch
                affine_row(d, q + (rows + m) * pitch, q + near, n, scale[1, 1, m], offset[1, 1, m])
    if walls[0] and p0 < min(width, planes) <= p1:
        for m in range(width):
            near = source[0, 0, m] * plane_pitch
            for j in range(j0, j1):
                q = base + j * pitch
                affine_row(d, q - (m + 1) * plane_pitch, q + near, n, scale[0, 0, m], offset[0, 0, m])
    if walls[1] and p1 == planes:
        for m in range(width):
            near = (planes - 1 - source[0, 1, m]) * plane_pitch
            for j in range(j0, j1):
                q = base + j * pitch
                affine_row(d, q + (planes + m) * plane_pitch, q + near, n, scale[0, 1, m], offset[0, 1, m])


@jit
def add_rows(d, target, d_pitch, source, place, f_pitch, count, n):
    """Add a source to `count` rows."""
    for r in range(U(count)):
        i, o = U(place) + r * U(f_pitch), U(target) + r * U(d_pitch)
        for k in range(U(n)):
            d[o + k] = d[o + k] + source[i + k]


@jit
def hold_ends(d, target, d_pitch, s, start, pitch, where, extent, n, walls, held):
    """Give the held end cells of the rows of one plane, which the kernel has overwritten, their value back."""
    planes, rows = extent
    p, j0, j1 = where
    if (held[0, 0] and walls[0] and p == 0) or (held[0, 1] and walls[1] and p == planes - 1):
        for j in range(j1 - j0):
            copy_row(d, target + j * d_pitch, s, start + j * pitch, n)
        return
    if held[1, 0] and walls[2] and j0 == 0:
        copy_row(d, target, s, start, n)
    if held[1, 1] and walls[3] and j1 == rows:
        copy_row(d, target + (j1 - 1 - j0) * d_pitch, s, start + (j1 - 1 - j0) * pitch, n)
    for side in range(2):
        if held[2, side]:
            end = (n - 1) * side
            for j in range(j1 - j0):
                d[U(target + j * d_pitch + end)] = s[U(start + j * pitch + end)]


def build(rows: Callable[..., None]) -> Callable[..., None]:
    """The compiled sweep around the row kernel `rows`.

    ``rows(d, target, d_pitch, s, start, pitch, plane_pitch, count, n, c, f, place, f_pitch, f_plane_pitch)`` computes
    `count` rows of n cells from s into d, given as flat buffers with offsets and distances between rows and planes; c
    holds the coefficients, f the coefficient fields with an offset and distances of their own. It must be a plain
    function of a module, made jittable by ``register_jitable``, for the compiled sweep to be cached on disk.
    """
    stamp = sources()

    @jit
    def sweep(
        u,
        out,
        items,
        shape,
        levels,
        buffers,
        base,
        pitches,
        stepped,
        folds,
        wraps,
        held,
        rules,
        c,
        f,
        sourced,
        source,
        f_base,
        f_pitches,
    ):
        """Advance the tiles listed in `items` by `levels`.

        An item is (grid, first plane, planes, first row, rows, planes a block, rows a block, four walls): a side of the
        tile, low and high of planes and rows, either is a wall with ghosts beyond it, or borders on cells of the grid,
        which wraps around. `wraps` says that rows do; `folds`, that tiles are whole grids whose periodic axes wrap like
        walls, so that a level must be complete before the next begins. `source` is a field that each level adds where
        `sourced` says so: a flag and not a type, since every type would be compiled anew.
        """
        if stamp < 0:  # never: the name in the closure makes numba's cache follow the kernels' source
            return
        planes_of_grid, rows_of_grid, n = shape
        plane_pitch, pitch = pitches
        f_grid_pitch, f_plane_pitch, f_pitch = f_pitches
        a, b = buffers
        width = rules[0].shape[2]
        deep = width if stepped[0] else 0
        high = width if stepped[1] else 0
        for item in range(items.shape[0]):
            grid, z0, depth, y0, height = items[item, 0], items[item, 1], items[item, 2], items[item, 3], items[item, 4]
            block_planes, block_rows = items[item, 5], items[item, 6]
            walls = items[item, 7:]
            grid_start = grid * planes_of_grid * rows_of_grid * n
            k = c[min(grid, c.shape[0] - 1)]
            # Cells in excess of the tile: what its last level reaches of its neighbours.
            before_z = levels * deep if not walls[0] else 0
            before_y = levels * high if not walls[2] else 0
            planes = depth + before_z + (levels * deep if not walls[1] else 0)
            height += before_y + (levels * high if not walls[3] else 0)
            extent = (planes, height)
            for p in range(planes):
                z = (z0 - before_z + p) % planes_of_grid
                for j in range(height):
                    y = (y0 - before_y + j) % rows_of_grid
                    copy_row(a, base + p * plane_pitch + j * pitch, u, grid_start + (z * rows_of_grid + y) * n, n)
                column_ghosts(a, base + p * plane_pitch, height, pitch, n, wraps, rules)
            wall_ghosts(a, base, (0, planes, 0, height), extent, pitches, n, walls, rules)
            lag_z, lag_y = (0, 0) if folds else (deep, high)
            blocks_z = (planes + (levels - 1) * lag_z + block_planes - 1) // block_planes
            blocks_y = (height + (levels - 1) * lag_y + block_rows - 1) // block_rows
            for kz in range(blocks_z):
                for ky in range(blocks_y):
                    for t in range(1, levels + 1):
                        p0 = kz * block_planes - (t - 1) * lag_z
                        p1 = min(p0 + block_planes, planes - (0 if walls[1] else t * deep))
                        p0 = max(p0, 0 if walls[0] else t * deep)
                        j0 = ky * block_rows - (t - 1) * lag_y
                        j1 = min(j0 + block_rows, height - (0 if walls[3] else t * high))
                        j0 = max(j0, 0 if walls[2] else t * high)
                        if p0 >= p1 or j0 >= j1:
                            continue
                        s, d = (a, b) if t & 1 else (b, a)
                        inner = t < levels
                        for p in range(p0, p1):
                            start = base + p * plane_pitch + j0 * pitch
                            z, y = z0 + p - before_z, y0 + j0 - before_y
                            place = f_base + grid * f_grid_pitch + z * f_plane_pitch + y * f_pitch
                            to = d if inner else out
                            target = start if inner else grid_start + (z * rows_of_grid + y) * n
                            d_pitch = pitch if inner else n
                            count = j1 - j0
                            rows(
                                to,
                                target,
                                d_pitch,
                                s,
                                start,
                                pitch,
                                plane_pitch,
                                count,
                                n,
                                k,
                                f,
                                place,
                                f_pitch,
                                f_plane_pitch,
                            )
                            if sourced:
                                add_rows(to, target, d_pitch, source, place, f_pitch, count, n)
                            hold_ends(to, target, d_pitch, s, start, pitch, (p, j0, j1), extent, n, walls, held)
                            if inner:
                                column_ghosts(d, start, count, pitch, n, wraps, rules)
                        if inner:
                            wall_ghosts(d, base, (p0, p1, j0, j1), extent, pitches, n, walls, rules)

    return sweep
