"""Rows of cells between the points of a grid, on the sphere or a plane, and faces between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops.xarray._grid import GridLayout

__all__ = ["Band", "Rows"]

Array = np.ndarray[Any, Any]
# Rows beyond each end that a value at a face looks at.
BEYOND = 2


@dataclass(frozen=True, slots=True)
class Rows:
    """Cells in rows: along latitudes, or along x; rows and columns in the order in which they are stored.

    Attributes
    ----------
    layout : GridLayout
        Of the two axes.
    y, x : int
        Places of the dimension across the rows and of that along them.
    """

    layout: GridLayout
    y: int
    x: int

    @property
    def rows(self) -> int:
        return int(self._axis(self.y).size)

    @property
    def columns(self) -> int:
        return self._axis(self.x).size

    def _axis(self, number: int) -> Any:
        return next(axis for axis in self.layout.axes if axis.number == number)

    @property
    def wraps(self) -> tuple[bool, bool]:
        """Whether each of y and x goes on at its other end."""
        return self._axis(self.y).edge == "wrap", self._axis(self.x).edge == "wrap"

    @property
    def signs(self) -> tuple[float, float]:
        """What turns velocities of y and x into those of rising index."""
        across, along = (-1.0 if self._axis(n).descending else 1.0 for n in (self.y, self.x))
        return across, along

    @property
    def over(self) -> bool:
        """Whether columns go on over the poles."""
        return bool(self._axis(self.y).edge == "pole")

    @property
    def true(self) -> slice:
        """Rows that are as they are in the grid: all."""
        return slice(None)

    @property
    def caps(self) -> bool:
        """Whether the first and the last row are the poles, each one cell."""
        return self.layout.spherical and self.wraps[1] and self.layout.has_poles and self._globe

    @property
    def _globe(self) -> bool:
        latitudes = self.layout.latitudes
        return abs(latitudes[0] + latitudes[-1]) < 1e-6

    def faces(self) -> Array:
        """Places of the faces across rows: latitudes in radians, or metres."""
        axis = self._axis(self.y)
        if not self.layout.spherical:
            return np.asarray(axis.spacing * np.arange(axis.size + 1))
        points = np.deg2rad(np.asarray(self.layout.latitudes))
        middle = (points[1:] + points[:-1]) / 2
        ends = 2 * points[0] - middle[0], 2 * points[-1] - middle[-1]
        if self.over:
            ends = math.copysign(math.pi / 2, points[0]), math.copysign(math.pi / 2, points[-1])
        faces = np.concatenate([ends[:1], middle, ends[1:]])
        return np.clip(faces, -math.pi / 2, math.pi / 2)

    @property
    def step(self) -> float:
        """Width of a cell: of longitude in radians, or metres."""
        spacing = float(self._axis(self.x).spacing)
        return spacing / self.layout.radius if self.layout.spherical else spacing

    def areas(self) -> Array:
        """Of a cell of each row."""
        if not self.layout.spherical:
            return np.full(self.rows, self.step * self._axis(self.y).spacing)
        return np.asarray(self.layout.radius**2 * self.step * np.abs(np.diff(np.sin(self.faces()))))

    def heights(self) -> Array:
        """Lengths of the faces along rows."""
        size = np.abs(np.diff(self.faces()))
        return np.asarray(self.layout.radius * size) if self.layout.spherical else size

    def widths(self) -> Array:
        """Lengths of the faces across rows, with those of both ends: nothing where it is a pole."""
        if not self.layout.spherical:
            return np.full(self.rows + 1, self.step)
        widths = self.layout.radius * self.step * np.cos(self.faces())
        return np.asarray(np.where(widths < 1e-9 * np.max(widths), 0.0, widths))

    def passages(self) -> tuple[Array, Array]:
        """What velocities along rows and across them are multiplied by, at the faces, to be air that passes.

        With these lengths of faces, air crosses u dt / dx cells, as the points see it.
        """
        along, across = self.areas() / self.distances()[1], self.widths()
        if self.caps:
            along[[0, -1]] = 0.0
        return along, across

    def distances(self) -> tuple[Array, Array]:
        """Of neighbouring points: across rows, at all faces but the ends, and along them."""
        if not self.layout.spherical:
            return np.full(self.rows - 1, self._axis(self.y).spacing), np.full(self.rows, self.step)
        points = np.deg2rad(np.asarray(self.layout.latitudes))
        along = self.step * np.maximum(np.cos(points), 1e-9)
        return self.layout.radius * np.abs(np.diff(points)), self.layout.radius * along

    def weights(self) -> Array:
        """Three factors for each face across rows, of the differences before, at and after it.

        They give the value there of the cubic through the means of four cells, after Colella and Woodward (1984),
        eqs. 1.6 to 1.8, without limits.
        """
        h = self.heights()
        if self.caps:
            h[[0, -1]] *= 2
        if self.wraps[0]:
            h = np.concatenate([h[-BEYOND:], h, h[:BEYOND]])
        else:
            skip = int(self.caps and self.over)
            h = np.concatenate([h[skip : skip + BEYOND][::-1], h, h[::-1][skip : skip + BEYOND]])
        a, b, c, d = (h[k : k + self.rows + 1] for k in range(4))
        left_of, right_of = (a + b) / (2 * b + c), (d + c) / (2 * c + b)
        total = a + b + c + d
        # Factors of the slopes in both cells, and of the differences that these consist of.
        left, right = c * (c + d) / (b + 2 * c) / total, b * (a + b) / (2 * b + c) / total
        middle = b / (b + c) + 2 * c * b / (b + c) * (left_of - right_of) / total
        own, beyond = b / (a + b + c), c / (b + c + d)
        before = left * own * (b + 2 * c) / (a + b)
        here = middle + left * own * (2 * a + b) / (c + b) - right * beyond * (c + 2 * d) / (b + c)
        after = -right * beyond * (2 * b + c) / (d + c)
        return np.stack([before, here, after], axis=1)


@dataclass(frozen=True, slots=True)
class Band:
    """Some neighbouring rows of a grid that does not wrap across them; ends that are not the grid's are walls.

    It answers what is asked of :class:`Rows`. Where one end is over a pole both are said to be: what happens at an end
    that is none of the grid's is wrong anyway, as far as steps look.
    """

    whole: Rows
    start: int
    stop: int

    @property
    def y(self) -> int:
        return self.whole.y

    @property
    def x(self) -> int:
        return self.whole.x

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def columns(self) -> int:
        return self.whole.columns

    @property
    def wraps(self) -> tuple[bool, bool]:
        return False, self.whole.wraps[1]

    @property
    def signs(self) -> tuple[float, float]:
        return self.whole.signs

    @property
    def over(self) -> bool:
        return self.whole.over and self._at_end

    @property
    def caps(self) -> bool:
        return self.whole.caps and self._at_end

    @property
    def _at_end(self) -> bool:
        return self.start == 0 or self.stop == self.whole.rows

    @property
    def true(self) -> slice:
        """Rows at which no end is wrong that is none of the grid's."""
        return slice(int(self.start > 0), self.rows - int(self.stop < self.whole.rows))

    def areas(self) -> Array:
        return self.whole.areas()[self.start : self.stop]

    def widths(self) -> Array:
        return self.whole.widths()[self.start : self.stop + 1]

    def passages(self) -> tuple[Array, Array]:
        along, across = self.whole.passages()
        return along[self.start : self.stop], across[self.start : self.stop + 1]

    def weights(self) -> Array:
        return self.whole.weights()[self.start : self.stop + 1]
