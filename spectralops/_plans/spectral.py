"""Plans of spectral_filter: a pointwise multiplier between a forward and an inverse transform."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectralops import _arrays, _checks, _dispatch, _support
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import transform
from spectralops._plans.grid import Grid, Symbol, sampled
from spectralops._plans.memo import memoised
from spectralops._plans.transfers import Transfer
from spectralops.errors import UnsupportedError

__all__ = ["SpectralFilterPlan", "plan_spectral_filter"]

OP = "spectral_filter"
PAD_MODES = ("zero", "reflect", "edge")
# Spectrum bytes worked on at a time, so that multiplier and inverse find them in a core's second-level cache. A single
# row always fits: one axis gains little, and the calls should not show.
BLOCK_BYTES = 2**20
BLOCK_BYTES_1D = 2**22


@dataclass(frozen=True, slots=True)
class SpectralFilterPlan:
    """The plan of one filter: what a call with these shapes, dtypes and options will do.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        x, then the arrays of the transfer.
    in_shape, out_shape : tuple of int
        Shapes of x and of the result, which are the same.
    out_dtype, compute_dtype : str
        dtype of the result and of the arithmetic.
    axes : tuple of int
        Transformed axes, nonnegative, in the caller's order.
    pad : tuple of (int, int)
        Cells added before and after along each of them.
    pad_mode : str
        How they are filled.
    grid : Grid
        The padded grid, on which the transfer is sampled.
    transfer : callable, Transfer or None
        The symbol; None where the transfer's values are operands.
    conjugate : bool
        Whether the complex conjugate of the transfer is applied: the adjoint.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    compute_dtype: str
    axes: tuple[int, ...]
    pad: tuple[tuple[int, int], ...]
    pad_mode: str
    grid: Grid
    transfer: Callable[..., Any] | None
    conjugate: bool

    @property
    def samples_anew(self) -> bool:
        """Whether the transfer is a function of the caller's: what it returns may differ from call to call, and what it
        holds must not live on in a cache.
        """
        return self.transfer is not None and not isinstance(self.transfer, Transfer)

    @property
    def in_place(self) -> bool:
        """Whether `out` may be x: no."""
        return False

    @property
    def halo(self) -> tuple[int, ...]:
        """Empty: every output along the transformed axes depends on every input."""
        return ()

    @property
    def padded(self) -> bool:
        """Whether any axis is padded."""
        return self.pad != ((0, 0),) * len(self.pad)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the transformed axes with their padding, in `axes` order."""
        return self.grid.sizes

    @property
    def spectrum_shape(self) -> tuple[int, ...]:
        """Shape of the spectrum, which the transfer's arrays broadcast against, in x's order of axes."""
        shape = list(self.in_shape)
        coefficients = transform.spectrum_sizes(self.sizes, self.grid.halved)
        for axis, n in zip(self.axes, coefficients, strict=True):
            shape[axis] = n
        return tuple(shape)

    @property
    def batch(self) -> int:
        """Number of independent transforms."""
        return math.prod(n for axis, n in enumerate(self.in_shape) if axis not in self.axes)

    @property
    def block(self) -> int:
        """Transforms that the CPU executor takes at a time."""
        one = math.prod(transform.spectrum_sizes(self.sizes, self.grid.halved))
        item = 16 if self.compute_dtype in ("float64", "complex128") else 8
        return max(1, (BLOCK_BYTES if len(self.axes) > 1 else BLOCK_BYTES_1D) // (one * item))

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: x and the transfer's arrays in, the result out."""
        read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in self.operands)
        return read + _checks.nbytes(self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Nominal operations: both transforms and six for each coefficient's complex product."""
        one = 2 * transform.fft_flops(self.sizes, self.grid.halved)
        return self.batch * one + 6 * math.prod(self.spectrum_shape)

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element of the arrays and the spectrum (as real numbers)."""
        return _checks.index_bits(self.in_shape, self.out_shape, (2, *self.spectrum_shape))

    def factors(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """What to multiply the spectrum by: the operands or the sampled symbol, conjugated if planned so."""
        values = operands if self.transfer is None else self.symbol()
        return tuple(value.conj() for value in values) if self.conjugate else values

    def symbol(self) -> Symbol:
        """The transfer's values on the grid as NumPy arrays, in the precision of the arithmetic.

        Raises
        ------
        TypeError
            If the callable returns something that is no NumPy array or number.
        ValueError
            If it does not broadcast against the spectrum, or is NaN or infinite somewhere.
        """
        dtype = _checks.real_dtype(self.compute_dtype)
        if isinstance(self.transfer, Transfer):
            return sampled(self.transfer, self.grid, dtype, _check_finite)
        assert self.transfer is not None
        values = self._called(self.transfer)
        items = values if isinstance(values, tuple) else (values,)
        return tuple(self._checked(item, dtype) for item in items)

    def _called(self, transfer: Callable[..., Any]) -> Any:
        """What a callable makes of the wavenumbers."""
        count = len(self.axes)
        given = f"{count} array{'s' if count > 1 else ''} of wavenumbers, one for each of axes {self.axes}"
        return _checks.called(OP, "transfer", transfer, given, *self.grid.wavenumbers())

    def _checked(self, value: Any, dtype: str) -> np.ndarray[Any, Any]:
        if (
            not isinstance(value, np.ndarray | np.generic | int | float | complex)
            or np.asarray(value).dtype.kind in "OSU"
        ):
            raise TypeError(
                f"{OP}: transfer returned a {type(value).__name__}, but must return NumPy arrays or numbers: it is "
                "given NumPy wavenumbers on the host"
            )
        array = np.asarray(value)
        _check_fits("transfer returned an array of", array.shape, self.spectrum_shape, self.axes, self.grid)
        if not np.isfinite(array).all():
            raise ValueError(
                f"{OP}: transfer returned {array[~np.isfinite(array)][0]}, but must be finite at every wavenumber; "
                "choose a value there, e.g. with numpy.where"
            )
        return array.astype(np.result_type(dtype, 1j) if array.dtype.kind == "c" else dtype)

    def adjoint(self) -> SpectralFilterPlan:
        """The plan of the adjoint operator A*, with <A x, y> = <x, A* y>: the conjugate transfer.

        Raises
        ------
        UnsupportedError
            If the padding repeats values of x, whose adjoint would sum them.
        """
        if self.padded and self.pad_mode != "zero":
            raise UnsupportedError(
                f"{OP}: pad_mode is {self.pad_mode!r}, but must be 'zero' for a plan that has an adjoint of its own "
                "kind; pad x before the call"
            )
        field = Operand("x", ArraySpec(self.out_shape, self.out_dtype), self.compute_dtype)
        return replace(self, operands=(field, *self.operands[1:]), conjugate=not self.conjugate)

    def explain(self) -> str:
        """What runs, how and why, in a few lines."""
        kind = "real" if self.grid.halved else "complex"
        size = " x ".join(map(str, self.sizes))
        lines = [
            f"{OP}: {self.out_dtype} {self.in_shape} on backend {self.backend!r}, arithmetic in {self.compute_dtype}",
            f"  transforms: {self.batch} {kind}, size {size}, along axes {self.axes}"
            + (f", half spectrum on axis {self.axes[-1]}" if self.grid.halved else ""),
            f"  padding: {self.pad_mode} {self.pad}, cropped after" if self.padded else "  padding: none (periodic)",
            f"  transfer: {self._transfer_words()}{', conjugated' if self.conjugate else ''}",
            f"  runs: {self._algorithm_words()}",
            f"  moves at least {self.bytes_moved} bytes, {self.flops} operations, {self.index_bits}-bit offsets",
        ]
        return "\n".join(lines)

    def _transfer_words(self) -> str:
        if self.transfer is None:
            arrays = self.operands[1:]
            cast = [f"{a.spec.dtype} as {a.compute}" for a in arrays if a.spec.dtype != a.compute]
            shapes = ", ".join(str(a.spec.shape) for a in arrays)
            return f"array {shapes}" + (f", cast from {', '.join(cast)} at each call" if cast else "")
        device = "" if _support.BACKENDS[self.backend] == "cpu" else " and copied to the device at each call"
        if isinstance(self.transfer, Transfer):
            kept = " there and on the device" if self.backend == "cuda" else device
            return f"{self.transfer!r}, sampled on the host and cached{kept}"
        name = getattr(self.transfer, "__name__", type(self.transfer).__name__)
        return f"callable {name}, evaluated on the host{device or ' at each call'}"

    def _algorithm_words(self) -> str:
        if self.backend in ("cpu", "cuda"):
            return _support.algorithm(self)
        if self.backend == "reference":
            return "dense matrices of the discrete Fourier transform in float64"
        library = "scipy.fft" if self.backend == "numpy" else "cupyx.scipy.fft"
        words = f"{library} over the whole array: forward, product, inverse, one after the other"
        reason = _support.passed_over(self)
        return f"{words} (no kernels: {reason})" if reason else words

    def __call__(self, x: Any, *operands: Any, out: Any = None, workers: int | None = None) -> Any:
        """Filter x; the transfer's arrays follow it."""
        return _dispatch.execute(self, (x, *operands), out=out, workers=workers)


def plan_spectral_filter(
    shape: Any,
    dtype: Any,
    transfer: Any,
    *,
    spacing: Any = 1.0,
    pad_width: Any = 0,
    pad_mode: str = "zero",
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
    default: str = "float64",
) -> SpectralFilterPlan:
    """The plan of :func:`spectralops.spectral_filter`; `default` is the dtype that integers become."""
    specs, names, symbol = _canonical_transfer(transfer)
    value = symbol if isinstance(symbol, Transfer) else None
    plan = _build(shape, dtype, specs, names, value, spacing, pad_width, pad_mode, axes, backend, device, default)
    # A callable's closure may hold anything: it must not live on in the cache.
    return plan if symbol is value else replace(plan, transfer=symbol)


def _canonical_transfer(transfer: Any) -> tuple[tuple[ArraySpec, ...], tuple[str, ...], Any]:
    """Array specifications and names of an array or a tuple of them, or else the callable."""
    if isinstance(transfer, tuple):
        if not transfer:
            raise ValueError(f"{OP}: transfer is an empty tuple, but must have one array per axis")
        names = tuple(f"transfer[{j}]" for j in range(len(transfer)))
        return tuple(transform.array_spec(OP, n, f) for n, f in zip(names, transfer, strict=True)), names, None
    if isinstance(transfer, ArraySpec) or _arrays.is_array(transfer):
        return (transform.array_spec(OP, "transfer", transfer),), ("transfer",), None
    if callable(transfer):
        return (), (), transfer
    raise TypeError(
        f"{OP}: transfer is a {type(transfer).__name__}, but must be an array, a tuple of arrays or a callable"
    )


def _check_finite(transfer: Any, factor: np.ndarray[Any, Any]) -> None:
    if not np.isfinite(factor).all():
        raise ValueError(
            f"{OP}: transfer {transfer} has the value {factor[~np.isfinite(factor)][0]} on this grid in "
            f"{factor.dtype}, but must be finite at every wavenumber"
        )


def _pad_width(value: Any) -> int | str:
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"{OP}: pad_width is {_checks.shown(value)}, but must be 'auto' or a number of cells")
        return value
    return _checks.shape(OP, (value,), "pad_width")[0]


@memoised
def _build(
    shape: Any,
    dtype: Any,
    specs: tuple[ArraySpec, ...],
    names: tuple[str, ...],
    transfer: Transfer | None,
    spacing: Any,
    pad_width: Any,
    pad_mode: str,
    axes: int | Sequence[int] | None,
    backend: str | None,
    device: str,
    default: str,
) -> SpectralFilterPlan:
    shape = _checks.shape(OP, shape)
    out_dtype = _checks.inexact_dtype(OP, dtype, default=default)
    counts = {
        "spacing": _checks.entries(spacing),
        "pad_width": _checks.entries(pad_width),
        "transfer": len(specs) if "transfer[0]" in names else None if transfer is None else transfer.count,
    }
    axes = _checks.axes(OP, axes, len(shape), counts)
    steps = tuple(_checks.length(OP, "spacing", h) for h in _checks.per_axis(OP, "spacing", spacing, len(axes)))
    widths = tuple(_pad_width(w) for w in _checks.per_axis(OP, "pad_width", pad_width, len(axes)))
    _checks.choice(OP, "pad_mode", pad_mode, PAD_MODES)
    transform.check_lengths(OP, "x", shape, axes)
    chosen = _support.select(OP, out_dtype, transform.device_kind(OP, device), backend)
    compute = _checks.compute_dtype(out_dtype)
    halved = not compute.startswith("complex")
    pad = tuple(_widths(shape[axis], width) for axis, width in zip(axes, widths, strict=True))
    padded = tuple(shape[axis] + sum(width) for axis, width in zip(axes, pad, strict=True))
    _checks.fits_memory(OP, "pad_width", pad_width, padded, "complex128")
    grid = Grid.of_axes(padded, steps, halved, axes, len(shape))
    if transfer is not None:
        transfer.fit(len(axes))
    real = transform.real_part_of(out_dtype)
    operands = [Operand("x", ArraySpec(shape, _checks.dtype(OP, dtype)), compute)]
    for spec, name in zip(specs, names, strict=True):
        is_complex = spec.dtype.startswith("complex")
        operands.append(Operand(name, spec, _checks.complex_dtype(real) if is_complex else real))
    plan = SpectralFilterPlan(
        op=OP,
        backend=chosen,
        operands=tuple(operands),
        in_shape=shape,
        out_shape=shape,
        out_dtype=out_dtype,
        compute_dtype=compute,
        axes=axes,
        pad=pad,
        pad_mode=pad_mode,
        grid=grid,
        transfer=transfer,
        conjugate=False,
    )
    for j, (spec, name) in enumerate(zip(specs, names, strict=True)):
        _check_fits(f"{name} has", spec.shape, plan.spectrum_shape, axes, grid)
        _check_orientation(name, spec.shape, j, axes, len(shape))
    return _support.settled(plan, backend)


def _widths(n: int, width: int | str) -> tuple[int, int]:
    """Cells before and after; "auto" reaches the next fast size, the odd cell after."""
    if isinstance(width, int):
        return width, width
    extra = transform.fast_size(n) - n
    return extra // 2, extra - extra // 2


def _check_fits(
    what: str, shape: tuple[int, ...], spectrum: tuple[int, ...], axes: tuple[int, ...], grid: Grid
) -> None:
    """Raise ValueError unless an array of `shape` broadcasts against the spectrum without enlarging it."""
    trailing = spectrum[len(spectrum) - len(shape) :] if len(shape) <= len(spectrum) else None
    if trailing is not None and all(n in (1, m) for n, m in zip(shape, trailing, strict=True)):
        return
    half = f"; real x has {spectrum[axes[-1]]} wavenumbers along axis {axes[-1]}" if grid.halved else ""
    raise ValueError(f"{OP}: {what} shape {shape}, but must broadcast against the spectrum of shape {spectrum}{half}")


def _check_orientation(name: str, shape: tuple[int, ...], j: int, axes: tuple[int, ...], ndim: int) -> None:
    """Raise ValueError for a 1-d factor of a tuple that lies along another axis than the one it stands for."""
    if name != "transfer" and len(shape) == 1 and shape != (1,) and axes[j] != ndim - 1:
        column = (shape[0], *(1,) * (ndim - 1 - axes[j]))
        raise ValueError(
            f"{OP}: {name} has shape {shape}, which broadcasts along the last axis, but must lie along axis {axes[j]}; "
            f"reshape it to {column}"
        )
