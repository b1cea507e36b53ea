"""fourier_resample for PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from spectralops import _checks, spectral
from spectralops._arrays import ArraySpec
from spectralops._bilinear import FORWARD
from spectralops._plans import transform
from spectralops.torch._bilinear import Call, Family, apply
from spectralops.torch._tensors import floating, planned, recorded, straight, tensor

__all__ = ["fourier_resample"]

OP = "fourier_resample"


class Resample(Family):
    """Band-limited interpolation; options: axes from the end."""

    name = OP

    def weight(self, plan: Any, x: Tensor, y: Tensor, w: ArraySpec) -> Tensor:
        raise AssertionError("an operator without weight has no weight gradient")


@planned
def _plan(specs: list[ArraySpec], device: str, shape: Any, axes: Any, backend: Any) -> Any:
    (x,) = specs
    return spectral.plan_fourier_resample(x.shape, x.dtype, shape, axes=axes, backend=backend, device=device)


def fourier_resample(
    x: Tensor,
    shape: int | Sequence[int],
    /,
    *,
    axes: int | Sequence[int] | None = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Tensor:
    """Differentiable :func:`spectralops.fourier_resample` of a tensor.

    The trigonometric polynomial through x, on another grid; its gradient is the transposed map.

    Parameters
    ----------
    x : Tensor
        Periodic field, real or complex.
    shape : int or sequence of int
        New lengths of the axes.
    axes, workers, backend
        As for :func:`spectralops.fourier_resample`; the last two hold where no gradient is recorded.

    Returns
    -------
    Tensor
        Of the dtype and device of x.

    Raises
    ------
    TypeError
        If `x` is no tensor.
    ValueError
        If sizes or axes do not fit.

    References
    ----------
    .. [1] W. L. Briggs, V. E. Henson, "The DFT: An Owner's Manual", SIAM (1995), ch. 3.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import fourier_resample
    >>> fourier_resample(torch.tensor([1.0, 0.0, -1.0, 0.0]), 8).mul(1e4).round().tolist()
    [10000.0, 7071.0, 0.0, -7071.0, -10000.0, -7071.0, 0.0, 7071.0]
    """
    tensor(OP, "x", x)
    shape = tuple(shape) if type(shape) is list else shape  # plans are found by values with a hash
    if not recorded(x):
        if workers is None and (y := straight(_plan, (x,), shape, axes, backend)) is not None:
            return y
        result: Tensor = spectral.fourier_resample(x, shape, axes=axes, workers=workers, backend=backend)
        return result
    x = floating(x)
    if not torch.compiler.is_compiling():
        shape = transform.target_sizes(OP, shape)
    chosen = tuple(axis - x.ndim for axis in _checks.axes(OP, axes, x.ndim, {"shape": _checks.entries(shape)}))
    target = list(x.shape)
    for axis, n in zip(chosen, _checks.per_axis(OP, "shape", shape, len(chosen)), strict=True):
        target[axis] = n
    return apply(Call(FORWARD, OP, (chosen,)), x, x.new_empty(0), target, x.dtype)
