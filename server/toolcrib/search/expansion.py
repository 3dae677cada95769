"""Expands the words of a query to words of some documents: typos, compounds, related forms and synonyms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from toolcrib.search.english import Synonyms, kindred_stems
from toolcrib.search.postings import Postings, Standing
from toolcrib.search.query import FRAMING_WORDS, Terms

_REPAIRED = 0.7
"""Weight of a word found only in another spelling: misspelt, split in two, or joined with the next one."""

_KINDRED = 0.5
"""Weight of the agent noun of a verb, or of the verb of an agent noun."""

_SYNONYM = 0.4
"""Weight of a synonym, whose rarity is capped by that of the original word; see :class:`Standing`."""

_TELLING_MIN = 0.1
"""A synonym with less than this share of the maximum rarity is in too many documents to count."""

_PART_MIN, _COMPOUND_MAX = 3, 40
"""Minimum length of a part of a compound, and maximum length of a word that is split as one."""

_REPAIRS_MAX = 2
"""Maximum number of corrections of a misspelt word."""


@dataclass(frozen=True, slots=True)
class Concept:
    """One word of a query. ``stems`` are those it means here, if any; ``rarity`` is its weighted rarity.

    ``is_framing``: it says that something is wanted, not what.
    """

    rarity: float
    stems: Sequence[str]
    is_framing: bool


@dataclass(frozen=True, slots=True)
class Meaning:
    """A query in the words of the documents. ``weights`` has the weight of each stem that means a word of the query.

    ``standing`` are the synonyms of its words; ``named`` has both, for matching names.
    """

    concepts: Sequence[Concept]
    weights: Mapping[str, float]
    standing: Sequence[Standing]
    named: Mapping[str, float]


class Meanings:
    """Finds what words mean in the documents behind ``postings``."""

    def __init__(self, postings: Postings, stem: Callable[[str], str], synonyms: Synonyms) -> None:
        self._postings, self._stem, self._synonyms = postings, stem, synonyms

    def of(self, terms: Terms) -> Meaning:
        """Return what words mean, weighted as in ``terms``."""
        by_stem: dict[str, str] = {}
        counted: dict[str, float] = {}
        for term, weight in terms.items():
            stem = self._stem(term)
            by_stem.setdefault(stem, term)
            counted[stem] = max(weight, counted.get(stem, 0.0))
        weights, meant = self._meant(by_stem, counted)
        # A misspelt word is as rare as its correction: its own spelling occurs nowhere, which would make it the rarest.
        concepts = [
            Concept(
                self._postings.rarity(stems[0] if stems else stem) * counted[stem],
                stems,
                by_stem[stem] in FRAMING_WORDS,
            )
            for stem, stems in meant.items()
        ]
        standing = [
            Standing(stems, synonyms)
            for stem, stems in meant.items()
            if (synonyms := self._standing(stem, stems, weights, counted[stem]))
        ]
        named = dict(weights)
        # A copy, because synonyms of synonyms do not count.
        for stem, weight in weights.items():
            for other in self._synonyms.get(stem, ()):
                named.setdefault(other, _SYNONYM * weight)
        return Meaning(concepts, weights, standing, named)

    def _meant(
        self, by_stem: Mapping[str, str], counted: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, list[str]]]:
        """Return the weights of stems of the documents, and the stems that each stem of the query means."""
        weights: dict[str, float] = {}
        meant: dict[str, list[str]] = {}
        for stem, term in by_stem.items():
            known = stem in self._postings
            meant[stem] = [stem] if known else self._repaired(stem, term)
            for each in meant[stem]:
                weights[each] = max(weights.get(each, 0.0), counted[stem] * (1.0 if known else _REPAIRED))
        # Two words of the query may be one in the documents: "web hook" and "webhook".
        for (one, first), (other, second) in pairwise(by_stem.items()):
            whole = self._stem(first + second)
            if whole in self._postings:
                weights.setdefault(whole, _REPAIRED * max(counted[one], counted[other]))
                meant[one].append(whole)
                meant[other].append(whole)
        for stem, stems in meant.items():
            for kindred in kindred_stems(stem):
                if kindred in self._postings and kindred not in weights:
                    weights[kindred] = _KINDRED * counted[stem]
                    stems.append(kindred)
        return weights, meant

    def _standing(
        self, stem: str, stems: Sequence[str], weights: Mapping[str, float], counted: float
    ) -> Mapping[str, float]:
        """Return the weights of those synonyms of one query word that documents contain."""
        found: dict[str, float] = {}
        least = _TELLING_MIN * self._postings.rarity_max
        told = self._postings.rarity(stems[0]) if stems else None
        for each in stems or (stem,):
            for other in self._synonyms.get(each, ()):
                if other in weights or other in found or other not in self._postings:
                    continue
                rarity = self._postings.rarity(other)
                if rarity >= least:
                    # A rare synonym of a common word must not count more than the word itself.
                    found[other] = _SYNONYM * counted * (1.0 if told is None else min(1.0, told / rarity))
        return found

    def _repaired(self, stem: str, term: str) -> list[str]:
        """Return the stems that an unknown word may mean: if it is misspelt, or two words written as one."""
        # A typo in the ending gives another stem, so the word itself is looked up as well.
        near = dict.fromkeys((*self._postings.near(stem), *self._postings.near(term)))
        if near:
            # The word that most documents contain is the likeliest to be meant.
            return sorted(near, key=lambda each: -self._postings.frequency(each))[:_REPAIRS_MAX]
        for place in range(_PART_MIN, min(len(term), _COMPOUND_MAX) - _PART_MIN + 1):
            parts = [self._stem(term[:place]), self._stem(term[place:])]
            if all(part in self._postings for part in parts):
                return parts
        return []
