"""What a ranking asks of the documents that it ranks: which words they have, how often, and how many have each.

Knows words and the numbers of documents; never knows where the postings are kept or how a score is weighed.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Protocol


class Postings(Protocol):
    """The words of the documents that one caller may see, reduced to stems: statistics of other documents are none.

    Every method may raise StoreError where the postings are not in memory.
    """

    @property
    def rarity_max(self) -> float:
        """What a word tells that no document has."""
        ...

    @property
    def rarity_of_one(self) -> float:
        """What a word tells that one document has."""
        ...

    def __contains__(self, term: str) -> bool:
        """Return whether any document has a stem."""
        ...

    def frequency(self, term: str) -> int:
        """Return how many documents have a stem."""
        ...

    def rarity(self, term: str) -> float:
        """Return what a stem tells about a document that has it."""
        ...

    def near(self, word: str) -> Sequence[str]:
        """Return the stems that documents have and that are one edit away from a word."""
        ...

    def name(self, number: int) -> Sequence[str]:
        """Return the stems of the name of a document that had a score."""
        ...

    def scores(self, weights: Mapping[str, float], among: Container[int] | None) -> Mapping[int, float]:
        """Return the scores by fielded BM25 of the documents ``among`` (None: all) that have any of these stems.

        ``weights`` are what each stem counts. Of very many documents those that can score best are enough.
        """
        ...

    def having(self, term: str, numbers: Collection[int]) -> Collection[int]:
        """Return those of ``numbers``, documents that had a score, that have a stem."""
        ...
