"""The stencil engine: several time levels per pass over memory, bit for bit the plain formula.

A grid is cut into tiles, and the levels sweep through a tile in skewed blocks of a few rows: what is loaded first, then
each level as many rows behind the one before as the stencil is wide, so that a row stays in cache from one level to the
next. Levels write alternately to two padded copies of the tile (stages of an integrator to up to four), the last one
straight to the result. Boundary ghosts live in the padding and are renewed after each block, so that inner loops know
no boundary. A tile that borders on others also loads as many of their cells as its levels reach. Scratch memory of a
tall tile holds the rows that levels are at, and little more; when it is full, these move up. Where all rows that wrap
around are in one tile, each level begins a row further along than the one before, and what it began with is put behind
its last row for the next one: no row is computed twice. A single step of planes that reads nothing but u passes by
scratch memory, except near the ends.

The inner loop is emitted for the terms of a step: its formula, written once in Python over LLVM values
(:mod:`formula`), becomes explicit vectors of rows (:mod:`cells`), in blocks where neighbours share much (:mod:`blocks`,
there with a mask as bytes and words: :mod:`openings`). All else is one compiled sweep per dtype (:mod:`sweep`,
:mod:`loads`, :mod:`ghosts`, :mod:`faces`, :mod:`unload`), which reads integers (:mod:`layout`): tiles (:mod:`tiles`),
the order of their levels (:mod:`schedule`), addresses.
"""
