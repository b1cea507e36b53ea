"""A step's update as the C++ type and the struct of values that `kernels/stage.cu` takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda.geometry import STORED
from spectralops._cuda.launch import Kernel, index_bits, index_option
from spectralops._cuda.program import Address, Program

if TYPE_CHECKING:
    from spectralops._plans.schemes import Transport, Weight
    from spectralops._plans.steps import StepPlan
    from spectralops._plans.terms import Field

__all__ = ["C_NAMES", "NO_CONTRACTION", "Instances", "Layout", "Stages", "in_memory"]

NO_CONTRACTION = "-fmad=false"
THREADS = 256
MOST_BLOCKS_Y = 65535
C_NAMES = {"float32": "float", "float64": "double"}
SCHEMES = {"central": 0, "upwind": 1, "upwind3": 2, "weno5": 3}
# Addresses of a program that come before those of the coefficients.
FIELDS = 4
COMBINE = {"euler": 0, "heun": 1, "blend": 2, "rk4_first": 3, "rk4_middle": 4, "rk4_last": 5}


def in_memory(plan: StepPlan, operand: int = 0) -> str:
    """The C++ type of an operand's elements, as the dispatcher hands them over; u's is the result's too."""
    it = plan.operands[operand]
    return STORED.get(it.spec.dtype) or C_NAMES[it.compute]


@dataclass(frozen=True, slots=True)
class Layout:
    """The array with as few dimensions as its stepped axes and its coefficients' strides allow.

    Attributes
    ----------
    shape : tuple of int
        Sizes of the dimensions.
    place : dict
        Dimension of each stepped axis.
    strides : tuple of tuple of int
        Distances of neighbours in each operand after u, in elements, 0 where it broadcasts.
    """

    shape: tuple[int, ...]
    place: dict[int, int]
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], axes: tuple[int, ...], fields: tuple[Any, ...]) -> Layout:
        """Merge neighbouring axes that are not stepped and that lie behind one another in every operand."""
        whole = [_aligned_strides(field, len(shape)) for field in fields]
        sizes: list[int] = []
        steps: list[list[int]] = [[] for _ in fields]
        place: dict[int, int] = {}
        open_group = False
        for axis, n in enumerate(shape):
            stepped = axis in axes
            if n == 1 and not stepped:
                continue
            mergeable = (
                open_group
                and not stepped
                and all(have[-1] == more[axis] * n for have, more in zip(steps, whole, strict=True))
            )
            if mergeable:
                sizes[-1] *= n
                for have, more in zip(steps, whole, strict=True):
                    have[-1] = more[axis]
            else:
                if stepped:
                    place[axis] = len(sizes)
                sizes.append(n)
                for have, more in zip(steps, whole, strict=True):
                    have.append(more[axis])
            open_group = not stepped
        return cls(tuple(sizes), place, tuple(tuple(s) for s in steps))


def _aligned_strides(field: Any, ndim: int) -> tuple[int, ...]:
    """Strides in elements against all axes of u; 0 along those that the field does not vary along."""
    missing = ndim - field.ndim
    itemsize = int(field.itemsize)
    own = [0 if n == 1 else int(s) // itemsize for n, s in zip(field.shape, field.strides, strict=True)]
    return (*([0] * missing), *own)


class Emitter:
    """Collects the values of a plan as template arguments name them."""

    values: np.ndarray[Any, Any]

    def __init__(self, plan: StepPlan, layout: Layout) -> None:
        self.plan = plan
        self.layout = layout
        self.real = np.dtype(plan.compute)
        bits = index_bits(plan.index_bits, [(layout.shape, strides) for strides in layout.strides])
        self.index = np.dtype(np.int32 if bits == 32 else np.int64)
        self._numbers: list[float] = []
        self._weights: list[float] = []
        self._fields: list[int] = []

    @property
    def operands(self) -> tuple[int, ...]:
        """The plan's operands in the order of the struct's fields."""
        return tuple(self._fields)

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options."""
        return (NO_CONTRACTION, index_option(8 * self.index.itemsize))

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (
            len(self.layout.shape), max(1, *self.plan.geometry.widths), max(1, len(self._fields)),
            max(1, len(self._numbers)), max(1, len(self._weights)),
        )  # fmt: skip

    @property
    def sizes(self) -> str:
        """Their numbers as a C++ type."""
        return f"Sizes<{', '.join(map(str, self._sizes))}>"

    def places(self) -> list[tuple[int, int]]:
        """Words of the struct that hold addresses, and whose: operands of the plan by number."""
        fields = self.values.dtype.fields
        assert fields is not None
        kind, begin = fields["fields"][:2]
        one = kind.base.itemsize
        return [((begin + k * one) // 8, operand) for k, operand in enumerate(self._fields)]

    # Each of these notes what it needs and gives back its place as template arguments.

    def _number(self, value: float) -> int:
        self._numbers.append(value)
        return len(self._numbers) - 1

    def _place(self, operand: int) -> int:
        if operand not in self._fields:
            self._fields.append(operand)
        return self._fields.index(operand)

    def _field(self, field: Field | None) -> str:
        """Place and type of an array."""
        if field is None:
            return f"-1, {C_NAMES[self.plan.compute]}"
        return f"{self._place(field.operand)}, {in_memory(self.plan, field.operand)}"

    def _weight(self, weight: Weight | None) -> str:
        if weight is None or not weight.parts:
            constant = 0.0 if weight is None else weight.constant
            return f"Constant<{self._number(constant)}, {self._number(1.0 + constant)}>"
        first = len(self._weights)
        self._weights += [weight.constant, *(factor for _, factor in weight.parts)]
        arrays = [f"Array<{self._place(operand)}, {in_memory(self.plan, operand)}>" for operand, _ in weight.parts]
        return f"Weight<{', '.join(map(str, [first, *arrays]))}>"

    def _struct(self, rows: int) -> np.ndarray[Any, Any]:
        dims, width, fields, numbers, weights = self._sizes
        ghost = np.dtype([("cell", self.index), ("scale", self.real), ("offset", self.real)], align=True)
        field = np.dtype([("data", np.uint64), ("stride", self.index, (dims,))], align=True)
        struct = np.zeros(
            (),
            np.dtype(
                [
                    ("shape", self.index, (dims,)),
                    ("stride", self.index, (dims,)),
                    ("rows", self.index),
                    ("ghosts", ghost, (dims, 2, width)),
                    ("held", np.int32, (dims, 2)),
                    ("fields", field, (fields,)),
                    ("numbers", self.real, (numbers,)),
                    ("weights", np.float64, (weights,)),
                    ("blend", self.real, (2,)),
                ],
                align=True,
            ),
        )
        shape = self.layout.shape
        struct["shape"] = shape
        struct["stride"] = [math.prod(shape[d + 1 :]) for d in range(dims)]
        struct["rows"] = rows
        struct["ghosts"]["cell"] = -1
        for k, operand in enumerate(self._fields):
            struct["fields"]["stride"][k] = self.layout.strides[operand - 1]
        struct["numbers"][: len(self._numbers)] = self._numbers
        struct["weights"][: len(self._weights)] = self._weights
        return struct


class Stages(Emitter):
    """The kernel of a plan's stages on operands of given strides, and the struct of their values without addresses."""

    def __init__(self, plan: StepPlan, layout: Layout) -> None:
        super().__init__(plan, layout)
        update = plan.update
        terms = ["Plain"]
        if update.linear is not None:
            taps = [self._tap(tap) for tap in update.linear.taps]
            terms = [f"Linear<{', '.join([self._weight(update.linear.center), *taps])}>"]
        terms += [
            f"Diffusion<{self._axis(part.axis)}, {self._number(part.factor)}, {self._field(part.nu)}>"
            for part in update.diffusion
        ]
        terms += [self._transport(part) for part in update.transport]
        terms += [self._source(rate, factor) for rate, factor in update.sources]
        self._update = f"Update<{', '.join(terms)}>"
        mask = plan.geometry.mask
        self._mask = -1 if mask is None else self._place(mask)
        self._programs: dict[tuple[Any, ...], Program] = {}
        self.values = self._struct(math.prod(layout.shape[:-1]))
        self._set_ghosts(self.values)

    def program(self, combine: str, blend: tuple[float, float], types: tuple[str, ...] = ()) -> Program:
        """One stage that ends as `combine` says, of the field, u, the sum of stages, the result, and coefficients."""
        found = self._programs.get((combine, blend, types))
        if found is None:
            found = self._programs[combine, blend, types] = Program()
            self.append(found, combine, blend, tuple(map(Address, range(FIELDS))), FIELDS, types)
        return found

    def append(
        self,
        program: Program,
        combine: str,
        blend: tuple[float, float],
        fields: tuple[Address, ...],
        first: int,
        types: tuple[str, ...] = (),
    ) -> None:
        """Add a stage of the field, u, the sum of stages and the result at these addresses.

        `first` is the slot of the first coefficient, `types` as in :meth:`kernel`.
        """
        values = self.values.copy()
        values["blend"] = blend
        inner = {(FIELDS, word): Address(first + operand - 1) for word, operand in self.places()}
        program.add(self.kernel(combine, types), *fields, values, inner=inner)

    def kernel(self, combine: str, types: tuple[str, ...] = ()) -> Kernel:
        """The launch of a stage; `types` of the field, u and the result where one differs from the arithmetic's."""
        real = C_NAMES[self.plan.compute]
        name = f"stage<{', '.join([real, self.sizes, str(self._mask), str(COMBINE[combine]), self._update, *types])}>"
        n = self.layout.shape[-1]
        wide = min(THREADS, 1 << max(5, (n - 1).bit_length()))
        tall = THREADS // wide
        rows = math.prod(self.layout.shape[:-1])
        grid = (-(-n // wide), min(-(-rows // tall), MOST_BLOCKS_Y))
        return Kernel("stage.cu", name, grid, (wide, tall), options=self.options)

    def _axis(self, axis: int) -> int:
        return self.layout.place[axis]

    def _tap(self, tap: Any) -> str:
        low = next((k for k in tap.offsets if k < 0), 0)
        high = next((k for k in tap.offsets if k > 0), 0)
        return f"Tap<{self._axis(tap.axis)}, {low}, {high}, {self._weight(tap.weight)}>"

    def _transport(self, part: Transport) -> str:
        kind = 2 if part.velocity is None else 0 if isinstance(part.velocity, float) else 1
        field = None if part.velocity is None or isinstance(part.velocity, float) else part.velocity
        return (
            f"Transport<{self._axis(part.axis)}, {SCHEMES[part.scheme]}, {str(part.form == 'flux').lower()}, "
            f"{part.wind}, {kind}, {self._number(part.factor)}, {self._field(field)}>"
        )

    def _source(self, rate: float | Field, factor: float) -> str:
        if isinstance(rate, float):
            return f"Source<{self._number(rate * factor)}, -1, {C_NAMES[self.plan.compute]}>"
        return f"Source<{self._number(factor)}, {self._field(rate)}>"

    def _set_ghosts(self, struct: np.ndarray[Any, Any]) -> None:
        """Rules of the ghosts, and which ends are held."""
        width = struct["ghosts"].shape[2]
        shape = self.layout.shape
        geometry = self.plan.geometry
        for axis, sides, held in zip(geometry.axes, geometry.ghosts, geometry.held, strict=True):
            place = self.layout.place[axis]
            struct["held"][place] = held
            for high, layers in enumerate(sides):
                for layer in range(width if layers else 0):
                    rule = layers[min(layer, len(layers) - 1)]
                    plain = rule.scale == 1.0 and rule.offset == 0.0
                    entry = struct["ghosts"][place, high, layer]
                    entry["cell"] = _source(rule.source, layer, shape[place], bool(high))
                    # 1 * u + (-0) is u to the last bit, also for u = -0.
                    entry["scale"], entry["offset"] = (1.0, -0.0) if plain else (rule.scale, rule.offset)


class Instances(Emitter):
    """The kernel that forms the coefficients of each grid of a batch, and its values without addresses."""

    def __init__(
        self, plan: StepPlan, fields: tuple[Any, ...], center: Weight, sides: tuple[Weight | None, ...]
    ) -> None:
        axes = len(plan.geometry.axes)
        batch = plan.in_shape[: len(plan.in_shape) - axes]
        # The coefficients have one cell along the stepped axes, which come last.
        views = tuple(field[(..., *(0,) * min(axes, field.ndim))] for field in fields)
        layout = Layout.of(batch, (), views)
        if not layout.shape:
            layout = Layout((1,), {}, ((0,),) * len(fields))
        super().__init__(plan, layout)
        weights = ", ".join(self._weight(weight) for weight in (center, *sides))
        self.count = math.prod(batch)
        self.values = self._struct(self.count)
        name = f"form_values<{C_NAMES[plan.compute]}, {self.sizes}, {axes}, {weights}>"
        self.kernel = Kernel("values.cu", name, (-(-self.count // 128),), (128,), options=self.options)


def _source(kind: str, layer: int, n: int, high: bool) -> int:
    """Cell that a ghost is made from."""
    inside = n - 1 - layer % n if kind == "wrap" else layer if kind == "mirror" else 0
    return n - 1 - inside if high else inside
