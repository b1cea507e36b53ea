"""The way of a warm call's arrays to the launches of its plan: by their addresses, with nothing described again."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from spectralops import _arrays, _interchange
from spectralops._recent import Recent
from spectralops._support import Plan, passed

__all__ = ["Ways", "kept", "run", "way"]

# Where `prepared(plan)` gives what a plan of cuda launches on arrays known by their addresses.
BY_ADDRESS = "spectralops._cuda.by_address"


@dataclass(slots=True)
class Ways:
    """What a plan launches on arrays known by their addresses, by library and device; None where it cannot.

    Attributes
    ----------
    plan : Plan
        Held, so that no other gets its number.
    last : callable or None
        The way that arrays went last.
    arrays : callable or None
        The way that CuPy's went last.
    """

    plan: Plan
    by_home: dict[tuple[str, str], Any] = field(default_factory=dict)
    last: Any = None
    arrays: Any = None


# By the number of the plan.
kept: Recent[int, Ways] = Recent(512)


def way(plan: Plan, home: _arrays.Home | None) -> Any:
    """What takes arrays to the plan's launches, those of `home` or CuPy's as they went last; None where they go not."""
    ways = kept.get(id(plan))
    if ways is None:
        return None
    return ways.arrays if home is None else ways.by_home.get((home.library, home.device))


def run(plan: Plan, arrays: tuple[Any, ...], home: _arrays.Home, out: Any) -> Any:
    """Execute a plan without a look at its arrays but for where they lie; None where that does not do."""
    if plan.backend != "cuda" or home.library not in _interchange.DIRECT:
        return None
    key, ways = (home.library, home.device), kept.get(id(plan))
    if ways is None or key not in ways.by_home:
        # A function of the caller's may hold anything, and must not live on in a cache.
        if getattr(plan, "samples_anew", False):
            return None
        direct = _prepared(plan, home)
        ways = kept.get(id(plan)) or kept.put(id(plan), Ways(plan))
        ways.by_home[key] = direct
    direct = ways.last = ways.by_home[key]
    if home.library == "cupy":
        ways.arrays = direct
    return None if direct is None else direct.again(arrays, out)


def _prepared(plan: Plan, home: _arrays.Home) -> Any:
    dtypes, kind = passed(plan)
    cast = any(dtype != operand.spec.dtype for dtype, operand in zip(dtypes, plan.operands, strict=True))
    if cast or plan.out_dtype != kind:
        return None
    with _interchange.on_device(home):
        by_address = importlib.import_module(BY_ADDRESS)
        prepared = by_address.prepared(plan)
    if prepared is None:
        return None
    specs = [*(operand.spec for operand in plan.operands), _arrays.ArraySpec(plan.out_shape, plan.out_dtype)]
    return _interchange.direct(prepared, specs, home, by_address.scratch)
