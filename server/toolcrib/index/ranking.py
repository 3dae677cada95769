"""From a query to tools in order: exact names, patterns, and full text, each with its scores.

Knows how matches are found, scored and ordered; never knows policies, sessions or how a result is shown.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from toolcrib.index.bm25 import FIELD_COUNT, FieldedBm25
from toolcrib.index.catalog import Catalog, Permitted, Pool
from toolcrib.index.pattern_search import PatternSearch, short_enough
from toolcrib.index.scoring import (
    CANDIDATES,
    RANKERS_MAX,
    Confidence,
    Recent,
    confidence_in,
    covers_half,
    note,
    spread,
    without_full_text,
)
from toolcrib.index.stemming import Stemmer
from toolcrib.index.tools import ToolIndex
from toolcrib.model import SIDE_EFFECTS_ORDER, SearchType, Tool
from toolcrib.text import QUERY_MAX, fts_expression, query_terms, words

_COVERED_FIELDS = 4
_NO_WORDS = ("",) * FIELD_COUNT

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
        self._patterns = PatternSearch[Tool](_names, regex_ms, clock)
        self._texts = Recent[int, Mapping[int, Sequence[str]]](1)
        self._stem = Stemmer()
        self._rankers = Recent[Permitted, FieldedBm25](RANKERS_MAX)

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
            effective = without_full_text(fallback=self._fallback)
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
            note=note("tool", request, effective, confidence, _empty_note(request, task)),
            truncated_query=len(request.query) > QUERY_MAX,
        )

    def is_quick(self, request: SearchRequest, permitted: Permitted) -> bool:
        """Return whether :meth:`search` takes a few milliseconds only; else a thread should do it."""
        if request.search_type is SearchType.EXACT:
            return True
        if request.search_type is SearchType.REGEX or not self._index.fts:
            return False
        return permitted.whole or permitted in self._rankers

    def _by_name(self, task: _Task) -> list[Scored]:
        """Exact search: the name as written, else in any case and with any separator (R50)."""
        for named in (task.catalog.spelled(task.query), task.catalog.exact(task.query)):
            hits = [Scored(tool, 1.0, SearchType.EXACT) for tool in named if tool.row in task.pool.by_row]
            if hits:
                return self._sorted(hits)
        return []

    def _by_pattern(self, pattern: str, task: _Task) -> list[Scored]:
        return self._sorted(self._matching(short_enough(pattern), task, task.limit))

    def _by_alternation(self, task: _Task) -> list[Scored]:
        """Search for any of the query's words as a pattern: what is left of full text without FTS5 (R33)."""
        named = self._named(task)
        terms = query_terms(task.query)
        if not terms:
            return named
        known = {hit.tool.row for hit in named}
        found = self._matching("|".join(terms), task, task.limit + len(named))
        return named + self._sorted(hit for hit in found if hit.tool.row not in known)

    def _matching(self, expression: str, task: _Task, enough: int) -> list[Scored]:
        generation = task.catalog.generation
        found = self._patterns.search(
            expression, task.pool.tools, lambda: self._texts.get(generation, self._read_texts), enough=enough
        )
        return [Scored(tool, score, SearchType.REGEX) for tool, score in found]

    def _read_texts(self) -> Mapping[int, Sequence[str]]:
        return {row: (text.description, *text.tags) for row, text in self._index.texts().items()}

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
            for (row, _), score in zip(ranked, spread([relevance for _, relevance in ranked]), strict=True)
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
        return self._rankers.get(permitted, lambda: self._made_ranker(permitted))

    def _made_ranker(self, permitted: Permitted) -> FieldedBm25:
        texts = self._index.words(permitted.rows)
        return FieldedBm25([texts.get(tool.row, _NO_WORDS) for tool in permitted.tools], self._stem)

    def _sorted(self, hits: Iterable[Scored]) -> list[Scored]:
        """Return hits by score, ties by R54."""
        return sorted(hits, key=lambda hit: (-hit.score, *self._order(hit.tool)))

    def _confidence(self, hits: Sequence[Scored], request: SearchRequest) -> Confidence:
        """Return how likely the first hit is what was meant: a name, or half of the query's words, is likely."""
        return confidence_in(hits, request.search_type, lambda: self._is_covered(hits[0].tool, request.query))

    def _is_covered(self, tool: Tool, query: str) -> bool:
        texts = self._index.words([tool.row]).get(tool.row, _NO_WORDS)[:_COVERED_FIELDS]
        return covers_half(
            {self._stem(word) for text in texts for word in text.split()}, query_terms(query), self._stem
        )


def _names(tool: Tool) -> tuple[str, ...]:
    return tool.public_name, f"{tool.server}.{tool.name}", tool.name


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


def _empty_note(request: SearchRequest, task: _Task) -> str:
    """Return why there was nothing to look for; the empty string where there was something."""
    if not task.permitted.tools:
        return "No tools are known."
    return "" if task.pool.tools else _empty_pool_note(request, task.permitted)


def _empty_pool_note(request: SearchRequest, permitted: Permitted) -> str:
    if request.server is not None and not permitted.pool(server=request.server).tools:
        return "There is no tool of such a server."
    return "All of these tools are always loaded; include_always_loaded finds them too."
