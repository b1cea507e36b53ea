"""The terms of a partial differential equation u_t = …, as the public values that :func:`spectralops.pde_step` takes.

A coefficient is a number or an array. While a step is planned, arrays are replaced by :class:`Field`, so that the
same classes, then hashable, also serve inside plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from spectralops import _checks

__all__ = ["Advection", "Diffusion", "Pointwise", "SelfAdvection", "Source"]

SCHEMES = ("central", "upwind", "upwind3", "weno5")
FORMS = ("advective", "flux")


@dataclass(frozen=True, slots=True)
class Field:
    """An array coefficient inside a plan: its place among the plan's operands."""

    operand: int


@dataclass(frozen=True, slots=True)
class Diffusion:
    r"""The term :math:`\nabla\cdot(\nu \nabla u)`, second order in space.

    Parameters
    ----------
    nu : float or array
        Diffusivity [length² / time], not negative. An array broadcasts against u; one that varies along a stepped
        axis is averaged arithmetically onto the faces between cells.

    Examples
    --------
    >>> import spectralops as so
    >>> so.pde_step([0.0, 0.0, 4.0], 1.0, 0.25, so.Diffusion(1.0))
    array([1., 1., 2.])
    """

    nu: Any


@dataclass(frozen=True, slots=True)
class Advection:
    r"""The term :math:`-v\cdot\nabla u` (``form="advective"``) or :math:`-\nabla\cdot(v u)` (``form="flux"``).

    Parameters
    ----------
    velocity : float, array, or sequence of them
        Cell-centred velocity [length / time], one component per stepped axis in the order of `axes`; a bare value
        only with a single axis. Arrays broadcast against u.
    scheme : {"upwind", "central", "upwind3", "weno5"}
        First-order upwind, second-order central, third-order upwind-biased, or fifth-order WENO.
    form : {"advective", "flux"}
        The conservative flux form takes the arithmetic mean of the velocity on the faces between cells.

    Raises
    ------
    TypeError
        If the scheme or form is not a string.
    ValueError
        If it is none of these.

    Examples
    --------
    >>> import spectralops as so
    >>> so.pde_step([0.0, 0.0, 4.0], 1.0, 0.5, so.Advection(1.0))
    array([2., 0., 2.])
    """

    velocity: Any
    scheme: str = "upwind"
    form: str = "advective"

    def __post_init__(self) -> None:
        _checks.choice("Advection", "scheme", self.scheme, SCHEMES)
        _checks.choice("Advection", "form", self.form, FORMS)


@dataclass(frozen=True, slots=True)
class SelfAdvection:
    r"""The term :math:`-u \sum_a \partial_a u`, or :math:`-\sum_a \partial_a (u^2/2)` in flux form: Burgers.

    Parameters
    ----------
    scheme : {"upwind", "central", "upwind3", "weno5"}
        As for :class:`Advection`; the sign of u chooses the upwind side.
    form : {"advective", "flux"}
        The conservative flux form (Engquist–Osher) moves shocks at the right speed.

    Raises
    ------
    TypeError
        If the scheme or form is not a string.
    ValueError
        If it is none of these.

    Examples
    --------
    >>> import spectralops as so
    >>> so.pde_step([1.0, 1.0, 2.0], 1.0, 0.25, so.SelfAdvection())
    array([1.25, 1.  , 1.5 ])
    """

    scheme: str = "upwind"
    form: str = "advective"

    def __post_init__(self) -> None:
        _checks.choice("SelfAdvection", "scheme", self.scheme, SCHEMES)
        _checks.choice("SelfAdvection", "form", self.form, FORMS)


@dataclass(frozen=True, slots=True)
class Source:
    """A term that does not depend on u.

    Parameters
    ----------
    rate : float or array
        What is added to u_t [units of u / time]; an array broadcasts against u.

    Examples
    --------
    >>> import spectralops as so
    >>> so.pde_step([0.0, 1.0], 1.0, 0.5, so.Source(2.0))
    array([1., 2.])
    """

    rate: Any


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A term f(u) that is computed cell by cell, such as a reaction.

    Parameters
    ----------
    function : callable
        Called with the field as a read-only NumPy array (CuPy on a GPU) of float32 or float64; returns an array of
        that shape, or a number: what is added to u_t. It must not look at neighbours and must be free of state. One
        compiled by ``numba.njit`` that also takes a single number is called cell by cell, inside the compiled step.

    Raises
    ------
    TypeError
        If it cannot be called.

    Examples
    --------
    >>> import spectralops as so
    >>> so.pde_step([0.0, 0.5, 1.0], 1.0, 0.5, so.Pointwise(lambda u: u * (1 - u)))
    array([0.   , 0.625, 1.   ])
    """

    function: Callable[[Any], Any]

    def __call__(self, u: Any) -> Any:
        """What the function makes of u, which must be real numbers."""
        rate = _checks.called("Pointwise", "function", self.function, "the field as its only argument", u)
        kind = (rate.dtype if hasattr(rate, "dtype") else np.asarray(rate).dtype).kind
        if kind not in "biuf":
            raise TypeError(f"Pointwise: function returned {_checks.shown(rate)}, but must return real numbers")
        return rate

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"Pointwise: function is a {type(self.function).__name__}, but must be callable")


Term: TypeAlias = Diffusion | Advection | SelfAdvection | Source | Pointwise
