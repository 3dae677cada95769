"""Names looked up in any case and with any separator, whole or by their beginning.

Knows letters and digits; never knows what has a name.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from toolcrib.base.text import joined

_Item = TypeVar("_Item")


class Spellings(dict[str, tuple[_Item, ...]]):
    """The items of each name, keyed by :func:`joined`. Must not be changed after creation.

    ``pairs`` are names, already reduced, with an item each; empty names are ignored.
    """

    def __init__(self, pairs: Iterable[tuple[str, _Item]]) -> None:
        groups: defaultdict[str, list[_Item]] = defaultdict(list)
        for name, item in pairs:
            if name:
                groups[name].append(item)
        super().__init__((name, tuple(items)) for name, items in groups.items())
        self._in_order = sorted(self)

    def beginning(self, start: str) -> Iterator[_Item]:
        """Yield the items with a name that begins with ``start``, in any spelling, sorted by name."""
        key = joined(start)
        for place in range(bisect_left(self._in_order, key), len(self._in_order)):
            if not self._in_order[place].startswith(key):
                return
            yield from self[self._in_order[place]]
