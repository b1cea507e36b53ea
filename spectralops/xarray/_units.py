"""Quantities in words: lengths, durations, and the units of what is derived from a variable."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from spectralops import _checks

__all__ = ["ANGLES", "LENGTHS", "exponents", "measured", "product", "same"]

# Metres in each unit of length, and radians in each unit of angle, that a coordinate may have.
LENGTHS = {
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), 1.0),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers"), 1e3),
    **dict.fromkeys(("cm", "centimetre", "centimetres", "centimeter", "centimeters"), 1e-2),
    **dict.fromkeys(("mm", "millimetre", "millimetres", "millimeter", "millimeters"), 1e-3),
}
DEGREES = ("degree", "degrees", "deg", "°", "degrees_north", "degree_north", "degrees_east", "degree_east")
ANGLES = {**dict.fromkeys(DEGREES, math.pi / 180), **dict.fromkeys(("radian", "radians", "rad"), 1.0)}

NUMBER_AND_UNIT = re.compile(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(\S.*?)\s*")
FACTOR = re.compile(r"([A-Za-zµ%°_]+)(?:\*\*|\^)?([-+]?[0-9]+)?")
# Differences of temperatures on a shifted scale are kelvins.
CELSIUS = ("degC", "°C", "deg_C", "degree_C", "degrees_C", "celsius", "Celsius", "degree_Celsius", "degrees_Celsius")


def measured(op: str, name: str, value: Any, unit: str, radius: float | None = None) -> float:
    """A positive number of `unit` ("m", "s" or a coordinate's own) from a number, words or a quantity.

    On a sphere of some `radius` angles are lengths, too.
    """
    if hasattr(value, "magnitude") and hasattr(value, "to"):
        value = value.to(unit).magnitude
    if unit == "s" and isinstance(value, str | np.timedelta64 | pd.Timedelta):
        return _checks.positive(op, name, _seconds(op, name, value))
    if isinstance(value, str):
        return _checks.positive(op, name, _words(op, name, value, unit, radius))
    return _checks.positive(op, name, value)


def _seconds(op: str, name: str, value: Any) -> float:
    try:
        return float(pd.Timedelta(value).total_seconds())
    except ValueError as error:
        raise ValueError(
            f"{op}: {name} is {_checks.shown(value)}, but must be a duration such as '10 min', '6 h' or '2 D'"
        ) from error


def _words(op: str, name: str, value: str, unit: str, radius: float | None) -> float:
    match = NUMBER_AND_UNIT.fullmatch(value)
    if match:
        number, word = float(match[1]), match[2]
        if unit == "m" and word in LENGTHS:
            return number * LENGTHS[word]
        if radius is not None and word in ANGLES:
            return number * ANGLES[word] * radius
        if word == unit:
            return number
    if not unit:
        raise ValueError(f"{op}: {name} is {value!r}, but must be a number alone, since the coordinate has no units")
    expected = f"'500 {'km' if unit == 'm' else unit}'"
    raise ValueError(f"{op}: {name} is {value!r}, but must be a number with its unit such as {expected}")


def same(a: Any, b: Any) -> bool:
    """Whether units are the same in other words, or unknown of one."""
    if not isinstance(a, str) or not isinstance(b, str):
        return True
    first, second = exponents(a), exponents(b)
    return a.strip() == b.strip() if first is None or second is None else first == second


def product(units: Any, power: int, factors: Mapping[str, int]) -> str | None:
    """Units to a power, times factors such as {"m": -1}; None where they are unknown."""
    if not isinstance(units, str):
        return None
    powers = {"K": 1} if units.strip() in CELSIUS else exponents(units)
    if powers is None:
        return None
    result = {name: power * exponent for name, exponent in powers.items()}
    for name, exponent in factors.items():
        result[name] = result.get(name, 0) + exponent
    ordered = sorted(result.items(), key=lambda item: item[1] < 0)
    return " ".join(f"{name}{exponent if exponent != 1 else ''}" for name, exponent in ordered if exponent) or "1"


def exponents(units: str) -> dict[str, int] | None:
    """Exponent of each factor of words such as "m s-1", "m**2 s**-2", "W/m^2"; None for anything else."""
    result: dict[str, int] = {}
    sign = 1
    for token in re.findall(r"/|[^\s/]+", units.replace("·", " ")):
        if token == "/":
            sign = -1
            continue
        match = FACTOR.fullmatch(token)
        if match:
            result[match[1]] = result.get(match[1], 0) + sign * int(match[2] or 1)
        elif token != "1":
            return None
        sign = 1
    return result
