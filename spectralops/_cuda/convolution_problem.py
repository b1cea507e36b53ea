"""Both convolutions as one problem: images correlated with kernels along one to three axes, sums over channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spectralops._cuda.geometry import BYTES, itemsize_of, namespace, stored_as, usable

if TYPE_CHECKING:
    from spectralops._plans.conv2d import Conv2dPlan
    from spectralops._plans.convolve import ConvolvePlan

    AnyPlan = Conv2dPlan | ConvolvePlan

__all__ = [
    "BIAS", "FINISH", "KERNEL", "OUT", "SCALE", "SHIFT", "SPACE", "SPACE_BYTES", "TABLES", "Problem", "X",
    "arrays", "as_they_are", "mapping", "problem",
]  # fmt: skip

# Addresses of a program: the arrays, scratch memory, what results are scaled and shifted by, twiddle factors.
X, KERNEL, OUT, BIAS, SCALE, SHIFT, SPACE, TABLES = range(8)
# Scratch memory of a slice of the work.
SPACE_BYTES = 768 * 2**20

FINISH = np.dtype([(name, np.int64) for name in ("bias", "scale", "shift", "channels")])

BEYOND = {
    "zeros": "FILL", "reflect": "REFLECTED", "replicate": "NEAREST", "circular": "WRAP",
    "fill": "FILL", "wrap": "WRAP", "symm": "SYMMETRIC",
}  # fmt: skip

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is computed, by axis: y[i] = sum over channels and taps of w[k] x[stride i + dilation k - before].

    Plane b of the result takes the images and the kernels of number (b // divisor) % count. `real` and `stored` are the
    C++ types of real numbers in the arithmetic and in memory.
    """

    size: Ints
    taps: Ints
    stride: Ints
    dilation: Ints
    before: Ints
    out: Ints
    planes: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    groups: int
    inputs: int
    outputs: int
    flip: bool
    beyond: str
    fill: complex
    real: str
    stored: str
    is_complex: tuple[bool, bool]
    activation: str

    @property
    def itemsize(self) -> int:
        """Bytes of a real number."""
        return 4 if self.real == "float" else 8

    @property
    def extent(self) -> Ints:
        """Lengths of a kernel with its holes."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.taps, self.dilation, strict=True))

    @property
    def dense(self) -> Ints:
        """Lengths of the result before every stride-th is kept."""
        return tuple((n - 1) * s + 1 for n, s in zip(self.out, self.stride, strict=True))

    @property
    def period(self) -> Ints:
        """Lengths of the axes along which all results of a periodic image are wanted, 0 of the others."""
        return tuple(n if self.beyond == "WRAP" and n == m else 0 for n, m in zip(self.size, self.dense, strict=True))

    @property
    def channels(self) -> int:
        """Planes of one image of the result."""
        return self.groups * self.outputs

    def number(self, is_complex: bool) -> str:
        """The C++ type of numbers in memory."""
        return f"Complex<{self.real}>" if is_complex else self.stored

    @property
    def stored_bytes(self) -> int:
        """Bytes of a real number in memory."""
        return BYTES[self.stored]


def problem(plan: AnyPlan) -> Problem:
    """The problem of a plan."""
    real = "float" if itemsize_of(plan) == 4 else "double"
    kinds = tuple(operand.compute.startswith("complex") for operand in plan.operands)
    if plan.op == "convolve":
        return _convolve(plan, real, kinds)  # type: ignore[arg-type]
    return _conv2d(plan, real, kinds)  # type: ignore[arg-type]


def _conv2d(plan: Conv2dPlan, real: str, kinds: tuple[bool, ...]) -> Problem:
    groups, weight = plan.groups, plan.operands[1].spec.shape
    outputs, inputs = weight[0] // groups, weight[1]
    if plan.forward is not None:
        outputs, inputs = inputs, outputs
    images = math.prod(plan.in_shape[:-3])
    activation = "NOTHING" if plan.epilogue is None and len(plan.operands) == 2 else "IDENTITY"
    if plan.epilogue is not None and plan.epilogue.activation is not None:
        activation = plan.epilogue.activation.upper()
    return Problem(
        size=tuple((n - 1) * s + 1 for n, s in zip(plan.in_shape[-2:], plan.spread, strict=True)),
        taps=weight[2:],
        stride=plan.stride,
        dilation=plan.dilation,
        before=tuple(low for low, _ in plan.padding),
        out=plan.out_shape[-2:],
        planes=images * groups * outputs,
        image=(outputs, images * groups),
        kernel=(1, groups * outputs),
        groups=groups,
        inputs=inputs,
        outputs=outputs,
        flip=plan.forward is not None,
        beyond=BEYOND[plan.padding_mode],
        fill=0,
        real=real,
        stored=stored_as(plan, 2),
        # A complex bias makes a complex result.
        is_complex=(kinds[0] or (any(kinds) and not kinds[1]), kinds[1]),
        activation=activation,
    )


def swapped(plan: ConvolvePlan) -> bool:
    """Whether x gives the taps: it may where nothing but zeros lies beyond its ends."""
    lengths = [plan.in_shape[axis] for axis in plan.axes]
    zeros = plan.boundary == "fill" and plan.fillvalue == 0
    return zeros and math.prod(plan.kernel_lengths) > math.prod(lengths)


def _convolve(plan: ConvolvePlan, real: str, kinds: tuple[bool, ...]) -> Problem:
    batch = tuple(n for axis, n in enumerate(plan.out_shape) if axis not in plan.axes)
    sizes: list[Ints] = [tuple(plan.in_shape[axis] for axis in plan.axes), plan.kernel_lengths]
    own = [
        tuple(n for axis, n in enumerate(operand.spec.shape) if axis not in axes)
        for operand, axes in zip(plan.operands, (plan.axes, plan.kernel_axes), strict=True)
    ]
    places = [mapping(shape, batch) or (1, math.prod(batch)) for shape in own]
    if swapped(plan):
        sizes, places, kinds = sizes[::-1], places[::-1], kinds[::-1]
    d = len(plan.axes)
    ones = (1,) * d
    start = (s - low for s, (low, _) in zip(plan.start, plan.padding, strict=True))
    return Problem(
        size=sizes[0],
        taps=sizes[1],
        stride=ones,
        dilation=ones,
        before=tuple(k - 1 - s for k, s in zip(sizes[1], start, strict=True)),
        out=plan.outputs,
        planes=math.prod(batch),
        image=places[0],
        kernel=places[1],
        groups=1,
        inputs=1,
        outputs=1,
        # A correlation with the reversed kernel; that of an adjoint is reversed already.
        flip=not plan.flipped,
        beyond=BEYOND[plan.boundary],
        fill=plan.fillvalue,
        real=real,
        stored=stored_as(plan, 2),
        is_complex=(kinds[0], kinds[1]),
        activation="NOTHING",
    )


def mapping(shape: Ints, batch: Ints) -> tuple[int, int] | None:
    """Divisor and count by which plane b finds its own in an array that broadcasts against the batch, if it does."""
    full = (1,) * (len(batch) - len(shape)) + shape
    own = [axis for axis, n in enumerate(full) if n != 1]
    if not own:
        return 1, 1
    run = range(own[0], own[-1] + 1)
    if any(full[axis] != batch[axis] for axis in run):
        return None
    return math.prod(batch[run.stop :]), math.prod(full)


def as_they_are(plan: AnyPlan) -> bool:
    """Whether images and kernels lie as the kernels read them, contiguity aside."""
    if plan.op == "fft_conv2d":
        return plan.forward is None  # type: ignore[union-attr]
    ranks = [len(operand.spec.shape) for operand in plan.operands]
    last = [tuple(range(rank - len(plan.axes), rank)) for rank in ranks]  # type: ignore[union-attr]
    batch = tuple(n for axis, n in enumerate(plan.out_shape) if axis not in plan.axes)  # type: ignore[union-attr]
    shapes = [operand.spec.shape[: -len(plan.axes)] for operand in plan.operands]  # type: ignore[union-attr]
    return (
        [plan.axes, plan.kernel_axes] == last  # type: ignore[union-attr]
        and not plan.flipped  # type: ignore[union-attr]
        and not swapped(plan)  # type: ignore[arg-type]
        and all(mapping(shape, batch) is not None for shape in shapes)
    )


def arrays(plan: AnyPlan, task: Problem, ready: bool, x: Any, kernel: Any) -> tuple[Any, Any]:
    """Images and kernels as the kernels read them: planes first, contiguous. `ready`: what `as_they_are` says."""
    if not ready:
        arrange: Any = _convolve_arrays if plan.op == "convolve" else _adjoint_arrays
        x, kernel = arrange(plan, x, kernel)
    if task.is_complex[0] and x.dtype.kind != "c":
        x = x.astype(f"c{2 * x.itemsize}")
    return usable(x, x.itemsize), usable(kernel, kernel.itemsize)


def _convolve_arrays(plan: ConvolvePlan, x: Any, kernel: Any) -> tuple[Any, Any]:
    xp = namespace(x)
    d = len(plan.axes)
    last = tuple(range(-d, 0))
    batch = tuple(n for axis, n in enumerate(plan.out_shape) if axis not in plan.axes)
    pair = []
    for array, axes in ((x, plan.axes), (kernel, plan.kernel_axes)):
        moved = xp.moveaxis(array, axes, last)
        if mapping(moved.shape[:-d], batch) is None:
            moved = xp.broadcast_to(moved, batch + moved.shape[-d:])
        pair.append(moved)
    if plan.flipped:
        pair[1] = pair[1].conj()
    if swapped(plan):
        pair.reverse()
        if plan.flipped:  # the reversed one is now the image, and the other gives the taps as they are
            pair = [xp.flip(array, last) for array in pair]
    return pair[0], pair[1]


def _adjoint_arrays(plan: Conv2dPlan, x: Any, kernel: Any) -> tuple[Any, Any]:
    """Zeros between the elements of x, and kernels with channels in and out exchanged."""
    xp = namespace(x)
    if plan.spread != (1, 1):
        sizes = tuple((n - 1) * s + 1 for n, s in zip(x.shape[-2:], plan.spread, strict=True))
        wide = xp.zeros((*x.shape[:-2], *sizes), x.dtype)
        wide[..., :: plan.spread[0], :: plan.spread[1]] = x
        x = wide
    kernel = kernel.reshape(plan.groups, -1, *kernel.shape[1:]).swapaxes(1, 2)
    return x, kernel.conj() if kernel.dtype.kind == "c" else kernel
