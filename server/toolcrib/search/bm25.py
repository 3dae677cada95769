"""Fielded BM25 over the texts of some documents, in memory; its statistics come from these documents alone.

Knows counts of words and what they weigh; never knows what the texts belong to or who may see them.
"""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import log

from toolcrib.search.actions import NO_ACTIONS, Actions
from toolcrib.search.lexicon import Lexicon
from toolcrib.search.postings import BESIDE, Standing

_K1 = 1.8
COMMON_MIN = 20
"""With fewer documents nothing is common to most of them."""

_LONG_LIST = 10
"""So many times as long as what is looked up, a list is searched instead of read."""

Text = str | Mapping[str, int]
"""One field of a document: split words, or their stems already, each with how often it stands there."""

Does = Callable[[Sequence[Text]], Actions]
"""Tells of a document's texts what it does."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of documents. ``weight`` is the weight of a word in it; ``b`` the length normalization, from 0 to 1.

    ``common``: a word found in this field of a larger share of the documents is ignored there.
    """

    weight: float
    b: float
    common: float = 1.0


class FieldedBm25:
    """Fielded BM25 over a set of documents: the contribution of each word to each score, computed once per word.

    A document is one text for each of ``fields``; its number is its place in ``documents``. The first field is the
    document's name. ``does`` tells of its texts what it does.
    """

    def __init__(
        self,
        documents: Iterable[Sequence[Text]],
        stem: Callable[[str], str],
        fields: Sequence[Field],
        does: Does | None = None,
    ) -> None:
        counted: list[list[Mapping[str, int]]] = []
        self._actions: list[Actions] = []
        for document in documents:
            counted.append([_counted(text, stem) for text in document])
            if does is not None:
                self._actions.append(does(document))
        _leave_out_common(counted, fields)
        averages = _average_lengths(counted, len(fields))
        self.size = len(counted)
        self.names = [tuple(document[0]) for document in counted]
        # Arrays, because a list of floats takes several times the memory.
        frequencies: defaultdict[str, tuple[list[int], array[float]]] = defaultdict(lambda: ([], array("f")))
        for number, document in enumerate(counted):
            for term, frequency in _weighted_frequencies(document, fields, averages).items():
                numbers, values = frequencies[term]
                numbers.append(number)
                values.append(frequency)
            counted[number] = []  # let go of now: to free all of them at once would hold up other threads
        self._postings = dict(frequencies)
        # A query asks for few of all words, and a process that searches once for no others at all.
        self._gains: dict[str, array[float]] = {}
        self._rarities: dict[str, float] = {}
        self.rarity_max = rarity(0, self.size)
        self.rarity_of_one = rarity(1, self.size)

    def __contains__(self, term: str) -> bool:
        return term in self._postings

    def prepare(self) -> None:
        """Build the lookup for misspelt words, for which the first of them would otherwise wait."""
        _ = self._lexicon

    def near(self, word: str) -> list[str]:
        """Return the stems one edit away from a word, as :meth:`Lexicon.near` has them."""
        return self._lexicon.near(word)

    def name(self, number: int) -> Sequence[str]:
        """Return the stems of a document's name."""
        return self.names[number]

    def action(self, number: int) -> Actions:
        """Return what a document does."""
        return self._actions[number] if self._actions else NO_ACTIONS

    def frequency(self, term: str) -> int:
        """Return how many documents have a stem."""
        return len(self._numbers(term))

    def rarity(self, term: str) -> float:
        """Return the rarity weight (IDF) of a stem; highest if no document contains it."""
        known = self._rarities.get(term)
        if known is None:
            known = rarity(self.frequency(term), self.size)
            if term in self._postings:  # words of queries must not grow the cache
                self._rarities[term] = known
        return known

    def having(self, term: str, numbers: Collection[int]) -> Collection[int]:
        """Return those of ``numbers`` that contain a stem."""
        having = self._numbers(term)
        if len(having) < _LONG_LIST * len(numbers):
            return set(numbers).intersection(having)
        # Past the last number bisect returns the length; the modulo makes that a comparison with the first, which
        # fails.
        return [number for number in numbers if having[bisect_left(having, number) % len(having)] == number]

    def scores(
        self,
        weights: Mapping[str, float],
        among: Collection[int] | None = None,
        standing: Sequence[Standing] = (),
    ) -> dict[int, float]:
        """Return the scores of the documents ``among`` (None: all) that contain any of these stems; higher is better.

        ``standing`` are synonyms, whose weight depends on what else a document contains.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            for number, gain in self._gains_of(term, among):
                scores[number] += weight * gain
        for each in standing:
            words = (self._numbers(term) if among is None else self.having(term, among) for term in each.words)
            said = set(chain.from_iterable(words))
            for term, weight in each.synonyms.items():
                beside = weight * BESIDE
                for number, gain in self._gains_of(term, among):
                    scores[number] += (beside if number in said else weight) * gain
        return scores if among is None else {number: scores[number] for number in scores if number in among}

    def _gains_of(self, term: str, among: Collection[int] | None) -> Iterable[tuple[int, float]]:
        """Return what a term adds to documents that have it: to those ``among`` which it is asked, and maybe others."""
        numbers, gains = self._numbers(term), self._gained(term)
        if among is None or len(numbers) < _LONG_LIST * len(among):
            return zip(numbers, gains, strict=True)
        places = ((number, bisect_left(numbers, number)) for number in among)
        return [(number, gains[place]) for number, place in places if place < len(numbers) and numbers[place] == number]

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon(self._postings)

    def _numbers(self, term: str) -> Sequence[int]:
        """Return the documents with a stem, in order."""
        return self._postings[term][0] if term in self._postings else ()

    def _gained(self, term: str) -> Sequence[float]:
        """Return what a term adds to the score of each document that has it, worked out once."""
        gained = self._gains.get(term)
        if gained is None and term in self._postings:
            # Two threads may both work it out: the same, from what does not change.
            gained = self._gains[term] = gains(self._postings[term][1], self.rarity(term))
        return gained or ()


def _counted(text: Text, stem: Callable[[str], str]) -> Mapping[str, int]:
    return Counter(map(stem, text.split())) if isinstance(text, str) else text


def _leave_out_common(documents: Sequence[list[Mapping[str, int]]], fields: Sequence[Field]) -> None:
    """Take out of each field the words that too many documents have there: they tell no document from another."""
    if len(documents) < COMMON_MIN:
        return
    for place, field in enumerate(fields):
        if field.common < 1:
            having = Counter(chain.from_iterable(document[place] for document in documents))
            common = {term for term, count in having.items() if count > field.common * len(documents)}
            for document in documents if common else ():
                document[place] = {term: count for term, count in document[place].items() if term not in common}


def _weighted_frequencies(
    document: Sequence[Mapping[str, int]], fields: Sequence[Field], averages: Sequence[float]
) -> dict[str, float]:
    # BM25F: fields are added up before they saturate, so that a word in two fields does not count like two words.
    frequencies: defaultdict[str, float] = defaultdict(float)
    for field, counts, average in zip(fields, document, averages, strict=True):
        if counts:
            of_one = share(field, sum(counts.values()), average)
            for term, count in counts.items():
                frequencies[term] += of_one * count
    return frequencies


def share(field: Field, length: int, average: float) -> float:
    """Return the weight of one occurrence in a field of ``length`` words, which has ``average`` words on average."""
    return field.weight / (1 - field.b + field.b * length / average)


def _average_lengths(documents: Sequence[Sequence[Mapping[str, int]]], field_count: int) -> list[float]:
    """Return the average number of words of each field."""
    lengths = [0] * field_count
    for document in documents:
        for place, counts in enumerate(document):
            lengths[place] += sum(counts.values())
    return [length / max(len(documents), 1) for length in lengths]


def leading(scores: Mapping[int, float], count: int) -> Mapping[int, float]:
    """Return the ``count`` highest scores; ties go to the lowest numbers."""
    if len(scores) <= count:
        return scores
    least = sorted(scores.values())[-count]
    highest = {number: score for number, score in scores.items() if score > least}
    equal = sorted(number for number, score in scores.items() if score == least)
    return highest | dict.fromkeys(equal[: count - len(highest)], least)


def rarity(having: int, size: int) -> float:
    """Return the rarity weight (IDF) of a word that ``having`` of ``size`` documents contain."""
    # Adding 1 keeps it non-negative; the classic form is negative for words that most documents contain.
    return log(1 + (size - having + 0.5) / (having + 0.5))


def gains(frequencies: "array[float]", rare: float) -> "array[float]":
    """Return what a term that tells so much adds to the score of each document, by its weighted frequency there."""
    return array("f", (rare * (_K1 + 1) * value / (_K1 + value) for value in frequencies))
