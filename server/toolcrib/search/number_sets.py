"""Sets of the numbers of documents that stay in memory: short ones as numbers, long ones as a byte for each document.

Knows numbers only; never knows what a document is or why it is in a set.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

_DENSE = 4
"""A number takes four bytes, an entry of the dense form one."""


class NumberSet:
    """Some of the numbers below ``size``."""

    def __init__(self, numbers: Iterable[int], size: int) -> None:
        self._numbers: array[int] | None = array("I", numbers)
        self._flags = b""
        self._length = len(self._numbers)
        if self._length * _DENSE > size:
            flags = bytearray(size)
            for number in self._numbers:
                flags[number] = 1
            self._numbers, self._flags = None, bytes(flags)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        if self._numbers is None:
            return compress(range(len(self._flags)), self._flags)
        return iter(self._numbers)

    def among(self, numbers: Sequence[int]) -> Iterable[int]:
        """Return those of ``numbers`` that are in this set."""
        if self._numbers is None:
            return compress(numbers, map(self._flags.__getitem__, numbers))
        return set(numbers).intersection(self._numbers)
