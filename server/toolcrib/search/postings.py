"""What a ranking asks of the documents that it ranks: which words they have, how often, and how many have each.

Knows words and the numbers of documents; never knows where the postings are kept or how a score is weighed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolcrib.search.actions import Actions

BESIDE = 0.35
"""What a synonym counts, of its weight, in a document that has the word itself; measured, and flat around it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What may stand for one word of a query: ``synonyms`` with what each counts in a document without the word.

    ``words`` are the stems that mean it. Where a document has one of them, a synonym counts ``BESIDE`` of that: it is
    said already.
    """

    words: Sequence[str]
    synonyms: Mapping[str, float]


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

    def action(self, number: int) -> Actions:
        """Return what a document that had a score does, as far as its own words say."""
        ...

    def scores(
        self, weights: Mapping[str, float], among: Collection[int] | None, standing: Sequence[Standing] = ()
    ) -> Mapping[int, float]:
        """Return the scores by fielded BM25 of the documents ``among`` (None: all) that have any of these stems.

        ``weights`` are what each stem counts, ``standing`` what may stand for them. Of very many documents those that
        can score best are enough.
        """
        ...

    def having(self, term: str, numbers: Collection[int]) -> Collection[int]:
        """Return those of ``numbers``, documents that had a score, that have a stem."""
        ...
