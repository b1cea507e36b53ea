"""What compiled sweeps read besides the cells: the places of integers in their tables."""

from __future__ import annotations

from enum import IntEnum, auto

__all__ = [
    "ALL_OPEN", "HELD", "INSIDE", "LAYERS", "OUTSIDE", "UNIT_BYTES", "VECTOR_BYTES", "WORD_BYTES",
    "Array", "Face", "Flag", "Item", "Job", "Record", "Table", "Wall", "vectors_of",
]  # fmt: skip


class Place(IntEnum):
    """Members count from 0."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class Job(Place):
    """Of a call: the grid, the layout of scratch memory in elements, addresses, and what there is."""

    PLANES = auto()
    ROWS = auto()
    CELLS = auto()
    PITCH = auto()
    PLANE_PITCH = auto()
    BASE = auto()
    SIZE = auto()
    ARRAYS = auto()
    OUT = auto()
    COEFFICIENTS = auto()
    COEFFICIENT_BYTES = auto()  # between the rows of two grids
    SOURCES = auto()  # of ghosts, by Table
    SCALES = auto()
    OFFSETS = auto()
    WIDTHS = auto()
    WIDTH_OF_ROWS = auto()
    WIDTH_OF_CELLS = auto()
    FIELDS = auto()
    FIELD_PLACES = auto()  # address of their places in scratch memory, behind the copies of u; -1 - k where they pass
    KEPT = auto()  # place of rows that are kept, behind all fields
    PASSING = auto()  # numbers of one field that passes before scratch memory, a block of rows at a time
    POINTWISE = auto()
    RATES = auto()  # place of what pointwise functions return
    MASK = auto()  # its place behind these and what is made of fields at faces
    SCRATCH = auto()  # number of all fields of numbers in scratch memory
    MASKED = auto()
    MARKED = auto()  # of masks of which vectors are marked: along how many axes they close faces, else 0
    RESTORED = auto()  # whether levels compute cells outside the mask, which the result then gets back
    FACES = auto()  # address of what is made for them
    FACE_COUNT = auto()  # of fields; those of masks follow
    RAISED = auto()  # how far the second bit of a byte is from the top of a number
    CLOSED = auto()  # axes along which masks close faces
    HELD = auto()  # bits of sides
    RUNS = auto()  # whether rows have one ghost at either end, and no cell is held or told by a pointwise function
    STRAIGHT = auto()  # address of a job whose pitches are the grid's own
    STAGES = auto()  # addresses of the functions that compute rows
    FUNCTIONS = auto()  # addresses of the pointwise ones
    DT = auto()  # address


class Array(Place):
    """Of an array that sweeps read, u first: distances in bytes; GRIDS is the address of the grids' offsets."""

    ADDRESS = auto()
    GRIDS = auto()
    PLANE = auto()
    ROW = auto()
    CELL = auto()


class Face(Place):
    """Of values at the faces of an axis, made from a field, known by its place, when that is loaded.

    Slots below 0 make bits of a mask: -1 that at the top, -2 the next.
    """

    AXIS = auto()
    SOURCE = auto()
    SLOT = auto()
    TARGET = auto()


class Item(Place):
    """Of a tile: its first cell, which may lie before the grid's first where that wraps around, and its extent."""

    GRID = auto()
    Z = auto()
    Y = auto()
    X = auto()
    PLANES = auto()
    ROWS = auto()
    CELLS = auto()
    WALLS = auto()
    RECORDS = auto()  # address
    COUNT = auto()


class Record(Place):
    """Of a block of cells that one level computes; the stage -1 loads them. Targets below 0 are the result,
    -1 - k that of a level that would else go to the k-th copy of u.

    Rows lie in scratch memory as many rows further up as SHIFT says. The stage -2 moves the rows J0 to J1 up there. The
    stage -3 computes its cells, which have all their neighbours, from the array itself. The stage -4 keeps rows of the
    SOURCE-th copy of u behind all fields of scratch memory, in the TARGET-th place there is; -5 brings them back.
    """

    STAGE = auto()
    SOURCE = auto()
    TARGET = auto()
    FLAGS = auto()
    P0 = auto()
    P1 = auto()
    J0 = auto()
    J1 = auto()
    I0 = auto()
    I1 = auto()
    SHIFT = auto()
    RUN = auto()  # of the first of several blocks that feed no rows of ghosts: how many; of the others -1; else 0


class Wall(IntEnum):
    """Sides of a tile with ghosts beyond them, as bits; the others border on cells of the grid."""

    LOW_PLANE = 1
    HIGH_PLANE = 2
    LOW_ROW = 4
    HIGH_ROW = 8
    LOW_CELL = 16
    HIGH_CELL = 32


class Flag(IntEnum):
    """What is to be done after a block, as bits: ghosts to be renewed, and held cells, which lie along walls."""

    LOW_PLANE = 1
    HIGH_PLANE = 2
    LOW_ROW = 4
    HIGH_ROW = 8
    LOW_CELL = 16
    HIGH_CELL = 32
    HELD_LOW_PLANE = 64
    HELD_HIGH_PLANE = 128
    HELD_LOW_ROW = 256
    HELD_HIGH_ROW = 512
    HELD_LOW_CELL = 1024
    HELD_HIGH_CELL = 2048


# From the flag of a wall to that of its held cells: bits to shift.
HELD = 6


class Table(Place):
    """Rules of ghosts, [kind, axis, side, layer]."""

    CELLS = auto()
    FIELDS = auto()
    MASK = auto()


# The bit at this place from the top of a mask's cell says that it is inside; those before it that faces above it are
# open, one for each axis along which any can be closed.
INSIDE = 3
# Bits from the bottom, at the first cell of a vector: nothing in it is outside or closed, everything is outside.
ALL_OPEN, OUTSIDE = 1, 2
# Ghosts on one side of an axis at most.
LAYERS = 3


# Of a mask, for interleaved rows: bytes of a vector's cells, of which there are no more, and of a unit's, and its word.
VECTOR_BYTES, UNIT_BYTES, WORD_BYTES = 8, 64, 8


def vectors_of(lanes: int) -> int:
    """Vectors of a block of interleaved rows: the fewer there are, the more often lanes are moved."""
    return max(8, lanes)
