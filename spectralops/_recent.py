"""A bounded memory of what was asked for last, for what a dictionary would keep for ever."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most so many values by key, of which the one that nobody has asked for longest goes first.

    Several threads may use it at once. A key with the `id` of an object asks for a value that holds the object, so that
    no other gets that number.
    """

    __slots__ = ("_kept", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key; None where there is none."""
        found = self._kept.get(key)
        if found is not None:
            try:
                self._kept.move_to_end(key)
            except KeyError:  # another thread has just dropped it
                return found
        return found

    def put(self, key: K, value: V) -> V:
        """Keep a value, and give it back."""
        kept = self._kept
        kept[key] = value
        while len(kept) > self.most:
            kept.popitem(last=False)
        return value

    def values(self) -> list[V]:
        """All of them, the one that was asked for last at the end."""
        return list(self._kept.values())

    def clear(self) -> None:
        """Forget them."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
