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
"""How much a document gains by having all of the query's words, each counted by its rarity."""

_NAME_COVERAGE = 0.9
"""How much a document gains where the query has all of its name."""

_PART, _OF_A_PART = 0.3, 20
"""How much of the highest relevance the best for one part of a long request has more, and how many of each part do."""

_MUCH, _LONG_QUERY = 2.0, 16
"""So many of the rarest words make a relevance of level one half; of a query with more words, in proportion more."""

_TELLING = 1.17
"""How much more a word tells that stands nowhere than one that stands in one of about a thousand documents."""

_WEIGHED_MIN = 100
"""How many documents by BM25 alone are weighed again by coverage."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for the first of some matches, each from 0 to 1, however bad the others are.

    ``level``: its relevance, measured by what one word is worth that stands in one document only. ``coverage``: the
    share of the query it has, by the rarity of words; a misspelt word counts in part. ``gap``: how far the second is
    behind. ``words``: the largest share of the query's words that any of the matches has, a word like another.
    ``agreed``: what it keeps for doing what is asked.
    """

    level: float
    coverage: float
    gap: float
    words: float
    agreed: float = 1.0


NO_EVIDENCE, CERTAINTY = Evidence(0, 0, 0, 0), Evidence(1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best documents as (number, relevance), relevance above 0, best first, and what speaks for the first."""

    matches: tuple[tuple[int, float], ...] = ()
    evidence: Evidence = NO_EVIDENCE


class Relevance:
    """Ranks documents by fielded BM25, misspellings, synonyms, how much of query and name meet, and what is done.

    Nothing but the documents behind ``postings`` counts, so it holds for one set of rows that somebody may see. Costs
    nothing to make, and is safe to use from as many threads as its postings are.
    """

    def __init__(
        self, postings: Postings, stem: Callable[[str], str], synonyms: Synonyms, verbs: Verbs | None = None
    ) -> None:
        self._postings, self._stem, self._verbs = postings, stem, verbs
        self._meanings = Meanings(postings, stem, synonyms)

    def knows(self, word: str) -> bool:
        """Return whether any document has a lower-case word, in any form."""
        return self._stem(word) in self._postings

    def rank(self, text: str, among: Collection[int] | None, count: int) -> Ranked:
        """Return up to ``count`` of the documents ``among`` (None: all).

        Stop words count only where the other words find nothing.
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
        """Return relevances in which the best for each part of a long request have a share of the highest more.

        Only what is found for the whole is looked at again, so that this costs little.
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
        """Return the relevance of the best documents, and the share of the query that each of them has."""
        scores = self._postings.scores(meaning.weights, among, meaning.standing)
        # More than are asked for: coverage may lift one from further down, and the limit must change no score.
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
        """Return what a word tells that is rare here.

        Among few documents every word is common, which says nothing against a document that has them all; among many
        it makes no difference.
        """
        of_one = min(self._postings.rarity_max, _TELLING * self._postings.rarity_of_one)
        return self._postings.rarity_max + coverage * (of_one - self._postings.rarity_max)

    def _most_words(self, meaning: Meaning, numbers: Mapping[int, float]) -> float:
        """Return the largest share of the query's telling words that one of some documents has."""
        concepts = [each for each in meaning.concepts if not each.is_framing] or meaning.concepts
        having = (chain.from_iterable(self._postings.having(stem, numbers) for stem in each.stems) for each in concepts)
        met = Counter(chain.from_iterable(map(set, having)))
        return max(met.values(), default=0) / len(concepts)

    def _coverage(self, meaning: Meaning, numbers: Mapping[int, float]) -> dict[int, float]:
        """Return the share of the query that each document has."""
        covered = dict.fromkeys(numbers, 0.0)
        total = sum(concept.rarity for concept in meaning.concepts)
        for concept in meaning.concepts:
            having: dict[int, float] = {}
            # The greatest weight last: of several stems that a document has, the best counts.
            for stem in sorted(concept.stems, key=meaning.weights.__getitem__):
                having |= dict.fromkeys(self._postings.having(stem, covered), meaning.weights[stem])
            for number, weight in having.items():
                covered[number] += weight * concept.rarity / total
        return covered

    def _name_coverage(self, meaning: Meaning, number: int) -> float:
        """Return the share of a document's name that the query has, by the rarity of words."""
        met = whole = 0.0
        for stem in self._postings.name(number):
            if _is_telling(stem):
                rarity = self._postings.rarity(stem)
                whole += rarity
                met += rarity * meaning.named.get(stem, 0)
        return met / whole if met else 0.0


def _is_telling(stem: str) -> bool:
    """Return whether a word of a name is one that somebody who looks for it would say."""
    return stem not in STOP_WORDS and not stem.isdigit()
