"""From a query to tools in order: exact names, patterns, and full text, each with its scores.

Knows how matches are found, scored and ordered; never knows policies, sessions or how a result is shown.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from toolcrib.base.recent import Recent
from toolcrib.base.text import QUERY_MAX, query_terms
from toolcrib.model import SIDE_EFFECTS_ORDER, SearchType, Tool
from toolcrib.search.bm25 import Field
from toolcrib.search.documents import KEPT_MAX
from toolcrib.search.pattern_search import PatternSearch, short_enough
from toolcrib.search.relevance import NO_EVIDENCE, Evidence, Relevance
from toolcrib.search.scoring import (
    CANDIDATES,
    Confidence,
    common,
    confidence_in,
    note,
    separate,
    spread,
    strength,
    unclear_note,
    without_full_text,
)
from toolcrib.search.semantic import NEAREST, Semantic
from toolcrib.search.stemming import Stemmer
from toolcrib.streams.json_steps import collector_paused
from toolcrib.tools.index.catalog import Catalog, Permitted, Pool
from toolcrib.tools.index.tool_index import ToolIndex

FIELDS = (
    Field(3, 0.4),  # name
    Field(2, 0.3),  # summary
    Field(0.8, 0.5),  # description
    Field(1.2, 0.6, 0.3),  # parameters
    Field(0.5, 0.5, 0.3),  # descriptions of parameters
    Field(0.7, 0.3),  # server
    Field(0.7, 0.3),  # tags
)
"""Measured on four catalogs; all of it is flat around these values."""

_NO_WORDS = ("",) * len(FIELDS)
_QUICK_MAX = 1500
"""So many tools can be ranked in less than it takes to ask a thread."""

Order = Callable[[Tool], tuple[int, int, int, str]]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search as the caller asked for it. ``query`` is trimmed and not empty; ``server`` is a server's key.

    A full-text query of several short lines is several queries.
    """

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
    """Hits, best first. ``effective`` is the search that was done; ``note`` tells why little was found.

    ``strength`` is how much speaks for the first hit, comparable between queries; ``confidence`` comes from it.
    """

    hits: tuple[Scored, ...]
    effective: SearchType
    confidence: Confidence
    strength: float
    note: str | None
    truncated_query: bool


@dataclass(frozen=True, slots=True)
class _Task:
    """One query of a request, and the tools that may be found."""

    query: str
    request: SearchRequest
    pool: Pool
    catalog: Catalog
    permitted: Permitted


@dataclass(frozen=True, slots=True)
class _Part:
    """What was found for one query."""

    hits: list[Scored]
    confidence: Confidence
    strength: float


class Searcher:
    """Ranks the tools that a caller may use. Safe to use from several threads.

    ``preferred_namespaces`` are server keys, first wins ties (R69). ``fallback``: without FTS5, answer a
    full-text search by patterns instead of refusing it (R70). ``regex_ms`` bounds one pattern search,
    by ``clock``: the thread's own time, so that what else the machine does is not the pattern's fault.
    ``semantic`` adds meaning to words in a full-text search.
    """

    def __init__(  # noqa: PLR0913 - one for each setting of the search
        self,
        index: ToolIndex,
        *,
        preferred_namespaces: Sequence[str] = (),
        fallback: bool = True,
        regex_ms: float = 100,
        clock: Callable[[], float] = time.thread_time,
        semantic: Semantic | None = None,
    ) -> None:
        self._index, self._semantic = index, semantic
        self._order = _tie_break(preferred_namespaces)
        self._fallback = fallback
        self._patterns = PatternSearch[Tool](_names, regex_ms, clock)
        self._texts = Recent[int, Mapping[int, Sequence[str]]](1)
        self._stem = Stemmer()
        self._rankers = Recent[Permitted, Relevance](KEPT_MAX)

    def search(self, request: SearchRequest, catalog: Catalog, permitted: Permitted) -> SearchResult:
        """Return the best hits among what ``permitted`` holds, which is part of ``catalog``.

        Raises:
            BadRequest: a pattern cannot be used, or full-text search is neither there nor replaced.
            StoreError: the index cannot be read.

        """
        pool = permitted.pool(include_always=request.include_always, server=request.server)
        effective = request.search_type
        if effective is SearchType.FTS and not self._index.fts:
            effective = without_full_text(fallback=self._fallback)
        queries = separate(request.query) if request.search_type is SearchType.FTS else [request.query]
        parts = [self._part(_Task(query, request, pool, catalog, permitted)) for query in queries]
        hits = parts[0].hits if len(parts) == 1 else self._merged([part.hits for part in parts], request.limit)
        confidence = common([part.confidence for part in parts])
        unclear = [query for query, part in zip(queries, parts, strict=True) if part.confidence != "high"]
        about = _empty_note(request, pool, permitted) or (unclear_note(unclear) if len(parts) > 1 else "")
        return SearchResult(
            hits=tuple(hits[: request.limit]),
            effective=effective,
            confidence=confidence,
            strength=min(part.strength for part in parts),
            note=note("tool", request, effective, confidence, about),
            truncated_query=len(request.query) > QUERY_MAX,
        )

    def is_quick(self, request: SearchRequest, permitted: Permitted) -> bool:
        """Return whether :meth:`search` takes a millisecond or two only; else a thread should do it."""
        if request.search_type is SearchType.EXACT:
            return True
        if request.search_type is SearchType.REGEX or not self._index.fts:
            return False
        if self._semantic is not None and not self._semantic.is_quick(permitted):
            return False
        return len(permitted.tools) <= _QUICK_MAX and permitted in self._rankers and "\n" not in request.query

    def _part(self, task: _Task) -> _Part:
        """Search for one query."""
        kind = task.request.search_type
        evidence = NO_EVIDENCE
        if kind is SearchType.EXACT:
            hits = self._by_name(task)
        elif kind is SearchType.REGEX:
            hits = self._sorted(self._matching(short_enough(task.query), task, task.request.limit))
        elif self._index.fts:
            hits, evidence = self._by_full_text(task)
        else:
            hits = self._by_alternation(task)
        return _Part(hits, confidence_in(hits, kind, evidence), strength(hits, evidence))

    def _merged(self, parts: Sequence[Sequence[Scored]], limit: int) -> list[Scored]:
        """Return the best of several searches: each in turn gives its next hit, and a hit has its best score."""
        chosen: dict[int, Scored] = {}
        for hit in filter(None, chain.from_iterable(zip_longest(*parts))):
            known = chosen.get(hit.tool.row)
            if known is None and len(chosen) == limit:
                break
            if known is None or hit.score > known.score:
                chosen[hit.tool.row] = hit
        return self._sorted(chosen.values())

    def _by_name(self, task: _Task) -> list[Scored]:
        """Exact search: the name as written, else in any case and with any separator (R50)."""
        query = task.query[:QUERY_MAX]
        for named in (task.catalog.spelled(query), task.catalog.exact(query)):
            hits = [Scored(tool, 1.0, SearchType.EXACT) for tool in named if tool.row in task.pool.by_row]
            if hits:
                return self._sorted(hits)
        return []

    def _by_alternation(self, task: _Task) -> list[Scored]:
        """Search for any of the query's words as a pattern: what is left of full text without FTS5 (R33)."""
        named = self._named(task)
        terms = query_terms(task.query)
        if not terms:
            return named
        known = {hit.tool.row for hit in named}
        found = self._matching("|".join(terms), task, task.request.limit + len(named))
        return named + self._sorted(hit for hit in found if hit.tool.row not in known)

    def _matching(self, expression: str, task: _Task, enough: int) -> list[Scored]:
        generation = task.catalog.generation
        found = self._patterns.search(
            expression, task.pool.tools, lambda: self._texts.get(generation, self._read_texts), enough=enough
        )
        return [Scored(tool, score, SearchType.REGEX) for tool, score in found]

    def _read_texts(self) -> Mapping[int, Sequence[str]]:
        return {row: (text.description, *text.tags) for row, text in self._index.texts().items()}

    def _by_full_text(self, task: _Task) -> tuple[list[Scored], Evidence]:
        """Full-text search; a query that is a tool's name puts that tool first, outside the scores of the rest."""
        named = self._named(task)
        known = {hit.tool.row for hit in named}
        tools = task.permitted.tools
        count = max(CANDIDATES + len(known), NEAREST if self._semantic else 0)
        ranked = self._ranker(task.permitted).rank(task.query, task.pool.numbers, count)
        if self._semantic is not None:
            ranked = self._semantic.fused(ranked, task.query, task.permitted, task.pool.numbers)
        rest = [(tools[number], value) for number, value in ranked.matches if tools[number].row not in known]
        rest = rest[:CANDIDATES]
        scores = spread([relevance for _, relevance in rest])
        hits = [Scored(tool, score, SearchType.FTS) for (tool, _), score in zip(rest, scores, strict=True)]
        return named + self._sorted(hits), ranked.evidence

    def _named(self, task: _Task) -> list[Scored]:
        tools = [tool for tool in task.catalog.exact(task.query) if tool.row in task.pool.by_row]
        return self._sorted([Scored(tool, 1.0, SearchType.EXACT) for tool in tools])

    def _ranker(self, permitted: Permitted) -> Relevance:
        """Return what ranks these tools. Words of tools that the caller may not use are not even looked at (law 2)."""
        return self._rankers.get(permitted, lambda: self._made_ranker(permitted))

    def _made_ranker(self, permitted: Permitted) -> Relevance:
        with collector_paused():
            texts = self._index.words(permitted.rows)
            documents = (texts.get(tool.row, _NO_WORDS) for tool in permitted.tools)
            return Relevance(documents, self._stem, FIELDS)

    def _sorted(self, hits: Iterable[Scored]) -> list[Scored]:
        """Return hits by score, ties by R54."""
        return sorted(hits, key=lambda hit: (-hit.score, *self._order(hit.tool)))


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


def _empty_note(request: SearchRequest, pool: Pool, permitted: Permitted) -> str:
    """Return why there was nothing to look for; the empty string where there was something."""
    if not permitted.tools:
        return "No tools are known."
    if pool.tools:
        return ""
    if request.server is not None and not permitted.pool(server=request.server).tools:
        return "There is no tool of such a server."
    return "All of these tools are always loaded; include_always_loaded finds them too."
