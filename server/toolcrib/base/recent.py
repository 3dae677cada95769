"""A bounded cache for values that take long to make, shared by threads.

Knows keys and when they were last used; never knows what a value is.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A few values that take long to make; of more than ``most`` the least recently used is forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._lock, self._making = Lock(), Lock()

    def __contains__(self, key: _Key) -> bool:
        return key in self._values

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Return the value of ``key``. One is made at a time, and searches with others go on meanwhile."""
        found = self._known(key)
        if found is not None:
            return found
        with self._making:
            found = self._known(key)
            if found is None:
                found = make()
                with self._lock:
                    self._values[key] = found
                    if len(self._values) > self._most:
                        self._values.popitem(last=False)
        return found

    def _known(self, key: _Key) -> _Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)
