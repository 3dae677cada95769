"""How well each of some documents answers a query: the one ranking of tools and of skills.

Knows words and the numbers of documents; never knows what a document is, who may see it or how a score is shown.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from toolcrib.base.text import STOP_WORDS, query_terms, words
from toolcrib.search.postings import Postings
from toolcrib.search.synonyms import Synonyms

_REPAIRED = 0.7
"""Weight of a word that is there in another spelling only: with a slip, in two words, or in one with the next."""

_PART_MIN, _COMPOUND_MAX = 3, 40
"""How many letters a part of a compound has at least, and how many of a word are tried for being one."""

_REPAIRS_MAX = 2
"""How many words a misspelt one may stand for."""
_SYNONYM = 0.2
"""Weight of a synonym. With full weight synonyms do more harm than good (measured)."""
_COVERAGE = 0.75
"""How much a document gains by having all of the query's words, each counted by its rarity."""

_NAME_COVERAGE = 0.9
"""How much a document gains where the query has all of its name."""

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
    """

    level: float
    coverage: float
    gap: float
    words: float


NO_EVIDENCE, CERTAINTY = Evidence(0, 0, 0, 0), Evidence(1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best documents as (number, relevance), relevance above 0, best first, and what speaks for the first."""

    matches: tuple[tuple[int, float], ...] = ()
    evidence: Evidence = NO_EVIDENCE


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A query in the words of the documents. ``weights``: what each stem counts.

    ``concepts``: for each word of the query its rarity, and the stems that mean it; none where nothing does.
    """

    weights: Mapping[str, float]
    concepts: Sequence[tuple[float, Sequence[str]]]


class Relevance:
    """Ranks documents by fielded BM25, misspellings, synonyms, and how much of query and name meet.

    Nothing but the documents behind ``postings`` counts, so it holds for one set of rows that somebody may see. Costs
    nothing to make, and is safe to use from as many threads as its postings are.
    """

    def __init__(self, postings: Postings, stem: Callable[[str], str], synonyms: Synonyms) -> None:
        self._stem = stem
        self._synonyms = synonyms
        self._postings = postings

    def rank(self, query: str, among: Container[int] | None, count: int) -> Ranked:
        """Return up to ``count`` of the documents ``among`` (None: all).

        Stop words count only where the other words find nothing.
        """
        for terms in (query_terms(query), dict.fromkeys(words(query))):
            if terms:
                ranked = self._ranked(self._meaning(terms), among, count)
                if ranked.matches:
                    return ranked
        return Ranked()

    def _meaning(self, terms: Iterable[str]) -> _Meaning:
        by_stem = {self._stem(term): term for term in terms}
        weights: dict[str, float] = {}
        meant: list[list[str]] = []
        for stem, term in by_stem.items():
            known = stem in self._postings
            meant.append([stem] if known else self._repaired(stem, term))
            for each in meant[-1]:
                weights[each] = max(weights.get(each, 0), 1.0 if known else _REPAIRED)
        # Two words of the query may be one in the documents: "web hook" and "webhook".
        for place, (one, other) in enumerate(pairwise(by_stem.values())):
            whole = self._stem(one + other)
            if whole in self._postings:
                weights.setdefault(whole, _REPAIRED)
                meant[place].append(whole)
                meant[place + 1].append(whole)
        # A misspelt word is as rare as what it is taken for: its own spelling stands nowhere, which would make it the
        # rarest.
        concepts = [
            (self._postings.rarity(stems[0] if stems else stem), stems)
            for stem, stems in zip(by_stem, meant, strict=True)
        ]
        # A copy, because synonyms of synonyms do not count.
        for stem in list(weights):
            for other in self._synonyms.get(stem, ()):
                weights.setdefault(other, _SYNONYM)
        return _Meaning(weights, concepts)

    def _repaired(self, stem: str, term: str) -> list[str]:
        """Return the stems that a word which stands nowhere may mean: misspelt, or two words written as one."""
        # A slip in the ending gives another stem, so the word itself is looked for as well.
        near = dict.fromkeys((*self._postings.near(stem), *self._postings.near(term)))
        if near:
            # The word that most documents have is the likeliest to be meant.
            return sorted(near, key=lambda each: -self._postings.frequency(each))[:_REPAIRS_MAX]
        for place in range(_PART_MIN, min(len(term), _COMPOUND_MAX) - _PART_MIN + 1):
            parts = [self._stem(term[:place]), self._stem(term[place:])]
            if all(part in self._postings for part in parts):
                return parts
        return []

    def _ranked(self, meaning: _Meaning, among: Container[int] | None, count: int) -> Ranked:
        scores = self._postings.scores(meaning.weights, among)
        # More than are asked for: coverage may lift one from further down, and the limit must change no score.
        best = _best(scores, max(count, _WEIGHED_MIN))
        if not best:
            return Ranked()
        coverage = self._coverage(meaning, best)
        names = {number: self._name_coverage(meaning, number) for number in best}
        weighed = {
            number: score * (1 + _COVERAGE * coverage[number]) * (1 + _NAME_COVERAGE * names[number])
            for number, score in best.items()
        }
        matches = sorted(weighed.items(), key=lambda pair: (-pair[1], pair[0]))[:count]
        (first, highest), second = matches[0], matches[1][1] if len(matches) > 1 else 0.0
        much = _MUCH * self._telling(coverage[first]) * max(1.0, len(meaning.concepts) / _LONG_QUERY)
        most = self._most_words(meaning, dict(matches))
        evidence = Evidence(highest / (highest + much), coverage[first], (highest - second) / highest, most)
        return Ranked(tuple(matches), evidence)

    def _telling(self, coverage: float) -> float:
        """Return what a word tells that is rare here.

        Among few documents every word is common, which says nothing against a document that has them all; among many
        it makes no difference.
        """
        of_one = min(self._postings.rarity_max, _TELLING * self._postings.rarity_of_one)
        return self._postings.rarity_max + coverage * (of_one - self._postings.rarity_max)

    def _most_words(self, meaning: _Meaning, numbers: Mapping[int, float]) -> float:
        """Return the largest share of the query's words that one of some documents has."""
        having = (
            chain.from_iterable(self._postings.having(stem, numbers) for stem in stems) for _, stems in meaning.concepts
        )
        met = Counter(chain.from_iterable(map(set, having)))
        return max(met.values(), default=0) / len(meaning.concepts)

    def _coverage(self, meaning: _Meaning, numbers: Mapping[int, float]) -> dict[int, float]:
        """Return the share of the query that each document has."""
        covered = dict.fromkeys(numbers, 0.0)
        total = sum(rarity for rarity, _ in meaning.concepts)
        for rarity, stems in meaning.concepts:
            having: dict[int, float] = {}
            # The greatest weight last: of several stems that a document has, the best counts.
            for stem in sorted(stems, key=meaning.weights.__getitem__):
                having |= dict.fromkeys(self._postings.having(stem, covered), meaning.weights[stem])
            for number, weight in having.items():
                covered[number] += weight * rarity / total
        return covered

    def _name_coverage(self, meaning: _Meaning, number: int) -> float:
        """Return the share of a document's name that the query has, by the rarity of words."""
        met = whole = 0.0
        for stem in self._postings.name(number):
            if _is_telling(stem):
                rarity = self._postings.rarity(stem)
                whole += rarity
                met += rarity * meaning.weights.get(stem, 0)
        return met / whole if met else 0.0


def _best(scores: Mapping[int, float], count: int) -> Mapping[int, float]:
    """Return the ``count`` highest scores, of equal ones those with the lowest numbers."""
    if len(scores) <= count:
        return scores
    least = sorted(scores.values())[-count]
    best = {number: score for number, score in scores.items() if score > least}
    equal = sorted(number for number, score in scores.items() if score == least)
    return best | dict.fromkeys(equal[: count - len(best)], least)


def _is_telling(stem: str) -> bool:
    """Return whether a word of a name is one that somebody who looks for it would say."""
    return stem not in STOP_WORDS and not stem.isdigit()
