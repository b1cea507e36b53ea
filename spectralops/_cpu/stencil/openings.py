"""The code of what a mask says of the cells of interleaved rows: a byte for each, and a word for each unit.

A byte says which faces above a cell are open, a bit for each axis, from the top down for cells, rows and planes; those
of the lanes of a vector lie side by side, `VECTOR_BYTES` from one vector to the next. At the bottom of that of a unit's
first cell are the unit's marks. A word says which cells of a unit are inside, in their order along the row. In numbers,
as of rows in order, this would take as much of the cache as u does.
"""

from __future__ import annotations

from spectralops._cpu.stencil.emit import Emitter, Value
from spectralops._cpu.stencil.layout import UNIT_BYTES, VECTOR_BYTES

__all__ = ["Openings", "openings_of"]


class Openings:
    """Bytes and words of a field; cells are counted from where the field begins, and are the first of a vector."""

    def __init__(self, e: Emitter, field: Value, size: Value) -> None:
        self.e = e
        self.first_byte = e.bytes_at(field)
        self.first_word = e.words_at(e.shift(self.first_byte, self.units(size) * UNIT_BYTES))
        # A row of bytes of the array on their way to words, and room for what lies before it.
        self.row_of_array = e.shift(e.bytes_at(self.word(size)), e.unit)

    def units(self, cells: Value) -> Value:
        return cells >> self.e.unit.bit_length() - 1

    def byte(self, cell: Value) -> Value:
        """Where the bytes of a vector lie."""
        return self.e.shift(self.first_byte, cell * (VECTOR_BYTES // self.e.lanes))

    def word(self, cell: Value, further: int = 0) -> Value:
        """Where the word of the unit that a cell is in lies, or that of one so many units further."""
        return self.e.shift(self.first_word, self.units(cell) + further)

    def inside(self, cell: Value, further: int = 0) -> Value:
        return self.e.scalar(self.word(cell, further))

    def put(self, cell: Value, faces: tuple[Value, ...], marks: Value) -> None:
        """The bytes of a unit from words of faces by axis, planes first."""
        e = self.e
        place = self.byte(cell)
        e.put_bytes(place, [(_transposed(word), 1 << 5 + axis) for axis, word in enumerate(faces)])
        e.put(place, 0, e.scalar(place) | e.byte(marks))


def openings_of(e: Emitter, bits: Value, axis: int, raised: Value) -> Value:
    """Signs of the open faces of an axis, of bytes that were loaded with their signs.

    `raised`: how far the second bit of a byte is from the top, not a constant, for which LLVM would take bytes apart.
    """
    return bits if axis == 2 else e.raised(bits, raised + (1 - axis))


def _transposed(word: Value) -> Value:
    """The bits of a word as those of a matrix of 8 x 8, its rows as columns (Warren, Hacker's Delight, 7-3)."""
    for distance, places in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        moved = (word ^ word.lowered(distance)) & places
        word = word ^ moved ^ (moved << distance)
    return word
