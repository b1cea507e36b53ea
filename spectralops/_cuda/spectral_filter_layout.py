"""How the arrays of a filter are transformed: the form of the last axis, and which geometry each axis has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectralops._cuda.geometry import (
    BYTES,
    REALS,
    SHARED_BYTES,
    Lines,
    columns_form,
    itemsize_of,
    row_geometry,
    stored_as,
    unfit,
)
from spectralops._cuda.images import Image, image_geometry
from spectralops._cuda.passes import Chirp, Cyclic
from spectralops._cuda.planes import Plane, plane_geometry
from spectralops._cuda.spread import Spread, spread_columns, spread_lines

if TYPE_CHECKING:
    from spectralops._plans.spectral import SpectralFilterPlan

__all__ = ["Layout", "layout_of"]

# Transforms with one filter from which on it pays to transform its spectrum for longer transforms.
MANY, MANY_LINES = 4, 64
# Bytes that memory is read by; numbers of a row from which on there may be one more, so that the next begins with them.
SECTOR, ALIGNED_FROM = 32, 32


@dataclass(frozen=True, slots=True)
class Layout:
    """How a plan's arrays are transformed: the trailing axes of [batch][sizes], in the form of the last axis."""

    form: str
    sizes: tuple[int, ...]
    batch: int
    reals: tuple[str, str]  # C++ types of the values in memory and of the arithmetic
    row: Lines
    columns: tuple[Lines, ...]  # first axis, then the middle one
    plane: Plane | None = None  # how one block transforms the last two axes
    halves: bool = False  # whether two blocks share a line, of which `row` transforms half
    spread: Spread | None = None  # how clusters transform lines, or the first of several axes
    image: Image | None = None  # how a cluster transforms the last two axes
    beforehand: bool = False  # whether what lines in clusters are multiplied by is found once for all of them

    @property
    def whole(self) -> bool:
        """Whether one kernel transforms the last two axes."""
        return self.plane is not None or self.image is not None

    @property
    def itemsize(self) -> int:
        """Bytes of a number of the arithmetic."""
        return BYTES[self.reals[1]]

    @property
    def value_bytes(self) -> int:
        """Bytes of a value in memory: two real ones, or one complex one."""
        return BYTES[self.reals[0]] * (2 if self.form == "FULL" else 1)

    @property
    def narrow(self) -> bool:
        """Whether values lie in memory in 16 bits, where their spectrum has no room."""
        return self.reals[0] != self.reals[1]

    @property
    def stored(self) -> int:
        """Coefficients of a row that are distinct."""
        return self.sizes[-1] if self.form == "FULL" else self.sizes[-1] // 2 + 1

    @property
    def aligned(self) -> int:
        """Numbers between rows of as many columns as are distinct, so that all rows begin with a sector."""
        return -(-self.stored // (SECTOR // (2 * self.itemsize))) * (SECTOR // (2 * self.itemsize))

    @property
    def pitch(self) -> int:
        """The same between rows of a spectrum in a workspace, if that makes it little larger: mirror images fill it."""
        little = ALIGNED_FROM * (self.aligned - self.stored) <= self.stored
        return self.aligned if little and self.form == "HALF" and len(self.sizes) == 2 else self.stored

    @property
    def scale(self) -> float:
        """What the inverse that follows the multiplier scales by; two rows of one transform come out of it twice.

        A packed real line has half as many points, and comes out of its filter twice.
        """
        return (0.5 if self.form in ("PAIRS", "HALF") and self.columns else 1.0) / math.prod(self.sizes)


def layout_of(plan: SpectralFilterPlan, shared_bytes: int = SHARED_BYTES) -> Layout | str:
    """The layout of a plan, or in words why there is none."""
    sizes, real = plan.sizes, plan.grid.halved
    if reason := unfit(sizes):
        return reason
    itemsize = itemsize_of(plan)
    reals = stored_as(plan), REALS[itemsize]
    last = sizes[-1]
    if len(sizes) == 1:
        form = "FULL" if not real else "PAIRS" if last % 2 == 0 else "HALF"
        row = row_geometry(last // 2 if form == "PAIRS" else last, itemsize, shared_bytes, mirrored=form == "PAIRS")
        if real and row is not None and isinstance(row.passes, Chirp) and _one_for_all(plan):
            two = row_geometry(last, itemsize)
            if form == "HALF":
                form = "SPLIT"
            if two is not None and isinstance(two.passes, Chirp) and plan.batch >= MANY_LINES:
                form, row = "SPLIT", Lines(Cyclic(last, two.passes.inner), two.lines)
        long = row is None and form == "PAIRS" and not plan.padded
        one = long and _one_for_all(plan)
        if long and (found := spread_lines(last // 2, itemsize, shared_bytes, one)) is not None:
            beforehand = one and plan.batch >= MANY_LINES
            return Layout(form, sizes, plan.batch, reals, found.lines, (), spread=found, beforehand=beforehand)
        halves = long and last % 4 == 0
        if halves:
            row = row_geometry(last // 4, itemsize, shared_bytes)
        if row is None:
            return f"length {last} does not fit a block"
        return Layout(form, sizes, plan.batch, reals, row, (), None, halves)
    row = row_geometry(last, itemsize, shared_bytes)
    if row is None:
        return f"length {last} does not fit a block"
    formed = columns_form(sizes, itemsize, real, shared_bytes)
    if isinstance(formed, str):
        return formed
    form, columns = formed
    spread = spread_columns(sizes[0], columns[0], itemsize, shared_bytes)
    chirp = columns[0].passes
    if len(sizes) == 2 and isinstance(chirp, Chirp) and plan.batch >= MANY and _one_for_all(plan):
        columns = (Lines(Cyclic(chirp.size, chirp.inner), columns[0].lines),)
    plane = image = None
    if form == "PAIRS" and not plan.padded:
        planes = plan.batch * math.prod(sizes[:-2])
        image = image_geometry(sizes[-2:], itemsize, shared_bytes, planes, len(sizes) > 2)
        if image is None:
            plane = plane_geometry(sizes[-2:], last // 2 + 1, itemsize, shared_bytes)
    both = plane or image
    if both is not None:
        row, columns = Lines(both.row, 1), (*columns[:-1], Lines(both.column, 1))
    return Layout(form, sizes, plan.batch, reals, row, columns, plane, spread=spread, image=image)


def _one_for_all(plan: SpectralFilterPlan) -> bool:
    """Whether all transforms of a batch have the same filter."""
    rank = len(plan.in_shape)
    shapes = [(1,) * (rank - len(each.spec.shape)) + each.spec.shape for each in plan.operands[1:]]
    return all(shape[axis] == 1 for shape in shapes for axis in range(rank) if axis not in plan.axes)
