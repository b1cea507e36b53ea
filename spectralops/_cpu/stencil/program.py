"""What compiled code depends on, apart from the numbers that it reads, and the coefficients as it reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spectralops._plans.schemes import Weight
    from spectralops._plans.steps import StepPlan

__all__ = ["GRID", "ITSELF", "NUMBER", "Added", "Flux", "Mean", "Program", "Tap", "Transport", "program_of"]

Array = np.ndarray[Any, Any]
# What a coefficient is: one number, one for each grid, or u itself; from 0 on: the place of a field.
NUMBER, GRID, ITSELF = -1, -2, -3
# Fields in the scratch memory of a tile: u and the values of stages that later ones read, for rk4 also their sum.
BUFFERS = {"euler": 2, "rk2": 2, "ssprk3": 3, "rk4": 4}
# Steps with more operations of a cell keep their rows in order: their code, repeated for a block, would be long.
FEW_OPERATIONS = 40
# Roughly the operations of one transport in a cell.
OPERATIONS = {"central": 5, "upwind": 6, "upwind3": 24, "weno5": 200}


@dataclass(frozen=True, slots=True)
class Tap:
    """One neighbour or a pair along an axis; `slot` is the place of its weight among the coefficients."""

    axis: int
    offsets: tuple[int, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class Flux:
    """Diffusion along an axis; `slot`: the conductance where that is a number, else the factor of the field."""

    axis: int
    given: int
    slot: int


@dataclass(frozen=True, slots=True)
class Transport:
    """Advection along an axis; `slot` is the factor, and behind it the velocity of each grid where that is given."""

    axis: int
    scheme: str
    form: str
    wind: int
    given: int
    slot: int


@dataclass(frozen=True, slots=True)
class Added:
    """A source; `slot`: what is added where that is a number, else the factor of the field."""

    given: int
    slot: int


@dataclass(frozen=True, slots=True)
class Mean:
    """The sum of a field on both sides of the faces of an axis, times the coefficient in a slot."""

    given: int
    axis: int
    slot: int


@dataclass(frozen=True, slots=True)
class Program:
    """The structure of a step, whose stages are levels; equal programs share their compiled code.

    Axes are those of a grid seen as (planes, rows, cells), of which the last ones are stepped.
    """

    dtype: str
    integrator: str
    stages: int
    center: int | None
    taps: tuple[Tap, ...]
    fluxes: tuple[Flux, ...]
    transport: tuple[Transport, ...]
    added: tuple[Added, ...]
    pointwise: int
    fields: int
    masked: bool
    numbers: int
    flat: bool  # of less than three dimensions

    @property
    def buffers(self) -> int:
        """Copies of u in scratch memory."""
        return BUFFERS[self.integrator]

    @property
    def closed(self) -> tuple[int, ...]:
        """Axes of which the mask closes faces."""
        axes = {part.axis for part in self.fluxes} | {one.axis for one in self.transport}
        return tuple(sorted(axes)) if self.masked else ()

    @property
    def restored(self) -> bool:
        """Whether cells outside the mask are computed like others, as none inside looks at them, and put back at last.

        Functions of the caller's see no values there but those of the array.
        """
        return self.masked and not self.pointwise

    @property
    def marked(self) -> bool:
        """Whether vectors of which no face is closed go without the mask, and those outside it are passed over.

        In three dimensions the marks of all cells around cost what is gained.
        """
        return self.restored and bool(self.fluxes) and not self.transport and 0 not in self.closed

    @property
    def interleaves(self) -> bool:
        """Whether interleaved rows gain: what neighbours share along rows is then at hand, else lanes are moved."""
        shared = any(part.axis == 2 for part in self.fluxes) and (self.masked or any(p.given >= 0 for p in self.fluxes))
        return shared and not self.pointwise and self.operations <= FEW_OPERATIONS

    @property
    def plain(self) -> bool:
        """Whether a cell becomes a sum of neighbours, also along rows, which takes more loads than additions."""
        along = any(tap.axis == 2 for tap in self.taps)
        return along and not (self.fluxes or self.transport or self.masked or self.pointwise)

    @property
    def mean_places(self) -> dict[Mean, int]:
        """Places of the means of fields at faces, which do not change from level to level."""
        found = [Mean(part.given, part.axis, part.slot) for part in self.fluxes if part.given >= 0]
        found += [
            Mean(one.given, one.axis, one.slot) for one in self.transport if one.form == "flux" and one.given >= 0
        ]
        behind = self.rates + self.pointwise
        return {mean: behind + k for k, mean in enumerate(dict.fromkeys(found))}

    @property
    def operations(self) -> int:
        """Roughly the operations of a cell, each value at a face counted twice."""
        count = 1 + sum(len(tap.offsets) + 1 for tap in self.taps) + 2 * len(self.added) + self.pointwise
        count += sum(6 if part.given < 0 else 10 for part in self.fluxes)
        return count + sum(OPERATIONS[part.scheme] for part in self.transport)

    @property
    def scratch(self) -> int:
        """Fields in scratch memory: u, kept coefficients, what pointwise functions return, means at faces, the mask."""
        return self.mask + self.masked

    @property
    def mask(self) -> int:
        """Place of the mask in scratch memory."""
        return self.rates + self.pointwise + len(self.mean_places)

    @property
    def field_places(self) -> tuple[int, ...]:
        """Places of fields in scratch memory; -1 - k of the k-th one of which only means are read, so that it passes.

        In three dimensions none does, since the means between planes need whole ones.
        """
        read = {one.given for one in self.added} | {one.given for one in self.transport if one.form != "flux"}
        kept = [k for k in range(self.fields) if k in read or not self.flat]
        passing = [k for k in range(self.fields) if k not in kept]
        return tuple(self.buffers + kept.index(k) if k in kept else -1 - passing.index(k) for k in range(self.fields))

    @property
    def passing(self) -> int:
        """Fields of which no more is kept than a block of rows needs."""
        return sum(place < 0 for place in self.field_places)

    @property
    def rates(self) -> int:
        """Place of the first of what pointwise functions return."""
        return self.buffers + self.fields - self.passing


class Coefficients:
    """The columns of the table of coefficients, each a function of the arrays, and the operands that are fields."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan
        self.number = np.dtype(plan.compute).type
        self.columns: list[Callable[[tuple[Array, ...]], Array]] = []
        self.fields: list[int] = []
        self.varies = False

    def add(self, column: Callable[[tuple[Array, ...]], Array]) -> int:
        """Place of a new column."""
        self.columns.append(column)
        return len(self.columns) - 1

    def number_column(self, value: float) -> int:
        rounded = self.number(value)
        return self.add(lambda arrays: rounded)

    def weight_column(self, weight: Weight, plus: float = 0.0) -> int:
        """A weight, formed in float64 and rounded once."""
        if not weight.parts:
            return self.number_column(plus + weight.constant)
        self.varies = True

        def column(arrays: tuple[Array, ...]) -> Array:
            value: Any = weight.constant
            for operand, factor in weight.parts:
                value = value + factor * arrays[operand]
            return self.of_grids((plus + value).astype(self.number))

        return self.add(column)

    def grid_column(self, operand: int, change: Callable[[Array], Array] = lambda values: values) -> int:
        """An operand that has one value for each grid."""
        self.varies = True
        return self.add(lambda arrays: self.of_grids(change(arrays[operand].astype(self.number))))

    def of_grids(self, values: Array) -> Array:
        """Values that are constant along the stepped axes, in the order of the grids."""
        geometry = self.plan.geometry
        shape = tuple(1 if axis in geometry.axes else n for axis, n in enumerate(geometry.shape))
        return np.broadcast_to(values, shape).reshape(-1)

    def given(self, operand: int) -> int:
        """Whether an operand is a field, and which, or one number for each grid."""
        if operand in self.plan.geometry.constant:
            return GRID
        if operand not in self.fields:
            self.fields.append(operand)
        return self.fields.index(operand)


def program_of(plan: StepPlan) -> tuple[Program, Coefficients]:
    """The program of a plan and the coefficients that it reads."""
    geometry, update = plan.geometry, plan.update
    first = 3 - len(geometry.axes)
    place = {axis: first + j for j, axis in enumerate(geometry.axes)}
    table = Coefficients(plan)
    number = table.number
    center, taps = None, []
    if update.linear is not None:
        center = table.weight_column(update.linear.center, 0.0 if plan.integrator == "rk4" else 1.0)
        taps = [Tap(place[t.axis], t.offsets, table.weight_column(t.weight)) for t in update.linear.taps]
    fluxes, transport, added = [], [], []
    for part in update.diffusion:
        given = NUMBER if part.nu is None else table.given(part.nu.operand)
        if given == GRID:
            factor = number(part.factor)
            slot = table.grid_column(part.nu.operand, lambda v, factor=factor: (v + v) * factor)  # type: ignore
        else:
            slot = table.number_column(part.factor)
        fluxes.append(Flux(place[part.axis], given, slot))
    for one in update.transport:
        velocity: Any = one.velocity
        if velocity is None:
            given = ITSELF
        else:
            given = NUMBER if isinstance(velocity, float) else table.given(velocity.operand)
        slot = table.number_column(one.factor)
        if given == GRID:
            factor, flux = number(one.factor), one.form == "flux"
            table.grid_column(velocity.operand, lambda v, f=factor, flux=flux: (v + v) * f if flux else v)  # type: ignore
        transport.append(Transport(place[one.axis], one.scheme, one.form, one.wind, given, slot))
    for rate, scale in update.sources:
        if isinstance(rate, float):
            added.append(Added(NUMBER, table.number_column(rate * scale)))
            continue
        given, factor = table.given(rate.operand), number(scale)
        if given == GRID:
            slot = table.grid_column(rate.operand, lambda v, factor=factor: v * factor)  # type: ignore[misc]
        else:
            slot = table.number_column(scale)
        added.append(Added(given, slot))
    program = Program(
        plan.compute,
        plan.integrator,
        plan.stages,
        center,
        tuple(taps),
        tuple(fluxes),
        tuple(transport),
        tuple(added),
        len(update.pointwise),
        len(table.fields),
        geometry.mask is not None,
        len(table.columns),
        len(geometry.axes) < 3,
    )
    return program, table
