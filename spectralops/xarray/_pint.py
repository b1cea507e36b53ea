"""Quantities of pint: their numbers are computed with, and the results are quantities again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xarray as xr

from spectralops.xarray._units import exponents

__all__ = ["bare", "dressed", "in_units", "with_units"]


def is_quantity(x: Any) -> bool:
    """Whether the data are a quantity; pint need not be there to say that they are not."""
    return isinstance(x, xr.DataArray) and hasattr(x.data, "magnitude") and hasattr(x.data, "units")


def words(unit: Any) -> str:
    """A unit as files have it, "kg m / s**2"."""
    return format(unit, "~D").replace(" ** ", "**").replace(" * ", " ")


def bare(x: Any) -> Any:
    """The array with its numbers as data and its unit among the attributes."""
    if not is_quantity(x):
        return x
    return x.copy(data=x.data.magnitude).assign_attrs(units=words(x.data.units))


def in_units(x: Any, unit: Any) -> Any:
    """The same for anything, converted to a unit if it is a quantity."""
    if not is_quantity(x):
        return x
    return bare(x.copy(data=x.data.to(unit)))


def dressed(result: xr.DataArray, like: Any) -> xr.DataArray:
    """The result as a quantity if `like` is one and the unit of the result is known."""
    if not is_quantity(like) or "units" not in result.attrs:
        return result
    text = result.attrs["units"]
    if text == words(like.data.units):
        unit = like.data.units
    else:
        factors = exponents(text) or {}
        unit = like.data._REGISTRY.Unit(" * ".join(f"{name} ** {power}" for name, power in factors.items()))
    quantity = result.copy(data=like.data._REGISTRY.Quantity(result.data, unit))
    return quantity.drop_attrs(deep=False).assign_attrs({k: v for k, v in result.attrs.items() if k != "units"})


def with_units(function: Callable[[xr.DataArray], xr.DataArray], x: xr.DataArray) -> xr.DataArray:
    """Call a function with the numbers of an array and dress what it gives."""
    return dressed(function(bare(x)), x)
