"""Fielded BM25 over the texts of some tools, in memory: its statistics know these tools only (law 2).

Knows texts, weights and postings; never knows which tools the texts belong to or who may see them.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log

_K1 = 1.6


@dataclass(frozen=True, slots=True)
class _Field:
    """``weight`` of a word in this field; ``b``: how much a long text lessens it, from 0 to 1."""

    weight: float
    b: float


_FIELDS = (
    _Field(3, 0.4),  # name
    _Field(2, 0.3),  # summary
    _Field(0.75, 0.6),  # description
    _Field(2, 0.6),  # parameters
    _Field(0.5, 0.6),  # descriptions of parameters
    _Field(1, 0.2),  # server
    _Field(0.5, 0.2),  # tags
)

FIELD_COUNT = len(_FIELDS)
"""How many texts a document has."""


class FieldedBm25:
    """The score of every document for any words, worked out as far as it goes without knowing the words.

    A document is ``FIELD_COUNT`` texts of split words; its number is its place in ``documents``.
    """

    def __init__(self, documents: Sequence[Sequence[str]], stem: Callable[[str], str]) -> None:
        self._stem = stem
        frequencies: defaultdict[str, tuple[array[int], array[float]]] = defaultdict(lambda: (array("L"), array("d")))
        averages = _average_lengths(documents)
        for number, document in enumerate(documents):
            for term, frequency in self._weighted_frequencies(document, averages).items():
                numbers, values = frequencies[term]
                numbers.append(number)
                values.append(frequency)
        self._postings = {
            term: (numbers, _gains(values, len(documents))) for term, (numbers, values) in frequencies.items()
        }

    def scores(self, words: Iterable[str]) -> dict[int, float]:
        """Return the score of each document that has any of ``words``, above 0, higher is better."""
        scores: defaultdict[int, float] = defaultdict(float)
        for term in dict.fromkeys(map(self._stem, words)):
            for number, gain in zip(*self._postings.get(term, ((), ())), strict=True):
                scores[number] += gain
        return scores

    def _weighted_frequencies(self, document: Sequence[str], averages: Sequence[float]) -> dict[str, float]:
        frequencies: defaultdict[str, float] = defaultdict(float)
        for field, text, average in zip(_FIELDS, document, averages, strict=True):
            words = text.split()
            if words:
                share = field.weight / (1 - field.b + field.b * len(words) / average)
                for word in words:
                    frequencies[self._stem(word)] += share
        return frequencies


def _average_lengths(documents: Sequence[Sequence[str]]) -> list[float]:
    """Return the average number of words of each field."""
    lengths = [0] * FIELD_COUNT
    for document in documents:
        for place, text in enumerate(document):
            lengths[place] += len(text.split())
    return [length / max(len(documents), 1) for length in lengths]


def _gains(frequencies: "array[float]", document_count: int) -> "array[float]":
    """Return what a term adds to the score of each document that has it."""
    rarity = log(1 + (document_count - len(frequencies) + 0.5) / (len(frequencies) + 0.5))
    return array("d", (rarity * (_K1 + 1) * value / (_K1 + value) for value in frequencies))
