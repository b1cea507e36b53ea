"""What the integers and numbers mean that the Chebyshev kernels are called with."""

from __future__ import annotations

__all__ = [
    "BASE", "CELLS", "CELL_FACES", "FIELD", "FIELDS", "HEAD", "PER_LEVEL", "PITCH", "ROWS", "ROW_FACES", "SLABS",
    "SLAB_FACES", "SLAB_PITCH", "STEPS", "WRAPS_CELLS", "WRAPS_ROWS", "WRAPS_SLABS",
]  # fmt: skip

# Places of a job's integers: sizes; whether the ends of each axis meet; the first cell, and the distances of slabs and
# rows in scratch memory; the distance from one grid to the next, 0 where all share them, of the field and of faces.
(
    SLABS, ROWS, CELLS, STEPS, WRAPS_SLABS, WRAPS_ROWS, WRAPS_CELLS, BASE, SLAB_PITCH, PITCH, FIELD, CELL_FACES,
    SLAB_FACES, ROW_FACES,
) = range(FIELDS := 14)  # fmt: skip
# A table of numbers begins with the weights of the second and third axis. For each level follow the factor of X, and
# the coefficients of the level before and of its own.
HEAD = 2
PER_LEVEL = 3
