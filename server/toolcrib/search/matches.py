"""A search as it is asked for, the matches that it finds, and what they are worth: scores, confidence, notes.

Knows numbers, words and search types; never knows what a document is, how one is found or who may see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from toolcrib.base.model import SearchType
from toolcrib.base.text import QUERY_MAX
from toolcrib.search.pattern_search import OTHER_TEXT
from toolcrib.search.relevance import Evidence

T_co = TypeVar("T_co", covariant=True)

_UNIT = 10.0
"""The relevance that maps to a score of one half: about that of one rare word, so that scores spread well."""

_COVERAGE_SHARE, _GAP_SHARE, _ACTION_SHARE = 0.5, 0.15, 0.5
_STRONGEST = 2.0
"""The strength of an exact name match: more than level, coverage and gap can add up to."""
_LIKELY = 1.02
"""Minimum strength of evidence for a likely match.

Chosen on the tuned half of the repository's set, which includes requests about software that nothing there serves: of
the results rated high, the first match is right in at least eight of ten (ADR 43).
"""

_WEAK_NOTES = {
    (SearchType.EXACT, "none"): "No {noun} has this name; search_type fts finds {noun}s by what they do.",
    (SearchType.REGEX, "none"): "No name, description or tag matches the pattern.",
    (SearchType.FTS, "none"): "No {noun} has any of these words; try other words for the same thing.",
}
_FEW_WORDS = "No {noun} has most of these words; a shorter query about one action may find better ones."
_ONLY_ONE = "Only this {noun} has any of these words."
_EQUAL = "Several {noun}s fit about equally; say what it should do, and to what."
_UNSURE = "The first fits best, but not surely: look before you use it."
_MOST, _EQUAL_GAP = 0.5, 0.25
"""Below this share of matched words a note calls them few; below this gap two matches count as about equally good."""
_BEGUN_NOTE = "The names of these {noun}s only begin like this."

Confidence = Literal["high", "low", "none"]
"""How likely the first match is the intended one: it is; it is likely among the matches; none of these is likely."""

Reason = Literal["exact_path", "exact_name", "prefix", "text"]
"""Why a document was found: by its path or id, its name, a prefix of its name, or any other text (R171)."""

RANKS: Mapping[Reason, int] = {reason: rank for rank, reason in enumerate(get_args(Reason))}
"""The rank of each reason; among equal scores the lower rank comes first."""


@dataclass(frozen=True, slots=True)
class Request:
    """A search as requested. ``query`` is not blank; a full-text query of several short lines is several queries.

    ``limit`` is the maximum number of matches, at least 1.
    """

    query: str
    search_type: SearchType = SearchType.FTS
    limit: int = 8


@dataclass(frozen=True, slots=True)
class Match(Generic[T_co]):
    """A document that was found. ``match_type`` is exact if the query is its name, else the requested search type.

    ``score`` is in [0, 1], two decimals, higher is better, comparable only within one result (R49, R133).
    """

    document: T_co
    score: float
    match_type: SearchType
    reason: Reason = "text"


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """Matches, best first, of ``count`` in all. A full-text search finds at most 50 per query, plus named documents.

    ``strength`` is the strength of evidence for the first match, comparable between queries; ``confidence`` is derived
    from it. ``note`` says why little or nothing was found.
    """

    matches: tuple[Match[T_co], ...]
    count: int
    confidence: Confidence
    strength: float
    note: str | None

    @property
    def truncated(self) -> bool:
        """Return whether there are more matches than requested."""
        return self.count > len(self.matches)


def spread(relevances: Sequence[float]) -> list[float]:
    """Return relevances as scores: mapped below 1, then stretched between the lowest and the highest (C5, R53)."""
    squeezed = [relevance / (_UNIT + relevance) for relevance in relevances]
    least, greatest = min(squeezed, default=0.0), max(squeezed, default=0.0)
    if greatest == least:
        return [0.5] * len(squeezed)
    return [round((value - least) / (greatest - least), 2) for value in squeezed]


def strength_of(matches: Sequence[Match[int]], evidence: Evidence) -> float:
    """Return the strength of evidence for the first match, comparable between queries; 0 for none, most for a name."""
    if not matches:
        return 0.0
    if matches[0].match_type is SearchType.EXACT:
        return _STRONGEST
    return _strength(evidence)


def is_sure(evidence: Evidence) -> bool:
    """Return whether the evidence by words is strong enough to call the first match likely."""
    return _strength(evidence) >= _LIKELY


def _strength(evidence: Evidence) -> float:
    known = evidence.level + _COVERAGE_SHARE * evidence.coverage + _GAP_SHARE * evidence.gap
    return max(known - _ACTION_SHARE * (1 - evidence.agreed), 0.0)


def confidence_of(matches: Sequence[Match[int]], strength: float, unlikely: float = 0.0) -> Confidence:
    """Return how likely the first match is the intended one: by where a pattern matched, else by its strength.

    With a strength below ``unlikely`` no match is likely; with a strength of 0 nothing is known. Scores are not used,
    because the best of fifty bad matches has the score 1 too.
    """
    if not matches:
        return "none"
    if matches[0].match_type is SearchType.REGEX:
        return "high" if matches[0].score > OTHER_TEXT else "low"
    if 0 < strength < unlikely:
        return "none"
    return "high" if strength >= _LIKELY else "low"


def common(confidences: Sequence[Confidence]) -> Confidence:
    """Return the combined confidence that every one of several queries was answered."""
    return confidences[0] if len(set(confidences)) == 1 else "low"


def unclear_note(queries: Sequence[str]) -> str:
    """Return a note naming the queries that found nothing likely; the empty string if all did."""
    listed = ", ".join(f'"{query}"' for query in queries)
    return f"Nothing likely for {listed}; try other words for the same thing." if queries else ""


def doubt(
    noun: str, search_type: SearchType, matches: Sequence[Match[int]], confidence: Confidence, evidence: Evidence
) -> str:
    """Return why the first match may not be the intended one, in words about a ``noun``; empty if it is.

    Mentions only what the caller may see.
    """
    if confidence == "high":
        return ""
    if matches and matches[0].reason == "prefix":
        text = _BEGUN_NOTE
    elif search_type is not SearchType.FTS or not matches:
        text = _WEAK_NOTES.get((search_type, confidence), "")
    elif evidence.words < _MOST:
        text = _FEW_WORDS
    elif len(matches) == 1:
        text = _ONLY_ONE
    else:
        text = _EQUAL if evidence.gap < _EQUAL_GAP else _UNSURE
    return text.format(noun=noun)


def note(request: Request, *reasons: str) -> str | None:
    """Return why little or nothing was found: the first applicable reason, and which words were ignored."""
    cut = f"Only the first {QUERY_MAX} characters of the query counted." if len(request.query) > QUERY_MAX else ""
    return " ".join(filter(None, (cut, next(filter(None, reasons), "")))) or None
