"""Searches documents: by name, by name prefix, by words and vectors, and by pattern."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Generic, TypeVar

from toolcrib.base.cache import Recent
from toolcrib.base.json_decoding import collector_paused
from toolcrib.base.model import SearchType
from toolcrib.base.text import QUERY_MAX, spelling_key
from toolcrib.search.confidence import CERTAINTY, NO_EVIDENCE, Confidence, Evidence, common, is_sure
from toolcrib.search.documents import (
    CACHED_MAX,
    RANKS,
    Documents,
    Found,
    Kind,
    Match,
    PatternSearch,
    Request,
    Scope,
    confidence_of,
    doubt,
    note,
    short_enough,
    spread,
    unclear_note,
)
from toolcrib.search.english import read_synonyms, stem
from toolcrib.search.postings import Counting, Does, Inverted, Postings, Version, Worded, nothing
from toolcrib.search.query import may_be_foreign, parsed, read_verbs
from toolcrib.search.ranking import FieldedBm25, Relevance, boosted, supported
from toolcrib.search.semantic import Semantic
from toolcrib.search.translation import Translations

T = TypeVar("T")

CANDIDATES = 50
"""How many matches of a full-text query are ranked, regardless of the limit (C5b)."""

_QUERIES_MAX, _SHORT_QUERY = 8, 80
"""Maximum number of queries in one text, one per line, and maximum length of such a line in characters."""

_QUICK_MAX = 1500
"""This many documents are ranked in less time than it takes to hand over to a thread."""

_QUICK_LETTERS_MAX = 512
"""A request of this many characters is ranked in about a millisecond; a longer one has more words."""

_BEHIND_MAX, _NEARLY_ALL = 100, 0.9
"""Maximum number of documents that a search indexes itself, about ten milliseconds of work; and the shared fraction at
which a known index is good enough as a base.
"""

_BEGINNING_MIN = 3
"""A shorter query, in letters and digits, is the prefix of too many names."""

_LEAD = 1.25
"""The relevance of a name prefix match, relative to the best text match."""

_IDENTIFIER = re.compile(r"\S*(?:[_./:-]\w|[_:/-]\Z|[a-z][A-Z])\S*")
"""A token that is written like a name or its beginning: with a separator or in camel case."""
_SNAKE = re.compile(r"[^\W_]_+[^\W_]")
"""What only names have; camel case and hyphens are in other words too, such as ``GitHub``."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of a search.

    ``regex_ms`` bounds one search by pattern, measured by ``clock``: CPU time of the thread, so that other load on the
    machine does not count. ``semantic`` adds vectors to words in full-text search. With more than ``ranked_in_memory``
    documents, postings are read from disk if they are stored there.
    """

    regex_ms: float = 100
    clock: Callable[[], float] = time.thread_time
    semantic: Semantic | None = None
    ranked_in_memory: int = 20_000


@dataclass(frozen=True, slots=True)
class _Part:
    """The result for one query. ``matches`` have the numbers of documents."""

    matches: list[Match[int]]
    evidence: Evidence
    confidence: Confidence
    doubt: str


class Engine(Generic[T]):
    """Searches one kind of documents. Safe to use from several threads.

    What is derived from a set of documents is cached for the sets searched most recently.
    """

    def __init__(self, kind: Kind, settings: SearchSettings) -> None:
        self._kind, self._semantic = kind, settings.semantic
        self._in_memory_max = settings.ranked_in_memory
        self._patterns = PatternSearch(settings.regex_ms, settings.clock)
        # The next catalog's are built while those of the current one are still searched.
        self._postings = Recent[Documents, FieldedBm25](2 * CACHED_MAX)
        self._earlier: Sequence[Inverted] = ()
        self._texts = Recent[Documents, Mapping[int, Sequence[str]]](CACHED_MAX)
        self._translations = Translations()

    def search(self, request: Request, scope: Scope[T]) -> Found[T]:
        """Return the best matches in ``scope``.

        Raises:
            BadRequest: a pattern cannot be used.
            StoreError: the texts of documents cannot be read.

        """
        queries = separate(request.query) if request.search_type is SearchType.FTS else [request.query]
        parts = [self._part(query, request, scope) for query in queries]
        matches, count = _merged(parts, request.limit)
        if len(parts) > 1:
            matches = _sorted(matches, scope)
        confidence = common([part.confidence for part in parts])
        known = scope.emptiness
        if not known and len(parts) > 1:
            known = unclear_note(
                [query for query, part in zip(queries, parts, strict=True) if part.confidence != "high"]
            )
        return Found(
            matches=tuple(
                Match(scope.document(each.document), each.score, each.match_type, each.reason)
                for each in matches[: request.limit]
            ),
            count=count,
            confidence=confidence,
            evidence=min((part.evidence for part in parts), key=attrgetter("strength")),
            note=note(request, known, parts[0].doubt),
        )

    def is_quick(self, request: Request, documents: Documents) -> bool:
        """Return whether :meth:`search` takes only a millisecond or two; otherwise it should run in a thread."""
        if request.search_type is SearchType.EXACT:
            return True
        # A pattern may use its whole time limit, and several queries take several times as long.
        if request.search_type is SearchType.REGEX or "\n" in request.query:
            return False
        if len(request.query) > _QUICK_LETTERS_MAX:
            return False
        if self._semantic is not None and not self._semantic.is_quick(documents):
            return False
        if len(documents.in_order) > _QUICK_MAX or documents not in self._postings:
            return False
        postings = self._postings.get(documents, lambda: self._made_postings(documents))
        return not may_be_foreign(request.query, self._ranker(postings).knows) or self._translations.is_loaded

    def known(self) -> Sequence[Inverted]:
        """Return the indexes that new postings can be derived from, most recently used first."""
        return [postings.inverted for postings in reversed(self._postings.values())] or self._earlier

    def begin_with(self, known: Sequence[Inverted]) -> None:
        """Start with the indexes of another engine for the same kind."""
        self._earlier = known

    def prepare(self, documents: Documents) -> None:
        """Build the postings and vectors of documents that are searched next, if a search would have to wait for them.

        Raises:
            StoreError: the texts of documents cannot be read.

        """
        if self._semantic is not None:
            self._semantic.prepare(documents)
        size = len(documents.in_order)
        if size > self._in_memory_max or documents in self._postings or not len(self._postings):
            return
        versions = documents.versions()
        if size - self._nearest(versions).shared(versions) > _BEHIND_MAX:
            self._postings.get(documents, lambda: self._made_postings(documents))

    def _part(self, query: str, request: Request, scope: Scope[T]) -> _Part:
        """Search for one query."""
        evidence = NO_EVIDENCE
        if request.search_type is SearchType.EXACT:
            matches = _named(query[:QUERY_MAX], scope, as_written=True)
        elif request.search_type is SearchType.REGEX:
            matches = self._by_pattern(short_enough(query), request.limit, scope)
        else:
            matches, evidence = self._by_words(query, scope)
            if scope.losses and matches:
                best, matches = _sorted(matches, scope)[0], _lessened(matches, scope.losses)
                # Evidence for the best text match is not evidence for another first match.
                if _sorted(matches, scope)[0].document != best.document:
                    evidence = NO_EVIDENCE
        matches = _sorted(matches, scope)
        if not matches:
            evidence = NO_EVIDENCE
        elif matches[0].match_type is SearchType.EXACT:
            evidence = CERTAINTY
        confidence = confidence_of(matches, evidence, self._kind.unlikely)
        return _Part(
            matches, evidence, confidence, doubt(self._kind.noun, request.search_type, matches, confidence, evidence)
        )

    def _by_pattern(self, pattern: str, enough: int, scope: Scope[T]) -> list[Match[int]]:
        documents = scope.documents
        numbers = range(len(documents.in_order)) if scope.numbers is None else scope.numbers
        found = self._patterns.search(
            pattern,
            numbers,
            scope.spellings,
            lambda: self._texts.get(documents, lambda: self._read_texts(documents)),
            enough=enough,
        )
        return [Match(number, score, SearchType.REGEX) for number, score in found]

    def _read_texts(self, documents: Documents) -> Mapping[int, Sequence[str]]:
        texts = documents.texts()
        return {number: texts[row] for number, row in enumerate(documents.in_order) if row in texts}

    def _by_words(self, query: str, scope: Scope[T]) -> tuple[list[Match[int]], Evidence]:
        """Return documents that the query names, unscored, and those found by words and vectors."""
        named = _named(query, scope, as_written=False)
        known = {match.document for match in named}
        # Named documents are removed from text matches, so as many more are requested.
        with self._opened(scope.documents) as postings:
            ranker = self._ranker(postings)
            # Words of the documents decide, since a catalog may itself be in another language.
            is_english = not may_be_foreign(query, ranker.knows)
            asked = query if is_english else self._translations.in_english(query, ranker.knows)
            ranked = ranker.rank(asked, scope.numbers, CANDIDATES + len(known))
            is_found_by_words = bool(ranked.matches)
            if self._semantic is not None:
                ranked = self._semantic.fused(ranked, query, scope.documents, scope.numbers, postings)
            # Where words are sure, nothing else counts: a clearly better match must not be displaced.
            if not is_sure(ranked.evidence) and (context := scope.context):
                stems = frozenset(map(stem, parsed(asked).terms))
                ranked = supported(ranked, context, stems, postings.rarity, scope.numbers)
            if not is_sure(ranked.evidence) and (lessons := scope.lessons(query)):
                ranked = boosted(ranked, lessons, postings.rarity)
        is_name = _IDENTIFIER.fullmatch(query.strip()) is not None
        begun: list[int] = []
        if is_name or self._kind.plain_beginnings or not is_found_by_words:
            begun = _begun(query, scope, known)
        evidence = ranked.evidence
        # Evidence is about the first match: the only name with this prefix is certain, and evidence for the best text
        # match is not evidence for another first match.
        if begun and not named:
            if is_name and len(begun) == 1:
                evidence = CERTAINTY
            elif ranked.matches and ranked.matches[0][0] != begun[0]:
                evidence = NO_EVIDENCE
        elif not named and (is_name or _SNAKE.search(query)):
            # Whoever writes a name means what has it. Here nothing has, hidden or not, whatever else its words are in.
            evidence = replace(evidence, as_said=False)
        return named + _scored(begun, [pair for pair in ranked.matches if pair[0] not in known]), evidence

    def _ranker(self, postings: Postings) -> Relevance:
        verbs = read_verbs(stem) if self._kind.does else None
        return Relevance(postings, stem, read_synonyms(stem), verbs, self._kind.capabilities)

    def _opened(self, documents: Documents) -> AbstractContextManager[Postings]:
        """Open the postings of these documents, in memory or on disk; words of other documents do not count.

        The choice depends on the number of documents alone, so that a query always has the same answer.
        """
        stored = documents.stored(self._does) if len(documents.in_order) > self._in_memory_max else None
        return stored or nullcontext(self._postings.get(documents, lambda: self._made_postings(documents)))

    def _made_postings(self, documents: Documents) -> FieldedBm25:
        # Postings are many long-lived objects: a collection meanwhile would traverse them and free nothing.
        with collector_paused():
            versions, fields = documents.versions(), self._kind.fields
            inverted, slots = self._nearest(versions).derive(versions, partial(self._read, documents))
            self._earlier = ()
            postings = FieldedBm25(inverted, slots, fields)
            if len(documents.in_order) <= _QUICK_MAX:
                postings.prepare()
            return postings

    def _nearest(self, versions: Sequence[Version | None]) -> Inverted:
        """Return the known index that shares nearly all of some documents, or else the most."""
        known = self.known()
        shared: list[int] = []
        for each in known:
            shared.append(each.shared(versions))
            if shared[-1] >= _NEARLY_ALL * len(versions):
                return each
        return known[shared.index(max(shared))] if known else nothing(self._counting)

    def _read(self, documents: Documents, numbers: Sequence[int]) -> Iterator[Worded]:
        """Yield the words of documents; a deleted one has none."""
        rows = [documents.in_order[number] for number in numbers]
        words, gone = documents.words(rows), Worded(("",) * len(self._kind.fields))
        return (words.get(row, gone) for row in rows)

    @cached_property
    def _counting(self) -> Counting:
        fields = self._kind.fields
        common = {place: field.common for place, field in enumerate(fields) if field.common < 1}
        return Counting(stem, len(fields), common, self._does)

    @cached_property
    def _does(self) -> Does | None:
        return partial(self._kind.does, read_verbs(stem)) if self._kind.does else None


def separate(query: str) -> list[str]:
    """Return the queries of a text, one per line; a longer text on several lines is one query."""
    stripped = (line.strip() for line in query[:QUERY_MAX].split("\n"))
    lines = list(dict.fromkeys(line for line in stripped if line))
    is_list = 1 < len(lines) <= _QUERIES_MAX and all(len(line) <= _SHORT_QUERY for line in lines)
    return lines if is_list else [query[:QUERY_MAX]]


def _named(query: str, scope: Scope[T], *, as_written: bool) -> list[Match[int]]:
    """Return the documents that the whole query names (C16, R50)."""
    named = scope.named(query, as_written=as_written)
    return [Match(number, 1.0, SearchType.EXACT, reason) for number, reason in named.items()]


def _begun(query: str, scope: Scope[T], known: Collection[int]) -> list[int]:
    """Return the first of the documents whose names begin with the query, except those ``known``."""
    if len(spelling_key(query)) < _BEGINNING_MIN:
        return []
    numbers = {number for number in scope.begun(query) if number not in known}
    matches = [Match(number, 0.0, SearchType.FTS, "prefix") for number in numbers]
    return [match.document for match in sorted(matches, key=scope.tie_break)[:CANDIDATES]]


def _scored(begun: Sequence[int], ranked: Iterable[tuple[int, float]]) -> list[Match[int]]:
    """Return candidates with their scores (C5): name prefixes before text matches."""
    first = set(begun)
    rest = [pair for pair in ranked if pair[0] not in first][: CANDIDATES - len(begun)]
    lead = _LEAD * max((relevance for _, relevance in rest), default=1.0)
    scores = spread([lead] * len(begun) + [relevance for _, relevance in rest])
    return [
        *(Match(number, score, SearchType.FTS, "prefix") for number, score in zip(begun, scores, strict=False)),
        *(Match(number, score, SearchType.FTS) for (number, _), score in zip(rest, scores[len(begun) :], strict=True)),
    ]


def _lessened(matches: Iterable[Match[int]], losses: Mapping[int, float]) -> list[Match[int]]:
    """Return matches with their losses subtracted, clamped to valid scores; named documents lose nothing (C16)."""
    return [
        match
        if match.match_type is SearchType.EXACT
        else replace(match, score=max(round(match.score - losses.get(match.document, 0.0), 2), 0.0))
        for match in matches
    ]


def _merged(parts: Sequence[_Part], limit: int) -> tuple[list[Match[int]], int]:
    """Return the merged matches of several queries, and how many there are in all.

    Matches are taken round-robin from the queries up to ``limit``; a match found by several has its best score.
    """
    if len(parts) == 1:
        return parts[0].matches, len(parts[0].matches)
    chosen: dict[int, Match[int]] = {}
    for match in filter(None, chain.from_iterable(zip_longest(*(part.matches for part in parts)))):
        known = chosen.get(match.document)
        if known is None and len(chosen) == limit:
            break
        if known is None or match.score > known.score:
            chosen[match.document] = match
    return list(chosen.values()), len({match.document for part in parts for match in part.matches})


def _sorted(matches: Iterable[Match[int]], scope: Scope[T]) -> list[Match[int]]:
    """Return matches sorted by score, then reason, then the tie-break of their kind (R54, R171)."""
    return sorted(matches, key=lambda each: (-each.score, RANKS[each.reason], *scope.tie_break(each)))
