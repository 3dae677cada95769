"""Ranks documents for a query: fielded BM25, weighed by coverage, action and clauses, and boosted by learned words."""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest
from itertools import chain, compress, islice
from operator import lt, mul
from types import MappingProxyType

from toolcrib.base.text import STOP_WORDS
from toolcrib.search.capabilities import Capabilities
from toolcrib.search.confidence import NO_EVIDENCE, Evidence, is_sure
from toolcrib.search.english import Synonyms
from toolcrib.search.postings import Inverted, Lexicon, Posting, Postings, in_fields, rarity
from toolcrib.search.query import (
    BESIDE,
    NO_REQUESTED_ACTION,
    Actions,
    ExpandedQuery,
    Part,
    Query,
    QueryExpansion,
    RequestedAction,
    SynonymGroup,
    Verbs,
    agreement,
    parsed,
    parted,
    plain,
)

_K1 = 1.8
_LONG_LIST, _LONG_GAINS = 10, 4
"""A list longer than this many times the number of lookups is binary-searched instead of scanned, which takes longer
where there is something to compute for each number.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of documents. ``weight`` is the weight of a word in it; ``b`` the length normalization, from 0 to 1.

    ``common``: a word found in this field of a larger share of the documents is ignored there. ``aside``: it has
    examples, whose words make no answer sure.
    """

    weight: float
    b: float
    common: float = 1.0
    aside: bool = False


class FieldedBm25:
    """Fielded BM25 over a set of documents: the contribution of each word to each score, computed once per word.

    ``slots`` are the documents' slots in ``inverted``, which has no others; a document's number is its index there.
    """

    def __init__(self, inverted: Inverted, slots: Sequence[int], fields: Sequence[Field]) -> None:
        self.inverted, self._slots, self._fields = inverted, slots, fields
        self._postings, self._documents = inverted.postings, inverted.documents
        self._asides = frozenset(place for place, field in enumerate(fields) if field.aside)
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

    def only_aside(self, stems: Collection[str], number: int) -> Collection[str]:
        """Return those of ``stems`` that a document contains in fields of examples alone."""
        width = len(self._fields)
        begin = self._slots[number] * width
        found: list[str] = []
        for stem in stems if self._asides else ():
            cells = self._postings[stem].cells if stem in self._postings else ()
            own = cells[bisect_left(cells, begin) : bisect_left(cells, begin + width)]
            if own and self._asides.issuperset(cell - begin for cell in own):
                found.append(stem)
        return found

    def scores(
        self,
        weights: Mapping[str, float],
        among: Collection[int] | None = None,
        synonyms: Sequence[SynonymGroup] = (),
    ) -> dict[int, float]:
        """Return the scores of the documents ``among`` (None: all) that contain any of these stems; higher is better.

        The weight of ``synonyms`` depends on what else a document contains.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            for number, gain in self._gains_of(term, among):
                scores[number] += weight * gain
        for each in synonyms:
            words = (self._numbers(term) if among is None else self.having(term, among) for term in each.words)
            said = set(chain.from_iterable(words))
            for term, weight in each.weights.items():
                beside = weight * BESIDE
                for number, gain in self._gains_of(term, among):
                    scores[number] += (beside if number in said else weight) * gain
        return scores

    def _gains_of(self, term: str, among: Collection[int] | None) -> Iterable[tuple[int, float]]:
        """Return what a term adds to the score of each document ``among`` (None: all) that contains it."""
        numbers, gains = self._gains(term)
        if among is None:
            return zip(numbers, gains, strict=True)
        if len(numbers) < _LONG_GAINS * len(among):
            return [pair for pair in zip(numbers, gains, strict=True) if pair[0] in among]
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


def gains(frequencies: "array[float]", rare: float) -> "array[float]":
    """Return what a term of rarity ``rare`` adds to the score of each document, by its weighted frequency there."""
    most = rare * (_K1 + 1)
    return array("f", [most * value / (_K1 + value) for value in frequencies])


_COVERAGE = 0.75
"""Maximum gain for containing all of the query's words, each weighted by its rarity."""

_NAME_COVERAGE = 0.9
"""Maximum gain if the query contains the document's whole name."""

_PART, _OF_A_PART = 0.3, 20
"""The bonus for the best match of one part of a long request, relative to the highest relevance, and how many documents
per part can get it.
"""

_HALF_LEVEL, _LONG_QUERY = 2.0, 16
"""The relevance, in units of the rarest word, at which ``level`` is one half; and the number of query words above which
it grows in proportion.
"""

_RARE_WORD = 1.17
"""The rarity of a word that occurs nowhere, relative to one that occurs in one of about a thousand documents."""

_SERVES, _SHARE_POWER, _SERVED_MAX = 3.0, 3, 3
"""Maximum gain for showing a capability that the query asks for; the power of its share of the query, which lets only
those count that have most of it; and how many capabilities count (ADR 62).
"""

_WEIGHED_MIN = 100
"""Minimum number of documents, ranked by BM25 alone, that are reranked by coverage."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best documents as (number, relevance), relevance above 0, best first, and the evidence for the first."""

    matches: tuple[tuple[int, float], ...] = ()
    evidence: Evidence = NO_EVIDENCE


class Relevance:
    """Ranks documents by fielded BM25, typos, synonyms, overlap of query and name, and action.

    The result depends only on the documents behind ``postings``, so it is valid for one set of visible rows. Cheap to
    create, and as thread-safe as its postings.
    """

    def __init__(
        self,
        postings: Postings,
        stem: Callable[[str], str],
        synonyms: Synonyms,
        verbs: Verbs | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        self._postings, self._stem, self._verbs, self._capabilities = postings, stem, verbs, capabilities
        self._expansion = QueryExpansion(postings, stem, synonyms)

    def knows(self, word: str) -> bool:
        """Return whether any document contains a lower-case word, in any inflected form."""
        return self._stem(word) in self._postings

    def rank(self, text: str, among: Collection[int] | None, count: int) -> Ranked:
        """Return up to ``count`` of the documents ``among`` (None: all).

        Stop words count only if the other words find nothing.
        """
        for query in (parsed(text), plain(text)):
            if query.terms:
                ranked = self._ranked(query, among, count)
                if ranked.matches:
                    return ranked
        return Ranked()

    def _ranked(self, query: Query, among: Collection[int] | None, count: int) -> Ranked:
        query = parted(query, self._verbs) if self._verbs else query
        expanded = self._expansion.expand(query.terms)
        whole = self._serving(self._weighed(self._requested(query), expanded, among, count), expanded)
        if not whole.relevances:
            return Ranked()
        relevances, parts = whole.relevances, list[_Weighed]()
        if query.parts:
            # Only documents found for the whole request are reranked, so this is cheap.
            found = frozenset(relevances)
            parts = [
                self._weighed(self._requested(part), self._expansion.expand(part.terms), found, _WEIGHED_MIN)
                for part in query.parts
            ]
            relevances = _by_parts(relevances, parts)
        matches = sorted(relevances.items(), key=lambda pair: (-pair[1], pair[0]))[:count]
        (first, highest), second = matches[0], matches[1][1] if len(matches) > 1 else 0.0
        agreeing = [replace(whole, relevances=relevances), *(each for each in parts if each.first == first)]
        evidence = Evidence(
            level=max(self._level(each, first) for each in agreeing),
            coverage=max(each.coverage.get(first, 0.0) for each in agreeing),
            gap=(highest - second) / highest,
            words=self._most_words(expanded, dict(matches)),
            length=sum(not each.is_framing for each in expanded.concepts) or len(expanded.concepts),
            served=(whole.raised.get(first, 1.0) - 1) / _SERVES,
        )
        if is_sure(evidence) and (expanded.is_corrected or self._postings.only_aside(expanded.stems, first)):
            # A name that no document has may be one letter from a common word, or a value in an example: that must not
            # make an answer sure.
            agreed = [query, *(part for part, each in zip(query.parts, parts, strict=True) if each.first == first)]
            evidence = replace(evidence, as_said=is_sure(replace(evidence, **self._as_said(agreed, first))))
        return Ranked(tuple(matches), evidence)

    def _as_said(self, agreed: Sequence[Part], number: int) -> Mapping[str, float]:
        """Return the level and the coverage of a document for a query and parts of it, by what it says of itself.

        Words are taken as they are spelled, and examples do not count.
        """
        best = {"level": 0.0, "coverage": 0.0}
        for asked in agreed:
            expanded = self._expansion.expand(asked.terms, corrected=False)
            expanded = expanded.without(self._postings.only_aside(expanded.stems, number))
            weighed = self._weighed(self._requested(asked), expanded, frozenset((number,)), 1)
            if number in weighed.relevances:
                best["level"] = max(best["level"], self._level(weighed, number))
                best["coverage"] = max(best["coverage"], weighed.coverage[number])
        return best

    def _level(self, weighed: "_Weighed", number: int) -> float:
        """Return the relevance of a document, relative to a word that only one document contains."""
        relevance = weighed.relevances[number] / weighed.raised.get(number, 1.0)
        rare = self._reference_rarity(weighed.coverage.get(number, 0.0))
        return relevance / (relevance + _HALF_LEVEL * rare * max(1.0, weighed.words / _LONG_QUERY))

    def _weighed(
        self, requested: RequestedAction, expanded: ExpandedQuery, among: Collection[int] | None, count: int
    ) -> "_Weighed":
        """Return the relevance of the best documents."""
        scores = self._postings.scores(expanded.weights, among, expanded.synonyms)
        # More than requested: coverage may raise one from further down, and the limit must not change any score.
        best = leading(scores, max(count, _WEIGHED_MIN))
        if not best:
            return _Weighed({}, {}, len(expanded.concepts), {})
        coverage = self._coverage(expanded, best)
        # Hundreds of documents have a few distinct actions between them.
        agreed: dict[Actions, float] = {}
        weighed: dict[int, float] = {}
        for number, score in best.items():
            performed = self._postings.action(number)
            if performed not in agreed:
                agreed[performed] = agreement(requested, performed)
            met = (1 + _COVERAGE * coverage[number]) * (1 + _NAME_COVERAGE * self._name_coverage(expanded, number))
            weighed[number] = score * met * agreed[performed]
        return _Weighed(weighed, coverage, len(expanded.concepts), {})

    def _serving(self, weighed: "_Weighed", expanded: ExpandedQuery) -> "_Weighed":
        """Raise the documents that show what the query asks for in the ways of people.

        Of the capabilities that documents show, the best few count, by how much of the query their ways of asking have.
        """
        if self._capabilities is None:
            return weighed
        asked = (each for each in self._capabilities.asked(expanded.said) if each.mark in self._postings)
        raised: dict[int, float] = {}
        most = 0.0
        for each in islice(asked, _SERVED_MAX):
            most = most or each.score
            gain = 1 + _SERVES * each.score / most * each.share**_SHARE_POWER
            for number in self._postings.having(each.mark, weighed.relevances):
                raised[number] = max(gain, raised.get(number, 0.0))
        relevances = {number: value * raised.get(number, 1.0) for number, value in weighed.relevances.items()}
        return replace(weighed, relevances=relevances, raised=raised) if raised else weighed

    def _requested(self, asked: Part) -> RequestedAction:
        """Return the action that a request of one part, or one part, asks for; of several parts each has its own."""
        is_split = isinstance(asked, Query) and asked.parts
        return self._verbs.requested(asked.text) if self._verbs and not is_split else NO_REQUESTED_ACTION

    def _reference_rarity(self, coverage: float) -> float:
        """Return the rarity of a word that is rare here, lowered in small sets by ``coverage``.

        Among few documents every word is common, which is no evidence against a document that contains them all; among
        many it makes no difference.
        """
        of_one = min(self._postings.rarity_max, _RARE_WORD * self._postings.rarity_of_one)
        return self._postings.rarity_max + coverage * (of_one - self._postings.rarity_max)

    def _most_words(self, expanded: ExpandedQuery, numbers: Mapping[int, float]) -> float:
        """Return the largest share of the query's significant words that one of these documents contains."""
        concepts = [each for each in expanded.concepts if not each.is_framing] or expanded.concepts
        having = (chain.from_iterable(self._postings.having(stem, numbers) for stem in each.stems) for each in concepts)
        met = Counter(chain.from_iterable(map(set, having)))
        return max(met.values(), default=0) / len(concepts)

    def _coverage(self, expanded: ExpandedQuery, numbers: Mapping[int, float]) -> dict[int, float]:
        """Return the share of the query that each document contains."""
        covered = dict.fromkeys(numbers, 0.0)
        total = sum(concept.rarity for concept in expanded.concepts)
        for concept in expanded.concepts:
            having: dict[int, float] = {}
            # In ascending order of weight: of several stems that a document contains, the best counts.
            for stem in sorted(concept.stems, key=expanded.weights.__getitem__):
                having |= dict.fromkeys(self._postings.having(stem, covered), expanded.weights[stem])
            for number, weight in having.items():
                covered[number] += weight * concept.rarity / total
        return covered

    def _name_coverage(self, expanded: ExpandedQuery, number: int) -> float:
        """Return the share of a document's name that the query contains, weighted by rarity."""
        name = self._postings.name(number)
        # True of most documents, and checked much faster.
        if expanded.name_weights.keys().isdisjoint(name):
            return 0.0
        met = whole = 0.0
        for stem in name:
            if _is_searchable(stem):
                rarity = self._postings.rarity(stem)
                whole += rarity
                met += rarity * expanded.name_weights.get(stem, 0)
        return met / whole if met else 0.0


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The relevance of the best documents for a request of this many ``words``, and how much of it each contains.

    ``raised`` has the factors in relevances for showing a capability, which are no evidence by words.
    """

    relevances: Mapping[int, float]
    coverage: Mapping[int, float]
    words: int
    raised: Mapping[int, float]

    @property
    def first(self) -> int | None:
        """The best document."""
        return next(iter(leading(self.relevances, 1)), None)


def _by_parts(relevances: Mapping[int, float], parts: Sequence[_Weighed]) -> Mapping[int, float]:
    """Return relevances in which the best matches for each part of a long request get a bonus."""
    shares: dict[int, float] = {}
    for part in parts:
        highest = max(part.relevances.values(), default=0.0)
        for number in leading(part.relevances, _OF_A_PART):
            shares[number] = max(shares.get(number, 0.0), part.relevances[number] / highest)
    most = max(relevances.values())
    together = {number: value + _PART * most * shares.get(number, 0.0) for number, value in relevances.items()}
    least = sorted(together.values())[-min(len(parts), len(together))]
    firsts = [part.first for part in parts if part.first is not None]
    return together | {number: max(together[number], least) for number in firsts}


def _is_searchable(stem: str) -> bool:
    """Return whether a word of a name is one that a searching person would use."""
    return stem not in STOP_WORDS and not stem.isdigit()


SUPPORT_MAX = 0.1
"""Maximum gain from what is said about a group of documents, relative to the best text relevance."""

_MOSTLY, _OF_A_GROUP = 0.5, 5
"""With this share of the query, as many documents of a group are found although none of them has any of its words."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is said about groups of documents, and not by any one of them.

    ``stems`` are the words about each group, ``members`` the numbers of its documents, in order; ``group_of`` returns
    the group of a document.
    """

    stems: Mapping[str, frozenset[str]]
    members: Mapping[str, Sequence[int]]
    group_of: Callable[[int], str]


def supported(
    ranked: Ranked,
    context: Context,
    asked: Collection[str],
    rarity: Callable[[str], float],
    among: Collection[int] | None = None,
) -> Ranked:
    """Return a ranking in which documents gain for the query's stems that are said about their group.

    Each gains by the share of the query, weighted by rarity. Of a group about which most of the query is said, a few
    documents ``among`` (None: all) are found besides. Evidence for the best text match applies to no other document.
    """
    rarities = {stem: rarity(stem) for stem in asked}
    total = sum(rarities.values())
    said = {group: stems.intersection(asked) for group, stems in context.stems.items()}
    shares = {group: sum(map(rarities.__getitem__, met)) / total for group, met in said.items() if met}
    if not shares:
        return ranked
    relevances = dict(ranked.matches)
    gain = SUPPORT_MAX * (ranked.matches[0][1] if ranked.matches else _BASE_ALONE)
    for number in relevances:
        relevances[number] += gain * shares.get(context.group_of(number), 0.0)
    for group, share in shares.items():
        if share >= _MOSTLY:
            findable = (each for each in context.members[group] if among is None or each in among)
            for number in islice(findable, _OF_A_GROUP):
                relevances.setdefault(number, gain * share)
    return _reordered(ranked, relevances)


BOOST_MAX = 0.4
"""Maximum gain from usage, relative to the best text relevance: anything further behind never comes first because of
it.
"""

_BASE_ALONE = 1.0
"""The base of gains where no text matches."""

_SHARE_MIN = 0.3
"""Minimum share of the query that a lesson must cover."""

Lessons = Mapping[str, Mapping[int, float]]
"""For each learnable word of a query (a stem): how surely it means each document, between 0 and 1, both exclusive."""

NO_LESSONS: Lessons = MappingProxyType({})


def boosted(ranked: Ranked, lessons: Lessons, rarity: Callable[[str], float]) -> Ranked:
    """Return a ranking in which documents gain for the query words that were taught for them.

    Each gains by the share of the query that it was taught for, words weighted by rarity. Evidence for the best text
    match applies to no other document, so a lesson never raises confidence.
    """
    shares = _shares(lessons, rarity)
    if not shares:
        return ranked
    relevances = dict(ranked.matches)
    best = ranked.matches[0][1] if ranked.matches else _BASE_ALONE
    for number, share in shares.items():
        relevances[number] = relevances.get(number, 0.0) + BOOST_MAX * share * best
    return _reordered(ranked, relevances)


def _reordered(ranked: Ranked, relevances: Mapping[int, float]) -> Ranked:
    """Return a ranking by other relevances; evidence for a first match that is no longer first is dropped."""
    matches = tuple(sorted(relevances.items(), key=lambda pair: (-pair[1], pair[0])))
    if not ranked.matches or matches[0][0] != ranked.matches[0][0]:
        return replace(ranked, matches=matches, evidence=replace(NO_EVIDENCE, words=ranked.evidence.words))
    return replace(ranked, matches=matches)


def _shares(lessons: Lessons, rarity: Callable[[str], float]) -> Mapping[int, float]:
    rarities = {word: rarity(word) for word in lessons}
    total = sum(rarities.values())
    shares: dict[int, float] = {}
    for word, sureness in lessons.items():
        for number, sure in sureness.items():
            shares[number] = shares.get(number, 0.0) + sure * rarities[word] / total
    return {number: share for number, share in shares.items() if share >= _SHARE_MIN}
