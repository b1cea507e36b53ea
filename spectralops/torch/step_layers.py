"""Time steps as layers of PyTorch models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spectralops.torch._steps import diffuse_convect_step, diffusion_step

__all__ = ["DiffuseConvectStep", "DiffusionStep"]


class DiffusionStep(nn.Module):
    """Steps of u_t = div(nu grad u) + source as a layer, see :func:`spectralops.torch.diffusion_step`.

    Parameters
    ----------
    dx, dt
        Cell size and time step.
    nu : float or Tensor
        Diffusivity; a Parameter is the layer's own, any other tensor a parameter if `learnable`, else a buffer.
    learnable : bool
        Whether the diffusivity is a parameter, which nothing keeps positive.
    **options
        As for :func:`spectralops.torch.diffusion_step`.

    References
    ----------
    .. [1] R. J. LeVeque, "Finite Difference Methods for Ordinary and Partial Differential Equations", SIAM (2007),
       eq. 9.5.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import DiffusionStep
    >>> layer = DiffusionStep(1.0, 0.25, 1.0, learnable=True, steps=2)
    >>> layer(torch.tensor([0.0, 16.0, 0.0, 0.0])).tolist(), list(layer.state_dict())
    ([4.0, 6.0, 4.0, 2.0], ['nu'])
    """

    def __init__(self, dx: Any, dt: float, nu: Any, *, learnable: bool = False, **options: Any) -> None:
        super().__init__()
        self.dx, self.dt, self.options = dx, dt, options
        _coefficient(self, "nu", nu, learnable)

    def forward(self, u: Tensor) -> Tensor:
        """Advance u."""
        return diffusion_step(u, self.dx, self.dt, self.nu, **self.options)


class DiffuseConvectStep(nn.Module):
    """Steps of advection and diffusion, or of Burgers' equation, as a layer.

    u_t + v . grad u = div(nu grad u) + source, see :func:`spectralops.torch.diffuse_convect_step`.

    Parameters
    ----------
    dx, dt
        Cell size and time step.
    nu : float or Tensor
        Diffusivity; a Parameter is the layer's own, any other tensor a parameter if `learnable`, else a buffer.
    learnable : bool
        Whether the diffusivity is a parameter, which nothing keeps positive.
    **options
        As for :func:`spectralops.torch.diffuse_convect_step`; the velocity may also be given with each call.

    References
    ----------
    .. [1] A. C. Hindmarsh, P. M. Gresho, D. F. Griffiths, Int. J. Numer. Methods Fluids 4 (1984) 853.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import DiffuseConvectStep
    >>> layer = DiffuseConvectStep(1.0, 0.25, 1.0)
    >>> layer(torch.tensor([0.0, 4.0, 0.0, 0.0]), velocity=torch.full((4,), 2.0)).tolist()
    [0.0, 2.0, 2.0, 0.0]
    """

    def __init__(self, dx: Any, dt: float, nu: Any, *, learnable: bool = False, **options: Any) -> None:
        super().__init__()
        self.dx, self.dt, self.options = dx, dt, options
        _coefficient(self, "nu", nu, learnable)

    def forward(self, u: Tensor, velocity: Any = None) -> Tensor:
        """Advance u, carried by the velocity."""
        options = self.options if velocity is None else self.options | {"velocity": velocity}
        return diffuse_convect_step(u, self.dx, self.dt, self.nu, **options)


def _coefficient(layer: nn.Module, name: str, value: Any, learnable: bool) -> None:
    if isinstance(value, nn.Parameter):
        setattr(layer, name, value)
    elif learnable:
        value = value if isinstance(value, Tensor) else torch.tensor(float(value))
        setattr(layer, name, nn.Parameter(value.clone()))
    elif isinstance(value, Tensor):
        layer.register_buffer(name, value)
    else:
        setattr(layer, name, value)
