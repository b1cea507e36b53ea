"""Fourier neural operators made of this package's layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectralops.torch._channels import Pointwise, covered
from spectralops.torch.spectral_layer import SpectralConv, check_field

__all__ = ["FNO", "FNOBlock"]


class FNOBlock(nn.Module):
    r"""One layer of a Fourier neural operator: :math:`\sigma(K v + W v)` with a spectral convolution K [1]_ (eq. 2).

    Parameters
    ----------
    channels : int
        Number of channels of v.
    n_modes : int or sequence of int
        Modes that K keeps, as in :class:`SpectralConv`.
    activation : callable or None
        :math:`\sigma`.
    **options
        Of :class:`SpectralConv`.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021).

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import FNOBlock
    >>> FNOBlock(4, (8, 8))(torch.zeros(1, 4, 16, 16)).shape
    torch.Size([1, 4, 16, 16])
    """

    def __init__(
        self,
        channels: int,
        n_modes: int | Sequence[int],
        *,
        activation: Callable[[Tensor], Tensor] | None = functional.gelu,
        **options: Any,
    ) -> None:
        super().__init__()
        self.convolution = SpectralConv(channels, channels, n_modes, **options)
        self.skip = Pointwise(channels, channels)
        self.activation = activation

    def forward(self, v: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """Apply the block, the result on a grid of `output_shape` if given."""
        convolution, skip, active = self.convolution, self.skip[0], self.activation is functional.gelu
        check_field(type(self).__name__, v, convolution.order)
        beside = convolution.call(v) if output_shape is None and covered(v, skip.weight) else None
        if beside is not None:
            y = skip(v, None, convolution.bias, active, beside)
        else:
            onto = convolution.unbiased(v, output_shape)
            y = skip(convolution.transform(v, output_shape), onto, convolution.bias, active)
        return y if active or self.activation is None else self.activation(y)


class FNO(nn.Module):
    """Fourier neural operator: lifting, blocks of spectral convolutions, projection [1]_ (section 4, figure 2).

    Parameters
    ----------
    n_modes : int or sequence of int
        Modes kept along each axis, as in :class:`SpectralConv`; their number is that of the axes.
    in_channels, out_channels : int
        Of the input and of the result.
    hidden_channels : int
        Of the blocks.
    n_layers : int
        Number of blocks; the last has no activation.
    lifting_channels, projection_channels : int, optional
        Width of the hidden layer of the lifting and the projection; by default twice `hidden_channels`.
    positional : bool
        Whether the coordinates of the points, from 0 to 1, are channels of the input too.
    **options
        Of :class:`SpectralConv`.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021).

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import FNO
    >>> model = FNO((8, 8), in_channels=1, out_channels=1, hidden_channels=8)
    >>> model(torch.zeros(2, 1, 16, 16)).shape, model(torch.zeros(2, 1, 33, 33)).shape
    (torch.Size([2, 1, 16, 16]), torch.Size([2, 1, 33, 33]))
    """

    def __init__(
        self,
        n_modes: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        n_layers: int = 4,
        *,
        lifting_channels: int | None = None,
        projection_channels: int | None = None,
        positional: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self.order = 1 if isinstance(n_modes, int) else len(n_modes)
        self.in_channels, self.positional = in_channels, positional
        wide = 2 * hidden_channels
        self.lifting = Pointwise(
            in_channels + (self.order if positional else 0), lifting_channels or wide, hidden_channels
        )
        last = n_layers - 1
        self.blocks = nn.ModuleList(
            FNOBlock(hidden_channels, n_modes, activation=None if j == last else functional.gelu, **options)
            for j in range(n_layers)
        )
        self.projection = Pointwise(hidden_channels, projection_channels or wide, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (N, in_channels, ...) to (N, out_channels, ...) on the same grid."""
        check_field(type(self).__name__, x, self.order)
        if x.ndim != self.order + 2 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(x.shape)}, but must have {self.order + 2} dimensions "
                f"(N, {self.in_channels}, ...)"
            )
        if self.positional:
            x = torch.cat([x, *_coordinates(x, self.order)], 1)
        v = self.lifting(x)
        for block in self.blocks:
            v = block(v)
        projected: Tensor = self.projection(v)
        return projected


def _coordinates(x: Tensor, order: int) -> list[Tensor]:
    """One channel for each axis: the place of the points between 0 and 1."""
    channels = []
    for axis in range(-order, 0):
        line = torch.linspace(0, 1, x.shape[axis], dtype=x.dtype, device=x.device)
        shape = [1] * x.ndim
        shape[axis] = -1
        channels.append(line.reshape(shape).expand(x.shape[0], 1, *x.shape[2:]))
    return channels
