"""From a query to tools in order: exact names, patterns, and full text, each with its scores.

Knows how matches are found, scored and ordered; never knows policies, sessions or how a result is shown.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from threading import Lock
from typing import Literal

from toolcrib.errors import BadRequest
from toolcrib.index.bm25 import FIELD_COUNT, FieldedBm25
from toolcrib.index.catalog import Catalog, Permitted, Pool
from toolcrib.index.pattern_search import OTHER_TEXT, PatternSearch
from toolcrib.index.stemming import Stemmer
from toolcrib.index.tools import ToolIndex
from toolcrib.model import SIDE_EFFECTS_ORDER, SearchType, Tool
from toolcrib.patterns import PATTERN_MAX
from toolcrib.text import QUERY_MAX, fts_expression, query_terms, words

CANDIDATES = 50
"""How many matches of a full-text search are scored against each other, whatever the limit is (C5b)."""

_RANKERS_MAX = 4
_COVERED_FIELDS = 4
_NO_WORDS = ("",) * FIELD_COUNT

Confidence = Literal["high", "low", "none"]
Order = Callable[[Tool], tuple[int, int, int, str]]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search as the caller asked for it. ``query`` is trimmed and not empty; ``server`` is a server's key."""

    query: str
    search_type: SearchType = SearchType.FTS
    limit: int = 8
    include_always: bool = False
    server: str | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """One hit. ``score`` is in [0, 1], two decimals, higher is better, comparable inside one result only (R49)."""

    tool: Tool
    score: float
    match_type: SearchType


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first. ``effective`` is the search that was done; ``note`` tells why little was found."""

    hits: tuple[Scored, ...]
    effective: SearchType
    confidence: Confidence
    note: str | None
    truncated_query: bool


@dataclass(frozen=True, slots=True)
class _Task:
    """A request with what it is about: the query that counts, and the tools that may be found."""

    query: str
    limit: int
    pool: Pool
    catalog: Catalog
    permitted: Permitted


class Searcher:
    """Ranks the tools that a caller may use. Safe to use from several threads.

    ``preferred_namespaces`` are server keys, first wins ties (R69). ``fallback``: without FTS5, answer a
    full-text search by patterns instead of refusing it (R70). ``regex_ms`` bounds one pattern search,
    by ``clock``: the thread's own time, so that what else the machine does is not the pattern's fault.
    """

    def __init__(
        self,
        index: ToolIndex,
        *,
        preferred_namespaces: Sequence[str] = (),
        fallback: bool = True,
        regex_ms: float = 100,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._index = index
        self._order = _tie_break(preferred_namespaces)
        self._fallback = fallback
        self._patterns = PatternSearch(index, regex_ms, clock)
        self._stem = Stemmer()
        self._rankers: OrderedDict[Permitted, FieldedBm25] = OrderedDict()
        self._lock = Lock()

    def search(self, request: SearchRequest, catalog: Catalog, permitted: Permitted) -> SearchResult:
        """Return the best hits among what ``permitted`` holds, which is part of ``catalog``.

        Raises:
            BadRequest: a pattern cannot be used, or full-text search is neither there nor replaced.
            StoreError: the index cannot be read.

        """
        task = _Task(
            query=request.query[:QUERY_MAX],
            limit=request.limit,
            pool=permitted.pool(include_always=request.include_always, server=request.server),
            catalog=catalog,
            permitted=permitted,
        )
        effective = request.search_type
        if effective is SearchType.FTS and not self._index.fts:
            effective = self._without_full_text()
            hits = self._by_alternation(task)
        elif effective is SearchType.FTS:
            hits = self._by_full_text(task)
        elif effective is SearchType.REGEX:
            hits = self._by_pattern(request.query, task)
        else:
            hits = self._by_name(task)
        confidence = self._confidence(hits, request)
        return SearchResult(
            hits=tuple(hits[: request.limit]),
            effective=effective,
            confidence=confidence,
            note=_note(request, task, effective, confidence),
            truncated_query=len(request.query) > QUERY_MAX,
        )

    def is_quick(self, request: SearchRequest, permitted: Permitted) -> bool:
        """Return whether :meth:`search` takes a few milliseconds only; else a thread should do it."""
        if request.search_type is SearchType.EXACT:
            return True
        if request.search_type is SearchType.REGEX or not self._index.fts:
            return False
        return permitted.whole or permitted in self._rankers

    def _without_full_text(self) -> SearchType:
        if not self._fallback:
            raise BadRequest("Full-text search is not available here; use search_type regex or exact.")
        return SearchType.REGEX

    def _by_name(self, task: _Task) -> list[Scored]:
        """Exact search: the name as written, else in any case and with any separator (R50)."""
        for named in (task.catalog.spelled(task.query), task.catalog.exact(task.query)):
            hits = [Scored(tool, 1.0, SearchType.EXACT) for tool in named if tool.row in task.pool.by_row]
            if hits:
                return self._sorted(hits)
        return []

    def _by_pattern(self, pattern: str, task: _Task) -> list[Scored]:
        if len(pattern) > PATTERN_MAX:
            raise BadRequest(f"The pattern has {len(pattern)} characters; at most {PATTERN_MAX} are allowed.")
        found = self._patterns.search(pattern, task.pool, generation=task.catalog.generation, enough=task.limit)
        return self._sorted([Scored(tool, score, SearchType.REGEX) for tool, score in found])

    def _by_alternation(self, task: _Task) -> list[Scored]:
        """Search for any of the query's words as a pattern: what is left of full text without FTS5 (R33)."""
        named = self._named(task)
        terms = query_terms(task.query)
        if not terms:
            return named
        found = self._patterns.search(
            "|".join(terms), task.pool, generation=task.catalog.generation, enough=task.limit + len(named)
        )
        known = {hit.tool.row for hit in named}
        others = [Scored(tool, score, SearchType.REGEX) for tool, score in found if tool.row not in known]
        return named + self._sorted(others)

    def _by_full_text(self, task: _Task) -> list[Scored]:
        """Full-text search; a query that is a tool's name puts that tool first, outside the scores of the rest."""
        named = self._named(task)
        known = {hit.tool.row for hit in named}
        ranked: list[tuple[int, float]] = []
        for terms in (query_terms(task.query), list(dict.fromkeys(words(task.query)))):
            if terms and not ranked:
                best = self._ranked(terms, task, CANDIDATES + len(known))
                ranked = [pair for pair in best if pair[0] not in known][:CANDIDATES]
        hits = [
            Scored(task.pool.by_row[row], score, SearchType.FTS)
            for (row, _), score in zip(ranked, _scores([relevance for _, relevance in ranked]), strict=True)
        ]
        return named + self._sorted(hits)

    def _named(self, task: _Task) -> list[Scored]:
        tools = [tool for tool in task.catalog.exact(task.query) if tool.row in task.pool.by_row]
        return self._sorted([Scored(tool, 1.0, SearchType.EXACT) for tool in tools])

    def _ranked(self, terms: Sequence[str], task: _Task, count: int) -> list[tuple[int, float]]:
        """Return the best rows of the pool with their relevance, above 0, best first.

        bm25() of FTS5 counts words over the whole table, so only callers who see all of it get its order.
        """
        if task.permitted.whole:
            return [(row, max(-raw, 0.0)) for row, raw in self._matched(fts_expression(terms), task.pool, count)]
        tools = task.permitted.tools
        scores = self._ranker(task.permitted).scores(terms)
        inside = ((-score, number) for number, score in scores.items() if tools[number].row in task.pool.by_row)
        return [(tools[number].row, -score) for score, number in nsmallest(count, inside)]

    def _matched(self, expression: str, pool: Pool, count: int) -> list[tuple[int, float]]:
        if pool.is_most:
            best = self._index.match(expression, count, without=pool.other_rows)
            if all(row in pool.by_row for row, _ in best):
                return best  # else there are rows that are in no catalog yet
        return self._index.match(expression, count, among=pool.rows)

    def _ranker(self, permitted: Permitted) -> FieldedBm25:
        with self._lock:
            ranker = self._rankers.get(permitted)
            if ranker is not None:
                self._rankers.move_to_end(permitted)
                return ranker
        # Made without the lock, which is never held for long: searches of other callers go on meanwhile.
        texts = self._index.words(permitted.rows)
        ranker = FieldedBm25([texts.get(tool.row, _NO_WORDS) for tool in permitted.tools], self._stem)
        with self._lock:
            self._rankers[permitted] = ranker
            if len(self._rankers) > _RANKERS_MAX:
                self._rankers.popitem(last=False)
        return ranker

    def _sorted(self, hits: Iterable[Scored]) -> list[Scored]:
        """Return hits by score, ties by R54."""
        return sorted(hits, key=lambda hit: (-hit.score, *self._order(hit.tool)))

    def _confidence(self, hits: Sequence[Scored], request: SearchRequest) -> Confidence:
        """Return how likely the first hit is what was meant: a name, or half of the query's words, is likely."""
        if not hits:
            return "none"
        best = hits[0]
        if best.match_type is SearchType.EXACT:
            return "high"
        if request.search_type is SearchType.REGEX:
            return "high" if best.score > OTHER_TEXT else "low"
        terms = query_terms(request.query)
        texts = self._index.words([best.tool.row]).get(best.tool.row, _NO_WORDS)[:_COVERED_FIELDS]
        there = {self._stem(word) for text in texts for word in text.split()}
        return "high" if 2 * sum(self._stem(term) in there for term in terms) >= len(terms) else "low"


def _tie_break(preferred_namespaces: Sequence[str]) -> Order:
    """Return the order of tools with equal scores (R54)."""
    preference = {server: rank for rank, server in reversed([*enumerate(preferred_namespaces)])}

    def order(tool: Tool) -> tuple[int, int, int, str]:
        effects = SIDE_EFFECTS_ORDER.get(tool.side_effects) if tool.side_effects else None
        return (
            preference.get(tool.server, len(preferred_namespaces)),
            len(SIDE_EFFECTS_ORDER) if effects is None else effects,
            len(tool.public_name),
            tool.public_name,
        )

    return order


def _scores(relevances: Sequence[float]) -> list[float]:
    """Return relevances as scores: squeezed below 1, then spread from the least to the greatest (C5, R53)."""
    squeezed = [relevance / (1 + relevance) for relevance in relevances]
    least, greatest = min(squeezed, default=0.0), max(squeezed, default=0.0)
    if greatest == least:
        return [0.5] * len(squeezed)
    return [round((value - least) / (greatest - least), 2) for value in squeezed]


def _note(request: SearchRequest, task: _Task, effective: SearchType, confidence: Confidence) -> str | None:
    """Return why little or nothing was found. Speaks of what the caller may see only."""
    parts: list[str] = []
    if len(request.query) > QUERY_MAX:
        parts.append(f"Only the first {QUERY_MAX} characters of the query counted.")
    if effective is not request.search_type:
        parts.append("Full-text search is not available here; any word of the query was looked for.")
    if not task.permitted.tools:
        parts.append("No tools are known.")
    elif not task.pool.tools:
        parts.append(_empty_pool_note(request, task.permitted))
    elif confidence != "high":
        parts.append(_WEAK_NOTES.get((request.search_type, confidence), ""))
    return " ".join(filter(None, parts)) or None


_WEAK_NOTES = {
    (SearchType.EXACT, "none"): "No tool has this name; search_type fts finds tools by what they do.",
    (SearchType.REGEX, "none"): "No name, description or tag matches the pattern.",
    (SearchType.FTS, "none"): "No tool has any of these words; try other words for the same thing.",
    (
        SearchType.FTS,
        "low",
    ): "No tool has most of these words; a shorter query about one action may find better ones.",
}


def _empty_pool_note(request: SearchRequest, permitted: Permitted) -> str:
    if request.server is not None and not permitted.pool(server=request.server).tools:
        return "There is no tool of such a server."
    return "All of these tools are always loaded; include_always_loaded finds them too."
