"""Widths and cutoffs as the symbols take them."""

from __future__ import annotations

import math
from typing import Any

from spectralops import _checks

__all__ = ["cutoff", "numbers", "width"]


def numbers(op: str, name: str, value: Any) -> tuple[Any, ...]:
    """The entries of a sequence, or a number as the only entry."""
    if _checks.entries(value) is None:
        return (value,)
    if not value:
        raise ValueError(f"{op}: {name} is empty, but must have one entry per transformed axis")
    return tuple(value)


def width(op: str, name: str, value: Any) -> float:
    """A length that may be zero."""
    return _checks.length(op, name, value) if _checks.nonnegative(op, name, value) else 0.0


def cutoff(op: str, wavelength: Any, wavenumber: Any) -> float:
    """The cutoff as an angular wavenumber."""
    if (wavelength is None) == (wavenumber is None):
        both = f"wavelength is {_checks.shown(wavelength)} and wavenumber is {_checks.shown(wavenumber)}"
        raise TypeError(f"{op}: {both}, but exactly one must be given")
    if wavenumber is not None:
        return _checks.length(op, "wavenumber", wavenumber)
    return 2 * math.pi / _checks.length(op, "wavelength", wavelength)
