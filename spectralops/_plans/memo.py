"""Caches for the pure builders of plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Protocol, TypeVar, cast

from spectralops import _arrays

__all__ = ["by_looks", "memoised"]

P = TypeVar("P")
R = TypeVar("R", covariant=True)


class Memoised(Protocol[R]):
    """A builder that remembers; `__wrapped__` is the one that does not."""

    @property
    def __wrapped__(self) -> Callable[..., R]: ...
    def cache_info(self) -> Any: ...
    def cache_clear(self) -> None: ...
    def __call__(self, *arguments: Any) -> R: ...


def memoised(build: Callable[..., P]) -> Memoised[P]:
    """Remember the last 512 plans of a builder called with positional arguments.

    Arguments are told apart by type as well as by value, also inside tuples: 1.0 is no axis although 1 is one.
    Unhashable ones (lists) are passed through.
    """

    @lru_cache(maxsize=512, typed=True)
    def cached(types: tuple[Any, ...], *arguments: Any) -> P:
        return build(*arguments)

    def call(*arguments: Any) -> P:
        types = tuple([tuple(map(type, a)) for a in arguments if type(a) is tuple])
        try:
            return cached(types, *arguments)
        except (TypeError, ValueError):  # ValueError: a writable memoryview has no hash either
            if _hashable(arguments):
                raise
        return build(*arguments)

    call.cache_info = cached.cache_info  # type: ignore[attr-defined]
    call.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return cast(Memoised[P], update_wrapper(call, build))


def _hashable(arguments: tuple[Any, ...]) -> bool:
    try:
        hash(arguments)
    except (TypeError, ValueError):
        return False
    return True


# Types whose values never change.
PLAIN = frozenset({float, int, bool, complex, str, type(None)})


class Known(Protocol[R]):
    """Finds the plan of arrays by their looks; None for what has to be looked at."""

    def cache_clear(self) -> None: ...
    def __call__(self, arrays: tuple[Any, ...], values: tuple[Any, ...], *options: Any) -> R | None: ...


def by_looks(build: Callable[..., P]) -> Known[P]:
    """Remember what `build(specs, device, values, *options)` plans for NumPy or CuPy arrays that look the same.

    Nothing of a call that is like an earlier one is described or checked again. Found so are arrays of one library with
    options that are numbers, words, None and tuples of them; `values` are others that compare by value. For all else,
    and for what cannot be planned, there is None: the usual way says why.
    """

    @lru_cache(maxsize=512)
    def found(device: str, looks: tuple[Any, ...], kinds: tuple[Any, ...], values: tuple[Any, ...], *options: Any) -> P:
        shapes, names = looks[::2], map(_arrays.dtype_name, looks[1::2])
        if not all(0 < len(shape) <= _arrays.MOST_AXES for shape in shapes):
            raise ValueError("numbers, or more axes than an array may have")
        if not all(kind in PLAIN or (type(kind) is tuple and PLAIN.issuperset(kind)) for kind in kinds):
            raise TypeError("what may change, or be equal to something else")
        return build([_arrays.ArraySpec(*look) for look in zip(shapes, names, strict=True)], device, values, *options)

    def find(arrays: tuple[Any, ...], values: tuple[Any, ...], *options: Any) -> P | None:
        cls = type(arrays[0])
        device = native.get(cls)
        if device is None:
            return None
        looks: list[Any] = []
        for x in arrays:
            if type(x) is not cls:
                return None
            looks += x.shape, x.dtype
        # A number is equal to one of another type, also inside a tuple, but must not find its plan.
        kinds: tuple[Any, ...] = tuple(map(type, options))
        if tuple in kinds:
            kinds = tuple([tuple(map(type, each)) if type(each) is tuple else type(each) for each in options])
        try:
            return found(device, tuple(looks), kinds, values, *options)
        except (TypeError, ValueError, NotImplementedError):
            return None

    native = _arrays.native_devices
    find.cache_clear = found.cache_clear  # type: ignore[attr-defined]
    return cast(Known[P], update_wrapper(find, build))
