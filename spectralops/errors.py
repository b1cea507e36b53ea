"""Exceptions and warnings of spectralops.

Every message has one form: ``function: argument is X, but must be Y; remedy``. Wrong kinds (library, dtype,
device) raise :class:`TypeError`, wrong values and shapes :class:`ValueError`; the classes below cover the rest.
"""

from __future__ import annotations

__all__ = [
    "BackendUnavailableError",
    "DivergedError",
    "MismatchError",
    "StabilityError",
    "StabilityWarning",
    "UnsupportedError",
]


class UnsupportedError(NotImplementedError):
    """A meaningful request that the chosen backend (or any) does not serve."""


class BackendUnavailableError(ImportError):
    """A backend whose array library is not installed, or that this machine cannot run."""


class StabilityError(ValueError):
    """An explicit time step beyond the stability bound of its scheme.

    Attributes
    ----------
    stable_dt : float or None
        Largest stable time step for the same coefficients; None where no positive step is stable.
    """

    def __init__(self, message: str, stable_dt: float | None = None) -> None:
        super().__init__(message)
        self.stable_dt = stable_dt

    def __reduce__(self) -> tuple[type, tuple[str, float | None]]:
        return type(self), (str(self), self.stable_dt)


class StabilityWarning(UserWarning):
    """An explicit time step beyond the stability bound of its scheme, accepted by ``on_unstable='warn'``."""


class DivergedError(ArithmeticError):
    """A time loop that produced NaN or infinity.

    Attributes
    ----------
    step : int
        Number of the first step whose result is not finite.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self), self.step)


class MismatchError(AssertionError):
    """An executor that disagrees with the reference, found inside :func:`spectralops.debug`."""
