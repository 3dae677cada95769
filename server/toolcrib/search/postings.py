"""What a ranking asks of the documents that it ranks: which words they have, how often, and how many have each.

Knows words and the numbers of documents; never knows where the postings are kept or how a score is weighed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolcrib.search.actions import Actions

BESIDE = 0.35
"""Weight factor of a synonym in a document that contains the word itself; measured, and flat around this value."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Synonyms of one query word: ``synonyms`` with their weights in a document without the word.

    ``words`` are the stems that mean the word. In a document that contains one of them, the weight of a synonym is
    multiplied by ``BESIDE``, because it adds little.
    """

    words: Sequence[str]
    synonyms: Mapping[str, float]


class Postings(Protocol):
    """The stems of the documents that one caller may see; other documents do not affect any statistic.

    Every method may raise StoreError if the postings are not in memory.
    """

    @property
    def rarity_max(self) -> float:
        """The rarity of a word that no document contains."""
        ...

    @property
    def rarity_of_one(self) -> float:
        """The rarity of a word that one document contains."""
        ...

    def __contains__(self, term: str) -> bool:
        """Return whether any document contains a stem."""
        ...

    def frequency(self, term: str) -> int:
        """Return how many documents contain a stem."""
        ...

    def rarity(self, term: str) -> float:
        """Return the rarity weight (IDF) of a stem."""
        ...

    def near(self, word: str) -> Sequence[str]:
        """Return the stems of documents that are one edit away from a word."""
        ...

    def name(self, number: int) -> Sequence[str]:
        """Return the stems of the name of a scored document."""
        ...

    def action(self, number: int) -> Actions:
        """Return what a scored document does, as far as its own words say."""
        ...

    def scores(
        self, weights: Mapping[str, float], among: Collection[int] | None, standing: Sequence[Standing] = ()
    ) -> Mapping[int, float]:
        """Return the fielded BM25 scores of the documents ``among`` (None: all) that contain any of these stems.

        ``weights`` are the weights of stems, ``standing`` their synonyms. For very large sets, an implementation may
        score only the most promising documents.
        """
        ...

    def having(self, term: str, numbers: Collection[int]) -> Collection[int]:
        """Return those of ``numbers``, which are scored documents, that contain a stem."""
        ...
