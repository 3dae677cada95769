"""How well each of some documents answers a query: the one ranking of tools and of skills.

Knows words and the numbers of documents; never knows what a document is, who may see it or how a score is shown.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from toolcrib.base.text import STOP_WORDS
from toolcrib.search.actions import NOTHING_ASKED, Actions, Asked, Verbs, agreement
from toolcrib.search.bm25 import leading
from toolcrib.search.meaning import Meaning, Meanings
from toolcrib.search.postings import Postings
from toolcrib.search.query import Part, Query, parsed, plain
from toolcrib.search.synonyms import Synonyms

_COVERAGE = 0.75
"""Maximum gain for containing all of the query's words, each weighted by its rarity."""

_NAME_COVERAGE = 0.9
"""Maximum gain if the query contains the document's whole name."""

_PART, _OF_A_PART = 0.3, 20
"""The bonus for the best match of one part of a long request, relative to the highest relevance, and how many documents
per part can get it.
"""

_MUCH, _LONG_QUERY = 2.0, 16
"""The relevance, in units of the rarest word, at which ``level`` is one half; and the number of query words above which
it grows in proportion.
"""

_TELLING = 1.17
"""The rarity of a word that occurs nowhere, relative to one that occurs in one of about a thousand documents."""

_WEIGHED_MIN = 100
"""Minimum number of documents, ranked by BM25 alone, that are reranked by coverage."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for the first match, each value from 0 to 1, regardless of how bad the others are.

    ``level``: its relevance, relative to a word that only one document contains. ``coverage``: the share of the query
    that it contains, weighted by rarity; a misspelt word counts in part. ``gap``: the distance to the second match.
    ``words``: the largest unweighted share of the query's words that any of the matches contains. ``agreed``: its
    factor for doing what is asked.
    """

    level: float
    coverage: float
    gap: float
    words: float
    agreed: float = 1.0


NO_EVIDENCE, CERTAINTY = Evidence(0, 0, 0, 0), Evidence(1, 1, 1, 1)


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
        self, postings: Postings, stem: Callable[[str], str], synonyms: Synonyms, verbs: Verbs | None = None
    ) -> None:
        self._postings, self._stem, self._verbs = postings, stem, verbs
        self._meanings = Meanings(postings, stem, synonyms)

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
        meaning = self._meanings.of(query.terms)
        weighed, coverage = self._weighed(query.text, meaning, among, count)
        if not weighed:
            return Ranked()
        if query.parts:
            weighed = self._by_parts(weighed, query.parts)
        matches = sorted(weighed.items(), key=lambda pair: (-pair[1], pair[0]))[:count]
        (first, highest), second = matches[0], matches[1][1] if len(matches) > 1 else 0.0
        covered = coverage.get(first, 0.0)
        much = _MUCH * self._telling(covered) * max(1.0, len(meaning.concepts) / _LONG_QUERY)
        most = self._most_words(meaning, dict(matches))
        agreed = agreement(self._asked(query.text), self._postings.action(first))
        evidence = Evidence(highest / (highest + much), covered, (highest - second) / highest, most, agreed)
        return Ranked(tuple(matches), evidence)

    def _by_parts(self, weighed: Mapping[int, float], parts: Sequence[Part]) -> Mapping[int, float]:
        """Return relevances in which the best matches for each part of a long request get a bonus.

        Only documents found for the whole request are reranked, so this is cheap.
        """
        among = frozenset(weighed)
        shares: dict[int, float] = {}
        firsts: list[int] = []
        for part in parts:
            found, _ = self._weighed(part.text, self._meanings.of(part.terms), among, _WEIGHED_MIN)
            highest = max(found.values(), default=0.0)
            firsts += leading(found, 1)
            for number in leading(found, _OF_A_PART):
                shares[number] = max(shares.get(number, 0.0), found[number] / highest)
        most = max(weighed.values())
        together = {number: value + _PART * most * shares.get(number, 0.0) for number, value in weighed.items()}
        least = sorted(together.values())[-min(len(parts), len(together))]
        return together | {number: max(together[number], least) for number in firsts}

    def _weighed(
        self, text: str, meaning: Meaning, among: Collection[int] | None, count: int
    ) -> tuple[Mapping[int, float], Mapping[int, float]]:
        """Return the relevance of the best documents, and the share of the query that each contains."""
        scores = self._postings.scores(meaning.weights, among, meaning.standing)
        # More than requested: coverage may lift one from further down, and the limit must not change any score.
        best = leading(scores, max(count, _WEIGHED_MIN))
        if not best:
            return {}, {}
        coverage = self._coverage(meaning, best)
        asked = self._asked(text)
        agreed: dict[Actions, float] = {}
        weighed: dict[int, float] = {}
        for number, score in best.items():
            done = self._postings.action(number)
            if done not in agreed:
                agreed[done] = agreement(asked, done)
            met = (1 + _COVERAGE * coverage[number]) * (1 + _NAME_COVERAGE * self._name_coverage(meaning, number))
            weighed[number] = score * met * agreed[done]
        return weighed, coverage

    def _asked(self, text: str) -> Asked:
        return self._verbs.asked(text) if self._verbs else NOTHING_ASKED

    def _telling(self, coverage: float) -> float:
        """Return the rarity of a word that is rare here, lowered in small sets by ``coverage``.

        Among few documents every word is common, which is no evidence against a document that contains them all; among
        many it makes no difference.
        """
        of_one = min(self._postings.rarity_max, _TELLING * self._postings.rarity_of_one)
        return self._postings.rarity_max + coverage * (of_one - self._postings.rarity_max)

    def _most_words(self, meaning: Meaning, numbers: Mapping[int, float]) -> float:
        """Return the largest share of the query's significant words that one of these documents contains."""
        concepts = [each for each in meaning.concepts if not each.is_framing] or meaning.concepts
        having = (chain.from_iterable(self._postings.having(stem, numbers) for stem in each.stems) for each in concepts)
        met = Counter(chain.from_iterable(map(set, having)))
        return max(met.values(), default=0) / len(concepts)

    def _coverage(self, meaning: Meaning, numbers: Mapping[int, float]) -> dict[int, float]:
        """Return the share of the query that each document contains."""
        covered = dict.fromkeys(numbers, 0.0)
        total = sum(concept.rarity for concept in meaning.concepts)
        for concept in meaning.concepts:
            having: dict[int, float] = {}
            # In ascending order of weight: of several stems that a document contains, the best counts.
            for stem in sorted(concept.stems, key=meaning.weights.__getitem__):
                having |= dict.fromkeys(self._postings.having(stem, covered), meaning.weights[stem])
            for number, weight in having.items():
                covered[number] += weight * concept.rarity / total
        return covered

    def _name_coverage(self, meaning: Meaning, number: int) -> float:
        """Return the share of a document's name that the query contains, weighted by rarity."""
        met = whole = 0.0
        for stem in self._postings.name(number):
            if _is_telling(stem):
                rarity = self._postings.rarity(stem)
                whole += rarity
                met += rarity * meaning.named.get(stem, 0)
        return met / whole if met else 0.0


def _is_telling(stem: str) -> bool:
    """Return whether a word of a name is one that a searching person would use."""
    return stem not in STOP_WORDS and not stem.isdigit()
