"""Layers for PyTorch models: learnable filters and large kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spectralops.torch._convolution import fft_conv2d
from spectralops.torch._filter import spectral_filter

__all__ = ["FFTConv2d", "SpectralFilter"]


class SpectralFilter(nn.Module):
    """A filter with a fixed or learnable transfer function.

    y = F^-1[ H(k) F[x](k) ], see :func:`spectralops.spectral_filter`.

    Parameters
    ----------
    transfer : Tensor or callable
        The values of H, a parameter if `learnable` or if they are one; or a function of the wavenumbers such as those
        of :mod:`spectralops.transfer`, for grids of any size.
    learnable : bool
        Whether the values are a parameter: complex ones are kept real with a last axis of two, which a Parameter is
        copied to.
    spacing, pad_width, pad_mode, axes
        As for :func:`spectralops.spectral_filter`.

    Raises
    ------
    TypeError
        If a callable is to be learnt.

    References
    ----------
    .. [1] Y. Rao et al., "Global Filter Networks for Image Classification", NeurIPS (2021), eq. 5.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import SpectralFilter
    >>> layer = SpectralFilter(torch.ones(4, 3), learnable=True)
    >>> layer(torch.arange(16.0).reshape(4, 4))[0].round()
    tensor([0., 1., 2., 3.], grad_fn=<RoundBackward0>)
    """

    def __init__(
        self,
        transfer: Tensor | Callable[..., Any],
        *,
        learnable: bool = False,
        spacing: float | Sequence[float] = 1.0,
        pad_width: int | str | Sequence[int | str] = 0,
        pad_mode: str = "zero",
        axes: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {
            "spacing": spacing, "pad_width": pad_width, "pad_mode": pad_mode, "axes": axes
        }  # fmt: skip
        self.is_complex = isinstance(transfer, Tensor) and transfer.is_complex()
        self.transfer: Any = transfer
        if isinstance(transfer, Tensor):
            values = torch.view_as_real(transfer.resolve_conj()) if self.is_complex else transfer
            del self.transfer
            if isinstance(values, nn.Parameter):
                self.transfer = values
            elif learnable or isinstance(transfer, nn.Parameter):
                self.transfer = nn.Parameter(values.detach().clone())
            else:
                self.register_buffer("transfer", values)
        elif learnable:
            raise TypeError(
                f"SpectralFilter: transfer is a {type(transfer).__name__}, but must be a tensor for learnable=True"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Filter x."""
        values = torch.view_as_complex(self.transfer) if self.is_complex else self.transfer
        return spectral_filter(x, values, **self.options)


class FFTConv2d(nn.Conv2d):
    """``torch.nn.Conv2d`` whose sums run directly, by transforms or by tiles, whichever is quickest.

    y = w * x + b, see :func:`spectralops.fft_conv2d` [1]_. Parameters, initialisation and checkpoints are those of
    ``torch.nn.Conv2d``, with which a model is converted by changing the name.

    References
    ----------
    .. [1] M. Mathieu, M. Henaff, Y. LeCun, "Fast training of convolutional networks through FFTs", arXiv:1312.5851
       (2014), section 2.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import FFTConv2d
    >>> FFTConv2d(3, 8, kernel_size=15, padding="same")(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 8, 32, 32])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Convolve x."""
        padding: Any = self.padding
        return fft_conv2d(
            x, self.weight, self.bias, stride=self.stride, padding=padding, dilation=self.dilation,
            groups=self.groups, padding_mode=self.padding_mode,
        )  # fmt: skip
