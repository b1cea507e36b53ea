"""spectral_conv for PyTorch: differentiable in the field and in the weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from spectralops import _checks, _interchange, spectral, spectral_gradients
from spectralops._arrays import ArraySpec, Home, dtype_name
from spectralops._bilinear import FORWARD
from spectralops._plans import transform
from spectralops._plans.memo import memoised
from spectralops._plans.spectral_conv import SpectralConvPlan
from spectralops.torch._bilinear import Call, Family, apply
from spectralops.torch._tensors import floating, planned, precision, recorded, spec_of, straight, tensor

__all__ = ["spectral_conv"]

OP = "spectral_conv"
HOST = Home("torch", "cpu")


class SpectralConvolution(Family):
    """Truncated modes times the weight; options: depthwise, axes from the end."""

    name = OP

    def keeping(self, plan: SpectralConvPlan, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor] | None:
        if plan.backend != "cpu" or plan.out_dtype != plan.compute_dtype:
            return None
        from spectralops._cpu import spectral_conv as engine  # which loads SciPy

        y = _interchange.empty(plan.out_shape, plan.out_dtype, HOST)
        kept = engine.keeping(plan, *_adopted(plan, x, w), out=y, workers=1)
        return None if kept is None else (_interchange.give_back(y, plan.out_dtype, HOST), torch.from_numpy(kept))

    def gradients(self, plan: SpectralConvPlan, kept: Tensor, x: Tensor, w: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        from spectralops._cpu import spectral_conv as engine

        adjoint = plan.adjoint()
        product = spectral_gradients.plan_spectral_conv_weight_gradient(
            x.shape, dtype_name(x.dtype), spec_of(y), plan.modes, depthwise=plan.depthwise, axes=plan.axes
        )
        first = _interchange.empty(plan.in_shape, plan.out_dtype, HOST)
        second = _interchange.empty(product.out_shape, product.out_dtype, HOST)
        incoming, weight = _adopted(adjoint, y, w)
        engine.gradients(adjoint, product, kept.numpy(), weight, incoming, out=first, weight_out=second, workers=1)
        of_weight = _interchange.give_back(second, product.out_dtype, HOST)
        of_x = _interchange.give_back(first, plan.out_dtype, HOST)
        return of_x, of_weight if w.is_complex() else torch.view_as_real(of_weight)

    def weight(self, plan: SpectralConvPlan, x: Tensor, y: Tensor, w: ArraySpec) -> Tensor:
        gradient = straight(_plan_weight_gradient, (x, y), plan.modes, plan.depthwise, plan.axes)
        assert gradient is not None, "the fields of a convolution have a weight gradient"
        wanted = getattr(torch, w.dtype)
        return (gradient if wanted.is_complex else torch.view_as_real(gradient)).to(wanted)


def _adopted(plan: SpectralConvPlan, *tensors: Tensor) -> list[Any]:
    return [_interchange.adopt(x, each.compute, HOST) for each, x in zip(plan.operands, tensors, strict=True)]


@planned
def _plan_weight_gradient(specs: list[ArraySpec], device: str, modes: Any, depthwise: Any, axes: Any) -> Any:
    x, y = specs
    return spectral_gradients.plan_spectral_conv_weight_gradient(
        x.shape, x.dtype, y, modes, depthwise=depthwise, axes=axes, device=device
    )


@planned
def _plan(specs: list[ArraySpec], device: str, depthwise: Any, out_shape: Any, axes: Any, backend: Any) -> Any:
    x, weight = specs
    return spectral.plan_spectral_conv(
        x.shape, x.dtype, weight, depthwise=depthwise, out_shape=out_shape, axes=axes, backend=backend, device=device
    )


def spectral_conv(
    x: Tensor,
    weight: Tensor,
    /,
    *,
    depthwise: bool = False,
    out_shape: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Tensor:
    """Differentiable :func:`spectralops.spectral_conv` of tensors: the layer of a Fourier neural operator.

    y_o = P^T sum_i W_io(k) P F[x_i](k), transformed back. The gradient with respect to x is the same operator with the
    conjugate transpose of the weight and the grids swapped; that with respect to W is
    :func:`spectralops.spectral_conv_weight_gradient`. Both are differentiable again, to every order.

    Parameters
    ----------
    x : Tensor
        Field (..., C_in, N_1, ..., N_d), real or complex.
    weight : Tensor
        Complex, or real with a last axis of real and imaginary parts; as for :func:`spectralops.spectral_conv`.
    depthwise, out_shape, axes, workers, backend
        As for :func:`spectralops.spectral_conv`; the last two hold where no gradient is recorded.

    Returns
    -------
    Tensor
        (..., C_out, M_1, ..., M_d) of the dtype and device of x.

    Raises
    ------
    TypeError
        If an argument is no tensor.
    ValueError
        If channels, modes, axes or sizes do not fit.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021), eq. 4-5.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import spectral_conv
    >>> x = torch.ones(1, 1, 8)
    >>> weight = torch.zeros(1, 1, 3, 2, requires_grad=True)
    >>> spectral_conv(x, weight).sum().backward()
    >>> weight.grad[0, 0].round().abs().tolist()
    [[8.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    tensor(OP, "x", x)
    tensor(OP, "weight", weight)
    out_shape = tuple(out_shape) if type(out_shape) is list else out_shape  # plans are found by values with a hash
    if not recorded(x, weight):
        if workers is None and (y := straight(_plan, (x, weight), depthwise, out_shape, axes, backend)) is not None:
            return y
        result: Tensor = spectral.spectral_conv(
            x, weight, depthwise=depthwise, out_shape=out_shape, axes=axes, workers=workers, backend=backend
        )
        return result
    x = floating(x)
    real, complex_ = precision(x.dtype)
    weight = weight.to(complex_ if weight.is_complex() else real)
    depthwise = _checks.flag(OP, "depthwise", depthwise)
    arguments = (x.shape, weight.shape, weight.is_complex(), depthwise)
    if torch.compiler.is_compiling():
        chosen, shape = _layout(*arguments, out_shape, axes)
    else:
        sizes = None if out_shape is None else transform.target_sizes(OP, out_shape)
        chosen, shape = _kept_layout(*arguments, sizes, axes)
    return apply(Call(FORWARD, OP, (depthwise, chosen)), x, weight, shape, x.dtype)


def _layout(
    x_shape: Any, weight_shape: Any, is_complex: bool, depthwise: bool, out_shape: Any, axes: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The transform axes from the end, and the shape of the result."""
    ndim = len(x_shape)
    d = len(weight_shape) - (1 if depthwise else 2) - (0 if is_complex else 1)
    counts = {"weight's modes": d, "out_shape": _checks.entries(out_shape)}
    chosen = tuple(axis - ndim for axis in _checks.axes(OP, axes, ndim, counts))
    shape = list(x_shape)
    if not depthwise:
        shape[-d - 1] = weight_shape[1]
    if out_shape is not None:
        for axis, n in zip(chosen, _checks.per_axis(OP, "out_shape", out_shape, d), strict=True):
            shape[axis] = n
    return chosen, tuple(shape)


_kept_layout = memoised(_layout)
