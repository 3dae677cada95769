"""A search as it is asked for, the matches that it finds, and what they are worth: scores, confidence, notes.

Knows numbers, words and search types; never knows what a document is, how one is found or who may see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from toolcrib.base.text import QUERY_MAX
from toolcrib.model import SearchType
from toolcrib.search.pattern_search import OTHER_TEXT
from toolcrib.search.relevance import Evidence

T_co = TypeVar("T_co", covariant=True)

_UNIT = 10.0
"""A relevance that is squeezed to one half: about that of one rare word, so that scores spread well."""

_COVERAGE_SHARE, _GAP_SHARE, _ACTION_SHARE = 0.5, 0.15, 0.5
_STRONGEST = 2.0
"""The strength of a whole name: more than level, coverage and gap can add up to."""
_LIKELY = 1.02
"""How strong the evidence for a likely match is.

Chosen on the tuned half of the repository's set, with requests about software that nothing there serves: of all that is
called high the first is right at least eight times of ten (ADR 43).
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
"""Below this share of words a note calls them few; below this gap two matches fit about equally."""
_BEGUN_NOTE = "The names of these {noun}s only begin like this."

Confidence = Literal["high", "low", "none"]
"""How likely the first match is what was meant: it is; it is likely among these; none of these is likely."""

Reason = Literal["exact_path", "exact_name", "prefix", "text"]
"""Why a document was found: by its place or id, its name, the beginning of its name, or anything else (R171)."""

RANKS: Mapping[Reason, int] = {reason: rank for rank, reason in enumerate(get_args(Reason))}
"""The place of each reason; of equal scores the one with the lower place comes first."""


@dataclass(frozen=True, slots=True)
class Request:
    """A search as the caller asked for it. ``query`` is not blank; a full-text query of short lines is several.

    ``limit`` is how many matches are wanted, from 1.
    """

    query: str
    search_type: SearchType = SearchType.FTS
    limit: int = 8


@dataclass(frozen=True, slots=True)
class Match(Generic[T_co]):
    """A document that was found. ``match_type`` is exact where the whole query is its name, else as was searched.

    ``score`` is in [0, 1], two decimals, higher is better, comparable inside one result only (R49, R133).
    """

    document: T_co
    score: float
    match_type: SearchType
    reason: Reason = "text"


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """Matches, best first, of ``count`` in all. A full-text search finds 50 at most for a query, besides names.

    ``strength`` is how much speaks for the first match, comparable between queries; ``confidence`` comes from it.
    ``note`` tells why little or nothing was found.
    """

    matches: tuple[Match[T_co], ...]
    count: int
    confidence: Confidence
    strength: float
    note: str | None

    @property
    def truncated(self) -> bool:
        """Return whether there are more than were wanted."""
        return self.count > len(self.matches)


def spread(relevances: Sequence[float]) -> list[float]:
    """Return relevances as scores: squeezed below 1, then spread from the least to the greatest (C5, R53)."""
    squeezed = [relevance / (_UNIT + relevance) for relevance in relevances]
    least, greatest = min(squeezed, default=0.0), max(squeezed, default=0.0)
    if greatest == least:
        return [0.5] * len(squeezed)
    return [round((value - least) / (greatest - least), 2) for value in squeezed]


def strength_of(matches: Sequence[Match[int]], evidence: Evidence) -> float:
    """Return how much speaks for the first match, comparable between queries: 0 without any, the most for a name."""
    if not matches:
        return 0.0
    if matches[0].match_type is SearchType.EXACT:
        return _STRONGEST
    return _strength(evidence)


def is_sure(evidence: Evidence) -> bool:
    """Return whether so much speaks for the first match by words that it is called likely."""
    return _strength(evidence) >= _LIKELY


def _strength(evidence: Evidence) -> float:
    known = evidence.level + _COVERAGE_SHARE * evidence.coverage + _GAP_SHARE * evidence.gap
    return max(known - _ACTION_SHARE * (1 - evidence.agreed), 0.0)


def confidence_of(matches: Sequence[Match[int]], strength: float, unlikely: float = 0.0) -> Confidence:
    """Return how likely the first match is what was meant: by where a pattern matched, else by its strength.

    Of a strength below ``unlikely`` none of the matches is likely; of a strength of 0 nothing is known. Nothing here
    compares matches by score: the best of fifty bad ones has the score 1 too.
    """
    if not matches:
        return "none"
    if matches[0].match_type is SearchType.REGEX:
        return "high" if matches[0].score > OTHER_TEXT else "low"
    if 0 < strength < unlikely:
        return "none"
    return "high" if strength >= _LIKELY else "low"


def common(confidences: Sequence[Confidence]) -> Confidence:
    """Return how likely it is that every one of several queries was answered."""
    return confidences[0] if len(set(confidences)) == 1 else "low"


def unclear_note(queries: Sequence[str]) -> str:
    """Return which of several queries found nothing likely; the empty string where all did."""
    listed = ", ".join(f'"{query}"' for query in queries)
    return f"Nothing likely for {listed}; try other words for the same thing." if queries else ""


def doubt(
    noun: str, search_type: SearchType, matches: Sequence[Match[int]], confidence: Confidence, evidence: Evidence
) -> str:
    """Return why the first match may not be what was meant, in words about a ``noun``; empty where it is.

    Speaks of what the caller may see only.
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
    """Return why little or nothing was found: the first of the reasons that there is, and what did not count."""
    cut = f"Only the first {QUERY_MAX} characters of the query counted." if len(request.query) > QUERY_MAX else ""
    return " ".join(filter(None, (cut, next(filter(None, reasons), "")))) or None
