"""Weights of spectral convolutions kept as factors: CP, Tucker and tensor-train decompositions.

A weight W with n axes (channels, then modes) is one of [1]_ (sections 3.1, 4.1), [2]_ (eq. 1)

    CP      W_{a b ... z} = sum_r w_r A_ar B_br ... Z_zr,
    Tucker  W_{a b ... z} = sum_{p q ... s} G_{p q ... s} A_ap B_bq ... Z_zs,
    TT      W_{a b ... z} = A_{1 a p} B_{p b q} ... Z_{s z 1} summed over the inner indices.

Names, shapes, ranks and initial values of the factors are those of tensorly-torch, which neuraloperator uses.

References
----------
.. [1] T. G. Kolda, B. W. Bader, "Tensor Decompositions and Applications", SIAM Review 51 (2009) 455.
.. [2] I. V. Oseledets, "Tensor-Train Decomposition", SIAM J. Sci. Comput. 33 (2011) 2295.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from spectralops import _checks

__all__ = ["FACTORISATIONS", "FactorisedWeight", "Mixing"]

OP = "SpectralConv"

# Start and length along each axis of a weight.
Window = Sequence[tuple[int, int]] | None


class Mixing(NamedTuple):
    """A weight as three maps: channels to few, a small weight (P, Q, modes) or (P, modes), few to channels."""

    read: Tensor
    modes: Tensor
    written: Tensor | None


class FactorisedWeight(nn.Module, ABC):
    """A complex tensor that is computed from parameters ``factors.factor_0``, ... and for some kinds one more.

    The parameters are real with a last axis of two unless `complex_parameters`.
    """

    head: str | None = None  # name of the parameter beside the factors
    row: int = 0  # axis of a factor that is an axis of the weight

    def __init__(
        self,
        shape: Sequence[int],
        rank: Any,
        std: float,
        *,
        fixed: Sequence[int] = (),
        device: torch.device | str | None = None,
        complex_parameters: bool = False,
    ) -> None:
        super().__init__()
        self.shape = tuple(shape)
        rank = 1.0 if rank == "same" else rank
        if isinstance(rank, float):
            rank = _checks.positive(OP, "rank", rank)
        self.rank = self.ranks(rank, fixed)
        spread = self.spread(std)

        def kept(values: Tensor) -> nn.Parameter:
            return nn.Parameter(values if complex_parameters else torch.view_as_real(values))

        if self.head is not None:
            self.register_parameter(self.head, kept(self.first(spread, device)))
        self.factors = nn.ParameterDict(
            {f"factor_{j}": kept(_drawn(size, spread, device)) for j, size in enumerate(self.sizes())}
        )

    @abstractmethod
    def ranks(self, rank: Any, fixed: Sequence[int]) -> tuple[int, ...]:
        """All ranks, from what is asked for: a share of the parameters of a dense weight, one number, or each."""

    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the factors."""
        return [(n, r) for n, r in zip(self.shape, self.rank, strict=True)]

    @abstractmethod
    def spread(self, std: float) -> float:
        """Standard deviation of the factors with which the tensor has that of `std`."""

    def first(self, spread: float, device: torch.device | str | None) -> Tensor:
        """Initial values of the parameter beside the factors."""
        return _drawn(self.rank, spread, device)

    def parts(self, window: Window = None) -> tuple[Any, list[Tensor]]:
        """The parameter beside the factors and the factors, complex, with the rows in a window of the weight."""
        head = None if self.head is None else _complex(getattr(self, self.head))
        factors = [_complex(factor) for factor in self.factors.values()]
        if window is not None:
            factors = [factor.narrow(self.row, *rows) for factor, rows in zip(factors, window, strict=True)]
        return head, factors

    def to_tensor(self, window: Window = None) -> Tensor:
        """The whole weight, or a window of it: a start and a length for each axis."""
        return self.product(*self.parts(window))

    @abstractmethod
    def product(self, head: Any, factors: list[Tensor]) -> Tensor:
        """The tensor that these parts make."""

    @abstractmethod
    def mixing(self, window: Window = None) -> Mixing:
        """The weight as maps of channels around a smaller weight."""

    def extra_repr(self) -> str:
        """What the weight's representation says of it."""
        return f"{self.shape}, rank={self.rank}"


class CP(FactorisedWeight):
    """A sum of outer products of vectors."""

    head = "weights"

    def ranks(self, rank: Any, fixed: Sequence[int]) -> tuple[int, ...]:
        if isinstance(rank, float):
            rank = max(round(math.prod(self.shape) * rank / sum(self.shape)), 1)
        return _whole(rank, 1)

    def sizes(self) -> list[tuple[int, ...]]:
        return [(n, *self.rank) for n in self.shape]

    def spread(self, std: float) -> float:
        return float((std / math.sqrt(self.rank[0])) ** (1 / len(self.shape)))

    def first(self, spread: float, device: torch.device | str | None) -> Tensor:
        return torch.complex(torch.ones(self.rank, device=device), torch.zeros(self.rank, device=device))

    def product(self, head: Any, factors: list[Tensor]) -> Tensor:
        return _outer([factors[0] * head, *factors[1:-1]]) @ factors[-1].mT

    def mixing(self, window: Window = None) -> Mixing:
        head, (read, written, *modes) = self.parts(window)
        return Mixing(read * head, _outer(modes).movedim(-1, 0), written)


class Tucker(FactorisedWeight):
    """A small core, multiplied by a matrix along each axis."""

    head = "core"

    def ranks(self, rank: Any, fixed: Sequence[int]) -> tuple[int, ...]:
        if not isinstance(rank, float):
            return _whole(rank, len(self.shape), {j: self.shape[j] for j in fixed})
        free = [n for j, n in enumerate(self.shape) if j not in fixed]
        dense = math.prod(self.shape)
        linear = sum(n * n for n in self.shape)
        share = _root(lambda c: dense * c ** len(free) + linear * c - rank * dense, max(rank, 1.0))
        return tuple(n if j in fixed else max(round(n * share), 1) for j, n in enumerate(self.shape))

    def spread(self, std: float) -> float:
        return float((std / math.sqrt(math.prod(self.rank))) ** (1 / (len(self.shape) + 1)))

    def product(self, head: Any, factors: list[Tensor]) -> Tensor:
        for factor in factors:  # each takes the first axis and leaves its own behind the last
            head = torch.tensordot(head, factor, dims=([0], [1]))
        return head

    def mixing(self, window: Window = None) -> Mixing:
        head, (read, written, *modes) = self.parts(window)
        return Mixing(read, self.product(head.movedim((0, 1), (-2, -1)), modes), written)


class TT(FactorisedWeight):
    """A chain of factors with three axes."""

    row = 1

    def ranks(self, rank: Any, fixed: Sequence[int]) -> tuple[int, ...]:
        inner = len(self.shape) - 1
        if not isinstance(rank, float):
            if isinstance(rank, int):
                rank = [1, *[rank] * inner, 1]
            ranks = _whole(rank, inner + 2)
            if ranks[0] != 1 or ranks[-1] != 1:
                raise ValueError(f"{OP}: rank is {ranks}, but must begin and end with 1 for a TT weight")
            return ranks
        means = [(a + b) / 2 for a, b in pairwise(self.shape)]
        square = sum(a * n * b for (a, b), n in zip(pairwise(means), self.shape[1:-1], strict=True))
        if inner == 1:
            square = means[0] ** 2 * self.shape[0]
        linear = self.shape[0] * means[0] + self.shape[-1] * means[-1]
        share = (math.sqrt(linear**2 + 4 * square * rank * math.prod(self.shape)) - linear) / (2 * square)
        return (1, *(max(round(mean * share), 1) for mean in means), 1)

    def sizes(self) -> list[tuple[int, ...]]:
        return [(a, n, b) for (a, b), n in zip(pairwise(self.rank), self.shape, strict=True)]

    def spread(self, std: float) -> float:
        return float((std / math.sqrt(math.prod(self.rank))) ** (1 / len(self.shape)))

    def product(self, head: Any, factors: list[Tensor]) -> Tensor:
        return _chain(factors)[0]

    def mixing(self, window: Window = None) -> Mixing:
        _, (read, *factors) = self.parts(window)
        return Mixing(read[0], _chain(factors), None)


FACTORISATIONS: dict[str, type[FactorisedWeight]] = {"cp": CP, "tucker": Tucker, "tt": TT}


def _drawn(size: Sequence[int], spread: float, device: torch.device | str | None) -> Tensor:
    """Complex normal numbers."""
    return torch.view_as_complex(torch.randn(*size, 2, device=device) * (spread / math.sqrt(2)))


def _complex(values: Tensor) -> Tensor:
    if values.is_complex():
        return values
    # There is no complex arithmetic in 16 bits.
    return torch.view_as_complex(values.to(torch.promote_types(values.dtype, torch.float32)).contiguous())


def _outer(factors: Sequence[Tensor]) -> Tensor:
    """Products of the rows of matrices that share their columns: (n_1, n_2, ..., R)."""
    product = factors[0]
    for factor in factors[1:]:
        product = product[..., None, :] * factor
    return product


def _chain(factors: Sequence[Tensor]) -> Tensor:
    """Factors of a train one after another, without the last inner index, which is 1."""
    product = factors[0]
    for factor in factors[1:]:
        product = torch.tensordot(product, factor, dims=1)
    return product[..., 0]


def _root(function: Callable[[float], float], high: float) -> float:
    """Where an increasing function is zero between 0 and `high`, to the last bit."""
    low = 0.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


def _whole(rank: Any, count: int, fixed: dict[int, int] | None = None) -> tuple[int, ...]:
    """Ranks as whole numbers, one for all or one for each."""
    values = _checks.per_axis(OP, "rank", rank, count)
    return tuple((fixed or {}).get(j, _checks.integer(OP, "rank", value, 1)) for j, value in enumerate(values))
