"""Plans of spectral_conv_weight_gradient: what a loss's gradient with respect to the result says of the weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectralops import _checks, _dispatch, _support
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import transform
from spectralops._plans.memo import memoised
from spectralops.errors import UnsupportedError

__all__ = ["SpectralConvWeightGradientPlan", "plan_spectral_conv_weight_gradient"]

OP = "spectral_conv_weight_gradient"


@dataclass(frozen=True, slots=True)
class SpectralConvWeightGradientPlan:
    """The plan of one weight gradient.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        x and the gradient with respect to the result of the convolution.
    in_shape, gradient_shape, out_shape : tuple of int
        Shapes of x, of that gradient and of the weight.
    out_dtype, compute_dtype : str
        Complex dtype of the result, dtype of the transformed fields.
    axes : tuple of int
        Transformed axes, nonnegative, in the order of the weight's modes.
    modes : tuple of int
        Kept wavenumbers along each of them.
    depthwise : bool
        Whether each channel has a weight of its own and none are mixed.
    halved : bool
        Whether the last listed axis keeps nonnegative wavenumbers only: real x.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    in_shape: tuple[int, ...]
    gradient_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    compute_dtype: str
    axes: tuple[int, ...]
    modes: tuple[int, ...]
    depthwise: bool
    halved: bool

    @property
    def in_place(self) -> bool:
        """Whether `out` may be x: no."""
        return False

    @property
    def halo(self) -> tuple[int, ...]:
        """Empty: the result depends on all of both fields."""
        return ()

    @property
    def in_sizes(self) -> tuple[int, ...]:
        """Lengths of the transformed axes of x, in `axes` order."""
        return tuple(self.in_shape[axis] for axis in self.axes)

    @property
    def gradient_sizes(self) -> tuple[int, ...]:
        """Lengths of the transformed axes of the gradient, in `axes` order."""
        return tuple(self.gradient_shape[axis] for axis in self.axes)

    @property
    def channels(self) -> tuple[int, int]:
        """Number of channels of x and of the gradient."""
        axis = len(self.in_shape) - len(self.axes) - 1
        return self.in_shape[axis], self.gradient_shape[axis]

    @property
    def batch(self) -> int:
        """Number of batch entries, which are summed over."""
        return math.prod(self.in_shape[: -len(self.axes) - 1])

    @property
    def lowest(self) -> tuple[int, ...]:
        """First kept wavenumber along each axis; the others follow in increasing order."""
        return transform.lowest_wavenumbers(self.modes, self.halved)

    def factors(self) -> np.ndarray[Any, Any]:
        """What multiplies the products, along the last axis: the scale, and how often the real inverse counts a mode.

        That is twice, for k and -k, but once at zero and at the Nyquist wavenumber of the gradient's grid.
        """
        k = np.arange(self.modes[-1])
        counted = self.halved & (k > 0) & (2 * k != self.gradient_sizes[-1])
        return np.where(counted, 2.0, 1.0) / math.prod(self.in_sizes)

    def mode_factors(self, dtype: str) -> np.ndarray[Any, Any]:
        """The factors of all modes, in the precision of a complex dtype."""
        return np.broadcast_to(self.factors(), self.modes).astype(_checks.real_dtype(dtype))

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: both fields in, the result out."""
        read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in self.operands)
        return read + _checks.nbytes(self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Nominal operations: both full transforms, and eight for each complex multiply-add over the batch."""
        read, written = self.channels
        transforms = read * transform.fft_flops(self.in_sizes, self.halved)
        transforms += written * transform.fft_flops(self.gradient_sizes, self.halved)
        products = read if self.depthwise else read * written
        return self.batch * (transforms + 8 * products * math.prod(self.modes))

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element of the arrays (the result as real numbers)."""
        return _checks.index_bits(self.in_shape, self.gradient_shape, (2, *self.out_shape))

    def adjoint(self) -> SpectralConvWeightGradientPlan:
        """There is none: the operator is linear in each operand, not in both together.

        Raises
        ------
        UnsupportedError
            Always. Its gradients are :func:`spectralops.spectral_conv` of x, and its adjoint of the gradient, with
            the weight's place taken by the incoming gradient.
        """
        raise UnsupportedError(
            f"{OP}: adjoint() is asked of an operator of two fields, but must be of one; its gradients are "
            "spectral_conv(x, V) and plan_spectral_conv(...).adjoint()(gradient, V) for an incoming V"
        )

    def explain(self) -> str:
        """What runs, how and why, in a few lines."""
        read, written = self.channels
        kind = "real" if self.halved else "complex"
        channels = f"{read} channels, one weight each" if self.depthwise else f"{read} channels by {written}"
        sizes = " and ".join(" x ".join(map(str, size)) for size in (self.in_sizes, self.gradient_sizes))
        lines = [
            f"{OP}: {self.operands[0].spec.dtype} {self.in_shape} and {self.operands[1].spec.dtype} "
            f"{self.gradient_shape} -> {self.out_dtype} {self.out_shape} on backend {self.backend!r}, arithmetic in "
            f"{self.compute_dtype}",
            f"  transforms: {kind}, sizes {sizes}, along axes {self.axes}, keeping "
            f"{' x '.join(map(str, self.modes))} wavenumbers from {self.lowest}",
            f"  products: {channels}, summed over a batch of {self.batch}",
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
        words = f"{library} over the whole arrays: forward, cut, einsum, one after the other"
        reason = _support.passed_over(self)
        return f"{words} (no kernels: {reason})" if reason else words

    def __call__(self, x: Any, gradient: Any, *, out: Any = None, workers: int | None = None) -> Any:
        """The gradient with respect to the weight."""
        return _dispatch.execute(self, (x, gradient), out=out, workers=workers)


def plan_spectral_conv_weight_gradient(
    shape: Any,
    dtype: Any,
    gradient: Any,
    modes: Any,
    *,
    depthwise: bool = False,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> SpectralConvWeightGradientPlan:
    """The plan of :func:`spectralops.spectral_conv_weight_gradient`; `default` is the dtype that integers become."""
    spec = transform.array_spec(OP, "gradient", gradient)
    return _build(shape, dtype, spec, modes, depthwise, axes, backend, device, default)


@memoised
def _build(
    shape: Any,
    dtype: Any,
    gradient: ArraySpec,
    modes: Any,
    depthwise: bool,
    axes: int | Sequence[int] | None,
    backend: str | None,
    device: str,
    default: str,
) -> SpectralConvWeightGradientPlan:
    shape = _checks.shape(OP, shape)
    field = _checks.inexact_dtype(OP, dtype, default=default)
    other = _checks.inexact_dtype(OP, gradient.dtype, "gradient", default=default)
    depthwise = _checks.flag(OP, "depthwise", depthwise)
    kept = _checks.shape(OP, modes, "modes")
    d = len(kept)
    if 0 in kept or not kept:
        raise ValueError(f"{OP}: modes is {kept}, but must be 1 or more along one or more axes")
    axes = _checks.axes(OP, axes, len(shape), {"modes": d})
    transform.check_layer_axes(OP, shape, axes)
    channel = len(shape) - d - 1
    wanted = shape[: channel + 1] if depthwise else shape[:channel]
    found = gradient.shape[: len(wanted)]
    if len(gradient.shape) != len(shape) or found != wanted:
        raise ValueError(
            f"{OP}: gradient has shape {gradient.shape}, but must have {len(shape)} axes, the first {len(wanted)} of "
            f"lengths {wanted} as x of shape {shape}"
        )
    transform.check_lengths(OP, "x", shape, axes)
    transform.check_lengths(OP, "gradient", gradient.shape, axes)
    if field.startswith("complex") != other.startswith("complex"):
        kind = "complex" if field.startswith("complex") else "real"
        raise TypeError(
            f"{OP}: gradient has dtype {gradient.dtype}, but must be {kind} as x of dtype {_checks.dtype(OP, dtype)}"
        )
    chosen = _support.select(OP, field, transform.device_kind(OP, device), backend)
    compute = _checks.compute_dtype(field)
    halved = not compute.startswith("complex")
    for j, axis in enumerate(axes):
        half = halved and j == d - 1
        n, k = shape[axis], gradient.shape[axis]
        room = min(n, k) // 2 + 1 if half else min(n, k)
        if kept[j] > room:
            raise ValueError(
                f"{OP}: modes keeps {kept[j]} wavenumbers along axis {axis}, but must keep at most {room} "
                f"({'half of ' if half else ''}{n} points in x, {k} in gradient)"
            )
    leading = (shape[channel],) if depthwise else (shape[channel], gradient.shape[channel])
    plan = SpectralConvWeightGradientPlan(
        op=OP,
        backend=chosen,
        operands=(
            Operand("x", ArraySpec(shape, _checks.dtype(OP, dtype)), compute),
            Operand("gradient", gradient, compute),
        ),
        in_shape=shape,
        gradient_shape=gradient.shape,
        out_shape=(*leading, *kept),
        out_dtype=_checks.complex_dtype(_checks.real_dtype(compute)),
        compute_dtype=compute,
        axes=axes,
        modes=kept,
        depthwise=depthwise,
        halved=halved,
    )
    return _support.settled(plan, backend)
