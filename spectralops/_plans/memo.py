"""Caches for the pure builders of plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Protocol, TypeVar, cast

from spectralops import _checks

__all__ = ["memoised"]

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
    Those that may change (lists, tensors) are passed through.
    """

    @lru_cache(maxsize=512, typed=True)
    def cached(types: tuple[Any, ...], *arguments: Any) -> P:
        if not _checks.lasting(arguments):
            raise TypeError("may change")
        return build(*arguments)

    def call(*arguments: Any) -> P:
        types = tuple([tuple(map(type, a)) for a in arguments if type(a) is tuple])
        try:
            return cached(types, *arguments)
        except (TypeError, ValueError):  # ValueError: a writable memoryview has no hash either
            if _checks.lasting(arguments):
                raise
        return build(*arguments)

    call.cache_info = cached.cache_info  # type: ignore[attr-defined]
    call.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return cast(Memoised[P], update_wrapper(call, build))
