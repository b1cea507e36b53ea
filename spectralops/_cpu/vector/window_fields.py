"""Names of the integers in a job of transforms of windows, and in the tables of windows along an axis."""

from __future__ import annotations

(
    WORK_JOB,  # address of the job of one transform: an image's or volume's, or that of lines
    WORK_KERNEL,  # for lines: the kernel that filters them
    CUT,  # the kernels that cut a window out, and that keep its results
    KEEP,
    ITEMS,  # address of the items
    COUNTS,  # windows along each of three axes
    COUNT_1,
    COUNT_2,
    TABLES,  # address of the table of windows along each axis
    TABLE_1,
    TABLE_2,
    SIZES,  # elements of a window along each axis
    SIZE_1,
    SIZE_2,
    SOURCE_STRIDES,
    SOURCE_STRIDE_1,
    SOURCE_STRIDE_2,
    TARGET_STRIDES,
    TARGET_STRIDE_1,
    TARGET_STRIDE_2,
    STEPS,  # every so many-th result is kept, along each axis
    STEP_1,
    STEP_2,
    NUMBERS,  # numbers in an element: 2 where it is complex
    FILTER_SIZE,  # numbers in a filter
    WINDOW_SIZE,  # numbers of memory that a window takes, its spectrum, and the work of volumes
    SPECTRUM_SIZE,
    WORK_SIZE,
    FIELDS,
) = range(29)

# Integers per window along an axis: the element of the source at its beginning, the part of it that exists there; the
# first result, how many there are, and where they lie in the window.
WINDOW_SOURCE, WINDOW_LOW, WINDOW_HIGH, WINDOW_TARGET, WINDOW_COUNT, WINDOW_FROM, WINDOW_FIELDS = range(7)
# Integers per item, in numbers from the beginning of the arrays, and the number of its filter.
ITEM_SOURCE, ITEM_FILTER, ITEM_TARGET, ITEM_FIELDS = range(4)
