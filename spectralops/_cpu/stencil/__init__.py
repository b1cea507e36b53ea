"""The stencil engine: several time levels per pass over memory, bit for bit the plain formula.

A grid is cut into tiles of whole rows. A tile is copied into one of two padded scratch buffers with as many extra rows
(and planes) as its levels reach; the levels then sweep through it in skewed blocks of a few rows, each level as many
rows behind the one before as the stencil is wide, writing alternately to the two buffers, so that a row stays in cache
from one level to the next. The last level goes straight to the result. Boundary ghosts live in the padding and are
renewed after each block, so that inner loops know no boundary.
"""
