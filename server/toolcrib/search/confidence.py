"""How sure an answer is: the evidence for its first match, the likelihood that it is right, and the word for that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from types import MappingProxyType
from typing import Literal

Confidence = Literal["high", "low", "none"]
"""The word for how likely the first match is the intended one."""

MEANINGS: Mapping[Confidence, str] = MappingProxyType(
    {
        "high": "the first is right",
        "low": "likely among these, look before you {use}",
        "none": "none of these is likely",
    }
)
"""What each word says of the matches, the surest first; ``use`` is what one does with a match."""

_LEVEL, _COVERAGE, _GAP, _LENGTH = 6.2, 2.9, 4.9, 0.8
_BASE = -8.1
"""Coefficients of a logistic regression on whether the first match is right, all of them positive.

Fitted to the tuning halves of four catalogs and to requests that nothing serves; ``benchmarks/confidence_fit.py``
prints them anew (ADR 43).
"""

_GAP_MAX, _LENGTH_MAX = 0.5, 24
"""A larger gap, or more words, say no more."""

_LEAD, _LEAD_MAX, _DISAGREED = 7.0, 0.15, 0.4
"""What a lead by meaning adds, up to the maximum, and what is lost if words put another match first.

Fitted likewise, with the model that the extra installs; in small catalogs leads are larger and say no more.
"""

_LIKELY = 0.75
"""Minimum likelihood of a first match that is called right."""
NEAR = 0.4
"""A match that only meaning found is unlikely with a lower cosine similarity to the query.

Of requests that a tool serves, the nearest one is right in half from there on; of those that nothing serves, three
quarters have nothing as near.
"""
_ALL_WORDS = 0.9
"""With this share of the query, a match that is no likelier than others is one of several that fit equally."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for the first match, each value but ``length`` from 0 to 1, regardless of how bad the others are.

    ``level``: its relevance, relative to a word that only one document contains. ``coverage``: the share of the query
    that it contains, weighted by rarity; a misspelt word counts in part. Both are the largest of the whole query and of
    those of its clauses for which the same match comes first. ``gap``: the distance to the second match. ``words``: the
    largest unweighted share of the query's words that any of the matches contains. ``length``: how many words of the
    query count; of a long query even the right match contains a smaller share. ``as_said``: whether it would be as good
    without words that were taken for others of nearly the same spelling and those of its examples, or is not good
    enough anyway. ``served``: how surely it shows a capability that the query asks for (ADR 62), which leaves less to
    meaning and is no evidence itself.

    Search by meaning adds ``lead``: by how much the cosine similarity of the first match exceeds that of any other,
    below 0 if another is nearer; ``is_agreed``: words alone have the same first match, which their evidence is about;
    and ``near``, where words find nothing: that similarity itself.
    """

    level: float
    coverage: float
    gap: float
    words: float
    length: int = 1
    as_said: bool = True
    served: float = 0.0
    lead: float = 0.0
    is_agreed: bool = True
    near: float | None = None

    @property
    def strength(self) -> float:
        """The estimated likelihood that the first match is right, comparable between queries; 0 if nothing is known."""
        if not self.level:
            return 0.0
        length = log(min(max(self.length, 1), _LENGTH_MAX))
        known = _LEVEL * self.level + _COVERAGE * self.coverage + _GAP * min(self.gap, _GAP_MAX) + _LENGTH * length
        meant = _LEAD * max(-_LEAD_MAX, min(self.lead, _LEAD_MAX)) - (0.0 if self.is_agreed else _DISAGREED)
        return 1 / (1 + exp(-known - meant - _BASE))


NO_EVIDENCE, CERTAINTY = Evidence(0, 0, 0, 0), Evidence(1, 1, 1, 1)


def word_for(evidence: Evidence, unlikely: float = 0.0) -> Confidence:
    """Return the word for evidence; with a strength below ``unlikely`` no match is likely, with 0 nothing is known."""
    strength = evidence.strength
    if 0 < strength < unlikely and evidence.coverage < _ALL_WORDS:
        return "none"
    if unlikely and evidence.near is not None and evidence.near < NEAR:
        return "none"
    return "high" if strength >= _LIKELY and evidence.as_said else "low"


def explained(confidence: Confidence, use: str = "call") -> str:
    """Return a word with its meaning, for whoever reads an answer; ``use`` is what one does with a match."""
    return f"confidence {confidence}: {MEANINGS[confidence].format(use=use)}"


def is_sure(evidence: Evidence) -> bool:
    """Return whether the evidence by words is strong enough to call the first match right."""
    return word_for(evidence) == "high"


def common(confidences: Sequence[Confidence]) -> Confidence:
    """Return the combined confidence that every one of several queries was answered."""
    return confidences[0] if len(set(confidences)) == 1 else "low"
