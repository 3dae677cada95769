"""From a query to skills in order: names and places, patterns, and full text, each with its scores.

Knows how matches are found, scored and ordered; never knows policies, sessions or how a result is shown.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from toolcrib.base.recent import Recent
from toolcrib.base.text import QUERY_MAX, joined, query_terms
from toolcrib.model import SearchType, Skill, TaskType
from toolcrib.search.bm25 import Field
from toolcrib.search.documents import KEPT_MAX
from toolcrib.search.pattern_search import PatternSearch, short_enough
from toolcrib.search.relevance import NO_EVIDENCE, Evidence, Relevance
from toolcrib.search.scoring import (
    CANDIDATES,
    Confidence,
    confidence_in,
    note,
    spread,
    strength,
    without_full_text,
)
from toolcrib.search.stemming import Stemmer
from toolcrib.skills.index.rows import NO_STEMS
from toolcrib.skills.index.shelf import Shelf
from toolcrib.skills.index.skill_index import SkillIndex
from toolcrib.streams.json_steps import collector_paused

Reason = Literal["exact_path", "exact_name", "prefix", "text"]
"""Why a skill was found (R171): by its place or id, its name, the beginning of its name, or anything else."""

FIELDS = (
    Field(2, 0.3),  # name
    Field(1, 0.3),  # title
    Field(2, 0.5),  # trigger and description
    Field(0.5, 0.2),  # tags
    Field(0.4, 0.6),  # body
)
"""Measured: the body finds what no description says, and more of it would outweigh what descriptions say."""

_PREFIX_MIN = 3
_REASONS: tuple[Reason, ...] = ("exact_path", "exact_name", "prefix", "text")


@dataclass(frozen=True, slots=True)
class SkillQuery:
    """A search as the caller asked for it. ``query`` is not blank. ``source``: of this one only; ``tag``: with it."""

    query: str
    search_type: SearchType = SearchType.FTS
    limit: int = 8
    task_type: TaskType | None = None
    source: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class SkillHit:
    """One hit. ``score`` is in [0, 1], two decimals, higher is better, comparable inside one result only (R133)."""

    skill: Skill
    score: float
    match_type: SearchType
    reason: Reason


@dataclass(frozen=True, slots=True)
class SkillFound:
    """Hits, best first, of ``count`` in all; ``effective`` is the search that was done.

    A full-text search finds 50 at most, besides those by name. ``strength`` is how much speaks for the first hit,
    comparable between queries. ``note`` tells why little was found.
    """

    hits: tuple[SkillHit, ...]
    effective: SearchType
    count: int
    truncated: bool
    confidence: Confidence
    strength: float
    note: str | None


@dataclass(frozen=True, slots=True)
class _Task:
    """A query with what it is about: the text that counts, and the skills that may be found, by number."""

    query: str
    limit: int
    shelf: Shelf
    pool: Mapping[int, Skill]


class SkillSearcher:
    """Ranks the skills of a shelf. Safe to use from several threads.

    ``fallback``: without FTS5, answer a full-text search by patterns instead of refusing it (R106). ``regex_ms``
    bounds one pattern search, by ``clock``: the thread's own time. What is made for a shelf is kept while it is one
    of the last few searched, so callers with the same rights should share a shelf.
    """

    def __init__(
        self,
        index: SkillIndex,
        *,
        fallback: bool = True,
        regex_ms: float = 100,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._index = index
        self._fallback = fallback
        self._patterns = PatternSearch[Skill](_names, regex_ms, clock)
        self._stem = Stemmer()
        self._rankers = Recent[Shelf, Relevance](KEPT_MAX)
        self._texts = Recent[Shelf, Mapping[int, Sequence[str]]](1)

    def search(self, query: SkillQuery, shelf: Shelf) -> SkillFound:
        """Return the best hits among the skills of ``shelf``.

        Raises:
            BadRequest: a pattern cannot be used, or full-text search is neither there nor replaced.
            StoreError: the index cannot be read.

        """
        task = _Task(query.query[:QUERY_MAX], query.limit, shelf, _pool(query, shelf))
        effective, evidence = query.search_type, NO_EVIDENCE
        if effective is SearchType.FTS and not self._index.fts:
            effective = without_full_text(fallback=self._fallback)
            hits = self._by_alternation(task)
        elif effective is SearchType.FTS:
            hits, evidence = self._by_full_text(task)
        elif effective is SearchType.REGEX:
            hits = self._sorted(self._matching(short_enough(query.query), task, query.limit), task)
        else:
            hits = self._named(task)
        confidence = confidence_in(hits, query.search_type, evidence)
        return SkillFound(
            hits=tuple(hits[: query.limit]),
            effective=effective,
            count=len(hits),
            truncated=len(hits) > query.limit,
            confidence=confidence,
            strength=strength(hits, evidence),
            note=note("skill", query, effective, confidence, _empty_note(task)),
        )

    def _named(self, task: _Task) -> list[SkillHit]:
        """Return what the whole query names, places before names (C16)."""
        reasons: dict[Skill, Reason] = dict.fromkeys(_inside(task, task.shelf.called(task.query)), "exact_name")
        reasons |= dict.fromkeys(_inside(task, task.shelf.addressed(task.query)), "exact_path")
        hits = [SkillHit(skill, 1.0, SearchType.EXACT, reason) for skill, reason in reasons.items()]
        return self._sorted(hits, task)

    def _named_or_begun(self, task: _Task) -> list[SkillHit]:
        """Return what the query names, then what it is the beginning of the name of: the shortest name first."""
        named = self._named(task)
        if len(joined(task.query)) < _PREFIX_MIN:
            return named
        known = {task.shelf.number(hit.skill) for hit in named}
        begun = [
            SkillHit(skill, 1.0, SearchType.EXACT, "prefix")
            for skill in _inside(task, task.shelf.beginning(task.query))
            if task.shelf.number(skill) not in known
        ]
        return named + sorted(begun, key=lambda hit: (len(hit.skill.name), *_tie_break(hit, task)))

    def _by_full_text(self, task: _Task) -> tuple[list[SkillHit], Evidence]:
        """Full-text search; what the query names comes first, outside the scores of the rest."""
        first = self._named_or_begun(task)
        known = {task.shelf.number(hit.skill) for hit in first}
        among = None if task.pool is task.shelf.by_number else task.pool
        ranked = self._ranker(task.shelf).rank(task.query, among, CANDIDATES + len(known))
        rest = [pair for pair in ranked.matches if pair[0] not in known][:CANDIDATES]
        scores = spread([relevance for _, relevance in rest])
        hits = [
            SkillHit(task.pool[number], score, SearchType.FTS, "text")
            for (number, _), score in zip(rest, scores, strict=True)
        ]
        return first + self._sorted(hits, task), ranked.evidence

    def _by_alternation(self, task: _Task) -> list[SkillHit]:
        """Search for any of the query's words as a pattern: what is left of full text without FTS5 (R106)."""
        first = self._named_or_begun(task)
        terms = query_terms(task.query)
        if not terms:
            return first
        known = {task.shelf.number(hit.skill) for hit in first}
        found = self._matching("|".join(terms), task, task.limit + len(first))
        return first + self._sorted((hit for hit in found if task.shelf.number(hit.skill) not in known), task)

    def _matching(self, expression: str, task: _Task, enough: int) -> list[SkillHit]:
        found = self._patterns.search(
            expression,
            task.pool.values(),
            lambda: self._texts.get(task.shelf, lambda: self._index.short_texts(_rows(task.shelf.everything))),
            enough=enough,
        )
        return [SkillHit(skill, score, SearchType.REGEX, "text") for skill, score in found]

    def _ranker(self, shelf: Shelf) -> Relevance:
        return self._rankers.get(shelf, lambda: self._made_ranker(shelf))

    def _made_ranker(self, shelf: Shelf) -> Relevance:
        with collector_paused():
            stems = self._index.stems(_rows(shelf.skills))
            documents = (stems.get(skill.row, NO_STEMS) for skill in shelf.skills)
            return Relevance(documents, self._stem, FIELDS)

    def _sorted(self, hits: Iterable[SkillHit], task: _Task) -> list[SkillHit]:
        return sorted(hits, key=lambda hit: (-hit.score, *_tie_break(hit, task)))


def _pool(query: SkillQuery, shelf: Shelf) -> Mapping[int, Skill]:
    """Return the skills that may be found, by their number on the shelf; of copies the first that fits."""
    if query.task_type is None and query.source is None and query.tag is None:
        return shelf.by_number
    pool: dict[int, Skill] = {}
    for skill in shelf.everything:
        is_wanted = query.tag is None or query.tag in skill.tags
        if is_wanted and query.task_type in (None, skill.task_type) and query.source in (None, skill.source):
            pool.setdefault(shelf.number(skill), skill)
    return pool


def _inside(task: _Task, skills: Iterable[Skill]) -> list[Skill]:
    """Return those of ``skills`` that may be found; for a copy that may not, the one that it is a copy of."""
    numbers = dict.fromkeys(map(task.shelf.number, skills))
    return [task.pool[number] for number in numbers if number in task.pool]


def _names(skill: Skill) -> tuple[str, ...]:
    return skill.name, f"{skill.source}/{skill.name}"


def _rows(skills: Iterable[Skill]) -> list[int]:
    return [skill.row for skill in skills]


def _tie_break(hit: SkillHit, task: _Task) -> tuple[int, int, str, str]:
    """Return the order of hits with equal scores: why found, source, name (R171)."""
    skill = hit.skill
    return _REASONS.index(hit.reason), task.shelf.source_ranks[skill.source], skill.name, skill.folder


def _empty_note(task: _Task) -> str:
    """Return why there was nothing to look for; the empty string where there was something."""
    if not task.shelf.skills:
        return "No skills are known."
    return "" if task.pool else "There is no skill of this kind."
