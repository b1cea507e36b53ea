"""Calls that look like an earlier one: what that one found is found again with nothing described or checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from spectralops import _arrays, _dispatch, _ways, boundary
from spectralops._plans.epilogue import Epilogue
from spectralops._plans.terms import Advection, Diffusion, SelfAdvection, Source
from spectralops._support import Plan

__all__ = ["KEYS", "Known", "Looks", "look", "same"]

F = TypeVar("F")
OfArray: TypeAlias = Callable[[Any, list[Any]], tuple[Any, ...]]

# Types whose values never change, and are the same where they are equal.
KEYS = frozenset(
    {
        float, int, bool, complex, str, type(None), np.float64, np.float32, np.int64, Epilogue, SelfAdvection,
        boundary.Dirichlet, boundary.Hold, boundary.Neumann, boundary.Outflow, boundary.Periodic, boundary.Reflect,
        boundary.Robin,
    }
)  # fmt: skip
# Those that hold others, which may be arrays.
HOLDERS = frozenset({Advection, Diffusion, Source})


def look(value: Any, of_array: OfArray, arrays: list[Any]) -> tuple[Any, ...]:
    """What tells an argument from others; of arrays, which `of_array` puts into the list, what that gives.

    A number equals those of other types, also inside a sequence, but must not be taken for them.

    Raises
    ------
    TypeError
        If the argument may change, or is not known to be the same as what it equals.
    """
    kind: Any = type(value)
    if kind in KEYS:
        return kind, value
    if kind is tuple or kind is list:
        kinds = tuple(map(type, value))
        if KEYS.issuperset(kinds):
            return kind, kinds, *value
        return kind, *[look(each, of_array, arrays) for each in value]
    if kind is dict:
        return kind, *[look(item, of_array, arrays) for item in value.items()]
    if kind in HOLDERS:
        return kind, *[look(getattr(value, name), of_array, arrays) for name in kind.__slots__]
    return of_array(value, arrays)


def native(array: Any, arrays: list[Any]) -> tuple[Any, ...]:
    """Type, shape and dtype of an array like the first one; without axes it counts by its value, which may change."""
    if type(array) is not type(arrays[0]) or not array.ndim:
        raise TypeError("has no looks")
    arrays.append(array)
    return type(array), array.shape, array.dtype


class Looks(Generic[F]):
    """What calls of an operator have found, by the looks of their arguments. The last 512 of these are kept.

    `nothing` makes what a call finds that is like no earlier one, to be filled in by it.
    """

    def __init__(self, nothing: Callable[[], F]) -> None:
        @lru_cache(maxsize=512, typed=True)
        def found(*looks: Any) -> F:
            return nothing()

        self._found, self._nothing = found, nothing

    def find(self, x: Any, arguments: tuple[Any, ...], *around: Any) -> tuple[F, tuple[Any, ...]]:
        """What calls with such arguments found, and x and the arrays in the order of these.

        Found again are NumPy or CuPy arrays with others of their type, numbers, words and what holds them. `around` is
        what else a call depends on.
        """
        cls: Any = type(x)
        if cls not in _arrays.native_devices:
            return self._nothing(), ()
        try:
            if KEYS.issuperset(map(type, arguments)):
                return self._found(cls, x.shape, x.dtype, *around, *arguments), (x,)
            arrays = [x]
            looks = [each if type(each) in KEYS else look(each, native, arrays) for each in arguments]
            return self._found(cls, x.shape, x.dtype, *around, *looks), tuple(arrays)
        except TypeError:  # so it is also where `around` has no hash
            return self._nothing(), ()

    def clear(self) -> None:
        """Forget them."""
        self._found.cache_clear()


def same(arrays: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether these are the same objects."""
    return len(arrays) == len(others) and all([x is y for x, y in zip(arrays, others, strict=True)])  # noqa: C419


class Known:
    """A plan that calls with arrays of the same looks find again, with the way of these to its launches.

    `home` is where such arrays lie, if that is among their looks; otherwise it is asked of them at each call.
    """

    __slots__ = ("_way", "home", "plan")

    def __init__(self, plan: Any = None, home: _arrays.Home | None = None) -> None:
        self.plan, self.home = plan, home
        self._way: Any = None

    def keep(self, plan: Plan, planned: tuple[Any, ...], arrays: tuple[Any, ...]) -> None:
        """Have the plan be found for `arrays`, if they are those that it was made for."""
        if same(planned, arrays):
            self.plan = plan

    def __call__(self, arrays: tuple[Any, ...], out: Any = None, workers: int | None = None) -> Any:
        """Run the plan on arrays of its shapes and dtypes, from one library."""
        way, plan, home = self._way, self.plan, self.home
        if way is not None and out is None and workers is None and not _dispatch.observed():
            result = way.again(arrays)
            if result is not None:
                return result
        if home is None:
            result = _dispatch.execute(plan, arrays, out=out, workers=workers)
        else:
            result = _dispatch.run(plan, arrays, home, out, workers)
        if plan.backend == "cuda":
            self._way = _ways.way(plan, home)
        return result
