"""Transfer functions as values: frozen, hashable symbols that know how to sample themselves on a grid.

A symbol H(k) is a function of all real wavenumbers, a grid has only some. At an even grid's Nyquist wavenumber +k and
-k are the same mode, so :meth:`Transfer.sample` takes the mean of H over both signs there: the derivative of the
trigonometric interpolant with least oscillation. Odd derivatives vanish, even ones stay, a shift by d becomes cos(k d).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from spectralops._plans.grid import Grid, Symbol

__all__ = [
    "Band",
    "Butterworth",
    "Dealias",
    "Derivative",
    "Gaussian",
    "Laplacian",
    "Riesz",
    "Shift",
    "Transfer",
]

Array = np.ndarray[Any, Any]
Wavenumbers = tuple[Array, ...]

# A mode whose wavenumber equals a cutoff but for rounding lies at the cutoff.
AT_CUTOFF = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Transfer:
    """A symbol H(k_0, ..., k_{d-1}) of the angular wavenumbers."""

    # Whether H is even in every k_j: then both signs agree at the Nyquist wavenumber and nothing is averaged.
    even: ClassVar[bool] = True

    @property
    def count(self) -> int | None:
        """Number of axes that the symbol is made for, None if it fits any."""
        return None

    def factors(self, k: Wavenumbers) -> Symbol:
        """Arrays whose product is H, each as small as separability allows."""
        raise NotImplementedError

    def __call__(self, *k: Any) -> Any:
        """H at any wavenumbers, broadcast against each other; no grid, hence no Nyquist rule."""
        self.fit(len(k))
        factors = self.factors(tuple(np.asarray(each, dtype=np.float64) for each in k))
        return math.prod(factors[1:], start=factors[0])

    def fit(self, axes: int) -> None:
        """Raise ValueError unless the symbol can be taken over this number of axes."""
        if self.count is not None:
            _fit_entries(type(self).__name__.lower(), self.count, axes)

    def sample(self, grid: Grid) -> Symbol:
        """Factors of H on a grid, at its Nyquist wavenumbers the mean over both signs."""
        self.fit(len(grid.sizes))
        k = grid.wavenumbers()
        if self.even:
            return self.factors(k)
        choices = []
        for j, n in enumerate(grid.sizes):
            mirrored = grid.along(j, np.where(2 * np.abs(grid.indices()[j]) == n, -1.0, 1.0)) * k[j]
            choices.append((k[j], mirrored) if n % 2 == 0 else (k[j],))
        samples = [self.factors(signs) for signs in itertools.product(*choices)]
        return tuple(sum(same[1:], start=same[0]) / len(samples) for same in zip(*samples, strict=True))


def _magnitude2(k: Wavenumbers) -> Array:
    return sum((each**2 for each in k[1:]), start=k[0] ** 2)


def _fit_entries(name: str, entries: int, axes: int) -> None:
    if entries != axes:
        raise ValueError(f"{name}: the transfer has {entries} entries, but must have {axes}, one per transformed axis")


def _fit_axis(name: str, axis: int, axes: int) -> None:
    if not -axes <= axis < axes:
        raise ValueError(f"{name}: axis is {axis}, but must lie in [{-axes}, {axes}): it counts the transformed axes")


@dataclass(frozen=True, slots=True)
class Gaussian(Transfer):
    """exp(-a_j k_j^2), one decay a_j per axis or one for all."""

    decay: tuple[float, ...]

    @property
    def count(self) -> int | None:
        return len(self.decay) if len(self.decay) > 1 else None

    def factors(self, k: Wavenumbers) -> Symbol:
        decay = self.decay if len(self.decay) > 1 else self.decay * len(k)
        return tuple(np.exp(-a * each**2) for a, each in zip(decay, k, strict=True))


@dataclass(frozen=True, slots=True)
class Band(Transfer):
    """1 where low < |k| <= high, else 0."""

    low: float | None
    high: float | None

    def factors(self, k: Wavenumbers) -> Symbol:
        size2 = _magnitude2(k)
        keep = np.ones(size2.shape, bool)
        if self.low is not None:
            keep &= size2 > (self.low * AT_CUTOFF) ** 2
        if self.high is not None:
            keep &= size2 <= (self.high * AT_CUTOFF) ** 2
        return (keep.astype(np.float64),)


@dataclass(frozen=True, slots=True)
class Butterworth(Transfer):
    """1/sqrt(1 + (|k|/cutoff)^(2 order)), or with the ratio inverted for a high-pass."""

    order: int
    cutoff: float
    highpass: bool

    def factors(self, k: Wavenumbers) -> Symbol:
        with np.errstate(over="ignore"):
            power = np.minimum((_magnitude2(k) / self.cutoff**2) ** self.order, 1e300)  # inf/inf is no gain
        return (np.sqrt(power / (1 + power)) if self.highpass else 1 / np.sqrt(1 + power),)


@dataclass(frozen=True, slots=True)
class Derivative(Transfer):
    """(i k_j)^m_j along each axis, or (i k)^m along the one axis that `axis` counts."""

    orders: tuple[int, ...]
    axis: int | None
    even: ClassVar[bool] = False

    @property
    def count(self) -> int | None:
        return len(self.orders) if self.axis is None else None

    def fit(self, axes: int) -> None:
        if self.axis is None:
            Transfer.fit(self, axes)
        else:
            _fit_axis("derivative", self.axis, axes)

    def factors(self, k: Wavenumbers) -> Symbol:
        if self.axis is not None:
            chosen = [(self.orders[0], k[self.axis])]
        else:
            chosen = [(m, each) for m, each in zip(self.orders, k, strict=True) if m]
        if not any(m for m, _ in chosen):
            return (np.ones((1,) * k[0].ndim),)
        return tuple((-1.0 if m // 2 % 2 else 1.0) * each**m * (1j if m % 2 else 1.0) for m, each in chosen)


@dataclass(frozen=True, slots=True)
class Laplacian(Transfer):
    """sign * |k|^(2 power); a negative power leaves the mean out: H(0) = 0."""

    power: float
    sign: int

    def factors(self, k: Wavenumbers) -> Symbol:
        size2 = _magnitude2(k)
        if self.power < 0:
            zero = size2 == 0
            return (np.where(zero, 0.0, self.sign * np.where(zero, 1.0, size2) ** self.power),)
        return (self.sign * size2**self.power,)


@dataclass(frozen=True, slots=True)
class Shift(Transfer):
    """exp(-i k_j d_j), one distance per axis."""

    distance: tuple[float, ...]
    even: ClassVar[bool] = False

    @property
    def count(self) -> int | None:
        return len(self.distance) if len(self.distance) > 1 else None

    def fit(self, axes: int) -> None:
        _fit_entries("shift", len(self.distance), axes)

    def factors(self, k: Wavenumbers) -> Symbol:
        return tuple(np.exp(-1j * d * each) for d, each in zip(self.distance, k, strict=True))


@dataclass(frozen=True, slots=True)
class Riesz(Transfer):
    """-i k_j/|k|, zero at k = 0; `alone` takes |k_j| for |k|: the Hilbert transform along that axis."""

    axis: int
    alone: bool
    even: ClassVar[bool] = False

    def fit(self, axes: int) -> None:
        _fit_axis("hilbert" if self.alone else "riesz", self.axis, axes)

    def factors(self, k: Wavenumbers) -> Symbol:
        along = k[self.axis]
        if self.alone:
            return (-1j * np.sign(along),)
        size = np.sqrt(_magnitude2(k))
        return (-1j * along / np.where(size == 0, 1.0, size),)


@dataclass(frozen=True, slots=True)
class Dealias(Transfer):
    """1 where |k_j| is below a fraction of the grid's Nyquist wavenumber along every axis, else 0."""

    fraction: float

    def __call__(self, *k: Any) -> Any:
        raise TypeError(
            "dealias: called with wavenumbers, but must know the grid; pass the transfer to spectral_filter"
        )

    def sample(self, grid: Grid) -> Symbol:
        # 2|m| < fraction*n in integers: rounding must not keep one mode more where the bound is a whole number.
        exact = Fraction(self.fraction).limit_denominator(10**6)
        return tuple(
            grid.along(j, (2 * np.abs(m) * exact.denominator < exact.numerator * n).astype(np.float64))
            for j, (m, n) in enumerate(zip(grid.indices(), grid.sizes, strict=True))
        )
