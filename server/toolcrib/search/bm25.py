"""Fielded BM25 over the texts of some documents, in memory; its statistics come from these documents alone.

Knows counts of words and what they weigh; never knows what the texts belong to or who may see them.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import chain, compress, islice
from math import log
from operator import lt, mul

from toolcrib.search.actions import Actions
from toolcrib.search.inverted import Inverted, Posting, in_fields
from toolcrib.search.lexicon import Lexicon
from toolcrib.search.postings import BESIDE, Standing

_K1 = 1.8
_LONG_LIST = 10
"""A list longer than this many times the number of lookups is binary-searched instead of scanned."""


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

    ``slots`` are the documents' slots in ``inverted``, which has no others; a document's number is its index there.
    """

    def __init__(self, inverted: Inverted, slots: Sequence[int], fields: Sequence[Field]) -> None:
        self.inverted, self._slots, self._fields = inverted, slots, fields
        self._postings, self._documents = inverted.postings, inverted.documents
        self.size = len(slots)
        self._left_out = _left_out(inverted)
        self._weights = _weights(fields, inverted.lengths, self.size)
        self._are_slots_in_order = all(map(lt, slots, islice(slots, 1, None)))
        self._number_of = _by_cell(slots, len(fields), len(inverted.lengths))
        # Computed lazily: queries use few of all words, and a process that searches once uses no others.
        self._gained: dict[str, tuple[Sequence[int], Sequence[float]]] = {}
        self._rarities: dict[str, float] = {}
        self.rarity_max = rarity(0, self.size)
        self.rarity_of_one = rarity(1, self.size)

    def __contains__(self, term: str) -> bool:
        return term in self._postings and (term not in self._left_out or self.frequency(term) > 0)

    def prepare(self) -> None:
        """Build the lookup for misspelt words, for which the first of them would otherwise wait."""
        _ = self._lexicon

    def near(self, word: str) -> list[str]:
        """Return the stems one edit away from a word; see :meth:`Lexicon.near`."""
        return self._lexicon.near(word, self)

    def name(self, number: int) -> Sequence[str]:
        """Return the stems of a document's name."""
        document = self._documents[self._slots[number]]
        stems = document.stems[: document.named]
        if self._fields[0].common >= 1:
            return stems
        return [stem for stem in stems if 0 not in self._left_out.get(stem, ())]

    def action(self, number: int) -> Actions:
        """Return what a document does."""
        return self._documents[self._slots[number]].action

    def frequency(self, term: str) -> int:
        """Return how many documents contain a stem."""
        if term in self._left_out:
            return len(self._numbers(term))
        return self._postings[term].documents if term in self._postings else 0

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
        """Return what a term adds to documents that contain it: at least to those ``among``, possibly to others too."""
        numbers, gains = self._gains(term)
        if among is None or len(numbers) < _LONG_LIST * len(among):
            return zip(numbers, gains, strict=True)
        places = ((number, bisect_left(numbers, number)) for number in among)
        return [(number, gains[place]) for number, place in places if place < len(numbers) and numbers[place] == number]

    @cached_property
    def _lexicon(self) -> Lexicon:
        self.inverted.lexicon.learn(self._postings)
        return self.inverted.lexicon

    def _numbers(self, term: str) -> Sequence[int]:
        """Return the documents that contain a stem, in ascending order."""
        return self._gains(term)[0]

    def _gains(self, term: str) -> tuple[Sequence[int], Sequence[float]]:
        """Return the documents that contain a stem, in ascending order, and what it adds to the score of each."""
        gained = self._gained.get(term)
        if gained is None:
            posting = self._postings.get(term)
            if posting is None:
                return (), ()
            # Two threads may both compute it; the result is the same, because the input is immutable.
            numbers, frequencies = self._weighted_frequencies(term, posting)
            rare = rarity(len(numbers), self.size)
            gained = self._gained[term] = numbers, gains(frequencies, rare)
        return gained

    def _weighted_frequencies(self, term: str, posting: Posting) -> tuple[Sequence[int], "array[float]"]:
        # BM25F: fields are summed before saturation, so that a word in two fields does not count like two words.
        cells, counts = posting.cells, posting.counts
        if term in self._left_out:
            places = {*range(len(self._fields))}.difference(self._left_out[term])
            telling = [*in_fields(places, len(self._fields), cells)]
            cells, counts = [*compress(cells, telling)], compress(counts, telling)
        added = map(mul, map(self._weights.__getitem__, cells), counts)
        numbers: list[int] = []
        frequencies: list[float] = []
        # The cells of a document are next to each other, because they are in order.
        for number, frequency in zip(map(self._number_of.__getitem__, cells), added, strict=True):
            if numbers and numbers[-1] == number:
                frequencies[-1] += frequency
            else:
                numbers.append(number)
                frequencies.append(frequency)
        if self._are_slots_in_order:
            return numbers, array("f", frequencies)
        by_number = dict(zip(numbers, frequencies, strict=True))
        numbers.sort()
        return numbers, array("f", map(by_number.__getitem__, numbers))


def _left_out(inverted: Inverted) -> Mapping[str, Collection[int]]:
    """Return the stems that are ignored in some fields, with these fields."""
    left_out: defaultdict[str, set[int]] = defaultdict(set)
    for place, stems in inverted.common.items():
        for stem in stems:
            left_out[stem].add(place)
    return dict(left_out)


def _weights(fields: Sequence[Field], lengths: Sequence[int], size: int) -> Sequence[float]:
    """Return the weight of a single occurrence of a word in each cell."""
    weights = [0.0] * len(lengths)
    for place, field in enumerate(fields):
        of_field = lengths[place :: len(fields)]
        average = sum(of_field) / max(size, 1)
        # Few distinct lengths: each weight is computed once.
        weighed = {length: share(field, length, average) if length else 0.0 for length in set(of_field)}
        weights[place :: len(fields)] = map(weighed.__getitem__, of_field)
    return weights


def _by_cell(slots: Sequence[int], width: int, cells: int) -> Sequence[int]:
    """Return the number of the document that each cell belongs to."""
    by_slot = [0] * (cells // width)
    for number, slot in enumerate(slots):
        by_slot[slot] = number
    numbers = [0] * cells
    for place in range(width):
        numbers[place::width] = by_slot
    return numbers


def share(field: Field, length: int, average: float) -> float:
    """Return the weight of one occurrence in a field of ``length`` words, which has ``average`` words on average."""
    return field.weight / (1 - field.b + field.b * length / average)


def leading(scores: Mapping[int, float], count: int) -> Mapping[int, float]:
    """Return the ``count`` highest scores; ties go to the lowest numbers."""
    if len(scores) <= count:
        return scores
    least = nlargest(count, scores.values())[-1]
    best = {number: score for number, score in scores.items() if score >= least}
    equal = sorted(number for number, score in best.items() if score == least)
    for number in equal[len(equal) + count - len(best) :]:
        del best[number]
    return best


def rarity(having: int, size: int) -> float:
    """Return the rarity weight (IDF) of a word that ``having`` of ``size`` documents contain."""
    # Adding 1 keeps it non-negative; the classic form is negative for words that most documents contain.
    return log(1 + (size - having + 0.5) / (having + 0.5))


def gains(frequencies: "array[float]", rare: float) -> "array[float]":
    """Return what a term of rarity ``rare`` adds to the score of each document, by its weighted frequency there."""
    most = rare * (_K1 + 1)
    return array("f", [most * value / (_K1 + value) for value in frequencies])
