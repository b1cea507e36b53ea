"""spectral_filter for PyTorch: differentiable in the field and in the transfer's values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from spectralops import _checks, spectral
from spectralops._arrays import ArraySpec
from spectralops._bilinear import FORWARD
from spectralops._plans import transform
from spectralops._plans.spectral import SpectralFilterPlan
from spectralops._plans.transfers import Transfer
from spectralops.torch._bilinear import Call, Family, apply
from spectralops.torch._tensors import (
    constant,
    fixed,
    floating,
    padded,
    planned,
    precision,
    recorded,
    spec_of,
    straight,
    tensor,
)

__all__ = ["spectral_filter"]

OP = "spectral_filter"


class Filter(Family):
    """x times the transfer's values w; options: axes from the end, and the cells of zeros that each is padded by."""

    name = OP

    def weight(self, plan: SpectralFilterPlan, x: Tensor, y: Tensor, w: ArraySpec) -> Tensor:
        dtype = getattr(torch, plan.compute_dtype)
        cells = _cells(plan)
        forward = torch.fft.rfftn if plan.grid.halved else torch.fft.fftn
        left, right = (forward(torch.nn.functional.pad(v.to(dtype), cells), dim=plan.axes) for v in (x, y))
        product = left.conj_physical_().mul_(right)
        if plan.grid.halved:
            product *= _bin_weights(plan, product)
        values = product.sum_to_size(w.shape) / math.prod(plan.sizes)
        wanted = getattr(torch, w.dtype)
        return (values if wanted.is_complex else values.real).to(wanted)


def _cells(plan: SpectralFilterPlan) -> list[int]:
    """The padding as ``torch.nn.functional.pad`` takes it: the last axis first."""
    pairs = [(0, 0)] * len(plan.in_shape)
    for axis, pair in zip(plan.axes, plan.pad, strict=True):
        pairs[axis] = pair
    return [n for pair in reversed(pairs) for n in pair]


def _bin_weights(plan: SpectralFilterPlan, like: Tensor) -> Tensor:
    """How often a real inverse counts a wavenumber of the halved axis: once zero and Nyquist, twice the others."""
    n, axis = plan.sizes[-1], plan.axes[-1]
    k = torch.arange(n // 2 + 1, device=like.device)
    counts = torch.where((k == 0) | (2 * k == n), 1.0, 2.0).to(like.real.dtype)
    return counts.reshape(-1, *(1,) * (like.ndim - 1 - axis))


# Callables by name: the operator below is given plain values only.
_callables: dict[str, Callable[..., Any]] = {}


@constant
def _named(transfer: Callable[..., Any], spacing: Any, pad_width: Any, axes: tuple[int, ...]) -> str:
    """A name for a callable with its options, which begins with c where its values are complex."""
    options = {"spacing": spacing, "pad_width": pad_width, "axes": axes}
    probe = _sampled(transfer, options | {"pad_width": 0}, ArraySpec((4,) * len(axes), "float64"), "cpu")
    name = f"{'c' if probe.is_complex() else 'r'}{len(_callables)}"
    _callables[name] = functools.partial(_sampled, transfer, options)
    return name


def _sampled(transfer: Callable[..., Any], options: dict[str, Any], x: ArraySpec, device: str) -> Tensor:
    """The values of a callable on the spectrum of x, one axis for each of x: of length 1 along the batch."""
    plan = spectral.plan_spectral_filter(x.shape, x.dtype, transfer, device=device, **options)
    return _symbol(plan) if isinstance(transfer, Transfer) else _values(plan)


@functools.lru_cache(maxsize=64)
def _symbol(plan: SpectralFilterPlan) -> Tensor:
    return _values(plan)


def _values(plan: SpectralFilterPlan) -> Tensor:
    values = functools.reduce(torch.mul, map(torch.tensor, plan.symbol()))
    batch = [axis for axis in range(len(plan.in_shape)) if axis not in plan.axes]
    shape = [1 if axis in batch else n for axis, n in enumerate(plan.spectrum_shape)]
    return values.expand(shape).contiguous()


@torch.library.custom_op("spectralops::transfer", mutates_args=())
def _transfer(x: Tensor, shape: Sequence[int], is_complex: bool, name: str) -> Tensor:
    return _callables[name](spec_of(x), str(x.device)).to(x.device, copy=True)


@_transfer.register_fake
def _(x: Tensor, shape: Sequence[int], is_complex: bool, name: str) -> Tensor:
    return x.new_empty(shape, dtype=precision(x.dtype)[1 if is_complex else 0])


def _extent(n: int, width: int | str) -> int:
    # Without its cache, which PyTorch warns about while tracing.
    return transform.fast_size.__wrapped__(n) if isinstance(width, str) else n + 2 * width


@planned
def _plan(
    specs: list[ArraySpec],
    device: str,
    transfer: Transfer | None,
    several: bool,
    spacing: Any,
    pad_width: Any,
    pad_mode: Any,
    axes: Any,
    backend: Any,
) -> Any:
    x, *factors = specs
    value = transfer if transfer is not None else tuple(factors) if several else factors[0]
    return spectral.plan_spectral_filter(
        x.shape, x.dtype, value, spacing=spacing, pad_width=pad_width,
        pad_mode=pad_mode, axes=axes, backend=backend, device=device,
    )  # fmt: skip


def spectral_filter(
    x: Tensor,
    transfer: Tensor | tuple[Tensor, ...] | Callable[..., Any],
    /,
    *,
    spacing: float | Sequence[float] = 1.0,
    pad_width: int | str | Sequence[int | str] = 0,
    pad_mode: str = "zero",
    axes: int | Sequence[int] | None = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Tensor:
    """Differentiable :func:`spectralops.spectral_filter` of tensors.

    y = F^-1[ H(k) F[x](k) ]. The gradient with respect to x is the filter with the conjugate transfer; that with
    respect to H is c(k) conj(F[x]) F[g] / N summed over the axes that H is broadcast along, where c counts a wavenumber
    of a halved axis twice unless it is zero or Nyquist [1]_.

    Parameters
    ----------
    x : Tensor
        Field, real or complex.
    transfer : Tensor, tuple of Tensor, or callable
        H as for :func:`spectralops.spectral_filter`; tensors may require grad. A callable's values are constants.
    spacing, pad_width, pad_mode, axes, workers, backend
        As for :func:`spectralops.spectral_filter`; the last two hold where no gradient is recorded.

    Returns
    -------
    Tensor
        Of the shape, dtype and device of x.

    Raises
    ------
    TypeError
        If `x` is no tensor, or `transfer` is of the wrong kind.
    ValueError
        If shapes, axes, spacing or padding do not fit.

    References
    ----------
    .. [1] W. L. Briggs, V. E. Henson, "The DFT: An Owner's Manual", SIAM (1995), ch. 4.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import spectral_filter
    >>> x = torch.arange(4.0, requires_grad=True)
    >>> spectral_filter(x, torch.tensor([1.0, 0.0, 0.0])).square().sum().backward()
    >>> x.grad
    tensor([3., 3., 3., 3.])
    """
    tensor(OP, "x", x)
    several = isinstance(transfer, tuple)
    given: tuple[Any, ...] = transfer if isinstance(transfer, tuple) else () if callable(transfer) else (transfer,)
    for j, factor in enumerate(given):
        tensor(OP, f"transfer[{j}]" if several else "transfer", factor)
    if not recorded(x, *given):
        known = transfer if isinstance(transfer, Transfer) else None
        if workers is None and (given or known is not None):
            y = straight(_plan, (x, *given), known, several, spacing, pad_width, pad_mode, axes, backend)
            if y is not None:
                return y
        result: Tensor = spectral.spectral_filter(
            x, transfer, spacing=spacing, pad_width=pad_width, pad_mode=pad_mode, axes=axes, workers=workers,
            backend=backend,
        )  # fmt: skip
        return result
    counts = {
        "spacing": _checks.entries(spacing),
        "pad_width": _checks.entries(pad_width),
        "transfer": len(given) if several else getattr(transfer, "count", None),
    }
    chosen = tuple(axis - x.ndim for axis in _checks.axes(OP, axes, x.ndim, counts))
    widths: tuple[int | str, ...] = _checks.per_axis(OP, "pad_width", pad_width, len(chosen))
    if pad_mode != "zero" and any(width != 0 for width in widths):
        _checks.choice(OP, "pad_mode", pad_mode, ("reflect", "edge"))
        before = [(_extent(x.shape[axis], w) - x.shape[axis]) // 2 for axis, w in zip(chosen, widths, strict=True)]
        sides = [
            (low, _extent(x.shape[axis], w) - x.shape[axis] - low)
            for axis, w, low in zip(chosen, widths, before, strict=True)
        ]
        whole = padded(x, chosen, sides, pad_mode)
        result = spectral_filter(whole, transfer, spacing=spacing, axes=chosen)
        for axis, low in zip(chosen, before, strict=True):
            result = result.narrow(axis, low, x.shape[axis])
        return result
    x = floating(x)
    if given:
        real, complex_ = precision(x.dtype)
        values = functools.reduce(torch.mul, [f.to(complex_ if f.is_complex() else real) for f in given])
    else:
        values = _of_callable(x, transfer, {"spacing": spacing, "pad_width": widths, "axes": chosen})
    return apply(Call(FORWARD, OP, (chosen, widths)), x, values, x.shape, x.dtype)


def _of_callable(x: Tensor, transfer: Any, options: dict[str, Any]) -> Tensor:
    if not callable(transfer):
        raise TypeError(f"{OP}: transfer is a {type(transfer).__name__}, but must be a tensor, a tuple or a callable")
    if not torch.compiler.is_compiling():
        return _sampled(transfer, options, spec_of(x), str(x.device)).to(x.device)
    shape = [1] * x.ndim
    for axis, width in zip(options["axes"], options["pad_width"], strict=True):
        shape[axis] = _extent(x.shape[axis], width)
    if not x.is_complex():
        shape[options["axes"][-1]] = shape[options["axes"][-1]] // 2 + 1
    name = _named(transfer, *(fixed(options[key]) for key in ("spacing", "pad_width", "axes")))
    return _transfer(x.detach(), shape, name.startswith("c"), name)
