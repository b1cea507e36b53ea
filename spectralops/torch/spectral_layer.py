"""The spectral convolution of Fourier neural operators as a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spectralops import _checks
from spectralops._bilinear import FORWARD
from spectralops.errors import UnsupportedError
from spectralops.torch._bilinear import Call
from spectralops.torch._checkpoints import adapted
from spectralops.torch._factorised import FACTORISATIONS
from spectralops.torch._resample import fourier_resample
from spectralops.torch._spectral_conv import spectral_conv
from spectralops.torch._spectrum import convolved, mixed, places, upstream_places, upstream_resampled
from spectralops.torch._tensors import precision

__all__ = ["SpectralConv", "check_field"]

NORMS = ("forward", "backward", "ortho")
PRECISIONS = ("full", "half", "mixed")
IMPLEMENTATIONS = ("reconstructed", "factorized")
DENSE = ("dense", "complexdense")
KINDS = (*DENSE, *FACTORISATIONS, *(f"complex{kind}" for kind in FACTORISATIONS))


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
    rank : float, int, sequence of int, or "same"
        Of a factorised weight: a float is its share of the parameters of a dense one, integers are the ranks.
    factorization : {None, "Dense", "CP", "Tucker", "TT"}
        Whether the weight is kept as factors, in a canonical polyadic, Tucker or tensor-train decomposition [2]_.
    implementation : {"reconstructed", "factorized"}
        Whether factors are multiplied out to a weight, which is then applied fused; or applied one by one to the modes
        of whole transforms. The results are the same. Separable weights are always multiplied out.
    fixed_rank_modes : bool or sequence of int
        Axes of a Tucker weight, channels first, that keep their length as rank; True is the first.
    decomposition_kwargs : dict, optional
        Must be empty: no tensor is decomposed. It is here because neuraloperator passes it.
    init_std : float or "auto"
        Standard deviation of the weights; "auto" is sqrt(2 / (in_channels + out_channels)).
    fft_norm : {"forward", "backward", "ortho"}
        Normalisation of the transforms, which matters only where the result has another size than x.
    device : torch.device, optional
        Where the parameters lie.
    complex_parameters : bool
        Whether the weight is a complex parameter. By default it is real with a last axis of real and imaginary parts:
        fused optimisers, gradient scalers and sharding take no complex ones. So are factors.
    upstream_quirks : bool
        Whether to compute what neuraloperator 2.0.0 computes where that moves modes to other wavenumbers, for models
        trained with it: see the notes. There the layer runs on whole transforms.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind; from a call, if x is complex and `complex_data` is False.
    ValueError
        If a size is not positive, an option has no such value, or `separable` goes with different channels.
    UnsupportedError
        If `decomposition_kwargs` is not empty, or complex data are to be stored in 16 bits.

    Notes
    -----
    Fewer modes than the weight has take its middle on full axes and its beginning on the halved one; so do grids too
    small for them. Checkpoints of neuraloperator (``weight.tensor``, ``weight.factors.factor_0``, ...) and of the
    original layers (``weights1``, ... ``weights4``) load as they are. With one seed the layer starts from the weights
    that neuraloperator's starts from, up to their last digits, except for tensor trains, which start there with less
    than `init_std`.

    Every mode keeps its wavenumber. In neuraloperator 2.0.0 modes move, which `upstream_quirks` reproduces:

    - With `resolution_scaling_factor` or `output_shape` and two or more axes, the spectrum is cut or padded in array
      order, so that negative wavenumbers of all axes but the last become others. (`transform` interpolates by bicubic
      splines there, and linearly in one dimension.)
    - With `complex_data` the last axis has the wavenumbers from -(n//2) up, which become those from zero up; a single
      axis has those from zero up only (neuraloperator's issue 731).
    - On axes of odd length, the last one excepted, every wavenumber becomes the one below. Later versions do not do so.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR (2021), eq. 4-5.
    .. [2] J. Kossaifi et al., "Multi-Grid Tensorized Fourier Neural Operator for High-Resolution PDEs", TMLR (2024),
       section 4.

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
        rank: float | int | str | Sequence[int] = 0.5,
        factorization: str | None = None,
        implementation: str = "reconstructed",
        fixed_rank_modes: bool | Sequence[int] = False,
        decomposition_kwargs: dict[str, Any] | None = None,
        init_std: float | str = "auto",
        fft_norm: str = "forward",
        device: torch.device | str | None = None,
        complex_parameters: bool = False,
        upstream_quirks: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_channels, self.out_channels = _positive(name, in_channels=in_channels, out_channels=out_channels)
        self.factorization = factorization
        kind = "dense" if factorization is None else str(factorization).lower()
        kind = _checks.choice(name, "factorization", kind, KINDS)
        if separable and in_channels != out_channels:
            raise ValueError(
                f"{name}: out_channels is {out_channels}, but must be {in_channels} as in_channels for separable=True"
            )
        if decomposition_kwargs:
            raise UnsupportedError(
                f"{name}: decomposition_kwargs is {_checks.shown(decomposition_kwargs)}, but must be empty: "
                "the weight is not found by decomposing a tensor"
            )
        self.complex_data, self.separable, self.complex_parameters = complex_data, separable, complex_parameters
        self.upstream_quirks = _checks.flag(name, "upstream_quirks", upstream_quirks)
        self.fft_norm = _checks.choice(name, "fft_norm", fft_norm, NORMS)
        self.fno_block_precision = _checks.choice(name, "fno_block_precision", fno_block_precision, PRECISIONS)
        self.implementation = _checks.choice(name, "implementation", implementation, IMPLEMENTATIONS)
        if complex_data and fno_block_precision != "full":
            raise UnsupportedError(
                f"{name}: fno_block_precision is {fno_block_precision!r}, but must be 'full' for complex data"
            )
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
        std = math.sqrt(2 / (in_channels + out_channels)) if isinstance(init_std, str) else init_std
        self._channels = (in_channels,) if separable else (in_channels, out_channels)
        shape = (*self._channels, *modes)
        if kind in DENSE:
            weight = torch.randn(*shape, 2, device=device) * (std / math.sqrt(2))
            self.weight: Any = nn.Parameter(torch.view_as_complex(weight) if complex_parameters else weight)
        else:
            fixed = (0,) * fixed_rank_modes if isinstance(fixed_rank_modes, bool) else tuple(fixed_rank_modes)
            self.weight = FACTORISATIONS[kind.removeprefix("complex")](
                shape, rank, std, fixed=fixed, device=device, complex_parameters=complex_parameters
            )
        self.bias = nn.Parameter(std * torch.randn(out_channels, *(1,) * self.order, device=device)) if bias else None
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

    def _kept(self, room: Sequence[int]) -> list[int]:
        """How many modes there are along each axis of a grid, or spectrum, with so many."""
        return [min(sizes) for sizes in zip(room, self.n_modes, self.max_n_modes, strict=True)]

    def _window(self, kept: Sequence[int]) -> list[tuple[int, int]]:
        """Start and length of the part of the weight that has so many modes."""
        window = [(0, n) for n in self._channels]
        for j, (m, most) in enumerate(zip(kept, self.max_n_modes, strict=True)):
            half = not self.complex_data and j == self.order - 1
            window.append((0 if half else (most - m) // 2, m))
        return window

    def _values(self, window: Sequence[tuple[int, int]]) -> Tensor:
        """The weight in a window, complex or as a parameter keeps it."""
        if not isinstance(self.weight, Tensor):
            return self.weight.to_tensor(window)
        weight = self.weight
        for axis, (start, count) in enumerate(window):
            if count != weight.shape[axis]:  # the gradient of a part is a copy of the whole
                weight = weight.narrow(axis, start, count)
        return weight

    def forward(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """Convolve x (N, C_in, ...), the result on a grid of `output_shape` if given."""
        y = self.unbiased(x, output_shape)
        return y if self.bias is None else y + self.bias

    def unbiased(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """Convolve x without adding the bias."""
        check_field(type(self).__name__, x, self.order)
        if x.is_complex() and not self.complex_data:
            raise TypeError(f"{type(self).__name__}: x is {x.dtype}, but must be real for a layer of real data")
        sizes, target = list(x.shape[-self.order :]), self._target(x, output_shape)
        if self.fno_block_precision != "full":
            x = x.half()
        elif self.complex_data:
            x = x.to(precision(x.dtype)[1])
        moved = self.upstream_quirks and (self.complex_data or sizes != target or any(n % 2 for n in sizes[:-1]))
        room = sizes if moved else [min(pair) for pair in zip(sizes, target, strict=True)]
        if not self.complex_data:
            room = [*room[:-1], room[-1] // 2 + 1]
        kept = self._kept(room)
        window = self._window(kept)
        by_factors = self.implementation == "factorized" and not isinstance(self.weight, Tensor) and not self.separable
        if moved or by_factors:
            halved = not self.complex_data
            at = upstream_places(kept, sizes, halved) if moved else places(kept, sizes, target, halved)
            weight = self.weight.mixing(window) if by_factors else self._values(window)
            y = convolved(x, at, lambda modes: mixed(modes, weight, self.separable), sizes if moved else target, target)
        else:
            axes = tuple(range(-self.order, 0))
            y = spectral_conv(x, self._values(window), depthwise=self.separable, out_shape=target, axes=axes)
        if sizes != target and self.fft_norm != "forward":
            ratio = math.prod(sizes) / math.prod(target)
            y = y * (ratio if self.fft_norm == "backward" else math.sqrt(ratio))
        return y

    def call(self, x: Tensor) -> tuple[Call, Tensor] | None:
        """The layer on the grid of x without its bias, as its operator's call and weight; None where it is more."""
        more = self.complex_data or self.upstream_quirks or self.resolution_scaling_factor is not None
        if more or self.fno_block_precision != "full" or not isinstance(self.weight, Tensor) or x.is_complex():
            return None
        sizes = x.shape[-self.order :]
        values = self._values(self._window(self._kept([*sizes[:-1], sizes[-1] // 2 + 1])))
        return Call(FORWARD, "spectral_conv", (self.separable, tuple(range(-self.order, 0)))), values

    def transform(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """Bring x to the grid of the layer's result, for skip connections: by band-limited interpolation."""
        target = self._target(x, output_shape)
        if list(x.shape[-self.order :]) == target:
            return x
        if self.upstream_quirks and not x.is_complex():
            return upstream_resampled(x, target)
        return fourier_resample(x, target, axes=tuple(range(-self.order, 0)))

    def extra_repr(self) -> str:
        """What the layer's representation says of it."""
        modes = ", ".join(map(str, self.n_modes))
        return f"{self.in_channels}, {self.out_channels}, modes=({modes})"


def check_field(op: str, x: Any, order: int) -> None:
    """Raise TypeError or ValueError unless x is a tensor with channels and so many axes."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}: x is a {type(x).__name__}, but must be a torch.Tensor")
    if x.ndim <= order:
        raise ValueError(f"{op}: x has {x.ndim} dimensions, but must have {order + 2}: (N, C, ...) with {order} axes")


def _listed(op: str, name: str, value: int | Sequence[int]) -> list[int]:
    items = [value] if isinstance(value, int) else list(value)
    return list(_positive(op, **{f"{name}[{j}]": item for j, item in enumerate(items)}))


def _positive(op: str, **sizes: int) -> tuple[int, ...]:
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{op}: {name} is {value!r}, but must be a positive integer")
    return tuple(sizes.values())
