"""Names of the integers in the records of truncated transforms: what host code and kernels both know."""

from __future__ import annotations

# A chain: how many steps, images that take them together, and numbers from image to image on both sides; then a record
# per step, with its units of work in one image.
CHAIN_STEPS, CHAIN_IMAGES, SOURCE_STEP, TARGET_STEP, CHAIN_FIELDS = range(5)
STEP_KERNEL, STEP_RECORD, STEP_UNITS, STEP_SOURCE, STEP_TARGET, STEP_SIZE = range(6)

# One axis, along columns or rows.
(
    LENGTH,  # points, as numbers along rows (complex rows have two for each)
    COLUMNS,  # numbers in a row of a group of columns
    STRIPS,  # strips that they are cut into
    PITCH,  # numbers from one folded row to the next
    FIELD_GROUP,
    FIELD_ROW,
    KEPT_GROUP,
    KEPT_ROW,
    PRODUCT,
    CHUNK,  # rows at a time
    FOLDED,  # whether rows are folded
    PARTS,
    AHEAD,  # distance of what the processor should fetch meanwhile
    BESIDE,  # where in the scratch the later parts of long sums come
    AXIS_FIELDS,
) = range(15)
# Longer sums over points are done in parts, lest rounding grow with their number.
LONGEST_SUM = 512
# A part: the matrix and the distance of its rows, where the part begins among folded and kept numbers, how many it has.
PART_MATRIX, PART_STRIDE, PART_FOLDED, PART_KEPT, PART_POINTS, PART_MODES, PART_SIZE = range(7)

# Sums of cosines and sines along one axis to signed wavenumbers.
(
    LOWEST,
    SIGNED,
    HIGHEST,  # largest absolute wavenumber
    COSINE_ROWS,
    SINE_ROWS,
    INNER,  # rows of one wavenumber, and numbers in them
    COUNT,
    SUMS_GROUP,
    SUMS_ROW,
    SUMS_INNER,
    SUMS_IMAG,
    MODES_GROUP,
    MODES_ROW,
    MODES_INNER,
    MODES_IMAG,
    SIGN_FIELDS,
) = range(16)

# Modes of images to blocks of as many modes as lanes, and back.
BLOCKS, BLOCK_STEP, DENSE_STEP, DENSE_IMAG, DENSE_COUNT = range(5)

# Products over channels: result[row][column] = Σ over terms of left[row][term] · right[term][column], for each mode.
(
    MODES,
    GROUP,  # blocks of modes whose right factors are laid out at a time
    TILES,  # tiles of columns, nearly equal
    LEFTS,
    RIGHTS,
    TERMS,
    LEFT_BLOCK,
    LEFT_ROW,
    LEFT_TERM,
    RIGHT_BLOCK,
    RIGHT_TERM,
    RIGHT_COLUMN,
    RESULT_BLOCK,
    RESULT_ROW,
    RESULT_COLUMN,
    FACTORS,  # of the real parts of all modes, then of the imaginary parts
    FACTORS_IMAG,
    MIX_FIELDS,
) = range(18)
# Columns of a tile of complex sums that the registers hold.
TILE_COLUMNS = 6

# One axis by a fast transform: the fields from LENGTH to KEPT_ROW as above, then these.
(
    WAVE_TRANSFORM,
    WAVE_PLAN,
    WAVE_TWIDDLES,
    WAVE_POSITION,
    WAVE_ROOTS,
    WAVE_PLACES,  # where the kept wavenumbers stand
    WAVE_MIRRORS,  # where the opposite ones do
    WAVE_COUNT,
    WAVE_IMAG,
    WAVE_GROUP,
    WAVE_SWEEP,
    WAVE_RADIX,  # of the last stage, where that is left out
    WAVE_FIELDS,
) = range(8, 21)
