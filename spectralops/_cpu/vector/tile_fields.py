"""Names of the integers in a job of tiles with channels in the lanes."""

from __future__ import annotations

(
    TILE_IN,  # the kernels that transform a block of channels of a tile, and back
    TILE_OUT,
    ROWS,  # a tile
    COLUMNS,
    ROW_FORWARD,  # the transform along rows: of half the columns, since they are real
    ROW_INVERSE,
    ROW_PLAN,
    ROW_TWIDDLES,
    POSITION,
    ROOTS,
    COLUMN_FORWARD,  # and along columns
    COLUMN_INVERSE,
    COLUMN_PLAN,
    COLUMN_TWIDDLES,
    STRIDE,  # numbers from one column of a spectrum to the next
    BLOCK_SIZE,  # numbers of a block of channels of a tile
    INPUTS,
    OUTPUTS,
    TOGETHER,  # tiles that meet the weights together
    ITEMS,  # address of the items
    DOWN,  # tiles of an image along rows and columns, and their tables
    ACROSS,
    DOWN_TABLE,
    ACROSS_TABLE,
    SOURCE_CHANNEL,  # distances in the source: channels and rows; between its columns there is none
    SOURCE_ROW,
    TARGET_CHANNEL,
    TARGET_ROW,
    TARGET_ELEMENT,
    STEP_DOWN,  # every so many-th result is kept
    STEP_ACROSS,
    GROUP_SIZE,  # numbers of memory for a row of a tile
    FIELDS,
) = range(33)

# Input channels whose weights are transformed together, so that they are stored side by side.
WEIGHTS = 8
# Integers per item, in numbers from the beginning of the arrays.
ITEM_SOURCE, ITEM_TARGET, ITEM_FIELDS = range(3)
