"""Fielded BM25 over the texts of some documents, in memory: its statistics know these documents only (law 2).

Knows texts, weights and postings; never knows what the texts belong to or who may see them.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

_K1 = 1.6

Text = str | Mapping[str, int]
"""One field of a document: split words, or their stems already, each with how often it stands there."""


@dataclass(frozen=True, slots=True)
class Field:
    """``weight`` of a word in this field; ``b``: how much a long text lessens it, from 0 to 1."""

    weight: float
    b: float


TOOL_FIELDS = (
    Field(3, 0.4),  # name
    Field(2, 0.3),  # summary
    Field(0.75, 0.6),  # description
    Field(2, 0.6),  # parameters
    Field(0.5, 0.6),  # descriptions of parameters
    Field(1, 0.2),  # server
    Field(0.5, 0.2),  # tags
)

FIELD_COUNT = len(TOOL_FIELDS)
"""How many texts a tool has."""


class FieldedBm25:
    """The score of every document for any words, worked out as far as it goes without knowing the words.

    A document is one text for each of ``fields``; its number is its place in ``documents``.
    """

    def __init__(
        self, documents: Sequence[Sequence[Text]], stem: Callable[[str], str], fields: Sequence[Field] = TOOL_FIELDS
    ) -> None:
        self._stem = stem
        self._fields = fields
        frequencies: defaultdict[str, tuple[array[int], array[float]]] = defaultdict(lambda: (array("L"), array("f")))
        averages = _average_lengths(documents, len(fields))
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

    def _weighted_frequencies(self, document: Sequence[Text], averages: Sequence[float]) -> dict[str, float]:
        frequencies: defaultdict[str, float] = defaultdict(float)
        for field, text, average in zip(self._fields, document, averages, strict=True):
            length = _length(text)
            if length:
                share = field.weight / (1 - field.b + field.b * length / average)
                for term, count in self._stems(text).items():
                    frequencies[term] += share * count
        return frequencies

    def _stems(self, text: Text) -> Mapping[str, int]:
        return Counter(map(self._stem, text.split())) if isinstance(text, str) else text


def _length(text: Text) -> int:
    return len(text.split()) if isinstance(text, str) else sum(text.values())


def _average_lengths(documents: Sequence[Sequence[Text]], field_count: int) -> list[float]:
    """Return the average number of words of each field."""
    lengths = [0] * field_count
    for document in documents:
        for place, text in enumerate(document):
            lengths[place] += _length(text)
    return [length / max(len(documents), 1) for length in lengths]


def _gains(frequencies: "array[float]", document_count: int) -> "array[float]":
    """Return what a term adds to the score of each document that has it."""
    rarity = log(1 + (document_count - len(frequencies) + 0.5) / (len(frequencies) + 0.5))
    return array("f", (rarity * (_K1 + 1) * value / (_K1 + value) for value in frequencies))
