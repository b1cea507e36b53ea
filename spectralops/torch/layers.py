"""Layers for PyTorch models: spectral convolution as in Fourier neural operators, learnable filters, large kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spectralops import _checks
from spectralops.errors import UnsupportedError
from spectralops.torch._checkpoints import adapted
from spectralops.torch._convolution import fft_conv2d
from spectralops.torch._filter import spectral_filter
from spectralops.torch._resample import fourier_resample
from spectralops.torch._spectral_conv import spectral_conv

__all__ = ["FFTConv2d", "SpectralConv", "SpectralFilter"]

NORMS = ("forward", "backward", "ortho")
PRECISIONS = ("full", "half", "mixed")


class SpectralConv(nn.Module):
    r"""Spectral convolution of a Fourier neural operator, a drop-in for neuraloperator's layer of this name.

    y = F^-1[ W(k) P F[x](k) ] + b with a matrix W(k) of channels for each of the lowest modes k [1]_.

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels.
    n_modes : int or sequence of int
        Modes kept along each axis. On a full axis these are the wavenumbers -(m//2), ..., m//2 + m%2 - 1; on the last
        axis of real data m counts both signs, so that 0, ..., m//2 are kept. May be set to fewer later.
    complex_data : bool
        Whether the data are complex: then every axis is a full one.
    max_n_modes : int or sequence of int, optional
        Modes that the weight has, along the last axis of real data those from zero on. By default those of `n_modes`.
    bias : bool
        Whether a constant is added to each output channel.
    separable : bool
        One weight per channel, no mixing.
    resolution_scaling_factor : float or sequence of float, optional
        Size of the result relative to that of x.
    fno_block_precision : {"full", "half", "mixed"}
        "half" and "mixed" store the result in float16, computed in float32.
    rank, factorization, implementation, fixed_rank_modes, decomposition_kwargs
        Of a factorised weight; only the dense one (``factorization=None`` or "Dense") is supported.
    init_std : float or "auto"
        Standard deviation of the weights; "auto" is sqrt(2 / (in_channels + out_channels)).
    fft_norm : {"forward", "backward", "ortho"}
        Normalisation of the transforms, which matters only where the result has another size than x.
    device : torch.device, optional
        Where the parameters lie.
    complex_parameters : bool
        Whether the weight is a complex parameter. By default it is real with a last axis of real and imaginary parts:
        fused optimisers, gradient scalers and sharding take no complex ones.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size is not positive, an option has no such value, or `separable` goes with different channels.
    UnsupportedError
        If a factorised weight is asked for.

    Notes
    -----
    Fewer modes than the weight has take its middle on full axes and its beginning on the halved one; so do grids too
    small for them. Checkpoints of neuraloperator (``weight.tensor``) and of the original layers (``weights1``, ...
    ``weights4``) load as they are.

    With `resolution_scaling_factor` or `output_shape` every mode keeps its wavenumber. neuraloperator 2.0.0 pads the
    spectrum in array order there, which moves negative wavenumbers of all axes but the last to others.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021), eq. 4-5.

    Examples
    --------
    >>> import torch
    >>> from spectralops.torch import SpectralConv
    >>> layer = SpectralConv(3, 5, n_modes=(8, 8))
    >>> layer(torch.zeros(2, 3, 16, 16)).shape, layer.weight.shape
    (torch.Size([2, 5, 16, 16]), torch.Size([3, 5, 8, 5, 2]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        n_modes: int | Sequence[int],
        complex_data: bool = False,
        max_n_modes: int | Sequence[int] | None = None,
        bias: bool = True,
        separable: bool = False,
        resolution_scaling_factor: float | Sequence[float] | None = None,
        fno_block_precision: str = "full",
        rank: float = 0.5,
        factorization: str | None = None,
        implementation: str = "reconstructed",
        fixed_rank_modes: bool = False,
        decomposition_kwargs: dict[str, Any] | None = None,
        init_std: float | str = "auto",
        fft_norm: str = "forward",
        device: torch.device | str | None = None,
        complex_parameters: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_channels, self.out_channels = _positive(name, in_channels=in_channels, out_channels=out_channels)
        if factorization not in (None, "Dense", "dense", "ComplexDense"):
            raise UnsupportedError(
                f"{name}: factorization is {factorization!r}, but must be None: only a dense weight is supported"
            )
        if separable and in_channels != out_channels:
            raise ValueError(
                f"{name}: out_channels is {out_channels}, but must be {in_channels} as in_channels for separable=True"
            )
        self.complex_data, self.separable, self.complex_parameters = complex_data, separable, complex_parameters
        self.fft_norm = _checks.choice(name, "fft_norm", fft_norm, NORMS)
        self.fno_block_precision = _checks.choice(name, "fno_block_precision", fno_block_precision, PRECISIONS)
        self.n_modes = n_modes
        self.order = len(self.n_modes)
        modes = self.n_modes if max_n_modes is None else _listed(name, "max_n_modes", max_n_modes)
        if len(modes) != self.order:
            raise ValueError(f"{name}: max_n_modes has {len(modes)} entries, but must have {self.order} as n_modes has")
        self.max_n_modes = modes
        scaling = resolution_scaling_factor
        self.resolution_scaling_factor = (
            None if scaling is None else _checks.per_axis(name, "resolution_scaling_factor", scaling, self.order)
        )
        spread = math.sqrt(2 / (in_channels + out_channels)) if isinstance(init_std, str) else init_std
        channels = (in_channels,) if separable else (in_channels, out_channels)
        weight = torch.randn(*channels, *modes, 2, device=device) * (spread / math.sqrt(2))
        self.weight = nn.Parameter(torch.view_as_complex(weight) if complex_parameters else weight)
        self.bias = (
            nn.Parameter(spread * torch.randn(out_channels, *(1,) * self.order, device=device)) if bias else None
        )
        self._register_load_state_dict_pre_hook(self._adapt)

    @property
    def n_modes(self) -> list[int]:
        """Modes kept along each axis; along the last one of real data those from zero on."""
        return self._n_modes

    @n_modes.setter
    def n_modes(self, value: int | Sequence[int]) -> None:
        modes = _listed(type(self).__name__, "n_modes", value)
        if not self.complex_data:
            modes[-1] = modes[-1] // 2 + 1
        self._n_modes = modes

    def _adapt(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        adapted(state, prefix, tuple(self.max_n_modes), self.complex_parameters)

    def _target(self, x: Tensor, output_shape: Sequence[int] | None) -> list[int]:
        sizes = list(x.shape[-self.order :])
        if output_shape is not None:
            return list(output_shape)
        if self.resolution_scaling_factor is None:
            return sizes
        return [round(n * r) for n, r in zip(sizes, self.resolution_scaling_factor, strict=True)]

    def forward(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """Convolve x (N, C_in, ...), the result on a grid of `output_shape` if given."""
        sizes, target = list(x.shape[-self.order :]), self._target(x, output_shape)
        weight, leading = self.weight, 1 if self.separable else 2
        for j, (n, m, most) in enumerate(zip(sizes, self.n_modes, self.max_n_modes, strict=True)):
            half = not self.complex_data and j == self.order - 1
            room = min(n, target[j])
            kept = min(room // 2 + 1 if half else room, m, most)
            if kept < most:
                weight = weight.narrow(leading + j, 0 if half else (most - kept) // 2, kept)
        if self.fno_block_precision != "full":
            x = x.half()
        y = spectral_conv(x, weight, depthwise=self.separable, out_shape=target, axes=tuple(range(-self.order, 0)))
        if sizes != target and self.fft_norm != "forward":
            ratio = math.prod(sizes) / math.prod(target)
            y = y * (ratio if self.fft_norm == "backward" else math.sqrt(ratio))
        return y if self.bias is None else y + self.bias

    def transform(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """Bring x to the grid of the layer's result, for skip connections: by band-limited interpolation."""
        target = self._target(x, output_shape)
        if list(x.shape[-self.order :]) == target:
            return x
        return fourier_resample(x, target, axes=tuple(range(-self.order, 0)))

    def extra_repr(self) -> str:
        """What the layer's representation says of it."""
        modes = ", ".join(map(str, self.n_modes))
        return f"{self.in_channels}, {self.out_channels}, modes=({modes})"


class SpectralFilter(nn.Module):
    """A filter with a fixed or learnable transfer function.

    y = F^-1[ H(k) F[x](k) ], see :func:`spectralops.spectral_filter`.

    Parameters
    ----------
    transfer : Tensor or callable
        The values of H, a parameter if `learnable`; or a function of the wavenumbers such as those of
        :mod:`spectralops.transfer`, for grids of any size.
    learnable : bool
        Whether the values are a parameter: complex ones are kept real with a last axis of two.
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
            if learnable:
                self.transfer = nn.Parameter(values.clone())
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


def _listed(op: str, name: str, value: int | Sequence[int]) -> list[int]:
    items = [value] if isinstance(value, int) else list(value)
    return list(_positive(op, **{f"{name}[{j}]": item for j, item in enumerate(items)}))


def _positive(op: str, **sizes: int) -> tuple[int, ...]:
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{op}: {name} is {value!r}, but must be a positive integer")
    return tuple(sizes.values())
