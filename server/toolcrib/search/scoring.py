"""What the searches for tools and for skills have in common: scores, how sure they are, and what they say about it.

Knows numbers, words and search types; never knows what is searched or who may see it.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from toolcrib.base.text import QUERY_MAX
from toolcrib.errors import BadRequest
from toolcrib.model import SearchType
from toolcrib.search.pattern_search import OTHER_TEXT
from toolcrib.search.relevance import Evidence

CANDIDATES = 50
"""How many matches of a full-text search are scored against each other, whatever the limit is (C5b)."""

_UNIT = 10.0
"""A relevance that is squeezed to one half: about that of one rare word, so that scores spread well."""

_COVERAGE_SHARE, _GAP_SHARE = 0.25, 0.15
_STRONGEST = 2.0
_LIKELY = 0.71
"""How strong the evidence for a likely hit is.

Measured on five catalogs: 85 % of right first hits are above, 92 % of first hits for what nothing there can do below.
"""

_QUERIES_MAX, _SHORT_QUERY = 8, 80
"""How many queries may stand in one text, a line for each, and how many characters a line then has at most."""

Confidence = Literal["high", "low", "none"]


class Asked(Protocol):
    """The part of a search that decides what is said about its result."""

    @property
    def query(self) -> str:
        """The words, name or pattern."""
        ...

    @property
    def search_type(self) -> SearchType:
        """How it is to be read."""
        ...


class Hit(Protocol):
    """The part of a hit that tells how sure it is."""

    @property
    def score(self) -> float:
        """In [0, 1], higher is better."""
        ...

    @property
    def match_type(self) -> SearchType:
        """How it was found; exact means by its name."""
        ...


def spread(relevances: Sequence[float]) -> list[float]:
    """Return relevances as scores: squeezed below 1, then spread from the least to the greatest (C5, R53)."""
    squeezed = [relevance / (_UNIT + relevance) for relevance in relevances]
    least, greatest = min(squeezed, default=0.0), max(squeezed, default=0.0)
    if greatest == least:
        return [0.5] * len(squeezed)
    return [round((value - least) / (greatest - least), 2) for value in squeezed]


def confidence_in(hits: Sequence[Hit], asked: SearchType, evidence: Evidence) -> Confidence:
    """Return how likely the first hit is what was meant: by its name, by where a pattern matched, by the evidence.

    Nothing here compares hits by score: the best of fifty bad hits has the score 1 too.
    """
    if not hits:
        return "none"
    if hits[0].match_type is SearchType.EXACT:
        return "high"
    if hits[0].match_type is SearchType.REGEX:
        is_likely = asked is SearchType.REGEX and hits[0].score > OTHER_TEXT
    else:
        is_likely = strength(hits, evidence) >= _LIKELY
    return "high" if is_likely else "low"


def strength(hits: Sequence[Hit], evidence: Evidence) -> float:
    """Return how much speaks for the first hit, comparable between queries: 0 without any, the most for a name."""
    if not hits:
        return 0.0
    if hits[0].match_type is SearchType.EXACT:
        return _STRONGEST
    return evidence.level + _COVERAGE_SHARE * evidence.coverage + _GAP_SHARE * evidence.gap


def separate(query: str) -> list[str]:
    """Return the queries that stand on lines of their own; a longer text on several lines is one query."""
    stripped = (line.strip() for line in query[:QUERY_MAX].split("\n"))
    lines = list(dict.fromkeys(line for line in stripped if line))
    is_list = 1 < len(lines) <= _QUERIES_MAX and all(len(line) <= _SHORT_QUERY for line in lines)
    return lines if is_list else [query[:QUERY_MAX]]


def common(confidences: Sequence[Confidence]) -> Confidence:
    """Return how likely it is that every one of several queries was answered."""
    return confidences[0] if len(set(confidences)) == 1 else "low"


def unclear_note(queries: Sequence[str]) -> str:
    """Return which of several queries found nothing likely; the empty string where all did."""
    listed = ", ".join(f'"{query}"' for query in queries)
    return f"Nothing likely for {listed}; try other words for the same thing." if queries else ""


def without_full_text(*, fallback: bool) -> SearchType:
    """Return what is done instead of a full-text search where there is no FTS5 (R70).

    Raises:
        BadRequest: nothing is.

    """
    if not fallback:
        raise BadRequest("Full-text search is not available here; use search_type regex or exact.")
    return SearchType.REGEX


def note(noun: str, asked: Asked, effective: SearchType, confidence: Confidence, empty: str) -> str | None:
    """Return why little or nothing was found, in words about a ``noun``; ``empty`` says that there was nothing to find.

    Speaks of what the caller may see only.
    """
    parts: list[str] = []
    if len(asked.query) > QUERY_MAX:
        parts.append(f"Only the first {QUERY_MAX} characters of the query counted.")
    if effective is not asked.search_type:
        parts.append("Full-text search is not available here; any word of the query was looked for.")
    if empty:
        parts.append(empty)
    elif confidence != "high":
        parts.append(_WEAK_NOTES.get((asked.search_type, confidence), "").format(noun=noun))
    return " ".join(filter(None, parts)) or None


_WEAK_NOTES = {
    (SearchType.EXACT, "none"): "No {noun} has this name; search_type fts finds {noun}s by what they do.",
    (SearchType.REGEX, "none"): "No name, description or tag matches the pattern.",
    (SearchType.FTS, "none"): "No {noun} has any of these words; try other words for the same thing.",
    (
        SearchType.FTS,
        "low",
    ): "No {noun} has most of these words; a shorter query about one action may find better ones.",
}
