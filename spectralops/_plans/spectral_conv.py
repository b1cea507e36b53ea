"""Plans of spectral_conv: truncate the spectrum, mix channels mode by mode, transform back to any grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectralops import _checks, _dispatch, _support
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import transform
from spectralops._plans.memo import memoised

__all__ = ["SpectralConvPlan", "plan_spectral_conv"]

OP = "spectral_conv"


@dataclass(frozen=True, slots=True)
class SpectralConvPlan:
    """The plan of one spectral convolution.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        x and the weight.
    in_shape, out_shape : tuple of int
        Shapes of x and of the result.
    out_dtype, compute_dtype : str
        dtype of the result and of the arithmetic.
    axes : tuple of int
        Transformed axes, nonnegative, in the order of the weight's modes.
    modes : tuple of int
        Kept wavenumbers along each of them.
    depthwise : bool
        Whether each channel has a weight of its own and none are mixed.
    halved : bool
        Whether the last listed axis keeps nonnegative wavenumbers only: real x.
    transposed : bool
        Whether this is the adjoint of a convolution with the same weight.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    compute_dtype: str
    axes: tuple[int, ...]
    modes: tuple[int, ...]
    depthwise: bool
    halved: bool
    transposed: bool

    @property
    def in_place(self) -> bool:
        """Whether `out` may be x: no."""
        return False

    @property
    def halo(self) -> tuple[int, ...]:
        """Empty: every output depends on every input of its batch entry."""
        return ()

    @property
    def in_sizes(self) -> tuple[int, ...]:
        """Lengths of the transformed axes of x, in `axes` order."""
        return tuple(self.in_shape[axis] for axis in self.axes)

    @property
    def out_sizes(self) -> tuple[int, ...]:
        """Lengths of the transformed axes of the result, in `axes` order."""
        return tuple(self.out_shape[axis] for axis in self.axes)

    @property
    def channels(self) -> tuple[int, int]:
        """Number of channels of x and of the result."""
        axis = len(self.in_shape) - len(self.axes) - 1
        return self.in_shape[axis], self.out_shape[axis]

    @property
    def batch(self) -> int:
        """Number of batch entries: all that stands before the channel axis."""
        return math.prod(self.in_shape[: -len(self.axes) - 1])

    @property
    def lowest(self) -> tuple[int, ...]:
        """First kept wavenumber along each axis; the others follow in increasing order."""
        return transform.lowest_wavenumbers(self.modes, self.halved)

    @property
    def scale(self) -> float:
        """Factor of the unnormalised transforms: one over the size of the grid that the forward operator reads."""
        return 1 / math.prod(self.out_sizes if self.transposed else self.in_sizes)

    def bin_weights(self) -> np.ndarray[Any, Any] | None:
        """What the adjoint multiplies the kept wavenumbers of the halved axis by, None where it is 1 throughout.

        A real inverse counts a wavenumber twice (for k and -k), but zero and Nyquist once. The adjoint counts as the
        grid it reads from does and runs the inverse of the grid it writes to: the ratio differs from 1 where one
        grid's Nyquist wavenumber is an interior one of the other.
        """
        if not (self.transposed and self.halved):
            return None
        k = np.arange(self.modes[-1])
        read, written = (np.where((k == 0) | (2 * k == n), 1.0, 2.0) for n in (self.in_sizes[-1], self.out_sizes[-1]))
        ratio = read / written
        return None if (ratio == 1).all() else ratio

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: x and the weight in, the result out."""
        read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in self.operands)
        return read + _checks.nbytes(self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Nominal operations: both full transforms, and eight for each complex multiply-add over the channels."""
        read, written = self.channels
        transforms = read * transform.fft_flops(self.in_sizes, self.halved)
        transforms += written * transform.fft_flops(self.out_sizes, self.halved)
        products = read if self.depthwise else read * written
        return self.batch * (transforms + 8 * products * math.prod(self.modes))

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element of the arrays (weights as real numbers)."""
        return _checks.index_bits(self.in_shape, self.out_shape, (2, *self.operands[1].spec.shape))

    def adjoint(self) -> SpectralConvPlan:
        """The plan of the adjoint operator A*, with <A x, y> = <x, A* y>: the gradient with respect to x.

        It takes y and the same weight, which it conjugates and transposes, and swaps the grids.
        """
        field, weight = self.operands
        spec = ArraySpec(self.out_shape, self.out_dtype)
        return replace(
            self,
            operands=(Operand(field.name, spec, field.compute), weight),
            in_shape=self.out_shape,
            out_shape=self.in_shape,
            transposed=not self.transposed,
        )

    def explain(self) -> str:
        """What runs, how and why, in a few lines."""
        read, written = self.channels
        kind = "real" if self.halved else "complex"
        mixing = f"{read} channels, one weight each" if self.depthwise else f"{read} channels to {written}"
        weight = self.operands[1]
        cast = "" if weight.spec.dtype == weight.compute else f", cast to {weight.compute} at each call"
        lines = [
            f"{OP}{' (adjoint)' if self.transposed else ''}: {self.out_dtype} {self.in_shape} -> {self.out_shape} on "
            f"backend {self.backend!r}, arithmetic in {self.compute_dtype}",
            f"  transforms: {kind}, size {_sizes(self.in_sizes)} to {_sizes(self.out_sizes)}, along axes {self.axes}, "
            f"keeping {_sizes(self.modes)} wavenumbers from {self.lowest}",
            f"  mixing: {mixing}; weight {weight.spec.dtype} {weight.spec.shape}{cast}",
            f"  runs: {self._algorithm_words()}",
            f"  moves at least {self.bytes_moved} bytes, {self.flops} operations, {self.index_bits}-bit offsets",
        ]
        return "\n".join(lines)

    def _algorithm_words(self) -> str:
        if self.backend in ("cpu", "cuda"):
            return _support.algorithm(self)
        if self.backend == "reference":
            return "dense matrices of the discrete Fourier transform in float64"
        library = "scipy.fft" if self.backend == "numpy" else "cupyx.scipy.fft"
        words = f"{library} over the whole array: forward, cut, einsum, pad, inverse, one after the other"
        reason = _support.passed_over(self)
        return f"{words} (no kernels: {reason})" if reason else words

    def __call__(self, x: Any, weight: Any, *, out: Any = None, workers: int | None = None) -> Any:
        """Convolve x with the weight."""
        return _dispatch.execute(self, (x, weight), out=out, workers=workers)


def _sizes(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def plan_spectral_conv(
    shape: Any,
    dtype: Any,
    weight: Any,
    *,
    depthwise: bool = False,
    out_shape: Any = None,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> SpectralConvPlan:
    """The plan of :func:`spectralops.spectral_conv`; `default` is the dtype that integers become."""
    spec = transform.array_spec(OP, "weight", weight)
    return _build(shape, dtype, spec, depthwise, out_shape, axes, backend, device, default)


@memoised
def _build(
    shape: Any,
    dtype: Any,
    weight: ArraySpec,
    depthwise: bool,
    out_shape: Any,
    axes: int | Sequence[int] | None,
    backend: str | None,
    device: str,
    default: str,
) -> SpectralConvPlan:
    shape = _checks.shape(OP, shape)
    out_dtype = _checks.inexact_dtype(OP, dtype, default=default)
    depthwise = _checks.flag(OP, "depthwise", depthwise)
    targets = None if out_shape is None else transform.target_sizes(OP, out_shape)
    modes = _modes(weight, depthwise)
    d = len(modes)
    sizes = None if isinstance(targets, int) or targets is None else len(targets)
    axes = _checks.axes(OP, axes, len(shape), {"weight's modes": d, "out_shape": sizes})
    transform.check_layer_axes(OP, shape, axes)
    transform.check_lengths(OP, "x", shape, axes)
    grid = tuple(shape[axis] for axis in axes)
    target = grid if targets is None else _checks.per_axis(OP, "out_shape", targets, d)
    if 0 in target:
        raise ValueError(f"{OP}: out_shape is {target}, but must be 1 or more along each axis")
    channels = shape[len(shape) - d - 1]
    if channels != weight.shape[0]:
        raise ValueError(
            f"{OP}: x of shape {shape} has {channels} channels on axis {len(shape) - d - 1}, but must have "
            f"{weight.shape[0]} as weight of shape {weight.shape} has on axis 0"
        )
    chosen = _support.select(OP, out_dtype, transform.device_kind(OP, device), backend)
    compute = _checks.compute_dtype(out_dtype)
    halved = not compute.startswith("complex")
    for j, (m, n, k) in enumerate(zip(modes, grid, target, strict=True)):
        half = halved and j == d - 1
        room = min(n, k) // 2 + 1 if half else min(n, k)
        if m > room:
            raise ValueError(
                f"{OP}: weight keeps {m} wavenumbers along axis {axes[j]}, but must keep at most {room} "
                f"({'half of ' if half else ''}{n} points in, {k} out); crop the weight"
            )
    written = list(shape)
    for axis, k in zip(axes, target, strict=True):
        written[axis] = k
    if not depthwise:
        written[len(shape) - d - 1] = weight.shape[1]
    _checks.fits_memory(OP, "out_shape", target, tuple(written), "complex128")
    real = transform.real_part_of(out_dtype)
    kind = _checks.complex_dtype(real) if weight.dtype.startswith("complex") else real
    plan = SpectralConvPlan(
        op=OP,
        backend=chosen,
        operands=(Operand("x", ArraySpec(shape, _checks.dtype(OP, dtype)), compute), Operand("weight", weight, kind)),
        in_shape=shape,
        out_shape=tuple(written),
        out_dtype=out_dtype,
        compute_dtype=compute,
        axes=axes,
        modes=modes,
        depthwise=depthwise,
        halved=halved,
        transposed=False,
    )
    return _support.settled(plan, backend)


def _modes(spec: ArraySpec, depthwise: bool) -> tuple[int, ...]:
    """Numbers of kept wavenumbers from the weight's shape."""
    shape = spec.shape
    if not spec.dtype.startswith("complex"):
        if shape[-1] != 2:
            raise ValueError(
                f"{OP}: weight has dtype {spec.dtype} and shape {shape}, but a real weight must end with an axis of "
                "length 2, the real and imaginary parts; pass a complex weight otherwise"
            )
        shape = shape[:-1]
    leading = 1 if depthwise else 2
    if len(shape) <= leading:
        layout = "(channels, modes...)" if depthwise else "(channels in, channels out, modes...)"
        raise ValueError(f"{OP}: weight has shape {spec.shape}, but must have the layout {layout}")
    if 0 in shape[leading:]:
        raise ValueError(f"{OP}: weight has shape {spec.shape}, but must keep 1 wavenumber or more along each axis")
    return shape[leading:]
