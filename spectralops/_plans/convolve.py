"""Plans of convolve: a window of a linear convolution, and the algorithm that computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spectralops import _checks, _dispatch, _support
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import transform
from spectralops._plans.convolution import (
    METHODS,
    bytes_moved,
    explain_method,
    offered,
    operand_dtype,
    quickest,
    result_dtype,
    surroundings,
)
from spectralops._plans.convolution_cost import Cost, Linear, choose
from spectralops._plans.device_convolution_cost import DeviceSums, ring
from spectralops._plans.memo import memoised
from spectralops._plans.vector_cost import LARGEST_AXES, Rates, Sums
from spectralops.errors import UnsupportedError

__all__ = ["ConvolvePlan", "build", "fill_value"]

OP = "convolve"
MODES = ("full", "same", "valid")
# SciPy's words, and what each stands for.
BOUNDARIES = {"fill": "fill", "wrap": "wrap", "circular": "wrap", "symm": "symm", "symmetric": "symm"}


@dataclass(frozen=True, slots=True)
class ConvolvePlan:
    """The plan of one convolution: what a call with these shapes, dtypes and options will do.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        x and kernel.
    out_shape : tuple of int
        Shape of the result.
    out_dtype : str
        dtype of the result.
    axes, kernel_axes : tuple of int
        Convolved axes of x and of kernel, pairwise, nonnegative.
    mode, boundary : str
        The window, and the values beyond the ends of x; ``"fill"`` where they are never reached.
    fillvalue : float or complex
        The value beyond the ends for ``boundary="fill"``.
    padding : tuple of (int, int)
        Values laid before and after x along each axis. None for a fill of zeros, which every algorithm implies.
    start, outputs : tuple of int
        First element and length along each axis of the window in the full convolution of the padded x.
    flipped : bool
        Whether the kernel is reversed and conjugated: the adjoint.
    requested : str
        The `method` asked for.
    cost : Cost
        The algorithm that runs, its operations and transform lengths.
    seconds : tuple of (str, float)
        Predicted time of each algorithm.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    axes: tuple[int, ...]
    kernel_axes: tuple[int, ...]
    mode: str
    boundary: str
    fillvalue: complex
    padding: tuple[tuple[int, int], ...]
    start: tuple[int, ...]
    outputs: tuple[int, ...]
    flipped: bool
    requested: str
    cost: Cost
    seconds: tuple[tuple[str, float], ...]

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return self.operands[0].spec.shape

    @property
    def compute_dtype(self) -> str:
        """Type of the arithmetic."""
        return _checks.compute_dtype(self.out_dtype)

    @property
    def in_place(self) -> bool:
        """Whether `out` may be x: no."""
        return False

    @property
    def method(self) -> str:
        """The algorithm that runs: ``"direct"``, ``"fft"`` or ``"tiles"``."""
        return self.cost.method

    @property
    def lengths(self) -> tuple[int, ...]:
        """Transform lengths along the convolved axes; none for direct sums."""
        return self.cost.lengths

    @property
    def kernel_lengths(self) -> tuple[int, ...]:
        """The kernel's lengths along the convolved axes."""
        return tuple(self.operands[1].spec.shape[axis] for axis in self.kernel_axes)

    @property
    def halo(self) -> tuple[int, ...]:
        """How far an output reaches along each axis of x, counted from the element at the same place in the window."""
        reach = [0] * len(self.in_shape)
        for axis, k, s, (low, _) in zip(self.axes, self.kernel_lengths, self.start, self.padding, strict=True):
            reach[axis] = max(s - low, k - 1 - (s - low))
        return tuple(reach)

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: x and kernel in, the result out."""
        return bytes_moved(self.operands, self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Operations of the algorithm that runs."""
        return self.cost.flops

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element of the arrays, padding and transforms included."""
        padded = list(self.in_shape)
        for axis, (low, high) in zip(self.axes, self.padding, strict=True):
            padded[axis] += low + high
        return _checks.index_bits(tuple(padded), self.operands[1].spec.shape, self.out_shape, (2, *self.lengths))

    def adjoint(self) -> ConvolvePlan:
        """Plan of the adjoint map of x -> y for a fixed kernel: the correlation with the conjugate kernel.

        Raises
        ------
        UnsupportedError
            If the map is not linear in x, or its adjoint is no convolution.
        """
        x, kernel = self.operands
        if self.boundary == "symm" or (self.boundary == "wrap" and self.mode != "same"):
            raise UnsupportedError(
                f"{OP}: boundary is {self.boundary!r} with mode {self.mode!r}, but must be 'fill' or, for mode 'same', "
                "'wrap' to have an adjoint that is a convolution"
            )
        if self.fillvalue != 0:
            raise UnsupportedError(f"{OP}: fillvalue is {self.fillvalue}, but must be 0 for the map to be linear")
        if x.spec.dtype not in _checks.COMPLEXES and self.out_dtype in _checks.COMPLEXES:
            raise UnsupportedError(
                f"{OP}: x is {x.spec.dtype} and the kernel {kernel.spec.dtype}, but both must be real, or x complex, "
                "to have an adjoint that is a convolution"
            )
        batch = [n for axis, n in enumerate(self.in_shape) if axis not in self.axes]
        results = [n for axis, n in enumerate(self.out_shape) if axis not in self.axes]
        if batch != results:
            raise UnsupportedError(
                f"{OP}: x has batch axes {tuple(batch)}, but must have the result's {tuple(results)} "
                "to have an adjoint that is a convolution; broadcast x first"
            )
        y = ArraySpec(self.out_shape, self.out_dtype)
        unpadded = tuple(s - low for s, (low, _) in zip(self.start, self.padding, strict=True))
        start = tuple(k - 1 - s for k, s in zip(self.kernel_lengths, unpadded, strict=True))
        outputs = tuple(self.in_shape[axis] for axis in self.axes)
        plan = _build(
            y, kernel.spec, self.out_dtype, self.axes, self.kernel_axes, self.mode, self.boundary, self.fillvalue,
            start, outputs, not self.flipped, self.requested, self.backend, *surroundings(OP, "", self.backend),
        )  # fmt: skip
        return _support.settled(plan, None)

    def explain(self) -> str:
        """What runs, in words."""
        (x, kernel), flipped = self.operands, ", reversed and conjugated (adjoint)" if self.flipped else ""
        beyond = f"'fill' with {self.fillvalue}" if self.boundary == "fill" else repr(self.boundary)
        return (
            f"{OP} on backend {self.backend!r}: x {x.spec.dtype}{list(x.spec.shape)} * "
            f"kernel {kernel.spec.dtype}{list(kernel.spec.shape)}{flipped} -> {self.out_dtype}{list(self.out_shape)}\n"
            f"axes {self.axes}, mode {self.mode!r}, boundary {beyond}, computed in {self.compute_dtype}\n"
            f"{explain_method(self)}"
        )

    def __call__(self, x: Any, kernel: Any, *, out: Any = None, workers: int | None = None) -> Any:
        """Run the plan on arrays of the planned shapes and dtypes."""
        return _dispatch.execute(self, (x, kernel), out=out, workers=workers)


def build(
    x: ArraySpec,
    kernel: Any,
    *,
    mode: str,
    boundary: str,
    fillvalue: complex,
    axes: int | Sequence[int] | None,
    method: str,
    backend: str | None,
    device: str,
    default: str = "float64",
) -> ConvolvePlan:
    """The plan of a call of :func:`spectralops.convolve`."""
    kernel = transform.array_spec(OP, "kernel", kernel)
    around = surroundings(OP, device, backend)
    return _checked(x, kernel, mode, boundary, fillvalue, axes, method, backend, device, default, *around)


@memoised
def _checked(
    x: ArraySpec,
    kernel: ArraySpec,
    mode: str,
    boundary: str,
    fillvalue: complex,
    axes: int | Sequence[int] | None,
    method: str,
    backend: str | None,
    device: str,
    default: str,
    rates: Rates | None,
    shared: int,
) -> ConvolvePlan:
    """Check and canonicalise the arguments."""
    if len(kernel.shape) > len(x.shape):
        raise ValueError(
            f"{OP}: kernel has {len(kernel.shape)} dimensions, but must have at most the {len(x.shape)} of x"
        )
    counts = {"kernel": len(kernel.shape)} if axes is None else None
    axes = _checks.axes(OP, axes, len(x.shape), counts)
    kernel_axes = _kernel_axes(x, kernel, axes)
    _checks.choice(OP, "mode", mode, MODES)
    boundary = BOUNDARIES[_checks.choice(OP, "boundary", boundary, tuple(BOUNDARIES))]
    _checks.choice(OP, "method", method, METHODS)
    out_dtype = result_dtype(OP, {"x": x.dtype, "kernel": kernel.dtype}, default)
    fillvalue = fill_value(fillvalue, boundary, out_dtype)
    transform.check_lengths(OP, "x", x.shape, axes)
    transform.check_lengths(OP, "kernel", kernel.shape, kernel_axes)
    start, outputs = _window(
        mode, tuple(x.shape[axis] for axis in axes), tuple(kernel.shape[axis] for axis in kernel_axes)
    )
    if mode == "valid":  # never reaches beyond the ends
        boundary, fillvalue = "fill", 0.0
    chosen = _support.select(OP, out_dtype, transform.device_kind(OP, device), backend)
    plan = _build(
        x,
        kernel,
        out_dtype,
        axes,
        kernel_axes,
        mode,
        boundary,
        fillvalue,
        start,
        outputs,
        False,
        method,
        chosen,
        rates,
        shared,
    )
    return _support.settled(plan, backend)


def _kernel_axes(x: ArraySpec, kernel: ArraySpec, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The kernel's axes that belong to `axes` of x."""
    missing = len(x.shape) - len(kernel.shape)
    if len(kernel.shape) == len(axes) and missing:
        return tuple(range(len(axes)))
    if any(axis < missing for axis in axes):
        raise ValueError(
            f"{OP}: kernel has {len(kernel.shape)} dimensions, but must have {len(axes)}, one per axis of axes={axes}, "
            f"or {len(x.shape)}, as many as x"
        )
    return tuple(axis - missing for axis in axes)


def fill_value(value: Any, boundary: str, out_dtype: str) -> complex:
    """The value beyond the ends of x, real where it can be; 0 where it has no effect."""
    result: complex
    if isinstance(value, complex | np.complexfloating):
        real, imag = (_checks.number(OP, "fillvalue", part) for part in (value.real, value.imag))
        result = complex(real, imag) if imag else real
        if imag and out_dtype not in _checks.COMPLEXES:
            raise TypeError(f"{OP}: fillvalue is {value}, but must be real for a result of dtype {out_dtype}")
    else:
        result = _checks.number(OP, "fillvalue", value)
    if result != 0 and boundary != "fill":
        raise ValueError(f"{OP}: fillvalue is {value}, but must be 0 for boundary {boundary!r}, where it has no effect")
    return result


def _window(mode: str, n: tuple[int, ...], k: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First element and length of what `mode` wants of the full convolution of lengths n and k."""
    if mode == "full":
        return (0,) * len(n), tuple(a + b - 1 for a, b in zip(n, k, strict=True))
    if mode == "same":
        return tuple((b - 1) // 2 for b in k), n
    pairs = list(zip(n, k, strict=True))
    if not (all(a >= b for a, b in pairs) or all(a <= b for a, b in pairs)):
        raise ValueError(
            f"{OP}: x has lengths {n} and kernel {k} along axes, but one must be at least as long as the other "
            "along every axis for mode 'valid'"
        )
    return tuple(min(a, b) - 1 for a, b in pairs), tuple(abs(a - b) + 1 for a, b in pairs)


@lru_cache(maxsize=512)
def _build(
    x: ArraySpec,
    kernel: ArraySpec,
    out_dtype: str,
    axes: tuple[int, ...],
    kernel_axes: tuple[int, ...],
    mode: str,
    boundary: str,
    fillvalue: complex,
    start: tuple[int, ...],
    outputs: tuple[int, ...],
    flipped: bool,
    method: str,
    backend: str,
    rates: Rates | None,
    shared: int,
) -> ConvolvePlan:
    """The plan of canonical arguments; `start` counts from the unpadded x."""
    batches = [
        tuple(n for axis, n in enumerate(spec.shape) if axis not in used)
        for spec, used in ((x, axes), (kernel, kernel_axes))
    ]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError as error:
        raise ValueError(
            f"{OP}: x has batch axes {batches[0]} and kernel {batches[1]}, but they must broadcast against each other"
        ) from error
    out_shape = list(batch)
    for axis, length in sorted(zip(axes, outputs, strict=True)):
        out_shape.insert(axis, length)
    n = tuple(x.shape[axis] for axis in axes)
    k = tuple(kernel.shape[axis] for axis in kernel_axes)
    padding: tuple[tuple[int, int], ...] = ((0, 0),) * len(axes)
    if boundary != "fill" or fillvalue != 0:
        padding = tuple((max(0, b - 1 - s), max(0, s + w - a)) for a, b, s, w in zip(n, k, start, outputs, strict=True))
    start = tuple(s + low for s, (low, _) in zip(start, padding, strict=True))
    filled = operand_dtype(out_dtype if isinstance(fillvalue, complex) else x.dtype, out_dtype)
    operands = (Operand("x", x, filled), Operand("kernel", kernel, operand_dtype(kernel.dtype, out_dtype)))
    linear = Linear(
        a=tuple(size + low + high for size, (low, high) in zip(n, padding, strict=True)),
        b=k,
        start=start,
        outputs=outputs,
        batch=(math.prod(batches[0]), math.prod(batches[1]), math.prod(batch)),
        is_complex=(filled in _checks.COMPLEXES, kernel.dtype in _checks.COMPLEXES),
        width=2 if out_dtype in ("float64", "complex128") else 1,
    )
    costs = linear.costs() if rates is None or backend != "cpu" else _compiled_costs(linear, rates)
    if shared:
        zeros = boundary == "fill" and fillvalue == 0
        periods = n if boundary == "wrap" else (0,) * len(axes)
        unpadded = tuple(s - low for s, (low, _) in zip(start, padding, strict=True))
        costs = offered(_device_costs(linear, n, unpadded, zeros, periods, shared), costs, method)
    return ConvolvePlan(
        op=OP,
        backend=backend,
        operands=operands,
        out_shape=tuple(out_shape),
        out_dtype=out_dtype,
        axes=axes,
        kernel_axes=kernel_axes,
        mode=mode,
        boundary=boundary,
        fillvalue=fillvalue,
        padding=padding,
        start=start,
        outputs=outputs,
        flipped=flipped,
        requested=method,
        cost=choose(costs, method),
        seconds=tuple((cost.method, cost.seconds) for cost in costs),
    )


def _compiled_costs(linear: Linear, rates: Rates) -> tuple[Cost, ...]:
    """Costs where compiled kernels can run: the larger array is the image, the smaller one gives the taps."""
    image, taps = linear.long_and_short
    larger = image == linear.a
    ones = (1,) * len(image)
    sums = Sums(
        image=image,
        taps=taps,
        start=linear.start,
        step=ones,
        results=linear.outputs,
        held=taps,
        batch=linear.batch[2],
        kernels=linear.batch[1 if larger else 0],
        groups=1,
        inputs=1,
        outputs=1,
        is_complex=linear.is_complex if larger else linear.is_complex[::-1],
        width=linear.width,
        rates=rates,
    )
    direct, whole, tiles = linear.costs()
    if len(image) <= LARGEST_AXES:
        whole, tiles = sums.whole(), sums.tiled()
    return quickest((sums.direct(), direct)), whole, tiles


def _device_costs(
    linear: Linear, length: tuple[int, ...], start: tuple[int, ...], zeros: bool, periods: tuple[int, ...], shared: int
) -> tuple[Cost, ...]:
    """Costs of a device's kernels: the kernel gives the taps, or x where that is shorter and zeros lie beyond it.

    `start`: of the window, in the full convolution of the x without padding; `periods`: of a periodic x, or 0.
    """
    images, kernels, planes = linear.batch
    cells, taps, is_complex = length, linear.b, linear.is_complex
    if zeros and math.prod(taps) > math.prod(cells):
        images, kernels, cells, taps, is_complex = kernels, images, taps, cells, is_complex[::-1]
    whole = tuple(
        ring(n, k - 1 - s, w, k) if zeros else w + k - 1
        for n, k, s, w in zip(cells, taps, start, linear.outputs, strict=True)
    )
    return DeviceSums(
        extent=taps,
        taps=taps,
        result=linear.outputs,
        stride=(1,) * len(taps),
        images=images,
        kernels=kernels,
        planes=planes,
        inputs=1,
        outputs=1,
        is_complex=is_complex,
        width=linear.width,
        period=tuple(p if p == m else 0 for p, m in zip(periods, linear.outputs, strict=True)),
        cells=cells,
        whole=whole,
        odd=(taps[-1] - 1 - start[-1]) % 2 == 1,
        shared=shared,
    ).costs()
