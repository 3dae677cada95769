"""What a search needs to be told about the documents it is to search, as a protocol for whoever has them.

Knows documents by their numbers only; never knows what one is, who may see it or where its texts are kept.
"""

from collections.abc import Sequence
from typing import Protocol

KEPT_MAX = 4
"""For how many sets of documents what is made for them is kept."""


class Documents(Protocol):
    """All that one caller may see, as one unchanging value: what is made for it is kept under it.

    Words, statistics and vectors come from these documents alone (law 2). Callers with the same rights should share
    the value, or it is all made twice.
    """

    @property
    def in_order(self) -> Sequence[int]:
        """The row of each document; its place here is its number."""
        ...

    def __hash__(self) -> int:
        """Tell it from every other such set."""
        ...
