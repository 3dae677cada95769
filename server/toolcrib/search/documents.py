"""Documents, requests and results of a search, with pattern matching, scores, confidence and notes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Literal, Protocol, TypeVar, get_args

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SearchType
from toolcrib.base.patterns import PATTERN_MAX, Pattern, PatternError, compile_pattern
from toolcrib.base.text import QUERY_MAX
from toolcrib.search.capabilities import Capabilities
from toolcrib.search.confidence import Confidence, Evidence, word_for
from toolcrib.search.postings import Does, Postings, Text, Version, Worded
from toolcrib.search.query import Actions, Verbs
from toolcrib.search.ranking import Context, Field, Lessons

FULL_NAME, PREFIX, PART_OF_NAME, OTHER_TEXT = 0.95, 0.90, 0.85, 0.75
"""The score of a match (R51), by where the pattern matched."""

_TRIED_UNWATCHED = 8
"""Documents tried between two checks of the clock: reading a thread's CPU clock costs more than most patterns."""

_OF_WHOLE_TEXTS = ("(?", r"\A", r"\z")
"""Flags and anchors whose meaning would change over several lines."""


class PatternSearch:
    """Matches patterns against documents with names. Safe to use from several threads; may take tens of milliseconds.

    ``limit_ms`` bounds one search, measured by ``clock``.
    """

    def __init__(self, limit_ms: float, clock: Callable[[], float]) -> None:
        self._limit_ms = limit_ms
        self._clock = clock

    def search(
        self,
        expression: str,
        numbers: Iterable[int],
        spellings: Callable[[int], Sequence[str]],
        texts: Callable[[], Mapping[int, Sequence[str]]],
        *,
        enough: int,
    ) -> list[tuple[int, float]]:
        """Return the documents that match, with their scores. ``spellings`` returns every form of a document's name.

        ``texts`` returns the other texts by document; it is called only if fewer than ``enough`` names match, because
        texts score lower.

        Raises:
            BadRequest: the pattern is invalid or too large, or took too long.

        """
        try:
            pattern = compile_pattern(expression, ignore_case=True)
        except PatternError as error:
            raise BadRequest(f"Not a usable RE2 pattern: {error}.") from None
        first_look = _over_lines(expression)
        # Compiling is bounded by itself, and the first one loads RE2, which is no fault of the pattern.
        deadline = self._clock() + self._limit_ms / 1000
        matches: list[tuple[int, float]] = []
        others: list[int] = []
        for place, number in enumerate(numbers):
            self._check(deadline, place)
            names = spellings(number)
            may_match = first_look is None or first_look.search("\n".join(names)) is not None
            score = _name_score(pattern, names) if may_match else 0
            if score:
                matches.append((number, score))
            else:
                others.append(number)
        if len(matches) < enough:
            before = self._clock()
            by_number = texts()
            deadline += self._clock() - before  # reading them is not part of matching
            for place, number in enumerate(others):
                self._check(deadline, place)
                if any(map(pattern.search, by_number.get(number, ()))):
                    matches.append((number, OTHER_TEXT))
        return matches

    def _check(self, deadline: float, place: int) -> None:
        if place % _TRIED_UNWATCHED == 0 and self._clock() > deadline:
            raise BadRequest(
                f"The pattern took longer than {self._limit_ms:g} ms; make it simpler, or search by words."
            )


def short_enough(pattern: str) -> str:
    """Return a caller's pattern if it is not too long.

    Raises:
        BadRequest: it has too many characters.

    """
    if len(pattern) > PATTERN_MAX:
        raise BadRequest(f"The pattern has {len(pattern)} characters; at most {PATTERN_MAX} are allowed.")
    return pattern


def _over_lines(expression: str) -> Pattern | None:
    """Return a pattern that matches joined lines wherever ``expression`` matches one of them.

    It may match more. A single match over all names rules out most items without trying each name. None if the
    expression's own anchors and flags could mean something else over several lines.
    """
    if any(mark in expression for mark in _OF_WHOLE_TEXTS):
        return None
    try:
        # With (?m) the anchors ^ and $ apply to each line, as they do to each name alone.
        return compile_pattern(f"(?m){expression}", ignore_case=True)
    except PatternError:
        return None


def _name_score(pattern: Pattern, names: Iterable[str]) -> float:
    """Return the best score of an item's names, 0 if none matches."""
    best = 0.0
    for name in names:
        if pattern.search(name) is None:
            continue
        if pattern.fullmatch(name):
            return FULL_NAME
        best = max(best, PREFIX if pattern.match(name) else PART_OF_NAME)
    return best


T_co = TypeVar("T_co", covariant=True)

_UNIT = 10.0
"""The relevance that maps to a score of one half: about that of one rare word, so that scores spread well."""

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

    ``evidence`` is that for the first match, of several queries the weakest; ``confidence`` is derived from it.
    ``note`` says why little or nothing was found.
    """

    matches: tuple[Match[T_co], ...]
    count: int
    confidence: Confidence
    evidence: Evidence
    note: str | None

    @property
    def strength(self) -> float:
        """Return the estimated likelihood that the first match is right, comparable between queries."""
        return self.evidence.strength

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


def confidence_of(matches: Sequence[Match[int]], evidence: Evidence, unlikely: float = 0.0) -> Confidence:
    """Return how likely the first match is the intended one: by where a pattern matched, else by the evidence for it.

    With a strength below ``unlikely`` no match is likely. Scores are not used, because the best of fifty bad matches
    has the score 1 too.
    """
    if not matches:
        return "none"
    if matches[0].match_type is SearchType.REGEX:
        return "high" if matches[0].score > OTHER_TEXT else "low"
    return word_for(evidence, unlikely)


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


CACHED_MAX = 4
"""Number of document sets for which postings, texts and vectors are cached."""


NO_LOSSES: Mapping[int, float] = MappingProxyType({})
"""Only words count."""


class Documents(Protocol):
    """All documents visible to one caller, as one immutable value, used as the cache key for what is derived from it.

    Words, statistics and vectors come from these documents alone, as this caller may read them. Callers with the same
    rights should share the value, or everything is computed twice. Deleted rows are omitted from each result.
    """

    @property
    def in_order(self) -> Sequence[int]:
        """The row of each document; its index here is its number."""
        ...

    def __hash__(self) -> int:
        """Distinguish it from every other such set."""
        ...

    def versions(self) -> Sequence[Version | None]:
        """Return by number a value that identifies the words of each document; None if they cannot be identified."""
        ...

    def words(self, rows: Iterable[int]) -> Mapping[int, Worded]:
        """Return by row the text of each of the kind's fields, the name first, with the version of that text."""
        ...

    def stored(self, does: Does | None) -> AbstractContextManager[Postings] | None:
        """Open postings of these documents that are stored on disk, for one query; None: there are none.

        ``does`` derives a document's actions from its texts.
        """
        ...

    def texts(self) -> Mapping[int, Sequence[str]]:
        """Return by row the texts that a pattern is tried on besides names."""
        ...

    def embedded_versions(self) -> Sequence[Version | None]:
        """Return by number the key under which the vector of each document is stored; None: its text has to be read.

        Not :meth:`versions`: words are read with capabilities and requests that the text to embed has not.
        """
        ...

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return by row the text to embed for this caller, given ``stored``, the text without regard to callers."""
        ...


class Scope(Protocol[T_co]):
    """The documents that one search may find, and their names."""

    @property
    def documents(self) -> Documents:
        """All documents visible to the caller."""
        ...

    @property
    def numbers(self) -> frozenset[int] | None:
        """The numbers of those that this search may find; None: all."""
        ...

    @property
    def emptiness(self) -> str:
        """Why there is nothing to find, as a sentence for the caller; empty if there is something."""
        ...

    @property
    def losses(self) -> Mapping[int, float]:
        """Score reductions for reasons other than words, by number; documents without one are omitted."""
        ...

    @property
    def context(self) -> Context | None:
        """What is said about groups of the visible documents; None: nothing is."""
        ...

    def lessons(self, query: str) -> Lessons:
        """Return what usage has taught about the words of a query, for documents that this search may find."""
        ...

    def document(self, number: int) -> T_co:
        """Return the document with this number."""
        ...

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:
        """Return the findable documents that the query names, each with the reason.

        ``as_written``: if names are spelled exactly like this, only those count.
        """
        ...

    def begun(self, query: str) -> Iterable[int]:
        """Return the findable documents whose name begins with the query, in any order."""
        ...

    def spellings(self, number: int) -> Sequence[str]:
        """Return every form of a document's name that a pattern is tried on."""
        ...

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        """Return a sort key for matches of equal score and reason; their documents are numbers here."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of documents. ``noun`` is the word for one of them in notes.

    ``fields`` are its text fields. ``does`` derives a document's actions from its words, if they tell. If the strength
    of the first match is below ``unlikely``, no match is likely. ``plain_beginnings``: name prefixes rank before other
    text matches even if the query may be an ordinary word. ``capabilities`` are those whose ways of asking are among
    the words of documents, if any are.
    """

    noun: str
    fields: Sequence[Field]
    plain_beginnings: bool = False
    unlikely: float = 0.0
    does: Callable[[Verbs, Sequence[Text]], Actions] | None = None
    capabilities: Capabilities | None = None
