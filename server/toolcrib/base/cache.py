"""LRU caches that several threads share, and memoized functions of short texts."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

_Owner = TypeVar("_Owner", bound=Hashable)
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_OWNERS_MAX = 1000
"""Number of owners whose values are cached, where a name identifies the owner."""


class Recent(Generic[_Key, _Value]):
    """An LRU cache of at most ``most`` values. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        # Two locks: creating a value may take seconds, and reading others must not wait for it.
        self._lock, self._making = Lock(), Lock()

    def __contains__(self, key: _Key) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[_Key]:
        with self._lock:
            return iter(list(self._values))

    def __getitem__(self, key: _Key) -> _Value:
        with self._lock:
            self._values.move_to_end(key)
            return self._values[key]

    def __setitem__(self, key: _Key, value: _Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Return the value of ``key``. One value is created at a time; existing ones are returned meanwhile."""
        try:
            return self[key]
        except KeyError:
            pass
        with self._making:
            try:
                return self[key]
            except KeyError:
                made = self[key] = make()
                return made

    def values(self) -> list[_Value]:
        """Return the values, least recently used first."""
        with self._lock:
            return list(self._values.values())

    def items(self) -> list[tuple[_Key, _Value]]:
        """Return the keys with their values, in the same order."""
        with self._lock:
            return list(self._values.items())

    def pop(self, key: _Key) -> _Value | None:
        """Remove the value of ``key`` and return it; None if there is none."""
        with self._lock:
            return self._values.pop(key, None)

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._values.clear()


class RecentOfEach(Generic[_Owner, _Key, _Value]):
    """An LRU cache of ``most`` values for each owner: one owner's values do not evict those of others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent = Recent[_Owner, Recent[_Key, _Value]](_OWNERS_MAX)

    def __getitem__(self, owner: _Owner) -> Recent[_Key, _Value]:
        return self._recent.get(owner, lambda: Recent(self._most))

    def values(self) -> list[_Value]:
        """Return the values of all owners."""
        return [value for recent in self._recent.values() for value in recent.values()]


class RecentBy(Generic[_Owner, _Key, _Value]):
    """An LRU cache of ``most`` values derived from each owner, freed together with it."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Weak: an owner is freed with its catalog and permissions, which values derived from it must not prevent.
        self._recent: WeakKeyDictionary[_Owner, Recent[_Key, _Value]] = WeakKeyDictionary()

    def __getitem__(self, owner: _Owner) -> Recent[_Key, _Value]:
        with suppress(KeyError):
            return self._recent[owner]
        return self._recent.setdefault(owner, Recent(self._most))


_Made = TypeVar("_Made")

WORD_MAX = 40
"""Maximum length of a word that is worth caching: longer ones are mostly data, and rarely recur."""

SENTENCE_MAX = 300
"""The same for a text. Descriptions of parameters are shorter; those of tools occur once."""


class Remembered(dict[str, _Made]):
    """A cache of the results of ``make`` by text, used like a dictionary. Safe to use from several threads.

    At most ``most`` texts of at most ``longest`` characters are cached; then all are removed, and common ones soon
    return. Keeping an order of use, as :func:`functools.lru_cache` does, would cost more than it gains.
    """

    def __init__(self, make: Callable[[str], _Made], most: int, longest: int) -> None:
        super().__init__()
        self._make, self._most, self._longest = make, most, longest

    def __missing__(self, text: str) -> _Made:
        made = self._make(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = made
        return made
