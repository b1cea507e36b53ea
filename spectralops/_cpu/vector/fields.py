"""Names of the integers in a job, and the kinds of groups: what host code and kernels both know."""

from __future__ import annotations

# Kinds of groups of lanes; see layout.py.
EVEN, ZERO, PAIR, COMPLEX, SPLIT = "even", "zero", "pair", "complex", "split"
# Even, but the last frequency, which is real, lies in the imaginary part of the first: see large.py.
PACKED = "packed"
# Numbers of a row of the array that one row of a group holds, in vectors.
BREADTH = {EVEN: 1, PACKED: 1, ZERO: 1, PAIR: 2, COMPLEX: 2, SPLIT: 1}
# Vectors in one row of a group.
VECTORS = {EVEN: 1, PACKED: 1, ZERO: 2, PAIR: 2, COMPLEX: 2, SPLIT: 2}

# Fields of an image job.
(
    COLUMN_LENGTH,  # the transform along the columns (or the only one), and its kernels
    COLUMN_FORWARD,
    COLUMN_INVERSE,
    COLUMN_PLAN,
    COLUMN_TWIDDLES,
    COLUMN_POSITION,
    COLUMN_ROOTS,
    COLUMNS,  # numbers in a row of the image
    IMAGE_STRIDE,
    IMAGE_IMAG,
    SIZE,  # numbers in an image
    UNITS,  # units of columns in an image, and in one sweep over its rows
    SWEEP,
    GROUP,  # numbers from one group to the next
    SPECTRUM_STRIDE,
    SPECTRUM_IMAG,
    COLUMNS_IN,  # kernels of the stages
    COLUMNS_OUT,
    INNER,
    INNER_COUNT,  # blocks of rows, or planes
    INNER_JOB,
    PLANE_STRIDE,
    PLANE_FILTER,
    ROW_LENGTH,  # the transform along the rows, and its kernels
    ROW_FORWARD,
    ROW_INVERSE,
    ROW_PLAN,
    ROW_TWIDDLES,
    GATHERED,
    BLOCK_STRIDE,
    BLOCK_FILTER,
    TWIST,
    PART,  # the kernel of one part of the inner stage, and what lays the filter of a part out
    PART_BLOCKS,
    PART_FILTER,
    ARRANGE,
    FILTER_JOB,
    SCALE,
    TILES,  # where in the scratch memory
    POINTS,  # rows of the array that a transform along columns loads
    BLANK,  # positions from here on to there that are zeros beyond the points
    BLANKED,
    FIELDS,
) = range(43)

# Fields of a filter job.
(
    FILTER_ROWS,
    FILTER_COLUMNS,
    FILTER_PLANE_LENGTH,
    FILTER_ROW_LENGTH,
    FILTER_PLANE_ORDER,
    FILTER_ROW_ORDER,
    FILTER_POSITION,
    FILTER_PLANE_STRIDE,
    FILTER_ROW_STRIDE,
    FILTER_COLUMN_STRIDE,
    FILTER_COMPLEX,
    FILTER_HALF,
    FILTER_FIELDS,
) = range(13)

# Fields of a job of lone transforms.
(
    LINE_LENGTH,
    LINE_COUNT,  # coefficients of a half spectrum
    LINE_ODD,
    LINE_TURN,  # lanes for an inverse complex transform, else 0
    LINE_TRANSFORM,  # kernel and tables
    LINE_PLAN,
    LINE_TWIDDLES,
    LINE_POSITION,
    LINE_ORDER,  # 0, 1, 2, …
    LINE_ROOTS,
    LINE_GROUP,  # numbers of a group
    LINE_NUMBERS,  # numbers in a row of columns, in an image of them
    LINE_SIZE,
    LINE_UNITS,
    LINE_SWEEP,
    LINE_FIELDS,
) = range(16)
