"""Names of the integers in a job of direct sums, and how large the blocks of its kernels are."""

from __future__ import annotations

(
    COPY,  # the kernel that copies
    ITEMS,  # address of the items
    SHARED,  # so many items after one another have the same source
    LEADS,  # results of the axes before the last two, and the table of their places in the target
    LEAD_PLACES,
    PLANES,  # planes of the image that one result needs, and the table of their places: [lead][plane]
    PLANE_PLACES,
    IMAGE_ROWS,  # a plane of the image
    IMAGE_COLUMNS,
    ROW_STRIDE,
    ELEMENT,  # numbers from one element to the next: 2 where real and imaginary parts alternate
    TOP,  # the row and column of the image that the first tap of the first result meets
    LEFT,
    STRIDE,  # rows and columns of the image from one result to the next
    PHASES,
    STRIPS,  # results are computed in strips, of so many columns and rows, for which the copy has so many rows
    SIDES,
    SIDE,
    STRIP,
    COPIED,
    SEGMENT,  # numbers of one row of the copy, for each of its phases: every stride-th column of the image
    PLANE_SIZE,  # numbers of the copy of one plane
    ROWS,  # a plane of results
    COLUMNS,
    TARGET_STRIDE,
    TARGET_ELEMENT,
    SPACING,  # rows of results that share rows of the image lie so far apart
    FLAT,  # whether the outputs of a block are pieces of one row
    TAPS,  # table of taps, and how many
    TAP_COUNT,
    SLICES,  # table of slices, and how many
    SLICE_COUNT,
    WEIGHT_STEP,  # weights from one row of taps to the next of the same slice
    OUTPUT_COUNT,  # output channels, and the table of their places in the target
    OUTPUT_PLACES,
    FIELDS,
) = range(36)

# Integers per item, in numbers from the beginning of the arrays.
ITEM_SOURCE, ITEM_WEIGHT, ITEM_TARGET, ITEM_FIELDS = range(4)
# What the copying kernel says of its unit, at the beginning of the memory: how much of the strip exists, where its
# results and weights begin. The copy follows.
UNIT_ROWS, UNIT_COLUMNS, UNIT_TARGET, UNIT_WEIGHT, UNIT_FIELDS = 0, 1, 2, 3, 8
UNIT_BYTES = 8 * UNIT_FIELDS
# The place of a plane that does not exist.
MISSING = -(1 << 62)
# A block of sums that the registers hold: so many outputs, of so many vectors each.
OUTPUTS, VECTORS = 4, 2
# Rows of a block of neighbouring taps, the sizes of square kernels that have one, and whole vectors beyond a block that
# cover its taps.
TALL, SQUARES, REACH = 6, (3, 5, 7), 16
