"""Plans of fourier_resample: the same trigonometric polynomial on another grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from spectralops import _checks, _dispatch, _support
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import transform
from spectralops._plans.memo import memoised

__all__ = ["FourierResamplePlan", "Move", "plan_fourier_resample"]

OP = "fourier_resample"
# Spectrum bytes worked on at a time: they should stay in cache.
BLOCK_BYTES = 2**20


class Move(NamedTuple):
    """Coefficients ``[source, source + length)`` times `factor`, added to those from `target` on."""

    target: int
    source: int
    length: int
    factor: float


@dataclass(frozen=True, slots=True)
class FourierResamplePlan:
    """The plan of one resampling.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        x alone.
    in_shape, out_shape : tuple of int
        Shapes of x and of the result.
    out_dtype, compute_dtype : str
        dtype of the result and of the arithmetic.
    axes : tuple of int
        The axes whose length changes, nonnegative; the others need no transform.
    halved : bool
        Whether the last of them has a half spectrum: real x.
    transposed : bool
        Whether this is the adjoint of a resampling.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    compute_dtype: str
    axes: tuple[int, ...]
    halved: bool
    transposed: bool

    @property
    def in_place(self) -> bool:
        """Whether `out` may be x: no."""
        return False

    @property
    def halo(self) -> tuple[int, ...]:
        """Empty: along a resampled axis every output depends on every input."""
        return ()

    @property
    def in_sizes(self) -> tuple[int, ...]:
        """Lengths of the resampled axes of x, in `axes` order."""
        return tuple(self.in_shape[axis] for axis in self.axes)

    @property
    def out_sizes(self) -> tuple[int, ...]:
        """Lengths of the resampled axes of the result, in `axes` order."""
        return tuple(self.out_shape[axis] for axis in self.axes)

    @property
    def norm(self) -> str:
        """Normalisation of both transforms: amplitudes stay, or for the adjoint what transposes that."""
        return "backward" if self.transposed else "forward"

    @property
    def block(self) -> int:
        """Transforms that the CPU executor takes at a time, so that they stay in cache."""
        one = math.prod(max(n, m) for n, m in zip(self.in_sizes, self.out_sizes, strict=True))
        item = 16 if self.compute_dtype in ("float64", "complex128") else 8
        return max(1, BLOCK_BYTES // (one * item))

    def moves(self, j: int) -> tuple[Move, ...]:
        """Where the coefficients along the j-th axis go, from the transform's order for one size to the other's.

        An even grid's Nyquist coefficient stands for k and -k. Going up, it is shared between the two, half each; going
        down, the two are added. The adjoint transposes that: whole copies up, the mean down.
        """
        n, m = self.in_sizes[j], self.out_sizes[j]
        kept = min(n, m)
        half = kept // 2
        low = Move(0, 0, (kept + 1) // 2, 1.0)
        up, down = (1.0, 0.5) if self.transposed else (0.5, 1.0)
        if self.halved and j == len(self.axes) - 1:
            # The real inverse counts an interior coefficient twice and Nyquist once.
            nyquist = (Move(half, half, 1, up if m > n else 2 * down),)
            return (low, *nyquist) if kept % 2 == 0 else (low,)
        negative = (kept - 1) // 2
        moves = (low, Move(m - negative, n - negative, negative, 1.0))
        if kept % 2:
            return moves
        if m > n:
            return (*moves, Move(half, half, 1, up), Move(m - half, half, 1, up))
        return (*moves, Move(half, half, 1, down), Move(half, n - half, 1, down))

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: x in, the result out."""
        field = self.operands[0].spec
        return _checks.nbytes(field.shape, field.dtype) + _checks.nbytes(self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Nominal operations of both transforms."""
        batch = math.prod(n for axis, n in enumerate(self.in_shape) if axis not in self.axes)
        sizes = (self.in_sizes, self.out_sizes)
        return batch * sum(transform.fft_flops(each, self.halved) for each in sizes)

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element of the arrays and spectra (as real numbers)."""
        return _checks.index_bits((2, *self.in_shape), (2, *self.out_shape))

    def adjoint(self) -> FourierResamplePlan:
        """The plan of the adjoint operator A*, with <A x, y> = <x, A* y>."""
        spec = ArraySpec(self.out_shape, self.out_dtype)
        return replace(
            self,
            operands=(Operand("x", spec, self.compute_dtype),),
            in_shape=self.out_shape,
            out_shape=self.in_shape,
            transposed=not self.transposed,
        )

    def explain(self) -> str:
        """What runs, how and why, in a few lines."""
        kind = "real" if self.halved else "complex"
        changed = ", ".join(
            f"axis {axis} from {n} to {m}" for axis, n, m in zip(self.axes, self.in_sizes, self.out_sizes, strict=True)
        )
        lines = [
            f"{OP}{' (adjoint)' if self.transposed else ''}: {self.out_dtype} {self.in_shape} -> {self.out_shape} on "
            f"backend {self.backend!r}, arithmetic in {self.compute_dtype}",
            f"  transforms: {kind}, {changed}; no others" if self.axes else "  transforms: none, no length changes",
            f"  runs: {self._algorithm_words()}",
            f"  moves at least {self.bytes_moved} bytes, {self.flops} operations, {self.index_bits}-bit offsets",
        ]
        return "\n".join(lines)

    def _algorithm_words(self) -> str:
        if not self.axes:
            return "a copy"
        if self.backend == "cpu":
            return (
                "axis by axis, each cut before the next, on the vector engine where it is predicted to be faster, else "
                f"scipy.fft, {self.block} transform(s) at a time in cache"
            )
        if self.backend == "reference":
            return "dense matrices of trigonometric interpolation in float64"
        library = "scipy.fft" if self.backend == "numpy" else "cupyx.scipy.fft"
        return f"{library} over the whole array: forward, cut or pad, inverse, one after the other"

    def __call__(self, x: Any, *, out: Any = None, workers: int | None = None) -> Any:
        """Resample x."""
        return _dispatch.execute(self, (x,), out=out, workers=workers)


def plan_fourier_resample(
    shape: Any,
    dtype: Any,
    out_shape: Any,
    *,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> FourierResamplePlan:
    """The plan of :func:`spectralops.fourier_resample`; `default` is the dtype that integers become."""
    return _build(shape, dtype, out_shape, axes, backend, device, default)


@memoised
def _build(
    shape: Any,
    dtype: Any,
    out_shape: Any,
    axes: int | Sequence[int] | None,
    backend: str | None,
    device: str,
    default: str,
) -> FourierResamplePlan:
    shape = _checks.shape(OP, shape)
    out_dtype = _checks.inexact_dtype(OP, dtype, default=default)
    sizes = transform.target_sizes(OP, out_shape)
    axes = _checks.axes(OP, axes, len(shape), {"out_shape": None if isinstance(sizes, int) else len(sizes)})
    targets = _checks.per_axis(OP, "out_shape", sizes, len(axes))
    transform.check_lengths(OP, "x", shape, axes)
    if 0 in targets:
        raise ValueError(f"{OP}: out_shape is {targets}, but must be 1 or more along each axis")
    written = list(shape)
    for axis, m in zip(axes, targets, strict=True):
        written[axis] = m
    _checks.fits_memory(OP, "out_shape", targets, tuple(written), "complex128")
    compute = _checks.compute_dtype(out_dtype)
    return FourierResamplePlan(
        op=OP,
        backend=_support.select(OP, out_dtype, transform.device_kind(OP, device), backend),
        operands=(Operand("x", ArraySpec(shape, _checks.dtype(OP, dtype)), compute),),
        in_shape=shape,
        out_shape=tuple(written),
        out_dtype=out_dtype,
        compute_dtype=compute,
        axes=tuple(axis for axis in axes if shape[axis] != written[axis]),
        halved=not compute.startswith("complex"),
        transposed=False,
    )
